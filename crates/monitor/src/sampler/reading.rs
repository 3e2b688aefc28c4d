//! One answer of a server, as totals and values of that moment.

use super::batch::{CLOCK, PARTS, Pace};
use super::row::{Row, integer, tag};
use crate::figures::{self, COUNT, Values};
use daruma_value::Value;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most requests, keepers of versions, statements that one answer may bring; more are counted and left out.
const ROWS_MAX: usize = 5_000;

/// Totals of a wait type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    pub tasks: i64,
    pub ms: i64,
    pub signal_ms: i64,
}

/// A request that runs now, or a session that blocks others without running anything.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Request {
    pub session: i64,
    /// 0 when nothing blocks it.
    pub blocked_by: i64,
    pub wait_type: String,
    pub wait_ms: i64,
    pub status: String,
    pub command: String,
    /// UTC, ms.
    pub started: i64,
    pub elapsed_ms: i64,
    pub cpu_ms: i64,
    pub reads: i64,
    pub writes: i64,
    pub percent: f64,
    pub open_transactions: i64,
    pub resource: String,
    pub database: String,
    pub login: String,
    pub application: String,
    pub host: String,
    #[serde(skip)]
    pub handle: Vec<u8>,
    pub text: Option<Arc<str>>,
}

/// A request that has ended, from the server's own ring.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Completed {
    pub sequence: i64,
    pub kind: String,
    pub session: i64,
    pub started: i64,
    pub duration_us: i64,
    pub cpu_us: i64,
    pub reads: i64,
    pub writes: i64,
    pub rows: i64,
    pub executions: i64,
    pub wait_ms: i64,
    pub log_wait_ms: i64,
    pub lock_wait_ms: i64,
    pub io_wait_ms: i64,
    pub error: i64,
    pub database: String,
    pub login: String,
    pub application: String,
    pub host: String,
    pub text: Option<Arc<str>>,
    /// Its plan as a tree of text, when it was seen for the first time.
    pub plan: Option<Arc<str>>,
}

/// Totals of a statement in the plan cache.
#[derive(Clone, Debug, Default)]
pub struct Statement {
    pub executions: i64,
    pub cpu_us: i64,
    pub elapsed_us: i64,
    pub reads: i64,
    pub writes: i64,
    pub rows: i64,
    pub last_started: i64,
    pub last_elapsed_us: i64,
    pub plan: PlanKey,
    /// 0 where the server does not say what statements wait for.
    pub wait_us: i64,
    pub log_wait_us: i64,
    pub lock_wait_us: i64,
    pub io_wait_us: i64,
}

/// Names a statement: handle of its text, first and last byte in it.
pub type StatementKey = (Vec<u8>, i64, i64);

/// Names a plan: its handle, and a number that differs for plans of another shape.
pub type PlanKey = (Vec<u8>, Vec<u8>);

/// A backup that is done.
#[derive(Clone, Debug, Default)]
pub struct Backup {
    pub number: i64,
    pub database: String,
    /// D, I or L: whole, difference, log.
    pub kind: String,
    /// UTC, ms.
    pub started: i64,
    pub ended: i64,
    /// Before and after compression.
    pub bytes: f64,
    pub bytes_written: f64,
}

/// What this server is in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    pub group: String,
    pub role: String,
    pub health: String,
}

/// A keeper of old versions.
#[derive(Clone, Debug, Serialize)]
pub struct Pin {
    pub database: String,
    pub kind: String,
    pub session: i64,
    /// UTC, ms.
    pub begun: i64,
    pub kib: i64,
}

/// A database as the server describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Database {
    pub name: String,
    pub state: String,
    pub recovery: String,
    /// What keeps the log from being reused.
    pub log_reuse: String,
    pub delayed: String,
    pub accelerated: bool,
}

/// Everything one answer said. Parts that were not asked, or refused, leave their fields empty.
#[derive(Clone, Debug)]
pub struct Reading {
    pub ms_ticks: i64,
    /// UTC, ms.
    pub utc: i64,
    /// When the server started: UTC, ms.
    pub started: i64,
    pub cores: i64,
    pub session: i64,
    pub(super) offset_ms: i64,
    pub waits: BTreeMap<String, Wait>,
    /// Running totals of counters, by figure.
    pub totals: [Option<i64>; COUNT],
    pub gauges: Values,
    pub requests: Vec<Request>,
    pub completed: Vec<Completed>,
    pub statements: Option<BTreeMap<StatementKey, Statement>>,
    pub pins: Option<Vec<Pin>>,
    pub databases: Option<Vec<Database>>,
    pub configuration: Option<BTreeMap<String, String>>,
    pub backups: Vec<Backup>,
    pub roles: Vec<Role>,
}

