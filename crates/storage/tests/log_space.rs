//! Which log is kept, for whom, and what error 9002 says when there is no more room.

mod common;

use common::*;
use daruma_base::Lsn;
use daruma_sim::{Faults, SimDisk, SimRandom};
use daruma_storage::*;
use std::sync::Arc;

/// A log of four VLFs of 256 KiB that cannot grow.
fn small_log() -> Vec<FileSpec> {
    let mut files = specs();
    if let Some(log) = files.iter_mut().find(|f| f.filegroup == 0) {
        log.growth = Growth::Pages(0);
    }
    files
}

fn create(disk: &Arc<SimDisk>, model: RecoveryModel) -> (Arc<Database>, TreeId) {
    create_with(disk, 1, model, false)
}

fn create_with(
    disk: &Arc<SimDisk>,
    seed: u64,
    model: RecoveryModel,
    accelerated: bool,
) -> (Arc<Database>, TreeId) {
    let settings = Settings {
        recovery_model: model,
        accelerated_recovery: accelerated,
        ..Settings::default()
    };
    let db = engine(disk, seed, 256)
        .create_database(DB, "t", small_log(), settings)
        .expect("creates");
    let tree = new_tree(&db);
    (db, tree)
}

/// Seed, accelerated recovery, and whether a transaction is open when the machine stops.
const RESTARTS: [(u64, bool, bool); 4] = [
    (1, false, false),
    (2, true, false),
    (3, false, true),
    (4, true, true),
];

/// One committed transaction that logs about `bytes`; `n` names its row.
fn write(db: &Arc<Database>, tree: TreeId, n: u32, bytes: usize) -> Result<()> {
    let txn = db.begin(&owner(1));
    let tree = db.tree(tree)?;
    let view = txn.view(Isolation::Current);
    let key = (n % 8).to_be_bytes();
    let payload = vec![n as u8; bytes];
    match tree.get(&view, &key)? {
        None => tree.insert(&txn, &key, &payload)?,
        Some(entry) => {
            tree.update(&txn, &key, entry.stamp, &payload)?;
        }
    }
    drop(view);
    txn.commit(Durability::Full)
}

/// Writes until the log is full; what it says. `None` after `rounds` transactions without.
fn fill(db: &Arc<Database>, tree: TreeId, rounds: u32) -> Option<&'static str> {
    for n in 0..rounds {
        match write(db, tree, n, 3_000) {
            Ok(()) => {}
            Err(StorageError::LogFull { reason, .. }) => return Some(reason),
            Err(other) => panic!("{other}"),
        }
        db.background_step().expect("background");
    }
    None
}

#[test]
fn a_hold_keeps_the_log_and_its_end_lets_it_go() {
    let disk = SimDisk::new(1);
    let (db, tree) = create(&disk, RecoveryModel::Simple);
    let from = db.hardened_lsn();
    let hold = db.hold_log(from, "ACTIVE_BACKUP_OR_RESTORE").expect("held");
    assert_eq!(fill(&db, tree, 2_000), Some("ACTIVE_BACKUP_OR_RESTORE"));
    assert!(db.log_stats().min_lsn <= from);
    assert_eq!(db.log_stats().reuse_wait, "ACTIVE_BACKUP_OR_RESTORE");
    drop(hold);
    db.checkpoint().expect("checkpoint");
    assert!(db.log_stats().min_lsn > from);
    assert_eq!(fill(&db, tree, 2_000), None, "a circle without end");
    assert!(
        db.hold_log(from, "ACTIVE_BACKUP_OR_RESTORE").is_none(),
        "that log is gone"
    );
}

