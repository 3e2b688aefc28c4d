//! Batches of rows that flow between operators and out to the caller.
//!
//! Theory: the values of all rows lie in one vector, row after row, so a batch costs no allocation for each row and is
//! reused from call to call.
//!
//! A batch is full at a number of rows, and before that at a number of bytes where values are long.

use daruma_value::{DataType, Value};

/// Rows an operator tries to hand over at once.
pub const BATCH_ROWS: usize = 1024;
/// Bytes of values that lie outside of their rows which are handed over at once.
pub const LONG_BATCH_BYTES: usize = 1 << 20;

/// The most bytes that a value of the type is reckoned with.
pub fn length_max(data_type: DataType) -> usize {
    const UNBOUNDED: usize = 1 << 20;
    match data_type {
        DataType::Text | DataType::NText | DataType::Image => UNBOUNDED,
        other => usize::try_from(other.max_length()).unwrap_or(UNBOUNDED),
    }
}

/// Rows of equal width.
#[derive(Clone, Debug, Default)]
pub struct RowBatch {
    width: usize,
    len: usize,
    values: Vec<Value>,
    /// Of values outside of their rows.
    bytes: usize,
}

impl RowBatch {
    /// A batch without rows and columns; it keeps its memory when it is filled anew.
    pub fn new() -> RowBatch {
        RowBatch::default()
    }

    /// Forgets all rows and sets the number of values of the next ones.
    pub fn reset(&mut self, width: usize) {
        self.width = width;
        self.len = 0;
        self.bytes = 0;
        self.values.clear();
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Has it no row?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Values of each row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Has it as many rows or bytes as are handed over at once? Operators give it on then.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len >= BATCH_ROWS || self.bytes >= LONG_BATCH_BYTES
    }

    /// The row at `index`; empty when there is none.
    #[inline]
    pub fn row(&self, index: usize) -> &[Value] {
        let start = index * self.width;
        self.values
            .get(start..start + self.width)
            .unwrap_or_default()
    }

    /// The row at `index`, to be changed; empty behind the last.
    pub fn row_mut(&mut self, index: usize) -> &mut [Value] {
        let start = index * self.width;
        self.values
            .get_mut(start..start + self.width)
            .unwrap_or_default()
    }

    /// The rows in order.
    pub fn rows(&self) -> impl Iterator<Item = &[Value]> {
        (0..self.len).map(|i| self.row(i))
    }

    /// Appends a row of `width` values.
    #[inline]
    pub fn push(&mut self, row: impl IntoIterator<Item = Value>) {
        self.values.extend(row);
        self.finish_row();
    }

    /// Adds a row of exactly `width` values.
    #[inline]
    pub fn push_slice(&mut self, row: &[Value]) {
        self.values.extend_from_slice(row);
        self.finish_row();
    }

    /// Appends one value of a row under construction; `finish_row` ends the row.
    #[inline]
    pub fn put(&mut self, value: Value) {
        self.values.push(value);
    }

    /// Ends a row whose `width` values were pushed one by one.
    #[inline]
    pub fn finish_row(&mut self) {
        let outside = self.open_row().iter().map(Value::outside_bytes);
        self.bytes += outside.sum::<usize>();
        self.len += 1;
        debug_assert_eq!(self.values.len(), self.len * self.width);
    }

    /// Values of the row under construction.
    #[inline]
    pub fn open_row(&self) -> &[Value] {
        self.values.get(self.len * self.width..).unwrap_or_default()
    }

    /// The values of the row that is not finished yet.
    #[inline]
    pub fn open_row_mut(&mut self) -> &mut [Value] {
        self.values
            .get_mut(self.len * self.width..)
            .unwrap_or_default()
    }

    /// Takes back a row under construction.
    pub fn abandon_row(&mut self) {
        self.values.truncate(self.len * self.width);
    }

    /// Keeps the first `len` rows.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.len = len;
            self.values.truncate(len * self.width);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_until_full(value: &Value) -> usize {
        let mut batch = RowBatch::new();
        batch.reset(1);
        while !batch.is_full() {
            batch.push_slice(std::slice::from_ref(value));
        }
        batch.len()
    }

    #[test]
    fn long_rows_fill_a_batch_by_their_bytes() {
        assert_eq!(rows_until_full(&Value::Int(1)), BATCH_ROWS);
        let long = Value::Bytes(vec![0; LONG_BATCH_BYTES / 4]);
        assert_eq!(rows_until_full(&long), 4);
    }

    #[test]
    fn a_batch_that_is_filled_anew_begins_without_bytes() {
        let mut batch = RowBatch::new();
        batch.reset(1);
        batch.push_slice(&[Value::Bytes(vec![0; LONG_BATCH_BYTES])]);
        assert!(batch.is_full());
        batch.reset(1);
        assert!(!batch.is_full());
    }
}
