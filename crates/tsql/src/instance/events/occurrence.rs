//! One event as it occurs: facts that lie where they are, and the text that is made of them when somebody wants it.

use super::words::{Action, EventInfo, EventKind, FieldType};
use crate::instance::{Instance, SessionEntry};
use daruma_syntax::mask::mask_literals;
use std::borrow::Cow;
use std::fmt::Write;

/// The value of a field or of an action.
#[derive(Clone, Debug)]
pub enum Fact<'a> {
    Number(i64),
    Switch(bool),
    Text(Cow<'a, str>),
    Nothing,
}

impl<'a> From<&'a str> for Fact<'a> {
    fn from(text: &'a str) -> Fact<'a> {
        Fact::Text(Cow::Borrowed(text))
    }
}

impl From<u64> for Fact<'_> {
    fn from(number: u64) -> Self {
        Fact::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// An event at the moment when it occurs. Nothing is copied for it: sessions look first whether they want it.
pub struct Occurrence<'a> {
    pub kind: EventKind,
    /// In the order of the event's fields.
    pub facts: &'a [Fact<'a>],
    pub instance: &'a Instance,
    pub session: &'a SessionEntry,
    /// In 100 ns since 1970.
    pub at_utc: i64,
}

impl Occurrence<'_> {
    /// The value of an action. Numbers of events are counted by whoever collects them.
    pub fn action(&self, action: Action, sequence: u64) -> Fact<'static> {
        let owned = |text: &str| Fact::Text(Cow::Owned(text.to_string()));
        let login = &self.session.login;
        match action {
            Action::EventSequence => Fact::from(sequence),
            Action::CollectSystemTime => Fact::Number(self.at_utc),
            Action::ClientAppName => owned(&login.program),
            Action::ClientHostname => owned(&login.host),
            Action::ClientPid => Fact::Number(i64::from(login.client_process_id)),
            Action::DatabaseId => match self.session.activity.lock().database {
                Some(id) => Fact::Number(i64::from(id.0)),
                None => Fact::Nothing,
            },
            Action::DatabaseName => {
                let id = self.session.activity.lock().database;
                let entry = id.and_then(|id| self.instance.database(id));
                entry.map_or(Fact::Nothing, |entry| owned(&entry.name()))
            }
            Action::IsSystem => Fact::Switch(false),
            Action::RequestId => Fact::Number(0),
            Action::ServerInstanceName => owned(&self.instance.options().server_name),
            Action::ServerPrincipalName | Action::SessionServerPrincipalName | Action::Username => {
                owned(&login.login)
            }
            Action::SessionId => Fact::Number(i64::from(self.session.spid)),
            Action::SqlText => {
                let text = self.session.activity.lock().text.clone();
                Fact::Text(Cow::Owned(without_secrets(&text).into_owned()))
            }
            Action::TransactionId => Fact::from(self.session.activity.lock().transaction_id),
        }
    }

    /// The event as XML, as the product's targets show it. `left_out` is a field that is not collected.
    pub fn to_xml(&self, actions: &[Action], sequence: u64, left_out: Option<usize>) -> String {
        let info: &EventInfo = self.kind.info();
        let mut xml = String::with_capacity(512);
        let _ = write!(
            xml,
            "<event name=\"{}\" package=\"sqlserver\" timestamp=\"{}\">",
            info.name,
            timestamp(self.at_utc)
        );
        for (at, (field, fact)) in info.fields.iter().zip(self.facts).enumerate() {
            let fact = match left_out == Some(at) {
                true => &Fact::Nothing,
                false => fact,
            };
            let _ = write!(xml, "<data name=\"{}\">", field.name);
            put_value(&mut xml, field.data_type, fact);
            xml.push_str("</data>");
        }
        for action in actions {
            let info = action.info();
            let _ = write!(
                xml,
                "<action name=\"{}\" package=\"{}\">",
                info.name, info.package
            );
            put_value(&mut xml, info.data_type, &self.action(*action, sequence));
            xml.push_str("</action>");
        }
        xml.push_str("</event>");
        xml
    }
}

fn put_value(xml: &mut String, data_type: FieldType, fact: &Fact<'_>) {
    let _ = write!(
        xml,
        "<type name=\"{}\" package=\"{}\"/><value>",
        data_type.name(),
        data_type.package()
    );
    match fact {
        Fact::Number(number) => drop(write!(xml, "{number}")),
        Fact::Switch(on) => drop(write!(xml, "{on}")),
        Fact::Text(text) if matches!(data_type, FieldType::Xml) => xml.push_str(text),
        Fact::Text(text) => put_text(xml, &without_secrets(text)),
        Fact::Nothing => {}
    }
    xml.push_str("</value>");
    if let (FieldType::Map(_, names), Fact::Number(number)) = (data_type, fact)
        && let Some((_, name)) = names.iter().find(|(key, _)| key == number)
    {
        let _ = write!(xml, "<text>{name}</text>");
    }
}

/// Words beside which a text may hold what nobody should read.
const SECRET_WORDS: &[&str] = &[
    "password",
    "addlogin",
    "secret",
    "encryption by",
    "decryption by",
    "open symmetric",
];

/// A text that tells no passwords or keys: where there may be some, its literals are gone.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let has = |word: &&&str| {
        let mut windows = bytes.windows(word.len());
        windows.any(|w| w.eq_ignore_ascii_case(word.as_bytes()))
    };
    match SECRET_WORDS.iter().any(|word| has(&word)) {
        true => Cow::Owned(mask_literals(text)),
        false => Cow::Borrowed(text),
    }
}

/// Text as content or attribute of XML. What XML has no way to hold becomes a question mark.
pub fn put_text(xml: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            '\r' => xml.push_str("&#x0D;"),
            '\t' | '\n' => xml.push(c),
            '\0'..='\x1F' | '\u{FFFE}' | '\u{FFFF}' => xml.push('?'),
            c => xml.push(c),
        }
    }
}

/// `2026-11-26T21:00:00.000Z`.
pub fn timestamp(utc_100ns: i64) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(utc_100ns) * 100) {
        Ok(at) => {
            let ms = utc_100ns.rem_euclid(10_000_000) / 10_000;
            let civil = at.to_zoned(jiff::tz::TimeZone::UTC).datetime();
            format!("{}.{ms:03}Z", civil.strftime("%Y-%m-%dT%H:%M:%S"))
        }
        Err(_) => "1970-01-01T00:00:00.000Z".to_string(),
    }
}
