//! XML fragments: are they well-formed, and what is in them. `CAST(.. AS xml)` asks before it takes a text in.
//!
//! Theory: one pass over the characters with a stack of open elements; what is found is told to [`Events`]. A fragment may
//! have any number of elements and texts at its top. Errors carry the product's numbers with the place: line and
//! character, from 1. The writer of the normal form is such a listener, and so is the tree that XML methods walk: there is
//! one idea of what is well-formed.
//!
//! Invariant: depth is bounded (`DEPTH_MAX`), so the stack is; every step takes at least one character, and time in
//! proportion to what it takes. No entity but the five and characters is replaced, so nothing grows; where CONVERT asks for declarations
//! (`dtd`), what they add to a document is bounded (`ADDED_BYTES_MAX`).

mod dtd;

use crate::{LARGE_BYTES_MAX, ValueError};
use dtd::Dtd;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Elements within elements: error 6335.
pub const DEPTH_MAX: usize = 128;

/// Bytes that entities and default values may add to a document: each reference adds the entity's text, and so may ten lines
/// be gigabytes.
const ADDED_BYTES_MAX: usize = 1 << 20;
/// Entities within entities.
const ENTITY_DEPTH_MAX: usize = 1_000;

/// Who is told what a fragment holds, in its order. Names are as written, with their prefixes; values are without
/// entities.
pub trait Events {
    /// An element begins.
    fn start(&mut self, name: &str, attributes: &[Attribute<'_>]) -> Result<(), ValueError>;
    /// The innermost element ends.
    fn end(&mut self) -> Result<(), ValueError>;
    /// A text, whole up to the next markup.
    fn text(&mut self, text: &str) -> Result<(), ValueError>;
    /// A comment, without its marks.
    fn comment(&mut self, text: &str) -> Result<(), ValueError>;
    /// A processing instruction.
    fn instruction(&mut self, target: &str, data: &str) -> Result<(), ValueError>;
}

/// An attribute or the declaration of a namespace.
#[derive(Debug)]
pub struct Attribute<'t> {
    pub name: &'t str,
    pub value: Cow<'t, str>,
}

/// The fragment in its normal form, without XML declaration. `is_unicode`: the text came as UTF-16, so a declaration must
/// not name another encoding. Text of blanks alone goes, unless `keeps_blanks` or xml:space say otherwise. With `reads_dtd` there may be a
/// document type declaration, which is not in the normal form.
pub(crate) fn normal_form(
    text: &str,
    is_unicode: bool,
    keeps_blanks: bool,
    reads_dtd: bool,
) -> Result<String, ValueError> {
    let mut writer = Writer::new(text, true);
    read_with(text, is_unicode, keeps_blanks, reads_dtd, &mut writer)?;
    writer.finish()
}

/// A normal form with blanks as they are: without an element that keeps them, they are lost where the text is read again.
pub(crate) fn with_plain_blanks(normal: &str) -> Result<String, ValueError> {
    let mut writer = Writer::new(normal, false);
    read(normal, true, true, &mut writer)?;
    writer.finish()
}

/// Tells what is in a fragment: errors 9400 and following. `keeps_blanks`: text of blanks alone is told too.
pub fn read(
    text: &str,
    is_unicode: bool,
    keeps_blanks: bool,
    events: &mut dyn Events,
) -> Result<(), ValueError> {
    read_with(text, is_unicode, keeps_blanks, false, events)
}

fn read_with(
    text: &str,
    is_unicode: bool,
    keeps_blanks: bool,
    reads_dtd: bool,
    events: &mut dyn Events,
) -> Result<(), ValueError> {
    let dtd = match reads_dtd {
        true => {
            let mut reader = Reader::new(text, keeps_blanks, &mut *events);
            reader.declaration(is_unicode)?;
            reader.prolog()?
        }
        false => None,
    };
    let mut reader = Reader::new(text, keeps_blanks, events);
    (reader.reads_dtd, reader.dtd) = (reads_dtd, dtd.as_ref());
    reader.declaration(is_unicode)?;
    loop {
        while reader.rest.is_empty() && reader.leave_entity()? {}
        if reader.rest.is_empty() {
            break;
        }
        reader.step()?;
    }
    match reader.open.is_empty() {
        true => reader.tell_text(),
        false => Err(reader.error(9400)),
    }
}

/// Writes the normal form: entities and CDATA resolved, `<a></a>` as `<a/>`, values in double quotes, declarations of
/// namespaces before attributes.
struct Writer {
    out: String,
    open: Vec<String>,
    /// The start tag is not ended yet: its element may turn out to be empty.
    is_start_open: bool,
    /// Text of blanks alone is written so that it is read again.
    guards_blanks: bool,
}

impl Writer {
    fn new(text: &str, guards_blanks: bool) -> Writer {
        Writer {
            out: String::with_capacity(text.len()),
            open: Vec::new(),
            is_start_open: false,
            guards_blanks,
        }
    }

