//! INSERT, UPDATE, DELETE, MERGE, bulk load and index builds.
//!
//! Theory: `prepare_*` binds a statement once; a [`DmlPlan`] is immutable, shared, and good while
//! `Host::catalog_version` stays. [`execute`] runs it. Rows to change are found by the query rooms; what a row must
//! satisfy lives in `target`, writing it in `apply`, and what follows (foreign keys, cascades, triggers) in `effects`.
//! The statement's savepoint is the session's: an error here leaves changes that the session takes back.
//!
//! | Way in | File |
//! |---|---|
//! | INSERT, INSERT .. EXEC | `insert` over `inserter` |
//! | UPDATE, DELETE | `modify` |
//! | MERGE | `merge` |
//! | changes that an INSTEAD OF trigger stands for | `instead` |
//! | full-table UPDATE of plain columns | `hot` |
//! | SELECT INTO, bulk load, BULK INSERT | `bulk` over `inserter` |
//! | CREATE INDEX, ALTER TABLE .. WITH CHECK | `build` |
//!
//! Read next: `apply`, `modify`.

mod apply;
mod assign;
pub mod build;
pub mod bulk;
mod changes;
mod effects;
mod entries;
pub mod errors;
mod expr;
mod foreign;
mod guard;
mod hot;
mod insert;
mod inserter;
mod instead;
mod keytext;
mod made_row;
mod merge;
mod modify;
pub(crate) mod options;
mod output;
pub(crate) mod row_check;
mod seen;
mod sorter;
mod target;
mod view;
mod watch;
mod write;

#[cfg(test)]
pub(crate) mod tests;

use crate::error::Result;
use crate::executor::{KeptPlan, ScalarPlan};
use crate::host::{Host, Resolved, TableKind, TableRef, TriggerAction, check_cancel};
use crate::instance::query_stats::QueryStats;
use crate::showplan::Picture;
use crate::sink::OutputColumn;
use daruma_base::DatabaseId;
use daruma_syntax::ast::{self, DmlTarget, ObjectName};
use daruma_value::Value;
pub use errors::{changed_variable, explicit_identity};
pub use inserter::{InsertOptions, identity_number, identity_value};
use output::OutputPlan;
use std::any::Any;
use std::sync::Arc;
use view::ViewBase;
pub(crate) use watch::{Named, Watch};

/// Takes one row of OUTPUT for the client.
pub type RowCallback<'a> = dyn FnMut(&[Value]) -> Result<()> + 'a;

/// A changing statement, bound and planned.
pub struct DmlPlan {
    kind: Kind,
    stats: QueryStats,
}

enum Kind {
    Insert(insert::InsertPlan),
    Modify(modify::ModifyPlan),
    Merge(merge::MergePlan),
    Instead(instead::InsteadPlan),
}

/// Plans are kept in a cache that all sessions share.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<DmlPlan>();
    shared::<bulk::BulkTarget>();
};

impl DmlPlan {
    /// Cost of the executions of the plan.
    pub fn stats(&self) -> &QueryStats {
        &self.stats
    }

    /// Database and id of the table that it writes to.
    pub fn written(&self) -> (DatabaseId, i32) {
        let table = self.table();
        (table.database.id(), table.object_id)
    }

    /// The key that the cursor's row of WHERE CURRENT OF has once the plan has run, where that changed it.
    pub fn moved_to(&self) -> Option<Vec<u8>> {
        match &self.kind {
            Kind::Modify(plan) => plan.moved_to(),
            Kind::Insert(_) | Kind::Merge(_) | Kind::Instead(_) => None,
        }
    }

    /// The stored objects through which it writes: views and inline functions, the outermost first, and the table, or the view whose
    /// trigger stands for the change.
    pub fn written_through(&self) -> Vec<(DatabaseId, i32)> {
        let (views, is_stored) = match &self.kind {
            Kind::Insert(plan) => (plan.views(), plan.table().kind == TableKind::User),
            Kind::Modify(plan) => (plan.views(), plan.table().kind == TableKind::User),
            Kind::Merge(plan) => (plan.views(), plan.table().kind == TableKind::User),
            Kind::Instead(_) => (&[][..], true),
        };
        let table = is_stored.then(|| self.written());
        views.iter().rev().copied().chain(table).collect()
    }

