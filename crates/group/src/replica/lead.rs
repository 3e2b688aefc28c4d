//! A database that this node leads.
//!
//! A thread of its own hears that the log has moved, and looks at the clocks. Blocks are pulled by the writers of the links
//! ([`Shipment`]); acknowledgements come on their readers.

use super::authority::Authority;
use super::log::{Feed, LogBlock, PrimaryLog};
use super::rate::Rate;
use super::standing::StandingFile;
use crate::commit::{
    Clocks, EpochId, Fork, Primary, PrimaryInput, PrimaryOutput, Record, ReplicaId, Replicas,
    Reply, Request, Role, Rules, SyncState,
};
use crate::compress::{Choice, Mode, ModeOf, PackCache};
use crate::transport::{Link, LinkError, Pull, Source};
use crate::wire::{Ack, Block, Codec, LeadTold, Message};
use daruma_base::Lsn;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Blocks packed for one replica are kept for the others, up to so many bytes.
const PACKED_BYTES_MAX: usize = 4 << 20;
/// `quorum` gets a message of its own when no block has carried it for so long.
const QUORUM_SILENCE: Duration = Duration::from_millis(1);
/// Clocks are looked at so often.
const TICK: Duration = Duration::from_millis(100);

/// See the module.
pub struct Led {
    shared: Arc<Shared>,
    session_timeout: Duration,
    /// Beside the file.
    authority: Option<Arc<dyn Authority>>,
    state: Mutex<State>,
    began: Instant,
}

struct Shared {
    database: u128,
    log: Arc<dyn PrimaryLog>,
    mode_of: ModeOf,
    cache: PackCache,
    lead: LeadTold,
    quorum: AtomicU64,
    bell: Arc<Bell>,
}

#[derive(Default)]
struct Bell {
    is_rung: Mutex<bool>,
    rung: Condvar,
    stopped: AtomicBool,
}

impl Bell {
    fn ring(&self) {
        *self.is_rung.lock() = true;
        self.rung.notify_one();
    }

    fn wait(&self, limit: Duration) {
        let mut is_rung = self.is_rung.lock();
        if !*is_rung {
            self.rung.wait_for(&mut is_rung, limit);
        }
        *is_rung = false;
    }
}

struct State {
    machine: Primary,
    file: StandingFile,
    clocks: Vec<Clocks>,
    links: Vec<(ReplicaId, Arc<Link>)>,
    shipments: Vec<Arc<Shipment>>,
    /// Since this node began to lead, over all connections.
    shipped: Vec<(ReplicaId, Arc<Mutex<ShipmentCounts>>)>,
    /// To whom nothing is shipped, by order of an administrator here.
    resting_here: Replicas,
    /// The same, by order of one there.
    resting_there: Replicas,
    last: Vec<(ReplicaId, Heard)>,
    rates: Vec<(ReplicaId, Rates)>,
}

/// How fast a replica is shipped to, and how fast it redoes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Of the log as it is, not as it is packed.
    pub send: Rate,
    /// As it says.
    pub redo: Rate,
}

impl State {
    /// The connection on which a replica counts.
    fn link_of(&self, replica: ReplicaId) -> Option<&Arc<Link>> {
        let link = self.links.iter().find(|(r, _)| *r == replica);
        link.map(|(_, link)| link)
    }

    /// What was shipped to a replica, to be counted on.
    fn shipped_to(&mut self, replica: ReplicaId) -> Arc<Mutex<ShipmentCounts>> {
        let known = self.shipped.iter().find(|(r, _)| *r == replica);
        if let Some((_, counts)) = known {
            return counts.clone();
        }
        let counts = Arc::default();
        self.shipped.push((replica, Arc::clone(&counts)));
        counts
    }

    fn counts(&self, link: &Arc<Link>) -> bool {
        let current = self.link_of(link.peer().replica);
        current.is_some_and(|current| Arc::ptr_eq(current, link))
    }

