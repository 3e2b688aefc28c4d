//! The primary of one database: raises `quorum`, lets replicas in and out.
//!
//! | a replica | event | becomes |
//! |---|---|---|
//! | outside | connected, synchronous, lacks at most one window | in `W`: commits wait for it |
//! | in `W` | its acknowledgement reaches `quorum` | the judge is asked to list it |
//! | in `W` | the judge lists it | in `S`: SYNCHRONIZED |
//! | in `S` | a clock ran out, gone, suspended, asynchronous, removed | the judge is asked to take it out; **commits go on waiting** |
//! | in `W`, leaving | the judge has it out | outside: commits that waited for it go on |
//! | any | the judge is at another epoch | this primary is fenced: what waits ends with an unknown outcome |
//!
//! A question to the judge stays the same until it is answered, since it may have been carried out. A primary that begins anew is
//! [`Role::Resolving`], with `W` as the judge lists it, until all of them have its first record.
//!
//! The right to lead may be a lease ([`Rules::leased`]). Nothing is acknowledged and nobody comes while it has run out; it goes on when it is
//! there again.

use super::epoch::EpochId;
use super::judge::{Record, Reply, Request, Verdict};
use super::planted::{Bug, planted};
use super::replica::{ReplicaId, Replicas};
use daruma_base::Lsn;

/// How one replica is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaConfig {
    /// Which.
    pub replica: ReplicaId,
    /// AVAILABILITY_MODE = SYNCHRONOUS_COMMIT.
    pub synchronous: bool,
}

/// What the group asks of this database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// The primary's own AVAILABILITY_MODE: if it is asynchronous, every pair is.
    pub synchronous: bool,
    /// REQUIRED_SYNCHRONIZED_SECONDARIES_TO_COMMIT.
    pub required: u8,
    /// Bytes of log that a replica may lack when commits begin to wait for it.
    pub window_bytes: u64,
    /// The right to lead is a lease: every acknowledgement is this machine's, while [`PrimaryInput::Stand`] says so.
    pub leased: bool,
    /// Every other replica.
    pub replicas: Vec<ReplicaConfig>,
}

/// What happens to a primary.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PrimaryInput {
    /// Where the log ends, and up to where it is hard here.
    Log {
        /// End of the log in memory.
        end: Lsn,
        /// Hard on this node's disk.
        here: Lsn,
    },
    /// A connection stands, and the replica has answered in this epoch.
    Up(ReplicaId),
    /// The connection broke; its clocks go on.
    Down(ReplicaId),
    /// One of its clocks ran out, or it is known to be gone.
    Lost(ReplicaId),
    /// What a replica has hard.
    Ack {
        /// Who.
        from: ReplicaId,
        /// In which epoch it says so.
        epoch: EpochId,
        /// Hard there.
        here: Lsn,
    },
    /// SET HADR SUSPEND.
    Suspend(ReplicaId),
    /// SET HADR RESUME.
    Resume(ReplicaId),
    /// The group was altered.
    Configure(Rules),
    /// The judge answered.
    Judge(Reply),
    /// The judge did not answer in time: it is asked again.
    AskAgain,
    /// Another node leads a later epoch.
    Led(EpochId),
    /// Whether the lease holds.
    Stand(bool),
    /// The cluster has another owner, or another epoch of this one.
    Dismiss,
    /// The log waits for participants from now on, and has acknowledged this much by itself.
    Waiting(Lsn),
}

/// What a primary wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrimaryOutput {
    /// To the judge.
    Ask(Request),
    /// Commits up to here are acknowledged, visible, and may be told to secondaries.
    Raise(Lsn),
    /// Commits wait for nobody else: the log may acknowledge what is hard here by itself.
    Alone,
    /// Commits wait for participants again. Answered by [`PrimaryInput::Waiting`]; until then nobody is listed.
    Wait,
    /// Whether there is somebody whom commits wait for, so that who writes much may be held back until they have it.
    HoldBack(bool),
    /// RESOLVING is over: sessions may come.
    Open,
    /// `S` changed: every connected replica is told.
    Tell(Record),
    /// This node is primary no longer: waiting commits end with an unknown outcome (983).
    Fence(Fenced),
}

/// Why a primary was fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fenced {
    /// The judge has another epoch.
    Refused(EpochId),
    /// Another node leads a later one.
    Deposed(EpochId),
    /// The cluster has decided so.
    Dismissed,
}

/// Standing of a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It waits until `S` has its epoch.
    Resolving,
    /// Sessions work.
    Open,
    /// It is primary no longer.
    Fenced,
}

/// What the views show of a replica's database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncState {
    /// Nothing flows to it.
    NotSynchronizing,
    /// It is fed; a failover to it may lose something.
    Synchronizing,
    /// It may be promoted without loss.
    Synchronized,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Peer {
    config: ReplicaConfig,
    connected: bool,
    suspended: bool,
    /// A clock ran out; over when it moves again.
    lost: bool,
    ack: Option<Lsn>,
}