    fn finish(mut self) -> Result<String, ValueError> {
        self.go_on()?;
        Ok(self.out)
    }

    fn go_on(&mut self) -> Result<(), ValueError> {
        if std::mem::take(&mut self.is_start_open) {
            self.out.push('>');
        }
        match self.out.len() > LARGE_BYTES_MAX {
            true => Err(ValueError::too_large()),
            false => Ok(()),
        }
    }
}

impl Events for Writer {
    fn start(&mut self, name: &str, attributes: &[Attribute<'_>]) -> Result<(), ValueError> {
        self.go_on()?;
        self.out.push('<');
        self.out.push_str(name);
        let (declarations, others): (Vec<_>, Vec<_>) =
            attributes.iter().partition(|a| declared(a.name).is_some());
        for Attribute { name, value } in declarations.into_iter().chain(others) {
            self.out.push(' ');
            self.out.push_str(name);
            self.out.push_str("=\"");
            escape_attribute(value, &mut self.out);
            self.out.push('"');
        }
        self.open.push(name.to_string());
        self.is_start_open = true;
        Ok(())
    }

    fn end(&mut self) -> Result<(), ValueError> {
        let name = self.open.pop().unwrap_or_default();
        if std::mem::take(&mut self.is_start_open) {
            self.out.push_str("/>");
        } else {
            self.out.push_str("</");
            self.out.push_str(&name);
            self.out.push('>');
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), ValueError> {
        self.go_on()?;
        match self.guards_blanks {
            true => escape_text(text, &mut self.out),
            false => escape_gap(text, &mut self.out),
        }
        Ok(())
    }

    fn comment(&mut self, text: &str) -> Result<(), ValueError> {
        self.go_on()?;
        self.out.push_str("<!--");
        self.out.push_str(text);
        self.out.push_str("-->");
        Ok(())
    }

    fn instruction(&mut self, target: &str, data: &str) -> Result<(), ValueError> {
        self.go_on()?;
        self.out.push_str("<?");
        self.out.push_str(target);
        if !data.is_empty() {
            self.out.push(' ');
            self.out.push_str(data);
        }
        self.out.push_str("?>");
        Ok(())
    }
}

/// The prefix that an attribute of this name declares; empty for the default namespace.
pub fn declared(name: &str) -> Option<&str> {
    match name {
        "xmlns" => Some(""),
        other => other.strip_prefix("xmlns:"),
    }
}

/// Text with the characters of markup replaced. Of blanks alone the last is a character's number: readers take such text for
/// a gap between elements otherwise.
pub fn escape_text(text: &str, out: &mut String) {
    let last = text.chars().next_back().filter(|_| is_blank_text(text));
    let whole = text.len() - last.map_or(0, char::len_utf8);
    escape_gap(text.get(..whole).unwrap_or_default(), out);
    if let Some(blank) = last {
        let _ = write!(out, "&#x{:02X};", blank as u32);
    }
}

/// Text as [`escape_text`] writes it, and what no document may have as the numbers of its characters.
pub fn escape_any_text(text: &str, out: &mut String) {
    match text.contains(|c| !is_allowed(c)) {
        true => escape_between(text, escape_gap, out),
        false => escape_text(text, out),
    }
}

/// The same for a value between double quotes.
pub fn escape_any_attribute(text: &str, out: &mut String) {
    escape_between(text, escape_attribute, out);
}

/// Bytes that one of the two writes at most, six too many at most.
pub fn escaped_bytes_max(text: &str, is_attribute: bool) -> usize {
    let more = |c: char| match c {
        '<' | '>' => 3,
        '&' => 4,
        '\r' => 5,
        '"' | '\t' | '\n' if is_attribute => 5,
        other if !is_allowed(other) => 5,
        _ => 0,
    };
    text.len() + text.chars().map(more).sum::<usize>() + "&#x20;".len()
}

fn escape_between(text: &str, escape: fn(&str, &mut String), out: &mut String) {
    let mut from = 0;
    for (at, c) in text.char_indices().filter(|(_, c)| !is_allowed(*c)) {
        escape(text.get(from..at).unwrap_or_default(), out);
        let _ = write!(out, "&#x{:02X};", c as u32);
        from = at + c.len_utf8();
    }
    escape(text.get(from..).unwrap_or_default(), out);
}

/// As [`escape_text`], but blanks alone stay as they are.
fn escape_gap(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => out.push_str("&#x0D;"),
            other => out.push(other),
        }
    }
}

/// The same for a value between double quotes.
pub fn escape_attribute(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' => out.push_str("&#x09;"),
            '\n' => out.push_str("&#x0A;"),
            '\r' => out.push_str("&#x0D;"),
            other => out.push(other),
        }
    }
}

