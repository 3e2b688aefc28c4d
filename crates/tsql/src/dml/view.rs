//! Views that rows are inserted through: into one base table, that of the first column in the list of columns.
//!
//! Theory: the view is bound as for an UPDATE; each of its columns is then a column of that table, of another one or an
//! expression, and only the first can be given a value. Without a list all columns are meant, which of a view over
//! several tables are never those of one.
//!
//! WITH CHECK OPTION: the bound view with one given row in the place of its table is a condition on that row. It is tested
//! on each new or changed row before it is written.

use super::errors::{self, ViewProblem};
use super::expr::Evaluators;
use crate::error::Result;
use crate::executor::{ConditionPlan, Exposed, ViewTarget, view_target};
use crate::host::{Host, TableRef};
use crate::messages;
use daruma_base::DatabaseId;
use daruma_catalog::{Object, names_equal};
use daruma_syntax::ast::ObjectName;
use daruma_value::Value;
use std::sync::Arc;

/// The table behind a view, and where each column of the view lies in it.
pub struct ViewBase {
    name: String,
    target: ViewTarget,
}

impl ViewBase {
    /// `set` is the first column of the list.
    pub fn find(
        host: &dyn Host,
        view: (DatabaseId, &Arc<Object>),
        name: &ObjectName,
        set: Option<&str>,
    ) -> Result<ViewBase> {
        Ok(ViewBase {
            name: name.dotted(),
            target: view_target(view, name, set, host)?,
        })
    }

    /// The base table behind the view.
    pub fn table(&self) -> &TableRef {
        &self.target.table
    }

    /// Its columns, and what they are in the table.
    pub fn exposed(&self) -> &[(String, Exposed)] {
        &self.target.columns
    }

    /// The view, and those it stands on.
    pub fn views(&self) -> &[(DatabaseId, i32)] {
        &self.target.views
    }

    /// Condition that a new row must satisfy.
    pub fn into_check(self) -> Option<ConditionPlan> {
        self.target.check
    }

    /// Names of the columns that a list would hold that is not written.
    pub fn column_names(&self) -> Result<Vec<&str>> {
        match self.target.joined {
            true => Err(errors::not_updatable(&self.name, ViewProblem::ManyTables)),
            false => Ok(self
                .target
                .columns
                .iter()
                .map(|(n, _)| n.as_str())
                .collect()),
        }
    }

    /// Column of the table that a column of the view stands for.
    pub fn ordinal(&self, name: &str) -> Result<usize> {
        let mut columns = self.target.columns.iter();
        let refuse = |why| Err(errors::not_updatable(&self.name, why));
        match columns.find(|(shown, _)| names_equal(shown, name)) {
            Some((_, Exposed::Column(ordinal))) => Ok(*ordinal),
            Some((_, Exposed::Foreign)) => refuse(ViewProblem::ManyTables),
            Some((_, Exposed::Computed)) => refuse(ViewProblem::Derived),
            None => Err(errors::unknown_column(name)),
        }
    }
}

/// Error 550 for a row that the views WITH CHECK OPTION do not show. They show what satisfies their conditions, not what
/// may.
pub fn check_view<'a>(
    evaluators: &Evaluators<'a>,
    check: Option<&'a ConditionPlan>,
    row: &[Value],
) -> Result<()> {
    match check {
        Some(check) if evaluators.test(check, row)? != Some(true) => Err(messages::error(550, &[])),
        _ => Ok(()),
    }
}