/// The primary of one database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Primary {
    me: ReplicaId,
    role: Role,
    /// Position past the epoch's first record.
    opens_at: Lsn,
    end: Lsn,
    here: Lsn,
    quorum: Lsn,
    waited: Replicas,
    /// The log acknowledges by itself, further than this knows.
    alone: bool,
    /// What the log has acknowledged by itself is known.
    shown_is_known: bool,
    /// The log was told that writers may be held back.
    holds_back: bool,
    record: Record,
    asked: Option<Request>,
    /// The lease holds, or none is needed.
    stands: bool,
    rules: Rules,
    peers: Vec<Peer>,
}

impl Primary {
    /// A primary whose epoch the judge has granted. `opens_at` is the end of the epoch's first record, `quorum` what this node knew.
    pub fn new(me: ReplicaId, record: Record, opens_at: Lsn, quorum: Lsn, rules: Rules) -> Primary {
        assert_eq!(record.primary, me, "somebody else leads");
        let waited = match planted(Bug::PromotedWaitsForNobody) {
            true => Replicas::NONE,
            false => record.members.without(me),
        };
        let peers = rules.replicas.iter().map(|c| Peer::new(*c)).collect();
        Primary {
            me,
            role: Role::Resolving,
            opens_at,
            end: Lsn::NONE,
            here: Lsn::NONE,
            quorum,
            waited,
            alone: false,
            shown_is_known: true,
            holds_back: false,
            record,
            asked: None,
            stands: !rules.leased,
            rules,
            peers,
        }
    }

    /// Does the lease hold, as far as this was told?
    pub fn stands(&self) -> bool {
        self.stands
    }

    /// Standing.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The epoch that it leads, or led.
    pub fn epoch(&self) -> EpochId {
        self.record.epoch
    }

    /// The record as it knows it.
    pub fn record(&self) -> Record {
        self.record
    }

    /// `W`: whose acknowledgements count.
    pub fn waited(&self) -> Replicas {
        self.waited
    }

    /// Hard here and on all of `W`; never falls.
    pub fn quorum(&self) -> Lsn {
        self.quorum
    }

    /// What a replica has hard, as it said in this epoch.
    pub fn ack(&self, replica: ReplicaId) -> Option<Lsn> {
        self.peer(replica).and_then(|p| p.ack)
    }

    /// How far a replica may be fed: one that is not waited for gets nothing that a promoted participant might lack.
    pub fn feed_limit(&self, replica: ReplicaId) -> Lsn {
        match self.waited.contains(replica) {
            true => self.end,
            false => self.quorum,
        }
    }

    /// Do commits stand still because fewer secondaries are synchronized than the group requires (988)?
    pub fn lacks_secondaries(&self) -> bool {
        self.waited.count() < u32::from(self.rules.required)
    }

    /// What the views show.
    pub fn sync_state(&self, replica: ReplicaId) -> SyncState {
        let Some(peer) = self.peer(replica) else {
            return SyncState::NotSynchronizing;
        };
        let flows = peer.connected && !peer.suspended && self.role != Role::Fenced;
        match flows {
            false => SyncState::NotSynchronizing,
            true if self.is_listed(replica) && self.stays(replica) => SyncState::Synchronized,
            true => SyncState::Synchronizing,
        }
    }

    /// May this replica take over without loss? It is listed, and has everything.
    pub fn is_drained_to(&self, replica: ReplicaId) -> bool {
        self.is_listed(replica) && self.ack(replica) >= Some(self.end) && self.quorum >= self.end
    }

    /// Takes an event.
    pub fn step(&mut self, input: PrimaryInput) -> Vec<PrimaryOutput> {
        let mut outputs = Vec::new();
        if self.role == Role::Fenced {
            return outputs;
        }
        self.take(input, &mut outputs);
        self.go_on(&mut outputs);
        outputs
    }

