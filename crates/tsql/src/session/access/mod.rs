//! Access: as whom a session acts, and whether it may do what it is about to do.
//!
//! Theory: nobody asks twice. A session of sysadmin has principal 0 and passes with one comparison. Anybody else's names
//! are noted while a statement is planned (`needs`), the permissions are checked once the plan is made, and the plan is
//! kept for this principal only (`PlanKey::principal`); changing a permission changes the catalog version and with it every
//! kept plan. Statements that are not planned are checked before they run (`statement`).
//!
//! Ownership chains: what a procedure, trigger or view names is not asked for when it belongs to the same owner; in another
//! database where both have DB_CHAINING, and both owners are one login. Dynamic text breaks the chain.
//!
//! A user (EXECUTE AS USER, modules) is nobody outside of his database, unless that is TRUSTWORTHY and its owner may vouch
//! for him (`trust`).
//!
//! Map: `rights` (what a principal may do), `needs` (what plans read and change), `statement` (what statements need), `grant` (GRANT, DENY, REVOKE) and `cascade` (what goes with what was handed on),
//! `identity` (EXECUTE AS and the functions that tell who one is), `password` (policy), `views`, `procedures` and
//! `dbcc` (what those of the server ask for), `visible` (definitions without what is hidden).
//!
//! Invariants
//! 1. Rights are never older than the catalog version they were computed under.
//! 2. A plan is used only by a principal for whom it was checked.

mod cascade;
mod dbcc;
mod grant;
mod identity;
mod needs;
mod password;
mod procedures;
mod rights;
mod statement;
mod trust;
mod views;
mod visible;

pub(crate) use dbcc::DbccTable;
pub(crate) use grant::permissions_of;
use needs::Need;
pub(crate) use needs::{Written, columns_of};
pub(crate) use password::check_policy;
pub use procedures::{ProcedureRule, procedure_rule};
pub(crate) use rights::{DBO, GUEST, Rights, Securable, ServerRights, class};
pub use views::{ViewRule, rule_of};

use super::SessionState;
use super::execution::Execution;
use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::instance::{DatabaseEntry, MASTER, MSDB, TEMPDB};
use crate::messages;
use daruma_base::DatabaseId;
use daruma_catalog::{
    DatabaseCatalog, LoginDef, PrincipalDef, SCHEMA_DBO, SchemaId, UserAccess, names_equal,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

/// As whom statements run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Identity {
    /// By `principal_id` of the server, which may be another's once the login was dropped, and the id that never is.
    Login { id: i32, sid: Vec<u8> },
    /// A user of one database: EXECUTE AS USER. The id may be another's as well.
    User {
        database: DatabaseId,
        id: i32,
        created_utc: i64,
        name: String,
    },
}

impl Identity {
    fn of_login(login: &LoginDef) -> Identity {
        Identity::Login {
            id: login.id,
            sid: login.sid.clone(),
        }
    }
}

/// EXECUTE AS, until REVERT or the end of the frame it happened in.
pub(crate) struct Impersonation {
    identity: Identity,
    /// Number of frames when it began.
    frames: usize,
    ends: Ends,
}

/// How EXECUTE AS is taken back before its frame ends.
enum Ends {
    /// By REVERT in this database, with the cookie when there is one.
    ByRevert {
        database: DatabaseId,
        cookie: Option<Vec<u8>>,
    },
    /// WITH NO REVERT.
    Never,
    /// A module or text that runs as somebody: REVERT is about what it did itself.
    WithFrame,
}

