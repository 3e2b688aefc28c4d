//! Dates and times out of text: every literal form of the language.
//!
//! Theory: the time is found first, by its colon or its AM/PM; what is left around it is the date, read as groups of
//! digits and a month name. Digits with separators follow DATEFORMAT unless a four-digit group shows which is the
//! year; the new types read `yyyy-mm-dd` as ISO always.

use super::{CivilDate, DAYS_TO_1900, Moment, TICKS_PER_DAY, TICKS_PER_SECOND, is_valid_offset};
use crate::DataType;

/// SET DATEFORMAT: the order of month, day and year in numeric dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DateFormat {
    #[default]
    Mdy,
    Dmy,
    Ymd,
    Ydm,
    Myd,
    Dym,
}

impl DateFormat {
    /// The order with this name, whatever its case (`SET DATEFORMAT`).
    pub fn parse(name: &str) -> Option<DateFormat> {
        Some(match name.to_ascii_lowercase().as_str() {
            "mdy" => DateFormat::Mdy,
            "dmy" => DateFormat::Dmy,
            "ymd" => DateFormat::Ymd,
            "ydm" => DateFormat::Ydm,
            "myd" => DateFormat::Myd,
            "dym" => DateFormat::Dym,
            _ => return None,
        })
    }

    /// The order's name, as `SET DATEFORMAT` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            DateFormat::Mdy => "mdy",
            DateFormat::Dmy => "dmy",
            DateFormat::Ymd => "ymd",
            DateFormat::Ydm => "ydm",
            DateFormat::Myd => "myd",
            DateFormat::Dym => "dym",
        }
    }

    /// The order that a CONVERT style prescribes for reading.
    pub const fn of_style(style: i32) -> Option<DateFormat> {
        Some(match style {
            1 | 101 | 10 | 110 | 22 => DateFormat::Mdy,
            3 | 103 | 4 | 104 | 5 | 105 => DateFormat::Dmy,
            2 | 102 | 11 | 111 | 12 | 112 | 20 | 120 | 21 | 121 | 23 | 25 | 126 | 127 => {
                DateFormat::Ymd
            }
            _ => return None,
        })
    }

    const fn month_before_day(self) -> bool {
        matches!(self, DateFormat::Mdy | DateFormat::Ymd | DateFormat::Myd)
    }
}

/// Why text is no date or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    Syntax,
    /// The form is right, the numbers are not.
    OutOfRange,
}

/// What the text said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    pub moment: Moment,
    pub has_date: bool,
    pub has_time: bool,
}

const TEXT_BYTES_MAX: usize = 128;
/// Two-digit years up to here are of this century.
const TWO_DIGIT_YEAR_CUTOFF: i32 = 49;

/// Parses text as the target type would; the result still has to be rounded to it.
pub fn parse(text: &str, target: DataType, order: DateFormat) -> Result<Parsed, ParseError> {
    let text = strip_odbc(text.trim());
    if text.len() > TEXT_BYTES_MAX || !text.is_ascii() {
        return Err(ParseError::Syntax);
    }
    let old = matches!(target, DataType::DateTime | DataType::SmallDateTime);
    let lower = text.to_ascii_lowercase();
    let time = find_time(&lower);
    let (before, time, after) = match time {
        Some((start, end)) => (lower.get(..start), lower.get(start..end), lower.get(end..)),
        None => (Some(lower.as_str()), None, None),
    };
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let mut moment = Moment::new(DAYS_TO_1900, 0);
    if let Some(time) = time {
        let (ticks, offset) = parse_time(time, old)?;
        moment.ticks = ticks;
        moment.offset_minutes = offset;
    }
    let iso = time.is_some()
        && before.ends_with('t')
        && before.as_bytes().first().is_some_and(u8::is_ascii_digit);
    let before = if iso {
        before.strip_suffix('t').unwrap_or(before)
    } else {
        before
    };
    let date = format!("{} {}", before.trim(), after.trim());
    let date = date.trim();
    if !date.is_empty() {
        moment.days = parse_date(date, order, !old || iso)?;
    }
    Ok(Parsed {
        moment,
        has_date: !date.is_empty(),
        has_time: time.is_some(),
    })
}

