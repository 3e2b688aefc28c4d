//! Replay over a simulated disk: what it remembers, and how much.

use super::tracker::Recent;
use super::*;
use crate::coordinator::Outcome;
use crate::datafile::FileSet;
use crate::log::record::{PageAction, Record, Space};
use crate::page::PAGE_BYTES;
use crate::unit::Unit;
use crate::*;
use daruma_base::{DatabaseId, PageId, TxnId};
use daruma_sim::SimDisk;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

const FRAMES_MIN: usize = 64;

fn files() -> (FileSpec, FileSpec) {
    (
        FileSpec::data(1, 1, "/t.mdf", 256),
        FileSpec::log("/t_log.ldf", 4_096),
    )
}

fn engine(disk: &Arc<SimDisk>, frames: usize) -> Arc<Engine> {
    let config = EngineConfig {
        buffer_pool_pages: frames,
        ..EngineConfig::default()
    };
    Engine::new(daruma_sim::env(disk, 1), config)
}

/// Rows of so many bytes were changed and nothing is on a page: by one transaction in flight, and before it by others which have
/// committed.
fn crashed(bytes: usize, rows: u32, others: u32) -> Arc<SimDisk> {
    let disk = SimDisk::new(1);
    let (data, log) = files();
    let settings = Settings {
        accelerated_recovery: true,
        ..Settings::default()
    };
    let db = engine(&disk, 1_024)
        .create_database(DatabaseId(5), "t", vec![data, log], settings)
        .expect("creates");
    let owner = crate::Owner::new(1, Default::default());
    let txn = db.begin(&owner);
    let tree = db.catalog_tree();
    let tree = db.tree(tree).expect("tree");
    for row in 0..rows {
        tree.insert(&txn, &row.to_be_bytes(), &vec![1; bytes])
            .expect("inserts");
    }
    txn.commit(Durability::Full).expect("commits");
    let update = |content: u8| {
        let txn = db.begin(&owner);
        let view = txn.view(Isolation::Current);
        for row in 0..rows {
            let key = row.to_be_bytes();
            let entry = tree.get(&view, &key).expect("reads").expect("is there");
            tree.update(&txn, &key, entry.stamp, &vec![content; bytes])
                .expect("updates");
        }
        drop(view);
        txn
    };
    for other in 0..others {
        update(other as u8)
            .commit(Durability::Full)
            .expect("commits");
    }
    let open = update(0xFF);
    db.flush_log().expect("the log is hard");
    std::mem::forget(open);
    disk.crash();
    disk
}

/// A store over what is on disk.
fn opened(disk: &Arc<SimDisk>, engine: &Arc<Engine>) -> Arc<Store> {
    let (data, log) = files();
    let env = daruma_sim::env(disk, 1);
    let files = FileSet::open(&[data], &env).expect("opens");
    let log = crate::log::Log::open(&log, files.guid(), &env, engine.log_shared());
    let store = Store::new(engine.next_store_id(), files, log.expect("opens"));
    let store = Arc::new(store);
    store.aside.open(&env.disk, "/t.mdf.aside".into());
    engine.pool().add_store(&store);
    store
}

/// What a replay with few frames leaves.
fn replayed(disk: &Arc<SimDisk>) -> (Arc<Store>, Recovered) {
    let (store, recovered, _) = replayed_as(disk, true);
    (store, recovered)
}

/// As `replayed`, and the part of the blocks before which versions were in memory; `knows`: commits were looked for before.
fn replayed_as(disk: &Arc<SimDisk>, knows: bool) -> (Arc<Store>, Recovered, f64) {
    let engine = engine(disk, FRAMES_MIN);
    let store = opened(disk, &engine);
    let mut ahead = look_ahead(&store).expect("reads the log");
    if !knows {
        ahead.commits = Commits::default();
    }
    let (all, with) = (Cell::new(0), Cell::new(0));
    let at_block = |_| {
        all.set(all.get() + 1);
        let has = !store.versions.all_chunks().is_empty();
        with.set(with.get() + u32::from(has));
        Ok(())
    };
    let ask = |_: &Unit| Ok(Outcome::RolledBack);
    let recovered = recover(engine.pool(), &store, ahead, &at_block, &|_| (), &ask);
    let part = f64::from(with.get()) / f64::from(all.get());
    (store, recovered.expect("repeats it"), part)
}

