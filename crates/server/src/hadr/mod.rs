//! Availability groups of a server: what statements ask for is done with the databases' logs and the connections of `daruma_group`.
//!
//! Theory: [`daruma_tsql::instance::hadr`] knows definitions and sessions, [`daruma_group`] logs, epochs and links; this room has
//! a `Group` for each group of the server, whose one thread takes databases from role to role.
//!
//! | room | what it knows |
//! |---|---|
//! | `alter` | the order of a change |
//! | `ballots` | groups whose primary a manager outside names |
//! | `common` | the endpoint, invitations |
//! | `diagnosis` | whether the server still answers |
//! | `failover` | how this server becomes the primary |
//! | `group` | a group: its definition, its thread |
//! | `handover` | how the owner changes |
//! | `health` | when an owner is too ill to lead |
//! | `links` | who connects to whom |
//! | `listen` | ports of listeners |
//! | `listing` | which replicas have everything |
//! | `office` | the right to lead those groups |
//! | `owner` | groups whose owner a cluster names |
//! | `kept` | pages that a new replica has already |
//! | `pace` | how fast copies may be |
//! | `part` | the roles of a database |
//! | `reign`, `wire` | whose definition counts |
//! | `revert` | an old primary that comes back |
//! | `repair` | damaged pages, which other replicas give back |
//! | `seed` | copies for replicas that lack a database |
//! | `states` | what views show |
//! | `warrant` | what a cluster, or the group's voters, say of who leads, and are told |
//!
//! Latches: those of a group are taken alone, before those of `daruma_group`; no statement is waited for under one.

mod alter;
mod ballots;
mod common;
mod diagnosis;
mod failover;
mod group;
mod handover;
mod health;
mod kept;
mod links;
mod listen;
mod listing;
mod office;
mod owner;
mod pace;
mod packing;
mod part;
mod reign;
mod repair;
mod revert;
mod seed;
mod states;
mod warrant;
mod wire;

use crate::cluster;
use crate::error::ServerError;
use crate::listener::Doors;
use common::Common;
use daruma_base::{DatabaseId, PageId};
use daruma_catalog::{ClusterType, EndpointDef, GroupDef};
use daruma_cluster::{Cluster, Command};
use daruma_group::commit::{ReplicaId, Vote};
use daruma_group::compress::Defaults;
use daruma_tsql::error::Result;
use daruma_tsql::instance::Instance;
use daruma_tsql::instance::hadr::{
    ClusterSeen, DatabaseAct, DatabaseReplicaState, EndpointIdentity, GroupAct, HadrService,
    NotEnabled, OpenPort, PageRepair, ReplicaRole, ReplicaState, Seeding,
};
use daruma_tsql::messages;
use group::Group;
use reign::Reign;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// ALTER AVAILABILITY GROUP .. JOIN waits so long for the primary to connect.
const INVITATION_TIMEOUT: Duration = Duration::from_secs(15);
/// Groups have so long to be handed over, all of them: longer than the cluster takes for any wish.
const HAND_OVER_LIMIT: Duration = Duration::from_secs(15);

/// The availability groups of a server. Dropped or stopped, nothing of them runs any more.
pub struct Availability {
    common: Arc<Common>,
}

impl Availability {
    /// Begins with the groups that `instance` knows, and serves its statements. To be called before the databases are recovered:
    /// those of groups are opened here. `compression`: of the log that goes to replicas, where no trace flag says otherwise.
    pub fn start(
        instance: &Arc<Instance>,
        cluster: Option<Arc<Cluster>>,
        compression: Defaults,
    ) -> Availability {
        let common = Common::new(instance, cluster, compression);
        if let Some(cluster) = common.cluster() {
            let of = Arc::downgrade(&common);
            cluster.hands_over_by(move || {
                if let Some(common) = of.upgrade() {
                    hand_over(&common);
                }
            });
        }
        let service = Service {
            common: common.clone(),
        };
        instance.hadr.join(Arc::new(service));
        if let Some(endpoint) = instance.hadr.endpoints.find(|_| true) {
            let started = instance
                .endpoint_identity(&endpoint)
                .and_then(|identity| common.set_endpoint(Some((&endpoint, identity))));
            if let Err(error) = started {
                common.log(&format!(
                    "The endpoint '{}' could not be started: {error}",
                    endpoint.name
                ));
            }
        }
        for def in instance.hadr.groups.all() {
            match Group::open(&common, (*def).clone()) {
                Ok(group) => common.take_in(group),
                Err(error) => common.log(&format!(
                    "The availability group '{}' could not be started: {error}",
                    def.name
                )),
            }
        }
        if common.cluster().is_some()
            && let Err(error) = common.diagnosis.begin(instance)
        {
            common.log(&format!("The server is not asked how it is: {error}"));
        }
        Availability { common }
    }

