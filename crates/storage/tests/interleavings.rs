//! Orders of threads, chosen by a model checker: who goes on at each lock, wait and yield is drawn from a seed.
//!
//! Writers commit with and without waiting, late, or roll back, beside a janitor who checkpoints and does background work, a
//! thread that writes a few pages and places versions, a reader of snapshots and a thread that stops the disk at some moment. A
//! reader sees every commit that was acknowledged before it began, nothing that is rolled back, and of each transaction all or
//! nothing; once the log has failed it is refused. Then power is lost, and recovery must bring back the same. In some runs there is
//! a commit participant, who gets the blocks from a feed and has them when it pleases.
//!
//! `cargo test -p daruma-storage --features model,planted-bugs --test interleavings`; `DARUMA_MODEL_RUNS=N` runs N orders of each
//! scenario. With the second feature a planted bug must be noticed. A failure prints the schedule, which `shuttle::replay` repeats.

mod common;

use common::{DB, owner, specs};
use daruma_base::{Clock, Env};
use daruma_sim::{SimClock, SimDisk, SimRandom};
use daruma_storage::*;
use shuttle::{Config, Runner, scheduler::RandomScheduler, thread};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const WRITERS: u64 = 3;
const PAIRS: u64 = 2;
const ROUNDS: u64 = 4;
const STACK_BYTES: usize = 1 << 20;
const SEED: u64 = 20_261_123;
#[cfg(feature = "planted-bugs")]
const PLANTED_ROUNDS: u64 = 40;

/// A thread that sleeps lets the others run.
#[derive(Default)]
struct ModelClock(SimClock);

impl Clock for ModelClock {
    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn utc_100ns(&self) -> i64 {
        self.0.utc_100ns()
    }

    fn local_offset_minutes(&self) -> i16 {
        0
    }

    fn sleep(&self, duration: Duration) {
        self.0.sleep(duration);
        thread::yield_now();
    }
}

/// What is known of each number that a transaction wrote into both rows of a pair.
#[derive(Default)]
struct Journal {
    /// In the order of the row locks, and so of the commits.
    written: Vec<(u64, u64)>,
    acknowledged: HashSet<u64>,
    rolled_back: HashSet<u64>,
}

struct World {
    disk: Arc<SimDisk>,
    engine: Arc<Engine>,
    db: Arc<Database>,
    tree: TreeId,
    numbers: AtomicU64,
    journal: Arc<Mutex<Journal>>,
    is_over: AtomicBool,
    seed: u64,
    pool_pages: usize,
    has_participant: bool,
}

/// How a writer ends its transaction.
#[derive(Clone, Copy)]
enum End {
    Full,
    Delayed,
    Late,
    Rollback,
}

fn draw(bound: u64) -> u64 {
    use shuttle::rand::Rng;
    shuttle::rand::thread_rng().gen_range(0..bound)
}

fn model_engine(disk: &Arc<SimDisk>, seed: u64, pages: usize) -> Arc<Engine> {
    let env = Env {
        disk: disk.clone(),
        clock: Arc::new(ModelClock::default()),
        random: Arc::new(SimRandom::new(seed)),
    };
    let config = EngineConfig {
        buffer_pool_pages: pages,
        ..EngineConfig::default()
    };
    Engine::new(env, config)
}

fn key(pair: u64, side: u64) -> [u8; 4] {
    ((pair * 2 + side) as u32).to_be_bytes()
}

/// The number, and filling that makes pages split.
fn payload(number: u64) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(1_500 + (number as usize * 37) % 700, 7);
    payload
}

fn number(payload: &[u8]) -> u64 {
    u64::from_be_bytes(payload[..8].try_into().expect("8 bytes"))
}

impl World {
    fn new(is_accelerated: bool, has_participant: bool) -> Arc<World> {
        let (seed, pool_pages) = (draw(1 << 40), [24, 64][draw(2) as usize]);
        let disk = SimDisk::new(seed);
        let engine = model_engine(&disk, seed, pool_pages);
        let settings = Settings {
            accelerated_recovery: is_accelerated,
            ..Settings::default()
        };
        let db = engine.create_database(DB, "t", specs(), settings);
        let db = db.expect("creates");
        let txn = db.begin(&owner(1));
        let tree = db.create_tree(&txn, 1).expect("tree");
        let rows = db.tree(tree).expect("tree");
        for pair in 0..PAIRS {
            for side in 0..2 {
                let inserted = rows.insert(&txn, &key(pair, side), &payload(0));
                inserted.expect("inserts");
            }
        }
        txn.commit(Durability::Full).expect("commits");
        db.set_participants(has_participant);
        Arc::new(World {
            disk,
            engine,
            db,
            tree,
            numbers: AtomicU64::new(1),
            journal: Arc::default(),
            is_over: AtomicBool::new(false),
            seed,
            pool_pages,
            has_participant,
        })
    }

