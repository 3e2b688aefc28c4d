//! Reading ranges: one leaf at a time, copied out so that no latch is held between steps.

use super::{RangeLock, Seen, Tree};
use crate::api::{Batch, Bound, Direction, Isolation, LockMode, LockResource, ScanSpec};
use crate::buffer::PageRead;
use crate::database::Database;
use crate::error::Result;
use crate::lock::{LockKey, ReadLock};
use crate::page::Page;
use crate::txn::ReadView;
use daruma_base::PageId;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Where a scan goes on.
enum Position {
    Start,
    /// At the page after the last one read, as long as nothing was unlinked since; else behind `after`.
    Next {
        page: PageId,
        unlinks: u64,
        after: Vec<u8>,
    },
    /// Behind this key (forward) or before it (backward).
    Key(Vec<u8>),
    End,
}

/// A running scan. Holds no latch between steps; sees entries inserted or deleted meanwhile as its view allows.
pub struct Scan {
    tree: Arc<Tree>,
    view: ReadView,
    spec: ScanSpec,
    position: Position,
    locked_range: bool,
}

impl Tree {
    pub fn scan(self: &Arc<Self>, view: &ReadView, spec: ScanSpec) -> Scan {
        Scan {
            tree: self.clone(),
            view: view.clone(),
            spec,
            position: Position::Start,
            locked_range: false,
        }
    }

    /// Takes the lock that keeps a single key as it was read, where the isolation level asks for one.
    pub(super) fn lock_for_reading(self: &Arc<Self>, view: &ReadView, key: &[u8]) -> Result<()> {
        match view.isolation() {
            Isolation::RepeatableRead => self.lock_key(view, key),
            Isolation::Serializable => self.lock_range(
                view,
                &Bound::Included(key.to_vec()),
                &Bound::Included(key.to_vec()),
            ),
            _ => Ok(()),
        }
    }

    /// A shared (or stronger, if the view says so) lock on one key until the transaction ends.
    pub(super) fn lock_key(self: &Arc<Self>, view: &ReadView, key: &[u8]) -> Result<()> {
        let db = view.database();
        // Counted before the entry is read: a writer that latches the page later will look for the lock.
        self.key_locks.fetch_add(1, Ordering::SeqCst);
        view.owner()
            .read_locks
            .lock()
            .push((self.clone(), ReadLock::Key));
        let resource = LockResource::Key {
            tree: self.id,
            key: key.to_vec(),
        };
        db.locks().acquire(
            view.owner(),
            &LockKey::Resource(db.id(), resource),
            view.key_lock_mode(),
        )
    }

    fn lock_range(self: &Arc<Self>, view: &ReadView, low: &Bound, high: &Bound) -> Result<()> {
        let owner = view.owner();
        view.database().locks().acquire(
            owner,
            &LockKey::Ranges(owner.id, self.id),
            LockMode::Exclusive,
        )?;
        self.ranges.lock().push(RangeLock {
            owner: owner.id,
            low: low.clone(),
            high: high.clone(),
        });
        self.range_count.fetch_add(1, Ordering::SeqCst);
        owner
            .read_locks
            .lock()
            .push((self.clone(), ReadLock::Range));
        Ok(())
    }

    /// Forgets what an owner whose transaction has ended kept here.
    pub(crate) fn release_read_lock(&self, owner: u64, kind: ReadLock) {
        match kind {
            ReadLock::Key => {
                self.key_locks.fetch_sub(1, Ordering::SeqCst);
            }
            ReadLock::Range => {
                let mut ranges = self.ranges.lock();
                let before = ranges.len();
                ranges.retain(|r| r.owner != owner);
                self.range_count
                    .fetch_sub((before - ranges.len()) as u32, Ordering::SeqCst);
            }
        }
    }

    /// Someone else's serializable transaction that has read a range with this key.
    pub(super) fn range_conflict(&self, owner: u64, key: &[u8]) -> Option<u64> {
        if self.range_count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let ranges = self.ranges.lock();
        ranges
            .iter()
            .find(|r| r.owner != owner && above(key, &r.low) && below(key, &r.high))
            .map(|r| r.owner)
    }
}

/// Is `key` inside the lower bound?
fn above(key: &[u8], low: &Bound) -> bool {
    match low {
        Bound::Unbounded => true,
        Bound::Included(b) | Bound::PrefixIncluded(b) => key >= b.as_slice(),
        Bound::Excluded(b) => key > b.as_slice(),
        Bound::PrefixExcluded(b) => key > b.as_slice() && !key.starts_with(b),
    }
}

