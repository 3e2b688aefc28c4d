//! Plans as other rooms hold them, and the row stream.

use super::RowBatch;
use super::context::Ctx;
use super::exposed::{Exposed, stand_for};
use super::expr::{Cond, Expr};
use super::operator::{Operator, build};
use super::plan::{Node, Op, Plan};
use crate::binder::next_value::{LIMITED, NESTED};
use crate::binder::tree::{Coercion, ColId, ColSet, Kind, Scalar, Type};
use crate::binder::types;
use crate::binder::{
    Binder, BoundQuery, ColumnInfo, NameScope, Numbering, OutColumn, ScopeEntry, ViewCheck, literal,
};
use crate::error::{Result, SqlError};
use crate::host::{CursorRow, Host, TableRef};
use crate::instance::query_stats::QueryStats;
use crate::planner::Planner;
use crate::showplan::Picture;
use crate::sink::OutputColumn;
use daruma_base::{DatabaseId, TxnId};
use daruma_catalog::ParameterDef;
use daruma_storage::Stamp;
use daruma_syntax::ParseOptions;
use daruma_syntax::ast;
use daruma_value::convert::{ConvertContext, convert};
use daruma_value::{CollationId, DataType, Value};
use std::sync::Arc;

/// Layout of the row given to a [`ScalarPlan`]: tables one after the other, each with its columns.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub tables: Vec<ScopeTable>,
    /// Error of NEXT VALUE FOR in expressions over it; `None`: it may stand there.
    pub next_value_error: Option<i32>,
    /// WITH XMLNAMESPACES of the statement that the expressions belong to.
    pub xml_namespaces: Vec<ast::XmlNamespace>,
}

/// A table whose columns an expression may name, outside of any query: checks, defaults, computed columns.
#[derive(Clone, Debug)]
pub struct ScopeTable {
    /// Alias or name that qualifies the columns; empty when they can only be named alone.
    pub name: String,
    pub schema: Option<String>,
    pub columns: Vec<ScopeColumn>,
}

/// A column of such a table; its value stands at the same place in the row given to `eval`.
#[derive(Clone, Debug)]
pub struct ScopeColumn {
    pub name: String,
    pub data_type: DataType,
    pub collation: CollationId,
    pub nullable: bool,
}

impl Scope {
    /// One table under `name`, all its columns in order.
    pub fn of_table(table: &TableRef, name: &str) -> Scope {
        Scope {
            tables: vec![ScopeTable::of_table(table, name)],
            ..Scope::default()
        }
    }

    /// Number of values in a row.
    pub fn width(&self) -> usize {
        self.tables.iter().map(|t| t.columns.len()).sum()
    }
}

impl ScopeTable {
    /// The columns of a stored table under this name.
    pub fn of_table(table: &TableRef, name: &str) -> ScopeTable {
        let column = |c: &daruma_catalog::ColumnDef| ScopeColumn {
            name: c.name.clone(),
            data_type: c.data_type,
            collation: c.collation,
            nullable: c.nullable,
        };
        ScopeTable {
            name: name.to_string(),
            schema: None,
            columns: table.def.columns.iter().map(column).collect(),
        }
    }
}

/// The rows that an UPDATE or DELETE works on and what it needs to know of each.
pub struct TargetSpec<'a> {
    pub with: &'a ast::With,
    pub target: &'a ast::DmlTarget,
    /// FROM of the statement; empty when there is none. A target that names an alias of it is that table.
    pub from: &'a [ast::TableSource],
    pub filter: Option<&'a ast::Condition>,
    pub top: Option<&'a ast::Top>,
    pub options: &'a [ast::QueryHint],
    /// Further values of each row: right sides of SET. Subqueries are welcome.
    pub items: Vec<&'a ast::Expr>,
    /// Columns that SET names: the first tells which base table of a view is meant.
    pub sets: Vec<&'a ast::ColumnRef>,
    /// The statement is DELETE.
    pub deletes: bool,
    /// Also give the columns of the other tables of FROM, for OUTPUT.
    pub source_columns: bool,
    /// WHERE CURRENT OF: the row that the cursor stands on.
    pub current: Option<&'a CursorRow>,
}

