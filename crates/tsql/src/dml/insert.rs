//! INSERT: VALUES, SELECT, EXEC and DEFAULT VALUES.

use super::assign::Assign;
use super::errors::{self, Verb};
use super::inserter::{InsertOptions, InsertShape, Inserter, check_count};
use super::made_row::MadeRow;
use super::options;
use super::output::{OutputPlan, OutputRun, OutputTarget, Sides};
use super::target::Writable;
use super::view::ViewBase;
use super::watch::Watch;
use super::{InsertTarget, RowCallback, resolve_target};
use crate::access::damaged;
use crate::binder::insert_hints;
use crate::binder::next_value::{CLAUSE, LIMITED};
use crate::error::Result;
use crate::executor::{
    KeptPlan, RowBatch, RowGatherer, ScalarPlan, Scope, SelectPlan, open, prepare_limited_select,
    prepare_scalar, prepare_select,
};
use crate::host::{Host, LockHints, TableRef, TriggerAction};
use crate::messages;
use crate::showplan::Picture;
use daruma_base::DatabaseId;
use daruma_catalog::names_equal;
use daruma_syntax::ast::{self, Expr, InsertSource, Literal};
use daruma_value::{DataType, Value};
use std::sync::Arc;

/// Rows of one VALUES.
const VALUE_ROWS_MAX: usize = 1000;

/// A prepared INSERT, of whatever source.
pub struct InsertPlan {
    shape: InsertShape,
    views: Vec<(DatabaseId, i32)>,
    source: Source,
    top: Option<ScalarPlan>,
    hints: LockHints,
    pub output: Option<OutputPlan>,
}

enum Source {
    Values(Vec<Vec<Cell>>),
    Select {
        plan: Arc<SelectPlan>,
        assign: Vec<Assign>,
        /// The query reads the table that it fills: gather its rows first.
        gather: bool,
    },
    Execute(Box<ast::Execute>),
    Defaults,
}

enum Cell {
    Default,
    Value(ScalarPlan, Assign),
}

/// Resolves the target, binds columns and source. Nothing is written.
pub fn prepare(ast: &ast::Insert, host: &dyn Host) -> Result<InsertPlan> {
    let listed = !ast.columns.is_empty();
    let names = ast.columns.iter().map(|c| c.name.text.as_str());
    let InsertTarget {
        table,
        view,
        written,
    } = resolve_target(host, &ast.target, names.clone().next())?;
    let views = view.as_ref().map_or(&[][..], |v| v.views());
    super::refuse_instead(host, &table, views, &[TriggerAction::Insert])?;
    options::check(host, &table.def, "INSERT")?;
    let hints = match &ast.target {
        ast::DmlTarget::Table { hints, .. } => insert_hints(&table, hints)?,
        _ => LockHints::default(),
    };
    let writable = Arc::new(Writable::prepare(host, &table)?);
    let columns = match &view {
        None if listed => named_columns(&writable, names)?,
        None => unlisted_columns(&writable, &ast.source, &written)?,
        Some(view) if listed => distinct_columns(names.map(|n| Ok((n, view.ordinal(n)?))))?,
        Some(view) => {
            let all = view.column_names()?.into_iter();
            let columns = distinct_columns(all.map(|n| Ok((n, view.ordinal(n)?))))?;
            columns
                .into_iter()
                .filter(|o| Some(*o) != writable.identity)
                .collect()
        }
    };
    refuse_computed(&writable, &columns)?;
    let watch = Watch::new(host);
    let source = match &ast.source {
        InsertSource::Values(rows) => {
            check_values(rows, columns.len(), listed)?;
            let scope = Scope {
                next_value_error: ast.top.as_ref().map(|_| LIMITED),
                xml_namespaces: ast.with.xml_namespaces.clone(),
                ..Scope::default()
            };
            prepare_values(rows, &writable, &columns, &scope, host)?
        }
        InsertSource::Query(query) => {
            let query = in_statement(query, ast);
            let plan = match ast.top {
                Some(_) => prepare_limited_select(&query, &watch)?,
                None => prepare_select(&query, &watch)?,
            };
            if plan.is_assignment() {
                return Err(errors::assigning_source());
            }
            let (fewer, more) = if listed {
                (
                    errors::fewer_items as fn() -> _,
                    errors::more_items as fn() -> _,
                )
            } else {
                (
                    errors::value_count_mismatch as fn() -> _,
                    errors::value_count_mismatch as fn() -> _,
                )
            };
            if !listed && writable.identity.is_some() && plan.columns().len() == columns.len() + 1 {
                return Err(errors::identity_needs_column_list(&written));
            }
            check_count(plan.columns().len(), columns.len(), fewer, more)?;
            refuse_rowversion(&writable, &columns)?;
            let types = plan.columns().iter().map(|c| c.data_type);
            let assign = assigns(&writable, &columns, types, host)?;
            Source::Select {
                plan,
                assign,
                gather: watch.may_read(&table),
            }
        }
        InsertSource::Execute(exec) => Source::Execute(exec.clone()),
        InsertSource::DefaultValues => Source::Defaults,
    };
    let columns = if matches!(source, Source::Defaults) {
        Vec::new()
    } else {
        columns
    };
    if ast.top.as_ref().is_some_and(|top| top.percent) {
        return Err(errors::not_supported("INSERT TOP (n) PERCENT"));
    }
    let top = ast.top.as_ref().map(|top| top_count(top, host));
    let top = top.transpose()?;
    let sides = Sides {
        inserted: true,
        deleted: false,
        may_lack_one: false,
    };
    let changed = OutputTarget {
        table: &table,
        exposed: view.as_ref().map_or(&[][..], |v| v.exposed()),
    };
    let nothing = Scope {
        xml_namespaces: ast.with.xml_namespaces.clone(),
        ..Scope::default()
    };
    let output = ast.output.as_ref();
    let output = output.map(|o| OutputPlan::prepare(host, o, &changed, sides, &nothing));
    let output = output.transpose()?;
    super::refuse_output_with_triggers(
        host,
        &table,
        TriggerAction::Insert,
        output.as_ref(),
        &written,
    )?;
    let shape = InsertShape::new(writable, columns);
    shape.check_limit(top.is_some(), host)?;
    Ok(InsertPlan {
        views: views.to_vec(),
        shape: shape.checked_by(view.and_then(ViewBase::into_check)),
        source,
        top,
        hints,
        output,
    })
}

