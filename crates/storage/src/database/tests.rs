//! Somebody comes in between two steps of which he may see both or none.

use super::*;
use crate::check::Checker;
use crate::engine::EngineConfig;
use crate::lock::Owner;
use crate::pause::visit;
use daruma_sim::SimDisk;
use std::sync::mpsc::channel;

fn files() -> Vec<FileSpec> {
    vec![
        FileSpec::data(1, 1, "/t.mdf", 256),
        FileSpec::log("/t_log.ldf", 256),
    ]
}

fn engine(disk: &Arc<SimDisk>) -> Arc<Engine> {
    let config = EngineConfig {
        buffer_pool_pages: 256,
        ..EngineConfig::default()
    };
    Engine::new(daruma_sim::env(disk, 1), config)
}

fn create(disk: &Arc<SimDisk>, accelerated_recovery: bool) -> Arc<Database> {
    let settings = Settings {
        accelerated_recovery,
        ..Settings::default()
    };
    let db = engine(disk).create_database(DatabaseId(5), "t", files(), settings);
    db.expect("creates")
}

fn begin(db: &Arc<Database>) -> Txn {
    db.begin(&Owner::new(1, Default::default()))
}

fn insert(db: &Arc<Database>, txn: &Txn, tree: TreeId, key: &[u8]) {
    let tree = db.tree(tree).expect("a tree");
    tree.insert(txn, key, &[1; 100]).expect("inserts");
}

/// A tree with a row, committed.
fn made(db: &Arc<Database>) -> TreeId {
    let txn = begin(db);
    let tree = db.create_tree(&txn, 1).expect("creates");
    insert(db, &txn, tree, b"kept");
    txn.commit(Durability::Full).expect("commits");
    tree
}

/// Two trees, of which the second was dropped and is still to be freed.
fn one_dropped(db: &Arc<Database>) -> (TreeId, TreeId) {
    let (kept, dropped) = (made(db), made(db));
    let txn = begin(db);
    db.drop_tree(&txn, dropped).expect("drops");
    txn.commit(Durability::Full).expect("commits");
    (kept, dropped)
}

fn settle(db: &Arc<Database>) {
    while db.background_step().expect("background") {}
}

/// At the first pause of that name another thread writes a checkpoint, if nothing keeps it from doing so.
fn checkpoint_at(db: &Arc<Database>, place: &'static str) {
    let (db, done) = (Arc::downgrade(db), AtomicBool::new(false));
    visit(move |name| {
        let Some(db) = db.upgrade().filter(|_| name == place) else {
            return;
        };
        let is_kept_out =
            db.checkpointing.try_lock().is_none() || db.versions().dropped.try_lock().is_none();
        if !done.swap(true, Ordering::Relaxed) && !is_kept_out {
            db.checkpoint().expect("a checkpoint");
        }
    });
}

/// Every page is used by these trees, or by nobody and free; each tree has its row.
fn check(db: &Arc<Database>, trees: &[TreeId]) {
    settle(db);
    let mut checker = Checker::new(db);
    checker.tree(db.catalog_tree());
    for id in trees {
        checker.tree(*id);
        let view = begin(db).view(Isolation::ReadCommittedSnapshot);
        let found = db.tree(*id).and_then(|t| t.get(&view, b"kept"));
        assert!(found.expect("reads").is_some(), "the row is there");
    }
    let report = checker.finish();
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.exact && findings.is_empty(), "{findings:?}");
}

fn check_after_power_loss(disk: &Arc<SimDisk>, db: Arc<Database>, trees: &[TreeId]) {
    visit(|_| {});
    db.flush_log().expect("the log is hard");
    drop(db);
    disk.crash();
    let opened = engine(disk).open_database(DatabaseId(5), "t", files());
    check(&opened.expect("opens").0, trees);
}

#[test]
fn a_drop_is_in_the_checkpoint_or_behind_its_begin() {
    for accelerated in [false, true] {
        let disk = SimDisk::new(1);
        let db = create(&disk, accelerated);
        let (kept, dropped) = (made(&db), made(&db));
        let txn = begin(&db);
        checkpoint_at(&db, "defer.logged");
        db.drop_tree(&txn, dropped).expect("drops");
        txn.commit(Durability::Full).expect("commits");
        drop(txn);
        check_after_power_loss(&disk, db, &[kept]);
    }
}

