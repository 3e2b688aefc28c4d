//! Operators on values: arithmetic, bitwise, concatenation, negation.
//!
//! Theory: the binder chose the result type by `types::binary_result_type` and converted text operands to numbers; here
//! both operands are of types that the operator takes, and NULL gives NULL.

use crate::convert::{ConvertContext, convert_owned};
use crate::types::BinaryOp;
use crate::{DataType, DateTime, Decimal, LARGE_BYTES_MAX, Value, ValueError};
use compact_str::CompactString;

/// Computes `left op right` as `result` (from `binary_result_type`).
pub fn evaluate(
    op: BinaryOp,
    left: &Value,
    right: &Value,
    result: DataType,
) -> Result<Value, ValueError> {
    if left.is_null() || right.is_null() {
        return Ok(Value::Null);
    }
    match result {
        DataType::Int
        | DataType::BigInt
        | DataType::SmallInt
        | DataType::TinyInt
        | DataType::Bit => integer(op, left, right, result),
        DataType::Decimal { precision, scale } => decimal(op, left, right)?
            .rescale(precision, scale)
            .map(Value::Decimal),
        DataType::Money | DataType::SmallMoney => money(op, left, right, result),
        DataType::Float | DataType::Real => float(op, left, right, result),
        DataType::DateTime | DataType::SmallDateTime => days(op, left, right, result),
        _ => {
            let joined = concatenate(left, right)?.ok_or_else(|| mismatch(left, right, op))?;
            cut_to(joined, result)
        }
    }
}

/// A joined string is silently cut at its type's limit of 8,000 bytes.
fn cut_to(value: Value, result: DataType) -> Result<Value, ValueError> {
    let from = match result {
        DataType::NVarChar(_) | DataType::NChar(_) => DataType::NVARCHAR_MAX,
        DataType::VarBinary(_) | DataType::Binary(_) => DataType::VARBINARY_MAX,
        _ => DataType::VARCHAR_MAX,
    };
    convert_owned(value, from, result, None, &ConvertContext::default())
}

/// Operands the binder should have refused.
fn mismatch(left: &Value, right: &Value, op: BinaryOp) -> ValueError {
    ValueError::incompatible_operands(left.natural_type(), right.natural_type(), op.name())
}

fn integer(
    op: BinaryOp,
    left: &Value,
    right: &Value,
    result: DataType,
) -> Result<Value, ValueError> {
    let (a, b) = match (whole(left), whole(right)) {
        (Some(a), Some(b)) => (a, b),
        _ => return Err(mismatch(left, right, op)),
    };
    let overflow = || ValueError::expression_overflow(result);
    let number = match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Subtract => a.checked_sub(b),
        BinaryOp::Multiply => a.checked_mul(b),
        BinaryOp::Divide | BinaryOp::Modulo if b == 0 => return Err(ValueError::divide_by_zero()),
        BinaryOp::Divide => a.checked_div(b),
        // The remainder of the least bigint by -1 is 0, though the quotient overflows.
        BinaryOp::Modulo => Some(a.wrapping_rem(b)),
        BinaryOp::BitAnd => Some(a & b),
        BinaryOp::BitOr => Some(a | b),
        BinaryOp::BitXor => Some(a ^ b),
    };
    Value::integer(number.ok_or_else(overflow)?, result).ok_or_else(overflow)
}

/// An integer, or up to eight bytes of a binary operand of `&`, `|`, `^`.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Bytes(bytes) => Some(bytes.iter().fold(0, |n, b| (n << 8) | i64::from(*b))),
        other => other.as_i64(),
    }
}

fn decimal(op: BinaryOp, left: &Value, right: &Value) -> Result<Decimal, ValueError> {
    let (Some(a), Some(b)) = (exact(left), exact(right)) else {
        return Err(mismatch(left, right, op));
    };
    match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Subtract => a.checked_sub(b),
        BinaryOp::Multiply => a.checked_mul(b),
        BinaryOp::Divide => a.checked_div(b),
        BinaryOp::Modulo => a.checked_rem(b),
        _ => Err(mismatch(left, right, op)),
    }
}

