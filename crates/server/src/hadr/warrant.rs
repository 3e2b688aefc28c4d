//! What the cluster says of a group, and what it may believe of it (CLUSTER_TYPE = WSFC).
//!
//! Theory: the cluster names the owner, who leads while its lease lasts, and names another of its list when the owner is gone.
//! So whoever is in that list has all that was acknowledged: it is a part of [`Listing::most`], and that is a part of what the record of every
//! database lists (`daruma_group::replica::Authority`).
//!
//! | a replica | order |
//! |---|---|
//! | comes onto the list | into the records, then into `most`, then the records are looked at again, then the cluster is told |
//! | leaves it | the cluster has agreed, then out of `most`, then out of the records; commits wait for it meanwhile |
//!
//! A word to the cluster that nobody answered may be carried out yet, so it counts as said; words are numbered, and an earlier one does not
//! count after a later one.
//!
//! An owner that begins finds a list of the reign before: those have everything as long as nothing new is acknowledged. So nothing is, and no session
//! comes, before the first word of its own reign is agreed to (`has_word`). If it dies before, or cannot lead, one of the list is named.

use super::group::Task;
use daruma_cluster::{Cluster, Command, GroupState};
use daruma_group::commit::{ReplicaId, Replicas};
use daruma_group::replica::Authority;
use daruma_tsql::instance::hadr::Lease;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// See the module.
pub(super) struct Warrant {
    /// None where the server is no node any more: it leads nothing then.
    cluster: Option<Arc<Cluster>>,
    group: [u8; 16],
    me: ReplicaId,
    tell: Box<dyn Fn(Task) + Send + Sync>,
    listing: Mutex<Listing>,
    /// A record wants fewer than the cluster may list.
    wanted: Condvar,
    /// Held from the look at the records to the cluster's answer.
    changing: Mutex<()>,
}

/// What this server knows of the cluster's list.
#[derive(Default)]
struct Listing {
    /// The epoch, as the cluster counts, under which this server leads.
    leads: Option<u64>,
    /// The epoch of what follows.
    epoch: u64,
    /// All databases are led that can be: the cluster may be told who has everything.
    may_speak: bool,
    /// The cluster's list is one of this reign.
    has_word: bool,
    /// The cluster lists no replica but these.
    most: Replicas,
    /// Words that were said in this epoch.
    said: u64,
    /// What records are to list from now on, where that is less.
    fewer: BTreeMap<u128, Replicas>,
    is_wanted: bool,
}

/// What a server sees of who owns the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// This server, in this epoch, and its lease holds.
    Held(u64),
    /// Its lease has run out, and nobody else is known to own the group.
    Lapsed,
    /// Another server, nobody, or this one in an epoch that it does not lead.
    Lost,
}

impl Warrant {
    pub(super) fn new(
        cluster: Option<Arc<Cluster>>,
        group: [u8; 16],
        me: ReplicaId,
        tell: Box<dyn Fn(Task) + Send + Sync>,
    ) -> Warrant {
        Warrant {
            cluster,
            group,
            me,
            tell,
            listing: Mutex::default(),
            wanted: Condvar::new(),
            changing: Mutex::default(),
        }
    }

