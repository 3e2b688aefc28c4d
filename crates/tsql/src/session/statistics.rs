//! SET STATISTICS IO and TIME, in the product's text form (load tools read these lines).

use super::execution::Execution;
use super::fail::Step;
use crate::dml::DmlPlan;
use crate::error::SqlError;
use crate::instance::query_stats::{self, QueryStats};
use daruma_base::WaitSums;
use daruma_storage::IoCounters;
use std::sync::Arc;
use std::time::Duration;

/// Reads of one table in one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableReads {
    pub table: String,
    pub scans: u64,
    pub logical: u64,
    pub physical: u64,
}

/// Clock readings at the start of a statement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Started {
    /// `None`: nobody had asked for times yet, and two readings for every statement are not free.
    readings: Option<Readings>,
    /// Pages that the thread had touched, if reads are to be told.
    io: Option<IoCounters>,
}

#[derive(Clone, Copy, Debug)]
struct Readings {
    at: Duration,
    /// Processor time of this thread, which runs the whole statement.
    cpu: Duration,
}

pub(crate) fn count(reads: &mut Vec<TableReads>, table: &str, logical: u64, physical: u64) {
    match reads.iter_mut().find(|r| r.table == table) {
        Some(entry) => {
            entry.scans += 1;
            entry.logical += logical;
            entry.physical += physical;
        }
        None => reads.push(TableReads {
            table: table.to_string(),
            scans: 1,
            logical,
            physical,
        }),
    }
}

impl Execution<'_> {
    pub(crate) fn start_statistics(&self) -> Started {
        let (io, time) = {
            let settings = self.state.settings.borrow();
            (settings.statistics_io, settings.statistics_time)
        };
        self.written.take();
        let io = io.then(daruma_storage::thread_io);
        if !time {
            return Started { readings: None, io };
        }
        let clock = &self.state.instance.env().clock;
        Started {
            readings: Some(Readings {
                at: clock.monotonic(),
                cpu: clock.thread_cpu(),
            }),
            io,
        }
    }

    /// Processor time and time since `started`, in milliseconds.
    fn times_since(&self, started: Started) -> (u128, u128) {
        let Some(readings) = started.readings else {
            return (0, 0);
        };
        let clock = &self.state.instance.env().clock;
        let cpu = clock.thread_cpu().saturating_sub(readings.cpu);
        let elapsed = clock.monotonic().saturating_sub(readings.at);
        (cpu.as_millis(), elapsed.as_millis())
    }

    /// Pages touched to write: those that no scan has counted are of the table written to.
    fn count_writing(&self, started: Started) {
        let (Some(before), Some(table)) = (started.io, self.written.take()) else {
            return;
        };
        let now = daruma_storage::thread_io();
        let mut reads = self.reads.borrow_mut();
        let logical: u64 = reads.iter().map(|r| r.logical).sum();
        let physical: u64 = reads.iter().map(|r| r.physical).sum();
        let rest = |now: u64, before: u64, counted: u64| (now - before).saturating_sub(counted);
        let at = match reads.iter().position(|r| r.table == table) {
            Some(at) => at,
            None => {
                reads.push(TableReads {
                    table,
                    scans: 0,
                    logical: 0,
                    physical: 0,
                });
                reads.len() - 1
            }
        };
        if let Some(entry) = reads.get_mut(at) {
            entry.logical += rest(now.logical_reads, before.logical_reads, logical);
            entry.physical += rest(now.physical_reads, before.physical_reads, physical);
        }
    }

    /// Sends what the settings ask for.
    pub(crate) fn finish_statistics(&self, started: Started) -> Step<()> {
        if self.in_function() {
            return Ok(());
        }
        let (io, time) = {
            let settings = self.state.settings.borrow();
            (settings.statistics_io, settings.statistics_time)
        };
        if io {
            self.count_writing(started);
            let reads = std::mem::take(&mut *self.reads.borrow_mut());
            reads
                .iter()
                .rev()
                .try_for_each(|r| self.send_located(info(3615, &io_line(r))))?;
        }
        if time {
            let (cpu_ms, elapsed_ms) = self.times_since(started);
            self.send_located(info(3613, &time_line(cpu_ms, elapsed_ms)))?;
        }
        Ok(())
    }
}

impl Execution<'_> {
    /// The line that comes before a batch with SET STATISTICS TIME ON.
    pub(crate) fn tell_compile_time(&self, started: Started) -> Step<()> {
        if !self.state.settings.borrow().statistics_time {
            return Ok(());
        }
        let (cpu_ms, elapsed_ms) = self.times_since(started);
        let text = format!(
            "SQL Server parse and compile time: \n   CPU time = {cpu_ms} ms, elapsed time = {elapsed_ms} ms."
        );
        self.send_located(info(3612, &text))
    }
}

