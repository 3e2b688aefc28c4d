//! A database on the simulated disk whose history is known, and backups of it.

#![allow(dead_code)]

use daruma_backup::{Result, *};
use daruma_base::{DatabaseId, Disk, Env, Lsn};
use daruma_sim::{SimDisk, SimRandom};
use daruma_storage::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub fn specs(name: &str) -> Vec<FileSpec> {
    let path = |suffix: &str| format!("/{name}{suffix}");
    vec![
        FileSpec::data(1, 1, &path(".mdf"), 256),
        FileSpec::log(&path("_log.ldf"), 130),
        FileSpec::data(3, 2, &path(".ndf"), 32),
    ]
}

pub fn files(name: &str) -> Files {
    let (log, data): (Vec<_>, Vec<_>) = specs(name).into_iter().partition(|f| f.filegroup == 0);
    Files {
        data,
        log: log.into_iter().next().expect("a log file"),
    }
}

pub struct World {
    pub disk: Arc<SimDisk>,
    pub env: Env,
    pub engine: Arc<Engine>,
    pub random: SimRandom,
}

impl World {
    pub fn new(seed: u64, pool_pages: usize) -> World {
        World::on(&SimDisk::new(seed), seed, pool_pages)
    }

    /// Another machine with the same disk.
    pub fn on(disk: &Arc<SimDisk>, seed: u64, pool_pages: usize) -> World {
        let env = daruma_sim::env(disk, seed);
        let config = EngineConfig {
            buffer_pool_pages: pool_pages,
            ..EngineConfig::default()
        };
        World {
            engine: Engine::new(env.clone(), config),
            random: SimRandom::new(seed ^ 0x5EED),
            disk: disk.clone(),
            env,
        }
    }

    pub fn device(&self, name: &str) -> Arc<dyn Device> {
        let disk: Arc<dyn Disk> = self.disk.clone();
        Arc::new(DiskDevice::new(
            &disk,
            name,
            Path::new(name),
            Arc::new(|_| Ok(())),
        ))
    }

    pub fn devices(&self, names: &[&str]) -> Vec<Arc<dyn Device>> {
        names.iter().map(|n| self.device(n)).collect()
    }

    pub fn destination(&self, names: &[&str]) -> Destination {
        Destination {
            devices: self.devices(names),
            mirrors: Vec::new(),
            overwrite: false,
            format: false,
        }
    }

    pub fn media(&self, names: &[&str]) -> Result<MediaSet> {
        MediaSet::open(&self.devices(names))
    }
}

/// One tree, changed by one thread; every committed state is kept with the stretch of log its commit lies in.
pub struct History {
    pub db: Arc<Database>,
    pub tree: TreeId,
    pub states: parking_lot::Mutex<Vec<(Lsn, Lsn, Model)>>,
    pub commits: AtomicUsize,
    pub stop: AtomicBool,
}

pub fn settings(recovery_model: RecoveryModel, accelerated_recovery: bool) -> Settings {
    Settings {
        recovery_model,
        accelerated_recovery,
        ..Settings::default()
    }
}

