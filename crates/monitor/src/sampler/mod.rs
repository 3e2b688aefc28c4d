//! The sampler: one light session for each server, one batch each second.
//!
//! | module | what it is |
//! |---|---|
//! | [`batch`] | the parts that are asked |
//! | [`reading`] | an answer as totals and values |
//! | [`difference`] | two readings to a tick |
//! | `deadlock` | who was on the cycle, from the server's own event session |
//! | `errorlog` | recovery, serious errors, restores, from the server's own log |
//! | `happened` | backups, changes of roles, databases, configuration, growths of logs as events |
//! | `plan` | plans of statements as short trees |
//! | [`live`] | what is known right now, and what waits to be stored |
//! | `texts` | statement texts, fetched once each, with their literals masked |
//!
//! Theory: a thread for each server. Never two batches in flight: ticks are skipped, not queued. An answer that never comes is
//! ended by a watchdog that shuts the socket. What the sampler costs, at the server and here, is part of every tick; when it
//! exceeds a hundredth of a core, the interval doubles.
//!
//! Invariants
//! 1. A figure that could not be read is absent, never 0 and never the one before.
//! 2. The reading before stays when the connection breaks: totals over a hole are right.

pub mod batch;
mod deadlock;
pub mod difference;
mod errorlog;
mod happened;
pub mod live;
mod plan;
pub mod reading;
mod row;
pub use row::{integer, number};
mod texts;
mod xml;

use batch::{PARTS, SETTINGS};
use daruma_client::client::{Client, ClientError, Options};
use deadlock::Deadlocks;
use difference::{Event, LATE, Tick};
use errorlog::ErrorLog;
use happened::Happened;
use live::{Outbox, Sample, Server, State, TICKS_KEPT};
use reading::{Completed, PlanKey, Reading, Request, Statement, StatementKey};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use texts::Texts;

/// Time between two ticks when all is well.
const INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL_MAX: Duration = Duration::from_secs(8);
/// An answer that takes longer counts as late.
const LATE_AFTER: Duration = Duration::from_millis(800);
/// A batch is cancelled after this time ..
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// .. and its connection broken after this.
pub const BREAK_AFTER: Duration = Duration::from_secs(15);
/// A question beside the ticks has less: no tick waits for it for long.
const ASIDE_TIMEOUT: Duration = Duration::from_secs(2);
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// Ticks over which the own cost is averaged.
const COST_TICKS: usize = 30;
/// Hundredths of a core that watching a server may cost.
const COST_PERCENT_MAX: f64 = 1.0;
/// Requests shorter than this are not kept when they end.
const COMPLETED_MS_MIN: i64 = 1_000;
/// The error log, where it is reported as missing.
const LOG: &str = "error log";
/// Plans that are asked for with one tick, and plans that are remembered as asked for.
const PLANS_MAX: usize = 5;
const PLANS_KNOWN_MAX: usize = 2_000;
/// Application name of the session; the monitor leaves its own requests out by it.
pub const APPLICATION: &str = "DarumaMonitor";

/// What a sampler needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Are literals of statement texts replaced before anything else sees them?
    pub mask: bool,
}

/// Watches a server until `stop` is set.
pub fn watch(
    server: &Server,
    options: &Options,
    settings: &Settings,
    outbox: &Outbox,
    stop: &AtomicBool,
) {
    let mut sampler = Sampler {
        server,
        outbox,
        before: None,
        slow: BTreeMap::new(),
        texts: Texts::new(settings.mask),
        costs: Vec::new(),
        interval: INTERVAL,
        number: 0,
        completed: -1,
        has_ring: false,
        has_statements: false,
        seen: HashMap::new(),
        statements: None,
        plans: HashSet::new(),
        happened: Happened::default(),
        deadlocks: Deadlocks::default(),
        log: ErrorLog::default(),
        mask: settings.mask,
        noticed: Vec::new(),
        cpu_before: thread_cpu_ms(),
    };
    let options = Options {
        app_name: APPLICATION.into(),
        query_timeout: Some(QUERY_TIMEOUT),
        login_timeout: Some(QUERY_TIMEOUT),
        ..options.clone()
    };
    let mut pause = RETRY_MIN;
    while !stop.load(Ordering::Acquire) {
        let error = match sampler.session(&options, stop, &mut pause) {
            Ok(()) => return,
            Err(error) => error,
        };
        sampler.lost(&error);
        sleep(pause, stop);
        pause = (pause * 2).min(RETRY_MAX);
    }
}

