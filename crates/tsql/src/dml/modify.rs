//! UPDATE and DELETE: find rows, decide what becomes of each, write, tell what follows.
//!
//! Theory: a statement is *simple* when it reads nothing but its target. Its rows can then be judged one by one: a row
//! that changed between reading and writing is read again and judged anew. Any other statement gathers all its rows
//! first and starts over when one of them changed.
//!
//! A simple statement works chunk by chunk unless what it writes could show it a row twice or make it meet its own
//! rows: then it gathers, too (Halloween protection).
//!
//! Invariant: rows leave through OUTPUT only after they were written, so starting over never shows a row twice.

use super::apply::{Applier, Change, OldRow};
use super::assign::Assign;
use super::changes::Changes;
use super::effects::{Effects, renew_rowversion};
use super::errors::{self, Verb, ViewProblem};
use super::expr::Evaluators;
use super::hot::HotUpdate;
use super::made_row::MadeRow;
use super::options;
use super::output::{OutputPlan, OutputRun, OutputTarget, Sides};
use super::seen::{Met, Seen};
use super::target::Writable;
use super::view::check_view;
use super::watch::Watch;
use super::{RowCallback, written_name};
use crate::access::damaged;
use crate::binder::changed_column;
use crate::binder::next_value::LIMITED;
use crate::error::{Result, SqlError};
use crate::executor::{
    ConditionPlan, Exposed, RowBatch, ScalarPlan, Scope, ScopeTable, TargetPlan, TargetSpec,
    open_target, prepare_condition, prepare_scalar, prepare_target,
};
use crate::host::{Access, CursorRow, Host, TableRef, TriggerAction};
use crate::messages;
use crate::showplan::Picture;
use daruma_base::{DatabaseId, WaitKind};
use daruma_catalog::names_equal;
use daruma_storage::{Stamp, StorageError, Txn};
use daruma_syntax::ast::{self, AssignOp, Assignment, DmlFilter, DmlTarget, Expr, Span};
use daruma_value::{DataType, Value};
use parking_lot::Mutex;
use std::sync::Arc;

/// Times a statement starts over before it gives up as a deadlock victim.
pub(super) const RESTARTS_MAX: usize = 1000;

/// A prepared UPDATE or DELETE.
pub struct ModifyPlan {
    target: Arc<TargetPlan>,
    table: Arc<Writable>,
    /// `None` for DELETE.
    set: Option<SetPlan>,
    touched: Vec<bool>,
    /// Rows can be judged by themselves.
    simple: Option<Simple>,
    /// All rows are found before the first is written.
    gather: bool,
    /// All rows are written together, because they may take each other's unique keys, or because one that does not qualify any more
    /// starts the statement over.
    together: bool,
    /// A row may be found several times; the first counts.
    repeats: bool,
    /// TOP: a row that someone else took has to be replaced by the next one.
    limited: bool,
    pub output: Option<OutputPlan>,
    hot: Option<HotUpdate>,
    /// WHERE CURRENT OF: the row as it was fetched.
    fetched: Option<Fetched>,
}

/// The row of a cursor, in a plan that belongs to one statement.
struct Fetched {
    /// As it was.
    stamp: Stamp,
    /// Its key since the statement ran, if that is another one.
    moved_to: Mutex<Option<Vec<u8>>>,
}

/// Assignments of an UPDATE.
struct SetPlan {
    steps: Vec<Step>,
    changed: Vec<bool>,
    /// Values come with the rows found; otherwise they are computed row by row, because variables are assigned.
    from_stream: bool,
}

struct Step {
    source: StepSource,
    /// Ordinal and conversion.
    column: Option<(usize, Assign)>,
    variable: Option<String>,
}

enum StepSource {
    Default(usize),
    /// Value over target and source columns; the number is its position among the stream's items.
    Item(usize, Option<ScalarPlan>),
}

