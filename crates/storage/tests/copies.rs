//! Copies of a database: on a disk that errs, and over files that are there.

mod common;

use common::{DB, create, dump, engine, fill, open, owner, specs};
use daruma_base::{Disk, PageId};
use daruma_sim::{Faults, Rates, SimDisk};
use daruma_storage::*;
use std::path::Path;
use std::sync::Arc;

const PAGE_BYTES: usize = 8192;

fn copied(db: &Arc<Database>) -> Result<Vec<(PageRun, Vec<u8>)>> {
    let copy = db.start_copy()?;
    let mut pages = Vec::new();
    for run in &copy.files()[0].runs {
        for page in run.first..run.first + run.count {
            let one = PageRun {
                first: page,
                count: 1,
            };
            let mut bytes = vec![0; PAGE_BYTES];
            copy.read(1, one, &mut bytes)?;
            pages.push((one, bytes));
        }
    }
    Ok(pages)
}

/// A page that a misdirected read found empty would be missing from the backup, and nobody would be told.
#[test]
fn a_read_that_loses_its_way_leaves_no_page_out_of_a_copy() {
    let disk = SimDisk::new(7);
    let config = EngineConfig {
        buffer_pool_pages: 256,
        ..EngineConfig::default()
    };
    let engine = Engine::new(daruma_sim::env(&disk, 7), config);
    let db = engine
        .create_database(DB, "t", specs(), Settings::default())
        .expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("a tree");
    let rows = db.tree(tree).expect("the tree");
    for n in 0..500u32 {
        rows.insert(&txn, &n.to_be_bytes(), &[n as u8; 700])
            .expect("inserts");
    }
    txn.commit(Durability::Full).expect("commits");
    db.checkpoint().expect("all pages are on disk");
    let is_content = |bytes: &[u8]| bytes.iter().any(|b| *b != 0);
    let right = copied(&db).expect("a copy");
    assert!(right.iter().filter(|(_, bytes)| is_content(bytes)).count() > 30);
    for _ in 0..20 {
        disk.set_faults(Faults {
            rates: Rates {
                misdirected_read: 4_000,
                ..Rates::default()
            },
            ..Faults::default()
        });
        let found = copied(&db).expect("a copy");
        disk.set_faults(Faults::default());
        for ((run, found), (_, right)) in found.iter().zip(&right) {
            assert_eq!(is_content(found), is_content(right), "page {}", run.first);
        }
    }
}

/// A page that is the same on both sides, as far as sums tell.
fn stays(rebuild: &Rebuild, page: u32, sent: &[u8]) -> bool {
    let mut own = [0; PAGE_BYTES];
    let could = rebuild.read_kept(PageId::new(1, page), &mut own);
    could.expect("reads") && own[..] == *sent
}

/// A copy of `db`, which is written to meanwhile, over the files of another database. How many pages stayed and were written.
fn copy_over(db: &Arc<Database>, disk: &Arc<SimDisk>, meanwhile: impl FnOnce()) -> (u64, u64) {
    let copy = db.start_copy().expect("a copy");
    meanwhile();
    let env = daruma_sim::env(disk, 9);
    let [data, log] = &specs()[..] else {
        panic!("two files");
    };
    disk.remove(&log.path).expect("removes the log");
    let mut rebuild = Rebuild::new(&env, copy.guid());
    let data = FileSpec {
        size_pages: copy.files()[0].info.size_pages,
        ..data.clone()
    };
    assert!(rebuild.reuse_file(&data).expect("takes it over"));
    assert!(open(disk, 10, 256).is_err(), "nobody can open it");
    let (mut kept, mut written) = (0, 0);
    for run in &copy.files()[0].runs {
        for first in run.first..run.first + run.count {
            let one = PageRun { first, count: 1 };
            let mut bytes = vec![0; PAGE_BYTES];
            copy.read(1, one, &mut bytes).expect("reads");
            match stays(&rebuild, first, &bytes) {
                true => rebuild.keep_pages(1, one).map(|()| kept += 1),
                false => rebuild.write_pages(1, one, &bytes).map(|()| written += 1),
            }
            .expect("stays, or is written");
        }
    }
    let end = copy.harden().expect("hardens");
    let mut sections = Vec::new();
    let mut chunks = Vec::new();
    let mut source = db.read_log(copy.log_start(), end).expect("log");
    while let Some(chunk) = source.next(64 << 10).expect("reads") {
        let bytes = chunk.bytes.len() as u64;
        LogSection::extend(&mut sections, chunk.lsn, bytes, chunk.incarnation);
        chunks.push(chunk);
    }
    rebuild.create_log(log, &sections).expect("a log");
    let log = chunks.iter().try_for_each(|c| rebuild.write_log(c));
    log.expect("writes the log");
    rebuild.finish().expect("is whole");
    let boot = rebuild.write_boot(&copy.boot_image(), end, &db.epochs(), false);
    boot.expect("is a database");
    (kept, written)
}

