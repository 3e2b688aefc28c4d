//! One column of many stored rows at once.
//!
//! Theory: rows written since the last `ALTER TABLE ADD` have the same shape, so a column of fixed length stands at the
//! same offset in all of them and its NULL bit at another. Older rows take the general way.

use super::{Column, Data, Number};
use crate::row::{Column as Stored, FixedPlace, RowError, RowLayout, RowView};
use crate::{DataType, Value};

impl Column {
    /// Appends column `position` of each row. The column must have been started with the layout's type, which must not
    /// lie as values.
    pub fn read<'r>(
        &mut self,
        layout: &RowLayout,
        position: usize,
        rows: impl Iterator<Item = &'r [u8]>,
    ) -> Result<(), RowError> {
        let corrupt = RowError::Corrupt { column: position };
        let place = layout.fixed_place(position).ok_or(corrupt)?;
        use DataType as T;
        match (self.data_type, &mut self.data) {
            (T::Bit | T::TinyInt, Data::Int(_)) => {
                self.read_ints(layout, place, rows, |[a]: [u8; 1]| i64::from(a))
            }
            (T::SmallInt, Data::Int(_)) => {
                self.read_ints(layout, place, rows, |b| i64::from(i16::from_le_bytes(b)))
            }
            (T::SmallDateTime, Data::Int(_)) => {
                self.read_ints(layout, place, rows, |b| i64::from(u32::from_le_bytes(b)))
            }
            (T::Date, Data::Int(_)) => self.read_ints(layout, place, rows, |[a, b, c]: [u8; 3]| {
                i64::from(i32::from_le_bytes([a, b, c, 0]))
            }),
            (T::Time { .. }, Data::Int(_)) => {
                self.read_ints(layout, place, rows, |[a, b, c, d, e]: [u8; 5]| {
                    i64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
                })
            }
            (_, Data::Int(_)) if place.size == 4 => {
                self.read_ints(layout, place, rows, |b| i64::from(i32::from_le_bytes(b)))
            }
            (_, Data::Int(_)) if place.size == 8 => {
                self.read_ints(layout, place, rows, i64::from_le_bytes)
            }
            (_, Data::Wide(data)) if place.size == 16 => read_with(
                data,
                &mut self.nulls,
                layout,
                place,
                rows,
                i128::from_le_bytes,
                |value| match value {
                    Value::Decimal(d) => Some(d.unscaled()),
                    _ => None,
                },
            ),
            (T::Real, Data::Float(data)) => read_with(
                data,
                &mut self.nulls,
                layout,
                place,
                rows,
                |b| f64::from(f32::from_le_bytes(b)),
                Value::as_f64,
            ),
            (T::Float, Data::Float(data)) => read_with(
                data,
                &mut self.nulls,
                layout,
                place,
                rows,
                f64::from_le_bytes,
                Value::as_f64,
            ),
            _ => Err(corrupt),
        }
    }

    fn read_ints<'r, const N: usize>(
        &mut self,
        layout: &RowLayout,
        place: FixedPlace,
        rows: impl Iterator<Item = &'r [u8]>,
        number: impl Fn([u8; N]) -> i64,
    ) -> Result<(), RowError> {
        let data_type = self.data_type;
        let Data::Int(data) = &mut self.data else {
            return Err(RowError::Corrupt {
                column: place.column,
            });
        };
        read_with(
            data,
            &mut self.nulls,
            layout,
            place,
            rows,
            number,
            |value| match Number::of(value, data_type) {
                Some(Number::Int(n)) => Some(n),
                _ => None,
            },
        )
    }
}

fn read_with<'r, const N: usize, T: Copy + Default>(
    data: &mut Vec<T>,
    nulls: &mut Vec<bool>,
    layout: &RowLayout,
    place: FixedPlace,
    rows: impl Iterator<Item = &'r [u8]>,
    number: impl Fn([u8; N]) -> T,
    of_value: impl Fn(&Value) -> Option<T>,
) -> Result<(), RowError> {
    let corrupt = RowError::Corrupt {
        column: place.column,
    };
    for row in rows {
        let (read, null) = if place.fits(row) {
            let bytes = row.get(place.start..).and_then(|r| r.first_chunk::<N>());
            let null = place.is_null(row);
            let read = number(*bytes.ok_or(corrupt)?);
            (if null { T::default() } else { read }, null)
        } else {
            match RowView::new(layout, row)?.value_or_default(place.column)? {
                Stored::Value(Value::Null) => (T::default(), true),
                Stored::Value(value) => (of_value(&value).ok_or(corrupt)?, false),
                _ => return Err(corrupt),
            }
        };
        if null {
            nulls.resize(data.len(), false);
            nulls.push(true);
        } else if !nulls.is_empty() {
            nulls.push(false);
        }
        data.push(read);
    }
    Ok(())
}
