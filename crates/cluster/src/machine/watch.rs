//! The witness from a node's side: one question at a time, and how it has been of late.
//!
//! An answer that does not come in time is given up, and what comes after that is not looked at: a witness that hangs is one that fails, and keeps no other
//! from being made in its place. One that is made is asked beside the one that is there.

use super::Machine;
use super::lead::Lead;
use crate::planted::{Bug, planted};
use crate::state::WitnessPlace;
use crate::witness::{Counts, WitnessAsk, WitnessFault, WitnessOp, WitnessView};
use daruma_quorum::{Members, Message, Register, WITNESS, Witness};
use std::time::Duration;

/// Failures closer together than this are flapping.
const FLAP_WITHIN: Duration = Duration::from_secs(60);
/// A node that does not lead looks at the record as often, to know whether it could.
const FOLLOWER_LOOKS: Duration = Duration::from_secs(10);
/// Or as often while it fails.
const FOLLOWER_LOOKS_AGAIN: Duration = Duration::from_secs(2);
/// One that failed once may only have been slow.
const FAILURES_MIN: u32 = 2;

pub(super) struct Watch {
    /// The highest counts of records that were seen.
    pub seen: Counts,
    busy: Option<Busy>,
    /// A witness that is being made.
    creating: Option<Busy>,
    want: Option<Message>,
    create: Option<(WitnessPlace, Register)>,
    /// What became of the last [`WitnessOp::Create`].
    pub created: Option<(u128, Result<(), String>)>,
    look: bool,
    look_at: Option<Duration>,
    next_id: u64,
    /// The witness that the rest is about.
    of: Option<u128>,
    ok_at: Option<Duration>,
    ok_since: Option<Duration>,
    failed_at: Option<Duration>,
    /// Without an answer in between.
    failures: u32,
    /// When a node that does not lead looks next.
    follower_looks_at: Duration,
    /// How long it must answer before it is voted back.
    restore: Duration,
    /// What the log was told last.
    told: Option<WitnessFault>,
}

struct Busy {
    id: u64,
    witness: u128,
    since: Duration,
    is_vote: bool,
}

impl Watch {
    pub(super) fn new(seen: Counts) -> Watch {
        Watch {
            seen,
            busy: None,
            creating: None,
            want: None,
            create: None,
            created: None,
            look: false,
            look_at: None,
            next_id: 1,
            of: None,
            ok_at: None,
            ok_since: None,
            failed_at: None,
            failures: 0,
            follower_looks_at: Duration::ZERO,
            restore: Duration::ZERO,
            told: None,
        }
    }

    fn is_about(&mut self, witness: Option<u128>) {
        if self.of != witness {
            self.of = witness;
            (self.ok_at, self.ok_since, self.failed_at, self.told) = (None, None, None, None);
            self.restore = Duration::ZERO;
            self.failures = 0;
            self.follower_looks_at = Duration::ZERO;
        }
    }

    /// The newest question replaces one that has not left.
    pub(super) fn want(&mut self, message: Message) {
        self.want = Some(message);
    }

    pub(super) fn look(&mut self) {
        self.look = true;
    }

    /// Does this node reach the witness, as far as it has found out?
    pub(super) fn reaches(&self) -> Option<bool> {
        match (self.failures, self.ok_at) {
            (FAILURES_MIN.., _) => Some(false),
            (_, Some(_)) => Some(true),
            (_, None) => None,
        }
    }

    pub(super) fn look_at(&mut self, at: Duration) {
        self.look_at = Some(at);
    }

    /// Is anything but a look at the record waited for, or to be asked at a certain time?
    pub(super) fn is_under_way(&self) -> bool {
        self.want.is_some()
            || self.create.is_some()
            || self.creating.is_some()
            || self.look_at.is_some()
            || self.busy.as_ref().is_some_and(|busy| busy.is_vote)
    }

    pub(super) fn create(&mut self, place: WitnessPlace, register: Register) {
        self.created = None;
        self.create = Some((place, register));
    }

    pub(super) fn is_creating(&self, id: u128) -> bool {
        let asked = self.create.as_ref().is_some_and(|(p, _)| p.id == id);
        asked || self.creating.as_ref().is_some_and(|b| b.witness == id)
    }
}

