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
            while !stop.load(Ordering::Relaxed) {
                let (sum, rows) = total(db, tree, Isolation::ReadCommittedSnapshot);
                assert_eq!((sum, rows), (1000 * ACCOUNTS as i64, ACCOUNTS));
                db.background_step().expect("background");
            }
        });
        let done = || commits.load(Ordering::Relaxed) + deadlocks.load(Ordering::Relaxed) > 1000;
        while !done() {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("reader");
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

/// A serializable scan keeps others out of what it has read, gaps included, and out of nothing else.
#[test]
fn the_range_of_a_serializable_scan_grows_with_it() {
    for direction in [Direction::Forward, Direction::Backward] {
        let disk = SimDisk::new(1);
        let engine = engine(&disk, 1, 128);
        let db = engine
            .create_database(DB, "t", specs(), Settings::default())
            .expect("creates");
        let txn = db.begin(&owner(1));
        let id = db.create_tree(&txn, 1).expect("tree");
        let tree = db.tree(id).expect("tree");
        let spread = |n: u64| key(4 * n);
        for n in 1..=ACCOUNTS {
            tree.insert(&txn, &spread(n), &[7; 300]).expect("inserts");
        }
        txn.commit(Durability::Full).expect("commits");
        engine.release_locks(txn.owner());

        let (reader, other) = (owner(2), owner(3));
        other.lock_timeout_ms.store(0, Ordering::Relaxed);
        let random = SimRandom::new(7);
        let txn = db.begin(&reader);
        let view = txn.view(Isolation::Serializable);
        let mut scan = tree.scan(
            &view,
            ScanSpec {
                direction,
                ..ScanSpec::all()
            },
        );
        let (mut seen, mut added) = (Vec::new(), Vec::new());
        let (mut refused, mut batch) = (0, Batch::new());
        while scan.next(&mut batch).expect("scan") {
            seen.extend((0..batch.len()).map(|i| batch.key(i).to_vec()));
            let last = u64::from_be_bytes(seen.last().expect("rows")[..].try_into().expect("key"));
            for _ in 0..6 {
                // Near the place where the scan is, and anywhere.
                let near = last.saturating_sub(12) + random.below(24);
                let place = [near, random.below(4 * ACCOUNTS)][random.below(2) as usize];
                let new = key(place / 4 * 4 + 1 + random.below(3));
                let txn = db.begin(&other);
                let is_behind = match direction {
                    Direction::Forward => new < key(last),
                    Direction::Backward => new > key(last),
                };
                match tree.insert(&txn, &new, &[1]) {
                    Ok(()) => {
                        assert!(!is_behind, "a key was put in behind the scan");
                        txn.commit(Durability::Full).expect("commits");
                        added.push(new);
                    }
                    Err(StorageError::LockTimeout) => refused += 1,
                    Err(StorageError::DuplicateKey { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                drop(txn);
                engine.release_locks(&other);
            }
        }
        assert!(added.len() > 5 && refused > 5, "{} {refused}", added.len());
        added
            .iter()
            .for_each(|k| assert!(seen.contains(k), "a phantom"));
        // All of it is read now.
        let late = db.begin(&other);
        for at in [0, 2, 333, 4 * ACCOUNTS + 9] {
            let refused = tree.insert(&late, &key(at), &[1]);
            assert!(matches!(refused, Err(StorageError::LockTimeout)), "{at}");
        }
        drop(late);
        engine.release_locks(&other);
        txn.commit(Durability::Full).expect("commits");
        engine.release_locks(&reader);
        let txn = db.begin(&other);
        tree.insert(&txn, &key(2), &[1]).expect("nobody reads now");
        txn.commit(Durability::Full).expect("commits");
        engine.release_locks(&other);
    }
}

/// A scan that must wait for an entry keeps its writer from nothing: neither from writing it again nor from what follows.
#[test]
fn a_serializable_reader_that_waits_holds_only_what_it_has_read() {
    let (engine, db, tree) = bank(128);
    let (writer, reader) = (owner(1), owner(2));
    for direction in [Direction::Forward, Direction::Backward] {
        writer.lock_timeout_ms.store(0, Ordering::Relaxed);
        reader.lock_timeout_ms.store(0, Ordering::Relaxed);
        let writes = db.begin(&writer);
        add(&tree, &writes, 100, 1, false).expect("writes");
        let reads = db.begin(&reader);
        let view = reads.view(Isolation::Serializable);
        let spec = ScanSpec {
            direction,
            ..ScanSpec::all()
        };
        let mut scan = tree.scan(&view, spec);
        let (mut batch, mut read) = (Batch::new(), 0);
        let stopped = loop {
            match scan.next(&mut batch) {
                Ok(true) => read += batch.len(),
                other => break other,
            }
        };
        assert!(matches!(stopped, Err(StorageError::LockTimeout)));
        assert_eq!(
            read,
            if direction == Direction::Forward {
                100
            } else {
                99
            }
        );
        assert!(matches!(
            tree.get(&view, &key(100)),
            Err(StorageError::LockTimeout)
        ));
        add(&tree, &writes, 100, 1, true).expect("its own entry");
        let (behind, ahead) = match direction {
            Direction::Forward => (99, 101),
            Direction::Backward => (101, 99),
        };
        add(&tree, &writes, ahead, 1, false).expect("nobody has read it");
        let refused = add(&tree, &writes, behind, 1, false);
        assert!(matches!(refused, Err(StorageError::LockTimeout)));
        drop(scan);
        drop(reads);
        engine.release_locks(&reader);
        add(&tree, &writes, behind, 1, false).expect("nobody reads it now");
        writes.rollback().expect("rolls back");
        engine.release_locks(&writer);
    }
}

/// The one that waits for an entry's writer has it next, before newcomers.
#[test]
fn an_entry_goes_to_the_one_that_waited_for_it() {
    let (engine, db, tree) = bank(128);
    let (first, second, third) = (owner(1), owner(2), owner(3));
    third.lock_timeout_ms.store(0, Ordering::Relaxed);
    let one = db.begin(&first);
    add(&tree, &one, 5, 1, false).expect("writes");
    let two = db.begin(&second);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let view = two.view(Isolation::Update);
            tree.get(&view, &key(5)).expect("reads").expect("is there")
        });
        while !engine.locks().iter().any(|l| !l.granted) {
            std::thread::yield_now();
        }
        one.commit(Durability::Full).expect("commits");
        engine.release_locks(&first);
        let entry = waits.join().expect("second");
        // It has read and not yet written: nobody comes in between.
        let three = db.begin(&third);
        for isolation in [Isolation::Update, Isolation::Current] {
            let view = three.view(isolation);
            let written = tree
                .get(&view, &key(5))
                .and_then(|e| tree.update(&three, &key(5), e.expect("is there").stamp, &[0; 8]));
            assert!(matches!(written, Err(StorageError::LockTimeout)));
        }
        drop(three);
        engine.release_locks(&third);
        let done = tree.update(&two, &key(5), entry.stamp, &entry.payload);
        assert_eq!(done.expect("writes"), WriteOutcome::Done);
        engine.end_turn(&second);
        two.commit(Durability::Full).expect("commits");
        engine.release_locks(&second);
        let three = db.begin(&third);
        add(&tree, &three, 5, 1, false).expect("nobody waits");
        drop(three);
        engine.release_locks(&third);
        assert!(engine.locks().is_empty(), "{:?}", engine.locks());
    });
}
