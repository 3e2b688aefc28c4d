//! Reading ranges: one leaf at a time, copied out so that no latch is held between steps.
//!
//! A serializable scan descends for each leaf instead of following `next`: so it knows where the leaf ends, and can lock
//! the range up to there while it has the leaf latched (`ranges`).

use super::ranges::{above, below};
use super::{Obstacle, Seen, Tree};
use crate::api::{Batch, Bound, Direction, Isolation, ScanSpec};
use crate::buffer::PageRead;
use crate::database::Database;
use crate::error::Result;
use crate::lock::ReadLock;
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
    /// At this key, where a leaf may begin.
    From(Vec<u8>),
    End,
}

/// A running scan. Holds no latch between steps; sees entries inserted or deleted meanwhile as its view allows.
pub struct Scan {
    tree: Arc<Tree>,
    view: ReadView,
    spec: ScanSpec,
    position: Position,
    /// A serializable scan, which locks the range that it has read.
    locks_range: bool,
}

impl Tree {
    /// A scan of the entries that `view` sees, leaf by leaf. Nothing is read before its first `next`.
    pub fn scan(self: &Arc<Self>, view: &ReadView, spec: ScanSpec) -> Scan {
        Scan {
            tree: self.clone(),
            view: view.clone(),
            spec,
            position: Position::Start,
            locks_range: false,
        }
    }

    /// Takes the lock that keeps a single key as it was read, where the isolation level asks for one. A serializable
    /// reader's range follows under the latch (`cover_key`).
    pub(super) fn lock_for_reading(self: &Arc<Self>, view: &ReadView, key: &[u8]) -> Result<()> {
        match view.isolation() {
            Isolation::RepeatableRead => self.lock_key(view, key),
            Isolation::Serializable => self.announce_ranges(view),
            _ => Ok(()),
        }
    }

    /// A shared (or stronger, if the view says so) lock on one key until the transaction ends.
    pub(super) fn lock_key(self: &Arc<Self>, view: &ReadView, key: &[u8]) -> Result<()> {
        let db = view.database();
        let mode = view.key_lock_mode();
        let lock = self.key_lock(db, key);
        if db.locks().keeps(view.owner(), &lock, mode) {
            return Ok(());
        }
        let counted = self.key_locks.add(key, mode);
        view.owner()
            .read_locks
            .lock()
            .push((self.clone(), ReadLock::Key(counted)));
        db.locks().acquire(view.owner(), &lock, mode)
    }

