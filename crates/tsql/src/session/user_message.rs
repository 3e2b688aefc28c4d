//! Messages that users added to the server's own, in the language of the session.
//!
//! Theory: the text of us_english has the places of the arguments and how each is written; a text of another language names them
//! by number, `%2!`, in any order.

use super::Execution;
use super::raise::{Piece, TEXT_CHARS_MAX, format_message, pieces};
use super::settings::message_language;
use crate::error::Result;
use crate::host::Host;
use crate::instance::MASTER;
use crate::messages;
use daruma_catalog::{MessageDef, MessageSet};
use daruma_value::{DataType, Value};
use std::sync::Arc;

/// us_english
pub(crate) const ENGLISH: i16 = 1033;

/// A message of users, found by its number.
pub(crate) struct UserMessage {
    set: Arc<MessageSet>,
    language: i16,
}

impl Execution<'_> {
    /// `sys.messages.language_id` of the session's language.
    pub(crate) fn message_language(&self) -> i16 {
        let language = self.state.settings.borrow().language;
        message_language(language).unwrap_or(ENGLISH)
    }

    /// The message of users with this number.
    pub(crate) fn user_message(&self, number: i32) -> Result<Option<UserMessage>> {
        let found = self.catalog(MASTER)?.message(number).cloned();
        Ok(found.map(|set| UserMessage {
            set,
            language: self.message_language(),
        }))
    }
}

impl UserMessage {
    fn english(&self) -> Option<&MessageDef> {
        self.set.in_language(ENGLISH)
    }

    pub(crate) fn severity(&self) -> u8 {
        self.english().map_or(16, |m| m.severity)
    }

    /// Is it written to the error log whenever it is raised?
    pub(crate) fn is_logged(&self) -> bool {
        self.english().is_some_and(|m| m.is_logged)
    }

    /// The text with the arguments in it.
    pub(crate) fn format(&self, args: &[(Value, DataType)]) -> Result<String> {
        let english = self.english().map_or("", |m| m.text.as_str());
        match self.set.in_language(self.language) {
            Some(local) if self.language != ENGLISH => format_localized(&local.text, english, args),
            _ => format_message(english, args),
        }
    }
}

fn format_localized(local: &str, english: &str, args: &[(Value, DataType)]) -> Result<String> {
    let is_value = |piece: Piece| match piece {
        Piece::Value(text) => Some(text.chars().take(TEXT_CHARS_MAX).collect::<String>()),
        Piece::Text(_) => None,
    };
    let values: Vec<String> = pieces(english, args)?
        .into_iter()
        .filter_map(is_value)
        .collect();
    let mut out = String::new();
    let mut rest = local;
    while let Some((head, tail)) = rest.split_once('%') {
        out.push_str(head);
        rest = match tail.strip_prefix('%') {
            Some(tail) => {
                out.push('%');
                tail
            }
            None => {
                let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
                let (number, tail) = tail.split_at(digits);
                let place = number.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
                let value = place.and_then(|place| values.get(place));
                match (value, tail.strip_prefix('!')) {
                    (Some(value), Some(tail)) => {
                        out.push_str(value);
                        tail
                    }
                    _ => {
                        let next = tail.chars().next();
                        let shown = format!("{number}{}", next.map_or(String::new(), String::from));
                        return Err(messages::error_state(2787, 2, &[&shown]));
                    }
                }
            }
        };
    }
    out.push_str(rest);
    Ok(out.chars().take(TEXT_CHARS_MAX).collect())
}