    pub(super) fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.as_ref()
    }

    /// The group as the newest configuration has it that this node knows.
    pub(super) fn entry(&self) -> Option<GroupState> {
        let state = self.cluster.as_ref()?.state();
        state.group(&self.group).cloned()
    }

    /// The epoch under which this server leads.
    pub(super) fn leads(&self) -> Option<u64> {
        self.listing.lock().leads
    }

    /// Who owns the group, as far as this server knows.
    pub(super) fn ownership(&self) -> Ownership {
        let Some(cluster) = &self.cluster else {
            return Ownership::Lost;
        };
        if let Some(owned) = cluster.owned(&self.group) {
            return Ownership::Held(owned.epoch);
        }
        let leads = self.leads();
        let me = cluster.me().number();
        let is_mine = |g: &GroupState| g.owner == Some(me) && Some(g.epoch) == leads;
        match self.entry().as_ref().is_some_and(is_mine) {
            true => Ownership::Lapsed,
            false => Ownership::Lost,
        }
    }

    /// This server begins to lead in this epoch, with records that list it alone. The cluster lists these.
    pub(super) fn begin(&self, epoch: u64, listed: Replicas) {
        let mut listing = self.listing.lock();
        if listing.epoch != epoch {
            *listing = Listing {
                epoch,
                said: self.entry().map_or(0, |g| g.said),
                ..Listing::default()
            };
        }
        listing.most = listing.most.union(listed).with(self.me);
        listing.leads = Some(epoch);
        listing.may_speak = false;
        // A list of this server alone, or shorter, holds in any reign of its own.
        listing.has_word = listing.most == Replicas::NONE.with(self.me);
    }

    /// All databases are led that can be.
    pub(super) fn speak(&self) {
        let mut listing = self.listing.lock();
        listing.may_speak = true;
        listing.is_wanted = true;
        self.wanted.notify_all();
    }

    /// The epoch in which the cluster may be told who has everything.
    pub(super) fn speaks(&self) -> Option<u64> {
        let listing = self.listing.lock();
        listing.leads.filter(|_| listing.may_speak)
    }

    /// Has the cluster's list come from this reign?
    pub(super) fn has_word(&self) -> bool {
        self.listing.lock().has_word
    }

    /// The cluster lists these already, and so do all records.
    pub(super) fn confirm(&self, epoch: u64, listed: Replicas) {
        let mut listing = self.listing.lock();
        listing.has_word |= listing.leads == Some(epoch) && listing.most == listed;
    }

    /// It leads no more.
    pub(super) fn end(&self) {
        let mut listing = self.listing.lock();
        listing.leads = None;
        listing.fewer.clear();
    }

    /// A database is led anew, or no more: what was wanted of its record is void.
    pub(super) fn forget(&self, database: u128) {
        self.listing.lock().fewer.remove(&database);
    }

    /// No replica but these is in the cluster's list.
    pub(super) fn most(&self) -> Replicas {
        self.listing.lock().most
    }

    /// What the record of a database is to list, as far as that is less than it does.
    pub(super) fn fewer(&self, database: u128) -> Option<Replicas> {
        self.listing.lock().fewer.get(&database).copied()
    }

    /// Waits until a record wants fewer, for so long at most.
    pub(super) fn wait_wanted(&self, limit: Duration) {
        let mut listing = self.listing.lock();
        if !listing.is_wanted {
            self.wanted.wait_for(&mut listing, limit);
        }
        listing.is_wanted = false;
    }

    /// Only one at a time looks at the records and tells the cluster.
    pub(super) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// These may be listed from now on.
    pub(super) fn widen(&self, to: Replicas) {
        let mut listing = self.listing.lock();
        listing.most = listing.most.union(to);
    }

    /// Tells the cluster that `replicas`, whose nodes are `in_sync`, have everything. `Err`: why it has not agreed, so far.
    pub(super) fn say(
        &self,
        epoch: u64,
        replicas: Replicas,
        in_sync: Vec<u8>,
        automatic: Vec<u8>,
    ) -> Result<(), String> {
        let said = {
            let mut listing = self.listing.lock();
            if listing.leads != Some(epoch) {
                return Err("this server leads no more".into());
            }
            assert!(
                replicas.is_subset_of(listing.most),
                "it is widened before it is told"
            );
            listing.said += 1;
            listing.said
        };
        let outcome = self.wish(Command::SetGroup {
            group: self.group,
            epoch,
            said,
            in_sync,
            automatic,
        });
        let mut listing = self.listing.lock();
        if outcome.is_ok() && listing.epoch == epoch && listing.said == said {
            listing.most = replicas;
            listing.has_word |= listing.leads == Some(epoch);
        }
        outcome
    }

    /// Has the cluster do something.
    pub(super) fn wish(&self, command: Command) -> Result<(), String> {
        let Some(cluster) = &self.cluster else {
            return Err("this server is no node of a cluster".into());
        };
        cluster.wish(command).agreed()
    }
}

impl Authority for Warrant {
    fn stands(&self) -> bool {
        let speaks = {
            let listing = self.listing.lock();
            listing.leads.filter(|_| listing.has_word)
        };
        let owned = self.cluster.as_ref().and_then(|c| c.owned(&self.group));
        owned.is_some_and(|owned| Some(owned.epoch) == speaks)
    }

    fn may_list(&self, database: u128, members: Replicas) -> bool {
        let mut listing = self.listing.lock();
        if listing.most.is_subset_of(members) {
            listing.fewer.remove(&database);
            return true;
        }
        listing.fewer.insert(database, members);
        listing.is_wanted = true;
        self.wanted.notify_all();
        false
    }

    fn asked(&self, replica: ReplicaId) {
        (self.tell)(Task::HandOver(replica));
    }
}

impl Lease for Warrant {
    fn stands(&self) -> bool {
        Authority::stands(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(number: u8) -> ReplicaId {
        ReplicaId::new(number).expect("a replica")
    }

    fn set(numbers: &[u8]) -> Replicas {
        numbers.iter().map(|n| replica(*n)).collect()
    }

    fn warrant() -> Warrant {
        Warrant::new(None, [7; 16], replica(0), Box::new(|_| {}))
    }

    #[test]
    fn a_record_keeps_whom_the_cluster_may_list() {
        let warrant = warrant();
        warrant.begin(3, set(&[1]));
        assert!(!warrant.may_list(1, set(&[0])), "the cluster may list 1");
        assert_eq!(warrant.fewer(1), Some(set(&[0])));
        assert!(warrant.may_list(1, set(&[0, 1, 2])));
        assert_eq!(warrant.fewer(1), None);
        warrant.widen(set(&[2]));
        assert!(!warrant.may_list(2, set(&[0, 1])), "it may be told of 2");
        // A word that was not agreed to may be carried out yet.
        let refused = warrant.say(3, set(&[0]), vec![0], Vec::new());
        assert!(refused.is_err());
        assert!(!warrant.may_list(2, set(&[0, 1])));
    }

    #[test]
    fn an_epoch_that_goes_on_forgets_nothing_and_a_new_one_begins_alone() {
        let warrant = warrant();
        warrant.begin(3, Replicas::NONE);
        warrant.widen(set(&[2]));
        warrant.end();
        assert_eq!(warrant.leads(), None);
        assert!(!Authority::stands(&warrant));
        warrant.begin(3, Replicas::NONE);
        assert_eq!(warrant.most(), set(&[0, 2]));
        warrant.begin(4, Replicas::NONE);
        assert_eq!(warrant.most(), set(&[0]));
        let late = warrant.say(3, set(&[0]), vec![0], Vec::new());
        assert!(late.is_err(), "it leads another epoch");
    }
}
