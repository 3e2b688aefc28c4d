//! `/metrics`: totals and values of the newest tick, in the text format of Prometheus.
//!
//! Theory: answered from memory; a scrape never touches a server and cannot hang with one. Totals are those of the server itself,
//! so that a restart shows as a counter that begins anew. A figure that a server does not have is left out.

use super::State;
use crate::figures::index;
use crate::sampler::live::{Server, State as Health};
use crate::waits::{self, Class};
use axum::extract::State as With;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::sync::Arc;

/// `GET /metrics`.
pub async fn scrape(With(state): With<Arc<State>>) -> Response {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(state)));
    let mut body = String::new();
    if text::encode(&mut body, &registry).is_err() {
        body.clear();
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, kind)], body).into_response()
}

#[derive(Debug)]
struct Scrape(Arc<State>);

/// A total, by figure: name, help, unit, and what it is divided by to come to that unit.
const COUNTERS: [(&str, &str, &str, Option<Unit>, f64); 21] = [
    (
        "cpu_ms",
        "cpu",
        "Processor time of the server",
        Some(Unit::Seconds),
        1e3,
    ),
    ("batches", "batches", "Batches and calls", None, 1.0),
    ("compilations", "compilations", "Compilations", None, 1.0),
    ("transactions", "transactions", "Transactions", None, 1.0),
    (
        "write_transactions",
        "write_transactions",
        "Transactions that wrote",
        None,
        1.0,
    ),
    (
        "delayed_commits",
        "delayed_commits",
        "Commits with delayed durability",
        None,
        1.0,
    ),
    (
        "log_flushes",
        "log_flushes",
        "Flushes of the log",
        None,
        1.0,
    ),
    (
        "log_bytes",
        "log_flushed",
        "Log written",
        Some(Unit::Bytes),
        1.0,
    ),
    (
        "log_flush_ms",
        "log_flush_time",
        "Time in flushes of the log",
        Some(Unit::Seconds),
        1e3,
    ),
    (
        "commit_waits",
        "commit_waits",
        "Commits that waited for the log",
        None,
        1.0,
    ),
    (
        "commit_wait_ms",
        "commit_wait_time",
        "Time commits waited for the log",
        Some(Unit::Seconds),
        1e3,
    ),
    ("data_reads", "data_reads", "Reads of data files", None, 1.0),
    (
        "data_read_bytes",
        "data_read",
        "Read from data files",
        Some(Unit::Bytes),
        1.0,
    ),
    (
        "data_read_ms",
        "data_read_time",
        "Time in reads of data files",
        Some(Unit::Seconds),
        1e3,
    ),
    (
        "data_writes",
        "data_writes",
        "Writes of data files",
        None,
        1.0,
    ),
    (
        "data_write_bytes",
        "data_written",
        "Written to data files",
        Some(Unit::Bytes),
        1.0,
    ),
    (
        "data_write_ms",
        "data_write_time",
        "Time in writes of data files",
        Some(Unit::Seconds),
        1e3,
    ),
    (
        "lock_waits",
        "lock_waits",
        "Lock requests that waited",
        None,
        1.0,
    ),
    ("deadlocks", "deadlocks", "Deadlocks", None, 1.0),
    (
        "log_growths",
        "log_growths",
        "Growths of log files",
        None,
        1.0,
    ),
    (
        "session_cpu_ms",
        "monitor_session_cpu",
        "Processor time of the monitor's own session",
        Some(Unit::Seconds),
        1e3,
    ),
];

