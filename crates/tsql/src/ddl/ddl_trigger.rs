//! Triggers of definitions and logins: CREATE, ALTER, DROP, ENABLE and DISABLE TRIGGER ON DATABASE and ON ALL SERVER.
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
use daruma_catalog::{Change, DatabaseCatalog, DdlTriggerDef, Put, SCHEMA_DBO};
use daruma_syntax::ast::{self, DefineMode, ModuleBody, ObjectName, TriggerScope, TriggerTiming};
use std::sync::Arc;

pub(super) fn create(ex: &Execution<'_>, statement: &ast::CreateTrigger, text: &str) -> Result<()> {
    let (database, on_server) = home(ex, &statement.on)?;
    check_form(statement)?;
    let events = event_numbers(&statement.events, on_server)?;
    refuse_read_only(ex, database)?;
    let name = &statement.name.name.text;
    let catalog = ex.catalog(database)?;
    let before = catalog.ddl_trigger_named(on_server, name);
    match (statement.mode, before) {
        (DefineMode::Create, Some(_)) => return Err(messages::error_state(2714, 2, &[name])),
        (DefineMode::Alter, None) => return Err(messages::error_state(208, 6, &[name])),
        _ => {}
    }
    let context = statement.options.execute_as.as_ref();
    let runs_as = match on_server {
        true => ex.login_to_run_as(context)?,
        false => {
            ex.may_define_as(context, database, SCHEMA_DBO)?;
            None
        }
    };
    let now = ex.instance().now_utc();
    let def = DdlTriggerDef {
        id: match before {
            Some(before) => before.id,
            None => new_id(ex, database)?,
        },
        name: before.map_or(name, |b| &b.name).clone(),
        on_server,
        module: module(ex, text),
        runs_as,
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
    types::by_name(event).is_some()
}

/// Events and groups by number. LOGON stands alone: a session that begins defines nothing.
fn event_numbers(events: &[String], on_server: bool) -> Result<Vec<i32>> {
    let mut numbers = Vec::new();
    for event in events {
        let Some(found) = types::by_name(event) else {
            return Err(match event.as_str() {
                "INSERT" | "UPDATE" | "DELETE" => messages::error(1098, &[]),
                _ => messages::error(1084, &[event]),
            });
        };
        let is_its = match on_server {
            true => found.number != types::LOGON || events.len() == 1,
            false => found.is_within(types::DATABASE_LEVEL),
        };
        if !is_its {
            return Err(messages::error(1098, &[]));
        }
        if numbers.contains(&found.number) {
            return Err(messages::error(1034, &[event]));
        }
        numbers.push(found.number);
    }
    Ok(numbers)
}

/// The database that triggers of the scope are defined in, and whether they are the server's.
fn home(ex: &Execution<'_>, scope: &TriggerScope) -> Result<(DatabaseId, bool)> {
    match scope {
        TriggerScope::AllServer => Ok((MASTER, true)),
        TriggerScope::Database => Ok((ex.current_database(), false)),
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
    let (database, on_server) = home(ex, &statement.on)?;
    refuse_read_only(ex, database)?;
    let catalog = ex.catalog(database)?;
    let named = |name: &ObjectName| {
        let found = named(&catalog, on_server, name).cloned();
        found.ok_or_else(|| messages::error(1088, &[&name.dotted()]))
    };
    let chosen = match statement.triggers.is_empty() {
        true => {
            let all = catalog.ddl_triggers().filter(|t| t.on_server == on_server);
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

/// DROP TRIGGER .. ON DATABASE and ON ALL SERVER.
pub(super) fn drop(ex: &Execution<'_>, scope: &TriggerScope, name: &ObjectName) -> Result<()> {
    let (database, on_server) = home(ex, scope)?;
    refuse_read_only(ex, database)?;
    let catalog = ex.catalog(database)?;
    let found = named(&catalog, on_server, name).cloned();
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
    let (database, on_server) = home(ex, scope)?;
    let catalog = ex.catalog(database)?;
    let is_there = |name: &ObjectName| named(&catalog, on_server, name).is_some();
    Ok(names.iter().any(is_there))
}

/// It has no schema that a name could tell.
fn named<'c>(
    catalog: &'c DatabaseCatalog,
    on_server: bool,
    name: &ObjectName,
) -> Option<&'c Arc<DdlTriggerDef>> {
    let is_bare = name.schema.is_none() && name.database.is_none();
    catalog
        .ddl_trigger_named(on_server, &name.name.text)
        .filter(|_| is_bare)
}