/// A query, bound and planned.
pub struct SelectPlan {
    columns: Vec<OutputColumn>,
    plan: Arc<Plan>,
    output: Vec<usize>,
    assignments: Vec<AssignStep>,
    infos: Vec<ColumnInfo>,
    /// Of the identity column that a table made of the result has, and which one it is.
    numbering: Option<(usize, Numbering)>,
    stats: QueryStats,
}

/// `@v = expression` over the rows of the plan.
struct AssignStep {
    variable: String,
    value: Expr,
    /// Where the plan reads the variable, if it does.
    slot: Option<usize>,
}

impl SelectPlan {
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Cost of the executions of the plan.
    pub fn stats(&self) -> &QueryStats {
        &self.stats
    }

    /// The columns of the result, for its metadata.
    pub fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    /// The column of the result that is an identity column in a table made of it, and how its values go on: the first of a stored table,
    /// unless rows of several are joined, else that of IDENTITY().
    pub fn numbering(&self) -> Option<(usize, Numbering)> {
        self.numbering
    }

    /// `SELECT @v = ..`: run it with [`run_assignment`].
    pub fn is_assignment(&self) -> bool {
        !self.assignments.is_empty()
    }

    /// The plan, for those who show it.
    pub fn picture(&self) -> Picture<'_> {
        Picture::of(&self.plan, &self.infos)
    }
}

/// Rows of one execution.
pub struct RowStream<'h> {
    cx: Ctx<'h>,
    operator: Box<dyn Operator>,
    /// Positions of the wanted columns; `None` when rows come as wanted.
    output: Option<Vec<usize>>,
    batch: RowBatch,
    /// Row of the batch that comes next.
    at: usize,
    /// No column is wanted twice.
    movable: bool,
    /// SET ROWCOUNT.
    rows_left: u64,
}

impl<'h> RowStream<'h> {
    fn new(plan: &Arc<Plan>, output: &[usize], host: &'h dyn Host) -> Result<RowStream<'h>> {
        let cx = Ctx::new(plan.clone(), host)?;
        let operator = build(&plan.root, &cx)?;
        let as_is = output.len() == plan.root.schema.len()
            && output.iter().enumerate().all(|(i, p)| i == *p);
        let rows_left = if cx.settings.rowcount == 0 {
            u64::MAX
        } else {
            cx.settings.rowcount
        };
        Ok(RowStream {
            cx,
            operator,
            output: (!as_is).then(|| output.to_vec()),
            batch: RowBatch::new(),
            at: 0,
            movable: output
                .iter()
                .enumerate()
                .all(|(i, p)| !output.iter().take(i).any(|q| q == p)),
            rows_left,
        })
    }

    /// Replaces the content of `batch` with the next rows. False at the end (the batch is empty then).
    pub fn next(&mut self, batch: &mut RowBatch) -> Result<bool> {
        if self.rows_left == 0 {
            batch.reset(
                self.output
                    .as_ref()
                    .map_or(self.cx.plan.root.schema.len(), Vec::len),
            );
            return Ok(false);
        }
        match &self.output {
            None => {
                if !self.operator.next(&self.cx, batch)? {
                    return Ok(false);
                }
            }
            Some(output) => {
                batch.reset(output.len());
                if self.at >= self.batch.len() {
                    self.at = 0;
                    if !self.operator.next(&self.cx, &mut self.batch)? {
                        return Ok(false);
                    }
                }
                // Columns that are wanted several times make rows longer than they came.
                while self.at < self.batch.len() && !batch.is_full() {
                    let row = self.batch.row_mut(self.at);
                    self.at += 1;
                    if self.movable {
                        let take = |p: &usize| {
                            row.get_mut(*p)
                                .map_or(Value::Null, |v| std::mem::replace(v, Value::Null))
                        };
                        batch.push(output.iter().map(take));
                    } else {
                        batch.push(
                            output
                                .iter()
                                .map(|p| row.get(*p).cloned().unwrap_or(Value::Null)),
                        );
                    }
                }
            }
        }
        if (batch.len() as u64) > self.rows_left {
            batch.truncate(self.rows_left as usize);
        }
        self.rows_left -= batch.len() as u64;
        Ok(true)
    }
}

/// An expression over the rows of a [`Scope`].
pub struct ScalarPlan {
    column: OutputColumn,
    is_deterministic: bool,
    calls_functions: bool,
    asks_xml: bool,
    takes_next_value: bool,
    plan: Arc<Plan>,
    expr: Expr,
}

impl ScalarPlan {
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Type, collation and nullability of the result.
    pub fn column(&self) -> &OutputColumn {
        &self.column
    }