/// Sleeps in short naps, so that an end is not kept waiting.
fn sleep(time: Duration, stop: &AtomicBool) {
    let end = Instant::now() + time;
    while !stop.load(Ordering::Acquire) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(Duration::from_millis(100)));
    }
}

/// Processor time of this thread.
fn thread_cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

struct Sampler<'a> {
    server: &'a Server,
    outbox: &'a Outbox,
    before: Option<Reading>,
    /// Gauges that are asked for less often, as last read in this session.
    slow: BTreeMap<&'static str, f64>,
    texts: Texts,
    costs: Vec<(f64, f64)>,
    interval: Duration,
    number: u64,
    /// Last sequence number of the server's ring of completed requests.
    completed: i64,
    has_ring: bool,
    /// Does the server say what its statements cost?
    has_statements: bool,
    /// Requests that ran at the last tick, for servers without a ring.
    seen: HashMap<(i64, i64), Request>,
    statements: Option<BTreeMap<StatementKey, Statement>>,
    /// Plans that were asked for.
    plans: HashSet<(StatementKey, PlanKey)>,
    happened: Happened,
    deadlocks: Deadlocks,
    log: ErrorLog,
    mask: bool,
    /// Events that the next sample takes along.
    noticed: Vec<Event>,
    cpu_before: f64,
}

const SLOW: [&str; 5] = [
    "version_store_bytes",
    "version_pin_ms",
    "send_queue_bytes",
    "redo_queue_bytes",
    "replica_lag_ms",
];

