//! FORMAT: the common standard and custom patterns of numbers and dates, in the invariant English form.

use crate::temporal::{CivilDate, CivilTime, Moment, month_name, weekday, weekday_name};
use crate::{DataType, Decimal, Value};
use std::fmt::Write;

/// Longest pattern and most digits that a format may ask for.
const PATTERN_CHARS_MAX: usize = 4000;
const DIGITS_MAX: usize = 99;

/// The culture that the forms belong to. Any other is refused, since its forms are not known here.
pub fn is_known_culture(culture: &str) -> bool {
    ["en-US", "en"]
        .iter()
        .any(|known| culture.eq_ignore_ascii_case(known))
}

/// A number taken apart: digits of the whole and fractional part at full precision.
struct Digits {
    negative: bool,
    whole: String,
    fraction: String,
}

impl Digits {
    fn of(value: &Value) -> Option<Digits> {
        let text = match value {
            Value::Real(v) => format!("{v}"),
            Value::Float(v) => format!("{v}"),
            other => other.as_decimal()?.to_string(),
        };
        let (negative, body) = match text.strip_prefix('-') {
            Some(body) => (true, body),
            None => (false, text.as_str()),
        };
        let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
        Some(Digits {
            negative,
            whole: whole.to_string(),
            fraction: fraction.to_string(),
        })
    }

    /// Rounded half away from zero to a number of decimals.
    fn round(mut self, decimals: usize) -> Digits {
        if self.fraction.len() <= decimals {
            self.fraction
                .extend(std::iter::repeat_n('0', decimals - self.fraction.len()));
            return self;
        }
        let up = self
            .fraction
            .as_bytes()
            .get(decimals)
            .is_some_and(|d| *d >= b'5');
        self.fraction.truncate(decimals);
        if up {
            let mut digits: Vec<u8> = self.whole.bytes().chain(self.fraction.bytes()).collect();
            let carried = digits.iter_mut().rev().all(|d| {
                let nine = *d == b'9';
                *d = if nine { b'0' } else { *d + 1 };
                nine
            });
            if carried {
                digits.insert(0, b'1');
            }
            let at = digits.len() - decimals;
            self.fraction = digits.split_off(at).into_iter().map(char::from).collect();
            self.whole = digits.into_iter().map(char::from).collect();
        }
        let zero = self
            .whole
            .bytes()
            .chain(self.fraction.bytes())
            .all(|d| d == b'0');
        Digits {
            negative: self.negative && !zero,
            ..self
        }
    }

    fn shift(mut self, places: usize) -> Digits {
        for _ in 0..places {
            let next = if self.fraction.is_empty() {
                '0'
            } else {
                self.fraction.remove(0)
            };
            self.whole.push(next);
        }
        self.whole = self.whole.trim_start_matches('0').to_string();
        if self.whole.is_empty() {
            self.whole.push('0');
        }
        self
    }

    fn joined(&self, grouped: bool) -> String {
        let whole = if grouped {
            group(&self.whole)
        } else {
            self.whole.clone()
        };
        if self.fraction.is_empty() {
            whole
        } else {
            format!("{whole}.{}", self.fraction)
        }
    }
}

