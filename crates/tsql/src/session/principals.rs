//! Principals as functions and statements see them: logins exist, permissions do not yet.
//!
//! Every login that could connect acts as a member of sysadmin, so every permission question is answered with yes.
//! Users and roles are stored so that scripts run and views show them.

use super::execution::Execution;
use super::functions::{int, text};
use crate::error::Result;
use crate::host::Host;
use crate::messages;
use daruma_catalog::{Change, PrincipalDef, names_equal};
use daruma_syntax::ast::{
    self, AlterLogin, AlterRole, DropKind, LoginSource, PrincipalStatement, UserSource,
};
use daruma_value::Value;
use std::sync::Arc;

/// Fixed principals of every database.
const FIXED_USERS: &[(i32, &str)] = &[
    (0, "public"),
    (1, "dbo"),
    (2, "guest"),
    (3, "INFORMATION_SCHEMA"),
    (4, "sys"),
];

/// What [`Execution::principal_function`] answers.
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

impl Execution<'_> {
    /// `None`: not a function of this room. A NULL argument where a name or id is needed gives NULL.
    pub(crate) fn principal_function(&self, name: &str, args: &[Value]) -> Option<Value> {
        FUNCTIONS
            .contains(&name)
            .then(|| self.principal_value(name, args).unwrap_or(Value::Null))
    }

    fn principal_value(&self, name: &str, args: &[Value]) -> Option<Value> {
        let login = self.state.entry.login.login.clone();
        let logins = &self.state.instance.logins;
        Some(match name {
            "suser_sname" | "suser_name" => match args.first() {
                None => Value::str(&login),
                Some(Value::Bytes(sid)) => logins
                    .all()
                    .iter()
                    .find(|l| l.sid == *sid)
                    .map_or(Value::Null, |l| Value::str(&l.name)),
                Some(_) => {
                    let id = int(args, 0)?;
                    logins
                        .all()
                        .iter()
                        .find(|l| l.id == id)
                        .map_or(Value::Null, |l| Value::str(&l.name))
                }
            },
            "original_login" => Value::str(&login),
            "suser_sid" => {
                let wanted = text(args, 0).unwrap_or(&login);
                logins
                    .get(wanted)
                    .map_or(Value::Null, |l| Value::Bytes(l.sid.clone()))
            }
            "suser_id" => {
                let wanted = text(args, 0).unwrap_or(&login);
                logins.get(wanted).map_or(Value::Null, |l| Value::Int(l.id))
            }
            "user_name" => match args.first() {
                None => Value::str("dbo"),
                Some(_) => self.user_name(int(args, 0)?),
            },
            "user_id" | "database_principal_id" => self.user_id(text(args, 0).unwrap_or("dbo")),
            "is_srvrolemember" => self.is_server_role_member(text(args, 0)?, text(args, 1)),
            "is_member" | "is_rolemember" => self.is_database_role_member(text(args, 0)?),
            "has_dbaccess" => match self.state.instance.database_named(text(args, 0)?) {
                Some(entry) => Value::Int(i32::from(entry.open().is_ok())),
                None => Value::Null,
            },
            "has_perms_by_name" => Value::Int(1),
            "pwdcompare" => Value::Int(0),
            "original_db_name" => {
                let entry = self.state.instance.database(self.state.login_database);
                entry.map_or(Value::Null, |e| Value::str(e.name()))
            }
            _ => return None,
        })
    }

    fn user_name(&self, id: i32) -> Value {
        if let Some((_, name)) = FIXED_USERS.iter().find(|(i, _)| *i == id) {
            return Value::str(name);
        }
        let catalog = self.state.catalog(self.current_database());
        let found = catalog
            .ok()
            .and_then(|c| c.principals().find(|p| p.id == id).map(|p| p.name.clone()));
        found.map_or(Value::Null, Value::str)
    }

    fn user_id(&self, name: &str) -> Value {
        if let Some((id, _)) = FIXED_USERS.iter().find(|(_, n)| names_equal(n, name)) {
            return Value::Int(*id);
        }
        let catalog = self.state.catalog(self.current_database());
        let found = catalog
            .ok()
            .and_then(|c| c.principal_named(name).map(|p| p.id));
        found.map_or(Value::Null, Value::Int)
    }

    fn is_server_role_member(&self, role: &str, login: Option<&str>) -> Value {
        const ROLES: &[&str] = &[
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
        if !ROLES.iter().any(|r| r.eq_ignore_ascii_case(role)) {
            return Value::Null;
        }
        match login {
            Some(name) if self.state.instance.logins.get(name).is_none() => Value::Null,
            _ => Value::Int(1),
        }
    }

    fn is_database_role_member(&self, role: &str) -> Value {
        let fixed = [
            "db_owner",
            "public",
            "db_ddladmin",
            "db_datareader",
            "db_datawriter",
            "db_accessadmin",
            "db_securityadmin",
            "db_backupoperator",
        ];
        if fixed.iter().any(|r| r.eq_ignore_ascii_case(role)) {
            return Value::Int(1);
        }
        match self.user_id(role) {
            Value::Null => Value::Null,
            _ => Value::Int(0),
        }
    }

    pub(crate) fn run_principal(&self, statement: &PrincipalStatement) -> Result<()> {
        match statement {
            PrincipalStatement::CreateLogin {
                name,
                source,
                options,
            } => self.create_login(&name.text, source, options),
            PrincipalStatement::AlterLogin { name, change } => self.alter_login(&name.text, change),
            PrincipalStatement::CreateUser {
                name,
                source,
                options,
            } => {
                let login = match source {
                    UserSource::Login(login) => Some(login.text.clone()),
                    UserSource::Implied => Some(name.text.clone()),
                    _ => None,
                };
                let schema = option_text(options, "DEFAULT_SCHEMA").unwrap_or("dbo".to_string());
                self.create_principal(&name.text, false, login, schema)
            }
            PrincipalStatement::CreateRole {
                name,
                server: false,
                ..
            } => self.create_principal(&name.text, true, None, String::new()),
            PrincipalStatement::AlterRole {
                name,
                server,
                change,
            } => match server {
                true => self.alter_server_role(&name.text, change),
                false => self.alter_role(&name.text, change),
            },
            // Accepted: nothing here depends on owners, application roles or credentials yet.
            PrincipalStatement::AlterUser { .. }
            | PrincipalStatement::AlterAuthorization { .. } => Ok(()),
            PrincipalStatement::CreateRole { .. }
            | PrincipalStatement::CreateApplicationRole { .. }
            | PrincipalStatement::AlterApplicationRole { .. }
            | PrincipalStatement::Credential { .. } => Err(messages::not_supported(
                "server roles, application roles and credentials",
            )),
        }
    }

    fn create_login(
        &self,
        name: &str,
        source: &LoginSource,
        options: &[ast::OptionItem],
    ) -> Result<()> {
        let LoginSource::Password(password) = source else {
            return Err(messages::not_supported("logins without SQL authentication"));
        };
        if password.hashed {
            return Err(messages::not_supported("PASSWORD .. HASHED"));
        }
        let password = self.password(&password.value)?;
        let database = option_text(options, "DEFAULT_DATABASE").unwrap_or("master".to_string());
        let language = option_text(options, "DEFAULT_LANGUAGE").unwrap_or("us_english".to_string());
        let mut sid = vec![0; 16];
        self.random_bytes(&mut sid);
        let instance = &self.state.instance;
        instance.logins.create(
            name,
            &password,
            &database,
            &language,
            instance.now_utc(),
            sid,
        )
    }

    fn alter_login(&self, name: &str, change: &AlterLogin) -> Result<()> {
        let logins = &self.state.instance.logins;
        let mut login = logins.existing(name, "alter")?;
        match change {
            AlterLogin::Enable => login.disabled = false,
            AlterLogin::Disable => login.disabled = true,
            AlterLogin::With {
                password, options, ..
            } => {
                if let Some(password) = password {
                    let text = self.password(&password.value)?;
                    logins.set_password(name, &text)?;
                    login = logins.existing(name, "alter")?;
                }
                if let Some(database) = option_text(options, "DEFAULT_DATABASE") {
                    login.default_database = database;
                }
                if let Some(language) = option_text(options, "DEFAULT_LANGUAGE") {
                    login.default_language = language;
                }
                if let Some(new_name) = option_text(options, "NAME") {
                    if logins.get(&new_name).is_some_and(|l| l.id != login.id) {
                        return Err(messages::error(15025, &[&new_name]));
                    }
                    login.name = new_name;
                }
            }
            AlterLogin::AddCredential(_) | AlterLogin::DropCredential(_) => {
                return Err(messages::not_supported("CREDENTIAL"));
            }
        }
        login.modified_utc = self.state.instance.now_utc();
        logins.put(login)
    }

    fn password(&self, expr: &ast::Expr) -> Result<String> {
        let (value, from) = self.evaluate_alone(expr)?;
        Ok(super::convert::to_text(&value, from)?.unwrap_or_default())
    }

    fn create_principal(
        &self,
        name: &str,
        is_role: bool,
        login: Option<String>,
        default_schema: String,
    ) -> Result<()> {
        let database = self.current_database();
        self.atomic(|| {
            let catalog = self.state.catalog(database)?;
            let fixed = FIXED_USERS.iter().any(|(_, n)| names_equal(n, name));
            if fixed || catalog.principal_named(name).is_some() {
                return Err(messages::error(15023, &[&name]));
            }
            if let Some(login) = &login
                && self.state.instance.logins.get(login).is_none()
            {
                return Err(messages::error(15007, &[login]));
            }
            let def = PrincipalDef {
                id: catalog.next_principal_id(),
                name: name.to_string(),
                is_role,
                login: login.clone(),
                default_schema: default_schema.clone(),
                members: Vec::new(),
                created_utc: self.state.instance.now_utc(),
            };
            self.state
                .change(database, Change::PutPrincipal(Arc::new(def)))
        })
    }

    fn alter_role(&self, name: &str, change: &AlterRole) -> Result<()> {
        let database = self.current_database();
        self.atomic(|| {
            let catalog = self.state.catalog(database)?;
            let Some(role) = catalog.principal_named(name) else {
                // Fixed roles: everybody is a member of all of them.
                return match name.to_ascii_lowercase().starts_with("db_") {
                    true => Ok(()),
                    false => Err(messages::error(15151, &[&"alter", &"role", &name])),
                };
            };
            let mut def = (**role).clone();
            match change {
                AlterRole::AddMember(member) => def.members.push(member.text.clone()),
                AlterRole::DropMember(member) => {
                    def.members.retain(|m| !names_equal(m, &member.text))
                }
                AlterRole::Rename(new_name) => def.name = new_name.text.clone(),
            }
            self.state
                .change(database, Change::PutPrincipal(Arc::new(def)))
        })
    }

    fn alter_server_role(&self, role: &str, change: &AlterRole) -> Result<()> {
        let logins = &self.state.instance.logins;
        match change {
            AlterRole::AddMember(member) => {
                let mut login = logins.existing(&member.text, "add")?;
                login.roles.retain(|r| !names_equal(r, role));
                login.roles.push(role.to_ascii_lowercase());
                logins.put(login)
            }
            AlterRole::DropMember(member) => {
                let mut login = logins.existing(&member.text, "drop")?;
                login.roles.retain(|r| !names_equal(r, role));
                logins.put(login)
            }
            AlterRole::Rename(_) => Err(messages::not_supported("server roles")),
        }
    }

    pub(crate) fn drop_principals(&self, drop: &ast::Drop) -> Result<()> {
        drop.names.iter().try_for_each(|name| {
            let name = &name.name.text;
            match self.drop_principal(&drop.kind, name) {
                Err(error) if drop.if_exists && error.number == 15151 => Ok(()),
                other => other,
            }
        })
    }

    fn drop_principal(&self, kind: &DropKind, name: &str) -> Result<()> {
        match kind {
            DropKind::Login => self.state.instance.logins.remove(name),
            DropKind::User | DropKind::Role => {
                let what = if *kind == DropKind::User {
                    "user"
                } else {
                    "role"
                };
                let database = self.current_database();
                self.atomic(|| {
                    let catalog = self.state.catalog(database)?;
                    match catalog.principal_named(name) {
                        Some(def) => self.state.change(database, Change::DropPrincipal(def.id)),
                        None => Err(messages::error(15151, &[&"drop", &what, &name])),
                    }
                })
            }
            _ => Err(messages::error(15151, &[&"drop", &"principal", &name])),
        }
    }
}

/// Text of an option's value: a word, a name or a string.
pub(crate) fn option_text(options: &[ast::OptionItem], name: &str) -> Option<String> {
    let item = options.iter().find(|o| o.is(name))?;
    match &item.value {
        ast::OptionValue::Word(word) => Some(word.clone()),
        ast::OptionValue::Name(name) => Some(name.text.clone()),
        ast::OptionValue::Expr(ast::Expr::Column(column)) => Some(column.name.text.clone()),
        ast::OptionValue::Expr(ast::Expr::Literal(ast::Literal::String { text, .. })) => {
            Some(text.clone())
        }
        _ => None,
    }
}
