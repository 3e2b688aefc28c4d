//! Single damaged pages come back from a backup and the log, the rest of the database stays as it is.

mod common;

use common::*;
use daruma_backup::*;
use daruma_base::{DatabaseId, Disk, Lsn, OpenMode, PageId};
use daruma_sim::{Faults, SimRandom};
use daruma_storage::{PageRoll, RecoveryModel, StorageError, TreeId};
use std::path::Path;

const TREE: u8 = 4;
const BLOB: u8 = 5;

fn path_of(file: u16) -> &'static Path {
    Path::new(if file == 1 { "/d.mdf" } else { "/d.ndf" })
}

/// Pages that hold rows of a closed database.
fn data_pages(world: &World, allocated: &[PageId]) -> Vec<PageId> {
    let holds_data = |page: &PageId| {
        let file = world
            .disk
            .open(path_of(page.file), OpenMode::ReadOnly)
            .expect("opens");
        let mut kind = [0];
        file.read_at(&mut kind, u64::from(page.page) * 8192 + 4)
            .expect("reads");
        PageRoll::is_restorable(*page) && matches!(kind, [TREE] | [BLOB])
    };
    allocated.iter().copied().filter(holds_data).collect()
}

fn allocated(history: &History) -> Vec<PageId> {
    let copy = history.db.start_copy().expect("a copy");
    let mut pages = Vec::new();
    for file in copy.files() {
        for run in &file.runs {
            let all = run.first..run.first + run.count;
            pages.extend(all.map(|page| PageId::new(file.info.spec.id, page)));
        }
    }
    pages
}

fn damage(world: &World, pages: &[PageId]) {
    for page in pages {
        let at = u64::from(page.page) * 8192;
        for byte in [0, 9, 40, 5000, 8191] {
            world.disk.flip(path_of(page.file), at + byte, 0x5A);
        }
    }
}

fn set(world: &World, name: &str, position: u32) -> SetReader {
    world
        .media(&[name])
        .expect("media")
        .unlock(position, None)
        .expect("a set")
}

fn open_and_dump(world: &World, tree: TreeId) -> std::result::Result<Model, StorageError> {
    let opened = world.engine.open_database(DatabaseId(5), "d", specs("d"));
    let (db, _) = opened?;
    let found = dump(&db, tree);
    db.check_pages_of(tree);
    let mut checker = daruma_storage::Checker::new(&db);
    checker.tree(tree);
    let damage = checker.finish().findings;
    let damage: Vec<_> = damage.iter().filter(|f| f.owner == Some(tree.0)).collect();
    assert!(damage.is_empty(), "{damage:?}");
    db.close()?;
    Ok(found)
}

/// Some or all pages, from the full backup or with a differential, log backups or not: the rest of the log is the
/// database's own.
#[test]
fn damaged_pages_come_back_to_the_end_of_the_log() {
    for seed in 0..16 {
        let world = World::new(seed, 300);
        let history = History::new(&world, "d", RecoveryModel::Full);
        let random = SimRandom::new(seed);
        history.run(&random, 80);
        let base = full(&world, &history.db, &["/full"]).expect("full");
        let mut backups = Vec::new();
        for n in 0..random.below(4) {
            history.run(&random, 50);
            let is_log = n != 1;
            match is_log {
                true => log(&world, &history.db, &["/later"]),
                false => differential(&world, &history.db, &["/later"], &base),
            }
            .expect("a backup");
            backups.push(is_log);
        }
        history.run(&random, 40);
        let pages = allocated(&history);
        let (tree, last) = (
            history.tree,
            history.states.lock().last().expect("a state").2.clone(),
        );
        if random.below(2) == 0 {
            history.db.close().expect("closes");
            drop(history);
        } else {
            drop(history);
            world.disk.crash();
        }
        let mut pages = data_pages(&world, &pages);
        let share = 1 + random.below(3);
        pages.retain(|_| random.below(3) < share);
        assert!(!pages.is_empty());
        damage(&world, &pages);

        let mut roll = PageRoll::new(pages.iter().copied());
        let mut state = restore_pages(&set(&world, "/full", 1), &mut roll, None).expect("pages");
        for (position, is_log) in (1..).zip(&backups) {
            // A differential does not have to be used.
            if *is_log || random.below(2) == 0 {
                roll = PageRoll::decode(&roll.encode()).expect("the same pages");
                let set = set(&world, "/later", position);
                state = restore_pages(&set, &mut roll, Some(state)).expect("rolls forward");
            }
        }
        let from = Lsn(state.end_lsn);
        let mended = world.engine.mend_pages(state.guid, specs("d"), roll, from);
        mended.expect("mends").expect("the log is there");
        let found = open_and_dump(&world, tree).expect("opens");
        assert!(
            found == last,
            "seed {seed}: {} and {} rows",
            found.len(),
            last.len()
        );
    }
}

