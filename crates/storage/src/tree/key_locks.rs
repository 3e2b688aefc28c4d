//! How many locks there are on keys of a tree: writers and those who mean to write look for one only where there may be one.
//!
//! Theory: the lock manager knows the locks; here they are counted, in all and by a hash of their key. Nobody's rows pay
//! more than one load while a tree has none, and a hash of the key while others are locked.
//!
//! Invariant: a lock is counted before the entry is read under it, so a writer that latches the page later sees the count.

use crate::api::LockMode;
use daruma_base::FastHash;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};

const BUCKETS: usize = 64;

/// Locks on keys of one tree.
pub(crate) struct KeyLocks {
    all: AtomicU32,
    /// Update and exclusive ones.
    update: AtomicU32,
    buckets: [AtomicU32; BUCKETS],
}

/// One counted lock, to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountedKey {
    bucket: u8,
    is_update: bool,
}

impl KeyLocks {
    /// No key locked.
    pub fn new() -> KeyLocks {
        KeyLocks {
            all: AtomicU32::new(0),
            update: AtomicU32::new(0),
            buckets: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Counts a lock on a key; what comes back must be given to `remove`.
    pub fn add(&self, key: &[u8], mode: LockMode) -> CountedKey {
        let counted = CountedKey {
            bucket: bucket_of(key) as u8,
            is_update: mode != LockMode::Shared,
        };
        self.all.fetch_add(1, Ordering::SeqCst);
        if counted.is_update {
            self.update.fetch_add(1, Ordering::SeqCst);
        }
        self.buckets[usize::from(counted.bucket)].fetch_add(1, Ordering::SeqCst);
        counted
    }

    /// The lock is gone.
    pub fn remove(&self, counted: CountedKey) {
        self.buckets[usize::from(counted.bucket)].fetch_sub(1, Ordering::SeqCst);
        if counted.is_update {
            self.update.fetch_sub(1, Ordering::SeqCst);
        }
        self.all.fetch_sub(1, Ordering::SeqCst);
    }

    /// Is no key of the tree locked?
    pub fn is_empty(&self) -> bool {
        self.all.load(Ordering::SeqCst) == 0
    }

    /// Is there no lock that keeps an update lock out?
    pub fn has_no_update(&self) -> bool {
        self.update.load(Ordering::SeqCst) == 0
    }

    /// May there be a lock on this key?
    pub fn may_have(&self, key: &[u8]) -> bool {
        self.buckets[bucket_of(key)].load(Ordering::SeqCst) > 0
    }
}

fn bucket_of(key: &[u8]) -> usize {
    (FastHash::default().hash_one(key) >> 16) as usize % BUCKETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_as_long_as_it_is_locked() {
        let locks = KeyLocks::new();
        assert!(locks.is_empty() && !locks.may_have(b"a"));
        let shared = locks.add(b"a", LockMode::Shared);
        assert!(!locks.is_empty() && locks.has_no_update() && locks.may_have(b"a"));
        let update = locks.add(b"a", LockMode::Update);
        assert!(!locks.has_no_update());
        locks.remove(update);
        assert!(locks.has_no_update() && locks.may_have(b"a"));
        locks.remove(shared);
        assert!(locks.is_empty() && !locks.may_have(b"a"));
    }
}
