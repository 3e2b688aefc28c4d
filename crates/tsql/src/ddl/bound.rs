//! Schema binding: what a view or inline function WITH SCHEMABINDING names cannot be dropped, moved, renamed or changed beneath it.
//!
//! Theory: nothing is stored of it but the view's text. A change of an object locks it first and then binds the
//! schema-bound views of the database whose text has its name, to see what they read. A view is created with what it
//! names locked, so that one of the two sees the other.
//!
//! Invariant: what a schema-bound view names is a table or a view that is schema-bound itself, of the same database; so
//! each view needs to be asked only for what its own text names.

use crate::binder::{defined_function, defined_view};
use crate::dml::{Named, Watch};
use crate::error::{Result, SqlError};
use crate::executor::bind_query;
use crate::host::Host;
use crate::messages;
use crate::session::Execution;
use daruma_base::DatabaseId;
use daruma_catalog::{
    DatabaseCatalog, ModuleDef, Object, ObjectKind, ParameterDef, TableDef, names_equal,
};
use daruma_syntax::ast::{Ident, ObjectName, Query};
use daruma_syntax::{ParseOptions, named_objects};
use std::sync::Arc;

/// Checks what a view or function names that is about to be bound to it, and locks it. Errors 1054, 4512, 4513, 2720, 2788.
pub(super) fn bind(
    ex: &Execution<'_>,
    database: DatabaseId,
    (kind, name): (&str, &ObjectName),
    query: (&Query, &[ParameterDef]),
) -> Result<()> {
    let watch = Watch::new(ex);
    // One reading for all names: some of them are waited for.
    let catalog = ex.catalog(database)?;
    ex.unasked(|| bind_query(query, database, true, &watch))?;
    let shown = name.dotted();
    for named in watch.named() {
        let name = named.name.dotted();
        if named.name.schema.is_none() || named.name.database.is_some() {
            return Err(messages::error_state(4512, 3, &[&kind, &shown, &name]));
        }
        let Some(id) = named.object else {
            return Err(messages::error(2720, &[&kind, &shown, &name]));
        };
        let object = catalog.object(id).filter(|_| named.database == database);
        match object.map(|o| (&o.kind, &o.name)) {
            Some((ObjectKind::View(module) | ObjectKind::Function(module), _))
                if !module.schema_bound =>
            {
                return Err(messages::error_state(4513, 2, &[&kind, &shown, &name]));
            }
            Some((_, found)) if daruma_catalog::names_equal(found, &named.name.name.text) => {
                super::lock_object(ex, database, id)?;
                // What was bound was bound to what it was before.
                if ex.catalog(database)?.object(id) != catalog.object(id) {
                    return Err(messages::error(2801, &[&name]));
                }
            }
            // It came, or got its name, between the reading and the binding.
            _ if ex.catalog(database)?.object(id) != catalog.object(id) => {
                return Err(messages::error(2801, &[&name]));
            }
            _ => return Err(messages::error(2788, &[])),
        }
    }
    Ok(())
}

/// As [`bind`], for a function of statements, whose names are found in its text.
pub(super) fn bind_names(
    ex: &Execution<'_>,
    database: DatabaseId,
    schema_id: i32,
    (kind, name): (&str, &ObjectName),
    module: &ModuleDef,
) -> Result<()> {
    let shown = name.dotted();
    let catalog = ex.catalog(database)?;
    for named in names_of(module).into_iter().skip(1) {
        let written = named.dotted();
        let is_system = |s: &Ident| s.is("sys") || s.is("INFORMATION_SCHEMA");
        if named.schema.as_ref().is_some_and(is_system) {
            return Err(messages::error(2720, &[&kind, &shown, &written]));
        }
        if named.database.is_some() {
            return Err(messages::error_state(4512, 3, &[&kind, &shown, &written]));
        }
        let Some(object) = meaning_in(&catalog, schema_id, &named) else {
            match named.schema {
                // A function of the system, or a common table expression.
                None => continue,
                Some(_) => return Err(messages::error(208, &[&written])),
            }
        };
        if named.schema.is_none() {
            return Err(messages::error_state(4512, 3, &[&kind, &shown, &written]));
        }
        if let ObjectKind::View(of) | ObjectKind::Function(of) = &object.kind
            && !of.schema_bound
        {
            // It may call itself.
            if names_equal(&object.name, &name.name.text) && object.schema_id == schema_id {
                continue;
            }
            return Err(messages::error_state(4513, 2, &[&kind, &shown, &written]));
        }
        super::lock_object(ex, database, object.id)?;
        match meaning_in(&*ex.catalog(database)?, schema_id, &named) {
            Some(now) if now == object => {}
            Some(_) => return Err(messages::error(2801, &[&written])),
            None => return Err(messages::error(208, &[&written])),
        }
    }
    Ok(())
}

/// Names of objects in a module's text, its own first.
fn names_of(module: &ModuleDef) -> Vec<ObjectName> {
    let options = ParseOptions {
        quoted_identifier: module.quoted_identifier,
    };
    named_objects(&module.definition, &options)
}

