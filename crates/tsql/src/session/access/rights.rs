//! Rights of a principal: permissions given and denied, roles, owners.
//!
//! Theory: a permission is given on a securable or on one that holds it (object, schema, database, server). A wider
//! permission covers narrower ones: CONTROL everything, ALTER on a schema ALTER on its objects. Somebody may do what any
//! of his principals (himself, his roles, public) was given, unless any of them was denied it. Owners, dbo and sysadmin
//! are never asked. Fixed roles stand for fixed lists.
//!
//! Pure: everything is computed from a catalog snapshot and a login, so that it can be kept until either changes.

use daruma_catalog::{
    DatabaseCatalog, LoginDef, Object, PermissionDef, PermissionState, PrincipalDef, SchemaId,
    names_equal,
};
use std::sync::Arc;

pub(crate) mod class {
    /// Class of sys.database_permissions: the database.
    pub const DATABASE: u8 = 0;
    /// An object, or a column of one.
    pub const OBJECT: u8 = 1;
    /// A schema and everything in it.
    pub const SCHEMA: u8 = 3;
    /// A user or role.
    pub const PRINCIPAL: u8 = 4;
    /// Class of sys.server_permissions: the server.
    pub const SERVER: u8 = 100;
    /// A login.
    pub const LOGIN: u8 = 101;
    /// An endpoint.
    pub const ENDPOINT: u8 = 105;
    /// An availability group.
    pub const AVAILABILITY_GROUP: u8 = 108;
}

pub(crate) const PUBLIC: i32 = 0;
pub(crate) const DBO: i32 = 1;
pub(crate) const GUEST: i32 = 2;
pub(crate) const DB_OWNER: i32 = 16_384;
const DB_ACCESSADMIN: i32 = 16_385;
const DB_SECURITYADMIN: i32 = 16_386;
const DB_DDLADMIN: i32 = 16_387;
const DB_BACKUPOPERATOR: i32 = 16_389;
const DB_DATAREADER: i32 = 16_390;
const DB_DATAWRITER: i32 = 16_391;
const DB_DENYDATAREADER: i32 = 16_392;
const DB_DENYDATAWRITER: i32 = 16_393;

/// Something in a database that permissions are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Securable {
    Database,
    Schema(SchemaId),
    Object {
        id: i32,
        schema: SchemaId,
    },
    /// A user or role.
    Principal(i32),
}

impl Securable {
    /// The securable that an object is, with the schema that contains it.
    pub fn of(object: &Object) -> Securable {
        Securable::Object {
            id: object.id,
            schema: object.schema_id,
        }
    }
}

/// Rights of a login on the server.
#[derive(Default)]
pub(crate) struct ServerRights {
    /// sysadmin, or CONTROL SERVER.
    pub all: bool,
    pub login: Option<Arc<LoginDef>>,
}

impl ServerRights {
    /// Rights of a login; `None` may nothing but see databases.
    pub fn of(login: Option<Arc<LoginDef>>) -> ServerRights {
        let mut rights = ServerRights { all: false, login };
        rights.all = rights
            .login
            .as_ref()
            .is_some_and(|l| l.is_sysadmin() || given(&l.permissions, "CONTROL SERVER"));
        rights
    }

    /// Was the permission given to the login, by a role too, and not denied?
    pub fn has(&self, permission: &str) -> bool {
        if self.all {
            return true;
        }
        let Some(login) = &self.login else {
            return permission == "VIEW ANY DATABASE";
        };
        let on_server = |p: &&PermissionDef| p.class == class::SERVER;
        let denied = |p: &PermissionDef| {
            p.state == PermissionState::Deny && covers_server(&p.permission, permission)
        };
        if login.permissions.iter().filter(on_server).any(denied) {
            return false;
        }
        permission == "VIEW ANY DATABASE"
            || permission == "CONNECT SQL"
            || login.roles.iter().any(|r| role_gives(r, permission))
            || login.permissions.iter().filter(on_server).any(|p| {
                p.state != PermissionState::Deny && covers_server(&p.permission, permission)
            })
    }

    /// ALTER or IMPERSONATE of one login.
    pub fn has_on_login(&self, login: i32, permission: &str) -> bool {
        self.has_on(class::LOGIN, login, permission)
    }

