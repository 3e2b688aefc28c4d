//! Commit of a transaction over several databases.
//!
//! Theory: see `unit`. What goes wrong before the coordinator's commit record is appended rolls everything back. When the
//! record is appended and cannot be hardened, nobody knows the outcome before the coordinator has been recovered; the
//! other databases must not go on as if they knew, so they are fenced as well, and ask in their own recovery.
//!
//! | fails | coordinator | the others |
//! |---|---|---|
//! | a prepare record | rolled back | rolled back |
//! | appending the commit record | rolled back | rolled back |
//! | hardening it | fenced: recovery finds it, or not | fenced: recovery asks |
//! | a commit record after the decision | committed | fenced by its own failure: recovery asks, and commits |
//!
//! The coordinator is the database with the lowest id: databases are opened in that order when the server starts, master
//! first, so a database that must ask usually finds it open.

use crate::api::Durability;
use crate::database::Database;
use crate::error::{Result, StorageError};
use crate::planted::{Bug, planted};
use crate::txn::Txn;
use crate::unit::{Decision, Unit};
use daruma_base::{Lsn, reached};
use std::sync::Arc;

/// Databases in one transaction: all of them are named in one log record.
const DATABASES_MAX: usize = 1_000;

/// Commits transactions in several databases as one, all or nothing, whatever happens meanwhile; always durably. After
/// an error that fenced the coordinator the outcome is known only after its recovery.
pub fn commit_together(txns: &[Txn]) -> Result<()> {
    let mut txns: Vec<&Txn> = txns.iter().filter(|t| t.has_written()).collect();
    txns.sort_by_key(|t| t.database().id());
    match txns.as_slice() {
        [] => Ok(()),
        [only] => only.commit(Durability::Full),
        [home, others @ ..] if others.len() < DATABASES_MAX => Together::new(home, others).commit(),
        _ => Err(StorageError::TooManyDatabases { max: DATABASES_MAX }),
    }
}

struct Together<'a> {
    home: &'a Txn,
    others: &'a [&'a Txn],
    unit: Unit,
}

impl<'a> Together<'a> {
    fn new(home: &'a Txn, others: &'a [&'a Txn]) -> Together<'a> {
        let db = home.database();
        let unit = Unit {
            coordinator: db.guid(),
            database: db.id().0,
            txn: home.id(),
            salt: db.env().random.u64(),
        };
        Together { home, others, unit }
    }

    fn coordinator(&self) -> &Arc<Database> {
        self.home.database()
    }

    fn commit(&self) -> Result<()> {
        let decisions = self.coordinator().decisions();
        decisions.begin(&self.unit);
        if let Err(error) = self.prepare() {
            return Err(self.give_up(error));
        }
        if !decisions.start_deciding(&self.unit) {
            reached!("together.asked.while.preparing");
            let cause = "a database of the transaction was recovered while it committed".into();
            return Err(self.give_up(StorageError::Fenced { cause }));
        }
        self.decide()?;
        let mut ends = Vec::new();
        for txn in self.others {
            let db = txn.database();
            let at = txn.commit_decided().ok();
            ends.extend(at.map(|lsn| (db, lsn)));
            let at = at.map(|lsn| (Arc::downgrade(db.store_handle()), lsn));
            decisions.appended(&self.unit, db.guid(), at);
        }
        // With participants a commit is shown when they have it: whoever is told of the unit finds all of it.
        for (db, lsn) in ends {
            let log = &db.store().log;
            if log.has_participants() {
                // It is decided. One that fails here is fenced, and its recovery asks.
                let _ = log.harden(lsn);
            }
        }
        Ok(())
    }

    /// All of the others promise, on disk, to do as the coordinator decides.
    fn prepare(&self) -> Result<()> {
        if planted(Bug::CommitInTurn) {
            return Ok(());
        }
        let appended: Result<Vec<Lsn>> =
            self.others.iter().map(|t| t.prepare(&self.unit)).collect();
        for (txn, lsn) in self.others.iter().zip(appended?) {
            txn.database().store().log.harden(lsn)?;
        }
        Ok(())
    }

    fn decide(&self) -> Result<()> {
        let decision = Decision {
            txn: self.unit.txn,
            salt: self.unit.salt,
            others: self.others.iter().map(|t| t.database().guid()).collect(),
        };
        let error = match self.home.commit_deciding(&decision) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        // Still open there: its record was never appended.
        if self.coordinator().decisions().is_open(&self.unit) {
            return Err(self.give_up(error));
        }
        reached!("together.outcome.unknown");
        let name = self.coordinator().name();
        let cause = format!("a transaction waits for the recovery of database {name}");
        for txn in self.others {
            txn.database().store().log.fence(&cause);
        }
        Err(error)
    }

    /// Nothing is decided, nor will be.
    fn give_up(&self, error: StorageError) -> StorageError {
        self.coordinator().decisions().give_up(&self.unit);
        for txn in self.others.iter().chain([&self.home]) {
            // One that fails here is fenced; its recovery rolls it back.
            let _ = txn.rollback();
        }
        error
    }
}
