//! A node with its clock: elections, rounds, votes that follow, leases. Time, packets and wishes in, actions out.
//!
//! | state | event | done |
//! |---|---|---|
//! | follower | no leader heard of for S | asks around whether a candidacy would succeed (`elect`), and looks at the witness |
//! | follower | it would | stands; the register does the rest |
//! | leader | every quarter lease | a round: does a quorum know of nobody later? (`lead`) |
//! | leader | no round for a fence | steps down and is silent, so that others may elect |
//! | leader | others vote than should, a wish, an owner that is gone | proposes |
//! | owner of a group | every quarter lease | asks for its lease (`owner`) |
//!
//! Clocks: elapsed time of this machine that counts suspension; rates within 1 % of real time. Wall clocks play no part.
//!
//! Invariants
//! 1. A lease ends D after it was *asked* for, on the owner's clock; a leader names another owner F > D(1+ρ)/(1-ρ) after it won its
//!    election, or after it last granted that owner anything, on its own.
//! 2. A lease is granted after a round that began after the question came, under the votes that the leader held when it began.
//! 3. A node that acts for a group does so under an epoch that began in this life of the process.
//! 4. A witness is replaced only while it has no vote: one member's votes are never counted from two records.
//!
//! It reads no clock and does nothing itself: `tests/simulation` drives several of them, `runtime` a real one, which waits as long as `rest` says.

mod elect;
mod lead;
mod owner;
mod rest;
mod view;
mod watch;

pub use owner::Owned;
pub use view::{ClusterView, GroupView, LossView, NodeView, WitnessSeen};

use crate::command::{Command, Outcome};
use crate::packet::Packet;
use crate::planted::{Bug, planted};
use crate::state::{ClusterState, GroupState};
use crate::witness::{Counts, WitnessAsk, WitnessFault, WitnessView};
use daruma_quorum::{
    Ballot, Configuration, MEMBERS_MAX, MemberId, Members, Message, Node, Output, Register, Role,
    Version, WITNESS,
};
use elect::Follow;
use lead::{Lead, Told};
use owner::Owner;
pub(crate) use rest::TICK;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use watch::Watch;

const PLACES: usize = MEMBERS_MAX as usize + 1;
/// Wishes that wait for a leader.
const WISHES_MAX: usize = 256;

/// Times that all nodes of a cluster share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// S: a member that says nothing for so long is taken for lost.
    pub suspicion: Duration,
    /// D: how long an owner may act after it asked.
    pub lease: Duration,
    /// A node without a vote gets it back when it has answered for so long.
    pub restore: Duration,
    /// A witness that does not answer for so long has failed.
    pub witness_timeout: Duration,
    /// One that failed again within a minute waits for so long.
    pub witness_flap: Duration,
    /// A wish that is not carried out by then has an unknown outcome.
    pub wish_timeout: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            suspicion: Duration::from_millis(600),
            lease: Duration::from_secs(1),
            restore: Duration::from_secs(2),
            witness_timeout: Duration::from_secs(2),
            witness_flap: Duration::from_secs(30),
            wish_timeout: Duration::from_secs(10),
        }
    }
}

impl Timing {
    /// F: longer than any lease that another leader may have granted, whatever the clocks' rates within 1 %.
    pub fn fence(&self) -> Duration {
        self.lease * 103 / 100 + Duration::from_millis(25)
    }

    /// Between two rounds, and between two questions for a lease.
    pub(crate) fn round(&self) -> Duration {
        self.lease / 4
    }
}

/// What a node wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// [`Machine::register`] and [`Machine::seen`] must be on disk before anything after it is done. They are as the whole step has left
    /// them, so one write serves every `Persist` of a step: it is as if the crash had come later, and the messages had been lost.
    Persist,
    Send(MemberId, Packet),
    Witness(WitnessAsk),
    /// What the cluster agreed on. It is so as soon as the step is on disk, whether or not the process lives to tell it.
    Settled(Configuration),
    /// What became of the wish of this number.
    Answer(u64, Outcome),
    /// For the error log.
    Note(String),
}

