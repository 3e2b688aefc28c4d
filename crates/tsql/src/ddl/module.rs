//! Views, procedures, functions and triggers: their text is their definition; names inside resolve when they run.

use super::{new_id, new_object, place_for, put_object, reserve_name};
use crate::error::{Result, SqlError};
use crate::executor::{function_columns, is_updatable, prepare_select};
use crate::host::{Host, Resolved, TableKind, TableRef};
use crate::messages;
use crate::session::Execution;
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_catalog::{
    ColumnDef, ModuleDef, Object, ObjectKind, ParameterDef, TriggerDef, names_equal,
};
use daruma_syntax::ast::{
    self, DefineMode, Ident, ObjectName, ParameterType, TriggerScope, TriggerTiming,
};
use std::sync::Arc;

/// Name and place of the module that is being defined.
struct Place {
    database: DatabaseId,
    schema_id: i32,
    existing: Option<Arc<Object>>,
}

pub(super) fn create_view(
    ex: &Execution<'_>,
    statement: &ast::CreateView,
    text: &str,
) -> Result<()> {
    refuse_promises(&statement.options)?;
    let place = place(ex, &statement.name, statement.mode, "V ")?;
    refuse_order(&statement.query)?;
    let prepare = || {
        let plan = prepare_select(&statement.query, ex)?;
        match statement.check_option && !is_updatable(&statement.query, ex)? {
            true => Err(messages::error(4510, &[&"CHECK OPTION"])),
            false => Ok(plan),
        }
    };
    if let Some(old) = &place.existing {
        let written = statement.name.dotted();
        super::bound::refuse(ex, place.database, old, ("ALTER", 3), &written)?;
    }
    let plan = ex.with_text_in(place.database, place.schema_id, || {
        if !statement.options.schema_binding {
            return prepare();
        }
        ex.with_references(prepare)?;
        let query = (&statement.query, &[][..]);
        super::bound::bind(ex, place.database, ("view", &statement.name), query)?;
        // Locked now, so that it stays as it is bound.
        ex.with_references(prepare)
    })?;
    if !statement.columns.is_empty() && statement.columns.len() != plan.columns().len() {
        let (number, name) = match statement.columns.len() > plan.columns().len() {
            true => (4502, &statement.name.name.text),
            false => (8158, &statement.name.name.text),
        };
        return Err(messages::error(number, &[name]));
    }
    let own = &statement.name.name.text;
    let module = ModuleDef {
        columns: result_columns(plan.columns(), &statement.columns, own, 4511)?,
        schema_bound: statement.options.schema_binding,
        ..module(ex, text)
    };
    define(
        ex,
        place,
        &statement.name,
        ObjectKind::View(Arc::new(module)),
    )
}

/// Inline functions alone: a query with parameters.
pub(super) fn create_function(
    ex: &Execution<'_>,
    statement: &ast::CreateFunction,
    text: &str,
) -> Result<()> {
    let ast::FunctionBody::Query(query) = &statement.body else {
        let what = "CREATE FUNCTION of anything but inline table-valued functions";
        return Err(messages::not_supported(what));
    };
    refuse_promises(&statement.options)?;
    let place = place(ex, &statement.name, statement.mode, "IF")?;
    refuse_order(query)?;
    if let Some(old) = &place.existing {
        let written = statement.name.dotted();
        super::bound::refuse(ex, place.database, old, ("ALTER", 3), &written)?;
    }
    let parameters = statement
        .parameters
        .iter()
        .map(|p| parameter(ex, p))
        .collect::<Result<Vec<_>>>()?;
    let bound = || function_columns(query, &parameters, ex);
    let found = ex.with_text_in(place.database, place.schema_id, || {
        if !statement.options.schema_binding {
            return bound();
        }
        ex.with_references(bound)?;
        let name = ("function", &statement.name);
        super::bound::bind(ex, place.database, name, (query, &parameters))?;
        ex.with_references(bound)
    })?;
    let own = &statement.name.name.text;
    let module = ModuleDef {
        columns: result_columns(&found, &[], own, 4514)?,
        parameters,
        schema_bound: statement.options.schema_binding,
        ..module(ex, text)
    };
    define(
        ex,
        place,
        &statement.name,
        ObjectKind::Function(Arc::new(module)),
    )
}

/// Columns of a query under the names that are written, or their own: all have one (else error `nameless`), and each another.
fn result_columns(
    found: &[OutputColumn],
    written: &[ast::Ident],
    own: &str,
    nameless: i32,
) -> Result<Vec<ColumnDef>> {
    let mut columns: Vec<ColumnDef> = Vec::with_capacity(found.len());
    for (at, column) in found.iter().enumerate() {
        let name = written.get(at).map_or(&column.name, |c| &c.text);
        if name.is_empty() {
            return Err(messages::error(nameless, &[&(at + 1)]));
        }
        if columns.iter().any(|c| names_equal(&c.name, name)) {
            return Err(messages::error(4506, &[name, &own]));
        }
        columns.push(ColumnDef {
            name: name.clone(),
            ..super::result_column(at, column)
        });
    }
    Ok(columns)
}