/// Filter over the target's own columns.
struct Simple {
    filter: Option<ConditionPlan>,
    items: Vec<ScalarPlan>,
}

/// Binds target, condition and assignments. Nothing is written.
pub fn prepare_update(ast: &ast::Update, host: &dyn Host) -> Result<ModifyPlan> {
    let ast = &*super::write::spelled_out(ast)?;
    let filter = condition_of(ast.filter.as_ref());
    let current = current_row(ast.filter.as_ref(), host)?;
    check_update_of(current.as_ref(), ast)?;
    let assigns_variables = ast
        .assignments
        .iter()
        .any(|a| !matches!(a, Assignment::Column { .. }));
    let values = ast
        .assignments
        .iter()
        .filter_map(|a| assigned_value(a, !ast.from.is_empty()))
        .collect::<Vec<_>>();
    let items: Vec<&Expr> = values
        .iter()
        .filter(|v| !matches!(v, Expr::Default))
        .collect();
    let watch = Watch::new(host);
    let spec = TargetSpec {
        with: &ast.with,
        target: &ast.target,
        from: &ast.from,
        filter,
        top: ast.top.as_ref(),
        options: &ast.options,
        items: if assigns_variables {
            Vec::new()
        } else {
            items.clone()
        },
        sets: ast.assignments.iter().filter_map(set_column).collect(),
        deletes: false,
        source_columns: assigns_variables || ast.output.is_some(),
        current: current.as_ref(),
    };
    let target = prepare_target(&spec, &watch)?;
    let actions = [TriggerAction::Update];
    super::refuse_instead(host, target.table(), target.views(), &actions)?;
    let table = Arc::new(Writable::prepare(host, target.table())?);
    let scope = row_scope(&target, ast.top.is_some());
    let set = prepare_set(
        ast,
        &values,
        &target,
        &table,
        &scope,
        assigns_variables,
        host,
    )?;
    let touched = table.touched_indexes(&set.changed);
    options::check_touched(host, table.access.def(), &touched)?;
    let unique_touched = table
        .access
        .layouts
        .indexes
        .iter()
        .zip(&touched)
        .any(|(i, t)| *t && i.def.unique);
    let simple = prepare_simple(
        ast.from.is_empty() && ast.with.is_empty() && current.is_none(),
        filter,
        &items,
        &target,
        &scope,
        &watch,
        host,
    )?;
    let any_touched = touched.iter().any(|t| *t);
    // A default that calls a function may read what the statement writes.
    let reads_itself = set.steps.iter().any(|step| match step.source {
        StepSource::Default(ordinal) => table.default_calls(ordinal),
        _ => false,
    });
    let gather = simple.is_none()
        || ast.top.is_some()
        || unique_touched
        || reads_itself
        || any_touched && filter.is_some();
    let output = prepare_output(
        ast.output.as_ref(),
        &target,
        Sides {
            inserted: true,
            deleted: true,
            may_lack_one: false,
        },
        host,
    )?;
    let action = TriggerAction::Update;
    super::refuse_output_with_triggers(
        host,
        table.table(),
        action,
        output.as_ref(),
        &written_name(&ast.target),
    )?;
    let mut plan = ModifyPlan {
        repeats: target.is_joined(),
        target,
        table,
        set: Some(set),
        touched,
        together: simple.is_none() || unique_touched || ast.top.is_some(),
        simple,
        gather,
        limited: ast.top.is_some(),
        output,
        hot: None,
        fetched: None,
    };
    plan.fetched = fetched(current.as_ref(), &plan.target)?;
    if !has_hints(&ast.target) && !plan.takes_next_value() {
        plan.hot = HotUpdate::prepare(ast, &plan.table, &plan.hot_facts(), host)?;
    }
    Ok(plan)
}

/// The column that an assignment names.
pub(super) fn set_column(assignment: &Assignment) -> Option<&ast::ColumnRef> {
    match assignment {
        Assignment::Column { column, .. }
        | Assignment::Both { column, .. }
        | Assignment::Method { column, .. } => Some(column),
        Assignment::Variable { .. } => None,
    }
}