/// Is `key` inside the upper bound?
fn below(key: &[u8], high: &Bound) -> bool {
    match high {
        Bound::Unbounded => true,
        Bound::Included(b) => key <= b.as_slice(),
        Bound::Excluded(b) | Bound::PrefixExcluded(b) => key < b.as_slice(),
        Bound::PrefixIncluded(b) => key <= b.as_slice() || key.starts_with(b),
    }
}

/// First slot of the page inside the lower bound.
fn first_slot(page: &Page, low: &Bound) -> usize {
    partition(page, |key| !above(key, low))
}

/// First slot of the page beyond the upper bound.
fn end_slot(page: &Page, high: &Bound) -> usize {
    partition(page, |key| below(key, high))
}

fn partition(page: &Page, mut before: impl FnMut(&[u8]) -> bool) -> usize {
    let (mut low, mut high) = (0, page.slots());
    while low < high {
        let mid = (low + high) / 2;
        if before(page.key(mid)) {
            low = mid + 1
        } else {
            high = mid
        }
    }
    low
}

impl Scan {
    /// Replaces the content of `batch` with the next entries (usually one page). False at the end.
    pub fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        batch.clear();
        if self.view.isolation() == Isolation::Serializable && !self.locked_range {
            self.tree
                .lock_range(&self.view, &self.spec.low, &self.spec.high)?;
            self.locked_range = true;
        }
        while !matches!(self.position, Position::End) {
            let more = match self.spec.direction {
                Direction::Forward => self.step_forward(batch)?,
                Direction::Backward => self.step_backward(batch)?,
            };
            if more && !batch.is_empty() {
                return Ok(true);
            }
        }
        Ok(!batch.is_empty())
    }

    /// Copies the entries of one leaf. False when a wait interrupted it before the first entry.
    fn step_forward(&mut self, batch: &mut Batch) -> Result<bool> {
        let tree = self.tree.clone();
        let view = self.view.clone();
        let db = view.database();
        let (page, start) = self.forward_page(&tree, db)?;
        let end = end_slot(&page, &self.spec.high);
        let wait = fill(&tree, &view, &page, start..end, batch)?;
        let unlinks = tree.unlinks.load(Ordering::SeqCst);
        let (next, beyond) = (page.next(), end < page.slots());
        let last = page.slots().checked_sub(1).map(|s| page.key(s).to_vec());
        let resume = wait
            .as_ref()
            .and_then(|(slot, _)| slot.checked_sub(1))
            .map(|s| page.key(s).to_vec());
        drop(page);
        if let Some((slot, txn)) = wait {
            if slot > start
                && let Some(key) = resume
            {
                self.position = Position::Key(key);
            }
            if batch.is_empty() {
                view.wait_for(txn)?;
                return Ok(false);
            }
        } else if beyond || next.is_none() {
            self.position = Position::End;
        } else {
            // An empty leaf tells no key: keep the one we had.
            let after = last.or_else(|| self.resume_key());
            self.position = match after {
                Some(after) => Position::Next {
                    page: next,
                    unlinks,
                    after,
                },
                None => Position::Next {
                    page: next,
                    unlinks,
                    after: low_key(&self.spec.low),
                },
            };
        }
        self.lock_batch(batch)?;
        Ok(true)
    }

    fn resume_key(&self) -> Option<Vec<u8>> {
        match &self.position {
            Position::Next { after, .. } => Some(after.clone()),
            Position::Key(key) => Some(key.clone()),
            Position::Start | Position::End => None,
        }
    }

    /// The leaf to read next and the slot to begin with.
    fn forward_page<'a>(&self, tree: &Tree, db: &'a Database) -> Result<(PageRead<'a>, usize)> {
        match &self.position {
            Position::Next {
                page,
                unlinks,
                after,
            } => {
                let next = db.pool().read(db.store(), *page);
                let next = next.map_err(|e| e.within(tree.id().0))?;
                if tree.unlinks.load(Ordering::SeqCst) == *unlinks {
                    tree.check_page(db, &next, *page)?;
                    if !next.is_leaf() {
                        return Err(tree.damaged(db, *page, "a leaf is followed by no leaf"));
                    }
                    let start = partition(&next, |key| key <= after.as_slice())
                        .max(first_slot(&next, &self.spec.low));
                    return Ok((next, start));
                }
                drop(next);
                self.page_after(tree, db, after)
            }
            Position::Key(key) => self.page_after(tree, db, key),
            Position::Start | Position::End => {
                let leaf = tree.leaf_read(db, &low_key(&self.spec.low))?;
                let start = first_slot(&leaf, &self.spec.low);
                Ok((leaf, start))
            }
        }
    }

    fn page_after<'a>(
        &self,
        tree: &Tree,
        db: &'a Database,
        key: &[u8],
    ) -> Result<(PageRead<'a>, usize)> {
        let leaf = tree.leaf_read(db, key)?;
        let start = partition(&leaf, |k| k <= key).max(first_slot(&leaf, &self.spec.low));
        Ok((leaf, start))
    }

    fn step_backward(&mut self, batch: &mut Batch) -> Result<bool> {
        let tree = self.tree.clone();
        let view = self.view.clone();
        let db = view.database();
        let limit = match &self.position {
            Position::Key(key) => Bound::Excluded(key.clone()),
            _ => self.spec.high.clone(),
        };
        let Some((page, end)) = tree.leaf_before(db, &limit)? else {
            self.position = Position::End;
            return Ok(true);
        };
        let start = first_slot(&page, &self.spec.low).min(end);
        let wait = fill(&tree, &view, &page, (start..end).rev(), batch)?;
        let first = (start < end).then(|| page.key(start).to_vec());
        let resume = wait
            .as_ref()
            .filter(|(slot, _)| slot + 1 < end)
            .map(|(slot, _)| page.key(slot + 1).to_vec());
        drop(page);
        if let Some((_, txn)) = wait {
            if let Some(key) = resume {
                self.position = Position::Key(key);
            }
            if batch.is_empty() {
                view.wait_for(txn)?;
                return Ok(false);
            }
        } else if start > 0 {
            self.position = Position::End;
        } else {
            self.position = first.map_or(Position::End, Position::Key);
        }
        self.lock_batch(batch)?;
        Ok(true)
    }

    /// REPEATABLE READ: locks what was found and reads it again under the locks.
    fn lock_batch(&mut self, batch: &mut Batch) -> Result<()> {
        if self.view.isolation() != Isolation::RepeatableRead || batch.is_empty() {
            return Ok(());
        }
        let mut locked = Batch::new();
        for i in 0..batch.len() {
            // `get` takes the key lock first.
            if let Some(entry) = self.tree.get(&self.view, batch.key(i))? {
                locked.push(batch.key(i), &entry.payload, entry.stamp);
            }
        }
        std::mem::swap(batch, &mut locked);
        Ok(())
    }
}

