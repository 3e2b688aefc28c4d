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
