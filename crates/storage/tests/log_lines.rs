//! The log in words.

mod common;

use common::*;
use daruma_sim::SimDisk;
use daruma_storage::*;
use std::sync::Arc;

fn create(disk: &Arc<SimDisk>) -> (Arc<Database>, Arc<Tree>) {
    let settings = Settings {
        accelerated_recovery: true,
        ..Settings::default()
    };
    let db = engine(disk, 1, 256)
        .create_database(DB, "t", specs(), settings)
        .expect("creates");
    let txn = db.begin(&owner(1));
    let id = db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    let tree = db.tree(id).expect("tree");
    (db, tree)
}

fn all(db: &Arc<Database>) -> Vec<LogLine> {
    db.describe_log(None, None, 1_000_000)
        .expect("readable")
        .lines
}

fn change(tree: &Arc<Tree>, txn: &Txn, key: &[u8], payload: Option<&[u8]>) {
    let view = txn.view(Isolation::Current);
    match (tree.get(&view, key).expect("reads"), payload) {
        (None, Some(payload)) => tree.insert(txn, key, payload).expect("inserts"),
        (Some(entry), Some(payload)) => {
            tree.update(txn, key, entry.stamp, payload)
                .expect("updates");
        }
        (Some(entry), None) => {
            tree.delete(txn, key, entry.stamp).expect("deletes");
        }
        (None, None) => panic!("nothing to delete"),
    }
}

#[test]
fn what_a_transaction_did_can_be_read_from_its_lines() {
    let disk = SimDisk::new(1);
    let (db, tree) = create(&disk);
    let txn = db.begin(&owner(1));
    change(&tree, &txn, b"a", Some(b"first payload"));
    change(&tree, &txn, b"a", Some(b"other payload"));
    let savepoint = txn.savepoint();
    change(&tree, &txn, b"b", Some(b"gone again"));
    txn.rollback_to(savepoint).expect("back");
    change(&tree, &txn, b"a", None);
    let id = txn.id();
    txn.commit(Durability::Full).expect("commits");
    let own: Vec<LogLine> = all(&db).into_iter().filter(|l| l.txn == id).collect();
    let names: Vec<&str> = own.iter().map(|l| l.operation).collect();
    assert_eq!(
        names,
        [
            "LOP_INSERT_ROWS",
            "LOP_MODIFY_ROW",
            "LOP_INSERT_ROWS",
            "LOP_DELETE_ROWS",
            "LOP_DELETE_ROWS",
            "LOP_COMMIT_XACT"
        ]
    );
    assert_eq!((own[0].key.as_slice(), own[0].slot), (&b"a"[..], Some(0)));
    assert_eq!(own[0].tree, Some(tree.id()));
    assert_eq!(
        (own[1].before.as_slice(), own[1].after.as_slice()),
        (&b"first"[..], &b"other"[..])
    );
    assert!(own[3].description.starts_with("compensation"), "{own:?}");
    assert_eq!(own[4].context, Some("LCX_MARK_AS_GHOST"));
    assert_eq!(own[5].previous, own[4].lsn);
    assert!(own[5].utc_100ns > 0);
}

#[test]
fn a_rollback_by_a_mark_is_followed_by_reverts_and_forgetting() {
    let disk = SimDisk::new(2);
    let (db, tree) = create(&disk);
    let txn = db.begin(&owner(1));
    change(&tree, &txn, b"a", Some(b"kept"));
    txn.commit(Durability::Full).expect("commits");
    db.set_undo_at_once_bytes(0);
    let txn = db.begin(&owner(1));
    change(&tree, &txn, b"a", Some(b"lost"));
    change(&tree, &txn, b"b", Some(b"lost"));
    let id = txn.id();
    txn.rollback().expect("rolls back");
    db.checkpoint().expect("checkpoint");
    while db.clean_versions().expect("cleans") {}
    let lines = all(&db);
    let position = |name: &str| {
        let found = lines.iter().rposition(|l| l.operation == name);
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    let order = [
        "LOP_ABORT_XACT",
        "LOP_BEGIN_CKPT",
        "LOP_XACT_CKPT",
        "LOP_END_CKPT",
        "LOP_REVERT_ROW",
        "LOP_REVERT_INSERT",
        "LOP_FORGET_XACT",
    ];
    assert!(order.map(position).is_sorted(), "{:?}", order.map(position));
    let map_entry = &lines[position("LOP_XACT_CKPT")];
    assert_eq!(map_entry.txn, id);
    assert!(map_entry.description.starts_with("aborted"));
}

#[test]
fn a_stretch_of_the_log_can_be_asked_for_and_listings_are_bounded() {
    let disk = SimDisk::new(3);
    let (db, tree) = create(&disk);
    let _all = db
        .hold_log(db.log_stats().min_lsn, "LOG_SCAN")
        .expect("there");
    for i in 0..3_000u32 {
        let txn = db.begin(&owner(1));
        change(&tree, &txn, &i.to_be_bytes(), Some(&[7; 40]));
        txn.commit(Durability::Full).expect("commits");
    }
    let lines = all(&db);
    assert!(lines.len() > 6_000);
    assert!(
        lines
            .windows(2)
            .all(|w| (w[0].lsn, w[0].number) < (w[1].lsn, w[1].number))
    );
    let (from, to) = (lines[4_000].lsn, lines[4_100].lsn);
    let part = db.describe_log(Some(from), Some(to), 1_000).expect("part");
    let expected: Vec<&LogLine> = lines
        .iter()
        .filter(|l| l.lsn >= from && l.lsn <= to)
        .collect();
    assert_eq!(part.lines.iter().collect::<Vec<_>>(), expected);
    assert_eq!(part.next, None);
    // In pieces it is the same listing.
    let (mut start, mut pieces) = (None, Vec::new());
    loop {
        let piece = db.describe_log(start, None, 777).expect("piece");
        pieces.extend(piece.lines);
        match piece.next {
            Some(next) => start = Some(next),
            None => break,
        }
    }
    assert_eq!(pieces[..lines.len()], lines);
    assert!(
        db.describe_log(Some(db.log_stats().end_lsn), None, 10)
            .is_ok_and(|l| l.lines.is_empty())
    );
}
