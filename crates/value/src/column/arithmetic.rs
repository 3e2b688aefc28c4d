//! Arithmetic of columns: the same results as `crate::arithmetic`, or none.

use super::{Class, Column, Data, Number, Numbers, Operand, either_null, exact_data};
use crate::types::BinaryOp;
use crate::{DataType, Value, decimal};

const MONEY_UNIT: i128 = 10_000;
const MONEY_SCALE: u8 = 4;

/// `left op right` for `len` rows. `None` when there is no kernel, or a row is an error.
pub fn evaluate(
    op: BinaryOp,
    left: Operand<'_>,
    right: Operand<'_>,
    result: DataType,
    len: usize,
) -> Option<Column> {
    let (left_type, l, l_nulls) = left.numbers()?;
    let (right_type, r, r_nulls) = right.numbers()?;
    let nulls = either_null(l_nulls, r_nulls);
    let data = match result {
        DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt => {
            if !left_type.is_integer() || !right_type.is_integer() {
                return None;
            }
            integers(op, l, r, result, &nulls, len)?
        }
        DataType::Money | DataType::SmallMoney => {
            money(op, (left_type, l), (right_type, r), result, &nulls, len)?
        }
        DataType::Decimal { .. } => {
            decimals(op, (left_type, l), (right_type, r), result, &nulls, len)?
        }
        DataType::Float => floats(op, (left_type, l), (right_type, r), &nulls, len)?,
        _ => return None,
    };
    Some(Column::from_parts(result, data, nulls))
}

/// Unary minus.
pub fn negate(input: &Column) -> Option<Column> {
    let (data_type, numbers, nulls) = Operand::Column(input).numbers()?;
    let data = match (data_type, numbers) {
        (
            DataType::SmallInt
            | DataType::Int
            | DataType::BigInt
            | DataType::SmallMoney
            | DataType::Money
            | DataType::Decimal { .. },
            _,
        ) => exact_data(
            (0..input.len())
                .map(|i| numbers.wide(i).map(|n| -n))
                .collect::<Option<_>>()?,
            data_type,
            nulls,
        )?,
        (_, Numbers::Float(data)) => Data::Float(data.iter().map(|n| -n).collect()),
        _ => return None,
    };
    Some(Column::from_parts(data_type, data, nulls.to_vec()))
}

fn is_null(nulls: &[bool], row: usize) -> bool {
    nulls.get(row).copied().unwrap_or(false)
}

fn integers(
    op: BinaryOp,
    l: Numbers<'_>,
    r: Numbers<'_>,
    result: DataType,
    nulls: &[bool],
    len: usize,
) -> Option<Data> {
    let each = |f: &dyn Fn(i64, i64) -> Option<i64>| -> Option<Data> {
        let (min, max) = super::integer_range(result)?;
        let mut out = Vec::with_capacity(len);
        for row in 0..len {
            let number = if is_null(nulls, row) {
                0
            } else {
                f(l.int(row)?, r.int(row)?).filter(|n| (min..=max).contains(n))?
            };
            out.push(number);
        }
        Some(Data::Int(out))
    };
    match op {
        BinaryOp::Add => each(&|a, b| a.checked_add(b)),
        BinaryOp::Subtract => each(&|a, b| a.checked_sub(b)),
        BinaryOp::Multiply => each(&|a, b| a.checked_mul(b)),
        BinaryOp::Divide => each(&|a, b| a.checked_div(b)),
        BinaryOp::Modulo => each(&|a, b| {
            if b == 0 {
                None
            } else {
                Some(a.wrapping_rem(b))
            }
        }),
        BinaryOp::BitAnd => each(&|a, b| Some(a & b)),
        BinaryOp::BitOr => each(&|a, b| Some(a | b)),
        BinaryOp::BitXor => each(&|a, b| Some(a ^ b)),
    }
}

/// Scale of an exact type.
fn scale_of(data_type: DataType) -> Option<u8> {
    match Class::of(data_type)? {
        Class::Exact(scale) => Some(scale),
        _ => None,
    }
}

