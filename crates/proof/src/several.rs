//! Transactions over two databases: each I/O of a scenario goes wrong in turn, and what is there afterwards is in both or
//! in none.
//!
//! Theory: as `every_io`, over a coordinator and a database that asks it. After each fault the two are recovered, in either
//! order, so that the one that asks finds its coordinator open, or reads its log. Then the machine stops again without
//! having done anything: what was resolved must stay so. Recovery itself is stopped at each of its calls as well.
//!
//! | commit was | must be |
//! |---|---|
//! | acknowledged | in both |
//! | refused while both databases go on | in none |
//! | interrupted | in both or in none |

use crate::world::Violation;
use daruma_base::DatabaseId;
use daruma_sim::{Faults, SimDisk};
use daruma_storage::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Checked<T = ()> = std::result::Result<T, Violation>;

const IDS: [DatabaseId; 2] = [DatabaseId(5), DatabaseId(6)];
const POOL_PAGES: usize = 64;
/// Keys: what each transaction leaves, what it leaves behind its savepoint, and who was last.
const BEHIND: u32 = 10_000;
const LAST: u32 = 90_000;
/// Accelerated recovery of the coordinator and of the other database.
const MODES: [[bool; 2]; 3] = [[false, false], [true, true], [false, true]];

enum Step {
    /// One transaction over both.
    Both,
    RollBack,
    /// One in a single database.
    Single(usize, Durability),
    Checkpoint(usize),
    Background,
    Flush(usize),
    SwitchMode(usize),
}

const SCENARIO: &[Step] = &[
    Step::Both,
    Step::Both,
    Step::Single(1, Durability::Full),
    Step::Checkpoint(0),
    Step::Both,
    Step::Checkpoint(1),
    Step::Both,
    Step::RollBack,
    Step::Both,
    Step::Flush(1),
    Step::Both,
    Step::Background,
    Step::Checkpoint(0),
    Step::Single(0, Durability::Delayed),
    Step::Both,
    Step::SwitchMode(1),
    Step::Both,
    Step::Both,
];

/// What became of a transaction, as far as its session knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Committed,
    /// Committed with delayed durability, or interrupted.
    Open,
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    fate: Fate,
    /// The database of a transaction in a single one.
    single: Option<usize>,
    keeps_behind: bool,
    tree: Option<[TreeId; 2]>,
}

/// What goes wrong at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Error,
    PowerLoss,
    Death,
}

/// What a run over all calls did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Several {
    /// Calls of the undisturbed scenarios.
    pub calls: u64,
    /// Runs with one call going wrong.
    pub runs: u64,
    pub recoveries_twice: u64,
    /// Prepared transactions that recovery found, and committed or rolled back.
    pub committed: u64,
    pub rolled_back: u64,
}

/// Goes through every `stride`th call of the scenario in each combination of modes, and after every `recovery_stride`th
/// of those power losses through every `recovery_stride`th call of the recovery.
pub fn several(stride: u64, recovery_stride: u64) -> Checked<Several> {
    let mut done = Several::default();
    for modes in MODES {
        let told = |Violation(what)| Violation(format!("accelerated {modes:?}: {what}"));
        each_call(modes, stride.max(1), recovery_stride.max(1), &mut done).map_err(told)?;
    }
    Ok(done)
}

fn each_call(modes: [bool; 2], stride: u64, recovery_stride: u64, done: &mut Several) -> Checked {
    let start = created(modes)?;
    let whole = Play::run(&start, Faults::default());
    if whole.failed > 0 {
        return Err(Violation("the scenario fails without a fault".into()));
    }
    let calls = whole.disk.ios();
    done.calls += calls;
    whole.end(Fault::PowerLoss, 0, done)?;
    for call in (0..calls).step_by(stride as usize) {
        for fault in [Fault::Error, Fault::PowerLoss, Fault::Death] {
            let told = |Violation(what)| Violation(format!("call {call}, {fault:?}: {what}"));
            let faults = match fault {
                Fault::Error => Faults {
                    fail_io_at: Some(call),
                    ..Faults::default()
                },
                Fault::PowerLoss | Fault::Death => Faults {
                    stop_io_at: Some(call),
                    ..Faults::default()
                },
            };
            let play = Play::run(&start, faults);
            done.runs += 1;
            let is_twice = (call / stride).is_multiple_of(recovery_stride);
            match fault == Fault::PowerLoss && is_twice {
                true => play.end_twice(recovery_stride, done).map_err(told)?,
                false => play.end(fault, call, done).map_err(told)?,
            }
        }
    }
    Ok(())
}

