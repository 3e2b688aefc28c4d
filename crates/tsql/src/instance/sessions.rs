//! Registry of sessions: what others may see and stop.

use crate::host::IsolationLevel;
use daruma_base::{CancelFlag, DatabaseId, ThreadWait, ThreadWaits};
use daruma_storage::Owner;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Session ids up to here belong to the server itself.
pub const FIRST_USER_SPID: i32 = 51;
/// Highest session id.
const SPID_MAX: i32 = 32_767;

/// Client of a session, as its login and the network describe it.
#[derive(Clone, Debug, Default)]
pub struct LoginInfo {
    pub login: String,
    /// Of the login that was authenticated, which `login` may name no more. `None` before it is looked up by that name.
    pub sid: Option<Vec<u8>>,
    pub host: String,
    pub program: String,
    pub client_interface: String,
    pub client_process_id: i32,
    pub client_address: String,
    pub net_transport: String,
    pub encrypted: bool,
    pub packet_size: i32,
    /// TDS version as the client asked for it.
    pub tds_version: u32,
    /// Database asked for; empty means the login's default.
    pub database: String,
    pub language: String,
    /// ODBC-like clients start with ANSI options on, DB-Library ones with ANSI options off.
    pub ansi_defaults: bool,
    /// ApplicationIntent=ReadOnly.
    pub read_only_intent: bool,
}

/// Request that a session runs at this moment.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    /// `running`, `sleeping`, `suspended`, `dormant`.
    pub status: &'static str,
    /// `SELECT`, `AWAITING COMMAND`, `WAITFOR`, ...
    pub command: &'static str,
    /// The request waits for memory.
    pub waits_for_memory: bool,
    pub database: Option<DatabaseId>,
    /// Text of the running (or last) batch.
    pub text: Arc<str>,
    pub request_start_utc: i64,
    pub last_request_start_utc: i64,
    pub last_request_end_utc: i64,
    pub open_transactions: u32,
    /// Id of the session's transaction, 0 without one.
    pub transaction_id: u64,
    pub transaction_start_utc: i64,
    pub isolation: Option<IsolationLevel>,
    pub row_count: u64,
    pub last_error: i32,
    pub reads: u64,
    pub writes: u64,
    pub logical_reads: u64,
    /// Of BACKUP and RESTORE: percent done, and milliseconds that remain.
    pub percent_complete: f32,
    pub remaining_ms: i64,
}

/// The part of a session that is shared.
pub struct SessionEntry {
    pub spid: i32,
    pub login: LoginInfo,
    pub login_time_utc: i64,
    pub cancel: CancelFlag,
    pub owner: Arc<Owner>,
    /// Owner of application locks that outlive transactions.
    pub session_owner: Arc<Owner>,
    pub activity: Mutex<Activity>,
    /// First byte of the statement that runs, in the upper half, and the byte behind it, in the request's text; 0 is all of it.
    statement: AtomicU64,
    pub cpu_us: AtomicU64,
    /// Waits of the session up to its last request's end.
    pub waits: Mutex<ThreadWaits>,
    /// Waits for commits that other threads ended for it.
    pub late_waits: Mutex<ThreadWait>,
    /// Tells whether the client has closed the connection, where there is one.
    client_gone: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl SessionEntry {
    /// What the session is seen to do from now on; gives what it was seen to do before.
    pub fn show_command(&self, command: &'static str) -> &'static str {
        std::mem::replace(&mut self.activity.lock().command, command)
    }

    /// The statement of the request's text that runs from now on, by bytes; `0..0` is the whole text.
    pub fn show_statement(&self, bytes: std::ops::Range<usize>) {
        let half = |byte: usize| u64::from(u32::try_from(byte).unwrap_or(u32::MAX));
        let both = half(bytes.start) << 32 | half(bytes.end);
        self.statement.store(both, Ordering::Relaxed);
    }

    /// The bytes that [`SessionEntry::show_statement`] was told last.
    pub fn shown_statement(&self) -> std::ops::Range<usize> {
        let both = self.statement.load(Ordering::Relaxed);
        (both >> 32) as usize..(both & u64::from(u32::MAX)) as usize
    }

    /// Says how to find out whether the client has closed the connection. Once.
    pub fn watch_client(&self, is_gone: impl Fn() -> bool + Send + Sync + 'static) {
        let _is_first = self.client_gone.set(Box::new(is_gone));
    }

    /// Has the client closed the connection, so that the session is about to end?
    pub fn is_client_gone(&self) -> bool {
        self.client_gone.get().is_some_and(|is_gone| is_gone())
    }
}

/// The sessions there are, by @@SPID; user sessions count from 51.
#[derive(Default)]
pub struct SessionRegistry {
    map: RwLock<BTreeMap<i32, Arc<SessionEntry>>>,
}

impl SessionRegistry {
    /// Registers a session under the lowest free id. `None` when there are too many.
    pub fn add(&self, login: LoginInfo, now_utc: i64) -> Option<Arc<SessionEntry>> {
        let mut map = self.map.write();
        let spid = (FIRST_USER_SPID..=SPID_MAX).find(|id| !map.contains_key(id))?;
        let cancel = CancelFlag::new();
        let owner = Owner::of_session(owner_id(spid), cancel.clone());
        let session_owner = Owner::new(owner_id(spid), cancel.clone());
        let activity = Activity {
            status: "sleeping",
            command: "AWAITING COMMAND",
            last_request_start_utc: now_utc,
            last_request_end_utc: now_utc,
            ..Activity::default()
        };
        let entry = SessionEntry {
            spid,
            login,
            login_time_utc: now_utc,
            cancel,
            owner,
            session_owner,
            activity: Mutex::new(activity),
            statement: AtomicU64::new(0),
            cpu_us: AtomicU64::new(0),
            waits: Mutex::default(),
            late_waits: Mutex::default(),
            client_gone: OnceLock::new(),
        };
        let entry = Arc::new(entry);
        map.insert(spid, entry.clone());
        Some(entry)
    }

    /// The session has ended; its number may be given again.
    pub fn remove(&self, spid: i32) {
        self.map.write().remove(&spid);
    }

    /// The session with this number.
    pub fn get(&self, spid: i32) -> Option<Arc<SessionEntry>> {
        self.map.read().get(&spid).cloned()
    }

    /// All sessions, by number.
    pub fn all(&self) -> Vec<Arc<SessionEntry>> {
        self.map.read().values().cloned().collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.map.read().len()
    }
}

/// Lock owners carry the session id in their low half, so that lock views can name sessions; the upper half makes them
/// unique, since session ids are used again.
fn owner_id(spid: i32) -> u64 {
    static GENERATION: AtomicU64 = AtomicU64::new(0);
    (GENERATION.fetch_add(1, Ordering::Relaxed) << 16) | spid as u64
}

/// Session id of a lock owner.
pub fn spid_of_owner(owner: u64) -> i32 {
    (owner & 0xFFFF) as i32
}
