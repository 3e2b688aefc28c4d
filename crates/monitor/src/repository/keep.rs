//! What people make: servers that are watched, baselines, rules of alerts, settings.

use super::Repository;
use super::read::integer;
use crate::compare::Summary;
use crate::sampler::number as float;
use crate::sql::{now, number, quoted, time};
use daruma_client::client::ClientError;
use daruma_client::value;
use serde::{Deserialize, Serialize};

/// A named stretch with the figures it had.
#[derive(Clone, Debug, Serialize)]
pub struct Baseline {
    pub id: i64,
    pub server: i64,
    pub name: String,
    pub from: i64,
    pub to: i64,
    pub made_by: String,
    pub made: i64,
    pub step_ms: i64,
    pub covered_ms: i64,
}

/// A threshold on a figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rule {
    #[serde(default)]
    pub id: i64,
    pub name: String,
    pub figure: String,
    pub above: f64,
    pub for_s: i64,
    pub enabled: bool,
}

/// A rule that was broken.
#[derive(Clone, Debug, Serialize)]
pub struct Alert {
    pub id: i64,
    pub server: i64,
    pub rule: i64,
    pub name: String,
    pub raised: i64,
    pub cleared: Option<i64>,
    pub value: f64,
    pub words: String,
}

/// A run of the purge, with what it cost.
#[derive(Clone, Debug, Serialize)]
pub struct PurgeRun {
    pub table: String,
    pub started: i64,
    pub ended: i64,
    pub rows: i64,
    pub commits: i64,
    pub delayed: bool,
    pub flushes: i64,
    pub wait_ms: i64,
}

const MS: &str = "DATEDIFF_BIG(millisecond, '1970-01-01', ";

impl Repository {
    /// Number of the server at this endpoint, which gets a row when it is new.
    pub fn server_id(&self, endpoint: &str) -> Result<i16, ClientError> {
        let rows = self.query(&format!(
            "IF NOT EXISTS (SELECT * FROM dbo.server WHERE endpoint = {name}) INSERT dbo.server (server_id, name, endpoint, \
             added) SELECT ISNULL(MAX(server_id), 0) + 1, {name}, {name}, {at} FROM dbo.server; \
             SELECT server_id FROM dbo.server WHERE endpoint = {name};",
            name = quoted(endpoint),
            at = time(now())
        ))?;
        let id = rows
            .first()
            .and_then(|row| row.first())
            .and_then(integer)
            .and_then(|id| i16::try_from(id).ok());
        Ok(id.unwrap_or(1))
    }

    /// Notes what a server calls itself, and that it started then.
    pub fn note_boot(
        &self,
        server: i16,
        name: &str,
        started: i64,
        version: &str,
    ) -> Result<(), ClientError> {
        let version: String = version.chars().take(300).collect();
        let name: String = name.chars().take(128).collect();
        self.execute(&format!(
            "UPDATE dbo.server SET name = {} WHERE server_id = {server}; \
             IF NOT EXISTS (SELECT * FROM dbo.boot WHERE server_id = {server} AND started = {started}) \
             INSERT dbo.boot (server_id, started, version) VALUES ({server}, {started}, {});",
            quoted(&name),
            quoted(&version),
            started = time(started)
        ))
    }

    /// All baselines, the newest first.
    pub fn baselines(&self) -> Result<Vec<Baseline>, ClientError> {
        let rows = self.query(&format!(
            "SELECT TOP (500) baseline_id, server_id, name, {MS}from_utc), {MS}to_utc), made_by, {MS}made_utc), step_ms, \
             covered_ms FROM dbo.baseline ORDER BY baseline_id DESC"
        ))?;
        let baseline = |row: &Vec<daruma_value::Value>| {
            let whole = |at: usize| row.get(at).and_then(integer).unwrap_or(0);
            let text = |at: usize| row.get(at).map_or(String::new(), value::text);
            Baseline {
                id: whole(0),
                server: whole(1),
                name: text(2),
                from: whole(3),
                to: whole(4),
                made_by: text(5),
                made: whole(6),
                step_ms: whole(7),
                covered_ms: whole(8),
            }
        };
        Ok(rows.iter().map(baseline).collect())
    }

    /// Keeps a stretch with its figures, durably; gives its number.
    pub fn make_baseline(
        &self,
        server: i16,
        name: &str,
        by: &str,
        summary: &Summary,
    ) -> Result<i64, ClientError> {
        let name: String = name.chars().take(128).collect();
        let by: String = by.chars().take(128).collect();
        let mut batch = format!(
            "SET XACT_ABORT ON; DECLARE @id int; BEGIN TRANSACTION; INSERT dbo.baseline (server_id, name, from_utc, to_utc, \
             made_by, made_utc, step_ms, covered_ms) VALUES ({server}, {}, {}, {}, {}, {}, {}, {}); SET @id = SCOPE_IDENTITY();\n",
            quoted(&name),
            time(summary.from),
            time(summary.to),
            quoted(&by),
            time(now()),
            summary.step_ms,
            summary.covered_ms
        );
        for figure in &summary.figures {
            let mut values = String::new();
            for value in [
                figure.total,
                figure.average,
                figure.min,
                figure.max,
                figure.deviation,
                figure.p95,
            ] {
                values.push_str(", ");
                number(value.unwrap_or(f64::NAN), &mut values);
            }
            batch.push_str(&format!(
                "INSERT dbo.baseline_value (baseline_id, figure, n, total, average, least, most, deviation, p95) VALUES (@id, \
                 {}, {}{values});\n",
                quoted(&figure.name),
                figure.n
            ));
        }
        batch.push_str("COMMIT TRANSACTION; SELECT @id;");
        let rows = self.with(|client| client.query(&batch))?;
        Ok(rows
            .first()
            .and_then(|row| row.first())
            .and_then(integer)
            .unwrap_or(0))
    }

