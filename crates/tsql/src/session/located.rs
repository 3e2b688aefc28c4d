//! Target of an extended property, named by levels: a database, schema, object, column, index, parameter and the like.

use super::access::Securable;
use super::execution::Execution;
use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::messages;
use daruma_base::DatabaseId;
use daruma_catalog::{
    DatabaseCatalog, Object, ObjectKind, PropertyClass, TableDef, constraints_of, names_equal,
};
use std::sync::Arc;

/// `TABLE`, `t`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Level {
    /// Upper case.
    pub kind: Option<String>,
    pub name: Option<String>,
}

/// Something that may have properties.
pub(crate) struct Located {
    pub class: PropertyClass,
    pub major: i32,
    pub minor: i32,
    /// As messages name it.
    pub shown: String,
    /// The object it is or belongs to.
    object: Option<Arc<Object>>,
}

/// Kinds of level 1 in a schema, with the objects they are.
pub(crate) fn is_of_kind(object: &Object, kind: &str) -> bool {
    match &object.kind {
        ObjectKind::Table(_) => kind == "TABLE",
        ObjectKind::View(_) => kind == "VIEW",
        ObjectKind::Procedure(_) => kind == "PROCEDURE",
        ObjectKind::Function(_) => kind == "FUNCTION",
        ObjectKind::Sequence(_) => kind == "SEQUENCE",
        ObjectKind::Synonym { .. } => kind == "SYNONYM",
        ObjectKind::Trigger(_) => false,
    }
}

/// Finds what the levels name: errors 15600 (levels that make no sense) and 15135 (it is not there).
pub(crate) fn locate(
    ex: &Execution<'_>,
    database: DatabaseId,
    procedure: &str,
    levels: &[Level],
) -> Result<Located> {
    let kinds: Vec<&str> = levels
        .iter()
        .map_while(|l| l.kind.as_deref().filter(|k| !k.is_empty()))
        .collect();
    let named = |n: usize| levels.get(n).and_then(|l| l.name.as_deref());
    let complete = levels
        .iter()
        .enumerate()
        .all(|(n, level)| (n < kinds.len()) == level.name.is_some());
    let invalid = || messages::error(15600, &[&procedure]);
    if !complete {
        return Err(invalid());
    }
    let catalog = ex.catalog(database)?;
    let names: Vec<&str> = (0..kinds.len()).filter_map(named).collect();
    let found = match (kinds.as_slice(), names.as_slice()) {
        ([], []) => Some(plain(PropertyClass::Database, 0, "object specified")),
        (["SCHEMA"], [schema]) => catalog
            .schema_named(schema)
            .map(|s| plain(PropertyClass::Schema, s.id, &s.name)),
        (["USER"], [user]) => catalog
            .principal_named(user)
            .map(|p| plain(PropertyClass::Principal, p.id, &p.name)),
        (["FILEGROUP"], [group]) => filegroup(ex, database, group),
        (["FILEGROUP", "LOGICAL FILE NAME"], [group, file]) => {
            filegroup(ex, database, group).and_then(|_| logical_file(ex, database, file))
        }
        (["SCHEMA" | "USER", kind], [schema, name]) => in_schema(&catalog, schema, kind, name),
        (["SCHEMA" | "USER", kind, part], [schema, name, part_name]) => {
            let object = in_schema(&catalog, schema, kind, name);
            object.and_then(|object| part_of(&catalog, &object, part, part_name))
        }
        _ => return Err(invalid()),
    };
    found.ok_or_else(|| not_there(&names))
}

fn not_there(names: &[&str]) -> SqlError {
    messages::error_state(15135, 8, &[&names.join(".")])
}

fn plain(class: PropertyClass, major: i32, shown: &str) -> Located {
    Located {
        class,
        major,
        minor: 0,
        shown: shown.to_string(),
        object: None,
    }
}

