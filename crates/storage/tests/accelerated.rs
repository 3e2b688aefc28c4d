//! Accelerated recovery: logical revert, versions that outlive a crash, a log that open transactions do not keep.

mod common;

use common::crash::Crashes;
use common::*;
use daruma_base::TxnId;
use daruma_sim::{SimDisk, SimRandom};
use daruma_storage::*;
use std::sync::Arc;

#[test]
fn random_transactions_match_a_model_while_reverting_goes_on() {
    for seed in 0..8 {
        let disk = SimDisk::new(seed);
        let random = SimRandom::new(seed);
        let (db, tree) = create(&disk, seed, 64, accelerated());
        db.set_undo_at_once_bytes(random.below(3) * 2000);
        let mut model = Model::new();
        for round in 0..150 {
            random_txn(&random, &db, tree, &mut model, 400).expect("no faults");
            if random.below(5) == 0 {
                db.background_step().expect("background");
            }
            if random.below(20) == 0 {
                db.checkpoint().expect("checkpoint");
            }
            if round % 10 == 0 {
                assert_eq!(dump(&db, tree), model, "seed {seed}, round {round}");
            }
        }
        settle(&db);
        assert!(db.aborted_transactions().is_empty());
        assert_eq!(dump(&db, tree), model, "seed {seed}");
        db.close().expect("closes");
        drop(db);
        let (db, report) = open(&disk, seed, 64).expect("opens");
        assert!(!report.needed, "a clean stop needs no recovery");
        assert_eq!(dump(&db, tree), model, "seed {seed}");
    }
}

/// As in `recovery`: stops at any write, again during recovery, with the mode switched now and then.
#[test]
fn a_stop_at_any_write_loses_nothing_committed_and_keeps_nothing_else() {
    let crashes = Crashes {
        runs: 40,
        crashes_per_run: 5,
        calls_max: 80,
        settings: accelerated(),
    };
    crashes.run(|random, db, tree, model| {
        db.set_undo_at_once_bytes(random.below(3) * 3000);
        work_until_stopped(random, db, tree, model)
    });
}

/// Works beside one long transaction. Returns what the last, unacknowledged commit may have made of the model.
fn work_until_stopped(
    random: &SimRandom,
    db: &Arc<Database>,
    tree: TreeId,
    model: &mut Model,
) -> Option<Model> {
    let long_owner = owner(2);
    let long = db.begin(&long_owner);
    let long_tree = db.tree(tree).expect("tree");
    for round in 0..400 {
        if let Err((_, after)) = random_txn(random, db, tree, model, 300) {
            return after;
        }
        // Keys that the others never touch.
        let key = format!("long{:05}", random.below(5000)).into_bytes();
        let written = match long_tree.get(&long.view(Isolation::Current), &key) {
            Ok(None) => long_tree.insert(&long, &key, &[b'l'; 200]),
            Ok(Some(_)) => Ok(()),
            Err(error) => Err(error),
        };
        if written.is_err() {
            return None;
        }
        if random.below(60) == 0 {
            let mut settings = db.settings();
            settings.accelerated_recovery = !settings.accelerated_recovery;
            if db.set_settings(settings).is_err() {
                return None;
            }
        }
        if round % 7 == 3 && db.background_step().is_err() {
            return None;
        }
        if round % 31 == 30 && db.checkpoint().is_err() {
            return None;
        }
    }
    None
}

