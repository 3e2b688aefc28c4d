//! SET options: all that clients send. What has no meaning here is taken where it changes no result, and refused elsewhere.

use super::SessionState;
use super::execution::Execution;
use super::fail::Step;
use crate::binder::changed_column;
use crate::error::Result;
use crate::host::{Host, IsolationLevel, SessionSettings, Showplan};
use crate::instance::{Instance, LoginInfo};
use crate::messages;
use crate::sink::EnvChange;
use daruma_syntax::ast::{self, AssignOp, BinaryOp, SetStatement, SetValue};
use daruma_value::Value;
use daruma_value::temporal::DateFormat;
use std::sync::atomic::Ordering;

const COMMAND_SET: u16 = 0xBE;
/// What `CONTEXT_INFO()` gives.
const CONTEXT_BYTES: usize = 128;

/// What SET OFFSETS may name.
const OFFSETS: &[&str] = &[
    "COMPUTE",
    "EXECUTE",
    "FROM",
    "ORDER",
    "PARAM",
    "PROCEDURE",
    "SELECT",
    "STATEMENT",
    "TABLE",
];

/// Settings right after login: what the client's kind has on, the `user options` of the server, and the language that the client
/// asked for or the login has.
pub(crate) fn initial(instance: &Instance, login: &LoginInfo) -> SessionSettings {
    let mut settings = initial_of_client(login);
    add_user_options(&mut settings, instance.configuration.in_use("user options"));
    let of_login = || {
        Some(
            instance
                .logins
                .list()
                .of_client(login)?
                .default_language
                .clone(),
        )
    };
    let language = language_named(&login.language)
        .or_else(|| language_named(&of_login()?))
        .unwrap_or(&US_ENGLISH);
    speak(&mut settings, language);
    settings
}

/// `user options` turn on, and never off: bits of [`SessionState::options_mask`].
fn add_user_options(settings: &mut SessionSettings, options: i64) {
    let has = |bit: i64| options & bit != 0;
    settings.implicit_transactions |= has(2);
    if has(4) && settings.cursor_close_on_commit.is_none() {
        settings.cursor_close_on_commit = Some(true);
    }
    settings.ansi_warnings |= has(8);
    settings.ansi_padding |= has(16);
    settings.ansi_nulls |= has(32);
    settings.arithabort |= has(64);
    settings.quoted_identifier |= has(256);
    settings.nocount |= has(512);
    settings.ansi_null_dflt_on |= has(1_024);
    settings.concat_null_yields_null |= has(4_096);
    settings.xact_abort |= has(16_384);
}

/// What the client's kind has on.
pub(super) fn initial_of_client(login: &LoginInfo) -> SessionSettings {
    let ansi = login.ansi_defaults;
    SessionSettings {
        ansi_nulls: ansi,
        // Nothing is trimmed here: a login that says nothing gets what there is.
        ansi_padding: true,
        ansi_warnings: ansi,
        ansi_null_dflt_on: ansi,
        arithabort: false,
        concat_null_yields_null: ansi,
        quoted_identifier: ansi,
        nocount: false,
        xact_abort: false,
        implicit_transactions: false,
        numeric_roundabort: false,
        // Drivers say so after the login that turns the rest on.
        cursor_close_on_commit: ansi.then_some(false),
        fmtonly: false,
        noexec: false,
        parseonly: false,
        showplan: Showplan::Off,
        statistics_io: false,
        statistics_time: false,
        statistics_xml: false,
        statistics_profile: false,
        rowcount: 0,
        textsize: if ansi { i32::MAX } else { 4_096 },
        datefirst: 7,
        dateformat: DateFormat::Mdy,
        language: "us_english",
        lock_timeout_ms: -1,
        deadlock_priority: 0,
        isolation: IsolationLevel::ReadCommitted,
    }
}

/// A language: its name, alias, date format, first day of the week, id of its messages, and `syslanguages.langid`.
type Language = (&'static str, &'static str, DateFormat, u8, i16, i64);

