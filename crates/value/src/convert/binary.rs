//! Conversions to binary strings and to guids.

use super::codepage::encode_code_page;
use super::{ConvertContext, Fit, unexpected};
use crate::{DataType, DateTime2, Decimal, Value, ValueError};

pub(super) fn to_binary(
    value: &Value,
    from: DataType,
    to: DataType,
    style: Option<i32>,
    context: &ConvertContext,
    fit: Fit<'_>,
) -> Result<Value, ValueError> {
    let number = from.is_numeric();
    let bytes = match value {
        Value::Bytes(bytes) => bytes.clone(),
        Value::Str(text) => text_bytes(text, from, to, style.unwrap_or(0), context)?,
        other => number_bytes(other).ok_or_else(|| unexpected(from, to))?,
    };
    let len = match to {
        DataType::Binary(len) | DataType::VarBinary(len) if !len.is_max() => usize::from(len.0),
        DataType::RowVersion => 8,
        _ => return Ok(Value::Bytes(bytes)),
    };
    let fixed = matches!(to, DataType::Binary(_) | DataType::RowVersion);
    fit_bytes(bytes, len, fixed, number, fit).map(Value::Bytes)
}

/// Numbers keep their low bytes and are padded on the left, everything else on the right.
fn fit_bytes(
    mut bytes: Vec<u8>,
    len: usize,
    fixed: bool,
    number: bool,
    fit: Fit<'_>,
) -> Result<Vec<u8>, ValueError> {
    if bytes.len() > len {
        if number {
            bytes.drain(..bytes.len() - len);
        } else {
            let lost = bytes.get(len..).unwrap_or_default();
            if let (Fit::Refuse(column), true) = (fit, lost.iter().any(|b| *b != 0)) {
                return Err(match column {
                    Some(name) => ValueError::truncated_column(name.table, name.column, ""),
                    None => ValueError::truncated(),
                });
            }
            bytes.truncate(len);
        }
    } else if fixed && number {
        bytes.splice(..0, std::iter::repeat_n(0, len - bytes.len()));
    } else if fixed {
        bytes.resize(len, 0);
    }
    Ok(bytes)
}

fn text_bytes(
    text: &str,
    from: DataType,
    to: DataType,
    style: i32,
    context: &ConvertContext,
) -> Result<Vec<u8>, ValueError> {
    match style {
        1 | 2 => {
            let digits = if style == 1 {
                text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))
            } else {
                Some(text)
            };
            digits
                .and_then(parse_hex)
                .ok_or_else(|| ValueError::conversion(from, to))
        }
        _ if from.is_unicode() => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
        _ => Ok(encode_code_page(text, context.collation.code_page())),
    }
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let digit = |b: u8| char::from(b).to_digit(16);
    pairs
        .iter()
        .map(|[high, low]| Some((digit(*high)? << 4 | digit(*low)?) as u8))
        .collect()
}

/// The product's binary form of a value that is neither text nor bytes.
fn number_bytes(value: &Value) -> Option<Vec<u8>> {
    Some(match value {
        Value::Bit(v) => vec![u8::from(*v)],
        Value::TinyInt(v) => vec![*v],
        Value::SmallInt(v) => v.to_be_bytes().to_vec(),
        Value::Int(v) | Value::SmallMoney(v) => v.to_be_bytes().to_vec(),
        Value::BigInt(v) | Value::Money(v) => v.to_be_bytes().to_vec(),
        Value::Real(v) => v.to_be_bytes().to_vec(),
        Value::Float(v) => v.to_be_bytes().to_vec(),
        Value::Decimal(v) => decimal_bytes(*v),
        Value::Guid(v) => v.to_vec(),
        Value::DateTime(v) => [v.days.to_be_bytes(), v.ticks.to_be_bytes()].concat(),
        Value::SmallDateTime(v) => [v.days.to_be_bytes(), v.minutes.to_be_bytes()].concat(),
        Value::Date(days) => day_bytes(*days).to_vec(),
        Value::Time(v) => tick_bytes(v.ticks, v.scale),
        Value::DateTime2(v) => datetime2_bytes(v),
        Value::DateTimeOffset(v) => {
            let mut out = datetime2_bytes(&v.utc);
            out.extend_from_slice(&v.offset_minutes.to_le_bytes());
            out
        }
        _ => return None,
    })
}

