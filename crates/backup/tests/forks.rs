//! Backups of two copies of one database that were opened apart: each continues the chain that both have in common, and none the
//! other's.

mod common;

use common::*;
use daruma_backup::*;
use daruma_base::DatabaseId;
use daruma_storage::*;
use std::sync::Arc;

fn reopen(world: &World) -> Arc<Database> {
    let opened = world
        .engine
        .open_database(DatabaseId(5), "d", specs("d"))
        .expect("opens");
    opened.0
}

fn add_row(db: &Arc<Database>, tree: TreeId, key: &[u8]) {
    let txn = db.begin(&owner(3));
    let tree = db.tree(tree).expect("tree");
    tree.insert(&txn, key, &[9; 500]).expect("inserts");
    txn.commit(Durability::Full).expect("commits");
}

/// As a restore of sets that have no epochs would judge.
fn without_epochs(set: &SetInfo) -> SetInfo {
    SetInfo {
        epochs: Vec::new(),
        ..set.clone()
    }
}

#[test]
fn no_log_of_a_copy_that_went_another_way_is_applied() {
    let world = World::new(80, 128);
    let history = History::new(&world, "d", RecoveryModel::Full);
    history.add_rows(20);
    let base = full(&world, &history.db, &["/full"]).expect("full");
    history.add_rows(0);
    let common = log(&world, &history.db, &["/log"]).expect("log");
    let tree = history.tree;
    history.db.close().expect("closes");
    drop(history);
    world.disk.restart();
    let twin = World::on(&world.disk.fork(81), 81, 128);
    let (here, there) = (reopen(&world), reopen(&twin));
    add_row(&here, tree, b"here");
    add_row(&there, tree, b"there");
    let ours = log(&world, &here, &["/log"]).expect("log");
    add_row(&there, tree, b"there too");
    let theirs = log(&twin, &there, &["/log"]).expect("log");
    // A later one begins on the other way already.
    add_row(&there, tree, b"and again");
    add_row(&here, tree, b"here again");
    let later = log(&twin, &there, &["/log"]).expect("log");
    assert!(later.last_lsn > ours.last_lsn);

    let mut state = RestoreState::after_full(&base);
    state.check(&common).expect("follows");
    state.applied(&common, common.last_lsn, false);
    state.check(&ours).expect("goes on from there");
    state.check(&theirs).expect("goes on from there as well");
    state.applied(&ours, ours.last_lsn, false);
    let reaching = SetInfo {
        last_lsn: ours.last_lsn + 4_096,
        ..theirs.clone()
    };
    assert_eq!(state.check(&reaching), Err(ChainError::OtherPath));
    let mut other = later.clone();
    other.first_lsn = other.first_lsn.min(ours.last_lsn);
    assert_eq!(state.check(&other), Err(ChainError::OtherPath));
    // The number of the path alone, which both have, does not tell.
    state
        .check(&without_epochs(&reaching))
        .expect("looks like one");
}

#[test]
fn a_restored_database_has_the_history_of_its_log_and_an_epoch_of_its_own() {
    let world = World::new(82, 128);
    let history = History::new(&world, "d", RecoveryModel::Full);
    full(&world, &history.db, &["/full"]).expect("full");
    history.add_rows(5);
    let history = history.reopened(&world);
    let last = log(&world, &history.db, &["/log"]).expect("log");
    assert_eq!(last.epochs.len(), 2);
    let set = world.media(&["/full"]).and_then(|m| m.set(1)).expect("set");
    let to = files("r");
    let mut state = restore_full(&world.env, &set, &to, 2, &mut |_| Ok(())).expect("full");
    assert_eq!(state.epochs.len(), 1);
    let set = world.media(&["/log"]).and_then(|m| m.set(1)).expect("set");
    restore_log(
        &world.env,
        &set,
        &to,
        &[],
        &mut state,
        None,
        &mut |_| Ok(()),
    )
    .expect("log");
    write_boot(&world.env, &to, &state).expect("a boot page");
    let opened = world.engine.open_database(DatabaseId(6), "r", specs("r"));
    let (restored, _) = opened.expect("opens");
    let (source, found) = (history.db.epochs(), restored.epochs());
    assert_eq!(found.list()[..2], *source.list());
    assert_eq!(found.list().len(), 3);
    assert_eq!(
        source.fork(history.db.hardened_lsn(), &found, restored.hardened_lsn()),
        Some(daruma_base::Lsn(last.last_lsn))
    );
}
