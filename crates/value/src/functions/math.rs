//! Mathematical functions.

use super::{Call, FunctionDef, Signature};
use crate::decimal::{PRECISION_MAX, round_div};
use crate::{DataType, Decimal, Value, ValueError};

pub(super) const FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("ABS", 1..=1, same_number, abs),
    FunctionDef::new("SIGN", 1..=1, same_number, sign),
    FunctionDef::new("CEILING", 1..=1, whole_number, |c| {
        round_up_or_down(c, true)
    }),
    FunctionDef::new("FLOOR", 1..=1, whole_number, |c| round_up_or_down(c, false)),
    FunctionDef::new("ROUND", 2..=3, same_number, round),
    FunctionDef::new("POWER", 2..=2, same_number, power),
    FunctionDef::new("DEGREES", 1..=1, angle, |c| {
        give_number(c, c.float(0)?.to_degrees())
    }),
    FunctionDef::new("RADIANS", 1..=1, angle, |c| {
        give_number(c, c.float(0)?.to_radians())
    }),
    FunctionDef::new("SQRT", 1..=1, float, |c| c.give_float(c.float(0)?.sqrt())),
    FunctionDef::new("SQUARE", 1..=1, float, |c| {
        c.give_float(c.float(0)?.powi(2))
    }),
    FunctionDef::new("EXP", 1..=1, float, |c| c.give_float(c.float(0)?.exp())),
    FunctionDef::new("LOG", 1..=2, float, log),
    FunctionDef::new("LOG10", 1..=1, float, |c| {
        c.give_float(positive(c.float(0)?)?.log10())
    }),
    FunctionDef::new("SIN", 1..=1, float, |c| c.give_float(c.float(0)?.sin())),
    FunctionDef::new("COS", 1..=1, float, |c| c.give_float(c.float(0)?.cos())),
    FunctionDef::new("TAN", 1..=1, float, |c| c.give_float(c.float(0)?.tan())),
    FunctionDef::new("COT", 1..=1, float, |c| {
        c.give_float(c.float(0)?.tan().recip())
    }),
    FunctionDef::new("ASIN", 1..=1, float, |c| c.give_float(c.float(0)?.asin())),
    FunctionDef::new("ACOS", 1..=1, float, |c| c.give_float(c.float(0)?.acos())),
    FunctionDef::new("ATAN", 1..=1, float, |c| c.give_float(c.float(0)?.atan())),
    FunctionDef::new("ATN2", 2..=2, float, |c| {
        c.give_float(c.float(0)?.atan2(c.float(1)?))
    }),
    FunctionDef::new(
        "PI",
        0..=0,
        |_| Ok(DataType::Float),
        |_| Ok(Value::Float(std::f64::consts::PI)),
    ),
    FunctionDef::new("RAND", 0..=1, |_| Ok(DataType::Float), rand)
        .volatile()
        .sees_null(),
];

fn float(s: &Signature<'_>) -> Result<DataType, ValueError> {
    for position in 0..s.types.len() {
        s.check(position, DataType::Float)?;
    }
    Ok(DataType::Float)
}

/// The type of the first argument; small integers count as int, text and bit as float.
fn same_number(s: &Signature<'_>) -> Result<DataType, ValueError> {
    use DataType::*;
    s.check(1, Float)?;
    Ok(match s.at(0) {
        TinyInt | SmallInt | Int => Int,
        SmallMoney => Money,
        Real | Float | Bit => Float,
        Decimal { scale, .. } if s.name == "POWER" => Decimal {
            precision: PRECISION_MAX,
            scale,
        },
        exact @ (BigInt | Money | Decimal { .. }) => exact,
        text if text.is_character() => Float,
        _ => return Err(s.invalid(0)),
    })
}

fn whole_number(s: &Signature<'_>) -> Result<DataType, ValueError> {
    Ok(match same_number(s)? {
        DataType::Decimal { precision, .. } => DataType::Decimal {
            precision,
            scale: 0,
        },
        other => other,
    })
}

fn angle(s: &Signature<'_>) -> Result<DataType, ValueError> {
    Ok(match same_number(s)? {
        DataType::Decimal { .. } => DataType::Decimal {
            precision: PRECISION_MAX,
            scale: 18,
        },
        other => other,
    })
}

/// A float cut or rounded to the result type.
fn give_number(c: &Call<'_>, number: f64) -> Result<Value, ValueError> {
    if number.is_nan() {
        return Err(ValueError::invalid_float());
    }
    match c.result {
        DataType::Float => c.give_float(number),
        to => c
            .give(Value::Float(number), DataType::Float)
            .map_err(|_| ValueError::expression_overflow(to)),
    }
}

fn abs(c: &Call<'_>) -> Result<Value, ValueError> {
    let overflow = || ValueError::expression_overflow(c.result);
    Ok(match c.as_type(0, c.result)? {
        Value::Int(v) => Value::Int(v.checked_abs().ok_or_else(overflow)?),
        Value::BigInt(v) => Value::BigInt(v.checked_abs().ok_or_else(overflow)?),
        Value::Money(v) => Value::Money(v.checked_abs().ok_or_else(overflow)?),
        Value::Float(v) => Value::Float(v.abs()),
        Value::Decimal(v) if v.unscaled() < 0 => Value::Decimal(v.negate()),
        other => other,
    })
}

fn sign(c: &Call<'_>) -> Result<Value, ValueError> {
    let value = c.as_type(0, c.result)?;
    let sign = match &value {
        Value::Decimal(v) => v.unscaled().signum() as i64,
        Value::Money(v) => v.signum(),
        other => match other.as_i64() {
            Some(number) => number.signum(),
            None => {
                let number = other.as_f64().unwrap_or(0.0);
                i64::from(number > 0.0) - i64::from(number < 0.0)
            }
        },
    };
    c.give(Value::BigInt(sign), DataType::BigInt)
}

