//! Hash table from key bytes to dense numbers, for joins, grouping and set operations.
//!
//! Theory: keys lie one after the other in an arena; entries with equal hash buckets form chains through indexes. No
//! allocation for each key.

use daruma_value::compare::hash_bytes;

const NONE: u32 = u32::MAX;

/// A hash table of byte strings, each with the number of its arrival.
#[derive(Default)]
pub struct KeyTable {
    /// Heads of chains; a power of two of them.
    buckets: Vec<u32>,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

struct Entry {
    hash: u64,
    next: u32,
    end: u32,
}

impl KeyTable {
    /// An empty table without memory.
    pub fn new() -> KeyTable {
        KeyTable::default()
    }

    /// Keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// All keys, in the order of their numbers.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.entries.len() as u32).map(|index| self.key(index))
    }

    /// Forgets all keys and keeps the memory.
    pub fn clear(&mut self) {
        self.buckets.clear();
        self.entries.clear();
        self.bytes.clear();
    }

    fn key(&self, index: u32) -> &[u8] {
        let index = index as usize;
        let start = index
            .checked_sub(1)
            .and_then(|i| self.entries.get(i))
            .map_or(0, |e| e.end as usize);
        let end = self.entries.get(index).map_or(0, |e| e.end as usize);
        self.bytes.get(start..end).unwrap_or_default()
    }

    fn find_hashed(&self, key: &[u8], hash: u64) -> Option<u32> {
        if self.buckets.is_empty() {
            return None;
        }
        let mask = self.buckets.len() as u64 - 1;
        let mut at = *self.buckets.get((hash & mask) as usize)?;
        while let Some(entry) = self.entries.get(at as usize) {
            if entry.hash == hash && self.key(at) == key {
                return Some(at);
            }
            at = entry.next;
        }
        None
    }

    /// Number of a key that is there.
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        self.find_hashed(key, hash_bytes(key))
    }

    /// Number of the key, and whether it is new. `None` when the table cannot hold more.
    pub fn insert(&mut self, key: &[u8]) -> Option<(u32, bool)> {
        let hash = hash_bytes(key);
        if let Some(known) = self.find_hashed(key, hash) {
            return Some((known, false));
        }
        let index = u32::try_from(self.entries.len())
            .ok()
            .filter(|n| *n < NONE)?;
        let end = u32::try_from(self.bytes.len() + key.len()).ok()?;
        if self.entries.len() >= self.buckets.len() {
            self.grow();
        }
        self.bytes.extend_from_slice(key);
        let mask = self.buckets.len() as u64 - 1;
        let bucket = self.buckets.get_mut((hash & mask) as usize)?;
        self.entries.push(Entry {
            hash,
            next: *bucket,
            end,
        });
        *bucket = index;
        Some((index, true))
    }

    fn grow(&mut self) {
        let size = (self.buckets.len() * 2).max(64);
        self.buckets.clear();
        self.buckets.resize(size, NONE);
        let mask = size as u64 - 1;
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if let Some(bucket) = self.buckets.get_mut((entry.hash & mask) as usize) {
                entry.next = *bucket;
                *bucket = index as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_put_in() {
        let mut table = KeyTable::new();
        for n in 0..10_000u32 {
            assert_eq!(table.insert(&n.to_le_bytes()), Some((n, true)));
        }
        for n in 0..10_000u32 {
            assert_eq!(table.find(&n.to_le_bytes()), Some(n));
            assert_eq!(table.insert(&n.to_le_bytes()), Some((n, false)));
        }
        assert_eq!(table.find(b"other"), None);
        assert_eq!(table.len(), 10_000);
    }
}