/// See the module.
pub struct Machine {
    timing: Timing,
    node: Node,
    state: Arc<ClusterState>,
    /// What `state` was read from.
    read: Version,
    now: Duration,
    ticked: Duration,
    random: u64,
    out: Vec<Action>,
    /// When each member was heard of last.
    heard: [Option<Duration>; PLACES],
    follow: Follow,
    lead: Option<Lead>,
    watch: Watch,
    owner: Owner,
    leaving: bool,
    /// Wishes of this node that a leader has, and until when it may take.
    wishes: BTreeMap<u64, (Command, Duration, bool)>,
}

impl Machine {
    /// A node that starts with what is on disk. `seen`: the highest counts of witnesses' records that were seen. `None`: the register's
    /// body is no state of a cluster.
    pub fn new(
        me: MemberId,
        register: Register,
        seen: Counts,
        timing: Timing,
        seed: u64,
        now: Duration,
    ) -> Option<Machine> {
        let state = ClusterState::decode(&register.held.body)?;
        let owner = Owner::new(&state);
        let read = register.held.version;
        let mut machine = Machine {
            timing,
            node: Node::new(me, register),
            state: Arc::new(state),
            read,
            now,
            ticked: now,
            random: seed,
            out: Vec::new(),
            heard: [None; PLACES],
            follow: Follow::new(now),
            lead: None,
            watch: Watch::new(seen),
            owner,
            leaving: false,
            wishes: BTreeMap::new(),
        };
        machine.follow.wait = machine.chance(machine.timing.suspicion / 2);
        Some(machine)
    }

    /// This node.
    pub fn me(&self) -> MemberId {
        self.node.id()
    }

    /// What has to be on disk.
    pub fn register(&self) -> &Register {
        self.node.register()
    }

    /// The highest counts of witnesses' records that were seen: on disk as well.
    pub fn seen(&self) -> &Counts {
        &self.watch.seen
    }

    /// What the newest configuration says that this node has. It may not have settled yet.
    pub fn state(&self) -> &Arc<ClusterState> {
        &self.state
    }

    /// Does this node lead, with a quorum that it heard of lately?
    pub fn leads(&self) -> bool {
        self.node.leads() && self.lead.is_some()
    }

    /// Whether a leader is heard of, or this node is it.
    pub fn is_in_quorum(&self) -> bool {
        match &self.lead {
            Some(lead) => lead.is_settled_once(),
            None => self.follow.leader.is_some() && !self.is_quiet(self.timing.suspicion * 2),
        }
    }

    /// Time goes by.
    pub fn tick(&mut self, now: Duration) -> Vec<Action> {
        self.at(now);
        self.ticked = self.now;
        match self.lead.is_some() {
            true => self.lead_on(),
            false => {
                self.look_for_leader();
                self.look_as_follower();
            }
        }
        self.keep_leases();
        self.give_up_wishes();
        self.ask_witness();
        self.taken()
    }

    /// A packet of another node, whose certificate has proved which.
    pub fn receive(&mut self, now: Duration, from: MemberId, packet: Packet) -> Vec<Action> {
        self.at(now);
        if from != self.me() && from != WITNESS {
            self.heard[place(from)] = Some(now);
            self.take(from, packet);
            self.ask_witness();
        }
        self.taken()
    }

    /// The witness' answer to the question of this number.
    pub fn witnessed(
        &mut self,
        now: Duration,
        id: u64,
        result: Result<WitnessView, WitnessFault>,
    ) -> Vec<Action> {
        self.at(now);
        self.take_witness(id, result);
        self.ask_witness();
        self.taken()
    }

    /// A wish of this node. Its answer comes with the same number.
    pub fn wish(&mut self, now: Duration, id: u64, command: Command) -> Vec<Action> {
        self.at(now);
        if self.wishes.len() >= WISHES_MAX {
            let full = Outcome::Refused("too many wishes wait".into());
            self.out.push(Action::Answer(id, full));
            return self.taken();
        }
        if let Command::Release { group, epoch, .. } = &command {
            self.owner.stop(*group, *epoch);
        }
        let limit = match command {
            // Whoever asks has this node's own word otherwise.
            Command::Show => self.timing.suspicion * 2,
            _ => self.timing.wish_timeout,
        };
        let until = now + limit;
        self.wishes.insert(id, (command, until, false));
        self.pass_on_wishes();
        self.ask_witness();
        self.taken()
    }