    /// A permission on one thing of the server's: a login, endpoint or availability group.
    pub fn has_on(&self, class: u8, id: i32, permission: &str) -> bool {
        let about = |p: &&PermissionDef| {
            p.class == class
                && p.major == id
                && (p.permission == permission || p.permission == "CONTROL")
        };
        let mut given = false;
        for entry in self.login.iter().flat_map(|l| &l.permissions).filter(about) {
            if entry.state == PermissionState::Deny {
                return self.all;
            }
            given = true;
        }
        self.all || given
    }

    /// May it change this login at all? One that can do everything is changed by its like only.
    pub fn reaches(&self, login: &Arc<LoginDef>) -> bool {
        self.all || !ServerRights::of(Some(login.clone())).all
    }
}

fn given(list: &[PermissionDef], permission: &str) -> bool {
    let is = |p: &PermissionDef| p.class == class::SERVER && p.permission == permission;
    list.iter()
        .any(|p| is(p) && p.state != PermissionState::Deny)
        && !list
            .iter()
            .any(|p| is(p) && p.state == PermissionState::Deny)
}

fn covers_server(granted: &str, wanted: &str) -> bool {
    granted == wanted
        || match granted {
            "CONTROL SERVER" => true,
            "ALTER ANY DATABASE" => wanted == "CREATE ANY DATABASE",
            "ALTER SERVER STATE" => wanted == "VIEW SERVER STATE",
            "ALTER ANY ENDPOINT" => wanted == "CREATE ENDPOINT",
            "ALTER ANY AVAILABILITY GROUP" => wanted == "CREATE AVAILABILITY GROUP",
            "VIEW ANY DEFINITION" => wanted == "VIEW ANY DATABASE",
            _ => false,
        }
}

/// Permissions of the fixed server roles.
fn role_gives(role: &str, permission: &str) -> bool {
    let list: &[&str] = match role.to_ascii_lowercase().as_str() {
        "serveradmin" => &[
            "ALTER SETTINGS",
            "SHUTDOWN",
            "ALTER SERVER STATE",
            "VIEW SERVER STATE",
            "ALTER RESOURCES",
            "ALTER ANY ENDPOINT",
            "CREATE ENDPOINT",
        ],
        "securityadmin" => &["ALTER ANY LOGIN"],
        "processadmin" => &[
            "ALTER ANY CONNECTION",
            "ALTER SERVER STATE",
            "VIEW SERVER STATE",
        ],
        "dbcreator" => &["CREATE ANY DATABASE", "ALTER ANY DATABASE"],
        "bulkadmin" => &["ADMINISTER BULK OPERATIONS"],
        "diskadmin" => &["ALTER RESOURCES"],
        "setupadmin" => &["ALTER ANY LINKED SERVER"],
        _ => &[],
    };
    list.contains(&permission)
}

/// Rights of a principal in one database.
pub(crate) struct Rights {
    /// dbo, of whom nothing is asked, and members of db_owner, who have all that they were not denied.
    pub all: bool,
    pub user_id: i32,
    pub user_name: String,
    pub default_schema: String,
    /// The user, public and every role it is a member of.
    pub principals: Vec<i32>,
    entries: Vec<PermissionDef>,
    pub server: Arc<ServerRights>,
}

impl Rights {
    /// Rights of the owner of a database: everything in it.
    pub fn dbo(server: Arc<ServerRights>) -> Rights {
        Rights {
            all: true,
            user_id: DBO,
            user_name: "dbo".to_string(),
            default_schema: "dbo".to_string(),
            principals: vec![DBO, PUBLIC, DB_OWNER],
            entries: Vec::new(),
            server,
        }
    }

    /// Rights of a user of the catalog, or of guest when there is none. `None`: it may not connect.
    pub fn of_user(
        catalog: &DatabaseCatalog,
        user: Option<&PrincipalDef>,
        server: Arc<ServerRights>,
        guests: bool,
    ) -> Option<Rights> {
        let (user_id, user_name, default_schema) = match user {
            Some(user) => (user.id, user.name.clone(), user.default_schema.clone()),
            None => (GUEST, "guest".to_string(), "guest".to_string()),
        };
        let mut principals = vec![user_id, PUBLIC];
        if let Some(user) = user {
            add_roles(catalog, user, &mut principals);
        }
        let entries = principals
            .iter()
            .filter_map(|id| catalog.permissions_of(*id))
            .flat_map(|set| set.list.iter().cloned())
            .collect();
        let rights = Rights {
            all: principals.contains(&DB_OWNER),
            user_id,
            user_name,
            default_schema,
            principals,
            entries,
            server,
        };
        let connects = rights.may(catalog, "CONNECT", Securable::Database)
            || rights.server.has("CONNECT ANY DATABASE")
            || guests && user.is_none();
        (rights.all || connects).then_some(rights)
    }

