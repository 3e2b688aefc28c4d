//! Commits that wait for other nodes: while the quorum stands still nothing is acknowledged, seen or written; when it moves all
//! end in the order of the log.

mod common;

use common::*;
use daruma_base::Lsn;
use daruma_sim::SimDisk;
use daruma_storage::*;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread;

struct World {
    disk: Arc<SimDisk>,
    db: Arc<Database>,
    tree: TreeId,
}

/// A database with participants that have everything so far.
fn world(seed: u64, settings: Settings) -> World {
    let disk = SimDisk::new(seed);
    let (db, tree) = create(&disk, seed, 64, settings);
    db.checkpoint().expect("checkpoint");
    db.set_participants(true);
    World { disk, db, tree }
}

type Told = Receiver<Result<()>>;

impl World {
    fn insert(&self, key: u32) -> Txn {
        let txn = self.db.begin(&owner(u64::from(key) + 100));
        fill(&self.db, &txn, self.tree, key..key + 1, 7);
        txn
    }

    /// A commit whose reply comes when it comes. The bytes of the log that it needs are on disk here.
    fn commit_late(&self, key: u32) -> Told {
        let (tell, told) = channel();
        let unhard = self.insert(key).commit_unhard().expect("appends");
        unhard.expect("has written").when_hard(move |result| {
            let _ = tell.send(result);
        });
        told
    }

    fn sees(&self, key: u32) -> bool {
        dump(&self.db, self.tree).contains_key(key.to_be_bytes().as_slice())
    }

    fn raise_to_all(&self) {
        self.db.raise_quorum(self.here());
    }

    /// What is on disk here.
    fn here(&self) -> Lsn {
        self.db.log_stats().hardened_lsn
    }

    /// Would another session get a lock on the row?
    fn is_locked(&self, key: u32) -> bool {
        let owner = Owner::new(9_000, Default::default());
        owner.lock_timeout_ms.store(0, Ordering::Relaxed);
        let txn = self.db.begin(&owner);
        let view = txn.locking_view(LockMode::Update);
        let tree = self.db.tree(self.tree).expect("tree");
        let found = tree.get(&view, &key.to_be_bytes());
        matches!(found, Err(StorageError::LockTimeout))
    }

    /// Power fails, and the node comes up alone.
    fn crash(self) -> (Arc<Database>, TreeId) {
        drop(self.db);
        self.disk.crash();
        let (db, _) = open(&self.disk, 1, 64).expect("opens");
        (db, self.tree)
    }
}

#[test]
fn nothing_is_acknowledged_or_seen_while_the_quorum_stands_still() {
    for settings in [Settings::default(), accelerated()] {
        let world = world(1, settings);
        let before = world.db.hardened_lsn();
        let told = [world.commit_late(1), world.commit_late(2)];
        assert!(world.here() > before, "they are on disk here");
        assert_eq!(world.db.hardened_lsn(), before);
        for told in &told {
            assert_eq!(told.try_recv().err(), Some(TryRecvError::Empty));
        }
        assert!(!world.sees(1) && !world.sees(2));
        assert!(world.is_locked(1) && world.is_locked(2));
        world.raise_to_all();
        for told in &told {
            told.try_recv().expect("told").expect("committed");
        }
        assert!(world.sees(1) && world.sees(2));
        assert!(!world.is_locked(1));
        assert_eq!(world.db.hardened_lsn(), world.here());
    }
}

#[test]
fn commits_end_in_the_order_of_the_log_each_when_the_quorum_has_passed_it() {
    let world = world(2, Settings::default());
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut ends = Vec::new();
    for key in 0..20 {
        let order = order.clone();
        let unhard = world.insert(key).commit_unhard().expect("appends");
        unhard.expect("has written").when_hard(move |result| {
            result.expect("committed");
            order.lock().expect("no panic").push(key);
        });
        ends.push(world.here());
    }
    for (key, end) in ends.iter().enumerate().step_by(5) {
        world.db.raise_quorum(*end);
        let expected: Vec<u32> = (0..=key as u32).collect();
        assert_eq!(*order.lock().expect("no panic"), expected);
        assert!(world.sees(key as u32) && !world.sees(key as u32 + 1));
    }
    // It never falls.
    world.db.raise_quorum(ends[0]);
    assert_eq!(world.db.hardened_lsn(), ends[15]);
    world.db.set_participants(true);
    assert_eq!(world.db.hardened_lsn(), ends[15]);
    // Nobody is waited for any more.
    world.db.set_participants(false);
    assert_eq!(order.lock().expect("no panic").len(), 20);
    world.insert(50).commit(Durability::Full).expect("commits");
}

