//! Data files without a free page: what is taken back must find its room all the same.

mod common;

use common::*;
use daruma_sim::SimDisk;
use daruma_storage::*;
use std::sync::Arc;

/// A data file that cannot grow.
fn fixed() -> Vec<FileSpec> {
    let mut files = specs();
    for file in files.iter_mut().filter(|f| f.filegroup == 1) {
        file.growth = Growth::Pages(0);
    }
    files
}

fn create_fixed(disk: &Arc<SimDisk>, settings: Settings) -> (Arc<Database>, TreeId) {
    let engine = engine(disk, 1, 128);
    let db = engine
        .create_database(DB, "t", fixed(), settings)
        .expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    (db, tree)
}

fn insert(db: &Arc<Database>, tree: TreeId, key: u32, payload: &[u8]) -> Result<()> {
    let txn = db.begin(&owner(2));
    db.tree(tree)?.insert(&txn, &key.to_be_bytes(), payload)?;
    txn.commit(Durability::Full)
}

/// A transaction that has made all rows small, and others that have taken the space on their pages, up to the last page of
/// the file. With what is committed.
fn crowded(disk: &Arc<SimDisk>, settings: Settings) -> (Arc<Database>, TreeId, Txn, Model) {
    let (db, tree) = create_fixed(disk, settings);
    let mut model = Model::new();
    let mut keep = |key: u32, payload: &[u8]| {
        model.insert(key.to_be_bytes().to_vec(), payload.to_vec());
    };
    for key in 0..60 {
        insert(&db, tree, 100 * key, &[1; 2_400]).expect("inserts");
        keep(100 * key, &[1; 2_400]);
    }
    let shrinks = db.begin(&owner(1));
    update_all(&db, &shrinks, tree, b"small");
    let mut is_full = false;
    'keys: for n in 1..100 {
        for key in 0..60 {
            match insert(&db, tree, 100 * key + n, &[2; 700]) {
                Ok(()) => keep(100 * key + n, &[2; 700]),
                Err(StorageError::FilegroupFull { .. }) => {
                    is_full = true;
                    break 'keys;
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert!(is_full, "the file has room left");
    (db, tree, shrinks, model)
}

#[test]
fn a_rollback_finds_room_in_a_full_file() {
    for settings in [Settings::default(), accelerated()] {
        let disk = SimDisk::new(1);
        let (db, tree, shrinks, model) = crowded(&disk, settings);
        shrinks.rollback().expect("rolls back");
        assert_eq!(db.state(), DatabaseState::Online);
        assert!(dump(&db, tree) == model);
        settle(&db);
        assert!(db.aborted_transactions().is_empty());
        assert!(dump(&db, tree) == model);
        // Whoever has no right to more room gets none.
        let refused = (0..100).find_map(|n| insert(&db, tree, 1_000_000 + n, &[3; 7_000]).err());
        assert!(
            matches!(refused, Some(StorageError::FilegroupFull { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn recovery_finds_room_in_a_full_file() {
    for settings in [Settings::default(), accelerated()] {
        let disk = SimDisk::new(2);
        let (db, tree, shrinks, model) = crowded(&disk, settings);
        db.flush_log().expect("flushes");
        disk.crash();
        std::mem::forget(shrinks);
        drop(db);
        let engine = engine(&disk, 1, 128);
        let (db, report) = engine.open_database(DB, "t", fixed()).expect("opens");
        assert_eq!(report.rolled_back, 1);
        assert!(dump(&db, tree) == model);
        settle(&db);
        assert!(dump(&db, tree) == model);
    }
}

/// Fewer frames than the pages that wait for versions, and no free page for the versions.
#[test]
fn recovery_of_a_full_file_works_with_few_frames() {
    let disk = SimDisk::new(3);
    let mut files = fixed();
    for file in files.iter_mut() {
        file.size_pages = 512;
    }
    let db = engine(&disk, 1, 4_096)
        .create_database(DB, "t", files.clone(), accelerated())
        .expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    let rows = db.tree(tree).expect("tree");
    let full =
        (0..1_000_000u32).find_map(|key| rows.insert(&txn, &key.to_be_bytes(), &[1; 150]).err());
    assert!(
        matches!(full, Some(StorageError::FilegroupFull { .. })),
        "{full:?}"
    );
    txn.commit(Durability::Full).expect("commits");
    db.checkpoint().expect("checkpoint");
    let before = dump(&db, tree);
    let txn = db.begin(&owner(1));
    update_all(&db, &txn, tree, &[2; 150]);
    db.flush_log().expect("the log is hard");
    std::mem::forget(txn);
    drop(rows);
    drop(db);
    disk.crash();
    let opened = engine(&disk, 1, 64).open_database(DB, "t", files);
    let (db, _) = opened.expect("opens");
    assert!(dump(&db, tree) == before);
    settle(&db);
    assert!(dump(&db, tree) == before);
}

/// Inserts until the file is full.
fn fill_up(db: &Arc<Database>, tree: TreeId) {
    let full = (0..10_000).find_map(|key| insert(db, tree, key, &[1; 3_000]).err());
    assert!(
        matches!(full, Some(StorageError::FilegroupFull { .. })),
        "{full:?}"
    );
}

/// What is taken past the limits is there for the next one, and for nobody else.
#[test]
fn a_tree_takes_the_place_of_another_in_a_full_file() {
    const PAGES_MAX: u64 = 256;
    for settings in [Settings::default(), accelerated()] {
        let disk = SimDisk::new(4);
        let mut files = specs();
        for file in files.iter_mut().filter(|f| f.filegroup == 1) {
            file.max_pages = Some(PAGES_MAX);
        }
        let created = engine(&disk, 1, 512).create_database(DB, "t", files.clone(), settings);
        let mut db = created.expect("creates");
        let txn = db.begin(&owner(1));
        let mut tree = db.create_tree(&txn, 1).expect("tree");
        txn.commit(Durability::Full).expect("commits");
        fill_up(&db, tree);
        for round in 0..60 {
            db.checkpoint().expect("checkpoint");
            let before = dump(&db, tree);
            let txn = db.begin(&owner(1));
            let refused = db.create_tree(&txn, 1);
            assert!(
                matches!(refused, Err(StorageError::FilegroupFull { .. })),
                "{refused:?}"
            );
            db.drop_tree(&txn, tree).expect("drops");
            let new = db.create_tree_instead(&txn, 1).expect("tree");
            match round % 3 {
                0 => {
                    txn.commit(Durability::Full).expect("commits");
                    tree = new;
                    settle(&db);
                    assert!(dump(&db, tree).is_empty());
                    fill_up(&db, tree);
                }
                1 => {
                    txn.rollback().expect("rolls back");
                    assert!(dump(&db, tree) == before);
                }
                _ => {
                    db.flush_log().expect("the log is hard");
                    std::mem::forget(txn);
                    drop(db);
                    disk.crash();
                    let opened = engine(&disk, 1, 512).open_database(DB, "t", files.clone());
                    db = opened.expect("opens").0;
                    settle(&db);
                    assert!(dump(&db, tree) == before);
                }
            }
            let data = db.files().into_iter().find(|f| f.spec.id == 1);
            let size = data.map_or(0, |f| f.size_pages);
            assert!(size <= PAGES_MAX + 32, "{size}");
        }
    }
}

/// Sizes of the data files, in pages.
fn sizes(db: &Database) -> Vec<u64> {
    let files = db.files().into_iter();
    let data = files.filter(|f| f.spec.filegroup == 1);
    data.map(|f| f.size_pages).collect()
}

/// Whichever is the smallest one, or the first.
#[test]
fn each_file_of_a_filegroup_is_asked_to_grow() {
    const PAGES_MAX: u64 = 512;
    for growing in [0, 1] {
        let disk = SimDisk::new(5);
        let mut data: Vec<FileSpec> = vec![
            FileSpec::data(1, 1, "/t.mdf", 256),
            FileSpec::data(3, 1, "/t3.ndf", 256),
        ];
        for (n, file) in data.iter_mut().enumerate() {
            file.growth = Growth::Pages(if n == growing { 64 } else { 0 });
            file.max_pages = (n == growing).then_some(PAGES_MAX);
        }
        data.push(FileSpec::log("/t_log.ldf", 130));
        let created = engine(&disk, 1, 1_024).create_database(DB, "t", data, Settings::default());
        let db = created.expect("creates");
        let txn = db.begin(&owner(1));
        let tree = db.create_tree(&txn, 1).expect("tree");
        txn.commit(Durability::Full).expect("commits");
        fill_up(&db, tree);
        let mut wanted = [256, 256];
        wanted[growing] = PAGES_MAX;
        assert_eq!(sizes(&db), wanted);
    }
}

/// What is taken past the size of a file without growth is there for the next one, as it is past a largest size.
#[test]
fn a_file_without_growth_does_not_grow_with_each_tree_that_takes_anothers_place() {
    let disk = SimDisk::new(6);
    let (db, mut tree) = create_fixed(&disk, Settings::default());
    let before = sizes(&db);
    for _ in 0..20 {
        fill_up(&db, tree);
        let txn = db.begin(&owner(1));
        db.drop_tree(&txn, tree).expect("drops");
        tree = db.create_tree_instead(&txn, 1).expect("tree");
        txn.commit(Durability::Full).expect("commits");
        settle(&db);
    }
    for (now, before) in sizes(&db).into_iter().zip(before) {
        assert!(now <= before + 32, "{now} after {before}");
    }
}

/// A transaction that goes on and on does not fill the disk.
#[test]
fn trees_that_take_each_others_place_end_past_the_limits() {
    const PAST_MAX: u64 = 1_024;
    let disk = SimDisk::new(7);
    let (db, tree) = create_fixed(&disk, Settings::default());
    fill_up(&db, tree);
    let before = (sizes(&db), dump(&db, tree));
    let txn = db.begin(&owner(1));
    let mut last = tree;
    let refused = (0..4 * PAST_MAX).find_map(|_| {
        db.drop_tree(&txn, last).expect("drops");
        match db.create_tree_instead(&txn, 1) {
            Ok(new) => {
                last = new;
                None
            }
            Err(refused) => Some(refused),
        }
    });
    assert!(
        matches!(refused, Some(StorageError::FilegroupFull { .. })),
        "{refused:?}"
    );
    for (now, before) in sizes(&db).into_iter().zip(&before.0) {
        assert!(now <= before + PAST_MAX, "{now} after {before}");
    }
    txn.rollback().expect("rolls back");
    settle(&db);
    assert!(dump(&db, tree) == before.1);
    let txn = db.begin(&owner(1));
    db.drop_tree(&txn, tree).expect("drops");
    db.create_tree_instead(&txn, 1)
        .expect("there is room again");
}
