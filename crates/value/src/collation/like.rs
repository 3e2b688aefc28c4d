//! LIKE: pattern matching under a collation.
//!
//! Theory: a pattern is compiled to a list of single-character tests and `%`. Matching walks both lists and, on a
//! failure, lets the last `%` swallow one character more; earlier `%` never need another try. So a match costs at most
//! text length times pattern length, whatever the pattern.

use super::CollationId;
use super::order::{compare_chars, same_char};
use crate::ValueError;
use std::cmp::Ordering;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Char(char),
    AnyChar,
    AnyRun,
    /// `[...]` or `[^...]`: inclusive ranges.
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// A set that never closes, or an escape with nothing after it: such a pattern matches nothing.
    Never,
}

/// A compiled LIKE pattern.
#[derive(Clone, Debug)]
pub struct LikePattern {
    tokens: Vec<Token>,
    collation: CollationId,
    /// `varchar` rules: blanks at the end of the text need no counterpart in the pattern.
    trailing_blanks_ignored: bool,
}

impl LikePattern {
    /// Compiles `pattern`; `escape` is the ESCAPE string, which must be one character (error 506).
    pub fn new(
        pattern: &str,
        escape: Option<&str>,
        collation: CollationId,
        trailing_blanks_ignored: bool,
    ) -> Result<LikePattern, ValueError> {
        let escape = match escape {
            None => None,
            Some(text) => {
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (Some(c), None) => Some(c),
                    _ => return Err(ValueError::new(506, 1, &[&text])),
                }
            }
        };
        Ok(LikePattern {
            tokens: tokens(pattern, escape),
            collation,
            trailing_blanks_ignored,
        })
    }

    /// The literal text every match starts with: the range an index seek may use.
    pub fn literal_prefix(&self) -> String {
        self.tokens
            .iter()
            .map_while(|t| {
                if let Token::Char(c) = t {
                    Some(*c)
                } else {
                    None
                }
            })
            .collect()
    }

    /// Is the pattern a literal prefix followed by one `%`?
    pub fn is_prefix_only(&self) -> bool {
        let literals = self
            .tokens
            .iter()
            .take_while(|t| matches!(t, Token::Char(_)))
            .count();
        self.tokens.get(literals..) == Some(&[Token::AnyRun])
    }

    /// Does the whole text fit the pattern?
    pub fn matches(&self, text: &str) -> bool {
        self.match_end(text, true).is_some()
    }

    /// First character position (0-based) where the pattern matches, as PATINDEX counts: the pattern's own leading `%`
    /// decides whether it may start later.
    pub fn find(&self, text: &str) -> Option<usize> {
        let floating = matches!(self.tokens.first(), Some(Token::AnyRun));
        if !floating {
            return self.matches(text).then_some(0);
        }
        let skip = self
            .tokens
            .iter()
            .take_while(|t| matches!(t, Token::AnyRun))
            .count();
        let rest = LikePattern {
            tokens: self.tokens.get(skip..).unwrap_or_default().to_vec(),
            ..self.clone()
        };
        if rest.tokens.is_empty() {
            return Some(0);
        }
        let starts = text
            .char_indices()
            .map(|(byte, _)| byte)
            .chain([text.len()]);
        starts
            .enumerate()
            .find(|(_, byte)| rest.matches(text.get(*byte..).unwrap_or_default()))
            .map(|(n, _)| n)
    }

    /// Walks the pattern over the text; the end must be reached on both sides when `whole`.
    fn match_end(&self, text: &str, whole: bool) -> Option<usize> {
        let mut rest = text;
        let mut position = 0;
        let mut retry: Option<(usize, &str)> = None;
        loop {
            let mut chars = rest.chars();
            match (self.tokens.get(position), chars.next()) {
                (Some(Token::AnyRun), _) => {
                    position += 1;
                    retry = Some((position, rest));
                    continue;
                }
                (Some(token), Some(c)) if self.accepts(token, c) => {
                    position += 1;
                    rest = chars.as_str();
                    continue;
                }
                (None, None) => return Some(text.len()),
                (None, Some(_))
                    if !whole
                        || (self.trailing_blanks_ignored && rest.bytes().all(|b| b == b' ')) =>
                {
                    return Some(text.len() - rest.len());
                }
                _ => {}
            }
            let (at, from) = retry?;
            let mut chars = from.chars();
            chars.next()?;
            rest = chars.as_str();
            position = at;
            retry = Some((at, rest));
        }
    }

    fn accepts(&self, token: &Token, c: char) -> bool {
        match token {
            Token::Char(p) => same_char(*p, c, self.collation),
            Token::AnyChar => true,
            Token::Set { negated, ranges } => {
                let inside = ranges.iter().any(|(low, high)| {
                    compare_chars(*low, c, self.collation) != Ordering::Greater
                        && compare_chars(c, *high, self.collation) != Ordering::Greater
                });
                inside != *negated
            }
            Token::AnyRun | Token::Never => false,
        }
    }
}