    /// Type of the value that `eval` gives.
    pub fn data_type(&self) -> DataType {
        self.column.data_type
    }

    /// Does it read rows of tables by itself?
    pub fn has_subqueries(&self) -> bool {
        !self.plan.subplans.is_empty()
    }

    /// Does it call functions of users?
    pub fn calls_functions(&self) -> bool {
        self.calls_functions
    }

    /// Does it call methods of XML, other than in functions?
    pub fn asks_xml(&self) -> bool {
        self.asks_xml
    }

    /// Does it take values of a sequence?
    pub fn takes_next_value(&self) -> bool {
        self.takes_next_value
    }

    /// Always the same value for the same row.
    pub fn is_deterministic(&self) -> bool {
        self.is_deterministic
    }

    /// The value over a row of the scope's columns. For one evaluation: a loop prepares a [`ScalarEvaluator`].
    pub fn eval(&self, row: &[Value], host: &dyn Host) -> Result<Value> {
        match &self.expr {
            Expr::Const(value) => Ok(value.clone()),
            Expr::Slot(slot) => Ok(row.get(*slot).cloned().unwrap_or(Value::Null)),
            Expr::Variable(slot) => match self.plan.variables.get(*slot) {
                Some(name) => host.variable(name),
                None => Ok(Value::Null),
            },
            expr => expr.eval(row, &Ctx::new(self.plan.clone(), host)?),
        }
    }

    /// For many rows: what does not change between them is read once.
    pub fn evaluator<'h>(&'h self, host: &'h dyn Host) -> Result<ScalarEvaluator<'h>> {
        Ok(ScalarEvaluator {
            expr: &self.expr,
            cx: Ctx::new(self.plan.clone(), host)?,
        })
    }
}

/// An expression ready to be evaluated row by row in one statement.
pub struct ScalarEvaluator<'h> {
    expr: &'h Expr,
    cx: Ctx<'h>,
}

impl ScalarEvaluator<'_> {
    /// The value over this row.
    pub fn eval(&self, row: &[Value]) -> Result<Value> {
        self.expr.eval(row, &self.cx)
    }
}

/// A condition over the rows of a [`Scope`].
pub struct ConditionPlan {
    calls_functions: bool,
    asks_xml: bool,
    plan: Arc<Plan>,
    condition: Cond,
    /// Columns of its subqueries, where they may be shown.
    infos: Vec<ColumnInfo>,
}

impl ConditionPlan {
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Does it read rows of tables by itself?
    pub fn has_subqueries(&self) -> bool {
        !self.plan.subplans.is_empty()
    }

    /// Does it call functions of users?
    pub fn calls_functions(&self) -> bool {
        self.calls_functions
    }

    /// Does it call methods of XML, other than in functions?
    pub fn asks_xml(&self) -> bool {
        self.asks_xml
    }

    /// The plan of its subqueries, if it has any.
    pub fn picture(&self) -> Option<Picture<'_>> {
        let shown = self.has_subqueries();
        shown.then(|| Picture::of(&self.plan, &self.infos))
    }

    /// `None` is unknown: WHERE and IF reject it, CHECK accepts it.
    pub fn eval(&self, row: &[Value], host: &dyn Host) -> Result<Option<bool>> {
        self.condition
            .eval(row, &Ctx::new(self.plan.clone(), host)?)
    }

    /// For many rows: what does not change between them is read once.
    pub fn evaluator<'h>(&'h self, host: &'h dyn Host) -> Result<ConditionEvaluator<'h>> {
        Ok(ConditionEvaluator {
            condition: &self.condition,
            cx: Ctx::new(self.plan.clone(), host)?,
        })
    }
}

/// A condition ready to be evaluated row by row in one statement.
pub struct ConditionEvaluator<'h> {
    condition: &'h Cond,
    cx: Ctx<'h>,
}