/// An execution of a kept plan under way.
pub(crate) struct Measured<'s> {
    stats: &'s QueryStats,
    at: Duration,
    cpu: Option<Duration>,
    io: IoCounters,
    waits: WaitSums,
}

/// An execution of a change whose commit is still to come: it counts with that.
pub(crate) struct Uncommitted {
    plan: Arc<DmlPlan>,
    execution: query_stats::Execution,
}

impl Uncommitted {
    /// Counts it; what followed it took so long and waited so long.
    pub fn note(mut self, took: Duration, waited: WaitSums) {
        let execution = &mut self.execution;
        execution.elapsed_us += u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        execution.waits = execution.waits.plus(waited);
        self.plan.stats().note(self.execution);
    }
}

impl Execution<'_> {
    pub(crate) fn measure<'s>(&self, stats: &'s QueryStats) -> Measured<'s> {
        let clock = &self.state.instance.env().clock;
        Measured {
            stats,
            at: clock.monotonic(),
            cpu: stats.wants_worker_time().then(|| clock.thread_cpu()),
            io: daruma_storage::thread_io(),
            waits: daruma_base::thread_wait_sums(),
        }
    }

    /// Counts an execution that came to its end.
    pub(crate) fn measured(&self, begun: &Measured<'_>, rows: u64) {
        begun.stats.note(self.cost(begun, rows));
    }

    /// The same for a change, which counts when it has committed where that is its own.
    pub(crate) fn measured_change(&self, begun: &Measured<'_>, plan: &Arc<DmlPlan>, rows: u64) {
        let before = self.uncommitted.replace(Some(Uncommitted {
            plan: plan.clone(),
            execution: self.cost(begun, rows),
        }));
        // One within another, by a trigger.
        if let Some(before) = before {
            before.note(Duration::ZERO, WaitSums::default());
        }
    }

    /// Counts a change that has no commit of its own.
    pub(crate) fn count_uncommitted(&self) {
        if let Some(change) = self.uncommitted.take() {
            change.note(Duration::ZERO, WaitSums::default());
        }
    }

    fn cost(&self, begun: &Measured<'_>, rows: u64) -> query_stats::Execution {
        let clock = &self.state.instance.env().clock;
        let us = |now: Duration, before| now.saturating_sub(before).as_micros() as u64;
        let io = daruma_storage::thread_io();
        query_stats::Execution {
            start: begun.at,
            elapsed_us: us(clock.monotonic(), begun.at),
            worker_us: begun.cpu.map(|before| us(clock.thread_cpu(), before)),
            logical_reads: io.logical_reads - begun.io.logical_reads,
            physical_reads: io.physical_reads - begun.io.physical_reads,
            logical_writes: io.logical_writes - begun.io.logical_writes,
            rows,
            waits: daruma_base::thread_wait_sums().since(begun.waits),
        }
    }
}

fn info(number: i32, text: &str) -> SqlError {
    SqlError::new(number, 10, 1, text)
}

fn io_line(r: &TableReads) -> String {
    format!(
        "Table '{}'. Scan count {}, logical reads {}, physical reads {}, page server reads 0, read-ahead reads 0, page server read-ahead reads 0, lob logical reads 0, lob physical reads 0, lob page server reads 0, lob read-ahead reads 0, lob page server read-ahead reads 0.",
        r.table, r.scans, r.logical, r.physical
    )
}

fn time_line(cpu_ms: u128, elapsed_ms: u128) -> String {
    format!(
        "\n SQL Server Execution Times:\n   CPU time = {cpu_ms} ms,  elapsed time = {elapsed_ms} ms."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_add_up_by_table() {
        let mut reads = Vec::new();
        count(&mut reads, "t", 3, 1);
        count(&mut reads, "u", 2, 0);
        count(&mut reads, "t", 4, 0);
        assert_eq!(
            reads[0],
            TableReads {
                table: "t".into(),
                scans: 2,
                logical: 7,
                physical: 1
            }
        );
        assert!(
            io_line(&reads[1])
                .starts_with("Table 'u'. Scan count 1, logical reads 2, physical reads 0,")
        );
        assert_eq!(
            time_line(1, 22),
            "\n SQL Server Execution Times:\n   CPU time = 1 ms,  elapsed time = 22 ms."
        );
    }
}