/// An element whose end is to come.
struct Open<'t> {
    name: &'t str,
    /// Prefixes that were declared outside.
    prefixes_before: usize,
    /// xml:space="preserve".
    keeps_blanks: bool,
}

/// Where a reference to an entity stands whose text is being read.
struct Reference<'t> {
    entity: &'t str,
    rest: &'t str,
    line: usize,
    character: usize,
    /// Elements that were open there.
    open: usize,
}

struct Reader<'t, 'e> {
    rest: &'t str,
    /// References around what is being read, innermost last.
    references: Vec<Reference<'t>>,
    reads_dtd: bool,
    dtd: Option<&'t Dtd>,
    /// Bytes that entities and defaults have added.
    added: usize,
    line: usize,
    character: usize,
    open: Vec<Open<'t>>,
    /// Prefixes in the order of their declarations, and the numbers of each one's namespaces, innermost last.
    prefixes: Vec<&'t str>,
    declared: HashMap<&'t str, Vec<usize>>,
    /// Namespaces by their numbers: each is looked at as a text only where it is declared.
    namespaces: HashMap<String, usize>,
    /// Text since the last markup.
    pending: String,
    /// It has more than blanks that are written as such.
    is_pending_kept: bool,
    keeps_blanks: bool,
    events: &'e mut dyn Events,
}

impl<'t, 'e> Reader<'t, 'e> {
    fn new(text: &'t str, keeps_blanks: bool, events: &'e mut dyn Events) -> Reader<'t, 'e> {
        Reader {
            rest: text,
            references: Vec::new(),
            reads_dtd: false,
            dtd: None,
            added: 0,
            line: 1,
            character: 0,
            open: Vec::new(),
            prefixes: Vec::new(),
            declared: HashMap::new(),
            namespaces: HashMap::new(),
            pending: String::new(),
            is_pending_kept: false,
            keeps_blanks,
            events,
        }
    }

