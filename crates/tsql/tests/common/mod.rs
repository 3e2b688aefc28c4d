//! A server in memory for tests, and results as text.
//!
//! [`Server`] runs over a simulated disk that can be crashed and opened again. [`TextSink`] writes what a client would
//! see: column names and rows separated by ` | `, `(n rows affected)`, `Msg n, Level l, State s, ...`, PRINT texts.

#![allow(dead_code)]

pub mod calls;
pub mod rows;

use daruma_base::{Clock, Env};
use daruma_sim::SimDisk;
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::instance::{
    Instance, InstanceOptions, LoginInfo, PasswordHasher, ShutdownRequest,
};
use daruma_tsql::session::{RequestEnd, RpcRequest, Session, TransactionRequest};
use daruma_tsql::sink::{Done, EnvChange, OutputColumn, Sink};
use daruma_value::convert::{ConvertContext, convert, encode_code_page};
use daruma_value::{DataType, Value};
use std::path::Path;
use std::sync::Arc;

/// Stands in for a real hash: tests only ask whether it is used.
struct PlainHasher;

impl PasswordHasher for PlainHasher {
    fn hash(&self, password: &str) -> Result<String> {
        Ok(format!("hashed {password}"))
    }

    fn verify(&self, password: &str, hash: &str) -> bool {
        hash == format!("hashed {password}")
    }
}

pub struct Server {
    pub disk: Arc<SimDisk>,
    pub instance: Arc<Instance>,
    seed: u64,
}

impl Server {
    pub fn new() -> Server {
        Server::with_seed(1)
    }

    pub fn with_seed(seed: u64) -> Server {
        let disk = SimDisk::new(seed);
        let instance = start(&daruma_sim::env(&disk, seed));
        Server {
            disk,
            instance,
            seed,
        }
    }

    /// A new server whose clock is made of the simulated one.
    pub fn with_clock(make: impl FnOnce(Arc<dyn Clock>) -> Arc<dyn Clock>) -> Server {
        let disk = SimDisk::new(1);
        let mut env = daruma_sim::env(&disk, 1);
        env.clock = make(env.clock);
        Server {
            disk,
            instance: start(&env),
            seed: 1,
        }
    }

    /// A new server that may allocate so many bytes besides pages.
    pub fn with_memory(work_bytes: u64) -> Server {
        let disk = SimDisk::new(1);
        let options = InstanceOptions {
            work_memory_bytes: Some(work_bytes),
            ..options()
        };
        let env = daruma_sim::env(&disk, 1);
        let instance = Instance::start(env, Path::new("/data"), options).expect("start");
        Server {
            disk,
            instance,
            seed: 1,
        }
    }

    /// A new server after these batches, run by one connection of sa.
    pub fn with_setup(texts: &[&str]) -> Server {
        let server = Server::new();
        server.set_up(texts);
        server
    }

    /// Runs batches that must succeed, by one connection of sa.
    pub fn set_up(&self, texts: &[&str]) {
        let mut admin = self.connect();
        for text in texts {
            admin.done(text);
        }
    }

    pub fn connect(&self) -> Client {
        self.connect_to("")
    }

    pub fn connect_to(&self, database: &str) -> Client {
        let login = LoginInfo {
            login: "sa".to_string(),
            host: "testhost".to_string(),
            program: "tests".to_string(),
            database: database.to_string(),
            ansi_defaults: true,
            ..LoginInfo::default()
        };
        self.connect_with(login)
    }

    /// As the login says.
    pub fn connect_with(&self, login: LoginInfo) -> Client {
        Client {
            session: Session::new(&self.instance, login).expect("login"),
            sink: TextSink::default(),
            ended: RequestEnd::Completed,
        }
    }

    /// As another login than sa.
    pub fn connect_as(&self, login: &str, database: &str) -> Client {
        let info = LoginInfo {
            login: login.to_string(),
            host: format!("{login}_host"),
            database: database.to_string(),
            ansi_defaults: true,
            ..LoginInfo::default()
        };
        self.connect_with(info)
    }

    /// Power failure, then a start over what the disk kept.
    pub fn crash(self) -> Server {
        self.crash_onto(|_| {})
    }

    /// As `crash`, after closing a connection.
    pub fn crash_after(self, client: Client) -> Server {
        client.session.close();
        self.crash()
    }

    /// The same, with a change of the disk before the start. Earlier faults are over.
    pub fn crash_onto(self, change: impl FnOnce(&SimDisk)) -> Server {
        self.disk.crash();
        change(&self.disk);
        let Server {
            disk,
            instance,
            seed,
        } = self;
        drop(instance);
        let instance = start(&daruma_sim::env(&disk, seed + 1));
        Server {
            disk,
            instance,
            seed: seed + 1,
        }
    }

