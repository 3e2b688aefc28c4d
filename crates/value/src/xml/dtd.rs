//! Declarations of a document's internal subset, as far as CONVERT with the styles 2 and 3 takes them: entities with their texts, and values
//! of attributes that elements have without naming them.
//!
//! Theory: they are read before the document, by the same reader, and the document is then read with what they say. What
//! elements may hold is checked for its form only, and what lies outside the text is never read: as in the product. The
//! first declaration of a name counts.
//!
//! Invariant: what is declared is no longer than the text. What references and defaults add to it is bounded by the reader.

use super::{Reader, is_allowed, is_blank};
use crate::ValueError;
use std::collections::{HashMap, HashSet};

/// What an internal subset declares.
#[derive(Default)]
pub(super) struct Dtd {
    /// Texts by the names of entities; `None` lies outside.
    pub entities: HashMap<String, Option<String>>,
    /// Names and values of attributes, by the names of elements.
    pub defaults: HashMap<String, Vec<(String, String)>>,
    /// Elements and attributes in `defaults`: the first declaration counts.
    known: HashSet<(String, String)>,
    /// Bytes of the text from the declaration on, and behind it.
    pub place: (usize, usize),
}

impl Reader<'_, '_> {
    /// The document type declaration before the first element, if there is one.
    pub(super) fn prolog(&mut self) -> Result<Option<Dtd>, ValueError> {
        loop {
            self.blanks();
            let from = self.rest.len();
            if self.eat("<!DOCTYPE") {
                let mut dtd = Dtd::default();
                self.doctype(&mut dtd)?;
                dtd.place = (from, self.rest.len());
                return Ok(Some(dtd));
            }
            if self.eat("<!--") {
                self.until("-->")?;
            } else if self.eat("<?") {
                self.until("?>")?;
            } else {
                return Ok(None);
            }
        }
    }

    fn doctype(&mut self, dtd: &mut Dtd) -> Result<(), ValueError> {
        self.needed_blanks()?;
        self.qualified_name()?;
        if self.blanks() {
            self.external_id(true)?;
        }
        self.blanks();
        if self.eat("[") {
            while !self.eat("]") {
                self.subset_part(dtd)?;
            }
        }
        self.declared_end()
    }

    /// A declaration, or what may stand between two.
    fn subset_part(&mut self, dtd: &mut Dtd) -> Result<(), ValueError> {
        if self.blanks() {
            return Ok(());
        }
        if self.eat("<!--") {
            let inside = self.until("-->")?;
            return match inside.contains("--") {
                true => Err(self.error(9424)),
                false => Ok(()),
            };
        }
        if self.eat("<?") {
            return self.until("?>").map(|_| ());
        }
        if self.eat("<!ENTITY") {
            return self.entity_declaration(dtd);
        }
        if self.eat("<!ATTLIST") {
            return self.attributes_declaration(dtd);
        }
        if self.eat("<!ELEMENT") {
            self.needed_blanks()?;
            self.qualified_name()?;
            self.needed_blanks()?;
            return self.content_model();
        }
        if self.eat("<!NOTATION") {
            self.needed_blanks()?;
            self.name()?;
            self.needed_blanks()?;
            self.external_id(false)?;
            return self.declared_end();
        }
        Err(self.error_at_next(match self.peek() {
            // Entities of declarations.
            Some('%') => 9444,
            _ => 9427,
        }))
    }

    fn entity_declaration(&mut self, dtd: &mut Dtd) -> Result<(), ValueError> {
        self.needed_blanks()?;
        if self.peek() == Some('%') {
            return Err(self.error_at_next(9444));
        }
        let name = self.name()?.to_string();
        self.needed_blanks()?;
        let text = match self.peek() {
            Some('"' | '\'') => Some(self.entity_text()?),
            _ => {
                if !self.external_id(true)? {
                    return Err(self.error_at_next(9429));
                }
                if self.blanks() && self.eat("NDATA") {
                    self.needed_blanks()?;
                    self.name()?;
                }
                None
            }
        };
        dtd.entities.entry(name).or_insert(text);
        self.declared_end()
    }

