//! Recovery after a stop: disturbed by faults up to three times, and on a disk that is as full as it was.

use super::{Checked, DB, World, broken, specs_of};
use daruma_sim::{FaultKind, Faults};
use daruma_storage::*;
use std::sync::Arc;

/// A database that was opened, and what its recovery did.
type Opened = (Arc<Engine>, Arc<Database>, RecoveryReport);

impl World {
    pub(super) fn open(&self) -> Result<Opened> {
        let engine = self.engine();
        let (db, report) = engine.open_database(DB, "t", specs_of(self.crowded))?;
        Ok((engine, db, report))
    }

    fn recovered(&mut self, (engine, db, report): Opened) {
        self.stats.recoveries += 1;
        self.stats.losers += report.rolled_back;
        self.come_up(engine, db);
    }

    /// Restarts soon after each other, while the disk is as full as it was: the database opens each time.
    fn restart_on_a_full_disk(&mut self) -> Checked {
        for _ in 0..3 {
            self.disk.set_faults(Faults {
                capacity_bytes: Some(self.disk.used_bytes()),
                ..Faults::default()
            });
            let opened = self.open();
            self.tell(|| match &opened {
                Ok((_, _, report)) => format!("opened on a full disk: {report:?}"),
                Err(error) => format!("not opened on a full disk: {error}"),
            });
            match opened {
                Ok(opened) => {
                    self.recovered(opened);
                    self.stands_on_a_full_disk()?;
                }
                Err(error) => return broken(format!("recovery failed on a full disk: {error}")),
            }
            let power = self.random.below(2) == 0;
            self.fall(power);
        }
        Ok(())
    }

    pub(super) fn recover(&mut self) -> Checked {
        if self.tight && self.random.below(2) == 0 {
            self.restart_on_a_full_disk()?;
        }
        for attempt in 0..4 {
            let disturbed = attempt < 3 && self.random.below(2) == 0;
            self.faults_before = self.disk.fault_counts().total();
            let sync_errors = self.counted(FaultKind::SyncError);
            if disturbed {
                self.disturb_recovery();
            }
            let opened = self.open();
            self.tell(|| match &opened {
                Ok((_, _, report)) => format!("opened: {report:?}"),
                Err(error) => format!("not opened: {error}"),
            });
            match opened {
                Ok(opened) => {
                    self.recovered(opened);
                    if !self.is_down() {
                        self.disk.set_faults(Faults::default());
                        return Ok(());
                    }
                }
                Err(error) if !disturbed => return broken(format!("recovery failed: {error}")),
                Err(error) => self.excuse(&error)?,
            }
            self.stats.recoveries_interrupted += 1;
            self.stop_machine();
            let power =
                self.counted(FaultKind::SyncError) > sync_errors || self.random.below(2) == 0;
            self.fall(power);
        }
        broken("recovery never succeeded")
    }

    fn disturb_recovery(&mut self) {
        let mut faults = Faults::default();
        if self.random.below(2) == 0 {
            faults.rates = self.rates();
        }
        match self.random.below(3) {
            0 => faults.stop_at = Some(self.random.below(30)),
            1 => faults.stop_io_at = Some(self.random.below(200)),
            _ => {}
        }
        self.tell(|| format!("recovery with {faults:?}"));
        self.disk.set_faults(faults);
    }
}
