//! The writer: samples from the outbox into tables, one transaction for all that came together.
//!
//! Theory: seconds commit with delayed durability; a crash of the repository loses at most its bound of them, and they are not
//! reported as stored before a flush of the log covered them. Coarser rows, events and statements ride in the same transaction.
//! When the repository is away, samples wait in the outbox, and the oldest go when it is full.
//!
//! After a start, rows of coarser levels that a stop or a crash left out are made again from the finer ones, before the first
//! new sample is taken.
//!
//! Invariants
//! 1. What is written twice, because an answer was lost, is there once.
//! 2. `stored_until` is never later than what a crash would leave.

use super::Repository;
use super::levels::{LEVELS, Level, WAIT_LEVELS};
use super::rollup::{Rollup, Row};
use super::schema::figure_columns;
use crate::figures::COUNT;
use crate::sampler::difference::Event;
use crate::sampler::live::{Outbox, Sample};
use crate::sampler::reading::{Completed, Request, Wait};
use crate::sql::{number, quoted, time};
use crate::waits;
use daruma_client::client::{Client, ClientError};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Samples of one transaction.
const SAMPLES_MAX: usize = 200;
/// Rows of one INSERT.
const ROWS_MAX: usize = 100;
const PATIENCE: Duration = Duration::from_millis(500);
const RETRY: Duration = Duration::from_secs(1);
/// The log is flushed so often, and `stored_until` moves on.
const FLUSH_EVERY: Duration = Duration::from_secs(2);
/// Longest name or word that a column takes.
const NAME_CHARS: usize = 128;
const WORDS_CHARS: usize = 1_000;

/// How the writer is doing.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Up to here everything is safe: UTC, ms, by server.
    pub until: BTreeMap<i16, i64>,
    /// Why nothing can be stored now.
    pub error: Option<String>,
    pub rows: u64,
}

/// The writer's state, seen by the page.
#[derive(Debug, Default)]
pub struct Status(Mutex<Stored>);

impl Status {
    /// A copy.
    pub fn get(&self) -> Stored {
        self.0.lock().clone()
    }
}

/// Writes until `stop` is set and the outbox is empty.
pub fn run(repository: &Repository, outbox: &Outbox, status: &Status, stop: &AtomicBool) {
    let mut writer = None;
    while !stop.load(Ordering::Acquire) || outbox.waiting() > 0 {
        let dropped = outbox.dropped();
        let samples = outbox.wait(SAMPLES_MAX, PATIENCE);
        let done = step(repository, &mut writer, &samples, status);
        match done {
            Ok(()) => {
                outbox.done(samples.len(), dropped);
                status.0.lock().error = None;
            }
            Err(error) => {
                status.0.lock().error = Some(error.to_string());
                writer = None;
                if stop.load(Ordering::Acquire) {
                    return;
                }
                std::thread::sleep(RETRY);
            }
        }
    }
    if let Some(writer) = &mut writer {
        // Without it the last second would be reported as not stored, which is the safe side.
        let _ = writer.flush(status);
    }
}

fn step(
    repository: &Repository,
    writer: &mut Option<Writer>,
    samples: &[Sample],
    status: &Status,
) -> Result<(), ClientError> {
    let writer = match writer {
        Some(writer) => writer,
        None => writer.insert(Writer::start(repository)?),
    };
    if !samples.is_empty() {
        writer.write(samples)?;
        status.0.lock().rows = writer.rows;
    }
    if writer.flushed.elapsed() >= FLUSH_EVERY {
        writer.flush(status)?;
    }
    Ok(())
}

/// A connection with what is open of the coarser levels.
pub struct Writer {
    client: Client,
    rollups: HashMap<i16, Rollup>,
    /// Start of the open bucket of each wait level.
    waits: HashMap<(i16, usize), i64>,
    types: HashMap<String, (i32, bool)>,
    written: BTreeMap<i16, i64>,
    flushed: Instant,
    rows: u64,
}

