//! DATE_BUCKET: time cut into pieces of equal width, counted from an origin.

use super::{CivilDate, DAYS_TO_1900, DatePart, Moment, TICKS_PER_DAY, TICKS_PER_SECOND};
use crate::{DataType, Value, ValueError};

/// Where the piece begins that holds `value`. A piece is `width` of the part wide, and one of them begins at `origin`, by
/// default 1900-01-01. Both are of one type. Offsets from UTC are those of `value`.
pub fn date_bucket(
    part: DatePart,
    width: i32,
    value: &Value,
    origin: Option<&Value>,
) -> Result<Value, ValueError> {
    use DatePart::*;
    let data_type = value.natural_type();
    let Some(moment) = Moment::from_value(value) else {
        return Ok(Value::Null);
    };
    let is_time = part.is_time();
    let fits = match data_type {
        DataType::Date => !is_time,
        DataType::Time { .. } => is_time,
        _ => true,
    };
    if !fits
        || matches!(
            part,
            DayOfYear | WeekDay | Microsecond | Nanosecond | TzOffset | IsoWeek
        )
    {
        return Err(part.unsupported("date_bucket", data_type));
    }
    if width <= 0 {
        return Err(ValueError::new(9834, 1, &[&"DATE_BUCKET"]));
    }
    let overflow = || ValueError::new(517, 1, &[&data_type.name()]);
    let origin = match origin {
        None => Moment::new(DAYS_TO_1900, 0),
        Some(origin) => match Moment::from_value(origin) {
            Some(origin) => at_offset(origin, moment.offset_minutes).ok_or_else(overflow)?,
            None => return Ok(Value::Null),
        },
    };
    let start = match part {
        Year => by_months(moment, origin, 12 * i64::from(width)),
        Quarter => by_months(moment, origin, 3 * i64::from(width)),
        Month => by_months(moment, origin, i64::from(width)),
        _ => {
            let unit = part.ticks().unwrap_or(match part {
                Week => 7 * i128::from(TICKS_PER_DAY),
                _ => i128::from(TICKS_PER_DAY),
            });
            let width = unit * i128::from(width);
            let since = moment.total_ticks() - origin.total_ticks();
            Moment::from_total_ticks(origin.total_ticks() + since.div_euclid(width) * width)
        }
    };
    let start = Moment {
        offset_minutes: moment.offset_minutes,
        ..start.ok_or_else(overflow)?
    };
    start.to_value(data_type).ok_or_else(overflow)
}

/// The same instant elsewhere.
fn at_offset(moment: Moment, offset_minutes: Option<i16>) -> Option<Moment> {
    let minute = 60 * i128::from(TICKS_PER_SECOND);
    let shift = i128::from(offset_minutes.unwrap_or(0)) * minute;
    Moment::from_total_ticks(moment.to_utc()?.total_ticks() + shift)
}

fn by_months(moment: Moment, origin: Moment, width: i64) -> Option<Moment> {
    let months = |m: Moment| {
        let date = CivilDate::from_days(m.days);
        12 * i64::from(date.year) + i64::from(date.month)
    };
    let begin = |piece: i64| {
        let date = CivilDate::from_days(origin.days).add_months(piece * width)?;
        Some(Moment {
            days: date.to_days(),
            ..origin
        })
    };
    let piece = (months(moment) - months(origin)).div_euclid(width);
    let start = begin(piece)?;
    // In the month itself it may begin later.
    match start.total_ticks() > moment.total_ticks() {
        true => begin(piece - 1),
        false => Some(start),
    }
}
