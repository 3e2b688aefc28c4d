//! Checkpoints: where redo would begin, what a restart must know beyond the log, and keeping redo short.
//!
//! Theory: fuzzy checkpoints. A record notes the oldest change that is on no page yet and what transactions, versions and
//! freed space are about; nobody waits for pages. In the background the oldest dirty pages are written, paced by log
//! volume, so redo is bounded. Afterwards the log behind it is cut.
//!
//! Pages that the log's volume never asks for are written as well: those that have been dirty since the checkpoint before
//! the last, when one is due by time, and all of them while nobody writes. So a database that rests has nothing to redo.
//!
//! Beside that the boot page says how far the log is on disk, each time it is written, and once more when the log has been
//! quiet for a while: nothing in the log itself can tell a last block that rotted from one that was never written whole.
//!
//! Invariants
//! 1. The boot page names a checkpoint only when all its records are hard.
//! 2. What moves from one list to another is in at least one of them, or in a record behind the checkpoint's begin,
//!    whenever a checkpoint looks; and no list tells what a record before the begin has ended. Where no latch of a page or list
//!    sees to that, the record and the move keep checkpoints out (`no_checkpoint`).

use super::Database;
use super::failures::Task;
use crate::error::{Result, StorageError};
use crate::log::record::{CHECKPOINT_PART_BYTES, Checkpoint, Fact};
use crate::log::{AppendKind, NOTHING, Need};
use crate::pause::pause;
use crate::planted::{Bug, planted};
use crate::txn::Progress;
use daruma_base::{Lsn, TxnId, reached};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Redo is kept below this many bytes of log by writing old dirty pages, or less when TARGET_RECOVERY_TIME asks for it.
const REDO_BYTES_TARGET: u64 = 64 << 20;
/// A log file that holds the redo aimed at, what is written while the oldest pages are, and the space between two
/// checkpoint records, with as much again to spare.
pub(crate) const LOG_BYTES_WANTED: u64 = 4 * REDO_BYTES_TARGET;
/// Log that recovery repeats in a second at the very least.
const REDO_BYTES_PER_SECOND: u64 = 16 << 20;
/// A checkpoint record follows at the latest after so much log.
const CHECKPOINT_LOG_BYTES: u64 = 16 << 20;
const FLUSH_PAGES_PER_STEP: usize = 1024;
/// So long nothing is to become hard before the boot page is written for that alone: commits must not wait for it. A database
/// whose log has not grown for so long rests.
const QUIET: Duration = Duration::from_secs(1);
/// Writers in a full log ask for no checkpoint for so long after one was refused.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
/// Log that is not worth a checkpoint record of its own.
const CHECKPOINT_LOG_BYTES_MIN: u64 = 4096;

/// How far the log was on disk at the last look, and since when.
#[derive(Default)]
pub(super) struct QuietLog {
    hardened: Lsn,
    since: Duration,
}

#[derive(Clone, Copy, Default)]
pub(super) struct CheckpointState {
    at: Duration,
    pub(super) end: Lsn,
    /// The oldest pages are looked for again when the log is as long as this.
    look_at: u64,
    /// Redo of no dirty page begins before this. Positions only grow, so what one look over all pages found holds on.
    redo_floor: Lsn,
    /// Where the log ended at the last look, and when it was first seen to end there.
    seen: (Lsn, Duration),
    /// All pages changed before this were written while the database rested.
    rested: Lsn,
    /// Pages changed before this are to be written before the checkpoint that is due by time.
    aged: Option<Lsn>,
    /// Where redo would begin, had the last one been written.
    pub(super) passed_over: Option<Lsn>,
    /// When the log had no room for one, if none was written since.
    refused_at: Option<Duration>,
}

/// What a flush has done that leaves pages dirty whose versions find no page.
#[derive(Default)]
struct Flushed {
    pages: usize,
    waiting: Option<StorageError>,
}

