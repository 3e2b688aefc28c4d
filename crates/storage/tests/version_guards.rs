//! Pages, versions and the records that resolve transactions reach the disk in an order that no crash can turn against
//! committed rows. Each test stops the machine between two of them.

mod common;

use common::*;
use daruma_sim::{Faults, SimDisk};
use daruma_storage::*;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

const FRAMES: usize = 256;
/// Rows of one leaf, when it is full of those that `add` inserts.
const LEAF_ROWS: u32 = 46;
/// More than there are dirty pages in any of these databases.
const PAGES: usize = 30;

fn key(row: u32) -> [u8; 4] {
    (row * 10).to_be_bytes()
}

/// Inserts rows between others, in a transaction of their own.
fn add(db: &Arc<Database>, tree: TreeId, keys: impl Iterator<Item = u32>) {
    let txn = db.begin(&owner(50));
    let tree = db.tree(tree).expect("tree");
    for key in keys {
        tree.insert(&txn, &key.to_be_bytes(), &[1; 150])
            .expect("inserts");
    }
    txn.commit(Durability::Full).expect("commits");
}

fn update(db: &Arc<Database>, txn: &Txn, tree: TreeId, row: u32) {
    let tree = db.tree(tree).expect("tree");
    let view = txn.view(Isolation::Current);
    let entry = tree.get(&view, &key(row)).expect("reads").expect("there");
    let done = tree.update(txn, &key(row), entry.stamp, &[2; 150]);
    assert_eq!(done.expect("updates"), WriteOutcome::Done);
}

fn delete(db: &Arc<Database>, tree: TreeId, keys: impl Iterator<Item = u32>) {
    let txn = db.begin(&owner(51));
    let tree = db.tree(tree).expect("tree");
    for key in keys {
        let view = txn.view(Isolation::Current);
        if let Some(entry) = tree.get(&view, &key.to_be_bytes()).expect("reads") {
            tree.delete(&txn, &key.to_be_bytes(), entry.stamp)
                .expect("deletes");
        }
    }
    txn.commit(Durability::Full).expect("commits");
}

/// A database with so many rows on disk, ten apart.
fn with_rows(disk: &Arc<SimDisk>, rows: u32) -> (Arc<Database>, TreeId) {
    let (db, tree) = create(disk, 1, FRAMES, accelerated());
    add(&db, tree, (0..rows).map(|row| row * 10));
    db.checkpoint().expect("checkpoint");
    (db, tree)
}

/// Something else becomes durable, and with it all log so far.
fn harden(db: &Arc<Database>) {
    db.flush_log().expect("the log is hard");
}

/// After a crash the database holds one of these states, before and after it has reverted what there is to revert.
fn holds(disk: &Arc<SimDisk>, tree: TreeId, allowed: &[Model], at: &str) {
    let (db, _) = open(disk, 1, FRAMES).unwrap_or_else(|e| panic!("{at}: {e}"));
    let found = dump(&db, tree);
    assert!(allowed.contains(&found), "{at}");
    settle(&db);
    assert!(dump(&db, tree) == found, "{at}, then reverted");
}

/// Each of the dirty pages that `before_crash` leaves is written alone; then the power fails.
fn one_page_is_written(
    before_crash: impl Fn(&Arc<SimDisk>) -> (Arc<Database>, TreeId, Vec<Model>),
) {
    let mut written = 0;
    for page in 0..PAGES {
        let disk = SimDisk::new(page as u64);
        let (db, tree, allowed) = before_crash(&disk);
        written += db.write_some_pages(page, 1).expect("writes");
        drop(db);
        disk.crash();
        holds(&disk, tree, &allowed, &format!("page {page} was written"));
    }
    assert!(written > 0, "no page could be written");
}

#[test]
fn a_page_is_not_written_before_the_delayed_commit_that_let_its_versions_go() {
    one_page_is_written(|disk| {
        let (db, tree) = with_rows(disk, 20);
        let before = dump(&db, tree);
        let txn = db.begin(&owner(2));
        update(&db, &txn, tree, 3);
        harden(&db);
        txn.commit(Durability::Delayed).expect("commits");
        let after = dump(&db, tree);
        (db, tree, vec![before, after])
    });
}

/// The changed row moves to another page while its transaction is open: the page that it leaves has no change of its own
/// that the rollback would take back.
fn moved_away(disk: &Arc<SimDisk>, undo_at_once: u64) -> (Arc<Database>, TreeId, Txn) {
    let (db, tree) = with_rows(disk, 2 * LEAF_ROWS);
    db.set_undo_at_once_bytes(undo_at_once);
    let txn = db.begin(&owner(2));
    update(&db, &txn, tree, LEAF_ROWS - 4);
    add(&db, tree, (0..9).map(|n| 55 + 10 * n));
    harden(&db);
    (db, tree, txn)
}