const US_ENGLISH: Language = ("us_english", "English", DateFormat::Mdy, 7, 1033, 0);
const LANGUAGES: &[Language] = &[
    US_ENGLISH,
    ("British", "British English", DateFormat::Dmy, 1, 1033, 23),
    ("Deutsch", "German", DateFormat::Dmy, 1, 1031, 1),
    ("Fran\u{e7}ais", "French", DateFormat::Dmy, 1, 1036, 2),
    ("Espa\u{f1}ol", "Spanish", DateFormat::Dmy, 1, 3082, 5),
    ("Italiano", "Italian", DateFormat::Dmy, 1, 1040, 6),
    ("Nederlands", "Dutch", DateFormat::Dmy, 1, 1043, 7),
    ("Portugu\u{ea}s", "Portuguese", DateFormat::Dmy, 7, 2070, 9),
    ("Dansk", "Danish", DateFormat::Dmy, 1, 1030, 4),
    ("Svenska", "Swedish", DateFormat::Ymd, 1, 1053, 11),
    ("Norsk", "Norwegian", DateFormat::Dmy, 1, 2068, 8),
    ("Suomi", "Finnish", DateFormat::Dmy, 1, 1035, 10),
    ("polski", "Polish", DateFormat::Dmy, 1, 1045, 14),
    (
        "\u{65e5}\u{672c}\u{8a9e}",
        "Japanese",
        DateFormat::Ymd,
        7,
        1041,
        3,
    ),
];

/// A language by name or alias.
fn language_named(language: &str) -> Option<&'static Language> {
    let same = |name: &str| daruma_catalog::names_equal(name, language);
    LANGUAGES
        .iter()
        .find(|(name, alias, ..)| same(name) || same(alias))
}

/// The name of the language with this `syslanguages.langid`: `default language` of the server.
pub(crate) fn language_of_id(id: i64) -> Option<&'static str> {
    let found = LANGUAGES.iter().find(|(.., langid)| *langid == id);
    found.map(|(name, ..)| *name)
}

/// The name of a language that may have been given by its alias.
pub(crate) fn language_name(language: &str) -> Option<&'static str> {
    language_named(language).map(|(name, ..)| *name)
}

/// Gives the language that was spoken before.
fn speak(settings: &mut SessionSettings, language: &Language) -> &'static str {
    let (name, _, format, first, ..) = language;
    settings.dateformat = *format;
    settings.datefirst = *first;
    std::mem::replace(&mut settings.language, *name)
}

/// `sys.messages.language_id` of a language, by name or alias.
pub(crate) fn message_language(language: &str) -> Option<i16> {
    language_named(language).map(|(.., id, _)| *id)
}

/// Tells languages apart in the keys of plans.
#[inline]
pub(crate) fn language_number(language: &str) -> u64 {
    // Nearly every session's, and every statement asks.
    if language == "us_english" {
        return 0;
    }
    let known = LANGUAGES.iter().position(|(name, ..)| *name == language);
    known.map_or(0, |at| at as u64)
}

impl SessionState {
    /// Hands lock time-out and deadlock priority to the lock manager.
    pub(crate) fn apply_lock_settings(&self) {
        let settings = self.settings.borrow();
        let owner = &self.entry.owner;
        owner
            .lock_timeout_ms
            .store(settings.lock_timeout_ms, Ordering::Relaxed);
        owner
            .deadlock_priority
            .store(settings.deadlock_priority, Ordering::Relaxed);
    }

    /// Does the end of a transaction close cursors?
    pub(crate) fn closes_cursors(&self) -> bool {
        let own = self.settings.borrow().cursor_close_on_commit;
        let of_database = || self.database.borrow().def();
        own.unwrap_or_else(|| of_database().option_is_on("CURSOR_CLOSE_ON_COMMIT"))
    }

    /// `@@OPTIONS`.
    pub(crate) fn options_mask(&self) -> i32 {
        let s = self.settings.borrow();
        let bits = [
            (2, s.implicit_transactions),
            (4, self.closes_cursors()),
            (8, s.ansi_warnings),
            (16, s.ansi_padding),
            (32, s.ansi_nulls),
            (64, s.arithabort),
            (256, s.quoted_identifier),
            (512, s.nocount),
            (1_024, s.ansi_null_dflt_on),
            (4_096, s.concat_null_yields_null),
            (8_192, s.numeric_roundabort),
            (16_384, s.xact_abort),
        ];
        bits.iter().filter(|(_, on)| *on).map(|(bit, _)| bit).sum()
    }
}

