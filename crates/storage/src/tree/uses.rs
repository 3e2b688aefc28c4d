//! How often a tree was used, and when last: since the database was opened, and for as long as the tree lives.
//!
//! Counted by whoever runs statements, once for each use that one makes of the tree, however many entries that is.

use super::Tree;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// What a statement uses a tree for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeUse {
    /// It looks for keys.
    Seek,
    /// It reads all.
    Scan,
    /// It looks for rows that it found in another tree.
    Lookup,
    /// It changes entries.
    Update,
}

const KINDS: usize = 4;

#[derive(Debug)]
pub(super) struct Uses {
    counts: [AtomicU64; KINDS],
    /// UTC in 100 ns since 1970; meaningless while the count is 0.
    last: [AtomicI64; KINDS],
}

impl Uses {
    /// Nothing was used yet.
    pub fn none() -> Uses {
        Uses {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            last: std::array::from_fn(|_| AtomicI64::new(0)),
        }
    }
}

impl Tree {
    /// Counts a use at this time, UTC in 100 ns since 1970.
    pub fn note_use(&self, what: TreeUse, utc_100ns: i64) {
        let at = what as usize;
        if let (Some(count), Some(last)) = (self.uses.counts.get(at), self.uses.last.get(at)) {
            last.store(utc_100ns, Ordering::Relaxed);
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often it was used so, and when last.
    pub fn uses(&self, what: TreeUse) -> (u64, Option<i64>) {
        let at = what as usize;
        let read = |(count, last): (&AtomicU64, &AtomicI64)| {
            let count = count.load(Ordering::Relaxed);
            (count, (count > 0).then(|| last.load(Ordering::Relaxed)))
        };
        let counted = self.uses.counts.get(at).zip(self.uses.last.get(at));
        counted.map_or((0, None), read)
    }

    /// Goes on counting where the tree stopped in whose place this one is.
    pub fn take_over_uses(&self, of: &Tree) {
        for (to, from) in self.uses.counts.iter().zip(&of.uses.counts) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        for (to, from) in self.uses.last.iter().zip(&of.uses.last) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