fn has_hints(target: &ast::DmlTarget) -> bool {
    matches!(target, ast::DmlTarget::Table { hints, .. } if !hints.is_empty())
}

/// Binds target and condition. Nothing is written.
pub fn prepare_delete(ast: &ast::Delete, host: &dyn Host) -> Result<ModifyPlan> {
    let filter = condition_of(ast.filter.as_ref());
    let current = current_row(ast.filter.as_ref(), host)?;
    let watch = Watch::new(host);
    let spec = TargetSpec {
        with: &ast.with,
        target: &ast.target,
        from: &ast.from,
        filter,
        top: ast.top.as_ref(),
        options: &ast.options,
        items: Vec::new(),
        sets: Vec::new(),
        deletes: true,
        source_columns: ast.output.is_some(),
        current: current.as_ref(),
    };
    let target = prepare_target(&spec, &watch)?;
    let actions = [TriggerAction::Delete];
    super::refuse_instead(host, target.table(), target.views(), &actions)?;
    options::check(host, &target.table().def, "DELETE")?;
    let table = Arc::new(Writable::prepare(host, target.table())?);
    let scope = row_scope(&target, ast.top.is_some());
    let simple = prepare_simple(
        ast.from.is_empty() && ast.with.is_empty() && current.is_none(),
        filter,
        &[],
        &target,
        &scope,
        &watch,
        host,
    )?;
    let output = prepare_output(
        ast.output.as_ref(),
        &target,
        Sides {
            inserted: false,
            deleted: true,
            may_lack_one: false,
        },
        host,
    )?;
    let action = TriggerAction::Delete;
    super::refuse_output_with_triggers(
        host,
        table.table(),
        action,
        output.as_ref(),
        &written_name(&ast.target),
    )?;
    Ok(ModifyPlan {
        gather: simple.is_none() || ast.top.is_some(),
        together: simple.is_none() || ast.top.is_some(),
        touched: vec![true; table.access.layouts.indexes.len()],
        table,
        set: None,
        simple,
        repeats: !ast.from.is_empty(),
        limited: ast.top.is_some(),
        fetched: fetched(current.as_ref(), &target)?,
        target,
        output,
        hot: None,
    })
}

/// The condition of WHERE; none beside INSTEAD OF triggers is a cursor's row.
pub(super) fn plain_filter(filter: Option<&DmlFilter>) -> Result<Option<&ast::Condition>> {
    match filter {
        Some(DmlFilter::CurrentOf(_)) => Err(errors::not_supported(
            "WHERE CURRENT OF beside an INSTEAD OF trigger",
        )),
        filter => Ok(condition_of(filter)),
    }
}

fn condition_of(filter: Option<&DmlFilter>) -> Option<&ast::Condition> {
    match filter {
        Some(DmlFilter::Where(condition)) => Some(condition),
        _ => None,
    }
}

/// The row that WHERE CURRENT OF names.
fn current_row(filter: Option<&DmlFilter>, host: &dyn Host) -> Result<Option<CursorRow>> {
    match filter {
        Some(DmlFilter::CurrentOf(cursor)) => host.cursor_row(cursor).map(Some),
        _ => Ok(None),
    }
}

/// 16932: a column that FOR UPDATE OF does not name.
fn check_update_of(current: Option<&CursorRow>, ast: &ast::Update) -> Result<()> {
    let listed = current.map(|row| &row.columns).filter(|c| !c.is_empty());
    let Some(listed) = listed else {
        return Ok(());
    };
    let mut sets = ast.assignments.iter().filter_map(set_column);
    let is_listed = |c: &ast::ColumnRef| listed.iter().any(|name| names_equal(name, &c.name.text));
    match sets.all(is_listed) {
        true => Ok(()),
        false => Err(messages::error(16932, &[])),
    }
}

