//! Sessions, requests, locks and transactions as they are at this moment.

use super::define::{Cell, Rows, View};
use super::source::Source;
use crate::error::Result;
use crate::host::{IsolationLevel, SessionSettings};
use crate::instance::{Activity, SessionEntry, spid_of_owner};
use crate::session::WAITFOR;
use daruma_base::{DatabaseId, WaitKind};
use daruma_storage::{LockDescription, LockInfo, LockResource};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) const VIEWS: &[View] = &[
    View::sys("dm_exec_sessions", SESSIONS, sessions),
    View::sys("dm_exec_connections", CONNECTIONS, connections),
    View::sys("dm_exec_requests", REQUESTS, requests),
    View::function("dm_exec_input_buffer", (2, 2), INPUT_BUFFER, input_buffer),
    View::sys("sysprocesses", SYSPROCESSES, sysprocesses),
    View::sys("dm_os_waiting_tasks", WAITING_TASKS, waiting_tasks),
    View::sys("dm_tran_locks", LOCKS, locks),
    View::sys("syslockinfo", SYSLOCKINFO, syslockinfo),
    View::sys(
        "dm_tran_active_transactions",
        ACTIVE_TRANSACTIONS,
        active_transactions,
    ),
    View::sys(
        "dm_tran_session_transactions",
        SESSION_TRANSACTIONS,
        session_transactions,
    ),
    View::sys(
        "dm_tran_database_transactions",
        DATABASE_TRANSACTIONS,
        database_transactions,
    ),
    View::sys(
        "dm_tran_current_transaction",
        CURRENT_TRANSACTION,
        current_transaction,
    ),
];

/// One session with a copy of what it does.
pub(super) struct SessionLine {
    entry: Arc<SessionEntry>,
    activity: Activity,
    is_own: bool,
    blocked_by: Option<i32>,
}

pub(super) fn session_lines(source: &Source<'_>) -> Result<Vec<SessionLine>> {
    let instance = source.instance()?;
    let own = source.host.session_entry().map(|s| s.spid);
    let line = |entry: Arc<SessionEntry>| {
        let activity = entry.activity.lock().clone();
        let blocked_by = instance
            .engine()
            .blocked_by(&entry.owner)
            .map(spid_of_owner);
        SessionLine {
            is_own: own == Some(entry.spid),
            activity,
            blocked_by,
            entry,
        }
    };
    let all = source.host.has_server_permission("VIEW SERVER STATE");
    let sessions = instance.sessions.all().into_iter();
    Ok(sessions.map(line).filter(|l| all || l.is_own).collect())
}

impl SessionLine {
    /// `@@SPID`.
    pub fn spid(&self) -> i32 {
        self.entry.spid
    }

    /// When its request began; of one that runs none, its last.
    pub fn request_start_utc(&self) -> i64 {
        self.activity.request_start_utc
    }

    /// Does it run a request?
    pub fn is_running(&self) -> bool {
        self.activity.status != "sleeping"
    }

    /// A session that waits for a lock is suspended, whatever it says itself.
    pub fn status(&self) -> &'static str {
        match self.blocked_by {
            Some(_) => "suspended",
            None if self.activity.waits_for_memory || self.is_held_back() => "suspended",
            None => self.activity.status,
        }
    }

    /// Does it wait for synchronous replicas, before it writes more?
    fn is_held_back(&self) -> bool {
        self.entry.owner.is_held_back()
    }

    fn database(&self) -> u16 {
        self.activity.database.map_or(1, |d| d.0)
    }

    fn isolation(&self, settings: &SessionSettings) -> i32 {
        let level = if self.is_own {
            Some(settings.isolation)
        } else {
            self.activity.isolation
        };
        isolation_number(level.unwrap_or(IsolationLevel::ReadCommitted))
    }

    /// Handle from which `dm_exec_sql_text` finds the batch of this session.
    fn sql_handle(&self) -> Vec<u8> {
        super::plans::session_handle(self.entry.spid)
    }
}

fn isolation_number(level: IsolationLevel) -> i32 {
    match level {
        IsolationLevel::ReadUncommitted => 1,
        IsolationLevel::ReadCommitted => 2,
        IsolationLevel::RepeatableRead => 3,
        IsolationLevel::Serializable => 4,
        IsolationLevel::Snapshot => 5,
    }
}

