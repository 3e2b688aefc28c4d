//! Conversions to text, and the lengths of text.

use super::codepage::{decode_code_page, encoded_len, representable};
use super::number::format_money;
use super::{ColumnName, ConvertContext, Fit, unexpected};
use crate::{DataType, Value, ValueError, temporal};
use compact_str::{CompactString, ToCompactString, format_compact};

pub(super) fn to_text(
    value: &Value,
    from: DataType,
    to: DataType,
    style: Option<i32>,
    context: &ConvertContext,
    fit: Fit<'_>,
) -> Result<Value, ValueError> {
    let limit = Limit::of(to, context);
    if let Value::Str(text) = value {
        // Text of a code page type was made to fit its page when it came in.
        if from.is_unicode() && !to.is_unicode() && !text.is_ascii() {
            let text = representable(text, context.collation.code_page());
            return limit.fit(CompactString::from(text), fit).map(Value::Str);
        }
        return limit.fit(text.clone(), fit).map(Value::Str);
    }
    let text = shown(value, from, to, style, context)?;
    if limit.holds(&text) {
        return limit.fit(text, fit).map(Value::Str);
    }
    match value {
        // Numbers are never cut: a star for the small integers in varchar, errors otherwise.
        Value::Int(_) | Value::SmallInt(_) | Value::TinyInt(_) | Value::Bit(_)
            if !to.is_unicode() =>
        {
            limit
                .fit(CompactString::const_new("*"), fit)
                .map(Value::Str)
        }
        Value::Money(_) => Err(ValueError::new(234, 2, &[&to.name()])),
        Value::SmallMoney(_) => Err(ValueError::new(292, 2, &[&to.name()])),
        Value::Decimal(_) => Err(ValueError::overflow("numeric", to)),
        Value::Float(v) => Err(ValueError::new(232, 2, &[&to.name(), &format!("{v:.6}")])),
        Value::Real(v) => Err(ValueError::new(232, 2, &[&to.name(), &format!("{v:.6}")])),
        Value::Guid(_) => Err(ValueError::new(8170, 2, &[])),
        other if other.as_i64().is_some() => Err(ValueError::expression_overflow(to)),
        _ => limit.fit(text, Fit::Cut).map(Value::Str),
    }
}

fn shown(
    value: &Value,
    from: DataType,
    to: DataType,
    style: Option<i32>,
    context: &ConvertContext,
) -> Result<CompactString, ValueError> {
    let number_style = style.unwrap_or(0);
    Ok(match value {
        Value::Bit(v) => CompactString::const_new(if *v { "1" } else { "0" }),
        Value::Decimal(v) => v.to_compact_string(),
        Value::Money(v) => format_money(*v, number_style).into(),
        Value::SmallMoney(v) => format_money(i64::from(*v), number_style).into(),
        Value::Real(v) => format_float(f64::from(*v), number_style, true).into(),
        Value::Float(v) => format_float(*v, number_style, false).into(),
        Value::Guid(v) => guid_text(v),
        Value::Bytes(bytes) => bytes_text(bytes, to, number_style, context).into(),
        Value::Null | Value::Str(_) | Value::Variant(_) => return Err(unexpected(from, to)),
        other => match other.as_i64() {
            Some(number) => number.to_compact_string(),
            None => match temporal::format(other, style) {
                Some(text) => text.into(),
                None if style.is_some_and(temporal_style_exists) => {
                    return Err(ValueError::conversion(from, to));
                }
                None => return Err(ValueError::new(281, 1, &[&number_style, &from.name()])),
            },
        },
    })
}

/// Is this a style of dates or times at all?
fn temporal_style_exists(style: i32) -> bool {
    matches!(style, 0..=14 | 20..=25 | 100..=114 | 120 | 121 | 126 | 127 | 130 | 131)
}

/// How long text of a type may be, and in which unit.
struct Limit {
    /// `None` for the unlimited types.
    max: Option<usize>,
    unit: Unit,
    padded: bool,
}

#[derive(Clone, Copy)]
enum Unit {
    Utf16,
    CodePage(u16),
}

impl Unit {
    fn of(self, c: char) -> usize {
        match self {
            Unit::Utf16 => c.len_utf16(),
            Unit::CodePage(page) => encoded_len(c, page),
        }
    }

    fn count(self, text: &str) -> usize {
        if text.is_ascii() {
            text.len()
        } else {
            text.chars().map(|c| self.of(c)).sum()
        }
    }
}

impl Limit {
    fn of(to: DataType, context: &ConvertContext) -> Limit {
        let unit = if to.is_unicode() {
            Unit::Utf16
        } else {
            Unit::CodePage(context.collation.code_page())
        };
        let max = to
            .declared_len()
            .filter(|len| !len.is_max())
            .map(|len| usize::from(len.0));
        Limit {
            max,
            unit,
            padded: matches!(to, DataType::Char(_) | DataType::NChar(_)),
        }
    }