/// The object that a name in the text of a module of this schema means.
fn meaning_in(catalog: &DatabaseCatalog, schema_id: i32, name: &ObjectName) -> Option<Arc<Object>> {
    let path = match &name.schema {
        Some(schema) => vec![catalog.schema_named(&schema.text)?.id],
        None => vec![schema_id, daruma_catalog::SCHEMA_DBO],
    };
    let mut found = path
        .iter()
        .map(|id| catalog.object_named(*id, &name.name.text));
    found.find_map(|o| o.cloned())
}

/// Error 3729 where a schema-bound view names the object, or a default the sequence. `act` is `DROP TABLE` or `ALTER`.
pub(super) fn refuse(
    ex: &Execution<'_>,
    database: DatabaseId,
    object: &Object,
    (act, state): (&str, u8),
    written: &str,
) -> Result<()> {
    match bound_to(ex, database, object)? {
        Some(name) => Err(messages::error_state(3729, state, &[&act, &written, &name])),
        None => Ok(()),
    }
}

/// What an object as a whole is bound to: its name.
fn bound_to(ex: &Execution<'_>, database: DatabaseId, object: &Object) -> Result<Option<String>> {
    match &object.kind {
        ObjectKind::Sequence(_) => default_of(ex, database, object),
        ObjectKind::Function(module) if module.function.is_some() => {
            match caller_of(ex, database, object)? {
                Some(name) => Ok(Some(name)),
                None => Ok(binder_of(ex, database, object, None)?.map(|view| view.name.clone())),
            }
        }
        _ => Ok(binder_of(ex, database, object, None)?.map(|view| view.name.clone())),
    }
}

/// A default that takes its values from the sequence. Stored texts have names in brackets; the schema may be left out where
/// it is the table's, or dbo.
fn default_of(
    ex: &Execution<'_>,
    database: DatabaseId,
    sequence: &Object,
) -> Result<Option<String>> {
    let catalog = ex.catalog(database)?;
    let quoted = |name: &str| format!("[{}]", name.to_lowercase().replace(']', "]]"));
    let schema = catalog.schema(sequence.schema_id);
    let schema = schema.map_or_else(String::new, |s| quoted(&s.name));
    let bare = format!("next value for {}", quoted(&sequence.name));
    let full = format!("{schema}.{}", quoted(&sequence.name));
    for table in catalog.objects() {
        let ObjectKind::Table(def) = &table.kind else {
            continue;
        };
        let is_near = [daruma_catalog::SCHEMA_DBO, table.schema_id].contains(&sequence.schema_id);
        let names_it = |text: &str| {
            let text = text.to_lowercase();
            let is_bare = is_near && text.contains(&bare) && !text.contains(&format!("{bare}."));
            is_bare || (text.contains("next value for ") && text.contains(&full))
        };
        let mut defaults = def.columns.iter().filter_map(|c| c.default.as_ref());
        if let Some(default) = defaults.find(|d| names_it(&d.definition)) {
            return Ok(Some(default.name.clone()));
        }
    }
    Ok(None)
}

/// What of a table's definition calls the function: the name of a check or default, or the table's for a computed column.
fn caller_of(
    ex: &Execution<'_>,
    database: DatabaseId,
    function: &Object,
) -> Result<Option<String>> {
    let catalog = ex.catalog(database)?;
    let quoted = |name: &str| format!("[{}]", name.to_lowercase().replace(']', "]]"));
    let schema = catalog.schema(function.schema_id);
    let schema = schema.map_or_else(String::new, |s| quoted(&s.name));
    let call = format!("{schema}.{}(", quoted(&function.name));
    let calls = |text: &str| text.to_lowercase().contains(&call);
    for table in catalog.objects() {
        let ObjectKind::Table(def) = &table.kind else {
            continue;
        };
        if let Some(check) = def.checks.iter().find(|c| calls(&c.definition)) {
            return Ok(Some(check.name.clone()));
        }
        let mut defaults = def.columns.iter().filter_map(|c| c.default.as_ref());
        if let Some(default) = defaults.find(|d| calls(&d.definition)) {
            return Ok(Some(default.name.clone()));
        }
        let mut computed = def.columns.iter().filter_map(|c| c.computed.as_ref());
        if computed.any(|c| calls(&c.definition)) {
            return Ok(Some(table.name.clone()));
        }
    }
    Ok(None)
}

/// A schema-bound module that reads the column of the table.
pub(super) fn reader_of(
    ex: &Execution<'_>,
    (database, table): (DatabaseId, i32),
    column: i32,
) -> Result<Option<String>> {
    let catalog = ex.catalog(database)?;
    let Some(object) = catalog.object(table) else {
        return Ok(None);
    };
    let reader = binder_of(ex, database, object, Some(column))?;
    Ok(reader.map(|module| module.name.clone()))
}

