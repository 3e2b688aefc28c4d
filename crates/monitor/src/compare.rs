//! A stretch in figures, and two stretches side by side.
//!
//! Theory: neighbouring seconds are not independent, so that the scatter of single seconds says little about a difference. Means of
//! blocks of a minute are drawn again, some in a row at a time (moving blocks), 2,000 times with a fixed seed; the middle 95 per
//! cent of the differences is the interval that is shown. Across 0, it is called no difference. With fewer than ten
//! blocks on a side it is too short to judge.
//!
//! A figure that is a rate is also shown as a total: two stretches of different length differ in both, and not alike.

use crate::figures::{Better, FIGURES, Kind};
use crate::repository::read::Stretch;
use crate::repository::rollup::Row;
use serde::Serialize;

const BLOCK_MS: i64 = 60_000;
const BLOCKS_MIN: usize = 10;
const DRAWS: usize = 2_000;

/// What a figure was over a stretch. Rates by second of counters, values of gauges.
#[derive(Clone, Debug, Serialize)]
pub struct FigureSummary {
    pub name: String,
    pub title: &'static str,
    pub unit: &'static str,
    pub better: &'static str,
    pub is_counter: bool,
    pub n: usize,
    /// Sum of differences; none of a gauge.
    pub total: Option<f64>,
    pub average: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub deviation: Option<f64>,
    pub p95: Option<f64>,
    #[serde(skip)]
    blocks: Vec<f64>,
}

/// All figures of a stretch.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub from: i64,
    pub to: i64,
    /// Step of the samples that deviation and percentile were taken of.
    pub step_ms: i64,
    /// Time for which there are samples.
    pub covered_ms: i64,
    pub samples: usize,
    pub figures: Vec<FigureSummary>,
}

/// Sums a stretch up.
pub fn summary(stretch: &Stretch, from: i64, to: i64) -> Summary {
    let rows = &stretch.rows;
    let figures = FIGURES
        .iter()
        .enumerate()
        .map(|(index, figure)| {
            let known: Vec<&Row> = rows
                .iter()
                .filter(|row| row.value.get(index).is_some_and(|v| !v.is_nan()))
                .collect();
            let shown: Vec<f64> = known.iter().map(|row| row.shown(index)).collect();
            let time: i64 = known.iter().map(|row| row.dt_ms).sum();
            let of = |values: &[f64]| values.get(index).copied().unwrap_or(f64::NAN);
            let total: f64 = known.iter().map(|row| of(&row.value)).sum();
            let average = match figure.kind {
                Kind::Counter => total * 1_000.0 / time as f64,
                Kind::Gauge => {
                    let weighed = known.iter().map(|row| of(&row.value) * row.dt_ms as f64);
                    weighed.sum::<f64>() / time as f64
                }
            };
            let some = |value: f64| value.is_finite().then_some(value);
            FigureSummary {
                name: figure.name.into(),
                title: figure.title,
                unit: figure.unit,
                better: figure.better.name(),
                is_counter: figure.kind == Kind::Counter,
                n: known.len(),
                total: (figure.kind == Kind::Counter && !known.is_empty()).then_some(total),
                average: some(average),
                min: some(known.iter().map(|r| of(&r.min)).fold(f64::NAN, f64::min)),
                max: some(known.iter().map(|r| of(&r.max)).fold(f64::NAN, f64::max)),
                deviation: deviation(&shown, average),
                p95: percentile(&shown, 0.95),
                blocks: blocks(&known, index),
            }
        })
        .collect();
    Summary {
        from,
        to,
        step_ms: stretch.level.step_ms,
        covered_ms: rows
            .iter()
            .map(|row| row.dt_ms)
            .sum::<i64>()
            .min(to - from)
            .max(0),
        samples: rows.len(),
        figures,
    }
}

