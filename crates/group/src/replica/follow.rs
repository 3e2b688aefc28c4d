//! A database that this node follows.
//!
//! The reader of the link appends; a thread of its own syncs all that has come and acknowledges it. A cut between the start of a sync and
//! its end makes what the sync says void, since other blocks may lie there by then.
//!
//! The judge is the record of whoever led last (CLUSTER_TYPE = NONE): this node's own file, or asked over the connection.

use super::log::{LogError, SecondaryLog};
use super::rate::Rate;
use super::standing::{Standing, StandingFile};
use crate::commit::{
    Epoch, EpochId, Follower, FollowerInput, FollowerOutput, Fork, Record, ReplicaId, Reply,
    Request,
};
use crate::compress::unpack;
use crate::transport::{Link, LinkError};
use crate::wire::{Ack, Block, LeadTold, Message};
use daruma_base::Lsn;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A forced failover raises the epoch's number by so much.
const FORCED_STEP: u64 = 1 << 16;

/// See the module.
pub struct Followed {
    database: u128,
    me: ReplicaId,
    log: Arc<dyn SecondaryLog>,
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    machine: Follower,
    file: StandingFile,
    link: Option<Arc<Link>>,
    record: Record,
    /// Clock of the newest block.
    clock_us: u64,
    cuts: u64,
    /// What became of the last attempt to lead.
    decided: Option<Result<Record, Record>>,
    /// Where the log of a primary parts from the one here, if it does so below what may be cut off, and the epoch in which it leads.
    parted: Option<(Fork, EpochId)>,
    /// Nothing is taken, by order of an administrator.
    rests: bool,
    /// The log here was a primary's, as far as it goes.
    has_followed: bool,
    failed: Option<String>,
    /// An administrator has given up what the primary of this epoch lacks. Another one may have it, or lack more.
    gives_up: Option<EpochId>,
    /// The newest epoch in which a primary has presented itself, also while nothing is taken.
    heard: EpochId,
    /// What it lacks is on pages, and could not be cut off.
    cut_refused: bool,
    stopped: bool,
    redo: Rate,
    began: Instant,
}

impl State {
    /// A primary leads in this epoch: a word about what another one lacks, which leads no more, is void.
    fn hear(&mut self, epoch: EpochId) {
        if epoch.number > self.heard.number {
            self.heard = epoch;
        }
        let is_older = |given: &mut EpochId| given.number < epoch.number;
        let _ = self.gives_up.take_if(is_older);
    }

    /// The epoch of the primary of now, as far as is known.
    fn newest(&self) -> EpochId {
        let promised = self.machine.promised();
        match self.heard.number > promised.number {
            true => self.heard,
            false => promised,
        }
    }

    fn following(&self) -> Following {
        match self.parted {
            _ if self.rests => Following::Resting,
            _ if self.failed.is_some() => Following::Nobody,
            Some((fork, _)) => Following::Parted(fork),
            None if self.machine.is_following() => Following::Primary,
            None => Following::Nobody,
        }
    }
}

/// Does the log here follow a primary's?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Following {
    /// No primary has been heard of on the connections of now.
    Nobody,
    /// It does.
    Primary,
    /// An administrator has it rest.
    Resting,
    /// The two logs went different ways, and what is here is on pages: it has to be seeded anew.
    Parted(Fork),
}

/// By what a node takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The primary's record grants it: nothing is lost.
    Judged,
    /// An administrator's word, or the cluster's, in an epoch of a number within these: one above them is of a later reign.
    Forced {
        /// The lowest.
        least: u64,
        /// The highest.
        most: u64,
    },
}