    fn note_rates(&mut self, now_ms: u64) {
        let rates = self.clocks.iter().map(|clocks| {
            let replica = clocks.replica();
            let known = self.rates.iter().find(|(r, _)| *r == replica);
            let mut rates = known.map(|(_, rates)| *rates).unwrap_or_default();
            if let Some(shipment) = self.shipments.iter().find(|s| s.replica == replica) {
                rates
                    .send
                    .note(Lsn(shipment.sent.load(Ordering::Acquire)), now_ms);
            }
            if let Some((_, heard)) = self.last.iter().find(|(r, _)| *r == replica) {
                rates.redo.note(heard.ack.applied, now_ms);
            }
            (replica, rates)
        });
        self.rates = rates.collect();
    }

    /// Is the replica one that gets the log?
    fn feeds(&self, replica: ReplicaId) -> bool {
        self.clocks.iter().any(|c| c.replica() == replica)
    }

    fn resting(&self) -> Replicas {
        self.resting_here.union(self.resting_there)
    }

    /// Replicas of which a clock has run out, or whose log is gone here.
    fn lost(&mut self, now_ms: u64) -> Vec<ReplicaId> {
        let State {
            clocks,
            shipments,
            machine,
            links,
            ..
        } = self;
        for clocks in clocks.iter_mut() {
            let replica = clocks.replica();
            if let Some((_, link)) = links.iter().find(|(r, _)| *r == replica) {
                clocks.heard(now_ms.saturating_sub(link.silent_ms()));
            }
            if let Some(shipment) = shipments.iter().find(|s| s.replica == replica) {
                let sent = Lsn(shipment.sent.load(Ordering::Acquire));
                clocks.progress(sent, machine.ack(replica).unwrap_or(sent), now_ms);
            }
        }
        let expired = clocks
            .iter()
            .filter(|c| c.expired(now_ms).is_some())
            .map(Clocks::replica);
        let failed = shipments
            .iter()
            .filter(|s| s.failed.load(Ordering::Acquire));
        expired.chain(failed.map(|s| s.replica)).collect()
    }
}

/// What a step leaves to be done once the latch is free: a commit's end may come back here.
#[derive(Default)]
struct Done {
    raised: Option<Lsn>,
    fenced: bool,
}

impl Done {
    fn and(&mut self, next: Done) {
        self.raised = next.raised.or(self.raised);
        self.fenced |= next.fenced;
    }
}

fn changed(set: Replicas, replica: ReplicaId, is_in: bool) -> Replicas {
    match is_in {
        true => set.with(replica),
        false => set.without(replica),
    }
}

/// What a replica last said of itself, and when (time since this node began to lead).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// What it has.
    pub ack: Ack,
    /// When it said so.
    pub at: Duration,
}

/// How far a replica is, for the views.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Which.
    pub replica: ReplicaId,
    /// A connection stands.
    pub is_connected: bool,
    /// See [`SyncState`].
    pub sync: SyncState,
    /// Commits wait for it.
    pub is_participant: bool,
    /// Nothing is shipped to it by order of an administrator.
    pub rests: bool,
    /// End of what was sent to it.
    pub sent: Option<Lsn>,
    /// What it last said.
    pub heard: Option<Heard>,
    /// What was shipped since this node began to lead.
    pub counts: ShipmentCounts,
    /// How fast.
    pub rates: Rates,
}

impl Led {
    /// Begins to lead: the file's record names this node. `opens_at` is what `S` must have before sessions come. An authority is there if
    /// the rules say that the right to lead is a lease.
    ///
    /// `acknowledged`: what is known to have been acknowledged, where this reign may yet come to nothing, so that no other's pages have more
    /// until something is raised. `None`: it counts from here on, with all that is hard here.
    pub fn begin(
        database: u128,
        me: ReplicaId,
        file: StandingFile,
        log: Arc<dyn PrimaryLog>,
        opens_at: Lsn,
        acknowledged: Option<Lsn>,
        rules: Rules,
        session_timeout: Duration,
        mode_of: ModeOf,
        authority: Option<Arc<dyn Authority>>,
    ) -> io::Result<Arc<Led>> {
        assert_eq!(authority.is_some(), rules.leased, "a lease is somebody's");
        let standing = file.standing().clone();
        let lead = LeadTold {
            epoch: standing.record.epoch,
            history: standing.history,
            record: standing.record,
        };
        let began = Instant::now();
        let timeout_ms = u64::try_from(session_timeout.as_millis()).unwrap_or(u64::MAX);
        let clocks = rules
            .replicas
            .iter()
            .map(|c| Clocks::new(c.replica, timeout_ms, 0))
            .collect();
        let hard = log.wait_for_participants();
        let quorum = acknowledged.map_or(hard, |known| known.min(hard));
        let machine = Primary::new(me, standing.record, opens_at, quorum, rules);
        let led = Arc::new(Led {
            shared: Arc::new(Shared {
                database,
                log,
                mode_of,
                cache: PackCache::new(PACKED_BYTES_MAX),
                lead,
                quorum: AtomicU64::new(quorum.0),
                bell: Arc::default(),
            }),
            session_timeout,
            authority,
            state: Mutex::new(State {
                machine,
                file,
                clocks,
                links: Vec::new(),
                shipments: Vec::new(),
                shipped: Vec::new(),
                resting_here: Replicas::NONE,
                resting_there: Replicas::NONE,
                last: Vec::new(),
                rates: Vec::new(),
            }),
            began,
        });
        led.shared.bell.ring();
        let watched = led.clone();
        std::thread::Builder::new()
            .name("group lead".into())
            .spawn(move || watched.watch())?;
        Ok(led)
    }