/// What a module's options promise and nobody would keep: its text stays readable, and it is run like any other.
fn refuse_promises(options: &ast::ModuleOptions) -> Result<()> {
    match options {
        o if o.encryption => Err(messages::not_supported("WITH ENCRYPTION")),
        o if o.native_compilation => Err(messages::not_supported("NATIVE_COMPILATION")),
        _ => Ok(()),
    }
}

/// 1033: the rows of a view have no order.
fn refuse_order(query: &ast::Query) -> Result<()> {
    let has_top = matches!(&query.body, ast::QueryBody::Select(s) if s.top.is_some());
    let ordered = !query.order_by.is_empty();
    match ordered && query.offset.is_none() && query.for_clause.is_none() && !has_top {
        true => Err(messages::error(1033, &[])),
        false => Ok(()),
    }
}

pub(super) fn create_procedure(
    ex: &Execution<'_>,
    statement: &ast::CreateProcedure,
    text: &str,
) -> Result<()> {
    if statement.number.is_some_and(|n| n > 1) {
        return Err(messages::not_supported("numbered procedures"));
    }
    refuse_promises(&statement.options)?;
    let place = place(ex, &statement.name, statement.mode, "P ")?;
    let runs_as = statement.options.execute_as.as_ref();
    ex.may_define_as(runs_as, place.database, place.schema_id)?;
    let parameters = statement
        .parameters
        .iter()
        .map(|p| parameter(ex, p))
        .collect::<Result<Vec<_>>>()?;
    let module = ModuleDef {
        parameters,
        ..module(ex, text)
    };
    define(
        ex,
        place,
        &statement.name,
        ObjectKind::Procedure(Arc::new(module)),
    )
}

fn parameter(ex: &Execution<'_>, parameter: &ast::Parameter) -> Result<ParameterDef> {
    let ParameterType::Named(type_name) = &parameter.data_type else {
        return Err(messages::not_supported("CURSOR"));
    };
    let (data_type, _, user_type_id) = ex.type_of(type_name)?;
    Ok(ParameterDef {
        name: parameter.name.clone(),
        data_type,
        user_type_id,
        is_output: parameter.output,
        has_default: parameter.default.is_some(),
        is_readonly: parameter.read_only,
    })
}

pub(super) fn create_trigger(
    ex: &Execution<'_>,
    statement: &ast::CreateTrigger,
    text: &str,
) -> Result<()> {
    refuse_promises(&statement.options)?;
    let TriggerScope::Object(parent_name) = &statement.on else {
        return Err(messages::not_supported("DDL and LOGON triggers"));
    };
    if statement.timing == TriggerTiming::InsteadOf {
        return Err(messages::not_supported("INSTEAD OF triggers"));
    }
    let parent = match ex.resolve(parent_name) {
        Ok(Resolved::Table(table)) if table.kind == TableKind::User => table,
        Ok(_) => return Err(messages::error_state(8197, 4, &[&parent_name.dotted()])),
        Err(error) if error.number == 208 => {
            return Err(messages::error_state(8197, 4, &[&parent_name.dotted()]));
        }
        Err(error) => return Err(error),
    };
    let parent = super::lock_for_change(ex, parent)?;
    let database = parent.database.id();
    let catalog = ex.catalog(database)?;
    let schema_id = catalog
        .object(parent.object_id)
        .map_or(daruma_catalog::SCHEMA_DBO, |o| o.schema_id);
    let named_schema = statement
        .name
        .schema
        .as_ref()
        .and_then(|s| catalog.schema_named(&s.text))
        .map(|s| s.id);
    if named_schema.is_some_and(|id| id != schema_id) {
        return Err(messages::error(
            2103,
            &[&"create", &statement.name.dotted()],
        ));
    }
    let place = place_in(
        ex,
        database,
        schema_id,
        &statement.name,
        statement.mode,
        "TR",
    )?;
    ex.may_define_as(statement.options.execute_as.as_ref(), database, schema_id)?;
    if let Some(Object {
        kind: ObjectKind::Trigger(old),
        ..
    }) = place.existing.as_deref()
        && old.parent != parent.object_id
    {
        return Err(messages::error(
            2110,
            &[&statement.name.dotted(), &parent_name.dotted()],
        ));
    }
    let has = |event: &str| statement.events.iter().any(|e| e == event);
    let trigger = TriggerDef {
        module: module(ex, text),
        parent: parent.object_id,
        on_insert: has("INSERT"),
        on_update: has("UPDATE"),
        on_delete: has("DELETE"),
        instead_of: false,
        disabled: false,
    };
    define(
        ex,
        place,
        &statement.name,
        ObjectKind::Trigger(Arc::new(trigger)),
    )
}

