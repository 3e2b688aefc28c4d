//! Base64: bytes as JSON has them.

use ::base64::Engine;
use ::base64::alphabet;
use ::base64::engine::{GeneralPurpose, GeneralPurposeConfig};

/// With padding. Bits of the last digit that stand for nothing may be set.
const STANDARD: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The bytes as text, padded.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of a padded text; `None` when it is no such text.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
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
