//! Levels of detail: seconds, ten seconds, minutes, ten minutes, hours, days.
//!
//! Theory: each level is a table of the same shape; a range is read from the coarsest one that still has enough points for a
//! screen. The rows of a level are made in memory from the ticks as they pass, not from the level below.

/// A table of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub table: &'static str,
    pub step_ms: i64,
    /// How long its rows are kept unless the settings say otherwise.
    pub keep_days: i64,
    /// Widest range that is read from it.
    reach_ms: i64,
}

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The levels, the finest first. The first holds the ticks themselves.
pub const LEVELS: [Level; 6] = [
    level("tick_1s", SECOND, 3, 4_000 * SECOND),
    level("tick_10s", 10 * SECOND, 14, 400 * MINUTE),
    level("tick_1m", MINUTE, 90, 4_000 * MINUTE),
    level("tick_10m", 10 * MINUTE, 400, 400 * HOUR),
    level("tick_1h", HOUR, 1_095, 4_000 * HOUR),
    level("tick_1d", DAY, 3_650, i64::MAX),
];

/// Waits by type: seconds, minutes, hours.
pub const WAIT_LEVELS: [Level; 3] = [
    level("wait_1s", SECOND, 3, 2 * HOUR),
    level("wait_1m", MINUTE, 90, 7 * DAY),
    level("wait_1h", HOUR, 1_095, i64::MAX),
];

const fn level(table: &'static str, step_ms: i64, keep_days: i64, reach_ms: i64) -> Level {
    Level {
        table,
        step_ms,
        keep_days,
        reach_ms,
    }
}

impl Level {
    /// Start of the bucket that a moment belongs to; its end belongs to it, its start to the one before.
    pub const fn bucket(&self, at: i64) -> i64 {
        (at - 1).div_euclid(self.step_ms) * self.step_ms
    }
}

/// The level to read a range from: enough points, and old enough rows.
pub fn choose(levels: &[Level], from: i64, to: i64, now: i64) -> Level {
    let fits = |level: &&Level| to - from <= level.reach_ms && from >= now - level.keep_days * DAY;
    let last = levels.last().copied();
    levels
        .iter()
        .find(fits)
        .copied()
        .or(last)
        .unwrap_or(LEVELS[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_choose_their_level() {
        let now = 1_000 * DAY;
        let of = |width: i64| choose(&LEVELS, now - width, now, now).table;
        assert_eq!(of(HOUR), "tick_1s");
        assert_eq!(of(6 * HOUR), "tick_10s");
        assert_eq!(of(DAY), "tick_1m");
        assert_eq!(of(7 * DAY), "tick_10m");
        assert_eq!(of(90 * DAY), "tick_1h");
        assert_eq!(of(900 * DAY), "tick_1d");
        let old = choose(&LEVELS, now - 30 * DAY, now - 30 * DAY + HOUR, now);
        assert_eq!(old.table, "tick_1m", "seconds of that time are gone");
    }

    #[test]
    fn a_tick_belongs_to_the_bucket_it_ends_in() {
        let ten = LEVELS[1];
        assert_eq!(ten.bucket(10_000), 0);
        assert_eq!(ten.bucket(10_001), 10_000);
        assert_eq!(ten.bucket(1), 0);
    }
}