fn deviation(values: &[f64], mean: f64) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// The value that a share of the values does not exceed, by nearest rank.
fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// Means over minutes, or over the steps of a coarser level.
fn blocks(rows: &[&Row], index: usize) -> Vec<f64> {
    let mut blocks: Vec<(i64, f64, f64)> = Vec::new();
    for row in rows {
        let start = (row.at - i64::from(!row.is_bucket)).div_euclid(BLOCK_MS);
        let (value, dt) = (row.shown(index), row.dt_ms as f64);
        match blocks.last_mut() {
            Some((at, sum, time)) if *at == start => {
                *sum += value * dt;
                *time += dt;
            }
            _ => blocks.push((start, value * dt, dt)),
        }
    }
    // A piece of a minute at either end says little.
    let whole = |(_, sum, time): &(i64, f64, f64)| (*time >= BLOCK_MS as f64 / 2.0, sum / time);
    blocks
        .iter()
        .map(whole)
        .filter_map(|(is_whole, mean)| is_whole.then_some(mean))
        .collect()
}

/// What can be said of the difference of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    Better,
    Worse,
    /// A difference, of a figure of which neither way is good.
    Differs,
    /// The interval holds 0.
    Same,
    TooShort,
    /// Nothing to divide by, or too little for a per cent.
    Small,
    Absent,
}

/// A figure of A beside that of B.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    pub a: FigureSummary,
    pub b: FigureSummary,
    /// B against A by rate or mean, in per cent.
    pub percent: Option<f64>,
    /// The same by total.
    pub percent_total: Option<f64>,
    /// 95 per cent of the resampled differences, in per cent.
    pub interval: Option<(f64, f64)>,
    pub judgement: Judgement,
}

/// Two stretches, figure by figure.
pub fn compare(a: &Summary, b: &Summary) -> Vec<Compared> {
    a.figures
        .iter()
        .zip(&b.figures)
        .zip(FIGURES)
        .map(|((a, b), figure)| {
            let percent_of = |a: Option<f64>, b: Option<f64>| match (a, b) {
                (Some(a), Some(b)) if a != 0.0 => Some((b / a - 1.0) * 100.0),
                _ => None,
            };
            let (mean_a, mean_b) = (a.average.unwrap_or(0.0), b.average.unwrap_or(0.0));
            let small = mean_a.abs().max(mean_b.abs()) < figure.floor || mean_a == 0.0;
            let absent = a.average.is_none() || b.average.is_none();
            let interval = match small || absent {
                true => None,
                false => interval(&a.blocks, &b.blocks),
            };
            let judgement = match interval {
                _ if absent => Judgement::Absent,
                _ if small => Judgement::Small,
                None => Judgement::TooShort,
                Some((low, high)) if low <= 0.0 && high >= 0.0 => Judgement::Same,
                Some((low, _)) => match (figure.better, low > 0.0) {
                    (Better::Neutral, _) => Judgement::Differs,
                    (Better::Lower, false) | (Better::Higher, true) => Judgement::Better,
                    _ => Judgement::Worse,
                },
            };
            Compared {
                percent: percent_of(a.average, b.average).filter(|_| !small),
                percent_total: percent_of(a.total, b.total).filter(|_| !small),
                interval,
                judgement,
                a: a.clone(),
                b: b.clone(),
            }
        })
        .collect()
}

/// Interval of the difference of means in per cent of A; `None` with too few blocks.
fn interval(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    if a.len() < BLOCKS_MIN || b.len() < BLOCKS_MIN {
        return None;
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut differences: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let (mean_a, mean_b) = (drawn_mean(a, &mut random), drawn_mean(b, &mut random));
            (mean_b / mean_a - 1.0) * 100.0
        })
        .filter(|difference| difference.is_finite())
        .collect();
    differences.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let last = differences.len().checked_sub(1)?;
        differences
            .get((share * last as f64).round() as usize)
            .copied()
    };
    Some((at(0.025)?, at(0.975)?))
}

