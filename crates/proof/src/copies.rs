//! Transactions over several databases while restored copies of them, which have their guids, stand beside them: copies are made,
//! changed, dropped, take part in transactions and coordinate them, and are recovered before or after their origins, or much later.
//!
//! Theory: as `several`, drawn from a seed instead of each call in turn, because the order in which databases come and go is what
//! matters. A copy has what its origin had, so it becomes a member of each transaction that its origin was a member of; from then on
//! it goes its own way.
//!
//! | commit was | must be |
//! |---|---|
//! | acknowledged | in all of its databases |
//! | refused while all databases go on | in none |
//! | interrupted, or delayed | in all or in none of them, for good as soon as one was seen |
//!
//! A coordinator is not dropped while a database of its transactions is closed: whom that could ask then has no answer
//! (`docs/decisions/2026-11-22-commit-over-databases.md`).

use crate::world::Violation;
use daruma_base::{DatabaseId, Disk, OpenMode};
use daruma_sim::{Faults, SimDisk, SimRandom};
use daruma_storage::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

type Checked<T = ()> = std::result::Result<T, Violation>;

const POOL_PAGES: usize = 64;
/// Ids that are given, again after a drop as well: a copy's may be below its origin's.
const IDS: u64 = 7;
const DATABASES_MAX: usize = 5;
/// Power losses and deaths of a run.
const ROUNDS: u64 = 10;
const STEPS_MAX: u64 = 14;
/// Reads and writes within which most of a round's faults fall.
const FAULT_WITHIN: u64 = 500;

/// What runs did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    pub commits: u64,
    /// Copies of databases at rest, and of what a power loss left.
    pub copies: u64,
    pub copies_of_crashed: u64,
    pub drops: u64,
    pub recoveries: u64,
    /// Prepared transactions that recovery found, and committed or rolled back.
    pub committed: u64,
    pub rolled_back: u64,
}

impl Copies {
    /// Adds what another run did.
    pub fn add(&mut self, other: &Copies) {
        self.commits += other.commits;
        self.copies += other.copies;
        self.copies_of_crashed += other.copies_of_crashed;
        self.drops += other.drops;
        self.recoveries += other.recoveries;
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Committed,
    /// In one database, with delayed durability, and the machine still runs.
    Delayed,
    Open,
    Gone,
}

#[derive(Clone, Debug)]
struct Known {
    fate: Fate,
    /// Databases that have it, or do not have it, together.
    members: BTreeSet<DatabaseId>,
    coordinator: DatabaseId,
}

/// Databases that exist, by the number in the names of their files, as the master database would list them.
type Listed = Arc<Mutex<BTreeMap<DatabaseId, u32>>>;

struct World {
    disk: Arc<SimDisk>,
    random: SimRandom,
    engine: Arc<Engine>,
    listed: Listed,
    open: BTreeMap<DatabaseId, Arc<Database>>,
    guids: BTreeMap<DatabaseId, u64>,
    known: BTreeMap<u32, Known>,
    /// Numbers of transactions and of files.
    next: u32,
    done: Copies,
}

/// One run: the same seed does the same.
pub fn copies(seed: u64) -> Checked<Copies> {
    let mut world = World::create(seed)?;
    for round in 0..ROUNDS {
        let told = |Violation(what)| Violation(format!("seed {seed}, round {round}: {what}"));
        world.round().map_err(told)?;
    }
    let told = |Violation(what)| Violation(format!("seed {seed}, at the end: {what}"));
    world.open_all(false).map_err(told)?;
    world.compare().map_err(told)?;
    Ok(world.done)
}

fn failed(action: &'static str) -> impl Fn(StorageError) -> Violation {
    move |error| Violation(format!("{action}: {error}"))
}

fn specs(number: u32) -> Vec<FileSpec> {
    let spec = |id, filegroup, path: String, size_pages| FileSpec {
        id,
        filegroup,
        logical_name: path.clone(),
        path: PathBuf::from(path),
        size_pages,
        growth: Growth::Pages(64),
        max_pages: None,
    };
    vec![
        spec(1, 1, format!("/{number}.mdf"), 192),
        spec(2, 0, format!("/{number}.ldf"), 130),
    ]
}

fn engine(disk: &Arc<SimDisk>, listed: &Listed, seed: u64) -> Arc<Engine> {
    let config = EngineConfig {
        buffer_pool_pages: POOL_PAGES,
        ..EngineConfig::default()
    };
    let engine = Engine::new(daruma_sim::env(disk, seed), config);
    let listed = listed.clone();
    engine.set_directory(Arc::new(move || {
        let listed = listed.lock().unwrap_or_else(PoisonError::into_inner);
        listed.iter().map(|(id, n)| (*id, specs(*n))).collect()
    }));
    engine
}

fn owner() -> Arc<Owner> {
    let owner = Owner::new(100, Default::default());
    owner.lock_timeout_ms.store(0, Ordering::Relaxed);
    owner
}

fn payload(number: u32) -> Vec<u8> {
    // Some fill several blocks of log.
    vec![number as u8; if number.is_multiple_of(4) { 3_000 } else { 40 }]
}

fn numbers(db: &Arc<Database>) -> Checked<BTreeSet<u32>> {
    let tree = db.tree(db.catalog_tree()).map_err(failed("tree"))?;
    let txn = db.begin(&owner());
    let view = txn.view(Isolation::ReadCommittedSnapshot);
    let mut scan = tree.scan(&view, ScanSpec::all());
    let (mut batch, mut found) = (Batch::new(), BTreeSet::new());
    while scan.next(&mut batch).map_err(failed("scan"))? {
        for i in 0..batch.len() {
            let key = <[u8; 4]>::try_from(batch.key(i)).unwrap_or_default();
            let number = u32::from_be_bytes(key);
            if batch.payload(i) != payload(number) {
                return Err(Violation(format!("{number} has other bytes")));
            }
            found.insert(number);
        }
    }
    Ok(found)
}

impl World {
    fn create(seed: u64) -> Checked<World> {
        let disk = SimDisk::new(seed);
        let listed = Listed::default();
        let mut world = World {
            engine: engine(&disk, &listed, seed),
            random: SimRandom::new(seed ^ 0xC0B1),
            disk,
            listed,
            open: BTreeMap::new(),
            guids: BTreeMap::new(),
            known: BTreeMap::new(),
            next: 0,
            done: Copies::default(),
        };
        for _ in 0..2 {
            let (id, number) = (world.free_id(), world.number());
            let settings = Settings {
                accelerated_recovery: world.one_in(2),
                ..Settings::default()
            };
            let files = specs(number);
            let db = world.engine.create_database(id, "t", files, settings);
            let db = db.map_err(failed("create"))?;
            world.guids.insert(id, db.guid());
            world.list().insert(id, number);
            world.open.insert(id, db);
        }
        Ok(world)
    }

