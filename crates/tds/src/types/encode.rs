//! Values to bytes.

use super::info::{PLP, Prefix};
use super::numeric::{float, integer, pow10, scaled, wrong};
use super::temporal::{self, Moment};
use super::{Place, TypeInfo, plp, type_token as t, variant};
use crate::wire::codepage::CodePage;
use crate::wire::text::put_utf16;
use crate::{Result, TdsError};
use compact_str::{CompactString, ToCompactString};
use daruma_value::Value;

/// What SQL Server itself sends where a text pointer and a timestamp are due.
const DUMMY_POINTER: &[u8] = b"dummy textptr\0\0\0";
const DUMMY_TIMESTAMP: &[u8] = b"dummyTS\0";

/// Writes values of one column or parameter; prepared once.
#[derive(Clone, Debug)]
pub struct ValueEncoder {
    form: Form,
    kind: Kind,
    max_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Null,
    Fixed,
    Byte,
    Short,
    Plp,
    TextPointer,
    TextParameter,
    Variant,
}

/// The bytes of a value proper, whatever length stands before them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Null,
    Bit,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Real,
    Float,
    SmallMoney,
    Money,
    SmallDateTime,
    DateTime,
    Guid,
    Decimal {
        bytes: usize,
        precision: u8,
        scale: u8,
    },
    Date,
    Time {
        scale: u8,
    },
    DateTime2 {
        scale: u8,
    },
    DateTimeOffset {
        scale: u8,
    },
    /// Padded to this length.
    Bytes {
        pad: usize,
    },
    Char {
        page: CodePage,
        pad: usize,
    },
    Utf16 {
        pad: usize,
    },
    Variant(super::WireCollation),
}

impl ValueEncoder {
    /// An encoder of values of this type, in a row or as a parameter.
    pub fn new(info: &TypeInfo, place: Place) -> ValueEncoder {
        let form = match info.prefix() {
            Prefix::Null => Form::Null,
            Prefix::Fixed(_) => Form::Fixed,
            Prefix::Byte => Form::Byte,
            Prefix::Short => Form::Short,
            Prefix::Plp => Form::Plp,
            Prefix::Long if place == Place::Column => Form::TextPointer,
            Prefix::Long => Form::TextParameter,
            Prefix::Variant => Form::Variant,
        };
        let max_bytes = usize::try_from(info.max_bytes).unwrap_or(usize::MAX);
        ValueEncoder {
            form,
            kind: Kind::of(info),
            max_bytes,
        }
    }

