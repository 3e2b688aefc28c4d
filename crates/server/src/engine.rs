//! The real service: logins of master, sessions of an instance, calls as the session wants them.

use crate::password::Argon2Hasher;
use crate::service::{
    BulkRows, ConnectionInfo, LateCommit, Refusal, RequestEnd, Service, ServiceSession, Shutdown,
};
use daruma_base::{CancelFlag, WaitRegistry};
use daruma_tds::TdsError;
use daruma_tds::login::Login7;
use daruma_tds::request::{
    Begin, ParamValue, RpcCall, RpcParam, RpcRequest, RpcTarget, TableValue, TransactionRequest,
};
use daruma_tds::token::Routing;
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::instance::{
    Instance, LoginDef, LoginInfo, LoginRefusal, PasswordHasher, ShutdownRequest,
};
use daruma_tsql::messages;
use daruma_tsql::session::{
    self, RpcArgument, RpcProcedure, SentColumn, SentTable, Session, TableArgument, TakeRow,
};
use daruma_tsql::sink::{Done, DoneKind, Sink};
use daruma_value::{DataType, Value};
use std::sync::Arc;

/// Most connections when `user connections` is 0.
const CONNECTIONS_MAX: usize = 32_767;
const LOGIN_FAILED: i32 = 18456;
/// State of a failed login that clients may learn.
const STATE_TOLD: u8 = 1;

impl PasswordHasher for Argon2Hasher {
    fn hash(&self, password: &str) -> Result<String> {
        self.hash_password(password)
    }

    fn verify(&self, password: &str, hash: &str) -> bool {
        self.verify_password(password, hash)
    }
}

/// The real [`Service`]: sessions of a [`daruma_tsql::instance::Instance`].
pub struct EngineService {
    instance: Arc<Instance>,
    server_name: String,
}

impl EngineService {
    /// Serves this instance under the name that its options give.
    pub fn new(instance: Arc<Instance>) -> EngineService {
        let server_name = instance.options().server_name.clone();
        EngineService {
            instance,
            server_name,
        }
    }

    /// Name and password; the reason of a refusal is for the log alone.
    fn authenticate(&self, login: &Login7) -> std::result::Result<Arc<LoginDef>, Refusal> {
        let name = &login.user_name;
        if login.wants_integrated_security() {
            let text = "Login failed. The login is from an untrusted domain and cannot be used with Integrated authentication.";
            let told = SqlError::new(18452, 14, STATE_TOLD, text);
            return Err(Refusal {
                messages: vec![told],
                state: STATE_TOLD,
                reason: "Integrated authentication is not offered.".into(),
            });
        }
        let new_password = login.new_password.reveal();
        let changes = login.option_flags3 & daruma_tds::login::option3::CHANGE_PASSWORD != 0;
        let outcome = self.instance.logins.authenticate(
            name,
            login.password.reveal(),
            changes.then_some(new_password),
            self.instance.now_utc(),
        );
        match outcome {
            Ok(login) => self.may_connect(login),
            Err(refusal) => Err(refused(name, refusal)),
        }
    }

    /// CONNECT SQL can be taken from a login.
    fn may_connect(&self, login: Arc<LoginDef>) -> std::result::Result<Arc<LoginDef>, Refusal> {
        match daruma_tsql::session::may_connect(&login) {
            true => Ok(login),
            false => Err(Refusal {
                messages: vec![login_failed(&login.name)],
                state: 12,
                reason: "Login-based server access validation failed with an infrastructure error."
                    .into(),
            }),
        }
    }
}

