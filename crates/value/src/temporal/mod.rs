//! Dates and times: calendar arithmetic, rounding, and the way from each type to the others.
//!
//! Theory: every temporal value is a [`Moment`]: a day, 100 ns units within it, and perhaps an offset. Functions work
//! on moments and convert back, so that the six types share one calendar. Days count from 0001-01-01 (day 0, a
//! Monday) in the proleptic Gregorian calendar.
//!
//! Invariants
//! 1. `datetime` rounds to 1/300 s, `smalldatetime` to the minute after that, the others to their scale; all half up.
//! 2. A value outside its type's range is never built: conversions return `None` and the caller names the error.
//!
//! Read next: `part`, `parse`, `format`.

mod bucket;
mod format;
mod hijri;
mod parse;
mod part;

pub use bucket::date_bucket;
pub use format::{format, month_name, weekday_name};
pub use hijri::hijri_to_gregorian;
pub use parse::{DateFormat, ParseError, Parsed, parse, parse_offset};
pub(crate) use part::datediff_overflow;
pub use part::{DatePart, dateadd, datediff, datename, datepart, datetrunc};

use crate::{DataType, DateTime, DateTime2, DateTimeOffset, SmallDateTime, Time, Value};

/// Ticks are 100 ns.
pub const TICKS_PER_SECOND: u64 = 10_000_000;
/// Ticks of a whole day.
pub const TICKS_PER_DAY: u64 = 86_400 * TICKS_PER_SECOND;
/// Days from 0001-01-01 to 1900-01-01.
pub const DAYS_TO_1900: i32 = 693_595;
/// 9999-12-31.
pub const DAY_MAX: i32 = 3_652_058;
/// `datetime` units in a day.
pub const DATETIME_TICKS_PER_DAY: u32 = 25_920_000;
/// 1753-01-01 relative to 1900-01-01.
const DATETIME_DAY_MIN: i32 = -53_690;
const DATETIME_DAY_MAX: i32 = DAY_MAX - DAYS_TO_1900;
const OFFSET_MINUTES_MAX: i16 = 14 * 60;

/// Year, month, day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CivilDate {
    pub year: i32,
    pub month: u8,
    pub day: u8,
}

impl CivilDate {
    /// Checks month, day and the years 1 to 9999.
    pub fn new(year: i32, month: i32, day: i32) -> Option<CivilDate> {
        let valid = (1..=9999).contains(&year) && (1..=12).contains(&month);
        if !valid || !(1..=i32::from(days_in_month(year, month as u8))).contains(&day) {
            return None;
        }
        Some(CivilDate {
            year,
            month: month as u8,
            day: day as u8,
        })
    }

    /// The date so many days after 0001-01-01.
    pub fn from_days(days: i32) -> CivilDate {
        // Years start in March here, so that the leap day is the last of its year.
        let shifted = i64::from(days) + 306;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 {
            march_month + 3
        } else {
            march_month - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        CivilDate {
            year: year as i32,
            month: month as u8,
            day: day as u8,
        }
    }

    /// Days since 0001-01-01.
    pub fn to_days(self) -> i32 {
        let year = i64::from(self.year) - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let march_month = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * march_month + 2) / 5 + i64::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        (era * 146_097 + day_of_era - 306) as i32
    }

    /// From 1.
    pub fn day_of_year(self) -> i32 {
        self.to_days()
            - CivilDate {
                month: 1,
                day: 1,
                ..self
            }
            .to_days()
            + 1
    }

    /// The same day some months on, the last of the month where it is shorter.
    pub fn add_months(self, months: i64) -> Option<CivilDate> {
        let total = (i64::from(self.year) * 12 + i64::from(self.month) - 1).checked_add(months)?;
        let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u8 + 1);
        if !(1..=9999).contains(&year) {
            return None;
        }
        let year = year as i32;
        Some(CivilDate {
            year,
            month,
            day: self.day.min(days_in_month(year, month)),
        })
    }
}

/// 28 to 31.
pub fn days_in_month(year: i32, month: u8) -> u8 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// 0 = Sunday.
pub fn weekday(days: i32) -> i32 {
    (days + 1).rem_euclid(7)
}

/// Hour, minute, second and 100 ns units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CivilTime {
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    pub fraction: u32,
}

impl CivilTime {
    /// The time so many ticks after midnight.
    pub fn from_ticks(ticks: u64) -> CivilTime {
        let seconds = ticks / TICKS_PER_SECOND;
        CivilTime {
            hour: (seconds / 3600) as u32,
            minute: (seconds / 60 % 60) as u32,
            second: (seconds % 60) as u32,
            fraction: (ticks % TICKS_PER_SECOND) as u32,
        }
    }
}

