//! The version store at its limit: writers pause, wait, clean, and fail with the name of who keeps the versions. And
//! the figures from which a person would find out the same.

mod common;

use common::*;
use daruma_base::cancel::CancelReason;
use daruma_sim::SimDisk;
use daruma_storage::*;
use std::sync::Arc;

const ROWS: u32 = 2_000;

fn create(disk: &Arc<SimDisk>, accelerated: bool, megabytes: u32) -> (Arc<Database>, TreeId) {
    create_in(&engine(disk, 1, 512), accelerated, megabytes)
}

fn create_in(engine: &Arc<Engine>, accelerated: bool, megabytes: u32) -> (Arc<Database>, TreeId) {
    let settings = Settings {
        accelerated_recovery: accelerated,
        version_store_megabytes: megabytes,
        ..Settings::default()
    };
    let db = engine
        .create_database(DB, "t", specs(), settings)
        .expect("creates");
    let txn = db.begin(&owner(1));
    let id = db.create_tree(&txn, 1).expect("tree");
    let tree = db.tree(id).expect("tree");
    for i in 0..ROWS {
        tree.insert(&txn, &i.to_be_bytes(), &[0; 150])
            .expect("inserts");
    }
    txn.commit(Durability::Full).expect("commits");
    (db, id)
}

/// Gives every entry another payload, in the transaction.
fn update_all(db: &Arc<Database>, txn: &Txn, tree: TreeId, byte: u8) -> Result<()> {
    let tree = db.tree(tree)?;
    let view = txn.view(Isolation::Current);
    let mut scan = tree.scan(&view, ScanSpec::all());
    let (mut batch, mut updates, mut refused) = (Batch::new(), UpdateBatch::new(), Vec::new());
    while scan.next(&mut batch)? {
        updates.clear();
        for i in 0..batch.len() {
            updates.push(batch.key(i), batch.stamp(i), &[byte; 150]);
        }
        tree.update_batch(txn, &updates, &mut refused)?;
    }
    assert!(refused.is_empty());
    Ok(())
}

/// Gives one entry another payload, in the transaction.
fn update_one(db: &Arc<Database>, txn: &Txn, tree: TreeId, key: u32) -> Result<()> {
    let tree = db.tree(tree)?;
    let view = txn.view(Isolation::Current);
    let seen = tree.get(&view, &key.to_be_bytes())?.expect("is there");
    let outcome = tree.update(txn, &key.to_be_bytes(), seen.stamp, &[9; 150])?;
    assert_eq!(outcome, WriteOutcome::Done);
    Ok(())
}

/// Whole updates, each committed, until one is refused.
fn update_until_refused(db: &Arc<Database>, tree: TreeId) -> StorageError {
    for byte in 1..100 {
        let txn = db.begin(&owner(2));
        if let Err(error) = update_all(db, &txn, tree, byte) {
            txn.rollback().expect("rolls back at the limit too");
            return error;
        }
        txn.commit(Durability::Full).expect("commits");
    }
    panic!("the limit stops nobody");
}

fn pin_of(error: StorageError) -> VersionPin {
    match error {
        StorageError::VersionStoreFull { pin: Some(pin), .. } => *pin,
        other => panic!("another error: {other}"),
    }
}

fn settle(db: &Arc<Database>) {
    for _ in 0..10_000 {
        if !db.background_step().expect("background") {
            return;
        }
    }
    panic!("background work does not end");
}

#[test]
fn a_forgotten_snapshot_stops_writers_at_the_limit_and_is_named() {
    for accelerated in [true, false] {
        let disk = SimDisk::new(1);
        let (db, tree) = create(&disk, accelerated, 1);
        let old = db.begin(&owner(77));
        let view = old.view(Isolation::Snapshot);
        let pin = pin_of(update_until_refused(&db, tree));
        assert_eq!((pin.kind, pin.owner), (PinKind::Snapshot, 77));
        assert!(pin.bytes() > 300_000, "{pin:?}");
        assert!(
            db.version_store_bytes() < 1_200_000,
            "{}",
            db.version_store_bytes()
        );
        // Readers and inserts go on.
        let seen = db.tree(tree).expect("tree").get(&view, &7u32.to_be_bytes());
        assert_eq!(seen.expect("reads").expect("is there").payload, [0; 150]);
        let txn = db.begin(&owner(3));
        db.tree(tree)
            .and_then(|t| t.insert(&txn, b"more", b"row"))
            .expect("inserts");
        txn.commit(Durability::Full).expect("commits");
        drop(view);
        old.rollback().expect("ends");
        // The snapshot is gone: the writer itself makes room.
        let txn = db.begin(&owner(2));
        update_all(&db, &txn, tree, 200).expect("there is room again");
        txn.commit(Durability::Full).expect("commits");
        assert!(dump(&db, tree).values().any(|v| v == &vec![200; 150]));
    }
}

