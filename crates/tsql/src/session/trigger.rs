//! Triggers: found by parent, run in frames of their own with `inserted` and `deleted`.
//!
//! An INSTEAD OF trigger stands for the change: what it changes of its own table or view itself is done as if it were not
//! there. So whether it is to be run depends on what runs already, and no plan that asked for it is kept.

use super::execution::Execution;
use super::fail::Stop;
use super::frame::{Frame, FrameKind, TriggerRows};
use super::transaction::Transaction;
use crate::error::{Result, SqlError};
use crate::executor::SharedRows;
use crate::host::{Host, Images, InsteadTarget, TableKind, TableRef, TriggerAction, VirtualTable};
use crate::messages;
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_catalog::{Object, ObjectKind, TableDef, TriggerDef};
use daruma_syntax::ast::{ModuleBody, ObjectName, Statement, StatementKind};
use daruma_value::Value;
use std::sync::Arc;

/// Internal number: a trigger ended the batch, everything was said already.
pub(crate) const TRIGGER_ENDED: i32 = -3609;

/// `inserted` or `deleted` as a table.
pub(crate) struct TriggerTable {
    name: &'static str,
    columns: Vec<OutputColumn>,
    rows: Arc<SharedRows>,
}

impl TriggerTable {
    /// The table `inserted` or `deleted` with these rows; `None` for another name.
    pub fn named(rows: &TriggerRows, name: &str) -> Option<TriggerTable> {
        let (name, rows_of) = match name {
            n if n.eq_ignore_ascii_case("inserted") => ("inserted", &rows.images.inserted),
            n if n.eq_ignore_ascii_case("deleted") => ("deleted", &rows.images.deleted),
            _ => return None,
        };
        let column = |c: &daruma_catalog::ColumnDef| OutputColumn {
            name: c.name.clone(),
            data_type: c.data_type,
            collation: c.collation,
            nullable: true,
            identity: false,
            computed: false,
        };
        Some(TriggerTable {
            name,
            columns: rows.table.def.columns.iter().map(column).collect(),
            rows: rows_of.clone(),
        })
    }
}

impl VirtualTable for TriggerTable {
    fn name(&self) -> &str {
        self.name
    }

    fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    fn rows(
        &self,
        _host: &dyn Host,
        _database: DatabaseId,
        _arguments: &[Value],
    ) -> Result<Vec<Vec<Value>>> {
        self.rows.all()
    }

    fn gathered(&self) -> Option<&Arc<SharedRows>> {
        Some(&self.rows)
    }
}

