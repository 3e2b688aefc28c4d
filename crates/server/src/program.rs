//! A whole server: engine, background work and listener, from a data folder to a closed one.
//!
//! Start: lock on the folder, engine and databases of the system, `sa` password, certificate, listener. The other databases are
//! recovered side by side meanwhile; each can be used when it is ready. Stop: the reverse.
//! A crash at any point of either is a crash like any other: recovery takes care of it.

use crate::LogCompression;
pub use crate::administrator::MadePassword;
use crate::administrator::{self, make_password};
use crate::cluster;
use crate::engine::EngineService;
use crate::error::ServerError;
use crate::freed::FreedMemory;
use crate::hadr::Availability;
use crate::listener::{Limits, Listener, Waker};
use crate::password::Argon2Hasher;
use crate::tls::{self, EncryptionPolicy, TlsSettings};
use daruma_base::{DatabaseId, Env};
pub use daruma_platform::FolderLimit;
use daruma_storage::Database;
pub use daruma_tsql::instance::DefaultFolders;
use daruma_tsql::instance::{
    DatabaseEntry, Instance, InstanceOptions, LoginDef, REVERTERS_MAX, ShutdownRequest,
};
use parking_lot::{Condvar, Mutex};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const LOCK_FILE: &str = "daruma.lock";
const PAGE_BYTES: u64 = 8192;
/// Databases that are recovered at a time: enough that those which wait for the disk, or take long, do not keep the others
/// waiting; each may keep a quarter of the memory for pages in row versions.
const RECOVERIES_MIN: usize = 4;
const RECOVERIES_MAX: usize = 8;
/// How long a start waits for the databases before it says that it is ready. Most are by then, and clients that wait for that
/// word meet no database in recovery.
const READY_WAIT: Duration = Duration::from_millis(250);
/// Pause of a background thread when nothing is left to do.
const BACKGROUND_PAUSE: Duration = Duration::from_millis(50);
/// The same of a reverter that helps another, which wakes it when it has found something.
const HELPER_PAUSE: Duration = Duration::from_millis(500);
/// Time that requests under way get when the server is told to stop.
const SIGNAL_GRACE: Duration = Duration::from_secs(2);
/// The same for SHUTDOWN, which waits for running statements.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(60);
const POOL_BYTES_MIN: u64 = 32 << 20;
/// The least that everything but pages may take.
const WORK_BYTES_MIN: u64 = 64 << 20;
/// The least memory that a server takes, whatever bound it is given.
pub const MEMORY_BYTES_MIN: u64 = POOL_BYTES_MIN + WORK_BYTES_MIN;

/// Choices of the command line.
#[derive(Clone, Debug)]
pub struct ProgramOptions {
    pub data_dir: PathBuf,
    /// Where logs and backups go that name no folder; they are made at the start.
    pub folders: DefaultFolders,
    /// `address:port`; port 0 takes a free one.
    pub listen: String,
    /// What the server is called (@@SERVERNAME); `None` takes the host's name.
    pub server_name: Option<String>,
    /// Trace flags that are on from the start, for the whole server.
    pub trace_flags: Vec<i32>,
    /// Of the log that goes to replicas, where no trace flag says otherwise.
    pub log_compression: LogCompression,
    /// Logins pass without the LOGON triggers.
    pub without_logon_triggers: bool,
    pub sa_password: Option<String>,
    /// Bound of the server's memory: three quarters are for pages, the rest for everything else. `None` takes half of what the
    /// machine or the process's control group has, one half of it for pages.
    pub memory_bytes: Option<u64>,
    pub encryption: EncryptionPolicy,
    /// Certificate chain and key as PEM files; `None` uses the ones in the data folder.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Folders that behave like slow devices, for experiments.
    pub limits: Vec<FolderLimit>,
    /// Gets every line of the error log as well, with its end.
    pub log_echo: Option<fn(&str)>,
}

/// A running server.
pub struct Program {
    instance: Arc<Instance>,
    listener: Listener,
    availability: Availability,
    recovery: Recovery,
    background: Background,
    log_writer: LogWriter,
    made_password: Option<MadePassword>,
    certificate: Option<(PathBuf, PathBuf)>,
    _lock: File,
}

