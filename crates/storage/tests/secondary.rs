//! A secondary that follows the log of a primary, both on simulated disks: what its readers see at every commit and while redo
//! runs, what a stop leaves, whether its pages are the primary's, and what a promotion makes of it.

mod common;

use common::*;
use daruma_base::{Disk, Lsn, OpenMode};
use daruma_sim::{Faults, SimDisk, SimRandom};
use daruma_storage::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const DATA: &str = "/t.mdf";
const LOG: &str = "/t_log.ldf";
const PAGE: usize = 8192;

fn files() -> Vec<FileSpec> {
    vec![FileSpec::data(1, 1, DATA, 256), FileSpec::log(LOG, 4_096)]
}

fn write_file(disk: &Arc<SimDisk>, path: &str, content: &[u8]) {
    let path = Path::new(path);
    let mode = match disk.exists(path).expect("looks") {
        true => OpenMode::ReadWrite,
        false => OpenMode::CreateNew,
    };
    let file = disk.open(path, mode).expect("opens");
    file.set_len(content.len() as u64).expect("sizes");
    file.write_at(content, 0).expect("writes");
    file.sync_data().expect("syncs");
    disk.sync_dir(Path::new("/")).expect("syncs");
}

fn content(disk: &Arc<SimDisk>, path: &str) -> Vec<u8> {
    disk.content_of(Path::new(path)).expect("is there")
}

/// A primary, with what it held at each commit.
struct Primary {
    disk: Arc<SimDisk>,
    db: Arc<Database>,
    tree: TreeId,
    slow_tree: TreeId,
    model: Model,
    slow: Option<(Txn, Model)>,
    slow_model: Model,
    /// End of the log behind a commit, and the rows of both trees.
    history: Vec<(Lsn, Model, Model)>,
}

const KEYS: u64 = 120;

impl Primary {
    fn new(seed: u64, settings: Settings) -> Primary {
        let disk = SimDisk::new(seed);
        let db = engine(&disk, seed, 96)
            .create_database(DB, "t", files(), settings)
            .expect("creates");
        let txn = db.begin(&owner(1));
        let tree = db.create_tree(&txn, 1).expect("tree");
        let slow_tree = db.create_tree(&txn, 1).expect("tree");
        txn.commit(Durability::Full).expect("commits");
        Primary {
            disk,
            db,
            tree,
            slow_tree,
            model: Model::new(),
            slow: None,
            slow_model: Model::new(),
            history: Vec::new(),
        }
    }

    fn note(&mut self) {
        self.db.flush_log().expect("flushes");
        let at = self.db.hardened_lsn();
        self.history
            .push((at, self.model.clone(), self.slow_model.clone()));
    }

    /// A transaction, a step of a long one, or work in the background.
    fn step(&mut self, random: &SimRandom) {
        match random.below(10) {
            0 => {
                self.db.background_step().expect("background");
            }
            1 if random.below(2) == 0 => self.db.checkpoint().expect("checkpoint"),
            2 | 3 => self.slow_step(random),
            _ => {
                let done = random_txn(random, &self.db, self.tree, &mut self.model, KEYS);
                assert!(done.is_ok(), "the primary has no faults");
            }
        }
        self.note();
    }

    fn slow_step(&mut self, random: &SimRandom) {
        let (txn, mut model) = match self.slow.take() {
            Some(slow) => slow,
            None => (self.db.begin(&owner(77)), self.slow_model.clone()),
        };
        let tree = self.db.tree(self.slow_tree).expect("tree");
        for _ in 0..random.below(30) {
            random_change(random, &tree, &txn, &mut model, KEYS).expect("changes");
        }
        match random.below(6) {
            0 => {
                txn.commit(Durability::Full).expect("commits");
                self.slow_model = model;
            }
            1 => txn.rollback().expect("rolls back"),
            _ => self.slow = Some((txn, model)),
        }
    }

    /// The data files as they are on disk now, and the position behind which they have nothing.
    fn copy_data(&self) -> (Vec<u8>, Lsn) {
        self.db.flush_log().expect("flushes");
        (content(&self.disk, DATA), self.db.hardened_lsn())
    }

    /// A disk with that copy and the log of now.
    fn disk_of_secondary(&self, data: &[u8], seed: u64) -> Arc<SimDisk> {
        let disk = SimDisk::new(seed);
        write_file(&disk, DATA, data);
        write_file(&disk, LOG, &content(&self.disk, LOG));
        disk
    }