/// What has been found to be committed is repeated to the last record, or not at all.
#[test]
fn a_log_that_ends_earlier_than_it_was_found_to_end_is_refused() {
    let disk = crashed(1_000, 100, 0);
    let engine = engine(&disk, FRAMES_MIN);
    let store = opened(&disk, &engine);
    let ahead = look_ahead(&store).expect("reads the log");
    let mut cursor = store
        .log
        .cursor(store.files.boot().redo_start)
        .expect("opens");
    let mut last = Lsn::NONE;
    while let Some(block) = cursor.next().expect("reads") {
        last = block.lsn;
    }
    // The last block names its position.
    let path = std::path::Path::new("/t_log.ldf");
    let content = disk.content_of(path).expect("the log");
    let named = |at: &usize| {
        let head = &content[*at..*at + 64];
        head.windows(8).any(|w| w == last.0.to_le_bytes())
    };
    let at = (0..content.len()).step_by(512).find(named);
    disk.flip(path, at.expect("its place") as u64 + 100, 1);
    let ask = |_: &Unit| Ok(Outcome::RolledBack);
    let repeated = recover(engine.pool(), &store, ahead, &|_| Ok(()), &|_| (), &ask);
    assert!(matches!(repeated, Err(StorageError::DamagedLog { .. })));
}

#[test]
fn redo_keeps_no_more_versions_in_memory_than_it_may() {
    let disk = crashed(1_000, 1_000, 0);
    let (store, recovered) = replayed(&disk);
    assert_eq!(recovered.losers.len(), 1);
    let memory = store.versions.memory_bytes();
    assert!(
        memory > 0 && memory <= (FRAMES_MIN * PAGE_BYTES / 4) as u64,
        "{memory}"
    );
}

/// A pass that does not know who will commit makes the versions of all, and keeps those of the last only.
#[test]
fn versions_of_transactions_that_have_committed_are_let_go_of() {
    let disk = crashed(1_000, 200, 20);
    let (store, recovered, part) = replayed_as(&disk, false);
    assert!(part > 0.5, "{part}");
    has_versions_of_the_loser_only(&store, &recovered);
}

/// Its log may be all that there is of a large load: nothing is made for it.
#[test]
fn versions_of_transactions_that_will_commit_are_not_made() {
    let disk = crashed(1_000, 200, 20);
    let (store, recovered, part) = replayed_as(&disk, true);
    assert!(part < 0.2, "{part}");
    has_versions_of_the_loser_only(&store, &recovered);
}

fn has_versions_of_the_loser_only(store: &Store, recovered: &Recovered) {
    let [loser] = recovered.losers.as_slice() else {
        panic!("{:?}", recovered.losers);
    };
    let mut owned = loser.chunks.clone();
    owned.sort_unstable();
    let mut kept: Vec<u32> = store.versions.all_chunks().iter().map(|c| c.id).collect();
    kept.sort_unstable();
    assert_eq!(kept, owned);
    let bytes_of_one = 200 * (15 + 1_000);
    let owned_bytes = store.versions.memory_bytes() + store.aside.chunk_bytes();
    assert_eq!(owned_bytes, bytes_of_one);
}

/// Power fails between the parts of a `Forget`: the reverter of the next start writes all of them again.
#[test]
fn a_space_that_is_named_twice_is_freed_once() {
    let mut tracker = TxnTracker::default();
    let spaces = [7, 8, 9].map(|page| Space::Blob(PageId::new(1, page)));
    let parts: [(bool, &[Space]); 3] = [
        (false, &spaces[..2]),
        (false, &spaces[..2]),
        (true, &spaces[2..]),
    ];
    for (lsn, (is_last, part)) in (5_000..).zip(parts) {
        let mut body = Vec::new();
        record::start(&mut body, Kind::Forget, TxnId(3), Lsn::NONE);
        record::write_forget(&mut body, is_last, part);
        record::finish(&mut body);
        let record = Record::parse(&body).expect("a record");
        tracker.note(Lsn(lsn), Lsn(4_096), &record).expect("a body");
    }
    assert_eq!(tracker.pending, BTreeSet::from(spaces));
}

