//! Date parts and the functions that take one: DATEADD, DATEDIFF, DATEPART, DATENAME, DATETRUNC.

use super::format::{month_name, offset_text, weekday_name};
use super::{CivilDate, CivilTime, DAY_MAX, Moment, TICKS_PER_DAY, TICKS_PER_SECOND, weekday};
use crate::{DataType, Value, ValueError};
use compact_str::{CompactString, ToCompactString};

/// The first argument of the date functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DatePart {
    Year,
    Quarter,
    Month,
    DayOfYear,
    Day,
    Week,
    WeekDay,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    TzOffset,
    IsoWeek,
}

impl DatePart {
    /// Full names and abbreviations, in any case.
    pub fn parse(name: &str) -> Option<DatePart> {
        use DatePart::*;
        Some(match name.to_ascii_lowercase().as_str() {
            "year" | "yy" | "yyyy" => Year,
            "quarter" | "qq" | "q" => Quarter,
            "month" | "mm" | "m" => Month,
            "dayofyear" | "dy" | "y" => DayOfYear,
            "day" | "dd" | "d" => Day,
            "week" | "wk" | "ww" => Week,
            "weekday" | "dw" | "w" => WeekDay,
            "hour" | "hh" => Hour,
            "minute" | "mi" | "n" => Minute,
            "second" | "ss" | "s" => Second,
            "millisecond" | "ms" => Millisecond,
            "microsecond" | "mcs" => Microsecond,
            "nanosecond" | "ns" => Nanosecond,
            "tzoffset" | "tz" => TzOffset,
            "iso_week" | "isowk" | "isoww" => IsoWeek,
            _ => return None,
        })
    }

    /// The part's full name, as messages show it.
    pub const fn name(self) -> &'static str {
        use DatePart::*;
        match self {
            Year => "year",
            Quarter => "quarter",
            Month => "month",
            DayOfYear => "dayofyear",
            Day => "day",
            Week => "week",
            WeekDay => "weekday",
            Hour => "hour",
            Minute => "minute",
            Second => "second",
            Millisecond => "millisecond",
            Microsecond => "microsecond",
            Nanosecond => "nanosecond",
            TzOffset => "tzoffset",
            IsoWeek => "iso_week",
        }
    }

    /// 100 ns units in one; nanoseconds and date parts have none.
    pub(super) const fn ticks(self) -> Option<i128> {
        use DatePart::*;
        Some(match self {
            Hour => 3600 * TICKS_PER_SECOND as i128,
            Minute => 60 * TICKS_PER_SECOND as i128,
            Second => TICKS_PER_SECOND as i128,
            Millisecond => 10_000,
            Microsecond => 10,
            _ => return None,
        })
    }

    pub(super) const fn is_time(self) -> bool {
        use DatePart::*;
        matches!(
            self,
            Hour | Minute | Second | Millisecond | Microsecond | Nanosecond
        )
    }

    pub(super) fn unsupported(self, function: &str, data_type: DataType) -> ValueError {
        ValueError::new(9810, 1, &[&self.name(), &function, &data_type.name()])
    }
}

/// DATEADD on a temporal value; the result has the value's type.
pub fn dateadd(part: DatePart, number: i64, value: &Value) -> Result<Value, ValueError> {
    use DatePart::*;
    let data_type = value.natural_type();
    let Some(moment) = Moment::from_value(value) else {
        return Ok(Value::Null);
    };
    let fits = match data_type {
        DataType::Date => !part.is_time(),
        DataType::Time { .. } => part.is_time(),
        DataType::DateTime | DataType::SmallDateTime => !matches!(part, Microsecond | Nanosecond),
        _ => true,
    };
    if !fits || matches!(part, TzOffset | IsoWeek) {
        return Err(part.unsupported("dateadd", data_type));
    }
    let overflow = || ValueError::new(517, 1, &[&data_type.name()]);
    let number = i128::from(number);
    let ticks = |ticks: i128| moment.total_ticks() + ticks;
    let moved = match part {
        Year | Quarter | Month => {
            let months = number
                * match part {
                    Year => 12,
                    Quarter => 3,
                    _ => 1,
                };
            let months = i64::try_from(months).map_err(|_| overflow())?;
            let date = CivilDate::from_days(moment.days)
                .add_months(months)
                .ok_or_else(overflow)?;
            Moment {
                days: date.to_days(),
                ..moment
            }
        }
        _ => {
            let total = match part.ticks() {
                Some(unit) => ticks(number * unit),
                None if part == Nanosecond => ticks((number + number.signum() * 50) / 100),
                None => {
                    ticks(number * if part == Week { 7 } else { 1 } * i128::from(TICKS_PER_DAY))
                }
            };
            if matches!(data_type, DataType::Time { .. }) {
                let ticks = total.rem_euclid(i128::from(TICKS_PER_DAY)) as u64;
                Moment { ticks, ..moment }
            } else {
                let at = Moment::from_total_ticks(total).ok_or_else(overflow)?;
                Moment {
                    offset_minutes: moment.offset_minutes,
                    ..at
                }
            }
        }
    };
    moved.to_value(data_type).ok_or_else(overflow)
}