    fn error(&self, number: i32) -> ValueError {
        // In the text of an entity the place is where the document names it.
        let own = (self.line, self.character);
        let outermost = self.references.first();
        let (line, character) = outermost.map_or(own, |r| (r.line, r.character));
        ValueError::new(number, 1, &[&line, &character.max(1)])
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

    /// Tells of the text before the markup that comes.
    fn tell_text(&mut self) -> Result<(), ValueError> {
        let keeps = self
            .open
            .last()
            .map_or(self.keeps_blanks, |o| o.keeps_blanks);
        self.tell_text_in(keeps)
    }

    /// The same, in an element that keeps text of blanks or not.
    fn tell_text_in(&mut self, keeps_blanks: bool) -> Result<(), ValueError> {
        let is_kept = std::mem::take(&mut self.is_pending_kept) || keeps_blanks;
        let text = std::mem::take(&mut self.pending);
        match is_kept && !text.is_empty() {
            true => self.events.text(&text),
            false => Ok(()),
        }
    }

    /// A piece of markup, an entity or a character of text.
    fn step(&mut self) -> Result<(), ValueError> {
        if self.eat("<!--") {
            let inside = self.until("-->")?;
            if inside.contains("--") {
                return Err(self.error(9424));
            }
            self.tell_text()?;
            return self.events.comment(&with_line_ends(inside));
        }
        if self.eat("<![CDATA[") {
            let inside = self.until("]]>")?;
            self.pending.push_str(&with_line_ends(inside));
            self.is_pending_kept |= !inside.is_empty();
            return Ok(());
        }
        if self.rest.starts_with("<!DOCTYPE") {
            return self.pass_doctype();
        }
        if self.eat("<?") {
            let target = self.name()?;
            if target.eq_ignore_ascii_case("xml") {
                return Err(self.error(9438));
            }
            let data = self.until("?>")?;
            self.tell_text()?;
            let data = with_line_ends(data.trim_start_matches(is_blank));
            return self.events.instruction(target, &data);
        }
        if self.eat("</") {
            return self.end_tag();
        }
        if self.eat("<") {
            return self.start_tag();
        }
        match self.peek() {
            Some('&') => match self.declared_entity()? {
                Some((name, text)) => self.enter_entity(name, text),
                None => {
                    let c = self.entity()?;
                    self.pending.push(c);
                    self.is_pending_kept = true;
                    Ok(())
                }
            },
            Some(c) if is_allowed(c) => {
                self.next();
                if c == '\r' {
                    self.eat("\n");
                }
                self.pending.push(if c == '\r' { '\n' } else { c });
                self.is_pending_kept |= !is_blank(c);
                Ok(())
            }
            _ => Err(self.error_at_next(9420)),
        }
    }

    /// Goes over the declaration that has been read already.
    fn pass_doctype(&mut self) -> Result<(), ValueError> {
        let place = self.dtd.map(|dtd| dtd.place);
        let place = place.filter(|(from, _)| *from == self.rest.len());
        match place.filter(|_| self.references.is_empty()) {
            Some((_, behind)) => {
                while self.rest.len() > behind && self.next().is_some() {}
                Ok(())
            }
            None if self.reads_dtd => Err(self.error(9422)),
            None => Err(ValueError::new(6359, 1, &[])),
        }
    }

    /// Counts what is read beside the text itself.
    fn add(&mut self, bytes: usize) -> Result<(), ValueError> {
        self.added = self.added.saturating_add(bytes);
        match self.added > ADDED_BYTES_MAX {
            true => {
                let what = "XML entities and default values of more than 1 MB";
                Err(ValueError::new(40517, 1, &[&what]))
            }
            false => Ok(()),
        }
    }

    /// Name and text of an entity that the document declares, if a reference to one comes: error 9450 for one that lies outside.
    fn declared_entity(&mut self) -> Result<Option<(&'t str, &'t str)>, ValueError> {
        let (Some(dtd), Some(rest)) = (self.dtd, self.rest.strip_prefix('&')) else {
            return Ok(None);
        };
        let Some((name, _)) = rest.split_once(';') else {
            return Ok(None);
        };
        let text = match dtd.entities.get(name) {
            Some(text) if predefined(name).is_none() => text,
            _ => return Ok(None),
        };
        self.eat("&");
        self.eat(name);
        self.eat(";");
        let Some(text) = text else {
            return Err(self.error(9450));
        };
        self.add(text.len())?;
        Ok(Some((name, text)))
    }

    /// Reads the text of an entity before it goes on: error 9446 for one within itself.
    fn enter_entity(&mut self, name: &'t str, text: &'t str) -> Result<(), ValueError> {
        if self.references.iter().any(|around| around.entity == name) {
            return Err(self.error(9446));
        }
        if self.references.len() >= ENTITY_DEPTH_MAX {
            let what = format!("XML entities nested more than {ENTITY_DEPTH_MAX} deep");
            return Err(ValueError::new(40517, 1, &[&what]));
        }
        self.references.push(Reference {
            entity: name,
            rest: std::mem::replace(&mut self.rest, text),
            line: self.line,
            character: self.character,
            open: self.open.len(),
        });
        Ok(())
    }

    /// Goes on behind the innermost reference, if there is one: error 9447 where an element is open in its text.
    fn leave_entity(&mut self) -> Result<bool, ValueError> {
        let Some(reference) = self.references.pop() else {
            return Ok(false);
        };
        (self.rest, self.line, self.character) =
            (reference.rest, reference.line, reference.character);
        match self.open.len() == reference.open {
            true => Ok(true),
            false => Err(self.error(9447)),
        }
    }

    fn start_tag(&mut self) -> Result<(), ValueError> {
        let name = self.qualified_name()?;
        let before = self.prefixes.len();
        let mut names: HashSet<&str> = HashSet::new();
        let mut attributes = Vec::new();
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
            if !names.insert(attribute.name) {
                return Err(self.error(9437));
            }
            attributes.push(attribute);
        };
        let defaults = self.dtd.and_then(|dtd| dtd.defaults.get(name));
        for (attribute, value) in defaults.into_iter().flatten() {
            if names.insert(attribute.as_str()) {
                self.add(attribute.len() + value.len())?;
                attributes.push(self.noted(attribute, value.clone()));
            }
        }
        let names = std::iter::once(&name).chain(&names);
        let unknown = |name: &&str| match name.split_once(':') {
            Some(("xml" | "xmlns", _)) | None => false,
            Some((prefix, _)) => !self.declared.contains_key(prefix),
        };
        if names.copied().any(|n| unknown(&n)) {
            return Err(self.error(9459));
        }
        if self.repeats_a_name(&attributes) {
            return Err(self.error(9437));
        }
        self.tell_text()?;
        self.events.start(name, &attributes)?;
        if is_empty {
            self.forget_prefixes(before);
            return self.events.end();
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(ValueError::new(6335, 1, &[&DEPTH_MAX]));
        }
        let space = attributes.iter().find(|a| a.name == "xml:space");
        let outer = self
            .open
            .last()
            .map_or(self.keeps_blanks, |o| o.keeps_blanks);
        self.open.push(Open {
            name,
            prefixes_before: before,
            keeps_blanks: space.map_or(outer, |s| s.value == "preserve"),
        });
        Ok(())
    }

