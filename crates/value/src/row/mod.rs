//! Encoding of a stored row: any column is reached without decoding the others.
//!
//! ```text
//! u16  column count when the row was written (bits 0-14), wide offsets (bit 15)
//! ...  fixed-length columns, each at the offset its layout gives
//! ...  null bitmap, one bit for each column written
//! u16  end of each variable-length column, from the start of the data (u32 when wide); the top bit marks an
//!      overflow reference of 16 bytes in place of the value
//! ...  data of the variable-length columns
//! ```
//! All numbers are little-endian. Text is UTF-8 for every character type.
//!
//! Theory: everything but the column count follows from the layout, so a row head is two bytes. `ALTER TABLE ADD`
//! appends to the layout and touches no row: a row with a smaller count has the old, shorter sections, whose sizes the
//! layout keeps for every count, and the new columns read as [`Column::Missing`].
//!
//! Invariants
//! 1. A view never reads outside its bytes and never panics, whatever they hold: wrong bytes are [`RowError::Corrupt`].
//! 2. Access allocates nothing except for the `Value` of a long text or binary.
//! 3. A column never moves: layouts only grow, dropped columns keep their place.
//!
//! Tests: tests.rs.   Read next: `patch`, `variant`

mod fixed;
mod patch;
mod variant;

#[cfg(test)]
mod tests;

use crate::{DataType, Value};
use compact_str::CompactString;

const HEADER_BYTES: usize = 2;
const WIDE: u16 = 0x8000;
const COLUMNS_MAX: usize = 0x7FFF;
const NARROW_DATA_BYTES_MAX: usize = 0x7FFF;
const WIDE_DATA_BYTES_MAX: usize = 0x7FFF_FFFF;

/// Bytes of an overflow reference.
pub const OVERFLOW_BYTES: usize = 16;

/// What the codec must know of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSpec {
    pub data_type: DataType,
    /// Value of the column in rows written before it existed; used when such a row is written anew.
    pub added_default: Value,
}

impl ColumnSpec {
    /// A column whose missing values are NULL.
    pub const fn new(data_type: DataType) -> ColumnSpec {
        ColumnSpec {
            data_type,
            added_default: Value::Null,
        }
    }
}

/// Wrong use or wrong bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    #[error("row bytes are corrupt at column {column}")]
    Corrupt { column: usize },
    #[error("row header says {found} columns, its table has {expected}")]
    BadColumnCount { expected: usize, found: usize },
    #[error("row is cut short: {found} bytes, at least {expected} expected")]
    Short { expected: usize, found: usize },
    #[error("value of column {column} is not of type {expected}")]
    TypeMismatch { column: usize, expected: DataType },
    #[error("row needs {expected} values, {found} given")]
    BadValueCount { expected: usize, found: usize },
    #[error("row of {bytes} bytes is too large to encode")]
    TooLarge { bytes: usize },
}

/// A column as stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    Value(Value),
    /// The value is out of row; the engine wrote these bytes to find it.
    Overflow([u8; OVERFLOW_BYTES]),
    /// The row was written before the column was added.
    Missing,
}

/// What to store in a column.
#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    Value(&'a Value),
    Overflow(&'a [u8; OVERFLOW_BYTES]),
}

impl Cell<'_> {
    /// Bytes among the variable data, where the cell goes there; what a variant takes beside its value is not counted.
    fn variable_bytes(&self) -> usize {
        match self {
            Cell::Overflow(reference) => reference.len(),
            Cell::Value(Value::Str(text)) => text.len(),
            Cell::Value(Value::Bytes(bytes)) => bytes.len(),
            Cell::Value(_) => 0,
        }
    }
}

impl<'a> From<&'a Value> for Cell<'a> {
    fn from(value: &'a Value) -> Cell<'a> {
        Cell::Value(value)
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    data_type: DataType,
    /// Bytes in the fixed section; 0 for a variable column.
    size: u32,
    /// Offset from the row's start for a fixed column, position among the variable ones otherwise.
    place: u32,
}

impl Slot {
    const fn is_fixed(&self) -> bool {
        self.size != 0
    }
}

/// Where a column of fixed length stands in rows that hold all columns of the layout.
#[derive(Clone, Copy, Debug)]
pub struct FixedPlace {
    pub column: usize,
    pub start: usize,
    pub size: usize,
    /// Column count in the header of such a row.
    count: u16,
    null_at: usize,
    null_bit: u8,
}

impl FixedPlace {
    /// Does the row hold all columns? Others may still have the column, but elsewhere.
    #[inline]
    pub fn fits(&self, row: &[u8]) -> bool {
        row.first_chunk()
            .is_some_and(|head| u16::from_le_bytes(*head) & !WIDE == self.count)
            && row.len() > self.null_at
    }

    /// Is the column NULL in a row that `fits`?
    #[inline]
    pub fn is_null(&self, row: &[u8]) -> bool {
        row.get(self.null_at)
            .is_some_and(|byte| byte & self.null_bit != 0)
    }
}

/// Section sizes of a row with a given number of columns.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    bitmap: usize,
    ends: usize,
    variable_count: usize,
}