fn specs(which: usize) -> Vec<FileSpec> {
    let name = ["a", "b"][which];
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
        spec(1, 1, format!("/{name}.mdf"), 192),
        spec(2, 0, format!("/{name}.ldf"), 130),
    ]
}

fn engine(disk: &Arc<SimDisk>) -> Arc<Engine> {
    let config = EngineConfig {
        buffer_pool_pages: POOL_PAGES,
        ..EngineConfig::default()
    };
    let engine = Engine::new(daruma_sim::env(disk, 1), config);
    engine.set_directory(Arc::new(|| {
        (0..2).map(|which| (IDS[which], specs(which))).collect()
    }));
    engine
}

fn created(modes: [bool; 2]) -> Checked<Arc<SimDisk>> {
    let disk = SimDisk::new(1);
    let engine = engine(&disk);
    for which in 0..2 {
        let settings = Settings {
            accelerated_recovery: modes[which],
            ..Settings::default()
        };
        let db = engine.create_database(IDS[which], "t", specs(which), settings);
        let db = db.map_err(|e| Violation(format!("not created: {e}")))?;
        let txn = db.begin(&owner());
        let prepared = db.tree(db.catalog_tree()).and_then(|tree| {
            tree.insert(&txn, &LAST.to_be_bytes(), &0u32.to_be_bytes())?;
            txn.commit(Durability::Full)?;
            db.close()
        });
        prepared.map_err(|e| Violation(format!("not filled: {e}")))?;
    }
    drop(engine);
    Ok(disk.fork(1))
}

fn owner() -> Arc<Owner> {
    let owner = Owner::new(100, Default::default());
    owner.lock_timeout_ms.store(0, Ordering::Relaxed);
    owner
}

type Pair = [Arc<Database>; 2];

/// Opens both, the one that asks first if told so.
fn open(disk: &Arc<SimDisk>, reversed: bool) -> Result<(Arc<Engine>, Pair, Vec<ResolvedUnit>)> {
    let engine = engine(disk);
    let open = |which: usize| engine.open_database(IDS[which], "t", specs(which));
    let ((a, first), (b, second)) = match reversed {
        false => (open(0)?, open(1)?),
        true => {
            let b = open(1)?;
            (open(0)?, b)
        }
    };
    let resolved = first.resolved.into_iter().chain(second.resolved);
    let resolved = resolved.collect();
    Ok((engine, [a, b], resolved))
}

/// One run of the scenario.
struct Play {
    disk: Arc<SimDisk>,
    known: BTreeMap<u32, Known>,
    failed: u64,
}

impl Play {
    fn run(start: &Arc<SimDisk>, faults: Faults) -> Play {
        let mut play = Play {
            disk: start.fork(7),
            known: BTreeMap::new(),
            failed: 0,
        };
        play.disk.set_faults(faults);
        match open(&play.disk, false) {
            Ok((engine, pair, _)) => play.perform(&engine, &pair),
            Err(_) => play.failed += 1,
        }
        play
    }

    fn perform(&mut self, engine: &Arc<Engine>, pair: &Pair) {
        for (step, number) in SCENARIO.iter().zip(1..) {
            let online = |db: &Arc<Database>| db.state() == DatabaseState::Online;
            if self.disk.is_stopped() || !pair.iter().all(online) {
                return;
            }
            let owner = owner();
            let result = match step {
                Step::Both => self.transact(pair, &owner, number, None, Ending::Together),
                Step::RollBack => self.transact(pair, &owner, number, None, Ending::RollBack),
                Step::Single(which, durability) => {
                    let ending = Ending::Alone(*durability);
                    self.transact(pair, &owner, number, Some(*which), ending)
                }
                Step::Checkpoint(which) => pair[*which].checkpoint(),
                Step::Flush(which) => pair[*which].flush_log(),
                Step::Background => pair
                    .iter()
                    .try_for_each(|db| db.background_step().map(|_| ())),
                Step::SwitchMode(which) => {
                    let mut settings = pair[*which].settings();
                    settings.accelerated_recovery = !settings.accelerated_recovery;
                    pair[*which].set_settings(settings)
                }
            };
            engine.release_locks(&owner);
            self.failed += u64::from(result.is_err());
        }
    }