#[derive(Default)]
pub(crate) struct AccessState {
    login: Option<Identity>,
    stack: RefCell<Vec<Impersonation>>,
    /// Catalog version that the rest was computed under, 0 for never.
    version: Cell<u64>,
    /// 0: everything is allowed.
    principal: Cell<u64>,
    server: RefCell<Arc<ServerRights>>,
    rights: RefCell<HashMap<u16, Option<Arc<Rights>>>>,
    visible: RefCell<HashMap<u16, (Arc<DatabaseCatalog>, Arc<DatabaseCatalog>)>>,
    needs: RefCell<Vec<Need>>,
    /// Default schema in the database that was asked for last, if it has one.
    default_schema: Cell<Option<(DatabaseId, Option<SchemaId>)>>,
    /// Texts of table definitions that are being bound within each other.
    stored: Cell<u32>,
    /// Owners of the views being bound, innermost last.
    views: RefCell<Vec<(DatabaseId, i32)>>,
    /// Database and schema of the definitions whose text is being bound, innermost last.
    texts: RefCell<Vec<(DatabaseId, SchemaId)>>,
}

impl AccessState {
    /// A session that has just begun as this login; one without a login has no rights.
    pub fn of_login(login: Option<&LoginDef>) -> AccessState {
        AccessState {
            login: login.map(Identity::of_login),
            ..AccessState::default()
        }
    }

    fn forget(&self) {
        self.version.set(0);
    }

    /// Back to the login: pooled connections.
    pub fn reset(&self) {
        self.stack.borrow_mut().clear();
        self.forget();
    }

    /// Database and schema of the definition whose text is being bound.
    pub(super) fn text_in(&self) -> Option<(DatabaseId, SchemaId)> {
        self.texts.borrow().last().copied()
    }

    fn identity(&self) -> Identity {
        match self.stack.borrow().last() {
            Some(top) => top.identity.clone(),
            None => self.login.clone().unwrap_or(Identity::Login {
                id: 0,
                sid: Vec::new(),
            }),
        }
    }
}

impl SessionState {
    #[inline]
    fn refresh_access(&self) {
        let version = self.instance.catalog_version() + (self.private_version.get() << 32) + 1;
        if self.access.version.get() != version {
            self.compute_access(version);
        }
    }

    #[cold]
    fn compute_access(&self, version: u64) {
        let access = &self.access;
        access.version.set(version);
        access.rights.borrow_mut().clear();
        access.visible.borrow_mut().clear();
        access.default_schema.set(None);
        let identity = access.identity();
        let login = match &identity {
            Identity::Login { id, sid } => self.acting_login(*id, sid),
            Identity::User { .. } => self.vouched_on_server(&identity),
        };
        let server = Arc::new(ServerRights::of(login));
        access.principal.set(match &identity {
            _ if server.all => 0,
            Identity::Login { id, .. } => *id as u64,
            Identity::User { database, id, .. } => {
                (1 << 63) | (u64::from(database.0) << 32) | u64::from(*id as u32)
            }
        });
        *access.server.borrow_mut() = server;
    }

    fn acting_login(&self, id: i32, sid: &[u8]) -> Option<Arc<LoginDef>> {
        let login = self.logins().by_id(id);
        login.filter(|l| l.sid == *sid)
    }

    /// 0 for a principal that may do everything; else a number for the one that the session acts as.
    pub(crate) fn principal_key(&self) -> u64 {
        self.refresh_access();
        self.access.principal.get()
    }

    pub(crate) fn is_unlimited(&self) -> bool {
        self.principal_key() == 0
    }

    pub(crate) fn server_rights(&self) -> Arc<ServerRights> {
        self.refresh_access();
        self.access.server.borrow().clone()
    }

    /// Rights in a database; error 916 when it must not be entered, 923 when that is for RESTRICTED_USER.
    pub(crate) fn rights(&self, database: DatabaseId) -> Result<Arc<Rights>> {
        self.refresh_access();
        let known = self.access.rights.borrow().get(&database.0).cloned();
        let rights = match known {
            Some(rights) => rights,
            None => {
                let rights = self.compute_rights(database)?;
                let rights = rights.filter(|r| self.passes_restriction(database, r));
                let rights = rights.map(Arc::new);
                let mut map = self.access.rights.borrow_mut();
                map.insert(database.0, rights.clone());
                rights
            }
        };
        rights.ok_or_else(|| self.no_access(database))
    }

