//! Aggregate functions: one accumulator for each group and call.
//!
//! Theory: sums run in 128 bits or in doubles and are checked against the result type at the end; NULLs are left out, with
//! warning 8153. DISTINCT keeps the keys of values seen.

use super::context::Ctx;
use super::plan::AggregateCall;
use crate::binder::tree::AggregateFunction as F;
use crate::error::Result;
use compact_str::CompactString;
use daruma_value::compare::{compare, hash_bytes, write_key};
use daruma_value::decimal::{power_of_ten, round_div};
use daruma_value::{CollationId, DataType, Decimal, Value, ValueError};
use std::cmp::Ordering;
use std::collections::HashSet;

/// Longest text that STRING_AGG builds without a `max` type: error 9829.
const TEXT_BYTES_MAX: usize = 8000;

/// The state of one aggregate in one group.
pub struct Accumulator {
    state: State,
    seen: Option<HashSet<Vec<u8>>>,
}

enum State {
    Count(i64),
    /// Sum in units of the scale, and count.
    Exact {
        sum: i128,
        count: i64,
        scale: u8,
    },
    Float {
        sum: f64,
        count: i64,
    },
    Extreme(Value),
    /// Count, mean, sum of squared distances (Welford).
    Spread {
        count: f64,
        mean: f64,
        squares: f64,
    },
    Text {
        items: Vec<(Vec<Value>, CompactString)>,
        separator: Option<CompactString>,
    },
    Checksum(Option<i32>),
}

/// Kind of number that a SUM or AVG adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// Units of 10^-scale.
    Exact(u8),
    Float,
}

impl Sum {
    /// How SUM and AVG of this argument are added up.
    pub fn of(call: &AggregateCall) -> Sum {
        match call.arg_type {
            DataType::Float | DataType::Real => Sum::Float,
            DataType::Decimal { scale, .. } => Sum::Exact(scale),
            DataType::Money | DataType::SmallMoney => Sum::Exact(4),
            _ => Sum::Exact(0),
        }
    }
}

impl Accumulator {
    fn holding(state: State) -> Accumulator {
        Accumulator { state, seen: None }
    }

    /// One that has counted already.
    pub fn count(count: i64) -> Accumulator {
        Accumulator::holding(State::Count(count))
    }

    /// One that has added up already.
    pub fn exact(sum: i128, count: i64, scale: u8) -> Accumulator {
        Accumulator::holding(State::Exact { sum, count, scale })
    }

    /// A sum that was added up column by column.
    pub fn float(sum: f64, count: i64) -> Accumulator {
        Accumulator::holding(State::Float { sum, count })
    }

    /// MIN or MAX that has met this value.
    pub fn extreme(value: Value, call: &AggregateCall) -> Accumulator {
        let mut made = Accumulator::new(call);
        made.state = State::Extreme(value);
        made
    }

    /// The state before the first row.
    pub fn new(call: &AggregateCall) -> Accumulator {
        let state = match call.function {
            F::Count | F::CountBig => State::Count(0),
            F::Sum | F::Avg => match Sum::of(call) {
                Sum::Float => State::Float { sum: 0.0, count: 0 },
                Sum::Exact(scale) => State::Exact {
                    sum: 0,
                    count: 0,
                    scale,
                },
            },
            F::Min | F::Max | F::Any => State::Extreme(Value::Null),
            F::Stdev | F::StdevP | F::Var | F::VarP => State::Spread {
                count: 0.0,
                mean: 0.0,
                squares: 0.0,
            },
            F::StringAgg => State::Text {
                items: Vec::new(),
                separator: None,
            },
            F::ChecksumAgg => State::Checksum(None),
            F::ApproxCountDistinct => State::Count(0),
        };
        let distinct = call.distinct || call.function == F::ApproxCountDistinct;
        Accumulator {
            state,
            seen: distinct.then(HashSet::default),
        }
    }

    /// Takes one row in. `value` is `None` for COUNT(*).
    pub fn add(
        &mut self,
        call: &AggregateCall,
        value: Option<&Value>,
        row: &[Value],
        cx: &Ctx<'_>,
    ) -> Result<()> {
        let Some(value) = value else {
            if let State::Count(n) = &mut self.state {
                *n += 1;
            }
            return Ok(());
        };
        if value.is_null() {
            if call.function != F::Any {
                cx.warn_null_eliminated();
            }
            return Ok(());
        }
        if let Some(seen) = &mut self.seen {
            let mut key = Vec::with_capacity(32);
            write_key(value, call.collation, &mut key);
            if seen.contains(&key) {
                return Ok(());
            }
            cx.hold(key.len() + 48)?;
            seen.insert(key);
        }
        match &mut self.state {
            State::Count(n) => *n += 1,
            State::Exact { sum, count, scale } => {
                let units = exact_units(value, *scale)
                    .ok_or_else(|| ValueError::invalid_operand(call.arg_type, "sum"))?;
                *sum = sum
                    .checked_add(units)
                    .ok_or_else(|| ValueError::expression_overflow(call.result))?;
                *count += 1;
            }
            State::Float { sum, count } => {
                *sum += value.as_f64().unwrap_or(0.0);
                *count += 1;
            }
            State::Extreme(kept) => {
                let better = match call.function {
                    F::Min => compare(value, kept, call.collation) == Some(Ordering::Less),
                    F::Max => compare(value, kept, call.collation) == Some(Ordering::Greater),
                    _ => false,
                };
                if kept.is_null() || better {
                    *kept = value.clone();
                }
            }
            State::Spread {
                count,
                mean,
                squares,
            } => {
                let x = value.as_f64().unwrap_or(0.0);
                *count += 1.0;
                let distance = x - *mean;
                *mean += distance / *count;
                *squares += distance * (x - *mean);
            }
            State::Text { items, separator } => {
                if separator.is_none()
                    && let Some(expr) = &call.separator
                {
                    *separator = match expr.eval(row, cx)? {
                        Value::Str(s) => Some(s),
                        _ => Some(CompactString::default()),
                    };
                }
                let order = call
                    .order
                    .iter()
                    .map(|(e, ..)| e.eval(row, cx))
                    .collect::<Result<Vec<_>>>()?;
                if let Value::Str(s) = value {
                    cx.hold(s.len() + 48)?;
                    items.push((order, s.clone()));
                }
            }
            State::Checksum(sum) => {
                let mut key = Vec::with_capacity(16);
                write_key(value, CollationId::BIN2, &mut key);
                *sum = Some(sum.unwrap_or(0) ^ hash_bytes(&key) as i32);
            }
        }
        Ok(())
    }

