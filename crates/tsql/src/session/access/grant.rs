//! GRANT, DENY and REVOKE.
//!
//! Theory: a principal has at most one entry for a permission on a securable from each grantor; each statement replaces or removes it.
//! The grantor is the principal whose own entry lets the session hand the permission on, a role of it or what AS names, and the owner where
//! it may give all: then REVOKE and DENY are about the entries of all grantors, and GRANT ends what any has denied.
//! Permissions on the server and on logins lie in the grantee's login, those of a database in the database's catalog, so
//! they commit and roll back with the transaction. Who may hand a permission on loses it, or that, with CASCADE alone (4611); then those
//! lose it too, or are denied it, to whom he has handed it on, and to whom they have (`cascade`).

use super::super::definition_locks;
use super::cascade::{Held, who_hands_on};
use super::{DBO, Execution, Securable, ServerRights, class};
use crate::error::Result;
use crate::host::Host;
use crate::instance::MASTER;
use crate::messages;
use crate::sysviews::fixed_role_id;
use daruma_catalog::{
    Change, DatabaseCatalog, LoginDef, PermissionDef, PermissionSet, PermissionState, Put,
    names_equal,
};
use daruma_storage::LockMode;
use daruma_syntax::ast::{self, Grant, GrantVerb};
use std::sync::Arc;

/// Permissions on the server.
const SERVER: &[&str] = &[
    "ADMINISTER BULK OPERATIONS",
    "ALTER ANY AVAILABILITY GROUP",
    "ALTER ANY CONNECTION",
    "ALTER ANY CREDENTIAL",
    "ALTER ANY DATABASE",
    "ALTER ANY ENDPOINT",
    "ALTER ANY EVENT SESSION",
    "ALTER ANY LINKED SERVER",
    "ALTER ANY LOGIN",
    "ALTER ANY SERVER ROLE",
    "ALTER RESOURCES",
    "ALTER SERVER STATE",
    "ALTER SETTINGS",
    "ALTER TRACE",
    "AUTHENTICATE SERVER",
    "CONNECT ANY DATABASE",
    "CONNECT SQL",
    "CONTROL SERVER",
    "CREATE ANY DATABASE",
    "CREATE AVAILABILITY GROUP",
    "CREATE ENDPOINT",
    "IMPERSONATE ANY LOGIN",
    "SELECT ALL USER SECURABLES",
    "SHUTDOWN",
    "VIEW ANY DATABASE",
    "VIEW ANY DEFINITION",
    "VIEW SERVER STATE",
];

/// Permissions on a database besides those that its objects have.
const DATABASE: &[&str] = &[
    "ALTER",
    "ALTER ANY DATABASE DDL TRIGGER",
    "ALTER ANY ROLE",
    "ALTER ANY SCHEMA",
    "ALTER ANY USER",
    "AUTHENTICATE",
    "BACKUP DATABASE",
    "BACKUP LOG",
    "CHECKPOINT",
    "CONNECT",
    "CONTROL",
    "CREATE FUNCTION",
    "CREATE PROCEDURE",
    "CREATE ROLE",
    "CREATE SCHEMA",
    "CREATE SYNONYM",
    "CREATE TABLE",
    "CREATE TYPE",
    "CREATE VIEW",
    "SHOWPLAN",
    "TAKE OWNERSHIP",
    "VIEW DATABASE STATE",
    "VIEW DEFINITION",
];

const OBJECT: &[&str] = &[
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "REFERENCES",
    "EXECUTE",
    "ALTER",
    "CONTROL",
    "TAKE OWNERSHIP",
    "VIEW DEFINITION",
    "VIEW CHANGE TRACKING",
];

/// Permissions that single columns can have.
const OF_COLUMN: &[&str] = &["SELECT", "UPDATE", "REFERENCES"];