impl Writer {
    /// Connects, and makes again what is missing of the coarser levels.
    pub fn start(repository: &Repository) -> Result<Writer, ClientError> {
        let mut client = repository.connect()?;
        client.set_query_timeout(None);
        let mut writer = Writer {
            client,
            rollups: HashMap::new(),
            waits: HashMap::new(),
            types: HashMap::new(),
            written: BTreeMap::new(),
            flushed: Instant::now(),
            rows: 0,
        };
        writer.load_types()?;
        let servers = writer.client.query("SELECT server_id FROM dbo.server")?;
        for row in servers {
            let id = row.first().and_then(super::read::integer);
            if let Some(id) = id.and_then(|id| i16::try_from(id).ok()) {
                writer.rebuild(id)?;
                writer.rebuild_waits(id)?;
            }
        }
        Ok(writer)
    }

    fn load_types(&mut self) -> Result<(), ClientError> {
        let rows = self
            .client
            .query("SELECT wait_type_id, name, is_idle FROM dbo.wait_type")?;
        for row in rows {
            if let [id, name, idle, ..] = row.as_slice() {
                let id = super::read::integer(id).and_then(|id| i32::try_from(id).ok());
                let idle = super::read::integer(idle) == Some(1);
                if let Some(id) = id {
                    let name = daruma_client::value::text(name);
                    self.types.insert(name, (id, idle));
                }
            }
        }
        Ok(())
    }

    /// Reads what is behind the last row of each level, so that buckets go on where they stopped.
    fn rebuild(&mut self, server: i16) -> Result<(), ClientError> {
        for (at, level) in LEVELS.iter().enumerate().skip(1) {
            // Up to ten minutes from the ticks, longer ones from minutes.
            let source = if at <= 3 { LEVELS[0] } else { LEVELS[2] };
            let from = self.last(level.table, server)?.map_or_else(
                || crate::sql::now() - source.keep_days * 86_400_000,
                |last| last + level.step_ms,
            );
            let rows = super::read::rows(
                &mut self.client,
                source,
                server,
                from,
                crate::sql::now() + 1_000,
                true,
            )?;
            let rollup = self.rollups.entry(server).or_default();
            let complete: Vec<Row> = rows
                .iter()
                .filter_map(|row| rollup.add_at(*level, row))
                .collect();
            let mut batch = String::new();
            insert_rows(&mut batch, *level, complete.iter().map(|row| (server, row)));
            if !batch.is_empty() {
                self.client.execute(&batch)?;
            }
        }
        Ok(())
    }

    /// Where the ticks and the waits of each level end; what is missing behind it is made.
    fn rebuild_waits(&mut self, server: i16) -> Result<(), ClientError> {
        let mut ends = Vec::new();
        for table in [LEVELS[0], WAIT_LEVELS[1], WAIT_LEVELS[2]].map(|level| level.table) {
            ends.push(self.last(table, server)?);
        }
        let [Some(last), ends @ ..] = ends.as_slice() else {
            return Ok(());
        };
        self.written.insert(server, *last);
        for (at, end) in ends.iter().enumerate() {
            let at = at + 1;
            let Some(level) = WAIT_LEVELS.get(at) else {
                continue;
            };
            let open = level.bucket(*last);
            let from = end.map_or(open - level.keep_days.min(3) * 86_400_000, |end| {
                end + level.step_ms
            });
            if from < open {
                self.client.execute(&roll_waits(server, at, from, open))?;
            }
            self.waits.insert((server, at), open);
        }
        Ok(())
    }

    /// The newest row of a server in a table: UTC, ms.
    fn last(&mut self, table: &str, server: i16) -> Result<Option<i64>, ClientError> {
        let rows = self.client.query(&format!(
            "SELECT DATEDIFF_BIG(millisecond, '1970-01-01', MAX(at)) FROM dbo.{table} WHERE server_id = {server}"
        ))?;
        Ok(rows
            .first()
            .and_then(|row| row.first())
            .and_then(super::read::integer))
    }

