//! Is a text an XML fragment? What `CAST(.. AS xml)` asks before it takes a text in.
//!
//! Theory: one pass over the characters with a stack of open elements; nothing is built. A fragment may have any number
//! of elements and texts at its top. Errors carry the product's numbers with the place: line and character, from 1.
//!
//! Invariant: depth is bounded (`DEPTH_MAX`), so the stack is; every step takes at least one character, and time in
//! proportion to what it takes.

use crate::ValueError;
use std::collections::{HashMap, HashSet};

/// Elements within elements: error 6335.
const DEPTH_MAX: usize = 128;

/// The fragment without its XML declaration. `is_unicode`: the text came as UTF-16, so a declaration must not name
/// another encoding.
pub(crate) fn fragment(text: &str, is_unicode: bool) -> Result<&str, ValueError> {
    let mut reader = Reader {
        rest: text,
        line: 1,
        character: 0,
        open: Vec::new(),
        prefixes: Vec::new(),
        declared: HashMap::new(),
    };
    reader.declaration(is_unicode)?;
    let kept = reader.rest;
    while !reader.rest.is_empty() {
        reader.step()?;
    }
    match reader.open.is_empty() {
        true => Ok(kept),
        false => Err(reader.error(9400)),
    }
}

/// An element whose end is to come.
struct Open<'t> {
    name: &'t str,
    /// Prefixes that were declared outside.
    prefixes_before: usize,
}

struct Reader<'t> {
    rest: &'t str,
    line: usize,
    character: usize,
    open: Vec<Open<'t>>,
    /// Prefixes in the order of their declarations, and how often each is declared.
    prefixes: Vec<&'t str>,
    declared: HashMap<&'t str, usize>,
}

impl<'t> Reader<'t> {
    fn error(&self, number: i32) -> ValueError {
        ValueError::new(number, 1, &[&self.line, &self.character.max(1)])
    }

    /// At the character that comes next, or at the end of all.
    fn error_at_next(&mut self, number: i32) -> ValueError {
        match self.next() {
            Some(_) => self.error(number),
            None => self.error(9400),
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next()?;
        self.rest = chars.as_str();
        match c {
            '\n' => (self.line, self.character) = (self.line + 1, 0),
            _ => self.character += 1,
        }
        Some(c)
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let found = self.rest.starts_with(wanted);
        if found {
            for _ in wanted.chars() {
                self.next();
            }
        }
        found
    }

    fn blanks(&mut self) -> bool {
        let before = self.rest.len();
        while self.peek().is_some_and(is_blank) {
            self.next();
        }
        self.rest.len() < before
    }

    /// All up to `end`, which is taken too.
    fn until(&mut self, end: &str) -> Result<&'t str, ValueError> {
        let start = self.rest;
        let Some(at) = start.find(end) else {
            while self.next().is_some() {}
            return Err(self.error(9400));
        };
        let inside = start.get(..at).unwrap_or_default();
        while self.rest.len() > start.len() - at - end.len() {
            let c = self.next();
            if c.is_some_and(|c| !is_allowed(c)) {
                return Err(self.error(9420));
            }
        }
        Ok(inside)
    }

    fn declaration(&mut self, is_unicode: bool) -> Result<(), ValueError> {
        self.eat("\u{feff}");
        let is_declared = self
            .rest
            .strip_prefix("<?xml")
            .is_some_and(|rest| rest.starts_with(is_blank));
        if !is_declared {
            return Ok(());
        }
        let inside = self.until("?>")?;
        if !inside.contains("version") {
            return Err(self.error(9441));
        }
        let lower = inside.to_ascii_lowercase();
        let names_wide = lower.contains("utf-16") || lower.contains("ucs-2");
        match lower.contains("encoding") && names_wide != is_unicode {
            true => Err(self.error(9402)),
            false => Ok(()),
        }
    }

    /// A piece of markup, an entity or a character of text.
    fn step(&mut self) -> Result<(), ValueError> {
        if self.eat("<!--") {
            let inside = self.until("-->")?;
            return match inside.contains("--") {
                true => Err(self.error(9424)),
                false => Ok(()),
            };
        }
        if self.eat("<![CDATA[") {
            return self.until("]]>").map(|_| ());
        }
        if self.eat("<!DOCTYPE") {
            return Err(ValueError::new(6359, 1, &[]));
        }
        if self.eat("<?") {
            let target = self.name()?;
            if target.eq_ignore_ascii_case("xml") {
                return Err(self.error(9438));
            }
            return self.until("?>").map(|_| ());
        }
        if self.eat("</") {
            return self.end_tag();
        }
        if self.eat("<") {
            return self.start_tag();
        }
        match self.peek() {
            Some('&') => self.entity(),
            Some(c) if is_allowed(c) => {
                self.next();
                Ok(())
            }
            _ => Err(self.error_at_next(9420)),
        }
    }