/// Any temporal value: the local day and time, and the offset from UTC where the type has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub days: i32,
    pub ticks: u64,
    pub offset_minutes: Option<i16>,
}

impl Moment {
    /// The moment at so many ticks of a day counted from 0001-01-01.
    pub const fn new(days: i32, ticks: u64) -> Moment {
        Moment {
            days,
            ticks,
            offset_minutes: None,
        }
    }

    /// Days within the calendar, ticks carried over.
    pub fn from_total_ticks(total: i128) -> Option<Moment> {
        let days = i32::try_from(total.div_euclid(i128::from(TICKS_PER_DAY))).ok()?;
        let ticks = total.rem_euclid(i128::from(TICKS_PER_DAY)) as u64;
        (0..=DAY_MAX)
            .contains(&days)
            .then_some(Moment::new(days, ticks))
    }

    /// Ticks since 0001-01-01.
    pub fn total_ticks(self) -> i128 {
        i128::from(self.days) * i128::from(TICKS_PER_DAY) + i128::from(self.ticks)
    }

    /// The local time of a temporal value; a time of day lies on 1900-01-01.
    pub fn from_value(value: &Value) -> Option<Moment> {
        Some(match value {
            Value::Date(days) => Moment::new(*days, 0),
            Value::Time(t) => Moment::new(DAYS_TO_1900, t.ticks),
            Value::SmallDateTime(v) => Moment::new(
                DAYS_TO_1900 + i32::from(v.days),
                u64::from(v.minutes) * 60 * TICKS_PER_SECOND,
            ),
            Value::DateTime(v) => {
                Moment::new(DAYS_TO_1900 + v.days, datetime_ticks_to_ticks(v.ticks))
            }
            Value::DateTime2(v) => Moment::new(v.days, v.ticks),
            Value::DateTimeOffset(v) => Moment::local(*v),
            _ => return None,
        })
    }

    fn local(value: DateTimeOffset) -> Moment {
        let shown = value.within_calendar();
        let utc = Moment::new(shown.utc.days, shown.utc.ticks);
        let local = utc.moved(shown.offset_minutes).unwrap_or(utc);
        Moment {
            offset_minutes: Some(shown.offset_minutes),
            ..local
        }
    }

    /// So many minutes later; `None` outside of the calendar.
    fn moved(self, minutes: i16) -> Option<Moment> {
        let shift = i128::from(minutes) * 60 * i128::from(TICKS_PER_SECOND);
        Moment::from_total_ticks(self.total_ticks() + shift)
    }

    /// The same instant in UTC; a moment without offset is taken as UTC.
    pub fn to_utc(self) -> Option<Moment> {
        let shift =
            i128::from(self.offset_minutes.unwrap_or(0)) * 60 * i128::from(TICKS_PER_SECOND);
        Moment::from_total_ticks(self.total_ticks() - shift)
    }

    /// A value of the given temporal type, rounded to it; `None` when out of its range.
    pub fn to_value(self, data_type: DataType) -> Option<Value> {
        Some(match data_type {
            DataType::Date => Value::Date(self.days),
            DataType::Time { scale } => Value::Time(Time {
                ticks: round_ticks(self.ticks, scale) % TICKS_PER_DAY,
                scale,
            }),
            DataType::DateTime => Value::DateTime(self.to_datetime()?),
            DataType::SmallDateTime => {
                Value::SmallDateTime(datetime_to_smalldatetime(self.to_datetime()?)?)
            }
            DataType::DateTime2 { scale } => Value::DateTime2(self.to_datetime2(scale)?),
            DataType::DateTimeOffset { scale } => {
                let utc = self.to_utc()?.to_datetime2(scale)?;
                Value::DateTimeOffset(switch_offset(utc, self.offset_minutes.unwrap_or(0))?)
            }
            _ => return None,
        })
    }

    fn to_datetime2(self, scale: u8) -> Option<DateTime2> {
        let ticks = round_ticks(self.ticks, scale);
        let (days, ticks) = if ticks >= TICKS_PER_DAY {
            (self.days + 1, 0)
        } else {
            (self.days, ticks)
        };
        (days <= DAY_MAX).then_some(DateTime2 { days, ticks, scale })
    }

    fn to_datetime(self) -> Option<DateTime> {
        let ticks = (self.ticks * 3 + 50_000) / 100_000;
        let carry = ticks >= u64::from(DATETIME_TICKS_PER_DAY);
        let value = DateTime {
            days: self.days - DAYS_TO_1900 + i32::from(carry),
            ticks: if carry { 0 } else { ticks as u32 },
        };
        is_valid_datetime(value).then_some(value)
    }
}

