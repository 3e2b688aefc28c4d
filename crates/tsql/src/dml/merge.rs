//! MERGE: target and source are joined, and each row of the join is updated, deleted, inserted or left alone.
//!
//! Theory: the join is the search for rows of an UPDATE whose target may be missing (a row of the source alone) or whose
//! source may (a row of the target alone, told by a column of ones that the source gets). What becomes of a row is
//! decided by the first clause that fits, over the columns of both. All rows are decided before the first is written:
//! updates and deletes together, then the new rows. Foreign keys are looked at and triggers fire when all is written.
//!
//! Invariant: no row of the target is changed twice (8672). A row that somebody else changed meanwhile starts the
//! statement over, and rows leave through OUTPUT only after that can no longer happen.

use super::apply::{Applier, Change, OldRow};
use super::assign::Assign;
use super::changes::Changes;
use super::effects::{Effects, renew_rowversion};
use super::errors::{self, Verb};
use super::expr::Evaluators;
use super::insert::{named_columns, refuse_computed, refuse_rowversion, top_count};
use super::inserter::{InsertOptions, InsertShape, Inserter, check_count};
use super::modify::{RESTARTS_MAX, assignable, compound, set_column};
use super::output::{OutputPlan, OutputRun, OutputTarget, Sides};
use super::seen::{Met, Seen};
use super::target::Writable;
use super::{RowCallback, options, written_name};
use crate::access::damaged;
use crate::binder::changed_column;
use crate::binder::next_value::{MERGE_CONDITION, MERGE_VALUE};
use crate::error::Result;
use crate::executor::{
    ConditionPlan, RowBatch, RowGatherer, ScalarPlan, Scope, ScopeColumn, ScopeTable, TargetPlan,
    TargetSpec, open_target, prepare_condition, prepare_scalar, prepare_target,
};
use crate::host::{Host, Resolved, TableRef, TriggerAction};
use crate::messages;
use crate::showplan::Picture;
use daruma_base::{DatabaseId, WaitKind};
use daruma_catalog::names_equal;
use daruma_storage::{StorageError, Txn};
use daruma_syntax::ast::{
    self, Assignment, DmlTarget, Expr, Ident, Join, JoinKind, MergeAction, MergeClause, MergeWhen,
    ObjectName, QueryBody, StatementKind, TableSource,
};
use daruma_syntax::{ParseOptions, parse_batch};
use daruma_value::{CollationId, DataType, Len, Value};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

/// The column of ones: no name that anybody writes.
const MARKER: &str = "$source";
pub(super) const ACTION: &str = "$action";
const ACTION_CHARS: u16 = 10;

fn action_of(action: &MergeAction) -> TriggerAction {
    match action {
        MergeAction::Insert { .. } => TriggerAction::Insert,
        MergeAction::Update(_) => TriggerAction::Update,
        MergeAction::Delete => TriggerAction::Delete,
    }
}

/// A prepared MERGE.
pub struct MergePlan {
    target: Arc<TargetPlan>,
    table: Arc<Writable>,
    clauses: Vec<Clause>,
    /// Of the clause that inserts.
    shape: Option<InsertShape>,
    /// Columns that the clauses which update may change, if there are any.
    changed: Option<Vec<bool>>,
    deletes: bool,
    /// The last column of the source is the column of ones.
    has_marker: bool,
    top: Option<ScalarPlan>,
    pub output: Option<OutputPlan>,
}

struct Clause {
    when: MergeWhen,
    /// Over the target's columns, then the source's.
    condition: Option<ConditionPlan>,
    action: Action,
}

enum Action {
    /// Each with its column; `None` is DEFAULT.
    Update(Vec<(usize, Option<Cell>)>),
    Delete,
    /// Over the columns of the source; in the order of the shape.
    Insert(Vec<Option<Cell>>),
}

type Cell = (ScalarPlan, Assign);

