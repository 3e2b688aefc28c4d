//! The list of those that have everything that was acknowledged, as the cluster is told: see `warrant` for the order.

use super::ballots::Ballots;
use super::group::Group;
use super::owner::cluster_error;
use super::part::PartState;
use super::warrant::{Ownership, Warrant};
use daruma_catalog::{FailoverMode, GroupDef, ReplicaDef};
use daruma_cluster::{Cluster, ClusterState};
use daruma_group::commit::{ReplicaId, Replicas};
use daruma_group::replica::Authority;
use daruma_tsql::error::Result;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at who has everything, where nobody waits for it.
const LIST: Duration = Duration::from_millis(100);

impl Group {
    /// A thread that tells the cluster who has everything.
    pub(super) fn keep_list(self: &Arc<Self>) {
        let Some(warrant) = &self.warrant else { return };
        let mut told = None;
        while !self.is_stopped() {
            warrant.wait_wanted(LIST);
            let trouble = self.list_anew(warrant).err();
            if let Some(why) = trouble.as_ref().filter(|why| told.as_ref() != Some(*why)) {
                self.common.log(&format!(
                    "It could not be agreed which replicas of availability group '{}' have everything: {why}.",
                    self.def().name
                ));
            }
            told = trouble;
        }
    }

    /// Tells the cluster who has everything, if that is not what it knows. `Err`: it has not agreed.
    pub(super) fn list_anew(&self, warrant: &Warrant) -> std::result::Result<(), String> {
        let _one_at_a_time = warrant.change();
        let Ownership::Held(epoch) = warrant.ownership() else {
            return Ok(());
        };
        if warrant.listing().speaks() != Some(epoch) {
            return Ok(());
        }
        let complete = self.have_everything(warrant);
        warrant.listing().widen(complete);
        // Whoever has left a record before it was widened is gone from it by now.
        let complete = complete.intersection(self.have_everything(warrant));
        let is_told = match (warrant.ballots(), warrant.cluster()) {
            (Some(ballots), _) => self.list_by_vote(warrant, ballots, epoch, complete)?,
            (None, Some(cluster)) => self.list_in_cluster(warrant, cluster, epoch, complete)?,
            (None, None) => false,
        };
        if !is_told {
            return Ok(());
        }
        // What waits for it is looked at again.
        let parts = self.parts.lock().clone();
        for part in parts {
            if let PartState::Led { led, .. } = &part.state {
                led.ask_again();
            }
        }
        Ok(())
    }

    /// `true`: there was something to say.
    fn list_by_vote(
        &self,
        warrant: &Warrant,
        ballots: &Ballots,
        epoch: u64,
        complete: Replicas,
    ) -> std::result::Result<bool, String> {
        let is_known = warrant.listing().is_told(complete);
        match is_known {
            true => self.tell_who_lacks_it(ballots, epoch),
            false => self.tell_voters(warrant, ballots, epoch, complete)?,
        }
        Ok(!is_known)
    }

    /// As above.
    fn list_in_cluster(
        &self,
        warrant: &Warrant,
        cluster: &Cluster,
        epoch: u64,
        complete: Replicas,
    ) -> std::result::Result<bool, String> {
        let state = cluster.state();
        let in_sync = self.nodes(&state, complete);
        let automatic = self.automatic(&state);
        let known = state.group(&self.id());
        let is_known = known.is_some_and(|g| {
            g.epoch == epoch && same_set(&g.in_sync, &in_sync) && g.automatic == automatic
        });
        let is_said = is_known && warrant.listing().most() == complete;
        if is_said && warrant.listing().has_word() {
            return Ok(false);
        }
        match is_said {
            true => warrant.listing().confirm(epoch, complete),
            false => warrant.say(epoch, complete, in_sync, automatic)?,
        }
        Ok(true)
    }