    /// Ids of the columns of that table that UPDATE sets, or a MERGE that updates.
    pub fn set_columns(&self) -> Vec<i32> {
        let ordinals = match &self.kind {
            Kind::Modify(plan) => plan.set_ordinals(),
            Kind::Merge(plan) => plan.set_ordinals(),
            Kind::Insert(_) => Vec::new(),
            Kind::Instead(plan) => return plan.set_columns().to_vec(),
        };
        let columns = &self.table().def.columns;
        let set = ordinals.iter().filter_map(|o| columns.get(*o));
        set.map(|column| column.id).collect()
    }

    fn table(&self) -> &TableRef {
        match &self.kind {
            Kind::Insert(plan) => plan.table(),
            Kind::Modify(plan) => plan.table(),
            Kind::Merge(plan) => plan.table(),
            Kind::Instead(plan) => plan.table(),
        }
    }

    fn output(&self) -> Option<&OutputPlan> {
        match &self.kind {
            Kind::Insert(plan) => plan.output.as_ref(),
            Kind::Modify(plan) => plan.output.as_ref(),
            Kind::Merge(plan) => plan.output.as_ref(),
            Kind::Instead(_) => None,
        }
    }

    /// The operators, for those who show them.
    pub fn picture(&self) -> Picture<'_> {
        let (verb, source) = match &self.kind {
            Kind::Insert(plan) => ("Insert", plan.picture()),
            Kind::Modify(plan) => (plan.shown_verb(), Some(plan.picture())),
            Kind::Merge(plan) => ("Merge", Some(plan.picture())),
            Kind::Instead(plan) => (plan.verb(), plan.picture()),
        };
        Picture::of_change(self.table(), verb, source)
    }

    /// Are there foreign keys, which are looked at when all rows are written?
    pub fn may_fail_at_end(&self, host: &dyn Host) -> Result<bool> {
        if matches!(self.kind, Kind::Instead(_)) {
            return Ok(false);
        }
        let table = self.table();
        Ok(!table.def.foreign_keys.is_empty() || !host.referencing(table)?.is_empty())
    }

    /// Does OUTPUT give rows to the client? Then `execute` needs a callback, and `output_columns` describes its rows.
    pub fn returns_rows(&self) -> bool {
        self.output().is_some_and(OutputPlan::returns_rows)
    }

    /// Columns of the rows that OUTPUT sends; none without OUTPUT.
    pub fn output_columns(&self) -> &[OutputColumn] {
        self.output().map(OutputPlan::columns).unwrap_or_default()
    }
}

impl KeptPlan for DmlPlan {
    fn is_outdated(&self) -> bool {
        match &self.kind {
            Kind::Insert(plan) => plan.is_outdated(),
            Kind::Modify(plan) => plan.is_outdated(),
            Kind::Merge(plan) => plan.is_outdated(),
            Kind::Instead(plan) => plan.is_outdated(),
        }
    }

    fn stats(&self) -> Option<&QueryStats> {
        Some(&self.stats)
    }

    fn picture(&self) -> Option<Picture<'_>> {
        Some(DmlPlan::picture(self))
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

fn plan(kind: Kind, host: &dyn Host) -> Arc<DmlPlan> {
    let stats = QueryStats::new(host.now().0);
    Arc::new(DmlPlan { kind, stats })
}

/// A plan for an INSERT, which may be kept and run by many sessions.
pub fn prepare_insert(ast: &ast::Insert, host: &dyn Host) -> Result<Arc<DmlPlan>> {
    if let Some(instead) = instead::insert(ast, host)? {
        return Ok(plan(Kind::Instead(instead), host));
    }
    Ok(plan(Kind::Insert(insert::prepare(ast, host)?), host))
}

/// A plan for an UPDATE.
pub fn prepare_update(ast: &ast::Update, host: &dyn Host) -> Result<Arc<DmlPlan>> {
    if let Some(instead) = instead::update(ast, host)? {
        return Ok(plan(Kind::Instead(instead), host));
    }
    Ok(plan(Kind::Modify(modify::prepare_update(ast, host)?), host))
}

/// A plan for a DELETE.
pub fn prepare_delete(ast: &ast::Delete, host: &dyn Host) -> Result<Arc<DmlPlan>> {
    if let Some(instead) = instead::delete(ast, host)? {
        return Ok(plan(Kind::Instead(instead), host));
    }
    Ok(plan(Kind::Modify(modify::prepare_delete(ast, host)?), host))
}

/// A plan for a MERGE.
pub fn prepare_merge(ast: &ast::Merge, host: &dyn Host) -> Result<Arc<DmlPlan>> {
    Ok(plan(Kind::Merge(merge::prepare(ast, host)?), host))
}

/// A trigger that stands for the change would be passed by: its table or view was come to through a view or common table
/// expression, or by MERGE.
fn refuse_instead(
    host: &dyn Host,
    table: &TableRef,
    views: &[(DatabaseId, i32)],
    actions: &[TriggerAction],
) -> Result<()> {
    let own = (table.database.id(), table.object_id);
    let own = (table.kind == TableKind::User).then_some(own);
    let mut passed = own.iter().chain(views);
    let stands_for = |(database, object): &(DatabaseId, i32)| {
        actions
            .iter()
            .any(|a| host.has_instead(*database, *object, *a))
    };
    match passed.any(stands_for) {
        true => Err(errors::not_supported(
            "a change that passes an INSTEAD OF trigger by (MERGE, or through a view)",
        )),
        false => Ok(()),
    }
}

/// Runs a statement and gives the number of rows it changed. On an error the caller rolls back to its savepoint.
pub fn execute<'a>(
    plan: &'a DmlPlan,
    host: &'a dyn Host,
    output: Option<&'a mut RowCallback<'a>>,
) -> Result<u64> {
    match &plan.kind {
        Kind::Insert(plan) => insert::execute(plan, host, output),
        Kind::Modify(plan) => modify::execute(plan, host, output),
        Kind::Merge(plan) => merge::execute(plan, host, output),
        Kind::Instead(plan) => instead::execute(plan, host),
    }
}

