//! Logins, users, roles and their members.

use super::define::{Rows, View, nothing};
use super::source::Source;
use crate::error::Result;
use daruma_catalog::{LoginDef, PermissionDef, PermissionState, names_equal};
use daruma_value::Value;
use std::sync::Arc;

pub(super) const VIEWS: &[View] = &[
    View::sys("server_principals", SERVER_PRINCIPALS, server_principals),
    View::sys("sql_logins", SQL_LOGINS, sql_logins),
    View::sys("server_role_members", ROLE_MEMBERS, server_role_members),
    View::sys("server_permissions", PERMISSIONS, server_permissions),
    View::sys(
        "database_principals",
        DATABASE_PRINCIPALS,
        database_principals,
    ),
    View::sys("database_role_members", ROLE_MEMBERS, database_role_members),
    View::sys("database_permissions", PERMISSIONS, database_permissions),
    View::sys("login_token", TOKENS, login_token),
    View::sys("user_token", TOKENS, user_token),
    View::sys(
        "credentials",
        "credential_id int; name sysname; credential_identity nvarchar(4000)?; create_date datetime; modify_date datetime; target_type nvarchar(100)?; target_id int?",
        credentials,
    ),
    View::sys(
        "linked_logins",
        "server_id int; local_principal_id int?; uses_self_credential bit; remote_name sysname?; modify_date datetime",
        nothing,
    ),
];

const SERVER_ROLES: &[(i32, &str)] = &[
    (2, "public"),
    (3, "sysadmin"),
    (4, "securityadmin"),
    (5, "serveradmin"),
    (6, "setupadmin"),
    (7, "processadmin"),
    (8, "diskadmin"),
    (9, "dbcreator"),
    (10, "bulkadmin"),
];

/// Roles that every database has, by `principal_id`.
pub(crate) const FIXED_ROLES: &[(i32, &str)] = &[
    (16_384, "db_owner"),
    (16_385, "db_accessadmin"),
    (16_386, "db_securityadmin"),
    (16_387, "db_ddladmin"),
    (16_389, "db_backupoperator"),
    (16_390, "db_datareader"),
    (16_391, "db_datawriter"),
    (16_392, "db_denydatareader"),
    (16_393, "db_denydatawriter"),
];

pub(crate) fn fixed_role_id(name: &str) -> Option<i32> {
    let found = FIXED_ROLES.iter().find(|(_, n)| names_equal(n, name));
    found.map(|(id, _)| *id)
}

pub(crate) fn fixed_role_name(id: i32) -> Option<&'static str> {
    FIXED_ROLES.iter().find(|(i, _)| *i == id).map(|(_, n)| *n)
}

const SERVER_PRINCIPALS: &str = "
    name sysname; principal_id int; sid varbinary(85)?; type char(1) = R; type_desc nvarchar(60)? = SERVER_ROLE;
    is_disabled bit? = 0; create_date datetime; modify_date datetime; default_database_name sysname?;
    default_language_name sysname?; credential_id int?; owning_principal_id int?; is_fixed_role bit; tenant_id uniqueidentifier?";

const SQL_LOGINS: &str = "
    name sysname; principal_id int; sid varbinary(85)?; type char(1) = S; type_desc nvarchar(60)? = SQL_LOGIN;
    is_disabled bit? = 0; create_date datetime; modify_date datetime; default_database_name sysname?;
    default_language_name sysname?; credential_id int?; is_policy_checked bit? = 0; is_expiration_checked bit? = 0;
    password_hash varbinary(256)?";

fn server_principals(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let instance = source.instance()?;
    for login in visible_logins(source)? {
        login_row(source, &login, rows);
        match login.certificate_id {
            Some(_) => rows
                .set("type", "C")
                .set("type_desc", "CERTIFICATE_MAPPED_LOGIN"),
            None => rows.set("type", "S").set("type_desc", "SQL_LOGIN"),
        };
    }
    for (id, name) in SERVER_ROLES {
        rows.add()
            .set("name", *name)
            .set("principal_id", *id)
            .set("sid", vec![*id as u8])
            .set("create_date", source.time(instance.started_utc()))
            .set("modify_date", source.time(instance.started_utc()))
            .set("owning_principal_id", 1)
            .set("is_fixed_role", *id != 2);
    }
    Ok(())
}

