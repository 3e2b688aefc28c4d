//! What is asked of a server, in parts. Each part is one SELECT whose first column is the part's name.
//!
//! Theory: a tick is one batch with several result sets, so that its figures belong together. Servers differ: when the sampler
//! connects, each part is tried alone; one that is refused is left out from then on, its figures are absent and never 0, and
//! the reason is shown. One with another wording for older servers has it as `or`.

/// How often a part is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Second,
    TenSeconds,
}

/// One SELECT.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its tag, and its name where it is reported as missing.
    pub name: &'static str,
    pub pace: Pace,
    pub text: &'static str,
    /// Asked instead where `text` is refused.
    pub or: Option<&'static str>,
}

/// Settings of the session: it never blocks anybody and is never chosen over somebody.
pub const SETTINGS: &str = "SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; SET LOCK_TIMEOUT 200; \
     SET DEADLOCK_PRIORITY LOW; SET TEXTSIZE 2147483647;";

/// What stands at the head of every batch: the server's own clock, its start, and how far its local time is from UTC.
pub const CLOCK: &str = "SELECT 'clock', ms_ticks, DATEDIFF_BIG(millisecond, '1970-01-01', SYSUTCDATETIME()), \
     DATEDIFF_BIG(millisecond, '1970-01-01', sqlserver_start_time), DATEDIFF(minute, SYSUTCDATETIME(), SYSDATETIME()), \
     cpu_count, @@SPID FROM sys.dm_os_sys_info;";

const fn second(name: &'static str, text: &'static str) -> Part {
    Part {
        name,
        pace: Pace::Second,
        text,
        or: None,
    }
}

const fn ten_seconds(name: &'static str, text: &'static str) -> Part {
    Part {
        name,
        pace: Pace::TenSeconds,
        text,
        or: None,
    }
}