impl Followed {
    /// Begins to follow whoever leads. What lies below `kept` is not given up: pages and readers may have seen it, or it may have
    /// been acknowledged here. But for a primary that this node's own record lists: it has all that was acknowledged.
    pub fn begin(
        database: u128,
        me: ReplicaId,
        file: StandingFile,
        log: Arc<dyn SecondaryLog>,
        kept: Lsn,
    ) -> io::Result<Arc<Followed>> {
        let Standing {
            promised,
            history,
            record,
        } = file.standing().clone();
        let here = log.end();
        let machine = Follower::new(me, promised, history.up_to(here), here, kept);
        let followed = Arc::new(Followed {
            database,
            me,
            log,
            state: Mutex::new(State {
                machine,
                file,
                link: None,
                record,
                clock_us: 0,
                cuts: 0,
                decided: None,
                parted: None,
                rests: false,
                has_followed: false,
                failed: None,
                gives_up: None,
                heard: EpochId::default(),
                cut_refused: false,
                stopped: false,
                redo: Rate::default(),
                began: Instant::now(),
            }),
            moved: Condvar::new(),
        });
        let syncing = followed.clone();
        std::thread::Builder::new()
            .name("group harden".into())
            .spawn(move || syncing.harden())?;
        Ok(followed)
    }

    /// Ends the thread; the standing that this node has then.
    pub fn stop(&self) -> Standing {
        let mut state = self.state.lock();
        state.stopped = true;
        self.moved.notify_all();
        state.file.standing().clone()
    }

    /// What the judge has, as far as this node was told.
    pub fn record(&self) -> Record {
        self.state.lock().record
    }

    /// The newest epoch that it has promised.
    pub fn promised(&self) -> EpochId {
        self.state.lock().machine.promised()
    }

    /// Whom it follows.
    pub fn following(&self) -> Following {
        self.state.lock().following()
    }