fn group(digits: &str) -> String {
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `None` for a pattern that makes no sense: FORMAT gives NULL then.
pub(super) fn format_number(value: &Value, data_type: DataType, pattern: &str) -> Option<String> {
    if pattern.len() > PATTERN_CHARS_MAX {
        return None;
    }
    let mut chars = pattern.chars();
    if let Some(letter) = chars.next()
        && letter.is_ascii_alphabetic()
        && chars.as_str().len() <= 2
        && chars.as_str().bytes().all(|b| b.is_ascii_digit())
    {
        let precision = chars
            .as_str()
            .parse::<usize>()
            .ok()
            .map(|n| n.min(DIGITS_MAX));
        return standard_number(value, data_type, letter, precision);
    }
    custom_number(value, pattern)
}

fn standard_number(
    value: &Value,
    data_type: DataType,
    letter: char,
    precision: Option<usize>,
) -> Option<String> {
    let digits = Digits::of(value)?;
    let sign = |d: &Digits| if d.negative { "-" } else { "" };
    Some(match letter.to_ascii_uppercase() {
        'N' => {
            let d = digits.round(precision.unwrap_or(2));
            format!("{}{}", sign(&d), d.joined(true))
        }
        'F' => {
            let d = digits.round(precision.unwrap_or(2));
            format!("{}{}", sign(&d), d.joined(false))
        }
        'C' => {
            let d = digits.round(precision.unwrap_or(2));
            if d.negative {
                format!("(${})", d.joined(true))
            } else {
                format!("${}", d.joined(true))
            }
        }
        'P' => {
            let d = digits.shift(2).round(precision.unwrap_or(2));
            format!("{}{}%", sign(&d), d.joined(true))
        }
        'D' if data_type.is_integer() => {
            format!(
                "{}{:0>width$}",
                sign(&digits),
                digits.whole,
                width = precision.unwrap_or(1)
            )
        }
        'X' if data_type.is_integer() => {
            let number = value.as_i64()?;
            let bits = if data_type == DataType::BigInt {
                number.cast_unsigned()
            } else {
                u64::from(number as u32)
            };
            let width = precision.unwrap_or(1);
            if letter == 'X' {
                format!("{bits:0width$X}")
            } else {
                format!("{bits:0width$x}")
            }
        }
        'E' => {
            let text = format!("{:.*e}", precision.unwrap_or(6), value.as_f64()?);
            let (mantissa, exponent) = text.split_once('e')?;
            let exponent: i32 = exponent.parse().ok()?;
            let mark = if letter == 'E' { 'E' } else { 'e' };
            format!(
                "{mantissa}{mark}{}{:03}",
                if exponent < 0 { '-' } else { '+' },
                exponent.abs()
            )
        }
        'G' => {
            let d = match value {
                Value::Decimal(v) => Digits::of(&Value::Decimal(trimmed(*v)))?,
                _ => digits,
            };
            format!("{}{}", sign(&d), d.joined(false))
        }
        _ => return None,
    })
}

fn trimmed(value: Decimal) -> Decimal {
    let (unscaled, scale) = value.normalized();
    Decimal::new(unscaled, value.precision, scale)
}

/// One section of a custom pattern: `#,##0.00;(#,##0.00);zero`.
fn custom_number(value: &Value, pattern: &str) -> Option<String> {
    let sections: Vec<&str> = split_sections(pattern);
    let digits = Digits::of(value)?;
    let zero = digits
        .whole
        .bytes()
        .chain(digits.fraction.bytes())
        .all(|d| d == b'0');
    let (section, keeps_sign) = match (sections.as_slice(), digits.negative, zero) {
        ([_, _, third, ..], _, true) if !third.is_empty() => (*third, false),
        ([_, second, ..], true, _) if !second.is_empty() => (*second, false),
        ([first, ..], _, _) => (*first, true),
        _ => return None,
    };
    Some(write_section(digits, section, keeps_sign))
}

fn split_sections(pattern: &str) -> Vec<&str> {
    let mut quote = None;
    let mut escaped = false;
    let mut out = Vec::new();
    let mut start = 0;
    for (at, c) in pattern.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (None, '\\') => escaped = true,
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            (None, ';') => {
                out.push(pattern.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push(pattern.get(start..).unwrap_or_default());
    out
}

enum Token {
    Zero,
    Hash,
    Point,
    Comma,
    Percent,
    Literal(String),
}

fn section_tokens(section: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut chars = section.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '0' => Token::Zero,
            '#' => Token::Hash,
            '.' => Token::Point,
            ',' => Token::Comma,
            '%' => Token::Percent,
            '\\' => Token::Literal(chars.next().map(String::from).unwrap_or_default()),
            '\'' | '"' => Token::Literal(chars.by_ref().take_while(|n| *n != c).collect()),
            other => Token::Literal(other.to_string()),
        });
    }
    out
}