/// A restore reads log without end.
#[test]
fn the_tracker_remembers_what_ended_since_the_last_checkpoints_only() {
    let disk = SimDisk::new(1);
    let (data, log) = files();
    let engine = engine(&disk, FRAMES_MIN);
    let db = engine
        .create_database(DatabaseId(5), "t", vec![data, log], Settings::default())
        .expect("creates");
    let owner = crate::Owner::new(1, Default::default());
    let tree = db.tree(db.catalog_tree()).expect("tree");
    for n in 0..1_000u32 {
        let txn = db.begin(&owner);
        tree.insert(&txn, &n.to_be_bytes(), b"row")
            .expect("inserts");
        match n % 3 {
            0 => txn.rollback().expect("rolls back"),
            _ => txn.commit(Durability::Delayed).expect("commits"),
        }
        if n % 100 == 99 {
            db.checkpoint().expect("checkpoint");
        }
    }
    let open = db.begin(&owner);
    tree.insert(&open, b"open", b"row").expect("inserts");
    db.flush_log().expect("hard");
    let mut cursor = db
        .store()
        .log
        .cursor(Lsn(4_096))
        .expect("from the first block");
    let mut tracker = TxnTracker::default();
    let mut most = 0;
    while let Some(block) = cursor.next().expect("no damage") {
        for (lsn, bytes) in block.records() {
            let record = Record::parse(bytes).expect("a record");
            tracker.note(lsn, block.lsn, &record).expect("a body");
            let of = |ids: &Recent<TxnId>| ids.new.len() + ids.old.len();
            most = most.max(of(&tracker.ended));
            assert!(of(&tracker.committed_ids) <= of(&tracker.ended));
        }
    }
    assert!((100..=220).contains(&most), "{most}");
    assert_eq!(tracker.rolled_forward, 666);
    let losers: Vec<TxnId> = tracker.active.into_keys().collect();
    assert_eq!(losers, [open.id()]);
}

/// Where a part may stand in its record: what is reached from the root first, then allocation, then what nobody reaches yet.
fn place(action: &PageAction<'_>, is_after_bits: bool) -> u8 {
    match action {
        PageAction::InternalInsert { .. } | PageAction::InternalRemove { .. } => 0,
        PageAction::Truncate { .. } | PageAction::SetNext(_) | PageAction::RemoveSlots { .. } => 1,
        PageAction::Image(_) | PageAction::PackedImage(_) => 1 + 2 * u8::from(is_after_bits),
        PageAction::Bits { .. } => 2,
    }
}

/// Whoever repeats a record latches its pages in the order of its parts, beside readers who come down from the root.
#[test]
fn parts_of_records_stand_in_the_order_of_latches() {
    let disk = SimDisk::new(1);
    let (data, log) = files();
    let db = engine(&disk, 1_024)
        .create_database(DatabaseId(5), "t", vec![data, log], Settings::default())
        .expect("creates");
    let _all = db
        .hold_log(Lsn(4_096), "TEST")
        .expect("from the first block");
    let owner = crate::Owner::new(1, Default::default());
    let tree = db.tree(db.catalog_tree()).expect("tree");
    let txn = db.begin(&owner);
    for row in 0..1_500u32 {
        tree.insert(&txn, &[&[b'k'; 600][..], &row.to_be_bytes()].concat(), &[1])
            .expect("inserts");
    }
    let blob = db.put_blob(&txn, &vec![7; 12 << 20]).expect("stores");
    db.free_blob(&txn, blob).expect("frees");
    txn.commit(Durability::Full).expect("commits");
    let txn = db.begin(&owner);
    for row in 0..1_500u32 {
        let key = [&[b'k'; 600][..], &row.to_be_bytes()].concat();
        let view = txn.view(Isolation::Current);
        let stamp = tree
            .get(&view, &key)
            .expect("reads")
            .expect("is there")
            .stamp;
        tree.delete(&txn, &key, stamp).expect("deletes");
    }
    txn.commit(Durability::Full).expect("commits");
    while db.background_step().expect("cleans") {}
    db.flush_log().expect("hard");
    let mut cursor = db.store().log.cursor(Lsn(4_096)).expect("first block");
    let (mut inserted, mut removed, mut chained) = (0, 0, 0);
    while let Some(block) = cursor.next().expect("no damage") {
        for (lsn, bytes) in block.records() {
            let record = Record::parse(bytes).expect("a record");
            let Some(parts) = record::parts_of(&record) else {
                continue;
            };
            let mut last = 0;
            for part in record::parts(parts) {
                let (page, action) = part.expect("a part");
                let place = place(&action, last >= 2);
                assert!(last <= place, "{lsn}: {page}, {action:?} behind {last}");
                last = place;
                inserted += u32::from(matches!(action, PageAction::InternalInsert { .. }));
                removed += u32::from(matches!(action, PageAction::InternalRemove { .. }));
                chained += u32::from(matches!(action, PageAction::SetNext(_)));
            }
        }
    }
    assert!(
        inserted > 100 && removed > 10 && chained > removed,
        "{inserted} {removed} {chained}"
    );
}
