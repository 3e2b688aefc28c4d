//! The figures of a tick: what is sampled every second, its unit, and which way is better.
//!
//! Theory: a counter is a running total at the server. What is kept is its difference over a tick, never a rate, so that
//! sums over any stretch are exact; a rate is made where it is shown, as sum of differences by sum of time. A gauge is kept as read;
//! its average over a stretch weighs each reading by its time.
//!
//! Invariant: the order is that of the columns in the repository. A figure is added at the end, and none is taken away.

/// How a figure is made of what the server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A running total; kept as difference.
    Counter,
    /// A value as it is now.
    Gauge,
}

/// Which way a difference between two stretches is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Lower,
    Higher,
    Neutral,
}

impl Better {
    /// The word that the page knows it by.
    pub const fn name(self) -> &'static str {
        match self {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neutral => "neutral",
        }
    }
}

/// A figure of a tick.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Name of its column, and of the figure in the interface of the page.
    pub name: &'static str,
    pub title: &'static str,
    /// Of a counter: the unit of a second's difference.
    pub unit: &'static str,
    pub kind: Kind,
    pub better: Better,
    /// A change smaller than this is not worth a per cent.
    pub floor: f64,
}

const fn counter(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    better: Better,
) -> Figure {
    Figure {
        name,
        title,
        unit,
        kind: Kind::Counter,
        better,
        floor: 0.1,
    }
}

const fn wait(name: &'static str, title: &'static str) -> Figure {
    Figure {
        name,
        title,
        unit: "ms/s",
        kind: Kind::Counter,
        better: Better::Lower,
        floor: 1.0,
    }
}

const fn gauge(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    better: Better,
) -> Figure {
    Figure {
        name,
        title,
        unit,
        kind: Kind::Gauge,
        better,
        floor: 0.01,
    }
}

use Better::{Lower, Neutral};

/// All figures, in the order of their columns.
pub const FIGURES: [Figure; 53] = [
    wait("wait_cpu", "Waits: processor"),
    wait("wait_threads", "Waits: no worker left"),
    wait("wait_lock", "Waits: locks"),
    wait("wait_log", "Waits: log"),
    wait("wait_data_read", "Waits: data reads"),
    wait("wait_other_disk", "Waits: other disk"),
    wait("wait_latch", "Waits: latches"),
    wait("wait_memory", "Waits: memory"),
    wait("wait_network", "Waits: network"),
    wait("wait_parallel", "Waits: parallel plans"),
    wait("wait_replica", "Waits: replicas"),
    wait("wait_transaction", "Waits: version store and transactions"),
    wait("wait_other", "Waits: other"),
    counter("cpu_ms", "Processor of the server", "ms/s", Neutral),
    counter(
        "session_cpu_ms",
        "Processor of the monitor's session",
        "ms/s",
        Neutral,
    ),
    counter(
        "monitor_cpu_ms",
        "Processor of the monitor, for this server",
        "ms/s",
        Neutral,
    ),
    gauge("memory_bytes", "Memory of the server", "B", Neutral),
    gauge("memory_target_bytes", "Memory target", "B", Neutral),
    gauge("sessions_running", "Sessions running", "", Neutral),
    gauge("sessions_sleeping", "Sessions sleeping", "", Neutral),
    gauge("blocked", "Blocked sessions", "", Lower),
    gauge("blocked_longest_ms", "Longest block", "ms", Lower),
    gauge(
        "open_transactions",
        "Sessions in a transaction",
        "",
        Neutral,
    ),
    counter("batches", "Batches", "/s", Neutral),
    counter("compilations", "Compilations", "/s", Neutral),
    counter("transactions", "Transactions", "/s", Neutral),
    counter("write_transactions", "Writing transactions", "/s", Neutral),
    counter("delayed_commits", "Delayed commits", "/s", Neutral),
    counter("log_flushes", "Log flushes", "/s", Lower),
    counter("log_bytes", "Log written", "B/s", Neutral),
    counter("log_flush_ms", "Time in log flushes", "ms/s", Lower),
    counter("commit_waits", "Commits that waited", "/s", Neutral),
    counter("commit_wait_ms", "Time commits waited", "ms/s", Lower),
    counter("data_reads", "Data file reads", "/s", Neutral),
    counter("data_read_bytes", "Data read", "B/s", Neutral),
    counter("data_read_ms", "Time in data file reads", "ms/s", Lower),
    counter("data_writes", "Data file writes", "/s", Neutral),
    counter("data_write_bytes", "Data written", "B/s", Neutral),
    counter("data_write_ms", "Time in data file writes", "ms/s", Lower),
    counter("lock_waits", "Lock waits", "/s", Lower),
    counter("deadlocks", "Deadlocks", "/s", Lower),
    gauge("version_store_bytes", "Version store", "B", Neutral),
    gauge("version_pin_ms", "Oldest keeper of versions", "ms", Lower),
    gauge("risk_commits", "Commits at risk", "", Lower),
    gauge("risk_bytes", "Log at risk", "B", Lower),
    gauge("risk_age_ms", "Oldest commit at risk", "ms", Lower),
    gauge("log_used_percent", "Log used", "%", Neutral),
    counter("log_growths", "Log growths", "/s", Lower),
    gauge("backup_percent", "Backup or restore", "%", Neutral),
    gauge("send_queue_bytes", "Send queue of replicas", "B", Lower),
    gauge("redo_queue_bytes", "Redo queue of replicas", "B", Lower),
    gauge("replica_lag_ms", "Lag of replicas", "ms", Lower),
    gauge("answer_ms", "Answer time of the sample", "ms", Neutral),
];

/// Number of figures.
pub const COUNT: usize = FIGURES.len();

/// Place of the figure of this name.
pub fn index(name: &str) -> Option<usize> {
    FIGURES.iter().position(|figure| figure.name == name)
}

/// Values of all figures; NaN stands for a figure that the server does not have or that could not be read.
#[derive(Clone, Copy, Debug)]
pub struct Values(pub [f64; COUNT]);

impl Default for Values {
    fn default() -> Values {
        Values([f64::NAN; COUNT])
    }
}

impl Values {
    /// The value of a figure, `None` where it is absent.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.at(index(name)?)
    }

    /// The same by place.
    pub fn at(&self, index: usize) -> Option<f64> {
        self.0.get(index).copied().filter(|value| !value.is_nan())
    }

    /// Sets a figure; a name that is not one is a mistake of the program.
    pub fn set(&mut self, name: &str, value: f64) {
        let index = index(name);
        assert!(index.is_some(), "'{name}' is no figure");
        if let Some(slot) = index.and_then(|index| self.0.get_mut(index)) {
            *slot = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_columns_and_unique() {
        for (at, figure) in FIGURES.iter().enumerate() {
            assert_eq!(index(figure.name), Some(at), "{}", figure.name);
            assert!(
                figure
                    .name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c == '_')
            );
        }
    }

    #[test]
    fn a_figure_that_was_not_read_is_absent() {
        let mut values = Values::default();
        assert_eq!(values.get("blocked"), None);
        values.set("blocked", 0.0);
        assert_eq!(values.get("blocked"), Some(0.0));
    }
}