    /// The log has moved: somebody looks. For a log that is not fed yet; a feed rings by itself.
    pub fn log_moved(&self) {
        self.shared.bell.ring();
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.shared.bell.stopped.store(true, Ordering::Release);
        self.shared.bell.ring();
        let state = self.state.lock();
        for shipment in &state.shipments {
            shipment.link.remove(&(shipment.clone() as Arc<dyn Source>));
        }
    }

    /// Standing.
    pub fn role(&self) -> Role {
        self.state.lock().machine.role()
    }

    /// What the views show of a replica.
    pub fn sync_state(&self, replica: ReplicaId) -> SyncState {
        self.state.lock().machine.sync_state(replica)
    }

    /// Has this replica everything, so that it may take over without a waiting commit being cut off?
    pub fn is_drained_to(&self, replica: ReplicaId) -> bool {
        self.state.lock().machine.is_drained_to(replica)
    }

    /// Hard here and on all participants.
    pub fn quorum(&self) -> Lsn {
        Lsn(self.shared.quorum.load(Ordering::Acquire))
    }

    /// What was shipped to replicas that are shipped to now.
    pub fn shipped(&self) -> Vec<(ReplicaId, ShipmentCounts)> {
        let state = self.state.lock();
        state
            .shipments
            .iter()
            .map(|s| (s.replica, s.counts()))
            .collect()
    }

    /// How far every replica is.
    pub fn progress(&self) -> Vec<Progress> {
        let state = self.state.lock();
        let of = |clocks: &Clocks| {
            let replica = clocks.replica();
            let shipment = state.shipments.iter().find(|s| s.replica == replica);
            Progress {
                replica,
                is_connected: state.links.iter().any(|(r, _)| *r == replica),
                sync: state.machine.sync_state(replica),
                is_participant: state.machine.waited().contains(replica),
                rests: state.resting().contains(replica),
                sent: shipment.map(|s| Lsn(s.sent.load(Ordering::Acquire))),
                heard: state.last.iter().find(|(r, _)| *r == replica).map(|l| l.1),
                counts: (state.shipped.iter().find(|(r, _)| *r == replica))
                    .map(|(_, counts)| *counts.lock())
                    .unwrap_or_default(),
                rates: (state.rates.iter().find(|(r, _)| *r == replica))
                    .map(|(_, rates)| *rates)
                    .unwrap_or_default(),
            }
        };
        state.clocks.iter().map(of).collect()
    }

    /// Time since this node began to lead: the clock of [`Heard`].
    pub fn clock(&self) -> Duration {
        self.began.elapsed()
    }

    /// The judge's record.
    pub fn record(&self) -> Record {
        self.state.lock().machine.record()
    }

    /// The epoch that this node leads, or led.
    pub fn epoch(&self) -> EpochId {
        self.shared.lead.epoch
    }