fn filegroup(ex: &Execution<'_>, database: DatabaseId, name: &str) -> Option<Located> {
    let def = ex.instance().database(database)?.def();
    let group = def.filegroup_named(name)?;
    Some(plain(
        PropertyClass::Filegroup,
        i32::from(group.id),
        &group.name,
    ))
}

fn logical_file(ex: &Execution<'_>, database: DatabaseId, name: &str) -> Option<Located> {
    let def = ex.instance().database(database)?.def();
    let file = def
        .files
        .iter()
        .find(|f| names_equal(&f.logical_name, name))?;
    Some(plain(
        PropertyClass::File,
        i32::from(file.id),
        &file.logical_name,
    ))
}

fn in_schema(catalog: &DatabaseCatalog, schema: &str, kind: &str, name: &str) -> Option<Located> {
    let schema = catalog.schema_named(schema)?;
    let shown = |name: &str| format!("{}.{name}", schema.name);
    if kind == "TYPE" {
        let found = catalog.type_named(schema.id, name)?;
        return Some(plain(PropertyClass::Type, found.id, &shown(&found.name)));
    }
    let object = catalog.object_named(schema.id, name)?;
    is_of_kind(object, kind).then(|| Located {
        object: Some(object.clone()),
        ..plain(PropertyClass::Object, object.id, &shown(&object.name))
    })
}

/// A column, constraint, trigger, index or parameter of an object.
fn part_of(catalog: &DatabaseCatalog, owner: &Located, kind: &str, name: &str) -> Option<Located> {
    let object = owner.object.as_ref()?;
    let shown = format!("{}.{name}", owner.shown);
    let located = |class, major, minor| Located {
        class,
        major,
        minor,
        shown,
        object: Some(object.clone()),
    };
    match (kind, &object.kind) {
        ("COLUMN", ObjectKind::Table(def)) => {
            let column = def.column_named(name)?;
            Some(located(PropertyClass::Object, object.id, column.id))
        }
        ("COLUMN", ObjectKind::View(module)) => {
            let column = module
                .columns
                .iter()
                .position(|c| names_equal(&c.name, name))?;
            Some(located(PropertyClass::Object, object.id, column as i32 + 1))
        }
        ("INDEX", ObjectKind::Table(def)) => {
            let index = index_named(def, name)?;
            Some(located(PropertyClass::Index, object.id, index))
        }
        ("CONSTRAINT", ObjectKind::Table(def)) => {
            let constraints = constraints_of(object.id, def);
            let (found, _) = constraints.iter().find(|(_, n)| names_equal(n, name))?;
            Some(located(PropertyClass::Object, found.id, 0))
        }
        ("TRIGGER", _) => {
            let mut triggers = catalog.triggers_of(object.id);
            let trigger = triggers.find(|t| names_equal(&t.name, name))?;
            Some(located(PropertyClass::Object, trigger.id, 0))
        }
        ("PARAMETER", ObjectKind::Procedure(module) | ObjectKind::Function(module)) => {
            let at = module
                .parameters
                .iter()
                .position(|p| names_equal(&p.name, name))?;
            Some(located(PropertyClass::Parameter, object.id, at as i32 + 1))
        }
        _ => None,
    }
}

fn index_named(def: &TableDef, name: &str) -> Option<i32> {
    let is =
        |i: &&daruma_catalog::IndexDef| i.name.as_deref().is_some_and(|n| names_equal(n, name));
    def.indexes.iter().find(is).map(|i| i.id)
}

impl Located {
    /// The object it is, or is a part of.
    pub(crate) fn object_id(&self) -> Option<i32> {
        self.object.as_ref().map(|object| object.id)
    }

    /// May the session change its properties?
    pub(crate) fn check(&self, ex: &Execution<'_>, database: DatabaseId) -> Result<()> {
        match &self.object {
            _ if ex.is_unlimited() => Ok(()),
            Some(object) => ex.check_alter(database, object),
            None if ex.may(database, "ALTER", Securable::Database) => Ok(()),
            None => Err(messages::error(15247, &[])),
        }
    }
}