impl Execution<'_> {
    pub(crate) fn run_set(&self, set: &SetStatement) -> Step<()> {
        match set {
            SetStatement::Variable {
                name, op, value, ..
            } => {
                self.quiet(|| self.set_value(name, *op, value))?;
                self.state.row_count.set(1);
                Ok(())
            }
            SetStatement::Switch { options, on } => {
                self.simple_set(|| options.iter().try_for_each(|o| self.switch(o, *on)))
            }
            SetStatement::Statistics { options, on } => self.simple_set(|| {
                options
                    .iter()
                    .try_for_each(|o| self.statistics_option(o, *on))
            }),
            SetStatement::Value { option, value } => self.set_option(option, value),
            SetStatement::TransactionIsolation(level) => {
                self.simple_set(|| self.set_isolation(*level))
            }
            SetStatement::IdentityInsert { table, on } => {
                self.simple_set(|| self.set_identity_insert(table, *on))
            }
            SetStatement::Offsets { keywords, on } => {
                self.simple_set(|| keywords.iter().try_for_each(|k| offset(k, *on)))
            }
            SetStatement::Cursor { name, definition } => {
                self.quiet(|| self.set_cursor(name, definition))
            }
            SetStatement::Method { name, method, args } => {
                self.quiet(|| self.set_method(name, method, args))?;
                self.state.row_count.set(1);
                Ok(())
            }
            SetStatement::Property { .. } => {
                Err(self.fail(messages::not_supported("properties of CLR variables")))
            }
        }
    }

    fn simple_set(&self, work: impl FnOnce() -> Result<()>) -> Step<()> {
        match work() {
            Ok(()) => self.succeed(COMMAND_SET),
            Err(error) => Err(self.failed(COMMAND_SET, error)),
        }
    }

    /// `SET @x.modify('..')`: error 174 without an argument.
    fn set_method(&self, name: &str, method: &ast::Ident, args: &[ast::Expr]) -> Result<()> {
        let Some(first) = args.first() else {
            return Err(messages::error(174, &[&method.text, &1]));
        };
        let (value, from) = self.evaluate_compound(first, || mutated(name, method, args))?;
        self.assign_value(name, value, from)
    }

    /// `SET @v = expr`, `SET @v += expr`.
    fn set_value(&self, name: &str, op: AssignOp, value: &ast::Expr) -> Result<()> {
        match op {
            AssignOp::Set if self.is_cursor_variable(name) => self.share_cursor(name, value),
            AssignOp::Set => self.assign(name, value),
            AssignOp::Compound(op) => {
                let (value, from) = self.evaluate_compound(value, || compound(name, op, value))?;
                self.assign_value(name, value, from)
            }
        }
    }

    fn switch(&self, option: &str, on: bool) -> Result<()> {
        let mut settings = self.state.settings.borrow_mut();
        match option {
            "ANSI_NULLS" => settings.ansi_nulls = on,
            "ANSI_PADDING" => settings.ansi_padding = on,
            "ANSI_WARNINGS" => settings.ansi_warnings = on,
            "ANSI_NULL_DFLT_ON" => settings.ansi_null_dflt_on = on,
            "ANSI_NULL_DFLT_OFF" => settings.ansi_null_dflt_on = !on,
            "ANSI_DEFAULTS" => set_ansi_defaults(&mut settings, on),
            "ARITHABORT" => settings.arithabort = on,
            "CONCAT_NULL_YIELDS_NULL" => settings.concat_null_yields_null = on,
            // Done when the batch was read, whether this statement runs or not.
            "QUOTED_IDENTIFIER" => {}
            "NOCOUNT" => settings.nocount = on,
            "XACT_ABORT" => settings.xact_abort = on,
            "IMPLICIT_TRANSACTIONS" => settings.implicit_transactions = on,
            // Rows would be written that nobody wants rounded.
            "NUMERIC_ROUNDABORT" if on => {
                return Err(messages::not_supported("NUMERIC_ROUNDABORT ON"));
            }
            "NUMERIC_ROUNDABORT" => {}
            "CURSOR_CLOSE_ON_COMMIT" => settings.cursor_close_on_commit = Some(on),
            "FMTONLY" => settings.fmtonly = on,
            "NOEXEC" => settings.noexec = on,
            "PARSEONLY" => settings.parseonly = on,
            "SHOWPLAN_TEXT" => settings.showplan = if on { Showplan::Text } else { Showplan::Off },
            "SHOWPLAN_XML" => settings.showplan = if on { Showplan::Xml } else { Showplan::Off },
            "SHOWPLAN_ALL" => settings.showplan = if on { Showplan::All } else { Showplan::Off },
            // They change no row here: an error of arithmetic is one in any case, plans are the planner's, and there are no other servers.
            "ARITHIGNORE" | "NO_BROWSETABLE" | "FORCEPLAN" | "REMOTE_PROC_TRANSACTIONS" => {}
            other => return Err(messages::error(195, &[&other, &"SET option"])),
        }
        Ok(())
    }

    fn statistics_option(&self, option: &str, on: bool) -> Result<()> {
        let mut settings = self.state.settings.borrow_mut();
        match option {
            "IO" => settings.statistics_io = on,
            "TIME" => settings.statistics_time = on,
            "XML" => settings.statistics_xml = on,
            "PROFILE" => settings.statistics_profile = on,
            other => return Err(messages::error(195, &[&other, &"SET option"])),
        }
        Ok(())
    }

    fn set_option(&self, option: &str, value: &SetValue) -> Step<()> {
        let result = match option {
            "LANGUAGE" => self.set_language(value),
            _ => self.set_plain_option(option, value).map(|()| None),
        };
        match result {
            Ok(Some((new, old))) => {
                let text = messages::error(5703, &[&new]);
                self.to_client(|sink| sink.env_change(EnvChange::Language { new, old }))?;
                self.send_located(text)?;
                self.succeed(COMMAND_SET)
            }
            Ok(None) => self.succeed(COMMAND_SET),
            Err(error) => Err(self.failed(COMMAND_SET, error)),
        }
    }

    fn set_plain_option(&self, option: &str, value: &SetValue) -> Result<()> {
        match option {
            "LOCK_TIMEOUT" => {
                let timeout = self.option_number(value)?;
                self.state.settings.borrow_mut().lock_timeout_ms = timeout.max(-1);
                self.state.apply_lock_settings();
            }
            "DEADLOCK_PRIORITY" => {
                let priority = self.deadlock_priority(value)?;
                self.state.settings.borrow_mut().deadlock_priority = priority;
                self.state.apply_lock_settings();
            }
            "ROWCOUNT" => {
                let rows = self.option_int(value)?;
                let rows = rows.and_then(|n| u64::try_from(n).ok());
                let rows = rows.ok_or_else(|| messages::error_state(507, 2, &[]))?;
                self.state.settings.borrow_mut().rowcount = rows;
            }
            "TEXTSIZE" => {
                let size = self.option_number(value)?;
                let size = if size == 0 { 4_096 } else { size };
                self.state.settings.borrow_mut().textsize = i32::try_from(size).unwrap_or(i32::MAX);
            }
            "DATEFIRST" => {
                let day = self.option_int(value)?;
                let wrong = || messages::error_state(2743, 3, &[&option, &"integer"]);
                let day = day.ok_or_else(wrong)?;
                if !(1..=7).contains(&day) {
                    return Err(messages::error(2742, &[&day]));
                }
                self.state.settings.borrow_mut().datefirst = day as u8;
            }
            "DATEFORMAT" => {
                let text = self.option_word(option, value)?.to_ascii_lowercase();
                let Some(format) = DateFormat::parse(&text) else {
                    return Err(messages::error(2741, &[&text]));
                };
                self.state.settings.borrow_mut().dateformat = format;
            }
            "CONTEXT_INFO" => self.set_context_info(value)?,
            // No query is refused for what it may cost.
            "QUERY_GOVERNOR_COST_LIMIT" if self.option_number(value)? > 0 => {
                return Err(messages::not_supported(option));
            }
            "QUERY_GOVERNOR_COST_LIMIT" => {}
            "FIPS_FLAGGER" => fips_flagger(&self.option_text(value)?)?,
            other => return Err(messages::error(195, &[&other, &"SET option"])),
        }
        Ok(())
    }

    /// Gives the new and the old language.
    fn set_language(&self, value: &SetValue) -> Result<Option<(String, String)>> {
        let wanted = self.option_word("LANGUAGE", value)?;
        let language = language_named(&wanted).ok_or_else(|| messages::error(2740, &[&wanted]))?;
        let old = speak(&mut self.state.settings.borrow_mut(), language);
        Ok(Some((language.0.to_string(), old.to_string())))
    }

    /// Error 2755 for what is neither a number from -10 to 10 nor one of the words.
    fn deadlock_priority(&self, value: &SetValue) -> Result<i64> {
        if let Some(number) = self.option_int(value)? {
            return match number {
                -10..=10 => Ok(number),
                _ => Err(messages::error(2755, &[])),
            };
        }
        match self.option_text(value)?.to_ascii_uppercase().as_str() {
            "LOW" => Ok(-5),
            "NORMAL" => Ok(0),
            "HIGH" => Ok(5),
            _ => Err(messages::error(2755, &[])),
        }
    }

    /// Error 2743 for NULL, for text, and for more bytes than there is room for.
    fn set_context_info(&self, value: &SetValue) -> Result<()> {
        let value = match value {
            SetValue::Expr(expr) => self.evaluate_alone(expr)?.0,
            SetValue::Word(_) => Value::Null,
        };
        let mut bytes = match value {
            Value::Bytes(bytes) if bytes.len() <= CONTEXT_BYTES => bytes,
            Value::Int(number) => number.to_be_bytes().to_vec(),
            _ => {
                return Err(messages::error(
                    2743,
                    &[&"CONTEXT_INFO", &"varbinary (128) NOT NULL"],
                ));
            }
        };
        bytes.resize(CONTEXT_BYTES, 0);
        *self.state.context_info.borrow_mut() = bytes;
        Ok(())
    }

    fn set_isolation(&self, level: ast::IsolationLevel) -> Result<()> {
        let level = match level {
            ast::IsolationLevel::ReadUncommitted => IsolationLevel::ReadUncommitted,
            ast::IsolationLevel::ReadCommitted => IsolationLevel::ReadCommitted,
            ast::IsolationLevel::RepeatableRead => IsolationLevel::RepeatableRead,
            ast::IsolationLevel::Snapshot => IsolationLevel::Snapshot,
            ast::IsolationLevel::Serializable => IsolationLevel::Serializable,
        };
        let mut transaction = self.state.transaction.borrow_mut();
        // Nothing was read yet: only now is it known how the transaction starts.
        if let Some(t) = transaction.as_mut().filter(|t| t.parts.is_empty()) {
            t.isolation = level;
        }
        self.state.settings.borrow_mut().isolation = level;
        Ok(())
    }

    fn set_identity_insert(&self, name: &ast::ObjectName, on: bool) -> Result<()> {
        let missing = || messages::error_state(1088, 11, &[&name.dotted()]);
        let table = match self.resolve(name) {
            Ok(crate::host::Resolved::Table(table)) => table,
            Err(error) if error.number != 208 => return Err(error),
            _ => return Err(missing()),
        };
        if !self.is_unlimited() && table.kind == crate::host::TableKind::User {
            let catalog = self.state.catalog(table.database.id())?;
            let object = catalog.object(table.object_id).ok_or_else(missing)?;
            self.check_alter(table.database.id(), object)
                .map_err(|_| missing())?;
        }
        if table.def.identity.is_none() {
            return Err(messages::error(8106, &[&name.dotted()]));
        }
        let this = (table.database.id(), table.object_id);
        let mut slot = self.state.identity_insert.borrow_mut();
        match (*slot, on) {
            (Some(other), true) if other != this => {
                let other = self.table_by_id(other.0, other.1);
                match other {
                    Ok(other) => Err(messages::error(
                        8107,
                        &[
                            &other.database.name(),
                            &other.schema_name,
                            &other.name,
                            &name.dotted(),
                        ],
                    )),
                    // The other table is gone.
                    Err(_) => {
                        *slot = Some(this);
                        Ok(())
                    }
                }
            }
            (_, true) => {
                *slot = Some(this);
                Ok(())
            }
            (Some(other), false) if other == this => {
                *slot = None;
                Ok(())
            }
            (_, false) => Ok(()),
        }
    }

    fn option_number(&self, value: &SetValue) -> Result<i64> {
        match value {
            SetValue::Expr(expr) => {
                let (value, from) = self.evaluate_alone(expr)?;
                super::convert::to_int(&value, from).map(i64::from)
            }
            SetValue::Word(word) => word
                .text
                .parse()
                .map_err(|_| messages::error(102, &[&word.text])),
        }
    }

    /// The value where it is an integer, `None` where it is NULL or of another type.
    fn option_int(&self, value: &SetValue) -> Result<Option<i64>> {
        let SetValue::Expr(expr) = value else {
            return Ok(None);
        };
        let (value, from) = self.evaluate_alone(expr)?;
        match value.is_null() || !from.is_integer() {
            true => Ok(None),
            false => super::convert::to_int(&value, from).map(|n| Some(i64::from(n))),
        }
    }

    /// The value of an option that takes words. Error 2743 for NULL and for what is no text.
    fn option_word(&self, option: &str, value: &SetValue) -> Result<String> {
        let wrong = || messages::error_state(2743, 2, &[&option, &"character string"]);
        let SetValue::Expr(expr) = value else {
            return self.option_text(value);
        };
        let (value, from) = self.evaluate_alone(expr)?;
        match value.is_null() || !from.is_character() {
            true => Err(wrong()),
            false => Ok(super::convert::to_text(&value, from)?.unwrap_or_default()),
        }
    }

    fn option_text(&self, value: &SetValue) -> Result<String> {
        match value {
            SetValue::Word(word) => Ok(word.text.clone()),
            SetValue::Expr(expr) => {
                let (value, from) = self.evaluate_alone(expr)?;
                Ok(super::convert::to_text(&value, from)?.unwrap_or_default())
            }
        }
    }
}

