//! Triggers of definitions: CREATE, ALTER, DROP, ENABLE and DISABLE TRIGGER ON DATABASE.
//!
//! They have names of their own, apart from those of objects, and no schema. Whoever changes one keeps all others from defining
//! anything in the database until its transaction ends.

use super::module::module;
use super::{new_id, refuse_read_only};
use crate::error::Result;
use crate::host::Host;
use crate::instance::MASTER;
use crate::messages;
use crate::session::Execution;
use crate::session::ddl_event_types as types;
use daruma_base::DatabaseId;
use daruma_catalog::{Change, DdlTriggerDef, Put, SCHEMA_DBO};
use daruma_syntax::ast::{self, DefineMode, ModuleBody, ObjectName, TriggerScope, TriggerTiming};
use std::sync::Arc;

/// Events of master alone that are told to nobody: certificates and the master key.
const UNTOLD_IN_MASTER: [i32; 6] = [197, 198, 199, 252, 253, 254];

pub(super) fn create(ex: &Execution<'_>, statement: &ast::CreateTrigger, text: &str) -> Result<()> {
    let database = home(ex, &statement.on)?;
    check_form(statement)?;
    let events = event_numbers(&statement.events, database)?;
    refuse_read_only(ex, database)?;
    let name = &statement.name.name.text;
    let catalog = ex.catalog(database)?;
    let before = catalog.ddl_trigger_named(false, name);
    match (statement.mode, before) {
        (DefineMode::Create, Some(_)) => return Err(messages::error_state(2714, 2, &[name])),
        (DefineMode::Alter, None) => return Err(messages::error_state(208, 6, &[name])),
        _ => {}
    }
    ex.may_define_as(statement.options.execute_as.as_ref(), database, SCHEMA_DBO)?;
    let now = ex.instance().now_utc();
    let def = DdlTriggerDef {
        id: match before {
            Some(before) => before.id,
            None => new_id(ex, database)?,
        },
        name: before.map_or(name, |b| &b.name).clone(),
        on_server: false,
        module: module(ex, text),
        events,
        disabled: before.is_some_and(|b| b.disabled),
        created_utc: before.map_or(now, |b| b.created_utc),
        modified_utc: now,
    };
    put(ex, database, before, def)
}

/// Nothing but the words that such a trigger has.
fn check_form(statement: &ast::CreateTrigger) -> Result<()> {
    let name = &statement.name;
    match statement {
        s if s.name.database.is_some() => Err(messages::error(166, &[&"CREATE TRIGGER"])),
        s if s.name.schema.is_some() => Err(messages::error(1094, &[])),
        _ if name.is_temporary() => Err(messages::not_supported("temporary triggers")),
        s if s.timing == TriggerTiming::InsteadOf => Err(messages::error(102, &[&"INSTEAD"])),
        s if s.append => Err(messages::error(102, &[&"APPEND"])),
        s if s.not_for_replication => Err(messages::error(102, &[&"REPLICATION"])),
        s if matches!(s.body, ModuleBody::External(_)) => {
            Err(messages::not_supported("EXTERNAL NAME"))
        }
        _ => Ok(()),
    }
}

/// The actions of a trigger on a table or view: errors 1034, 1084 and 1098.
pub(super) fn check_actions(actions: &[String]) -> Result<()> {
    for (at, action) in actions.iter().enumerate() {
        match action.as_str() {
            "INSERT" | "UPDATE" | "DELETE" => {}
            other if is_known(other) => return Err(messages::error(1098, &[])),
            other => return Err(messages::error(1084, &[&other])),
        }
        if actions.iter().take(at).any(|other| other == action) {
            return Err(messages::error(1034, &[action]));
        }
    }
    Ok(())
}

fn is_known(event: &str) -> bool {
    event == "LOGON" || types::by_name(event).is_some()
}

