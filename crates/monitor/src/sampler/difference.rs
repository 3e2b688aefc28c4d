//! From two readings of a server to a tick.
//!
//! | between the readings | what the tick holds |
//! |---|---|
//! | the same start of the server | differences over the time that the server's own clock measured |
//! | another start | the totals themselves, over the time since that start; an event says so |
//! | the same start, a total fell | no difference for that figure; an event says that statistics were cleared |
//! | more than three seconds, or three intervals | differences in a tick marked as a span: right in sums, no point of a line |
//!
//! Invariant: no difference is negative, and none is invented.

use super::reading::{Reading, Wait};
use crate::figures::{COUNT, FIGURES, Kind, Values};
use crate::waits;
use serde::Serialize;

/// The answer came late; the time of the tick is the real one.
pub const LATE: u8 = 1;
/// The tick covers a hole: its sums count, its rate is not drawn.
pub const SPAN: u8 = 2;
/// The first tick after a start of the server.
pub const RESTARTED: u8 = 4;

/// Longest time between two readings that is drawn as a point.
const HOLE_MS: i64 = 3_000;

/// Waits of a type over a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitDelta {
    pub wait_type: String,
    pub wait: Wait,
}

/// Something that happened at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// UTC, ms.
    pub at: i64,
    /// UTC, ms; `None` for a moment.
    pub until: Option<i64>,
    pub kind: String,
    pub severity: u8,
    pub words: String,
}

impl Event {
    /// A moment of ordinary weight.
    pub fn new(at: i64, kind: &str, words: impl Into<String>) -> Event {
        Event {
            at,
            until: None,
            kind: kind.into(),
            severity: 10,
            words: words.into(),
        }
    }
}

/// Figures of a server over a second or so.
#[derive(Clone, Debug)]
pub struct Tick {
    /// The end of the tick: UTC, ms.
    pub at: i64,
    /// Start of the server: UTC, ms.
    pub boot: i64,
    pub dt_ms: i64,
    pub flags: u8,
    pub values: Values,
    pub waits: Vec<WaitDelta>,
}

/// The tick between two readings, and what was noticed. `None` when no time passed.
pub fn tick(before: &Reading, now: &Reading, interval_ms: i64) -> Option<(Tick, Vec<Event>)> {
    let restarted = now.started.abs_diff(before.started) > 1_000;
    let (dt_ms, flag) = match restarted {
        true => (now.utc - now.started, RESTARTED),
        false => (now.ms_ticks - before.ms_ticks, 0),
    };
    if dt_ms <= 0 {
        return None;
    }
    let mut flags = flag;
    if dt_ms > HOLE_MS.max(3 * interval_ms) {
        flags |= SPAN;
    }
    let mut events = Vec::new();
    let mut cleared = false;
    let mut values = now.gauges;
    for (index, figure) in FIGURES.iter().enumerate().take(COUNT) {
        if figure.kind == Kind::Gauge {
            continue;
        }
        let total = |reading: &Reading| reading.totals.get(index).copied().flatten();
        let base = if restarted { Some(0) } else { total(before) };
        if let (Some(now), Some(base), Some(slot)) = (total(now), base, values.0.get_mut(index)) {
            match now.checked_sub(base) {
                Some(difference) if difference >= 0 => *slot = difference as f64,
                // Sessions of ours that ended are no sign of anything.
                _ => cleared |= figure.name != "session_cpu_ms",
            }
        }
    }
    let (waits, fell) = wait_differences(before, now, restarted);
    classes(&waits, now, &mut values);
    if restarted {
        events.push(started(now.started));
    } else if cleared || fell {
        events.push(Event::new(
            now.utc,
            "cleared",
            "Statistics of the server were cleared; the figures concerned have no value here.",
        ));
    }
    let tick = Tick {
        at: now.utc,
        boot: now.started,
        dt_ms,
        flags,
        values,
        waits,
    };
    Some((tick, events))
}

/// The event of a start of the server: UTC, ms.
pub fn started(at: i64) -> Event {
    Event::new(at, "restart", "The server started.")
}

