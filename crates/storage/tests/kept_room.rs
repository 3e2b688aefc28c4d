//! Data files that are full on a disk that is full: what running transactions have made free on their pages stays theirs, so that
//! taking it back needs no page.

mod common;

use common::*;
use daruma_base::Lsn;
use daruma_sim::{Faults, SimDisk, SimRandom};
use daruma_storage::*;
use std::sync::Arc;

const POOL_PAGES: usize = 4_096;

/// A data file that cannot grow, and a log that need not.
fn fixed(data_pages: u64) -> Vec<FileSpec> {
    let mut files = specs();
    for file in &mut files {
        match file.filegroup {
            1 => {
                file.size_pages = data_pages;
                file.growth = Growth::Pages(0);
            }
            _ => file.size_pages = 2_000,
        }
    }
    files
}

/// No file of the disk grows from here on.
fn fill_disk(disk: &SimDisk) {
    disk.set_faults(Faults {
        capacity_bytes: Some(disk.used_bytes()),
        ..Faults::default()
    });
}

fn create_fixed(disk: &Arc<SimDisk>, settings: Settings, pages: u64) -> (Arc<Database>, TreeId) {
    let db = engine(disk, 1, POOL_PAGES)
        .create_database(DB, "t", fixed(pages), settings)
        .expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    fill_disk(disk);
    (db, tree)
}

fn insert(db: &Arc<Database>, tree: TreeId, key: u32, payload: &[u8]) -> Result<()> {
    let txn = db.begin(&owner(2));
    match db.tree(tree)?.insert(&txn, &key.to_be_bytes(), payload) {
        Ok(()) => txn.commit(Durability::Full),
        Err(error) => txn.rollback().and(Err(error)),
    }
}

/// Others insert between the rows of `rows` transactions until the file is full.
fn crowd(db: &Arc<Database>, tree: TreeId, rows: u32, model: &mut Model) {
    for n in 1..100 {
        for key in 0..rows {
            match insert(db, tree, 100 * key + n, &[2; 700]) {
                Ok(()) => {
                    model.insert((100 * key + n).to_be_bytes().to_vec(), vec![2; 700]);
                }
                Err(StorageError::FilegroupFull { .. }) => return,
                Err(other) => panic!("{other}"),
            }
        }
    }
    panic!("the file has room left");
}

/// Inserts beside 60 rows, until there is no room.
fn want_room(db: &Arc<Database>, tree: TreeId, model: &mut Model) {
    for key in (0..60).map(|n| 100 * n + 98) {
        match insert(db, tree, key, &[4; 700]) {
            Ok(()) => {
                model.insert(key.to_be_bytes().to_vec(), vec![4; 700]);
            }
            Err(StorageError::FilegroupFull { .. }) => return,
            Err(other) => panic!("{other}"),
        }
    }
}

fn rows(db: &Arc<Database>, tree: TreeId, count: u32, bytes: usize) -> Model {
    let mut model = Model::new();
    for key in 0..count {
        insert(db, tree, 100 * key, &vec![1; bytes]).expect("inserts");
        model.insert((100 * key).to_be_bytes().to_vec(), vec![1; bytes]);
    }
    model
}

fn reopen(disk: &Arc<SimDisk>, pages: u64) -> Arc<Database> {
    fill_disk(disk);
    let opened = engine(disk, 1, POOL_PAGES).open_database(DB, "t", fixed(pages));
    opened.expect("opens").0
}

#[test]
fn what_was_made_shorter_comes_back() {
    for settings in [Settings::default(), accelerated()] {
        let disk = SimDisk::new(1);
        let (db, tree) = create_fixed(&disk, settings, 256);
        let mut model = rows(&db, tree, 60, 2_400);
        let shrinks = db.begin(&owner(1));
        update_all(&db, &shrinks, tree, b"small");
        crowd(&db, tree, 60, &mut model);
        shrinks.rollback().expect("rolls back");
        assert_eq!(db.state(), DatabaseState::Online);
        settle(&db);
        assert!(db.aborted_transactions().is_empty());
        assert!(dump(&db, tree) == model);
    }
}

