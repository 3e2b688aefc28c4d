//! Values of FOR XML as markup, and the rows of AUTO and EXPLICIT put into each other.
//!
//! Theory: the query gives each row as a text of its levels, and their order says what lies in what. A level is the name of its
//! element, its attributes and what stands in it before the elements of other levels. AUTO: a level stays open while it and
//! all above it are as in the row before. EXPLICIT: a row is one level with its tag and that of its parent, which must be
//! open. The marks between the parts are characters that no XML has, so no value holds them.

use super::{Call, FunctionDef, Signature};
use crate::json::base64;
use crate::xml::{escape_any_attribute, escape_any_text, escaped_bytes_max, is_allowed};
use crate::{DataType, Value, ValueError};

/// The rows as one text: rows, and `1` for EXPLICIT.
pub const XML_NESTED: &str = "FOR XML NESTED";
/// Before each level of a row of AUTO.
pub const XML_LEVEL: char = '\u{1}';
/// Between rows.
pub const XML_ROW: char = '\u{2}';
/// Between the parts of a level: of EXPLICIT tag and parent, then name, attributes and content.
pub const XML_PART: char = '\u{3}';

/// Levels that are open at once: error 6805.
const OPEN_MAX: usize = 128;

/// Bytes as XML has them.
pub const XML_BASE64: &str = "FOR XML BASE64";
/// A value in an element: the value, the name of the element, and `1` where the result is to be of type `xml`.
pub const XML_TEXT: &str = "FOR XML TEXT";
/// A value of an attribute, with the same arguments.
pub const XML_ATTRIBUTE: &str = "FOR XML ATTRIBUTE";
/// A value in a comment or instruction: the value, and what would end that.
pub const XML_ASIDE: &str = "FOR XML ASIDE";

/// What messages call a node that has no name.
const NO_NAME: &str = "NoName";

const MAX: fn(&Signature<'_>) -> Result<DataType, ValueError> = |_| Ok(DataType::NVARCHAR_MAX);

pub(super) const FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new(XML_NESTED, 2..=2, MAX, nested),
    FunctionDef::new(XML_BASE64, 1..=1, MAX, base64_text),
    FunctionDef::new(XML_TEXT, 3..=3, MAX, |c| escaped(c, false)),
    FunctionDef::new(XML_ATTRIBUTE, 3..=3, MAX, |c| escaped(c, true)),
    FunctionDef::new(XML_ASIDE, 2..=2, MAX, aside),
];

/// Error 6841 where a document is wanted and none may have the value.
fn escaped(c: &Call<'_>, is_attribute: bool) -> Result<Value, ValueError> {
    let (text, node) = (c.text(0)?, c.text(1)?);
    if c.text(2)? == "1"
        && let Some(refused) = text.chars().find(|c| !is_allowed(*c))
    {
        return Err(not_serialized(&node, refused));
    }
    let most = escaped_bytes_max(&text, is_attribute);
    c.take(most)?;
    let mut out = String::with_capacity(most);
    match is_attribute {
        true => escape_any_attribute(&text, &mut out),
        false => escape_any_text(&text, &mut out),
    }
    // The value is a copy.
    c.take(out.len())?;
    c.give_text(out)
}

/// Nothing can be replaced there: error 6841 for what would end it.
fn aside(c: &Call<'_>) -> Result<Value, ValueError> {
    let (text, end) = (c.text(0)?, c.text(1)?);
    if let Some(refused) = text.chars().find(|c| !is_allowed(*c)) {
        return Err(not_serialized(NO_NAME, refused));
    }
    // A comment does not end with a part of its end either.
    let is_ended = text.contains(&*end) || end == "--" && text.ends_with('-');
    match end.chars().next().filter(|_| is_ended) {
        Some(first) => Err(not_serialized(NO_NAME, first)),
        None => {
            c.take(text.len())?;
            c.give_text(text.to_string())
        }
    }
}

