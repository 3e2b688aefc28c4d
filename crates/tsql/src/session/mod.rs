//! Sessions: the state of one connection and the interpreter of its batches.
//!
//! Theory: a [`Session`] keeps its state in cells, because a statement reaches it through shared references (as
//! [`crate::host::Host`]) while it runs. One request makes an [`Execution`]: the state plus the sink. Statements are
//! interpreted one by one; each is atomic; an error ends the statement, the scope, the batch or the connection,
//! depending on its class and on who may catch it.
//!
//! Map: `frame` (variables and scope), `transaction`, `temp`, `execution` (the host), `resolve` (names), `interpreter`
//! (control flow), `statement` (dispatch), `fail` (error classes), `settings` (SET), `procedure` and `rpc` (calls),
//! `trigger`, `ddl_trigger`, `access` (rights), `raise` (RAISERROR, THROW), `events` (event sessions), `functions` and `properties` (system functions), `statistics`.
//!
//! Invariants
//! 1. Outside a request there is no autocommit transaction, no statement lock and no frame.
//! 2. A doomed transaction never commits.
//! 3. Every request leaves through `finish_request`, which settles the transaction and the registry.

mod access;
mod admin;
mod backup;
mod bulk;
mod check;
mod client_cursor;
mod completed;
mod convert;
mod cursor;
mod ddl_trigger;
mod declared;
mod definition_locks;
mod events;
mod execution;
mod fail;
mod frame;
mod function;
mod functions;
mod hadr;
mod interpreter;
mod keys;
mod located;
mod login_options;
mod logins;
mod metadata;
mod module;
mod own;
mod parameters;
mod plans;
mod principals;
mod procedure;
mod properties;
mod query;
mod raise;
mod reseed;
mod resolve;
mod result_sets;
mod rpc;
mod sequence;
mod settings;
mod show;
mod statement;
mod statistics;
mod table_argument;
mod temp;
mod temp_module;
mod text_size;
mod trace_flags;
mod transaction;
mod trigger;
mod types;
mod unhard;
mod user_message;
mod xml_documents;

pub(crate) use access::{DbccTable, Securable, check_policy, columns_of, permissions_of};
pub use access::{ProcedureRule, ViewRule, may_connect, procedure_rule, rule_of};
pub(crate) use backup::credentials::all as all_credentials;
pub use backup::credentials::server_credential;
pub(crate) use backup::prepare_history;
pub(crate) use backup::{
    RESTORING, STANDBY, Settled, differential_base, files_beside, forget_differential_base,
    forget_restores, open_standby, ready_to_follow, restores_pages, settle_pages, settle_restore,
    take_back_pages, utc_of,
};
pub(crate) use backup::{
    SuspectPage, SuspectPages, backup_database, forget_suspects, note_suspects,
};
pub use bulk::BulkRows;
pub use check::{Suspect, SuspectKind, may_hold_secrets, quotes_set, suspects};
pub(crate) use check::{comment_len, quoted_len};
pub(crate) use ddl_trigger::types as ddl_event_types;
pub use declared::passed_over;
pub use execution::Execution;
pub use execution::plain_column;
pub use functions::version_text;
pub(crate) use hadr::{may_connect_to_endpoint, set_hadr};
pub(crate) use located::{Level, Located, is_of_kind, locate};
pub use metadata::{BUILT_IN_TYPES, definition_of, user_type_id};
pub use own::run_as_administrator;
pub use procedure::SystemCall;
pub use properties::state_name;
pub(crate) use query::into_of;
pub(crate) use raise::WAITFOR;
pub use rpc::{Prepared, RpcArgument, RpcProcedure, RpcRequest};
pub(crate) use settings::{language_name, language_of_id, message_language};
pub use table_argument::{SentColumn, SentTable, TableArgument, TakeRow};
pub(crate) use temp::drop_trees;
pub use temp_module::TempModule;
pub use types::named_type;
pub(crate) use types::{integer_fits, integer_range as integer_limits};
pub use unhard::LateCommit;
pub(crate) use user_message::ENGLISH;

