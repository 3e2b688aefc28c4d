//! Two logs over simulated disks that change places: after random cuts and power losses the copy has the bytes of the other.

use super::*;
use crate::FileSpec;
use crate::log::record::{self, Kind};
use crate::log::{AppendKind, Fed, LogFeed, LogShared};
use daruma_base::{Env, TxnId};
use daruma_sim::{Faults, SimDisk, SimRandom};

const GUID: u64 = 7;
const FIRST: Lsn = Lsn(super::super::file::FIRST_LSN);

fn spec() -> FileSpec {
    FileSpec::log("/t_log.ldf", 130)
}

struct Node {
    disk: Arc<SimDisk>,
    env: Env,
    log: Arc<Log>,
    /// What a boot page would say: told to others to be hard here.
    acked: Lsn,
    /// A block boundary from which on the log is kept.
    kept: Lsn,
}

impl Node {
    fn new(seed: u64) -> Node {
        let disk = SimDisk::new(seed);
        let env = daruma_sim::env(&disk, seed);
        let log = Log::create(&spec(), GUID, true, &env, &LogShared::default()).expect("creates");
        Node {
            disk,
            env,
            log,
            acked: FIRST,
            kept: FIRST,
        }
    }

    fn copy(seed: u64) -> Node {
        let node = Node::new(seed);
        node.log.follow(FIRST, FIRST).expect("follows");
        node
    }

    /// The log as it is found after a restart, and where it ends.
    fn found(&self, is_copy: bool) -> Result<(Arc<Log>, Lsn)> {
        let log = Log::open(&spec(), GUID, &self.env, &LogShared::default())?;
        if is_copy {
            log.set_copy();
        }
        let Ok(mut cursor) = log.cursor(self.acked) else {
            return Ok((log, self.acked));
        };
        while cursor.next()?.is_some() {}
        let end = cursor.position();
        log.write_again(self.acked, end)?;
        Ok((log, end))
    }

    fn restart_as_copy(&mut self) {
        let (log, end) = self.found(true).expect("found");
        log.follow(end, self.kept).expect("follows");
        self.log = log;
    }

    fn restart_as_leader(&mut self, is_copy: bool) {
        let (log, end) = self.found(is_copy).expect("found");
        log.resume(end, self.kept).expect("resumes");
        self.log = log;
    }

    fn feed(&self, from: Lsn) -> LogFeed {
        let feed = self.log.feed(from, "AVAILABILITY_REPLICA");
        feed.unwrap_or_else(|e| panic!("from {from}: {e:?}"))
    }
}

fn record(random: &SimRandom) -> Vec<u8> {
    let mut body = Vec::new();
    record::start(&mut body, Kind::System, TxnId::NONE, Lsn::NONE);
    let longest = if random.below(4) == 0 { 30_000 } else { 300 };
    let filling = random.below(256) as u8;
    body.extend((0..random.below(longest)).map(|i| filling.wrapping_add(i as u8)));
    record::finish(&mut body);
    body
}

fn append_some(log: &Log, random: &SimRandom) {
    for _ in 0..1 + random.below(12) {
        log.append(&record(random), AppendKind::System)
            .expect("appends");
        if random.below(4) == 0 {
            log.harden_all().expect("hardens");
        }
    }
    log.harden_all().expect("hardens");
}

/// Hands on up to `limit` blocks.
fn ship(feed: &mut LogFeed, to: &Node, limit: u64) {
    for _ in 0..limit {
        match feed.try_next().expect("feeds") {
            Fed::Block(block) => {
                let end = to.log.append_block(block.used());
                assert_eq!(end.expect("fits"), block.end());
            }
            Fed::Nothing => return,
            Fed::Gone => panic!("the log is gone"),
        }
    }
}

fn stream(log: &Log, from: Lsn, end: Lsn) -> Vec<u8> {
    let mut cursor = log.cursor(from).expect("is there");
    let mut stream = Vec::new();
    while let Some(block) = cursor.next_before(end).expect("reads") {
        stream.extend(&block.bytes);
        stream.resize((cursor.position().0 - from.0) as usize, 0);
    }
    stream
}

fn assert_equal(one: &Node, other: &Node, seed: u64) {
    let end = one.log.hardened().min(other.log.hardened());
    let from = one.kept.max(other.kept);
    assert!(from < end, "seed {seed}: nothing to compare");
    assert!(
        stream(&one.log, from, end) == stream(&other.log, from, end),
        "seed {seed}: from {from} to {end}"
    );
}

