//! The authority that says that this node may lead, where its own record alone does not.
//!
//! Theory: a cluster names the owner of a group and knows who may take its place. What it knows is at any time a part of what every
//! database's record lists, so whoever it names has all that was acknowledged: a replica leaves the cluster's list before it leaves a record,
//! and comes onto it after it is in all of them. The right to lead is a lease; nothing is acknowledged after it has run out.

use crate::commit::{ReplicaId, Replicas};

/// See the module. Called under the latch of a database: nothing here waits, or calls back.
pub trait Authority: Send + Sync {
    /// Does the lease hold, at this moment?
    fn stands(&self) -> bool;

    /// May the record of a database list these alone? If not, the cluster is asked to let the others go; [`super::Led::ask_again`]
    /// follows when it has.
    fn may_list(&self, database: u128, members: Replicas) -> bool;

    /// A replica asks to take over. Its answer is that the cluster names it.
    fn asked(&self, replica: ReplicaId);
}
