//! Dispatch of statements.

use super::access::Written;
use super::execution::Execution;
use super::fail::{Step, Stop};
use super::interpreter::Flow;
use super::table_argument::TableType;
use crate::ddl;
use crate::dml::bulk::FileImport;
use crate::dml::{self, DmlPlan};
use crate::error::{Result, SqlError};
use crate::host::{IsolationLevel, Showplan, TableRef, VariableType};
use crate::instance::MASTER;
use crate::instance::events::words::OF_STATEMENTS;
use crate::messages;
use crate::sink::EnvChange;
use daruma_syntax::ast::{self, CursorRef, DmlFilter, Statement, StatementKind, TransactionName};
use daruma_value::Value;
use std::cell::RefCell;
use std::sync::Arc;

/// TDS `curcmd` of statements without rows.
mod command {
    /// INSERT; clients take their update count from this, UPDATE, DELETE and MERGE.
    pub const INSERT: u16 = 0xC3;
    /// DELETE.
    pub const DELETE: u16 = 0xC4;
    /// UPDATE.
    pub const UPDATE: u16 = 0xC5;
    /// ROLLBACK of any kind.
    pub const ROLLBACK: u16 = 0xD2;
    /// BEGIN TRANSACTION and SAVE TRANSACTION.
    pub const BEGIN: u16 = 0xD4;
    /// COMMIT.
    pub const COMMIT: u16 = 0xD5;
    /// BULK INSERT and the rows of INSERT BULK.
    pub const BULK_INSERT: u16 = 0xF0;
    /// MERGE.
    pub const MERGE: u16 = 0x117;
    /// Every statement that clients do not tell apart.
    pub const OTHER: u16 = 0xFD;
}

