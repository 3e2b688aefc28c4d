//! Conversions to integers, decimals, money and floats.

use super::unexpected;
use crate::decimal::{ParseDecimalError, round_div};
use crate::{DataType, Decimal, Value, ValueError};

const MONEY_SCALE: u8 = 4;
/// `datetime` units in a day.
const DAY_TICKS: i128 = 25_920_000;

pub(super) fn to_integer(value: &Value, from: DataType, to: DataType) -> Result<Value, ValueError> {
    let overflow = || match (value, to) {
        (Value::Decimal(_), _) => ValueError::overflow("numeric", to),
        (Value::Real(v), _) => float_overflow(f64::from(*v), to),
        (Value::Float(v), _) => float_overflow(*v, to),
        (_, DataType::TinyInt | DataType::SmallInt) => match value.as_i64() {
            Some(number) => ValueError::new(220, 2, &[&to.name(), &number]),
            None => ValueError::expression_overflow(to),
        },
        _ => ValueError::expression_overflow(to),
    };
    let number = match value {
        Value::Str(text) => return text_to_integer(text, from, to),
        Value::Bytes(bytes) => low_bytes(bytes, to),
        Value::Decimal(v) if to == DataType::Bit => i64::from(!v.is_zero()),
        Value::Decimal(v) => i64::try_from(v.to_i128_truncated()).map_err(|_| overflow())?,
        Value::Money(v) => round_money(*v, to),
        Value::SmallMoney(v) => round_money(i64::from(*v), to),
        Value::Real(_) | Value::Float(_) => {
            let number = value.as_f64().unwrap_or(0.0);
            match to {
                DataType::Bit => i64::from(number != 0.0),
                _ if number.is_finite() && number.abs() < 9.3e18 => number as i64,
                _ => return Err(overflow()),
            }
        }
        Value::DateTime(_) | Value::SmallDateTime(_) => {
            let ticks = day_ticks(value).ok_or_else(|| unexpected(from, to))?;
            (ticks + DAY_TICKS / 2).div_euclid(DAY_TICKS) as i64
        }
        other => other.as_i64().ok_or_else(|| unexpected(from, to))?,
    };
    Value::integer(number, to).ok_or_else(overflow)
}

fn float_overflow(value: f64, to: DataType) -> ValueError {
    match to {
        DataType::BigInt => ValueError::overflow("float", to),
        _ => ValueError::new(232, 3, &[&to.name(), &format!("{value:.6}")]),
    }
}

/// Money rounds to whole numbers, other numbers are cut; for bit any amount counts.
fn round_money(units: i64, to: DataType) -> i64 {
    if to == DataType::Bit {
        i64::from(units != 0)
    } else {
        round_div(i128::from(units), 10_000) as i64
    }
}

/// The last bytes of a binary string as a big-endian number of the target's size.
fn low_bytes(bytes: &[u8], to: DataType) -> i64 {
    let size = match to {
        DataType::Bit => bytes.len(),
        DataType::TinyInt => 1,
        DataType::SmallInt => 2,
        DataType::Int => 4,
        _ => 8,
    };
    let tail = bytes
        .get(bytes.len().saturating_sub(size)..)
        .unwrap_or_default();
    if to == DataType::Bit {
        return i64::from(tail.iter().any(|b| *b != 0));
    }
    let number = tail.iter().fold(0u64, |n, b| (n << 8) | u64::from(*b));
    match to {
        DataType::SmallInt => i64::from(number as i16),
        DataType::Int => i64::from(number as i32),
        _ => number.cast_signed(),
    }
}