#[test]
fn full_keeps_the_log_for_a_log_backup_once_there_is_a_full_backup() {
    let disk = SimDisk::new(2);
    let (db, tree) = create(&disk, RecoveryModel::Full);
    assert_eq!(db.log_backup_start(), Lsn::NONE);
    assert_eq!(fill(&db, tree, 1_000), None, "no full backup: as SIMPLE");
    let base = db.hardened_lsn();
    db.note_full_backup(base).expect("noted");
    db.note_full_backup(db.hardened_lsn()).expect("noted again");
    assert_eq!(
        db.log_backup_start(),
        base,
        "the first one starts the chain"
    );
    assert_eq!(fill(&db, tree, 2_000), Some("LOG_BACKUP"));
    let end = db.hardened_lsn();
    db.log_backed_up_to(end).expect("backed up");
    assert_eq!(db.log_backup_start(), end);
    write(&db, tree, 1, 3_000).expect("there is room again");
    assert_eq!(fill(&db, tree, 2_000), Some("LOG_BACKUP"));
    db.set_settings(Settings {
        recovery_model: RecoveryModel::Simple,
        ..db.settings()
    })
    .expect("to simple");
    assert_eq!(db.log_backup_start(), Lsn::NONE, "the chain is broken");
    db.checkpoint().expect("checkpoint");
    assert_eq!(fill(&db, tree, 2_000), None);
}

#[test]
fn a_crash_forgets_neither_the_chain_nor_its_log() {
    let disk = SimDisk::new(3);
    let (db, tree) = create(&disk, RecoveryModel::BulkLogged);
    let base = db.hardened_lsn();
    db.note_full_backup(base).expect("noted");
    for n in 0..50 {
        write(&db, tree, n, 3_000).expect("writes");
    }
    db.checkpoint().expect("checkpoint");
    drop(db);
    disk.crash();
    let (db, _) = engine(&disk, 3, 256)
        .open_database(DB, "t", small_log())
        .expect("opens");
    assert_eq!(db.log_backup_start(), base);
    assert!(db.log_stats().min_lsn <= base);
    assert!(db.hold_log(base, "LOG_BACKUP").is_some());
    assert_eq!(fill(&db, tree, 2_000), Some("LOG_BACKUP"));
}

/// Checkpoints in the background are enough for work that leaves them time. Faster work makes the log grow instead of
/// waiting for a checkpoint, up to its limit; at the limit there is a checkpoint rather than error 9002.
#[test]
fn a_small_log_grows_when_checkpoints_come_too_late() {
    let disk = SimDisk::new(4);
    let mut files = specs();
    let log = files.iter_mut().find(|f| f.filegroup == 0).expect("a log");
    // Checkpoints come when three of four VLFs are in use: there is room for one more large row then.
    log.size_pages = 160;
    log.growth = Growth::Pages(32);
    log.max_pages = Some(log.size_pages + 3 * 32);
    let settings = Settings {
        recovery_model: RecoveryModel::Simple,
        ..Settings::default()
    };
    let db = engine(&disk, 4, 256)
        .create_database(DB, "t", files, settings)
        .expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    let first = db.log_stats();
    assert_eq!(fill(&db, tree, 2_000), None);
    let slow = db.log_stats();
    assert_eq!(slow.size_bytes, first.size_bytes);
    assert!(slow.truncations > first.truncations);
    for n in 0..2_000 {
        write(&db, tree, n, 3_000).expect("writes");
    }
    let fast = db.log_stats();
    assert_eq!(fast.growths, slow.growths + 3);
    assert!(fast.truncations > slow.truncations);
}

#[test]
fn a_grown_log_shrinks_when_nothing_holds_its_end() {
    let disk = SimDisk::new(5);
    let settings = Settings {
        recovery_model: RecoveryModel::Simple,
        ..Settings::default()
    };
    let db = engine(&disk, 5, 256)
        .create_database(DB, "t", specs(), settings)
        .expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    let first = db.log_stats().size_bytes;
    let hold = db
        .hold_log(db.hardened_lsn(), "ACTIVE_BACKUP_OR_RESTORE")
        .expect("held");
    for n in 0..1_000 {
        write(&db, tree, n, 3_000).expect("writes");
    }
    let grown = db.log_stats().size_bytes;
    assert!(grown > first);
    assert!(!db.shrink_log(first).expect("asked"), "held: not all of it");
    drop(hold);
    // The log goes round until what is in use lies at the front again.
    let mut rounds = 0;
    while !db.shrink_log(first).expect("asked") {
        write(&db, tree, rounds, 3_000).expect("writes");
        rounds += 1;
        assert!(rounds < 2_000, "still {} bytes", db.log_stats().size_bytes);
    }
    assert!(db.log_stats().size_bytes <= first.next_multiple_of(1 << 20));
    write(&db, tree, 7, 2_000).expect("the shorter log takes more");
    drop(db);
    disk.crash();
    let (db, _) = engine(&disk, 5, 256)
        .open_database(DB, "t", specs())
        .expect("opens");
    let txn = db.begin(&owner(1));
    let found = db
        .tree(tree)
        .and_then(|t| t.get(&txn.view(Isolation::Current), &7u32.to_be_bytes()));
    assert_eq!(found.expect("reads").map(|e| e.payload.len()), Some(2_000));
}

