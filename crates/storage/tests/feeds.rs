//! Feeds of the log: every block once, in order and as it is on disk, before it is there; a bound on what is kept for one.

mod common;

use common::crash::stop_within;
use common::*;
use daruma_base::Lsn;
use daruma_sim::SimDisk;
use daruma_storage::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const REASON: &str = "AVAILABILITY_REPLICA";
/// Long enough for any machine; nobody waits so long unless the test fails.
const LONG: Duration = Duration::from_secs(300);

/// All that a feed has for now.
fn take(feed: &mut LogFeed) -> Vec<FeedBlock> {
    let mut blocks = Vec::new();
    loop {
        match feed.try_next().expect("feeds") {
            Fed::Block(block) => blocks.push(block),
            Fed::Nothing => return blocks,
            Fed::Gone => panic!("the log is gone"),
        }
    }
}

/// The stream that blocks make, with their padding.
fn stream(blocks: &[FeedBlock]) -> Vec<u8> {
    let mut stream = Vec::new();
    for block in blocks {
        let (lsn, padded) = inspect_unpadded(block.used()).expect("a whole block");
        assert_eq!(lsn, block.lsn());
        assert_eq!(lsn.0 + padded.len() as u64, block.end().0);
        stream.extend(padded);
    }
    stream
}

/// The same part of the stream as the log file has it.
fn in_file(db: &Arc<Database>, from: Lsn, end: Lsn) -> Vec<u8> {
    let mut source = db.read_log(from, end).expect("reads");
    let mut stream = Vec::new();
    while let Some(chunk) = source.next(1 << 20).expect("reads") {
        stream.extend_from_slice(&chunk.bytes);
    }
    stream
}

fn assert_contiguous(blocks: &[FeedBlock], from: Lsn) {
    let mut at = from;
    for block in blocks {
        assert_eq!(block.lsn(), at);
        at = block.end();
    }
}

fn commit_rows(db: &Arc<Database>, tree: TreeId, keys: std::ops::Range<u32>) {
    let txn = db.begin(&owner(2));
    fill(db, &txn, tree, keys, 7);
    txn.commit(Durability::Full).expect("commits");
}

#[test]
fn a_feed_gives_the_stream_of_the_file() {
    let disk = SimDisk::new(1);
    let (db, tree) = create(&disk, 1, 256, Settings::default());
    let from = db.log_stats().min_lsn;
    let mut feed = db.log_feed(from, REASON).expect("is there");
    let mut blocks = take(&mut feed);
    for round in 0..20 {
        commit_rows(&db, tree, round * 100..(round + 1) * 100);
        blocks.extend(take(&mut feed));
    }
    assert_contiguous(&blocks, from);
    let end = db.hardened_lsn();
    assert_eq!(feed.position(), end);
    assert!(stream(&blocks) == in_file(&db, from, end));
}

#[test]
fn a_feed_that_begins_in_the_file_catches_up_with_memory() {
    let disk = SimDisk::new(2);
    let (db, tree) = create(&disk, 2, 256, Settings::default());
    let hold = db.hold_log(db.log_stats().min_lsn, REASON).expect("holds");
    let from = hold.from();
    commit_rows(&db, tree, 0..3_000);
    drop((hold, db));
    disk.restart();
    // Memory begins behind the recovery.
    let (db, _) = open(&disk, 2, 256).expect("opens");
    let oldest = db.log_stats().min_lsn;
    let mut feed = db.log_feed(oldest.max(from), REASON).expect("is there");
    commit_rows(&db, tree, 3_000..3_100);
    let blocks = take(&mut feed);
    commit_rows(&db, tree, 3_100..3_200);
    let more = take(&mut feed);
    let all: Vec<FeedBlock> = blocks.into_iter().chain(more).collect();
    assert_contiguous(&all, oldest.max(from));
    assert_eq!(feed.position(), db.hardened_lsn());
    assert!(stream(&all) == in_file(&db, oldest.max(from), db.hardened_lsn()));
}