    fn holds(&self, text: &str) -> bool {
        self.max
            .is_none_or(|max| text.len() <= max || self.unit.count(text) <= max)
    }

    /// Cuts or refuses what is too long, pads the fixed-length types.
    fn fit(&self, mut text: CompactString, fit: Fit<'_>) -> Result<CompactString, ValueError> {
        let Some(max) = self.max else { return Ok(text) };
        if !self.holds(&text) {
            let keep = self.prefix_bytes(&text, max);
            let lost = text.get(keep..).unwrap_or_default();
            if let (Fit::Refuse(column), false) = (fit, lost.bytes().all(|b| b == b' ')) {
                return Err(too_long(column, text.get(..keep).unwrap_or_default()));
            }
            text.truncate(keep);
        }
        if self.padded {
            let missing = max.saturating_sub(self.unit.count(&text));
            text.extend(std::iter::repeat_n(' ', missing));
        }
        Ok(text)
    }

    /// Bytes of the longest prefix of at most `max` units.
    fn prefix_bytes(&self, text: &str, max: usize) -> usize {
        let mut units = 0;
        for (at, c) in text.char_indices() {
            units += self.unit.of(c);
            if units > max {
                return at;
            }
        }
        text.len()
    }
}

fn too_long(column: Option<ColumnName<'_>>, kept: &str) -> ValueError {
    match column {
        Some(name) => ValueError::truncated_column(name.table, name.column, kept),
        None => ValueError::truncated(),
    }
}

/// Length of text in the units of its type: UTF-16 units, or bytes of the code page.
pub fn text_units(text: &str, data_type: DataType, context: &ConvertContext) -> usize {
    Limit::of(data_type, context).unit.count(text)
}

/// The byte of the text before which `units` units lie; `None` where the text has fewer, or a character would be cut.
pub fn text_byte_at(
    text: &str,
    units: usize,
    data_type: DataType,
    context: &ConvertContext,
) -> Option<usize> {
    if text.is_ascii() {
        return (units <= text.len()).then_some(units);
    }
    let unit = Limit::of(data_type, context).unit;
    let mut before = 0;
    for (at, c) in text.char_indices() {
        if before >= units {
            return (before == units).then_some(at);
        }
        before += unit.of(c);
    }
    (before == units).then_some(text.len())
}

fn bytes_text(bytes: &[u8], to: DataType, style: i32, context: &ConvertContext) -> String {
    if matches!(style, 1 | 2) {
        let digits = bytes.iter().map(|b| format!("{b:02X}")).collect::<String>();
        return if style == 1 {
            format!("0x{digits}")
        } else {
            digits
        };
    }
    if to.is_unicode() {
        let (pairs, _) = bytes.as_chunks::<2>();
        let units: Vec<u16> = pairs.iter().map(|p| u16::from_le_bytes(*p)).collect();
        String::from_utf16_lossy(&units)
    } else {
        decode_code_page(bytes, context.collation.code_page())
    }
}

/// The three leading groups change byte order between text and storage.
pub(super) fn swap_guid(bytes: [u8; 16]) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    let [i, j, k, l, m, n, o, p] = rest;
    [d, c, b, a, f, e, h, g, i, j, k, l, m, n, o, p]
}

fn guid_text(guid: &[u8; 16]) -> CompactString {
    let number = u128::from_be_bytes(swap_guid(*guid));
    format_compact!(
        "{:08X}-{:04X}-{:04X}-{:04X}-{:012X}",
        (number >> 96) as u32,
        (number >> 80) as u16,
        (number >> 64) as u16,
        (number >> 48) as u16,
        number & 0xFFFF_FFFF_FFFF
    )
}

/// Floats as CAST shows them: 6 digits, or 8 (style 1), 16 (style 2), or all that count (style 3).
pub fn format_float(value: f64, style: i32, real: bool) -> String {
    match style {
        1 => scientific(value, 7),
        2 => scientific(value, 15),
        3 => {
            let shortest = if real {
                format!("{}", value as f32)
            } else {
                format!("{value}")
            };
            let digits = shortest.bytes().filter(u8::is_ascii_digit).count();
            if digits > 15 && !shortest.contains('.') {
                scientific(value, if real { 8 } else { 16 })
            } else {
                shortest
            }
        }
        _ => general(value, 6),
    }
}

/// `d.ddde+000`
fn scientific(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:03}", exponent.unsigned_abs())
}

/// The shorter of plain and scientific at `digits` significant digits, without trailing zeros.
fn general(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let rounded = format!("{value:.*e}", digits - 1);
    let exponent: i32 = rounded
        .split_once('e')
        .and_then(|(_, e)| e.parse().ok())
        .unwrap_or(0);
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        } else {
            text.to_string()
        }
    };
    if (-4..digits as i32).contains(&exponent) {
        let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
        trim(&format!("{value:.decimals$}"))
    } else {
        let text = scientific(value, digits - 1);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, ""));
        format!("{}e{exponent}", trim(mantissa))
    }
}
