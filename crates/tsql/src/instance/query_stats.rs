//! Cost of the executions of a kept plan: `sys.dm_exec_query_stats`.
//!
//! Theory: the figures live in the plan and go with it, so the bound on cached plans bounds them. An execution takes two
//! readings of the clock and one short lock. Reading a thread's processor time is a system call, too expensive for a point
//! query or a small change, however long it waits for the disk: statements that need little processor time are measured one
//! time in sixteen, and the others count with the mean of those measured. A change that is its own transaction counts when its
//! commit is through, with the time and the wait of that.

use daruma_base::WaitSums;
use parking_lot::Mutex;
use std::time::Duration;

/// Of short statements one execution in so many is measured.
const MEASURED_EVERY: u64 = 16;
/// Statements that need more processor time on the average are measured always.
const SHORT_US: u64 = 100;

/// Total, last, smallest and largest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    pub total: u64,
    pub last: u64,
    pub min: u64,
    pub max: u64,
}

/// Figures of one plan. Times are in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueryFigures {
    pub executions: u64,
    /// On the monotonic clock.
    pub last_start: Duration,
    pub worker_us: Figure,
    pub elapsed_us: Figure,
    pub logical_reads: Figure,
    pub physical_reads: Figure,
    pub logical_writes: Figure,
    pub rows: Figure,
    /// Of all executions, in ns.
    pub waits: WaitSums,
    measured: u64,
    measured_us: u64,
}

/// Cost of one execution.
#[derive(Clone, Copy, Debug, Default)]
pub struct Execution {
    pub start: Duration,
    pub elapsed_us: u64,
    /// `None`: not measured.
    pub worker_us: Option<u64>,
    pub logical_reads: u64,
    pub physical_reads: u64,
    pub logical_writes: u64,
    pub rows: u64,
    pub waits: WaitSums,
}

/// Cost of all executions of one statement, shared by the sessions that run it.
#[derive(Debug)]
pub struct QueryStats {
    pub created_utc: i64,
    figures: Mutex<QueryFigures>,
}

impl QueryStats {
    /// Without an execution; `created_utc` is `creation_time` of the view.
    pub fn new(created_utc: i64) -> QueryStats {
        QueryStats {
            created_utc,
            figures: Mutex::default(),
        }
    }

    /// Sums, extremes and last values up to now.
    pub fn figures(&self) -> QueryFigures {
        *self.figures.lock()
    }

    /// Is the processor time of the next execution to be measured?
    pub fn wants_worker_time(&self) -> bool {
        let figures = self.figures.lock();
        figures.executions.is_multiple_of(MEASURED_EVERY)
            || figures.measured_us >= SHORT_US * figures.measured
    }

    /// Adds one execution.
    pub fn note(&self, execution: Execution) {
        self.figures.lock().note(execution);
    }
}

impl QueryFigures {
    fn note(&mut self, execution: Execution) {
        let worker = match execution.worker_us {
            Some(measured) => {
                self.measured += 1;
                self.measured_us += measured;
                measured
            }
            None => (self.measured_us / self.measured.max(1)).min(execution.elapsed_us),
        };
        self.last_start = execution.start;
        let first = self.executions == 0;
        self.executions += 1;
        self.worker_us.note(worker, first);
        self.elapsed_us.note(execution.elapsed_us, first);
        self.logical_reads.note(execution.logical_reads, first);
        self.physical_reads.note(execution.physical_reads, first);
        self.logical_writes.note(execution.logical_writes, first);
        self.rows.note(execution.rows, first);
        self.waits = self.waits.plus(execution.waits);
    }
}

impl Figure {
    fn note(&mut self, value: u64, first: bool) {
        self.total += value;
        self.last = value;
        self.min = if first { value } else { self.min.min(value) };
        self.max = self.max.max(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_add_up() {
        let stats = QueryStats::new(0);
        assert!(stats.wants_worker_time());
        for (elapsed_us, worker_us, rows) in [(10, Some(8), 3), (30, None, 1), (20, None, 2)] {
            stats.note(Execution {
                elapsed_us,
                worker_us,
                rows,
                ..Execution::default()
            });
        }
        assert!(!stats.wants_worker_time());
        let figures = stats.figures();
        assert_eq!(figures.executions, 3);
        let elapsed = Figure {
            total: 60,
            last: 20,
            min: 10,
            max: 30,
        };
        assert_eq!(figures.elapsed_us, elapsed);
        assert_eq!(figures.worker_us.total, 24);
        assert_eq!((figures.rows.min, figures.rows.max), (1, 3));
        // Long waits are no reason to measure each time, long work is.
        stats.note(Execution {
            elapsed_us: 10_000,
            ..Execution::default()
        });
        assert!(!stats.wants_worker_time());
        stats.note(Execution {
            elapsed_us: 10_000,
            worker_us: Some(9_000),
            ..Execution::default()
        });
        assert!(stats.wants_worker_time());
    }
}
