//! Event sessions: their definitions, those that run, what events there are, and the events in files.

use super::define::{Rows, View};
use super::source::Source;
use crate::error::Result;
use crate::instance::events::words::{
    ACTIONS, EVENTS, FieldType, MODULE_GUID, PACKAGE0_GUID, SQLSERVER_GUID, TARGETS, package_guid,
};
use crate::instance::events::{RunningSession, Target, file};
use crate::messages;
use daruma_catalog::{EventSessionDef, EventSettingValue};
use daruma_value::{DataType, Len, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) const VIEWS: &[View] = &[
    View::sys("server_event_sessions", SESSIONS, sessions),
    View::sys(
        "server_event_session_events",
        SESSION_EVENTS,
        session_events,
    ),
    View::sys(
        "server_event_session_actions",
        SESSION_ACTIONS,
        session_actions,
    ),
    View::sys(
        "server_event_session_targets",
        SESSION_TARGETS,
        session_targets,
    ),
    View::sys(
        "server_event_session_fields",
        SESSION_FIELDS,
        session_fields,
    ),
    View::sys("dm_xe_sessions", XE_SESSIONS, xe_sessions),
    View::sys("dm_xe_session_targets", XE_TARGETS, xe_targets),
    View::sys("dm_xe_session_events", XE_SESSION_EVENTS, xe_session_events),
    View::sys("dm_xe_packages", XE_PACKAGES, xe_packages),
    View::sys("dm_xe_objects", XE_OBJECTS, xe_objects),
    View::sys("dm_xe_object_columns", XE_COLUMNS, xe_columns),
    View::sys("dm_xe_map_values", XE_MAPS, xe_maps),
    View::function(
        "fn_xe_file_target_read_file",
        (4, 4),
        FILE_RECORDS,
        file_records,
    ),
];

/// Definitions, for whoever may change them or see what the server does.
fn definitions(source: &Source<'_>) -> Result<Vec<Arc<EventSessionDef>>> {
    let may = [
        "VIEW SERVER STATE",
        "ALTER ANY EVENT SESSION",
        "VIEW ANY DEFINITION",
    ];
    match may.iter().any(|p| source.host.has_server_permission(p)) {
        true => Ok(source.instance()?.events.definitions.all()),
        false => Ok(Vec::new()),
    }
}

const SESSIONS: &str = "
    event_session_id int; name sysname; event_retention_mode nchar(1)?; event_retention_mode_desc sysname?;
    max_dispatch_latency int?; max_memory int?; max_event_size int?; memory_partition_mode nchar(1)? = N;
    memory_partition_mode_desc sysname? = NONE; track_causality bit?; startup_state bit?; has_long_running_target bit? = 0;
    max_duration bigint? = 0";

fn sessions(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for def in definitions(source)? {
        let (mode, mode_name) = match def.loses_several {
            true => ("M", "ALLOW_MULTIPLE_EVENT_LOSS"),
            false => ("S", "ALLOW_SINGLE_EVENT_LOSS"),
        };
        rows.add()
            .set("event_session_id", def.id)
            .set("name", &def.name)
            .set("event_retention_mode", mode)
            .set("event_retention_mode_desc", mode_name)
            .set(
                "max_dispatch_latency",
                u64::from(def.dispatch_latency_s) * 1_000,
            )
            .set("max_memory", def.max_memory_kb)
            .set("max_event_size", def.max_event_kb)
            .set("track_causality", false)
            .set("startup_state", def.starts_with_server);
    }
    Ok(())
}

const SESSION_EVENTS: &str = "
    event_session_id int; event_id int; name sysname; package sysname = sqlserver; module sysname?;
    predicate nvarchar(3000)?; predicate_xml nvarchar(max)?";

fn session_events(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for def in definitions(source)? {
        for event in &def.events {
            rows.add()
                .set("event_session_id", def.id)
                .set("event_id", event.id)
                .set("name", &event.name)
                .set(
                    "predicate",
                    event.predicate.as_ref().map(|p| format!("({p})")),
                );
        }
    }
    Ok(())
}