    /// Appends `value` with its length.
    pub fn encode(&self, value: &Value, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        let written = if value.is_null() {
            self.put_null(out)
        } else {
            self.put(value, out)
        };
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    /// A fixed type has no way to say NULL, not even by a bitmap.
    pub(crate) fn is_fixed(&self) -> bool {
        self.form == Form::Fixed
    }

    /// How many bytes a NULL takes in a ROW.
    pub(crate) fn null_bytes(&self) -> usize {
        match self.form {
            Form::Null | Form::Fixed => 0,
            Form::Byte | Form::TextPointer => 1,
            Form::Short => 2,
            Form::Plp => 8,
            Form::TextParameter | Form::Variant => 4,
        }
    }

    fn put_null(&self, out: &mut Vec<u8>) -> Result<()> {
        match self.form {
            Form::Null => {}
            Form::Fixed => return Err(TdsError::NullNotAllowed),
            Form::Byte | Form::TextPointer => out.push(0),
            Form::Short => out.extend_from_slice(&[0xFF; 2]),
            Form::Plp => plp::put_null(out),
            Form::TextParameter => out.extend_from_slice(&[0xFF; 4]),
            Form::Variant => out.extend_from_slice(&[0; 4]),
        }
        Ok(())
    }

    fn put(&self, value: &Value, out: &mut Vec<u8>) -> Result<()> {
        match self.form {
            Form::Null => Err(wrong(value, "the NULL type")),
            Form::Fixed => self.kind.put(value, out),
            Form::Byte => self.put_counted::<1>(value, out),
            Form::Short => self.put_counted::<2>(value, out),
            Form::Plp => {
                let at = out.len();
                out.extend_from_slice(&[0; plp::HEAD_BYTES]);
                self.kind.put(value, out)?;
                plp::finish(out, at)
            }
            Form::TextPointer => {
                out.push(DUMMY_POINTER.len() as u8);
                out.extend_from_slice(DUMMY_POINTER);
                out.extend_from_slice(DUMMY_TIMESTAMP);
                self.put_counted::<4>(value, out)
            }
            Form::TextParameter | Form::Variant => self.put_counted::<4>(value, out),
        }
    }

    /// The value behind a length of `N` bytes.
    fn put_counted<const N: usize>(&self, value: &Value, out: &mut Vec<u8>) -> Result<()> {
        let at = out.len();
        out.extend_from_slice(&[0; N]);
        self.kind.put(value, out)?;
        let found = out.len() - at - N;
        if found > self.max_bytes {
            return Err(TdsError::TooLong {
                what: "value",
                limit: self.max_bytes,
                found,
            });
        }
        if let (Some(room), Some(length)) = (
            out.get_mut(at..at + N),
            (found as u64).to_le_bytes().get(..N),
        ) {
            room.copy_from_slice(length);
        }
        Ok(())
    }
}

impl Kind {
    /// How values of this type are written.
    pub fn of(info: &TypeInfo) -> Kind {
        let pad = usize::try_from(info.max_bytes).unwrap_or(0);
        let page = || info.collation.code_page();
        let scale = info.scale;
        match (info.token, info.max_bytes) {
            (t::NULL, _) => Kind::Null,
            (t::BIT | t::BIT_N, _) => Kind::Bit,
            (t::INT1, _) | (t::INT_N, 1) => Kind::TinyInt,
            (t::INT2, _) | (t::INT_N, 2) => Kind::SmallInt,
            (t::INT4, _) | (t::INT_N, 4) => Kind::Int,
            (t::INT8 | t::INT_N, _) => Kind::BigInt,
            (t::REAL, _) | (t::FLOAT_N, 4) => Kind::Real,
            (t::FLOAT | t::FLOAT_N, _) => Kind::Float,
            (t::SMALL_MONEY, _) | (t::MONEY_N, 4) => Kind::SmallMoney,
            (t::MONEY | t::MONEY_N, _) => Kind::Money,
            (t::SMALL_DATETIME, _) | (t::DATETIME_N, 4) => Kind::SmallDateTime,
            (t::DATETIME | t::DATETIME_N, _) => Kind::DateTime,
            (t::GUID, _) => Kind::Guid,
            (t::DECIMAL_N | t::NUMERIC_N | t::OLD_DECIMAL | t::OLD_NUMERIC, _) => Kind::Decimal {
                bytes: pad.saturating_sub(1).min(16),
                precision: info.precision,
                scale,
            },
            (t::DATE_N, _) => Kind::Date,
            (t::TIME_N, _) => Kind::Time { scale },
            (t::DATETIME2_N, _) => Kind::DateTime2 { scale },
            (t::DATETIMEOFFSET_N, _) => Kind::DateTimeOffset { scale },
            (t::CHAR | t::OLD_CHAR, _) => Kind::Char { page: page(), pad },
            (t::VARCHAR | t::OLD_VARCHAR | t::TEXT, _) => Kind::Char {
                page: page(),
                pad: 0,
            },
            (t::JSON, _) => Kind::Char {
                page: CodePage::Utf8,
                pad: 0,
            },
            (t::NCHAR, _) => Kind::Utf16 { pad },
            (t::NVARCHAR | t::NTEXT | t::XML, _) => Kind::Utf16 { pad: 0 },
            (t::BINARY | t::OLD_BINARY, max) if max != PLP => Kind::Bytes { pad },
            (t::VARIANT, _) => Kind::Variant(info.collation),
            _ => Kind::Bytes { pad: 0 },
        }
    }

