//! A database whose log is another node's: it takes the other one's blocks, and a restart finds what those say.

mod common;

use common::*;
use daruma_base::Lsn;
use daruma_sim::SimDisk;
use daruma_storage::*;
use std::sync::Arc;

struct Pair {
    leader: Arc<Database>,
    disk: Arc<SimDisk>,
    copy: Arc<Database>,
    tree: TreeId,
    feed: LogFeed,
}

/// The leader goes on from a picture of the copy's files, in which all its log is.
fn pair(seed: u64) -> Pair {
    let disk = SimDisk::new(seed);
    let (copy, tree) = create(&disk, seed, 256, Settings::default());
    copy.follow_log().expect("follows");
    let end = copy.hardened_lsn();
    let (leader, _) = open(&disk.fork(seed), seed, 256).expect("opens");
    let feed = leader
        .log_feed(end, "AVAILABILITY_REPLICA")
        .expect("is there");
    Pair {
        leader,
        disk,
        copy,
        tree,
        feed,
    }
}

impl Pair {
    fn commit(&self, keys: std::ops::Range<u32>) {
        let txn = self.leader.begin(&owner(2));
        fill(&self.leader, &txn, self.tree, keys, 7);
        txn.commit(Durability::Full).expect("commits");
    }

    /// Hands on all there is; up to where the copy has it.
    fn ship(&mut self) -> Lsn {
        while let Fed::Block(block) = self.feed.try_next().expect("feeds") {
            self.copy.append_block(block.used()).expect("fits");
        }
        self.copy.sync_blocks().expect("syncs")
    }

    /// What the copy has when it comes up alone after a power loss.
    fn recovered(self) -> Model {
        let leaders = self.leader.epochs().list().to_vec();
        drop(self.copy);
        self.disk.crash();
        let (db, _) = open(&self.disk, 1, 256).expect("opens");
        let found = dump(&db, self.tree);
        assert_eq!(leaders, db.epochs().list()[..db.epochs().list().len() - 1]);
        // It is the leader of its own log now.
        let txn = db.begin(&owner(3));
        fill(&db, &txn, self.tree, 90_000..90_001, 1);
        txn.commit(Durability::Full).expect("commits");
        found
    }
}

#[test]
fn a_restart_finds_what_the_leader_committed() {
    let mut pair = pair(1);
    for round in 0..10 {
        pair.commit(round * 50..(round + 1) * 50);
        assert_eq!(pair.ship(), pair.leader.hardened_lsn());
    }
    let expected = dump(&pair.leader, pair.tree);
    assert_eq!(expected.len(), 500);
    assert!(pair.recovered() == expected);
}

#[test]
fn nothing_of_a_tail_that_was_cut_off_comes_back() {
    let mut pair = pair(2);
    pair.commit(0..100);
    let kept = dump(&pair.leader, pair.tree);
    let at = pair.ship();
    pair.commit(100..200);
    let end = pair.ship();
    assert!(end > at);
    pair.copy.cut_log_tail(at).expect("cuts");
    assert_eq!(pair.copy.hardened_lsn(), at);
    assert!(pair.recovered() == kept);
}

#[test]
fn what_a_restart_needs_is_not_cut_off() {
    let mut pair = pair(3);
    pair.commit(0..10);
    let end = pair.ship();
    let checkpoint = pair.copy.log_stats().checkpoint_lsn;
    let before = Lsn(checkpoint.0 / 4096 * 4096);
    assert!(pair.copy.cut_log_tail(before).is_err());
    assert_eq!(pair.copy.hardened_lsn(), end);
    assert!(pair.leader.cut_log_tail(end).is_err(), "it is no copy");
}

/// What the copy has told to have is more than what it may lose.
#[test]
fn damage_below_what_was_told_is_damage() {
    let mut pair = pair(4);
    pair.commit(0..100);
    let told = pair.ship();
    pair.commit(100..200);
    pair.ship();
    // Closing raises the mark; a block below it rots.
    let vlfs = pair.copy.vlfs();
    let vlf = vlfs
        .iter()
        .filter(|v| v.sequence > 0 && v.start_lsn < told.0)
        .max_by_key(|v| v.start_lsn)
        .expect("it lies somewhere");
    let within = told.0 - 4096 - vlf.start_lsn;
    let offset = vlf.offset + 4096 + within;
    pair.copy.note_told().expect("written");
    drop(pair.copy);
    pair.disk.restart();
    let env = daruma_sim::env(&pair.disk, 1);
    let file = env
        .disk
        .open("/t_log.ldf".as_ref(), daruma_base::OpenMode::ReadWrite)
        .expect("opens");
    file.write_at(&[0x5A; 512], offset).expect("writes");
    file.sync_data().expect("syncs");
    drop(file);
    let error = open(&pair.disk, 1, 256).err().expect("is damaged");
    assert!(matches!(error, StorageError::DamagedLog { .. }), "{error}");
}