impl InsertPlan {
    /// The base table that rows go to.
    pub fn table(&self) -> &TableRef {
        self.shape.table.table()
    }

    /// The views that it is come to through, the innermost first.
    pub fn views(&self) -> &[(DatabaseId, i32)] {
        &self.views
    }

    /// Only a query has other plans.
    pub fn is_outdated(&self) -> bool {
        match &self.source {
            Source::Select { plan, .. } => plan.is_outdated(),
            _ => false,
        }
    }

    /// The source's plan, for those who show it.
    pub fn picture(&self) -> Option<Picture<'_>> {
        match &self.source {
            Source::Select { plan, .. } => Some(plan.picture()),
            _ => None,
        }
    }
}

/// The CTEs of the statement are visible in its query, and its hints are the query's.
pub(super) fn in_statement(query: &ast::Query, insert: &ast::Insert) -> ast::Query {
    let mut query = query.clone();
    if query.with.is_empty() {
        query.with = insert.with.clone();
    }
    query.options.clone_from(&insert.options);
    query
}

/// Ordinals of named columns: 207 for unknown, 264 for repeated names.
pub fn named_columns<'n>(
    table: &Writable,
    names: impl Iterator<Item = &'n str>,
) -> Result<Vec<usize>> {
    distinct_columns(names.map(|name| {
        let found = table
            .access
            .def()
            .columns
            .iter()
            .position(|c| names_equal(&c.name, name));
        Ok((name, found.ok_or_else(|| errors::unknown_column(name))?))
    }))
}

fn distinct_columns<'n>(
    columns: impl Iterator<Item = Result<(&'n str, usize)>>,
) -> Result<Vec<usize>> {
    let mut ordinals = Vec::new();
    for column in columns {
        let (name, ordinal) = column?;
        if ordinals.contains(&ordinal) {
            return Err(errors::column_twice(name));
        }
        ordinals.push(ordinal);
    }
    Ok(ordinals)
}

pub(super) fn refuse_computed(table: &Writable, columns: &[usize]) -> Result<()> {
    let computed = columns
        .iter()
        .filter_map(|o| table.access.def().columns.get(*o))
        .find(|c| c.computed.is_some());
    computed.map_or(Ok(()), |c| Err(errors::computed_column(&c.name)))
}