const SESSION_ACTIONS: &str = "
    event_session_id int; event_id int; name sysname; package sysname; module sysname?";

fn session_actions(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for def in definitions(source)? {
        for event in &def.events {
            for action in &event.actions {
                let info = ACTIONS.iter().find(|info| info.name == action);
                rows.add()
                    .set("event_session_id", def.id)
                    .set("event_id", event.id)
                    .set("name", action)
                    .set("package", info.map_or("sqlserver", |info| info.package));
            }
        }
    }
    Ok(())
}

const SESSION_TARGETS: &str = "
    event_session_id int; target_id int; name sysname; package sysname = package0; module sysname?";

fn session_targets(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for def in definitions(source)? {
        for target in &def.targets {
            rows.add()
                .set("event_session_id", def.id)
                .set("target_id", target.id)
                .set("name", &target.name);
        }
    }
    Ok(())
}

const SESSION_FIELDS: &str =
    "event_session_id int; object_id int; name sysname; value sql_variant?";

fn session_fields(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for def in definitions(source)? {
        let events = def.events.iter().map(|e| (e.id, &e.settings));
        let targets = def.targets.iter().map(|t| (t.id, &t.settings));
        for (id, settings) in events.chain(targets) {
            for (name, value) in settings {
                rows.add()
                    .set("event_session_id", def.id)
                    .set("object_id", id)
                    .set("name", name)
                    .set("value", variant(value));
            }
        }
    }
    Ok(())
}

fn variant(value: &EventSettingValue) -> (DataType, Value) {
    match value {
        EventSettingValue::Number(n) => (DataType::BigInt, Value::BigInt(*n)),
        EventSettingValue::Text(text) => (DataType::NVarChar(Len(4_000)), Value::str(text.clone())),
    }
}

/// What stands for the place of a session in memory: unique while it is stored.
fn address(session: &RunningSession) -> Vec<u8> {
    i64::from(session.def.id).to_be_bytes().to_vec()
}

const XE_SESSIONS: &str = "
    address varbinary(8); name nvarchar(256); pending_buffers int; total_regular_buffers int; regular_buffer_size bigint;
    total_large_buffers int; large_buffer_size bigint; total_buffer_size bigint; buffer_policy_flags int;
    buffer_policy_desc nvarchar(256) = drop_event; flags int; flag_desc nvarchar(256); dropped_event_count int;
    dropped_buffer_count int; blocked_event_fire_time int; create_time datetime; largest_event_dropped_size int;
    session_source nvarchar(256) = server; buffer_processed_count bigint; buffer_full_count bigint;
    total_bytes_generated bigint; total_target_memory bigint";

fn xe_sessions(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for session in source.instance()?.events.running().iter() {
        let counts = &session.counts;
        let memory = u64::from(session.def.max_memory_kb) << 10;
        rows.add()
            .set("address", address(session))
            .set("name", &session.def.name)
            .set("total_regular_buffers", 1)
            .set("regular_buffer_size", memory)
            .set("total_buffer_size", memory)
            .set(
                "dropped_event_count",
                counts.dropped.load(Ordering::Relaxed),
            )
            .set("create_time", source.time(session.started_utc))
            .set(
                "largest_event_dropped_size",
                counts.largest_dropped.load(Ordering::Relaxed),
            )
            .set(
                "total_bytes_generated",
                counts.bytes.load(Ordering::Relaxed),
            );
    }
    Ok(())
}

const XE_TARGETS: &str = "
    event_session_address varbinary(8); target_name nvarchar(256); target_package_guid uniqueidentifier;
    execution_count bigint; execution_duration_ms bigint; target_data nvarchar(max)?; bytes_written bigint;
    failed_buffer_count bigint";

