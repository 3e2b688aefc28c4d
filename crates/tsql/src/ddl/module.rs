//! Views, procedures, functions and triggers: their text is their definition; names inside resolve when they run.

use super::{locked_in_place, new_id, new_object, place_for, put_object, reserve_name};
use crate::error::{Result, SqlError};
use crate::executor::{function_columns, is_updatable, prepare_select};
use crate::host::{Host, Resolved, TableKind, TableRef};
use crate::instance::Batch;
use crate::messages;
use crate::session::Execution;
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_catalog::{
    ColumnDef, DatabaseCatalog, ModuleDef, Object, ObjectKind, ParameterDef, Put,
    ReferentialAction, TriggerDef, names_equal,
};
use daruma_syntax::ast::{
    self, DefineMode, Ident, ObjectName, ParameterType, StatementKind, TriggerScope, TriggerTiming,
};
use daruma_syntax::takes_next_value;
use daruma_value::DataType;
use std::sync::Arc;

/// Name and place of the module that is being defined.
pub(super) struct Place {
    pub database: DatabaseId,
    pub schema_id: i32,
    pub existing: Option<Arc<Object>>,
}

pub(super) fn create_view(
    ex: &Execution<'_>,
    statement: &ast::CreateView,
    text: &str,
) -> Result<()> {
    refuse_options(&statement.options, "VIEW")?;
    let place = place(ex, &statement.name, statement.mode, "V ")?;
    refuse_order(&statement.query)?;
    if takes_next_value(text, &ex.parse_options()) {
        return Err(messages::error(11719, &[]));
    }
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

pub(super) fn create_function(
    ex: &Execution<'_>,
    statement: &ast::CreateFunction,
    text: &str,
) -> Result<()> {
    match &statement.body {
        ast::FunctionBody::Query(query) => create_inline(ex, statement, query, text),
        ast::FunctionBody::Statements(body) => super::function::create(ex, statement, body, text),
        ast::FunctionBody::External(_) => Err(messages::not_supported("EXTERNAL NAME")),
    }
}

/// An inline function: a query with parameters.
fn create_inline(
    ex: &Execution<'_>,
    statement: &ast::CreateFunction,
    query: &ast::Query,
    text: &str,
) -> Result<()> {
    refuse_options(&statement.options, "FUNCTION")?;
    let options = &statement.options;
    let is_called = options.returns_null_on_null_input.is_some() || options.inline.is_some();
    if is_called || options.execute_as.is_some() {
        return Err(messages::error(487, &[&"CREATE/ALTER FUNCTION"]));
    }
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
    super::function::refuse_effects(&module(ex, text))?;
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

/// Options that such a module does not have (487, 10796), and promises that nobody would keep: its text stays readable, and it is
/// run like any other.
pub(super) fn refuse_options(options: &ast::ModuleOptions, kind: &str) -> Result<()> {
    let statement = format!("CREATE/ALTER {kind}");
    let alien = |state| Err(messages::error_state(487, state, &[&statement]));
    let is_run = matches!(kind, "PROCEDURE" | "TRIGGER");
    match options {
        o if o.encryption => Err(messages::not_supported("WITH ENCRYPTION")),
        o if o.native_compilation => Err(messages::not_supported("NATIVE_COMPILATION")),
        o if o.recompile && kind != "PROCEDURE" => alien(1),
        o if o.view_metadata && kind != "VIEW" => alien(1),
        o if o.execute_as.is_some() && kind == "VIEW" => alien(2),
        o if o.schema_binding && is_run => Err(messages::error(10796, &[])),
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
    refuse_options(&statement.options, "PROCEDURE")?;
    if statement.name.is_temporary() {
        return create_temporary(ex, statement, text);
    }
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

/// `#p` and `##p` are kept by the session and the server.
fn create_temporary(
    ex: &Execution<'_>,
    statement: &ast::CreateProcedure,
    text: &str,
) -> Result<()> {
    if statement.options.execute_as.is_some() {
        return Err(messages::not_supported(
            "EXECUTE AS in temporary procedures",
        ));
    }
    let name = &statement.name.name.text;
    let existing = ex.state.temp_module(name);
    match (statement.mode, existing.is_some()) {
        (DefineMode::Create, true) => return Err(messages::error_state(2714, 3, &[name])),
        (DefineMode::Alter, false) => return Err(messages::error_state(208, 6, &[name])),
        (_, true) if !ex.state.may_change_module(name) => {
            return Err(messages::error_state(208, 6, &[name]));
        }
        _ => {}
    }
    let parameters = statement.parameters.iter().map(|p| parameter(ex, p));
    let module = ModuleDef {
        parameters: parameters.collect::<Result<Vec<_>>>()?,
        ..module(ex, text)
    };
    let id = ex.instance().next_temp_object_id();
    let kind = ObjectKind::Procedure(Arc::new(module));
    let object = new_object(ex, id, daruma_catalog::SCHEMA_DBO, name, kind);
    ex.state.set_temp_module(name, Some(Arc::new(object)))
}

pub(super) fn parameter(ex: &Execution<'_>, parameter: &ast::Parameter) -> Result<ParameterDef> {
    let type_name = match &parameter.data_type {
        ParameterType::Named(name) => name,
        ParameterType::Cursor { varying: true } if parameter.output => {
            return Ok(ParameterDef {
                name: parameter.name.clone(),
                data_type: DataType::Int,
                user_type_id: Some(ParameterDef::CURSOR),
                is_output: true,
                has_default: false,
                is_readonly: false,
            });
        }
        ParameterType::Cursor { .. } => {
            return Err(messages::not_supported("CURSOR without VARYING OUTPUT"));
        }
    };
    let name = &parameter.name;
    let (data_type, user_type_id) = match ex.type_of(type_name) {
        Ok(_) if parameter.read_only => return Err(messages::error(346, &[name])),
        Ok((data_type, _, user_type_id)) => (data_type, user_type_id),
        Err(missing) => match ex.table_type(type_name)? {
            Some(_) if !parameter.read_only => return Err(messages::error(352, &[name])),
            // Nothing asks for the type of its value.
            Some(of) => (DataType::Int, Some(of.def.id)),
            None => return Err(missing),
        },
    };
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
    refuse_options(&statement.options, "TRIGGER")?;
    let TriggerScope::Object(parent_name) = &statement.on else {
        return super::ddl_trigger::create(ex, statement, text);
    };
    super::ddl_trigger::check_actions(&statement.events)?;
    let instead_of = statement.timing == TriggerTiming::InsteadOf;
    let missing = || messages::error_state(8197, 4, &[&parent_name.dotted()]);
    let (database, parent) = match ex.resolve(parent_name) {
        Ok(Resolved::Table(table)) if table.kind == TableKind::User => {
            let table = super::lock_for_change(ex, table)?;
            (table.database.id(), table.object_id)
        }
        Ok(Resolved::View { database, object }) if instead_of => {
            let view = locked_in_place(ex, database, &object)?.ok_or_else(missing)?;
            // Rights may have gone behind the wait.
            ex.alters(database, &view, || {
                messages::error(2104, &[&"create", &statement.name.dotted()])
            })?;
            (database, view.id)
        }
        Ok(_) => return Err(missing()),
        Err(error) if error.number == 208 => return Err(missing()),
        Err(error) => return Err(error),
    };
    let catalog = ex.catalog(database)?;
    let object = catalog.object(parent).cloned().ok_or_else(missing)?;
    let schema_id = object.schema_id;
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
        && old.parent != parent
    {
        return Err(messages::error(
            2110,
            &[&statement.name.dotted(), &parent_name.dotted()],
        ));
    }
    let has = |event: &str| statement.events.iter().any(|e| e == event);
    let trigger = TriggerDef {
        module: module(ex, text),
        parent,
        on_insert: has("INSERT"),
        on_update: has("UPDATE"),
        on_delete: has("DELETE"),
        instead_of,
        disabled: false,
    };
    if instead_of {
        let own = place.existing.as_ref().map(|o| o.id);
        check_instead(
            &catalog,
            &object,
            &trigger,
            own,
            statement,
            &parent_name.dotted(),
        )?;
    }
    define(
        ex,
        place,
        &statement.name,
        ObjectKind::Trigger(Arc::new(trigger)),
    )
}

/// One INSTEAD OF trigger for an action (2111), not where cascades change the table (2113) or a view judges its rows (2112).
fn check_instead(
    catalog: &DatabaseCatalog,
    parent: &Object,
    trigger: &TriggerDef,
    own: Option<i32>,
    statement: &ast::CreateTrigger,
    parent_name: &str,
) -> Result<()> {
    let name = statement.name.dotted();
    let kind = match &parent.kind {
        ObjectKind::View(module) => {
            let view = crate::binder::defined_view(module).ok().flatten();
            if view.is_some_and(|v| v.check_option) {
                return Err(messages::error(2112, &[&name, &parent_name]));
            }
            "view"
        }
        ObjectKind::Table(def) => {
            let acts =
                |action: ReferentialAction, on: bool| on && action != ReferentialAction::NoAction;
            let cascades = |k: &daruma_catalog::ForeignKeyDef| {
                acts(k.on_delete, trigger.on_delete) || acts(k.on_update, trigger.on_update)
            };
            if def.foreign_keys.iter().any(cascades) {
                return Err(messages::error(2113, &[&name, &parent_name]));
            }
            "table"
        }
        _ => "table",
    };
    for other in catalog.triggers_of(parent.id).filter(|o| Some(o.id) != own) {
        let ObjectKind::Trigger(old) = &other.kind else {
            continue;
        };
        let both = [
            (old.on_insert && trigger.on_insert, "INSERT"),
            (old.on_update && trigger.on_update, "UPDATE"),
            (old.on_delete && trigger.on_delete, "DELETE"),
        ];
        let same = both.iter().find(|(both, _)| old.instead_of && *both);
        if let Some((_, event)) = same {
            return Err(messages::error(2111, &[&name, &kind, &parent_name, event]));
        }
    }
    Ok(())
}

pub(super) fn module(ex: &Execution<'_>, text: &str) -> ModuleDef {
    let settings = ex.settings();
    // The whole batch, with what stands before the statement; a view within CREATE SCHEMA is not alone in it.
    let is_alone = |b: &Arc<Batch>| {
        let first = b.statements.first().map(|s| &s.kind);
        !matches!(first, Some(StatementKind::CreateSchema(_)))
    };
    let batch = ex.running_batch().filter(is_alone);
    ModuleDef {
        definition: batch.map_or(text.to_string(), |b| b.text.to_string()),
        ansi_nulls: settings.ansi_nulls,
        quoted_identifier: settings.quoted_identifier,
        columns: Vec::new(),
        parameters: Vec::new(),
        schema_bound: false,
        function: None,
    }
}

pub(super) fn place(
    ex: &Execution<'_>,
    name: &ObjectName,
    mode: DefineMode,
    code: &str,
) -> Result<Place> {
    if name.is_temporary() {
        return Err(messages::not_supported(
            "temporary views, functions and triggers",
        ));
    }
    if name.database.is_some() {
        let what = match code {
            "V " => "CREATE VIEW",
            "TR" => "CREATE TRIGGER",
            "IF" | "FN" | "TF" => "CREATE FUNCTION",
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
    let now = locked_in_place(ex, database, object)?;
    // One that was dropped meanwhile may have been made anew.
    let anew = || messages::error(2801, &[&object.name]);
    let now = now.ok_or_else(anew)?;
    // Rights may have gone behind the wait.
    ex.alters(database, &now, anew)?;
    Ok(Place {
        database,
        schema_id,
        existing: Some(now),
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

pub(super) fn define(
    ex: &Execution<'_>,
    place: Place,
    name: &ObjectName,
    kind: ObjectKind,
) -> Result<()> {
    let object = match place.existing {
        None => {
            let id = new_id(ex, place.database)?;
            Put::new(new_object(ex, id, place.schema_id, &name.name.text, kind))
        }
        Some(old) => {
            let changed = Object {
                modified_utc: ex.instance().now_utc(),
                kind,
                ..(*old).clone()
            };
            Put::over(&old, changed)
        }
    };
    put_object(ex, place.database, object)
}

/// ENABLE and DISABLE TRIGGER.
pub(super) fn switch_trigger(ex: &Execution<'_>, statement: &ast::SwitchTrigger) -> Result<()> {
    let TriggerScope::Object(parent) = &statement.on else {
        return super::ddl_trigger::switch(ex, statement);
    };
    let names: Vec<Ident> = statement.triggers.iter().map(|t| t.name.clone()).collect();
    if let Ok(Resolved::View { database, object }) = ex.resolve(parent) {
        let missing = || messages::error(1088, &[&parent.dotted()]);
        let object = locked_in_place(ex, database, &object)?.ok_or_else(missing)?;
        let view = (object.id, object.name.as_str());
        return switch_triggers_of(ex, database, view, &names, statement.enable);
    }
    let table = super::table_named(ex, parent).map_err(|e| match e.number {
        4902 => messages::error(1088, &[&parent.dotted()]),
        _ => e,
    })?;
    switch_table_triggers(ex, &table, &names, statement.enable)
}

pub(super) fn switch_table_triggers(
    ex: &Execution<'_>,
    table: &TableRef,
    names: &[Ident],
    enable: bool,
) -> Result<()> {
    let table = super::lock_for_change(ex, table.clone())?;
    let parent = (table.object_id, table.name.as_str());
    switch_triggers_of(ex, table.database.id(), parent, names, enable)
}

fn switch_triggers_of(
    ex: &Execution<'_>,
    database: DatabaseId,
    (parent, parent_name): (i32, &str),
    names: &[Ident],
    enable: bool,
) -> Result<()> {
    let catalog = ex.catalog(database)?;
    let own: Vec<Arc<Object>> = catalog.triggers_of(parent).cloned().collect();
    for name in names {
        if !own.iter().any(|o| names_equal(&o.name, &name.text)) {
            return Err(messages::error(4920, &[&name.text, &parent_name]));
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
        put_object(ex, database, Put::over(object, changed))?;
    }
    Ok(())
}
