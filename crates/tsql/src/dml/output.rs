//! OUTPUT: values of the changed rows for the client or for another table.
//!
//! Theory: the expressions of an OUTPUT clause see one row made of `inserted`, `deleted` (as the statement has them)
//! and, for UPDATE and DELETE, the other tables of FROM. Through a view both have the view's columns, as far as these are
//! columns of the table that is changed. Rows for the client leave as they are changed; rows for a table
//! go through an [`Inserter`] of their own, which checks and converts like INSERT.

use super::apply::Change;
use super::assign::Assign;
use super::errors::{self, Verb};
use super::expr::Evaluators;
use super::inserter::{InsertOptions, InsertShape, Inserter};
use super::target::Writable;
use super::{RowCallback, resolve_target_name};
use crate::access::damaged;
use crate::binder::next_value::CLAUSE;
use crate::error::{Result, SqlError};
use crate::executor::{Exposed, ScalarPlan, Scope, ScopeColumn, ScopeTable, prepare_scalar};
use crate::host::{Host, TableKind, TableRef, TriggerAction};
use crate::messages;
use crate::sink::OutputColumn;
use daruma_catalog::names_equal;
use daruma_syntax::ast::{
    self, ColumnRef, Expr, Ident, ObjectName, Output, OutputInto, PseudoColumn, SelectItem, Span,
};
use daruma_value::Value;
use std::sync::Arc;

/// Which images of a row exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    pub inserted: bool,
    pub deleted: bool,
    /// A row may have only one of them.
    pub may_lack_one: bool,
}

impl Sides {
    /// One side as a table. Where some rows lack it (MERGE), every column of it may be NULL.
    fn side(self, target: &OutputTarget<'_>, name: &str) -> ScopeTable {
        let mut side = ScopeTable::of_table(target.table, name);
        if !target.exposed.is_empty() {
            let own = std::mem::take(&mut side.columns);
            let shown = target.shown().filter_map(|(name, ordinal)| {
                let name = name.to_string();
                own.get(ordinal).map(|c| ScopeColumn { name, ..c.clone() })
            });
            side.columns = shown.collect();
        }
        if self.may_lack_one {
            side.columns.iter_mut().for_each(|c| c.nullable = true);
        }
        side
    }
}

/// What a statement with an OUTPUT clause changes.
pub struct OutputTarget<'a> {
    pub table: &'a TableRef,
    /// Columns under which the statement knows those of the table; none: their own names.
    pub exposed: &'a [(String, Exposed)],
}

impl<'a> OutputTarget<'a> {
    fn shown(&self) -> impl Iterator<Item = (&'a str, usize)> + use<'a> {
        self.exposed
            .iter()
            .filter_map(|(name, stands_for)| match stands_for {
                Exposed::Column(ordinal) => Some((name.as_str(), *ordinal)),
                _ => None,
            })
    }

    /// Ordinals of what a row shows, where it is not the row as it is.
    fn ordinals(&self) -> Option<Vec<usize>> {
        let ordinals: Vec<usize> = self.shown().map(|(_, ordinal)| ordinal).collect();
        let is_plain = ordinals.iter().copied().eq(0..self.table.def.columns.len());
        (!is_plain && !self.exposed.is_empty()).then_some(ordinals)
    }

    /// An unknown column may be one of the view that has no place in the table: 404 when it is another table's.
    fn explain(&self, error: SqlError) -> SqlError {
        let is_it = |(name, _): &&(String, Exposed)| error == errors::unknown_column(name);
        match self.exposed.iter().find(is_it) {
            Some((name, Exposed::Foreign)) => messages::error(404, &[name]),
            Some((_, Exposed::Computed)) => computed_column(),
            _ => error,
        }
    }

    /// `*` means columns that have no place in the table as well.
    fn check_wildcards(&self, items: &[SelectItem]) -> Result<()> {
        let means_side = |item: &SelectItem| match item {
            SelectItem::Wildcard { qualifier, .. } => qualifier.as_ref().is_none_or(|q| {
                ["inserted", "deleted"]
                    .iter()
                    .any(|side| names_equal(side, &q.name.text))
            }),
            _ => false,
        };
        if !items.iter().any(means_side) {
            return Ok(());
        }
        self.exposed
            .iter()
            .try_for_each(|(name, stands_for)| match stands_for {
                Exposed::Column(_) => Ok(()),
                Exposed::Foreign => Err(messages::error(404, &[name])),
                Exposed::Computed => Err(computed_column()),
            })
    }
}

fn computed_column() -> SqlError {
    errors::not_supported("A column that a view computes in an OUTPUT clause")
}

/// A prepared OUTPUT clause.
pub struct OutputPlan {
    sides: Sides,
    /// Columns of a side.
    width: usize,
    /// Ordinals in the table of a side's columns; `None`: the row as it is.
    ordinals: Option<Vec<usize>>,
    items: Vec<ScalarPlan>,
    columns: Vec<OutputColumn>,
    into: Option<IntoPlan>,
}

struct IntoPlan {
    items: Vec<ScalarPlan>,
    assign: Vec<Assign>,
    shape: InsertShape,
}

impl OutputPlan {
    /// Binds the items over `inserted`, `deleted` and the statement's sources.
    pub fn prepare(
        host: &dyn Host,
        output: &Output,
        target: &OutputTarget<'_>,
        sides: Sides,
        sources: &Scope,
    ) -> Result<OutputPlan> {
        let mut scope = Scope {
            next_value_error: Some(CLAUSE),
            xml_namespaces: sources.xml_namespaces.clone(),
            ..Scope::default()
        };
        if sides.inserted {
            scope.tables.push(sides.side(target, "inserted"));
        }
        if sides.deleted {
            scope.tables.push(sides.side(target, "deleted"));
        }
        scope.tables.extend(sources.tables.iter().cloned());
        let into_items = output.into.iter().flat_map(|into| &into.items);
        target.check_wildcards(&output.items)?;
        target.check_wildcards(&into_items.cloned().collect::<Vec<_>>())?;
        let items = prepare_items(host, &output.items, &scope);
        let (items, columns) = items.map_err(|e| target.explain(e))?;
        let into = output.into.as_ref();
        let into = into.map(|into| IntoPlan::prepare(host, into, &scope));
        let into = into.transpose().map_err(|e| target.explain(e))?;
        let ordinals = target.ordinals();
        Ok(OutputPlan {
            sides,
            width: ordinals
                .as_ref()
                .map_or(target.table.def.columns.len(), Vec::len),
            ordinals,
            items,
            columns,
            into,
        })
    }

