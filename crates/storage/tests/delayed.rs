//! Delayed durability under crashes: a durable commit is never lost, a delayed one never in part, what survives is a
//! prefix of the commit order, and the bound holds.

mod common;

use common::*;
use daruma_base::{Clock, Disk, DiskFile, Env, Lsn, OpenMode};
use daruma_sim::{Faults, SimClock, SimDisk, SimRandom};
use daruma_storage::*;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn create(disk: &Arc<SimDisk>, seed: u64, settings: Settings) -> (Arc<Database>, TreeId) {
    let db = engine(disk, seed, 128)
        .create_database(DB, "t", specs(), settings)
        .expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    (db, tree)
}

fn open(disk: &Arc<SimDisk>, seed: u64) -> (Arc<Database>, RecoveryReport) {
    engine(disk, seed, 128)
        .open_database(DB, "t", specs())
        .unwrap_or_else(|e| panic!("seed {seed}: {e}"))
}

fn insert(db: &Arc<Database>, tree: TreeId, key: u32, bytes: usize, durability: Durability) {
    let txn = db.begin(&owner(1));
    let key = key.to_be_bytes();
    db.tree(tree)
        .and_then(|t| t.insert(&txn, &key, &vec![7; bytes]))
        .expect("inserts");
    txn.commit(durability).expect("commits");
}

/// A commit that was acknowledged, and what the database holds when it is the last one to survive.
struct Point {
    model: Model,
    lsn: Lsn,
    /// Clock when its record was appended, at the latest.
    at: Duration,
}

/// One run up to a stop; the points of the commits that were acknowledged, how many of them must survive, and what a
/// commit whose outcome is open would have made.
struct Run {
    points: Vec<Point>,
    floor: usize,
    open: Option<Model>,
}

const BOUND: Duration = Duration::from_millis(10);
const BOUND_BYTES: u64 = 64 << 10;

fn run(seed: u64, random: &SimRandom, db: &Arc<Database>, tree: TreeId, model: Model) -> Run {
    let clock = SimClockOf(db.clone());
    let mut run = Run {
        points: vec![Point {
            model,
            lsn: db.last_commit().lsn,
            at: Duration::ZERO,
        }],
        floor: 1,
        open: None,
    };
    for round in 0..400 {
        clock.pass(random.below(4_000));
        let txn = db.begin(&owner(1));
        let Some(last) = run.points.last() else {
            unreachable!("seed {seed}: the first point is always there")
        };
        let mut working = last.model.clone();
        let target = db.tree(tree).expect("tree");
        for _ in 0..1 + random.below(12) {
            if random_change(random, &target, &txn, &mut working, 200).is_err() {
                return run;
            }
        }
        let durability = match random.below(6) {
            0 => Durability::Full,
            _ => Durability::Delayed,
        };
        let at = clock.now();
        if txn.commit(durability).is_err() {
            run.open = Some(working);
            return run;
        }
        run.points.push(Point {
            model: working,
            lsn: db.last_commit().lsn,
            at,
        });
        if durability == Durability::Full {
            run.floor = run.points.len();
        }
        run.floor = run.floor.max(bounded_floor(&run.points, clock.now()));
        let flushed = match round % 23 {
            7 => db.flush_log(),
            11 => db.flush_due().map(|_| ()),
            17 => db.background_step().map(|_| ()),
            22 => db.checkpoint(),
            _ => continue,
        };
        match flushed {
            Err(_) => return run,
            Ok(()) if round % 23 == 7 || round % 23 == 22 => run.floor = run.points.len(),
            Ok(()) => {}
        }
    }
    run
}

/// Commits older than the bound, in time or in bytes of log, when the last of `points` was acknowledged.
fn bounded_floor(points: &[Point], now: Duration) -> usize {
    let Some(last) = points.last() else { return 0 };
    let over = |p: &Point| {
        p.at + BOUND + Duration::from_millis(1) < now.min(last.at)
            || p.lsn.0 + BOUND_BYTES < last.lsn.0
    };
    points.iter().take_while(|p| over(p)).count()
}

