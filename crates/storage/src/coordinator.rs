//! Coordinators of prepared transactions that a crash left: the databases of the engine, and how they are asked.
//!
//! Databases are opened side by side, and those that ask each other must neither wait for each other nor miss each other. A
//! thread that opens a database, or reads its files to learn what it decided, claims it first. A claim is waited for only
//! while its holder reads the log, which depends on nobody else's answer: then the decisions are known, whatever recovery
//! does next.
//!
//! | the coordinating database is | asked |
//! |---|---|
//! | open | its table of decisions |
//! | being opened, its log is read | what the log has decided |
//! | being opened, its log is being read | waited for |
//! | not open, its files are readable | its log, as its own recovery would read it |
//! | open and fenced, or deciding at this moment | refused: the one that asks cannot be opened yet |
//! | gone, or its files are unreadable | unknown: taken for committed, for it was prepared, and told so (3429) |
//!
//! A copy of the coordinator made by a restore under another name has the same guid: the database that still has the id
//! of then is asked alone, if there is one. So has a copy of one that asks: a decision is forgotten when all databases of its guid are open
//! and have it, and while there is one that is not open, and may be of this guid, it is kept.

use crate::api::{DatabaseState, FileSpec};
use crate::database::Database;
use crate::datafile::FileSet;
use crate::engine::Engine;
use crate::error::{Result, StorageError};
use crate::log::Log;
use crate::planted::{Bug, planted};
use crate::sync::{Condvar, Mutex};
use crate::trace::FileTrace;
use crate::unit::{Answer, Decision, Unit, UnitKey};
use daruma_base::{DatabaseId, Lsn, TxnId, reached};
use std::collections::BTreeMap;
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

/// Databases that are being opened, or whose files are read for an answer.
#[derive(Default)]
pub(crate) struct Claims {
    claimed: Mutex<BTreeMap<DatabaseId, Claimed>>,
    changed: Condvar,
}

enum Claimed {
    /// Its log is being read.
    Reading,
    /// Its recovery has read its log and goes on.
    Read { guid: u64, decisions: Vec<UnitKey> },
}

/// Keeps others from opening or reading the files of a database.
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    id: DatabaseId,
}

/// Answer to a question about a database that is not open.
enum Found<'a> {
    Decisions { guid: u64, decisions: Vec<UnitKey> },
    Unread(Claim<'a>),
}

impl Claims {
    /// Waits until nobody else opens the database.
    pub fn take(&self, id: DatabaseId) -> Claim<'_> {
        let mut claimed = self.claimed.lock();
        while claimed.contains_key(&id) {
            self.changed.wait(&mut claimed);
        }
        claimed.insert(id, Claimed::Reading);
        Claim { claims: self, id }
    }

    fn look(&self, id: DatabaseId) -> Found<'_> {
        let mut claimed = self.claimed.lock();
        loop {
            match claimed.get(&id) {
                None => {
                    claimed.insert(id, Claimed::Reading);
                    return Found::Unread(Claim { claims: self, id });
                }
                Some(Claimed::Read { guid, decisions }) => {
                    reached!("coordinator.asked.while.opening");
                    let (guid, decisions) = (*guid, decisions.clone());
                    return Found::Decisions { guid, decisions };
                }
                Some(Claimed::Reading) => self.changed.wait(&mut claimed),
            }
        }
    }
}

