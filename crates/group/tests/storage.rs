//! Two real databases on simulated disks, and a real connection between them.

use daruma_base::{DatabaseId, Disk, Lsn};
use daruma_group::commit::{
    Epoch, EpochId, History, Record, ReplicaConfig, ReplicaId, Rules, SyncState,
};
use daruma_group::compress::Mode;
use daruma_group::replica::{
    Claim, Followed, Led, Node, SecondaryLog, Standing, StandingFile, StorageCopy, StorageLog,
};
use daruma_group::transport::{Dialer, Endpoint, EndpointConfig, Identity, Member, Target};
use daruma_group::wire::Codecs;
use daruma_sim::SimDisk;
use daruma_storage::{
    Batch, Database, Durability, Engine, EngineConfig, Fed, FileSpec, Isolation, Opening, Owner,
    ScanSpec, Secondary, Settings, TreeId,
};
use rustls::pki_types::PrivateKeyDer;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DATABASE: u128 = 3;
const DB: DatabaseId = DatabaseId(5);
/// What is waited for comes long before; a test that waits so long has failed.
const LONG: Duration = Duration::from_secs(300);
const EPOCH: EpochId = EpochId {
    number: 1,
    id: 4711,
};

fn files() -> Vec<FileSpec> {
    vec![
        FileSpec::data(1, 1, "/t.mdf", 256),
        FileSpec::log("/t_log.ldf", 4096),
    ]
}

fn engine(disk: &Arc<SimDisk>, seed: u64) -> Arc<Engine> {
    let config = EngineConfig {
        buffer_pool_pages: 256,
        ..EngineConfig::default()
    };
    Engine::new(daruma_sim::env(disk, seed), config)
}

fn id(number: u8) -> ReplicaId {
    ReplicaId::new(number).expect("a replica")
}

struct Side {
    node: Arc<Node>,
    config: EndpointConfig,
}

/// Both sides of a group of two, each with the other's certificate.
fn sides() -> [Side; 2] {
    let identity = || {
        let made =
            rcgen::generate_simple_self_signed(vec!["replica".into()]).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        Identity::new(made.cert.der().clone(), key)
    };
    let identities = [identity(), identity()];
    let member = |n: u8| Member {
        replica: id(n),
        fingerprint: identities[usize::from(n)].fingerprint(),
    };
    let side = |n: u8| Side {
        node: Arc::default(),
        config: EndpointConfig {
            group: 1,
            me: id(n),
            name: format!("server{n}"),
            identity: identities[usize::from(n)].clone(),
            members: vec![member(1 - n)],
            codecs: Codecs::OURS,
            window_bytes: 1 << 20,
            session_timeout: LONG,
            handshake_timeout: LONG,
        },
    };
    [side(0), side(1)]
}

fn standing_file(disk: &Arc<SimDisk>) -> StandingFile {
    let disk: Arc<dyn Disk> = disk.clone();
    let first = Epoch {
        name: EPOCH,
        start: Lsn::NONE,
    };
    let standing = Standing {
        promised: EPOCH,
        history: History::new(vec![first]).expect("a history"),
        record: Record::first(EPOCH, id(0)),
    };
    StandingFile::create(&disk, Path::new("/t.group"), standing).expect("a file")
}

fn commit(db: &Arc<Database>, tree: TreeId, keys: std::ops::Range<u32>) {
    let txn = db.begin(&Owner::new(7, Default::default()));
    let rows = db.tree(tree).expect("a tree");
    for key in keys {
        rows.insert(&txn, &key.to_be_bytes(), &[7; 100])
            .expect("inserts");
    }
    txn.commit(Durability::Full).expect("commits");
}

fn count(db: &Arc<Database>, tree: TreeId) -> usize {
    let txn = db.begin(&Owner::new(8, Default::default()));
    let view = txn.view(Isolation::Snapshot);
    let rows = db.tree(tree).expect("a tree");
    let mut scan = rows.scan(&view, ScanSpec::all());
    let (mut batch, mut count) = (Batch::new(), 0);
    while scan.next(&mut batch).expect("scans") {
        count += batch.len();
    }
    count
}

