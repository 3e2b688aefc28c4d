//! Plans as other rooms hold them, and the row stream.

use super::RowBatch;
use crate::error::{Result, SqlError};
use crate::host::{Host, TableRef};
use crate::sink::OutputColumn;
use daruma_storage::Stamp;
use daruma_base::TxnId;
use daruma_syntax::ast;
use daruma_value::{CollationId, DataType, Value};
use std::sync::Arc;

/// What a row given to a [`ScalarPlan`] holds: tables one after the other, each with its columns.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub tables: Vec<ScopeTable>,
}

#[derive(Clone, Debug)]
pub struct ScopeTable {
    /// Alias or name that qualifies the columns; empty when they can only be named alone.
    pub name: String,
    pub schema: Option<String>,
    pub columns: Vec<ScopeColumn>,
}

#[derive(Clone, Debug)]
pub struct ScopeColumn {
    pub name: String,
    pub data_type: DataType,
    pub collation: CollationId,
    pub nullable: bool,
}

impl Scope {
    /// One table under `name`, all its columns in order.
    pub fn of_table(table: &TableRef, name: &str) -> Scope {
        Scope { tables: vec![ScopeTable::of_table(table, name)] }
    }

    /// Number of values in a row.
    pub fn width(&self) -> usize {
        self.tables.iter().map(|t| t.columns.len()).sum()
    }
}

impl ScopeTable {
    pub fn of_table(table: &TableRef, name: &str) -> ScopeTable {
        let column = |c: &daruma_catalog::ColumnDef| ScopeColumn {
            name: c.name.clone(),
            data_type: c.data_type,
            collation: c.collation,
            nullable: c.nullable,
        };
        ScopeTable {
            name: name.to_string(),
            schema: None,
            columns: table.def.columns.iter().map(column).collect(),
        }
    }
}

/// The rows that an UPDATE or DELETE works on and what it needs to know of each.
pub struct TargetSpec<'a> {
    pub with: &'a ast::With,
    pub target: &'a ast::DmlTarget,
    /// FROM of the statement; empty when there is none. A target that names an alias of it is that table.
    pub from: &'a [ast::TableSource],
    pub filter: Option<&'a ast::Condition>,
    pub top: Option<&'a ast::Top>,
    pub options: &'a [ast::QueryHint],
    /// Further values of each row: right sides of SET. Subqueries are welcome.
    pub items: Vec<&'a ast::Expr>,
    /// Also give the columns of the other tables of FROM, for OUTPUT.
    pub source_columns: bool,
}

/// A query, bound and planned.
pub struct SelectPlan {
    columns: Vec<OutputColumn>,
}

impl SelectPlan {
    pub fn columns(&self) -> &[OutputColumn] {
        &self.columns
    }

    /// `SELECT @v = ..`: run it with [`run_assignment`].
    pub fn is_assignment(&self) -> bool {
        false
    }

    /// Operators as SHOWPLAN_TEXT shows them, one line each.
    pub fn show_text(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Rows of one execution.
pub struct RowStream<'h> {
    host: &'h dyn Host,
}

impl RowStream<'_> {
    /// Replaces the content of `batch` with the next rows. False at the end (the batch is empty then).
    pub fn next(&mut self, batch: &mut RowBatch) -> Result<bool> {
        batch.reset(0);
        let _ = self.host;
        Ok(false)
    }
}

/// An expression over the rows of a [`Scope`].
pub struct ScalarPlan {
    column: OutputColumn,
}

impl ScalarPlan {
    /// Type, collation and nullability of the result.
    pub fn column(&self) -> &OutputColumn {
        &self.column
    }

    pub fn data_type(&self) -> DataType {
        self.column.data_type
    }

    pub fn eval(&self, _row: &[Value], _host: &dyn Host) -> Result<Value> {
        Err(unfinished())
    }
}

/// A condition over the rows of a [`Scope`].
pub struct ConditionPlan {}

impl ConditionPlan {
    /// `None` is unknown: WHERE and IF reject it, CHECK accepts it.
    pub fn eval(&self, _row: &[Value], _host: &dyn Host) -> Result<Option<bool>> {
        Err(unfinished())
    }
}

