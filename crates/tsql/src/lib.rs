//! T-SQL: binds, plans and runs batches against storage.
//!
//! Theory: a [`session`] interprets statements one by one. Queries and DML go through `binder` (names and types),
//! `planner` (access paths and join order) and `executor` (operators over batches of rows); definitions go through
//! `ddl`. The query rooms know a session only as a [`host::Host`]; results leave through a [`sink::Sink`].
//!
//! Limits of each room: `binder`, `planner`, `executor` and `dml` know no sessions, sockets or batches;
//! `session` knows no operators; nothing here knows TDS.
//!
//! Read next: `host`, `sink`, `error`.

pub mod access;
pub mod binder;
pub mod ddl;
pub mod dml;
pub mod error;
pub mod executor;
pub mod host;
pub mod instance;
pub mod messages;
pub mod planner;
pub mod session;
pub mod showplan;
pub mod sink;
pub mod statistics;
pub mod sysprocs;
pub mod sysviews;