/// What is kept of the log, so that virtual log files are used again.
fn let_go(node: &mut Node) {
    let from = Lsn(node.log.hardened().0.saturating_sub(200_000));
    node.log.cut(&[Need {
        from,
        reason: NOTHING,
    }]);
    node.kept = node.log.min_lsn();
}

#[test]
fn logs_are_equal_after_random_cuts() {
    for seed in 0..16 {
        let random = SimRandom::new(seed);
        let (mut leader, mut copy) = (Node::new(seed), Node::copy(seed + 1_000));
        for round in 0..12 {
            // The copy has the leader's log up to here.
            let mut feed = leader.feed(copy.log.hardened());
            for _ in 0..1 + random.below(6) {
                append_some(&leader.log, &random);
                ship(&mut feed, &copy, 100);
                copy.acked = copy.log.sync_blocks().expect("syncs");
                feed.release_below(copy.acked);
                leader.acked = leader.log.hardened();
            }
            assert_eq!(copy.log.hardened(), leader.log.hardened(), "round {round}");
            assert_equal(&leader, &copy, seed);
            let_go(&mut leader);
            let_go(&mut copy);
            // The old leader goes on alone, perhaps after a restart, which makes an incarnation.
            if random.below(2) == 0 {
                drop(feed);
                leader.disk.restart();
                leader.restart_as_leader(false);
                feed = leader.feed(copy.log.hardened());
            }
            append_some(&leader.log, &random);
            ship(&mut feed, &copy, random.below(4));
            drop(feed);
            if random.below(2) == 0 {
                copy.acked = copy.log.sync_blocks().expect("syncs");
            }
            copy.disk.crash();
            copy.restart_as_leader(true);
            let fork = copy.log.hardened();
            append_some(&copy.log, &random);
            // Both have incarnations of their own beyond the fork, perhaps with one number.
            if random.below(2) == 0 {
                leader.disk.crash();
                leader.restart_as_leader(false);
                append_some(&leader.log, &random);
            }
            leader.acked = leader.acked.min(fork);
            leader.disk.restart();
            leader.restart_as_copy();
            assert!(leader.log.hardened() >= fork);
            leader.log.cut_tail(fork).expect("cuts");
            if random.below(2) == 0 {
                leader.disk.crash();
                leader.restart_as_copy();
                assert_eq!(leader.log.hardened(), fork, "seed {seed}");
            }
            std::mem::swap(&mut leader, &mut copy);
            let mut feed = leader.feed(fork);
            ship(&mut feed, &copy, 100);
            copy.acked = copy.log.sync_blocks().expect("syncs");
            assert_equal(&leader, &copy, seed);
        }
    }
}

#[test]
fn a_cut_that_is_stopped_leaves_the_log_as_it_was_or_as_it_is_after() {
    let random = SimRandom::new(5);
    let (leader, mut copy) = (Node::new(1), Node::copy(2));
    let mut feed = leader.feed(FIRST);
    let mut boundaries = Vec::new();
    while leader.log.hardened().0 < 800_000 {
        append_some(&leader.log, &random);
        ship(&mut feed, &copy, 100);
        boundaries.push(copy.log.sync_blocks().expect("syncs"));
    }
    let end = copy.log.hardened();
    // Also where a virtual log file begins: there are several.
    let starts = copy.log.vlfs();
    let starts = starts
        .iter()
        .filter(|v| v.sequence > 1)
        .map(|v| Lsn(v.start_lsn));
    let cuts: Vec<Lsn> = starts
        .chain(boundaries.iter().copied().step_by(7))
        .collect();
    assert!(cuts.len() > 6);
    let (mut before, mut after) = (0, 0);
    for at in cuts {
        for call in 0.. {
            let disk = copy.disk.fork(u64::from(call as u32) + at.0);
            let mut node = Node {
                env: daruma_sim::env(&disk, 3),
                disk,
                log: copy.log.clone(),
                acked: at,
                kept: FIRST,
            };
            node.restart_as_copy();
            assert_eq!(node.log.hardened(), end);
            node.disk.set_faults(Faults {
                stop_at: Some(node.disk.calls() + call),
                ..Faults::default()
            });
            let cut = node.log.cut_tail(at);
            node.disk.crash();
            node.restart_as_copy();
            let found = node.log.hardened();
            before += u64::from(cut.is_err() && found == end);
            after += u64::from(cut.is_err() && found == at);
            assert!(
                found == at || (found == end && cut.is_err()),
                "cut at {at}, stopped at call {call}: the log ends at {found}"
            );
            node.log.cut_tail(at).expect("cuts");
            ship(&mut leader.feed(at), &node, 100_000);
            node.log.sync_blocks().expect("syncs");
            assert_equal(&leader, &node, call);
            if cut.is_ok() {
                assert!(call > 0, "a cut writes something");
                break;
            }
        }
    }
    assert!(before > 0 && after > 0, "{before} before, {after} after");
    copy.acked = end;
}

