//! `decimal` arithmetic with T-SQL's rules for precision and scale.
//!
//! Theory: a decimal is an integer divided by a power of ten. Each operator has a natural result precision and scale;
//! beyond 38 digits the scale gives way to the integral part. Products and dividends need up to 256 bits on the way.
//!
//! Invariants
//! 1. |unscaled| < 10^38 for every result; anything larger is error 8115.
//! 2. Reducing the scale rounds half away from zero, except in division and remainder, which cut.

use crate::{DataType, Decimal, ValueError};
use ethnum::I256;
use std::cmp::Ordering;
use std::fmt;

/// Digits that a decimal can have.
pub const PRECISION_MAX: u8 = 38;

/// Least scale that division keeps, and that products keep when the integral part is large.
const SCALE_KEPT: u8 = 6;

const POWERS: [i128; 39] = {
    let mut powers = [1i128; 39];
    let mut n = 1;
    while n < 39 {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

/// 10^n for n <= 38; larger n saturates at 10^38.
pub const fn power_of_ten(n: u8) -> i128 {
    if n as usize >= POWERS.len() {
        POWERS[POWERS.len() - 1]
    } else {
        POWERS[n as usize]
    }
}

/// Operators whose result precision differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// Precision and scale of `a op b`.
pub fn result_type(op: DecimalOp, (p1, s1): (u8, u8), (p2, s2): (u8, u8)) -> (u8, u8) {
    let (p1, s1, p2, s2) = (i16::from(p1), i16::from(s1), i16::from(p2), i16::from(s2));
    let integral = (p1 - s1).max(p2 - s2);
    let max = i16::from(PRECISION_MAX);
    let (precision, scale) = match op {
        DecimalOp::Add | DecimalOp::Subtract => {
            let scale = s1.max(s2);
            let precision = integral + scale + 1;
            (
                precision.min(max),
                if precision > max {
                    scale.min(max - integral)
                } else {
                    scale
                },
            )
        }
        DecimalOp::Modulo => {
            let scale = s1.max(s2);
            ((p1 - s1).min(p2 - s2) + scale, scale)
        }
        DecimalOp::Multiply => reduce(p1 + p2 + 1, s1 + s2),
        DecimalOp::Divide => {
            let scale = i16::from(SCALE_KEPT).max(s1 + p2 + 1);
            reduce(p1 - s1 + s2 + scale, scale)
        }
    };
    (precision.clamp(1, max) as u8, scale.clamp(0, max) as u8)
}

fn reduce(precision: i16, scale: i16) -> (i16, i16) {
    let max = i16::from(PRECISION_MAX);
    if precision <= max {
        return (precision, scale);
    }
    let integral = precision - scale;
    (max, (max - integral).max(scale.min(i16::from(SCALE_KEPT))))
}

/// Whether lost digits round or vanish.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    Round,
    Cut,
}

/// `value / divisor`, the remainder handled as told.
fn divide_wide(value: I256, divisor: I256, loss: Loss) -> I256 {
    let quotient = value / divisor;
    let remainder = value % divisor;
    let step = if (value < 0) == (divisor < 0) {
        I256::ONE
    } else {
        -I256::ONE
    };
    if loss == Loss::Round && remainder.abs() >= divisor.abs() - remainder.abs() {
        quotient + step
    } else {
        quotient
    }
}

fn wide_power(n: u32) -> I256 {
    I256::from(10).pow(n)
}

fn narrow(value: I256, precision: u8, scale: u8, from: &str) -> Result<Decimal, ValueError> {
    if value.abs() >= I256::from(power_of_ten(precision)) {
        return Err(ValueError::overflow(
            from,
            DataType::Decimal { precision, scale },
        ));
    }
    Ok(Decimal::new(value.as_i128(), precision, scale))
}

impl Decimal {
    /// Nothing, with this precision and scale.
    pub const fn zero(precision: u8, scale: u8) -> Decimal {
        Decimal::new(0, precision, scale)
    }

    /// An integer as `decimal(precision, 0)` just wide enough.
    pub fn from_i64(value: i64) -> Decimal {
        let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) as u8 + 1;
        Decimal::new(i128::from(value), digits, 0)
    }

    /// The type that has its precision and scale.
    pub const fn data_type(self) -> DataType {
        DataType::Decimal {
            precision: self.precision,
            scale: self.scale,
        }
    }

    /// Is it nothing?
    pub const fn is_zero(self) -> bool {
        self.hi == 0 && self.lo == 0
    }

    /// The same number with another precision and scale, rounded half away from zero.
    pub fn rescale(self, precision: u8, scale: u8) -> Result<Decimal, ValueError> {
        self.rescale_from(precision, scale, "numeric")
    }

    /// As `rescale`; an overflow names `from` as the source type.
    pub fn rescale_from(self, precision: u8, scale: u8, from: &str) -> Result<Decimal, ValueError> {
        let unscaled = self.unscaled();
        let limit = power_of_ten(precision);
        let overflow = || ValueError::overflow(from, DataType::Decimal { precision, scale });
        let result = if scale >= self.scale {
            unscaled
                .checked_mul(power_of_ten(scale - self.scale))
                .ok_or_else(overflow)?
        } else {
            round_div(unscaled, power_of_ten(self.scale - scale))
        };
        if result.unsigned_abs() >= limit.unsigned_abs() {
            return Err(overflow());
        }
        Ok(Decimal::new(result, precision, scale))
    }

    /// The sum, with the precision and scale that T-SQL gives it; 8115 when it does not fit.
    pub fn checked_add(self, other: Decimal) -> Result<Decimal, ValueError> {
        self.sum(other, DecimalOp::Add)
    }

    /// The difference, with the precision and scale that T-SQL gives it; 8115 when it does not fit.
    pub fn checked_sub(self, other: Decimal) -> Result<Decimal, ValueError> {
        self.sum(other, DecimalOp::Subtract)
    }

    fn sum(self, other: Decimal, op: DecimalOp) -> Result<Decimal, ValueError> {
        let (precision, scale) = self.result_type(op, other);
        let common = self.scale.max(other.scale);
        let lift =
            |d: Decimal| I256::from(d.unscaled()) * I256::from(power_of_ten(common - d.scale));
        let sum = if op == DecimalOp::Add {
            lift(self) + lift(other)
        } else {
            lift(self) - lift(other)
        };
        let sum = divide_wide(sum, I256::from(power_of_ten(common - scale)), Loss::Round);
        narrow(sum, precision, scale, "numeric")
    }

    /// The product, with the precision and scale that T-SQL gives it; 8115 when it does not fit.
    pub fn checked_mul(self, other: Decimal) -> Result<Decimal, ValueError> {
        let (precision, scale) = self.result_type(DecimalOp::Multiply, other);
        let product = I256::from(self.unscaled()) * I256::from(other.unscaled());
        let extra = u32::from(self.scale) + u32::from(other.scale) - u32::from(scale);
        narrow(
            divide_wide(product, wide_power(extra), Loss::Round),
            precision,
            scale,
            "numeric",
        )
    }

    /// The quotient, cut to the scale that T-SQL gives it; 8134 for division by zero.
    pub fn checked_div(self, other: Decimal) -> Result<Decimal, ValueError> {
        if other.is_zero() {
            return Err(ValueError::divide_by_zero());
        }
        let (precision, scale) = self.result_type(DecimalOp::Divide, other);
        let shift = i32::from(scale) + i32::from(other.scale) - i32::from(self.scale);
        let (mut dividend, mut divisor) =
            (I256::from(self.unscaled()), I256::from(other.unscaled()));
        if shift >= 0 {
            // 38 digits times 10^76 would pass 256 bits; the quotient would then pass 38 digits too, unless zero.
            match dividend.checked_mul(wide_power(shift.unsigned_abs().min(76))) {
                Some(wide) => dividend = wide,
                None => {
                    return Err(ValueError::overflow(
                        "numeric",
                        DataType::Decimal { precision, scale },
                    ));
                }
            }
        } else {
            divisor *= wide_power(shift.unsigned_abs());
        }
        narrow(
            divide_wide(dividend, divisor, Loss::Cut),
            precision,
            scale,
            "numeric",
        )
    }

    /// The remainder, which has the sign of `self`; 8134 for division by zero.
    pub fn checked_rem(self, other: Decimal) -> Result<Decimal, ValueError> {
        if other.is_zero() {
            return Err(ValueError::divide_by_zero());
        }
        let (precision, scale) = self.result_type(DecimalOp::Modulo, other);
        let lift =
            |d: Decimal| I256::from(d.unscaled()) * I256::from(power_of_ten(scale - d.scale));
        narrow(lift(self) % lift(other), precision, scale, "numeric")
    }

    fn result_type(self, op: DecimalOp, other: Decimal) -> (u8, u8) {
        result_type(
            op,
            (self.precision, self.scale),
            (other.precision, other.scale),
        )
    }

    /// The same number with the other sign.
    pub const fn negate(self) -> Decimal {
        Decimal::new(-self.unscaled(), self.precision, self.scale)
    }

    /// ROUND(self, digits, truncate): same scale, digits after `digits` zeroed.
    pub fn round_to(self, digits: i32, truncate: bool) -> Result<Decimal, ValueError> {
        let drop = i32::from(self.scale).saturating_sub(digits);
        if drop <= 0 {
            return Ok(self);
        }
        if drop > i32::from(PRECISION_MAX) {
            return Ok(Decimal::zero(self.precision, self.scale));
        }
        let unit = power_of_ten(drop as u8);
        let kept = if truncate {
            self.unscaled() / unit
        } else {
            round_div(self.unscaled(), unit)
        };
        let limit = power_of_ten(self.precision);
        match kept.checked_mul(unit) {
            Some(v) if v.unsigned_abs() < limit.unsigned_abs() => {
                Ok(Decimal::new(v, self.precision, self.scale))
            }
            _ => Err(ValueError::overflow("expression", self.data_type())),
        }
    }

    /// Largest whole number not above self, as `decimal(p, 0)`.
    pub fn floor(self) -> Decimal {
        Decimal::new(
            self.unscaled().div_euclid(power_of_ten(self.scale)),
            self.precision,
            0,
        )
    }

    /// Smallest whole number not below self, as `decimal(p, 0)`.
    pub fn ceiling(self) -> Decimal {
        self.negate().floor().negate()
    }

    /// The whole part, cut towards zero.
    pub fn to_i128_truncated(self) -> i128 {
        self.unscaled() / power_of_ten(self.scale)
    }

    /// The nearest float.
    pub fn to_f64(self) -> f64 {
        let unscaled = self.unscaled();
        const EXACT: u128 = 1 << 53;
        if unscaled.unsigned_abs() <= EXACT && self.scale <= 22 {
            return unscaled as f64 / power_of_ten(self.scale) as f64;
        }
        self.to_string().parse().unwrap_or(0.0)
    }

    /// The exact binary value rounded half away from zero.
    pub fn from_f64(value: f64, precision: u8, scale: u8) -> Result<Decimal, ValueError> {
        let overflow = || ValueError::overflow("float", DataType::Decimal { precision, scale });
        if !value.is_finite() || value.abs() >= 1e38 {
            return Err(overflow());
        }
        // Enough digits that a double near a tie still shows on which side it lies.
        let digits = usize::from(scale) + 25;
        parse_digits(&format!("{value:.digits$}"), precision, scale).map_err(|_| overflow())
    }

    /// Parses text for a conversion to `decimal(precision, scale)`: blanks around, sign, digits with one point.
    pub fn parse(text: &str, precision: u8, scale: u8) -> Result<Decimal, ParseDecimalError> {
        parse_digits(text.trim_matches([' ', '\t', '\n', '\r']), precision, scale)
    }

    /// A literal of the language: precision and scale follow from the digits written.
    pub fn parse_literal(text: &str) -> Result<Decimal, ParseDecimalError> {
        let body = text.trim_start_matches(['-', '+']);
        let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
        let whole = whole.trim_start_matches('0').len();
        let (precision, scale) = (whole + fraction.len(), fraction.len());
        if precision > usize::from(PRECISION_MAX) {
            return Err(ParseDecimalError::Overflow);
        }
        parse_digits(text, precision.max(1) as u8, scale as u8)
    }

    /// The number without trailing zeros: equal numbers become identical.
    pub fn normalized(self) -> (i128, u8) {
        let (mut unscaled, mut scale) = (self.unscaled(), self.scale);
        while scale > 0 && unscaled % 10 == 0 {
            unscaled /= 10;
            scale -= 1;
        }
        (unscaled, scale)
    }
}