/// Target that an INSERT names.
struct InsertTarget {
    table: TableRef,
    /// Set when the name is a view's.
    view: Option<ViewBase>,
    /// The name as written.
    written: String,
}

fn resolve_target(
    host: &dyn Host,
    target: &DmlTarget,
    first_column: Option<&str>,
) -> Result<InsertTarget> {
    let written = written_name(target);
    let table = match target {
        DmlTarget::Table { name, .. } => match host.resolve(name)? {
            Resolved::View { database, object } => {
                let base = ViewBase::find(host, (database, &object), name, first_column)?;
                return Ok(InsertTarget {
                    table: base.table().clone(),
                    view: Some(base),
                    written,
                });
            }
            other => plain_table(other, name)?,
        },
        DmlTarget::Variable { name, .. } => errors::changed_variable(host, name)?,
        DmlTarget::Rowset(_) => {
            return Err(errors::not_supported("Changing rows of a rowset function"));
        }
    };
    Ok(InsertTarget {
        table,
        view: None,
        written,
    })
}

fn written_name(target: &DmlTarget) -> String {
    match target {
        DmlTarget::Table { name, .. } => name.dotted(),
        DmlTarget::Variable { name, .. } => name.clone(),
        DmlTarget::Rowset(_) => String::new(),
    }
}

fn resolve_target_name(host: &dyn Host, name: &ObjectName) -> Result<TableRef> {
    plain_table(host.resolve(name)?, name)
}

fn plain_table(resolved: Resolved, name: &ObjectName) -> Result<TableRef> {
    match resolved {
        Resolved::Table(table) => Ok(table),
        Resolved::View { .. } => Err(errors::not_updatable(
            &name.dotted(),
            errors::ViewProblem::Derived,
        )),
        Resolved::Virtual(_) => Err(errors::system_catalog()),
        Resolved::Function { .. } => Err(errors::invalid_object(&name.dotted())),
    }
}

/// 334: rows for the client and triggers exclude each other.
fn refuse_output_with_triggers(
    host: &dyn Host,
    table: &TableRef,
    action: TriggerAction,
    output: Option<&OutputPlan>,
    written: &str,
) -> Result<()> {
    if output.is_some_and(OutputPlan::returns_rows) && host.has_triggers(table, action) {
        return Err(errors::output_with_triggers(written));
    }
    Ok(())
}

/// Number of rows TOP allows.
fn top_rows(value: &Value) -> Result<u64> {
    let rows = value.as_i64().ok_or_else(errors::bad_row_count)?;
    u64::try_from(rows).map_err(|_| errors::negative_row_count())
}

/// Rows that TOP and SET ROWCOUNT allow.
fn rows_max(top: Option<&ScalarPlan>, host: &dyn Host) -> Result<u64> {
    let top = match top {
        Some(top) => top_rows(&top.eval(&[], host)?)?,
        None => u64::MAX,
    };
    Ok(top.min(row_limit(host)))
}

/// Rows that SET ROWCOUNT lets a statement change.
fn row_limit(host: &dyn Host) -> u64 {
    match host.settings().rowcount {
        0 => u64::MAX,
        rows => rows,
    }
}
