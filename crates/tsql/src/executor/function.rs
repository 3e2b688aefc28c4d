//! Scalar functions at run time: the value room's, with the statement's clock and chance; and AT TIME ZONE.

use super::context::Ctx;
use super::expr::Expr;
use super::xml::XmlMethod;
use crate::error::{Result, SqlError};
use crate::host::cancelled;
use crate::instance::Promise;
use daruma_value::convert::{ConvertContext, convert};
use daruma_value::functions::{EvalContext, EvalHost, FunctionDef};
use daruma_value::temporal::switch_offset;
use daruma_value::{CollationId, DataType, DateTime2, Value, ValueError};
use std::cell::Cell;
use std::sync::Arc;

/// Days from 0001-01-01 to 1970-01-01.
const UNIX_DAYS: i64 = 719_162;
const TICKS_PER_DAY: i64 = 864_000_000_000;
const TICKS_PER_MINUTE: i64 = 600_000_000;

/// A function with the static types of its call.
pub enum ScalarFunction {
    Value {
        def: &'static FunctionDef,
        types: Vec<DataType>,
        result: DataType,
        collation: CollationId,
    },
    AtTimeZone {
        from: DataType,
        scale: u8,
    },
    Xml {
        method: Arc<XmlMethod>,
        collation: CollationId,
    },
}

impl ScalarFunction {
    /// As SHOWPLAN writes it.
    pub fn name(&self) -> String {
        match self {
            ScalarFunction::Value { def, .. } => def.name.to_ascii_lowercase(),
            ScalarFunction::AtTimeZone { .. } => "at time zone".into(),
            ScalarFunction::Xml { method, .. } => method.query.method().name().into(),
        }
    }

    /// The value for these arguments over a row. A method of `xml` asks for its document only where it must.
    pub fn eval(&self, args: &[Expr], row: &[Value], cx: &Ctx<'_>) -> Result<Value> {
        let values = || -> Result<Vec<Value>> { args.iter().map(|a| a.eval(row, cx)).collect() };
        match self {
            ScalarFunction::Xml { method, collation } => method.eval(args, row, *collation, cx),
            ScalarFunction::AtTimeZone { from, scale } => {
                at_time_zone(&values()?, *from, *scale, cx)
            }
            ScalarFunction::Value {
                def,
                types,
                result,
                collation,
            } => {
                let args = values()?;
                // Most functions of large values make values as large.
                let _promise = cx.promise(args.iter().map(Value::outside_bytes).sum())?;
                let (utc, zone_offset_minutes) = cx.host.now();
                let surroundings = Surroundings {
                    cx,
                    promise: Cell::new(None),
                    refusal: Cell::new(None),
                    is_stopped: Cell::new(false),
                };
                let context = EvalContext {
                    now: instant(utc),
                    zone_offset_minutes,
                    datefirst: cx.settings.datefirst,
                    convert: ConvertContext {
                        collation: *collation,
                        ..cx.convert
                    },
                    host: &surroundings,
                };
                let value = def.eval(&args, types, *result, &context);
                if surroundings.is_stopped.get() {
                    cancelled(cx.host.cancel())?;
                }
                match surroundings.refusal.take() {
                    Some(error) if value.is_err() => Err(error),
                    _ => Ok(value?),
                }
            }
        }
    }
}

/// The function's own error says so.
const NO_MEMORY: i32 = 701;

/// 100 ns since 1970 as a datetime2.
pub fn instant(utc_100ns: i64) -> DateTime2 {
    DateTime2 {
        days: (UNIX_DAYS + utc_100ns.div_euclid(TICKS_PER_DAY)) as i32,
        ticks: utc_100ns.rem_euclid(TICKS_PER_DAY) as u64,
        scale: 7,
    }
}

