//! Availability groups: the same databases on several servers, by shipping their log.
//!
//! Theory: a secondary holds the primary's log, block for block, and a redo that never ends. A commit is acknowledged when its
//! position is hard here and on every participant. This room knows storage and its log, and no SQL.
//!
//! Read next: `commit` (who has acknowledged what, and who may lead), `wire` (messages), `compress`, `transport`, `replica` (all of it at work).

pub mod commit;
pub mod compress;
pub mod replica;
pub mod transport;
pub mod wire;
