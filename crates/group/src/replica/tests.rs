//! Two and three replicas over loopback, with logs in memory of which a sync makes a part hard.

use super::*;
use crate::commit::{
    Epoch, EpochId, History, Record, ReplicaConfig, ReplicaId, Role, Rules, SyncState,
};
use crate::compress::Mode;
use crate::transport::{Endpoint, EndpointConfig, Handler, Identity, Link, Member, dial};
use crate::wire::{Ack, Codecs, Message};
use daruma_base::{Disk, Lsn};
use daruma_sim::SimDisk;
use parking_lot::{Condvar, Mutex};
use rustls::pki_types::PrivateKeyDer;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DATABASE: u128 = 11;
/// What is waited for comes long before; a test that waits so long has failed.
const LONG: Duration = Duration::from_secs(300);
/// Blocks end at multiples of this.
const ALIGN: u64 = 64;

type More = Arc<dyn Fn() + Send + Sync>;

/// A log in memory, of either role.
#[derive(Default)]
struct MemLog {
    state: Mutex<MemState>,
    moved: Condvar,
}

#[derive(Default)]
struct MemState {
    blocks: Vec<LogBlock>,
    here: u64,
    /// What may be acknowledged; without it, everything that is hard here.
    acked: Option<u64>,
    quorum: u64,
    may_apply: u64,
    open: bool,
    fenced: bool,
    /// The disk hangs.
    hangs: bool,
    /// The disk has failed.
    failed: bool,
    /// What becomes of a cut, if it does not succeed.
    cut_fails: Option<fn() -> LogError>,
    /// Log is kept for these.
    kept_for: Vec<ReplicaId>,
    more: Vec<More>,
}

impl MemState {
    fn end(&self) -> u64 {
        self.blocks.last().map_or(0, |b| b.end.0)
    }

    fn settle(&mut self) {
        let acked = self.acked.unwrap_or(u64::MAX);
        self.quorum = self.quorum.max(self.here.min(acked));
    }

    fn push(&mut self, used: &[u8]) -> Lsn {
        let first = self.end();
        let end = first + (used.len() as u64).next_multiple_of(ALIGN);
        self.blocks.push(LogBlock {
            first: Lsn(first),
            end: Lsn(end),
            bytes: Arc::new(used.to_vec()),
            used: used.len(),
        });
        Lsn(end)
    }
}

impl MemLog {
    fn change<T>(&self, change: impl FnOnce(&mut MemState) -> T) -> T {
        let mut state = self.state.lock();
        let changed = change(&mut state);
        state.settle();
        let more = state.more.clone();
        drop(state);
        self.moved.notify_all();
        more.iter().for_each(|m| m());
        changed
    }

    /// A commit: appended and hard here; where it ends.
    fn commit(&self, text: &str) -> Lsn {
        self.change(|s| {
            let end = s.push(text.as_bytes());
            s.here = end.0;
            end
        })
    }

    fn wait(&self, what: &str, until: impl Fn(&MemState) -> bool) {
        let limit = Instant::now() + LONG;
        let mut state = self.state.lock();
        while !until(&state) {
            let late = self.moved.wait_until(&mut state, limit).timed_out();
            assert!(
                !late,
                "{what} never came: end {}, hard {}, quorum {}",
                state.end(),
                state.here,
                state.quorum
            );
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let state = self.state.lock();
        state
            .blocks
            .iter()
            .flat_map(|b| b.plain().to_vec())
            .collect()
    }
}

struct MemFeed {
    log: Arc<MemLog>,
    next: Lsn,
}

impl Feed for MemFeed {
    fn next(&mut self, limit: Lsn) -> Result<Option<LogBlock>, LogError> {
        let state = self.log.state.lock();
        if state.failed {
            return Err(LogError::Failed("the disk".into()));
        }
        let at = state.blocks.partition_point(|b| b.first < self.next);
        let found = state.blocks.get(at).filter(|b| b.end <= limit);
        assert!(found.is_none_or(|b| b.first == self.next), "within a block");
        self.next = found.map_or(self.next, |b| b.end);
        Ok(found.cloned())
    }