/// What the record of a checkpoint is wanted for: decides what becomes of one that lets go of no log and finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// To let log go and to shorten redo: passed over.
    Room,
    /// To begin a copy from: refused.
    Copy,
    /// By a database that closes: as `Room`, and where it is written, nothing is left to redo.
    Close,
}

impl Database {
    /// Writes all dirty pages and a checkpoint record, then cuts the log.
    pub fn checkpoint(&self) -> Result<()> {
        self.checkpoint_all(Wanted::Room).map(|_| ())
    }

    /// As `checkpoint`, for a copy: the record is written in any case, or there is no room for it (`LogFull`).
    pub(crate) fn checkpoint_for_copy(&self) -> Result<()> {
        self.checkpoint_all(Wanted::Copy).map(|_| ())
    }

    /// Returns why pages could not be written that wait for versions, if there are any.
    pub(super) fn checkpoint_all(&self, wanted: Wanted) -> Result<Option<StorageError>> {
        let Some(_open) = self.stay_open() else {
            return self.check_writable().map(|()| None);
        };
        if self.durable {
            // Seals the open block, so that redo begins behind what is flushed here.
            self.store.log.harden_all()?;
        }
        let begin = self.store.log.block_start();
        let flushed = match self.durable {
            true => self.flush_what_may_be(begin, usize::MAX),
            false => Ok(Flushed::default()),
        };
        // Also when not all pages could be written: those that were may let some of the log go.
        self.checkpoint_record(wanted)?;
        flushed.map(|flushed| flushed.waiting)
    }

    /// As [`Database::checkpoint`], some pages at a time: nobody waits for long to write a page of his own. True when it was
    /// written; `goes_on` may end it between two steps.
    pub fn checkpoint_in_steps(&self, goes_on: &dyn Fn() -> bool) -> Result<bool> {
        if !self.durable {
            return Ok(true);
        }
        self.store.log.harden_all()?;
        let begin = self.store.log.block_start();
        loop {
            // Closing waits for one step, not for all of them.
            let Some(_open) = self.stay_open().filter(|_| goes_on()) else {
                return Ok(false);
            };
            let flushed = self.flush_what_may_be(begin, FLUSH_PAGES_PER_STEP)?;
            // Pages that wait are among the oldest each time.
            let is_over = match flushed.waiting {
                Some(_) => flushed.pages == 0,
                None => flushed.pages < FLUSH_PAGES_PER_STEP,
            };
            if is_over {
                break;
            }
        }
        let Some(_open) = self.stay_open() else {
            return Ok(false);
        };
        // Also those that others had latched.
        self.flush_what_may_be(begin, usize::MAX)?;
        self.checkpoint_record(Wanted::Room).map(|()| true)
    }

    /// Fuzzy checkpoint: notes where redo must begin, without writing pages.
    pub(super) fn checkpoint_record(&self, wanted: Wanted) -> Result<()> {
        let mut last = self.checkpointing.lock();
        let log = &self.store.log;
        let begin = log.block_start();
        let redo_start = self
            .pool()
            .min_rec_lsn(&self.store)
            .filter(|_| !planted(Bug::LateRedoStart))
            .map_or(begin, |l| l.min(begin));
        let needed_from = if self.durable { redo_start } else { begin };
        let shortens_redo = redo_start > self.store.files.boot().redo_start;
        let may_pass = wanted != Wanted::Copy;
        if may_pass && !shortens_redo && log.is_used_up() {
            // It would not even shorten redo.
            self.pass_over(&mut last, needed_from);
            return Ok(());
        }
        let freed = self.would_free_log(needed_from);
        let kind = match freed {
            0 => AppendKind::System,
            _ => AppendKind::Checkpoint,
        };
        let last_commit = log.last_commit();
        pause("checkpoint.begun");
        let (next_txn, facts) = self.facts();
        let checkpoint = match self.write_checkpoint(redo_start, next_txn, facts, kind, freed) {
            Err(StorageError::LogFull { .. }) if may_pass && freed == 0 => {
                self.pass_over(&mut last, needed_from);
                return Ok(());
            }
            Err(error @ StorageError::LogFull { .. }) => {
                if may_pass {
                    last.refused_at = Some(self.env().clock.monotonic());
                }
                self.remember_redo_start();
                self.cut_log_again();
                return Err(error);
            }
            written => written?,
        };
        if self.durable {
            log.harden(checkpoint)?;
            self.store.write_boot(|b| {
                b.redo_start = redo_start;
                b.checkpoint = checkpoint;
                b.clean = wanted == Wanted::Close;
                b.last_commit = last_commit;
            })?;
        }
        // A redo as long as checkpoints aim at is no reason to name the oldest page as what keeps the log.
        let is_behind = begin.0 - redo_start.0 > REDO_BYTES_TARGET + CHECKPOINT_LOG_BYTES;
        self.cut_log(needed_from, is_behind);
        *last = CheckpointState {
            at: self.env().clock.monotonic(),
            end: log.end(),
            aged: None,
            passed_over: None,
            refused_at: None,
            ..*last
        };
        Ok(())
    }