/// What TARGET_RECOVERY_TIME promises: with the background at rest, a crash leaves no more log to redo than that.
#[test]
fn the_target_recovery_time_bounds_redo() {
    let redo_after = |seconds: u32| {
        let disk = SimDisk::new(6);
        let (db, tree) = create(&disk, RecoveryModel::Simple);
        db.set_settings(Settings {
            target_recovery_seconds: seconds,
            ..db.settings()
        })
        .expect("set");
        let log = small_log()
            .iter()
            .find(|f| f.filegroup == 0)
            .map_or(0, |f| f.id);
        db.modify_file(log, 16_384, Growth::Pages(0), None)
            .expect("a log of 128 MiB");
        assert!(
            db.log_stats().size_bytes >= 120 << 20,
            "{}",
            db.log_stats().size_bytes
        );
        for n in 0..6_000 {
            write(&db, tree, n, 3_000).expect("writes");
        }
        while db.background_step().expect("background") {}
        drop(db);
        disk.crash();
        let (_, report) = engine(&disk, 6, 256)
            .open_database(DB, "t", small_log())
            .expect("opens");
        report.log_bytes
    };
    // 16 MiB of redo for a second, and as much again between checkpoints.
    let second = 16 << 20;
    let (short, long) = (redo_after(1), redo_after(60));
    assert!(short <= 2 * second + (1 << 20), "{short}");
    assert!(long > 2 * second + (1 << 20), "{long}: nothing was bounded");
}

/// Several transactions fill a log that cannot grow. Each that meets the end of it rolls back, to a savepoint or wholly,
/// and that always works; afterwards there is room again, and the data is what the model says.
#[test]
fn rollback_always_has_its_room_in_a_full_log() {
    let runs = std::env::var("DARUMA_CRASH_RUNS")
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(12u64);
    let mut full = 0;
    for seed in 0..runs {
        let disk = SimDisk::new(seed);
        let random = SimRandom::new(seed ^ 0xF011);
        let (db, tree) = create(&disk, RecoveryModel::Simple);
        let trees: Vec<TreeId> = (0..4).map(|_| new_tree(&db)).collect();
        let mut models: Vec<Model> = vec![Model::new(); trees.len()];
        if seed % 2 == 0 {
            // The log does not grow past its limits either.
            db.modify_file(1, 4_096, Growth::Pages(0), None)
                .expect("grows");
            fill_disk(&disk);
        }
        for round in 0..12 {
            let mut open: Vec<(Txn, Model)> = models
                .iter()
                .map(|m| (db.begin(&owner(round * 8 + 1)), m.clone()))
                .collect();
            let mut refused = false;
            while !refused {
                let at = random.below(open.len() as u64) as usize;
                let (Some((txn, model)), Some(id)) = (open.get_mut(at), trees.get(at)) else {
                    continue;
                };
                let target = db.tree(*id).expect("tree");
                let (point, before) = (txn.savepoint(), model.clone());
                match random_change(&random, &target, txn, model, 200) {
                    Ok(()) => {}
                    Err(StorageError::LogFull { reason, .. }) => {
                        assert_eq!(
                            reason,
                            "ACTIVE_TRANSACTION",
                            "seed {seed}: {:?} {:?} {:?}",
                            db.log_stats(),
                            db.vlfs(),
                            db.active_transactions()
                        );
                        txn.rollback_to(point)
                            .unwrap_or_else(|e| panic!("seed {seed}: statement: {e}"));
                        *model = before;
                        refused = true;
                        full += 1;
                    }
                    Err(other) => panic!("seed {seed}: {other}"),
                }
                match random.below(40) {
                    0 => db.flush_log().expect("flushes"),
                    1 => match db.background_step() {
                        // What deletes left behind waits until there is room.
                        Ok(_) | Err(StorageError::LogFull { .. }) => {}
                        Err(other) => panic!("seed {seed}: background: {other}"),
                    },
                    _ => {}
                }
            }
            // A small durable transaction of somebody else now and then, as long as there is room.
            let _ = write(&db, tree, round as u32, 100);
            for (n, (txn, model)) in open.into_iter().enumerate() {
                if random.below(3) == 0 {
                    txn.commit(Durability::Full)
                        .unwrap_or_else(|e| panic!("seed {seed}: commit: {e}"));
                    if let Some(kept) = models.get_mut(n) {
                        *kept = model;
                    }
                } else {
                    txn.rollback()
                        .unwrap_or_else(|e| panic!("seed {seed}: rollback: {e}"));
                }
                let _ = db.flush_log();
            }
            assert_eq!(db.state(), DatabaseState::Online, "seed {seed}");
            db.checkpoint().expect("checkpoint");
            write(&db, tree, 1, 100).expect("there is room again");
        }
        for (id, model) in trees.iter().zip(&models) {
            assert_eq!(&dump(&db, *id), model, "seed {seed}");
        }
        drop(db);
        disk.crash();
        let (db, _) = engine(&disk, seed, 256)
            .open_database(DB, "t", small_log())
            .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        for (id, model) in trees.iter().zip(&models) {
            assert_eq!(&dump(&db, *id), model, "seed {seed}");
        }
    }
    assert!(full > 0);
}

