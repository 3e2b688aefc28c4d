//! What it takes to undo the running statement of an accelerated transaction: its log records, kept in memory.
//!
//! Theory: an accelerated transaction keeps no log, so what a failed statement wrote cannot be read from there. While a
//! savepoint is held, every record is copied here as it is appended. A statement that writes more than is kept goes on
//! under an id of its own (`txn`), which is rolled back by a mark. So neither the log that is held (none), nor the memory,
//! nor the time to take a statement back grows with the statement.
//!
//! Only when a transaction has used up its ids does a savepoint hold the log instead.
//!
//! Invariant: all records of an id behind a savepoint that is held are here, or in the log that the savepoint holds.

use crate::txn::Progress;
use daruma_base::Lsn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory for one statement: a share of the buffer pool, within these bounds.
const BYTES_MIN: u64 = 64 << 10;
const BYTES_MAX: u64 = 16 << 20;
/// Shares of the buffer pool for one statement, and for all together; beyond that each has the minimum.
const POOL_SHARE_ONE: u64 = 64;
const POOL_SHARE_ALL: u64 = 8;
/// Memory that is not given back between statements.
const CAPACITY_KEPT: usize = 16 << 10;

/// Records of one id since the oldest savepoint that is held.
#[derive(Default)]
pub struct Kept {
    savepoints: usize,
    /// Position of each record, and where it begins in `bytes`.
    records: Vec<(Lsn, usize)>,
    bytes: Vec<u8>,
    /// Of all transactions of the database together.
    total: Arc<AtomicU64>,
}

impl Kept {
    pub fn new(total: &Arc<AtomicU64>) -> Kept {
        Kept {
            savepoints: 0,
            records: Vec::new(),
            bytes: Vec::new(),
            total: total.clone(),
        }
    }

    pub fn is_needed(&self) -> bool {
        self.savepoints > 0
    }

    pub fn note(&mut self, lsn: Lsn, record: &[u8]) {
        if self.is_needed() {
            self.records.push((lsn, self.bytes.len()));
            self.bytes.extend_from_slice(record);
            self.total.fetch_add(record.len() as u64, Ordering::Relaxed);
        }
    }

    pub fn find(&self, lsn: Lsn) -> Option<Vec<u8>> {
        let index = self.records.binary_search_by_key(&lsn, |r| r.0).ok()?;
        let (_, from) = *self.records.get(index)?;
        let to = self
            .records
            .get(index + 1)
            .map_or(self.bytes.len(), |r| r.1);
        self.bytes.get(from..to).map(<[u8]>::to_vec)
    }

    /// Has the statement written all that is kept in memory for it?
    pub fn is_full(&self, pool_bytes: u64) -> bool {
        let is_crowded = self.total.load(Ordering::Relaxed) > pool_bytes / POOL_SHARE_ALL;
        let max = match is_crowded {
            true => BYTES_MIN,
            false => (pool_bytes / POOL_SHARE_ONE).clamp(BYTES_MIN, BYTES_MAX),
        };
        self.is_needed() && self.bytes.len() as u64 > max
    }

    fn clear(&mut self) {
        self.total
            .fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
        self.records.clear();
        self.bytes.clear();
        self.records.shrink_to(CAPACITY_KEPT / 16);
        self.bytes.shrink_to(CAPACITY_KEPT);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Keeps what undo to a savepoint needs.
pub struct SavepointHold {
    progress: Arc<Progress>,
    in_log: Option<Lsn>,
}

impl SavepointHold {
    pub fn in_memory(progress: &Arc<Progress>) -> SavepointHold {
        progress.kept.lock().savepoints += 1;
        SavepointHold {
            progress: progress.clone(),
            in_log: None,
        }
    }

    /// Keeps the log from a position on.
    pub fn in_log(progress: &Arc<Progress>, at: Lsn) -> SavepointHold {
        progress.holds.lock().push(at);
        SavepointHold {
            progress: progress.clone(),
            in_log: Some(at),
        }
    }
}

impl Drop for SavepointHold {
    fn drop(&mut self) {
        let Some(at) = self.in_log else {
            let mut kept = self.progress.kept.lock();
            kept.savepoints -= 1;
            if !kept.is_needed() {
                kept.clear();
            }
            return;
        };
        let mut holds = self.progress.holds.lock();
        if let Some(index) = holds.iter().position(|l| *l == at) {
            holds.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_base::TxnId;

    #[test]
    fn records_are_kept_from_the_first_savepoint_to_the_end_of_the_last() {
        let total = Arc::new(AtomicU64::new(0));
        let progress = Progress {
            kept: parking_lot::Mutex::new(Kept::new(&total)),
            ..Progress::new(TxnId(1), Lsn(1), true)
        };
        let progress = Arc::new(progress);
        let note = |lsn, bytes: &[u8]| progress.kept.lock().note(Lsn(lsn), bytes);
        let find = |lsn| progress.kept.lock().find(Lsn(lsn));
        note(1, b"before");
        let outer = SavepointHold::in_memory(&progress);
        note(5, b"one");
        let inner = SavepointHold::in_memory(&progress);
        note(9, b"second");
        drop(inner);
        assert_eq!(find(1), None);
        assert_eq!(find(5).as_deref(), Some(&b"one"[..]));
        assert_eq!(find(9).as_deref(), Some(&b"second"[..]));
        assert_eq!(total.load(Ordering::Relaxed), 9);
        drop(outer);
        assert_eq!((find(5), total.load(Ordering::Relaxed)), (None, 0));
    }

    #[test]
    fn a_crowd_has_less_memory_each() {
        let total = Arc::new(AtomicU64::new(0));
        let mut kept = Kept::new(&total);
        kept.savepoints = 1;
        kept.note(Lsn(1), &vec![0; 100_000]);
        let pool_bytes = 256 << 20;
        assert!(!kept.is_full(pool_bytes));
        total.fetch_add(pool_bytes, Ordering::Relaxed);
        assert!(kept.is_full(pool_bytes));
        total.fetch_sub(pool_bytes, Ordering::Relaxed);
    }
}
