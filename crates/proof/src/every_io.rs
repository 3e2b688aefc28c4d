//! Every I/O in turn: one scenario, run once to count its calls, then again with each of them going wrong.
//!
//! Theory (SQLite's I/O error tests): the scenario is the same up to the call that fails, so going through all calls
//! goes through all states that a fault can meet. A call fails once and the rest works; or the machine loses power in
//! the middle of it, which tears what was being written; or the process dies there. Then the database is recovered and
//! compared with the model. Recovery is treated the same way: it stops at each of its own calls, and is done again.
//!
//! | fault | what is left |
//! |---|---|
//! | an error | the session goes on, if the database does; then the power goes |
//! | power loss | synced bytes, any part of the rest |
//! | death of the process | everything written |
//!
//! Invariant: nothing is random but for the model's own seed, so a failing call number repeats.

use crate::model::{Change, History};
use crate::report::Stats;
use crate::session::{Act, Ctx, Failure, Open};
use crate::verify;
use crate::world::{DB, Mode, Started, Violation, specs, started};
use daruma_sim::{Faults, SimDisk, SimRandom};
use daruma_storage::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Checked<T = ()> = std::result::Result<T, Violation>;

/// Few, so that pages go to disk and come back.
const POOL_PAGES: usize = 64;
/// Times the scenario is gone through, on rows and tables that differ each time.
const ROUNDS: usize = 2;
/// Sessions: one works, those from the second on leave a transaction open.
const WORKER: u64 = 100;
const IDLER: u64 = 101;

enum Step {
    Commit(&'static [Act], Durability),
    RollBack(&'static [Act]),
    LeaveOpen(&'static [Act]),
    Checkpoint,
    Background,
    Flush,
    SwitchMode,
}

use Act::*;
use Durability::{Delayed, Full};

const SCENARIO: &[Step] = &[
    Step::Commit(&[Transfer, Upsert, PutBlob], Full),
    Step::Commit(&[CreateTable, InsertMany], Full),
    Step::LeaveOpen(&[Transfer]),
    Step::Checkpoint,
    Step::Commit(&[BuildIndex, Upsert], Full),
    Step::Commit(
        &[Savepoint, InsertMany, UpdateMany, BackToSavepoint, Upsert],
        Full,
    ),
    Step::RollBack(&[InsertMany, DeleteMany, PutBlob]),
    Step::Background,
    Step::SwitchMode,
    Step::Commit(&[UpdateMany, DeleteMany], Full),
    Step::Commit(&[Transfer, PutBlob], Delayed),
    Step::Commit(&[Upsert], Delayed),
    Step::Flush,
    Step::Commit(&[DropIndex, Upsert], Full),
    Step::RollBack(&[BuildIndex, UpdateMany, DropTable]),
    Step::Checkpoint,
    Step::Commit(&[AlterColumn, Rebuild, Upsert], Full),
    Step::RollBack(&[Upsert, Truncate, InsertMany]),
    Step::Commit(&[Truncate, PutBlob], Delayed),
    Step::Commit(&[DropTable], Full),
    Step::Background,
    Step::SwitchMode,
    Step::Commit(&[Transfer, DeleteMany], Full),
    Step::Background,
    Step::RollBack(&[InsertMany, Savepoint, UpdateMany, BackToSavepoint, Upsert]),
    Step::Commit(&[PutBlob], Delayed),
];

/// What goes wrong at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Error,
    PowerLoss,
    Death,
}

impl Fault {
    const ALL: [Fault; 3] = [Fault::Error, Fault::PowerLoss, Fault::Death];

    fn at(self, call: u64) -> Faults {
        match self {
            Fault::Error => Faults {
                fail_io_at: Some(call),
                ..Faults::default()
            },
            Fault::PowerLoss | Fault::Death => Faults {
                stop_io_at: Some(call),
                ..Faults::default()
            },
        }
    }
}

/// What a run over all calls did.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryIo {
    /// Calls of the undisturbed scenario.
    pub calls: u64,
    /// Runs with one call going wrong.
    pub runs: u64,
    /// Recoveries that were stopped and done again.
    pub recoveries_twice: u64,
    pub commits_checked: u64,
}

/// Goes through every `stride`th call of the scenario, and after each power loss through every `recovery_stride`th call
/// of the recovery.
pub fn every_io(mode: Mode, seed: u64, stride: u64, recovery_stride: u64) -> Checked<EveryIo> {
    let start = started(seed, mode)?;
    let mut done = EveryIo::default();
    let whole = Play::run(&start, seed, Faults::default())?;
    done.calls = whole.disk.ios();
    if whole.failed > 0 {
        return Err(Violation("the scenario fails without a fault".into()));
    }
    whole.end(Fault::PowerLoss, &mut done)?;
    for call in (0..done.calls).step_by(stride.max(1) as usize) {
        for fault in Fault::ALL {
            let told = |Violation(what)| Violation(format!("call {call}, {fault:?}: {what}"));
            let play = Play::run(&start, seed, fault.at(call)).map_err(told)?;
            done.runs += 1;
            if fault == Fault::PowerLoss && (call / stride.max(1)).is_multiple_of(recovery_stride) {
                play.end_twice(recovery_stride, &mut done).map_err(told)?;
            } else {
                play.end(fault, &mut done).map_err(told)?;
            }
        }
    }
    Ok(done)
}

/// One run of the scenario.
struct Play {
    disk: Arc<SimDisk>,
    history: History,
    /// Steps that met the fault.
    failed: u64,
}

impl Play {
    fn run(start: &Started, seed: u64, faults: Faults) -> Checked<Play> {
        let mut play = Play {
            disk: start.disk.fork(seed),
            history: start.history.clone(),
            failed: 0,
        };
        play.disk.set_faults(faults);
        let engine = engine(&play.disk);
        match engine.open_database(DB, "t", specs()) {
            Ok((db, _)) => play.perform(start, seed, &engine, &db)?,
            Err(_) => play.failed += 1,
        }
        Ok(play)
    }

