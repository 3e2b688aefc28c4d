//! sql_variant: base type, its properties, and a value without a length of its own.

use super::decode::bare_value;
use super::encode::Kind;
use super::numeric::wrong;
use super::{TypeInfo, WireCollation, type_token as t};
use crate::wire::Reader;
use crate::{Result, TdsError, TdsVersion};
use daruma_value::{DataType, Len, Value, VariantValue};

/// Longest character or binary content.
const CONTENT_BYTES_MAX: u16 = 8000;

/// Appends base type, properties and value. A value that is no variant travels under its natural type.
pub(super) fn put(value: &Value, collation: WireCollation, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Value::Variant(variant) => put_typed(variant.data_type, &variant.value, collation, out),
        plain => {
            let data_type = natural_type(plain).ok_or_else(|| wrong(plain, "sql_variant"))?;
            put_typed(data_type, plain, collation, out)
        }
    }
}

fn put_typed(
    data_type: DataType,
    value: &Value,
    collation: WireCollation,
    out: &mut Vec<u8>,
) -> Result<()> {
    let info = TypeInfo::for_column(data_type, false, collation, TdsVersion::V7_4);
    out.push(info.token);
    match info.token {
        t::CHAR | t::VARCHAR | t::NCHAR | t::NVARCHAR => {
            out.push(7);
            out.extend_from_slice(&info.collation.0);
            put_length(&info, out);
        }
        t::BINARY | t::VARBINARY => {
            out.push(2);
            put_length(&info, out);
        }
        t::NUMERIC_N => out.extend_from_slice(&[2, info.precision, info.scale]),
        t::TIME_N | t::DATETIME2_N | t::DATETIMEOFFSET_N => out.extend_from_slice(&[1, info.scale]),
        t::TEXT | t::NTEXT | t::IMAGE | t::XML | t::UDT | t::VARIANT => {
            return Err(wrong(value, "sql_variant"));
        }
        _ => out.push(0),
    }
    let at = out.len();
    Kind::of(&info).put(value, out)?;
    let (limit, found) = (usize::from(CONTENT_BYTES_MAX), out.len() - at);
    if found > limit {
        return Err(TdsError::TooLong {
            what: "sql_variant content",
            limit,
            found,
        });
    }
    Ok(())
}

fn put_length(info: &TypeInfo, out: &mut Vec<u8>) {
    let length = u16::try_from(info.max_bytes)
        .unwrap_or(u16::MAX)
        .min(CONTENT_BYTES_MAX);
    out.extend_from_slice(&length.to_le_bytes());
}

fn natural_type(value: &Value) -> Option<DataType> {
    Some(match value {
        Value::Bit(_) => DataType::Bit,
        Value::TinyInt(_) => DataType::TinyInt,
        Value::SmallInt(_) => DataType::SmallInt,
        Value::Int(_) => DataType::Int,
        Value::BigInt(_) => DataType::BigInt,
        Value::Decimal(n) => DataType::Decimal {
            precision: n.precision,
            scale: n.scale,
        },
        Value::SmallMoney(_) => DataType::SmallMoney,
        Value::Money(_) => DataType::Money,
        Value::Real(_) => DataType::Real,
        Value::Float(_) => DataType::Float,
        Value::Date(_) => DataType::Date,
        Value::Time(time) => DataType::Time { scale: time.scale },
        Value::SmallDateTime(_) => DataType::SmallDateTime,
        Value::DateTime(_) => DataType::DateTime,
        Value::DateTime2(at) => DataType::DateTime2 { scale: at.scale },
        Value::DateTimeOffset(at) => DataType::DateTimeOffset {
            scale: at.utc.scale,
        },
        Value::Str(_) => DataType::NVarChar(Len(CONTENT_BYTES_MAX / 2)),
        Value::Bytes(_) => DataType::VarBinary(Len(CONTENT_BYTES_MAX)),
        Value::Guid(_) => DataType::UniqueIdentifier,
        Value::Null | Value::Variant(_) => return None,
    })
}

/// `content` is the whole variant behind its length.
pub(super) fn decode(mut content: Reader<'_>) -> Result<Value> {
    let token = content.u8("sql_variant base type")?;
    let property_bytes = usize::from(content.u8("sql_variant property length")?);
    let mut properties = content.sub(property_bytes, "sql_variant properties")?;
    let info = base_info(token, &mut properties)?;
    properties.expect_end("sql_variant properties")?;
    let value = bare_value(&info, content.take_rest())?;
    Ok(Value::Variant(Box::new(VariantValue {
        data_type: info.data_type(),
        value,
    })))
}

fn base_info(token: u8, properties: &mut Reader<'_>) -> Result<TypeInfo> {
    let (data_type, collation) = match token {
        t::CHAR | t::VARCHAR | t::NCHAR | t::NVARCHAR => {
            let collation = WireCollation(properties.array("sql_variant collation")?);
            (
                character_type(token, properties.u16("sql_variant length")?),
                collation,
            )
        }
        t::BINARY => (
            DataType::Binary(bounded(properties.u16("sql_variant length")?)),
            WireCollation::NONE,
        ),
        t::VARBINARY => (
            DataType::VarBinary(bounded(properties.u16("sql_variant length")?)),
            WireCollation::NONE,
        ),
        _ => {
            // The rest describes itself as it does elsewhere, but for the size of a decimal, which is left out here.
            return match token {
                t::DECIMAL_N | t::NUMERIC_N => {
                    let bytes = [17, properties.u8("precision")?, properties.u8("scale")?];
                    TypeInfo::decode_after_token(
                        token,
                        &mut Reader::new(&bytes),
                        super::Place::Parameter,
                    )
                }
                t::GUID => Ok(TypeInfo::nullable(
                    DataType::UniqueIdentifier,
                    WireCollation::NONE,
                )),
                t::TIME_N
                | t::DATETIME2_N
                | t::DATETIMEOFFSET_N
                | t::DATE_N
                | t::INT1
                | t::BIT
                | t::INT2
                | t::INT4
                | t::INT8
                | t::SMALL_DATETIME
                | t::DATETIME
                | t::REAL
                | t::FLOAT
                | t::MONEY
                | t::SMALL_MONEY => {
                    TypeInfo::decode_after_token(token, properties, super::Place::Parameter)
                }
                found => {
                    let expected = "a type a variant may hold";
                    Err(TdsError::Unexpected {
                        what: "sql_variant base type",
                        expected,
                        found: found.into(),
                    })
                }
            };
        }
    };
    Ok(TypeInfo::nullable(data_type, collation))
}

fn character_type(token: u8, bytes: u16) -> DataType {
    let len = bounded(bytes);
    let units = Len((len.0 / 2).max(1));
    match token {
        t::CHAR => DataType::Char(len),
        t::VARCHAR => DataType::VarChar(len),
        t::NCHAR => DataType::NChar(units),
        _ => DataType::NVarChar(units),
    }
}

fn bounded(bytes: u16) -> Len {
    Len(bytes.clamp(1, CONTENT_BYTES_MAX))
}