/// Versions that an old snapshot keeps leave memory for their pages, also when they got pages because frames were scarce.
#[test]
fn versions_of_an_old_snapshot_leave_memory() {
    for accelerated in [true, false] {
        let disk = SimDisk::new(1);
        let (db, tree) = create(&disk, accelerated, 0);
        let old = db.begin(&owner(77));
        let view = old.view(Isolation::Snapshot);
        for byte in 1..60 {
            let txn = db.begin(&owner(2));
            update_all(&db, &txn, tree, byte).expect("updates");
            txn.commit(Durability::Full).expect("commits");
        }
        // 59 updates of 300,000 bytes, over a pool of 4 MiB.
        assert!(db.version_store_bytes() > 16_000_000);
        assert!(db.version_bytes() < 1_500_000, "{}", db.version_bytes());
        let seen = db.tree(tree).expect("tree").get(&view, &7u32.to_be_bytes());
        assert_eq!(seen.expect("reads").expect("is there").payload, [0; 150]);
        drop(view);
        old.rollback().expect("ends");
    }
}

/// Each transaction leaves a chunk of its own, too small for a page: memory has a limit too, and who keeps them is named.
#[test]
fn small_transactions_beside_an_old_snapshot_are_stopped_before_memory_is_gone() {
    for accelerated in [true, false] {
        let disk = SimDisk::new(1);
        let config = EngineConfig {
            buffer_pool_pages: 512,
            version_memory_bytes: 1 << 20,
            ..EngineConfig::default()
        };
        let (db, tree) = create_in(
            &Engine::new(daruma_sim::env(&disk, 1), config),
            accelerated,
            0,
        );
        let old = db.begin(&owner(77));
        let view = old.view(Isolation::Snapshot);
        let update = |n: u32| {
            let txn = db.begin(&owner(2));
            match update_one(&db, &txn, tree, n % ROWS) {
                Ok(()) => txn.commit(Durability::Full).map(|_| ()),
                Err(error) => {
                    txn.rollback().expect("rolls back at the limit too");
                    Err(error)
                }
            }
        };
        let refused = (0..50_000).find_map(|n| update(n).err());
        let Some(StorageError::VersionStoreFull {
            pin: Some(pin),
            is_memory: true,
            ..
        }) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!((pin.kind, pin.owner), (PinKind::Snapshot, 77));
        drop(view);
        old.rollback().expect("ends");
        update(1).expect("there is room again");
    }
}

#[test]
fn a_transaction_that_fills_the_store_itself_is_told_at_once_and_can_be_rolled_back_in_part() {
    let disk = SimDisk::new(2);
    let (db, tree) = create(&disk, true, 1);
    let more = db.begin(&owner(1));
    let rows = db.tree(tree).expect("tree");
    for i in ROWS..4 * ROWS {
        rows.insert(&more, &i.to_be_bytes(), &[0; 150])
            .expect("inserts");
    }
    more.commit(Durability::Full).expect("commits");
    let txn = db.begin(&owner(5));
    let first = rows.get(&txn.view(Isolation::Current), &0u32.to_be_bytes());
    let stamp = first.expect("reads").expect("is there").stamp;
    rows.update(&txn, &0u32.to_be_bytes(), stamp, &[1; 150])
        .expect("there is room");
    let savepoint = txn.savepoint();
    let refused = update_all(&db, &txn, tree, 2).err();
    let pin = pin_of(refused.expect("the limit"));
    assert_eq!(
        (pin.kind, pin.owner, pin.txn),
        (PinKind::ActiveTransaction, 5, txn.id())
    );
    txn.rollback_to(savepoint).expect("back to the savepoint");
    txn.commit(Durability::Full).expect("commits");
    let found = dump(&db, tree);
    assert_eq!(found.len(), 4 * ROWS as usize);
    let changed = found.values().filter(|v| *v != &vec![0; 150]);
    assert_eq!(changed.collect::<Vec<_>>(), [&vec![1; 150]]);
    settle(&db);
    assert_eq!(db.version_store_bytes(), 0);
}

