//! Triggers of definitions: what they hear of, and how they run.
//!
//! Theory: a statement of definition fires them when it has done its work and before its transaction ends, so that what they
//! write is committed with the definition, and their ROLLBACK takes both back. Which ones these are is read before the statement
//! runs: one is not told of its own making, and is told of its end. A frame holds the event; EVENTDATA reads it there, and
//! nowhere else. What changes the server or the owner of a database is no part of a transaction: its triggers run before it, so
//! that their ROLLBACK keeps it from happening, and rights are asked before they do.
//!
//! They belong to no schema and no owner: no ownership chain begins in them.
//!
//! Map: `types` (the events there are), `event` (which of them a statement is), `beyond` (what no transaction takes back), `document`
//! (what EVENTDATA shows), `logon`.

mod beyond;
mod document;
mod event;
mod logon;
pub(crate) mod types;

pub(crate) use event::Event;

use super::execution::Execution;
use super::fail::Step;
use super::frame::{Frame, FrameKind};
use crate::error::Result;
use crate::instance::MASTER;
use crate::messages;
use beyond::is_beyond_transaction;
use daruma_base::DatabaseId;
use daruma_catalog::{DdlTriggerDef, SCHEMA_DBO};
use daruma_syntax::ast::{ModuleBody, Statement, StatementKind};
use std::sync::Arc;

/// A trigger and the database in which it is defined: master for those of the server.
type Found = (DatabaseId, Arc<DdlTriggerDef>);

/// Events, each with those who hear of it.
pub(crate) struct Told(Vec<(Event, Vec<Found>)>);

