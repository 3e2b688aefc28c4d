//! Conversion of columns between numeric types where no digit is lost.

use super::{Class, Column, Data, Operand, exact_data};
use crate::{DataType, decimal};

/// The column as `to`. `None` when there is no kernel, or a row is an error.
pub fn convert(input: &Column, to: DataType) -> Option<Column> {
    if input.class().is_some() && input.data_type() == to {
        return Some(input.clone());
    }
    let (from, numbers, nulls) = Operand::Column(input).numbers()?;
    let Class::Exact(scale) = Class::of(from)? else {
        return None;
    };
    if to == DataType::Float && from.is_integer() {
        let Data::Int(data) = input.data() else {
            return None;
        };
        let data = data.iter().map(|n| *n as f64).collect();
        return Some(Column::from_parts(to, Data::Float(data), nulls.to_vec()));
    }
    let wanted = match (to, Class::of(to)?) {
        (DataType::Bit, _) => return None,
        (_, Class::Exact(wanted)) if wanted >= scale => wanted,
        _ => return None,
    };
    let factor = decimal::power_of_ten(wanted - scale);
    let units: Option<Vec<i128>> = (0..input.len())
        .map(|row| numbers.wide(row)?.checked_mul(factor))
        .collect();
    let data = exact_data(units?, to, nulls)?;
    Some(Column::from_parts(to, data, nulls.to_vec()))
}