#[test]
fn threads_that_commit_wait_and_go_on() {
    let world = world(3, Settings::default());
    thread::scope(|scope| {
        let (done, is_done) = channel();
        for key in 0..8 {
            let (world, done) = (&world, done.clone());
            scope.spawn(move || {
                let committed = world.insert(key).commit(Durability::Full);
                done.send((key, committed.is_ok())).expect("is awaited");
            });
        }
        drop(done);
        // The participant has whatever is on disk here, each time it looks.
        let mut ended = 0;
        while ended < 8 {
            world.raise_to_all();
            while let Ok((key, is_ok)) = is_done.try_recv() {
                assert!(is_ok && world.sees(key), "{key}");
                ended += 1;
            }
            thread::yield_now();
        }
    });
}

#[test]
fn no_page_and_no_checkpoint_is_written_above_the_quorum() {
    let world = world(4, Settings::default());
    let told = world.commit_late(1);
    let pages = |disk: &Arc<SimDisk>| disk.content_of("/t.mdf".as_ref()).expect("is there");
    let before = pages(&world.disk);
    // Steps of the background, which others share, do not wait for the participant, nor write a page.
    for _ in 0..3 {
        world.db.background_step().expect("works");
    }
    assert!(pages(&world.disk) == before, "a page was written");
    thread::scope(|scope| {
        let checkpoint = scope.spawn(|| world.db.checkpoint());
        let mut is_raised = false;
        while !checkpoint.is_finished() {
            if !is_raised {
                let kept = world.db.log_stats().checkpoint_lsn;
                assert!(kept < world.db.hardened_lsn());
            }
            world.raise_to_all();
            is_raised = true;
            thread::yield_now();
        }
        checkpoint.join().expect("no panic").expect("checkpoint");
    });
    told.try_recv().expect("told").expect("committed");
    let stats = world.db.log_stats();
    assert!(stats.checkpoint_lsn < world.db.hardened_lsn());
    assert!(pages(&world.disk) != before);
}

/// The pages on disk of a database that stops while participants lack some of its log.
#[test]
fn closing_writes_nothing_that_participants_lack() {
    let world = world(5, Settings::default());
    let _told = world.commit_late(1);
    let before = world.disk.content_of("/t.mdf".as_ref());
    world.db.close().expect("closes");
    assert!(world.disk.content_of("/t.mdf".as_ref()) == before);
    // Alone it has the commit: it was in its log.
    let (db, tree) = world.crash();
    assert!(dump(&db, tree).contains_key(1_u32.to_be_bytes().as_slice()));
}

#[test]
fn a_client_that_goes_away_does_not_make_its_commit_visible() {
    let world = world(6, Settings::default());
    drop(world.commit_late(1));
    let cancelled = Owner::new(77, Default::default());
    let txn = world.db.begin(&cancelled);
    fill(&world.db, &txn, world.tree, 5..6, 7);
    let unhard = txn.commit_unhard().expect("appends").expect("has written");
    drop(txn);
    unhard.when_hard(|_| {});
    cancelled
        .cancel
        .set(daruma_base::cancel::CancelReason::Kill);
    assert!(!world.sees(1) && !world.sees(5));
    assert!(world.is_locked(1) && world.is_locked(5));
    world.raise_to_all();
    assert!(world.sees(1) && world.sees(5));
}

#[test]
fn when_the_log_fails_those_who_wait_learn_that_the_outcome_is_unknown() {
    let world = world(7, Settings::default());
    let told = world.commit_late(1);
    thread::scope(|scope| {
        let before = world.here();
        let waits = scope.spawn(|| world.insert(2).commit(Durability::Full));
        while world.here() == before {
            thread::yield_now();
        }
        crash::stop_within(&world.disk, 0);
        world
            .insert(3)
            .commit(Durability::Delayed)
            .expect("waits for nobody");
        world.db.flush_log().expect_err("the disk is gone");
        let error = waits.join().expect("no panic").expect_err("unknown");
        assert!(matches!(error, StorageError::Fenced { .. }), "{error}");
    });
    let result = told.try_recv().expect("told");
    assert!(matches!(result, Err(StorageError::Fenced { .. })));
}

