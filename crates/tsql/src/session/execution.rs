//! `Execution`: one request of a session. The host that statements see is `execution::host`.

mod host;
mod memory;

pub(in crate::session) use host::next_of;

use super::SessionState;
use super::client_cursor::Opening;
use super::definition_locks;
use super::fail::{Step, Stop};
use super::frame::Frame;
use super::plans::Planned;
use super::result_sets::DescribedSets;
use super::show::Counting;
use super::statistics::{TableReads, Uncommitted};
use super::text_size::CutColumn;
use super::transaction::{Mark, Transaction};
use crate::access::has_movable_columns;
use crate::error::{Result, SqlError};
use crate::host::*;
use crate::instance::Instance;
use crate::messages;
use crate::session::RequestEnd;
use crate::showplan::Plans;
use crate::sink::{Done, EnvChange, OutputColumn, Sink};
use daruma_base::DatabaseId;
use daruma_catalog::PropertyClass;
use daruma_storage::{Database, Isolation, LockMode, LockResource, ReadView, Savepoint, Txn};
use daruma_value::{CollationId, DataType, Value};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Stands for all catalog versions of the past: each table is compared with its definition.
const PLANNED_BEFORE: u64 = u64::MAX;
/// Resource of [`Execution::lock_definitions`].
const DEFINITIONS: &str = "definitions";

/// What the running statement sees of a database under an isolation.
type StatementView = (DatabaseId, Isolation, ReadView);

/// One request while it runs.
pub struct Execution<'a> {
    pub(crate) state: &'a SessionState,
    pub(super) sink: RefCell<&'a mut dyn Sink>,
    /// Rows go here instead of to the client: INSERT .. EXEC.
    pub(crate) captured: RefCell<Option<Vec<Vec<Value>>>>,
    /// Messages of the running statement, sent at its end.
    pending: RefCell<Vec<SqlError>>,
    /// Views of the running statement, so that all its reads see one state.
    views: RefCell<Vec<StatementView>>,
    /// Transaction for table variables during the running statement.
    pub(super) variable_txn: RefCell<Option<Txn>>,
    statement_now: Cell<Option<(i64, i16)>>,
    /// What NEXT VALUE FOR has given in the row that a statement is making.
    row_values: RefCell<Option<Vec<(TypeKey, Value)>>>,
    pub(crate) reads: RefCell<Vec<TableReads>>,
    /// The running statement is INSERT, UPDATE, DELETE or the like: 3621 follows its errors.
    pub(crate) changes_rows: Cell<bool>,
    pub(super) planned: Planned,
    /// Statements that run inside each other (triggers, functions).
    pub(crate) depth: Cell<u32>,
    /// Catalog version under which the running statement was planned.
    pub(super) planned_version: Cell<u64>,
    /// Calls of functions that run within each other.
    pub(super) functions: Cell<u32>,
    /// Table that was written last, for messages of conflicts.
    pub(crate) last_written: Cell<Option<(DatabaseId, i32)>>,
    /// Table that this statement writes to, for SET STATISTICS IO.
    pub(crate) written: RefCell<Option<String>>,
    /// The columns of a result set were sent, its end was not.
    pub(crate) rows_open: Cell<bool>,
    /// The running statement, or this attempt at it, has sent rows to the client.
    given: Cell<bool>,
    /// A table of the statement has the hint NOWAIT: nothing it does waits for locks.
    nowait: Cell<bool>,
    /// Columns of the result set at hand that SET TEXTSIZE cuts.
    pub(super) cut: RefCell<Vec<CutColumn>>,
    /// WITH RESULT SETS of the EXECUTE that runs.
    pub(super) described: RefCell<Option<DescribedSets>>,
    /// A client's cursor that is being opened.
    pub(super) opening: RefCell<Option<Opening>>,
    /// Keys of the variables that a query has named while it was bound, where somebody wants to know.
    noted_variables: RefCell<Option<HashSet<String>>>,
    /// Where the running statement's rows are counted, for STATISTICS XML and PROFILE.
    pub(super) counting: RefCell<Option<Counting>>,
    /// The change that was executed last, until its commit counts with it.
    pub(super) uncommitted: RefCell<Option<Uncommitted>>,
    /// Plans of the text that SHOWPLAN_XML shows.
    pub(super) shown: RefCell<Option<Plans>>,
    /// Bytes that the thread held before the request.
    bytes_before: i64,
}

