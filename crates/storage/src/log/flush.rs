//! Making the log durable: commits that wait for the disk, and the leader's work for all of them.
//!
//! Theory: `group` decides which thread leads and which wait. The leader seals the open block, writes all sealed blocks and
//! syncs, usually with one system call. Nobody waits for company: while one group is synced the next one gathers, which
//! adapts to the load by itself (docs/decisions/2026-11-22-group-commit.md).
//!
//! Invariant: after a failed write or sync nothing is written any more, and every waiting thread gets the error.

use super::block::BLOCK_BYTES_MAX;
use super::group::{Cohort, Finished, Helps, Job, Turn};
use super::{AppendKind, CommitPoint, Log, Sealed};
use crate::api::Durability;
use crate::error::{Result, StorageError};
use crate::planted::{Bug, planted};
use crate::sync::yield_now;
use daruma_base::memory::for_all;
use daruma_base::{Lsn, WaitKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Blocks that are written with one call.
const RUN_BYTES_MAX: usize = 1 << 20;
const RUN_BLOCKS_MAX: usize = 4 * RUN_BYTES_MAX / BLOCK_BYTES_MAX;

/// How often the flusher lets others run before it writes for few.
const YIELDS_MAX: usize = 10;

/// How a turn in the group ended.
enum Served {
    /// The job was left to others.
    Left,
    /// The jobs of this cohort are due.
    Cohort(Option<Arc<Cohort>>),
}

/// Cost of flushing since the log was opened.
#[derive(Default)]
pub(super) struct FlushCounters {
    pub flushes: AtomicU64,
    pub bytes: AtomicU64,
    /// Time of writing and syncing.
    pub write_ns: AtomicU64,
    /// Commits that waited for the disk, and how long.
    pub commit_waits: AtomicU64,
    pub commit_wait_ns: AtomicU64,
}

impl Log {
    /// Stops all further logging. The first cause stays.
    pub fn fence(&self, cause: &str) {
        self.fence.is_up.store(true, Ordering::Release);
        self.group.fail(cause);
        self.quorum_moved();
    }

    /// The same when nothing has failed: kept plans may hold a database for long after it was closed.
    pub fn close(&self) {
        self.fence.is_closed.store(true, Ordering::Release);
        self.fence("the database is closed");
    }

    /// Why nothing is logged any more, if that is because of a failure.
    pub fn failure(&self) -> Option<String> {
        let is_closed = self.fence.is_closed.load(Ordering::Acquire);
        (self.is_fenced() && !is_closed).then(|| self.cause())
    }

    fn cause(&self) -> String {
        let cause = self.group.failure();
        cause.unwrap_or_else(|| "log failure".into())
    }

    #[cold]
    pub(super) fn fenced_error(&self) -> StorageError {
        match self.fence.is_closed.load(Ordering::Acquire) {
            true => StorageError::NotOnline { state: "closed" },
            false => StorageError::Fenced {
                cause: self.cause(),
            },
        }
    }

    /// Appends a commit record, `utc_100ns` being the time in it, and returns its position once it is hard, also where it has to
    /// be on other nodes; with
    /// `Durability::Delayed` at once, unless the bound on delayed commits is reached. `appended` runs before anything
    /// can be appended behind the record: a later checkpoint must not take the transaction for an active one.
    pub fn commit(
        &self,
        record: &[u8],
        utc_100ns: i64,
        durability: Durability,
        appended: impl FnOnce(Lsn),
    ) -> Result<Lsn> {
        self.check()?;
        let delayed = self.durable && durability == Durability::Delayed;
        let now_ns = match delayed {
            true => self.env.clock.monotonic().as_nanos() as u64,
            false => 0,
        };
        let lsn = {
            let state = self.state.lock();
            let (mut state, lsn) = self.append_to(state, record, AppendKind::Completion);
            let lsn = lsn?;
            state.last_commit = CommitPoint { lsn, utc_100ns };
            appended(lsn);
            self.show_commit(&mut state, lsn, durability);
            if delayed {
                state.delayed.add(now_ns);
                let oldest = &self.delayed.oldest_ns;
                // Only ever set under the latch, and cleared under it.
                if oldest.load(Ordering::Relaxed) == 0 {
                    oldest.store(now_ns.max(1), Ordering::Release);
                }
            }
            lsn
        };
        match durability {
            _ if !self.durable => {}
            Durability::Full => {
                let start = self.env.clock.monotonic();
                let result = self.wait_for_commit(lsn);
                self.count_commit_wait(start);
                result?;
            }
            Durability::Delayed => self.keep_bound(lsn, now_ns)?,
        }
        Ok(lsn)
    }

    /// Appends a commit record without waiting for it; otherwise as [`Log::commit`]. With `Durability::Full` somebody is going to.
    pub fn append_commit(
        &self,
        record: &[u8],
        utc_100ns: i64,
        durability: Durability,
        appended: impl FnOnce(Lsn),
    ) -> Result<Lsn> {
        self.check()?;
        let state = self.state.lock();
        let (mut state, lsn) = self.append_to(state, record, AppendKind::Completion);
        let lsn = lsn?;
        state.last_commit = CommitPoint { lsn, utc_100ns };
        appended(lsn);
        self.show_commit(&mut state, lsn, durability);
        Ok(lsn)
    }

    /// Runs `then` once the commit record at `lsn` is hard, or will never be: here before this returns, or later on another
    /// thread, which waits for a commit of its own or raises the quorum. `then` must not wait for anybody who commits.
    pub fn when_hard(&self, lsn: Lsn, then: impl FnOnce(Result<()>) + Send + 'static) {
        let run = Box::new(then);
        // The job gets the error.
        let _ = self.harden_and_help(lsn, Some(Job { lsn, run }));
    }

    /// Returns once the commit record at `lsn` is hard. The caller counts the wait.
    pub fn wait_for_commit(&self, lsn: Lsn) -> Result<()> {
        self.harden_and_help(lsn, None)?;
        self.await_quorum(lsn)
    }

    /// A commit of the calling thread has waited for the disk since `start` of the monotonic clock.
    pub fn count_commit_wait(&self, start: Duration) {
        let waited = self.env.clock.monotonic().saturating_sub(start);
        self.waits.record(WaitKind::WriteLog, waited);
        self.count_commit(waited);
    }

    /// The same for a commit that was ended for somebody else.
    pub fn count_commit_wait_of_another(&self, start: Duration) {
        let waited = self.env.clock.monotonic().saturating_sub(start);
        self.waits.record_of_another(WaitKind::WriteLog, waited);
        self.count_commit(waited);
    }

    fn count_commit(&self, waited: Duration) {
        let counters = &self.counters;
        counters.commit_waits.fetch_add(1, Ordering::Relaxed);
        let total = &counters.commit_wait_ns;
        total.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Returns once everything up to and including the record at `lsn` is hard here and on every commit participant.
    pub fn harden(&self, lsn: Lsn) -> Result<()> {
        if self.quorum() > lsn {
            return Ok(());
        }
        self.harden_here(lsn)?;
        self.await_quorum(lsn)
    }

    /// Returns once everything up to and including the record at `lsn` is on disk here.
    pub fn harden_here(&self, lsn: Lsn) -> Result<()> {
        if self.hardened() > lsn {
            return Ok(());
        }
        let start = self.env.clock.monotonic();
        let result = self.harden_slow(lsn);
        let waited = self.env.clock.monotonic().saturating_sub(start);
        self.waits.record(WaitKind::WriteLog, waited);
        result
    }

    /// For those who may hold latches: they run no jobs of others.
    pub(super) fn harden_slow(&self, lsn: Lsn) -> Result<()> {
        while self.hardened() <= lsn {
            self.take_turn(lsn, Helps::No, &mut None)?;
        }
        Ok(())
    }

    /// For those who hold nothing that the end of another transaction could need: they run the jobs of others.
    pub(super) fn harden_and_help(&self, lsn: Lsn, mut job: Option<Job>) -> Result<()> {
        let mut result = Ok(());
        while result.is_ok() && self.hardened() <= lsn {
            match self.take_turn(lsn, Helps::Yes, &mut job) {
                Ok(Served::Left) => return Ok(()),
                Ok(Served::Cohort(cohort)) => {
                    // The own one first: its client has waited as long as the others'.
                    let is_hard = self.hardened() > lsn;
                    let own = job.take_if(|_| is_hard);
                    own.into_iter().for_each(|job| self.run_job(job));
                    self.run_jobs(cohort.as_deref());
                }
                Err(error) => result = Err(error),
            }
        }
        job.into_iter().for_each(|job| self.run_job(job));
        result
    }

    /// One turn in the group: waits, or writes for all.
    fn take_turn(&self, lsn: Lsn, helps: Helps, job: &mut Option<Job>) -> Result<Served> {
        match self.group.join(lsn, helps, job, || self.hardened() > lsn) {
            Turn::Over(cohort) => Ok(Served::Cohort(cohort)),
            Turn::Left => Ok(Served::Left),
            Turn::Failed(cause) => Err(StorageError::Fenced { cause }),
            Turn::Lead => {
                let Finished { flight, heirs } = self.write_and_finish();
                if let Some(heirs) = heirs {
                    let is_taken = self
                        .me
                        .upgrade()
                        .is_some_and(|me| self.flusher.take_over(me));
                    if !is_taken {
                        heirs.offer_lead();
                    }
                }
                Ok(Served::Cohort(flight))
            }
        }
    }

    /// Leads on, as somebody who has no commit of its own, until nobody waits.
    pub(super) fn lead_while_awaited(&self) {
        while self.write_and_finish().heirs.is_some() {
            // On a busy machine more would soon have come; on an idle one yielding takes no time, and nobody waits longer.
            let mut yields = 0;
            while yields < YIELDS_MAX && self.group.is_thin() {
                yield_now();
                yields += 1;
            }
        }
    }

    fn write_and_finish(&self) -> Finished {
        let failure = self.write_sealed().err();
        let has_failed = failure.is_some();
        if has_failed {
            self.fence.is_up.store(true, Ordering::Release);
        }
        let finished = self.group.finish(failure.map(|error| error.to_string()));
        if has_failed {
            self.quorum_moved();
        }
        finished
    }

    fn run_jobs(&self, cohort: Option<&Cohort>) {
        while let Some(job) = cohort.and_then(Cohort::job) {
            self.run_job(job);
        }
    }

    /// Tells a job what has become of its record.
    pub(super) fn end_job(&self, job: Job) {
        let is_hard = self.is_hard(job.lsn) || planted(Bug::AckBeforeQuorum);
        let result = match is_hard {
            true => Ok(()),
            false => Err(self.fenced_error()),
        };
        // A job that panics must not end the thread of the transaction that runs it.
        let run = AssertUnwindSafe(|| (job.run)(result));
        let _ = catch_unwind(run);
    }

    /// Leader's work: seal the open block, write all sealed blocks in order, sync.
    fn write_sealed(&self) -> Result<()> {
        let (file, headers, blocks, end) = {
            let mut state = self.state.lock();
            for_all(|| state.seal(self.hardened().0));
            let headers = std::mem::take(&mut state.headers);
            let blocks: Vec<Sealed> = state.sealed.iter().cloned().collect();
            self.group.seal(Lsn(state.next_block));
            (state.file.handle(), headers, blocks, state.next_block)
        };
        let start = self.env.clock.monotonic();
        let alone = file.alone();
        for (offset, bytes) in &headers {
            file.write(bytes, *offset)?;
        }
        let mut runs = contiguous(&blocks).peekable();
        let mut is_synced = !self.durable || planted(Bug::SkipSync);
        let mut first = true;
        while let Some(run) = runs.next() {
            let parts: Vec<&[u8]> = run.iter().map(|b| b.bytes.as_slice()).collect();
            let offset = run.first().map_or(0, |b| b.offset);
            let is_all = first && runs.peek().is_none() && headers.is_empty();
            match is_all && !is_synced {
                // The usual case: one call that writes and syncs.
                true => {
                    file.write_synced(&parts, offset)?;
                    is_synced = true;
                }
                false => file.write_parts(&parts, offset)?,
            }
            first = false;
        }
        if !is_synced {
            file.sync()?;
        }
        drop(alone);
        let took = self.env.clock.monotonic().saturating_sub(start);
        self.count_flush(&blocks, took.as_nanos() as u64);
        let mut state = self.state.lock();
        let end = match planted(Bug::HardenAppended) {
            true => state.end(),
            false => end,
        };
        let count = blocks.len();
        drop(runs);
        drop(blocks);
        // Of blocks that others have filled.
        for_all(|| state.retire(count));
        // A thread that finds its commit hard may look for it at once.
        self.show_hard(&mut state, self.quorum_with(Lsn(end)));
        self.hardened.store(end, Ordering::Release);
        let oldest = state.oldest_delayed_ns();
        self.delayed.oldest_ns.store(oldest, Ordering::Release);
        drop(state);
        // Nobody in the second stage waits for this: those there are hard here.
        self.feeds.ring();
        Ok(())
    }

    fn count_flush(&self, blocks: &[Sealed], took_ns: u64) {
        let bytes = blocks.iter().map(|b| b.bytes.len() as u64).sum();
        let counters = &self.counters;
        counters.flushes.fetch_add(1, Ordering::Relaxed);
        counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        counters.write_ns.fetch_add(took_ns, Ordering::Relaxed);
        let average = self.sync_ns_average.load(Ordering::Relaxed);
        self.sync_ns_average
            .store(average - average / 8 + took_ns / 8, Ordering::Relaxed);
    }
}

/// Splits blocks into runs that are adjacent in the file.
fn contiguous(blocks: &[Sealed]) -> impl Iterator<Item = &[Sealed]> {
    let mut rest = blocks;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let (mut count, mut bytes) = (1, first.bytes.len());
        while let Some(next) = rest.get(count)
            && next.offset == first.offset + bytes as u64
            && bytes < RUN_BYTES_MAX
            && count < RUN_BLOCKS_MAX
        {
            bytes += next.bytes.len();
            count += 1;
        }
        let (run, tail) = rest.split_at(count);
        rest = tail;
        Some(run)
    })
}