/// Is it within what `datetime` can hold?
pub fn is_valid_datetime(value: DateTime) -> bool {
    (DATETIME_DAY_MIN..=DATETIME_DAY_MAX).contains(&value.days)
        && value.ticks < DATETIME_TICKS_PER_DAY
}

/// Rounds to the minute, half up; `None` outside 1900-01-01 to 2079-06-06.
pub fn datetime_to_smalldatetime(value: DateTime) -> Option<SmallDateTime> {
    const TICKS_PER_MINUTE: u32 = 18_000;
    const MINUTES_PER_DAY: u32 = 1_440;
    let minutes = (value.ticks + TICKS_PER_MINUTE / 2) / TICKS_PER_MINUTE;
    let days = u16::try_from(value.days + i32::from(minutes >= MINUTES_PER_DAY)).ok()?;
    Some(SmallDateTime {
        days,
        minutes: (minutes % MINUTES_PER_DAY) as u16,
    })
}

/// 1/300 s to 100 ns, rounded.
fn datetime_ticks_to_ticks(ticks: u32) -> u64 {
    (u64::from(ticks) * 100_000 + 1) / 3
}

/// 1/300 s to whole milliseconds, as `datetime` shows them.
fn datetime_milliseconds(ticks: u32) -> u32 {
    (ticks * 10 + 1) / 3
}

/// Rounds half up to `scale` fractional digits of a second.
pub fn round_ticks(ticks: u64, scale: u8) -> u64 {
    let unit = 10u64.pow(u32::from(7u8.saturating_sub(scale)));
    (ticks + unit / 2) / unit * unit
}

/// Is the offset one that `datetimeoffset` allows?
pub const fn is_valid_offset(minutes: i16) -> bool {
    minutes >= -OFFSET_MINUTES_MAX && minutes <= OFFSET_MINUTES_MAX
}

/// SWITCHOFFSET: an instant written with this offset; `None` where it leaves the calendar, in UTC or in its own time.
pub fn switch_offset(utc: DateTime2, offset_minutes: i16) -> Option<DateTimeOffset> {
    let instant = Moment::new(utc.days, utc.ticks);
    let is_within = instant.moved(0).is_some() && instant.moved(offset_minutes).is_some();
    is_within.then_some(DateTimeOffset {
        utc,
        offset_minutes,
    })
}

impl DateTimeOffset {
    /// How a value is shown that lies outside of the calendar, as one that an older release stored may: an instant as
    /// the calendar's end, to the second; a local time in UTC.
    pub fn within_calendar(self) -> DateTimeOffset {
        let end = |days, ticks| DateTimeOffset {
            utc: DateTime2 {
                days,
                ticks,
                ..self.utc
            },
            offset_minutes: 0,
        };
        match self.utc.days {
            days if days < 0 => end(0, 0),
            days if days > DAY_MAX => end(DAY_MAX, TICKS_PER_DAY - TICKS_PER_SECOND),
            days => {
                switch_offset(self.utc, self.offset_minutes).unwrap_or(end(days, self.utc.ticks))
            }
        }
    }
}

/// EOMONTH: the last day of the month, some months on.
pub fn end_of_month(days: i32, months: i64) -> Option<i32> {
    let date = CivilDate {
        day: 1,
        ..CivilDate::from_days(days)
    }
    .add_months(months)?;
    Some(
        CivilDate {
            day: days_in_month(date.year, date.month),
            ..date
        }
        .to_days(),
    )
}

/// Ticks of a time given in parts, the fraction counted in units of `scale` digits; `None` outside the day.
pub fn time_from_parts(
    hour: i64,
    minute: i64,
    second: i64,
    fraction: i64,
    scale: u8,
) -> Option<u64> {
    let unit = 10i64.pow(u32::from(7u8.checked_sub(scale)?));
    let valid = (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..60).contains(&second)
        && (0..TICKS_PER_SECOND as i64 / unit).contains(&fraction);
    if !valid {
        return None;
    }
    let seconds = (hour * 60 + minute) * 60 + second;
    Some(seconds as u64 * TICKS_PER_SECOND + (fraction * unit) as u64)
}