fn write_section(digits: Digits, section: &str, keeps_sign: bool) -> String {
    let tokens = section_tokens(section);
    let point = tokens
        .iter()
        .position(|t| matches!(t, Token::Point))
        .unwrap_or(tokens.len());
    let is_digit = |t: &Token| matches!(t, Token::Zero | Token::Hash);
    let (before, after) = tokens.split_at(point);
    let percent = tokens
        .iter()
        .filter(|t| matches!(t, Token::Percent))
        .count();
    let last_digit = before.iter().rposition(is_digit);
    let first_digit = before.iter().position(is_digit);
    let grouped = before.iter().enumerate().any(|(at, t)| {
        matches!(t, Token::Comma)
            && first_digit.is_some_and(|f| f < at)
            && last_digit.is_some_and(|l| l > at)
    });
    let decimals = after.iter().filter(|t| is_digit(t)).count();
    let decimals_kept = after
        .iter()
        .filter(|t| is_digit(t))
        .collect::<Vec<_>>()
        .iter()
        .rposition(|t| matches!(t, Token::Zero))
        .map_or(0, |p| p + 1);
    let d = digits.shift(percent * 2).round(decimals);
    let whole_min = first_zero_width(before);
    let mut whole = if d.whole == "0" {
        String::new()
    } else {
        d.whole.clone()
    };
    while whole.len() < whole_min {
        whole.insert(0, '0');
    }
    let whole = if grouped { group(&whole) } else { whole };
    let mut fraction: &str = &d.fraction;
    while fraction.len() > decimals_kept && fraction.ends_with('0') {
        fraction = fraction.get(..fraction.len() - 1).unwrap_or_default();
    }
    let mut out = String::new();
    if d.negative && keeps_sign {
        out.push('-');
    }
    let mut places = before.iter().filter(|t| is_digit(t)).count();
    let mut whole_left = whole.as_str();
    let mut fraction_left = fraction;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Zero | Token::Hash if at < point => {
                // The first place takes all digits that have no place of their own.
                places -= 1;
                let take = if grouped {
                    whole_left.len()
                } else {
                    whole_left.len().saturating_sub(places)
                };
                let (now, later) = whole_left.split_at(take);
                out.push_str(now);
                whole_left = later;
            }
            Token::Zero | Token::Hash => {
                let (now, later) = fraction_left.split_at(fraction_left.len().min(1));
                out.push_str(now);
                fraction_left = later;
            }
            Token::Point if at == point => {
                out.push_str(whole_left);
                whole_left = "";
                if !fraction.is_empty() {
                    out.push('.');
                }
            }
            Token::Percent => out.push('%'),
            Token::Literal(text) => out.push_str(text),
            _ => {}
        }
    }
    out
}

/// Digits from the first `0` of the whole part to its end.
fn first_zero_width(before: &[Token]) -> usize {
    let digits: Vec<&Token> = before
        .iter()
        .filter(|t| matches!(t, Token::Zero | Token::Hash))
        .collect();
    digits
        .iter()
        .position(|t| matches!(t, Token::Zero))
        .map_or(0, |at| digits.len() - at)
}

pub(super) fn format_temporal(value: &Value, pattern: &str) -> Option<String> {
    let moment = Moment::from_value(value)?;
    if pattern.len() > PATTERN_CHARS_MAX {
        return None;
    }
    let custom = match pattern {
        "d" => "M/d/yyyy",
        "D" => "dddd, MMMM d, yyyy",
        "f" => "dddd, MMMM d, yyyy h:mm tt",
        "F" | "U" => "dddd, MMMM d, yyyy h:mm:ss tt",
        "g" => "M/d/yyyy h:mm tt",
        "G" => "M/d/yyyy h:mm:ss tt",
        "m" | "M" => "MMMM d",
        "y" | "Y" => "MMMM yyyy",
        "t" => "h:mm tt",
        "T" => "h:mm:ss tt",
        "s" => "yyyy-MM-dd'T'HH:mm:ss",
        "u" => "yyyy-MM-dd HH:mm:ss'Z'",
        "r" | "R" => "ddd, dd MMM yyyy HH:mm:ss 'GMT'",
        "o" | "O" if moment.offset_minutes.is_some() => "yyyy-MM-dd'T'HH:mm:ss.fffffffzzz",
        "o" | "O" => "yyyy-MM-dd'T'HH:mm:ss.fffffff",
        // Dates and times of day reject what they do not have.
        one if one.len() == 1 => return None,
        custom => custom,
    };
    custom_temporal(moment, custom, matches!(value, Value::Time(_)))
}

