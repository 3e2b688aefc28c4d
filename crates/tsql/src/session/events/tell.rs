//! Events of requests, statements and errors. Each asks first whether anybody wants it.

use crate::error::SqlError;
use crate::instance::Activity;
use crate::instance::events::words::WAITS;
use crate::instance::events::{EventKind, Fact, Occurrence};
use crate::session::execution::Execution;
use crate::session::fail::Step;
use crate::session::frame::FrameKind;
use crate::session::interpreter::Flow;
use crate::session::{RpcRequest, SessionState};
use daruma_syntax::ast::Statement;
use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Errors from here on are the users'.
const FIRST_USER_ERROR: i32 = 50_000;
/// Results of requests, as `words::RESULTS` names them.
const OK: i64 = 0;
const ERROR: i64 = 1;
const ABORT: i64 = 2;

/// What an event of the running request will tell.
#[derive(Default)]
pub(crate) struct RequestWatch {
    /// The event that its end will be; none for what is neither a batch nor a call.
    kind: Cell<Option<EventKind>>,
    /// An error was sent to the client.
    pub failed: Cell<bool>,
    /// Each wait of the thread is remembered.
    traces_waits: Cell<bool>,
    /// The procedure that is called; only where somebody wants to know.
    object: RefCell<String>,
}

impl SessionState {
    /// The next request is a batch.
    pub(crate) fn watch_batch(&self) {
        self.watch.kind.set(Some(EventKind::BatchCompleted));
    }

    /// The next request is a call.
    pub(crate) fn watch_call(&self, requests: &[RpcRequest]) {
        self.watch.kind.set(Some(EventKind::RpcCompleted));
        if self.instance.events.wants(EventKind::RpcCompleted) {
            let name = requests.first().map_or("", RpcRequest::object_name);
            self.watch.object.replace(name.to_string());
        }
    }

    /// The next request is neither.
    pub(crate) fn watch_nothing(&self) {
        self.watch.kind.set(None);
    }

    /// The event that the end of the running request is, if anybody wants it.
    pub(crate) fn watched_request(&self) -> Option<EventKind> {
        let kind = self.watch.kind.get()?;
        self.instance.events.wants(kind).then_some(kind)
    }

    /// A request begins: its processor time counts from here when an event will tell it.
    pub(crate) fn begin_watch(&self) {
        self.watch.failed.set(false);
        let traces = self.instance.events.wants_any(WAITS);
        if traces || self.watch.traces_waits.get() {
            let clock = &self.instance.env().clock;
            daruma_base::trace_thread_waits(traces.then(|| clock.clone()));
            self.watch.traces_waits.set(traces);
        }
        if self.watched_request().is_some() {
            self.entry
                .cpu_us
                .store(self.thread_cpu_us(), Ordering::Relaxed);
        }
    }

    /// Processor time of the thread, in microseconds.
    pub(crate) fn thread_cpu_us(&self) -> u64 {
        micros(self.instance.env().clock.thread_cpu())
    }

    /// The running request has ended. `before` is what the session had done when it began.
    pub(crate) fn tell_request(
        &self,
        kind: EventKind,
        before: &Activity,
        now: i64,
        cpu_before: u64,
    ) {
        let io = daruma_storage::thread_io();
        let cpu = self.entry.cpu_us.load(Ordering::Relaxed);
        let result = match (self.entry.cancel.get().is_some(), self.watch.failed.get()) {
            (true, _) => ABORT,
            (false, true) => ERROR,
            (false, false) => OK,
        };
        let object = self.watch.object.borrow();
        let figures = [
            Fact::from(cpu.saturating_sub(cpu_before)),
            Fact::Number((now - before.request_start_utc) / 10),
            Fact::from(io.physical_reads.saturating_sub(before.reads)),
            Fact::from(io.logical_reads.saturating_sub(before.logical_reads)),
            Fact::from(io.logical_writes.saturating_sub(before.writes)),
            Fact::Number(0),
            Fact::from(self.row_count.get()),
            Fact::Number(result),
        ];
        let texts = match kind {
            EventKind::RpcCompleted => vec![Fact::from(object.as_str()), Fact::from(&*before.text)],
            _ => vec![Fact::from(&*before.text)],
        };
        let facts: Vec<Fact<'_>> = figures.into_iter().chain(texts).collect();
        self.tell(kind, &facts, now);
    }

