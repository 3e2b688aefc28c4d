//! The witness from a node's side: one question at a time, and how it has been of late.

use super::Machine;
use super::lead::Lead;
use crate::planted::{Bug, planted};
use crate::state::WitnessPlace;
use crate::witness::{WitnessAsk, WitnessFault, WitnessOp, WitnessView};
use daruma_quorum::{Members, Message, Register, WITNESS, Witness};
use std::time::Duration;

/// Failures closer together than this are flapping.
const FLAP_WITHIN: Duration = Duration::from_secs(60);

pub(super) struct Watch {
    /// Witness and count of its newest record that was seen.
    pub seen: Option<(u128, u64)>,
    busy: Option<Busy>,
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
    /// How long it must answer before it is voted back.
    restore: Duration,
    /// What the log was told last.
    told: Option<WitnessFault>,
}

struct Busy {
    id: u64,
    witness: u128,
    since: Duration,
    is_create: bool,
    is_vote: bool,
}

impl Watch {
    pub(super) fn new(seen: Option<(u128, u64)>, _now: Duration) -> Watch {
        Watch {
            seen,
            busy: None,
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
            restore: Duration::ZERO,
            told: None,
        }
    }

    fn is_about(&mut self, witness: Option<u128>) {
        if self.of != witness {
            self.of = witness;
            (self.ok_at, self.ok_since, self.failed_at, self.told) = (None, None, None, None);
            self.restore = Duration::ZERO;
        }
    }

    /// The newest question replaces one that has not left.
    pub(super) fn want(&mut self, message: Message) {
        self.want = Some(message);
    }

    pub(super) fn look(&mut self) {
        self.look = true;
    }

    pub(super) fn look_at(&mut self, at: Duration) {
        self.look_at = Some(at);
    }

    /// Is anything but a look at the record waited for, or to be asked at a certain time?
    pub(super) fn is_under_way(&self) -> bool {
        let is_more = |busy: &Busy| busy.is_create || busy.is_vote;
        self.want.is_some()
            || self.create.is_some()
            || self.look_at.is_some()
            || self.busy.as_ref().is_some_and(is_more)
    }

    pub(super) fn create(&mut self, place: WitnessPlace, register: Register) {
        self.created = None;
        self.create = Some((place, register));
    }

    pub(super) fn is_creating(&self, id: u128) -> bool {
        let asked = self.create.as_ref().is_some_and(|(p, _)| p.id == id);
        asked
            || self
                .busy
                .as_ref()
                .is_some_and(|b| b.is_create && b.witness == id)
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
        match answers && (has_vote || is_steady) {
            true => Witness::Usable,
            false => Witness::Failed,
        }
    }

    /// Asks the next thing, if nothing is being asked.
    pub(super) fn ask_witness(&mut self) {
        let Some(state_place) = self.place_to_ask() else {
            self.watch.want = None;
            return;
        };
        self.watch
            .is_about(self.state.witness.as_ref().map(|w| w.id));
        if self.watch.busy.is_some() {
            return;
        }
        if self.watch.look_at.is_some_and(|at| at <= self.now) {
            self.watch.look_at = None;
            self.watch.look = true;
        }
        let (place, op) = if let Some((place, register)) = self.watch.create.take() {
            (place, WitnessOp::Create(register))
        } else if let Some(message) = self.watch.want.take().filter(|m| self.is_current(m)) {
            (state_place, WitnessOp::Exchange(message))
        } else if std::mem::take(&mut self.watch.look) {
            (state_place, WitnessOp::Look)
        } else {
            return;
        };
        let seen = self.watch.seen.filter(|(id, _)| *id == place.id);
        let register = self.node.register();
        let id = self.watch.next_id;
        self.watch.next_id += 1;
        self.watch.busy = Some(Busy {
            id,
            witness: place.id,
            since: self.now,
            is_create: matches!(op, WitnessOp::Create(_)),
            is_vote: matches!(op, WitnessOp::Exchange(Message::RequestVote { .. })),
        });
        let ask = WitnessAsk {
            id,
            cluster: self.state.id,
            place,
            me: self.me(),
            op,
            seen: seen.map_or(0, |(_, n)| n),
            held: (register.held.version, register.settled),
            alive: self.lead.is_some(),
        };
        self.out.push(super::Action::Witness(ask));
    }

    fn place_to_ask(&self) -> Option<WitnessPlace> {
        let created = self.watch.create.as_ref().map(|(place, _)| place.clone());
        self.state.witness.clone().or(created)
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
        let Some(busy) = self.watch.busy.take_if(|b| b.id == id) else {
            return;
        };
        if busy.is_create {
            let created = result.as_ref().map(|_| ()).map_err(ToString::to_string);
            self.watch.created = Some((busy.witness, created));
            if let Ok(view) = result {
                self.watch.seen = Some((busy.witness, view.n));
                self.out.push(super::Action::Persist);
            }
            return;
        }
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
        if !matches!(fault, WitnessFault::Unknown(_)) {
            w.ok_at = None;
        }
        if w.told.as_ref() != Some(&fault) {
            self.out.push(super::Action::Note(format!("{fault}.")));
            w.told = Some(fault);
        }
    }

    fn take_view(&mut self, busy: &Busy, view: WitnessView) {
        let seen = (busy.witness, view.n);
        if self.watch.seen != Some(seen) {
            self.watch.seen = Some(seen);
            self.out.push(super::Action::Persist);
        }
        let w = &mut self.watch;
        w.ok_at = Some(self.now);
        w.ok_since.get_or_insert(self.now);
        if w.told.take().is_some() {
            self.out
                .push(super::Action::Note("the witness answers again.".into()));
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
            self.take_witness_pre_vote(view.ballot, view.version, view.alive);
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
            false => self.timing.lease,
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