    fn release_below(&mut self, _: Lsn) {}
}

/// The log as its roles see it.
struct Role_(Arc<MemLog>);

impl PrimaryLog for Role_ {
    fn keep_for(&self, replica: ReplicaId, _: Lsn, _: Lsn) {
        let kept_for = &mut self.0.state.lock().kept_for;
        kept_for.retain(|r| *r != replica);
        kept_for.push(replica);
    }
    fn unpin(&self, _: ReplicaId) {}
    fn forget(&self, replica: ReplicaId) {
        self.0.state.lock().kept_for.retain(|r| *r != replica);
    }
    fn end(&self) -> Lsn {
        Lsn(self.0.state.lock().end())
    }
    fn here(&self) -> Lsn {
        Lsn(self.0.state.lock().here)
    }
    fn has_failed(&self) -> bool {
        self.0.state.lock().failed
    }
    fn raise_quorum(&self, quorum: Lsn) {
        let mut state = self.0.state.lock();
        state.acked = state.acked.map(|acked| acked.max(quorum.0));
        state.settle();
        self.0.moved.notify_all();
    }
    fn acknowledge_alone(&self) {
        let mut state = self.0.state.lock();
        state.acked = None;
        state.settle();
        self.0.moved.notify_all();
    }
    fn wait_for_participants(&self) -> Lsn {
        let mut state = self.0.state.lock();
        state.acked = Some(state.quorum);
        Lsn(state.quorum)
    }
    fn hold_writers_back(&self, _: bool) {}
    fn open(&self) {
        self.0.state.lock().open = true;
        self.0.moved.notify_all();
    }
    fn fence(&self) {
        self.0.state.lock().fenced = true;
        self.0.moved.notify_all();
    }
    fn feed(
        &self,
        from: Lsn,
        more: Box<dyn Fn() + Send + Sync>,
    ) -> Result<Box<dyn Feed>, LogError> {
        self.0.state.lock().more.push(Arc::from(more));
        let log = self.0.clone();
        Ok(Box::new(MemFeed { log, next: from }))
    }
}

impl SecondaryLog for Role_ {
    fn end(&self) -> Lsn {
        Lsn(self.0.state.lock().end())
    }
    fn append(&self, used: &[u8]) -> Result<Lsn, LogError> {
        Ok(self.0.change(|s| s.push(used)))
    }
    fn sync(&self) -> Result<Lsn, LogError> {
        let mut state = self.0.state.lock();
        let end = state.end();
        while state.hangs {
            self.0.moved.wait(&mut state);
        }
        state.here = state.here.max(end);
        self.0.moved.notify_all();
        Ok(Lsn(end))
    }
    fn cut(&self, at: Lsn) -> Result<(), LogError> {
        self.0.change(|s| {
            if let Some(error) = s.cut_fails {
                return Err(error());
            }
            s.blocks.retain(|b| b.end <= at);
            s.here = s.here.min(at.0);
            Ok(())
        })
    }
    fn may_apply(&self, to: Lsn) {
        let mut state = self.0.state.lock();
        state.may_apply = state.may_apply.max(to.0);
        self.0.moved.notify_all();
    }
    fn applied(&self) -> Lsn {
        Lsn(self.0.state.lock().may_apply)
    }
    fn pin(&self) -> Lsn {
        Lsn::NONE
    }
}

/// A server: its connections, its part in the one database, and the disk with its standing.
struct Server {
    me: ReplicaId,
    log: Arc<MemLog>,
    disk: Arc<dyn Disk>,
    node: Arc<Node>,
}

fn id(number: usize) -> ReplicaId {
    ReplicaId::new(number as u8).expect("a replica")
}

struct Group {
    servers: Vec<Arc<Server>>,
    endpoints: Vec<Endpoint>,
    configs: Vec<EndpointConfig>,
    members: Vec<Member>,
    session_timeout: Duration,
    /// Of log to synchronous replicas, and to others.
    modes: Arc<Mutex<(Mode, Mode)>>,
    links: Mutex<Vec<(Arc<Link>, std::thread::JoinHandle<()>)>>,
}

fn rules(me: usize, count: usize) -> Rules {
    let others = (0..count).filter(|n| *n != me);
    Rules {
        synchronous: true,
        required: 0,
        window_bytes: 1 << 20,
        leased: false,
        replicas: others
            .map(|n| ReplicaConfig {
                replica: id(n),
                synchronous: true,
            })
            .collect(),
    }
}

impl Group {
    /// Server 0 leads an empty database, the others follow nobody yet.
    fn new(count: usize, session_timeout: Duration) -> Group {
        let identities: Vec<Identity> = (0..count)
            .map(|_| {
                let made = rcgen::generate_simple_self_signed(vec!["replica".into()])
                    .expect("a certificate");
                let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
                Identity::new(made.cert.der().clone(), key)
            })
            .collect();
        let members: Vec<Member> = identities
            .iter()
            .enumerate()
            .map(|(n, i)| Member {
                replica: id(n),
                fingerprint: i.fingerprint(),
            })
            .collect();
        let epoch = EpochId { number: 1, id: 77 };
        let record = Record::first(epoch, id(0));
        let first = History::new(vec![Epoch {
            name: epoch,
            start: Lsn::NONE,
        }])
        .expect("a history");
        let mut group = Group {
            servers: Vec::new(),
            endpoints: Vec::new(),
            configs: Vec::new(),
            members: members.clone(),
            session_timeout,
            modes: Arc::new(Mutex::new((Mode::Always, Mode::Always))),
            links: Mutex::default(),
        };
        for (n, identity) in identities.into_iter().enumerate() {
            let server = Arc::new(Server {
                me: id(n),
                log: Arc::default(),
                disk: SimDisk::new(n as u64 + 1),
                node: Arc::default(),
            });
            let promised = if n == 0 { epoch } else { EpochId::default() };
            let history = if n == 0 {
                first.clone()
            } else {
                History::default()
            };
            let standing = Standing {
                promised,
                history,
                record,
            };
            StandingFile::create(&server.disk, Path::new("standing"), standing).expect("a file");
            let config = EndpointConfig {
                group: 5,
                me: id(n),
                name: format!("server{n}"),
                identity,
                members: members
                    .iter()
                    .filter(|m| m.replica != id(n))
                    .copied()
                    .collect(),
                codecs: Codecs::OURS,
                window_bytes: 1 << 20,
                session_timeout,
                handshake_timeout: LONG,
            };
            let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
            let endpoint =
                Endpoint::listen(address, config.clone(), server.node.clone()).expect("it listens");
            group.servers.push(server);
            group.endpoints.push(endpoint);
            group.configs.push(config);
        }
        group.lead(0);
        (1..count).for_each(|n| group.follow(n));
        group
    }

