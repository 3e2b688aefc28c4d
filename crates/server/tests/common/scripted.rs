//! A scripted service behind a real listener, for tests of the dialogue and of hostile clients.

use super::{Client, Mode, login};
use daruma_base::cancel::CancelReason;
use daruma_base::{CancelFlag, WaitRegistry};
use daruma_server::{
    BulkRows, ConnectionInfo, EncryptionPolicy, Limits, Listener, Refusal, RequestEnd, Service,
    ServiceSession, Shutdown, TlsSettings,
};
use daruma_tds::TdsVersion;
use daruma_tds::login::Login7;
use daruma_tds::request::{ParamValue, RpcRequest, TransactionRequest};
use daruma_tds::token::Routing;
use daruma_tds::token::command;
use daruma_tsql::error::SqlError;
use daruma_tsql::sink::{self, Done, DoneKind, OutputColumn, Sink};
use daruma_value::{DataType, Value};
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const PASSWORD: &str = "Right-1";

/// Runs tiny scripts: `rows N`, `wait`, `error`, `panic`, `stop`, `bad`. A login as `fault` makes it panic, one as `late` waits until its client
/// waits no more; the session of one as `slow` waits before its first request until it is cancelled, and is refused then.
pub struct Scripted {
    log: Mutex<Vec<String>>,
    spids: AtomicI32,
    pub limit: AtomicUsize,
    /// Logins as `late` and `slow` that have begun to wait.
    pub late: Arc<AtomicUsize>,
    pub open: Arc<AtomicUsize>,
    /// Rows that all sessions have given to their clients' connections.
    pub rows_sent: Arc<AtomicU64>,
    shutdown: Arc<Mutex<Option<Shutdown>>>,
}

struct ScriptedSession {
    spid: i32,
    cancel: CancelFlag,
    open: Arc<AtomicUsize>,
    rows_sent: Arc<AtomicU64>,
    resets: Vec<bool>,
    shutdown: Arc<Mutex<Option<Shutdown>>>,
    route: Option<Routing>,
    /// Counts it, where it waits before its first request.
    slow: Option<Arc<AtomicUsize>>,
}

impl Service for Scripted {
    fn server_name(&self) -> &str {
        "SCRIPTED"
    }

    fn write_log(&self, source: &str, text: &str) {
        self.log
            .lock()
            .expect("lock")
            .push(format!("{source}: {text}"));
    }

    fn log_in(
        &self,
        login: &Login7,
        _: &ConnectionInfo,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<Box<dyn ServiceSession>, Refusal> {
        assert!(login.user_name != "fault", "as told");
        if login.user_name == "late" {
            self.late.fetch_add(1, Ordering::SeqCst);
        }
        while login.user_name == "late" && is_awaited() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let is_slow = login.user_name == "slow";
        let is_known = is_slow || login.user_name == "sa";
        if !is_known || login.password.reveal() != PASSWORD {
            let told = SqlError::new(
                18456,
                14,
                1,
                format!("Login failed for user '{}'.", login.user_name),
            );
            return Err(Refusal {
                messages: vec![told],
                state: 8,
                reason: "Password did not match.".into(),
            });
        }
        self.open.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(ScriptedSession {
            spid: self.spids.fetch_add(1, Ordering::SeqCst),
            cancel: CancelFlag::new(),
            open: self.open.clone(),
            rows_sent: self.rows_sent.clone(),
            resets: Vec::new(),
            shutdown: self.shutdown.clone(),
            // Readers belong elsewhere.
            route: login.is_read_only().then(|| Routing {
                port: 14_330,
                server: "reader".to_string(),
            }),
            slow: is_slow.then(|| self.late.clone()),
        }))
    }

    fn connections_max(&self) -> usize {
        self.limit.load(Ordering::SeqCst)
    }

    fn waits(&self) -> Option<&WaitRegistry> {
        None
    }

    fn shutdown_requested(&self) -> Option<Shutdown> {
        *self.shutdown.lock().expect("lock")
    }
}

pub fn int_column(name: &str) -> OutputColumn {
    OutputColumn {
        name: name.into(),
        data_type: DataType::Int,
        collation: daruma_value::CollationId::DEFAULT,
        nullable: true,
        identity: false,
        computed: true,
    }
}

