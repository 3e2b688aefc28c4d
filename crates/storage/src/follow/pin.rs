//! The standing pin of a secondary at its primary: what its snapshots may need is not cleaned there.
//!
//! Theory: a secondary tells the oldest position that a snapshot of it has, or could get now. The primary keeps that position among
//! its own snapshots, so purging, freeing and the dropping of versions obey it without knowing why. It covers what is applied at the
//! secondary, so also readers that come while the word is on its way.

use super::Secondary;
use crate::database::Database;
use crate::status::Snapshot;
use crate::sync::Mutex;
use daruma_base::Lsn;
use std::sync::Arc;

/// Lives as long as the secondary is to be spared. See the module.
pub struct StandingPin {
    db: Arc<Database>,
    owner: u64,
    held: Mutex<Snapshot>,
}

impl Secondary {
    /// No snapshot here is older, nor will be.
    pub fn low_water_mark(&self) -> Lsn {
        Lsn(self.db.txns().oldest())
    }
}

impl Database {
    /// Spares snapshots from `position` on, which a secondary has told. What was cleaned before stays gone. `owner` is shown as the
    /// session that keeps versions.
    pub fn pin_for_secondary(self: &Arc<Self>, owner: u64, position: Lsn) -> StandingPin {
        let held = self.txns().pin(owner, position.0);
        StandingPin {
            db: self.clone(),
            owner,
            held: Mutex::new(held),
        }
    }
}

impl StandingPin {
    /// Snapshots from here on are spared.
    pub fn position(&self) -> Lsn {
        Lsn(self.held.lock().position)
    }

    /// The secondary needs nothing before `position` any more. An older word that comes late changes nothing.
    pub fn advance(&self, position: Lsn) {
        let mut held = self.held.lock();
        if position.0 > held.position {
            let new = self.db.txns().pin(self.owner, position.0);
            self.db.txns().release(*held, self.owner);
            *held = new;
        }
    }
}

impl Drop for StandingPin {
    fn drop(&mut self) {
        self.db.txns().release(*self.held.get_mut(), self.owner);
    }
}
