//! `Instance`: one running server: engine, databases, sessions, configuration, logins, error log.
//!
//! Theory: master's catalog holds the server's own rows (databases and their files, logins, configuration). At start
//! master is opened first, then the databases it names; tempdb is made anew each time. What a database needs for its
//! recovery lies in its own boot page, so master never has to be right about that.
//!
//! Start-up, by what is found
//! | found | done |
//! |---|---|
//! | no master file | a fresh server: the four system databases are created |
//! | master without the mark of complete creation | creation was cut short: the files are removed and made again |
//! | a database that cannot be opened, also msdb | logged, shown as suspect; the server starts without it |
//! | files that were being made or deleted | put in order (`left_behind`) |
//!
//! The server is ready when the databases of the system are; the others are recovered meanwhile (`recovery`).
//!
//! Read next: `startup`, `recovery`, `database`, `sessions`.

pub(crate) mod change;
pub mod completed;
mod configuration;
mod database;
mod door;
mod error_log;
pub mod events;
mod files;
pub mod hadr;
pub(crate) mod keys;
pub(crate) mod left_behind;
mod logins;
mod master_key;
mod memory;
mod names;
mod plan_cache;
pub mod query_stats;
mod recovery;
mod registry;
mod sequential;
mod sessions;
mod startup;

pub use configuration::{
    ABSENT_REPLICA_LOG, CLEANER_THREADS, Configuration, ConfigurationOption, ConfigurationValue,
    OPTIONS, REVERTERS_MAX, SEEDING_RATE, UNACKNOWLEDGED_LOG, find_prefix,
};
pub use daruma_catalog::LoginDef;
pub use database::{
    COMPATIBILITY_LEVEL, DatabaseEntry, DefaultSizes, OpenDatabase, absolute, default_options,
    file_stem, primary_filegroup, simple_def, stored_form,
};
pub(crate) use database::{LAST_GOOD_CHECK, Shut};
pub use error_log::{ErrorLog, LogEntry, format_local, one_line};
pub(crate) use files::{FileClaim, FileOwner, IN_USE, SCRATCH_FOLDER};
pub use logins::{LoginList, LoginRefusal, Logins, PasswordHasher};
pub(crate) use logins::{SA, days_left, login_lock, logins_lock};
pub(crate) use master_key::MasterKey;
pub(crate) use memory::SMALL_BYTES;
pub use memory::{Asking, KeptDocument, Promise, Shortage, WorkMemory};
pub(crate) use names::NameClaim;
pub use plan_cache::{
    Batch, NamedObjects, PlanCache, PlanKey, ShownPlan, first_syntax_error, parsed, syntax_error,
};
pub use registry::{Registry, SystemParameter, SystemProcedure};
pub use sessions::{
    Activity, FIRST_USER_SPID, LoginInfo, SessionEntry, SessionRegistry, spid_of_owner,
};

pub(crate) use recovery::recovery_lines;

use crate::error::{Result, SqlError};
use crate::host::TableRef;
use crate::messages;
use daruma_base::{CancelFlag, DatabaseId, Env};
use daruma_catalog::{Catalog, Change, DatabaseDef, names_equal};
use daruma_storage::{Engine, Owner};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// Logins, configuration, and definitions of databases.
pub const MASTER: DatabaseId = DatabaseId(1);
/// Made anew at each start; it has no log worth hardening.
pub const TEMPDB: DatabaseId = DatabaseId(2);
/// Template of new databases.
pub const MODEL: DatabaseId = DatabaseId(3);
/// History of backups and restores, suspect pages.
pub const MSDB: DatabaseId = DatabaseId(4);

/// Version as clients compare it: SQL Server 2022.
pub const PRODUCT_VERSION: &str = "16.0.4100.1";

/// Choices of the program that runs the server.
#[derive(Clone)]
pub struct InstanceOptions {
    pub server_name: String,
    pub buffer_pool_pages: usize,
    /// Bytes that may be allocated besides pages; `None` for no bound.
    pub work_memory_bytes: Option<u64>,
    pub password_hasher: Arc<dyn PasswordHasher>,
    /// Text after the version in the log: operating system and the like.
    pub host_description: String,
}

/// Folders of files whose statements name none; `None` is the data folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefaultFolders {
    /// Of the logs of new databases.
    pub log: Option<PathBuf>,
    /// Of backups to and from disk.
    pub backup: Option<PathBuf>,
}

/// How the server was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownRequest {
    /// Finish what runs, checkpoint.
    Orderly,
    /// SHUTDOWN WITH NOWAIT: as after a power failure, but at once.
    NoWait,
}