fn module(ex: &Execution<'_>, text: &str) -> ModuleDef {
    let settings = ex.settings();
    ModuleDef {
        definition: ex
            .running_batch()
            .map_or(text.to_string(), |b| b.text.to_string()),
        ansi_nulls: settings.ansi_nulls,
        quoted_identifier: settings.quoted_identifier,
        columns: Vec::new(),
        parameters: Vec::new(),
        schema_bound: false,
    }
}

fn place(ex: &Execution<'_>, name: &ObjectName, mode: DefineMode, code: &str) -> Result<Place> {
    if name.is_temporary() {
        return Err(messages::not_supported("temporary procedures"));
    }
    if name.database.is_some() {
        let what = match code {
            "V " => "CREATE VIEW",
            "TR" => "CREATE TRIGGER",
            "IF" => "CREATE FUNCTION",
            _ => "CREATE/ALTER PROCEDURE",
        };
        return Err(messages::error(166, &[&what]));
    }
    let (database, schema_id) = place_for(ex, name)?;
    place_in(ex, database, schema_id, name, mode, code)
}

fn place_in(
    ex: &Execution<'_>,
    database: DatabaseId,
    schema_id: i32,
    name: &ObjectName,
    mode: DefineMode,
    code: &str,
) -> Result<Place> {
    let catalog = ex.catalog(database)?;
    let existing = catalog.object_named(schema_id, &name.name.text).cloned();
    if mode == DefineMode::Create || existing.is_none() {
        if mode == DefineMode::Alter {
            return Err(messages::error_state(208, 6, &[&name.dotted()]));
        }
        reserve_name(ex, database, schema_id, &name.name.text)
            .map_err(|e| named_error(e, code, name))?;
        return Ok(Place {
            database,
            schema_id,
            existing: None,
        });
    }
    let object = existing.as_deref().filter(|o| o.type_code() == code);
    let object = object.ok_or_else(|| messages::error(2010, &[&name.dotted()]))?;
    super::lock_object(ex, database, object.id)?;
    Ok(Place {
        database,
        schema_id,
        existing: ex.catalog(database)?.object(object.id).cloned(),
    })
}

/// 2714 carries state 3 for modules, and their procedure name.
fn named_error(error: SqlError, code: &str, name: &ObjectName) -> SqlError {
    match error.number {
        2714 if code == "TR" => messages::error_state(2714, 2, &[&name.name.text]),
        2714 => messages::error_state(2714, 3, &[&name.name.text]),
        _ => error,
    }
}

fn define(ex: &Execution<'_>, place: Place, name: &ObjectName, kind: ObjectKind) -> Result<()> {
    let object = match place.existing {
        None => new_object(
            ex,
            new_id(ex, place.database)?,
            place.schema_id,
            &name.name.text,
            kind,
        ),
        Some(old) => Object {
            modified_utc: ex.instance().now_utc(),
            kind,
            ..(*old).clone()
        },
    };
    put_object(ex, place.database, object)
}

/// ENABLE and DISABLE TRIGGER.
pub(super) fn switch_trigger(ex: &Execution<'_>, statement: &ast::SwitchTrigger) -> Result<()> {
    let TriggerScope::Object(parent) = &statement.on else {
        return Err(messages::not_supported("DDL and LOGON triggers"));
    };
    let table = super::table_named(ex, parent).map_err(|e| match e.number {
        4902 => messages::error(1088, &[&parent.dotted()]),
        _ => e,
    })?;
    let names: Vec<Ident> = statement.triggers.iter().map(|t| t.name.clone()).collect();
    switch_table_triggers(ex, &table, &names, statement.enable)
}

pub(super) fn switch_table_triggers(
    ex: &Execution<'_>,
    table: &TableRef,
    names: &[Ident],
    enable: bool,
) -> Result<()> {
    let table = super::lock_for_change(ex, table.clone())?;
    let database = table.database.id();
    let catalog = ex.catalog(database)?;
    let own: Vec<Arc<Object>> = catalog.triggers_of(table.object_id).cloned().collect();
    for name in names {
        if !own.iter().any(|o| names_equal(&o.name, &name.text)) {
            return Err(messages::error(4920, &[&name.text, &table.name]));
        }
    }
    let chosen =
        |o: &&Arc<Object>| names.is_empty() || names.iter().any(|n| names_equal(&n.text, &o.name));
    for object in own.iter().filter(chosen) {
        let ObjectKind::Trigger(trigger) = &object.kind else {
            continue;
        };
        let trigger = TriggerDef {
            disabled: !enable,
            ..(**trigger).clone()
        };
        let changed = Object {
            modified_utc: ex.instance().now_utc(),
            kind: ObjectKind::Trigger(Arc::new(trigger)),
            ..(**object).clone()
        };
        put_object(ex, database, changed)?;
    }
    Ok(())
}
