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
    pub const RETURN_STATUS: u8 = 0x79;
    pub const COL_METADATA: u8 = 0x81;
    pub const TAB_NAME: u8 = 0xA4;
    pub const COL_INFO: u8 = 0xA5;
    pub const ORDER: u8 = 0xA9;
    pub const ERROR: u8 = 0xAA;
    pub const INFO: u8 = 0xAB;
    pub const RETURN_VALUE: u8 = 0xAC;
    pub const LOGIN_ACK: u8 = 0xAD;
    pub const FEATURE_EXT_ACK: u8 = 0xAE;
    pub const ROW: u8 = 0xD1;
    pub const NBC_ROW: u8 = 0xD2;
    pub const ENV_CHANGE: u8 = 0xE3;
    pub const SESSION_STATE: u8 = 0xE4;
    pub const SSPI: u8 = 0xED;
    pub const FED_AUTH_INFO: u8 = 0xEE;
    pub const DONE: u8 = 0xFD;
    pub const DONE_PROC: u8 = 0xFE;
    pub const DONE_IN_PROC: u8 = 0xFF;
}