fn sql_logins(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let logins = visible_logins(source)?;
    for login in logins.iter().filter(|l| l.certificate_id.is_none()) {
        login_row(source, login, rows);
        rows.set("is_policy_checked", login.check_policy)
            .set("is_expiration_checked", login.check_expiration);
    }
    Ok(())
}

/// All logins for whoever administers them; for others sa and their own.
pub(super) fn visible_logins(source: &Source<'_>) -> Result<Vec<Arc<LoginDef>>> {
    let own = match source.host.system_function("suser_sname", &[])? {
        Value::Str(name) => Some(name.to_string()),
        _ => None,
    };
    let all = source.host.has_server_permission("VIEW ANY DEFINITION")
        || source.host.has_server_permission("ALTER ANY LOGIN");
    let mut logins = source.logins()?.all();
    logins
        .retain(|l| all || l.id == 1 || own.as_ref().is_some_and(|own| names_equal(own, &l.name)));
    Ok(logins)
}

fn login_row(source: &Source<'_>, login: &LoginDef, rows: &mut Rows<'_>) {
    rows.add()
        .set("name", &login.name)
        .set("principal_id", login.id)
        .set("sid", login.sid.clone())
        .set("is_disabled", login.disabled)
        .set("create_date", source.time(login.created_utc))
        .set("modify_date", source.time(login.modified_utc))
        .set("default_database_name", &login.default_database)
        .set("default_language_name", &login.default_language);
}

const ROLE_MEMBERS: &str = "role_principal_id int; member_principal_id int";

fn server_role_members(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for login in visible_logins(source)? {
        let roles = SERVER_ROLES.iter().filter(|(id, name)| {
            let named = login.roles.iter().any(|r| names_equal(r, name));
            named || (login.id == 1 && *id == 3)
        });
        for (id, _) in roles {
            rows.add()
                .set("role_principal_id", *id)
                .set("member_principal_id", login.id);
        }
    }
    Ok(())
}

const PERMISSIONS: &str = "
    class tinyint; class_desc nvarchar(60)?; major_id int; minor_id int; grantee_principal_id int;
    grantor_principal_id int = 1; type char(4); permission_name nvarchar(128)?; state char(1) = G;
    state_desc nvarchar(60)? = GRANT";

fn server_permissions(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for login in visible_logins(source)? {
        let connect = connects("CONNECT SQL", 100);
        let has = login
            .permissions
            .iter()
            .any(|p| p.permission == "CONNECT SQL");
        let given = (!has).then_some(&connect).into_iter();
        for permission in given.chain(&login.permissions) {
            permission_row(login.id, permission, rows);
        }
    }
    Ok(())
}

fn connects(permission: &str, class: u8) -> PermissionDef {
    PermissionDef {
        class,
        major: 0,
        minor: 0,
        permission: permission.to_string(),
        state: PermissionState::Grant,
        grantor: 1,
    }
}