    /// Forgets what an owner whose transaction has ended kept here.
    pub(crate) fn release_read_lock(&self, owner: u64, kind: ReadLock) {
        match kind {
            ReadLock::Key(counted) => self.key_locks.remove(counted),
            ReadLock::Range => self.release_ranges(owner),
        }
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
        self.tree.check_age(&self.view)?;
        if self.view.isolation() == Isolation::Serializable && !self.locks_range {
            self.tree.announce_ranges(&self.view)?;
            self.locks_range = true;
        }
        while !matches!(self.position, Position::End) {
            let more = match (self.spec.direction, self.locks_range) {
                (Direction::Forward, false) => self.step_forward(batch)?,
                (Direction::Forward, true) => self.step_forward_locking(batch)?,
                (Direction::Backward, _) => self.step_backward(batch)?,
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
        let wait = wait.map(|(slot, obstacle)| {
            let before = (slot > start).then(|| page.key(slot - 1).to_vec());
            (before, page.key(slot).to_vec(), obstacle)
        });
        drop(page);
        if let Some((before, key, obstacle)) = wait {
            if let Some(before) = before {
                self.position = Position::Key(before);
            }
            if batch.is_empty() {
                tree.wait_out(&view, &key, obstacle)?;
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
            Position::Start | Position::From(_) | Position::End => None,
        }
    }

    /// As `step_forward`, adding what is read to the scan's range.
    fn step_forward_locking(&mut self, batch: &mut Batch) -> Result<bool> {
        let tree = self.tree.clone();
        let view = self.view.clone();
        let db = view.database();
        let low = &self.spec.low;
        let (page, fence, start) = match &self.position {
            Position::Key(after) => {
                let (page, fence) = tree.leaf_with_fence(db, after)?;
                let start = partition(&page, |key| key <= after.as_slice());
                (page, fence, start)
            }
            Position::From(from) => {
                let (page, fence) = tree.leaf_with_fence(db, from)?;
                let start = partition(&page, |key| key < from.as_slice());
                (page, fence, start)
            }
            _ => {
                let (page, fence) = tree.leaf_with_fence(db, &low_key(low))?;
                (page, fence, 0)
            }
        };
        let start = start.max(first_slot(&page, low));
        let end = end_slot(&page, &self.spec.high).max(start);
        let wait = fill(&tree, &view, &page, start..end, batch)?;
        let Some((slot, obstacle)) = wait else {
            let inside = end == page.slots();
            match fence.filter(|f| inside && below(f, &self.spec.high)) {
                Some(fence) => {
                    self.cover(self.spec.low.clone(), Bound::Excluded(fence.clone()));
                    self.position = Position::From(fence);
                }
                None => {
                    self.cover(self.spec.low.clone(), self.spec.high.clone());
                    self.position = Position::End;
                }
            }
            return Ok(true);
        };
        let key = page.key(slot).to_vec();
        if slot > start {
            let before = page.key(slot - 1).to_vec();
            self.cover(self.spec.low.clone(), Bound::Included(before.clone()));
            self.position = Position::Key(before);
        }
        drop(page);
        if batch.is_empty() {
            tree.wait_out(&view, &key, obstacle)?;
        }
        Ok(!batch.is_empty())
    }

    /// Widens the scan's range. A leaf at its new end is latched.
    fn cover(&mut self, low: Bound, high: Bound) {
        if self.locks_range {
            self.tree.cover(&self.view, (low, high));
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
                let next =
                    next.map_err(|e| tree.check_kept().err().unwrap_or(e.within(tree.id().0)))?;
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
            Position::Start | Position::From(_) | Position::End => {
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
        let Some((page, end, fence)) = self.leaf_before(&tree, db, limit)? else {
            self.position = Position::End;
            return Ok(true);
        };
        let start = first_slot(&page, &self.spec.low).min(end);
        let wait = fill(&tree, &view, &page, (start..end).rev(), batch)?;
        let first = (start < end).then(|| page.key(start).to_vec());
        let Some((slot, obstacle)) = wait else {
            let left = fence.filter(|f| start == 0 && above(f, &self.spec.low));
            self.cover_backward(left.as_ref());
            self.position = match (self.locks_range, start) {
                // Its next leaf is the one left of the fence.
                (true, _) => left.map_or(Position::End, Position::Key),
                (false, 0) => first.map_or(Position::End, Position::Key),
                (false, _) => Position::End,
            };
            drop(page);
            self.lock_batch(batch)?;
            return Ok(true);
        };
        let key = page.key(slot).to_vec();
        if slot + 1 < end {
            let behind = page.key(slot + 1).to_vec();
            self.cover_backward(Some(&behind));
            self.position = Position::Key(behind);
        }
        drop(page);
        if batch.is_empty() {
            tree.wait_out(&view, &key, obstacle)?;
            return Ok(false);
        }
        self.lock_batch(batch)?;
        Ok(true)
    }

    /// Widens the range of a backward scan down to a key, or to its end.
    fn cover_backward(&mut self, down_to: Option<&Vec<u8>>) {
        let low = match down_to.filter(|key| above(key, &self.spec.low)) {
            Some(key) => Bound::Included(key.clone()),
            None => self.spec.low.clone(),
        };
        self.cover(low, self.spec.high.clone());
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
) -> Result<Option<(usize, Obstacle)>> {
    for slot in slots {
        match tree.judge(view, page, slot) {
            Seen::Visible(stamp, None) => {
                let entry = page.leaf(slot);
                batch.push(entry.key, entry.payload, stamp);
            }
            Seen::Visible(stamp, Some(payload)) => batch.push(page.key(slot), &payload, stamp),
            Seen::Invisible => {}
            Seen::Wait(obstacle) => return Ok(Some((slot, obstacle))),
            Seen::Failed(error) => return Err(error),
        }
    }
    Ok(None)
}

/// A leaf, the slot behind its last entry that counts, and the fence at its lower end.
type LeafBefore<'a> = (PageRead<'a>, usize, Option<Vec<u8>>);

impl Scan {
    /// The last leaf with an entry inside the upper bound. Empty ones on the way join the range of a serializable scan.
    fn leaf_before<'a>(
        &mut self,
        tree: &Tree,
        db: &'a Database,
        mut high: Bound,
    ) -> Result<Option<LeafBefore<'a>>> {
        for _ in 0..1_000_000 {
            let mut fence: Option<Vec<u8>> = None;
            let mut page = tree.read_page(db, tree.id.0)?;
            for _ in 0..super::DEPTH_MAX {
                if page.is_leaf() {
                    break;
                }
                let slot = end_slot(&page, &high).max(1) - 1;
                if slot > 0 {
                    fence = Some(page.key(slot).to_vec());
                }
                page = tree.read_page(db, page.child(slot))?;
            }
            let end = end_slot(&page, &high);
            if end > 0 {
                return Ok(Some((page, end, fence)));
            }
            self.cover_backward(fence.as_ref());
            // Nothing here: go on left of this page's lower fence.
            match fence {
                Some(fence) => high = Bound::Excluded(fence),
                None => return Ok(None),
            }
        }
        Err(tree.damaged(db, tree.id.0, "the tree has no end"))
    }
}

impl Tree {
    /// The leaf that covers `key`, and the lowest key that belongs to the leaf behind it.
    fn leaf_with_fence<'a>(
        &self,
        db: &'a Database,
        key: &[u8],
    ) -> Result<(PageRead<'a>, Option<Vec<u8>>)> {
        let mut page = self.read_page(db, self.id.0)?;
        let mut fence = None;
        for _ in 0..super::DEPTH_MAX {
            if page.is_leaf() {
                return Ok((page, fence));
            }
            let slot = page.child_slot(key);
            if slot + 1 < page.slots() {
                fence = Some(page.key(slot + 1).to_vec());
            }
            page = self.read_page(db, page.child(slot))?;
        }
        Err(self.damaged(db, page.id(), "the tree is too deep"))
    }
}
