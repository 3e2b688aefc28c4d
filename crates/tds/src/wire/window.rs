//! A buffer for decoding a stream token by token while it arrives.
//!
//! Theory: a decoder is tried on what is there; when it runs off the end, nothing is consumed and it is tried again
//! later. To keep that linear for huge tokens, a large failed attempt is repeated only after a quarter more has come.

use super::Reader;
use crate::{Result, TdsError};

/// Up to this many bytes every arrival is worth a new attempt.
const EAGER_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Window {
    bytes: Vec<u8>,
    start: usize,
    retry_at: usize,
    /// The message has ended: what is here is all there will be.
    complete: bool,
}

impl Window {
    /// Takes in bytes; `last` says that none follow.
    pub fn feed(&mut self, bytes: &[u8], last: bool) {
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
        self.complete = last;
    }

    /// Was everything taken out?
    pub fn is_drained(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// All of a finished message has been consumed.
    pub fn is_finished(&self) -> bool {
        self.complete && self.is_drained()
    }

    /// Tries `decode` on the bytes at hand. `None`: wait for more.
    pub fn attempt<T>(
        &mut self,
        limit_bytes: usize,
        decode: impl FnOnce(&mut Reader<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let pending = self.bytes.get(self.start..).unwrap_or_default();
        if pending.is_empty() || (pending.len() < self.retry_at && !self.complete) {
            return Ok(None);
        }
        let mut reader = Reader::new(pending);
        match decode(&mut reader) {
            Ok(decoded) => {
                self.start += reader.consumed();
                self.retry_at = 0;
                Ok(Some(decoded))
            }
            Err(error) if error.is_truncation() && !self.complete => {
                let found = pending.len();
                if found > limit_bytes {
                    return Err(TdsError::TooLong {
                        what: "token",
                        limit: limit_bytes,
                        found,
                    });
                }
                self.retry_at = if found < EAGER_BYTES {
                    found + 1
                } else {
                    found + found / 4
                };
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
