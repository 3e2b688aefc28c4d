//! Kept room: free bytes of a leaf that only what is taken back may use, so that neither rollback nor recovery needs a page.
//!
//! Theory: an entry that a transaction makes shorter must be able to get its bytes back for as long as the transaction may be
//! undone. How many that are is told by the versions which the entry leads to: the longest one down to the state that was
//! committed. So nothing has to be remembered, moved by a split or rebuilt by a restart. When a transaction makes shorter what it
//! wrote itself and what is longer than all versions, it adds a version of that too: a savepoint may lie there. A deleted
//! entry keeps its bytes anyway. A change that would eat into kept room splits the leaf, forwards, where failing does no harm.
//!
//! Looking at all entries of a leaf is too much for each insert. [`ShrinkNotes`] know a bound for each leaf, which is 0 for nearly all:
//! the bytes by which transactions that may not have ended made entries shorter. Leaves share notes by chance, which makes a bound too
//! large, never too small. An old snapshot keeps all that was noted since; so what a look at the entries has found is remembered for one
//! leaf of each note, and holds until entries of it are made shorter again, or one goes back to a shorter state.
//!
//! Invariants
//! 1. Free bytes of a leaf >= sum of what its entries may take back. Files from before there was kept room may break it: what is
//!    taken back may still split a leaf, in a file that grows past its limits.
//! 2. A thread that takes bytes of a leaf holds its latch, and has asked here. A commit may only set room free meanwhile.
//! 3. What is remembered of a leaf changes under its latch, or is forgotten for another leaf.
//!
//! Tests: tests/kept_room.rs

use super::Tree;
use crate::database::Database;
use crate::error::Result;
use crate::page::Page;
use crate::planted::{Bug, planted};
use crate::status::TxnStatus;
use daruma_base::{PageId, TxnId};
use std::sync::atomic::{AtomicU64, Ordering};

const NOTES: usize = 4_096;
/// A bound that says only: look.
const UNKNOWN: u64 = u16::MAX as u64;

/// For each leaf a bound for its kept room.
pub(crate) struct ShrinkNotes {
    /// The newest transaction that made an entry shorter (48 bits), and by how many bytes all have (16 bits).
    notes: Box<[AtomicU64]>,
    /// For each note a leaf that was looked through (48 bits), and how many bytes it keeps at most (16 bits).
    found: Box<[AtomicU64]>,
    /// Leaves looked through.
    looks: AtomicU64,
    /// Of transactions below nothing is noted.
    known_from: AtomicU64,
}

impl Default for ShrinkNotes {
    fn default() -> ShrinkNotes {
        let zeros = || (0..NOTES).map(|_| AtomicU64::new(0)).collect();
        ShrinkNotes {
            notes: zeros(),
            found: zeros(),
            looks: AtomicU64::new(0),
            known_from: AtomicU64::new(0),
        }
    }
}

impl ShrinkNotes {
    /// A restart knows nothing of transactions below `next`.
    pub fn forget_before(&self, next: u64) {
        self.known_from.store(next, Ordering::Release);
    }

    fn note_of(&self, leaf: PageId) -> Option<&AtomicU64> {
        self.notes.get(place_of(leaf))
    }

    /// What a look at the leaf has found, if nobody has forgotten it since.
    fn found(&self, leaf: PageId) -> Option<u64> {
        let found = self.found.get(place_of(leaf))?.load(Ordering::Acquire);
        (found >> 16 == leaf.to_u64()).then_some(found & UNKNOWN)
    }

    /// Changes what is remembered of the leaf, if anything is.
    fn change_found(&self, leaf: PageId, change: impl Fn(u64) -> u64) {
        let Some(found) = self.found.get(place_of(leaf)) else {
            return;
        };
        let changed = |old: u64| {
            let is_of_leaf = old >> 16 == leaf.to_u64();
            is_of_leaf.then(|| change(old))
        };
        let _ = found.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed);
    }

    /// A look at the entries of the latched leaf has found what it keeps.
    fn learn(&self, leaf: PageId, kept: usize) {
        if let Some(found) = self.found.get(place_of(leaf)) {
            let kept = (kept as u64).min(UNKNOWN);
            found.store(leaf.to_u64() << 16 | kept, Ordering::Release);
        }
    }

    /// Entries of the latched leaf go back to what they were, maybe to a shorter state: it may keep more than was found.
    pub fn forget_found(&self, leaf: PageId) {
        if self.found(leaf).is_some() {
            self.change_found(leaf, |_| 0);
        }
    }

    /// A transaction makes entries of the leaf, which is latched, shorter. All below `base` have ended.
    pub fn add(&self, leaf: PageId, txn: TxnId, bytes: usize, base: TxnId) {
        let Some(note) = self.note_of(leaf) else {
            return;
        };
        let added = |old: u64| {
            let (newest, kept) = match old >> 16 {
                ended if ended < base.0 => (0, 0),
                newest => (newest, old & UNKNOWN),
            };
            Some(newest.max(txn.0) << 16 | (kept + bytes as u64).min(UNKNOWN))
        };
        let _ = note.fetch_update(Ordering::AcqRel, Ordering::Acquire, added);
        self.change_found(leaf, |found| {
            let kept = (found & UNKNOWN) + bytes as u64;
            found & !UNKNOWN | kept.min(UNKNOWN)
        });
    }

    /// Entries of the leaf `from` go to the leaf `to`, which had none; both are latched.
    pub fn copy(&self, from: PageId, to: PageId, base: TxnId) {
        self.forget_found(to);
        let old = self.note_of(from).map(|note| note.load(Ordering::Acquire));
        if let Some(old) = old.filter(|old| old >> 16 >= base.0) {
            self.add(to, TxnId(old >> 16), (old & UNKNOWN) as usize, base);
        }
    }

    /// No more than this is kept on the leaf.
    #[inline]
    fn bound(&self, leaf: PageId, base: TxnId) -> usize {
        match self.noted(leaf, base) {
            0 => 0,
            noted => self
                .found(leaf)
                .map_or(noted, |found| noted.min(found as usize)),
        }
    }

    #[inline]
    fn noted(&self, leaf: PageId, base: TxnId) -> usize {
        if base.0 < self.known_from.load(Ordering::Acquire) {
            return UNKNOWN as usize;
        }
        let note = self.note_of(leaf);
        let note = note.map_or(0, |note| note.load(Ordering::Acquire));
        match note >> 16 < base.0 {
            true => 0,
            false => (note & UNKNOWN) as usize,
        }
    }
}

