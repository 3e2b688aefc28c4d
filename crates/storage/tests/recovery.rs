//! Crash tests: whatever was committed is there, whatever was not is not, at any stop.

mod common;

use common::crash::Crashes;
use common::*;
use daruma_sim::{Faults, SimDisk, SimRandom};
use daruma_storage::*;
use std::sync::Arc;

#[test]
fn random_transactions_match_a_model_and_survive_reopening() {
    for seed in 0..6 {
        let disk = SimDisk::new(seed);
        let random = SimRandom::new(seed);
        let (db, tree) = create(&disk, seed, 64, Settings::default());
        let mut model = Model::new();
        for round in 0..120 {
            random_txn(&random, &db, tree, &mut model, 400).expect("no faults");
            if round % 10 == 0 {
                db.background_step().expect("background");
                assert_eq!(dump(&db, tree), model, "seed {seed}, round {round}");
            }
        }
        db.close().expect("closes");
        drop(db);
        let (db, report) = open(&disk, seed, 64).expect("opens");
        assert!(!report.needed, "a clean stop needs no recovery");
        assert_eq!(dump(&db, tree), model, "seed {seed}");
    }
}

/// Stops the machine at the n-th write-side call, crashes, recovers, and checks; then goes on with what is there.
#[test]
fn a_stop_at_any_write_loses_nothing_committed_and_keeps_nothing_else() {
    let crashes = Crashes {
        runs: 60,
        crashes_per_run: 4,
        calls_max: 60,
        settings: Settings::default(),
    };
    crashes.run(|random, db, tree, model| {
        for round in 0..400 {
            if let Err((_, after)) = random_txn(random, db, tree, model, 300) {
                return after;
            }
            if round % 7 == 3 && db.background_step().is_err() {
                break;
            }
            if round % 31 == 30 && db.checkpoint().is_err() {
                break;
            }
        }
        None
    });
}

#[test]
fn a_failed_sync_fences_the_database_until_recovery() {
    let disk = SimDisk::new(3);
    let (db, tree) = create(&disk, 3, 64, Settings::default());
    let txn = db.begin(&owner(1));
    db.tree(tree)
        .expect("tree")
        .insert(&txn, b"a", b"1")
        .expect("inserts");
    disk.set_faults(Faults {
        fail_at: Some(disk.calls() + 1),
        ..Faults::default()
    });
    assert!(txn.commit(Durability::Full).is_err());
    assert_eq!(db.state(), DatabaseState::Suspect);
    let next = db.begin(&owner(2));
    let refused = db.tree(tree).expect("tree").insert(&next, b"b", b"2");
    assert!(
        matches!(refused, Err(StorageError::Fenced { .. })),
        "{refused:?}"
    );
}

/// Fails the next sync of the log, under a commit of another row.
fn fail_the_log(disk: &SimDisk, db: &Arc<Database>, tree: TreeId) {
    let txn = db.begin(&owner(9));
    let other = db.tree(tree).expect("tree");
    other.insert(&txn, b"other", b"lost").expect("inserts");
    disk.set_faults(Faults {
        fail_at: Some(disk.calls() + 1),
        ..Faults::default()
    });
    assert!(txn.commit(Durability::Full).is_err());
    disk.set_faults(Faults::default());
    assert_eq!(db.state(), DatabaseState::Suspect);
}