/// The transaction itself has passed through longer rows than it found.
#[test]
fn what_the_transaction_itself_made_longer_comes_back_to_a_savepoint() {
    for settings in [Settings::default(), accelerated()] {
        for lasting in [false, true] {
            let disk = SimDisk::new(1);
            let (db, tree) = create_fixed(&disk, settings, 256);
            let mut model = rows(&db, tree, 60, 30);
            let txn = db.begin(&owner(1));
            update_all(&db, &txn, tree, &[7; 2_400]);
            let point = match lasting {
                true => txn.lasting_savepoint(),
                false => txn.savepoint(),
            };
            update_all(&db, &txn, tree, b"small");
            crowd(&db, tree, 60, &mut model);
            txn.rollback_to(point).expect("rolls back to the savepoint");
            assert_eq!(db.state(), DatabaseState::Online);
            txn.commit(Durability::Full).expect("commits");
            for key in 0..60u32 {
                model.insert((100 * key).to_be_bytes().to_vec(), vec![7; 2_400]);
            }
            settle(&db);
            assert!(dump(&db, tree) == model);
        }
    }
}

#[test]
fn recovery_finds_what_was_made_shorter() {
    for settings in [Settings::default(), accelerated()] {
        for has_begun in [false, true] {
            let disk = SimDisk::new(2);
            let (db, tree) = create_fixed(&disk, settings, 256);
            let mut model = rows(&db, tree, 60, 2_400);
            let shrinks = db.begin(&owner(1));
            update_all(&db, &shrinks, tree, b"small");
            crowd(&db, tree, 60, &mut model);
            if has_begun {
                // Under accelerated recovery: a mark, and the reverter has not come yet.
                shrinks.rollback().expect("rolls back");
            }
            db.flush_log().expect("flushes");
            disk.crash();
            std::mem::forget(shrinks);
            drop(db);
            let db = reopen(&disk, 256);
            // Before the reverter comes, others want the room as well.
            want_room(&db, tree, &mut model);
            settle(&db);
            assert!(db.aborted_transactions().is_empty());
            assert!(dump(&db, tree) == model);
        }
    }
}

/// Redoes all that is there as a secondary does, and becomes the primary.
fn promote(disk: &Arc<SimDisk>, frames: usize, pages: u64) -> Result<Arc<Database>> {
    let engine = engine(disk, 1, frames);
    let opening = Opening::default();
    let follower = Secondary::open(&engine, DB, "t", fixed(pages), None, opening)?;
    follower.apply(Lsn::MAX)?;
    follower.promote(&|_| panic!("nothing is prepared"))
}

/// On either side of where redo begins.
#[test]
fn a_promotion_finds_what_was_made_shorter() {
    for settings in [Settings::default(), accelerated()] {
        for shorter_before in [0, 30] {
            let disk = SimDisk::new(7);
            let (db, tree) = create_fixed(&disk, settings, 256);
            let mut model = rows(&db, tree, 60, 2_400);
            let shrinks = db.begin(&owner(1));
            let shrink = |key: u32| update(&db, &shrinks, tree, 100 * key, b"small");
            (0..shorter_before).for_each(|key| shrink(key).expect("updates"));
            db.checkpoint().expect("checkpoint");
            (shorter_before..60).for_each(|key| shrink(key).expect("updates"));
            crowd(&db, tree, 60, &mut model);
            db.fuzzy_checkpoint().expect("checkpoint");
            db.flush_log().expect("flushes");
            disk.crash();
            std::mem::forget(shrinks);
            drop(db);
            fill_disk(&disk);
            let db = promote(&disk, POOL_PAGES, 256).expect("is promoted");
            want_room(&db, tree, &mut model);
            settle(&db);
            assert_eq!(db.state(), DatabaseState::Online);
            assert!(db.aborted_transactions().is_empty());
            assert!(dump(&db, tree) == model);
        }
    }
}

/// What a transaction that has ended kept is for everybody.
#[test]
fn what_is_kept_is_free_when_the_transaction_has_ended() {
    for settings in [Settings::default(), accelerated()] {
        let disk = SimDisk::new(3);
        let (db, tree) = create_fixed(&disk, settings, 256);
        let mut model = rows(&db, tree, 60, 2_400);
        let before = db.tree(tree).expect("tree").approximate_pages();
        let shrinks = db.begin(&owner(1));
        update_all(&db, &shrinks, tree, b"small");
        shrinks.commit(Durability::Full).expect("commits");
        for key in 0..60u32 {
            model.insert((100 * key).to_be_bytes().to_vec(), b"small".to_vec());
            for n in 1..3 {
                insert(&db, tree, 100 * key + n, &[2; 1_000]).expect("inserts");
                model.insert((100 * key + n).to_be_bytes().to_vec(), vec![2; 1_000]);
            }
        }
        assert_eq!(db.tree(tree).expect("tree").approximate_pages(), before);
        assert!(dump(&db, tree) == model);
    }
}