/// Smallest and largest value of a temporal type but `datetimeoffset`, whose ends lie in no one offset.
pub fn ends(data_type: DataType) -> Option<(Value, Value)> {
    let last = |scale: u8| TICKS_PER_DAY - 10u64.pow(u32::from(7u8.saturating_sub(scale)));
    Some(match data_type {
        DataType::Date => (Value::Date(0), Value::Date(DAY_MAX)),
        DataType::Time { scale } => {
            let at = |ticks| Value::Time(Time { ticks, scale });
            (at(0), at(last(scale)))
        }
        DataType::SmallDateTime => {
            let at = |days, minutes| Value::SmallDateTime(SmallDateTime { days, minutes });
            (at(0, 0), at(u16::MAX, 24 * 60 - 1))
        }
        DataType::DateTime => {
            let at = |days, ticks| Value::DateTime(DateTime { days, ticks });
            let end = at(DATETIME_DAY_MAX, DATETIME_TICKS_PER_DAY - 1);
            (at(DATETIME_DAY_MIN, 0), end)
        }
        DataType::DateTime2 { scale } => {
            let at = |days, ticks| Value::DateTime2(DateTime2 { days, ticks, scale });
            (at(0, 0), at(DAY_MAX, last(scale)))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn day(year: i32, month: i32, day: i32) -> i32 {
        CivilDate::new(year, month, day).expect("date").to_days()
    }

    #[test]
    fn calendar() {
        assert_eq!(day(1, 1, 1), 0);
        assert_eq!(day(1900, 1, 1), DAYS_TO_1900);
        assert_eq!(day(9999, 12, 31), DAY_MAX);
        assert_eq!(weekday(day(2024, 2, 29)), 4);
        assert_eq!(CivilDate::new(2023, 2, 29), None);
        assert_eq!(
            CivilDate::from_days(day(2024, 1, 31))
                .add_months(1)
                .map(CivilDate::to_days),
            Some(day(2024, 2, 29))
        );
        assert_eq!(end_of_month(day(2024, 1, 15), 1), Some(day(2024, 2, 29)));
    }

    #[test]
    fn every_day_round_trips() {
        for days in 0..=DAY_MAX {
            assert_eq!(CivilDate::from_days(days).to_days(), days);
        }
    }

    #[test]
    fn datetime_rounds_to_three_hundredths() {
        for (ms, shown) in [
            (0, 0),
            (1, 0),
            (2, 3),
            (3, 3),
            (4, 3),
            (5, 7),
            (6, 7),
            (7, 7),
            (8, 7),
            (9, 10),
            (995, 997),
            (998, 997),
        ] {
            let moment = Moment::new(DAYS_TO_1900, ms * 10_000);
            assert_eq!(
                datetime_milliseconds(moment.to_datetime().expect("datetime").ticks),
                shown,
                "{ms}"
            );
        }
        let last = Moment::new(day(2020, 12, 31), TICKS_PER_DAY - 10_000)
            .to_datetime()
            .expect("datetime");
        assert_eq!((last.days + DAYS_TO_1900, last.ticks), (day(2021, 1, 1), 0));
        assert_eq!(Moment::new(day(1752, 12, 31), 0).to_datetime(), None);
        assert_eq!(Moment::new(DAY_MAX, TICKS_PER_DAY - 1).to_datetime(), None);
    }

    #[test]
    fn smalldatetime_rounds_to_minutes() {
        let at = |ms: u64| Moment::new(DAYS_TO_1900, ms * 10_000).to_value(DataType::SmallDateTime);
        let minutes = |minutes| Some(Value::SmallDateTime(SmallDateTime { days: 0, minutes }));
        assert_eq!(at(29_998), minutes(0));
        assert_eq!(at(29_999), minutes(1));
        assert_eq!(
            Moment::new(DAYS_TO_1900 - 1, 0).to_value(DataType::SmallDateTime),
            None
        );
    }

    /// Such values were made once, and may be stored.
    #[test]
    fn values_outside_the_calendar_show_within_it() {
        let shown = |days, ticks, offset_minutes| {
            let utc = DateTime2 {
                days,
                ticks,
                scale: 7,
            };
            Moment::from_value(&Value::DateTimeOffset(DateTimeOffset {
                utc,
                offset_minutes,
            }))
        };
        let at = |days, ticks| {
            Some(Moment {
                offset_minutes: Some(0),
                ..Moment::new(days, ticks)
            })
        };
        let hour = TICKS_PER_SECOND * 3600;
        let last = TICKS_PER_DAY - TICKS_PER_SECOND;
        assert_eq!(shown(-1, 15 * hour, 540), at(0, 0));
        assert_eq!(shown(DAY_MAX + 1, 8 * hour, -480), at(DAY_MAX, last));
        assert_eq!(shown(0, hour, -480), at(0, hour));
        assert_eq!(shown(DAY_MAX, 23 * hour, 480), at(DAY_MAX, 23 * hour));
    }

    proptest! {
        #[test]
        fn offsets_keep_the_instant(days in 1..DAY_MAX - 1, ticks in 0..TICKS_PER_DAY, offset in -840i16..=840) {
            let moment = Moment { days, ticks, offset_minutes: Some(offset) };
            let value = moment.to_value(DataType::DateTimeOffset { scale: 7 }).unwrap();
            prop_assert_eq!(Moment::from_value(&value), Some(moment));
        }
    }
}
