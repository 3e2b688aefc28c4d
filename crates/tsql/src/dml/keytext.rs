//! A key as the duplicate-key messages show it: `(1, abc, <NULL>)`.

use crate::access::{IndexAccess, TableAccess};
use daruma_value::convert::{ConvertContext, convert};
use daruma_value::{DataType, Value};

/// Longest list shown.
const TEXT_CHARS_MAX: usize = 900;

/// The key as duplicate errors show it: `(1, abc, <NULL>)`.
pub fn key_text(access: &TableAccess, index: &IndexAccess, values: &[Value]) -> String {
    let mut text = String::from("(");
    for (i, column) in index.key.iter().enumerate() {
        if i > 0 {
            text.push_str(", ");
        }
        let data_type = access
            .def()
            .columns
            .get(column.ordinal)
            .map_or(column.data_type, |c| c.data_type);
        text.push_str(&value_text(
            values.get(column.ordinal).unwrap_or(&Value::Null),
            data_type,
        ));
    }
    if let Some((end, _)) = text.char_indices().nth(TEXT_CHARS_MAX) {
        text.truncate(end);
    }
    text.push(')');
    text
}

pub(super) fn value_text(value: &Value, data_type: DataType) -> String {
    match value {
        Value::Null => "<NULL>".to_string(),
        Value::Str(text) => text.to_string(),
        Value::Bytes(bytes) => {
            let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            format!("0x{digits}")
        }
        Value::Guid(_) => shown(value, data_type).to_lowercase(),
        _ => shown(value, data_type),
    }
}

fn shown(value: &Value, data_type: DataType) -> String {
    match convert(
        value,
        data_type,
        DataType::NVARCHAR_MAX,
        None,
        &ConvertContext::default(),
    ) {
        Ok(Value::Str(text)) => text.to_string(),
        _ => String::new(),
    }
}