    /// Waits until a primary is followed, or is known not to be, for so long at most.
    pub fn wait_following(&self, limit: Duration) -> Following {
        let until = Instant::now() + limit;
        let mut state = self.state.lock();
        while state.following() == Following::Nobody && state.failed.is_none() && !state.stopped {
            if self.moved.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        state.following()
    }

    /// End of the log here.
    pub fn end(&self) -> Lsn {
        self.state.lock().machine.end()
    }

    /// SET HADR SUSPEND and RESUME: takes nothing, and says so to whoever is connected. Who resumes a log that parts from the
    /// primary's has what that primary lacks taken back, where no page has it; see [`Followed::lacks_pages`]. That word holds until the
    /// primary is another one, or SUSPEND.
    pub fn rest(&self, rests: bool, links: &[Arc<Link>]) {
        let mut state = self.state.lock();
        state.rests = rests;
        if rests {
            state.machine.step(FollowerInput::Down);
            state.gives_up = None;
        } else if let Some((_, epoch)) = state.parted.take() {
            state.gives_up = Some(epoch);
        } else if state.cut_refused {
            state.gives_up = Some(state.newest());
        }
        drop(state);
        for link in links {
            self.connected(link);
            if !rests {
                self.greet(link);
            }
        }
    }

    /// A connection has begun: its other side learns whether it may send.
    pub fn connected(&self, link: &Arc<Link>) {
        let state = self.state.lock();
        let rests = state.rests || state.failed.is_some();
        let database = self.database;
        link.send(Message::Rest { database, rests });
    }

    /// How fast redo goes.
    pub fn redo_rate(&self) -> Rate {
        self.state.lock().redo
    }

    /// Says again how far it is, as redo and readers move without the log. To be called about once a second.
    pub fn report(&self) {
        let mut state = self.state.lock();
        let now_ms = u64::try_from(state.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        state.redo.note(self.log.applied(), now_ms);
        let (Some(link), true) = (&state.link, state.machine.is_following()) else {
            return;
        };
        let machine = &state.machine;
        let ack = self.ack(&state, machine.promised(), machine.end(), machine.here());
        let database = self.database;
        link.send(Message::Ack { database, ack });
    }

    /// Hard here.
    pub fn here(&self) -> Lsn {
        self.state.lock().machine.here()
    }

    /// Hard on all participants, as the primary last said.
    pub fn quorum(&self) -> Lsn {
        self.state.lock().machine.quorum()
    }

    /// Has an administrator given up what the primary lacks, and pages here have it? Then they are to become the primary's.
    pub fn lacks_pages(&self) -> bool {
        let state = self.state.lock();
        state.gives_up.is_some() && (state.cut_refused || state.parted.is_some())
    }

    /// Why the log here cannot go on, if it cannot.
    pub fn failure(&self) -> Option<String> {
        self.state.lock().failed.clone()
    }

    /// Tells whoever may lead what is here; in no epoch, as nobody is followed yet.
    pub fn greet(&self, link: &Arc<Link>) {
        let state = self.state.lock();
        let machine = &state.machine;
        let ack = self.ack(&state, EpochId::default(), machine.end(), machine.here());
        let database = self.database;
        link.send(Message::Ack { database, ack });
    }

    /// A connection has ended.
    pub fn disconnected(&self, link: &Arc<Link>) {
        let mut state = self.state.lock();
        if state.link.as_ref().is_some_and(|l| Arc::ptr_eq(l, link)) {
            state.link = None;
            state.machine.step(FollowerInput::Down);
            self.moved.notify_all();
        }
    }

    /// A message about this database came.
    pub fn received(&self, link: &Arc<Link>, message: &Message) -> Result<(), LinkError> {
        let is_deaf = {
            let mut state = self.state.lock();
            let is_deaf = state.rests || state.failed.is_some();
            if let (true, Message::Lead { lead, .. }) = (is_deaf, message) {
                state.hear(lead.epoch);
            }
            is_deaf
        };
        if is_deaf {
            // What was under way when it began to rest, or failed.
            return Ok(());
        }
        match message {
            Message::Lead { lead, .. } => self.led(link, lead),
            Message::Block { block, .. } => self.take(link, block),
            Message::Quorum { epoch, quorum, .. } => {
                let (epoch, quorum) = (*epoch, *quorum);
                self.step(link, FollowerInput::Quorum { epoch, quorum }, None, None)
            }
            Message::Listed { record, .. } => {
                self.listed(*record);
                Ok(())
            }
            Message::Rejoin { fork, .. } => {
                // The primary no longer has the log that comes next here. Not of one that was passed over.
                let mut state = self.state.lock();
                if !state.link.as_ref().is_some_and(|l| Arc::ptr_eq(l, link)) {
                    return Ok(());
                }
                state.machine.step(FollowerInput::Down);
                state.parted = Some((*fork, state.machine.promised()));
                self.moved.notify_all();
                Ok(())
            }
            Message::Judged { reply, .. } => {
                self.step(link, FollowerInput::Judge(*reply), None, None)
            }
            // Of another that follows, too.
            Message::Ack { .. } | Message::Rest { .. } => Ok(()),
            other => Err(LinkError::Protocol(format!(
                "a secondary gets no {other:?}"
            ))),
        }
    }

    /// Asks the primary to have the cluster name this node. Nothing comes back; `false`: nobody is connected who could be asked.
    pub fn ask_to_lead(&self, id: u128) -> bool {
        let state = self.state.lock();
        let from = state.machine.promised();
        let Some(link) = state.link.as_ref().filter(|_| state.machine.is_following()) else {
            return false;
        };
        let number = from.number.saturating_add(1);
        let request = Request::Promote {
            from,
            to: EpochId { number, id },
            replica: self.me,
        };
        let database = self.database;
        link.send(Message::Ask { database, request });
        true
    }

    /// Takes over by this claim. Everything that was received is synced first.
    ///
    /// The record when this node leads; otherwise the judge's, or nothing if the judge did not answer in `limit`.
    pub fn promote(
        &self,
        id: u128,
        claim: Claim,
        limit: Duration,
    ) -> Result<Record, Option<Record>> {
        let mut state = self.state.lock();
        while state.machine.here() < state.machine.end() && state.failed.is_none() {
            self.moved.wait(&mut state);
        }
        if state.failed.is_some() {
            return Err(Some(state.record));
        }
        let number = state
            .machine
            .promised()
            .number
            .max(state.record.epoch.number);
        let (number, most) = match claim {
            Claim::Judged => (number.saturating_add(1), u64::MAX),
            // A primary that begins anew raises the number by one each time: one that was passed over never catches up.
            Claim::Forced { least, most } => (number.saturating_add(FORCED_STEP).max(least), most),
        };
        if number <= state.machine.promised().number || number > most {
            // A later reign has promoted another, or numbers are used up: nobody but a peer that lies comes so far.
            return Err(Some(state.record));
        }
        let forced = claim != Claim::Judged;
        let to = EpochId { number, id };
        state.decided = None;
        let link = state.link.clone();
        let input = FollowerInput::Promote { to, forced };
        if self
            .step_latched(&mut state, link.as_ref(), input, None, None)
            .is_err()
        {
            return Err(Some(state.record));
        }
        loop {
            match state.decided.take() {
                Some(Ok(record)) => return Ok(record),
                Some(Err(record)) => return Err(Some(record)),
                // Nothing more is decided here.
                None if state.failed.is_some() => return Err(Some(state.record)),
                None => {}
            }
            if self.moved.wait_for(&mut state, limit).timed_out() {
                return Err(None);
            }
        }
    }

    fn led(&self, link: &Arc<Link>, lead: &LeadTold) -> Result<(), LinkError> {
        let input = FollowerInput::Lead {
            epoch: lead.epoch,
            history: lead.history.clone(),
        };
        let mut state = self.state.lock();
        let own = state.record;
        let is_listed = own.primary == self.me && own.members.contains(link.peer().replica);
        let lacks_nothing = is_listed && own.epoch.number < lead.epoch.number;
        state.hear(lead.epoch);
        let is_given_up = state.gives_up.is_some_and(|e| e.is_same(lead.epoch));
        let lets_go = (lacks_nothing || is_given_up) && !state.machine.is_following();
        let before = lets_go.then(|| state.machine.let_go(self.log.applied()));
        let taken = self.step_latched(&mut state, Some(link), input, None, Some(lead.record));
        if let Some(before) = before {
            state.machine.keep_again(before);
        }
        taken
    }

    fn take(&self, link: &Arc<Link>, block: &Block) -> Result<(), LinkError> {
        let plain = unpack(block)?;
        let input = FollowerInput::Blocks {
            epoch: block.epoch,
            first: block.first,
            end: block.end,
            quorum: block.quorum,
        };
        self.step(link, input, Some((block, &plain)), None)?;
        link.grant(block.frame_bytes());
        Ok(())
    }

    fn listed(&self, record: Record) {
        let mut state = self.state.lock();
        if record.epoch == state.record.epoch && record.sequence > state.record.sequence {
            state.record = record;
        }
    }

    fn step(
        &self,
        link: &Arc<Link>,
        input: FollowerInput,
        block: Option<(&Block, &[u8])>,
        record: Option<Record>,
    ) -> Result<(), LinkError> {
        let mut state = self.state.lock();
        self.step_latched(&mut state, Some(link), input, block, record)
    }

    fn step_latched(
        &self,
        state: &mut MutexGuard<'_, State>,
        link: Option<&Arc<Link>>,
        input: FollowerInput,
        block: Option<(&Block, &[u8])>,
        record: Option<Record>,
    ) -> Result<(), LinkError> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for output in state.machine.step(input) {
                let done = self.carry_out(state, link, output, block, record);
                match done {
                    Ok(Some(reply)) => inputs.push_back(FollowerInput::Judge(reply)),
                    Ok(None) => {}
                    Err(error) => {
                        // The connection goes on: other databases have it too.
                        state.failed = Some(error.to_string());
                        let (database, rests) = (self.database, true);
                        let say = |l: &Arc<Link>| l.send(Message::Rest { database, rests });
                        link.iter().for_each(|l| say(l));
                        self.moved.notify_all();
                        return Ok(());
                    }
                }
            }
        }
        // What a primary may not have, and only an administrator may give up, is not to come into pages.
        if state.has_followed {
            self.log.may_apply(state.machine.may_apply());
        }
        self.moved.notify_all();
        Ok(())
    }

