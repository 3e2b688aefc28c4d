//! Statements about principals: logins, users, roles and their members, and who owns what.

use super::access::{DBO, Securable, check_policy, class, user_of_login};
use super::execution::Execution;
use super::login_options::{
    SID_BYTES, check_expiration, check_must_change, default_language, given_sid, option_switch,
    option_text, refuse_credential,
};
use crate::error::Result;
use crate::host::Host;
use crate::instance::{DatabaseEntry, SA};
use crate::messages;
use crate::sysviews::fixed_role_id;
use daruma_catalog::{
    Change, DatabaseCatalog, LoginDef, PermissionDef, PermissionSet, PermissionState, PrincipalDef,
    Put, names_equal,
};
use daruma_syntax::ast::{
    self, AlterLogin, AlterRole, DropKind, LoginSource, PrincipalStatement, UserSource,
};
use std::sync::Arc;

/// Names that no user can have.
const RESERVED: &[&str] = &["public", "dbo", "guest", "INFORMATION_SCHEMA", "sys"];
const SERVER_ROLES: &[&str] = &[
    "sysadmin",
    "serveradmin",
    "securityadmin",
    "processadmin",
    "setupadmin",
    "bulkadmin",
    "diskadmin",
    "dbcreator",
];

impl Execution<'_> {
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
            } => self.create_user(&name.text, source, options),
            PrincipalStatement::AlterUser { name, options } => self.alter_user(&name.text, options),
            // Roles belong to dbo.
            PrincipalStatement::CreateRole {
                server: false,
                owner: Some(owner),
                ..
            } if !owner.is("dbo") => Err(messages::not_supported("CREATE ROLE .. AUTHORIZATION")),
            PrincipalStatement::CreateRole {
                name,
                server: false,
                ..
            } => self.create_role(&name.text),
            PrincipalStatement::AlterRole {
                name,
                server,
                change,
            } => match server {
                true => self.alter_server_role(&name.text, change),
                false => self.alter_role(&name.text, change),
            },
            PrincipalStatement::Credential {
                alter,
                database_scoped: false,
                name,
                options,
                provider: None,
            } => super::backup::credentials::put(self, *alter, &name.text, options),
            PrincipalStatement::AlterAuthorization { on, to } => {
                self.alter_authorization(on, to.as_ref().map(|t| t.text.as_str()))
            }
            PrincipalStatement::CreateRole { .. }
            | PrincipalStatement::CreateApplicationRole { .. }
            | PrincipalStatement::AlterApplicationRole { .. }
            | PrincipalStatement::Credential { .. } => Err(messages::not_supported(
                "server roles, application roles and credentials of databases and providers",
            )),
        }
    }

    // --- Logins

    fn may_alter_logins(&self) -> bool {
        self.state.server_rights().has("ALTER ANY LOGIN")
    }

    fn create_login(
        &self,
        name: &str,
        source: &LoginSource,
        options: &[ast::OptionItem],
    ) -> Result<()> {
        if !self.may_alter_logins() {
            return Err(messages::error(15247, &[]));
        }
        let password = match source {
            LoginSource::Password(password) => password,
            LoginSource::Certificate(certificate) => {
                return self.create_certificate_login(name, &certificate.text, options);
            }
            _ => return Err(messages::not_supported("logins without SQL authentication")),
        };
        if password.hashed {
            return Err(messages::not_supported("PASSWORD .. HASHED"));
        }
        refuse_credential(options)?;
        let text = self.password(&password.value)?;
        let check = option_switch(options, "CHECK_POLICY").unwrap_or(true);
        let expires = option_switch(options, "CHECK_EXPIRATION").unwrap_or(false);
        check_expiration(check, expires)?;
        check_must_change(password.must_change, check && expires)?;
        let default_database = self.default_database(options)?;
        let default_language = default_language(options)?;
        if check {
            check_policy(name, &text)?;
        }
        let sid = match given_sid(options)? {
            Some(sid) => sid,
            None => {
                let mut sid = vec![0; SID_BYTES];
                self.random_bytes(&mut sid);
                sid
            }
        };
        let instance = &self.state.instance;
        let now = instance.now_utc();
        let hash = instance.logins.hash(&text)?;
        let make = |id| LoginDef {
            id,
            name: name.to_string(),
            sid: sid.clone(),
            password_hash: hash,
            default_database: default_database.unwrap_or("master".to_string()),
            default_language: default_language.unwrap_or_else(|| self.language_of_server()),
            disabled: false,
            created_utc: now,
            modified_utc: now,
            roles: Vec::new(),
            permissions: Vec::new(),
            check_policy: check,
            check_expiration: expires,
            must_change: password.must_change,
            password_set_utc: now,
            certificate_id: None,
        };
        self.atomic(|| {
            self.lock_logins()?;
            if !self.may_alter_logins() {
                return Err(messages::error(15247, &[]));
            }
            let has_sid = |l: &Arc<LoginDef>| l.sid == sid && !names_equal(&l.name, name);
            if self.state.logins().all().iter().any(has_sid) {
                return Err(messages::error(15433, &[]));
            }
            self.add_login(make)
        })
    }

    /// CREATE LOGIN .. FROM CERTIFICATE: nobody connects with it, it may have rights, and it stands for a peer of an endpoint.
    fn create_certificate_login(
        &self,
        name: &str,
        certificate: &str,
        options: &[ast::OptionItem],
    ) -> Result<()> {
        if let Some(option) = options.first() {
            return Err(messages::error(155, &[&option.name, &"CREATE LOGIN"]));
        }
        let certificates = &self.state.instance.hadr.certificates;
        self.atomic(|| {
            self.lock_logins()?;
            if !self.may_alter_logins() {
                return Err(messages::error(15247, &[]));
            }
            // It is not dropped before the login is stored.
            certificates.unchanged(|| self.store_certificate_login(name, certificate))
        })
    }

    fn store_certificate_login(&self, name: &str, certificate: &str) -> Result<()> {
        let instance = &self.state.instance;
        let found = instance.hadr.certificate(certificate);
        let found = found
            .ok_or_else(|| messages::error(15151, &[&"find", &"certificate", &certificate]))?;
        // A SID of the product's own authority for certificates.
        let mut sid = vec![1, 6, 0, 0, 0, 0, 0, 9, 1, 0, 0, 0];
        sid.extend_from_slice(&crate::instance::keys::thumbprint(&found.der));
        if self.state.logins().all().iter().any(|l| l.sid == sid) {
            return Err(messages::error(15025, &[&name]));
        }
        let now = instance.now_utc();
        self.add_login(|id| LoginDef {
            id,
            name: name.to_string(),
            sid,
            password_hash: String::new(),
            default_database: "master".to_string(),
            default_language: "us_english".to_string(),
            disabled: false,
            created_utc: now,
            modified_utc: now,
            roles: Vec::new(),
            permissions: Vec::new(),
            check_policy: false,
            check_expiration: false,
            must_change: false,
            password_set_utc: 0,
            certificate_id: Some(found.id),
        })
    }

    fn alter_login(&self, name: &str, change: &AlterLogin) -> Result<()> {
        let logins = &self.state.instance.logins;
        let refused = || messages::error(15151, &[&"alter", &"login", &name]);
        let login = self.state.logins().get(name).ok_or_else(refused)?;
        let only_password = matches!(change, AlterLogin::With { password: Some(_), old_password: Some(_), unlock: false, options, .. } if options.is_empty());
        let own_password = only_password && self.is_own_login(&login);
        if !(own_password || self.may_alter_login(&login)) {
            return Err(refused());
        }
        if login.certificate_id.is_some()
            && matches!(
                change,
                AlterLogin::With {
                    password: Some(_),
                    ..
                }
            )
        {
            return Err(messages::not_supported(
                "PASSWORD of a login from a certificate",
            ));
        }
        if let AlterLogin::With {
            password, options, ..
        } = change
        {
            if password.as_ref().is_some_and(|p| p.hashed) {
                return Err(messages::not_supported("PASSWORD .. HASHED"));
            }
            refuse_credential(options)?;
        }
        // Hashing is slow on purpose, and nobody waits for it.
        let new_password = match change {
            AlterLogin::With {
                password,
                old_password,
                ..
            } => {
                if let Some(old) = old_password {
                    let old = self.password(old)?;
                    if !logins.verify(&login, &old) {
                        return Err(refused());
                    }
                }
                let text = password.as_ref().map(|p| self.password(&p.value));
                let text = text.transpose()?;
                let hash = text.as_deref().map(|text| logins.hash(text)).transpose()?;
                text.zip(hash)
            }
            AlterLogin::Enable | AlterLogin::Disable => None,
            AlterLogin::AddCredential(_) | AlterLogin::DropCredential(_) => {
                return Err(messages::not_supported("CREDENTIAL"));
            }
        };
        let now = self.state.instance.now_utc();
        let apply = |fresh: &mut LoginDef| {
            // Under the locks: who may do it, and what the login may, can be otherwise by now.
            if !(own_password || self.may_alter_login(&Arc::new(fresh.clone()))) {
                return Err(refused());
            }
            match change {
                AlterLogin::Enable => fresh.disabled = false,
                AlterLogin::Disable => fresh.disabled = true,
                AlterLogin::With {
                    password, options, ..
                } => {
                    self.set_login_options(fresh, options)?;
                    if let (Some(password), Some((text, hash))) = (password, new_password) {
                        if fresh.check_policy {
                            check_policy(&fresh.name, &text)?;
                        }
                        fresh.password_hash = hash;
                        fresh.must_change = password.must_change;
                        fresh.password_set_utc = now;
                    }
                    let is_off = |name| option_switch(options, name) == Some(false);
                    let asks = password.as_ref().is_some_and(|p| p.must_change);
                    if asks || is_off("CHECK_POLICY") || is_off("CHECK_EXPIRATION") {
                        check_must_change(fresh.must_change, fresh.check_expiration)?;
                    }
                }
                AlterLogin::AddCredential(_) | AlterLogin::DropCredential(_) => {}
            }
            fresh.modified_utc = now;
            Ok(())
        };
        let is_verified = matches!(
            change,
            AlterLogin::With {
                old_password: Some(_),
                ..
            }
        );
        self.atomic(|| {
            // Whoever may do nothing else keeps nobody from other logins.
            if !own_password {
                self.lock_logins()?;
            }
            self.lock_login(login.id)?;
            // A password that was looked at is still the one; to others it does not matter who changed it while they waited.
            let found = self.state.logins().by_id(login.id);
            let found = found.filter(|l| !is_verified && l.sid == login.sid);
            self.change_login(&found.unwrap_or_else(|| login.clone()), apply)
        })?;
        if matches!(change, AlterLogin::With { unlock: true, .. }) {
            logins.unlock(login.id);
        }
        Ok(())
    }

    fn is_own_login(&self, login: &LoginDef) -> bool {
        let rights = self.state.server_rights();
        let own = rights.login.as_ref();
        own.is_some_and(|l| l.id == login.id && l.sid == login.sid)
    }

    /// May the session change everything about the login?
    fn may_alter_login(&self, login: &Arc<LoginDef>) -> bool {
        let rights = self.state.server_rights();
        let may = rights.has("ALTER ANY LOGIN") || rights.has_on_login(login.id, "ALTER");
        may && rights.reaches(login)
    }

    /// What a new login speaks: `default language`.
    fn language_of_server(&self) -> String {
        let id = self.state.instance.configuration.in_use("default language");
        super::language_of_id(id)
            .unwrap_or("us_english")
            .to_string()
    }

    fn password(&self, expr: &ast::Expr) -> Result<String> {
        let (value, from) = self.evaluate_alone(expr)?;
        Ok(super::convert::to_text(&value, from)?.unwrap_or_default())
    }

    fn alter_server_role(&self, role: &str, change: &AlterRole) -> Result<()> {
        let refused = || messages::error(15151, &[&"alter", &"server role", &role]);
        let known = SERVER_ROLES.iter().any(|r| names_equal(r, role));
        let may = || {
            let rights = self.state.server_rights();
            let own = rights.login.as_ref();
            let holds = own.is_some_and(|l| l.roles.iter().any(|r| names_equal(r, role)));
            rights.all || holds
        };
        // Nobody waits, and nobody waits for him, who may not.
        if !known || !may() {
            return Err(refused());
        }
        let (member, verb, is_member) = match change {
            AlterRole::AddMember(member) => (&member.text, "add", true),
            AlterRole::DropMember(member) => (&member.text, "drop", false),
            AlterRole::Rename(_) => return Err(messages::not_supported("server roles")),
        };
        self.atomic(|| {
            let login = self.login_to_change(member)?;
            if !may() {
                return Err(refused());
            }
            let login = login.ok_or_else(|| messages::error(15151, &[&verb, &"login", member]))?;
            if login.id == SA && !is_member {
                return Err(messages::error(15405, &[&login.name]));
            }
            self.change_login(&login, |fresh| {
                fresh.roles.retain(|r| !names_equal(r, role));
                if is_member {
                    fresh.roles.push(role.to_ascii_lowercase());
                }
                Ok(())
            })
        })
    }

    // --- Users

    fn may_in_database(&self, permission: &str) -> bool {
        self.may(self.current_database(), permission, Securable::Database)
    }

    fn create_user(
        &self,
        name: &str,
        source: &UserSource,
        options: &[ast::OptionItem],
    ) -> Result<()> {
        if !self.may_in_database("ALTER ANY USER") {
            return Err(messages::error(15247, &[]));
        }
        if options.iter().any(|o| o.is("PASSWORD")) {
            return Err(messages::error(33233, &[]));
        }
        refuse_contained(options)?;
        let login = match source {
            UserSource::Certificate(_) => {
                return Err(messages::not_supported("users of certificates"));
            }
            UserSource::AsymmetricKey(_) => {
                return Err(messages::not_supported("users of asymmetric keys"));
            }
            UserSource::ExternalProvider => {
                return Err(messages::not_supported("users of external providers"));
            }
            UserSource::Login(login) => Some(login.text.clone()),
            UserSource::Implied => Some(name.to_string()),
            UserSource::WithoutLogin => None,
        };
        let found = match &login {
            None => None,
            Some(login) => Some(
                self.state
                    .logins()
                    .get(login)
                    .ok_or_else(|| messages::error(15007, &[login]))?,
            ),
        };
        let schema = option_text(options, "DEFAULT_SCHEMA").unwrap_or("dbo".to_string());
        self.add_principal(name, |catalog, id| {
            if let Some(login) = &found {
                self.check_new_user(catalog, login)?;
            }
            Ok(PrincipalDef {
                id,
                name: name.to_string(),
                is_role: false,
                login: login.clone(),
                default_schema: schema.clone(),
                members: Vec::new(),
                created_utc: self.state.instance.now_utc(),
                sid: found.as_ref().map(|l| l.sid.clone()),
                fixed_roles: Vec::new(),
            })
        })
    }

    /// Fails for a login that is a user of the current database already: `sa` is dbo everywhere (15405), and so is the owner in
    /// his own (15063).
    fn check_new_user(&self, catalog: &DatabaseCatalog, login: &LoginDef) -> Result<()> {
        if login.id == SA {
            return Err(messages::error(15405, &[&login.name]));
        }
        let entry = self.state.instance.database(self.current_database());
        let owns = entry.is_some_and(|e| e.def().is_owned_by(login));
        match owns || user_of_login(catalog, login).is_some() {
            true => Err(messages::error(15063, &[])),
            false => Ok(()),
        }
    }

    fn create_role(&self, name: &str) -> Result<()> {
        if !self.may_in_database("CREATE ROLE") {
            return Err(messages::error(15247, &[]));
        }
        self.add_principal(name, |_, id| {
            Ok(PrincipalDef {
                id,
                name: name.to_string(),
                is_role: true,
                login: None,
                default_schema: String::new(),
                members: Vec::new(),
                created_utc: self.state.instance.now_utc(),
                sid: None,
                fixed_roles: Vec::new(),
            })
        })
    }

    /// Puts a new user or role in place; a user may connect.
    fn add_principal(
        &self,
        name: &str,
        make: impl Fn(&DatabaseCatalog, i32) -> Result<PrincipalDef>,
    ) -> Result<()> {
        let database = self.current_database();
        self.define_alone(database, || {
            let catalog = self.state.catalog(database)?;
            if is_reserved(name) || catalog.principal_named(name).is_some() {
                return Err(messages::error(15023, &[&name]));
            }
            let def = make(&catalog, catalog.next_principal_id())?;
            let (id, is_role) = (def.id, def.is_role);
            self.state
                .change(database, Change::PutPrincipal(Put::new(def)))?;
            let list = match is_role {
                true => Vec::new(),
                false => vec![PermissionDef {
                    class: 0,
                    major: 0,
                    minor: 0,
                    permission: "CONNECT".to_string(),
                    state: PermissionState::Grant,
                    grantor: DBO,
                }],
            };
            let set = PermissionSet { grantee: id, list };
            let old = catalog.permissions_of(id);
            self.state
                .change(database, Change::PutPermissions(Put::of(old, set)))
        })
    }

    fn alter_user(&self, name: &str, options: &[ast::OptionItem]) -> Result<()> {
        let database = self.current_database();
        let refused = || messages::error(15151, &[&"alter", &"user", &name]);
        if names_equal(name, "dbo") && self.may_in_database("ALTER ANY USER") {
            return Err(messages::error(15150, &[&"alter", &"user", &name]));
        }
        let find = || {
            let catalog = self.state.catalog(database)?;
            let user = catalog.principal_named(name).filter(|p| !p.is_role);
            let user = user.ok_or_else(refused)?;
            let may = self.may_in_database("ALTER ANY USER")
                || self.may(database, "ALTER", Securable::Principal(user.id));
            // The login decides who acts as this user, whatever the user may do.
            let new_login = options.iter().any(|o| o.is("LOGIN"));
            let may_move = !new_login || self.may_in_database("CONTROL");
            match may && may_move {
                true => Ok(user.clone()),
                false => Err(refused()),
            }
        };
        // Nobody waits, and nobody waits for him, who may not.
        find()?;
        self.define_alone(database, || {
            let before = find()?;
            let mut def = (*before).clone();
            let catalog = self.state.catalog(database)?;
            refuse_contained(options)?;
            if let Some(schema) = option_text(options, "DEFAULT_SCHEMA") {
                def.default_schema = schema;
            }
            if let Some(login) = option_text(options, "LOGIN") {
                let found = self.state.logins().get(&login);
                let found = found.ok_or_else(|| messages::error(15007, &[&login]))?;
                let same = user_of_login(&catalog, &found).is_some_and(|u| u.id == def.id);
                if !same {
                    self.check_new_user(&catalog, &found)?;
                }
                def.sid = Some(found.sid.clone());
                def.login = Some(found.name.clone());
            }
            let old_name = def.name.clone();
            if let Some(new_name) = option_text(options, "NAME") {
                let namesake = catalog.principal_named(&new_name);
                if is_reserved(&new_name) || namesake.is_some_and(|p| p.id != def.id) {
                    return Err(messages::error(15023, &[&new_name]));
                }
                def.name = new_name;
            }
            self.rename_member(&catalog, &old_name, &def.name)?;
            self.state
                .change(database, Change::PutPrincipal(Put::over(&before, def)))
        })
    }

    /// Roles name their members.
    fn rename_member(&self, catalog: &DatabaseCatalog, old: &str, new: &str) -> Result<()> {
        if old == new {
            return Ok(());
        }
        for role in catalog.principals().filter(|p| p.is_role) {
            if role.members.iter().any(|m| names_equal(m, old)) {
                let mut def = (**role).clone();
                for member in def.members.iter_mut().filter(|m| names_equal(m, old)) {
                    *member = new.to_string();
                }
                let put = Put::over(role, def);
                self.state
                    .change(self.current_database(), Change::PutPrincipal(put))?;
            }
        }
        Ok(())
    }

    // --- Roles

    fn alter_role(&self, name: &str, change: &AlterRole) -> Result<()> {
        let database = self.current_database();
        let refused = || messages::error(15151, &[&"alter", &"role", &name]);
        // Nothing for a role that every database has.
        let find = || {
            let rights = self.state.rights(database)?;
            let catalog = self.state.catalog(database)?;
            let role = match fixed_role_id(name) {
                // Only dbo adds to them.
                Some(_) if rights.all => return Ok(None),
                Some(_) => return Err(refused()),
                None => catalog.principal_named(name).filter(|p| p.is_role),
            };
            let role = role.ok_or_else(refused)?;
            let may = rights.may(&catalog, "ALTER ANY ROLE", Securable::Database)
                || rights.may(&catalog, "ALTER", Securable::Principal(role.id));
            match may {
                true => Ok(Some(role.clone())),
                false => Err(refused()),
            }
        };
        // Nobody waits, and nobody waits for him, who may not.
        find()?;
        self.define_alone(database, || {
            let found = find()?;
            let catalog = self.state.catalog(database)?;
            let Some(before) = found else {
                let role = fixed_role_id(name).ok_or_else(refused)?;
                return self.alter_fixed_role(&catalog, role, name, change);
            };
            let mut def = (*before).clone();
            match change {
                AlterRole::AddMember(member) => {
                    let member = self.member(&catalog, "add", &member.text)?;
                    if member.id == def.id {
                        return Err(messages::error(15413, &[]));
                    }
                    def.members.retain(|m| !names_equal(m, &member.name));
                    def.members.push(member.name.clone());
                }
                AlterRole::DropMember(member) => {
                    self.member(&catalog, "drop", &member.text)?;
                    def.members.retain(|m| !names_equal(m, &member.text))
                }
                AlterRole::Rename(new_name) => {
                    let namesake = catalog.principal_named(&new_name.text);
                    let taken = is_reserved(&new_name.text);
                    if taken || namesake.is_some_and(|p| p.id != def.id) {
                        return Err(messages::error(15023, &[&new_name.text]));
                    }
                    self.rename_member(&catalog, &def.name, &new_name.text)?;
                    def.name = new_name.text.clone();
                }
            }
            self.state
                .change(database, Change::PutPrincipal(Put::over(&before, def)))
        })
    }

    fn alter_fixed_role(
        &self,
        catalog: &DatabaseCatalog,
        role: i32,
        name: &str,
        change: &AlterRole,
    ) -> Result<()> {
        let (verb, member) = match change {
            AlterRole::AddMember(member) => ("add", &member.text),
            AlterRole::DropMember(member) => ("drop", &member.text),
            AlterRole::Rename(_) => {
                return Err(messages::error(15150, &[&"alter", &"role", &name]));
            }
        };
        let before = self.member(catalog, verb, member)?;
        let mut def = (*before).clone();
        def.fixed_roles.retain(|id| *id != role);
        if matches!(change, AlterRole::AddMember(_)) {
            def.fixed_roles.push(role);
        }
        let put = Put::over(&before, def);
        self.state
            .change(self.current_database(), Change::PutPrincipal(put))
    }

    /// A user or role that roles may have as a member; errors 15405 and 15151.
    fn member(
        &self,
        catalog: &DatabaseCatalog,
        verb: &str,
        name: &str,
    ) -> Result<Arc<PrincipalDef>> {
        match catalog.principal_named(name) {
            Some(found) => Ok(found.clone()),
            None if names_equal(name, "dbo") => Err(messages::error(15405, &[&name])),
            None => Err(messages::error(15151, &[&verb, &"principal", &name])),
        }
    }

    // --- Owners

    fn alter_authorization(&self, on: &ast::Securable, to: Option<&str>) -> Result<()> {
        let name = &on.name.name.text;
        match on.class.as_deref() {
            Some("DATABASE") => self.change_database_owner(name, to.unwrap_or("sa")),
            Some("SCHEMA") => self.change_schema_owner(name, to.unwrap_or("dbo")),
            None | Some("OBJECT" | "TYPE") => self.keep_owner(on, to),
            Some(other) => Err(messages::not_supported(&format!(
                "ALTER AUTHORIZATION ON {other}"
            ))),
        }
    }

    /// Objects and types belong to the owner of their schema, and to nobody else: errors 15151 and 40517.
    fn keep_owner(&self, on: &ast::Securable, to: Option<&str>) -> Result<()> {
        let (database, name) = (self.current_database(), &on.name);
        let catalog = self.state.catalog(database)?;
        let class = on.class.as_deref().unwrap_or("OBJECT");
        let schema = match class {
            "TYPE" => {
                let schema = name.schema.as_ref().map_or("dbo", |s| s.text.as_str());
                let schema = catalog.schema_named(schema).map(|s| s.id);
                schema.filter(|id| {
                    let is_there = catalog.type_named(*id, &name.name.text).is_some();
                    is_there && self.may(database, "CONTROL", Securable::Schema(*id))
                })
            }
            _ => {
                let object = self.catalog_object(&catalog, database, name);
                let object =
                    object.filter(|o| self.may(database, "TAKE OWNERSHIP", Securable::of(o)));
                object.map(|o| o.schema_id)
            }
        };
        let missing = || messages::error(15151, &[&"find", &class.to_lowercase(), &name.name.text]);
        let schema = catalog.schema(schema.ok_or_else(missing)?);
        let owner = schema.map(|s| s.principal_id);
        let Some(to) = to else {
            return Ok(());
        };
        let no_principal = || messages::error(15151, &[&"find", &"principal", &to]);
        match Some(self.database_principal(to).ok_or_else(no_principal)?) == owner {
            true => Ok(()),
            false => Err(messages::not_supported(&format!(
                "ALTER AUTHORIZATION ON {class}"
            ))),
        }
    }

    pub(crate) fn change_database_owner(&self, database: &str, owner: &str) -> Result<()> {
        let may = |entry: &DatabaseEntry| {
            self.state.server_rights().all
                || self.may(entry.id(), "TAKE OWNERSHIP", Securable::Database)
        };
        let refused = || messages::error(15151, &[&"find", &"database", &database]);
        let entry = self.state.instance.database_named(database);
        // Nobody waits, and nobody waits for him, who may not.
        let entry = entry.filter(|e| may(e)).ok_or_else(refused)?;
        entry.check_changeable(self.state.entry.spid)?;
        let seen = self.new_owner(&entry, owner)?;
        // No rollback takes it back, so their ROLLBACK keeps it from happening.
        self.fire_before(self.event_of_owner(&entry, owner), || {
            format!(
                "ALTER AUTHORIZATION ON DATABASE::[{}] TO [{owner}]",
                entry.name()
            )
        })?;
        // Nobody makes the login a user of the database meanwhile.
        self.define_alone(entry.id(), || {
            // Nor drops it.
            self.lock_login(seen.id)?;
            entry.check_changeable(self.state.entry.spid)?;
            self.change_database(&entry, |def| {
                if !may(&entry) {
                    return Err(refused());
                }
                let login = self.new_owner(&entry, owner)?;
                // The name may be another login's by now.
                if login.sid != seen.sid {
                    return Err(messages::error(15151, &[&"find", &"principal", &owner]));
                }
                def.set_owner(&login);
                Ok(())
            })
        })
    }

    /// A login that the session may make the owner. That is no part of the transaction, so it is one that is there whether this
    /// commits or not.
    fn new_owner(&self, entry: &DatabaseEntry, owner: &str) -> Result<Arc<LoginDef>> {
        let instance = &self.state.instance;
        let committed = |l: &Arc<LoginDef>| {
            let found = instance.logins.by_id(l.id);
            found.is_some_and(|other| other.sid == l.sid)
        };
        let login = self.state.logins().get(owner).filter(committed);
        let login =
            login.ok_or_else(|| messages::error(15151, &[&"find", &"principal", &owner]))?;
        // Nobody is made the owner by somebody who could not act as him: the owner is dbo.
        let rights = self.state.server_rights();
        let own = rights.login.as_ref().is_some_and(|l| l.id == login.id);
        let may_be = own
            || rights.has("IMPERSONATE ANY LOGIN")
            || rights.has_on_login(login.id, "IMPERSONATE");
        if !may_be {
            return Err(messages::error(15151, &[&"find", &"principal", &owner]));
        }
        if user_of_login(&*self.state.catalog(entry.id())?, &login).is_some() {
            return Err(messages::error(15110, &[]));
        }
        Ok(login)
    }

    fn change_schema_owner(&self, schema: &str, owner: &str) -> Result<()> {
        let database = self.current_database();
        let refused = || messages::error(15151, &[&"find", &"schema", &schema]);
        let no_owner = || messages::error(15151, &[&"find", &"principal", &owner]);
        let find = || {
            let id = self.database_principal(owner).ok_or_else(no_owner)?;
            let catalog = self.state.catalog(database)?;
            let found = catalog.schema_named(schema).ok_or_else(refused)?;
            if !self.may(database, "TAKE OWNERSHIP", Securable::Schema(found.id)) {
                return Err(refused());
            }
            // The rights of its modules follow from the owner.
            match self.may_stand_for(database, id) {
                true => Ok((id, found.clone())),
                false => Err(no_owner()),
            }
        };
        // Nobody waits, and nobody waits for him, who may not.
        find()?;
        self.define_alone(database, || {
            let (id, before) = find()?;
            let mut def = (*before).clone();
            def.principal_id = id;
            self.state
                .change(database, Change::PutSchema(Put::over(&before, def)))
        })
    }

    // --- DROP

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
            DropKind::Login => self.drop_login(name),
            DropKind::User => self.drop_database_principal(name, "user", "ALTER ANY USER"),
            DropKind::Role => self.drop_database_principal(name, "role", "ALTER ANY ROLE"),
            DropKind::Credential => super::backup::credentials::remove(self, name),
            _ => Err(messages::error(15151, &[&"drop", &"principal", &name])),
        }
    }

    fn drop_login(&self, name: &str) -> Result<()> {
        let refused = || messages::error(15151, &[&"drop", &"login", &name]);
        let may = |login: &Arc<LoginDef>| {
            let rights = self.state.server_rights();
            login.id != SA && rights.has("ALTER ANY LOGIN") && rights.reaches(login)
        };
        // Nobody waits, and nobody waits for him, who may not.
        if !self.state.logins().get(name).is_some_and(|l| may(&l)) {
            return Err(refused());
        }
        self.atomic(|| {
            let login = self.login_to_change(name)?;
            let login = login.filter(may).ok_or_else(refused)?;
            self.check_unused_login(&login)?;
            // The id may be given out again: nobody keeps permissions on it.
            let on_it = |p: &PermissionDef| p.class == class::LOGIN && p.major == login.id;
            self.change_logins(
                |other| other.permissions.iter().any(on_it),
                |other| other.permissions.retain(|p| !on_it(p)),
            )?;
            self.remove_login(&login)
        })
    }

    /// Errors 15434 and 15174: a login that is connected, or owns databases, stays.
    fn check_unused_login(&self, login: &LoginDef) -> Result<()> {
        let instance = &self.state.instance;
        let connected = instance
            .sessions
            .all()
            .iter()
            .any(|s| s.login.sid.as_ref() == Some(&login.sid));
        if connected {
            return Err(messages::error(15434, &[&login.name]));
        }
        let owns = instance
            .databases()
            .iter()
            .any(|d| d.def().is_owned_by(login));
        match owns {
            true => Err(messages::error(15174, &[&login.name])),
            false => Ok(()),
        }
    }

    fn drop_database_principal(&self, name: &str, kind: &str, permission: &str) -> Result<()> {
        let database = self.current_database();
        let refused = || messages::error(15151, &[&"drop", &kind, &name]);
        if self.may_in_database(permission) {
            refuse_fixed(name, kind)?;
        }
        let find = || {
            let catalog = self.state.catalog(database)?;
            let def = catalog
                .principal_named(name)
                .filter(|p| p.is_role == (kind == "role"))
                .ok_or_else(refused)?;
            let may = self.may_in_database(permission)
                || self.may(database, "CONTROL", Securable::Principal(def.id));
            match may {
                true => Ok(def.clone()),
                false => Err(refused()),
            }
        };
        // Nobody waits, and nobody waits for him, who may not.
        find()?;
        self.define_alone(database, || {
            let def = find()?;
            let catalog = self.state.catalog(database)?;
            if def.is_role && !def.members.is_empty() {
                return Err(messages::error(15144, &[]));
            }
            if catalog.schemas().any(|s| s.principal_id == def.id) {
                return Err(messages::error(15138, &[&"schema"]));
            }
            let granted = |p: &PermissionDef| p.grantor == def.id;
            if catalog
                .permissions()
                .any(|set| set.list.iter().any(granted))
            {
                return Err(messages::error(15284, &[]));
            }
            for role in catalog.principals().filter(|p| p.is_role) {
                if role.members.iter().any(|m| names_equal(m, &def.name)) {
                    let mut changed = (**role).clone();
                    changed.members.retain(|m| !names_equal(m, &def.name));
                    self.state
                        .change(database, Change::PutPrincipal(Put::over(role, changed)))?;
                }
            }
            // The id may be given out again: it must not come with permissions, nor with others' permissions on it.
            self.forget_permissions_on(database, class::PRINCIPAL, def.id)?;
            if let Some(old) = self.state.catalog(database)?.permissions_of(def.id) {
                let set = PermissionSet {
                    grantee: def.id,
                    list: Vec::new(),
                };
                self.state
                    .change(database, Change::PutPermissions(Put::over(old, set)))?;
            }
            self.state.change(database, Change::DropPrincipal(def.id))
        })
    }
}

