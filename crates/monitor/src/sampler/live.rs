//! What is known of a server right now, for the page and for `/metrics`, and what waits to be stored.
//!
//! Theory: the sampler's thread writes here after each tick; readers copy what they need under a short lock. A scrape or a page
//! never touches the server itself.

use super::difference::{Event, Tick};
use super::reading::{Completed, Database, Pin, Request, Wait};
use crate::figures::{COUNT, Values};
use parking_lot::{Condvar, Mutex};
use rustix::fd::OwnedFd;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Ticks kept for live pages: a quarter of an hour of seconds.
pub const TICKS_KEPT: usize = 900;
/// A batch without an answer for so long: the server is called frozen.
pub const FROZEN_AFTER: Duration = Duration::from_millis(2_500);
/// Samples that wait for the repository, for all servers together; the oldest go first.
const OUTBOX_MAX: usize = 9_000;

/// How a server is doing, as far as the monitor can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Connecting,
    Up,
    /// Answers take longer than an interval.
    Late,
    /// The connection lives, no answer comes.
    Frozen,
    /// The server refuses the login.
    Refused,
    /// No connection can be made.
    Unreachable,
}

/// A watched server.
#[derive(Debug)]
pub struct Server {
    /// Its number in the repository.
    pub id: i16,
    pub endpoint: String,
    live: Mutex<Live>,
}

/// The changing part of a [`Server`].
#[derive(Debug)]
pub struct Live {
    pub name: String,
    pub version: String,
    state: State,
    pub since: Instant,
    pub error: Option<String>,
    pub ticks: VecDeque<Arc<Tick>>,
    pub last: Option<Instant>,
    pub requests: Arc<Vec<Request>>,
    pub pins: Arc<Vec<Pin>>,
    pub databases: Arc<Vec<Database>>,
    /// Parts that the server does not answer, with its reason.
    pub missing: Vec<(&'static str, String)>,
    /// Totals as last read, for `/metrics`.
    pub totals: [Option<i64>; COUNT],
    pub waits: BTreeMap<String, Wait>,
    pub started: i64,
    pub interval_ms: i64,
    /// Mean of the last half minute, both sides together, in per cent of a core.
    pub cost_percent: f64,
    pub late: u64,
    in_flight: Option<(Instant, OwnedFd)>,
}

impl Server {
    /// A server of which nothing is known yet.
    pub fn new(id: i16, endpoint: String) -> Server {
        Server {
            id,
            live: Mutex::new(Live {
                name: endpoint.clone(),
                version: String::new(),
                state: State::Connecting,
                since: Instant::now(),
                error: None,
                ticks: VecDeque::new(),
                last: None,
                requests: Arc::default(),
                pins: Arc::default(),
                databases: Arc::default(),
                missing: Vec::new(),
                totals: [None; COUNT],
                waits: BTreeMap::new(),
                started: 0,
                interval_ms: 1_000,
                cost_percent: f64::NAN,
                late: 0,
                in_flight: None,
            }),
            endpoint,
        }
    }

    /// A look at it, or a change by its sampler.
    pub fn live(&self) -> parking_lot::MutexGuard<'_, Live> {
        self.live.lock()
    }

    /// Notes that a request has gone out, so that a watchdog can end one that is never answered.
    pub fn begin_flight(&self, socket: Option<OwnedFd>) {
        self.live().in_flight = socket.map(|socket| (Instant::now(), socket));
    }

    /// Notes that the answer has come, or never will.
    pub fn end_flight(&self) {
        self.live().in_flight = None;
    }

    /// Breaks a connection that has not answered for `limit`.
    pub fn break_after(&self, limit: Duration) {
        if let Some((begun, socket)) = &self.live().in_flight
            && begun.elapsed() > limit
        {
            // A socket that is gone already needs no end.
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
    }
}

impl Live {
    /// The state as of now: a request that has been out for too long makes it frozen.
    pub fn state(&self) -> State {
        match &self.in_flight {
            Some((begun, _)) if begun.elapsed() > FROZEN_AFTER => State::Frozen,
            _ => self.state,
        }
    }

    /// Takes a new state; `true` when it is another one.
    pub fn set_state(&mut self, state: State, error: Option<String>) -> bool {
        let changed = self.state != state;
        if changed {
            self.since = Instant::now();
        }
        self.state = state;
        self.error = error;
        changed
    }

    /// The newest tick.
    pub fn tick(&self) -> Option<&Arc<Tick>> {
        self.ticks.back()
    }

    /// Figures of the newest tick.
    pub fn values(&self) -> Values {
        self.tick().map_or(Values::default(), |tick| tick.values)
    }
}

/// What a tick leaves to be stored.
#[derive(Clone, Debug)]
pub struct Sample {
    pub server: i16,
    pub tick: Option<Arc<Tick>>,
    pub events: Vec<Event>,
    pub completed: Vec<Completed>,
    /// The tree of blocked requests, when there is one.
    pub blocking: Vec<Request>,
}

/// Samples on their way to the repository.
#[derive(Debug, Default)]
pub struct Outbox {
    waiting: Mutex<VecDeque<Sample>>,
    arrived: Condvar,
    dropped: Mutex<u64>,
}

impl Outbox {
    /// Adds a sample; when too many wait, the oldest is dropped and counted.
    pub fn put(&self, sample: Sample) {
        let mut waiting = self.waiting.lock();
        while waiting.len() >= OUTBOX_MAX {
            waiting.pop_front();
            *self.dropped.lock() += 1;
        }
        waiting.push_back(sample);
        self.arrived.notify_one();
    }

    /// Copies of up to `count` of the oldest, waited for up to `patience`. They stay until [`Outbox::done`].
    pub fn wait(&self, count: usize, patience: Duration) -> Vec<Sample> {
        let mut waiting = self.waiting.lock();
        if waiting.is_empty() {
            self.arrived.wait_for(&mut waiting, patience);
        }
        waiting.iter().take(count).cloned().collect()
    }

    /// Forgets the oldest `count`, which are stored; `dropped` is what [`Outbox::dropped`] said when they were taken.
    pub fn done(&self, count: usize, dropped: u64) {
        let mut waiting = self.waiting.lock();
        let gone = usize::try_from(*self.dropped.lock() - dropped).unwrap_or(usize::MAX);
        let count = count.saturating_sub(gone).min(waiting.len());
        waiting.drain(..count);
    }

    /// How many were dropped unstored.
    pub fn dropped(&self) -> u64 {
        *self.dropped.lock()
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.lock().len()
    }
}