/// A global temporary table.
#[derive(Clone)]
pub struct GlobalTemp {
    pub table: TableRef,
    pub creator: i32,
}

/// One running server: its databases, sessions, plans and log. Everything in it may be used from any thread.
pub struct Instance {
    env: Env,
    engine: Arc<Engine>,
    options: InstanceOptions,
    data_dir: PathBuf,
    databases: RwLock<BTreeMap<u16, Arc<DatabaseEntry>>>,
    recovery: recovery::RecoveryQueue,
    pub sessions: SessionRegistry,
    pub configuration: Configuration,
    pub log: ErrorLog,
    pub logins: Logins,
    pub hadr: hadr::Hadr,
    pub events: events::Events,
    pub plans: PlanCache,
    pub memory: Arc<WorkMemory>,
    registry: Registry,
    pub global_temps: Mutex<HashMap<String, GlobalTemp>>,
    /// `##p`
    pub global_modules: Mutex<HashMap<String, crate::session::TempModule>>,
    /// Temporary tables of all sessions, for tempdb's views.
    pub temp_tables: Mutex<BTreeMap<i32, TableRef>>,
    /// Counters of temporary tables: never stored.
    pub(crate) temp_counters: Mutex<HashMap<daruma_catalog::CounterId, daruma_catalog::Reached>>,
    catalog_version: AtomicU64,
    next_number: AtomicU64,
    pub(crate) sequential_ids: sequential::SequentialIds,
    next_temp_id: AtomicI32,
    started_utc: i64,
    shutdown: Mutex<Option<ShutdownRequest>>,
    names: names::NameGate,
    /// Owner of work that belongs to no session.
    pub system_owner: Arc<Owner>,
    /// Makes backup devices of URLs, when the program that runs the server can.
    pub url_devices: std::sync::OnceLock<Arc<dyn daruma_backup::UrlDevices>>,
    /// Keeps writers of `msdb.dbo.suspect_pages` apart.
    pub(crate) suspect_pages: crate::session::SuspectPages,
    pub(crate) files: files::FileGate,
    /// Where logs and backups go that name no folder, when the program that runs the server says so.
    pub default_folders: std::sync::OnceLock<DefaultFolders>,
    /// Gives memory that was freed back to the system, when the program that runs the server can.
    pub give_back_memory: std::sync::OnceLock<fn()>,
    /// Processor time of the process in the kernel and outside, in ms, when the program that runs the server can tell.
    pub processor_ms: std::sync::OnceLock<fn() -> Option<(u64, u64)>>,
    /// Space of the volume that holds a path, when the program that runs the server can tell.
    pub volume_space: std::sync::OnceLock<fn(&Path) -> Option<daruma_base::VolumeSpace>>,
    pub completed: completed::CompletedRequests,
    /// Batches and calls since the start.
    pub(crate) requests: AtomicU64,
    /// Deadlocks since the start.
    pub(crate) deadlocks: AtomicU64,
    /// Trace flags that are on for the whole server; sessions have their own beside them.
    pub trace_flags: Mutex<Vec<i32>>,
    /// Logins pass without the LOGON triggers: for whoever has shut himself out.
    pub without_logon_triggers: AtomicBool,
}

impl Instance {
    /// Opens (or, the first time, creates) the server in `data_dir`, and recovers its databases one after the other.
    pub fn start(env: Env, data_dir: &Path, options: InstanceOptions) -> Result<Arc<Instance>> {
        let instance = Instance::begin(env, data_dir, options)?;
        while instance.recover_next() {}
        Ok(instance)
    }

    /// Opens (or, the first time, creates) the server in `data_dir` with the databases of the system. The others wait for
    /// [`Instance::recover_next`].
    pub fn begin(env: Env, data_dir: &Path, options: InstanceOptions) -> Result<Arc<Instance>> {
        let instance = startup::start(env, data_dir, options)?;
        instance.apply_max_memory();
        instance.show_files();
        instance.start_event_sessions();
        if let Err(error) = crate::session::prepare_history(&instance) {
            let text = format!("The tables of the backup history in msdb are not there: {error}");
            instance.log.write("Server", &text);
        }
        Ok(instance)
    }

    /// Lets the engine find the files of databases that are not open: one that is being recovered may have to know what
    /// they decided.
    fn show_files(self: &Arc<Self>) {
        let me = Arc::downgrade(self);
        self.engine.set_directory(Arc::new(move || {
            let databases = me.upgrade().map_or_else(Vec::new, |i| i.databases());
            let files = |d: &Arc<DatabaseEntry>| (d.id(), d.def().file_specs());
            databases.iter().map(files).collect()
        }));
    }

