//! One group on this server: its definition, its connections, and the thread that changes what its databases are.
//!
//! Theory: roles change on one thread (`work`), which statements ask and wait for, and which the databases' own threads tell what has
//! happened to them. Links, statements and views only look. Definitions that the primary sends are stored by a thread of their own,
//! since a statement holds the stored definition while it waits for the other one.
//!
//! Invariants
//! 1. Only `work` changes `parts` and the role of a database.
//! 2. `work` never waits for stored definitions.
//!
//! Read next: `part`, `links`, `states`.

use super::ballots::Ballots;
use super::common::{Common, file_error};
use super::health::Health;
use super::office::{FirstList, Office};
use super::owner::{Tries, is_decided, is_external, owner_epoch};
use super::part::DatabasePart;
use super::reign::{Failover, Kept, KeptFile, Reign};
use super::repair::Repairs;
use super::seed::Incoming;
use super::warrant::Warrant;
use super::wire::Definition;
use daruma_base::PageId;
use daruma_catalog::{
    AvailabilityMode, GroupDatabaseDef, GroupDef, PrimaryConnections, ReplicaDef,
    SecondaryConnections,
};
use daruma_group::commit::{ReplicaConfig, ReplicaId, Replicas, Role, Rules, Vote};
use daruma_group::replica::{Authority, Node};
use daruma_group::transport::Dialer;
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::instance::hadr::{Availability, ReplicaRole, Seeding};
use daruma_tsql::messages;
use parking_lot::{Condvar, Mutex, RwLock};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of log that a replica may lack when commits begin to wait for it.
const WINDOW_BYTES: u64 = 4 << 20;
/// How often a secondary says how far it is, and a failed question to the judge is asked again.
const TICK: Duration = Duration::from_millis(500);
/// Between two looks at what can be written and let go of.
const UPKEEP: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce(&Arc<Group>) + Send>;

/// What the thread is told.
pub(super) enum Task {
    Do(Job),
    /// A database of this number: sessions may come, as its participants have its epoch.
    Opened(u128),
    /// Another replica leads it.
    Fenced(u128),
    /// This server is a replica of the group no more.
    Removed,
    /// Readers may come.
    Readable(u128),
    /// The flag goes down before they are read: until then nobody needs to tell it again.
    Definitions(u128, Arc<AtomicBool>),
    Failed(u128, String, Option<(PageId, bool)>),
    /// The definition has changed.
    Defined,
    /// The cluster has another owner, or the lease of this one has run out or come back.
    Owner,
    /// A replica wants to take over.
    HandOver(ReplicaId),
    /// Another thread has let go of the group.
    LetGo,
    Stop,
}

