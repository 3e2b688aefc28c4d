//! SET TEXTSIZE: values of the unlimited types are cut on their way to the client.

use super::execution::Execution;
use crate::sink::OutputColumn;
use daruma_value::convert::encoded_len;
use daruma_value::{DataType, Value};

/// A column of an unlimited type in a result, while there is a limit.
pub(crate) struct CutColumn {
    position: usize,
    /// UTF-16, with two bytes for a unit; otherwise the code page.
    wide: bool,
    code_page: u16,
    bytes_max: usize,
}

impl Execution<'_> {
    /// -1 and the greatest number mean no limit: then no row is looked at.
    pub(super) fn note_cut_columns(&self, columns: &[OutputColumn]) {
        let limit = self.state.settings.borrow().textsize;
        let mut cut = self.cut.borrow_mut();
        cut.clear();
        if !(0..i32::MAX).contains(&limit) {
            return;
        }
        let large = columns
            .iter()
            .enumerate()
            .filter(|(_, c)| c.data_type.is_large() && c.data_type != DataType::Xml);
        cut.extend(large.map(|(position, column)| CutColumn {
            position,
            wide: column.data_type.is_unicode(),
            code_page: column.collation.code_page(),
            bytes_max: limit as usize,
        }));
    }

    /// The row with what is too long cut; `None` when it stays as it is.
    pub(super) fn cut_row(&self, row: &[Value]) -> Option<Vec<Value>> {
        let cut = self.cut.borrow();
        let mut shorter: Option<Vec<Value>> = None;
        for column in cut.iter() {
            let value = row.get(column.position);
            if let Some(value) = value.and_then(|v| column.shortened(v)) {
                let row = shorter.get_or_insert_with(|| row.to_vec());
                if let Some(place) = row.get_mut(column.position) {
                    *place = value;
                }
            }
        }
        shorter
    }
}

impl CutColumn {
    fn shortened(&self, value: &Value) -> Option<Value> {
        match value {
            Value::Bytes(bytes) => bytes
                .get(..self.bytes_max)
                .filter(|_| bytes.len() > self.bytes_max)
                .map(|kept| Value::Bytes(kept.to_vec())),
            Value::Str(text) => {
                let mut left = self.bytes_max;
                let mut end = 0;
                for c in text.chars() {
                    let bytes = match self.wide {
                        true => c.len_utf16() * 2,
                        false => encoded_len(c, self.code_page),
                    };
                    match left.checked_sub(bytes) {
                        Some(rest) => left = rest,
                        None => return text.get(..end).map(Value::str),
                    }
                    end += c.len_utf8();
                }
                None
            }
            _ => None,
        }
    }
}
