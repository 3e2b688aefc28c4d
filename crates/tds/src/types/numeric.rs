//! Numbers of any variant, brought to the declared type.

use super::encode::kind_of;
use crate::{Result, TdsError};
use daruma_value::Value;

/// `unscaled / 10^scale`.
struct Exact {
    unscaled: i128,
    scale: u8,
}

const MONEY_SCALE: u8 = 4;

pub(super) fn pow10(exponent: u8) -> Option<i128> {
    10_i128.checked_pow(u32::from(exponent))
}

fn exact(value: &Value) -> Option<Exact> {
    let (unscaled, scale) = match value {
        Value::Bit(bit) => (i128::from(*bit), 0),
        Value::TinyInt(n) => (i128::from(*n), 0),
        Value::SmallInt(n) => (i128::from(*n), 0),
        Value::Int(n) => (i128::from(*n), 0),
        Value::BigInt(n) => (i128::from(*n), 0),
        Value::Decimal(n) => (n.unscaled(), n.scale),
        Value::SmallMoney(n) => (i128::from(*n), MONEY_SCALE),
        Value::Money(n) => (i128::from(*n), MONEY_SCALE),
        _ => return None,
    };
    Some(Exact { unscaled, scale })
}

fn approximate(value: &Value) -> Option<f64> {
    match value {
        Value::Real(n) => Some(f64::from(*n)),
        Value::Float(n) => Some(*n),
        _ => None,
    }
}

/// As a whole number; fractions are cut off, as in a conversion to an integer type.
pub(super) fn integer(value: &Value, expected: &'static str) -> Result<i128> {
    if let Some(exact) = exact(value) {
        let divisor = pow10(exact.scale).ok_or(TdsError::OutOfRange { expected })?;
        return Ok(exact.unscaled / divisor);
    }
    whole(
        approximate(value)
            .ok_or_else(|| wrong(value, expected))?
            .trunc(),
        expected,
    )
}

/// As `n / 10^scale`, rounded half away from zero.
pub(super) fn scaled(value: &Value, scale: u8, expected: &'static str) -> Result<i128> {
    let out_of_range = || TdsError::OutOfRange { expected };
    if let Some(exact) = exact(value) {
        if exact.scale <= scale {
            let factor = pow10(scale - exact.scale).ok_or_else(out_of_range)?;
            return exact.unscaled.checked_mul(factor).ok_or_else(out_of_range);
        }
        let divisor = pow10(exact.scale - scale).ok_or_else(out_of_range)?;
        let carry = if (exact.unscaled % divisor).abs() >= divisor / 2 {
            exact.unscaled.signum()
        } else {
            0
        };
        return Ok(exact.unscaled / divisor + carry);
    }
    let number = approximate(value).ok_or_else(|| wrong(value, expected))?;
    whole((number * 10_f64.powi(i32::from(scale))).round(), expected)
}

pub(super) fn float(value: &Value, expected: &'static str) -> Result<f64> {
    if let Some(number) = approximate(value) {
        return Ok(number);
    }
    let exact = exact(value).ok_or_else(|| wrong(value, expected))?;
    Ok(exact.unscaled as f64 / 10_f64.powi(i32::from(exact.scale)))
}

fn whole(number: f64, expected: &'static str) -> Result<i128> {
    if number.abs() < 1e38 {
        Ok(number as i128)
    } else {
        Err(TdsError::OutOfRange { expected })
    }
}

pub(super) fn wrong(value: &Value, expected: &'static str) -> TdsError {
    TdsError::WrongValue {
        expected,
        found: kind_of(value),
    }
}