impl Sampler<'_> {
    /// One connection, from login to its loss; `Ok` when it is time to stop.
    fn session(
        &mut self,
        options: &Options,
        stop: &AtomicBool,
        pause: &mut Duration,
    ) -> Result<(), ClientError> {
        let mut client = Client::connect(options)?;
        self.number = 0;
        self.slow.clear();
        let parts = self.find_parts(&mut client)?;
        let version = self.rows(&mut client, "SELECT @@SERVERNAME, @@VERSION")?;
        if let Some([name, version, ..]) = version.first().map(Vec::as_slice) {
            let mut live = self.server.live();
            live.name = daruma_client::value::text(name);
            let version = daruma_client::value::text(version);
            live.version = version.lines().next().unwrap_or_default().to_string();
        }
        let mut next = Instant::now();
        while !stop.load(Ordering::Acquire) {
            self.tick(&mut client, &parts)?;
            *pause = RETRY_MIN;
            next += self.interval;
            let now = Instant::now();
            if next < now {
                // Ticks that were missed are skipped.
                next = now;
            }
            sleep(next - now, stop);
        }
        Ok(())
    }

    /// Sends a batch and gathers all rows, under the eyes of the watchdog.
    fn rows(
        &self,
        client: &mut Client,
        batch: &str,
    ) -> Result<Vec<Vec<daruma_value::Value>>, ClientError> {
        self.server
            .begin_flight(rustix::io::dup(client.as_fd()).ok());
        let rows = client.query(batch);
        self.server.end_flight();
        rows
    }

    /// Tries each part alone.
    fn find_parts(
        &mut self,
        client: &mut Client,
    ) -> Result<[Option<&'static str>; PARTS.len()], ClientError> {
        self.rows(client, SETTINGS)?;
        let mut found = [None; PARTS.len()];
        let mut missing = Vec::new();
        for (slot, part) in found.iter_mut().zip(PARTS) {
            for text in [Some(part.text), part.or].into_iter().flatten() {
                // None of what was before matters for the question whether it is answered.
                let most = i64::MAX.to_string();
                let tried = text
                    .replace(batch::COMPLETED_MARK, &most)
                    .replace(batch::BACKUPS_MARK, &most);
                match self.rows(client, &tried) {
                    Ok(_) => *slot = Some(text),
                    Err(ClientError::Server { message }) => {
                        missing.push((part.name, format!("{}: {}", message.number, message.text)));
                    }
                    Err(error) => return Err(error),
                }
                if slot.is_some() {
                    break;
                }
            }
        }
        let ring = PARTS.iter().position(|part| part.name == "completed");
        self.has_ring = ring.is_some_and(|at| found.get(at).copied().flatten().is_some());
        let statements = PARTS.iter().position(|part| part.name == "statement");
        self.has_statements =
            statements.is_some_and(|at| found.get(at).copied().flatten().is_some());
        missing.retain(|(name, _)| {
            let at = PARTS.iter().position(|part| part.name == *name);
            at.and_then(|at| found.get(at)).is_none_or(Option::is_none)
        });
        self.server.live().missing = missing;
        Ok(found)
    }

    fn tick(
        &mut self,
        client: &mut Client,
        parts: &[Option<&'static str>; PARTS.len()],
    ) -> Result<(), ClientError> {
        let slow_due = self.number.is_multiple_of(10);
        self.number += 1;
        let begun = Instant::now();
        let text = reading::batch(parts, slow_due, self.completed, self.happened.last_backup());
        let rows = match self.rows(client, &text) {
            Ok(rows) => rows,
            Err(error @ ClientError::Server { .. }) if !slow_due => {
                return self.part_failed(&error);
            }
            Err(error) => return Err(error),
        };
        let answered = begun.elapsed();
        let Some(mut reading) = Reading::of(&rows) else {
            return Ok(());
        };
        reading
            .gauges
            .set("answer_ms", answered.as_secs_f64() * 1e3);
        reading.complete();
        if slow_due && self.has_statements {
            // None that took long is an answer too: what comes later is new.
            reading.statements.get_or_insert_default();
        }
        self.carry_slow(&mut reading);
        // What was read counts, whatever becomes of the questions beside it.
        let fetched = self.fetch_texts(client, &mut reading);
        self.count_deadlocks(&reading);
        self.take(reading, answered);
        fetched?;
        client.set_query_timeout(Some(ASIDE_TIMEOUT));
        let told = self.look_aside(client);
        client.set_query_timeout(Some(QUERY_TIMEOUT));
        told
    }

    /// Questions that are asked seldom. What they bring goes along with the next sample.
    fn look_aside(&mut self, client: &mut Client) -> Result<(), ClientError> {
        let Some((now, started, offset)) = self
            .before
            .as_ref()
            .map(|r| (r.utc, r.started, r.offset_ms))
        else {
            return Ok(());
        };
        self.fetch_deadlocks(client, now)?;
        self.fetch_log(client, now, started, offset)
    }

    /// A part that failed this once: error 1222 of a lock, for example. The tick is lost, the connection goes on.
    fn part_failed(&self, error: &ClientError) -> Result<(), ClientError> {
        self.server.live().error = Some(error.to_string());
        Ok(())
    }

    fn carry_slow(&mut self, reading: &mut Reading) {
        for name in SLOW {
            match reading.gauges.get(name) {
                Some(value) => {
                    self.slow.insert(name, value);
                }
                None => {
                    if let Some(value) = self.slow.get(name) {
                        reading.gauges.set(name, *value);
                    }
                }
            }
        }
    }

    /// Texts of requests that block, are blocked, or have run for a second.
    fn fetch_texts(
        &mut self,
        client: &mut Client,
        reading: &mut Reading,
    ) -> Result<(), ClientError> {
        let heads: Vec<i64> = reading.requests.iter().map(|r| r.blocked_by).collect();
        let wanted = |r: &Request| {
            r.blocked_by > 0 || r.elapsed_ms >= COMPLETED_MS_MIN || heads.contains(&r.session)
        };
        let missing: Vec<Vec<u8>> = reading
            .requests
            .iter()
            .filter(|r| wanted(r) && !self.texts.has(r.session, r.started))
            .map(|r| r.handle.clone())
            .collect();
        if !missing.is_empty() {
            let batch = texts::batch(missing.iter().map(Vec::as_slice));
            let found = texts::answers(&self.rows(client, &batch)?);
            let requests = reading
                .requests
                .iter()
                .filter(|r| wanted(r) && !self.texts.has(r.session, r.started))
                .map(|r| (r.session, r.started))
                .collect::<Vec<_>>();
            for (number, (session, started)) in requests.into_iter().enumerate() {
                let text = found.get(&number).cloned().unwrap_or_default();
                self.texts.keep(session, started, &text);
            }
        }
        for request in &mut reading.requests {
            request.text = self.texts.get(request.session, request.started);
        }
        self.texts.forget(&reading.requests);
        for done in &mut reading.completed {
            done.text = done.text.take().map(|text| self.texts.masked(&text));
        }
        self.fetch_statement_texts(client, reading)
    }

    /// How many deadlocks the server counted since the last reading.
    fn count_deadlocks(&mut self, reading: &Reading) {
        let counted = |reading: &Reading| reading.total_of("deadlocks");
        let before = self.before.as_ref();
        let grown = match (before.and_then(counted), counted(reading)) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            _ => 0,
        };
        self.deadlocks.counted(grown, reading.utc);
    }

    /// Graphs of deadlocks that were counted. A server that does not answer is not asked again until there is another.
    fn fetch_deadlocks(&mut self, client: &mut Client, now: i64) -> Result<(), ClientError> {
        if !self.deadlocks.are_due(now) {
            return Ok(());
        }
        match self.rows(client, deadlock::RING) {
            Ok(rows) => {
                for row in &rows {
                    let ring = row::Row::of(row).text();
                    self.noticed
                        .append(&mut self.deadlocks.read(&ring, &self.texts));
                }
                Ok(())
            }
            Err(error) => {
                self.deadlocks.give_up();
                unless_fatal(error)
            }
        }
    }

    /// What the error log has new.
    fn fetch_log(
        &mut self,
        client: &mut Client,
        now: i64,
        started: i64,
        offset: i64,
    ) -> Result<(), ClientError> {
        if !self.log.is_due(now) {
            return Ok(());
        }
        let question = self.log.question(now, started, offset);
        let begun = Instant::now();
        match self.rows(client, &question) {
            Ok(rows) => {
                self.log.looked(now, begun.elapsed().as_millis());
                self.note_missing(LOG, None);
                self.noticed
                    .append(&mut self.log.read(&rows, offset, self.mask));
                Ok(())
            }
            Err(error) => {
                self.log.failed(now);
                self.note_missing(LOG, Some(&error));
                unless_fatal(error)
            }
        }
    }

    /// Says that something is not answered, and why, or that it is again.
    fn note_missing(&self, name: &'static str, error: Option<&ClientError>) {
        let mut live = self.server.live();
        live.missing.retain(|(known, _)| *known != name);
        live.missing
            .extend(error.map(|error| (name, error.to_string())));
    }

    /// Statements of the plan cache that ran since the last look become completed rows, with their texts.
    fn fetch_statement_texts(
        &mut self,
        client: &mut Client,
        reading: &mut Reading,
    ) -> Result<(), ClientError> {
        let Some(now) = reading.statements.take() else {
            return Ok(());
        };
        let mut grown: Vec<(StatementKey, Completed)> = match &self.statements {
            Some(before) => now
                .iter()
                .filter_map(|(key, statement)| {
                    Some((key.clone(), statement_delta(before.get(key), statement)?))
                })
                .collect(),
            None => Vec::new(),
        };
        let plans: HashMap<StatementKey, PlanKey> = grown
            .iter()
            .filter_map(|(key, _)| Some((key.clone(), now.get(key)?.plan.clone())))
            .collect();
        self.statements = Some(now);
        grown.sort_by_key(|(_, done)| std::cmp::Reverse(done.duration_us));
        grown.truncate(50);
        let unknown: Vec<Vec<u8>> = grown
            .iter()
            .filter(|(key, _)| !self.texts.has_handle(&key.0))
            .map(|(key, _)| key.0.clone())
            .collect();
        if !unknown.is_empty() {
            let batch = texts::batch(unknown.iter().map(Vec::as_slice));
            let found = texts::answers(&self.rows(client, &batch)?);
            for (number, handle) in unknown.into_iter().enumerate() {
                let text = found.get(&number).cloned().unwrap_or_default();
                self.texts.keep_handle(handle, text);
            }
        }
        self.fetch_plans(client, &mut grown, &plans)?;
        for (key, mut done) in grown {
            done.text = self.texts.of_statement(&key);
            // Its own questions are the monitor's cost, which is shown as such.
            let own = done
                .text
                .as_ref()
                .is_none_or(|text| text.is_empty() || texts::is_own(text));
            if !own {
                reading.completed.push(done);
            }
        }
        Ok(())
    }

    /// Plans of the statements among these that have one which is not known, some at a time.
    fn fetch_plans(
        &mut self,
        client: &mut Client,
        grown: &mut [(StatementKey, Completed)],
        plans: &HashMap<StatementKey, PlanKey>,
    ) -> Result<(), ClientError> {
        if self.plans.len() > PLANS_KNOWN_MAX {
            self.plans.clear();
        }
        let mut asked = Vec::new();
        let mut batch = String::new();
        for (number, (key, _)) in grown.iter().enumerate() {
            let Some(plan) = plans.get(key).filter(|plan| !plan.0.is_empty()) else {
                continue;
            };
            let known = self.plans.contains(&(key.clone(), plan.clone()));
            if known || self.texts.is_own_handle(&key.0) || asked.len() >= PLANS_MAX {
                continue;
            }
            asked.push((key.clone(), plan.clone()));
            batch.push_str(&texts::plan_question(number, &plan.0, key));
        }
        if asked.is_empty() {
            return Ok(());
        }
        self.plans.extend(asked);
        let rows = match self.rows(client, &batch) {
            Ok(rows) => rows,
            Err(error) => return unless_fatal(error),
        };
        for row in &rows {
            let mut columns = row::Row::of(row);
            let number = columns.integer().and_then(|n| usize::try_from(n).ok());
            let tree = plan::tree(&columns.text(), &self.texts);
            if let Some((_, done)) = number.and_then(|n| grown.get_mut(n)) {
                done.plan = tree.map(Arc::from);
            }
        }
        Ok(())
    }

    fn take(&mut self, mut reading: Reading, answered: Duration) {
        let mut events = std::mem::take(&mut self.noticed);
        events.append(&mut self.happened.of(&mut reading));
        let mut completed = std::mem::take(&mut reading.completed);
        completed.retain(|done| done.application != APPLICATION);
        if let Some(last) = completed.iter().map(|done| done.sequence).max() {
            self.completed = self.completed.max(last);
        }
        if !self.has_ring {
            completed.extend(self.gone(&reading));
        }
        let cpu = thread_cpu_ms();
        let own_ms = cpu - std::mem::replace(&mut self.cpu_before, cpu);
        let restarted = self
            .before
            .as_ref()
            .is_some_and(|before| before.started.abs_diff(reading.started) > 1_000);
        if restarted {
            // Its ring begins anew.
            self.completed = -1;
            self.statements = None;
            self.log.look_soon();
            self.happened.restarted();
        }
        if self.before.is_none() {
            // Of a monitor that starts with its server nobody else tells it; what is stored already stays once.
            events.push(difference::started(reading.started));
        }
        let interval_ms = i64::try_from(self.interval.as_millis()).unwrap_or(1_000);
        let made = self
            .before
            .as_ref()
            .and_then(|before| difference::tick(before, &reading, interval_ms));
        let tick = made.map(|(mut tick, mut noticed)| {
            events.append(&mut noticed);
            events.extend(self.happened.growth(&tick));
            tick.values.set("monitor_cpu_ms", own_ms);
            if answered > LATE_AFTER {
                tick.flags |= LATE;
            }
            self.note_cost(&tick, &mut events);
            Arc::new(tick)
        });
        let blocking = match reading.requests.iter().any(|r| r.blocked_by > 0) {
            true => tree(&reading.requests),
            false => Vec::new(),
        };
        self.publish(&reading, tick.clone(), answered, &mut events);
        self.before = Some(reading);
        if tick.is_some() || !events.is_empty() || !completed.is_empty() {
            self.outbox.put(Sample {
                server: self.server.id,
                tick,
                events,
                completed,
                blocking,
            });
        }
    }

    fn publish(
        &self,
        reading: &Reading,
        tick: Option<Arc<Tick>>,
        answered: Duration,
        events: &mut Vec<Event>,
    ) {
        let mut live = self.server.live();
        let late = answered > LATE_AFTER;
        live.late += u64::from(late);
        let was = live.state();
        let state = if late { State::Late } else { State::Up };
        live.set_state(state, None);
        if matches!(was, State::Unreachable | State::Refused) {
            events.push(Event::new(
                reading.utc,
                "seen",
                "The server answers the monitor again.",
            ));
        }
        live.last = Some(Instant::now());
        live.requests = Arc::new(reading.requests.clone());
        if let Some(pins) = &reading.pins {
            live.pins = Arc::new(pins.clone());
        } else if self.number % 10 == 1 {
            live.pins = Arc::default();
        }
        if let Some(databases) = &reading.databases {
            live.databases = Arc::new(databases.clone());
        }
        live.totals = reading.totals;
        live.waits.clone_from(&reading.waits);
        live.started = reading.started;
        live.interval_ms = i64::try_from(self.interval.as_millis()).unwrap_or(1_000);
        live.cost_percent = self.cost_percent();
        if let Some(tick) = tick {
            live.ticks.push_back(tick);
            while live.ticks.len() > TICKS_KEPT {
                live.ticks.pop_front();
            }
        }
    }

    fn cost_percent(&self) -> f64 {
        let (ms, time): (f64, f64) = self
            .costs
            .iter()
            .fold((0.0, 0.0), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1));
        ms / time * 100.0
    }

    /// Doubles the interval when watching costs too much, and halves it when it would not any more.
    fn note_cost(&mut self, tick: &Tick, events: &mut Vec<Event>) {
        let there = tick.values.get("session_cpu_ms").unwrap_or(0.0);
        let here = tick.values.get("monitor_cpu_ms").unwrap_or(0.0);
        self.costs.push((there.max(here), tick.dt_ms as f64));
        if self.costs.len() > COST_TICKS {
            self.costs.remove(0);
        }
        if self.costs.len() < COST_TICKS {
            return;
        }
        let cost = self.cost_percent();
        let interval = if cost > COST_PERCENT_MAX {
            (self.interval * 2).min(INTERVAL_MAX)
        } else if cost < COST_PERCENT_MAX / 4.0 {
            (self.interval / 2).max(INTERVAL)
        } else {
            self.interval
        };
        if interval != self.interval {
            events.push(Event::new(
                tick.at,
                "interval",
                format!(
                    "Watching cost {cost:.1} % of a core; the interval is {} s now.",
                    interval.as_secs()
                ),
            ));
            self.interval = interval;
            self.costs.clear();
        }
    }

    /// Requests that ran at the last tick and are gone: known to the second only.
    fn gone(&mut self, reading: &Reading) -> Vec<Completed> {
        let now: HashMap<(i64, i64), Request> = reading
            .requests
            .iter()
            .filter(|r| r.application != APPLICATION && r.command != "IDLE IN TRANSACTION")
            .map(|r| ((r.session, r.started), r.clone()))
            .collect();
        let before = std::mem::replace(&mut self.seen, now);
        before
            .into_iter()
            .filter(|(key, request)| {
                !self.seen.contains_key(key) && request.elapsed_ms >= COMPLETED_MS_MIN
            })
            .map(|(_, request)| Completed {
                kind: "seen".into(),
                session: request.session,
                started: request.started,
                duration_us: request.elapsed_ms * 1_000,
                cpu_us: request.cpu_ms * 1_000,
                reads: request.reads,
                writes: request.writes,
                executions: 1,
                database: request.database,
                login: request.login,
                application: request.application,
                host: request.host,
                text: request.text,
                ..Completed::default()
            })
            .collect()
    }

    fn lost(&self, error: &ClientError) {
        let state = match error {
            ClientError::LoginRefused { .. } => State::Refused,
            _ => State::Unreachable,
        };
        let mut live = self.server.live();
        let at = live.tick().map(|tick| tick.at);
        if live.set_state(state, Some(error.to_string()))
            && let Some(at) = at
        {
            let event = Event {
                severity: 17,
                ..Event::new(at, "lost", format!("The monitor lost the server: {error}"))
            };
            drop(live);
            self.outbox.put(Sample {
                server: self.server.id,
                tick: None,
                events: vec![event],
                completed: Vec::new(),
                blocking: Vec::new(),
            });
        }
    }
}