fn tokens(pattern: &str, escape: Option<char>) -> Vec<Token> {
    let mut out = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            c if Some(c) == escape => chars.next().map_or(Token::Never, Token::Char),
            '%' if out.last() == Some(&Token::AnyRun) => continue,
            '%' => Token::AnyRun,
            '_' => Token::AnyChar,
            '[' => set(&mut chars, escape),
            c => Token::Char(c),
        });
    }
    out
}

/// Reads a set after its `[`. A `]` that comes first ends an empty set, which matches nothing.
fn set(chars: &mut std::str::Chars<'_>, escape: Option<char>) -> Token {
    let mut negated = false;
    let mut members: Vec<(char, bool)> = Vec::new();
    let mut first = true;
    loop {
        let Some(c) = chars.next() else {
            return Token::Never;
        };
        match c {
            '^' if first => negated = true,
            ']' => break,
            c if Some(c) == escape => match chars.next() {
                Some(c) => members.push((c, false)),
                None => return Token::Never,
            },
            c => members.push((c, c == '-')),
        }
        first = false;
    }
    let mut ranges = Vec::new();
    let mut rest = members.as_slice();
    while let Some(((low, _), after)) = rest.split_first() {
        if let [(_, true), (high, _), tail @ ..] = after {
            ranges.push((*low, *high));
            rest = tail;
        } else {
            ranges.push((*low, *low));
            rest = after;
        }
    }
    if ranges.is_empty() && !negated {
        Token::Never
    } else {
        Token::Set { negated, ranges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(text: &str, pattern: &str) -> bool {
        LikePattern::new(pattern, None, CollationId::DEFAULT, true)
            .expect("pattern")
            .matches(text)
    }

    #[test]
    fn wildcards() {
        for (text, pattern, expected) in [
            ("abc", "abc", true),
            ("ABC", "abc", true),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "%b%", true),
            ("abc", "a_c", true),
            ("abc", "a_", false),
            ("", "%", true),
            ("", "_", false),
            ("abcabd", "%abd", true),
            ("a5", "a[0-9]", true),
            ("ax", "a[^0-9]", true),
            ("a5", "a[^0-9]", false),
            ("a-", "a[b-]", true),
            ("a%", "a[%]", true),
            ("ab", "a[%]", false),
            ("a]", "a]", true),
            ("a", "[]", false),
            ("[", "[[]", true),
            ("a", "[", false),
            ("abc  ", "abc", true),
            ("abc", "abc ", false),
            ("é", "e", false),
            ("M", "[a-z]", true),
        ] {
            assert_eq!(like(text, pattern), expected, "{text:?} like {pattern:?}");
        }
    }

    #[test]
    fn escape_and_blanks() {
        let escaped =
            LikePattern::new("50!%%", Some("!"), CollationId::DEFAULT, false).expect("pattern");
        assert!(escaped.matches("50% off"));
        assert!(!escaped.matches("500"));
        assert_eq!(escaped.literal_prefix(), "50%");
        assert!(escaped.is_prefix_only());
        let wide = LikePattern::new("abc", None, CollationId::DEFAULT, false).expect("pattern");
        assert!(!wide.matches("abc "));
        let error =
            LikePattern::new("a", Some("ab"), CollationId::DEFAULT, false).expect_err("escape");
        assert_eq!(error.number(), 506);
    }

    #[test]
    fn find_counts_characters() {
        let p = |s| LikePattern::new(s, None, CollationId::DEFAULT, false).expect("pattern");
        assert_eq!(p("%[0-9]%").find("éab7"), Some(3));
        assert_eq!(p("%x%").find("abc"), None);
        assert_eq!(p("abc").find("abc"), Some(0));
        assert_eq!(p("%c").find("abc"), Some(2));
    }

    #[test]
    fn many_wildcards_end_soon() {
        let text = "a".repeat(5000);
        assert!(!like(&text, "%a%a%a%a%a%a%a%a%a%b"));
    }
}
