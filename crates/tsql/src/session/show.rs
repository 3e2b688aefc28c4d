//! SET SHOWPLAN_*: plans in place of results.
//!
//! Theory: a batch is walked as it is written, both branches of an IF, and nothing of it runs: queries and changes of rows are planned,
//! variables declared, because what follows names them, and session options set, so that this one can be switched off again.
//! SHOWPLAN_TEXT and SHOWPLAN_ALL send each statement as it comes. SHOWPLAN_XML gathers the plans and sends one document for the batch
//! when all of it could be planned; after an error there is none.

use super::execution::{Execution, plain_column};
use super::fail::{Step, Stop};
use super::frame::Frame;
use super::interpreter::Flow;
use super::query::COMMAND_SELECT;
use crate::error::Result;
use crate::executor::KeptPlan;
use crate::host::Showplan;
use crate::showplan::{Plans, document};
use crate::sink::Done;
use daruma_syntax::ast::{Declaration, DeclarationKind, Statement, StatementKind};
use daruma_value::{DataType, Value};
use std::sync::Arc;

/// Name of the one column of SHOWPLAN_XML, in every version of the product since.
const XML_COLUMN: &str = "Microsoft SQL Server 2005 XML Showplan";

/// Error that a statement without a number of its own ends with.
const COMMAND_OTHER: u16 = 0xFD;

impl Execution<'_> {
    pub(super) fn showplan(&self) -> Showplan {
        self.state.settings.borrow().showplan
    }

    /// Shows a statement instead of running it: its operators, or its text alone.
    pub(super) fn show_statement(&self, statement: &Statement) -> Step<Flow> {
        let shown = self.show(statement);
        match (shown, self.showplan()) {
            // The rest of the batch cannot be shown any more.
            (Err(Stop::Statement), Showplan::Xml) => Err(Stop::Batch),
            (shown, _) => shown.map(|()| Flow::Next),
        }
    }

    fn show(&self, statement: &Statement) -> Step<()> {
        let refused = |e| self.failed(COMMAND_OTHER, e);
        self.needs_database("SHOWPLAN").map_err(refused)?;
        match &statement.kind {
            StatementKind::If(s) => {
                self.show_condition(&s.condition, statement)?;
                self.run_one(&s.then)?;
                match &s.otherwise {
                    Some(otherwise) => self.run_one(otherwise).map(drop),
                    None => Ok(()),
                }
            }
            StatementKind::While(s) => {
                self.show_condition(&s.condition, statement)?;
                self.run_one(&s.body).map(drop)
            }
            StatementKind::TryCatch(s) => {
                self.run_list(&s.body)?;
                self.run_list(&s.handler).map(drop)
            }
            StatementKind::Declare(list) => list
                .iter()
                .try_for_each(|d| self.run_declare(&without_value(d))),
            StatementKind::DeclareTable(_) => self.run_plain(statement),
            StatementKind::Select(query) => {
                self.planned_and_shown(statement, || Ok(self.select_plan(query, statement)?))
            }
            StatementKind::Insert(_)
            | StatementKind::Update(_)
            | StatementKind::Delete(_)
            | StatementKind::Merge(_) => {
                self.planned_and_shown(statement, || Ok(self.dml_plan(statement)?))
            }
            _ => self.show_plan(statement, None).map_err(refused),
        }
    }

    fn planned_and_shown(
        &self,
        statement: &Statement,
        plan: impl Fn() -> Result<Arc<dyn KeptPlan>>,
    ) -> Step<()> {
        let shown = self.retry_on_change(|| {
            self.atomic(|| {
                let plan = plan()?;
                self.show_plan(statement, Some(plan))
            })
        });
        shown.map_err(|e| self.failed(COMMAND_OTHER, e))
    }

    /// Lines have no condition; a document has the plan of its subqueries.
    fn show_condition(
        &self,
        condition: &daruma_syntax::ast::Condition,
        statement: &Statement,
    ) -> Step<()> {
        if self.showplan() != Showplan::Xml {
            return Ok(());
        }
        let planned = self.atomic(|| self.condition_plan(condition));
        let plan = planned.map_err(|e| self.failed(COMMAND_OTHER, e))?;
        self.note_plan(statement, plan);
        Ok(())
    }

    /// SHOWPLAN_TEXT: the statement, then its operators, if it has any. SHOWPLAN_ALL has more columns.
    fn show_plan(&self, statement: &Statement, plan: Option<Arc<dyn KeptPlan>>) -> Result<()> {
        let form = self.showplan();
        if form == Showplan::Xml {
            plan.into_iter().for_each(|p| self.note_plan(statement, p));
            return Ok(());
        }
        let text = self
            .running_batch()
            .map_or(String::new(), |b| statement.span.text(&b.text).to_string());
        let picture = plan.as_ref().and_then(|p| p.picture());
        let operators = picture.map(|p| p.text()).unwrap_or_default();
        match form {
            Showplan::Text => {
                self.one_column("StmtText", &[text])?;
                match operators.as_slice() {
                    [] => Ok(()),
                    _ => self.one_column("StmtText", &operators),
                }
            }
            _ => self.show_all(&text, &operators),
        }
    }

    // --- SHOWPLAN_XML

    /// Begins to gather the plans of a frame's text, if SHOWPLAN_XML wants them and no frame around it does so already.
    pub(super) fn gather_plans(&self) -> bool {
        let mut shown = self.shown.borrow_mut();
        let begins = shown.is_none() && self.showplan() == Showplan::Xml;
        if begins {
            *shown = Some(Plans::default());
        }
        begins
    }

    fn note_plan(&self, statement: &Statement, plan: Arc<dyn KeptPlan>) {
        if let Some(plans) = self.shown.borrow_mut().as_mut() {
            plans.add(statement.span.start, plan);
        }
    }

    /// Sends the document of the running frame's text, if all of it was shown.
    pub(super) fn send_document(&self, is_whole: bool) -> Step<()> {
        let plans = self.shown.borrow_mut().take();
        let batch = self.running_batch();
        let (Some(plans), Some(batch), true) = (plans, batch, is_whole) else {
            return Ok(());
        };
        // Switched off by this text.
        if self.showplan() != Showplan::Xml {
            return Ok(());
        }
        match document(&batch, &plans, None) {
            Some(document) => {
                let sent = self.one_column(XML_COLUMN, &[document.text]);
                sent.map_err(|e| self.failed(COMMAND_OTHER, e))
            }
            None => Ok(()),
        }
    }

    // --- Lines

    fn one_column(&self, name: &str, lines: &[String]) -> Result<()> {
        self.send_columns(&[plain_column(name, DataType::NVARCHAR_MAX, true)])?;
        lines
            .iter()
            .try_for_each(|line| self.send_row(&[Value::str(line)]))?;
        self.end_rows(lines.len())
    }

    fn end_rows(&self, count: usize) -> Result<()> {
        self.rows_open.set(false);
        let done = Done {
            kind: self.top(Frame::done_kind),
            command: COMMAND_SELECT,
            row_count: Some(count as u64),
            error: false,
            in_transaction: self.state.trancount.get() > 0,
        };
        self.to_client(|sink| sink.done(done))
            .map_err(|_| super::query::client_gone())
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
        self.end_rows(operators.len() + 1)
    }
}

/// The declaration alone: nothing is evaluated.
fn without_value(declaration: &Declaration) -> Declaration {
    let mut bare = declaration.clone();
    if let DeclarationKind::Scalar { value, .. } = &mut bare.kind {
        *value = None;
    }
    bare
}