    fn perform(
        &mut self,
        start: &Started,
        seed: u64,
        engine: &Arc<Engine>,
        db: &Arc<Database>,
    ) -> Checked {
        let mut stage = Stage {
            db,
            engine,
            worker: owner(WORKER),
            random: SimRandom::new(seed ^ 0x5CE7E),
            stats: Stats::default(),
            next_number: start.next_number,
            next_table: start.next_table,
        };
        let mut open = Vec::new();
        for step in SCENARIO.iter().cycle().take(ROUNDS * SCENARIO.len()) {
            if self.disk.is_stopped() || db.state() != DatabaseState::Online {
                break;
            }
            let result = match step {
                Step::Commit(acts, durability) => self.commit(&mut stage, acts, *durability),
                Step::RollBack(acts) => self.roll_back(&mut stage, acts),
                Step::LeaveOpen(acts) => {
                    let idler = owner(IDLER + open.len() as u64);
                    let (left, result) = self.transact(&mut stage, &idler, acts);
                    open.push(left);
                    result
                }
                Step::Checkpoint => self.hardening(db.checkpoint()),
                Step::Flush => self.hardening(db.flush_log()),
                Step::Background => db.background_step().map(|_| ()).map_err(Failure::from),
                Step::SwitchMode => switch_mode(db).map_err(Failure::from),
            };
            match result {
                Err(Failure::Wrong(what)) => return Err(Violation(what)),
                Err(_) => self.failed += 1,
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn hardening(&mut self, result: Result<()>) -> std::result::Result<(), Failure> {
        result?;
        self.history.harden();
        Ok(())
    }

    /// Statements of one transaction. One that is in another's way is left out.
    fn transact(
        &mut self,
        stage: &mut Stage<'_>,
        owner: &Arc<Owner>,
        acts: &[Act],
    ) -> (Open, std::result::Result<(), Failure>) {
        let number = stage.next_number;
        stage.next_number += 1;
        let mut ctx = stage.ctx(&self.history);
        let mut open = Open::plain(&ctx, owner, number);
        let mut run = || {
            for act in acts {
                match open.act(&mut ctx, *act) {
                    Err(Failure::Conflict) | Ok(()) => {}
                    other => return other,
                }
            }
            open.sign(&mut ctx)
        };
        let result = run();
        (open, result)
    }

    fn commit(
        &mut self,
        stage: &mut Stage<'_>,
        acts: &[Act],
        durability: Durability,
    ) -> std::result::Result<(), Failure> {
        let owner = stage.worker.clone();
        let (open, result) = self.transact(stage, &owner, acts);
        let result = match result {
            Ok(()) => self.end_transaction(stage.db, open, durability),
            Err(failure) => {
                // It takes itself back; the error of that is the same fault.
                let _ = open.txn.rollback();
                Err(failure)
            }
        };
        stage.engine.release_locks(&owner);
        result
    }

    fn end_transaction(
        &mut self,
        db: &Arc<Database>,
        open: Open,
        durability: Durability,
    ) -> std::result::Result<(), Failure> {
        let Open {
            txn,
            number,
            changes,
            ..
        } = open;
        match txn.commit(durability) {
            Ok(()) => {
                self.note(number, changes, durability == Durability::Full);
                Ok(())
            }
            Err(error) => {
                if self.disk.is_stopped() || db.state() != DatabaseState::Online {
                    // Whether it committed is known only after recovery.
                    self.note(number, changes, false);
                } else {
                    let _ = txn.rollback();
                }
                Err(error.into())
            }
        }
    }

    fn note(&mut self, number: u64, changes: Vec<Change>, hard: bool) {
        if !changes.is_empty() {
            self.history.commit(number, changes, hard);
        }
    }

    fn roll_back(
        &mut self,
        stage: &mut Stage<'_>,
        acts: &[Act],
    ) -> std::result::Result<(), Failure> {
        let owner = stage.worker.clone();
        let (open, result) = self.transact(stage, &owner, acts);
        let undone = open.txn.rollback();
        drop(open);
        stage.engine.release_locks(&owner);
        result?;
        Ok(undone?)
    }

    /// The machine or the process goes down, comes up again, and everything is compared.
    fn end(mut self, fault: Fault, done: &mut EveryIo) -> Checked {
        match fault {
            Fault::Death => self.disk.restart(),
            Fault::Error | Fault::PowerLoss => self.disk.crash(),
        }
        verify_after(&self.disk, &mut self.history, done)
    }

    /// The recovery is stopped at its calls in turn, and done again.
    fn end_twice(self, stride: u64, done: &mut EveryIo) -> Checked {
        self.disk.crash();
        let undisturbed = self.disk.fork(1);
        verify_after(&undisturbed, &mut self.history.clone(), done)?;
        let calls = {
            let counted = self.disk.fork(1);
            drop(open(&counted)?);
            counted.ios()
        };
        for call in (0..calls).step_by(stride.max(1) as usize) {
            let disk = self.disk.fork(call);
            disk.set_faults(Fault::PowerLoss.at(call));
            drop(open(&disk));
            disk.crash();
            done.recoveries_twice += 1;
            let told = |Violation(what)| Violation(format!("recovery stopped at {call}: {what}"));
            verify_after(&disk, &mut self.history.clone(), done).map_err(told)?;
        }
        Ok(())
    }
}

fn engine(disk: &Arc<SimDisk>) -> Arc<Engine> {
    let config = EngineConfig {
        buffer_pool_pages: POOL_PAGES,
        ..EngineConfig::default()
    };
    Engine::new(daruma_sim::env(disk, 1), config)
}

fn owner(id: u64) -> Arc<Owner> {
    let owner = Owner::new(id, Default::default());
    owner.lock_timeout_ms.store(0, Ordering::Relaxed);
    owner
}

fn switch_mode(db: &Arc<Database>) -> Result<()> {
    let mut settings = db.settings();
    settings.accelerated_recovery = !settings.accelerated_recovery;
    db.set_settings(settings)
}

fn open(disk: &Arc<SimDisk>) -> Checked<(Arc<Engine>, Arc<Database>)> {
    let engine = engine(disk);
    let opened = engine.open_database(DB, "t", specs());
    let (db, _) = opened.map_err(|e| Violation(format!("not opened: {e}")))?;
    Ok((engine, db))
}

fn verify_after(disk: &Arc<SimDisk>, history: &mut History, done: &mut EveryIo) -> Checked {
    let (_engine, db) = open(disk)?;
    let mut stats = Stats::default();
    let survivors = verify::survivors(&db).map_err(Violation)?;
    done.commits_checked += history.survive(&survivors).map_err(Violation)? as u64;
    verify::content(&db, history.now(), &mut stats).map_err(Violation)?;
    let pages = verify::structure(&db, history.now(), &mut stats);
    pages.map(|_| ()).map_err(Violation)
}

/// What the steps of a scenario share.
struct Stage<'p> {
    db: &'p Arc<Database>,
    engine: &'p Arc<Engine>,
    worker: Arc<Owner>,
    random: SimRandom,
    stats: Stats,
    next_number: u64,
    next_table: u32,
}

impl Stage<'_> {
    fn ctx<'s>(&'s mut self, history: &'s History) -> Ctx<'s> {
        Ctx {
            db: self.db,
            random: &self.random,
            history,
            stats: &mut self.stats,
            next_table: &mut self.next_table,
            crowded: false,
        }
    }
}