    /// Had the log no room for a checkpoint a moment ago? Whoever writes need not ask for the next one at once, with all its pages.
    pub(crate) fn checkpoint_was_refused(&self) -> bool {
        let refused_at = self.checkpointing.lock().refused_at;
        let now = self.env().clock.monotonic();
        refused_at.is_some_and(|at| now.saturating_sub(at) < REFUSED_PAUSE)
    }

    /// Where redo begins after the last checkpoint, if there was none since the database was opened.
    fn remember_redo_start(&self) {
        if self.remembered_needs().is_empty() {
            self.remember_needs(&[Need {
                from: self.store.files.boot().redo_start,
                reason: NOTHING,
            }]);
        }
    }

    /// A checkpoint would take of the room that is left in a log that cannot grow, and let nothing go.
    fn pass_over(&self, last: &mut CheckpointState, redo_start: Lsn) {
        reached!("checkpoint.without_use");
        self.remember_redo_start();
        self.cut_log_again();
        *last = CheckpointState {
            at: self.env().clock.monotonic(),
            end: self.store.log.end(),
            aged: None,
            passed_over: Some(redo_start),
            ..*last
        };
    }

    /// Calls `cut` with the oldest log position a transaction needs. Under the latch: a transaction that wants to keep
    /// its log either is seen here or sees that it came too late (`log_is_kept`).
    pub(crate) fn with_log_needed_by_transactions(&self, cut: impl FnOnce(Option<Lsn>)) {
        let active = self.active.lock();
        cut(active.values().filter_map(|p| p.log_needed()).min());
    }

    /// Facts that a restart has to know beyond the log, and the next id: every open transaction below it is among them.
    fn facts(&self) -> (u64, Vec<Fact>) {
        let mut facts = Vec::new();
        let next_txn;
        {
            let active = self.active.lock();
            next_txn = self.txns.next_id();
            let aborted = self.aborted.map.lock();
            active.values().for_each(|p| p.facts(false, &mut facts));
            aborted
                .values()
                .for_each(|a| a.progress.facts(true, &mut facts));
        }
        facts.extend(self.decisions.list().into_iter().map(Fact::Decision));
        let pending = self.pending.lock();
        facts.extend(pending.iter().map(|(_, s)| Fact::Pending(*s)));
        drop(pending);
        // A chunk that is just being given pages, or giving them back, is in its record or here.
        let _settled = self.versions().placing.lock();
        for chunk in self.versions().chunks_with_dropped() {
            let pages = chunk.content.read().pages.clone();
            if !pages.is_empty() {
                facts.push(Fact::Versions {
                    chunk: chunk.id,
                    id: chunk.txn,
                    pages,
                });
            }
        }
        (next_txn, facts)
    }