    /// Do two attributes have one name by different prefixes?
    fn repeats_a_name(&self, attributes: &[Attribute<'_>]) -> bool {
        let mut known = HashSet::new();
        let mut qualified = attributes.iter().filter_map(|attribute| {
            let (prefix, local) = attribute.name.split_once(':')?;
            let namespace = self.declared.get(prefix)?.last()?;
            Some((*namespace, local))
        });
        !qualified.all(|name| known.insert(name))
    }

    /// Takes back declarations down to so many.
    fn forget_prefixes(&mut self, left: usize) {
        while self.prefixes.len() > left
            && let Some(prefix) = self.prefixes.pop()
        {
            if let Some(meanings) = self.declared.get_mut(prefix) {
                meanings.pop();
                if meanings.is_empty() {
                    self.declared.remove(prefix);
                }
            }
        }
    }

    fn attribute(&mut self) -> Result<Attribute<'t>, ValueError> {
        let name = self.qualified_name()?;
        self.blanks();
        if !self.eat("=") {
            return Err(self.error_at_next(9414));
        }
        self.blanks();
        let value = self.attribute_value()?;
        Ok(self.noted(name, value))
    }

    fn attribute_value(&mut self) -> Result<String, ValueError> {
        let quote = match self.peek() {
            Some(quote @ ('"' | '\'')) => quote,
            _ => return Err(self.error_at_next(9413)),
        };
        self.next();
        let mut value = String::new();
        let outside = self.references.len();
        loop {
            let is_inside = self.references.len() > outside;
            match self.peek() {
                Some(c) if c == quote && !is_inside => break,
                None if is_inside => {
                    self.leave_entity()?;
                }
                Some('<') => return Err(self.error_at_next(9415)),
                Some('&') => match self.declared_entity()? {
                    Some((name, text)) => self.enter_entity(name, text)?,
                    None => value.push(self.entity()?),
                },
                Some(c) if is_allowed(c) => {
                    self.next();
                    if c == '\r' {
                        self.eat("\n");
                    }
                    value.push(if is_blank(c) { ' ' } else { c });
                }
                _ => return Err(self.error_at_next(9420)),
            }
        }
        self.next();
        Ok(value)
    }