    fn at(&self, position: Lsn) -> (&Model, &Model) {
        let index = self.history.partition_point(|(at, _, _)| *at <= position);
        let (_, rows, slow) = &self.history[index - 1];
        (rows, slow)
    }
}

fn secondary(disk: &Arc<SimDisk>, pages: usize, floor: Option<Lsn>) -> Result<Arc<Secondary>> {
    let engine = engine(disk, 9, pages);
    Secondary::open(&engine, DB, "t", files(), floor, Opening::default())
}

fn rows(view: &ReadView, tree: TreeId) -> Result<Model> {
    let mut rows = Model::new();
    let tree = view.txn().database().tree(tree)?;
    let mut scan = tree.scan(view, ScanSpec::all());
    let mut batch = Batch::new();
    while scan.next(&mut batch)? {
        for i in 0..batch.len() {
            let twice = rows.insert(batch.key(i).to_vec(), batch.payload(i).to_vec());
            assert_eq!(twice, None, "a key is there twice");
        }
    }
    Ok(rows)
}

fn settings(accelerated_recovery: bool) -> Settings {
    Settings {
        accelerated_recovery,
        ..Settings::default()
    }
}

/// At every commit of a random history, and through snapshots that stay open while more is redone.
#[test]
fn readers_see_at_each_position_what_the_primary_had_there() {
    for seed in 0..6 {
        let random = SimRandom::new(seed);
        let mut primary = Primary::new(seed, settings(seed % 2 == 0));
        // As a standing pin would: nothing is cleaned that the secondary's snapshots need.
        let pin = primary.db.begin(&owner(5));
        let _pinned = pin.view(Isolation::Snapshot);
        primary.note();
        let (data, floor) = primary.copy_data();
        (0..150).for_each(|_| primary.step(&random));
        let disk = primary.disk_of_secondary(&data, seed);
        let follower = secondary(&disk, 48, Some(floor)).expect("opens");
        let owner = owner(3);
        let mut kept: Vec<(Txn, ReadView, Lsn)> = Vec::new();
        for (at, model, slow) in &primary.history {
            assert_eq!(follower.apply(*at).expect("applies"), *at);
            let db = follower.database().expect("is readable");
            let txn = db.begin(&owner);
            let view = txn.view(Isolation::Snapshot);
            same(&rows(&view, primary.tree).expect("reads"), model, seed);
            same(&rows(&view, primary.slow_tree).expect("reads"), slow, seed);
            match random.below(4) {
                0 => kept.push((txn, view, *at)),
                1 if !kept.is_empty() => {
                    let (_txn, view, at) =
                        kept.swap_remove(random.below(kept.len() as u64) as usize);
                    let (model, slow) = primary.at(at);
                    same(&rows(&view, primary.tree).expect("reads"), model, seed);
                    same(&rows(&view, primary.slow_tree).expect("reads"), slow, seed);
                }
                _ => {}
            }
            if random.below(10) == 0 {
                follower.restart_point().expect("restart point");
            }
        }
        let txn = follower.database().expect("is readable").begin(&owner);
        let tree = follower.database().expect("is readable").tree(primary.tree);
        let refused = tree.expect("tree").insert(&txn, b"k", b"v");
        assert!(matches!(
            refused,
            Err(StorageError::NotOnline { state: "read-only" })
        ));
    }
}