    /// Writes samples in one transaction. Those that are there already, because an answer was lost, are passed over.
    pub fn write(&mut self, samples: &[Sample]) -> Result<(), ClientError> {
        let mut batch = String::from("SET XACT_ABORT ON; BEGIN TRANSACTION;\n");
        // What is open of the coarser levels moves on only when the transaction is through.
        let mut rollups = self.rollups.clone();
        let mut ticks: Vec<(i16, Row)> = Vec::new();
        let mut coarse: BTreeMap<&'static str, (Level, Vec<(i16, Row)>)> = BTreeMap::new();
        let is_new = |sample: &&Sample| {
            let tick = sample.tick.as_ref();
            tick.is_none_or(|t| self.written.get(&sample.server).is_none_or(|at| t.at > *at))
        };
        let samples: Vec<&Sample> = samples.iter().filter(is_new).collect();
        for sample in &samples {
            let Some(tick) = &sample.tick else { continue };
            let row = Row::of(tick);
            for (level, row) in rollups.entry(sample.server).or_default().add(&row) {
                let rows = coarse
                    .entry(level.table)
                    .or_insert_with(|| (level, Vec::new()));
                rows.1.push((sample.server, row));
            }
            ticks.push((sample.server, row));
        }
        insert_rows(
            &mut batch,
            LEVELS[0],
            ticks.iter().map(|(server, row)| (*server, row)),
        );
        for (level, rows) in coarse.values() {
            insert_rows(&mut batch, *level, rows.iter().map(|(id, row)| (*id, row)));
        }
        let mut waits = self.waits.clone();
        self.wait_rows(&samples, &mut waits, &mut batch)?;
        for sample in &samples {
            for event in &sample.events {
                event_row(sample.server, event, &mut batch);
            }
            for done in &sample.completed {
                statement_row(sample.server, done, &mut batch);
            }
            if let Some(tick) = &sample.tick {
                for request in sample.blocking.iter().take(200) {
                    blocking_row(sample.server, tick.at, request, &mut batch);
                }
            }
        }
        batch.push_str("COMMIT TRANSACTION WITH (DELAYED_DURABILITY = ON);");
        self.client.execute(&batch)?;
        self.rollups = rollups;
        self.waits = waits;
        self.rows += ticks.len() as u64;
        for (server, row) in &ticks {
            self.written.insert(*server, row.at);
        }
        Ok(())
    }

    /// Makes hard what was written, and says so.
    fn flush(&mut self, status: &Status) -> Result<(), ClientError> {
        self.client.execute("EXEC sys.sp_flush_log;")?;
        self.flushed = Instant::now();
        status.0.lock().until.clone_from(&self.written);
        Ok(())
    }

    /// Number of a wait type and whether it is idle; a new type gets a row.
    fn wait_type(&mut self, name: &str) -> Result<(i32, bool), ClientError> {
        if let Some(known) = self.types.get(name) {
            return Ok(*known);
        }
        let id = self.types.values().map(|(id, _)| *id).max().unwrap_or(0) + 1;
        let idle = waits::is_idle(name);
        let class = waits::class(name).number();
        self.client.execute(&format!(
            "INSERT dbo.wait_type (wait_type_id, name, class, is_idle) VALUES ({id}, {}, {class}, {});",
            quoted(&cut(name, 60)),
            u8::from(idle)
        ))?;
        self.types.insert(name.into(), (id, idle));
        Ok((id, idle))
    }

    fn wait_rows(
        &mut self,
        samples: &[&Sample],
        open: &mut HashMap<(i16, usize), i64>,
        batch: &mut String,
    ) -> Result<(), ClientError> {
        let mut rows = Vec::new();
        let mut rolls = Vec::new();
        for sample in samples {
            let Some(tick) = &sample.tick else { continue };
            for delta in &tick.waits {
                let (id, idle) = self.wait_type(&delta.wait_type)?;
                if !idle {
                    rows.push(wait_row(sample.server, tick.at, id, &delta.wait));
                }
            }
            for (at, level) in WAIT_LEVELS.iter().enumerate().skip(1) {
                let start = level.bucket(tick.at);
                let known = open.entry((sample.server, at)).or_insert(start);
                if start > *known {
                    rolls.push(roll_waits(sample.server, at, *known, start));
                    *known = start;
                }
            }
        }
        insert(
            batch,
            WAIT_LEVELS[0].table,
            "server_id, at, wait_type_id, tasks, ms, signal_ms",
            &rows,
        );
        for roll in rolls {
            batch.push_str(&roll);
        }
        Ok(())
    }
}