impl Tree {
    /// No more than this is kept on the leaf; 0 for nearly all.
    #[inline]
    pub(super) fn kept_bytes_max(&self, db: &Database, leaf: PageId) -> usize {
        db.shrink_notes().bound(leaf, db.txns().base())
    }

    /// Bytes that entries of the latched leaf may take back. It is remembered with `planned` bytes more, which changes that were noted and not
    /// yet made will add.
    pub(super) fn kept_bytes(&self, db: &Database, leaf: &Page, planned: usize) -> Result<usize> {
        let notes = db.shrink_notes();
        notes.looks.fetch_add(1, Ordering::Relaxed);
        let bound = self.kept_bytes_max(db, leaf.id());
        let (mut kept, mut last) = (0, (TxnId::NONE, false));
        for slot in 0..leaf.slots() {
            let head = leaf.head(slot);
            if head.version == 0 {
                continue;
            }
            // Neighbours often have one writer.
            if head.writer != last.0 {
                last = (head.writer, may_be_undone(db, head.writer));
            }
            if last.1 {
                kept += self.kept_bytes_of(db, leaf, slot)?;
            }
        }
        debug_assert!(
            kept <= bound,
            "page {} keeps {kept} bytes, and at most {bound} were noted",
            leaf.id()
        );
        notes.learn(leaf.id(), kept + planned);
        Ok(kept)
    }

    /// Bytes that one entry may take back.
    pub(super) fn kept_bytes_of(&self, db: &Database, leaf: &Page, slot: usize) -> Result<usize> {
        let mut head = leaf.head(slot);
        if head.version == 0 || planted(Bug::BuryForLosers) || planted(Bug::TakeKeptRoom) {
            return Ok(0);
        }
        let now = leaf.payload(slot).len();
        let mut longest = now;
        while head.version != 0 && may_be_undone(db, head.writer) {
            let Some(version) = db.version(head.version)? else {
                // One that is gone belonged to a transaction that has committed meanwhile.
                match may_be_undone(db, head.writer) {
                    true => return Err(db.missing_version(leaf.id())),
                    false => break,
                }
            };
            longest = longest.max(version.payload.len());
            head = version.head;
        }
        Ok(longest - now)
    }

    /// Are there `bytes` on the leaf for somebody who takes nothing back?
    pub(super) fn has_room(&self, db: &Database, leaf: &Page, bytes: usize) -> Result<bool> {
        let free = leaf.free_bytes();
        if free < bytes {
            return Ok(false);
        }
        let bound = self.kept_bytes_max(db, leaf.id());
        Ok(free - bytes >= bound || free - bytes >= self.kept_bytes(db, leaf, 0)?)
    }

    /// Bytes of the longest version that an entry of this very transaction leads to at once; no other of its versions is longer.
    pub(super) fn longest_version(&self, db: &Database, locator: u64) -> Result<usize> {
        let version = match locator {
            0 => None,
            locator => db.version(locator)?,
        };
        Ok(version.map_or(0, |version| version.payload.len()))
    }
}

fn place_of(leaf: PageId) -> usize {
    let hash = leaf.to_u64().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
    hash as usize % NOTES
}

