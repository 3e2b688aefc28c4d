//! The client commands of `daruma` that are at home here; `daruma_client` has the TDS client and the connection flags,
//! `daruma_lab` the sample database, the load tool and the experiments.
//!
//! | module | what it is |
//! |---|---|
//! | [`aligned`] | columns of text for people |
//! | [`group`] | `daruma group`: availability groups over statements |
//! | [`sql`] | `daruma sql`: scripts and the interactive shell |
//!
//! Invariant: nothing here knows the server's inside; every command works against any TDS server.

pub mod aligned;
pub mod group;
pub mod sql;
