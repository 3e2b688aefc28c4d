//! EXECUTE AS and REVERT, and the functions that tell who one is and what one may do.

use super::{DBO, Ends, Execution, GUEST, Identity, Impersonation, Rights, Securable};
use crate::error::Result;
use crate::host::{Host, VariableType};
use crate::messages;
use crate::session::fail::Step;
use crate::session::functions::{int, text};
use crate::session::procedure::Evaluate;
use crate::sysviews::fixed_role_name;
use daruma_base::DatabaseId;
use daruma_catalog::{DatabaseCatalog, Object, names_equal};
use daruma_syntax::ast::{AsPrincipal, ExecuteAs, ExecuteContext};
use daruma_syntax::{ParseOptions, parse_object_name};
use daruma_value::{DataType, Value};

/// Roles that every server has.
const SERVER_ROLES: &[&str] = &[
    "sysadmin",
    "serveradmin",
    "securityadmin",
    "processadmin",
    "setupadmin",
    "bulkadmin",
    "diskadmin",
    "dbcreator",
    "public",
];

const COOKIE_BYTES: usize = 100;

const FUNCTIONS: &[&str] = &[
    "suser_sname",
    "suser_name",
    "original_login",
    "suser_sid",
    "suser_id",
    "user_name",
    "user_id",
    "database_principal_id",
    "is_srvrolemember",
    "is_member",
    "is_rolemember",
    "has_dbaccess",
    "has_perms_by_name",
    "pwdcompare",
    "original_db_name",
];

fn text_of((value, from): (Value, DataType)) -> Result<String> {
    Ok(crate::session::convert::to_text(&value, from)?.unwrap_or_default())
}

fn user_identity(catalog: &DatabaseCatalog, database: DatabaseId, id: i32, name: &str) -> Identity {
    Identity::User {
        database,
        id,
        created_utc: catalog.principal(id).map_or(0, |p| p.created_utc),
        name: name.to_string(),
    }
}

