//! SELECT: plan, stream, show.

use super::execution::{Execution, plain_column};
use super::fail::Step;
use crate::ddl;
use crate::error::{Result, SqlError};
use crate::executor::{RowBatch, SelectPlan, open, prepare_select, run_assignment};
use crate::host::Showplan;
use crate::sink::Done;
use daruma_syntax::ast::{Query, QueryBody, SelectInto, SelectItem, Statement};
use daruma_value::{DataType, Value};
use std::sync::Arc;

pub(crate) const COMMAND_SELECT: u16 = 0xC1;
const COMMAND_SELECT_INTO: u16 = 0xC2;

/// Outcome of a SELECT.
enum Outcome {
    Rows(u64),
    Assigned(u64),
    Into(u64),
    Nothing,
}

impl Outcome {
    fn rows(&self) -> u64 {
        match self {
            Outcome::Rows(n) | Outcome::Assigned(n) | Outcome::Into(n) => *n,
            Outcome::Nothing => 0,
        }
    }
}

impl Execution<'_> {
    pub(crate) fn run_select(&self, query: &Query, statement: &Statement) -> Step<()> {
        self.begin_implicit()?;
        let started = self.start_statistics();
        match self.retry_on_change(|| self.atomic(|| self.select(query, statement))) {
            Ok(outcome) => {
                let (command, count) = match outcome {
                    Outcome::Rows(n) => (COMMAND_SELECT, Some(n)),
                    Outcome::Into(n) => (COMMAND_SELECT_INTO, Some(n)),
                    Outcome::Assigned(_) | Outcome::Nothing => (COMMAND_SELECT, None),
                };
                self.state.last_error.set(0);
                self.state.row_count.set(outcome.rows());
                self.send_pending()?;
                self.finish_statistics(started)?;
                self.done(command, count, false)
            }
            Err(error) => {
                self.state.row_count.set(0);
                Err(self.failed(COMMAND_SELECT, error))
            }
        }
    }

    fn select(&self, query: &Query, statement: &Statement) -> Result<Outcome> {
        let plan = self.select_plan(query, statement)?;
        let (showplan, fmtonly, rowcount) = {
            let settings = self.state.settings.borrow();
            (settings.showplan, settings.fmtonly, settings.rowcount)
        };
        if showplan != Showplan::Off {
            self.show_plan(statement, &plan.show_text())?;
            return Ok(Outcome::Nothing);
        }
        if fmtonly {
            self.send_columns(plan.columns())?;
            return Ok(Outcome::Rows(0));
        }
        let begun = self.measure(plan.stats());
        let opened = self.open_in_place(&plan, rowcount)?;
        let outcome = if let Some(rows) = opened {
            Outcome::Rows(rows)
        } else if let Some(into) = into_of(query) {
            Outcome::Into(ddl::select_into(self, into, &plan)?)
        } else if plan.is_assignment() {
            Outcome::Assigned(run_assignment(&plan, self)?)
        } else {
            Outcome::Rows(self.stream(&plan, rowcount)?)
        };
        self.measured(&begun, outcome.rows());
        Ok(outcome)
    }

    /// The statement's plan: the one kept with the batch, if it is still right.
    fn select_plan(&self, query: &Query, statement: &Statement) -> Result<Arc<SelectPlan>> {
        self.note_planned();
        self.shared_plan(statement.span.start, Some(statement.span), || {
            self.with_access(Some(&statement.kind), || prepare_select(query, self))
        })
    }

    /// Sends all rows.
    fn stream(&self, plan: &Arc<SelectPlan>, rows_max: u64) -> Result<u64> {
        self.send_columns(plan.columns())?;
        let mut stream = open(plan, self)?;
        let mut batch = RowBatch::new();
        let mut count = 0;
        while stream.next(&mut batch)? {
            self.state.check_cancel()?;
            for row in batch.rows() {
                self.send_row(row)?;
                count += 1;
                if count == rows_max {
                    return Ok(count);
                }
            }
        }
        Ok(count)
    }

    /// SHOWPLAN_TEXT: the statement, then its operators, if it has any. SHOWPLAN_ALL has more columns.
    pub(super) fn show_plan(&self, statement: &Statement, operators: &[String]) -> Result<()> {
        let text = self
            .running_batch()
            .map_or(String::new(), |b| statement.span.text(&b.text).to_string());
        let form = self.state.settings.borrow().showplan;
        match form {
            Showplan::Text => {
                self.one_column("StmtText", &[text])?;
                match operators {
                    [] => Ok(()),
                    _ => self.one_column("StmtText", operators),
                }
            }
            _ => self.show_all(&text, operators),
        }
    }

    fn one_column(&self, name: &str, lines: &[String]) -> Result<()> {
        self.send_columns(&[plain_column(name, DataType::NVARCHAR_MAX, true)])?;
        lines
            .iter()
            .try_for_each(|line| self.send_row(&[Value::str(line)]))?;
        let done = Done {
            kind: self.top(super::frame::Frame::done_kind),
            command: COMMAND_SELECT,
            row_count: Some(lines.len() as u64),
            error: false,
            in_transaction: self.state.trancount.get() > 0,
        };
        self.to_client(|sink| sink.done(done))
            .map_err(|_| client_gone())
    }

    fn show_all(&self, statement: &str, operators: &[String]) -> Result<()> {
        let text = DataType::NVARCHAR_MAX;
        let columns = [
            plain_column("StmtText", text, true),
            plain_column("StmtId", DataType::Int, true),
            plain_column("NodeId", DataType::Int, true),
            plain_column("Parent", DataType::Int, true),
            plain_column("PhysicalOp", text, true),
            plain_column("LogicalOp", text, true),
            plain_column("Argument", text, true),
            plain_column("DefinedValues", text, true),
            plain_column("EstimateRows", DataType::Real, true),
            plain_column("EstimateIO", DataType::Real, true),
            plain_column("EstimateCPU", DataType::Real, true),
            plain_column("AvgRowSize", DataType::Int, true),
            plain_column("TotalSubtreeCost", DataType::Real, true),
            plain_column("OutputList", text, true),
            plain_column("Warnings", text, true),
            plain_column("Type", text, true),
            plain_column("Parallel", DataType::Bit, true),
            plain_column("EstimateExecutions", DataType::Real, true),
        ];
        self.send_columns(&columns)?;
        let lines = std::iter::once(statement).chain(operators.iter().map(String::as_str));
        for (node, line) in lines.enumerate() {
            let kind = if node == 0 { "SELECT" } else { "PLAN_ROW" };
            let mut row = vec![Value::Null; columns.len()];
            let cells = [
                (0, Value::str(line)),
                (1, Value::Int(1)),
                (2, Value::Int(node as i32 + 1)),
                (15, Value::str(kind)),
                (16, Value::Bit(false)),
            ];
            for (at, value) in cells {
                if let Some(cell) = row.get_mut(at) {
                    *cell = value;
                }
            }
            self.send_row(&row)?;
        }
        Ok(())
    }
}

/// The INTO clause of a query's first SELECT, and that one's items.
pub(super) fn into_of(query: &Query) -> Option<(&SelectInto, &[SelectItem])> {
    let mut body = &query.body;
    loop {
        match body {
            QueryBody::Select(select) => {
                let into = select.into.as_ref()?;
                return Some((into, &select.items));
            }
            QueryBody::Set { branches, .. } => body = branches.first()?,
        }
    }
}

/// A statement that stops because nobody reads its rows.
pub(crate) fn client_gone() -> SqlError {
    SqlError::new(596, 21, 1, "The client is gone.")
}