/// An accelerated transaction whose versions find no page: checkpoints and copies begin their redo before it, until it ends.
#[test]
fn checkpoints_and_copies_need_no_page_for_versions() {
    let disk = SimDisk::new(4);
    let (db, tree) = create_fixed(&disk, accelerated(), 256);
    let mut model = rows(&db, tree, 60, 2_400);
    crowd(&db, tree, 60, &mut model);
    db.checkpoint().expect("checkpoint");
    let before = db.log_stats().end_lsn;
    let txn = db.begin(&owner(1));
    for key in 0..20u32 {
        update(&db, &txn, tree, 100 * key, &[5; 2_400]).expect("updates");
    }
    db.checkpoint().expect("a checkpoint while versions wait");
    let copy = db.start_copy().expect("a copy while versions wait");
    assert!(copy.redo_start() <= before);
    drop(copy);
    disk.crash();
    std::mem::forget(txn);
    drop(db);
    let db = reopen(&disk, 256);
    assert!(dump(&db, tree) == model);
    let txn = db.begin(&owner(1));
    for key in 0..20u32 {
        update(&db, &txn, tree, 100 * key, &[6; 2_400]).expect("updates");
        model.insert((100 * key).to_be_bytes().to_vec(), vec![6; 2_400]);
    }
    txn.commit(Durability::Full).expect("commits");
    let after = db.log_stats().end_lsn;
    let copy = db.start_copy().expect("a copy");
    assert!(copy.redo_start() >= after, "nothing waits any more");
    assert!(dump(&db, tree) == model);
}

/// Fewer are not given, whatever is asked for.
const FRAMES_MIN: usize = 64;
const LARGE_PAGES: u64 = 420;

/// A transaction in flight has changed many more pages than a small pool has frames, in a file without a free page.
fn crashed_in_full_file(settings: Settings) -> (Arc<SimDisk>, TreeId, Model) {
    let disk = SimDisk::new(5);
    let (db, tree) = create_fixed(&disk, settings, LARGE_PAGES);
    let mut model = rows(&db, tree, 600, 2_400);
    crowd(&db, tree, 600, &mut model);
    db.checkpoint().expect("checkpoint");
    let txn = db.begin(&owner(1));
    for key in 0..600u32 {
        update(&db, &txn, tree, 100 * key, &[5; 2_400]).expect("updates");
    }
    db.flush_log().expect("flushes");
    disk.crash();
    std::mem::forget(txn);
    (disk, tree, model)
}

/// Opened where the disk has just the room that `open` needs to put pages and versions aside.
fn in_least_room(
    disk: &Arc<SimDisk>,
    open: impl Fn(&Arc<SimDisk>) -> Result<Arc<Database>>,
) -> (Arc<SimDisk>, Arc<Database>) {
    for more in 0..100 {
        let disk = disk.fork(more);
        disk.set_faults(Faults {
            capacity_bytes: Some(disk.used_bytes() + more * 65_536),
            ..Faults::default()
        });
        match open(&disk) {
            Ok(db) => return (disk, db),
            Err(StorageError::Io { .. }) => {}
            Err(other) => panic!("with {more} times 64 KiB: {other}"),
        }
    }
    panic!("recovery needs more room than there is to be put aside");
}

fn open_in_least_room(disk: &Arc<SimDisk>) -> (Arc<SimDisk>, Arc<Database>) {
    in_least_room(disk, |disk| {
        let opened = engine(disk, 1, FRAMES_MIN).open_database(DB, "t", fixed(LARGE_PAGES));
        opened.map(|(db, _)| db)
    })
}

fn has_scratch(disk: &Arc<SimDisk>) -> bool {
    use daruma_base::Disk;
    let path = std::path::Path::new("/t.mdf.aside");
    disk.exists(path).expect("looks")
}

/// What was put aside for want of frames stays there until nobody needs the versions any more: they find no page either.
#[test]
fn recovery_with_few_frames_needs_no_page_for_versions() {
    for settings in [accelerated(), Settings::default()] {
        let (disk, tree, model) = crashed_in_full_file(settings);
        let (disk, db) = open_in_least_room(&disk);
        assert_eq!(has_scratch(&disk), settings.accelerated_recovery);
        assert!(dump(&db, tree) == model);
        db.checkpoint().expect("a checkpoint while versions wait");
        drop(db.start_copy().expect("a copy while versions wait"));
        settle(&db);
        assert!(db.aborted_transactions().is_empty());
        assert!(!has_scratch(&disk), "the scratch file is left");
        assert_eq!(db.version_stats().memory_bytes, 0);
        assert!(dump(&db, tree) == model);
        db.close().expect("closes");
        let opened = engine(&disk, 1, FRAMES_MIN).open_database(DB, "t", fixed(LARGE_PAGES));
        let (db, report) = opened.expect("opens again");
        assert!(!report.needed, "over a clean stop");
        assert!(dump(&db, tree) == model);
    }
}

