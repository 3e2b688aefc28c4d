//! Passwords: kept out of debug output, obfuscated on the wire.

use crate::Result;
use crate::wire::text;
use std::fmt;

/// Text that does not show itself in logs.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Keeps a password from being shown by accident.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The password itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(super) fn from_wire(bytes: &[u8]) -> Result<Secret> {
        let plain: Vec<u8> = bytes
            .iter()
            .map(|byte| (byte ^ 0xA5).rotate_left(4))
            .collect();
        Ok(Secret(text::from_utf16(&plain, "LOGIN7 password")?.into()))
    }

    pub(super) fn to_wire(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        text::put_utf16(&mut bytes, &self.0);
        for byte in &mut bytes {
            *byte = byte.rotate_left(4) ^ 0xA5;
        }
        bytes
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}