/// Without the log in between nothing is written.
#[test]
fn pages_without_their_log_are_refused() {
    let world = World::new(77, 300);
    let history = History::new(&world, "d", RecoveryModel::Full);
    let random = SimRandom::new(77);
    history.run(&random, 60);
    full(&world, &history.db, &["/full"]).expect("full");
    for _ in 0..6 {
        history.run(&random, 200);
        log(&world, &history.db, &["/later"]).expect("log");
        history.db.checkpoint().expect("a checkpoint");
    }
    let pages = allocated(&history);
    history.db.close().expect("closes");
    drop(history);
    let pages = data_pages(&world, &pages);
    let mut roll = PageRoll::new(pages);
    let state = restore_pages(&set(&world, "/full", 1), &mut roll, None).expect("pages");
    let gap = restore_pages(
        &set(&world, "/later", 3),
        &mut roll.clone(),
        Some(state.clone()),
    );
    assert!(matches!(
        gap,
        Err(BackupError::Chain(ChainError::TooRecent { .. }))
    ));
    let content =
        || ["/d.mdf", "/d.ndf", "/d_log.ldf"].map(|name| world.disk.content_of(name.as_ref()));
    let before = content();
    let mended = world
        .engine
        .mend_pages(state.guid, specs("d"), roll, Lsn(state.end_lsn));
    assert!(mended.expect("looks").is_none());
    // Opening writes again what a power loss could still take, as it was.
    assert!(content() == before, "a file has changed");
}

/// Whole pages are restored, the machine stops at some write of that, and the restore is given up: no page is torn.
#[test]
fn a_stop_while_pages_are_written_leaves_them_whole() {
    for write in 0.. {
        let world = World::new(write, 300);
        let history = History::new(&world, "d", RecoveryModel::Full);
        let random = SimRandom::new(7);
        history.run(&random, 25);
        full(&world, &history.db, &["/full"]).expect("full");
        history.run(&random, 15);
        let pages = allocated(&history);
        let (tree, last) = (
            history.tree,
            history.states.lock().last().expect("a state").2.clone(),
        );
        drop(history);
        world.disk.crash();
        let mut pages = data_pages(&world, &pages);
        pages.truncate(3);
        let mut roll = PageRoll::new(pages);
        let state = restore_pages(&set(&world, "/full", 1), &mut roll, None).expect("pages");
        world.disk.set_faults(Faults {
            stop_at: Some(world.disk.calls() + write),
            ..Faults::default()
        });
        let mended = world
            .engine
            .mend_pages(state.guid, specs("d"), roll, Lsn(state.end_lsn));
        world.disk.set_faults(Faults::default());
        let is_done = mended.is_ok();
        world.disk.crash();
        let found = open_and_dump(&world, tree).expect("opens");
        assert!(found == last, "stopped at write {write}");
        if is_done {
            assert!(write > 5, "{write}");
            return;
        }
    }
}

/// A page that the device has forgotten, which is in use: no restore that leaves it as it is has brought it back.
#[test]
fn a_page_in_use_without_content_is_lost() {
    let world = World::new(5, 300);
    let history = History::new(&world, "d", RecoveryModel::Full);
    history.run(&SimRandom::new(5), 40);
    let pages = allocated(&history);
    history.db.close().expect("closes");
    drop(history);
    let pages = data_pages(&world, &pages);
    let (lost, whole) = (pages[0], pages[1]);
    let (path, begin) = (path_of(lost.file), lost.page as usize * 8192);
    let before = world.disk.content_of(path).expect("a file");
    for (at, byte) in before.iter().enumerate().skip(begin).take(8192) {
        world.disk.flip(path, at as u64, *byte);
    }
    // Nor has the doublewrite area the page any more.
    world.disk.flip(path_of(1), 31 * 8192 + 40, 1);
    let opened = world
        .engine
        .open_database(DatabaseId(5), "d", specs("d"))
        .expect("opens");
    let db = opened.0;
    assert!(db.is_lost(lost).expect("reads"));
    assert!(!db.is_lost(whole).expect("reads"));
    let mut pages = (0..256).map(|page| PageId::new(1, page));
    let free = pages.rfind(|page| db.is_free(*page));
    assert!(!db.is_lost(free.expect("a free page")).expect("reads"));
}
