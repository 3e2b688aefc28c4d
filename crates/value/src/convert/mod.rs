//! CAST, CONVERT and assignment: a value of one type as a value of another.
//!
//! Theory: the target type chooses the chapter (`number`, `datetime`, `text`, `binary`); each chapter reads whatever
//! source it allows. Lengths come last: CAST cuts silently, assignment to a column refuses to lose anything but
//! trailing blanks or zero bytes.
//!
//! Invariants
//! 1. Whatever `types::conversion_kind` disallows is error 529 here; everything else succeeds or fails by its value.
//! 2. A result always fits its type: length, precision, scale, range.
//!
//! Read next: `text`.

mod binary;
mod codepage;
mod datetime;
mod number;
mod text;

#[cfg(test)]
mod tests;

pub use codepage::{decode_code_page, encode_code_page, encoded_len};
pub use number::{format_money, parse_money};
pub use text::{format_float, text_byte_at, text_units};

use crate::collation::CollationId;
use crate::temporal::DateFormat;
use crate::types::check_explicit;
use crate::{DataType, Value, ValueError, VariantValue, xml};

/// Session settings that conversions depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConvertContext {
    /// SET DATEFORMAT.
    pub date_format: DateFormat,
    /// Its code page decides which characters `varchar` can hold, and how many bytes each takes.
    pub collation: CollationId,
}

/// The column an assignment goes to, for error 2628.
#[derive(Clone, Copy, Debug)]
pub struct ColumnName<'a> {
    pub table: &'a str,
    pub column: &'a str,
}

/// What to do with text or bytes that are too long.
#[derive(Clone, Copy)]
enum Fit<'a> {
    Cut,
    Refuse(Option<ColumnName<'a>>),
}

/// CAST and CONVERT. `style` is CONVERT's third argument.
pub fn convert(
    value: &Value,
    from: DataType,
    to: DataType,
    style: Option<i32>,
    context: &ConvertContext,
) -> Result<Value, ValueError> {
    if !wants_plain_blanks(from, style) && is_final(value, from, to) {
        return Ok(value.clone());
    }
    run(value, from, to, style, context, Fit::Cut)
}

/// As `convert`, for a value that is no longer needed.
pub fn convert_owned(
    value: Value,
    from: DataType,
    to: DataType,
    style: Option<i32>,
    context: &ConvertContext,
) -> Result<Value, ValueError> {
    if !wants_plain_blanks(from, style) && is_final(&value, from, to) {
        return Ok(value);
    }
    run(&value, from, to, style, context, Fit::Cut)
}

/// TRY_CAST and TRY_CONVERT: NULL where the value does not convert; impossible type pairs stay errors.
pub fn try_convert(
    value: &Value,
    from: DataType,
    to: DataType,
    style: Option<i32>,
    context: &ConvertContext,
) -> Result<Value, ValueError> {
    match convert(value, from, to, style, context) {
        Err(error) if error.is_try_null() => Ok(Value::Null),
        done => done,
    }
}

/// Assignment to a column: as CAST, but text and bytes that do not fit are error 2628 (8152 without a name).
pub fn fit_to_column(
    value: Value,
    from: DataType,
    to: DataType,
    context: &ConvertContext,
    column: Option<ColumnName<'_>>,
) -> Result<Value, ValueError> {
    if is_final(&value, from, to) {
        return Ok(value);
    }
    run(&value, from, to, None, context, Fit::Refuse(column))
}