fn money(
    op: BinaryOp,
    (left_type, l): (DataType, Numbers<'_>),
    (right_type, r): (DataType, Numbers<'_>),
    result: DataType,
    nulls: &[bool],
    len: usize,
) -> Option<Data> {
    let factor = |data_type, numbers: &Numbers<'_>| match scale_of(data_type)? {
        _ if !numbers.is_int() => None,
        0 => Some(MONEY_UNIT),
        MONEY_SCALE => Some(1),
        _ => None,
    };
    let (lift_l, lift_r) = (factor(left_type, &l)?, factor(right_type, &r)?);
    let mut out = Vec::with_capacity(len);
    for row in 0..len {
        if is_null(nulls, row) {
            out.push(0);
            continue;
        }
        let (a, b) = (
            i128::from(l.int(row)?) * lift_l,
            i128::from(r.int(row)?) * lift_r,
        );
        let number = match op {
            BinaryOp::Add => a + b,
            BinaryOp::Subtract => a - b,
            BinaryOp::Multiply => rounded(a.checked_mul(b)?),
            BinaryOp::Divide | BinaryOp::Modulo if b == 0 => return None,
            BinaryOp::Divide => a.checked_mul(MONEY_UNIT)? / b,
            BinaryOp::Modulo => a % b,
            _ => return None,
        };
        out.push(number);
    }
    exact_data(out, result, nulls)
}

/// `product / 10000`, half away from zero; short products without a long division.
#[inline]
fn rounded(product: i128) -> i128 {
    const UNIT: i64 = MONEY_UNIT as i64;
    match i64::try_from(product) {
        Ok(short) if short.unsigned_abs() < i64::MAX as u64 - UNIT as u64 => {
            let half = if short < 0 { -UNIT / 2 } else { UNIT / 2 };
            i128::from((short + half) / UNIT)
        }
        _ => decimal::round_div(product, MONEY_UNIT),
    }
}

fn decimals(
    op: BinaryOp,
    (left_type, l): (DataType, Numbers<'_>),
    (right_type, r): (DataType, Numbers<'_>),
    result: DataType,
    nulls: &[bool],
    len: usize,
) -> Option<Data> {
    let (s1, s2, scale) = (
        scale_of(left_type)?,
        scale_of(right_type)?,
        scale_of(result)?,
    );
    // Only results that need no rounding.
    let (lift_l, lift_r) = match op {
        BinaryOp::Add | BinaryOp::Subtract if scale == s1.max(s2) => (
            decimal::power_of_ten(scale - s1),
            decimal::power_of_ten(scale - s2),
        ),
        BinaryOp::Multiply if scale == s1 + s2 => (1, 1),
        _ => return None,
    };
    if !exact_in_general(op, left_type, right_type, scale) {
        return None;
    }
    let mut out = Vec::with_capacity(len);
    for row in 0..len {
        if is_null(nulls, row) {
            out.push(0);
            continue;
        }
        let a = l.wide(row)?.checked_mul(lift_l)?;
        let b = r.wide(row)?.checked_mul(lift_r)?;
        out.push(match op {
            BinaryOp::Add => a.checked_add(b)?,
            BinaryOp::Subtract => a.checked_sub(b)?,
            _ => a.checked_mul(b)?,
        });
    }
    exact_data(out, result, nulls)
}

/// Does the way over single values, which goes by the values' own types, keep all digits as well?
fn exact_in_general(op: BinaryOp, left: DataType, right: DataType, scale: u8) -> bool {
    let (Some(l), Some(r)) = (
        crate::types::exact_shape(left),
        crate::types::exact_shape(right),
    ) else {
        return false;
    };
    let op = match op {
        BinaryOp::Add => decimal::DecimalOp::Add,
        BinaryOp::Subtract => decimal::DecimalOp::Subtract,
        _ => decimal::DecimalOp::Multiply,
    };
    decimal::result_type(op, l, r).1 == scale
}

fn floats(
    op: BinaryOp,
    (left_type, l): (DataType, Numbers<'_>),
    (right_type, r): (DataType, Numbers<'_>),
    nulls: &[bool],
    len: usize,
) -> Option<Data> {
    if ![left_type, right_type]
        .iter()
        .all(|t| t.is_integer() || matches!(t, DataType::Float | DataType::Real))
    {
        return None;
    }
    let float = |numbers: &Numbers<'_>, row| {
        if numbers.is_float() {
            numbers.float(row)
        } else {
            numbers.int(row).map(|n| n as f64)
        }
    };
    let mut out = Vec::with_capacity(len);
    for row in 0..len {
        if is_null(nulls, row) {
            out.push(0.0);
            continue;
        }
        let (a, b) = (float(&l, row)?, float(&r, row)?);
        let number = match op {
            BinaryOp::Add => a + b,
            BinaryOp::Subtract => a - b,
            BinaryOp::Multiply => a * b,
            BinaryOp::Divide if b != 0.0 => a / b,
            _ => return None,
        };
        match Number::of(
            &Value::approximate(number, DataType::Float)?,
            DataType::Float,
        )? {
            Number::Float(n) => out.push(n),
            _ => return None,
        }
    }
    Some(Data::Float(out))
}