/// Refusal with the text for the client and the one for the log.
fn refused(name: &str, refusal: LoginRefusal) -> Refusal {
    let told = |number: i32, text: &str| {
        SqlError::new(
            number,
            14,
            STATE_TOLD,
            format!("Login failed for user '{name}'{text}"),
        )
    };
    let (message, state, reason) = match refusal {
        LoginRefusal::Unknown => (
            login_failed(name),
            5,
            "Could not find a login matching the name provided.",
        ),
        LoginRefusal::WrongPassword => (
            login_failed(name),
            8,
            "Password did not match that for the login provided.",
        ),
        LoginRefusal::Disabled {
            password_was_right: false,
        } => (
            login_failed(name),
            7,
            "An error occurred while evaluating the password.",
        ),
        LoginRefusal::Disabled {
            password_was_right: true,
        } => (
            told(18470, ". Reason: The account is disabled."),
            1,
            "The account is disabled.",
        ),
        LoginRefusal::LockedOut => (
            told(
                18486,
                " because the account is currently locked out. The system administrator can unlock it.",
            ),
            1,
            "The account is locked out.",
        ),
        LoginRefusal::MustChange => (
            told(
                18488,
                ".  Reason: The password of the account must be changed.",
            ),
            1,
            "The password of the account must be changed.",
        ),
        LoginRefusal::Expired => (
            told(18487, ".  Reason: The password of the account has expired."),
            1,
            "The password of the account has expired.",
        ),
    };
    Refusal {
        messages: vec![message],
        state,
        reason: reason.into(),
    }
}

fn login_failed(name: &str) -> SqlError {
    SqlError::new(
        LOGIN_FAILED,
        14,
        STATE_TOLD,
        format!("Login failed for user '{name}'."),
    )
}

impl Service for EngineService {
    fn server_name(&self) -> &str {
        &self.server_name
    }

    fn write_log(&self, source: &str, text: &str) {
        self.instance.log.write(source, text);
    }

    fn write_log_bounded(&self, source: &str, error: i32, texts: &[&str]) {
        self.instance.log.write_bounded(source, error, texts);
    }

    fn log_in(
        &self,
        login: &Login7,
        connection: &ConnectionInfo,
        is_awaited: &dyn Fn() -> bool,
    ) -> std::result::Result<Box<dyn ServiceSession>, Refusal> {
        let known = self.authenticate(login)?;
        let name = &known.name;
        let info = LoginInfo {
            login: name.clone(),
            sid: Some(known.sid.clone()),
            host: login.host_name.clone(),
            program: login.app_name.clone(),
            client_interface: login.library_name.clone(),
            client_process_id: i32::try_from(login.client_pid).unwrap_or(0),
            client_address: connection.client.ip().to_string(),
            net_transport: "TCP".to_string(),
            encrypted: connection.encrypted,
            packet_size: i32::try_from(connection.packet_bytes).unwrap_or(0),
            tds_version: login.version.login_value(),
            database: login.database.clone(),
            language: login.language.clone(),
            ansi_defaults: login.is_odbc(),
            read_only_intent: login.is_read_only(),
        };
        let goes_on = || match is_awaited() {
            true => Ok(()),
            false => Err(messages::error(1222, &[])),
        };
        match Session::log_in(&self.instance, info, &goes_on) {
            Ok(session) => Ok(Box::new(EngineSession { session })),
            // Dropped since its password was checked.
            Err(error) if error.number == LOGIN_FAILED => Err(refused(name, LoginRefusal::Unknown)),
            Err(mut error) => {
                let next = error.next.take();
                let reason = format!(
                    "Failed to open the explicitly specified database '{}'.",
                    login.database
                );
                Err(Refusal {
                    messages: std::iter::once(error)
                        .chain(next.map(|next| *next))
                        .chain([login_failed(name)])
                        .collect(),
                    state: 38,
                    reason,
                })
            }
        }
    }

    fn connections_max(&self) -> usize {
        match usize::try_from(self.instance.configuration.in_use("user connections")) {
            Ok(0) | Err(_) => CONNECTIONS_MAX,
            Ok(limit) => limit,
        }
    }

    fn has_room(&self, held: usize, wanted: usize) -> bool {
        let signed = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.instance.has_room(signed(held), signed(wanted))
    }

    fn waits(&self) -> Option<&WaitRegistry> {
        Some(self.instance.engine().waits())
    }

