//! Dates and times of any variant, brought to the declared type, its bytes or its text.

use super::info::time_bytes;
use super::numeric::wrong;
use crate::{Result, TdsError};
use compact_str::{CompactString, format_compact};
use daruma_value::Value;

pub(super) const TICKS_PER_DAY: u64 = 864_000_000_000;
pub(super) const DATE_DAYS_MAX: i32 = 3_652_058;
/// Days from 0001-01-01 to 1900-01-01.
const DAYS_1900: i32 = 693_595;
const DATETIME_DAYS_MIN: i32 = -53_690;
const DATETIME_DAYS_MAX: i32 = 2_958_463;
const THREE_HUNDREDTHS_PER_DAY: u64 = 25_920_000;
const TICKS_PER_MINUTE: u64 = 600_000_000;

/// Days since 0001-01-01 and ticks of 100 ns (always less than a day), local to the value's own offset.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub days: i32,
    pub ticks: u64,
    pub offset_minutes: i16,
}

impl Moment {
    /// The moment that a date, time or both stand for; an error for any other value.
    pub fn of(value: &Value, expected: &'static str) -> Result<Moment> {
        let (days, ticks, offset_minutes) = match value {
            Value::Date(days) => (*days, 0, 0),
            Value::Time(time) => (DAYS_1900, time.ticks, 0),
            Value::SmallDateTime(at) => (
                DAYS_1900 + i32::from(at.days),
                u64::from(at.minutes) * TICKS_PER_MINUTE,
                0,
            ),
            Value::DateTime(at) => {
                let ticks = (u64::from(at.ticks) * 200_000 + 3) / 6;
                (at.days.saturating_add(DAYS_1900), ticks, 0)
            }
            Value::DateTime2(at) => (at.days, at.ticks, 0),
            Value::DateTimeOffset(at) => {
                let shown = at.within_calendar();
                (shown.utc.days, shown.utc.ticks, shown.offset_minutes)
            }
            other => return Err(wrong(other, expected)),
        };
        let utc = Moment {
            days,
            ticks,
            offset_minutes,
        };
        Ok(utc.shifted(i64::from(offset_minutes)))
    }

    fn shifted(self, minutes: i64) -> Moment {
        let shift = i128::from(minutes) * i128::from(TICKS_PER_MINUTE);
        let total =
            i128::from(self.days) * i128::from(TICKS_PER_DAY) + i128::from(self.ticks) + shift;
        let per_day = i128::from(TICKS_PER_DAY);
        let days = i32::try_from(total.div_euclid(per_day)).unwrap_or(i32::MAX);
        let ticks = u64::try_from(total.rem_euclid(per_day)).unwrap_or(0);
        Moment {
            days,
            ticks,
            ..self
        }
    }

    /// The same moment with the offset taken off.
    pub fn utc(self) -> Moment {
        self.shifted(-i64::from(self.offset_minutes))
    }

    /// Days and units of `10^-scale` s, rounded; a value that rounds up to midnight is on the next day.
    fn rounded(self, scale: u8) -> (i32, u64) {
        let unit = 10_u64.pow(u32::from(7_u8.saturating_sub(scale)));
        let units = (self.ticks + unit / 2) / unit;
        if units >= TICKS_PER_DAY / unit {
            (self.days.saturating_add(1), 0)
        } else {
            (self.days, units)
        }
    }

    /// Appends three bytes: days since 0001-01-01.
    pub fn put_date(self, expected: &'static str, out: &mut Vec<u8>) -> Result<()> {
        put_days(self.days, expected, out)
    }

    /// Appends three to five bytes: units of the scale since midnight.
    pub fn put_time(self, scale: u8, out: &mut Vec<u8>) {
        put_units(self.rounded(scale).1, scale, out);
    }

    /// Appends the time, then the date.
    pub fn put_datetime2(self, scale: u8, expected: &'static str, out: &mut Vec<u8>) -> Result<()> {
        let (days, units) = self.rounded(scale);
        put_units(units, scale, out);
        put_days(days, expected, out)
    }

