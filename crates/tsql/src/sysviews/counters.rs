//! `sys.dm_os_wait_stats` and `sys.dm_os_performance_counters`: totals since the start, under the product's names.
//!
//! A counter of type "per second" is a running total: a reader takes differences. Averages come with their base.

use super::databases::files_of;
use super::define::{Rows, View};
use super::source::Source;
use crate::error::Result;
use crate::instance::{DatabaseEntry, Instance};
use std::sync::Arc;
use std::time::Duration;

pub(super) const VIEWS: &[View] = &[
    View::sys("dm_os_wait_stats", WAITS, waits),
    View::sys("dm_os_performance_counters", COUNTERS, counters),
];

const WAITS: &str = "
    wait_type nvarchar(60); waiting_tasks_count bigint; wait_time_ms bigint; max_wait_time_ms bigint;
    signal_wait_time_ms bigint";

fn waits(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for stat in source.instance()?.engine().waits().stats() {
        rows.add()
            .set("wait_type", stat.kind.name())
            .set("waiting_tasks_count", stat.count)
            .set("wait_time_ms", milliseconds(stat.total))
            .set("max_wait_time_ms", milliseconds(stat.max));
    }
    Ok(())
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

const COUNTERS: &str = "object_name nchar(128); counter_name nchar(128); instance_name nchar(128)?; cntr_value bigint; cntr_type int";

/// A value as it is now.
const RAW: i32 = 65_792;
/// A total from which the reader computes a rate.
const PER_SECOND: i32 = 272_696_576;

struct CounterRows<'r, 'c> {
    rows: &'r mut Rows<'c>,
}

impl CounterRows<'_, '_> {
    fn add(&mut self, object: &str, counter: &str, instance: &str, value: u64, kind: i32) {
        self.rows
            .add()
            .set("object_name", format!("SQLServer:{object}"))
            .set("counter_name", counter)
            .set("instance_name", instance)
            .set("cntr_value", value)
            .set("cntr_type", kind);
    }
}

fn counters(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let instance = source.instance()?;
    let mut out = CounterRows { rows };
    general(instance, &mut out);
    let requests = instance.requests.load(std::sync::atomic::Ordering::Relaxed);
    out.add(
        "SQL Statistics",
        "Batch Requests/sec",
        "",
        requests,
        PER_SECOND,
    );
    databases(instance, &mut out);
    locks(instance, &mut out);
    let deadlocks = instance
        .deadlocks
        .load(std::sync::atomic::Ordering::Relaxed);
    out.add(
        "Locks",
        "Number of Deadlocks/sec",
        "_Total",
        deadlocks,
        PER_SECOND,
    );
    Ok(())
}

fn general(instance: &Instance, out: &mut CounterRows<'_, '_>) {
    let sessions = instance.sessions.all();
    let open = sessions
        .iter()
        .filter(|s| s.activity.lock().open_transactions > 0)
        .count();
    let blocked = sessions
        .iter()
        .filter(|s| instance.engine().blocked_by(&s.owner).is_some())
        .count();
    let general = "General Statistics";
    let connections = instance.sessions.count() as u64;
    out.add(general, "User Connections", "", connections, RAW);
    out.add("Transactions", "Transactions", "", open as u64, RAW);
    out.add(general, "Processes blocked", "", blocked as u64, RAW);
}

/// Counters of one database, in the order in which they are shown.
const DATABASE_COUNTERS: [(&str, i32); 15] = [
    ("Data File(s) Size (KB)", RAW),
    ("Log File(s) Size (KB)", RAW),
    ("Log File(s) Used Size (KB)", RAW),
    ("Percent Log Used", RAW),
    ("Active Transactions", RAW),
    ("Transactions/sec", PER_SECOND),
    ("Write Transactions/sec", PER_SECOND),
    ("Log Flushes/sec", PER_SECOND),
    ("Log Bytes Flushed/sec", PER_SECOND),
    ("Log Flush Waits/sec", PER_SECOND),
    ("Log Flush Wait Time", RAW),
    ("Log Flush Write Time (ms)", RAW),
    ("Log Growths", RAW),
    ("Log Truncations", RAW),
    ("Delayed Commits/sec", PER_SECOND),
];
const PERCENT_LOG_USED: usize = 3;

fn databases(instance: &Instance, out: &mut CounterRows<'_, '_>) {
    let mut total = [0u64; DATABASE_COUNTERS.len()];
    for entry in instance.databases() {
        let Some(values) = database_values(&entry) else {
            continue;
        };
        total
            .iter_mut()
            .zip(values)
            .for_each(|(sum, value)| *sum += value);
        add_database(out, &entry.name(), &values);
    }
    let [_, size, used, percent, ..] = &mut total;
    *percent = *used * 100 / (*size).max(1);
    add_database(out, "_Total", &total);
}

fn add_database(
    out: &mut CounterRows<'_, '_>,
    name: &str,
    values: &[u64; DATABASE_COUNTERS.len()],
) {
    for ((counter, kind), value) in DATABASE_COUNTERS.iter().zip(values) {
        out.add("Databases", counter, name, *value, *kind);
    }
}

fn database_values(entry: &Arc<DatabaseEntry>) -> Option<[u64; DATABASE_COUNTERS.len()]> {
    let storage = entry.open().ok()?.storage;
    let log = storage.log_stats();
    let data = files_of(entry).into_iter().filter(|f| !f.is_log());
    let (transactions, write_transactions) = storage.transaction_counts();
    let mut values = [
        data.map(|f| f.size_pages * 8).sum(),
        log.size_bytes / 1_024,
        log.used_bytes / 1_024,
        0,
        storage.active_transactions().len() as u64,
        transactions,
        write_transactions,
        log.flushes,
        log.flushed_bytes,
        log.commit_waits,
        log.commit_wait_ns / 1_000_000,
        log.flush_write_ns / 1_000_000,
        log.growths,
        log.truncations,
        storage.delayed_stats().total,
    ];
    if let Some(percent) = values.get_mut(PERCENT_LOG_USED) {
        *percent = log.used_bytes * 100 / log.size_bytes.max(1);
    }
    Some(values)
}

fn locks(instance: &Instance, out: &mut CounterRows<'_, '_>) {
    let stats = instance.engine().waits().stats();
    let locks = || stats.iter().filter(|s| s.kind.name().starts_with("LCK_M_"));
    for stat in locks() {
        let name = stat.kind.name();
        out.add("Locks", "Lock Waits/sec", name, stat.count, PER_SECOND);
    }
    let waits = locks().map(|s| s.count).sum();
    let time = locks().map(|s| milliseconds(s.total)).sum();
    out.add("Locks", "Lock Waits/sec", "_Total", waits, PER_SECOND);
    out.add("Locks", "Lock Wait Time (ms)", "_Total", time, PER_SECOND);
}
