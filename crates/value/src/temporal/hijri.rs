//! The Hijri calendar of the CONVERT styles 130 and 131.
//!
//! Theory: the calendar is tabular ("Kuwaiti algorithm"): months have 30 and 29 days in turn, and of 30 years eleven have a day more
//! in their last month. Day one is 0622-07-18 in the proleptic Gregorian calendar, as in .NET's HijriCalendar.

use super::CivilDate;

/// Days from 0001-01-01 to the first day of the calendar.
const EPOCH_DAYS: i32 = 227_013;
const CYCLE_YEARS: i32 = 30;
const CYCLE_DAYS: i32 = 10_631;

const MONTHS: [&str; 12] = [
    "محرم",
    "صفر",
    "ربيع الأول",
    "ربيع الثاني",
    "جمادى الأولى",
    "جمادى الآخرة",
    "رجب",
    "شعبان",
    "رمضان",
    "شوال",
    "ذو القعدة",
    "ذو الحجة",
];

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HijriDate {
    pub year: i32,
    /// 1 to 12.
    pub month: i32,
    pub day: i32,
}

fn has_leap_day(year: i32) -> bool {
    (11 * year + 14).rem_euclid(CYCLE_YEARS) < 11
}

/// Days of the years before one.
fn days_before_year(year: i32) -> i32 {
    let (cycles, rest) = ((year - 1) / CYCLE_YEARS, (year - 1) % CYCLE_YEARS);
    let leap_days = (1..=rest).filter(|y| has_leap_day(*y)).count() as i32;
    cycles * CYCLE_DAYS + rest * 354 + leap_days
}

/// Days of a year before one of its months.
fn days_before_month(month: i32) -> i32 {
    30 * (month / 2) + 29 * ((month - 1) / 2)
}

impl HijriDate {
    /// `None` before the first day of the calendar.
    pub fn from_days(days: i32) -> Option<HijriDate> {
        let since = days.checked_sub(EPOCH_DAYS).filter(|days| *days >= 0)?;
        // One too many at most.
        let guess = (i64::from(since) * i64::from(CYCLE_YEARS) / i64::from(CYCLE_DAYS)) as i32 + 2;
        let year = (guess - 2..=guess).rev();
        let year = year
            .into_iter()
            .find(|y| *y >= 1 && days_before_year(*y) <= since)?;
        let in_year = since - days_before_year(year);
        let month = (1..=12).rev().find(|m| days_before_month(*m) <= in_year)?;
        Some(HijriDate {
            year,
            month,
            day: in_year - days_before_month(month) + 1,
        })
    }

    /// Days from 0001-01-01; `None` for a day that the calendar does not have, or the Gregorian one up to the year 9999.
    pub fn to_days(self) -> Option<i32> {
        let HijriDate { year, month, day } = self;
        if !(1..=9_999).contains(&year) || !(1..=12).contains(&month) {
            return None;
        }
        let length = match month {
            12 => 29 + i32::from(has_leap_day(year)),
            _ => 29 + month % 2,
        };
        let days = EPOCH_DAYS + days_before_year(year) + days_before_month(month) + day - 1;
        ((1..=length).contains(&day) && days <= super::DAY_MAX).then_some(days)
    }

    /// The month by its Arabic name.
    pub fn month_name(self) -> &'static str {
        let at = usize::try_from(self.month - 1).ok();
        at.and_then(|at| MONTHS.get(at)).unwrap_or(&"")
    }
}

/// A text that begins with a day of the calendar, as the styles write it, with the Gregorian day in its place. `None` where it
/// begins otherwise, or with a day that is not there.
pub fn hijri_to_gregorian(text: &str) -> Option<String> {
    let (day, rest) = number(text.trim_start(), 2)?;
    let (month, rest) = match rest.strip_prefix('/') {
        Some(rest) => {
            let (month, rest) = number(rest, 2)?;
            (month, rest.strip_prefix('/')?)
        }
        None => {
            let rest = rest.trim_start();
            let named = |at: &usize| MONTHS.get(*at).is_some_and(|name| rest.starts_with(name));
            let at = (0..MONTHS.len()).find(named)?;
            (
                at as i32 + 1,
                rest.strip_prefix(MONTHS.get(at)?)?.trim_start(),
            )
        }
    };
    let (year, rest) = number(rest, 4)?;
    let date = CivilDate::from_days(HijriDate { year, month, day }.to_days()?);
    let CivilDate { year, month, day } = date;
    Some(format!("{year:04}{month:02}{day:02}{rest}"))
}

fn number(text: &str, digits_max: usize) -> Option<(i32, &str)> {
    let is_digit = |b: &u8| b.is_ascii_digit();
    let count = text.bytes().take_while(|b| is_digit(b)).count();
    let (digits, rest) = text.split_at_checked(count)?;
    let number = (count <= digits_max)
        .then(|| digits.parse().ok())
        .flatten()?;
    Some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporal::DAY_MAX;

    #[test]
    fn days_of_both_calendars() {
        let known = [
            ((622, 7, 18), (1, 1, 1)),
            ((2000, 8, 7), (1421, 5, 7)),
            ((2006, 12, 30), (1427, 12, 10)),
        ];
        for ((y, m, d), (year, month, day)) in known {
            let days = CivilDate::new(y, m, d).expect("a day").to_days();
            let date = HijriDate { year, month, day };
            assert_eq!(HijriDate::from_days(days), Some(date));
            assert_eq!(date.to_days(), Some(days));
        }
    }

    #[test]
    fn every_day_comes_back() {
        assert_eq!(HijriDate::from_days(EPOCH_DAYS - 1), None);
        for days in EPOCH_DAYS..=DAY_MAX {
            let date = HijriDate::from_days(days).expect("within the calendar");
            assert_eq!(date.to_days(), Some(days), "{date:?}");
        }
    }

    #[test]
    fn text_of_both_styles() {
        for text in [" 7/05/1421 12:14", "7 جمادى الأولى 1421 12:14"] {
            assert_eq!(hijri_to_gregorian(text).as_deref(), Some("20000807 12:14"));
        }
        for text in [
            "30/02/1421",
            "1/13/1421",
            "2000-08-07",
            "12:14",
            "",
            "1/1/99999",
            "7 x 1421",
        ] {
            assert_eq!(hijri_to_gregorian(text), None, "{text}");
        }
    }
}