/// Fed live from the primary's log, at its own pace, stopped in between; what has come and is not applied is not seen.
#[test]
fn a_secondary_follows_the_feed_of_its_primary() {
    let random = SimRandom::new(11);
    let mut primary = Primary::new(11, settings(true));
    primary.note();
    let (data, floor) = primary.copy_data();
    let disk = primary.disk_of_secondary(&data, 11);
    let follower = secondary(&disk, 48, Some(floor)).expect("opens");
    follower.apply(floor).expect("applies");
    let mut feed = primary.db.log_feed(floor, "secondary").expect("is there");
    let pin = primary.db.pin_for_secondary(42, follower.low_water_mark());
    let owner = owner(3);
    for _ in 0..60 {
        primary.step(&random);
        let db = follower.database().expect("is readable");
        let txn = db.begin(&owner);
        let before = follower.applied();
        while let Fed::Block(block) = feed.try_next().expect("feeds") {
            db.append_block(block.used()).expect("fits");
        }
        db.sync_blocks().expect("syncs");
        let view = txn.view(Isolation::Snapshot);
        let at = view.position().expect("a snapshot");
        assert!(at < before, "{at} is not applied: {before}");
        follower.apply(Lsn::MAX).expect("applies");
        let (model, slow) = primary.at(before);
        same(&rows(&view, primary.tree).expect("reads"), model, before);
        same(
            &rows(&view, primary.slow_tree).expect("reads"),
            slow,
            before,
        );
        assert_eq!(follower.applied(), primary.db.hardened_lsn());
        follower.restart_point().expect("restart point");
        pin.advance(follower.low_water_mark());
    }
    let promoted = follower.promote(&|_| panic!("nothing is prepared"));
    let promoted = promoted.expect("is promoted");
    let (model, slow) = primary.at(Lsn::MAX);
    same(&dump(&promoted, primary.tree), model, "promoted");
    same(&dump(&promoted, primary.slow_tree), slow, "promoted");
    let mut written = model.clone();
    let done = random_txn(&random, &promoted, primary.tree, &mut written, KEYS);
    assert!(done.is_ok());
    same(&dump(&promoted, primary.tree), &written, "written");
}

/// A reader stays while the primary deletes what it reads and cleans up; the pin lets that be when the reader has gone.
#[test]
fn a_standing_pin_spares_what_readers_elsewhere_need() {
    let random = SimRandom::new(7);
    let mut primary = Primary::new(7, settings(true));
    (0..40).for_each(|_| primary.step(&random));
    let (data, floor) = primary.copy_data();
    let read_at = primary.history.last().expect("a history").0;
    let disk = primary.disk_of_secondary(&data, 7);
    let follower = secondary(&disk, 48, Some(floor)).expect("opens");
    follower.apply(floor).expect("applies");
    let pin = primary.db.pin_for_secondary(42, follower.low_water_mark());
    let cleaned = |primary: &mut Primary| {
        (0..120).for_each(|_| primary.step(&random));
        primary.slow = None;
        settle(&primary.db);
        primary.note();
    };
    cleaned(&mut primary);
    let kept = primary.db.version_pins();
    assert!(
        kept.iter()
            .any(|p| p.kind == PinKind::Snapshot && p.owner == 42)
    );
    drop(follower);
    let disk = primary.disk_of_secondary(&data, 8);
    let follower = secondary(&disk, 48, Some(floor)).expect("opens");
    follower.apply(read_at).expect("applies");
    let db = follower.database().expect("is readable");
    let owner = owner(3);
    let txn = db.begin(&owner);
    let view = txn.view(Isolation::Snapshot);
    follower.apply(Lsn::MAX).expect("applies");
    let (model, slow) = primary.at(read_at);
    same(&rows(&view, primary.tree).expect("reads"), model, read_at);
    same(
        &rows(&view, primary.slow_tree).expect("reads"),
        slow,
        read_at,
    );
    assert_eq!(
        follower.low_water_mark(),
        view.position().expect("a snapshot")
    );
    drop((view, txn));
    assert!(follower.low_water_mark() > pin.position());
    pin.advance(follower.low_water_mark());
    settle(&primary.db);
    let kept = primary.db.version_pins();
    assert!(kept.iter().all(|p| p.bytes() == 0), "{kept:?}");
}

/// Splits, unlinked leaves, grown roots: each scan is one state, whatever is redone beside it.
#[test]
fn readers_beside_redo_see_one_state_each() {
    for seed in 0..3 {
        let random = SimRandom::new(100 + seed);
        let mut primary = Primary::new(seed, settings(seed % 2 == 0));
        (0..60).for_each(|_| primary.step(&random));
        let before = primary.db.hardened_lsn();
        let (data, floor) = primary.copy_data();
        let pin = primary.db.begin(&owner(5));
        let _pinned = pin.view(Isolation::Snapshot);
        primary.note();
        // Much goes that the snapshots do not see, and leaves are unlinked beside them.
        (0..250).for_each(|_| primary.step(&random));
        let disk = primary.disk_of_secondary(&data, seed);
        let follower = secondary(&disk, 64, Some(floor)).expect("opens");
        follower.apply(before.max(floor)).expect("applies");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let (follower, primary, is_over) = (&follower, &primary, &is_over);
                scope.spawn(move || {
                    let owner = owner(10 + reader);
                    let mut scans = 0;
                    while !is_over.load(Ordering::Acquire) || scans == 0 {
                        let db = follower.database().expect("is readable");
                        let txn = db.begin(&owner);
                        let view = txn.view(Isolation::Snapshot);
                        let at = Lsn(view.position().expect("a snapshot").0 + 1);
                        let (model, slow) = primary.at(at);
                        same(&rows(&view, primary.tree).expect("reads"), model, seed);
                        same(&rows(&view, primary.slow_tree).expect("reads"), slow, seed);
                        for key in model.keys().take(5) {
                            let tree = db.tree(primary.tree).expect("tree");
                            let found = tree.get(&view, key).expect("reads");
                            assert_eq!(found.map(|e| e.payload).as_ref(), model.get(key));
                        }
                        scans += 1;
                    }
                });
            }
            for (at, _, _) in &primary.history {
                follower.apply(*at).expect("applies");
            }
            is_over.store(true, Ordering::Release);
        });
    }
}