/// Is the value already what the target wants? Then assignment moves it and nothing else.
fn is_final(value: &Value, from: DataType, to: DataType) -> bool {
    use DataType::*;
    match (value, to) {
        (Value::Null, _) => true,
        // UTF-8 never takes fewer bytes than the units of either kind of text.
        (Value::Str(text), VarChar(len)) => {
            text.is_ascii() && (len.is_max() || text.len() <= usize::from(len.0))
        }
        (Value::Str(text), NVarChar(len)) => len.is_max() || text.len() <= usize::from(len.0),
        (Value::Str(text), Char(len) | NChar(len)) => {
            text.is_ascii() && text.len() == usize::from(len.0)
        }
        (Value::Bytes(bytes), VarBinary(len)) => {
            from.is_binary() && (len.is_max() || bytes.len() <= usize::from(len.0))
        }
        (Value::Bytes(bytes), Binary(len)) => from.is_binary() && bytes.len() == usize::from(len.0),
        (Value::Decimal(v), Decimal { precision, scale }) => {
            v.precision == precision && v.scale == scale
        }
        (Value::Time(v), Time { scale }) => v.scale == scale,
        (Value::DateTime2(v), DateTime2 { scale }) => v.scale == scale,
        (Value::DateTimeOffset(v), DateTimeOffset { scale }) => v.utc.scale == scale,
        (_, Char(_) | NChar(_) | VarChar(_) | NVarChar(_) | Binary(_) | VarBinary(_)) => false,
        (_, Decimal { .. } | Time { .. } | DateTime2 { .. } | DateTimeOffset { .. }) => false,
        _ => from == to,
    }
}

/// Style 1 gives blanks of XML as they are.
fn wants_plain_blanks(from: DataType, style: Option<i32>) -> bool {
    from == DataType::Xml && style == Some(1)
}

fn run(
    value: &Value,
    from: DataType,
    to: DataType,
    style: Option<i32>,
    context: &ConvertContext,
    fit: Fit<'_>,
) -> Result<Value, ValueError> {
    if let Value::Variant(inner) = value
        && to != DataType::Variant
    {
        check_explicit(inner.data_type, to)?;
        return leaf(&inner.value, inner.data_type, to, style, context, fit);
    }
    check_explicit(from, to)?;
    leaf(value, from, to, style, context, fit)
}

fn leaf(
    value: &Value,
    from: DataType,
    to: DataType,
    style: Option<i32>,
    context: &ConvertContext,
    fit: Fit<'_>,
) -> Result<Value, ValueError> {
    use DataType::*;
    match to {
        Bit | TinyInt | SmallInt | Int | BigInt => number::to_integer(value, from, to),
        Decimal { precision, scale } => number::to_decimal(value, from, precision, scale),
        SmallMoney | Money => number::to_money(value, from, to),
        Real | Float => number::to_float(value, from, to),
        Date
        | Time { .. }
        | SmallDateTime
        | DateTime
        | DateTime2 { .. }
        | DateTimeOffset { .. } => datetime::to_temporal(value, from, to, style, context),
        Char(_) | VarChar(_) | NChar(_) | NVarChar(_) | Text | NText => {
            let plain = match value {
                Value::Str(normal) if wants_plain_blanks(from, style) => {
                    Some(Value::str(xml::with_plain_blanks(normal)?))
                }
                _ => None,
            };
            text::to_text(
                plain.as_ref().unwrap_or(value),
                from,
                to,
                style,
                context,
                fit,
            )
        }
        Xml => match text::to_text(value, from, to, style, context, fit)? {
            Value::Str(text) if from == Xml => Ok(Value::Str(text)),
            Value::Str(text) => {
                // Styles 1 and 3 keep text of blanks alone, 2 and 3 take declarations.
                let keeps_blanks = style.is_some_and(|s| s & 1 == 1);
                let reads_dtd = style.is_some_and(|s| s & 2 == 2);
                let is_unicode = from.is_unicode();
                let normal = xml::normal_form(&text, is_unicode, keeps_blanks, reads_dtd)?;
                Ok(Value::str(normal))
            }
            other => Ok(other),
        },
        Binary(_) | VarBinary(_) | Image | RowVersion | HierarchyId | Geography | Geometry => {
            binary::to_binary(value, from, to, style, context, fit)
        }
        UniqueIdentifier => binary::to_guid(value, from, to),
        Variant => Ok(to_variant(value, from)),
    }
}

fn to_variant(value: &Value, from: DataType) -> Value {
    match value {
        Value::Variant(_) => value.clone(),
        inner => Value::Variant(Box::new(VariantValue {
            data_type: from,
            value: inner.clone(),
        })),
    }
}

/// A source that the chart allows but whose value cannot be what its type says.
fn unexpected(from: DataType, to: DataType) -> ValueError {
    ValueError::conversion(from, to)
}
