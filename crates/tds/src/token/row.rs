//! ROW and NBCROW: the hot path of every result.

use super::{Column, token_byte};
use crate::types::{Place, ValueEncoder, decode_value};
use crate::wire::Reader;
use crate::{Result, TdsError, TdsVersion};
use daruma_value::Value;

/// Writes rows of one result; prepared from its columns.
#[derive(Clone, Debug)]
pub struct RowEncoder {
    columns: Vec<ValueEncoder>,
    /// Bytes of an NBCROW's bitmap; 0 when the client does not know NBCROW.
    bitmap_bytes: usize,
}

impl RowEncoder {
    /// An encoder of rows with these columns.
    pub fn new(columns: &[Column], version: TdsVersion) -> RowEncoder {
        let bitmap_bytes = if version.has_nbc_row() {
            columns.len().div_ceil(8)
        } else {
            0
        };
        let columns = columns
            .iter()
            .map(|column| ValueEncoder::new(&column.type_info, Place::Column))
            .collect();
        RowEncoder {
            columns,
            bitmap_bytes,
        }
    }

    /// For bulk load, where older servers know ROW alone.
    pub(crate) fn without_bitmap(columns: &[Column]) -> RowEncoder {
        RowEncoder::new(columns, TdsVersion::V7_1)
    }

    /// Appends one row. On failure `out` is as before, so an error can be sent in its place.
    pub fn encode(&self, row: &[Value], out: &mut Vec<u8>) -> Result<()> {
        if row.len() != self.columns.len() {
            return Err(TdsError::ColumnCount {
                expected: self.columns.len(),
                found: row.len(),
            });
        }
        let start = out.len();
        let written = if self.saves_by_bitmap(row) {
            self.put_nbc_row(row, out)
        } else {
            self.put_row(row, out)
        };
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    /// Are the NULLs of this row shorter as bits?
    fn saves_by_bitmap(&self, row: &[Value]) -> bool {
        if self.bitmap_bytes == 0 {
            return false;
        }
        let nulls = row
            .iter()
            .zip(&self.columns)
            .filter(|(value, _)| value.is_null());
        nulls.map(|(_, column)| column.null_bytes()).sum::<usize>() > self.bitmap_bytes
    }

    fn put_row(&self, row: &[Value], out: &mut Vec<u8>) -> Result<()> {
        out.push(token_byte::ROW);
        for (index, (column, value)) in self.columns.iter().zip(row).enumerate() {
            column
                .encode(value, out)
                .map_err(|error| error.in_column(index))?;
        }
        Ok(())
    }

    fn put_nbc_row(&self, row: &[Value], out: &mut Vec<u8>) -> Result<()> {
        out.push(token_byte::NBC_ROW);
        for group in row.chunks(8) {
            let bits = group
                .iter()
                .enumerate()
                .map(|(bit, value)| u8::from(value.is_null()) << bit);
            out.push(bits.fold(0, |bitmap, bit| bitmap | bit));
        }
        for (index, (column, value)) in self.columns.iter().zip(row).enumerate() {
            if !value.is_null() {
                column
                    .encode(value, out)
                    .map_err(|error| error.in_column(index))?;
            } else if column.is_fixed() {
                return Err(TdsError::NullNotAllowed.in_column(index));
            }
        }
        Ok(())
    }
}

/// The values of a ROW behind its token byte.
pub(crate) fn decode_row(columns: &[Column], reader: &mut Reader<'_>) -> Result<Vec<Value>> {
    columns
        .iter()
        .map(|column| decode_value(&column.type_info, Place::Column, reader))
        .collect()
}

/// The values of an NBCROW behind its token byte.
pub(crate) fn decode_nbc_row(columns: &[Column], reader: &mut Reader<'_>) -> Result<Vec<Value>> {
    let bitmap = reader.take(columns.len().div_ceil(8), "NBCROW bitmap")?;
    let is_null = |index: usize| {
        bitmap
            .get(index / 8)
            .is_some_and(|byte| byte >> (index % 8) & 1 != 0)
    };
    let values = columns.iter().enumerate().map(|(index, column)| {
        if is_null(index) {
            Ok(Value::Null)
        } else {
            decode_value(&column.type_info, Place::Column, reader)
        }
    });
    values.collect()
}
