//! Views that rows are inserted through: into one base table, that of the first column in the list of columns.
//!
//! Theory: the view is bound as for an UPDATE; each of its columns is then a column of that table, of another one or an
//! expression, and only the first can be given a value. Without a list all columns are meant, which of a view over
//! several tables are never those of one.

use super::errors::{self, ViewProblem};
use crate::error::Result;
use crate::executor::{Exposed, ViewTarget, view_target};
use crate::host::{Host, TableRef};
use daruma_base::DatabaseId;
use daruma_catalog::{Object, names_equal};
use daruma_syntax::ast::ObjectName;
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

    pub fn table(&self) -> &TableRef {
        &self.target.table
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