    /// Disk, clock and randomness as the program handed them in.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The storage engine that all databases share.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Choices of the program at the start.
    pub fn options(&self) -> &InstanceOptions {
        &self.options
    }

    /// Makes `max server memory` count. Pages keep what the server was started with; the rest gives way.
    pub fn apply_max_memory(&self) {
        let pages = self.options.buffer_pool_pages.saturating_mul(8_192);
        let most = self.configuration.in_use("max server memory (MB)");
        let most = most.saturating_mul(1 << 20);
        self.memory
            .lower_to(most.saturating_sub(i64::try_from(pages).unwrap_or(i64::MAX)));
    }

    /// The folder of the system databases; relative paths of files begin here.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The folder of a new database's log, where its statement names none.
    pub fn log_dir(&self) -> &Path {
        let folders = self.default_folders.get();
        folders
            .and_then(|f| f.log.as_deref())
            .unwrap_or(&self.data_dir)
    }

    /// Where relative paths of backups begin.
    pub fn backup_dir(&self) -> &Path {
        let folders = self.default_folders.get();
        folders
            .and_then(|f| f.backup.as_deref())
            .unwrap_or(&self.data_dir)
    }

    /// System views and procedures by name.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// When the server started, in 100 ns since 1970.
    pub fn started_utc(&self) -> i64 {
        self.started_utc
    }

    /// Now, in 100 ns since 1970.
    pub fn now_utc(&self) -> i64 {
        self.env.clock.utc_100ns()
    }

    /// Threads that may revert aborted transactions of a database beside the background thread, which always does: none
    /// below compatibility level 160, as in the release that level stands for.
    pub fn reverters_of(&self, entry: &DatabaseEntry) -> usize {
        match entry.def().compatibility_level {
            ..160 => 0,
            _ => usize::try_from(self.configuration.in_use(CLEANER_THREADS))
                .unwrap_or(0)
                .min(REVERTERS_MAX),
        }
    }

    /// All databases, by id.
    pub fn databases(&self) -> Vec<Arc<DatabaseEntry>> {
        self.databases.read().values().cloned().collect()
    }

    /// The database with this id, in whatever state it is.
    pub fn database(&self, id: DatabaseId) -> Option<Arc<DatabaseEntry>> {
        self.databases.read().get(&id.0).cloned()
    }

    /// The database of this name, in any case and in whatever state.
    pub fn database_named(&self, name: &str) -> Option<Arc<DatabaseEntry>> {
        self.databases
            .read()
            .values()
            .find(|d| names_equal(&d.name(), name))
            .cloned()
    }

    /// The database that a file belongs to.
    pub fn database_of_file(&self, path: &Path) -> Option<Arc<DatabaseEntry>> {
        let has_it = |d: &&Arc<DatabaseEntry>| d.def().files.iter().any(|f| f.path == path);
        self.databases.read().values().find(has_it).cloned()
    }

    /// Storage and catalog of a database by id.
    pub fn open_database(&self, id: DatabaseId) -> Result<OpenDatabase> {
        match self.database(id) {
            Some(entry) => entry.open(),
            None => Err(messages::error(2520, &[&id.0])),
        }
    }

    /// The catalog of `master`.
    pub fn master_catalog(&self) -> Result<Arc<Catalog>> {
        Ok(self.open_database(MASTER)?.catalog)
    }

    pub(crate) fn insert_database(&self, entry: Arc<DatabaseEntry>) {
        self.databases.write().insert(entry.id().0, entry);
        self.bump_catalog_version();
    }

    pub(crate) fn remove_database(&self, id: DatabaseId) {
        self.databases.write().remove(&id.0);
        self.bump_catalog_version();
    }

    /// The role of this server in the group of a database changed. Plans are looked at again; sessions that are in the
    /// database end, because what they began under the other role has no end under this one.
    pub fn set_availability(&self, entry: &DatabaseEntry, availability: hadr::Availability) {
        let before = entry.given_availability();
        entry.set_availability(availability);
        self.bump_catalog_version();
        let changes_role = before.is_secondary() != availability.is_secondary();
        let closes = availability.check_open("").is_err();
        if !changes_role && !closes || before == availability {
            return;
        }
        for session in self.sessions.all() {
            if session.activity.lock().database == Some(entry.id()) {
                session.cancel.set(daruma_base::cancel::CancelReason::Kill);
            }
        }
    }

