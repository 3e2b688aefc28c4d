//! Cleaning on demand: the parts of what the background does by itself, and visits to pages that it has no reason to visit.
//!
//! Theory: the background knows where there is something to clean: aborted transactions have lists of what they wrote,
//! versions belong to transactions, dead leaves were noted. So nothing is ever searched for. Somebody who does not believe
//! that, or wants the space of deleted entries that no scan and no split has met yet, can have every page visited.
//!
//! Tests: tests/cleaning.rs

use crate::api::TreeId;
use crate::database::Database;
use crate::error::Result;
use crate::tree::Tree;
use std::sync::Arc;

/// Leaves visited by one call.
const LEAVES_PER_STEP: usize = 256;

/// Which part of the row versions is cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanScope {
    /// Everything: aborted transactions, versions, space of what was dropped.
    All,
    /// Versions on their own pages, of transactions that everybody sees: dropped whole, no row is visited.
    OffRow,
    /// Rows: those of aborted transactions are put back, deleted ones that nobody can see go.
    InRow,
}

impl Database {
    /// One round of cleaning; true when there may be more to do at once.
    pub fn clean(&self, scope: CleanScope) -> Result<bool> {
        self.advance_watermark();
        match scope {
            CleanScope::All => self.clean_versions(),
            CleanScope::OffRow => {
                self.note_sweeps();
                let busy = self.free_versions()?;
                self.note_sweeps();
                Ok(busy)
            }
            CleanScope::InRow => {
                self.note_sweeps();
                let busy = self.revert_step()? | self.clean_dead()?;
                self.note_sweeps();
                Ok(busy)
            }
        }
    }

    /// Chunks of versions in existence, for [`Database::visit_versions`].
    pub fn version_chunks(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.versions().all_chunks().iter().map(|c| c.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Reads the pages of a chunk of versions, if it is still there and has some. An error says which one is damaged.
    pub fn visit_versions(&self, chunk: u32) -> Result<()> {
        // Its pages are not freed meanwhile.
        let _settled = self.versions().placing.lock();
        match self.versions().chunk(chunk) {
            Some(chunk) => self.read_version_pages(&chunk),
            None => Ok(()),
        }
    }

    /// Visits leaves of a tree from the key on, whatever is known of them. `Some(key)`: go on there.
    pub fn sweep_tree(&self, tree: TreeId, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let _no_reclaim = self.no_reclaim();
        if !self.is_tree(tree)? {
            return Ok(None);
        }
        self.tree(tree)?.sweep(self, from, Visitor::Caller)
    }

    /// As `sweep_tree`, for the background: what has to wait for a snapshot is noted. The same key again where somebody else keeps the
    /// shape of the tree.
    pub(crate) fn sweep_in_background(&self, tree: TreeId, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let _no_reclaim = self.no_reclaim();
        match self.is_tree(tree)? {
            true => self.tree(tree)?.sweep(self, from, Visitor::Background),
            false => Ok(None),
        }
    }
}

/// Somebody who has a tree swept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visitor {
    /// A caller that waits for others who change the tree.
    Caller,
    Background,
}

/// Work that a leaf needs.
struct Visited {
    has_aborted: bool,
    /// Deleted entries that nobody can see, or no entry at all.
    has_dead: bool,
    /// Nothing but deleted entries, some of which somebody may still see.
    is_pinned: bool,
}

impl Tree {
    /// At most `LEAVES_PER_STEP` leaves. No latch is held from one to the next: leaves that split meanwhile are visited
    /// by their keys.
    fn sweep(
        self: &Arc<Self>,
        db: &Database,
        from: &[u8],
        visitor: Visitor,
    ) -> Result<Option<Vec<u8>>> {
        let mut key = from.to_vec();
        for _ in 0..LEAVES_PER_STEP {
            let visited = self.visit(db, &key)?;
            if visited.has_aborted {
                self.revert_leaf_of(db, &key)?;
            }
            if visited.is_pinned && visitor == Visitor::Background {
                db.note_dead(self, key.clone());
            } else if visited.has_dead && !self.clean_for(db, &key, visitor)? {
                return Ok(Some(key));
            }
            match self.key_behind(db, &key)? {
                Some(next) => key = next,
                None => return Ok(None),
            }
        }
        Ok(Some(key))
    }

    /// False when the visitor has to come back.
    fn clean_for(&self, db: &Database, key: &[u8], visitor: Visitor) -> Result<bool> {
        match visitor {
            Visitor::Caller => self.clean(db, key).map(|_| true),
            Visitor::Background => Ok(self.clean_at_once(db, key)?.is_some()),
        }
    }

    fn visit(&self, db: &Database, key: &[u8]) -> Result<Visited> {
        let leaf = self.leaf_read(db, key)?;
        let mut visited = Visited {
            has_aborted: false,
            has_dead: leaf.slots() == 0 && leaf.id() != self.id().0,
            is_pinned: false,
        };
        let (mut deleted, mut settled) = (0, 0);
        for slot in 0..leaf.slots() {
            let head = leaf.head(slot);
            visited.has_aborted |= db.is_reverting(head.writer);
            deleted += usize::from(head.is_deleted());
            settled += usize::from(head.is_deleted() && db.txns().is_settled(head.writer));
        }
        visited.has_dead |= settled > 0;
        visited.is_pinned = deleted == leaf.slots() && settled < deleted;
        Ok(visited)
    }
}