/// Permissions that `fn_my_permissions` asks about, on something of this class.
pub(crate) fn permissions_of(class: &str) -> Vec<&'static str> {
    const OF_PRINCIPAL: &[&str] = &["ALTER", "CONTROL", "IMPERSONATE", "VIEW DEFINITION"];
    const OF_ROLE: &[&str] = &["ALTER", "CONTROL", "TAKE OWNERSHIP", "VIEW DEFINITION"];
    let of_contents = || OBJECT.iter().copied().filter(|p| !DATABASE.contains(p));
    match class {
        "SERVER" => SERVER.to_vec(),
        "DATABASE" => DATABASE.iter().copied().chain(of_contents()).collect(),
        "OBJECT" | "SCHEMA" => OBJECT.to_vec(),
        "LOGIN" | "USER" => OF_PRINCIPAL.to_vec(),
        "ROLE" => OF_ROLE.to_vec(),
        _ => Vec::new(),
    }
}

/// A permission, and the columns that it is on; none for the whole object.
struct Meant {
    name: String,
    columns: Vec<i32>,
}

/// In whose name a permission is given or taken.
#[derive(Clone, Copy)]
struct Grantor {
    id: i32,
    /// It takes what others gave, too.
    of_all: bool,
}

/// Securable that the permissions are on.
enum On {
    Server,
    /// A login, endpoint or availability group: class and id.
    Part(u8, i32),
    Database(Securable, &'static str),
}

impl Execution<'_> {
    pub(crate) fn run_grant(&self, grant: &Grant) -> Result<()> {
        let on = self.granted_on(grant)?;
        let wanted = self.permissions_meant(grant, &on)?;
        match on {
            On::Server | On::Part(..) => self.grant_to_logins(grant, &wanted),
            On::Database(..) => self.as_definition(grant, || {
                // As they are when nobody else can change them.
                let on = self.granted_on(grant)?;
                let wanted = self.permissions_meant(grant, &on)?;
                let On::Database(securable, kind) = on else {
                    return Ok(());
                };
                let principals = grant.principals.iter();
                let mut pairs = principals.flat_map(|p| wanted.iter().map(move |one| (p, one)));
                pairs.try_for_each(|(principal, one)| {
                    self.grant_in_database(grant, &principal.text, one, securable, kind)
                })
            }),
        }
    }

    /// Is it about the current database, or something in it?
    pub(crate) fn is_about_database(&self, grant: &Grant) -> bool {
        matches!(self.granted_on(grant), Ok(On::Database(..)))
    }

    /// Takes away what anybody has on something that is dropped, under [`Execution::define_alone`].
    pub(crate) fn forget_permissions_on(
        &self,
        database: daruma_base::DatabaseId,
        class: u8,
        major: i32,
    ) -> Result<()> {
        let catalog = self.state.catalog(database)?;
        for old in catalog.permissions() {
            let mut set = (**old).clone();
            set.list.retain(|p| (p.class, p.major) != (class, major));
            if set.list.len() != old.list.len() {
                self.state
                    .change(database, Change::PutPermissions(Put::over(old, set)))?;
            }
        }
        Ok(())
    }

    /// The same for a schema.
    pub(crate) fn forget_schema_permissions(
        &self,
        database: daruma_base::DatabaseId,
        schema: i32,
    ) -> Result<()> {
        self.forget_permissions_on(database, class::SCHEMA, schema)
    }

    fn as_definition(&self, grant: &Grant, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let database = self.current_database();
        // What is handed on meanwhile would escape CASCADE.
        let mode = match grant.cascade {
            true => LockMode::Exclusive,
            false => LockMode::Shared,
        };
        self.under_definitions(database, mode, || self.atomic(work))
    }

