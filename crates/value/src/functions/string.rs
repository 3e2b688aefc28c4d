//! String functions. Positions and lengths count characters.

use super::{Call, FunctionDef, Signature, pattern, text_type, with_len};
use crate::collation::{self, LikePattern, to_lower, to_upper};
use crate::convert::{decode_code_page, encode_code_page, text_units};
use crate::types::{common_type, concat_type};
use crate::{DataType, LARGE_BYTES_MAX, Len, Value, ValueError};
use compact_str::CompactString;
use std::collections::{HashMap, HashSet};

pub(super) const FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("LEN", 1..=1, length_type, len),
    FunctionDef::new("DATALENGTH", 1..=1, length_type, datalength),
    FunctionDef::new("SUBSTRING", 2..=3, substring_type, substring),
    FunctionDef::new("LEFT", 2..=2, first_text, left),
    FunctionDef::new("RIGHT", 2..=2, first_text, right),
    FunctionDef::new("CHARINDEX", 2..=3, position_type, charindex),
    FunctionDef::new("PATINDEX", 2..=2, position_type, patindex),
    FunctionDef::new("REPLACE", 3..=3, replace_type, replace),
    FunctionDef::new("STUFF", 4..=4, stuff_type, stuff).sees_null(),
    FunctionDef::new("REPLICATE", 2..=2, long_text, replicate),
    FunctionDef::new("SPACE", 1..=1, |_| Ok(DataType::VarChar(Len(8000))), space),
    FunctionDef::new("REVERSE", 1..=1, first_text, reverse),
    FunctionDef::new("UPPER", 1..=1, first_text, |c| {
        c.give_text(to_upper(&c.text(0)?))
    }),
    FunctionDef::new("LOWER", 1..=1, first_text, |c| {
        c.give_text(to_lower(&c.text(0)?))
    }),
    FunctionDef::new("LTRIM", 1..=2, first_text, |c| trim(c, true, false)),
    FunctionDef::new("RTRIM", 1..=2, first_text, |c| trim(c, false, true)),
    // The binder puts the characters of `TRIM(chars FROM text)` second.
    FunctionDef::new("TRIM", 1..=2, first_text, |c| trim(c, true, true)),
    FunctionDef::new("CONCAT", 2..=254, joined_text, concat).sees_null(),
    FunctionDef::new("CONCAT_WS", 3..=254, joined_text, concat_ws).sees_null(),
    FunctionDef::new("STR", 1..=3, str_type, str_number),
    FunctionDef::new(
        "ASCII",
        1..=1,
        |s| s.check_text(0).map(|_| DataType::Int),
        ascii,
    ),
    FunctionDef::new("CHAR", 1..=1, |_| Ok(DataType::Char(Len(1))), char_of),
    FunctionDef::new("NCHAR", 1..=1, |_| Ok(DataType::NChar(Len(1))), nchar),
    FunctionDef::new(
        "UNICODE",
        1..=1,
        |s| s.check_text(0).map(|_| DataType::Int),
        unicode,
    ),
    FunctionDef::new(
        "QUOTENAME",
        1..=2,
        |_| Ok(DataType::NVarChar(Len(258))),
        quotename,
    ),
    FunctionDef::new("FORMAT", 2..=3, format_type, format_value),
    FunctionDef::new("TRANSLATE", 3..=3, first_text, translate),
    FunctionDef::new(
        "STRING_ESCAPE",
        2..=2,
        |_| Ok(DataType::NVARCHAR_MAX),
        string_escape,
    ),
    FunctionDef::new(
        "SOUNDEX",
        1..=1,
        |_| Ok(DataType::VarChar(Len(5))),
        |c| c.give_text(soundex_code(&c.text(0)?)),
    ),
    FunctionDef::new("DIFFERENCE", 2..=2, |_| Ok(DataType::Int), difference),
    FunctionDef::new("PARSENAME", 2..=2, |_| Ok(DataType::SYSNAME), parsename),
];

fn length_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    match s.at(0) {
        DataType::Text | DataType::NText | DataType::Image if s.name == "LEN" => Err(s.invalid(0)),
        large if large.is_large() => Ok(DataType::BigInt),
        _ => Ok(DataType::Int),
    }
}

fn position_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    s.check_text(0)?;
    s.check_text(1)?;
    s.check(2, DataType::BigInt)?;
    Ok(if s.at(1).is_large() {
        DataType::BigInt
    } else {
        DataType::Int
    })
}