#[test]
fn a_block_is_fed_before_it_is_written_here() {
    let disk = SimDisk::new(3);
    let (db, tree) = create(&disk, 3, 256, Settings::default());
    let mut feed = db.log_feed(db.hardened_lsn(), REASON).expect("is there");
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    feed.on_more(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    assert!(take(&mut feed).is_empty());
    let hard = db.hardened_lsn();
    let txn = db.begin(&owner(2));
    fill(&db, &txn, tree, 0..10, 7);
    assert_eq!(woken.load(Ordering::Relaxed), 0, "nothing is sealed yet");
    stop_within(&disk, 0);
    txn.commit(Durability::Full).expect_err("the disk is gone");
    assert!(woken.load(Ordering::Relaxed) > 0);
    let mut fed = 0;
    let error = loop {
        match feed.try_next() {
            Ok(Fed::Block(block)) => {
                assert!(!block.is_hard() && block.lsn() >= hard);
                fed += 1;
            }
            Ok(_) => panic!("a feed of a fenced log has an end"),
            Err(error) => break error,
        }
    };
    assert_eq!(fed, 1);
    assert!(matches!(error, StorageError::Fenced { .. }), "{error}");
}

#[test]
fn whoever_waits_for_more_is_woken_by_the_seal() {
    let disk = SimDisk::new(4);
    let (db, tree) = create(&disk, 4, 256, Settings::default());
    let mut feed = db.log_feed(db.hardened_lsn(), REASON).expect("is there");
    thread::scope(|scope| {
        let waits = scope.spawn(move || {
            loop {
                assert!(feed.wait(LONG), "nobody was woken");
                let blocks = take(&mut feed);
                if !blocks.is_empty() {
                    return blocks.len();
                }
            }
        });
        commit_rows(&db, tree, 0..10);
        assert!(waits.join().expect("no panic") > 0);
    });
}

#[test]
fn a_feed_keeps_the_log_until_it_is_released_or_beyond_its_bound() {
    let disk = SimDisk::new(5);
    let (db, tree) = create(&disk, 5, 256, Settings::default());
    db.checkpoint().expect("checkpoint");
    let from = db.hardened_lsn();
    let mut feed = db.log_feed(from, REASON).expect("is there");
    let mut reader = db.log_feed(from, REASON).expect("is there");
    for round in 0..30 {
        commit_rows(&db, tree, round * 100..(round + 1) * 100);
    }
    db.checkpoint().expect("checkpoint");
    assert_eq!(db.log_stats().reuse_wait, REASON);
    assert!(db.log_stats().min_lsn <= from);
    assert_contiguous(&take(&mut reader), from);
    reader.release_below(Lsn(u64::MAX));
    assert!(!reader.rewind(from), "it was released");
    let bytes = db.hardened_lsn().0 - from.0;
    feed.set_bound(bytes / 2);
    assert!(
        matches!(feed.try_next(), Ok(Fed::Block(_))),
        "nothing is cut yet"
    );
    db.checkpoint().expect("checkpoint");
    assert!(matches!(feed.try_next(), Ok(Fed::Gone)));
    assert!(!feed.rewind(from));
    assert_ne!(db.log_stats().reuse_wait, REASON);
    assert!(matches!(db.log_feed(from, REASON), Err(NoFeed::Gone)));
    assert_contiguous(&take(&mut reader), reader.held_from());
}

#[test]
fn no_feed_begins_where_no_block_does() {
    let disk = SimDisk::new(6);
    let (db, tree) = create(&disk, 6, 256, Settings::default());
    commit_rows(&db, tree, 0..10);
    let end = db.hardened_lsn();
    for from in [Lsn(end.0 + 4096), Lsn(end.0 - 100), Lsn(u64::MAX)] {
        assert!(matches!(db.log_feed(from, REASON), Err(NoFeed::NotOurs)));
    }
    // A boundary of the alignment within a long block.
    let txn = db.begin(&owner(2));
    fill(&db, &txn, tree, 100..500, 7);
    txn.commit(Durability::Full).expect("commits");
    let mut feed = db.log_feed(Lsn(end.0 + 4096), REASON).expect("looks well");
    let error = feed.try_next().err().expect("no block");
    assert!(matches!(error, StorageError::DamagedLog { .. }), "{error}");
}

#[test]
fn a_feed_of_what_cannot_be_taken_back_waits_for_the_disk() {
    let disk = SimDisk::new(7);
    let (db, tree) = create(&disk, 7, 256, Settings::default());
    let from = db.hardened_lsn();
    let mut feed = db.log_feed(from, REASON).expect("is there");
    feed.set_limit(FeedLimit::Quorum);
    let txn = db.begin(&owner(2));
    // Several blocks are sealed by now, none is written.
    fill(&db, &txn, tree, 0..1_000, 7);
    assert!(db.log_stats().end_lsn.0 > from.0 + 100_000);
    assert_eq!(db.hardened_lsn(), from);
    assert!(take(&mut feed).is_empty());
    txn.commit(Durability::Full).expect("commits");
    let blocks = take(&mut feed);
    assert!(blocks.iter().all(FeedBlock::is_hard));
    assert_eq!(feed.position(), db.hardened_lsn());
}

#[test]
fn a_damaged_block_that_arrives_is_none() {
    let disk = SimDisk::new(8);
    let (db, tree) = create(&disk, 8, 256, Settings::default());
    let mut feed = db.log_feed(db.hardened_lsn(), REASON).expect("is there");
    commit_rows(&db, tree, 0..3);
    let block = take(&mut feed).pop().expect("one");
    let good = block.used().to_vec();
    assert!(inspect_unpadded(&good).is_some());
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x20;
        assert!(inspect_unpadded(&bad).is_none(), "byte {at}");
        assert!(inspect_unpadded(&good[..at]).is_none(), "{at} bytes");
    }
    let mut longer = good;
    longer.push(0);
    assert!(inspect_unpadded(&longer).is_none());
}

/// What memory keeps is soon behind: a feed far behind goes on all the same.
#[test]
fn a_slow_feed_reads_the_file_while_the_log_goes_round() {
    let disk = SimDisk::new(9);
    let (db, tree) = create(&disk, 9, 256, Settings::default());
    drop(db);
    let (db, _) = open(&disk, 9, 256).expect("opens");
    let from = db.log_stats().min_lsn;
    let mut feed = db.log_feed(from, REASON).expect("is there");
    let mut at = from;
    let mut total = 0;
    for round in 0..150 {
        commit_rows(&db, tree, round * 500..(round + 1) * 500);
        db.checkpoint().expect("checkpoint");
        for _ in 0..2 {
            if let Fed::Block(block) = feed.try_next().expect("feeds") {
                assert_eq!(block.lsn(), at);
                at = block.end();
                total += 1;
            }
        }
        feed.release_below(at);
    }
    assert!(total > 200);
    let rest = take(&mut feed);
    assert_contiguous(&rest, at);
    assert_eq!(feed.position(), db.hardened_lsn());
}