    /// All of the principals get the permissions, or none does.
    fn grant_to_logins(&self, grant: &Grant, wanted: &[Meant]) -> Result<()> {
        // Nobody waits, and nobody waits for him, who may not.
        self.grantees_on_server(grant)?;
        self.atomic(|| {
            self.lock_logins()?;
            for login in self.grantees_on_server(grant)?.1 {
                self.lock_login(login.id)?;
            }
            // As they are when nobody else can change them.
            let (on, found) = self.grantees_on_server(grant)?;
            self.put_on_logins(grant, wanted, on, &found)
        })
    }

    /// What a statement is on, by class and id, and the logins that it names.
    fn grantees_on_server(&self, grant: &Grant) -> Result<((u8, i32), Vec<Arc<LoginDef>>)> {
        let on = match self.granted_on(grant)? {
            On::Part(class, id) => (class, id),
            On::Server | On::Database(..) => (class::SERVER, 0),
        };
        let rights = self.state.server_rights();
        let principals = grant.principals.iter();
        let found = principals.map(|p| self.grantee_on_server(&rights, &p.text, on));
        Ok((on, found.collect::<Result<Vec<_>>>()?))
    }

    fn put_on_logins(
        &self,
        grant: &Grant,
        wanted: &[Meant],
        on: (u8, i32),
        logins: &[Arc<LoginDef>],
    ) -> Result<()> {
        let rights = self.state.server_rights();
        let own = rights.login.as_ref();
        if let Some(named) = &grant.as_principal
            && !own.is_some_and(|own| names_equal(&own.name, &named.text))
        {
            return Err(messages::not_supported("AS another login"));
        }
        let grantor = Grantor {
            id: own.map_or(1, |l| l.id),
            of_all: true,
        };
        let grants = |fresh: &mut LoginDef| {
            for one in wanted {
                let entry = PermissionDef {
                    class: on.0,
                    major: on.1,
                    minor: 0,
                    permission: one.name.clone(),
                    state: PermissionState::Grant,
                    grantor: grantor.id,
                };
                // Nobody on the server hands on what he was given.
                put(grant, &mut fresh.permissions, entry, grantor.of_all)?;
            }
            Ok(())
        };
        let mut logins = logins.iter();
        logins.try_for_each(|login| self.change_login(login, grants))
    }

    /// Permissions with the columns that they are on.
    fn permissions_meant(&self, grant: &Grant, on: &On) -> Result<Vec<Meant>> {
        let after_object = grant.on.as_ref().map_or(&[][..], |s| &s.columns);
        let mut list = Vec::new();
        for permission in &grant.permissions {
            let columns: Vec<&ast::Ident> = permission.columns.iter().chain(after_object).collect();
            let names = self.permission_names(permission, on, !columns.is_empty())?;
            let columns = self.column_ids(on, &names, &columns)?;
            list.extend(names.into_iter().map(|name| Meant {
                name,
                columns: columns.clone(),
            }));
        }
        Ok(list)
    }

    /// Errors 1020 where columns have no permissions of their own, and 4615.
    fn column_ids(&self, on: &On, names: &[String], columns: &[&ast::Ident]) -> Result<Vec<i32>> {
        if columns.is_empty() {
            return Ok(Vec::new());
        }
        let catalog = self.state.catalog(self.current_database())?;
        let object = match on {
            On::Database(Securable::Object { id, .. }, _) => catalog.object(*id),
            _ => None,
        };
        let known = object.map_or(&[][..], |o| super::columns_of(o));
        let fits = names.iter().all(|n| OF_COLUMN.contains(&n.as_str()));
        if known.is_empty() || !fits {
            return Err(messages::error(1020, &[]));
        }
        let id = |column: &&ast::Ident| {
            let found = known.iter().find(|c| names_equal(&c.name, &column.text));
            found
                .map(|c| c.id)
                .ok_or_else(|| messages::error(4615, &[&column.text]))
        };
        columns.iter().map(id).collect()
    }