    /// ALTER AVAILABILITY GROUP.
    pub fn configure(&self, rules: Rules) {
        let now = self.now_ms();
        let timeout_ms = u64::try_from(self.session_timeout.as_millis()).unwrap_or(u64::MAX);
        let gone: Vec<ReplicaId> = {
            let mut state = self.state.lock();
            let stays = |r: ReplicaId| rules.replicas.iter().any(|c| c.replica == r);
            let (stay, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut state.clocks)
                .into_iter()
                .partition(|c| stays(c.replica()));
            state.clocks = stay;
            state.shipped.retain(|(r, _)| stays(*r));
            for config in &rules.replicas {
                if !state.clocks.iter().any(|c| c.replica() == config.replica) {
                    let clocks = Clocks::new(config.replica, timeout_ms, now);
                    state.clocks.push(clocks);
                }
            }
            gone.iter().map(Clocks::replica).collect()
        };
        self.step(PrimaryInput::Configure(rules));
        for replica in gone {
            let links = self.state.lock().links.clone();
            let of_it = links.iter().filter(|(r, _)| *r == replica);
            of_it.for_each(|(_, link)| self.unship(link));
            self.shared.log.forget(replica);
        }
    }

    /// Nothing more is acknowledged: the cluster has another owner.
    pub fn dismiss(&self) {
        self.step(PrimaryInput::Dismiss);
    }

    /// The judge's record could not be written, perhaps: what was asked is asked again.
    pub fn ask_again(&self) {
        self.step(PrimaryInput::AskAgain);
    }

    /// SET HADR SUSPEND and RESUME, of one replica.
    pub fn rest(&self, replica: ReplicaId, rests: bool) {
        self.rest_by(replica, |state| {
            state.resting_here = changed(state.resting_here, replica, rests);
        });
    }

    fn rest_by(&self, replica: ReplicaId, change: impl FnOnce(&mut State)) {
        let (before, after, link) = {
            let mut state = self.state.lock();
            let before = state.resting().contains(replica);
            change(&mut state);
            let link = state.link_of(replica).cloned();
            (before, state.resting().contains(replica), link)
        };
        match (before, after) {
            (false, true) => {
                self.step(PrimaryInput::Suspend(replica));
                link.iter().for_each(|link| self.unship(link));
            }
            (true, false) => {
                self.step(PrimaryInput::Resume(replica));
                link.iter().for_each(|link| self.tell(link));
            }
            _ => {}
        }
    }

    /// The file, when this node leads no longer.
    pub fn into_standing(&self) -> super::Standing {
        self.state.lock().file.standing().clone()
    }

    /// A replica is connected. What it says of itself counts on this connection only: on an older one that has not ended yet it may
    /// come late, and tell of less than what it has.
    pub fn connected(&self, link: &Arc<Link>) {
        let replica = link.peer().replica;
        let before = {
            let mut state = self.state.lock();
            // One that ends after this is taken out by whoever is told of its end, and waits for the latch.
            if link.is_closed() {
                return;
            }
            state.links.retain(|(r, _)| *r != replica);
            state.links.push((replica, link.clone()));
            let of_it = |s: &mut Arc<Shipment>| s.replica == replica;
            state.shipments.extract_if(.., of_it).collect::<Vec<_>>()
        };
        for shipment in before {
            let link = shipment.link.clone();
            link.remove(&(shipment as Arc<dyn Source>));
        }
        self.tell(link);
    }

    fn tell(&self, link: &Arc<Link>) {
        let lead = LeadTold {
            record: self.state.lock().machine.record(),
            ..self.shared.lead.clone()
        };
        let database = self.shared.database;
        link.send(Message::Lead { database, lead });
    }

    /// Its connection has ended; another may be left, and counts if there is no newer one. Commits go on without a replica that has ended it itself,
    /// once the judge does not list it any more; one that is not heard of has until a clock runs out.
    pub fn disconnected(&self, link: &Arc<Link>, left: Option<&Arc<Link>>) {
        let replica = link.peer().replica;
        let mut state = self.state.lock();
        state.shipments.retain(|s| !Arc::ptr_eq(&s.link, link));
        // Another connection to it may have come in the meantime.
        if !state.counts(link) {
            return;
        }
        state.links.retain(|(r, _)| *r != replica);
        let left = left.filter(|left| !left.is_closed());
        state.links.extend(left.map(|left| (replica, left.clone())));
        let mut done = self.step_latched(&mut state, PrimaryInput::Down(replica));
        let is_gone = left.is_none() && link.is_ended_by_peer();
        // As where a clock runs out: a log that has failed gives nobody up.
        if is_gone && !self.shared.log.has_failed() {
            done.and(self.step_latched(&mut state, PrimaryInput::Lost(replica)));
        }
        drop(state);
        self.finish(done);
        left.into_iter().for_each(|left| self.tell(left));
    }

