//! Messages that users add to those of the server. They live in master.
//!
//! Theory: one row holds a message in all its languages, so that they change together.

use serde::{Deserialize, Serialize};

/// A message of users. An empty list takes the row away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageSet {
    pub number: i32,
    pub list: Vec<MessageDef>,
}

/// A message in one language.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageDef {
    /// `sys.messages.language_id`
    pub language: i16,
    pub severity: u8,
    pub is_logged: bool,
    pub text: String,
}

impl MessageSet {
    /// The message in a language.
    pub fn in_language(&self, language: i16) -> Option<&MessageDef> {
        self.list.iter().find(|m| m.language == language)
    }
}
