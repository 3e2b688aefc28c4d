//! Keepers of row versions, and what cleaning has done about it.
//!
//! Theory: a version lives until nobody can ask for it. An active transaction keeps those it made itself, for its
//! rollback; a snapshot keeps those of every transaction that committed after it was taken; an aborted transaction
//! keeps its own until it is reverted. There is nothing else: who looks for the reason why a version store grows finds
//! it among these.
//!
//! Tests: tests/version_pressure.rs

use crate::database::Database;
use crate::page::PAGE_BYTES;
use daruma_base::TxnId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};

/// Kind of a keeper of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinKind {
    ActiveTransaction,
    /// All transactions that committed after the snapshot.
    Snapshot,
    AbortedTransaction,
}

/// One reason why versions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionPin {
    pub kind: PinKind,
    /// `TxnId::NONE` for a snapshot.
    pub txn: TxnId,
    /// Owner of the transaction or snapshot; 0 when it is gone or there are several.
    pub owner: u64,
    /// Owners that share the snapshot; 1 for transactions.
    pub owners: u64,
    /// When the transaction first wrote; 0 for snapshots and for what a restart found.
    pub begun_utc_100ns: i64,
    /// Place of the snapshot in the order of commits.
    pub timestamp: u64,
    /// Versions kept: bytes in memory, and pages. Those that several snapshots keep count for the oldest.
    pub memory_bytes: u64,
    pub pages: u64,
}

impl VersionPin {
    /// Bytes of versions kept, in memory and on pages.
    pub fn bytes(&self) -> u64 {
        self.memory_bytes + self.pages * PAGE_BYTES as u64
    }
}

/// When cleaning last began and ended, 0 for never. An end before the beginning: it is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepTimes {
    pub begun_utc_100ns: i64,
    pub ended_utc_100ns: i64,
}

/// When the last cleaning began and ended.
#[derive(Default)]
pub struct Sweep {
    begun: AtomicI64,
    ended: AtomicI64,
}

impl Sweep {
    /// Notes whether there is work at this moment.
    pub fn note(&self, is_work: bool, now: i64) {
        let times = self.times();
        let is_running = times.begun_utc_100ns != 0 && times.ended_utc_100ns == 0;
        if is_work && !is_running {
            self.begun.store(now, Ordering::Relaxed);
            self.ended.store(0, Ordering::Relaxed);
        } else if !is_work && is_running {
            self.ended.store(now, Ordering::Relaxed);
        }
    }

    /// Both times; 0 for never.
    pub fn times(&self) -> SweepTimes {
        SweepTimes {
            begun_utc_100ns: self.begun.load(Ordering::Relaxed),
            ended_utc_100ns: self.ended.load(Ordering::Relaxed),
        }
    }
}

/// The two parts of cleaning.
#[derive(Default)]
pub struct Sweeps {
    /// Freeing the pages of versions.
    pub pages: Sweep,
    /// Reverting aborted transactions.
    pub aborted: Sweep,
}

impl Database {
    /// Keepers of versions, those that keep most first.
    pub fn version_pins(&self) -> Vec<VersionPin> {
        let mut sizes: HashMap<TxnId, (u64, u64)> = HashMap::new();
        for chunk in self.versions().all_chunks() {
            let content = chunk.content.read();
            let size = sizes.entry(chunk.txn).or_default();
            size.0 += content.bytes.len() as u64;
            size.1 += content.pages.len() as u64;
        }
        let mut pins = self.transaction_pins();
        for pin in &mut pins {
            (pin.memory_bytes, pin.pages) = sizes.remove(&pin.txn).unwrap_or_default();
        }
        // The rest is of committed transactions: it waits for the oldest snapshot.
        let left = sizes
            .values()
            .fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
        let snapshots = self.txns().snapshot_users();
        for (index, (timestamp, owners, owner)) in snapshots.into_iter().enumerate() {
            let (memory_bytes, pages) = if index == 0 { left } else { (0, 0) };
            pins.push(VersionPin {
                kind: PinKind::Snapshot,
                txn: TxnId::NONE,
                owner,
                owners,
                begun_utc_100ns: 0,
                timestamp,
                memory_bytes,
                pages,
            });
        }
        // A stable sort: the oldest comes first among equals.
        pins.sort_by_key(|pin| std::cmp::Reverse(pin.bytes()));
        pins
    }

    fn transaction_pins(&self) -> Vec<VersionPin> {
        let pin = |kind, progress: &crate::txn::Progress| VersionPin {
            kind,
            txn: progress.id,
            owner: progress.owner,
            owners: 1,
            begun_utc_100ns: progress.begun_utc_100ns,
            timestamp: 0,
            memory_bytes: 0,
            pages: 0,
        };
        let mut pins: Vec<VersionPin> = self
            .active_progress()
            .iter()
            .map(|p| pin(PinKind::ActiveTransaction, p))
            .collect();
        let aborted = self.aborted().map.lock();
        pins.extend(
            aborted
                .values()
                .map(|a| pin(PinKind::AbortedTransaction, &a.progress)),
        );
        drop(aborted);
        pins.sort_by_key(|pin| pin.txn);
        pins
    }

    /// When pages of versions were last freed, and aborted transactions last reverted.
    pub fn sweep_times(&self) -> (SweepTimes, SweepTimes) {
        let sweeps = &self.aborted().sweeps;
        (sweeps.pages.times(), sweeps.aborted.times())
    }

    /// Notes what there is to clean: called before and after cleaning.
    pub(crate) fn note_sweeps(&self) {
        let now = self.env().clock.utc_100ns();
        let is_dropped = !self.versions().dropped.lock().is_empty();
        let is_aborted = !self.aborted().map.lock().is_empty();
        let sweeps = &self.aborted().sweeps;
        sweeps.pages.note(is_dropped, now);
        sweeps.aborted.note(is_aborted, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_begins_with_work_and_ends_without() {
        let sweep = Sweep::default();
        let times = |begun_utc_100ns, ended_utc_100ns| SweepTimes {
            begun_utc_100ns,
            ended_utc_100ns,
        };
        sweep.note(false, 5);
        assert_eq!(sweep.times(), times(0, 0));
        sweep.note(true, 10);
        sweep.note(true, 20);
        assert_eq!(sweep.times(), times(10, 0));
        sweep.note(false, 30);
        sweep.note(false, 40);
        assert_eq!(sweep.times(), times(10, 30));
        sweep.note(true, 50);
        assert_eq!(sweep.times(), times(50, 0));
    }
}