#[test]
fn a_large_rollback_is_a_mark_and_readers_and_writers_see_the_committed_state() {
    let disk = SimDisk::new(1);
    let (db, tree) = create(&disk, 1, 128, accelerated());
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 0..3000, 1);
    txn.commit(Durability::Full).expect("commits");
    let before = dump(&db, tree);
    let count = db.tree(tree).expect("tree").approximate_count();
    let txn = db.begin(&owner(1));
    update_all(&db, &txn, tree, &[2; 180]);
    fill(&db, &txn, tree, 3000..6000, 3);
    let log = db.log_stats().end_lsn;
    txn.rollback().expect("rolls back");
    assert!(
        db.log_stats().end_lsn.0 - log.0 < 8192,
        "one record, whatever the size"
    );
    assert_eq!(db.aborted_transactions().len(), 1);
    assert_eq!(dump(&db, tree), before);
    assert_eq!(db.tree(tree).expect("tree").approximate_count(), count);
    // A writer on a row of the aborted transaction.
    let txn = db.begin(&owner(2));
    let opened = db.tree(tree).expect("tree");
    let key = 17u32.to_be_bytes();
    let entry = opened
        .get(&txn.view(Isolation::ReadCommittedSnapshot), &key)
        .expect("reads")
        .expect("is there");
    assert_eq!(entry.payload, [1; 150]);
    let done = opened.update(&txn, &key, entry.stamp, &[9; 10]);
    assert_eq!(done.expect("updates"), WriteOutcome::Done);
    opened
        .insert(&txn, &3500u32.to_be_bytes(), &[8; 10])
        .expect("an aborted key is free");
    txn.commit(Durability::Full).expect("commits");
    let mut after = before;
    after.insert(key.to_vec(), vec![9; 10]);
    after.insert(3500u32.to_be_bytes().to_vec(), vec![8; 10]);
    assert_eq!(dump(&db, tree), after);
    settle(&db);
    assert!(db.aborted_transactions().is_empty());
    assert_eq!(dump(&db, tree), after);
    assert_eq!(
        db.tree(tree).expect("tree").approximate_count(),
        after.len() as u64
    );
    let stats = db.version_stats();
    assert_eq!((stats.memory_bytes, stats.pages), (0, 0), "{stats:?}");
}

#[test]
fn a_transaction_larger_than_memory_is_recovered_from_its_persistent_versions() {
    for seed in 0..6 {
        let disk = SimDisk::new(seed);
        let random = SimRandom::new(seed);
        let (db, tree) = create(&disk, seed, 96, accelerated());
        let txn = db.begin(&owner(1));
        fill(&db, &txn, tree, 0..6000, 1);
        txn.commit(Durability::Full).expect("commits");
        let used = db.files()[0].used_pages;
        let before = dump(&db, tree);
        let open_owner = owner(1);
        let txn = db.begin(&open_owner);
        for round in 0..3u8 {
            update_all(&db, &txn, tree, &[10 + round; 150]);
            if random.below(2) == 0 {
                db.checkpoint().expect("checkpoint");
            }
            db.background_step().expect("background");
        }
        assert!(db.version_stats().pages > 0, "versions went to pages");
        std::mem::forget(txn);
        drop(db);
        disk.crash();
        let (db, report) = open(&disk, seed, 96).expect("opens");
        assert_eq!((report.to_revert, report.rolled_back), (1, 1));
        assert!(dump(&db, tree) == before, "seed {seed}");
        if random.below(2) == 0 {
            db.background_step().expect("background");
            drop(db);
            disk.crash();
            let (db, _) = open(&disk, seed, 96).expect("opens again");
            assert!(dump(&db, tree) == before, "seed {seed}, again");
            settle(&db);
            assert!(dump(&db, tree) == before, "seed {seed}, reverted");
            continue;
        }
        settle(&db);
        assert!(dump(&db, tree) == before, "seed {seed}, reverted");
        assert_eq!(db.version_stats().pages, 0);
        assert_eq!(db.files()[0].used_pages, used, "all pages came back");
    }
}

#[test]
fn an_open_transaction_does_not_keep_the_log() {
    let disk = SimDisk::new(2);
    let (db, tree) = create(&disk, 2, 256, accelerated());
    let old = db.begin(&owner(7));
    db.tree(tree)
        .expect("tree")
        .insert(&old, b"old", b"open")
        .expect("inserts");
    for round in 0..30u32 {
        let txn = db.begin(&owner(1));
        fill(&db, &txn, tree, round * 500..round * 500 + 500, 1);
        txn.commit(Durability::Full).expect("commits");
        db.checkpoint().expect("checkpoint");
    }
    let stats = db.log_stats();
    assert_eq!(stats.reuse_wait, "NOTHING");
    assert!(stats.size_bytes < 4 << 20, "{stats:?}");
    // Its log is gone: it is marked, small as it is.
    old.rollback().expect("rolls back");
    assert_eq!(db.aborted_transactions().len(), 1);
    assert!(!dump(&db, tree).contains_key(&b"old"[..]));
    settle(&db);
    assert!(db.aborted_transactions().is_empty());
}

