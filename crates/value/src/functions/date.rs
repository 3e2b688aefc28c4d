//! Date and time functions.

use super::{Call, FunctionDef, Signature};
use crate::temporal::{
    self, CivilDate, DAYS_TO_1900, DatePart, Moment, end_of_month, is_valid_offset, parse_offset,
    switch_offset, time_from_parts,
};
use crate::{DataType, DateTimeOffset, Len, Value, ValueError};

pub(super) const FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("GETDATE", 0..=0, |_| Ok(DataType::DateTime), now_local).volatile(),
    FunctionDef::new(
        "CURRENT_TIMESTAMP",
        0..=0,
        |_| Ok(DataType::DateTime),
        now_local,
    )
    .volatile(),
    FunctionDef::new("GETUTCDATE", 0..=0, |_| Ok(DataType::DateTime), now_utc).volatile(),
    FunctionDef::new("SYSDATETIME", 0..=0, |_| Ok(DATETIME2), now_local).volatile(),
    FunctionDef::new("SYSUTCDATETIME", 0..=0, |_| Ok(DATETIME2), now_utc).volatile(),
    FunctionDef::new("SYSDATETIMEOFFSET", 0..=0, |_| Ok(OFFSET), now_local).volatile(),
    FunctionDef::new("CURRENT_DATE", 0..=0, |_| Ok(DataType::Date), now_local).volatile(),
    FunctionDef::new(
        "DATEADD",
        3..=3,
        |s| argument_type(s, 2, DataType::DateTime),
        dateadd,
    )
    .date_part(),
    FunctionDef::new("DATEDIFF", 3..=3, |_| Ok(DataType::Int), datediff).date_part(),
    FunctionDef::new("DATEDIFF_BIG", 3..=3, |_| Ok(DataType::BigInt), datediff).date_part(),
    FunctionDef::new("DATEPART", 2..=2, |_| Ok(DataType::Int), datepart).date_part(),
    FunctionDef::new(
        "DATENAME",
        2..=2,
        |_| Ok(DataType::NVarChar(Len(30))),
        datename,
    )
    .date_part(),
    FunctionDef::new(
        "DATETRUNC",
        2..=2,
        |s| argument_type(s, 1, DATETIME2),
        datetrunc,
    )
    .date_part(),
    FunctionDef::new("DATE_BUCKET", 3..=4, bucket_type, date_bucket).date_part(),
    FunctionDef::new(
        "DAY",
        1..=1,
        |_| Ok(DataType::Int),
        |c| single_part(c, DatePart::Day),
    ),
    FunctionDef::new(
        "MONTH",
        1..=1,
        |_| Ok(DataType::Int),
        |c| single_part(c, DatePart::Month),
    ),
    FunctionDef::new(
        "YEAR",
        1..=1,
        |_| Ok(DataType::Int),
        |c| single_part(c, DatePart::Year),
    ),
    FunctionDef::new("EOMONTH", 1..=2, |_| Ok(DataType::Date), eomonth),
    FunctionDef::new("SWITCHOFFSET", 2..=2, offset_type, switchoffset),
    FunctionDef::new("TODATETIMEOFFSET", 2..=2, offset_type, todatetimeoffset),
    FunctionDef::new("DATEFROMPARTS", 3..=3, |_| Ok(DataType::Date), from_parts),
    FunctionDef::new(
        "DATETIMEFROMPARTS",
        7..=7,
        |_| Ok(DataType::DateTime),
        from_parts,
    ),
    FunctionDef::new(
        "SMALLDATETIMEFROMPARTS",
        5..=5,
        |_| Ok(DataType::SmallDateTime),
        from_parts,
    ),
    // The binder knows the precision, a constant; without it these give their widest type.
    FunctionDef::new(
        "TIMEFROMPARTS",
        5..=5,
        |_| Ok(DataType::Time { scale: 7 }),
        from_parts,
    ),
    FunctionDef::new("DATETIME2FROMPARTS", 8..=8, |_| Ok(DATETIME2), from_parts),
    FunctionDef::new(
        "DATETIMEOFFSETFROMPARTS",
        10..=10,
        |_| Ok(OFFSET),
        from_parts,
    ),
    FunctionDef::new("ISDATE", 1..=1, |_| Ok(DataType::Int), isdate).sees_null(),
];

const DATETIME2: DataType = DataType::DateTime2 { scale: 7 };
const OFFSET: DataType = DataType::DateTimeOffset { scale: 7 };