    fn take(&mut self, input: PrimaryInput, outputs: &mut Vec<PrimaryOutput>) {
        match input {
            PrimaryInput::Log { end, here } => {
                self.end = self.end.max(end);
                self.here = self.here.max(here);
            }
            PrimaryInput::Up(replica) => self.with_peer(replica, |p| {
                p.connected = true;
                p.ack = None;
            }),
            PrimaryInput::Down(replica) => self.with_peer(replica, |p| p.connected = false),
            PrimaryInput::Lost(replica) => self.with_peer(replica, |p| p.lost = true),
            PrimaryInput::Suspend(replica) => self.with_peer(replica, |p| p.suspended = true),
            PrimaryInput::Resume(replica) => self.with_peer(replica, |p| p.suspended = false),
            PrimaryInput::Ack { from, epoch, here } => self.take_ack(from, epoch, here),
            PrimaryInput::Configure(rules) => self.configure(rules),
            PrimaryInput::Judge(reply) => self.take_reply(&reply, outputs),
            PrimaryInput::AskAgain => outputs.extend(self.asked.map(PrimaryOutput::Ask)),
            PrimaryInput::Waiting(shown) => {
                self.quorum = self.quorum.max(shown);
                self.shown_is_known = true;
            }
            PrimaryInput::Stand(stands) => self.stands = stands || planted(Bug::LeaseForgotten),
            PrimaryInput::Dismiss => self.fence(Fenced::Dismissed, outputs),
            PrimaryInput::Led(epoch) => {
                if epoch.number > self.record.epoch.number {
                    self.fence(Fenced::Deposed(epoch), outputs);
                }
            }
        }
    }

    fn take_ack(&mut self, from: ReplicaId, epoch: EpochId, here: Lsn) {
        let is_current = epoch.is_same(self.record.epoch) || planted(Bug::CountOtherEpoch);
        if !is_current {
            return;
        }
        // A replica whose disk went back has lost what it acknowledged.
        let listed = self.is_listed(from);
        let least = if listed { self.quorum } else { Lsn::NONE };
        self.with_peer(from, |peer| {
            let went_back = here < peer.ack.unwrap_or(least);
            if went_back || peer.ack != Some(here) {
                peer.lost = went_back;
            }
            peer.ack = Some(here);
        });
    }

    fn configure(&mut self, rules: Rules) {
        let before = std::mem::take(&mut self.peers);
        let known = |c: &ReplicaConfig| before.iter().find(|p| p.config.replica == c.replica);
        let peer = |c: &ReplicaConfig| match known(c) {
            Some(peer) => Peer {
                config: *c,
                ..peer.clone()
            },
            None => Peer::new(*c),
        };
        self.peers = rules.replicas.iter().map(peer).collect();
        self.rules = rules;
    }

    fn take_reply(&mut self, reply: &Reply, outputs: &mut Vec<PrimaryOutput>) {
        if self.asked != Some(reply.request) {
            return;
        }
        if reply.record.epoch != self.record.epoch && !planted(Bug::GoOnWhenRefused) {
            self.fence(Fenced::Refused(reply.record.epoch), outputs);
            return;
        }
        self.asked = None;
        let record = match (reply.verdict, reply.request) {
            (Verdict::Refused, Request::Change { members, .. })
                if planted(Bug::GoOnWhenRefused) =>
            {
                Record {
                    members,
                    ..self.record
                }
            }
            _ => reply.record,
        };
        self.record = record;
        // Somebody else may have listed members (an external manager): they are waited for from now on.
        if !planted(Bug::PromotedWaitsForNobody) {
            self.waited = self.waited.union(record.members.without(self.me));
        }
        outputs.push(PrimaryOutput::Tell(record));
    }

    fn fence(&mut self, why: Fenced, outputs: &mut Vec<PrimaryOutput>) {
        self.role = Role::Fenced;
        outputs.push(PrimaryOutput::Fence(why));
    }

    fn go_on(&mut self, outputs: &mut Vec<PrimaryOutput>) {
        if self.role == Role::Fenced {
            return;
        }
        self.change_waited();
        self.change_alone(outputs);
        self.change_hold_back(outputs);
        self.raise(outputs);
        self.ask(outputs);
    }

    /// In, if it stays and lacks little. Out, if it does not stay, and the judge neither lists it nor was asked to.
    fn change_waited(&mut self) {
        for replica in (0..super::REPLICAS_MAX).filter_map(ReplicaId::new) {
            let stays = self.stays(replica);
            if stays && self.lacks_little(replica) && !planted(Bug::ListTooEarly) {
                self.waited = self.waited.with(replica);
            }
            let may_be_promoted = self.is_listed(replica) || self.is_asked_for(replica);
            if !stays && (!may_be_promoted || planted(Bug::LeaveWaitedFirst)) {
                self.waited = self.waited.without(replica);
            }
        }
    }

    /// A log that acknowledges by itself needs no word from here for each commit. It must have stopped before anybody is listed, or it
    /// could acknowledge what a listed one lacks.
    fn change_alone(&mut self, outputs: &mut Vec<PrimaryOutput>) {
        let nobody =
            self.waited == Replicas::NONE && !self.lacks_secondaries() && !self.rules.leased;
        if self.role == Role::Open && nobody && !self.alone {
            self.alone = true;
            outputs.push(PrimaryOutput::Alone);
        } else if !nobody && self.alone {
            self.alone = false;
            self.shown_is_known = planted(Bug::ListTooEarly);
            outputs.push(PrimaryOutput::Wait);
        }
    }