    fn granted_on(&self, grant: &Grant) -> Result<On> {
        let Some(securable) = &grant.on else {
            let first = grant.permissions.first().map_or("", |p| p.name.as_str());
            return Ok(match SERVER.contains(&first) {
                true => On::Server,
                false => On::Database(Securable::Database, "database"),
            });
        };
        let database = self.current_database();
        let catalog = self.state.catalog(database)?;
        let name = &securable.name.name.text;
        let missing = |kind: &str| messages::error(15151, &[&"find", &kind, &name]);
        match securable.class.as_deref() {
            None | Some("OBJECT") => {
                let object = self.find_object(&securable.name)?;
                let (_, object) = object
                    .filter(|(found, _)| *found == database)
                    .ok_or_else(|| missing("object"))?;
                Ok(On::Database(Securable::of(&object), "object"))
            }
            Some("SCHEMA") => {
                let schema = catalog
                    .schema_named(name)
                    .ok_or_else(|| missing("schema"))?;
                Ok(On::Database(Securable::Schema(schema.id), "schema"))
            }
            Some("DATABASE") => {
                let entry = self.state.instance.database_named(name);
                match entry.is_some_and(|e| e.id() == database) {
                    true => Ok(On::Database(Securable::Database, "database")),
                    false => Err(missing("database")),
                }
            }
            Some("USER" | "ROLE") => {
                let id = self
                    .database_principal(name)
                    .ok_or_else(|| missing("user"))?;
                Ok(On::Database(Securable::Principal(id), "user"))
            }
            Some("LOGIN") => {
                let login = self.state.logins().get(name);
                let id = login.ok_or_else(|| missing("login"))?.id;
                Ok(On::Part(class::LOGIN, id))
            }
            Some("ENDPOINT") => {
                let endpoints = &self.state.instance.hadr.endpoints;
                let found = endpoints.staying(|e| names_equal(&e.name, name));
                let id = found.ok_or_else(|| missing("endpoint"))?.id;
                Ok(On::Part(class::ENDPOINT, id))
            }
            Some("AVAILABILITY GROUP") => {
                let groups = &self.state.instance.hadr.groups;
                let found = groups.staying(|g| names_equal(&g.name, name));
                let id = found.ok_or_else(|| missing("availability group"))?.id;
                Ok(On::Part(class::AVAILABILITY_GROUP, id))
            }
            Some("SERVER") => Ok(On::Server),
            Some(other) => Err(messages::not_supported(&format!("permissions on {other}"))),
        }
    }

    /// The permissions meant, long names for short ones; errors 102 and 4606.
    fn permission_names(
        &self,
        permission: &ast::Permission,
        on: &On,
        of_columns: bool,
    ) -> Result<Vec<String>> {
        let name = match permission.name.as_str() {
            "EXEC" => "EXECUTE",
            "CREATE PROC" => "CREATE PROCEDURE",
            other => other,
        };
        if name == "ALL" || name == "ALL PRIVILEGES" {
            let all = match of_columns {
                true => OF_COLUMN,
                false => self.all_permissions(on),
            };
            return Ok(all.iter().map(|p| (*p).to_string()).collect());
        }
        let known = [SERVER, DATABASE, OBJECT, &["IMPERSONATE"]];
        if !known.iter().any(|list| list.contains(&name)) {
            let word = name.split(' ').next().unwrap_or(name);
            return Err(messages::error(102, &[&word]));
        }
        match self.fits(on, name)? {
            true => Ok(vec![name.to_string()]),
            false => Err(messages::error(4606, &[&name])),
        }
    }