struct SimClockOf(Arc<Database>);

impl SimClockOf {
    fn now(&self) -> Duration {
        self.0.clock().monotonic()
    }
    fn pass(&self, microseconds: u64) {
        self.0.clock().sleep(Duration::from_micros(microseconds));
    }
}

#[test]
fn what_survives_is_a_prefix_that_holds_every_durable_commit() {
    let runs = std::env::var("DARUMA_CRASH_RUNS")
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(40u64);
    let settings = Settings {
        delayed_durability: DelayedDurability::Allowed,
        delayed_milliseconds: BOUND.as_millis() as u32,
        delayed_kilobytes: (BOUND_BYTES >> 10) as u32,
        ..Settings::default()
    };
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..runs {
        let disk = SimDisk::new(seed);
        let random = SimRandom::new(seed ^ 0xDE1A);
        let (mut db, tree) = create(&disk, seed, settings);
        let mut model = Model::new();
        for crash in 0..3 {
            disk.set_faults(Faults {
                stop_at: Some(disk.calls() + 1 + random.below(120)),
                ..Faults::default()
            });
            let run = run(seed, &random, &db, tree, model);
            drop(db);
            disk.crash();
            let (recovered, report) = open(&disk, seed);
            db = recovered;
            let found = dump(&db, tree);
            // Two points may look alike: the last one counts.
            let at = run.points.iter().rposition(|p| p.model == found);
            let survives = match at {
                _ if run.open.as_ref() == Some(&found) => run.points.len(),
                Some(at) => at + 1,
                None => panic!("seed {seed}, crash {crash}: not a state that was ever committed"),
            };
            assert!(
                survives >= run.floor,
                "seed {seed}, crash {crash}: {survives} of {} commits survive, {} had to",
                run.points.len(),
                run.floor
            );
            if let Some(point) = at.and_then(|at| run.points.get(at))
                && run.open.as_ref() != Some(&found)
            {
                assert!(
                    report.last_commit.lsn >= point.lsn,
                    "seed {seed}: told too little"
                );
            }
            lost += run.points.len() - survives.min(run.points.len());
            kept += survives;
            model = found;
        }
    }
    assert!(lost > 0, "no run lost a delayed commit: {kept} kept");
}

#[test]
fn a_large_delayed_transaction_vanishes_as_a_whole() {
    let disk = SimDisk::new(5);
    let (db, tree) = create(
        &disk,
        5,
        Settings {
            delayed_durability: DelayedDurability::Allowed,
            ..Settings::default()
        },
    );
    insert(&db, tree, 0, 100, Durability::Full);
    let before = dump(&db, tree);
    let start = db.log_stats().end_lsn;
    let txn = db.begin(&owner(1));
    for key in 1..3_000u32 {
        db.tree(tree)
            .and_then(|t| t.insert(&txn, &key.to_be_bytes(), &[key as u8; 2_000]))
            .expect("inserts");
    }
    // All of its work is on disk, megabytes of it; only the commit record is not.
    db.flush_log().expect("flushes");
    assert_eq!(db.delayed_stats().bytes, 0);
    let logged = db.hardened_lsn().0 - start.0;
    assert!(logged > 5 << 20, "{logged} bytes of log are on disk");
    txn.commit(Durability::Delayed).expect("commits");
    assert_eq!(dump(&db, tree).len(), 3_000, "visible at once");
    let pending = db.delayed_stats();
    assert_eq!(pending.transactions, 1);
    assert!(pending.bytes < 4_096, "{} bytes are enough", pending.bytes);
    assert!(pending.oldest_age.is_some());
    drop(db);
    disk.crash();
    let (db, report) = open(&disk, 5);
    assert_eq!(dump(&db, tree), before, "nothing of it is left");
    assert_eq!(report.rolled_back, 1);
}

