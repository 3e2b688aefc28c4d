//! SET SHOWPLAN_*: plans in place of results; SET STATISTICS XML and PROFILE: plans behind them.
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
use crate::executor::{ActualRows, KeptPlan};
use crate::host::Showplan;
use crate::showplan::{Plans, ShownLine, document, type_name};
use crate::sink::{Done, OutputColumn};
use daruma_syntax::ast::{Declaration, DeclarationKind, Statement, StatementKind};
use daruma_value::{DataType, Value};
use std::rc::Rc;
use std::sync::Arc;

/// What a statement does while STATISTICS XML or PROFILE is on.
#[derive(Default)]
pub(crate) struct Counting {
    rows: Rc<ActualRows>,
    /// The plan that it runs by.
    plan: Option<Arc<dyn KeptPlan>>,
}

impl Counting {
    /// Where its rows are counted.
    pub(crate) fn rows(&self) -> Rc<ActualRows> {
        self.rows.clone()
    }
}

/// Name of the one column of SHOWPLAN_XML, in every version of the product since.
const XML_COLUMN: &str = "Microsoft SQL Server 2005 XML Showplan";

/// TDS `curcmd` of statements that clients do not tell apart.
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
        let operators = picture.map(|p| p.lines()).unwrap_or_default();
        if form != Showplan::Text {
            return self.show_all(&text, type_name(&statement.kind), &operators, None);
        }
        self.one_column("StmtText", &[text])?;
        match operators.is_empty() {
            true => Ok(()),
            false => {
                let lines: Vec<String> = operators.into_iter().map(|l| l.text).collect();
                self.one_column("StmtText", &lines)
            }
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

    // --- STATISTICS XML and PROFILE

    /// Counts what the next statement does, if its plan is to be shown; gives what was counted around it.
    pub(super) fn begin_counting(&self) -> Option<Counting> {
        let wanted = {
            let settings = self.state.settings.borrow();
            settings.statistics_xml || settings.statistics_profile
        };
        // Where the rows of a statement are taken for something, one result more would be taken too.
        let is_taken = || {
            self.in_function()
                || self.captured.borrow().is_some()
                || self.described.borrow().is_some()
                || self.opening.borrow().is_some()
        };
        let counting = wanted && !is_taken();
        self.counting.replace(counting.then(Counting::default))
    }

    /// The statement runs by this plan; what an attempt before it did counts no more.
    pub(super) fn count_plan<P: KeptPlan>(&self, plan: &Arc<P>) {
        if let Some(counting) = self.counting.borrow_mut().as_mut() {
            counting.rows = Rc::default();
            counting.plan = Some(plan.clone());
        }
    }

    /// Sends the plan of a statement that has run, behind its result.
    pub(super) fn show_counted(
        &self,
        statement: &Statement,
        counted: Option<Counting>,
        written: u64,
    ) -> Step<()> {
        let (xml, profile) = {
            let settings = self.state.settings.borrow();
            (settings.statistics_xml, settings.statistics_profile)
        };
        let (
            Some(Counting {
                rows,
                plan: Some(plan),
            }),
            Some(batch),
        ) = (counted, self.running_batch())
        else {
            return Ok(());
        };
        rows.written.set(written);
        let shown = || -> Result<()> {
            if profile && let Some(picture) = plan.picture() {
                let text = statement.span.text(&batch.text);
                let lines = picture.with_actual(Some(&rows)).lines();
                self.show_all(text, type_name(&statement.kind), &lines, Some(written))?;
            }
            if xml {
                let start = statement.span.start;
                let plans = Plans::of_run(start, plan.clone(), rows.clone());
                if let Some(document) = document(&batch, &plans, Some(start)) {
                    self.one_column(XML_COLUMN, &[document.text])?;
                }
            }
            Ok(())
        };
        shown().map_err(|e| self.failed(COMMAND_OTHER, e))
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

    /// A row for the statement and one for each operator; with what they did in front, if that was counted.
    fn show_all(
        &self,
        statement: &str,
        kind: Option<&'static str>,
        lines: &[ShownLine],
        given: Option<u64>,
    ) -> Result<()> {
        let text = DataType::NVARCHAR_MAX;
        let counts = [("Rows", DataType::BigInt), ("Executes", DataType::BigInt)];
        let columns = [
            ("StmtText", text),
            ("StmtId", DataType::Int),
            ("NodeId", DataType::Int),
            ("Parent", DataType::Int),
            ("PhysicalOp", text),
            ("LogicalOp", text),
            ("Argument", text),
            ("DefinedValues", text),
            ("EstimateRows", DataType::Real),
            ("EstimateIO", DataType::Real),
            ("EstimateCPU", DataType::Real),
            ("AvgRowSize", DataType::Int),
            ("TotalSubtreeCost", DataType::Real),
            ("OutputList", text),
            ("Warnings", text),
            ("Type", text),
            ("Parallel", DataType::Bit),
            ("EstimateExecutions", DataType::Real),
        ];
        let counts = counts.iter().filter(|_| given.is_some());
        let all: Vec<OutputColumn> = counts
            .chain(&columns)
            .map(|(name, data_type)| plain_column(name, *data_type, true))
            .collect();
        self.send_columns(&all)?;
        let root = lines.first();
        let head = vec![
            Value::str(statement),
            Value::Int(1),
            Value::Int(1),
            Value::Int(0),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            root.map_or(Value::Null, |l| Value::Real(l.rows as f32)),
            Value::Null,
            Value::Null,
            Value::Null,
            root.map_or(Value::Null, |l| Value::Real(l.cost as f32)),
            Value::Null,
            Value::Null,
            Value::str(kind.unwrap_or("UNKNOWN")),
            Value::Bit(false),
            Value::Null,
        ];
        self.send_row(&counted(given.map(|rows| (rows, 1)), head))?;
        for (at, line) in lines.iter().enumerate() {
            let actual = line.actual.filter(|_| given.is_some());
            let actual = actual.map(|a| (a.rows, a.executions));
            self.send_row(&counted(actual, operator_row(at, line)))?;
        }
        self.end_rows(lines.len() + 1)
    }
}

fn operator_row(at: usize, line: &ShownLine) -> Vec<Value> {
    // The statement is node 1.
    let node = |place: usize| Value::Int(i32::try_from(place + 2).unwrap_or(i32::MAX));
    vec![
        Value::str(&line.text),
        Value::Int(1),
        node(at),
        line.parent.map_or(Value::Int(1), node),
        Value::str(line.physical),
        Value::str(&line.logical),
        Value::str(&line.argument),
        Value::Null,
        Value::Real(line.rows as f32),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Real(line.cost as f32),
        Value::Null,
        Value::Null,
        Value::str("PLAN_ROW"),
        Value::Bit(false),
        Value::Null,
    ]
}

/// The row with what was counted in front.
fn counted(actual: Option<(u64, u64)>, row: Vec<Value>) -> Vec<Value> {
    let number = |n: u64| Value::BigInt(i64::try_from(n).unwrap_or(i64::MAX));
    match actual {
        Some((rows, executions)) => [vec![number(rows), number(executions)], row].concat(),
        None => row,
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
