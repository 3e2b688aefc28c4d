//! Fixed-length columns: size, write and read of each type.

use super::Cell;
use crate::temporal::{DAY_MAX, TICKS_PER_DAY, is_valid_datetime, is_valid_offset};
use crate::{DataType, DateTime, DateTime2, DateTimeOffset, Decimal, SmallDateTime, Time, Value};

/// Decimals of up to this many digits fit 4 and 8 bytes; larger ones take 16.
const DIGITS_IN_4: u8 = 9;
const DIGITS_IN_8: u8 = 18;

/// Ticks of a day take the low 40 bits of a word, days the 24 above.
const TICK_BITS: u32 = 40;
const MINUTES_PER_DAY: u16 = 1_440;

/// Bytes in the fixed section; 0 for variable types.
pub(super) const fn size(data_type: DataType) -> usize {
    use DataType::*;
    match data_type {
        Bit | TinyInt => 1,
        SmallInt => 2,
        Int | SmallMoney | Real | SmallDateTime => 4,
        BigInt | Money | Float | DateTime | DateTime2 { .. } | RowVersion => 8,
        Date => 3,
        Time { .. } => 5,
        DateTimeOffset { .. } => 10,
        UniqueIdentifier => 16,
        Decimal { precision, .. } => decimal_size(precision),
        _ => 0,
    }
}

const fn decimal_size(precision: u8) -> usize {
    if precision <= DIGITS_IN_4 {
        4
    } else if precision <= DIGITS_IN_8 {
        8
    } else {
        16
    }
}

/// Writes into the column's place; `None` when the value is of another type.
#[inline]
pub(super) fn write(cell: Cell<'_>, data_type: DataType, place: &mut [u8]) -> Option<()> {
    let Cell::Value(value) = cell else {
        return None;
    };
    match (data_type, value) {
        (DataType::Bit, Value::Bit(v)) => put(place, [u8::from(*v)]),
        (DataType::TinyInt, Value::TinyInt(v)) => put(place, [*v]),
        (DataType::SmallInt, Value::SmallInt(v)) => put(place, v.to_le_bytes()),
        (DataType::Int, Value::Int(v)) | (DataType::SmallMoney, Value::SmallMoney(v)) => {
            put(place, v.to_le_bytes())
        }
        (DataType::BigInt, Value::BigInt(v)) | (DataType::Money, Value::Money(v)) => {
            put(place, v.to_le_bytes())
        }
        (DataType::Real, Value::Real(v)) => put(place, v.to_le_bytes()),
        (DataType::Float, Value::Float(v)) => put(place, v.to_le_bytes()),
        (DataType::Decimal { precision, scale }, Value::Decimal(v)) => {
            write_decimal(*v, precision, scale, place)
        }
        (DataType::Date, Value::Date(v)) => {
            let [a, b, c, _] = v.to_le_bytes();
            put(place, [a, b, c])
        }
        (DataType::Time { .. }, Value::Time(v)) => {
            let [a, b, c, d, e, ..] = v.ticks.to_le_bytes();
            put(place, [a, b, c, d, e])
        }
        (DataType::SmallDateTime, Value::SmallDateTime(v)) => put(
            place,
            (u32::from(v.days) << 16 | u32::from(v.minutes)).to_le_bytes(),
        ),
        (DataType::DateTime, Value::DateTime(v)) => put(
            place,
            (u64::from(v.days.cast_unsigned()) << 32 | u64::from(v.ticks)).to_le_bytes(),
        ),
        (DataType::DateTime2 { .. }, Value::DateTime2(v)) => put(place, pack(v).to_le_bytes()),
        (DataType::DateTimeOffset { .. }, Value::DateTimeOffset(v)) => {
            let (word, offset) = place.split_at_mut_checked(8)?;
            put(word, pack(&v.utc).to_le_bytes())?;
            put(offset, v.offset_minutes.to_le_bytes())
        }
        (DataType::UniqueIdentifier, Value::Guid(v)) => put(place, *v),
        (DataType::RowVersion, Value::Bytes(v)) => {
            put(place, <[u8; 8]>::try_from(v.as_slice()).ok()?)
        }
        _ => None,
    }
}

fn put<const N: usize>(place: &mut [u8], bytes: [u8; N]) -> Option<()> {
    *place.first_chunk_mut::<N>()? = bytes;
    Some(())
}

fn write_decimal(value: Decimal, precision: u8, scale: u8, place: &mut [u8]) -> Option<()> {
    let unscaled = if value.scale == scale && value.precision <= precision {
        value.unscaled()
    } else {
        value.rescale(precision, scale).ok()?.unscaled()
    };
    match decimal_size(precision) {
        4 => put(place, i32::try_from(unscaled).ok()?.to_le_bytes()),
        8 => put(place, i64::try_from(unscaled).ok()?.to_le_bytes()),
        _ => put(place, unscaled.to_le_bytes()),
    }
}

fn pack(value: &DateTime2) -> u64 {
    u64::from(value.days.cast_unsigned()) << TICK_BITS | value.ticks
}

fn unpack(word: u64, scale: u8) -> DateTime2 {
    DateTime2 {
        // Three bytes of which the first bit is a sign.
        days: (word.cast_signed() >> TICK_BITS) as i32,
        ticks: word & ((1 << TICK_BITS) - 1),
        scale,
    }
}