    /// Replicas that have everything of all databases, and are to stay. Nobody else has, from the moment in which a database is to come, and while one
    /// is to go and is not let go yet: what waits in it for the others is released then, and none of them may lead by what it lacks.
    fn have_everything(&self, warrant: &Warrant) -> Replicas {
        let only_me = Replicas::NONE.with(self.me);
        let parts = self.parts.lock().clone();
        let mut all = self.others().into_iter().collect::<Replicas>();
        for part in &parts {
            let PartState::Led { led, .. } = &part.state else {
                return only_me;
            };
            let listed = led.record().members;
            let fewer = warrant.listing().fewer(part.number());
            all = all.intersection(fewer.map_or(listed, |fewer| listed.intersection(fewer)));
        }
        let def = self.def();
        let is_led = |id: &[u8; 16]| parts.iter().any(|p| p.id == *id);
        let lacks_none = def.databases.iter().all(|d| is_led(&d.group_database_id));
        let none_goes = parts.iter().all(|p| p.stays(&def));
        match lacks_none && none_goes && !parts.is_empty() {
            true => all.with(self.me),
            false => only_me,
        }
    }

    /// Replicas whose servers are nodes, in the order of the definition.
    fn members(&self, state: &ClusterState) -> Vec<(ReplicaDef, u8)> {
        let def = self.def();
        let nodes = def.replicas.iter().filter_map(|r| {
            let node = state.named(&r.server)?;
            Some((r.clone(), node.number))
        });
        nodes.collect()
    }

    /// Replicas that the cluster lists now.
    pub(super) fn listed(&self, warrant: &Warrant) -> Replicas {
        let (Some(entry), Some(cluster)) = (warrant.entry(), warrant.cluster()) else {
            return Replicas::NONE;
        };
        let members = self.members(&cluster.state()).into_iter();
        let listed = members.filter(|(_, node)| entry.in_sync.contains(node));
        listed
            .filter_map(|(r, _)| ReplicaId::new(r.number))
            .collect()
    }

    pub(super) fn nodes(&self, state: &ClusterState, replicas: Replicas) -> Vec<u8> {
        let is_one = |r: &ReplicaDef| {
            let id = ReplicaId::new(r.number);
            id.is_some_and(|id| replicas.contains(id))
        };
        let members = self.members(state).into_iter();
        let those = members.filter(|(r, _)| is_one(r));
        state.listable(&those.map(|(_, node)| node).collect::<Vec<u8>>())
    }

    /// Where the group may go by itself: from a replica that fails over by itself to one that does, in the order of the definition.
    fn automatic(&self, state: &ClusterState) -> Vec<u8> {
        let is_automatic = |r: &ReplicaDef| r.failover_mode == FailoverMode::Automatic;
        let own = self.replica(self.me.number());
        if !own.as_ref().is_some_and(is_automatic) {
            return Vec::new();
        }
        let members = self.members(state).into_iter();
        let those = members.filter(|(r, _)| is_automatic(r));
        state.listable(&those.map(|(_, node)| node).collect::<Vec<u8>>())
    }

    /// Before a definition is stored: whoever lacks a database that comes, or is to go, may not be named any more, and nobody is where a database
    /// is to go. `Err`: that is not agreed, as where this server was passed over.
    pub(super) fn let_others_go(&self) -> Result<()> {
        let Some(warrant) = &self.warrant else {
            return Ok(());
        };
        let refused = |why: &str| cluster_error(&self.def().name, why);
        if !warrant.stands() {
            return Err(refused("the lease has expired"));
        }
        self.list_anew(warrant).map_err(|why| refused(&why))?;
        // The lease may have run out before the cluster was told.
        let most = warrant.listing().most();
        match most.is_subset_of(self.have_everything(warrant)) {
            true => Ok(()),
            false => Err(refused("the cluster has not let the other replicas go")),
        }
    }

    /// The same before the group ends here: all its databases are to go.
    pub(super) fn let_others_go_for_good(&self) -> Result<()> {
        self.set_def(GroupDef {
            databases: Vec::new(),
            ..(*self.def()).clone()
        });
        self.let_others_go()
    }
}

fn same_set(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().all(|n| b.contains(n))
}
