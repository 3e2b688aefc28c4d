//! Changes of a table or view that has an INSTEAD OF trigger: the rows are made, nothing is written, the trigger runs.
//!
//! Theory: the rows that UPDATE and DELETE are about are those of a query over the target, whatever that is, with the new
//! values beside them; so views that could not be changed otherwise can. INSERT fills a row of the target's columns
//! from what it is given; what it is not given is the default of a table's column, NULL of a view's.
//!
//! A table's rows that are found by a join are told apart by their keys, as an UPDATE does; those of a view have none, so a
//! view is not joined (414, 415).
//!
//! The trigger's own changes of the target do not come here again.

use super::assign::Assign;
use super::errors;
use super::expr::Evaluators;
use super::modify::set_column;
use super::target::Writable;
use crate::access::damaged;
use crate::binder::{ScopeEntry, changed_column, check_changed, same_name, target_object};
use crate::error::Result;
use crate::executor::{
    KeptPlan, RowBatch, RowGatherer, RowStream, ScalarPlan, Scope, SelectPlan, TargetPlan,
    TargetSpec, open, open_target, prepare_scalar, prepare_select, prepare_target,
};
use crate::host::{Host, Images, InsteadTarget, TableRef, TriggerAction, check_cancel};
use crate::messages;
use crate::showplan::Picture;
use crate::sink::OutputColumn;
use daruma_catalog::{ColumnDef, names_equal};
use daruma_syntax::ast::{
    self, Assignment, DmlFilter, DmlTarget, Expr, Ident, InsertSource, Literal, ObjectName, Query,
    QueryBody, Select, SelectItem, Span, TableHint, TableSource, Top, With,
};
use daruma_value::{DataType, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// A change whose rows go to a trigger.
pub struct InsteadPlan {
    target: InsteadTarget,
    action: TriggerAction,
    source: Source,
    top: Option<ScalarPlan>,
    /// Columns that UPDATE sets.
    updated: Vec<i32>,
}

enum Source {
    /// Ordinals of the columns that are given, and a value for each, or its default.
    Values(Vec<usize>, Vec<Vec<Option<Cell>>>),
    Query(Vec<usize>, Arc<SelectPlan>, Vec<Assign>),
    Execute(Vec<usize>, Box<ast::Execute>),
    /// The target's rows, with new values behind them.
    Target(Arc<SelectPlan>, Vec<Set>),
    /// Rows of a table that is joined to others.
    Joined(Arc<TargetPlan>, Vec<Set>),
}

struct Cell {
    plan: ScalarPlan,
    assign: Assign,
}

/// A column that gets the value at this place of the query's rows, or its default.
struct Set {
    ordinal: usize,
    item: Option<(usize, Assign)>,
}

impl InsteadPlan {
    /// What the statement names.
    pub fn table(&self) -> &TableRef {
        &self.target.table
    }

    /// Ids of the columns that UPDATE sets.
    pub fn set_columns(&self) -> &[i32] {
        &self.updated
    }

    /// Only a query has other plans.
    pub fn is_outdated(&self) -> bool {
        match &self.source {
            Source::Query(_, plan, _) | Source::Target(plan, _) => plan.is_outdated(),
            Source::Joined(plan, _) => plan.is_outdated(),
            _ => false,
        }
    }

    /// The query's plan, for those who show it.
    pub fn picture(&self) -> Option<Picture<'_>> {
        match &self.source {
            Source::Query(_, plan, _) | Source::Target(plan, _) => Some(plan.picture()),
            Source::Joined(plan, _) => Some(plan.picture()),
            _ => None,
        }
    }

    /// An INSERT gives the identity column's value where IDENTITY_INSERT is ON, and nowhere else.
    fn check_identity(&self, table: &Writable, host: &dyn Host) -> Result<()> {
        let Some(identity) = table.identity else {
            return Ok(());
        };
        let gives = match &self.source {
            Source::Values(columns, _)
            | Source::Query(columns, ..)
            | Source::Execute(columns, _) => columns.contains(&identity),
            Source::Target(..) | Source::Joined(..) => return Ok(()),
        };
        match (gives, host.identity_insert(table.table())) {
            (true, false) => Err(errors::identity_insert_off(table.table())),
            (false, true) => Err(errors::identity_value_missing(table.table())),
            _ => Ok(()),
        }
    }

    /// As SHOWPLAN_TEXT calls the change.
    pub fn verb(&self) -> &'static str {
        match self.action {
            TriggerAction::Insert => "Insert",
            TriggerAction::Update => "Update",
            TriggerAction::Delete => "Delete",
        }
    }
}

