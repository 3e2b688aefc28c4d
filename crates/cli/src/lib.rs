//! The client commands of `daruma`, and the TDS client they share.
//!
//! | module | what it is |
//! |---|---|
//! | [`client`] | a blocking TDS client: connect, batch, events, cancel, bulk load |
//! | [`connect`] | connection flags and environment variables, the same for every command |
//! | [`sql`] | `daruma sql`: scripts and the interactive shell |
//! | [`sample`] | `daruma sample`: the sample database |
//!
//! Invariant: nothing here knows the server's inside; every command works against any TDS server.

pub mod client;
pub mod connect;
pub mod sample;
pub mod sql;