const SESSIONS: &str = "
    session_id smallint; login_time datetime; host_name nvarchar(128)?; program_name nvarchar(128)?; host_process_id int?;
    client_version int? = 7; client_interface_name nvarchar(32)?; security_id varbinary(85); login_name nvarchar(128);
    nt_domain nvarchar(128)?; nt_user_name nvarchar(128)?; status nvarchar(30); context_info varbinary(128)?; cpu_time int;
    memory_usage int; total_scheduled_time int; total_elapsed_time int; endpoint_id int = 4;
    last_request_start_time datetime; last_request_end_time datetime?; reads bigint; writes bigint; logical_reads bigint;
    is_user_process bit = 1; text_size int; language nvarchar(128)?; date_format nvarchar(3)?; date_first smallint;
    quoted_identifier bit; arithabort bit; ansi_null_dflt_on bit; ansi_defaults bit; ansi_warnings bit; ansi_padding bit;
    ansi_nulls bit; concat_null_yields_null bit; transaction_isolation_level smallint; lock_timeout int;
    deadlock_priority int; row_count bigint; prev_error int; original_security_id varbinary(85);
    original_login_name nvarchar(128); last_successful_logon datetime?; last_unsuccessful_logon datetime?;
    unsuccessful_logons bigint?; group_id int = 2; database_id smallint; authenticating_database_id int? = 1;
    open_transaction_count int; page_server_reads bigint; contained_availability_group_id uniqueidentifier?";

fn sessions(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let settings = source.host.settings();
    for line in session_lines(source)? {
        let login = &line.entry.login;
        let activity = &line.activity;
        // Whoever has the name by now need not be who came in with it.
        let sid = match &login.sid {
            Some(sid) => sid.clone(),
            None => {
                let found = source.logins()?.get(&login.login);
                found.map_or(vec![1], |l| l.sid.clone())
            }
        };
        rows.add()
            .set("session_id", line.entry.spid)
            .set("login_time", source.time(line.entry.login_time_utc))
            .set("host_name", &login.host)
            .set("program_name", &login.program)
            .set("host_process_id", login.client_process_id)
            .set("client_interface_name", &login.client_interface)
            .set("security_id", sid.clone())
            .set("login_name", &login.login)
            .set("nt_domain", "")
            .set("nt_user_name", "")
            .set("status", line.status())
            .set(
                "cpu_time",
                line.entry.cpu_us.load(Ordering::Relaxed) / 1_000,
            )
            .set(
                "total_elapsed_time",
                elapsed_ms(
                    activity.last_request_start_utc,
                    activity.last_request_end_utc,
                ),
            )
            .set(
                "last_request_start_time",
                source.time(activity.last_request_start_utc),
            )
            .set(
                "last_request_end_time",
                source.time(activity.last_request_end_utc),
            )
            .set("reads", activity.reads)
            .set("writes", activity.writes)
            .set("logical_reads", activity.logical_reads);
        setting_columns(&line, &settings, rows);
        rows.set("row_count", activity.row_count)
            .set("prev_error", activity.last_error)
            .set("original_security_id", sid)
            .set("original_login_name", &login.login)
            .set("database_id", line.database())
            .set("open_transaction_count", activity.open_transactions);
    }
    Ok(())
}

fn elapsed_ms(from_utc: i64, to_utc: i64) -> i64 {
    ((to_utc - from_utc) / 10_000).max(0)
}

/// SET options: a session's own are exact; of others only the login's defaults are known.
fn setting_columns(line: &SessionLine, own: &SessionSettings, rows: &mut Rows<'_>) {
    let ansi = line.entry.login.ansi_defaults;
    let pick = |mine: bool| if line.is_own { mine } else { ansi };
    rows.set("text_size", if line.is_own { own.textsize } else { -1 })
        .set(
            "language",
            if line.is_own {
                own.language
            } else {
                "us_english"
            },
        )
        .set(
            "date_format",
            if line.is_own {
                own.dateformat.name()
            } else {
                "mdy"
            },
        )
        .set("date_first", if line.is_own { own.datefirst } else { 7 })
        .set("quoted_identifier", pick(own.quoted_identifier))
        .set(
            "arithabort",
            if line.is_own { own.arithabort } else { false },
        )
        .set("ansi_null_dflt_on", pick(own.ansi_null_dflt_on))
        .set("ansi_defaults", false)
        .set("ansi_warnings", pick(own.ansi_warnings))
        .set("ansi_padding", pick(own.ansi_padding))
        .set("ansi_nulls", pick(own.ansi_nulls))
        .set("concat_null_yields_null", pick(own.concat_null_yields_null))
        .set("transaction_isolation_level", line.isolation(own))
        .set(
            "lock_timeout",
            line.entry.owner.lock_timeout_ms.load(Ordering::Relaxed),
        )
        .set(
            "deadlock_priority",
            line.entry.owner.deadlock_priority.load(Ordering::Relaxed),
        );
}