/// Scenario: blocks were received and not synced when the power went, and any of them survive. Those that say that earlier ones
/// are hard speak of another disk.
#[test]
fn unsynced_blocks_that_survive_out_of_order_are_an_ordinary_end() {
    let mut is_damage_for_others = 0;
    for seed in 0..60 {
        let random = SimRandom::new(seed);
        let (leader, mut copy) = (Node::new(seed), Node::copy(seed + 500));
        let mut feed = leader.feed(FIRST);
        append_some(&leader.log, &random);
        ship(&mut feed, &copy, 100);
        copy.acked = copy.log.sync_blocks().expect("syncs");
        for _ in 0..6 {
            append_some(&leader.log, &random);
        }
        ship(&mut feed, &copy, 1_000);
        copy.disk.set_faults(Faults {
            stop_at: Some(copy.disk.calls() + random.below(2)),
            ..Faults::default()
        });
        let _ = copy.log.sync_blocks();
        copy.disk.crash();
        let as_leader = copy.disk.fork(seed);
        let other = Node {
            env: daruma_sim::env(&as_leader, 3),
            disk: as_leader,
            log: copy.log.clone(),
            acked: copy.acked,
            kept: FIRST,
        };
        is_damage_for_others += u64::from(other.found(false).is_err());
        copy.restart_as_copy();
        assert!(copy.log.hardened() >= copy.acked, "seed {seed}");
        ship(&mut leader.feed(copy.log.hardened()), &copy, 1_000);
        copy.log.sync_blocks().expect("syncs");
        assert_eq!(copy.log.hardened(), leader.log.hardened());
        assert_equal(&leader, &copy, seed);
    }
    assert!(is_damage_for_others > 0, "no block survived out of order");
}

/// Takes the block at `at` away from the disk, as a power loss does with a write that was not synced. Nobody has the log open.
fn lose_block(node: &Node, vlfs: &[crate::log::VlfInfo], at: Lsn) {
    let before = vlfs
        .iter()
        .filter(|v| v.sequence > 0 && v.start_lsn <= at.0);
    let vlf = before.max_by_key(|v| v.start_lsn).expect("it lies there");
    let offset = vlf.offset + super::super::file::HEADER_BYTES + at.0 - vlf.start_lsn;
    node.disk.restart();
    let file = node
        .env
        .disk
        .open(&spec().path, daruma_base::OpenMode::ReadWrite);
    let file = file.expect("opens");
    file.write_at(&[0; BLOCK_ALIGN_BYTES], offset)
        .expect("writes");
    file.sync_data().expect("syncs");
}

/// A block full of this.
fn long_record(filling: u8) -> Vec<u8> {
    let mut body = Vec::new();
    record::start(&mut body, Kind::System, TxnId::NONE, Lsn::NONE);
    body.extend([filling; 40_000]);
    record::finish(&mut body);
    body
}

/// What a power loss kept of unsynced blocks behind the end of a copy was hard on the node that made them. When the copy leads, and
/// stops before anything of its own is hard, that is no proof that it had them.
#[test]
fn what_lies_behind_a_copy_proves_nothing_to_the_leader_that_it_becomes() {
    let random = SimRandom::new(1);
    let (leader, mut copy) = (Node::new(1), Node::copy(2));
    let mut feed = leader.feed(FIRST);
    append_some(&leader.log, &random);
    ship(&mut feed, &copy, 100);
    copy.acked = copy.log.sync_blocks().expect("syncs");
    let end = copy.acked;
    for _ in 0..2 {
        let appended = leader.log.append(&record(&random), AppendKind::System);
        appended.expect("appends");
        leader.log.harden_all().expect("hardens");
    }
    ship(&mut feed, &copy, 100);
    copy.log.sync_blocks().expect("syncs");
    lose_block(&copy, &copy.log.vlfs(), end);
    copy.restart_as_leader(true);
    assert_eq!(copy.log.hardened(), end);
    copy.disk.restart();
    copy.restart_as_leader(false);
    append_some(&copy.log, &random);
    let led = copy.log.hardened();
    copy.disk.crash();
    copy.restart_as_leader(false);
    assert_eq!(copy.log.hardened(), led);
}