fn first_text(s: &Signature<'_>) -> Result<DataType, ValueError> {
    if matches!(s.name, "LEFT" | "RIGHT") {
        s.check(1, DataType::BigInt)?;
    }
    s.check_text(0)
}

fn substring_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    s.check(1, DataType::BigInt)?;
    s.check(2, DataType::BigInt)?;
    match s.at(0) {
        DataType::Binary(len) | DataType::VarBinary(len) => Ok(DataType::VarBinary(len)),
        DataType::Image => Ok(DataType::VARBINARY_MAX),
        text if text.is_character() => s.check_text(0),
        _ => Err(s.invalid(0)),
    }
}

/// Text that may grow: as long as its family allows.
fn long_text(s: &Signature<'_>) -> Result<DataType, ValueError> {
    let text = s.check_text(0)?;
    Ok(with_len(text, usize::from(u16::MAX)))
}

fn replace_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    let mut joined = s.check_text(0)?;
    for position in 1..s.types.len() {
        joined = common_type(joined, s.check_text(position)?)?;
    }
    Ok(with_len(joined, usize::from(u16::MAX)))
}

fn stuff_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    let (text, put) = (s.check_text(0)?, s.check_text(3)?);
    concat_type(text, put).ok_or_else(|| s.invalid(0))
}

fn joined_text(s: &Signature<'_>) -> Result<DataType, ValueError> {
    let mut joined: Option<DataType> = None;
    for position in 0..s.types.len() {
        let next = s.check_text(position)?;
        joined = Some(match joined {
            None => next,
            Some(before) => concat_type(before, next).ok_or_else(|| s.invalid(position))?,
        });
    }
    let joined = joined.unwrap_or(DataType::VarChar(Len(1)));
    Ok(if s.name == "CONCAT_WS" {
        with_len(joined, usize::from(u16::MAX))
    } else {
        joined
    })
}

fn str_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    s.check(0, DataType::Float)?;
    Ok(DataType::VarChar(Len(8000)))
}

fn format_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    let first = s.at(0);
    if !first.is_numeric() && !first.is_temporal() || first == DataType::Bit {
        return Err(s.invalid(0));
    }
    Ok(DataType::NVarChar(Len(4000)))
}

fn len(c: &Call<'_>) -> Result<Value, ValueError> {
    let count = match c.value(0) {
        Value::Bytes(bytes) => bytes.len(),
        _ => {
            let text = c.text(0)?;
            let text = text.trim_end_matches(' ');
            if text.is_ascii() {
                text.len()
            } else {
                text.chars().count()
            }
        }
    };
    c.give_int(count as i64)
}

fn datalength(c: &Call<'_>) -> Result<Value, ValueError> {
    let data_type = c.type_of(0);
    c.give_int(stored_bytes(c.value(0), data_type, c) as i64)
}

fn stored_bytes(value: &Value, data_type: DataType, c: &Call<'_>) -> usize {
    match value {
        Value::Str(text) if data_type.is_unicode() => {
            text_units(text, data_type, &c.context.convert) * 2
        }
        Value::Str(text) => text_units(text, data_type, &c.context.convert),
        Value::Bytes(bytes) => bytes.len(),
        Value::Variant(inner) => stored_bytes(&inner.value, inner.data_type, c),
        _ => usize::try_from(data_type.max_length()).unwrap_or(0),
    }
}

/// The characters from `start` (1-based, may lie before the text) on, `length` of them.
fn slice(text: &str, start: i64, length: i64) -> &str {
    let end = start.saturating_add(length).max(1);
    let start = start.max(1);
    let count = end.saturating_sub(start).max(0);
    let byte_at = |from: &str, chars: i64| {
        let chars = usize::try_from(chars).unwrap_or(usize::MAX);
        if from.is_ascii() {
            chars.min(from.len())
        } else {
            from.char_indices()
                .nth(chars)
                .map_or(from.len(), |(at, _)| at)
        }
    };
    let rest = text.get(byte_at(text, start - 1)..).unwrap_or_default();
    rest.get(..byte_at(rest, count)).unwrap_or_default()
}