/// Binds the join of target and source, and each clause. Nothing is written.
pub fn prepare(ast: &ast::Merge, host: &dyn Host) -> Result<MergePlan> {
    check_clauses(&ast.clauses)?;
    let has = |when| ast.clauses.iter().any(|c| c.when == when);
    let has_marker = has(MergeWhen::NotMatchedBySource);
    let alias = target_alias(ast, host)?;
    let named = match &ast.target {
        DmlTarget::Table { .. } => DmlTarget::Table {
            name: ObjectName::bare(alias.clone()),
            hints: Vec::new(),
        },
        other => other.clone(),
    };
    let kind = match (has(MergeWhen::NotMatchedByTarget), has_marker) {
        (true, true) => JoinKind::Full,
        (true, false) => JoinKind::Right,
        (false, true) => JoinKind::Left,
        (false, false) => JoinKind::Inner,
    };
    let from = [TableSource::Join(Box::new(Join {
        kind,
        hint: None,
        left: target_source(ast)?,
        right: read_whole(&ast.source, has_marker)?,
        on: Some(ast.on.clone()),
    }))];
    let spec = TargetSpec {
        with: &ast.with,
        target: &named,
        from: &from,
        filter: None,
        top: None,
        options: &ast.options,
        items: Vec::new(),
        sets: set_columns(&ast.clauses),
        deletes: false,
        source_columns: true,
        current: None,
    };
    let target = prepare_target(&spec, host)?;
    let actions: Vec<_> = ast.clauses.iter().map(|c| action_of(&c.action)).collect();
    super::refuse_instead(host, target.table(), target.views(), &actions)?;
    options::check(host, &target.table().def, "MERGE")?;
    let table = Arc::new(Writable::prepare(host, target.table())?);
    let mut sources = target.source_scope().clone();
    if has_marker && let Some(source) = sources.tables.last_mut() {
        source.columns.pop();
    }
    let mut both = Scope::of_table(table.table(), &alias.text);
    if ast.alias.is_none() {
        let schema = table.table().schema_name.clone();
        both.tables
            .iter_mut()
            .for_each(|t| t.schema = Some(schema.clone()));
    }
    both.tables.extend(sources.tables.iter().cloned());
    both.next_value_error = Some(MERGE_VALUE);
    both.xml_namespaces.clone_from(&sources.xml_namespaces);
    sources.next_value_error = Some(MERGE_VALUE);

    let mut plan = MergePlan {
        target,
        table,
        clauses: Vec::new(),
        shape: None,
        changed: None,
        deletes: false,
        has_marker,
        top: None,
        output: None,
    };
    for clause in &ast.clauses {
        plan.add_clause(clause, &both, &sources, host)?;
    }
    plan.top = match &ast.top {
        Some(top) if top.percent => return Err(errors::not_supported("MERGE TOP (n) PERCENT")),
        Some(top) => Some(top_count(top, host)?),
        None => None,
    };
    if let Some(shape) = &plan.shape {
        shape.check_limit(ast.top.is_some(), host)?;
    }
    plan.output = plan.prepare_output(ast, sources, host)?;
    Ok(plan)
}

fn set_columns(clauses: &[MergeClause]) -> Vec<&ast::ColumnRef> {
    let updates = clauses.iter().filter_map(|clause| match &clause.action {
        MergeAction::Update(list) => Some(list),
        _ => None,
    });
    updates.flatten().filter_map(set_column).collect()
}

/// Errors 5324 and 10714: clauses of one kind go from the particular to the general, each action once.
fn check_clauses(clauses: &[MergeClause]) -> Result<()> {
    for (at, clause) in clauses.iter().enumerate() {
        let words = when_words(clause.when);
        let is_insert = matches!(clause.action, MergeAction::Insert { .. });
        if is_insert != (clause.when == MergeWhen::NotMatchedByTarget) {
            let action = action_word(&clause.action);
            return Err(messages::error(10711, &[&action, &words]));
        }
        for earlier in clauses.iter().take(at).filter(|c| c.when == clause.when) {
            if earlier.condition.is_none() {
                return Err(messages::error(5324, &[&words, &words]));
            }
            let action = action_word(&clause.action);
            if action_word(&earlier.action) == action {
                return Err(messages::error(10714, &[&action, &words]));
            }
        }
    }
    Ok(())
}

fn when_words(when: MergeWhen) -> &'static str {
    match when {
        MergeWhen::Matched => "WHEN MATCHED",
        MergeWhen::NotMatchedByTarget => "WHEN NOT MATCHED",
        MergeWhen::NotMatchedBySource => "WHEN NOT MATCHED BY SOURCE",
    }
}