/// Why text is no decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseDecimalError {
    Syntax,
    Overflow,
}

/// Rounds half away from zero.
pub fn round_div(value: i128, divisor: i128) -> i128 {
    let (quotient, remainder) = (value / divisor, value % divisor);
    if remainder.unsigned_abs() >= divisor.unsigned_abs() - remainder.unsigned_abs() {
        quotient + if (value < 0) == (divisor < 0) { 1 } else { -1 }
    } else {
        quotient
    }
}

fn parse_digits(text: &str, precision: u8, scale: u8) -> Result<Decimal, ParseDecimalError> {
    let (negative, body) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        all => (false, all),
    };
    let point = body.iter().position(|b| *b == b'.').unwrap_or(body.len());
    let (whole, rest) = body.split_at(point);
    let fraction = rest.get(1..).unwrap_or_default();
    if whole.is_empty() && fraction.is_empty()
        || !whole.iter().chain(fraction).all(u8::is_ascii_digit)
    {
        return Err(ParseDecimalError::Syntax);
    }
    let kept = fraction.iter().take(usize::from(scale));
    let missing = usize::from(scale).saturating_sub(fraction.len());
    let mut unscaled: i128 = 0;
    for digit in whole
        .iter()
        .chain(kept)
        .copied()
        .chain(std::iter::repeat_n(b'0', missing))
    {
        unscaled = unscaled
            .checked_mul(10)
            .and_then(|v| v.checked_add(i128::from(digit - b'0')))
            .ok_or(ParseDecimalError::Overflow)?;
    }
    if fraction
        .get(usize::from(scale))
        .is_some_and(|next| *next >= b'5')
    {
        unscaled += 1;
    }
    if unscaled >= power_of_ten(precision) {
        return Err(ParseDecimalError::Overflow);
    }
    Ok(Decimal::new(
        if negative { -unscaled } else { unscaled },
        precision,
        scale,
    ))
}

