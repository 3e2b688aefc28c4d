//! Cleaning on demand: each part does its own and leaves the others', and every page can be visited.

mod common;

use common::*;
use daruma_sim::SimDisk;
use daruma_storage::*;
use std::path::Path;
use std::sync::Arc;

const ROWS: u32 = 2_000;
const PAGE_BYTES: usize = 8_192;

fn filled(disk: &Arc<SimDisk>) -> (Arc<Database>, TreeId) {
    let (db, tree) = create(disk, 1, 1_024, accelerated());
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 0..ROWS, 1);
    txn.commit(Durability::Full).expect("commits");
    settle(&db);
    (db, tree)
}

/// Every row updated; its versions are on pages, for a checkpoint came before the end.
fn updated(db: &Arc<Database>, tree: TreeId, byte: u8) -> Txn {
    let txn = db.begin(&owner(2));
    update_all(db, &txn, tree, &[byte; 150]);
    db.checkpoint().expect("checkpoint");
    txn
}

fn clean(db: &Arc<Database>, scope: CleanScope) -> (u64, u64) {
    while db.clean(scope).expect("cleans") {}
    let stats = db.version_stats();
    (stats.pages, stats.aborted)
}

#[test]
fn each_scope_cleans_its_own_part() {
    let disk = SimDisk::new(1);
    let (db, tree) = filled(&disk);
    updated(&db, tree, 2)
        .commit(Durability::Full)
        .expect("commits");
    let committed = db.version_stats().pages;
    assert!(committed > 0, "versions of the committed one are on pages");
    updated(&db, tree, 3).rollback().expect("rolls back");
    let before = dump(&db, tree);
    let both = db.version_stats().pages;
    assert!(both > committed, "versions of the aborted one as well");
    let (pages, aborted) = clean(&db, CleanScope::OffRow);
    assert_eq!(aborted, 1, "rows are left alone");
    assert_eq!(pages, both - committed, "what nobody needs goes");
    let (left, aborted) = clean(&db, CleanScope::InRow);
    assert_eq!((left, aborted), (pages, 0), "pages are left alone");
    assert_eq!(clean(&db, CleanScope::OffRow), (0, 0));
    assert!(dump(&db, tree) == before);
    updated(&db, tree, 4).rollback().expect("rolls back");
    assert_eq!(clean(&db, CleanScope::All), (0, 0));
    assert!(dump(&db, tree) == before);
}

/// Deleted rows in the middle of leaves that nobody scans or splits: only a visit to every leaf finds them.
#[test]
fn a_sweep_finds_deleted_rows_that_were_never_noted() {
    let disk = SimDisk::new(2);
    let (db, id) = filled(&disk);
    let tree = db.tree(id).expect("tree");
    let txn = db.begin(&owner(1));
    let view = txn.view(Isolation::Current);
    for key in 0..ROWS {
        let key = key.to_be_bytes();
        let entry = tree.get(&view, &key).expect("reads").expect("is there");
        if key[3] % 5 == 2 {
            tree.delete(&txn, &key, entry.stamp).expect("deletes");
        }
    }
    drop(view);
    txn.commit(Durability::Full).expect("commits");
    let ghosts = || {
        let figures = tree.figures(FiguresMode::Detailed).expect("figures");
        figures.levels[0].ghosts
    };
    settle(&db);
    clean(&db, CleanScope::All);
    assert!(ghosts() > 100, "{} ghosts", ghosts());
    let before = dump(&db, id);
    let (mut from, mut calls) = (Some(Vec::new()), 0);
    while let Some(key) = from {
        from = db.sweep_tree(id, &key).expect("sweeps");
        calls += 1;
    }
    assert_eq!((ghosts(), calls), (0, 1));
    assert!(dump(&db, id) == before);
}

