//! Aggregate functions: one accumulator for each group and call.
//!
//! Theory: sums run in 128 bits or in doubles and are checked against the result type at the end; NULLs are left out, with
//! warning 8153. DISTINCT keeps the keys of values seen, STRING_AGG its pieces; both can be given up, and taken in again in order
//! (`per_group`).

use super::context::Ctx;
use super::plan::AggregateCall;
use super::spill::row_bytes;
use crate::binder::tree::AggregateFunction as F;
use crate::error::{Result, SqlError};
use crate::messages;
use compact_str::CompactString;
use daruma_value::compare::{compare, hash_bytes, write_key};
use daruma_value::decimal::{power_of_ten, round_div};
use daruma_value::{CollationId, DataType, Decimal, Value, ValueError};
use std::cmp::Ordering;
use std::collections::HashSet;

/// Longest text that STRING_AGG builds without a `max` type: error 9829.
const TEXT_BYTES_MAX: usize = 8000;
/// Longest text that it builds at all: the result is one value, which has to be in memory. Error 701.
const JOINED_BYTES_MAX: usize = 512 << 20;

/// Memory of a key or a piece beside its bytes, roughly.
const KEPT_BYTES: usize = 48;

/// A piece of STRING_AGG, with the values that it is ordered by.
pub type Piece = (Vec<Value>, CompactString);