    /// Is the permission given on this securable or on what contains it, and denied on neither?
    pub fn may(&self, catalog: &DatabaseCatalog, permission: &str, on: Securable) -> bool {
        if self.user_id == DBO || self.owns(catalog, on) {
            return true;
        }
        // Members of db_owner have everything that they were not denied.
        !self.is_denied(permission, on) && (self.all || self.is_given(permission, on))
    }

    /// May it give every permission on it, those too that it does not have itself?
    pub fn gives_all(&self, catalog: &DatabaseCatalog, on: Securable) -> bool {
        self.may(catalog, "CONTROL", on) || self.principals.contains(&DB_SECURITYADMIN)
    }

    /// Does any column of the object have an entry of its own for the permission?
    pub fn has_column_entries(&self, permission: &str, object: i32) -> bool {
        self.entries
            .iter()
            .any(|e| is_of_column(e, permission, object, None))
    }

    /// A GRANT on a column holds even where the whole object was denied; a DENY on it always does.
    pub fn may_column(
        &self,
        catalog: &DatabaseCatalog,
        permission: &str,
        on: Securable,
        column: i32,
    ) -> bool {
        let Securable::Object { id, .. } = on else {
            return false;
        };
        if self.user_id == DBO || self.owns(catalog, on) {
            return true;
        }
        let own = |e: &&PermissionDef| is_of_column(e, permission, id, Some(column));
        let mut states = self.entries.iter().filter(own).map(|e| e.state).peekable();
        match states.peek() {
            None => self.may(catalog, permission, on),
            Some(_) => states.all(|state| state != PermissionState::Deny),
        }
    }

    /// Does the schema, and so what is in it, belong to the user or to one of the roles?
    pub fn owns(&self, catalog: &DatabaseCatalog, on: Securable) -> bool {
        let schema = match on {
            Securable::Schema(id) | Securable::Object { schema: id, .. } => id,
            Securable::Database | Securable::Principal(_) => return false,
        };
        catalog
            .schema(schema)
            .is_some_and(|s| self.principals.contains(&s.principal_id))
    }

    /// Owner, db_owner, or on the server sysadmin or dbcreator: who may enter in RESTRICTED_USER.
    pub fn keeps_database(&self) -> bool {
        let is_creator = |role: &String| role.eq_ignore_ascii_case("dbcreator");
        let login = self.server.login.as_ref();
        self.all || self.server.all || login.is_some_and(|l| l.roles.iter().any(is_creator))
    }

    /// Owner, db_owner or db_ddladmin.
    pub fn administers(&self, catalog: &DatabaseCatalog, on: Securable) -> bool {
        self.all || self.owns(catalog, on) || self.principals.contains(&DB_DDLADMIN)
    }

    /// Is there any permission on the object that makes it visible?
    pub fn sees(&self, catalog: &DatabaseCatalog, on: Securable) -> bool {
        const ANY: &[&str] = &[
            "SELECT",
            "INSERT",
            "UPDATE",
            "DELETE",
            "EXECUTE",
            "REFERENCES",
            "ALTER",
            "CONTROL",
            "VIEW DEFINITION",
            "TAKE OWNERSHIP",
        ];
        ANY.iter().any(|p| self.may(catalog, p, on)) || self.sees_columns(on)
    }

    fn sees_columns(&self, on: Securable) -> bool {
        let Securable::Object { id, .. } = on else {
            return false;
        };
        self.entries.iter().any(|e| {
            e.class == class::OBJECT
                && e.major == id
                && e.minor != 0
                && e.state != PermissionState::Deny
        })
    }

    /// May it read the text of a definition? A principal that could change it may, unless that was denied.
    pub fn reads_text(&self, catalog: &DatabaseCatalog, on: Securable) -> bool {
        let may = |permission| self.may(catalog, permission, on);
        may("VIEW DEFINITION")
            || !self.is_denied("VIEW DEFINITION", on)
                && ["ALTER", "CONTROL", "TAKE OWNERSHIP"].into_iter().any(may)
    }

