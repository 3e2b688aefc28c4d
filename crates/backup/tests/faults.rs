//! Errors and stops at the disk calls of a backup and of a restore, one after the other.
//!
//! The whole machine shares one simulated disk, so a fault meets whatever call is next: of the backup, of the log, of a
//! checkpoint. What must hold is the same for all of them: a file that looks like a backup is one, and nothing that was
//! there before is lost.

mod common;

use common::*;
use daruma_backup::*;
use daruma_base::{Disk, Lsn};
use daruma_sim::{Faults, SimRandom};
use daruma_storage::{DatabaseState, RecoveryModel};
use std::path::Path;

/// Every so many calls a fault: all of them take too long for a test that runs each time.
const STRIDE: u64 = 3;
const NAMES: [&str; 2] = ["/x1", "/x2"];

fn check_whole(world: &World, what: &str) -> SetInfo {
    let set = world.media(&NAMES).and_then(|media| media.set(1));
    let set = set.unwrap_or_else(|e| panic!("{what}: {e}"));
    verify(&set, 2, &mut |_| Ok(())).unwrap_or_else(|e| panic!("{what}: {e}"));
    set.info().clone()
}

fn overwrite(world: &World, history: &History) -> Result<SetInfo> {
    let mut destination = world.destination(&NAMES);
    destination.overwrite = true;
    let (label, tuning) = (MediaLabel::default(), tuning());
    let request = request(
        world,
        &history.db,
        &destination,
        &label,
        &tuning,
        BackupKind::Full,
    );
    Ok(take_full(request, &mut |_| Ok(()))?.info)
}

/// An error at one call: the backup fails or is whole, and the one before is there until then.
#[test]
fn an_error_at_any_call_of_a_backup_leaves_a_whole_one() {
    let world = World::new(5, 300);
    let mut history = History::new(&world, "d", RecoveryModel::Simple);
    history.run(&SimRandom::new(5), 30);
    let mut last = overwrite(&world, &history).expect("a backup").set;
    let (mut failures, mut call) = (0, 0);
    loop {
        let begin = world.disk.ios();
        world.disk.set_faults(Faults {
            fail_io_at: Some(begin + call),
            ..Faults::default()
        });
        let taken = overwrite(&world, &history);
        world.disk.set_faults(Faults::default());
        let met = world.disk.ios() - begin > call;
        let found = check_whole(&world, &format!("error at call {call}")).set;
        match &taken {
            Ok(info) => assert_eq!(found, info.set),
            Err(_) => {
                failures += 1;
                // When the directory could not be synced, the names are there already.
                assert!(found == last || met, "call {call}");
            }
        }
        last = found;
        if !met {
            break;
        }
        if history.db.state() != DatabaseState::Online {
            history = history.reopened(&world);
        }
        call += STRIDE;
    }
    assert!(failures > 5, "{failures} of {call} calls failed the backup");
    let end = history.db.hardened_lsn();
    history.check(end, &dump(&history.db, history.tree));
}

/// The machine stops at one call: afterwards there is a whole backup, the old one or the new one.
#[test]
fn a_stop_at_any_call_of_a_backup_leaves_a_whole_one() {
    let mut world = World::new(6, 300);
    let mut history = History::new(&world, "d", RecoveryModel::Simple);
    history.run(&SimRandom::new(6), 30);
    overwrite(&world, &history).expect("a backup");
    let mut call = 0;
    loop {
        world.disk.set_faults(Faults {
            stop_io_at: Some(world.disk.ios() + call),
            ..Faults::default()
        });
        let taken = overwrite(&world, &history);
        let stopped = world.disk.is_stopped();
        world.disk.set_faults(Faults::default());
        if !stopped {
            break;
        }
        world.disk.crash();
        world = World::on(&world.disk, 600 + call, 300);
        let found = check_whole(&world, &format!("stop at call {call}"));
        if let Ok(info) = &taken {
            assert_eq!(found.set, info.set, "an acknowledged backup");
        }
        history = history.reopened(&world);
        call += STRIDE;
    }
    assert!(call > 20, "{call} calls");
    let end = history.db.hardened_lsn();
    history.check(end, &dump(&history.db, history.tree));
}

/// An error while a backup is restored elsewhere: it fails, or what it made is whole.
#[test]
fn an_error_at_any_call_of_a_restore_is_told() {
    let world = World::new(8, 300);
    let history = History::new(&world, "d", RecoveryModel::Simple);
    history.run(&SimRandom::new(8), 30);
    let taken = overwrite(&world, &history).expect("a backup");
    let set = world.media(&NAMES).expect("media").set(1).expect("a set");
    let (mut failures, mut call) = (0, 0);
    loop {
        let begin = world.disk.ios();
        world.disk.set_faults(Faults {
            fail_io_at: Some(begin + call),
            ..Faults::default()
        });
        let restored = restore_full(&world.env, &set, &files("r"), 2, &mut |_| Ok(()));
        world.disk.set_faults(Faults::default());
        let met = world.disk.ios() - begin > call;
        match restored {
            Ok(state) => {
                let found = recover(&world, "r", &state, history.tree);
                history.check(Lsn(taken.last_lsn), &found);
            }
            Err(_) => failures += 1,
        }
        for spec in specs("r") {
            let _ = world.disk.remove(Path::new(&spec.path));
        }
        if !met {
            break;
        }
        call += STRIDE;
    }
    assert!(failures > 5, "{failures} failures");
}