fn text_to_integer(text: &str, from: DataType, to: DataType) -> Result<Value, ValueError> {
    let bad = || match to {
        DataType::BigInt => ValueError::conversion(from, to),
        _ => ValueError::bad_text(from, text, to),
    };
    let body = text.trim_matches([' ', '\t', '\n', '\r']);
    if to == DataType::Bit {
        if body.eq_ignore_ascii_case("true") {
            return Ok(Value::Bit(true));
        }
        if body.eq_ignore_ascii_case("false") {
            return Ok(Value::Bit(false));
        }
    }
    let (negative, digits) = match body.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(bad());
    }
    if to == DataType::Bit {
        return Ok(Value::Bit(digits.iter().any(|d| *d != b'0')));
    }
    let overflow = || match to {
        DataType::TinyInt => ValueError::new(244, 1, &[&from.name(), &text, &"INT1"]),
        DataType::SmallInt => ValueError::new(244, 2, &[&from.name(), &text, &"INT2"]),
        DataType::Int => ValueError::new(248, 1, &[&from.name(), &text]),
        _ => ValueError::expression_overflow(to),
    };
    let number = digits.iter().try_fold(0i64, |n, d| {
        let digit = i64::from(d - b'0');
        n.checked_mul(10)?
            .checked_add(if negative { -digit } else { digit })
    });
    Value::integer(number.ok_or_else(overflow)?, to).ok_or_else(overflow)
}

/// `datetime` units since 1900-01-01.
fn day_ticks(value: &Value) -> Option<i128> {
    Some(match value {
        Value::DateTime(v) => i128::from(v.days) * DAY_TICKS + i128::from(v.ticks),
        Value::SmallDateTime(v) => i128::from(v.days) * DAY_TICKS + i128::from(v.minutes) * 18_000,
        _ => return None,
    })
}

pub(super) fn to_decimal(
    value: &Value,
    from: DataType,
    precision: u8,
    scale: u8,
) -> Result<Value, ValueError> {
    let to = DataType::Decimal { precision, scale };
    let number = match value {
        Value::Str(text) => Decimal::parse(text, precision, scale).map_err(|e| match e {
            ParseDecimalError::Syntax => ValueError::conversion(from, to),
            ParseDecimalError::Overflow => ValueError::overflow(from.name(), to),
        })?,
        Value::Real(v) => Decimal::from_f64(f64::from(*v), precision, scale)?,
        Value::Float(v) => Decimal::from_f64(*v, precision, scale)?,
        Value::Bytes(bytes) => super::binary::decimal_from_bytes(bytes)
            .ok_or_else(|| ValueError::conversion(from, to))?
            .rescale(precision, scale)?,
        Value::DateTime(_) | Value::SmallDateTime(_) => {
            let ticks = day_ticks(value).ok_or_else(|| unexpected(from, to))?;
            let unscaled = round_div(ticks * 10_000_000_000_000_000, DAY_TICKS);
            Decimal::new(unscaled, 38, 16).rescale(precision, scale)?
        }
        other => {
            let exact = other.as_decimal().ok_or_else(|| unexpected(from, to))?;
            exact.rescale_from(precision, scale, from.error_name())?
        }
    };
    Ok(Value::Decimal(number))
}

pub(super) fn to_money(value: &Value, from: DataType, to: DataType) -> Result<Value, ValueError> {
    let small = to == DataType::SmallMoney;
    let units: Option<i128> = match value {
        Value::Str(text) => match parse_money(text) {
            Ok(units) => Some(units),
            Err(ParseDecimalError::Overflow) => None,
            Err(ParseDecimalError::Syntax) => {
                return Err(ValueError::new(if small { 293 } else { 235 }, 0, &[]));
            }
        },
        Value::Real(_) | Value::Float(_) => {
            let scaled = value.as_f64().map(|v| v * 10_000.0);
            scaled.filter(|v| v.abs() < 1e30).map(|v| v.round() as i128)
        }
        Value::Bytes(bytes) => Some(i128::from(low_bytes(
            bytes,
            if small {
                DataType::Int
            } else {
                DataType::BigInt
            },
        ))),
        Value::DateTime(_) | Value::SmallDateTime(_) => {
            day_ticks(value).map(|t| round_div(t * 10_000, DAY_TICKS))
        }
        other => {
            let exact = other.as_decimal().ok_or_else(|| unexpected(from, to))?;
            exact.rescale(38, MONEY_SCALE).ok().map(Decimal::unscaled)
        }
    };
    let overflow = || match value {
        Value::Str(_) => ValueError::new(if small { 294 } else { 236 }, 0, &[]),
        _ => ValueError::overflow(from.error_name(), to),
    };
    let units = units.ok_or_else(overflow)?;
    if small {
        i32::try_from(units)
            .map(Value::SmallMoney)
            .map_err(|_| overflow())
    } else {
        i64::try_from(units)
            .map(Value::Money)
            .map_err(|_| overflow())
    }
}

