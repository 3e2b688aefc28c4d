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
//! Read next: `listing` (who has everything), `handover` (how another becomes the owner), `warrant`.

use super::ballots::Ballots;
use super::failover::not_online;
use super::group::{Group, Task};
use super::office::FirstList;
use super::part::{DatabasePart, PartState};
use super::reign::Numbers;
use super::warrant::{Ownership, Warrant};
use daruma_catalog::{ClusterType, GroupDef, names_equal};
use daruma_cluster::{Cluster, Command};
use daruma_group::commit::Role;
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::instance::hadr::Availability;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Between two looks at who owns the group, where nothing is told of it.
const WATCH: Duration = Duration::from_millis(250);
/// Between two looks for a lease that is about to come.
pub(super) const SOON: Duration = Duration::from_millis(5);
/// A server that the cluster has named owner has a lease by then, or the cluster has lost its quorum.
const LEASE_TIMEOUT: Duration = Duration::from_secs(10);
/// What could not be led is tried again after so long, and is passed on to others as often.
const LEAD_AGAIN: Duration = Duration::from_secs(5);
/// Numbers of a log's epochs are above the cluster's by so many bits: each owner's reign counts more than all of the one before, which
/// raises its own as CLUSTER_TYPE = NONE does.
const EPOCH_BITS: u32 = 32;

/// The least number that an epoch of a log may have, led by the owner in this epoch of the cluster.
pub(super) fn least_number(epoch: u64) -> u64 {
    epoch.saturating_mul(1 << EPOCH_BITS)
}

/// What a reign in this epoch, and the epochs of its logs, may be numbered. Where voters decide, one that others have left behind stays below theirs; a
/// cluster that was made anew may count from the beginning.
fn numbers(warrant: &Warrant, epoch: u64) -> Numbers {
    Numbers {
        least: least_number(epoch),
        most: match warrant.ballots() {
            Some(_) => least_number(epoch.saturating_add(1)).saturating_sub(1),
            None => u64::MAX,
        },
    }
}

/// The epoch in which a reign of this number began.
pub(super) fn owner_epoch(number: u64) -> u64 {
    number >> EPOCH_BITS
}

/// What was tried, so that what fails is not tried without end.
#[derive(Default)]
pub(super) struct Tries {
    /// The epoch that was to be led, and when it may be tried once more.
    led: Option<(u64, Instant)>,
    /// When the group may be passed on once more.
    passed: Option<Instant>,
}

impl Tries {
    /// May this epoch be led now? It is tried, then.
    fn may_lead(&mut self, epoch: u64) -> bool {
        let now = Instant::now();
        let is_early = self.led.is_some_and(|(e, at)| e == epoch && now < at);
        if !is_early {
            self.led = Some((epoch, now + LEAD_AGAIN));
        }
        !is_early
    }

    /// May the group be passed on now? It is, then.
    pub(super) fn may_pass(&mut self) -> bool {
        let now = Instant::now();
        let is_early = self.passed.is_some_and(|at| now < at);
        if !is_early {
            self.passed = Some(now + LEAD_AGAIN);
        }
        !is_early
    }

    /// The last try does not count.
    pub(super) fn forget(&mut self) {
        self.led = None;
    }
}