fn not_serialized(node: &str, refused: char) -> ValueError {
    let node = if node.is_empty() { NO_NAME } else { node };
    let code = format!("0x{:04X}", refused as u32);
    ValueError::new(6841, 1, &[&node, &code])
}

fn base64_text(c: &Call<'_>) -> Result<Value, ValueError> {
    match c.value(0) {
        Value::Bytes(bytes) => {
            c.take(bytes.len() * 2)?;
            c.give_text(base64::encode(bytes))
        }
        _ => Ok(Value::Null),
    }
}

fn nested(c: &Call<'_>) -> Result<Value, ValueError> {
    let rows = c.text(0)?;
    c.take(rows.len() * 2)?;
    let mut nest = Nest::default();
    let is_explicit = c.text(1)? == "1";
    for row in rows.split(XML_ROW) {
        match is_explicit {
            true => nest.explicit(row)?,
            false => nest.auto(row)?,
        }
    }
    nest.close(0);
    c.give_text(nest.out)
}

/// An element whose end is to come.
struct Open<'t> {
    /// The level as the row has it, or its tag.
    level: &'t str,
    name: &'t str,
    is_empty: bool,
}

#[derive(Default)]
struct Nest<'t> {
    out: String,
    open: Vec<Open<'t>>,
}

impl<'t> Nest<'t> {
    fn auto(&mut self, row: &'t str) -> Result<(), ValueError> {
        let levels: Vec<&str> = row.split(XML_LEVEL).skip(1).collect();
        let same = levels
            .iter()
            .zip(&self.open)
            .take_while(|(l, o)| **l == o.level);
        // Each row has an element of its own at the innermost level.
        let kept = same.count().min(levels.len().saturating_sub(1));
        self.close(kept);
        for level in levels.into_iter().skip(kept) {
            let mut parts = level.splitn(3, XML_PART);
            let (name, attributes) = (parts.next(), parts.next());
            self.begin(
                level,
                name.unwrap_or(""),
                attributes.unwrap_or(""),
                parts.next(),
            )?;
        }
        Ok(())
    }

    /// Errors 6806 and 6833.
    fn explicit(&mut self, row: &'t str) -> Result<(), ValueError> {
        let mut parts = row.splitn(5, XML_PART);
        let (tag, parent) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let (name, attributes) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        if name.is_empty() {
            return Err(ValueError::new(6806, 1, &[&tag]));
        }
        let kept = match parent {
            "" | "0" => 0,
            parent => match self.open.iter().rposition(|o| o.level == parent) {
                Some(at) => at + 1,
                None => return Err(ValueError::new(6833, 1, &[&parent])),
            },
        };
        self.close(kept);
        self.begin(tag, name, attributes, parts.next())
    }

    fn begin(
        &mut self,
        level: &'t str,
        name: &'t str,
        attributes: &str,
        content: Option<&str>,
    ) -> Result<(), ValueError> {
        if self.open.len() >= OPEN_MAX {
            return Err(ValueError::new(6805, 1, &[]));
        }
        if let Some(outer) = self.open.last_mut()
            && std::mem::take(&mut outer.is_empty)
        {
            self.out.push('>');
        }
        self.out.push('<');
        self.out.push_str(name);
        self.out.push_str(attributes);
        let content = content.unwrap_or("");
        if !content.is_empty() {
            self.out.push('>');
            self.out.push_str(content);
        }
        let is_empty = content.is_empty();
        self.open.push(Open {
            level,
            name,
            is_empty,
        });
        Ok(())
    }

    /// Ends the elements behind so many.
    fn close(&mut self, kept: usize) {
        while self.open.len() > kept
            && let Some(open) = self.open.pop()
        {
            match open.is_empty {
                true => self.out.push_str("/>"),
                false => {
                    self.out.push_str("</");
                    self.out.push_str(open.name);
                    self.out.push('>');
                }
            }
        }
    }
}