/// As many as there are sessions, on the thread that finds the failure: none of them may be ended within the end of another.
#[test]
fn many_that_wait_when_the_log_fails_need_no_deep_stack() {
    const STACK_BYTES: usize = 512 << 10;
    for settings in [Settings::default(), accelerated()] {
        let world = world(12, settings);
        let told: Vec<Told> = (0..500).map(|key| world.commit_late(key)).collect();
        crash::stop_within(&world.disk, 0);
        thread::scope(|scope| {
            let fails = || {
                let unhard = world.insert(1_000).commit(Durability::Delayed);
                unhard.expect("waits for nobody");
                world.db.flush_log().expect_err("the disk is gone");
            };
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            let thread = thread.spawn_scoped(scope, fails).expect("begins");
            thread.join().expect("no panic");
        });
        for told in told {
            let result = told.try_recv().expect("told");
            assert!(matches!(result, Err(StorageError::Fenced { .. })));
        }
    }
}

/// Whoever wrote with a checkpoint under way waits for the participants, and so would closing, which waits for him.
#[test]
fn closing_does_not_wait_for_participants_that_stand_still() {
    let world = world(13, Settings::default());
    let before = world.here();
    let delayed = world.insert(1).commit(Durability::Delayed);
    delayed.expect("waits for nobody");
    thread::scope(|scope| {
        let checkpoint = scope.spawn(|| world.db.checkpoint());
        // It has made the log hard here, and waits for the others.
        while world.here() == before {
            thread::yield_now();
        }
        world.db.close().expect("closes");
        let ended = checkpoint.join().expect("no panic");
        assert!(ended.is_err(), "participants lack some of it");
    });
    let (db, tree) = world.crash();
    assert!(dump(&db, tree).contains_key(1_u32.to_be_bytes().as_slice()));
}

/// Nobody may be left who could have it.
#[test]
fn closing_adds_nothing_that_participants_would_have_to_have() {
    let world = world(14, Settings::default());
    let told = world.commit_late(1);
    world.raise_to_all();
    told.recv().expect("told").expect("commits");
    let before = world.here();
    world.db.close().expect("closes");
    assert_eq!(world.here(), before);
    let (db, tree) = world.crash();
    assert!(dump(&db, tree).contains_key(1_u32.to_be_bytes().as_slice()));
}

/// A pool that is full of pages which may not be written says so; it does not wait under a latch for a participant.
#[test]
fn a_small_pool_is_refused_and_goes_on_when_the_quorum_moves() {
    let world = world(8, Settings::default());
    let txn = world.db.begin(&owner(2));
    let tree = world.db.tree(world.tree).expect("tree");
    let mut key = 0_u32;
    let error = loop {
        match tree.insert(&txn, &key.to_be_bytes(), &[7; 3_000]) {
            Ok(_) => key += 1,
            Err(error) => break error,
        }
        assert!(key < 10_000, "pages above the quorum were written");
    };
    assert!(
        matches!(error, StorageError::BufferPoolFull { .. }),
        "{error}"
    );
    let end = world.db.log_stats().end_lsn;
    assert!(end > world.db.hardened_lsn());
    world.db.set_participants(false);
    tree.insert(&txn, &key.to_be_bytes(), &[7; 3_000])
        .expect("there is room");
    txn.commit(Durability::Full).expect("commits");
}

#[test]
fn a_log_backup_ends_at_the_quorum() {
    let world = world(9, Settings::default());
    let before = world.db.hardened_lsn();
    let _told = world.commit_late(1);
    let mut source = world
        .db
        .read_log(before, world.db.hardened_lsn())
        .expect("reads");
    assert!(source.next(1 << 20).expect("reads").is_none());
    let mut feed = world
        .db
        .log_feed(before, "AVAILABILITY_REPLICA")
        .expect("is there");
    feed.set_limit(FeedLimit::Quorum);
    assert!(matches!(feed.try_next(), Ok(Fed::Nothing)));
    world.raise_to_all();
    assert!(matches!(feed.try_next(), Ok(Fed::Block(_))));
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use super::*;

    #[test]
    fn an_acknowledgement_before_the_quorum_is_noticed() {
        let world = world(10, Settings::default());
        plant(Some(Bug::AckBeforeQuorum));
        let told = world.commit_late(1);
        let early = told.try_recv();
        plant(None);
        // An assertion that the record is hard ends the job; without it, its client would be told.
        assert_ne!(
            early.err(),
            Some(TryRecvError::Empty),
            "nothing has ended early"
        );
    }

    #[test]
    fn a_page_above_the_quorum_is_noticed() {
        let world = world(11, Settings::default());
        let _told = world.commit_late(1);
        let before = world.disk.content_of("/t.mdf".as_ref());
        let write_some = || world.db.write_some_pages(0, 1_000).expect("writes");
        assert_eq!(write_some(), 0);
        plant(Some(Bug::FlushAboveQuorum));
        assert!(write_some() > 0);
        plant(None);
        assert!(world.disk.content_of("/t.mdf".as_ref()) != before);
    }
}