    /// This node wants to stop and gives its vote away, if it can. [`Machine::has_left`] tells when it may go.
    pub fn leave(&mut self, now: Duration) -> Vec<Action> {
        self.at(now);
        self.leaving = true;
        if self.lead.is_some() {
            self.lead_on();
        }
        self.taken()
    }

    /// `Some(true)`: the cluster has agreed that this node left. `Some(false)`: nobody can take its vote.
    pub fn has_left(&self) -> Option<bool> {
        let register = self.node.register();
        let agreed = self.state.left().contains(self.me()) && register.settled;
        match &self.lead {
            Some(lead) => lead.has_left(self, agreed),
            None => agreed.then_some(true),
        }
    }

    /// Forces a quorum of this node alone, by order of an administrator who knows that the others are gone. What this node knows of
    /// groups may be old: each of them waits for [`Command::Take`].
    pub fn force(&mut self, now: Duration) -> Vec<Action> {
        self.at(now);
        let seen = self.node.register().ballot.generation;
        // Unique by the node's number, whoever else is forced meanwhile.
        let generation = (seen / 16 + 1) * 16 + u64::from(self.me().number());
        let mut state = (*self.state).clone();
        if !planted(Bug::ForcedKeepsOwners) {
            state.groups.iter_mut().for_each(GroupState::orphan);
        }
        let outputs = self.node.force(generation, state.encode());
        self.absorb(outputs);
        self.lead_on();
        self.taken()
    }

    // --- what all states share

    fn at(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    fn taken(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.out)
    }

    fn send(&mut self, to: MemberId, packet: Packet) {
        self.out.push(Action::Send(to, packet));
    }

    fn send_all(&mut self, packet: &Packet) {
        for to in self.state.members().without(self.me()).iter() {
            self.send(to, packet.clone());
        }
    }

    /// A time between nothing and `most`: so that two do not do the same at once again and again.
    fn chance(&mut self, most: Duration) -> Duration {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        most * ((self.random >> 33) as u32 % 1024) / 1024
    }

    fn has_been_heard(&self, member: MemberId, within: Duration) -> bool {
        let heard = self.heard.get(place(member)).copied().flatten();
        heard.is_some_and(|at| at + within > self.now)
    }

    fn take(&mut self, from: MemberId, packet: Packet) {
        match packet {
            Packet::Core(message) => self.take_core(from, message),
            Packet::PreVote { ballot, version } => self.pre_vote(from, ballot, version),
            Packet::PreVoted {
                asked,
                ballot,
                granted,
                newer,
            } => self.take_pre_vote(from, asked, ballot, granted, newer),
            Packet::Round { ballot, seq } => self.take_round(from, ballot, seq),
            Packet::Rounded {
                ballot,
                seq,
                version,
                settled,
                leaving,
                reaches_witness,
            } => {
                let told = Told {
                    holds: (version, settled),
                    leaving,
                    reaches_witness,
                };
                self.take_rounded(from, ballot, seq, &told);
            }
            Packet::LeaseAsk { seq, owned } => self.lease_asked(from, seq, owned),
            Packet::LeaseOk { seq } => self.take_lease(seq),
            Packet::Ask { id, command } => self.wished(from, id, command),
            Packet::Answer { id, outcome } => self.take_outcome(id, outcome),
            // Of connections that are not between members.
            Packet::Join { .. } | Packet::Joined(_) => {}
        }
    }

