//! The cluster service: a node of the cluster with its disk, its clock, its witness and the others.
//!
//! Theory: [`daruma_quorum`] says who may act, and knows nothing but votes and messages. `machine` adds time to it and is pure as
//! well; `runtime` gives it a thread, `store` its file, `witness` the record that nodes share; `setup` is how a server becomes a member. What the cluster
//! agreed on is one value, [`ClusterState`]: members, options, and who owns which availability group in which epoch.
//!
//! Read next: `state`, `command`, `machine`, `witness`, `runtime`, `setup`, docs/quorum.md.

mod codec;
mod command;
mod identity;
mod machine;
mod packet;
mod planted;
mod runtime;
mod setup;
mod state;
mod store;
mod token;
pub mod witness;

pub use codec::{BODY_BYTES_MAX, CodecError};
pub use command::{Command, Outcome};
pub use machine::{
    Action, ClusterView, GroupView, LossView, Machine, NodeView, Owned, Timing, WitnessSeen,
};
pub use packet::Packet;
#[cfg(feature = "planted-bugs")]
pub use planted::{Bug, plant};
pub use runtime::{
    Cluster, ClusterError, ClusterOptions, ControlError, News, Request, Response, ask, folder_in,
};
pub use setup::{Newcomer, SetupError, create, join};
pub use state::{
    ClusterState, GROUPS_MAX, GroupId, GroupState, NodeState, PATH_BYTES_MAX, TEXT_CHARS_MAX,
    WitnessKind, WitnessPlace, is_cloud,
};
pub use store::{Store, Stored};
pub use token::Token;
