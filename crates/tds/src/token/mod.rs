//! Tokens: what a server's reply consists of, written by servers and read by clients.
//!
//! Every token has a type with `encode(version, out)`; `TokenDecoder` reads them back from a stream.
//! Rows are the hot path: `RowEncoder` is prepared once for a result and allocates nothing for scalar values.

mod column;
mod decode;
mod done;
mod envchange;
mod login_ack;
mod message;
mod return_value;
mod row;
mod table;

#[cfg(test)]
mod tests;

pub use column::{Column, column_flag, put_column_metadata, put_no_metadata};
pub(crate) use column::{ColumnLayout, decode_columns, put_columns};
pub use decode::{Token, TokenDecoder};
pub use done::{Done, DoneKind, command, done_status};
pub use envchange::{EnvChange, Routing};
pub use login_ack::{LoginAck, put_feature_ack};
pub use message::ServerMessage;
pub use return_value::{ReturnValue, put_return_status, return_status_flag};
pub use row::RowEncoder;
pub(crate) use row::{decode_nbc_row, decode_row};
pub use table::{ColInfo, col_info_status, put_col_info, put_order, put_table_names};

/// The first byte of every token.
pub mod token_byte {
    /// The integer that a procedure's RETURN gave.
    pub const RETURN_STATUS: u8 = 0x79;
    /// The columns of the rows that follow.
    pub const COL_METADATA: u8 = 0x81;
    /// Names of the tables that COLINFO counts.
    pub const TAB_NAME: u8 = 0xA4;
    /// Where each column of a result comes from.
    pub const COL_INFO: u8 = 0xA5;
    /// Columns that the rows are sorted by.
    pub const ORDER: u8 = 0xA9;
    /// A message of class 11 and above.
    pub const ERROR: u8 = 0xAA;
    /// A message of class 10 and below.
    pub const INFO: u8 = 0xAB;
    /// The value of an output parameter.
    pub const RETURN_VALUE: u8 = 0xAC;
    /// The login is granted; the version both sides speak.
    pub const LOGIN_ACK: u8 = 0xAD;
    /// Which of the features asked for at login are granted.
    pub const FEATURE_EXT_ACK: u8 = 0xAE;
    /// A row with every column.
    pub const ROW: u8 = 0xD1;
    /// A row whose NULLs are a bitmap before the values (7.3B and later).
    pub const NBC_ROW: u8 = 0xD2;
    /// A change of the session that clients follow.
    pub const ENV_CHANGE: u8 = 0xE3;
    /// State for a client that reconnects; clients here read past it.
    pub const SESSION_STATE: u8 = 0xE4;
    /// A step of integrated authentication.
    pub const SSPI: u8 = 0xED;
    /// Where a client gets its token for federated authentication.
    pub const FED_AUTH_INFO: u8 = 0xEE;
    /// The end of a statement in a batch.
    pub const DONE: u8 = 0xFD;
    /// The end of a procedure.
    pub const DONE_PROC: u8 = 0xFE;
    /// The end of a statement inside a procedure.
    pub const DONE_IN_PROC: u8 = 0xFF;
}