impl Machine {
    /// The witness as this node sees it now.
    pub(super) fn witness(&self) -> Witness {
        if self.state.witness.is_none() {
            return Witness::None;
        }
        let w = &self.watch;
        let timeout = self.timing.witness_timeout;
        let since = self.lead.as_ref().map(|l| l.since);
        // A leader that has just begun has not asked yet.
        let begins = since.is_some_and(|at| {
            at + timeout > self.now && w.failed_at.is_none_or(|failed| failed < at)
        });
        let has_vote = self.votes().contains(WITNESS);
        let answered = w.ok_at.is_some_and(|at| at + timeout > self.now);
        let answers = answered || (begins && has_vote);
        let is_steady = w.ok_since.is_some_and(|at| at + w.restore <= self.now);
        match answers && (has_vote || is_steady) && !self.has_witness_alone() {
            true => Witness::Usable,
            false => Witness::Failed,
        }
    }

    /// Asks the next thing, if nothing is being asked.
    pub(super) fn ask_witness(&mut self) {
        self.give_up_witness();
        self.ask_to_create();
        let Some(place) = self.state.witness.clone() else {
            self.watch.want = None;
            return;
        };
        self.watch.is_about(Some(place.id));
        if !planted(Bug::WitnessReplacedInOffice) {
            // Of the one before nothing counts any more.
            self.watch.busy.take_if(|b| b.witness != place.id);
        }
        if self.watch.busy.is_some() {
            return;
        }
        if self.watch.look_at.is_some_and(|at| at <= self.now) {
            self.watch.look_at = None;
            self.watch.look = true;
        }
        let op = if let Some(message) = self.watch.want.take().filter(|m| self.is_current(m)) {
            WitnessOp::Exchange(message)
        } else if std::mem::take(&mut self.watch.look) {
            WitnessOp::Look
        } else {
            return;
        };
        self.watch.busy = Some(self.put_to_witness(place, op));
    }

    /// A node that follows a leader finds out whether it reaches the witness: the leader is told with each round.
    pub(super) fn look_as_follower(&mut self) {
        if self.state.witness.is_none()
            || !self.hears_leader()
            || self.now < self.watch.follower_looks_at
        {
            return;
        }
        self.watch.follower_looks_at = self.now + FOLLOWER_LOOKS;
        self.watch.look();
    }

    fn ask_to_create(&mut self) {
        if self.watch.creating.is_some() {
            return;
        }
        if let Some((place, register)) = self.watch.create.take() {
            let asked = self.put_to_witness(place, WitnessOp::Create(register));
            self.watch.creating = Some(asked);
        }
    }

    fn put_to_witness(&mut self, place: WitnessPlace, op: WitnessOp) -> Busy {
        let register = self.node.register();
        let id = self.watch.next_id;
        self.watch.next_id += 1;
        let busy = Busy {
            id,
            witness: place.id,
            since: self.now,
            is_vote: matches!(op, WitnessOp::Exchange(Message::RequestVote { .. })),
        };
        let ask = WitnessAsk {
            id,
            cluster: self.state.id,
            seen: self.watch.seen.highest(place.id),
            place,
            me: self.me(),
            op,
            held: (register.held.version, register.settled),
            alive: self.lead.is_some(),
            office: self.state.witness.as_ref().map(|w| w.id),
        };
        self.out.push(super::Action::Witness(ask));
        busy
    }

    /// What is not answered in time is not waited for any longer.
    fn give_up_witness(&mut self) {
        let now = self.now;
        let late = |asked: &mut Busy, limit: Duration| asked.since + limit <= now;
        let limit = self.timing.witness_timeout;
        let present = self.state.witness.as_ref().map(|w| w.id);
        if let Some(asked) = self.watch.busy.take_if(|b| late(b, limit))
            && present == Some(asked.witness)
        {
            self.witness_failed(WitnessFault::Unknown("no answer in time".into()));
        }
        let limit = self.timing.wish_timeout;
        if let Some(asked) = self.watch.creating.take_if(|b| late(b, limit)) {
            let why = "the new witness does not answer".to_string();
            self.watch.created = Some((asked.witness, Err(why)));
        }
    }

    /// A question of a candidacy or a lead that is over would only disturb.
    fn is_current(&self, message: &Message) -> bool {
        let ballot = self.node.register().ballot;
        match message {
            Message::RequestVote { ballot: asked, .. } => *asked == ballot,
            Message::Put { configuration, .. } => {
                self.lead.is_some() && configuration.version.ballot == ballot
            }
            _ => false,
        }
    }

