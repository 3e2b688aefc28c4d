//! LIKE: pattern matching under a collation.
//!
//! Theory: a pattern is compiled to a list of single-character tests and `%`. Matching walks both lists and, on a
//! failure, lets the last `%` swallow one character more; earlier `%` never need another try. So a match costs at most
//! text length times pattern length, whatever the pattern. That may still be hours for texts of many megabytes, so those who
//! ask can say now and then that they do not want to know any more ([`Patience`]).

use super::CollationId;
use super::order::{compare_chars, same_char};
use crate::ValueError;
use std::cmp::Ordering;

/// A question asked now and then: does the search go on?
pub type Patience<'p> = &'p dyn Fn() -> bool;

/// Comparisons between two questions.
const ASKED_EVERY: usize = 1 << 16;

/// Counter of one search's comparisons.
struct Steps<'p> {
    left: usize,
    goes_on: Patience<'p>,
    is_over: bool,
}

impl Steps<'_> {
    fn new(goes_on: Patience<'_>) -> Steps<'_> {
        Steps {
            left: ASKED_EVERY,
            goes_on,
            is_over: false,
        }
    }

    /// Is the search to end, after `count` comparisons more?
    #[inline]
    fn end_after(&mut self, count: usize) -> bool {
        match self.left.checked_sub(count) {
            Some(left) => self.left = left,
            None => {
                self.left = ASKED_EVERY;
                self.is_over |= !(self.goes_on)();
            }
        }
        self.is_over
    }
}

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

impl Token {
    /// Most comparisons that a character takes.
    fn comparisons(&self) -> usize {
        match self {
            Token::Set { ranges, .. } => 1 + ranges.len(),
            _ => 1,
        }
    }
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

    /// Does the whole text fit the pattern? False, too, when `goes_on` says no before that is known.
    pub fn matches(&self, text: &str, goes_on: Patience<'_>) -> bool {
        self.fits(text, &mut Steps::new(goes_on))
    }

    /// First character position (0-based) where the pattern matches, as PATINDEX counts: the pattern's own leading `%`
    /// decides whether it may start later. None, too, when `goes_on` says no before that is known.
    pub fn find(&self, text: &str, goes_on: Patience<'_>) -> Option<usize> {
        let mut steps = Steps::new(goes_on);
        let floating = matches!(self.tokens.first(), Some(Token::AnyRun));
        if !floating {
            return self.fits(text, &mut steps).then_some(0);
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
        for (n, byte) in starts.enumerate() {
            if rest.fits(text.get(byte..).unwrap_or_default(), &mut steps) {
                return Some(n);
            }
            if steps.is_over {
                return None;
            }
        }
        None
    }

    /// Walks the pattern over the text.
    fn fits(&self, text: &str, steps: &mut Steps<'_>) -> bool {
        // Blanks at the end that need no counterpart.
        let blanks = match self.trailing_blanks_ignored {
            true => text.len() - text.trim_end_matches(' ').len(),
            false => 0,
        };
        let mut rest = text;
        let mut position = 0;
        let mut retry: Option<(usize, &str)> = None;
        loop {
            let mut chars = rest.chars();
            let token = self.tokens.get(position);
            if steps.end_after(token.map_or(1, Token::comparisons)) {
                return false;
            }
            match (token, chars.next()) {
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
                (None, _) if rest.len() <= blanks => return true,
                _ => {}
            }
            let Some((at, from)) = retry else {
                return false;
            };
            let mut chars = from.chars();
            if chars.next().is_none() {
                return false;
            }
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
            .matches(text, &|| true)
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
        assert!(escaped.matches("50% off", &|| true));
        assert!(!escaped.matches("500", &|| true));
        assert_eq!(escaped.literal_prefix(), "50%");
        assert!(escaped.is_prefix_only());
        let wide = LikePattern::new("abc", None, CollationId::DEFAULT, false).expect("pattern");
        assert!(!wide.matches("abc ", &|| true));
        let error =
            LikePattern::new("a", Some("ab"), CollationId::DEFAULT, false).expect_err("escape");
        assert_eq!(error.number(), 506);
    }

    #[test]
    fn find_counts_characters() {
        let p = |s| LikePattern::new(s, None, CollationId::DEFAULT, false).expect("pattern");
        assert_eq!(p("%[0-9]%").find("éab7", &|| true), Some(3));
        assert_eq!(p("%x%").find("abc", &|| true), None);
        assert_eq!(p("abc").find("abc", &|| true), Some(0));
        assert_eq!(p("%c").find("abc", &|| true), Some(2));
    }

    #[test]
    fn many_wildcards_end_soon() {
        let text = "a".repeat(5000);
        assert!(!like(&text, "%a%a%a%a%a%a%a%a%a%b"));
    }

    /// All of these would take hours.
    #[test]
    fn a_search_can_be_given_up() {
        let text = "a".repeat(10_000_000);
        let asked = std::cell::Cell::new(0);
        let goes_on = || {
            asked.set(asked.get() + 1);
            asked.get() < 3
        };
        for pattern in [
            "%aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab%",
            "%a%b",
            "%[0-9a-z]%[!-+]b%",
        ] {
            let pattern = LikePattern::new(pattern, None, CollationId::DEFAULT, false);
            let pattern = pattern.expect("pattern");
            asked.set(0);
            assert!(!pattern.matches(&text, &goes_on));
            assert_eq!(asked.get(), 3);
            asked.set(0);
            assert_eq!(pattern.find(&text, &goes_on), None);
            assert_eq!(asked.get(), 3);
        }
    }

    #[test]
    fn blanks_at_the_end_are_counted_once() {
        let blanks = " ".repeat(300_000);
        assert!(like(&format!("a{blanks}"), "a"));
        assert!(!like(&format!("{blanks}x"), "% "));
    }
}