/// Nothing that is in memory is known to be true any more: neither the commit that failed nor the transactions in flight.
#[test]
fn a_fenced_database_answers_nobody() {
    for settings in [Settings::default(), accelerated()] {
        let disk = SimDisk::new(5);
        let engine = engine(&disk, 5, 64);
        let (db, id) = create_in(&engine, settings);
        let tree = db.tree(id).expect("tree");
        let txn = db.begin(&owner(1));
        tree.insert(&txn, b"account", b"100").expect("inserts");
        txn.commit(Durability::Full).expect("commits");
        let transfer = db.begin(&owner(1));
        let view = transfer.view(Isolation::Current);
        let entry = tree.get(&view, b"account").expect("reads").expect("row");
        drop(view);
        tree.update(&transfer, b"account", entry.stamp, b"50")
            .expect("updates");
        let snapshot = db.begin(&owner(2)).view(Isolation::Snapshot);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let view = db.begin(&owner(3)).view(Isolation::ReadCommitted);
                tree.get(&view, b"account").map(|_| ())
            });
            while !engine.locks().iter().any(|lock| !lock.granted) {
                assert!(!waits.is_finished(), "it reads what is not committed");
                std::thread::yield_now();
            }
            fail_the_log(&disk, &db, id);
            drop(transfer);
            let waited = waits.join().expect("no panic");
            assert!(waited.is_err(), "who waited gets an error");
        });
        let refused = |found: Result<()>| {
            assert!(
                matches!(found, Err(StorageError::Fenced { .. })),
                "{found:?}"
            );
        };
        refused(tree.get(&snapshot, b"account").map(|_| ()));
        for isolation in [
            Isolation::ReadUncommitted,
            Isolation::ReadCommitted,
            Isolation::ReadCommittedSnapshot,
            Isolation::Snapshot,
            Isolation::Serializable,
            Isolation::Current,
        ] {
            let view = db.begin(&owner(4)).view(isolation);
            refused(tree.get(&view, b"account").map(|_| ()));
            let mut scan = tree.scan(&view, ScanSpec::all());
            refused(scan.next(&mut Batch::new()).map(|_| ()));
        }
        refused(db.check_readable());
        drop((snapshot, tree, db, engine));
        disk.crash();
        let (db, _) = open(&disk, 5, 64).expect("opens");
        settle(&db);
        let found = dump(&db, id);
        assert_eq!(found.get(&b"account"[..]), Some(&b"100".to_vec()));
    }
}

#[test]
fn a_flipped_byte_in_a_page_or_in_hard_log_is_noticed() {
    let disk = SimDisk::new(4);
    let (db, tree) = create(&disk, 4, 64, Settings::default());
    for i in 0..50u32 {
        let txn = db.begin(&owner(1));
        db.tree(tree)
            .expect("tree")
            .insert(&txn, &i.to_be_bytes(), &[7; 300])
            .expect("inserts");
        txn.commit(Durability::Full).expect("commits");
    }
    drop(db);
    disk.crash();
    // The log behind the checkpoint: damage its first block after the start of redo.
    disk.flip(
        std::path::Path::new("/t_log.ldf"),
        8192 + 4096 * 3 + 200,
        0x40,
    );
    let refused = open(&disk, 4, 64).map(|_| ());
    assert!(
        matches!(refused, Err(StorageError::DamagedLog { .. })),
        "{refused:?}"
    );
    disk.flip(
        std::path::Path::new("/t_log.ldf"),
        8192 + 4096 * 3 + 200,
        0x40,
    );
    let (db, _) = open(&disk, 4, 64).expect("whole again");
    db.checkpoint().expect("checkpoint");
    // Another batch through the doublewrite area, or the damaged page would simply be put back from there.
    let txn = db.begin(&owner(1));
    db.tree(db.catalog_tree())
        .expect("tree")
        .insert(&txn, b"other", b"")
        .expect("inserts");
    txn.commit(Durability::Full).expect("commits");
    db.close().expect("closes");
    drop((txn, db));
    disk.flip(
        std::path::Path::new("/t.mdf"),
        u64::from(tree.0.page) * 8192 + 5000,
        1,
    );
    let (db, _) = open(&disk, 4, 64).expect("opens: nothing needs the page yet");
    let txn = db.begin(&owner(1));
    let found = db
        .tree(tree)
        .expect("tree")
        .get(&txn.view(Isolation::Current), b"x");
    assert!(
        matches!(&found, Err(StorageError::DamagedIn { owner, .. }) if *owner == tree.0),
        "{found:?}"
    );
}

#[test]
fn blobs_and_dropped_trees_give_their_pages_back() {
    let disk = SimDisk::new(5);
    let (db, _) = create(&disk, 5, 256, Settings::default());
    let used = |db: &Arc<Database>| db.files()[0].used_pages;
    let before = used(&db);
    let bytes: Vec<u8> = (0..20_000_000u32).map(|i| (i % 251) as u8).collect();
    let txn = db.begin(&owner(1));
    let blob = db.put_blob(&txn, &bytes).expect("stores");
    assert!(db.get_blob(blob).expect("reads") == bytes);
    assert_eq!(
        db.read_blob(blob, 8_000_000, 100).expect("reads"),
        &bytes[8_000_000..8_000_100]
    );
    txn.rollback().expect("rolls back");
    while db.background_step().expect("background") {}
    assert_eq!(used(&db), before, "a rolled back blob");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    for i in 0..3000u32 {
        db.tree(tree)
            .expect("tree")
            .insert(&txn, &i.to_be_bytes(), &[1; 200])
            .expect("inserts");
    }
    let blob = db.put_blob(&txn, &bytes[..3_000_000]).expect("stores");
    txn.commit(Durability::Full).expect("commits");
    let txn = db.begin(&owner(1));
    db.drop_tree(&txn, tree).expect("drops");
    db.free_blob(&txn, blob).expect("frees");
    txn.commit(Durability::Full).expect("commits");
    drop(db);
    disk.crash();
    let (db, _) = open(&disk, 5, 256).expect("opens");
    while db.background_step().expect("background") {}
    assert_eq!(used(&db), before, "a drop carried out after a crash");
}

