//! Bytes to values.

use super::info::Prefix;
use super::temporal::{DATE_DAYS_MAX, TICKS_PER_DAY, is_datetime_day, is_datetime_tick};
use super::{Place, TypeInfo, plp, type_token as t, variant};
use crate::wire::{Reader, codepage::CodePage, text};
use crate::{Result, TdsError};
use daruma_value::temporal::switch_offset;
use daruma_value::{DateTime, DateTime2, DateTimeOffset, Decimal, SmallDateTime, Time, Value};

const SHORT_NULL: u16 = u16::MAX;
const LONG_NULL: u32 = u32::MAX;
const TEXT_TIMESTAMP_BYTES: usize = 8;
const DECIMAL_MAGNITUDE_MAX: u128 = 10_u128.pow(38) - 1;
const OFFSET_MINUTES_MAX: i16 = 840;

/// One value under `info`, with whatever says its length.
pub(crate) fn decode_value(
    info: &TypeInfo,
    place: Place,
    reader: &mut Reader<'_>,
) -> Result<Value> {
    match info.prefix() {
        Prefix::Null => Ok(Value::Null),
        Prefix::Fixed(size) => bare_value(info, reader.take(size, "value")?),
        Prefix::Byte => match reader.b_varbyte("value")? {
            [] => Ok(Value::Null),
            bytes => bare_value(info, bytes),
        },
        Prefix::Short => match reader.u16("value length")? {
            SHORT_NULL => Ok(Value::Null),
            length => bare_value(info, reader.take(usize::from(length), "value")?),
        },
        Prefix::Plp => match plp::decode(reader)? {
            None => Ok(Value::Null),
            Some(bytes) => bare_value(info, &bytes),
        },
        Prefix::Long => decode_long(info, place, reader),
        Prefix::Variant => match reader.u32("sql_variant length")? {
            0 => Ok(Value::Null),
            length => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                variant::decode(reader.sub(length, "sql_variant")?)
            }
        },
    }
}

fn decode_long(info: &TypeInfo, place: Place, reader: &mut Reader<'_>) -> Result<Value> {
    if place == Place::Column {
        if reader.b_varbyte("text pointer")?.is_empty() {
            return Ok(Value::Null);
        }
        reader.take(TEXT_TIMESTAMP_BYTES, "text timestamp")?;
    }
    let length = reader.u32("text length")?;
    if length == LONG_NULL {
        return Ok(Value::Null);
    }
    bare_value(
        info,
        reader.take(usize::try_from(length).unwrap_or(usize::MAX), "text")?,
    )
}

/// The bytes of a value whose length is known.
pub(super) fn bare_value(info: &TypeInfo, bytes: &[u8]) -> Result<Value> {
    Ok(match info.token {
        t::BIT | t::BIT_N => Value::Bit(byte(bytes)? != 0),
        t::INT1 | t::INT2 | t::INT4 | t::INT8 | t::INT_N => integer(bytes, info.max_bytes)?,
        t::REAL | t::FLOAT | t::FLOAT_N => float(bytes, info.max_bytes)?,
        t::MONEY | t::SMALL_MONEY | t::MONEY_N => money(bytes, info.max_bytes)?,
        t::DATETIME | t::SMALL_DATETIME | t::DATETIME_N => datetime(bytes)?,
        t::GUID => Value::Guid(exactly(bytes, "uniqueidentifier")?),
        t::DECIMAL_N | t::NUMERIC_N | t::OLD_DECIMAL | t::OLD_NUMERIC => decimal(info, bytes)?,
        t::DATE_N => Value::Date(days(&exactly(bytes, "date")?)?),
        t::TIME_N => Value::Time(Time {
            ticks: ticks(bytes, info.scale)?,
            scale: info.scale,
        }),
        t::DATETIME2_N => Value::DateTime2(datetime2(bytes, info.scale)?),
        t::DATETIMEOFFSET_N => Value::DateTimeOffset(datetimeoffset(bytes, info.scale)?),
        t::CHAR | t::VARCHAR | t::TEXT | t::OLD_CHAR | t::OLD_VARCHAR => {
            Value::Str(info.collation.code_page().decode(bytes))
        }
        t::JSON => Value::Str(CodePage::Utf8.decode(bytes)),
        t::NCHAR | t::NVARCHAR | t::NTEXT => Value::Str(text::from_utf16(bytes, "character data")?),
        t::XML => Value::Str(text::from_utf16(
            bytes.strip_prefix(&[0xFF, 0xFE]).unwrap_or(bytes),
            "xml",
        )?),
        _ => Value::Bytes(bytes.to_vec()),
    })
}

fn exactly<const N: usize>(bytes: &[u8], what: &'static str) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| wrong_length(what, bytes))
}

fn wrong_length(what: &'static str, bytes: &[u8]) -> TdsError {
    TdsError::Unexpected {
        what,
        expected: "a length the type allows",
        found: bytes.len() as u64,
    }
}

fn out_of_range<T>(expected: &'static str) -> Result<T> {
    Err(TdsError::OutOfRange { expected })
}

fn byte(bytes: &[u8]) -> Result<u8> {
    exactly::<1>(bytes, "bit").map(|[byte]| byte)
}

