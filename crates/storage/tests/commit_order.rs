//! Commits are seen in the order of the log: two readers never see two commits in different order, whether those who commit wait
//! for the disk or not, and each session sees its own commits at once.

mod common;

use common::*;
use daruma_sim::SimDisk;
use daruma_storage::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const ROUNDS: u64 = 300;

fn number(db: &Arc<Database>, view: &ReadView, tree: TreeId, key: &[u8]) -> u64 {
    let entry = db.tree(tree).expect("tree").get(view, key).expect("reads");
    let payload = entry.expect("is there").payload;
    u64::from_le_bytes(payload.try_into().expect("8 bytes"))
}

/// Counts the row up, one commit each; every other one does not wait for the disk.
fn write(db: &Arc<Database>, tree: TreeId, owner: &Arc<Owner>, key: &[u8]) {
    for round in 1..=ROUNDS {
        let txn = db.begin(owner);
        let rows = db.tree(tree).expect("tree");
        let view = txn.view(Isolation::Current);
        let stamp = rows.get(&view, key).expect("reads").expect("there").stamp;
        let done = rows.update(&txn, key, stamp, &round.to_le_bytes());
        assert_eq!(done.expect("updates"), WriteOutcome::Done);
        let durability = match round % 2 {
            0 => Durability::Full,
            _ => Durability::Delayed,
        };
        txn.commit(durability).expect("commits");
        let own = db.begin(owner);
        let view = own.view(Isolation::Snapshot);
        assert_eq!(number(db, &view, tree, key), round, "its own commit");
    }
}

/// The long fork: writers of two rows, and readers who agree on the order of their commits.
#[test]
fn readers_agree_on_the_order_of_commits() {
    let disk = SimDisk::new(1);
    let (db, tree) = create(&disk, 1, 64, accelerated());
    let txn = db.begin(&owner(1));
    for key in [b"x", b"y"] {
        let tree = db.tree(tree).expect("tree");
        tree.insert(&txn, key, &0u64.to_le_bytes())
            .expect("inserts");
    }
    txn.commit(Durability::Full).expect("commits");
    let writing = AtomicUsize::new(2);
    let mut seen = std::thread::scope(|scope| {
        for (id, key) in [(2, b"x"), (3, b"y")] {
            let (db, writing) = (&db, &writing);
            scope.spawn(move || {
                write(db, tree, &owner(id), key);
                writing.fetch_sub(1, Ordering::AcqRel);
            });
        }
        let readers: Vec<_> = (10..13)
            .map(|id| {
                let (db, writing) = (&db, &writing);
                scope.spawn(move || {
                    let owner = owner(id);
                    let mut seen = Vec::new();
                    while writing.load(Ordering::Acquire) > 0 {
                        let txn = db.begin(&owner);
                        let view = txn.view(Isolation::Snapshot);
                        let x = number(db, &view, tree, b"x");
                        seen.push((x, number(db, &view, tree, b"y")));
                    }
                    assert!(seen.is_sorted(), "a reader went back");
                    seen
                })
            })
            .collect();
        let seen = readers.into_iter().map(|r| r.join().expect("no panic"));
        seen.flatten().collect::<Vec<_>>()
    });
    seen.sort_unstable();
    let forks = seen.windows(2).filter(|w| w[0].1 > w[1].1).count();
    assert_eq!(forks, 0, "of {} states", seen.len());
}

/// A delayed commit behind one that waits for the disk is its own session's at once, and everybody's when that one is hard. Here
/// the wait is left to others, so it can be looked at.
#[test]
fn what_stands_behind_an_unhard_commit_is_shown_with_it() {
    let disk = SimDisk::new(1);
    let (db, tree) = create(&disk, 1, 64, Settings::default());
    let insert = |owner: &Arc<Owner>, key: &[u8]| {
        let txn = db.begin(owner);
        let rows = db.tree(tree).expect("tree");
        rows.insert(&txn, key, b"").expect("inserts");
        txn
    };
    let keys = |owner: &Arc<Owner>| {
        let txn = db.begin(owner);
        let view = txn.view(Isolation::ReadCommittedSnapshot);
        let rows = db.tree(tree).expect("tree");
        let is_seen = |key: &&[u8]| rows.get(&view, key).expect("reads").is_some();
        [&b"first"[..], b"full", b"delayed"]
            .into_iter()
            .filter(is_seen)
            .count()
    };
    let (full, delayed, other) = (owner(1), owner(2), owner(3));
    let first = insert(&delayed, b"first").commit(Durability::Delayed);
    first.expect("commits");
    assert_eq!(keys(&other), 1, "nothing stands before it");
    let unhard = insert(&full, b"full").commit_unhard().expect("appends");
    let behind = insert(&delayed, b"delayed").commit(Durability::Delayed);
    behind.expect("commits");
    assert_eq!((keys(&delayed), keys(&other)), (3, 1));
    unhard.expect("has written").wait().expect("is hard");
    assert_eq!((keys(&delayed), keys(&full), keys(&other)), (3, 3, 3));
}