fn fetched(current: Option<&CursorRow>, target: &TargetPlan) -> Result<Option<Fetched>> {
    let place = current.map(|row| row.place_in(target.table()));
    Ok(place.transpose()?.map(|place| Fetched {
        stamp: place.stamp,
        moved_to: Mutex::default(),
    }))
}

/// A stamp loses its version when nobody needs the state before any more.
fn is_changed(fetched: Stamp, found: Stamp) -> bool {
    let is_same = fetched.version == found.version || fetched.version == 0 || found.version == 0;
    fetched.txn != found.txn || !is_same
}

/// The row that a cursor stands on is gone, or is another one by now.
fn changed_meanwhile() -> SqlError {
    messages::error(16934, &[]).followed(messages::error(16947, &[]))
}

/// The value an assignment gives, compound operators spelled out. In a joined statement other tables may have columns of that name.
fn assigned_value(assignment: &Assignment, joined: bool) -> Option<Expr> {
    let own = |column: &ast::ColumnRef| Expr::Column(changed_column(column, joined));
    Some(match assignment {
        Assignment::Column { column, op, value }
        | Assignment::Both {
            column, op, value, ..
        } => compound(op, own(column), value),
        Assignment::Variable {
            variable,
            op,
            value,
        } => compound(
            op,
            Expr::Variable {
                name: variable.clone(),
                span: Span::default(),
            },
            value,
        ),
        Assignment::Method { .. } => return None,
    })
}

/// `left op value` of `left op= value`; the value itself for a plain `=`.
pub fn compound(op: &AssignOp, left: Expr, value: &Expr) -> Expr {
    match op {
        AssignOp::Set => value.clone(),
        AssignOp::Compound(op) => Expr::Binary {
            op: *op,
            left: Box::new(left),
            right: Box::new(value.clone()),
            span: Span::default(),
        },
    }
}

/// Target columns under the names that the statement knows them by, then those of the other tables.
fn row_scope(target: &TargetPlan, is_limited: bool) -> Scope {
    let mut own = ScopeTable::of_table(target.table(), target.alias());
    own.schema = target.schema().map(str::to_string);
    for (ordinal, column) in own.columns.iter_mut().enumerate() {
        let mut exposed = target.exposed().iter();
        let shown = exposed.find(|(_, e)| *e == Exposed::Column(ordinal));
        column.name = shown.map(|(name, _)| name.clone()).unwrap_or_default();
    }
    let mut scope = Scope {
        tables: vec![own],
        next_value_error: is_limited.then_some(LIMITED),
        xml_namespaces: target.source_scope().xml_namespaces.clone(),
    };
    scope
        .tables
        .extend(target.source_scope().tables.iter().cloned());
    scope
}

fn prepare_set(
    ast: &ast::Update,
    values: &[Expr],
    target: &TargetPlan,
    table: &Writable,
    scope: &Scope,
    assigns_variables: bool,
    host: &dyn Host,
) -> Result<SetPlan> {
    let mut steps = Vec::with_capacity(values.len());
    let mut changed = vec![false; table.width()];
    let mut item = 0;
    for (assignment, value) in ast.assignments.iter().zip(values) {
        let (column, variable) = match assignment {
            Assignment::Column { column, .. } => (Some(column), None),
            Assignment::Both {
                column, variable, ..
            } => (Some(column), Some(variable.clone())),
            Assignment::Variable { variable, .. } => (None, Some(variable.clone())),
            Assignment::Method { .. } => (None, None),
        };
        let ordinal = column
            .map(|c| {
                let name = &c.name.text;
                let ordinal = named_ordinal(table, target.exposed(), name, &ast.target)?;
                assignable(table, ordinal, &mut changed)
            })
            .transpose()?;
        let (source, from) = match (value, ordinal) {
            (Expr::Default, Some(ordinal)) => (StepSource::Default(ordinal), None),
            (Expr::Default, None) => return Err(errors::not_supported("DEFAULT for a variable")),
            _ if assigns_variables => {
                let plan = prepare_scalar(value, scope, host)?;
                let from = plan.data_type();
                (StepSource::Item(item, Some(plan)), Some(from))
            }
            _ => (
                StepSource::Item(item, None),
                target.items().get(item).map(|c| c.data_type),
            ),
        };
        item += usize::from(from.is_some());
        let column = ordinal
            .map(|o| Ok((o, assign_to(table, o, from, value, host)?)))
            .transpose();
        steps.push(Step {
            source,
            column: column.map_err(|e: SqlError| e)?,
            variable,
        });
    }
    table.widen(&mut changed);
    Ok(SetPlan {
        steps,
        changed,
        from_stream: !assigns_variables,
    })
}

