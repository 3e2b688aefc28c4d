//! Ticks gathered into the rows of the coarser levels.
//!
//! Invariants
//! 1. The sum of a counter over a bucket is the sum over its ticks; least and most are those of its ticks' rates.
//! 2. A gauge is the mean of its readings, each by its time; least and most are those of its readings.
//! 3. A figure that no tick had is absent.

use super::levels::{LEVELS, Level};
use crate::figures::{COUNT, FIGURES, Kind};
use crate::sampler::difference::{SPAN, Tick};

/// A row of a level: a tick, or many.
#[derive(Clone, Debug)]
pub struct Row {
    /// End of the tick, or start of the bucket: UTC, ms.
    pub at: i64,
    pub is_bucket: bool,
    pub ticks: i64,
    pub dt_ms: i64,
    pub flags: u8,
    /// Sum of differences, or mean.
    pub value: [f64; COUNT],
    pub min: [f64; COUNT],
    pub max: [f64; COUNT],
}

impl Row {
    /// A tick as a row of its own.
    pub fn of(tick: &Tick) -> Row {
        let rates = rates(&tick.values.0, tick.dt_ms);
        Row {
            at: tick.at,
            is_bucket: false,
            ticks: 1,
            dt_ms: tick.dt_ms,
            flags: tick.flags,
            value: tick.values.0,
            min: rates,
            max: rates,
        }
    }

    /// The figure as shown: a rate by second of a counter, the mean of a gauge.
    pub fn shown(&self, index: usize) -> f64 {
        let value = self.value.get(index).copied().unwrap_or(f64::NAN);
        match FIGURES.get(index).map(|f| f.kind) {
            Some(Kind::Counter) => value * 1_000.0 / self.dt_ms as f64,
            _ => value,
        }
    }
}

fn rates(values: &[f64; COUNT], dt_ms: i64) -> [f64; COUNT] {
    let mut rates = *values;
    for (rate, figure) in rates.iter_mut().zip(FIGURES) {
        if figure.kind == Kind::Counter {
            *rate *= 1_000.0 / dt_ms as f64;
        }
    }
    rates
}

/// A bucket being filled.
#[derive(Clone, Debug)]
pub struct Bucket {
    row: Row,
    /// Time over which each figure was there.
    weight: [f64; COUNT],
}

impl Bucket {
    fn new(at: i64) -> Bucket {
        Bucket {
            row: Row {
                at,
                is_bucket: true,
                ticks: 0,
                dt_ms: 0,
                flags: 0,
                value: [f64::NAN; COUNT],
                min: [f64::NAN; COUNT],
                max: [f64::NAN; COUNT],
            },
            weight: [0.0; COUNT],
        }
    }

    fn add(&mut self, row: &Row) {
        self.row.ticks += row.ticks;
        self.row.dt_ms += row.dt_ms;
        // A bucket with a hole has points all the same; its coverage tells.
        self.row.flags |= row.flags & !SPAN;
        for (index, figure) in FIGURES.iter().enumerate() {
            let of = |values: &[f64; COUNT]| values.get(index).copied().unwrap_or(f64::NAN);
            let value = of(&row.value);
            if value.is_nan() {
                continue;
            }
            let (Some(sum), Some(weight)) =
                (self.row.value.get_mut(index), self.weight.get_mut(index))
            else {
                continue;
            };
            let dt = row.dt_ms as f64;
            let known = if sum.is_nan() { 0.0 } else { *sum };
            *sum = match figure.kind {
                Kind::Counter => known + value,
                Kind::Gauge => (known * *weight + value * dt) / (*weight + dt),
            };
            *weight += dt;
            if let Some(min) = self.row.min.get_mut(index) {
                *min = min.min(of(&row.min));
            }
            if let Some(max) = self.row.max.get_mut(index) {
                *max = max.max(of(&row.max));
            }
        }
    }
}