const CONNECTIONS: &str = "
    session_id int?; most_recent_session_id int?; connect_time datetime; net_transport nvarchar(40);
    protocol_type nvarchar(40)? = TSQL; protocol_version int?; endpoint_id int? = 4; encrypt_option nvarchar(40);
    auth_scheme nvarchar(40) = SQL; node_affinity smallint; num_reads int?; num_writes int?; last_read datetime?;
    last_write datetime?; net_packet_size int?; client_net_address varchar(48)?; client_tcp_port int?;
    local_net_address varchar(48)?; local_tcp_port int?; connection_id uniqueidentifier; parent_connection_id uniqueidentifier?;
    most_recent_sql_handle varbinary(64)?";

fn connections(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for line in session_lines(source)? {
        let login = &line.entry.login;
        let (address, port) = match login.client_address.rsplit_once(':') {
            Some((address, port)) => (address, port.parse::<i32>().ok()),
            None => (login.client_address.as_str(), None),
        };
        let transport = if login.net_transport.is_empty() {
            "TCP"
        } else {
            &login.net_transport
        };
        rows.add()
            .set("session_id", line.entry.spid)
            .set("most_recent_session_id", line.entry.spid)
            .set("connect_time", source.time(line.entry.login_time_utc))
            .set("net_transport", transport)
            .set("protocol_version", i64::from(login.tds_version))
            .set(
                "encrypt_option",
                if login.encrypted { "TRUE" } else { "FALSE" },
            )
            .set(
                "last_read",
                source.time(line.activity.last_request_start_utc),
            )
            .set(
                "last_write",
                source.time(line.activity.last_request_end_utc),
            )
            .set("net_packet_size", login.packet_size)
            .set("client_net_address", address)
            .set("client_tcp_port", port)
            .set("connection_id", connection_id(&line.entry))
            .set("most_recent_sql_handle", line.sql_handle());
    }
    Ok(())
}

/// Unique while the server runs: made from the lock owner, whose ids are never given out again.
fn connection_id(entry: &SessionEntry) -> Vec<u8> {
    let mut id = entry.owner.id.to_le_bytes().to_vec();
    id.resize(16, 0);
    id
}

/// Number of the task that runs the requests of a session. Sessions have one at a time.
pub(super) fn task_address(spid: i32) -> Vec<u8> {
    i64::from(spid).to_be_bytes().to_vec()
}

const REQUESTS: &str = "
    session_id smallint; request_id int; start_time datetime; status nvarchar(30); command nvarchar(32);
    sql_handle varbinary(64)?; statement_start_offset int?; statement_end_offset int?; plan_handle varbinary(64)?;
    database_id smallint; user_id int = 1; connection_id uniqueidentifier?; blocking_session_id smallint?;
    wait_type nvarchar(60)?; wait_time int; last_wait_type nvarchar(60); wait_resource nvarchar(256);
    open_transaction_count int; open_resultset_count int; transaction_id bigint; context_info varbinary(128)?;
    percent_complete real; estimated_completion_time bigint; cpu_time int; total_elapsed_time int; scheduler_id int?;
    task_address varbinary(8)?; reads bigint; writes bigint; logical_reads bigint; text_size int; language nvarchar(128)?;
    date_format nvarchar(3)?; date_first smallint; quoted_identifier bit; arithabort bit; ansi_null_dflt_on bit;
    ansi_defaults bit; ansi_warnings bit; ansi_padding bit; ansi_nulls bit; concat_null_yields_null bit;
    transaction_isolation_level smallint; lock_timeout int; deadlock_priority int; row_count bigint; prev_error int;
    nest_level int; granted_query_memory int; executing_managed_code bit; group_id int = 2; query_hash binary(8)?;
    query_plan_hash binary(8)?; statement_sql_handle varbinary(64)?; statement_context_id bigint?; dop int = 1;
    parallel_worker_count int?; external_script_request_id uniqueidentifier?; is_resumable bit; page_resource binary(8)?;
    page_server_reads bigint; dist_statement_id uniqueidentifier";