/// As an assertion that they are equal, in few words.
fn same(found: &Model, wanted: &Model, at: impl std::fmt::Display) {
    let differs = |key: &&Vec<u8>| found.get(*key) != wanted.get(*key);
    let keys = found.keys().chain(wanted.keys()).filter(differs).count();
    let (found, wanted) = (found.len(), wanted.len());
    assert_eq!(
        keys, 0,
        "{at}: {found} rows for {wanted}, and {keys} keys differ"
    );
}

/// Leaves that a scan is about to come to are moved to another file, and unlinked, while it rests.
#[test]
fn a_scan_goes_on_when_redo_has_moved_the_pages_before_it() {
    let files = || {
        let mut files = files();
        files.push(FileSpec::data(3, 1, "/t3.ndf", 256));
        files
    };
    let disk = SimDisk::new(1);
    let db = engine(&disk, 1, 96);
    let db = db.create_database(DB, "t", files(), Settings::default());
    let db = db.expect("creates");
    let close = |file, is_closed| db.close_file(file, is_closed).expect("closes");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    close(1, true);
    fill(&db, &txn, tree, 0..2_000, 7);
    txn.commit(Durability::Full).expect("commits");
    let copied = [DATA, "/t3.ndf"].map(|path| (path, content(&disk, path)));
    let floor = db.hardened_lsn();
    close(1, false);
    close(3, true);
    let moved = db.move_tree_out(tree, 3, &owner(1), &mut || Ok(()));
    assert!(moved.expect("moves") > 20);
    db.flush_log().expect("flushes");
    let other = SimDisk::new(2);
    for (path, bytes) in copied {
        write_file(&other, path, &bytes);
    }
    write_file(&other, LOG, &content(&disk, LOG));
    let engine = engine(&other, 2, 96);
    let opened = Secondary::open(&engine, DB, "t", files(), Some(floor), Opening::default());
    let follower = opened.expect("opens");
    follower.apply(floor).expect("applies");
    let reader = follower.database().expect("is readable").begin(&owner(3));
    let view = reader.view(Isolation::Snapshot);
    let rows = reader.database().tree(tree).expect("tree");
    let mut scan = rows.scan(&view, ScanSpec::all());
    let mut batch = Batch::new();
    assert!(scan.next(&mut batch).expect("scans"));
    let mut found = batch.len();
    follower.apply(Lsn::MAX).expect("applies");
    while scan.next(&mut batch).expect("scans") {
        found += batch.len();
    }
    assert_eq!(found, 2_000);
}

/// Pages of the two databases, both of which have written all they have in memory.
fn compare_pages(primary: &Arc<SimDisk>, secondary: &Arc<SimDisk>) {
    let (one, other) = (content(primary, DATA), content(secondary, DATA));
    let is_used = |file: &[u8], page: usize| {
        let map = &file[PAGE..2 * PAGE];
        map[HEADER + page / 8] & (1 << (page % 8)) != 0
    };
    let pages = one.len().min(other.len()) / PAGE;
    let mut compared = 0;
    for page in (4..pages).filter(|page| !DOUBLE_WRITE.contains(page)) {
        assert_eq!(is_used(&one, page), is_used(&other, page), "page {page}");
        if is_used(&one, page) {
            let of = |file: &[u8]| file[page * PAGE..(page + 1) * PAGE].to_vec();
            assert!(of(&one) == of(&other), "page {page} differs");
            compared += 1;
        }
    }
    assert!(compared > 3, "only {compared} pages are in use");
}

