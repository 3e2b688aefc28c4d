//! Workloads and experiments.
//!
//! | module | what it is |
//! |---|---|
//! | [`sample`] | `daruma sample`: the sample database |
//! | [`experiment`] | `daruma lab NAME`: the experiments |
//! | [`stress`] | `daruma stress`: a query run many times from many sessions |
//! | [`report`] | what an experiment found, as text, page and JSON |
//! | [`server`] | a private server that may be killed |
//!
//! Invariant: nothing here knows the server's inside; everything speaks TDS, so it measures any server.

pub mod experiment;
pub mod figures;
mod interrupt;
pub mod report;
pub mod sample;
pub mod server;
pub mod sql;
pub mod statement_stats;
pub mod stress;