    fn list(&self) -> std::sync::MutexGuard<'_, BTreeMap<DatabaseId, u32>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ids(&self) -> Vec<DatabaseId> {
        self.list().keys().copied().collect()
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn one_in(&self, count: u64) -> bool {
        self.random.below(count) == 0
    }

    fn one_of<T: Copy>(&self, of: &[T]) -> Option<T> {
        of.get(self.random.below(of.len().max(1) as u64) as usize)
            .copied()
    }

    fn free_id(&self) -> DatabaseId {
        loop {
            let id = DatabaseId(5 + self.random.below(IDS) as u16);
            if !self.list().contains_key(&id) {
                return id;
            }
        }
    }

    fn is_going_on(&self) -> bool {
        let online = |db: &Arc<Database>| db.state() == DatabaseState::Online;
        !self.disk.is_stopped() && self.open.values().all(online)
    }

    fn arm(&self) {
        let at = Some(self.disk.ios() + self.random.below(FAULT_WITHIN));
        let faults = match self.random.below(4) {
            0 => Faults::default(),
            1 => Faults {
                fail_io_at: at,
                ..Faults::default()
            },
            _ => Faults {
                stop_io_at: at,
                ..Faults::default()
            },
        };
        self.disk.set_faults(faults);
    }

    fn round(&mut self) -> Checked {
        self.arm();
        for _ in 0..1 + self.random.below(STEPS_MAX) {
            // A step that fails by a fault that nobody is hurt by is one that was not taken.
            let _ = self.step()?;
            if !self.is_going_on() {
                break;
            }
        }
        self.stop();
        if self.one_in(3) {
            self.copy_crashed()?;
        }
        while self.one_in(3) {
            let faults = Faults {
                stop_io_at: Some(self.random.below(FAULT_WITHIN / 2)),
                ..Faults::default()
            };
            self.disk.set_faults(faults);
            let _ = self.recover(true);
            self.stop();
        }
        self.open_all(self.one_in(2))?;
        self.compare()
    }

    /// Everything that was open is gone; the disk has what it kept.
    fn stop(&mut self) {
        self.open.clear();
        for known in self.known.values_mut() {
            if known.fate == Fate::Delayed {
                known.fate = Fate::Open;
            }
        }
        self.engine = engine(&self.disk, &self.listed, self.random.next());
        match self.one_in(4) {
            true => self.disk.restart(),
            false => self.disk.crash(),
        }
    }