fn xe_targets(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for session in source.instance()?.events.running().iter() {
        for target in &session.targets {
            let (data, written, failed) = match &target.target {
                Target::Ring(ring) => (ring.to_xml(), 0, 0),
                Target::File(file) => (
                    file.to_xml(),
                    file.written_bytes.load(Ordering::Relaxed),
                    file.failed_writes.load(Ordering::Relaxed),
                ),
            };
            rows.add()
                .set("event_session_address", address(session))
                .set("target_name", &target.def.name)
                .set("target_package_guid", PACKAGE0_GUID.to_vec())
                .set("execution_count", target.events.load(Ordering::Relaxed))
                .set("target_data", data)
                .set("bytes_written", written)
                .set("failed_buffer_count", failed);
        }
    }
    Ok(())
}

const XE_SESSION_EVENTS: &str = "
    event_session_address varbinary(8); event_name nvarchar(256); event_package_guid uniqueidentifier;
    event_predicate nvarchar(3072)?";

fn xe_session_events(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for session in source.instance()?.events.running().iter() {
        for event in &session.def.events {
            rows.add()
                .set("event_session_address", address(session))
                .set("event_name", &event.name)
                .set("event_package_guid", SQLSERVER_GUID.to_vec())
                .set("event_predicate", event.predicate.clone());
        }
    }
    Ok(())
}

const XE_PACKAGES: &str = "
    name nvarchar(256); guid uniqueidentifier; description nvarchar(3072); capabilities int?;
    capabilities_desc nvarchar(256)?; module_guid uniqueidentifier; module_address varbinary(8)";

fn xe_packages(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let packages = [
        (
            "package0",
            "Default package. Contains all standard types, maps, compare operators, actions and targets",
        ),
        ("sqlserver", "Extended events for Microsoft SQL Server"),
    ];
    for (name, description) in packages {
        rows.add()
            .set("name", name)
            .set("guid", package_guid(name).to_vec())
            .set("description", description)
            .set("module_guid", MODULE_GUID.to_vec());
    }
    Ok(())
}

const XE_OBJECTS: &str = "
    name nvarchar(256); object_type nvarchar(256); package_guid uniqueidentifier; description nvarchar(3072);
    capabilities int?; capabilities_desc nvarchar(256)?; type_name nvarchar(256)?; type_package_guid uniqueidentifier?;
    type_size int?";

fn xe_objects(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for event in EVENTS {
        rows.add()
            .set("name", event.name)
            .set("object_type", "event")
            .set("package_guid", SQLSERVER_GUID.to_vec())
            .set("description", event.description);
    }
    for action in ACTIONS {
        let kinds: &[&str] = match action.is_source {
            true => &["action", "pred_source"],
            false => &["action"],
        };
        for kind in kinds {
            rows.add()
                .set("name", action.name)
                .set("object_type", *kind)
                .set("package_guid", package_guid(action.package).to_vec())
                .set(
                    "description",
                    format!("Collect {}", action.name.replace('_', " ")),
                )
                .set("type_name", action.data_type.name())
                .set(
                    "type_package_guid",
                    package_guid(action.data_type.package()).to_vec(),
                );
        }
    }
    for target in TARGETS {
        rows.add()
            .set("name", target.name)
            .set("object_type", "target")
            .set("package_guid", PACKAGE0_GUID.to_vec())
            .set("description", target.description);
    }
    for name in maps().keys() {
        rows.add()
            .set("name", *name)
            .set("object_type", "map")
            .set("package_guid", SQLSERVER_GUID.to_vec());
    }
    Ok(())
}

const XE_COLUMNS: &str = "
    name nvarchar(256); column_id int; object_name nvarchar(256); object_package_guid uniqueidentifier;
    type_name nvarchar(256); type_package_guid uniqueidentifier; column_type nvarchar(256); column_value nvarchar(256)?;
    capabilities int?; capabilities_desc nvarchar(256)?; description nvarchar(3072)?";

