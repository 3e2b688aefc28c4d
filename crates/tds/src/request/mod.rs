//! Requests: what a client asks for after login.
//!
//! Batches, calls and transaction requests are decoded from whole message bodies; bulk load is decoded as a stream,
//! since one message may hold any number of rows. An attention and an empty bulk message have no body to decode.

mod batch;
mod bulk;
mod headers;
mod rpc;
mod table_value;
mod transaction;

#[cfg(test)]
mod tests;

pub use batch::SqlBatch;
pub use bulk::{BulkDecoder, BulkEncoder, BulkEvent};
pub use headers::Headers;
pub use rpc::{
    PARAMETERS_MAX, ParamValue, ProcId, RpcCall, RpcParam, RpcRequest, RpcTarget, rpc_option,
};
pub use table_value::{SortColumn, TableColumn, TableRows, TableValue};
pub use transaction::{Begin, Isolation, TransactionRequest};