impl Execution<'_> {
    pub(crate) fn run_statement(&self, statement: &Statement) -> Step<Flow> {
        match self.mode() {
            Mode::Skip if !is_session_statement(&statement.kind) => return Ok(Flow::Next),
            Mode::ShowPlan if !is_session_statement(&statement.kind) => {
                return self.show_statement(statement);
            }
            _ => {}
        }
        match &statement.kind {
            StatementKind::Block(body) | StatementKind::Atomic { body, .. } => self.run_list(body),
            StatementKind::If(s) => self.run_if(s),
            StatementKind::While(s) => self.run_while(s, statement),
            StatementKind::Break => self.leave_loop(Flow::Break, 135),
            StatementKind::Continue => self.leave_loop(Flow::Continue, 136),
            StatementKind::Label(_) => Ok(Flow::Next),
            StatementKind::Goto(label) => Ok(Flow::Goto(label.text.clone())),
            StatementKind::Return(value) => self.run_return(value.as_ref()),
            StatementKind::TryCatch(s) => self.run_try(s),
            _ if self.instance().events.wants_any(OF_STATEMENTS) => self.run_told(statement),
            _ => self.run_plain(statement).map(|()| Flow::Next),
        }
    }

    /// Statements after which control always goes on.
    pub(super) fn run_plain(&self, statement: &Statement) -> Step<()> {
        let s = self.state;
        if self.in_function() && !ddl::may_stand_in_function(&statement.kind) {
            let what = ddl::effect_of(&statement.kind);
            return Err(self.fail(messages::error_state(443, 14, &[&what])));
        }
        self.check_statement(&statement.kind)
            .map_err(|e| self.failed(command::OTHER, e))?;
        match &statement.kind {
            StatementKind::Select(query) => self.run_select(query, statement),
            StatementKind::Insert(_)
            | StatementKind::Update(_)
            | StatementKind::Delete(_)
            | StatementKind::Merge(_)
            | StatementKind::BulkInsert(_)
            | StatementKind::Truncate(_) => self.run_change(statement),
            StatementKind::Declare(list) => list.iter().try_for_each(|d| self.run_declare(d)),
            StatementKind::DeclareTable(d) => {
                self.quiet(|| self.declare_table(&d.name, &d.definition))
            }
            StatementKind::DeclareCursor(declare) => self.run_declare_cursor(declare),
            StatementKind::Open(cursor) => self.run_open(cursor),
            StatementKind::Fetch(fetch) => self.run_fetch(fetch),
            StatementKind::Close(cursor) => self.run_close(cursor),
            StatementKind::Deallocate(cursor) => self.run_deallocate(cursor),
            StatementKind::Set(set) => self.run_set(set),
            StatementKind::Throw(throw) => Err(self.run_throw(throw.as_ref())),
            StatementKind::RaisError(raise) => self.run_raiserror(raise),
            StatementKind::Print(expr) => self.run_print(expr),
            StatementKind::WaitFor(wait) => self.run_waitfor(wait),
            StatementKind::Execute(exec) => self.run_execute(exec),
            StatementKind::BeginTransaction(begin) => {
                let name = self
                    .transaction_name(begin.name.as_ref())
                    .map_err(|e| self.fail(e))?;
                if let Some(id) = s.begin_transaction(name) {
                    self.to_client(|sink| sink.env_change(EnvChange::BeginTransaction(id)))?;
                }
                self.succeed(command::BEGIN)
            }
            StatementKind::Commit(commit) => self.run_commit(commit.delayed_durability),
            StatementKind::Rollback(name) => self.run_rollback(name.as_ref()),
            StatementKind::SaveTransaction(name) => {
                let name = self
                    .transaction_name(Some(name))
                    .map_err(|e| self.fail(e))?;
                s.save_transaction(&name.unwrap_or_default())
                    .map_err(|e| self.fail(e))?;
                self.succeed(command::BEGIN)
            }
            StatementKind::Use(name) => self.run_use(&name.text),
            StatementKind::Checkpoint(_) => self.simple(|| self.checkpoint()),
            StatementKind::Kill(kill) => self.simple(|| self.kill(kill)),
            StatementKind::Shutdown { no_wait } => self.run_shutdown(*no_wait),
            StatementKind::InsertBulk(load) => self.expect_bulk(load),
            StatementKind::Reconfigure { .. } => self.run_reconfigure(statement),
            StatementKind::Dbcc(dbcc) => self.run_dbcc(dbcc),
            StatementKind::Grant(grant) => {
                self.run_with_triggers(statement, command::OTHER, || self.run_grant(grant))
            }
            StatementKind::Principal(principal) => {
                self.run_with_triggers(statement, command::OTHER, || self.run_principal(principal))
            }
            StatementKind::Key(key) => {
                self.run_with_triggers(statement, command::OTHER, || self.run_key(key))
            }
            StatementKind::CreateEndpoint(endpoint) => {
                let name = match endpoint.alter {
                    true => "ALTER ENDPOINT",
                    false => "CREATE ENDPOINT",
                };
                self.alone(statement, name, || self.run_endpoint(endpoint))
            }
            StatementKind::EventSession(session) => self.alone(statement, "EVENT SESSION", || {
                self.run_event_session(session)
            }),
            StatementKind::CreateAvailabilityGroup(group) => {
                self.alone(statement, "CREATE AVAILABILITY GROUP", || {
                    self.create_group(group)
                })
            }
            StatementKind::AlterAvailabilityGroup(group) => {
                self.alone(statement, "ALTER AVAILABILITY GROUP", || {
                    self.alter_group(group)
                })
            }
            StatementKind::ExecuteAs(execute_as) => self.simple(|| self.run_execute_as(execute_as)),
            // The statements that follow must not run as another principal than they were meant for.
            StatementKind::Revert { cookie } => self
                .simple(|| self.run_revert(cookie.as_deref()))
                .map_err(|stop| match stop {
                    Stop::Statement => Stop::Batch,
                    other => other,
                }),
            StatementKind::CreateDatabase(_) | StatementKind::AlterDatabase(_) => {
                self.run_database(statement)
            }
            StatementKind::Backup(backup) => self.run_backup(backup),
            StatementKind::Restore(restore) => self.run_restore(restore),
            StatementKind::Drop(drop) if drop.kind == ast::DropKind::Database => {
                self.run_database(statement)
            }
            StatementKind::Drop(drop) if is_principal_drop(&drop.kind) => {
                self.run_with_triggers(statement, command::OTHER, || self.drop_principals(drop))
            }
            StatementKind::Drop(drop) if is_key_drop(&drop.kind) => {
                self.run_with_triggers(statement, command::OTHER, || self.drop_keys(drop))
            }
            StatementKind::Drop(drop) if drop.kind == ast::DropKind::Endpoint => {
                self.alone(statement, "DROP ENDPOINT", || self.drop_hadr(drop))
            }
            StatementKind::Drop(drop) if drop.kind == ast::DropKind::AvailabilityGroup => self
                .alone(statement, "DROP AVAILABILITY GROUP", || {
                    self.drop_hadr(drop)
                }),
            kind if ddl::handles(kind) => self.run_ddl(statement),
            other => Err(self.fail(messages::not_supported(statement_name(other)))),
        }
    }

    /// Options that change what running means.
    fn mode(&self) -> Mode {
        let settings = self.state.settings.borrow();
        match (settings.noexec || settings.parseonly, settings.showplan) {
            (true, _) => Mode::Skip,
            (false, Showplan::Off) => Mode::Run,
            (false, _) => Mode::ShowPlan,
        }
    }

    /// DONE of a statement that went well.
    pub(crate) fn succeed(&self, command: u16) -> Step<()> {
        self.state.last_error.set(0);
        self.state.row_count.set(0);
        self.send_pending()?;
        self.done(command, None, false)
    }

    /// Turns an error into its consequences, after ending the statement towards the client.
    pub(crate) fn failed(&self, command: u16, error: SqlError) -> Stop {
        if self.in_function() {
            return self.fail(error);
        }
        let _ = self.send_pending();
        let stop = self.fail(error);
        self.changes_rows.set(false);
        match &stop {
            Stop::Statement | Stop::Batch | Stop::Scope => match self.done(command, None, true) {
                Ok(()) => stop,
                Err(gone) => gone,
            },
            // CATCH follows: a result set that was begun is closed, as the empty or short one that it is.
            Stop::Caught(_) if self.rows_open.get() => {
                match self.done(super::query::COMMAND_SELECT, Some(0), false) {
                    Ok(()) => stop,
                    Err(gone) => gone,
                }
            }
            _ => stop,
        }
    }

    /// A statement that answers with nothing but DONE.
    pub(crate) fn simple(&self, work: impl FnOnce() -> Result<()>) -> Step<()> {
        match work() {
            Ok(()) => self.succeed(command::OTHER),
            Err(error) => Err(self.failed(command::OTHER, error)),
        }
    }

    /// One that no transaction can take back: error 226 in one of the user's, and in that of INSERT .. EXEC.
    fn alone(
        &self,
        statement: &Statement,
        name: &str,
        work: impl FnOnce() -> Result<()>,
    ) -> Step<()> {
        match (self.state.trancount.get(), self.depth.get()) {
            (0, 0) => self.run_with_triggers(statement, command::OTHER, work),
            _ => self.simple(|| Err(messages::error_state(226, 6, &[&name]))),
        }
    }

    /// What counts from now on, whatever becomes of a transaction: error 574 in one.
    fn run_reconfigure(&self, statement: &Statement) -> Step<()> {
        if (self.state.trancount.get(), self.depth.get()) != (0, 0) {
            return self.simple(|| Err(messages::error_state(574, 0, &[&"CONFIG"])));
        }
        self.run_with_triggers(statement, command::OTHER, || {
            self.state.instance.configuration.install();
            self.state.instance.apply_max_memory();
            Ok(())
        })
    }

    /// A statement without even a DONE.
    pub(crate) fn quiet(&self, work: impl FnOnce() -> Result<()>) -> Step<()> {
        work().map_err(|e| self.fail(e))?;
        self.state.last_error.set(0);
        self.send_pending()
    }

    fn leave_loop(&self, flow: Flow, number: i32) -> Step<Flow> {
        match self.top(|f| f.while_depth) {
            0 => Err(self.fail(messages::error(number, &[]))),
            _ => Ok(flow),
        }
    }

    fn run_return(&self, value: Option<&ast::Expr>) -> Step<Flow> {
        if let Some(expr) = value {
            let (value, from) = self.evaluate_returned(expr).map_err(|e| self.fail(e))?;
            if let Some(to) = self.top(|f| f.returns) {
                let value = super::convert::assign(value, from, to, self);
                let value = value.map_err(|e| self.fail(e))?;
                self.top_mut(|f| f.returned = Some(value));
                return Ok(Flow::Return);
            }
            let status = super::convert::to_int(&value, from).map_err(|e| self.fail(e))?;
            self.top_mut(|f| f.return_status = status);
        }
        Ok(Flow::Return)
    }

    pub(super) fn run_declare(&self, declaration: &ast::Declaration) -> Step<()> {
        match &declaration.kind {
            ast::DeclarationKind::Scalar { data_type, value } => self.quiet(|| {
                let value = value.as_ref();
                let is_table = self.declare_scalar(&declaration.name, data_type, value)?;
                match value {
                    Some(expr) if !is_table => self.assign(&declaration.name, expr),
                    _ => Ok(()),
                }
            }),
            ast::DeclarationKind::Table(definition) => {
                self.quiet(|| self.declare_table(&declaration.name, definition))
            }
            ast::DeclarationKind::Cursor => {
                self.quiet(|| self.declare_cursor_variable(&declaration.name))
            }
        }
    }

    /// Declares what the type says, which may be one of tables: gives true then, and takes no value.
    pub(super) fn declare_scalar(
        &self,
        name: &str,
        data_type: &ast::TypeName,
        value: Option<&ast::Expr>,
    ) -> Result<bool> {
        let (declared, _, alias) = match self.type_of(data_type) {
            Ok(found) => found,
            Err(missing) => {
                let of = self.table_type(data_type)?.ok_or(missing)?;
                return self.declare_of_type(name, &of, value).map(|()| true);
            }
        };
        self.declare(name, declared)?;
        if alias.is_some() {
            // It may stand for another type where the batch goes on: after USE.
            self.top_mut(|f| f.note_type(name, declared));
        }
        Ok(false)
    }

    fn declare(&self, name: &str, declared: daruma_value::DataType) -> Result<()> {
        let mut frames = self.state.frames.borrow_mut();
        match frames.last_mut() {
            Some(frame) if frame.has_declared(name) => Ok(()),
            Some(frame) => frame.declare(name, VariableType::Scalar(declared), Value::Null),
            None => Ok(()),
        }
    }

    pub(super) fn declare_table(
        &self,
        name: &str,
        definition: &ast::TableDefinition,
    ) -> Result<()> {
        self.declare_made(name, || ddl::create_table_variable(self, name, definition))
    }

    /// `DECLARE @t dbo.T`; such a variable begins empty.
    fn declare_of_type(&self, name: &str, of: &TableType, value: Option<&ast::Expr>) -> Result<()> {
        if let Some(expr) = value {
            let (_, from) = self.evaluate_alone(expr)?;
            return Err(messages::error_state(206, 2, &[&from.name(), &of.def.name]));
        }
        self.declare_made(name, || {
            ddl::table_of_type(self, name, of.database, &of.def)
        })
    }

    fn declare_made(&self, name: &str, make: impl FnOnce() -> Result<TableRef>) -> Result<()> {
        let known = self
            .state
            .frames
            .borrow()
            .last()
            .is_some_and(|f| f.has_declared(name));
        if known {
            return Ok(());
        }
        let table = make()?;
        let mut frames = self.state.frames.borrow_mut();
        match frames.last_mut() {
            Some(frame) => frame.declare(name, VariableType::Table(table), Value::Null),
            None => Ok(()),
        }
    }

    /// `SET @v = expr` and the like: converts to the declared type.
    pub(crate) fn assign(&self, name: &str, expr: &ast::Expr) -> Result<()> {
        let (value, from) = self.evaluate_alone(expr)?;
        self.assign_value(name, value, from)
    }

    pub(crate) fn assign_value(
        &self,
        name: &str,
        value: Value,
        from: daruma_value::DataType,
    ) -> Result<()> {
        use crate::host::Host;
        match self.variable_type(name) {
            Some(VariableType::Scalar(declared)) => {
                let value = super::convert::assign(value, from, declared, self)?;
                self.set_variable(name, value)
            }
            Some(_) => Err(messages::error(206, &[&from.name(), &"table"])),
            None => Err(messages::error_state(137, 1, &[&name])),
        }
    }

    fn run_change(&self, statement: &Statement) -> Step<()> {
        let code = match &statement.kind {
            StatementKind::Insert(_) => command::INSERT,
            StatementKind::Update(_) => command::UPDATE,
            StatementKind::Delete(_) => command::DELETE,
            StatementKind::Merge(_) => command::MERGE,
            StatementKind::BulkInsert(_) => command::BULK_INSERT,
            _ => command::OTHER,
        };
        self.begin_implicit()?;
        let outer = self.changes_rows.replace(true);
        let started = self.start_statistics();
        let before = self.state.entry.show_command(command_of(&statement.kind));
        let outside = self.begin_counting();
        let result = match &statement.kind {
            StatementKind::BulkInsert(s) => self.bulk_insert(s).map(Some),
            _ => self.retry_on_change(|| self.atomic(|| self.change_rows(statement))),
        };
        self.state.entry.show_command(before);
        let counted = self.counting.replace(outside);
        let step = match result {
            Ok(count) => {
                self.state.last_error.set(0);
                self.state.row_count.set(count.unwrap_or(0));
                self.send_pending()
                    .and_then(|()| self.finish_statistics(started))
                    .and_then(|()| self.done(code, count, false))
                    .and_then(|()| self.show_counted(statement, counted, count.unwrap_or(0)))
            }
            Err(error) => {
                self.state.row_count.set(0);
                Err(self.after_trigger(code, error))
            }
        };
        self.changes_rows.set(outer);
        step
    }

    /// Each batch is a transaction of its own, unless there is one already.
    fn bulk_insert(&self, statement: &ast::BulkInsert) -> Result<u64> {
        let import = RefCell::new(FileImport::open(statement, self)?);
        let s = self.state;
        let alone = s.trancount.get() == 0 && s.transaction.borrow().is_none();
        let part = || {
            // The name may mean another table for each batch.
            if !self.is_unlimited() {
                self.may_bulk_insert(&statement.table)?;
            }
            self.note_planned();
            let mut import = import.borrow_mut();
            match alone {
                true => import.next_batch(self),
                false => import.run(self),
            }
        };
        let mut count = 0;
        loop {
            count += self.retry_on_change(|| self.atomic(part))?;
            if import.borrow().is_over() {
                return Ok(count);
            }
        }
    }

    fn change_rows(&self, statement: &Statement) -> Result<Option<u64>> {
        self.note_planned();
        match &statement.kind {
            StatementKind::Truncate(s) => {
                self.check_statement(&statement.kind)?;
                ddl::truncate(self, s).map(|()| None)
            }
            _ => self.run_dml(statement).map(Some),
        }
    }

    /// INSERT, UPDATE, DELETE or MERGE, by the plan kept with the batch if it is still right.
    fn run_dml(&self, statement: &Statement) -> Result<u64> {
        let plan = self.dml_plan(statement)?;
        if self.state.settings.borrow().fmtonly {
            if plan.returns_rows() {
                self.send_columns(plan.output_columns())?;
            }
            return Ok(0);
        }
        self.count_plan(&plan);
        let begun = self.measure(plan.stats());
        let mut row = |row: &[Value]| self.send_row(row);
        let at_end = plan.returns_rows() && plan.may_fail_at_end(self)?;
        let count = match (plan.returns_rows(), at_end) {
            (false, _) => dml::execute(&plan, self, None)?,
            (true, false) => {
                self.send_columns(plan.output_columns())?;
                dml::execute(&plan, self, Some(&mut row))?
            }
            // A client that has read a row may believe in it.
            (true, true) => {
                self.send_columns(plan.output_columns())?;
                let mut kept = Vec::new();
                let mut keep = |row: &[Value]| {
                    kept.push(row.to_vec());
                    Ok(())
                };
                let count = dml::execute(&plan, self, Some(&mut keep))?;
                kept.iter().try_for_each(|kept| row(kept))?;
                count
            }
        };
        self.measured_change(&begun, &plan, count);
        if let Some(cursor) = current_of(&statement.kind) {
            self.renew_current(cursor, plan.written(), plan.moved_to())?;
        }
        Ok(count)
    }

    pub(super) fn dml_plan(&self, statement: &Statement) -> Result<Arc<DmlPlan>> {
        let prepare = || match &statement.kind {
            StatementKind::Insert(s) => dml::prepare_insert(s, self),
            StatementKind::Update(s) => dml::prepare_update(s, self),
            StatementKind::Delete(s) => dml::prepare_delete(s, self),
            StatementKind::Merge(s) => dml::prepare_merge(s, self),
            other => Err(messages::not_supported(statement_name(other))),
        };
        let written = |plan: &Arc<DmlPlan>| {
            Some(Written {
                through: plan.written_through(),
                sets: plan.set_columns(),
            })
        };
        // The plan is about one row of one session.
        if current_of(&statement.kind).is_some() {
            return self.with_access_to_change(Some(&statement.kind), prepare, written);
        }
        self.shared_plan(statement.span.start, Some(statement.span), || {
            self.with_access_to_change(Some(&statement.kind), prepare, written)
        })
    }

    /// A definition that changed while the statement waited for it: plan and run once more.
    pub(crate) fn retry_on_change<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        const ATTEMPTS_MAX: u32 = 5;
        let before = self.set_given(false);
        let captured = self.captured_rows();
        let mut attempts = 0;
        let done = loop {
            attempts += 1;
            match work() {
                Err(error)
                    if self.is_behind(&error) && !self.has_given() && attempts < ATTEMPTS_MAX =>
                {
                    self.forget_captured(captured);
                }
                other => break other,
            }
        };
        self.set_given(before || self.has_given());
        done
    }

    /// Rows that INSERT .. EXEC has taken so far.
    fn captured_rows(&self) -> usize {
        self.captured.borrow().as_ref().map_or(0, Vec::len)
    }

    fn forget_captured(&self, from: usize) {
        if let Some(rows) = self.captured.borrow_mut().as_mut() {
            rows.truncate(from);
        }
    }

    /// Would the statement, begun anew, see what has changed? A snapshot of its own is as new as itself.
    fn is_behind(&self, error: &SqlError) -> bool {
        let keeps_snapshot = || {
            let isolation = self.state.settings.borrow().isolation;
            isolation != IsolationLevel::ReadCommitted
                && isolation != IsolationLevel::ReadUncommitted
                && (self.state.trancount.get() > 0 || isolation == IsolationLevel::Snapshot)
        };
        match error.number {
            2801 => true,
            3961 => !keeps_snapshot(),
            _ => false,
        }
    }

    /// IMPLICIT_TRANSACTIONS ON: statements that touch data begin a transaction that stays.
    pub(crate) fn begin_implicit(&self) -> Step<()> {
        let s = self.state;
        if !s.settings.borrow().implicit_transactions
            || self.in_function()
            || s.trancount.get() > 0
            || s.transaction.borrow().is_some()
        {
            return Ok(());
        }
        match s.begin_transaction(None) {
            Some(id) => self.to_client(|sink| sink.env_change(EnvChange::BeginTransaction(id))),
            None => Ok(()),
        }
    }

    fn run_commit(&self, delayed: Option<bool>) -> Step<()> {
        if self.captured.borrow().is_some() && self.state.trancount.get() <= 1 {
            return Err(self.failed(command::COMMIT, messages::error(3916, &[])));
        }
        match self.commit_transaction(delayed) {
            Ok(None) => self.succeed(command::COMMIT),
            Ok(Some(id)) => {
                self.to_client(|sink| sink.env_change(EnvChange::CommitTransaction(id)))?;
                self.succeed(command::COMMIT)
            }
            Err(error) => Err(self.failed(command::COMMIT, error)),
        }
    }

    fn run_rollback(&self, name: Option<&TransactionName>) -> Step<()> {
        let result = self.rollback(name);
        match result {
            Ok(ended) => {
                if let Some(id) = ended {
                    self.to_client(|sink| sink.env_change(EnvChange::RollbackTransaction(id)))?;
                }
                self.succeed(command::ROLLBACK)
            }
            Err(error) => Err(self.failed(command::ROLLBACK, error)),
        }
    }

    fn rollback(&self, name: Option<&TransactionName>) -> Result<Option<u64>> {
        if self.captured.borrow().is_some() {
            return Err(messages::error(3915, &[]));
        }
        match self.transaction_name(name)? {
            Some(name) => self.state.rollback_named(&name),
            None if self.state.trancount.get() == 0 && !self.in_trigger() => {
                Err(messages::error(3903, &[]))
            }
            None => {
                self.release_statement();
                self.state.rollback_all()
            }
        }
    }

    fn transaction_name(&self, name: Option<&TransactionName>) -> Result<Option<String>> {
        use crate::host::Host;
        match name {
            None => Ok(None),
            Some(TransactionName::Name(name)) => Ok(Some(name.text.clone())),
            Some(TransactionName::Variable(variable)) => match self.variable(variable)? {
                Value::Str(text) => Ok(Some(text.to_string())),
                _ => Ok(None),
            },
        }
    }

    fn run_ddl(&self, statement: &Statement) -> Step<()> {
        self.begin_implicit()?;
        let code = ddl::command_code(&statement.kind);
        let text = self.text_of(statement);
        let change = || self.atomic(|| self.change_definitions(statement, &text));
        match self.run_definition(statement, change) {
            Ok(()) => self.succeed(code),
            Err(error) => Err(self.after_trigger(code, error)),
        }
    }

    fn run_definition(&self, statement: &Statement, change: impl Fn() -> Result<()>) -> Result<()> {
        match ddl::lock_of_definitions(self, &statement.kind) {
            _ if self.state.is_doomed() => Err(messages::error(3930, &[])),
            Some(mode) if ddl::finds_what_it_drops(self, &statement.kind)? => {
                // Nobody waits, and nobody waits for him, who may not.
                self.check_statement(&statement.kind)?;
                let database = match ddl::is_about_server(&statement.kind) {
                    true => MASTER,
                    false => crate::host::Host::current_database(self),
                };
                self.with_definitions(database, mode, change)
            }
            _ => self.retry_on_change(change),
        }
    }

    fn change_definitions(&self, statement: &Statement, text: &str) -> Result<()> {
        // Once more: a statement begins anew after it has waited, and what it names may be somebody else's by then.
        self.check_statement(&statement.kind)?;
        self.check_snapshot_ddl(&statement.kind)?;
        self.note_planned();
        let told = self.told_of(&statement.kind)?;
        ddl::execute(self, &statement.kind, text)?;
        self.fire(&told, text)
    }
}

