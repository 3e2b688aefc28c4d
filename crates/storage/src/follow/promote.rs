//! A secondary becomes the primary, without a restart.

use super::{LOST_TXNS_MAX, Secondary};
use crate::database::Database;
use crate::error::{Result, StorageError};
use crate::pause::pause;
use crate::replay::Ask;
use crate::unit::Unit;
use daruma_base::{Lsn, TxnId};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Secondary {
    /// Redoes all that is here, and goes on as a primary: the log continues behind what was received. Whoever calls this has seen to
    /// it that nobody else does the same. An error leaves a suspect database, which a restart recovers.
    pub fn promote(&self, ask: Ask<'_>) -> Result<Arc<Database>> {
        self.promote_in(ask, None)
    }

    /// The same in an epoch that a group has granted: commits wait for participants from the first. Of prepared transactions the
    /// databases of this server are asked.
    pub fn promote_as(&self, number: u64, id: u128) -> Result<Arc<Database>> {
        let db = &self.db;
        let ask = |unit: &Unit| db.engine.outcome(unit, db.id());
        self.promote_in(&ask, Some((number, id)))
    }

    /// What names the database in transactions over several.
    pub fn guid(&self) -> u64 {
        self.db.guid()
    }

    /// Takes no more log, applies what is here, and tells which databases (guids) have to be asked how its prepared transactions ended: they are to
    /// be promoted before it, where they follow as well.
    pub fn finish_redo(&self) -> Result<BTreeSet<u64>> {
        let mut work = self.work.lock();
        let log = &self.db.store().log;
        log.refuse_blocks();
        log.sync_blocks()?;
        self.apply_locked(&mut work, Lsn::MAX)?;
        let replay = work.as_ref();
        Ok(replay.map_or_else(BTreeSet::new, |r| r.tracker().coordinators()))
    }

    fn promote_in(&self, ask: Ask<'_>, granted: Option<(u64, u128)>) -> Result<Arc<Database>> {
        let mut work = self.work.lock();
        let log = &self.db.store().log;
        log.refuse_blocks();
        log.sync_blocks()?;
        pause("promote.begun");
        let end = self.apply_locked(&mut work, Lsn::MAX)?;
        let mut replay = work.take().ok_or(StorageError::NotOnline {
            state: "a primary now",
        })?;
        let db = &self.db;
        if !self.readers.are_told() {
            self.tell_readers(&mut replay);
        }
        let promoted = (|| {
            let claim = db.engine.claims.take(db.id());
            let decided = |decisions: Vec<_>| claim.read(db.guid(), &decisions);
            let recovered = replay.finish(self.site(), end, &decided, ask)?;
            let txns = db.txns();
            let open: BTreeSet<TxnId> = recovered.losers.iter().map(|l| l.id).collect();
            let ended = recovered.resolved.iter().flat_map(|r| &r.ids);
            let known: BTreeSet<TxnId> = open.iter().chain(ended).copied().collect();
            txns.follow(TxnId(recovered.next_txn + LOST_TXNS_MAX));
            txns.forget_silent(txns.next_id(), |id| known.contains(&id));
            db.lead(recovered, granted)
        })();
        match promoted {
            Ok(()) => Ok(db.clone()),
            Err(error) => {
                db.store().log.fence(&format!("promotion: {error}"));
                Err(error)
            }
        }
    }
}