/// The target when it has such a trigger.
fn found(
    target: &DmlTarget,
    with: &With,
    from: &[TableSource],
    action: TriggerAction,
    host: &dyn Host,
) -> Result<Option<InsteadTarget>> {
    let DmlTarget::Table { name, .. } = target else {
        return Ok(None);
    };
    match target_object(name, from, with) {
        Some(meant) => host.instead_of(meant, action),
        None => Ok(None),
    }
}

fn refuse_output(output: Option<&ast::Output>, target: &DmlTarget) -> Result<()> {
    match output {
        None => Ok(()),
        Some(output) if !output.items.is_empty() => {
            Err(errors::output_with_triggers(&super::written_name(target)))
        }
        Some(_) => Err(errors::not_supported(
            "OUTPUT INTO beside an INSTEAD OF trigger",
        )),
    }
}

/// An INSERT whose rows go to a trigger; `None` for all others.
pub fn insert(ast: &ast::Insert, host: &dyn Host) -> Result<Option<InsteadPlan>> {
    let action = TriggerAction::Insert;
    let Some(target) = found(&ast.target, &ast.with, &[], action, host)? else {
        return Ok(None);
    };
    refuse_output(ast.output.as_ref(), &ast.target)?;
    if let DmlTarget::Table { name, .. } = &ast.target {
        // Whoever inserts must be allowed to.
        host.resolve(name)?;
    }
    let columns = insert_columns(ast, &target.table)?;
    let source = match &ast.source {
        InsertSource::Values(rows) => {
            super::insert::check_values(rows, columns.len(), !ast.columns.is_empty())?;
            let rows = rows
                .iter()
                .map(|row| values(row, &columns, &target.table, host));
            let rows = rows.collect::<Result<Vec<_>>>()?;
            Source::Values(columns, rows)
        }
        InsertSource::DefaultValues => Source::Values(Vec::new(), vec![Vec::new()]),
        InsertSource::Execute(exec) => Source::Execute(columns, exec.clone()),
        InsertSource::Query(query) => {
            let plan = prepare_select(&super::insert::in_statement(query, ast), host)?;
            if plan.is_assignment() {
                return Err(errors::assigning_source());
            }
            check_count(ast, plan.columns().len(), columns.len())?;
            let found = plan.columns().iter().map(|c| c.data_type);
            let assign = columns.iter().zip(found);
            let assign = assign
                .map(|(o, from)| Assign::new(from, column_at(&target.table, *o)?, host))
                .collect::<Result<_>>()?;
            Source::Query(columns, plan, assign)
        }
    };
    let top = ast.top.as_ref();
    let top = top.map(|top| prepare_scalar(&top.count, &Scope::default(), host));
    Ok(Some(InsteadPlan {
        target,
        action,
        source,
        top: top.transpose()?,
        updated: Vec::new(),
    }))
}

fn check_count(ast: &ast::Insert, found: usize, wanted: usize) -> Result<()> {
    match (found == wanted, ast.columns.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => Err(errors::value_count_mismatch()),
        (false, false) if found < wanted => Err(errors::fewer_items()),
        (false, false) => Err(errors::more_items()),
    }
}

