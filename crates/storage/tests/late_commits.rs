//! Commits that leave their wait for the disk to others: told once, in time, and never what is not on disk.

mod common;

use common::*;
use daruma_sim::{Faults, SimDisk};
use daruma_storage::*;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

const THREADS: u32 = 12;
const COMMITS: u32 = 60;

struct Fixture {
    disk: Arc<SimDisk>,
    engine: Arc<Engine>,
    db: Arc<Database>,
    tree: TreeId,
}

fn fixture(seed: u64, settings: Settings) -> Fixture {
    let disk = SimDisk::new(seed);
    let engine = engine(&disk, seed, 256);
    let db = engine.create_database(DB, "t", specs(), settings);
    let db = db.expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    Fixture {
        disk,
        engine,
        db,
        tree,
    }
}

fn insert(db: &Arc<Database>, tree: TreeId, owner: &Arc<Owner>, key: u32) -> Result<Txn> {
    let txn = db.begin(owner);
    let written = db
        .tree(tree)
        .and_then(|t| t.insert(&txn, &key.to_be_bytes(), &[7; 100]));
    written.map(|_| txn)
}

/// Every thread inserts rows one by one and goes on before the row's commit is hard. Gives what each commit was told.
fn many(fixture: &Fixture) -> Vec<(u32, Result<()>)> {
    let told = Mutex::new(channel());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let sender = told.lock().expect("no panic").0.clone();
            scope.spawn(move || {
                // Each row has an owner of its own: the one before may not be through yet.
                for i in 0..COMMITS {
                    let key = thread * COMMITS + i;
                    let sender = sender.clone();
                    let (db, owner) = (fixture.db.clone(), owner(u64::from(key) + 10));
                    let Ok(txn) = insert(&db, fixture.tree, &owner, key) else {
                        return;
                    };
                    match txn.commit_unhard() {
                        Ok(Some(commit)) => commit.when_hard(move |result| {
                            sender.send((key, result)).expect("is heard");
                        }),
                        Ok(None) => panic!("nothing was written"),
                        Err(_) => return,
                    }
                    if i % 7 == 0 {
                        // Somebody who may not help joins in between.
                        let _ = db.flush_log();
                    }
                }
            });
        }
    });
    let (sender, receiver) = told.into_inner().expect("no panic");
    drop(sender);
    receiver.iter().collect()
}

/// Runs `work` while a thread flushes busy logs, if that is wanted.
fn with_flusher<T>(engine: &Arc<Engine>, wanted: bool, work: impl FnOnce() -> T) -> T {
    let flusher = engine.log_flusher().clone();
    let thread = wanted.then(|| thread::spawn(move || flusher.serve()));
    let result = work();
    engine.log_flusher().stop();
    if let Some(thread) = thread {
        thread.join().expect("no panic");
    }
    result
}

fn keys(model: &Model) -> Vec<u32> {
    let key = |k: &Vec<u8>| u32::from_be_bytes(k[..4].try_into().expect("4 bytes"));
    model.keys().map(key).collect()
}

fn after_power_loss(fixture: Fixture, seed: u64) -> Model {
    let Fixture {
        disk,
        engine: old,
        db,
        tree,
    } = fixture;
    disk.crash();
    drop((db, old));
    disk.set_faults(Faults::default());
    disk.restart();
    let (db, _) = engine(&disk, seed + 1, 256)
        .open_database(DB, "t", specs())
        .expect("recovers");
    dump(&db, tree)
}

#[test]
fn every_commit_is_told_once_and_survives() {
    for seed in 0..6 {
        let settings = [Settings::default(), accelerated()][seed as usize % 2];
        let fixture = fixture(seed, settings);
        let engine = fixture.engine.clone();
        let told = with_flusher(&engine, seed >= 2, || many(&fixture));
        let mut told: Vec<u32> = told
            .into_iter()
            .map(|(key, result)| result.map(|()| key).expect("is hard"))
            .collect();
        told.sort_unstable();
        assert_eq!(told, (0..THREADS * COMMITS).collect::<Vec<_>>());
        assert_eq!(keys(&after_power_loss(fixture, seed)), told);
    }
}

/// A commit told as a success is there after recovery; one told as a failure, or not at all because the fence came
/// first, may be there or not.
#[test]
fn after_a_failed_sync_nobody_is_told_of_success_who_is_not_on_disk() {
    for seed in 0..12 {
        let fixture = fixture(seed, Settings::default());
        let engine = fixture.engine.clone();
        let fail_at = Some(fixture.disk.calls() + 11 * seed);
        fixture.disk.set_faults(Faults {
            fail_at,
            ..Faults::default()
        });
        let told = with_flusher(&engine, seed % 2 == 0, || many(&fixture));
        let failed = told.iter().filter(|(_, result)| result.is_err()).count();
        let mut heard: Vec<u32> = told.iter().map(|(key, _)| *key).collect();
        heard.sort_unstable();
        heard.dedup();
        assert_eq!(heard.len(), told.len(), "seed {seed}: told twice");
        // The first to write is one that commits.
        assert!(failed > 0 || seed > 0, "the sync failed for nobody");
        let survivors = keys(&after_power_loss(fixture, seed));
        for (key, result) in &told {
            assert!(
                result.is_err() || survivors.binary_search(key).is_ok(),
                "seed {seed}: {key} is lost"
            );
        }
    }
}

#[test]
fn until_it_is_hard_its_locks_stay_and_nobody_sees_it() {
    let fixture = fixture(1, Settings::default());
    let (db, tree) = (&fixture.db, fixture.tree);
    let txn = insert(db, tree, &owner(2), 5).expect("inserts");
    let commit = txn.commit_unhard().expect("appends").expect("has written");
    let snapshot = |n| {
        let txn = db.begin(&owner(n));
        let view = txn.view(Isolation::ReadCommittedSnapshot);
        let tree = db.tree(tree).expect("tree");
        tree.get(&view, &5u32.to_be_bytes())
            .expect("reads")
            .is_some()
    };
    assert!(!snapshot(3));
    commit.wait().expect("is hard");
    assert!(snapshot(4));
}

/// A commit that nobody waits for must not be taken back when it is forgotten.
#[test]
fn dropped_it_waits() {
    let fixture = fixture(1, accelerated());
    let txn = insert(&fixture.db, fixture.tree, &owner(2), 5).expect("inserts");
    drop(txn.commit_unhard().expect("appends"));
    drop(txn);
    assert_eq!(keys(&dump(&fixture.db, fixture.tree)), [5]);
    assert_eq!(keys(&after_power_loss(fixture, 1)), [5]);
}

#[test]
fn without_a_write_there_is_nothing_to_wait_for() {
    let fixture = fixture(1, Settings::default());
    let txn = fixture.db.begin(&owner(2));
    assert!(txn.commit_unhard().expect("ends").is_none());
}