    fn write_checkpoint(
        &self,
        redo_start: Lsn,
        next_txn: u64,
        facts: Vec<Fact>,
        kind: AppendKind,
        freed: u64,
    ) -> Result<Lsn> {
        let part = || Checkpoint {
            redo_start,
            next_txn,
            ..Checkpoint::default()
        };
        let mut parts = vec![part()];
        let mut bytes = 0;
        for fact in facts {
            if bytes + fact.encoded_bytes() > CHECKPOINT_PART_BYTES {
                bytes = 0;
                parts.push(part());
            }
            bytes += fact.encoded_bytes();
            if let Some(last) = parts.last_mut() {
                last.facts.push(fact);
            }
        }
        if let Some(last) = parts.last_mut() {
            last.is_last = true;
        }
        let record = |part: &Checkpoint| {
            let mut body = Vec::new();
            part.write(&mut body);
            body
        };
        let records: Vec<Vec<u8>> = parts.iter().map(record).collect();
        self.store.log.append_checkpoint(&records, kind, freed)
    }

    /// Writes the oldest dirty pages so that redo stays short.
    pub(super) fn bound_redo(&self) -> Result<bool> {
        if !self.durable {
            return Ok(false);
        }
        let end = self.store.log.end().0;
        if end < self.checkpointing.lock().look_at {
            return Ok(false);
        }
        let target = match u64::from(self.settings().target_recovery_seconds) {
            0 => REDO_BYTES_TARGET,
            seconds => REDO_BYTES_TARGET.min(seconds * REDO_BYTES_PER_SECOND),
        };
        // The look over all pages is expensive with a large pool, and there is one step every few milliseconds.
        if end.saturating_sub(self.checkpointing.lock().redo_floor.0) < target {
            return Ok(false);
        }
        let oldest = self.pool().min_rec_lsn(&self.store).unwrap_or(Lsn(end));
        self.checkpointing.lock().redo_floor = oldest;
        if end.saturating_sub(oldest.0) < target {
            return Ok(false);
        }
        // Most transactions end soon, and their versions need no pages then: pages wait for those that began lately.
        let before = Lsn(end - target / 2);
        let written = self.flush_spared(before, FLUSH_PAGES_PER_STEP, before)?;
        let is_full = written == FLUSH_PAGES_PER_STEP;
        if !is_full {
            self.checkpointing.lock().look_at = end + target / 16;
        }
        Ok(is_full)
    }

    /// Writes dirty pages changed before `before`, and first the versions they depend on.
    pub(super) fn flush_pages(&self, before: Lsn, limit: usize) -> Result<usize> {
        self.flush_spared(before, limit, Lsn::MAX)
    }

    /// As `flush_pages`, but pages that wait for versions of transactions which first wrote after `spared` go on waiting. Where
    /// versions cannot be placed, for want of log or of free pages, the other pages are written all the same.
    fn flush_spared(&self, before: Lsn, limit: usize, spared: Lsn) -> Result<usize> {
        let (placed, written) = self.place_and_flush(before, limit, spared)?;
        placed.map(|()| written)
    }

    /// What came of placing versions, and the pages that were written after it.
    fn place_and_flush(
        &self,
        before: Lsn,
        limit: usize,
        spared: Lsn,
    ) -> Result<(Result<()>, usize)> {
        let is_spared = |txn: TxnId| {
            let active = self.active.lock();
            let wrote_from = |p: &Arc<Progress>| p.wrote_from.load(Ordering::Acquire);
            active.get(&txn).is_some_and(|p| wrote_from(p) > spared.0)
        };
        let placed = self.place_for_flush(before, limit, is_spared);
        let written = self.pool().flush(&self.store, before, limit)?;
        Ok((placed, written))
    }

    /// As `flush_pages`, but versions that find no free page are no failure: it ends with the transactions that made them, and redo
    /// begins before the pages that wait for them until then. The error log is told of it.
    fn flush_what_may_be(&self, before: Lsn, limit: usize) -> Result<Flushed> {
        let (placed, pages) = self.place_and_flush(before, limit, Lsn::MAX)?;
        let waiting = match placed {
            Ok(()) => None,
            Err(error @ StorageError::FilegroupFull { .. }) => {
                reached!("flush.versions.without_pages");
                self.note_failure(Task::Checkpoint, &error);
                Some(error)
            }
            Err(other) => return Err(other),
        };
        Ok(Flushed { pages, waiting })
    }