    /// The waits since this was last asked are events. Those of a request that began before anybody wanted them are not.
    pub(crate) fn tell_waits(&self) {
        if !self.watch.traces_waits.get() {
            return;
        }
        let (waits, lost) = daruma_base::take_traced_waits();
        for wait in waits {
            let (kind, ms) = (wait.kind as i64, wait.ns / 1_000_000);
            let [kind, ms, none] = [Fact::Number(kind), Fact::from(ms), Fact::Number(0)];
            if self.instance.events.wants(EventKind::WaitInfo) {
                let facts = [kind.clone(), Fact::Number(1), ms.clone(), none.clone()];
                self.tell(EventKind::WaitInfo, &facts, wait.ended_utc);
            }
            if self.instance.events.wants(EventKind::WaitCompleted) {
                self.tell(EventKind::WaitCompleted, &[kind, ms, none], wait.ended_utc);
            }
        }
        if lost > 0 {
            for session in self.instance.events.running().iter() {
                session.count_lost(EventKind::WaitInfo, lost);
                session.count_lost(EventKind::WaitCompleted, lost);
            }
        }
    }

    fn tell(&self, kind: EventKind, facts: &[Fact<'_>], at_utc: i64) {
        self.instance.events.tell(&Occurrence {
            kind,
            facts,
            instance: &self.instance,
            session: &self.entry,
            at_utc,
        });
    }
}

impl Execution<'_> {
    /// Runs a statement, and tells its end and its waits when somebody wants to know. Ends of those of modules are other events of
    /// the product's.
    pub(crate) fn run_told(&self, statement: &Statement) -> Step<Flow> {
        let result = self.run_watched(statement);
        self.state.tell_waits();
        result
    }

    fn run_watched(&self, statement: &Statement) -> Step<Flow> {
        let is_wanted = self.instance().events.wants(EventKind::StatementCompleted);
        let is_of_batch = self.top(|f| matches!(f.kind, FrameKind::Batch | FrameKind::Dynamic));
        if !is_wanted || !is_of_batch || self.in_function() {
            return self.run_plain(statement).map(|()| Flow::Next);
        }
        let s = self.state;
        let clock = &s.instance.env().clock;
        let (began, cpu, io) = (
            clock.monotonic(),
            clock.thread_cpu(),
            daruma_storage::thread_io(),
        );
        let result = self.run_plain(statement);
        let now_io = daruma_storage::thread_io();
        let since = |now: Duration, then: Duration| Fact::from(micros(now.saturating_sub(then)));
        let batch = self.running_batch();
        let text = batch.as_ref().map_or("", |b| &*b.text);
        let offset = |byte: usize| {
            let before = text.get(..byte).unwrap_or("");
            Fact::from(before.encode_utf16().count() as u64 * 2)
        };
        let rows = s.row_count.get();
        let facts = [
            since(clock.monotonic(), began),
            since(clock.thread_cpu(), cpu),
            Fact::from(now_io.physical_reads.saturating_sub(io.physical_reads)),
            Fact::from(now_io.logical_reads.saturating_sub(io.logical_reads)),
            Fact::from(now_io.logical_writes.saturating_sub(io.logical_writes)),
            Fact::Number(0),
            Fact::from(rows),
            Fact::from(rows),
            Fact::Number(i64::from(self.top(|f| f.line) + statement.span.line as i32)),
            offset(statement.span.start),
            offset(statement.span.end),
            Fact::from(statement.span.text(text)),
        ];
        s.tell(EventKind::StatementCompleted, &facts, s.instance.now_utc());
        result.map(|()| Flow::Next)
    }

    /// A message goes to the client, or an error to a CATCH.
    pub(crate) fn tell_message(&self, message: &SqlError, is_intercepted: bool) {
        let s = self.state;
        if message.number == 0 || !s.instance.events.wants(EventKind::ErrorReported) {
            return;
        }
        let facts = [
            Fact::Number(i64::from(message.number)),
            Fact::Number(i64::from(message.class)),
            Fact::Number(i64::from(message.state)),
            Fact::Switch(message.number >= FIRST_USER_ERROR),
            Fact::Number(2),
            Fact::Number(2),
            Fact::Switch(is_intercepted),
            Fact::from(message.message.as_str()),
        ];
        s.tell(EventKind::ErrorReported, &facts, s.instance.now_utc());
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
