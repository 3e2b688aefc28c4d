//! The TDS protocol as pure code: bytes to events and back. No sockets, no threads, no TLS, no SQL.
//!
//! Theory: a connection is a sequence of messages framed in packets. This crate cuts bytes into messages, decodes each
//! kind into a structure, and writes the structures of the other side. The owner of the socket decides what to do with
//! them. Both sides are here, since the shell, the load tools and the tests are clients.
//!
//! # A server's connection
//!
//! 1. First byte 0x16: strict encryption, do TLS first (ALPN `tds/8.0`). Otherwise packets.
//! 2. [`packet::PacketReader`] cuts what the socket gives into packets, [`packet::MessageAssembler`] joins them to
//!    messages under a limit. [`packet::MessageWriter`] frames what is written into its `buffer()`.
//! 3. `Prelogin` message (7.1 clients may leave it out): [`prelogin::Prelogin::decode`], [`prelogin::negotiate`] for the
//!    encryption, answer [`prelogin::Prelogin::reply`] in a message of type `Reply`.
//!    [`packet::PacketReader::take_unread`] hands over the bytes that belong to TLS.
//! 4. `Login` message: [`login::Login7::decode`]; the version in it is passed to everything below.
//!    [`packet::negotiate_packet_bytes`] for the packet size.
//! 5. Login response: [`token::EnvChange`], [`token::ServerMessage`], [`token::LoginAck`], [`token::put_feature_ack`],
//!    [`token::Done`]; then `MessageWriter::set_packet_bytes`.
//! 6. Requests by packet type: `Batch` [`request::SqlBatch::decode`], `Rpc` [`request::RpcRequest::decode`],
//!    `TransactionManager` [`request::TransactionRequest::decode`], `Attention` (answer [`token::Done::attention`]),
//!    `Bulk` packet by packet into [`request::BulkDecoder`]. `Message::reset` asks for a session reset beforehand,
//!    `Message::ignored` for nothing but a DONE with the error bit.
//! 7. A result: [`token::Column::new`] for each column, [`token::put_column_metadata`], a [`token::RowEncoder`] for the
//!    rows, [`token::Done::counted`]. Procedures: [`token::put_return_status`], [`token::ReturnValue`].
//!    `MessageWriter::drain_full` now and then, `drain_partial` before a long wait, `finish` at the end.
//!
//! # A client's connection
//!
//! 1. [`prelogin::Prelogin::encode`] in a message of type `Prelogin`; [`login::Login7::encode`] in one of type `Login`.
//! 2. [`token::TokenDecoder`] is fed the payloads of reply packets and yields tokens; it follows LOGINACK's version.
//! 3. Requests: [`request::SqlBatch::encode`], [`request::RpcRequest::encode`], [`request::TransactionRequest::encode`],
//!    [`request::BulkEncoder`]; an attention is an empty message.
//!    Repeat the descriptor of [`token::EnvChange::BeginTransaction`] in the headers until the transaction ends.
//!
//! Invariants
//! 1. No decoder panics or allocates more than in proportion to the bytes it was given.
//! 2. A [`TdsError`] from a decoder means the stream is lost: answer if you can, then close.
//! 3. An encoder that fails leaves its output as it was, so an error token can take its place.
//!
//! Tests: beside each module; what one side writes the other reads, in every version.   Read next: `packet`, `token`

pub mod error;
pub mod login;
pub mod packet;
pub mod prelogin;
pub mod request;
pub mod token;
pub mod types;
pub mod version;
mod wire;

pub use error::{Result, TdsError};
pub use types::WireCollation;
pub use version::TdsVersion;
pub use wire::codepage::CodePage;
