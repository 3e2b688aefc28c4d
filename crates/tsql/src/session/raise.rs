//! PRINT, RAISERROR, THROW, WAITFOR.

use super::execution::Execution;
use super::fail::{Step, Stop};
use crate::error::{Result, SqlError};
use crate::messages;
use daruma_base::WaitKind;
use daruma_syntax::ast;
use daruma_value::{DataType, Value};
use std::time::Duration;

/// RAISERROR takes at most this many arguments.
const ARGUMENTS_MAX: usize = 20;
/// Number of messages without one.
const USER_MESSAGE: i32 = 50_000;
/// The command of a session that waits, and the type of its wait.
pub(crate) const WAITFOR: &str = WaitKind::WaitFor.name();
/// WAITFOR looks at the cancel flag this often.
const WAIT_STEP: Duration = Duration::from_millis(10);

impl Execution<'_> {
    pub(crate) fn run_print(&self, expr: &ast::Expr) -> Step<()> {
        let (value, from) = self.evaluate_alone(expr).map_err(|e| self.fail(e))?;
        let text = super::convert::to_text(&value, from).map_err(|e| self.fail(e))?;
        let mut message = SqlError::new(0, 0, 1, text.unwrap_or_default());
        self.locate(&mut message);
        self.send(&message)?;
        self.succeed(0xF7)
    }

    pub(crate) fn run_raiserror(&self, raise: &ast::RaisError) -> Step<()> {
        let (error, is_logged) = match self.raised_error(raise) {
            Ok(raised) => raised,
            Err(error) => return Err(self.fail(error)),
        };
        self.report_raised(error, is_logged, raise)
    }

    fn report_raised(
        &self,
        mut error: SqlError,
        is_logged: bool,
        raise: &ast::RaisError,
    ) -> Step<()> {
        self.locate(&mut error);
        if is_logged {
            let text = format!(
                "Error: {}, Severity: {}, State: {}.\n{}",
                error.number, error.class, error.state, error.message
            );
            self.state
                .instance
                .log
                .write(&format!("spid{}", self.state.entry.spid), &text);
        }
        if error.class >= 20 {
            self.send(&error)?;
            return Err(Stop::Connection);
        }
        if error.class > 10 {
            self.state.last_error.set(error.number);
            if self.may_catch() {
                self.tell_message(&error, true);
                return Err(Stop::Caught(error));
            }
        } else {
            self.state
                .last_error
                .set(if raise.set_error { error.number } else { 0 });
        }
        let failed = error.class > 10;
        if error.class > 10 {
            self.state.watch.failed.set(true);
        }
        self.tell_message(&error, false);
        self.to_client(|sink| sink.message(&error))?;
        if raise.no_wait {
            self.to_client(|sink| sink.flush())?;
        }
        self.done(0xF7, None, failed)
    }

    fn may_catch(&self) -> bool {
        self.state.frames.borrow().iter().any(|f| f.tries > 0)
    }

    /// The error, and whether it goes to the error log.
    fn raised_error(&self, raise: &ast::RaisError) -> Result<(SqlError, bool)> {
        let (message, from) = self.evaluate_alone(&raise.message)?;
        let Some(severity) = &raise.severity else {
            return Ok((self.old_form(&message, raise)?, raise.log));
        };
        let user = match &message {
            Value::Int(number) if *number > USER_MESSAGE => self.user_message(*number)?,
            _ => None,
        };
        let severity = self.number(severity)?;
        let state = raise.state.as_ref().map_or(Ok(1), |s| self.number(s))?;
        if raise.args.len() > ARGUMENTS_MAX {
            return Err(messages::error(2747, &[&ARGUMENTS_MAX]));
        }
        let may_log = self.state.server_rights().has("ALTER TRACE");
        let class = match (&message, &user) {
            // The message's own.
            (Value::Int(_), Some(user)) if severity < 0 => user.severity(),
            (Value::Int(number), None) if severity < 0 => {
                messages::find(*number).map_or(16, |m| m.severity)
            }
            _ => severity.clamp(0, 25) as u8,
        };
        if class > 18 && !(raise.log && may_log) {
            return Err(messages::error(2754, &[&18]));
        }
        if raise.log && !may_log {
            return Err(messages::error(2778, &[&"WITH LOG", &"RAISERROR"]));
        }
        let args = raise
            .args
            .iter()
            .map(|a| self.evaluate_alone(a))
            .collect::<Result<Vec<_>>>()?;
        let state = match state {
            ..0 => 1,
            state => state.min(255) as u8,
        };
        if let (Value::Int(number), Some(user)) = (&message, &user) {
            let error = SqlError::new(*number, class, state, user.format(&args)?);
            return Ok((error, raise.log || user.is_logged()));
        }
        let (number, template) = match &message {
            Value::Int(number) if *number >= 13_000 && *number != USER_MESSAGE => {
                (*number, stored_message(*number, class, state)?)
            }
            Value::Int(number) => return Err(unknown_message(*number, class, state)),
            other => (
                USER_MESSAGE,
                super::convert::to_text(other, from)?.unwrap_or_default(),
            ),
        };
        let text = format_message(&template, &args)?;
        Ok((SqlError::new(number, class, state, text), raise.log))
    }

    /// `RAISERROR 50001 'text'`.
    fn old_form(&self, message: &Value, raise: &ast::RaisError) -> Result<SqlError> {
        let number = match message {
            Value::Int(number) => *number,
            _ => USER_MESSAGE,
        };
        let text = match raise.args.first() {
            Some(expr) => {
                let (value, from) = self.evaluate_alone(expr)?;
                super::convert::to_text(&value, from)?.unwrap_or_default()
            }
            None => String::new(),
        };
        Ok(SqlError::new(number, 16, 1, text))
    }

    fn number(&self, expr: &ast::Expr) -> Result<i32> {
        let (value, from) = self.evaluate_alone(expr)?;
        super::convert::to_int(&value, from)
    }

    /// THROW: ends the batch unless something catches it.
    pub(crate) fn run_throw(&self, throw: Option<&ast::Throw>) -> Stop {
        let error = match throw {
            Some(throw) => self.thrown(throw),
            None => match self.state.caught.borrow().last() {
                Some(error) => Ok(error.clone()),
                None => Err(SqlError::new(
                    10704,
                    15,
                    1,
                    "To rethrow an error, a THROW statement must be used inside a CATCH block. Insert the THROW statement inside a CATCH block, or add error parameters to the THROW statement.",
                )),
            },
        };
        let mut error = error.unwrap_or_else(|e| e);
        self.locate(&mut error);
        self.state.last_error.set(error.number);
        let xact_abort = self.state.settings.borrow().xact_abort;
        if self.may_catch() {
            if xact_abort || error.kills_transaction {
                self.doom();
            }
            return Stop::Caught(error);
        }
        if self.send(&error).is_err() {
            return Stop::ClientGone;
        }
        if error.class >= 20 {
            return Stop::Connection;
        }
        let step = match xact_abort {
            true => self.rollback_and_tell(),
            false => Ok(()),
        };
        let step = step.and_then(|()| self.done(0xFD, None, true));
        step.err().unwrap_or(Stop::Batch)
    }

    fn thrown(&self, throw: &ast::Throw) -> Result<SqlError> {
        let number = self.number(&throw.number)?;
        if number < USER_MESSAGE {
            let text = format!(
                "Error number {number} in the THROW statement is outside the valid range. Specify an error number in the valid range of 50000 to 2147483647."
            );
            return Err(SqlError::new(35_100, 16, 10, text));
        }
        let (message, from) = self.evaluate_alone(&throw.message)?;
        let state = self.number(&throw.state)?.clamp(0, 255) as u8;
        let text = super::convert::to_text(&message, from)?.unwrap_or_default();
        Ok(SqlError::new(number, 16, state, text))
    }

    pub(crate) fn run_waitfor(&self, wait: &ast::WaitFor) -> Step<()> {
        let duration = match wait {
            ast::WaitFor::Delay(expr) => self.wait_delay(expr),
            ast::WaitFor::Time(expr) => self.wait_time(expr),
            ast::WaitFor::Broker(_) => Err(messages::not_supported("WAITFOR (RECEIVE)")),
        };
        let duration = duration.map_err(|e| self.fail(e))?;
        self.to_client(|sink| sink.flush())?;
        self.wait(duration)?;
        self.succeed(0xFD)
    }

    fn wait(&self, duration: Duration) -> Step<()> {
        let instance = &self.state.instance;
        let before = {
            let mut activity = self.state.entry.activity.lock();
            activity.status = "suspended";
            std::mem::replace(&mut activity.command, WAITFOR)
        };
        let clock = &instance.env().clock;
        let start = clock.monotonic();
        let result = loop {
            if let Err(error) = self.state.check_cancel() {
                break Err(self.fail(error));
            }
            let waited = clock.monotonic().saturating_sub(start);
            match duration.checked_sub(waited) {
                Some(left) if !left.is_zero() => clock.sleep(left.min(WAIT_STEP)),
                _ => break Ok(()),
            }
        };
        let waited = clock.monotonic().saturating_sub(start);
        instance.engine().waits().record(WaitKind::WaitFor, waited);
        let mut activity = self.state.entry.activity.lock();
        activity.status = "running";
        activity.command = before;
        drop(activity);
        result
    }

    fn wait_delay(&self, expr: &ast::Expr) -> Result<Duration> {
        let (value, from) = self.evaluate_alone(expr)?;
        Ok(Duration::from_nanos(self.time_of_day(&value, from)? * 100))
    }

    /// Until the next time the clock shows this time of day.
    fn wait_time(&self, expr: &ast::Expr) -> Result<Duration> {
        const DAY: u64 = 864_000_000_000;
        let (value, from) = self.evaluate_alone(expr)?;
        let wanted = self.time_of_day(&value, from)?;
        let clock = &self.state.instance.env().clock;
        let local = clock.utc_100ns() + i64::from(clock.local_offset_minutes()) * 600_000_000;
        let now = local.rem_euclid(DAY as i64) as u64;
        Ok(Duration::from_nanos(((wanted + DAY - now) % DAY) * 100))
    }

    /// Time of day in 100 ns.
    fn time_of_day(&self, value: &Value, from: DataType) -> Result<u64> {
        let time = super::convert::assign(value.clone(), from, DataType::Time { scale: 7 }, self);
        match time {
            Ok(Value::Time(time)) => Ok(time.ticks),
            _ => {
                let text = super::convert::to_text(value, from)?.unwrap_or_default();
                Err(messages::error(148, &[&text]))
            }
        }
    }
}