fn done(command: u16, row_count: Option<u64>) -> Done {
    Done {
        kind: DoneKind::Statement,
        command,
        row_count,
        error: false,
        in_transaction: false,
    }
}

impl ScriptedSession {
    fn rows(&self, count: i32, sink: &mut dyn Sink) -> Result<RequestEnd, SqlError> {
        sink.columns(&[int_column("n"), int_column("twice")])?;
        for n in 0..count {
            // Now and then, as the engine does.
            match self.cancel.get().filter(|_| n % 1_000 == 999) {
                None => {}
                Some(CancelReason::Attention) => return Ok(RequestEnd::Cancelled),
                Some(CancelReason::Kill) => return Ok(RequestEnd::Disconnect),
            }
            let twice = if n % 2 == 0 {
                Value::Int(2 * n)
            } else {
                Value::Null
            };
            sink.row(&[Value::Int(n), twice])?;
            self.rows_sent.fetch_add(1, Ordering::Relaxed);
        }
        sink.done(done(command::SELECT, Some(count as u64)))?;
        Ok(RequestEnd::Completed)
    }

    /// As a WAITFOR that only a cancel ends.
    fn wait(&self) -> RequestEnd {
        loop {
            match self.cancel.get() {
                None => std::thread::yield_now(),
                Some(CancelReason::Attention) => return RequestEnd::Cancelled,
                Some(CancelReason::Kill) => return RequestEnd::Disconnect,
            }
        }
    }

    fn step(&mut self, step: &str, sink: &mut dyn Sink) -> Result<RequestEnd, SqlError> {
        let (verb, argument) = step.split_once(' ').unwrap_or((step, ""));
        match verb {
            "rows" => return self.rows(argument.parse().expect("a number"), sink),
            "wait" => {
                sink.flush()?;
                return Ok(self.wait());
            }
            "error" => {
                sink.message(&SqlError::new(208, 16, 1, "Invalid object name 'nope'."))?;
                sink.done(Done {
                    error: true,
                    ..done(command::SELECT, None)
                })?;
            }
            "panic" => panic!("as told"),
            "bad" => {
                sink.columns(&[int_column("n")])?;
                sink.row(&[Value::str("no number")])?;
            }
            "resets" => {
                let told = format!("{:?}", self.resets);
                sink.message(&SqlError::new(0, 0, 1, told))?;
            }
            "stop" => *self.shutdown.lock().expect("lock") = Some(Shutdown::Orderly),
            "" => {}
            other => panic!("no step {other}"),
        }
        Ok(RequestEnd::Completed)
    }
}

impl ServiceSession for ScriptedSession {
    fn spid(&self) -> i32 {
        self.spid
    }

    fn cancel_flag(&self) -> CancelFlag {
        self.cancel.clone()
    }

    fn database(&self) -> String {
        "master".into()
    }

    fn language(&self) -> String {
        "us_english".into()
    }

    fn enter(&mut self) -> Result<(), Refusal> {
        let Some(slow) = &self.slow else {
            return Ok(());
        };
        slow.fetch_add(1, Ordering::SeqCst);
        self.wait();
        Err(Refusal {
            messages: vec![SqlError::new(17892, 14, 1, "Logon failed for 'slow'.")],
            state: 1,
            reason: "It was stopped.".into(),
        })
    }

    fn route(&self) -> Option<Routing> {
        self.route.clone()
    }

    fn batch(&mut self, text: &str, sink: &mut dyn Sink) -> RequestEnd {
        for step in text.split(';') {
            match self.step(step.trim(), sink) {
                Ok(RequestEnd::Completed) => {}
                Ok(end) => return end,
                Err(_) => return RequestEnd::Disconnect,
            }
        }
        RequestEnd::Completed
    }

    fn rpc(&mut self, request: RpcRequest, sink: &mut dyn Sink) -> RequestEnd {
        for (index, call) in request.calls.iter().enumerate() {
            for (ordinal, param) in call.params.iter().enumerate().filter(|(_, p)| p.is_output) {
                let ParamValue::Scalar { type_info, value } = &param.value else {
                    continue;
                };
                let column = OutputColumn {
                    data_type: type_info.data_type(),
                    ..int_column(&param.name)
                };
                let _ = sink.return_value(ordinal as u16, &param.name, &column, value);
            }
            let _ = sink.return_status(index as i32);
            let _ = sink.done(Done {
                kind: DoneKind::Procedure,
                ..done(command::EXECUTE, None)
            });
        }
        RequestEnd::Completed
    }