#[test]
fn a_statement_can_be_taken_back_without_the_log() {
    let disk = SimDisk::new(3);
    let (db, tree) = create(&disk, 3, 256, accelerated());
    let txn = db.begin(&owner(7));
    fill(&db, &txn, tree, 0..10, 1);
    let point = txn.savepoint();
    fill(&db, &txn, tree, 10..20, 1);
    let other = db.begin(&owner(8));
    fill(&db, &other, tree, 1000..9000, 1);
    other.commit(Durability::Full).expect("commits");
    for _ in 0..2 {
        db.checkpoint().expect("checkpoint");
        assert_eq!(db.log_stats().reuse_wait, "NOTHING");
    }
    // As often as asked.
    for byte in 2..4 {
        txn.rollback_to(point.clone()).expect("rolls back");
        fill(&db, &txn, tree, 10..30, byte);
    }
    txn.rollback_to(point).expect("rolls back");
    assert!(db.aborted_transactions().is_empty());
    txn.commit(Durability::Full).expect("commits");
    assert_eq!(dump(&db, tree).len(), 8010);
}

/// Larger than the memory for it: its beginning is undone, the rest is marked.
#[test]
fn a_large_statement_is_taken_back_in_bounded_time() {
    for rows in [1_000u32, 4_000] {
        let disk = SimDisk::new(12);
        let (db, tree) = create(&disk, 12, 256, accelerated());
        let txn = db.begin(&owner(1));
        fill(&db, &txn, tree, 0..rows, 1);
        txn.commit(Durability::Full).expect("commits");
        let txn = db.begin(&owner(1));
        fill(&db, &txn, tree, 10_000..10_010, 2);
        for round in 0..2u8 {
            update_all(&db, &txn, tree, &[3 + round; 150]);
            let before_statement = read_own(&db, &txn, tree);
            let point = txn.savepoint();
            update_all(&db, &txn, tree, &[7; 170]);
            fill(&db, &txn, tree, 20_000..20_000 + rows, 8);
            db.checkpoint().expect("checkpoint");
            assert_eq!(db.log_stats().reuse_wait, "NOTHING");
            let log = db.log_stats().end_lsn;
            txn.rollback_to(point).expect("rolls back");
            let written = db.log_stats().end_lsn.0 - log.0;
            assert!(written < 300_000, "{rows} rows: {written} bytes of log");
            assert!(read_own(&db, &txn, tree) == before_statement);
        }
        txn.commit(Durability::Full).expect("commits");
        let after = dump(&db, tree);
        assert_eq!(after.len(), rows as usize + 10);
        assert!(after.values().all(|v| v == &[4; 150]));
        drop(db);
        disk.crash();
        let (db, _) = open(&disk, 12, 256).expect("opens");
        assert!(dump(&db, tree) == after);
        settle(&db);
        assert!(dump(&db, tree) == after);
        assert_eq!(db.version_stats().memory_bytes, 0);
    }
}

/// What the transaction itself sees.
fn read_own(db: &Arc<Database>, txn: &Txn, tree: TreeId) -> Model {
    let view = txn.view(Isolation::ReadCommittedSnapshot);
    let mut scan = db.tree(tree).expect("tree").scan(&view, ScanSpec::all());
    let (mut batch, mut rows) = (Batch::new(), Model::new());
    while scan.next(&mut batch).expect("scans") {
        for i in 0..batch.len() {
            rows.insert(batch.key(i).to_vec(), batch.payload(i).to_vec());
        }
    }
    rows
}

#[test]
fn what_an_aborted_transaction_created_gives_its_pages_back_after_a_crash() {
    let disk = SimDisk::new(4);
    let (db, _) = create(&disk, 4, 256, accelerated());
    db.checkpoint().expect("checkpoint");
    let used = db.files()[0].used_pages;
    let bytes = vec![5u8; 400_000];
    for crash in [false, true] {
        let db = match crash {
            false => db.clone(),
            true => break,
        };
        let txn = db.begin(&owner(1));
        let tree = db.create_tree(&txn, 1).expect("tree");
        fill(&db, &txn, tree, 0..5000, 1);
        db.put_blob(&txn, &bytes).expect("stores");
        txn.rollback().expect("rolls back");
        settle(&db);
        assert_eq!(db.files()[0].used_pages, used, "rolled back");
    }
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    fill(&db, &txn, tree, 0..5000, 1);
    db.put_blob(&txn, &bytes).expect("stores");
    db.checkpoint().expect("checkpoint");
    std::mem::forget(txn);
    drop(db);
    disk.crash();
    let (db, _) = open(&disk, 4, 256).expect("opens");
    settle(&db);
    assert_eq!(db.files()[0].used_pages, used, "found after a crash");
}

