//! Pages are used by one owner or by none, whatever fails while they are taken or given back.

mod common;

use common::*;
use daruma_sim::{Faults, SimDisk, SimRandom};
use daruma_storage::*;
use std::sync::Arc;

const ROWS: u32 = 8_000;
const FRAMES_FEW: usize = 64;
const FRAMES_MANY: usize = 1_024;

/// A log that cannot grow.
fn small_log() -> Vec<FileSpec> {
    let mut files = specs();
    if let Some(log) = files.iter_mut().find(|f| f.filegroup == 0) {
        log.growth = Growth::Pages(0);
    }
    files
}

fn filled(
    disk: &Arc<SimDisk>,
    frames: usize,
    files: Vec<FileSpec>,
    rows: u32,
) -> (Arc<Database>, TreeId) {
    let db = engine(disk, 1, frames)
        .create_database(DB, "t", files, accelerated())
        .expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    fill(&db, &txn, tree, 0..rows, 1);
    txn.commit(Durability::Full).expect("commits");
    settle(&db);
    (db, tree)
}

/// Every page is used by these trees, or by nobody and free.
fn check(db: &Arc<Database>, trees: &[TreeId]) {
    settle(db);
    db.checkpoint().expect("checkpoint");
    let mut checker = Checker::new(db);
    checker.tree(db.catalog_tree());
    for tree in trees {
        checker.tree(*tree);
    }
    let report = checker.finish();
    let findings: Vec<String> = report.findings.iter().map(Finding::to_string).collect();
    assert!(report.exact && findings.is_empty(), "{findings:?}");
}

#[test]
fn a_read_error_while_versions_are_freed_leaves_them_to_the_next_try() {
    let disk = SimDisk::new(1);
    let (db, tree) = filled(&disk, FRAMES_FEW, specs(), ROWS);
    let txn = db.begin(&owner(2));
    update_all(&db, &txn, tree, &[2; 150]);
    txn.commit(Durability::Full).expect("commits");
    assert!(db.version_stats().pages > 0, "versions are on pages");
    db.checkpoint().expect("checkpoint");
    // The allocation page leaves the pool.
    dump(&db, tree);
    disk.set_faults(Faults {
        fail_io_at: Some(disk.ios()),
        ..Faults::default()
    });
    db.clean(CleanScope::OffRow).expect_err("a read fails");
    disk.set_faults(Faults::default());
    check(&db, &[tree]);
    assert_eq!(db.version_stats().pages, 0);
}

/// Small changes of large rows: their versions take far more room in the log than the changes, and a copy keeps all of it.
#[test]
fn versions_that_the_log_cannot_take_get_no_pages() {
    let disk = SimDisk::new(1);
    let (db, tree) = filled(&disk, FRAMES_MANY, small_log(), 0);
    let random = SimRandom::new(1);
    let rows = db.tree(tree).expect("tree");
    let mut payloads = Vec::new();
    for row in 0..400u32 {
        let payload: Vec<u8> = (0..3_000).map(|_| random.below(256) as u8).collect();
        let txn = db.begin(&owner(1));
        rows.insert(&txn, &row.to_be_bytes(), &payload)
            .expect("inserts");
        txn.commit(Durability::Full).expect("commits");
        payloads.push(payload);
    }
    let copy = db.start_copy().expect("a copy");
    let txn = db.begin(&owner(2));
    let full = (0u32..).zip(&mut payloads).find_map(|(row, payload)| {
        let key = row.to_be_bytes();
        let entry = rows.get(&txn.view(Isolation::Current), &key);
        let entry = entry.expect("reads").expect("is there");
        payload[0] ^= 1;
        rows.update(&txn, &key, entry.stamp, payload).err()
    });
    let full = full.expect("the versions need log");
    assert!(matches!(full, StorageError::LogFull { .. }), "{full}");
    // What must be written all the same may exceed the limit of the file.
    db.checkpoint().expect("checkpoint");
    drop(copy);
    txn.rollback().expect("rolls back");
    check(&db, &[tree]);
}