    fn is_denied(&self, permission: &str, on: Securable) -> bool {
        let by_role = match permission {
            "SELECT" => self.principals.contains(&DB_DENYDATAREADER),
            "INSERT" | "UPDATE" | "DELETE" => self.principals.contains(&DB_DENYDATAWRITER),
            _ => false,
        };
        by_role
            || self
                .entries
                .iter()
                .any(|e| e.state == PermissionState::Deny && covers(e, permission, on))
    }

    fn is_given(&self, permission: &str, on: Securable) -> bool {
        self.given_by_server(permission)
            || self
                .principals
                .iter()
                .any(|role| fixed_role_gives(*role, permission, on))
            || self
                .entries
                .iter()
                .any(|e| e.state != PermissionState::Deny && covers(e, permission, on))
    }

    fn given_by_server(&self, permission: &str) -> bool {
        match permission {
            "VIEW DEFINITION" => self.server.has("VIEW ANY DEFINITION"),
            "VIEW DATABASE STATE" => self.server.has("VIEW SERVER STATE"),
            "SELECT" => self.server.has("SELECT ALL USER SECURABLES"),
            "CONNECT" => self.server.has("CONNECT ANY DATABASE"),
            _ => false,
        }
    }
}

/// Adds the roles that a user or role is a member of, and theirs.
fn add_roles(catalog: &DatabaseCatalog, member: &PrincipalDef, found: &mut Vec<i32>) {
    for id in &member.fixed_roles {
        if !found.contains(id) {
            found.push(*id);
        }
    }
    for role in catalog.principals().filter(|p| p.is_role) {
        let holds = role.members.iter().any(|m| names_equal(m, &member.name));
        if holds && !found.contains(&role.id) {
            found.push(role.id);
            add_roles(catalog, role, found);
        }
    }
}

fn fixed_role_gives(role: i32, permission: &str, on: Securable) -> bool {
    let on_data = matches!(on, Securable::Schema(_) | Securable::Object { .. });
    match role {
        DB_DATAREADER => on_data && permission == "SELECT",
        DB_DATAWRITER => on_data && matches!(permission, "INSERT" | "UPDATE" | "DELETE"),
        DB_DDLADMIN => {
            on_data && matches!(permission, "ALTER" | "REFERENCES" | "VIEW DEFINITION")
                || permission == "CHECKPOINT"
                || permission == "ALTER ANY SCHEMA"
                || permission == "ALTER ANY DATABASE DDL TRIGGER"
                || permission.starts_with("CREATE ") && permission != "CREATE ROLE"
        }
        DB_SECURITYADMIN => matches!(
            permission,
            "ALTER ANY ROLE" | "CREATE ROLE" | "CREATE SCHEMA" | "VIEW DEFINITION"
        ),
        DB_ACCESSADMIN => matches!(permission, "ALTER ANY USER" | "CREATE SCHEMA" | "CONNECT"),
        DB_BACKUPOPERATOR => matches!(permission, "BACKUP DATABASE" | "BACKUP LOG" | "CHECKPOINT"),
        _ => false,
    }
}

/// Is the entry about this column, or about any?
fn is_of_column(entry: &PermissionDef, permission: &str, object: i32, column: Option<i32>) -> bool {
    entry.class == class::OBJECT
        && entry.major == object
        && entry.minor != 0
        && column.is_none_or(|c| c == entry.minor)
        && entry.permission == permission
}

/// Does the entry let its grantee hand on the permission on the securable, or on this column of it?
pub(super) fn hands_on(
    entry: &PermissionDef,
    permission: &str,
    on: Securable,
    column: i32,
) -> bool {
    entry.state == PermissionState::GrantWithOption && reaches(entry, permission, on, column)
}

/// Is the permission on the securable, or on this column of it, part of what the entry is about?
pub(super) fn reaches(entry: &PermissionDef, permission: &str, on: Securable, column: i32) -> bool {
    let of_column = |id| column != 0 && is_of_column(entry, permission, id, Some(column));
    covers(entry, permission, on) || matches!(on, Securable::Object { id, .. } if of_column(id))
}