/// Large values take log without reserving much of it for their rollback: its records still have their room when the log is full, and
/// cannot grow, at whatever place of the last block.
#[test]
fn the_rollback_of_large_values_has_its_room_on_a_full_disk() {
    let mut refused = 0;
    for seed in 0..40_u64 {
        let disk = SimDisk::new(seed);
        let (db, tree) = create(&disk, RecoveryModel::Simple);
        db.modify_file(1, 4_096, Growth::Pages(0), None)
            .expect("grows");
        fill_disk(&disk);
        let value = vec![7; 20_000 + 997 * seed as usize];
        let target = db.tree(tree).expect("tree");
        let txn = db.begin(&owner(7));
        for n in 0..500_u32 {
            let inserted = target
                .insert(&txn, &n.to_be_bytes(), b"row")
                .and_then(|()| db.put_blob(&txn, &value).map(|_| ()));
            match inserted {
                Ok(()) => {}
                Err(StorageError::LogFull { .. }) => {
                    refused += 1;
                    break;
                }
                Err(other) => panic!("seed {seed}: {other}"),
            }
        }
        txn.rollback()
            .unwrap_or_else(|e| panic!("seed {seed}: rollback: {e}"));
        assert_eq!(db.state(), DatabaseState::Online, "seed {seed}");
        db.checkpoint().expect("checkpoint");
        settle(&db);
        assert_eq!(dump(&db, tree), Model::new(), "seed {seed}");
        write(&db, tree, 1, 100).expect("there is room again");
    }
    assert_eq!(refused, 40);
}