/// See the module.
pub(super) struct Group {
    pub common: Arc<Common>,
    id: [u8; 16],
    pub me: ReplicaId,
    def: RwLock<Arc<GroupDef>>,
    pub node: Arc<Node>,
    kept: Mutex<KeptFile>,
    pub parts: Mutex<Vec<DatabasePart>>,
    tasks: Sender<Task>,
    incoming: Mutex<Option<Definition>>,
    came: Condvar,
    pub dialers: Mutex<Vec<(ReplicaId, Dialer)>>,
    /// Since when this secondary has had no connection to the primary.
    pub alone_since: Mutex<Option<Instant>>,
    pub seedings: Mutex<Vec<Seeding>>,
    /// The copy that is under way.
    pub copying: Mutex<Option<Arc<Incoming>>>,
    pub repairs: Repairs,
    /// What says who leads, where somebody does (CLUSTER_TYPE = WSFC and EXTERNAL).
    pub warrant: Option<Arc<Warrant>>,
    /// The lease has run out.
    pub is_paused: AtomicBool,
    /// A manager has said so (OFFLINE), and nothing else since.
    pub is_offline: AtomicBool,
    /// The thread has been told to hand over, and has not done so yet.
    pub is_handing_over: AtomicBool,
    /// What was tried by order of the cluster.
    pub tries: Mutex<Tries>,
    pub health: Mutex<Health>,
    /// How often the thread has looked around.
    ticks: AtomicU64,
    stopped: AtomicBool,
    /// The group has ended here: it does not begin again with the server.
    ended: AtomicBool,
    worker: Mutex<Option<JoinHandle<()>>>,
    /// The others, which may wait for stored definitions.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Group {
    /// A group that begins here, in this epoch of the cluster if there is one, or that this server joins.
    pub(super) fn create(
        common: &Arc<Common>,
        def: GroupDef,
        reign: Reign,
        epoch: Option<u64>,
    ) -> Result<Arc<Group>> {
        let path = kept_path(common, &def);
        common
            .disk()
            .create_dir_all(&common.folder())
            .map_err(|e| file_error(&path, &e))?;
        let failed = |e: std::io::Error| file_error(&path, &e);
        let own = def.replica(common.server_name());
        let me = own.and_then(|r| ReplicaId::new(r.number));
        let founds = is_external(&def) && epoch.is_some();
        let vote = me.filter(|_| founds).map(|me| Vote::first(me).into());
        let kept = KeptFile::create(common.disk(), &path, reign, vote).map_err(failed)?;
        Group::begin(common, def, kept, epoch)
    }

    /// A group that was here when the server stopped.
    pub(super) fn open(common: &Arc<Common>, def: GroupDef) -> Result<Arc<Group>> {
        let path = kept_path(common, &def);
        let kept = KeptFile::open(common.disk(), &path).map_err(|e| file_error(&path, &e))?;
        let missing = || file_error(&path, &std::io::ErrorKind::NotFound.into());
        Group::begin(common, def, kept.ok_or_else(missing)?, None)
    }

    fn begin(
        common: &Arc<Common>,
        def: GroupDef,
        kept: KeptFile,
        epoch: Option<u64>,
    ) -> Result<Arc<Group>> {
        let own = def.replica(common.server_name());
        let me = own.and_then(|r| ReplicaId::new(r.number));
        let me = me.ok_or_else(|| messages::error(35237, &[&def.name]))?;
        let (tasks, told) = channel();
        let warrant = is_decided(&def).then(|| {
            let cluster = common.cluster().cloned();
            let ballots = is_external(&def).then(Ballots::default);
            let tell = teller(&tasks);
            Arc::new(Warrant::new(cluster, ballots, def.group_id, me, tell))
        });
        if let (Some(warrant), Some(epoch)) = (&warrant, epoch) {
            if let Some(ballots) = warrant.ballots() {
                ballots.take(Office {
                    epoch,
                    list: FirstList::Counts,
                    is_forced: false,
                });
            }
            warrant.begin(epoch, Replicas::NONE);
        }
        let group = Arc::new(Group {
            common: common.clone(),
            id: def.group_id,
            me,
            def: RwLock::new(Arc::new(def)),
            node: Arc::default(),
            kept: Mutex::new(kept),
            parts: Mutex::default(),
            tasks,
            incoming: Mutex::default(),
            came: Condvar::new(),
            dialers: Mutex::default(),
            alone_since: Mutex::default(),
            seedings: Mutex::default(),
            copying: Mutex::default(),
            repairs: Repairs::default(),
            warrant,
            is_paused: AtomicBool::new(false),
            is_offline: AtomicBool::new(false),
            is_handing_over: AtomicBool::new(false),
            tries: Mutex::default(),
            health: Mutex::default(),
            ticks: AtomicU64::default(),
            stopped: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            worker: Mutex::default(),
            threads: Mutex::default(),
        });
        let others: [(&str, fn(&Arc<Group>)); 7] = [
            ("hadr define", Group::define),
            ("hadr upkeep", Group::keep_up),
            ("hadr seed", Group::seed_missing),
            ("hadr repair", Group::repair_pages),
            ("hadr owner", Group::watch_owner),
            ("hadr list", Group::keep_list),
            ("hadr health", Group::watch_health),
        ];
        let started = group
            .spawn("hadr roles", move |group| group.work(&told))
            .and_then(|worker| {
                *group.worker.lock() = Some(worker);
                for (name, work) in others {
                    let thread = group.spawn(name, work)?;
                    group.threads.lock().push(thread);
                }
                Ok(())
            });
        match started {
            Ok(()) => Ok(group),
            Err(error) => {
                group.stop();
                Err(SqlError::new(17300, 16, 1, error.to_string()))
            }
        }
    }

