//! INFORMATION_SCHEMA.TABLE_PRIVILEGES and COLUMN_PRIVILEGES: what was granted on tables and views, and on their columns.
//!
//! Theory: one is told of what was granted to oneself, to public, or by oneself. What follows from roles, ownership or a
//! wider permission is not listed.

use super::define::{Rows, View};
use super::information_schema::{Names, principal_name, view};
use super::source::Source;
use crate::error::{Result, SqlError};
use crate::session::{columns_of, permissions_of};
use daruma_catalog::{Object, ObjectKind, PermissionDef, PermissionState};
use daruma_value::Value;
use std::sync::Arc;

pub(super) const VIEWS: &[View] = &[
    view("TABLE_PRIVILEGES", TABLE_PRIVILEGES, table_privileges),
    view("COLUMN_PRIVILEGES", COLUMN_PRIVILEGES, column_privileges),
    View::function("fn_my_permissions", (2, 2), MY_PERMISSIONS, my_permissions),
];

const TABLE_PRIVILEGES: &str = "
    GRANTOR nvarchar(128)?; GRANTEE nvarchar(128)?; TABLE_CATALOG nvarchar(128)?; TABLE_SCHEMA sysname; TABLE_NAME sysname;
    PRIVILEGE_TYPE varchar(10)?; IS_GRANTABLE varchar(3)?";
const COLUMN_PRIVILEGES: &str = "
    GRANTOR nvarchar(128)?; GRANTEE nvarchar(128)?; TABLE_CATALOG nvarchar(128)?; TABLE_SCHEMA sysname; TABLE_NAME sysname;
    COLUMN_NAME sysname?; PRIVILEGE_TYPE varchar(10)?; IS_GRANTABLE varchar(3)?";

const MY_PERMISSIONS: &str =
    "entity_name nvarchar(128)?; subentity_name nvarchar(128)?; permission_name nvarchar(60)?";

/// Permissions that the standard knows.
const OF_THE_STANDARD: &[&str] = &["DELETE", "INSERT", "REFERENCES", "SELECT", "UPDATE"];

struct Granted {
    grantee: i32,
    object: Arc<Object>,
    permission: PermissionDef,
}

fn table_privileges(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let names = Names::of(source)?;
    for granted in grants(source, &names)? {
        if granted.permission.minor == 0 {
            row(&names, &granted, rows);
        }
    }
    Ok(())
}

fn column_privileges(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let names = Names::of(source)?;
    for granted in grants(source, &names)? {
        let mut columns = columns_of(&granted.object).iter();
        if let Some(column) = columns.find(|c| c.id == granted.permission.minor) {
            row(&names, &granted, rows);
            rows.set("COLUMN_NAME", &column.name);
        }
    }
    Ok(())
}

fn row(names: &Names, granted: &Granted, rows: &mut Rows<'_>) {
    let Granted {
        grantee,
        object,
        permission,
    } = granted;
    let passes_on = permission.state == PermissionState::GrantWithOption;
    rows.add()
        .set(
            "GRANTOR",
            principal_name(&names.catalog, permission.grantor),
        )
        .set("GRANTEE", principal_name(&names.catalog, *grantee));
    names.set(rows, "TABLE", object.schema_id, &object.name);
    rows.set("PRIVILEGE_TYPE", &permission.permission)
        .set("IS_GRANTABLE", if passes_on { "YES" } else { "NO" });
}

fn grants(source: &Source<'_>, names: &Names) -> Result<Vec<Granted>> {
    let own = source.host.system_function("user_id", &[])?;
    let is_own = |id: i32| Value::Int(id) == own;
    let mut found = Vec::new();
    for set in names.catalog.permissions() {
        for permission in &set.list {
            let concerns = set.grantee == 0 || is_own(set.grantee) || is_own(permission.grantor);
            let object = names.catalog.object(permission.major);
            if let Some(object) = object.filter(|o| concerns && is_listed(o, permission)) {
                found.push(Granted {
                    grantee: set.grantee,
                    object: object.clone(),
                    permission: permission.clone(),
                });
            }
        }
    }
    Ok(found)
}

fn is_listed(object: &Object, permission: &PermissionDef) -> bool {
    permission.class == 1
        && permission.state != PermissionState::Deny
        && OF_THE_STANDARD.contains(&permission.permission.as_str())
        && matches!(object.kind, ObjectKind::Table(_) | ObjectKind::View(_))
}

/// What the session may do with a securable, by HAS_PERMS_BY_NAME: with the server, a database, an object and its columns, a schema, a
/// login, a user or a role. Nothing for what is not there.
fn my_permissions(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let text = |at: usize| match source.arguments.get(at) {
        Some(Value::Str(text)) => Some(text.to_string()),
        _ => None,
    };
    let Some(class) = text(1).map(|class| class.trim().to_uppercase()) else {
        return Ok(());
    };
    let securable = text(0);
    let name = match (&securable, class.as_str()) {
        (None, "SERVER") => "server".to_string(),
        (None, "DATABASE") => "database".to_string(),
        (Some(name), _) => name.clone(),
        (None, _) => return Ok(()),
    };
    let argument = securable.map_or(Value::Null, Value::str);
    let has = |permission: &str, column: Option<&str>| {
        let mut arguments = vec![argument.clone(), Value::str(&class), Value::str(permission)];
        if let Some(column) = column {
            arguments.extend([Value::str(column), Value::str("COLUMN")]);
        }
        let found = source
            .host
            .system_function("has_perms_by_name", &arguments)?;
        Ok::<bool, SqlError>(matches!(found, Value::Int(1)))
    };
    let object = match class.as_str() {
        "OBJECT" => object_named(source, &argument)?,
        _ => None,
    };
    for permission in permissions_of(&class) {
        let fits = object.as_ref().is_none_or(|o| is_of(o, permission));
        if fits && has(permission, None)? {
            rows.add()
                .set("entity_name", &name)
                .set("subentity_name", "")
                .set("permission_name", permission);
        }
    }
    for column in object.iter().flat_map(|o| columns_of(o)) {
        for permission in ["SELECT", "REFERENCES", "UPDATE"] {
            if has(permission, Some(&column.name))? {
                rows.add()
                    .set("entity_name", &name)
                    .set("subentity_name", &column.name)
                    .set("permission_name", permission);
            }
        }
    }
    Ok(())
}

fn object_named(source: &Source<'_>, name: &Value) -> Result<Option<Arc<Object>>> {
    let id = source
        .host
        .system_function("object_id", std::slice::from_ref(name))?;
    Ok(match id {
        Value::Int(id) => source.catalog()?.object(id).cloned(),
        _ => None,
    })
}

/// Does an object of this kind have the permission?
fn is_of(object: &Object, permission: &str) -> bool {
    let has_rows = matches!(object.kind, ObjectKind::Table(_) | ObjectKind::View(_));
    match permission {
        "INSERT" | "SELECT" | "UPDATE" | "DELETE" | "VIEW CHANGE TRACKING" => has_rows,
        "EXECUTE" => !has_rows,
        "REFERENCES" => !matches!(object.kind, ObjectKind::Procedure(_)),
        _ => true,
    }
}