/// Events and groups by number. Error 40517 for those that would be waited for in vain.
fn event_numbers(events: &[String], database: DatabaseId) -> Result<Vec<i32>> {
    let mut numbers = Vec::new();
    for event in events {
        let Some(found) = types::by_name(event) else {
            return Err(match event.as_str() {
                "LOGON" | "INSERT" | "UPDATE" | "DELETE" => messages::error(1098, &[]),
                _ => messages::error(1084, &[event]),
            });
        };
        if !found.is_within(types::DATABASE_LEVEL) {
            return Err(messages::error(1098, &[]));
        }
        let is_untold = |number: &i32| {
            let of = types::by_number(*number);
            of.is_some_and(|t| t.is_within(found.number))
        };
        if database == MASTER
            && let Some(number) = UNTOLD_IN_MASTER.iter().find(|n| is_untold(n))
        {
            let untold = types::by_number(*number).map_or("", |t| t.name);
            let what = format!("triggers for {untold}");
            return Err(messages::not_supported(&what));
        }
        if numbers.contains(&found.number) {
            return Err(messages::error(1034, &[event]));
        }
        numbers.push(found.number);
    }
    Ok(numbers)
}

/// The database that triggers of the scope are defined in.
fn home(ex: &Execution<'_>, scope: &TriggerScope) -> Result<DatabaseId> {
    match scope {
        TriggerScope::AllServer => Err(messages::not_supported("triggers ON ALL SERVER")),
        TriggerScope::Database => Ok(ex.current_database()),
        // DROP TRIGGER has no such form.
        TriggerScope::Object(name) => Err(messages::error(102, &[&name.dotted()])),
    }
}

fn put(
    ex: &Execution<'_>,
    database: DatabaseId,
    before: Option<&Arc<DdlTriggerDef>>,
    def: DdlTriggerDef,
) -> Result<()> {
    let put = Put::of(before, def);
    ex.state.change(database, Change::PutDdlTrigger(put))?;
    ex.note_planned();
    Ok(())
}

/// ENABLE and DISABLE TRIGGER.
pub(super) fn switch(ex: &Execution<'_>, statement: &ast::SwitchTrigger) -> Result<()> {
    let database = home(ex, &statement.on)?;
    refuse_read_only(ex, database)?;
    let catalog = ex.catalog(database)?;
    let named = |name: &ObjectName| {
        let found = named(&catalog, name).cloned();
        found.ok_or_else(|| messages::error(1088, &[&name.dotted()]))
    };
    let chosen = match statement.triggers.is_empty() {
        true => {
            let all = catalog.ddl_triggers().filter(|t| !t.on_server);
            all.cloned().collect()
        }
        false => {
            let names = statement.triggers.iter();
            names.map(named).collect::<Result<Vec<_>>>()?
        }
    };
    for before in &chosen {
        let def = DdlTriggerDef {
            disabled: !statement.enable,
            modified_utc: ex.instance().now_utc(),
            ..(**before).clone()
        };
        // One that is named twice has been put already.
        let now = ex.catalog(database)?;
        put(ex, database, now.ddl_trigger(before.id), def)?;
    }
    Ok(())
}

/// DROP TRIGGER .. ON DATABASE.
pub(super) fn drop(ex: &Execution<'_>, scope: &TriggerScope, name: &ObjectName) -> Result<()> {
    let database = home(ex, scope)?;
    refuse_read_only(ex, database)?;
    let catalog = ex.catalog(database)?;
    let found = named(&catalog, name).cloned();
    let absent = || messages::error_state(3701, 5, &[&"drop", &"trigger", &name.dotted()]);
    let found = found.ok_or_else(absent)?;
    ex.state.change(database, Change::DropDdlTrigger(found))?;
    ex.note_planned();
    Ok(())
}

/// Is there any that the statement names?
pub(super) fn finds_any(
    ex: &Execution<'_>,
    scope: &TriggerScope,
    names: &[ObjectName],
) -> Result<bool> {
    let catalog = ex.catalog(home(ex, scope)?)?;
    Ok(names.iter().any(|name| named(&catalog, name).is_some()))
}

/// It has no schema that a name could tell.
fn named<'c>(
    catalog: &'c daruma_catalog::DatabaseCatalog,
    name: &ObjectName,
) -> Option<&'c Arc<DdlTriggerDef>> {
    let is_bare = name.schema.is_none() && name.database.is_none();
    catalog
        .ddl_trigger_named(false, &name.name.text)
        .filter(|_| is_bare)
}