impl Program {
    /// Recovers the databases of the system, then accepts connections; the other databases are waited for as well,
    /// but not for long.
    pub fn start(options: &ProgramOptions) -> Result<Program, ServerError> {
        let env = match options.limits.as_slice() {
            [] => environment(),
            limits => daruma_platform::env_with_limits(limits.to_vec()),
        };
        Program::start_in(env, options)
    }

    /// The same over another disk than the machine's. Limits of folders are this disk's own matter.
    pub fn start_in(env: Env, options: &ProgramOptions) -> Result<Program, ServerError> {
        let lock = lock_folder(&options.data_dir)?;
        let memory = MemorySplit::of(options.memory_bytes);
        let host = host_name();
        let name = options.server_name.clone().unwrap_or_else(|| host.clone());
        let mut secret = [0; 32];
        env.random.fill(&mut secret);
        let instance_options = InstanceOptions {
            server_name: name,
            buffer_pool_pages: usize::try_from(memory.page_bytes / PAGE_BYTES)
                .unwrap_or(usize::MAX),
            work_memory_bytes: Some(memory.work_bytes),
            password_hasher: Arc::new(Argon2Hasher::new(secret)),
            host_description: format!("({})", std::env::consts::ARCH),
        };
        let folders = &options.folders;
        for folder in folders.log.iter().chain(&folders.backup) {
            let failed = |source| ServerError::WriteFile {
                path: folder.clone(),
                source,
            };
            env.disk.create_dir_all(folder).map_err(failed)?;
        }
        let random = env.random.clone();
        let instance = Instance::begin(env, &options.data_dir, instance_options)?;
        if let Some(echo) = options.log_echo {
            instance.log.echo(echo);
        }
        let _first = instance.default_folders.set(folders.clone());
        instance.trace_flags.lock().clone_from(&options.trace_flags);
        let without = options.without_logon_triggers;
        instance
            .without_logon_triggers
            .store(without, Ordering::Relaxed);
        instance.keep_file(&options.data_dir.join(LOCK_FILE));
        let url_devices = Arc::new(daruma_object::ObjectDevices::new());
        let cluster = cluster::start(&instance, &url_devices)?;
        let availability = Availability::start(&instance, cluster, options.log_compression);
        let recovery = Recovery::start(&instance)?;
        let _first = instance.url_devices.set(url_devices);
        let _first = instance.give_back_memory.set(daruma_platform::give_back);
        let _first = instance.processor_ms.set(daruma_platform::processor_ms);
        let _first = instance.volume_space.set(daruma_platform::volume_space);
        let given = options.sa_password.as_deref();
        let made_password =
            administrator::set_password(&instance, &options.data_dir, given, random.as_ref())?;
        let tls = match &options.certificate {
            Some((certificate, key)) => {
                instance.keep_file(certificate);
                instance.keep_file(key);
                TlsSettings::from_files(options.encryption, certificate, key)?
            }
            None => {
                for file in [tls::CERTIFICATE_FILE, tls::KEY_FILE] {
                    instance.keep_file(&options.data_dir.join(file));
                }
                TlsSettings::from_directory(options.encryption, &options.data_dir, &[host])?
            }
        };
        let certificate = match (options.encryption, &options.certificate) {
            (EncryptionPolicy::Off, _) => None,
            (_, Some(files)) => Some(files.clone()),
            (_, None) => Some((
                options.data_dir.join(tls::CERTIFICATE_FILE),
                options.data_dir.join(tls::KEY_FILE),
            )),
        };
        let background = Background::start(instance.clone())?;
        let log_writer = LogWriter::start(instance.clone())?;
        let service = Arc::new(EngineService::new(instance.clone()));
        let listener = Listener::start(service, tls, Limits::default(), &options.listen)?;
        instance.log.write(
            "Server",
            &format!("Server is listening on [ {} ].", listener.address()),
        );
        availability.listen(listener.doors())?;
        instance.log.write("Server", "SQL Server is now ready for client connections. This is an informational message; no user action is required.");
        instance.wait_until_recovered(READY_WAIT);
        Ok(Program {
            instance,
            listener,
            availability,
            recovery,
            background,
            log_writer,
            made_password,
            certificate,
            _lock: lock,
        })
    }

