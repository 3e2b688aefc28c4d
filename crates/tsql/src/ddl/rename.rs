//! sp_rename for objects, columns, indexes and alias types.

use super::objects::is_named_by_definitions;
use super::{bound, lock_object, locked_in_place, locked_object, put_object, reserve_name};
use crate::error::Result;
use crate::host::Host;
use crate::messages;
use crate::session::Execution;
use daruma_base::DatabaseId;
use daruma_catalog::{
    Change, DatabaseCatalog, IndexDef, Object, ObjectKind, Put, TableDef, TypeDef, names_equal,
};
use daruma_storage::LockMode;
use daruma_syntax::ast::{Ident, ObjectName, Span};
use daruma_syntax::{ParseOptions, parse_object_name};
use std::sync::Arc;

/// `sp_rename @objname, @newname, @objtype`.
pub fn rename(ex: &Execution<'_>, name: &str, new_name: &str, kind: Option<&str>) -> Result<()> {
    let parsed = parse_object_name(name, &ParseOptions::default())
        .map_err(|_| messages::error(15225, &[&name, &"", &"(null)"]))?;
    let database = ex.current_database();
    // `schema.table.part` has no word for a database.
    let is_whole =
        kind.is_none_or(|k| !["COLUMN", "INDEX"].contains(&k.to_ascii_uppercase().as_str()));
    if parsed.server.is_some()
        || is_whole
            && parsed.database.is_some()
            && ex.named_database(database, &parsed) != Ok(database)
    {
        return Err(messages::error(15250, &[]));
    }
    let missing = || {
        let current = ex
            .instance()
            .database(database)
            .map_or(String::new(), |d| d.name());
        messages::error(15225, &[&name, &current, &kind.unwrap_or("(null)")])
    };
    let kind_upper = kind.map(str::to_ascii_uppercase);
    let mode = match kind_upper.as_deref() {
        Some("USERDATATYPE") => {
            // Nobody waits, and nobody waits for him, who may not.
            if type_to_rename(ex, database, &parsed)?.is_none() {
                return Err(missing());
            }
            LockMode::Exclusive
        }
        _ => {
            let catalog = ex.catalog(database)?;
            let object = ex.catalog_object(&catalog, database, &parsed);
            match object.is_some_and(|o| is_named_by_definitions(&o)) {
                true => LockMode::Exclusive,
                false => LockMode::Shared,
            }
        }
    };
    let part = match kind_upper.as_deref() {
        Some("COLUMN") => Some("COLUMN"),
        Some("INDEX") => Some("INDEX"),
        Some("USERDATATYPE") => Some("TYPE"),
        _ => None,
    };
    let work = || {
        let event = ex.event_of_rename(database, &parsed, part, new_name);
        let told = ex.told_of_events(event.into_iter().collect())?;
        let done = match kind_upper.as_deref() {
            None | Some("OBJECT") => rename_object(ex, database, &parsed, new_name, name)?,
            Some("COLUMN") => rename_part(ex, database, &parsed, |object, def, part| {
                let done = rename_column(def, part, new_name)?;
                bound::refuse_rename(ex, database, object, Some(part), name)?;
                Ok(done)
            })?,
            Some("INDEX") => rename_part(ex, database, &parsed, |object, def, part| {
                let mut constraints = def.indexes.iter().filter(|i| i.constraint.is_some());
                if constraints.any(|i| i.name.as_deref().is_some_and(|n| names_equal(n, part))) {
                    reserve(ex, database, object.schema_id, (part, new_name))?;
                }
                rename_index(def, part, new_name)
            })?,
            Some("USERDATATYPE") => rename_type(ex, database, &parsed, new_name)?,
            Some(other) => return Err(messages::error(15249, &[&other])),
        };
        match done {
            true => ex.fire(&told, &call_text(name, new_name, kind)),
            false => Err(missing()),
        }
    };
    ex.under_definitions(database, mode, || ex.atomic(work))
}