/// Host of a function's evaluation, and what it was told.
struct Surroundings<'a, 'h> {
    cx: &'a Ctx<'h>,
    /// Memory that the function may take.
    promise: Cell<Option<Promise>>,
    /// Why it may not take more, where that is not for want of memory: the wait was too long, or ended by somebody.
    refusal: Cell<Option<SqlError>>,
    /// Nobody wants the result.
    is_stopped: Cell<bool>,
}

impl EvalHost for Surroundings<'_, '_> {
    fn may_take(&self, bytes: usize) -> bool {
        match self.cx.promise(bytes) {
            Ok(promise) => {
                self.promise.set(promise);
                true
            }
            Err(error) => {
                self.refusal
                    .set((error.number != NO_MEMORY).then_some(error));
                false
            }
        }
    }

    fn goes_on(&self) -> bool {
        let is_stopped = cancelled(self.cx.host.cancel()).is_err();
        self.is_stopped.set(is_stopped);
        !is_stopped
    }

    fn random(&self, seed: Option<i32>) -> f64 {
        if seed.is_none() {
            self.cx.note_volatile();
        }
        self.cx.host.random(seed)
    }

    fn new_guid(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.cx.note_volatile();
        self.cx.host.random_bytes(&mut bytes);
        // Version 4: the third group is little-endian, so its high byte stands second.
        bytes[7] = bytes[7] & 0x0F | 0x40;
        bytes[8] = bytes[8] & 0x3F | 0x80;
        bytes
    }

    fn sequential_guid(&self) -> [u8; 16] {
        let made = self.cx.host.sequential_guid();
        made.unwrap_or_else(|| self.new_guid())
    }
}

/// `value AT TIME ZONE zone`: the value gets the zone's offset, or is moved into it when it has one already.
fn at_time_zone(args: &[Value], from: DataType, scale: u8, cx: &Ctx<'_>) -> Result<Value> {
    let [value, Value::Str(zone)] = args else {
        return Ok(Value::Null);
    };
    if value.is_null() {
        return Ok(Value::Null);
    }
    let unknown = || {
        SqlError::new(
            9820,
            16,
            1,
            format!("The time zone parameter '{zone}' provided to AT TIME ZONE clause is invalid."),
        )
    };
    let zone = time_zone(zone).ok_or_else(unknown)?;
    if let Value::DateTimeOffset(given) = value {
        return at_offset(given.utc, zone.offset_at_utc(ticks(&given.utc)));
    }
    let local = convert(
        value,
        from,
        DataType::DateTime2 { scale: 7 },
        None,
        &cx.convert,
    )?;
    let Value::DateTime2(local) = local else {
        return Ok(Value::Null);
    };
    let utc = ticks(&local) - i64::from(zone.offset_at_local(ticks(&local))) * TICKS_PER_MINUTE;
    // A time that spring leaves out is shown as the one that the clocks had instead.
    let offset_minutes = zone.offset_at_utc(utc);
    let utc = DateTime2 {
        days: utc.div_euclid(TICKS_PER_DAY) as i32,
        ticks: utc.rem_euclid(TICKS_PER_DAY) as u64,
        scale,
    };
    at_offset(utc, offset_minutes)
}

/// Error 9813 where the value would leave the calendar.
fn at_offset(utc: DateTime2, offset_minutes: i16) -> Result<Value> {
    let value = switch_offset(utc, offset_minutes);
    let value = value.ok_or_else(|| ValueError::new(9813, 0, &[&"at time zone"]))?;
    Ok(Value::DateTimeOffset(value))
}

/// 100 ns since 0001-01-01.
fn ticks(t: &DateTime2) -> i64 {
    i64::from(t.days) * TICKS_PER_DAY + t.ticks as i64
}

/// Zones by the product's names: a fixed offset, with the daylight saving rule of the European Union or the USA.
struct Zone {
    minutes: i16,
    saving: Saving,
}

#[derive(Clone, Copy)]
enum Saving {
    None,
    Europe,
    America,
}