fn requests(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let settings = source.host.settings();
    let waits = waiting_locks(source)?;
    let now = source.instance()?.now_utc();
    for line in session_lines(source)?.iter().filter(|l| l.is_running()) {
        let activity = &line.activity;
        let wait = waits.get(&line.entry.spid);
        let wait_type = wait_type(line, wait);
        let shown = line.entry.shown_statement();
        let (start, end) = super::plans::utf16_offsets(&activity.text, shown);
        rows.add()
            .set("session_id", line.entry.spid)
            .set("start_time", source.time(activity.request_start_utc))
            .set("status", line.status())
            .set("command", activity.command)
            .set("sql_handle", line.sql_handle())
            .set("statement_start_offset", start)
            .set("statement_end_offset", end)
            .set("database_id", line.database())
            .set("connection_id", connection_id(&line.entry))
            .set("blocking_session_id", line.blocked_by.unwrap_or(0))
            .set("wait_type", wait_type)
            .set("wait_time", wait_ms(source, line, wait)?)
            .set(
                "last_wait_type",
                wait.map_or("MISCELLANEOUS".to_string(), |w| format!("LCK_M_{}", w.mode)),
            )
            .set("wait_resource", wait.map_or(String::new(), wait_resource))
            .set("open_transaction_count", activity.open_transactions)
            .set("open_resultset_count", 1)
            .set("transaction_id", activity.transaction_id)
            .set("percent_complete", f64::from(activity.percent_complete))
            .set("estimated_completion_time", activity.remaining_ms)
            .set(
                "cpu_time",
                line.entry.cpu_us.load(Ordering::Relaxed) / 1_000,
            )
            .set(
                "total_elapsed_time",
                elapsed_ms(activity.request_start_utc, now),
            )
            .set("reads", activity.reads)
            .set("writes", activity.writes)
            .set("logical_reads", activity.logical_reads)
            .set("task_address", task_address(line.entry.spid));
        setting_columns(line, &settings, rows);
        rows.set("row_count", activity.row_count)
            .set("prev_error", activity.last_error);
    }
    Ok(())
}

/// What a session waits for now.
fn wait_type(line: &SessionLine, lock: Option<&LockInfo>) -> Option<String> {
    let activity = &line.activity;
    match lock {
        Some(lock) => Some(format!("LCK_M_{}", lock.mode)),
        None if activity.waits_for_memory => Some(WaitKind::ResourceSemaphore.name().to_string()),
        None if line.is_held_back() => Some(WaitKind::HadrThrottleSendQueue.name().to_string()),
        None => (activity.command == WAITFOR).then(|| WAITFOR.to_string()),
    }
}

/// For how long, as far as that is known.
fn wait_ms(source: &Source<'_>, line: &SessionLine, lock: Option<&LockInfo>) -> Result<u64> {
    match lock.is_some() || line.is_held_back() {
        true => waited_ms(source, line),
        false => Ok(0),
    }
}

/// Milliseconds for which the session has waited for the lock, or the replicas, that it waits for.
fn waited_ms(source: &Source<'_>, line: &SessionLine) -> Result<u64> {
    let now = source.instance()?.env().clock.monotonic();
    let waited = now.saturating_sub(line.entry.owner.waits_since());
    Ok(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX))
}

/// Locks that sessions wait for, by session.
fn waiting_locks(source: &Source<'_>) -> Result<HashMap<i32, LockInfo>> {
    let locks = source.instance()?.engine().locks();
    Ok(locks
        .into_iter()
        .filter(|l| !l.granted)
        .map(|l| (spid_of_owner(l.owner), l))
        .collect())
}

/// What a session waits for, as `wait_resource` shows it.
pub(crate) fn wait_resource(lock: &LockInfo) -> String {
    let shown = describe(lock);
    match shown.kind {
        "OBJECT" => format!("OBJECT: {}:{}:0", lock.database, shown.entity),
        kind => format!(
            "{kind}: {}:{} {}",
            lock.database, shown.entity, shown.description
        ),
    }
}