    fn carry_out(
        &self,
        state: &mut State,
        link: Option<&Arc<Link>>,
        output: FollowerOutput,
        block: Option<(&Block, &[u8])>,
        record: Option<Record>,
    ) -> Result<Option<Reply>, LogError> {
        let database = self.database;
        let say = |message: Message| link.iter().for_each(|l| l.send(message.clone()));
        match output {
            FollowerOutput::Persist(promised) => {
                let before = state.file.standing().clone();
                keep(&mut state.file, Standing { promised, ..before })?;
            }
            FollowerOutput::Cut(at) => {
                let cut = self.log.cut(at);
                state.cut_refused = matches!(cut, Err(LogError::Needed(_)));
                cut?;
                state.cuts += 1;
            }
            FollowerOutput::Adopt(history) => {
                let before = state.file.standing().clone();
                state.record = record.unwrap_or(before.record);
                let record = state.record;
                keep(
                    &mut state.file,
                    Standing {
                        history,
                        record,
                        ..before
                    },
                )?;
                state.link = link.cloned();
                state.parted = None;
                state.gives_up = None;
                state.has_followed = true;
            }
            FollowerOutput::Append => {
                if let Some((block, plain)) = block {
                    self.append(block, plain)?;
                    state.clock_us = block.clock_us;
                }
            }
            FollowerOutput::Acknowledge {
                epoch,
                received,
                here,
            } => {
                let ack = self.ack(state, epoch, received, here);
                say(Message::Ack { database, ack });
            }
            FollowerOutput::Depose { promised, led } => say(Message::Depose {
                database,
                promised,
                led,
            }),
            FollowerOutput::Rejoin(fork) => {
                state.parted = Some((fork, state.machine.promised()));
                say(Message::Rejoin { database, fork });
            }
            FollowerOutput::Ask(request) => {
                let led_last = state.file.standing().record.primary == self.me;
                if led_last || matches!(request, Request::Force { .. }) {
                    return state.file.answer(request).map(Some).map_err(failed);
                }
                say(Message::Ask { database, request });
            }
            FollowerOutput::Lead(record) => self.lead(state, record)?,
            FollowerOutput::Remain(record) => {
                state.record = record;
                state.decided = Some(Err(record));
            }
        }
        Ok(None)
    }

