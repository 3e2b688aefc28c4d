//! What says that a server may lead a group, and what that may believe of it: the cluster (CLUSTER_TYPE = WSFC), or the group's own voters (EXTERNAL).
//!
//! Theory: what may be said, and when, is `daruma_group::commit::Listing`'s to know; here it has somebody to be said to, and a latch. What is called
//! the cluster in names and texts of this room is either.

use super::ballots::Ballots;
use super::group::Task;
use daruma_cluster::{Cluster, Command, GroupState, News};
use daruma_group::commit::{FIRST_WORD, Listing, ReplicaId, Replicas};
use daruma_group::replica::Authority;
use daruma_tsql::instance::hadr::Lease;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

/// See the module.
pub(super) struct Warrant {
    /// None where the server is no node any more: it leads nothing then.
    cluster: Option<Arc<Cluster>>,
    /// Where the voters of the group decide, and no cluster.
    ballots: Option<Ballots>,
    group: [u8; 16],
    tell: Box<dyn Fn(Task) + Send + Sync>,
    /// That somebody else may own the group now.
    news: Arc<News>,
    listing: Mutex<Listing>,
    /// The cluster is to be told something.
    is_wanted: Mutex<bool>,
    wanted: Condvar,
    /// Held from the look at the records to the cluster's answer.
    changing: Mutex<()>,
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
    /// `ballots`: where there are any, the cluster has no say.
    pub(super) fn new(
        cluster: Option<Arc<Cluster>>,
        ballots: Option<Ballots>,
        group: [u8; 16],
        me: ReplicaId,
        tell: Box<dyn Fn(Task) + Send + Sync>,
    ) -> Warrant {
        let cluster = cluster.filter(|_| ballots.is_none());
        let news = Arc::default();
        cluster.iter().for_each(|cluster| cluster.tells(&news));
        Warrant {
            cluster,
            ballots,
            group,
            tell,
            news,
            listing: Mutex::new(Listing::new(me)),
            is_wanted: Mutex::default(),
            wanted: Condvar::new(),
            changing: Mutex::default(),
        }
    }

    pub(super) fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.as_ref()
    }

    /// Where the voters of the group decide.
    pub(super) fn ballots(&self) -> Option<&Ballots> {
        self.ballots.as_ref()
    }

    /// See [`News`]: of who owns the group.
    pub(super) fn news(&self) -> &News {
        &self.news
    }

    /// Until when this server holds the group by its lease, if it does: that it runs out then is no news.
    pub(super) fn holds_for(&self) -> Option<Duration> {
        self.cluster.as_ref()?.holds_for(&self.group)
    }

    /// The group as the newest configuration has it that this node knows.
    pub(super) fn entry(&self) -> Option<GroupState> {
        let state = self.cluster.as_ref()?.state();
        state.group(&self.group).cloned()
    }

    /// What this server knows of the cluster's list.
    pub(super) fn listing(&self) -> MutexGuard<'_, Listing> {
        self.listing.lock()
    }

    /// The epoch under which this server leads.
    pub(super) fn leads(&self) -> Option<u64> {
        self.listing.lock().leads()
    }

    /// Who owns the group, as far as this server knows.
    pub(super) fn ownership(&self) -> Ownership {
        if let Some(ballots) = &self.ballots {
            let office = ballots.office();
            return office.map_or(Ownership::Lost, |o| Ownership::Held(o.epoch));
        }
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
        let said = match &self.ballots {
            Some(_) => FIRST_WORD,
            None => self.entry().map_or(0, |g| g.said),
        };
        self.listing.lock().begin(epoch, listed, said);
    }

    /// All databases are led that can be: the cluster is told.
    pub(super) fn speak(&self) {
        self.listing.lock().speak();
        self.want();
    }

    fn want(&self) {
        *self.is_wanted.lock() = true;
        self.wanted.notify_all();
    }

    /// Waits until the cluster is to be told something, for so long at most.
    pub(super) fn wait_wanted(&self, limit: Duration) {
        let mut is_wanted = self.is_wanted.lock();
        if !*is_wanted {
            self.wanted.wait_for(&mut is_wanted, limit);
        }
        *is_wanted = false;
    }

    /// Only one at a time looks at the records and tells the cluster.
    pub(super) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// The same, for whoever cannot wait: `None` after so long.
    pub(super) fn change_within(&self, limit: Duration) -> Option<MutexGuard<'_, ()>> {
        self.changing.try_lock_for(limit)
    }

    /// Tells the cluster that `replicas`, whose nodes are `in_sync`, have everything. `Err`: why it has not agreed, so far.
    pub(super) fn say(
        &self,
        epoch: u64,
        replicas: Replicas,
        in_sync: Vec<u8>,
        automatic: Vec<u8>,
    ) -> Result<(), String> {
        let word = self.listing.lock().say(epoch, replicas);
        let word = word.ok_or("this server leads no more")?;
        self.wish(Command::SetGroup {
            group: self.group,
            epoch,
            said: word.said,
            in_sync,
            automatic,
        })?;
        self.listing.lock().agreed(word);
        Ok(())
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
        let acts = self.listing.lock().acts();
        if let Some(ballots) = &self.ballots {
            return ballots.office().is_some_and(|o| Some(o.epoch) == acts);
        }
        let owned = self.cluster.as_ref().and_then(|c| c.owned(&self.group));
        owned.is_some_and(|owned| Some(owned.epoch) == acts)
    }

    fn may_list(&self, database: u128, members: Replicas) -> bool {
        let may = self.listing.lock().may_list(database, members);
        if !may {
            self.want();
        }
        may
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
