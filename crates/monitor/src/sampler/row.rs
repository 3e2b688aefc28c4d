//! Columns of a row, whatever type the server gave them.

use daruma_client::value;
use daruma_value::Value;

/// A row being read from left to right.
pub struct Row<'a> {
    values: std::slice::Iter<'a, Value>,
}

impl<'a> Row<'a> {
    /// Begins behind the column that names the part.
    pub fn of(values: &'a [Value]) -> Row<'a> {
        let mut values = values.iter();
        let _tag = values.next();
        Row { values }
    }

    /// The next column as a whole number; `None` for NULL and what is none.
    pub fn integer(&mut self) -> Option<i64> {
        integer(self.values.next()?)
    }

    /// The next column as a number; NaN for NULL and what is none.
    pub fn number(&mut self) -> f64 {
        self.values.next().map_or(f64::NAN, number)
    }

    /// The next column as text without the blanks at its end; empty for NULL.
    pub fn text(&mut self) -> String {
        self.values
            .next()
            .map_or(String::new(), |v| value::text(v).trim_end().to_string())
    }

    /// The next column as bytes; empty for NULL.
    pub fn bytes(&mut self) -> Vec<u8> {
        match self.values.next() {
            Some(Value::Bytes(bytes)) => bytes.clone(),
            _ => Vec::new(),
        }
    }
}

/// A whole number of any type.
pub fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Bit(on) => Some(i64::from(*on)),
        Value::TinyInt(n) => Some(i64::from(*n)),
        Value::SmallInt(n) => Some(i64::from(*n)),
        Value::Int(n) => Some(i64::from(*n)),
        Value::BigInt(n) => Some(*n),
        Value::Null => None,
        other => value::text(other).parse().ok(),
    }
}

/// A number of any type, NaN where there is none.
pub fn number(value: &Value) -> f64 {
    match value {
        Value::Float(n) => *n,
        Value::Real(n) => f64::from(*n),
        Value::BigInt(n) => *n as f64,
        Value::Int(n) => f64::from(*n),
        Value::Null => f64::NAN,
        other => value::text(other).parse().unwrap_or(f64::NAN),
    }
}

/// The name of the part a row belongs to.
pub fn tag(values: &[Value]) -> &str {
    match values.first() {
        Some(Value::Str(text)) => text.trim_end(),
        _ => "",
    }
}
