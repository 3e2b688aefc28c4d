//! Writers that are ahead of what commit participants have: who wrote much waits, who wrote little, commits and rollbacks do not, and
//! every wait ends.

mod common;

use common::*;
use daruma_base::cancel::CancelReason;
use daruma_base::{CancelFlag, DatabaseId};
use daruma_sim::SimDisk;
use daruma_storage::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, ScopedJoinHandle};

/// Log that participants may lack here.
const BYTES_MAX: u64 = 1 << 20;
/// What an owner may write beyond that before it waits, and the block that is open.
const SLACK: u64 = 192 << 10;
/// Rows of 150 bytes whose log is more than the bound and the slack.
const MANY: u32 = 12_000;

struct World {
    db: Arc<Database>,
    tree: TreeId,
}

/// A database with participants that have everything so far.
fn world(seed: u64, settings: Settings) -> World {
    let engine = engine(&SimDisk::new(seed), seed, 4_096);
    world_in(&engine, 5, settings)
}

/// The same in an engine that is there. The log has room for all that a test writes.
fn world_in(engine: &Arc<Engine>, number: u16, settings: Settings) -> World {
    let files = [
        FileSpec::data(1, 1, &format!("/{number}.mdf"), 256),
        FileSpec::log(&format!("/{number}.ldf"), 2_048),
    ];
    let db = engine.create_database(DatabaseId(number), "t", files.into(), settings);
    let db = db.expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    World::new(db, tree)
}

/// The owner of a session.
fn session(id: u64) -> Arc<Owner> {
    Owner::of_session(id, CancelFlag::new())
}

impl World {
    fn new(db: Arc<Database>, tree: TreeId) -> World {
        db.set_unacknowledged_max(BYTES_MAX);
        db.set_participants(true);
        db.hold_writers_back(true);
        World { db, tree }
    }

    /// Log that the participants lack.
    fn lacking_bytes(&self) -> u64 {
        self.db.log_stats().end_lsn.0 - self.db.hardened_lsn().0
    }

    fn insert(&self, txn: &Txn, keys: std::ops::Range<u32>) -> Result<()> {
        let tree = self.db.tree(self.tree).expect("tree");
        keys.into_iter()
            .try_for_each(|i| tree.insert(txn, &i.to_be_bytes(), &[7; 150]))
    }

    /// A load on a thread of its own, once it waits.
    fn held_back<'s, T: Send + 's>(
        &'s self,
        scope: &'s thread::Scope<'s, '_>,
        owner: &Arc<Owner>,
        load: impl FnOnce(&Txn) -> T + Send + 's,
    ) -> ScopedJoinHandle<'s, T> {
        let txn = self.db.begin(owner);
        let loading = scope.spawn(move || load(&txn));
        while !owner.is_held_back() {
            assert!(!loading.is_finished(), "it never waits");
            thread::yield_now();
        }
        loading
    }

    /// The participants have whatever is on disk here.
    fn raise_to_all(&self) {
        self.db.raise_quorum(self.db.log_stats().hardened_lsn);
    }
}

#[test]
fn a_load_waits_at_the_bound_and_goes_on_as_participants_catch_up() {
    for settings in [Settings::default(), accelerated()] {
        let world = world(1, settings);
        thread::scope(|scope| {
            let loader = session(1);
            let loading = world.held_back(scope, &loader, |txn| {
                world.insert(txn, 0..MANY).expect("inserts");
                txn.commit_unhard().expect("appends").expect("has written")
            });
            let lacking = world.lacking_bytes();
            assert!(
                (BYTES_MAX..BYTES_MAX + SLACK).contains(&lacking),
                "{lacking}"
            );
            let mut most = 0;
            while !loading.is_finished() {
                most = most.max(world.lacking_bytes());
                world.raise_to_all();
                thread::yield_now();
            }
            assert!(most < BYTES_MAX + SLACK, "{most}");
            let commit = loading.join().expect("no panic");
            world.db.set_participants(false);
            commit.wait().expect("commits");
        });
        assert_eq!(dump(&world.db, world.tree).len(), MANY as usize);
    }
}

