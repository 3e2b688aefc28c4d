//! Commits whose wait for the disk is left to whoever sends the reply.
//!
//! Theory: a session that has nothing more to do than to say that it has committed need not wait for the log: its thread
//! reads the next request meanwhile, and another one that waits for its own commit ends the transaction and sends the reply
//! (`daruma_storage::UnhardCommit`). So a group of commits costs few thread switches.
//!
//! Invariants
//! 1. Only the last statement of a request leaves its wait, and only where the caller asked for it; what it tells the
//!    client stays in the reply until the commit is hard (`Sink::hold_back`).
//! 2. Statement and request are counted when the commit is over, with its wait.
//! 3. Before anything else happens in the session the commit is waited for: another transaction, another request, its end.

use super::SessionState;
use super::completed::EndedRequest;
use super::execution::Execution;
use super::statistics::Uncommitted;
use crate::error::{Result, SqlError};
use crate::instance::events::words::TIMED;
use crate::instance::{Instance, SessionEntry};
use daruma_base::{WaitKind, WaitSums};
use daruma_storage::{Txn, UnhardCommit};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

/// A commit that nobody may hear of yet.
#[must_use]
pub struct LateCommit {
    commit: UnhardCommit,
    told: Told,
}

/// What is to be done when it is over.
struct Told {
    instance: Arc<Instance>,
    entry: Arc<SessionEntry>,
    /// When the wait began, by the monotonic clock.
    start: Duration,
    statement: Option<Uncommitted>,
    request: Option<EndedRequest>,
}

impl Told {
    /// The wait is over. `by_session`: the session's own thread has waited, which counts for it.
    fn over(self, by_session: bool) {
        self.instance.engine().release_locks(&self.entry.owner);
        let waited = self.instance.env().clock.monotonic();
        let waited = waited.saturating_sub(self.start);
        let ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        if !by_session {
            self.entry.late_waits.lock().add(ns);
        }
        let sums = WaitSums::of(WaitKind::WriteLog, ns);
        if let Some(statement) = self.statement {
            statement.note(waited, sums);
        }
        if let Some(request) = self.request {
            request.note(&self.instance, &self.entry, sums);
        }
    }
}

impl LateCommit {
    /// Waits until it is on disk.
    pub fn wait(self) -> Result<()> {
        let result = self.commit.wait();
        self.told.over(true);
        result.map_err(SqlError::from)
    }

    /// Runs `then` when it is on disk, or will never be; perhaps on another thread, which must not be kept waiting.
    pub fn when_hard(self, then: impl FnOnce(Result<()>) + Send + 'static) {
        let LateCommit { commit, told } = self;
        commit.when_hard(move |result| {
            told.over(false);
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

    /// Hands over the request that has ended but for its commit; gives it back where there is no late one.
    pub fn leave(&self, request: EndedRequest) -> Option<EndedRequest> {
        match &mut *self.commit.borrow_mut() {
            Some(late) => {
                late.told.request = Some(request);
                None
            }
            None => Some(request),
        }
    }

    /// Is there a late commit?
    pub fn is_open(&self) -> bool {
        self.commit.borrow().is_some()
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
            let told = Told {
                instance: self.instance.clone(),
                entry: self.entry.clone(),
                start: commit.start(),
                statement: None,
                request: None,
            };
            self.late.commit.replace(Some(LateCommit { commit, told }));
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
        // In a trigger: what has fired it has not come to its end. An inner one commits nothing.
        if self.state.trancount.get() == 1 {
            self.harden_noted_marks(delayed == Some(true))?;
        }
        let result = self.state.commit_transaction(delayed, self.lateness());
        self.hold_back_if_late();
        result
    }

    /// Commits the running statement, late where that is possible.
    pub(crate) fn commit_statement(&self) -> Result<()> {
        let clock = &self.state.instance.env().clock;
        let (start, waits) = (clock.monotonic(), daruma_base::thread_wait_sums());
        let result = self.state.commit_parts_as(None, self.lateness());
        self.hold_back_if_late();
        if let Some(change) = self.uncommitted.take() {
            match &mut *self.state.late.commit.borrow_mut() {
                Some(late) => late.told.statement = Some(change),
                None => {
                    let took = clock.monotonic().saturating_sub(start);
                    change.note(took, daruma_base::thread_wait_sums().since(waits));
                }
            }
        }
        result
    }

    fn lateness(&self) -> Lateness {
        let (s, late) = (self.state, &self.state.late);
        let is_last =
            late.is_tail.get() && self.depth.get() == 0 && self.captured.borrow().is_none();
        // The time that a statement tells of includes its commit, and so does that of an event.
        let is_timed = s.settings.borrow().statistics_time || s.instance.events.wants_any(TIMED);
        match late.is_wanted.get() && is_last && !is_timed {
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
