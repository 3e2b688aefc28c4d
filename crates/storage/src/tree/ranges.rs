//! Locks on key ranges, which serializable transactions have read and others must not write into.
//!
//! Theory: a range grows with the scan, in key order. The part in a leaf is added under that leaf's latch together with
//! its reading, up to the fence between this leaf and the next; so no writer comes between, and rows that the scan has
//! not come to are nobody's yet. A scan that must wait for an entry holds the range before it and no more: the
//! transaction it waits for may write that entry, and those behind it, again.
//!
//! A scan that means to write (UPDATE, DELETE, MERGE, HOLDLOCK with UPDLOCK) waits for others' ranges of that kind: of two, one
//! would have to give way later.

use super::Tree;
use crate::api::{Bound, Isolation, LockMode};
use crate::error::Result;
use crate::lock::{LockKey, ReadLock};
use crate::sync::Mutex;
use crate::txn::ReadView;
use daruma_base::reached;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound as Side;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// An owner with more separate ranges than this in a tree locks everything from the first to the last, as the product locks
/// the table then: neither memory nor the look that each writer takes grows with the keys that one transaction reads.
const RANGES_MAX: usize = 5_000;

/// The ranges of one tree.
#[derive(Default)]
pub(super) struct Ranges {
    owners: Mutex<HashMap<u64, Owned>>,
    /// Owners, and those of them that mean to write.
    count: AtomicU32,
    updates: AtomicU32,
}

/// What one owner has locked.
#[derive(Default)]
struct Owned {
    all: Intervals,
    /// As one who means to write.
    updates: Intervals,
}