fn wait_differences(before: &Reading, now: &Reading, restarted: bool) -> (Vec<WaitDelta>, bool) {
    // Every type that ever waited is told each time: one that is gone was cleared, and has not waited since.
    let gone = |wait_type: &String| !now.waits.contains_key(wait_type);
    let mut fell = !restarted && before.waits.keys().any(gone);
    let mut deltas = Vec::new();
    for (wait_type, total) in &now.waits {
        let base = match before.waits.get(wait_type) {
            Some(base) if !restarted => *base,
            _ => Wait::default(),
        };
        let part = |now: i64, base: i64| now.checked_sub(base).filter(|d| *d >= 0);
        let wait = match (part(total.tasks, base.tasks), part(total.ms, base.ms)) {
            (Some(tasks), Some(ms)) => Wait {
                tasks,
                ms,
                signal_ms: part(total.signal_ms, base.signal_ms).unwrap_or(0),
            },
            _ => {
                fell = true;
                continue;
            }
        };
        if wait != Wait::default() {
            deltas.push(WaitDelta {
                wait_type: wait_type.clone(),
                wait,
            });
        }
    }
    (deltas, fell)
}

/// Time by class. Where waits were read at all, a class without any waited 0 ms.
fn classes(deltas: &[WaitDelta], now: &Reading, values: &mut Values) {
    if now.waits.is_empty() {
        return;
    }
    for class in waits::Class::ALL {
        let of_class = deltas
            .iter()
            .filter(|d| !waits::is_idle(&d.wait_type) && waits::class(&d.wait_type) == class);
        let ms: i64 = of_class.map(|d| d.wait.ms).sum();
        values.set(class.figure(), ms as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures;

    fn reading(ticks: i64, flushes: i64, log_ms: i64) -> Reading {
        let mut reading = Reading {
            ms_ticks: ticks,
            utc: 1_000_000 + ticks,
            started: 1_000_000,
            ..Reading::default()
        };
        reading.totals[figures::index("log_flushes").expect("a figure")] = Some(flushes);
        let wait = Wait {
            tasks: flushes,
            ms: log_ms,
            signal_ms: 0,
        };
        reading.waits.insert("WRITELOG".into(), wait);
        reading.waits.insert("SLEEP_TASK".into(), wait);
        reading
    }

    #[test]
    fn differences_over_the_servers_own_time() {
        let (tick, events) =
            tick(&reading(1_000, 10, 50), &reading(2_010, 35, 90), 1_000).expect("time passed");
        assert_eq!((tick.dt_ms, tick.flags), (1_010, 0));
        assert_eq!(tick.values.get("log_flushes"), Some(25.0));
        assert_eq!(tick.values.get("wait_log"), Some(40.0));
        assert_eq!(tick.values.get("wait_lock"), Some(0.0));
        assert_eq!(tick.values.get("batches"), None, "absent, not 0");
        assert_eq!(tick.values.get("wait_other"), Some(0.0), "idle is left out");
        assert_eq!(events, []);
    }

    #[test]
    fn a_restart_counts_from_its_start_and_says_so() {
        let mut now = reading(400, 7, 3);
        now.started = 9_000_000;
        now.utc = 9_000_400;
        let (tick, events) = tick(&reading(50_000, 1_000, 900), &now, 1_000).expect("time passed");
        assert_eq!((tick.dt_ms, tick.flags), (400, RESTARTED));
        assert_eq!(tick.values.get("log_flushes"), Some(7.0));
        assert_eq!(events[0].kind, "restart");
        assert_eq!(events[0].at, 9_000_000);
    }

    #[test]
    fn cleared_statistics_have_no_difference() {
        let (tick, events) =
            tick(&reading(1_000, 500, 900), &reading(2_000, 3, 1), 1_000).expect("time passed");
        assert_eq!(tick.values.get("log_flushes"), None);
        assert_eq!(tick.values.get("wait_log"), Some(0.0));
        assert!(tick.waits.is_empty());
        assert_eq!(events[0].kind, "cleared");
    }

    #[test]
    fn waits_that_were_cleared_and_did_not_come_again_are_told() {
        let mut now = reading(2_000, 500, 900);
        now.waits.remove("WRITELOG");
        let (tick, events) = tick(&reading(1_000, 500, 900), &now, 1_000).expect("time passed");
        assert!(tick.waits.is_empty());
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].kind, "cleared");
    }

    #[test]
    fn totals_near_their_end_and_a_hole() {
        let mut before = reading(1_000, i64::MAX - 10, i64::MAX - 5);
        let now = reading(31_000, i64::MAX, i64::MAX);
        let (tick, _) = tick(&before, &now, 1_000).expect("time passed");
        assert_eq!(tick.flags, SPAN);
        assert_eq!(tick.values.get("log_flushes"), Some(10.0));
        assert_eq!(tick.values.get("wait_log"), Some(5.0));
        before.ms_ticks = 31_000;
        assert!(super::tick(&before, &now, 1_000).is_none());
    }
}