impl Default for Reading {
    fn default() -> Reading {
        Reading {
            ms_ticks: 0,
            utc: 0,
            started: 0,
            cores: 1,
            session: 0,
            offset_ms: 0,
            waits: BTreeMap::new(),
            totals: [None; COUNT],
            gauges: Values::default(),
            requests: Vec::new(),
            completed: Vec::new(),
            statements: None,
            pins: None,
            databases: None,
            configuration: None,
            backups: Vec::new(),
            roles: Vec::new(),
        }
    }
}

/// The batch of a tick: the clock and every part that is there and due.
/// `completed` and `backups` are the last numbers that were seen of each.
pub fn batch(
    texts: &[Option<&'static str>; PARTS.len()],
    all: bool,
    completed: i64,
    backups: i64,
) -> String {
    let mut batch = String::from(CLOCK);
    for (part, text) in PARTS.iter().zip(texts) {
        let due = all || part.pace == Pace::Second;
        if let Some(text) = text.filter(|_| due) {
            batch.push('\n');
            let text = text.replace(super::batch::COMPLETED_MARK, &completed.to_string());
            batch.push_str(&text.replace(super::batch::BACKUPS_MARK, &backups.to_string()));
        }
    }
    batch
}

impl Reading {
    /// Takes the rows of all result sets; `None` without a clock.
    pub fn of(rows: &[Vec<Value>]) -> Option<Reading> {
        let mut reading = Reading::default();
        for row in rows {
            reading.take(tag(row), row);
        }
        (reading.utc > 0).then_some(reading)
    }

    fn take(&mut self, tag: &str, values: &[Value]) {
        let mut row = Row::of(values);
        match tag {
            "clock" => self.clock(&mut row),
            "wait" => self.wait(&mut row),
            "counter" => self.counter(&mut row),
            "file" => self.file(&mut row),
            "session" => self.sessions(&mut row),
            "processor" => {
                // A server that does not count it says 0.
                self.total("cpu_ms", row.integer().filter(|ms| *ms > 0));
            }
            "memory" => {
                self.gauges.set("memory_bytes", row.number() * 1_024.0);
                self.gauges
                    .set("memory_target_bytes", row.number() * 1_024.0);
            }
            "risk" => {
                self.gauges.set("risk_commits", row.number());
                self.gauges.set("risk_bytes", row.number());
                self.gauges.set("risk_age_ms", row.number());
            }
            "versions" => self
                .gauges
                .set("version_store_bytes", row.number() * 1_024.0),
            "replica" => {
                self.gauges.set("send_queue_bytes", row.number() * 1_024.0);
                self.gauges.set("redo_queue_bytes", row.number() * 1_024.0);
                self.gauges.set("replica_lag_ms", row.number() * 1_000.0);
            }
            "request" if self.requests.len() < ROWS_MAX => self.request(&mut row),
            "head" if self.requests.len() < ROWS_MAX => self.head(&mut row),
            "completed" if self.completed.len() < ROWS_MAX => self.finished(&mut row),
            "statement" => self.statement(&mut row),
            "backup" if self.backups.len() < ROWS_MAX => self.backup(&mut row),
            "role" if self.roles.len() < ROWS_MAX => self.roles.push(Role {
                group: row.text(),
                role: row.text(),
                health: row.text(),
            }),
            "pin" => self.pin(&mut row),
            "database" => self.database(&mut row),
            "configuration" => {
                let entry = (row.text(), row.text());
                self.configuration
                    .get_or_insert_default()
                    .insert(entry.0, entry.1);
            }
            _ => {}
        }
    }

    /// Local time of the server to UTC.
    fn utc_of(&self, local: Option<i64>) -> i64 {
        local.map_or(0, |ms| ms.saturating_sub(self.offset_ms))
    }

    fn total(&mut self, figure: &str, value: Option<i64>) {
        let slot = figures::index(figure).and_then(|index| self.totals.get_mut(index));
        if let (Some(slot), Some(value)) = (slot, value) {
            *slot = Some(value);
        }
    }

    fn clock(&mut self, row: &mut Row<'_>) {
        self.ms_ticks = row.integer().unwrap_or(0);
        self.utc = row.integer().unwrap_or(0);
        let started = row.integer();
        self.offset_ms = row.integer().unwrap_or(0).saturating_mul(60_000);
        self.started = self.utc_of(started);
        self.cores = row.integer().unwrap_or(1).max(1);
        self.session = row.integer().unwrap_or(0);
    }

    fn wait(&mut self, row: &mut Row<'_>) {
        let name = row.text();
        let wait = Wait {
            tasks: row.integer().unwrap_or(0),
            ms: row.integer().unwrap_or(0),
            signal_ms: row.integer().unwrap_or(0),
        };
        if name == "WRITELOG" {
            self.total("commit_waits", Some(wait.tasks));
            self.total("commit_wait_ms", Some(wait.ms));
        }
        if self.waits.len() < ROWS_MAX {
            self.waits.insert(name, wait);
        }
    }

    fn counter(&mut self, row: &mut Row<'_>) {
        let name = row.text();
        let value = row.integer();
        let figure = match name.as_str() {
            "Batch Requests/sec" => "batches",
            "SQL Compilations/sec" => "compilations",
            "Transactions/sec" => "transactions",
            "Write Transactions/sec" => "write_transactions",
            "Delayed Commits/sec" => "delayed_commits",
            "Log Flushes/sec" => "log_flushes",
            "Log Bytes Flushed/sec" => "log_bytes",
            "Log Flush Write Time (ms)" => "log_flush_ms",
            "Lock Waits/sec" => "lock_waits",
            "Number of Deadlocks/sec" => "deadlocks",
            "Log Growths" => "log_growths",
            "Percent Log Used" => {
                if let Some(value) = value {
                    self.gauges.set("log_used_percent", value as f64);
                }
                return;
            }
            _ => return,
        };
        self.total(figure, value);
    }

    fn file(&mut self, row: &mut Row<'_>) {
        let is_log = row.integer() == Some(1);
        let mut next = || row.integer();
        let figures = [next(), next(), next(), next(), next(), next()];
        if is_log {
            // Where the server has no counter of it, the stall of the log files is the time of its flushes.
            if self.total_of("log_flush_ms").is_none() {
                self.total("log_flush_ms", figures[5]);
            }
            return;
        }
        let names = [
            "data_reads",
            "data_read_bytes",
            "data_read_ms",
            "data_writes",
            "data_write_bytes",
            "data_write_ms",
        ];
        for (name, value) in names.into_iter().zip(figures) {
            self.total(name, value);
        }
    }

    /// The running total of a figure, as it was read.
    pub fn total_of(&self, figure: &str) -> Option<i64> {
        *self.totals.get(figures::index(figure)?)?
    }

    fn sessions(&mut self, row: &mut Row<'_>) {
        self.gauges.set("sessions_running", row.number());
        self.gauges.set("sessions_sleeping", row.number());
        self.gauges.set("open_transactions", row.number());
        self.total("session_cpu_ms", row.integer());
    }

    fn request(&mut self, row: &mut Row<'_>) {
        let mut request = Request {
            session: row.integer().unwrap_or(0),
            blocked_by: row.integer().unwrap_or(0).max(0),
            wait_type: row.text(),
            wait_ms: row.integer().unwrap_or(0),
            status: row.text(),
            command: row.text(),
            started: 0,
            ..Request::default()
        };
        let started = row.integer();
        request.started = self.utc_of(started);
        request.elapsed_ms = row.integer().unwrap_or(0);
        request.cpu_ms = row.integer().unwrap_or(0);
        request.reads = row.integer().unwrap_or(0);
        request.writes = row.integer().unwrap_or(0);
        request.percent = row.number();
        request.open_transactions = row.integer().unwrap_or(0);
        request.resource = row.text();
        request.database = row.text();
        request.login = row.text();
        request.application = row.text();
        request.host = row.text();
        request.handle = row.bytes();
        if request.blocked_by > 0 && request.wait_ms == 0 {
            request.wait_ms = request.elapsed_ms;
        }
        self.requests.push(request);
    }

    fn head(&mut self, row: &mut Row<'_>) {
        let mut head = Request {
            session: row.integer().unwrap_or(0),
            status: row.text(),
            command: "IDLE IN TRANSACTION".into(),
            ..Request::default()
        };
        let (started, ended) = (row.integer(), row.integer());
        head.started = self.utc_of(started);
        head.elapsed_ms = (self.utc - self.utc_of(ended)).max(0);
        head.open_transactions = row.integer().unwrap_or(0);
        head.database = row.text();
        head.login = row.text();
        head.application = row.text();
        head.host = row.text();
        head.handle = row.bytes();
        self.requests.push(head);
    }

    fn finished(&mut self, row: &mut Row<'_>) {
        let mut done = Completed {
            sequence: row.integer().unwrap_or(0),
            kind: row.text(),
            session: row.integer().unwrap_or(0),
            executions: 1,
            ..Completed::default()
        };
        let started = row.integer();
        done.started = self.utc_of(started);
        let mut next = || row.integer().unwrap_or(0);
        done.duration_us = next();
        done.cpu_us = next();
        done.reads = next();
        done.writes = next();
        done.rows = next();
        done.wait_ms = next();
        done.log_wait_ms = next();
        done.lock_wait_ms = next();
        done.io_wait_ms = next();
        done.error = next();
        done.database = row.text();
        done.login = row.text();
        done.application = row.text();
        done.host = row.text();
        done.text = Some(row.text().into());
        self.completed.push(done);
    }

    fn statement(&mut self, row: &mut Row<'_>) {
        let key = (
            row.bytes(),
            row.integer().unwrap_or(0),
            row.integer().unwrap_or(-1),
        );
        let mut next = || row.integer().unwrap_or(0);
        let mut statement = Statement {
            executions: next(),
            cpu_us: next(),
            elapsed_us: next(),
            reads: next(),
            writes: next(),
            rows: next(),
            ..Statement::default()
        };
        let last = row.integer();
        statement.last_started = self.utc_of(last);
        statement.last_elapsed_us = row.integer().unwrap_or(0);
        statement.plan = (row.bytes(), row.bytes());
        let mut next = || row.integer().unwrap_or(0);
        statement.wait_us = next();
        statement.log_wait_us = next();
        statement.lock_wait_us = next();
        statement.io_wait_us = next();
        let known = self.statements.get_or_insert_default();
        if known.len() < ROWS_MAX {
            known.insert(key, statement);
        }
    }

    fn backup(&mut self, row: &mut Row<'_>) {
        let mut backup = Backup {
            number: row.integer().unwrap_or(0),
            database: row.text(),
            kind: row.text(),
            ..Backup::default()
        };
        let (started, ended) = (row.integer(), row.integer());
        backup.started = self.utc_of(started);
        backup.ended = self.utc_of(ended);
        backup.bytes = row.number();
        backup.bytes_written = row.number();
        self.backups.push(backup);
    }

    fn pin(&mut self, row: &mut Row<'_>) {
        let mut pin = Pin {
            database: row.text(),
            kind: row.text(),
            session: row.integer().unwrap_or(0),
            begun: 0,
            kib: 0,
        };
        // `begin_time` of this view is UTC already where the server's zone is; the difference is that of its clock.
        let begun = row.integer();
        pin.begun = self.utc_of(begun);
        pin.kib = row.integer().unwrap_or(0);
        let pins = self.pins.get_or_insert_default();
        if pins.len() < ROWS_MAX {
            pins.push(pin);
        }
    }

    fn database(&mut self, row: &mut Row<'_>) {
        let database = Database {
            name: row.text(),
            state: row.text(),
            recovery: row.text(),
            log_reuse: row.text(),
            delayed: row.text(),
            accelerated: row.integer() == Some(1),
        };
        self.databases.get_or_insert_default().push(database);
    }

    /// What can be said only when all rows are there: blocked sessions, the oldest pin, progress of a backup.
    pub fn complete(&mut self) {
        let blocked = self.requests.iter().filter(|r| r.blocked_by > 0);
        let longest = blocked.clone().map(|r| r.wait_ms).max().unwrap_or(0);
        self.gauges.set("blocked", blocked.count() as f64);
        self.gauges.set("blocked_longest_ms", longest as f64);
        let copying = |r: &&Request| r.command.contains("BACKUP") || r.command.contains("RESTORE");
        if let Some(request) = self.requests.iter().find(copying) {
            self.gauges.set("backup_percent", request.percent);
        }
        if let Some(pins) = &self.pins {
            let oldest = pins.iter().map(|pin| self.utc - pin.begun).max();
            let age = oldest.unwrap_or(0).max(0);
            self.gauges.set("version_pin_ms", age as f64);
        }
    }
}

/// Number and text of `SELECT 'text', number, text`.
pub fn text_row(values: &[Value]) -> Option<(usize, String)> {
    if tag(values) != "text" {
        return None;
    }
    let number = usize::try_from(integer(values.get(1)?)?).ok()?;
    let mut row = Row::of(values);
    let _number = row.integer();
    Some((number, row.text()))
}
