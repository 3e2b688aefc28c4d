//! Restart with far fewer frames than before the crash: recovery works with any pool that the engine accepts, within the
//! memory it was given.

mod common;

use common::crash::stop_within;
use common::*;
use daruma_base::{Disk, DiskFile, OpenMode};
use daruma_sim::{Faults, SimDisk, SimRandom};
use daruma_storage::*;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Fewer are not given, whatever is asked for.
const FRAMES_MIN: usize = 64;
const SCRATCH: &str = "/t.mdf.aside";
const BEFORE: usize = 4_096;
const ROWS: u32 = 12_000;

/// With a log so large that no checkpoint has to make room in it: one would put the versions on pages.
fn create(disk: &Arc<SimDisk>, seed: u64, settings: Settings) -> (Arc<Database>, TreeId) {
    let mut files = specs();
    if let Some(log) = files.iter_mut().find(|f| f.filegroup == 0) {
        log.size_pages = 4_096;
    }
    let db = engine(disk, seed, BEFORE)
        .create_database(DB, "t", files, settings)
        .expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    (db, tree)
}

/// A large transaction in flight, whose changes are in the log and, as the pool had room for them all, on no page.
fn crashed_in_flight(seed: u64, settings: Settings) -> (Arc<SimDisk>, TreeId, Model) {
    let disk = SimDisk::new(seed);
    let (db, tree) = create(&disk, seed, settings);
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 0..ROWS, 1);
    txn.commit(Durability::Full).expect("commits");
    db.checkpoint().expect("checkpoint");
    let before = dump(&db, tree);
    let txn = db.begin(&owner(1));
    update_all(&db, &txn, tree, &[2; 150]);
    txn.lasting_savepoint();
    update_all(&db, &txn, tree, &[3; 190]);
    fill(&db, &txn, tree, ROWS..ROWS + 2_000, 4);
    delete_every(&db, &txn, tree, 7);
    db.flush_log().expect("the log is hard");
    std::mem::forget(txn);
    drop(db);
    disk.crash();
    (disk, tree, before)
}

fn delete_every(db: &Arc<Database>, txn: &Txn, tree: TreeId, step: usize) {
    let tree = db.tree(tree).expect("tree");
    let view = txn.view(Isolation::Current);
    for key in (0..ROWS).step_by(step) {
        let key = key.to_be_bytes();
        let entry = tree.get(&view, &key).expect("reads").expect("is there");
        let deleted = tree.delete(txn, &key, entry.stamp).expect("deletes");
        assert_eq!(deleted, WriteOutcome::Done);
    }
}

/// Opens with as few frames as there can be, and checks that nothing of the transaction is left.
fn recover_small(disk: &Arc<SimDisk>, tree: TreeId, before: &Model) -> Arc<Database> {
    let (db, _) = open(disk, 1, FRAMES_MIN).expect("recovers with few frames");
    let memory = db.version_stats().memory_bytes;
    assert!(memory < 512 << 10, "{memory} bytes of versions in memory");
    assert!(!disk_has_scratch(disk), "the scratch file is left");
    assert!(dump(&db, tree) == *before, "after recovery");
    db
}

fn disk_has_scratch(disk: &Arc<SimDisk>) -> bool {
    disk.exists(Path::new(SCRATCH)).expect("looks")
}

#[test]
fn a_large_transaction_in_flight_is_recovered_with_the_fewest_frames() {
    for settings in [accelerated(), Settings::default()] {
        let (disk, tree, before) = crashed_in_flight(1, settings);
        let db = recover_small(&disk, tree, &before);
        settle(&db);
        assert!(dump(&db, tree) == before, "reverted");
        assert_eq!(db.version_store_bytes(), 0);
        db.close().expect("closes");
        let (db, _) = open(&disk, 1, FRAMES_MIN).expect("opens again");
        assert!(dump(&db, tree) == before, "over a clean stop");
    }
}

/// Many transactions in flight side by side, each with rows on leaves of its own and of others.
#[test]
fn many_transactions_in_flight_are_recovered_with_the_fewest_frames() {
    for seed in 0..2 {
        let random = SimRandom::new(seed);
        let disk = SimDisk::new(seed);
        let (db, tree) = create(&disk, seed, accelerated());
        let txn = db.begin(&owner(1));
        fill(&db, &txn, tree, 0..ROWS, 1);
        txn.commit(Durability::Full).expect("commits");
        let before = dump(&db, tree);
        let rows = db.tree(tree).expect("tree");
        let open_ones: Vec<Txn> = (0..150).map(|n| db.begin(&owner(100 + n))).collect();
        // In turn, so that each comes back to versions that were put aside meanwhile.
        for _ in 0..40 {
            for (n, txn) in (0u32..).zip(&open_ones) {
                let view = txn.view(Isolation::Current);
                let key = (random.below(u64::from(ROWS) / 150) as u32 * 150 + n).to_be_bytes();
                let entry = rows.get(&view, &key).expect("reads").expect("is there");
                rows.update(txn, &key, entry.stamp, &[5; 160])
                    .expect("updates");
            }
        }
        db.flush_log().expect("the log is hard");
        open_ones.into_iter().for_each(std::mem::forget);
        drop((rows, db));
        disk.crash();
        let db = recover_small(&disk, tree, &before);
        settle(&db);
        assert!(dump(&db, tree) == before, "seed {seed}, reverted");
    }
}