/// A server that is killed again and again soon after its start, on a full disk: no restart takes room that the next one lacks,
/// neither of a log at rest nor of one that a transaction had filled.
#[test]
fn restarts_in_a_full_log_leave_room_for_the_next() {
    for (seed, accelerated, is_filled) in RESTARTS {
        let disk = SimDisk::new(seed);
        let (db, tree) = create_with(&disk, seed, RecoveryModel::Simple, accelerated);
        for n in 0..8 {
            write(&db, tree, n, 3_000).expect("writes");
        }
        let (kept, size) = (dump(&db, tree), db.log_stats().size_bytes);
        let txn = db.begin(&owner(7));
        if is_filled {
            let target = db.tree(tree).expect("tree");
            let refused = (100..1_000_u32)
                .find_map(|n| target.insert(&txn, &n.to_be_bytes(), &[9; 3_000]).err());
            // An accelerated transaction keeps no log.
            assert!(
                accelerated || matches!(refused, Some(StorageError::LogFull { .. })),
                "{refused:?}"
            );
        }
        db.flush_log().expect("flushes");
        fill_disk(&disk);
        std::mem::forget(txn);
        drop(db);
        for round in 0..80 {
            match round % 2 {
                0 => disk.crash(),
                _ => disk.restart(),
            }
            fill_disk(&disk);
            let opened = engine(&disk, seed, 256).open_database(DB, "t", small_log());
            let (db, _) = opened.unwrap_or_else(|e| panic!("seed {seed}, restart {round}: {e}"));
            assert_eq!(dump(&db, tree), kept, "seed {seed}, restart {round}");
        }
        disk.crash();
        fill_disk(&disk);
        let opened = engine(&disk, seed, 256).open_database(DB, "t", small_log());
        let (db, _) = opened.expect("opens");
        settle(&db);
        write(&db, tree, 1, 100).expect("there is room");
        assert_eq!(fill(&db, tree, 500), None, "seed {seed}: a circle");
        assert_eq!(db.log_stats().size_bytes, size, "seed {seed}");
    }
}

/// Nothing more can be allocated, until the next crash or restart of the disk.
fn fill_disk(disk: &Arc<SimDisk>) {
    disk.set_faults(Faults {
        capacity_bytes: Some(1),
        ..Faults::default()
    });
}

/// Fills the log from a transaction that stays open, until it is refused. Large values reserve little of it for their rollback.
fn fill_from_one(db: &Arc<Database>, tree: TreeId, txn: &Txn) {
    let target = db.tree(tree).expect("tree");
    let refused = (1_000..10_000_u32).find_map(|n| {
        let inserted = target.insert(txn, &n.to_be_bytes(), b"row");
        inserted
            .and_then(|()| db.put_blob(txn, &[9; 20_000]).map(|_| ()))
            .err()
    });
    let is_full = matches!(refused, Some(StorageError::LogFull { .. }));
    assert!(is_full, "{refused:?}");
}

fn on_a_full_disk(disk: &Arc<SimDisk>, db: &Arc<Database>) {
    db.modify_file(1, 4_096, Growth::Pages(0), None)
        .expect("grows");
    fill_disk(disk);
}

/// Sessions commit one after another, each in a block of its own, when another has filled the log: all of them can, and the rollback
/// of the one has its room still.
#[test]
fn each_open_transaction_has_room_for_its_end_in_a_full_log() {
    for seed in 0..6_u64 {
        let disk = SimDisk::new(seed);
        let (db, tree) = create(&disk, RecoveryModel::Simple);
        let small = new_tree(&db);
        on_a_full_disk(&disk, &db);
        let target = db.tree(small).expect("tree");
        let open: Vec<Txn> = (0..60_u32)
            .map(|n| {
                let txn = db.begin(&owner(10 + u64::from(n)));
                target
                    .insert(&txn, &n.to_be_bytes(), b"small")
                    .expect("writes");
                txn
            })
            .collect();
        let filler = db.begin(&owner(7));
        fill_from_one(&db, tree, &filler);
        for (n, txn) in open.into_iter().enumerate() {
            match (n + seed as usize) % 3 {
                0 => txn.rollback().expect("rolls back"),
                _ => txn.commit(Durability::Full).expect("commits"),
            }
            db.flush_log().expect("flushes");
        }
        filler.rollback().expect("rolls back");
        assert_eq!(db.state(), DatabaseState::Online, "seed {seed}");
        assert_eq!(dump(&db, small).len(), 40, "seed {seed}");
        assert_eq!(dump(&db, tree), Model::new(), "seed {seed}");
        db.checkpoint().expect("checkpoint");
        write(&db, tree, 1, 100).expect("there is room again");
    }
}