/// Is there anything that could bring back what was before the writer's change?
fn may_be_undone(db: &Database, writer: TxnId) -> bool {
    writer >= db.txns().base()
        && match db.txns().status(writer) {
            TxnStatus::Active | TxnStatus::Awaited(_) | TxnStatus::Aborted => true,
            TxnStatus::Committed(_) => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_counts_until_the_newest_transaction_of_it_has_ended() {
        let notes = ShrinkNotes::default();
        let (leaf, right) = (PageId::new(1, 200), PageId::new(1, 201));
        assert_eq!(notes.bound(leaf, TxnId(5)), 0);
        notes.add(leaf, TxnId(7), 100, TxnId(5));
        notes.add(leaf, TxnId(6), 20, TxnId(6));
        assert_eq!(notes.bound(leaf, TxnId(7)), 120);
        notes.copy(leaf, right, TxnId(7));
        assert_eq!(notes.bound(right, TxnId(7)), 120);
        assert_eq!(notes.bound(leaf, TxnId(8)), 0, "both have ended");
        notes.copy(leaf, right, TxnId(8));
        notes.add(leaf, TxnId(9), 3, TxnId(8));
        assert_eq!(notes.bound(leaf, TxnId(8)), 3);
        assert_eq!(notes.bound(right, TxnId(8)), 0);
        notes.add(leaf, TxnId(9), 100_000, TxnId(8));
        assert_eq!(notes.bound(leaf, TxnId(8)), UNKNOWN as usize);
    }

    #[test]
    fn what_a_look_has_found_holds_until_entries_change_back() {
        let notes = ShrinkNotes::default();
        let (leaf, base) = (PageId::new(1, 200), TxnId(5));
        notes.add(leaf, TxnId(7), 100, base);
        notes.learn(leaf, 30);
        assert_eq!(notes.bound(leaf, base), 30);
        notes.add(leaf, TxnId(8), 50, base);
        assert_eq!(notes.bound(leaf, base), 80);
        notes.forget_found(leaf);
        assert_eq!(notes.bound(leaf, base), 150);
        notes.learn(leaf, 30);
        notes.copy(PageId::new(1, 300), leaf, base);
        assert_eq!(notes.bound(leaf, base), 150, "it has other entries now");
        notes.learn(leaf, 100_000);
        assert_eq!(notes.bound(leaf, base), 150);
        let is_beside = |other: &PageId| place_of(*other) == place_of(leaf) && *other != leaf;
        let beside = (0..).map(|n| PageId::new(1, n)).find(is_beside);
        let beside = beside.expect("a leaf of the same note");
        notes.learn(leaf, 30);
        assert_eq!(notes.bound(beside, base), 150, "of another leaf");
        notes.learn(beside, 0);
        assert_eq!(notes.bound(leaf, base), 150);
    }

    /// An old snapshot keeps everything noted, long after the transactions have ended.
    #[test]
    fn a_leaf_is_not_looked_through_by_each_insert() {
        use crate::*;
        let disk = daruma_sim::SimDisk::new(1);
        let engine = Engine::new(daruma_sim::env(&disk, 1), EngineConfig::default());
        let files = vec![
            FileSpec::data(1, 1, "/t.mdf", 256),
            FileSpec::log("/t_log.ldf", 256),
        ];
        let db = engine
            .create_database(daruma_base::DatabaseId(5), "t", files, Settings::default())
            .expect("creates");
        let owners: Vec<_> = (0..3)
            .map(|id| Owner::new(id, Default::default()))
            .collect();
        let txn = db.begin(&owners[0]);
        let tree = db.create_tree(&txn, 1).expect("tree");
        let rows = db.tree(tree).expect("tree");
        for key in 0..200u32 {
            let key = (key * 1_000).to_be_bytes();
            rows.insert(&txn, &key, &[1; 400]).expect("inserts");
        }
        txn.commit(Durability::Full).expect("commits");
        let old = db.begin(&owners[1]);
        let _snapshot = old.view(Isolation::Snapshot);
        for byte in 0..20u8 {
            let txn = db.begin(&owners[2]);
            for key in 0..200u32 {
                let key = (key * 1_000).to_be_bytes();
                let view = txn.view(Isolation::Current);
                let found = rows.get(&view, &key).expect("reads").expect("is there");
                let bytes = if byte % 2 == 0 { 20 } else { 400 };
                let payload = vec![byte; bytes];
                rows.update(&txn, &key, found.stamp, &payload)
                    .expect("updates");
            }
            txn.commit(Durability::Full).expect("commits");
        }
        let looks = || db.shrink_notes().looks.load(Ordering::Relaxed);
        let (before, pages) = (looks(), rows.approximate_pages());
        for n in 1..21 {
            for key in 0..200u32 {
                let txn = db.begin(&owners[2]);
                let key = (key * 1_000 + n).to_be_bytes();
                rows.insert(&txn, &key, &[3; 20]).expect("inserts");
                txn.commit(Durability::Full).expect("commits");
            }
        }
        // One for each leaf, and some when it fills.
        let (looked, pages) = (looks() - before, pages.max(rows.approximate_pages()));
        assert!(looked <= 4 * pages, "{looked} looks for {pages} pages");
    }

    #[test]
    fn what_a_restart_left_is_unknown_until_it_has_ended() {
        let notes = ShrinkNotes::default();
        let leaf = PageId::new(1, 200);
        notes.forget_before(10);
        assert_eq!(notes.bound(leaf, TxnId(9)), UNKNOWN as usize);
        assert_eq!(notes.bound(leaf, TxnId(10)), 0);
    }
}