const GAUGES: [(&str, &str, &str, Option<Unit>, f64); 19] = [
    (
        "memory_bytes",
        "memory",
        "Memory of the server",
        Some(Unit::Bytes),
        1.0,
    ),
    (
        "memory_target_bytes",
        "memory_target",
        "Memory that the server may take",
        Some(Unit::Bytes),
        1.0,
    ),
    (
        "sessions_running",
        "sessions_running",
        "Sessions that run a request",
        None,
        1.0,
    ),
    (
        "sessions_sleeping",
        "sessions_sleeping",
        "Sessions that run nothing",
        None,
        1.0,
    ),
    (
        "open_transactions",
        "sessions_in_transaction",
        "Sessions with an open transaction",
        None,
        1.0,
    ),
    (
        "blocked",
        "blocked_sessions",
        "Sessions that wait for another one",
        None,
        1.0,
    ),
    (
        "blocked_longest_ms",
        "blocked_longest",
        "Longest wait for another session",
        Some(Unit::Seconds),
        1e3,
    ),
    (
        "version_store_bytes",
        "version_store",
        "Row versions",
        Some(Unit::Bytes),
        1.0,
    ),
    (
        "version_pin_ms",
        "version_store_pin_age",
        "Age of the oldest keeper of row versions",
        Some(Unit::Seconds),
        1e3,
    ),
    (
        "risk_commits",
        "at_risk_commits",
        "Acknowledged commits that a crash would lose",
        None,
        1.0,
    ),
    (
        "risk_bytes",
        "at_risk",
        "Log that a crash would lose",
        Some(Unit::Bytes),
        1.0,
    ),
    (
        "risk_age_ms",
        "at_risk_age",
        "Age of the oldest commit that a crash would lose",
        Some(Unit::Seconds),
        1e3,
    ),
    (
        "log_used_percent",
        "log_used",
        "Part of the log files in use",
        Some(Unit::Ratios),
        100.0,
    ),
    (
        "backup_percent",
        "backup_done",
        "Part of the running backup or restore that is done",
        Some(Unit::Ratios),
        100.0,
    ),
    (
        "send_queue_bytes",
        "replica_send_queue",
        "Log not sent to replicas yet",
        Some(Unit::Bytes),
        1.0,
    ),
    (
        "redo_queue_bytes",
        "replica_redo_queue",
        "Log not redone at replicas yet",
        Some(Unit::Bytes),
        1.0,
    ),
    (
        "replica_lag_ms",
        "replica_lag",
        "Lag of the slowest replica",
        Some(Unit::Seconds),
        1e3,
    ),
    (
        "answer_ms",
        "sample_answer",
        "Time the server took to answer the newest sample",
        Some(Unit::Seconds),
        1e3,
    ),
    (
        "monitor_cpu_ms",
        "monitor_cpu_of_tick",
        "Processor time of the monitor for the newest tick",
        Some(Unit::Seconds),
        1e3,
    ),
];

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let servers = &self.0.shared.servers;
        own(self.0.as_ref(), servers, &mut encoder)?;
        for (figure, name, help, unit, by) in COUNTERS {
            let values = of_all(servers, |server| {
                let live = server.live();
                let total = live.totals.get(index(figure)?).copied().flatten()?;
                Some(total as f64 / by)
            });
            family(&mut encoder, name, help, unit.as_ref(), true, &values)?;
        }
        for (figure, name, help, unit, by) in GAUGES {
            let values = of_all(servers, |server| {
                let live = server.live();
                Some(live.values().get(figure)? / by)
            });
            family(&mut encoder, name, help, unit.as_ref(), false, &values)?;
        }
        wait_classes(servers, &mut encoder)
    }
}