/// The machine stops while recovery has pages aside, and again, and comes back with few frames or many.
#[test]
fn a_stop_while_pages_are_aside_loses_nothing() {
    let mut stops = 0;
    for seed in 0..5 {
        let random = SimRandom::new(seed);
        let (disk, tree, before) = crashed_in_flight(seed, accelerated());
        for _ in 0..3 {
            stop_within(&disk, 1 + random.below(700));
            stops += usize::from(open(&disk, seed, FRAMES_MIN).is_err());
            disk.crash();
        }
        disk.set_faults(Faults::default());
        let frames = [FRAMES_MIN, BEFORE][random.below(2) as usize];
        let (db, _) = open(&disk, seed, frames).expect("recovers");
        assert!(dump(&db, tree) == before, "seed {seed}");
        settle(&db);
        assert!(dump(&db, tree) == before, "seed {seed}, reverted");
        assert!(!disk_has_scratch(&disk), "seed {seed}");
    }
    assert!(stops > 5, "{stops} stops hit recovery");
}

/// Rows in runs of so many, which a transaction in flight has changed or has not, in turn.
const RUN: u32 = 24;
const RUN_ROWS: u32 = 6_000;

fn is_changed(row: u32) -> bool {
    !(row / RUN).is_multiple_of(2)
}

/// A transaction in flight has changed every other run of rows; then a committed one has split the leaves between the runs,
/// and has come back to them.
fn crashed_behind_splits(seed: u64) -> (Arc<SimDisk>, TreeId, Model) {
    let disk = SimDisk::new(seed);
    let (db, tree) = create(&disk, seed, accelerated());
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 0..RUN_ROWS, 1);
    txn.commit(Durability::Full).expect("commits");
    db.checkpoint().expect("checkpoint");
    let rows = db.tree(tree).expect("tree");
    let in_flight = db.begin(&owner(2));
    let view = in_flight.view(Isolation::Current);
    for key in (0..RUN_ROWS).filter(|key| is_changed(*key)) {
        let key = key.to_be_bytes();
        let entry = rows.get(&view, &key).expect("reads").expect("is there");
        rows.update(&in_flight, &key, entry.stamp, &[2; 150])
            .expect("updates");
    }
    let txn = db.begin(&owner(3));
    for (suffix, step) in [(b"more", 1), (b"most", RUN as usize / 3)] {
        let others = (0..RUN_ROWS).filter(|key| !is_changed(*key));
        for key in others.step_by(step) {
            let key = [key.to_be_bytes().as_slice(), suffix].concat();
            rows.insert(&txn, &key, &[3; 150]).expect("inserts");
        }
    }
    txn.commit(Durability::Full).expect("commits");
    let before = dump(&db, tree);
    drop(view);
    std::mem::forget(in_flight);
    drop((rows, db));
    disk.crash();
    (disk, tree, before)
}

/// The pages that entries left in a split hold nothing of the transaction any more, yet may not be written before its versions
/// are: whoever recovers after that could not rebuild them.
#[test]
fn a_stop_does_not_take_the_versions_of_entries_that_a_split_moved() {
    const STOPS: u64 = 8;
    let (disk, tree, before) = crashed_behind_splits(1);
    let whole = disk.fork(1);
    drop(open(&whole, 1, FRAMES_MIN).expect("recovers"));
    for stop in 1..=STOPS {
        let disk = disk.fork(stop);
        stop_within(&disk, stop * whole.calls() / (STOPS + 1));
        assert!(open(&disk, stop, FRAMES_MIN).is_err(), "stop {stop}");
        disk.crash();
        let (db, _) = open(&disk, stop, BEFORE).expect("recovers");
        assert!(dump(&db, tree) == before, "stop {stop}");
    }
}

/// A disk on which what was put aside stays.
struct Sticky(Arc<SimDisk>);

impl Disk for Sticky {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.0.open(path, mode)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match path == Path::new(SCRATCH) {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => self.0.remove(path),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.0.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
}

/// Nobody needs what is in it any more.
#[test]
fn a_scratch_file_that_stays_keeps_no_database_from_opening_or_closing() {
    let (disk, tree, before) = crashed_in_flight(1, accelerated());
    let sticky = Arc::new(Sticky(disk.clone()));
    let small = engine(&disk, 1, FRAMES_MIN);
    let opened = small.open_database_on(sticky, DB, "t", specs());
    let (db, _) = opened.expect("recovers with few frames");
    assert!(disk_has_scratch(&disk));
    assert!(dump(&db, tree) == before);
    db.close().expect("closes");
    drop(db);
    disk.restart();
    recover_small(&disk, tree, &before);
}