/// The type of a temporal argument; text and numbers count as `other`.
fn argument_type(
    s: &Signature<'_>,
    position: usize,
    other: DataType,
) -> Result<DataType, ValueError> {
    match s.at(position) {
        temporal if temporal.is_temporal() => Ok(temporal),
        t if t.is_character() => Ok(other),
        t if t.is_numeric() => Ok(DataType::DateTime),
        _ => Err(s.invalid(position)),
    }
}

fn offset_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    Ok(match s.at(0) {
        DataType::DateTimeOffset { scale }
        | DataType::DateTime2 { scale }
        | DataType::Time { scale } => DataType::DateTimeOffset { scale },
        DataType::DateTime => DataType::DateTimeOffset { scale: 3 },
        DataType::Date | DataType::SmallDateTime => DataType::DateTimeOffset { scale: 0 },
        t if t.is_character() => OFFSET,
        _ => return Err(s.invalid(0)),
    })
}

impl Call<'_> {
    /// An argument as a temporal value: text as `text_type`, numbers as datetime.
    fn temporal(&self, position: usize, text_type: DataType) -> Result<Value, ValueError> {
        match self.type_of(position) {
            t if t.is_temporal() => Ok(self.value(position).clone()),
            t if t.is_character() => self.as_type(position, text_type),
            _ => self.as_type(position, DataType::DateTime),
        }
    }
}

fn now_utc(c: &Call<'_>) -> Result<Value, ValueError> {
    let now = c.context.now;
    Moment::new(now.days, now.ticks)
        .to_value(c.result)
        .ok_or_else(|| ValueError::expression_overflow(c.result))
}

fn now_local(c: &Call<'_>) -> Result<Value, ValueError> {
    let now = DateTimeOffset {
        utc: c.context.now,
        offset_minutes: c.context.zone_offset_minutes,
    };
    Moment::from_value(&Value::DateTimeOffset(now))
        .and_then(|moment| moment.to_value(c.result))
        .ok_or_else(|| ValueError::expression_overflow(c.result))
}

fn dateadd(c: &Call<'_>) -> Result<Value, ValueError> {
    let number = match c.as_type(1, DataType::Int)? {
        Value::Int(number) => number,
        _ => return Ok(Value::Null),
    };
    temporal::dateadd(
        c.part()?,
        i64::from(number),
        &c.temporal(2, DataType::DateTime)?,
    )
}

fn datediff(c: &Call<'_>) -> Result<Value, ValueError> {
    let (start, end) = (c.temporal(1, DATETIME2)?, c.temporal(2, DATETIME2)?);
    match temporal::datediff(c.part()?, &start, &end)? {
        None => Ok(Value::Null),
        Some(number) => {
            Value::integer(number, c.result).ok_or_else(|| temporal::datediff_overflow("datediff"))
        }
    }
}

fn datepart(c: &Call<'_>) -> Result<Value, ValueError> {
    let part = temporal::datepart(c.part()?, &c.temporal(1, DATETIME2)?, c.context.datefirst)?;
    Ok(part.map_or(Value::Null, Value::Int))
}

fn datename(c: &Call<'_>) -> Result<Value, ValueError> {
    let name = temporal::datename(c.part()?, &c.temporal(1, DATETIME2)?, c.context.datefirst)?;
    Ok(name.map_or(Value::Null, Value::Str))
}

fn datetrunc(c: &Call<'_>) -> Result<Value, ValueError> {
    temporal::datetrunc(c.part()?, &c.temporal(1, DATETIME2)?, c.context.datefirst)
}

/// Text is no date here, and the origin is of the date's type.
fn bucket_type(s: &Signature<'_>) -> Result<DataType, ValueError> {
    s.check(1, DataType::Int)?;
    let date = s.at(2);
    if !date.is_temporal() {
        return Err(s.invalid(2));
    }
    match s.types.len() > 3 && s.at(3) != date {
        true => Err(s.invalid(3)),
        false => Ok(date),
    }
}

fn date_bucket(c: &Call<'_>) -> Result<Value, ValueError> {
    let width = match c.as_type(1, DataType::Int)? {
        Value::Int(width) => width,
        _ => return Ok(Value::Null),
    };
    temporal::date_bucket(c.part()?, width, c.value(2), c.args.get(3))
}

fn single_part(c: &Call<'_>, part: DatePart) -> Result<Value, ValueError> {
    let part = temporal::datepart(part, &c.temporal(0, DATETIME2)?, c.context.datefirst)?;
    Ok(part.map_or(Value::Null, Value::Int))
}

