//! Memory of a log: blocks that are not written yet, and those that were and may be read back.
//!
//! Theory: a transaction that is rolled back reads its records again, the newest first, and copies elsewhere follow close behind; so
//! the last blocks stay in memory, and what is older is read from the file. Both kinds have a bound, which is a part of the server's
//! memory. A log that rests keeps nothing: of many databases few are at work at a time. The log of tempdb, for which nobody
//! waits, is written then.

use super::{Log, LogState};
use crate::error::Result;
use daruma_base::memory::for_all;
use std::time::Duration;

/// A log that has not grown for so long rests.
const REST: Duration = Duration::from_secs(1);
/// Blocks that are not written yet take so many parts of three of a log's memory.
const BACKLOG_PARTS: u64 = 2;
/// A group of commits fits.
const BYTES_MIN: u64 = 3 << 20;
const BYTES_MAX: u64 = 24 << 20;

/// Memory that the blocks of one log may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogMemory {
    /// Sealed and not yet hard: beyond this, appenders flush before they go on.
    pub backlog_bytes: usize,
    /// Hard blocks, for rollbacks and copies.
    pub recent_bytes: usize,
}

impl LogMemory {
    /// Shares of so many bytes, which are brought within what is useful.
    pub fn of(bytes: u64) -> LogMemory {
        let part = bytes.clamp(BYTES_MIN, BYTES_MAX) / 3;
        LogMemory {
            backlog_bytes: (part * BACKLOG_PARTS) as usize,
            recent_bytes: part as usize,
        }
    }
}

impl Default for LogMemory {
    fn default() -> LogMemory {
        LogMemory::of(u64::MAX)
    }
}

impl Log {
    /// To be called now and then: gives memory back once the log has not grown for a while.
    pub fn rest(&self) -> Result<()> {
        let now = self.env.clock.monotonic();
        if !self.state.lock().is_resting(now) || self.is_fenced() {
            return Ok(());
        }
        if !self.durable && !self.state.lock().sealed.is_empty() {
            self.harden_all_here()?;
        }
        for_all(|| self.state.lock().forget_recent());
        Ok(())
    }
}

impl LogState {
    /// Do so many blocks wait to be written that others should wait for that?
    pub(super) fn has_backlog(&self) -> bool {
        self.sealed_bytes > self.memory.backlog_bytes
    }

    /// Moves the first `count` sealed blocks, now hard, to the recent ones.
    pub(super) fn retire(&mut self, count: usize) {
        for _ in 0..count {
            let Some(block) = self.sealed.pop_front() else {
                return;
            };
            self.sealed_bytes -= block.bytes.len();
            self.recent_bytes += block.bytes.capacity();
            self.recent.push_back(block);
        }
        while self.recent_bytes > self.memory.recent_bytes {
            let Some(block) = self.recent.pop_front() else {
                return;
            };
            self.recent_bytes -= block.bytes.capacity();
            self.spare.give(block.bytes);
        }
    }

    fn is_resting(&mut self, now: Duration) -> bool {
        let end = self.end();
        if self.seen.0 != end {
            self.seen = (end, now);
        }
        now.saturating_sub(self.seen.1) >= REST
    }

    fn forget_recent(&mut self) {
        self.recent.clear();
        self.recent.shrink_to_fit();
        self.recent_bytes = 0;
        self.sealed.shrink_to_fit();
        self.spare.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{self, Kind};
    use super::super::{AppendKind, LogShared, UndoReader};
    use super::*;
    use crate::FileSpec;
    use daruma_base::{Env, Lsn, TxnId};
    use daruma_sim::SimDisk;
    use std::sync::Arc;

    const RECORD_BYTES: usize = 40_000;
    const RECORDS: usize = 200;

    fn log(env: &Env, durable: bool) -> Arc<Log> {
        let shared = LogShared {
            memory: LogMemory::of(0),
            ..LogShared::default()
        };
        let spec = FileSpec::log("/t_log.ldf", 4_096);
        Log::create(&spec, 7, durable, env, &shared).expect("creates")
    }

    /// Appends much more than may stay in memory; the positions.
    fn append_many(log: &Log) -> Vec<Lsn> {
        let mut body = Vec::new();
        record::start(&mut body, Kind::System, TxnId::NONE, Lsn::NONE);
        body.resize(RECORD_BYTES, 1);
        record::finish(&mut body);
        let append = |_| log.append(&body, AppendKind::System).expect("appends");
        (0..RECORDS).map(append).collect()
    }

    fn kept_bytes(log: &Log) -> usize {
        let state = log.state.lock();
        let blocks = state.sealed.iter().chain(&state.recent);
        blocks.map(|b| b.bytes.capacity()).sum()
    }

    #[test]
    fn a_share_is_brought_within_what_is_useful() {
        assert_eq!(LogMemory::of(u64::MAX), LogMemory::default());
        let least = LogMemory::of(0);
        assert_eq!(
            (least.backlog_bytes, least.recent_bytes),
            (2 << 20, 1 << 20)
        );
    }

    #[test]
    fn blocks_take_no_more_than_their_share() {
        let env = daruma_sim::env(&SimDisk::new(1), 1);
        for durable in [true, false] {
            let log = log(&env, durable);
            append_many(&log);
            let most = (LogMemory::of(0).backlog_bytes + LogMemory::of(0).recent_bytes) * 9 / 8;
            assert!(kept_bytes(&log) < most, "{} bytes", kept_bytes(&log));
            log.release();
            env.disk.remove("/t_log.ldf".as_ref()).expect("removes");
        }
    }

    #[test]
    fn a_log_that_rests_keeps_nothing_and_is_read_from_the_file() {
        let env = daruma_sim::env(&SimDisk::new(1), 1);
        for durable in [true, false] {
            let log = log(&env, durable);
            let at = append_many(&log);
            if durable {
                log.harden_all().expect("hardens");
            }
            log.rest().expect("looks");
            assert!(kept_bytes(&log) > 0, "it has only just grown");
            env.clock.sleep(REST);
            log.rest().expect("rests");
            assert_eq!(kept_bytes(&log), 0);
            let mut reader = UndoReader::new(&log);
            for lsn in at.iter().rev().take(100) {
                let record = reader.read(*lsn).expect("reads");
                assert_eq!(record.len(), RECORD_BYTES);
            }
            log.release();
            env.disk.remove("/t_log.ldf".as_ref()).expect("removes");
        }
    }
}
