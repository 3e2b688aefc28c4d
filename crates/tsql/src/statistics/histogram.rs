//! Histograms: cutting them, and asking what part of the rows a comparison leaves.

use super::collect::{Run, key_of};
use daruma_catalog::{ColumnDef, HistogramStep, StatisticsDef};
use daruma_value::column::{Column, Number};
use daruma_value::convert::{ConvertContext, convert};
use daruma_value::{CollationId, DataType, Value};

const STEPS_MAX: usize = 100;
/// Characters of a value that are kept to be shown.
const TEXT_CHARS_MAX: usize = 64;

/// Cuts runs into steps of about equally many rows. The lowest value is a step of its own, and so is a value with more
/// rows than a step should have.
pub(super) fn steps(
    values: &Column,
    runs: &[Run],
    data_type: DataType,
    collation: CollationId,
    scale: f64,
) -> Vec<HistogramStep> {
    let total: u64 = runs.iter().map(|r| r.count).sum();
    let depth = (total as f64 / (STEPS_MAX - 2) as f64).max(1.0);
    let few = runs.len() <= STEPS_MAX;
    let mut steps: Vec<HistogramStep> = Vec::new();
    let (mut range_rows, mut range_values) = (0u64, 0u64);
    for (at, run) in runs.iter().enumerate() {
        // A frequent value ends the step before it, unless that would make too many steps.
        let next = runs.get(at + 1).map_or(0, |r| r.count);
        let full = (range_rows + run.count) as f64 >= depth;
        let last = at + 1 == runs.len();
        let before_frequent = next as f64 >= depth && range_rows as f64 >= depth / 2.0;
        if !(few || at == 0 || last || full || before_frequent) {
            range_rows += run.count;
            range_values += 1;
            continue;
        }
        let value = values.value(run.row);
        steps.push(HistogramStep {
            key: key_of(&value, data_type, collation),
            text: shown(&value, data_type),
            number: place(&value, data_type),
            range_rows: range_rows as f64 * scale,
            equal_rows: run.count as f64 * scale,
            distinct_range_rows: range_values as f64,
        });
        (range_rows, range_values) = (0, 0);
    }
    steps
}

fn shown(value: &Value, data_type: DataType) -> String {
    let context = ConvertContext::default();
    match convert(value, data_type, DataType::NVARCHAR_MAX, None, &context) {
        Ok(Value::Str(text)) => text.chars().take(TEXT_CHARS_MAX).collect(),
        _ => String::new(),
    }
}

/// Where a value lies on the line of numbers, for types that have one.
fn place(value: &Value, data_type: DataType) -> Option<f64> {
    Some(match Number::of(value, data_type)? {
        Number::Int(n) => n as f64,
        Number::Wide(n) => n as f64,
        Number::Float(n) => n,
    })
}

/// Statistics of one column, ready to be asked. All answers are parts of the table's rows.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    statistics: StatisticsDef,
    data_type: DataType,
    collation: CollationId,
    /// Rows of the table now.
    rows: f64,
}

impl Facts {
    pub(crate) fn new(statistics: StatisticsDef, column: &ColumnDef, rows: u64) -> Facts {
        Facts {
            statistics,
            data_type: column.data_type,
            collation: column.collation,
            rows: (rows as f64).max(1.0),
        }
    }

    /// Distinct values now: a column that was nearly unique stays so when the table grows.
    pub(crate) fn distinct(&self) -> f64 {
        let counted = self.statistics.distinct.first().copied().unwrap_or(1.0);
        let before = self.counted();
        let grown = if counted > before * 0.9 {
            counted * self.rows / before
        } else {
            counted
        };
        grown.clamp(1.0, self.rows)
    }

    pub(crate) fn nulls(&self) -> f64 {
        (self.statistics.null_rows / self.counted()).clamp(0.0, 1.0)
    }

    /// Rows when the statistics were made.
    fn counted(&self) -> f64 {
        (self.statistics.rows as f64).max(1.0)
    }

    /// Equal to a value that is not known yet.
    pub(crate) fn equal_unknown(&self) -> f64 {
        (1.0 - self.nulls()) / self.distinct()
    }

    fn key(&self, value: &Value) -> Option<(Vec<u8>, Option<f64>)> {
        if value.is_null() {
            return None;
        }
        let from = value.natural_type();
        let context = ConvertContext {
            collation: self.collation,
            ..ConvertContext::default()
        };
        let value = if self.data_type.is_character() && matches!(value, Value::Str(_)) {
            value.clone()
        } else {
            convert(value, from, self.data_type, None, &context).ok()?
        };
        let key = key_of(&value, self.data_type, self.collation);
        Some((key, place(&value, self.data_type)))
    }