/// By number, not by representation: 1.0 equals 1.00.
pub fn compare(left: Decimal, right: Decimal) -> Ordering {
    let (a, b) = (left.unscaled(), right.unscaled());
    match left.scale.cmp(&right.scale) {
        Ordering::Equal => a.cmp(&b),
        Ordering::Less => match a.checked_mul(power_of_ten(right.scale - left.scale)) {
            Some(a) => a.cmp(&b),
            None => a.cmp(&0),
        },
        Ordering::Greater => compare(right, left).reverse(),
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unscaled = self.unscaled();
        if unscaled < 0 {
            f.write_str("-")?;
        }
        let magnitude = unscaled.unsigned_abs();
        if self.scale == 0 {
            return write!(f, "{magnitude}");
        }
        let unit = power_of_ten(self.scale).unsigned_abs();
        write!(
            f,
            "{}.{:0width$}",
            magnitude / unit,
            magnitude % unit,
            width = usize::from(self.scale)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn d(text: &str) -> Decimal {
        Decimal::parse_literal(text).unwrap_or_else(|e| panic!("{text}: {e:?}"))
    }

    #[test]
    fn result_types_follow_the_manual() {
        use DecimalOp::*;
        for (op, a, b, expected) in [
            (Add, (10, 2), (8, 4), (13, 4)),
            (Add, (38, 0), (38, 10), (38, 0)),
            (Add, (38, 10), (38, 10), (38, 10)),
            (Multiply, (10, 2), (8, 4), (19, 6)),
            (Multiply, (38, 10), (38, 10), (38, 6)),
            (Multiply, (30, 20), (30, 20), (38, 17)),
            (Divide, (2, 1), (1, 0), (7, 6)),
            (Divide, (38, 10), (38, 10), (38, 6)),
            (Divide, (10, 2), (10, 2), (23, 13)),
            (Modulo, (10, 2), (5, 4), (5, 4)),
        ] {
            assert_eq!(result_type(op, a, b), expected, "{op:?} {a:?} {b:?}");
        }
    }

    #[test]
    fn arithmetic() {
        assert_eq!(
            d("2.0").checked_div(d("3")).map(|v| v.to_string()),
            Ok("0.666666".into())
        );
        assert_eq!(
            d("1.25").checked_mul(d("-2.5")).map(|v| v.to_string()),
            Ok("-3.125".into())
        );
        assert_eq!(
            d("1.1").checked_sub(d("2.25")).map(|v| v.to_string()),
            Ok("-1.15".into())
        );
        assert_eq!(
            d("7.5").checked_rem(d("2")).map(|v| v.to_string()),
            Ok("1.5".into())
        );
        assert_eq!(
            d("1").checked_div(d("0")).map_err(|e| e.number()),
            Err(8134)
        );
        let big = Decimal::new(power_of_ten(38) - 1, 38, 0);
        assert_eq!(big.checked_add(big).map_err(|e| e.number()), Err(8115));
    }

    #[test]
    fn rounding_and_text() {
        assert_eq!(
            d("2.345").rescale(10, 2).map(|v| v.to_string()),
            Ok("2.35".into())
        );
        assert_eq!(
            d("-2.345").rescale(10, 2).map(|v| v.to_string()),
            Ok("-2.35".into())
        );
        assert_eq!(
            d("123.456").round_to(-1, false).map(|v| v.to_string()),
            Ok("120.000".into())
        );
        assert_eq!(
            d("748.58").round_to(-3, false).map_err(|e| e.number()),
            Err(8115)
        );
        assert_eq!(
            d("123.456").round_to(2, true).map(|v| v.to_string()),
            Ok("123.450".into())
        );
        assert_eq!(
            (
                d("-1.5").floor().to_string(),
                d("-1.5").ceiling().to_string()
            ),
            ("-2".into(), "-1".into())
        );
        assert_eq!((d("0.05").precision, d("0.05").scale), (2, 2));
        assert_eq!(
            Decimal::parse(" +12.5 ", 5, 0).map(|v| v.to_string()),
            Ok("13".into())
        );
        assert_eq!(Decimal::parse("1e3", 5, 0), Err(ParseDecimalError::Syntax));
        assert_eq!(
            Decimal::parse("123456", 5, 0),
            Err(ParseDecimalError::Overflow)
        );
        assert_eq!(
            Decimal::from_f64(2.5, 5, 0).map(|v| v.to_string()),
            Ok("3".into())
        );
        assert_eq!(
            Decimal::from_f64(0.1, 10, 3).map(|v| v.to_string()),
            Ok("0.100".into())
        );
        assert_eq!(
            Decimal::from_f64(1e39, 38, 0).map_err(|e| e.number()),
            Err(8115)
        );
    }

    fn decimals() -> impl Strategy<Value = Decimal> {
        (any::<i64>(), 0u8..12)
            .prop_map(|(unscaled, scale)| Decimal::new(i128::from(unscaled), 19, scale))
    }

    /// Any decimal at all, to hunt for panics.
    fn wide() -> impl Strategy<Value = Decimal> {
        (any::<i128>(), 1u8..=38).prop_flat_map(|(v, p)| {
            (0..=p).prop_map(move |s| Decimal::new(v % power_of_ten(p), p, s))
        })
    }

    proptest! {
        #[test]
        fn sum_and_product_are_exact(a in decimals(), b in decimals()) {
            let scale = a.scale.max(b.scale);
            let lift = |d: Decimal| d.unscaled() * power_of_ten(scale - d.scale);
            let sum = a.checked_add(b).unwrap();
            prop_assert_eq!(sum.unscaled(), lift(a) + lift(b));
            let product = a.checked_mul(b).unwrap();
            let exact = I256::from(a.unscaled()) * I256::from(b.unscaled());
            let back = I256::from(product.unscaled()) * wide_power(u32::from(a.scale + b.scale - product.scale));
            prop_assert!((exact - back).abs() * 2 <= wide_power(u32::from(a.scale + b.scale - product.scale)));
        }

        #[test]
        fn quotient_and_remainder_fit_together(a in decimals(), b in decimals()) {
            prop_assume!(!b.is_zero());
            let scale = a.scale.max(b.scale);
            let lift = |d: Decimal| d.unscaled() * power_of_ten(scale - d.scale);
            prop_assert_eq!(a.checked_rem(b).unwrap().unscaled(), lift(a) % lift(b));
            if let Ok(q) = a.checked_div(b) {
                let whole = q.to_i128_truncated();
                prop_assert_eq!(whole, lift(a) / lift(b));
            }
        }

        #[test]
        fn nothing_panics_and_everything_stays_in_bounds(a in wide(), b in wide()) {
            let results = [a.checked_add(b), a.checked_sub(b), a.checked_mul(b), a.checked_div(b), a.checked_rem(b)];
            for v in results.into_iter().flatten() {
                prop_assert!(v.unscaled().unsigned_abs() < power_of_ten(v.precision).unsigned_abs());
                prop_assert!(v.scale <= v.precision);
            }
        }

        #[test]
        fn text_round_trips(a in wide()) {
            prop_assert_eq!(Decimal::parse(&a.to_string(), a.precision, a.scale), Ok(a));
        }

        #[test]
        fn order_is_the_numbers(a in decimals(), b in decimals()) {
            let scale = a.scale.max(b.scale);
            let lift = |d: Decimal| d.unscaled() * power_of_ten(scale - d.scale);
            prop_assert_eq!(compare(a, b), lift(a).cmp(&lift(b)));
        }
    }
}
