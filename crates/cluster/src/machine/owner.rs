//! Groups that this node owns, and until when it may act for them.

use super::Machine;
use crate::command::Command;
use crate::packet::Packet;
use crate::planted::{Bug, planted};
use crate::state::{ClusterState, GroupId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Questions whose answers are waited for.
const ASKS_MAX: usize = 64;
/// Numbers of the machine's own wishes begin here; those of its user stay below.
const OWN_WISHES: u64 = 1 << 63;

/// A group that this node may act for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    pub group: GroupId,
    pub epoch: u64,
    /// On this node's clock.
    pub until: Duration,
}

pub(super) struct Owner {
    /// Epochs up to here are of a life of the process that is over, or were released.
    past: BTreeMap<GroupId, u64>,
    leases: BTreeMap<GroupId, (u64, Duration)>,
    asks: VecDeque<LeaseAsked>,
    seq: u64,
    next_at: Duration,
    reclaim_at: Duration,
}

struct LeaseAsked {
    seq: u64,
    at: Duration,
    owned: Vec<(GroupId, u64)>,
}

impl Owner {
    /// What is found on disk may be a proposal that comes to nothing: whoever owned the group before it owns it again then. So an earlier
    /// life may have acted in any epoch up to the one that is found, whoever owns that.
    pub(super) fn new(state: &ClusterState) -> Owner {
        let found = state.groups.iter();
        Owner {
            past: match planted(Bug::RestartKeepsEpoch) {
                true => BTreeMap::new(),
                false => found.map(|g| (g.id, g.epoch)).collect(),
            },
            leases: BTreeMap::new(),
            asks: VecDeque::new(),
            seq: 0,
            next_at: Duration::ZERO,
            reclaim_at: Duration::ZERO,
        }
    }

    /// Nothing is done any more for this group in this epoch.
    pub(super) fn stop(&mut self, group: GroupId, epoch: u64) {
        let past = self.past.entry(group).or_default();
        *past = epoch.max(*past);
        self.leases.remove(&group);
    }

    fn is_past(&self, group: &GroupId, epoch: u64) -> bool {
        self.past.get(group).is_some_and(|past| epoch <= *past)
    }
}

impl Machine {
    /// Groups that this node may act for now, and until when.
    pub fn owned(&self, now: Duration) -> Vec<Owned> {
        let mine = self
            .state
            .groups
            .iter()
            .filter(|g| g.owner == Some(self.me().number()));
        let leased = mine.filter_map(|g| {
            let (epoch, until) = self.owner.leases.get(&g.id)?;
            let is_valid = *epoch == g.epoch && now < *until && !self.owner.is_past(&g.id, *epoch);
            is_valid.then_some(Owned {
                group: g.id,
                epoch: *epoch,
                until: *until,
            })
        });
        leased.collect()
    }

    /// When the next lease is asked for.
    pub(super) fn next_lease(&self) -> Duration {
        self.owner.next_at
    }

    pub(super) fn keep_leases(&mut self) {
        if self.now < self.owner.next_at {
            return;
        }
        self.owner.next_at = self.now + self.timing.round();
        let me = self.me().number();
        let mine = self.state.groups.iter().filter(|g| g.owner == Some(me));
        let (past, owned): (Vec<_>, Vec<_>) = mine
            .map(|g| (g.id, g.epoch))
            .partition(|(group, epoch)| self.owner.is_past(group, *epoch));
        if !past.is_empty() && !self.leaving {
            self.reclaim(past);
        }
        let leader = match self.lead.is_some() {
            true => Some(self.me()),
            false => self.follow.leader,
        };
        let Some(leader) = leader.filter(|_| !owned.is_empty()) else {
            return;
        };
        self.owner.seq += 1;
        let seq = self.owner.seq;
        if self.owner.asks.len() >= ASKS_MAX {
            self.owner.asks.pop_front();
        }
        self.owner.asks.push_back(LeaseAsked {
            seq,
            at: self.now,
            owned: owned.clone(),
        });
        match leader == self.me() {
            true => self.lease_asked(leader, seq, owned),
            false => self.send(leader, Packet::LeaseAsk { seq, owned }),
        }
    }

    /// A process that was restarted is not the owner that it was: it asks for an epoch of its own.
    fn reclaim(&mut self, past: Vec<(GroupId, u64)>) {
        if self.now < self.owner.reclaim_at {
            return;
        }
        self.owner.reclaim_at = self.now + self.timing.suspicion;
        for (group, epoch) in past {
            self.owner.seq += 1;
            let id = OWN_WISHES + self.owner.seq;
            let until = self.now + self.timing.suspicion;
            let command = Command::Reclaim { group, epoch };
            self.wishes.insert(id, (command, until, false));
        }
        self.pass_on_wishes();
    }

    pub(super) fn take_lease(&mut self, seq: u64) {
        let asks = &mut self.owner.asks;
        let Some(found) = asks.iter().position(|a| a.seq == seq) else {
            return;
        };
        // Older ones that come later say nothing new.
        let asked = asks.drain(..=found).next_back();
        let Some(asked) = asked else { return };
        let from = match planted(Bug::LeaseFromReply) {
            true => self.now,
            false => asked.at,
        };
        let long = match planted(Bug::LeaseLongerThanFence) {
            true => self.timing.lease * 3,
            false => self.timing.lease,
        };
        for (group, epoch) in asked.owned {
            self.owner.leases.insert(group, (epoch, from + long));
        }
    }
}
