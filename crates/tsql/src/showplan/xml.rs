//! Elements with attributes, written one after the other.
//!
//! Theory: plans have no text between their elements, so that an element is a name, attributes and children. The namespace is the
//! root's default.

use daruma_value::xml::escape_attribute;

/// Longest document. A batch of many megabytes has a plan of as many; whoever asks for it gets none.
pub(super) const BYTES_MAX: usize = 32 << 20;

/// A document that grows at its end.
#[derive(Default)]
pub(super) struct Writer {
    text: String,
    open: Vec<&'static str>,
    /// The last tag may still get attributes.
    in_tag: bool,
    depth_max: usize,
    is_full: bool,
}

impl Writer {
    /// Begins an element.
    pub fn open(&mut self, name: &'static str) {
        self.end_tag();
        self.push("<");
        self.push(name);
        self.in_tag = true;
        self.open.push(name);
        self.depth_max = self.depth_max.max(self.open.len());
    }

    /// Ends the element that was begun last.
    pub fn close(&mut self) {
        let name = self.open.pop().expect("an element is open");
        match std::mem::take(&mut self.in_tag) {
            true => self.push("/>"),
            false => {
                self.push("</");
                self.push(name);
                self.push(">");
            }
        }
    }

    /// An element without children.
    pub fn empty(&mut self, name: &'static str, attributes: &[(&str, &str)]) {
        self.open(name);
        for (name, value) in attributes {
            self.attribute(name, value);
        }
        self.close();
    }

    /// An attribute of the element that was begun last.
    pub fn attribute(&mut self, name: &str, value: &str) {
        assert!(self.in_tag, "attribute {name} behind the tag");
        self.push(" ");
        self.push(name);
        self.push("=\"");
        self.escaped(value);
        self.push("\"");
    }

    /// The attribute `true` or `false`.
    pub fn flag(&mut self, name: &str, value: bool) {
        self.attribute(name, if value { "true" } else { "false" });
    }

    /// A number as the product writes it: six digits that count.
    pub fn number(&mut self, name: &str, value: f64) {
        self.attribute(name, &six_digits(value));
    }

    /// The document and the depth of its elements; `None` when it is longer than [`BYTES_MAX`].
    pub fn finish(self) -> Option<(String, usize)> {
        assert!(self.open.is_empty(), "open elements: {:?}", self.open);
        (!self.is_full).then_some((self.text, self.depth_max))
    }

    fn end_tag(&mut self) {
        if std::mem::take(&mut self.in_tag) {
            self.push(">");
        }
    }

    fn push(&mut self, text: &str) {
        self.is_full |= self.text.len() + text.len() > BYTES_MAX;
        if !self.is_full {
            self.text.push_str(text);
        }
    }

    fn escaped(&mut self, value: &str) {
        if self.is_full {
            return;
        }
        let mut escaped = String::with_capacity(value.len());
        match value.contains(is_no_character) {
            true => escape_attribute(&value.replace(is_no_character, "?"), &mut escaped),
            false => escape_attribute(value, &mut escaped),
        }
        self.push(&escaped);
    }
}

/// What cannot stand in XML at all.
fn is_no_character(c: char) -> bool {
    !matches!(c, '\t' | '\n' | '\r') && matches!(c, '\0'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}')
}

fn six_digits(value: f64) -> String {
    let rounded = format!("{value:.5e}").parse().unwrap_or(value);
    match rounded {
        n if n.is_finite() => format!("{n}"),
        n if n.is_nan() => "0".into(),
        _ => format!("{:e}", f64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped() {
        let mut w = Writer::default();
        w.open("A");
        w.attribute("x", "a<b>\"&\r\n\t\u{1}é");
        w.empty("B", &[("y", "'")]);
        w.close();
        let written = "<A x=\"a&lt;b&gt;&quot;&amp;&#x0D;&#x0A;&#x09;?é\"><B y=\"'\"/></A>";
        assert_eq!(w.finish(), Some((written.to_string(), 2)));
    }

    #[test]
    fn a_long_document_is_none() {
        let mut w = Writer::default();
        w.open("A");
        let long = "x".repeat(BYTES_MAX / 2);
        w.empty("B", &[("y", &long)]);
        w.empty("B", &[("y", &long)]);
        w.close();
        assert_eq!(w.finish(), None);
    }

    #[test]
    fn numbers_have_six_digits() {
        let written = [0.0, 1.0, 1e-5, 123_456_789.0, 0.003_283_14, f64::NAN].map(six_digits);
        let expected = ["0", "1", "0.00001", "123457000", "0.00328314", "0"];
        assert_eq!(written, expected);
    }
}
