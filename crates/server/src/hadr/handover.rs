//! How another server becomes the owner of a group that the cluster names owners of.
//!
//! | failover | done |
//! |---|---|
//! | the owner is gone | the cluster waits until its lease is certainly over, and names the first of `automatic` that it lists |
//! | planned | the owner is asked on the connection, and releases the group to whoever asked |
//! | the owner's server is stopped, or too ill (`health`) | the same, to the first of `automatic` that is there |
//! | the owner cannot lead a database | the same; what it can lead it leads where there is nobody, or where all have tried |
//! | forced | the cluster names whoever was told, whatever it lacks |

use super::failover::not_online;
use super::group::{Group, Task};
use super::owner::{SOON, cluster_error};
use super::part::PartState;
use super::warrant::{Ownership, Warrant};
use daruma_cluster::Command;
use daruma_group::commit::{ReplicaId, Replicas};
use daruma_group::replica::Authority;
use daruma_tsql::error::Result;
use daruma_tsql::messages;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A word to the cluster that is under way is waited for so long.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(2);
/// A primary that has been asked has released the group by then, or does not.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(20);

impl Group {
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
            std::thread::sleep(SOON);
        }
        None
    }

    /// A replica wants to take over.
    pub(super) fn hand_over(self: &Arc<Self>, to: ReplicaId) {
        let Some(warrant) = &self.warrant else { return };
        let (Some(epoch), Some(cluster)) = (warrant.leads(), warrant.cluster()) else {
            return;
        };
        let nodes = self.nodes(&cluster.state(), Replicas::NONE.with(to));
        if let Some(node) = nodes.first().filter(|_| self.listed(warrant).contains(to)) {
            self.release(warrant, epoch, *node);
        }
    }

    /// The server is about to stop: somebody else leads, if anybody may. Without a lease nobody would hear of it.
    pub(super) fn hand_over_to_anybody(self: &Arc<Self>) {
        let Some(warrant) = self.warrant.as_ref().filter(|w| Authority::stands(&***w)) else {
            return;
        };
        if let (Some(epoch), Some(to)) = (warrant.leads(), successor(warrant)) {
            self.release(warrant, epoch, to);
        }
    }

    /// Has the thread hand over, and tells when it has. `None`: it has been told before, and has not come to that yet.
    pub(super) fn begin_hand_over(&self) -> Option<Receiver<()>> {
        if self.is_handing_over.swap(true, Ordering::AcqRel) {
            return None;
        }
        let (done, told) = channel();
        self.tell(Task::Do(Box::new(move |group| {
            group.hand_over_to_anybody();
            group.is_handing_over.store(false, Ordering::Release);
            // Whoever asked may have given up.
            let _ = done.send(());
        })));
        Some(told)
    }

    /// This server is too ill to lead, or does not answer: as above, from any thread, and though it may not have begun to lead. All whom the
    /// cluster lists have everything then. `None`: nothing was tried.
    pub(super) fn let_go_for_health(&self) -> Option<bool> {
        let warrant = self.warrant.as_ref()?;
        let Ownership::Held(epoch) = warrant.ownership() else {
            return None;
        };
        self.let_go(warrant, epoch, successor(warrant)?)
    }

    /// Not all databases could be led here: somebody else leads, if anybody may. Before the first word of this reign, all whom the
    /// cluster lists have everything.
    pub(super) fn pass_on(self: &Arc<Self>, warrant: &Warrant, epoch: u64) -> bool {
        let is_owner = warrant.ownership() == Ownership::Held(epoch);
        if !is_owner || !self.tries.lock().may_pass() {
            return false;
        }
        successor(warrant).is_some_and(|to| self.release(warrant, epoch, to))
    }

    /// `true`: the cluster has agreed. Nothing is acknowledged or shown under this epoch from here on, whatever it answers.
    fn release(self: &Arc<Self>, warrant: &Warrant, epoch: u64, to: u8) -> bool {
        let is_free = self.let_go(warrant, epoch, to);
        self.step_down(warrant);
        is_free == Some(true)
    }

    /// As `release`, from any thread: the one of the roles steps down when it can. `None`: another epoch is led by now.
    fn let_go(&self, warrant: &Warrant, epoch: u64, to: u8) -> Option<bool> {
        // Whoever tells the cluster at this moment tells it of this epoch, which it leaves behind; one that hangs is not waited for.
        let one_at_a_time = warrant.change_within(CHANGE_TIMEOUT);
        if !warrant.listing().end_epoch(epoch) {
            return None;
        }
        let released = warrant.wish(Command::Release {
            group: self.id(),
            epoch,
            to: Some(to),
        });
        drop(one_at_a_time);
        let name = self.def().name.clone();
        self.common.log(&match &released {
            Ok(()) => format!("Availability group '{name}' was released to node {to} of the cluster."),
            Err(why) => format!(
                "Availability group '{name}' could not be released to node {to} of the cluster: {why}."
            ),
        });
        if released.is_err() {
            // It may have to lead on.
            self.tries.lock().forget();
        }
        Some(released.is_ok())
    }

    /// Another thread has let go of the group. What was begun since is another reign.
    pub(super) fn step_down_if_let_go(self: &Arc<Self>) {
        let Some(warrant) = &self.warrant else { return };
        if warrant.leads().is_none() {
            self.step_down(warrant);
        }
    }
}

/// The first node to which the group may move by itself, and that is there.
fn successor(warrant: &Warrant) -> Option<u8> {
    let (entry, cluster) = (warrant.entry()?, warrant.cluster()?);
    let me = cluster.me().number();
    let view = cluster.show()?;
    let is_up = |n: u8| {
        let mut nodes = view.nodes.iter();
        nodes.any(|node| node.number == n && node.state == "Up")
    };
    let mut able = entry.automatic.iter().copied();
    able.find(|n| *n != me && entry.in_sync.contains(n) && is_up(*n))
}