/// A checkpoint comes while a savepoint takes a change of definitions back.
fn taken_back(change: impl Fn(&Arc<Database>, &Txn, TreeId)) {
    for accelerated in [false, true] {
        let disk = SimDisk::new(1);
        let db = create(&disk, accelerated);
        let kept = made(&db);
        let txn = begin(&db);
        insert(&db, &txn, kept, b"more");
        let savepoint = txn.savepoint();
        change(&db, &txn, kept);
        checkpoint_at(&db, "undo.space.logged");
        txn.rollback_to(savepoint).expect("rolls back");
        txn.commit(Durability::Full).expect("commits");
        drop(txn);
        check_after_power_loss(&disk, db, &[kept]);
    }
}

#[test]
fn a_drop_taken_back_is_not_in_a_checkpoint_behind_that() {
    taken_back(|db, txn, kept| db.drop_tree(txn, kept).expect("drops"));
}

#[test]
fn a_tree_taken_back_is_to_be_freed_in_a_checkpoint_behind_that() {
    taken_back(|db, txn, _| {
        db.create_tree(txn, 1).expect("creates");
    });
}

#[test]
fn what_was_freed_is_not_to_be_freed_in_a_checkpoint_behind_that() {
    for accelerated in [false, true] {
        let disk = SimDisk::new(1);
        let db = create(&disk, accelerated);
        let (kept, dropped) = one_dropped(&db);
        checkpoint_at(&db, "pending.freed");
        settle(&db);
        let again = made(&db);
        assert_eq!(again, dropped);
        check_after_power_loss(&disk, db, &[kept, again]);
    }
}

#[test]
fn versions_that_nobody_needs_any_more_are_in_every_checkpoint_until_they_are_freed() {
    let disk = SimDisk::new(1);
    let db = create(&disk, true);
    let kept = made(&db);
    let txn = begin(&db);
    let tree = db.tree(kept).expect("a tree");
    let view = txn.view(Isolation::Current);
    let entry = tree.get(&view, b"kept").expect("reads").expect("is there");
    tree.update(&txn, b"kept", entry.stamp, &[2; 100])
        .expect("updates");
    drop(view);
    db.checkpoint().expect("a checkpoint");
    assert!(db.version_stats().pages > 0, "versions are on pages");
    checkpoint_at(&db, "versions.discarded");
    txn.commit(Durability::Full).expect("commits");
    drop((txn, tree));
    check_after_power_loss(&disk, db, &[kept]);
}

#[test]
fn two_who_clean_at_once_free_a_tree_once() {
    let disk = SimDisk::new(1);
    let db = create(&disk, true);
    let (kept, dropped) = one_dropped(&db);
    let (other, done) = (Arc::downgrade(&db), AtomicBool::new(false));
    visit(move |name| {
        let other = other.upgrade().filter(|_| name == "pending.chosen");
        if let Some(db) = other.filter(|_| !done.swap(true, Ordering::Relaxed)) {
            while db.clean_versions().expect("cleans") {}
            assert_eq!(made(&db), dropped);
        }
    });
    settle(&db);
    visit(|_| {});
    check(&db, &[kept, dropped]);
}

/// Two handles of one tree would let two change its shape at once.
#[test]
fn a_tree_at_the_place_of_a_freed_one_has_one_handle() {
    let disk = SimDisk::new(1);
    let db = create(&disk, true);
    let (kept, dropped) = one_dropped(&db);
    let handle = Arc::new(Mutex::new(None));
    let (other, taken) = (Arc::downgrade(&db), handle.clone());
    visit(move |name| {
        let other = other.upgrade().filter(|_| name == "tree.freed");
        if let Some(db) = other {
            assert_eq!(made(&db), dropped);
            *taken.lock() = db.tree(dropped).ok();
        }
    });
    settle(&db);
    visit(|_| {});
    let (before, now) = (handle.lock().take(), db.tree(dropped));
    assert!(Arc::ptr_eq(&before.expect("made"), &now.expect("is there")));
    check(&db, &[kept, dropped]);
}

/// A transaction under way whose first row versions want pages.
fn changes(db: &Arc<Database>, tree: TreeId) -> Txn {
    let txn = begin(db);
    let tree = db.tree(tree).expect("a tree");
    let view = txn.view(Isolation::Current);
    let entry = tree.get(&view, b"kept").expect("reads").expect("is there");
    tree.update(&txn, b"kept", entry.stamp, &[2; 100])
        .expect("updates");
    drop(view);
    txn
}