    fn shutdown_requested(&self) -> Option<Shutdown> {
        self.instance
            .shutdown_requested()
            .map(|request| match request {
                ShutdownRequest::Orderly => Shutdown::Orderly,
                ShutdownRequest::NoWait => Shutdown::NoWait,
            })
    }
}

struct EngineSession {
    session: Session,
}

impl ServiceSession for EngineSession {
    fn spid(&self) -> i32 {
        self.session.spid()
    }

    fn cancel_flag(&self) -> CancelFlag {
        self.session.cancel_flag()
    }

    fn database(&self) -> String {
        self.session.database_name()
    }

    fn watch_client(&self, is_gone: Box<dyn Fn() -> bool + Send + Sync>) {
        self.session.entry().watch_client(is_gone);
    }

    fn language(&self) -> String {
        self.session.language().to_string()
    }

    fn enter(&mut self) -> std::result::Result<(), Refusal> {
        // One that is to go on to another server begins there.
        if self.session.route().is_some() {
            return Ok(());
        }
        self.session.fire_logon().map_err(|error| Refusal {
            messages: vec![error],
            state: STATE_TOLD,
            reason: "Logon failed due to trigger execution.".into(),
        })
    }

    fn route(&self) -> Option<Routing> {
        self.session.route().map(|route| Routing {
            port: route.port,
            server: route.host.clone(),
        })
    }

    fn batch(&mut self, text: &str, sink: &mut dyn Sink) -> RequestEnd {
        request_end(self.session.execute_batch(text, sink))
    }

    fn rpc(&mut self, request: RpcRequest, sink: &mut dyn Sink) -> RequestEnd {
        // Not collected in place: the room of a request is larger than what it becomes, and giving back the rest costs
        // more than new room.
        let mut calls = Vec::with_capacity(request.calls.len());
        let converted = request
            .calls
            .into_iter()
            .try_for_each(|c| call(c).map(|c| calls.push(c)));
        match converted.map(|()| calls) {
            Ok(calls) => request_end(self.session.execute_rpc(&calls, sink)),
            Err(error) => refuse(
                &error,
                DoneKind::Procedure,
                self.session.in_transaction(),
                sink,
            ),
        }
    }

    fn transaction(&mut self, request: TransactionRequest, sink: &mut dyn Sink) -> RequestEnd {
        match transaction_request(request) {
            Some(request) => request_end(self.session.execute_transaction(&request, sink)),
            None => {
                let error = SqlError::new(
                    40510,
                    16,
                    1,
                    "Distributed transactions are not supported in this version of SQL Server.",
                );
                refuse(
                    &error,
                    DoneKind::Statement,
                    self.session.in_transaction(),
                    sink,
                )
            }
        }
    }

    fn bulk(&mut self, rows: &mut dyn BulkRows, sink: &mut dyn Sink) -> RequestEnd {
        request_end(self.session.execute_bulk(rows, sink))
    }

    fn allow_late_commits(&mut self) {
        self.session.set_late_commits(true);
    }

    fn take_late_commit(&mut self) -> Option<LateCommit> {
        self.session.take_late_commit()
    }

    fn reset(&mut self, keep_transaction: bool, sink: &mut dyn Sink) -> Result<()> {
        self.session.reset(keep_transaction, sink)
    }
}

fn request_end(end: session::RequestEnd) -> RequestEnd {
    match end {
        session::RequestEnd::Completed => RequestEnd::Completed,
        session::RequestEnd::Cancelled => RequestEnd::Cancelled,
        session::RequestEnd::Disconnect => RequestEnd::Disconnect,
    }
}

/// An error of a request that the session never saw.
fn refuse(
    error: &SqlError,
    kind: DoneKind,
    in_transaction: bool,
    sink: &mut dyn Sink,
) -> RequestEnd {
    let done = Done {
        kind,
        command: 0,
        row_count: None,
        error: true,
        in_transaction,
    };
    match sink.message(error).and_then(|()| sink.done(done)) {
        Ok(()) => RequestEnd::Completed,
        Err(_) => RequestEnd::Disconnect,
    }
}