fn time_zone(name: &str) -> Option<Zone> {
    use Saving::*;
    let (minutes, saving) = match name.to_ascii_lowercase().as_str() {
        "utc" | "coordinated universal time" => (0, None),
        "gmt standard time" => (0, Europe),
        "w. europe standard time"
        | "central europe standard time"
        | "romance standard time"
        | "central european standard time" => (60, Europe),
        "e. europe standard time" | "fle standard time" | "gtb standard time" => (120, Europe),
        "eastern standard time" | "us eastern standard time" => (-300, America),
        "central standard time" => (-360, America),
        "mountain standard time" => (-420, America),
        "us mountain standard time" => (-420, None),
        "pacific standard time" => (-480, America),
        "alaskan standard time" => (-540, America),
        "hawaiian standard time" => (-600, None),
        "russian standard time" => (180, None),
        "arabian standard time" => (240, None),
        "india standard time" => (330, None),
        "china standard time" | "singapore standard time" => (480, None),
        "tokyo standard time" | "korea standard time" => (540, None),
        "e. australia standard time" => (600, None),
        other => (fixed_offset(other)?, None),
    };
    Some(Zone { minutes, saving })
}

/// `+05:30`.
fn fixed_offset(text: &str) -> Option<i16> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes): (i16, i16) = (hours.parse().ok()?, minutes.parse().ok()?);
    ((0..=14).contains(&hours) && (0..60).contains(&minutes))
        .then_some(sign * (hours * 60 + minutes))
}

impl Zone {
    fn offset_at_local(&self, local: i64) -> i16 {
        let standard = local - i64::from(self.minutes) * TICKS_PER_MINUTE;
        // The hour that spring leaves out moves forward; the hour that autumn repeats is standard time.
        let offset = self.offset_at_utc(standard);
        let again = local - i64::from(offset) * TICKS_PER_MINUTE;
        if self.offset_at_utc(again) == offset {
            offset
        } else {
            self.minutes
        }
    }

    fn offset_at_utc(&self, utc: i64) -> i16 {
        if self.saves(utc) {
            self.minutes + 60
        } else {
            self.minutes
        }
    }

    fn saves(&self, utc: i64) -> bool {
        let days = utc.div_euclid(TICKS_PER_DAY);
        let year = year_of(days);
        let hour = 60 * TICKS_PER_MINUTE;
        let local_two = |day: i64, offset: i16| {
            day * TICKS_PER_DAY + 2 * hour - i64::from(offset) * TICKS_PER_MINUTE
        };
        match self.saving {
            Saving::None => false,
            Saving::Europe => {
                let start = last_sunday(year, 3) * TICKS_PER_DAY + hour;
                let end = last_sunday(year, 10) * TICKS_PER_DAY + hour;
                (start..end).contains(&utc)
            }
            Saving::America => {
                let start = local_two(first_sunday(year, 3) + 7, self.minutes);
                let end = local_two(first_sunday(year, 11), self.minutes + 60);
                (start..end).contains(&utc)
            }
        }
    }
}

fn year_of(days: i64) -> i64 {
    let guess = days * 400 / 146_097 + 1;
    if days < day_number(guess, 1) {
        guess - 1
    } else if days >= day_number(guess + 1, 1) {
        guess + 1
    } else {
        guess
    }
}

/// Days from 0001-01-01 to the first of a month.
fn day_number(year: i64, month: i64) -> i64 {
    const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let y = year - 1;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let before = BEFORE.get((month - 1) as usize).copied().unwrap_or(0);
    y * 365 + y / 4 - y / 100 + y / 400 + before + i64::from(leap && month > 2)
}

/// 0001-01-01 was a Monday.
fn first_sunday(year: i64, month: i64) -> i64 {
    let first = day_number(year, month);
    first + (6 - first.rem_euclid(7))
}

fn last_sunday(year: i64, month: i64) -> i64 {
    let next = if month == 12 {
        day_number(year + 1, 1)
    } else {
        day_number(year, month + 1)
    };
    let last = next - 1;
    last - (last.rem_euclid(7) + 1) % 7
}