    /// Default schema of whoever acts, in a database; `None` when it is simply dbo.
    pub(crate) fn default_schema(&self, database: DatabaseId) -> Option<SchemaId> {
        if self.is_unlimited() {
            return None;
        }
        if let Some((known, schema)) = self.access.default_schema.get()
            && known == database
        {
            return schema;
        }
        let rights = self.rights(database).ok()?;
        let catalog = self.catalog(database).ok()?;
        let schema = catalog.schema_named(&rights.default_schema);
        let schema = schema.map(|s| s.id).filter(|id| *id != SCHEMA_DBO);
        self.access.default_schema.set(Some((database, schema)));
        schema
    }

    fn no_access(&self, database: DatabaseId) -> SqlError {
        let name = self.instance.database(database);
        let name = name.map_or(String::new(), |d| d.name());
        if let Ok(Some(_)) = self.compute_rights(database) {
            return messages::error(923, &[&name]);
        }
        messages::error_state(916, 2, &[&self.login_name(), &name])
    }

    /// May one with these rights be in the database while it is in RESTRICTED_USER? Somebody who acts as a user of it is in it
    /// through the login behind that.
    fn passes_restriction(&self, database: DatabaseId, rights: &Rights) -> bool {
        let Some(entry) = self.instance.database(database) else {
            return false;
        };
        if entry.def().user_access != UserAccess::Restricted || rights.keeps_database() {
            return true;
        }
        match self.access.identity() {
            Identity::User { database: home, .. } if home == database => self
                .rights_behind(&entry)
                .is_some_and(|r| r.keeps_database()),
            _ => false,
        }
    }

    /// Rights of the login that the session acted as before it acted as a user.
    fn rights_behind(&self, entry: &DatabaseEntry) -> Option<Rights> {
        let stack = self.access.stack.borrow();
        let before = stack.iter().rev().map(|i| &i.identity);
        let mut logins = before.chain(&self.access.login).filter_map(|i| match i {
            Identity::Login { id, sid } => Some((*id, sid)),
            Identity::User { .. } => None,
        });
        let (id, sid) = logins.next()?;
        let login = self.acting_login(id, sid)?;
        let server = Arc::new(ServerRights::of(Some(login.clone())));
        if server.all {
            return Some(Rights::dbo(server));
        }
        let catalog = self.catalog(entry.id()).ok()?;
        rights_of_login(entry, &catalog, &login, server)
    }

    /// The login acted as; a user without one has a name of its own.
    pub(crate) fn login_name(&self) -> String {
        match self.access.identity() {
            Identity::Login { id, sid } => self
                .acting_login(id, &sid)
                .map_or(self.entry.login.login.clone(), |l| l.name.clone()),
            Identity::User { database, id, .. } => {
                let entry = self.instance.database(database);
                if id == DBO {
                    let Some(def) = entry.map(|e| e.def()) else {
                        return String::new();
                    };
                    // The name of an owner that is no login any more is anybody's.
                    let owner = self.logins().owner_of(&def);
                    return owner.map_or_else(String::new, |l| l.name.clone());
                }
                let catalog = self.catalog(database).ok();
                let user = catalog.and_then(|c| c.principal(id).cloned());
                let login = user.and_then(|u| self.login_of(&u));
                login.map_or_else(
                    || format!("S-1-9-3-{}-{id}", database.0),
                    |l| l.name.clone(),
                )
            }
        }
    }

    /// The login that a user stands for.
    pub(crate) fn login_of(&self, user: &PrincipalDef) -> Option<Arc<LoginDef>> {
        match &user.sid {
            Some(sid) => self.logins().all().into_iter().find(|l| l.sid == *sid),
            None => self.logins().get(user.login.as_deref()?),
        }
    }