fn some_if<T>(value: T, holds: bool) -> Option<T> {
    holds.then_some(value)
}

/// Reads a present column; `None` on bytes that are too short, or that are no value of the type.
#[inline]
pub(super) fn read(data_type: DataType, bytes: &[u8]) -> Option<Value> {
    Some(match data_type {
        DataType::Bit => Value::Bit(*bytes.first()? != 0),
        DataType::TinyInt => Value::TinyInt(*bytes.first()?),
        DataType::SmallInt => Value::SmallInt(i16::from_le_bytes(*bytes.first_chunk()?)),
        DataType::Int => Value::Int(i32::from_le_bytes(*bytes.first_chunk()?)),
        DataType::SmallMoney => Value::SmallMoney(i32::from_le_bytes(*bytes.first_chunk()?)),
        DataType::BigInt => Value::BigInt(i64::from_le_bytes(*bytes.first_chunk()?)),
        DataType::Money => Value::Money(i64::from_le_bytes(*bytes.first_chunk()?)),
        DataType::Real => Value::Real(f32::from_le_bytes(*bytes.first_chunk()?)),
        DataType::Float => Value::Float(f64::from_le_bytes(*bytes.first_chunk()?)),
        DataType::Decimal { precision, scale } => Value::Decimal(Decimal::new(
            read_unscaled(data_type, bytes)?,
            precision,
            scale,
        )),
        DataType::Date => {
            let [a, b, c] = *bytes.first_chunk()?;
            let days = i32::from_le_bytes([a, b, c, 0]);
            Value::Date(some_if(days, (0..=DAY_MAX).contains(&days))?)
        }
        DataType::Time { scale } => {
            let [a, b, c, d, e] = *bytes.first_chunk()?;
            let ticks = u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]);
            let ticks = some_if(ticks, ticks < TICKS_PER_DAY)?;
            Value::Time(Time { ticks, scale })
        }
        DataType::SmallDateTime => {
            let word = u32::from_le_bytes(*bytes.first_chunk()?);
            let minutes = word as u16;
            Value::SmallDateTime(SmallDateTime {
                days: (word >> 16) as u16,
                minutes: some_if(minutes, minutes < MINUTES_PER_DAY)?,
            })
        }
        DataType::DateTime => {
            let word = u64::from_le_bytes(*bytes.first_chunk()?);
            let value = DateTime {
                days: ((word >> 32) as u32).cast_signed(),
                ticks: word as u32,
            };
            Value::DateTime(some_if(value, is_valid_datetime(value))?)
        }
        DataType::DateTime2 { scale } => {
            let value = unpack(u64::from_le_bytes(*bytes.first_chunk()?), scale);
            let is_day = (0..=DAY_MAX).contains(&value.days);
            Value::DateTime2(some_if(value, is_day && value.ticks < TICKS_PER_DAY)?)
        }
        DataType::DateTimeOffset { scale } => {
            let utc = unpack(u64::from_le_bytes(*bytes.first_chunk()?), scale);
            let offset_minutes = i16::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
            // The local time is within the calendar; the instant may lie a day outside.
            let is_day = (-1..=DAY_MAX + 1).contains(&utc.days) && utc.ticks < TICKS_PER_DAY;
            let value = DateTimeOffset {
                utc,
                offset_minutes,
            };
            Value::DateTimeOffset(some_if(value, is_day && is_valid_offset(offset_minutes))?)
        }
        DataType::UniqueIdentifier => Value::Guid(*bytes.first_chunk()?),
        DataType::RowVersion => Value::Bytes(bytes.first_chunk::<8>()?.to_vec()),
        _ => return None,
    })
}

#[inline]
pub(super) fn read_i64(data_type: DataType, bytes: &[u8]) -> Option<i64> {
    Some(match data_type {
        DataType::Bit | DataType::TinyInt => i64::from(*bytes.first()?),
        DataType::SmallInt => i64::from(i16::from_le_bytes(*bytes.first_chunk()?)),
        DataType::Int | DataType::SmallMoney => {
            i64::from(i32::from_le_bytes(*bytes.first_chunk()?))
        }
        DataType::BigInt | DataType::Money => i64::from_le_bytes(*bytes.first_chunk()?),
        _ => return None,
    })
}

#[inline]
pub(super) fn read_f64(data_type: DataType, bytes: &[u8]) -> Option<f64> {
    match data_type {
        DataType::Real => Some(f64::from(f32::from_le_bytes(*bytes.first_chunk()?))),
        DataType::Float => Some(f64::from_le_bytes(*bytes.first_chunk()?)),
        _ => None,
    }
}

#[inline]
pub(super) fn read_unscaled(data_type: DataType, bytes: &[u8]) -> Option<i128> {
    let DataType::Decimal { precision, .. } = data_type else {
        return None;
    };
    Some(match decimal_size(precision) {
        4 => i128::from(i32::from_le_bytes(*bytes.first_chunk()?)),
        8 => i128::from(i64::from_le_bytes(*bytes.first_chunk()?)),
        _ => i128::from_le_bytes(*bytes.first_chunk()?),
    })
}
