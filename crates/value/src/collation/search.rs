//! Finding one text inside another under a collation, for CHARINDEX and REPLACE.
//!
//! Theory: characters are compared one by one, so a match is as many characters long as what is sought.

use super::CollationId;
use super::order::same_char;

/// Byte offset of the first match of `needle` in `text`; an empty needle matches nothing.
pub fn find(text: &str, needle: &str, collation: CollationId) -> Option<usize> {
    if needle.is_empty() {
        return None;
    }
    if collation.is_binary() {
        return text.find(needle);
    }
    text.char_indices()
        .map(|(at, _)| at)
        .find(|at| starts_with(text.get(*at..).unwrap_or_default(), needle, collation))
}

fn starts_with(text: &str, needle: &str, collation: CollationId) -> bool {
    let mut chars = text.chars();
    needle
        .chars()
        .all(|n| chars.next().is_some_and(|c| same_char(c, n, collation)))
}

/// Every match replaced, from left to right.
pub fn replace(text: &str, needle: &str, with: &str, collation: CollationId) -> String {
    let length = needle.chars().count();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = find(rest, needle, collation) {
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
}