use crate::error::{Result, SqlError};
use crate::host::SessionSettings;
use crate::instance::change::ALWAYS;
use crate::instance::completed::LEAST_100NS;
use crate::instance::hadr::Route;
use crate::instance::{DatabaseEntry, Instance, LoginInfo, SessionEntry};
use crate::messages;
use crate::sink::{Done, DoneKind, EnvChange, Sink};
use completed::EndedRequest;
use daruma_base::{CancelFlag, DatabaseId, WaitSums};
use daruma_storage::{Database, LockMode, LockResource};
use daruma_value::Value;
use daruma_value::functions::RandomSequence;
use frame::Frame;
use parameters::ParameterList;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use temp::TempTable;
use transaction::Transaction;

/// A request is often shorter than reading the processor's clock is worth: it is read this often at most.
const CPU_READ_EVERY_100NS: i64 = 500_000;

/// State of a session. Used by one thread at a time.
pub(crate) struct SessionState {
    pub instance: Arc<Instance>,
    pub entry: Arc<SessionEntry>,
    pub settings: RefCell<SessionSettings>,
    pub database: RefCell<Arc<DatabaseEntry>>,
    /// Databases that the session works in, or its transaction does, from another one.
    pub visited: RefCell<Vec<Arc<DatabaseEntry>>>,
    pub login_database: DatabaseId,
    pub transaction: RefCell<Option<Transaction>>,
    pub trancount: Cell<u32>,
    pub late: unhard::Late,
    /// Marks of sequences that the running statement waits for.
    unhard_marks: sequence::UnhardMarks,
    /// When the thread's processor time was last read.
    pub cpu_read_utc: Cell<i64>,
    /// Waits of the thread when the session's were last taken over.
    pub waits_seen: Cell<u64>,
    /// How long the thread had waited at the end of the last request.
    pub wait_sums_seen: Cell<WaitSums>,
    pub frames: RefCell<Vec<Frame>>,
    pub temps: RefCell<Vec<TempTable>>,
    /// Temporary procedures by the key of their names.
    pub temp_modules: RefCell<HashMap<String, TempModule>>,
    /// Grows with each change of definitions in the open transaction, and when it takes them back.
    pub private_version: Cell<u64>,
    pub statement_locks: RefCell<Vec<(Arc<Database>, LockResource, LockMode)>>,
    pub last_error: Cell<i32>,
    pub row_count: Cell<u64>,
    pub last_identity: Cell<Option<i128>>,
    /// SCOPE_IDENTITY of the batches themselves, which goes on from one to the next.
    pub batch_identity: Cell<Option<i128>>,
    /// Errors being handled by CATCH blocks, innermost last.
    pub caught: RefCell<Vec<SqlError>>,
    pub prepared: RefCell<HashMap<i32, Prepared>>,
    /// Parsed parameter definitions of sp_executesql, by text.
    pub definitions: RefCell<HashMap<String, Arc<ParameterList>>>,
    pub next_handle: Cell<i32>,
    /// Target of the rows that the next message brings.
    pub bulk_load: RefCell<Option<daruma_syntax::ast::InsertBulk>>,
    pub identity_insert: RefCell<Option<(DatabaseId, i32)>>,
    /// Trace flags that are on for the session.
    pub trace_flags: RefCell<Vec<i32>>,
    pub access: access::AccessState,
    pub cursors: cursor::Cursors,
    pub xml_documents: xml_documents::XmlDocuments,
    pub context_info: RefCell<Vec<u8>>,
    /// Of RAND, once it has been called.
    pub random: Cell<Option<RandomSequence>>,
    /// The master key of master that OPEN MASTER KEY opened: which one, and its bytes.
    pub open_master_key: RefCell<Option<([u8; 16], Vec<u8>)>>,
    pub session_context: RefCell<HashMap<String, (Value, bool)>>,
    /// The connection must end after this request.
    pub ended: Cell<bool>,
    /// A session of the server's own: triggers of definitions do not hear of it, so that they cannot keep the server from starting.
    pub is_own: Cell<bool>,
    pub watch: events::RequestWatch,
}

/// One connection's session.
pub struct Session {
    state: SessionState,
    route: Option<Route>,
}

/// How a request ended, for whoever runs the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    Completed,
    /// An attention stopped it: answer with the attention acknowledgement.
    Cancelled,
    /// The connection must be closed: fatal error, KILL, lost client.
    Disconnect,
}