    /// As `restart`, after closing a connection.
    pub fn restart_keeping(self, client: Client) -> Server {
        client.session.close();
        self.restart()
    }

    /// Clean stop. The disk can be changed and started over again.
    pub fn stop(self) -> Arc<SimDisk> {
        self.instance
            .close(ShutdownRequest::Orderly)
            .expect("close");
        self.disk
    }

    /// A server over what a disk holds.
    pub fn over(disk: Arc<SimDisk>) -> Server {
        let instance = start(&daruma_sim::env(&disk, 1));
        Server {
            disk,
            instance,
            seed: 1,
        }
    }

    /// A server over what a disk holds, whose databases wait for their recovery.
    pub fn begun_over(disk: Arc<SimDisk>) -> Server {
        let env = daruma_sim::env(&disk, 1);
        let instance = Instance::begin(env, Path::new("/data"), options()).expect("start");
        Server {
            disk,
            instance,
            seed: 1,
        }
    }

    /// Clean stop and start.
    pub fn restart(self) -> Server {
        self.instance
            .close(ShutdownRequest::Orderly)
            .expect("close");
        let Server {
            disk,
            instance,
            seed,
        } = self;
        drop(instance);
        let instance = start(&daruma_sim::env(&disk, seed + 1));
        Server {
            disk,
            instance,
            seed: seed + 1,
        }
    }
}

fn options() -> InstanceOptions {
    InstanceOptions {
        work_memory_bytes: None,
        server_name: "DARUMA".to_string(),
        buffer_pool_pages: 4_096,
        password_hasher: Arc::new(PlainHasher),
        host_description: "test".to_string(),
    }
}

fn start(env: &Env) -> Arc<Instance> {
    Instance::start(env.clone(), Path::new("/data"), options()).expect("start")
}

pub struct Client {
    pub session: Session,
    pub sink: TextSink,
    pub ended: RequestEnd,
}

/// Numbers of the errors in what a client saw.
pub fn errors(out: &str) -> Vec<i32> {
    let number = |line: &str| {
        let (number, rest) = line.strip_prefix("Msg ")?.split_once(", Level ")?;
        let level: u8 = rest.split(',').next()?.parse().ok()?;
        (level > 10).then(|| number.parse().ok()).flatten()
    };
    out.lines().filter_map(number).collect()
}

impl Client {
    /// Runs what must succeed.
    pub fn done(&mut self, text: &str) -> String {
        let out = self.run(text);
        assert_eq!(errors(&out), [0; 0], "{text}\n{out}");
        out
    }

    /// Runs a batch and gives what a client would see.
    pub fn run(&mut self, text: &str) -> String {
        self.ended = self.session.execute_batch(text, &mut self.sink);
        self.sink.take()
    }

    pub fn rpc(&mut self, request: RpcRequest) -> String {
        self.ended = self.session.execute_rpc(&[request], &mut self.sink);
        self.sink.take()
    }

    pub fn transaction(&mut self, request: &TransactionRequest) -> String {
        self.ended = self.session.execute_transaction(request, &mut self.sink);
        self.sink.take()
    }

    /// The only value of the only row.
    pub fn scalar(&mut self, text: &str) -> String {
        let out = self.run(text);
        out.lines().nth(1).unwrap_or(&out).to_string()
    }
}

/// What a client sees, as text.
#[derive(Default)]
pub struct TextSink {
    text: String,
    columns: Vec<OutputColumn>,
    /// Also write ENVCHANGE tokens and DONEs without counts.
    pub verbose: bool,
}

impl TextSink {
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    fn line(&mut self, line: &str) -> Result<()> {
        self.text.push_str(line);
        self.text.push('\n');
        Ok(())
    }
}

/// Can the wire carry the value in a column that was described so?
fn fits(value: &Value, column: &OutputColumn) -> bool {
    let natural = value.natural_type();
    let units = match (value, column.data_type) {
        (Value::Null, _) => return column.nullable,
        (Value::Variant(_), t) => return t == DataType::Variant,
        (Value::Str(_), t) if !t.is_character() => return t == DataType::Xml,
        (Value::Bytes(bytes), _) => bytes.len(),
        (Value::Str(text), t) if t.is_unicode() => text.encode_utf16().count(),
        (Value::Str(text), _) => encode_code_page(text, column.collation.code_page()).len(),
        (_, t) => return std::mem::discriminant(&natural) == std::mem::discriminant(&t),
    };
    let len = column.data_type.declared_len();
    len.is_none_or(|len| len.is_max() || units <= usize::from(len.0))
}