/// Money text: currency sign, thousands commas, sign before or after the currency sign; in 1/10,000.
pub fn parse_money(text: &str) -> Result<i128, ParseDecimalError> {
    const CURRENCY: [char; 8] = ['$', '£', '¤', '¥', '€', '₩', '₪', '₹'];
    let mut rest = text.trim_matches([' ', '\t', '\n', '\r']);
    let mut negative = false;
    let (mut signed, mut marked) = (false, false);
    while let Some(first) = rest.chars().next() {
        match first {
            '-' | '+' if !signed => {
                signed = true;
                negative = first == '-';
            }
            c if CURRENCY.contains(&c) && !marked => marked = true,
            ' ' => {}
            _ => break,
        }
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    if rest.is_empty() {
        return Ok(0);
    }
    let (whole, fraction) = rest.split_once('.').unwrap_or((rest, ""));
    if whole.starts_with(',') || fraction.contains(',') {
        return Err(ParseDecimalError::Syntax);
    }
    let digits = format!("{}.{fraction}", whole.replace(',', ""));
    let number = if digits == "." {
        Decimal::zero(38, MONEY_SCALE)
    } else {
        Decimal::parse(&digits, 38, MONEY_SCALE)?
    };
    if digits.starts_with(['-', '+']) {
        return Err(ParseDecimalError::Syntax);
    }
    Ok(if negative {
        -number.unscaled()
    } else {
        number.unscaled()
    })
}

/// Money as text: style 0 two digits, 1 with commas, 2 and 126 four digits.
pub fn format_money(units: i64, style: i32) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let exact = u128::from(units.unsigned_abs());
    if matches!(style, 2 | 126) {
        return format!("{sign}{}.{:04}", exact / 10_000, exact % 10_000);
    }
    let cents = (exact + 50) / 100;
    let whole = (cents / 100).to_string();
    let whole = if style == 1 {
        with_commas(&whole)
    } else {
        whole
    };
    format!(
        "{}{whole}.{:02}",
        if cents == 0 { "" } else { sign },
        cents % 100
    )
}

fn with_commas(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(super) fn to_float(value: &Value, from: DataType, to: DataType) -> Result<Value, ValueError> {
    let number = match value {
        Value::Str(text) => parse_float(text).ok_or_else(|| ValueError::conversion(from, to))?,
        Value::DateTime(_) | Value::SmallDateTime(_) => {
            day_ticks(value).ok_or_else(|| unexpected(from, to))? as f64 / DAY_TICKS as f64
        }
        other => other.as_f64().ok_or_else(|| unexpected(from, to))?,
    };
    Value::approximate(number, to).ok_or_else(|| match value {
        Value::Str(_) => ValueError::overflow(from.name(), to),
        _ => ValueError::new(232, 2, &[&to.name(), &format!("{number:.6}")]),
    })
}

/// Digits with point and exponent; the empty string is 0. Infinity comes out for what is too large.
fn parse_float(text: &str) -> Option<f64> {
    let body = text.trim_matches([' ', '\t', '\n', '\r']);
    if body.is_empty() || body == "-" || body == "+" {
        return Some(0.0);
    }
    let plain =
        |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E' | b'd' | b'D');
    if !body.bytes().all(plain) || !body.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    let body = body.replace(['d', 'D'], "e");
    // A bare exponent mark counts as exponent zero.
    body.parse()
        .ok()
        .or_else(|| body.strip_suffix(['e', 'E']).and_then(|b| b.parse().ok()))
}
