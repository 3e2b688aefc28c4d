//! Triggers of definitions, and the events that there are for them.

use super::define::{Rows, View};
use super::source::{Source, shown_text};
use crate::error::Result;
use crate::session::ddl_event_types as types;
use daruma_catalog::DdlTriggerDef;

pub(super) const VIEWS: &[View] = &[View::sys("trigger_event_types", TYPES, event_types)];

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
    each(source, |trigger| {
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
    })
}

/// Rows of `sys.sql_modules`.
pub(super) fn modules(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each(source, |trigger| {
        rows.add()
            .set("object_id", trigger.id)
            .set("definition", shown_text(&trigger.module.definition))
            .set("uses_ansi_nulls", trigger.module.ansi_nulls)
            .set("uses_quoted_identifier", trigger.module.quoted_identifier);
    })
}