    /// The common pairs first; whatever needs a conversion goes the slower way.
    pub fn put(self, value: &Value, out: &mut Vec<u8>) -> Result<()> {
        match (self, value) {
            (Kind::Int, Value::Int(n)) => out.extend_from_slice(&n.to_le_bytes()),
            (Kind::BigInt, Value::BigInt(n)) => out.extend_from_slice(&n.to_le_bytes()),
            (Kind::SmallInt, Value::SmallInt(n)) => out.extend_from_slice(&n.to_le_bytes()),
            (Kind::TinyInt, Value::TinyInt(n)) => out.push(*n),
            (Kind::Bit, Value::Bit(bit)) => out.push(u8::from(*bit)),
            (Kind::Float, Value::Float(n)) => out.extend_from_slice(&n.to_le_bytes()),
            (Kind::Real, Value::Real(n)) => out.extend_from_slice(&n.to_le_bytes()),
            (Kind::Money, Value::Money(n)) => put_money(*n, out),
            (Kind::SmallMoney, Value::SmallMoney(n)) => out.extend_from_slice(&n.to_le_bytes()),
            (Kind::Guid, Value::Guid(bytes)) => out.extend_from_slice(bytes),
            (Kind::DateTime, Value::DateTime(at)) => {
                out.extend_from_slice(&at.days.to_le_bytes());
                out.extend_from_slice(&at.ticks.to_le_bytes());
            }
            (Kind::Utf16 { pad }, Value::Str(text)) => put_padded_utf16(text, pad, out),
            (Kind::Char { page, pad }, Value::Str(text)) => put_padded_char(text, page, pad, out),
            (Kind::Bytes { pad }, Value::Bytes(bytes)) => put_padded_bytes(bytes, pad, out),
            _ => return self.put_converted(value, out),
        }
        Ok(())
    }

    fn put_converted(self, value: &Value, out: &mut Vec<u8>) -> Result<()> {
        match (self, value) {
            (Kind::Variant(collation), value) => return variant::put(value, collation, out),
            // A variant meeting a column of another type: its content counts.
            (_, Value::Variant(inner)) if !matches!(inner.value, Value::Variant(_)) => {
                return self.put(&inner.value, out);
            }
            _ => {}
        }
        match self {
            Kind::Bit => out.push(u8::from(integer(value, "bit")? != 0)),
            Kind::TinyInt => out.extend_from_slice(&whole::<u8>(value, "tinyint")?.to_le_bytes()),
            Kind::SmallInt => {
                out.extend_from_slice(&whole::<i16>(value, "smallint")?.to_le_bytes())
            }
            Kind::Int => out.extend_from_slice(&whole::<i32>(value, "int")?.to_le_bytes()),
            Kind::BigInt => out.extend_from_slice(&whole::<i64>(value, "bigint")?.to_le_bytes()),
            Kind::Real => out.extend_from_slice(&real(value)?.to_le_bytes()),
            Kind::Float => out.extend_from_slice(&float(value, "float")?.to_le_bytes()),
            Kind::SmallMoney => {
                let units: i32 = narrowed(scaled(value, 4, "smallmoney")?, "smallmoney")?;
                out.extend_from_slice(&units.to_le_bytes());
            }
            Kind::Money => put_money(narrowed(scaled(value, 4, "money")?, "money")?, out),
            Kind::Decimal {
                bytes,
                precision,
                scale,
            } => put_decimal(value, bytes, precision, scale, out)?,
            Kind::SmallDateTime => {
                let (days, minutes) = Moment::of(value, "smalldatetime")?.small_datetime()?;
                out.extend_from_slice(&days.to_le_bytes());
                out.extend_from_slice(&minutes.to_le_bytes());
            }
            Kind::DateTime => {
                let (days, ticks) = Moment::of(value, "datetime")?.datetime()?;
                out.extend_from_slice(&days.to_le_bytes());
                out.extend_from_slice(&ticks.to_le_bytes());
            }
            Kind::Date => Moment::of(value, "date")?.put_date("date", out)?,
            Kind::Time { scale } => Moment::of(value, "time")?.put_time(scale, out),
            Kind::DateTime2 { scale } => {
                Moment::of(value, "datetime2")?.put_datetime2(scale, "datetime2", out)?
            }
            Kind::DateTimeOffset { scale } => {
                let expected = "datetimeoffset";
                Moment::of(value, expected)?.put_datetimeoffset(scale, expected, out)?;
            }
            Kind::Guid => out.extend_from_slice(&guid(value)?),
            Kind::Bytes { pad } => put_padded_bytes(binary(value)?, pad, out),
            Kind::Char { page, pad } => put_padded_char(&character(value)?, page, pad, out),
            Kind::Utf16 { pad } => put_padded_utf16(&character(value)?, pad, out),
            Kind::Null | Kind::Variant(_) => return Err(wrong(value, "the NULL type")),
        }
        Ok(())
    }
}

fn whole<N: TryFrom<i128>>(value: &Value, expected: &'static str) -> Result<N> {
    narrowed(integer(value, expected)?, expected)
}

fn narrowed<N: TryFrom<i128>>(number: i128, expected: &'static str) -> Result<N> {
    N::try_from(number).map_err(|_| TdsError::OutOfRange { expected })
}

fn real(value: &Value) -> Result<f32> {
    let number = float(value, "real")? as f32;
    if number.is_finite() {
        Ok(number)
    } else {
        Err(TdsError::OutOfRange { expected: "real" })
    }
}

fn put_money(units: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&((units >> 32) as i32).to_le_bytes());
    out.extend_from_slice(&(units as u32).to_le_bytes());
}