    pub(crate) fn equal(&self, value: &Value) -> f64 {
        let least = 0.5 / self.rows;
        let Some((key, _)) = self.key(value) else {
            return least;
        };
        let steps = &self.statistics.steps;
        let at = steps.partition_point(|s| s.key < key);
        let Some(step) = steps.get(at) else {
            // Beyond the highest value known: there may be newer rows.
            return (self.equal_unknown() * 0.1).max(least);
        };
        let rows = if step.key == key {
            step.equal_rows
        } else if at == 0 {
            0.0
        } else {
            step.range_rows / step.distinct_range_rows.max(1.0)
        };
        (rows / self.counted()).clamp(least, 1.0)
    }

    /// Below the value, or also equal to it.
    pub(crate) fn below(&self, value: &Value, inclusive: bool) -> Option<f64> {
        let (key, number) = self.key(value)?;
        let mut rows = 0.0;
        let mut before: Option<&HistogramStep> = None;
        for step in &self.statistics.steps {
            if step.key < key {
                rows += step.range_rows + step.equal_rows;
                before = Some(step);
                continue;
            }
            if step.key == key {
                rows += step.range_rows + if inclusive { step.equal_rows } else { 0.0 };
            } else {
                let share = match (before.and_then(|b| b.number), number, step.number) {
                    (Some(low), Some(n), Some(high)) if high > low => (n - low) / (high - low),
                    _ => 0.5,
                };
                rows += step.range_rows * share.clamp(0.0, 1.0);
            }
            break;
        }
        Some((rows / self.counted()).clamp(0.0, 1.0))
    }

    /// Above the value, or also equal to it.
    pub(crate) fn above(&self, value: &Value, inclusive: bool) -> Option<f64> {
        let below = self.below(value, !inclusive)?;
        Some((1.0 - self.nulls() - below).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(values: &[i32]) -> Facts {
        let mut column = Column::new(DataType::Int);
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let mut runs: Vec<Run> = Vec::new();
        for (row, value) in sorted.iter().enumerate() {
            column.push(Value::Int(*value));
            match runs.last_mut() {
                Some(run) if column.value(run.row) == Value::Int(*value) => run.count += 1,
                _ => runs.push(Run { row, count: 1 }),
            }
        }
        let steps = steps(&column, &runs, DataType::Int, CollationId::DEFAULT, 1.0);
        let mut statistics = super::super::empty(1, "s".into(), vec![1]);
        statistics.rows = values.len() as u64;
        statistics.distinct = vec![runs.len() as f64];
        statistics.steps = steps;
        Facts {
            statistics,
            data_type: DataType::Int,
            collation: CollationId::DEFAULT,
            rows: values.len() as f64,
        }
    }

    /// Estimates lie near what counting gives.
    #[test]
    fn estimates_follow_the_data() {
        // Ten thousand rows: one value in half of them, others evenly spread.
        let values: Vec<i32> = (0..10_000)
            .map(|n| if n % 2 == 0 { 500 } else { n })
            .collect();
        let facts = facts(&values);
        assert!(facts.statistics.steps.len() <= STEPS_MAX);
        let part = |f: &dyn Fn(i32) -> bool| {
            values.iter().filter(|v| f(**v)).count() as f64 / values.len() as f64
        };
        assert!((facts.equal(&Value::Int(500)) - part(&|v| v == 500)).abs() < 0.01);
        assert!(facts.equal(&Value::Int(4001)) < 0.001);
        for bound in [0, 1, 499, 500, 501, 2500, 7777, 9999, 20_000] {
            let value = Value::Int(bound);
            let near = |found: Option<f64>, wanted: f64| {
                let found = found.unwrap();
                assert!((found - wanted).abs() < 0.02, "{bound}: {found} {wanted}");
            };
            near(facts.below(&value, false), part(&|v| v < bound));
            near(facts.below(&value, true), part(&|v| v <= bound));
            near(facts.above(&value, false), part(&|v| v > bound));
            near(facts.above(&value, true), part(&|v| v >= bound));
        }
        assert_eq!(facts.below(&Value::Null, true), None);
    }

    #[test]
    fn few_values_are_known_exactly() {
        let values: Vec<i32> = (0..1000).map(|n| n % 7).collect();
        let facts = facts(&values);
        assert_eq!(facts.statistics.steps.len(), 7);
        assert!((facts.equal(&Value::Int(3)) - 0.143).abs() < 0.001);
        assert!(facts.equal(&Value::Int(-1)) < 0.001);
        assert!((facts.distinct() - 7.0).abs() < 0.001);
    }
}