    fn fits(&self, on: &On, name: &str) -> Result<bool> {
        Ok(match on {
            On::Server => SERVER.contains(&name),
            On::Part(class::LOGIN, _) => matches!(
                name,
                "IMPERSONATE" | "ALTER" | "CONTROL" | "VIEW DEFINITION"
            ),
            On::Part(..) => matches!(
                name,
                "CONNECT" | "ALTER" | "CONTROL" | "VIEW DEFINITION" | "TAKE OWNERSHIP"
            ),
            On::Database(Securable::Database, _) => {
                DATABASE.contains(&name) || OBJECT.contains(&name)
            }
            On::Database(Securable::Principal(_), _) => matches!(
                name,
                "IMPERSONATE" | "ALTER" | "CONTROL" | "VIEW DEFINITION" | "TAKE OWNERSHIP"
            ),
            On::Database(Securable::Schema(_), _) => OBJECT.contains(&name),
            On::Database(Securable::Object { id, .. }, _) => {
                OBJECT.contains(&name) && self.fits_object(*id, name)?
            }
        })
    }

    /// A procedure can be executed, not selected from; of functions the scalar ones.
    fn fits_object(&self, id: i32, name: &str) -> Result<bool> {
        use daruma_catalog::ObjectKind::*;
        let catalog = self.state.catalog(self.current_database())?;
        let data = matches!(
            name,
            "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "REFERENCES"
        );
        Ok(match catalog.object(id).map(|o| &o.kind) {
            Some(Procedure(_)) => !data,
            Some(object @ Function(_)) => match is_scalar(object) {
                true => !data || name == "REFERENCES",
                false => name != "EXECUTE",
            },
            Some(Table(_) | View(_)) => name != "EXECUTE",
            Some(Sequence(_)) => !matches!(name, "SELECT" | "INSERT" | "DELETE" | "EXECUTE"),
            _ => true,
        })
    }

