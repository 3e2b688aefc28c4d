//! A group whose owner the cluster names (CLUSTER_TYPE = WSFC): this server leads while it is the owner, and not a moment longer.
//!
//! | seen | done |
//! |---|---|
//! | this server owns the group, in an epoch that it does not lead yet | what it leads from before ends; the databases are led, in an epoch of their logs above any before (`failover`) |
//! | its lease has run out, nobody else is known to own the group | nothing is acknowledged, sessions end, the role is RESOLVING; it goes on when the lease is there again |
//! | another owns it, or nobody | the databases are followed |
//!
//! A server that starts follows, whatever it was: the cluster gives an owner that was restarted an epoch of its own.
//!
//! | failover | done |
//! |---|---|
//! | the owner is gone | the cluster waits until its lease is certainly over, and names the first of `automatic` that it lists |
//! | planned | the owner is asked on the connection, and releases the group to whoever asked |
//! | the owner's server is stopped | the same, to the first of `automatic` that is there |
//! | forced | the cluster names whoever was told, whatever it lacks |

use super::failover::not_online;
use super::group::{Group, Task};
use super::part::{DatabasePart, PartState};
use super::warrant::{Ownership, Warrant};
use daruma_catalog::{ClusterType, FailoverMode, GroupDef, names_equal};
use daruma_cluster::{Cluster, ClusterState, Command};
use daruma_group::commit::{ReplicaId, Replicas, Role};
use daruma_group::replica::Authority;
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::instance::hadr::Availability;
use daruma_tsql::messages;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two looks at who owns the group.
const WATCH: Duration = Duration::from_millis(20);
/// Between two looks at who has everything, where nobody waits for it.
const LIST: Duration = Duration::from_millis(100);
/// A server that the cluster has named owner has a lease by then, or the cluster has lost its quorum.
const LEASE_TIMEOUT: Duration = Duration::from_secs(10);
/// A primary that has been asked has released the group by then, or does not.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(20);
/// A database that could not be led is tried again after so long.
const LEAD_AGAIN: Duration = Duration::from_secs(5);
/// Numbers of a log's epochs are above the cluster's by so many bits: each owner's reign counts more than all of the one before, which
/// raises its own as CLUSTER_TYPE = NONE does.
const EPOCH_BITS: u32 = 32;

/// The least number that an epoch of a log may have, led by the owner in this epoch of the cluster.
pub(super) fn least_number(epoch: u64) -> u64 {
    epoch.saturating_mul(1 << EPOCH_BITS)
}

impl Group {
    /// A thread that tells the group's when the owner has changed.
    pub(super) fn watch_owner(self: &Arc<Self>) {
        let Some(warrant) = &self.warrant else { return };
        let mut told = None;
        while !self.is_stopped() {
            let seen = (warrant.ownership(), warrant.leads());
            if told != Some(seen) {
                told = Some(seen);
                self.tell(Task::Owner);
            }
            std::thread::sleep(WATCH);
        }
    }

    /// Does what the owner's change asks for. What is done already is not done again.
    pub(super) fn follow_owner(self: &Arc<Self>) {
        let Some(warrant) = &self.warrant else { return };
        match (warrant.ownership(), warrant.leads()) {
            (Ownership::Held(now), Some(mine)) if now == mine => {
                self.regain_lease();
                self.lead_again(warrant, now);
            }
            (Ownership::Held(now), _) => {
                if let Err(error) = self.take_office(warrant, now) {
                    let name = self.def().name.clone();
                    self.common.log(&format!(
                        "Availability group '{name}' could not be led: {error}"
                    ));
                }
            }
            (Ownership::Lapsed, Some(_)) => self.lose_lease(),
            (Ownership::Lost, Some(_)) => self.step_down(warrant),
            (_, None) => {}
        }
    }

    /// The group begins here, in this epoch of the cluster if there is one.
    pub(super) fn found(&self, epoch: Option<u64>) {
        if let (Some(warrant), Some(epoch)) = (&self.warrant, epoch) {
            warrant.begin(epoch, Replicas::NONE);
        }
    }

    /// This server is the owner: it leads.
    fn take_office(self: &Arc<Self>, warrant: &Warrant, epoch: u64) -> Result<()> {
        if self.is_removed() {
            return Err(not_online(&self.def().name));
        }
        self.common.log(&format!(
            "Availability group '{}': the cluster has this server lead, in epoch {epoch}.",
            self.def().name
        ));
        self.step_down(warrant);
        if warrant.ownership() != Ownership::Held(epoch) {
            return Err(not_online(&self.def().name));
        }
        let least = least_number(epoch);
        self.begin_forced(least)?;
        warrant.begin(epoch, self.listed(warrant));
        self.is_paused.store(false, Ordering::Release);
        self.force_all(least)
    }

