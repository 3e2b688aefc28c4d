//! Backups of two copies of one database that were opened apart: each continues the chain that both have in common, and none the
//! other's.

mod common;

use common::*;
use daruma_backup::{Result, *};
use daruma_base::{DatabaseId, Disk, Lsn, PageId};
use daruma_sim::{SimDisk, SimRandom};
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
        Some(Lsn(last.last_lsn))
    );
}

/// Backups that build on one full backup: differentials and logs of a database, and a differential of a copy that left it after the
/// first log.
struct Family {
    disk: Arc<SimDisk>,
    here: History,
    there: History,
}

const BASE: &str = "/full";
const FIRST: &str = "/diff1";
const SECOND: &str = "/diff2";
const OTHER: &str = "/diff_other";
const LOGS: [&str; 3] = ["/log1", "/log2", "/log3"];

impl Family {
    fn new(seed: u64) -> Family {
        let world = World::new(seed, 300);
        let random = SimRandom::new(seed);
        let here = History::new(&world, "d", RecoveryModel::Full);
        here.run(&random, 40);
        let base = full(&world, &here.db, &[BASE]).expect("full");
        here.run(&random, 20);
        log(&world, &here.db, &LOGS[..1]).expect("log");
        let there = Family::parted(&world, &here);
        there.run(&random, 120);
        differential(&world, &there.db, &[OTHER], &base).expect("differential");
        here.run(&random, 20);
        differential(&world, &here.db, &[FIRST], &base).expect("differential");
        here.run(&random, 20);
        log(&world, &here.db, &LOGS[1..2]).expect("log");
        // Whoever goes on after a restart is on the same path.
        let here = here.reopened(&world).reopened(&world);
        here.run(&random, 20);
        differential(&world, &here.db, &[SECOND], &base).expect("differential");
        here.run(&random, 20);
        log(&world, &here.db, &LOGS[2..]).expect("log");
        for history in [&here, &there] {
            history.db.close().expect("closes");
        }
        let disk = world.disk.fork(seed);
        Family { disk, here, there }
    }

    /// A copy that was restored to the end of the first log, and opened there.
    fn parted(world: &World, history: &History) -> History {
        let mut state = Step::begin(world, "r");
        apply(world, "r", LOGS[0], &mut state).expect("log");
        write_boot(&world.env, &files("r"), &state).expect("a boot page");
        let opened = world.engine.open_database(DatabaseId(6), "r", specs("r"));
        History {
            db: opened.expect("opens").0,
            tree: history.tree,
            states: parking_lot::Mutex::new(history.states.lock().clone()),
            commits: Default::default(),
            stop: Default::default(),
        }
    }

    fn check(&self, name: &str, step: &Step) {
        let disk = step.disk.fork(1);
        let found = recover(&World::on(&disk, 1, 300), "x", &step.state, self.here.tree);
        let history = if name == OTHER {
            &self.there
        } else {
            &self.here
        };
        history.check(Lsn(step.state.end_lsn), &found);
    }

    /// Every order that goes on from `step`, at most `more` of them: each is refused, or leads to what the last one was taken of.
    fn walk(&self, step: &Step, order: &mut Vec<&'static str>, more: u32, taken: &mut Vec<String>) {
        for name in [FIRST, SECOND, OTHER].into_iter().chain(LOGS) {
            order.push(name);
            let mut next = Step {
                disk: step.disk.fork(1),
                state: step.state.clone(),
            };
            let world = World::on(&next.disk, 1, 300);
            match apply(&world, "x", name, &mut next.state) {
                Ok(()) => {
                    taken.push(order.concat());
                    drop(world);
                    self.check(name, &next);
                    if more > 1 {
                        self.walk(&next, order, more - 1, taken);
                    }
                }
                Err(BackupError::Chain(_)) => {}
                Err(error) => panic!("{order:?}: {error}"),
            }
            order.pop();
        }
    }
}

/// A database in restore.
struct Step {
    disk: Arc<SimDisk>,
    state: RestoreState,
}

impl Step {
    fn begin(world: &World, name: &str) -> RestoreState {
        let set = set(world, BASE);
        restore_full(&world.env, &set, &files(name), 2, &mut |_| Ok(())).expect("full")
    }
}

fn set(world: &World, name: &str) -> SetReader {
    world.media(&[name]).and_then(|m| m.set(1)).expect("a set")
}

fn apply(world: &World, name: &str, backup: &str, state: &mut RestoreState) -> Result<()> {
    let set = set(world, backup);
    let mut to = files(name);
    if LOGS.contains(&backup) {
        return restore_log(&world.env, &set, &to, &[], state, None, &mut |_| Ok(()));
    }
    let log = std::mem::replace(&mut to.log.path, "/new_log.ldf".into());
    let is_there = |_: &FileSpec| true;
    begin_differential(&set, state, 2, &mut |_| Ok(()))?;
    restore_differential(&world.env, &set, &to, is_there, state, 2, &mut |_| Ok(()))?;
    world.disk.rename(&to.log.path, &log).expect("renames");
    Ok(())
}

