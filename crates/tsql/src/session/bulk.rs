//! Bulk load over the protocol: `INSERT BULK` names target and columns, the rows come with the next message.
//!
//! A load forgets its target, whether it went well or not; so does a session reset.

use super::execution::Execution;
use super::fail::{Step, Stop};
use super::{RequestEnd, Session};
use crate::dml::bulk::{BulkColumn, BulkTarget, insert_bulk_options};
use crate::error::{Result, SqlError};
use crate::host::{Host, Resolved, TableKind, TableRef};
use crate::messages;
use crate::sink::{Done, DoneKind, Sink};
use daruma_syntax::ast;
use daruma_value::Value;

const BULK_INSERT: u16 = 0xF0;

/// Rows of a bulk load as they arrive.
pub trait BulkRows {
    /// Names and types, once, before the first row. Empty: the client gave the load up.
    fn columns(&mut self) -> Result<Vec<BulkColumn>>;
    /// The next row; `None` at the end.
    fn next(&mut self) -> Result<Option<Vec<Value>>>;
}

impl Session {
    /// Loads the rows that follow an `INSERT BULK` batch.
    pub fn execute_bulk(&mut self, rows: &mut dyn BulkRows, sink: &mut dyn Sink) -> RequestEnd {
        self.request("INSERT BULK", sink, |execution| {
            execution.run_bulk_load(rows)
        })
    }
}

impl Execution<'_> {
    /// `INSERT BULK`: the target must exist; nothing happens yet.
    pub(crate) fn expect_bulk(&self, load: &ast::InsertBulk) -> Step<()> {
        self.simple(|| {
            self.bulk_table(load)?;
            self.state.bulk_load.replace(Some(load.clone()));
            Ok(())
        })
    }

    fn run_bulk_load(&self, rows: &mut dyn BulkRows) -> Step<()> {
        self.push_request_frame();
        let Some(load) = self.state.bulk_load.take() else {
            let _ = self.send(&SqlError::new(4002, 16, 1, "The incoming tabular data stream (TDS) protocol stream is incorrect. Rows arrived without an INSERT BULK statement."));
            return Err(Stop::Connection);
        };
        let columns = match rows.columns() {
            Ok(columns) if columns.is_empty() => return self.succeed(BULK_INSERT),
            Ok(columns) => columns,
            Err(error) => return Err(self.failed(BULK_INSERT, error)),
        };
        self.begin_implicit()?;
        let outer = self.changes_rows.replace(true);
        let result = self.atomic(|| self.load_rows(&load, &columns, rows));
        self.changes_rows.set(outer);
        match result {
            Ok(count) => {
                self.state.last_error.set(0);
                self.state.row_count.set(count);
                self.send_pending()?;
                self.count_rows(count)
            }
            Err(error) => Err(self.failed(BULK_INSERT, error)),
        }
    }

    /// DONE of a load: its count comes whatever NOCOUNT says, since clients compare it with what they sent.
    fn count_rows(&self, count: u64) -> Step<()> {
        let done = Done {
            kind: DoneKind::Statement,
            command: BULK_INSERT,
            row_count: Some(count),
            error: false,
            in_transaction: self.state.trancount.get() > 0,
        };
        self.to_client(|sink| sink.done(done))
    }

    fn load_rows(
        &self,
        load: &ast::InsertBulk,
        columns: &[BulkColumn],
        rows: &mut dyn BulkRows,
    ) -> Result<u64> {
        let table = self.bulk_table(load)?;
        let columns = named_columns(load, columns)?;
        let target = BulkTarget::new(self, &table, &columns, insert_bulk_options(load))?;
        let mut insert = target.begin(self)?;
        while let Some(mut row) = rows.next()? {
            insert.push(&mut row)?;
        }
        insert.finish()
    }

    fn bulk_table(&self, load: &ast::InsertBulk) -> Result<TableRef> {
        let Resolved::Table(table) = self.resolve(&load.table)? else {
            return Err(messages::error(208, &[&load.table.dotted()]));
        };
        // The rows come with a message of their own, and the name may mean another table by then.
        if table.kind == TableKind::User && !self.is_unlimited() {
            let database = table.database.id();
            let catalog = self.state.catalog(database)?;
            let object = catalog.object(table.object_id);
            let object = object.ok_or_else(|| messages::error(208, &[&load.table.dotted()]))?;
            self.check_object(database, object, "INSERT")?;
        }
        Ok(table)
    }
}

/// Types as they were sent, under the names of the statement: some clients leave the names out of the rows' header.
fn named_columns(load: &ast::InsertBulk, sent: &[BulkColumn]) -> Result<Vec<BulkColumn>> {
    if load.columns.is_empty() {
        return Ok(sent.to_vec());
    }
    if load.columns.len() != sent.len() {
        return Err(SqlError::new(
            4840,
            16,
            1,
            "The bulk data source does not have as many columns as the INSERT BULK statement.",
        ));
    }
    let named = load.columns.iter().zip(sent);
    Ok(named
        .map(|(column, sent)| BulkColumn {
            name: column.name.text.clone(),
            data_type: sent.data_type,
        })
        .collect())
}