impl History {
    pub fn new(world: &World, name: &str, model: RecoveryModel) -> History {
        // Both ways to recover, in turn.
        let accelerated = world.random.below(2) == 0;
        let db = world
            .engine
            .create_database(
                DatabaseId(5),
                name,
                specs(name),
                settings(model, accelerated),
            )
            .expect("creates");
        let txn = db.begin(&owner(1));
        let tree = db.create_tree(&txn, 2).expect("a tree");
        txn.commit(Durability::Full).expect("commits");
        let end = db.hardened_lsn();
        History {
            db,
            tree,
            states: parking_lot::Mutex::new(vec![(Lsn::NONE, end, Model::new())]),
            commits: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Runs transactions until told to stop, or `count` of them.
    pub fn run(&self, random: &SimRandom, count: usize) {
        let mut model = self.states.lock().last().expect("a state").2.clone();
        let tree = self.db.tree(self.tree).expect("the tree");
        for n in 0..count {
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let txn = self.db.begin(&owner(2 + n as u64));
            let mut changed = model.clone();
            for _ in 0..1 + random.below(6) {
                change(&tree, &txn, random, &mut changed);
            }
            if random.below(8) == 0 {
                txn.rollback().expect("rolls back");
                continue;
            }
            let before = self.db.log_stats().end_lsn;
            txn.commit(Durability::Full).expect("commits");
            let after = self.db.log_stats().end_lsn;
            model = changed;
            self.states.lock().push((before, after, model.clone()));
            self.commits.fetch_add(1, Ordering::AcqRel);
            if n % 16 == 0 {
                self.db.background_step().expect("background work");
            }
        }
    }

    /// One more transaction, with so many rows of 400 bytes.
    pub fn add_rows(&self, count: u32) {
        let mut model = self.states.lock().last().expect("a state").2.clone();
        let tree = self.db.tree(self.tree).expect("the tree");
        let txn = self.db.begin(&owner(1));
        for n in 0..count {
            let (key, payload) = (format!("row{n:06}").into_bytes(), vec![n as u8; 400]);
            tree.insert(&txn, &key, &payload).expect("inserts");
            model.insert(key, payload);
        }
        let before = self.db.log_stats().end_lsn;
        txn.commit(Durability::Full).expect("commits");
        let after = self.db.log_stats().end_lsn;
        self.states.lock().push((before, after, model));
    }

    /// The same history after its database was recovered.
    pub fn reopened(self, world: &World) -> History {
        let History {
            db,
            tree,
            states,
            commits,
            stop,
        } = self;
        // It may be fenced, or on a disk that stopped.
        let _ = db.close();
        drop(db);
        let opened = world
            .engine
            .open_database(DatabaseId(5), "d", specs("d"))
            .expect("the database opens");
        History {
            db: opened.0,
            tree,
            states,
            commits,
            stop,
        }
    }

    pub fn wait_for(&self, commits: usize) {
        while self.commits.load(Ordering::Acquire) < commits {
            std::thread::yield_now();
        }
    }

    /// Is `found` what the history was at position `end` of the log?
    pub fn check(&self, end: Lsn, found: &Model) {
        let states = self.states.lock();
        let certain = states.iter().rposition(|(_, after, _)| *after <= end);
        let possible = states.iter().rposition(|(before, ..)| *before < end);
        let (from, to) = (certain.unwrap_or(0), possible.unwrap_or(0));
        let fits = states[from..=to.max(from)].iter().any(|(.., m)| m == found);
        assert!(
            fits,
            "{} rows found at {end}, which is none of the states {from} to {to} ({} rows)",
            found.len(),
            states[from].2.len()
        );
    }
}

pub fn owner(id: u64) -> Arc<Owner> {
    Owner::new(id, Default::default())
}

fn change(tree: &Arc<Tree>, txn: &Txn, random: &SimRandom, model: &mut Model) {
    let key = format!("key{:06}", random.below(400)).into_bytes();
    let len = [20, 100, 700, 3000][random.below(4) as usize];
    let payload: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
    let view = txn.view(Isolation::Current);
    match tree.get(&view, &key).expect("reads") {
        None => {
            tree.insert(txn, &key, &payload).expect("inserts");
            model.insert(key, payload);
        }
        Some(entry) if random.below(3) == 0 => {
            let outcome = tree.delete(txn, &key, entry.stamp).expect("deletes");
            assert_eq!(outcome, WriteOutcome::Done);
            model.remove(&key);
        }
        Some(entry) => {
            let outcome = tree
                .update(txn, &key, entry.stamp, &payload)
                .expect("updates");
            assert_eq!(outcome, WriteOutcome::Done);
            model.insert(key, payload);
        }
    }
}

pub fn dump(db: &Arc<Database>, tree: TreeId) -> Model {
    let txn = db.begin(&owner(900));
    let view = txn.view(Isolation::ReadCommittedSnapshot);
    let mut scan = db.tree(tree).expect("tree").scan(&view, ScanSpec::all());
    let mut batch = Batch::new();
    let mut rows = Model::new();
    while scan.next(&mut batch).expect("scan") {
        rows.extend((0..batch.len()).map(|i| (batch.key(i).to_vec(), batch.payload(i).to_vec())));
    }
    rows
}

/// What a layer above would say.
pub fn info(kind: BackupKind) -> SetInfo {
    SetInfo {
        origin: Origin::default(),
        set: Random16::default(),
        position: 0,
        kind,
        name: None,
        description: None,
        user: "sa".into(),
        server: "test".into(),
        database: "d".into(),
        database_guid: 0,
        database_created_utc: 0,
        started_utc: 0,
        finished_utc: 0,
        expires_utc: None,
        first_lsn: 0,
        last_lsn: 0,
        checkpoint_lsn: 0,
        redo_lsn: 0,
        database_backup_lsn: 0,
        base_lsn: 0,
        base_set: None,
        fork: 1,
        fork_lsn: 0,
        epochs: Vec::new(),
        recovery_model: 0,
        copy_only: false,
        begins_chain: false,
        tail: false,
        compression: None,
        encryption: None,
        files: Vec::new(),
        pages: 0,
        log_pages: 0,
        sections: Vec::new(),
        boot: Vec::new(),
        definition: "{}".into(),
        plain_bytes: 0,
        stored_bytes: 0,
        damaged: false,
        damaged_pages: Vec::new(),
        manifest: Vec::new(),
    }
}

pub fn request<'a>(
    world: &'a World,
    db: &'a Arc<Database>,
    destination: &'a Destination,
    label: &'a MediaLabel,
    tuning: &'a Tuning,
    kind: BackupKind,
) -> Request<'a> {
    Request {
        env: &world.env,
        database: db,
        destination,
        label,
        tuning,
        info: SetInfo {
            database_guid: db.guid(),
            ..info(kind)
        },
    }
}