fn action_word(action: &MergeAction) -> &'static str {
    match action {
        MergeAction::Update(_) => "UPDATE",
        MergeAction::Delete => "DELETE",
        MergeAction::Insert { .. } => "INSERT",
    }
}

/// The name that the clauses know the target by. Only tables are merged into.
fn target_alias(ast: &ast::Merge, host: &dyn Host) -> Result<Ident> {
    let (name, resolved) = match &ast.target {
        DmlTarget::Variable { name, .. } => {
            errors::changed_variable(host, name)?;
            (Ident::new(name.clone()), None)
        }
        DmlTarget::Table { name, .. } => {
            let is_cte =
                |c: &ast::Cte| name.is_bare() && names_equal(&c.name.text, &name.name.text);
            if ast.with.ctes.iter().any(is_cte) {
                return Err(errors::not_supported(
                    "MERGE into a common table expression",
                ));
            }
            (name.name.clone(), Some(host.resolve(name)?))
        }
        DmlTarget::Rowset(_) => {
            return Err(errors::not_supported("Changing rows of a rowset function"));
        }
    };
    match resolved {
        None | Some(Resolved::Table(_)) => Ok(ast.alias.clone().unwrap_or(name)),
        Some(Resolved::View { .. }) => Err(errors::not_supported("MERGE into a view")),
        Some(Resolved::Virtual(_)) => Err(errors::system_catalog()),
        Some(Resolved::Function { .. }) => Err(errors::invalid_object(&written_name(&ast.target))),
    }
}

fn target_source(ast: &ast::Merge) -> Result<TableSource> {
    match &ast.target {
        DmlTarget::Table { name, hints } => Ok(TableSource::Table(ast::TableRef {
            name: name.clone(),
            alias: ast.alias.clone(),
            hints: hints.clone(),
            sample: None,
            system_time: None,
        })),
        DmlTarget::Variable { name, span } => Ok(TableSource::Variable {
            name: name.clone(),
            alias: ast.alias.clone(),
            hints: Vec::new(),
            span: *span,
        }),
        DmlTarget::Rowset(_) => Err(errors::not_supported("Changing rows of a rowset function")),
    }
}

/// Tables of the source as derived tables of all their columns: the clauses are bound apart from the join, and who may
/// read the source is asked for what the join reads. With `marked` the column of ones comes last.
fn read_whole(source: &TableSource, marked: bool) -> Result<TableSource> {
    let alias = match source {
        TableSource::Join(join) if !marked => {
            let mut join = join.clone();
            join.left = read_whole(&join.left, false)?;
            join.right = read_whole(&join.right, false)?;
            return Ok(TableSource::Join(join));
        }
        TableSource::Apply { .. } | TableSource::Join(_) if marked => {
            let what = "WHEN NOT MATCHED BY SOURCE with a join as the source";
            return Err(errors::not_supported(what));
        }
        TableSource::Table(table) => {
            let alias = table.alias.as_ref().unwrap_or(&table.name.name);
            Some(alias.clone())
        }
        _ if !marked => return Ok(source.clone()),
        TableSource::Variable { name, alias, .. } => {
            Some(alias.clone().unwrap_or_else(|| Ident::new(name.clone())))
        }
        TableSource::Function(f) => {
            Some(f.alias.clone().unwrap_or_else(|| f.call.name.name.clone()))
        }
        TableSource::Derived { alias, .. } | TableSource::Values { alias, .. } => alias.clone(),
        _ => return Err(errors::not_supported("This source of a MERGE")),
    };
    let text = match marked {
        true => format!("SELECT *, 1 AS [{MARKER}] FROM x"),
        false => "SELECT * FROM x".to_string(),
    };
    let statements = parse_batch(&text, &ParseOptions::default());
    let parsed = statements.ok().and_then(|list| list.into_iter().next());
    let (mut query, span) = match parsed.map(|s| (s.kind, s.span)) {
        Some((StatementKind::Select(query), span)) => (query, span),
        _ => return Err(damaged("no query")),
    };
    if let QueryBody::Select(select) = &mut query.body {
        select.from = vec![source.clone()];
    }
    Ok(TableSource::Derived {
        query,
        alias,
        columns: Vec::new(),
        span,
    })
}