/// Places of words in the text, which clients of DB-Library asked for, are never sent: 40517. Error 195 for another word.
fn offset(keyword: &str, on: bool) -> Result<()> {
    match OFFSETS.contains(&keyword) {
        false => Err(messages::error(195, &[&keyword, &"SET option"])),
        true if on => Err(messages::not_supported("SET OFFSETS")),
        true => Ok(()),
    }
}

/// Nothing is compared with the standard FIPS 127-2: 40517 for its levels, 102 for what is none.
fn fips_flagger(level: &str) -> Result<()> {
    match level.to_ascii_uppercase().as_str() {
        "OFF" => Ok(()),
        "ENTRY" | "FULL" | "INTERMEDIATE" => Err(messages::not_supported("SET FIPS_FLAGGER")),
        _ => Err(messages::error_state(102, 3, &[&level])),
    }
}

/// QUOTED_IDENTIFIER, which belongs to them, was set when the batch was read.
fn set_ansi_defaults(settings: &mut SessionSettings, on: bool) {
    settings.ansi_nulls = on;
    settings.ansi_padding = on;
    settings.ansi_warnings = on;
    settings.ansi_null_dflt_on = on;
    settings.implicit_transactions = on;
    settings.cursor_close_on_commit = Some(on);
}

/// The method of a variable, where one that changes it may stand: a column of the qualifier that only SET has.
fn mutated(name: &str, method: &ast::Ident, args: &[ast::Expr]) -> ast::Expr {
    let variable = ast::ColumnRef {
        table: None,
        name: ast::Ident::new(name),
        span: ast::Span::default(),
    };
    ast::Expr::Method {
        target: Box::new(ast::Expr::Column(changed_column(&variable, true))),
        method: method.clone(),
        args: args.to_vec(),
    }
}

/// `@v op value` as an expression.
fn compound(name: &str, op: BinaryOp, value: &ast::Expr) -> ast::Expr {
    ast::Expr::Binary {
        op,
        left: Box::new(ast::Expr::Variable {
            name: name.to_string(),
            span: ast::Span::default(),
        }),
        right: Box::new(value.clone()),
        span: ast::Span::default(),
    }
}