#[test]
fn a_durable_commit_a_flush_and_a_clean_stop_harden_what_came_before() {
    let harden: [fn(&Arc<Database>, TreeId); 6] = [
        |db, tree| insert(db, tree, 1_000, 10, Durability::Full),
        |db, _| db.flush_log().expect("flushes"),
        |db, _| db.checkpoint().expect("checkpoint"),
        |db, _| {
            let settings = Settings {
                delayed_durability: DelayedDurability::Disabled,
                ..db.settings()
            };
            db.set_settings(settings).expect("set");
        },
        |db, _| {
            db.clock().sleep(Duration::from_millis(10));
            assert_eq!(db.flush_due().expect("flushes"), None);
        },
        |db, _| db.close().expect("closes"),
    ];
    for (n, harden) in harden.iter().enumerate() {
        let disk = SimDisk::new(n as u64);
        let settings = Settings {
            delayed_durability: DelayedDurability::Forced,
            ..Settings::default()
        };
        let (db, tree) = create(&disk, 1, settings);
        for key in 0..20 {
            insert(&db, tree, key, 100, Durability::Delayed);
        }
        assert_eq!(db.delayed_stats().transactions, 20);
        harden(&db, tree);
        let stats = db.delayed_stats();
        assert_eq!(
            (stats.transactions, stats.oldest_age),
            (0, None),
            "case {n}"
        );
        let last = db.last_commit();
        drop(db);
        disk.crash();
        let (db, report) = open(&disk, 1);
        assert!(dump(&db, tree).len() >= 20, "case {n}");
        assert_eq!(report.last_commit, last, "case {n}");
    }
}

#[test]
fn the_bound_in_bytes_makes_a_commit_wait() {
    let disk = SimDisk::new(9);
    let settings = Settings {
        delayed_durability: DelayedDurability::Forced,
        delayed_kilobytes: 64,
        delayed_milliseconds: 60_000,
        ..Settings::default()
    };
    let (db, tree) = create(&disk, 1, settings);
    let syncs = disk.syncs();
    for key in 0..200 {
        insert(&db, tree, key, 3_000, Durability::Delayed);
        assert!(db.delayed_stats().bytes <= 64 << 10);
    }
    let waited = disk.syncs() - syncs;
    assert!((5..60).contains(&waited), "{waited} syncs for 200 commits");
}

/// Switches and observations of a [`StallingDisk`].
#[derive(Default)]
struct Stalling {
    /// Syncs of the log stop while this is set, after the data is safe.
    stall: AtomicBool,
    stalled: AtomicBool,
    /// Syncs of the log under way, and the most that were at once.
    syncing: AtomicUsize,
    most: AtomicUsize,
}

struct StallingDisk {
    inner: Arc<SimDisk>,
    stalling: Arc<Stalling>,
}

struct StallingFile {
    inner: Arc<dyn DiskFile>,
    is_log: bool,
    stalling: Arc<Stalling>,
}

impl Disk for StallingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(StallingFile {
            inner: self.inner.open(path, mode)?,
            is_log: path.extension().is_some_and(|e| e == "ldf"),
            stalling: self.stalling.clone(),
        }))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.inner.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }
}

impl DiskFile for StallingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(buf, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        if !self.is_log {
            return self.inner.sync_data();
        }
        let stalling = &self.stalling;
        let at_once = stalling.syncing.fetch_add(1, Ordering::SeqCst) + 1;
        stalling.most.fetch_max(at_once, Ordering::SeqCst);
        let result = self.inner.sync_data();
        while stalling.stall.load(Ordering::SeqCst) {
            stalling.stalled.store(true, Ordering::SeqCst);
            std::thread::yield_now();
        }
        stalling.syncing.fetch_sub(1, Ordering::SeqCst);
        result
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.inner.allocate(len)
    }
    fn release(&self) {
        self.inner.release();
    }
}

