//! B+trees: finding, reading and changing entries by key.
//!
//! Theory: the root never moves. Descents latch parent before child and let go of the parent then (latch coupling);
//! writers latch the leaf exclusively. When a leaf has no room, the writer lets go of everything and calls for a split
//! under the tree's structure latch: one structure change at a time per tree, each one atomic log record. There are no
//! pointers to the left; a backward scan finds the page before by descending again.
//!
//! Invariants
//! 1. A child pointer is followed only while its parent is latched, except along `next`, where the reader checks that
//!    no page was unlinked meanwhile (`unlinks`).
//! 2. Entries below a separator are in the child left of it, the others right of it.
//! 3. A leaf entry is removed only when no reader can need it, or by the rollback of its own insert.
//!
//! 4. A snapshot taken before the tree's creator committed reads nothing of it: the rows of a rebuilt index are as of
//!    its making, not as of the snapshot.
//!
//! Files: `scan` (reading ranges), `lock_row` (reading under a lock), `wait` (for entries of others), `ranges` (locks on
//! them), `key_locks` (their number), `write` (changing entries), `shape` (splits, purging, unlinking), `space` (freeing
//! a whole tree), `room` (what leaves keep for those who may take changes back), `relocate` (moving pages to other files),
//! `uses` (how often).

pub mod figures;
mod key_locks;
mod lock_row;
mod ranges;
mod relocate;
mod room;
mod sample;
mod scan;
mod shape;
mod space;
mod uses;
mod wait;
mod write;

pub(crate) use key_locks::CountedKey;
pub use lock_row::RowLock;
pub(crate) use relocate::{Onward, WayOut};
pub(crate) use room::ShrinkNotes;
pub use scan::Scan;
pub(crate) use space::{clear_bits, free_last_page};
pub use uses::TreeUse;

use crate::api::{Batch, Entry, Stamp, TreeId};
use crate::buffer::{PageRead, PageWrite};
use crate::database::Database;
use crate::error::{Result, StorageError};
use crate::page::{Head, Page, PageType};
use crate::planted::{Bug, planted};
use crate::sync::Mutex;
use crate::txn::{ReadView, Sight};
use daruma_base::{Lsn, PageId, TxnId};
use key_locks::KeyLocks;
use ranges::Ranges;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Deeper than any tree that fits a database: a longer descent means a damaged tree.
const DEPTH_MAX: usize = 24;
/// Trees with at most so many leaves are counted exactly when their size is first asked for.
const COUNTED_LEAVES_MAX: i64 = 20_000;

/// A missing version is looked for again this often before the entry counts as damaged.
const VERSION_LOOKS_MAX: usize = 1_000;

/// A B+tree.
pub struct Tree {
    id: TreeId,
    db: Weak<Database>,
    /// The transaction that made it since the database was opened: no older snapshot is left from before that.
    creator: TxnId,
    /// Structure changes, one at a time.
    shape: Mutex<()>,
    /// Pages unlinked so far: a reader between pages that finds it changed starts again from its key.
    unlinks: AtomicU64,
    /// On a secondary, the position of the log from which on it is another node's to free: snapshots from there on do not read it.
    dropped_at: AtomicU64,
    /// On a secondary: pages of it are free, or another's.
    is_freed: AtomicBool,
    key_locks: KeyLocks,
    ranges: Ranges,
    /// Live entries, -1 until first asked for.
    count: AtomicI64,
    pages: AtomicI64,
    uses: uses::Uses,
}

/// Judgement of a reader about an entry.
enum Seen {
    /// Use this payload; `None` takes the one on the page.
    Visible(Stamp, Option<Vec<u8>>),
    Invisible,
    Wait(Obstacle),
    /// The version that would decide cannot be read.
    Failed(StorageError),
}

/// Transaction or lock that a reader must wait for before it may judge an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    /// A transaction that wrote it and has not ended.
    Writer(TxnId),
    /// A lock on its key that keeps an update lock out.
    KeyLock,
    /// Another owner's range, read by one who means to write in it.
    Range(u64),
}

impl Tree {
    pub(crate) fn new(id: TreeId, db: Weak<Database>, creator: TxnId) -> Tree {
        Tree {
            id,
            db,
            creator,
            shape: Mutex::new(()),
            unlinks: AtomicU64::new(0),
            dropped_at: AtomicU64::new(u64::MAX),
            is_freed: AtomicBool::new(false),
            key_locks: KeyLocks::new(),
            ranges: Ranges::default(),
            count: AtomicI64::new(-1),
            pages: AtomicI64::new(-1),
            uses: uses::Uses::none(),
        }
    }