fn insert_columns(ast: &ast::Insert, table: &TableRef) -> Result<Vec<usize>> {
    let columns = &table.def.columns;
    if ast.columns.is_empty() {
        let given = |c: &ColumnDef| !c.is_identity && !is_computed(c);
        let all = columns.iter().enumerate().filter(|(_, c)| given(c));
        return Ok(all.map(|(o, _)| o).collect());
    }
    let mut found: Vec<usize> = Vec::with_capacity(ast.columns.len());
    for column in &ast.columns {
        let name = &column.name.text;
        let at = columns.iter().position(|c| names_equal(&c.name, name));
        let at = at.ok_or_else(|| errors::unknown_column(name))?;
        if found.contains(&at) {
            return Err(messages::error(264, &[name]));
        }
        if columns.get(at).is_some_and(is_computed) {
            return Err(messages::error(271, &[name]));
        }
        found.push(at);
    }
    Ok(found)
}

fn is_computed(column: &ColumnDef) -> bool {
    column.computed.is_some() || column.data_type == DataType::RowVersion
}

fn column_at(table: &TableRef, ordinal: usize) -> Result<&ColumnDef> {
    let column = table.def.columns.get(ordinal);
    column.ok_or_else(|| damaged("no such column"))
}

fn values(
    row: &[Expr],
    columns: &[usize],
    table: &TableRef,
    host: &dyn Host,
) -> Result<Vec<Option<Cell>>> {
    let cell = |(expr, ordinal): (&Expr, &usize)| match expr {
        Expr::Default => Ok(None),
        expr => {
            let plan = prepare_scalar(expr, &Scope::default(), host)?;
            let assign = match expr {
                Expr::Literal(Literal::Null) => Assign::null(),
                _ => Assign::new(plan.data_type(), column_at(table, *ordinal)?, host)?,
            };
            Ok(Some(Cell { plan, assign }))
        }
    };
    row.iter().zip(columns).map(cell).collect()
}

/// An UPDATE whose rows go to a trigger.
pub fn update(ast: &ast::Update, host: &dyn Host) -> Result<Option<InsteadPlan>> {
    let ast = &*super::write::spelled_out(ast)?;
    let action = TriggerAction::Update;
    let Some(target) = found(&ast.target, &ast.with, &ast.from, action, host)? else {
        return Ok(None);
    };
    refuse_output(ast.output.as_ref(), &ast.target)?;
    let sets: Vec<_> = ast.assignments.iter().filter_map(set_column).collect();
    let mut items = Vec::new();
    let mut placed = Vec::new();
    for assignment in &ast.assignments {
        let Assignment::Column { column, op, value } = assignment else {
            return Err(errors::not_supported(
                "variables in SET beside an INSTEAD OF trigger",
            ));
        };
        let name = &column.name.text;
        let columns = &target.table.def.columns;
        let ordinal = columns.iter().position(|c| names_equal(&c.name, name));
        let ordinal = ordinal.ok_or_else(|| errors::unknown_column(name))?;
        let found = columns.get(ordinal);
        if found.is_some_and(is_computed) {
            return Err(messages::error(271, &[name]));
        }
        if !target.is_view && found.is_some_and(|c| c.is_identity) {
            return Err(errors::identity_update(name));
        }
        if placed.iter().any(|(o, _)| *o == ordinal) {
            return Err(messages::error(264, &[name]));
        }
        match value {
            Expr::Default => placed.push((ordinal, None)),
            value => {
                placed.push((ordinal, Some(items.len())));
                items.push(super::modify::compound(
                    op,
                    Expr::Column(changed_column(column, !ast.from.is_empty())),
                    value,
                ));
            }
        }
    }
    let (source, types) = find_rows(
        (&ast.target, &ast.from, 414, &target),
        (&ast.with, ast.top.as_ref(), &ast.options),
        ast.filter.as_ref(),
        (sets, items),
        host,
    )?;
    let mut sets = Vec::with_capacity(placed.len());
    for (ordinal, item) in placed {
        let item = item.map(|item| {
            let found = types.get(item).copied();
            let (at, from) = found.ok_or_else(|| damaged("row too short"))?;
            let assign = Assign::new(from, column_at(&target.table, ordinal)?, host)?;
            Ok::<_, crate::error::SqlError>((at, assign))
        });
        sets.push(Set {
            ordinal,
            item: item.transpose()?,
        });
    }
    let ids = sets
        .iter()
        .map(|s| Ok(column_at(&target.table, s.ordinal)?.id));
    Ok(Some(InsteadPlan {
        updated: ids.collect::<Result<_>>()?,
        action,
        source: source.with(sets),
        top: None,
        target,
    }))
}

