//! A request that has ended, until it is known how long it took: its last commit may still be on its way to the disk.

use super::SessionState;
use crate::instance::completed::{CompletedRequest, LEAST_100NS};
use crate::instance::{Activity, Instance, SessionEntry};
use daruma_base::WaitSums;
use daruma_storage::IoCounters;
use std::sync::atomic::Ordering;

/// What the ring of completed requests will tell of a request that took a while.
pub(crate) struct EndedRequest {
    /// What the session had done when it began.
    before: Activity,
    cpu_us: u64,
    io: IoCounters,
    rows: u64,
    error: i32,
    waits: WaitSums,
}

impl EndedRequest {
    /// The request that ends now. `before` and `cpu_before` are what the session had done when it began.
    pub fn new(
        state: &SessionState,
        before: Activity,
        cpu_before: u64,
        waits: WaitSums,
    ) -> EndedRequest {
        let cpu = state.entry.cpu_us.load(Ordering::Relaxed);
        EndedRequest {
            before,
            cpu_us: cpu.saturating_sub(cpu_before),
            io: daruma_storage::thread_io(),
            rows: state.row_count.get(),
            error: state.last_error.get(),
            waits,
        }
    }

    /// Puts it into the ring if it took long enough until now; `waits` came after its end.
    pub fn note(self, instance: &Instance, entry: &SessionEntry, waits: WaitSums) {
        let (before, io) = (self.before, self.io);
        let duration = instance.now_utc() - before.request_start_utc;
        if duration < LEAST_100NS {
            return;
        }
        let waits = self.waits.plus(waits);
        instance.completed.add(CompletedRequest {
            sequence: 0,
            spid: entry.spid,
            start_utc: before.request_start_utc,
            duration,
            cpu_us: self.cpu_us,
            logical_reads: io.logical_reads.saturating_sub(before.logical_reads),
            physical_reads: io.physical_reads.saturating_sub(before.reads),
            writes: io.logical_writes.saturating_sub(before.writes),
            rows: self.rows,
            wait_ns: waits.all,
            log_wait_ns: waits.log,
            lock_wait_ns: waits.lock,
            io_wait_ns: waits.io,
            error: self.error,
            database: before.database,
            login: entry.login.login.clone(),
            program: entry.login.program.clone(),
            host: entry.login.host.clone(),
            text: before.text,
        });
    }
}
