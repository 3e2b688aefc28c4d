//! Where a transaction wrote: for each tree a bounded list of key ranges, the work list of the reverter.
//!
//! Theory: entries of a transaction are recognised by their writer, so a range may be too wide, never too narrow.
//! Neighbouring writes share a range; a list that would grow beyond its bound becomes one range around all of it. So
//! the list is small enough to be part of every checkpoint, whatever the transaction does.

use crate::api::TreeId;
use std::collections::BTreeMap;

/// Ranges kept for one tree before they are joined to one.
const RANGES_MAX: usize = 256;

/// Keys from `low` to `high`, both included, in which a transaction wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub low: Vec<u8>,
    pub high: Vec<u8>,
}

/// Writes of a transaction in one tree.
#[derive(Clone, Debug, Default)]
pub struct TreeWork {
    pub ranges: Vec<Range>,
    /// Entries gained (or lost) in the tree's count.
    pub live: i64,
    /// Leaf of the last write.
    last_leaf: u64,
    /// The tree was created by the same transaction: it goes away as a whole.
    pub is_owned: bool,
}

/// The work list of one transaction.
#[derive(Clone, Debug, Default)]
pub struct Work {
    pub trees: BTreeMap<TreeId, TreeWork>,
}

impl Work {
    /// The transaction wrote the keys from `low` to `high` on one leaf.
    pub fn note(&mut self, tree: TreeId, leaf: u64, low: &[u8], high: &[u8], live: i64) {
        let work = self.trees.entry(tree).or_default();
        work.live += live;
        if work.is_owned {
            return;
        }
        let same_leaf = work.last_leaf == leaf;
        work.last_leaf = leaf;
        if let Some(last) = work.ranges.last_mut() {
            if low >= last.low.as_slice() && high <= last.high.as_slice() {
                return;
            }
            if same_leaf || touches(last, low, high) {
                last.widen(low, high);
                return;
            }
        }
        work.ranges.push(Range {
            low: low.to_vec(),
            high: high.to_vec(),
        });
        if work.ranges.len() > RANGES_MAX {
            work.join();
        }
    }

    /// A range that a checkpoint told of.
    pub fn restore(&mut self, tree: TreeId, low: Vec<u8>, high: Vec<u8>) {
        let work = self.trees.entry(tree).or_default();
        work.ranges.push(Range { low, high });
        if work.ranges.len() > RANGES_MAX {
            work.join();
        }
    }

    /// The transaction made this tree.
    pub fn own(&mut self, tree: TreeId) {
        let work = self.trees.entry(tree).or_default();
        work.is_owned = true;
        work.ranges.clear();
    }
}

/// Does the new range overlap the old one?
fn touches(range: &Range, low: &[u8], high: &[u8]) -> bool {
    low <= range.high.as_slice() && high >= range.low.as_slice()
}

impl Range {
    fn widen(&mut self, low: &[u8], high: &[u8]) {
        if low < self.low.as_slice() {
            self.low = low.to_vec();
        }
        if high > self.high.as_slice() {
            self.high.clear();
            self.high.extend_from_slice(high);
        }
    }
}

impl TreeWork {
    /// One range around all; the next write widens it.
    fn join(&mut self) {
        let mut ranges = std::mem::take(&mut self.ranges).into_iter();
        if let Some(mut all) = ranges.next() {
            ranges.for_each(|r| all.widen(&r.low, &r.high));
            self.ranges.push(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_key_written_lies_in_a_range(keys in proptest::collection::vec((any::<u16>(), 0u64..40), 1..2000)) {
            let mut work = Work::default();
            let tree = TreeId(daruma_base::PageId::new(1, 16));
            for (key, leaf) in &keys {
                work.note(tree, *leaf, &key.to_be_bytes(), &key.to_be_bytes(), 1);
            }
            let ranges = &work.trees[&tree].ranges;
            prop_assert!(ranges.len() <= RANGES_MAX);
            for (key, _) in &keys {
                let key = key.to_be_bytes();
                prop_assert!(ranges.iter().any(|r| r.low.as_slice() <= &key[..] && &key[..] <= r.high.as_slice()));
            }
        }
    }

    #[test]
    fn ascending_keys_need_few_ranges() {
        let mut work = Work::default();
        let tree = TreeId(daruma_base::PageId::new(1, 16));
        for key in 0..100_000u32 {
            work.note(
                tree,
                u64::from(key / 100),
                &key.to_be_bytes(),
                &key.to_be_bytes(),
                1,
            );
        }
        assert!(work.trees[&tree].ranges.len() <= RANGES_MAX);
        assert_eq!(work.trees[&tree].live, 100_000);
    }
}
