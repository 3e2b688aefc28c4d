//! What readers beside the replay are told: states of transactions, trees that are not what they were, versions they may need.
//!
//! Theory: the table of states is begun when the replay knows who is open, from there each record changes it as the primary did.
//! An id that no record has named yet is active, for its first record may still come: ids are given in order, and records are
//! written in another. A checkpoint lists every open id below its next one, so there what is not listed and has no record will
//! never have one.

use super::by_state;
use crate::bytes::Reader;
use crate::database::Database;
use crate::datafile::CATALOG_ROOT;
use crate::error::Result;
use crate::log::commit;
use crate::log::record::{self, Kind, Ops, Record, Space};
use crate::replay::{Beside, TxnTracker};
use crate::sync::Mutex;
use daruma_base::{Lsn, PageId, TxnId};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A commit of which only is known that everybody sees it.
const LONG_AGO: Lsn = Lsn(1);

pub(super) struct Readers {
    db: Arc<Database>,
    /// Is the table of states begun?
    are_told: AtomicBool,
    /// Transactions that have changed definitions, or may have, and have not ended.
    definers: Mutex<BTreeSet<TxnId>>,
    /// Definitions that were changed have been committed since this was last taken.
    have_new_definitions: AtomicBool,
    /// Trees whose pages the primary is going to free, or is freeing.
    dropped: Mutex<BTreeSet<PageId>>,
    /// Those of them that are wholly freed, the oldest first.
    freed: Mutex<VecDeque<PageId>>,
}

/// Trees that were freed last, of which readers are still told.
const FREED_MAX: usize = 4_096;

impl Readers {
    pub(super) fn new(db: &Arc<Database>) -> Readers {
        Readers {
            db: db.clone(),
            are_told: AtomicBool::new(false),
            definers: Mutex::default(),
            have_new_definitions: AtomicBool::new(false),
            dropped: Mutex::default(),
            freed: Mutex::default(),
        }
    }

    pub(super) fn are_told(&self) -> bool {
        self.are_told.load(Ordering::Acquire)
    }

    /// Have changes of definitions been committed since the last call?
    pub(super) fn take_new_definitions(&self) -> bool {
        self.have_new_definitions.swap(false, Ordering::AcqRel)
    }

    fn note_definitions(&self, txn: TxnId, ops: Option<Ops<'_>>) {
        let counts = self.are_told() && txn != TxnId::NONE;
        if counts && ops.is_some_and(|ops| ops.tree == CATALOG_ROOT) {
            self.definers.lock().insert(txn);
        }
    }

    /// The ids of one transaction that has committed.
    fn note_commit(&self, ids: impl Iterator<Item = TxnId>) {
        let mut definers = self.definers.lock();
        if definers.is_empty() {
            return;
        }
        let mut has_defined = false;
        for id in ids {
            has_defined |= definers.remove(&id);
        }
        if has_defined {
            self.have_new_definitions.store(true, Ordering::Release);
        }
    }

    /// Begins the table of states with what the log has said so far.
    pub(super) fn begin(&self, tracker: &TxnTracker) {
        let txns = self.db.txns();
        let (listed, next) = tracker.ids();
        let below = tracker.open().filter(|(id, _)| id.0 < listed);
        let (reverting, active) = by_state(below);
        txns.begin(listed, &reverting, &active);
        if next > listed {
            txns.follow(TxnId(next - 1));
        }
        for (id, has_committed) in tracker.ended().filter(|(id, _)| id.0 >= listed) {
            match has_committed {
                true => txns.committed([id].into_iter(), LONG_AGO, false),
                false => txns.gone(id),
            }
        }
        let above = tracker.open().filter(|(id, _)| id.0 >= listed);
        by_state(above)
            .0
            .into_iter()
            .for_each(|id| txns.reverting(id));
        // What they did before the replay began is not known.
        let open = tracker.open().map(|(id, _)| id);
        *self.definers.lock() = open.collect();
        self.are_told.store(true, Ordering::Release);
    }