/// A queue: rows come at the right and go at the left. Its oldest row is found without a walk over what has gone.
#[test]
fn a_queue_leaves_few_empty_leaves_behind() {
    const ROWS: u32 = 6_000;
    let disk = SimDisk::new(4);
    let (db, id) = create(&disk, 1, 1_024, accelerated());
    let tree = db.tree(id).expect("tree");
    // Long keys, so that a parent has few children.
    let key = |row: u32| [&[b'k'; 600][..], &row.to_be_bytes()].concat();
    for begin in (0..ROWS).step_by(100) {
        let txn = db.begin(&owner(1));
        for row in begin..begin + 100 {
            tree.insert(&txn, &key(row), &[1; 100]).expect("inserts");
        }
        txn.commit(Durability::Full).expect("commits");
        let txn = db.begin(&owner(1));
        let view = txn.view(Isolation::Current);
        for row in begin.saturating_sub(200)..begin.saturating_sub(100) {
            let entry = tree
                .get(&view, &key(row))
                .expect("reads")
                .expect("is there");
            tree.delete(&txn, &key(row), entry.stamp).expect("deletes");
        }
        drop(view);
        txn.commit(Durability::Full).expect("commits");
        while db.background_step().expect("cleans") {}
    }
    let figures = tree.figures(FiguresMode::Detailed).expect("figures");
    let (leaves, parents) = (figures.levels[0].pages, figures.levels[1].pages);
    // Two hundred rows, a dozen on each leaf, a dozen leaves under each parent.
    assert!(
        leaves < 40 && parents < 8,
        "{leaves} leaves, {parents} parents"
    );
    let before = dump(&db, id);
    assert_eq!(before.len(), 200);
    disk.crash();
    drop((tree, db));
    let (db, _) = open(&disk, 1, 1_024).expect("recovers");
    assert!(dump(&db, id) == before);
}

#[test]
fn a_sweep_reverts_what_an_aborted_transaction_wrote() {
    let disk = SimDisk::new(3);
    let (db, tree) = filled(&disk);
    let before = dump(&db, tree);
    db.set_undo_at_once_bytes(0);
    updated(&db, tree, 2).rollback().expect("rolls back");
    let mut from = Some(Vec::new());
    while let Some(key) = from {
        from = db.sweep_tree(tree, &key).expect("sweeps");
    }
    assert_eq!(db.version_stats().rows_reverted, u64::from(ROWS));
    assert!(dump(&db, tree) == before);
    assert_eq!(clean(&db, CleanScope::All), (0, 0));
}

#[test]
fn a_visit_finds_a_damaged_page_of_versions() {
    let disk = SimDisk::new(4);
    let (db, tree) = filled(&disk);
    let _open = updated(&db, tree, 2);
    let visit = || {
        let mut chunks = db.version_chunks().into_iter();
        chunks.try_for_each(|chunk| db.visit_versions(chunk))
    };
    visit().expect("all pages are whole");
    // They were placed for the last one; other pages follow them, so that the doublewrite area holds no copy.
    db.checkpoint().expect("checkpoint");
    let txn = db.begin(&owner(3));
    db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    db.checkpoint().expect("checkpoint");
    let path = Path::new("/t.mdf");
    let content = disk.content_of(path).expect("the file");
    let is_versions = |page: &[u8]| page[4] == 7 && page[16..18] == 1u16.to_le_bytes();
    let damaged = content.chunks(PAGE_BYTES).rposition(is_versions);
    let at = damaged.expect("a page of versions") * PAGE_BYTES;
    drop(_open);
    db.close().expect("closes");
    disk.flip(path, (at + 5_000) as u64, 1);
    let (db, _) = open(&disk, 4, 1_024).expect("opens");
    let mut chunks = db.version_chunks().into_iter();
    let found = chunks.try_for_each(|chunk| db.visit_versions(chunk));
    assert!(found.is_err_and(|e| e.is_damage()));
}

fn rot(disk: &SimDisk, page: daruma_base::PageId) {
    let at = u64::from(page.page) * PAGE_BYTES as u64 + 5_000;
    disk.flip(Path::new("/t.mdf"), at, 0x10);
}