#[test]
fn an_old_snapshot_reads_its_versions_beside_an_aborted_writer() {
    let disk = SimDisk::new(6);
    let (db, tree) = create(&disk, 6, 128, accelerated());
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 0..2000, 1);
    txn.commit(Durability::Full).expect("commits");
    let before = dump(&db, tree);
    let reader = db.begin(&owner(3));
    let view = reader.view(Isolation::Snapshot);
    let txn = db.begin(&owner(1));
    update_all(&db, &txn, tree, &[2; 150]);
    txn.commit(Durability::Full).expect("commits");
    let newer = dump(&db, tree);
    let txn = db.begin(&owner(1));
    update_all(&db, &txn, tree, &[3; 150]);
    txn.rollback().expect("rolls back");
    let read = |view: &ReadView| {
        let mut scan = db.tree(tree).expect("tree").scan(view, ScanSpec::all());
        let (mut batch, mut rows) = (Batch::new(), Model::new());
        while scan.next(&mut batch).expect("scans") {
            for i in 0..batch.len() {
                rows.insert(batch.key(i).to_vec(), batch.payload(i).to_vec());
            }
        }
        rows
    };
    assert!(read(&view) == before);
    settle(&db);
    assert!(read(&view) == before && dump(&db, tree) == newer);
    drop(view);
    drop(reader);
    settle(&db);
    assert_eq!(db.version_stats().memory_bytes, 0);
}

#[test]
fn a_lasting_savepoint_is_rolled_back_to_in_one_step_as_often_as_asked() {
    let disk = SimDisk::new(7);
    let (db, tree) = create(&disk, 7, 128, accelerated());
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 0..2000, 1);
    txn.commit(Durability::Full).expect("commits");
    let txn = db.begin(&owner(1));
    update_all(&db, &txn, tree, &[2; 150]);
    let point = txn.lasting_savepoint();
    for round in 0..3u8 {
        update_all(&db, &txn, tree, &[3 + round; 150]);
        fill(&db, &txn, tree, 2000..3000, 9);
        db.checkpoint().expect("checkpoint");
        assert_eq!(db.log_stats().reuse_wait, "NOTHING");
        let log = db.log_stats().end_lsn;
        txn.rollback_to(point.clone()).expect("rolls back");
        assert!(db.log_stats().end_lsn.0 - log.0 < 8192, "one record");
        if round == 1 {
            settle(&db);
        }
    }
    let tree_now = db.tree(tree).expect("tree");
    let own = tree_now.get(&txn.view(Isolation::Current), &5u32.to_be_bytes());
    assert_eq!(own.expect("reads").expect("there").payload, [2; 150]);
    fill(&db, &txn, tree, 5000..5010, 7);
    txn.commit(Durability::Full).expect("commits");
    drop((txn, point, tree_now));
    let after = dump(&db, tree);
    assert_eq!(after.len(), 2010);
    assert!(after.values().all(|v| v == &[2; 150] || v == &[7; 150]));
    drop(db);
    disk.crash();
    let (db, _) = open(&disk, 7, 128).expect("opens");
    assert!(dump(&db, tree) == after);
    settle(&db);
    assert!(dump(&db, tree) == after);
    assert_eq!(db.version_stats().memory_bytes, 0);
}