fn stored_message(number: i32, class: u8, state: u8) -> Result<String> {
    match messages::find(number) {
        Some(message) => Ok(message.text.to_string()),
        None => Err(unknown_message(number, class, state)),
    }
}

fn unknown_message(number: i32, class: u8, state: u8) -> SqlError {
    match number {
        13_000.. => messages::error(18_054, &[&number, &class, &state]),
        _ => messages::error(2732, &[&number]),
    }
}

/// Longest text of a message.
pub(crate) const TEXT_CHARS_MAX: usize = 2_044;

/// A part of a format: text as it stands, or an argument as it is written.
pub(crate) enum Piece {
    Text(String),
    Value(String),
}

/// Fills a RAISERROR format: `%[flag][width][.precision]{d|i|o|s|u|x|X}` and `%%`.
pub(crate) fn format_message(template: &str, args: &[(Value, DataType)]) -> Result<String> {
    let mut out = String::new();
    for piece in pieces(template, args)? {
        match piece {
            Piece::Text(text) | Piece::Value(text) => out.push_str(&text),
        }
    }
    Ok(out.chars().take(TEXT_CHARS_MAX).collect())
}

/// The parts of a RAISERROR format.
pub(crate) fn pieces(template: &str, args: &[(Value, DataType)]) -> Result<Vec<Piece>> {
    let mut out = Vec::new();
    let mut text = String::new();
    let mut args = args.iter();
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            text.push('%');
            continue;
        }
        let spec: Spec = Spec::read(&mut chars, &mut args)?;
        out.push(Piece::Text(std::mem::take(&mut text)));
        out.push(Piece::Value(spec.format(args.next())?));
    }
    out.push(Piece::Text(text));
    Ok(out)
}