fn xe_columns(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for event in EVENTS {
        for (at, field) in event.fields.iter().enumerate() {
            rows.add()
                .set("name", field.name)
                .set("column_id", at)
                .set("object_name", event.name)
                .set("object_package_guid", SQLSERVER_GUID.to_vec())
                .set("type_name", field.data_type.name())
                .set(
                    "type_package_guid",
                    package_guid(field.data_type.package()).to_vec(),
                )
                .set("column_type", "data");
        }
        if let Some((attribute, _)) = event.optional {
            let place = (attribute, 0, event.name, SQLSERVER_GUID);
            customizable(rows, place, "boolean", Some("true"));
        }
    }
    for target in TARGETS {
        for (at, (attribute, is_number)) in target.attributes.iter().enumerate() {
            let data_type = if *is_number {
                "uint64"
            } else {
                "unicode_string_ptr"
            };
            let place = (*attribute, at, target.name, PACKAGE0_GUID);
            customizable(rows, place, data_type, None);
        }
    }
    Ok(())
}

fn customizable(
    rows: &mut Rows<'_>,
    (name, id, object, package): (&str, usize, &str, [u8; 16]),
    data_type: &str,
    value: Option<&str>,
) {
    rows.add()
        .set("name", name)
        .set("column_id", id)
        .set("object_name", object)
        .set("object_package_guid", package.to_vec())
        .set("type_name", data_type)
        .set("type_package_guid", PACKAGE0_GUID.to_vec())
        .set("column_type", "customizable")
        .set("column_value", value);
}

const XE_MAPS: &str = "
    name nvarchar(256); object_package_guid uniqueidentifier; map_key int; map_value nvarchar(3072)";

type Map = &'static [(i64, &'static str)];

fn maps() -> BTreeMap<&'static str, Map> {
    let fields = EVENTS.iter().flat_map(|event| event.fields);
    let maps = fields.filter_map(|field| match field.data_type {
        FieldType::Map(name, values) => Some((name, values)),
        _ => None,
    });
    maps.collect()
}

fn xe_maps(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (name, values) in maps() {
        for (key, value) in values {
            rows.add()
                .set("name", name)
                .set("object_package_guid", SQLSERVER_GUID.to_vec())
                .set("map_key", *key)
                .set("map_value", *value);
        }
    }
    Ok(())
}

const FILE_RECORDS: &str = "
    module_guid uniqueidentifier; package_guid uniqueidentifier; object_name nvarchar(256); event_data nvarchar(max);
    file_name nvarchar(260); file_offset bigint; timestamp_utc datetime2(7)";

/// `(path, metadata path, first file, offset in it)`: events behind that place, of the files that the path names.
fn file_records(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let text = |at: usize| match source.arguments.get(at) {
        Some(Value::Str(text)) => Some(text.as_str()),
        _ => None,
    };
    let instance = source.instance()?;
    let Some(pattern) = text(0) else {
        return Ok(());
    };
    let begin = match (text(2), source.integer_argument(3)) {
        (None, None) => None,
        (Some(name), Some(offset)) => Some((name, offset)),
        _ => return Err(messages::error(25719, &[])),
    };
    instance.events.flush();
    let folder = instance.log_folder();
    let found = file::find(instance.env(), &folder, pattern)?;
    let mut skips = begin.is_some();
    let mut held = 0_i64;
    for path in found {
        let shown = path.display().to_string();
        let mut after = -1;
        if let Some((name, offset)) = begin
            && skips
        {
            let is_it = shown == name || path.file_name().is_some_and(|f| f == name);
            if !is_it {
                continue;
            }
            (skips, after) = (false, offset);
        }
        file::read(instance.env(), &path, |record| {
            let bytes = i64::try_from(record.xml.len()).unwrap_or(i64::MAX);
            if !instance.has_room(held, bytes) {
                return Err(messages::error_state(701, 123, &[&"default"]));
            }
            if i128::from(record.offset) <= i128::from(after) {
                return Ok(());
            }
            held = held.saturating_add(bytes);
            rows.add()
                .set("module_guid", MODULE_GUID.to_vec())
                .set("package_guid", SQLSERVER_GUID.to_vec())
                .set("object_name", record.name)
                .set("event_data", record.xml)
                .set("file_name", shown.as_str())
                .set("file_offset", record.offset)
                .set("timestamp_utc", source.utc(record.at_utc));
            Ok(())
        })?;
    }
    match (skips, begin) {
        (true, Some((name, offset))) => Err(messages::error(25722, &[&offset, &name])),
        _ => Ok(()),
    }
}
