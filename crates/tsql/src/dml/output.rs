//! OUTPUT: values of the changed rows for the client or for another table.
//!
//! Theory: the expressions of an OUTPUT clause see one row made of `inserted`, `deleted` (as the statement has them)
//! and, for UPDATE and DELETE, the other tables of FROM. Rows for the client leave as they are changed; rows for a table
//! go through an [`Inserter`] of their own, which checks and converts like INSERT.

use super::apply::Change;
use super::assign::Assign;
use super::errors::{self, Verb};
use super::expr::Evaluators;
use super::inserter::{InsertOptions, InsertShape, Inserter};
use super::target::Writable;
use super::{RowCallback, resolve_target_name};
use crate::access::damaged;
use crate::error::Result;
use crate::executor::{ScalarPlan, Scope, ScopeTable, prepare_scalar};
use crate::host::{Host, TableKind, TableRef, TriggerAction};
use crate::messages;
use crate::sink::OutputColumn;
use daruma_syntax::ast::{
    ColumnRef, Expr, Ident, ObjectName, Output, OutputInto, OutputTarget, PseudoColumn, SelectItem,
    Span,
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
    fn side(self, table: &TableRef, name: &str) -> ScopeTable {
        let mut side = ScopeTable::of_table(table, name);
        if self.may_lack_one {
            side.columns.iter_mut().for_each(|c| c.nullable = true);
        }
        side
    }
}

/// A prepared OUTPUT clause.
pub struct OutputPlan {
    sides: Sides,
    /// Columns of the table.
    width: usize,
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
        table: &TableRef,
        sides: Sides,
        sources: &Scope,
    ) -> Result<OutputPlan> {
        let mut scope = Scope::default();
        if sides.inserted {
            scope.tables.push(sides.side(table, "inserted"));
        }
        if sides.deleted {
            scope.tables.push(sides.side(table, "deleted"));
        }
        scope.tables.extend(sources.tables.iter().cloned());
        let (items, columns) = prepare_items(host, &output.items, &scope)?;
        let into = output
            .into
            .as_ref()
            .map(|into| IntoPlan::prepare(host, into, &scope))
            .transpose()?;
        Ok(OutputPlan {
            sides,
            width: table.def.columns.len(),
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
            OutputTarget::Table(name) => resolve_target_name(host, name)?,
            OutputTarget::Variable(name) => errors::changed_variable(host, name)?,
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
        !t.name.is_empty()
            && qualifier.is_none_or(|q| daruma_catalog::names_equal(&t.name, &q.name.text))
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
                Some(values) => self.row.extend_from_slice(values),
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