    fn file(&self, n: usize) -> StandingFile {
        let opened = StandingFile::open(&self.servers[n].disk, Path::new("standing"));
        opened.expect("it opens").expect("it is there")
    }

    fn lead(&self, n: usize) -> Arc<Led> {
        let server = &self.servers[n];
        let log = &server.log;
        let opens_at = {
            let mut state = log.state.lock();
            (state.open, state.fenced) = (false, false);
            state.acked = Some(state.quorum);
            Lsn(state.end())
        };
        let modes = self.modes.clone();
        let led = Led::begin(
            DATABASE,
            server.me,
            self.file(n),
            Arc::new(Role_(log.clone())),
            opens_at,
            None,
            rules(n, self.servers.len()),
            self.session_timeout,
            Arc::new(move |synchronous| {
                let (to_synchronous, to_others) = *modes.lock();
                match synchronous {
                    true => to_synchronous,
                    false => to_others,
                }
            }),
            None,
        );
        let led = led.expect("it leads");
        server.node.lead(DATABASE, led.clone());
        led
    }

    /// The process of a server ends and begins again as a follower; what was not hard is gone.
    fn follow(&self, n: usize) {
        let server = &self.servers[n];
        server.node.remove(DATABASE);
        let quorum = {
            let mut state = server.log.state.lock();
            let here = state.here;
            state.blocks.retain(|b| b.end.0 <= here);
            state.more.clear();
            state.acked = Some(state.quorum);
            Lsn(state.quorum.max(state.may_apply))
        };
        let log = Arc::new(Role_(server.log.clone()));
        let followed =
            Followed::begin(DATABASE, server.me, self.file(n), log, quorum).expect("it follows");
        server.node.follow(DATABASE, followed);
    }

