//! `system_health`: the session that is there from the first start, and that runs unless somebody drops or changes it.

use super::super::Instance;
use crate::error::Result;
use daruma_catalog::{EventDef, EventSessionDef, EventSettingValue, EventTargetDef};

/// Says that the session was made once: who drops it does not want it back.
const MARK: &str = "system_health made";
const NAME: &str = "system_health";
/// The product's id of the first session.
const ID: i32 = 65_536;
/// What the product's session looks for: errors that end connections, and those that say that memory or network is short.
const ERRORS: &str = "[severity] >= 20 OR [error_number] = 17803 OR [error_number] = 701 OR [error_number] = 802 OR \
    [error_number] = 8645 OR [error_number] = 8651 OR [error_number] = 8657 OR [error_number] = 8902";

/// Stores the session's definition, once in the life of a server.
pub(crate) fn make_health_session(instance: &Instance) -> Result<()> {
    let catalog = instance.master_catalog()?;
    if catalog.has_mark(MARK)? {
        return Ok(());
    }
    if instance.events.definition(NAME).is_none() {
        let now = instance.now_utc();
        instance
            .events
            .definitions
            .create(ID, |id| Ok(definition(id, now)))?;
    }
    Ok(catalog.put_mark(MARK)?)
}

fn definition(id: i32, now_utc: i64) -> EventSessionDef {
    let event = |id, name: &str, actions: &[&str], predicate: Option<&str>| EventDef {
        id,
        name: name.to_string(),
        settings: Vec::new(),
        actions: actions.iter().map(|a| a.to_string()).collect(),
        predicate: predicate.map(str::to_string),
    };
    let setting = |name: &str, value: i64| (name.to_string(), EventSettingValue::Number(value));
    let file_name = EventSettingValue::Text("system_health.xel".to_string());
    EventSessionDef {
        id,
        name: NAME.to_string(),
        starts_with_server: true,
        max_memory_kb: 4_096,
        max_event_kb: 0,
        loses_several: false,
        dispatch_latency_s: 120,
        events: vec![
            event(
                1,
                "error_reported",
                &["database_id", "session_id", "sql_text"],
                Some(ERRORS),
            ),
            event(2, "xml_deadlock_report", &[], None),
        ],
        targets: vec![
            EventTargetDef {
                id: 3,
                name: "event_file".to_string(),
                settings: vec![
                    ("filename".to_string(), file_name),
                    setting("max_file_size", 100),
                    setting("max_rollover_files", 10),
                ],
            },
            EventTargetDef {
                id: 4,
                name: "ring_buffer".to_string(),
                settings: vec![
                    setting("max_memory", 4_096),
                    setting("max_events_limit", 5_000),
                ],
            },
        ],
        created_utc: now_utc,
    }
}