/// A scan looks at the page to which its last leaf led before it finds out that it was unlinked.
#[test]
fn versions_are_found_although_somebody_looked_at_their_page_before_they_were_there() {
    let disk = SimDisk::new(1);
    let db = create(&disk, true);
    let (kept, dropped) = (made(&db), made(&db));
    db.checkpoint().expect("the old page is on disk");
    let txn = begin(&db);
    db.drop_tree(&txn, dropped).expect("drops");
    txn.commit(Durability::Full).expect("commits");
    settle(&db);
    let txn = changes(&db, kept);
    let other = Arc::downgrade(&db);
    visit(move |name| {
        if let Some(db) = other.upgrade().filter(|_| name == "versions.to_be_placed") {
            drop(db.pool().read(db.store(), dropped.0).expect("reads"));
        }
    });
    db.checkpoint().expect("the versions get pages");
    visit(|_| {});
    assert_eq!(db.version_pages(), [dropped.0]);
    for chunk in db.versions().all_chunks() {
        db.read_version_pages(&chunk).expect("they are there");
    }
    txn.rollback().expect("rolls back");
    check(&db, &[kept]);
}

/// Below the watermark every writer counts as committed: one whose changes are still there must stay above it.
#[test]
fn a_rollback_that_cannot_be_logged_leaves_the_transaction_unresolved() {
    for (accelerated, is_dropped) in [(false, false), (false, true), (true, false), (true, true)] {
        let disk = SimDisk::new(1);
        let db = create(&disk, accelerated);
        let tree = made(&db);
        let txn = begin(&db);
        insert(&db, &txn, tree, b"uncommitted");
        let id = txn.id();
        db.store.log.fence("a test");
        match is_dropped {
            true => drop(txn),
            false => assert!(txn.rollback().is_err()),
        }
        db.advance_watermark();
        assert!(db.txns.base() <= id, "{accelerated} {is_dropped}");
        assert_eq!(db.txns.status(id), crate::status::TxnStatus::Active);
    }
}

/// A checkpoint between the last record of a rollback and its end in memory must not tell of an open transaction: a copy of
/// the database would have no log to undo it with.
#[test]
fn a_rollback_that_is_logged_to_its_end_is_over_for_a_checkpoint() {
    let disk = SimDisk::new(1);
    let db = create(&disk, false);
    let kept = made(&db);
    let txn = changes(&db, kept);
    checkpoint_at(&db, "undo.ended");
    txn.rollback().expect("rolls back");
    visit(|_| {});
    drop(txn);
    drop(db);
    disk.crash();
    let (db, report) = engine(&disk)
        .open_database(DatabaseId(5), "t", files())
        .expect("opens");
    assert_eq!(report.rolled_back, 0);
    check(&db, &[kept]);
}

/// Another opener may have the files once a database is closed: nothing may be written to them from then on.
#[test]
fn closing_waits_for_the_step_of_background_work_that_is_under_way() {
    let disk = SimDisk::new(1);
    let db = create(&disk, true);
    made(&db);
    let (told, is_told) = channel();
    let other = Arc::downgrade(&db);
    visit(move |name| {
        let Some(db) = other.upgrade().filter(|_| name == "checkpoint.begun") else {
            return;
        };
        let (waits, closed) = (told.clone(), told.clone());
        std::thread::spawn(move || {
            // Nobody listens any more when the step is over.
            visit(move |name| {
                if name == "close.waits" {
                    let _ = waits.send("it waits");
                }
            });
            let _ = db.close();
            let _ = closed.send("it is closed");
        });
        let first = is_told.recv_timeout(Duration::from_secs(300));
        assert_eq!(first, Ok("it waits"));
        assert!(!is_told.try_iter().any(|now| now == "it is closed"));
    });
    db.checkpoint().expect("a checkpoint");
    visit(|_| {});
    while !db.is_closed() || db.pool().min_rec_lsn(db.store()).is_some() {
        std::thread::yield_now();
    }
}

/// New space of many gigabytes takes minutes to write.
#[test]
fn commits_go_on_while_the_log_file_grows() {
    let disk = SimDisk::new(1);
    let db = create(&disk, false);
    let tree = made(&db);
    let log = db
        .files()
        .into_iter()
        .find(|f| f.spec.filegroup == 0)
        .expect("a log");
    let (other, commits) = (Arc::downgrade(&db), Arc::new(AtomicU64::new(0)));
    let counted = commits.clone();
    visit(move |name| {
        let Some(db) = other.upgrade().filter(|_| name == "log.growing") else {
            return;
        };
        let txn = begin(&db);
        let key = counted.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        insert(&db, &txn, tree, &key);
        txn.commit(Durability::Full).expect("commits");
    });
    let size = log.size_pages + 8_192;
    db.modify_file(log.spec.id, size, log.spec.growth, None)
        .expect("grows");
    assert_eq!(commits.load(Ordering::Relaxed), 1);
    assert!(db.log_stats().size_bytes >= size * 8_192 - (1 << 20));
    visit(|_| {});
    // The new space counts, and outlives a power loss.
    let size = db.log_stats().size_bytes;
    db.flush_log().expect("hard");
    drop(db);
    disk.crash();
    let opened = engine(&disk).open_database(DatabaseId(5), "t", files());
    assert_eq!(opened.expect("opens").0.log_stats().size_bytes, size);
}

