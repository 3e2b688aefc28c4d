//! Leaves that lost their last entry: what nobody can see in them is removed, and the leaves go back to their file.
//!
//! Theory: whoever empties a leaf, or leaves nothing but deleted entries in it, notes a key that it covers. The background looks at the
//! leaf again under its latches. Notes that find no place any more leave word that the whole tree has to be visited, which happens
//! once the others are worked off. What has to stay for a snapshot's sake is noted again.
//!
//! Bounds: `NOTES_MAX` notes, one key for each tree to be visited.
//! Tests: tests/cleaning.rs

use super::Database;
use super::failures::{Round, Task};
use crate::api::TreeId;
use crate::error::{Result, StorageError};
use crate::tree::Tree;
use daruma_base::reached;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Leaves noted at once; a tree that is rolled back whole can empty more.
const NOTES_MAX: usize = 100_000;
/// Leaves looked at in one step.
const LEAVES_PER_STEP: usize = 256;

/// Leaves to look at again.
#[derive(Default)]
pub(super) struct DeadLeaves {
    /// Tree and a key that the leaf covers, in the order of noting.
    noted: VecDeque<(TreeId, Vec<u8>)>,
    /// Trees with leaves that found no place among the noted ones, each visited from a key on.
    visits: BTreeMap<TreeId, Vec<u8>>,
}

impl DeadLeaves {
    fn note(&mut self, tree: TreeId, key: Vec<u8>) {
        if self.noted.len() < NOTES_MAX {
            self.noted.push_back((tree, key));
        } else {
            reached!("dead.tree_noted");
            // A visit under way begins anew: the leaf may lie before the place that it has reached.
            self.visits.insert(tree, Vec::new());
        }
    }

    /// A tree to visit, once few leaves wait.
    fn next_visit(&mut self, is_due: impl Fn(TreeId) -> bool) -> Option<(TreeId, Vec<u8>)> {
        if self.noted.len() >= LEAVES_PER_STEP {
            return None;
        }
        let tree = self.visits.keys().copied().find(|tree| is_due(*tree))?;
        self.visits.remove_entry(&tree)
    }

    /// The visit goes on at `key`, unless one was noted meanwhile, which begins at the first leaf.
    fn visit_from(&mut self, tree: TreeId, key: Vec<u8>) {
        self.visits.entry(tree).or_insert(key);
    }
}

impl Database {
    /// A leaf whose entries are all deleted was seen, or one from which a rollback has taken the last. `key`: one that it covers.
    pub(crate) fn note_dead(&self, tree: &Tree, key: Vec<u8>) {
        self.dead.lock().note(tree.id(), key);
    }

    /// Removes deleted entries that nobody can see any more, and the leaves they leave empty.
    pub(crate) fn clean_dead(&self) -> Result<bool> {
        let is_due = |tree| self.is_due(Task::RemoveDead(tree));
        let visit = self.dead.lock().next_visit(is_due);
        match visit {
            // One that has to wait keeps no others waiting.
            Some((tree, from)) => Ok(self.visit_for_dead(tree, from)? || self.clean_noted()?),
            None => self.clean_noted(),
        }
    }

    /// Visits some leaves of the tree; the rest of it, or all in a full log, is visited later.
    fn visit_for_dead(&self, tree: TreeId, from: Vec<u8>) -> Result<bool> {
        match self.sweep_in_background(tree, &from) {
            Ok(None) => {
                self.forget_if_failed(Task::RemoveDead(tree));
                Ok(true)
            }
            Ok(Some(next)) => {
                let has_moved = next != from;
                self.dead.lock().visit_from(tree, next);
                Ok(has_moved)
            }
            Err(error) => {
                self.dead.lock().visit_from(tree, from);
                // As for noted leaves, there will be room.
                if matches!(error, StorageError::LogFull { .. }) {
                    return Ok(false);
                }
                self.note_failure(Task::RemoveDead(tree), &error);
                Err(error)
            }
        }
    }

    fn clean_noted(&self) -> Result<bool> {
        let batch: Vec<(TreeId, Vec<u8>)> = {
            let noted = &mut self.dead.lock().noted;
            let count = noted.len().min(LEAVES_PER_STEP);
            noted.drain(..count).collect()
        };
        let full = batch.len() == LEAVES_PER_STEP;
        let (mut cleaned, mut failed) = (BTreeSet::new(), BTreeSet::new());
        let mut round = Round::default();
        let mut batch = batch.into_iter();
        while let Some((id, key)) = batch.next() {
            match self.clean_dead_leaf(id, &key) {
                Ok(true) => {
                    cleaned.insert(id);
                }
                Ok(false) => self.dead.lock().noted.push_back((id, key)),
                // Nobody would note leaves that are empty again: they wait for room.
                Err(StorageError::LogFull { .. }) => {
                    let rest = [(id, key)].into_iter().chain(batch);
                    self.dead.lock().noted.extend(rest);
                    return round.end();
                }
                Err(error) => {
                    // Not kept: a split or a sweep that can read the leaf will find it again.
                    self.note_failure(Task::RemoveDead(id), &error);
                    failed.insert(id);
                    round.add(Err(error));
                }
            }
        }
        cleaned
            .difference(&failed)
            .for_each(|id| self.forget_if_failed(Task::RemoveDead(*id)));
        // The rest waits for a snapshot to end: no use in trying again at once.
        round.add(Ok(full && !cleaned.is_empty()));
        round.end()
    }

    /// False when somebody may still need what is deleted there, or keeps the tree from changing its shape.
    fn clean_dead_leaf(&self, id: TreeId, key: &[u8]) -> Result<bool> {
        let _no_reclaim = self.no_reclaim();
        match self.is_tree(id).unwrap_or(false) {
            true => Ok(self.tree(id)?.clean_at_once(self, key)?.unwrap_or(false)),
            false => Ok(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_base::PageId;

    #[test]
    fn notes_beyond_the_bound_have_their_tree_visited() {
        let mut leaves = DeadLeaves::default();
        let tree = |page| TreeId(PageId { file: 1, page });
        for n in 0..NOTES_MAX as u32 {
            leaves.note(tree(1), n.to_be_bytes().to_vec());
        }
        assert_eq!(leaves.next_visit(|_| true), None);
        leaves.note(tree(2), vec![1]);
        leaves.visits.insert(tree(2), vec![9]);
        leaves.note(tree(2), vec![2]);
        assert_eq!(leaves.noted.len(), NOTES_MAX);
        assert_eq!(leaves.next_visit(|_| true), None, "first the others");
        leaves.noted.clear();
        assert_eq!(leaves.next_visit(|_| false), None, "stays for later");
        assert_eq!(leaves.next_visit(|_| true), Some((tree(2), Vec::new())));
        assert_eq!(leaves.next_visit(|_| true), None);
    }
}
