//! How far writers may be ahead of what commit participants have.
//!
//! Theory: a commit waits until the participants have everything before it in the log. So whoever loads much makes others wait, and
//! over a link that is slower than the writer for as long as the writer likes. With a bound on what is logged and not acknowledged a
//! commit waits for that much at most: a session beyond it waits before its next change. Who has written little in the database since
//! a commit of its own was acknowledged there is let pass, so a small transaction waits once, at its end, and not in the midst of a
//! queue of large ones. What all of those write between two looks comes on top of the bound: [`PASS_BYTES`] and one record for each.
//!
//! Sessions alone wait: their owners are made for that ([`Owner::of_session`]). What the server writes by itself (counters, definitions
//! of its own, versions, reverts, checkpoints) never does, since others may stand behind it, and neither do commits and rollbacks, with
//! which transactions end.
//!
//! Whoever waits may hold locks: what it waits for is a link, a sync here and a sync there, and none of them needs a lock. It ends
//! with the wait of commits: when participants have caught up, or are waited for no more, or the log is fenced; besides, when its
//! session is cancelled.
//!
//! Invariant: whoever waits holds no latch.
//!
//! Tests: tests/ahead.rs, `crates/cli/tests/group/ahead.rs`; who holds writers back and when it ends: `crates/group/tests/search`.

use crate::database::Database;
use crate::error::{Result, StorageError};
use crate::lock::Owner;
use crate::sync::Mutex;
use daruma_base::DatabaseId;
use std::sync::atomic::{AtomicBool, Ordering};

/// Log that a session may write in a database, counted from its last commit that is hard on all participants or from its last wait here,
/// before it is asked to wait: a block and a little.
const PASS_BYTES: u64 = 64 << 10;

/// What is remembered of an owner.
#[derive(Default)]
pub(crate) struct OwnerAhead {
    may_wait: bool,
    is_held_back: AtomicBool,
    /// Log that it wrote, by database, where there are participants.
    written: Mutex<Vec<(DatabaseId, u64)>>,
}

impl OwnerAhead {
    /// Of an owner that may wait.
    pub fn of_session() -> OwnerAhead {
        OwnerAhead {
            may_wait: true,
            ..OwnerAhead::default()
        }
    }

    /// Does it wait?
    pub fn is_held_back(&self) -> bool {
        self.is_held_back.load(Ordering::Relaxed)
    }

    fn bytes(&self, database: DatabaseId) -> u64 {
        let written = self.written.lock();
        let of_it = written.iter().find(|(id, _)| *id == database);
        of_it.map_or(0, |(_, bytes)| *bytes)
    }

    fn note(&self, database: DatabaseId, bytes: u64) {
        let mut written = self.written.lock();
        match written.iter_mut().find(|(id, _)| *id == database) {
            Some((_, before)) => *before = before.saturating_add(bytes),
            None => written.push((database, bytes)),
        }
    }

    fn forget(&self, database: DatabaseId) {
        self.written.lock().retain(|(id, _)| *id != database);
    }
}

impl Database {
    /// Bytes of log that commit participants may lack before writers of more wait for them; `u64::MAX`: no bound.
    pub fn set_unacknowledged_max(&self, bytes: u64) {
        self.store().log.set_unacknowledged_max(bytes);
    }

    /// From now on writers wait for participants that lack too much, or do not any more: there is none whose word a commit needs, whatever
    /// else commits need ([`Database::set_participants`]). In the beginning they do not.
    pub fn hold_writers_back(&self, are_held: bool) {
        self.store().log.hold_writers_back(are_held);
    }

    /// A transaction is about to log something. The caller holds no latch. An error when it is cancelled while it waits, or when the
    /// log is fenced.
    #[inline]
    pub(crate) fn hold_back(&self, owner: &Owner) -> Result<()> {
        let waits = self.store().log.is_far_ahead() && owner.ahead.bytes(self.id()) > PASS_BYTES;
        match waits {
            true => self.make_way(owner),
            false => Ok(()),
        }
    }

    /// Much is about to be logged for the owner, in no transaction of its own. See [`Database::hold_back`].
    pub(crate) fn make_way(&self, owner: &Owner) -> Result<()> {
        match self.store().log.is_far_ahead() && owner.ahead.may_wait {
            true => self.wait_for_participants(owner),
            false => Ok(()),
        }
    }

    /// So much more was logged for the owner. Only log that somebody is waited for counts: temporary tables are nobody's concern.
    #[inline]
    pub(crate) fn note_ahead(&self, owner: &Owner, bytes: u64) {
        if owner.ahead.may_wait && self.store().log.has_participants() {
            owner.ahead.note(self.id(), bytes);
        }
    }

    /// A commit of the owner is hard, and all that it logged here before.
    #[inline]
    pub(crate) fn forget_ahead(&self, owner: &Owner) {
        if owner.ahead.may_wait && self.store().log.has_participants() {
            owner.ahead.forget(self.id());
        }
    }

    #[cold]
    fn wait_for_participants(&self, owner: &Owner) -> Result<()> {
        owner.note_wait(self.env().clock.monotonic());
        owner.ahead.is_held_back.store(true, Ordering::Relaxed);
        let is_cancelled = || owner.cancel.get().is_some();
        let waited = self.store().log.await_participants(is_cancelled);
        owner.ahead.is_held_back.store(false, Ordering::Relaxed);
        owner.ahead.forget(self.id());
        match waited? {
            true => Ok(()),
            false => Err(StorageError::Cancelled),
        }
    }
}