/// A reader without a snapshot follows a version of an open transaction to its pages. Before it has read them the transaction
/// commits, nobody needs the version any more, and its pages hold versions of somebody else.
#[test]
fn a_version_whose_pages_went_while_it_was_looked_for_is_no_damage() {
    let disk = SimDisk::new(1);
    let db = create(&disk, true);
    let (read, other) = (made(&db), made(&db));
    let change = |db: &Arc<Database>, tree: TreeId| {
        let txn = begin(db);
        let rows = db.tree(tree).expect("a tree");
        let entry = rows.get(&txn.view(Isolation::Current), b"kept");
        let stamp = entry.expect("reads").expect("is there").stamp;
        let changed = rows.update(&txn, b"kept", stamp, &[2; 100]);
        assert_eq!(changed.expect("updates"), WriteOutcome::Done);
        assert_eq!(db.place_some_versions(0, 9).expect("places"), 1);
        txn
    };
    let txn = change(&db, read);
    let chunks = db.versions().all_chunks();
    chunks.iter().for_each(|c| db.versions().forget_memory(c));
    let first = db.version_pages();
    let view = begin(&db).view(Isolation::Current);
    let visited = Arc::new(AtomicBool::new(false));
    let (was_visited, db_there) = (visited.clone(), db.clone());
    visit(move |name| {
        if name != "version.on_pages" || visited.swap(true, Ordering::Relaxed) {
            return;
        }
        txn.commit(Durability::Full).expect("commits");
        while db_there.clean_versions().expect("cleans") {}
        assert_eq!(db_there.version_pages(), []);
        let txn = change(&db_there, other);
        assert_eq!(db_there.version_pages(), first, "the same pages");
        txn.commit(Durability::Full).expect("commits");
    });
    let rows = db.tree(read).expect("a tree");
    let entry = rows.get(&view, b"kept").expect("reads");
    assert_eq!(entry.expect("is there").payload, [2; 100]);
    assert!(was_visited.load(Ordering::Relaxed));
    visit(|_| {});
}

/// A reader of uncommitted rows finds a long value, and looks into it after its transaction was rolled back.
#[test]
fn a_long_value_that_is_rolled_back_stays_for_those_who_read_before() {
    for accelerated in [false, true] {
        for undo_at_once in [0, 1 << 20] {
            let disk = SimDisk::new(1);
            let db = create(&disk, accelerated);
            db.set_undo_at_once_bytes(undo_at_once);
            let txn = begin(&db);
            let value = [7; 20_000];
            let blob = db.put_blob(&txn, &value).expect("stores");
            let reader = begin(&db).view(Isolation::ReadCommittedSnapshot);
            txn.rollback().expect("rolls back");
            settle(&db);
            assert_eq!(db.get_blob(blob).expect("reads"), value);
            drop(reader);
            settle(&db);
            assert!(db.get_blob(blob).is_err(), "it is freed");
        }
    }
}

/// Hands the blocks of another database's log on to its copy; where they end.
fn ship(feed: &mut crate::log::LogFeed, copy: &Database) -> Lsn {
    while let Ok(crate::log::Fed::Block(block)) = feed.try_next() {
        copy.append_block(block.used()).expect("fits");
    }
    copy.sync_blocks().expect("syncs")
}

fn commit_row(db: &Arc<Database>, tree: TreeId, key: &[u8]) {
    let txn = begin(db);
    insert(db, &txn, tree, key);
    txn.commit(Durability::Full).expect("commits");
}