/// A leaf of a tree that an aborted transaction wrote to, and one of a dropped tree, cannot be read. Other transactions are
/// reverted, other trees freed, and checkpoints written; what failed is told once, and tried again.
#[test]
fn one_unreadable_page_stops_no_other_background_work() {
    let disk = SimDisk::new(1);
    let (db, first) = filled(&disk);
    let [dropped, freed, last] = [(); 3].map(|()| {
        let txn = db.begin(&owner(1));
        let tree = db.create_tree(&txn, 1).expect("tree");
        fill(&db, &txn, tree, 0..ROWS, 1);
        txn.commit(Durability::Full).expect("commits");
        tree
    });
    db.checkpoint().expect("checkpoint");
    // Two losers: the older one wrote where a page is going to be damaged.
    let losers = [first, last].map(|tree| updated(&db, tree, 2));
    // Many pages through the doublewrite area, so that it holds no copy of those.
    let txn = db.begin(&owner(3));
    let other = db.create_tree(&txn, 1).expect("tree");
    fill(&db, &txn, other, 0..5 * ROWS, 1);
    txn.commit(Durability::Full).expect("commits");
    db.checkpoint().expect("checkpoint");
    let key = 700u32.to_be_bytes();
    let damaged = [first, dropped].map(|tree| {
        let tree = db.tree(tree).expect("tree");
        tree.locate(&key).expect("reads").expect("is there").0
    });
    std::mem::forget(losers);
    drop(db);
    disk.crash();
    damaged.iter().for_each(|page| rot(&disk, *page));

    let (db, report) = open(&disk, 1, 1_024).expect("opens");
    assert_eq!((report.torn_pages_restored, report.to_revert), (0, 2));
    let txn = db.begin(&owner(1));
    db.drop_tree(&txn, dropped).expect("drops");
    db.drop_tree(&txn, freed).expect("drops");
    txn.commit(Durability::Full).expect("commits");
    let checkpoint = db.log_stats().checkpoint_lsn;
    let used = || db.files()[0].used_pages;
    let before = used();
    db.clock().sleep(std::time::Duration::from_secs(60));
    let mut errors = 0;
    for _ in 0..100 {
        match db.background_step() {
            Ok(_) => {}
            Err(error) => {
                assert!(error.is_damage(), "{error}");
                errors += 1;
            }
        }
    }
    assert_eq!(
        db.aborted_transactions().len(),
        1,
        "the other one is reverted"
    );
    assert!(
        used() + 40 <= before,
        "the other one is freed: {before}, {}",
        used()
    );
    assert!(
        db.log_stats().checkpoint_lsn > checkpoint,
        "checkpoints go on"
    );
    let told = db.take_failures();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(errors < 20, "it is not tried at every step: {errors}");
    db.clock().sleep(std::time::Duration::from_secs(60));
    assert!(db.background_step().is_err(), "it is tried again");
    assert_eq!(
        db.take_failures(),
        Vec::<String>::new(),
        "and not told again"
    );
}

/// Versions of an open transaction find no room on pages: what can be written is, and checkpoints tell of it.
#[test]
fn checkpoints_go_on_while_versions_find_no_room() {
    let disk = SimDisk::new(1);
    let mut files = specs();
    files[0].growth = Growth::Pages(0);
    // Not so small that it is nearly full.
    files[1].size_pages = 4_096;
    let db = engine(&disk, 1, 1_024)
        .create_database(DB, "t", files, accelerated())
        .expect("creates");
    let txn = db.begin(&owner(1));
    let [held, other] = [(); 2].map(|()| {
        let tree = db.create_tree(&txn, 1).expect("tree");
        fill(&db, &txn, tree, 0..200, 1);
        tree
    });
    while db.put_blob(&txn, &[7; 2_000]).is_ok() {}
    txn.commit(Durability::Full).expect("commits");
    let open = db.begin(&owner(2));
    update_all(&db, &open, held, &[3; 150]);
    for round in 0..4 {
        let before = db.log_stats().checkpoint_lsn;
        let txn = db.begin(&owner(1));
        update_all(&db, &txn, other, &[round; 150]);
        txn.commit(Durability::Full).expect("commits");
        for _ in 0..10 {
            db.clock().sleep(std::time::Duration::from_secs(10));
            if let Err(error) = db.background_step() {
                let is_full = matches!(error, StorageError::FilegroupFull { .. });
                assert!(is_full, "{error}");
            }
        }
        assert!(db.log_stats().checkpoint_lsn > before, "round {round}");
    }
    assert!(!db.take_failures().is_empty(), "it is told");
    open.rollback().expect("rolls back");
}