const INPUT_BUFFER: &str =
    "event_type nvarchar(256) = Language Event; parameters smallint; event_info nvarchar(max)?";

fn input_buffer(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let spid = source
        .integer_argument(0)
        .and_then(|id| i32::try_from(id).ok());
    for line in session_lines(source)? {
        if Some(line.entry.spid) == spid {
            rows.add().set("event_info", &*line.activity.text);
        }
    }
    Ok(())
}

const SYSPROCESSES: &str = "
    spid smallint; kpid smallint; blocked smallint; waittype binary(2); waittime bigint; lastwaittype nchar(32);
    waitresource nchar(256); dbid smallint; uid smallint? = 1; cpu int; physical_io bigint; memusage int; login_time datetime;
    last_batch datetime; ecid smallint; open_tran smallint; status nchar(30); sid binary(86); hostname nchar(128);
    program_name nchar(128); hostprocess nchar(10); cmd nchar(26); nt_domain nchar(128); nt_username nchar(128);
    net_address nchar(12); net_library nchar(12); loginame nchar(128); context_info binary(128); sql_handle binary(20);
    stmt_start int; stmt_end int; request_id int; page_resource binary(8)?";

fn sysprocesses(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let waits = waiting_locks(source)?;
    for line in session_lines(source)? {
        let login = &line.entry.login;
        let activity = &line.activity;
        let wait = waits.get(&line.entry.spid);
        rows.add()
            .set("spid", line.entry.spid)
            .set("blocked", line.blocked_by.unwrap_or(0))
            .set("waittime", wait_ms(source, &line, wait)?)
            .set(
                "lastwaittype",
                wait_type(&line, wait).unwrap_or_else(|| "MISCELLANEOUS".to_string()),
            )
            .set("waitresource", wait.map_or(String::new(), wait_resource))
            .set("dbid", line.database())
            .set("cpu", line.entry.cpu_us.load(Ordering::Relaxed) / 1_000)
            .set("physical_io", activity.reads + activity.writes)
            .set("login_time", source.time(line.entry.login_time_utc))
            .set("last_batch", source.time(activity.last_request_start_utc))
            .set("open_tran", activity.open_transactions)
            .set("status", line.status())
            .set("hostname", &login.host)
            .set("program_name", &login.program)
            .set("hostprocess", login.client_process_id.to_string())
            .set("cmd", activity.command)
            .set("net_library", "TCP/IP")
            .set("loginame", &login.login)
            .set("sql_handle", line.sql_handle());
    }
    Ok(())
}

const WAITING_TASKS: &str = "
    waiting_task_address varbinary(8); session_id smallint?; exec_context_id int?; wait_duration_ms bigint?;
    wait_type nvarchar(60)?; resource_address varbinary(8)?; blocking_task_address varbinary(8)?;
    blocking_session_id smallint?; blocking_exec_context_id int?; resource_description nvarchar(3072)?";

fn waiting_tasks(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let waits = waiting_locks(source)?;
    for line in session_lines(source)? {
        if let Some(lock) = waits.get(&line.entry.spid) {
            rows.add()
                .set("waiting_task_address", task_address(line.entry.spid))
                .set("session_id", line.entry.spid)
                .set("exec_context_id", 0)
                .set("wait_duration_ms", waited_ms(source, &line)?)
                .set("wait_type", format!("LCK_M_{}", lock.mode))
                .set("blocking_task_address", line.blocked_by.map(task_address))
                .set("blocking_session_id", line.blocked_by)
                .set("resource_description", wait_resource(lock));
        } else if line.is_held_back() {
            rows.add()
                .set("waiting_task_address", task_address(line.entry.spid))
                .set("session_id", line.entry.spid)
                .set("exec_context_id", 0)
                .set("wait_duration_ms", waited_ms(source, &line)?)
                .set("wait_type", WaitKind::HadrThrottleSendQueue.name());
        }
    }
    Ok(())
}