impl MergePlan {
    fn add_clause(
        &mut self,
        clause: &MergeClause,
        both: &Scope,
        sources: &Scope,
        host: &dyn Host,
    ) -> Result<()> {
        let asked = Scope {
            next_value_error: Some(MERGE_CONDITION),
            ..both.clone()
        };
        let condition = clause.condition.as_ref();
        let condition = condition.map(|c| prepare_condition(c, &asked, host));
        let action = match &clause.action {
            MergeAction::Update(list) => self.prepare_update(list, both, host)?,
            MergeAction::Delete => {
                self.deletes = true;
                Action::Delete
            }
            MergeAction::Insert { columns, values } => {
                self.prepare_insert(columns, values.as_deref(), sources, host)?
            }
        };
        self.clauses.push(Clause {
            when: clause.when,
            condition: condition.transpose()?,
            action,
        });
        Ok(())
    }

    fn prepare_update(
        &mut self,
        list: &[Assignment],
        both: &Scope,
        host: &dyn Host,
    ) -> Result<Action> {
        let mut changed = vec![false; self.table.width()];
        let mut steps = Vec::with_capacity(list.len());
        for assignment in super::write::spelled(list)?.iter() {
            let Assignment::Column { column, op, value } = assignment else {
                return Err(errors::not_supported("A variable in the SET of a MERGE"));
            };
            let name = &column.name.text;
            let mut columns = self.table.access.def().columns.iter();
            let found = columns.position(|c| names_equal(&c.name, name));
            let ordinal = found.ok_or_else(|| errors::unknown_column(name))?;
            assignable(&self.table, ordinal, &mut changed)?;
            let value = compound(op, Expr::Column(changed_column(column, true)), value);
            steps.push((ordinal, self.cell(&value, ordinal, both, host)?));
        }
        self.table.widen(&mut changed);
        match &mut self.changed {
            Some(all) => all.iter_mut().zip(changed).for_each(|(a, c)| *a |= c),
            None => self.changed = Some(changed),
        }
        Ok(Action::Update(steps))
    }

    fn prepare_insert(
        &mut self,
        columns: &[ast::ColumnRef],
        values: Option<&[Expr]>,
        sources: &Scope,
        host: &dyn Host,
    ) -> Result<Action> {
        let names = columns.iter().map(|c| c.name.text.as_str());
        let columns = match (values, columns.is_empty()) {
            (None, _) => Vec::new(),
            (Some(_), true) => InsertShape::implicit_columns(&self.table),
            (Some(_), false) => named_columns(&self.table, names)?,
        };
        refuse_computed(&self.table, &columns)?;
        let values = values.unwrap_or_default();
        check_count(
            values.len(),
            columns.len(),
            errors::fewer_values,
            errors::more_values,
        )?;
        let mut cells = Vec::with_capacity(values.len());
        for (value, ordinal) in values.iter().zip(&columns) {
            if !matches!(value, Expr::Default) {
                refuse_rowversion(&self.table, &[*ordinal])?;
            }
            cells.push(self.cell(value, *ordinal, sources, host)?);
        }
        self.shape = Some(InsertShape::new(self.table.clone(), columns));
        Ok(Action::Insert(cells))
    }

    fn cell(
        &self,
        value: &Expr,
        ordinal: usize,
        scope: &Scope,
        host: &dyn Host,
    ) -> Result<Option<Cell>> {
        if matches!(value, Expr::Default) {
            return Ok(None);
        }
        let plan = prepare_scalar(value, scope, host)?;
        let column = self.table.access.def().columns.get(ordinal);
        let column = column.ok_or_else(|| damaged("no such column"))?;
        let assign = match value {
            Expr::Literal(ast::Literal::Null) => Assign::null(),
            _ => Assign::into_column(plan.data_type(), self.table.table(), column, host)?,
        };
        Ok(Some((plan, assign)))
    }