impl Group {
    /// A thread that tells the group's when the owner has changed.
    pub(super) fn watch_owner(self: &Arc<Self>) {
        let Some(warrant) = &self.warrant else { return };
        let mut told = None;
        let mut count = warrant.news().count();
        while !self.is_stopped() {
            // Before the look: a lease that runs out in between is looked for again at once.
            let limit = warrant.holds_for().unwrap_or(WATCH).min(WATCH);
            let seen = (warrant.ownership(), warrant.leads());
            if told != Some(seen) {
                told = Some(seen);
                self.tell(Task::Owner);
            }
            warrant.news().wait(count, limit);
            count = warrant.news().count();
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
            (Ownership::Held(now), _) if !self.tries.lock().may_lead(now) => {}
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

    /// This server is the owner: it leads, or has another lead that can.
    pub(super) fn take_office(self: &Arc<Self>, warrant: &Warrant, epoch: u64) -> Result<()> {
        if self.is_removed() {
            return Err(not_online(&self.def().name));
        }
        self.common.log(&format!(
            "Availability group '{}': {} has this server lead, in epoch {epoch}.",
            self.def().name,
            match warrant.ballots() {
                Some(_) => "its manager",
                None => "the cluster",
            }
        ));
        self.step_down(warrant);
        let led = self.lead_from_here(warrant, epoch);
        let speaks = match warrant.ballots().map(Ballots::office) {
            Some(office) => office.is_some_and(|office| office.speaks(led.is_ok())),
            None => led.is_ok() || !self.pass_on(warrant, epoch),
        };
        if speaks {
            warrant.speak();
        }
        led
    }

    fn lead_from_here(self: &Arc<Self>, warrant: &Warrant, epoch: u64) -> Result<()> {
        if warrant.ownership() != Ownership::Held(epoch) {
            return Err(not_online(&self.def().name));
        }
        let numbers = numbers(warrant, epoch);
        self.begin_forced(numbers)?;
        let office = warrant.ballots().and_then(Ballots::office);
        match office.map(|office| office.list) {
            Some(FirstList::Read(read)) => warrant.listing().begin_read(epoch, read),
            Some(FirstList::Alone) => warrant.listing().begin_alone(epoch),
            Some(FirstList::Counts) | None => warrant.begin(epoch, self.listed(warrant)),
        }
        self.is_paused.store(false, Ordering::Release);
        self.force_all(numbers)
    }

    /// A database that could not be led, or was fenced, and is followed: it is tried once more, in an epoch of its own.
    fn lead_again(&self, warrant: &Warrant, epoch: u64) {
        let is_followed = |p: &DatabasePart| matches!(p.state, PartState::Followed { .. });
        if !self.parts.lock().iter().any(is_followed) {
            return;
        }
        if !self.tries.lock().may_lead(epoch) {
            return;
        }
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
    pub(super) fn step_down(self: &Arc<Self>, warrant: &Warrant) {
        warrant.listing().end();
        self.dismiss_all();
    }

    /// Nothing is led here any more: the databases are followed.
    pub(super) fn dismiss_all(self: &Arc<Self>) {
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
}

/// Error 41131, with what the cluster has against it.
pub(super) fn cluster_error(group: &str, why: &str) -> SqlError {
    let text = format!("Failed to bring availability group '{group}' online: {why}.");
    SqlError::new(41131, 16, 1, text)
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
    let wish = |command| cluster.wish(command).agreed();
    // One whose creation here was cut short.
    let left = state.groups.iter().filter(|g| {
        g.owner == Some(me) && names_equal(&g.name, &def.name) && !known.contains(&g.id)
    });
    for group in left {
        wish(Command::DropGroup {
            group: group.id,
            epoch: group.epoch,
        })?;
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
        std::thread::sleep(SOON);
    }
    let group = def.group_id;
    // This node may not have heard yet that it was created.
    let epoch = cluster.state().group(&group).map_or(1, |g| g.epoch);
    let _ = wish(Command::DropGroup { group, epoch });
    Err("the cluster has given no lease".into())
}

/// Does anybody but an administrator say who leads, so that a server does not begin by itself?
pub(super) fn is_decided(def: &GroupDef) -> bool {
    def.options.cluster_type != ClusterType::None
}

/// Does a manager outside say who leads?
pub(super) fn is_external(def: &GroupDef) -> bool {
    def.options.cluster_type == ClusterType::External
}

/// Does the cluster say who leads?
pub(super) fn is_clustered(def: &GroupDef) -> bool {
    def.options.cluster_type == ClusterType::Wsfc
}