/// An exact number with the precision of its type, which decides the precision of results.
fn exact(value: &Value) -> Option<Decimal> {
    let number = value.as_decimal()?;
    let (precision, _) = crate::types::exact_shape(value.natural_type())?;
    Some(Decimal {
        precision,
        ..number
    })
}

const MONEY_UNIT: i128 = 10_000;

fn money(op: BinaryOp, left: &Value, right: &Value, result: DataType) -> Result<Value, ValueError> {
    let units = |v: &Value| {
        v.as_decimal()
            .and_then(|d| d.rescale(38, 4).ok())
            .map(Decimal::unscaled)
    };
    let (Some(a), Some(b)) = (units(left), units(right)) else {
        return Err(mismatch(left, right, op));
    };
    // A bigint or a decimal beside money may be larger than any money.
    let number = match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Subtract => a.checked_sub(b),
        BinaryOp::Multiply => a
            .checked_mul(b)
            .map(|product| crate::decimal::round_div(product, MONEY_UNIT)),
        BinaryOp::Divide | BinaryOp::Modulo if b == 0 => return Err(ValueError::divide_by_zero()),
        BinaryOp::Divide => a.checked_mul(MONEY_UNIT).map(|lifted| lifted / b),
        BinaryOp::Modulo => a.checked_rem(b),
        _ => return Err(mismatch(left, right, op)),
    };
    let number = number.ok_or_else(|| ValueError::expression_overflow(result))?;
    let overflow = |_| ValueError::expression_overflow(result);
    match result {
        DataType::SmallMoney => i32::try_from(number)
            .map(Value::SmallMoney)
            .map_err(overflow),
        _ => i64::try_from(number).map(Value::Money).map_err(overflow),
    }
}

fn float(op: BinaryOp, left: &Value, right: &Value, result: DataType) -> Result<Value, ValueError> {
    let (Some(a), Some(b)) = (left.as_f64(), right.as_f64()) else {
        return Err(mismatch(left, right, op));
    };
    let number = match op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        BinaryOp::Divide if b == 0.0 => return Err(ValueError::divide_by_zero()),
        BinaryOp::Divide => a / b,
        _ => return Err(mismatch(left, right, op)),
    };
    Value::approximate(number, result).ok_or_else(|| ValueError::expression_overflow(result))
}

/// datetime arithmetic: both operands as ticks since 1900.
fn days(op: BinaryOp, left: &Value, right: &Value, result: DataType) -> Result<Value, ValueError> {
    const DAY: i128 = 25_920_000;
    let ticks = |v: &Value| -> Option<i128> {
        Some(match v {
            Value::DateTime(v) => i128::from(v.days) * DAY + i128::from(v.ticks),
            Value::SmallDateTime(v) => i128::from(v.days) * DAY + i128::from(v.minutes) * 18_000,
            Value::Real(_) | Value::Float(_) => (v.as_f64()? * DAY as f64).round() as i128,
            number => crate::decimal::round_div(
                number
                    .as_decimal()?
                    .rescale(38, 10)
                    .ok()?
                    .unscaled()
                    .checked_mul(DAY)?,
                crate::decimal::power_of_ten(10),
            ),
        })
    };
    let (Some(a), Some(b)) = (ticks(left), ticks(right)) else {
        return Err(mismatch(left, right, op));
    };
    let total = if op == BinaryOp::Add { a + b } else { a - b };
    let overflow = || ValueError::expression_overflow(result);
    let days = i32::try_from(total.div_euclid(DAY)).map_err(|_| overflow())?;
    let value = DateTime {
        days,
        ticks: total.rem_euclid(DAY) as u32,
    };
    match result {
        DataType::SmallDateTime => crate::temporal::datetime_to_smalldatetime(value)
            .map(Value::SmallDateTime)
            .ok_or_else(overflow),
        _ if crate::temporal::is_valid_datetime(value) => Ok(Value::DateTime(value)),
        _ => Err(overflow()),
    }
}