/// The open bucket of each level above the ticks, for one server.
#[derive(Clone, Debug, Default)]
pub struct Rollup {
    open: [Option<Bucket>; LEVELS.len()],
}

impl Rollup {
    /// Adds a row to every level above the first; gives the rows of buckets that are complete with their level.
    pub fn add(&mut self, row: &Row) -> Vec<(Level, Row)> {
        let mut complete = Vec::new();
        for (level, open) in LEVELS.iter().zip(&mut self.open).skip(1) {
            complete.extend(add_to(*level, open, row).map(|row| (*level, row)));
        }
        complete
    }

    /// Adds a row to one level alone, as when buckets are made again after a stop.
    pub fn add_at(&mut self, level: Level, row: &Row) -> Option<Row> {
        let at = LEVELS.iter().position(|l| *l == level)?;
        add_to(level, self.open.get_mut(at)?, row)
    }
}

fn add_to(level: Level, open: &mut Option<Bucket>, row: &Row) -> Option<Row> {
    let start = match row.is_bucket {
        false => level.bucket(row.at),
        // A row of a finer level begins where it says.
        true => level.bucket(row.at + 1),
    };
    let complete = match open {
        Some(bucket) if bucket.row.at != start => open.take().map(|bucket| bucket.row),
        _ => None,
    };
    open.get_or_insert_with(|| Bucket::new(start)).add(row);
    complete
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Values, index};

    fn tick(at: i64, flushes: f64, blocked: f64) -> Row {
        let mut values = Values::default();
        values.set("log_flushes", flushes);
        values.set("blocked", blocked);
        Row::of(&Tick {
            at,
            boot: 0,
            dt_ms: 1_000,
            flags: 0,
            values,
            waits: Vec::new(),
        })
    }

    #[test]
    fn sums_agree_on_every_level() {
        let mut rollup = Rollup::default();
        let (flushes, blocked) = (
            index("log_flushes").expect("a figure"),
            index("blocked").expect("a figure"),
        );
        let mut sums = [0.0; LEVELS.len()];
        let mut most: f64 = 0.0;
        for second in 1..=7_201 {
            let count = f64::from(second % 17);
            if second <= 7_200 {
                sums[0] += count;
                most = most.max(count);
            }
            for (level, row) in rollup.add(&tick(i64::from(second) * 1_000, count, 2.0)) {
                let at = LEVELS.iter().position(|l| *l == level).expect("a level");
                sums[at] += row.value[flushes];
                assert_eq!(row.value[blocked], 2.0);
                assert_eq!(row.dt_ms, level.step_ms);
                assert!(row.value[0].is_nan(), "a figure that no tick had");
                if level.step_ms >= 60_000 {
                    assert_eq!((row.min[flushes], row.max[flushes]), (0.0, most));
                }
            }
        }
        assert_eq!(sums[..5], [sums[0]; 5]);
    }

    #[test]
    fn rows_of_minutes_make_the_hour_again() {
        let (mut whole, mut again) = (Rollup::default(), Rollup::default());
        let hour = LEVELS[4];
        let flushes = index("log_flushes").expect("a figure");
        let mut expected = None;
        let mut made = None;
        for second in 1..=3_601 {
            for (level, row) in whole.add(&tick(second * 1_000, second as f64, 0.0)) {
                if level.table == "tick_1m" {
                    made = again.add_at(hour, &row).or(made);
                }
                if level == hour {
                    expected = Some(row);
                }
            }
        }
        // The hour that is made again ends with the first minute of the next.
        assert!(made.is_none());
        for second in 3_602..=3_661 {
            for (level, row) in whole.add(&tick(second * 1_000, second as f64, 0.0)) {
                if level.table == "tick_1m" {
                    made = again.add_at(hour, &row).or(made);
                }
            }
        }
        let (expected, made) = (expected.expect("an hour"), made.expect("an hour"));
        assert_eq!(
            (expected.at, expected.value[flushes], expected.max[flushes]),
            (made.at, made.value[flushes], made.max[flushes])
        );
    }
}