#[derive(Default)]
struct Spec {
    left: bool,
    plus: bool,
    zero: bool,
    alternate: bool,
    blank: bool,
    width: usize,
    precision: Option<usize>,
    kind: char,
}

/// Widest field a format may ask for.
const WIDTH_MAX: usize = 2_047;

impl Spec {
    fn read<'v>(
        chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
        args: &mut impl Iterator<Item = &'v (Value, DataType)>,
    ) -> Result<Spec> {
        let mut spec = Spec::default();
        while let Some(flag) = chars.next_if(|c| "-+0# ".contains(*c)) {
            match flag {
                '-' => spec.left = true,
                '+' => spec.plus = true,
                '0' => spec.zero = true,
                '#' => spec.alternate = true,
                _ => spec.blank = true,
            }
        }
        spec.width = amount(chars, args)?.unwrap_or(0).min(WIDTH_MAX);
        if chars.next_if_eq(&'.').is_some() {
            spec.precision = Some(amount(chars, args)?.unwrap_or(0).min(WIDTH_MAX));
        }
        while chars.next_if(|c| "hlLI".contains(*c)).is_some() {
            // `I64` spells its width out.
            while chars.next_if(|c| "64".contains(*c)).is_some() {}
        }
        match chars.next() {
            Some(kind) if "diosuxXS".contains(kind) => {
                spec.kind = kind;
                Ok(spec)
            }
            other => Err(messages::error(
                2787,
                &[&format!("%{}", other.map_or(String::new(), String::from))],
            )),
        }
    }

    fn format(&self, arg: Option<&(Value, DataType)>) -> Result<String> {
        let Some((value, from)) = arg else {
            return Ok("(null)".to_string());
        };
        if value.is_null() {
            return Ok(self.pad("(null)".to_string(), ' '));
        }
        let text = match self.kind {
            's' | 'S' => self.text(value, *from)?,
            _ => self.digits(integer(value).ok_or_else(|| messages::error(2786, &[&1]))?),
        };
        let fill = if self.zero && !self.left && self.kind != 's' {
            '0'
        } else {
            ' '
        };
        Ok(self.pad(text, fill))
    }

    fn text(&self, value: &Value, from: DataType) -> Result<String> {
        if !matches!(value, Value::Str(_)) {
            return Err(messages::error(2786, &[&1]));
        }
        let text = super::convert::to_text(value, from)?.unwrap_or_default();
        Ok(match self.precision {
            Some(max) => text.chars().take(max).collect(),
            None => text,
        })
    }

    fn digits(&self, value: i64) -> String {
        let narrow = value as i32 as u32;
        let digits = match self.kind {
            'o' => format!("{}{narrow:o}", if self.alternate { "0" } else { "" }),
            'x' => format!("{}{narrow:x}", if self.alternate { "0x" } else { "" }),
            'X' => format!("{}{narrow:X}", if self.alternate { "0X" } else { "" }),
            'u' => narrow.to_string(),
            _ if self.plus && value >= 0 => format!("+{value}"),
            _ if self.blank && value >= 0 => format!(" {value}"),
            _ => value.to_string(),
        };
        match self.precision {
            Some(width) if digits.len() < width => format!("{digits:0>width$}"),
            _ => digits,
        }
    }

    fn pad(&self, text: String, fill: char) -> String {
        let missing = self.width.saturating_sub(text.chars().count());
        let padding: String = std::iter::repeat_n(fill, missing).collect();
        match (self.left, fill, text.strip_prefix('-')) {
            (true, ..) => text + &padding,
            (false, '0', Some(digits)) => format!("-{padding}{digits}"),
            _ => padding + &text,
        }
    }
}