/// Requests of the transaction manager message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionRequest {
    /// Isolation level byte of the wire (0 keeps the level) and name.
    Begin {
        isolation: u8,
        name: String,
    },
    Commit {
        name: String,
        begin: Option<(u8, String)>,
    },
    Rollback {
        name: String,
        begin: Option<(u8, String)>,
    },
    Save {
        name: String,
    },
}

impl Session {
    /// Registers a session for a login that was authenticated. Fails with 4060 when its database cannot be used.
    pub fn new(instance: &Arc<Instance>, login: LoginInfo) -> Result<Session> {
        Session::log_in(instance, login, ALWAYS)
    }

    /// The same, and `goes_on` is asked while it waits for whoever is alone in the database: its error ends that. Error 18456 when the
    /// login with the SID that is given is there no more.
    pub fn log_in(
        instance: &Arc<Instance>,
        mut login: LoginInfo,
        goes_on: &dyn Fn() -> Result<()>,
    ) -> Result<Session> {
        let login_def = instance.logins.list().of_client(&login);
        if login_def.is_none() && login.sid.is_some() {
            return Err(messages::error(18456, &[&login.login, &"", &""]));
        }
        login.sid = login_def.as_ref().map(|l| l.sid.clone());
        let (database, route) = login_database(instance, &login)?;
        let settings = settings::initial(instance, &login);
        let entry = instance
            .sessions
            .add(login, instance.now_utc())
            .ok_or_else(|| SqlError::new(17809, 20, 3, "Could not connect because the maximum number of user connections has already been reached."))?;
        let patience = || {
            crate::host::cancelled(&entry.cancel)?;
            goes_on()
        };
        if let Err(busy) = database.enter(entry.spid, &patience) {
            instance.sessions.remove(entry.spid);
            return Err(busy.followed(messages::error(4060, &[&database.name()])));
        }
        entry.activity.lock().database = Some(database.id());
        let session = Session {
            route,
            state: SessionState {
                instance: instance.clone(),
                entry,
                settings: RefCell::new(settings),
                login_database: database.id(),
                database: RefCell::new(database),
                visited: RefCell::default(),
                transaction: RefCell::new(None),
                trancount: Cell::new(0),
                frames: RefCell::default(),
                temps: RefCell::default(),
                temp_modules: RefCell::default(),
                private_version: Cell::new(0),
                statement_locks: RefCell::default(),
                last_error: Cell::new(0),
                row_count: Cell::new(0),
                cpu_read_utc: Cell::new(0),
                waits_seen: Cell::new(daruma_base::thread_wait_count()),
                wait_sums_seen: Cell::new(daruma_base::thread_wait_sums()),
                last_identity: Cell::new(None),
                batch_identity: Cell::new(None),
                caught: RefCell::default(),
                prepared: RefCell::default(),
                definitions: RefCell::default(),
                next_handle: Cell::new(0),
                bulk_load: RefCell::new(None),
                identity_insert: RefCell::new(None),
                trace_flags: RefCell::default(),
                access: access::AccessState::of_login(login_def.as_deref()),
                context_info: RefCell::default(),
                random: Cell::new(None),
                open_master_key: RefCell::default(),
                cursors: cursor::Cursors::default(),
                xml_documents: xml_documents::XmlDocuments::default(),
                session_context: RefCell::default(),
                ended: Cell::new(false),
                is_own: Cell::new(false),
                watch: events::RequestWatch::default(),
                late: unhard::Late::default(),
                unhard_marks: sequence::UnhardMarks::default(),
            },
        };
        match session.state.rights(session.state.login_database) {
            Ok(_) => Ok(session),
            Err(_) => Err(messages::error(4060, &[&session.database_name()])),
        }
    }

    /// @@SPID.
    pub fn spid(&self) -> i32 {
        self.state.entry.spid
    }

    /// Where the client should log in instead: read-only routing.
    pub fn route(&self) -> Option<&Route> {
        self.route.as_ref()
    }