/// Bytes before the content of a page.
const HEADER: usize = 64;
/// Of no database in particular.
const DOUBLE_WRITE: std::ops::Range<usize> = 31..160;

/// Equal `applied` means equal pages.
#[test]
fn pages_are_the_primarys() {
    for seed in 0..6 {
        let random = SimRandom::new(200 + seed);
        let mut primary = Primary::new(seed, settings(true));
        primary.note();
        let (data, floor) = primary.copy_data();
        (0..150).for_each(|_| primary.step(&random));
        if let Some((txn, _)) = primary.slow.take() {
            txn.rollback().expect("rolls back");
        }
        settle(&primary.db);
        primary.db.checkpoint().expect("checkpoint");
        primary.db.checkpoint().expect("checkpoint");
        let disk = primary.disk_of_secondary(&data, seed);
        let follower = secondary(&disk, 48, Some(floor)).expect("opens");
        follower.apply(Lsn::MAX).expect("applies");
        follower.restart_point().expect("restart point");
        compare_pages(&primary.disk, &disk);
    }
}

/// Power is lost at a random write, again and again; each time it goes on from its restart point, and readers find what was there.
#[test]
fn a_secondary_that_stops_goes_on() {
    for seed in 0..4 {
        let random = SimRandom::new(300 + seed);
        let mut primary = Primary::new(seed, settings(seed % 2 == 0));
        let pin = primary.db.begin(&owner(5));
        let _pinned = pin.view(Isolation::Snapshot);
        primary.note();
        let (data, _) = primary.copy_data();
        (0..120).for_each(|_| primary.step(&random));
        let disk = primary.disk_of_secondary(&data, seed);
        let mut starts = Vec::new();
        for stop in 0..12 {
            let follower = secondary(&disk, 24, None).expect("opens");
            starts.push(follower.applied());
            disk.set_faults(Faults {
                stop_at: (stop < 11).then(|| disk.calls() + random.below(1_000)),
                ..Faults::default()
            });
            let result = (|| {
                for (at, _, _) in &primary.history {
                    follower.apply(*at)?;
                    if random.below(6) == 0 {
                        follower.restart_point()?;
                    }
                }
                Ok::<_, StorageError>(())
            })();
            if stop == 11 {
                result.expect("nothing fails any more");
                let (_, model, slow) = primary.history.last().expect("a history");
                if let Ok(db) = follower.database() {
                    let txn = db.begin(&owner(3));
                    let view = txn.view(Isolation::Snapshot);
                    same(&rows(&view, primary.tree).expect("reads"), model, seed);
                    same(&rows(&view, primary.slow_tree).expect("reads"), slow, seed);
                }
                let db = follower.promote(&|_| panic!("nothing is prepared"));
                let db = db.expect("is promoted");
                same(&dump(&db, primary.tree), model, seed);
                same(&dump(&db, primary.slow_tree), slow, seed);
            } else {
                drop(follower);
                disk.crash();
                disk.restart();
            }
        }
        assert!(starts.windows(2).all(|w| w[0] <= w[1]), "{starts:?}");
        assert!(starts[0] < starts[11], "no restart point was made");
    }
}