/// A DELETE whose rows go to a trigger.
pub fn delete(ast: &ast::Delete, host: &dyn Host) -> Result<Option<InsteadPlan>> {
    let action = TriggerAction::Delete;
    let Some(target) = found(&ast.target, &ast.with, &ast.from, action, host)? else {
        return Ok(None);
    };
    refuse_output(ast.output.as_ref(), &ast.target)?;
    let (source, _) = find_rows(
        (&ast.target, &ast.from, 415, &target),
        (&ast.with, ast.top.as_ref(), &ast.options),
        ast.filter.as_ref(),
        (Vec::new(), Vec::new()),
        host,
    )?;
    Ok(Some(InsteadPlan {
        updated: Vec::new(),
        action,
        source: source.with(Vec::new()),
        top: None,
        target,
    }))
}

/// What UPDATE and DELETE find their rows by.
enum Found {
    Target(Arc<SelectPlan>),
    Joined(Arc<TargetPlan>),
}

impl Found {
    fn with(self, sets: Vec<Set>) -> Source {
        match self {
            Found::Target(plan) => Source::Target(plan, sets),
            Found::Joined(plan) => Source::Joined(plan, sets),
        }
    }
}

/// The rows that a statement is about, and where and of which type its items are in each. A view that is joined would come
/// more than once: error `joined`.
fn find_rows(
    (target, from, joined, of): (&DmlTarget, &[TableSource], i32, &InsteadTarget),
    (with, top, options): (&With, Option<&Top>, &[ast::QueryHint]),
    filter: Option<&DmlFilter>,
    (sets, items): (Vec<&ast::ColumnRef>, Vec<Expr>),
    host: &dyn Host,
) -> Result<(Found, Vec<(usize, DataType)>)> {
    let DmlTarget::Table { name, hints } = target else {
        return Err(damaged("no target"));
    };
    let source = match from {
        [] => {
            check_sets(&sets, name, &of.table)?;
            source_of(name, None, hints)
        }
        [TableSource::Table(only)] if is_target(only, name) => {
            check_sets(&sets, name, &of.table)?;
            let hints = [only.hints.as_slice(), hints.as_slice()].concat();
            source_of(&only.name, only.alias.as_ref(), &hints)
        }
        _ if of.is_view => return Err(messages::error(joined, &[&of.table.name])),
        _ => {
            let spec = TargetSpec {
                with,
                target,
                from,
                filter: super::modify::plain_filter(filter)?,
                top,
                options,
                items: items.iter().collect(),
                sets,
                deletes: false,
                source_columns: false,
                current: None,
            };
            let plan = prepare_target(&spec, host)?;
            let place =
                |(at, item): (usize, &OutputColumn)| (plan.item_position(at), item.data_type);
            let places = plan.items().iter().enumerate().map(place).collect();
            return Ok((Found::Joined(plan), places));
        }
    };
    let plan = target_rows(source, (with, top, options), filter, items, host)?;
    let own = of.table.def.columns.len();
    let places = plan.columns().iter().enumerate().skip(own);
    let places = places.map(|(at, item)| (at, item.data_type)).collect();
    Ok((Found::Target(plan), places))
}

fn check_sets(sets: &[&ast::ColumnRef], name: &ObjectName, table: &TableRef) -> Result<()> {
    let known = [ScopeEntry::of_target(name, Some(table))];
    let mut sets = sets.iter();
    sets.try_for_each(|column| check_changed(column, &known))
}