    fn start_tag(&mut self) -> Result<(), ValueError> {
        let name = self.qualified_name()?;
        let before = self.prefixes.len();
        let mut attributes: HashSet<&str> = HashSet::new();
        let is_empty = loop {
            let separated = self.blanks();
            if self.eat("/>") {
                break true;
            }
            if self.eat(">") {
                break false;
            }
            if !separated {
                return Err(self.error_at_next(9410));
            }
            let attribute = self.attribute()?;
            if !attributes.insert(attribute) {
                return Err(self.error(9437));
            }
        };
        let names = std::iter::once(&name).chain(&attributes);
        let unknown = |name: &&str| match name.split_once(':') {
            Some(("xml" | "xmlns", _)) | None => false,
            Some((prefix, _)) => !self.declared.contains_key(prefix),
        };
        if names.copied().any(|n| unknown(&n)) {
            return Err(self.error(9459));
        }
        if is_empty {
            self.forget_prefixes(before);
            return Ok(());
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(ValueError::new(6335, 1, &[&DEPTH_MAX]));
        }
        self.open.push(Open {
            name,
            prefixes_before: before,
        });
        Ok(())
    }

    /// Takes back declarations down to so many.
    fn forget_prefixes(&mut self, left: usize) {
        while self.prefixes.len() > left
            && let Some(prefix) = self.prefixes.pop()
        {
            match self.declared.get_mut(prefix) {
                Some(times) if *times > 1 => *times -= 1,
                _ => {
                    self.declared.remove(prefix);
                }
            }
        }
    }