    /// All pages of the tree are about to be free. Readers that look it up by definitions of before are told so, for a while.
    fn forget_freed(&self, root: PageId) {
        let mut freed = self.freed.lock();
        if freed.len() >= FREED_MAX
            && let Some(oldest) = freed.pop_front()
            && self.dropped.lock().remove(&oldest)
        {
            self.db.forget_tree(oldest);
        }
        freed.push_back(root);
    }

    /// Versions of chunks whose pages the log is about to free, as far as a snapshot may need them.
    fn keep_versions(&self, record: &Record<'_>) -> Result<()> {
        let freed = record::parse_versions_freed(record.body);
        for id in freed.into_iter().flat_map(|(chunks, _)| chunks) {
            if let Some(chunk) = self.db.versions().chunk(id)
                && !chunk.content.read().pages.is_empty()
            {
                self.db.take_off_pages(&chunk)?;
            }
        }
        Ok(())
    }
}

fn tree_of(record: &Record<'_>) -> Option<PageId> {
    match Space::read(&mut Reader::new(record.body))? {
        Space::Tree(root) => Some(root),
        Space::Blob(_) => None,
    }
}

impl Beside for Readers {
    fn before(&self, record: &Record<'_>) -> Result<()> {
        match record.kind {
            Kind::VersionsFreed => self.keep_versions(record)?,
            Kind::Ops | Kind::Revert => {
                self.note_definitions(record.txn, Ops::parse(record.body));
            }
            Kind::Clr => {
                let ops = record::parse_clr(record.body).and_then(|(_, ops)| Ops::parse(ops));
                self.note_definitions(record.txn, ops);
            }
            Kind::Owned => {
                if let Some(root) = tree_of(record) {
                    self.freed.lock().retain(|freed| *freed != root);
                    self.dropped.lock().remove(&root);
                    self.db.renew_tree(root, record.txn);
                }
            }
            Kind::FreeDone => {
                if let Some(root) = tree_of(record) {
                    self.unlinks(root);
                    self.forget_freed(root);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn unlinks(&self, tree: PageId) {
        self.db.note_unlinked(tree);
        self.rewrites(tree);
    }

    fn rewrites(&self, tree: PageId) {
        if self.dropped.lock().contains(&tree) {
            self.db.note_freed(tree);
        }
    }

    fn drops(&self, trees: Vec<PageId>, at: Lsn) {
        for root in trees {
            self.dropped.lock().insert(root);
            self.db.note_dropped(root, at);
        }
    }

    fn after(&self, lsn: Lsn, record: &Record<'_>, tracker: &TxnTracker) -> Result<()> {
        if !self.are_told() {
            return Ok(());
        }
        let txns = self.db.txns();
        if record.txn != TxnId::NONE {
            txns.follow(record.txn);
        }
        match record.kind {
            Kind::Commit => {
                // The tracker has read it.
                if let Some((_, earlier)) = commit::parse_commit(record) {
                    self.note_commit(earlier.chain([record.txn]));
                }
                if let Some((_, earlier)) = commit::parse_commit(record) {
                    txns.committed(earlier.chain([record.txn]), lsn, false);
                }
            }
            Kind::End => {
                self.definers.lock().remove(&record.txn);
                txns.gone(record.txn);
            }
            Kind::Abort => txns.reverting(record.txn),
            Kind::Forget if !tracker.is_open(record.txn) => {
                self.definers.lock().remove(&record.txn);
                txns.gone(record.txn);
            }
            Kind::Checkpoint if tracker.checkpoint_read().0 == lsn => {
                txns.forget_silent(tracker.ids().0, |id| tracker.may_be_open(id));
            }
            _ => {}
        }
        Ok(())
    }

    fn committed(&self, lsn: Lsn, chunks: Vec<u32>) {
        match self.are_told() {
            true => self.db.versions().commit(chunks, lsn.0),
            false => {
                self.db.versions().forget_chunks(&chunks);
                self.db.forget_aside(&chunks);
            }
        }
    }
}