/// Somebody asks for a checkpoint again and again while an open transaction keeps the whole log: they take nothing of what its
/// rollback needs.
#[test]
fn checkpoints_take_nothing_from_the_rollback_in_a_full_log() {
    let disk = SimDisk::new(3);
    let (db, tree) = create(&disk, RecoveryModel::Simple);
    let small = new_tree(&db);
    on_a_full_disk(&disk, &db);
    let open: Vec<Txn> = (0..20_u32)
        .map(|n| {
            let txn = db.begin(&owner(10 + u64::from(n)));
            let target = db.tree(small).expect("tree");
            target
                .insert(&txn, &n.to_be_bytes(), b"small")
                .expect("writes");
            txn
        })
        .collect();
    let filler = db.begin(&owner(7));
    fill_from_one(&db, tree, &filler);
    for txn in open {
        for _ in 0..20 {
            db.checkpoint().expect("checkpoint");
            db.fuzzy_checkpoint().expect("checkpoint");
        }
        txn.commit(Durability::Full).expect("commits");
    }
    for _ in 0..200 {
        db.checkpoint().expect("checkpoint");
    }
    filler.rollback().expect("rolls back");
    assert_eq!(db.state(), DatabaseState::Online);
    db.checkpoint().expect("checkpoint");
    assert_eq!(dump(&db, tree), Model::new());
    write(&db, tree, 1, 100).expect("there is room again");
}

/// The record of a checkpoint is as long as what a restart has to know. One of many parts finds its room in a log that others filled,
/// or is not begun.
#[test]
fn a_checkpoint_of_many_parts_has_its_room_in_a_full_log() {
    let disk = SimDisk::new(4);
    let (db, tree) = create(&disk, RecoveryModel::Simple);
    db.modify_file(2, 512, Growth::Pages(0), None)
        .expect("a log of 4 MiB");
    db.modify_file(1, 4_096, Growth::Pages(0), None)
        .expect("grows");
    let kept = new_tree(&db);
    let txn = db.begin(&owner(1));
    let blobs: Vec<BlobRef> = (0..100)
        .map(|_| db.put_blob(&txn, &[7; 100]).expect("is put"))
        .collect();
    txn.commit(Durability::Full).expect("commits");
    db.checkpoint().expect("checkpoint");
    // What is to be freed when it commits is part of what a restart has to know.
    let dropping = db.begin(&owner(2));
    for n in 0..8_000_usize {
        let blob = blobs.get(n % blobs.len()).expect("one of them");
        db.free_blob(&dropping, *blob).expect("is deferred");
    }
    db.checkpoint().expect("checkpoint");
    fill_disk(&disk);
    let filler = db.begin(&owner(7));
    fill_from_one(&db, tree, &filler);
    let before = db.log_stats().end_lsn;
    for _ in 0..40 {
        db.checkpoint().expect("checkpoint");
    }
    assert!(
        db.log_stats().end_lsn.0 - before.0 < 512 << 10,
        "checkpoints take log and free none"
    );
    filler.rollback().expect("rolls back");
    dropping.rollback().expect("rolls back");
    assert_eq!(db.state(), DatabaseState::Online);
    db.checkpoint().expect("checkpoint");
    assert_eq!(fill(&db, kept, 500), None, "a circle");
}

/// A log that may grow does so by as many steps as the record of a checkpoint takes.
#[test]
fn a_checkpoint_of_many_parts_grows_the_log_as_far_as_it_takes() {
    let disk = SimDisk::new(5);
    let (db, tree) = create(&disk, RecoveryModel::Simple);
    let txn = db.begin(&owner(1));
    let blobs: Vec<BlobRef> = (0..100)
        .map(|_| db.put_blob(&txn, &[7; 100]).expect("is put"))
        .collect();
    txn.commit(Durability::Full).expect("commits");
    db.modify_file(2, 1_024, Growth::Pages(0), None)
        .expect("a log of 8 MiB");
    let dropping = db.begin(&owner(2));
    for n in 0..40_000_usize {
        let blob = blobs.get(n % blobs.len()).expect("one of them");
        db.free_blob(&dropping, *blob).expect("is deferred");
    }
    let filler = db.begin(&owner(7));
    fill_from_one(&db, tree, &filler);
    db.modify_file(2, 1_024, Growth::Pages(32), None)
        .expect("it may grow");
    // A copy begins with a checkpoint, whether it frees anything or not.
    drop(db.start_copy().expect("begins"));
    filler.rollback().expect("rolls back");
    dropping.rollback().expect("rolls back");
    assert_eq!(db.state(), DatabaseState::Online);
}