impl<'a> Execution<'a> {
    pub(crate) fn new(state: &'a SessionState, sink: &'a mut dyn Sink) -> Execution<'a> {
        Execution {
            state,
            sink: RefCell::new(sink),
            captured: RefCell::new(None),
            pending: RefCell::default(),
            views: RefCell::default(),
            variable_txn: RefCell::new(None),
            statement_now: Cell::new(None),
            row_values: RefCell::default(),
            reads: RefCell::default(),
            changes_rows: Cell::new(false),
            planned: Planned::default(),
            depth: Cell::new(0),
            planned_version: Cell::new(0),
            functions: Cell::new(0),
            last_written: Cell::new(None),
            written: RefCell::new(None),
            rows_open: Cell::new(false),
            given: Cell::new(false),
            nowait: Cell::new(false),
            cut: RefCell::default(),
            described: RefCell::new(None),
            opening: RefCell::new(None),
            noted_variables: RefCell::new(None),
            counting: RefCell::new(None),
            uncommitted: RefCell::new(None),
            shown: RefCell::new(None),
            bytes_before: daruma_base::memory::thread_bytes(),
        }
    }

    /// The server that the session belongs to.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.state.instance
    }

    /// Settles what the request left behind.
    pub(crate) fn finish_request(&self, ended: Step<()>) -> RequestEnd {
        let s = self.state;
        let ended = match (&ended, s.is_doomed()) {
            (Ok(()) | Err(Stop::Batch | Stop::Scope | Stop::Statement), true) => self.end_doomed(),
            _ => ended,
        };
        if let Err(Stop::Caught(error)) = &ended {
            let _ = self.send(error);
        }
        if s.trancount.get() == 0 {
            // Something was begun and nobody ended it: the statement was stopped in the middle.
            let _ = s.rollback_all();
        }
        self.release_statement();
        self.count_uncommitted();
        if s.trancount.get() == 0 {
            s.end_visits();
        }
        s.frames.borrow_mut().clear();
        s.caught.borrow_mut().clear();
        s.end_request();
        match ended {
            Err(Stop::Connection | Stop::ClientGone) => RequestEnd::Disconnect,
            Err(Stop::Cancelled) => {
                s.entry.cancel.clear_attention();
                RequestEnd::Cancelled
            }
            _ if s.ended.get() => RequestEnd::Disconnect,
            _ => RequestEnd::Completed,
        }
    }

    /// 3998: a doomed transaction at the end of the batch.
    fn end_doomed(&self) -> Step<()> {
        let mut doomed = messages::error(3998, &[]);
        doomed.line = 1;
        self.send(&doomed)?;
        self.rollback_and_tell()
    }

    /// Rolls everything back and tells the client, if it knew of the transaction.
    pub(crate) fn rollback_and_tell(&self) -> Step<()> {
        self.release_statement();
        match self.state.rollback_all() {
            Ok(None) => Ok(()),
            Ok(Some(id)) => {
                self.to_client(|sink| sink.env_change(EnvChange::RollbackTransaction(id)))
            }
            Err(error) => {
                let _ = self.send(&error);
                Err(Stop::Connection)
            }
        }
    }

    // --- Towards the client

    pub(crate) fn to_client(&self, send: impl FnOnce(&mut dyn Sink) -> Result<()>) -> Step<()> {
        send(*self.sink.borrow_mut()).map_err(|_| Stop::ClientGone)
    }

    /// Sends a message now.
    pub(crate) fn send(&self, message: &SqlError) -> Step<()> {
        if message.class > 10 {
            self.state.last_error.set(message.number);
            self.state.watch.failed.set(true);
        }
        self.tell_message(message, false);
        self.to_client(|sink| sink.message(message))
    }

    /// Sends a message with the place of the running statement.
    pub(crate) fn send_located(&self, mut message: SqlError) -> Step<()> {
        self.locate(&mut message);
        self.send(&message)
    }

    pub(crate) fn send_terminated(&self) -> Step<()> {
        self.send_located(messages::error(3621, &[]))
    }

    /// Sends what the statement said meanwhile.
    pub(crate) fn send_pending(&self) -> Step<()> {
        if self.in_function() {
            return Ok(());
        }
        let pending = std::mem::take(&mut *self.pending.borrow_mut());
        pending
            .into_iter()
            .try_for_each(|message| self.send_located(message))
    }

    pub(crate) fn send_columns(&self, columns: &[OutputColumn]) -> Result<()> {
        if self.captured.borrow().is_some() {
            return Ok(());
        }
        self.note_cut_columns(columns);
        match self.described.borrow_mut().as_mut() {
            Some(described) => {
                let columns = described.begin(columns)?;
                self.rows_open.set(true);
                self.sink.borrow_mut().columns(columns)
            }
            None => {
                self.rows_open.set(true);
                self.sink.borrow_mut().columns(columns)
            }
        }
    }

    /// Whether the running statement has given rows to anybody who cannot take them back.
    pub(super) fn has_given(&self) -> bool {
        self.given.get()
    }

    /// Sets it, for the time of an attempt; what it was before.
    pub(super) fn set_given(&self, has_given: bool) -> bool {
        self.given.replace(has_given)
    }

    pub(crate) fn send_row(&self, row: &[Value]) -> Result<()> {
        if let Some(rows) = self.captured.borrow_mut().as_mut() {
            // A copy of each row: what they hold together is looked at as they come.
            self.check_memory(row.iter().map(Value::outside_bytes).sum())?;
            rows.push(row.to_vec());
            return Ok(());
        }
        self.given.set(true);
        self.harden_marks_of_row()?;
        let cut = self.cut_row(row);
        let row = cut.as_deref().unwrap_or(row);
        match &*self.described.borrow() {
            Some(described) => {
                let row = described.row(row, self)?;
                self.sink.borrow_mut().row(&row)
            }
            None => self.sink.borrow_mut().row(row),
        }
    }

    /// Ends a statement towards the client.
    pub(crate) fn done(&self, command: u16, row_count: Option<u64>, error: bool) -> Step<()> {
        if self.captured.borrow().is_some() || self.in_function() {
            return Ok(());
        }
        self.rows_open.set(false);
        let nocount = self.state.settings.borrow().nocount;
        let kind = self.top(Frame::done_kind);
        let rows_follow = command == super::query::COMMAND_SELECT;
        if nocount && !rows_follow && !error && kind == crate::sink::DoneKind::InProcedure {
            return Ok(());
        }
        let done = Done {
            kind,
            command,
            row_count: row_count.filter(|_| !nocount),
            error,
            in_transaction: self.state.trancount.get() > 0,
        };
        self.to_client(|sink| sink.done(done))
    }

    // --- Frames

    /// Reads the running frame.
    pub(crate) fn top<T: Default>(&self, read: impl FnOnce(&Frame) -> T) -> T {
        self.state
            .frames
            .borrow()
            .last()
            .map(read)
            .unwrap_or_default()
    }

    pub(crate) fn top_mut(&self, change: impl FnOnce(&mut Frame)) {
        if let Some(frame) = self.state.frames.borrow_mut().last_mut() {
            change(frame);
        }
    }

    /// Runs `work`, which binds a query; gives the keys of the variables that this names too.
    pub(super) fn noting_variables<T>(&self, work: impl FnOnce() -> T) -> (T, HashSet<String>) {
        let outer = self.noted_variables.replace(Some(HashSet::new()));
        let done = work();
        let noted = self.noted_variables.replace(outer);
        (done, noted.unwrap_or_default())
    }

    // --- Statements

    /// Runs `work` as one atomic statement.
    pub(crate) fn atomic<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let s = self.state;
        let own = s.ensure_transaction();
        let mark = s.mark();
        let variables = self.mark_variables();
        // A statement inside another one (a trigger's, a procedure's within INSERT .. EXEC) sees the data as of its own
        // beginning.
        let outer_views = self.set_views_aside();
        self.depth.set(self.depth.get() + 1);
        let result = work();
        self.depth.set(self.depth.get() - 1);
        self.put_views_back(outer_views);
        let result = match result {
            Ok(value) => self
                .end_variables()
                .and_then(|()| match own {
                    true => self.harden_noted_marks(false),
                    false => self.harden_marks(),
                })
                .map(|()| value),
            Err(error) => {
                let undone = self.undo_variables(variables);
                Err(undone.err().unwrap_or(error))
            }
        };
        match result {
            Ok(value) => {
                self.finish_statement(own)?;
                Ok(value)
            }
            Err(error) => Err(self.undo_statement(own, &mark, error)),
        }
    }

    fn set_views_aside(&self) -> Vec<StatementView> {
        let mut views = self.views.borrow_mut();
        match views.is_empty() {
            // The next statement finds the memory of the last one.
            true => Vec::new(),
            false => std::mem::take(&mut *views),
        }
    }

    fn put_views_back(&self, outer: Vec<StatementView>) {
        let mut views = self.views.borrow_mut();
        match outer.is_empty() {
            true => forget_views(&mut views),
            false => *views = outer,
        }
    }

    /// Ends a statement that succeeded: commits when it ran on its own. So does one within another statement after that
    /// one's transaction has ended: what a trigger writes after its ROLLBACK stays.
    fn finish_statement(&self, own: bool) -> Result<()> {
        if self.depth.get() > 0 && !own {
            return Ok(());
        }
        self.release_statement();
        // The statement may have begun or ended a transaction itself (a procedure within INSERT .. EXEC).
        if own && self.state.trancount.get() == 0 {
            return self.commit_statement();
        }
        self.count_uncommitted();
        Ok(())
    }

    fn undo_statement(&self, own: bool, mark: &Mark, error: SqlError) -> SqlError {
        let s = self.state;
        self.views.borrow_mut().clear();
        let undone = match own && s.trancount.get() == 0 {
            true => s.rollback_all().map(|_| ()),
            false => s.rollback_to(mark),
        };
        if self.depth.get() > 0 {
            return undone.err().unwrap_or(error);
        }
        self.release_statement();
        // Rows may have gone out before the error.
        let hardened = self.harden_marks();
        undone.and(hardened).err().unwrap_or(error)
    }

    /// NOWAIT: from here on nothing in the statement waits for a lock.
    fn wait_for_nothing(&self) {
        if !self.nowait.replace(true) {
            let owner = &self.state.entry.owner;
            owner.lock_timeout_ms.store(0, Ordering::Relaxed);
        }
    }

    /// Forgets views, clock and locks of the statement.
    pub(crate) fn release_statement(&self) {
        forget_views(&mut self.views.borrow_mut());
        self.statement_now.set(None);
        if self.nowait.take() {
            self.state.apply_lock_settings();
        }
        self.state
            .instance
            .engine()
            .end_turn(&self.state.entry.owner);
        for (database, resource, mode) in self.state.statement_locks.borrow_mut().drain(..) {
            database.unlock(&self.state.entry.owner, &resource, mode);
        }
    }

    /// Where the work on table variables is, for a statement within another one to come back to.
    fn mark_variables(&self) -> Option<Savepoint> {
        self.variable_txn.borrow().as_ref().map(Txn::savepoint)
    }

    /// The statement succeeded. Within another one its work on table variables waits for that one's end.
    fn end_variables(&self) -> Result<()> {
        if self.depth.get() > 0 {
            return Ok(());
        }
        match self.variable_txn.borrow_mut().take() {
            Some(txn) => Ok(txn.commit(daruma_storage::Durability::Delayed)?),
            None => Ok(()),
        }
    }

    /// The statement failed: what it did to table variables is undone, and not what others did before within the same one.
    fn undo_variables(&self, mark: Option<Savepoint>) -> Result<()> {
        let mut slot = self.variable_txn.borrow_mut();
        match (slot.take(), mark) {
            (Some(txn), Some(mark)) => {
                txn.rollback_to(mark)?;
                *slot = Some(txn);
                Ok(())
            }
            (Some(txn), None) => Ok(txn.rollback()?),
            (None, _) => Ok(()),
        }
    }

    /// Work on table variables: with the running statement's transaction, or in one of its own.
    pub(crate) fn with_variable_transaction(
        &self,
        work: impl FnOnce(&Txn) -> Result<()>,
    ) -> Result<()> {
        match self.depth.get() {
            0 => self.state.autonomous(work),
            _ => work(&self.variable_transaction()?),
        }
    }

    fn variable_transaction(&self) -> Result<Txn> {
        let mut slot = self.variable_txn.borrow_mut();
        if let Some(txn) = &*slot {
            return Ok(txn.clone());
        }
        let tempdb = self.state.instance.open_database(crate::instance::TEMPDB)?;
        let txn = tempdb.storage.begin(&self.state.entry.owner);
        *slot = Some(txn.clone());
        Ok(txn)
    }

    pub(crate) fn note_planned(&self) {
        self.planned_version.set(self.catalog_version());
    }

    /// The plan that runs next was made by an earlier statement.
    pub(super) fn note_planned_before(&self) {
        self.planned_version.set(PLANNED_BEFORE);
    }

    // --- Locks

    /// Takes a lock that is given back when the statement ends.
    pub(crate) fn lock_for_statement(
        &self,
        database: &Arc<Database>,
        object: i32,
        mode: LockMode,
    ) -> Result<()> {
        let resource = LockResource::Object(object);
        let mut held = self.state.statement_locks.borrow_mut();
        if held
            .iter()
            .any(|(d, r, m)| *m == mode && *r == resource && d.id() == database.id())
        {
            return Ok(());
        }
        database.lock(&self.state.entry.owner, resource.clone(), mode)?;
        held.push((database.clone(), resource, mode));
        Ok(())
    }

    /// Locks an object for schema modification until the transaction ends. The statement's own stability lock is given
    /// back first: two sessions that both held one would wait for each other.
    pub(crate) fn lock_schema(&self, database: &Arc<Database>, object: i32) -> Result<()> {
        let resource = LockResource::Object(object);
        let mut held = self.state.statement_locks.borrow_mut();
        let mine = |(d, r, _): &(Arc<Database>, LockResource, LockMode)| {
            *r == resource && d.id() == database.id()
        };
        for (database, resource, mode) in held.iter().filter(|entry| mine(entry)) {
            database.unlock(&self.state.entry.owner, resource, *mode);
        }
        held.retain(|entry| !mine(entry));
        drop(held);
        self.lock_for_transaction(database, resource, LockMode::SchM)
    }

    /// Takes a lock that stays until the transaction ends.
    pub(crate) fn lock_for_transaction(
        &self,
        database: &Arc<Database>,
        resource: LockResource,
        mode: LockMode,
    ) -> Result<()> {
        Ok(database.lock(&self.state.entry.owner, resource, mode)?)
    }

    /// The schemas, types, sequences and principals that a definition names stay until its transaction ends, and so do their numbers: who
    /// makes or drops such things (`Exclusive`) waits for all others who define something in the database, and they for him; those
    /// (`Shared`) do not wait for each other. It comes before all other locks of a definition.
    pub(crate) fn lock_definitions(&self, database: DatabaseId, mode: LockMode) -> Result<()> {
        let open = self.instance().open_database(database)?;
        let resource = LockResource::Name(DEFINITIONS.to_string());
        self.lock_for_transaction(&open.storage, resource, mode)
    }

    /// Runs what defines something under [`Execution::lock_definitions`], and begins it anew as [`Execution::retry_on_change`] does.
    /// Where it fails, and is undone, nobody waits for it any more.
    pub(crate) fn with_definitions<T>(
        &self,
        database: DatabaseId,
        mode: LockMode,
        work: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let before = self.state.changes_of_definitions(database);
        let taken = Cell::new(0);
        // Locks of objects stay in a transaction, so this one stays as well between two attempts: it comes before them. A statement that was
        // its own transaction has lost all of them.
        let done = self.retry_on_change(|| {
            self.lock_definitions(database, mode)?;
            taken.set(taken.get() + 1);
            work()
        });
        if done.is_err() {
            self.give_back_definitions(database, mode, before, taken.get());
        }
        done
    }

    /// As [`Execution::with_definitions`], for what cannot begin anew: error 2801 is its own.
    pub(crate) fn under_definitions<T>(
        &self,
        database: DatabaseId,
        mode: LockMode,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let before = self.state.changes_of_definitions(database);
        self.lock_definitions(database, mode)?;
        let done = work();
        if done.is_err() {
            self.give_back_definitions(database, mode, before, 1);
        }
        done
    }

    /// Gives back as many grants of the lock as failed work has taken, unless some of its changes are still there.
    fn give_back_definitions(
        &self,
        database: DatabaseId,
        mode: LockMode,
        before: usize,
        taken: u32,
    ) {
        if self.state.changes_of_definitions(database) > before {
            return;
        }
        let Ok(open) = self.instance().open_database(database) else {
            return;
        };
        let resource = LockResource::Name(DEFINITIONS.to_string());
        for _ in 0..taken {
            open.storage
                .unlock(&self.state.entry.owner, &resource, mode);
        }
    }

    /// The same for what changes principals, schemas or types, as one statement.
    pub(crate) fn define_alone<T>(
        &self,
        database: DatabaseId,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.under_definitions(database, LockMode::Exclusive, || self.atomic(work))
    }

    /// A part of the definitions that is put in place as a whole belongs to the transaction that changes it, until this ends.
    pub(crate) fn lock_part(&self, database: DatabaseId, part: &str) -> Result<()> {
        let open = self.instance().open_database(database)?;
        let resource = LockResource::Name(part.to_string());
        self.lock_for_transaction(&open.storage, resource, LockMode::Exclusive)
    }

    /// The extended properties of something.
    pub(crate) fn lock_properties(
        &self,
        database: DatabaseId,
        class: PropertyClass,
        major: i32,
    ) -> Result<()> {
        self.lock_part(database, &definition_locks::properties(class, major))
    }

    /// How this read sees the data of other transactions.
    fn isolation(&self, table: &TableRef, access: Access) -> Result<Isolation> {
        let level = self.state.settings.borrow().isolation;
        let settings = table.database.settings();
        if level == IsolationLevel::Snapshot && table.kind == TableKind::User {
            self.check_snapshot(table, settings.allow_snapshot)?;
        }
        if table.database.is_secondary() {
            // Nothing can be locked there, whatever hints say.
            return Ok(match level {
                IsolationLevel::ReadUncommitted | IsolationLevel::ReadCommitted => {
                    Isolation::ReadCommittedSnapshot
                }
                _ => Isolation::Snapshot,
            });
        }
        let committed = match settings.read_committed_snapshot {
            true => Isolation::ReadCommittedSnapshot,
            false => Isolation::ReadCommitted,
        };
        let plain = match level {
            IsolationLevel::ReadUncommitted => Isolation::ReadUncommitted,
            IsolationLevel::ReadCommitted => committed,
            IsolationLevel::RepeatableRead => Isolation::RepeatableRead,
            IsolationLevel::Serializable => Isolation::Serializable,
            IsolationLevel::Snapshot => Isolation::Snapshot,
        };
        Ok(match access {
            Access::Constraint => Isolation::RepeatableRead,
            Access::Target => match plain {
                Isolation::Snapshot | Isolation::Serializable => plain,
                // Optimized locking judges rows by their newest committed state and locks those that qualify.
                Isolation::ReadCommittedSnapshot if settings.optimized_locking => {
                    Isolation::Current
                }
                _ => Isolation::Update,
            },
            Access::HintedTarget(hints) => match hinted(plain, committed, hints)? {
                level @ (Isolation::Snapshot | Isolation::Serializable) => level,
                _ if hints.readpast => Isolation::Current,
                _ => Isolation::Update,
            },
            Access::Read(hints) => hinted(plain, committed, hints)?,
        })
    }

    /// May the transaction read the table under snapshot isolation?
    fn check_snapshot(&self, table: &TableRef, is_allowed: bool) -> Result<()> {
        let transaction = self.state.transaction.borrow();
        let began_otherwise = |t: &Transaction| t.isolation != IsolationLevel::Snapshot;
        match () {
            _ if !is_allowed => Err(messages::error(3952, &[&table.database.name()])),
            _ if transaction.as_ref().is_some_and(began_otherwise) => {
                Err(messages::error(3951, &[&table.database.name()]))
            }
            _ => Ok(()),
        }
    }

    /// A row is looked into some time after it was read, and long values of it are pages of their own: whoever replaces them
    /// meanwhile must not see them freed. A snapshot sees to that, so a statement that reads without one holds one.
    fn keep_long_values(&self, table: &TableRef, isolation: Isolation) -> Result<()> {
        let is_snapshot =
            |i: Isolation| matches!(i, Isolation::ReadCommittedSnapshot | Isolation::Snapshot);
        if is_snapshot(isolation) || !has_movable_columns(&table.def) {
            return Ok(());
        }
        let id = table.database.id();
        let mut views = self.views.borrow_mut();
        if !views.iter().any(|(d, i, _)| *d == id && is_snapshot(*i)) {
            let kept = Isolation::ReadCommittedSnapshot;
            views.push((id, kept, self.state.txn_in(id)?.view(kept)));
        }
        Ok(())
    }

    fn lock_for_read(&self, table: &TableRef, access: Access, isolation: Isolation) -> Result<()> {
        let object = LockResource::Object(table.object_id);
        if let Some(mode) = table_lock(access, isolation) {
            return self.lock_for_transaction(&table.database, object, mode);
        }
        match isolation {
            Isolation::RepeatableRead | Isolation::Serializable => {
                self.lock_for_transaction(&table.database, object, LockMode::IntentShared)
            }
            Isolation::ReadCommitted => {
                self.lock_for_statement(&table.database, table.object_id, LockMode::IntentShared)
            }
            _ => self.lock_for_statement(&table.database, table.object_id, LockMode::SchS),
        }
    }
}

