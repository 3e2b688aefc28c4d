//! Functions of single bits: LEFT_SHIFT and RIGHT_SHIFT (also `<<` and `>>`), BIT_COUNT, GET_BIT, SET_BIT.
//!
//! Theory: integers and binary strings are the same here, bytes of which the first counts most; bit 0 is the last one of the last
//! byte. So shifts are logical: zeros come in whatever the sign was.

use super::{Call, FunctionDef, Signature};
use crate::{DataType, Value, ValueError};

pub(super) const FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("LEFT_SHIFT", 2..=2, same, |c| shift(c, true)),
    FunctionDef::new("RIGHT_SHIFT", 2..=2, same, |c| shift(c, false)),
    FunctionDef::new(
        "BIT_COUNT",
        1..=1,
        |s| same(s).map(|_| DataType::BigInt),
        count,
    ),
    FunctionDef::new("GET_BIT", 2..=2, |s| same(s).map(|_| DataType::Bit), get),
    FunctionDef::new("SET_BIT", 2..=3, same, set),
];

/// The type of the first argument, an integer or a binary string that is not large; others are whole numbers.
fn same(s: &Signature<'_>) -> Result<DataType, ValueError> {
    use DataType::*;
    let is_whole = |t: DataType| matches!(t, TinyInt | SmallInt | Int | BigInt);
    let first = s.at(0);
    let is_binary = matches!(first, Binary(_) | VarBinary(_)) && !first.is_large();
    if !is_whole(first) && !is_binary {
        return Err(s.invalid(0));
    }
    match (1..s.types.len()).find(|at| !is_whole(s.at(*at)) && (*at != 2 || s.at(2) != Bit)) {
        Some(at) => Err(s.invalid(at)),
        None => Ok(first),
    }
}

impl Call<'_> {
    /// The first argument's bytes.
    fn bits(&self) -> Result<Vec<u8>, ValueError> {
        Ok(match self.value(0) {
            Value::TinyInt(v) => v.to_be_bytes().to_vec(),
            Value::SmallInt(v) => v.to_be_bytes().to_vec(),
            Value::Int(v) => v.to_be_bytes().to_vec(),
            Value::BigInt(v) => v.to_be_bytes().to_vec(),
            Value::Bytes(bytes) => bytes.clone(),
            _ => return Err(ValueError::invalid_argument(self.type_of(0), 1, self.name)),
        })
    }

    /// Bytes as a value of the first argument's type.
    fn give_bits(&self, bits: Vec<u8>) -> Value {
        let number = || bits.iter().fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
        match self.value(0) {
            Value::TinyInt(_) => Value::TinyInt(number() as u8),
            Value::SmallInt(_) => Value::SmallInt(number() as u16 as i16),
            Value::Int(_) => Value::Int(number() as u32 as i32),
            Value::BigInt(_) => Value::BigInt(number() as i64),
            _ => Value::Bytes(bits),
        }
    }

    /// Byte and mask of the bit that the second argument names. Error 1023 for one that is not there.
    fn place(&self, bits: &[u8]) -> Result<(usize, u8), ValueError> {
        let missing = || ValueError::new(1023, 1, &[&2, &self.name.to_ascii_lowercase()]);
        let offset = usize::try_from(self.int(1)?).map_err(|_| missing())?;
        let at = (bits.len().checked_sub(offset / 8 + 1)).ok_or_else(missing)?;
        Ok((at, 1 << (offset % 8)))
    }
}

fn shift(c: &Call<'_>, is_left: bool) -> Result<Value, ValueError> {
    let bits = c.bits()?;
    let amount = c.int(1)?;
    let by = usize::try_from(amount.unsigned_abs()).unwrap_or(usize::MAX);
    let shifted = match is_left == (amount >= 0) {
        true => shifted_left(&bits, by),
        false => shifted_right(&bits, by),
    };
    Ok(c.give_bits(shifted))
}

fn shifted_left(bits: &[u8], by: usize) -> Vec<u8> {
    let byte = |at: usize| u16::from(bits.get(at).copied().unwrap_or(0));
    let (bytes, rest) = (by / 8, by % 8);
    let shifted = |at: usize| {
        let from = at.saturating_add(bytes);
        let pair = byte(from) << 8 | byte(from.saturating_add(1));
        (pair << rest >> 8) as u8
    };
    (0..bits.len()).map(shifted).collect()
}

fn shifted_right(bits: &[u8], by: usize) -> Vec<u8> {
    let byte = |at: Option<usize>| {
        let byte = at.and_then(|at| bits.get(at));
        u16::from(byte.copied().unwrap_or(0))
    };
    let (bytes, rest) = (by / 8, by % 8);
    let shifted = |at: usize| {
        let from = at.checked_sub(bytes);
        let before = from.and_then(|from| from.checked_sub(1));
        ((byte(before) << 8 | byte(from)) >> rest) as u8
    };
    (0..bits.len()).map(shifted).collect()
}

fn count(c: &Call<'_>) -> Result<Value, ValueError> {
    let ones = c
        .bits()?
        .iter()
        .map(|byte| i64::from(byte.count_ones()))
        .sum();
    Ok(Value::BigInt(ones))
}

fn get(c: &Call<'_>) -> Result<Value, ValueError> {
    let bits = c.bits()?;
    let (at, mask) = c.place(&bits)?;
    Ok(Value::Bit(
        bits.get(at).is_some_and(|byte| byte & mask != 0),
    ))
}

fn set(c: &Call<'_>) -> Result<Value, ValueError> {
    let mut bits = c.bits()?;
    let (at, mask) = c.place(&bits)?;
    let value = c.int_or(2, 1)?;
    if let Some(byte) = bits.get_mut(at) {
        match value {
            0 => *byte &= !mask,
            1 => *byte |= mask,
            _ => return Err(ValueError::new(1023, 1, &[&3, &"set_bit"])),
        }
    }
    Ok(c.give_bits(bits))
}
