//! Requests that have ended, and what each session has waited for.
//!
//! `sys.dm_exec_completed_requests` is of our own: the product has event sessions for it.

use super::counters::milliseconds;
use super::define::{Rows, View};
use super::source::Source;
use crate::error::Result;
use daruma_base::WaitKind;
use std::time::Duration;

pub(super) const VIEWS: &[View] = &[
    View::sys("dm_exec_completed_requests", COMPLETED, completed),
    View::sys("dm_exec_session_wait_stats", SESSION_WAITS, session_waits),
];

const COMPLETED: &str = "
    sequence bigint; session_id smallint; kind nvarchar(20) = request; start_time datetime2(7); duration_us bigint;
    cpu_us bigint; logical_reads bigint; physical_reads bigint; writes bigint; row_count bigint; wait_ms bigint;
    log_wait_ms bigint; lock_wait_ms bigint; io_wait_ms bigint; error_number int; database_id smallint?;
    login_name nvarchar(128); program_name nvarchar(128); host_name nvarchar(128); text nvarchar(max)";

fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}

fn completed(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for request in source.instance()?.completed.all() {
        rows.add()
            .set("sequence", request.sequence)
            .set("session_id", request.spid)
            .set("start_time", source.time(request.start_utc))
            .set("duration_us", request.duration / 10)
            .set("cpu_us", request.cpu_us)
            .set("logical_reads", request.logical_reads)
            .set("physical_reads", request.physical_reads)
            .set("writes", request.writes)
            .set("row_count", request.rows)
            .set("wait_ms", ms(request.wait_ns))
            .set("log_wait_ms", ms(request.log_wait_ns))
            .set("lock_wait_ms", ms(request.lock_wait_ns))
            .set("io_wait_ms", ms(request.io_wait_ns))
            .set("error_number", request.error)
            .set("database_id", request.database.map(|id| i64::from(id.0)))
            .set("login_name", &request.login)
            .set("program_name", &request.program)
            .set("host_name", &request.host)
            .set("text", &*request.text);
    }
    Ok(())
}

const SESSION_WAITS: &str = "
    session_id smallint; wait_type nvarchar(60); waiting_tasks_count bigint; wait_time_ms bigint; max_wait_time_ms bigint;
    signal_wait_time_ms bigint";

/// Waits of requests that have ended; kinds that a session never met are left out.
fn session_waits(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for session in source.instance()?.sessions.all() {
        let mut waits = *session.waits.lock();
        if let Some(log) = waits.get_mut(WaitKind::WriteLog as usize) {
            log.plus(*session.late_waits.lock());
        }
        for (kind, wait) in WaitKind::ALL.iter().zip(waits) {
            if wait.count == 0 {
                continue;
            }
            rows.add()
                .set("session_id", session.spid)
                .set("wait_type", kind.name())
                .set("waiting_tasks_count", wait.count)
                .set("wait_time_ms", milliseconds(Duration::from_nanos(wait.ns)))
                .set(
                    "max_wait_time_ms",
                    milliseconds(Duration::from_nanos(wait.max_ns)),
                );
        }
    }
    Ok(())
}
