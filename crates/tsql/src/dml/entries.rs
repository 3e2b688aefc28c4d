//! Entries for one tree, gathered in any order and handed to storage in key order.
//!
//! Theory: a B+tree takes batches fastest in key order, and two entries of one statement with equal keys are found as
//! neighbours after sorting, before the tree is asked. One buffer holds all bytes; sorting moves only slots.

use crate::error::Result;
use daruma_storage::{Batch, Stamp};

/// Largest batch handed to storage at once.
const BATCH_ENTRIES: usize = 512;

#[derive(Clone, Copy, Debug)]
struct Slot {
    start: usize,
    payload: usize,
    end: usize,
    stamp: Stamp,
    /// The caller's number for the row this entry belongs to.
    row: usize,
}

/// Index entries side by side in one buffer, sorted by key when asked.
#[derive(Debug, Default)]
pub struct EntrySet {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    unsorted: bool,
}

impl EntrySet {
    /// An empty set without memory.
    pub fn new() -> EntrySet {
        EntrySet::default()
    }

    /// Forgets all entries and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.slots.clear();
        self.unsorted = false;
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Has it no entry?
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Memory that the entries take, for the grant.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.slots.len() * size_of::<Slot>()
    }

    /// Adds an entry; `row` is the row of the batch that it belongs to.
    pub fn push(&mut self, key: &[u8], payload: &[u8], stamp: Stamp, row: usize) {
        if let Some(last) = self.slots.last()
            && !self.unsorted
            && self.key_of(last) > key
        {
            self.unsorted = true;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(payload);
        self.slots.push(Slot {
            start,
            payload: start + key.len(),
            end: self.bytes.len(),
            stamp,
            row,
        });
    }

    /// Brings the entries into key order; equal keys keep the order in which they came.
    pub fn sort(&mut self) {
        if !self.unsorted {
            return;
        }
        let bytes = &self.bytes;
        self.slots
            .sort_by(|a, b| bytes[a.start..a.payload].cmp(&bytes[b.start..b.payload]));
        self.unsorted = false;
    }

    fn key_of(&self, slot: &Slot) -> &[u8] {
        &self.bytes[slot.start..slot.payload]
    }

    /// Key of the entry at a position; the position must be below `len`.
    pub fn key(&self, index: usize) -> &[u8] {
        self.key_of(&self.slots[index])
    }

    /// Payload of the entry at a position.
    pub fn payload(&self, index: usize) -> &[u8] {
        let slot = &self.slots[index];
        &self.bytes[slot.payload..slot.end]
    }

    /// Which state of the row the entry was read in.
    pub fn stamp(&self, index: usize) -> Stamp {
        self.slots[index].stamp
    }

    /// The row of the batch that the entry belongs to.
    pub fn row(&self, index: usize) -> usize {
        self.slots[index].row
    }

    /// Position of the first entry whose key equals that of its predecessor. Sorted sets only.
    pub fn first_duplicate(&self) -> Option<usize> {
        (1..self.len()).find(|i| self.key(*i) == self.key(*i - 1))
    }

    /// Position of the entry with this key. Sorted sets only.
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        self.slots
            .binary_search_by(|slot| self.key_of(slot).cmp(key))
            .ok()
    }

    /// Hands the entries over in order, in batches of a size that storage likes. The second argument is the position
    /// of the batch's first entry.
    pub fn in_batches(
        &self,
        batch: &mut Batch,
        mut each: impl FnMut(&Batch, usize) -> Result<()>,
    ) -> Result<()> {
        for first in (0..self.len()).step_by(BATCH_ENTRIES) {
            batch.clear();
            for i in first..self.len().min(first + BATCH_ENTRIES) {
                batch.push(self.key(i), self.payload(i), self.stamp(i));
            }
            each(batch, first)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_entries_keep_rows_and_find_duplicates() {
        let mut set = EntrySet::new();
        for (row, key) in [b"b", b"a", b"c", b"a"].into_iter().enumerate() {
            set.push(key, key, Stamp::default(), row);
        }
        set.sort();
        let got: Vec<_> = (0..set.len())
            .map(|i| (set.key(i)[0], set.row(i)))
            .collect();
        assert_eq!(got, [(b'a', 1), (b'a', 3), (b'b', 0), (b'c', 2)]);
        assert_eq!(set.first_duplicate(), Some(1));
        assert_eq!(set.find(b"c"), Some(3));
        assert_eq!(set.find(b"d"), None);
    }

    #[test]
    fn batches_cover_all_entries_in_order() {
        let mut set = EntrySet::new();
        for i in (0..1300u16).rev() {
            set.push(&i.to_be_bytes(), b"", Stamp::default(), usize::from(i));
        }
        set.sort();
        let (mut batch, mut seen) = (Batch::new(), Vec::new());
        set.in_batches(&mut batch, |batch, first| {
            assert_eq!(seen.len(), first);
            seen.extend((0..batch.len()).map(|i| batch.key(i).to_vec()));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen.len(), 1300);
        assert!(seen.is_sorted());
    }
}