/// A value as the query tools print it.
pub fn show(value: &Value, data_type: DataType) -> String {
    match value {
        Value::Null => "NULL".to_string(),
        Value::Variant(v) => show(&v.value, v.data_type),
        Value::Bytes(bytes) => {
            let digits: String = bytes.iter().map(|b| format!("{b:02X}")).collect();
            format!("0x{digits}")
        }
        Value::Float(_) | Value::Real(_) | Value::Money(_) | Value::SmallMoney(_) => {
            text_of(value, data_type)
        }
        other => text_of(other, data_type),
    }
}

fn text_of(value: &Value, data_type: DataType) -> String {
    let style = if data_type.is_temporal() {
        Some(121)
    } else {
        None
    };
    match convert(
        value,
        data_type,
        DataType::NVARCHAR_MAX,
        style,
        &ConvertContext::default(),
    ) {
        Ok(Value::Str(text)) => text.to_string(),
        other => format!("{other:?}"),
    }
}

impl Sink for TextSink {
    fn columns(&mut self, columns: &[OutputColumn]) -> Result<()> {
        self.columns = columns.to_vec();
        let names: Vec<&str> = columns
            .iter()
            .map(|c| {
                if c.name.is_empty() {
                    "(no name)"
                } else {
                    c.name.as_str()
                }
            })
            .collect();
        self.line(&names.join(" | "))
    }

    fn hidden_columns(&mut self, columns: usize, _hidden: usize) -> Result<()> {
        assert_eq!(columns, self.columns.len(), "columns just begun");
        Ok(())
    }

    fn row(&mut self, values: &[Value]) -> Result<()> {
        assert_eq!(values.len(), self.columns.len(), "width of a row");
        for (value, column) in values.iter().zip(&self.columns) {
            assert!(fits(value, column), "{value:?} is none of {column:?}");
        }
        let cells: Vec<String> = values
            .iter()
            .zip(&self.columns)
            .map(|(v, c)| show(v, c.data_type))
            .collect();
        self.line(&cells.join(" | "))
    }

    fn done(&mut self, done: Done) -> Result<()> {
        match done.row_count {
            Some(1) => self.line("(1 row affected)"),
            Some(n) => self.line(&format!("({n} rows affected)")),
            None if self.verbose => self.line(&format!("done {:?} {:#x}", done.kind, done.command)),
            None => Ok(()),
        }
    }

    fn message(&mut self, message: &SqlError) -> Result<()> {
        if message.class <= 10 && matches!(message.number, 0 | 50_000) {
            return self.line(&message.message);
        }
        let procedure = message
            .procedure
            .as_ref()
            .map_or(String::new(), |p| format!(", Procedure {p}"));
        self.line(&format!(
            "Msg {}, Level {}, State {}{procedure}, Line {}",
            message.number, message.class, message.state, message.line
        ))?;
        self.line(&message.message)
    }

    fn env_change(&mut self, change: EnvChange) -> Result<()> {
        match self.verbose {
            true => self.line(&format!("env {change:?}")),
            false => Ok(()),
        }
    }

    fn return_status(&mut self, status: i32) -> Result<()> {
        match self.verbose {
            true => self.line(&format!("return status {status}")),
            false => Ok(()),
        }
    }

    fn return_value(
        &mut self,
        _ordinal: u16,
        name: &str,
        column: &OutputColumn,
        value: &Value,
    ) -> Result<()> {
        let text = show(value, column.data_type);
        self.line(&format!("{name} = {text}"))
    }

    fn function_value(&mut self, column: &OutputColumn, value: &Value) -> Result<()> {
        let text = show(value, column.data_type);
        let kind = column.data_type.name();
        self.line(&format!("function value {text} of {kind}"))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Runs `text` until it waits for a lock, then `end`, which lets it go on; gives what it told.
pub fn run_until<T>(
    server: &Server,
    mut client: Client,
    text: &str,
    end: impl FnOnce() -> T,
) -> (Client, String) {
    let waits = format!(
        "SELECT COUNT(*) FROM sys.dm_exec_requests WHERE session_id = {} AND wait_type LIKE 'LCK%'",
        client.session.spid()
    );
    let mut watcher = server.connect();
    std::thread::scope(|threads| {
        let waiting = threads.spawn(move || {
            let out = client.run(text);
            (client, out)
        });
        while watcher.scalar(&waits) != "1" {
            assert!(!waiting.is_finished(), "{text} did not wait");
            std::thread::yield_now();
        }
        end();
        waiting.join().expect("no panic")
    })
}
