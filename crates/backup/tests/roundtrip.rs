//! Backups of a database at work come back as the state at their end.

mod common;

use common::*;
use daruma_backup::*;
use daruma_base::{DatabaseId, Lsn};
use daruma_sim::SimRandom;
use daruma_storage::{Growth, Isolation, RecoveryModel, Settings, WriteOutcome};

/// A full backup at a random moment of a running history, restored elsewhere, equals the history at its end.
#[test]
fn a_full_backup_is_the_state_at_its_end() {
    for seed in 0..12 {
        let world = World::new(seed, 300);
        let history = History::new(&world, "d", RecoveryModel::Simple);
        let names: Vec<String> = (0..1 + seed % 3).map(|n| format!("/b{n}.bak")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let taken = std::thread::scope(|scope| {
            scope.spawn(|| history.run(&SimRandom::new(seed), 600));
            history.wait_for(world.random.below(300) as usize);
            let taken = full(&world, &history.db, &names);
            history
                .stop
                .store(true, std::sync::atomic::Ordering::Release);
            taken.expect("a backup")
        });
        let media = world.media(&names).expect("a media set");
        let set = media.set(1).expect("a set");
        verify(&set, 2, &mut |_| Ok(())).expect("is whole");
        let state =
            restore_full(&world.env, &set, &files("r"), 2, &mut |_| Ok(())).expect("restores");
        history.check(
            Lsn(taken.last_lsn),
            &recover(&world, "r", &state, history.tree),
        );
    }
}

/// A transaction may be older than the backup and open at its end: the restored database takes it back.
#[test]
fn a_transaction_that_outlives_the_backup_is_taken_back() {
    for seed in 30..34 {
        let world = World::new(seed, 300);
        let history = History::new(&world, "d", RecoveryModel::Simple);
        history.run(&SimRandom::new(seed), 50);
        let txn = history.db.begin(&owner(1_000));
        let tree = history.db.tree(history.tree).expect("the tree");
        for n in 0..60u32 {
            let key = [b"long".as_slice(), &n.to_be_bytes()].concat();
            tree.insert(&txn, &key, &[7; 1_000]).expect("inserts");
        }
        history.run(&SimRandom::new(seed + 1), 50);
        let taken = full(&world, &history.db, &["/b"]).expect("a backup");
        let set = world.media(&["/b"]).and_then(|m| m.set(1)).expect("a set");
        let state =
            restore_full(&world.env, &set, &files("r"), 2, &mut |_| Ok(())).expect("restores");
        let found = recover(&world, "r", &state, history.tree);
        history.check(Lsn(taken.last_lsn), &found);
        txn.rollback().expect("rolls back");
    }
}

/// An idle database with a forgotten transaction: nothing but its versions goes to pages while the full backup begins, and
/// the differential has no log of then.
#[test]
fn a_differential_has_the_versions_that_were_placed_while_its_base_began() {
    for seed in 70..74 {
        let world = World::new(seed, 300);
        let history = History::new(&world, "d", RecoveryModel::Full);
        let accelerated = settings(RecoveryModel::Full, true);
        history.db.set_settings(accelerated).expect("accelerated");
        history.add_rows(100);
        let txn = history.db.begin(&owner(1_000));
        let tree = history.db.tree(history.tree).expect("the tree");
        for n in 0..60 {
            let key = format!("row{n:06}").into_bytes();
            let entry = tree.get(&txn.view(Isolation::Current), &key);
            let entry = entry.expect("reads").expect("a row");
            tree.update(&txn, &key, entry.stamp, &[1; 400])
                .expect("updates");
        }
        history.db.flush_log().expect("all is on disk");
        let base = full(&world, &history.db, &["/full"]).expect("full");
        let diff = differential(&world, &history.db, &["/diff"], &base).expect("differential");
        let set = |name: &str| world.media(&[name]).and_then(|m| m.set(1)).expect("a set");
        let mut state = restore_full(&world.env, &set("/full"), &files("r"), 2, &mut |_| Ok(()))
            .expect("restores");
        let mut to = files("r");
        to.log.path = "/r_log2.ldf".into();
        begin_differential(&set("/diff"), &state, 2, &mut |_| Ok(())).expect("whole");
        restore_differential(
            &world.env,
            &set("/diff"),
            &to,
            |_| true,
            &mut state,
            2,
            &mut |_| Ok(()),
        )
        .expect("restores");
        use daruma_base::Disk;
        let (from, to) = ("/r_log2.ldf".as_ref(), "/r_log.ldf".as_ref());
        world.disk.rename(from, to).expect("renames");
        let found = recover(&world, "r", &state, history.tree);
        history.check(Lsn(diff.last_lsn), &found);
        txn.rollback().expect("rolls back");
    }
}

/// Full, differential and log backups of one history, restored in every legal order.
#[test]
fn differential_and_log_backups_go_on_from_there() {
    for seed in 20..28 {
        let world = World::new(seed, 300);
        let history = History::new(&world, "d", RecoveryModel::Full);
        let random = SimRandom::new(seed);
        history.run(&random, 80);
        let base = full(&world, &history.db, &["/full1", "/full2"]).expect("full");
        history.run(&random, 60);
        let log1 = log(&world, &history.db, &["/log"]).expect("log");
        history.run(&random, 60);
        let diff = differential(&world, &history.db, &["/diff"], &base).expect("differential");
        assert!(diff.pages <= base.pages + 100 && diff.pages > 0);
        history.run(&random, 60);
        let log2 = log(&world, &history.db, &["/log"]).expect("log");
        assert_eq!((log1.position, log2.position), (1, 2));
        assert_eq!(log2.first_lsn, log1.last_lsn);

        let media = |names: &[&str]| world.media(names).expect("media");
        let begin = |name: &str| {
            let set = media(&["/full2", "/full1"]).set(1).expect("set");
            restore_full(&world.env, &set, &files(name), 2, &mut |_| Ok(())).expect("restores")
        };
        let roll = |name: &str, position, state: &mut RestoreState| {
            let set = media(&["/log"]).set(position).expect("set");
            restore_log(
                &world.env,
                &set,
                &files(name),
                &[],
                state,
                None,
                &mut |_| Ok(()),
            )
        };
        let mut a = begin("a");
        assert!(matches!(
            roll("a", 2, &mut a),
            Err(BackupError::Chain(ChainError::TooRecent { .. }))
        ));
        roll("a", 1, &mut a).expect("first log");
        assert!(matches!(
            roll("a", 1, &mut a),
            Err(BackupError::Chain(ChainError::TooEarly { .. }))
        ));
        roll("a", 2, &mut a).expect("second log");
        history.check(Lsn(log2.last_lsn), &recover(&world, "a", &a, history.tree));

        let mut b = begin("b");
        let set = media(&["/diff"]).set(1).expect("set");
        let mut with_new_log = files("b");
        begin_differential(&set, &b, 2, &mut |_| Ok(())).expect("whole");
        with_new_log.log.path = "/b_log2.ldf".into();
        restore_differential(
            &world.env,
            &set,
            &with_new_log,
            |_| true,
            &mut b,
            2,
            &mut |_| Ok(()),
        )
        .expect("differential");
        use daruma_base::Disk;
        world
            .disk
            .rename("/b_log2.ldf".as_ref(), "/b_log.ldf".as_ref())
            .expect("renames");
        let mut c = b.clone();
        roll("b", 2, &mut b).expect("log after differential");
        history.check(Lsn(log2.last_lsn), &recover(&world, "b", &b, history.tree));
        c.end_lsn = log2.last_lsn + 4096;
        assert!(roll("c", 2, &mut c).is_err());
    }
}

/// A full backup at a random moment and log backups after it, while writers work; restored elsewhere to a random position
/// of the log, the database is what it was there.
#[test]
fn a_random_position_of_the_log_comes_back() {
    for seed in 40..52 {
        let world = World::new(seed, 300);
        let history = History::new(&world, "d", RecoveryModel::Full);
        let (base, logs) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| history.run(&SimRandom::new(seed), 400));
            history.wait_for(world.random.below(100) as usize);
            let base = full(&world, &history.db, &["/full"]).expect("full");
            let mut logs = Vec::new();
            while !writer.is_finished() || logs.is_empty() {
                let commits = history.commits.load(std::sync::atomic::Ordering::Acquire);
                let more = 1 + world.random.below(60) as usize;
                while !writer.is_finished()
                    && history.commits.load(std::sync::atomic::Ordering::Acquire) < commits + more
                {
                    std::thread::yield_now();
                }
                logs.push(log(&world, &history.db, &["/log"]).expect("log"));
            }
            (base, logs)
        });
        let end = logs.last().expect("a log backup").last_lsn;
        for round in 0..4 {
            let stop = Lsn(base.last_lsn + world.random.below(end - base.last_lsn + 1));
            let name = format!("r{round}");
            let set = world.media(&["/full"]).expect("media").set(1);
            let set = set.expect("a set");
            let mut state =
                restore_full(&world.env, &set, &files(&name), 2, &mut |_| Ok(())).expect("full");
            for info in &logs {
                if state.stopped {
                    break;
                }
                let media = world.media(&["/log"]).expect("media");
                let set = media.set(info.position).expect("a set");
                let before = Some(daruma_storage::Stop::Before(stop));
                let to = files(&name);
                match restore_log(&world.env, &set, &to, &[], &mut state, before, &mut |_| {
                    Ok(())
                }) {
                    Ok(()) => {}
                    // The full backup ends behind it.
                    Err(BackupError::Chain(ChainError::TooEarly { .. })) => {}
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
            history.check(stop, &recover(&world, &name, &state, history.tree));
        }
    }
}