/// The call, as triggers of definitions are shown it.
fn call_text(name: &str, new_name: &str, kind: Option<&str>) -> String {
    let quoted = |text: &str| format!("N'{}'", text.replace('\'', "''"));
    let arguments = [Some(name), Some(new_name), kind];
    let arguments = arguments.into_iter().flatten().map(quoted);
    format!(
        "EXEC sp_rename {}",
        arguments.collect::<Vec<_>>().join(", ")
    )
}

/// A name that is given to something of the schema; error 15335.
fn reserve(
    ex: &Execution<'_>,
    database: DatabaseId,
    schema_id: i32,
    (old, new): (&str, &str),
) -> Result<()> {
    if names_equal(old, new) {
        return Ok(());
    }
    reserve_name(ex, database, schema_id, new).map_err(|error| match error.number {
        2714 => messages::error(15335, &[&new, &"object"]),
        _ => error,
    })
}

fn rename_object(
    ex: &Execution<'_>,
    database: DatabaseId,
    name: &ObjectName,
    new_name: &str,
    written: &str,
) -> Result<bool> {
    let find = |catalog: &DatabaseCatalog| ex.catalog_object(catalog, database, name);
    let catalog = ex.catalog(database)?;
    if let Some(object) = find(&catalog) {
        ex.check_alter(database, &object)?;
        if let ObjectKind::Trigger(trigger) = &object.kind {
            // As those do who change the triggers of a table.
            lock_object(ex, database, trigger.parent)?;
        }
    }
    if let Some(object) = locked_object(ex, database, find)? {
        // Behind a wait the name may mean another one.
        ex.check_alter(database, &object)?;
        bound::refuse_rename(ex, database, &object, None, written)?;
        reserve(ex, database, object.schema_id, (&object.name, new_name))?;
        let renamed = Object {
            name: new_name.to_string(),
            modified_utc: ex.instance().now_utc(),
            ..(*object).clone()
        };
        put_object(ex, database, Put::over(&object, renamed))?;
        return Ok(true);
    }
    rename_constraint(ex, database, name, new_name)
}

fn rename_constraint(
    ex: &Execution<'_>,
    database: DatabaseId,
    name: &ObjectName,
    new_name: &str,
) -> Result<bool> {
    let catalog = ex.catalog(database)?;
    let path = ex.search_path(&catalog, database, name);
    let Some(found) = path
        .iter()
        .find_map(|s| catalog.constraint_named(*s, &name.name.text))
    else {
        return Ok(false);
    };
    let id = found.id;
    let table = catalog.object(found.table).cloned();
    let Some(table) = table else {
        return Ok(false);
    };
    ex.check_alter(database, &table)?;
    change_table(ex, database, &table, |object, def| {
        let now = ex.catalog(database)?;
        let named = now.constraint_named(object.schema_id, &name.name.text);
        if named.is_none_or(|c| c.id != id) {
            return Ok(false);
        }
        let is_key = |i: &IndexDef| i.constraint.as_ref().is_some_and(|c| c.id == id);
        if def.indexes.iter().any(is_key) {
            refuse_index_name(def, &name.name.text, new_name)?;
        }
        reserve(ex, database, object.schema_id, (&name.name.text, new_name))?;
        for index in def.indexes.iter_mut().filter(|i| is_key(i)) {
            index.name = Some(new_name.to_string());
        }
        def.checks
            .iter_mut()
            .filter(|c| c.id == id)
            .for_each(|c| c.name = new_name.to_string());
        def.foreign_keys
            .iter_mut()
            .filter(|k| k.id == id)
            .for_each(|k| k.name = new_name.to_string());
        let defaults = def.columns.iter_mut().filter_map(|c| c.default.as_mut());
        defaults
            .filter(|d| d.id == id)
            .for_each(|d| d.name = new_name.to_string());
        Ok(true)
    })
}

