//! ERROR and INFO: numbered messages.

use super::token_byte;
use crate::wire::{Reader, end_u16_length, put_b_varchar, start_u16_length, text};
use crate::{Result, TdsVersion};

/// A longer text is cut; with names at their longest the token still fits its 16-bit length.
const TEXT_UNITS_MAX: usize = 16_000;
/// Classes above this are errors.
const INFO_CLASS_MAX: u8 = 10;

/// A message of either kind; the class decides which.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ServerMessage {
    /// The product's number; 50000 and above are a user's.
    pub number: i32,
    /// Tells apart the places that raise the same number.
    pub state: u8,
    /// The severity, 0 to 25: up to 10 information, from 20 on the connection ends.
    pub class: u8,
    /// Longer texts are cut at 16,000 UTF-16 units.
    pub text: String,
    /// Name of the server that raised it.
    pub server: String,
    /// Empty at batch level.
    pub procedure: String,
    /// Line in the batch or the module, from 1. Versions before 7.2 carry 16 bits of it.
    pub line: u32,
}

impl ServerMessage {
    /// Is it an error and no information?
    pub const fn is_error(&self) -> bool {
        self.class > INFO_CLASS_MAX
    }

    /// ERROR or INFO, by class.
    pub fn encode(&self, version: TdsVersion, out: &mut Vec<u8>) {
        out.push(if self.is_error() {
            token_byte::ERROR
        } else {
            token_byte::INFO
        });
        let length = start_u16_length(out);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&[self.state, self.class]);
        let count = start_u16_length(out);
        let units = text::put_utf16_limited(out, &self.text, TEXT_UNITS_MAX);
        if let Some(room) = out.get_mut(count..count + 2) {
            room.copy_from_slice(&u16::try_from(units).unwrap_or(u16::MAX).to_le_bytes());
        }
        put_b_varchar(out, &self.server);
        put_b_varchar(out, &self.procedure);
        if version.has_wide_fields() {
            out.extend_from_slice(&self.line.to_le_bytes());
        } else {
            out.extend_from_slice(&u16::try_from(self.line).unwrap_or(u16::MAX).to_le_bytes());
        }
        end_u16_length(out, length);
    }

    pub(super) fn decode(version: TdsVersion, reader: &mut Reader<'_>) -> Result<ServerMessage> {
        let length = usize::from(reader.u16("message length")?);
        let mut content = reader.sub(length, "message")?;
        Ok(ServerMessage {
            number: content.i32("message number")?,
            state: content.u8("message state")?,
            class: content.u8("message class")?,
            text: content.us_varchar("message text")?,
            server: content.b_varchar("message server")?,
            procedure: content.b_varchar("message procedure")?,
            line: match version.has_wide_fields() {
                true => content.u32("message line")?,
                false => u32::from(content.u16("message line")?),
            },
        })
    }
}
