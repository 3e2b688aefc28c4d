//! A changed row from the old bytes: what did not change is copied, not decoded.

use super::{
    Cell, RowError, RowLayout, RowView, Slot, Writer, append_variable, fixed, set_null,
    slot_bytes_mut, write_end,
};
use crate::Value;

impl RowLayout {
    /// Encodes `old` with some columns changed into `out`, whose content is replaced. `old` must use this layout.
    /// The last change of a column counts.
    pub fn encode_patch(
        &self,
        old: &RowView<'_>,
        changes: &[(usize, Cell<'_>)],
        out: &mut Vec<u8>,
    ) -> Result<(), RowError> {
        if self.patch_in_place(old, changes, out)? {
            return Ok(());
        }
        match self.rebuild(old, changes, old.wide, out) {
            Err(RowError::TooLarge { .. }) if !old.wide => self.rebuild(old, changes, true, out),
            done => done,
        }
    }

    /// The quick way: no column changes its length. False, with `out` undefined, when one does.
    fn patch_in_place(
        &self,
        old: &RowView<'_>,
        changes: &[(usize, Cell<'_>)],
        out: &mut Vec<u8>,
    ) -> Result<bool, RowError> {
        out.clear();
        out.extend_from_slice(old.bytes);
        for (column, cell) in changes {
            if *column >= old.column_count {
                return Ok(false);
            }
            let slot = self.slot(*column)?;
            let null = is_null(cell);
            if slot.is_fixed() {
                if !null {
                    write_fixed(*column, slot, *cell, out)?;
                }
            } else if !overwrite_variable(old, *column, slot, cell, out)? {
                return Ok(false);
            }
            set_null(out, old.shape.bitmap, *column, null);
        }
        Ok(true)
    }

    /// The general way: fixed section and bitmap copied, variable data laid out anew.
    fn rebuild(
        &self,
        old: &RowView<'_>,
        changes: &[(usize, Cell<'_>)],
        wide: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), RowError> {
        let grows = changes
            .iter()
            .any(|(column, _)| *column >= old.column_count);
        let count = if grows {
            self.slots.len()
        } else {
            old.column_count
        };
        let mut writer = Writer::start(out, self.shape(count), count, wide);
        copy_sections(old, &mut writer);
        for column in old.column_count..count {
            let default = self.added_default(column);
            set_null(writer.out, writer.shape.bitmap, column, default.is_null());
            let slot = self.slot(column)?;
            if slot.is_fixed() && !default.is_null() {
                write_fixed(column, slot, Cell::Value(default), writer.out)?;
            }
        }
        for (column, cell) in changes {
            let slot = self.slot(*column)?;
            set_null(writer.out, writer.shape.bitmap, *column, is_null(cell));
            if slot.is_fixed() && !is_null(cell) {
                write_fixed(*column, slot, *cell, writer.out)?;
            }
        }
        for (position, column) in self
            .variable
            .iter()
            .take(writer.shape.variable_count)
            .enumerate()
        {
            let column = *column as usize;
            let slot = self.slot(column)?;
            let overflow = match changes.iter().rev().find(|(changed, _)| *changed == column) {
                Some((_, cell)) => append_variable(column, slot.data_type, *cell, writer.out)?,
                None if column >= old.column_count => append_variable(
                    column,
                    slot.data_type,
                    Cell::Value(self.added_default(column)),
                    writer.out,
                )?,
                None => {
                    let (bytes, overflow) = old
                        .variable_at(position)
                        .ok_or(RowError::Corrupt { column })?;
                    writer.out.extend_from_slice(bytes);
                    overflow
                }
            };
            writer.finish_variable(position, overflow)?;
        }
        Ok(())
    }

    fn slot(&self, column: usize) -> Result<&Slot, RowError> {
        let found = column + 1;
        self.slots.get(column).ok_or(RowError::BadValueCount {
            expected: self.slots.len(),
            found,
        })
    }
}

fn is_null(cell: &Cell<'_>) -> bool {
    matches!(cell, Cell::Value(Value::Null))
}

fn write_fixed(column: usize, slot: &Slot, cell: Cell<'_>, row: &mut [u8]) -> Result<(), RowError> {
    fixed::write(cell, slot.data_type, slot_bytes_mut(row, slot)).ok_or(RowError::TypeMismatch {
        column,
        expected: slot.data_type,
    })
}

/// Copies the fixed columns and the null bits of the old row; the new sections may be longer.
fn copy_sections(old: &RowView<'_>, writer: &mut Writer<'_>) {
    let mut copy = |from: std::ops::Range<usize>, to: usize| {
        let size = from.len();
        if let (Some(source), Some(target)) =
            (old.bytes.get(from), writer.out.get_mut(to..to + size))
        {
            target.copy_from_slice(source);
        }
    };
    copy(super::HEADER_BYTES..old.shape.bitmap, super::HEADER_BYTES);
    copy(old.shape.bitmap..old.shape.ends, writer.shape.bitmap);
}

/// Replaces a variable column by bytes of the same length; false when the length differs.
fn overwrite_variable(
    old: &RowView<'_>,
    column: usize,
    slot: &Slot,
    cell: &Cell<'_>,
    out: &mut [u8],
) -> Result<bool, RowError> {
    let position = slot.place as usize;
    let (before, _) = old
        .variable_at(position)
        .ok_or(RowError::Corrupt { column })?;
    let (bytes, overflow): (&[u8], bool) = match cell {
        Cell::Overflow(reference) => (reference.as_slice(), true),
        Cell::Value(Value::Null) => (&[], false),
        Cell::Value(Value::Str(text)) if slot.data_type.is_character() => (text.as_bytes(), false),
        Cell::Value(Value::Bytes(bytes)) if slot.data_type.is_binary() => (bytes, false),
        _ => return Ok(false),
    };
    if bytes.len() != before.len() {
        return Ok(false);
    }
    let corrupt = RowError::Corrupt { column };
    let (end, _) = old.end(position).ok_or(corrupt)?;
    let stop = old.data + end;
    out.get_mut(stop - bytes.len()..stop)
        .ok_or(corrupt)?
        .copy_from_slice(bytes);
    write_end(out, old.shape.ends, position, old.wide, end, overflow)?;
    Ok(true)
}