    fn transact(
        &mut self,
        pair: &Pair,
        owner: &Arc<Owner>,
        number: u32,
        single: Option<usize>,
        ending: Ending,
    ) -> Result<()> {
        let mut known = Known {
            fate: Fate::Gone,
            single,
            keeps_behind: number.is_multiple_of(3),
            tree: None,
        };
        let dropped = self.known.values().rev().find_map(|k| match k.fate {
            Fate::Committed => k.tree,
            _ => None,
        });
        let parts = (0..2).filter(|which| single.is_none_or(|s| s == *which));
        let txns: Vec<Txn> = parts.clone().map(|w| pair[w].begin(owner)).collect();
        let mut trees = Vec::new();
        let written = parts.zip(&txns).try_for_each(|(which, txn)| {
            let db = &pair[which];
            write(db, txn, number, known.keeps_behind)?;
            if single.is_none() && number.is_multiple_of(2) {
                trees.push(db.create_tree(txn, 1)?);
            } else if let Some(tree) = dropped.filter(|_| single.is_none()) {
                db.drop_tree(txn, tree[which])?;
            }
            Ok(())
        });
        let ended = written.and_then(|()| match ending {
            Ending::Together => commit_together(&txns),
            Ending::Alone(durability) => txns.iter().try_for_each(|t| t.commit(durability)),
            Ending::RollBack => Ok(()),
        });
        let going_on = |db: &Arc<Database>| db.state() == DatabaseState::Online;
        known.fate = match (&ended, ending) {
            (Ok(()), Ending::Together | Ending::Alone(Durability::Full)) => Fate::Committed,
            (Ok(()), Ending::Alone(Durability::Delayed)) => Fate::Open,
            (Ok(()), Ending::RollBack) => Fate::Gone,
            (Err(_), _) if !self.disk.is_stopped() && pair.iter().all(going_on) => Fate::Gone,
            (Err(_), _) => Fate::Open,
        };
        if let (Ok(()), Ok(both)) = (&ended, <[TreeId; 2]>::try_from(trees)) {
            known.tree = Some(both);
        }
        if known.fate == Fate::Committed && dropped.is_some() {
            self.known.values_mut().for_each(|k| {
                k.tree = k.tree.filter(|t| Some(*t) != dropped);
            });
        }
        self.known.insert(number, known);
        let undone: Vec<Result<()>> = txns.iter().map(Txn::rollback).collect();
        ended?;
        undone.into_iter().collect()
    }

    fn end(self, fault: Fault, call: u64, done: &mut Several) -> Checked {
        match fault {
            Fault::Death => self.disk.restart(),
            Fault::Error | Fault::PowerLoss => self.disk.crash(),
        }
        let reversed = !call.is_multiple_of(2);
        let first = self.check(&self.disk, reversed, done)?;
        self.disk.crash();
        let again = self.check(&self.disk, !reversed, done)?;
        match first == again {
            true => Ok(()),
            false => Err(Violation(format!("{first:?} became {again:?}"))),
        }
    }

    /// The recovery is stopped at its calls in turn, and done again.
    fn end_twice(self, stride: u64, done: &mut Several) -> Checked {
        self.disk.crash();
        for reversed in [false, true] {
            let counted = self.disk.fork(1);
            let opened = open(&counted, reversed);
            drop(opened.map_err(|e| Violation(format!("not opened: {e}")))?);
            for call in (0..counted.ios()).step_by(stride as usize) {
                let disk = self.disk.fork(call);
                disk.set_faults(Faults {
                    stop_io_at: Some(call),
                    ..Faults::default()
                });
                drop(open(&disk, reversed));
                disk.crash();
                done.recoveries_twice += 1;
                let told =
                    |Violation(what)| Violation(format!("recovery stopped at {call}: {what}"));
                self.check(&disk, !reversed, done).map_err(told)?;
            }
        }
        Ok(())
    }

    /// Recovers and compares; numbers of the transactions that are there.
    fn check(&self, disk: &Arc<SimDisk>, reversed: bool, done: &mut Several) -> Checked<Vec<u32>> {
        disk.set_faults(Faults::default());
        let opened = open(disk, reversed);
        let (engine, pair, resolved) = opened.map_err(|e| Violation(format!("not opened: {e}")))?;
        for resolved in resolved {
            match resolved.outcome {
                Outcome::Committed => done.committed += 1,
                Outcome::RolledBack => done.rolled_back += 1,
                Outcome::Assumed => return Err(Violation("nobody was asked".into())),
            }
        }
        let there = self.compare(&pair)?;
        for db in &pair {
            for _ in 0..100 {
                let step = db.background_step();
                if !step.map_err(|e| Violation(format!("background: {e}")))? {
                    break;
                }
            }
        }
        let settled = self.compare(&pair)?;
        drop(pair);
        drop(engine);
        match there == settled {
            true => Ok(there),
            false => Err(Violation(format!("{there:?} settled to {settled:?}"))),
        }
    }