    /// Appends the time, the date in UTC and the offset in minutes.
    pub fn put_datetimeoffset(
        self,
        scale: u8,
        expected: &'static str,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.utc().put_datetime2(scale, expected, out)?;
        out.extend_from_slice(&self.offset_minutes.to_le_bytes());
        Ok(())
    }

    /// Days since 1900-01-01 and 300ths of a second since midnight.
    pub fn datetime(self) -> Result<(i32, u32)> {
        let out_of_range = || TdsError::OutOfRange {
            expected: "datetime",
        };
        let units = (self.ticks * 3 + 50_000) / 100_000;
        let carry = i32::from(units >= THREE_HUNDREDTHS_PER_DAY);
        let days = self.days.saturating_sub(DAYS_1900).saturating_add(carry);
        if !is_datetime_day(days) {
            return Err(out_of_range());
        }
        let units = u32::try_from(units % THREE_HUNDREDTHS_PER_DAY).map_err(|_| out_of_range())?;
        Ok((days, units))
    }

    /// Days since 1900-01-01 and minutes since midnight.
    pub fn small_datetime(self) -> Result<(u16, u16)> {
        let minutes = (self.ticks + TICKS_PER_MINUTE / 2) / TICKS_PER_MINUTE;
        let carry = i32::from(minutes >= 1440);
        let days = self.days.saturating_sub(DAYS_1900).saturating_add(carry);
        match (u16::try_from(days), u16::try_from(minutes % 1440)) {
            (Ok(days), Ok(minutes)) => Ok((days, minutes)),
            _ => Err(TdsError::OutOfRange {
                expected: "smalldatetime",
            }),
        }
    }
}

pub(super) const fn is_datetime_day(days: i32) -> bool {
    DATETIME_DAYS_MIN <= days && days <= DATETIME_DAYS_MAX
}

pub(super) fn is_datetime_tick(ticks: u32) -> bool {
    u64::from(ticks) < THREE_HUNDREDTHS_PER_DAY
}

fn put_days(days: i32, expected: &'static str, out: &mut Vec<u8>) -> Result<()> {
    if !(0..=DATE_DAYS_MAX).contains(&days) {
        return Err(TdsError::OutOfRange { expected });
    }
    out.extend(days.to_le_bytes().iter().take(3));
    Ok(())
}

fn put_units(units: u64, scale: u8, out: &mut Vec<u8>) {
    out.extend(units.to_le_bytes().iter().take(time_bytes(scale) as usize));
}

/// ISO text, for clients that receive newer types as strings.
pub(super) fn text(value: &Value) -> Result<CompactString> {
    let moment = Moment::of(value, "character data")?;
    let (year, month, day) = civil(moment.days);
    let date = format_compact!("{year:04}-{month:02}-{day:02}");
    Ok(match value {
        Value::Date(_) => date,
        Value::Time(time) => clock(moment, time.scale),
        Value::SmallDateTime(_) => format_compact!("{date} {}", clock(moment, 0)),
        Value::DateTime(_) => format_compact!("{date} {}", clock(moment, 3)),
        Value::DateTime2(at) => format_compact!("{date} {}", clock(moment, at.scale)),
        Value::DateTimeOffset(at) => {
            let sign = if moment.offset_minutes < 0 { '-' } else { '+' };
            let minutes = moment.offset_minutes.unsigned_abs();
            let zone = format_compact!("{sign}{:02}:{:02}", minutes / 60, minutes % 60);
            format_compact!("{date} {} {zone}", clock(moment, at.utc.scale))
        }
        other => return Err(wrong(other, "character data")),
    })
}

fn clock(moment: Moment, scale: u8) -> CompactString {
    let scale = scale.min(7);
    let seconds = moment.ticks / 10_000_000;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = moment.ticks % 10_000_000 / 10_u64.pow(u32::from(7 - scale));
    match scale {
        0 => format_compact!("{hours:02}:{minutes:02}:{rest:02}"),
        _ => format_compact!(
            "{hours:02}:{minutes:02}:{rest:02}.{fraction:0width$}",
            width = usize::from(scale)
        ),
    }
}

/// Year, month and day of a day counted from 0001-01-01, by 400-year cycles of years that begin in March.
fn civil(days: i32) -> (i64, i64, i64) {
    let shifted = i64::from(days) + 306;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}