    /// The aggregate's value; a sum or count that its type cannot hold is error 8115.
    pub fn finish(&mut self, call: &AggregateCall) -> Result<Value> {
        let overflow = || ValueError::expression_overflow(call.result);
        Ok(match &mut self.state {
            State::Count(n) => match call.result {
                DataType::Int => Value::Int(i32::try_from(*n).map_err(|_| overflow())?),
                _ => Value::BigInt(*n),
            },
            State::Exact { count: 0, .. } | State::Float { count: 0, .. } => Value::Null,
            State::Exact { sum, count, scale } => exact_result(call, *sum, *count, *scale)?,
            State::Float { sum, count } => {
                let result = if call.function == F::Avg {
                    *sum / *count as f64
                } else {
                    *sum
                };
                Value::approximate(result, call.result).ok_or_else(overflow)?
            }
            State::Extreme(value) => value.clone(),
            State::Spread { count, squares, .. } => {
                let sample = matches!(call.function, F::Stdev | F::Var);
                let divisor = if sample { *count - 1.0 } else { *count };
                if divisor <= 0.0 {
                    return Ok(Value::Null);
                }
                let variance = *squares / divisor;
                Value::Float(if matches!(call.function, F::Stdev | F::StdevP) {
                    variance.sqrt()
                } else {
                    variance
                })
            }
            State::Text { items, separator } => {
                text_result(call, items, separator.as_deref().unwrap_or(""))?
            }
            State::Checksum(sum) => sum.map_or(Value::Null, Value::Int),
        })
    }
}

/// An exact number in units of 10^-scale.
#[inline]
pub fn exact_units(value: &Value, scale: u8) -> Option<i128> {
    match value {
        Value::Int(n) => Some(i128::from(*n)),
        Value::BigInt(n) => Some(i128::from(*n)),
        Value::Money(n) => Some(i128::from(*n)),
        Value::Decimal(d) if d.scale == scale => Some(d.unscaled()),
        other => other
            .as_decimal()?
            .rescale(38, scale)
            .ok()
            .map(Decimal::unscaled),
    }
}

fn exact_result(call: &AggregateCall, sum: i128, count: i64, scale: u8) -> Result<Value> {
    let overflow = || ValueError::expression_overflow(call.result);
    let average = call.function == F::Avg;
    let result = match call.result {
        DataType::Int => {
            let n = if average {
                sum / i128::from(count)
            } else {
                sum
            };
            Value::Int(i32::try_from(n).map_err(|_| overflow())?)
        }
        DataType::BigInt => {
            let n = if average {
                sum / i128::from(count)
            } else {
                sum
            };
            Value::BigInt(i64::try_from(n).map_err(|_| overflow())?)
        }
        DataType::Money => {
            let n = if average {
                sum / i128::from(count)
            } else {
                sum
            };
            Value::Money(i64::try_from(n).map_err(|_| overflow())?)
        }
        DataType::Decimal {
            precision,
            scale: wanted,
        } => {
            let units = if average {
                let lifted = sum.checked_mul(power_of_ten(wanted - scale.min(wanted)));
                match lifted {
                    Some(lifted) => lifted / i128::from(count),
                    // Too large to scale up first: the lost digits are below any that could be shown.
                    None => round_div(sum, i128::from(count))
                        .checked_mul(power_of_ten(wanted - scale.min(wanted)))
                        .ok_or_else(overflow)?,
                }
            } else {
                sum
            };
            if units.unsigned_abs() >= power_of_ten(38).unsigned_abs() {
                return Err(overflow().into());
            }
            Value::Decimal(Decimal::new(units, precision, wanted))
        }
        _ => return Err(overflow().into()),
    };
    Ok(result)
}

fn text_result(
    call: &AggregateCall,
    items: &mut [(Vec<Value>, CompactString)],
    separator: &str,
) -> Result<Value> {
    if items.is_empty() {
        return Ok(Value::Null);
    }
    items.sort_by(|(a, _), (b, _)| {
        for ((x, y), (_, descending, collation)) in a.iter().zip(b).zip(&call.order) {
            let order = daruma_value::compare::compare_nulls_first(x, y, *collation);
            if order != Ordering::Equal {
                return if *descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    });
    let mut text = CompactString::default();
    for (position, (_, item)) in items.iter().enumerate() {
        if position > 0 {
            text.push_str(separator);
        }
        text.push_str(item);
    }
    let bounded = !call.result.is_large();
    if bounded && text.len() > TEXT_BYTES_MAX {
        return Err(crate::error::SqlError::new(
            9829,
            16,
            1,
            "STRING_AGG aggregation result exceeded the limit of 8000 bytes. Use LOB types to avoid result truncation.",
        ));
    }
    Ok(Value::Str(text))
}