    /// A message about this database came.
    pub fn received(&self, link: &Arc<Link>, message: &Message) -> Result<(), LinkError> {
        let from = link.peer().replica;
        let of_itself = matches!(
            message,
            Message::Ack { .. } | Message::Rejoin { .. } | Message::Depose { led: false, .. }
        );
        if of_itself {
            let state = self.state.lock();
            if !state.counts(link) {
                let current = state.link_of(from).cloned();
                drop(state);
                // It answers on the connection on which it is told who leads.
                current.iter().for_each(|current| self.tell(current));
                return Ok(());
            }
        }
        match message {
            Message::Ack { ack, .. } => self.acknowledged(link, ack),
            Message::Depose {
                promised,
                led: true,
                ..
            } => {
                self.step(PrimaryInput::Led(*promised));
                Ok(())
            }
            Message::Depose { led: false, .. } | Message::Rejoin { .. } => {
                self.step(PrimaryInput::Lost(from));
                Ok(())
            }
            Message::Lead { lead, .. } => {
                self.led_by_another(link, lead);
                Ok(())
            }
            Message::Ask { request, .. } => self.judge(link, *request),
            Message::Rest { rests, .. } => {
                self.rest_by(from, |state| {
                    state.resting_there = changed(state.resting_there, from, *rests);
                });
                Ok(())
            }
            other => Err(LinkError::Protocol(format!("a primary gets no {other:?}"))),
        }
    }

    fn acknowledged(&self, link: &Arc<Link>, ack: &Ack) -> Result<(), LinkError> {
        let from = link.peer().replica;
        self.hear(from, ack);
        {
            let state = self.state.lock();
            // One that is to have the configuration only may still have a copy.
            if !state.feeds(from) || state.resting().contains(from) {
                return Ok(());
            }
        }
        if ack.epoch != self.shared.lead.epoch {
            // It begins to follow, or to follow anew: what was shipped to it before is not what it has.
            self.unship(link);
            self.tell(link);
            return Ok(());
        }
        let known = self
            .state
            .lock()
            .shipments
            .iter()
            .find(|s| Arc::ptr_eq(&s.link, link))
            .cloned();
        let shipment = match known {
            Some(shipment) => shipment,
            None => {
                let Some(shipment) = self.ship(link, ack.received) else {
                    if self.shared.log.has_failed() {
                        return Ok(());
                    }
                    // Its log ends where ours is no longer kept: it has to be seeded anew, and is no participant meanwhile.
                    link.send(Message::Rejoin {
                        database: self.shared.database,
                        fork: Fork::Nothing,
                    });
                    self.step(PrimaryInput::Lost(from));
                    return Ok(());
                };
                self.step_of(link, PrimaryInput::Up(from));
                shipment
            }
        };
        shipment.acknowledged(ack, self.began.elapsed());
        let sent = Lsn(shipment.sent.load(Ordering::Acquire));
        let now = self.now_ms();
        if let Some(clocks) = self
            .state
            .lock()
            .clocks
            .iter_mut()
            .find(|c| c.replica() == from)
        {
            clocks.progress(sent, ack.here, now);
        }
        let (epoch, here) = (ack.epoch, ack.here);
        self.shared.log.keep_for(from, here, ack.pin);
        self.step_of(link, PrimaryInput::Ack { from, epoch, here });
        // It may have been taken out since this began to look.
        if !self.state.lock().feeds(from) {
            self.unship(link);
            self.shared.log.forget(from);
        }
        Ok(())
    }

    fn hear(&self, from: ReplicaId, ack: &Ack) {
        let heard = Heard {
            ack: *ack,
            at: self.began.elapsed(),
        };
        let mut state = self.state.lock();
        if !state.feeds(from) {
            return;
        }
        state.last.retain(|(r, _)| *r != from);
        state.last.push((from, heard));
    }