    fn all_permissions(&self, on: &On) -> &'static [&'static str] {
        match on {
            On::Database(Securable::Object { id, .. }, _) => {
                match self.fits_object(*id, "EXECUTE") {
                    Ok(true) => &["EXECUTE"],
                    _ => &["SELECT", "INSERT", "UPDATE", "DELETE", "REFERENCES"],
                }
            }
            On::Database(Securable::Database, _) => &[
                "BACKUP DATABASE",
                "BACKUP LOG",
                "CREATE FUNCTION",
                "CREATE PROCEDURE",
                "CREATE TABLE",
                "CREATE VIEW",
            ],
            _ => &["CONTROL"],
        }
    }

    /// The login that is granted something on the server, if the session may do so.
    fn grantee_on_server(
        &self,
        rights: &ServerRights,
        to: &str,
        (class, on): (u8, i32),
    ) -> Result<Arc<LoginDef>> {
        if self.current_database() != MASTER {
            return Err(messages::error(4621, &[]));
        }
        let hands_on = match class {
            class::LOGIN => rights.has("ALTER ANY LOGIN"),
            class::ENDPOINT => rights.has("ALTER ANY ENDPOINT"),
            class::AVAILABILITY_GROUP => rights.has("ALTER ANY AVAILABILITY GROUP"),
            _ => false,
        };
        if !(rights.all || hands_on) {
            return Err(messages::error(4613, &[]));
        }
        let logins = self.state.logins();
        let target = logins.by_id(on).filter(|_| class == class::LOGIN);
        if let Some(target) = target.filter(|target| !rights.reaches(target)) {
            return Err(messages::error(15151, &[&"find", &"login", &target.name]));
        }
        let own = rights.login.as_ref().map(|l| l.id);
        let found = logins
            .get(to)
            .filter(|l| l.id != 1 && (rights.all || Some(l.id) != own));
        found.ok_or_else(|| match logins.get(to) {
            Some(_) => messages::error(4624, &[]),
            None => messages::error(15151, &[&"find", &"login", &to]),
        })
    }

    fn grant_in_database(
        &self,
        grant: &Grant,
        to: &str,
        meant: &Meant,
        on: Securable,
        kind: &str,
    ) -> Result<()> {
        let database = self.current_database();
        let rights = self.state.rights(database)?;
        let grantee = self
            .database_principal(to)
            .ok_or_else(|| messages::error(15151, &[&"find", &"user", &to]))?;
        if grantee >= 16_384 {
            return Err(messages::error(4617, &[]));
        }
        if matches!(grantee, DBO | 3 | 4) || grantee == rights.user_id && !rights.all {
            return Err(messages::error(4624, &[]));
        }
        let shown = grant
            .on
            .as_ref()
            .map_or(String::new(), |s| s.name.name.text.clone());
        let (class, major) = match on {
            Securable::Database => (class::DATABASE, 0),
            Securable::Schema(id) => (class::SCHEMA, id),
            Securable::Object { id, .. } => (class::OBJECT, id),
            Securable::Principal(id) => (class::PRINCIPAL, id),
        };
        let columns = match meant.columns.as_slice() {
            [] => &[0],
            listed => listed,
        };
        let refused = || match on {
            Securable::Database => messages::error(4613, &[]),
            _ => messages::error(15151, &[&"find", &kind, &shown]),
        };
        self.atomic(|| {
            // Nobody waits, and nobody waits for him, who may not.
            self.grantors(grant, database, meant, (on, columns))?
                .ok_or_else(refused)?;
            self.lock_part(database, &definition_locks::permissions(grantee))?;
            // His own may have gone behind the wait.
            let grantors = self.grantors(grant, database, meant, (on, columns))?;
            let grantors = grantors.ok_or_else(refused)?;
            let catalog = self.state.catalog(database)?;
            let old = catalog.permissions_of(grantee);
            let mut list = old.map_or(Vec::new(), |set| set.list.clone());
            let mut gone = Vec::new();
            for (minor, grantor) in columns.iter().zip(&grantors) {
                let entry = PermissionDef {
                    class,
                    major,
                    minor: *minor,
                    permission: meant.name.clone(),
                    state: PermissionState::Grant,
                    grantor: grantor.id,
                };
                gone.extend(put(grant, &mut list, entry, grantor.of_all)?);
            }
            let set = PermissionSet { grantee, list };
            self.state
                .change(database, Change::PutPermissions(Put::of(old, set)))?;
            let gone: Vec<Held> = gone
                .into_iter()
                .map(|entry| Held { grantee, entry })
                .collect();
            match (grant.cascade, grantors.first()) {
                (true, Some(denier)) => {
                    self.take_what_was_handed_on(database, grant.verb, &gone, denier.id)
                }
                _ => Ok(()),
            }
        })
    }

    /// In whose name the session gives or takes the permission on each of these columns; `None` where it may not. Error 15151 for a
    /// principal behind AS that it cannot act for.
    fn grantors(
        &self,
        grant: &Grant,
        database: daruma_base::DatabaseId,
        meant: &Meant,
        (on, columns): (Securable, &[i32]),
    ) -> Result<Option<Vec<Grantor>>> {
        let rights = self.state.rights(database)?;
        let catalog = self.state.catalog(database)?;
        let owner = owner_of_securable(&catalog, on);
        let gives_all = rights.gives_all(&catalog, on);
        let named = match &grant.as_principal {
            Some(name) => Some(self.acted_for(&rights, &catalog, &name.text)?),
            None => None,
        };
        let whose = named.map_or_else(|| rights.principals.clone(), |id| vec![id]);
        let grantor = |column: &i32| match named {
            None if gives_all => Some(Grantor {
                id: owner,
                of_all: true,
            }),
            Some(id) if id == owner || id == DBO => Some(Grantor {
                id,
                of_all: gives_all && id == owner,
            }),
            _ => {
                let place = (on, *column);
                let id = who_hands_on(&catalog, &whose, &meant.name, place)?;
                Some(Grantor { id, of_all: false })
            }
        };
        Ok(columns.iter().map(grantor).collect())
    }

    /// The principal that AS names: the user itself, a role of it, or one that it may impersonate. Error 15151.
    fn acted_for(
        &self,
        rights: &super::Rights,
        catalog: &DatabaseCatalog,
        name: &str,
    ) -> Result<i32> {
        let may = |id: &i32| {
            rights.principals.contains(id)
                || rights.may(catalog, "IMPERSONATE", Securable::Principal(*id))
        };
        let found = self.database_principal(name).filter(may);
        found.ok_or_else(|| messages::error(15151, &[&"find", &"user", &name]))
    }

    /// Id of a user or role of the current database, fixed ones included.
    pub(crate) fn database_principal(&self, name: &str) -> Option<i32> {
        let fixed = [
            (0, "public"),
            (DBO, "dbo"),
            (super::GUEST, "guest"),
            (3, "INFORMATION_SCHEMA"),
            (4, "sys"),
        ];
        if let Some((id, _)) = fixed.iter().find(|(_, n)| names_equal(n, name)) {
            return Some(*id);
        }
        let catalog = self.state.catalog(self.current_database()).ok()?;
        catalog
            .principal_named(name)
            .map(|p| p.id)
            .or_else(|| fixed_role_id(name))
    }
}