/// What a transaction wanted to take, and could not for want of log, another one may take.
#[test]
fn a_tree_that_could_not_be_logged_is_not_freed_with_its_transaction() {
    let disk = SimDisk::new(1);
    let (db, tree) = filled(&disk, FRAMES_FEW, small_log(), 100);
    let hold = db.hold_log(db.hardened_lsn(), "ACTIVE_BACKUP_OR_RESTORE");
    let txn = db.begin(&owner(2));
    fill(&db, &txn, tree, 100..101, 2);
    let full = loop {
        if let Err(error) = db.create_tree(&txn, 1) {
            break error;
        }
    };
    assert!(matches!(full, StorageError::LogFull { .. }), "{full}");
    drop(hold);
    db.checkpoint().expect("checkpoint");
    // As many as there is room for: one of them gets the page.
    let other = db.begin(&owner(3));
    let mut trees = vec![tree];
    for _ in 0..300 {
        let tree = db.create_tree(&other, 1).expect("tree");
        fill(&db, &other, tree, 0..1, 4);
        trees.push(tree);
    }
    other.commit(Durability::Full).expect("commits");
    db.set_undo_at_once_bytes(0);
    txn.rollback().expect("rolls back");
    check(&db, &trees);
}

/// A tree is taken back with a savepoint, another transaction makes one at its place, and the first one writes there.
#[test]
fn a_tree_at_the_place_of_one_taken_back_is_reverted_like_any_other() {
    let disk = SimDisk::new(1);
    let (db, tree) = filled(&disk, FRAMES_FEW, specs(), 100);
    let txn = db.begin(&owner(2));
    fill(&db, &txn, tree, 100..101, 2);
    let savepoint = txn.savepoint();
    let taken_back = db.create_tree(&txn, 1).expect("tree");
    fill(&db, &txn, taken_back, 0..10, 2);
    txn.rollback_to(savepoint).expect("rolls back");
    settle(&db);
    let other = db.begin(&owner(3));
    let again = db.create_tree(&other, 1).expect("tree");
    assert_eq!(again, taken_back);
    fill(&db, &other, again, 0..10, 3);
    other.commit(Durability::Full).expect("commits");
    let before = dump(&db, again);
    update_all(&db, &txn, again, &[4; 150]);
    db.set_undo_at_once_bytes(0);
    txn.rollback().expect("rolls back");
    settle(&db);
    assert_eq!(db.version_stats().aborted, 0);
    assert!(dump(&db, again) == before, "the old rows are there");
    check(&db, &[tree, again]);
}

/// Leaves of a tree whose rows of so many bytes are put in, in this order of keys, and the share of each that is in use.
fn leaves_of(bytes: usize, keys: impl Iterator<Item = u32>) -> (u64, f64) {
    let disk = SimDisk::new(9);
    let (db, tree) = create(&disk, 9, FRAMES_MANY, Settings::default());
    let leaves = db.tree(tree).expect("tree");
    let txn = db.begin(&owner(1));
    let mut model = Model::new();
    for key in keys {
        leaves
            .insert(&txn, &key.to_be_bytes(), &vec![1; bytes])
            .expect("inserts");
        model.insert(key.to_be_bytes().to_vec(), vec![1; bytes]);
    }
    txn.commit(Durability::Full).expect("commits");
    assert_eq!(dump(&db, tree), model);
    check(&db, &[tree]);
    let figures = leaves.figures(FiguresMode::Detailed).expect("figures");
    let level = figures.levels[0];
    (
        level.pages,
        level.used_bytes as f64 / level.pages as f64 / 8_192.0,
    )
}

#[test]
fn keys_that_grow_within_each_of_several_prefixes_fill_their_pages() {
    const PREFIXES: u32 = 10;
    // Of the largest rows five and two fit on a page.
    for (bytes, rows, least) in [(150, 600, 0.85), (1_300, 150, 0.75), (2_600, 100, 0.8)] {
        let interleaved = (0..rows).flat_map(|row| (0..PREFIXES).map(move |p| p * 1_000_000 + row));
        let (pages, used) = leaves_of(bytes, interleaved);
        assert!(used > least, "{bytes} bytes: {pages} leaves, {used} in use");
    }
}

#[test]
fn keys_in_no_order_or_backwards_leave_pages_more_than_half_full() {
    let random = SimRandom::new(7);
    let mut keys: Vec<u32> = (0..6_000).collect();
    for i in (1..keys.len()).rev() {
        keys.swap(i, random.below(i as u64 + 1) as usize);
    }
    let (pages, used) = leaves_of(150, keys.into_iter());
    assert!(used > 0.6, "{pages} leaves, {used} in use");
    let (pages, used) = leaves_of(150, (0..6_000).rev());
    assert!(used > 0.45, "{pages} leaves, {used} in use");
}
