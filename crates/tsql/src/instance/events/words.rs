//! What event sessions can name: events with their fields, actions, targets, and the product's that are not here.

use daruma_base::{WAIT_KINDS, WaitKind};

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    BatchCompleted,
    RpcCompleted,
    StatementCompleted,
    DeadlockReport,
    ErrorReported,
    WaitCompleted,
    WaitInfo,
}

impl EventKind {
    /// Its bit among those that some session wants.
    pub const fn bit(self) -> u32 {
        1 << self as u8
    }

    /// Its name, fields and texts.
    pub fn info(self) -> &'static EventInfo {
        &EVENTS[self as usize]
    }
}

/// Bits of the kinds that tell how long something of a request took: its last commit must be over by then.
pub const TIMED: u32 = EventKind::BatchCompleted.bit()
    | EventKind::RpcCompleted.bit()
    | EventKind::StatementCompleted.bit()
    | WAITS;
/// Bits of the kinds that are waits.
pub const WAITS: u32 = EventKind::WaitCompleted.bit() | EventKind::WaitInfo.bit();
/// Bits of the kinds that are told when a statement ends.
pub const OF_STATEMENTS: u32 = EventKind::StatementCompleted.bit() | WAITS;

/// An event as the views describe it.
pub struct EventInfo {
    pub kind: EventKind,
    pub name: &'static str,
    pub description: &'static str,
    /// In the order in which they are told.
    pub fields: &'static [Field],
    /// Attribute that turns the collection of a field off, and the field.
    pub optional: Option<(&'static str, &'static str)>,
}

/// A field of an event.
pub struct Field {
    pub name: &'static str,
    pub data_type: FieldType,
}

