//! Threads against each other: isolation, waits, deadlocks, and the sums that must hold.

mod common;

use common::*;
use daruma_sim::{SimDisk, SimRandom};
use daruma_storage::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ACCOUNTS: u64 = 200;

fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn amount(payload: &[u8]) -> i64 {
    i64::from_le_bytes(payload[..8].try_into().expect("8 bytes"))
}

fn bank(pages: usize) -> (Arc<Engine>, Arc<Database>, Arc<Tree>) {
    let disk = SimDisk::new(1);
    let engine = engine(&disk, 1, pages);
    let db = engine
        .create_database(DB, "t", specs(), Settings::default())
        .expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db
        .tree(db.create_tree(&txn, 1).expect("tree"))
        .expect("tree");
    for n in 0..ACCOUNTS {
        let mut payload = 1000i64.to_le_bytes().to_vec();
        payload.resize(8 + (n % 300) as usize, 7);
        tree.insert(&txn, &key(n), &payload).expect("inserts");
    }
    txn.commit(Durability::Full).expect("commits");
    engine.release_locks(txn.owner());
    (engine, db, tree)
}

fn total(db: &Arc<Database>, tree: &Arc<Tree>, isolation: Isolation) -> (i64, u64) {
    let txn = db.begin(&owner(99));
    let view = txn.view(isolation);
    let (mut sum, mut rows) = (0, 0);
    let mut scan = tree.scan(&view, ScanSpec::all());
    let mut batch = Batch::new();
    while scan.next(&mut batch).expect("scan") {
        for i in 0..batch.len() {
            sum += amount(batch.payload(i));
            rows += 1;
        }
    }
    (sum, rows)
}

/// Adds `by` to one account: reads the newest committed state, writes, and starts over when it changed meanwhile.
fn add(tree: &Arc<Tree>, txn: &Txn, n: u64, by: i64, grow: bool) -> Result<()> {
    loop {
        let Some(entry) = tree.get(&txn.view(Isolation::Current), &key(n))? else {
            panic!("account {n} is gone")
        };
        let mut payload = entry.payload.clone();
        let new = amount(&payload) + by;
        payload[..8].copy_from_slice(&new.to_le_bytes());
        if grow && payload.len() < 600 {
            payload.push(1);
        } else if payload.len() > 300 {
            payload.truncate(50);
        }
        if tree.update(txn, &key(n), entry.stamp, &payload)? == WriteOutcome::Done {
            return Ok(());
        }
    }
}

#[test]
fn transfers_keep_the_sum_in_every_snapshot() {
    let (engine, db, tree) = bank(128);
    let stop = AtomicBool::new(false);
    let (commits, deadlocks) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for worker in 0..4u64 {
            let (engine, db, tree, commits, deadlocks) =
                (&engine, &db, &tree, &commits, &deadlocks);
            scope.spawn(move || {
                let random = SimRandom::new(worker);
                let owner = owner(worker + 1);
                for round in 0..400 {
                    let txn = db.begin(&owner);
                    let (a, b, by) = (
                        random.below(ACCOUNTS),
                        random.below(ACCOUNTS),
                        random.below(50) as i64,
                    );
                    let done = add(tree, &txn, a, -by, round % 3 == 0)
                        .and_then(|()| add(tree, &txn, b, by, true));
                    match done {
                        Ok(()) if random.below(5) > 0 => {
                            txn.commit(Durability::Full).expect("commits");
                            commits.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(()) => txn.rollback().expect("rolls back"),
                        Err(StorageError::Deadlock { .. }) => {
                            deadlocks.fetch_add(1, Ordering::Relaxed);
                            txn.rollback().expect("rolls back");
                        }
                        Err(error) => panic!("{error}"),
                    }
                    engine.release_locks(&owner);
                }
            });
        }
        let (db, tree, stop) = (&db, &tree, &stop);
        let reader = scope.spawn(move || {
            let mut looks = 0;
            while !stop.load(Ordering::Relaxed) {
                let (sum, rows) = total(db, tree, Isolation::ReadCommittedSnapshot);
                assert_eq!((sum, rows), (1000 * ACCOUNTS as i64, ACCOUNTS));
                db.background_step().expect("background");
                looks += 1;
            }
            looks
        });
        let done = || commits.load(Ordering::Relaxed) + deadlocks.load(Ordering::Relaxed) > 1000;
        while !done() {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        assert!(reader.join().expect("reader") > 0);
    });
    assert_eq!(
        total(&db, &tree, Isolation::Current).0,
        1000 * ACCOUNTS as i64
    );
    assert!(engine.locks().is_empty(), "{:?}", engine.locks());
    assert_eq!(db.version_bytes(), 0, "no snapshot is left");
}

#[test]
fn two_writers_crossing_are_a_deadlock_and_one_survives() {
    let (engine, db, tree) = bank(128);
    let (one, two) = (owner(11), owner(12));
    let (a, b) = (db.begin(&one), db.begin(&two));
    add(&tree, &a, 1, 1, false).expect("first");
    add(&tree, &b, 2, 1, false).expect("second");
    let outcome = std::thread::scope(|scope| {
        let (tree, b2) = (&tree, b.clone());
        let other = scope.spawn(move || {
            let result = add(tree, &b2, 1, 1, false);
            if result.is_err() {
                b2.rollback().expect("rolls back");
            }
            result.is_err()
        });
        let mine = add(tree, &a, 2, 1, false).is_err();
        if mine {
            a.rollback().expect("rolls back");
        }
        (mine, other.join().expect("thread"))
    });
    assert!(outcome.0 != outcome.1, "exactly one victim: {outcome:?}");
    engine.release_locks(&one);
    engine.release_locks(&two);
}