/// Where each column of a table lives in its rows. Made once for each table version.
#[derive(Clone, Debug)]
pub struct RowLayout {
    slots: Box<[Slot]>,
    /// Column of each variable position.
    variable: Box<[u32]>,
    /// Shape by column count, for rows written when the table had fewer columns.
    shapes: Box<[Shape]>,
    defaults: Box<[Value]>,
}

impl RowLayout {
    /// At most 32,767 columns count; the engine allows 1,024.
    pub fn new(columns: &[ColumnSpec]) -> RowLayout {
        let columns = columns
            .get(..COLUMNS_MAX.min(columns.len()))
            .unwrap_or_default();
        let mut fixed_end = HEADER_BYTES;
        let mut variable = Vec::new();
        let mut slots = Vec::with_capacity(columns.len());
        let mut shapes = vec![Shape {
            bitmap: HEADER_BYTES,
            ends: HEADER_BYTES,
            variable_count: 0,
        }];
        for (index, column) in columns.iter().enumerate() {
            let size = fixed::size(column.data_type);
            let place = if size == 0 {
                variable.push(index as u32);
                variable.len() - 1
            } else {
                fixed_end += size;
                fixed_end - size
            };
            slots.push(Slot {
                data_type: column.data_type,
                size: size as u32,
                place: place as u32,
            });
            shapes.push(Shape {
                bitmap: fixed_end,
                ends: fixed_end + (index + 1).div_ceil(8),
                variable_count: variable.len(),
            });
        }
        RowLayout {
            slots: slots.into(),
            variable: variable.into(),
            shapes: shapes.into(),
            defaults: columns.iter().map(|c| c.added_default.clone()).collect(),
        }
    }

    /// Columns of the layout.
    pub fn column_count(&self) -> usize {
        self.slots.len()
    }

    /// Type of a column; `None` behind the last.
    pub fn data_type(&self, column: usize) -> Option<DataType> {
        self.slots.get(column).map(|s| s.data_type)
    }

    /// Is the column stored at a fixed offset, so that changing it never moves others?
    pub fn is_fixed(&self, column: usize) -> bool {
        self.slots.get(column).is_some_and(Slot::is_fixed)
    }

    /// `None` for variable columns.
    pub fn fixed_place(&self, column: usize) -> Option<FixedPlace> {
        let slot = self.slots.get(column).filter(|s| s.is_fixed())?;
        Some(FixedPlace {
            column,
            start: slot.place as usize,
            size: slot.size as usize,
            count: self.slots.len() as u16,
            null_at: self.shape(self.slots.len()).bitmap + column / 8,
            null_bit: 1 << (column % 8),
        })
    }

    /// Value of a column that a row is too old to hold.
    pub fn added_default(&self, column: usize) -> &Value {
        self.defaults.get(column).unwrap_or(&Value::Null)
    }

    /// Bytes every row of all columns takes, before variable data.
    pub fn min_row_bytes(&self) -> usize {
        let shape = self.shape(self.slots.len());
        shape.ends + shape.variable_count * 2
    }

    /// Encodes one value for each column into `out`, whose content is replaced.
    pub fn encode(&self, values: &[Value], out: &mut Vec<u8>) -> Result<(), RowError> {
        self.check_count(values.len())?;
        self.encode_with(out, |column| {
            values
                .get(column)
                .map_or(Cell::Value(&Value::Null), Cell::Value)
        })
    }

