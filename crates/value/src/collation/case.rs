//! UPPER and LOWER: simple case mapping, one character to one character, as the product does.

use compact_str::CompactString;
use icu_casemap::{CaseMapper, CaseMapperBorrowed};

const MAPPER: CaseMapperBorrowed<'static> = CaseMapper::new();

/// The text in upper case, as UPPER gives it.
pub fn to_upper(text: &str) -> CompactString {
    if text.is_ascii() {
        return CompactString::new(text).to_ascii_uppercase_compact();
    }
    text.chars().map(|c| MAPPER.simple_uppercase(c)).collect()
}

/// The text in lower case, as LOWER gives it.
pub fn to_lower(text: &str) -> CompactString {
    if text.is_ascii() {
        return CompactString::new(text).to_ascii_lowercase_compact();
    }
    text.chars().map(|c| MAPPER.simple_lowercase(c)).collect()
}

trait AsciiCase {
    fn to_ascii_uppercase_compact(self) -> CompactString;
    fn to_ascii_lowercase_compact(self) -> CompactString;
}

impl AsciiCase for CompactString {
    fn to_ascii_uppercase_compact(mut self) -> CompactString {
        self.as_mut_str().make_ascii_uppercase();
        self
    }

    fn to_ascii_lowercase_compact(mut self) -> CompactString {
        self.as_mut_str().make_ascii_lowercase();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_one_to_one() {
        assert_eq!(to_upper("straße é"), "STRASSE É".replace("SS", "ß"));
        assert_eq!(to_lower("ÀÉ AbC"), "àé abc");
        assert_eq!(to_upper("plain"), "PLAIN");
    }
}
