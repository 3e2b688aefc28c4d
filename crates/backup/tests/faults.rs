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

/// What a cancelled RESTORE LOG has written is no part of the database, whatever comes next: recovery, or another step that
/// ends earlier.
#[test]
fn a_cancelled_log_restore_can_be_followed_by_anything() {
    let world = World::new(8, 300);
    let history = History::new(&world, "d", RecoveryModel::Full);
    let random = SimRandom::new(8);
    history.run(&random, 40);
    full(&world, &history.db, &["/full"]).expect("full");
    let mut logs = Vec::new();
    for _ in 0..2 {
        history.run(&random, 60);
        logs.push(log(&world, &history.db, &["/log"]).expect("log"));
    }
    let set = |position| {
        world
            .media(&["/log"])
            .and_then(|m| m.set(position))
            .expect("a set")
    };
    let roll = |name: &str, position, state: &mut RestoreState, stop| {
        let files = files(name);
        restore_log(
            &world.env,
            &set(position),
            &files,
            &[],
            state,
            stop,
            &mut |_| Ok(()),
        )
        .expect("restores");
    };
    for (name, steps_before) in [("r", 0usize), ("s", 1)] {
        for (n, then) in ["recovery", "a point in time", "the same"]
            .iter()
            .enumerate()
        {
            let name = format!("{name}{n}");
            let full = world
                .media(&["/full"])
                .and_then(|m| m.set(1))
                .expect("a set");
            let mut state = restore_full(&world.env, &full, &files(&name), 2, &mut |_| Ok(()))
                .expect("restores");
            for position in 1..=steps_before as u32 {
                roll(&name, position, &mut state, None);
            }
            let position = steps_before as u32 + 1;
            let begin = state.end_lsn;
            // A file that the database got since then is made by the step, and anew by the next.
            let extra = daruma_storage::FileSpec::data(4, 2, &format!("/{name}_4.ndf"), 32);
            let set = set(position);
            let files = files(&name);
            let cancelled = restore_log(
                &world.env,
                &set,
                &files,
                std::slice::from_ref(&extra),
                &mut state,
                None,
                &mut |_| Err(Cancelled),
            );
            assert!(
                !world.disk.exists(&extra.path).expect("looks"),
                "it is gone"
            );
            assert!(
                matches!(cancelled, Err(BackupError::Cancelled)),
                "{cancelled:?}"
            );
            assert_eq!(state.end_lsn, begin);
            let end = logs[steps_before].last_lsn;
            let reached = match *then {
                "recovery" => begin,
                "the same" => {
                    roll(&name, position, &mut state, None);
                    end
                }
                _ => {
                    let stop = begin + (end - begin) / 2;
                    let before = Some(daruma_storage::Stop::Before(Lsn(stop)));
                    roll(&name, position, &mut state, before);
                    assert!(state.end_lsn < end && state.end_lsn > begin);
                    // The block that it stops in counts whole in `end_lsn`.
                    stop
                }
            };
            let found = recover(&world, &name, &state, history.tree);
            history.check(Lsn(reached), &found);
        }
    }
}

/// The end that recovery finds must be the end of what was restored.
#[test]
fn a_restored_log_that_lost_its_last_block_is_refused() {
    let world = World::new(9, 300);
    let history = History::new(&world, "d", RecoveryModel::Simple);
    history.run(&SimRandom::new(9), 40);
    full(&world, &history.db, &["/full"]).expect("full");
    let set = world
        .media(&["/full"])
        .and_then(|m| m.set(1))
        .expect("a set");
    let files = files("r");
    let state = restore_full(&world.env, &set, &files, 2, &mut |_| Ok(())).expect("restores");
    write_boot(&world.env, &files, &state).expect("a boot page");
    let log = world.disk.content_of(&files.log.path).expect("a log");
    let field = |block: &[u8]| {
        block[8..16]
            .try_into()
            .map(u64::from_le_bytes)
            .expect("8 bytes")
    };
    let blocks = log
        .chunks(4_096)
        .enumerate()
        .filter(|(_, b)| b.starts_with(b"DBLK"));
    let last = blocks.map(|(n, b)| (field(b), n)).max().expect("a block").1;
    world
        .disk
        .flip(&files.log.path, last as u64 * 4_096 + 50, 1);
    let opened = world
        .engine
        .open_database(daruma_base::DatabaseId(6), "r", specs("r"));
    let refused = opened.map(|_| ());
    assert!(
        matches!(
            refused,
            Err(daruma_storage::StorageError::DamagedLog { .. })
        ),
        "{refused:?}"
    );
}