impl ConditionEvaluator<'_> {
    /// True, false, or `None` for unknown, over this row.
    pub fn eval(&self, row: &[Value]) -> Result<Option<bool>> {
        self.condition.eval(row, &self.cx)
    }
}

/// Finds the rows of an UPDATE or DELETE. A row of the stream holds the target's columns in definition order (virtual
/// computed columns included), then key and stamp, then the items, then the columns of `source_scope`.
pub struct TargetPlan {
    table: TableRef,
    items: Vec<OutputColumn>,
    sources: Scope,
    alias: String,
    schema: Option<String>,
    exposed: Vec<(String, Exposed)>,
    joined: bool,
    views: Vec<(DatabaseId, i32)>,
    check: Option<ConditionPlan>,
    plan: Arc<Plan>,
    output: Vec<usize>,
    infos: Vec<ColumnInfo>,
}

impl TargetPlan {
    /// Were the tables of quite another size when the plan was made?
    pub fn is_outdated(&self) -> bool {
        self.plan.is_outdated()
    }

    /// The table whose rows are given.
    pub fn table(&self) -> &TableRef {
        &self.table
    }

    /// Values that each row carries besides its key.
    pub fn items(&self) -> &[OutputColumn] {
        &self.items
    }

    /// The other tables of FROM whose columns follow the items (with `TargetSpec::source_columns`).
    pub fn source_scope(&self) -> &Scope {
        &self.sources
    }

    /// Name that the statement knows the target by: an alias, or that of the table or view.
    pub fn alias(&self) -> &str {
        &self.alias
    }

    /// Schema that may stand before [`TargetPlan::alias`].
    pub fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The target's columns as the statement knows them: those of the table, view or common table expression.
    pub fn exposed(&self) -> &[(String, Exposed)] {
        &self.exposed
    }

    /// Condition for a changed row to stay in the views WITH CHECK OPTION that it is changed through.
    pub fn check(&self) -> Option<&ConditionPlan> {
        self.check.as_ref()
    }

    /// The views that the table is come to through.
    pub fn views(&self) -> &[(DatabaseId, i32)] {
        &self.views
    }

    /// May a row of the table come more than once?
    pub fn is_joined(&self) -> bool {
        self.joined
    }

    /// The plan that finds the rows, for those who show it.
    pub fn picture(&self) -> Picture<'_> {
        Picture::of(&self.plan, &self.infos)
    }

    /// Position of the row's key in the table's own tree: `Value::Bytes`.
    pub fn key_position(&self) -> usize {
        self.table.def.columns.len()
    }

    /// Where the value of an item stands in a row.
    pub fn item_position(&self, item: usize) -> usize {
        self.key_position() + 2 + item
    }

    /// Where the columns of the statement's source begin in a row.
    pub fn source_position(&self) -> usize {
        self.item_position(self.items.len())
    }

    /// Key and stamp of a row of the stream; `None` where an outer join found no row of the target.
    pub fn key_and_stamp<'r>(&self, row: &'r [Value]) -> Result<Option<(&'r [u8], Stamp)>> {
        match row.get(self.key_position()..) {
            Some([Value::Bytes(key), Value::Guid(stamp), ..]) => {
                Ok(Some((key, stamp_from_value(stamp))))
            }
            Some([Value::Null, ..]) => Ok(None),
            _ => Err(crate::access::damaged("row without key")),
        }
    }
}

/// A stamp travels through operators as 16 bytes.
pub(crate) fn stamp_value(stamp: Stamp) -> Value {
    let mut bytes = [0; 16];
    let (txn, version) = bytes.split_at_mut(8);
    txn.copy_from_slice(&stamp.txn.0.to_le_bytes());
    version.copy_from_slice(&stamp.version.to_le_bytes());
    Value::Guid(bytes)
}

pub(super) fn stamp_from_value(bytes: &[u8; 16]) -> Stamp {
    let number = |half: &[u8]| {
        half.iter()
            .rev()
            .fold(0u64, |n, b| (n << 8) | u64::from(*b))
    };
    let (txn, version) = bytes.split_at(8);
    Stamp {
        txn: TxnId(number(txn)),
        version: number(version),
    }
}