    /// The action on a row is one more column beside those of the source.
    fn prepare_output(
        &self,
        ast: &ast::Merge,
        mut sources: Scope,
        host: &dyn Host,
    ) -> Result<Option<OutputPlan>> {
        let Some(output) = &ast.output else {
            return Ok(None);
        };
        sources.tables.push(ScopeTable {
            name: String::new(),
            schema: None,
            columns: vec![ScopeColumn {
                name: ACTION.to_string(),
                data_type: DataType::NVarChar(Len(ACTION_CHARS)),
                collation: CollationId::default(),
                nullable: false,
            }],
        });
        let sides = Sides {
            inserted: true,
            deleted: true,
            may_lack_one: true,
        };
        let table = self.table.table();
        let target = OutputTarget {
            table,
            exposed: &[],
        };
        let plan = OutputPlan::prepare(host, output, &target, sides, &sources)?;
        for action in self.actions() {
            let written = written_name(&ast.target);
            super::refuse_output_with_triggers(host, table, action, Some(&plan), &written)?;
        }
        Ok(Some(plan))
    }

    /// Which of a new row's given values are DEFAULT. No more than one clause inserts.
    fn default_cells(&self) -> Vec<bool> {
        let cells = self.clauses.iter().find_map(|clause| match &clause.action {
            Action::Insert(cells) => Some(cells.iter().map(Option::is_none).collect()),
            _ => None,
        });
        cells.unwrap_or_default()
    }

    fn actions(&self) -> Vec<TriggerAction> {
        let all = [
            (self.shape.is_some(), TriggerAction::Insert),
            (self.changed.is_some(), TriggerAction::Update),
            (self.deletes, TriggerAction::Delete),
        ];
        let wanted = all.into_iter().filter(|(is, _)| *is);
        wanted.map(|(_, action)| action).collect()
    }

    /// The target.
    pub fn table(&self) -> &TableRef {
        self.table.table()
    }

    /// The views that it is come to through, the innermost first.
    pub fn views(&self) -> &[(DatabaseId, i32)] {
        self.target.views()
    }

    /// Columns that its clauses set.
    pub fn set_ordinals(&self) -> Vec<usize> {
        let cells = self.clauses.iter().filter_map(|c| match &c.action {
            Action::Update(cells) => Some(cells),
            Action::Delete | Action::Insert(_) => None,
        });
        cells.flatten().map(|(ordinal, _)| *ordinal).collect()
    }

    /// Have the tables grown or shrunk so much that another plan may be better?
    pub fn is_outdated(&self) -> bool {
        self.target.is_outdated()
    }

    /// The join's plan, for those who show it.
    pub fn picture(&self) -> Picture<'_> {
        self.target.picture()
    }
}