/// A small transaction is undone from the log at once. One that meets a page which cannot be read is marked instead: the
/// others go on, and so does the reverter when the page is there again.
#[test]
fn a_rollback_that_meets_an_unreadable_page_leaves_the_rest_to_the_reverter() {
    let disk = SimDisk::new(1);
    let engine = engine(&disk, 1, 1_024);
    let db = engine.create_database(DB, "t", specs(), accelerated());
    let db = db.expect("creates");
    let txn = db.begin(&owner(1));
    let id = db.create_tree(&txn, 1).expect("tree");
    fill(&db, &txn, id, 0..ROWS, 1);
    txn.commit(Durability::Full).expect("commits");
    let before = dump(&db, id);
    let tree = db.tree(id).expect("tree");
    let [damaged, sound] = [100_u32, 1_900].map(u32::to_be_bytes);
    let txn = db.begin(&owner(2));
    for key in [damaged, sound] {
        let entry = tree.get(&txn.view(Isolation::Current), &key);
        let stamp = entry.expect("reads").expect("is there").stamp;
        let changed = tree.update(&txn, &key, stamp, &[2; 150]);
        assert_eq!(changed.expect("updates"), WriteOutcome::Done);
    }
    db.checkpoint().expect("checkpoint");
    let page = tree.locate(&damaged).expect("reads").expect("is there").0;
    engine.drop_clean_pages();
    rot(&disk, page);
    txn.rollback().expect("rolls back");
    assert_eq!(db.state(), DatabaseState::Online);
    assert_eq!(db.aborted_transactions().len(), 1);
    let other = db.begin(&owner(3));
    let read = |key: &[u8]| tree.get(&other.view(Isolation::ReadCommittedSnapshot), key);
    assert_eq!(
        read(&sound).expect("reads").expect("is there").payload,
        [1; 150]
    );
    assert!(read(&damaged).is_err_and(|e| e.is_damage()));
    db.clock().sleep(std::time::Duration::from_secs(1));
    assert!(db.background_step().is_err_and(|e| e.is_damage()));
    assert_eq!(db.take_failures().len(), 1, "it is told");
    rot(&disk, page);
    db.clock().sleep(std::time::Duration::from_secs(60));
    settle(&db);
    assert_eq!(db.aborted_transactions().len(), 0);
    assert!(dump(&db, id) == before);
}

/// Versions of many transactions lie where an allocation page cannot be read; those of a few, dropped later, in another file.
#[test]
fn versions_that_cannot_be_freed_keep_no_others() {
    let disk = SimDisk::new(1);
    let file = |id, path: &str, size| FileSpec {
        filegroup: 2,
        growth: Growth::Pages(0),
        ..FileSpec::data(id, 1, path, size)
    };
    let mut files = specs();
    files.extend([file(3, "/small.ndf", 16), file(4, "/large.ndf", 512)]);
    let engine = engine(&disk, 1, 1_024);
    let settings = Settings {
        version_store_filegroup: 2,
        ..accelerated()
    };
    let db = engine.create_database(DB, "t", files, settings);
    let db = db.expect("creates");
    let txn = db.begin(&owner(1));
    let id = db.create_tree(&txn, 1).expect("tree");
    fill(&db, &txn, id, 0..200, 1);
    txn.commit(Durability::Full).expect("commits");
    let tree = db.tree(id).expect("tree");
    let update = |row: u32| {
        let (txn, key) = (db.begin(&owner(1_000 + u64::from(row))), row.to_be_bytes());
        let entry = tree.get(&txn.view(Isolation::Current), &key);
        let stamp = entry.expect("reads").expect("is there").stamp;
        let changed = tree.update(&txn, &key, stamp, &[2; 150]);
        assert_eq!(changed.expect("updates"), WriteOutcome::Done);
        assert_eq!(db.place_some_versions(0, 9).expect("places"), 1);
        txn
    };
    // The small file has room for eight pages.
    let few: Vec<Txn> = (0..8).map(update).collect();
    let many: Vec<Txn> = (8..100).map(update).collect();
    for txn in many.iter().chain(&few) {
        txn.commit(Durability::Full).expect("commits");
    }
    assert_eq!(db.version_stats().pages, 100);
    db.checkpoint().expect("checkpoint");
    engine.drop_clean_pages();
    disk.flip(Path::new("/large.ndf"), PAGE_BYTES as u64 + 5_000, 0x10);
    for _ in 0..10 {
        db.clock().sleep(std::time::Duration::from_secs(2));
        assert!(db.clean_versions().is_err_and(|e| e.is_damage()));
    }
    assert_eq!(db.version_stats().pages, 92);
}

