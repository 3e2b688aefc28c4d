//! Undo of the running statement of an accelerated transaction: its log records, kept in memory.
//!
//! Theory: an accelerated transaction keeps no log, so what a failed statement wrote cannot be read from there. While a
//! savepoint is held, every record is copied here as it is appended. A statement that writes more than is kept goes on
//! under an id of its own (`txn`), which is rolled back by a mark. So neither the log that is held (none), nor the memory,
//! nor the time to take a statement back grows with the statement.
//!
//! Only when a transaction has used up its ids does a savepoint hold the log instead.
//!
//! Invariant: all records of an id behind a savepoint that is held are here, or in the log that the savepoint holds.

use crate::sync::Mutex;
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
/// Memory that a transaction does not give back between statements.
const CAPACITY_KEPT: usize = 16 << 10;
/// Memory that waits for the next large statement, so that its pages need not be had from the system and zeroed again.
const SPARE_BYTES_MAX: usize = 2 * BYTES_MAX as usize;

/// The memory for running statements of a database.
#[derive(Default)]
pub struct KeptMemory {
    /// Records kept, of all transactions together.
    bytes: AtomicU64,
    spare: Mutex<Vec<Vec<u8>>>,
}

impl KeptMemory {
    /// A buffer for `bytes` or more that a statement before has used.
    fn take(&self, bytes: usize) -> Option<Vec<u8>> {
        let mut spare = self.spare.lock();
        let at = spare.iter().position(|b| b.capacity() >= bytes)?;
        Some(spare.swap_remove(at))
    }

    fn give(&self, mut buffer: Vec<u8>) {
        let mut spare = self.spare.lock();
        let waiting: usize = spare.iter().map(Vec::capacity).sum();
        if waiting + buffer.capacity() <= SPARE_BYTES_MAX {
            buffer.clear();
            spare.push(buffer);
        }
    }
}

/// Records of one id since the oldest savepoint that is held.
#[derive(Default)]
pub struct Kept {
    savepoints: usize,
    /// Position of each record, and where it begins in `bytes`.
    records: Vec<(Lsn, usize)>,
    bytes: Vec<u8>,
    memory: Arc<KeptMemory>,
}

impl Kept {
    /// Keeps nothing until a savepoint needs it.
    pub fn new(memory: &Arc<KeptMemory>) -> Kept {
        Kept {
            savepoints: 0,
            records: Vec::new(),
            bytes: Vec::new(),
            memory: memory.clone(),
        }
    }

    /// Does a savepoint need the records?
    pub fn is_needed(&self) -> bool {
        self.savepoints > 0
    }

    /// Keeps a record, if a savepoint needs it.
    pub fn note(&mut self, lsn: Lsn, record: &[u8]) {
        if self.is_needed() {
            self.make_room(record.len());
            self.records.push((lsn, self.bytes.len()));
            self.bytes.extend_from_slice(record);
            let total = &self.memory.bytes;
            total.fetch_add(record.len() as u64, Ordering::Relaxed);
        }
    }

    fn make_room(&mut self, more: usize) {
        let wanted = self.bytes.len() + more;
        if wanted > self.bytes.capacity().max(CAPACITY_KEPT)
            && let Some(mut larger) = self.memory.take(wanted)
        {
            larger.extend_from_slice(&self.bytes);
            self.bytes = larger;
        }
    }

    /// The record at this position, if it was kept.
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
        let total = self.memory.bytes.load(Ordering::Relaxed);
        let is_crowded = total > pool_bytes / POOL_SHARE_ALL;
        let max = match is_crowded {
            true => BYTES_MIN,
            false => (pool_bytes / POOL_SHARE_ONE).clamp(BYTES_MIN, BYTES_MAX),
        };
        self.is_needed() && self.bytes.len() as u64 > max
    }

    fn clear(&mut self) {
        let total = &self.memory.bytes;
        total.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
        self.records.clear();
        self.records.shrink_to(CAPACITY_KEPT / 16);
        match self.bytes.capacity() > CAPACITY_KEPT {
            true => self.memory.give(std::mem::take(&mut self.bytes)),
            false => self.bytes.clear(),
        }
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
    /// A savepoint whose records are kept in memory.
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
        let memory = Arc::new(KeptMemory::default());
        let total = || memory.bytes.load(Ordering::Relaxed);
        let progress = Progress {
            kept: Mutex::new(Kept::new(&memory)),
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
        assert_eq!(total(), 9);
        drop(outer);
        assert_eq!((find(5), total()), (None, 0));
    }

    #[test]
    fn a_crowd_has_less_memory_each() {
        let memory = Arc::new(KeptMemory::default());
        let mut kept = Kept::new(&memory);
        kept.savepoints = 1;
        kept.note(Lsn(1), &vec![0; 100_000]);
        let pool_bytes = 256 << 20;
        assert!(!kept.is_full(pool_bytes));
        memory.bytes.fetch_add(pool_bytes, Ordering::Relaxed);
        assert!(kept.is_full(pool_bytes));
        memory.bytes.fetch_sub(pool_bytes, Ordering::Relaxed);
    }

    #[test]
    fn a_large_statement_uses_the_memory_of_the_one_before() {
        let memory = Arc::new(KeptMemory::default());
        let mut kept = Kept::new(&memory);
        kept.savepoints = 1;
        for (round, lsns) in [1..200, 200..400].into_iter().enumerate() {
            for lsn in lsns.clone() {
                kept.note(Lsn(lsn), &[lsn as u8; 1_000]);
            }
            for lsn in lsns {
                assert_eq!(kept.find(Lsn(lsn)), Some(vec![lsn as u8; 1_000]));
            }
            assert!(memory.spare.lock().is_empty(), "round {round}");
            kept.clear();
            assert_eq!(memory.spare.lock().len(), 1, "round {round}");
        }
        assert_eq!(kept.find(Lsn(1)), None);
        memory.give(Vec::with_capacity(SPARE_BYTES_MAX));
        assert_eq!(memory.spare.lock().len(), 1);
    }
}