/// An error that leaves the connection usable is none of the tick's.
fn unless_fatal(error: ClientError) -> Result<(), ClientError> {
    match error.is_fatal() {
        true => Err(error),
        false => Ok(()),
    }
}

/// What ran of a statement since the last look.
fn statement_delta(before: Option<&Statement>, now: &Statement) -> Option<Completed> {
    let zero = Statement::default();
    let before = before
        .filter(|b| b.executions <= now.executions)
        .unwrap_or(&zero);
    let executions = now.executions - before.executions;
    if executions <= 0 {
        return None;
    }
    let elapsed = now.elapsed_us - before.elapsed_us;
    if elapsed < COMPLETED_MS_MIN * 100 {
        return None;
    }
    Some(Completed {
        kind: "statement".into(),
        started: now.last_started,
        duration_us: if executions == 1 {
            now.last_elapsed_us
        } else {
            elapsed
        },
        cpu_us: (now.cpu_us - before.cpu_us).max(0),
        reads: (now.reads - before.reads).max(0),
        writes: (now.writes - before.writes).max(0),
        rows: (now.rows - before.rows).max(0),
        wait_ms: (now.wait_us - before.wait_us).max(0) / 1_000,
        log_wait_ms: (now.log_wait_us - before.log_wait_us).max(0) / 1_000,
        lock_wait_ms: (now.lock_wait_us - before.lock_wait_us).max(0) / 1_000,
        io_wait_ms: (now.io_wait_us - before.io_wait_us).max(0) / 1_000,
        executions,
        ..Completed::default()
    })
}

/// The requests that are blocked, and those that block them.
fn tree(requests: &[Request]) -> Vec<Request> {
    let blockers: Vec<i64> = requests.iter().map(|r| r.blocked_by).collect();
    requests
        .iter()
        .filter(|r| r.blocked_by > 0 || blockers.contains(&r.session))
        .cloned()
        .collect()
}