    /// Grows whenever a committed definition changed anywhere.
    pub fn catalog_version(&self) -> u64 {
        self.catalog_version.load(Ordering::Acquire)
    }

    /// Definitions, logins or rights have changed: no plan is taken from the cache without being looked at again.
    pub fn bump_catalog_version(&self) {
        self.catalog_version.fetch_add(1, Ordering::AcqRel);
    }

    /// Makes committed definitions visible to all sessions.
    pub(crate) fn publish(&self, catalog: &Catalog, changes: &[Change]) {
        if !changes.is_empty() {
            let before = catalog.current();
            catalog.publish(changes);
            self.bump_catalog_version();
            // Only these prove to be peers of an endpoint.
            let has_certificate = |l: &LoginDef| l.certificate_id.is_some();
            let concerns_peers = changes.iter().any(|change| match change {
                Change::PutLogin(login) => has_certificate(login),
                Change::DropLogin(id) => before.login(*id).is_some_and(|l| has_certificate(l)),
                _ => false,
            });
            if concerns_peers {
                self.tell_peers();
            }
            // Numbers of logins may be given out again, without what was counted under them.
            for change in changes {
                if let Change::DropLogin(id) = change {
                    self.logins.unlock(*id);
                }
            }
        }
    }

    /// A number never given out before: transaction descriptors, spill files.
    pub fn unique_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Object id for a temporary table: negative, as in the product.
    pub(crate) fn next_temp_object_id(&self) -> i32 {
        let id = self.next_temp_id.fetch_sub(1, Ordering::Relaxed);
        match id < -1 {
            true => id,
            false => -2,
        }
    }

    /// Asks for memory; where there is none, once more after the plan cache has given back what it holds.
    pub(crate) fn room<T>(&self, ask: impl Fn(&Arc<WorkMemory>) -> Option<T>) -> Option<T> {
        self.plans.room(ask)
    }

    /// May a request that holds `held` bytes take `wanted` more?
    pub fn has_room(&self, held: i64, wanted: i64) -> bool {
        self.room(|memory| memory.has_room(held, wanted).then_some(()))
            .is_some()
    }

    /// Memory that was freed goes back to the system, as far as the allocator can.
    pub(crate) fn give_back_memory(&self) {
        if let Some(give_back) = self.give_back_memory.get() {
            give_back();
        }
    }

    /// Asks whoever runs the server to stop it.
    pub fn request_shutdown(&self, request: ShutdownRequest) {
        *self.shutdown.lock() = Some(request);
    }

    /// The stop that SHUTDOWN asked for, if a session did.
    pub fn shutdown_requested(&self) -> Option<ShutdownRequest> {
        *self.shutdown.lock()
    }

    /// Closes all databases: with exact counters and a checkpoint, unless `NoWait`. Sessions must have ended.
    pub fn close(&self, request: ShutdownRequest) -> Result<()> {
        let text = match request {
            ShutdownRequest::Orderly => {
                "SQL Server is terminating because of a system shutdown. This is an informational message only. No user action is required."
            }
            ShutdownRequest::NoWait => {
                "SQL Server terminated without a checkpoint because of SHUTDOWN WITH NOWAIT."
            }
        };
        self.log.write("Server", text);
        self.events.flush();
        if request == ShutdownRequest::NoWait {
            return Ok(());
        }
        let mut first_failure = Ok(());
        for entry in self.databases().iter().rev() {
            if let Some(open) = entry.take_open() {
                first_failure = first_failure.and(close_database(&open));
            }
        }
        first_failure
    }
}

/// Saves what is held in memory and closes the files, also when it cannot be saved.
pub(crate) fn close_database(open: &OpenDatabase) -> Result<()> {
    let saved = save_counters(open);
    open.storage.close()?;
    saved
}

/// Saves the counters that are held in memory. Of a suspect database nothing is saved, and a read-only one has no changes.
pub(crate) fn save_counters(open: &OpenDatabase) -> Result<()> {
    let storage = &open.storage;
    match storage.check_readable().is_ok() && !storage.settings().read_only {
        true => Ok(open.catalog.save_counters()?),
        false => Ok(()),
    }
}

impl From<daruma_catalog::CatalogError> for SqlError {
    fn from(error: daruma_catalog::CatalogError) -> SqlError {
        match error {
            daruma_catalog::CatalogError::Storage(storage) => storage.into(),
            other => SqlError::new(211, 23, 1, format!("Possible schema corruption. {other}.")),
        }
    }
}

fn system_owner() -> Arc<Owner> {
    Owner::new(1 << 62, CancelFlag::new())
}