    fn unship(&self, link: &Arc<Link>) {
        let mut state = self.state.lock();
        let gone = state
            .shipments
            .iter()
            .find(|s| Arc::ptr_eq(&s.link, link))
            .cloned();
        state.shipments.retain(|s| !Arc::ptr_eq(&s.link, link));
        drop(state);
        if let Some(shipment) = gone {
            link.remove(&(shipment as Arc<dyn Source>));
        }
    }

    fn ship(&self, link: &Arc<Link>, from: Lsn) -> Option<Arc<Shipment>> {
        let more = {
            let (link, bell) = (link.clone(), self.shared.bell.clone());
            move || {
                link.wake();
                bell.ring();
            }
        };
        let feed = self.shared.log.feed(from, Box::new(more)).ok()?;
        let replica = link.peer().replica;
        let counts = self.state.lock().shipped_to(replica);
        let shipment = Arc::new(Shipment {
            replica,
            link: link.clone(),
            shared: self.shared.clone(),
            limit: AtomicU64::new(0),
            is_synchronous: AtomicBool::new(false),
            sent: AtomicU64::new(from.0),
            began: self.began,
            state: Mutex::new(Shipping {
                feed,
                choice: Choice::new(Mode::default(), link.peer().codecs),
                under_way: VecDeque::new(),
                told_quorum: Lsn::NONE,
                silent_since: None,
            }),
            counts,
            failed: AtomicBool::new(false),
        });
        // Under the latch: whoever takes the connection's place takes the shipment off it, or finds none.
        let mut state = self.state.lock();
        if state.counts(link) {
            state.shipments.push(shipment.clone());
            link.add(shipment.clone());
        }
        drop(state);
        Some(shipment)
    }

    fn led_by_another(&self, link: &Arc<Link>, lead: &LeadTold) {
        let own = self.shared.lead.epoch;
        match lead.epoch.number > own.number {
            true => self.step(PrimaryInput::Led(lead.epoch)),
            false => link.send(Message::Depose {
                database: self.shared.database,
                promised: own,
                led: true,
            }),
        }
    }

    /// Where no cluster decides, this node's record is the judge. Whoever takes over by it ends this node's reign first.
    fn judge(&self, link: &Arc<Link>, request: Request) -> Result<(), LinkError> {
        let asks_for_itself =
            matches!(request, Request::Promote { replica, .. } if replica == link.peer().replica);
        if !asks_for_itself {
            return Err(LinkError::Protocol("a replica asks for another".into()));
        }
        if let Some(authority) = &self.authority {
            authority.asked(link.peer().replica);
            return Ok(());
        }
        let reply: Reply = self.state.lock().file.answer(request)?;
        if reply.record.epoch != self.shared.lead.epoch {
            self.step(PrimaryInput::Led(reply.record.epoch));
        }
        let database = self.shared.database;
        link.send(Message::Judged { database, reply });
        Ok(())
    }

    fn watch(self: Arc<Self>) {
        while !self.shared.bell.stopped.load(Ordering::Acquire) {
            self.shared.bell.wait(TICK.min(self.session_timeout / 4));
            let (end, here) = (self.shared.log.end(), self.shared.log.here());
            self.step(PrimaryInput::Log { end, here });
            self.look_at_clocks();
        }
    }