const LOCKS: &str = "
    resource_type nvarchar(60); resource_subtype nvarchar(60); resource_database_id int; resource_description nvarchar(256);
    resource_associated_entity_id bigint?; resource_lock_partition int; request_mode nvarchar(60);
    request_type nvarchar(60) = LOCK; request_status nvarchar(60); request_reference_count smallint = 1;
    request_lifetime int; request_session_id int; request_exec_context_id int; request_request_id int;
    request_owner_type nvarchar(60) = TRANSACTION; request_owner_id bigint?; request_owner_guid uniqueidentifier?;
    request_owner_lockspace_id nvarchar(32); lock_owner_address varbinary(8)";

/// A lock in the words of `sys.dm_tran_locks`.
struct ShownLock {
    kind: &'static str,
    description: String,
    entity: u64,
}

fn describe(lock: &LockInfo) -> ShownLock {
    let shown = |kind, description, entity| ShownLock {
        kind,
        description,
        entity,
    };
    match &lock.resource {
        LockDescription::Resource(LockResource::Database) => shown("DATABASE", String::new(), 0),
        LockDescription::Resource(LockResource::Object(id)) => {
            shown("OBJECT", String::new(), i64::from(*id) as u64)
        }
        LockDescription::Resource(LockResource::Name(name)) => {
            match name.strip_prefix("application ") {
                Some(rest) => shown("APPLICATION", application_name(rest), 0),
                None => shown("METADATA", name.clone(), 0),
            }
        }
        LockDescription::Resource(LockResource::Key { tree, key }) => shown(
            "KEY",
            format!("({})", key_hash(key)),
            (1 << 56) | tree.0.to_u64(),
        ),
        LockDescription::Range { tree } => {
            shown("KEY", "(range)".to_string(), (1 << 56) | tree.0.to_u64())
        }
        LockDescription::Transaction(id) => shown("XACT", id.0.to_string(), 0),
    }
}

/// `principal:[name]:(hash)`, as the product describes application locks.
fn application_name(lock: &str) -> String {
    let name = lock.split_once(' ').map_or(lock, |(_, name)| name);
    let shown: String = name.chars().take(32).collect();
    format!("0:[{shown}]:({:08x})", fnv(name.as_bytes()) as u32)
}

/// Twelve hexadecimal digits that stand for a key.
fn key_hash(key: &[u8]) -> String {
    format!("{:012x}", fnv(key) & 0xFFFF_FFFF_FFFF)
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01B3)
    })
}

fn locks(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let transactions = transactions_by_session(source)?;
    for lock in source.instance()?.engine().locks() {
        let shown = describe(&lock);
        let spid = spid_of_owner(lock.owner);
        rows.add()
            .set("resource_type", shown.kind)
            .set("resource_database_id", lock.database)
            .set("resource_description", shown.description)
            .set("resource_associated_entity_id", shown.entity as i64)
            .set("request_mode", lock.mode)
            .set(
                "request_status",
                if lock.granted { "GRANT" } else { "WAIT" },
            )
            .set("request_session_id", spid)
            .set(
                "request_owner_id",
                transactions.get(&spid).copied().unwrap_or(0),
            );
    }
    // Every session holds a shared lock on its database; it is kept as a count, not in the lock table.
    for line in session_lines(source)? {
        rows.add()
            .set("resource_type", "DATABASE")
            .set("resource_database_id", line.database())
            .set("resource_associated_entity_id", 0)
            .set("request_mode", "S")
            .set("request_status", "GRANT")
            .set("request_session_id", line.entry.spid)
            .set("request_owner_type", "SHARED_TRANSACTION_WORKSPACE")
            .set("request_owner_id", 0);
    }
    Ok(())
}

fn transactions_by_session(source: &Source<'_>) -> Result<HashMap<i32, u64>> {
    Ok(session_lines(source)?
        .iter()
        .map(|l| (l.entry.spid, l.activity.transaction_id))
        .collect())
}

const SYSLOCKINFO: &str = "
    rsc_text nchar(32); rsc_bin binary(16); rsc_valblk binary(16); rsc_dbid smallint; rsc_indid smallint; rsc_objid int;
    rsc_type tinyint; rsc_flag tinyint; req_mode tinyint; req_status tinyint; req_refcnt smallint; req_cryrefcnt smallint;
    req_lifetime int; req_spid int; req_ecid int; req_ownertype smallint; req_transactionID bigint?; req_transactionUOW uniqueidentifier?";