/// Scenario: a leader's first block behind a restart is lost, and not the second. It goes on, and later follows a node that went on
/// from the same position, whose blocks have the same number of the incarnation.
#[test]
fn blocks_that_a_restart_left_behind_are_not_taken_for_those_of_another_leader() {
    let random = SimRandom::new(1);
    let (mut node, mut other) = (Node::new(1), Node::copy(2));
    append_some(&node.log, &random);
    ship(&mut node.feed(FIRST), &other, 100);
    let end = other.log.sync_blocks().expect("syncs");
    (node.acked, other.acked) = (end, end);
    node.disk.restart();
    node.restart_as_leader(false);
    // Both are sealed before either is hard.
    for filling in 1..3 {
        let appended = node.log.append(&long_record(filling), AppendKind::System);
        appended.expect("appends");
    }
    node.log.harden_all().expect("hardens");
    lose_block(&node, &node.log.vlfs(), end);
    node.restart_as_leader(false);
    assert_eq!(node.log.hardened(), end);

    other.disk.restart();
    other.restart_as_leader(true);
    let appended = other.log.append(&long_record(3), AppendKind::System);
    appended.expect("appends");
    other.log.harden_all().expect("hardens");
    node.disk.restart();
    node.restart_as_copy();
    ship(&mut other.feed(end), &node, 100);
    node.acked = node.log.sync_blocks().expect("syncs");
    node.disk.crash();
    node.restart_as_copy();
    assert_eq!(node.log.hardened(), other.log.hardened());
}

#[test]
fn blocks_that_do_not_fit_are_refused_and_change_nothing() {
    let random = SimRandom::new(1);
    let (mut leader, copy) = (Node::new(1), Node::copy(2));
    append_some(&leader.log, &random);
    leader.disk.restart();
    leader.restart_as_leader(false);
    append_some(&leader.log, &random);
    append_some(&leader.log, &random);
    let mut feed = leader.feed(FIRST);
    let mut blocks = Vec::new();
    while let Fed::Block(block) = feed.try_next().expect("feeds") {
        blocks.push(block);
    }
    let refused = |bytes: &[u8], why: &str| match copy.log.append_block(bytes) {
        Err(BlockError::Refused { what, expected, .. }) => {
            assert_eq!((what, expected), (why, copy.log.end()));
        }
        other => panic!("{why}: {other:?}"),
    };
    refused(blocks[1].used(), "it is not the next one");
    let mut flipped = blocks[0].used().to_vec();
    *flipped.last_mut().expect("bytes") ^= 1;
    refused(&flipped, "it is not whole");
    refused(&[], "it is not whole");
    refused(&[0; 20], "it is not whole");
    for block in &blocks {
        copy.log.append_block(block.used()).expect("fits");
    }
    refused(blocks[0].used(), "it is not the next one");
    // A block from before the restart at a position behind it.
    let mut old = block::OpenBlock::new(copy.log.end().0, 0, Vec::new());
    old.push(&record(&random));
    let used = old.len();
    let old = old.seal(1, 0);
    refused(&old[..used], "its incarnation is over");
    // A checksum proves nothing about what a peer means to send.
    let mut empty = block::OpenBlock::new(copy.log.end().0, 0, Vec::new());
    empty.push(&[1, 0, 0, 0, 9]);
    let used = empty.len();
    let empty = empty.seal(2, 0);
    refused(&empty[..used], "it is not whole");
    let refusal = leader.log.append_block(blocks[0].used());
    assert!(matches!(refusal, Err(BlockError::Refused { .. })));
    assert_eq!(
        copy.log.sync_blocks().expect("syncs"),
        leader.log.hardened()
    );
}

#[test]
fn a_copy_takes_nothing_but_blocks_and_grows_past_its_limit_for_them() {
    let random = SimRandom::new(1);
    let leader = Node::new(1);
    let copy = Node::copy(2);
    copy.log
        .modify(0, crate::Growth::Pages(0), Some(130))
        .expect("modifies");
    let refused = copy.log.append(&record(&random), AppendKind::Completion);
    assert!(matches!(refused, Err(StorageError::NotOnline { .. })));
    let mut feed = leader.feed(FIRST);
    let size = copy.log.size_bytes();
    while copy.log.hardened().0 < 2 * size {
        append_some(&leader.log, &random);
        ship(&mut feed, &copy, 100);
        copy.log.sync_blocks().expect("syncs");
    }
    assert!(copy.log.size_bytes() > size);
    assert_equal(&leader, &copy, 1);
}

