//! Logins, users, roles and their members.

use super::define::{Rows, View, nothing};
use super::source::Source;
use crate::error::Result;
use daruma_catalog::{LoginDef, names_equal};

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
    View::empty(
        "credentials",
        "credential_id int; name sysname; credential_identity nvarchar(4000)?; create_date datetime; modify_date datetime; target_type nvarchar(100)?; target_id int?",
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
    for login in instance.logins.all() {
        login_row(source, &login, rows);
        rows.set("type", "S").set("type_desc", "SQL_LOGIN");
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
    source
        .instance()?
        .logins
        .all()
        .iter()
        .for_each(|login| login_row(source, login, rows));
    Ok(())
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
    for login in source.instance()?.logins.all() {
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
    for login in source.instance()?.logins.all() {
        rows.add()
            .set("class", 100)
            .set("class_desc", "SERVER")
            .set("grantee_principal_id", login.id)
            .set("type", "COSQ")
            .set("permission_name", "CONNECT SQL");
    }
    Ok(())
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
        let login = def
            .login
            .as_ref()
            .and_then(|name| source.instance().ok()?.logins.get(name));
        if let Some(login) = login {
            rows.set("sid", login.sid.clone())
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
    rows.add()
        .set("role_principal_id", 16_384)
        .set("member_principal_id", 1);
    for role in catalog.principals().filter(|p| p.is_role) {
        for member in role
            .members
            .iter()
            .filter_map(|name| catalog.principal_named(name))
        {
            rows.add()
                .set("role_principal_id", role.id)
                .set("member_principal_id", member.id);
        }
    }
    Ok(())
}

fn database_permissions(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let users = source
        .catalog()?
        .principals()
        .filter(|p| !p.is_role)
        .map(|p| p.id)
        .collect::<Vec<_>>();
    for id in std::iter::once(1).chain(users) {
        rows.add()
            .set("class_desc", "DATABASE")
            .set("grantee_principal_id", id)
            .set("type", "CO  ")
            .set("permission_name", "CONNECT");
    }
    Ok(())
}

const TOKENS: &str = "principal_id int?; sid varbinary(85)?; name nvarchar(128)?; type nvarchar(128)?; usage nvarchar(128)? = GRANT OR DENY";

fn login_token(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let name = source
        .host
        .session_entry()
        .map_or("sa", |s| s.login.login.as_str());
    if let Some(login) = source.instance()?.logins.get(name) {
        rows.add()
            .set("principal_id", login.id)
            .set("sid", login.sid.clone())
            .set("name", &login.name)
            .set("type", "SQL LOGIN");
    }
    Ok(())
}

fn user_token(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    rows.add()
        .set("principal_id", 1)
        .set("sid", vec![1])
        .set("name", "dbo")
        .set("type", "SQL USER");
    Ok(())
}
