//! Where results go: the session calls these in the order in which the client must see them.

use crate::error::{Result, SqlError};
use daruma_value::{CollationId, DataType, Value};

/// A result column as the client sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputColumn {
    pub name: String,
    pub data_type: DataType,
    pub collation: CollationId,
    pub nullable: bool,
    pub identity: bool,
    /// Expression rather than a plain column.
    pub computed: bool,
}

/// Which kind of DONE ends a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DoneKind {
    /// A statement of the batch itself.
    #[default]
    Statement,
    /// A statement inside a procedure, trigger or dynamic SQL.
    InProcedure,
    /// The procedure as a whole.
    Procedure,
}

/// End of one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    pub kind: DoneKind,
    /// TDS `curcmd`: 0xC1 SELECT, 0xC3 INSERT, 0xC4 DELETE, 0xC5 UPDATE, ...
    pub command: u16,
    pub row_count: Option<u64>,
    pub error: bool,
    pub in_transaction: bool,
}

/// Session state the client must follow.
#[derive(Clone, Debug, PartialEq)]
pub enum EnvChange {
    Database { new: String, old: String },
    Language { new: String, old: String },
    BeginTransaction(u64),
    CommitTransaction(u64),
    RollbackTransaction(u64),
    ResetDone,
}

/// Receiver of results. An error means that the client is gone; the session then stops.
pub trait Sink {
    /// A result begins. It ends with [`Sink::done`].
    fn columns(&mut self, columns: &[OutputColumn]) -> Result<()>;
    /// Of so many columns just begun the last `hidden` are not for show: clients look for them at the end.
    fn hidden_columns(&mut self, _columns: usize, _hidden: usize) -> Result<()> {
        Ok(())
    }
    /// A row of the result, one value for each column.
    fn row(&mut self, values: &[Value]) -> Result<()>;
    /// A statement or procedure ends.
    fn done(&mut self, done: Done) -> Result<()>;
    /// An ERROR (class > 10) or INFO (class <= 10) message, PRINT included (number 0).
    fn message(&mut self, message: &SqlError) -> Result<()>;
    /// The session has changed in a way clients follow.
    fn env_change(&mut self, change: EnvChange) -> Result<()>;
    /// The integer of RETURN, before the procedure's end.
    fn return_status(&mut self, status: i32) -> Result<()>;
    /// The value of an output parameter; `ordinal` counts parameters from 0.
    fn return_value(
        &mut self,
        ordinal: u16,
        name: &str,
        column: &OutputColumn,
        value: &Value,
    ) -> Result<()>;
    /// The value of a scalar function that was called by name.
    fn function_value(&mut self, column: &OutputColumn, value: &Value) -> Result<()>;
    /// Sends what is buffered: RAISERROR .. WITH NOWAIT, WAITFOR.
    fn flush(&mut self) -> Result<()>;
    /// Tokens from now on must not reach the client before the request has ended. Only asked of a caller that takes
    /// late commits (`Session::set_late_commits`).
    fn hold_back(&mut self) {}
}

/// Of a batch whose results nobody reads: whether rows came, and the first error.
#[derive(Debug, Default)]
pub struct Discard {
    pub rows: u64,
    pub first_error: Option<SqlError>,
}

impl Sink for Discard {
    fn columns(&mut self, _: &[OutputColumn]) -> Result<()> {
        Ok(())
    }
    fn row(&mut self, _: &[Value]) -> Result<()> {
        self.rows += 1;
        Ok(())
    }
    fn done(&mut self, _: Done) -> Result<()> {
        Ok(())
    }
    fn message(&mut self, message: &SqlError) -> Result<()> {
        if message.class > 10 {
            self.first_error.get_or_insert_with(|| message.clone());
        }
        Ok(())
    }
    fn env_change(&mut self, _: EnvChange) -> Result<()> {
        Ok(())
    }
    fn return_status(&mut self, _: i32) -> Result<()> {
        Ok(())
    }
    fn return_value(&mut self, _: u16, _: &str, _: &OutputColumn, _: &Value) -> Result<()> {
        Ok(())
    }
    fn function_value(&mut self, _: &OutputColumn, _: &Value) -> Result<()> {
        Ok(())
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
