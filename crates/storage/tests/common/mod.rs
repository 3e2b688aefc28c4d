//! A small database on the simulated disk, and a workload whose outcome is known.

#![allow(dead_code)]

pub mod crash;

use daruma_base::DatabaseId;
use daruma_sim::{SimDisk, SimRandom};
use daruma_storage::*;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const DB: DatabaseId = DatabaseId(5);

pub fn specs() -> Vec<FileSpec> {
    vec![
        FileSpec::data(1, 1, "/t.mdf", 256),
        FileSpec::log("/t_log.ldf", 130),
    ]
}

pub fn engine(disk: &Arc<SimDisk>, seed: u64, pages: usize) -> Arc<Engine> {
    Engine::new(
        daruma_sim::env(disk, seed),
        EngineConfig {
            buffer_pool_pages: pages,
            ..EngineConfig::default()
        },
    )
}

/// A database with one tree, created and checkpointed.
pub fn create(
    disk: &Arc<SimDisk>,
    seed: u64,
    pages: usize,
    settings: Settings,
) -> (Arc<Database>, TreeId) {
    create_in(&engine(disk, seed, pages), settings)
}

/// The same in an engine that is there.
pub fn create_in(engine: &Arc<Engine>, settings: Settings) -> (Arc<Database>, TreeId) {
    let db = engine
        .create_database(DB, "t", specs(), settings)
        .expect("creates");
    let txn = db.begin(&owner(1));
    let tree = db.create_tree(&txn, 1).expect("tree");
    txn.commit(Durability::Full).expect("commits");
    (db, tree)
}

pub fn open(
    disk: &Arc<SimDisk>,
    seed: u64,
    pages: usize,
) -> Result<(Arc<Database>, RecoveryReport)> {
    engine(disk, seed, pages).open_database(DB, "t", specs())
}

pub fn accelerated() -> Settings {
    Settings {
        accelerated_recovery: true,
        ..Settings::default()
    }
}

/// Background work until none is left.
pub fn settle(db: &Arc<Database>) {
    for _ in 0..10_000 {
        if !db.background_step().expect("background") {
            return;
        }
    }
    panic!("background work does not end");
}

pub fn fill(db: &Arc<Database>, txn: &Txn, tree: TreeId, keys: std::ops::Range<u32>, byte: u8) {
    let tree = db.tree(tree).expect("tree");
    for i in keys {
        tree.insert(txn, &i.to_be_bytes(), &[byte; 150])
            .expect("inserts");
    }
}

/// Gives every entry another payload.
pub fn update_all(db: &Arc<Database>, txn: &Txn, tree: TreeId, payload: &[u8]) {
    let tree = db.tree(tree).expect("tree");
    let view = txn.view(Isolation::Current);
    let mut scan = tree.scan(&view, ScanSpec::all());
    let (mut batch, mut updates, mut refused) = (Batch::new(), UpdateBatch::new(), Vec::new());
    while scan.next(&mut batch).expect("scans") {
        updates.clear();
        for i in 0..batch.len() {
            updates.push(batch.key(i), batch.stamp(i), payload);
        }
        tree.update_batch(txn, &updates, &mut refused)
            .expect("updates");
    }
    assert!(refused.is_empty());
}

pub fn owner(id: u64) -> Arc<Owner> {
    Owner::new(id, Default::default())
}

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Everything a tree holds, as a fresh transaction sees it; forward and backward scans must agree.
pub fn dump(db: &Arc<Database>, tree: TreeId) -> Model {
    let txn = db.begin(&owner(900));
    let view = txn.view(Isolation::ReadCommittedSnapshot);
    let read = |direction| {
        let mut rows = Vec::new();
        let mut scan = db.tree(tree).expect("tree").scan(
            &view,
            ScanSpec {
                direction,
                ..ScanSpec::all()
            },
        );
        let mut batch = Batch::new();
        while scan.next(&mut batch).expect("scan") {
            rows.extend(
                (0..batch.len()).map(|i| (batch.key(i).to_vec(), batch.payload(i).to_vec())),
            );
        }
        rows
    };
    let forward = read(Direction::Forward);
    let mut backward = read(Direction::Backward);
    backward.reverse();
    assert_eq!(forward, backward, "forward and backward scans differ");
    assert!(
        forward.windows(2).all(|w| w[0].0 < w[1].0),
        "keys out of order"
    );
    forward.into_iter().collect()
}

/// One random change, applied to the tree and to the model.
pub fn random_change(
    random: &SimRandom,
    tree: &Arc<Tree>,
    txn: &Txn,
    model: &mut Model,
    keys: u64,
) -> Result<()> {
    let n = random.below(keys);
    let mut key = format!("key{:05}", n * 7919 % keys).into_bytes();
    key.resize(8 + (n % 90) as usize, b'.');
    let len = match random.below(10) {
        0 => 3000,
        1 => 700,
        _ => random.below(200) as usize,
    };
    let payload: Vec<u8> = (0..len).map(|i| (random.next() >> (i % 8)) as u8).collect();
    let view = txn.view(Isolation::Current);
    match (tree.get(&view, &key)?, random.below(3)) {
        (None, _) => {
            tree.insert(txn, &key, &payload)?;
            model.insert(key, payload);
        }
        (Some(entry), 0) => {
            assert_eq!(tree.delete(txn, &key, entry.stamp)?, WriteOutcome::Done);
            model.remove(&key);
        }
        (Some(entry), 1) => {
            assert_eq!(
                tree.update(txn, &key, entry.stamp, &payload)?,
                WriteOutcome::Done
            );
            model.insert(key, payload);
        }
        (Some(entry), _) => {
            match tree.insert(txn, &key, &payload) {
                Err(StorageError::DuplicateKey { .. }) => {}
                Err(error) => return Err(error),
                Ok(()) => panic!("a second entry of one key"),
            }
            let mut changed = entry.payload.clone();
            changed.insert(changed.len() / 2, b'x');
            if changed.len() < 4000 {
                assert_eq!(
                    tree.update(txn, &key, entry.stamp, &changed)?,
                    WriteOutcome::Done
                );
                model.insert(key, changed);
            }
        }
    }
    Ok(())
}

/// A transaction of random changes with savepoints; commits or rolls back. `Err` leaves the outcome of a commit open:
/// then the second model is what it may have become.
pub fn random_txn(
    random: &SimRandom,
    db: &Arc<Database>,
    tree: TreeId,
    model: &mut Model,
    keys: u64,
) -> std::result::Result<(), (StorageError, Option<Model>)> {
    let owner = owner(1);
    let txn = db.begin(&owner);
    let tree = db.tree(tree).map_err(|e| (e, None))?;
    let mut working = model.clone();
    let mut points: Vec<(Savepoint, Model)> = Vec::new();
    for _ in 0..1 + random.below(30) {
        match random.below(12) {
            0 if random.below(2) == 0 => points.push((txn.lasting_savepoint(), working.clone())),
            0 => points.push((txn.savepoint(), working.clone())),
            1 => {
                if let Some((point, then)) = points.pop() {
                    txn.rollback_to(point).map_err(|e| (e, None))?;
                    working = then;
                }
            }
            _ => random_change(random, &tree, &txn, &mut working, keys).map_err(|e| (e, None))?,
        }
    }
    if random.below(4) == 0 {
        txn.rollback().map_err(|e| (e, None))?;
    } else {
        txn.commit(Durability::Full)
            .map_err(|e| (e, Some(working.clone())))?;
        *model = working;
    }
    Ok(())
}
