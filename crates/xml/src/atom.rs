//! Atomic values: their types, casts, comparisons and arithmetic.
//!
//! Theory: text without a type becomes what the other side is. A cast that cannot be done gives `None`, which an expression
//! shows as the empty sequence. Numbers are promoted from integer over decimal to double.

use daruma_value::convert::{ConvertContext, convert};
use daruma_value::temporal::DateFormat;
use daruma_value::{CollationId, DataType, DateTimeOffset, Decimal, Value};
use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::Arc;

/// Types of atomic values that are told apart here. Integers of all sizes are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomType {
    Untyped,
    String,
    Boolean,
    Integer,
    Decimal,
    Double,
    Date,
    DateTime,
    Time,
    /// A variable or column of SQL of type `xml`: nodes.
    Fragment,
}

impl AtomType {
    /// The type of this name in the namespace of XML Schema.
    pub(crate) fn named(local: &str) -> Option<AtomType> {
        Some(match local {
            "string" | "normalizedString" | "token" | "anyURI" | "NMTOKEN" | "Name" | "NCName"
            | "language" | "base64Binary" | "hexBinary" => AtomType::String,
            "boolean" => AtomType::Boolean,
            "integer" | "int" | "long" | "short" | "byte" | "nonNegativeInteger"
            | "positiveInteger" | "nonPositiveInteger" | "negativeInteger" | "unsignedInt"
            | "unsignedLong" | "unsignedShort" | "unsignedByte" => AtomType::Integer,
            "decimal" => AtomType::Decimal,
            "double" | "float" => AtomType::Double,
            "date" => AtomType::Date,
            "dateTime" => AtomType::DateTime,
            "time" => AtomType::Time,
            "untypedAtomic" | "anyAtomicType" => AtomType::Untyped,
            _ => return None,
        })
    }

    /// As messages write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            AtomType::Untyped => "xdt:untypedAtomic",
            AtomType::String => "xs:string",
            AtomType::Boolean => "xs:boolean",
            AtomType::Integer => "xs:integer",
            AtomType::Decimal => "xs:decimal",
            AtomType::Double => "xs:double",
            AtomType::Date => "xs:date",
            AtomType::DateTime => "xs:dateTime",
            AtomType::Time => "xs:time",
            AtomType::Fragment => "node()",
        }
    }

    pub(crate) fn is_number(self) -> bool {
        matches!(
            self,
            AtomType::Integer | AtomType::Decimal | AtomType::Double
        )
    }
}

/// An atomic value.
#[derive(Clone, Debug, PartialEq)]
pub enum Atom {
    /// Text of a document, whose type nobody said.
    Untyped(Arc<str>),
    String(Arc<str>),
    Boolean(bool),
    Integer(i128),
    Decimal(Decimal),
    Double(f64),
    /// A date or time: when it is in 100 ns, in UTC where it has a zone, and as it was written.
    Temporal {
        of: AtomType,
        instant: i64,
        text: Arc<str>,
    },
}

impl Atom {
    /// A text with type `xs:string`.
    pub fn string(text: impl Into<Arc<str>>) -> Atom {
        Atom::String(text.into())
    }

    /// What it is.
    pub fn atom_type(&self) -> AtomType {
        match self {
            Atom::Untyped(_) => AtomType::Untyped,
            Atom::String(_) => AtomType::String,
            Atom::Boolean(_) => AtomType::Boolean,
            Atom::Integer(_) => AtomType::Integer,
            Atom::Decimal(_) => AtomType::Decimal,
            Atom::Double(_) => AtomType::Double,
            Atom::Temporal { of, .. } => *of,
        }
    }

    /// The value as a document shows it.
    pub fn text(&self) -> Arc<str> {
        match self {
            Atom::Untyped(text) | Atom::String(text) | Atom::Temporal { text, .. } => text.clone(),
            Atom::Boolean(b) => (if *b { "true" } else { "false" }).into(),
            Atom::Integer(n) => n.to_string().into(),
            Atom::Decimal(d) => decimal_text(*d).into(),
            Atom::Double(d) => double_text(*d).into(),
        }
    }