fn put_decimal(
    value: &Value,
    bytes: usize,
    precision: u8,
    scale: u8,
    out: &mut Vec<u8>,
) -> Result<()> {
    let number = scaled(value, scale, "decimal")?;
    let magnitude = number.unsigned_abs();
    let limit = pow10(precision).map_or(0, i128::unsigned_abs);
    let fits = bytes >= 16 || magnitude >> (bytes * 8) == 0;
    if magnitude >= limit || !fits {
        return Err(TdsError::OutOfRange {
            expected: "decimal",
        });
    }
    out.push(u8::from(number >= 0));
    out.extend(magnitude.to_le_bytes().iter().take(bytes));
    Ok(())
}

fn put_padded_bytes(bytes: &[u8], pad: usize, out: &mut Vec<u8>) {
    let end = out.len() + pad;
    out.extend_from_slice(bytes);
    if out.len() < end {
        out.resize(end, 0);
    }
}

fn put_padded_char(text: &str, page: CodePage, pad: usize, out: &mut Vec<u8>) {
    let end = out.len() + pad;
    page.encode(text, out);
    if out.len() < end {
        out.resize(end, b' ');
    }
}

fn put_padded_utf16(text: &str, pad: usize, out: &mut Vec<u8>) {
    let end = out.len() + pad;
    put_utf16(out, text);
    while out.len() < end {
        out.extend_from_slice(&[b' ', 0]);
    }
}

fn guid(value: &Value) -> Result<[u8; 16]> {
    match value {
        Value::Guid(bytes) => Ok(*bytes),
        Value::Bytes(bytes) => {
            <[u8; 16]>::try_from(bytes.as_slice()).map_err(|_| wrong(value, "uniqueidentifier"))
        }
        other => Err(wrong(other, "uniqueidentifier")),
    }
}

fn binary(value: &Value) -> Result<&[u8]> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        Value::Guid(bytes) => Ok(bytes),
        other => Err(wrong(other, "binary data")),
    }
}

/// Numbers without a fraction and dates have one obvious text; other conversions belong to the engine.
fn character(value: &Value) -> Result<CompactString> {
    Ok(match value {
        Value::Str(text) => text.clone(),
        Value::Bit(bit) => u8::from(*bit).to_compact_string(),
        Value::TinyInt(n) => n.to_compact_string(),
        Value::SmallInt(n) => n.to_compact_string(),
        Value::Int(n) => n.to_compact_string(),
        Value::BigInt(n) => n.to_compact_string(),
        other => temporal::text(other)?,
    })
}

/// The variant's name, for errors.
pub(super) const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "NULL",
        Value::Bit(_) => "bit",
        Value::TinyInt(_) => "tinyint",
        Value::SmallInt(_) => "smallint",
        Value::Int(_) => "int",
        Value::BigInt(_) => "bigint",
        Value::Decimal(_) => "decimal",
        Value::SmallMoney(_) => "smallmoney",
        Value::Money(_) => "money",
        Value::Real(_) => "real",
        Value::Float(_) => "float",
        Value::Date(_) => "date",
        Value::Time(_) => "time",
        Value::SmallDateTime(_) => "smalldatetime",
        Value::DateTime(_) => "datetime",
        Value::DateTime2(_) => "datetime2",
        Value::DateTimeOffset(_) => "datetimeoffset",
        Value::Str(_) => "character data",
        Value::Bytes(_) => "binary data",
        Value::Guid(_) => "uniqueidentifier",
        Value::Variant(_) => "sql_variant",
    }
}