/// A large transaction was open at the end of the log backup: a server with the smallest pool takes it back.
#[test]
fn a_restored_database_is_recovered_with_the_fewest_frames() {
    const FRAMES_MIN: usize = 64;
    for accelerated in [true, false] {
        let world = World::new(60, 4_096);
        let history = History::new(&world, "d", RecoveryModel::Full);
        history
            .db
            .set_settings(settings(RecoveryModel::Full, accelerated))
            .expect("settings");
        // No checkpoint has to make room in the log: one would write what the transaction changes.
        history
            .db
            .modify_file(2, 4_096, Growth::Pages(64), None)
            .expect("a larger log");
        history.run(&SimRandom::new(60), 20);
        history.add_rows(4_000);
        full(&world, &history.db, &["/full"]).expect("full");
        let open = history.db.begin(&owner(1_000));
        let tree = history.db.tree(history.tree).expect("the tree");
        let view = open.view(Isolation::Current);
        let rows = history.states.lock().last().expect("a state").2.clone();
        for key in rows.keys() {
            let entry = tree.get(&view, key).expect("reads").expect("is there");
            let outcome = tree.update(&open, key, entry.stamp, &[9; 500]);
            assert_eq!(outcome.expect("updates"), WriteOutcome::Done);
        }
        let taken = log(&world, &history.db, &["/log"]).expect("log");
        let small = World::on(&world.disk, 61, FRAMES_MIN);
        let set = small.media(&["/full"]).and_then(|m| m.set(1)).expect("set");
        let mut state =
            restore_full(&small.env, &set, &files("r"), 2, &mut |_| Ok(())).expect("restores");
        let set = small.media(&["/log"]).and_then(|m| m.set(1)).expect("set");
        let to = files("r");
        restore_log(
            &small.env,
            &set,
            &to,
            &[],
            &mut state,
            None,
            &mut |_| Ok(()),
        )
        .expect("log");
        let found = recover(&small, "r", &state, history.tree);
        history.check(Lsn(taken.last_lsn), &found);
        drop(view);
        open.rollback().expect("rolls back");
    }
}