fn create_stalling(
    inner: &Arc<SimDisk>,
    seed: u64,
) -> (Arc<Database>, Arc<Stalling>, Arc<SimClock>) {
    let stalling = Arc::new(Stalling::default());
    let clock = Arc::new(SimClock::default());
    let env = Env {
        disk: Arc::new(StallingDisk {
            inner: inner.clone(),
            stalling: stalling.clone(),
        }),
        clock: clock.clone(),
        random: Arc::new(SimRandom::new(seed)),
    };
    let config = EngineConfig {
        buffer_pool_pages: 128,
        ..EngineConfig::default()
    };
    let db = Engine::new(env, config)
        .create_database(DB, "t", specs(), Settings::default())
        .expect("creates");
    (db, stalling, clock)
}

/// The system tells of a lost write once, to whoever syncs next. If that were the one who makes the log longer, the
/// group of commits that it belongs to would be taken for hard.
#[test]
fn a_log_does_not_grow_while_a_group_is_being_synced() {
    let inner = SimDisk::new(12);
    let (db, stalling, _) = create_stalling(&inner, 12);
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    let txn = db.begin(&owner(1));
    let rows = db.tree(tree).expect("a tree");
    rows.insert(&txn, b"one", b"value").expect("inserts");
    stalling.stall.store(true, Ordering::SeqCst);
    let committer = std::thread::spawn(move || txn.commit(Durability::Full));
    while !stalling.stalled.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    let before = db.log_stats().growths;
    let grower = {
        let db = db.clone();
        std::thread::spawn(move || {
            let txn = db.begin(&owner(2));
            for n in 0..400u32 {
                let key = n.to_be_bytes();
                rows.insert(&txn, &key, &[7; 1_500]).expect("inserts");
            }
            txn.commit(Durability::Full).expect("commits");
        })
    };
    for _ in 0..200 {
        if stalling.most.load(Ordering::SeqCst) > 1 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    stalling.stall.store(false, Ordering::SeqCst);
    committer.join().expect("joins").expect("commits");
    grower.join().expect("joins");
    assert!(db.log_stats().growths > before, "the log has grown");
    assert_eq!(stalling.most.load(Ordering::SeqCst), 1);
}

/// A checkpoint may begin after a commit record was written and before its transaction has left. Recovery then starts
/// behind the record, and must not take the transaction for an active one.
#[test]
fn a_checkpoint_during_a_commit_does_not_undo_it() {
    let inner = SimDisk::new(11);
    let (db, stalling, clock) = create_stalling(&inner, 11);
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    let other = db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    let txn = db.begin(&owner(1));
    db.tree(tree)
        .and_then(|t| t.insert(&txn, b"key", b"value"))
        .expect("inserts");
    // Its pages are on disk, so that redo need not begin before its commit record.
    db.checkpoint().expect("checkpoint");
    // Log without dirty pages: enough for the next checkpoint to be due.
    let drop_other = db.begin(&owner(2));
    db.drop_tree(&drop_other, other).expect("drops");
    drop_other.commit(Durability::Full).expect("commits");
    stalling.stall.store(true, Ordering::SeqCst);
    let committer = std::thread::spawn(move || txn.commit(Durability::Full));
    while !stalling.stalled.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    // Due by time; some log was written since the last one.
    clock.sleep(Duration::from_secs(100));
    let end = db.log_stats().end_lsn;
    let background = {
        let db = db.clone();
        std::thread::spawn(move || db.background_step().map(|_| ()))
    };
    while db.log_stats().end_lsn == end && !background.is_finished() {
        std::thread::yield_now();
    }
    assert!(
        db.log_stats().end_lsn > end,
        "a checkpoint record was written"
    );
    stalling.stall.store(false, Ordering::SeqCst);
    committer.join().expect("joins").expect("commits");
    background.join().expect("joins").expect("checkpoints");
    drop(db);
    inner.crash();
    let (db, _) = open(&inner, 11);
    let found = dump(&db, tree);
    assert_eq!(found.get(b"key".as_slice()), Some(&b"value".to_vec()));
}
