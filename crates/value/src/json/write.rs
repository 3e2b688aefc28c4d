//! Values of T-SQL as JSON.

use crate::{DataType, Value};
use std::fmt::Write;

/// A string in quotes, with escapes as STRING_ESCAPE writes them.
pub fn put_string(out: &mut String, text: &str) {
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'/' => "\\/",
            0x8 => "\\b",
            0xC => "\\f",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1F => "",
            _ => continue,
        };
        out.push_str(text.get(plain..at).unwrap_or_default());
        plain = at + 1;
        match escape {
            "" => {
                // Writing to a String does not fail.
                let _ = write!(out, "\\u{byte:04x}");
            }
            escape => out.push_str(escape),
        }
    }
    out.push_str(text.get(plain..).unwrap_or_default());
    out.push('"');
}

/// `"key":`
pub fn put_key(out: &mut String, key: &str) {
    put_string(out, key);
    out.push(':');
}

/// A value whose text form is `text`: numbers and truth values as they are, everything else in quotes.
pub fn put_value(out: &mut String, value: &Value, data_type: DataType, text: &str) {
    match (value, data_type) {
        (Value::Null, _) => out.push_str("null"),
        (Value::Bit(is), _) => out.push_str(if *is { "true" } else { "false" }),
        (_, data_type) if is_number(data_type) => out.push_str(text),
        _ => put_string(out, text),
    }
}

fn is_number(data_type: DataType) -> bool {
    matches!(
        data_type,
        DataType::TinyInt
            | DataType::SmallInt
            | DataType::Int
            | DataType::BigInt
            | DataType::Decimal { .. }
            | DataType::Money
            | DataType::SmallMoney
            | DataType::Real
            | DataType::Float
    )
}