    fn take_core(&mut self, from: MemberId, message: Message) {
        let carried = match &message {
            Message::Put { configuration, .. } => Some(configuration),
            Message::Vote {
                newer: Some((configuration, _)),
                ..
            } => Some(configuration),
            _ => None,
        };
        if carried.is_some_and(|c| !is_readable(c)) {
            return;
        }
        if let Message::Put { configuration, .. } = &message
            && configuration.version.ballot >= self.node.register().ballot
        {
            self.hear_leader(from);
        }
        let outputs = self.node.receive(from, &message);
        self.absorb(outputs);
    }

    /// Takes a configuration that another holds, without standing for anything.
    fn adopt(&mut self, newer: &(Configuration, bool)) {
        if is_readable(&newer.0) {
            let outputs = self.node.adopt(&newer.0, newer.1);
            self.absorb(outputs);
        }
    }

    /// Somebody has seen this ballot: nothing below it will succeed.
    fn hear_ballot(&mut self, ballot: Ballot) {
        if ballot > self.node.register().ballot {
            let outputs = self.node.receive(self.me(), &Message::Outdated { ballot });
            self.absorb(outputs);
        }
    }

    /// Carries out what the register's node wants, and follows what has become of it.
    fn absorb(&mut self, outputs: Vec<Output>) {
        let mut has_settled = false;
        for output in outputs {
            match output {
                Output::Persist => self.out.push(Action::Persist),
                Output::Send(WITNESS, message) => self.watch.want(message),
                Output::Send(to, message) => self.send(to, Packet::Core(message)),
                Output::Settled => {
                    let held = self.node.register().held.clone();
                    self.out.push(Action::Settled(held));
                    has_settled = true;
                }
            }
        }
        let held = &self.node.register().held;
        if held.version != self.read {
            // What comes in is looked at first, and what is proposed was a state.
            if let Some(state) = ClusterState::decode(&held.body) {
                self.state = Arc::new(state);
            }
            self.read = held.version;
        }
        self.follow_role();
        if has_settled {
            self.settled();
        }
    }

    fn follow_role(&mut self) {
        let leads = matches!(self.node.role(), Role::Leader { .. });
        match (leads, self.lead.is_some()) {
            (true, false) => {
                self.lead = Some(Lead::new(self.now));
                self.follow.leader = None;
                let again = |w: &&mut (Command, Duration, bool)| w.0.is_said_again();
                let wishes = self.wishes.values_mut().filter(again);
                wishes.for_each(|w| w.2 = false);
            }
            (false, true) => self.lose_lead(),
            _ => {}
        }
    }

    /// Sends wishes to the leader, or carries them out.
    fn pass_on_wishes(&mut self) {
        let leader = match &self.lead {
            Some(_) => Some(self.me()),
            None => self.follow.leader,
        };
        let Some(leader) = leader else { return };
        let mut passed = Vec::new();
        for (id, (command, _, is_passed)) in &mut self.wishes {
            if !*is_passed {
                *is_passed = true;
                passed.push((*id, command.clone()));
            }
        }
        for (id, command) in passed {
            match leader == self.me() {
                true => self.wished(leader, id, command),
                false => self.send(leader, Packet::Ask { id, command }),
            }
        }
    }

    fn take_outcome(&mut self, id: u64, outcome: Outcome) {
        if self.wishes.remove(&id).is_some() {
            self.out.push(Action::Answer(id, outcome));
        }
    }

    fn give_up_wishes(&mut self) {
        self.pass_on_wishes();
        let now = self.now;
        let late: Vec<u64> = self
            .wishes
            .iter()
            .filter(|(_, (_, until, _))| *until <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            let passed = self.wishes.remove(&id).is_some_and(|(_, _, passed)| passed);
            let outcome = match passed {
                true => "the leader has not answered in time",
                false => "the cluster has no leader: there is no quorum, or not yet",
            };
            self.out
                .push(Action::Answer(id, Outcome::Unknown(outcome.into())));
        }
    }

    fn votes(&self) -> Members {
        let register = self.node.register();
        register.held.voters(register.settled)
    }
}

fn place(member: MemberId) -> usize {
    usize::from(member.number())
}

fn is_readable(configuration: &Configuration) -> bool {
    ClusterState::decode(&configuration.body).is_some()
}