    fn compute_rights(&self, database: DatabaseId) -> Result<Option<Rights>> {
        let server = self.access.server.borrow().clone();
        if server.all {
            return Ok(Some(Rights::dbo(server)));
        }
        let Some(entry) = self.instance.database(database) else {
            return Ok(None);
        };
        let guests = matches!(database, MASTER | TEMPDB | MSDB);
        let catalog = self.catalog(database)?;
        let user = match self.access.identity() {
            Identity::Login { id, sid } => {
                let Some(login) = self.acting_login(id, &sid) else {
                    return Ok(None);
                };
                return Ok(rights_of_login(&entry, &catalog, &login, server));
            }
            Identity::User {
                database: home,
                id,
                created_utc,
                ..
            } if home == database => {
                if id == DBO {
                    return Ok(Some(Rights::dbo(server)));
                }
                match catalog.principal(id) {
                    None if id == GUEST => None,
                    Some(user) if user.created_utc == created_utc => Some(user.clone()),
                    _ => return Ok(None),
                }
            }
            other => {
                return Ok(self
                    .vouched_in(&other, &entry, &catalog)
                    .and_then(|login| rights_of_login(&entry, &catalog, &login, server)));
            }
        };
        Ok(Rights::of_user(&catalog, user.as_deref(), server, guests))
    }
}

/// What a login may in a database; `None`: it may not enter it.
fn rights_of_login(
    entry: &DatabaseEntry,
    catalog: &DatabaseCatalog,
    login: &LoginDef,
    server: Arc<ServerRights>,
) -> Option<Rights> {
    if entry.def().is_owned_by(login) {
        return Some(Rights::dbo(server));
    }
    let guests = matches!(entry.id(), MASTER | TEMPDB | MSDB);
    let user = user_of_login(catalog, login);
    Rights::of_user(catalog, user.as_deref(), server, guests)
}

/// The user that a login has in a database.
pub(crate) fn user_of_login(
    catalog: &DatabaseCatalog,
    login: &LoginDef,
) -> Option<Arc<PrincipalDef>> {
    let is = |p: &&Arc<PrincipalDef>| match (&p.sid, &p.login) {
        _ if p.is_role => false,
        (Some(sid), _) => *sid == login.sid,
        (None, Some(name)) => names_equal(name, &login.name),
        (None, None) => false,
    };
    catalog.principals().find(is).cloned()
}

/// May the login connect to the server at all?
pub fn may_connect(login: &LoginDef) -> bool {
    ServerRights::of(Some(Arc::new(login.clone()))).has("CONNECT SQL")
}

/// Owner of what lives in a schema.
fn owner_of(catalog: &DatabaseCatalog, schema: i32) -> i32 {
    catalog.schema(schema).map_or(DBO, |s| s.principal_id)
}

impl Execution<'_> {
    pub(crate) fn is_unlimited(&self) -> bool {
        self.state.is_unlimited()
    }

    /// Id of the user that the session acts as.
    pub(crate) fn own_principal(&self) -> Result<i32> {
        Ok(self.state.rights(self.current_database())?.user_id)
    }

    pub(crate) fn may(&self, database: DatabaseId, permission: &str, on: Securable) -> bool {
        let catalog = self.state.catalog(database);
        let rights = self.state.rights(database);
        match (catalog, rights) {
            (Ok(catalog), Ok(rights)) => rights.may(&catalog, permission, on),
            _ => false,
        }
    }

    /// On the database as a whole; what follows from the server holds whether it may be entered or not.
    pub(crate) fn may_on_database(&self, database: DatabaseId, permission: &str) -> bool {
        let server = self.state.server_rights();
        permission == "VIEW DATABASE STATE" && server.has("VIEW SERVER STATE")
            || self.may(database, permission, Securable::Database)
    }

    /// Definitions that the session may know of.
    pub(crate) fn visible(&self, database: DatabaseId) -> Result<Arc<DatabaseCatalog>> {
        let whole = self.state.catalog(database)?;
        if self.is_unlimited() {
            return Ok(whole);
        }
        let rights = self.state.rights(database)?;
        if rights.all {
            return Ok(whole);
        }
        let mut kept = self.state.access.visible.borrow_mut();
        if let Some((of, visible)) = kept.get(&database.0)
            && Arc::ptr_eq(of, &whole)
        {
            return Ok(visible.clone());
        }
        let visible = Arc::new(visible::visible_to(&whole, &rights));
        kept.insert(database.0, (whole, visible.clone()));
        Ok(visible)
    }
}