/// Rows that were inserted and rolled back, each time behind the last: the pages that they were on go back, without anybody asking.
#[test]
fn rolled_back_rows_leave_no_pages_behind() {
    for settings in [Settings::default(), accelerated()] {
        let disk = SimDisk::new(3);
        let (db, tree) = create(&disk, 1, 1_024, settings);
        let txn = db.begin(&owner(1));
        fill(&db, &txn, tree, 0..10, 1);
        txn.commit(Durability::Full).expect("commits");
        settle(&db);
        let before = db.files()[0].used_pages;
        for round in 1..6 {
            let txn = db.begin(&owner(1));
            fill(&db, &txn, tree, round * ROWS..(round + 1) * ROWS, 2);
            assert!(db.files()[0].used_pages > before + 20);
            txn.rollback().expect("rolls back");
            settle(&db);
        }
        // The first leaf of a parent stays, and versions may have a page.
        let after = db.files()[0].used_pages;
        assert!(after <= before + 4, "{before} pages, then {after}");
        assert_eq!(dump(&db, tree).len(), 10);
        drop(db);
        disk.crash();
        let (db, _) = open(&disk, 3, 1_024).expect("opens");
        assert_eq!(dump(&db, tree).len(), 10);
    }
}

/// Rows inserted behind ten others and rolled back, which is left to the reverter; pages in use before.
fn rolled_back(disk: &Arc<SimDisk>, rows: u32) -> (Arc<Database>, TreeId, u64) {
    let (db, tree) = create(disk, 1, 1_024, accelerated());
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 0..10, 1);
    txn.commit(Durability::Full).expect("commits");
    settle(&db);
    let before = db.files()[0].used_pages;
    db.set_undo_at_once_bytes(0);
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, ROWS..ROWS + rows, 2);
    txn.rollback().expect("rolls back");
    (db, tree, before)
}

/// A database in which a rollback has emptied leaves that nobody has unlinked yet, and its pages before.
fn emptied(disk: &Arc<SimDisk>) -> (Arc<Database>, TreeId, u64) {
    let (db, tree, before) = rolled_back(disk, 2 * ROWS);
    while db.clean_versions().expect("reverts") {}
    assert_eq!(db.version_stats().rows_reverted, u64::from(2 * ROWS));
    assert!(db.files()[0].used_pages > before + 60);
    (db, tree, before)
}

/// A crash forgets which leaves a rollback had emptied: a sweep finds them, wherever they stand in a row.
#[test]
fn a_sweep_gives_empty_leaves_back() {
    let disk = SimDisk::new(5);
    let (db, tree, before) = emptied(&disk);
    db.flush_log().expect("flushes");
    drop(db);
    disk.crash();
    let (db, _) = open(&disk, 5, 1_024).expect("opens");
    settle(&db);
    let mut from = Some(Vec::new());
    while let Some(key) = from {
        from = db.sweep_tree(tree, &key).expect("sweeps");
    }
    settle(&db);
    let after = db.files()[0].used_pages;
    assert!(after <= before + 4, "{before} pages, then {after}");
    assert_eq!(dump(&db, tree).len(), 10);
}

/// A crash in the midst of reverting: what was empty before it goes as well when reverting ends.
#[test]
fn leaves_emptied_before_a_crash_go_when_reverting_ends() {
    let disk = SimDisk::new(6);
    let (db, tree, before) = rolled_back(&disk, 18 * ROWS);
    assert!(db.clean_versions().expect("reverts"), "there is more");
    let reverted = db.version_stats().rows_reverted;
    assert!((1_000..18 * u64::from(ROWS)).contains(&reverted));
    db.flush_log().expect("flushes");
    drop(db);
    disk.crash();
    let (db, _) = open(&disk, 6, 1_024).expect("opens");
    settle(&db);
    let after = db.files()[0].used_pages;
    assert!(after <= before + 4, "{before} pages, then {after}");
    assert_eq!(dump(&db, tree).len(), 10);
}

/// A check that looks at a large tree keeps its shape for long: the background goes on with the rest meanwhile.
#[test]
fn the_background_does_not_wait_for_a_check() {
    struct Background(Arc<Database>);
    impl CheckWatch for Background {
        fn goes_on(&self, _pages: u64) -> bool {
            self.0.background_step().expect("background");
            true
        }
    }
    let disk = SimDisk::new(7);
    let (db, tree, before) = emptied(&disk);
    let background = Background(db.clone());
    let mut check = Checker::new(&db).watched(&background);
    check.tree(tree);
    assert!(check.take_findings().is_empty());
    settle(&db);
    let after = db.files()[0].used_pages;
    assert!(after <= before + 4, "{before} pages, then {after}");
}