#[test]
fn a_feed_of_a_copy_ends_where_it_is_cut_behind_it() {
    let random = SimRandom::new(1);
    let (leader, copy) = (Node::new(1), Node::copy(2));
    let mut feed = leader.feed(FIRST);
    append_some(&leader.log, &random);
    ship(&mut feed, &copy, 100);
    let at = copy.log.sync_blocks().expect("syncs");
    append_some(&leader.log, &random);
    ship(&mut feed, &copy, 100);
    copy.log.sync_blocks().expect("syncs");
    let (mut before, mut behind) = (copy.feed(FIRST), copy.feed(FIRST));
    while behind.position() < copy.log.hardened() {
        assert!(matches!(behind.try_next(), Ok(Fed::Block(_))));
    }
    copy.log.cut_tail(at).expect("cuts");
    assert!(matches!(behind.try_next(), Ok(Fed::Gone)));
    while before.position() < at {
        assert!(matches!(before.try_next(), Ok(Fed::Block(_))));
    }
    assert!(matches!(before.try_next(), Ok(Fed::Nothing)));
    ship(&mut leader.feed(at), &copy, 100);
    assert!(matches!(before.try_next(), Ok(Fed::Block(_))));
    assert!(copy.log.cut_tail(Lsn(at.0 + 1)).is_err());
    assert!(leader.log.cut_tail(at).is_err(), "it is no copy");
}

/// The check that the tests above rest on notices a block in the wrong place.
#[cfg(feature = "planted-bugs")]
#[test]
fn a_block_taken_behind_a_gap_is_noticed() {
    let random = SimRandom::new(1);
    let (leader, mut copy) = (Node::new(1), Node::copy(2));
    let mut feed = leader.feed(FIRST);
    (0..4).for_each(|_| append_some(&leader.log, &random));
    ship(&mut feed, &copy, 1);
    crate::planted::plant(Some(Bug::AcceptGap));
    assert!(
        matches!(feed.try_next(), Ok(Fed::Block(_))),
        "lost on its way"
    );
    ship_anyhow(&mut feed, &copy);
    crate::planted::plant(None);
    copy.log.sync_blocks().expect("syncs");
    copy.disk.crash();
    copy.restart_as_copy();
    assert_ne!(copy.log.hardened(), leader.log.hardened());
}

#[cfg(feature = "planted-bugs")]
fn ship_anyhow(feed: &mut LogFeed, to: &Node) {
    while let Ok(Fed::Block(block)) = feed.try_next() {
        to.log.append_block(block.used()).expect("is taken");
    }
}

/// Where the stream ends after a restart of a log that is full, in which a power loss had left the second of two blocks, one more block
/// of the length of the first, and another restart; and where it ended before that one.
fn ends_of_a_full_log() -> (Lsn, Lsn) {
    let disk = SimDisk::new(1);
    let env = daruma_sim::env(&disk, 1);
    let mut spec = spec();
    spec.growth = crate::Growth::Pages(0);
    let log = Log::create(&spec, GUID, true, &env, &LogShared::default()).expect("creates");
    let mut node = Node {
        disk,
        env,
        log,
        acked: FIRST,
        kept: FIRST,
    };
    // Until the last VLF is in use.
    while node.log.vlfs().iter().any(|v| v.sequence == 0) {
        let appended = node.log.append(&long_record(1), AppendKind::System);
        appended.expect("appends");
        node.log.harden_all().expect("hardens");
    }
    let end = node.log.hardened();
    for filling in 2..4 {
        let appended = node
            .log
            .append(&long_record(filling), AppendKind::Completion);
        appended.expect("appends");
    }
    node.log.harden_all().expect("hardens");
    lose_block(&node, &node.log.vlfs(), end);
    node.disk.crash();
    node.restart_as_leader(false);
    assert_eq!(node.log.hardened(), end);
    let appended = node.log.append(&long_record(4), AppendKind::Completion);
    appended.expect("appends");
    node.log.harden_all().expect("hardens");
    let before = node.log.hardened();
    node.disk.crash();
    node.restart_as_leader(false);
    (before, node.log.hardened())
}

#[test]
fn what_a_crash_left_in_a_full_log_does_not_come_back() {
    let (before, after) = ends_of_a_full_log();
    assert_eq!(before, after);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn without_zeros_it_comes_back() {
    crate::plant(Some(crate::Bug::ResumeUnzeroed));
    let (before, after) = ends_of_a_full_log();
    crate::plant(None);
    assert!(after > before);
}