/// Mean of blocks drawn some in a row at a time.
fn drawn_mean(blocks: &[f64], random: &mut Random) -> f64 {
    let run = (blocks.len() as f64).cbrt().ceil() as usize;
    let starts = blocks.len() - run + 1;
    let (mut sum, mut count) = (0.0, 0usize);
    while count < blocks.len() {
        let start = random.below(starts);
        let taken = run.min(blocks.len() - count);
        sum += blocks
            .get(start..start + taken)
            .unwrap_or_default()
            .iter()
            .sum::<f64>();
        count += taken;
    }
    sum / count as f64
}

/// SplitMix64: the same numbers every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let drawn = z ^ (z >> 31);
        usize::try_from(drawn % end.max(1) as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Values, index};
    use crate::repository::levels::LEVELS;
    use crate::sampler::difference::Tick;

    /// Seconds of flushes around a mean, with noise that a seed chooses.
    fn stretch(seconds: i64, mean: f64, seed: u64) -> Stretch {
        let mut random = Random(seed);
        let rows = (1..=seconds).map(|second| {
            let noise = random.below(41) as f64 - 20.0;
            let mut values = Values::default();
            values.set("log_flushes", (mean * (1.0 + noise / 100.0)).max(0.0));
            Row::of(&Tick {
                at: second * 1_000,
                boot: 0,
                dt_ms: 1_000,
                flags: 0,
                values,
                waits: Vec::new(),
            })
        });
        Stretch {
            level: LEVELS[0],
            rows: rows.collect(),
        }
    }

    fn flushes(a: &Stretch, b: &Stretch) -> Compared {
        let of = |s: &Stretch| summary(s, 0, s.rows.len() as i64 * 1_000);
        let at = index("log_flushes").expect("a figure");
        compare(&of(a), &of(b)).swap_remove(at)
    }

    #[test]
    fn a_stretch_against_itself_is_the_same() {
        let a = stretch(1_800, 100.0, 7);
        let compared = flushes(&a, &a);
        assert_eq!(compared.percent, Some(0.0));
        assert_eq!(compared.judgement, Judgement::Same);
    }

    #[test]
    fn ten_per_cent_are_found_in_half_an_hour_and_noise_is_not() {
        let found = flushes(&stretch(1_800, 100.0, 1), &stretch(1_800, 90.0, 2));
        assert_eq!(found.judgement, Judgement::Better, "{found:?}");
        let coloured = (0..100)
            .map(|seed| {
                flushes(
                    &stretch(1_800, 100.0, seed * 2 + 10),
                    &stretch(1_800, 100.0, seed * 2 + 11),
                )
            })
            .filter(|c| c.judgement != Judgement::Same)
            .count();
        assert!(
            coloured <= 12,
            "{coloured} of 100 halves of the same load differ"
        );
    }

    #[test]
    fn unequal_lengths_differ_in_total_and_rate() {
        let compared = flushes(&stretch(5_400, 100.0, 3), &stretch(3_960, 52.0, 4));
        let (rate, total) = (
            compared.percent.expect("a rate"),
            compared.percent_total.expect("a total"),
        );
        assert!((rate + 48.0).abs() < 0.5, "{rate}");
        assert!((total + 62.0).abs() < 0.5, "{total}");
    }

    #[test]
    fn little_time_is_too_short_and_nothing_is_absent() {
        let compared = flushes(&stretch(120, 100.0, 5), &stretch(120, 50.0, 6));
        assert_eq!(compared.judgement, Judgement::TooShort);
        let a = summary(&stretch(120, 1.0, 1), 0, 120_000);
        assert_eq!(compare(&a, &a)[0].judgement, Judgement::Absent);
        assert_eq!(a.figures[0].total, None);
    }

    #[test]
    fn percentiles_and_deviation() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.95), Some(95.0));
        assert_eq!(percentile(&[], 0.95), None);
        assert_eq!(deviation(&[1.0, 3.0], 2.0), Some(2.0_f64.sqrt()));
    }
}