#[test]
fn every_order_of_backups_is_refused_or_leads_to_a_whole_database() {
    let family = Family::new(83);
    let world = World::on(&family.disk, 83, 300);
    let state = Step::begin(&world, "x");
    let begin = Step {
        disk: family.disk.fork(83),
        state,
    };
    let mut taken = Vec::new();
    family.walk(&begin, &mut Vec::new(), 4, &mut taken);
    let [one, two, three] = LOGS;
    for (order, fits) in [
        (&[FIRST, SECOND, three][..], true),
        (&[one, two, SECOND, three], true),
        (&[one, two, three, FIRST], true),
        (&[one, two, three, OTHER], true),
        (&[FIRST, two, three, SECOND], true),
        (&[FIRST, FIRST, two, three], true),
        (&[SECOND, FIRST], false),
        (&[SECOND, three, FIRST], false),
        (&[SECOND, OTHER], false),
        (&[SECOND, three, OTHER], false),
        (&[FIRST, OTHER], false),
        (&[OTHER, SECOND], false),
        (&[OTHER, two], false),
    ] {
        assert_eq!(taken.contains(&order.concat()), fits, "{order:?}");
    }
}

/// The state as an older release kept it, and the one of single pages.
#[test]
fn a_state_without_note_and_single_pages_take_only_what_surely_fits() {
    let family = Family::new(84);
    let world = World::on(&family.disk, 84, 300);
    let check = |state: &RestoreState, name: &str| state.check(set(&world, name).info());
    let older = |state: &RestoreState| -> RestoreState {
        let mut json = serde_json::to_value(state).expect("JSON");
        json.as_object_mut().expect("an object").remove("pages");
        serde_json::from_value(json).expect("a state")
    };
    let begin = Step::begin(&world, "x");
    for name in [FIRST, SECOND, OTHER] {
        assert_eq!(check(&older(&begin), name), Ok(()));
    }
    let mut state = begin.clone();
    apply(&world, "x", SECOND, &mut state).expect("differential");
    assert_eq!(check(&older(&state), FIRST), Err(ChainError::OtherBase));
    assert_eq!(check(&older(&state), OTHER), Err(ChainError::OtherPath));
    assert_eq!(check(&older(&state), SECOND), Ok(()));
    assert_eq!(check(&older(&state), LOGS[2]), Ok(()));

    // As it is stored before the first page is written, also beside log that goes beyond the differential.
    let mut rolled = Step::begin(&world, "y");
    for name in LOGS {
        apply(&world, "y", name, &mut rolled).expect("log");
    }
    for before in [&begin, &rolled] {
        let broken = begin_differential(&set(&world, OTHER), before, 2, &mut |_| Ok(()));
        let broken = broken.expect("whole");
        for name in [FIRST, SECOND] {
            assert!(check(&broken, name).is_err(), "{name}");
        }
        for name in LOGS {
            assert_eq!(check(&broken, name), Err(ChainError::BrokenOff));
        }
        let boot = write_boot(&world.env, &files("x"), &broken);
        assert!(matches!(
            boot,
            Err(BackupError::Chain(ChainError::BrokenOff))
        ));
        assert_eq!(check(&broken, OTHER), Ok(()));
    }

    // Single pages keep to the same rules.
    let mut roll = PageRoll::new([PageId::new(1, 100)]);
    let mut pages = |name, state| restore_pages(&set(&world, name), &mut roll, state);
    let state = pages(BASE, None).and_then(|state| pages(SECOND, Some(state)));
    let found = pages(FIRST, Some(state.expect("pages")));
    assert!(matches!(
        found,
        Err(BackupError::Chain(ChainError::OtherBase))
    ));

    // And log has changed them, where it is only laid out for a whole database.
    let rolled = |names: &[&str], last| {
        let mut roll = PageRoll::new([PageId::new(1, 100)]);
        let mut pages = |name, state| restore_pages(&set(&world, name), &mut roll, state);
        let mut state = pages(BASE, None).expect("pages");
        for name in names {
            state = pages(name, Some(state)).expect("rolls forward");
        }
        pages(last, Some(state)).map(drop)
    };
    let [one, two, three] = LOGS;
    for last in [FIRST, SECOND] {
        rolled(&[one, two, three], last).expect("is on the way");
    }
    let other = rolled(&[one, two, three], OTHER);
    assert!(matches!(
        other,
        Err(BackupError::Chain(ChainError::OtherPath))
    ));
}