#[test]
fn a_clean_stop_keeps_what_is_still_to_be_reverted() {
    let disk = SimDisk::new(8);
    let (db, tree) = create(&disk, 8, 128, accelerated());
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 0..2000, 1);
    txn.commit(Durability::Full).expect("commits");
    drop(txn);
    let before = dump(&db, tree);
    let txn = db.begin(&owner(1));
    update_all(&db, &txn, tree, &[2; 150]);
    fill(&db, &txn, tree, 4000..5000, 3);
    txn.rollback().expect("rolls back");
    drop(txn);
    db.close().expect("closes");
    drop(db);
    let (db, report) = open(&disk, 8, 128).expect("opens");
    assert_eq!((report.needed, report.to_revert), (false, 1));
    assert!(dump(&db, tree) == before);
    settle(&db);
    assert!(db.aborted_transactions().is_empty());
    assert!(dump(&db, tree) == before);
}

/// Figures are asked for while transactions become aborted ones: neither waits for the other for ever.
#[test]
fn figures_of_the_version_store_never_block_a_rollback() {
    let disk = SimDisk::new(9);
    let (db, tree) = create(&disk, 9, 256, accelerated());
    db.set_undo_at_once_bytes(0);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert!(db.version_stats().aborted <= 20_000);
            }
        });
        for i in 0..5_000u32 {
            let txn = db.begin(&owner(1));
            fill(&db, &txn, tree, i..i + 1, 1);
            txn.rollback().expect("rolls back");
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    settle(&db);
    assert!(dump(&db, tree).is_empty());
}

/// A later id of the transaction was marked; then the one before it is undone from the log, to a point before both.
#[test]
fn undo_to_a_point_below_a_marked_savepoint_finds_its_own_entries() {
    let disk = SimDisk::new(10);
    let (db, tree) = create(&disk, 10, 128, accelerated());
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 0..300, 1);
    txn.commit(Durability::Full).expect("commits");
    let before = dump(&db, tree);
    db.set_undo_at_once_bytes(0);
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 1000..1010, 9);
    let statement = txn.savepoint();
    let opened = db.tree(tree).expect("tree");
    let view = txn.view(Isolation::Current);
    for key in 0..100u32 {
        let key = key.to_be_bytes();
        let entry = opened.get(&view, &key).expect("reads").expect("is there");
        let done = opened.delete(&txn, &key, entry.stamp).expect("deletes");
        assert_eq!(done, WriteOutcome::Done);
    }
    let point = txn.lasting_savepoint();
    fill(&db, &txn, tree, 0..50, 7);
    update_all(&db, &txn, tree, &[8; 170]);
    txn.rollback_to(point).expect("marks");
    assert_eq!(db.aborted_transactions().len(), 1);
    txn.rollback_to(statement).expect("undoes");
    txn.commit(Durability::Full).expect("commits");
    let mut after = before;
    after.extend((1000..1010u32).map(|key| (key.to_be_bytes().to_vec(), vec![9; 150])));
    assert!(dump(&db, tree) == after);
    settle(&db);
    assert!(dump(&db, tree) == after);
}

/// A version made behind a savepoint leads to one made before it: a page on disk needs both.
#[test]
fn versions_of_both_sides_of_a_savepoint_survive_a_crash_together() {
    let disk = SimDisk::new(11);
    let (db, tree) = create(&disk, 11, 128, accelerated());
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 0..200, 1);
    txn.commit(Durability::Full).expect("commits");
    let before = dump(&db, tree);
    let txn = db.begin(&owner(1));
    update_all(&db, &txn, tree, &[2; 150]);
    txn.lasting_savepoint();
    update_all(&db, &txn, tree, &[3; 150]);
    db.checkpoint().expect("writes every page");
    std::mem::forget(txn);
    drop(db);
    disk.crash();
    let (db, _) = open(&disk, 11, 128).expect("opens");
    assert!(dump(&db, tree) == before);
    settle(&db);
    assert!(dump(&db, tree) == before);
}