/// The parted log gave pages to rows that the copy's gives to others, later in its own time and earlier by position.
fn copy_over_parted_files() -> std::result::Result<(), String> {
    let disk = SimDisk::new(21);
    let (db, tree) = create(&disk, 21, 256, Settings::default());
    let insert = |db: &Arc<Database>, keys, byte| {
        let txn = db.begin(&owner(1));
        fill(db, &txn, tree, keys, byte);
        txn.commit(Durability::Full).expect("commits");
    };
    insert(&db, 0..5_000, 1);
    db.close().expect("closes");
    drop(db);
    let parted = disk.fork(22);
    let (db, _) = open(&disk, 24, 256).expect("opens");
    let (deposed, _) = open(&parted, 22, 256).expect("opens");
    insert(&deposed, 10_000..16_000, 2);
    insert(&deposed, 0x100_0000..0x100_1000, 3);
    deposed.checkpoint().expect("writes its pages");
    deposed.close().expect("closes");
    drop(deposed);
    let (kept, written) = copy_over(&db, &parted, || insert(&db, 20_000..22_000, 4));
    assert!(
        kept > 80 && written < kept / 2,
        "{kept} stay, {written} written"
    );
    let (copy, _) = open(&parted, 23, 256).map_err(|e| e.to_string())?;
    if dump(&copy, tree) != dump(&db, tree) {
        return Err("the copy has other rows".into());
    }
    Ok(())
}

#[test]
fn a_copy_over_files_of_a_log_that_parted_is_as_good_as_a_new_one() {
    copy_over_parted_files().expect("is right");
}

/// What a copy that broke off has written is on disk, or the machine has lost what was not synced: the next one is written over it, and takes
/// nothing for there that is not.
#[test]
fn a_copy_that_broke_off_is_written_over() {
    let (kept, written) = copy_over_broken_off(32, false);
    assert!(kept > written, "{kept} stay, {written} written");
    let after = (32..36).map(|seed| copy_over_broken_off(seed, true));
    let after: Vec<(u64, u64)> = after.collect();
    let is_all = |(less, more): &(u64, u64)| less + more == kept + written;
    assert!(after.iter().all(is_all), "{after:?}");
    assert!(after.iter().any(|(less, _)| *less < kept), "{after:?}");
}

/// How many pages stayed, and were written.
fn copy_over_broken_off(seed: u64, loses_power: bool) -> (u64, u64) {
    let disk = SimDisk::new(31);
    let (db, tree) = create(&disk, 31, 256, Settings::default());
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 0..3_000, 1);
    txn.commit(Durability::Full).expect("commits");
    let other = SimDisk::new(seed);
    let mut rebuild = Rebuild::new(&daruma_sim::env(&other, 32), db.guid());
    let [data, log] = &specs()[..] else {
        panic!("two files");
    };
    assert!(!rebuild.reuse_file(data).expect("there is none"));
    rebuild.create_file(data).expect("creates");
    let copy = db.start_copy().expect("a copy");
    for run in &copy.files()[0].runs {
        for first in (run.first..run.first + run.count).step_by(2) {
            let one = PageRun { first, count: 1 };
            let mut bytes = vec![0; PAGE_BYTES];
            copy.read(1, one, &mut bytes).expect("reads");
            rebuild.write_pages(1, one, &bytes).expect("writes");
        }
    }
    drop((rebuild, copy));
    let made = other.open(Path::new(&log.path), daruma_base::OpenMode::CreateNew);
    drop(made.expect("a log that was begun"));
    // The files are there, and of what was written to them whatever the machine left.
    other.sync_dir(Path::new("/")).expect("syncs");
    if loses_power {
        other.crash();
    }
    other.restart();
    let copied = copy_over(&db, &other, || {});
    let (copy, _) = engine(&other, 33, 256)
        .open_database(DB, "t", specs())
        .expect("opens");
    assert_eq!(dump(&copy, tree), dump(&db, tree));
    copied
}