impl Execution<'_> {
    pub(crate) fn run_execute_as(&self, statement: &ExecuteAs) -> Result<()> {
        let identity = match &statement.context {
            ExecuteContext::Caller => return Ok(()),
            ExecuteContext::Login(name) => {
                self.login_to_be(&text_of(self.evaluate_alone(name)?)?)?
            }
            ExecuteContext::User(name) => self.user_to_be(&text_of(self.evaluate_alone(name)?)?)?,
            ExecuteContext::Name(name) => self.user_to_be(name)?,
            // Of modules alone; the parser takes neither as a statement.
            ExecuteContext::SelfUser => return Err(messages::error(102, &[&"SELF"])),
            ExecuteContext::Owner => return Err(messages::error(102, &[&"OWNER"])),
        };
        let database = self.current_database();
        let cookie = statement.cookie.as_deref();
        let cookie = cookie
            .map(|variable| self.bake_cookie(variable))
            .transpose()?;
        let ends = match (&cookie, statement.no_revert) {
            (None, true) => Ends::Never,
            _ => Ends::ByRevert { database, cookie },
        };
        self.impersonate(identity, ends);
        Ok(())
    }

    /// REVERT with the value of this variable takes EXECUTE AS back.
    fn bake_cookie(&self, variable: &str) -> Result<Vec<u8>> {
        match self.variable_type(variable) {
            Some(VariableType::Scalar(DataType::VarBinary(len)))
                if len.is_max() || usize::from(len.0) >= COOKIE_BYTES => {}
            _ => return Err(messages::error(15533, &[&"Execute As"])),
        }
        let mut cookie = vec![0; COOKIE_BYTES];
        self.random_bytes(&mut cookie);
        self.set_variable(variable, Value::Bytes(cookie.clone()))?;
        Ok(cookie)
    }

    fn impersonate(&self, identity: Identity, ends: Ends) {
        let frames = self.state.frames.borrow().len();
        self.state.access.stack.borrow_mut().push(Impersonation {
            identity,
            frames,
            ends,
        });
        self.state.access.forget();
    }

    fn login_to_be(&self, name: &str) -> Result<Identity> {
        let refused = || messages::error(15406, &[&name]);
        let login = self.state.logins().get(name).ok_or_else(refused)?;
        let rights = self.state.server_rights();
        let own = rights.login.as_ref().is_some_and(|l| l.id == login.id);
        let may = own
            || rights.has("IMPERSONATE ANY LOGIN")
            || rights.has_on_login(login.id, "IMPERSONATE");
        match may {
            true => Ok(Identity::of_login(&login)),
            false => Err(refused()),
        }
    }

    fn user_to_be(&self, name: &str) -> Result<Identity> {
        let refused = || messages::error(15517, &[&name]);
        let database = self.current_database();
        let id = self.database_principal(name).ok_or_else(refused)?;
        let catalog = self.state.catalog(database)?;
        let is_user = id == DBO || id == GUEST || catalog.principal(id).is_some_and(|p| !p.is_role);
        let rights = self.state.rights(database)?;
        let own = rights.user_id == id;
        let on = Securable::Principal(id);
        if !is_user || !(own || rights.may(&catalog, "IMPERSONATE", on)) {
            return Err(refused());
        }
        Ok(user_identity(&catalog, database, id, name))
    }

    /// Error 15517 unless the session may act as what the module, to be defined in a schema, shall run as: otherwise
    /// a user that may define a procedure could do everything.
    pub(crate) fn may_define_as(
        &self,
        context: Option<&ExecuteContext>,
        database: DatabaseId,
        schema: i32,
    ) -> Result<()> {
        if self.is_unlimited() {
            return Ok(());
        }
        let catalog = self.state.catalog(database)?;
        let owner = || {
            let id = super::owner_of(&catalog, schema);
            let name = catalog.principal(id).map_or("dbo", |p| p.name.as_str());
            (Some(id), name.to_string())
        };
        let (id, name) = match context {
            None | Some(ExecuteContext::Caller) => return Ok(()),
            Some(ExecuteContext::Name(name)) => (self.database_principal(name), name.clone()),
            Some(_) => owner(),
        };
        match id {
            Some(id) if self.may_stand_for(database, id) => Ok(()),
            _ => Err(messages::error(15517, &[&name])),
        }
    }

    /// May the session give something to this user or role, or run something as it? Itself and its own roles always.
    pub(crate) fn may_stand_for(&self, database: DatabaseId, principal: i32) -> bool {
        let own = self.state.rights(database);
        self.is_unlimited()
            || own.is_ok_and(|rights| rights.principals.contains(&principal))
            || self.may(database, "IMPERSONATE", Securable::Principal(principal))
    }

    /// WITH EXECUTE AS of a module: from now until the frame that comes next ends.
    pub(crate) fn enter_module_as(
        &self,
        context: Option<&ExecuteContext>,
        database: DatabaseId,
        schema: i32,
    ) -> Result<()> {
        let catalog = self.state.catalog(database)?;
        let owner = super::owner_of(&catalog, schema);
        let named = |id: i32, name: &str| user_identity(&catalog, database, id, name);
        let identity = match context {
            None | Some(ExecuteContext::Caller) => return Ok(()),
            Some(ExecuteContext::Owner | ExecuteContext::SelfUser) => {
                let name = catalog.principal(owner).map_or("dbo", |p| p.name.as_str());
                named(owner, name)
            }
            Some(ExecuteContext::Name(name)) if names_equal(name, "dbo") => named(DBO, name),
            Some(ExecuteContext::Name(name)) => {
                let user = catalog.principal_named(name);
                named(
                    user.ok_or_else(|| messages::error(15517, &[name]))?.id,
                    name,
                )
            }
            Some(_) => return Ok(()),
        };
        self.enter_as(identity);
        Ok(())
    }

    /// SID of the login that WITH EXECUTE AS of a trigger of the server means; errors 15406, and 40517 for OWNER.
    pub(crate) fn login_to_run_as(
        &self,
        context: Option<&ExecuteContext>,
    ) -> Result<Option<Vec<u8>>> {
        match context {
            None | Some(ExecuteContext::Caller) => Ok(None),
            Some(ExecuteContext::SelfUser) => {
                let rights = self.state.server_rights();
                let own = rights.login.as_ref().map(|login| login.sid.clone());
                // Without one there is nobody to be, and it would run as whoever fires it.
                own.map(Some)
                    .ok_or_else(|| messages::error(15406, &[&"SELF"]))
            }
            Some(ExecuteContext::Name(name)) => match self.login_to_be(name)? {
                Identity::Login { sid, .. } => Ok(Some(sid)),
                Identity::User { .. } => Err(messages::error(15406, &[name])),
            },
            Some(_) => Err(messages::not_supported(
                "EXECUTE AS OWNER of triggers ON ALL SERVER",
            )),
        }
    }

    /// The login that a trigger of the server runs as; error 15406 where it was dropped.
    pub(crate) fn login_of_trigger(&self, sid: &[u8]) -> Result<Identity> {
        let logins = self.state.logins().all();
        let found = logins.iter().find(|l| l.sid == sid);
        found.map(|login| Identity::of_login(login)).ok_or_else(|| {
            let sid: String = sid.iter().map(|byte| format!("{byte:02X}")).collect();
            messages::error(15406, &[&format!("0x{sid}")])
        })
    }

    /// Acts as somebody from now until the frame that comes next ends.
    pub(crate) fn enter_as(&self, identity: Identity) {
        self.impersonate(identity, Ends::WithFrame);
        // It belongs to the frame that is about to be entered.
        if let Some(top) = self.state.access.stack.borrow_mut().last_mut() {
            top.frames += 1;
        }
    }

    /// Runs the frame that `work` enters as somebody else, who cannot be left from inside.
    pub(crate) fn run_inside_as(
        &self,
        principal: &AsPrincipal,
        evaluate: &Evaluate<'_>,
        work: impl FnOnce() -> Step<()>,
    ) -> Step<()> {
        let name = evaluate(&principal.name).and_then(text_of);
        let identity = name.and_then(|name| {
            if principal.login {
                self.login_to_be(&name)
            } else {
                self.user_to_be(&name)
            }
        });
        let inside = self.state.frames.borrow().len() + 1;
        self.impersonate(identity.map_err(|e| self.fail(e))?, Ends::WithFrame);
        if let Some(top) = self.state.access.stack.borrow_mut().last_mut() {
            top.frames = inside;
        }
        let result = work();
        // The frame was perhaps never entered.
        self.leave_frame_as(inside);
        result
    }

    /// Ends what a frame began.
    pub(crate) fn leave_frame_as(&self, level: usize) {
        let mut stack = self.state.access.stack.borrow_mut();
        let before = stack.len();
        stack.retain(|i| level <= 1 || i.frames < level);
        if stack.len() != before {
            self.state.access.forget();
        }
    }

    pub(crate) fn run_revert(&self, cookie: Option<&str>) -> Result<()> {
        let given = match cookie.map(|variable| self.variable(variable)).transpose()? {
            Some(Value::Bytes(bytes)) => Some(bytes),
            Some(Value::Null) => return Err(messages::error(15591, &[])),
            Some(_) => return Err(messages::error(15533, &[&"Revert"])),
            None => None,
        };
        let frames = self.state.frames.borrow().len();
        let mut stack = self.state.access.stack.borrow_mut();
        // A module cannot undo what its caller did.
        let own = |i: &&Impersonation| i.frames == frames || frames <= 1;
        match stack.last().filter(own).map(|top| &top.ends) {
            None | Some(Ends::WithFrame) => return Ok(()),
            Some(Ends::Never) => return Err(messages::error(15196, &[])),
            Some(Ends::ByRevert { database, .. }) if *database != self.current_database() => {
                return Err(messages::error(15199, &[&"Execute As"]));
            }
            Some(Ends::ByRevert { cookie, .. }) if *cookie != given => {
                return Err(messages::error(15591, &[]));
            }
            Some(Ends::ByRevert { .. }) => {}
        }
        stack.pop();
        self.state.access.forget();
        Ok(())
    }

    /// `None`: not a function of this room. A NULL argument where a name or id is needed gives NULL.
    pub(crate) fn principal_function(&self, name: &str, args: &[Value]) -> Option<Value> {
        FUNCTIONS
            .contains(&name)
            .then(|| self.principal_value(name, args).unwrap_or(Value::Null))
    }

    fn principal_value(&self, name: &str, args: &[Value]) -> Option<Value> {
        let logins = self.state.logins();
        Some(match name {
            "suser_sname" | "suser_name" => match args.first() {
                None => Value::str(self.state.login_name()),
                Some(Value::Bytes(sid)) => logins
                    .all()
                    .iter()
                    .find(|l| l.sid == *sid)
                    .map_or(Value::Null, |l| Value::str(&l.name)),
                Some(_) => {
                    let login = logins.by_id(int(args, 0)?);
                    login.map_or(Value::Null, |l| Value::str(&l.name))
                }
            },
            "original_login" => Value::str(&self.state.entry.login.login),
            "suser_sid" | "suser_id" => {
                let own = self.state.login_name();
                let login = logins.get(text(args, 0).unwrap_or(&own));
                login.map_or(Value::Null, |l| match name {
                    "suser_sid" => Value::Bytes(l.sid.clone()),
                    _ => Value::Int(l.id),
                })
            }
            "user_name" => match args.first() {
                None => Value::str(&self.state.rights(self.current_database()).ok()?.user_name),
                Some(_) => self.user_name(int(args, 0)?),
            },
            "user_id" | "database_principal_id" => match text(args, 0) {
                None => Value::Int(self.state.rights(self.current_database()).ok()?.user_id),
                Some(name) => self
                    .database_principal(name)
                    .map_or(Value::Null, Value::Int),
            },
            "is_srvrolemember" => self.is_server_role_member(text(args, 0)?, given(args, 1)?),
            "is_member" => self.is_database_role_member(text(args, 0)?, None),
            "is_rolemember" => self.is_database_role_member(text(args, 0)?, given(args, 1)?),
            "has_dbaccess" => match self.state.instance.database_named(text(args, 0)?) {
                Some(entry) => {
                    let open = entry.open().is_ok()
                        && entry.check_admits(self.spid()).is_ok()
                        && self.state.rights(entry.id()).is_ok();
                    Value::Int(i32::from(open))
                }
                None => Value::Null,
            },
            "has_perms_by_name" => self.has_permission(args)?,
            "pwdcompare" => Value::Int(0),
            "original_db_name" => {
                let entry = self.state.instance.database(self.state.login_database);
                entry.map_or(Value::Null, |e| Value::str(e.name()))
            }
            _ => return None,
        })
    }

    fn user_name(&self, id: i32) -> Value {
        const FIXED: [&str; 5] = ["public", "dbo", "guest", "INFORMATION_SCHEMA", "sys"];
        let fixed = usize::try_from(id).ok().and_then(|at| FIXED.get(at));
        if let Some(name) = fixed.copied().or_else(|| fixed_role_name(id)) {
            return Value::str(name);
        }
        let catalog = self.state.catalog(self.current_database());
        let found = catalog
            .ok()
            .and_then(|c| c.principal(id).map(|p| p.name.clone()));
        found.map_or(Value::Null, Value::str)
    }

    fn is_server_role_member(&self, role: &str, login: Option<&str>) -> Value {
        if !SERVER_ROLES.iter().any(|r| r.eq_ignore_ascii_case(role)) {
            return Value::Null;
        }
        let login = match login {
            None => self.state.server_rights().login.clone(),
            Some(name) => match self.state.logins().get(name) {
                None => return Value::Null,
                found => found,
            },
        };
        let holds = role.eq_ignore_ascii_case("public")
            || login.is_some_and(|l| {
                l.is_sysadmin() || l.roles.iter().any(|r| r.eq_ignore_ascii_case(role))
            });
        Value::Int(i32::from(holds))
    }

    fn is_database_role_member(&self, role: &str, user: Option<&str>) -> Value {
        let database = self.current_database();
        // Of others one is told what one may know of.
        let catalog = match user {
            None => self.state.catalog(database),
            Some(_) => self.visible(database),
        };
        let (Some(id), Ok(catalog)) = (self.database_principal(role), catalog) else {
            return Value::Null;
        };
        let is_role = id == 0 || id >= 16_384 || catalog.principal(id).is_some_and(|p| p.is_role);
        if !is_role {
            return Value::Null;
        }
        let rights = match user {
            None => self.state.rights(database).ok().map(|r| {
                let fixed = r.all && (id == 0 || (16_384..16_392).contains(&id));
                fixed || r.principals.contains(&id)
            }),
            Some(name) if names_equal(name, "dbo") => {
                Some(id == 0 || id == super::rights::DB_OWNER)
            }
            Some(name) => catalog.principal_named(name).map(|user| {
                let server = Default::default();
                let rights = Rights::of_user(&catalog, Some(user), server, true);
                rights.is_some_and(|r| r.principals.contains(&id))
            }),
        };
        rights.map_or(Value::Null, |holds| Value::Int(i32::from(holds)))
    }

    fn has_on_column(
        &self,
        database: DatabaseId,
        object: &Object,
        permission: &str,
        column: &str,
    ) -> Option<bool> {
        let columns = super::columns_of(object);
        let column = columns.iter().find(|c| names_equal(&c.name, column))?;
        let catalog = self.state.catalog(database).ok()?;
        let rights = self.state.rights(database).ok()?;
        Some(rights.may_column(&catalog, permission, Securable::of(object), column.id))
    }

    /// HAS_PERMS_BY_NAME(securable, class, permission [, column, 'COLUMN']).
    fn has_permission(&self, args: &[Value]) -> Option<Value> {
        let permission = text(args, 2)?.to_uppercase();
        let securable = text(args, 0);
        let class = text(args, 1).map(str::to_uppercase);
        let database = self.current_database();
        let any = permission == "ANY";
        let may = match (securable, class.as_deref()) {
            (None, None | Some("SERVER")) => self.state.server_rights().has(&permission),
            (name, Some("DATABASE")) => {
                let entry = match name {
                    None => self.state.instance.database(database),
                    Some(name) => self.state.instance.database_named(name),
                }?;
                match any {
                    true => self.state.rights(entry.id()).is_ok(),
                    false => self.may(entry.id(), &permission, Securable::Database),
                }
            }
            (Some(name), Some("OBJECT") | None) => {
                let name = parse_object_name(name, &ParseOptions::default()).ok()?;
                let (database, object) = self.find_object(&name).ok()??;
                let on = Securable::of(&object);
                if let Some(column) = text(args, 3) {
                    let may = self.has_on_column(database, &object, &permission, column)?;
                    return Some(Value::Int(i32::from(may)));
                }
                match any {
                    true => {
                        let catalog = self.state.catalog(database).ok()?;
                        self.state.rights(database).ok()?.sees(&catalog, on)
                    }
                    false => self.may(database, &permission, on),
                }
            }
            (Some(name), Some("SCHEMA")) => {
                let catalog = self.state.catalog(database).ok()?;
                let schema = catalog.schema_named(name)?.id;
                self.may(database, &permission, Securable::Schema(schema))
            }
            (Some(name), Some("LOGIN")) => {
                let login = self.state.logins().get(name)?;
                self.state
                    .server_rights()
                    .has_on_login(login.id, &permission)
            }
            (Some(name), Some("USER" | "ROLE")) => {
                let id = self.database_principal(name)?;
                self.may(database, &permission, Securable::Principal(id))
            }
            _ => return None,
        };
        Some(Value::Int(i32::from(may)))
    }
}

/// An argument that may be left out: `None` for the whole when it is NULL.
fn given(args: &[Value], index: usize) -> Option<Option<&str>> {
    match args.get(index) {
        None => Some(None),
        Some(_) => text(args, index).map(Some),
    }
}
