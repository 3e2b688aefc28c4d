//! What the page asks of the repository.

use super::Repository;
use super::levels::{LEVELS, Level, WAIT_LEVELS, choose};
use super::rollup::Row;
use super::schema::figure_columns;
use crate::figures::COUNT;
use crate::sql::{now, time};
use crate::waits::Class;
use daruma_client::client::{Client, ClientError};
use daruma_client::value;
use daruma_value::Value;
use serde::Serialize;

/// Rows that a question about statements, events or blocking brings at most.
const ROWS_MAX: usize = 1_000;
/// Plans of a text that are shown.
const PLANS_MAX: usize = 20;

/// A whole number of any type; `None` for NULL.
pub fn integer(value: &Value) -> Option<i64> {
    crate::sampler::integer(value)
}

fn float(value: Option<&Value>) -> f64 {
    value.map_or(f64::NAN, crate::sampler::number)
}

/// A row read from left to right.
struct Columns<'a>(std::slice::Iter<'a, Value>);

impl Columns<'_> {
    fn integer(&mut self) -> i64 {
        self.0.next().and_then(integer).unwrap_or(0)
    }

    fn optional(&mut self) -> Option<i64> {
        self.0.next().and_then(integer)
    }

    fn float(&mut self) -> f64 {
        float(self.0.next())
    }

    fn text(&mut self) -> String {
        self.0.next().map_or(String::new(), value::text)
    }
}

/// Rows of a level whose time lies in a range: ticks that end after `from` and not after `to`, buckets that begin in it. Least and
/// most of buckets are read when `whole` is wanted; else they are the value itself.
pub fn rows(
    client: &mut Client,
    level: Level,
    server: i16,
    from: i64,
    to: i64,
    whole: bool,
) -> Result<Vec<Row>, ClientError> {
    let is_raw = level == LEVELS[0];
    let (least, most) = if is_raw { (">", "<=") } else { (">=", "<") };
    let text = format!(
        "SELECT DATEDIFF_BIG(millisecond, '1970-01-01', at), dt_ms, ticks, flags, {} FROM dbo.{} WHERE server_id = {server} \
         AND at {least} {} AND at {most} {} ORDER BY at",
        figure_columns(is_raw || !whole).join(", "),
        level.table,
        time(from),
        time(to)
    );
    let read = client.query(&text)?;
    Ok(read
        .iter()
        .map(|row| tick_row(row, is_raw, whole))
        .collect())
}

fn tick_row(values: &[Value], is_raw: bool, whole: bool) -> Row {
    let mut columns = Columns(values.iter());
    let mut row = Row {
        at: columns.integer(),
        is_bucket: !is_raw,
        dt_ms: columns.integer(),
        ticks: columns.integer(),
        flags: u8::try_from(columns.integer()).unwrap_or(0),
        value: [f64::NAN; COUNT],
        min: [f64::NAN; COUNT],
        max: [f64::NAN; COUNT],
    };
    let mut fill = |slots: &mut [f64; COUNT]| {
        for slot in slots {
            *slot = columns.float();
        }
    };
    fill(&mut row.value);
    if is_raw || !whole {
        for index in 0..COUNT {
            let shown = row.shown(index);
            if let (Some(min), Some(max)) = (row.min.get_mut(index), row.max.get_mut(index)) {
                (*min, *max) = (shown, shown);
            }
        }
    } else {
        fill(&mut row.min);
        fill(&mut row.max);
    }
    row
}

/// Samples of a range at one level, with a finer one at both ends where the range does not fall on its steps.
#[derive(Clone, Debug)]
pub struct Stretch {
    pub level: Level,
    pub rows: Vec<Row>,
}

impl Repository {
    /// Samples for charts, at the level that fits.
    pub fn range(&self, server: i16, from: i64, to: i64) -> Result<Stretch, ClientError> {
        let level = choose(&LEVELS, from, to, now());
        let rows =
            self.retry(|client| rows(client, level, server, level_floor(level, from), to, false))?;
        Ok(Stretch { level, rows })
    }

    /// Samples for sums: exact at both ends as long as seconds are kept.
    pub fn stretch(&self, server: i16, from: i64, to: i64) -> Result<Stretch, ClientError> {
        let level = choose(&LEVELS, from, to, now());
        if level == LEVELS[0] {
            return self.range(server, from, to);
        }
        let first = (from + level.step_ms - 1).div_euclid(level.step_ms) * level.step_ms;
        let last = to.div_euclid(level.step_ms) * level.step_ms;
        let rows = self.retry(|client| {
            let mut all = rows(client, LEVELS[0], server, from, first, true)?;
            all.extend(rows(client, level, server, first, last, true)?);
            all.extend(rows(client, LEVELS[0], server, last, to, true)?);
            Ok(all)
        })?;
        Ok(Stretch { level, rows })
    }

