//! A check while others come in: between its steps, and between those of the others.

use super::*;
use crate::api::{Durability, FileSpec, Isolation, Settings};
use crate::engine::{Engine, EngineConfig};
use crate::lock::Owner;
use crate::pause::visit;
use crate::txn::Txn;
use daruma_base::DatabaseId;
use daruma_sim::SimDisk;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A database under accelerated recovery.
fn create(disk: &Arc<SimDisk>) -> Arc<Database> {
    let files = vec![
        FileSpec::data(1, 1, "/t.mdf", 256),
        FileSpec::log("/t_log.ldf", 256),
    ];
    let config = EngineConfig {
        buffer_pool_pages: 256,
        ..EngineConfig::default()
    };
    let settings = Settings {
        accelerated_recovery: true,
        ..Settings::default()
    };
    let engine = Engine::new(daruma_sim::env(disk, 1), config);
    let db = engine.create_database(DatabaseId(5), "t", files, settings);
    db.expect("creates")
}

fn begin(db: &Arc<Database>) -> Txn {
    db.begin(&Owner::new(1, Default::default()))
}

/// A tree with a row.
fn make(db: &Arc<Database>, txn: &Txn) -> TreeId {
    let id = db.create_tree(txn, 1).expect("creates");
    let tree = db.tree(id).expect("a tree");
    tree.insert(txn, b"kept", &[1; 100]).expect("inserts");
    id
}

fn made(db: &Arc<Database>) -> TreeId {
    let txn = begin(db);
    let id = make(db, &txn);
    txn.commit(Durability::Full).expect("commits");
    id
}

fn drop_and_free(db: &Arc<Database>, tree: TreeId) {
    let txn = begin(db);
    db.drop_tree(&txn, tree).expect("drops");
    txn.commit(Durability::Full).expect("commits");
    settle(db);
}

fn settle(db: &Arc<Database>) {
    while db.background_step().expect("background") {}
}

fn texts(report: &CheckReport) -> Vec<String> {
    report.findings.iter().map(ToString::to_string).collect()
}

/// What a check of the database finds that was told of the catalog and of these trees.
fn findings(db: &Database, trees: &[TreeId]) -> Vec<String> {
    let mut checker = Checker::new(db);
    checker.tree(db.catalog_tree());
    for id in trees {
        checker.tree(*id);
    }
    texts(&checker.finish())
}

/// The first time that the thread comes to the place, `then` is done. True once it was.
fn once_at(place: &'static str, then: impl FnOnce() + 'static) -> Arc<AtomicBool> {
    let was_there = Arc::new(AtomicBool::new(false));
    let (noted, then) = (was_there.clone(), Cell::new(Some(then)));
    visit(move |name| {
        if name == place
            && let Some(then) = then.take()
        {
            noted.store(true, Ordering::Relaxed);
            then();
        }
    });
    was_there
}

/// What waits to be freed when a check looks at it has come and goes while the check runs.
#[test]
fn a_check_takes_no_page_that_was_freed_meanwhile_for_a_used_one() {
    let disk = SimDisk::new(1);
    let db = create(&disk);
    let kept = made(&db);
    let mut checker = Checker::new(&db);
    checker.tree(db.catalog_tree());
    checker.tree(kept);
    let begun = begin(&db);
    let rows = db.tree(kept).expect("a tree");
    let entry = rows.get(&begun.view(Isolation::Current), b"kept");
    let stamp = entry.expect("reads").expect("is there").stamp;
    rows.update(&begun, b"kept", stamp, &[2; 100])
        .expect("updates");
    assert_eq!(db.place_some_versions(0, 9).expect("places"), 1);
    assert_eq!(db.version_pages().len(), 1);
    let there = db.clone();
    let was_there = once_at("check.spaces_met", move || {
        begun.commit(Durability::Full).expect("commits");
        settle(&there);
        assert_eq!(there.version_pages(), []);
    });
    let report = checker.finish();
    visit(|_| {});
    assert!(was_there.load(Ordering::Relaxed));
    assert_eq!((report.exact, texts(&report)), (false, Vec::new()));
}

/// A tree that was made, walked and dropped while the check ran.
#[test]
fn a_check_judges_a_page_while_it_is_used() {
    let disk = SimDisk::new(1);
    let db = create(&disk);
    let mut checker = Checker::new(&db);
    let passing = made(&db);
    checker.tree(passing);
    drop_and_free(&db, passing);
    assert_eq!(texts(&checker.finish()), Vec::<String>::new());
}

/// Pages of one tree are freed when it has been walked, and taken by another before that is.
#[test]
fn a_check_does_not_hold_a_page_against_its_next_owner() {
    let disk = SimDisk::new(1);
    let db = create(&disk);
    let first = made(&db);
    let mut checker = Checker::new(&db);
    checker.tree(first);
    let walked = checker.pages();
    drop_and_free(&db, first);
    let next = made(&db);
    assert_eq!(walked, [next.0], "the same page");
    checker.tree(next);
    assert_eq!(checker.take_findings(), []);
    // Twice is once too often: nobody freed it in between.
    checker.tree(next);
    let found = checker.take_findings();
    let is_twice = |f: &Finding| matches!(f.kind, FindingKind::UsedTwice { .. });
    assert!(found.iter().all(is_twice) && found.len() == 1, "{found:?}");
}

/// The allocation page says that a page is free which a tree uses.
#[test]
fn a_check_finds_a_used_page_that_is_marked_free() {
    let disk = SimDisk::new(1);
    let db = create(&disk);
    let kept = made(&db);
    let (map, bit) = alloc::bit_of(kept.0);
    let mut page = db.pool().write(db.store(), map).expect("reads");
    alloc::set_bit(&mut page, bit, false);
    drop(page);
    let mut checker = Checker::new(&db);
    checker.tree(kept);
    assert_eq!(
        checker.take_findings(),
        [],
        "the allocation pages come last"
    );
    let found = checker.finish().findings;
    let expected = (&FindingKind::MarkedFree { map }, kept.0);
    assert!(
        found.iter().any(|f| (&f.kind, f.page) == expected),
        "{found:?}"
    );
}

/// Somebody takes pages between the last look at the log and that at the allocation pages.
#[test]
fn a_check_of_a_database_that_is_no_longer_at_rest_tells_of_no_lost_pages() {
    let disk = SimDisk::new(1);
    let db = create(&disk);
    let kept = made(&db);
    settle(&db);
    let there = db.clone();
    let was_there = once_at("check.spaces_met", move || {
        made(&there);
    });
    assert_eq!(findings(&db, &[kept]), Vec::<String>::new());
    visit(|_| {});
    assert!(was_there.load(Ordering::Relaxed));
}

/// What a reverted transaction owned goes over to what is to be freed.
#[test]
fn a_check_meets_the_space_of_a_reverted_transaction_at_every_moment() {
    let disk = SimDisk::new(1);
    let db = create(&disk);
    let kept = made(&db);
    db.set_undo_at_once_bytes(0);
    let txn = begin(&db);
    make(&db, &txn);
    txn.rollback().expect("rolls back");
    assert_eq!(db.aborted_transactions().len(), 1);
    let there = db.clone();
    let was_there = once_at("aborted.forgetting", move || {
        assert_eq!(findings(&there, &[kept]), Vec::<String>::new());
    });
    settle(&db);
    visit(|_| {});
    assert!(was_there.load(Ordering::Relaxed));
    assert_eq!(findings(&db, &[kept]), Vec::<String>::new());
}