    /// Where it listens: the real port, also where port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The password made for `sa` at this start.
    pub fn made_password(&self) -> Option<&MadePassword> {
        self.made_password.as_ref()
    }

    /// The instance behind the listener, for the program's own messages and for tests.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// A login of the program's own, of the role sysadmin, with a password that is made anew each time; gives the password. For
    /// parts of the program that reach the server over TDS, like everybody else.
    pub fn service_login(&self, name: &str) -> Result<String, ServerError> {
        let instance = &self.instance;
        let random = &instance.env().random;
        let password = make_password(random.as_ref());
        let now = instance.now_utc();
        if instance.logins.get(name).is_none() {
            let mut sid = vec![0; 16];
            random.fill(&mut sid);
            instance.logins.create(|id| LoginDef {
                id,
                name: name.to_string(),
                sid,
                password_hash: String::new(),
                default_database: "master".to_string(),
                default_language: "us_english".to_string(),
                disabled: false,
                created_utc: now,
                modified_utc: now,
                roles: vec!["sysadmin".to_string()],
                permissions: Vec::new(),
                check_policy: false,
                check_expiration: false,
                must_change: false,
                password_set_utc: now,
                certificate_id: None,
            })?;
        }
        instance.logins.set_password(name, &password)?;
        instance.bump_catalog_version();
        Ok(password)
    }

    /// The certificate's chain and key, as files, where the server has one.
    pub fn certificate(&self) -> Option<(PathBuf, PathBuf)> {
        self.certificate.clone()
    }

    /// Lets [`Program::wait`] return, from a signal handler's thread for example.
    pub fn waker(&self) -> Waker {
        self.listener.waker()
    }

    /// Waits for SHUTDOWN or a [`Waker`].
    pub fn wait(&self) {
        self.listener.wait();
    }

    /// After SHUTDOWN WITH NOWAIT: says so in the error log; the process should then end as it is. Ending the sessions in
    /// good order would roll their transactions back, and that is what NOWAIT does not wait for.
    pub fn ends_at_once(&self) -> bool {
        let at_once = self.instance.shutdown_requested() == Some(ShutdownRequest::NoWait);
        // With this request nothing is closed, so nothing can fail.
        at_once && self.instance.close(ShutdownRequest::NoWait).is_ok()
    }

    /// Ends all sessions, checkpoints and closes all files, unless SHUTDOWN WITH NOWAIT was said.
    pub fn stop(self) -> Result<(), ServerError> {
        let request = self.instance.shutdown_requested();
        let grace = match request {
            Some(ShutdownRequest::NoWait) => Duration::ZERO,
            Some(ShutdownRequest::Orderly) => SHUTDOWN_GRACE,
            None => SIGNAL_GRACE,
        };
        let in_order = !matches!(request, Some(ShutdownRequest::NoWait));
        self.availability.leave_cluster(in_order);
        if !self.listener.stop(grace) {
            self.instance.log.write(
                "Server",
                "Some sessions did not end; their transactions are rolled back at the next start.",
            );
        }
        self.availability.stop();
        self.recovery.stop();
        self.background.stop();
        self.log_writer.stop();
        self.instance
            .close(request.unwrap_or(ShutdownRequest::Orderly))?;
        Ok(())
    }
}

/// Two servers on the same files would destroy them: the second one is refused here, before it touches anything.
fn lock_folder(data_dir: &Path) -> Result<File, ServerError> {
    let failed = |source| ServerError::WriteFile {
        path: data_dir.join(LOCK_FILE),
        source,
    };
    fs::create_dir_all(data_dir).map_err(|source| ServerError::WriteFile {
        path: data_dir.to_path_buf(),
        source,
    })?;
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(data_dir.join(LOCK_FILE));
    let file = opened.map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ServerError::InUse {
            path: data_dir.to_path_buf(),
        }),
        Err(error) => Err(failed(error.into())),
    }
}

