//! Locking one entry before it is read: UPDLOCK, XLOCK and READPAST.
//!
//! Theory: the key is locked first and the entry read then, so whoever wrote it before is seen and waited for, and whoever
//! comes later finds the lock. A reader that passes locked rows takes the lock only when nobody holds a conflicting one,
//! and gives it back when the entry's writer is still active. A key without an entry can be locked as well.

use super::{Seen, Tree};
use crate::api::{Entry, Isolation, LockMode};
use crate::error::Result;
use crate::lock::ReadLock;
use crate::txn::ReadView;
use std::sync::Arc;

/// Result of locking an entry.
#[derive(Debug, PartialEq, Eq)]
pub enum RowLock {
    /// The newest state, which stays as it is; `None` when there is no such entry.
    Locked(Option<Entry>),
    /// Someone else's, and the reader does not wait.
    Busy,
}

impl Tree {
    /// Locks the entry in `mode` until the transaction ends and reads its newest state. Without a mode nothing is kept:
    /// the answer says whether someone else has it. With `wait` off, a lock or an active writer in the way gives `Busy`.
    pub fn lock_row(
        self: &Arc<Self>,
        view: &ReadView,
        key: &[u8],
        mode: Option<LockMode>,
        wait: bool,
    ) -> Result<RowLock> {
        let db = view.database();
        self.check_age(view)?;
        let lock = self.key_lock(db, key);
        let Some(mode) = mode else {
            if !wait && db.locks().conflicts(view.owner(), &lock, LockMode::Shared) {
                return Ok(RowLock::Busy);
            }
            return self.newest(view, key, wait);
        };
        if db.locks().keeps(view.owner(), &lock, mode) {
            return self.newest(view, key, wait);
        }
        // Counted before the entry is read: a writer that latches the page later will look for the lock.
        let counted = self.key_locks.add(key, mode);
        let counted = (self.clone(), ReadLock::Key(counted));
        if wait {
            view.owner().read_locks.lock().push(counted);
            db.locks().acquire(view.owner(), &lock, mode)?;
            return self.newest(view, key, true);
        }
        if !db.locks().try_acquire(view.owner(), &lock, mode) {
            self.release_read_lock(view.owner().id, counted.1);
            return Ok(RowLock::Busy);
        }
        let found = self.newest(view, key, false);
        if matches!(found, Ok(RowLock::Locked(_))) {
            view.owner().read_locks.lock().push(counted);
        } else {
            db.locks().release(view.owner(), &lock, mode);
            self.release_read_lock(view.owner().id, counted.1);
        }
        found
    }

    fn newest(self: &Arc<Self>, view: &ReadView, key: &[u8], wait: bool) -> Result<RowLock> {
        let view = view.txn().view(Isolation::ReadCommitted);
        let db = view.database();
        loop {
            let leaf = self.leaf_read(db, key)?;
            let Ok(slot) = leaf.search(key) else {
                return Ok(RowLock::Locked(None));
            };
            match self.judge(&view, &leaf, slot) {
                Seen::Visible(stamp, payload) => {
                    let payload = payload.unwrap_or_else(|| leaf.payload(slot).to_vec());
                    return Ok(RowLock::Locked(Some(Entry { payload, stamp })));
                }
                Seen::Invisible => return Ok(RowLock::Locked(None)),
                Seen::Failed(error) => return Err(error),
                Seen::Wait(_) if !wait => return Ok(RowLock::Busy),
                Seen::Wait(obstacle) => {
                    drop(leaf);
                    self.wait_out(&view, key, obstacle)?;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, Engine, EngineConfig, FileSpec, Owner, Settings};
    use daruma_base::DatabaseId;

    /// A transaction may read one row for as long as it likes.
    #[test]
    fn a_row_that_is_locked_again_and_again_is_locked_once() {
        let env = daruma_sim::env(&daruma_sim::SimDisk::new(1), 1);
        let engine = Engine::new(env, EngineConfig::default());
        let files = vec![
            FileSpec::data(1, 1, "/t.mdf", 256),
            FileSpec::log("/t_log.ldf", 256),
        ];
        let db = engine
            .create_database(DatabaseId(5), "t", files, Settings::default())
            .expect("creates");
        let writer = Owner::new(1, Default::default());
        let txn = db.begin(&writer);
        let id = db.create_tree(&txn, 1).expect("tree");
        let tree = db.tree(id).expect("tree");
        tree.insert(&txn, b"row", b"1").expect("inserts");
        txn.commit(Durability::Full).expect("commits");
        engine.release_locks(&writer);
        let reader = Owner::new(2, Default::default());
        let txn = db.begin(&reader);
        for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
            for _ in 0..100 {
                let view = txn.view(isolation);
                assert!(tree.get(&view, b"row").expect("reads").is_some());
                let locked = tree.lock_row(&view, b"row", Some(LockMode::Update), true);
                assert!(matches!(locked, Ok(RowLock::Locked(Some(_)))));
            }
        }
        let kept = reader.read_locks.lock().len();
        assert_eq!(kept, 3, "shared, update, range");
        engine.release_locks(&reader);
        assert!(tree.key_locks.is_empty() && !tree.key_locks.may_have(b"row"));
    }
}
