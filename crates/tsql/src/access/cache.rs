//! What is worked out of a definition, found again by the definition.
//!
//! Theory: definitions are immutable and shared, so their address names them while they live. A definition that is gone takes
//! nothing with it: what was worked out of it stays until it is looked for. That happens whenever enough was added since, by
//! size and not by number, so that many changes of a wide table do not fill the memory.
//!
//! Invariant: what belongs to definitions that are gone takes no more than [`ADDED_MAX`] and the entry added last.

use crate::error::Result;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Entries whose definitions live, at most; beyond that all are forgotten.
const CACHED_MAX: usize = 4096;
/// Entries of definitions that are gone are looked for when so much was added; about half a mebibyte.
const ADDED_MAX: usize = 16 << 10;

/// Something of each definition that was asked for.
pub(super) struct Cache<D, T>(Mutex<Entries<D, T>>);

struct Entries<D, T> {
    map: HashMap<usize, (Weak<D>, Arc<T>)>,
    /// Sizes of what was added since the last look for definitions that are gone.
    added: usize,
}

impl<D, T> Default for Cache<D, T> {
    fn default() -> Cache<D, T> {
        Cache(Mutex::new(Entries {
            map: HashMap::new(),
            added: 0,
        }))
    }
}

impl<D, T> Cache<D, T> {
    /// What `make` has made of the definition, now or before, and how large that is, in columns of an index.
    pub fn get(
        &self,
        def: &Arc<D>,
        make: impl FnOnce(&D) -> Result<T>,
        size: impl FnOnce(&T) -> usize,
    ) -> Result<Arc<T>> {
        let address = Arc::as_ptr(def) as usize;
        let mut entries = self.0.lock();
        if let Some((known, made)) = entries.map.get(&address)
            && known.upgrade().is_some_and(|k| Arc::ptr_eq(&k, def))
        {
            return Ok(made.clone());
        }
        let made = Arc::new(make(def)?);
        entries.added += size(&made);
        if entries.added > ADDED_MAX || entries.map.len() >= CACHED_MAX {
            entries.forget_gone();
        }
        let entry = (Arc::downgrade(def), made.clone());
        entries.map.insert(address, entry);
        Ok(made)
    }
}

impl<D, T> Entries<D, T> {
    fn forget_gone(&mut self) {
        self.added = 0;
        self.map.retain(|_, (known, _)| known.strong_count() > 0);
        if self.map.len() >= CACHED_MAX {
            self.map.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn len(cache: &Cache<u32, u32>) -> usize {
        cache.0.lock().map.len()
    }

    #[test]
    fn little_stays_of_definitions_that_are_gone() {
        let cache: Cache<u32, u32> = Cache::default();
        let lives = Arc::new(7);
        let made = cache.get(&lives, |d| Ok(d + 1), |_| 1).expect("made");
        for n in 0..3_000 {
            // A table of 100 columns and 100 indexes.
            cache
                .get(&Arc::new(n), |d| Ok(d + 1), |_| 20_000)
                .expect("made");
            assert!(len(&cache) <= 2);
        }
        let again = cache.get(&lives, |_| Ok(0), |_| 1).expect("known");
        assert!(Arc::ptr_eq(&made, &again), "it is not made anew");
        for n in 0..100_000 {
            cache
                .get(&Arc::new(n), |d| Ok(d + 1), |_| 10)
                .expect("made");
            assert!(len(&cache) <= 2 + ADDED_MAX / 10);
        }
    }

    #[test]
    fn another_definition_in_the_same_place_is_not_taken_for_it() {
        let cache: Cache<u32, u32> = Cache::default();
        for n in 0..1_000 {
            let made = cache.get(&Arc::new(n), |d| Ok(d + 1), |_| 1);
            assert_eq!(*made.expect("made"), n + 1);
        }
    }
}