impl Execution<'_> {
    /// Enabled triggers for an action, oldest first.
    pub(crate) fn trigger_objects(
        &self,
        table: &TableRef,
        action: TriggerAction,
    ) -> Result<Vec<Arc<Object>>> {
        if table.kind != TableKind::User {
            return Ok(Vec::new());
        }
        let catalog = self.state.catalog(table.database.id())?;
        let fires = |object: &&Arc<Object>| matches!(&object.kind, ObjectKind::Trigger(t) if is_for(t, action));
        Ok(catalog
            .triggers_of(table.object_id)
            .filter(fires)
            .cloned()
            .collect())
    }

    pub(crate) fn run_triggers(
        &self,
        table: &TableRef,
        action: TriggerAction,
        images: Images,
        updated_columns: &[i32],
        count: u64,
    ) -> Result<()> {
        let triggers = self.trigger_objects(table, action)?;
        if triggers.is_empty() || !self.may_cascade() {
            return Ok(());
        }
        self.run_each_trigger(&triggers, table, images, updated_columns, count)
    }

    pub(crate) fn run_each_trigger(
        &self,
        triggers: &[Arc<Object>],
        table: &TableRef,
        images: Images,
        updated_columns: &[i32],
        count: u64,
    ) -> Result<()> {
        if triggers.is_empty() {
            return Ok(());
        }
        let rows = Arc::new(TriggerRows {
            table: table.clone(),
            images,
            updated_columns: updated_columns.to_vec(),
            count,
            instead_of: triggers.iter().any(is_instead),
        });
        let mut triggers = triggers.iter();
        self.with_transaction_counted(|| {
            triggers.try_for_each(|trigger| self.run_trigger(trigger, table, &rows))
        })
    }

    /// Runs triggers: without BEGIN TRANSACTION the statement's own transaction counts as one inside them.
    pub(super) fn with_transaction_counted(&self, run: impl FnOnce() -> Result<()>) -> Result<()> {
        let autocommit = self.state.trancount.get() == 0;
        if autocommit {
            self.state.trancount.set(1);
        }
        let result = run();
        // One that a trigger has begun after its ROLLBACK is none of the statement's.
        let is_own = |t: &Transaction| t.autocommit;
        let is_still_own = self.state.transaction.borrow().as_ref().is_none_or(is_own);
        match autocommit && is_still_own {
            true => result.and(self.keep_one_fewer().map_err(|stop| ended_by(&stop))),
            false => result,
        }
    }

    /// With `nested triggers` 0 nothing that an AFTER trigger does fires another one; those of definitions are such too.
    pub(super) fn may_cascade(&self) -> bool {
        let is_instead = |f: &Frame| f.trigger.as_ref().is_some_and(|t| t.instead_of);
        let is_after = |f: &Frame| f.kind == FrameKind::Trigger && !is_instead(f);
        let configuration = &self.state.instance.configuration;
        configuration.in_use("nested triggers") != 0
            || !self.state.frames.borrow().iter().any(is_after)
    }

    /// The INSTEAD OF trigger for an action, unless it runs already.
    pub(crate) fn instead_trigger(
        &self,
        database: DatabaseId,
        object: i32,
        action: TriggerAction,
    ) -> Result<Option<Arc<Object>>> {
        let catalog = self.state.catalog(database)?;
        let fires = |o: &&Arc<Object>| matches!(&o.kind, ObjectKind::Trigger(t) if t.instead_of && !t.disabled && has_event(t, action));
        let Some(trigger) = catalog.triggers_of(object).find(fires) else {
            return Ok(None);
        };
        self.note_private();
        let frames = self.state.frames.borrow();
        // The objects of another database have the same ids.
        let runs = |f: &Frame| {
            f.kind == FrameKind::Trigger && f.home == database && f.object_id == trigger.id
        };
        Ok((!frames.iter().any(runs)).then(|| trigger.clone()))
    }

    /// The table or view of the name, if its INSTEAD OF trigger is to be run.
    pub(crate) fn instead_target(
        &self,
        name: &ObjectName,
        action: TriggerAction,
    ) -> Result<Option<InsteadTarget>> {
        if name.is_temporary() || name.server.is_some() {
            return Ok(None);
        }
        let Some((database, object)) = self.find_object(name)? else {
            return Ok(None);
        };
        if self.instead_trigger(database, object.id, action)?.is_none() {
            return Ok(None);
        }
        let ObjectKind::View(module) = &object.kind else {
            let table = self.table_by_id(database, object.id)?;
            let is_view = false;
            return Ok(Some(InsteadTarget { table, is_view }));
        };
        let open = self.state.instance.open_database(database)?;
        let catalog = self.state.catalog(database)?;
        let schema = catalog.schema(object.schema_id);
        let table = TableRef {
            database: open.storage,
            object_id: object.id,
            schema_name: schema.map_or_else(String::new, |s| s.name.clone()),
            name: object.name.clone(),
            def: Arc::new(TableDef {
                columns: module.columns.clone(),
                ..TableDef::default()
            }),
            kind: TableKind::User,
            table_type: None,
        };
        let is_view = true;
        Ok(Some(InsteadTarget { table, is_view }))
    }

    fn run_trigger(
        &self,
        object: &Arc<Object>,
        table: &TableRef,
        rows: &Arc<TriggerRows>,
    ) -> Result<()> {
        let ObjectKind::Trigger(trigger) = &object.kind else {
            return Ok(());
        };
        if self.is_recursive(object.id, table) {
            return Ok(());
        }
        self.check_depth()?;
        let home = table.database.id();
        let batch = self.module_batch(home, &trigger.module)?;
        let Some(StatementKind::CreateTrigger(create)) = batch.statements.first().map(|s| &s.kind)
        else {
            return Err(messages::error(208, &[&object.name]));
        };
        let ModuleBody::Statements(body) = &create.body else {
            return Err(messages::not_supported("EXTERNAL NAME"));
        };
        let mut frame = self.module_frame(FrameKind::Trigger, object, batch.clone(), (home, home));
        frame.trigger = Some(rows.clone());
        self.enter_module(&trigger.module, create.options.execute_as.as_ref(), &frame)?;
        self.state.row_count.set(rows.count);
        self.run_trigger_frame(frame, body)
    }

    /// Runs the body of a trigger in its frame, which was entered; the error tells what becomes of the statement that fired it.
    pub(super) fn run_trigger_frame(&self, frame: Frame, body: &[Statement]) -> Result<()> {
        // SET in the trigger may turn it off; the frame's end brings the session's back.
        self.state.settings.borrow_mut().xact_abort = true;
        let changes_rows = self.changes_rows.replace(false);
        let depth = self.depth.get();
        let before = self.state.transaction_id();
        let result = self.run_frame(frame, body);
        self.depth.set(depth);
        self.changes_rows.set(changes_rows);
        let rolled_back = before != self.state.transaction_id();
        match result {
            Ok(_) if rolled_back => Err(messages::error(3609, &[])),
            // It has caught an error, and goes on as if nothing had been: what it belongs to must not commit.
            Ok(_) if self.state.is_doomed() => Err(messages::error(3616, &[])),
            Ok(_) => Ok(()),
            // What fired it cannot begin anew: its transaction is gone.
            Err(Stop::Caught(error)) if rolled_back && matches!(error.number, 2801 | 3961) => {
                Err(messages::error(3609, &[]))
            }
            Err(Stop::Caught(error)) => Err(error),
            Err(stop) => Err(ended_by(&stop)),
        }
    }

    /// Direct recursion is off unless the database asks for it.
    fn is_recursive(&self, trigger: i32, table: &TableRef) -> bool {
        let home = table.database.id();
        let is_it = |f: &Frame| f.home == home && f.object_id == trigger;
        self.runs_innermost(is_it) && !self.has_recursion(home)
    }

    /// Is the trigger that runs, the innermost of them, one that fits? The texts and procedures that it runs are its own doing.
    pub(super) fn runs_innermost(&self, fits: impl FnOnce(&Frame) -> bool) -> bool {
        let frames = self.state.frames.borrow();
        let mut running = frames.iter().rev();
        let innermost = running.find(|f| f.kind == FrameKind::Trigger);
        innermost.is_some_and(fits)
    }

    /// Do the triggers of the database fire themselves?
    pub(super) fn has_recursion(&self, database: DatabaseId) -> bool {
        let entry = self.state.instance.database(database);
        entry.is_some_and(|e| e.def().option_is_on("RECURSIVE_TRIGGERS"))
    }

    /// Error of a change whose triggers ran: one that is already told only ends the batch.
    pub(crate) fn after_trigger(&self, command: u16, error: SqlError) -> Stop {
        match error.number {
            TRIGGER_ENDED => match stop_of(&error) {
                Stop::Batch => {
                    self.changes_rows.set(false);
                    match self.done(command, None, true) {
                        Ok(()) => Stop::Batch,
                        Err(stop) => stop,
                    }
                }
                stop => stop,
            },
            3609 => {
                self.changes_rows.set(false);
                let stop = self.failed(command, error);
                match stop {
                    Stop::Statement => Stop::Batch,
                    other => other,
                }
            }
            _ => self.failed(command, error),
        }
    }
}

