//! What every client command shares.
//!
//! | module | what it is |
//! |---|---|
//! | [`client`] | a blocking TDS client: connect, batch, events, cancel, bulk load |
//! | [`connect`] | connection flags and environment variables, the same for every command |
//! | [`value`] | values as text and as JSON |
//!
//! Invariant: nothing here knows the server's inside; it works against any TDS server.

pub mod client;
pub mod connect;
pub mod value;