#[inline]
fn forget_views(views: &mut Vec<StatementView>) {
    if !views.is_empty() {
        views.clear();
    }
}

/// The table lock that hints ask for.
fn table_lock(access: Access, isolation: Isolation) -> Option<LockMode> {
    let (hints, is_target) = match access {
        Access::Read(hints) => (hints, false),
        Access::HintedTarget(hints) => (hints, true),
        Access::Target | Access::Constraint => return None,
    };
    match hints {
        h if h.tablockx || h.tablock && (h.xlock || is_target) => Some(LockMode::Exclusive),
        h if h.tablock && h.updlock => Some(LockMode::Update),
        h if h.tablock && isolation != Isolation::ReadUncommitted => Some(LockMode::Shared),
        h if !(h.updlock || h.xlock) => None,
        // Rows are locked one by one. A range cannot be, so a serializable reader of one who means to write locks the
        // table: others who mean to queue up.
        h if h.by_row && (h.by_key || isolation != Isolation::Serializable) => {
            Some(LockMode::IntentExclusive)
        }
        h if h.xlock => Some(LockMode::Exclusive),
        _ => Some(LockMode::Update),
    }
}

/// Isolation of a read with table hints; `committed` is what READ COMMITTED means in its database. Error 650: passing
/// locked rows would break what the level promises.
fn hinted(plain: Isolation, committed: Isolation, hints: LockHints) -> Result<Isolation> {
    let plain = match hints.readcommitted {
        true => committed,
        false => plain,
    };
    let level = match hints {
        h if h.nolock => Isolation::ReadUncommitted,
        h if h.holdlock || plain == Isolation::Serializable => Isolation::Serializable,
        // Each row is read under its own lock; until then the newest committed rows are looked at.
        h if h.by_row && h.readpast => match plain {
            Isolation::ReadUncommitted => Isolation::ReadUncommitted,
            _ => Isolation::Current,
        },
        h if h.by_row => Isolation::Update,
        h if h.repeatableread || h.updlock || h.xlock => Isolation::RepeatableRead,
        h if h.readcommittedlock => Isolation::ReadCommitted,
        _ => plain,
    };
    let keeps_out = matches!(level, Isolation::ReadUncommitted | Isolation::Serializable);
    match hints.readpast && keeps_out {
        true => Err(messages::error(650, &[])),
        false => Ok(level),
    }
}

/// A result column of the server's own making.
pub fn plain_column(name: &str, data_type: DataType, nullable: bool) -> OutputColumn {
    OutputColumn {
        name: name.to_string(),
        data_type,
        collation: CollationId::DEFAULT,
        nullable,
        identity: false,
        computed: true,
    }
}