    fn transaction(&mut self, request: TransactionRequest, sink: &mut dyn Sink) -> RequestEnd {
        let change = match request {
            TransactionRequest::Begin(_) => sink::EnvChange::BeginTransaction(77),
            _ => sink::EnvChange::CommitTransaction(77),
        };
        let _ = sink.env_change(change);
        let _ = sink.done(done(command::BEGIN, None));
        RequestEnd::Completed
    }

    fn bulk(&mut self, rows: &mut dyn BulkRows, sink: &mut dyn Sink) -> RequestEnd {
        let mut sum = 0;
        let mut load = || -> Result<u64, SqlError> {
            let mut count = 0;
            assert_eq!(rows.columns()?.len(), 1);
            while let Some(row) = rows.next()? {
                let [Value::Int(n)] = row.as_slice() else {
                    panic!("one int, found {row:?}")
                };
                if *n < 0 {
                    return Err(SqlError::new(
                        547,
                        16,
                        0,
                        "The INSERT statement conflicted.",
                    ));
                }
                sum += i64::from(*n);
                count += 1;
            }
            Ok(count)
        };
        match load() {
            Ok(count) => {
                let _ = sink.message(&SqlError::new(0, 0, 1, format!("sum {sum}")));
                let _ = sink.done(done(command::BULK_INSERT, Some(count)));
            }
            Err(error) if error.number == 3617 => return RequestEnd::Cancelled,
            Err(error) => {
                let _ = sink.message(&error);
                let _ = sink.done(Done {
                    error: true,
                    ..done(command::BULK_INSERT, None)
                });
            }
        }
        RequestEnd::Completed
    }

    fn reset(&mut self, keep_transaction: bool, sink: &mut dyn Sink) -> Result<(), SqlError> {
        self.resets.push(keep_transaction);
        sink.env_change(sink::EnvChange::ResetDone)
    }
}

impl Drop for ScriptedSession {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

pub struct TestServer {
    pub listener: Option<Listener>,
    pub service: Arc<Scripted>,
    _directory: tempfile::TempDir,
}

impl TestServer {
    pub fn start(policy: EncryptionPolicy) -> TestServer {
        TestServer::with_limits(
            policy,
            Limits {
                refusal_delay: Duration::ZERO,
                ..Limits::default()
            },
        )
    }

    pub fn with_limits(policy: EncryptionPolicy, limits: Limits) -> TestServer {
        let directory = tempfile::tempdir().expect("temporary directory");
        let tls = TlsSettings::from_directory(policy, directory.path(), &[]).expect("TLS settings");
        let service = Arc::new(Scripted {
            log: Mutex::default(),
            spids: AtomicI32::new(51),
            limit: AtomicUsize::new(100),
            late: Arc::default(),
            open: Arc::default(),
            rows_sent: Arc::default(),
            shutdown: Arc::default(),
        });
        let listener =
            Listener::start(service.clone(), tls, limits, "127.0.0.1:0").expect("listens");
        TestServer {
            listener: Some(listener),
            service,
            _directory: directory,
        }
    }

    pub fn address(&self) -> std::net::SocketAddr {
        self.listener.as_ref().expect("runs").address()
    }

    pub fn client(&self) -> Client {
        self.client_by(Mode::Plain)
    }

    pub fn client_by(&self, mode: Mode) -> Client {
        Client::log_in(
            self.address(),
            mode,
            &login("sa", PASSWORD, version_of(mode)),
        )
        .expect("logs in")
        .0
    }

    pub fn log(&self) -> String {
        self.service.log.lock().expect("lock").join("\n")
    }

    pub fn stop(&mut self) {
        if let Some(listener) = self.listener.take() {
            assert!(listener.stop(Duration::ZERO), "every connection ends");
            assert_eq!(
                self.service.open.load(Ordering::SeqCst),
                0,
                "every session ends"
            );
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

pub fn version_of(mode: Mode) -> TdsVersion {
    match mode {
        Mode::Bare => TdsVersion::V7_1Rev1,
        Mode::Strict => TdsVersion::V8_0,
        _ => TdsVersion::V7_4,
    }
}