/// Type of a field or action.
#[derive(Clone, Copy, Debug)]
pub enum FieldType {
    /// A whole number, by the product's name for its kind.
    Number(&'static str),
    Boolean,
    Text,
    Xml,
    /// A number with a name for each value.
    Map(&'static str, &'static [(i64, &'static str)]),
}

impl FieldType {
    /// The type's name as events and views show it.
    pub fn name(self) -> &'static str {
        match self {
            FieldType::Number(name) | FieldType::Map(name, _) => name,
            FieldType::Boolean => "boolean",
            FieldType::Text => "unicode_string",
            FieldType::Xml => "xml",
        }
    }

    /// The package that the type is of.
    pub fn package(self) -> &'static str {
        match self {
            FieldType::Map(..) => "sqlserver",
            _ => "package0",
        }
    }
}

const fn number(name: &'static str, kind: &'static str) -> Field {
    Field {
        name,
        data_type: FieldType::Number(kind),
    }
}

const fn text(name: &'static str) -> Field {
    Field {
        name,
        data_type: FieldType::Text,
    }
}

/// How a request ended.
pub const RESULTS: &[(i64, &str)] = &[(0, "OK"), (1, "Error"), (2, "Abort")];

const RESULT: Field = Field {
    name: "result",
    data_type: FieldType::Map("sql_batch_result", RESULTS),
};

/// Where messages go.
pub const DESTINATIONS: &[(i64, &str)] = &[(2, "USER")];
/// What kind of error it is.
pub const CATEGORIES: &[(i64, &str)] = &[(2, "SERVER")];

/// Whether a wait begins or ends.
pub const OPCODES: &[(i64, &str)] = &[(0, "Begin"), (1, "End")];

/// Kinds of waits with numbers of our own.
pub const WAIT_TYPES: &[(i64, &str)] = &wait_types();

const fn wait_types() -> [(i64, &'static str); WAIT_KINDS] {
    let mut types = [(0, ""); WAIT_KINDS];
    let mut at = 0;
    while at < WAIT_KINDS {
        types[at] = (at as i64, WaitKind::ALL[at].name());
        at += 1;
    }
    types
}

const WAIT_TYPE: Field = Field {
    name: "wait_type",
    data_type: FieldType::Map("wait_types", WAIT_TYPES),
};

/// All events, by kind.
pub const EVENTS: &[EventInfo] = &[
    EventInfo {
        kind: EventKind::BatchCompleted,
        name: "sql_batch_completed",
        description: "Occurs when a Transact-SQL batch has completed.",
        fields: &[
            number("cpu_time", "uint64"),
            number("duration", "int64"),
            number("physical_reads", "uint64"),
            number("logical_reads", "uint64"),
            number("writes", "uint64"),
            number("spills", "uint64"),
            number("row_count", "uint64"),
            RESULT,
            text("batch_text"),
        ],
        optional: Some(("collect_batch_text", "batch_text")),
    },
    EventInfo {
        kind: EventKind::RpcCompleted,
        name: "rpc_completed",
        description: "Occurs when a remote procedure call has completed.",
        fields: &[
            number("cpu_time", "uint64"),
            number("duration", "int64"),
            number("physical_reads", "uint64"),
            number("logical_reads", "uint64"),
            number("writes", "uint64"),
            number("spills", "uint64"),
            number("row_count", "uint64"),
            RESULT,
            text("object_name"),
            text("statement"),
        ],
        optional: Some(("collect_statement", "statement")),
    },
    EventInfo {
        kind: EventKind::StatementCompleted,
        name: "sql_statement_completed",
        description: "Occurs when a Transact-SQL statement has completed.",
        fields: &[
            number("duration", "int64"),
            number("cpu_time", "uint64"),
            number("physical_reads", "uint64"),
            number("logical_reads", "uint64"),
            number("writes", "uint64"),
            number("spills", "uint64"),
            number("row_count", "uint64"),
            number("last_row_count", "uint64"),
            number("line_number", "int32"),
            number("offset", "int32"),
            number("offset_end", "int32"),
            text("statement"),
        ],
        optional: Some(("collect_statement", "statement")),
    },
    EventInfo {
        kind: EventKind::DeadlockReport,
        name: "xml_deadlock_report",
        description: "Produces a deadlock report in XML format.",
        fields: &[Field {
            name: "xml_report",
            data_type: FieldType::Xml,
        }],
        optional: None,
    },
    EventInfo {
        kind: EventKind::ErrorReported,
        name: "error_reported",
        description: "Occurs when an error is reported.",
        fields: &[
            number("error_number", "int32"),
            number("severity", "int32"),
            number("state", "int32"),
            Field {
                name: "user_defined",
                data_type: FieldType::Boolean,
            },
            Field {
                name: "category",
                data_type: FieldType::Map("error_category", CATEGORIES),
            },
            Field {
                name: "destination",
                data_type: FieldType::Map("error_destination", DESTINATIONS),
            },
            Field {
                name: "is_intercepted",
                data_type: FieldType::Boolean,
            },
            text("message"),
        ],
        optional: None,
    },
    EventInfo {
        kind: EventKind::WaitCompleted,
        name: "wait_completed",
        description: "Occurs when a wait has completed.",
        fields: &[
            WAIT_TYPE,
            number("duration", "uint64"),
            number("signal_duration", "uint64"),
        ],
        optional: None,
    },
    EventInfo {
        kind: EventKind::WaitInfo,
        name: "wait_info",
        description: "Occurs when there is a wait.",
        fields: &[
            WAIT_TYPE,
            Field {
                name: "opcode",
                data_type: FieldType::Map("event_opcode", OPCODES),
            },
            number("duration", "uint64"),
            number("signal_duration", "uint64"),
        ],
        optional: None,
    },
];

/// Events of the product that do not occur here.
pub const OTHER_EVENTS: &[&str] = &[
    "attention",
    "blocked_process_report",
    "lock_deadlock",
    "lock_deadlock_chain",
    "login",
    "logout",
    "module_end",
    "module_start",
    "query_post_execution_showplan",
    "rpc_starting",
    "sp_statement_completed",
    "sp_statement_starting",
    "sql_batch_starting",
    "sql_statement_recompile",
    "sql_statement_starting",
    "wait_info_external",
];

/// Something of the place where an event occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    EventSequence,
    CollectSystemTime,
    ClientAppName,
    ClientHostname,
    ClientPid,
    DatabaseId,
    DatabaseName,
    IsSystem,
    RequestId,
    ServerInstanceName,
    ServerPrincipalName,
    SessionId,
    SessionServerPrincipalName,
    SqlText,
    TransactionId,
    Username,
}

/// An action as the views describe it.
pub struct ActionInfo {
    pub action: Action,
    pub package: &'static str,
    pub name: &'static str,
    pub data_type: FieldType,
    /// May a predicate ask for it?
    pub is_source: bool,
}

const fn action(
    action: Action,
    package: &'static str,
    name: &'static str,
    data_type: FieldType,
    is_source: bool,
) -> ActionInfo {
    ActionInfo {
        action,
        package,
        name,
        data_type,
        is_source,
    }
}

const UINT16: FieldType = FieldType::Number("uint16");
const UINT32: FieldType = FieldType::Number("uint32");
const INT64: FieldType = FieldType::Number("int64");
const UINT64: FieldType = FieldType::Number("uint64");

/// All actions.
pub const ACTIONS: &[ActionInfo] = &[
    action(
        Action::EventSequence,
        "package0",
        "event_sequence",
        UINT64,
        false,
    ),
    action(
        Action::CollectSystemTime,
        "package0",
        "collect_system_time",
        UINT64,
        false,
    ),
    action(
        Action::ClientAppName,
        "sqlserver",
        "client_app_name",
        FieldType::Text,
        true,
    ),
    action(
        Action::ClientHostname,
        "sqlserver",
        "client_hostname",
        FieldType::Text,
        true,
    ),
    action(Action::ClientPid, "sqlserver", "client_pid", UINT32, true),
    action(Action::DatabaseId, "sqlserver", "database_id", UINT16, true),
    action(
        Action::DatabaseName,
        "sqlserver",
        "database_name",
        FieldType::Text,
        true,
    ),
    action(
        Action::IsSystem,
        "sqlserver",
        "is_system",
        FieldType::Boolean,
        true,
    ),
    action(Action::RequestId, "sqlserver", "request_id", UINT32, true),
    action(
        Action::ServerInstanceName,
        "sqlserver",
        "server_instance_name",
        FieldType::Text,
        true,
    ),
    action(
        Action::ServerPrincipalName,
        "sqlserver",
        "server_principal_name",
        FieldType::Text,
        true,
    ),
    action(Action::SessionId, "sqlserver", "session_id", UINT16, true),
    action(
        Action::SessionServerPrincipalName,
        "sqlserver",
        "session_server_principal_name",
        FieldType::Text,
        true,
    ),
    action(
        Action::SqlText,
        "sqlserver",
        "sql_text",
        FieldType::Text,
        true,
    ),
    action(
        Action::TransactionId,
        "sqlserver",
        "transaction_id",
        INT64,
        true,
    ),
    action(
        Action::Username,
        "sqlserver",
        "username",
        FieldType::Text,
        true,
    ),
];

impl Action {
    /// Its name and type.
    pub fn info(self) -> &'static ActionInfo {
        let found = ACTIONS.iter().find(|info| info.action == self);
        found.unwrap_or(&ACTIONS[0])
    }
}

/// Actions of the product that are not here.
pub const OTHER_ACTIONS: &[&str] = &[
    "callstack",
    "collect_cpu_cycle_time",
    "collect_current_thread_id",
    "client_connection_id",
    "context_info",
    "cpu_id",
    "database_context",
    "debug_break",
    "is_dispatcher",
    "last_error",
    "last_event_sequence",
    "nt_username",
    "num_response_rows",
    "plan_handle",
    "process_id",
    "query_hash",
    "query_hash_signed",
    "query_plan_hash",
    "query_plan_hash_signed",
    "scheduler_address",
    "scheduler_id",
    "session_nt_username",
    "session_resource_group_id",
    "session_resource_pool_id",
    "sqlserver_start",
    "system_thread_id",
    "task_address",
    "task_time",
    "transaction_sequence",
    "tsql_frame",
    "tsql_stack",
    "worker_address",
];

/// Where events go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    RingBuffer,
    EventFile,
}