#[test]
fn a_commit_is_on_both_disks_and_a_failover_keeps_it() {
    let disk = SimDisk::new(1);
    let db = engine(&disk, 1)
        .create_database(DB, "t", files(), Settings::default())
        .expect("creates");
    let txn = db.begin(&Owner::new(1, Default::default()));
    let tree = db.create_tree(&txn, 1).expect("a tree");
    txn.commit(Durability::Full).expect("commits");
    db.checkpoint().expect("checkpoints");
    drop(db);
    disk.restart();
    let other_disk = disk.fork(2);
    let (db, _) = engine(&disk, 1)
        .open_database(DB, "t", files())
        .expect("opens");
    let secondary = Secondary::open(
        &engine(&other_disk, 2),
        DB,
        "t",
        files(),
        None,
        Opening::default(),
    );
    let secondary = secondary.expect("opens");
    let copy = StorageCopy::begin(&secondary, None, Box::new(|_| {})).expect("a thread");

    let [zero, one] = sides();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let endpoint =
        Endpoint::listen(address, one.config.clone(), one.node.clone()).expect("it listens");
    let other = zero.config.members[0];
    let config = ReplicaConfig {
        replica: id(1),
        synchronous: true,
    };
    let rules = Rules {
        synchronous: true,
        required: 0,
        window_bytes: 1 << 20,
        leased: false,
        replicas: vec![config],
    };
    let log = StorageLog::new(&db, &[id(1)], Box::new(|_| {}));
    let opens_at = db.hardened_lsn();
    let led = Led::begin(
        DATABASE,
        id(0),
        standing_file(&disk),
        log,
        opens_at,
        None,
        rules,
        LONG,
        Arc::new(|_| Mode::Always),
        None,
    );
    let led = led.expect("it leads");
    zero.node.lead(DATABASE, led.clone());
    let followed = Followed::begin(
        DATABASE,
        id(1),
        standing_file(&other_disk),
        copy.clone(),
        Lsn::NONE,
    );
    one.node.follow(DATABASE, followed.expect("it follows"));
    let (address, config) = (endpoint.address(), zero.config.clone());
    let target = move || {
        Ok(Some(Target {
            address,
            to: other.replica,
            pinned: vec![other.fingerprint],
            config: config.clone(),
        }))
    };
    let dialer = Dialer::start(Box::new(target), zero.node.clone()).expect("a thread");

    let mut next = 0;
    let until = Instant::now() + LONG;
    while led.sync_state(id(1)) != SyncState::Synchronized {
        assert!(Instant::now() < until, "it is never synchronized");
        commit(&db, tree, next..next + 1);
        next += 1;
    }
    for _ in 0..30 {
        commit(&db, tree, next..next + 20);
        next += 20;
        let acknowledged = db.hardened_lsn();
        assert!(
            secondary.hardened() >= acknowledged,
            "acknowledged and not on the other disk"
        );
    }
    assert!(
        copy.wait_applied(db.hardened_lsn(), LONG),
        "redo never came so far"
    );
    let read = count(secondary.database().expect("readers may come"), tree);
    assert_eq!(read, next as usize);

    let followed = one.node.followed(DATABASE).expect("it follows");
    let record = followed
        .promote(99, Claim::Judged, LONG)
        .expect("the primary gives its word");
    assert_eq!(record.primary, id(1));
    assert_eq!(copy.stop(), None);
    let promoted = secondary
        .promote(&|_| panic!("nothing is prepared"))
        .expect("it leads");
    assert_eq!(count(&promoted, tree), next as usize);
    commit(&promoted, tree, next..next + 10);
    assert_eq!(count(&promoted, tree), next as usize + 10);
    dialer.stop();
    zero.node.stop();
    one.node.stop();
    endpoint.stop();
}

/// A page that redo cannot read: whoever is asked to lead can know it before anybody promises anything.
#[test]
fn redo_that_cannot_go_on_says_so() {
    const PAGE_BYTES: u64 = 8192;
    let disk = SimDisk::new(1);
    let db = engine(&disk, 1)
        .create_database(DB, "t", files(), Settings::default())
        .expect("creates");
    let txn = db.begin(&Owner::new(1, Default::default()));
    let [tree, other] = [(); 2].map(|()| db.create_tree(&txn, 1).expect("a tree"));
    txn.commit(Durability::Full).expect("commits");
    // The pages of the second one go through the doublewrite area last, so that it has none of the first.
    for tree in [tree, other] {
        commit(&db, tree, 0..1_000);
        db.checkpoint().expect("checkpoints");
    }
    let key = 500u32.to_be_bytes();
    let rows = db.tree(tree).expect("a tree");
    let (page, _) = rows.locate(&key).expect("reads").expect("is there");
    drop((rows, db));
    disk.restart();
    let other_disk = disk.fork(2);
    let at = u64::from(page.page) * PAGE_BYTES + PAGE_BYTES / 2;
    other_disk.flip(Path::new("/t.mdf"), at, 1);
    let (db, _) = engine(&disk, 1)
        .open_database(DB, "t", files())
        .expect("opens");
    let secondary = Secondary::open(
        &engine(&other_disk, 2),
        DB,
        "t",
        files(),
        None,
        Opening::default(),
    );
    let secondary = secondary.expect("opens");
    let copy = StorageCopy::begin(&secondary, None, Box::new(|_| {})).expect("a thread");
    assert!(copy.goes_on());
    copy.hold(true);
    assert!(!copy.goes_on(), "it waits for a page");
    copy.hold(false);

    let txn = db.begin(&Owner::new(2, Default::default()));
    let rows = db.tree(tree).expect("a tree");
    let entry = rows
        .get(&txn.view(Isolation::ReadCommittedSnapshot), &key)
        .expect("reads")
        .expect("is there");
    rows.delete(&txn, &key, entry.stamp).expect("deletes");
    txn.commit(Durability::Full).expect("commits");
    let mut feed = db.log_feed(copy.end(), "the test").expect("a feed");
    while let Fed::Block(block) = feed.try_next().expect("reads") {
        copy.append(block.used()).expect("appends");
    }
    let end = copy.sync().expect("syncs");
    copy.may_apply(end);
    assert!(!copy.wait_applied(end, LONG));
    assert!(!copy.goes_on());
}