/// Smallest key that a descent for the lower bound has to look for.
fn low_key(low: &Bound) -> Vec<u8> {
    match low {
        Bound::Unbounded => Vec::new(),
        Bound::Included(b)
        | Bound::Excluded(b)
        | Bound::PrefixIncluded(b)
        | Bound::PrefixExcluded(b) => b.clone(),
    }
}

/// Copies what the view sees of `slots`. Stops at an entry whose writer must be waited for.
fn fill(
    tree: &Tree,
    view: &ReadView,
    page: &Page,
    slots: impl Iterator<Item = usize>,
    batch: &mut Batch,
) -> Result<Option<(usize, daruma_base::TxnId)>> {
    for slot in slots {
        match tree.judge(view, page, slot) {
            Seen::Visible(stamp, None) => {
                let entry = page.leaf(slot);
                batch.push(entry.key, entry.payload, stamp);
            }
            Seen::Visible(stamp, Some(payload)) => batch.push(page.key(slot), &payload, stamp),
            Seen::Invisible => {}
            Seen::Wait(txn) => return Ok(Some((slot, txn))),
            Seen::Failed(error) => return Err(error),
        }
    }
    Ok(None)
}

impl Tree {
    /// The last leaf with an entry inside the upper bound, and the slot behind that entry.
    fn leaf_before<'a>(
        &self,
        db: &'a Database,
        high: &Bound,
    ) -> Result<Option<(PageRead<'a>, usize)>> {
        let mut high = high.clone();
        for _ in 0..1_000_000 {
            let mut fence: Option<Vec<u8>> = None;
            let mut page = self.read_page(db, self.id.0)?;
            for _ in 0..super::DEPTH_MAX {
                if page.is_leaf() {
                    break;
                }
                let slot = end_slot(&page, &high).max(1) - 1;
                if slot > 0 {
                    fence = Some(page.key(slot).to_vec());
                }
                page = self.read_page(db, page.child(slot))?;
            }
            let end = end_slot(&page, &high);
            if end > 0 {
                return Ok(Some((page, end)));
            }
            // Nothing here: go on left of this page's lower fence.
            match fence {
                Some(fence) => high = Bound::Excluded(fence),
                None => return Ok(None),
            }
        }
        Err(self.damaged(db, self.id.0, "the tree has no end"))
    }
}