    /// The text of an entity: characters by number are replaced, references to others stay.
    fn entity_text(&mut self) -> Result<String, ValueError> {
        let Some(quote) = self.next() else {
            return Err(self.error(9400));
        };
        let mut text = String::new();
        loop {
            match self.peek() {
                Some(c) if c == quote => {
                    self.next();
                    return Ok(text);
                }
                Some('%') => return Err(self.error_at_next(9444)),
                Some('&') if self.rest.starts_with("&#") => text.push(self.entity()?),
                Some(c) if is_allowed(c) => {
                    self.next();
                    text.push(c);
                }
                _ => return Err(self.error_at_next(9420)),
            }
        }
    }

    fn attributes_declaration(&mut self, dtd: &mut Dtd) -> Result<(), ValueError> {
        self.needed_blanks()?;
        let element = self.qualified_name()?.to_string();
        loop {
            let is_apart = self.blanks();
            if self.eat(">") {
                return Ok(());
            }
            if !is_apart {
                return Err(self.error_at_next(9410));
            }
            let name = self.qualified_name()?.to_string();
            self.needed_blanks()?;
            self.attribute_type()?;
            self.needed_blanks()?;
            if self.eat("#REQUIRED") || self.eat("#IMPLIED") {
                continue;
            }
            if self.eat("#FIXED") {
                self.needed_blanks()?;
            }
            let value = self.attribute_value()?;
            if dtd.known.insert((element.clone(), name.clone())) {
                let of_element = dtd.defaults.entry(element.clone()).or_default();
                of_element.push((name, value));
            }
        }
    }

    /// A word, or the values that there may be.
    fn attribute_type(&mut self) -> Result<(), ValueError> {
        const WORDS: [&str; 8] = [
            "CDATA", "IDREFS", "IDREF", "ID", "ENTITIES", "ENTITY", "NMTOKENS", "NMTOKEN",
        ];
        if WORDS.iter().any(|word| self.eat(word)) {
            return Ok(());
        }
        if self.eat("NOTATION") {
            self.needed_blanks()?;
        }
        if !self.eat("(") {
            return Err(self.error_at_next(9426));
        }
        let is_value = |c: char| super::is_name(c) || is_blank(c) || matches!(c, ':' | '|');
        self.take_while(is_value);
        match self.eat(")") {
            true => Ok(()),
            false => Err(self.error_at_next(9426)),
        }
    }

    /// EMPTY, ANY, or names in parentheses that close.
    fn content_model(&mut self) -> Result<(), ValueError> {
        if self.eat("EMPTY") || self.eat("ANY") {
            return self.declared_end();
        }
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                Some('(') => depth += 1,
                Some(')') if depth > 0 => depth -= 1,
                Some('>') if depth == 0 => return self.declared_end(),
                Some(',' | '|' | '?' | '*' | '+' | '#' | ':') if depth > 0 => {}
                Some('?' | '*' | '+') => {}
                Some(c) if is_blank(c) || depth > 0 && super::is_name(c) => {}
                _ => return Err(self.error_at_next(9428)),
            }
            self.next();
        }
    }

    /// `SYSTEM "where"` or `PUBLIC "name" "where"`: nothing is read there. Was there one?
    fn external_id(&mut self, has_place: bool) -> Result<bool, ValueError> {
        let is_public = self.eat("PUBLIC");
        if !is_public && !self.eat("SYSTEM") {
            return Ok(false);
        }
        self.needed_blanks()?;
        self.quoted()?;
        let is_more = is_public && self.blanks() && matches!(self.peek(), Some('"' | '\''));
        if is_more || is_public && has_place {
            self.quoted()?;
        }
        Ok(true)
    }

    fn quoted(&mut self) -> Result<(), ValueError> {
        match self.peek() {
            Some(quote @ ('"' | '\'')) => {
                self.next();
                self.until(if quote == '"' { "\"" } else { "'" })
                    .map(|_| ())
            }
            _ => Err(self.error_at_next(9413)),
        }
    }

    fn declared_end(&mut self) -> Result<(), ValueError> {
        self.blanks();
        match self.eat(">") {
            true => Ok(()),
            false => Err(self.error_at_next(9412)),
        }
    }

    fn needed_blanks(&mut self) -> Result<(), ValueError> {
        match self.blanks() {
            true => Ok(()),
            false => Err(self.error_at_next(9410)),
        }
    }
}
