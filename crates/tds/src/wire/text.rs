//! UTF-16LE on the wire, UTF-8 in memory. Lone surrogates become U+FFFD.

use crate::{Result, TdsError};
use compact_str::CompactString;
use encoding_rs::UTF_16LE;

/// Above this size the vectorised decoder wins over the one that fills an inline string.
const SHORT_TEXT_BYTES: usize = 128;

pub(crate) fn from_utf16(bytes: &[u8], what: &'static str) -> Result<CompactString> {
    if !bytes.len().is_multiple_of(2) {
        return Err(TdsError::Unexpected {
            what,
            expected: "an even number of bytes of UTF-16 text",
            found: bytes.len() as u64,
        });
    }
    if bytes.len() > SHORT_TEXT_BYTES {
        let (text, _) = UTF_16LE.decode_without_bom_handling(bytes);
        return Ok(CompactString::from(text));
    }
    let (units, _) = bytes.as_chunks::<2>();
    Ok(
        char::decode_utf16(units.iter().map(|unit| u16::from_le_bytes(*unit)))
            .map(|decoded| decoded.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect(),
    )
}

pub(crate) fn put_utf16(out: &mut Vec<u8>, text: &str) {
    if text.is_ascii() {
        let start = out.len();
        out.resize(start + text.len() * 2, 0);
        let room = out.get_mut(start..).unwrap_or_default();
        for (pair, byte) in room.chunks_exact_mut(2).zip(text.bytes()) {
            if let Some(low) = pair.first_mut() {
                *low = byte;
            }
        }
    } else {
        out.reserve(text.len() * 2);
        for unit in text.encode_utf16() {
            out.extend_from_slice(&unit.to_le_bytes());
        }
    }
}

/// Writes whole characters up to `limit` UTF-16 units; returns the number of units written.
pub(crate) fn put_utf16_limited(out: &mut Vec<u8>, text: &str, limit: usize) -> usize {
    let start = out.len();
    if text.len() <= limit {
        put_utf16(out, text);
    } else {
        let mut units = 0;
        let fitting = text.chars().take_while(|c| {
            units += c.len_utf16();
            units <= limit
        });
        let bytes: usize = fitting.map(char::len_utf8).sum();
        put_utf16(out, text.get(..bytes).unwrap_or_default());
    }
    (out.len() - start) / 2
}