/// All parts but the clock.
pub const PARTS: [Part; 18] = [
    second(
        "wait",
        "SELECT 'wait', wait_type, waiting_tasks_count, wait_time_ms, signal_wait_time_ms FROM sys.dm_os_wait_stats \
         WHERE waiting_tasks_count > 0;",
    ),
    second(
        "counter",
        "SELECT 'counter', RTRIM(counter_name), cntr_value FROM sys.dm_os_performance_counters \
         WHERE instance_name IN ('', '_Total') AND counter_name IN ('Batch Requests/sec', 'SQL Compilations/sec', \
         'Transactions/sec', 'Write Transactions/sec', 'Delayed Commits/sec', 'Log Flushes/sec', 'Log Bytes Flushed/sec', \
         'Log Flush Write Time (ms)', 'Lock Waits/sec', 'Number of Deadlocks/sec', 'Percent Log Used', 'Log Growths');",
    ),
    second(
        "file",
        "SELECT 'file', CASE WHEN f.type = 1 THEN 1 ELSE 0 END, SUM(v.num_of_reads), SUM(v.num_of_bytes_read), \
         SUM(v.io_stall_read_ms), SUM(v.num_of_writes), SUM(v.num_of_bytes_written), SUM(v.io_stall_write_ms) \
         FROM sys.dm_io_virtual_file_stats(NULL, NULL) AS v JOIN sys.master_files AS f ON f.database_id = v.database_id \
         AND f.file_id = v.file_id GROUP BY CASE WHEN f.type = 1 THEN 1 ELSE 0 END;",
    ),
    second(
        "session",
        "SELECT 'session', SUM(CASE WHEN status = 'running' THEN 1 ELSE 0 END), SUM(CASE WHEN status <> 'running' THEN 1 \
         ELSE 0 END), SUM(CASE WHEN open_transaction_count > 0 THEN 1 ELSE 0 END), MAX(CASE WHEN session_id = @@SPID THEN \
         cpu_time ELSE 0 END) FROM sys.dm_exec_sessions WHERE is_user_process = 1;",
    ),
    second(
        "processor",
        "SELECT 'processor', process_kernel_time_ms + process_user_time_ms FROM sys.dm_os_sys_info;",
    ),
    second(
        "memory",
        "SELECT 'memory', m.physical_memory_in_use_kb, i.committed_target_kb FROM sys.dm_os_process_memory AS m CROSS JOIN \
         sys.dm_os_sys_info AS i;",
    ),
    second(
        "risk",
        "SELECT 'risk', SUM(pending_transaction_count), SUM(unhardened_log_bytes), \
         MAX(ISNULL(oldest_pending_age_ms, 0)) FROM sys.dm_tran_delayed_durability;",
    ),
    second(
        "request",
        "SELECT 'request', r.session_id, r.blocking_session_id, r.wait_type, ISNULL(w.ms, r.wait_time), r.status, r.command, \
         DATEDIFF_BIG(millisecond, '1970-01-01', r.start_time), r.total_elapsed_time, r.cpu_time, r.logical_reads, r.writes, \
         r.percent_complete, s.open_transaction_count, r.wait_resource, DB_NAME(r.database_id), s.login_name, \
         s.program_name, s.host_name, r.sql_handle, r.statement_start_offset, r.statement_end_offset \
         FROM sys.dm_exec_requests AS r JOIN sys.dm_exec_sessions AS s ON s.session_id = r.session_id \
         LEFT JOIN (SELECT session_id, MAX(wait_duration_ms) AS ms FROM sys.dm_os_waiting_tasks GROUP BY session_id) AS w \
         ON w.session_id = r.session_id WHERE s.is_user_process = 1 AND r.session_id <> @@SPID;",
    ),
    second(
        "head",
        "SELECT 'head', s.session_id, s.status, DATEDIFF_BIG(millisecond, '1970-01-01', s.last_request_start_time), \
         DATEDIFF_BIG(millisecond, '1970-01-01', s.last_request_end_time), s.open_transaction_count, DB_NAME(s.database_id), \
         s.login_name, s.program_name, s.host_name, c.most_recent_sql_handle FROM sys.dm_exec_sessions AS s \
         LEFT JOIN sys.dm_exec_connections AS c ON c.session_id = s.session_id \
         WHERE s.session_id IN (SELECT blocking_session_id FROM sys.dm_exec_requests WHERE blocking_session_id > 0) \
         AND s.session_id NOT IN (SELECT session_id FROM sys.dm_exec_requests);",
    ),
    second(
        "completed",
        "SELECT 'completed', sequence, kind, session_id, DATEDIFF_BIG(millisecond, '1970-01-01', start_time), duration_us, \
         cpu_us, logical_reads, writes, row_count, wait_ms, log_wait_ms, lock_wait_ms, io_wait_ms, error_number, \
         DB_NAME(database_id), login_name, program_name, host_name, text FROM sys.dm_exec_completed_requests \
         WHERE sequence > @@completed@@;",
    ),
    second(
        "role",
        "SELECT 'role', g.name, s.role_desc, s.synchronization_health_desc FROM sys.dm_hadr_availability_replica_states AS s \
         JOIN sys.availability_groups AS g ON g.group_id = s.group_id WHERE s.is_local = 1;",
    ),
    ten_seconds(
        "backup",
        "SELECT TOP (500) 'backup', backup_set_id, database_name, type, DATEDIFF_BIG(millisecond, '1970-01-01', \
         backup_start_date), DATEDIFF_BIG(millisecond, '1970-01-01', backup_finish_date), backup_size, \
         compressed_backup_size FROM msdb.dbo.backupset WHERE backup_set_id > @@backups@@ AND backup_finish_date > \
         DATEADD(hour, -1, GETDATE()) ORDER BY backup_set_id;",
    ),
    ten_seconds(
        "versions",
        "SELECT 'versions', SUM(persistent_version_store_size_kb) FROM sys.dm_tran_persistent_version_store_stats;",
    ),
    ten_seconds(
        "pin",
        "SELECT 'pin', DB_NAME(database_id), pin_type_desc, session_id, DATEDIFF_BIG(millisecond, '1970-01-01', begin_time), \
         version_kb FROM sys.dm_db_version_store_pins;",
    ),
    ten_seconds(
        "database",
        "SELECT 'database', name, state_desc, recovery_model_desc, log_reuse_wait_desc, delayed_durability_desc, \
         is_accelerated_database_recovery_on FROM sys.databases;",
    ),
    ten_seconds(
        "replica",
        "SELECT 'replica', SUM(log_send_queue_size), SUM(redo_queue_size), MAX(secondary_lag_seconds) FROM \
         sys.dm_hadr_database_replica_states HAVING COUNT(*) > 0;",
    ),
    Part {
        name: "statement",
        pace: Pace::TenSeconds,
        text: "SELECT 'statement', sql_handle, statement_start_offset, statement_end_offset, execution_count, \
               total_worker_time, total_elapsed_time, total_logical_reads, total_logical_writes, total_rows, \
               DATEDIFF_BIG(millisecond, '1970-01-01', last_execution_time), last_elapsed_time, plan_handle, \
               query_plan_hash, total_wait_time, \
               total_log_wait_time, total_lock_wait_time, total_io_wait_time FROM sys.dm_exec_query_stats \
               WHERE total_elapsed_time >= 100000;",
        or: Some(
            "SELECT 'statement', sql_handle, statement_start_offset, statement_end_offset, execution_count, \
             total_worker_time, total_elapsed_time, total_logical_reads, total_logical_writes, total_rows, \
             DATEDIFF_BIG(millisecond, '1970-01-01', last_execution_time), last_elapsed_time, plan_handle, \
             query_plan_hash FROM sys.dm_exec_query_stats \
             WHERE total_elapsed_time >= 100000;",
        ),
    },
    ten_seconds(
        "configuration",
        "SELECT 'configuration', name, CAST(value_in_use AS nvarchar(60)) FROM sys.configurations;",
    ),
];

/// Mark in the part `completed` that is replaced by the last sequence number seen.
pub const COMPLETED_MARK: &str = "@@completed@@";
/// Mark in the part `backup` that is replaced by the last number seen.
pub const BACKUPS_MARK: &str = "@@backups@@";