/// With a transaction open: its changes count for nothing at once, its rows can be written, and a crash just after is recovered.
#[test]
fn a_promoted_secondary_is_a_primary() {
    for seed in 0..6 {
        let random = SimRandom::new(400 + seed);
        let accelerated = seed % 2 == 0;
        let mut primary = Primary::new(seed, settings(accelerated));
        let pin = primary.db.begin(&owner(5));
        let _pinned = pin.view(Isolation::Snapshot);
        primary.note();
        let (data, floor) = primary.copy_data();
        (0..80).for_each(|_| primary.step(&random));
        primary.slow = None;
        let slow = primary.db.begin(&owner(78));
        let tree = primary.db.tree(primary.slow_tree).expect("tree");
        let mut lost = primary.slow_model.clone();
        for _ in 0..200 {
            random_change(&random, &tree, &slow, &mut lost, KEYS).expect("changes");
        }
        primary.note();
        let disk = primary.disk_of_secondary(&data, seed);
        let follower = secondary(&disk, 64, Some(floor)).expect("opens");
        let middle = primary.history[primary.history.len() / 2].0;
        follower.apply(middle).expect("applies");
        let old = follower.unread_database().begin(&owner(4));
        let view = old.view(Isolation::Snapshot);
        let db = follower.promote(&|_| panic!("nothing is prepared"));
        let db = db.expect("is promoted");
        assert!(follower.apply(Lsn::MAX).is_err());
        let (model, slow_model) = (primary.model.clone(), primary.slow_model.clone());
        same(&dump(&db, primary.tree), &model, seed);
        same(&dump(&db, primary.slow_tree), &slow_model, seed);
        let mut written = model;
        while db.background_step().expect("background") {}
        let mut slow_now = slow_model;
        for _ in 0..30 {
            for (tree, rows) in [
                (primary.tree, &mut written),
                (primary.slow_tree, &mut slow_now),
            ] {
                let done = random_txn(&random, &db, tree, rows, KEYS);
                assert!(done.is_ok(), "seed {seed}");
            }
            db.background_step().expect("background");
        }
        let (then, then_slow) = primary.at(middle);
        same(&rows(&view, primary.tree).expect("reads"), then, seed);
        same(
            &rows(&view, primary.slow_tree).expect("reads"),
            then_slow,
            seed,
        );
        drop((view, old, db, follower));
        disk.crash();
        disk.restart();
        let engine = engine(&disk, seed, 64);
        let (db, _) = engine.open_database(DB, "t", files()).expect("recovers");
        same(&dump(&db, primary.tree), &written, seed);
        same(&dump(&db, primary.slow_tree), &slow_now, seed);
    }
}

/// Hands on what the primary has, and redoes it.
fn follow_up(feed: &mut LogFeed, follower: &Secondary) {
    let copy = follower.unread_database();
    while let Fed::Block(block) = feed.try_next().expect("feeds") {
        copy.append_block(block.used()).expect("fits");
    }
    let hard = copy.sync_blocks().expect("syncs");
    feed.release_below(hard);
    follower.apply(hard).expect("applies");
}

/// It follows for ever: log that neither a restart nor a promotion needs is written over.
#[test]
fn the_log_of_a_secondary_is_used_again() {
    for is_accelerated in [true, false] {
        let primary = SimDisk::new(1);
        let (db, tree) = create(&primary, 1, 96, settings(is_accelerated));
        let txn = db.begin(&owner(2));
        let slow_tree = db.create_tree(&txn, 1).expect("tree");
        fill(&db, &txn, tree, 0..300, 7);
        txn.commit(Durability::Full).expect("commits");
        db.checkpoint().expect("checkpoint");
        let disk = primary.fork(2);
        let follower = secondary(&disk, 96, None).expect("opens");
        let start = follower.hardened();
        let mut feed = db
            .log_feed(start, "AVAILABILITY_REPLICA")
            .expect("is there");
        let log_bytes = || follower.unread_database().log_stats().size_bytes;
        let size = log_bytes();
        let mut round = |byte: u8| {
            let txn = db.begin(&owner(2));
            update_all(&db, &txn, tree, &[byte; 150]);
            txn.commit(Durability::Full).expect("commits");
            settle(&db);
            db.checkpoint().expect("checkpoint");
            follow_up(&mut feed, &follower);
            follower.restart_point().expect("restart point");
        };
        while follower.hardened().0 - start.0 < 8 * size {
            (0..20).for_each(&mut round);
        }
        assert!(log_bytes() <= 2 * size, "{} of {size}", log_bytes());
        // From here on the log of an open transaction is needed for its rollback, if it is a classic one.
        let open = db.begin(&owner(3));
        fill(&db, &open, slow_tree, 0..100, 9);
        (0..40).for_each(&mut round);
        let expected = dump(&db, tree);
        drop((feed, follower));
        disk.crash();
        let follower = secondary(&disk, 96, None).expect("opens");
        let promoted = follower.promote(&|_| panic!("nothing is prepared"));
        let promoted = promoted.expect("is promoted");
        settle(&promoted);
        same(&dump(&promoted, tree), &expected, 1);
        same(&dump(&promoted, slow_tree), &Model::new(), 1);
    }
}

