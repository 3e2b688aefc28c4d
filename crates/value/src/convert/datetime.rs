//! Conversions to the date and time types.

use super::{ConvertContext, unexpected};
use crate::temporal::{
    DAYS_TO_1900, DateFormat, Moment, ParseError, TICKS_PER_DAY, hijri_to_gregorian,
    is_valid_datetime, parse,
};
use crate::{DataType, DateTime, SmallDateTime, Value, ValueError};

pub(super) fn to_temporal(
    value: &Value,
    from: DataType,
    to: DataType,
    style: Option<i32>,
    context: &ConvertContext,
) -> Result<Value, ValueError> {
    let out_of_range = || match (from, to) {
        (DataType::DateTime, DataType::SmallDateTime) => {
            ValueError::datetime_out_of_range(from, to)
        }
        _ if from.is_numeric() => ValueError::expression_overflow(to),
        _ => ValueError::datetime_out_of_range(from, to),
    };
    match value {
        Value::Str(text) => from_text(text, from, to, style, context),
        Value::Bytes(bytes) => {
            from_bytes(bytes, to).ok_or_else(|| ValueError::conversion(from, to))
        }
        _ => {
            let moment = match Moment::from_value(value) {
                Some(moment) => moment,
                None => from_days(value).ok_or_else(|| match value.as_f64() {
                    Some(_) => out_of_range(),
                    None => unexpected(from, to),
                })?,
            };
            moment.to_value(to).ok_or_else(out_of_range)
        }
    }
}

/// A number of days since 1900-01-01.
fn from_days(value: &Value) -> Option<Moment> {
    let total = match value {
        Value::Real(_) | Value::Float(_) => {
            (value.as_f64()? * TICKS_PER_DAY as f64).round() as i128
        }
        other => {
            let days = other.as_decimal()?.rescale(38, 12).ok()?.unscaled();
            crate::decimal::round_div(
                days.checked_mul(i128::from(TICKS_PER_DAY))?,
                1_000_000_000_000,
            )
        }
    };
    Moment::from_total_ticks(
        total.checked_add(i128::from(DAYS_TO_1900) * i128::from(TICKS_PER_DAY))?,
    )
}

fn from_text(
    text: &str,
    from: DataType,
    to: DataType,
    style: Option<i32>,
    context: &ConvertContext,
) -> Result<Value, ValueError> {
    let old = matches!(to, DataType::DateTime | DataType::SmallDateTime);
    let order = style
        .and_then(DateFormat::of_style)
        .unwrap_or(context.date_format);
    let error = |e| match (e, to) {
        (ParseError::OutOfRange, _) if old => ValueError::datetime_out_of_range(from, to),
        (ParseError::Syntax, DataType::SmallDateTime) => ValueError::new(295, 3, &[]),
        (_, _) if !old && style.is_some_and(|s| s != 0) => {
            ValueError::new(9807, 0, &[&style.unwrap_or(0)])
        }
        _ => ValueError::bad_datetime_text(),
    };
    let first = text.split_whitespace().next();
    let has_date = first.is_some_and(|word| !word.contains(':'));
    let gregorian = match style {
        Some(130 | 131) if has_date => {
            Some(hijri_to_gregorian(text).ok_or_else(|| error(ParseError::Syntax))?)
        }
        _ => None,
    };
    let text = gregorian.as_deref().unwrap_or(text);
    let parsed = parse(text, to, order).map_err(error)?;
    parsed
        .moment
        .to_value(to)
        .ok_or_else(|| error(ParseError::OutOfRange))
}

/// The binary forms that CAST to binary makes.
fn from_bytes(bytes: &[u8], to: DataType) -> Option<Value> {
    match to {
        DataType::DateTime => {
            let mut word = [0u8; 8];
            let tail = bytes.get(bytes.len().saturating_sub(8)..)?;
            word.get_mut(8 - tail.len()..)?.copy_from_slice(tail);
            let word = u64::from_be_bytes(word);
            let value = DateTime {
                days: ((word >> 32) as u32).cast_signed(),
                ticks: word as u32,
            };
            is_valid_datetime(value).then_some(Value::DateTime(value))
        }
        DataType::SmallDateTime => {
            let tail = bytes.get(bytes.len().saturating_sub(4)..)?;
            let word = tail.iter().fold(0u32, |w, b| (w << 8) | u32::from(*b));
            let value = SmallDateTime {
                days: (word >> 16) as u16,
                minutes: word as u16,
            };
            (value.minutes < 1440).then_some(Value::SmallDateTime(value))
        }
        DataType::Date => {
            let [a, b, c] = *bytes.first_chunk()?;
            let days = i32::from_le_bytes([a, b, c, 0]);
            Moment::new(days, 0)
                .to_value(to)
                .filter(|_| days <= crate::temporal::DAY_MAX)
        }
        DataType::Time { .. } => {
            let (_, ticks, _) = scaled_ticks(bytes)?;
            Moment::new(DAYS_TO_1900, ticks).to_value(to)
        }
        DataType::DateTime2 { .. } | DataType::DateTimeOffset { .. } => {
            let (_, ticks, rest) = scaled_ticks(bytes)?;
            let ([a, b, c], rest) = rest.split_first_chunk()?;
            let days = i32::from_le_bytes([*a, *b, *c, 0]);
            if days > crate::temporal::DAY_MAX {
                return None;
            }
            let utc = Moment::new(days, ticks);
            let offset = rest.first_chunk().map_or(0, |o| i16::from_le_bytes(*o));
            let shift = i128::from(offset) * i128::from(60 * crate::temporal::TICKS_PER_SECOND);
            let local = Moment::from_total_ticks(utc.total_ticks() + shift)?;
            Moment {
                offset_minutes: crate::temporal::is_valid_offset(offset).then_some(offset),
                ..local
            }
            .to_value(to)
        }
        _ => None,
    }
}

/// Scale, ticks, and what follows them.
fn scaled_ticks(bytes: &[u8]) -> Option<(u8, u64, &[u8])> {
    let (scale, rest) = bytes.split_first()?;
    let size = match scale {
        0..=2 => 3,
        3..=4 => 4,
        5..=7 => 5,
        _ => return None,
    };
    let (digits, rest) = rest.split_at_checked(size)?;
    let units = digits
        .iter()
        .rev()
        .fold(0u64, |n, b| (n << 8) | u64::from(*b));
    let ticks = units.checked_mul(10u64.pow(u32::from(7 - scale)))?;
    (ticks < TICKS_PER_DAY).then_some((*scale, ticks, rest))
}