/// The boot page says how far the log is hard whenever it is written, and somebody may write it while the tail is cut off.
#[test]
fn the_boot_page_never_tells_of_a_tail_that_is_cut_off() {
    let disk = SimDisk::new(1);
    let copy = create(&disk, true);
    let tree = made(&copy);
    copy.follow_log().expect("follows");
    let (leader, _) = engine(&disk.fork(1))
        .open_database(DatabaseId(5), "t", files())
        .expect("opens");
    let feed = leader.log_feed(copy.hardened_lsn(), "AVAILABILITY_REPLICA");
    let mut feed = feed.expect("is there");
    commit_row(&leader, tree, b"kept too");
    let at = ship(&mut feed, &copy);
    commit_row(&leader, tree, b"cut off");
    assert!(ship(&mut feed, &copy) > at);
    let other = Arc::downgrade(&copy);
    visit(move |name| {
        if let Some(copy) = other.upgrade().filter(|_| name == "log.tail.untold") {
            copy.note_told().expect("writes");
        }
    });
    copy.cut_log_tail(at).expect("cuts");
    visit(|_| {});
    assert!(copy.store.files.boot().hard <= at);
    drop(copy);
    disk.crash();
    let opened = engine(&disk).open_database(DatabaseId(5), "t", files());
    opened.expect("nothing is missing");
}

/// A log backup that was taken of the tail is of a path that was left: the next one would begin behind what is in no backup.
#[test]
fn a_log_chain_beyond_the_tail_that_is_cut_off_is_broken() {
    for is_beyond in [false, true] {
        let disk = SimDisk::new(1);
        let copy = create(&disk, true);
        let tree = made(&copy);
        copy.follow_log().expect("follows");
        let (leader, _) = engine(&disk.fork(1))
            .open_database(DatabaseId(5), "t", files())
            .expect("opens");
        let feed = leader.log_feed(copy.hardened_lsn(), "AVAILABILITY_REPLICA");
        let mut feed = feed.expect("is there");
        commit_row(&leader, tree, b"kept too");
        let at = ship(&mut feed, &copy);
        commit_row(&leader, tree, b"cut off");
        let end = ship(&mut feed, &copy);
        let saved_to = if is_beyond { end } else { at };
        let noted = copy.store.write_boot(|boot| boot.log_backup = saved_to);
        noted.expect("writes");
        copy.cut_log_tail(at).expect("cuts");
        let chain = if is_beyond { Lsn::NONE } else { at };
        assert_eq!(copy.log_backup_start(), chain);
    }
}

/// The log goes on behind what was redone: a block of the old primary that came now would lie in its way.
#[test]
fn a_block_that_comes_while_its_node_is_promoted_is_refused() {
    use crate::follow::Secondary;
    let disk = SimDisk::new(1);
    let db = create(&disk, true);
    let tree = made(&db);
    db.checkpoint().expect("a checkpoint");
    let other = engine(&disk.fork(1));
    let opening = Opening::default();
    let secondary = Secondary::open(&other, DatabaseId(5), "t", files(), None, opening);
    let secondary = secondary.expect("opens");
    let feed = db.log_feed(secondary.hardened(), "AVAILABILITY_REPLICA");
    let mut feed = feed.expect("is there");
    commit_row(&db, tree, b"received");
    ship(&mut feed, secondary.unread_database());
    commit_row(&db, tree, b"late");
    let Ok(crate::log::Fed::Block(late)) = feed.try_next() else {
        panic!("a block is there");
    };
    let copy = Arc::downgrade(secondary.unread_database());
    let came = Arc::new(AtomicU64::new(0));
    let counted = came.clone();
    visit(move |name| {
        if let Some(copy) = copy.upgrade().filter(|_| name == "promote.begun") {
            counted.fetch_add(1, Ordering::Relaxed);
            assert!(copy.append_block(late.used()).is_err());
        }
    });
    let promoted = secondary.promote(&|_| panic!("nothing is prepared"));
    visit(|_| {});
    let promoted = promoted.expect("is promoted");
    assert_eq!(came.load(Ordering::Relaxed), 1);
    commit_row(&promoted, tree, b"late");
}

#[test]
fn a_full_file_that_another_grows_to_its_limit_is_looked_at_again() {
    let disk = SimDisk::new(1);
    let mut files = files();
    files[0].growth = crate::api::Growth::Pages(256);
    files[0].max_pages = Some(512);
    let created = engine(&disk).create_database(DatabaseId(5), "t", files, Settings::default());
    let db = created.expect("creates");
    let other = Arc::downgrade(&db);
    visit(move |name| {
        if let Some(db) = other.upgrade().filter(|_| name == "alloc.full") {
            db.store().grow(1, 256).expect("grows");
        }
    });
    // More than the file has, and less than it can have.
    let found = db.choose_in_filegroup(1, 256, Reach::WithinLimits);
    visit(|_| {});
    assert!(found.is_ok(), "{:?}", found.err());
}
