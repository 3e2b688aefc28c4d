//! `sql_variant` content inside a row: base type id, two parameter bytes, then the value as a column of that type.

use super::{Cell, fixed, read_variable};
use crate::{DataType, Len, Value, VariantValue};

pub(super) fn append(variant: &VariantValue, out: &mut Vec<u8>) {
    let (first, second) = parameters(variant.data_type);
    out.extend_from_slice(&[variant.data_type.system_type_id(), first, second]);
    match &variant.value {
        Value::Str(text) => out.extend_from_slice(text.as_bytes()),
        Value::Bytes(bytes) => out.extend_from_slice(bytes),
        value => {
            let mut place = [0; 16];
            let size = fixed::size(variant.data_type).min(place.len());
            // A value that does not match its own type is stored as zero bytes, and reads back as such.
            let _ = fixed::write(Cell::Value(value), variant.data_type, &mut place);
            out.extend_from_slice(place.get(..size).unwrap_or_default());
        }
    }
}

pub(super) fn read(bytes: &[u8]) -> Option<VariantValue> {
    let ([id, first, second], rest) = bytes.split_first_chunk()?;
    let data_type = data_type(*id, *first, *second)?;
    let value = if fixed::size(data_type) == 0 {
        read_variable(data_type, rest)?
    } else {
        fixed::read(data_type, rest)?
    };
    Some(VariantValue { data_type, value })
}

fn parameters(data_type: DataType) -> (u8, u8) {
    match data_type {
        DataType::Decimal { precision, scale } => (precision, scale),
        DataType::Time { scale }
        | DataType::DateTime2 { scale }
        | DataType::DateTimeOffset { scale } => (scale, 0),
        other => {
            let [low, high] = other.declared_len().unwrap_or(Len(0)).0.to_le_bytes();
            (low, high)
        }
    }
}

fn data_type(id: u8, first: u8, second: u8) -> Option<DataType> {
    let len = Len(u16::from_le_bytes([first, second]));
    let scale = first.min(7);
    Some(match id {
        36 => DataType::UniqueIdentifier,
        40 => DataType::Date,
        41 => DataType::Time { scale },
        42 => DataType::DateTime2 { scale },
        43 => DataType::DateTimeOffset { scale },
        48 => DataType::TinyInt,
        52 => DataType::SmallInt,
        56 => DataType::Int,
        58 => DataType::SmallDateTime,
        59 => DataType::Real,
        60 => DataType::Money,
        61 => DataType::DateTime,
        62 => DataType::Float,
        104 => DataType::Bit,
        106 if (1..=38).contains(&first) && second <= first => DataType::Decimal {
            precision: first,
            scale: second,
        },
        122 => DataType::SmallMoney,
        127 => DataType::BigInt,
        165 => DataType::VarBinary(len),
        167 => DataType::VarChar(len),
        173 => DataType::Binary(len),
        175 => DataType::Char(len),
        231 => DataType::NVarChar(len),
        239 => DataType::NChar(len),
        _ => return None,
    })
}
