//! Names and ids of the server's own objects.
//!
//! Theory: system objects are not stored, so their ids come from their names: a hash, made negative as the product's
//! are. The same name has the same id in every database and release.
//!
//! Invariant: no two registered objects share an id (test).

use crate::host::VirtualTable;
use crate::instance::Registry;
use daruma_catalog::{SCHEMA_DBO, SCHEMA_INFORMATION_SCHEMA, SCHEMA_SYS, name_key};
use std::sync::Arc;

/// A view, function or procedure of the server itself.
#[derive(Clone)]
pub struct SystemObject {
    pub id: i32,
    pub schema_id: i32,
    pub name: String,
    /// Two characters, as in `sys.all_objects.type`.
    pub type_code: &'static str,
    /// Views and functions.
    pub table: Option<Arc<dyn VirtualTable>>,
}

/// The system object of this name, if there is one. `schema` as written: `sys`, `INFORMATION_SCHEMA`, `dbo`.
pub fn system_object(registry: &Registry, schema: &str, name: &str) -> Option<SystemObject> {
    let key = name_key(schema);
    let schema_id = fixed_schema_id(&key)?;
    if let Some(table) = registry.table(&key, name) {
        return Some(table_object(&key, table));
    }
    if schema_id == SCHEMA_DBO
        && let Some(table) = registry.table("sys", name)
    {
        return name_key(name)
            .starts_with("sys")
            .then(|| table_object("sys", table));
    }
    let procedures = matches!(schema_id, SCHEMA_SYS | SCHEMA_DBO);
    registry
        .procedure(name)
        .filter(|_| procedures)
        .map(|p| procedure_object(p.name()))
}

/// The system object with this id.
pub fn system_object_by_id(registry: &Registry, id: i32) -> Option<SystemObject> {
    if id >= 0 {
        return None;
    }
    system_objects(registry).into_iter().find(|o| o.id == id)
}

/// All of them, by name.
pub fn system_objects(registry: &Registry) -> Vec<SystemObject> {
    let tables = registry
        .tables()
        .map(|(schema, table)| table_object(schema, table));
    let procedures = registry.procedures().map(|p| procedure_object(p.name()));
    let mut list: Vec<SystemObject> = tables.chain(procedures).collect();
    list.sort_by(|a, b| (a.schema_id, &a.name).cmp(&(b.schema_id, &b.name)));
    list
}

fn table_object(schema: &str, table: &Arc<dyn VirtualTable>) -> SystemObject {
    let name = table.name().to_string();
    let takes_arguments = *table.arguments().end() > 0 || name.starts_with("fn_");
    SystemObject {
        id: hashed_id(schema, &name),
        schema_id: fixed_schema_id(schema).unwrap_or(SCHEMA_SYS),
        type_code: if takes_arguments { "IF" } else { "V " },
        name,
        table: Some(table.clone()),
    }
}

fn procedure_object(name: &str) -> SystemObject {
    SystemObject {
        id: hashed_id("sys", name),
        schema_id: SCHEMA_SYS,
        name: name.to_string(),
        type_code: if name.starts_with("xp_") { "X " } else { "P " },
        table: None,
    }
}

/// Schemas in which system objects live; old names are also reached through `dbo`.
fn fixed_schema_id(key: &str) -> Option<i32> {
    match key {
        "sys" => Some(SCHEMA_SYS),
        "information_schema" => Some(SCHEMA_INFORMATION_SCHEMA),
        "dbo" => Some(SCHEMA_DBO),
        _ => None,
    }
}

/// Names of the schemas that every database has.
pub(crate) fn fixed_schema_name(id: i32) -> &'static str {
    match id {
        1 => "dbo",
        2 => "guest",
        3 => "INFORMATION_SCHEMA",
        4 => "sys",
        _ => "",
    }
}

/// FNV-1a over the lower-case name, in the range -2^30 .. -1000.
fn hashed_id(schema: &str, name: &str) -> i32 {
    const RANGE: u32 = (1 << 30) - 1_000;
    let bytes = schema.bytes().chain([b'.']).chain(name.bytes());
    let hash = bytes.fold(0x811C_9DC5u32, |h, b| {
        (h ^ u32::from(b.to_ascii_lowercase())).wrapping_mul(0x0100_0193)
    });
    -1_000 - (hash % RANGE) as i32
}