    /// A lease alone is waited for by commits, and by nobody who writes: it takes no log. Commits that stand still for want of secondaries
    /// are waited for as if there were some.
    fn change_hold_back(&mut self, outputs: &mut Vec<PrimaryOutput>) {
        let holds_back = self.waited != Replicas::NONE || self.lacks_secondaries();
        if holds_back == self.holds_back || (planted(Bug::HoldBackForTheLost) && self.holds_back) {
            return;
        }
        self.holds_back = holds_back;
        outputs.push(PrimaryOutput::HoldBack(holds_back));
    }

    fn raise(&mut self, outputs: &mut Vec<PrimaryOutput>) {
        if !self.stands {
            return;
        }
        let acks = self.waited.iter().map(|r| self.ack(r).unwrap_or(Lsn::NONE));
        let here = match planted(Bug::RaiseUnsynced) {
            true => self.end,
            false => self.here,
        };
        let covered = acks.fold(here, Lsn::min);
        if covered > self.quorum && !self.lacks_secondaries() {
            self.quorum = covered;
            outputs.push(PrimaryOutput::Raise(covered));
        }
        let opens = covered >= self.opens_at || planted(Bug::OpenAlone);
        if self.role == Role::Resolving && opens {
            self.role = Role::Open;
            outputs.push(PrimaryOutput::Open);
        }
    }

    fn ask(&mut self, outputs: &mut Vec<PrimaryOutput>) {
        if self.asked.is_some() && !planted(Bug::ForgetTheQuestion) {
            return;
        }
        let members = self.wanted_members();
        if members == self.record.members {
            return;
        }
        let request = Request::Change {
            epoch: self.record.epoch,
            sequence: self.record.sequence,
            members,
        };
        if self.asked != Some(request) {
            self.asked = Some(request);
            outputs.push(PrimaryOutput::Ask(request));
        }
    }

    fn wanted_members(&self) -> Replicas {
        let mut members = self.record.members;
        for replica in (0..super::REPLICAS_MAX).filter_map(ReplicaId::new) {
            if replica != self.me && !self.stays(replica) {
                members = members.without(replica);
            } else if self.is_complete(replica) {
                members = members.with(replica);
            }
        }
        members
    }

    fn is_complete(&self, replica: ReplicaId) -> bool {
        let ack = self.ack(replica);
        match planted(Bug::ListTooEarly) {
            true => ack.is_some(),
            false => {
                let waits = self.waited.contains(replica) && self.shown_is_known;
                // What the epoch found may have been acknowledged, all of it.
                waits && ack >= Some(self.quorum.max(self.opens_at))
            }
        }
    }

    /// Are both it and this node configured to be synchronous?
    pub fn is_synchronous(&self, replica: ReplicaId) -> bool {
        let is = |p: &Peer| p.config.synchronous;
        self.rules.synchronous && self.peer(replica).is_some_and(is)
    }

    /// May commits wait for it? A participant whose connection broke stays one until a clock runs out, or it is known to be gone.
    fn stays(&self, replica: ReplicaId) -> bool {
        let may = |p: &Peer| !p.suspended && !p.lost;
        self.is_synchronous(replica) && self.peer(replica).is_some_and(may)
    }

    /// Connected, and within one window of the log's end. While commits of an open database stand still for want of secondaries it is
    /// enough to have all that is fed to one that is not waited for: more would never come, and nobody waits the longer.
    fn lacks_little(&self, replica: ReplicaId) -> bool {
        let is_open = self.role == Role::Open;
        let has_its_share = |ack: Lsn| is_open && self.lacks_secondaries() && ack >= self.quorum;
        let is_near = |ack: Lsn| self.end.0.saturating_sub(ack.0) <= self.rules.window_bytes;
        let little = |ack: Lsn| is_near(ack) || has_its_share(ack);
        self.peer(replica)
            .is_some_and(|p| p.connected && p.ack.is_some_and(little))
    }

    fn is_listed(&self, replica: ReplicaId) -> bool {
        self.record.members.contains(replica)
    }

    fn is_asked_for(&self, replica: ReplicaId) -> bool {
        matches!(self.asked, Some(Request::Change { members, .. }) if members.contains(replica))
    }

    fn peer(&self, replica: ReplicaId) -> Option<&Peer> {
        self.peers.iter().find(|p| p.config.replica == replica)
    }

    fn with_peer(&mut self, replica: ReplicaId, change: impl FnOnce(&mut Peer)) {
        if let Some(peer) = self.peers.iter_mut().find(|p| p.config.replica == replica) {
            change(peer);
        }
    }
}

impl Peer {
    fn new(config: ReplicaConfig) -> Peer {
        Peer {
            config,
            connected: false,
            suspended: false,
            lost: false,
            ack: None,
        }
    }
}
