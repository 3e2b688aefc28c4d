//! Background work: what transactions left behind is cleaned up, redo is kept short, checkpoints are written.
//!
//! Theory: whoever runs the engine calls [`Database::background_step`] again and again. Each step is short and may be taken by
//! several threads at once; what it cleans is looked at again under the latches that decide. Each part runs whatever came of
//! the others (`failures`).

use super::Database;
use super::failures::{Round, Task};
use crate::api::*;
use crate::error::Result;
use crate::log::record::Space;
use crate::pause::pause;
use crate::planted::{Bug, planted};
use crate::status::After;
use crate::tree::Tree;
use daruma_base::TxnId;
use std::time::Duration;

/// How long a step waits for commit participants before it leaves the pages to a later one.
pub(super) const PARTICIPANTS_WAIT: Duration = Duration::from_millis(100);

impl Database {
    /// One round of background work; true when there may be more to do at once. An error is the first of the round: the
    /// other parts have run all the same.
    pub fn background_step(&self) -> Result<bool> {
        let Some(_open) = self.stay_open() else {
            return Ok(false);
        };
        let mut round = Round::default();
        round.add(self.attempt(Task::DelayedCommits, || self.flush_due().map(|_| false)));
        round.add(self.undo_step());
        round.add(self.clean_versions());
        round.add(self.aside_step());
        round.add(self.clean_dead());
        if self.may_write_pages() {
            round.add(self.attempt(Task::BoundRedo, || self.bound_redo()));
            round.add(self.attempt(Task::Rest, || self.use_quiet()));
            round.add(self.attempt(Task::Checkpoint, || self.checkpoint_if_due()));
        }
        round.add(self.attempt(Task::RestLog, || self.store.log.rest().map(|()| false)));
        round.add(self.attempt(Task::NoteHardened, || self.note_hardened().map(|()| false)));
        round.end()
    }

    /// No when a commit participant is slow: whoever writes pages would wait for it, and the other databases for this step. Nor
    /// in another node's copy, which makes no checkpoints.
    fn may_write_pages(&self) -> bool {
        let log = &self.store.log;
        if log.is_copy() {
            return false;
        }
        !log.has_participants() || log.settles_within(PARTICIPANTS_WAIT).unwrap_or(true)
    }

    /// One round of reverting aborted transactions and freeing versions and dropped space; true when there may be more
    /// to do at once.
    pub fn clean_versions(&self) -> Result<bool> {
        let Some(_open) = self.stay_open() else {
            return Ok(false);
        };
        let mut round = Round::default();
        round.add(self.free_pending());
        self.note_sweeps();
        round.add(self.revert_step());
        round.add(self.attempt(Task::FreeVersions, || self.free_versions()));
        self.note_sweeps();
        round.end()
    }

    /// Frees what committed transactions dropped, once everyone sees them, and what was rolled back, once nobody looks at it.
    pub(super) fn free_pending(&self) -> Result<bool> {
        self.advance_watermark();
        let ready: Vec<(After, Space)> = {
            let pending = self.pending.lock();
            let is_past = |after| self.txns.is_past(after) || planted(Bug::FreeUnsettled);
            let settled = pending.iter().filter(|(after, _)| is_past(*after));
            let due = settled.filter(|(_, space)| self.is_due(Task::FreeSpace(*space)));
            due.take(64).copied().collect()
        };
        pause("pending.chosen");
        let mut round = Round::default();
        for one in &ready {
            round.add(self.attempt(Task::FreeSpace(one.1), || self.free_one(one)));
        }
        round.end()
    }

    fn free_one(&self, one: &(After, Space)) -> Result<bool> {
        let _no_revert = self.reclaim.write();
        // Somebody else who cleans may have been here before, and the page may be another's by now.
        if !self.pending.lock().contains(one) {
            return Ok(true);
        }
        match one.1 {
            Space::Tree(root) => {
                // Before its last page can be the root of another tree. One that was followed here keeps readers out, and this as well.
                self.trees.write().remove(&TreeId(root));
                Tree::new(TreeId(root), self.me.clone(), TxnId::NONE).free_all(self)?;
                pause("tree.freed");
            }
            Space::Blob(first) => crate::blob::free(self, first)?,
        }
        Ok(true)
    }
}
