//! Base tables behind views, common table expressions and derived tables that rows are changed through.

use super::api::{ConditionPlan, view_check, with_room};
use crate::binder::Binder;
use crate::binder::tree::ColId;
use crate::error::Result;
use crate::host::{Host, TableRef};
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_catalog::{Object, ParameterDef};
use daruma_syntax::ast;
use std::sync::Arc;

/// Meaning of a column of a view or common table expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposed {
    /// Column of the target, by its ordinal.
    Column(usize),
    /// Column of another table.
    Foreign,
    Computed,
}

/// Meaning of the columns of a view, seen from one of its base tables.
pub(super) fn stand_for(
    exposed: &[(String, ColId)],
    base: &[ColId],
    binder: &Binder<'_>,
) -> Vec<(String, Exposed)> {
    let stands_for = |id: ColId| match base.iter().position(|c| *c == id) {
        Some(ordinal) => Exposed::Column(ordinal),
        None if binder.columns[id as usize].computed => Exposed::Computed,
        None => Exposed::Foreign,
    };
    let named = |(name, id): &(String, ColId)| (name.clone(), stands_for(*id));
    exposed.iter().map(named).collect()
}

/// Binds the query of a view or function of a database, to see what it names; without `*` when it is `schema_bound` (1054).
pub fn bind_query(
    (query, parameters): (&ast::Query, &[ParameterDef]),
    database: DatabaseId,
    schema_bound: bool,
    host: &dyn Host,
) -> Result<()> {
    with_room(|| Binder::new(host).bind_query(query, parameters, database, schema_bound))
}

/// The columns that an inline function gives.
pub fn function_columns(
    query: &ast::Query,
    parameters: &[ParameterDef],
    host: &dyn Host,
) -> Result<Vec<OutputColumn>> {
    with_room(|| {
        let mut binder = Binder::new(host);
        binder.declare_parameters(parameters)?;
        binder.function_columns(query)
    })
}

/// Can rows be changed through a view of this query that checks them?
pub fn is_updatable(query: &ast::Query, host: &dyn Host) -> Result<bool> {
    with_room(|| Binder::new(host).is_updatable(query))
}

/// The base table of a view that an INSERT is about.
pub struct ViewTarget {
    pub table: TableRef,
    /// Columns of the view.
    pub columns: Vec<(String, Exposed)>,
    /// The view has other base tables too.
    pub joined: bool,
    /// The view, and those it stands on, down to the table.
    pub views: Vec<(DatabaseId, i32)>,
    /// Condition for a row to be seen through the view, if that is asked.
    pub check: Option<ConditionPlan>,
}

/// Binds a view that rows are to be inserted through; `set` is the first column that gets a value.
pub fn view_target(
    (database, object): (DatabaseId, &Arc<Object>),
    name: &ast::ObjectName,
    set: Option<&str>,
    host: &dyn Host,
) -> Result<ViewTarget> {
    with_room(|| {
        let mut binder = Binder::new(host);
        let bound = binder.inserted_view(database, object, name, set)?;
        let columns = stand_for(&bound.exposed, &bound.columns, &binder);
        let check = bound.check.map(|c| view_check(c, &binder.columns, host));
        Ok(ViewTarget {
            columns,
            table: bound.table,
            joined: bound.joined,
            views: bound.views,
            check: check.transpose()?,
        })
    })
}