    /// The epoch begins where the log ends; the file says so before anything is written under it.
    fn lead(&self, state: &mut State, record: Record) -> Result<(), LogError> {
        assert_eq!(record.primary, self.me, "somebody else leads");
        let start = state.machine.end();
        let epoch = Epoch {
            name: record.epoch,
            start,
        };
        let history = state.machine.history().followed_by(epoch);
        let promised = record.epoch;
        keep(
            &mut state.file,
            Standing {
                promised,
                history,
                record,
            },
        )?;
        state.record = record;
        state.decided = Some(Ok(record));
        Ok(())
    }

    fn append(&self, block: &Block, plain: &[u8]) -> Result<(), LogError> {
        let end = self.log.append(plain)?;
        match end == block.end {
            true => Ok(()),
            false => Err(LogError::Refused(format!(
                "it ends at {} and not at {}",
                end.0, block.end.0
            ))),
        }
    }

    fn ack(&self, state: &State, epoch: EpochId, received: Lsn, here: Lsn) -> Ack {
        Ack {
            epoch,
            received,
            here,
            applied: self.log.applied().min(here),
            pin: self.log.pin(),
            clock_us: state.clock_us,
        }
    }

    fn harden(&self) {
        loop {
            let cuts = {
                let mut state = self.state.lock();
                while state.machine.here() >= state.machine.end()
                    && !state.stopped
                    && state.failed.is_none()
                {
                    self.moved.wait(&mut state);
                }
                if state.stopped || state.failed.is_some() {
                    return;
                }
                state.cuts
            };
            let synced = self.log.sync();
            let mut state = self.state.lock();
            match synced {
                Ok(to) if cuts == state.cuts => {
                    let link = state.link.clone();
                    // What fails is told to whoever asks for the failure.
                    let _ = self.step_latched(
                        &mut state,
                        link.as_ref(),
                        FollowerInput::Synced(to),
                        None,
                        None,
                    );
                }
                Ok(_) => {}
                Err(error) => state.failed = Some(error.to_string()),
            }
            self.moved.notify_all();
        }
    }
}

fn keep(file: &mut StandingFile, standing: Standing) -> Result<(), LogError> {
    file.store(standing).map_err(failed)
}

fn failed(error: io::Error) -> LogError {
    LogError::Failed(error.to_string())
}