    fn spawn(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Arc<Group>) + Send + 'static,
    ) -> std::io::Result<JoinHandle<()>> {
        let group = self.clone();
        let builder = std::thread::Builder::new().name(name.into());
        builder.spawn(move || work(&group))
    }

    /// Ends connections and roles, then what the databases do; they are closed but where they can go on alone. The threads that may
    /// wait for a stored definition, which a statement that ends the group holds, end by themselves.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.dialers.lock().clear();
        self.node
            .connections()
            .iter()
            .for_each(|(_, link)| link.close());
        // Nobody listens when the thread has ended already.
        let _ = self.tasks.send(Task::Stop);
        // Whoever has looked before this waits by now.
        drop(self.incoming.lock());
        self.came.notify_all();
        self.repairs.wake();
        self.warrant.iter().for_each(|w| w.news().tell());
        if let Some(worker) = self.worker.lock().take() {
            // One that panicked has ended as well.
            let _ = worker.join();
        }
        self.rest_all();
    }

    /// After [`Group::stop`], where no statement is under way: nothing of the group runs any more.
    pub(super) fn join(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // As above.
            let _ = thread.join();
        }
    }

    /// Waits until then, or until the group ends here.
    pub(super) fn rest_until(&self, until: Instant) {
        let mut incoming = self.incoming.lock();
        while !self.is_stopped() {
            if self.came.wait_until(&mut incoming, until).timed_out() {
                return;
            }
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// As [`Group::stop`], and for good.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.stop();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn id(&self) -> [u8; 16] {
        self.id
    }

    /// Is a database of this `group_database_id` in the group, and this server a replica of it?
    pub(super) fn names(&self, database: [u8; 16]) -> bool {
        let def = self.def();
        let mut databases = def.databases.iter();
        !self.is_removed() && databases.any(|d| d.group_database_id == database)
    }

    /// The id by which the servers of the group call it.
    pub(super) fn number(&self) -> u128 {
        u128::from_be_bytes(self.id)
    }

    pub(super) fn def(&self) -> Arc<GroupDef> {
        self.def.read().clone()
    }

    pub(super) fn set_def(&self, def: GroupDef) {
        *self.def.write() = Arc::new(def);
        self.common.ports.look();
    }

    pub(super) fn reign(&self) -> Reign {
        self.kept.lock().kept().reign
    }

    /// This server's vote on who has everything (CLUSTER_TYPE = EXTERNAL).
    pub(super) fn kept_vote(&self) -> Option<Vote> {
        self.kept.lock().kept().vote.map(Vote::from)
    }

    pub(super) fn failover(&self) -> Option<Failover> {
        self.kept.lock().kept().failover
    }

    pub(super) fn is_suspended(&self, database: [u8; 16]) -> bool {
        self.kept.lock().kept().suspended.contains(&database)
    }

    pub(super) fn keep(&self, change: impl FnOnce(&mut Kept)) -> Result<()> {
        let path = kept_path(&self.common, &self.def());
        let kept = self.kept.lock().change(change);
        self.common.ports.look();
        kept.map_err(|e| file_error(&path, &e))
    }

    /// Looks at what the file says.
    pub(super) fn with_kept<T>(&self, look: impl FnOnce(&Kept) -> T) -> T {
        look(self.kept.lock().kept())
    }

    /// Is this server the primary, as far as it knows?
    pub(super) fn is_primary(&self) -> bool {
        self.kept.lock().kept().leads(self.me.number())
    }

    /// Has the primary taken this server out of the group?
    pub(super) fn is_removed(&self) -> bool {
        self.kept.lock().kept().is_removed
    }

    /// As what this server presents itself.
    pub(super) fn role(&self) -> ReplicaRole {
        let parts = self.parts.lock();
        // Sessions may come when the thread has let them.
        let has_lease = self
            .warrant
            .as_ref()
            .is_none_or(|w| Authority::stands(&**w))
            && !self.is_paused.load(Ordering::Acquire);
        match self.is_primary() {
            _ if self.is_removed() => ReplicaRole::Resolving,
            _ if self.is_offline.load(Ordering::Acquire) => ReplicaRole::Resolving,
            true if !has_lease => ReplicaRole::Resolving,
            false => ReplicaRole::Secondary,
            true if parts.iter().all(|p| p.role() == Some(Role::Open)) => ReplicaRole::Primary,
            true => ReplicaRole::Resolving,
        }
    }

    /// The place of a replica in the definition, by its number.
    pub(super) fn replica(&self, number: u8) -> Option<ReplicaDef> {
        let def = self.def();
        def.replicas.iter().find(|r| r.number == number).cloned()
    }

    pub(super) fn others(&self) -> Vec<ReplicaId> {
        let def = self.def();
        let numbers = def.replicas.iter().filter_map(|r| ReplicaId::new(r.number));
        numbers.filter(|r| *r != self.me).collect()
    }

    pub(super) fn session_timeout(&self) -> Duration {
        let own = self.replica(self.me.number());
        Duration::from_secs(own.map_or(10, |r| u64::from(r.session_timeout_s)).max(1))
    }

    /// Whom commits of this server's databases wait for.
    pub(super) fn rules(&self) -> Rules {
        let def = self.def();
        let is_synchronous = |r: &ReplicaDef| r.availability_mode == AvailabilityMode::Synchronous;
        let own = self.replica(self.me.number());
        let others = def
            .replicas
            .iter()
            .filter(|r| r.availability_mode != AvailabilityMode::ConfigurationOnly);
        let replicas = others.filter_map(|r| {
            let replica = ReplicaId::new(r.number).filter(|id| *id != self.me)?;
            Some(ReplicaConfig {
                replica,
                synchronous: is_synchronous(r),
            })
        });
        Rules {
            synchronous: own.as_ref().is_some_and(is_synchronous),
            required: def.options.required_synchronized_secondaries,
            window_bytes: WINDOW_BYTES,
            leased: self.warrant.is_some(),
            replicas: replicas.collect(),
        }
    }

    /// What sessions may do with a database that this server leads.
    pub(super) fn primary_availability(&self) -> Availability {
        let own = self.replica(self.me.number());
        match own.map(|r| r.primary_connections) {
            Some(PrimaryConnections::ReadWrite) => Availability::PrimaryForWriters,
            _ => Availability::Primary,
        }
    }

    /// What sessions may do with a database that this server follows and that can be read.
    pub(super) fn secondary_availability(&self) -> Availability {
        let own = self.replica(self.me.number());
        match own.map(|r| r.secondary_connections) {
            Some(SecondaryConnections::All) => Availability::Readable,
            Some(SecondaryConnections::ReadOnly) => Availability::ReadableWithIntent,
            _ => Availability::Closed,
        }
    }

    pub(super) fn tell(&self, task: Task) {
        // Nobody listens when the group has ended.
        let _ = self.tasks.send(task);
    }

    /// A way to tell the thread, for those who outlive the caller.
    pub(super) fn teller(&self) -> Box<dyn Fn(Task) + Send + Sync> {
        teller(&self.tasks)
    }

    /// Has the thread do something, and waits for it.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&Arc<Group>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, answer) = channel();
        self.tell(Task::Do(Box::new(move |group| {
            // Whoever asked may have gone.
            let _ = sender.send(what(group));
        })));
        answer
            .recv()
            .unwrap_or_else(|_| Err(messages::error(35221, &[])))
    }

    /// How often the thread that changes roles has looked around: it is alive while this grows.
    pub(super) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    fn work(self: &Arc<Self>, told: &Receiver<Task>) {
        self.connect();
        self.start_all();
        match self.is_removed() {
            true => self.leave_all(),
            false => self.go_on(),
        }
        let mut next = Instant::now() + TICK;
        loop {
            let now = Instant::now();
            if now >= next {
                next = now + TICK;
                self.ticks.fetch_add(1, Ordering::Relaxed);
                self.tick();
            }
            match told.recv_timeout(next.saturating_duration_since(now)) {
                Ok(Task::Do(job)) => job(self),
                Ok(Task::Opened(database)) => self.opened(database),
                Ok(Task::Fenced(database)) => self.fenced(database),
                Ok(Task::Removed) => self.leave_all(),
                Ok(Task::Readable(database)) => self.readable(database),
                Ok(Task::Definitions(database, is_told)) => {
                    is_told.store(false, Ordering::Release);
                    self.readable(database);
                }
                Ok(Task::Failed(database, why, page)) => self.failed(database, &why, page),
                Ok(Task::Defined) => self.defined(),
                Ok(Task::Owner) => self.follow_owner(),
                Ok(Task::HandOver(to)) => self.hand_over(to),
                Ok(Task::LetGo) => self.step_down_if_let_go(),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Task::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// A definition came from the primary: it is stored by `define`.
    pub(super) fn take_definition(&self, definition: Definition) {
        let mut incoming = self.incoming.lock();
        let is_newer = |known: &Definition| {
            let order = |d: &Definition| (d.reign, d.group.sequence_number);
            order(&definition) >= order(known)
        };
        if incoming.as_ref().is_none_or(is_newer) {
            *incoming = Some(definition);
            self.came.notify_all();
        }
    }

    fn define(self: &Arc<Self>) {
        while let Some(definition) = self.next_definition() {
            let result = self.store_definition(definition);
            if let Err(error) = result {
                let name = self.def().name.clone();
                self.common.log(&format!(
                    "The definition of availability group '{name}' could not be stored: {error}"
                ));
            }
        }
    }

    fn next_definition(&self) -> Option<Definition> {
        let mut incoming = self.incoming.lock();
        loop {
            if self.is_stopped() {
                return None;
            }
            if let Some(definition) = incoming.take() {
                return Some(definition);
            }
            self.came.wait(&mut incoming);
        }
    }

    fn store_definition(self: &Arc<Self>, definition: Definition) -> Result<()> {
        let Definition { group: new, reign } = definition;
        let known = self.reign();
        if new.group_id != self.id || reign < known || reign.primary == self.me.number() {
            return Ok(());
        }
        let own = new.replica(self.common.server_name());
        if own.is_none_or(|r| r.number != self.me.number()) {
            let is_newer = reign > known || new.sequence_number > self.def().sequence_number;
            return match is_newer && !self.is_removed() {
                true => self.removed(reign),
                false => Ok(()),
            };
        }
        if self.is_removed() {
            self.keep(|kept| kept.is_removed = false)?;
        }
        if reign > known {
            // A failover to this server may have begun meanwhile.
            self.keep(|kept| {
                if reign > kept.reign {
                    kept.reign = reign;
                    kept.failover = None;
                }
            })?;
            if self.reign() != reign {
                return Ok(());
            }
            self.give_way(owner_epoch(reign.number));
            self.common.log(&format!(
                "The local availability replica of availability group '{}' is a secondary: replica {} is the primary.",
                new.name, reign.primary
            ));
        }
        let stored = self.change_stored(|def| {
            if reign == known && new.sequence_number <= def.sequence_number {
                return Ok(());
            }
            let joined = |db: &GroupDatabaseDef| {
                let known = def.databases.iter();
                let mut known = known.filter(|d| d.group_database_id == db.group_database_id);
                known.next().is_some_and(|d| d.is_joined)
            };
            let databases = new.databases.iter().map(|db| GroupDatabaseDef {
                is_joined: joined(db),
                ..db.clone()
            });
            let databases = databases.collect();
            *def = GroupDef {
                id: def.id,
                creates_databases: def.creates_databases,
                databases,
                ..new.clone()
            };
            Ok(())
        })?;
        if let Some(stored) = stored {
            self.set_def((*stored).clone());
        }
        self.tell(Task::Defined);
        Ok(())
    }

    /// The primary has taken this server out: it leads nothing from here on, whoever asks. Its copies wait for more log, as those that left.
    fn removed(self: &Arc<Self>, reign: Reign) -> Result<()> {
        self.keep(|kept| {
            kept.reign = reign;
            kept.failover = None;
            kept.is_removed = true;
        })?;
        let def = self.def();
        self.common.log(&format!(
            "The local availability replica of availability group '{}' has been removed from the group. \
             DROP AVAILABILITY GROUP ends the group here.",
            def.name
        ));
        let stored = self.change_stored(|def| {
            def.databases.iter_mut().for_each(|d| d.is_joined = false);
            Ok(())
        })?;
        if let Some(stored) = stored {
            self.set_def((*stored).clone());
        }
        self.tell(Task::Removed);
        Ok(())
    }

    /// Changes the row of this group, which has another number on every server. It waits for a statement that is about to store it.
    fn change_stored(
        &self,
        change: impl FnOnce(&mut GroupDef) -> Result<()>,
    ) -> Result<Option<Arc<GroupDef>>> {
        let groups = &self.common.instance.hadr.groups;
        groups.change_found(|def| def.group_id == self.id, change)
    }

    fn keep_up(self: &Arc<Self>) {
        while !self.is_stopped() {
            {
                let mut incoming = self.incoming.lock();
                self.came.wait_for(&mut incoming, UPKEEP);
            }
            let parts = self.parts.lock().clone();
            parts.iter().for_each(DatabasePart::keep_up);
        }
    }
}

fn teller(tasks: &Sender<Task>) -> Box<dyn Fn(Task) + Send + Sync> {
    let tasks = tasks.clone();
    Box::new(move |task| {
        // Nobody listens when the group has ended.
        let _ = tasks.send(task);
    })
}

/// A group whose primary a manager outside names has a file of another name: builds before it find none, and do not start the group, which they would lead
/// by themselves.
fn kept_path(common: &Common, def: &GroupDef) -> PathBuf {
    let name = kept_name(def.group_id, is_external(def));
    common.folder().join(name)
}

fn kept_name(group: [u8; 16], is_external: bool) -> String {
    let kind = match is_external {
        true => "external",
        false => "group",
    };
    format!("{}.{kind}", hex(group))
}

/// Letters of an id, for names of files.
pub(super) fn hex(id: [u8; 16]) -> String {
    id.iter().map(|b| format!("{b:02x}")).collect()
}

impl Group {
    /// The group has ended here: its file goes.
    pub(super) fn forget(&self) {
        // A file that stays is of a group that no definition names.
        let _ = self
            .common
            .disk()
            .remove(&kept_path(&self.common, &self.def()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_builds_find_no_file_of_a_group_that_they_would_lead_by_themselves() {
        let theirs = |group| format!("{}.group", hex(group));
        assert_eq!(kept_name([7; 16], false), theirs([7; 16]));
        assert_ne!(kept_name([7; 16], true), theirs([7; 16]));
    }
}