/// A read (or a write) that lost its way finds an intact header, but of another place: it must not pass for this one's.
#[test]
fn the_header_of_another_virtual_log_file_is_refused() {
    let disk = SimDisk::new(6);
    let (db, _) = create(&disk, 6, 64, Settings::default());
    db.close().expect("closes");
    drop(db);
    let path = std::path::Path::new("/t_log.ldf");
    let log = disk.content_of(path).expect("is there");
    let first = 4_096;
    let size = u64::from_le_bytes(log[first + 8..first + 16].try_into().expect("eight bytes"));
    let second = first + size as usize;
    let file = daruma_base::Disk::open(&*disk, path, daruma_base::OpenMode::ReadWrite);
    let file = file.expect("opens");
    file.write_at(&log[second..second + 4_096], first as u64)
        .expect("writes");
    file.sync_data().expect("syncs");
    drop(file);
    let refused = open(&disk, 6, 64).err();
    assert!(
        matches!(refused, Some(StorageError::BadFile { .. })),
        "{refused:?}"
    );
}

/// Undo may drop dead entries to make room, but none that a transaction still to be rolled back has deleted: neither its
/// own earlier ones nor those of another loser.
#[test]
fn undo_that_makes_room_keeps_what_losers_have_deleted() {
    let disk = SimDisk::new(7);
    let (db, tree) = create(&disk, 7, 64, Settings::default());
    let entries = db.tree(tree).expect("tree");
    let (first, second, third) = (
        db.begin(&owner(1)),
        db.begin(&owner(2)),
        db.begin(&owner(3)),
    );
    let setup = db.begin(&owner(4));
    entries
        .insert(&setup, b"large", &[1; 3_000])
        .expect("inserts");
    for key in [b"deleted by the first", b"deleted by the other"] {
        entries.insert(&setup, key, &[2; 700]).expect("inserts");
    }
    setup.commit(Durability::Full).expect("commits");
    let before = dump(&db, tree);
    let stamp = |txn: &Txn, key: &[u8]| {
        let entry = entries
            .get(&txn.view(Isolation::Current), key)
            .expect("reads");
        entry.expect("is there").stamp
    };
    for (txn, key) in [
        (&first, b"deleted by the first"),
        (&second, b"deleted by the other"),
    ] {
        let deleted = entries.delete(txn, key, stamp(txn, key));
        assert_eq!(deleted.expect("deletes"), WriteOutcome::Done);
    }
    let shrunk = entries.update(&first, b"large", stamp(&first, b"large"), &[3; 10]);
    assert_eq!(shrunk.expect("updates"), WriteOutcome::Done);
    for i in 0..8u8 {
        entries
            .insert(&third, &[b'z', i], &[4; 700])
            .expect("inserts");
    }
    third.commit(Durability::Full).expect("commits");
    std::mem::forget((first, second));
    drop((entries, db));
    disk.crash();
    let (db, report) = open(&disk, 7, 64).expect("opens");
    assert_eq!(report.rolled_back, 2);
    let mut after = dump(&db, tree);
    after.retain(|key, _| key[0] != b'z');
    assert_eq!(after, before);
    settle(&db);
    assert_eq!(dump(&db, tree).len(), before.len() + 8, "and they stay");
}

/// Recovery from an older boot page would end where the log of then ended, and take back what was committed since.
#[test]
fn either_copy_of_the_boot_page_may_be_lost() {
    for copy in [2u64, 3] {
        let disk = SimDisk::new(8);
        let (db, tree) = create(&disk, 8, 64, Settings::default());
        for round in 0..3u32 {
            let txn = db.begin(&owner(1));
            fill(&db, &txn, tree, round * 100..round * 100 + 50, 1);
            txn.commit(Durability::Full).expect("commits");
            db.checkpoint().expect("checkpoint");
        }
        let before = dump(&db, tree);
        drop(db);
        disk.crash();
        let file = disk
            .content_of(std::path::Path::new("/t.mdf"))
            .expect("is there");
        let body = |page: usize| &file[page * 8192 + 64..(page + 1) * 8192];
        assert!(body(2) == body(3), "the copies differ");
        disk.flip(std::path::Path::new("/t.mdf"), copy * 8192 + 100, 1);
        let (db, _) = open(&disk, 8, 64).expect("opens");
        assert_eq!(dump(&db, tree), before, "without copy {copy}");
        let redo_start = db.log_stats().recovery_lsn;
        drop(db);
        disk.crash();
        // Both are whole again.
        disk.flip(std::path::Path::new("/t.mdf"), (5 - copy) * 8192 + 100, 1);
        let (db, _) = open(&disk, 8, 64).expect("opens");
        assert!(db.log_stats().recovery_lsn >= redo_start);
        assert_eq!(dump(&db, tree), before, "without the other");
    }
}