    /// A database that could not be led, or was fenced, and is followed: it is tried once more, in an epoch of its own.
    fn lead_again(&self, warrant: &Warrant, epoch: u64) {
        let is_followed = |p: &DatabasePart| matches!(p.state, PartState::Followed { .. });
        if !self.parts.lock().iter().any(is_followed) {
            return;
        }
        let now = Instant::now();
        let mut again_at = self.again_at.lock();
        if again_at.is_some_and(|at| at > now) {
            return;
        }
        *again_at = Some(now + LEAD_AGAIN);
        let group = self.id();
        // What it says is seen as the next epoch, or tried again.
        let _ = warrant.wish(Command::Reclaim { group, epoch });
    }

    /// Does the cluster still have this server lead, in the epoch that it began?
    pub(super) fn is_still_owner(&self) -> bool {
        let Some(warrant) = &self.warrant else {
            return true;
        };
        warrant.leads().map(Ownership::Held) == Some(warrant.ownership())
    }

    /// Another owns the group: what this server leads is followed from now on.
    fn step_down(self: &Arc<Self>, warrant: &Warrant) {
        warrant.end();
        let parts = self.parts.lock().clone();
        for part in parts {
            if let PartState::Led { led, .. } = &part.state {
                led.dismiss();
                self.fenced(part.number());
            }
        }
    }

    /// The lease has run out. Nothing is acknowledged already.
    fn lose_lease(&self) {
        if self.is_paused.swap(true, Ordering::AcqRel) {
            return;
        }
        self.common.log(&format!(
            "The lease of availability group '{}' has expired: the cluster has no quorum, or does not hear this server. \
             The local availability replica is resolving.",
            self.def().name
        ));
        for part in self.led_parts() {
            self.set_availability(&part.entry, Availability::Resolving);
        }
    }

    fn regain_lease(&self) {
        if !self.is_paused.swap(false, Ordering::AcqRel) {
            return;
        }
        self.common.log(&format!(
            "The lease of availability group '{}' holds again.",
            self.def().name
        ));
        for part in self.led_parts() {
            if part.role() == Some(Role::Open) {
                self.set_availability(&part.entry, self.primary_availability());
            }
        }
    }

    fn led_parts(&self) -> Vec<DatabasePart> {
        let parts = self.parts.lock();
        parts
            .iter()
            .filter(|p| p.role().is_some())
            .cloned()
            .collect()
    }

    // --- who has everything

    /// A thread that tells the cluster who has everything.
    pub(super) fn keep_list(self: &Arc<Self>) {
        let Some(warrant) = &self.warrant else { return };
        let mut told = None;
        while !self.is_stopped() {
            warrant.wait_wanted(LIST);
            let trouble = self.list_anew(warrant).err();
            if let Some(why) = trouble.as_ref().filter(|why| told.as_ref() != Some(*why)) {
                self.common.log(&format!(
                    "The cluster could not be told which replicas of availability group '{}' have everything: {why}.",
                    self.def().name
                ));
            }
            told = trouble;
        }
    }

    /// Tells the cluster who has everything, if that is not what it knows. `Err`: it has not agreed.
    pub(super) fn list_anew(&self, warrant: &Warrant) -> std::result::Result<(), String> {
        let _one_at_a_time = warrant.change();
        let (Ownership::Held(epoch), Some(cluster)) = (warrant.ownership(), warrant.cluster())
        else {
            return Ok(());
        };
        if warrant.leads() != Some(epoch) {
            return Ok(());
        }
        let complete = self.have_everything(warrant);
        warrant.widen(complete);
        // Whoever has left a record before it was widened is gone from it by now.
        let complete = complete.intersection(self.have_everything(warrant));
        let state = cluster.state();
        let in_sync = self.nodes(&state, complete);
        let automatic = self.automatic(&state);
        let known = state.group(&self.id());
        let is_known = known.is_some_and(|g| {
            g.epoch == epoch && same_set(&g.in_sync, &in_sync) && g.automatic == automatic
        });
        if is_known && warrant.most() == complete {
            return Ok(());
        }
        warrant.say(epoch, complete, in_sync, automatic)?;
        let parts = self.parts.lock().clone();
        for part in parts {
            if let PartState::Led { led, .. } = &part.state {
                led.ask_again();
            }
        }
        Ok(())
    }