    /// The server listens: listeners of groups may, too.
    pub fn listen(&self, doors: Doors) -> std::result::Result<(), ServerError> {
        let begun = self.common.ports.begin(&self.common, doors);
        begun.map_err(ServerError::Thread)
    }

    /// The server is told to stop, or to be gone at once: its groups and its node first, before anything else takes time.
    pub fn leave_cluster(&self, in_order: bool) {
        let Some(cluster) = self.common.cluster() else {
            return;
        };
        if in_order {
            hand_over(&self.common);
        }
        cluster::stop(cluster, in_order);
    }

    /// Ends connections, and what the databases of groups do. Sessions must have ended.
    pub fn stop(&self) {
        self.common.ports.stop();
        self.common.stop();
        let groups = std::mem::take(&mut *self.common.groups.write());
        groups.iter().for_each(|group| group.stop());
        groups.iter().for_each(|group| group.join());
        self.common.instance.hadr.join(Arc::new(NotEnabled));
    }
}

impl Drop for Availability {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Gives the groups that this server leads to others, as far as they can take them, and waits so long at most: one that hangs keeps
/// nobody from leaving the cluster.
fn hand_over(common: &Common) {
    let groups = common.groups.read().clone();
    let begun: Vec<_> = groups.iter().filter_map(|g| g.begin_hand_over()).collect();
    let until = Instant::now() + HAND_OVER_LIMIT;
    for told in begun {
        // A group whose thread has ended leads nothing.
        let _ = told.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

struct Service {
    common: Arc<Common>,
}

impl Service {
    fn group(&self, def: &GroupDef) -> Result<Arc<Group>> {
        let group = self.common.group(def.group_id);
        group.ok_or_else(|| messages::error(35221, &[]))
    }

    /// A group that begins here, and the epoch that it begins in, where an administrator does not decide. In a cluster, which gives this
    /// server a lease, that comes first.
    fn found(&self, def: &GroupDef) -> Result<Option<u64>> {
        self.check_cluster(def.options.cluster_type)?;
        if owner::is_external(def) {
            let own = def.replica(self.common.server_name());
            let me = own.and_then(|r| ReplicaId::new(r.number));
            return Ok(me.map(|me| Vote::first(me).word.epoch));
        }
        let Some(cluster) = self.common.cluster().filter(|_| owner::is_clustered(def)) else {
            return Ok(None);
        };
        let groups = self.common.groups.read().clone();
        let known: Vec<[u8; 16]> = groups.iter().map(|g| g.id()).collect();
        let epoch = owner::found(cluster, def, &known);
        epoch
            .map(Some)
            .map_err(|why| owner::cluster_error(&def.name, &why))
    }

    /// The cluster has nothing more to do with the group, which this server leads in this epoch. `false`: it has not agreed, as far as
    /// is known.
    fn forget(&self, def: &GroupDef, epoch: u64) -> bool {
        let Some(cluster) = self.common.cluster() else {
            return false;
        };
        let group = def.group_id;
        let drop = |epoch| cluster.wish(Command::DropGroup { group, epoch }).agreed();
        let agreed = drop(epoch).or_else(|why| {
            // This server may have been given another epoch since.
            let own = cluster.state().group(&group).cloned();
            let own = own.filter(|g| g.owner == Some(cluster.me().number()) && g.epoch > epoch);
            own.map_or(Err(why), |g| drop(g.epoch))
        });
        if let Err(why) = &agreed {
            self.common.log(&format!(
                "The cluster has not taken note that availability group '{}' ended: {why}.",
                def.name
            ));
        }
        agreed.is_ok()
    }

    /// Nobody else may come to lead what this server leads in a group that ends here: otherwise another could be named while its databases go on alone.
    /// Where somebody says who leads, that has to agree first; a server of whom nobody says so leaves nothing open.
    fn may_go_on_alone(&self, group: &Group, def: &GroupDef) -> bool {
        let Some(warrant) = &group.warrant else {
            return true;
        };
        match (warrant.leads(), warrant.ballots()) {
            (None, _) => false,
            (Some(epoch), None) => self.forget(def, epoch),
            (Some(_), Some(_)) => {
                let agreed = group.ask(|group| group.let_others_go_for_good());
                if let Err(error) = &agreed {
                    self.common.log(&format!(
                        "Availability group '{}' ends here, and its databases wait for more log: {error}",
                        def.name
                    ));
                }
                agreed.is_ok()
            }
        }
    }

    fn begin_group(&self, def: &GroupDef, epoch: Option<u64>) -> Result<()> {
        let own = def.replica(self.common.server_name());
        let reign = Reign {
            number: 1,
            id: self.common.random_id(),
            primary: own.map_or(0, |r| r.number),
        };
        let reign = reign.at_least(epoch.map_or(0, owner::least_number));
        // Databases come after the group's thread has begun, so that a failure leaves none of them in it. Who hears of it before they are
        // there takes the whole for newer.
        let empty = GroupDef {
            databases: Vec::new(),
            sequence_number: def.sequence_number - 1,
            ..def.clone()
        };
        let group = Group::create(&self.common, empty, reign, epoch)?;
        let whole = def.clone();
        let led = group.ask(move |group| {
            for database in &whole.databases {
                group.lead_new(database)?;
            }
            group.set_def(whole);
            group.announce();
            if let Some(warrant) = &group.warrant {
                warrant.speak();
            }
            Ok(())
        });
        match led {
            Ok(()) => {
                self.common.take_in(group);
                self.common.ports.look();
                Ok(())
            }
            Err(error) => {
                end(&group, true);
                Err(error)
            }
        }
    }

    /// Only a cluster needs this server to be a part of it.
    fn check_cluster(&self, cluster_type: ClusterType) -> Result<()> {
        match cluster_type {
            ClusterType::None | ClusterType::External => Ok(()),
            ClusterType::Wsfc if self.common.cluster().is_some() => Ok(()),
            ClusterType::Wsfc => Err(messages::not_supported(
                "CLUSTER_TYPE = WSFC on a server that is no node of a cluster (daruma cluster create, join)",
            )),
        }
    }
}

impl HadrService for Service {
    fn is_enabled(&self) -> bool {
        true
    }

    fn set_endpoint(&self, endpoint: Option<(&EndpointDef, EndpointIdentity)>) -> Result<()> {
        self.common.set_endpoint(endpoint)?;
        let groups = self.common.groups.read().clone();
        groups.iter().for_each(|group| group.connect());
        Ok(())
    }

    fn set_peers(&self, peers: &[Vec<u8>]) {
        self.common.set_peers(peers);
        let groups = self.common.groups.read().clone();
        groups.iter().for_each(|group| group.connect());
    }

    fn create_group(&self, def: &GroupDef) -> Result<()> {
        if let Some(listener) = &def.listener {
            self.common.ports.check(listener)?;
        }
        let epoch = self.found(def)?;
        let begun = self.begin_group(def, epoch);
        if let (Err(_), Some(epoch)) = (&begun, epoch)
            && owner::is_clustered(def)
        {
            self.forget(def, epoch);
        }
        begun
    }

    fn alter_group(&self, before: &GroupDef, after: &GroupDef) -> Result<()> {
        let group = self.group(before)?;
        if let Some(listener) = after
            .listener
            .as_ref()
            .filter(|_| before.listener != after.listener)
        {
            self.common.ports.check(listener)?;
        }
        if let Some(cluster) = self.common.cluster().filter(|_| owner::is_clustered(after)) {
            owner::check_nodes(cluster, after)
                .map_err(|why| owner::cluster_error(&after.name, &why))?;
        }
        if owner::is_external(after) && ballots::voters(before) != ballots::voters(after) {
            return Err(messages::not_supported(
                "another set of voting replicas with CLUSTER_TYPE = EXTERNAL",
            ));
        }
        let (before, after) = (before.clone(), after.clone());
        group.ask(move |group| {
            if !group.is_still_owner() {
                return Err(messages::error(35251, &[]));
            }
            group.set_def(after);
            let changed = group.prepare();
            if changed.is_err() {
                group.go_back(before);
            }
            changed
        })
    }

    fn settle_group(&self, before: &GroupDef, _: &GroupDef, is_stored: bool) {
        let Some(group) = self.common.group(before.group_id) else {
            return;
        };
        let before = before.clone();
        // A group whose thread has ended is taken up at the next start, as it is stored.
        let _ = group.ask(move |group| {
            match is_stored {
                true => group.settle(),
                false => group.go_back(before),
            }
            Ok(())
        });
    }

    fn drop_group(&self, def: &GroupDef) -> Result<()> {
        let Some(group) = self.common.group(def.group_id) else {
            // It could not be started: only its definition is left.
            return Ok(());
        };
        end(&group, self.may_go_on_alone(&group, def));
        self.common
            .groups
            .write()
            .retain(|g| g.id() != def.group_id);
        self.common.ports.look();
        Ok(())
    }

    fn join_group(&self, name: &str, cluster_type: ClusterType) -> Result<GroupDef> {
        self.check_cluster(cluster_type)?;
        let invitation = self.common.invitation(name, INVITATION_TIMEOUT);
        let invitation = invitation.ok_or_else(|| messages::error(47106, &[&name]))?;
        let mut def = invitation.group;
        self.check_cluster(def.options.cluster_type)?;
        def.creates_databases = false;
        def.databases.iter_mut().for_each(|d| d.is_joined = false);
        let group = Group::create(&self.common, def.clone(), invitation.reign, None)?;
        self.common.take_in(group);
        Ok(def)
    }

    fn act_on_group(&self, def: &GroupDef, act: GroupAct) -> Result<()> {
        let group = self.group(def)?;
        match act {
            GroupAct::Failover => group.ask(|group| group.fail_over(false)),
            GroupAct::ForceFailover => group.ask(|group| group.fail_over(true)),
            GroupAct::BecomeSecondary => group.ask(|group| group.become_secondary()),
            GroupAct::Offline => group.ask(|group| group.go_offline()),
            GroupAct::Online => Err(messages::not_supported("ONLINE")),
            GroupAct::RestartListener => {
                self.common.ports.restart(group.id());
                Ok(())
            }
        }
    }

    fn act_on_database(&self, def: &GroupDef, database: &str, act: DatabaseAct) -> Result<()> {
        let group = self.group(def)?;
        let name = database.to_string();
        group.ask(move |group| {
            match act {
                DatabaseAct::Join => group.join_database(&name)?,
                DatabaseAct::Leave => {
                    if let Some(database) = group.def().database(&name) {
                        group.leave(database.group_database_id);
                    }
                }
                DatabaseAct::Suspend | DatabaseAct::Resume => return group.rest(&name, act),
            }
            let mut def = (*group.def()).clone();
            let named = def.databases.iter_mut();
            named
                .filter(|d| daruma_catalog::names_equal(&d.name, &name))
                .for_each(|d| d.is_joined = act == DatabaseAct::Join);
            group.set_def(def);
            Ok(())
        })
    }

    fn opens(&self, database: &str) -> bool {
        let hadr = &self.common.instance.hadr;
        hadr.group_of_database(database).is_some()
    }

    fn role(&self, group_id: [u8; 16]) -> ReplicaRole {
        let group = self.common.group(group_id);
        group.map_or(ReplicaRole::Resolving, |g| g.role())
    }

    fn sequence_number(&self, group_id: [u8; 16]) -> Option<i64> {
        self.common.group(group_id)?.vote_number()
    }

    fn replicas(&self) -> Vec<ReplicaState> {
        let groups = self.common.groups.read().clone();
        groups.iter().flat_map(|g| g.replica_states()).collect()
    }

    fn databases(&self) -> Vec<DatabaseReplicaState> {
        let groups = self.common.groups.read().clone();
        groups.iter().flat_map(|g| g.database_states()).collect()
    }

    fn seedings(&self) -> Vec<Seeding> {
        let groups = self.common.groups.read().clone();
        groups
            .iter()
            .flat_map(|g| g.seedings.lock().clone())
            .collect()
    }

    fn page_repairs(&self) -> Vec<PageRepair> {
        let groups = self.common.groups.read().clone();
        groups.iter().flat_map(|g| g.repairs.rows()).collect()
    }

    fn page_is_damaged(&self, database: DatabaseId, page: PageId, error_type: i16) {
        let groups = self.common.groups.read().clone();
        groups
            .iter()
            .any(|g| g.page_is_damaged(database, page, error_type));
    }

    fn open_ports(&self) -> Vec<OpenPort> {
        let endpoint = self.common.endpoint_port();
        let sessions = self.common.ports.open_ports();
        sessions.into_iter().chain(endpoint).collect()
    }

    fn listener_is_open(&self, group_id: [u8; 16], ip: &str) -> Option<bool> {
        self.common.ports.is_open(group_id, ip)
    }

    fn cluster(&self) -> Option<ClusterSeen> {
        self.common.cluster().and_then(|c| cluster::seen(c))
    }
}

/// The group ends here: what this server leads stays open if nobody else may come to lead it (`stays_open`), all else waits for more log.
fn end(group: &Arc<Group>, stays_open: bool) {
    // A group whose thread has ended has nothing left.
    let _ = group.ask(move |group| {
        let parts = group.parts.lock().clone();
        parts
            .iter()
            .for_each(|part| group.let_go_of(part, stays_open));
        Ok(())
    });
    group.end();
    group.forget();
}
