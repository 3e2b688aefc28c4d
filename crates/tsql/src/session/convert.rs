//! Conversions between values and declared types, with the session's settings.

use crate::error::Result;
use crate::host::Host;
use crate::messages;
use daruma_value::convert::{ConvertContext, convert, convert_owned};
use daruma_value::types::check_implicit;
use daruma_value::{CollationId, DataType, Value};

/// Settings that a conversion depends on; the code page is looked up where it matters.
fn context(value: &Value, to: DataType, host: &dyn Host) -> ConvertContext {
    let in_code_page = to.is_character() && !to.is_unicode();
    let plain = match value {
        Value::Str(text) => text.is_ascii(),
        Value::Bytes(_) | Value::Variant(_) => false,
        _ => true,
    };
    ConvertContext {
        date_format: host.settings().dateformat,
        collation: match in_code_page && !plain {
            true => host.collation(host.current_database()),
            false => CollationId::DEFAULT,
        },
    }
}

/// Assignment to a variable or parameter: implicit conversion; text that is too long is cut.
pub(crate) fn assign(value: Value, from: DataType, to: DataType, host: &dyn Host) -> Result<Value> {
    match (&value, from, to) {
        (Value::Null, ..) => return Ok(Value::Null),
        // Counters of loops: nothing to convert, and no setting to ask for.
        (Value::Int(_), DataType::Int, DataType::Int)
        | (Value::BigInt(_), DataType::BigInt, DataType::BigInt) => return Ok(value),
        _ => {}
    }
    check_implicit(from, to)?;
    let context = context(&value, to, host);
    Ok(convert_owned(value, from, to, None, &context)?)
}

/// Passing to a parameter: as `assign`, but whatever cannot be converted is error 8114.
pub(crate) fn pass(value: Value, from: DataType, to: DataType, host: &dyn Host) -> Result<Value> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    check_implicit(from, to)?;
    let error = || messages::error_state(8114, 5, &[&from.name(), &to.name()]);
    let context = context(&value, to, host);
    convert_owned(value, from, to, None, &context).map_err(|_| error())
}

/// As text, `None` for NULL.
pub(crate) fn to_text(value: &Value, from: DataType) -> Result<Option<String>> {
    match convert(
        value,
        from,
        DataType::NVARCHAR_MAX,
        None,
        &ConvertContext::default(),
    )? {
        Value::Str(text) => Ok(Some(text.to_string())),
        _ => Ok(None),
    }
}

/// As int; NULL counts as 0.
pub(crate) fn to_int(value: &Value, from: DataType) -> Result<i32> {
    match convert(value, from, DataType::Int, None, &ConvertContext::default())? {
        Value::Int(number) => Ok(number),
        _ => Ok(0),
    }
}

/// Natural type of a value whose declared type is not known: results of system functions.
pub(crate) fn natural_type(value: &Value) -> DataType {
    match value {
        Value::Null | Value::Int(_) => DataType::Int,
        Value::Bit(_) => DataType::Bit,
        Value::TinyInt(_) => DataType::TinyInt,
        Value::SmallInt(_) => DataType::SmallInt,
        Value::BigInt(_) => DataType::BigInt,
        Value::Decimal(d) => DataType::Decimal {
            precision: d.precision,
            scale: d.scale,
        },
        Value::SmallMoney(_) => DataType::SmallMoney,
        Value::Money(_) => DataType::Money,
        Value::Real(_) => DataType::Real,
        Value::Float(_) => DataType::Float,
        Value::Date(_) => DataType::Date,
        Value::Time(t) => DataType::Time { scale: t.scale },
        Value::SmallDateTime(_) => DataType::SmallDateTime,
        Value::DateTime(_) => DataType::DateTime,
        Value::DateTime2(d) => DataType::DateTime2 { scale: d.scale },
        Value::DateTimeOffset(d) => DataType::DateTimeOffset { scale: d.utc.scale },
        Value::Str(_) => DataType::NVARCHAR_MAX,
        Value::Bytes(_) => DataType::VARBINARY_MAX,
        Value::Guid(_) => DataType::UniqueIdentifier,
        Value::Variant(v) => v.data_type,
    }
}
