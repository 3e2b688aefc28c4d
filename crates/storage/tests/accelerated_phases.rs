//! Accelerated recovery stopped at every single write of each of its phases: reverting, cleaning, a checkpoint of what is
//! aborted, switching the mode, recovery itself.

mod common;

use common::crash::{Begun, stop_everywhere};
use common::*;
use daruma_sim::SimDisk;
use daruma_storage::*;
use std::sync::Arc;

const ROWS: u32 = 400;

/// A table of committed rows.
fn table() -> Begun {
    let disk = SimDisk::new(1);
    let (db, tree) = create(&disk, 1, 96, accelerated());
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 0..ROWS, 1);
    txn.commit(Durability::Full).expect("commits");
    let committed = dump(&db, tree);
    Begun {
        disk,
        db: Some(db),
        tree,
        committed,
    }
}

/// The table with two transactions rolled back by a mark, one on the rows of the other; the first is in a checkpoint, its
/// versions are on pages.
fn aborted() -> Begun {
    let begun = table();
    let db = begun.db.as_ref().expect("open");
    let txn = db.begin(&owner(1));
    update_all(db, &txn, begun.tree, &[2; 170]);
    fill(db, &txn, begun.tree, ROWS..ROWS + 200, 3);
    db.checkpoint().expect("checkpoint");
    txn.rollback().expect("marks");
    let txn = db.begin(&owner(1));
    fill(db, &txn, begun.tree, 2 * ROWS..2 * ROWS + 700, 4);
    txn.rollback().expect("marks");
    assert_eq!(db.aborted_transactions().len(), 2);
    begun
}

fn open_db(begun: &Begun) -> Arc<Database> {
    begun.db.clone().expect("begins with an open database")
}

/// As `from`, and then the machine crashes: the phase opens the database.
fn crashed(from: Begun) -> Begun {
    drop(from.db);
    from.disk.crash();
    Begun { db: None, ..from }
}

#[test]
fn reverting_may_stop_anywhere() {
    stop_everywhere(aborted, |begun| {
        let db = open_db(&begun);
        while db.background_step()? {}
        db.checkpoint()
    });
}

#[test]
fn a_checkpoint_of_what_is_aborted_may_stop_anywhere() {
    stop_everywhere(aborted, |begun| open_db(&begun).checkpoint());
}

/// Rows of aborted transactions are put right by a writer, which is itself rolled back.
#[test]
fn writing_over_aborted_rows_may_stop_anywhere() {
    stop_everywhere(aborted, |begun| {
        let db = open_db(&begun);
        let txn = db.begin(&owner(2));
        let tree = db.tree(begun.tree)?;
        for key in (0..ROWS).step_by(50) {
            let key = key.to_be_bytes();
            let entry = tree.get(&txn.view(Isolation::Current), &key)?;
            let entry = entry.expect("is there");
            assert_eq!(entry.payload, [1; 150]);
            let done = tree.update(&txn, &key, entry.stamp, &[5; 149])?;
            assert_eq!(done, WriteOutcome::Done);
        }
        db.checkpoint()?;
        txn.rollback()?;
        db.checkpoint()
    });
}

/// The versions of a committed transaction are on pages, for an old snapshot that has just ended.
#[test]
fn freeing_versions_may_stop_anywhere() {
    let begin = || {
        let mut begun = table();
        let db = open_db(&begun);
        let reader = db.begin(&owner(2));
        let view = reader.view(Isolation::Snapshot);
        let txn = db.begin(&owner(1));
        update_all(&db, &txn, begun.tree, &[2; 150]);
        db.checkpoint().expect("places the versions");
        txn.commit(Durability::Full).expect("commits");
        assert!(db.version_stats().pages > 0);
        drop((view, reader));
        begun.committed = dump(&db, begun.tree);
        begun
    };
    stop_everywhere(begin, |begun| {
        let db = open_db(&begun);
        while db.background_step()? {}
        assert_eq!(db.version_stats().pages, 0);
        db.checkpoint()
    });
}

/// Off and on again, each time with a transaction of the other mode still open.
#[test]
fn switching_the_mode_may_stop_anywhere() {
    stop_everywhere(aborted, |begun| {
        let db = open_db(&begun);
        let mut settings = db.settings();
        let old = db.begin(&owner(2));
        write_over(&db, &old, begun.tree, 0)?;
        for accelerated in [false, true] {
            settings.accelerated_recovery = accelerated;
            db.set_settings(settings)?;
            db.checkpoint()?;
            let txn = db.begin(&owner(3));
            write_over(&db, &txn, begun.tree, 100)?;
            db.checkpoint()?;
            txn.rollback()?;
        }
        old.rollback()?;
        db.checkpoint()
    });
}

/// Changes twenty rows from a key on.
fn write_over(db: &Arc<Database>, txn: &Txn, tree: TreeId, from: u32) -> Result<()> {
    let tree = db.tree(tree)?;
    for key in from..from + 20 {
        let key = key.to_be_bytes();
        let entry = tree.get(&txn.view(Isolation::Current), &key)?;
        tree.update(txn, &key, entry.expect("is there").stamp, &[6; 160])?;
    }
    Ok(())
}

#[test]
fn recovery_may_stop_anywhere() {
    let begin = || {
        let begun = aborted();
        let db = open_db(&begun);
        // One more that is open at the crash, in part on pages, and one that has committed since.
        let open = db.begin(&owner(2));
        write_over(&db, &open, begun.tree, 200).expect("writes");
        db.checkpoint().expect("checkpoint");
        open.lasting_savepoint();
        write_over(&db, &open, begun.tree, 210).expect("writes");
        let txn = db.begin(&owner(3));
        write_over(&db, &txn, begun.tree, 300).expect("writes");
        txn.commit(Durability::Full).expect("commits");
        let committed = dump(&db, begun.tree);
        std::mem::forget(open);
        drop(db);
        crashed(Begun { committed, ..begun })
    };
    stop_everywhere(begin, |begun| {
        let (db, report) = open(&begun.disk, 1, 96)?;
        assert!(report.to_revert >= 4, "{report:?}");
        while db.background_step()? {}
        db.checkpoint()
    });
}