/// Of two with the same priority the one that has written less gives way, whoever it is.
#[test]
fn a_deadlock_takes_the_one_that_wrote_less() {
    for writes_more in [11, 12] {
        let (engine, db, tree) = bank(128);
        let owners = [owner(11), owner(12)];
        let txns = [0, 1].map(|n| {
            let txn = db.begin(&owners[n]);
            let id = 1 + n as u64;
            add(&tree, &txn, id, 1, false).expect("the first row");
            if owners[n].id == writes_more {
                (10..20).for_each(|id| add(&tree, &txn, id, 1, false).expect("more rows"));
            }
            txn
        });
        std::thread::scope(|scope| {
            let crossing = |n: usize| {
                let (txn, tree) = (txns[n].clone(), &tree);
                move || {
                    let result = add(tree, &txn, 2 - n as u64, 1, false);
                    if result.is_err() {
                        txn.rollback().expect("rolls back");
                    }
                    result.is_ok()
                }
            };
            let threads = [0, 1].map(|n| scope.spawn(crossing(n)));
            let survived = threads.map(|t| t.join().expect("no panic"));
            let more = [0, 1].map(|n| owners[n].id == writes_more);
            assert_eq!(survived, more);
        });
        owners.iter().for_each(|o| engine.release_locks(o));
    }
}

#[test]
fn snapshot_isolation_refuses_to_overwrite_what_it_did_not_see() {
    let (_engine, db, tree) = bank(128);
    let reader = db.begin(&owner(20));
    let view = reader.view(Isolation::Snapshot);
    let before = tree.get(&view, &key(5)).expect("reads").expect("there");
    let writer = db.begin(&owner(21));
    add(&tree, &writer, 5, 77, false).expect("writes");
    writer.commit(Durability::Full).expect("commits");
    let again = tree
        .get(&reader.view(Isolation::Snapshot), &key(5))
        .expect("reads")
        .expect("there");
    assert_eq!(before, again, "the snapshot stands still");
    let refused = tree.update(&reader, &key(5), again.stamp, &again.payload);
    assert!(
        matches!(refused, Err(StorageError::SnapshotConflict)),
        "{refused:?}"
    );
}

#[test]
fn serializable_keeps_others_out_of_the_range_it_read() {
    let (engine, db, tree) = bank(128);
    let reader_owner = owner(30);
    let reader = db.begin(&reader_owner);
    let range = ScanSpec {
        low: Bound::Included(key(1000)),
        high: Bound::Included(key(2000)),
        ..ScanSpec::all()
    };
    let mut batch = Batch::new();
    assert!(
        !tree
            .scan(&reader.view(Isolation::Serializable), range)
            .next(&mut batch)
            .expect("empty range")
    );
    let writer_owner = owner(31);
    writer_owner.lock_timeout_ms.store(0, Ordering::Relaxed);
    let writer = db.begin(&writer_owner);
    let refused = tree.insert(&writer, &key(1500), &[0; 8]);
    assert!(
        matches!(refused, Err(StorageError::LockTimeout)),
        "{refused:?}"
    );
    tree.insert(&writer, &key(2500), &[0; 8])
        .expect("outside the range");
    reader.commit(Durability::Full).expect("commits");
    engine.release_locks(&reader_owner);
    tree.insert(&writer, &key(1500), &[0; 8])
        .expect("the range is free again");
    writer.rollback().expect("rolls back");
}

#[test]
fn repeatable_read_keeps_what_it_read() {
    let (engine, db, tree) = bank(128);
    let reader_owner = owner(40);
    let reader = db.begin(&reader_owner);
    let entry = tree
        .get(&reader.view(Isolation::RepeatableRead), &key(3))
        .expect("reads")
        .expect("there");
    let writer_owner = owner(41);
    writer_owner.lock_timeout_ms.store(0, Ordering::Relaxed);
    let writer = db.begin(&writer_owner);
    let refused = tree.update(&writer, &key(3), entry.stamp, &entry.payload);
    assert!(
        matches!(refused, Err(StorageError::LockTimeout)),
        "{refused:?}"
    );
    add(&tree, &writer, 4, 1, false).expect("another row");
    reader.commit(Durability::Full).expect("commits");
    engine.release_locks(&reader_owner);
    add(&tree, &writer, 3, 1, false).expect("free again");
    writer.rollback().expect("rolls back");
    engine.release_locks(&writer_owner);
    assert!(engine.locks().is_empty());
}

#[test]
fn a_locking_reader_waits_for_the_writer_and_a_versioning_one_does_not() {
    let (_engine, db, tree) = bank(128);
    let writer = db.begin(&owner(50));
    add(&tree, &writer, 9, 500, false).expect("writes");
    let reader_owner = owner(51);
    reader_owner.lock_timeout_ms.store(0, Ordering::Relaxed);
    let reader = db.begin(&reader_owner);
    let old = tree
        .get(&reader.view(Isolation::ReadCommittedSnapshot), &key(9))
        .expect("reads")
        .expect("there");
    assert_eq!(amount(&old.payload), 1000);
    let dirty = tree
        .get(&reader.view(Isolation::ReadUncommitted), &key(9))
        .expect("reads")
        .expect("there");
    assert_eq!(amount(&dirty.payload), 1500);
    let waits = tree.get(&reader.view(Isolation::ReadCommitted), &key(9));
    assert!(matches!(waits, Err(StorageError::LockTimeout)), "{waits:?}");
    writer.rollback().expect("rolls back");
    let after = tree
        .get(&reader.view(Isolation::ReadCommitted), &key(9))
        .expect("reads")
        .expect("there");
    assert_eq!(amount(&after.payload), 1000);
}
