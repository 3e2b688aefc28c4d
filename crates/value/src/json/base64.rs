//! Base64: bytes as JSON has them.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes as text, padded.
pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit) & 63) as usize;
            out.push(match digit <= chunk.len() {
                true => char::from(DIGITS[value]),
                false => '=',
            });
        }
    }
    out
}

/// The bytes of a padded text; `None` when it is no such text.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|b| **b == b'=').count();
    let digits = text.get(..text.len() - padding)?;
    if padding > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in digits.chunks(4) {
        let mut bits = 0;
        for digit in chunk {
            bits = bits << 6 | value_of(*digit)?;
        }
        bits <<= 6 * (4 - chunk.len());
        let [_, bytes @ ..] = bits.to_be_bytes();
        out.extend_from_slice(bytes.get(..chunk.len() - 1)?);
    }
    Some(out)
}

fn value_of(digit: u8) -> Option<u32> {
    let (first, from) = match digit {
        b'A'..=b'Z' => (b'A', 0),
        b'a'..=b'z' => (b'a', 26),
        b'0'..=b'9' => (b'0', 52),
        b'+' => return Some(62),
        b'/' => return Some(63),
        _ => return None,
    };
    Some(u32::from(digit - first) + from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for length in 0..40 {
            let bytes: Vec<u8> = (0..length).map(|n| (n * 37 + 251) as u8).collect();
            assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
        assert_eq!(encode(b"light w"), "bGlnaHQgdw==");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "A", "AA", "AAA", "A===", "====", "AA=A", "A?==", "AAAA=", "\u{e9}AA",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