fn syslockinfo(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for lock in source.instance()?.engine().locks() {
        let shown = describe(&lock);
        let is_object = shown.kind == "OBJECT";
        rows.add()
            .set("rsc_text", &shown.description)
            .set("rsc_dbid", lock.database)
            .set("rsc_objid", if is_object { shown.entity as i64 } else { 0 })
            .set("rsc_type", if is_object { 5 } else { 7 })
            .set("req_status", if lock.granted { 1 } else { 3 })
            .set("req_refcnt", 1)
            .set("req_spid", spid_of_owner(lock.owner));
    }
    Ok(())
}

const ACTIVE_TRANSACTIONS: &str = "
    transaction_id bigint; name nvarchar(32); transaction_begin_time datetime; transaction_type int = 1;
    transaction_uow uniqueidentifier?; transaction_state int = 2; transaction_status int; transaction_status2 int;
    dtc_state int; dtc_status int; dtc_isolation_level int; filestream_transaction_id varbinary(128)?";

fn open_transactions(source: &Source<'_>) -> Result<Vec<SessionLine>> {
    Ok(session_lines(source)?
        .into_iter()
        .filter(|l| l.activity.transaction_id != 0)
        .collect())
}

fn active_transactions(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for line in open_transactions(source)? {
        rows.add()
            .set("transaction_id", line.activity.transaction_id)
            .set("name", "user_transaction")
            .set(
                "transaction_begin_time",
                source.time(line.activity.transaction_start_utc),
            );
    }
    Ok(())
}

const SESSION_TRANSACTIONS: &str = "
    session_id int; transaction_id bigint; transaction_descriptor binary(8); enlist_count int; is_user_transaction bit = 1;
    is_local bit = 1; is_enlisted bit; is_bound bit; open_transaction_count int";

fn session_transactions(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for line in open_transactions(source)? {
        rows.add()
            .set("session_id", line.entry.spid)
            .set("transaction_id", line.activity.transaction_id)
            .set(
                "transaction_descriptor",
                line.activity.transaction_id.to_le_bytes().to_vec(),
            )
            .set("enlist_count", i32::from(line.is_running()))
            .set("open_transaction_count", line.activity.open_transactions);
    }
    Ok(())
}

const DATABASE_TRANSACTIONS: &str = "
    transaction_id bigint; database_id int; database_transaction_begin_time datetime?; database_transaction_type int = 1;
    database_transaction_state int = 3; database_transaction_status int; database_transaction_status2 int;
    database_transaction_log_record_count bigint; database_transaction_replicate_record_count int;
    database_transaction_log_bytes_used bigint; database_transaction_log_bytes_reserved bigint;
    database_transaction_log_bytes_used_system int; database_transaction_log_bytes_reserved_system int;
    database_transaction_begin_lsn numeric(25,0)?; database_transaction_last_lsn numeric(25,0)?;
    database_transaction_most_recent_savepoint_lsn numeric(25,0)?; database_transaction_commit_lsn numeric(25,0)?;
    database_transaction_last_rollback_lsn numeric(25,0)?; database_transaction_next_undo_lsn numeric(25,0)?";

/// State 3: begun without log records; 4: with log records.
fn database_transactions(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for line in open_transactions(source)? {
        let database = DatabaseId(line.database());
        let written = match source.instance()?.open_database(database) {
            Ok(open) => !open.storage.active_transactions().is_empty(),
            Err(_) => false,
        };
        rows.add()
            .set("transaction_id", line.activity.transaction_id)
            .set("database_id", database.0)
            .set(
                "database_transaction_begin_time",
                source.time(line.activity.transaction_start_utc),
            )
            .set("database_transaction_state", if written { 4 } else { 3 });
    }
    Ok(())
}

const CURRENT_TRANSACTION: &str = "
    transaction_id bigint; transaction_sequence_num bigint; transaction_is_snapshot bit; first_snapshot_sequence_num bigint?;
    last_transaction_sequence_num bigint?; first_useful_sequence_num bigint";

fn current_transaction(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let Some(entry) = source.host.session_entry() else {
        return Ok(());
    };
    let snapshot = source.host.settings().isolation == IsolationLevel::Snapshot;
    let id = Cell::from(entry.activity.lock().transaction_id);
    rows.add()
        .set("transaction_id", id)
        .set("transaction_is_snapshot", snapshot);
    Ok(())
}