    /// Forgets a baseline.
    pub fn drop_baseline(&self, id: i64) -> Result<(), ClientError> {
        self.execute(&format!(
            "SET XACT_ABORT ON; BEGIN TRANSACTION; DELETE dbo.baseline_value WHERE baseline_id = {id}; \
             DELETE dbo.baseline WHERE baseline_id = {id}; COMMIT TRANSACTION;"
        ))
    }

    /// All rules.
    pub fn rules(&self) -> Result<Vec<Rule>, ClientError> {
        let rows = self.query(
            "SELECT rule_id, name, figure, above, for_s, is_enabled FROM dbo.alert_rule ORDER BY rule_id",
        )?;
        Ok(rows
            .iter()
            .map(|row| Rule {
                id: row.first().and_then(integer).unwrap_or(0),
                name: row.get(1).map_or(String::new(), value::text),
                figure: row.get(2).map_or(String::new(), value::text),
                above: row.get(3).map_or(f64::NAN, float),
                for_s: row.get(4).and_then(integer).unwrap_or(0),
                enabled: row.get(5).and_then(integer) == Some(1),
            })
            .collect())
    }

    /// Adds a rule, or changes the one with this number.
    pub fn put_rule(&self, rule: &Rule) -> Result<(), ClientError> {
        let name: String = rule.name.chars().take(128).collect();
        let mut above = String::new();
        number(rule.above, &mut above);
        let (name, figure) = (quoted(&name), quoted(&rule.figure));
        let (for_s, enabled) = (rule.for_s, u8::from(rule.enabled));
        self.execute(&match rule.id {
            0 => format!(
                "INSERT dbo.alert_rule (name, figure, above, for_s, is_enabled) VALUES ({name}, {figure}, {above}, {for_s}, {enabled});"
            ),
            id => format!(
                "UPDATE dbo.alert_rule SET name = {name}, figure = {figure}, above = {above}, for_s = {for_s}, is_enabled = \
                 {enabled} WHERE rule_id = {id};"
            ),
        })
    }

    /// Takes a rule away.
    pub fn drop_rule(&self, id: i64) -> Result<(), ClientError> {
        self.execute(&format!(
            "DELETE dbo.alert_rule WHERE rule_id = {id}; UPDATE dbo.alert SET cleared = {at} WHERE rule_id = {id} AND cleared IS NULL;",
            at = time(now())
        ))
    }

    /// Alerts, the newest first.
    pub fn alerts(&self) -> Result<Vec<Alert>, ClientError> {
        let rows = self.query(&format!(
            "SELECT TOP (200) alert_id, server_id, rule_id, name, {MS}raised), {MS}cleared), value, words FROM dbo.alert \
             ORDER BY alert_id DESC"
        ))?;
        Ok(rows
            .iter()
            .map(|row| {
                let whole = |at: usize| row.get(at).and_then(integer);
                Alert {
                    id: whole(0).unwrap_or(0),
                    server: whole(1).unwrap_or(0),
                    rule: whole(2).unwrap_or(0),
                    name: row.get(3).map_or(String::new(), value::text),
                    raised: whole(4).unwrap_or(0),
                    cleared: whole(5),
                    value: row.get(6).map_or(f64::NAN, float),
                    words: row.get(7).map_or(String::new(), value::text),
                }
            })
            .collect())
    }

    /// Notes an alert, durably.
    pub fn raise(
        &self,
        server: i16,
        rule: &Rule,
        at: i64,
        value: f64,
        words: &str,
    ) -> Result<(), ClientError> {
        let mut text = String::new();
        number(value, &mut text);
        let words: String = words.chars().take(1_000).collect();
        self.execute(&format!(
            "INSERT dbo.alert (server_id, rule_id, name, raised, value, words) VALUES ({server}, {}, {}, {}, {text}, {});",
            rule.id,
            quoted(&rule.name),
            time(at),
            quoted(&words)
        ))
    }

    /// Notes that it is over.
    pub fn clear(&self, server: i16, rule: i64, at: i64) -> Result<(), ClientError> {
        self.execute(&format!(
            "UPDATE dbo.alert SET cleared = {} WHERE server_id = {server} AND rule_id = {rule} AND cleared IS NULL;",
            time(at)
        ))
    }

    /// The last runs of the purge.
    pub fn purge_runs(&self) -> Result<Vec<PurgeRun>, ClientError> {
        let rows = self.query(&format!(
            "SELECT TOP (100) level_name, {MS}started), {MS}ended), rows_deleted, commits, is_delayed, log_flushes, log_wait_ms \
             FROM dbo.purge_run ORDER BY run_id DESC"
        ))?;
        Ok(rows
            .iter()
            .map(|row| {
                let whole = |at: usize| row.get(at).and_then(integer).unwrap_or(0);
                PurgeRun {
                    table: row.first().map_or(String::new(), value::text),
                    started: whole(1),
                    ended: whole(2),
                    rows: whole(3),
                    commits: whole(4),
                    delayed: whole(5) == 1,
                    flushes: whole(6),
                    wait_ms: whole(7),
                }
            })
            .collect())
    }

    /// Sets how many days a table keeps.
    pub fn keep_days(&self, table: &str, days: i64) -> Result<(), ClientError> {
        let name = quoted(&format!("keep.{table}"));
        self.execute(&format!(
            "SET XACT_ABORT ON; BEGIN TRANSACTION; DELETE dbo.setting WHERE name = {name}; \
             INSERT dbo.setting (name, value) VALUES ({name}, N'{days}'); COMMIT TRANSACTION;"
        ))
    }
}