    /// Its root page, which never moves.
    pub fn id(&self) -> TreeId {
        self.id
    }

    /// A page leaves the tree; those that change with it are latched.
    pub(crate) fn note_unlinked(&self) {
        self.unlinks.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn note_dropped(&self, at: Lsn) {
        self.dropped_at.fetch_min(at.0, Ordering::AcqRel);
    }

    /// Its caller has latched what it is about to free.
    pub(crate) fn note_freed(&self) {
        self.is_freed.store(true, Ordering::Release);
    }

    /// Keeps the tree from splitting and shrinking: for a check that walks it.
    pub(crate) fn hold_shape(&self) -> crate::sync::MutexGuard<'_, ()> {
        self.shape.lock()
    }

    fn database(&self) -> Result<Arc<Database>> {
        self.db
            .upgrade()
            .ok_or(StorageError::NotOnline { state: "closed" })
    }

    fn damaged(&self, db: &Database, page: PageId, what: &str) -> StorageError {
        StorageError::DamagedPage {
            page,
            path: db.store().files.path(page.file),
            what: what.into(),
        }
        .within(self.id.0)
    }

    /// Page and slot of an entry, for messages about it.
    pub fn locate(&self, key: &[u8]) -> Result<Option<(PageId, usize)>> {
        let db = self.database()?;
        let leaf = self.leaf_read(&db, key)?;
        Ok(leaf.search(key).ok().map(|slot| (leaf.id(), slot)))
    }

    // --- statistics ---------------------------------------------------------------------------------------------

    /// Entries, without deleted ones; approximate.
    pub fn approximate_count(&self) -> u64 {
        self.estimate().0
    }

    /// Pages of the tree, approximately.
    pub fn approximate_pages(&self) -> u64 {
        self.estimate().1
    }

    fn estimate(&self) -> (u64, u64) {
        let (count, pages) = (
            self.count.load(Ordering::Relaxed),
            self.pages.load(Ordering::Relaxed),
        );
        if count >= 0 && pages >= 0 {
            return (count as u64, pages.max(1) as u64);
        }
        let (count, pages) = self
            .database()
            .and_then(|db| self.measure(&db))
            .unwrap_or((0, 1));
        self.count.store(count, Ordering::Relaxed);
        self.pages.store(pages, Ordering::Relaxed);
        (count as u64, pages as u64)
    }

    /// Live entries and pages: counted when the tree is not large, else estimated from the fan-out of one path.
    fn measure(&self, db: &Database) -> Result<(i64, i64)> {
        let (mut pages, mut width) = (1i64, 1i64);
        let mut id = self.id.0;
        for _ in 0..DEPTH_MAX {
            let page = self.read_page(db, id)?;
            if page.is_leaf() {
                let live = live_entries(db, &page);
                drop(page);
                return if width <= COUNTED_LEAVES_MAX {
                    Ok((self.count_live(db)?, pages))
                } else {
                    Ok((width * live, pages))
                };
            }
            width *= page.slots() as i64;
            pages += width;
            id = page.child(page.slots() / 2);
        }
        Err(self.damaged(db, id, "the tree is too deep"))
    }

    fn count_live(&self, db: &Database) -> Result<i64> {
        let mut page = self.leaf_read(db, &[])?;
        let mut live = live_entries(db, &page);
        // A leaf that is unlinked meanwhile ends the count early: the number is approximate anyway.
        for _ in 0..4 * COUNTED_LEAVES_MAX {
            let next = page.next();
            drop(page);
            if next.is_none() {
                break;
            }
            page = db.pool().read(db.store(), next)?;
            if page.page_type() != Some(PageType::Tree)
                || page.tree() != self.id.0
                || !page.is_leaf()
            {
                break;
            }
            live += live_entries(db, &page);
        }
        Ok(live)
    }

    pub(crate) fn add_count(&self, by: i64) {
        if self.count.load(Ordering::Relaxed) >= 0 {
            self.count.fetch_add(by, Ordering::Relaxed);
        }
    }