/// 5074 for each thing that hangs on a column, then 4922.
pub(super) fn dependents(found: &[(&str, String)], column: &str, action: &str) -> SqlError {
    let failed = messages::error_state(4922, 9, &[&action, &column]);
    found.iter().rev().fold(failed, |then, (kind, name)| {
        let dependent = messages::error(5074, &[kind, name, &"column", &column]);
        dependent.followed(then)
    })
}

/// Error 15336 where a schema-bound view names the object or reads its column, by `written`.
pub(super) fn refuse_rename(
    ex: &Execution<'_>,
    database: DatabaseId,
    object: &Object,
    column: Option<&str>,
    written: &str,
) -> Result<()> {
    let enforced = || Err(messages::error(15336, &[&written]));
    let id = match (&object.kind, column) {
        (ObjectKind::Table(def), Some(name)) => {
            if is_computed_from(def, name) {
                return enforced();
            }
            def.column_named(name).map(|c| c.id)
        }
        _ => None,
    };
    if column.is_some() && id.is_none() {
        return Ok(());
    }
    let bound = match id {
        None => bound_to(ex, database, object)?.is_some(),
        Some(_) => binder_of(ex, database, object, id)?.is_some(),
    };
    match bound {
        true => enforced(),
        false => Ok(()),
    }
}

/// Does an expression of the table name the column? Stored texts have it in brackets.
pub(super) fn names_column(text: &str, column: &str) -> bool {
    let quoted = format!("[{}]", column.to_lowercase().replace(']', "]]"));
    text.to_lowercase().contains(&quoted)
}

fn is_computed_from(def: &TableDef, column: &str) -> bool {
    let computed = def.columns.iter().filter_map(|c| c.computed.as_ref());
    let computed = computed.map(|c| c.definition.as_str());
    let checks = def.checks.iter().map(|c| c.definition.as_str());
    let filters = def.indexes.iter().filter_map(|i| i.filter.as_deref());
    let mut texts = computed.chain(checks).chain(filters);
    texts.any(|text| names_column(text, column))
}

/// Error 15348 where a schema-bound view names the object.
pub(super) fn refuse_transfer(
    ex: &Execution<'_>,
    database: DatabaseId,
    object: &Object,
) -> Result<()> {
    match bound_to(ex, database, object)? {
        Some(_) => Err(messages::error(15348, &[])),
        None => Ok(()),
    }
}

/// The oldest schema-bound view that names the object, or reads this column of it.
fn binder_of(
    ex: &Execution<'_>,
    database: DatabaseId,
    object: &Object,
    column: Option<i32>,
) -> Result<Option<Arc<Object>>> {
    let catalog = ex.catalog(database)?;
    let mut views: Vec<&Arc<Object>> = catalog
        .objects()
        .filter(|o| o.id != object.id && may_name(o, &object.name))
        .collect();
    views.sort_by_key(|o| o.id);
    for view in views {
        if let ObjectKind::Function(module) = &view.kind
            && module.function.is_some()
        {
            if names_object(&catalog, view, module, object, column) {
                return Ok(Some(view.clone()));
            }
            continue;
        }
        let (query, parameters) = match &view.kind {
            ObjectKind::View(module) => match defined_view(module) {
                Ok(Some(defined)) => (defined.query, &module.parameters),
                _ => continue,
            },
            ObjectKind::Function(module) => match defined_function(module) {
                Some((query, _)) => (query, &module.parameters),
                None => continue,
            },
            _ => continue,
        };
        let watch = Watch::new(ex);
        // Names read before the failure count: a view that no longer binds still protects them.
        let _ = ex.unasked(|| bind_query((&query, parameters), database, false, &watch));
        let names = |n: &Named| n.database == database && n.object == Some(object.id);
        let found = match column {
            None => watch.named().iter().any(names),
            Some(column) => watch.reads(database, object.id, column),
        };
        if found {
            return Ok(Some(view.clone()));
        }
    }
    Ok(None)
}

/// Does a function of statements name the object? It counts as reading each column whose name its text has.
fn names_object(
    catalog: &DatabaseCatalog,
    function: &Object,
    module: &ModuleDef,
    object: &Object,
    column: Option<i32>,
) -> bool {
    let is_it = |name: &ObjectName| {
        let found = meaning_in(catalog, function.schema_id, name);
        name.database.is_none() && found.is_some_and(|o| o.id == object.id)
    };
    let has_column = |id: i32| {
        let columns = crate::session::columns_of(object);
        let name = columns
            .iter()
            .find(|c| c.id == id)
            .map(|c| c.name.to_lowercase());
        let text = module.definition.to_lowercase();
        name.is_some_and(|name| text.contains(&name) || text.contains('*'))
    };
    names_of(module).iter().skip(1).any(is_it) && column.is_none_or(has_column)
}

/// Is it a schema-bound view or function whose text has the name? Spares binding the others.
fn may_name(view: &Object, name: &str) -> bool {
    let (ObjectKind::View(module) | ObjectKind::Function(module)) = &view.kind else {
        return false;
    };
    let is_plain = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let has_it = || {
        let text = module.definition.to_lowercase();
        text.contains(&name.to_lowercase())
    };
    module.schema_bound && (!is_plain || has_it())
}