    /// Columns of the rows for the client; none if everything goes into a table.
    pub fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    /// Are there items for the client, or only INTO?
    pub fn returns_rows(&self) -> bool {
        !self.items.is_empty()
    }

    /// Begins to give rows, to the client or into the table.
    pub fn begin<'a>(
        &'a self,
        host: &'a dyn Host,
        client: Option<&'a mut RowCallback<'a>>,
    ) -> Result<OutputRun<'a>> {
        let inserter = match &self.into {
            Some(into) => Some(Inserter::begin(
                host,
                &into.shape,
                InsertOptions::STATEMENT,
                Verb::Insert,
            )?),
            None => None,
        };
        Ok(OutputRun {
            evaluators: Evaluators::new(host),
            plan: self,
            client,
            inserter,
            row: Vec::new(),
        })
    }
}

impl IntoPlan {
    fn prepare(host: &dyn Host, into: &OutputInto, scope: &Scope) -> Result<IntoPlan> {
        let table = match &into.target {
            ast::OutputTarget::Table(name) => resolve_target_name(host, name)?,
            ast::OutputTarget::Variable(name) => errors::changed_variable(host, name)?,
        };
        refuse_watched(host, &table)?;
        let writable = Arc::new(Writable::prepare(host, &table)?);
        let (items, _) = prepare_items(host, &into.items, scope)?;
        let columns = if into.columns.is_empty() {
            InsertShape::implicit_columns(&writable)
        } else {
            super::insert::named_columns(&writable, into.columns.iter().map(|c| c.text.as_str()))?
        };
        if items.len() != columns.len() {
            return Err(errors::value_count_mismatch());
        }
        let mut assign = Vec::with_capacity(items.len());
        for (item, ordinal) in items.iter().zip(&columns) {
            let column = table
                .def
                .columns
                .get(*ordinal)
                .ok_or_else(|| damaged("no such column"))?;
            assign.push(Assign::into_column(item.data_type(), &table, column, host)?);
        }
        Ok(IntoPlan {
            items,
            assign,
            shape: InsertShape::new(writable, columns),
        })
    }
}

/// 331 to 333: rows come into the table unseen, so nothing may watch over it: no trigger, foreign key or check.
fn refuse_watched(host: &dyn Host, table: &TableRef) -> Result<()> {
    let fires = |action| {
        host.has_triggers(table, action)
            || host.has_instead(table.database.id(), table.object_id, action)
    };
    use TriggerAction::{Delete, Insert, Update};
    if [Insert, Update, Delete].into_iter().any(fires) {
        return Err(messages::error(331, &[&table.name]));
    }
    if table.kind != TableKind::User {
        return Ok(());
    }
    let referencing = host.referencing(table)?;
    let of_others = referencing
        .first()
        .and_then(|(child, at)| child.def.foreign_keys.get(*at));
    if let Some(key) = table.def.foreign_keys.first().or(of_others) {
        return Err(messages::error(332, &[&table.name, &key.name]));
    }
    match table.def.checks.iter().find(|c| !c.disabled) {
        Some(check) => Err(messages::error(333, &[&table.name, &check.name])),
        None => Ok(()),
    }
}

