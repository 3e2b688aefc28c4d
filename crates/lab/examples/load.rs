//! A lean load generator over TDS, the counterpart of `pgbench -M prepared`: few threads, many sessions, one small
//! statement each at a time.
//!
//! Theory: what is measured is the server, so the client does what any client must (encode a call, decode the reply,
//! check it) and no more. A thread looks after its sessions with one `poll`; a lone session just blocks on its socket.
//!
//! | workload | statement |
//! |---|---|
//! | point | one row of `points (id, a, b)` by its key |
//! | insert | one row into `commits (id, n, filler)`, committed on its own |
//! | login | connect, log in, leave |
//!
//! The tables are made by `--setup`. Every reply is checked; the result is one line of JSON.

use clap::{Parser, ValueEnum};
use daruma_client::client::{Client, Event, Options, message_text};
use daruma_client::connect::ConnectArgs;
use daruma_tds::request::{ProcId, RpcCall, RpcRequest, RpcTarget};
use daruma_value::{DataType, Len, Value};
use rustix::event::{PollFd, PollFlags, poll};
use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const POINT: &str = "SELECT a, b FROM points WHERE id = @id";
const POINT_PARAMETERS: &str = "@id int";
const INSERT: &str = "INSERT INTO commits (id, n, filler) VALUES (@id, @n, @filler)";
const INSERT_PARAMETERS: &str = "@id bigint, @n int, @filler varchar(100)";
/// Keys of a session's rows begin at a multiple of this.
const KEYS_EACH: i64 = 100_000_000;

