//! Fields of a file as values, and values as literals.

use daruma_value::convert::{ConvertContext, convert};
use daruma_value::{DataType, Value, ValueError};
use thiserror::Error;

/// A field of a file that is no value of its column.
#[derive(Debug, Error)]
pub enum FieldError {
    #[error("{field:?} is not 0x and pairs of hexadecimal digits")]
    Hexadecimal { field: String },
    #[error("{field:?}: {source}")]
    Value { field: String, source: ValueError },
}

/// An empty field is NULL; bytes are 0x and hexadecimal digits; everything else converts as T-SQL converts text.
pub fn value(field: &str, data_type: DataType) -> Result<Value, FieldError> {
    if field.is_empty() {
        return Ok(Value::Null);
    }
    if data_type.is_binary() {
        let bytes = field.strip_prefix("0x").and_then(bytes);
        return bytes
            .map(Value::Bytes)
            .ok_or_else(|| FieldError::Hexadecimal {
                field: field.into(),
            });
    }
    let text = Value::str(field);
    let converted = convert(
        &text,
        DataType::NVARCHAR_MAX,
        data_type,
        None,
        &ConvertContext::default(),
    );
    converted.map_err(|source| FieldError::Value {
        field: field.into(),
        source,
    })
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    digits
        .chunks_exact(2)
        .map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.last()?)?))
        .collect()
}

/// The field in a statement.
pub fn literal(field: &str, data_type: DataType) -> String {
    if field.is_empty() {
        "NULL".into()
    } else if data_type.is_binary() || data_type.is_numeric() {
        field.into()
    } else {
        format!("N'{}'", field.replace('\'', "''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_value::{DateTime, Decimal, Len, Time};

    #[test]
    fn fields_become_values() {
        let of = |field, data_type| value(field, data_type).expect("converts");
        assert_eq!(of("", DataType::Int), Value::Null);
        assert_eq!(of("-7", DataType::SmallInt), Value::SmallInt(-7));
        assert_eq!(of("1", DataType::Bit), Value::Bit(true));
        assert_eq!(of("2024.994", DataType::Money), Value::Money(20_249_940));
        assert_eq!(
            of(
                "1.50",
                DataType::Decimal {
                    precision: 8,
                    scale: 2
                }
            ),
            Value::Decimal(Decimal::new(150, 8, 2))
        );
        assert_eq!(
            of("1900-01-02 00:00:01.5", DataType::DateTime),
            Value::DateTime(DateTime {
                days: 1,
                ticks: 450
            })
        );
        assert_eq!(
            of("07:00:00", DataType::Time { scale: 7 }),
            Value::Time(Time {
                ticks: 252_000_000_000,
                scale: 7
            })
        );
        assert_eq!(
            of("0x00fF", DataType::VarBinary(Len(9))),
            Value::Bytes(vec![0, 255])
        );
        assert_eq!(of("é", DataType::NChar(Len(1))), Value::str("é"));
        assert!(matches!(
            value("0x0", DataType::VARBINARY_MAX),
            Err(FieldError::Hexadecimal { .. })
        ));
        assert!(matches!(
            value("x", DataType::Int),
            Err(FieldError::Value { .. })
        ));
    }

    #[test]
    fn fields_become_literals() {
        assert_eq!(literal("", DataType::Int), "NULL");
        assert_eq!(literal("5", DataType::Money), "5");
        assert_eq!(literal("0xFF", DataType::VARBINARY_MAX), "0xFF");
        assert_eq!(literal("it's", DataType::NVarChar(Len(9))), "N'it''s'");
    }
}