/// Passes over trees recurse in many small functions; this gives them room once for all. Sessions have it already.
pub(crate) fn with_room<T>(f: impl FnOnce() -> T) -> T {
    const LEFT_MIN_BYTES: usize = 4 << 20;
    const SEGMENT_BYTES: usize = 16 << 20;
    stacker::maybe_grow(LEFT_MIN_BYTES, SEGMENT_BYTES, f)
}

/// Binds and plans a query. `INTO` is left to the caller.
pub fn prepare_select(query: &ast::Query, host: &dyn Host) -> Result<Arc<SelectPlan>> {
    with_room(|| prepare_select_here(query, Binder::new(host), host))
}

/// The rows of a statement that may not use all of them, as INSERT TOP does.
pub fn prepare_limited_select(query: &ast::Query, host: &dyn Host) -> Result<Arc<SelectPlan>> {
    let mut binder = Binder::new(host);
    binder.next_value_error = Some(LIMITED);
    with_room(|| prepare_select_here(query, binder, host))
}

fn prepare_select_here(
    query: &ast::Query,
    mut binder: Binder<'_>,
    host: &dyn Host,
) -> Result<Arc<SelectPlan>> {
    let bound = binder.statement(query)?;
    plan_select(&binder, bound, &[], host)
}

/// The plan of a bound query. Rows have the columns `more` behind those of the result.
pub(super) fn plan_select(
    binder: &Binder<'_>,
    bound: BoundQuery,
    more: &[ColId],
    host: &dyn Host,
) -> Result<Arc<SelectPlan>> {
    let BoundQuery {
        rel,
        columns,
        assignments,
    } = bound;
    let output_columns = columns.iter().map(|c| binder.output_column(c)).collect();
    let infos = binder.columns.clone();
    let first = |computed: bool| {
        let info = |c: &OutColumn| infos.get(c.id as usize).filter(|i| i.computed == computed);
        let mut numbered = columns.iter().map(|c| info(c)?.identity).enumerate();
        numbered.find_map(|(at, numbering)| Some((at, numbering?)))
    };
    let inherited = first(false).filter(|_| !rel.joins());
    let numbering = inherited.or_else(|| first(true));
    let stats = QueryStats::new(host.now().0);
    let mut planner = Planner::new(&infos, host);
    if assignments.is_empty() {
        let own = columns.iter().map(|c| c.id);
        let ids: Vec<_> = own.chain(more.iter().copied()).collect();
        let planned = planner.plan(rel, &ids)?;
        let (plan, output) = (Arc::new(planned.plan), planned.output);
        return Ok(Arc::new(SelectPlan {
            columns: output_columns,
            plan,
            output,
            assignments: Vec::new(),
            infos,
            numbering,
            stats,
        }));
    }
    let rel = planner.rewritten(rel)?;
    let mut required = ColSet::new();
    assignments
        .iter()
        .for_each(|a| a.value.columns(&mut required));
    let root = planner.node(&rel, &required)?;
    let mut steps = Vec::with_capacity(assignments.len());
    for mut assignment in assignments {
        planner.rewrite_scalar(&mut assignment.value)?;
        let value = planner.expr(&assignment.value, &root.schema)?;
        steps.push(AssignStep {
            variable: assignment.variable,
            value,
            slot: None,
        });
    }
    let plan = planner.finish(root);
    for step in &mut steps {
        step.slot = plan.variables.iter().position(|v| **v == *step.variable);
    }
    Ok(Arc::new(SelectPlan {
        columns: output_columns,
        plan: Arc::new(plan),
        output: Vec::new(),
        assignments: steps,
        infos,
        numbering,
        stats,
    }))
}

/// Starts an execution.
pub fn open<'h>(plan: &Arc<SelectPlan>, host: &'h dyn Host) -> Result<RowStream<'h>> {
    RowStream::new(&plan.plan, &plan.output, host)
}