#[test]
fn a_promotion_with_few_frames_needs_no_page_for_versions() {
    let (disk, tree, model) = crashed_in_full_file(accelerated());
    let (disk, db) = in_least_room(&disk, |disk| promote(disk, FRAMES_MIN, LARGE_PAGES));
    assert!(has_scratch(&disk));
    assert!(dump(&db, tree) == model);
    settle(&db);
    assert!(db.aborted_transactions().is_empty());
    assert!(!has_scratch(&disk), "the scratch file is left");
    assert!(dump(&db, tree) == model);
}

/// What waits aside is used, and changed, and lost when the database is closed and in further stops.
#[test]
fn what_waits_aside_survives_further_stops() {
    let random = SimRandom::new(6);
    let (disk, tree, mut model) = crashed_in_full_file(accelerated());
    let (disk, mut db) = open_in_least_room(&disk);
    assert!(has_scratch(&disk));
    for stop in 0..6 {
        for n in 0..40u8 {
            let key = 100 * random.below(600) as u32;
            let txn = db.begin(&owner(3));
            update(&db, &txn, tree, key, &[n; 2_400]).expect("updates");
            match random.below(4) {
                0 => txn.rollback().expect("rolls back"),
                _ => {
                    txn.commit(Durability::Full).expect("commits");
                    model.insert(key.to_be_bytes().to_vec(), vec![n; 2_400]);
                }
            }
            if n % 16 == 0 {
                db.checkpoint().expect("checkpoint");
                db.write_some_pages(0, 64).expect("writes pages");
            }
        }
        assert!(dump(&db, tree) == model, "before stop {stop}");
        if stop == 0 {
            db.close().expect("closes while something is aside");
            assert!(!has_scratch(&disk));
        } else {
            disk.crash();
        }
        drop(db);
        let opened = engine(&disk, 1, FRAMES_MIN).open_database(DB, "t", fixed(LARGE_PAGES));
        let report;
        (db, report) = opened.expect("recovers");
        assert!(report.needed, "what was aside is redone");
        assert!(dump(&db, tree) == model, "after stop {stop}");
    }
    settle(&db);
    assert!(dump(&db, tree) == model);
    assert!(!has_scratch(&disk), "the scratch file is left");
}

fn update(db: &Arc<Database>, txn: &Txn, tree: TreeId, key: u32, payload: &[u8]) -> Result<()> {
    let tree = db.tree(tree)?;
    let key = key.to_be_bytes();
    let found = tree.get(&txn.view(Isolation::Current), &key)?;
    let stamp = found.expect("an entry").stamp;
    assert_eq!(tree.update(txn, &key, stamp, payload)?, WriteOutcome::Done);
    Ok(())
}

/// The pages of a tree leave a file while rows on them are shorter than they may be again.
#[test]
fn what_was_made_shorter_on_pages_that_move_comes_back() {
    const OTHER: u16 = 3;
    for settings in [Settings::default(), accelerated()] {
        let disk = SimDisk::new(8);
        let (db, tree) = create_fixed(&disk, settings, 320);
        disk.set_faults(Faults::default());
        let mut other = FileSpec::data(OTHER, 1, "/t3.ndf", 128);
        other.growth = Growth::Pages(0);
        db.add_file(other).expect("adds");
        fill_disk(&disk);
        let close = |file, is_closed| db.close_file(file, is_closed).expect("closes");
        close(1, true);
        let mut model = rows(&db, tree, 60, 2_400);
        close(1, false);
        let shrinks = db.begin(&owner(1));
        update_all(&db, &shrinks, tree, b"small");
        close(OTHER, true);
        let moved = db.move_tree_out(tree, OTHER, &owner(1), &mut || Ok(()));
        assert!(moved.expect("moves") > 15);
        crowd(&db, tree, 60, &mut model);
        match db.is_file_settled(OTHER) {
            Ok(is_settled) => assert!(is_settled && !settings.accelerated_recovery),
            // Redo begins before the file was left.
            Err(StorageError::FilegroupFull { .. }) => assert!(settings.accelerated_recovery),
            Err(other) => panic!("{other}"),
        }
        shrinks.rollback().expect("rolls back");
        assert_eq!(db.state(), DatabaseState::Online);
        settle(&db);
        assert!(db.is_file_settled(OTHER).expect("a checkpoint"));
        assert!(dump(&db, tree) == model);
    }
}