/// Options that were set after the full backup are in the log, and count up to where the chain is restored.
#[test]
fn settings_come_with_the_log_that_changed_them() {
    let world = World::new(70, 300);
    let history = History::new(&world, "d", RecoveryModel::Full);
    let before = history.db.settings();
    history.run(&SimRandom::new(70), 20);
    full(&world, &history.db, &["/full"]).expect("full");
    let after = Settings {
        accelerated_recovery: !before.accelerated_recovery,
        allow_snapshot: !before.allow_snapshot,
        target_recovery_seconds: 7,
        recovery_model: RecoveryModel::BulkLogged,
        ..before
    };
    history.run(&SimRandom::new(71), 20);
    let between = log(&world, &history.db, &["/log"]).expect("log");
    history.db.set_settings(after).expect("sets");
    let last = log(&world, &history.db, &["/log"]).expect("log");
    for (name, until, wanted) in [("a", between, before), ("b", last, after)] {
        let set = world.media(&["/full"]).and_then(|m| m.set(1)).expect("set");
        let to = files(name);
        let mut state = restore_full(&world.env, &set, &to, 2, &mut |_| Ok(())).expect("full");
        for position in 1..=until.position {
            let set = world.media(&["/log"]).and_then(|m| m.set(position));
            let set = set.expect("set");
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
        }
        write_boot(&world.env, &to, &state).expect("a boot page");
        let opened = world.engine.open_database(DatabaseId(6), name, specs(name));
        let (db, _) = opened.expect("opens");
        assert_eq!(db.settings(), wanted, "{name}");
        assert_eq!(db.log_backup_start(), Lsn(until.last_lsn), "{name}");
        db.close().expect("closes");
    }
}