impl Claim<'_> {
    /// The log is read: sessions that ask need not wait any longer.
    pub fn read(&self, guid: u64, decisions: &[Decision]) {
        let decisions = decisions.iter().map(Decision::key).collect();
        let read = Claimed::Read { guid, decisions };
        self.claims.claimed.lock().insert(self.id, read);
        self.claims.changed.notify_all();
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.claims.claimed.lock().remove(&self.id);
        self.claims.changed.notify_all();
    }
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
        self.settle_all();
    }

    /// A database and its files are gone for good, from the directory as well: it will ask for no decision.
    pub fn forget_database(&self, guid: u64) {
        match self.databases_of(guid) {
            Some(left) if left.is_empty() => {
                for db in self.open_databases() {
                    db.decisions().forget_other(guid);
                }
            }
            // Another may have been the one that asks.
            _ => self.settle_all(),
        }
    }

    /// Decisions that nobody can ask for any more are forgotten.
    fn settle_all(&self) {
        let mut open = self.open_databases();
        open.retain(|db| db.state() == DatabaseState::Online);
        for coordinator in open {
            for guid in coordinator.decisions().may_be_asked_by() {
                match self.databases_of(guid) {
                    Some(others) if !others.is_empty() => settle(&coordinator, guid, &others),
                    _ => {}
                }
            }
        }
    }

    /// The databases of this guid. `None` while one of them is not online, or may be one.
    fn databases_of(&self, guid: u64) -> Option<Vec<Arc<Database>>> {
        let open = self.open_databases();
        let directory = self.directory.read().clone();
        let known = directory.map_or_else(Vec::new, |list| list());
        let closed = known
            .iter()
            .filter(|(id, _)| !open.iter().any(|db| db.id() == *id));
        for (_, files) in closed {
            if self.may_be_of(files, guid) && !planted(Bug::BelieveCopies) {
                return None;
            }
        }
        let of_it: Vec<_> = open.into_iter().filter(|db| db.guid() == guid).collect();
        let is_online = |db: &Arc<Database>| db.state() == DatabaseState::Online;
        of_it.iter().all(is_online).then_some(of_it)
    }

    /// Whose files are these? A database is opened when all of its files are its own, so one that says it is another's is enough, though
    /// the rest cannot be read. Where none says anything they may be anybody's.
    fn may_be_of(&self, files: &[FileSpec], guid: u64) -> bool {
        let disk = self.env().disk.as_ref();
        let trace = |spec: &FileSpec| FileTrace::read(disk, &spec.path);
        let owner = files.iter().find_map(|spec| match trace(spec) {
            Ok(FileTrace::Of { guid }) => Some(guid),
            Ok(_) | Err(_) => None,
        });
        owner.is_none_or(|theirs| theirs == guid)
    }

    /// How a prepared transaction of the database `asking`, which is being recovered, has to end.
    pub(crate) fn outcome(&self, unit: &Unit, asking: DatabaseId) -> Result<Outcome> {
        let directory = self.directory.read().clone();
        let known = directory.map_or_else(Vec::new, |list| list());
        let (first, others): (Vec<_>, Vec<_>) = known
            .into_iter()
            .filter(|(id, _)| *id != asking)
            .partition(|(id, _)| id.0 == unit.database && !planted(Bug::AskCopies));
        for (id, files) in first {
            if let Some(outcome) = self.ask_one(unit, id, files)? {
                return Ok(outcome);
            }
        }
        if let Some(outcome) = self.ask_open(unit)? {
            return Ok(outcome);
        }
        for (id, files) in others {
            if let Some(outcome) = self.ask_one(unit, id, files)? {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Assumed)
    }

    /// Answer of the open databases, if the coordinator or copies of it are among them.
    fn ask_open(&self, unit: &Unit) -> Result<Option<Outcome>> {
        let open = self.open_databases();
        let mut asked: Vec<_> = open
            .iter()
            .filter(|d| d.guid() == unit.coordinator)
            .collect();
        let is_origin = |db: &&Arc<Database>| db.id().0 == unit.database;
        if asked.iter().any(is_origin) && !planted(Bug::AskCopies) {
            asked.retain(is_origin);
        }
        let answers = asked.iter().map(|db| answer(db, unit));
        let answers = answers.collect::<Result<Vec<Outcome>>>()?;
        Ok(match answers.contains(&Outcome::Committed) {
            true => Some(Outcome::Committed),
            false => (!answers.is_empty()).then_some(Outcome::RolledBack),
        })
    }

    /// Answer of one database, whether it is open, being opened, or neither. `None` when it is not the coordinator, or its
    /// files cannot be read.
    fn ask_one(
        &self,
        unit: &Unit,
        id: DatabaseId,
        files: Vec<FileSpec>,
    ) -> Result<Option<Outcome>> {
        let (guid, decisions) = match self.claims.look(id) {
            Found::Decisions { guid, decisions } => (guid, decisions),
            Found::Unread(_claim) => {
                let open = self.open_databases().into_iter().find(|db| db.id() == id);
                if let Some(db) = open {
                    let is_coordinator = db.guid() == unit.coordinator;
                    return is_coordinator.then(|| answer(&db, unit)).transpose();
                }
                let Ok(Some(decisions)) = self.read_decisions(unit.coordinator, files) else {
                    return Ok(None);
                };
                reached!("coordinator.read.from.log");
                (
                    unit.coordinator,
                    decisions.iter().map(Decision::key).collect(),
                )
            }
        };
        if guid != unit.coordinator {
            return Ok(None);
        }
        Ok(Some(match decisions.contains(&unit.key()) {
            true => Outcome::Committed,
            false => Outcome::RolledBack,
        }))
    }

    /// Decision in the log of a closed database. `None` when it is another one.
    fn read_decisions(&self, guid: u64, files: Vec<FileSpec>) -> Result<Option<Vec<Decision>>> {
        let (log_spec, data) = crate::database::open::split_specs(files)?;
        let files = FileSet::open(&data, self.env())?;
        if files.guid() != guid {
            return Ok(None);
        }
        let log = Log::open(&log_spec, guid, self.env(), self.log_shared())?;
        let store = crate::buffer::Store::new(self.next_store_id(), files, log);
        let read = crate::replay::read_decisions(&store);
        store.files.release();
        store.log.release();
        read.map(Some)
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

    /// Brings the decisions of this database to the disks of those they are for: nobody can ask it while it is closed. One
    /// that fails at that is fenced, and its recovery asks.
    pub(crate) fn harden_others(&self) {
        for (store, lsn) in self.decisions().unhardened() {
            if let Some(store) = store.upgrade() {
                let _ = store.log.harden_here(lsn);
            }
        }
    }
}

/// Answer of an open coordinator.
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

/// `coordinator` forgets decisions that `others`, all databases of this guid, have on disk, there and on their participants', as soon as they
/// have. Nobody waits for participants here: whoever opens a database may be the one who brings them.
fn settle(coordinator: &Database, guid: u64, others: &[Arc<Database>]) {
    let (mut prepared, mut at) = (Vec::new(), Vec::new());
    for other in others {
        // Still to be committed by the sessions that prepared them. What is committed by now gets to disk next.
        prepared.extend(other.prepared_units(coordinator.guid()));
        let store = other.store_handle();
        let last = Lsn(store.log.end().0 - 1);
        if store.log.harden_all_here().is_err() {
            return;
        }
        at.push((Arc::downgrade(store), last));
    }
    let decisions = coordinator.decisions();
    decisions.all_appended(guid, &prepared, &at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Batch, Growth, Isolation, ScanSpec, Settings};
    use crate::engine::EngineConfig;
    use crate::lock::Owner;
    use crate::together::commit_together;
    use daruma_base::Disk;
    use daruma_sim::SimDisk;
    use std::path::{Path, PathBuf};

    const NAMES: [&str; 3] = ["a", "b", "other"];

    fn specs(name: &str) -> Vec<FileSpec> {
        let spec = |id, filegroup, end| FileSpec {
            id,
            filegroup,
            logical_name: format!("{name}{end}"),
            path: PathBuf::from(format!("/{name}.{end}")),
            size_pages: 192,
            growth: Growth::Pages(64),
            max_pages: None,
        };
        vec![spec(1, 1, "mdf"), spec(2, 0, "ldf")]
    }

    fn id(which: usize) -> DatabaseId {
        DatabaseId(5 + which as u16)
    }

    fn engine(disk: &Arc<SimDisk>) -> Arc<Engine> {
        let engine = Engine::new(daruma_sim::env(disk, 1), EngineConfig::default());
        let list = || (0..).zip(NAMES).map(|(n, name)| (id(n), specs(name)));
        engine.set_directory(Arc::new(move || list().collect()));
        engine
    }

    /// What is left of a server that has decided for `a` and `b`, and was stopped before `b` had it on disk.
    fn decided() -> Arc<SimDisk> {
        let disk = SimDisk::new(1);
        let created = engine(&disk);
        let open = (0..).zip(NAMES).map(|(n, name)| {
            let made = created.create_database(id(n), name, specs(name), Settings::default());
            made.expect("creates")
        });
        let open: Vec<Arc<Database>> = open.collect();
        let owner = Owner::new(1, Default::default());
        let txns = open[..2].iter().map(|db| {
            let txn = db.begin(&owner);
            let tree = db.tree(db.catalog_tree()).expect("tree");
            tree.insert(&txn, b"k", b"v").expect("inserts");
            txn
        });
        let txns: Vec<_> = txns.collect();
        commit_together(&txns).expect("commits");
        drop((txns, open, created));
        disk.crash();
        disk.fork(1)
    }

    /// Decisions of `a` when `a` and `b` are open, and some of the other database's files are gone.
    fn kept_without(gone: &[&str]) -> usize {
        let disk = decided();
        for path in gone {
            disk.remove(Path::new(path)).expect("is there");
        }
        let engine = engine(&disk);
        let open = |n: usize| engine.open_database(id(n), NAMES[n], specs(NAMES[n]));
        let (a, _) = open(0).expect("opens");
        assert_eq!(a.decisions().list().len(), 1, "b may still ask");
        let (b, _) = open(1).expect("opens");
        let view = b.begin(&Owner::new(1, Default::default()));
        let view = view.view(Isolation::Current);
        let tree = b.tree(b.catalog_tree()).expect("tree");
        let mut scan = tree.scan(&view, ScanSpec::all());
        let mut batch = Batch::new();
        assert!(scan.next(&mut batch).expect("reads") && batch.len() == 1);
        a.decisions().list().len()
    }

    #[test]
    fn a_database_that_cannot_be_read_keeps_decisions_only_while_nothing_tells_whose_it_is() {
        assert_eq!(kept_without(&[]), 0);
        assert_eq!(kept_without(&["/other.mdf"]), 0, "its log tells");
        assert_eq!(kept_without(&["/other.ldf"]), 0);
        assert_eq!(kept_without(&["/other.mdf", "/other.ldf"]), 1);
    }
}
