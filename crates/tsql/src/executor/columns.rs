//! Batches whose values lie column by column, for operators that handle many rows at once.
//!
//! Theory: scans, filters, computations, hash joins and aggregates hand each other columns; sorts, loops and the caller
//! take rows. Each operator gives either; what it does not have by itself is turned around here.

use super::batch::RowBatch;
use daruma_value::Value;
use daruma_value::column::Column;

/// Columns of equal length.
#[derive(Clone, Debug, Default)]
pub struct ColumnBatch {
    len: usize,
    columns: Vec<Column>,
    /// For operators that give rows.
    pub rows: RowBatch,
}

impl ColumnBatch {
    /// Forgets all rows and sets the number of columns.
    pub fn reset(&mut self, width: usize) {
        self.len = 0;
        self.columns.resize_with(width, Column::default);
        self.columns.iter_mut().for_each(Column::clear);
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Has it no row?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The column at a position.
    pub fn column(&self, position: usize) -> Option<&Column> {
        self.columns.get(position)
    }

    /// All columns; each has `len` values.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The column at a position, to be filled.
    pub fn column_mut(&mut self, position: usize) -> Option<&mut Column> {
        self.columns.get_mut(position)
    }

    /// Says how many rows the columns hold, after filling them.
    pub fn set_len(&mut self, len: usize) {
        debug_assert!(
            self.columns.iter().all(|c| c.len() == len || c.is_empty()),
            "columns of different length"
        );
        self.len = len;
    }

    /// One value; NULL where there is no such column.
    pub fn value(&self, position: usize, row: usize) -> Value {
        self.columns
            .get(position)
            .map_or(Value::Null, |c| c.value(row))
    }

    /// All values of a row.
    pub fn row(&self, row: usize, out: &mut Vec<Value>) {
        out.clear();
        out.extend(self.columns.iter().map(|c| c.value(row)));
    }

    /// Replaces the content with the rows of `rows`, which loses its values.
    pub fn take_rows(&mut self, rows: &mut RowBatch) {
        let len = rows.len();
        self.reset(rows.width());
        for (position, column) in self.columns.iter_mut().enumerate() {
            let first = (0..len).find_map(|i| rows.row(i).get(position).filter(|v| !v.is_null()));
            if let Some(first) = first {
                column.start(first.natural_type());
            }
            for index in 0..len {
                let place = rows.row_mut(index).get_mut(position);
                column.push(place.map_or(Value::Null, |v| std::mem::replace(v, Value::Null)));
            }
        }
        self.len = len;
    }

    /// Appends its rows to `out`, and may lose their values.
    pub fn give_rows(&mut self, out: &mut RowBatch) {
        for row in 0..self.len {
            for column in &mut self.columns {
                out.put(column.take(row));
            }
            out.finish_row();
        }
    }

    /// Adds the rows of another batch with the same columns.
    pub fn append(&mut self, other: &ColumnBatch) {
        if self.columns.len() < other.columns.len() {
            self.columns
                .resize_with(other.columns.len(), Column::default);
        }
        for (column, more) in self.columns.iter_mut().zip(&other.columns) {
            column.append(more);
        }
        self.len += other.len;
    }

    /// Keeps these rows, in this order.
    pub fn keep(&mut self, rows: &[u32]) {
        if rows.len() == self.len && rows.iter().enumerate().all(|(i, r)| *r as usize == i) {
            return;
        }
        let mut kept = Column::default();
        for column in self.columns.iter_mut().filter(|c| !c.is_empty()) {
            kept.gather(column, rows);
            std::mem::swap(column, &mut kept);
        }
        self.len = rows.len();
    }

    /// The given columns of the given rows; the other columns are empty.
    pub fn part(&self, rows: &[u32], columns: &[usize]) -> ColumnBatch {
        let mut part = ColumnBatch::default();
        part.reset(self.columns.len());
        for position in columns {
            if let (Some(from), Some(to)) = (self.column(*position), part.column_mut(*position)) {
                to.gather(from, rows);
            }
        }
        part.len = rows.len();
        part
    }

    /// Bytes of values that lie outside of their columns.
    pub fn outside_bytes(&self) -> usize {
        self.columns.iter().map(Column::outside_bytes).sum()
    }

    /// No row has more of them.
    pub fn longest_row(&self) -> usize {
        self.columns.iter().map(Column::longest_outside).sum()
    }

    /// Those of one row.
    pub fn outside_bytes_of(&self, row: usize) -> usize {
        self.columns.iter().map(|c| c.outside_bytes_of(row)).sum()
    }

    /// Memory taken, roughly.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Column::bytes).sum::<usize>() + self.len * 16
    }
}