/// Runs `SELECT @v = ..`: sets the variables row by row; gives the number of rows.
pub fn run_assignment(plan: &Arc<SelectPlan>, host: &dyn Host) -> Result<u64> {
    let cx = Ctx::new(plan.plan.clone(), host)?;
    let mut operator = build(&plan.plan.root, &cx)?;
    let mut batch = RowBatch::new();
    let mut rows = 0;
    let mut last: Vec<Option<Value>> = vec![None; plan.assignments.len()];
    let limit = if cx.settings.rowcount == 0 {
        u64::MAX
    } else {
        cx.settings.rowcount
    };
    let outcome = (|| -> Result<()> {
        while rows < limit && operator.next(&cx, &mut batch)? {
            for row in batch
                .rows()
                .take(usize::try_from(limit - rows).unwrap_or(usize::MAX))
            {
                cx.tick(1)?;
                for (step, last) in plan.assignments.iter().zip(&mut last) {
                    let value = step.value.eval(row, &cx)?;
                    if let Some(slot) = step.slot {
                        cx.set_variable(slot, value.clone());
                        cx.forget_subqueries();
                    }
                    *last = Some(value);
                }
                rows += 1;
            }
        }
        Ok(())
    })();
    if let Err(error) = &outcome
        && matches!(error.number, 2801 | 3961)
    {
        // It may begin anew.
        return outcome.map(|()| rows);
    }
    // Variables keep what rows before an error gave them.
    for (step, last) in plan.assignments.iter().zip(last) {
        if let Some(value) = last {
            host.set_variable(&step.variable, value)?;
        }
    }
    outcome.map(|()| rows)
}

/// The scope's columns as the binder sees them: numbers from 0, in the order of the row.
fn name_scope(binder: &mut Binder<'_>, scope: &Scope) -> Result<NameScope> {
    let mut tables = Vec::with_capacity(scope.tables.len());
    for table in &scope.tables {
        let mut columns = Vec::with_capacity(table.columns.len());
        for column in &table.columns {
            let id = binder.new_column(ColumnInfo {
                ty: Type {
                    data_type: column.data_type,
                    nullable: column.nullable,
                    collation: column.collation,
                    coercion: Coercion::Implicit,
                },
                name: column.name.clone(),
                qualified: format!("{}.{}", table.name, column.name),
                identity: None,
                rowguid: false,
                computed: false,
                null_literal: false,
            })?;
            columns.push((column.name.clone(), id));
        }
        tables.push(ScopeEntry {
            name: table.name.clone(),
            schema: table.schema.clone(),
            database: None,
            columns,
            used: None,
        });
    }
    Ok(NameScope::of_tables(tables))
}

/// Binds an expression over the rows of `scope`.
pub fn prepare_scalar(expr: &ast::Expr, scope: &Scope, host: &dyn Host) -> Result<ScalarPlan> {
    with_room(|| prepare_scalar_by(Binder::new(host), expr, scope, host))
}

/// Binds an expression of a table's definition: over a row of it, or a DEFAULT, which has no row. Names are those of the
/// table's database.
pub fn prepare_stored_scalar(
    expr: &ast::Expr,
    scope: Option<&Scope>,
    database: Option<DatabaseId>,
    host: &dyn Host,
) -> Result<ScalarPlan> {
    let mut binder = Binder::new(host);
    binder.in_default = scope.is_none();
    binder.in_stored_text = true;
    binder.next_value_error = scope.map(|_| NESTED);
    binder.database = database;
    let none = Scope::default();
    with_room(|| prepare_scalar_by(binder, expr, scope.unwrap_or(&none), host))
}

/// Does an expression over these parameters, as a value of this type, give the same for the same values of them, always?
pub fn gives_the_same(
    expr: &ast::Expr,
    to: DataType,
    parameters: &[ParameterDef],
    host: &dyn Host,
) -> Result<bool> {
    with_room(|| {
        let mut binder = Binder::new(host);
        binder.declare_parameters(parameters)?;
        let scalar = binder.scalar_in(NameScope::default(), expr)?;
        Ok(types::convert(scalar, to).is_ok_and(|s| s.is_deterministic()))
    })
}

/// As [`gives_the_same`], for a condition.
pub fn gives_the_same_if(
    condition: &ast::Condition,
    parameters: &[ParameterDef],
    host: &dyn Host,
) -> Result<bool> {
    with_room(|| {
        let mut binder = Binder::new(host);
        binder.declare_parameters(parameters)?;
        let scalar = binder.condition_in(NameScope::default(), condition)?;
        Ok(scalar.is_deterministic())
    })
}

