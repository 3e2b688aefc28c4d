//! Waits and log flushes of a stretch of work: readings before and after, subtracted.

use super::super::LabError;
use crate::sql::{Ask, quoted};
use daruma_client::client::Client;
use serde::Serialize;
use std::collections::BTreeMap;

/// Waits for the disk, as the article's tool groups them.
const DISK: [&str; 6] = [
    "WRITELOG",
    "LOGBUFFER",
    "IO_COMPLETION",
    "ASYNC_IO_COMPLETION",
    "WRITE_COMPLETION",
    "LOGMGR",
];
const LOG: [&str; 2] = ["WRITELOG", "LOGBUFFER"];

/// Counters of waits and flushes at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reading {
    /// Milliseconds by wait type.
    waits_ms: BTreeMap<String, f64>,
    counts: BTreeMap<String, f64>,
    pub flushes: f64,
    pub flushed_bytes: f64,
}

impl Reading {
    /// Asks the server for them; flushes are those of this database.
    pub fn take(client: &mut Client, database: &str) -> Result<Reading, LabError> {
        let mut reading = Reading::default();
        let rows = client.table(
            "SELECT wait_type, CAST(wait_time_ms AS bigint), CAST(waiting_tasks_count AS bigint) FROM sys.dm_os_wait_stats",
        )?;
        for row in rows {
            let [name, ms, count] = row.as_slice() else {
                continue;
            };
            reading
                .waits_ms
                .insert(name.clone(), ms.parse().unwrap_or(0.0));
            reading
                .counts
                .insert(name.clone(), count.parse().unwrap_or(0.0));
        }
        reading.flushes = counter(client, database, "Log Flushes/sec")?;
        reading.flushed_bytes = counter(client, database, "Log Bytes Flushed/sec")?;
        Ok(reading)
    }

    /// What happened since an earlier reading.
    pub fn since(&self, before: &Reading) -> Reading {
        let minus = |now: &BTreeMap<String, f64>, then: &BTreeMap<String, f64>| {
            now.iter()
                .map(|(name, value)| (name.clone(), value - then.get(name).copied().unwrap_or(0.0)))
                .filter(|(_, value)| *value > 0.0)
                .collect()
        };
        Reading {
            waits_ms: minus(&self.waits_ms, &before.waits_ms),
            counts: minus(&self.counts, &before.counts),
            flushes: self.flushes - before.flushes,
            flushed_bytes: self.flushed_bytes - before.flushed_bytes,
        }
    }

    /// Time that sessions waited for the log, in ms.
    pub fn log_ms(&self) -> f64 {
        LOG.iter().filter_map(|name| self.waits_ms.get(*name)).sum()
    }

    /// Time that anything waited for a disk, in ms.
    pub fn disk_ms(&self) -> f64 {
        let is_disk = |name: &str| DISK.contains(&name) || name.starts_with("PAGEIOLATCH");
        self.waits_ms
            .iter()
            .filter(|(name, _)| is_disk(name))
            .map(|(_, ms)| ms)
            .sum()
    }

    /// How many times a session waited for the log.
    pub fn log_waits(&self) -> f64 {
        LOG.iter().filter_map(|name| self.counts.get(*name)).sum()
    }
}

fn counter(client: &mut Client, database: &str, name: &str) -> Result<f64, LabError> {
    let value = client.number(&format!(
        "SELECT cntr_value FROM sys.dm_os_performance_counters WHERE RTRIM(counter_name) = {} AND RTRIM(instance_name) = {}",
        quoted(name),
        quoted(database)
    ))?;
    Ok(value.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(waits: &[(&str, f64)], flushes: f64) -> Reading {
        let waits: BTreeMap<_, _> = waits.iter().map(|(n, v)| ((*n).to_string(), *v)).collect();
        Reading {
            counts: waits.clone(),
            waits_ms: waits,
            flushes,
            flushed_bytes: 0.0,
        }
    }

    #[test]
    fn differences_by_group() {
        let before = reading(&[("WRITELOG", 10.0), ("LCK_M_X", 5.0)], 3.0);
        let after = reading(
            &[
                ("WRITELOG", 110.0),
                ("LCK_M_X", 5.0),
                ("PAGEIOLATCH_SH", 7.0),
                ("LOGBUFFER", 1.0),
            ],
            53.0,
        );
        let between = after.since(&before);
        assert_eq!(between.log_ms(), 101.0);
        assert_eq!(between.disk_ms(), 108.0);
        assert_eq!(between.flushes, 50.0);
    }
}