/// DATEDIFF and DATEDIFF_BIG: how many boundaries of the part lie between; the caller narrows to int (error 535).
pub fn datediff(part: DatePart, start: &Value, end: &Value) -> Result<Option<i64>, ValueError> {
    use DatePart::*;
    let (Some(a), Some(b)) = (utc(start), utc(end)) else {
        return Ok(None);
    };
    if matches!(part, TzOffset) {
        return Err(part.unsupported("datediff", start.natural_type()));
    }
    let (da, db) = (CivilDate::from_days(a.days), CivilDate::from_days(b.days));
    let years = i64::from(db.year) - i64::from(da.year);
    let units = |unit: i128| {
        let floor = |m: Moment| m.total_ticks().div_euclid(unit);
        i64::try_from(floor(b) - floor(a)).map_err(|_| datediff_overflow("datediff_big"))
    };
    Ok(Some(match part {
        Year => years,
        Quarter => years * 4 + i64::from((db.month - 1) / 3) - i64::from((da.month - 1) / 3),
        Month => years * 12 + i64::from(db.month) - i64::from(da.month),
        Day | DayOfYear | WeekDay => i64::from(b.days) - i64::from(a.days),
        // Weeks begin on Sunday here whatever DATEFIRST says; ISO weeks on Monday.
        Week => i64::from((b.days + 1).div_euclid(7)) - i64::from((a.days + 1).div_euclid(7)),
        IsoWeek => i64::from(b.days.div_euclid(7)) - i64::from(a.days.div_euclid(7)),
        Nanosecond => {
            let difference = (b.total_ticks() - a.total_ticks()) * 100;
            i64::try_from(difference).map_err(|_| datediff_overflow("datediff_big"))?
        }
        _ => units(part.ticks().unwrap_or(1))?,
    }))
}

/// 535 for a function of the DATEDIFF family.
pub(crate) fn datediff_overflow(function: &str) -> ValueError {
    ValueError::new(535, 0, &[&function, &function])
}

fn utc(value: &Value) -> Option<Moment> {
    let moment = Moment::from_value(value)?;
    moment.to_utc()
}

/// DATEPART of a temporal value; `datefirst` is 1 (Monday) to 7 (Sunday).
pub fn datepart(part: DatePart, value: &Value, datefirst: u8) -> Result<Option<i32>, ValueError> {
    use DatePart::*;
    let Some(moment) = Moment::from_value(value) else {
        return Ok(None);
    };
    let data_type = value.natural_type();
    let unsupported = match data_type {
        DataType::Date => part.is_time() || part == TzOffset,
        DataType::Time { .. } => !part.is_time(),
        DataType::DateTime | DataType::SmallDateTime => part == TzOffset,
        _ => false,
    };
    if unsupported {
        return Err(part.unsupported("datepart", data_type));
    }
    let date = CivilDate::from_days(moment.days);
    let time = CivilTime::from_ticks(moment.ticks);
    Ok(Some(match part {
        Year => date.year,
        Quarter => (i32::from(date.month) - 1) / 3 + 1,
        Month => i32::from(date.month),
        DayOfYear => date.day_of_year(),
        Day => i32::from(date.day),
        Week => week_of_year(date, datefirst),
        WeekDay => weekday_number(moment.days, datefirst),
        Hour => time.hour as i32,
        Minute => time.minute as i32,
        Second => time.second as i32,
        Millisecond => match value {
            Value::DateTime(v) => (super::datetime_milliseconds(v.ticks) % 1000) as i32,
            _ => (time.fraction / 10_000) as i32,
        },
        Microsecond => (time.fraction / 10) as i32,
        Nanosecond => (time.fraction * 100) as i32,
        TzOffset => i32::from(moment.offset_minutes.unwrap_or(0)),
        IsoWeek => iso_week(moment.days),
    }))
}