    pub(super) fn take_witness(&mut self, id: u64, result: Result<WitnessView, WitnessFault>) {
        if let Some(asked) = self.watch.creating.take_if(|b| b.id == id) {
            // Nobody counts on it yet, so nothing of it has to be remembered.
            let created = result.map(|_| ()).map_err(|e| e.to_string());
            self.watch.created = Some((asked.witness, created));
            return;
        }
        let Some(busy) = self.watch.busy.take_if(|b| b.id == id) else {
            return;
        };
        let place = self.state.witness.as_ref().map(|w| w.id);
        if place != Some(busy.witness) && !planted(Bug::WitnessReplacedInOffice) {
            return;
        }
        match result {
            Ok(view) => self.take_view(&busy, view),
            Err(fault) => self.witness_failed(fault),
        }
    }

    fn witness_failed(&mut self, fault: WitnessFault) {
        let w = &mut self.watch;
        if w.ok_since.take().is_some() {
            let flaps = w.failed_at.is_some_and(|at| at + FLAP_WITHIN > self.now);
            w.restore = match flaps {
                true => self.timing.witness_flap,
                false => self.timing.restore,
            };
        }
        w.failed_at = Some(self.now);
        w.failures = w.failures.saturating_add(1);
        w.follower_looks_at = w.follower_looks_at.min(self.now + FOLLOWER_LOOKS_AGAIN);
        if !matches!(fault, WitnessFault::Unknown(_)) {
            w.ok_at = None;
        }
        if w.told.as_ref() != Some(&fault) {
            self.out.push(super::Action::Note(format!("{fault}.")));
            w.told = Some(fault);
        }
    }

    fn witness_is_well(&mut self) {
        let w = &mut self.watch;
        w.ok_at = Some(self.now);
        w.failures = 0;
        w.ok_since.get_or_insert(self.now);
        if w.told.take().is_some() {
            let again = "the witness answers again.".to_string();
            self.out.push(super::Action::Note(again));
        }
    }

    fn take_view(&mut self, busy: &Busy, view: WitnessView) {
        if self.watch.seen.note(busy.witness, view.n) {
            self.out.push(super::Action::Persist);
        }
        match busy.since + self.timing.witness_timeout / 2 > self.now {
            true => self.witness_is_well(),
            false => self.witness_failed(WitnessFault::Unknown("its answers take too long".into())),
        }
        if let Some(newer) = &view.newer {
            self.adopt(newer);
        }
        match &view.answer {
            Some(answer) => {
                let outputs = self.node.receive(WITNESS, answer);
                self.absorb(outputs);
            }
            None if self.lead.is_some() => self.hear_ballot(view.ballot),
            None => {}
        }
        if let Some(lead) = &mut self.lead {
            lead.witness_answered(busy.since, view.ballot);
            self.confirm_rounds();
            self.keep_witness_current(&view);
        } else if !busy.is_vote {
            self.take_witness_pre_vote(busy.since, view.ballot, view.version, view.alive);
        }
    }

    /// A witness without a vote is told as well: who comes back alone finds what is newest.
    fn keep_witness_current(&mut self, view: &WitnessView) {
        let register = self.node.register();
        let knows = (view.version, view.settled) == (register.held.version, register.settled);
        if !knows && self.lead.is_some() && self.watch.want.is_none() {
            self.watch.want = Some(Message::Put {
                configuration: register.held.clone(),
                settled: register.settled,
            });
        }
    }

    /// How often a leader reads the record: for each round if its vote may be needed, else to see whether it is there.
    pub(super) fn watch_witness(&mut self, lead: &Lead) -> bool {
        let by_nodes = self.present(self.timing.suspicion / 2);
        let register = self.node.register();
        let needed =
            self.votes().contains(WITNESS) && !register.held.has_quorum(by_nodes, register.settled);
        let every = match needed {
            true => self.timing.round(),
            false => self.timing.lease.min(self.timing.witness_timeout / 2),
        };
        lead.witness_read + every <= self.now
    }

    /// Nodes that were heard of within so long, this one among them.
    pub(super) fn present(&self, within: Duration) -> Members {
        let others = self.state.members().without(self.me());
        let heard = others.iter().filter(|m| self.has_been_heard(*m, within));
        heard.collect::<Members>().with(self.me())
    }
}