/// `{ts '...'}`, `{d '...'}` and `{t '...'}` hold the text itself.
fn strip_odbc(text: &str) -> &str {
    let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
    let inner = inner.map(|t| {
        t.trim_start()
            .trim_start_matches(['t', 's', 'd', 'T', 'S', 'D'])
            .trim()
    });
    inner
        .and_then(|t| t.strip_prefix('\''))
        .and_then(|t| t.strip_suffix('\''))
        .unwrap_or(text)
}

/// Byte range of the time: from the digits before the first colon, or before AM/PM, to the end of its offset.
fn find_time(text: &str) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let half = |at: usize| {
        let word = text.get(at..at + 2).is_some_and(|w| w == "am" || w == "pm");
        word && !bytes.get(at + 2).is_some_and(u8::is_ascii_alphabetic)
    };
    let mut anchor = bytes.iter().position(|b| *b == b':');
    if anchor.is_none() {
        anchor = (1..bytes.len())
            .find(|at| half(*at) && !bytes.get(at - 1).is_some_and(u8::is_ascii_alphabetic));
    }
    let mut start = anchor?;
    while start > 0 && bytes.get(start - 1) == Some(&b' ') {
        start -= 1;
    }
    let digits_end = start;
    while start > 0
        && bytes.get(start - 1).is_some_and(u8::is_ascii_digit)
        && digits_end - start < 2
    {
        start -= 1;
    }
    if start == digits_end {
        return None;
    }
    let skip = |mut at: usize, accept: &dyn Fn(u8) -> bool| {
        while bytes.get(at).is_some_and(|b| accept(*b)) {
            at += 1;
        }
        at
    };
    let mut end = skip(digits_end, &|b| {
        b.is_ascii_digit() || b == b':' || b == b'.'
    });
    let word = skip(end, &|b| b == b' ');
    if half(word) {
        end = word + 2;
    }
    let offset = skip(end, &|b| b == b' ');
    match bytes.get(offset) {
        Some(b'z') => end = offset + 1,
        Some(b'+' | b'-') => {
            let stop = skip(offset + 1, &|b| b.is_ascii_digit() || b == b':');
            // Without a colon this is a date that follows the time.
            if text.get(offset..stop).is_some_and(|o| o.contains(':')) {
                end = stop;
            }
        }
        _ => {}
    }
    Some((start, end))
}

/// `+hh:mm` or `-hh:mm`, as SWITCHOFFSET takes it too.
pub fn parse_offset(text: &str) -> Option<i16> {
    let text = text.trim();
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, text.get(1..)?),
        b'-' => (-1, text.get(1..)?),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let number = |t: &str| {
        if (1..=2).contains(&t.len()) {
            t.parse::<u8>().ok()
        } else {
            None
        }
    };
    let (hours, minutes) = (i16::from(number(hours)?), i16::from(number(minutes)?));
    let total = sign * (hours * 60 + minutes);
    (minutes < 60 && is_valid_offset(total)).then_some(total)
}

fn parse_time(text: &str, old: bool) -> Result<(u64, Option<i16>), ParseError> {
    let clock_end = text
        .bytes()
        .position(|b| !(b.is_ascii_digit() || b == b':' || b == b'.' || b == b' '));
    let (clock, tail) = text.split_at(clock_end.unwrap_or(text.len()));
    let clock = clock.trim();
    let (half, zone) = match tail.get(..2) {
        Some("am") => (Some(0), tail.get(2..).unwrap_or_default()),
        Some("pm") => (Some(12), tail.get(2..).unwrap_or_default()),
        _ => (None, tail),
    };
    let offset = match zone.trim() {
        "" => None,
        "z" => Some(0),
        // An offset is more than datetime can take.
        _ if old => return Err(ParseError::Syntax),
        zone => Some(parse_offset(zone).ok_or(ParseError::Syntax)?),
    };
    let (whole, decimals) = match clock.split_once('.') {
        Some((whole, decimals)) => (whole, Some(decimals)),
        None => (clock, None),
    };
    let mut groups = whole.split(':').map(str::trim);
    let mut next = || groups.next().map(two_digits).transpose();
    let hour = next()?.ok_or(ParseError::Syntax)?;
    let minute = next()?;
    let second = next()?;
    if minute.is_none() && half.is_none() || second.is_none() && decimals.is_some() {
        return Err(ParseError::Syntax);
    }
    let fraction = match (groups.next(), decimals) {
        (None, None) => 0,
        (None, Some(digits)) => decimal_fraction(digits, if old { 3 } else { 7 })?,
        // After a colon the digits count milliseconds.
        (Some(digits), None) => three_digits(digits)? * 10_000,
        (Some(_), Some(_)) => return Err(ParseError::Syntax),
    };
    if groups.next().is_some() {
        return Err(ParseError::Syntax);
    }
    let hour = match half {
        None => hour,
        Some(_) if hour > 23 => return Err(ParseError::Syntax),
        Some(0) if hour > 12 => return Err(ParseError::Syntax),
        Some(_) if hour > 12 => hour,
        Some(add) => hour % 12 + add,
    };
    let (minute, second) = (minute.unwrap_or(0), second.unwrap_or(0));
    if hour > 23 || minute > 59 || second > 59 {
        return Err(ParseError::OutOfRange);
    }
    let ticks = u64::from((hour * 60 + minute) * 60 + second) * TICKS_PER_SECOND + fraction;
    debug_assert!(ticks < TICKS_PER_DAY);
    Ok((ticks, offset))
}