/// 1 for the day that DATEFIRST names.
fn weekday_number(days: i32, datefirst: u8) -> i32 {
    (weekday(days) - i32::from(datefirst)).rem_euclid(7) + 1
}

/// Week 1 holds January 1; weeks begin on the DATEFIRST day.
fn week_of_year(date: CivilDate, datefirst: u8) -> i32 {
    let january = CivilDate {
        month: 1,
        day: 1,
        ..date
    }
    .to_days();
    (date.day_of_year() - 1 + weekday_number(january, datefirst) - 1) / 7 + 1
}

/// Week 1 holds the year's first Thursday; weeks begin on Monday.
fn iso_week(days: i32) -> i32 {
    let thursday = days - days.rem_euclid(7) + 3;
    (CivilDate::from_days(thursday).day_of_year() - 1) / 7 + 1
}

/// DATENAME: names of months and weekdays, offsets as text, numbers otherwise.
pub fn datename(
    part: DatePart,
    value: &Value,
    datefirst: u8,
) -> Result<Option<CompactString>, ValueError> {
    let Some(number) = datepart(part, value, datefirst)? else {
        return Ok(None);
    };
    Ok(Some(match part {
        DatePart::Month => CompactString::new(month_name(number)),
        DatePart::WeekDay => {
            let days = Moment::from_value(value).map_or(0, |m| m.days);
            CompactString::new(weekday_name(weekday(days)))
        }
        DatePart::TzOffset => offset_text(number as i16).into(),
        _ => number.to_compact_string(),
    }))
}