/// Buckets of a wait level from `from` up to `to`, made from the level below.
fn roll_waits(server: i16, at: usize, from: i64, to: i64) -> String {
    let (Some(level), Some(source)) = (WAIT_LEVELS.get(at), WAIT_LEVELS.get(at - 1)) else {
        return String::new();
    };
    // A row of seconds ends where it says, a coarser one begins there.
    let (shift, least, most) = match at {
        1 => (1, ">", "<="),
        _ => (0, ">=", "<"),
    };
    let (table, step) = (level.table, level.step_ms);
    let (from, to) = (time(from), time(to));
    format!(
        "DELETE dbo.{table} WHERE server_id = {server} AND at >= {from} AND at < {to};\n\
         INSERT dbo.{table} (server_id, at, wait_type_id, tasks, ms, signal_ms) SELECT {server}, \
         DATEADD(minute, CAST(d.bucket * {minutes} AS int), CAST('1970-01-01' AS datetime2(3))), d.wait_type_id, SUM(d.tasks), \
         SUM(d.ms), SUM(d.signal_ms) FROM (SELECT (DATEDIFF_BIG(millisecond, '1970-01-01', at) - {shift}) / {step} AS bucket, \
         wait_type_id, tasks, ms, signal_ms FROM dbo.{source} WHERE server_id = {server} AND at {least} {from} AND at {most} {to}) \
         AS d GROUP BY d.bucket, d.wait_type_id;\n",
        minutes = step / 60_000,
        source = source.table,
    )
}

fn wait_row(server: i16, at: i64, id: i32, wait: &Wait) -> String {
    format!(
        "({server}, {}, {id}, {}, {}, {})",
        time(at),
        wait.tasks,
        wait.ms,
        wait.signal_ms
    )
}

fn insert(batch: &mut String, table: &str, columns: &str, rows: &[String]) {
    for chunk in rows.chunks(ROWS_MAX) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            batch,
            "INSERT dbo.{table} ({columns}) VALUES {};",
            chunk.join(", ")
        );
    }
}

/// Rows of a level, each replacing one that is there.
pub(super) fn insert_rows<'a>(
    batch: &mut String,
    level: Level,
    rows: impl Iterator<Item = (i16, &'a Row)>,
) {
    let is_raw = level == LEVELS[0];
    let columns = format!(
        "server_id, at, dt_ms, ticks, flags, {}",
        figure_columns(is_raw).join(", ")
    );
    let mut texts = Vec::new();
    for (server, row) in rows {
        // Writing to a string cannot fail.
        if !is_raw {
            let _ = writeln!(
                batch,
                "DELETE dbo.{} WHERE server_id = {server} AND at = {};",
                level.table,
                time(row.at)
            );
        }
        let mut text = format!(
            "({server}, {}, {}, {}, {}",
            time(row.at),
            row.dt_ms,
            row.ticks,
            row.flags
        );
        let mut add = |values: &[f64; COUNT]| {
            for value in values {
                text.push_str(", ");
                number(*value, &mut text);
            }
        };
        add(&row.value);
        if !is_raw {
            add(&row.min);
            add(&row.max);
        }
        text.push(')');
        texts.push(text);
    }
    insert(batch, level.table, &columns, &texts);
}

fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

/// Starts of a server that are closer together than this are one, read twice.
const SAME_START_MS: i64 = 2_000;

/// A row for an event, unless it is there: a log is read again by the next monitor, and a transaction whose answer was lost is
/// written again.
fn event_row(server: i16, event: &Event, batch: &mut String) {
    let until = event.until.map_or("NULL".to_string(), time);
    let apart = if event.kind == "restart" {
        SAME_START_MS
    } else {
        0
    };
    let (kind, words) = (
        quoted(&cut(&event.kind, 30)),
        quoted(&cut(&event.words, WORDS_CHARS)),
    );
    let _ = writeln!(
        batch,
        "IF NOT EXISTS (SELECT * FROM dbo.event WHERE server_id = {server} AND at BETWEEN {} AND {} AND kind = {kind} AND \
         words = {words}) INSERT dbo.event (server_id, at, until, kind, severity, words) VALUES ({server}, {}, {until}, {kind}, \
         {}, {words});",
        time(event.at - apart),
        time(event.at + apart),
        time(event.at),
        event.severity,
    );
}