/// A client may send fewer bytes than it declared; the declared size decides the variant.
fn integer(bytes: &[u8], declared_bytes: u32) -> Result<Value> {
    let what = "integer";
    let number = match bytes.len() {
        1 => i64::from(exactly::<1>(bytes, what).map(|[byte]| byte)?),
        2 => i64::from(i16::from_le_bytes(exactly(bytes, what)?)),
        4 => i64::from(i32::from_le_bytes(exactly(bytes, what)?)),
        8 => i64::from_le_bytes(exactly(bytes, what)?),
        _ => return Err(wrong_length(what, bytes)),
    };
    let value = match declared_bytes {
        1 => u8::try_from(number).ok().map(Value::TinyInt),
        2 => i16::try_from(number).ok().map(Value::SmallInt),
        4 => i32::try_from(number).ok().map(Value::Int),
        _ => Some(Value::BigInt(number)),
    };
    value.ok_or_else(|| wrong_length(what, bytes))
}

fn float(bytes: &[u8], declared_bytes: u32) -> Result<Value> {
    let number = match bytes.len() {
        4 => f64::from(f32::from_le_bytes(exactly(bytes, "real")?)),
        _ => f64::from_le_bytes(exactly(bytes, "float")?),
    };
    if !number.is_finite() {
        return out_of_range("float");
    }
    Ok(if declared_bytes == 4 {
        Value::Real(number as f32)
    } else {
        Value::Float(number)
    })
}

fn money(bytes: &[u8], declared_bytes: u32) -> Result<Value> {
    let units = match bytes.len() {
        4 => i64::from(i32::from_le_bytes(exactly(bytes, "smallmoney")?)),
        _ => {
            let [a, b, c, d, e, f, g, h] = exactly(bytes, "money")?;
            i64::from_le_bytes([e, f, g, h, a, b, c, d])
        }
    };
    match (declared_bytes, i32::try_from(units)) {
        (4, Ok(units)) => Ok(Value::SmallMoney(units)),
        (4, Err(_)) => out_of_range("smallmoney"),
        _ => Ok(Value::Money(units)),
    }
}

/// The length tells smalldatetime from datetime.
fn datetime(bytes: &[u8]) -> Result<Value> {
    if bytes.len() == 4 {
        let [a, b, c, d] = exactly(bytes, "smalldatetime")?;
        let at = SmallDateTime {
            days: u16::from_le_bytes([a, b]),
            minutes: u16::from_le_bytes([c, d]),
        };
        return if at.minutes < 1440 {
            Ok(Value::SmallDateTime(at))
        } else {
            out_of_range("smalldatetime")
        };
    }
    let [a, b, c, d, e, f, g, h] = exactly(bytes, "datetime")?;
    let at = DateTime {
        days: i32::from_le_bytes([a, b, c, d]),
        ticks: u32::from_le_bytes([e, f, g, h]),
    };
    if is_datetime_day(at.days) && is_datetime_tick(at.ticks) {
        Ok(Value::DateTime(at))
    } else {
        out_of_range("datetime")
    }
}

fn decimal(info: &TypeInfo, bytes: &[u8]) -> Result<Value> {
    let Some((sign, digits)) = bytes.split_first() else {
        return Err(wrong_length("decimal", bytes));
    };
    let mut wide = [0; 16];
    let Some(room) = wide.get_mut(..digits.len()) else {
        return Err(wrong_length("decimal", bytes));
    };
    room.copy_from_slice(digits);
    let magnitude = u128::from_le_bytes(wide);
    if magnitude > DECIMAL_MAGNITUDE_MAX {
        return out_of_range("decimal");
    }
    let number = i128::try_from(magnitude).unwrap_or(i128::MAX);
    let unscaled = if *sign == 0 { -number } else { number };
    Ok(Value::Decimal(Decimal::new(
        unscaled,
        info.precision,
        info.scale,
    )))
}

fn days(bytes: &[u8; 3]) -> Result<i32> {
    let [a, b, c] = *bytes;
    let days = i32::from_le_bytes([a, b, c, 0]);
    if days > DATE_DAYS_MAX {
        out_of_range("date")
    } else {
        Ok(days)
    }
}

fn ticks(bytes: &[u8], scale: u8) -> Result<u64> {
    let mut wide = [0; 8];
    match wide.get_mut(..bytes.len()) {
        Some(room) if (3..=5).contains(&bytes.len()) => room.copy_from_slice(bytes),
        _ => return Err(wrong_length("time", bytes)),
    }
    let unit = 10_u64.pow(u32::from(7_u8.saturating_sub(scale)));
    match u64::from_le_bytes(wide).checked_mul(unit) {
        Some(ticks) if ticks < TICKS_PER_DAY => Ok(ticks),
        _ => out_of_range("time"),
    }
}

fn datetime2(bytes: &[u8], scale: u8) -> Result<DateTime2> {
    let Some((time, date)) = bytes.split_last_chunk::<3>() else {
        return Err(wrong_length("datetime2", bytes));
    };
    Ok(DateTime2 {
        days: days(date)?,
        ticks: ticks(time, scale)?,
        scale,
    })
}

fn datetimeoffset(bytes: &[u8], scale: u8) -> Result<DateTimeOffset> {
    let Some((instant, offset)) = bytes.split_last_chunk::<2>() else {
        return Err(wrong_length("datetimeoffset", bytes));
    };
    let offset_minutes = i16::from_le_bytes(*offset);
    if !(-OFFSET_MINUTES_MAX..=OFFSET_MINUTES_MAX).contains(&offset_minutes) {
        return out_of_range("datetimeoffset");
    }
    match switch_offset(datetime2(instant, scale)?, offset_minutes) {
        Some(value) => Ok(value),
        None => out_of_range("datetimeoffset"),
    }
}