/// A name of a user or role that every database has.
fn is_reserved(name: &str) -> bool {
    RESERVED.iter().any(|n| names_equal(n, name)) || fixed_role_id(name).is_some()
}

/// Errors 15150 and 15539: what every database has stays.
fn refuse_fixed(name: &str, kind: &str) -> Result<()> {
    const USERS: &[&str] = &["dbo", "sys", "INFORMATION_SCHEMA"];
    let fixed = match kind {
        "role" => names_equal(name, "public") || fixed_role_id(name).is_some(),
        _ => USERS.iter().any(|n| names_equal(n, name)),
    };
    match fixed {
        true => Err(messages::error(15150, &[&"drop", &kind, &name])),
        false if kind == "user" && names_equal(name, "guest") => {
            Err(messages::error(15539, &[&name]))
        }
        false => Ok(()),
    }
}

/// What only users of a contained database have.
fn refuse_contained(options: &[ast::OptionItem]) -> Result<()> {
    const CONTAINED: &[&str] = &["SID", "PASSWORD", "OLD_PASSWORD", "DEFAULT_LANGUAGE"];
    let found = CONTAINED
        .iter()
        .find(|name| options.iter().any(|o| o.is(name)));
    if let Some(name) = found {
        return Err(messages::not_supported(&format!("{name} of a user")));
    }
    const UNCHECKED: &str = "ALLOW_ENCRYPTED_VALUE_MODIFICATIONS";
    match option_switch(options, UNCHECKED) {
        Some(true) => Err(messages::not_supported(UNCHECKED)),
        _ => Ok(()),
    }
}