fn two_digits(text: &str) -> Result<u32, ParseError> {
    if (1..=2).contains(&text.len()) {
        text.parse().map_err(|_| ParseError::Syntax)
    } else {
        Err(ParseError::Syntax)
    }
}

fn three_digits(text: &str) -> Result<u64, ParseError> {
    if (1..=3).contains(&text.len()) {
        text.parse().map_err(|_| ParseError::Syntax)
    } else {
        Err(ParseError::Syntax)
    }
}

fn decimal_fraction(digits: &str, digits_max: usize) -> Result<u64, ParseError> {
    if digits.is_empty() || digits.len() > digits_max || !digits.bytes().all(|b| b.is_ascii_digit())
    {
        return Err(ParseError::Syntax);
    }
    let number: u64 = digits.parse().map_err(|_| ParseError::Syntax)?;
    Ok(number * 10u64.pow(7 - digits.len() as u32))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece<'t> {
    Digits(&'t str),
    Month(u8),
    Separator(u8),
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, ParseError> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let run =
            |accept: fn(&u8) -> bool| rest.bytes().position(|b| !accept(&b)).unwrap_or(rest.len());
        let size = if first.is_ascii_digit() {
            let size = run(u8::is_ascii_digit);
            out.push(Piece::Digits(rest.get(..size).unwrap_or_default()));
            size
        } else if first.is_ascii_alphabetic() {
            let size = run(u8::is_ascii_alphabetic);
            out.push(Piece::Month(
                month_number(rest.get(..size).unwrap_or_default()).ok_or(ParseError::Syntax)?,
            ));
            size
        } else {
            match first {
                b'/' | b'-' | b'.' => out.push(Piece::Separator(first)),
                b' ' | b',' | b'\t' => {}
                _ => return Err(ParseError::Syntax),
            }
            1
        };
        rest = rest.get(size..).unwrap_or_default();
    }
    Ok(out)
}

fn month_number(word: &str) -> Option<u8> {
    const NAMES: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    if word == "sept" {
        return Some(9);
    }
    let at = NAMES
        .iter()
        .position(|name| *name == word || name.get(..3) == Some(word))?;
    Some(at as u8 + 1)
}

fn parse_date(text: &str, order: DateFormat, iso: bool) -> Result<i32, ParseError> {
    let pieces = pieces(text)?;
    let month = pieces.iter().find_map(|p| {
        if let Piece::Month(m) = p {
            Some(*m)
        } else {
            None
        }
    });
    let digits: Vec<&str> = pieces
        .iter()
        .filter_map(|p| {
            if let Piece::Digits(d) = p {
                Some(*d)
            } else {
                None
            }
        })
        .collect();
    let separators: Vec<u8> = pieces
        .iter()
        .filter_map(|p| {
            if let Piece::Separator(s) = p {
                Some(*s)
            } else {
                None
            }
        })
        .collect();
    let (year, month, day) = match (month, digits.as_slice()) {
        (Some(month), _)
            if pieces
                .iter()
                .filter(|p| matches!(p, Piece::Month(_)))
                .count()
                == 1 =>
        {
            named_month(i32::from(month), &digits)?
        }
        (None, [all]) if separators.is_empty() => unseparated(all)?,
        (None, [a, b, c]) if separators.len() == 2 => {
            numeric([a, b, c], order, iso && separators.first() == Some(&b'-'))?
        }
        _ => return Err(ParseError::Syntax),
    };
    CivilDate::new(year, month, day)
        .map(CivilDate::to_days)
        .ok_or(ParseError::OutOfRange)
}

