//! Characters of a query: blanks and comments, names, literals. The parser reads by its own needs, as what a character
//! means depends on where it stands: `<` begins an element or compares.

use crate::atom::Atom;
use crate::{Result, error};
use daruma_value::Decimal;
use daruma_value::xml::{is_allowed, is_name, predefined, starts_name};

/// A place in the text.
#[derive(Clone, Debug)]
pub(crate) struct Scanner<'t> {
    pub rest: &'t str,
}

impl<'t> Scanner<'t> {
    /// The next character, which stays.
    pub fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// The next character, which is taken.
    pub fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let found = chars.next();
        self.rest = chars.as_str();
        found
    }

    /// Blanks and comments, which may hold comments.
    pub fn blanks(&mut self) -> Result<()> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
            if !self.rest.starts_with("(:") {
                return Ok(());
            }
            let mut open = 0_usize;
            loop {
                if let Some(rest) = self.rest.strip_prefix("(:") {
                    (self.rest, open) = (rest, open + 1);
                } else if let Some(rest) = self.rest.strip_prefix(":)") {
                    (self.rest, open) = (rest, open - 1);
                    if open == 0 {
                        break;
                    }
                } else if self.next().is_none() {
                    return error(2340, &[&1]);
                }
            }
        }
    }

    /// Exactly this text, with no blanks before it.
    pub fn eat_here(&mut self, wanted: &str) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// The text, maybe behind blanks.
    pub fn eat(&mut self, wanted: &str) -> Result<bool> {
        self.blanks()?;
        Ok(self.eat_here(wanted))
    }

    /// As `eat`: error 9303 where it is not there.
    pub fn expect(&mut self, wanted: &str) -> Result<()> {
        match self.eat(wanted)? {
            true => Ok(()),
            false => error(9303, &[&self.near(), &wanted]),
        }
    }

    /// Is it this word next, and not one that is longer?
    pub fn at_word(&mut self, word: &str) -> Result<bool> {
        self.blanks()?;
        let rest = self.rest.strip_prefix(word);
        Ok(rest.is_some_and(|r| !r.starts_with(|c| is_name(c) || c == ':')))
    }

    /// As `at_word`, and takes it.
    pub fn eat_word(&mut self, word: &str) -> Result<bool> {
        let found = self.at_word(word)?;
        if found {
            self.eat_here(word);
        }
        Ok(found)
    }

    /// The words one after the other, or nothing.
    pub fn eat_words(&mut self, words: &[&str]) -> Result<bool> {
        let before = self.rest;
        for word in words {
            if !self.eat_word(word)? {
                self.rest = before;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Is it the word with a variable behind it?
    pub fn at_word_and_variable(&mut self, word: &str) -> Result<bool> {
        if !self.at_word(word)? {
            return Ok(false);
        }
        let mut ahead = self.clone();
        ahead.eat_here(word);
        ahead.blanks()?;
        Ok(ahead.rest.starts_with('$'))
    }

    /// May a name begin here?
    pub fn starts_name(&self) -> bool {
        self.peek().is_some_and(starts_name)
    }

    /// A name without a colon.
    pub fn name(&mut self) -> Result<&'t str> {
        if !self.starts_name() {
            return error(2223, &[&self.near()]);
        }
        let end = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(name)
    }

    /// `local` or `prefix:local`, as prefix and local name.
    pub fn qualified_name(&mut self) -> Result<(&'t str, &'t str)> {
        let first = self.name()?;
        let rest = self.rest.strip_prefix(':');
        if rest.is_some_and(|r| r.starts_with(starts_name)) {
            self.next();
            return Ok((first, self.name()?));
        }
        Ok(("", first))
    }

    /// What messages show of the place: a word, a character, or `<eof>`.
    pub fn near(&self) -> String {
        let rest = self.rest.trim_start();
        let Some(first) = rest.chars().next() else {
            return "<eof>".into();
        };
        let of_variable = rest.strip_prefix('$');
        if let Some(name) = of_variable {
            let name = name.chars().take_while(|c| is_name(*c)).take(64);
            return std::iter::once('$').chain(name).collect();
        }
        match is_name(first) {
            true => rest.chars().take_while(|c| is_name(*c)).take(64).collect(),
            false => first.to_string(),
        }
    }

    /// Does a number or a text in quotes begin here?
    pub fn at_literal(&self) -> bool {
        let mut chars = self.rest.chars();
        match (chars.next(), chars.next()) {
            (Some('"' | '\''), _) => true,
            (Some('.'), Some(c)) => c.is_ascii_digit(),
            (Some(c), _) => c.is_ascii_digit(),
            _ => false,
        }
    }

    /// A number or a text in quotes: errors 2274, 2342.
    pub fn literal(&mut self) -> Result<Atom> {
        match self.peek() {
            Some('"' | '\'') => Ok(Atom::string(self.string()?)),
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Result<Atom> {
        let digits = |text: &str| {
            text.find(|c: char| !c.is_ascii_digit())
                .unwrap_or(text.len())
        };
        let mut end = digits(self.rest);
        let after = |end: usize| self.rest.get(end..).unwrap_or_default();
        let is_decimal = after(end).starts_with('.');
        if is_decimal {
            end += 1;
            end += digits(after(end));
        }
        let mut is_double = false;
        if after(end).starts_with(['e', 'E']) {
            is_double = true;
            end += 1;
            if after(end).starts_with(['+', '-']) {
                end += 1;
            }
            end += digits(after(end));
        }
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        let found = match (is_double, is_decimal) {
            (true, _) => text.parse().ok().map(Atom::Double),
            (false, true) => Decimal::parse_literal(text).ok().map(Atom::Decimal),
            (false, false) => text.parse().ok().map(Atom::Integer),
        };
        match found {
            Some(atom) if !self.starts_name() => Ok(atom),
            _ => error(2342, &[]),
        }
    }

    /// A text in quotes, which stand doubled in it; with the entities of XML.
    pub fn string(&mut self) -> Result<String> {
        self.blanks()?;
        let Some(quote @ ('"' | '\'')) = self.peek() else {
            return error(2225, &[]);
        };
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                Some(c) if c == quote => {
                    if self.peek() != Some(quote) {
                        return Ok(text);
                    }
                    self.next();
                    text.push(quote);
                }
                Some('&') => text.push(self.entity()?),
                Some(c) => text.push(c),
                None => return error(2274, &[&1]),
            }
        }
    }

    /// What stands behind `&`.
    pub fn entity(&mut self) -> Result<char> {
        let Some((inside, rest)) = self.rest.split_once(';') else {
            return error(2282, &[]);
        };
        let found = match inside.strip_prefix('#') {
            Some(number) => {
                let (digits, radix) = match number.strip_prefix('x') {
                    Some(hexadecimal) => (hexadecimal, 16),
                    None => (number, 10),
                };
                // Numbers of Rust may have a sign.
                let is_number = digits.chars().all(|c| c.is_digit(radix));
                let code = u32::from_str_radix(digits, radix);
                let found = code.ok().filter(|_| is_number).and_then(char::from_u32);
                match found.filter(|c| is_allowed(*c)) {
                    Some(c) => c,
                    None => return error(2285, &[]),
                }
            }
            None => match predefined(inside) {
                Some(c) => c,
                None => return error(2282, &[]),
            },
        };
        self.rest = rest;
        Ok(found)
    }
}