/// Intervals of keys that do not touch: where each begins, and the first key behind it; `None` when it has no end.
#[derive(Default)]
struct Intervals(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl Intervals {
    /// Adds an interval, which becomes one with those that it meets.
    fn add(&mut self, mut start: Vec<u8>, mut end: Option<Vec<u8>>) {
        if end.as_ref().is_some_and(|end| *end <= start) {
            return;
        }
        let before = self.0.range(..=start.clone()).next_back();
        if let Some((from, to)) = before.filter(|(_, to)| is_behind(to, &start)) {
            if reaches(to, &end) {
                return;
            }
            start = from.clone();
        }
        let met = |from: &Vec<u8>, end: &Option<Vec<u8>>| is_behind(end, from);
        while let Some((from, to)) = self.0.range(start.clone()..).next()
            && met(from, &end)
        {
            if reaches(to, &end) {
                end = to.clone();
            }
            let from = from.clone();
            self.0.remove(&from);
        }
        self.0.insert(start, end);
        if self.0.len() > RANGES_MAX {
            self.escalate();
        }
    }

    fn escalate(&mut self) {
        reached!("ranges.escalated");
        let last = self.0.pop_last();
        if let Some((_, end)) = last
            && let Some((start, _)) = self.0.pop_first()
        {
            self.0 = BTreeMap::from([(start, end)]);
        }
    }

    fn has(&self, key: &[u8]) -> bool {
        let up_to = (Side::Unbounded, Side::Included(key));
        let before = self.0.range::<[u8], _>(up_to).next_back();
        before.is_some_and(|(_, end)| end.as_deref().is_none_or(|end| key < end))
    }
}

/// Is the end of an interval at this key or behind it?
fn is_behind(end: &Option<Vec<u8>>, key: &[u8]) -> bool {
    end.as_deref().is_none_or(|end| end >= key)
}

/// Is the first end at the second one or behind it?
fn reaches(end: &Option<Vec<u8>>, other: &Option<Vec<u8>>) -> bool {
    match other {
        Some(other) => is_behind(end, other),
        None => end.is_none(),
    }
}

/// First key inside a lower bound; `None` when there is none.
fn start_of(low: Bound) -> Option<Vec<u8>> {
    match low {
        Bound::Unbounded => Some(Vec::new()),
        Bound::Included(b) | Bound::PrefixIncluded(b) => Some(b),
        Bound::Excluded(b) => Some(next_key(b)),
        Bound::PrefixExcluded(b) => behind_prefix(b),
    }
}

/// First key beyond an upper bound; `None` when all are inside.
fn end_of(high: Bound) -> Option<Vec<u8>> {
    match high {
        Bound::Unbounded => None,
        Bound::Included(b) => Some(next_key(b)),
        Bound::Excluded(b) | Bound::PrefixExcluded(b) => Some(b),
        Bound::PrefixIncluded(b) => behind_prefix(b),
    }
}

/// The smallest key that is larger.
fn next_key(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// The smallest key that is larger than all with the prefix.
fn behind_prefix(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.pop() {
        if last < u8::MAX {
            prefix.push(last + 1);
            return Some(prefix);
        }
    }
    None
}

impl Ranges {
    /// Makes room for the ranges of an owner. False when there is some already.
    fn announce(&self, owner: u64) -> bool {
        let mut owners = self.owners.lock();
        if owners.contains_key(&owner) {
            return false;
        }
        owners.insert(owner, Owned::default());
        self.count.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn is_announced(&self, owner: u64) -> bool {
        self.owners.lock().contains_key(&owner)
    }

    /// Adds a range to those of an owner that was announced. A scan that outlives its transaction keeps nothing.
    fn add(&self, owner: u64, low: Bound, high: Bound, is_update: bool) {
        let Some(start) = start_of(low) else {
            return;
        };
        let end = end_of(high);
        let mut owners = self.owners.lock();
        let Some(owned) = owners.get_mut(&owner) else {
            return;
        };
        if is_update {
            if owned.updates.0.is_empty() {
                self.updates.fetch_add(1, Ordering::SeqCst);
            }
            owned.updates.add(start.clone(), end.clone());
        }
        owned.all.add(start, end);
    }

    fn remove(&self, owner: u64) {
        let mut owners = self.owners.lock();
        if let Some(owned) = owners.remove(&owner) {
            let is_update = !owned.updates.0.is_empty();
            self.updates
                .fetch_sub(u32::from(is_update), Ordering::SeqCst);
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Someone else's range with this key.
    fn find(&self, owner: u64, key: &[u8], updates_only: bool) -> Option<u64> {
        let owners = self.owners.lock();
        let holds = |(id, owned): &(&u64, &Owned)| {
            let intervals = match updates_only {
                true => &owned.updates,
                false => &owned.all,
            };
            **id != owner && intervals.has(key)
        };
        owners.iter().find(holds).map(|(id, _)| *id)
    }

    /// Has no serializable transaction read here?
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Has no scan that means to write locked a range?
    pub fn has_no_update(&self) -> bool {
        self.updates.load(Ordering::SeqCst) == 0
    }
}

impl Tree {
    /// Makes the owner one that others can wait for because of its ranges here. To be called without a latch, before the
    /// first range.
    pub(super) fn announce_ranges(self: &Arc<Self>, view: &ReadView) -> Result<()> {
        let owner = view.owner();
        if self.ranges.is_announced(owner.id) {
            return Ok(());
        }
        let key = LockKey::Ranges(owner.id, self.id);
        let locks = view.database().locks();
        locks.acquire(owner, &key, LockMode::Exclusive)?;
        if self.ranges.announce(owner.id) {
            let mut kept = owner.read_locks.lock();
            kept.push((self.clone(), ReadLock::Range));
        }
        Ok(())
    }

    /// Adds what was read to the ranges of the view's owner. The leaf is latched.
    pub(super) fn cover(&self, view: &ReadView, (low, high): (Bound, Bound)) {
        let owner = view.owner().id;
        self.ranges.add(owner, low, high, view.is_for_update());
    }

    /// The same for one key, where the isolation level asks for it.
    pub(super) fn cover_key(&self, view: &ReadView, key: &[u8]) {
        if view.isolation() == Isolation::Serializable {
            let bound = Bound::Included(key.to_vec());
            self.cover(view, (bound.clone(), bound));
        }
    }

    pub(super) fn release_ranges(&self, owner: u64) {
        self.ranges.remove(owner);
    }

    /// Someone else's serializable transaction that has read a range with this key.
    pub(super) fn range_conflict(&self, owner: u64, key: &[u8]) -> Option<u64> {
        match self.ranges.is_empty() {
            true => None,
            false => self.ranges.find(owner, key, false),
        }
    }

    /// The same of one that means to write there, if the view means to, too, and would keep a range.
    pub(super) fn update_range(&self, view: &ReadView, key: &[u8]) -> Option<u64> {
        let keeps = view.is_for_update() && view.isolation() == Isolation::Serializable;
        match !keeps || self.ranges.has_no_update() {
            true => None,
            false => self.ranges.find(view.owner().id, key, true),
        }
    }
}

/// Is `key` inside the lower bound?
pub(super) fn above(key: &[u8], low: &Bound) -> bool {
    match low {
        Bound::Unbounded => true,
        Bound::Included(b) | Bound::PrefixIncluded(b) => key >= b.as_slice(),
        Bound::Excluded(b) => key > b.as_slice(),
        Bound::PrefixExcluded(b) => key > b.as_slice() && !key.starts_with(b),
    }
}

/// Is `key` inside the upper bound?
pub(super) fn below(key: &[u8], high: &Bound) -> bool {
    match high {
        Bound::Unbounded => true,
        Bound::Included(b) => key <= b.as_slice(),
        Bound::Excluded(b) | Bound::PrefixExcluded(b) => key < b.as_slice(),
        Bound::PrefixIncluded(b) => key <= b.as_slice() || key.starts_with(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> Vec<u8> {
        n.to_be_bytes().to_vec()
    }

    fn point(n: u32) -> (Bound, Bound) {
        (Bound::Included(key(n)), Bound::Included(key(n)))
    }

    fn held(ranges: &Ranges, owner: u64) -> usize {
        ranges
            .owners
            .lock()
            .get(&owner)
            .map_or(0, |o| o.all.0.len())
    }

    #[test]
    fn a_key_that_is_read_again_and_again_is_one_range() {
        let ranges = Ranges::default();
        assert!(ranges.announce(1) && !ranges.announce(1));
        for _ in 0..10_000 {
            let (low, high) = point(7);
            ranges.add(1, low, high, false);
        }
        assert_eq!(held(&ranges, 1), 1);
        assert_eq!(ranges.find(2, &key(7), false), Some(1));
        assert_eq!(ranges.find(1, &key(7), false), None, "one's own");
        assert_eq!(ranges.find(2, &key(7), true), None, "a reader's");
        assert_eq!(ranges.find(2, &key(8), false), None);
        ranges.remove(1);
        assert!(ranges.is_empty() && ranges.find(2, &key(7), false).is_none());
    }

    #[test]
    fn many_ranges_of_one_owner_become_one() {
        let ranges = Ranges::default();
        ranges.announce(1);
        for n in 0..3 * RANGES_MAX as u32 {
            let (low, high) = point(1_000 + 2 * n);
            ranges.add(1, low, high, true);
            assert!(held(&ranges, 1) <= RANGES_MAX);
            assert_eq!(ranges.find(2, &key(1_000 + 2 * n), true), Some(1));
        }
        assert_eq!(ranges.find(2, &key(1_001), false), Some(1), "in between");
        assert_eq!(ranges.find(2, &key(999), false), None);
        assert_eq!(ranges.find(2, &key(1_000_000), false), None);
        ranges.remove(1);
        assert!(ranges.has_no_update());
    }

    /// Against a list of all bounds, each asked as a scan is.
    #[test]
    fn ranges_hold_what_their_bounds_let_in() {
        let bytes = |n: u64| -> Vec<u8> {
            let all = [0, 1, 2, 254, 255];
            let len = n % 4;
            (0..len)
                .map(|i| all[(n >> (4 + 3 * i)) as usize % 5])
                .collect()
        };
        let mut random = 1_u64;
        let mut next = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            random >> 20
        };
        let bound = |n: u64| match n % 5 {
            0 => Bound::Unbounded,
            1 => Bound::Included(bytes(n / 5)),
            2 => Bound::Excluded(bytes(n / 5)),
            3 => Bound::PrefixIncluded(bytes(n / 5)),
            _ => Bound::PrefixExcluded(bytes(n / 5)),
        };
        for _ in 0..3_000 {
            let ranges = Ranges::default();
            ranges.announce(1);
            let mut all = Vec::new();
            for _ in 0..next() % 6 {
                let (low, high) = (bound(next()), bound(next()));
                ranges.add(1, low.clone(), high.clone(), false);
                all.push((low, high));
            }
            for _ in 0..20 {
                let key = bytes(next());
                let inside = all.iter().any(|(l, h)| above(&key, l) && below(&key, h));
                let found = ranges.find(2, &key, false).is_some();
                assert_eq!(found, inside, "{key:?} in {all:?}");
            }
        }
    }
}
