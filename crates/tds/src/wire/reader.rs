//! A cursor over bytes that were not written by us.

use super::text;
use crate::{Result, TdsError};

#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    consumed: usize,
    bounded: bool,
}

impl<'a> Reader<'a> {
    /// A reader over a stream of which more may arrive.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader {
            rest: bytes,
            consumed: 0,
            bounded: false,
        }
    }

    /// Bytes that were not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Was everything read?
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes read so far.
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// The next byte, which stays unread.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next `count` bytes; `what` names them in the error.
    pub fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8]> {
        let Some((head, tail)) = self.rest.split_at_checked(count) else {
            return Err(self.short(what, count));
        };
        self.rest = tail;
        self.consumed += count;
        Ok(head)
    }

    /// Everything that was not read yet.
    pub fn take_rest(&mut self) -> &'a [u8] {
        let rest = std::mem::take(&mut self.rest);
        self.consumed += rest.len();
        rest
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let Some((head, tail)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.short(what, N));
        };
        self.rest = tail;
        self.consumed += N;
        Ok(*head)
    }

    /// The next `count` bytes as a structure of their own.
    pub fn sub(&mut self, count: usize, what: &'static str) -> Result<Reader<'a>> {
        let bytes = self.take(count, what)?;
        Ok(Reader {
            rest: bytes,
            consumed: 0,
            bounded: true,
        })
    }

    /// The next byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    /// The next two bytes, least significant first.
    pub fn u16(&mut self, what: &'static str) -> Result<u16> {
        self.array(what).map(u16::from_le_bytes)
    }

    /// The next two bytes, most significant first.
    pub fn u16_be(&mut self, what: &'static str) -> Result<u16> {
        self.array(what).map(u16::from_be_bytes)
    }

    /// The next four bytes, least significant first.
    pub fn u32(&mut self, what: &'static str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// The next four bytes, most significant first.
    pub fn u32_be(&mut self, what: &'static str) -> Result<u32> {
        self.array(what).map(u32::from_be_bytes)
    }

    /// The next four bytes, signed, least significant first.
    pub fn i32(&mut self, what: &'static str) -> Result<i32> {
        self.array(what).map(i32::from_le_bytes)
    }

    /// The next eight bytes, least significant first.
    pub fn u64(&mut self, what: &'static str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Bytes behind a length of one byte.
    pub fn b_varbyte(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let count = self.u8(what)?;
        self.take(usize::from(count), what)
    }

    /// Bytes behind a length of two bytes.
    pub fn us_varbyte(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let count = self.u16(what)?;
        self.take(usize::from(count), what)
    }

    /// UTF-16 text behind a length of one byte, in characters.
    pub fn b_varchar(&mut self, what: &'static str) -> Result<String> {
        let count = self.u8(what)?;
        self.utf16(usize::from(count), what)
    }

    /// UTF-16 text behind a length of two bytes, in characters.
    pub fn us_varchar(&mut self, what: &'static str) -> Result<String> {
        let count = self.u16(what)?;
        self.utf16(usize::from(count), what)
    }

    /// `units` UTF-16 code units.
    pub fn utf16(&mut self, units: usize, what: &'static str) -> Result<String> {
        if units == 0 {
            return Ok(String::new());
        }
        let bytes = self.take(units * 2, what)?;
        text::from_utf16(bytes, what).map(String::from)
    }

    /// An error when bytes are left.
    pub fn expect_end(&self, what: &'static str) -> Result<()> {
        match self.rest.len() {
            0 => Ok(()),
            found => Err(TdsError::Trailing { what, found }),
        }
    }

    fn short(&self, what: &'static str, expected: usize) -> TdsError {
        let found = self.rest.len();
        if self.bounded {
            TdsError::Overrun {
                what,
                expected,
                found,
            }
        } else {
            TdsError::Truncated {
                what,
                expected,
                found,
            }
        }
    }
}
