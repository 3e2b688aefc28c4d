//! Finding one text inside another under a collation, for CHARINDEX and REPLACE.
//!
//! Theory: characters are compared one by one, so a match is as many characters long as what is sought. What is short is
//! tried at every place. What is long is sought in one pass (Knuth, Morris, Pratt): trying it everywhere would take the
//! product of both lengths, and both may be millions.

use super::CollationId;
use super::order::same_char;

/// Longer needles are sought in one pass.
const SHORT_BYTES: usize = 64;

/// Byte offset of the first match of `needle` in `text`; an empty needle matches nothing.
pub fn find(text: &str, needle: &str, collation: CollationId) -> Option<usize> {
    Needle::new(needle, collation).find(text)
}

/// A text that is sought, made ready once for all its places.
struct Needle<'n> {
    text: &'n str,
    collation: CollationId,
    /// The pass over the text that a long one takes.
    pass: Option<Pass>,
}

impl<'n> Needle<'n> {
    fn new(text: &'n str, collation: CollationId) -> Needle<'n> {
        let is_long = text.len() > SHORT_BYTES && !collation.is_binary();
        Needle {
            text,
            collation,
            pass: is_long.then(|| Pass::new(text, collation)),
        }
    }

    fn find(&self, text: &str) -> Option<usize> {
        if self.text.is_empty() {
            return None;
        }
        if self.collation.is_binary() {
            return text.find(self.text);
        }
        match &self.pass {
            Some(pass) => pass.find(text, self.collation),
            None => text
                .char_indices()
                .map(|(at, _)| at)
                .find(|at| self.starts(text.get(*at..).unwrap_or_default())),
        }
    }

    fn starts(&self, text: &str) -> bool {
        let mut chars = text.chars();
        let mut needle = self.text.chars();
        needle.all(|n| {
            chars
                .next()
                .is_some_and(|c| same_char(c, n, self.collation))
        })
    }
}

/// Search of a long needle in one pass.
struct Pass {
    chars: Vec<char>,
    /// Numbers, for each number of matched characters, of the last of them that are also the first.
    borders: Vec<usize>,
}

impl Pass {
    fn new(needle: &str, collation: CollationId) -> Pass {
        let mut pass = Pass {
            chars: needle.chars().collect(),
            borders: vec![0],
        };
        pass.borders.reserve_exact(pass.chars.len());
        let mut matched = 0;
        for at in 1..pass.chars.len() {
            let c = pass.chars.get(at).copied().unwrap_or_default();
            matched = pass.after(matched, c, collation);
            pass.borders.push(matched);
        }
        pass
    }

    /// Number of matched characters after one more.
    fn after(&self, mut matched: usize, c: char, collation: CollationId) -> usize {
        loop {
            match self.chars.get(matched) {
                Some(n) if same_char(c, *n, collation) => return matched + 1,
                _ if matched == 0 => return 0,
                _ => matched = self.borders.get(matched - 1).copied().unwrap_or(0),
            }
        }
    }

    fn find(&self, text: &str, collation: CollationId) -> Option<usize> {
        let mut matched = 0;
        for (at, c) in text.char_indices() {
            matched = self.after(matched, c, collation);
            if matched == self.chars.len() {
                let before = text.get(..at).unwrap_or_default().char_indices().rev();
                let begins = matched
                    .checked_sub(2)
                    .and_then(|n| before.map(|(at, _)| at).nth(n));
                return Some(begins.unwrap_or(at));
            }
        }
        None
    }
}

/// Every match replaced, from left to right.
pub fn replace(text: &str, needle: &str, with: &str, collation: CollationId) -> String {
    let length = needle.chars().count();
    let needle = Needle::new(needle, collation);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = needle.find(rest) {
        let (before, matched) = rest.split_at(at);
        out.push_str(before);
        out.push_str(with);
        let end = matched
            .char_indices()
            .nth(length)
            .map_or(matched.len(), |(end, _)| end);
        rest = matched.get(end..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_follows_the_collation() {
        assert_eq!(find("xABC", "abc", CollationId::DEFAULT), Some(1));
        assert_eq!(find("xABC", "abc", CollationId::BIN2), None);
        assert_eq!(find("été", "T", CollationId::DEFAULT), Some(2));
        assert_eq!(find("abc", "", CollationId::DEFAULT), None);
        assert_eq!(replace("aXbxc", "x", "--", CollationId::DEFAULT), "a--b--c");
        assert_eq!(replace("aaa", "aa", "b", CollationId::DEFAULT), "ba");
    }

    #[test]
    fn long_needles_are_found_where_short_ones_are() {
        let text = "abaabAbaaBabaabÄbaab".repeat(6);
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        for collation in [CollationId::DEFAULT, CollationId::BIN2] {
            for (n, from) in places.iter().enumerate() {
                for until in places.iter().skip(n + SHORT_BYTES) {
                    let needle = text[*from..*until].to_lowercase();
                    let tried = places.iter().find(|at| {
                        let mut here = text[**at..].chars();
                        let fits = |n| here.next().is_some_and(|c| same_char(c, n, collation));
                        needle.chars().all(fits)
                    });
                    assert_eq!(find(&text, &needle, collation), tried.copied(), "{needle}");
                }
            }
        }
    }

    /// Where every place but the last character fits, trying all places would take hours.
    #[test]
    fn the_search_takes_one_pass() {
        let (text, needle) = ("a".repeat(2_000_000), "A".repeat(1_000_000) + "b");
        assert_eq!(find(&text, &needle, CollationId::DEFAULT), None);
        assert_eq!(replace(&text, &needle, "x", CollationId::DEFAULT), text);
        let last = format!("{text}b");
        assert_eq!(find(&last, &needle, CollationId::DEFAULT), Some(1_000_000));
    }
}
