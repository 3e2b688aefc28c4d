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
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The ranges of one tree.
#[derive(Default)]
pub(super) struct Ranges {
    list: Mutex<List>,
    count: AtomicU32,
    /// Of those who mean to write.
    updates: AtomicU32,
}

#[derive(Default)]
struct List {
    next: u64,
    ranges: Vec<RangeLock>,
}

struct RangeLock {
    owner: u64,
    /// Of the scan that it grows with.
    number: u64,
    low: Bound,
    high: Bound,
    is_update: bool,
}

impl Ranges {
    /// Puts a range in place, or the wider one of the same number. Gives its number.
    fn put(&self, number: Option<u64>, owner: u64, low: Bound, high: Bound, update: bool) -> u64 {
        let mut list = self.list.lock();
        if let Some(number) = number
            && let Some(known) = list.ranges.iter_mut().rev().find(|r| r.number == number)
        {
            (known.low, known.high) = (low, high);
            return number;
        }
        list.next += 1;
        let number = list.next;
        list.ranges.push(RangeLock {
            owner,
            number,
            low,
            high,
            is_update: update,
        });
        self.count.fetch_add(1, Ordering::SeqCst);
        self.updates.fetch_add(u32::from(update), Ordering::SeqCst);
        number
    }

    fn remove(&self, owner: u64) {
        let mut list = self.list.lock();
        let (mut all, mut updates) = (0, 0);
        list.ranges.retain(|r| {
            let goes = r.owner == owner;
            all += u32::from(goes);
            updates += u32::from(goes && r.is_update);
            !goes
        });
        self.count.fetch_sub(all, Ordering::SeqCst);
        self.updates.fetch_sub(updates, Ordering::SeqCst);
    }

    /// Someone else's range with this key.
    fn find(&self, owner: u64, key: &[u8], updates_only: bool) -> Option<u64> {
        let list = self.list.lock();
        let holds = |r: &&RangeLock| {
            r.owner != owner
                && (r.is_update || !updates_only)
                && above(key, &r.low)
                && below(key, &r.high)
        };
        list.ranges.iter().find(holds).map(|r| r.owner)
    }

    /// Has no serializable scan locked a range?
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
        let key = LockKey::Ranges(owner.id, self.id);
        let locks = view.database().locks();
        locks.acquire(owner, &key, LockMode::Exclusive)?;
        let mut kept = owner.read_locks.lock();
        kept.push((self.clone(), ReadLock::Range));
        Ok(())
    }

    /// Adds what was read to the ranges of the view's owner. The leaf is latched.
    pub(super) fn cover(
        &self,
        view: &ReadView,
        number: Option<u64>,
        (low, high): (Bound, Bound),
    ) -> u64 {
        let owner = view.owner().id;
        self.ranges
            .put(number, owner, low, high, view.is_for_update())
    }

    /// The same for one key, where the isolation level asks for it.
    pub(super) fn cover_key(&self, view: &ReadView, key: &[u8]) {
        if view.isolation() == Isolation::Serializable {
            let bound = Bound::Included(key.to_vec());
            self.cover(view, None, (bound.clone(), bound));
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