#[test]
fn small_transactions_their_commits_and_rollbacks_wait_for_no_room() {
    let world = world(2, Settings::default());
    thread::scope(|scope| {
        let loader = session(1);
        let loading = world.held_back(scope, &loader, |txn| {
            let inserted = world.insert(txn, 0..MANY);
            txn.rollback().expect("rolls back");
            inserted
        });
        // On this thread: it would hang.
        for number in 0..20 {
            let txn = world.db.begin(&session(10 + number));
            let from = 1_000_000 + number as u32 * 100;
            world.insert(&txn, from..from + 100).expect("inserts");
            match number % 2 {
                0 => drop(
                    txn.commit_unhard()
                        .expect("appends")
                        .map(|unhard| unhard.when_hard(drop)),
                ),
                _ => txn.rollback().expect("rolls back"),
            }
        }
        world.db.background_step().expect("works");
        assert!(loader.is_held_back());
        loader.cancel.set(CancelReason::Attention);
        let inserted = loading.join().expect("no panic");
        assert!(
            matches!(inserted, Err(StorageError::Cancelled)),
            "{inserted:?}"
        );
    });
    // What was rolled back while nobody acknowledged anything is gone, what committed is there.
    world.raise_to_all();
    assert_eq!(dump(&world.db, world.tree).len(), 10 * 100);
}

#[test]
fn a_wait_ends_when_nobody_is_waited_for_any_more() {
    let world = world(3, Settings::default());
    thread::scope(|scope| {
        let loading = world.held_back(scope, &session(1), |txn| {
            world.insert(txn, 0..MANY).expect("inserts");
            txn.commit(Durability::Full)
        });
        world.db.set_participants(false);
        loading.join().expect("no panic").expect("commits");
    });
    assert_eq!(dump(&world.db, world.tree).len(), MANY as usize);
}

#[test]
fn a_wait_ends_when_commits_wait_for_a_lease_alone() {
    let world = world(9, Settings::default());
    thread::scope(|scope| {
        let loading = world.held_back(scope, &session(1), |txn| world.insert(txn, 0..MANY));
        world.db.hold_writers_back(false);
        loading.join().expect("no panic").expect("inserts");
    });
    assert!(world.lacking_bytes() > BYTES_MAX + SLACK);
}

#[test]
fn what_belongs_to_no_session_never_waits() {
    let world = world(10, Settings::default());
    thread::scope(|scope| {
        let loader = session(1);
        let loading = world.held_back(scope, &loader, |txn| world.insert(txn, 0..MANY));
        // On this thread, twice as much as the bound: it would hang.
        let txn = world.db.begin(&owner(2));
        world
            .insert(&txn, 1_000_000..1_000_000 + 2 * MANY)
            .expect("inserts");
        txn.commit(Durability::Delayed).expect("commits");
        assert!(loader.is_held_back());
        loader.cancel.set(CancelReason::Kill);
        assert!(loading.join().expect("no panic").is_err());
    });
}

#[test]
fn what_was_written_in_one_database_counts_in_no_other() {
    let engine = engine(&SimDisk::new(11), 11, 4_096);
    let [first, second] = [5, 6].map(|number| world_in(&engine, number, Settings::default()));
    let writer = session(2);
    // Its own log there, less than the bound, is not acknowledged, and much more than it may write unasked.
    let large = first.db.begin(&writer);
    first.insert(&large, 0..3_000).expect("inserts");
    thread::scope(|scope| {
        let loader = session(3);
        let loading = second.held_back(scope, &loader, |txn| second.insert(txn, 0..MANY));
        let small = second.db.begin(&writer);
        second
            .insert(&small, 1_000_000..1_000_100)
            .expect("is let pass");
        loader.cancel.set(CancelReason::Kill);
        assert!(loading.join().expect("no panic").is_err());
    });
}

#[test]
fn a_file_that_is_emptied_waits_as_well() {
    const OTHER: u16 = 3;
    let world = world(12, Settings::default());
    let db = &world.db;
    db.add_file(FileSpec::data(OTHER, 1, "/t3.ndf", 256))
        .expect("adds");
    db.set_participants(false);
    db.close_file(1, true).expect("closes");
    let txn = db.begin(&owner(1));
    world.insert(&txn, 0..MANY).expect("inserts");
    txn.commit(Durability::Full).expect("commits");
    db.close_file(1, false).expect("opens");
    db.close_file(OTHER, true).expect("closes");
    db.flush_log().expect("flushes");
    db.set_participants(true);
    thread::scope(|scope| {
        let emptier = session(2);
        let moving = world.held_back(scope, &emptier, |txn| {
            db.move_tree_out(world.tree, OTHER, txn.owner(), &mut || Ok(()))
        });
        assert!(world.lacking_bytes() < BYTES_MAX + SLACK);
        db.set_participants(false);
        assert!(moving.join().expect("no panic").expect("moves") > 100);
    });
    assert_eq!(dump(db, world.tree).len(), MANY as usize);
}