    /// As a dialer does, but with the link at hand.
    fn connect(&self, from: usize, to: usize) -> Arc<Link> {
        let address = self.endpoints[to].address();
        let link = dial(address, self.members[to], &self.configs[from]).expect("it connects");
        let (serving, node) = (link.clone(), self.servers[from].node.clone());
        node.connected(&link);
        let thread = std::thread::spawn(move || serving.serve(&*node));
        self.links.lock().push((link.clone(), thread));
        link
    }

    /// The connections of a server, by its own ends.
    fn links_of(&self, n: usize) -> Vec<Arc<Link>> {
        let links = self.servers[n].node.connections();
        links.into_iter().map(|(_, link)| link).collect()
    }

    fn led(&self, n: usize) -> Arc<Led> {
        self.servers[n].node.led(DATABASE).expect("it leads")
    }

    fn followed(&self, n: usize) -> Arc<Followed> {
        self.servers[n].node.followed(DATABASE).expect("it follows")
    }

    /// Waits until `n` may be promoted without loss. Commits go on meanwhile, and leave it time to catch up. A connection that a busy
    /// machine has taken for silent is made again.
    fn wait_synchronized(&self, leader: usize, n: usize) {
        let log = &self.servers[leader].log;
        let limit = Instant::now() + LONG;
        while self.led(leader).sync_state(id(n)) != SyncState::Synchronized {
            if Instant::now() > limit {
                let progress = self.led(leader).progress();
                panic!("{n} is never synchronized: {progress:?}");
            }
            if self.links.lock().iter().all(|(link, _)| link.is_closed()) {
                self.connect(leader, n);
            }
            let end = log.commit("a commit while it joins");
            log.wait("quorum", |s| s.quorum >= end.0);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn commit(&self, leader: usize, text: &str) -> Lsn {
        let log = &self.servers[leader].log;
        let end = log.commit(text);
        log.wait("the acknowledgement of a commit", |s| s.quorum >= end.0);
        end
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for server in &self.servers {
            server.log.change(|s| s.hangs = false);
            server.node.stop();
        }
        for (link, thread) in self.links.lock().drain(..) {
            link.close();
            // A thread that panicked has failed the test already.
            let _ = thread.join();
        }
    }
}

#[test]
fn a_synchronous_commit_is_hard_on_both_disks_when_it_is_acknowledged() {
    let group = Group::new(2, LONG);
    group.servers[0].log.wait("the primary opens", |s| s.open);
    group.connect(0, 1);
    group.wait_synchronized(0, 1);
    for n in 0..200 {
        let end = group.commit(
            0,
            &format!("row {n}, with some text that packs, packs and packs"),
        );
        let there = group.servers[1].log.state.lock().here;
        assert!(
            there >= end.0,
            "acknowledged at {} and hard up to {there} on the secondary",
            end.0
        );
    }
    assert_eq!(group.servers[0].log.bytes(), group.servers[1].log.bytes());
    let end = group.servers[0].log.state.lock().end();
    group.servers[1]
        .log
        .wait("redo may reach the end", |s| s.may_apply == end);
}

#[test]
fn a_commit_waits_for_a_disk_that_hangs_until_its_replica_has_left() {
    let group = Group::new(2, Duration::from_secs(2));
    group.connect(0, 1);
    group.wait_synchronized(0, 1);
    group.servers[1].log.change(|s| s.hangs = true);
    let end = group.commit(0, "it waits for the progress clock");
    assert!(group.servers[1].log.state.lock().here < end.0);
    assert_ne!(group.led(0).sync_state(id(1)), SyncState::Synchronized);
    assert!(
        !group.file(0).standing().record.members.contains(id(1)),
        "out of the record before it was released"
    );
    group.servers[1].log.change(|s| s.hangs = false);
    group.wait_synchronized(0, 1);
}

/// A process that was killed has its connections closed by its machine: nobody waits for a clock.
#[test]
fn a_commit_goes_on_without_a_replica_that_has_closed_its_connection() {
    let group = Group::new(2, LONG);
    let link = group.connect(1, 0);
    group.wait_synchronized(0, 1);
    group.servers[1].log.change(|s| s.hangs = true);
    let log = &group.servers[0].log;
    let end = log.commit("nobody else has it");
    assert!(log.state.lock().quorum < end.0);
    link.close();
    log.wait("the acknowledgement without it", |s| s.quorum >= end.0);
    assert!(group.servers[1].log.state.lock().here < end.0);
    assert!(
        !group.file(0).standing().record.members.contains(id(1)),
        "out of the record before it was released"
    );
    group.servers[1].log.change(|s| s.hangs = false);
    group.wait_synchronized(0, 1);
    assert_eq!(log.bytes(), group.servers[1].log.bytes());
}

/// Whoever is listed may take over from a primary that can write no more: it must stay listed, whatever the primary cannot read or hear.
#[test]
fn a_primary_whose_log_has_failed_gives_up_nobody() {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let group = Group::new(2, TIMEOUT);
    let link = group.connect(0, 1);
    group.wait_synchronized(0, 1);
    let led = group.led(0);
    group.servers[0].log.change(|s| {
        s.failed = true;
        s.push(b"never hard");
    });
    led.log_moved();
    link.close();
    let began = led.clock();
    while led.clock() < began + 3 * TIMEOUT {
        assert!(led.record().members.contains(id(1)), "it was given up");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn connections_that_break_lose_nothing() {
    let group = Group::new(2, LONG);
    let mut link = group.connect(0, 1);
    group.wait_synchronized(0, 1);
    for n in 0..20 {
        let log = &group.servers[0].log;
        let ends: Vec<Lsn> = (0..20)
            .map(|m| log.commit(&format!("round {n}, commit {m}")))
            .collect();
        link.close();
        link = group.connect(0, 1);
        let last = ends.last().expect("commits").0;
        log.wait("the acknowledgement after a new connection", |s| {
            s.quorum >= last
        });
        assert!(group.servers[1].log.state.lock().here >= last);
    }
    assert_eq!(group.servers[0].log.bytes(), group.servers[1].log.bytes());
}

/// What comes late on the older connection tells of less than what the replica has; it must not cost the replica its place.
#[test]
fn a_second_connection_takes_the_place_of_the_first() {
    let group = Group::new(2, LONG);
    group.connect(0, 1);
    group.wait_synchronized(0, 1);
    for round in 0..20 {
        let newest = match round % 2 {
            0 => group.connect(1, 0),
            _ => group.connect(0, 1),
        };
        group.wait_synchronized(0, 1);
        let listed = group.led(0).record();
        for n in 0..50 {
            group.commit(0, &format!("round {round}, commit {n}"));
        }
        assert_eq!(group.led(0).record(), listed, "it left, and came again");
        assert_eq!(group.led(0).shipped().len(), 1, "it is shipped to once");
        if round % 5 == 4 {
            // An older one stands, and takes its place.
            newest.close();
            group.wait_synchronized(0, 1);
        }
    }
    assert_eq!(group.servers[0].log.bytes(), group.servers[1].log.bytes());
}

#[test]
fn a_planned_failover_goes_there_and_back() {
    let group = Group::new(2, LONG);
    let (mut leader, mut other) = (0, 1);
    for round in 0..4u128 {
        group.connect(leader, other);
        group.wait_synchronized(leader, other);
        group.commit(leader, &format!("round {round}"));
        // A tail that the other may never have seen.
        group.servers[leader]
            .log
            .change(|s| s.push(b"not hard anywhere"));
        let record = group
            .followed(other)
            .promote(100 + round, Claim::Judged, LONG);
        let record = record.expect("the primary gives its word");
        assert_eq!(record.primary, id(other));
        group.servers[leader]
            .log
            .wait("the old primary is fenced", |s| s.fenced);
        assert_eq!(group.led(leader).role(), Role::Fenced);
        group.follow(leader);
        group.lead(other);
        group.servers[other]
            .log
            .wait("the new primary opens", |s| s.open);
        (leader, other) = (other, leader);
    }
    group.connect(leader, other);
    group.wait_synchronized(leader, other);
    group.commit(leader, "the last one");
    assert_eq!(group.servers[0].log.bytes(), group.servers[1].log.bytes());
}

#[test]
fn a_forced_failover_wins_and_the_old_primary_takes_its_tail_back() {
    let group = Group::new(2, LONG);
    let link = group.connect(0, 1);
    group.wait_synchronized(0, 1);
    let kept = group.commit(0, "on both");
    link.close();
    // Written while nobody else can have it: it waits, and is never acknowledged.
    let lost = group.servers[0].log.commit("on the old primary alone");
    let promoted = |most| {
        let claim = Claim::Forced { least: 0, most };
        group.followed(1).promote(500, claim, LONG)
    };
    assert!(promoted(2).is_err(), "a later reign would be passed over");
    let record = promoted(u64::MAX).expect("an administrator says so");
    assert_eq!(record.members.count(), 1);
    group.lead(1);
    group.servers[1].log.wait("it opens alone", |s| s.open);
    group.connect(1, 0);
    group.servers[0]
        .log
        .wait("the old primary is fenced", |s| s.fenced);
    assert!(
        group.servers[0].log.state.lock().quorum < lost.0,
        "a commit of a deposed primary was acknowledged"
    );
    group.follow(0);
    group.connect(1, 0);
    group.wait_synchronized(1, 0);
    group.commit(1, "of the new primary");
    assert_eq!(group.servers[0].log.bytes(), group.servers[1].log.bytes());
    assert!(kept.0 > 0);
}

/// Server 0 has acknowledged something alone, `most` of it is on its pages, and 1 leads in its place; 2 is there as well.
fn parted_group(most: Lsn) -> (Group, Lsn) {
    let group = Group::new(3, LONG);
    // Ended by them: commits go on at once.
    let links = [group.connect(1, 0), group.connect(2, 0)];
    group.wait_synchronized(0, 1);
    group.wait_synchronized(0, 2);
    group.commit(0, "on all");
    links.iter().for_each(|link| link.close());
    let alone = group.commit(0, "acknowledged by the old primary alone");
    group.servers[0]
        .log
        .change(|s| s.may_apply = most.min(alone).0);
    promote_by_force(&group, 1, 0);
    group.follow(0);
    (group, alone)
}

fn promote_by_force(group: &Group, n: usize, least: u64) {
    let most = u64::MAX;
    let claim = Claim::Forced { least, most };
    let promoted = group.followed(n).promote(500 + n as u128, claim, LONG);
    promoted.expect("an administrator says so");
    group.lead(n);
}

#[test]
fn what_is_given_up_to_one_primary_is_kept_from_the_next() {
    let (group, alone) = parted_group(Lsn::NONE);
    let link = group.connect(1, 0);
    let old = group.followed(0);
    assert!(matches!(old.wait_following(LONG), Following::Parted(_)));
    link.close();
    // The primary has gone when the administrator resumes, and the next one is another.
    old.rest(false, &[]);
    promote_by_force(&group, 2, 1 << 40);
    group.connect(2, 0);
    assert!(matches!(old.wait_following(LONG), Following::Parted(_)));
    assert!(!old.lacks_pages());
    assert_eq!(group.servers[0].log.state.lock().end(), alone.0);
    old.rest(false, &group.links_of(0));
    assert_eq!(old.wait_following(LONG), Following::Primary);
    assert!(group.servers[0].log.state.lock().end() < alone.0);
}

#[test]
fn suspend_takes_back_that_pages_are_given_up() {
    let (group, _) = parted_group(Lsn(u64::MAX));
    group.connect(1, 0);
    let old = group.followed(0);
    assert!(matches!(old.wait_following(LONG), Following::Parted(_)));
    assert!(!old.lacks_pages());
    old.rest(false, &group.links_of(0));
    assert!(matches!(old.wait_following(LONG), Following::Parted(_)));
    assert!(old.lacks_pages());
    old.rest(true, &group.links_of(0));
    assert!(!old.lacks_pages());
}

#[test]
fn only_a_cut_that_pages_forbid_leads_to_other_pages() {
    let on_pages: fn() -> LogError = || LogError::Needed("a page has it".into());
    let broken: fn() -> LogError = || LogError::Failed("the disk".into());
    for (fails, lacks_pages) in [(on_pages, true), (broken, false)] {
        let (group, _) = parted_group(Lsn::NONE);
        group.servers[0].log.change(|s| s.cut_fails = Some(fails));
        group.connect(1, 0);
        let old = group.followed(0);
        assert!(matches!(old.wait_following(LONG), Following::Parted(_)));
        old.rest(false, &group.links_of(0));
        old.wait_following(LONG);
        assert!(old.failure().is_some());
        old.rest(false, &[]);
        assert_eq!(old.lacks_pages(), lacks_pages);
    }
}

#[test]
fn what_pages_keep_from_one_primary_is_kept_from_the_next_that_could_cut_it_off() {
    let group = Group::new(3, LONG);
    let links = [group.connect(1, 0), group.connect(2, 0)];
    group.wait_synchronized(0, 1);
    group.wait_synchronized(0, 2);
    links[0].close();
    let shared = group.commit(0, "on 2 as well");
    links[1].close();
    let alone = group.commit(0, "acknowledged by the old primary alone");
    let log = &group.servers[0].log;
    log.change(|s| s.may_apply = shared.0);
    promote_by_force(&group, 1, 0);
    group.follow(0);
    group.connect(1, 0);
    let old = group.followed(0);
    assert!(matches!(old.wait_following(LONG), Following::Parted(_)));
    // 1 lacks what is on pages.
    old.rest(false, &group.links_of(0));
    assert!(matches!(old.wait_following(LONG), Following::Parted(_)));
    assert!(old.lacks_pages());
    promote_by_force(&group, 2, 1 << 40);
    let epoch = group.led(2).epoch();
    group.connect(2, 0);
    wait_until("the next primary", || old.promised() == epoch);
    assert!(matches!(old.following(), Following::Parted(_)));
    assert_eq!(log.state.lock().end(), alone.0);
    old.rest(false, &group.links_of(0));
    assert_eq!(old.wait_following(LONG), Following::Primary);
    assert_eq!(log.state.lock().end(), shared.0);
}

#[test]
fn what_a_cut_could_not_take_back_is_given_up_to_the_primary_of_that_time_alone() {
    let (group, _) = parted_group(Lsn::NONE);
    let on_pages = || LogError::Needed("a page has it".into());
    group.servers[0]
        .log
        .change(|s| s.cut_fails = Some(on_pages));
    let link = group.connect(1, 0);
    let old = group.followed(0);
    assert!(matches!(old.wait_following(LONG), Following::Parted(_)));
    old.rest(false, &group.links_of(0));
    wait_until("the cut", || old.failure().is_some());
    assert!(old.lacks_pages());
    assert_eq!(old.following(), Following::Nobody);
    link.close();
    promote_by_force(&group, 2, 1 << 40);
    group.connect(2, 0);
    wait_until("the next primary", || !old.lacks_pages());
    // Nothing is taken any more, and the word is about whoever has been heard of.
    old.rest(false, &[]);
    assert!(old.lacks_pages());
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let limit = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < limit, "{what} never came");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// It has a copy and goes on saying what that has, as one that has become a replica with the configuration only.
#[test]
fn who_is_to_get_no_log_is_fed_no_more_whatever_it_has() {
    let group = Group::new(2, LONG);
    let link = group.connect(0, 1);
    group.wait_synchronized(0, 1);
    let (led, log) = (group.led(0), &group.servers[0].log);
    assert_eq!(log.state.lock().kept_for, [id(1)]);
    let mut alone = rules(0, 2);
    alone.replicas.clear();
    led.configure(alone);
    let has = group.followed(1).here();
    let ack = Ack {
        epoch: led.epoch(),
        received: has,
        here: has,
        applied: has,
        pin: Lsn::NONE,
        clock_us: 0,
    };
    let message = Message::Ack {
        database: DATABASE,
        ack,
    };
    led.received(&link, &message).expect("it is heard");
    // What was on its way as it was taken out may be about to go.
    let is_fed = || !led.shipped().is_empty() || !log.state.lock().kept_for.is_empty();
    let limit = Instant::now() + LONG;
    while is_fed() {
        assert!(Instant::now() < limit, "{:?}", led.shipped());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_primary_that_restarts_stays_closed_until_its_participant_has_its_epoch() {
    let group = Group::new(2, LONG);
    let link = group.connect(0, 1);
    group.wait_synchronized(0, 1);
    group.commit(0, "on both");
    link.close();
    group.follow(0);
    let record = group
        .followed(0)
        .promote(900, Claim::Judged, LONG)
        .expect("its own record is the judge");
    assert!(record.members.contains(id(1)));
    let led = group.lead(0);
    assert_eq!(led.role(), Role::Resolving);
    led.log_moved();
    led.ask_again();
    assert_eq!(
        led.role(),
        Role::Resolving,
        "a listed participant has not said a word"
    );
    group.connect(0, 1);
    group.servers[0].log.wait("it opens", |s| s.open);
    group.commit(0, "after the restart");
}

#[test]
fn three_replicas_share_what_is_packed() {
    let group = Group::new(3, LONG);
    group.connect(0, 1);
    group.connect(0, 2);
    group.wait_synchronized(0, 1);
    group.wait_synchronized(0, 2);
    for n in 0..50 {
        group.commit(
            0,
            &format!("{n} {}", "the same words again and again ".repeat(100)),
        );
    }
    for (replica, counts) in group.led(0).shipped() {
        assert!(
            counts.sent_bytes * 4 < counts.plain_bytes,
            "{replica:?}: {counts:?}"
        );
        assert!(counts.packed_blocks >= 50);
    }
    for n in [1, 2] {
        assert_eq!(group.servers[0].log.bytes(), group.servers[n].log.bytes());
    }
}

/// What the primary acknowledged by itself, just before it began to wait for somebody, is shown on the other side without another commit.
#[test]
fn an_idle_primary_tells_whoever_joins_what_it_has_shown() {
    for _ in 0..10 {
        let group = Group::new(2, LONG);
        let log = &group.servers[0].log;
        log.wait("the primary opens", |s| s.open);
        let end = log.commit("alone, and nobody has looked at the log since");
        group.connect(0, 1);
        let there = &group.servers[1].log;
        there.wait("redo may reach the end", |s| s.may_apply == end.0);
    }
}

#[test]
fn how_log_is_packed_follows_the_mode_and_the_replica_from_block_to_block() {
    let group = Group::new(2, LONG);
    let link = group.connect(0, 1);
    group.wait_synchronized(0, 1);
    let counts = || group.led(0).progress()[0].counts;
    let shipped = |modes: (Mode, Mode)| {
        *group.modes.lock() = modes;
        let before = counts();
        let end = group.commit(0, &"the same words again and again ".repeat(100));
        let there = &group.servers[1].log;
        there.wait("the block on the other side", |s| s.here >= end.0);
        let after = counts();
        assert!(after.plain_bytes > before.plain_bytes);
        after.packed_blocks > before.packed_blocks
            && (after.sent_bytes - before.sent_bytes) * 4 < after.plain_bytes - before.plain_bytes
    };
    assert!(!shipped((Mode::Never, Mode::Always)));
    assert!(shipped((Mode::Always, Mode::Never)));
    let mut asynchronous = rules(0, 2);
    asynchronous.replicas[0].synchronous = false;
    group.led(0).configure(asynchronous);
    assert!(!shipped((Mode::Always, Mode::Never)));
    assert!(shipped((Mode::Never, Mode::Always)));
    // What was shipped on an earlier connection counts on.
    let before = counts();
    link.close();
    group.connect(0, 1);
    assert!(shipped((Mode::Never, Mode::Always)));
    assert!(counts().plain_bytes > before.plain_bytes && counts().blocks > before.blocks);
}

#[test]
fn a_standing_survives_and_damage_is_told() {
    let disk: Arc<dyn Disk> = SimDisk::new(1);
    let path = Path::new("standing");
    assert!(StandingFile::open(&disk, path).expect("it looks").is_none());
    let epoch = EpochId { number: 3, id: 9 };
    let history = History::new(vec![Epoch {
        name: epoch,
        start: Lsn(4096),
    }])
    .expect("a history");
    let standing = Standing {
        promised: epoch,
        history,
        record: Record::first(epoch, id(0)),
    };
    StandingFile::create(&disk, path, standing.clone()).expect("it stores");
    let file = StandingFile::open(&disk, path)
        .expect("it opens")
        .expect("it is there");
    assert_eq!(*file.standing(), standing);
    drop(file);
    let raw = disk
        .open(path, daruma_base::OpenMode::ReadWrite)
        .expect("it opens");
    raw.write_at(&[0xFF], 30).expect("it writes");
    drop(raw);
    assert!(StandingFile::open(&disk, path).is_err());
}