    fn attribute(&mut self) -> Result<&'t str, ValueError> {
        let name = self.qualified_name()?;
        self.blanks();
        if !self.eat("=") {
            return Err(self.error_at_next(9414));
        }
        self.blanks();
        let quote = match self.peek() {
            Some(quote @ ('"' | '\'')) => quote,
            _ => return Err(self.error_at_next(9413)),
        };
        self.next();
        loop {
            match self.peek() {
                Some(c) if c == quote => break,
                Some('<') => return Err(self.error_at_next(9415)),
                Some('&') => self.entity()?,
                Some(c) if is_allowed(c) => {
                    self.next();
                }
                _ => return Err(self.error_at_next(9420)),
            }
        }
        self.next();
        if let Some(prefix) = name.strip_prefix("xmlns:") {
            self.prefixes.push(prefix);
            *self.declared.entry(prefix).or_default() += 1;
        }
        Ok(name)
    }

    fn end_tag(&mut self) -> Result<(), ValueError> {
        let name = self.qualified_name()?;
        self.blanks();
        if !self.eat(">") {
            return Err(self.error_at_next(9412));
        }
        match self.open.pop() {
            Some(open) if open.name == name => {
                self.forget_prefixes(open.prefixes_before);
                Ok(())
            }
            _ => Err(self.error(9436)),
        }
    }

    fn entity(&mut self) -> Result<(), ValueError> {
        self.next();
        if self.eat("#") {
            let radix = if self.eat("x") { 16 } else { 10 };
            let digits = self.take_while(|c| c.is_digit(radix));
            if digits.is_empty() {
                return Err(self.error_at_next(if radix == 16 { 9416 } else { 9417 }));
            }
            let code = u32::from_str_radix(digits, radix).ok();
            if !code.and_then(char::from_u32).is_some_and(is_allowed) {
                return Err(self.error(9420));
            }
        } else {
            let name = self.name()?;
            if !matches!(name, "amp" | "lt" | "gt" | "quot" | "apos") {
                return Err(self.error_at_next(if self.peek() == Some(';') { 9448 } else { 9411 }));
            }
        }
        match self.eat(";") {
            true => Ok(()),
            false => Err(self.error_at_next(9411)),
        }
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'t str {
        let start = self.rest;
        while self.peek().is_some_and(&wanted) {
            self.next();
        }
        start
            .get(..start.len() - self.rest.len())
            .unwrap_or_default()
    }

    fn name(&mut self) -> Result<&'t str, ValueError> {
        match self.peek() {
            Some(c) if starts_name(c) => Ok(self.take_while(is_name)),
            _ => Err(self.error_at_next(9421)),
        }
    }

    /// `local` or `prefix:local`.
    fn qualified_name(&mut self) -> Result<&'t str, ValueError> {
        let start = self.rest;
        if !self.peek().is_some_and(starts_name) {
            return Err(self.error_at_next(9455));
        }
        self.take_while(is_name);
        if self.eat(":") {
            if !self.peek().is_some_and(starts_name) {
                return Err(self.error_at_next(9455));
            }
            self.take_while(is_name);
            if self.peek() == Some(':') {
                return Err(self.error_at_next(9456));
            }
        }
        Ok(start
            .get(..start.len() - self.rest.len())
            .unwrap_or_default())
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn is_allowed(c: char) -> bool {
    is_blank(c) || c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// May a name without a prefix begin with this character?
pub fn starts_name(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

/// May it go on with this one?
pub fn is_name(c: char) -> bool {
    starts_name(c) || c.is_numeric() || matches!(c, '-' | '.' | '\u{b7}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> i32 {
        fragment(text, true).map_or_else(|e| e.number(), |_| 0)
    }

    #[test]
    fn fragments_are_taken() {
        for text in [
            "",
            "plain &amp; &#65;&#x41;",
            "<a/>",
            "<a b='1' c=\"2\">x<!-- - --><b/></a><c/>",
            "<?xml version=\"1.0\"?><a/>",
            "<p:a xmlns:p='u'><p:b p:c=''/></p:a>",
            "<a><![CDATA[<b>]]></a><?go on?>",
            "<a xml:lang='de'>é</a >",
            "<a xmlns:p='u'><p:b xmlns:p='v'><p:c/></p:b><p:d/></a>",
        ] {
            assert_eq!(number(text), 0, "{text}");
        }
        assert_eq!(fragment("<?xml version='1.0'?><a/>", true), Ok("<a/>"));
    }

    #[test]
    fn what_is_not_well_formed_has_a_number() {
        for (text, wanted) in [
            ("<a>", 9400),
            ("<a", 9400),
            ("<a></b>", 9436),
            ("</a>", 9436),
            ("<a b></a>", 9414),
            ("<a b=c/>", 9413),
            ("<a b='<'/>", 9415),
            ("<a b='1' b='2'/>", 9437),
            ("<a b='1'c='2'/>", 9410),
            ("<1/>", 9455),
            ("a & b", 9421),
            ("&amp x", 9411),
            ("&nbsp;", 9448),
            ("<p:a/>", 9459),
            ("<p:a xmlns:p='u'/><p:b/>", 9459),
            ("<a xmlns:p='u'><b xmlns:p='v'/><p:c/></a><p:d/>", 9459),
            ("\u{1}", 9420),
            ("<a>&#1;</a>", 9420),
            ("<!-- a -- b -->", 9424),
            ("<!-- a", 9400),
            ("<a/><?xml version='1.0'?>", 9438),
            ("<?xml version='1.0' encoding='utf-8'?><a/>", 9402),
            ("<!DOCTYPE a><a/>", 6359),
        ] {
            assert_eq!(number(text), wanted, "{text}");
        }
        let deep = "<a>".repeat(DEPTH_MAX + 1);
        assert_eq!(number(&deep), 6335);
        let place = fragment("<a>\n</b>", true).map_err(|e| e.to_string());
        let told = "XML parsing: line 2, character 4, end tag does not match start tag";
        assert_eq!(place, Err(told.to_string()));
    }

    /// Looking through all attributes or prefixes for each would take hours.
    #[test]
    fn many_attributes_and_prefixes_take_no_longer_than_they_are() {
        let each = |form: fn(usize) -> String| (0..300_000).map(form).collect::<String>();
        let attributes = each(|n| format!(" a{n}=''"));
        assert_eq!(number(&format!("<a{attributes}/>")), 0);
        assert_eq!(number(&format!("<a{attributes} a7=''/>")), 9437);
        let (declared, used) = (
            each(|n| format!(" xmlns:p{n}='u'")),
            each(|n| format!("<p{n}:b/>")),
        );
        assert_eq!(number(&format!("<a{declared}>{used}</a>")), 0);
        assert_eq!(number(&format!("<a{declared}/>{used}")), 9459);
    }
}
