//! Dates and times as text, in every CONVERT style.

use super::hijri::HijriDate;
use super::{CivilDate, CivilTime, Moment, datetime_milliseconds};
use crate::Value;
use std::fmt::Write;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// 1 = January.
pub fn month_name(month: i32) -> &'static str {
    usize::try_from(month - 1)
        .ok()
        .and_then(|i| MONTHS.get(i))
        .unwrap_or(&"")
}

/// 0 = Sunday.
pub fn weekday_name(weekday: i32) -> &'static str {
    usize::try_from(weekday)
        .ok()
        .and_then(|i| WEEKDAYS.get(i))
        .unwrap_or(&"")
}

/// `+hh:mm`.
pub(super) fn offset_text(minutes: i16) -> String {
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.unsigned_abs();
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// What a style shows; each type drops what it does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DateStyle {
    /// `Mon dd yyyy`
    Default,
    Mdy(char),
    Ymd(char),
    Dmy(char),
    DayMonthName,
    MonthNameComma,
    Compact,
    Iso,
    /// Day, month and year of the Hijri calendar, the month by its name.
    HijriName,
    HijriDmy,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TimeStyle {
    /// `hh:miAM`
    Short12,
    /// `hh:mi:ss:mmmAM`
    Long12,
    /// `hh:mi:ss AM`
    Seconds12,
    Seconds,
    /// `hh:mi:ss:mmm`
    ColonFraction,
    /// `hh:mi:ss.mmm`
    Fraction,
    /// As `Fraction`, left out when zero.
    IsoFraction,
}

/// Date and time part of a style, and whether the year has four digits.
fn style_parts(style: i32) -> Option<(Option<DateStyle>, Option<TimeStyle>, bool)> {
    use DateStyle as D;
    use TimeStyle as T;
    let century = style >= 100;
    Some(match style {
        0 | 100 => (Some(D::Default), Some(T::Short12), true),
        1 | 101 => (Some(D::Mdy('/')), None, century),
        2 | 102 => (Some(D::Ymd('.')), None, century),
        3 | 103 => (Some(D::Dmy('/')), None, century),
        4 | 104 => (Some(D::Dmy('.')), None, century),
        5 | 105 => (Some(D::Dmy('-')), None, century),
        6 | 106 => (Some(D::DayMonthName), None, century),
        7 | 107 => (Some(D::MonthNameComma), None, century),
        8 | 24 | 108 => (None, Some(T::Seconds), century),
        9 | 109 => (Some(D::Default), Some(T::Long12), true),
        10 | 110 => (Some(D::Mdy('-')), None, century),
        11 | 111 => (Some(D::Ymd('/')), None, century),
        12 | 112 => (Some(D::Compact), None, century),
        13 | 113 => (Some(D::DayMonthName), Some(T::ColonFraction), true),
        14 | 114 => (None, Some(T::ColonFraction), century),
        20 | 120 => (Some(D::Iso), Some(T::Seconds), true),
        21 | 25 | 121 => (Some(D::Iso), Some(T::Fraction), true),
        22 => (Some(D::Mdy('/')), Some(T::Seconds12), false),
        23 => (Some(D::Iso), None, true),
        126 | 127 => (Some(D::Iso), Some(T::IsoFraction), true),
        130 => (Some(D::HijriName), Some(T::Long12), true),
        131 => (Some(D::HijriDmy), Some(T::Long12), true),
        _ => return None,
    })
}

/// Formats a temporal value. Without a style the old types use 0, the new ones 121. `None` for an unknown style or
/// one that shows nothing of the type.
pub fn format(value: &Value, style: Option<i32>) -> Option<String> {
    let moment = Moment::from_value(value)?;
    let old = matches!(value, Value::DateTime(_) | Value::SmallDateTime(_));
    let style = style.unwrap_or(if old { 0 } else { 121 });
    let (date, time, century) = style_parts(style)?;
    let date = date.filter(|_| !matches!(value, Value::Time(_)));
    let time = time.filter(|_| !matches!(value, Value::Date(_)));
    if date.is_none() && time.is_none() {
        return None;
    }
    let utc = style == 127 && moment.offset_minutes.is_some();
    let shown = if utc { moment.to_utc()? } else { moment };
    let mut out = String::with_capacity(36);
    if let Some(date) = date {
        write_date(&mut out, date, shown.days, century)?;
    }
    if let Some(time) = time {
        if date.is_some() {
            out.push(if time == TimeStyle::IsoFraction {
                'T'
            } else {
                ' '
            });
        }
        write_time(
            &mut out,
            time,
            CivilTime::from_ticks(shown.ticks),
            fraction(value),
        )
        .ok()?;
        if utc {
            out.push('Z');
        } else if let Some(offset) = moment.offset_minutes {
            if time != TimeStyle::IsoFraction {
                out.push(' ');
            }
            out.push_str(&offset_text(offset));
        }
    }
    Some(out)
}

/// Fraction digits of a value and whether `:` may stand before them.
struct Fraction {
    digits: String,
    old: bool,
}

fn fraction(value: &Value) -> Fraction {
    let scaled = |ticks: u64, scale: u8| {
        let digits = format!("{:07}", ticks % super::TICKS_PER_SECOND);
        Fraction {
            digits: digits
                .get(..usize::from(scale))
                .unwrap_or_default()
                .to_string(),
            old: false,
        }
    };
    match value {
        Value::DateTime(v) => Fraction {
            digits: format!("{:03}", datetime_milliseconds(v.ticks) % 1000),
            old: true,
        },
        Value::SmallDateTime(_) => Fraction {
            digits: "000".into(),
            old: true,
        },
        Value::Time(v) => scaled(v.ticks, v.scale),
        Value::DateTime2(v) => scaled(v.ticks, v.scale),
        Value::DateTimeOffset(v) => scaled(v.utc.ticks, v.utc.scale),
        _ => Fraction {
            digits: String::new(),
            old: false,
        },
    }
}

fn write_date(out: &mut String, style: DateStyle, days: i32, century: bool) -> Option<()> {
    let CivilDate { year, month, day } = CivilDate::from_days(days);
    let year = if century {
        format!("{year:04}")
    } else {
        format!("{:02}", year % 100)
    };
    let name = month_name(i32::from(month)).get(..3).unwrap_or_default();
    match style {
        DateStyle::Default => write!(out, "{name} {day:>2} {year}"),
        DateStyle::Mdy(sep) => write!(out, "{month:02}{sep}{day:02}{sep}{year}"),
        DateStyle::Ymd(sep) => write!(out, "{year}{sep}{month:02}{sep}{day:02}"),
        DateStyle::Dmy(sep) => write!(out, "{day:02}{sep}{month:02}{sep}{year}"),
        DateStyle::DayMonthName => write!(out, "{day:02} {name} {year}"),
        DateStyle::MonthNameComma => write!(out, "{name} {day:02}, {year}"),
        DateStyle::Compact => write!(out, "{year}{month:02}{day:02}"),
        DateStyle::Iso => write!(out, "{year}-{month:02}-{day:02}"),
        DateStyle::HijriName | DateStyle::HijriDmy => {
            write_hijri(out, style, HijriDate::from_days(days)?)
        }
    }
    .ok()
}

fn write_hijri(out: &mut String, style: DateStyle, date: HijriDate) -> std::fmt::Result {
    let HijriDate { year, month, day } = date;
    match style {
        DateStyle::HijriName => write!(out, "{day:>2} {} {year}", date.month_name()),
        _ => write!(out, "{day:>2}/{month:02}/{year}"),
    }
}

fn write_time(
    out: &mut String,
    style: TimeStyle,
    time: CivilTime,
    fraction: Fraction,
) -> std::fmt::Result {
    let CivilTime {
        hour,
        minute,
        second,
        ..
    } = time;
    let half = if hour < 12 { "AM" } else { "PM" };
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let digits = fraction.digits.as_str();
    let tail = |separator: char| {
        if digits.is_empty() {
            String::new()
        } else {
            format!("{separator}{digits}")
        }
    };
    let colon = if fraction.old { ':' } else { '.' };
    match style {
        TimeStyle::Short12 => write!(out, "{twelve:>2}:{minute:02}{half}"),
        TimeStyle::Long12 => write!(
            out,
            "{twelve:>2}:{minute:02}:{second:02}{}{half}",
            tail(colon)
        ),
        TimeStyle::Seconds12 => write!(out, "{twelve:>2}:{minute:02}:{second:02} {half}"),
        TimeStyle::Seconds => write!(out, "{hour:02}:{minute:02}:{second:02}"),
        TimeStyle::ColonFraction => write!(out, "{hour:02}:{minute:02}:{second:02}{}", tail(colon)),
        TimeStyle::Fraction => write!(out, "{hour:02}:{minute:02}:{second:02}{}", tail('.')),
        TimeStyle::IsoFraction => {
            let zero = digits.bytes().all(|b| b == b'0');
            write!(
                out,
                "{hour:02}:{minute:02}:{second:02}{}",
                if zero { String::new() } else { tail('.') }
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataType;
    use crate::temporal::{DateFormat, parse};

    fn at(text: &str, data_type: DataType) -> Value {
        parse(text, data_type, DateFormat::Mdy)
            .expect(text)
            .moment
            .to_value(data_type)
            .expect(text)
    }

    #[test]
    fn every_style_of_datetime() {
        let v = at("2006-12-30 00:38:54.840", DataType::DateTime);
        for (style, expected) in [
            (0, "Dec 30 2006 12:38AM"),
            (1, "12/30/06"),
            (2, "06.12.30"),
            (3, "30/12/06"),
            (4, "30.12.06"),
            (5, "30-12-06"),
            (6, "30 Dec 06"),
            (7, "Dec 30, 06"),
            (8, "00:38:54"),
            (9, "Dec 30 2006 12:38:54:840AM"),
            (10, "12-30-06"),
            (11, "06/12/30"),
            (12, "061230"),
            (13, "30 Dec 2006 00:38:54:840"),
            (14, "00:38:54:840"),
            (20, "2006-12-30 00:38:54"),
            (21, "2006-12-30 00:38:54.840"),
            (22, "12/30/06 12:38:54 AM"),
            (23, "2006-12-30"),
            (24, "00:38:54"),
            (25, "2006-12-30 00:38:54.840"),
            (100, "Dec 30 2006 12:38AM"),
            (101, "12/30/2006"),
            (102, "2006.12.30"),
            (103, "30/12/2006"),
            (104, "30.12.2006"),
            (105, "30-12-2006"),
            (106, "30 Dec 2006"),
            (107, "Dec 30, 2006"),
            (108, "00:38:54"),
            (109, "Dec 30 2006 12:38:54:840AM"),
            (110, "12-30-2006"),
            (111, "2006/12/30"),
            (112, "20061230"),
            (130, "10 ذو الحجة 1427 12:38:54:840AM"),
            (131, "10/12/1427 12:38:54:840AM"),
            (113, "30 Dec 2006 00:38:54:840"),
            (114, "00:38:54:840"),
            (120, "2006-12-30 00:38:54"),
            (121, "2006-12-30 00:38:54.840"),
            (126, "2006-12-30T00:38:54.840"),
            (127, "2006-12-30T00:38:54.840"),
        ] {
            assert_eq!(
                format(&v, Some(style)).as_deref(),
                Some(expected),
                "style {style}"
            );
        }
        assert_eq!(format(&v, Some(132)), None);
        assert_eq!(format(&v, None).as_deref(), Some("Dec 30 2006 12:38AM"));
    }

    #[test]
    fn other_types() {
        let dt2 = DataType::DateTime2 { scale: 7 };
        let dto = DataType::DateTimeOffset { scale: 3 };
        for (text, data_type, style, expected) in [
            ("2006-01-02", DataType::Date, None, Some("2006-01-02")),
            ("2006-01-02", DataType::Date, Some(100), Some("Jan  2 2006")),
            ("2006-01-02", DataType::Date, Some(108), None),
            (
                "13:05",
                DataType::Time { scale: 3 },
                None,
                Some("13:05:00.000"),
            ),
            (
                "13:05",
                DataType::Time { scale: 0 },
                Some(0),
                Some(" 1:05PM"),
            ),
            (
                "2006-01-02 03:04:05.1234567",
                dt2,
                None,
                Some("2006-01-02 03:04:05.1234567"),
            ),
            (
                "2006-01-02 03:04:05",
                dt2,
                Some(126),
                Some("2006-01-02T03:04:05"),
            ),
            (
                "2006-01-02 03:04:05.5 +02:30",
                dto,
                None,
                Some("2006-01-02 03:04:05.500 +02:30"),
            ),
            (
                "2006-01-02 03:04:05.5 +02:30",
                dto,
                Some(126),
                Some("2006-01-02T03:04:05.500+02:30"),
            ),
            (
                "2006-01-02 03:04:05.5 +02:30",
                dto,
                Some(127),
                Some("2006-01-02T00:34:05.500Z"),
            ),
            (
                "2006-01-02 03:04",
                DataType::SmallDateTime,
                None,
                Some("Jan  2 2006  3:04AM"),
            ),
        ] {
            assert_eq!(
                format(&at(text, data_type), style).as_deref(),
                expected,
                "{text} {data_type} {style:?}"
            );
        }
    }
}
