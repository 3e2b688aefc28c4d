//! Checking a text, and passing over its values.

use super::{DEPTH_MAX, unexpected};
use crate::ValueError;
use std::borrow::Cow;

/// What a value is, by the numbers that OPENJSON gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Null = 0,
    String = 1,
    Number = 2,
    Bool = 3,
    Array = 4,
    Object = 5,
}

/// A value in a text that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<'a> {
    pub kind: Kind,
    /// The value as it is written.
    pub text: &'a str,
    /// Where it begins in the whole text.
    pub start: usize,
}

/// Checks a text that is one value of any kind: 13609 at the first character that does not belong there.
pub fn parse(text: &str) -> Result<Node<'_>, ValueError> {
    let mut scanner = Scanner { text, at: 0 };
    scanner.blanks();
    let found = scanner.value(0).and_then(|node| {
        scanner.blanks();
        match scanner.at == text.len() {
            true => Ok(node),
            false => Err(scanner.at),
        }
    });
    found.map_err(|at| unexpected(13609, text, at))
}

/// As [`parse`], of an object or array: what most functions take.
pub fn parse_container(text: &str) -> Result<Node<'_>, ValueError> {
    let node = parse(text)?;
    match node.kind {
        Kind::Object | Kind::Array => Ok(node),
        _ => Err(unexpected(13609, text, node.start)),
    }
}

impl<'a> Node<'a> {
    /// Is it an object or an array?
    pub fn is_container(&self) -> bool {
        matches!(self.kind, Kind::Object | Kind::Array)
    }

    /// Keys and values of an object, in their order.
    pub fn members(&self) -> impl Iterator<Item = (Cow<'a, str>, Node<'a>)> + use<'a> {
        self.children(Kind::Object)
            .map(|(key, node)| (unescaped(key), node))
    }

    /// Values of an array, in their order.
    pub fn elements(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        self.children(Kind::Array).map(|(_, node)| node)
    }

    /// The first value with this key.
    pub fn member(&self, key: &str) -> Option<Node<'a>> {
        self.members().find(|(k, _)| k == key).map(|(_, node)| node)
    }

    fn children(&self, kind: Kind) -> Children<'a> {
        let text = if self.kind == kind { self.text } else { "" };
        Children {
            scanner: Scanner { text, at: 0 },
            offset: self.start,
            kind,
        }
    }

    /// A string without its quotes and escapes; any other value as it is written.
    pub fn content(&self) -> Cow<'a, str> {
        match self.kind {
            Kind::String => unescaped(self.text),
            _ => Cow::Borrowed(self.text),
        }
    }

    /// Where it ends in the whole text.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

struct Children<'a> {
    scanner: Scanner<'a>,
    offset: usize,
    kind: Kind,
}

impl<'a> Iterator for Children<'a> {
    /// The key as it is written, and the value.
    type Item = (&'a str, Node<'a>);

    fn next(&mut self) -> Option<(&'a str, Node<'a>)> {
        let scanner = &mut self.scanner;
        // The opening bracket, or the comma before the next value.
        scanner.at += 1;
        scanner.blanks();
        match scanner.peek()? {
            b']' | b'}' => return None,
            _ => {}
        }
        let key = match self.kind {
            Kind::Object => {
                let key = scanner.string().ok()?;
                scanner.blanks();
                scanner.at += 1;
                scanner.blanks();
                key
            }
            _ => "",
        };
        let node = scanner.value(0).ok()?;
        scanner.blanks();
        let node = Node {
            start: node.start + self.offset,
            ..node
        };
        Some((key, node))
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

/// Where the character stands that is wrong.
type Scan<T> = Result<T, usize>;

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Scan<()> {
        match self.peek() == Some(byte) {
            true => {
                self.at += 1;
                Ok(())
            }
            false => Err(self.at),
        }
    }

    fn value(&mut self, depth: usize) -> Scan<Node<'a>> {
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{' | b'[') if depth >= DEPTH_MAX => return Err(start),
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => self.string().map(|_| Kind::String)?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", Kind::Bool)?,
            Some(b'f') => self.word("false", Kind::Bool)?,
            Some(b'n') => self.word("null", Kind::Null)?,
            _ => return Err(start),
        };
        let text = self.text.get(start..self.at).ok_or(start)?;
        Ok(Node { kind, text, start })
    }

    fn object(&mut self, depth: usize) -> Scan<Kind> {
        self.expect(b'{')?;
        self.blanks();
        if self.expect(b'}').is_ok() {
            return Ok(Kind::Object);
        }
        loop {
            self.blanks();
            self.string()?;
            self.blanks();
            self.expect(b':')?;
            self.blanks();
            self.value(depth + 1)?;
            self.blanks();
            if self.expect(b'}').is_ok() {
                return Ok(Kind::Object);
            }
            self.expect(b',')?;
        }
    }

    fn array(&mut self, depth: usize) -> Scan<Kind> {
        self.expect(b'[')?;
        self.blanks();
        if self.expect(b']').is_ok() {
            return Ok(Kind::Array);
        }
        loop {
            self.blanks();
            self.value(depth + 1)?;
            self.blanks();
            if self.expect(b']').is_ok() {
                return Ok(Kind::Array);
            }
            self.expect(b',')?;
        }
    }

    /// With its quotes.
    fn string(&mut self) -> Scan<&'a str> {
        let start = self.at;
        self.expect(b'"')?;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0..=0x1F) | None => return Err(self.at),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        self.text.get(start..self.at).ok_or(start)
    }

    fn escape(&mut self) -> Scan<()> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    match self.peek() {
                        Some(digit) if digit.is_ascii_hexdigit() => self.at += 1,
                        _ => return Err(self.at),
                    }
                }
            }
            _ => return Err(self.at),
        }
        Ok(())
    }

    fn number(&mut self) -> Scan<Kind> {
        let _ = self.expect(b'-');
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.expect(b'.').is_ok() {
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Kind::Number)
    }

    fn digits(&mut self) -> Scan<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        match self.at > start {
            true => Ok(()),
            false => Err(start),
        }
    }

    fn word(&mut self, word: &str, kind: Kind) -> Scan<Kind> {
        for byte in word.bytes() {
            self.expect(byte)?;
        }
        Ok(kind)
    }
}

/// What a checked string means. Half of a surrogate pair alone is no character.
fn unescaped(quoted: &str) -> Cow<'_, str> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1));
    let inner = inner.unwrap_or_default();
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    let mut units = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        let (plain, escaped) = rest.split_at(at);
        units.extend(plain.encode_utf16());
        let code = escaped.as_bytes().get(1).copied().unwrap_or(b'\\');
        let (unit, len) = match code {
            b'u' => {
                let digits = escaped.get(2..6).unwrap_or("0");
                (u16::from_str_radix(digits, 16).unwrap_or(0), 6)
            }
            b'b' => (0x8, 2),
            b'f' => (0xC, 2),
            b'n' => (0xA, 2),
            b'r' => (0xD, 2),
            b't' => (0x9, 2),
            other => (u16::from(other), 2),
        };
        units.push(unit);
        rest = escaped.get(len..).unwrap_or_default();
    }
    units.extend(rest.encode_utf16());
    Cow::Owned(String::from_utf16_lossy(&units))
}