fn assign_to(
    table: &Writable,
    ordinal: usize,
    from: Option<DataType>,
    value: &Expr,
    host: &dyn Host,
) -> Result<Assign> {
    let column = table
        .access
        .def()
        .columns
        .get(ordinal)
        .ok_or_else(|| damaged("no such column"))?;
    match (from, value) {
        (None, _) | (_, Expr::Literal(ast::Literal::Null)) => Ok(Assign::null()),
        (Some(from), _) => Assign::into_column(from, table.table(), column, host),
    }
}

/// Ordinal of a column by the name that the statement knows it by: the table's, or that of a view's column in `exposed`.
fn named_ordinal(
    table: &Writable,
    exposed: &[(String, Exposed)],
    name: &str,
    target: &DmlTarget,
) -> Result<usize> {
    if exposed.is_empty() {
        let columns = &table.access.def().columns;
        let found = columns.iter().position(|c| names_equal(&c.name, name));
        return found.ok_or_else(|| errors::unknown_column(name));
    }
    let refuse = |why| Err(errors::not_updatable(&super::written_name(target), why));
    match exposed.iter().find(|(shown, _)| names_equal(shown, name)) {
        Some((_, Exposed::Column(ordinal))) => Ok(*ordinal),
        Some((_, Exposed::Foreign)) => refuse(ViewProblem::ManyTables),
        Some((_, Exposed::Computed)) => refuse(ViewProblem::Derived),
        None => Err(errors::unknown_column(name)),
    }
}

/// Whether UPDATE may assign a column; each once.
pub(super) fn assignable(table: &Writable, ordinal: usize, changed: &mut [bool]) -> Result<usize> {
    let columns = &table.access.def().columns;
    let column = columns
        .get(ordinal)
        .ok_or_else(|| damaged("no such column"))?;
    if column.computed.is_some() {
        return Err(errors::computed_column(&column.name));
    }
    if column.is_identity {
        return Err(errors::identity_update(&column.name));
    }
    if column.data_type == DataType::RowVersion {
        return Err(errors::rowversion_update());
    }
    match changed.get_mut(ordinal) {
        Some(true) => Err(errors::column_twice(&column.name)),
        Some(flag) => {
            *flag = true;
            Ok(ordinal)
        }
        None => Err(damaged("no such column")),
    }
}

/// Expressions that judge a row by itself, if the statement reads nothing but its target.
fn prepare_simple(
    single: bool,
    filter: Option<&ast::Condition>,
    items: &[&Expr],
    target: &TargetPlan,
    scope: &Scope,
    watch: &Watch,
    host: &dyn Host,
) -> Result<Option<Simple>> {
    if !single || watch.saw_others(target.table()) || watch.count(target.table()) > 1 {
        return Ok(None);
    }
    let filter = filter
        .map(|f| prepare_condition(f, scope, host))
        .transpose()?;
    let items = items
        .iter()
        .map(|item| prepare_scalar(item, scope, host))
        .collect::<Result<_>>()?;
    Ok(Some(Simple { filter, items }))
}