impl Execution<'_> {
    /// 3964: a transaction that reads one snapshot does not change tables and indexes, which have no versions. A statement
    /// that is its own transaction may.
    fn check_snapshot_ddl(&self, kind: &StatementKind) -> Result<()> {
        use StatementKind::*;
        let changes_table = matches!(
            kind,
            AlterTable(_) | CreateIndex(_) | AlterIndex(_) | DropIndex(_)
        );
        let s = self.state;
        let reads_snapshot = s.settings.borrow().isolation == IsolationLevel::Snapshot;
        match changes_table && reads_snapshot && s.trancount.get() > 0 {
            true => Err(messages::error(3964, &[])),
            false => Ok(()),
        }
    }
}

enum Mode {
    Run,
    /// NOEXEC and PARSEONLY.
    Skip,
    ShowPlan,
}

/// The cursor of WHERE CURRENT OF.
fn current_of(kind: &StatementKind) -> Option<&CursorRef> {
    let filter = match kind {
        StatementKind::Update(s) => s.filter.as_ref(),
        StatementKind::Delete(s) => s.filter.as_ref(),
        _ => None,
    };
    match filter {
        Some(DmlFilter::CurrentOf(cursor)) => Some(cursor),
        _ => None,
    }
}

/// SET statements work under NOEXEC, so that it can be switched off again.
fn is_session_statement(kind: &StatementKind) -> bool {
    match kind {
        StatementKind::Use(_) | StatementKind::Block(_) => true,
        StatementKind::Set(set) => !set.is_of_variable(),
        _ => false,
    }
}

fn is_principal_drop(kind: &ast::DropKind) -> bool {
    use ast::DropKind::*;
    matches!(
        kind,
        Login | User | Role | ServerRole | ApplicationRole | Credential
    )
}

fn is_key_drop(kind: &ast::DropKind) -> bool {
    matches!(kind, ast::DropKind::Certificate | ast::DropKind::MasterKey)
}

fn statement_name(kind: &StatementKind) -> &'static str {
    match kind {
        StatementKind::InsertBulk(_) => "INSERT BULK",
        StatementKind::TextPointer(_) => "READTEXT",
        StatementKind::CreateXmlSchemaCollection(_) => "XML SCHEMA COLLECTION",
        _ => "statement",
    }
}

/// What `sys.dm_exec_requests` calls a statement that changes rows.
fn command_of(kind: &StatementKind) -> &'static str {
    match kind {
        StatementKind::Insert(_) => "INSERT",
        StatementKind::Update(_) => "UPDATE",
        StatementKind::Delete(_) => "DELETE",
        StatementKind::Merge(_) => "MERGE",
        StatementKind::BulkInsert(_) => "BULK INSERT",
        _ => "TRUNCATE TABLE",
    }
}
