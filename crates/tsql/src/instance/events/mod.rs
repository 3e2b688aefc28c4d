//! Extended events: definitions in master, sessions that run, and the one question that everything which may be an event asks.
//!
//! Theory: what may be an event asks [`Events::wants`], one relaxed load, and goes on when no session wants its kind. Otherwise it
//! tells its facts as they lie ([`Occurrence`]); each session asks its predicate, and only then text is made of them, on the thread
//! where the event occurred. Targets are bounded, and none is waited for: `ring_buffer` takes what comes and lets the oldest go,
//! `event_file` has a queue that others write ([`Events::dispatch`]), and counts what finds no room there.
//!
//! Invariants
//! 1. A session that runs has a stored definition, and runs as that definition says.
//! 2. An event never fails what it tells of: errors of targets are counted.
//!
//! Map: `words` (what there is), `occurrence` (facts and their XML), `predicate`, `running` (a started session), `ring` and `file`
//! (targets), `health` (the session that is there from the first start), `deadlock` (its graph).

mod deadlock;
pub mod file;
mod health;
mod occurrence;
mod predicate;
mod ring;
mod running;
pub mod words;

pub use occurrence::{Fact, Occurrence};
pub(crate) use occurrence::{put_text, timestamp, without_secrets};
pub use running::{RunningSession, RunningTarget, Target, check_event, check_target};
pub use words::EventKind;

pub(crate) use health::make_health_session;

use super::Instance;
use super::hadr::ServerRows;
use crate::error::Result;
use daruma_catalog::{Catalog, EventSessionDef, names_equal};
use parking_lot::{Mutex, RwLock};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Event sessions of the server.
pub struct Events {
    pub definitions: ServerRows<EventSessionDef>,
    /// Bits of the kinds that some running session wants.
    wanted: AtomicU32,
    running: RwLock<Arc<Vec<Arc<RunningSession>>>>,
    /// Held by whoever starts, stops or changes sessions.
    changing: Mutex<()>,
}

impl Events {
    /// Reads the definitions from `master`. None runs yet.
    pub fn load(master: &Arc<Catalog>) -> Result<Events> {
        Ok(Events {
            definitions: ServerRows::load(master.clone())?,
            wanted: AtomicU32::new(0),
            running: RwLock::default(),
            changing: Mutex::default(),
        })
    }

    /// Does any session want events of this kind?
    #[inline]
    pub fn wants(&self, kind: EventKind) -> bool {
        self.wanted.load(Ordering::Relaxed) & kind.bit() != 0
    }

    /// Does any session want events of one of these kinds? By their bits.
    #[inline]
    pub fn wants_any(&self, bits: u32) -> bool {
        self.wanted.load(Ordering::Relaxed) & bits != 0
    }

    /// Tells an event to the sessions that want its kind.
    pub fn tell(&self, event: &Occurrence<'_>) {
        self.running()
            .iter()
            .for_each(|session| session.take(event));
    }

    /// The sessions that run.
    pub fn running(&self) -> Arc<Vec<Arc<RunningSession>>> {
        self.running.read().clone()
    }

    /// The definition of this name, in any case.
    pub fn definition(&self, name: &str) -> Option<Arc<EventSessionDef>> {
        self.definitions.find(|d| names_equal(&d.name, name))
    }

    /// The running session of a definition.
    pub fn running_of(&self, id: i32) -> Option<Arc<RunningSession>> {
        self.running().iter().find(|s| s.def.id == id).cloned()
    }

    /// Runs `work` while nobody else starts, stops or changes a session.
    pub fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        let _one = self.changing.lock();
        work()
    }

    /// Starts a session, or lets a running one go on by its changed definition. Called within [`Events::alone`].
    pub fn start(&self, instance: &Instance, def: &Arc<EventSessionDef>) -> Result<()> {
        let before = self.running_of(def.id);
        let session = RunningSession::new(instance, def, before.as_deref())?;
        self.replace(def.id, Some(Arc::new(session)));
        Ok(())
    }

    /// Stops a session; what waits for its files is written. False when it does not run. Called within [`Events::alone`].
    pub fn stop(&self, id: i32) -> bool {
        let Some(before) = self.running_of(id) else {
            return false;
        };
        self.replace(id, None);
        before.flush();
        true
    }

    fn replace(&self, id: i32, session: Option<Arc<RunningSession>>) {
        let mut running = self.running.write();
        let others = running.iter().filter(|s| s.def.id != id).cloned();
        let list: Vec<_> = others.chain(session).collect();
        let wanted = list.iter().fold(0, |bits, session| bits | session.wanted());
        *running = Arc::new(list);
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// Writes what has waited long enough for files. Called now and then.
    pub fn dispatch(&self, now_utc: i64) {
        self.running().iter().for_each(|s| s.dispatch(now_utc));
    }

    /// Writes all that waits for files.
    pub fn flush(&self) {
        self.running().iter().for_each(|s| s.flush());
    }
}

impl Instance {
    /// The folder of the error log and of files of events.
    pub fn log_folder(&self) -> PathBuf {
        self.data_dir.join("log")
    }

    /// Starts the sessions that start with the server. One that cannot is told in the error log.
    pub(crate) fn start_event_sessions(self: &Arc<Self>) {
        if let Err(error) = make_health_session(self) {
            let text = format!("The event session system_health is not there: {error}");
            self.log.write("Server", &text);
        }
        self.watch_deadlocks();
        for def in self.events.definitions.all() {
            if !def.starts_with_server {
                continue;
            }
            if let Err(error) = self.events.alone(|| self.events.start(self, &def)) {
                let text = format!("The event session {} is not started: {error}", def.name);
                self.log.write("Server", &text);
            }
        }
    }
}