fn prepare_output(
    output: Option<&ast::Output>,
    target: &TargetPlan,
    sides: Sides,
    host: &dyn Host,
) -> Result<Option<OutputPlan>> {
    let changed = OutputTarget {
        table: target.table(),
        exposed: target.exposed(),
    };
    output
        .map(|o| OutputPlan::prepare(host, o, &changed, sides, target.source_scope()))
        .transpose()
}

/// Conditions of the quick way.
pub struct HotFacts {
    pub simple: bool,
    pub gather: bool,
    pub has_output: bool,
    pub from_stream: bool,
    pub changed: Vec<bool>,
    pub touches_index: bool,
}

impl ModifyPlan {
    fn verb(&self) -> Verb {
        if self.set.is_some() {
            Verb::Update
        } else {
            Verb::Delete
        }
    }

    /// Columns that an UPDATE sets.
    pub fn set_ordinals(&self) -> Vec<usize> {
        let steps = self.set.iter().flat_map(|set| &set.steps);
        let columns = steps.filter_map(|step| step.column.as_ref());
        columns.map(|(ordinal, _)| *ordinal).collect()
    }

    /// The base table whose rows are changed.
    pub fn table(&self) -> &TableRef {
        self.table.table()
    }

    /// The key that the cursor's row of WHERE CURRENT OF has by now, where the statement changed it.
    pub fn moved_to(&self) -> Option<Vec<u8>> {
        self.fetched.as_ref()?.moved_to.lock().clone()
    }

    /// The views that it is come to through, the innermost first.
    pub fn views(&self) -> &[(DatabaseId, i32)] {
        self.target.views()
    }

    /// Have the tables grown or shrunk so much that another plan may be better?
    pub fn is_outdated(&self) -> bool {
        self.target.is_outdated()
    }

    /// The operator's name in SHOWPLAN.
    pub fn shown_verb(&self) -> &'static str {
        if self.set.is_some() {
            "Update"
        } else {
            "Delete"
        }
    }

    /// The plan that finds the rows, for those who show it.
    pub fn picture(&self) -> Picture<'_> {
        self.target.picture()
    }

    fn takes_next_value(&self) -> bool {
        let items = self.simple.iter().flat_map(|simple| &simple.items);
        items.into_iter().any(ScalarPlan::takes_next_value)
    }

    fn hot_facts(&self) -> HotFacts {
        HotFacts {
            simple: self.simple.is_some(),
            gather: self.gather,
            has_output: self.output.is_some(),
            from_stream: self.set.as_ref().is_some_and(|s| s.from_stream),
            changed: self
                .set
                .as_ref()
                .map(|s| s.changed.clone())
                .unwrap_or_default(),
            touches_index: self.touched.iter().any(|t| *t),
        }
    }

    fn effects(&self, host: &dyn Host) -> Result<Effects> {
        match &self.set {
            Some(set) => Effects::new(
                host,
                &self.table,
                TriggerAction::Update,
                Some(set.changed.clone()),
            ),
            None => Effects::new(host, &self.table, TriggerAction::Delete, None),
        }
    }
}

/// Changes or deletes the rows; gives their number. Rows of OUTPUT go to `client`.
pub fn execute<'a>(
    plan: &'a ModifyPlan,
    host: &'a dyn Host,
    client: Option<&'a mut RowCallback<'a>>,
) -> Result<u64> {
    let txn = host.begin_write(plan.table.table())?;
    plan.table.access.note_update(Some(&plan.touched))?;
    let limit = super::row_limit(host);
    if let Some(hot) = &plan.hot
        && limit == u64::MAX
        && host.actual_rows().is_none()
        && plan.effects(host)?.is_empty()
    {
        return hot.run(&plan.table, host, &txn);
    }
    let mut output = plan
        .output
        .as_ref()
        .map(|o| o.begin(host, client))
        .transpose()?;
    for _ in 0..RESTARTS_MAX {
        let savepoint = txn.savepoint();
        let mut run = Run {
            plan,
            host,
            txn: txn.clone(),
            effects: plan.effects(host)?,
            count: 0,
            restart: false,
            left: limit,
            evaluators: Evaluators::new(host),
        };
        run.run(&mut output)?;
        if !run.restart {
            let count = run.count;
            if plan.fetched.is_some() && count == 0 {
                return Err(changed_meanwhile());
            }
            run.effects.finish(host, &plan.table, plan.verb(), 0)?;
            output.map_or(Ok(()), OutputRun::finish)?;
            return Ok(count);
        }
        txn.rollback_to(savepoint)?;
    }
    Err(StorageError::Deadlock {
        wait: WaitKind::LockU,
    }
    .into())
}