/// A user belongs to itself, a role to dbo.
pub(super) fn owner_of_securable(catalog: &DatabaseCatalog, on: Securable) -> i32 {
    match on {
        Securable::Database => DBO,
        Securable::Schema(id) | Securable::Object { schema: id, .. } => {
            super::owner_of(catalog, id)
        }
        Securable::Principal(id) if catalog.principal(id).is_some_and(|p| !p.is_role) => id,
        Securable::Principal(_) => DBO,
    }
}

/// Puts an entry in place, or takes it away; gives what can no longer be handed on. One on the whole object replaces those on its columns.
/// `of_all`: entries of all grantors are meant. Error 4611 where one that may be handed on would go without CASCADE.
fn put(
    grant: &Grant,
    list: &mut Vec<PermissionDef>,
    entry: PermissionDef,
    of_all: bool,
) -> Result<Vec<PermissionDef>> {
    let takes = grant.verb != GrantVerb::Grant;
    let goes = |p: &PermissionDef| {
        let about = (p.class, p.major) == (entry.class, entry.major);
        let is_within = entry.minor == 0 || p.minor == entry.minor;
        // Whoever gives all ends what was denied, and leaves what others gave.
        let is_meant = of_all && (takes || p.state == PermissionState::Deny);
        let is_meant = is_meant || p.grantor == entry.grantor;
        about && p.permission == entry.permission && is_within && is_meant
    };
    let is_grantable = |p: &PermissionDef| p.state == PermissionState::GrantWithOption && goes(p);
    let mut gone: Vec<PermissionDef> = list.iter().filter(|p| is_grantable(p)).cloned().collect();
    if takes && !grant.cascade && !gone.is_empty() {
        return Err(messages::error(4611, &[]));
    }
    if takes && grant.grant_option_for {
        let losing = list.iter_mut().filter(|p| is_grantable(p));
        losing.for_each(|p| p.state = PermissionState::Grant);
        return Ok(gone);
    }
    let stays_grantable = gone.iter().any(|p| p.minor == entry.minor);
    list.retain(|p| !goes(p));
    let state = match grant.verb {
        GrantVerb::Revoke => return Ok(gone),
        GrantVerb::Deny => PermissionState::Deny,
        GrantVerb::Grant if grant.with_grant_option || stays_grantable => {
            PermissionState::GrantWithOption
        }
        GrantVerb::Grant => PermissionState::Grant,
    };
    let entry = PermissionDef { state, ..entry };
    list.push(entry.clone());
    Ok(match grant.verb {
        GrantVerb::Grant => Vec::new(),
        // What is narrower than what was given is denied as well.
        _ => {
            gone.push(entry);
            gone
        }
    })
}

/// Does a function give one value?
fn is_scalar(kind: &daruma_catalog::ObjectKind) -> bool {
    match kind {
        daruma_catalog::ObjectKind::Function(module) => {
            module.function.is_some_and(|f| f.returns.is_some())
        }
        _ => false,
    }
}