#[test]
fn a_failed_sync_of_a_data_file_that_grows_fences_the_database() {
    let disk = SimDisk::new(9);
    let (db, _) = create(&disk, 9, 64, Settings::default());
    let growth_and_its_sync = disk.calls() + 1;
    disk.set_faults(Faults {
        fail_at: Some(growth_and_its_sync),
        ..Faults::default()
    });
    let grown = db.modify_file(1, 512, Growth::Pages(64), None);
    assert!(matches!(grown, Err(StorageError::Io { .. })), "{grown:?}");
    assert_eq!(db.state(), DatabaseState::Suspect);
}

/// The next transaction has the same id, and its versions the same places.
#[test]
fn versions_of_a_transaction_that_a_crash_took_do_not_pass_for_those_of_the_next() {
    for written in 0..12 {
        let disk = SimDisk::new(written as u64);
        let (db, tree) = create(&disk, 10, 64, accelerated());
        let txn = db.begin(&owner(1));
        fill(&db, &txn, tree, 0..20, 1);
        txn.commit(Durability::Full).expect("commits");
        let before = dump(&db, tree);
        let mut db = db;
        for byte in 2..4 {
            let lost = db.begin(&owner(1));
            update_all(&db, &lost, tree, &[byte; 150]);
            db.place_some_versions(0, 1).expect("places");
            if byte == 3 {
                db.write_some_pages(written, 1).expect("writes");
            }
            std::mem::forget(lost);
            drop(db);
            disk.crash();
            db = open(&disk, 10, 64).expect("opens").0;
            assert!(dump(&db, tree) == before, "{written}");
        }
    }
}

/// Flips a bit of the last block of the log.
fn flip_the_last_block(disk: &SimDisk) {
    let path = std::path::Path::new("/t_log.ldf");
    let log = disk.content_of(path).expect("a log");
    let lsn = |block: &[u8]| {
        let field = |at: usize| block[at..at + 8].try_into().expect("8 bytes");
        block
            .starts_with(b"DBLK")
            .then(|| u64::from_le_bytes(field(8)))
    };
    let blocks = log.chunks(4_096).enumerate();
    let last = blocks.filter_map(|(n, b)| lsn(b).map(|lsn| (lsn, n))).max();
    let (_, number) = last.expect("a block");
    disk.flip(path, number as u64 * 4_096 + 60, 0x08);
}

/// A database with a commit in the last block of its log; `quiet` is how long the background went on after it.
fn last_block_lost(quiet: std::time::Duration) -> Result<Model> {
    let disk = SimDisk::new(6);
    let (db, id) = create(&disk, 6, 64, Settings::default());
    let txn = db.begin(&owner(1));
    let tree = db.tree(id).expect("tree");
    tree.insert(&txn, b"a", b"1").expect("inserts");
    txn.commit(Durability::Full).expect("commits");
    settle(&db);
    db.clock().sleep(quiet);
    settle(&db);
    let (calls, rounds) = (disk.calls(), 10);
    (0..rounds).for_each(|_| settle(&db));
    assert!(
        disk.calls() - calls < rounds,
        "nothing is written without need"
    );
    drop((tree, txn, db));
    disk.crash();
    flip_the_last_block(&disk);
    open(&disk, 6, 64).map(|(db, _)| dump(&db, id))
}

/// Nothing in the log itself tells a last block that rotted from one that was never written whole.
#[test]
fn rot_in_the_last_block_is_noticed_once_the_log_was_quiet() {
    use std::time::Duration;
    let refused = last_block_lost(Duration::from_secs(2));
    assert!(
        matches!(refused, Err(StorageError::DamagedLog { .. })),
        "{refused:?}"
    );
    // What docs/reliability.md says of the first second.
    let found = last_block_lost(Duration::ZERO).expect("passes for a torn write");
    assert!(found.is_empty());
}
