//! Epochs: each start begins one, copies that went different ways are told apart, and a stop anywhere leaves a history.

mod common;

use common::*;
use daruma_base::Lsn;
use daruma_sim::SimDisk;
use daruma_storage::*;
use std::sync::Arc;

fn commit(db: &Arc<Database>, tree: TreeId, keys: std::ops::Range<u32>) {
    let txn = db.begin(&owner(2));
    fill(db, &txn, tree, keys, 7);
    txn.commit(Durability::Full).expect("commits");
}

fn ids(db: &Database) -> Vec<u128> {
    db.epochs().list().iter().map(|e| e.id).collect()
}

fn assert_is_history(db: &Database, end: Lsn) {
    let epochs = db.epochs();
    assert!(
        Epochs::from_list(epochs.list().to_vec()).is_some(),
        "{epochs:?}"
    );
    assert!(
        epochs.list().iter().all(|e| e.start < end),
        "{epochs:?} of a log to {end}"
    );
}

#[test]
fn every_start_begins_an_epoch_with_the_first_record_it_adds() {
    let disk = SimDisk::new(1);
    let (db, tree) = create(&disk, 1, 256, Settings::default());
    let first = ids(&db);
    assert_eq!(first.len(), 1);
    let mut expected = first;
    let mut db = Some(db);
    for round in 0..4 {
        let open_db = db.take().expect("open");
        commit(&open_db, tree, round * 10..(round + 1) * 10);
        let end = open_db.hardened_lsn();
        let is_clean = round % 2 == 0;
        if is_clean {
            open_db.close().expect("closes");
        }
        drop(open_db);
        disk.crash();
        let (opened, _) = open(&disk, 1, 256).expect("opens");
        let found = ids(&opened);
        assert_eq!(found[..found.len() - 1], expected);
        let last = opened.epochs().last().expect("one");
        assert!(last.start >= end);
        let lines = opened
            .describe_log(Some(last.start), None, 10)
            .expect("reads")
            .lines;
        assert_eq!(lines[0].operation, "LOP_SET_PROPERTY");
        expected = found;
        db = Some(opened);
    }
}

#[test]
fn copies_that_are_opened_apart_have_one_number_and_two_ids() {
    let disk = SimDisk::new(2);
    let (db, tree) = create(&disk, 2, 256, Settings::default());
    commit(&db, tree, 0..10);
    let end = db.hardened_lsn();
    drop(db);
    disk.crash();
    let twin = disk.fork(9);
    let (one, _) = open(&disk, 3, 256).expect("opens");
    let (two, _) = open(&twin, 4, 256).expect("opens");
    commit(&one, tree, 10..20);
    commit(&two, tree, 10..40);
    let (ours, theirs) = (one.epochs(), two.epochs());
    let (last, other) = (ours.last().expect("one"), theirs.last().expect("one"));
    assert_eq!((last.number, last.start), (other.number, other.start));
    assert_ne!(last.id, other.id);
    let fork = ours.fork(one.hardened_lsn(), &theirs, two.hardened_lsn());
    assert_eq!(fork, Some(end));
}

#[test]
fn a_start_that_is_stopped_anywhere_leaves_a_history() {
    let disk = SimDisk::new(3);
    let (db, tree) = create(&disk, 3, 256, Settings::default());
    commit(&db, tree, 0..50);
    let kept = ids(&db);
    drop(db);
    disk.crash();
    for call in 0.. {
        let disk = disk.fork(call);
        crash::stop_within(&disk, call);
        let stopped = open(&disk, call, 256).is_err();
        disk.crash();
        let (db, _) = open(&disk, call + 1_000, 256).expect("opens");
        let found = ids(&db);
        assert_eq!(found[..kept.len()], kept, "stopped at call {call}");
        assert!((kept.len() + 1..=kept.len() + 2).contains(&found.len()));
        db.flush_log().expect("flushes");
        assert_is_history(&db, db.hardened_lsn());
        if !stopped {
            assert!(call > 3, "a start writes something");
            return;
        }
    }
}

#[test]
fn the_history_is_bounded_and_says_what_it_does_not_know() {
    let disk = SimDisk::new(4);
    let (db, _) = create(&disk, 4, 256, Settings::default());
    let first = db.epochs().last().expect("one");
    db.close().expect("closes");
    drop(db);
    for seed in 0..EPOCHS_MAX as u64 {
        let (db, _) = open(&disk, seed, 64).expect("opens");
        db.close().expect("closes");
    }
    let (db, _) = open(&disk, 4, 64).expect("opens");
    assert_eq!(db.epochs().list().len(), EPOCHS_MAX);
    assert_eq!(db.epochs().before(Lsn(first.start.0 + 1)), None);
    assert_eq!(
        db.epochs().last().map(|e| e.number),
        Some(EPOCHS_MAX as u64 + 2)
    );
}