pub(super) fn refuse_rowversion(table: &Writable, columns: &[usize]) -> Result<()> {
    match table.rowversion {
        Some(ordinal) if columns.contains(&ordinal) => Err(errors::rowversion_insert()),
        _ => Ok(()),
    }
}

/// Without a list the values are for all columns but identity and computed ones.
fn unlisted_columns(table: &Writable, source: &InsertSource, written: &str) -> Result<Vec<usize>> {
    let columns = InsertShape::implicit_columns(table);
    if let InsertSource::Values(rows) = source
        && table.identity.is_some()
        && rows
            .first()
            .is_some_and(|row| row.len() == columns.len() + 1)
    {
        return Err(errors::identity_needs_column_list(written));
    }
    Ok(columns)
}

/// Errors of the number of rows and values of VALUES.
pub(super) fn check_values(rows: &[Vec<Expr>], wanted: usize, listed: bool) -> Result<()> {
    if rows.len() > VALUE_ROWS_MAX {
        return Err(messages::error(10738, &[&VALUE_ROWS_MAX]));
    }
    let width = rows.first().map_or(0, Vec::len);
    if rows.iter().any(|row| row.len() != width) {
        return Err(errors::uneven_values());
    }
    let (fewer, more) = if listed {
        (
            errors::fewer_values as fn() -> _,
            errors::more_values as fn() -> _,
        )
    } else {
        (
            errors::value_count_mismatch as fn() -> _,
            errors::value_count_mismatch as fn() -> _,
        )
    };
    check_count(width, wanted, fewer, more)
}

/// The count of a TOP.
pub(super) fn top_count(top: &ast::Top, host: &dyn Host) -> Result<ScalarPlan> {
    let scope = Scope {
        next_value_error: Some(CLAUSE),
        ..Scope::default()
    };
    prepare_scalar(&top.count, &scope, host)
}

fn prepare_values(
    rows: &[Vec<Expr>],
    table: &Writable,
    columns: &[usize],
    scope: &Scope,
    host: &dyn Host,
) -> Result<Source> {
    let cells = |row: &Vec<Expr>| {
        let cells = row
            .iter()
            .zip(columns)
            .map(|(expr, ordinal)| prepare_cell(expr, table, *ordinal, (scope, host)));
        cells.collect::<Result<Vec<_>>>()
    };
    Ok(Source::Values(
        rows.iter().map(cells).collect::<Result<Vec<_>>>()?,
    ))
}

fn prepare_cell(
    expr: &Expr,
    table: &Writable,
    ordinal: usize,
    (scope, host): (&Scope, &dyn Host),
) -> Result<Cell> {
    let column = table
        .access
        .def()
        .columns
        .get(ordinal)
        .ok_or_else(|| damaged("no such column"))?;
    if column.data_type == DataType::RowVersion {
        return match expr {
            Expr::Default | Expr::Literal(Literal::Null) => Ok(Cell::Default),
            _ => Err(errors::rowversion_insert()),
        };
    }
    if column.is_identity && matches!(expr, Expr::Default | Expr::Literal(Literal::Null)) {
        return Err(errors::identity_default());
    }
    if matches!(expr, Expr::Default) {
        return Ok(Cell::Default);
    }
    let plan = prepare_scalar(expr, scope, host)?;
    let assign = if matches!(expr, Expr::Literal(Literal::Null)) {
        Assign::null()
    } else {
        Assign::into_column(plan.data_type(), table.table(), column, host)?
    };
    Ok(Cell::Value(plan, assign))
}

fn assigns(
    table: &Writable,
    columns: &[usize],
    types: impl Iterator<Item = DataType>,
    host: &dyn Host,
) -> Result<Vec<Assign>> {
    let mut assigns = Vec::with_capacity(columns.len());
    for (ordinal, from) in columns.iter().zip(types) {
        let column = table
            .access
            .def()
            .columns
            .get(*ordinal)
            .ok_or_else(|| damaged("no such column"))?;
        assigns.push(Assign::into_column(from, table.table(), column, host)?);
    }
    Ok(assigns)
}

