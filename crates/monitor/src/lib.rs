//! The monitor: samples servers over TDS, keeps what it saw in a database, shows it in a browser.
//!
//! | module | what it is |
//! |---|---|
//! | [`figures`] | what is sampled, with units |
//! | [`waits`] | classes of wait types |
//! | [`sampler`] | one light session for each server |
//! | [`repository`] | tables on a server, levels of detail, purge |
//! | [`compare`] | a stretch in figures, two stretches side by side |
//! | [`alerts`] | thresholds, and who is told |
//! | [`simulated`] | samples of servers that do not exist |
//! | [`page`] | login, pages, their interface, `/metrics` |
//! | [`monitor`] | all of it together, from start to stop |
//!
//! Invariant: servers are known over TDS alone, the watched ones and the repository's, so that all of it works against SQL
//! Server as well; what a server does not have is absent.

pub mod alerts;
pub mod compare;
pub mod figures;
pub mod monitor;
pub mod page;
pub mod repository;
pub mod sampler;
pub mod simulated;
pub mod sql;
pub mod waits;

pub use monitor::{Monitor, MonitorError, MonitorOptions};