    fn journal(&self) -> std::sync::MutexGuard<'_, Journal> {
        self.journal.lock().expect("no panic")
    }

    /// One transaction; an error ends the writer, for the disk has stopped.
    fn write(&self, owner: &Arc<Owner>) -> Result<()> {
        let txn = self.db.begin(owner);
        let pair = draw(PAIRS);
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let rows = self.db.tree(self.tree)?;
        self.put(&txn, &key(pair, 0), number)?;
        self.journal().written.push((pair, number));
        let filling = (1_000 + number as u32).to_be_bytes();
        rows.insert(&txn, &filling, &[9; 2_000])?;
        self.put(&txn, &key(pair, 1), number)?;
        match [End::Full, End::Delayed, End::Late, End::Rollback][draw(4) as usize] {
            End::Full => {
                txn.commit(Durability::Full)?;
                self.journal().acknowledged.insert(number);
            }
            End::Delayed => txn.commit(Durability::Delayed)?,
            End::Late => {
                let journal = self.journal.clone();
                if let Some(commit) = txn.commit_unhard()? {
                    commit.when_hard(move |told| {
                        if told.is_ok() {
                            let mut journal = journal.lock().expect("no panic");
                            journal.acknowledged.insert(number);
                        }
                    });
                }
            }
            End::Rollback => {
                self.journal().rolled_back.insert(number);
                txn.rollback()?;
            }
        }
        Ok(())
    }

    /// Gives the row the number, whoever else changes it meanwhile.
    fn put(&self, txn: &Txn, key: &[u8], number: u64) -> Result<()> {
        let rows = self.db.tree(self.tree)?;
        loop {
            let current = rows.get(&txn.view(Isolation::Current), key)?;
            let stamp = current.expect("is there").stamp;
            match rows.update(txn, key, stamp, &payload(number))? {
                WriteOutcome::Done => return Ok(()),
                WriteOutcome::Changed => {}
                WriteOutcome::Gone => panic!("nobody deletes it"),
            }
        }
    }

    /// Both rows of each pair, as one snapshot sees them.
    fn pairs(&self, db: &Arc<Database>) -> Result<Vec<(u64, u64)>> {
        let txn = db.begin(&owner(500));
        let view = txn.view(Isolation::Snapshot);
        let rows = db.tree(self.tree)?;
        let mut found = Vec::new();
        for pair in 0..PAIRS {
            let [left, right] = [0, 1].map(|side| rows.get(&view, &key(pair, side)));
            let (left, right) = (left?.expect("is there"), right?.expect("is there"));
            found.push((number(&left.payload), number(&right.payload)));
        }
        Ok(found)
    }

    fn tidy(&self) -> Result<()> {
        match draw(4) {
            0 => self.db.checkpoint(),
            1 => self.db.flush_log(),
            2 => self.db.clean_versions().map(drop),
            _ => self.db.background_step().map(drop),
        }
    }

    /// Some pages and versions get to disk while others do not.
    fn write_pages(&self) -> Result<()> {
        let (skip, limit) = (draw(12) as usize, 1 + draw(3) as usize);
        match draw(5) {
            0 | 1 => self.db.write_some_pages(skip, limit).map(drop),
            2 | 3 => self.db.place_some_versions(skip % 4, limit).map(drop),
            _ => self.db.fuzzy_checkpoint(),
        }
    }

    /// Takes what the feed has, and says so once in a while, perhaps before it is on disk here.
    fn participate(&self, feed: &mut LogFeed) -> Result<()> {
        let before = feed.position();
        match feed.try_next()? {
            Fed::Block(block) => assert_eq!(block.lsn(), before),
            Fed::Nothing => {}
            Fed::Gone => panic!("the log is held"),
        }
        if draw(3) == 0 {
            self.db.raise_quorum(feed.position());
            feed.release_below(feed.position());
        }
        Ok(())
    }

    /// Until the others are done.
    fn be_participant(&self) {
        let from = self.db.hardened_lsn();
        let mut feed = self
            .db
            .log_feed(from, "AVAILABILITY_REPLICA")
            .expect("is there");
        while !self.is_over.load(Ordering::Relaxed) && self.participate(&mut feed).is_ok() {
            thread::yield_now();
        }
        // Those who still wait are let go.
        self.db.set_participants(false);
    }

    fn read(&self) -> Result<()> {
        let acknowledged = self.journal().acknowledged.clone();
        let found = self.pairs(&self.db)?;
        self.check(&found, &acknowledged);
        Ok(())
    }

    /// What memory shows may never have been logged.
    fn read_after_the_fence(&self) {
        if self.db.state() == DatabaseState::Suspect {
            let found = self.pairs(&self.db);
            assert!(
                found.is_err(),
                "a database whose log has failed shows {found:?}"
            );
        }
    }

    fn check_all(&self, found: &[(u64, u64)]) {
        let acknowledged = self.journal().acknowledged.clone();
        self.check(found, &acknowledged);
    }

    /// Are these the rows of a moment when those transactions had committed?
    fn check(&self, found: &[(u64, u64)], acknowledged: &HashSet<u64>) {
        let journal = self.journal();
        for (pair, (left, right)) in found.iter().enumerate() {
            assert_eq!(left, right, "half of a transaction in pair {pair}");
            assert!(
                !journal.rolled_back.contains(left),
                "{left} was rolled back"
            );
            let of_pair = journal.written.iter().filter(|(p, _)| *p == pair as u64);
            let order: Vec<u64> = std::iter::once(0).chain(of_pair.map(|w| w.1)).collect();
            let at = order.iter().position(|n| n == left);
            let at = at.unwrap_or_else(|| panic!("nobody wrote {left}"));
            let lost = order[at + 1..].iter().find(|n| acknowledged.contains(n));
            assert_eq!(
                lost, None,
                "an acknowledged commit is lost: {left} is there"
            );
        }
    }
}

