//! Who decides for a prepared transaction that a crash left: the databases of the engine, and how they are asked.
//!
//! | the coordinating database is | asked |
//! |---|---|
//! | open | its table of decisions |
//! | not open, its files are readable | its log, as its own recovery would read it |
//! | open and fenced, or deciding at this moment | refused: the one that asks cannot be opened yet |
//! | gone, or its files are unreadable | unknown: taken for committed, for it was prepared, and told so (3429) |
//!
//! A copy of the coordinator made by a restore under another name has the same guid: the database that still has the id
//! of then is asked alone, if there is one.

use crate::api::{DatabaseState, FileSpec};
use crate::database::Database;
use crate::datafile::FileSet;
use crate::engine::Engine;
use crate::error::{Result, StorageError};
use crate::log::Log;
use crate::unit::{Answer, Decision, Unit, UnitKey};
use daruma_base::{DatabaseId, TxnId, reached};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Where the files of databases are, open ones and others.
pub type Directory = Arc<dyn Fn() -> Vec<(DatabaseId, Vec<FileSpec>)> + Send + Sync>;

/// How a prepared transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    RolledBack,
    /// Nobody could be asked: taken for committed.
    Assumed,
}

/// A prepared transaction that recovery found, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedUnit {
    pub unit: Unit,
    /// Its ids in the recovered database, ascending.
    pub ids: Vec<TxnId>,
    pub outcome: Outcome,
}

impl Engine {
    /// Says where files of databases that are not open can be found: a coordinator may be among them.
    pub fn set_directory(&self, directory: Directory) {
        *self.directory.write() = Some(directory);
    }

    fn open_databases(&self) -> Vec<Arc<Database>> {
        let mut databases = self.databases.lock();
        databases.retain(|db| db.strong_count() > 0);
        let open = databases.iter().filter_map(|db| db.upgrade());
        open.filter(|db| !db.is_closed()).collect()
    }

    /// A database is open: it can be asked from now on, and has asked whatever it had to.
    pub(crate) fn enroll(&self, db: &Arc<Database>) {
        self.databases.lock().push(Arc::downgrade(db));
        for other in self.open_databases() {
            let not_online = other.state() != DatabaseState::Online;
            if not_online || Arc::ptr_eq(&other, db) {
                continue;
            }
            settle(&other, db);
            settle(db, &other);
        }
    }

    /// The database and its files are gone for good: it will ask for no decision.
    pub fn forget_database(&self, guid: u64) {
        for db in self.open_databases() {
            db.decisions().forget_other(guid, &[]);
        }
    }

    /// How a prepared transaction has to end.
    pub(crate) fn outcome(&self, unit: &Unit) -> Result<Outcome> {
        let open = self.open_databases();
        let mut asked: Vec<_> = open
            .iter()
            .filter(|d| d.guid() == unit.coordinator)
            .collect();
        if asked.iter().any(|db| db.id().0 == unit.database) {
            asked.retain(|db| db.id().0 == unit.database);
        }
        let answers = asked.iter().map(|db| answer(db, unit));
        let answers = answers.collect::<Result<Vec<Outcome>>>()?;
        if answers.contains(&Outcome::Committed) {
            return Ok(Outcome::Committed);
        }
        if !answers.is_empty() {
            return Ok(Outcome::RolledBack);
        }
        Ok(self.read_outcome(unit, &open))
    }

    /// Looks into the logs of databases that are not open.
    fn read_outcome(&self, unit: &Unit, open: &[Arc<Database>]) -> Outcome {
        let directory = self.directory.read().clone();
        let mut known = directory.map_or_else(Vec::new, |list| list());
        known.retain(|(id, _)| open.iter().all(|db| db.id() != *id));
        known.sort_by_key(|(id, _)| id.0 != unit.database);
        for (_, files) in known {
            let Ok(Some(decisions)) = self.read_decisions(unit.coordinator, files) else {
                continue;
            };
            reached!("coordinator.read.from.log");
            return match decisions.iter().any(|d| d.key() == unit.key()) {
                true => Outcome::Committed,
                false => Outcome::RolledBack,
            };
        }
        Outcome::Assumed
    }

    /// What the log of a closed database has decided. `None` when it is another one.
    fn read_decisions(&self, guid: u64, files: Vec<FileSpec>) -> Result<Option<Vec<Decision>>> {
        let (log_spec, data) = crate::database::open::split_specs(files)?;
        let files = FileSet::open(&data, self.env())?;
        if files.guid() != guid {
            return Ok(None);
        }
        let log = Log::open(&log_spec, guid, self.env(), self.log_shared())?;
        let store = crate::buffer::Store::new(self.next_store_id(), files, log);
        let read = crate::recovery::analyse(&store, &|_| Ok(Outcome::RolledBack));
        store.files.release();
        store.log.release();
        read.map(|recovered| Some(recovered.decisions))
    }
}

impl Database {
    /// Prepared transactions that have not committed yet, by their units at the coordinator.
    fn prepared_units(&self, coordinator: u64) -> Vec<UnitKey> {
        let active = self.active_progress().into_iter();
        let open = active.filter(|p| !p.committed.load(Ordering::Acquire));
        let units = open.filter_map(|p| *p.prepared.lock());
        let units = units.filter(|u| u.coordinator == coordinator);
        units.map(|u| u.key()).collect()
    }

    /// What is decided here gets to disk where it was decided for: nobody will be asked while this one is closed. One
    /// that fails at that is fenced, and its recovery asks.
    pub(crate) fn harden_others(&self) {
        for (store, lsn) in self.decisions().unhardened() {
            if let Some(store) = store.upgrade() {
                let _ = store.log.harden(lsn);
            }
        }
    }
}

/// What an open coordinator says.
fn answer(db: &Database, unit: &Unit) -> Result<Outcome> {
    let undecided = || StorageError::InDoubt {
        database: db.name(),
    };
    if db.state() != DatabaseState::Online {
        return Err(undecided());
    }
    match db.decisions().ask(unit) {
        Answer::Committed => Ok(Outcome::Committed),
        Answer::RolledBack => Ok(Outcome::RolledBack),
        Answer::Undecided => Err(undecided()),
    }
}

/// `coordinator` forgets decisions that `other`, which is open, has on disk.
fn settle(coordinator: &Database, other: &Database) {
    if !coordinator.decisions().may_be_asked_by(other.guid()) {
        return;
    }
    // Still to be committed by the sessions that prepared them. What is committed by now gets to disk next.
    let prepared: Vec<UnitKey> = other.prepared_units(coordinator.guid());
    if other.flush_log().is_ok() {
        let guid = other.guid();
        coordinator.decisions().forget_other(guid, &prepared);
    }
}
