//! Making the log durable: commits that wait for the disk, and the leader's work for all of them.
//!
//! Theory: who leads and who waits is `group`'s business. The leader seals the open block, writes all sealed blocks and
//! syncs, usually with one system call. Nobody waits for company: while one group is synced the next one gathers, which
//! adapts to the load by itself (docs/decisions/2026-11-22-group-commit.md).
//!
//! Invariant: after a failed write or sync nothing is written any more, and whoever waits gets the error.

use super::block::BLOCK_BYTES_MAX;
use super::group::Turn;
use super::{AppendKind, CommitPoint, Log, LogState, Sealed};
use crate::api::Durability;
use crate::error::{Result, StorageError};
use crate::planted::{Bug, planted};
use daruma_base::{Lsn, WaitKind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks that are written with one call.
const RUN_BYTES_MAX: usize = 1 << 20;
const RUN_BLOCKS_MAX: usize = 4 * RUN_BYTES_MAX / BLOCK_BYTES_MAX;

/// What flushing has cost since the log was opened.
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
        self.fenced.store(true, Ordering::Release);
        self.group.fail(cause);
    }

    pub(super) fn fenced_error(&self) -> StorageError {
        let cause = self.group.failure();
        let cause = cause.unwrap_or_else(|| "log failure".into());
        StorageError::Fenced { cause }
    }

    /// Appends a commit record, `utc_100ns` being the time in it, and returns its position once it is on disk; with
    /// `Durability::Delayed` at once, unless the bound on delayed commits is reached. `appended` runs before anything
    /// can be appended behind the record: a later checkpoint must not take the transaction for an active one.
    pub fn commit(
        &self,
        record: &[u8],
        utc_100ns: i64,
        durability: Durability,
        appended: impl FnOnce(Lsn),
    ) -> Result<Lsn> {
        if self.is_fenced() {
            return Err(self.fenced_error());
        }
        let delayed = self.durable && durability == Durability::Delayed;
        let now_ns = match delayed {
            true => self.env.clock.monotonic().as_nanos() as u64,
            false => 0,
        };
        let lsn = {
            let mut state = self.state.lock();
            let lsn = Lsn(state.append(record, AppendKind::Completion, self.hardened().0)?);
            state.last_commit = CommitPoint { lsn, utc_100ns };
            appended(lsn);
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
                let waited_ns = self.harden_timed(lsn)?;
                let counters = &self.counters;
                counters.commit_waits.fetch_add(1, Ordering::Relaxed);
                let total = &counters.commit_wait_ns;
                total.fetch_add(waited_ns, Ordering::Relaxed);
            }
            Durability::Delayed => self.keep_bound(lsn, now_ns)?,
        }
        Ok(lsn)
    }

    /// Appends a commit record that nobody waits for; otherwise as [`Log::commit`].
    pub fn append_commit(
        &self,
        record: &[u8],
        utc_100ns: i64,
        appended: impl FnOnce(Lsn),
    ) -> Result<Lsn> {
        if self.is_fenced() {
            return Err(self.fenced_error());
        }
        let mut state = self.state.lock();
        let lsn = Lsn(state.append(record, AppendKind::Completion, self.hardened().0)?);
        state.last_commit = CommitPoint { lsn, utc_100ns };
        appended(lsn);
        Ok(lsn)
    }

    /// Returns once everything up to and including the record at `lsn` is on disk.
    pub fn harden(&self, lsn: Lsn) -> Result<()> {
        self.harden_timed(lsn).map(|_| ())
    }

    fn harden_timed(&self, lsn: Lsn) -> Result<u64> {
        if self.hardened() > lsn {
            return Ok(0);
        }
        let start = self.env.clock.monotonic();
        let result = self.harden_slow(lsn);
        let waited = self.env.clock.monotonic().saturating_sub(start);
        self.waits.record(WaitKind::WriteLog, waited);
        result.map(|()| u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Hardens everything appended so far.
    pub fn harden_all(&self) -> Result<()> {
        let end = self.end();
        if self.hardened() >= end {
            Ok(())
        } else {
            self.harden_slow(Lsn(end.0 - 1))
        }
    }

    pub(super) fn harden_slow(&self, lsn: Lsn) -> Result<()> {
        while self.hardened() <= lsn {
            match self.group.join(lsn, || self.hardened() > lsn) {
                Turn::Over => {}
                Turn::Failed(cause) => return Err(StorageError::Fenced { cause }),
                Turn::Lead => {
                    let failure = self.write_sealed().err();
                    if failure.is_some() {
                        self.fenced.store(true, Ordering::Release);
                    }
                    let failure = failure.map(|error| error.to_string());
                    self.group.finish(failure);
                }
            }
        }
        Ok(())
    }

    /// Leader's work: seal the open block, write all sealed blocks in order, sync.
    fn write_sealed(&self) -> Result<()> {
        let (file, headers, blocks, end) = {
            let mut state = self.state.lock();
            state.seal(self.hardened().0);
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
        state.retire(blocks.len());
        self.hardened.store(end, Ordering::Release);
        let oldest = state.oldest_delayed_ns();
        self.delayed.oldest_ns.store(oldest, Ordering::Release);
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

impl LogState {
    /// Moves the first `count` sealed blocks, now hard, to the recent ones.
    fn retire(&mut self, count: usize) {
        for _ in 0..count {
            let Some(block) = self.sealed.pop_front() else {
                return;
            };
            self.sealed_bytes -= block.bytes.len();
            self.recent_bytes += block.bytes.capacity();
            self.recent.push_back(block);
        }
        while self.recent_bytes > super::RECENT_BYTES_MAX {
            let Some(block) = self.recent.pop_front() else {
                return;
            };
            self.recent_bytes -= block.bytes.capacity();
            self.spare.give(block.bytes);
        }
    }
}
