//! UTF-16LE on the wire, UTF-8 in memory. Lone surrogates become U+FFFD.

use crate::{Result, TdsError};
use compact_str::CompactString;
use encoding_rs::UTF_16LE;

/// Above this size the vectorised decoder wins over the one that fills an inline string.
const SHORT_TEXT_BYTES: usize = 128;
/// What a string holds without memory of its own.
const INLINE_BYTES: usize = 24;

pub(crate) fn from_utf16(bytes: &[u8], what: &'static str) -> Result<CompactString> {
    if !bytes.len().is_multiple_of(2) {
        return Err(TdsError::Unexpected {
            what,
            expected: "an even number of bytes of UTF-16 text",
            found: bytes.len() as u64,
        });
    }
    let (units, _) = bytes.as_chunks::<2>();
    if let Some(text) = from_ascii(units) {
        return Ok(text);
    }
    if bytes.len() > SHORT_TEXT_BYTES {
        let (text, _) = UTF_16LE.decode_without_bom_handling(bytes);
        return Ok(CompactString::from(text));
    }
    Ok(
        char::decode_utf16(units.iter().map(|unit| u16::from_le_bytes(*unit)))
            .map(|decoded| decoded.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect(),
    )
}

/// Names and most values are ASCII: their low bytes are their UTF-8.
fn from_ascii(units: &[[u8; 2]]) -> Option<CompactString> {
    // No early end: without one the compiler makes it wide.
    let all = units
        .iter()
        .fold(0, |all, unit| all | u16::from_le_bytes(*unit));
    if all >= 0x80 {
        return None;
    }
    let mut room = [0; INLINE_BYTES];
    match room.get_mut(..units.len()) {
        Some(low) => {
            low.iter_mut()
                .zip(units)
                .for_each(|(to, [low, _])| *to = *low);
            std::str::from_utf8(low).ok().map(CompactString::new)
        }
        None => {
            let low = units.iter().map(|[low, _]| *low).collect();
            String::from_utf8(low).ok().map(CompactString::from)
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lengths_and_scripts_come_back() {
        for unit in ["a", "\u{e9}", "\u{65e5}", "\u{1f600}", "a\u{e9}"] {
            for count in [0, 1, 23, 24, 25, 64, 65, 200] {
                let text = unit.repeat(count);
                let mut bytes = Vec::new();
                put_utf16(&mut bytes, &text);
                let back = from_utf16(&bytes, "text").expect("reads");
                assert_eq!(back.as_str(), text);
            }
        }
        // A unit whose low byte looks like ASCII is none.
        let back = from_utf16(&[0x41, 0x01], "text").expect("reads");
        assert_eq!(back.as_str(), "\u{141}");
        let lone = from_utf16(&[0x41, 0, 0, 0xD8], "text").expect("reads");
        assert_eq!(lone.as_str(), "A\u{FFFD}");
        assert!(from_utf16(&[0x41], "text").is_err());
    }
}
