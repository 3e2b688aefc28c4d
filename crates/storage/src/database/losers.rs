//! Classic transactions that a promotion found open: they are rolled back in the background, one at a time, while the database is in
//! use. Until then each is an active transaction like any other: its rows are locked by its id, and checkpoints list it.

use super::Database;
use crate::LockMode;
use crate::error::Result;
use crate::lock::{LockKey, Owner};
use crate::replay::Loser;
use crate::txn::{Progress, TxnState};
use crate::undo;
use daruma_base::{Lsn, reached};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One that waits for its rollback, with who holds its lock.
pub(super) struct Waiting {
    loser: Loser,
    progress: Arc<Progress>,
    owner: Arc<Owner>,
}

impl Database {
    /// Leaves the rollback to the background. To be called before anybody writes.
    pub(super) fn undo_later(&self, loser: Loser) -> Result<()> {
        let owner = Owner::new(0, Default::default());
        let key = LockKey::Txn(self.id, loser.id);
        self.locks().acquire(&owner, &key, LockMode::Exclusive)?;
        let progress = Arc::new(Progress {
            begun_utc_100ns: loser.abort.begun_utc_100ns,
            ..Progress::new(loser.id, loser.first, false)
        });
        progress.last.store(loser.last.0, Ordering::Release);
        self.active.lock().insert(loser.id, progress.clone());
        self.losers.lock().push(Waiting {
            loser,
            progress,
            owner,
        });
        Ok(())
    }

    /// Rolls one of them back; true when there are more. A failure fences the database, as that of any rollback.
    pub(super) fn undo_step(&self) -> Result<bool> {
        let next = self.losers.lock().pop();
        let (Some(waiting), Some(db)) = (next, self.me.upgrade()) else {
            return Ok(false);
        };
        reached!("losers.undone");
        let Waiting {
            loser,
            progress,
            owner,
        } = waiting;
        let last = Lsn(progress.last.load(Ordering::Acquire));
        let mut state = TxnState::loser(loser.id, last, Some(progress));
        undo::roll_back(&db, &mut state, Lsn::NONE)?;
        self.txns.gone(loser.id);
        self.discard_versions(&loser.chunks);
        self.leave(loser.id);
        let key = LockKey::Txn(self.id, loser.id);
        self.locks().release(&owner, &key, LockMode::Exclusive);
        self.advance_watermark();
        Ok(!self.losers.lock().is_empty())
    }
}