    /// As `encode`, of `count` columns that `cell` gives; variable ones may be overflow references.
    pub fn encode_each<'v>(
        &self,
        count: usize,
        cell: impl Fn(usize) -> Cell<'v>,
        out: &mut Vec<u8>,
    ) -> Result<(), RowError> {
        self.check_count(count)?;
        self.encode_with(out, cell)
    }

    fn check_count(&self, found: usize) -> Result<(), RowError> {
        let expected = self.slots.len();
        if found == expected {
            Ok(())
        } else {
            Err(RowError::BadValueCount { expected, found })
        }
    }

    fn encode_with<'v>(
        &self,
        out: &mut Vec<u8>,
        cell: impl Fn(usize) -> Cell<'v>,
    ) -> Result<(), RowError> {
        match self.encode_as(out, &cell, false) {
            Err(RowError::TooLarge { .. }) => self.encode_as(out, &cell, true),
            done => done,
        }
    }

    fn encode_as<'v>(
        &self,
        out: &mut Vec<u8>,
        cell: &impl Fn(usize) -> Cell<'v>,
        wide: bool,
    ) -> Result<(), RowError> {
        let count = self.slots.len();
        let variable: usize = (0..count).map(|column| cell(column).variable_bytes()).sum();
        out.clear();
        let shape = self.shape(count);
        out.reserve(shape.ends + shape.variable_count * end_bytes(wide) + variable);
        let mut writer = Writer::start(out, shape, count, wide);
        for (column, slot) in self.slots.iter().enumerate() {
            writer.put(column, slot, cell(column))?;
        }
        Ok(())
    }

    fn shape(&self, column_count: usize) -> Shape {
        self.shapes.get(column_count).copied().unwrap_or_default()
    }
}

/// Builds a row in a buffer: sections first, variable data behind them in column order.
struct Writer<'o> {
    out: &'o mut Vec<u8>,
    shape: Shape,
    wide: bool,
    /// Where the variable data starts.
    data: usize,
}

impl<'o> Writer<'o> {
    fn start(out: &'o mut Vec<u8>, shape: Shape, column_count: usize, wide: bool) -> Writer<'o> {
        let data = shape.ends + shape.variable_count * end_bytes(wide);
        out.clear();
        out.resize(data, 0);
        let head = column_count as u16 | if wide { WIDE } else { 0 };
        if let Some(place) = out.first_chunk_mut() {
            *place = head.to_le_bytes();
        }
        Writer {
            out,
            shape,
            wide,
            data,
        }
    }

    fn put(&mut self, column: usize, slot: &Slot, cell: Cell<'_>) -> Result<(), RowError> {
        let null = matches!(cell, Cell::Value(Value::Null));
        if null {
            set_null(self.out, self.shape.bitmap, column, true);
        }
        if !slot.is_fixed() {
            let overflow = append_variable(column, slot.data_type, cell, self.out)?;
            return self.finish_variable(slot.place as usize, overflow);
        }
        if null {
            return Ok(());
        }
        let place = slot_bytes_mut(self.out, slot);
        fixed::write(cell, slot.data_type, place).ok_or(RowError::TypeMismatch {
            column,
            expected: slot.data_type,
        })
    }

    /// Records that the data written so far ends the variable column at `position`.
    fn finish_variable(&mut self, position: usize, overflow: bool) -> Result<(), RowError> {
        let end = self.out.len() - self.data;
        write_end(
            self.out,
            self.shape.ends,
            position,
            self.wide,
            end,
            overflow,
        )
    }
}

const fn end_bytes(wide: bool) -> usize {
    if wide { 4 } else { 2 }
}

fn write_end(
    row: &mut [u8],
    ends: usize,
    position: usize,
    wide: bool,
    end: usize,
    overflow: bool,
) -> Result<(), RowError> {
    let too_large = RowError::TooLarge { bytes: end };
    if wide {
        let word = if end > WIDE_DATA_BYTES_MAX {
            return Err(too_large);
        } else {
            end as u32
        };
        let word = word | if overflow { 1 << 31 } else { 0 };
        let place = row
            .get_mut(ends + position * 4..)
            .and_then(|r| r.first_chunk_mut())
            .ok_or(too_large)?;
        *place = word.to_le_bytes();
    } else {
        let word = if end > NARROW_DATA_BYTES_MAX {
            return Err(too_large);
        } else {
            end as u16
        };
        let word = word | if overflow { 1 << 15 } else { 0 };
        let place = row
            .get_mut(ends + position * 2..)
            .and_then(|r| r.first_chunk_mut())
            .ok_or(too_large)?;
        *place = word.to_le_bytes();
    }
    Ok(())
}

fn set_null(row: &mut [u8], bitmap: usize, column: usize, null: bool) {
    if let Some(byte) = row.get_mut(bitmap + column / 8) {
        let bit = 1u8 << (column % 8);
        if null { *byte |= bit } else { *byte &= !bit }
    }
}

fn slot_bytes_mut<'r>(row: &'r mut [u8], slot: &Slot) -> &'r mut [u8] {
    let start = slot.place as usize;
    row.get_mut(start..start + slot.size as usize)
        .unwrap_or_default()
}