/// Joins two strings or two binaries; `None` for anything else.
pub fn concatenate(left: &Value, right: &Value) -> Result<Option<Value>, ValueError> {
    let length = |value: &Value| match value {
        Value::Str(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    if length(left) + length(right) > LARGE_BYTES_MAX {
        return Err(ValueError::too_large());
    }
    Ok(Some(match (left, right) {
        (Value::Str(a), Value::Str(b)) => {
            let mut text = CompactString::with_capacity(a.len() + b.len());
            text.push_str(a);
            text.push_str(b);
            Value::Str(text)
        }
        (Value::Bytes(a), Value::Bytes(b)) => Value::Bytes([a.as_slice(), b.as_slice()].concat()),
        _ => return Ok(None),
    }))
}

/// Unary minus; `data_type` is the operand's.
pub fn negate(value: &Value, data_type: DataType) -> Result<Value, ValueError> {
    let overflow = || ValueError::expression_overflow(data_type);
    Ok(match value {
        Value::Null => Value::Null,
        Value::TinyInt(0) => Value::TinyInt(0),
        Value::TinyInt(_) => return Err(overflow()),
        Value::SmallInt(v) => Value::SmallInt(v.checked_neg().ok_or_else(overflow)?),
        Value::Int(v) => Value::Int(v.checked_neg().ok_or_else(overflow)?),
        Value::BigInt(v) => Value::BigInt(v.checked_neg().ok_or_else(overflow)?),
        Value::Decimal(v) => Value::Decimal(v.negate()),
        Value::SmallMoney(v) => Value::SmallMoney(v.checked_neg().ok_or_else(overflow)?),
        Value::Money(v) => Value::Money(v.checked_neg().ok_or_else(overflow)?),
        Value::Real(v) => Value::Real(-v),
        Value::Float(v) => Value::Float(-v),
        _ => return Err(ValueError::invalid_operand(data_type, "minus")),
    })
}

/// Bitwise NOT.
pub fn bitwise_not(value: &Value, data_type: DataType) -> Result<Value, ValueError> {
    Ok(match value {
        Value::Null => Value::Null,
        Value::Bit(v) => Value::Bit(!v),
        Value::TinyInt(v) => Value::TinyInt(!v),
        Value::SmallInt(v) => Value::SmallInt(!v),
        Value::Int(v) => Value::Int(!v),
        Value::BigInt(v) => Value::BigInt(!v),
        _ => return Err(ValueError::invalid_operand(data_type, "'~'")),
    })
}

impl Value {
    /// An integer of the given type; `None` when it does not fit.
    pub fn integer(number: i64, data_type: DataType) -> Option<Value> {
        Some(match data_type {
            DataType::Bit => Value::Bit(number != 0),
            DataType::TinyInt => Value::TinyInt(number.try_into().ok()?),
            DataType::SmallInt => Value::SmallInt(number.try_into().ok()?),
            DataType::Int => Value::Int(number.try_into().ok()?),
            DataType::BigInt => Value::BigInt(number),
            _ => return None,
        })
    }

    /// A real or float; `None` when it is not finite in that type. Tiny reals become zero.
    pub fn approximate(number: f64, data_type: DataType) -> Option<Value> {
        match data_type {
            DataType::Real => Some(number as f32)
                .filter(|v| v.is_finite())
                .map(Value::Real),
            _ => Some(number).filter(|v| v.is_finite()).map(Value::Float),
        }
    }

    /// The type a value has by itself, for messages and for `sql_variant`.
    pub fn natural_type(&self) -> DataType {
        use crate::Len;
        let len = |n: usize, max: u16| {
            if n > usize::from(max) {
                Len::MAX
            } else {
                Len(n.max(1) as u16)
            }
        };
        match self {
            Value::Null | Value::Int(_) => DataType::Int,
            Value::Bit(_) => DataType::Bit,
            Value::TinyInt(_) => DataType::TinyInt,
            Value::SmallInt(_) => DataType::SmallInt,
            Value::BigInt(_) => DataType::BigInt,
            Value::Decimal(v) => v.data_type(),
            Value::SmallMoney(_) => DataType::SmallMoney,
            Value::Money(_) => DataType::Money,
            Value::Real(_) => DataType::Real,
            Value::Float(_) => DataType::Float,
            Value::Date(_) => DataType::Date,
            Value::Time(v) => DataType::Time { scale: v.scale },
            Value::SmallDateTime(_) => DataType::SmallDateTime,
            Value::DateTime(_) => DataType::DateTime,
            Value::DateTime2(v) => DataType::DateTime2 { scale: v.scale },
            Value::DateTimeOffset(v) => DataType::DateTimeOffset { scale: v.utc.scale },
            Value::Str(v) => DataType::NVarChar(len(v.chars().map(char::len_utf16).sum(), 4000)),
            Value::Bytes(v) => DataType::VarBinary(len(v.len(), 8000)),
            Value::Guid(_) => DataType::UniqueIdentifier,
            Value::Variant(_) => DataType::Variant,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::binary_result_type;

    fn run(op: BinaryOp, a: Value, b: Value) -> Result<Value, i32> {
        let result =
            binary_result_type(op, a.natural_type(), b.natural_type()).map_err(|e| e.number())?;
        evaluate(op, &a, &b, result).map_err(|e| e.number())
    }

    #[test]
    fn integers() {
        use BinaryOp::*;
        assert_eq!(run(Add, Value::Int(i32::MAX), Value::Int(1)), Err(8115));
        assert_eq!(
            run(Divide, Value::Int(7), Value::Int(-2)),
            Ok(Value::Int(-3))
        );
        assert_eq!(
            run(Modulo, Value::Int(-7), Value::Int(3)),
            Ok(Value::Int(-1))
        );
        assert_eq!(
            run(Modulo, Value::BigInt(i64::MIN), Value::BigInt(-1)),
            Ok(Value::BigInt(0))
        );
        assert_eq!(run(Divide, Value::Int(1), Value::Int(0)), Err(8134));
        assert_eq!(
            run(Subtract, Value::TinyInt(1), Value::TinyInt(2)),
            Err(8115)
        );
        assert_eq!(
            run(BitXor, Value::Int(6), Value::SmallInt(3)),
            Ok(Value::Int(5))
        );
        assert_eq!(run(Add, Value::Null, Value::Int(1)), Ok(Value::Null));
    }

    #[test]
    fn other_numbers() {
        use BinaryOp::*;
        let dec = |t| Value::Decimal(Decimal::parse_literal(t).expect(t));
        let shown = |v: Result<Value, i32>| {
            v.map(|v| v.as_decimal().map(|d| d.to_string()).unwrap_or_default())
        };
        assert_eq!(
            shown(run(Multiply, dec("1.50"), Value::Int(2))),
            Ok("3.00".into())
        );
        assert_eq!(
            shown(run(Divide, dec("1.0"), Value::Int(3))),
            Ok("0.333333333333".into())
        );
        assert_eq!(
            run(Multiply, Value::Money(15_000), Value::Money(25_000)),
            Ok(Value::Money(37_500))
        );
        assert_eq!(run(Divide, Value::Float(1.0), Value::Int(0)), Err(8134));
        assert_eq!(
            run(Multiply, Value::Float(1e200), Value::Float(1e200)),
            Err(8115)
        );
        let day = |days, ticks| Value::DateTime(DateTime { days, ticks });
        assert_eq!(run(Add, day(10, 0), dec("1.5")), Ok(day(11, 12_960_000)));
        assert_eq!(run(Subtract, day(10, 0), day(8, 1)), Ok(day(1, 25_919_999)));
    }

    #[test]
    fn text() {
        assert_eq!(
            run(BinaryOp::Add, Value::str("a"), Value::str("b")),
            Ok(Value::str("ab"))
        );
        let long = evaluate(
            BinaryOp::Add,
            &Value::str("x".repeat(5)),
            &Value::str("y"),
            DataType::VarChar(crate::Len(4)),
        );
        assert_eq!(long, Ok(Value::str("xxxx")));
        assert_eq!(
            negate(&Value::Int(i32::MIN), DataType::Int).map_err(|e| e.number()),
            Err(8115)
        );
        assert_eq!(
            bitwise_not(&Value::Int(0), DataType::Int),
            Ok(Value::Int(-1))
        );
    }
}