    fn compare(&self, pair: &Pair) -> Checked<Vec<u32>> {
        let rows = [rows(&pair[0])?, rows(&pair[1])?];
        let mut there = Vec::new();
        for (number, known) in &self.known {
            let found = [0, 1].map(|which| rows[which].contains_key(number));
            let wanted = match (known.single, known.fate) {
                (_, Fate::Gone) => Some(false),
                (_, Fate::Committed) => Some(true),
                (_, Fate::Open) => None,
            };
            for (which, found) in found.into_iter().enumerate() {
                let concerns = known.single.is_none_or(|s| s == which);
                if concerns && wanted.is_some_and(|w| w != found) || !concerns && found {
                    let what = format!("{number} in database {which}: {found}, {known:?}");
                    return Err(Violation(what));
                }
            }
            if known.single.is_none() && found[0] != found[1] {
                return Err(Violation(format!(
                    "{number} is split: {found:?}, {known:?}"
                )));
            }
            if found.contains(&true) {
                there.push(*number);
            }
        }
        for (which, rows) in rows.iter().enumerate() {
            self.compare_whole(which, rows)?;
        }
        Ok(there)
    }

    /// Each transaction that is there is there with all it did.
    fn compare_whole(&self, which: usize, rows: &BTreeMap<u32, Vec<u8>>) -> Checked {
        let numbers = self.known.keys().filter(|n| rows.contains_key(n));
        let last = numbers.clone().max().copied().unwrap_or(0);
        if rows.get(&LAST).map(Vec::as_slice) != Some(&last.to_be_bytes()) {
            let found = rows.get(&LAST);
            return Err(Violation(format!(
                "database {which}: last is {found:?}, not {last}"
            )));
        }
        for number in numbers {
            let behind = rows.contains_key(&(BEHIND + number));
            let known = self.known.get(number);
            if known.is_some_and(|k| k.keeps_behind) != behind {
                return Err(Violation(format!(
                    "database {which}: {number} is there in part"
                )));
            }
        }
        match rows.len() {
            len if len == 1 + self.expected_rows(rows) => Ok(()),
            len => Err(Violation(format!("database {which}: {len} rows"))),
        }
    }

    fn expected_rows(&self, rows: &BTreeMap<u32, Vec<u8>>) -> usize {
        let there = self.known.iter().filter(|(n, _)| rows.contains_key(n));
        there.map(|(_, k)| 1 + usize::from(k.keeps_behind)).sum()
    }
}

#[derive(Clone, Copy)]
enum Ending {
    Together,
    Alone(Durability),
    RollBack,
}

/// What each transaction does in each of its databases.
fn write(db: &Arc<Database>, txn: &Txn, number: u32, keeps_behind: bool) -> Result<()> {
    let tree = db.tree(db.catalog_tree())?;
    // Some fill several blocks of log.
    let payload = vec![number as u8; if number.is_multiple_of(4) { 3_000 } else { 40 }];
    tree.insert(txn, &number.to_be_bytes(), &payload)?;
    if number.is_multiple_of(4) {
        db.put_blob(txn, &vec![1; 20_000])?;
    }
    let savepoint = txn.lasting_savepoint();
    tree.insert(txn, &(BEHIND + number).to_be_bytes(), &payload)?;
    if !keeps_behind {
        txn.rollback_to(savepoint)?;
    }
    let view = txn.view(Isolation::Current);
    if let Some(last) = tree.get(&view, &LAST.to_be_bytes())? {
        tree.update(txn, &LAST.to_be_bytes(), last.stamp, &number.to_be_bytes())?;
    }
    Ok(())
}

fn rows(db: &Arc<Database>) -> Checked<BTreeMap<u32, Vec<u8>>> {
    let failed = |e: StorageError| Violation(format!("scan: {e}"));
    let tree = db.tree(db.catalog_tree()).map_err(failed)?;
    let txn = db.begin(&owner());
    let view = txn.view(Isolation::ReadCommittedSnapshot);
    let mut scan = tree.scan(&view, ScanSpec::all());
    let (mut batch, mut rows) = (Batch::new(), BTreeMap::new());
    while scan.next(&mut batch).map_err(failed)? {
        for i in 0..batch.len() {
            let key = <[u8; 4]>::try_from(batch.key(i)).unwrap_or_default();
            rows.insert(u32::from_be_bytes(key), batch.payload(i).to_vec());
        }
    }
    Ok(rows)
}