/// `SELECT target.*, items FROM target WHERE ..`.
fn target_rows(
    source: TableSource,
    (with, top, options): (&With, Option<&Top>, &[ast::QueryHint]),
    filter: Option<&DmlFilter>,
    items: Vec<Expr>,
    host: &dyn Host,
) -> Result<Arc<SelectPlan>> {
    let filter = super::modify::plain_filter(filter)?.cloned();
    let all = SelectItem::Wildcard {
        qualifier: None,
        span: Span::default(),
    };
    let items = items
        .into_iter()
        .enumerate()
        .map(|(at, expr)| SelectItem::Expr {
            expr,
            alias: Some(Ident::new(format!("new {at}"))),
        });
    let select = Select {
        distinct: false,
        top: top.cloned(),
        items: std::iter::once(all).chain(items).collect(),
        into: None,
        from: vec![source],
        filter,
        group_by: None,
        having: None,
        windows: Vec::new(),
        span: Span::default(),
    };
    let query = Query {
        with: with.clone(),
        body: QueryBody::Select(Box::new(select)),
        order_by: Vec::new(),
        offset: None,
        fetch: None,
        for_clause: None,
        options: options.to_vec(),
    };
    prepare_select(&query, host)
}

fn source_of(name: &ObjectName, alias: Option<&Ident>, hints: &[TableHint]) -> TableSource {
    TableSource::Table(ast::TableRef {
        name: name.clone(),
        alias: alias.cloned(),
        hints: hints.to_vec(),
        sample: None,
        system_time: None,
    })
}

fn is_target(only: &ast::TableRef, name: &ObjectName) -> bool {
    match &only.alias {
        Some(alias) => name.is_bare() && names_equal(&alias.text, &name.name.text),
        None => same_name(&only.name, name),
    }
}

/// Makes the rows and runs the trigger; gives their number.
pub fn execute(plan: &InsteadPlan, host: &dyn Host) -> Result<u64> {
    let mut rows = Rows {
        host,
        plan,
        inserted: RowGatherer::default(),
        deleted: RowGatherer::default(),
        left: super::rows_max(plan.top.as_ref(), host)?,
    };
    let writable = match plan.target.is_view {
        true => None,
        false => Some(Writable::prepare(host, &plan.target.table)?),
    };
    if let Some(writable) = &writable {
        plan.check_identity(writable, host)?;
    }
    let evaluators = Evaluators::new(host);
    let fill = Fill {
        table: &plan.target.table,
        writable: writable.as_ref(),
        evaluators: &evaluators,
    };
    match &plan.source {
        Source::Values(columns, list) => {
            for row in list {
                let given = row.iter().map(|cell| match cell {
                    None => Ok(None),
                    Some(cell) => cell.assign.convert(cell.plan.eval(&[], host)?).map(Some),
                });
                let given = given.collect::<Result<Vec<_>>>()?;
                rows.insert(fill.row(columns, given)?)?;
            }
        }
        Source::Query(columns, select, assign) => rows.of_query(select, |rows, row| {
            let given = assign
                .iter()
                .zip(row)
                .map(|(a, v)| a.convert(v.clone()).map(Some));
            rows.insert(fill.row(columns, given.collect::<Result<_>>()?)?)
        })?,
        Source::Execute(columns, exec) => host.execute_for_rows(exec, &mut |row| {
            if row.len() != columns.len() {
                return Err(errors::value_count_mismatch());
            }
            let given = columns.iter().zip(row).map(|(ordinal, value)| {
                let column = column_at(fill.table, *ordinal)?;
                let from = Assign::type_of(value, column);
                Assign::new(from, column, host)?
                    .convert(value.clone())
                    .map(Some)
            });
            rows.insert(fill.row(columns, given.collect::<Result<_>>()?)?)
        })?,
        Source::Target(select, sets) => {
            rows.of_query(select, |rows, row| rows.change(&fill, row, sets))?
        }
        Source::Joined(found, sets) => {
            // The first of a row's partners counts.
            let mut seen: HashSet<Vec<u8>> = HashSet::new();
            rows.of_stream(open_target(found, host)?, |rows, row| {
                let Some((key, _)) = found.key_and_stamp(row)? else {
                    return Ok(false);
                };
                if !seen.insert(key.to_vec()) {
                    return Ok(false);
                }
                host.check_memory(0)?;
                rows.change(&fill, row, sets).map(|()| true)
            })?
        }
    }
    let Rows {
        inserted, deleted, ..
    } = rows;
    let images = Images {
        inserted: Arc::new(inserted.finish()?),
        deleted: Arc::new(deleted.finish()?),
    };
    let count = images.inserted.len().max(images.deleted.len()) as u64;
    let updated = &plan.updated;
    host.fire_instead(&plan.target.table, plan.action, images, updated, count)?;
    Ok(count)
}