/// Inserts the rows of the source; gives their number. Rows of OUTPUT go to `client`.
pub fn execute<'a>(
    plan: &'a InsertPlan,
    host: &'a dyn Host,
    client: Option<&'a mut RowCallback<'a>>,
) -> Result<u64> {
    let limit = super::rows_max(plan.top.as_ref(), host)?;
    if plan.hints != LockHints::default() {
        host.begin_hinted_insert(plan.table(), plan.hints)?;
    }
    let mut output = plan
        .output
        .as_ref()
        .map(|o| o.begin(host, client))
        .transpose()?;
    let mut run = Run {
        inserter: Inserter::begin(host, &plan.shape, InsertOptions::STATEMENT, Verb::Insert)?,
        output: output.as_mut(),
        left: limit,
    };
    if plan.output.is_some() {
        run.inserter.show_rows();
    }
    match &plan.source {
        Source::Values(rows) => insert_values(rows, host, &mut run)?,
        Source::Defaults => run.push(&mut [])?,
        Source::Select {
            plan,
            assign,
            gather,
        } => insert_select(plan, assign, *gather, host, &mut run)?,
        Source::Execute(exec) => insert_execute(plan, exec, host, &mut run)?,
    }
    let count = run.finish()?;
    output.map_or(Ok(()), OutputRun::finish)?;
    Ok(count)
}

struct Run<'a, 'o> {
    inserter: Inserter<'a>,
    output: Option<&'o mut OutputRun<'a>>,
    left: u64,
}

impl Run<'_, '_> {
    fn push(&mut self, given: &mut [Option<Value>]) -> Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        match &mut self.output {
            Some(output) => self
                .inserter
                .push(given, Some(&mut |row| output.put(Some(row), None, &[]))),
            None => self.inserter.push(given, None),
        }
    }

    fn finish(self) -> Result<u64> {
        match self.output {
            Some(output) => self
                .inserter
                .finish(Some(&mut |row| output.put(Some(row), None, &[]))),
            None => self.inserter.finish(None),
        }
    }
}

fn insert_values(rows: &[Vec<Cell>], host: &dyn Host, run: &mut Run) -> Result<()> {
    let mut given = Vec::new();
    for row in rows {
        given.clear();
        let _row = MadeRow::begin(host);
        for cell in row {
            given.push(match cell {
                Cell::Default => None,
                Cell::Value(plan, assign) => Some(assign.convert(plan.eval(&[], host)?)?),
            });
        }
        run.push(&mut given)?;
    }
    Ok(())
}

fn insert_select(
    plan: &Arc<SelectPlan>,
    assign: &[Assign],
    gather: bool,
    host: &dyn Host,
    run: &mut Run,
) -> Result<()> {
    let mut stream = open(plan, host)?;
    let mut batch = RowBatch::new();
    let mut gathered = RowGatherer::default();
    let mut given = Vec::new();
    while run.left > 0 && stream.next(&mut batch)? {
        if gather {
            batch.rows().try_for_each(|row| gathered.add(row, host))?;
            continue;
        }
        for i in 0..batch.len() {
            push_row(batch.row_mut(i), assign, &mut given, run)?;
        }
    }
    drop(stream);
    gathered.each(host, |row| push_row(row, assign, &mut given, run))
}

fn push_row(
    row: &mut [Value],
    assign: &[Assign],
    given: &mut Vec<Option<Value>>,
    run: &mut Run,
) -> Result<()> {
    given.clear();
    for (value, assign) in row.iter_mut().zip(assign) {
        given.push(Some(assign.convert(std::mem::replace(value, Value::Null))?));
    }
    run.push(given)
}

/// The rows of all result sets, converted from whatever types they come in. They are gathered first, because the
/// procedure may read the table.
fn insert_execute(
    plan: &InsertPlan,
    exec: &ast::Execute,
    host: &dyn Host,
    run: &mut Run,
) -> Result<()> {
    let width = plan.shape.given.len();
    let (mut rows, mut fits) = (RowGatherer::default(), true);
    host.execute_for_rows(exec, &mut |row| {
        fits &= row.len() == width;
        match fits {
            true => rows.add(row, host),
            false => Ok(()),
        }
    })?;
    if !fits {
        return Err(errors::value_count_mismatch());
    }
    let table = &plan.shape.table;
    let mut given = Vec::new();
    rows.each(host, |row| {
        given.clear();
        for (value, ordinal) in row.iter_mut().zip(&plan.shape.given) {
            let column = table
                .access
                .def()
                .columns
                .get(*ordinal)
                .ok_or_else(|| damaged("no such column"))?;
            let value = std::mem::replace(value, Value::Null);
            let from = Assign::type_of(&value, column);
            let assign = Assign::into_column(from, table.table(), column, host)?;
            given.push(Some(assign.convert(value)?));
        }
        run.push(&mut given)
    })
}