    fn add_pages(&self, by: i64) {
        if self.pages.load(Ordering::Relaxed) >= 0 {
            self.pages.fetch_add(by, Ordering::Relaxed);
        }
    }

    // --- descending ---------------------------------------------------------------------------------------------

    fn check_page(&self, db: &Database, page: &Page, id: PageId) -> Result<()> {
        self.check_kept()?;
        if page.page_type() == Some(PageType::Tree) && page.tree() == self.id.0 {
            return Ok(());
        }
        Err(self.damaged(db, id, "it does not belong to its tree"))
    }

    /// Fails with `YoungerThanSnapshot` when redo has begun to free its pages. Whoever holds the latch of a page and finds that it has
    /// not may read that page.
    fn check_kept(&self) -> Result<()> {
        match self.is_freed.load(Ordering::Acquire) {
            true => Err(StorageError::YoungerThanSnapshot),
            false => Ok(()),
        }
    }

    pub(crate) fn read_page<'a>(&self, db: &'a Database, id: PageId) -> Result<PageRead<'a>> {
        let page = db.pool().read(db.store(), id);
        let page = page.map_err(|e| self.check_kept().err().unwrap_or(e.within(self.id.0)))?;
        self.check_page(db, &page, id)?;
        Ok(page)
    }

    fn write_page<'a>(&self, db: &'a Database, id: PageId) -> Result<PageWrite<'a>> {
        let page = db.pool().write(db.store(), id);
        let page = page.map_err(|e| e.within(self.id.0))?;
        self.check_page(db, &page, id)?;
        Ok(page)
    }

    /// The leaf that covers `key`, latched for reading.
    pub(crate) fn leaf_read<'a>(&self, db: &'a Database, key: &[u8]) -> Result<PageRead<'a>> {
        let mut page = self.read_page(db, self.id.0)?;
        for _ in 0..DEPTH_MAX {
            if page.is_leaf() {
                return Ok(page);
            }
            page = self.read_page(db, page.child(page.child_slot(key)))?;
        }
        Err(self.damaged(db, page.id(), "the tree is too deep"))
    }

    /// The lowest key behind all that the leaf which covers `key` could hold; `None` behind the last leaf. It is always above `key`.
    pub(crate) fn key_behind(&self, db: &Database, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut behind = None;
        let mut page = self.read_page(db, self.id.0)?;
        for _ in 0..DEPTH_MAX {
            if page.is_leaf() {
                return Ok(behind);
            }
            let slot = page.child_slot(key);
            if slot + 1 < page.slots() {
                behind = Some(page.key(slot + 1).to_vec());
            }
            let child = page.child(slot);
            page = self.read_page(db, child)?;
        }
        Err(self.damaged(db, page.id(), "the tree is too deep"))
    }

    /// The leaf that covers `key`, latched for changing.
    fn leaf_write<'a>(&self, db: &'a Database, key: &[u8]) -> Result<PageWrite<'a>> {
        'again: loop {
            let mut page = self.read_page(db, self.id.0)?;
            if page.is_leaf() {
                drop(page);
                let page = self.write_page(db, self.id.0)?;
                if page.is_leaf() {
                    return Ok(page);
                }
                continue 'again;
            }
            for _ in 0..DEPTH_MAX {
                let child = page.child(page.child_slot(key));
                if page.level() == 1 {
                    // The parent stays latched until the child is.
                    let leaf = self.write_page(db, child)?;
                    return Ok(leaf);
                }
                page = self.read_page(db, child)?;
            }
            return Err(self.damaged(db, page.id(), "the tree is too deep"));
        }
    }

    // --- reading one entry --------------------------------------------------------------------------------------

    /// The entry with this key, as the view sees it.
    pub fn get(self: &Arc<Self>, view: &ReadView, key: &[u8]) -> Result<Option<Entry>> {
        self.look(view, key, |stamp, payload| Entry {
            payload: payload.to_vec(),
            stamp,
        })
    }

    /// Adds the entry with this key, as the view sees it, to a batch. False when there is none.
    pub fn get_into(
        self: &Arc<Self>,
        view: &ReadView,
        key: &[u8],
        batch: &mut Batch,
    ) -> Result<bool> {
        let found = self.look(view, key, |stamp, payload| batch.push(key, payload, stamp))?;
        Ok(found.is_some())
    }

    /// What `take` makes of the entry with this key, while its page is latched.
    fn look<T>(
        self: &Arc<Self>,
        view: &ReadView,
        key: &[u8],
        take: impl FnOnce(Stamp, &[u8]) -> T,
    ) -> Result<Option<T>> {
        let db = view.database();
        self.check_age(view)?;
        self.lock_for_reading(view, key)?;
        loop {
            let leaf = self.leaf_read(db, key)?;
            let seen = match leaf.search(key) {
                Ok(slot) => (self.judge(view, &leaf, slot), slot),
                // Nobody has an entry here, and one who means to make it may have read that.
                Err(slot) => match self.update_range(view, key) {
                    Some(owner) => (Seen::Wait(Obstacle::Range(owner)), slot),
                    None => (Seen::Invisible, slot),
                },
            };
            match seen {
                (Seen::Visible(stamp, payload), slot) => {
                    self.cover_key(view, key);
                    let payload = payload.as_deref().unwrap_or_else(|| leaf.payload(slot));
                    return Ok(Some(take(stamp, payload)));
                }
                (Seen::Invisible, _) => {
                    self.cover_key(view, key);
                    return Ok(None);
                }
                (Seen::Failed(error), _) => return Err(error),
                (Seen::Wait(obstacle), _) => {
                    drop(leaf);
                    self.wait_out(view, key, obstacle)?;
                }
            }
        }
    }

    /// May the view read this tree? Fails with `YoungerThanSnapshot` when its creator committed behind the snapshot, or, on a
    /// secondary, when it was dropped before.
    #[inline]
    pub fn check_age(&self, view: &ReadView) -> Result<()> {
        let dropped_at = Lsn(self.dropped_at.load(Ordering::Acquire));
        if view.position().is_some_and(|at| at >= dropped_at) {
            return Err(StorageError::YoungerThanSnapshot);
        }
        let is_old = self.creator < view.horizon() || !view.is_younger(self.creator);
        match is_old || planted(Bug::ReadYounger) {
            true => Ok(()),
            false => Err(StorageError::YoungerThanSnapshot),
        }
    }

    /// Judgement of the view about the entry in `slot`.
    fn judge(&self, view: &ReadView, leaf: &Page, slot: usize) -> Seen {
        let head = leaf.head(slot);
        if view.is_for_update()
            && let Some(obstacle) = self.kept_by_other(view, head.writer, || leaf.key(slot))
        {
            return Seen::Wait(obstacle);
        }
        match view.sees(head.writer) {
            Sight::Yes => shown(head, None),
            Sight::Wait => Seen::Wait(Obstacle::Writer(head.writer)),
            Sight::No => self.judge_versions(view, leaf, slot),
        }
    }

    /// Follows the version chain to the newest version the view sees.
    fn judge_versions(&self, view: &ReadView, leaf: &Page, slot: usize) -> Seen {
        let db = view.database();
        // A version that is gone belonged to a transaction that has become visible to everyone since: look again.
        for _ in 0..VERSION_LOOKS_MAX {
            let mut head = leaf.head(slot);
            let mut payload = None;
            loop {
                match view.sees(head.writer) {
                    Sight::Yes => return shown(head, payload),
                    Sight::Wait => return Seen::Wait(Obstacle::Writer(head.writer)),
                    Sight::No if head.version == 0 => return Seen::Invisible,
                    Sight::No => {}
                }
                match db.version(head.version) {
                    Ok(Some(version)) => {
                        head = version.head;
                        payload = Some(version.payload);
                    }
                    Ok(None) => break,
                    Err(error) => return Seen::Failed(error),
                }
            }
        }
        Seen::Failed(db.missing_version(leaf.id()))
    }
}

fn live_entries(db: &Database, leaf: &Page) -> i64 {
    let live = |slot: &usize| {
        let head = leaf.head(*slot);
        // An entry that an aborted transaction inserted is not there; one that it deleted or changed is there as before.
        match db.is_reverting(head.writer) {
            true => db.was_there_before(head),
            false => !head.is_deleted(),
        }
    };
    (0..leaf.slots()).filter(live).count() as i64
}

fn shown(head: Head, payload: Option<Vec<u8>>) -> Seen {
    if head.is_deleted() {
        return Seen::Invisible;
    }
    Seen::Visible(
        Stamp {
            txn: head.writer,
            version: head.version,
        },
        payload,
    )
}