    fn retry<T>(
        &self,
        work: impl Fn(&mut Client) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        match self.with(&work) {
            Err(error) if error.is_fatal() => self.with(&work),
            other => other,
        }
    }

    /// Waits by type over a range, the longest first.
    pub fn waits(&self, server: i16, from: i64, to: i64) -> Result<Vec<WaitSum>, ClientError> {
        let level = choose(&WAIT_LEVELS, from, to, now());
        let (least, most) = match level == WAIT_LEVELS[0] {
            true => (">", "<="),
            false => (">=", "<"),
        };
        let rows = self.query(&format!(
            "SELECT t.name, t.class, SUM(w.tasks), SUM(w.ms), SUM(w.signal_ms) FROM dbo.{} AS w JOIN dbo.wait_type AS t ON \
             t.wait_type_id = w.wait_type_id WHERE w.server_id = {server} AND w.at {least} {} AND w.at {most} {} AND \
             t.is_idle = 0 GROUP BY t.name, t.class ORDER BY SUM(w.ms) DESC, t.name",
            level.table,
            time(level_floor(level, from)),
            time(to)
        ))?;
        Ok(rows
            .iter()
            .map(|row| {
                let mut columns = Columns(row.iter());
                WaitSum {
                    name: columns.text(),
                    class: Class::of_number(u8::try_from(columns.integer()).unwrap_or(u8::MAX))
                        .name(),
                    tasks: columns.integer(),
                    ms: columns.integer(),
                    signal_ms: columns.integer(),
                    step_ms: level.step_ms,
                }
            })
            .collect())
    }

    /// Statements that ended in a range and took at least so long, the longest first.
    pub fn statements(
        &self,
        server: i16,
        from: i64,
        to: i64,
        least_ms: i64,
    ) -> Result<Vec<StatementRow>, ClientError> {
        let rows = self.query(&format!(
            "SELECT TOP ({ROWS_MAX}) DATEDIFF_BIG(millisecond, '1970-01-01', s.started), \
             DATEDIFF_BIG(millisecond, '1970-01-01', s.ended), s.kind, s.session_id, s.executions, s.duration_us, s.cpu_us, \
             s.reads, s.writes, s.row_count, s.wait_ms, s.log_wait_ms, s.lock_wait_ms, s.io_wait_ms, s.error, \
             s.database_name, s.login_name, s.application, t.text, s.text_id, CASE WHEN EXISTS (SELECT * FROM dbo.query_plan AS p \
             WHERE p.server_id = s.server_id AND p.text_id = s.text_id) THEN 1 ELSE 0 END FROM dbo.statement AS s LEFT JOIN \
             dbo.sql_text AS t ON t.text_id = s.text_id WHERE s.server_id = {server} AND s.ended > {} AND s.ended <= {} AND s.duration_us >= {} \
             ORDER BY s.duration_us DESC",
            time(from),
            time(to),
            least_ms.saturating_mul(1_000)
        ))?;
        Ok(rows.iter().map(|row| statement(row)).collect())
    }

    /// Plans that a text was seen with, the newest first.
    pub fn plans(&self, server: i16, text: i64) -> Result<Vec<PlanRow>, ClientError> {
        let rows = self.query(&format!(
            "SELECT TOP ({PLANS_MAX}) DATEDIFF_BIG(millisecond, '1970-01-01', seen), tree FROM dbo.query_plan \
             WHERE server_id = {server} AND text_id = {text} ORDER BY seen DESC"
        ))?;
        let plan = |row: &Vec<Value>| {
            let mut columns = Columns(row.iter());
            PlanRow {
                seen: columns.integer(),
                tree: columns.text(),
            }
        };
        Ok(rows.iter().map(plan).collect())
    }

    /// Events that touch a range, the newest first.
    pub fn events(&self, server: i16, from: i64, to: i64) -> Result<Vec<EventRow>, ClientError> {
        let rows = self.query(&format!(
            "SELECT TOP ({ROWS_MAX}) DATEDIFF_BIG(millisecond, '1970-01-01', at), DATEDIFF_BIG(millisecond, '1970-01-01', until), \
             kind, severity, words FROM dbo.event WHERE server_id = {server} AND at <= {} AND ISNULL(until, at) >= {} \
             ORDER BY at DESC",
            time(to),
            time(from)
        ))?;
        Ok(rows
            .iter()
            .map(|row| {
                let mut columns = Columns(row.iter());
                EventRow {
                    at: columns.integer(),
                    until: columns.optional(),
                    kind: columns.text(),
                    severity: columns.integer(),
                    words: columns.text(),
                }
            })
            .collect())
    }