/// A full backup begins a chain of log backups where it began itself, and the primary keeps the log for it. A secondary learns of that at the
/// end, when it may not have that log any more.
#[test]
fn a_chain_goes_on_at_the_new_primary_if_its_log_is_there() {
    let full = Settings {
        recovery_model: RecoveryModel::Full,
        ..settings(true)
    };
    for is_kept in [true, false] {
        let primary = SimDisk::new(1);
        let (db, tree) = create(&primary, 1, 96, full);
        let txn = db.begin(&owner(2));
        fill(&db, &txn, tree, 0..300, 7);
        txn.commit(Durability::Full).expect("commits");
        db.checkpoint().expect("checkpoint");
        let follower = secondary(&primary.fork(2), 96, None).expect("opens");
        let start = follower.hardened();
        let _backup = db
            .hold_log(start, "ACTIVE_BACKUP_OR_RESTORE")
            .expect("is there");
        let mut feed = db
            .log_feed(start, "AVAILABILITY_REPLICA")
            .expect("is there");
        let log_bytes = follower.unread_database().log_stats().size_bytes;
        while follower.hardened().0 - start.0 < 4 * log_bytes {
            for byte in 0..20 {
                let txn = db.begin(&owner(2));
                update_all(&db, &txn, tree, &[byte; 150]);
                txn.commit(Durability::Full).expect("commits");
            }
            db.checkpoint().expect("checkpoint");
            follow_up(&mut feed, &follower);
            follower.restart_point().expect("restart point");
        }
        let from = if is_kept { follower.hardened() } else { start };
        db.note_full_backup(from).expect("notes");
        db.checkpoint().expect("checkpoint");
        follow_up(&mut feed, &follower);
        follower.restart_point().expect("restart point");
        let promoted = follower.promote(&|_| panic!("nothing is prepared"));
        let expected = if is_kept { from } else { Lsn::NONE };
        assert_eq!(promoted.expect("is promoted").log_backup_start(), expected);
    }
}

/// Pages have what is applied, and readers may have seen it.
#[test]
fn what_is_applied_is_not_cut_off() {
    let primary = SimDisk::new(1);
    let (db, tree) = create(&primary, 1, 96, settings(true));
    db.checkpoint().expect("checkpoint");
    let disk = primary.fork(2);
    let follower = secondary(&disk, 96, None).expect("opens");
    let feed = db.log_feed(follower.hardened(), "AVAILABILITY_REPLICA");
    let mut feed = feed.expect("is there");
    let commit = |keys| {
        let txn = db.begin(&owner(2));
        fill(&db, &txn, tree, keys, 7);
        txn.commit(Durability::Full).expect("commits");
        db.hardened_lsn()
    };
    let before = commit(0..10);
    commit(10..20);
    follow_up(&mut feed, &follower);
    let copy = follower.unread_database();
    assert!(copy.cut_log_tail(before).is_err());
    let applied = follower.applied();
    assert_eq!(follower.hardened(), applied);
    commit(20..30);
    while let Fed::Block(block) = feed.try_next().expect("feeds") {
        copy.append_block(block.used()).expect("fits");
    }
    assert!(copy.sync_blocks().expect("syncs") > applied);
    copy.cut_log_tail(applied).expect("cuts");
    assert_eq!(follower.hardened(), applied);
}

/// A classic transaction has changed a row before the copy's redo begins, on a page that is on disk, and another behind that and before the
/// checkpoint that lists it: what the first one was is not known on the secondary until the transaction has ended.
#[test]
fn readers_wait_for_what_wrote_on_both_sides_of_the_redo_start() {
    for promotes in [false, true] {
        let mut primary = Primary::new(1, settings(false));
        let db = primary.db.clone();
        let txn = db.begin(&owner(1));
        fill(&db, &txn, primary.tree, 0..40, 1);
        txn.commit(Durability::Full).expect("commits");
        let rows_before = dump(&db, primary.tree);
        let both_sides = db.begin(&owner(2));
        update_all(&db, &both_sides, primary.tree, b"short");
        db.checkpoint().expect("checkpoint");
        let txn = db.begin(&owner(1));
        fill(&db, &txn, primary.slow_tree, 0..3, 1);
        txn.commit(Durability::Full).expect("commits");
        fill(&db, &both_sides, primary.slow_tree, 5..8, 1);
        db.flush_log().expect("flushes");
        db.fuzzy_checkpoint().expect("checkpoint");
        let (data, floor) = primary.copy_data();
        let disk = primary.disk_of_secondary(&data, 1);
        let follower = secondary(&disk, 96, Some(floor)).expect("opens");
        follower.apply(Lsn::MAX).expect("applies");
        assert!(!follower.is_readable(), "rows from before are not known");
        let rows_after = if promotes {
            let promoted = follower.promote(&|_| panic!("nothing is prepared"));
            let promoted = promoted.expect("is promoted");
            settle(&promoted);
            dump(&promoted, primary.tree)
        } else {
            let mut feed = db.log_feed(floor, "secondary").expect("is there");
            both_sides.rollback().expect("rolls back");
            db.flush_log().expect("flushes");
            follow_up(&mut feed, &follower);
            let db = follower.database().expect("is readable");
            let txn = db.begin(&owner(3));
            rows(&txn.view(Isolation::Snapshot), primary.tree).expect("reads")
        };
        same(&rows_after, &rows_before, promotes);
        primary.note();
    }
}

