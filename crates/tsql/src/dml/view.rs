//! Views that INSERT can write through: a plain selection of columns of one table, perhaps over further such views.
//!
//! Theory: what makes a view writable shows in its text: no grouping, no DISTINCT, no TOP, one source. Then each of its
//! columns is a column of the table or an expression, and only the former can be given values.

use super::errors::{self, ViewProblem};
use crate::access::damaged;
use crate::error::Result;
use crate::host::{Host, Resolved, TableRef};
use daruma_base::DatabaseId;
use daruma_catalog::{Object, ObjectKind, names_equal};
use daruma_syntax::ast::{Expr, Query, QueryBody, Select, SelectItem, StatementKind, TableSource};
use daruma_syntax::{ParseOptions, parse_batch};

/// Views may stand on views this deep.
const DEPTH_MAX: usize = 32;

/// The table behind a view, and where each column of the view lies in it.
pub struct ViewBase {
    pub table: TableRef,
    pub columns: Vec<ViewColumn>,
}

pub struct ViewColumn {
    pub name: String,
    /// Column of the table; `None` for an expression.
    pub ordinal: Option<usize>,
}

impl ViewBase {
    pub fn find(host: &dyn Host, database: DatabaseId, object: &Object) -> Result<ViewBase> {
        find(host, database, object, 0)
    }

    /// Column of the table that a column of the view stands for.
    pub fn ordinal(&self, name: &str) -> Result<usize> {
        let column = self.columns.iter().find(|c| names_equal(&c.name, name));
        let column = column.ok_or_else(|| errors::unknown_column(name))?;
        column
            .ordinal
            .ok_or_else(|| errors::not_updatable(name, ViewProblem::Derived))
    }
}

fn find(host: &dyn Host, database: DatabaseId, object: &Object, depth: usize) -> Result<ViewBase> {
    let refuse = |why| errors::not_updatable(&object.name, why);
    if depth > DEPTH_MAX {
        return Err(errors::too_deep(DEPTH_MAX));
    }
    let ObjectKind::View(module) = &object.kind else {
        return Err(refuse(ViewProblem::Derived));
    };
    let options = ParseOptions {
        quoted_identifier: module.quoted_identifier,
    };
    let batch = parse_batch(&module.definition, &options)
        .map_err(|_| damaged("view text cannot be read"))?;
    let Some(StatementKind::CreateView(view)) = batch.into_iter().map(|s| s.kind).next() else {
        return Err(damaged("view text is no view"));
    };
    let select = plain_select(&view.query).ok_or_else(|| refuse(ViewProblem::Aggregates))?;
    let [TableSource::Table(source)] = select.from.as_slice() else {
        return Err(refuse(ViewProblem::ManyTables));
    };
    host.enter_view(database, object);
    let resolved = host.resolve_in(database, &source.name);
    host.leave_view();
    let base = match resolved? {
        Resolved::Table(table) => {
            let columns = table.def.columns.iter().enumerate();
            let columns = columns
                .map(|(i, c)| ViewColumn {
                    name: c.name.clone(),
                    ordinal: Some(i),
                })
                .collect();
            ViewBase { table, columns }
        }
        Resolved::View { database, object } => find(host, database, &object, depth + 1)?,
        _ => return Err(refuse(ViewProblem::Derived)),
    };
    let mut columns = Vec::new();
    for item in &select.items {
        columns.extend(selected(item, &base)?);
    }
    for (column, name) in columns.iter_mut().zip(&view.columns) {
        column.name.clone_from(&name.text);
    }
    Ok(ViewBase {
        table: base.table,
        columns,
    })
}

/// The SELECT of a view that keeps rows apart.
fn plain_select(query: &Query) -> Option<&Select> {
    let QueryBody::Select(select) = &query.body else {
        return None;
    };
    let plain = !select.distinct
        && select.top.is_none()
        && select.group_by.is_none()
        && select.having.is_none()
        && query.offset.is_none()
        && query.with.is_empty();
    plain.then_some(select)
}

fn selected(item: &SelectItem, base: &ViewBase) -> Result<Vec<ViewColumn>> {
    match item {
        SelectItem::Wildcard { .. } => {
            let copy = |c: &ViewColumn| ViewColumn {
                name: c.name.clone(),
                ordinal: c.ordinal,
            };
            Ok(base.columns.iter().map(copy).collect())
        }
        SelectItem::Expr {
            expr: Expr::Column(column),
            alias,
        } => {
            let found = base
                .columns
                .iter()
                .find(|c| names_equal(&c.name, &column.name.text));
            let found = found.ok_or_else(|| errors::unknown_column(&column.name.text))?;
            let name = alias.as_ref().unwrap_or(&column.name).text.clone();
            Ok(vec![ViewColumn {
                name,
                ordinal: found.ordinal,
            }])
        }
        SelectItem::Expr { alias, .. } => {
            let name = alias.as_ref().map(|a| a.text.clone()).unwrap_or_default();
            Ok(vec![ViewColumn {
                name,
                ordinal: None,
            }])
        }
        SelectItem::Assign { .. } => Err(damaged("view text is no view")),
    }
}
