//! SQL batch: headers, then text to the end.

use super::Headers;
use crate::wire::{Reader, text};
use crate::{Result, TdsVersion};

/// A batch of statements as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlBatch {
    /// The transaction that the batch runs in.
    pub headers: Headers,
    /// SQL, one batch.
    pub text: String,
}

impl SqlBatch {
    /// A batch in this transaction (0 for none).
    pub fn new(text: impl Into<String>, transaction: u64) -> SqlBatch {
        SqlBatch {
            headers: Headers::new(transaction),
            text: text.into(),
        }
    }

    /// Reads the message's payload.
    pub fn decode(body: &[u8], version: TdsVersion) -> Result<SqlBatch> {
        let mut reader = Reader::new(body);
        let headers = Headers::decode(&mut reader, version)?;
        let text = text::from_utf16(reader.take_rest(), "batch text")?.into();
        Ok(SqlBatch { headers, text })
    }

    /// Appends the message's payload.
    pub fn encode(&self, version: TdsVersion, out: &mut Vec<u8>) {
        self.headers.encode(version, out);
        text::put_utf16(out, &self.text);
    }
}