/// A width or precision: digits, or `*` for the next argument.
fn amount<'v>(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    args: &mut impl Iterator<Item = &'v (Value, DataType)>,
) -> Result<Option<usize>> {
    if chars.next_if_eq(&'*').is_some() {
        let value = args.next().and_then(|(v, _)| integer(v));
        return Ok(Some(usize::try_from(value.unwrap_or(0)).unwrap_or(0)));
    }
    let mut number = None;
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        chars.next();
        number = Some((number.unwrap_or(0_usize) * 10 + digit as usize).min(WIDTH_MAX));
    }
    Ok(number)
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Bit(b) => Some(i64::from(*b)),
        Value::TinyInt(n) => Some(i64::from(*n)),
        Value::SmallInt(n) => Some(i64::from(*n)),
        Value::Int(n) => Some(i64::from(*n)),
        Value::BigInt(n) => Some(*n),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(s: &str) -> (Value, DataType) {
        (Value::str(s), DataType::NVARCHAR_MAX)
    }

    fn int(n: i32) -> (Value, DataType) {
        (Value::Int(n), DataType::Int)
    }

    #[test]
    fn formats_are_the_products() {
        let f =
            |template: &str, args: &[(Value, DataType)]| format_message(template, args).unwrap();
        assert_eq!(f("%s has %d rows", &[text("t"), int(5)]), "t has 5 rows");
        assert_eq!(f("<<%7.3s>>", &[text("abcde")]), "<<    abc>>");
        assert_eq!(f("<<%-7s>>", &[text("abc")]), "<<abc    >>");
        assert_eq!(
            f("<<%*.*s>>", &[int(7), int(3), text("abcde")]),
            "<<    abc>>"
        );
        assert_eq!(
            f("%05d|%-5d|%+d", &[int(42), int(42), int(42)]),
            "00042|42   |+42"
        );
        assert_eq!(
            f(
                "%x %X %#x %o %u",
                &[int(255), int(255), int(255), int(8), int(-1)]
            ),
            "ff FF 0xff 10 4294967295"
        );
        assert_eq!(f("100%% %s", &[]), "100% (null)");
        assert_eq!(
            f("%I64d", &[(Value::BigInt(1 << 40), DataType::BigInt)]),
            "1099511627776"
        );
    }

    #[test]
    fn wrong_types_and_formats_are_errors() {
        assert_eq!(format_message("%d", &[text("x")]).unwrap_err().number, 2786);
        assert_eq!(format_message("%q", &[int(1)]).unwrap_err().number, 2787);
    }
}