fn number(digits: &str) -> Result<i32, ParseError> {
    digits.parse().map_err(|_| ParseError::Syntax)
}

/// A year of four digits, or of one or two in the window 1950 to 2049.
fn year(digits: &str) -> Result<i32, ParseError> {
    let value = number(digits)?;
    match digits.len() {
        4 => Ok(value),
        1 | 2 => Ok(value
            + if value <= TWO_DIGIT_YEAR_CUTOFF {
                2000
            } else {
                1900
            }),
        _ => Err(ParseError::Syntax),
    }
}

/// `Apr 15 2020`, `15 April 2020`, `2020 Apr 15`, `Apr 2020`, `Apr 15`-less forms.
fn named_month(month: i32, digits: &[&str]) -> Result<(i32, i32, i32), ParseError> {
    match *digits {
        [only] if only.len() == 4 => Ok((number(only)?, month, 1)),
        [first, second] if first.len() == 4 => Ok((number(first)?, month, day(second)?)),
        [first, second] => Ok((year(second)?, month, day(first)?)),
        _ => Err(ParseError::Syntax),
    }
}

fn day(digits: &str) -> Result<i32, ParseError> {
    if digits.len() <= 2 {
        number(digits)
    } else {
        Err(ParseError::Syntax)
    }
}

/// `yyyymmdd`, `yymmdd` or `yyyy`.
fn unseparated(digits: &str) -> Result<(i32, i32, i32), ParseError> {
    let at = |range: std::ops::Range<usize>| digits.get(range).ok_or(ParseError::Syntax);
    match digits.len() {
        8 => Ok((number(at(0..4)?)?, number(at(4..6)?)?, number(at(6..8)?)?)),
        6 => Ok((year(at(0..2)?)?, number(at(2..4)?)?, number(at(4..6)?)?)),
        4 => Ok((number(digits)?, 1, 1)),
        _ => Err(ParseError::Syntax),
    }
}