/// A target as the views describe it.
pub struct TargetInfo {
    pub kind: TargetKind,
    pub name: &'static str,
    pub description: &'static str,
    /// Attributes, and whether each is a number.
    pub attributes: &'static [(&'static str, bool)],
}

/// All targets.
pub const TARGETS: &[TargetInfo] = &[
    TargetInfo {
        kind: TargetKind::RingBuffer,
        name: "ring_buffer",
        description: "Asynchronous ring buffer target.",
        attributes: &[("max_memory", true), ("max_events_limit", true)],
    },
    TargetInfo {
        kind: TargetKind::EventFile,
        name: "event_file",
        description: "Use the event_file target to save the event data to a file, which can be archived and used for later analysis and review.",
        attributes: &[
            ("filename", false),
            ("max_file_size", true),
            ("max_rollover_files", true),
        ],
    },
];

/// Targets of the product that are not here.
pub const OTHER_TARGETS: &[&str] = &[
    "asynchronous_file_target",
    "etw_classic_sync_target",
    "event_counter",
    "event_stream",
    "histogram",
    "pair_matching",
];

/// Attributes of the targets that are here which have no effect here, and so are refused by name.
pub const OTHER_ATTRIBUTES: &[&str] = &[
    "increment",
    "lazy_create_blob",
    "metadatafile",
    "occurrence_number",
];

/// The product's GUIDs: of the module that its server's events are of.
pub const MODULE_GUID: [u8; 16] = [
    0x1F, 0x81, 0x79, 0xCE, 0x80, 0x1A, 0xE1, 0x40, 0x8F, 0x5D, 0x74, 0x45, 0xA3, 0xF3, 0x75, 0xE7,
];
/// `package0`.
pub const PACKAGE0_GUID: [u8; 16] = [
    0xBF, 0x9F, 0xAA, 0x60, 0x3B, 0x67, 0x53, 0x45, 0xB7, 0xED, 0x71, 0xDC, 0xA7, 0xF5, 0xE9, 0x72,
];
/// `sqlserver`.
pub const SQLSERVER_GUID: [u8; 16] = [
    0x3F, 0xD9, 0x5F, 0x65, 0x64, 0x33, 0xD5, 0x40, 0xB2, 0xBA, 0x33, 0x0F, 0x7F, 0xFB, 0x64, 0x91,
];

/// The GUID of a package.
pub fn package_guid(package: &str) -> [u8; 16] {
    match package {
        "package0" => PACKAGE0_GUID,
        _ => SQLSERVER_GUID,
    }
}
