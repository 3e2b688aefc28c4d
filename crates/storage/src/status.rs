//! States of transactions and snapshots of them.
//!
//! Theory: ids are given at the first write and only grow. Below the watermark (`base`) every transaction is resolved
//! and visible to everyone, so most rows are judged by one comparison. Above it a small array holds each state:
//! active, aborted, or the commit timestamp. A snapshot is a timestamp; it holds the watermark down.
//!
//! Invariant: `base` never passes an active transaction, nor one that committed after the oldest snapshot was taken.

use daruma_base::TxnId;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CHUNK: u64 = 1024;
const ACTIVE: u64 = 0;
const ABORTED: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnStatus {
    Active,
    /// Commit timestamp; 0 for those below the watermark.
    Committed(u64),
    /// Rolled back completely: no entry carries its id any more.
    Aborted,
}

struct Chunks {
    /// Number of the first chunk (id / CHUNK).
    first: u64,
    chunks: VecDeque<Arc<Vec<AtomicU64>>>,
}

pub struct TxnTable {
    next: AtomicU64,
    base: AtomicU64,
    chunks: RwLock<Chunks>,
    commit: Mutex<()>,
    last_commit: AtomicU64,
    /// Timestamps in use, with the number of their users.
    snapshots: Mutex<BTreeMap<u64, usize>>,
}

/// A point in commit order. Registered until dropped through [`TxnTable::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub timestamp: u64,
    /// Everything below is visible without looking further.
    pub horizon: TxnId,
}

impl TxnTable {
    /// All ids below `next` are resolved.
    pub fn new(next: u64) -> TxnTable {
        let next = next.max(1);
        TxnTable {
            next: AtomicU64::new(next),
            base: AtomicU64::new(next),
            chunks: RwLock::new(Chunks {
                first: next / CHUNK,
                chunks: VecDeque::new(),
            }),
            commit: Mutex::new(()),
            last_commit: AtomicU64::new(1),
            snapshots: Mutex::default(),
        }
    }

    pub fn next_id(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    pub fn base(&self) -> TxnId {
        TxnId(self.base.load(Ordering::Acquire))
    }

    /// Gives out the next id, in state active.
    pub fn start(&self) -> TxnId {
        let mut chunks = self.chunks.write();
        let id = self.next.fetch_add(1, Ordering::AcqRel);
        while chunks.first + chunks.chunks.len() as u64 <= id / CHUNK {
            chunks.chunks.push_back(Arc::new(
                (0..CHUNK).map(|_| AtomicU64::new(ACTIVE)).collect(),
            ));
        }
        assert!(id < TxnId::MAX.0, "transaction ids are used up");
        TxnId(id)
    }

    fn with_slot<R>(&self, id: TxnId, f: impl FnOnce(&AtomicU64) -> R) -> Option<R> {
        let chunks = self.chunks.read();
        let chunk = chunks
            .chunks
            .get((id.0 / CHUNK).checked_sub(chunks.first)? as usize)?;
        Some(f(&chunk[(id.0 % CHUNK) as usize]))
    }

    pub fn status(&self, id: TxnId) -> TxnStatus {
        if id < self.base() {
            return TxnStatus::Committed(0);
        }
        match self.with_slot(id, |s| s.load(Ordering::Acquire)) {
            Some(ACTIVE) => TxnStatus::Active,
            Some(ABORTED) => TxnStatus::Aborted,
            Some(timestamp) => TxnStatus::Committed(timestamp),
            // The chunk went away between the two looks: the watermark has passed.
            None if id < self.base() => TxnStatus::Committed(0),
            None => TxnStatus::Active,
        }
    }

    /// Makes the transaction visible to snapshots taken from now on.
    pub fn commit(&self, id: TxnId) {
        let _order = self.commit.lock();
        let timestamp = self.last_commit.load(Ordering::Relaxed) + 1;
        self.with_slot(id, |s| s.store(timestamp, Ordering::Release));
        self.last_commit.store(timestamp, Ordering::Release);
    }

    /// The transaction has been rolled back completely.
    pub fn abort(&self, id: TxnId) {
        self.with_slot(id, |s| s.store(ABORTED, Ordering::Release));
    }

    pub fn snapshot(&self) -> Snapshot {
        let mut snapshots = self.snapshots.lock();
        let timestamp = self.last_commit.load(Ordering::Acquire);
        let horizon = self.base();
        *snapshots.entry(timestamp).or_insert(0) += 1;
        Snapshot { timestamp, horizon }
    }

    pub fn release(&self, snapshot: Snapshot) {
        let mut snapshots = self.snapshots.lock();
        if let Some(users) = snapshots.get_mut(&snapshot.timestamp) {
            *users -= 1;
            if *users == 0 {
                snapshots.remove(&snapshot.timestamp);
            }
        }
    }

    /// Oldest timestamp that a reader may still use.
    fn oldest(&self) -> u64 {
        let snapshots = self.snapshots.lock();
        snapshots
            .keys()
            .next()
            .copied()
            .unwrap_or_else(|| self.last_commit.load(Ordering::Acquire))
    }

    /// Moves the watermark up as far as it can go; the new watermark.
    pub fn advance(&self) -> TxnId {
        let oldest = self.oldest();
        let mut chunks = self.chunks.write();
        let mut base = self.base.load(Ordering::Acquire);
        let next = self.next.load(Ordering::Acquire);
        while base < next {
            let Some(chunk) = chunks.chunks.get((base / CHUNK - chunks.first) as usize) else {
                break;
            };
            match chunk[(base % CHUNK) as usize].load(Ordering::Acquire) {
                ACTIVE => break,
                ABORTED => {}
                timestamp if timestamp > oldest => break,
                _ => {}
            }
            base += 1;
        }
        self.base.store(base, Ordering::Release);
        while chunks.first < base / CHUNK && !chunks.chunks.is_empty() {
            chunks.chunks.pop_front();
            chunks.first += 1;
        }
        TxnId(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watermark_waits_for_snapshots_and_active_transactions() {
        let table = TxnTable::new(10);
        let (a, b, c) = (table.start(), table.start(), table.start());
        table.commit(b);
        assert_eq!(table.advance(), a, "a is active");
        let snapshot = table.snapshot();
        table.commit(a);
        assert_eq!(table.advance(), a, "a committed after the snapshot");
        assert!(matches!(table.status(a), TxnStatus::Committed(t) if t > snapshot.timestamp));
        assert!(matches!(table.status(b), TxnStatus::Committed(t) if t <= snapshot.timestamp));
        table.release(snapshot);
        assert_eq!(table.advance(), c);
        assert_eq!(table.status(a), TxnStatus::Committed(0));
        table.abort(c);
        assert_eq!(table.advance(), TxnId(c.0 + 1));
    }

    #[test]
    fn chunks_are_dropped_behind_the_watermark() {
        let table = TxnTable::new(1);
        for _ in 0..10 * CHUNK {
            let id = table.start();
            table.commit(id);
            table.advance();
        }
        assert!(table.chunks.read().chunks.len() <= 2);
    }
}
