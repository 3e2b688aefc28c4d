//! Triggers of definitions, and the events that there are for them.

use super::define::{Rows, View};
use super::source::{Source, shown_text};
use crate::error::Result;
use crate::instance::MASTER;
use crate::session::ddl_event_types as types;
use daruma_catalog::DdlTriggerDef;

pub(super) const VIEWS: &[View] = &[
    View::sys("trigger_event_types", TYPES, event_types),
    View::sys("server_triggers", SERVER_TRIGGERS, server_triggers),
    View::sys("server_trigger_events", SERVER_EVENTS, server_events),
    View::sys("server_events", SERVER_EVENTS, server_events),
    View::sys("server_sql_modules", SERVER_MODULES, server_modules),
];

const TYPES: &str = "type int; type_name nvarchar(64)?; parent_type int?";

fn event_types(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for of in types::all() {
        rows.add()
            .set("type", of.number)
            .set("type_name", of.name)
            .set("parent_type", (of.parent != 0).then_some(of.parent));
    }
    Ok(())
}

fn each(source: &Source<'_>, mut visit: impl FnMut(&DdlTriggerDef)) -> Result<()> {
    let catalog = source.catalog()?;
    let own = catalog.ddl_triggers().filter(|t| !t.on_server);
    own.for_each(|trigger| visit(trigger));
    Ok(())
}

/// Rows of `sys.triggers`.
pub(super) fn triggers(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each(source, |trigger| {
        rows.add()
            .set("name", &trigger.name)
            .set("object_id", trigger.id)
            .set("parent_class", 0)
            .set("parent_class_desc", "DATABASE")
            .set("parent_id", 0)
            .set("create_date", source.time(trigger.created_utc))
            .set("modify_date", source.time(trigger.modified_utc))
            .set("is_disabled", trigger.disabled);
    })
}

/// Rows of `sys.trigger_events` and `sys.events`: one for each event, also of a group.
pub(super) fn events(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each(source, |trigger| event_rows(trigger, rows))
}

fn event_rows(trigger: &DdlTriggerDef, rows: &mut Rows<'_>) {
    let groups = trigger.events.iter().filter_map(|n| types::by_number(*n));
    for group in groups {
        let within = types::all().iter().filter(|t| !t.is_group());
        for event in within.filter(|t| t.is_within(group.number)) {
            rows.add()
                .set("object_id", trigger.id)
                .set("type", event.number)
                .set("type_desc", event.name);
            if group.is_group() {
                rows.set("event_group_type", group.number)
                    .set("event_group_type_desc", group.name);
            }
        }
    }
}

/// Rows of `sys.sql_modules`.
pub(super) fn modules(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each(source, |trigger| module_row(trigger, rows))
}

fn module_row(trigger: &DdlTriggerDef, rows: &mut Rows<'_>) {
    rows.add()
        .set("object_id", trigger.id)
        .set("definition", shown_text(&trigger.module.definition))
        .set("uses_ansi_nulls", trigger.module.ansi_nulls)
        .set("uses_quoted_identifier", trigger.module.quoted_identifier);
}

// --- Of the server

const SERVER_TRIGGERS: &str = "
    name sysname; object_id int; parent_class tinyint = 100; parent_class_desc nvarchar(60)? = SERVER; parent_id int;
    type char(2) = TR; type_desc nvarchar(60)? = SQL_TRIGGER; create_date datetime; modify_date datetime;
    is_ms_shipped bit; is_disabled bit";
const SERVER_EVENTS: &str = "
    object_id int; type int; type_desc nvarchar(128); is_first bit; is_last bit; event_group_type int?;
    event_group_type_desc nvarchar(60)?; is_trigger_event bit? = 1";
const SERVER_MODULES: &str = "
    object_id int; definition nvarchar(max)?; uses_ansi_nulls bit?; uses_quoted_identifier bit?;
    execute_as_principal_id int?";

/// They are for those who may change them, or see every definition.
fn each_of_server(source: &Source<'_>, mut visit: impl FnMut(&DdlTriggerDef)) -> Result<()> {
    let may_see = ["CONTROL SERVER", "VIEW ANY DEFINITION"];
    if may_see.iter().any(|p| source.host.has_server_permission(p)) {
        let open = source.instance()?.open_database(MASTER)?;
        let catalog = open.catalog.current();
        let own = catalog.ddl_triggers().filter(|t| t.on_server);
        own.for_each(|trigger| visit(trigger));
    }
    Ok(())
}

fn server_triggers(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_of_server(source, |trigger| {
        rows.add()
            .set("name", &trigger.name)
            .set("object_id", trigger.id)
            .set("create_date", source.time(trigger.created_utc))
            .set("modify_date", source.time(trigger.modified_utc))
            .set("is_disabled", trigger.disabled);
    })
}

fn server_events(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_of_server(source, |trigger| event_rows(trigger, rows))
}

fn server_modules(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let logins = source.logins()?.all();
    each_of_server(source, |trigger| {
        module_row(trigger, rows);
        let sid = trigger.runs_as.as_ref();
        let login = sid.and_then(|sid| logins.iter().find(|l| l.sid == *sid));
        rows.set("execute_as_principal_id", login.map(|l| l.id));
    })
}