/// How the server's memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MemorySplit {
    page_bytes: u64,
    work_bytes: u64,
}

impl MemorySplit {
    /// Of a bound, or of half of what there is.
    fn of(bound: Option<u64>) -> MemorySplit {
        let (page_bytes, work_bytes) = match bound {
            Some(bound) => (bound / 4 * 3, bound / 4),
            None => (machine_bytes() / 4, machine_bytes() / 4),
        };
        MemorySplit {
            page_bytes: page_bytes.max(POOL_BYTES_MIN),
            work_bytes: work_bytes.max(WORK_BYTES_MIN),
        }
    }
}

/// The machine's name, as a server is called that has no other.
pub fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .to_uppercase()
}

/// Memory that a server on this machine can have: no more than its control group allows.
pub fn machine_bytes() -> u64 {
    daruma_platform::machine_bytes()
}

/// Is the time zone that `TZ` names one that the machine has? An error says why not.
pub fn local_time_zone() -> Result<(), String> {
    daruma_platform::local_time_zone()
}

/// Disk, clock and randomness of this machine, for what is done to a server's folder while it does not run.
pub fn environment() -> Env {
    daruma_platform::env()
}

/// The threads that recover databases. They end when nothing is left to recover.
struct Recovery {
    instance: Arc<Instance>,
    threads: Vec<JoinHandle<()>>,
}