/// DATETRUNC: the start of the part that holds the value.
pub fn datetrunc(part: DatePart, value: &Value, datefirst: u8) -> Result<Value, ValueError> {
    use DatePart::*;
    let data_type = value.natural_type();
    let Some(moment) = Moment::from_value(value) else {
        return Ok(Value::Null);
    };
    let unsupported = match data_type {
        DataType::Date => part.is_time(),
        DataType::Time { .. } => !part.is_time(),
        DataType::DateTime | DataType::SmallDateTime => part == Microsecond,
        _ => false,
    };
    if unsupported || matches!(part, WeekDay | TzOffset | Nanosecond) {
        return Err(part.unsupported("datetrunc", data_type));
    }
    let date = CivilDate::from_days(moment.days);
    let start = |date: CivilDate| Moment {
        days: date.to_days(),
        ticks: 0,
        ..moment
    };
    let days = |days: i32| Moment {
        days,
        ticks: 0,
        ..moment
    };
    let cut = match part {
        Year => start(CivilDate {
            month: 1,
            day: 1,
            ..date
        }),
        Quarter => start(CivilDate {
            month: (date.month - 1) / 3 * 3 + 1,
            day: 1,
            ..date
        }),
        Month => start(CivilDate { day: 1, ..date }),
        Day | DayOfYear => days(moment.days),
        Week => days(moment.days - (weekday_number(moment.days, datefirst) - 1)),
        IsoWeek => days(moment.days - moment.days.rem_euclid(7)),
        _ => {
            let unit = part.ticks().unwrap_or(1) as u64;
            Moment {
                ticks: moment.ticks / unit * unit,
                ..moment
            }
        }
    };
    if !(0..=DAY_MAX).contains(&cut.days) {
        return Err(ValueError::new(517, 1, &[&data_type.name()]));
    }
    cut.to_value(data_type)
        .ok_or_else(|| ValueError::new(517, 1, &[&data_type.name()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporal::{DateFormat, parse};

    fn at(text: &str, data_type: DataType) -> Value {
        let parsed = parse(text, data_type, DateFormat::Mdy).expect(text);
        parsed.moment.to_value(data_type).expect(text)
    }

    fn datetime(text: &str) -> Value {
        at(text, DataType::DateTime)
    }

    #[test]
    fn adding() {
        let cases = [
            (DatePart::Month, 1, "2024-01-31", "2024-02-29"),
            (DatePart::Year, -1, "2024-02-29", "2023-02-28"),
            (DatePart::Quarter, 1, "2024-11-30", "2025-02-28"),
            (DatePart::Week, 2, "2024-02-20", "2024-03-05"),
            (DatePart::Hour, -25, "2024-03-01 00:30", "2024-02-28 23:30"),
            (
                DatePart::Millisecond,
                2,
                "2024-03-01 00:00:00.000",
                "2024-03-01 00:00:00.003",
            ),
        ];
        for (part, n, from, to) in cases {
            assert_eq!(
                dateadd(part, n, &datetime(from)),
                Ok(datetime(to)),
                "{part:?} {n} {from}"
            );
        }
        let error = dateadd(DatePart::Year, 9000, &datetime("2024-01-01")).expect_err("overflow");
        assert_eq!(
            error.to_string(),
            "Adding a value to a 'datetime' column caused an overflow."
        );
        let time = at("23:30", DataType::Time { scale: 0 });
        assert_eq!(
            dateadd(DatePart::Hour, 1, &time),
            Ok(at("00:30", DataType::Time { scale: 0 }))
        );
        assert_eq!(
            dateadd(DatePart::Hour, 1, &at("2024-01-01", DataType::Date)).map_err(|e| e.number()),
            Err(9810)
        );
    }

    #[test]
    fn differences_count_boundaries() {
        let cases = [
            (DatePart::Year, "2023-12-31 23:59:59", "2024-01-01", 1),
            (DatePart::Day, "2024-01-01 23:59", "2024-01-02 00:01", 1),
            (DatePart::Week, "2024-01-06", "2024-01-07", 1),
            (DatePart::Week, "2024-01-07", "2024-01-13", 0),
            (DatePart::Hour, "2024-01-01 10:59", "2024-01-01 09:01", -1),
            (DatePart::Quarter, "2023-10-01", "2024-04-01", 2),
            (DatePart::Second, "1900-01-01", "2024-01-01", 3_913_056_000),
        ];
        for (part, a, b, expected) in cases {
            assert_eq!(
                datediff(part, &datetime(a), &datetime(b)),
                Ok(Some(expected)),
                "{part:?} {a} {b}"
            );
        }
    }

    #[test]
    fn parts_and_names() {
        let v = datetime("2024-02-29 13:14:15.677");
        let part = |p| datepart(p, &v, 7);
        assert_eq!(part(DatePart::DayOfYear), Ok(Some(60)));
        assert_eq!(part(DatePart::Week), Ok(Some(9)));
        assert_eq!(part(DatePart::IsoWeek), Ok(Some(9)));
        assert_eq!(part(DatePart::WeekDay), Ok(Some(5)));
        assert_eq!(datepart(DatePart::WeekDay, &v, 1), Ok(Some(4)));
        assert_eq!(part(DatePart::Millisecond), Ok(Some(677)));
        assert_eq!(
            datename(DatePart::Month, &v, 7),
            Ok(Some("February".into()))
        );
        assert_eq!(
            datename(DatePart::WeekDay, &v, 7),
            Ok(Some("Thursday".into()))
        );
        assert_eq!(
            datepart(DatePart::IsoWeek, &datetime("2021-01-03"), 7),
            Ok(Some(53))
        );
    }

    #[test]
    fn truncation() {
        let v = datetime("2024-05-29 13:14:15.677");
        for (part, expected) in [
            (DatePart::Year, "2024-01-01"),
            (DatePart::Quarter, "2024-04-01"),
            (DatePart::Week, "2024-05-26"),
            (DatePart::IsoWeek, "2024-05-27"),
            (DatePart::Minute, "2024-05-29 13:14"),
        ] {
            assert_eq!(datetrunc(part, &v, 7), Ok(datetime(expected)), "{part:?}");
        }
    }
}