/// The state of one aggregate in one group.
pub struct Accumulator {
    state: State,
    /// Keys of the values seen, with DISTINCT.
    seen: Option<HashSet<Vec<u8>>>,
    /// Memory of keys and pieces, roughly, and of the longest extreme so far.
    kept_bytes: usize,
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
        items: Vec<Piece>,
        separator: Option<CompactString>,
        /// What was joined already, of pieces that came in order.
        joined: Option<CompactString>,
        /// Bytes of the whole text: pieces, and separators between them.
        len: usize,
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
        Accumulator {
            state,
            seen: None,
            kept_bytes: 0,
        }
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
                joined: None,
                len: 0,
            },
            F::ChecksumAgg => State::Checksum(None),
            F::ApproxCountDistinct => State::Count(0),
        };
        Accumulator {
            state,
            seen: is_distinct(call).then(HashSet::default),
            kept_bytes: 0,
        }
    }

    /// Memory of the keys, pieces and long texts that are kept, roughly.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Memory of the whole, roughly.
    pub fn bytes(&self) -> usize {
        let value = match &self.state {
            // What a long text takes is kept memory already.
            State::Extreme(_) => size_of::<Value>(),
            _ => 0,
        };
        size_of::<Accumulator>() + value + self.kept_bytes
    }

    /// Takes one row in, and gives the memory that it keeps of it. `value` is `None` for COUNT(*).
    pub fn add(
        &mut self,
        call: &AggregateCall,
        value: Option<&Value>,
        row: &[Value],
        cx: &Ctx<'_>,
    ) -> Result<usize> {
        let Some(value) = value else {
            if let State::Count(n) = &mut self.state {
                *n += 1;
            }
            return Ok(0);
        };
        if value.is_null() {
            if call.function != F::Any {
                cx.warn_null_eliminated();
            }
            return Ok(0);
        }
        let mut kept = 0;
        if let Some(seen) = &mut self.seen {
            let mut key = Vec::with_capacity(32);
            write_key(value, call.collation, &mut key);
            if seen.contains(&key) {
                return Ok(0);
            }
            kept = key.len() + KEPT_BYTES;
            seen.insert(key);
        }
        if call.function == F::StringAgg {
            if let Some((order, piece)) = self.piece(call, value, row, cx)? {
                kept += self.keep_piece(order, piece);
            }
        } else {
            self.take(call, value)?;
            if let State::Extreme(value) = &self.state {
                kept += value.outside_bytes().saturating_sub(self.kept_bytes);
            }
        }
        self.kept_bytes += kept;
        Ok(kept)
    }

    /// Takes a value in that is not NULL, nor seen before under DISTINCT.
    pub fn take(&mut self, call: &AggregateCall, value: &Value) -> Result<()> {
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
            State::Text { .. } => {}
            State::Checksum(sum) => {
                let mut key = Vec::with_capacity(16);
                write_key(value, CollationId::BIN2, &mut key);
                *sum = Some(sum.unwrap_or(0) ^ hash_bytes(&key) as i32);
            }
        }
        Ok(())
    }

    /// Can values be taken out again, with the same result as if they had never been in?
    pub fn can_take_out(&self) -> bool {
        matches!(self.state, State::Count(_) | State::Exact { .. })
    }

    /// Takes a row out that was taken in before; `can_take_out` holds.
    pub fn take_out(&mut self, call: &AggregateCall, value: Option<&Value>) -> Result<()> {
        if value.is_some_and(Value::is_null) {
            return Ok(());
        }
        match (&mut self.state, value) {
            (State::Count(n), _) => *n -= 1,
            (State::Exact { sum, count, scale }, Some(value)) => {
                let units = exact_units(value, *scale).and_then(|units| sum.checked_sub(units));
                *sum = units.ok_or_else(|| ValueError::expression_overflow(call.result))?;
                *count -= 1;
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes in what another has taken in of rows that follow; both are of the same call, without DISTINCT.
    pub fn merge(&mut self, call: &AggregateCall, other: &Accumulator) -> Result<()> {
        match (&mut self.state, &other.state) {
            (State::Count(n), State::Count(more)) => *n += more,
            (
                State::Exact { sum, count, .. },
                State::Exact {
                    sum: s, count: c, ..
                },
            ) => {
                let both = sum.checked_add(*s);
                *sum = both.ok_or_else(|| ValueError::expression_overflow(call.result))?;
                *count += c;
            }
            (State::Float { sum, count }, State::Float { sum: s, count: c }) => {
                *sum += s;
                *count += c;
            }
            (State::Extreme(_), State::Extreme(value)) if !value.is_null() => {
                self.take(call, value)?;
            }
            (
                State::Spread {
                    count,
                    mean,
                    squares,
                },
                State::Spread {
                    count: c,
                    mean: m,
                    squares: s,
                },
            ) if *c > 0.0 => {
                // Chan, Golub and LeVeque 1979.
                let both = *count + c;
                let distance = m - *mean;
                *squares += s + distance * distance * *count * c / both;
                *mean += distance * c / both;
                *count = both;
            }
            (State::Checksum(sum), State::Checksum(Some(more))) => {
                *sum = Some(sum.unwrap_or(0) ^ more);
            }
            _ => {}
        }
        Ok(())
    }

    /// A piece of STRING_AGG with what it is ordered by, from a value that is not NULL.
    pub fn piece(
        &mut self,
        call: &AggregateCall,
        value: &Value,
        row: &[Value],
        cx: &Ctx<'_>,
    ) -> Result<Option<Piece>> {
        let (State::Text { separator, len, .. }, Value::Str(piece)) = (&mut self.state, value)
        else {
            return Ok(None);
        };
        let is_first = separator.is_none();
        if is_first {
            let value = call.separator.as_ref().map(|s| s.eval(row, cx));
            *separator = match value.transpose()? {
                Some(Value::Str(text)) => Some(text),
                _ => Some(CompactString::default()),
            };
        }
        let before = separator.as_ref().filter(|_| !is_first);
        *len += piece.len() + before.map_or(0, CompactString::len);
        if *len > TEXT_BYTES_MAX && !call.result.is_large() {
            return Err(text_too_long());
        }
        if *len > JOINED_BYTES_MAX {
            return Err(messages::error(701, &[&"default"]));
        }
        let order = call.order.iter().map(|(e, ..)| e.eval(row, cx));
        Ok(Some((order.collect::<Result<_>>()?, piece.clone())))
    }

    /// Bytes of a text that `finish` puts together.
    pub fn unjoined_bytes(&self) -> usize {
        match &self.state {
            State::Text {
                joined: None, len, ..
            } => *len,
            _ => 0,
        }
    }

    /// Keeps a piece until the end; gives its memory.
    pub fn keep_piece(&mut self, order: Vec<Value>, piece: CompactString) -> usize {
        let kept = piece.len() + row_bytes(&order) + KEPT_BYTES;
        if let State::Text { items, .. } = &mut self.state {
            items.push((order, piece));
        }
        kept
    }

    /// Joins the next piece to those before; they come in order.
    pub fn join_piece(&mut self, piece: &str, cx: &Ctx<'_>) -> Result<()> {
        if let State::Text {
            separator, joined, ..
        } = &mut self.state
        {
            let separator = separator.as_deref().unwrap_or("");
            cx.hold(separator.len() + piece.len())?;
            self.kept_bytes += separator.len() + piece.len();
            match joined {
                Some(text) => {
                    text.push_str(separator);
                    text.push_str(piece);
                }
                None => *joined = Some(piece.into()),
            }
        }
        Ok(())
    }

    /// Gives up the keys of values seen; the values themselves are in.
    pub fn give_up_keys(&mut self) -> HashSet<Vec<u8>> {
        self.kept_bytes = 0;
        self.seen.take().unwrap_or_default()
    }

    /// Knows a key as seen, as long as keys are kept; gives its memory, or `None` when it was known.
    pub fn see_again(&mut self, key: &[u8]) -> Option<usize> {
        let seen = self.seen.get_or_insert_default();
        let kept = key.len() + KEPT_BYTES;
        let is_new = seen.insert(key.to_vec());
        self.kept_bytes += if is_new { kept } else { 0 };
        is_new.then_some(kept)
    }

    /// Gives up the pieces of STRING_AGG.
    pub fn give_up_pieces(&mut self) -> Vec<Piece> {
        self.kept_bytes = 0;
        match &mut self.state {
            State::Text { items, .. } => std::mem::take(items),
            _ => Vec::new(),
        }
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
            State::Text {
                joined: Some(text), ..
            } => bounded_text(call, std::mem::take(text))?,
            State::Text {
                items, separator, ..
            } => text_result(call, items, separator.as_deref().unwrap_or(""))?,
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

fn text_result(call: &AggregateCall, items: &mut [Piece], separator: &str) -> Result<Value> {
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
    bounded_text(call, text)
}

fn bounded_text(call: &AggregateCall, text: CompactString) -> Result<Value> {
    match text.len() > TEXT_BYTES_MAX && !call.result.is_large() {
        true => Err(text_too_long()),
        false => Ok(Value::Str(text)),
    }
}

fn text_too_long() -> SqlError {
    SqlError::new(
        9829,
        16,
        1,
        "STRING_AGG aggregation result exceeded the limit of 8000 bytes. Use LOB types to avoid result truncation.",
    )
}

/// Does the function look at each value once?
pub fn is_distinct(call: &AggregateCall) -> bool {
    call.distinct || call.function == F::ApproxCountDistinct
}