    /// Whoever is lost is so in the same breath: an acknowledgement between the look and the step would be forgotten.
    fn look_at_clocks(&self) {
        let now = self.now_ms();
        let mut state = self.state.lock();
        state.note_rates(now);
        let mut lost = state.lost(now);
        // A log that has failed acknowledges nothing that they lack: whoever is listed may take over, and nobody is given up for what is
        // wrong here.
        if self.shared.log.has_failed() {
            lost.clear();
        }
        let mut done = Done::default();
        for replica in &lost {
            done.and(self.step_latched(&mut state, PrimaryInput::Lost(*replica)));
        }
        drop(state);
        lost.iter().for_each(|r| self.shared.log.unpin(*r));
        self.finish(done);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// What was heard on a connection, if it still counts.
    fn step_of(&self, link: &Arc<Link>, input: PrimaryInput) {
        let mut state = self.state.lock();
        if !state.counts(link) {
            return;
        }
        let done = self.step_latched(&mut state, input);
        drop(state);
        self.finish(done);
    }

    fn step(&self, input: PrimaryInput) {
        let done = self.step_latched(&mut self.state.lock(), input);
        self.finish(done);
    }

    /// Commits end on this thread.
    fn finish(&self, done: Done) {
        if let Some(quorum) = done.raised {
            self.shared.log.raise_quorum(quorum);
        }
        if done.fenced {
            self.shared.log.fence();
        }
    }

    /// What the machine has to be told of the lease.
    fn stand(&self, machine: &Primary) -> Option<PrimaryInput> {
        let stands = self.authority.as_ref()?.stands();
        (stands != machine.stands()).then_some(PrimaryInput::Stand(stands))
    }

    fn may_ask(&self, request: Request) -> bool {
        match (&self.authority, request) {
            (Some(authority), Request::Change { members, .. }) => {
                authority.may_list(self.shared.database, members)
            }
            _ => true,
        }
    }

    /// Whether the log waits at all changes under the latch, so that it ends as the machine thinks it.
    ///
    /// A log that acknowledges by itself stops doing so under the latch as well: nothing is acknowledged here after the fence.
    fn step_latched(&self, state: &mut State, input: PrimaryInput) -> Done {
        let (mut raised, mut fenced) = (None, false);
        let mut inputs = VecDeque::from([input]);
        inputs.extend(self.stand(&state.machine));
        // The lease first: what comes may be acknowledged by it alone.
        inputs.rotate_right(1);
        while let Some(input) = inputs.pop_front() {
            for output in state.machine.step(input) {
                match output {
                    PrimaryOutput::Ask(request) if !self.may_ask(request) => continue,
                    PrimaryOutput::Ask(request) => match state.file.answer(request) {
                        Ok(reply) => inputs.push_back(PrimaryInput::Judge(reply)),
                        // A record that cannot be written leaves everything as it was: commits go on waiting.
                        Err(_) => continue,
                    },
                    PrimaryOutput::Raise(quorum) => raised = Some(quorum),
                    PrimaryOutput::Alone => self.shared.log.acknowledge_alone(),
                    PrimaryOutput::Wait => {
                        let shown = self.shared.log.wait_for_participants();
                        inputs.push_front(PrimaryInput::Waiting(shown));
                    }
                    PrimaryOutput::HoldBack(are_held) => {
                        self.shared.log.hold_writers_back(are_held)
                    }
                    PrimaryOutput::Open => self.shared.log.open(),
                    PrimaryOutput::Tell(record) => {
                        let database = self.shared.database;
                        let told = |(_, link): &(ReplicaId, Arc<Link>)| {
                            link.send(Message::Listed { database, record })
                        };
                        state.links.iter().for_each(told);
                    }
                    PrimaryOutput::Fence(_) => {
                        self.shared.log.wait_for_participants();
                        fenced = true;
                    }
                }
            }
        }
        let State {
            machine, shipments, ..
        } = state;
        // What a log showed by itself before it began to wait counts as well, and comes by no `Raise`.
        let quorum = machine.quorum().0;
        let is_raised = self.shared.quorum.fetch_max(quorum, Ordering::AcqRel) < quorum;
        for shipment in shipments {
            // Before anything may be sent.
            let is_synchronous = machine.is_synchronous(shipment.replica);
            shipment
                .is_synchronous
                .store(is_synchronous, Ordering::Release);
            let limit = machine.feed_limit(shipment.replica);
            if shipment.limit.swap(limit.0, Ordering::AcqRel) != limit.0 || is_raised {
                shipment.link.wake();
            }
        }
        Done { raised, fenced }
    }
}

/// Bytes of one replica's stream of one database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ShipmentCounts {
    /// Blocks that were sent.
    pub blocks: u64,
    /// Their bytes, without padding.
    pub plain_bytes: u64,
    /// Their bytes as they were sent.
    pub sent_bytes: u64,
    /// Blocks that were sent packed.
    pub packed_blocks: u64,
}

/// The stream of one database to one replica.
pub struct Shipment {
    replica: ReplicaId,
    link: Arc<Link>,
    shared: Arc<Shared>,
    limit: AtomicU64,
    is_synchronous: AtomicBool,
    sent: AtomicU64,
    began: Instant,
    state: Mutex<Shipping>,
    /// Shared with earlier streams to the same replica.
    counts: Arc<Mutex<ShipmentCounts>>,
    /// The log that it needs is gone: it takes no part until it is seeded anew.
    failed: AtomicBool,
}