/// Finds the rows of an UPDATE or DELETE. A row of the stream holds the target's columns in definition order (virtual
/// computed columns included), then key and stamp, then the items, then the columns of `source_scope`.
pub struct TargetPlan {
    table: TableRef,
    items: Vec<OutputColumn>,
    sources: Scope,
}

impl TargetPlan {
    pub fn table(&self) -> &TableRef {
        &self.table
    }

    pub fn items(&self) -> &[OutputColumn] {
        &self.items
    }

    /// The other tables of FROM whose columns follow the items (with `TargetSpec::source_columns`).
    pub fn source_scope(&self) -> &Scope {
        &self.sources
    }

    /// Position of the row's key in the table's own tree: `Value::Bytes`.
    pub fn key_position(&self) -> usize {
        self.table.def.columns.len()
    }

    pub fn item_position(&self, item: usize) -> usize {
        self.key_position() + 2 + item
    }

    pub fn source_position(&self) -> usize {
        self.item_position(self.items.len())
    }

    /// Key and stamp of a row of the stream.
    pub fn key_and_stamp<'r>(&self, row: &'r [Value]) -> Result<(&'r [u8], Stamp)> {
        match row.get(self.key_position()..) {
            Some([Value::Bytes(key), Value::Guid(stamp), ..]) => Ok((key, stamp_from_value(stamp))),
            _ => Err(crate::access::damaged("row without key")),
        }
    }
}

/// A stamp travels through operators as 16 bytes.
pub(crate) fn stamp_value(stamp: Stamp) -> Value {
    let mut bytes = [0; 16];
    let (txn, version) = bytes.split_at_mut(8);
    txn.copy_from_slice(&stamp.txn.0.to_le_bytes());
    version.copy_from_slice(&stamp.version.to_le_bytes());
    Value::Guid(bytes)
}

fn stamp_from_value(bytes: &[u8; 16]) -> Stamp {
    let number = |half: &[u8]| half.iter().rev().fold(0u64, |n, b| (n << 8) | u64::from(*b));
    let (txn, version) = bytes.split_at(8);
    Stamp { txn: TxnId(number(txn)), version: number(version) }
}

/// Binds and plans a query. `INTO` is left to the caller.
pub fn prepare_select(_query: &ast::Query, _host: &dyn Host) -> Result<Arc<SelectPlan>> {
    Err(unfinished())
}

/// Starts an execution.
pub fn open<'h>(_plan: &Arc<SelectPlan>, host: &'h dyn Host) -> Result<RowStream<'h>> {
    Ok(RowStream { host })
}

/// Runs `SELECT @v = ..`: sets the variables row by row; gives the number of rows.
pub fn run_assignment(_plan: &Arc<SelectPlan>, _host: &dyn Host) -> Result<u64> {
    Err(unfinished())
}

pub fn prepare_scalar(_expr: &ast::Expr, _scope: &Scope, _host: &dyn Host) -> Result<ScalarPlan> {
    Err(unfinished())
}

pub fn prepare_condition(_condition: &ast::Condition, _scope: &Scope, _host: &dyn Host) -> Result<ConditionPlan> {
    Err(unfinished())
}

pub fn prepare_target(_spec: &TargetSpec<'_>, _host: &dyn Host) -> Result<Arc<TargetPlan>> {
    Err(unfinished())
}

/// Starts finding rows. Rows come with the table's columns, key, stamp, items and sources; see [`TargetPlan`].
pub fn open_target<'h>(_plan: &Arc<TargetPlan>, host: &'h dyn Host) -> Result<RowStream<'h>> {
    Ok(RowStream { host })
}

/// Value of a literal written by DDL: a number, a quoted text or NULL.
pub fn literal_value(_text: &str, _data_type: DataType) -> Result<Value> {
    Ok(Value::Null)
}

fn unfinished() -> SqlError {
    SqlError::new(40000, 16, 1, "This query form is not supported.")
}