struct Run<'a> {
    plan: &'a ModifyPlan,
    host: &'a dyn Host,
    txn: Txn,
    effects: Effects,
    count: u64,
    /// A row of a statement that cannot judge rows by themselves changed meanwhile.
    restart: bool,
    /// Rows that SET ROWCOUNT still allows.
    left: u64,
    evaluators: Evaluators<'a>,
}

impl<'a> Run<'a> {
    fn run(&mut self, output: &mut Option<OutputRun>) -> Result<()> {
        let mut stream = open_target(&self.plan.target, self.host)?;
        let mut batch = RowBatch::new();
        let mut changes = Changes::default();
        let mut seen = Seen::default();
        while self.left > 0 && stream.next(&mut batch)? {
            super::check_cancel(self.host)?;
            for row in batch.rows() {
                let Some((key, _)) = self.plan.target.key_and_stamp(row)? else {
                    continue;
                };
                if self.plan.repeats && seen.meet(key, row, self.host)? != Met::New {
                    continue;
                }
                if self.left == 0 {
                    break;
                }
                self.left -= 1;
                changes.add(self.change_from_stream(row)?, self.host)?;
            }
            if !self.plan.gather {
                self.apply(std::mem::take(&mut changes), output)?;
            }
        }
        drop(stream);
        let key_of = |row: &[Value]| match self.plan.target.key_and_stamp(row)? {
            Some((key, _)) => Ok(key.to_vec()),
            None => Err(damaged("row without key")),
        };
        let mut left = self.left;
        seen.rest(self.host, key_of, |row, is_first| {
            if is_first && left > 0 {
                left -= 1;
                changes.add(self.change_from_stream(row)?, self.host)?;
            }
            Ok(left > 0)
        })?;
        match self.plan.together {
            true => self.apply(changes, output),
            false => changes.into_parts(self.host, |part| self.apply(part.into(), output)),
        }
    }

    fn change_from_stream(&self, row: &[Value]) -> Result<Change> {
        let plan = self.plan;
        let located = plan.target.key_and_stamp(row)?;
        let (key, stamp) = located.ok_or_else(|| damaged("row without key"))?;
        if plan
            .fetched
            .as_ref()
            .is_some_and(|fetched| is_changed(fetched.stamp, stamp))
        {
            return Err(changed_meanwhile());
        }
        let values = row
            .get(..plan.table.width())
            .ok_or_else(|| damaged("row too short"))?
            .to_vec();
        let sources = row
            .get(plan.target.source_position()..)
            .unwrap_or_default()
            .to_vec();
        let old = OldRow {
            key: key.to_vec(),
            stamp,
            payload: Vec::new(),
            values,
        };
        let new = match &plan.set {
            None => None,
            Some(set) => {
                let full: Vec<Value> = if set.from_stream {
                    Vec::new()
                } else {
                    old.values.iter().chain(&sources).cloned().collect()
                };
                let item = |n: usize, expr: Option<&ScalarPlan>| match expr {
                    None => row
                        .get(plan.target.item_position(n))
                        .cloned()
                        .ok_or_else(|| damaged("row too short")),
                    Some(expr) => expr.eval(&full, self.host),
                };
                Some(self.new_row(set, &old.values, &item)?)
            }
        };
        Ok(Change {
            old: Some(old),
            new,
            sources,
            moved_to: None,
        })
    }

