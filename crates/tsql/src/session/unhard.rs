//! Commits whose wait for the disk is left to whoever sends the reply.
//!
//! Theory: a session that has nothing more to do than to say that it has committed need not wait for the log: its thread
//! reads the next request meanwhile, and another one that waits for its own commit ends the transaction and sends the reply
//! (`daruma_storage::UnhardCommit`). So a group of commits costs few thread switches.
//!
//! Invariants
//! 1. Only the last statement of a request leaves its wait, and only where the caller asked for it; what it tells the
//!    client stays in the reply until the commit is hard (`Sink::hold_back`).
//! 2. Before anything else happens in the session the commit is waited for: another transaction, another request, its end.

use super::SessionState;
use super::execution::Execution;
use crate::error::{Result, SqlError};
use crate::instance::Instance;
use daruma_storage::{Owner, Txn, UnhardCommit};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A commit that nobody may hear of yet.
#[must_use]
pub struct LateCommit {
    commit: UnhardCommit,
    instance: Arc<Instance>,
    owner: Arc<Owner>,
}

impl LateCommit {
    /// Waits until it is on disk.
    pub fn wait(self) -> Result<()> {
        let result = self.commit.wait();
        self.instance.engine().release_locks(&self.owner);
        result.map_err(SqlError::from)
    }

    /// Runs `then` when it is on disk, or will never be; perhaps on another thread, which must not be kept waiting.
    pub fn when_hard(self, then: impl FnOnce(Result<()>) + Send + 'static) {
        let LateCommit {
            commit,
            instance,
            owner,
        } = self;
        commit.when_hard(move |result| {
            instance.engine().release_locks(&owner);
            then(result.map_err(SqlError::from));
        });
    }
}

/// May a commit leave its wait for the disk to the caller?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lateness {
    Allowed,
    Never,
}

/// State of a session's late commit.
#[derive(Default)]
pub(crate) struct Late {
    /// The caller takes late commits.
    is_wanted: Cell<bool>,
    /// Nothing follows the running statement in its request.
    is_tail: Cell<bool>,
    commit: RefCell<Option<LateCommit>>,
    /// Waiting for it failed: its reply must not go out.
    has_failed: Cell<bool>,
}

impl Late {
    /// May commits of this request be left to others?
    pub fn set_wanted(&self, wanted: bool) {
        self.is_wanted.set(wanted);
    }

    /// Whether what runs from now on is the end of the request; gives what held before.
    pub fn set_tail(&self, tail: bool) -> bool {
        self.is_tail.replace(tail)
    }

    /// Does nothing follow in the request, so that its commit may be late?
    pub fn is_tail(&self) -> bool {
        self.is_tail.get()
    }

    /// The commit that was left late, once.
    pub fn take(&self) -> Option<LateCommit> {
        self.commit.take()
    }

    /// Did the wait for a late commit fail? Then the session ends.
    pub fn has_failed(&self) -> bool {
        self.has_failed.get()
    }
}

impl SessionState {
    /// Commits a part of which nothing has to be told to others; its locks stay until it is hard.
    pub(super) fn commit_late(&self, txn: &Txn) -> Result<()> {
        let result = txn.commit_unhard();
        if let Ok(Some(commit)) = result {
            self.late.commit.replace(Some(LateCommit {
                commit,
                instance: self.instance.clone(),
                owner: self.entry.owner.clone(),
            }));
            return Ok(());
        }
        self.instance.engine().release_locks(&self.entry.owner);
        result.map(|_| ()).map_err(SqlError::from)
    }

    /// Waits for the late commit, if there is one.
    #[inline]
    pub(crate) fn settle(&self) {
        if self.late.commit.borrow().is_some() {
            self.settle_late();
        }
    }

    #[cold]
    fn settle_late(&self) {
        if let Some(late) = self.late.take()
            && late.wait().is_err()
        {
            self.late.has_failed.set(true);
        }
    }
}

impl Execution<'_> {
    /// COMMIT: as `SessionState::commit_transaction`, late where that is possible.
    pub(crate) fn commit_transaction(&self, delayed: Option<bool>) -> Result<Option<u64>> {
        let result = self.state.commit_transaction(delayed, self.lateness());
        self.hold_back_if_late();
        result
    }

    /// Commits the running statement, late where that is possible.
    pub(crate) fn commit_statement(&self) -> Result<()> {
        let result = self.state.commit_parts_as(None, self.lateness());
        self.hold_back_if_late();
        result
    }

    fn lateness(&self) -> Lateness {
        let (s, late) = (self.state, &self.state.late);
        let is_last =
            late.is_tail.get() && self.depth.get() == 0 && self.captured.borrow().is_none();
        // The time that a statement tells of includes its commit.
        match late.is_wanted.get() && is_last && !s.settings.borrow().statistics_time {
            true => Lateness::Allowed,
            false => Lateness::Never,
        }
    }

    fn hold_back_if_late(&self) {
        if self.state.late.commit.borrow().is_some() {
            self.sink.borrow_mut().hold_back();
        }
    }
}
