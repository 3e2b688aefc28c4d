//! Quorum: who may act. A replicated register that holds one value, the configuration of the whole cluster.
//!
//! Theory: every change of votes, membership or ownership is one write of the register, and a write counts when a majority
//! of the votes of the configuration it builds on and a majority of its own votes have it on disk. There is no log: the
//! newest configuration is the whole state. A witness is an acceptor without a process; the node that reaches its record
//! runs the same function on it as a node runs on its own ([`Register::answer`]).
//!
//! Everything here is a pure state machine: messages and decisions in, actions out. It reads no clock, opens no file and sends
//! nothing, so that a search can branch it (`tests/core.rs`) and a simulation can drive it.
//!
//! Invariants
//! 1. Settled configurations form one chain, each built on the settled one before it.
//! 2. A write counts with a majority of `old` and of `new`; a settled configuration with one of `new` alone.
//! 3. Ballot and vote are durable before a reply, in one write: [`Output::Persist`] comes before what depends on it.
//! 4. An acceptor never asks whether it has a vote itself: only those count that the asker's configuration names.
//! 5. A new leader first writes what it holds under its own ballot, and proposes only when that has settled.
//! 6. A leader may replace a proposal of its own that has not settled, never one that it inherited.
//!
//! Sources: Gifford, "Weighted Voting for Replicated Data" (1979); Lamport, "The Part-Time Parliament" (1998) for ballots; Ongaro,
//! "Consensus: Bridging Theory and Practice" (2014) for joint majorities and for the rewrite in the leader's own term.
//! Read next: `votes`, `configuration`, `register`, `node`, `policy`, `outlook`.

mod configuration;
mod node;
mod outlook;
mod planted;
mod policy;
mod register;
mod votes;

pub use configuration::{Ballot, Configuration, Version};
pub use node::{Message, Node, Output, Role};
pub use outlook::{Loss, Outlook, outlook};
#[cfg(feature = "planted-bugs")]
pub use planted::{Bug, plant};
pub use policy::{Situation, Witness, WitnessRules, wanted_votes};
pub use register::Register;
pub use votes::{MEMBERS_MAX, MemberId, Members, WITNESS};
