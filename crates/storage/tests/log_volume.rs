//! Log that accelerated recovery adds, as a ratio of the same work with and without it.

mod common;

use common::*;
use daruma_base::DatabaseId;
use daruma_sim::SimDisk;
use daruma_storage::*;
use std::sync::Arc;

const ROWS: u32 = 4_000;
const FRAMES: usize = 1_024;

/// A database whose redo is kept below 16 MB.
fn database(accelerated_recovery: bool, rows: u32) -> (Arc<Database>, TreeId) {
    let settings = Settings {
        accelerated_recovery,
        target_recovery_seconds: 1,
        ..Settings::default()
    };
    let disk = SimDisk::new(1);
    let mut files = specs();
    files[1].size_pages = (128 << 20) / 8192;
    let db = engine(&disk, 1, FRAMES)
        .create_database(DB, "t", files, settings)
        .expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    let txn = db.begin(&owner(1));
    let opened = db.tree(tree).expect("tree");
    for row in 0..rows {
        let payload = payload(row, 0);
        opened
            .insert(&txn, &row.to_be_bytes(), &payload)
            .expect("inserts");
    }
    txn.commit(Durability::Full).expect("commits");
    (db, tree)
}

/// As rows are: numbers, some of which differ, and texts.
fn payload(row: u32, round: u32) -> Vec<u8> {
    let mut payload = format!("order {row:08}, line {}, carrier 4911-403C-98", row % 12);
    for step in 0..6 {
        payload.push_str(&format!(", changed {:06}", round * 7 + step));
    }
    payload.into_bytes()
}

fn update(db: &Arc<Database>, txn: &Txn, tree: TreeId, round: u32) {
    let tree = db.tree(tree).expect("tree");
    let view = txn.view(Isolation::Current);
    let mut scan = tree.scan(&view, ScanSpec::all());
    let (mut batch, mut updates, mut refused) = (Batch::new(), UpdateBatch::new(), Vec::new());
    let mut row = 0;
    while scan.next(&mut batch).expect("scans") {
        updates.clear();
        for i in 0..batch.len() {
            updates.push(batch.key(i), batch.stamp(i), &payload(row, round));
            row += 1;
        }
        tree.update_batch(txn, &updates, &mut refused)
            .expect("updates");
        // The background has a turn while the transaction is open.
        db.background_step().expect("background");
    }
    assert!(refused.is_empty());
}

/// Log bytes of so many updates of all rows, so many in each transaction.
fn log_bytes(accelerated: bool, updates: u32, in_each: u32) -> u64 {
    let (db, tree) = database(accelerated, ROWS);
    log_bytes_in(&db, tree, updates, in_each)
}

fn log_bytes_in(db: &Arc<Database>, tree: TreeId, updates: u32, in_each: u32) -> u64 {
    let before = db.log_stats().end_lsn.0;
    for first in (0..updates).step_by(in_each as usize) {
        let txn = db.begin(&owner(1));
        (first..first + in_each).for_each(|round| update(db, &txn, tree, round));
        txn.commit(Durability::Full).expect("commits");
    }
    db.log_stats().end_lsn.0 - before
}

fn ratio(updates: u32, in_each: u32) -> f64 {
    let (on, off) = (
        log_bytes(true, updates, in_each),
        log_bytes(false, updates, in_each),
    );
    println!("{updates} updates, {in_each} in each transaction: {on} bytes with, {off} without");
    on as f64 / off as f64
}

#[test]
fn transactions_that_end_soon_log_no_versions() {
    let ratio = ratio(60, 1);
    assert!(ratio <= 1.01, "{ratio}");
}

#[test]
fn a_long_transaction_logs_its_versions_once() {
    let ratio = ratio(60, 60);
    assert!(ratio <= 1.03, "{ratio}");
}

/// Rows that take a page each, some at a time: nobody is ever without a clean frame. Those of a part have successive keys, from a
/// multiple of `FRAMES` on.
fn fill(db: &Arc<Database>, tree: TreeId, parts: u32, rows_in_each: u32) {
    let tree = db.tree(tree).expect("tree");
    for part in 0..parts {
        let txn = db.begin(&owner(1));
        for row in 0..rows_in_each {
            let key = (part * FRAMES as u32 + row).to_be_bytes();
            tree.insert(&txn, &key, &[7; 5_000]).expect("inserts");
        }
        txn.commit(Durability::Full).expect("commits");
        db.checkpoint().expect("writes all pages");
    }
}

/// A pool in use for a while is full of clean pages: that alone is no reason to put versions on pages.
#[test]
fn transactions_that_end_soon_log_no_versions_in_a_full_pool() {
    let [on, off] = [true, false].map(|accelerated| {
        let (db, tree) = database(accelerated, ROWS / 4);
        let txn = db.begin(&owner(1));
        let cold = db.create_tree(&txn, 1).expect("tree");
        txn.commit(Durability::Full).expect("commits");
        fill(&db, cold, 8, FRAMES as u32 / 4);
        log_bytes_in(&db, tree, 60, 1)
    });
    assert!(
        on as f64 <= off as f64 * 1.01,
        "{on} bytes with, {off} without"
    );
}

/// Transactions of several databases that stay open, each with changes on many pages: nobody is left without a frame.
#[test]
fn open_transactions_of_many_databases_leave_frames_in_a_full_pool() {
    const DATABASES: u16 = 12;
    let disk = SimDisk::new(1);
    let engine = engine(&disk, 1, FRAMES);
    let settings = Settings {
        accelerated_recovery: true,
        ..Settings::default()
    };
    let create = |number: u16| {
        let files = vec![
            FileSpec::data(1, 1, &format!("/t{number}.mdf"), 256),
            FileSpec::log(&format!("/t{number}_log.ldf"), 130),
        ];
        let db = engine
            .create_database(
                DatabaseId(5 + number),
                &format!("t{number}"),
                files,
                settings,
            )
            .expect("creates");
        let txn = db.begin(&owner(1));
        let tree = db.create_tree(&txn, 1).expect("tree");
        txn.commit(Durability::Full).expect("commits");
        fill(&db, tree, 4, FRAMES as u32 / 8);
        (db, tree)
    };
    let databases: Vec<_> = (0..DATABASES).map(create).collect();
    let open: Vec<_> = databases
        .iter()
        .enumerate()
        .map(|(number, (db, tree))| {
            let txn = db.begin(&owner(10 + number as u64));
            let opened = db.tree(*tree).expect("tree");
            for row in 0..FRAMES as u32 / 8 {
                let key = row.to_be_bytes();
                let view = txn.view(Isolation::Current);
                let seen = opened.get(&view, &key).expect("reads").expect("is there");
                let changed = opened.update(&txn, &key, seen.stamp, &[8; 5_000]);
                changed.expect("has a frame");
            }
            txn
        })
        .collect();
    for txn in open {
        txn.commit(Durability::Full).expect("commits");
    }
}