    fn open_all(&mut self, leaves_some: bool) -> Checked {
        self.disk.set_faults(Faults::default());
        self.recover(leaves_some).map_err(failed("not opened"))?
    }

    /// Opens what is not open, in any order. The inner result is about what recovery did.
    fn recover(&mut self, leaves_some: bool) -> Result<Checked> {
        let mut closed = self.ids();
        closed.retain(|id| !self.open.contains_key(id));
        while let Some(id) = self.one_of(&closed) {
            closed.retain(|other| *other != id);
            if leaves_some && self.one_in(3) {
                continue;
            }
            if let Err(violation) = self.open_one(id)? {
                return Ok(Err(violation));
            }
        }
        Ok(Ok(()))
    }

    fn open_one(&mut self, id: DatabaseId) -> Result<Checked> {
        let Some(number) = self.list().get(&id).copied() else {
            return Ok(Ok(()));
        };
        let (db, report) = self.engine.open_database(id, "t", specs(number))?;
        self.done.recoveries += 1;
        self.open.insert(id, db);
        for resolved in report.resolved {
            match resolved.outcome {
                Outcome::Committed => self.done.committed += 1,
                Outcome::RolledBack => self.done.rolled_back += 1,
                Outcome::Assumed => {
                    return Ok(Err(Violation(format!("{id:?}: nobody was asked"))));
                }
            }
        }
        Ok(Ok(()))
    }

    /// The outer result is a violation, the inner one a fault.
    fn step(&mut self) -> Checked<Result<()>> {
        let open: Vec<DatabaseId> = self.open.keys().copied().collect();
        let Some(one) = self.one_of(&open) else {
            return Ok(self.open_closed()?.map(|_| ()));
        };
        let db = self.open[&one].clone();
        match self.random.below(16) {
            0 => Ok(db.checkpoint()),
            1 => Ok(db.flush_log()),
            2 => Ok(db.background_step().map(|_| ())),
            3 => Ok(self.close(one)),
            4 | 5 => self.open_closed(),
            6 | 7 => self.copy(),
            8 => Ok(self.drop_copy()),
            _ => Ok(self.transact(&open)),
        }
    }

    fn open_closed(&mut self) -> Checked<Result<()>> {
        let mut closed = self.ids();
        closed.retain(|id| !self.open.contains_key(id));
        match self.one_of(&closed).map(|id| self.open_one(id)) {
            Some(Ok(checked)) => checked.map(Ok),
            Some(Err(error)) => Ok(Err(error)),
            None => Ok(Ok(())),
        }
    }

    /// What was closed without an error is on disk.
    fn close(&mut self, id: DatabaseId) -> Result<()> {
        let Some(db) = self.open.remove(&id) else {
            return Ok(());
        };
        if let Err(error) = db.close() {
            // Who closes a database that has failed has to look at it before going on; here the machine stops.
            self.disk.stop();
            return Err(error);
        }
        for known in self.known.values_mut() {
            if known.fate == Fate::Delayed && known.members.contains(&id) {
                known.fate = Fate::Committed;
            }
        }
        Ok(())
    }

    fn transact(&mut self, open: &[DatabaseId]) -> Result<()> {
        let mut members: BTreeSet<DatabaseId> = open.iter().copied().collect();
        members.retain(|_| !self.one_in(4));
        let Some(coordinator) = members.first().copied() else {
            return Ok(());
        };
        let number = self.number();
        let owner = owner();
        let begin = |id: &DatabaseId| self.open[id].begin(&owner);
        let txns: Vec<Txn> = members.iter().map(begin).collect();
        let written = txns.iter().try_for_each(|txn| {
            let db = txn.database();
            let tree = db.tree(db.catalog_tree())?;
            tree.insert(txn, &number.to_be_bytes(), &payload(number))
                .map(|_| ())
        });
        let is_delayed = members.len() == 1 && self.one_in(3);
        let ended = written.and_then(|()| match (txns.as_slice(), is_delayed) {
            ([only], true) => only.commit(Durability::Delayed),
            _ => commit_together(&txns),
        });
        let fate = match (&ended, is_delayed) {
            (Ok(()), false) => Fate::Committed,
            (Ok(()), true) => Fate::Delayed,
            (Err(_), _) if self.is_going_on() => Fate::Gone,
            (Err(_), _) => Fate::Open,
        };
        for txn in &txns {
            // One that failed is fenced, and its recovery rolls back.
            let _ = txn.rollback();
        }
        drop(txns);
        self.engine.release_locks(&owner);
        self.done.commits += u64::from(ended.is_ok());
        let known = Known {
            fate,
            members,
            coordinator,
        };
        self.known.insert(number, known);
        ended
    }