#[derive(Parser)]
#[command(name = "load", about = "Small statements from many sessions")]
struct Args {
    #[command(flatten)]
    connect: ConnectArgs,
    #[arg(long, default_value = "")]
    database: String,
    #[arg(long, value_enum, default_value_t = Workload::Point)]
    workload: Workload,
    /// How a statement is sent
    #[arg(long, value_enum, default_value_t = How::Execute)]
    how: How,
    #[arg(long, default_value_t = 1)]
    sessions: usize,
    #[arg(long, default_value_t = 1)]
    threads: usize,
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Rows of `points`
    #[arg(long, default_value_t = 100_000)]
    rows: i32,
    /// Process id of the server: its processor time is told too
    #[arg(long)]
    server_pid: Option<u32>,
    /// Make the tables and leave
    #[arg(long)]
    setup: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Workload {
    Point,
    Insert,
    Login,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum How {
    /// sp_prepare once, then sp_execute
    Execute,
    /// sp_executesql with the text each time
    Executesql,
    /// A batch with literals
    Batch,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let mut options = args.connect.options("load")?;
    options.database.clone_from(&args.database);
    if args.setup {
        return set_up(&options, args.rows);
    }
    let threads = args.threads.clamp(1, args.sessions.max(1));
    let mut crews: Vec<Vec<Session>> = (0..threads).map(|_| Vec::new()).collect();
    for number in 0..args.sessions {
        if let Some(crew) = crews.get_mut(number % threads) {
            crew.push(Session::open(&options, args, number)?);
        }
    }
    let processor_before = args.server_pid.map(processor_time).transpose()?;
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(args.seconds);
    let ended: Vec<Result<Vec<u32>>> = std::thread::scope(|scope| {
        let running: Vec<_> = crews
            .into_iter()
            .map(|crew| scope.spawn(|| drive(crew, end)))
            .collect();
        let joined = running.into_iter().map(|thread| thread.join());
        joined
            .map(|ended| ended.unwrap_or_else(|_| Err("a thread panicked".into())))
            .collect()
    });
    let seconds = started.elapsed().as_secs_f64();
    let mut micros = Vec::new();
    for part in ended {
        micros.extend(part?);
    }
    let processor_after = args.server_pid.map(processor_time).transpose()?;
    let server_seconds = processor_before.zip(processor_after).map(|(a, b)| b - a);
    report(&mut micros, seconds, server_seconds);
    Ok(())
}

/// Seconds of processor time that a process has used, as Linux counts them: in hundredths.
fn processor_time(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = |at: usize| -> Result<f64> {
        let field = fields.split_whitespace().nth(at);
        Ok(field.ok_or("no such process")?.parse::<f64>()?)
    };
    Ok((ticks(11)? + ticks(12)?) / 100.0)
}

fn set_up(options: &Options, rows: i32) -> Result<()> {
    let mut client = Client::connect(options)?;
    for text in [
        "DROP TABLE IF EXISTS points",
        "DROP TABLE IF EXISTS commits",
        "CREATE TABLE points (id int NOT NULL PRIMARY KEY, a int NOT NULL, b int NOT NULL)",
        "CREATE TABLE commits (id bigint NOT NULL PRIMARY KEY, n int NOT NULL, filler varchar(100) NOT NULL)",
        &format!(
            "WITH digits AS (SELECT n FROM (VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)) AS d(n)),
             numbers AS (SELECT a.n + 10*b.n + 100*c.n + 1000*d.n + 10000*e.n + 100000*f.n + 1 AS id
               FROM digits a, digits b, digits c, digits d, digits e, digits f)
             INSERT INTO points SELECT id, id % 1000, -id FROM numbers WHERE id <= {rows}"
        ),
    ] {
        client.execute(text)?;
    }
    Ok(())
}

/// Keeps every session of a thread busy until `end`; how long each statement took, in microseconds.
fn drive(mut crew: Vec<Session>, end: Instant) -> Result<Vec<u32>> {
    let mut taken = Vec::new();
    if let [session] = crew.as_mut_slice() {
        while Instant::now() < end {
            session.send()?;
            taken.push(session.receive()?);
        }
        return Ok(taken);
    }
    for session in &mut crew {
        session.send()?;
    }
    while !crew.is_empty() {
        let mut polled: Vec<_> = crew
            .iter()
            .map(|session| PollFd::new(&session.client, PollFlags::IN))
            .collect();
        poll(&mut polled, None)?;
        let ready: Vec<bool> = polled.iter().map(|p| !p.revents().is_empty()).collect();
        let goes_on = Instant::now() < end;
        for (session, _) in crew.iter_mut().zip(&ready).filter(|(_, ready)| **ready) {
            taken.push(session.receive()?);
            if goes_on {
                session.send()?;
            } else {
                session.is_over = true;
            }
        }
        crew.retain(|session| !session.is_over);
    }
    Ok(taken)
}

struct Session {
    client: Client,
    options: Options,
    workload: Workload,
    how: How,
    handle: i32,
    number: usize,
    next_key: i64,
    rows: i32,
    random: u64,
    asked: i32,
    sent: Instant,
    is_over: bool,
}

impl Session {
    fn open(options: &Options, args: &Args, number: usize) -> Result<Session> {
        let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        // Later runs insert behind the rows of earlier ones.
        let base = i64::try_from(started.as_millis() % 80_000_000_000)? * KEYS_EACH / 100_000;
        let mut session = Session {
            client: Client::connect(options)?,
            options: options.clone(),
            workload: args.workload,
            how: args.how,
            handle: 0,
            number,
            next_key: base + i64::try_from(number)? * KEYS_EACH,
            rows: args.rows.max(1),
            random: 0x9E37_79B9_7F4A_7C15 ^ (number as u64 + 1),
            asked: 0,
            sent: Instant::now(),
            is_over: false,
        };
        if session.how == How::Execute && session.workload != Workload::Login {
            session.prepare()?;
        }
        Ok(session)
    }

    fn prepare(&mut self) -> Result<()> {
        let (text, parameters) = self.statement();
        let call = RpcCall::new(RpcTarget::Id(ProcId::Prepare))
            .with_output("", DataType::Int, Value::Null)
            .with("", DataType::NVARCHAR_MAX, Value::str(parameters))
            .with("", DataType::NVARCHAR_MAX, Value::str(text));
        let mut reply = self.client.call(&RpcRequest::new(call, 0))?;
        while let Some(event) = reply.next_event()? {
            match event {
                Event::ReturnValue(value) => match value.value {
                    Value::Int(handle) => self.handle = handle,
                    other => return Err(format!("sp_prepare gave {other:?}").into()),
                },
                Event::Message(message) => return Err(message_text(&message).into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn statement(&self) -> (&'static str, &'static str) {
        match self.workload {
            Workload::Insert => (INSERT, INSERT_PARAMETERS),
            _ => (POINT, POINT_PARAMETERS),
        }
    }

    fn send(&mut self) -> Result<()> {
        self.sent = Instant::now();
        match self.workload {
            Workload::Point => {
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                self.asked = i32::try_from(self.random % self.rows as u64)? + 1;
            }
            Workload::Insert => self.next_key += 1,
            Workload::Login => {
                self.client = Client::connect(&self.options)?;
                self.client.batch("SELECT a, b FROM points WHERE id = 1")?;
                self.asked = 1;
                return Ok(());
            }
        }
        let call = match self.how {
            How::Batch => {
                let text = self.literal_text();
                self.client.batch(&text)?;
                return Ok(());
            }
            How::Execute => RpcCall::new(RpcTarget::Id(ProcId::Execute)).with(
                "",
                DataType::Int,
                Value::Int(self.handle),
            ),
            How::Executesql => {
                let (text, parameters) = self.statement();
                RpcCall::new(RpcTarget::Id(ProcId::ExecuteSql))
                    .with("", DataType::NVARCHAR_MAX, Value::str(text))
                    .with("", DataType::NVARCHAR_MAX, Value::str(parameters))
            }
        };
        let request = RpcRequest::new(self.arguments(call), 0);
        self.client.call(&request)?;
        Ok(())
    }

    fn arguments(&self, call: RpcCall) -> RpcCall {
        match self.workload {
            Workload::Insert => call
                .with("", DataType::BigInt, Value::BigInt(self.next_key))
                .with("", DataType::Int, Value::Int(self.number as i32))
                .with("", FILLER_TYPE, Value::str(FILLER)),
            _ => call.with("", DataType::Int, Value::Int(self.asked)),
        }
    }

    fn literal_text(&self) -> String {
        match self.workload {
            Workload::Insert => format!(
                "INSERT INTO commits (id, n, filler) VALUES ({}, {}, '{FILLER}')",
                self.next_key, self.number
            ),
            _ => format!("SELECT a, b FROM points WHERE id = {}", self.asked),
        }
    }

    /// Reads the reply to its end and checks it.
    fn receive(&mut self) -> Result<u32> {
        let asked = self.asked;
        let (mut rows, mut count) = (0, None);
        if let Some(mut reply) = self.client.reply() {
            while let Some(event) = reply.next_event()? {
                match event {
                    Event::Row(row) if row == [Value::Int(asked % 1000), Value::Int(-asked)] => {
                        rows += 1;
                    }
                    Event::Row(row) => return Err(format!("row {asked} is {row:?}").into()),
                    Event::Message(message) => return Err(message_text(&message).into()),
                    Event::Done(done) => count = count.or(done.count()),
                    _ => {}
                }
            }
        }
        let expected_rows = u64::from(self.workload != Workload::Insert);
        if rows != expected_rows || count != Some(1) {
            return Err(format!("{rows} rows came, {count:?} counted").into());
        }
        let micros = self.sent.elapsed().as_micros();
        Ok(u32::try_from(micros).unwrap_or(u32::MAX))
    }
}

/// As the parameter is declared: nothing needs to be converted, as with pgbench and sysbench.
const FILLER_TYPE: DataType = DataType::VarChar(Len(100));
const FILLER: &str = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";

fn report(micros: &mut [u32], seconds: f64, server_seconds: Option<f64>) {
    micros.sort_unstable();
    let at = |share: f64| {
        let index = (share * micros.len().saturating_sub(1) as f64) as usize;
        micros.get(index).copied().unwrap_or(0)
    };
    let server = server_seconds.map_or(String::new(), |s| {
        let each = s * 1e6 / micros.len().max(1) as f64;
        format!(", \"server_us_each\": {each:.1}")
    });
    println!(
        "{{\"operations\": {}, \"seconds\": {seconds:.3}, \"per_second\": {:.1}, \"p50_us\": {}, \"p99_us\": {}{server}}}",
        micros.len(),
        micros.len() as f64 / seconds,
        at(0.5),
        at(0.99)
    );
}
