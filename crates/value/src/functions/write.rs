//! The value of a column after `.WRITE (expression, @offset, @length)`.
//!
//! Theory: UPDATE spells the clause out as a call of this function, which no statement can name: the column's value, what is put
//! into it, offset, length, and the column's name for error 5302. Units are bytes, of national texts UTF-16 units. Where one would
//! cut a character it is refused: half a character cannot be stored.

use super::{Call, FunctionDef, Signature};
use crate::convert::{text_byte_at, text_units};
use crate::types::check_implicit;
use crate::{DataType, Value, ValueError};
use compact_str::CompactString;

/// See the module's header.
pub const WRITE: &str = "COLUMN WRITE";

pub(super) const FUNCTIONS: &[FunctionDef] =
    &[FunctionDef::new(WRITE, 5..=5, column_type, write).sees_null()];

fn column_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    let column = s.at(0);
    match column {
        DataType::VarChar(len) | DataType::NVarChar(len) | DataType::VarBinary(len)
            if len.is_max() => {}
        other => return Err(ValueError::no_methods(other)),
    }
    check_implicit(s.at(1), column)?;
    check_implicit(s.at(2), DataType::BigInt)?;
    check_implicit(s.at(3), DataType::BigInt)?;
    Ok(column)
}

fn write(c: &Call<'_>) -> Result<Value, ValueError> {
    let name = c.text(4)?;
    match (c.value(0), c.as_type(1, c.result)?) {
        (Value::Null, _) => Err(ValueError::new(5302, 1, &[&"write()", &name])),
        (Value::Bytes(old), put) => {
            let put = match &put {
                Value::Bytes(put) => put.as_slice(),
                _ => &[],
            };
            let place = Place::of(c, old.len())?;
            let (head, tail) = (old.get(..place.from), old.get(place.to..));
            let parts = [head.unwrap_or_default(), put, tail.unwrap_or_default()];
            c.take(parts.iter().map(|part| part.len()).sum())?;
            Ok(Value::Bytes(parts.concat()))
        }
        (_, put) => {
            let old = c.text(0)?;
            let put = match &put {
                Value::Str(put) => put.as_str(),
                _ => "",
            };
            let context = &c.context.convert;
            let place = Place::of(c, text_units(&old, c.result, context))?;
            let byte_of = |units| text_byte_at(&old, units, c.result, context);
            let from = byte_of(place.from).ok_or_else(|| cut_at(c, 2, 7116))?;
            let to = byte_of(place.to).ok_or_else(|| cut_at(c, 3, 7135))?;
            let (head, tail) = (old.get(..from), old.get(to..));
            let parts = [head.unwrap_or_default(), put, tail.unwrap_or_default()];
            let bytes = parts.iter().map(|part| part.len()).sum();
            c.take(bytes)?;
            let mut all = CompactString::with_capacity(bytes);
            parts.iter().for_each(|part| all.push_str(part));
            c.give_text(all)
        }
    }
}

/// 7116 or 7135 for an offset or a length that would cut a character.
fn cut_at(c: &Call<'_>, arg: usize, number: i32) -> ValueError {
    match c.int(arg) {
        Ok(at) => ValueError::new(number, 4, &[&at]),
        Err(e) => e,
    }
}

/// What is replaced, in units.
struct Place {
    from: usize,
    to: usize,
}

impl Place {
    /// Without an offset what is put is appended; without a length, or without anything to put, the rest goes.
    fn of(c: &Call<'_>, count: usize) -> Result<Place, ValueError> {
        if c.value(2).is_null() {
            return Ok(Place {
                from: count,
                to: count,
            });
        }
        let offset = c.int(2)?;
        let from = usize::try_from(offset).ok().filter(|from| *from <= count);
        let from = from.ok_or_else(|| ValueError::new(7116, 4, &[&offset]))?;
        if c.value(1).is_null() || c.value(3).is_null() {
            return Ok(Place { from, to: count });
        }
        let length = c.int(3)?;
        let length = usize::try_from(length).map_err(|_| ValueError::new(7135, 4, &[&length]))?;
        Ok(Place {
            from,
            to: from.saturating_add(length).min(count),
        })
    }
}
