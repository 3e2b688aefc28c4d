//! The lead: rounds that prove it, votes that follow what answers, wishes, and groups whose owner is gone.

use super::{Action, Machine, PLACES, Timing, place};
use crate::command::{Command, Outcome, Step};
use crate::packet::Packet;
use crate::planted::{Bug, planted};
use crate::state::{ClusterState, GroupId, GroupState, WitnessKind, WitnessPlace};
use daruma_quorum::{
    Ballot, MemberId, Members, Message, Role, Situation, Version, WITNESS, Witness, WitnessRules,
    wanted_votes,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Rounds whose answers are waited for.
const ROUNDS_MAX: usize = 32;
/// Questions for leases that wait for a round.
const LEASES_MAX: usize = 64;
/// Wishes that wait for each other.
const WISHES_MAX: usize = 256;
/// A member that lacks the present configuration is not told more often.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// A round may begin so soon after another, where somebody waits for one.
const ROUND_MIN: Duration = Duration::from_millis(20);

pub(super) struct Lead {
    pub since: Duration,
    rounds: VecDeque<Round>,
    seq: u64,
    round_at: Option<Duration>,
    /// When the last round that a quorum answered began.
    confirmed: Duration,
    peers: [Peer; PLACES],
    leases: VecDeque<LeaseWait>,
    /// When each member was granted a lease last.
    granted: [Option<Duration>; PLACES],
    /// Owners whose groups are being moved.
    denied: Members,
    /// The owner from whom an administrator takes a group.
    taken_from: Members,
    /// What has settled last under this lead.
    base: Option<Arc<ClusterState>>,
    wishes: VecDeque<Wish>,
    proposed_at: Duration,
    repeated_at: Duration,
    pub witness_read: Duration,
    /// The witness is to lose its vote, as another shall take its place.
    witness_goes: bool,
}

struct Round {
    seq: u64,
    at: Duration,
    ballot: Ballot,
    old: Members,
    new: Members,
    settled: bool,
    acks: Members,
}

/// What a member says of itself in each round.
pub(super) struct Told {
    pub holds: (Version, bool),
    pub leaving: bool,
    pub reaches_witness: Option<bool>,
}

#[derive(Clone, Copy, Default)]
struct Peer {
    /// Answers without a pause since then.
    up_since: Option<Duration>,
    holds: Option<(Version, bool)>,
    leaving: bool,
    reaches_witness: Option<bool>,
    told: Option<Duration>,
}

struct LeaseWait {
    from: MemberId,
    seq: u64,
    owned: Vec<(GroupId, u64)>,
    at: Duration,
}

struct Wish {
    from: MemberId,
    id: u64,
    command: Command,
    until: Duration,
}

impl Lead {
    pub(super) fn new(now: Duration) -> Lead {
        Lead {
            since: now,
            rounds: VecDeque::new(),
            seq: 0,
            round_at: None,
            confirmed: now,
            peers: [Peer::default(); PLACES],
            leases: VecDeque::new(),
            granted: [None; PLACES],
            denied: Members::NONE,
            taken_from: Members::NONE,
            base: None,
            wishes: VecDeque::new(),
            proposed_at: now,
            repeated_at: now,
            witness_read: Duration::ZERO,
            witness_goes: false,
        }
    }

    pub(super) fn is_settled_once(&self) -> bool {
        self.base.is_some()
    }

    /// Is the lead young, does anybody wait for what this leader does, or does it hear of no quorum?
    pub(super) fn is_under_way(&self, now: Duration, timing: &Timing) -> bool {
        let moves = self.denied.union(self.taken_from) != Members::NONE;
        let waits = !self.leases.is_empty() || !self.wishes.is_empty();
        let begins = self.base.is_none() || self.since + timing.fence() > now;
        begins || moves || waits || self.confirmed + timing.suspicion <= now
    }

    /// When the next round begins that nobody waits for.
    pub(super) fn next_round(&self, every: Duration) -> Duration {
        self.round_at.map_or(Duration::ZERO, |at| at + every)
    }

    /// A leader may go when those who elect the next one know that it left.
    pub(super) fn has_left(&self, machine: &Machine, agreed: bool) -> Option<bool> {
        let register = machine.node.register();
        let votes = register.held.new;
        if agreed {
            let told = votes.iter().filter(|m| {
                *m == WITNESS || self.peers[place(*m)].holds == Some((register.held.version, true))
            });
            let told: Members = told.collect();
            return told.is_majority_of(votes).then_some(true);
        }
        let cannot = register.settled
            && machine.leaving
            && self.base.is_some()
            && machine.wanted(&machine.situation()).is_none();
        cannot.then_some(false)
    }

    pub(super) fn witness_answered(&mut self, asked: Duration, ballot: Ballot) {
        for round in &mut self.rounds {
            if round.at <= asked && ballot <= round.ballot {
                round.acks = round.acks.with(WITNESS);
            }
        }
    }
}

impl Round {
    fn has_quorum(&self) -> bool {
        let old = self.settled || self.acks.is_majority_of(self.old);
        old && self.acks.is_majority_of(self.new)
    }
}

impl Machine {
    /// Everything that a leader does as time goes by.
    pub(super) fn lead_on(&mut self) {
        self.end_without_quorum();
        let Some(mut lead) = self.lead.take() else {
            return;
        };
        if self.watch_witness(&lead) {
            lead.witness_read = self.now;
            self.watch.look();
        }
        let every = match lead.leases.is_empty() {
            true => self.timing.round() / 2,
            false => ROUND_MIN,
        };
        if lead.round_at.is_none_or(|at| at + every <= self.now) {
            self.begin_round(&mut lead);
        }
        self.lead = Some(lead);
        self.confirm_rounds();
        self.repeat();
        self.carry_out_wishes();
        self.follow_votes();
        self.move_groups();
        self.remove_gone();
    }

    /// Nobody may be kept from electing by a leader that can do nothing.
    fn end_without_quorum(&mut self) {
        let Some(lead) = &self.lead else { return };
        let register = self.node.register();
        let lost =
            lead.confirmed + self.timing.fence() <= self.now && !planted(Bug::LeadsWithoutQuorum);
        // Votes moved away from the leader, and those who have them know.
        let has_no_vote = register.settled
            && !register.held.new.contains(self.me())
            && lead.has_left(self, true) == Some(true)
            && !self.leaving;
        if lost || has_no_vote {
            self.node.restart();
            self.follow_role();
        }
    }

    pub(super) fn lose_lead(&mut self) {
        let Some(lead) = self.lead.take() else { return };
        for wish in lead.wishes {
            if wish.command.is_said_again() {
                continue;
            }
            let outcome = Outcome::Unknown("the leader has lost the lead".into());
            self.tell_outcome(wish.from, wish.id, outcome);
        }
        self.wait_for_leader();
    }

    fn begin_round(&mut self, lead: &mut Lead) {
        let register = self.node.register();
        let ballot = register.ballot;
        lead.seq += 1;
        lead.round_at = Some(self.now);
        if lead.rounds.len() >= ROUNDS_MAX {
            lead.rounds.pop_front();
        }
        let mut acks = Members::NONE.with(self.me());
        if planted(Bug::ConfirmWithoutRound) {
            acks = register.held.voters(register.settled);
        }
        lead.rounds.push_back(Round {
            seq: lead.seq,
            at: self.now,
            ballot,
            old: register.held.old,
            new: register.held.new,
            settled: register.settled,
            acks,
        });
        let seq = lead.seq;
        self.send_all(&Packet::Round { ballot, seq });
    }

    /// A leader asks whether anybody knows of a later one.
    pub(super) fn take_round(&mut self, from: MemberId, ballot: Ballot, seq: u64) {
        let known = self.node.register().ballot;
        if ballot < known {
            self.send(from, Packet::Core(Message::Outdated { ballot: known }));
            return;
        }
        self.hear_ballot(ballot);
        self.hear_leader(from);
        let register = self.node.register();
        let answer = Packet::Rounded {
            ballot,
            seq,
            version: register.held.version,
            settled: register.settled,
            leaving: self.leaving,
            reaches_witness: self.watch.reaches(),
        };
        self.send(from, answer);
    }

    pub(super) fn take_rounded(&mut self, from: MemberId, ballot: Ballot, seq: u64, told: &Told) {
        let (now, holds) = (self.now, told.holds);
        let Some(lead) = &mut self.lead else { return };
        let peer = &mut lead.peers[place(from)];
        peer.up_since.get_or_insert(now);
        peer.holds = Some(holds);
        peer.leaving = told.leaving;
        peer.reaches_witness = told.reaches_witness;
        let rounds = lead.rounds.iter_mut();
        rounds
            .filter(|r| r.seq == seq && r.ballot == ballot)
            .for_each(|r| r.acks = r.acks.with(from));
        let register = self.node.register();
        let knows = holds == (register.held.version, register.settled);
        if !knows && peer.told.is_none_or(|at| at + TELL_EVERY <= now) {
            peer.told = Some(now);
            let put = Message::Put {
                configuration: register.held.clone(),
                settled: register.settled,
            };
            self.send(from, Packet::Core(put));
        }
        self.confirm_rounds();
    }

    pub(super) fn confirm_rounds(&mut self) {
        let Some(lead) = &mut self.lead else { return };
        while let Some(at) = lead.rounds.iter().position(Round::has_quorum) {
            let begun = lead.rounds.drain(..=at).next_back();
            lead.confirmed = begun.map_or(lead.confirmed, |r| r.at.max(lead.confirmed));
        }
        let confirmed = lead.confirmed;
        let (served, waiting) = std::mem::take(&mut lead.leases)
            .into_iter()
            .partition(|l: &LeaseWait| l.at <= confirmed);
        lead.leases = waiting;
        self.grant(served);
    }

    // --- leases

    pub(super) fn lease_asked(&mut self, from: MemberId, seq: u64, owned: Vec<(GroupId, u64)>) {
        let now = self.now;
        let Some(lead) = &mut self.lead else { return };
        if lead.leases.len() >= LEASES_MAX {
            lead.leases.pop_front();
        }
        lead.leases.push_back(LeaseWait {
            from,
            seq,
            owned,
            at: now,
        });
        if lead.round_at.is_none_or(|at| at + ROUND_MIN <= now)
            && let Some(mut lead) = self.lead.take()
        {
            self.begin_round(&mut lead);
            self.lead = Some(lead);
            self.confirm_rounds();
        }
    }

    fn grant(&mut self, served: VecDeque<LeaseWait>) {
        for ask in served {
            let now = self.now;
            let held = self.state.clone();
            let Some(lead) = &mut self.lead else { return };
            let Some(base) = &lead.base else { continue };
            let is_owner = |state: &ClusterState, group: &GroupId, epoch: u64| {
                let found = state.group(group);
                found.is_some_and(|g| g.epoch == epoch && g.owner == Some(ask.from.number()))
            };
            let owns = ask
                .owned
                .iter()
                .all(|(g, e)| is_owner(base, g, *e) && is_owner(&held, g, *e));
            if !owns || lead.denied.union(lead.taken_from).contains(ask.from) {
                continue;
            }
            lead.granted[place(ask.from)] = Some(now);
            match ask.from == self.me() {
                true => self.take_lease(ask.seq),
                false => self.send(ask.from, Packet::LeaseOk { seq: ask.seq }),
            }
        }
    }

    // --- votes

    pub(super) fn settled(&mut self) {
        let state = self.state.clone();
        if let Some(lead) = &mut self.lead {
            lead.base = Some(state);
        }
    }

    /// What the leader sees.
    pub(super) fn situation(&self) -> Situation {
        let register = self.node.register();
        let votes = match register.settled {
            true => register.held.new,
            false => register.held.old,
        };
        let state = self.base();
        let leaving = self.leaving_nodes();
        let lead = self.lead.as_ref();
        let goes = lead.is_some_and(|l| l.witness_goes);
        Situation {
            // Who goes for good gets no vote back while that waits to settle: those who stay would need it.
            weighted: state.weighted().difference(self.state.gone()),
            reachable: self.reachable(votes),
            left: state.left().difference(self.returned()).union(leaving),
            votes,
            leader: self.me(),
            witness: match self.witness() {
                Witness::Usable if goes => Witness::Failed,
                witness => witness,
            },
            dynamic_quorum: state.dynamic_quorum,
            lower_priority: state.lower_priority.and_then(MemberId::node),
            rules: match state.windows_rules {
                true => WitnessRules::Windows,
                false => WitnessRules::CleanLeave,
            },
        }
    }

    /// What has settled last; before anything has, what is held.
    pub(super) fn base(&self) -> Arc<ClusterState> {
        let base = self.lead.as_ref().and_then(|l| l.base.clone());
        base.unwrap_or_else(|| self.state.clone())
    }

    /// Nodes that count as there: with a vote as long as they are not silent, without one after they have been there for a while.
    fn reachable(&self, votes: Members) -> Members {
        let Some(lead) = &self.lead else {
            return self.present(self.timing.suspicion);
        };
        let begins = lead.since + self.timing.suspicion > self.now;
        let there = |m: &MemberId| {
            let heard = self.has_been_heard(*m, self.timing.suspicion);
            match votes.contains(*m) {
                true => heard || begins,
                false => heard && self.is_steady(*m),
            }
        };
        let others = self.base().members().without(self.me());
        let there: Members = others.iter().filter(there).collect();
        there.with(self.me())
    }

    fn is_steady(&self, member: MemberId) -> bool {
        let Some(lead) = &self.lead else { return false };
        let peer = &lead.peers[place(member)];
        let held = self.node.register().held.version;
        let is_current = peer.holds.is_some_and(|(version, _)| version == held);
        let since = peer.up_since;
        is_current && since.is_some_and(|at| at + self.timing.restore <= self.now)
    }

    /// Is the witness of no use but to this leader? Then whoever leads next would have it against them.
    pub(super) fn has_witness_alone(&self) -> bool {
        let Some(lead) = &self.lead else { return false };
        let present = self.present(self.timing.suspicion);
        let base = self.base();
        // One whose vote went because of this still counts: or the vote would come and go without end.
        let others = present.without(self.me()).intersection(base.weighted());
        let mut others = others.difference(base.left()).iter().peekable();
        let lacks = |m: MemberId| lead.peers[place(m)].reaches_witness == Some(false);
        // Where nothing can be agreed on without it, it is of use.
        present.is_majority_of(self.votes()) && others.peek().is_some() && others.all(lacks)
    }

    fn leaving_nodes(&self) -> Members {
        let Some(lead) = &self.lead else {
            return Members::NONE;
        };
        let leaving = |m: &MemberId| {
            let peer = lead.peers[place(*m)].leaving;
            (peer && *m != self.me()) || (self.leaving && *m == self.me())
        };
        self.base().members().iter().filter(leaving).collect()
    }

    /// Nodes that left, and are there again.
    fn returned(&self) -> Members {
        let left = self.base().left();
        let back = |m: &MemberId| match *m == self.me() {
            true => !self.leaving,
            false => {
                let leaving = self
                    .lead
                    .as_ref()
                    .is_some_and(|l| l.peers[place(*m)].leaving);
                let heard = self.has_been_heard(*m, self.timing.suspicion);
                !leaving && heard && self.is_steady(*m)
            }
        };
        left.iter().filter(back).collect()
    }

    /// The votes to propose; `None` while nothing that would be agreed on is any better.
    pub(super) fn wanted(&self, s: &Situation) -> Option<Members> {
        let has_quorum = s.answering().is_majority_of(s.votes);
        wanted_votes(s).filter(|_| has_quorum)
    }

    fn follow_votes(&mut self) {
        self.forget_silent();
        let Some(lead) = &self.lead else { return };
        let register = self.node.register();
        let Role::Leader { inherited, .. } = self.node.role() else {
            return;
        };
        if !register.settled && (*inherited || lead.proposed_at + self.timing.suspicion > self.now)
        {
            return;
        }
        let s = self.situation();
        let Some(votes) = self.wanted(&s) else { return };
        // While something waits to settle, only other votes may help it.
        let mut state = match register.settled {
            true => (*self.base()).clone(),
            false => (*self.state).clone(),
        };
        let returned = self.returned();
        for node in &mut state.nodes {
            let id = MemberId::node(node.number);
            let left = id.is_some_and(|m| s.left.contains(m) && !returned.contains(m));
            // Who is being evicted stays as it is.
            node.left = left || (node.left && !node.weight);
        }
        if votes != register.held.new || state != *self.state {
            self.propose(votes, &state);
        }
    }

    /// Whoever was silent has to be steady anew.
    fn forget_silent(&mut self) {
        let members = self.state.members();
        let silent = |m: &MemberId| !self.has_been_heard(*m, self.timing.suspicion);
        let silent: Members = members.without(self.me()).iter().filter(silent).collect();
        if let Some(lead) = &mut self.lead {
            for member in silent.iter() {
                let peer = &mut lead.peers[place(member)];
                (peer.up_since, peer.leaving) = (None, false);
            }
        }
    }

    fn propose(&mut self, votes: Members, state: &ClusterState) -> bool {
        let body = state.encode();
        if ClusterState::decode(&body).is_none() {
            self.out.push(Action::Note(
                "a state of the cluster that breaks a bound was not proposed.".into(),
            ));
            return false;
        }
        let Some(outputs) = self.node.propose(votes, body) else {
            return false;
        };
        if let Some(lead) = &mut self.lead {
            lead.proposed_at = self.now;
            if !planted(Bug::RoundsOutliveProposals) {
                lead.rounds.clear();
                lead.round_at = None;
            }
        }
        self.absorb(outputs);
        true
    }

    /// Messages get lost: what has not settled is written again.
    fn repeat(&mut self) {
        let register = self.node.register();
        let Some(lead) = &mut self.lead else { return };
        let again = lead.repeated_at.max(lead.proposed_at) + self.timing.round();
        if register.settled || again > self.now {
            return;
        }
        lead.repeated_at = self.now;
        let outputs = self.node.repeat();
        self.absorb(outputs);
    }

    // --- wishes

    pub(super) fn wished(&mut self, from: MemberId, id: u64, command: Command) {
        if command == Command::Show {
            let view = self.view();
            let text = serde_json::to_string(&view).unwrap_or_default();
            return self.tell_outcome(from, id, Outcome::Shown(text));
        }
        let until = self.now + self.timing.wish_timeout * 9 / 10;
        let Some(lead) = &mut self.lead else {
            let outcome = Outcome::Unknown("the node that was asked does not lead".into());
            return self.tell_outcome(from, id, outcome);
        };
        if lead.wishes.len() >= WISHES_MAX {
            let outcome = Outcome::Refused("too many wishes wait".into());
            return self.tell_outcome(from, id, outcome);
        }
        lead.wishes.push_back(Wish {
            from,
            id,
            command,
            until,
        });
        self.carry_out_wishes();
    }

    fn tell_outcome(&mut self, to: MemberId, id: u64, outcome: Outcome) {
        match to == self.me() {
            true => self.take_outcome(id, outcome),
            false => self.send(to, Packet::Answer { id, outcome }),
        }
    }

    /// One after the other: each is carried out on what the one before has left.
    fn carry_out_wishes(&mut self) {
        loop {
            let Some(lead) = &mut self.lead else { return };
            if lead.base.is_none() {
                return;
            }
            let Some(wish) = lead.wishes.front() else {
                return;
            };
            let (from, id, until) = (wish.from, wish.id, wish.until);
            let outcome = match self.node.register().settled {
                true => self.next_step(),
                false => None,
            };
            let outcome = match outcome {
                None if until <= self.now => {
                    Outcome::Unknown("the cluster has not agreed in time".into())
                }
                None => return,
                Some(outcome) => outcome,
            };
            if let Some(lead) = &mut self.lead {
                lead.wishes.pop_front();
                lead.witness_goes = false;
                lead.taken_from = Members::NONE;
            }
            self.tell_outcome(from, id, outcome);
        }
    }

    /// The next step of the first wish; `Some` when it is done.
    fn next_step(&mut self) -> Option<Outcome> {
        let base = self.base();
        let votes = self.node.register().held.new;
        let wish = self.lead.as_ref()?.wishes.front()?;
        let (from, command) = (wish.from, wish.command.clone());
        if command == Command::MayLeave {
            // Whoever is new in the lead counts all as there, and does not know yet.
            let since = self.lead.as_ref().map(|lead| lead.since);
            if since.is_some_and(|since| since + self.timing.suspicion > self.now) {
                return None;
            }
            return Some(self.may_leave(&base, from, votes));
        }
        if let Command::SetWitness { place: Some(place) } = &command
            && base.witness.as_ref() != Some(place)
        {
            if let Some(why) = why_not(base.witness.as_ref(), place) {
                return Some(Outcome::Refused(why.into()));
            }
            match self.create_witness(place.clone()) {
                Some(Ok(())) => {}
                Some(Err(why)) => return Some(Outcome::Refused(why)),
                None => return None,
            }
        }
        if let Command::Take { group, .. } = &command {
            let owner = base.group(group).and_then(|g| g.owner);
            let owner = owner.and_then(MemberId::node).filter(|o| *o != from);
            if let Some(lead) = &mut self.lead {
                lead.taken_from = owner.map_or(Members::NONE, |o| Members::NONE.with(o));
            }
            if !self.is_fenced(owner) {
                return None;
            }
        }
        let release = match &command {
            Command::Release {
                group, to: None, ..
            } => self.successor(&base, group, from),
            _ => None,
        };
        let command = match (command, release) {
            (Command::Release { group, epoch, .. }, Some(to)) => Command::Release {
                group,
                epoch,
                to: Some(to),
            },
            (command, _) => command,
        };
        match command.step(from, &base, votes) {
            Step::Done
                if command == Command::Leave && (votes.contains(from) || !self.is_known()) =>
            {
                None
            }
            Step::Done => Some(self.done(&command)),
            Step::Refused(why) => Some(Outcome::Refused(why)),
            Step::Wait => {
                if let Some(lead) = &mut self.lead {
                    lead.witness_goes = matches!(command, Command::SetWitness { .. });
                }
                self.follow_votes();
                if planted(Bug::WitnessReplacedInOffice)
                    && let Command::SetWitness { place } = command
                {
                    let mut state = (*base).clone();
                    state.witness = place;
                    self.propose(votes, &state);
                }
                None
            }
            Step::Propose(state) => self.propose_step(votes, &state),
            Step::ProposeVotes(state) => match self.wanted_without(&state) {
                Ok(votes) if planted(Bug::LeftBeforeAgreed) => {
                    self.propose(votes, &state);
                    Some(Outcome::Done)
                }
                Ok(votes) => self.propose_step(votes, &state),
                Err(refused) => Some(refused),
            },
        }
    }

    /// The votes of those who stay.
    fn wanted_without(&self, state: &ClusterState) -> Result<Members, Outcome> {
        let situation = Situation {
            weighted: state.weighted(),
            ..self.situation()
        };
        let no_quorum = || Outcome::Refused("those who stay would have no quorum".into());
        self.wanted(&situation).ok_or_else(no_quorum)
    }

    /// What [`Command::Leave`] would come to, had the node handed its groups over.
    fn may_leave(&self, base: &ClusterState, from: MemberId, votes: Members) -> Outcome {
        let mut then = base.clone();
        for group in &mut then.groups {
            let is_own = group.owner == Some(from.number());
            let to = is_own.then(|| self.successor(base, &group.id, from));
            if let Some(to) = to.flatten() {
                group.pass_to(to);
            }
        }
        match Command::Leave.step(from, &then, votes) {
            Step::Refused(why) => Outcome::Refused(why),
            Step::ProposeVotes(state) => match self.wanted_without(&state) {
                Ok(_) => Outcome::Done,
                Err(refused) => refused,
            },
            // It has left, as far as this leader knows.
            Step::Done | Step::Propose(_) | Step::Wait => Outcome::Done,
        }
    }

    fn propose_step(&mut self, votes: Members, state: &ClusterState) -> Option<Outcome> {
        match self.propose(votes, state) || self.lead.is_none() {
            // One vote may be enough for it.
            true if self.node.register().settled => self.next_step(),
            true => None,
            false => Some(Outcome::Refused(
                "the cluster's state would be too long".into(),
            )),
        }
    }

    /// Do those who elect the next leader know that what is held has settled?
    fn is_known(&self) -> bool {
        let Some(lead) = &self.lead else { return false };
        let register = self.node.register();
        let knows = |m: &MemberId| {
            let holds = lead.peers[place(*m)].holds;
            [self.me(), WITNESS].contains(m) || holds == Some((register.held.version, true))
        };
        let votes = register.held.new;
        let told: Members = votes.iter().filter(knows).collect();
        register.settled && told.is_majority_of(votes)
    }

    /// The record of a new witness is there before anybody counts on it.
    fn create_witness(&mut self, place: WitnessPlace) -> Option<Result<(), String>> {
        match &self.watch.created {
            Some((id, result)) if *id == place.id => return Some(result.clone()),
            _ => {}
        }
        if !self.watch.is_creating(place.id) {
            let mut register = daruma_quorum::Register::new(self.node.register().held.clone());
            register.settled = true;
            self.watch.create(place, register);
        }
        None
    }

    fn done(&self, command: &Command) -> Outcome {
        let Command::AddNode { fingerprint, .. } = command else {
            return Outcome::Done;
        };
        let base = self.base();
        let node = base.nodes.iter().find(|n| n.fingerprint == *fingerprint);
        match node {
            None => Outcome::Unknown("the node is no member".into()),
            Some(node) => {
                let mut w = crate::codec::Writer::default();
                w.configuration(&self.node.register().held);
                Outcome::Added {
                    number: node.number,
                    configuration: w.0,
                }
            }
        }
    }

    // --- groups

    /// Groups whose owner is gone, or never was, get another that has everything.
    fn move_groups(&mut self) {
        let Some(lead) = &self.lead else { return };
        let Some(base) = lead.base.clone().filter(|_| self.node.register().settled) else {
            return;
        };
        let mut denied = Members::NONE;
        let mut moved = None;
        for group in &base.groups {
            let owner = group.owner.and_then(MemberId::node);
            if owner.is_some_and(|o| self.may_stay(&base, o)) {
                continue;
            }
            let from = owner.unwrap_or(WITNESS);
            let Some(to) = self.successor(&base, &group.id, from) else {
                continue;
            };
            denied = owner.map_or(denied, |o| denied.with(o));
            if self.is_fenced(owner) && moved.is_none() {
                moved = Some((group.id, to));
            }
        }
        if let Some(lead) = &mut self.lead {
            // What it was told it could do ends first.
            if !planted(Bug::MoveWithoutWait) {
                lead.denied = denied;
            }
        }
        if let Some((id, to)) = moved {
            let mut state = (*base).clone();
            if let Some(group) = state.group_mut(&id) {
                group.pass_to(to);
            }
            let votes = self.node.register().held.new;
            self.propose(votes, &state);
        }
    }

    /// Nodes that left for good are members until they are silent: their servers have ended them then.
    fn remove_gone(&mut self) {
        let Some(lead) = &self.lead else { return };
        let Some(base) = lead.base.clone().filter(|_| self.node.register().settled) else {
            return;
        };
        if lead.since + self.timing.suspicion > self.now {
            return;
        }
        let votes = self.node.register().held.new;
        let is_silent = |number: u8| {
            let member = MemberId::node(number).filter(|m| *m != self.me() && !votes.contains(*m));
            member.is_some_and(|m| !self.has_been_heard(m, self.timing.suspicion))
        };
        let gone = base.nodes.iter().find(|n| n.gone && is_silent(n.number));
        if let Some(number) = gone.map(|n| n.number) {
            let mut state = (*base).clone();
            state.remove_node(number);
            self.propose(votes, &state);
        }
    }

    fn may_stay(&self, base: &ClusterState, owner: MemberId) -> bool {
        let is_member = base.members().contains(owner);
        let begins = self
            .lead
            .as_ref()
            .is_some_and(|l| l.since + self.timing.suspicion > self.now);
        is_member
            && (owner == self.me() || begins || self.has_been_heard(owner, self.timing.suspicion))
    }

    /// Nobody may act any more by a word of this leader or of one before.
    fn is_fenced(&self, owner: Option<MemberId>) -> bool {
        let Some(lead) = &self.lead else { return false };
        let fence = self.timing.fence();
        let own = lead.since + fence <= self.now || planted(Bug::NewLeaderDoesNotWait);
        let granted = owner.and_then(|o| lead.granted[place(o)]);
        let given = granted.is_none_or(|at| at + fence <= self.now);
        own && (given || planted(Bug::MoveWithoutWait))
    }

    /// The first node to which the group may move, and that is there.
    fn successor(&self, base: &ClusterState, group: &GroupId, from: MemberId) -> Option<u8> {
        let group: &GroupState = base.group(group)?;
        let leaving = self.leaving_nodes();
        let fits = |n: &&u8| {
            let Some(id) = MemberId::node(**n) else {
                return false;
            };
            let there = id == self.me() || self.has_been_heard(id, self.timing.suspicion);
            id != from && there && !leaving.contains(id) && group.in_sync.contains(n)
        };
        group.automatic.iter().find(fits).copied()
    }
}

/// Why there can be no witness in this place.
fn why_not(present: Option<&WitnessPlace>, place: &WitnessPlace) -> Option<&'static str> {
    // A disk has room for one witness: making another there would take the one away that may vote just now.
    let is_taken =
        place.kind() == WitnessKind::Disk && present.is_some_and(|p| p.path == place.path);
    match (is_taken, place.may_hold_a_secret()) {
        (true, _) => {
            Some("this disk is the witness already: take it away with `set-witness none` first")
        }
        (_, true) => Some(
            "the URL is shown to everybody, so no secret may be in it: leave out what '?', '#' and '@' stand beside, and give each server a \
             credential for it (CREATE CREDENTIAL)",
        ),
        _ => None,
    }
}