    /// Bytes of its text on the heap.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Atom::Untyped(text) | Atom::String(text) | Atom::Temporal { text, .. } => text.len(),
            _ => 0,
        }
    }

    /// As another type, if it has a meaning there.
    pub fn cast(&self, to: AtomType) -> Option<Atom> {
        if self.atom_type() == to {
            return Some(self.clone());
        }
        match to {
            AtomType::Untyped => Some(Atom::Untyped(self.text())),
            AtomType::String => Some(Atom::String(self.text())),
            AtomType::Boolean => self.to_boolean().map(Atom::Boolean),
            AtomType::Integer => self.to_integer().map(Atom::Integer),
            AtomType::Decimal => self.to_decimal().map(Atom::Decimal),
            AtomType::Double => self.to_double().map(Atom::Double),
            AtomType::Date | AtomType::DateTime | AtomType::Time => self.to_temporal(to),
            AtomType::Fragment => None,
        }
    }

    fn to_boolean(&self) -> Option<bool> {
        match self {
            Atom::Boolean(b) => Some(*b),
            Atom::Integer(n) => Some(*n != 0),
            Atom::Decimal(d) => Some(!d.is_zero()),
            Atom::Double(d) => Some(*d != 0.0 && !d.is_nan()),
            Atom::Untyped(text) | Atom::String(text) => match text.trim() {
                "true" | "1" => Some(true),
                "false" | "0" => Some(false),
                _ => None,
            },
            Atom::Temporal { .. } => None,
        }
    }

    fn to_integer(&self) -> Option<i128> {
        match self {
            Atom::Integer(n) => Some(*n),
            Atom::Boolean(b) => Some(i128::from(*b)),
            Atom::Decimal(d) => Some(d.to_i128_truncated()),
            Atom::Double(d) => (d.abs() < 1e30).then_some(d.trunc() as i128),
            Atom::Untyped(text) | Atom::String(text) => {
                let text = text.trim();
                text.strip_prefix('+').unwrap_or(text).parse().ok()
            }
            Atom::Temporal { .. } => None,
        }
    }

    fn to_decimal(&self) -> Option<Decimal> {
        match self {
            Atom::Decimal(d) => Some(*d),
            Atom::Integer(n) => whole(*n),
            Atom::Boolean(b) => whole(i128::from(*b)),
            Atom::Double(d) if d.is_finite() => parsed_decimal(&format!("{d}")),
            Atom::Double(_) | Atom::Temporal { .. } => None,
            Atom::Untyped(text) | Atom::String(text) => parsed_decimal(text.trim()),
        }
    }

    /// As a double, if it has a meaning there.
    pub fn to_double(&self) -> Option<f64> {
        match self {
            Atom::Double(d) => Some(*d),
            Atom::Integer(n) => Some(*n as f64),
            Atom::Decimal(d) => Some(d.to_f64()),
            Atom::Boolean(b) => Some(f64::from(u8::from(*b))),
            Atom::Untyped(text) | Atom::String(text) => match text.trim() {
                "INF" => Some(f64::INFINITY),
                "-INF" => Some(f64::NEG_INFINITY),
                "NaN" => Some(f64::NAN),
                text if text.ends_with(|c: char| c.is_ascii_digit() || c == '.') => {
                    text.parse().ok()
                }
                _ => None,
            },
            Atom::Temporal { .. } => None,
        }
    }

    fn to_temporal(&self, to: AtomType) -> Option<Atom> {
        let text: Arc<str> = match self {
            Atom::Untyped(text) | Atom::String(text) => text.trim().into(),
            Atom::Temporal {
                of: AtomType::DateTime,
                text,
                ..
            } => {
                let (date, time) = text.split_once('T')?;
                if to == AtomType::Date { date } else { time }.into()
            }
            Atom::Temporal {
                of: AtomType::Date,
                text,
                ..
            } if to == AtomType::DateTime => format!("{text}T00:00:00").into(),
            _ => return None,
        };
        let is_dated = to != AtomType::Time;
        if is_dated != (text.as_bytes().get(4) == Some(&b'-'))
            || (to == AtomType::DateTime) != text.contains('T')
        {
            return None;
        }
        let context = ConvertContext {
            date_format: DateFormat::Ymd,
            collation: CollationId::DEFAULT,
        };
        let zoned = DataType::DateTimeOffset { scale: 7 };
        let found = convert(
            &Value::str(&*text),
            DataType::NVARCHAR_MAX,
            zoned,
            None,
            &context,
        )
        .ok()?;
        let Value::DateTimeOffset(DateTimeOffset { utc, .. }) = found else {
            return None;
        };
        let ticks = i64::try_from(utc.ticks).ok()?;
        let days = if is_dated { i64::from(utc.days) } else { 0 };
        let instant = days * 864_000_000_000 + ticks;
        Some(Atom::Temporal {
            of: to,
            instant,
            text,
        })
    }

    /// What `eq`, `lt` and the like say. `None`: the values cannot be compared.
    pub(crate) fn compare(&self, other: &Atom) -> Option<Ordering> {
        let (a, b) = (self.atom_type(), other.atom_type());
        match (a, b) {
            (AtomType::Untyped | AtomType::String, AtomType::Untyped | AtomType::String) => {
                Some(self.text().cmp(&other.text()))
            }
            (AtomType::Untyped, b) => self
                .cast(if b.is_number() { AtomType::Double } else { b })?
                .compare(other),
            (a, AtomType::Untyped) => {
                self.compare(&other.cast(if a.is_number() { AtomType::Double } else { a })?)
            }
            _ => match (self, other) {
                (Atom::Boolean(a), Atom::Boolean(b)) => Some(a.cmp(b)),
                (Atom::Integer(a), Atom::Integer(b)) => Some(a.cmp(b)),
                (Atom::Temporal { instant: a, .. }, Atom::Temporal { instant: b, .. }) => {
                    Some(a.cmp(b))
                }
                (Atom::Double(_), _) | (_, Atom::Double(_)) if a.is_number() && b.is_number() => {
                    self.to_double()?.partial_cmp(&other.to_double()?)
                }
                _ if a.is_number() && b.is_number() => Some(daruma_value::decimal::compare(
                    self.to_decimal()?,
                    other.to_decimal()?,
                )),
                _ => None,
            },
        }
    }
}

