//! Background work: what transactions left behind is cleaned up, redo is kept short, checkpoints are written.
//!
//! Theory: whoever runs the engine calls [`Database::background_step`] again and again. Each step is short and may be taken by
//! several threads at once; what it cleans is looked at again under the latches that decide.

use super::Database;
use crate::api::*;
use crate::error::Result;
use crate::log::record::Space;
use crate::pause::pause;
use daruma_base::TxnId;

impl Database {
    /// One round of background work; true when there may be more to do at once.
    pub fn background_step(&self) -> Result<bool> {
        if !self.is_online() {
            return Ok(false);
        }
        self.flush_due()?;
        let mut busy = self.clean_versions()?;
        busy |= self.clean_dead()?;
        busy |= self.bound_redo()?;
        self.checkpoint_if_due()?;
        Ok(busy)
    }

    /// One round of reverting aborted transactions and freeing versions and dropped space; true when there may be more
    /// to do at once.
    pub fn clean_versions(&self) -> Result<bool> {
        let mut busy = self.free_pending()?;
        self.note_sweeps();
        busy |= self.revert_step()?;
        busy |= self.free_versions()?;
        self.note_sweeps();
        Ok(busy)
    }

    /// Frees what committed transactions dropped, once everyone sees them.
    pub(super) fn free_pending(&self) -> Result<bool> {
        self.advance_watermark();
        let ready: Vec<(TxnId, Space)> = {
            let pending = self.pending.lock();
            let settled = pending.iter().filter(|(id, _)| self.txns.is_settled(*id));
            settled.take(64).copied().collect()
        };
        pause("pending.chosen");
        for one in &ready {
            let _no_revert = self.reclaim.write();
            // Somebody else who cleans may have been here before, and the page may be another's by now.
            if !self.pending.lock().contains(one) {
                continue;
            }
            match one.1 {
                Space::Tree(root) => {
                    let tree = self.tree(TreeId(root))?;
                    // Before its last page can be the root of another tree.
                    self.trees.write().remove(&TreeId(root));
                    tree.free_all(self)?;
                    pause("tree.freed");
                }
                Space::Blob(first) => crate::blob::free(self, first)?,
            }
        }
        Ok(!ready.is_empty())
    }

    /// Removes deleted entries that nobody can see any more, and the leaves they leave empty.
    pub(crate) fn clean_dead(&self) -> Result<bool> {
        let batch: Vec<(TreeId, Vec<u8>)> = {
            let mut dead = self.dead.lock();
            let count = dead.len().min(256);
            dead.drain(..count).collect()
        };
        let (full, mut cleaned) = (batch.len() == 256, 0);
        for (id, key) in batch {
            let is_tree = self.is_tree(id).unwrap_or(false);
            if is_tree && !self.tree(id)?.clean(self, &key)? {
                self.dead.lock().push_back((id, key));
            } else {
                cleaned += 1;
            }
        }
        // What could not be cleaned waits for a snapshot to end: no use in trying again at once.
        Ok(full && cleaned > 0)
    }
}