fn custom_temporal(moment: Moment, pattern: &str, time_only: bool) -> Option<String> {
    let date = CivilDate::from_days(moment.days);
    let time = CivilTime::from_ticks(moment.ticks);
    let twelve = if time.hour.is_multiple_of(12) {
        12
    } else {
        time.hour % 12
    };
    let fraction = format!("{:07}", time.fraction);
    let month = month_name(i32::from(date.month));
    let day_name = weekday_name(weekday(moment.days));
    let offset = moment.offset_minutes.unwrap_or(0);
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let run = rest.chars().take_while(|n| *n == c).count();
        let mut size = run * c.len_utf8();
        // A time of day knows only hours, minutes, seconds and fractions, and its separators must be quoted.
        if time_only && matches!(c, 'y' | 'M' | 'd' | 'H' | 't' | 'z' | ':' | '.') && c != 'd' {
            return None;
        }
        let done = match (c, run) {
            ('y', 1 | 2) => write!(out, "{:0run$}", date.year % 100),
            ('y', _) => write!(out, "{:0run$}", date.year),
            ('M', 1 | 2) => write!(out, "{:0run$}", date.month),
            ('M', 3) => write!(out, "{}", month.get(..3).unwrap_or_default()),
            ('M', _) => write!(out, "{month}"),
            ('d', 1 | 2) => write!(out, "{:0run$}", if time_only { 0 } else { date.day }),
            ('d', 3) => write!(out, "{}", day_name.get(..3).unwrap_or_default()),
            ('d', _) => write!(out, "{day_name}"),
            ('H', _) => write!(out, "{:0w$}", time.hour, w = run.min(2)),
            ('h', _) if time_only => write!(out, "{:0w$}", time.hour, w = run.min(2)),
            ('h', _) => write!(out, "{twelve:0w$}", w = run.min(2)),
            ('m', _) => write!(out, "{:0w$}", time.minute, w = run.min(2)),
            ('s', _) => write!(out, "{:0w$}", time.second, w = run.min(2)),
            ('f' | 'F', 1..=7) => {
                let digits = fraction.get(..run).unwrap_or_default();
                write!(
                    out,
                    "{}",
                    if c == 'f' {
                        digits
                    } else {
                        digits.trim_end_matches('0')
                    }
                )
            }
            ('f' | 'F', _) => return None,
            ('t', 1) => write!(out, "{}", if time.hour < 12 { 'A' } else { 'P' }),
            ('t', _) => write!(out, "{}", if time.hour < 12 { "AM" } else { "PM" }),
            ('z', _) => {
                let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
                match run {
                    1 | 2 => write!(out, "{sign}{:0run$}", minutes / 60),
                    _ => write!(out, "{sign}{:02}:{:02}", minutes / 60, minutes % 60),
                }
            }
            ('K', _) => Ok(()),
            ('\\', _) => {
                let mut after = rest.chars();
                after.next();
                let literal = after.next();
                size = rest.len() - after.as_str().len();
                literal.map_or(Ok(()), |l| write!(out, "{l}"))
            }
            ('\'' | '"', _) => {
                let body = rest.get(1..).unwrap_or_default();
                let end = body.find(c)?;
                size = end + 2;
                write!(out, "{}", body.get(..end).unwrap_or_default())
            }
            ('%', _) => {
                size = 1;
                Ok(())
            }
            _ => {
                size = c.len_utf8();
                write!(out, "{c}")
            }
        };
        done.ok()?;
        rest = rest.get(size..).unwrap_or_default();
    }
    Some(out)
}