    /// Replicas that have everything of all databases, and are to stay. A database counts from the moment in which it is to come, to the
    /// one in which it is let go.
    fn have_everything(&self, warrant: &Warrant) -> Replicas {
        let only_me = Replicas::NONE.with(self.me);
        let parts = self.parts.lock().clone();
        let mut all = self.others().into_iter().collect::<Replicas>();
        for part in &parts {
            let PartState::Led { led, .. } = &part.state else {
                return only_me;
            };
            let listed = led.record().members;
            let fewer = warrant.fewer(part.number());
            all = all.intersection(fewer.map_or(listed, |fewer| listed.intersection(fewer)));
        }
        let def = self.def();
        let is_led = |id: &[u8; 16]| parts.iter().any(|p| p.id == *id);
        let lacks_none = def.databases.iter().all(|d| is_led(&d.group_database_id));
        match lacks_none && !parts.is_empty() {
            true => all.with(self.me),
            false => only_me,
        }
    }

    /// Replicas that the cluster lists now.
    fn listed(&self, warrant: &Warrant) -> Replicas {
        let (Some(entry), Some(cluster)) = (warrant.entry(), warrant.cluster()) else {
            return Replicas::NONE;
        };
        let state = cluster.state();
        let def = self.def();
        let listed = def.replicas.iter().filter(|r| {
            let node = state.named(&r.server);
            node.is_some_and(|n| entry.in_sync.contains(&n.number))
        });
        listed.filter_map(|r| ReplicaId::new(r.number)).collect()
    }

    fn nodes(&self, state: &ClusterState, replicas: Replicas) -> Vec<u8> {
        let def = self.def();
        let named = def.replicas.iter().filter(|r| {
            let id = ReplicaId::new(r.number);
            id.is_some_and(|id| replicas.contains(id))
        });
        named
            .filter_map(|r| state.named(&r.server).map(|n| n.number))
            .collect()
    }

    /// Where the group may go by itself: from a replica that fails over by itself to one that does, in the order of the definition.
    fn automatic(&self, state: &ClusterState) -> Vec<u8> {
        let def = self.def();
        let is_automatic =
            |r: &&daruma_catalog::ReplicaDef| r.failover_mode == FailoverMode::Automatic;
        let own = self.replica(self.me.number());
        if own.as_ref().filter(is_automatic).is_none() {
            return Vec::new();
        }
        let those = def.replicas.iter().filter(is_automatic);
        those
            .filter_map(|r| state.named(&r.server).map(|n| n.number))
            .collect()
    }