/// A primary with a tree of several hundred pages, and a secondary that has it.
fn pair_with_rows() -> (Arc<Database>, TreeId, LogFeed, Arc<Secondary>) {
    let disk = SimDisk::new(1);
    let db = engine(&disk, 1, 512)
        .create_database(DB, "t", files(), Settings::default())
        .expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    fill(&db, &txn, tree, 0..60_000, 7);
    txn.commit(Durability::Full).expect("commits");
    db.checkpoint().expect("checkpoint");
    let other = SimDisk::new(2);
    write_file(&other, DATA, &content(&disk, DATA));
    write_file(&other, LOG, &content(&disk, LOG));
    let follower = secondary(&other, 48, Some(db.hardened_lsn())).expect("opens");
    let mut feed = db.log_feed(follower.hardened(), "secondary").expect("feed");
    follow_up(&mut feed, &follower);
    (db, tree, feed, follower)
}

/// Redo frees what a reader is in the middle of, and makes something else of it: that it ended there is not to be mistaken for the end.
#[test]
fn a_tree_that_is_dropped_beside_a_reader_is_neither_short_nor_damaged() {
    let (db, tree, mut feed, follower) = pair_with_rows();
    let reading = follower.database().expect("is readable").clone();
    let (early, late) = (reading.begin(&owner(3)), reading.begin(&owner(4)));
    let view = early.view(Isolation::Snapshot);
    let rows = reading.tree(tree).expect("tree");
    let mut scan = rows.scan(&view, ScanSpec::all());
    let mut batch = Batch::new();
    assert!(scan.next(&mut batch).expect("scans"));

    let txn = db.begin(&owner(1));
    db.drop_tree(&txn, tree).expect("drops");
    txn.commit(Durability::Full).expect("commits");
    follow_up(&mut feed, &follower);
    // An older snapshot goes on as long as nothing is freed; one that knows that it is dropped does not begin.
    assert!(scan.next(&mut batch).expect("scans"));
    let looked = rows.get(&late.view(Isolation::ReadCommittedSnapshot), b"k");
    assert!(
        matches!(looked, Err(StorageError::YoungerThanSnapshot)),
        "{looked:?}"
    );

    while db.background_step().expect("frees") {}
    let txn = db.begin(&owner(1));
    let other = db.create_tree(&txn, 1).expect("tree");
    fill(&db, &txn, other, 0..2_000, 8);
    txn.commit(Durability::Full).expect("commits");
    follow_up(&mut feed, &follower);
    let ended = loop {
        match scan.next(&mut batch) {
            Ok(true) => {}
            ended => break ended,
        }
    };
    assert!(
        matches!(ended, Err(StorageError::YoungerThanSnapshot)),
        "{ended:?}"
    );
}

/// What was read stays as it was, where nobody can be kept from changing it.
#[test]
fn repeatable_reads_of_a_secondary_are_of_one_snapshot() {
    let (db, tree, mut feed, follower) = pair_with_rows();
    let reading = follower.database().expect("is readable").clone();
    for (next, isolation) in [
        (65_000, Isolation::RepeatableRead),
        (66_000, Isolation::Serializable),
    ] {
        let reader = reading.begin(&owner(3));
        let before = rows(&reader.view(isolation), tree).expect("reads");
        let txn = db.begin(&owner(1));
        fill(&db, &txn, tree, next..next + 10, 7);
        txn.commit(Durability::Full).expect("commits");
        follow_up(&mut feed, &follower);
        same(
            &rows(&reader.view(isolation), tree).expect("reads"),
            &before,
            "the second read",
        );
    }
}