/// Is `permission` on the securable part of what the entry is about?
fn covers(entry: &PermissionDef, permission: &str, on: Securable) -> bool {
    let granted = entry.permission.as_str();
    let same = granted == permission || granted == "CONTROL";
    match (entry.class, on) {
        (class::DATABASE, Securable::Database) => {
            same || granted == "ALTER"
                && (permission.starts_with("CREATE ")
                    || permission.starts_with("ALTER ANY ")
                    || permission == "CHECKPOINT")
                || granted == "ALTER ANY SCHEMA" && permission == "CREATE SCHEMA"
                || granted == "ALTER ANY ROLE" && permission == "CREATE ROLE"
        }
        // ALTER of a database is not IMPERSONATE: dbo is among its users.
        (class::DATABASE, Securable::Principal(_)) => {
            same || granted == "ALTER" && matches!(permission, "ALTER" | "VIEW DEFINITION")
        }
        (class::DATABASE, _) => {
            same || permission == "ALTER" && matches!(granted, "ALTER" | "ALTER ANY SCHEMA")
        }
        (class::SCHEMA, Securable::Schema(id) | Securable::Object { schema: id, .. }) => {
            entry.major == id && same
        }
        (class::OBJECT, Securable::Object { id, .. }) => {
            entry.major == id && entry.minor == 0 && same
        }
        (class::PRINCIPAL, Securable::Principal(id)) => entry.major == id && same,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(class: u8, major: i32, permission: &str, state: PermissionState) -> PermissionDef {
        PermissionDef {
            class,
            major,
            minor: 0,
            permission: permission.to_string(),
            state,
            grantor: DBO,
        }
    }

    fn rights(principals: Vec<i32>, entries: Vec<PermissionDef>) -> Rights {
        Rights {
            all: false,
            user_id: 5,
            user_name: "u".to_string(),
            default_schema: "dbo".to_string(),
            principals,
            entries,
            server: Arc::default(),
        }
    }

    const TABLE: Securable = Securable::Object { id: 100, schema: 7 };

    #[test]
    fn a_wider_permission_covers_a_narrower_one_and_denial_wins() {
        use PermissionState::*;
        let catalog = DatabaseCatalog::default();
        let r = rights(vec![5, 0], vec![entry(class::SCHEMA, 7, "SELECT", Grant)]);
        assert!(r.may(&catalog, "SELECT", TABLE));
        assert!(!r.may(&catalog, "INSERT", TABLE));
        let denied = entry(class::OBJECT, 100, "SELECT", Deny);
        let granted = entry(class::DATABASE, 0, "CONTROL", Grant);
        let r = rights(vec![5, 0], vec![granted, denied]);
        assert!(!r.may(&catalog, "SELECT", TABLE));
        assert!(r.may(&catalog, "UPDATE", TABLE));
        assert!(r.may(&catalog, "CREATE TABLE", Securable::Database));
    }

    #[test]
    fn fixed_roles_give_and_deny() {
        let catalog = DatabaseCatalog::default();
        let reader = rights(vec![5, 0, DB_DATAREADER], Vec::new());
        assert!(reader.may(&catalog, "SELECT", TABLE));
        assert!(!reader.may(&catalog, "DELETE", TABLE));
        let torn = rights(vec![5, 0, DB_DATAREADER, DB_DENYDATAREADER], Vec::new());
        assert!(!torn.may(&catalog, "SELECT", TABLE));
        let ddl = rights(vec![5, 0, DB_DDLADMIN], Vec::new());
        assert!(ddl.may(&catalog, "CREATE TABLE", Securable::Database));
        assert!(ddl.may(&catalog, "ALTER", TABLE));
        assert!(!ddl.may(&catalog, "SELECT", TABLE));
        assert!(!ddl.may(&catalog, "CREATE ROLE", Securable::Database));
    }

    #[test]
    fn server_roles_give_what_they_stand_for() {
        let login = |roles: &[&str]| {
            let def = LoginDef {
                id: 300,
                name: "l".to_string(),
                sid: vec![3],
                password_hash: String::new(),
                default_database: "master".to_string(),
                default_language: "us_english".to_string(),
                disabled: false,
                created_utc: 0,
                modified_utc: 0,
                roles: roles.iter().map(|r| (*r).to_string()).collect(),
                permissions: Vec::new(),
                check_policy: true,
                check_expiration: false,
                must_change: false,
                password_set_utc: 0,
                certificate_id: None,
            };
            ServerRights::of(Some(Arc::new(def)))
        };
        assert!(login(&["sysadmin"]).all);
        assert!(login(&["dbcreator"]).has("CREATE ANY DATABASE"));
        assert!(!login(&["dbcreator"]).has("SHUTDOWN"));
        assert!(login(&[]).has("VIEW ANY DATABASE"));
        assert!(!login(&[]).has("VIEW SERVER STATE"));
    }
}
