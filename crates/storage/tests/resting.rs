//! Work of a restart after a while of rest, or of light work: little, whatever was written before.

mod common;

use common::*;
use daruma_sim::SimDisk;
use daruma_storage::*;
use std::sync::Arc;
use std::time::Duration;

/// Log that the records of a checkpoint may take.
const LITTLE: u64 = 64 << 10;

fn crash(disk: &Arc<SimDisk>, db: Arc<Database>) -> (Arc<Database>, RecoveryReport) {
    drop(db);
    disk.crash();
    open(disk, 2, 1_024).expect("opens")
}

/// The clock goes on by so many seconds, and the background thread looks in now and then.
fn pass(db: &Arc<Database>, seconds: u64) {
    for _ in 0..seconds {
        settle(db);
        db.clock().sleep(Duration::from_secs(1));
    }
    settle(db);
}

#[test]
fn a_database_that_rests_has_nothing_to_redo() {
    for settings in [Settings::default(), accelerated()] {
        let disk = SimDisk::new(1);
        let (db, tree) = create(&disk, 1, 1_024, settings);
        let txn = db.begin(&owner(1));
        fill(&db, &txn, tree, 0..5_000, 1);
        txn.commit(Durability::Full).expect("commits");
        let txn = db.begin(&owner(2));
        update_all(&db, &txn, tree, &[2; 150]);
        txn.rollback().expect("rolls back");
        let before = dump(&db, tree);
        pass(&db, 5);
        // Nothing is written any more when all is written.
        let calls = disk.calls();
        pass(&db, 600);
        assert!(disk.calls() - calls < 20, "{}", disk.calls() - calls);
        let (db, report) = crash(&disk, db);
        assert!(report.log_bytes < LITTLE, "{report:?}");
        settle(&db);
        assert_eq!(dump(&db, tree), before);
    }
}

/// A commit now and then: never a rest, and never much log.
#[test]
fn pages_do_not_stay_dirty_for_ever_under_light_work() {
    let disk = SimDisk::new(1);
    let (db, tree) = create(&disk, 1, 1_024, Settings::default());
    let txn = db.begin(&owner(1));
    fill(&db, &txn, tree, 0..5_000, 1);
    txn.commit(Durability::Full).expect("commits");
    for n in 0..400_u32 {
        let txn = db.begin(&owner(1));
        fill(&db, &txn, tree, 10_000 + n..10_001 + n, 3);
        txn.commit(Durability::Full).expect("commits");
        settle(&db);
        db.clock().sleep(Duration::from_millis(600));
    }
    let (_, report) = crash(&disk, db);
    // Of 400 commits those of the last two intervals, of 60 seconds each.
    assert!(report.rolled_forward <= 210, "{report:?}");
}

/// Recovery does not wait for pages, and a crash after it repeats what it has done.
#[test]
fn a_crash_after_a_recovery_whose_pages_are_in_memory_only_costs_nothing() {
    for settings in [Settings::default(), accelerated()] {
        let disk = SimDisk::new(1);
        let (db, tree) = create(&disk, 1, 1_024, settings);
        let txn = db.begin(&owner(1));
        fill(&db, &txn, tree, 0..1_000, 1);
        txn.commit(Durability::Full).expect("commits");
        let before = dump(&db, tree);
        let txn = db.begin(&owner(2));
        update_all(&db, &txn, tree, &[2; 150]);
        db.flush_log().expect("hard");
        std::mem::forget(txn);
        let mut db = db;
        for round in 0..4_u32 {
            let (opened, report) = crash(&disk, db);
            assert!(report.needed, "{report:?}");
            assert_eq!(dump(&opened, tree).len(), before.len() + round as usize);
            let txn = opened.begin(&owner(1));
            fill(&opened, &txn, tree, 5_000 + round..5_001 + round, 9);
            txn.commit(Durability::Full).expect("commits");
            db = opened;
        }
        let written = db.checkpoint_in_steps(&|| true).expect("a checkpoint");
        assert!(written);
        let (db, report) = crash(&disk, db);
        assert!(report.log_bytes < LITTLE, "{report:?}");
        settle(&db);
        let after = dump(&db, tree);
        assert!(before.iter().all(|(key, row)| after.get(key) == Some(row)));
    }
}
