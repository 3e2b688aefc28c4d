//! Failures in the background: told once, and tried again after a while.
//!
//! Theory: one page that cannot be read must not keep the rest of the database from being looked after. So each piece of work
//! fails on its own, waits twice as long after each failure, and lets the others go before it. What a step returns is the first
//! error of that step; [`Database::take_failures`] has all of them, each once until it changes or the work succeeds.

use super::Database;
use crate::api::TreeId;
use crate::error::{Result, StorageError};
use crate::log::record::Space;
use crate::sync::Mutex;
use daruma_base::{TxnId, reached};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Work on which the bounds of log, redo and version store depend is tried again at least so often.
const PAUSE_MAX_VITAL: Duration = Duration::from_secs(1);
/// Texts that nobody has taken, at most.
const UNTOLD_MAX: usize = 100;

/// A piece of background work that fails on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    DelayedCommits,
    FreeSpace(Space),
    Revert(TxnId),
    FreeVersions,
    RemoveDead(TreeId),
    BoundRedo,
    Rest,
    Checkpoint,
    NoteHardened,
    BringBack,
    RestLog,
}

impl Task {
    fn pause_max(self) -> Duration {
        match self {
            Task::FreeSpace(_) | Task::Revert(_) | Task::RemoveDead(_) => PAUSE_MAX,
            Task::DelayedCommits
            | Task::FreeVersions
            | Task::BoundRedo
            | Task::Rest
            | Task::Checkpoint
            | Task::NoteHardened
            | Task::BringBack
            | Task::RestLog => PAUSE_MAX_VITAL,
        }
    }
}

struct Failure {
    /// Monotonic clock.
    again_at: Duration,
    pause: Duration,
    text: String,
}

#[derive(Default)]
pub(super) struct Failures {
    /// How many there are: usually none, and then nobody looks further.
    count: AtomicUsize,
    list: Mutex<FailureList>,
}

#[derive(Default)]
struct FailureList {
    failed: HashMap<Task, Failure>,
    untold: Vec<String>,
}

impl Database {
    /// May the work be tried? Not for a while after it failed.
    pub(crate) fn is_due(&self, task: Task) -> bool {
        if self.failures.count.load(Ordering::Acquire) == 0 {
            return true;
        }
        let now = self.env().clock.monotonic();
        let list = self.failures.list.lock();
        list.failed.get(&task).is_none_or(|f| f.again_at <= now)
    }

    /// Tries a piece of work, if it is due, and remembers what came of it.
    pub(crate) fn attempt(&self, task: Task, work: impl FnOnce() -> Result<bool>) -> Result<bool> {
        if !self.is_due(task) {
            return Ok(false);
        }
        let result = work();
        match &result {
            Err(error) => self.note_failure(task, error),
            Ok(_) => self.forget_if_failed(task),
        }
        result
    }

    /// To be tried again later, and told if it is new.
    pub(crate) fn note_failure(&self, task: Task, error: &StorageError) {
        reached!("background.failed");
        let now = self.env().clock.monotonic();
        let text = error.to_string();
        let mut list = self.failures.list.lock();
        let before = list.failed.get(&task);
        let pause = before.map_or(PAUSE_MIN, |f| (2 * f.pause).min(task.pause_max()));
        if before.is_none_or(|f| f.text != text) && list.untold.len() < UNTOLD_MAX {
            list.untold.push(text.clone());
        }
        let again_at = now + pause;
        list.failed.insert(
            task,
            Failure {
                again_at,
                pause,
                text,
            },
        );
        self.failures
            .count
            .store(list.failed.len(), Ordering::Release);
    }

    /// The work was done, whatever came of it before.
    pub(crate) fn forget_if_failed(&self, task: Task) {
        if self.failures.count.load(Ordering::Acquire) > 0 {
            self.forget_failure(task);
        }
    }

    pub(crate) fn forget_failure(&self, task: Task) {
        let mut list = self.failures.list.lock();
        list.failed.remove(&task);
        self.failures
            .count
            .store(list.failed.len(), Ordering::Release);
    }

    /// Failures in the background since the last call, for the error log.
    pub fn take_failures(&self) -> Vec<String> {
        std::mem::take(&mut self.failures.list.lock().untold)
    }
}

/// Results of the parts of a step, each of which runs however the others ended.
#[derive(Default)]
pub(super) struct Round {
    is_busy: bool,
    error: Option<StorageError>,
}

impl Round {
    /// Notes how one piece of work ended; the first error is the one told.
    pub fn add(&mut self, result: Result<bool>) {
        match result {
            Ok(is_busy) => self.is_busy |= is_busy,
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
    }

    /// Is there more to do at once? The first error, if there was one.
    pub fn end(self) -> Result<bool> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.is_busy),
        }
    }
}
