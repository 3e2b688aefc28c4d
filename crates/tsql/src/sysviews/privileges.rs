//! INFORMATION_SCHEMA.TABLE_PRIVILEGES and COLUMN_PRIVILEGES: what was granted on tables and views, and on their columns.
//!
//! Theory: one is told of what was granted to oneself, to public, or by oneself. What follows from roles, ownership or a
//! wider permission is not listed.

use super::define::{Rows, View};
use super::information_schema::{Names, principal_name, view};
use super::source::Source;
use crate::error::Result;
use crate::session::columns_of;
use daruma_catalog::{Object, ObjectKind, PermissionDef, PermissionState};
use daruma_value::Value;
use std::sync::Arc;

pub(super) const VIEWS: &[View] = &[
    view("TABLE_PRIVILEGES", TABLE_PRIVILEGES, table_privileges),
    view("COLUMN_PRIVILEGES", COLUMN_PRIVILEGES, column_privileges),
];

const TABLE_PRIVILEGES: &str = "
    GRANTOR nvarchar(128)?; GRANTEE nvarchar(128)?; TABLE_CATALOG nvarchar(128)?; TABLE_SCHEMA sysname; TABLE_NAME sysname;
    PRIVILEGE_TYPE varchar(10)?; IS_GRANTABLE varchar(3)?";
const COLUMN_PRIVILEGES: &str = "
    GRANTOR nvarchar(128)?; GRANTEE nvarchar(128)?; TABLE_CATALOG nvarchar(128)?; TABLE_SCHEMA sysname; TABLE_NAME sysname;
    COLUMN_NAME sysname?; PRIVILEGE_TYPE varchar(10)?; IS_GRANTABLE varchar(3)?";

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