fn whole(n: i128) -> Option<Decimal> {
    Decimal::parse_literal(&n.to_string()).ok()
}

fn parsed_decimal(text: &str) -> Option<Decimal> {
    let is_plain = !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'));
    is_plain
        .then(|| Decimal::parse_literal(text).ok())
        .flatten()
}

fn decimal_text(d: Decimal) -> String {
    let (unscaled, scale) = d.normalized();
    let scale = usize::from(scale);
    let digits = unscaled.unsigned_abs().to_string();
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if unscaled < 0 { "-" } else { "" };
    match fraction.is_empty() {
        true => format!("{sign}{whole}"),
        false => format!("{sign}{whole}.{fraction}"),
    }
}

/// Plain digits from a millionth to a million, an exponent beyond: the cast to `xs:string` of XQuery.
fn double_text(d: f64) -> String {
    if d.is_nan() {
        return "NaN".into();
    }
    if d.is_infinite() {
        return if d > 0.0 { "INF" } else { "-INF" }.into();
    }
    if d == 0.0 || (1e-6..1e6).contains(&d.abs()) {
        return format!("{d}");
    }
    let shown = format!("{d:E}");
    let (mantissa, exponent) = shown.split_once('E').unwrap_or((&shown, "0"));
    let mut text = mantissa.to_string();
    if !text.contains('.') {
        text.push_str(".0");
    }
    let _ = write!(text, "E{exponent}");
    text
}

/// `+`, `-`, `*`, `div` and `mod`. `None`: no result, as of a division by zero.
pub(crate) fn arithmetic(op: Arithmetic, left: &Atom, right: &Atom) -> Option<Atom> {
    let number = |a: &Atom| match a.atom_type() {
        AtomType::Untyped => a.cast(AtomType::Double),
        t if t.is_number() => Some(a.clone()),
        _ => None,
    };
    let (left, right) = (number(left)?, number(right)?);
    match (&left, &right) {
        (Atom::Double(_), _) | (_, Atom::Double(_)) => {
            let (a, b) = (left.to_double()?, right.to_double()?);
            Some(Atom::Double(match op {
                Arithmetic::Add => a + b,
                Arithmetic::Subtract => a - b,
                Arithmetic::Multiply => a * b,
                Arithmetic::Divide => a / b,
                Arithmetic::Modulo => a % b,
                Arithmetic::Whole => return Atom::Double(a / b).cast(AtomType::Integer),
            }))
        }
        (Atom::Integer(a), Atom::Integer(b)) if op != Arithmetic::Divide => {
            Some(Atom::Integer(match op {
                Arithmetic::Add => a.checked_add(*b)?,
                Arithmetic::Subtract => a.checked_sub(*b)?,
                Arithmetic::Multiply => a.checked_mul(*b)?,
                Arithmetic::Whole => a.checked_div(*b)?,
                _ => a.checked_rem(*b)?,
            }))
        }
        _ => {
            let (a, b) = (left.to_decimal()?, right.to_decimal()?);
            let found = match op {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Subtract => a.checked_sub(b),
                Arithmetic::Multiply => a.checked_mul(b),
                Arithmetic::Divide => a.checked_div(b),
                Arithmetic::Modulo => a.checked_rem(b),
                Arithmetic::Whole => {
                    let found = a.checked_div(b).ok()?;
                    return Some(Atom::Integer(found.to_i128_truncated()));
                }
            };
            found.ok().map(Atom::Decimal)
        }
    }
}

/// The operators of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    /// `idiv`
    Whole,
}

impl Arithmetic {
    /// As written.
    pub fn name(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "div",
            Arithmetic::Modulo => "mod",
            Arithmetic::Whole => "idiv",
        }
    }
}