fn round_up_or_down(c: &Call<'_>, up: bool) -> Result<Value, ValueError> {
    const UNIT: i64 = 10_000;
    let value = match c.type_of(0) {
        DataType::Decimal { .. } => c.value(0).clone(),
        _ => c.as_type(0, c.result)?,
    };
    let overflow = || ValueError::expression_overflow(c.result);
    Ok(match value {
        Value::Decimal(v) => Value::Decimal(if up { v.ceiling() } else { v.floor() }),
        Value::Float(v) => Value::Float(if up { v.ceil() } else { v.floor() }),
        Value::Money(v) => {
            let whole = v.div_euclid(UNIT) + i64::from(up && v.rem_euclid(UNIT) != 0);
            Value::Money(whole.checked_mul(UNIT).ok_or_else(overflow)?)
        }
        other => other,
    })
}

/// ROUND(number, length, function): a function other than 0 cuts.
fn round(c: &Call<'_>) -> Result<Value, ValueError> {
    let digits = c.int(1)?.clamp(-400, 400) as i32;
    let truncate = c.int_or(2, 0)? != 0;
    let overflow = || ValueError::expression_overflow(c.result);
    let whole = |number: i128, drop: i32| -> i128 {
        if drop <= 0 {
            return number;
        }
        if drop > 30 {
            return 0;
        }
        let unit = crate::decimal::power_of_ten(drop as u8);
        (if truncate {
            number / unit
        } else {
            round_div(number, unit)
        }) * unit
    };
    Ok(match c.as_type(0, c.result)? {
        Value::Decimal(v) => Value::Decimal(v.round_to(digits, truncate)?),
        Value::Int(v) => {
            Value::Int(i32::try_from(whole(v.into(), -digits)).map_err(|_| overflow())?)
        }
        Value::BigInt(v) => {
            Value::BigInt(i64::try_from(whole(v.into(), -digits)).map_err(|_| overflow())?)
        }
        Value::Money(v) => {
            Value::Money(i64::try_from(whole(v.into(), 4 - digits)).map_err(|_| overflow())?)
        }
        Value::Float(v) => c.give_float(round_float(v, digits, truncate))?,
        other => other,
    })
}

fn round_float(value: f64, digits: i32, truncate: bool) -> f64 {
    if digits > 300 || value == 0.0 {
        return value;
    }
    if digits < -300 {
        return 0.0;
    }
    let scale = 10f64.powi(digits.abs());
    let scaled = if digits >= 0 {
        value * scale
    } else {
        value / scale
    };
    if !scaled.is_finite() {
        return value;
    }
    let whole = if truncate {
        scaled.trunc()
    } else {
        scaled.round()
    };
    if digits >= 0 {
        whole / scale
    } else {
        whole * scale
    }
}

fn power(c: &Call<'_>) -> Result<Value, ValueError> {
    let exponent = c.float(1)?;
    if let (DataType::Int | DataType::BigInt, true) = (
        c.result,
        exponent.fract() == 0.0 && (0.0..=64.0).contains(&exponent),
    ) {
        let base = c.int(0)?;
        let exact = base.checked_pow(exponent as u32);
        return exact
            .and_then(|exact| Value::integer(exact, c.result))
            .ok_or_else(|| power_overflow(c.result, (base as f64).powf(exponent)));
    }
    if let (DataType::Decimal { precision, scale }, true) = (
        c.result,
        exponent.fract() == 0.0 && (0.0..=128.0).contains(&exponent),
    ) && let Some(exact) = decimal_power(c.value(0).as_decimal(), exponent as u32)
    {
        return exact.rescale(precision, scale).map(Value::Decimal);
    }
    let base = c.float(0)?;
    if base == 0.0 && exponent < 0.0 {
        return Err(ValueError::divide_by_zero());
    }
    give_number(c, base.powf(exponent))
}

/// The product calculates in floating point: what does not fit an int is the overflow of a conversion.
fn power_overflow(result: DataType, power: f64) -> ValueError {
    match result {
        DataType::Int => ValueError::new(232, 3, &[&result.name(), &format!("{power:.6}")]),
        _ => ValueError::expression_overflow(result),
    }
}

/// By repeated multiplication while all digits fit.
fn decimal_power(base: Option<Decimal>, exponent: u32) -> Option<Decimal> {
    let base = base?;
    let scale = u8::try_from(u32::from(base.scale).checked_mul(exponent)?).ok()?;
    let unscaled = base.unscaled().checked_pow(exponent)?;
    let fits = scale <= PRECISION_MAX
        && unscaled.unsigned_abs() < crate::decimal::power_of_ten(PRECISION_MAX).unsigned_abs();
    fits.then(|| Decimal::new(unscaled, PRECISION_MAX, scale))
}

fn positive(number: f64) -> Result<f64, ValueError> {
    if number > 0.0 {
        Ok(number)
    } else {
        Err(ValueError::invalid_float())
    }
}

fn log(c: &Call<'_>) -> Result<Value, ValueError> {
    let number = positive(c.float(0)?)?;
    if c.args.len() < 2 {
        return c.give_float(number.ln());
    }
    let base = positive(c.float(1)?)?;
    if base == 1.0 {
        return Err(ValueError::invalid_float());
    }
    c.give_float(number.ln() / base.ln())
}

fn rand(c: &Call<'_>) -> Result<Value, ValueError> {
    let seed = match c.args.first() {
        None => None,
        Some(Value::Null) => return Ok(Value::Null),
        Some(_) => Some(c.int(0)? as i32),
    };
    Ok(Value::Float(c.context.host.random(seed)))
}