    /// Before a definition is stored: whoever lacks a database that comes, or is to go, may not be named any more.
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
        match warrant.most().is_subset_of(self.have_everything(warrant)) {
            true => Ok(()),
            false => Err(refused("the cluster has not let the other replicas go")),
        }
    }

    // --- failover

    /// By order of an administrator on this server.
    pub(super) fn ask_for_office(self: &Arc<Self>, warrant: &Warrant, forced: bool) -> Result<()> {
        let before = warrant.entry().map_or(0, |g| g.epoch);
        match forced {
            true => {
                let (group, epoch) = (self.id(), before);
                warrant
                    .wish(Command::Take { group, epoch })
                    .map_err(|why| cluster_error(&self.def().name, &why))?;
            }
            false => self.ask_owner(warrant)?,
        }
        let epoch = self
            .wait_for_lease(warrant, before, RELEASE_TIMEOUT)
            .ok_or_else(|| not_online(&self.def().name))?;
        self.take_office(warrant, epoch)
    }

    fn ask_owner(&self, warrant: &Warrant) -> Result<()> {
        let not_ready = || messages::error(41142, &[&self.def().name]);
        let is_listed = self.listed(warrant).contains(self.me);
        let parts = self.parts.lock().clone();
        let followed = parts.iter().find_map(|p| match &p.state {
            PartState::Followed { followed, .. } => Some(followed),
            _ => None,
        });
        let asked = followed.filter(|_| is_listed);
        let id = u128::from_be_bytes(self.common.random_id());
        match asked.is_some_and(|followed| followed.ask_to_lead(id)) {
            true => Ok(()),
            false => Err(not_ready()),
        }
    }

    /// An epoch of this server's after that one.
    fn wait_for_lease(&self, warrant: &Warrant, before: u64, limit: Duration) -> Option<u64> {
        let until = Instant::now() + limit;
        while Instant::now() < until && !self.is_stopped() {
            match warrant.ownership() {
                Ownership::Held(epoch) if epoch > before => return Some(epoch),
                _ => {}
            }
            std::thread::sleep(WATCH / 4);
        }
        None
    }

    /// A replica wants to take over.
    pub(super) fn hand_over(self: &Arc<Self>, to: ReplicaId) {
        let Some(warrant) = &self.warrant else { return };
        let Some(cluster) = warrant.cluster() else {
            return;
        };
        let node = self
            .nodes(&cluster.state(), Replicas::NONE.with(to))
            .first()
            .copied();
        if let Some(node) = node.filter(|_| self.listed(warrant).contains(to)) {
            self.release(warrant, node);
        }
    }

    /// The server is about to stop: somebody else leads, if anybody may.
    pub(super) fn hand_over_to_anybody(self: &Arc<Self>) {
        let Some(warrant) = &self.warrant else { return };
        let (Some(entry), Some(cluster)) = (warrant.entry(), warrant.cluster()) else {
            return;
        };
        if warrant.leads().is_none() {
            return;
        }
        let me = cluster.me().number();
        let nodes = cluster.show().map_or_else(Vec::new, |view| view.nodes);
        let is_up = |n: &u8| {
            nodes
                .iter()
                .any(|node| node.number == *n && node.state == "Up")
        };
        let mut able = entry.automatic.iter().copied();
        let to = able.find(|n| *n != me && entry.in_sync.contains(n) && is_up(n));
        if let Some(to) = to {
            self.release(warrant, to);
        }
    }

    /// Nothing is acknowledged under this epoch from here on, whatever the cluster answers.
    fn release(self: &Arc<Self>, warrant: &Warrant, to: u8) {
        let Some(epoch) = warrant.leads() else { return };
        let name = self.def().name.clone();
        let _one_at_a_time = warrant.change();
        let released = warrant.wish(Command::Release {
            group: self.id(),
            epoch,
            to: Some(to),
        });
        match released {
            Ok(()) => self.common.log(&format!(
                "Availability group '{name}' was released to node {to} of the cluster."
            )),
            Err(why) => self.common.log(&format!(
                "Availability group '{name}' could not be released to node {to} of the cluster: {why}."
            )),
        }
        self.step_down(warrant);
    }
}

/// Error 41131, with what the cluster has against it.
pub(super) fn cluster_error(group: &str, why: &str) -> SqlError {
    let text = format!("Failed to bring availability group '{group}' online: {why}.");
    SqlError::new(41131, 16, 1, text)
}

fn same_set(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().all(|n| b.contains(n))
}

/// `Err`: a replica's server is no node of the cluster, which could never name it.
pub(super) fn check_nodes(cluster: &Cluster, def: &GroupDef) -> std::result::Result<(), String> {
    let state = cluster.state();
    let mut servers = def.replicas.iter().map(|r| &r.server);
    match servers.find(|server| state.named(server).is_none()) {
        Some(stranger) => Err(format!("'{stranger}' is no node of the cluster")),
        None => Ok(()),
    }
}

/// The cluster takes note of a group that begins on this server. The epoch under which it leads.
pub(super) fn found(
    cluster: &Cluster,
    def: &GroupDef,
    known: &[[u8; 16]],
) -> std::result::Result<u64, String> {
    check_nodes(cluster, def)?;
    let state = cluster.state();
    let me = cluster.me().number();
    let wish = |command| match cluster.wish(command) {
        daruma_cluster::Outcome::Refused(why) | daruma_cluster::Outcome::Unknown(why) => Err(why),
        _ => Ok(()),
    };
    // One whose creation here was cut short.
    let left = state.groups.iter().filter(|g| {
        g.owner == Some(me) && names_equal(&g.name, &def.name) && !known.contains(&g.id)
    });
    for group in left {
        wish(Command::DropGroup { group: group.id })?;
    }
    wish(Command::CreateGroup {
        group: def.group_id,
        name: def.name.clone(),
        automatic: Vec::new(),
    })?;
    let until = Instant::now() + LEASE_TIMEOUT;
    while Instant::now() < until {
        if let Some(owned) = cluster.owned(&def.group_id) {
            return Ok(owned.epoch);
        }
        std::thread::sleep(WATCH);
    }
    let _ = wish(Command::DropGroup {
        group: def.group_id,
    });
    Err("the cluster has given no lease".into())
}

/// Does the cluster say who leads?
pub(super) fn is_clustered(def: &GroupDef) -> bool {
    def.options.cluster_type == ClusterType::Wsfc
}