    /// Who blocked whom at the last moment up to `at`, looked for a minute back.
    pub fn blocking(&self, server: i16, at: i64) -> Result<Vec<BlockingRow>, ClientError> {
        let rows = self.query(&format!(
            "SELECT TOP ({ROWS_MAX}) DATEDIFF_BIG(millisecond, '1970-01-01', b.at), b.session_id, b.blocked_by, b.wait_type, \
             b.wait_ms, b.status, b.command, DATEDIFF_BIG(millisecond, '1970-01-01', b.started), b.elapsed_ms, \
             b.open_transactions, b.resource, b.database_name, b.login_name, b.application, t.text FROM dbo.blocking AS b \
             LEFT JOIN dbo.sql_text AS t ON t.text_id = b.text_id WHERE b.server_id = {server} AND b.at = (SELECT MAX(at) FROM \
             dbo.blocking WHERE server_id = {server} AND at <= {} AND at > {}) ORDER BY b.session_id",
            time(at),
            time(at.saturating_sub(60_000))
        ))?;
        Ok(rows
            .iter()
            .map(|row| {
                let mut columns = Columns(row.iter());
                BlockingRow {
                    at: columns.integer(),
                    session: columns.integer(),
                    blocked_by: columns.integer(),
                    wait_type: columns.text(),
                    wait_ms: columns.integer(),
                    status: columns.text(),
                    command: columns.text(),
                    started: columns.integer(),
                    elapsed_ms: columns.integer(),
                    open_transactions: columns.integer(),
                    resource: columns.text(),
                    database: columns.text(),
                    login: columns.text(),
                    application: columns.text(),
                    text: columns.text(),
                }
            })
            .collect())
    }

    /// The oldest sample of a server: UTC, ms.
    pub fn oldest(&self, server: i16) -> Result<Option<i64>, ClientError> {
        let rows = self.query(&format!(
            "SELECT DATEDIFF_BIG(millisecond, '1970-01-01', MIN(at)) FROM dbo.tick_1s WHERE server_id = {server}"
        ))?;
        Ok(rows.first().and_then(|row| row.first()).and_then(integer))
    }
}

/// Where reading of a level begins so that the bucket around `from` is in it.
const fn level_floor(level: Level, from: i64) -> i64 {
    match level.step_ms {
        1_000 => from,
        step => from.div_euclid(step) * step,
    }
}

fn statement(row: &[Value]) -> StatementRow {
    let mut columns = Columns(row.iter());
    StatementRow {
        started: columns.integer(),
        ended: columns.integer(),
        kind: columns.text(),
        session: columns.integer(),
        executions: columns.integer(),
        duration_us: columns.integer(),
        cpu_us: columns.integer(),
        reads: columns.integer(),
        writes: columns.integer(),
        rows: columns.integer(),
        wait_ms: columns.integer(),
        log_wait_ms: columns.integer(),
        lock_wait_ms: columns.integer(),
        io_wait_ms: columns.integer(),
        error: columns.integer(),
        database: columns.text(),
        login: columns.text(),
        application: columns.text(),
        text: columns.text(),
        text_id: columns.text(),
        has_plan: columns.integer() == 1,
    }
}

/// Waits of a type over a range.
#[derive(Clone, Debug, Serialize)]
pub struct WaitSum {
    pub name: String,
    pub class: &'static str,
    pub tasks: i64,
    pub ms: i64,
    pub signal_ms: i64,
    /// Steps that the range was cut to.
    pub step_ms: i64,
}

/// A statement or request that ended.
#[derive(Clone, Debug, Serialize)]
pub struct StatementRow {
    pub started: i64,
    pub ended: i64,
    pub kind: String,
    pub session: i64,
    pub executions: i64,
    pub duration_us: i64,
    pub cpu_us: i64,
    pub reads: i64,
    pub writes: i64,
    pub rows: i64,
    pub wait_ms: i64,
    pub log_wait_ms: i64,
    pub lock_wait_ms: i64,
    pub io_wait_ms: i64,
    pub error: i64,
    pub database: String,
    pub login: String,
    pub application: String,
    pub text: String,
    /// A number that does not fit into one of JavaScript.
    pub text_id: String,
    pub has_plan: bool,
}

/// A plan that a text was seen with.
#[derive(Clone, Debug, Serialize)]
pub struct PlanRow {
    /// When it was seen for the first time: UTC, ms.
    pub seen: i64,
    pub tree: String,
}

/// An event as stored.
#[derive(Clone, Debug, Serialize)]
pub struct EventRow {
    pub at: i64,
    pub until: Option<i64>,
    pub kind: String,
    pub severity: i64,
    pub words: String,
}

/// A session of a blocking tree as it was.
#[derive(Clone, Debug, Serialize)]
pub struct BlockingRow {
    pub at: i64,
    pub session: i64,
    pub blocked_by: i64,
    pub wait_type: String,
    pub wait_ms: i64,
    pub status: String,
    pub command: String,
    pub started: i64,
    pub elapsed_ms: i64,
    pub open_transactions: i64,
    pub resource: String,
    pub database: String,
    pub login: String,
    pub application: String,
    pub text: String,
}