pub fn tuning() -> Tuning {
    Tuning {
        transfer_bytes: 64 << 10,
        ..Tuning::new(2)
    }
}

/// Full backup of `db` to these files.
pub fn full(world: &World, db: &Arc<Database>, names: &[&str]) -> Result<SetInfo> {
    let (destination, label, tuning) = (world.destination(names), MediaLabel::default(), tuning());
    let request = request(world, db, &destination, &label, &tuning, BackupKind::Full);
    let taken = take_full(request, &mut |_| Ok(()))?;
    db.note_full_backup(Lsn(taken.info.last_lsn))?;
    Ok(taken.info)
}

pub fn log(world: &World, db: &Arc<Database>, names: &[&str]) -> Result<SetInfo> {
    let (destination, label, tuning) = (world.destination(names), MediaLabel::default(), tuning());
    let request = request(world, db, &destination, &label, &tuning, BackupKind::Log);
    let start = db.log_backup_start();
    let taken = take_log(request, start, &mut |_| Ok(()))?;
    db.log_backed_up_to(Lsn(taken.info.last_lsn))?;
    Ok(taken.info)
}

pub fn differential(
    world: &World,
    db: &Arc<Database>,
    names: &[&str],
    base: &SetInfo,
) -> Result<SetInfo> {
    let (destination, label, tuning) = (world.destination(names), MediaLabel::default(), tuning());
    let kind = BackupKind::Differential;
    let request = request(world, db, &destination, &label, &tuning, kind);
    let base_lsn = Lsn(base.redo_lsn);
    Ok(take_differential(request, base.set, base_lsn, &[1, 3], &mut |_| Ok(()))?.info)
}

/// Recovers restored files and reads them.
pub fn recover(world: &World, name: &str, state: &RestoreState, tree: TreeId) -> Model {
    write_boot(&world.env, &files(name), state).expect("a boot page");
    let (db, _) = world
        .engine
        .open_database(DatabaseId(6), name, specs(name))
        .expect("opens");
    let found = dump(&db, tree);
    db.check_pages_of(tree);
    let mut checker = Checker::new(&db);
    checker.tree(tree);
    let findings = checker.finish().findings;
    let findings: Vec<_> = findings
        .iter()
        .filter(|f| f.owner == Some(tree.0))
        .collect();
    assert!(findings.is_empty(), "{findings:?}");
    db.close().expect("closes");
    found
}

/// Reads every page of a tree through a scan both ways: damage would show as an error.
pub trait CheckPages {
    fn check_pages_of(&self, tree: TreeId);
}

impl CheckPages for Arc<Database> {
    fn check_pages_of(&self, tree: TreeId) {
        let txn = self.begin(&owner(901));
        let view = txn.view(Isolation::ReadUncommitted);
        let spec = ScanSpec {
            direction: Direction::Backward,
            ..ScanSpec::all()
        };
        let mut scan = self.tree(tree).expect("tree").scan(&view, spec);
        let mut batch = Batch::new();
        while scan.next(&mut batch).expect("scan") {}
    }
}