/// An error that stands for a stop on its way through the query rooms; the class tells which.
pub(super) fn ended_by(stop: &Stop) -> SqlError {
    let class = match stop {
        Stop::Connection => 25,
        Stop::ClientGone => 24,
        Stop::Cancelled => 23,
        _ => 16,
    };
    SqlError::new(
        TRIGGER_ENDED,
        class,
        1,
        "The batch was ended inside a trigger or INSERT .. EXEC.",
    )
}

/// The stop that such an error stands for.
pub(super) fn stop_of(error: &SqlError) -> Stop {
    match error.class {
        25 => Stop::Connection,
        24 => Stop::ClientGone,
        23 => Stop::Cancelled,
        _ => Stop::Batch,
    }
}

fn is_instead(object: &Arc<Object>) -> bool {
    matches!(&object.kind, ObjectKind::Trigger(t) if t.instead_of)
}

fn is_for(trigger: &TriggerDef, action: TriggerAction) -> bool {
    has_event(trigger, action) && !trigger.disabled && !trigger.instead_of
}

fn has_event(trigger: &TriggerDef, action: TriggerAction) -> bool {
    match action {
        TriggerAction::Insert => trigger.on_insert,
        TriggerAction::Update => trigger.on_update,
        TriggerAction::Delete => trigger.on_delete,
    }
}