#[test]
fn a_page_is_not_written_before_the_rollback_that_let_its_versions_go() {
    one_page_is_written(|disk| {
        let (db, tree, txn) = moved_away(disk, 1 << 20);
        let committed = dump(&db, tree);
        txn.rollback().expect("rolls back");
        assert!(db.aborted_transactions().is_empty(), "undone from the log");
        (db, tree, vec![committed])
    });
}

#[test]
fn a_page_is_not_written_before_the_end_of_the_revert_that_let_its_versions_go() {
    one_page_is_written(|disk| {
        let (db, tree, txn) = moved_away(disk, 0);
        let committed = dump(&db, tree);
        txn.rollback().expect("rolls back");
        assert_eq!(db.aborted_transactions().len(), 1, "marked");
        while db.revert_step().expect("reverts") {}
        (db, tree, vec![committed])
    });
}

/// A leaf whose changed entry was split off is emptied, unlinked and free; its old content must stay on disk until the
/// entry's version is on a page. Versions of another transaction are placed.
#[test]
fn versions_are_not_placed_over_a_freed_page_that_others_can_be_rebuilt_from() {
    for is_power_lost in [false, true] {
        for places in [1..2, 0..1, 0..2] {
            let disk = SimDisk::new(7);
            let (db, tree) = with_rows(&disk, 3 * LEAF_ROWS);
            let old_owner = owner(2);
            let old = db.begin(&old_owner);
            update(&db, &old, tree, 2 * LEAF_ROWS - 3);
            let first = LEAF_ROWS * 10;
            add(&db, tree, (0..9).map(|n| first + 35 + 10 * n));
            delete(&db, tree, first..first + LEAF_ROWS * 10 - 60);
            let young_owner = owner(3);
            let young = db.begin(&young_owner);
            update(&db, &young, tree, 3);
            let used = db.files()[0].used_pages;
            settle(&db);
            assert!(db.files()[0].used_pages < used, "a leaf was unlinked");
            let committed = dump(&db, tree);
            let placed = db.place_some_versions(places.start, places.len());
            assert_eq!(placed.expect("places"), places.len());
            harden(&db);
            std::mem::forget((old, young));
            drop(db);
            match is_power_lost {
                true => disk.crash(),
                false => disk.restart(),
            }
            let at = format!("chunks {places:?} placed, power lost: {is_power_lost}");
            holds(&disk, tree, &[committed], &at);
        }
    }
}

/// Version pages are on no disk but in the log: whichever pages were written, the rest comes from there.
#[test]
fn placed_versions_come_back_from_the_log() {
    one_page_is_written(|disk| {
        let (db, tree) = with_rows(disk, 3 * LEAF_ROWS);
        let committed = dump(&db, tree);
        let txn = db.begin(&owner(2));
        for row in 0..3 * LEAF_ROWS {
            update(&db, &txn, tree, row);
        }
        db.place_some_versions(0, 10).expect("places");
        std::mem::forget(txn);
        (db, tree, vec![committed])
    });
}

#[test]
fn placing_versions_after_a_failed_flush_fails_and_does_not_wait_for_it() {
    let disk = SimDisk::new(1);
    let (db, tree) = with_rows(&disk, 20);
    let dropped = {
        let txn = db.begin(&owner(1));
        let dropped = db.create_tree(&txn, 1).expect("tree");
        txn.commit(Durability::Full).expect("commits");
        add(&db, dropped, 0..3 * LEAF_ROWS);
        db.checkpoint().expect("checkpoint");
        dropped
    };
    let txn = db.begin(&owner(1));
    db.drop_tree(&txn, dropped).expect("drops");
    txn.commit(Durability::Full).expect("commits");
    settle(&db);
    let txn = db.begin(&owner(2));
    update(&db, &txn, tree, 3);
    harden(&db);
    disk.set_faults(Faults {
        fail_at: Some(disk.calls()),
        ..Faults::default()
    });
    assert!(db.write_some_pages(0, PAGES).is_err(), "the flush fails");
    let (done, result) = channel();
    std::thread::spawn(move || {
        let placed = db.place_some_versions(0, 1);
        std::mem::forget(txn);
        let _ = done.send(placed.is_err());
    });
    let is_refused = result.recv_timeout(Duration::from_secs(300));
    assert!(is_refused.expect("it does not wait for ever"));
}