/// Changes the target; gives the number of rows changed. Rows of OUTPUT go to `client`.
pub fn execute<'a>(
    plan: &'a MergePlan,
    host: &'a dyn Host,
    client: Option<&'a mut RowCallback<'a>>,
) -> Result<u64> {
    let limit = super::rows_max(plan.top.as_ref(), host)?;
    let txn = host.begin_write(plan.table())?;
    // One that inserts is counted by the inserter.
    if plan.shape.is_none() {
        let changed = plan.changed.as_deref().filter(|_| !plan.deletes);
        let touched = changed.map(|changed| plan.table.touched_indexes(changed));
        plan.table.access.note_update(touched.as_deref())?;
    }
    let output = plan.output.as_ref().map(|o| o.begin(host, client));
    let mut output = output.transpose()?;
    for _ in 0..RESTARTS_MAX {
        let savepoint = txn.savepoint();
        let run = Run {
            plan,
            host,
            txn: txn.clone(),
            evaluators: Evaluators::new(host),
        };
        if let Some(count) = run.run(limit, &mut output)? {
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

#[derive(Default)]
struct Decided {
    changes: Changes,
    /// Given values of each new row, NULL for DEFAULT, and then the source's columns for OUTPUT.
    inserts: RowGatherer,
}

struct Run<'a> {
    plan: &'a MergePlan,
    host: &'a dyn Host,
    txn: Txn,
    evaluators: Evaluators<'a>,
}

impl<'a> Run<'a> {
    /// Number of rows; `None` when a row changed meanwhile, so that everything has to be decided anew.
    fn run(&self, limit: u64, output: &mut Option<OutputRun<'a>>) -> Result<Option<u64>> {
        let (plan, host) = (self.plan, self.host);
        let table: &'a Writable = &plan.table;
        let (mut updates, mut deletes) = (None, None);
        if let Some(changed) = &plan.changed {
            let changed = Some(changed.clone());
            updates = Some(Effects::new(host, table, TriggerAction::Update, changed)?);
        }
        if plan.deletes {
            deletes = Some(Effects::new(host, table, TriggerAction::Delete, None)?);
        }
        let Decided { changes, inserts } = self.decide(limit)?;
        let Some(done) = self.apply(changes)? else {
            return Ok(None);
        };
        let count = (done.len() + inserts.len()) as u64;
        done.into_parts(host, |part| {
            if let Some(output) = output {
                output.put_all(&part)?;
            }
            let (updated, deleted): (Vec<_>, Vec<_>) =
                part.into_iter().partition(|c| c.new.is_some());
            for (effects, part) in [(&mut updates, updated), (&mut deletes, deleted)] {
                if let Some(effects) = effects {
                    effects.note(host, table, &part, Verb::Merge)?;
                }
            }
            Ok(())
        })?;
        self.insert(inserts, count, output)?;
        for effects in [updates, deletes].into_iter().flatten() {
            let effects = effects.of_statement(count);
            effects.finish(host, table, Verb::Merge, 0)?;
        }
        Ok(Some(count))
    }

    fn decide(&self, limit: u64) -> Result<Decided> {
        let plan = self.plan;
        let mut decided = Decided::default();
        let mut seen = Seen::default();
        let mut stream = open_target(&plan.target, self.host)?;
        let mut batch = RowBatch::new();
        let mut left = limit;
        while left > 0 && stream.next(&mut batch)? {
            super::check_cancel(self.host)?;
            for row in batch.rows() {
                if left == 0 {
                    break;
                }
                if self.decide_row(row, &mut seen, &mut decided)? {
                    left -= 1;
                }
            }
        }
        drop(stream);
        let key_of = |row: &[Value]| match row {
            [Value::Bytes(key)] => Ok(key.clone()),
            _ => Err(damaged("row without key")),
        };
        seen.rest(self.host, key_of, |_, is_first| match is_first {
            true => Ok(true),
            false => Err(messages::error(8672, &[])),
        })?;
        Ok(decided)
    }

    /// False when nothing becomes of the row.
    fn decide_row(&self, row: &[Value], seen: &mut Seen, decided: &mut Decided) -> Result<bool> {
        let plan: &'a MergePlan = self.plan;
        let width = plan.table.width();
        let old_values = row.get(..width).ok_or_else(|| damaged("row too short"))?;
        let mut sources = row.get(plan.target.source_position()..).unwrap_or_default();
        let located = plan.target.key_and_stamp(row)?;
        let mut has_source = true;
        if plan.has_marker
            && let Some((marker, rest)) = sources.split_last()
        {
            has_source = !marker.is_null();
            sources = rest;
        }
        let when = match (&located, has_source) {
            (None, _) => MergeWhen::NotMatchedByTarget,
            (Some(_), true) => MergeWhen::Matched,
            (Some(_), false) => MergeWhen::NotMatchedBySource,
        };
        let both: Vec<Value> = old_values.iter().chain(sources).cloned().collect();
        let Some(clause) = self.clause_for(when, &both)? else {
            return Ok(false);
        };
        let told = |what: &str| {
            let mut told = sources.to_vec();
            if plan.output.is_some() {
                told.push(Value::str(what));
            }
            told
        };
        let (new, what) = match &clause.action {
            Action::Insert(cells) => {
                let given = cells.iter().map(|cell| match cell {
                    Some((value, assign)) => {
                        let value = self.evaluators.eval(value, sources)?;
                        assign.convert(value)
                    }
                    None => Ok(Value::Null),
                });
                let mut row = given.collect::<Result<Vec<_>>>()?;
                row.extend(told("INSERT"));
                decided.inserts.add(&row, self.host)?;
                return Ok(true);
            }
            Action::Update(steps) => (Some(self.updated(steps, old_values, &both)?), "UPDATE"),
            Action::Delete => (None, "DELETE"),
        };
        let (key, stamp) = located.ok_or_else(|| damaged("row without key"))?;
        if seen.meet(key, &[Value::Bytes(key.to_vec())], self.host)? == Met::Again {
            return Err(messages::error(8672, &[]));
        }
        let old = OldRow {
            key: key.to_vec(),
            stamp,
            payload: Vec::new(),
            values: old_values.to_vec(),
        };
        let change = Change {
            old: Some(old),
            new,
            sources: told(what),
            moved_to: None,
        };
        decided.changes.add(change, self.host)?;
        Ok(true)
    }

    fn clause_for(&self, when: MergeWhen, both: &[Value]) -> Result<Option<&'a Clause>> {
        let plan: &'a MergePlan = self.plan;
        for clause in plan.clauses.iter().filter(|c| c.when == when) {
            let fits = match &clause.condition {
                Some(condition) => self.evaluators.test(condition, both)? == Some(true),
                None => true,
            };
            if fits {
                return Ok(Some(clause));
            }
        }
        Ok(None)
    }

    fn updated(
        &self,
        steps: &'a [(usize, Option<Cell>)],
        old: &[Value],
        both: &[Value],
    ) -> Result<Vec<Value>> {
        let table: &'a Writable = &self.plan.table;
        let mut row = old.to_vec();
        for (ordinal, cell) in steps {
            let value = match cell {
                Some((value, assign)) => assign.convert(self.evaluators.eval(value, both)?)?,
                None => table.default_value(&self.evaluators, *ordinal)?,
            };
            let place = row.get_mut(*ordinal);
            *place.ok_or_else(|| damaged("row too short"))? = value;
        }
        renew_rowversion(self.host, table, &mut row)?;
        let changed = self.plan.changed.as_deref();
        table.complete(&self.evaluators, &mut row, changed, Verb::MergeUpdate, true)?;
        Ok(row)
    }

    /// `None` when a row changed since it was read.
    fn apply(&self, changes: Changes) -> Result<Option<Changes>> {
        let table: &'a Writable = &self.plan.table;
        if changes.is_empty() {
            return Ok(Some(changes));
        }
        let mut restart = false;
        let mut applier = Applier::new(self.host, table, self.txn.clone(), &[]);
        let done = applier.apply(changes, &mut |_| {
            restart = true;
            Ok(None)
        })?;
        Ok((!restart).then_some(done))
    }

    /// `count`: rows of the statement in all.
    fn insert(
        &self,
        rows: RowGatherer,
        count: u64,
        output: &mut Option<OutputRun<'a>>,
    ) -> Result<()> {
        let plan: &'a MergePlan = self.plan;
        let Some(shape) = &plan.shape else {
            return Ok(());
        };
        let verb = Verb::MergeInsert;
        let inserter = Inserter::begin(self.host, shape, InsertOptions::STATEMENT, verb)?;
        let mut inserter = inserter.of_statement(count);
        let is_default = plan.default_cells();
        let given_of = |row: &mut [Value]| -> Vec<Option<Value>> {
            let given = |(value, is_default): (&mut Value, &bool)| match is_default {
                true => None,
                false => Some(std::mem::replace(value, Value::Null)),
            };
            row.iter_mut().zip(&is_default).map(given).collect()
        };
        let Some(output) = output else {
            rows.each(self.host, |row| inserter.push(&mut given_of(row), None))?;
            return inserter.finish(None).map(|_| ());
        };
        if plan.table.ignores_duplicates {
            return Err(errors::not_supported(
                "OUTPUT of a MERGE into a table with IGNORE_DUP_KEY",
            ));
        }
        inserter.show_rows();
        // Rows are written some at a time, in order.
        let waiting = RefCell::new(VecDeque::new());
        let mut written = |row: &[Value]| -> Result<()> {
            let sources: Option<Vec<Value>> = waiting.borrow_mut().pop_front();
            output.put(Some(row), None, &sources.unwrap_or_default())
        };
        rows.each(self.host, |row| {
            let sources = row.get(is_default.len()..).unwrap_or_default();
            waiting.borrow_mut().push_back(sources.to_vec());
            inserter.push(&mut given_of(row), Some(&mut written))
        })?;
        inserter.finish(Some(&mut written)).map(|_| ())
    }
}
