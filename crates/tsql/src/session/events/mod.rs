//! Event sessions: their statements, and what this room makes events of.
//!
//! Theory: a statement checks the whole definition before it stores anything, so that what is stored starts. A session that runs goes
//! on by its changed definition at once; its targets keep what they hold unless they changed themselves.
//!
//! | statement | permission | error |
//! |---|---|---|
//! | CREATE EVENT SESSION | ALTER ANY EVENT SESSION | 15247 |
//! | ALTER, DROP EVENT SESSION | ALTER ANY EVENT SESSION | 15151 |
//!
//! Map: `parts` (events and targets), `options` (WITH), `tell` (events of requests, statements and errors).

mod options;
mod parts;
mod tell;

pub(crate) use tell::RequestWatch;

use super::execution::Execution;
use crate::error::Result;
use crate::instance::events::check_target;
use crate::messages;
use daruma_catalog::EventSessionDef;
use daruma_syntax::ast::{EventSession, EventSessionChange, EventSessionVerb, OptionItem};
use std::sync::Arc;

const PERMISSION: &str = "ALTER ANY EVENT SESSION";
const FIRST_ID: i32 = 65_536;
/// Sessions of a server.
const SESSIONS_MAX: usize = 100;

impl Execution<'_> {
    pub(crate) fn run_event_session(&self, statement: &EventSession) -> Result<()> {
        if statement.on_database {
            return Err(messages::not_supported("ON DATABASE"));
        }
        let name = statement.name.text.as_str();
        self.instance().events.alone(|| {
            self.may_run_event_session(statement)?;
            match &statement.verb {
                EventSessionVerb::Create { changes, options } => {
                    self.create_event_session(name, changes, options)
                }
                verb => self.change_event_session(&self.session_to(statement)?, verb),
            }
        })
    }

    /// Errors 15247 and, of what is not there as well, 15151.
    pub(crate) fn may_run_event_session(&self, statement: &EventSession) -> Result<()> {
        match statement.verb {
            EventSessionVerb::Create { .. } if self.may_alter_event_sessions() => Ok(()),
            EventSessionVerb::Create { .. } => Err(messages::error(15247, &[])),
            _ => self.session_to(statement).map(|_| ()),
        }
    }

    fn may_alter_event_sessions(&self) -> bool {
        self.state.server_rights().has(PERMISSION)
    }

    fn session_to(&self, statement: &EventSession) -> Result<Arc<EventSessionDef>> {
        let name = statement.name.text.as_str();
        let verb = match statement.verb {
            EventSessionVerb::Drop => "drop",
            _ => "alter",
        };
        let found = self.instance().events.definition(name);
        found
            .filter(|_| self.may_alter_event_sessions())
            .ok_or_else(|| messages::error(15151, &[&verb, &"event session", &name]))
    }

    fn create_event_session(
        &self,
        name: &str,
        changes: &[EventSessionChange],
        options: &[OptionItem],
    ) -> Result<()> {
        let events = &self.instance().events;
        if events.definition(name).is_some() {
            return Err(messages::error(25631, &[&"event session", &name]));
        }
        if events.definitions.all().len() >= SESSIONS_MAX {
            return Err(messages::error(25601, &[]));
        }
        let created_utc = self.instance().now_utc();
        events.definitions.create(FIRST_ID, |id| {
            let mut def = EventSessionDef {
                id,
                name: name.to_string(),
                starts_with_server: false,
                max_memory_kb: 4_096,
                max_event_kb: 0,
                loses_several: false,
                dispatch_latency_s: 30,
                events: Vec::new(),
                targets: Vec::new(),
                created_utc,
            };
            self.apply_to_session(&mut def, changes, options)?;
            Ok(def)
        })?;
        Ok(())
    }

    fn apply_to_session(
        &self,
        def: &mut EventSessionDef,
        changes: &[EventSessionChange],
        given: &[OptionItem],
    ) -> Result<()> {
        changes
            .iter()
            .try_for_each(|change| parts::apply(def, change))?;
        options::apply(def, given)?;
        let targets = def.targets.iter();
        targets
            .into_iter()
            .try_for_each(|t| check_target(self.instance(), def, t))
    }

    fn change_event_session(
        &self,
        def: &Arc<EventSessionDef>,
        verb: &EventSessionVerb,
    ) -> Result<()> {
        let events = &self.instance().events;
        let running = events.running_of(def.id).is_some();
        match verb {
            EventSessionVerb::Start if running => Err(messages::error(25705, &[])),
            EventSessionVerb::Start => events.start(self.instance(), def),
            EventSessionVerb::Stop if !running => Err(messages::error(25704, &[])),
            EventSessionVerb::Drop | EventSessionVerb::Stop => {
                if *verb == EventSessionVerb::Drop {
                    events.definitions.remove(def.id, || Ok(()))?;
                }
                events.stop(def.id);
                Ok(())
            }
            EventSessionVerb::Create { changes, options }
            | EventSessionVerb::Alter { changes, options } => {
                if running {
                    options::check_running(options)?;
                }
                let change =
                    |fresh: &mut EventSessionDef| self.apply_to_session(fresh, changes, options);
                let changed = events.definitions.change(def.id, change)?;
                match changed.filter(|_| running) {
                    Some(changed) => events.start(self.instance(), &changed),
                    None => Ok(()),
                }
            }
        }
    }
}