fn numeric(
    [a, b, c]: [&str; 3],
    order: DateFormat,
    iso: bool,
) -> Result<(i32, i32, i32), ParseError> {
    let pair = |first: &str, second: &str, month_first: bool| -> Result<(i32, i32), ParseError> {
        let (first, second) = (day(first)?, day(second)?);
        Ok(if month_first {
            (first, second)
        } else {
            (second, first)
        })
    };
    let month_first = order.month_before_day();
    let (year_text, (month, day)) = if a.len() == 4 {
        (a, pair(b, c, iso || month_first)?)
    } else if c.len() == 4 {
        (c, pair(a, b, month_first)?)
    } else if b.len() == 4 {
        (b, pair(a, c, month_first)?)
    } else {
        match order {
            DateFormat::Mdy | DateFormat::Dmy => (c, pair(a, b, month_first)?),
            DateFormat::Ymd | DateFormat::Ydm => (a, pair(b, c, month_first)?),
            DateFormat::Myd | DateFormat::Dym => (b, pair(a, c, month_first)?),
        }
    };
    Ok((year(year_text)?, month, day))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporal::format;
    use proptest::prelude::*;

    fn read(text: &str, data_type: DataType, order: DateFormat) -> Result<String, ParseError> {
        let parsed = parse(text, data_type, order)?;
        let value = parsed
            .moment
            .to_value(data_type)
            .ok_or(ParseError::OutOfRange)?;
        Ok(format(&value, Some(121)).unwrap_or_default())
    }

    #[test]
    fn all_forms_mean_the_same_date() {
        for text in [
            "2024-04-15",
            "20240415",
            "240415",
            "4/15/2024",
            "04-15-24",
            "4.15.2024",
            "Apr 15 2024",
            "April 15, 2024",
            "15 April 2024",
            "15-Apr-2024",
            "2024 Apr 15",
            "2024/04/15",
            "{d '2024-04-15'}",
            "  2024-04-15  ",
            "apr 15, 24",
        ] {
            assert_eq!(
                read(text, DataType::DateTime, DateFormat::Mdy),
                Ok("2024-04-15 00:00:00.000".into()),
                "{text}"
            );
        }
    }

    #[test]
    fn times() {
        for (text, expected) in [
            ("14:30", "14:30:00.0000000"),
            ("2:30 PM", "14:30:00.0000000"),
            ("2:30:15.5pm", "14:30:15.5000000"),
            ("12 AM", "00:00:00.0000000"),
            ("12pm", "12:00:00.0000000"),
            ("14:30:15:5", "14:30:15.0050000"),
            ("14:30:15.1234567", "14:30:15.1234567"),
            ("2024-04-15T14:30:15", "14:30:15.0000000"),
            ("20240415 14:30:15.25", "14:30:15.2500000"),
            ("14:30 4/15/2024", "14:30:00.0000000"),
            ("2024-04-15 14:30:15 +02:00", "14:30:15.0000000"),
            ("", "00:00:00.0000000"),
        ] {
            assert_eq!(
                read(text, DataType::Time { scale: 7 }, DateFormat::Mdy),
                Ok(expected.into()),
                "{text}"
            );
        }
    }

    #[test]
    fn date_order() {
        let datetime =
            |text, order| read(text, DataType::DateTime, order).map(|t| t[..10].to_string());
        assert_eq!(
            datetime("03/04/2024", DateFormat::Dmy),
            Ok("2024-04-03".into())
        );
        assert_eq!(
            datetime("2024-03-04", DateFormat::Dmy),
            Ok("2024-04-03".into())
        );
        assert_eq!(
            datetime("2024-03-04T00:00:00", DateFormat::Dmy),
            Ok("2024-03-04".into())
        );
        assert_eq!(
            datetime("03/04/05", DateFormat::Ymd),
            Ok("2003-04-05".into())
        );
        assert_eq!(
            datetime("20240304", DateFormat::Dmy),
            Ok("2024-03-04".into())
        );
        assert_eq!(
            read("2024-03-04", DataType::Date, DateFormat::Dmy),
            Ok("2024-03-04".into())
        );
        assert_eq!(
            datetime("01/01/50", DateFormat::Mdy),
            Ok("1950-01-01".into())
        );
        assert_eq!(
            datetime("01/01/49", DateFormat::Mdy),
            Ok("2049-01-01".into())
        );
    }

    #[test]
    fn wrong_text() {
        for text in [
            "abc",
            "2024-04",
            "4/15",
            "14",
            "1:2:3:4:5",
            "2024-04-15 10:00:00.1234",
            "1234567",
            "2024-04-15x",
            "10:00:00 +01:00",
        ] {
            assert_eq!(
                read(text, DataType::DateTime, DateFormat::Mdy),
                Err(ParseError::Syntax),
                "{text}"
            );
        }
        for text in ["2024-13-01", "2024-02-30", "25:00", "10:60"] {
            assert_eq!(
                read(text, DataType::DateTime, DateFormat::Mdy),
                Err(ParseError::OutOfRange),
                "{text}"
            );
        }
    }

    #[test]
    fn offsets() {
        let dto = DataType::DateTimeOffset { scale: 0 };
        assert_eq!(
            read("2024-04-15 14:30:00 -05:30", dto, DateFormat::Mdy),
            Ok("2024-04-15 14:30:00 -05:30".into())
        );
        assert_eq!(
            read("2024-04-15T14:30:00Z", dto, DateFormat::Mdy),
            Ok("2024-04-15 14:30:00 +00:00".into())
        );
        assert_eq!(parse_offset("+14:01"), None);
        assert_eq!(parse_offset("-01:30"), Some(-90));
    }

    proptest! {
        #[test]
        fn anything_is_refused_without_panic(text in "[0-9:./ tTzZ+apm,-]{0,24}|\\PC{0,20}") {
            for t in [DataType::DateTime, DataType::DateTime2 { scale: 7 }] {
                let _ = parse(&text, t, DateFormat::Mdy);
            }
        }

        #[test]
        fn shown_text_reads_back(days in 0..=super::super::DAY_MAX, ticks in 0..TICKS_PER_DAY) {
            let t = DataType::DateTime2 { scale: 7 };
            let value = Moment::new(days, ticks).to_value(t).unwrap();
            for style in [121, 126, 127] {
                let text = format(&value, Some(style)).unwrap();
                let back = parse(&text, t, DateFormat::Mdy).unwrap().moment.to_value(t);
                prop_assert_eq!(back.as_ref(), Some(&value), "{}", text);
            }
        }
    }
}