/// The log is full because it was not backed up, and the server restarts: what the checkpoint at its end could not say is said as soon as
/// the log is backed up, by the first who writes.
#[test]
fn a_log_that_was_full_at_a_restart_comes_free_when_it_is_backed_up() {
    let disk = SimDisk::new(6);
    let (db, tree) = create(&disk, RecoveryModel::Full);
    db.note_full_backup(db.hardened_lsn()).expect("a chain");
    assert_eq!(fill(&db, tree, 2_000), Some("LOG_BACKUP"));
    drop(db);
    disk.crash();
    fill_disk(&disk);
    let (db, _) = engine(&disk, 6, 256)
        .open_database(DB, "t", small_log())
        .expect("opens");
    let refused = write(&db, tree, 1, 3_000).expect_err("is full still");
    assert!(
        matches!(&refused, StorageError::LogFull { reason, .. } if *reason == "LOG_BACKUP"),
        "{refused}"
    );
    let mut backed_up = db.hardened_lsn();
    for _ in 0..2_000_u32 {
        db.log_backed_up_to(backed_up).expect("is noted");
        write(&db, tree, 1, 3_000).expect("there is room");
        backed_up = db.hardened_lsn();
    }
}

/// The same log, held by the log backup that nobody takes, on a full disk, in a server that starts again and again: the database opens
/// each time, and the log backup makes room.
#[test]
fn restarts_in_a_log_that_a_log_backup_holds_leave_the_database_open() {
    for (seed, accelerated, is_left_open) in RESTARTS {
        let disk = SimDisk::new(seed);
        let (db, tree) = create_with(&disk, seed, RecoveryModel::Full, accelerated);
        db.note_full_backup(db.hardened_lsn()).expect("a chain");
        on_a_full_disk(&disk, &db);
        let loser = db.begin(&owner(7));
        if is_left_open {
            let target = db.tree(tree).expect("tree");
            for n in 100..110_u32 {
                target
                    .insert(&loser, &n.to_be_bytes(), &[9; 3_000])
                    .expect("inserts");
            }
        }
        assert_eq!(fill(&db, tree, 2_000), Some("LOG_BACKUP"), "seed {seed}");
        db.flush_log().expect("flushes");
        let mut kept = dump(&db, tree);
        kept.retain(|key, _| *key < 100_u32.to_be_bytes().to_vec());
        std::mem::forget(loser);
        drop(db);
        let mut settled = Lsn::NONE;
        for round in 0..200_u32 {
            let step = format!("seed {seed}, restart {round}");
            match round % 3 {
                0 => disk.crash(),
                _ => disk.restart(),
            }
            fill_disk(&disk);
            let opened = engine(&disk, seed, 256).open_database(DB, "t", small_log());
            let (db, _) = opened.unwrap_or_else(|e| panic!("{step}: {e}"));
            assert_eq!(dump(&db, tree), kept, "{step}");
            if round % 2 == 0 {
                // What an accelerated transaction wrote is put back once there is room.
                let ended = db.background_step();
                let waits = matches!(ended, Err(StorageError::LogFull { .. }));
                assert!(waits || ended.is_ok(), "{step}: {ended:?}");
            }
            match round {
                0..100 => settled = db.log_stats().end_lsn,
                // Reverting is logged as far as there is room, and once more where that was not hard.
                _ if is_left_open && accelerated => {}
                _ => assert_eq!(db.log_stats().end_lsn, settled, "{step}"),
            }
            if round % 4 == 3 {
                db.close().unwrap_or_else(|e| panic!("{step}: {e}"));
            }
        }
        disk.crash();
        fill_disk(&disk);
        let opened = engine(&disk, seed, 256).open_database(DB, "t", small_log());
        let (db, _) = opened.expect("opens");
        db.log_backed_up_to(db.hardened_lsn()).expect("is noted");
        for n in 0..200 {
            write(&db, tree, n, 3_000).unwrap_or_else(|e| panic!("seed {seed}, write {n}: {e}"));
            db.log_backed_up_to(db.hardened_lsn()).expect("is noted");
        }
    }
}

fn new_tree(db: &Arc<Database>) -> TreeId {
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    tree
}