impl Execution<'_> {
    /// Is there a trigger of definitions that may hear of something in the database?
    pub(super) fn listens_in(&self, database: DatabaseId) -> bool {
        let has_any = |database: DatabaseId, on_server: bool| {
            let catalog = self.state.catalog(database);
            catalog.is_ok_and(|c| {
                c.ddl_triggers()
                    .any(|t| t.on_server == on_server && !t.disabled)
            })
        };
        has_any(database, false) || has_any(MASTER, true)
    }

    /// Who is to hear of what the statement is about to do.
    pub(crate) fn told_of(&self, kind: &StatementKind) -> Result<Told> {
        let mut events = self.events_of(kind);
        events.retain(|event| self.listens_in(event.database));
        self.told_of_events(events)
    }

    pub(crate) fn told_of_events(&self, events: Vec<Event>) -> Result<Told> {
        let mut told = Vec::new();
        for event in events {
            let found = self.triggers_for(&event)?;
            if !found.is_empty() {
                told.push((event, found));
            }
        }
        Ok(Told(told))
    }

    /// Enabled triggers for an event, those of the server first, each kind oldest first.
    fn triggers_for(&self, event: &Event) -> Result<Vec<Found>> {
        let Some(of) = types::by_number(event.number) else {
            return Ok(Vec::new());
        };
        let mut list = Vec::new();
        for (database, on_server) in [(MASTER, true), (event.database, false)] {
            let catalog = self.state.catalog(database)?;
            let fires = |t: &&Arc<DdlTriggerDef>| {
                t.on_server == on_server
                    && !t.disabled
                    && t.events.iter().any(|group| of.is_within(*group))
            };
            let found = catalog.ddl_triggers().filter(fires);
            list.extend(found.map(|t| (database, t.clone())));
        }
        Ok(list)
    }

    /// Runs the triggers of what a statement has done.
    pub(crate) fn fire(&self, told: &Told, text: &str) -> Result<()> {
        if told.0.is_empty() || self.state.is_own.get() || !self.may_cascade() {
            return Ok(());
        }
        self.with_transaction_counted(|| {
            for (event, triggers) in &told.0 {
                let document: Arc<str> = Arc::from(self.document(event, text));
                for (database, trigger) in triggers {
                    self.run_ddl_trigger(*database, trigger, &document)?;
                }
            }
            Ok(())
        })
    }

    fn run_ddl_trigger(
        &self,
        home: DatabaseId,
        trigger: &DdlTriggerDef,
        document: &Arc<str>,
    ) -> Result<()> {
        if self.is_recursive_ddl(home, trigger.id) {
            return Ok(());
        }
        self.check_depth()?;
        let batch = self.module_batch(home, &trigger.module)?;
        let Some(StatementKind::CreateTrigger(create)) = batch.statements.first().map(|s| &s.kind)
        else {
            return Err(messages::error(208, &[&trigger.name]));
        };
        let ModuleBody::Statements(body) = &create.body else {
            return Err(messages::not_supported("EXTERNAL NAME"));
        };
        let mut frame = Frame::new(FrameKind::Trigger, batch.clone(), home);
        frame.module = Some(trigger.name.clone());
        frame.object_id = trigger.id;
        frame.schema_id = SCHEMA_DBO;
        frame.saved_settings = Some(self.state.settings.borrow().clone());
        frame.event = Some(document.clone());
        // Of one of the server it names a login.
        let login = trigger.runs_as.as_deref();
        let login = login.map(|sid| self.login_of_trigger(sid)).transpose()?;
        let context = create.options.execute_as.as_ref();
        let context = context.filter(|_| !trigger.on_server);
        self.enter_module(&trigger.module, context, &frame)?;
        if let Some(login) = login {
            self.enter_as(login);
        }
        self.state.row_count.set(0);
        self.run_trigger_frame(frame, body)
    }

    /// Direct recursion is off unless the database asks for it, as for triggers of tables.
    fn is_recursive_ddl(&self, home: DatabaseId, trigger: i32) -> bool {
        let is_it = |f: &Frame| f.event.is_some() && f.home == home && f.object_id == trigger;
        self.runs_innermost(is_it) && !self.has_recursion(home)
    }

    /// EVENTDATA in the trigger itself, and nowhere else.
    pub(super) fn event_data(&self) -> Option<Arc<str>> {
        self.top(|f| f.event.clone())
    }

    /// A statement of no room of definitions, with its triggers.
    pub(crate) fn run_with_triggers(
        &self,
        statement: &Statement,
        command: u16,
        work: impl FnOnce() -> Result<()>,
    ) -> Step<()> {
        let done = match is_beyond_transaction(&statement.kind) {
            true => self.tell_and(statement, work),
            false => self.do_and_tell(statement, work),
        };
        match done {
            Ok(()) => self.succeed(command),
            Err(error) => Err(self.after_trigger(command, error)),
        }
    }

    fn tell_and(&self, statement: &Statement, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let told = self.told_of(&statement.kind)?;
        if !told.0.is_empty() {
            self.may_begin(&statement.kind)?;
            self.atomic(|| self.fire(&told, &self.text_of(statement)))?;
        }
        work()
    }

    /// Who hears of it is found behind the wait for locks, which a trigger that is made meanwhile does not outrun.
    fn do_and_tell(&self, statement: &Statement, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let events = self.events_of(&statement.kind);
        if events.is_empty() {
            return work();
        }
        self.atomic(|| {
            work()?;
            let told = self.told_of_events(events)?;
            self.fire(&told, &self.text_of(statement))
        })
    }

    /// Tells of what no transaction takes back, before it is done.
    pub(crate) fn fire_before(
        &self,
        event: Option<Event>,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        let told = self.told_of_events(event.into_iter().collect())?;
        match told.0.is_empty() {
            true => Ok(()),
            false => self.atomic(|| self.fire(&told, &text())),
        }
    }

    /// The same of a procedure of the server.
    pub(crate) fn fire_before_call(&self, procedure: &str, changes: bool) -> Result<()> {
        let event = self.event_of_call(procedure).filter(|_| changes);
        // Its rule lets everybody see the options.
        let is_own = procedure == "sp_configure" && changes;
        if is_own && !self.state.server_rights().has("ALTER SETTINGS") {
            return Err(messages::error(15247, &[]));
        }
        self.fire_before(event, || format!("EXEC {procedure}"))
    }

    /// The statement as it was written.
    pub(crate) fn text_of(&self, statement: &Statement) -> String {
        let batch = self.running_batch();
        batch.map_or(String::new(), |b| statement.span.text(&b.text).to_string())
    }
}
