//! How far commits are shown: one position, which only grows.
//!
//! Theory: readers see commits in the order of the log. A commit that waits for the disk is shown when it is hard, one that does
//! not wait at once, unless one that waits stands before it: then with that one, at the latest a sync later. So a snapshot is
//! always a beginning of the log, and nothing is shown that its session still waits for.
//!
//! Invariant: every commit below the position is hard, or was acknowledged before it was.

use super::{Log, LogState};
use crate::api::Durability;
use daruma_base::Lsn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

impl Log {
    /// Commits whose records lie below are shown to everyone.
    pub fn shown(&self) -> &Arc<AtomicU64> {
        &self.shown
    }

    /// A commit record was appended at `lsn`; the latch is held since.
    pub(super) fn show_commit(&self, state: &mut LogState, lsn: Lsn, durability: Durability) {
        if self.durable && durability == Durability::Full {
            state.awaited.push_back(lsn);
        } else if state.awaited.is_empty() {
            self.shown.fetch_max(lsn.0 + 1, Ordering::AcqRel);
        }
    }

    /// Everything below `end` is hard. Of a log that is another node's copy what is applied is shown (`follow`).
    pub(super) fn show_hard(&self, state: &mut LogState, end: Lsn) {
        if self.is_copy() {
            return;
        }
        while state.awaited.pop_front_if(|lsn| *lsn < end).is_some() {}
        let shown = match state.awaited.front() {
            Some(first) => *first,
            None => end.max(Lsn(state.last_commit.lsn.0 + 1)),
        };
        self.shown.fetch_max(shown.0, Ordering::AcqRel);
    }
}
