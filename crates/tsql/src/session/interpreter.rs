//! Control flow: batches, blocks, IF, WHILE, GOTO, TRY.
//!
//! Theory: a list of statements gives a [`Flow`]: go on, or leave towards a loop, a label or the end of the frame.
//! Errors travel separately as [`Stop`]. A label is looked for in the list at hand and in the blocks inside it, then in
//! the lists around it.

use super::check::Suspect;
use super::execution::Execution;
use super::fail::{Step, Stop};
use super::frame::{Frame, FrameKind};
use crate::binder::next_value::NESTED;
use crate::binder::with_stack;
use crate::error::{Result, SqlError};
use crate::executor::{ConditionPlan, KeptPlan, Scope, prepare_condition, prepare_scalar};
use crate::host::Host;
use crate::instance::Batch;
use crate::messages;
use daruma_syntax::ParseOptions;
use daruma_syntax::ast::{self, Statement, StatementKind};
use std::sync::Arc;

/// Where control goes after a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Flow {
    Next,
    Break,
    Continue,
    Return,
    Goto(String),
}

impl Execution<'_> {
    pub(crate) fn parse_options(&self) -> ParseOptions {
        ParseOptions {
            quoted_identifier: self.state.settings.borrow().quoted_identifier,
        }
    }

    /// The text as the plan cache keeps it for the current database.
    pub(crate) fn parsed_batch(
        &self,
        text: &str,
    ) -> std::result::Result<Arc<Batch>, Vec<SqlError>> {
        let (database, options) = (self.current_database(), self.parse_options());
        self.state.instance.plans.batch(text, &options, database)
    }

    /// Runs the text of a SQL batch message.
    pub(crate) fn run_batch(&self, text: &str) -> Step<()> {
        let started = self.start_statistics();
        let batch = match self.parsed_batch(text) {
            Ok(batch) => batch,
            Err(errors) => return self.refuse_batch(&errors),
        };
        if !batch.suspects.is_empty() {
            let errors: Vec<SqlError> = batch.suspects.iter().map(Suspect::error).collect();
            return self.refuse_batch(&errors);
        }
        self.tell_compile_time(started)?;
        let database = self.state.database.borrow().id();
        let mut frame = Frame::new(FrameKind::Batch, batch.clone(), database);
        frame.scope_identity = self.state.batch_identity.get();
        self.run_frame(frame, &batch.statements).map(|_| ())
    }

    /// Tells the errors of a batch that does not run at all.
    fn refuse_batch(&self, errors: &[SqlError]) -> Step<()> {
        errors.iter().try_for_each(|e| self.send(e))?;
        let kind = crate::sink::DoneKind::Statement;
        let done = super::plain_done(kind, 0, self.state.trancount.get() > 0);
        self.to_client(|sink| {
            sink.done(crate::sink::Done {
                error: true,
                ..done
            })
        })
    }

    /// Runs statements in a new frame; gives the return status.
    pub(crate) fn run_frame(&self, frame: Frame, statements: &[Statement]) -> Step<i32> {
        self.run_frame_with(frame, statements, &|_| {})
    }

    /// As `run_frame`; `at_end` reads the frame of a normal end.
    pub(crate) fn run_frame_with(
        &self,
        frame: Frame,
        statements: &[Statement],
        at_end: &dyn Fn(&Frame),
    ) -> Step<i32> {
        if let Some(on) = frame.batch.quotes_set
            && matches!(frame.kind, FrameKind::Batch | FrameKind::Dynamic)
        {
            self.state.settings.borrow_mut().quoted_identifier = on;
        }
        let level = self.state.frames.borrow().len() + 1;
        let is_request = level == 1 && self.state.entry.activity.lock().text == frame.batch.text;
        let frame = Frame {
            is_request,
            ..frame
        };
        self.state.frames.borrow_mut().push(frame);
        let gathers = self.gather_plans();
        let result = self.run_list(statements);
        let result = match gathers {
            true => {
                let sent = self.send_document(result.is_ok());
                result.and_then(|flow| sent.map(|()| flow))
            }
            false => result,
        };
        let result = match result {
            Ok(Flow::Goto(label)) => Err(self.fail(messages::error(133, &[&label]))),
            Err(Stop::Statement) => Ok(Flow::Next),
            other => other,
        };
        let cleaned = match level {
            1 => Ok(()),
            _ => self
                .state
                .drop_temps_above(level - 1)
                .map_err(|e| self.fail(e)),
        };
        self.leave_frame_as(level);
        self.state.cursors.leave(level);
        let mut frame = self.state.frames.borrow_mut().pop();
        if let Some(frame) = &mut frame {
            if level == 1 {
                self.state.batch_identity.set(frame.scope_identity);
            }
            self.drop_table_variables(frame);
            if let Some(saved) = frame.saved_settings.take() {
                *self.state.settings.borrow_mut() = saved;
                self.state.apply_lock_settings();
            }
        }
        result?;
        cleaned?;
        Ok(frame.map_or(0, |frame| {
            at_end(&frame);
            frame.return_status
        }))
    }

    pub(crate) fn run_list(&self, list: &[Statement]) -> Step<Flow> {
        self.run_list_from(list, 0, None)
    }

    /// Runs a list from the statement at `at`: with `label`, from that label in it.
    fn run_list_from(&self, list: &[Statement], at: usize, label: Option<String>) -> Step<Flow> {
        let late = &self.state.late;
        let is_tail = late.is_tail();
        let flow = self.run_each(list, is_tail, at, label);
        late.set_tail(is_tail);
        flow
    }

    /// `is_tail`: nothing follows the list in its request. GOTO to a label in the list is a turn of this loop, wherever it
    /// came from.
    fn run_each(
        &self,
        list: &[Statement],
        is_tail: bool,
        mut at: usize,
        mut wanted: Option<String>,
    ) -> Step<Flow> {
        while let Some(statement) = list.get(at) {
            self.state.late.set_tail(is_tail && at + 1 == list.len());
            let flow = match wanted.take() {
                None => self.run_one(statement)?,
                Some(label) => self.enter_at(statement, &label)?,
            };
            match flow {
                Flow::Next => at += 1,
                Flow::Goto(label) => match label_place(list, &label) {
                    Some(found) => {
                        self.state.check_cancel().map_err(|e| self.fail(e))?;
                        at = found;
                        wanted = Some(label);
                    }
                    None => return Ok(Flow::Goto(label)),
                },
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    /// Goes into a statement that is, or holds, the label.
    fn enter_at(&self, statement: &Statement, label: &str) -> Step<Flow> {
        match &statement.kind {
            StatementKind::Block(body) => match label_place(body, label) {
                Some(at) => self.run_list_from(body, at, Some(label.to_string())),
                None => Ok(Flow::Next),
            },
            StatementKind::Label(_) => Ok(Flow::Next),
            _ => self.run_one(statement),
        }
    }

    /// Runs a statement; an error that only ends the statement lets the list go on. Blocks within blocks and modules within
    /// modules come through here, each bounded alone: together they are deeper than a connection's stack.
    pub(super) fn run_one(&self, statement: &Statement) -> Step<Flow> {
        let place = statement.span.start;
        let mut has_passed = false;
        self.top_mut(|f| {
            has_passed = f.next_passed(place).is_some();
            f.statement_line = f.line + statement.span.line as i32;
            if f.is_request {
                let span = statement.span;
                self.state.entry.show_statement(span.start..span.end);
            }
        });
        if let Err(error) = self.state.check_cancel() {
            return Err(self.fail(error));
        }
        if has_passed && let Err(error) = self.declare_passed(place) {
            match self.fail(error) {
                Stop::Statement => {}
                stop => return Err(stop),
            }
        }
        match with_stack(|| self.run_statement(statement)) {
            Err(Stop::Statement) => Ok(Flow::Next),
            other => other,
        }
    }

    pub(crate) fn run_if(&self, statement: &ast::If) -> Step<Flow> {
        if self.test(&statement.condition)? {
            return self.run_one(&statement.then);
        }
        match &statement.otherwise {
            Some(otherwise) => self.run_one(otherwise),
            None => Ok(Flow::Next),
        }
    }

    pub(crate) fn run_while(&self, statement: &ast::While, place: &Statement) -> Step<Flow> {
        self.top_mut(|f| f.while_depth += 1);
        let is_tail = self.state.late.set_tail(false);
        let result = self.run_loop(statement, place);
        self.state.late.set_tail(is_tail);
        self.top_mut(|f| f.while_depth -= 1);
        result
    }

    fn run_loop(&self, statement: &ast::While, place: &Statement) -> Step<Flow> {
        loop {
            self.top_mut(|f| f.statement_line = f.line + place.span.line as i32);
            self.state.check_cancel().map_err(|e| self.fail(e))?;
            if !self.test(&statement.condition)? {
                return Ok(Flow::Next);
            }
            match self.run_one(&statement.body)? {
                Flow::Next | Flow::Continue => {}
                Flow::Break => return Ok(Flow::Next),
                other => return Ok(other),
            }
        }
    }

    pub(crate) fn run_try(&self, statement: &ast::TryCatch) -> Step<Flow> {
        let frames = self.state.frames.borrow().len();
        self.top_mut(|f| f.tries += 1);
        let is_tail = self.state.late.set_tail(false);
        let result = self.run_list(&statement.body);
        self.state.late.set_tail(is_tail);
        self.top_mut(|f| f.tries -= 1);
        let error = match result {
            Err(Stop::Caught(error)) => error,
            other => return other,
        };
        debug_assert_eq!(frames, self.state.frames.borrow().len());
        self.state.caught.borrow_mut().push(error);
        let handled = self.run_list(&statement.handler);
        self.state.caught.borrow_mut().pop();
        handled
    }

    /// Value of a condition of IF or WHILE; unknown counts as false.
    fn test(&self, condition: &ast::Condition) -> Step<bool> {
        let value = self.evaluate_condition(condition);
        let value = value.map_err(|e| self.fail(e))?;
        self.state.last_error.set(0);
        self.state.row_count.set(0);
        self.send_pending()?;
        Ok(value)
    }

    /// The plan of a condition of the running batch.
    pub(super) fn condition_plan(&self, condition: &ast::Condition) -> Result<Arc<ConditionPlan>> {
        self.note_planned();
        let place = std::ptr::from_ref(condition) as usize;
        self.expression_plan(place, || {
            prepare_condition(condition, &Scope::default(), self)
        })
    }

    fn evaluate_condition(&self, condition: &ast::Condition) -> Result<bool> {
        let plan = || self.condition_plan(condition);
        if self.in_function() {
            let plan = plan()?;
            if !plan.has_subqueries() {
                return Ok(plan.eval(&[], self)? == Some(true));
            }
        }
        self.atomic(|| Ok(plan()?.eval(&[], self)? == Some(true)))
    }

    /// Value of an expression that stands alone.
    fn evaluate_in(
        &self,
        scope: &Scope,
        expr: &ast::Expr,
    ) -> Result<(daruma_value::Value, daruma_value::DataType)> {
        self.note_planned();
        let place = std::ptr::from_ref(expr) as usize;
        let plan = self.expression_plan(place, || prepare_scalar(expr, scope, self))?;
        Ok((plan.eval(&[], self)?, plan.data_type()))
    }

    /// The plan of an expression. `place` must be the address of a node of the running batch; nodes made on the way must
    /// not come here.
    fn expression_plan<P: KeptPlan>(
        &self,
        place: usize,
        prepare: impl FnOnce() -> Result<P>,
    ) -> Result<Arc<P>> {
        self.shared_plan(place, None, || {
            self.with_access(None, prepare).map(Arc::new)
        })
    }

    /// Value of `made()`, an expression that stands for `node` of the running batch and nothing else.
    pub(crate) fn evaluate_compound(
        &self,
        node: &ast::Expr,
        made: impl FnOnce() -> ast::Expr,
    ) -> Result<(daruma_value::Value, daruma_value::DataType)> {
        self.atomic(|| {
            self.note_planned();
            // Nodes are aligned, so an odd place is no other node's.
            let place = std::ptr::from_ref(node) as usize | 1;
            let plan =
                self.expression_plan(place, || prepare_scalar(&made(), &Scope::default(), self))?;
            Ok((plan.eval(&[], self)?, plan.data_type()))
        })
    }

    /// Value of an expression made on the way, for which no plan is kept.
    fn evaluate_once(
        &self,
        expr: &ast::Expr,
    ) -> Result<(daruma_value::Value, daruma_value::DataType)> {
        self.note_planned();
        let plan = self.with_access(None, || prepare_scalar(expr, &Scope::default(), self))?;
        Ok((plan.eval(&[], self)?, plan.data_type()))
    }

    /// As `evaluate_alone`, for an expression made on the way.
    pub(crate) fn evaluate_made(
        &self,
        expr: &ast::Expr,
    ) -> Result<(daruma_value::Value, daruma_value::DataType)> {
        self.atomic(|| self.evaluate_once(expr))
    }

    /// Value of an expression as an atomic statement of its own (it may hold subqueries).
    pub(crate) fn evaluate_alone(
        &self,
        expr: &ast::Expr,
    ) -> Result<(daruma_value::Value, daruma_value::DataType)> {
        self.evaluate_alone_in(&Scope::default(), expr)
    }

    /// The same in a place where NEXT VALUE FOR is 11719.
    pub(crate) fn evaluate_returned(
        &self,
        expr: &ast::Expr,
    ) -> Result<(daruma_value::Value, daruma_value::DataType)> {
        let scope = Scope {
            next_value_error: Some(NESTED),
            ..Scope::default()
        };
        self.evaluate_alone_in(&scope, expr)
    }

    fn evaluate_alone_in(
        &self,
        scope: &Scope,
        expr: &ast::Expr,
    ) -> Result<(daruma_value::Value, daruma_value::DataType)> {
        if self.in_function() {
            self.note_planned();
            let place = std::ptr::from_ref(expr) as usize;
            let prepare = || prepare_scalar(expr, scope, self);
            let plan = self.expression_plan(place, prepare)?;
            // What reads no table needs no view of the data, and has nothing to take back.
            if !plan.has_subqueries() {
                return Ok((plan.eval(&[], self)?, plan.data_type()));
            }
        }
        self.atomic(|| self.evaluate_in(scope, expr))
    }

    /// The batch of the running frame, to keep its text and plans alive.
    pub(crate) fn running_batch(&self) -> Option<Arc<Batch>> {
        self.state.frames.borrow().last().map(|f| f.batch.clone())
    }

    pub(super) fn drop_table_variables(&self, frame: &Frame) {
        for variable in frame.variables.values().filter(|v| !v.is_borrowed) {
            use crate::host::VariableType::{Parameter, Table};
            if let Table(table) | Parameter(table) = &variable.declared {
                // A tree that stays behind is gone with the next start: tempdb is made anew.
                let _ = self.with_variable_transaction(|txn| super::drop_trees(txn, &table.def));
            }
        }
    }
}

/// The statement of a list that is, or holds, the label.
fn label_place(list: &[Statement], label: &str) -> Option<usize> {
    list.iter().position(|s| contains_label(s, label))
}

fn contains_label(statement: &Statement, label: &str) -> bool {
    match &statement.kind {
        StatementKind::Label(name) => name.is(label),
        StatementKind::Block(body) => body.iter().any(|s| contains_label(s, label)),
        _ => false,
    }
}