/// Codes of `sys.database_permissions.type`.
const PERMISSION_TYPES: &[(&str, &str)] = &[
    ("ADMINISTER BULK OPERATIONS", "ADBO"),
    ("ALTER", "AL  "),
    ("ALTER ANY AVAILABILITY GROUP", "ALAG"),
    ("ALTER ANY CONNECTION", "ALCO"),
    ("ALTER ANY DATABASE", "ALDB"),
    ("ALTER ANY ENDPOINT", "ALHE"),
    ("ALTER ANY EVENT SESSION", "AAES"),
    ("ALTER ANY LOGIN", "ALLG"),
    ("ALTER ANY ROLE", "ALRL"),
    ("ALTER ANY SCHEMA", "ALSM"),
    ("ALTER ANY USER", "ALUS"),
    ("ALTER SERVER STATE", "ALSS"),
    ("ALTER SETTINGS", "ALST"),
    ("AUTHENTICATE", "AUTH"),
    ("AUTHENTICATE SERVER", "AUTH"),
    ("BACKUP DATABASE", "BADB"),
    ("BACKUP LOG", "BALO"),
    ("CHECKPOINT", "CP  "),
    ("CONNECT", "CO  "),
    ("CONNECT ANY DATABASE", "CADB"),
    ("CONNECT SQL", "COSQ"),
    ("CONTROL", "CL  "),
    ("CONTROL SERVER", "CL  "),
    ("CREATE ANY DATABASE", "CRDB"),
    ("CREATE AVAILABILITY GROUP", "CRAG"),
    ("CREATE ENDPOINT", "CRHE"),
    ("CREATE FUNCTION", "CRFN"),
    ("CREATE PROCEDURE", "CRPR"),
    ("CREATE ROLE", "CRRL"),
    ("CREATE SCHEMA", "CRSM"),
    ("CREATE SYNONYM", "CRSN"),
    ("CREATE TABLE", "CRTB"),
    ("CREATE TYPE", "CRTY"),
    ("CREATE VIEW", "CRVW"),
    ("DELETE", "DL  "),
    ("EXECUTE", "EX  "),
    ("IMPERSONATE", "IM  "),
    ("IMPERSONATE ANY LOGIN", "IAL "),
    ("INSERT", "IN  "),
    ("REFERENCES", "RF  "),
    ("SELECT", "SL  "),
    ("SELECT ALL USER SECURABLES", "SUS "),
    ("SHOWPLAN", "SPLN"),
    ("SHUTDOWN", "SHDN"),
    ("TAKE OWNERSHIP", "TO  "),
    ("UPDATE", "UP  "),
    ("VIEW ANY DATABASE", "VWDB"),
    ("VIEW ANY DEFINITION", "VWAD"),
    ("VIEW CHANGE TRACKING", "VWCT"),
    ("VIEW DATABASE STATE", "VWDS"),
    ("VIEW DEFINITION", "VW  "),
    ("VIEW SERVER STATE", "VWSS"),
];

fn permission_row(grantee: i32, permission: &PermissionDef, rows: &mut Rows<'_>) {
    let class = match permission.class {
        0 => "DATABASE",
        1 => "OBJECT_OR_COLUMN",
        3 => "SCHEMA",
        4 => "DATABASE_PRINCIPAL",
        100 => "SERVER",
        105 => "ENDPOINT",
        108 => "AVAILABILITY GROUP",
        _ => "SERVER_PRINCIPAL",
    };
    let (state, state_name) = match permission.state {
        PermissionState::Grant => ("G", "GRANT"),
        PermissionState::GrantWithOption => ("W", "GRANT_WITH_GRANT_OPTION"),
        PermissionState::Deny => ("D", "DENY"),
    };
    let code = PERMISSION_TYPES
        .iter()
        .find(|(name, _)| *name == permission.permission)
        .map_or("    ", |(_, code)| *code);
    rows.add()
        .set("class", permission.class)
        .set("class_desc", class)
        .set("major_id", permission.major)
        .set("minor_id", permission.minor)
        .set("grantee_principal_id", grantee)
        .set("grantor_principal_id", permission.grantor)
        .set("type", code)
        .set("permission_name", &permission.permission)
        .set("state", state)
        .set("state_desc", state_name);
}

const DATABASE_PRINCIPALS: &str = "
    name sysname; principal_id int; type char(1); type_desc nvarchar(60)?; default_schema_name sysname?;
    create_date datetime; modify_date datetime; owning_principal_id int?; sid varbinary(85)?; is_fixed_role bit;
    authentication_type int; authentication_type_desc nvarchar(60)? = NONE; default_language_name sysname?;
    default_language_lcid int?; allow_encrypted_value_modifications bit; tenant_id uniqueidentifier?";