struct Rows<'a> {
    host: &'a dyn Host,
    plan: &'a InsteadPlan,
    inserted: RowGatherer,
    deleted: RowGatherer,
    left: u64,
}

impl Rows<'_> {
    fn insert(&mut self, row: Vec<Value>) -> Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        self.inserted.add(&row, self.host)
    }

    /// A row of the target as it was, and as an UPDATE wants it.
    fn change(&mut self, fill: &Fill<'_, '_>, row: &[Value], sets: &[Set]) -> Result<()> {
        let width = self.plan.target.table.def.columns.len();
        let old: Vec<Value> = row.iter().take(width).cloned().collect();
        if self.plan.action == TriggerAction::Update {
            let new = fill.updated(&old, row, sets)?;
            self.inserted.add(&new, self.host)?;
        }
        self.deleted.add(&old, self.host)
    }

    fn of_query(
        &mut self,
        select: &Arc<SelectPlan>,
        mut each: impl FnMut(&mut Self, &[Value]) -> Result<()>,
    ) -> Result<()> {
        let stream = open(select, self.host)?;
        self.of_stream(stream, |rows, row| each(rows, row).map(|()| true))
    }

    /// `each` tells whether the row counts.
    fn of_stream(
        &mut self,
        mut stream: RowStream<'_>,
        mut each: impl FnMut(&mut Self, &[Value]) -> Result<bool>,
    ) -> Result<()> {
        let limit = match self.plan.action {
            TriggerAction::Insert => u64::MAX,
            _ => self.left,
        };
        let mut batch = RowBatch::new();
        let mut count = 0;
        while count < limit && stream.next(&mut batch)? {
            check_cancel(self.host)?;
            for row in batch.rows() {
                if count == limit {
                    break;
                }
                count += u64::from(each(self, row)?);
            }
        }
        Ok(())
    }
}

/// Rows of the target from what a statement gives.
struct Fill<'w, 'e> {
    table: &'w TableRef,
    /// Of a table, not of a view.
    writable: Option<&'w Writable>,
    evaluators: &'e Evaluators<'w>,
}

impl Fill<'_, '_> {
    fn default_at(&self, ordinal: usize, column: &ColumnDef) -> Result<Value> {
        match self.writable {
            // The trigger's own INSERT finds the number.
            Some(_) if column.is_identity => {
                Ok(Value::integer(0, column.data_type).unwrap_or(Value::Null))
            }
            Some(writable) => writable.default_value(self.evaluators, ordinal),
            None => Ok(Value::Null),
        }
    }

    fn row(&self, columns: &[usize], given: Vec<Option<Value>>) -> Result<Vec<Value>> {
        let mut row = Vec::with_capacity(self.table.def.columns.len());
        let mut given: Vec<(usize, Option<Value>)> = columns.iter().copied().zip(given).collect();
        for (ordinal, column) in self.table.def.columns.iter().enumerate() {
            let own = given.iter_mut().find(|(o, _)| *o == ordinal);
            row.push(match own.and_then(|(_, value)| value.take()) {
                Some(value) => value,
                None => self.default_at(ordinal, column)?,
            });
        }
        if let Some(writable) = self.writable {
            writable.compute(self.evaluators, &mut row)?;
        }
        Ok(row)
    }

    fn updated(&self, old: &[Value], row: &[Value], sets: &[Set]) -> Result<Vec<Value>> {
        let mut new = old.to_vec();
        for set in sets {
            let value = match &set.item {
                Some((at, assign)) => {
                    assign.convert(row.get(*at).cloned().unwrap_or(Value::Null))?
                }
                None => self.default_at(set.ordinal, column_at(self.table, set.ordinal)?)?,
            };
            if let Some(place) = new.get_mut(set.ordinal) {
                *place = value;
            }
        }
        if let Some(writable) = self.writable {
            writable.compute(self.evaluators, &mut new)?;
        }
        Ok(new)
    }
}