fn prepare_items(
    host: &dyn Host,
    items: &[SelectItem],
    scope: &Scope,
) -> Result<(Vec<ScalarPlan>, Vec<OutputColumn>)> {
    let (mut plans, mut columns) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            SelectItem::Wildcard { qualifier, .. } => {
                for column in expand(qualifier.as_ref(), scope)? {
                    let name = column.name.text.clone();
                    let plan = prepare_scalar(&Expr::Column(column), scope, host)?;
                    columns.push(OutputColumn {
                        name,
                        ..plan.column().clone()
                    });
                    plans.push(plan);
                }
            }
            SelectItem::Expr { expr, alias } => {
                let plan = prepare_scalar(expr, scope, host)?;
                let mut column = plan.column().clone();
                if let Some(alias) = alias {
                    column.name.clone_from(&alias.text);
                } else if let Expr::Column(c) = expr {
                    column.name.clone_from(&c.name.text);
                } else if let Expr::Pseudo(PseudoColumn::Action) = expr {
                    column.name = super::merge::ACTION.to_string();
                }
                columns.push(column);
                plans.push(plan);
            }
            SelectItem::Assign { .. } => {
                return Err(errors::not_supported(
                    "A variable assignment in an OUTPUT clause",
                ));
            }
        }
    }
    Ok((plans, columns))
}

/// Columns that `inserted.*` or `t.*` stands for.
fn expand(qualifier: Option<&ObjectName>, scope: &Scope) -> Result<Vec<ColumnRef>> {
    let wanted = |t: &&ScopeTable| {
        !t.name.is_empty() && qualifier.is_none_or(|q| names_equal(&t.name, &q.name.text))
    };
    let mut found = Vec::new();
    for table in scope.tables.iter().filter(wanted) {
        for column in &table.columns {
            found.push(ColumnRef {
                table: Some(ObjectName::bare(Ident::new(table.name.clone()))),
                name: Ident::new(column.name.clone()),
                span: Span::default(),
            });
        }
    }
    match qualifier {
        Some(q) if found.is_empty() => Err(errors::unknown_prefix(&q.dotted())),
        _ => Ok(found),
    }
}

/// One execution of an OUTPUT clause.
pub struct OutputRun<'a> {
    evaluators: Evaluators<'a>,
    plan: &'a OutputPlan,
    client: Option<&'a mut RowCallback<'a>>,
    inserter: Option<Inserter<'a>>,
    row: Vec<Value>,
}

impl<'a> OutputRun<'a> {
    /// Shows rows that were changed or deleted.
    pub fn put_all(&mut self, changes: &[Change]) -> Result<()> {
        changes.iter().try_for_each(|change| {
            let old = change.old.as_ref().map(|old| old.values.as_slice());
            self.put(change.new.as_deref(), old, &change.sources)
        })
    }

    /// Shows one changed row. Sides that the statement does not have are ignored.
    pub fn put(
        &mut self,
        inserted: Option<&[Value]>,
        deleted: Option<&[Value]>,
        sources: &[Value],
    ) -> Result<()> {
        let plan: &'a OutputPlan = self.plan;
        self.row.clear();
        let sides = [
            (plan.sides.inserted, inserted),
            (plan.sides.deleted, deleted),
        ];
        for (_, image) in sides.into_iter().filter(|(is, _)| *is) {
            match image {
                Some(values) => match &plan.ordinals {
                    Some(ordinals) => {
                        let shown = ordinals.iter().map(|o| values.get(*o).cloned());
                        self.row.extend(shown.map(|v| v.unwrap_or(Value::Null)));
                    }
                    None => self.row.extend_from_slice(values),
                },
                // A row that MERGE inserted or deleted.
                None => {
                    let missing = std::iter::repeat_n(Value::Null, plan.width);
                    self.row.extend(missing);
                }
            }
        }
        self.row.extend_from_slice(sources);
        if let (Some(into), Some(inserter)) = (&plan.into, &mut self.inserter) {
            let mut given = Vec::with_capacity(into.items.len());
            for (item, assign) in into.items.iter().zip(&into.assign) {
                given.push(Some(
                    assign.convert(self.evaluators.eval(item, &self.row)?)?,
                ));
            }
            inserter.push(&mut given, None)?;
        }
        if let Some(client) = &mut self.client
            && !plan.items.is_empty()
        {
            let values = plan
                .items
                .iter()
                .map(|i| self.evaluators.eval(i, &self.row))
                .collect::<Result<Vec<_>>>()?;
            client(&values)?;
        }
        Ok(())
    }

    /// Writes the last rows of INTO.
    pub fn finish(self) -> Result<()> {
        match self.inserter {
            Some(inserter) => inserter.finish(None).map(|_| ()),
            None => Ok(()),
        }
    }
}