struct Shipping {
    feed: Box<dyn Feed>,
    choice: Choice,
    /// Ends of blocks that were sent, and their bytes.
    under_way: VecDeque<(Lsn, u64)>,
    told_quorum: Lsn,
    silent_since: Option<Instant>,
}

impl Shipment {
    fn counts(&self) -> ShipmentCounts {
        *self.counts.lock()
    }

    fn count(&self, codec: Codec, plain_bytes: usize, sent_bytes: usize) {
        let mut counts = self.counts.lock();
        counts.blocks += 1;
        counts.plain_bytes += plain_bytes as u64;
        counts.sent_bytes += sent_bytes as u64;
        counts.packed_blocks += u64::from(codec != Codec::Plain);
    }

    fn acknowledged(&self, ack: &Ack, now: Duration) {
        let mut state = self.state.lock();
        let mut arrived = 0;
        while let Some((_, bytes)) = state
            .under_way
            .front()
            .filter(|(end, _)| *end <= ack.received)
            .copied()
        {
            arrived += bytes;
            state.under_way.pop_front();
        }
        if arrived > 0 {
            state.choice.rate().arrived(arrived, now);
        }
        state.feed.release_below(ack.here);
    }

    fn packed(&self, state: &mut Shipping, block: &LogBlock) -> Message {
        let plain = block.plain();
        let waiting = state.choice.rate().outstanding_bytes() > 0;
        let is_synchronous = self.is_synchronous.load(Ordering::Acquire);
        state.choice.set_mode((self.shared.mode_of)(is_synchronous));
        let has = |codec: Codec| self.shared.cache.has(block.first, codec);
        let decision = state.choice.choose(plain.len(), waiting, 1.0, has);
        let (codec, bytes) = match decision.codec {
            Codec::Plain => (Codec::Plain, Arc::from(plain)),
            codec => {
                let clock = || self.began.elapsed();
                let (packed, took) = self.shared.cache.get(block.first, codec, plain, &clock);
                if let Some(took) = took {
                    state
                        .choice
                        .packed(codec, plain.len(), packed.bytes.len(), took);
                }
                (packed.codec, packed.bytes)
            }
        };
        self.count(codec, plain.len(), bytes.len());
        state.choice.rate().sent(bytes.len(), self.began.elapsed());
        state.under_way.push_back((block.end, bytes.len() as u64));
        let quorum = Lsn(self.shared.quorum.load(Ordering::Acquire));
        (state.told_quorum, state.silent_since) = (quorum, None);
        self.sent.store(block.end.0, Ordering::Release);
        Message::Block {
            database: self.shared.database,
            block: Block {
                epoch: self.shared.lead.epoch,
                first: block.first,
                end: block.end,
                quorum,
                primary_here: self.shared.log.here(),
                clock_us: self.link.clock_us(),
                codec,
                plain_bytes: plain.len() as u32,
                bytes,
            },
        }
    }

    fn quorum_alone(&self, state: &mut Shipping) -> Pull {
        let quorum = Lsn(self.shared.quorum.load(Ordering::Acquire));
        if quorum <= state.told_quorum {
            return Pull::Nothing;
        }
        let silent = state
            .silent_since
            .get_or_insert_with(Instant::now)
            .elapsed();
        if let Some(left) = QUORUM_SILENCE.checked_sub(silent).filter(|l| !l.is_zero()) {
            return Pull::Later(left);
        }
        (state.told_quorum, state.silent_since) = (quorum, None);
        Pull::Send(Message::Quorum {
            database: self.shared.database,
            epoch: self.shared.lead.epoch,
            quorum,
        })
    }
}

impl Source for Shipment {
    fn pull(&self) -> Pull {
        if self.failed.load(Ordering::Acquire) {
            return Pull::Nothing;
        }
        let mut state = self.state.lock();
        let limit = Lsn(self.limit.load(Ordering::Acquire));
        match state.feed.next(limit) {
            Ok(Some(block)) => Pull::Send(self.packed(&mut state, &block)),
            Ok(None) => self.quorum_alone(&mut state),
            Err(_) => {
                self.failed.store(true, Ordering::Release);
                self.shared.bell.ring();
                Pull::Nothing
            }
        }
    }
}
