//! Short transactions that belong to no session.
//!
//! Theory: each has an owner of its own. An owner keeps its turn at a row that it had to wait for, and would keep others from that row for
//! ever if its locks did not go with the transaction; and two threads with one owner would take each other's locks for their own.

use crate::error::Result;
use daruma_base::CancelFlag;
use daruma_storage::{Database, Owner, Txn};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An owner whose locks go with it, a panic included.
pub(crate) struct Alone<'a> {
    db: &'a Arc<Database>,
    owner: Arc<Owner>,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.db.release_locks(&self.owner);
    }
}

impl<'a> Alone<'a> {
    /// One that waits for locks as long as it takes.
    pub fn new(db: &'a Arc<Database>) -> Alone<'a> {
        Alone::until(db, CancelFlag::new())
    }

    /// The same until somebody cancels it.
    pub fn until(db: &'a Arc<Database>, cancel: CancelFlag) -> Alone<'a> {
        let owner = db.passing_owner(cancel);
        Alone { db, owner }
    }

    /// One that waits for a lock at most so many ms.
    pub fn waiting(db: &'a Arc<Database>, wait_ms: i64) -> Alone<'a> {
        let alone = Alone::new(db);
        alone.wait_at_most(wait_ms);
        alone
    }

    /// From now on it waits for a lock at most so many ms.
    pub fn wait_at_most(&self, wait_ms: i64) {
        let timeout = &self.owner.lock_timeout_ms;
        timeout.store(wait_ms, Ordering::Relaxed);
    }

    /// Who it is to the lock manager.
    pub fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// Begins a transaction, to be ended before this goes.
    pub fn begin(&self) -> Txn {
        self.db.begin(&self.owner)
    }

    /// Runs `work` in a transaction, which `commit` ends; an error of `work` rolls it back.
    pub fn run<T>(
        &self,
        work: impl FnOnce(&Txn) -> Result<()>,
        commit: impl FnOnce(&Txn) -> daruma_storage::Result<T>,
    ) -> Result<T> {
        let txn = self.begin();
        match work(&txn) {
            Ok(()) => Ok(commit(&txn)?),
            Err(error) => {
                txn.rollback()?;
                Err(error)
            }
        }
    }
}