fn substring(c: &Call<'_>) -> Result<Value, ValueError> {
    let (start, length) = (c.int(1)?, c.int_or(2, i64::from(i32::MAX))?);
    if length < 0 {
        return Err(ValueError::new(537, 3, &[]));
    }
    if let Value::Bytes(bytes) = c.value(0) {
        let end = start
            .saturating_add(length)
            .clamp(1, bytes.len() as i64 + 1) as usize
            - 1;
        let start = start.clamp(1, bytes.len() as i64 + 1) as usize - 1;
        return Ok(Value::Bytes(
            bytes.get(start..end).unwrap_or_default().to_vec(),
        ));
    }
    c.give_text(slice(&c.text(0)?, start, length))
}

fn left(c: &Call<'_>) -> Result<Value, ValueError> {
    let length = c.int(1)?;
    if length < 0 {
        return Err(ValueError::new(537, 2, &[]));
    }
    c.give_text(slice(&c.text(0)?, 1, length))
}

fn right(c: &Call<'_>) -> Result<Value, ValueError> {
    let length = c.int(1)?;
    if length < 0 {
        return Err(ValueError::new(536, 2, &[&"right"]));
    }
    let text = c.text(0)?;
    let count = text.chars().count() as i64;
    c.give_text(slice(&text, (count - length).max(0) + 1, length))
}

fn charindex(c: &Call<'_>) -> Result<Value, ValueError> {
    let (needle, text) = (c.text(0)?, c.text(1)?);
    let start = c.int_or(2, 1)?.max(1);
    let rest = slice(&text, start, i64::MAX);
    let found = collation::find(rest, &needle, c.collation());
    let position = found.map_or(0, |at| {
        start + rest.get(..at).unwrap_or_default().chars().count() as i64
    });
    c.give_int(position)
}

fn patindex(c: &Call<'_>) -> Result<Value, ValueError> {
    let pattern = LikePattern::new(&c.text(0)?, None, c.collation(), !c.type_of(1).is_unicode())?;
    let found = pattern.find(&c.text(1)?, &|| c.context.host.goes_on());
    c.give_int(found.map_or(0, |at| at as i64 + 1))
}

fn replace(c: &Call<'_>) -> Result<Value, ValueError> {
    let (text, needle, with) = (c.text(0)?, c.text(1)?, c.text(2)?);
    let worst = (text.len() / needle.len().max(1)).saturating_mul(with.len());
    c.take(worst)?;
    c.give_text(collation::replace(&text, &needle, &with, c.collation()))
}

/// A NULL replacement only deletes.
fn stuff(c: &Call<'_>) -> Result<Value, ValueError> {
    if c.args.iter().take(3).any(Value::is_null) {
        return Ok(Value::Null);
    }
    let (text, start, length, put) = (c.text(0)?, c.int(1)?, c.int(2)?, c.text(3)?);
    let count = text.chars().count() as i64;
    if start < 1 || start > count || length < 0 {
        return Ok(Value::Null);
    }
    let head = slice(&text, 1, start - 1);
    let tail = slice(&text, start.saturating_add(length), i64::MAX);
    let mut out = CompactString::from(head);
    append(&mut out, &put)?;
    append(&mut out, tail)?;
    c.give_text(out)
}

fn replicate(c: &Call<'_>) -> Result<Value, ValueError> {
    let (text, count) = (c.text(0)?, c.int(1)?);
    let Ok(count) = usize::try_from(count) else {
        return Ok(Value::Null);
    };
    let length = text.len().max(1);
    if !c.result.is_large() {
        return c.give_text(text.repeat(count.min(4 * 8000 / length)));
    }
    c.take(count.saturating_mul(length))?;
    c.give_text(text.repeat(count))
}

fn space(c: &Call<'_>) -> Result<Value, ValueError> {
    match usize::try_from(c.int(0)?) {
        Ok(count) => c.give_text(" ".repeat(count.min(8000))),
        Err(_) => Ok(Value::Null),
    }
}

fn reverse(c: &Call<'_>) -> Result<Value, ValueError> {
    c.give_text(c.text(0)?.chars().rev().collect::<CompactString>())
}

fn trim(c: &Call<'_>, start: bool, end: bool) -> Result<Value, ValueError> {
    let text = c.text(0)?;
    let chars = if c.args.len() > 1 {
        c.text(1)?
    } else {
        " ".into()
    };
    // A set of many characters is not read through for each character of the text.
    let many: Option<HashSet<char>> = (chars.len() > 64).then(|| chars.chars().collect());
    let is_trimmed = |ch: char| match &many {
        Some(many) => many.contains(&ch),
        None => chars.contains(ch),
    };
    let mut rest: &str = &text;
    if start {
        rest = rest.trim_start_matches(is_trimmed);
    }
    if end {
        rest = rest.trim_end_matches(is_trimmed);
    }
    c.give_text(rest)
}

