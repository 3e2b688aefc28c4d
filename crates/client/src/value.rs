//! Values as text, in the manner of sqlcmd, and as JSON.

use daruma_tds::token::Column;
use daruma_value::{DataType, Value, temporal};
use std::fmt::Write;

/// Shown for NULL in tables.
pub const NULL: &str = "NULL";

/// Text of a value that is not NULL; NULL is empty.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bit(on) => u8::from(*on).to_string(),
        Value::TinyInt(n) => n.to_string(),
        Value::SmallInt(n) => n.to_string(),
        Value::Int(n) => n.to_string(),
        Value::BigInt(n) => n.to_string(),
        Value::Decimal(decimal) => fixed_point(decimal.unscaled(), decimal.scale),
        Value::SmallMoney(units) => fixed_point((*units).into(), 4),
        Value::Money(units) => fixed_point((*units).into(), 4),
        Value::Real(number) => float(f64::from(*number), &format!("{number:e}")),
        Value::Float(number) => float(*number, &format!("{number:e}")),
        Value::Date(_) | Value::Time(_) | Value::DateTime2(_) | Value::DateTimeOffset(_) => {
            temporal_text(value, 121)
        }
        Value::DateTime(_) => temporal_text(value, 121),
        Value::SmallDateTime(_) => temporal_text(value, 120),
        Value::Str(text) => text.to_string(),
        Value::Bytes(bytes) => hex(bytes),
        Value::Guid(bytes) => guid(bytes),
        Value::Variant(variant) => text(&variant.value),
    }
}

/// A JSON value: numbers bare, text in quotes, dates as ISO 8601.
pub fn json(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bit(on) => on.to_string(),
        Value::Real(n) if !n.is_finite() => "null".into(),
        Value::Float(n) if !n.is_finite() => "null".into(),
        Value::Variant(variant) => json(&variant.value),
        Value::DateTime(_)
        | Value::SmallDateTime(_)
        | Value::DateTime2(_)
        | Value::DateTimeOffset(_) => {
            quoted(&temporal::format(value, Some(126)).unwrap_or_else(|| text(value)))
        }
        Value::Date(_) | Value::Time(_) | Value::Str(_) | Value::Bytes(_) | Value::Guid(_) => {
            quoted(&text(value))
        }
        _ => text(value),
    }
}

/// A JSON string.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Numbers stand at the right end of their column.
pub fn is_numeric(column: &Column) -> bool {
    column.data_type().is_numeric()
}

/// Is the column of a type without a useful maximum length?
pub fn is_large(column: &Column) -> bool {
    column.data_type().is_large()
}

/// Character and binary types whose declared length the `-Y` flag cuts.
pub fn has_length(column: &Column) -> bool {
    use DataType as D;
    matches!(
        column.data_type(),
        D::Char(_) | D::VarChar(_) | D::NChar(_) | D::NVarChar(_) | D::Variant
    )
}

fn fixed_point(unscaled: i128, scale: u8) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = unscaled.unsigned_abs();
    let scale = usize::from(scale);
    match 10_u128.checked_pow(u32::try_from(scale).unwrap_or(u32::MAX)) {
        Some(unit) if scale > 0 => format!("{sign}{}.{:0scale$}", digits / unit, digits % unit),
        _ => format!("{sign}{digits}"),
    }
}

/// All digits that count; an exponent for numbers that would be long without. `scientific` is Rust's `1.5e20`.
fn float(number: f64, scientific: &str) -> String {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !number.is_finite() || number == 0.0 {
        return number.abs().to_string();
    }
    if (-5..=15).contains(&exponent) {
        return plain(mantissa, exponent);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// `1.5` and 2 give `150`.
fn plain(mantissa: &str, exponent: i32) -> String {
    let (sign, mantissa) = mantissa
        .strip_prefix('-')
        .map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let Ok(whole) = usize::try_from(exponent + 1) else {
        let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
        return format!("{sign}0.{}{digits}", "0".repeat(zeros));
    };
    match digits.split_at_checked(whole) {
        None => format!("{sign}{digits}{}", "0".repeat(whole - digits.len())),
        Some(("", fraction)) => format!("{sign}0.{fraction}"),
        Some((digits, "")) => format!("{sign}{digits}"),
        Some((digits, fraction)) => format!("{sign}{digits}.{fraction}"),
    }
}

fn temporal_text(value: &Value, style: i32) -> String {
    temporal::format(value, Some(style)).unwrap_or_default()
}

/// Bytes as `0x` and hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 + bytes.len() * 2);
    out.push_str("0x");
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02X}");
    }
    out
}