    /// Transactions from here on keep their versions in memory during a checkpoint in a nearly full log: none do where pages
    /// to be written hold the log. Log held by a backup, a copy or a transaction is not freed by placing versions, it only
    /// grows.
    fn spared_in_full_log(&self) -> Lsn {
        match self.store.log.lowest_needed() >= self.store.files.boot().redo_start {
            true => Lsn::MAX,
            false => Lsn::NONE,
        }
    }

    /// Has the boot page say how far the log is on disk, once nothing was added to it for a while.
    pub(super) fn note_hardened(&self) -> Result<()> {
        let hardened = self.store.log.hardened();
        if !self.durable || hardened <= self.store.files.boot().hard {
            return Ok(());
        }
        let now = self.env().clock.monotonic();
        {
            let mut quiet = self.quiet.lock();
            if quiet.hardened != hardened {
                *quiet = QuietLog {
                    hardened,
                    since: now,
                };
            }
            if now.saturating_sub(quiet.since) < QUIET {
                return Ok(());
            }
        }
        reached!("log.quiet");
        self.store.write_boot(|_| {})
    }

    /// Writes what is dirty while nobody writes anything else. True when there is more.
    pub(super) fn use_quiet(&self) -> Result<bool> {
        if !self.durable {
            return Ok(false);
        }
        let end = self.store.log.end();
        let now = self.env().clock.monotonic();
        let checkpoint_end = {
            let mut last = self.checkpointing.lock();
            if last.seen.0 != end {
                last.seen = (end, now);
            }
            if last.rested == end || now.saturating_sub(last.seen.1) < QUIET {
                return Ok(false);
            }
            last.end
        };
        let written = self.flush_pages(Lsn(end.0 + 1), FLUSH_PAGES_PER_STEP)?;
        if written == FLUSH_PAGES_PER_STEP {
            return Ok(true);
        }
        let redo_bytes = end.0.saturating_sub(self.store.files.boot().redo_start.0);
        let is_behind = end > checkpoint_end && redo_bytes > CHECKPOINT_LOG_BYTES_MIN;
        if written > 0 || is_behind {
            // The next look, at the record behind which nothing follows, finds nothing to write.
            return self.checkpoint_record(Wanted::Room).map(|()| false);
        }
        self.checkpointing.lock().rested = end;
        Ok(false)
    }

    /// True when there is more to write before the checkpoint that is due.
    pub(super) fn checkpoint_if_due(&self) -> Result<bool> {
        let last = *self.checkpointing.lock();
        let end = self.store.log.end();
        let log_since = end.0.saturating_sub(last.end.0);
        let interval =
            Duration::from_secs(u64::from(self.settings().target_recovery_seconds.max(10)));
        let waited = self.env().clock.monotonic().saturating_sub(last.at);
        let tight = self.store.log.used_bytes() * 10 > self.store.log.size_bytes() * 7;
        let is_worth_it = log_since > CHECKPOINT_LOG_BYTES_MIN;
        if log_since < CHECKPOINT_LOG_BYTES && !(is_worth_it && (waited >= interval || tight)) {
            return Ok(false);
        }
        if tight && self.durable {
            let flushed = self.flush_spared(end, usize::MAX, self.spared_in_full_log());
            // Also when not all pages could be written: those that were may let some of the log go.
            self.checkpoint_record(Wanted::Room)?;
            return flushed.map(|_| false);
        } else if waited >= interval && self.durable {
            let aged = last.aged.unwrap_or(last.end);
            self.checkpointing.lock().aged = Some(aged);
            let flushed = self.flush_pages(aged, FLUSH_PAGES_PER_STEP);
            if matches!(flushed, Ok(FLUSH_PAGES_PER_STEP)) {
                return Ok(true);
            }
            // As above: where versions find no room, the others must not be repeated without end.
            self.checkpoint_record(Wanted::Room)?;
            return flushed.map(|_| false);
        }
        self.checkpoint_record(Wanted::Room)?;
        Ok(false)
    }
}
