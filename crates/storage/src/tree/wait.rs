//! Waiting for entries of others, first come, first served.
//!
//! Theory: an entry's writer is waited for by its transaction id, which says nothing of order: the quickest after
//! the writer's end has the entry. So a session that means to write an entry and has to wait takes its *turn* first: an
//! update lock on the key, as long as it waits and until it has written the entry. Those that come later queue behind it,
//! also when the writer has ended and its successor has not yet run. A session has one turn at a time, gives it up before
//! it waits for anything else, and keeps it to the end of its statement at most: a queue never moves slower than the
//! session at its head.

use super::{Obstacle, Tree};
use crate::api::{LockMode, LockResource};
use crate::database::Database;
use crate::error::Result;
use crate::lock::{LockKey, Owner};
use crate::txn::ReadView;
use daruma_base::TxnId;
use std::sync::Arc;

impl Tree {
    pub(super) fn key_lock(&self, db: &Database, key: &[u8]) -> LockKey {
        let resource = LockResource::Key {
            tree: self.id,
            key: key.to_vec(),
        };
        LockKey::Resource(db.id(), resource)
    }

    /// A lock of somebody else on the entry, or a range around it, that keeps a writer out. The transaction that wrote it
    /// and has not ended needs none.
    pub(super) fn kept_by_other<'k>(
        &self,
        view: &ReadView,
        writer: TxnId,
        key: impl FnOnce() -> &'k [u8],
    ) -> Option<Obstacle> {
        if self.key_locks.has_no_update() && self.ranges.has_no_update() || view.txn().owns(writer)
        {
            return None;
        }
        let key = key();
        let db = view.database();
        if !self.key_locks.has_no_update() && self.key_locks.may_have(key) {
            let lock = self.key_lock(db, key);
            if db.locks().conflicts(view.owner(), &lock, LockMode::Update) {
                return Some(Obstacle::KeyLock);
            }
        }
        self.update_range(view, key).map(Obstacle::Range)
    }

    /// Waits until the entry may be looked at again.
    pub(super) fn wait_out(
        self: &Arc<Self>,
        view: &ReadView,
        key: &[u8],
        obstacle: Obstacle,
    ) -> Result<()> {
        let (db, owner) = (view.database(), view.owner());
        match obstacle {
            Obstacle::Writer(writer) if view.is_for_update() => {
                self.wait_for_writer(db, owner, key, writer)?
            }
            Obstacle::Writer(writer) => view.wait_for(writer)?,
            Obstacle::KeyLock => self.take_turn(db, owner, key)?,
            Obstacle::Range(other) => self.wait_for_ranges(db, owner, other)?,
        }
        db.check_readable()
    }

    /// Takes the turn at an entry and waits for its writer. The turn stays.
    pub(super) fn wait_for_writer(
        self: &Arc<Self>,
        db: &Database,
        owner: &Arc<Owner>,
        key: &[u8],
        writer: TxnId,
    ) -> Result<()> {
        self.take_turn(db, owner, key)?;
        let waited = db.locks().wait_in_turn(owner, db.id(), writer);
        if waited.is_err() {
            db.locks().end_turn(owner);
        }
        waited
    }

    /// Queues up for an entry.
    pub(super) fn take_turn(
        self: &Arc<Self>,
        db: &Database,
        owner: &Arc<Owner>,
        key: &[u8],
    ) -> Result<()> {
        let lock = self.key_lock(db, key);
        let count = || self.key_locks.add(key, LockMode::Update);
        let uncount = |counted| self.key_locks.remove(counted);
        db.locks().take_turn(owner, (self, &lock), count, uncount)
    }

    /// Returns when the owner of ranges here has ended its transaction.
    pub(super) fn wait_for_ranges(
        &self,
        db: &Database,
        owner: &Arc<Owner>,
        other: u64,
    ) -> Result<()> {
        let key = LockKey::Ranges(other, self.id);
        db.locks().acquire(owner, &key, LockMode::Shared)?;
        db.locks().release(owner, &key, LockMode::Shared);
        Ok(())
    }
}