/// The first three groups are stored with their bytes reversed.
fn guid(bytes: &[u8; 16]) -> String {
    const ORDER: [&[usize]; 5] = [
        &[3, 2, 1, 0],
        &[5, 4],
        &[7, 6],
        &[8, 9],
        &[10, 11, 12, 13, 14, 15],
    ];
    let group = |group: &[usize]| {
        group
            .iter()
            .filter_map(|at| bytes.get(*at))
            .map(|byte| format!("{byte:02X}"))
            .collect::<String>()
    };
    ORDER.map(group).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_value::{DateTime, DateTime2, DateTimeOffset, Decimal, SmallDateTime, Time};

    #[test]
    fn numbers() {
        assert_eq!(text(&Value::Bit(true)), "1");
        assert_eq!(text(&Value::Decimal(Decimal::new(-5, 10, 2))), "-0.05");
        assert_eq!(
            text(&Value::Decimal(Decimal::new(109_846_381_399_888, 38, 6))),
            "109846381.399888"
        );
        assert_eq!(text(&Value::Decimal(Decimal::new(42, 10, 0))), "42");
        assert_eq!(text(&Value::Money(15_000)), "1.5000");
        assert_eq!(text(&Value::SmallMoney(-1)), "-0.0001");
        for (number, expected) in [
            (0.1, "0.1"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (123_456.789, "123456.789"),
            (1e15, "1000000000000000"),
            (1e100, "1e+100"),
            (-2.5e-9, "-2.5e-09"),
            (0.00012, "0.00012"),
            (0.0, "0"),
        ] {
            assert_eq!(text(&Value::Float(number)), expected);
        }
        assert_eq!(text(&Value::Real(0.1)), "0.1");
    }

    #[test]
    fn dates_and_times() {
        assert_eq!(
            text(&Value::DateTime(DateTime { days: 0, ticks: 1 })),
            "1900-01-01 00:00:00.003"
        );
        assert_eq!(
            text(&Value::SmallDateTime(SmallDateTime {
                days: 1,
                minutes: 61
            })),
            "1900-01-02 01:01:00"
        );
        assert_eq!(text(&Value::Date(0)), "0001-01-01");
        assert_eq!(
            text(&Value::Time(Time {
                ticks: 252_000_000_000,
                scale: 7
            })),
            "07:00:00.0000000"
        );
        let utc = DateTime2 {
            days: 0,
            ticks: 0,
            scale: 0,
        };
        assert_eq!(text(&Value::DateTime2(utc)), "0001-01-01 00:00:00");
        let offset = DateTimeOffset {
            utc: DateTime2 {
                days: 10,
                ticks: 0,
                scale: 2,
            },
            offset_minutes: 90,
        };
        assert_eq!(
            text(&Value::DateTimeOffset(offset)),
            "0001-01-11 01:30:00.00 +01:30"
        );
    }

    #[test]
    fn bytes_and_guids() {
        assert_eq!(text(&Value::Bytes(vec![0, 255])), "0x00FF");
        let bytes = [
            0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD,
            0xEE, 0xFF,
        ];
        assert_eq!(
            text(&Value::Guid(bytes)),
            "00112233-4455-6677-8899-AABBCCDDEEFF"
        );
    }

    #[test]
    fn json_values() {
        assert_eq!(json(&Value::Null), "null");
        assert_eq!(json(&Value::Bit(false)), "false");
        assert_eq!(json(&Value::str("a\"b\n")), r#""a\"b\n""#);
        assert_eq!(json(&Value::Money(15_000)), "1.5000");
        assert_eq!(
            json(&Value::DateTime(DateTime { days: 0, ticks: 0 })),
            "\"1900-01-01T00:00:00\""
        );
        assert_eq!(json(&Value::Float(1e100)), "1e+100");
    }
}