/// As [`prepare_stored_scalar`], for a check.
pub fn prepare_stored_condition(
    condition: &ast::Condition,
    scope: &Scope,
    database: Option<DatabaseId>,
    host: &dyn Host,
) -> Result<ConditionPlan> {
    let mut binder = Binder::new(host);
    binder.in_stored_text = true;
    binder.next_value_error = Some(NESTED);
    binder.database = database;
    with_room(|| prepare_condition_by(binder, condition, scope, host))
}

fn prepare_scalar_by(
    mut binder: Binder<'_>,
    expr: &ast::Expr,
    scope: &Scope,
    host: &dyn Host,
) -> Result<ScalarPlan> {
    let names = name_scope(&mut binder, scope)?;
    binder.next_value_error = binder.next_value_error.or(scope.next_value_error);
    binder.xml_namespaces.clone_from(&scope.xml_namespaces);
    let mut scalar = binder.scalar_in(names, expr)?;
    refuse_aggregates(&scalar)?;
    let is_deterministic = scalar.is_deterministic();
    let calls_functions = scalar.any(&|s| matches!(s.kind, Kind::UserFunction { .. }));
    let asks_xml = scalar.any(&|s| matches!(s.kind, Kind::XmlMethod { .. }));
    let takes_next_value = scalar.any(&|s| matches!(s.kind, Kind::NextValue(_)));
    let infos = std::mem::take(&mut binder.columns);
    let mut planner = Planner::new(&infos, host);
    planner.rewrite_scalar(&mut scalar)?;
    let schema: Vec<ColId> = (0..scope.width() as ColId).collect();
    let expr = planner.expr(&scalar, &schema)?;
    let plan = Arc::new(planner.finish(no_rows()));
    let column = OutputColumn {
        name: String::new(),
        data_type: scalar.ty.data_type,
        collation: scalar.ty.collation,
        nullable: scalar.ty.nullable,
        identity: false,
        computed: true,
    };
    Ok(ScalarPlan {
        column,
        is_deterministic,
        calls_functions,
        asks_xml,
        takes_next_value,
        plan,
        expr,
    })
}

/// Binds a condition over the rows of `scope`.
pub fn prepare_condition(
    condition: &ast::Condition,
    scope: &Scope,
    host: &dyn Host,
) -> Result<ConditionPlan> {
    with_room(|| prepare_condition_by(Binder::new(host), condition, scope, host))
}

fn prepare_condition_by(
    mut binder: Binder<'_>,
    condition: &ast::Condition,
    scope: &Scope,
    host: &dyn Host,
) -> Result<ConditionPlan> {
    let names = name_scope(&mut binder, scope)?;
    binder.next_value_error = binder.next_value_error.or(scope.next_value_error);
    binder.xml_namespaces.clone_from(&scope.xml_namespaces);
    let mut scalar = binder.condition_in(names, condition)?;
    refuse_aggregates(&scalar)?;
    let calls_functions = scalar.any(&|s| matches!(s.kind, Kind::UserFunction { .. }));
    let asks_xml = scalar.any(&|s| matches!(s.kind, Kind::XmlMethod { .. }));
    let infos = std::mem::take(&mut binder.columns);
    let mut planner = Planner::new(&infos, host);
    planner.rewrite_scalar(&mut scalar)?;
    let schema: Vec<ColId> = (0..scope.width() as ColId).collect();
    let condition = planner.cond(&scalar, &schema)?;
    let plan = planner.finish(no_rows());
    Ok(ConditionPlan {
        calls_functions,
        asks_xml,
        infos: match plan.subplans.is_empty() {
            true => Vec::new(),
            false => infos,
        },
        plan: Arc::new(plan),
        condition,
    })
}

/// The condition of views WITH CHECK OPTION over rows of the table that is changed.
pub(super) fn view_check(
    check: ViewCheck,
    infos: &[ColumnInfo],
    host: &dyn Host,
) -> Result<ConditionPlan> {
    let mut planner = Planner::new(infos, host);
    let mut condition = check.condition;
    planner.rewrite_scalar(&mut condition)?;
    let condition = planner.cond(&condition, &check.row)?;
    Ok(ConditionPlan {
        calls_functions: false,
        asks_xml: false,
        plan: Arc::new(planner.finish(no_rows())),
        condition,
        infos: Vec::new(),
    })
}