    /// A copy of a database at rest, as a restore makes it under another name. Nothing goes wrong meanwhile.
    fn copy(&mut self) -> Checked<Result<()>> {
        let ids = self.ids();
        let Some(origin) = self.one_of(&ids).filter(|_| ids.len() < DATABASES_MAX) else {
            return Ok(Ok(()));
        };
        self.disk.set_faults(Faults::default());
        let is_open = self.open.contains_key(&origin);
        self.close(origin).map_err(failed("close"))?;
        let copy = self.copy_files(origin)?;
        self.done.copies += 1;
        let mut order = vec![copy];
        let at = self.random.below(2) as usize;
        order.splice(at..at, is_open.then_some(origin));
        for id in order {
            self.open_one(id).map_err(failed("not opened"))??;
        }
        self.arm();
        Ok(Ok(()))
    }

    /// A copy of what a stop left, with transactions that are prepared, as a backup that ended there has them.
    fn copy_crashed(&mut self) -> Checked {
        let ids = self.ids();
        if let Some(origin) = self.one_of(&ids).filter(|_| ids.len() < DATABASES_MAX) {
            self.copy_files(origin)?;
            self.done.copies_of_crashed += 1;
        }
        Ok(())
    }

    fn copy_files(&mut self, origin: DatabaseId) -> Checked<DatabaseId> {
        let (id, number) = (self.free_id(), self.number());
        let from = self.list().get(&origin).copied().unwrap_or_default();
        for (from, to) in specs(from).iter().zip(specs(number)) {
            let bytes = self.disk.content_of(&from.path).unwrap_or_default();
            let written = self.write(&to.path, &bytes);
            written.map_err(|error| Violation(format!("copy: {error}")))?;
        }
        self.guids.insert(id, self.guids[&origin]);
        self.list().insert(id, number);
        for known in self.known.values_mut() {
            if known.members.contains(&origin) {
                known.members.insert(id);
            }
        }
        Ok(id)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        let file = self.disk.open(path, OpenMode::CreateNew)?;
        file.set_len(bytes.len() as u64)?;
        file.write_at(bytes, 0)?;
        file.sync_data()?;
        file.release();
        self.disk.sync_dir(Path::new("/"))
    }

    /// A database goes that has another of its guid beside it, be it the copy or the origin.
    fn drop_copy(&mut self) -> Result<()> {
        let mut ids = self.ids();
        let all = ids.clone();
        ids.retain(|id| {
            let is_of_it = |other: &&DatabaseId| self.guids[*other] == self.guids[id];
            all.iter().filter(is_of_it).count() > 1 && !self.may_be_asked(*id)
        });
        let Some(id) = self.one_of(&ids) else {
            return Ok(());
        };
        self.close(id)?;
        if !self.is_going_on() {
            return Ok(());
        }
        let number = self.list().remove(&id);
        for spec in number.map(specs).unwrap_or_default() {
            // What is left of a file that nobody lists concerns nobody.
            let _ = self.disk.remove(&spec.path);
        }
        self.known.values_mut().for_each(|known| {
            known.members.remove(&id);
        });
        self.known.retain(|_, known| !known.members.is_empty());
        self.engine.forget_database(self.guids[&id]);
        self.done.drops += 1;
        Ok(())
    }

    /// Is a database closed that may be in doubt about what this one decided?
    fn may_be_asked(&self, id: DatabaseId) -> bool {
        let decided = self.known.values().filter(|k| k.coordinator == id);
        let mut members = decided.flat_map(|known| &known.members);
        members.any(|member| *member != id && !self.open.contains_key(member))
    }

    /// Each database that is open has what it must have, and nothing else.
    fn compare(&mut self) -> Checked {
        let mut found = BTreeMap::new();
        for (id, db) in &self.open {
            found.insert(*id, numbers(db)?);
        }
        for (number, known) in &mut self.known {
            for member in &known.members {
                let Some(there) = found.get(member).map(|f| f.contains(number)) else {
                    continue;
                };
                let fate = match there {
                    true => Fate::Committed,
                    false => Fate::Gone,
                };
                if known.fate == Fate::Open {
                    known.fate = fate;
                }
                if known.fate != fate {
                    return Err(Violation(format!(
                        "{number} in {member:?} is {fate:?}: {known:?}"
                    )));
                }
            }
        }
        for (id, numbers) in found {
            let is_member = |n: &u32| self.known.get(n).is_some_and(|k| k.members.contains(&id));
            if let Some(stranger) = numbers.into_iter().find(|n| !is_member(n)) {
                return Err(Violation(format!("{stranger} is in {id:?}")));
            }
        }
        Ok(())
    }
}