/// Appends the bytes of a variable column; says whether they are an overflow reference.
fn append_variable(
    column: usize,
    data_type: DataType,
    cell: Cell<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, RowError> {
    match cell {
        Cell::Overflow(reference) => {
            out.extend_from_slice(reference);
            return Ok(true);
        }
        Cell::Value(Value::Null) => {}
        Cell::Value(Value::Str(text)) if data_type.is_character() => {
            out.extend_from_slice(text.as_bytes())
        }
        Cell::Value(Value::Bytes(bytes)) if data_type.is_binary() => out.extend_from_slice(bytes),
        Cell::Value(Value::Variant(v)) if data_type == DataType::Variant => variant::append(v, out),
        Cell::Value(_) => {
            return Err(RowError::TypeMismatch {
                column,
                expected: data_type,
            });
        }
    }
    Ok(false)
}

/// A row's bytes seen through its layout.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    layout: &'a RowLayout,
    bytes: &'a [u8],
    column_count: usize,
    shape: Shape,
    wide: bool,
    data: usize,
}

impl<'a> RowView<'a> {
    /// Checks the header and that all sections before the data are there.
    #[inline]
    pub fn new(layout: &'a RowLayout, bytes: &'a [u8]) -> Result<RowView<'a>, RowError> {
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(RowError::Short {
                expected: HEADER_BYTES,
                found: bytes.len(),
            });
        };
        let head = u16::from_le_bytes(*head);
        let wide = head & WIDE != 0;
        let column_count = usize::from(head & !WIDE);
        let Some(shape) = layout.shapes.get(column_count) else {
            return Err(RowError::BadColumnCount {
                expected: layout.slots.len(),
                found: column_count,
            });
        };
        let data = shape.ends + shape.variable_count * end_bytes(wide);
        if bytes.len() < data {
            return Err(RowError::Short {
                expected: data,
                found: bytes.len(),
            });
        }
        Ok(RowView {
            layout,
            bytes,
            column_count,
            shape: *shape,
            wide,
            data,
        })
    }

    /// The layout that the row is read by.
    pub fn layout(&self) -> &'a RowLayout {
        self.layout
    }

    /// The encoded row.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Columns this row holds; later columns of the layout are missing.
    pub fn column_count(&self) -> usize {
        self.column_count
    }

    /// Is the column NULL in the row? False for a missing column.
    #[inline]
    pub fn is_null(&self, column: usize) -> bool {
        column < self.column_count
            && self
                .bytes
                .get(self.shape.bitmap + column / 8)
                .is_some_and(|byte| byte & (1 << (column % 8)) != 0)
    }

    /// Was the row written before the column existed?
    pub fn is_missing(&self, column: usize) -> bool {
        column >= self.column_count
    }

    /// Is the column's value out of row?
    pub fn is_overflow(&self, column: usize) -> bool {
        matches!(self.variable(column), Some((_, true)))
    }

    /// The column's value; bytes that are no value of its type are [`RowError::Corrupt`].
    #[inline]
    pub fn value(&self, column: usize) -> Result<Column, RowError> {
        if column >= self.column_count {
            return Ok(Column::Missing);
        }
        if self.is_null(column) {
            return Ok(Column::Value(Value::Null));
        }
        let corrupt = RowError::Corrupt { column };
        let slot = self.layout.slots.get(column).ok_or(corrupt)?;
        if slot.is_fixed() {
            let bytes = self.fixed_bytes(slot).ok_or(corrupt)?;
            return fixed::read(slot.data_type, bytes)
                .map(Column::Value)
                .ok_or(corrupt);
        }
        let (bytes, overflow) = self.variable_at(slot.place as usize).ok_or(corrupt)?;
        if overflow {
            return bytes.try_into().map(Column::Overflow).map_err(|_| corrupt);
        }
        read_variable(slot.data_type, bytes)
            .map(Column::Value)
            .ok_or(corrupt)
    }

    /// As `value`, where a missing column reads as the layout's default.
    pub fn value_or_default(&self, column: usize) -> Result<Column, RowError> {
        match self.value(column)? {
            Column::Missing => Ok(Column::Value(self.layout.added_default(column).clone())),
            held => Ok(held),
        }
    }

    /// Any integer column, money included in its own units; `None` when NULL, missing, or of another type.
    #[inline]
    pub fn i64(&self, column: usize) -> Option<i64> {
        fixed::read_i64(self.slot_type(column)?, self.present_fixed(column)?)
    }

    /// Any float column.
    #[inline]
    pub fn f64(&self, column: usize) -> Option<f64> {
        fixed::read_f64(self.slot_type(column)?, self.present_fixed(column)?)
    }

    /// The integer behind a decimal column, at the column's scale.
    #[inline]
    pub fn decimal_unscaled(&self, column: usize) -> Option<i128> {
        fixed::read_unscaled(self.slot_type(column)?, self.present_fixed(column)?)
    }

    /// Text of a character column held in the row.
    #[inline]
    pub fn str(&self, column: usize) -> Option<&'a str> {
        if !self.slot_type(column)?.is_character() {
            return None;
        }
        std::str::from_utf8(self.bytes(column)?).ok()
    }

    /// Stored bytes of a variable column held in the row (text as UTF-8); `None` when NULL, missing or out of row.
    #[inline]
    pub fn bytes(&self, column: usize) -> Option<&'a [u8]> {
        if self.is_null(column) {
            return None;
        }
        match self.variable(column)? {
            (bytes, false) => Some(bytes),
            _ => None,
        }
    }

    /// The overflow reference of a column whose value is out of row.
    pub fn overflow(&self, column: usize) -> Option<[u8; OVERFLOW_BYTES]> {
        match self.variable(column)? {
            (bytes, true) => bytes.try_into().ok(),
            _ => None,
        }
    }

    /// Decodes every column of the layout, missing ones as their defaults; overflow references are an error here.
    pub fn decode(&self, out: &mut Vec<Value>) -> Result<(), RowError> {
        out.clear();
        out.reserve(self.layout.slots.len());
        for (column, slot) in self.layout.slots.iter().enumerate() {
            let corrupt = RowError::Corrupt { column };
            let value = if column >= self.column_count {
                self.layout.added_default(column).clone()
            } else if self.is_null(column) {
                Value::Null
            } else if slot.is_fixed() {
                let bytes = self.fixed_bytes(slot).ok_or(corrupt)?;
                fixed::read(slot.data_type, bytes).ok_or(corrupt)?
            } else {
                match self.variable_at(slot.place as usize) {
                    Some((bytes, false)) => read_variable(slot.data_type, bytes).ok_or(corrupt)?,
                    _ => return Err(corrupt),
                }
            };
            out.push(value);
        }
        Ok(())
    }

    #[inline]
    fn slot_type(&self, column: usize) -> Option<DataType> {
        self.layout.slots.get(column).map(|s| s.data_type)
    }

    #[inline]
    fn present_fixed(&self, column: usize) -> Option<&'a [u8]> {
        if column >= self.column_count || self.is_null(column) {
            return None;
        }
        self.fixed_bytes(self.layout.slots.get(column).filter(|s| s.is_fixed())?)
    }

    #[inline]
    fn fixed_bytes(&self, slot: &Slot) -> Option<&'a [u8]> {
        let start = slot.place as usize;
        self.bytes.get(start..start + slot.size as usize)
    }

    fn variable(&self, column: usize) -> Option<(&'a [u8], bool)> {
        if column >= self.column_count {
            return None;
        }
        let slot = self.layout.slots.get(column).filter(|s| !s.is_fixed())?;
        self.variable_at(slot.place as usize)
    }

    /// Bytes of the variable column at a position, and whether they are an overflow reference.
    #[inline]
    fn variable_at(&self, position: usize) -> Option<(&'a [u8], bool)> {
        let start = if position == 0 {
            0
        } else {
            self.end(position - 1)?.0
        };
        let (end, overflow) = self.end(position)?;
        self.bytes
            .get(self.data + start..self.data + end)
            .map(|bytes| (bytes, overflow))
    }

    #[inline]
    fn end(&self, position: usize) -> Option<(usize, bool)> {
        if self.wide {
            let word = u32::from_le_bytes(
                *self
                    .bytes
                    .get(self.shape.ends + position * 4..)?
                    .first_chunk()?,
            );
            Some(((word & !(1 << 31)) as usize, word >> 31 == 1))
        } else {
            let word = u16::from_le_bytes(
                *self
                    .bytes
                    .get(self.shape.ends + position * 2..)?
                    .first_chunk()?,
            );
            Some((usize::from(word & !(1 << 15)), word >> 15 == 1))
        }
    }
}

fn read_variable(data_type: DataType, bytes: &[u8]) -> Option<Value> {
    if data_type.is_character() {
        return CompactString::from_utf8(bytes).ok().map(Value::Str);
    }
    if data_type == DataType::Variant {
        return variant::read(bytes).map(|v| Value::Variant(Box::new(v)));
    }
    Some(Value::Bytes(bytes.to_vec()))
}