    /// The attribute, with the prefix that it may declare.
    fn noted(&mut self, name: &'t str, value: String) -> Attribute<'t> {
        if let Some(prefix) = name.strip_prefix("xmlns:") {
            self.prefixes.push(prefix);
            let number = self.namespaces.len();
            let number = *self.namespaces.entry(value.clone()).or_insert(number);
            self.declared.entry(prefix).or_default().push(number);
        }
        let value = Cow::Owned(value);
        Attribute { name, value }
    }

    fn end_tag(&mut self) -> Result<(), ValueError> {
        let name = self.qualified_name()?;
        self.blanks();
        if !self.eat(">") {
            return Err(self.error_at_next(9412));
        }
        let outside = self.references.last().map_or(0, |r| r.open);
        if self.open.len() <= outside && outside > 0 {
            return Err(self.error(9447));
        }
        match self.open.pop() {
            Some(open) if open.name == name => {
                self.forget_prefixes(open.prefixes_before);
                let keeps_blanks = open.keeps_blanks;
                self.tell_text_in(keeps_blanks)?;
                self.events.end()
            }
            _ => Err(self.error(9436)),
        }
    }

    fn entity(&mut self) -> Result<char, ValueError> {
        self.next();
        let found = if self.eat("#") {
            let radix = if self.eat("x") { 16 } else { 10 };
            let digits = self.take_while(|c| c.is_digit(radix));
            if digits.is_empty() {
                return Err(self.error_at_next(if radix == 16 { 9416 } else { 9417 }));
            }
            let code = u32::from_str_radix(digits, radix).ok();
            let found = code.and_then(char::from_u32).filter(|c| is_allowed(*c));
            found.ok_or_else(|| self.error(9420))?
        } else {
            let name = self.name()?;
            match predefined(name) {
                Some(c) => c,
                None if self.peek() == Some(';') => return Err(self.error_at_next(9448)),
                None => return Err(self.error_at_next(9411)),
            }
        };
        match self.eat(";") {
            true => Ok(found),
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

/// The entities that need no declaration.
pub fn predefined(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => return None,
    })
}

/// Line ends of all kinds are one.
pub fn with_line_ends(text: &str) -> Cow<'_, str> {
    match text.contains('\r') {
        true => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
        false => Cow::Borrowed(text),
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Is it nothing but blanks?
pub fn is_blank_text(text: &str) -> bool {
    text.chars().all(is_blank)
}

/// May a document hold the character?
pub fn is_allowed(c: char) -> bool {
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

    #[test]
    fn escaped_text_has_as_many_bytes_as_told() {
        for text in [
            "",
            "plain",
            " ",
            "\t\n\r",
            "<&>\"'",
            "\u{1}\u{fffe}\u{ffff}",
            "\"\r\n\u{2}",
        ] {
            for text in [text.to_string(), text.repeat(100)] {
                for is_attribute in [false, true] {
                    let mut out = String::new();
                    match is_attribute {
                        true => escape_any_attribute(&text, &mut out),
                        false => escape_any_text(&text, &mut out),
                    }
                    let told = escaped_bytes_max(&text, is_attribute);
                    assert!(
                        (out.len()..=out.len() + 6).contains(&told),
                        "{text:?} {out}"
                    );
                }
            }
        }
    }

    fn number(text: &str) -> i32 {
        normal_form(text, true, false, false).map_or_else(|e| e.number(), |_| 0)
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
            "<a xmlns:p='u' xmlns:q='u'><b xmlns:q='v' p:x='' q:x='' x=''/></a>",
            "<a xmlns='u' xmlns:p='u' p:x='' x=''/>",
        ] {
            assert_eq!(number(text), 0, "{text}");
        }
    }

    #[test]
    fn the_normal_form_keeps_what_is_said_and_not_how() {
        for (text, wanted) in [
            ("<?xml version='1.0'?><a/>", "<a/>"),
            (" <a> <b></b>\n</a> ", "<a><b/></a>"),
            ("<a> x </a>", "<a> x </a>"),
            (
                "<a xml:space='preserve'> <b> </b></a>",
                "<a xml:space=\"preserve\">&#x20;<b>&#x20;</b></a>",
            ),
            ("<a>&#x20;</a>", "<a>&#x20;</a>"),
            ("<a>&#x20;\n</a>", "<a> &#x0A;</a>"),
            ("<a><![CDATA[ ]]><b/>&#9;</a>", "<a>&#x20;<b/>&#x09;</a>"),
            ("<a>&#xD;</a>", "<a>&#x0D;</a>"),
            (
                "<a b='&#xD;&#x9; '>1&#xD;2</a>",
                "<a b=\"&#x0D;&#x09; \">1&#x0D;2</a>",
            ),
            ("<a><![CDATA[<b>&]]></a>", "<a>&lt;b&gt;&amp;</a>"),
            ("<a b='x\"y' xmlns='u'/>", "<a xmlns=\"u\" b=\"x&quot;y\"/>"),
            ("<a b='1\n2\t&#10;'/>", "<a b=\"1 2 &#x0A;\"/>"),
            ("<a>1\r\n2&#13;</a>", "<a>1\n2&#x0D;</a>"),
            ("<?go  on ?><!--c-->", "<?go on ?><!--c-->"),
            ("&lt;&apos;", "&lt;'"),
        ] {
            let normal = normal_form(text, true, false, false);
            assert_eq!(normal.as_deref(), Ok(wanted), "{text}");
            for keeps_blanks in [true, false] {
                let again = normal_form(wanted, true, keeps_blanks, false);
                assert_eq!(again.as_deref(), Ok(wanted));
            }
        }
        assert_eq!(
            normal_form("<a> <b/></a>", true, true, false).as_deref(),
            Ok("<a>&#x20;<b/></a>")
        );
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
            ("<r xmlns:a='u' xmlns:b='u' a:x='1' b:x='2'/>", 9437),
            ("<r xmlns:a='u'><s xmlns:b='u' a:x='1' b:x='2'/></r>", 9437),
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
        let place = normal_form("<a>\n</b>", true, false, false).map_err(|e| e.to_string());
        let told = "XML parsing: line 2, character 4, end tag does not match start tag";
        assert_eq!(place, Err(told.to_string()));
    }

    #[test]
    fn declarations_are_read_where_they_may_be() {
        for (text, wanted) in [
            ("<!DOCTYPE a><a/>", "<a/>"),
            (
                "<?xml version='1.0'?><!-- - --><!DOCTYPE a SYSTEM 'a.dtd' [<!ELEMENT a (b|c)*><!ELEMENT b EMPTY><!-- - --><?go on?>]> <a/>",
                "<!-- - --><a/>",
            ),
            (
                "<!DOCTYPE a [<!ENTITY e 'x &amp; y'>]><a>&e;</a>",
                "<a>x &amp; y</a>",
            ),
            (
                "<!DOCTYPE a [<!ENTITY e \"<b>&f;</b>\"><!ENTITY f 'in'><!ENTITY f 'late'>]><a c='&f;'>&e;&e;</a>",
                "<a c=\"in\"><b>in</b><b>in</b></a>",
            ),
            (
                "<!DOCTYPE a [<!ENTITY e '&#60;b/>'>]><a>&e;</a>",
                "<a><b/></a>",
            ),
            (
                "<!DOCTYPE a [<!ENTITY q '\"'><!ATTLIST a b CDATA 'd' c (x|y) #REQUIRED e ID #IMPLIED f NMTOKEN #FIXED 'g'>]><a c='&q;'><a b='1'/></a>",
                "<a c=\"&quot;\" b=\"d\" f=\"g\"><a b=\"1\" f=\"g\"/></a>",
            ),
            (
                "<!DOCTYPE p:a [<!ATTLIST p:a xmlns:p CDATA 'u'><!NOTATION n PUBLIC 'x'><!ENTITY o SYSTEM 'o' NDATA n>]><p:a/>",
                "<p:a xmlns:p=\"u\"/>",
            ),
        ] {
            let normal = normal_form(text, true, false, true);
            assert_eq!(normal.as_deref(), Ok(wanted), "{text}");
            assert_eq!(number(text), 6359, "{text}");
        }
    }

    #[test]
    fn wrong_declarations_have_a_number() {
        let ten = |of: &str| of.repeat(10);
        let mut laughs = "<!ENTITY e0 'ha'>".to_string();
        for n in 1..10 {
            laughs += &format!("<!ENTITY e{n} '{}'>", ten(&format!("&e{};", n - 1)));
        }
        let laughs = format!("<!DOCTYPE a [{laughs}]><a>&e9;</a>");
        // Each entity names the next one.
        let chain = |links: usize, last: &str| {
            let each = |n| format!("<!ENTITY e{n} '&e{};'>", n + 1);
            let entities: String = (0..links).map(each).collect();
            format!("<!DOCTYPE a [{entities}<!ENTITY e{links} {last}>]><a>&e0;</a>")
        };
        let value = laughs.replace("<a>&e9;</a>", "<a b='&e9;'/>");
        let much = format!(
            "<!DOCTYPE a [<!ATTLIST b c CDATA '{}'>]><a>{}</a>",
            "x".repeat(2_000),
            "<b/>".repeat(2_000)
        );
        for (text, wanted) in [
            (laughs.as_str(), 40517),
            (value.as_str(), 40517),
            (much.as_str(), 40517),
            (
                "<!DOCTYPE a [<!ENTITY e '&f;'><!ENTITY f '&e;'>]><a>&e;</a>",
                9446,
            ),
            (
                "<!DOCTYPE a [<!ENTITY e '&f;'><!ENTITY f '&e;'>]><a b='&e;'/>",
                9446,
            ),
            (chain(200, "'x'").as_str(), 0),
            (chain(200, "'&e7;'").as_str(), 9446),
            (chain(3_000, "'x'").as_str(), 40517),
            ("<!DOCTYPE a [<!ENTITY e SYSTEM 'f'>]><a>&e;</a>", 9450),
            ("<!DOCTYPE a [<!ENTITY e '<b>'>]><a>&e;</b></a>", 9447),
            ("<!DOCTYPE a [<!ENTITY e '</a>'>]><a>&e;", 9447),
            ("<!DOCTYPE a [<!ENTITY e '<b/>'>]><a c='&e;'/>", 9415),
            ("<!DOCTYPE a [<!ENTITY e '<'>]><a>&e;</a>", 9400),
            ("<!DOCTYPE a [<!ENTITY % p 'x'>]><a/>", 9444),
            ("<!DOCTYPE a [%p;]><a/>", 9444),
            ("<!DOCTYPE a [<!ENTITY e>]><a/>", 9410),
            ("<!DOCTYPE a [<!ENTITY e x>]><a/>", 9429),
            ("<!DOCTYPE a [<!ELEMENT a (b>]><a/>", 9428),
            ("<!DOCTYPE a [<!ATTLIST a b WORD 'x'>]><a/>", 9426),
            ("<!DOCTYPE a [x]><a/>", 9427),
            ("<!DOCTYPE a [", 9400),
            ("<!DOCTYPE a", 9400),
            ("<!DOCTYPE>", 9410),
            ("<!DOCTYPE a [<!ENTITY e 'x", 9400),
            ("<a/><!DOCTYPE a>", 9422),
            ("<!DOCTYPE a><!DOCTYPE a><a/>", 9422),
            ("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&f;</a>", 9448),
        ] {
            let found = normal_form(text, true, false, true);
            assert_eq!(
                found.map_or_else(|e| e.number(), |_| 0),
                wanted,
                "{text:.80}"
            );
        }
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