fn concat(c: &Call<'_>) -> Result<Value, ValueError> {
    let mut out = CompactString::default();
    for position in 0..c.args.len() {
        append(&mut out, &c.text(position)?)?;
    }
    c.give_text(out)
}

/// Adds to a text that may not grow beyond a large value.
fn append(out: &mut CompactString, text: &str) -> Result<(), ValueError> {
    if out.len() + text.len() > LARGE_BYTES_MAX {
        return Err(ValueError::too_large());
    }
    out.push_str(text);
    Ok(())
}

fn concat_ws(c: &Call<'_>) -> Result<Value, ValueError> {
    let separator = c.text(0)?;
    let mut out = CompactString::default();
    let mut first = true;
    for position in (1..c.args.len()).filter(|p| !c.value(*p).is_null()) {
        if !first {
            append(&mut out, &separator)?;
        }
        first = false;
        append(&mut out, &c.text(position)?)?;
    }
    c.give_text(out)
}

/// STR(number, length, decimals): right-aligned, stars when the integral part does not fit.
fn str_number(c: &Call<'_>) -> Result<Value, ValueError> {
    let (number, length, decimals) = (c.float(0)?, c.int_or(1, 10)?, c.int_or(2, 0)?);
    if !(1..=8000).contains(&length) || decimals < 0 {
        return Ok(Value::Null);
    }
    let length = length as usize;
    let whole = format!("{:.0}", number.trunc()).len() + usize::from(number < 0.0 && number > -1.0);
    if whole > length {
        return c.give_text("*".repeat(length));
    }
    let room = length.saturating_sub(whole + 1);
    let decimals = (decimals.min(16) as usize).min(room);
    // Ties go away from zero, which the plain formatting of binary numbers does not do.
    let scale = 10f64.powi(decimals as i32);
    let scaled = number * scale;
    let rounded = if scaled.abs() < 9e15 {
        scaled.round() / scale
    } else {
        number
    };
    c.give_text(format!("{rounded:>length$.decimals$}"))
}

fn ascii(c: &Call<'_>) -> Result<Value, ValueError> {
    let text = c.text(0)?;
    let Some(first) = text.chars().next() else {
        return Ok(Value::Null);
    };
    let mut buffer = [0; 4];
    let bytes = encode_code_page(first.encode_utf8(&mut buffer), c.collation().code_page());
    c.give_int(bytes.first().copied().unwrap_or(0).into())
}

fn char_of(c: &Call<'_>) -> Result<Value, ValueError> {
    match u8::try_from(c.int(0)?) {
        Ok(byte) => Ok(Value::str(decode_code_page(
            &[byte],
            c.collation().code_page(),
        ))),
        Err(_) => Ok(Value::Null),
    }
}

fn nchar(c: &Call<'_>) -> Result<Value, ValueError> {
    let code = u16::try_from(c.int(0)?)
        .ok()
        .and_then(|n| char::from_u32(n.into()));
    Ok(code.map_or(Value::Null, |ch| Value::str(ch.encode_utf8(&mut [0; 4]))))
}

fn unicode(c: &Call<'_>) -> Result<Value, ValueError> {
    Ok(c.text(0)?
        .chars()
        .next()
        .map_or(Value::Null, |ch| Value::Int(ch as i32)))
}

fn quotename(c: &Call<'_>) -> Result<Value, ValueError> {
    let name = c.text(0)?;
    let quote = if c.args.len() > 1 {
        c.text(1)?.chars().next().unwrap_or('[')
    } else {
        '['
    };
    let (open, close) = match quote {
        '[' | ']' => ('[', ']'),
        '(' | ')' => ('(', ')'),
        '<' | '>' => ('<', '>'),
        '{' | '}' => ('{', '}'),
        '\'' | '"' | '`' => (quote, quote),
        _ => return Ok(Value::Null),
    };
    if name.chars().count() > 128 {
        return Ok(Value::Null);
    }
    let mut out = CompactString::default();
    out.push(open);
    for ch in name.chars() {
        out.push(ch);
        if ch == close {
            out.push(ch);
        }
    }
    out.push(close);
    c.give_text(out)
}