#[test]
fn a_wait_ends_with_the_reign() {
    let world = world(4, Settings::default());
    thread::scope(|scope| {
        let loading = world.held_back(scope, &session(1), |txn| world.insert(txn, 0..MANY));
        world.db.end_reign();
        let inserted = loading.join().expect("no panic");
        assert!(
            matches!(inserted, Err(StorageError::Fenced { .. })),
            "{inserted:?}"
        );
    });
}

#[test]
fn without_participants_and_without_a_bound_nobody_waits() {
    let world = world(5, Settings::default());
    world.db.set_participants(false);
    let txn = world.db.begin(&session(1));
    world.insert(&txn, 0..MANY).expect("inserts");
    txn.commit(Durability::Full).expect("commits");
    world.db.set_participants(true);
    world.db.set_unacknowledged_max(u64::MAX);
    let txn = world.db.begin(&session(1));
    world.insert(&txn, MANY..2 * MANY).expect("inserts");
    assert!(world.lacking_bytes() > BYTES_MAX + SLACK);
}

#[test]
fn values_outside_of_rows_delayed_commits_and_what_comes_after_rollbacks_wait_as_well() {
    let world = world(6, Settings::default());
    thread::scope(|scope| {
        let loading = world.held_back(scope, &session(1), |txn| {
            world.db.put_blob(txn, &vec![1; 4 << 20]).map(drop)
        });
        assert!(world.lacking_bytes() < BYTES_MAX + SLACK);
        world.db.set_participants(false);
        loading.join().expect("no panic").expect("writes");
    });
    world.db.flush_log().expect("flushes");
    world.db.set_participants(true);
    thread::scope(|scope| {
        let loader = session(2);
        let (owner, world) = (loader.clone(), &world);
        let loading = world.held_back(scope, &loader, move |_| {
            (0..MANY).try_for_each(|n| {
                let txn = world.db.begin(&owner);
                world.insert(&txn, n..n + 1)?;
                match n % 2 {
                    0 => txn.commit(Durability::Delayed),
                    _ => txn.rollback(),
                }
            })
        });
        assert!(world.lacking_bytes() < BYTES_MAX + SLACK);
        world.db.set_participants(false);
        loading.join().expect("no panic").expect("commits");
    });
}

/// Small transactions that stay open fill the log beyond the bound, and nobody syncs it: who waits does.
#[test]
fn whoever_waits_writes_what_nobody_else_would() {
    let world = world(7, Settings::default());
    let open: Vec<Txn> = (0..60)
        .map(|n| {
            let txn = world.db.begin(&session(10 + n));
            let from = 1_000_000 + n as u32 * 1_000;
            world.insert(&txn, from..from + 200).expect("inserts");
            txn
        })
        .collect();
    let before = world.db.log_stats().hardened_lsn;
    thread::scope(|scope| {
        let loading = world.held_back(scope, &session(1), |txn| world.insert(txn, 0..1_000));
        while !loading.is_finished() {
            world.raise_to_all();
            thread::yield_now();
        }
        loading.join().expect("no panic").expect("inserts");
    });
    assert!(world.db.log_stats().hardened_lsn > before);
    drop(open);
}

#[test]
fn a_killed_session_does_not_begin_to_wait() {
    let world = world(8, Settings::default());
    let killed = session(1);
    killed.lock_timeout_ms.store(0, Ordering::Relaxed);
    killed.cancel.set(CancelReason::Kill);
    let txn = world.db.begin(&killed);
    let inserted = world.insert(&txn, 0..MANY);
    assert!(
        matches!(inserted, Err(StorageError::Cancelled)),
        "{inserted:?}"
    );
    txn.rollback().expect("rolls back");
}