/// Number of a text; a row for it where there is none.
fn text_id(text: Option<&Arc<str>>, batch: &mut String) -> String {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return "NULL".into();
    };
    let id = number_of(text);
    let _ = writeln!(
        batch,
        "IF NOT EXISTS (SELECT * FROM dbo.sql_text WHERE text_id = {id}) INSERT dbo.sql_text (text_id, text) \
         VALUES ({id}, {});",
        quoted(text)
    );
    id.to_string()
}

/// The same number for the same text.
fn number_of(text: &str) -> i64 {
    let digest = Sha256::digest(text.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(digest.as_slice().get(..8).unwrap_or(&[0; 8]));
    i64::from_le_bytes(first)
}

/// A row for the plan of a text, unless it is there.
fn plan_row(server: i16, text: &str, at: i64, plan: &str, batch: &mut String) {
    let id = number_of(plan);
    let _ = writeln!(
        batch,
        "IF NOT EXISTS (SELECT * FROM dbo.query_plan WHERE server_id = {server} AND text_id = {text} AND plan_id = {id}) \
         INSERT dbo.query_plan (server_id, text_id, plan_id, seen, tree) VALUES ({server}, {text}, {id}, {}, {});",
        time(at),
        quoted(plan)
    );
}

/// A row for a statement, unless it is there: the ring of a server tells its last ones again to a monitor that starts again. Those
/// that ended in the same millisecond are numbered.
fn statement_row(server: i16, done: &Completed, batch: &mut String) {
    let text = text_id(done.text.as_ref(), batch);
    let ended = done.started + done.duration_us / 1_000;
    if let Some(plan) = done.plan.as_ref().filter(|_| text != "NULL") {
        plan_row(server, &text, ended, plan, batch);
    }
    let (ended, started) = (time(ended), time(done.started));
    let kind = quoted(&cut(&done.kind, 20));
    let _ = writeln!(
        batch,
        "IF NOT EXISTS (SELECT * FROM dbo.statement WHERE server_id = {server} AND ended = {ended} AND session_id = {} AND \
         started = {started} AND kind = {kind} AND duration_us = {} AND ISNULL(text_id, 0) = ISNULL({text}, 0)) \
         INSERT dbo.statement (server_id, ended, seq, started, kind, session_id, executions, duration_us, cpu_us, reads, writes, \
         row_count, wait_ms, log_wait_ms, lock_wait_ms, io_wait_ms, error, database_name, login_name, application, text_id) \
         SELECT {server}, {ended}, ISNULL(MAX(seq), 0) + 1, {started}, {kind}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, \
         {}, {}, {text} FROM dbo.statement WHERE server_id = {server} AND ended = {ended};",
        done.session,
        done.duration_us,
        done.session,
        done.executions,
        done.duration_us,
        done.cpu_us,
        done.reads,
        done.writes,
        done.rows,
        done.wait_ms,
        done.log_wait_ms,
        done.lock_wait_ms,
        done.io_wait_ms,
        done.error,
        quoted(&cut(&done.database, NAME_CHARS)),
        quoted(&cut(&done.login, NAME_CHARS)),
        quoted(&cut(&done.application, NAME_CHARS)),
    );
}

fn blocking_row(server: i16, at: i64, request: &Request, batch: &mut String) {
    let text = text_id(request.text.as_ref(), batch);
    let _ = writeln!(
        batch,
        "INSERT dbo.blocking (server_id, at, session_id, blocked_by, wait_type, wait_ms, status, command, started, elapsed_ms, \
         open_transactions, resource, database_name, login_name, application, text_id) VALUES ({server}, {}, {}, {}, {}, {}, \
         {}, {}, {}, {}, {}, {}, {}, {}, {}, {text});",
        time(at),
        request.session,
        request.blocked_by,
        quoted(&cut(&request.wait_type, 60)),
        request.wait_ms,
        quoted(&cut(&request.status, 30)),
        quoted(&cut(&request.command, 32)),
        time(request.started),
        request.elapsed_ms,
        request.open_transactions,
        quoted(&cut(&request.resource, 256)),
        quoted(&cut(&request.database, NAME_CHARS)),
        quoted(&cut(&request.login, NAME_CHARS)),
        quoted(&cut(&request.application, NAME_CHARS)),
    );
}