#[test]
fn what_is_aborted_is_described_after_a_restart_too() {
    let disk = SimDisk::new(13);
    let (db, tree) = create(&disk, 13, 256, accelerated());
    db.set_undo_at_once_bytes(0);
    let open_owner = owner(1);
    let txn = db.begin(&open_owner);
    fill(&db, &txn, tree, 0..10, 1);
    let point = txn.lasting_savepoint();
    fill(&db, &txn, tree, 10..20, 1);
    txn.rollback_to(point).expect("marks");
    let whole = db.begin(&owner(2));
    fill(&db, &whole, tree, 100..110, 1);
    whole.rollback().expect("marks");
    let describe = |db: &Arc<Database>| -> Vec<(TxnId, bool, i64)> {
        let all = db.aborted_transactions();
        let described = all.iter().map(|a| (a.id, a.is_nested, a.begun_utc_100ns));
        described.collect()
    };
    let before = describe(&db);
    assert_eq!(
        before.iter().map(|a| a.1).collect::<Vec<_>>(),
        [true, false]
    );
    assert!(before.iter().all(|a| a.2 > 0));
    // Once from the records, once from the checkpoint that recovery writes; the open one is marked then.
    db.flush_log().expect("flushes");
    std::mem::forget(txn);
    drop((whole, db));
    for _ in 0..2 {
        disk.crash();
        let (db, _) = open(&disk, 13, 256).expect("opens");
        let after = describe(&db);
        assert!(before.iter().all(|a| after.contains(a)), "{after:?}");
        assert_eq!(after.len(), 3);
        assert!(after.iter().all(|a| a.2 > 0), "{after:?}");
    }
}

/// Two rows that shrank and whose space others took meanwhile: the leaf splits between them while it is reverted.
#[test]
fn every_entry_without_room_is_reverted_when_its_leaf_splits() {
    let disk = SimDisk::new(1);
    let (db, tree) = create(&disk, 1, 128, accelerated());
    db.set_undo_at_once_bytes(0);
    let key = |n: u32| (n * 10).to_be_bytes();
    let rows = db.tree(tree).expect("tree");
    let txn = db.begin(&owner(1));
    for n in 0..26 {
        rows.insert(&txn, &key(n), &[1; 250]).expect("inserts");
    }
    txn.commit(Durability::Full).expect("commits");
    let shrinks = db.begin(&owner(1));
    for n in [0, 25] {
        let found = rows.get(&shrinks.view(Isolation::Current), &key(n));
        let stamp = found.expect("reads").expect("is there").stamp;
        let done = rows.update(&shrinks, &key(n), stamp, &[2]);
        assert_eq!(done.expect("updates"), WriteOutcome::Done);
    }
    let fills = db.begin(&owner(2));
    let middle = (13 * 10 + 1u32).to_be_bytes();
    rows.insert(&fills, &middle, &[3; 1_400]).expect("inserts");
    fills.commit(Durability::Full).expect("commits");
    shrinks.rollback().expect("marks");
    assert_eq!(db.aborted_transactions().len(), 1);
    let before = dump(&db, tree);
    settle(&db);
    assert!(db.aborted_transactions().is_empty());
    let after = dump(&db, tree);
    assert_eq!(after[&key(0)[..]].len(), 250, "the first row");
    assert_eq!(after[&key(25)[..]].len(), 250, "the last row");
    assert!(after == before && before.len() == 27);
}

/// Calls of the disk that recovery makes when a transaction has changed so many rows, and all of it is on pages.
fn calls_of_recovery(rows: u32) -> u64 {
    let disk = SimDisk::new(3);
    let (db, tree) = create(&disk, 3, 4_096, accelerated());
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 0..rows, 1);
    txn.commit(Durability::Full).expect("commits");
    let open_txn = db.begin(&owner(1));
    update_all(&db, &open_txn, tree, &[2; 150]);
    db.checkpoint().expect("checkpoint");
    // The versions that the first one placed are written by the second.
    db.checkpoint().expect("checkpoint");
    assert!(
        db.version_stats().pages > u64::from(rows) / 100,
        "versions are on pages"
    );
    std::mem::forget(open_txn);
    drop(db);
    disk.crash();
    let (db, _) = open(&disk, 3, 4_096).expect("opens");
    let calls = disk.ios();
    assert_eq!(dump(&db, tree).values().next(), Some(&vec![1; 150]));
    calls
}

#[test]
fn recovery_does_not_read_the_versions_of_a_large_transaction() {
    let (small, large) = (calls_of_recovery(500), calls_of_recovery(30_000));
    // What may differ is how many pages the last batch of writes had, each of which is read in the doublewrite area and at home,
    // and how many parts the checkpoint has. Versions are on more than 600 pages.
    assert!(large < small + 400, "{small} calls, then {large}");
}