fn database_principals(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    const USERS: [(i32, &str, Option<&str>); 4] = [
        (1, "dbo", Some("dbo")),
        (2, "guest", Some("guest")),
        (3, "INFORMATION_SCHEMA", None),
        (4, "sys", None),
    ];
    let created = source.entry()?.def().created_utc;
    let dates = |rows: &mut Rows<'_>, at| {
        rows.set("create_date", source.time(at))
            .set("modify_date", source.time(at));
    };
    rows.add()
        .set("name", "public")
        .set("principal_id", 0)
        .set("type", "R")
        .set("type_desc", "DATABASE_ROLE");
    rows.set("owning_principal_id", 1);
    dates(rows, created);
    for (id, name, schema) in USERS {
        rows.add()
            .set("name", name)
            .set("principal_id", id)
            .set("type", "S")
            .set("type_desc", "SQL_USER");
        rows.set("default_schema_name", schema);
        dates(rows, created);
        if id == 1 {
            rows.set("sid", vec![1])
                .set("authentication_type", 1)
                .set("authentication_type_desc", "INSTANCE");
        }
    }
    for def in source.catalog()?.principals() {
        let (code, description) = if def.is_role {
            ("R", "DATABASE_ROLE")
        } else {
            ("S", "SQL_USER")
        };
        rows.add()
            .set("name", &def.name)
            .set("principal_id", def.id)
            .set("type", code)
            .set("type_desc", description);
        dates(rows, def.created_utc);
        if def.is_role {
            rows.set("owning_principal_id", 1);
            continue;
        }
        rows.set("default_schema_name", &def.default_schema);
        let by_name = |name: &String| Some(source.logins().ok()?.get(name)?.sid.clone());
        // Its own, whatever the login of that name has by now.
        let sid = def.sid.clone().or(def.login.as_ref().and_then(by_name));
        if let Some(sid) = sid {
            rows.set("sid", sid)
                .set("authentication_type", 1)
                .set("authentication_type_desc", "INSTANCE");
        }
    }
    for (id, name) in FIXED_ROLES {
        rows.add()
            .set("name", *name)
            .set("principal_id", *id)
            .set("type", "R")
            .set("type_desc", "DATABASE_ROLE");
        rows.set("owning_principal_id", 1)
            .set("is_fixed_role", true);
        dates(rows, created);
    }
    Ok(())
}

fn database_role_members(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let catalog = source.catalog()?;
    let mut line = |role: i32, member: i32| {
        rows.add()
            .set("role_principal_id", role)
            .set("member_principal_id", member);
    };
    line(16_384, 1);
    for member in catalog.principals() {
        member
            .fixed_roles
            .iter()
            .for_each(|role| line(*role, member.id));
    }
    for role in catalog.principals().filter(|p| p.is_role) {
        let members = role.members.iter();
        for member in members.filter_map(|name| catalog.principal_named(name)) {
            line(role.id, member.id);
        }
    }
    Ok(())
}

fn database_permissions(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let catalog = source.catalog()?;
    permission_row(1, &connects("CONNECT", 0), rows);
    for set in catalog.permissions() {
        // Of objects that are gone or hidden nothing is shown.
        let shown = |p: &&PermissionDef| match p.class {
            1 => catalog.object(p.major).is_some(),
            4 => p.major < 5 || catalog.principal(p.major).is_some(),
            _ => true,
        };
        let known = set.grantee < 5 || catalog.principal(set.grantee).is_some();
        for permission in set.list.iter().filter(shown).filter(|_| known) {
            permission_row(set.grantee, permission, rows);
        }
    }
    Ok(())
}

const TOKENS: &str = "principal_id int?; sid varbinary(85)?; name nvarchar(128)?; type nvarchar(128)?; usage nvarchar(128)? = GRANT OR DENY";

fn login_token(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let name = source.host.system_function("suser_sname", &[])?;
    if let Value::Str(name) = &name
        && let Some(login) = source.logins()?.get(name)
    {
        rows.add()
            .set("principal_id", login.id)
            .set("sid", login.sid.clone())
            .set("name", &login.name)
            .set("type", "SQL LOGIN");
    }
    Ok(())
}

fn user_token(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let id = source.host.system_function("user_id", &[])?;
    let name = source.host.system_function("user_name", &[])?;
    if let (Value::Int(id), Value::Str(name)) = (id, name) {
        rows.add()
            .set("principal_id", id)
            .set("sid", (id == 1).then(|| vec![1]))
            .set("name", name.as_str())
            .set("type", "SQL USER");
    }
    Ok(())
}

fn credentials(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let shown = ["ALTER ANY CREDENTIAL", "VIEW ANY DEFINITION"];
    if !shown.iter().any(|p| source.host.has_server_permission(p)) {
        return Ok(());
    }
    for credential in crate::session::all_credentials(source.instance()?) {
        rows.add()
            .set("credential_id", credential.id)
            .set("name", credential.name)
            .set("credential_identity", credential.identity)
            .set("create_date", source.time(credential.created_utc))
            .set("modify_date", source.time(credential.modified_utc));
    }
    Ok(())
}