    /// The server that the session belongs to.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.state.instance
    }

    /// Entry in the registry, which other sessions see.
    pub fn entry(&self) -> &Arc<SessionEntry> {
        &self.state.entry
    }

    /// Name of the current database.
    pub fn database_name(&self) -> String {
        self.state.database.borrow().name()
    }

    /// The language that is spoken now.
    pub fn language(&self) -> &'static str {
        self.state.settings.borrow().language
    }

    /// Set it from another thread to stop the running statement (`Attention`) or the session (`Kill`).
    pub fn cancel_flag(&self) -> CancelFlag {
        self.state.entry.cancel.clone()
    }

    /// Is @@TRANCOUNT above 0?
    pub fn in_transaction(&self) -> bool {
        self.state.trancount.get() > 0
    }

    /// Descriptor of the open transaction, 0 without one.
    pub fn transaction_descriptor(&self) -> u64 {
        match self.in_transaction() {
            true => self.state.transaction_id().unwrap_or(0),
            false => 0,
        }
    }

    /// With `wanted` a request may end before its last commit is hard: what it told must not be sent before
    /// [`Session::take_late_commit`] has been dealt with.
    pub fn set_late_commits(&mut self, wanted: bool) {
        self.state.late.set_wanted(wanted);
    }

    /// The commit that the request which has just ended left to its caller.
    pub fn take_late_commit(&mut self) -> Option<LateCommit> {
        self.state.late.take()
    }

    /// Runs a batch. Errors of the batch go to the sink; the result says how it ended.
    pub fn execute_batch(&mut self, text: &str, sink: &mut dyn Sink) -> RequestEnd {
        self.state.watch_batch();
        self.request(text, sink, |execution| execution.run_batch(text))
    }

    /// Runs remote procedure calls, one after the other.
    pub fn execute_rpc(&mut self, requests: &[RpcRequest], sink: &mut dyn Sink) -> RequestEnd {
        let text = requests.first().map_or("", RpcRequest::display_text);
        self.state.watch_call(requests);
        self.request(text, sink, |execution| execution.run_rpcs(requests))
    }

    /// Runs a transaction manager request.
    pub fn execute_transaction(
        &mut self,
        request: &TransactionRequest,
        sink: &mut dyn Sink,
    ) -> RequestEnd {
        self.state.watch_nothing();
        self.request("", sink, |execution| {
            execution.run_transaction_request(request)
        })
    }

    /// Back to the state after login (pooled connections). With `keep_transaction` an open transaction stays.
    pub fn reset(&mut self, keep_transaction: bool, sink: &mut dyn Sink) -> Result<()> {
        self.state.settle();
        self.state.reset(keep_transaction)?;
        sink.env_change(EnvChange::ResetDone)
    }

    /// Ends the session: rolls back, drops what was temporary, frees the id.
    pub fn close(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let s = &self.state;
        if s.instance.sessions.get(s.entry.spid).is_none() {
            return;
        }
        s.settle();
        // A failed rollback is logged by storage and repeated by recovery: the session ends in any case.
        let _ = s.rollback_all();
        let _ = s.drop_temps_above(0);
        let _ = s.drop_own_globals();
        s.drop_own_modules();
        s.instance.engine().release_locks(&s.entry.owner);
        s.instance.engine().release_locks(&s.entry.session_owner);
        s.end_visits();
        s.database.borrow().leave(s.entry.spid);
        s.instance.sessions.remove(s.entry.spid);
    }

    fn request(
        &mut self,
        text: &str,
        sink: &mut dyn Sink,
        work: impl FnOnce(&Execution<'_>) -> std::result::Result<(), fail::Stop>,
    ) -> RequestEnd {
        let s = &self.state;
        s.settle();
        if s.late.has_failed() {
            return RequestEnd::Disconnect;
        }
        s.start_request(text);
        let execution = Execution::new(s, sink);
        s.late.set_tail(true);
        let ended = work(&execution);
        s.late.set_tail(false);
        let ended = execution.finish_request(ended);
        if ended != RequestEnd::Completed {
            s.settle();
        }
        match s.late.has_failed() {
            true => RequestEnd::Disconnect,
            false => ended,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

impl SessionState {
    /// Sets the session back to its login. Error 4060 when its database cannot be used any more: the connection is to end.
    pub(super) fn reset(&self, keep_transaction: bool) -> Result<()> {
        if !keep_transaction {
            self.rollback_all()?;
            self.end_visits();
        }
        self.instance
            .engine()
            .release_locks(&self.entry.session_owner);
        self.drop_temps_above(0)?;
        self.drop_own_globals()?;
        self.drop_own_modules();
        let isolation = self.settings.borrow().isolation;
        let mut settings = settings::initial(&self.instance, &self.entry.login);
        if keep_transaction {
            settings.isolation = isolation;
        }
        *self.settings.borrow_mut() = settings;
        self.apply_lock_settings();
        self.prepared.borrow_mut().clear();
        self.identity_insert.replace(None);
        self.trace_flags.borrow_mut().clear();
        self.bulk_load.replace(None);
        self.access.reset();
        self.context_info.borrow_mut().clear();
        self.random.set(None);
        self.open_master_key.replace(None);
        self.cursors.clear();
        self.xml_documents.clear();
        self.session_context.borrow_mut().clear();
        self.last_identity.set(None);
        self.batch_identity.set(None);
        self.last_error.set(0);
        self.row_count.set(0);
        let database = self.instance.database(self.login_database);
        let usable = |d: &Arc<DatabaseEntry>| d.open().is_ok() && self.rights(d.id()).is_ok();
        let refused = || messages::error(4060, &[&self.entry.login.database]);
        let database = database.filter(usable).ok_or_else(refused)?;
        self.enter_database(database)
            .map_err(|busy| busy.followed(refused()))
    }

    fn start_request(&self, text: &str) {
        self.instance
            .requests
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let now = self.instance.now_utc();
        self.entry.show_statement(0..0);
        self.begin_watch();
        let mut activity = self.entry.activity.lock();
        activity.status = "running";
        activity.command = "SELECT";
        if &*activity.text != text {
            activity.text = Arc::from(text);
        }
        activity.request_start_utc = now;
        activity.last_request_start_utc = now;
    }

    pub(crate) fn end_request(&self) {
        self.instance.memory.leave(self.entry.spid);
        let now = self.instance.now_utc();
        let mut activity = self.entry.activity.lock();
        activity.status = "sleeping";
        activity.command = "AWAITING COMMAND";
        activity.last_request_end_utc = now;
        activity.row_count = self.row_count.get();
        activity.last_error = self.last_error.get();
        activity.isolation = Some(self.settings.borrow().isolation);
        // One thread serves the session, so what the thread has done so far is the session's.
        let io = daruma_storage::thread_io();
        let long = now - activity.request_start_utc >= LEAST_100NS;
        let watched = self.watched_request();
        let late = self.late.is_open();
        let before = (long || late || watched.is_some()).then(|| activity.clone());
        activity.logical_reads = io.logical_reads;
        activity.reads = io.physical_reads;
        activity.writes = io.logical_writes;
        drop(activity);
        let cpu_before = self.entry.cpu_us.load(std::sync::atomic::Ordering::Relaxed);
        if now - self.cpu_read_utc.get() >= CPU_READ_EVERY_100NS || watched.is_some() {
            self.cpu_read_utc.set(now);
            let cpu = self.thread_cpu_us();
            self.entry
                .cpu_us
                .store(cpu, std::sync::atomic::Ordering::Relaxed);
        }
        let waits = self.take_waits();
        self.tell_waits();
        let Some(before) = before else { return };
        if let Some(kind) = watched {
            self.tell_request(kind, &before, now, cpu_before);
        }
        if long || late {
            let ended = EndedRequest::new(self, before, cpu_before, waits);
            if let Some(ended) = self.late.leave(ended) {
                ended.note(&self.instance, &self.entry, WaitSums::default());
            }
        }
    }

    /// What the thread waited for since the last request's end goes to the session; gives the time.
    fn take_waits(&self) -> WaitSums {
        let count = daruma_base::thread_wait_count();
        if self.waits_seen.replace(count) == count {
            return WaitSums::default();
        }
        *self.entry.waits.lock() = daruma_base::thread_waits();
        let sums = daruma_base::thread_wait_sums();
        sums.since(self.wait_sums_seen.replace(sums))
    }

    /// Moves the session to another database. Error 924 when that is in SINGLE_USER and another's; what is asked before, as the
    /// right to be there, may have changed while it waited and is asked again. One that its transaction works in it goes on to visit.
    pub(crate) fn enter_database(&self, database: Arc<DatabaseEntry>) -> Result<()> {
        let left = self.database.borrow().clone();
        if self.has_part_in(left.id()) {
            self.visit(&left)?;
        }
        database.enter(self.entry.spid, &self.patience())?;
        if let Err(error) = self.rights(database.id()) {
            database.leave(self.entry.spid);
            return Err(error);
        }
        self.entry.activity.lock().database = Some(database.id());
        self.database.replace(database);
        left.leave(self.entry.spid);
        Ok(())
    }

    /// The session works in a database that is not its current one, until its request and transaction have ended. Error 924 when that
    /// is in SINGLE_USER and another's.
    pub(crate) fn visit(&self, database: &Arc<DatabaseEntry>) -> Result<()> {
        // Nobody is ever alone in those.
        if database.is_system() {
            return Ok(());
        }
        let mut visited = self.visited.borrow_mut();
        if !visited.iter().any(|d| Arc::ptr_eq(d, database)) {
            database.visit(self.entry.spid, &self.patience())?;
            visited.push(database.clone());
        }
        Ok(())
    }

    /// Whether a wait for the work of another session goes on: until it is cancelled (3617, 596) or LOCK_TIMEOUT has passed (1222).
    pub(crate) fn patience(&self) -> impl Fn() -> Result<()> + '_ {
        let clock = &self.instance.env().clock;
        let start = clock.monotonic();
        let timeout = u64::try_from(self.settings.borrow().lock_timeout_ms);
        move || {
            self.check_cancel()?;
            let waited = clock.monotonic().saturating_sub(start);
            match &timeout {
                Ok(timeout) if waited >= Duration::from_millis(*timeout) => {
                    Err(messages::error_state(1222, 51, &[]))
                }
                _ => Ok(()),
            }
        }
    }

    /// Lets go of what [`SessionState::visit`] has noted.
    pub(crate) fn end_visits(&self) {
        let visited = std::mem::take(&mut *self.visited.borrow_mut());
        visited.iter().for_each(|d| d.end_visit(self.entry.spid));
    }

    /// Global temporary tables of this session go with it.
    fn drop_own_globals(&self) -> Result<()> {
        let own: Vec<_> = {
            let globals = self.instance.global_temps.lock();
            let mine = globals.values().filter(|g| g.creator == self.entry.spid);
            mine.map(|g| g.table.clone()).collect()
        };
        if own.is_empty() {
            return Ok(());
        }
        let began = self.ensure_transaction();
        let dropped = own.iter().try_for_each(|table| self.drop_temp(table));
        match (began, &dropped) {
            (true, Ok(())) => self.commit_parts(None),
            (true, Err(_)) => self.rollback_all().and(dropped),
            (false, _) => dropped,
        }
    }

    /// Error of a session that must stop: 596 after KILL, 3617 after an attention.
    pub(crate) fn check_cancel(&self) -> Result<()> {
        crate::host::cancelled(&self.entry.cancel)
    }
}

/// The database that a session begins in, and where its client should log in instead.
fn login_database(
    instance: &Arc<Instance>,
    login: &LoginInfo,
) -> Result<(Arc<DatabaseEntry>, Option<Route>)> {
    let default = instance
        .logins
        .list()
        .of_client(login)
        .map_or("master".to_string(), |l| l.default_database.clone());
    let wanted = match login.database.is_empty() {
        true => default,
        false => login.database.clone(),
    };
    let cannot_open = |name: &str| messages::error(4060, &[&name]);
    let entry = instance
        .database_named(&wanted)
        .ok_or_else(|| cannot_open(&wanted))?;
    // Why not, where its group is the reason: it may be otherwise in a moment, or elsewhere.
    let of_group = |e: SqlError| e.followed(cannot_open(&wanted));
    let (availability, name) = (entry.availability(), entry.name());
    let intent = login.read_only_intent;
    availability.check_open(&name).map_err(of_group)?;
    let route = match intent {
        true => instance.route_reader(&entry),
        false => None,
    };
    if route.is_none() {
        availability.check_intent(&name, intent).map_err(of_group)?;
    }
    entry.open().map_err(|_| cannot_open(&wanted))?;
    Ok((entry, route))
}

/// A DONE without row count.
pub(crate) fn plain_done(kind: DoneKind, command: u16, in_transaction: bool) -> Done {
    Done {
        kind,
        command,
        row_count: None,
        error: false,
        in_transaction,
    }
}