fn refuse_aggregates(scalar: &Scalar) -> Result<()> {
    if scalar.any(&|s| {
        matches!(
            s.kind,
            Kind::Aggregate(_) | Kind::Window(_) | Kind::Grouping(_)
        )
    }) {
        return Err(SqlError::new(
            157,
            15,
            1,
            "An aggregate may not appear in the set list of an UPDATE statement.",
        ));
    }
    Ok(())
}

fn no_rows() -> Node {
    Node {
        op: Op::One,
        schema: Vec::new(),
        rows: 1.0,
        cost: 0.0,
        order: Vec::new(),
    }
}

/// Binds and plans the search for rows to change.
pub fn prepare_target(spec: &TargetSpec<'_>, host: &dyn Host) -> Result<Arc<TargetPlan>> {
    with_room(|| prepare_target_here(spec, host))
}

fn prepare_target_here(spec: &TargetSpec<'_>, host: &dyn Host) -> Result<Arc<TargetPlan>> {
    let mut binder = Binder::new(host);
    let bound = binder.target(spec)?;
    let mut ids = bound.columns.clone();
    ids.extend([bound.key, bound.stamp]);
    ids.extend(&bound.items);
    let mut sources = Scope {
        xml_namespaces: spec.with.xml_namespaces.clone(),
        ..Scope::default()
    };
    if spec.source_columns {
        for entry in &bound.sources {
            let mut columns = Vec::with_capacity(entry.columns.len());
            for (name, id) in &entry.columns {
                ids.push(*id);
                let column = binder.output_column(&OutColumn {
                    name: name.clone(),
                    id: *id,
                });
                columns.push(ScopeColumn {
                    name: column.name,
                    data_type: column.data_type,
                    collation: column.collation,
                    nullable: column.nullable,
                });
            }
            sources.tables.push(ScopeTable {
                name: entry.name.clone(),
                schema: entry.schema.clone(),
                columns,
            });
        }
    }
    let items = bound
        .items
        .iter()
        .map(|id| {
            binder.output_column(&OutColumn {
                name: String::new(),
                id: *id,
            })
        })
        .collect();
    let exposed = stand_for(&bound.exposed, &bound.columns, &binder);
    let infos = std::mem::take(&mut binder.columns);
    let check = bound.check.map(|c| view_check(c, &infos, host));
    let planned = Planner::new(&infos, host).plan(bound.rel, &ids)?;
    Ok(Arc::new(TargetPlan {
        table: bound.table,
        items,
        sources,
        alias: bound.alias,
        schema: bound.schema,
        exposed,
        joined: bound.joined,
        views: bound.views,
        check: check.transpose()?,
        plan: Arc::new(planned.plan),
        output: planned.output,
        infos,
    }))
}

/// Starts finding rows. Rows come with the table's columns, key, stamp, items and sources; see [`TargetPlan`].
pub fn open_target<'h>(plan: &Arc<TargetPlan>, host: &'h dyn Host) -> Result<RowStream<'h>> {
    RowStream::new(&plan.plan, &plan.output, host)
}

/// Value of a literal written by DDL: a number, a quoted text or NULL, perhaps in parentheses.
pub fn literal_value(text: &str, data_type: DataType) -> Result<Value> {
    let damaged = || crate::access::damaged("default of an added column is no literal");
    let expr =
        daruma_syntax::parse_expression(text, &ParseOptions::default()).map_err(|_| damaged())?;
    let (negative, expr) = match &expr {
        ast::Expr::Unary {
            op: ast::UnaryOp::Minus,
            expr,
        } => (true, &**expr),
        other => (false, other),
    };
    let ast::Expr::Literal(found) = expr else {
        return Err(damaged());
    };
    let Scalar {
        kind: Kind::Const(mut value),
        ty,
    } = literal(found)?
    else {
        return Err(damaged());
    };
    if negative {
        value = daruma_value::arithmetic::negate(&value, ty.data_type)?;
    }
    Ok(convert(
        &value,
        ty.data_type,
        data_type,
        None,
        &ConvertContext::default(),
    )?)
}