/// `schema.table.part`.
fn rename_part(
    ex: &Execution<'_>,
    database: DatabaseId,
    name: &ObjectName,
    change: impl FnOnce(&Object, &mut TableDef, &str) -> Result<bool>,
) -> Result<bool> {
    let Some(table) = &name.schema else {
        return Err(messages::error(15248, &[&"COLUMN"]));
    };
    let owner = ObjectName {
        server: None,
        database: None,
        schema: name.database.clone(),
        name: Ident { ..table.clone() },
        span: Span::default(),
    };
    let catalog = ex.catalog(database)?;
    let Some(object) = ex.catalog_object(&catalog, database, &owner) else {
        return Ok(false);
    };
    ex.check_alter(database, &object)?;
    change_table(ex, database, &object, |object, def| {
        change(object, def, &name.name.text)
    })
}

fn change_table(
    ex: &Execution<'_>,
    database: DatabaseId,
    before: &Arc<Object>,
    change: impl FnOnce(&Object, &mut TableDef) -> Result<bool>,
) -> Result<bool> {
    let Some(object) = locked_in_place(ex, database, before)? else {
        return Ok(false);
    };
    ex.check_alter(database, &object)?;
    let ObjectKind::Table(def) = &object.kind else {
        return Ok(false);
    };
    let mut def = (**def).clone();
    if !change(&object, &mut def)? {
        return Ok(false);
    }
    let changed = Object {
        kind: ObjectKind::Table(Arc::new(def)),
        modified_utc: ex.instance().now_utc(),
        ..(*object).clone()
    };
    put_object(ex, database, Put::over(&object, changed))?;
    Ok(true)
}

fn rename_column(def: &mut TableDef, column: &str, new_name: &str) -> Result<bool> {
    if def.column_named(new_name).is_some() && !names_equal(column, new_name) {
        return Err(messages::error(15335, &[&new_name, &"COLUMN"]));
    }
    match def
        .columns
        .iter_mut()
        .find(|c| names_equal(&c.name, column))
    {
        Some(found) => {
            found.name = new_name.to_string();
            Ok(true)
        }
        None => Ok(false),
    }
}

fn is_named(index: &IndexDef, name: &str) -> bool {
    let own = index.name.as_deref();
    own.is_some_and(|own| names_equal(own, name))
}

/// Error 15335 where another index of the table has the name.
fn refuse_index_name(def: &TableDef, index: &str, new_name: &str) -> Result<()> {
    let is_taken = def.indexes.iter().any(|i| is_named(i, new_name));
    match is_taken && !names_equal(index, new_name) {
        true => Err(messages::error(15335, &[&new_name, &"INDEX"])),
        false => Ok(()),
    }
}

fn rename_index(def: &mut TableDef, index: &str, new_name: &str) -> Result<bool> {
    refuse_index_name(def, index, new_name)?;
    match def.indexes.iter_mut().find(|i| is_named(i, index)) {
        Some(found) => {
            found.name = Some(new_name.to_string());
            Ok(true)
        }
        None => Ok(false),
    }
}

/// The type of this name that the session may change; error 15247.
fn type_to_rename(
    ex: &Execution<'_>,
    database: DatabaseId,
    name: &ObjectName,
) -> Result<Option<Arc<TypeDef>>> {
    let catalog = ex.catalog(database)?;
    let schema = match &name.schema {
        Some(schema) => catalog.schema_named(&schema.text).map(|s| s.id),
        None => Some(daruma_catalog::SCHEMA_DBO),
    };
    let found = schema.and_then(|s| catalog.type_named(s, &name.name.text));
    match found {
        Some(def) if !ex.may_alter_schema(database, def.schema_id) => {
            Err(messages::error(15247, &[]))
        }
        found => Ok(found.cloned()),
    }
}

fn rename_type(
    ex: &Execution<'_>,
    database: DatabaseId,
    name: &ObjectName,
    new_name: &str,
) -> Result<bool> {
    let Some(def) = type_to_rename(ex, database, name)? else {
        return Ok(false);
    };
    let catalog = ex.catalog(database)?;
    let namesake = catalog.type_named(def.schema_id, new_name);
    if namesake.is_some_and(|other| other.id != def.id) {
        return Err(messages::error(15335, &[&new_name, &"USERDATATYPE"]));
    }
    let renamed = TypeDef {
        name: new_name.to_string(),
        ..(*def).clone()
    };
    ex.state
        .change(database, Change::PutType(Put::over(&def, renamed)))?;
    Ok(true)
}
