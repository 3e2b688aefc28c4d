//! Commit participants: whom a commit waits for, who may be promoted without loss, and which epoch a log belongs to.
//!
//! Theory: the primary counts the acknowledgements of the waited set `W`; the judge records the set `S` of those that may be
//! promoted. A member enters `W` before `S` and leaves `S` before `W`, so whoever is promoted holds everything that was ever
//! acknowledged. An epoch is one primary's reign over one log; its id is drawn at random, since two nodes that recover alone choose the
//! same number.
//!
//! Everything here is a pure state machine: events in, actions out. It reads no clock, opens no file and sends nothing, so that
//! `tests/search` can branch it through every order of events.
//!
//! Invariants
//! 1. `S` without the primary is a subset of `W`, at every instant.
//! 2. A node acknowledges only what is synced, in the epoch that it promised, and contiguous with the primary's log.
//! 3. A promise is durable before the first message that depends on it; afterwards nothing older is acknowledged.
//! 4. `quorum` never falls within an epoch; nothing above it is acknowledged to a client.
//! 5. Epochs are the same when their ids are; numbers only order them.
//!
//! Sources: invariants 1 and 3 are those of quorum changes in Neon's safekeepers and in Patroni's quorum commit; histories are compared
//! as Kafka does by leader epoch since KIP-101, by id because of what Kindahl found in PostgreSQL's timelines (2026).
//! Read next: `epoch`, `judge`, `primary`, `follower`, `clocks`, `listing`, `ballot`.

mod ballot;
mod clocks;
mod epoch;
mod follower;
mod judge;
mod listing;
mod planted;
mod primary;
mod replica;
#[cfg(test)]
mod testing;

pub use ballot::{
    BALLOT_NUMBER_MAX, Call, FIRST_WORD, Vote, Voters, is_credible, newest_word, next_epoch,
};
pub use clocks::{Clock, Clocks};
pub use epoch::{Epoch, EpochId, Fork, HISTORY_MAX, History};
pub use follower::{Follower, FollowerInput, FollowerOutput, Kept};
pub use judge::{Record, Reply, Request, Verdict};
pub use listing::{Listing, Word};
#[cfg(feature = "planted-bugs")]
pub use planted::{Bug, plant};
pub use primary::{
    Fenced, Primary, PrimaryInput, PrimaryOutput, ReplicaConfig, Role, Rules, SyncState,
};
pub use replica::{REPLICAS_MAX, ReplicaId, Replicas};
