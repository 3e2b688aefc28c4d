//! A replica at work: ships the log of databases that it leads, takes the log of those that it follows.
//!
//! Theory: `commit` decides, this room does. A database has one latch around its state machine; what the machine wants done is done
//! under it, in its order, but for waiting: appends go to the log's memory, syncs run on a thread of their own, and one sync covers
//! all that has come. The acknowledgement leaves from that thread.
//!
//! Storage is met through [`PrimaryLog`] and [`SecondaryLog`] alone, so that tests can stand in for it.
//!
//! Latches: a database's state, then a link's.   Read next: `log`, `standing`, `authority`, `lead`, `follow`, `node`, `storage`.

mod authority;
mod follow;
mod lead;
mod log;
mod node;
mod rate;
mod standing;
mod storage;

pub use authority::Authority;
pub use follow::{Claim, Followed, Following};
pub use lead::{Heard, Led, Progress, Rates, Shipment, ShipmentCounts};
pub use log::{Feed, LogBlock, LogError, PrimaryLog, SecondaryLog};
pub use node::Node;
pub use rate::Rate;
pub use standing::{Standing, StandingFile};
pub use storage::{Change, CopyChange, StorageCopy, StorageLog};

#[cfg(test)]
mod tests;