fn day_bytes(days: i32) -> [u8; 3] {
    let [a, b, c, _] = days.to_le_bytes();
    [a, b, c]
}

fn tick_bytes(ticks: u64, scale: u8) -> Vec<u8> {
    let units = ticks / 10u64.pow(u32::from(7u8.saturating_sub(scale)));
    let size = match scale {
        0..=2 => 3,
        3..=4 => 4,
        _ => 5,
    };
    std::iter::once(scale)
        .chain(units.to_le_bytes().into_iter().take(size))
        .collect()
}

fn datetime2_bytes(value: &DateTime2) -> Vec<u8> {
    let mut out = tick_bytes(value.ticks, value.scale);
    out.extend_from_slice(&day_bytes(value.days));
    out
}

/// Precision, scale, a zero, the sign (1 = positive), then the magnitude little-endian in words of four bytes.
fn decimal_bytes(value: Decimal) -> Vec<u8> {
    let words = match value.precision {
        0..=9 => 4,
        10..=19 => 8,
        20..=28 => 12,
        _ => 16,
    };
    let magnitude = value.unscaled().unsigned_abs().to_le_bytes();
    let head = [
        value.precision,
        value.scale,
        0,
        u8::from(value.unscaled() >= 0),
    ];
    head.into_iter()
        .chain(magnitude.into_iter().take(words))
        .collect()
}

/// The reverse of `decimal_bytes`.
pub(super) fn decimal_from_bytes(bytes: &[u8]) -> Option<Decimal> {
    let ([precision, scale, _, sign], magnitude) = bytes.split_first_chunk()?;
    if !(1..=38).contains(precision) || scale > precision || magnitude.len() > 16 {
        return None;
    }
    let unscaled = magnitude
        .iter()
        .rev()
        .fold(0u128, |n, b| (n << 8) | u128::from(*b));
    if unscaled >= crate::decimal::power_of_ten(*precision).unsigned_abs() {
        return None;
    }
    let unscaled = unscaled.cast_signed();
    Some(Decimal::new(
        if *sign == 0 { -unscaled } else { unscaled },
        *precision,
        *scale,
    ))
}

pub(super) fn to_guid(value: &Value, from: DataType, to: DataType) -> Result<Value, ValueError> {
    match value {
        Value::Guid(_) => Ok(value.clone()),
        Value::Bytes(bytes) => {
            let mut guid = [0; 16];
            for (place, byte) in guid.iter_mut().zip(bytes) {
                *place = *byte;
            }
            Ok(Value::Guid(guid))
        }
        Value::Str(text) => parse_guid(text)
            .map(Value::Guid)
            .ok_or_else(|| ValueError::new(8169, 2, &[])),
        _ => Err(unexpected(from, to)),
    }
}

/// 36 characters, perhaps in braces; anything behind them is ignored.
fn parse_guid(text: &str) -> Option<[u8; 16]> {
    let body = match text.trim_start().strip_prefix('{') {
        Some(rest) if rest.as_bytes().get(36) == Some(&b'}') => rest,
        Some(_) => return None,
        None => text.trim_start(),
    };
    let body = body.get(..36)?.as_bytes();
    let mut digits = Vec::with_capacity(32);
    for (at, byte) in body.iter().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if *byte != b'-' {
                return None;
            }
        } else {
            digits.push(char::from(*byte).to_digit(16)? as u8);
        }
    }
    let (pairs, _) = digits.as_chunks::<2>();
    let shown: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    Some(super::text::swap_guid(*shown.first_chunk()?))
}