impl Recovery {
    fn start(instance: &Arc<Instance>) -> Result<Recovery, ServerError> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut recovery = Recovery {
            instance: instance.clone(),
            threads: Vec::new(),
        };
        for number in 1..=cores.clamp(RECOVERIES_MIN, RECOVERIES_MAX) {
            let served = instance.clone();
            let thread = thread::Builder::new()
                .name(format!("recovery {number}"))
                .spawn(move || while served.recover_next() {})
                .map_err(ServerError::Thread)?;
            recovery.threads.push(thread);
        }
        Ok(recovery)
    }

    fn stop(self) {
        self.instance.stop_recovery();
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// The threads that work behind the sessions' backs: one that checkpoints, cleans and flushes for all databases, and
/// the reverters of aborted transactions.
struct Background {
    stopped: Arc<(Mutex<bool>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    fn start(instance: Arc<Instance>) -> Result<Background, ServerError> {
        let stopped = Arc::new((Mutex::new(false), Condvar::new()));
        let mut threads = Vec::new();
        let mut start = |name: String, role: Role| {
            let (instance, seen) = (instance.clone(), stopped.clone());
            let thread = thread::Builder::new()
                .name(name)
                .spawn(move || work(&instance, &seen, role))
                .map_err(ServerError::Thread)?;
            threads.push(thread);
            Ok::<(), ServerError>(())
        };
        start("background".to_string(), Role::Everything)?;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for number in 1..=cores.min(REVERTERS_MAX) {
            start(format!("reverter {number}"), Role::Reverter { number })?;
        }
        Ok(Background { stopped, threads })
    }

    fn stop(self) {
        *self.stopped.0.lock() = true;
        self.stopped.1.notify_all();
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// The thread that syncs delayed commits of all databases when they are due. Apart from the background work, which
/// may be busy for longer than a delayed commit may stay in memory.
///
/// Beside it the one that writes logs on which many commit.
struct LogWriter {
    instance: Arc<Instance>,
    stopped: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    flusher: JoinHandle<()>,
}

impl LogWriter {
    fn start(instance: Arc<Instance>) -> Result<LogWriter, ServerError> {
        let stopped = Arc::new(AtomicBool::new(false));
        let (served, seen) = (instance.clone(), stopped.clone());
        let builder = thread::Builder::new().name("log writer".to_string());
        let thread = builder
            .spawn(move || {
                while !seen.load(Ordering::Acquire) {
                    write_log(&served);
                }
            })
            .map_err(ServerError::Thread)?;
        let flusher = instance.engine().log_flusher().clone();
        let builder = thread::Builder::new().name("log flusher".to_string());
        let flusher = builder
            .spawn(move || flusher.serve())
            .map_err(ServerError::Thread)?;
        Ok(LogWriter {
            instance,
            stopped,
            thread,
            flusher,
        })
    }

    fn stop(self) {
        self.stopped.store(true, Ordering::Release);
        self.instance.engine().log_writer().wake();
        self.instance.engine().log_flusher().stop();
        let _ = self.thread.join();
        let _ = self.flusher.join();
    }
}

/// Syncs what is due and sleeps until more is. A log that fails fences its database, which the background work reports.
fn write_log(instance: &Instance) {
    let due = || {
        let databases = instance.databases();
        let open = databases.iter().filter_map(|entry| entry.open().ok());
        open.filter_map(|open| open.storage.flush_due().ok().flatten())
            .min()
    };
    let signal = instance.engine().log_writer();
    let mut next = due();
    if next.is_none() {
        signal.set_idle(true);
        next = due();
    }
    signal.wait(next);
    signal.set_idle(false);
}

/// Work of a background thread.
#[derive(Clone, Copy)]
enum Role {
    Everything,
    /// Reverts aborted transactions only, counted from 1.
    Reverter {
        number: usize,
    },
}

/// Writes to the error log what failed in the background, and that a log has failed.
fn tell_failures(
    instance: &Instance,
    entry: &DatabaseEntry,
    storage: &Database,
    suspect: &mut Vec<DatabaseId>,
) {
    let name = entry.name();
    for failure in storage.take_failures() {
        let text = format!("Background work in database '{name}' failed: {failure}.");
        instance.log.write("Server", &text);
    }
    let is_known = suspect.contains(&entry.id());
    match storage.failure() {
        Some(cause) if !is_known => {
            suspect.push(entry.id());
            let text = format!(
                "The log for database '{name}' is not available: {cause}. The database is SUSPECT and cannot be used until it has been recovered: \
                 by a restart of the server, or by ALTER DATABASE .. SET ONLINE."
            );
            instance.log.write("Server", &text);
        }
        None if is_known => suspect.retain(|id| *id != entry.id()),
        _ => {}
    }
}

fn work(instance: &Instance, stopped: &(Mutex<bool>, Condvar), role: Role) {
    // One line for each database whose log failed, not one for each round.
    let mut suspect = Vec::new();
    let mut freed = FreedMemory::default();
    let is_first = matches!(role, Role::Reverter { number: 1 });
    let pause = match role {
        Role::Reverter { .. } if !is_first => HELPER_PAUSE,
        _ => BACKGROUND_PAUSE,
    };
    let mut was_busy = false;
    loop {
        let mut is_busy = false;
        for entry in instance.databases() {
            let Some(storage) = entry.held().map(|open| open.storage) else {
                continue;
            };
            let done = match role {
                Role::Everything => storage.background_step(),
                Role::Reverter { number } if number <= instance.reverters_of(&entry) => {
                    storage.revert_step()
                }
                Role::Reverter { .. } => Ok(false),
            };
            // Errors are remembered there, each once.
            is_busy |= done.unwrap_or(false);
            if matches!(role, Role::Everything) {
                tell_failures(instance, &entry, &storage, &mut suspect);
            }
        }
        if matches!(role, Role::Everything) {
            instance.log.write_counts();
            instance.events.dispatch(instance.now_utc());
            freed.look(instance.env().clock.monotonic());
        }
        let mut is_stopped = stopped.0.lock();
        if is_first && is_busy && !was_busy {
            stopped.1.notify_all();
        }
        was_busy = is_busy;
        if !*is_stopped && !is_busy {
            stopped.1.wait_for(&mut is_stopped, pause);
        }
        if *is_stopped {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_divided_and_never_too_small_to_work() {
        let gib = 1 << 30;
        let split = MemorySplit::of(Some(4 * gib));
        assert_eq!((split.page_bytes, split.work_bytes), (3 * gib, gib));
        let least = MemorySplit::of(Some(1));
        assert_eq!(least.page_bytes, POOL_BYTES_MIN);
        assert_eq!(least.work_bytes, WORK_BYTES_MIN);
        let own = MemorySplit::of(None);
        assert!(own.page_bytes + own.work_bytes <= machine_bytes().max(MEMORY_BYTES_MIN));
    }
}
