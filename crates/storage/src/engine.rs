//! State that all databases of a server share: buffer pool, lock manager, waits.

use crate::api::{FileSpec, IoCounters, LockInfo, Opening, RecoveryReport, Registration, Settings};
use crate::buffer::{Pool, thread_io};
use crate::coordinator::{Claims, Directory};
use crate::database::{Database, LOG_BYTES_WANTED};
use crate::error::Result;
use crate::lock::{DeadlockWatch, LockManager, Owner};
use crate::log::{LogFlusher, LogMemory, LogShared, LogWriterSignal};
use crate::sync::{Mutex, RwLock};
use daruma_base::{DatabaseId, Disk, Env, WaitRegistry};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

/// Sizes that bound what the engine may use.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    pub buffer_pool_pages: usize,
    /// A smaller log file grows, if it may, rather than make those who write wait for a checkpoint.
    pub log_bytes_wanted: u64,
    /// Row versions of a database that take more memory than this, pages apart, stop those who would make more; 0: none do.
    pub version_memory_bytes: u64,
    /// Memory that the blocks of one log may take, those that wait to be written and those that may be read back.
    pub log_memory_bytes: u64,
}

impl Default for EngineConfig {
    fn default() -> EngineConfig {
        EngineConfig {
            buffer_pool_pages: 1024,
            log_bytes_wanted: LOG_BYTES_WANTED,
            version_memory_bytes: 0,
            log_memory_bytes: u64::MAX,
        }
    }
}

/// State that all databases of a server share.
pub struct Engine {
    env: Env,
    log_shared: LogShared,
    pool: Pool,
    pub(crate) log_bytes_wanted: u64,
    pub(crate) version_memory_bytes: u64,
    locks: LockManager,
    stores: AtomicU32,
    /// Databases that were opened, as long as they live.
    pub(crate) databases: Mutex<Vec<Weak<Database>>>,
    pub(crate) directory: RwLock<Option<Directory>>,
    pub(crate) claims: Claims,
}

impl Engine {
    /// An engine without a database.
    pub fn new(env: Env, config: EngineConfig) -> Arc<Engine> {
        let log_shared = LogShared {
            memory: LogMemory::of(config.log_memory_bytes),
            ..LogShared::default()
        };
        let waits = &log_shared.waits;
        let pool = Pool::new(config.buffer_pool_pages, env.clock.clone(), waits.clone());
        let locks = LockManager::new(env.clock.clone(), waits.clone());
        Arc::new(Engine {
            env,
            log_shared,
            pool,
            log_bytes_wanted: config.log_bytes_wanted,
            version_memory_bytes: config.version_memory_bytes,
            locks,
            stores: AtomicU32::new(1),
            databases: Mutex::default(),
            directory: RwLock::default(),
            claims: Claims::default(),
        })
    }

    /// Disk, clock and randomness as the program handed them in.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Where waits of all databases are counted.
    pub fn waits(&self) -> &WaitRegistry {
        &self.log_shared.waits
    }

    /// Wakes and paces the thread that calls [`Database::flush_due`].
    pub fn log_writer(&self) -> &LogWriterSignal {
        &self.log_shared.signal
    }

    /// Flusher whose `serve` a thread may run, to write busy logs.
    pub fn log_flusher(&self) -> &Arc<LogFlusher> {
        &self.log_shared.flusher
    }

    pub(crate) fn log_shared(&self) -> &LogShared {
        &self.log_shared
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Names who is told of deadlocks, on the thread of the victim, before anybody on the cycle goes on. Once.
    pub fn watch_deadlocks(&self, watch: DeadlockWatch) {
        self.locks.watch_deadlocks(watch);
    }

    pub(crate) fn lock_manager(&self) -> &LockManager {
        &self.locks
    }

    pub(crate) fn next_store_id(&self) -> u32 {
        self.stores.fetch_add(1, Ordering::Relaxed)
    }

    /// Creates the files (one data file must have id 1, one file is the log: filegroup 0) and opens them.
    pub fn create_database(
        self: &Arc<Self>,
        id: DatabaseId,
        name: &str,
        files: Vec<FileSpec>,
        settings: Settings,
    ) -> Result<Arc<Database>> {
        let guid = self.env.random.u64();
        self.create_database_as(id, name, files, settings, guid, Registration::default())
    }

    /// As `create_database`. The files carry `guid`, which no other database may have, and the registration.
    pub fn create_database_as(
        self: &Arc<Self>,
        id: DatabaseId,
        name: &str,
        files: Vec<FileSpec>,
        settings: Settings,
        guid: u64,
        registration: Registration,
    ) -> Result<Arc<Database>> {
        Database::create(self, id, name, files, settings, guid, registration)
    }

    /// Opens the files of a database and recovers it. The report says what recovery did.
    pub fn open_database(
        self: &Arc<Self>,
        id: DatabaseId,
        name: &str,
        files: Vec<FileSpec>,
    ) -> Result<(Arc<Database>, RecoveryReport)> {
        self.open_database_as(id, name, files, Opening::default())
    }

    /// As `open_database`, of files that belong to a registered database, watched.
    pub fn open_database_as(
        self: &Arc<Self>,
        id: DatabaseId,
        name: &str,
        files: Vec<FileSpec>,
        opening: Opening<'_>,
    ) -> Result<(Arc<Database>, RecoveryReport)> {
        Database::open(self, &self.env, id, name, files, opening)
    }

    /// As `open_database`, with its files on another disk.
    pub fn open_database_on(
        self: &Arc<Self>,
        disk: Arc<dyn Disk>,
        id: DatabaseId,
        name: &str,
        files: Vec<FileSpec>,
    ) -> Result<(Arc<Database>, RecoveryReport)> {
        let env = Env {
            disk,
            ..self.env.clone()
        };
        Database::open(self, &env, id, name, files, Opening::default())
    }

    /// Releases every lock of `owner`: at the end of its transaction.
    pub fn release_locks(&self, owner: &Owner) {
        self.locks.release_all(owner);
    }

    /// Lets those go on who wait behind `owner` for an entry that it waited for: at the end of its statement. Entries that
    /// it wrote stay its own.
    #[inline]
    pub fn end_turn(&self, owner: &Owner) {
        self.locks.end_turn(owner);
    }

    /// All granted and waiting locks, for `sys.dm_tran_locks`.
    pub fn locks(&self) -> Vec<LockInfo> {
        self.locks.list()
    }

    /// Owner id that `owner` waits for at this moment, for `blocking_session_id`.
    pub fn blocked_by(&self, owner: &Owner) -> Option<u64> {
        self.locks.blocked_by(owner)
    }

    /// Forgets pages in memory that are as they are on disk. Their frames stay for others.
    pub fn drop_clean_pages(&self) {
        self.pool.drop_clean();
    }

    /// Reads and writes of pages by the calling thread so far.
    pub fn thread_io(&self) -> IoCounters {
        thread_io()
    }
}