type Labelled = (Vec<(&'static str, String)>, f64);

fn of_all(servers: &[Arc<Server>], value: impl Fn(&Server) -> Option<f64>) -> Vec<Labelled> {
    servers
        .iter()
        .filter_map(|server| Some((label(server), value(server)?)))
        .filter(|(_, value)| value.is_finite())
        .collect()
}

fn label(server: &Server) -> Vec<(&'static str, String)> {
    vec![("server", server.endpoint.clone())]
}

fn family(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    is_counter: bool,
    values: &[Labelled],
) -> Result<(), std::fmt::Error> {
    if values.is_empty() {
        return Ok(());
    }
    let name = format!("daruma_{name}");
    let kind = if is_counter {
        MetricType::Counter
    } else {
        MetricType::Gauge
    };
    let mut metric = encoder.encode_descriptor(&name, help, unit, kind)?;
    for (labels, value) in values {
        let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let labels = labels.as_slice();
        let one = metric.encode_family(&labels)?;
        match is_counter {
            true => ConstCounter::new(*value).encode(one)?,
            false => ConstGauge::new(*value).encode(one)?,
        }
    }
    Ok(())
}

fn own(
    state: &State,
    servers: &[Arc<Server>],
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), std::fmt::Error> {
    let build = [(
        vec![("version", env!("CARGO_PKG_VERSION").to_string())],
        1.0,
    )];
    family(
        encoder,
        "build_info",
        "Version of the monitor",
        None,
        false,
        &build,
    )?;
    let up = of_all(servers, |server| {
        let up = matches!(server.live().state(), Health::Up | Health::Late);
        Some(f64::from(u8::from(up)))
    });
    family(
        encoder,
        "up",
        "Does the server answer the monitor",
        None,
        false,
        &up,
    )?;
    let started = of_all(servers, |server| {
        let started = server.live().started;
        (started > 0).then_some(started as f64 / 1e3)
    });
    let seconds = Some(Unit::Seconds);
    family(
        encoder,
        "start_time",
        "When the server started, since 1970",
        seconds.as_ref(),
        false,
        &started,
    )?;
    let last = of_all(servers, |server| {
        Some(server.live().tick()?.at as f64 / 1e3)
    });
    family(
        encoder,
        "last_sample_timestamp",
        "When the newest sample was taken, since 1970",
        seconds.as_ref(),
        false,
        &last,
    )?;
    let late = of_all(servers, |server| Some(server.live().late as f64));
    family(
        encoder,
        "late_samples",
        "Samples that were answered late",
        None,
        true,
        &late,
    )?;
    let stored = state.shared.stored.get();
    let ok = [(Vec::new(), f64::from(u8::from(stored.error.is_none())))];
    family(
        encoder,
        "repository_up",
        "Can samples be stored",
        None,
        false,
        &ok,
    )?;
    let waiting = [(Vec::new(), state.shared.outbox.waiting() as f64)];
    family(
        encoder,
        "repository_waiting_samples",
        "Samples that wait to be stored",
        None,
        false,
        &waiting,
    )
}

fn wait_classes(
    servers: &[Arc<Server>],
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), std::fmt::Error> {
    let (mut time, mut tasks) = (Vec::new(), Vec::new());
    for server in servers {
        let live = server.live();
        let mut sums: BTreeMap<Class, (i64, i64)> = BTreeMap::new();
        for (name, wait) in live.waits.iter().filter(|(name, _)| !waits::is_idle(name)) {
            let sum = sums.entry(waits::class(name)).or_default();
            sum.0 = sum.0.saturating_add(wait.ms);
            sum.1 = sum.1.saturating_add(wait.tasks);
        }
        for (class, (ms, count)) in sums {
            let mut labels = label(server);
            labels.push(("class", class.name().to_string()));
            time.push((labels.clone(), ms as f64 / 1e3));
            tasks.push((labels, count as f64));
        }
    }
    let seconds = Some(Unit::Seconds);
    family(
        encoder,
        "wait",
        "Time that requests waited, by class",
        seconds.as_ref(),
        true,
        &time,
    )?;
    family(encoder, "wait_tasks", "Waits, by class", None, true, &tasks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Names that `/metrics` can have, as the text format writes them.
    fn names() -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let mut add = |name: &str, unit: Option<&Unit>, is_counter: bool| {
            let unit = unit.map_or(String::new(), |unit| format!("_{}", unit.as_str()));
            let total = if is_counter { "_total" } else { "" };
            names.insert(format!("daruma_{name}{unit}{total}"));
        };
        for (figure, name, _, unit, _) in &COUNTERS {
            assert!(index(figure).is_some(), "{figure}");
            add(name, unit.as_ref(), true);
        }
        for (figure, name, _, unit, _) in &GAUGES {
            assert!(index(figure).is_some(), "{figure}");
            add(name, unit.as_ref(), false);
        }
        let seconds = Some(&Unit::Seconds);
        add("wait", seconds, true);
        add("wait_tasks", None, true);
        add("late_samples", None, true);
        add("start_time", seconds, false);
        add("last_sample_timestamp", seconds, false);
        for name in [
            "up",
            "build_info",
            "repository_up",
            "repository_waiting_samples",
        ] {
            add(name, None, false);
        }
        names
    }

    #[test]
    fn rules_and_dashboard_ask_for_what_is_there() {
        let known = names();
        let rules = include_str!("../../../../docs/monitor-alerts.yml");
        let dashboard = include_str!("../../../../docs/monitor-grafana.json");
        let read: serde_json::Value = serde_json::from_str(dashboard).expect("JSON");
        assert!(read["id"].is_null(), "an import must not replace another");
        for text in [rules, dashboard] {
            let mut asked = 0;
            for (at, _) in text.match_indices("daruma_") {
                let rest = &text[at..];
                let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                let name = &rest[..end];
                assert!(known.contains(name), "{name}");
                asked += 1;
            }
            assert!(asked > 10, "{asked}");
        }
        let alerts = rules.matches("- alert: ").count();
        let tested = include_str!("../../../../docs/monitor-alerts-test.yml");
        let fired: BTreeSet<&str> = tested
            .lines()
            .filter_map(|line| line.trim().strip_prefix("- alertname: "))
            .collect();
        assert_eq!(alerts, fired.len(), "each rule is tested");
    }
}