fn call(call: RpcCall) -> Result<session::RpcRequest> {
    let procedure = match call.target {
        RpcTarget::Id(id) => RpcProcedure::Id(id as u16),
        RpcTarget::Name(name) => RpcProcedure::Name(name),
    };
    let mut args = Vec::with_capacity(call.params.len());
    for param in call.params {
        args.push(argument(param)?);
    }
    let no_metadata = call.options & daruma_tds::request::rpc_option::NO_METADATA != 0;
    Ok(session::RpcRequest {
        procedure,
        args,
        no_metadata,
    })
}

fn argument(param: RpcParam) -> Result<RpcArgument> {
    let RpcParam {
        name,
        is_output,
        is_default,
        value,
    } = param;
    match value {
        ParamValue::Scalar { type_info, value } => {
            let data_type = type_info.data_type();
            Ok(RpcArgument {
                name,
                value: (!is_default).then_some(value),
                data_type,
                output: is_output,
                table: None,
            })
        }
        ParamValue::Table(table) => Ok(RpcArgument {
            name,
            value: Some(Value::Null),
            data_type: DataType::Int,
            output: is_output,
            table: Some(TableArgument::Sent(Arc::new(Sent { table, is_default }))),
        }),
    }
}

/// A table-valued parameter on its way into the session.
struct Sent {
    table: Box<TableValue>,
    /// The call says so beside the table.
    is_default: bool,
}

impl SentTable for Sent {
    fn type_name(&self) -> (&str, &str) {
        (&self.table.schema, &self.table.type_name)
    }

    fn is_default(&self) -> bool {
        self.is_default || self.table.is_null
    }

    fn columns(&self) -> Vec<SentColumn> {
        let order = &self.table.column_order;
        let ordinal = |at: usize| match order.get(at) {
            Some(column) => usize::from(*column).wrapping_sub(1),
            None if order.is_empty() => at,
            None => usize::MAX,
        };
        let columns = self.table.columns.iter().enumerate();
        columns
            .map(|(at, column)| SentColumn {
                ordinal: ordinal(at),
                data_type: column.type_info.data_type(),
                is_default: column.is_default(),
            })
            .collect()
    }

    fn each_row(&self, take: &mut TakeRow<'_>) -> Result<()> {
        self.table
            .each_row(|row| take(row).map_err(RowError::Refused))
            .map_err(|error| match error {
                RowError::Refused(error) => error,
                RowError::Damaged(error) => SqlError::new(
                    8009,
                    16,
                    1,
                    format!(
                        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is incorrect. {error}."
                    ),
                ),
            })
    }
}

/// Why the rows of a table were not read to the end.
enum RowError {
    Refused(SqlError),
    Damaged(TdsError),
}

impl From<TdsError> for RowError {
    fn from(error: TdsError) -> RowError {
        RowError::Damaged(error)
    }
}

/// `None` for requests of distributed transactions.
fn transaction_request(request: TransactionRequest) -> Option<session::TransactionRequest> {
    use session::TransactionRequest as Local;
    let next = |begin: Option<Begin>| begin.map(|b| (b.isolation as u8, b.name));
    match request {
        TransactionRequest::Begin(Begin { isolation, name }) => Some(Local::Begin {
            isolation: isolation as u8,
            name,
        }),
        TransactionRequest::Commit { name, next: begin } => Some(Local::Commit {
            name,
            begin: next(begin),
        }),
        TransactionRequest::Rollback { name, next: begin } => Some(Local::Rollback {
            name,
            begin: next(begin),
        }),
        TransactionRequest::Save { name } => Some(Local::Save { name }),
        TransactionRequest::GetDtcAddress { .. }
        | TransactionRequest::Propagate { .. }
        | TransactionRequest::Promote => None,
    }
}