fn eomonth(c: &Call<'_>) -> Result<Value, ValueError> {
    let Some(moment) = Moment::from_value(&c.temporal(0, DATETIME2)?) else {
        return Ok(Value::Null);
    };
    end_of_month(moment.days, c.int_or(1, 0)?)
        .map(Value::Date)
        .ok_or_else(|| ValueError::new(517, 1, &[&"date"]))
}

/// `+hh:mm` or a number of minutes.
fn offset_argument(c: &Call<'_>, position: usize) -> Result<i16, ValueError> {
    let bad = || ValueError::new(9812, 0, &[&c.name.to_ascii_lowercase()]);
    let minutes = match c.value(position) {
        Value::Str(text) => parse_offset(text),
        _ => i16::try_from(c.int(position)?)
            .ok()
            .filter(|m| is_valid_offset(*m)),
    };
    minutes.ok_or_else(bad)
}

fn switchoffset(c: &Call<'_>) -> Result<Value, ValueError> {
    let offset = offset_argument(c, 1)?;
    match c.as_type(0, c.result)? {
        Value::DateTimeOffset(value) => switch_offset(value.utc, offset)
            .map(Value::DateTimeOffset)
            .ok_or_else(|| ValueError::new(9813, 0, &[&"switchoffset"])),
        other => Ok(other),
    }
}

fn todatetimeoffset(c: &Call<'_>) -> Result<Value, ValueError> {
    let offset = offset_argument(c, 1)?;
    let Some(local) = Moment::from_value(&c.temporal(0, DATETIME2)?) else {
        return Ok(Value::Null);
    };
    Moment {
        offset_minutes: Some(offset),
        ..local
    }
    .to_value(c.result)
    .ok_or_else(|| ValueError::new(9813, 0, &[&"todatetimeoffset"]))
}

/// All the FROMPARTS functions: date parts, time parts, fraction, offset and precision as the type has them.
fn from_parts(c: &Call<'_>) -> Result<Value, ValueError> {
    let parts: Vec<i64> = (0..c.args.len())
        .map(|p| c.int(p))
        .collect::<Result<_, _>>()?;
    let bad = || ValueError::new(289, 1, &[&c.result.name()]);
    from_numbers(&parts, c.result).ok_or_else(bad)
}

fn from_numbers(parts: &[i64], result: DataType) -> Option<Value> {
    let date = |year: i64, month: i64, day: i64| {
        let small = |n: i64| i32::try_from(n).ok();
        Some(CivilDate::new(small(year)?, small(month)?, small(day)?)?.to_days())
    };
    let moment = match (result, parts) {
        (DataType::Date, [y, m, d]) => Moment::new(date(*y, *m, *d)?, 0),
        (DataType::SmallDateTime, [y, m, d, h, mi]) => {
            Moment::new(date(*y, *m, *d)?, time_from_parts(*h, *mi, 0, 0, 0)?)
        }
        (DataType::DateTime, [y, m, d, h, mi, s, ms]) => {
            Moment::new(date(*y, *m, *d)?, time_from_parts(*h, *mi, *s, *ms, 3)?)
        }
        (DataType::Time { .. }, [h, mi, s, fraction, precision]) => Moment::new(
            DAYS_TO_1900,
            time_from_parts(*h, *mi, *s, *fraction, u8::try_from(*precision).ok()?)?,
        ),
        (DataType::DateTime2 { .. }, [y, m, d, h, mi, s, fraction, precision]) => Moment::new(
            date(*y, *m, *d)?,
            time_from_parts(*h, *mi, *s, *fraction, u8::try_from(*precision).ok()?)?,
        ),
        (
            DataType::DateTimeOffset { .. },
            [
                y,
                m,
                d,
                h,
                mi,
                s,
                fraction,
                zone_hours,
                zone_minutes,
                precision,
            ],
        ) => {
            let offset =
                i16::try_from(zone_hours.checked_mul(60)?.checked_add(*zone_minutes)?).ok()?;
            let local = Moment::new(
                date(*y, *m, *d)?,
                time_from_parts(*h, *mi, *s, *fraction, u8::try_from(*precision).ok()?)?,
            );
            Moment {
                offset_minutes: Some(offset).filter(|m| is_valid_offset(*m)),
                ..local
            }
        }
        _ => return None,
    };
    moment.to_value(result)
}

fn isdate(c: &Call<'_>) -> Result<Value, ValueError> {
    let is_date = match c.value(0) {
        Value::Str(text) => !text.trim().is_empty() && c.as_type(0, DataType::DateTime).is_ok(),
        Value::DateTime(_) | Value::SmallDateTime(_) => true,
        _ => false,
    };
    Ok(Value::Int(i32::from(is_date)))
}