#[test]
fn writers_revert_an_aborted_transaction_that_fills_the_store() {
    let disk = SimDisk::new(3);
    let (db, tree) = create(&disk, true, 1);
    let before = dump(&db, tree);
    db.set_undo_at_once_bytes(0);
    let txn = db.begin(&owner(5));
    update_all(&db, &txn, tree, 1).expect("there is room");
    update_all(&db, &txn, tree, 2).expect("there is room");
    txn.rollback().expect("rolls back");
    let pins = db.version_pins();
    assert_eq!(
        pins.first().map(|p| p.kind),
        Some(PinKind::AbortedTransaction)
    );
    let figures = db
        .tree(tree)
        .and_then(|t| t.figures(FiguresMode::Detailed))
        .expect("figures");
    assert_eq!(figures.levels[0].aborted_entries, u64::from(ROWS));
    assert_eq!(dump(&db, tree), before);
    for byte in 10..20 {
        let txn = db.begin(&owner(6));
        update_all(&db, &txn, tree, byte).expect("the writer makes room");
        txn.commit(Durability::Full).expect("commits");
    }
    settle(&db);
    assert!(db.version_pins().is_empty());
    let (pages, aborted) = db.sweep_times();
    assert!(aborted.begun_utc_100ns > 0 && aborted.ended_utc_100ns >= aborted.begun_utc_100ns);
    assert!(pages.ended_utc_100ns >= pages.begun_utc_100ns);
}

#[test]
fn a_cancelled_session_does_not_wait_at_the_limit() {
    let disk = SimDisk::new(4);
    let (db, tree) = create(&disk, true, 1);
    let old = db.begin(&owner(77));
    let _view = old.view(Isolation::Snapshot);
    let _ = update_until_refused(&db, tree);
    let cancelled = owner(8);
    cancelled.cancel.set(CancelReason::Attention);
    let mut result = Ok(());
    for byte in 1..20 {
        let txn = db.begin(&cancelled);
        result = update_all(&db, &txn, tree, byte);
        if result.is_err() {
            break;
        }
        txn.commit(Durability::Full).expect("commits");
    }
    assert!(matches!(result, Err(StorageError::Cancelled)), "{result:?}");
}

#[test]
fn the_limit_is_kept_over_a_restart_and_can_be_lifted() {
    let disk = SimDisk::new(5);
    let (db, tree) = create(&disk, true, 1);
    db.close().expect("closes");
    drop(db);
    let (db, _) = engine(&disk, 5, 512)
        .open_database(DB, "t", specs())
        .expect("opens");
    assert_eq!(db.settings().version_store_megabytes, 1);
    let old = db.begin(&owner(77));
    let _view = old.view(Isolation::Snapshot);
    let _ = update_until_refused(&db, tree);
    db.set_settings(Settings {
        version_store_megabytes: 0,
        ..db.settings()
    })
    .expect("settings");
    for byte in 0..10 {
        let txn = db.begin(&owner(6));
        update_all(&db, &txn, tree, byte).expect("no limit");
        txn.commit(Durability::Full).expect("commits");
    }
}

#[test]
fn figures_tell_versions_ghosts_and_uncommitted_entries_apart() {
    let disk = SimDisk::new(6);
    let (db, id) = create(&disk, true, 0);
    let tree = db.tree(id).expect("tree");
    settle(&db);
    let figures = |mode| tree.figures(mode).expect("figures");
    let clean = figures(FiguresMode::Detailed).levels[0];
    assert_eq!((clean.entries, clean.versions), (u64::from(ROWS), 0));
    assert_eq!(clean.pages, clean.pages_read);
    let old = db.begin(&owner(77));
    let view = old.view(Isolation::Snapshot);
    let txn = db.begin(&owner(2));
    update_all(&db, &txn, id, 1).expect("updates");
    txn.commit(Durability::Full).expect("commits");
    let txn = db.begin(&owner(2));
    let read = txn.view(Isolation::Current);
    for i in 0..10u32 {
        let entry = tree.get(&read, &i.to_be_bytes()).expect("reads");
        let stamp = entry.expect("is there").stamp;
        tree.delete(&txn, &i.to_be_bytes(), stamp).expect("deletes");
    }
    let found = figures(FiguresMode::Detailed).levels[0];
    assert_eq!((found.version_ghosts, found.uncommitted_entries), (10, 10));
    assert_eq!(found.versions, u64::from(ROWS) + 10);
    assert_eq!(found.version_bytes, found.versions * 165);
    txn.commit(Durability::Full).expect("commits");
    drop((view, read));
    old.rollback().expect("ends");
    db.begin(&owner(3))
        .commit(Durability::Full)
        .expect("nothing to do");
    db.clean_versions().expect("cleans");
    let found = figures(FiguresMode::Detailed).levels[0];
    assert_eq!((found.versions, found.ghosts), (0, 10));
    let limited = figures(FiguresMode::Limited).levels[0];
    assert_eq!((limited.pages, limited.pages_read), (found.pages, 0));
}
