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
use daruma_base::{Lsn, PageId, TxnId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A commit of which only is known that everybody sees it.
const LONG_AGO: Lsn = Lsn(1);

pub(super) struct Readers {
    db: Arc<Database>,
    /// Is the table of states begun?
    are_told: AtomicBool,
    /// Definitions have changed since this was last taken.
    have_new_definitions: AtomicBool,
}

impl Readers {
    pub(super) fn new(db: &Arc<Database>) -> Readers {
        Readers {
            db: db.clone(),
            are_told: AtomicBool::new(false),
            have_new_definitions: AtomicBool::new(false),
        }
    }

    pub(super) fn are_told(&self) -> bool {
        self.are_told.load(Ordering::Acquire)
    }

    /// Were definitions changed since the last call?
    pub(super) fn take_new_definitions(&self) -> bool {
        self.have_new_definitions.swap(false, Ordering::AcqRel)
    }

    fn note_definitions(&self, ops: Option<Ops<'_>>) {
        if ops.is_some_and(|ops| ops.tree == CATALOG_ROOT) {
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
        self.are_told.store(true, Ordering::Release);
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
            Kind::Ops | Kind::Revert => self.note_definitions(Ops::parse(record.body)),
            Kind::Clr => {
                let ops = record::parse_clr(record.body).and_then(|(_, ops)| Ops::parse(ops));
                self.note_definitions(ops);
            }
            Kind::Owned => {
                if let Some(root) = tree_of(record) {
                    self.db.renew_tree(root, record.txn);
                }
            }
            Kind::FreeDone => {
                if let Some(root) = tree_of(record) {
                    self.db.forget_tree(root);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn unlinks(&self, tree: PageId) {
        self.db.note_unlinked(tree);
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
                    txns.committed(earlier.chain([record.txn]), lsn, false);
                }
            }
            Kind::End => txns.gone(record.txn),
            Kind::Abort => txns.reverting(record.txn),
            Kind::Forget if !tracker.is_open(record.txn) => txns.gone(record.txn),
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