fn format_value(c: &Call<'_>) -> Result<Value, ValueError> {
    if c.args.len() > 2 && !pattern::is_known_culture(&c.text(2)?) {
        return Err(ValueError::new(9818, 1, &[&c.text(2)?]));
    }
    let pattern = c.text(1)?;
    let text = if c.type_of(0).is_temporal() {
        pattern::format_temporal(c.value(0), &pattern)
    } else {
        pattern::format_number(c.value(0), c.type_of(0), &pattern)
    };
    text.map_or(Ok(Value::Null), |text| c.give_text(text))
}

fn translate(c: &Call<'_>) -> Result<Value, ValueError> {
    let (text, from, to) = (c.text(0)?, c.text(1)?, c.text(2)?);
    if from.chars().count() != to.chars().count() {
        return Err(ValueError::new(9828, 1, &[]));
    }
    let mut map = HashMap::new();
    for (from, to) in from.chars().zip(to.chars()) {
        map.entry(from).or_insert(to);
    }
    let mapped = text.chars().map(|ch| *map.get(&ch).unwrap_or(&ch));
    c.give_text(mapped.collect::<CompactString>())
}

fn string_escape(c: &Call<'_>) -> Result<Value, ValueError> {
    if !c.text(1)?.eq_ignore_ascii_case("json") {
        return Err(ValueError::new(1023, 1, &[&2, &"string_escape"]));
    }
    let mut out = CompactString::default();
    for ch in c.text(0)?.chars() {
        match ch {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '/' => out.push_str("\\/"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    c.give_text(out)
}

/// One letter and three digits; letters of one sound in a row count once, also across H and W.
fn soundex_code(text: &str) -> String {
    let digit = |c: char| match c {
        'B' | 'F' | 'P' | 'V' => Some('1'),
        'C' | 'G' | 'J' | 'K' | 'Q' | 'S' | 'X' | 'Z' => Some('2'),
        'D' | 'T' => Some('3'),
        'L' => Some('4'),
        'M' | 'N' => Some('5'),
        'R' => Some('6'),
        _ => None,
    };
    let mut letters = text
        .chars()
        .map(|c| c.to_ascii_uppercase())
        .take_while(char::is_ascii_alphabetic);
    let Some(first) = letters.next() else {
        return "0000".into();
    };
    let mut code = String::from(first);
    let mut last = digit(first);
    for letter in letters {
        let next = digit(letter);
        if let Some(sound) = next
            && next != last
        {
            code.push(sound);
        }
        if !matches!(letter, 'H' | 'W') {
            last = next;
        }
        if code.len() == 4 {
            break;
        }
    }
    format!("{code:0<4}")
}

fn difference(c: &Call<'_>) -> Result<Value, ValueError> {
    let (a, b) = (soundex_code(&c.text(0)?), soundex_code(&c.text(1)?));
    c.give_int(a.bytes().zip(b.bytes()).filter(|(x, y)| x == y).count() as i64)
}

/// PARSENAME: a part of a dotted name, counted from the right.
fn parsename(c: &Call<'_>) -> Result<Value, ValueError> {
    let name = c.text(0)?;
    let mut parts: Vec<String> = vec![String::new()];
    let mut close: Option<char> = None;
    let mut chars = name.chars().peekable();
    while let Some(ch) = chars.next() {
        let Some(part) = parts.last_mut() else { break };
        match close {
            Some(end) if ch == end => {
                if chars.peek() == Some(&end) {
                    chars.next();
                    part.push(end);
                } else {
                    close = None;
                }
            }
            Some(_) => part.push(ch),
            None => match ch {
                '[' => close = Some(']'),
                '"' => close = Some('"'),
                '.' => parts.push(String::new()),
                other => part.push(other),
            },
        }
    }
    if parts.len() > 4 || close.is_some() {
        return Ok(Value::Null);
    }
    let from_right = usize::try_from(c.int(1)?).ok().filter(|n| *n >= 1);
    let part = from_right
        .and_then(|n| parts.len().checked_sub(n))
        .and_then(|at| parts.get(at));
    match part {
        Some(part) if !part.is_empty() => c.give_text(part.as_str()),
        _ => Ok(Value::Null),
    }
}

/// Text types for other chapters.
pub(super) fn check_all_text(s: &Signature<'_>) -> Result<(), ValueError> {
    (0..s.types.len()).try_for_each(|p| text_type(s.at(p)).map(|_| ()).ok_or_else(|| s.invalid(p)))
}