/// Runs the threads until the writers are done or the disk has stopped.
fn live(world: &Arc<World>) {
    let writers: Vec<_> = (0..WRITERS)
        .map(|i| {
            let world = world.clone();
            thread::spawn(move || {
                for round in 0..ROUNDS {
                    // An owner for each: a late commit may not be through yet.
                    if world.write(&owner(10 + i * ROUNDS + round)).is_err() {
                        return;
                    }
                }
            })
        })
        .collect();
    let of = |world: &Arc<World>, work: fn(&World) -> Result<()>| {
        let world = world.clone();
        thread::spawn(move || {
            while !world.is_over.load(Ordering::Relaxed) && work(&world).is_ok() {
                thread::yield_now();
            }
        })
    };
    let flusher = world.engine.log_flusher().clone();
    let mut others = vec![
        thread::spawn(move || flusher.serve()),
        of(world, World::tidy),
        of(world, World::write_pages),
        of(world, World::read),
    ];
    if world.has_participant {
        let world = world.clone();
        others.push(thread::spawn(move || world.be_participant()));
    }
    if draw(4) > 0 {
        let (world, steps) = (world.clone(), draw(600));
        others.push(thread::spawn(move || {
            (0..steps).for_each(|_| thread::yield_now());
            world.disk.stop();
        }));
    }
    for writer in writers {
        writer.join().expect("no panic");
    }
    world.is_over.store(true, Ordering::Relaxed);
    world.engine.log_flusher().stop();
    for other in others {
        other.join().expect("no panic");
    }
    world.read_after_the_fence();
}

fn power_loss(world: &Arc<World>) {
    world.disk.crash();
    world.disk.restart();
    let engine = model_engine(&world.disk, world.seed + 1, world.pool_pages);
    let (db, _) = engine
        .open_database(DB, "t", specs())
        .expect("recovery succeeds");
    world.check_all(&world.pairs(&db).expect("reads"));
    for _ in 0..1_000 {
        if !db.background_step().expect("background") {
            break;
        }
    }
    world.check_all(&world.pairs(&db).expect("reads after reverting"));
}

fn explore(is_accelerated: bool, has_participant: bool) {
    explore_from(SEED, is_accelerated, has_participant);
}

fn explore_from(seed: u64, is_accelerated: bool, has_participant: bool) {
    let runs = std::env::var("DARUMA_MODEL_RUNS").ok();
    let runs = runs.and_then(|n| n.parse().ok()).unwrap_or(150);
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = shuttle::MaxSteps::ContinueAfter(5_000_000);
    let scheduler = RandomScheduler::new_from_seed(seed, runs);
    Runner::new(scheduler, config).run(move || {
        let world = World::new(is_accelerated, has_participant);
        live(&world);
        power_loss(&world);
    });
}

#[test]
fn commits_survive_any_order_of_threads_with_accelerated_recovery() {
    explore(true, false);
}

#[test]
fn commits_survive_any_order_of_threads_with_classic_recovery() {
    explore(false, false);
}

#[test]
fn commits_that_wait_for_a_participant_end_in_any_order_of_threads() {
    explore(true, true);
    explore(false, true);
}

/// The model checker is only worth what it catches. Each of these bugs needs another thread between two steps: one thread alone never
/// meets it. Which order of threads shows it moves with every change of the code, so the search goes on from seed to seed until one does.
#[cfg(feature = "planted-bugs")]
#[test]
fn what_is_appended_while_the_log_is_written_and_counts_as_hard_is_noticed() {
    plant(Some(Bug::HardenAppended));
    let is_noticed = (0..PLANTED_ROUNDS).any(|round| {
        std::panic::catch_unwind(|| explore_from(SEED + round, false, false)).is_err()
    });
    plant(None);
    assert!(is_noticed, "no order of threads shows it");
}