/// A client that tries its statement again gets no further: the memory for versions is bounded.
#[test]
fn versions_that_find_no_page_are_bounded_however_often_it_is_tried() {
    let disk = SimDisk::new(9);
    let (db, tree) = create_fixed(&disk, accelerated(), 420);
    let mut model = rows(&db, tree, 600, 2_400);
    crowd(&db, tree, 600, &mut model);
    db.close().expect("closes");
    drop(db);
    fill_disk(&disk);
    let opened = engine(&disk, 1, 128).open_database(DB, "t", fixed(420));
    let (db, _) = opened.expect("opens");
    let txn = db.begin(&owner(1));
    let mut refused = 0;
    for key in 0..600u32 {
        match update(&db, &txn, tree, 100 * key, &[5; 2_400]) {
            Ok(()) => {}
            Err(StorageError::FilegroupFull { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    let bytes = db.version_stats().memory_bytes;
    assert!(
        refused > 0 && bytes < 256 << 10,
        "{bytes} bytes of versions"
    );
    txn.rollback().expect("rolls back");
    settle(&db);
    assert!(dump(&db, tree) == model);
    assert_eq!(db.version_stats().memory_bytes, 0);
}

/// Steps are short for those who want to write a page meanwhile; and the error log hears of pages that wait.
#[test]
fn a_checkpoint_goes_on_in_steps_where_versions_find_no_page() {
    let disk = SimDisk::new(10);
    let (db, tree) = create_fixed(&disk, accelerated(), 1_500);
    let txn = db.begin(&owner(1));
    let rows = db.tree(tree).expect("tree");
    for key in 0..3_600u32 {
        let key = (100 * key).to_be_bytes();
        rows.insert(&txn, &key, &[1; 2_400]).expect("inserts");
    }
    txn.commit(Durability::Full).expect("commits");
    crowd(&db, tree, 3_600, &mut Model::new());
    db.checkpoint().expect("checkpoint");
    assert!(db.take_failures().is_empty());
    let waits = db.begin(&owner(1));
    for key in 0..20u32 {
        update(&db, &waits, tree, 100 * key, &[5; 2_400]).expect("updates");
    }
    let other = db.begin(&owner(2));
    for key in (60..3_600u32).step_by(3) {
        update(&db, &other, tree, 100 * key, &[6; 2_400]).expect("updates");
    }
    other.commit(Durability::Full).expect("commits");
    let steps = std::cell::Cell::new(0);
    let goes_on = || {
        steps.set(steps.get() + 1);
        true
    };
    assert!(db.checkpoint_in_steps(&goes_on).expect("checkpoint"));
    assert!(steps.get() > 1, "all pages in one step");
    let failures = db.take_failures();
    assert!(failures.len() == 1, "{failures:?}");
    waits.rollback().expect("rolls back");
    settle(&db);
}

/// One of several transactions at once, each with rows of its own between those of the others.
struct Part {
    txn: Txn,
    rows: Model,
    points: Vec<(Savepoint, Model)>,
}

struct Crowded {
    random: Arc<SimRandom>,
    disk: Arc<SimDisk>,
    db: Arc<Database>,
    tree: TreeId,
    committed: Vec<Model>,
    parts: Vec<Part>,
    /// An old snapshot, which keeps what has ended from being forgotten.
    old: Option<(Txn, ReadView)>,
    refused: u32,
}

const PARTS: u64 = 3;
const KEYS: u64 = 400;
const PAGES: u64 = 150;

impl Crowded {
    fn new(seed: u64, settings: Settings) -> Crowded {
        let disk = SimDisk::new(seed);
        let (db, tree) = create_fixed(&disk, settings, PAGES);
        let mut crowded = Crowded {
            random: Arc::new(SimRandom::new(seed)),
            disk,
            db,
            tree,
            committed: vec![Model::new(); PARTS as usize],
            parts: Vec::new(),
            old: None,
            refused: 0,
        };
        crowded.begin_all();
        crowded
    }

    fn begin(&self, part: usize) -> Part {
        Part {
            txn: self.db.begin(&owner(part as u64 + 1)),
            rows: self.committed[part].clone(),
            points: Vec::new(),
        }
    }

    fn begin_all(&mut self) {
        self.parts = (0..PARTS as usize).map(|part| self.begin(part)).collect();
    }

    fn change(&mut self, part: usize) -> Result<()> {
        let random = &self.random;
        let n = random.below(KEYS) * PARTS + part as u64;
        let mut key = (n as u32).to_be_bytes().to_vec();
        key.resize(4 + (n % 50) as usize, b'.');
        let len = match random.below(8) {
            0 => 3_000,
            1 | 2 => 900,
            3 => 0,
            _ => random.below(300) as usize,
        };
        let payload = vec![random.below(250) as u8; len];
        let (db, mine) = (&self.db, &mut self.parts[part]);
        let tree = db.tree(self.tree)?;
        let found = tree.get(&mine.txn.view(Isolation::Current), &key)?;
        match (found, random.below(3)) {
            (None, _) => {
                tree.insert(&mine.txn, &key, &payload)?;
                mine.rows.insert(key, payload);
            }
            (Some(found), 0) => {
                let outcome = tree.delete(&mine.txn, &key, found.stamp)?;
                assert_eq!(outcome, WriteOutcome::Done);
                mine.rows.remove(&key);
            }
            (Some(found), _) => {
                let outcome = tree.update(&mine.txn, &key, found.stamp, &payload)?;
                assert_eq!(outcome, WriteOutcome::Done);
                mine.rows.insert(key, payload);
            }
        }
        Ok(())
    }

    /// A change as a statement makes it: taken back when it is refused.
    fn statement(&mut self, part: usize) {
        let point = self.parts[part].txn.savepoint();
        let rows = self.parts[part].rows.clone();
        match self.change(part) {
            Ok(()) => {}
            Err(StorageError::FilegroupFull { .. } | StorageError::LogFull { .. }) => {
                self.refused += 1;
                let mine = &mut self.parts[part];
                mine.txn
                    .rollback_to(point)
                    .expect("takes the statement back");
                mine.rows = rows;
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn step(&mut self) {
        let part = self.random.below(PARTS) as usize;
        let mine = &mut self.parts[part];
        match self.random.below(100) {
            0 | 1 => {
                mine.txn.commit(Durability::Full).expect("commits");
                self.committed[part] = std::mem::take(&mut mine.rows);
                self.parts[part] = self.begin(part);
            }
            2 => {
                mine.txn.rollback().expect("rolls back");
                self.parts[part] = self.begin(part);
            }
            3 | 4 => {
                let point = match self.random.below(2) {
                    0 => mine.txn.lasting_savepoint(),
                    _ => mine.txn.savepoint(),
                };
                mine.points.push((point, mine.rows.clone()));
            }
            5 => {
                if let Some((point, rows)) = mine.points.pop() {
                    mine.txn.rollback_to(point).expect("rolls back in part");
                    mine.rows = rows;
                }
            }
            6 => {
                self.db.background_step().map(|_| ()).unwrap_or(());
            }
            8 => {
                self.old = match self.old {
                    Some(_) => None,
                    None => {
                        let txn = self.db.begin(&owner(99));
                        let view = txn.view(Isolation::Snapshot);
                        Some((txn, view))
                    }
                };
            }
            7 if self.random.below(12) == 0 => self.crash(),
            _ => self.statement(part),
        }
        assert_eq!(self.db.state(), DatabaseState::Online);
    }

    fn crash(&mut self) {
        if self.random.below(2) == 0 {
            self.db.flush_log().expect("flushes");
        }
        self.disk.crash();
        for part in self.parts.drain(..) {
            std::mem::forget(part);
        }
        std::mem::forget(self.old.take());
        self.db = reopen(&self.disk, PAGES);
        self.check();
        self.begin_all();
    }

    fn check(&self) {
        let all: Model = self
            .committed
            .iter()
            .flatten()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        assert!(dump(&self.db, self.tree) == all);
    }
}

#[test]
fn nothing_that_is_taken_back_needs_a_page() {
    for settings in [Settings::default(), accelerated()] {
        let mut refused = 0;
        for seed in 0..12 {
            let mut crowded = Crowded::new(seed, settings);
            for _ in 0..1_500 {
                crowded.step();
            }
            crowded.check();
            refused += crowded.refused;
        }
        assert!(refused > 100, "the file was seldom full: {refused}");
    }
}
