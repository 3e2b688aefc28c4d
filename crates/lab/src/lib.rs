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
//! Invariant: nothing here knows the server's inside; what speaks TDS measures any server, and clusters are told by the program's own
//! commands.

pub mod experiment;
pub mod figures;
mod interrupt;
pub mod report;
pub mod sample;
pub mod server;
pub mod sql;
pub mod statement_stats;
pub mod stress;