    fn new_row(
        &self,
        set: &SetPlan,
        old: &[Value],
        item: &dyn Fn(usize, Option<&ScalarPlan>) -> Result<Value>,
    ) -> Result<Vec<Value>> {
        let plan: &'a ModifyPlan = self.plan;
        let table: &'a Writable = &plan.table;
        let shown = self.plan.output.is_some() || self.effects.has_images();
        let _row = MadeRow::begin(self.host);
        let mut row = old.to_vec();
        for step in &set.steps {
            let mut value = match &step.source {
                StepSource::Default(ordinal) => table.default_value(&self.evaluators, *ordinal)?,
                StepSource::Item(n, expr) => item(*n, expr.as_ref())?,
            };
            if let Some((ordinal, assign)) = &step.column {
                value = if matches!(step.source, StepSource::Default(_)) {
                    value
                } else {
                    assign.convert(value)?
                };
                *row.get_mut(*ordinal)
                    .ok_or_else(|| damaged("row too short"))? = value.clone();
            }
            if let Some(variable) = &step.variable {
                self.host.set_variable(variable, value)?;
            }
        }
        renew_rowversion(self.host, table, &mut row)?;
        table.complete(
            &self.evaluators,
            &mut row,
            Some(&set.changed),
            Verb::Update,
            shown,
        )?;
        check_view(&self.evaluators, plan.target.check(), &row)?;
        Ok(row)
    }

    fn apply(&mut self, changes: Changes, output: &mut Option<OutputRun>) -> Result<()> {
        if changes.is_empty() || self.restart {
            return Ok(());
        }
        let plan = self.plan;
        let mut restart = false;
        let mut done = Applier::new(self.host, &plan.table, self.txn.clone(), &plan.touched)
            .apply(changes, &mut |key| match &plan.simple {
                Some(simple) => {
                    let judged = self.judge(simple, key)?;
                    restart |= judged.is_none() && plan.limited && self.count == 0;
                    Ok(judged)
                }
                None => {
                    restart = true;
                    Ok(None)
                }
            })?;
        self.restart |= restart;
        if self.restart {
            return Ok(());
        }
        self.count += done.len() as u64;
        if self.effects.is_empty() && output.is_none() && plan.fetched.is_none() {
            return Ok(());
        }
        done.parts(self.host, |part| {
            if let (Some(fetched), [change]) = (&plan.fetched, part) {
                fetched.moved_to.lock().clone_from(&change.moved_to);
            }
            self.effects
                .note(self.host, &plan.table, part, plan.verb())?;
            match output {
                Some(output) => output.put_all(part),
                None => Ok(()),
            }
        })
    }

    /// Reads a row again and decides anew.
    fn judge(&self, simple: &Simple, key: &[u8]) -> Result<Option<Change>> {
        let plan: &'a ModifyPlan = self.plan;
        let table: &'a Writable = &plan.table;
        let view = self.host.view(table.table(), Access::Target)?;
        let Some(entry) = table.access.tree(table.access.primary())?.get(&view, key)? else {
            return Ok(None);
        };
        let values = table.decode(&self.evaluators, &entry.payload)?;
        if let Some(filter) = &simple.filter
            && filter.eval(&values, self.host)? != Some(true)
        {
            return Ok(None);
        }
        let new = match &self.plan.set {
            None => None,
            Some(set) => {
                let item = |n: usize, _: Option<&ScalarPlan>| match simple.items.get(n) {
                    Some(expr) => expr.eval(&values, self.host),
                    None => Err(damaged("row too short")),
                };
                Some(self.new_row(set, &values, &item)?)
            }
        };
        let old = OldRow {
            key: key.to_vec(),
            stamp: entry.stamp,
            payload: entry.payload,
            values,
        };
        Ok(Some(Change {
            old: Some(old),
            new,
            ..Change::default()
        }))
    }
}
