//! Format files of BULK INSERT, the plain kind and the XML kind: what the fields of a data file are, and which columns of
//! the table they fill.
//!
//! ```text
//! 14.0                                             version
//! 2                                                fields
//! 1  SQLCHAR  0  12  ","     2  name  ""           field, type, prefix, length, terminator, column (0 = none), name, collation
//! 2  SQLCHAR  0  12  "\r\n"  1  id    ""
//! ```
//! The XML kind lists fields and, in the order of the table's columns, what each takes. Only texts are read (SQLCHAR,
//! SQLNCHAR, and their XML names), not the native forms of numbers and dates.

use super::errors;
use crate::error::{Result, SqlError};

/// Longest format file, and most fields.
pub const FORMAT_BYTES_MAX: u64 = 1 << 20;
const FIELDS_MAX: usize = 4_096;

/// One field of a data file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatField {
    /// UTF-16 instead of the file's code page.
    pub wide: bool,
    /// Bytes of the length before the field, 0 for none.
    pub prefix: usize,
    /// Length of a field without terminator and prefix; otherwise a bound, 0 for none.
    pub length: usize,
    pub terminator: Vec<u8>,
    /// Column of the table, from 0.
    pub column: Option<usize>,
}

/// Reads a format file of either kind for a table with so many columns.
pub fn parse(path: &str, text: &str, columns: usize) -> Result<Vec<FormatField>> {
    let text = text.trim_start_matches('\u{FEFF}');
    let fields = match text.trim_start().starts_with('<') {
        true => xml(path, text)?,
        false => plain(path, text)?,
    };
    for (number, field) in (1..).zip(&fields) {
        if field.column.is_some_and(|c| c >= columns) {
            return Err(errors::format(4828, path, Some(number)));
        }
        let taken = fields.iter().filter(|f| f.column == field.column).count();
        if field.column.is_some() && taken > 1 {
            return Err(errors::format(4828, path, Some(number)));
        }
        if field.terminator.is_empty() && field.prefix == 0 && field.length == 0 {
            return Err(errors::format(4827, path, Some(number)));
        }
    }
    Ok(fields)
}

fn plain(path: &str, text: &str) -> Result<Vec<FormatField>> {
    let mut lines = text.lines().filter(|l| !l.trim().is_empty());
    lines
        .next()
        .ok_or_else(|| errors::format_unreadable(path))?;
    let count = lines.next().and_then(|l| l.trim().parse::<usize>().ok());
    let count = count.filter(|c| (1..=FIELDS_MAX).contains(c));
    let count = count.ok_or_else(|| errors::format(4822, path, None))?;
    let fields = (1..=count).map(|number| {
        let line = lines.next();
        let line = line.ok_or_else(|| errors::format(4822, path, None))?;
        plain_field(path, number, line)
    });
    fields.collect()
}

fn plain_field(path: &str, number: usize, line: &str) -> Result<FormatField> {
    let bad = |message: i32| errors::format(message, path, Some(number));
    let words = words(line).ok_or_else(|| bad(4827))?;
    let [host, kind, prefix, length, terminator, column, ..] = words.as_slice() else {
        return Err(errors::format(4823, path, None));
    };
    if host.parse() != Ok(number) {
        return Err(errors::format(4823, path, None));
    }
    let wide = is_wide(kind).ok_or_else(|| bad(4824))?;
    let prefix = prefix
        .parse()
        .ok()
        .filter(|p| matches!(p, 0 | 1 | 2 | 4 | 8));
    let column: usize = column.parse().map_err(|_| bad(4828))?;
    Ok(FormatField {
        wide,
        prefix: prefix.ok_or_else(|| bad(4825))?,
        length: length.parse().map_err(|_| bad(4826))?,
        terminator: super::options::terminator(terminator, wide),
        column: column.checked_sub(1),
    })
}

/// Is a text of this type in UTF-16? `None`: it is no text.
fn is_wide(kind: &str) -> Option<bool> {
    match kind.to_ascii_uppercase().as_str() {
        "SQLCHAR" | "CHARTERM" | "CHARFIXED" | "CHARPREFIX" => Some(false),
        "SQLNCHAR" | "NCHARTERM" | "NCHARFIXED" | "NCHARPREFIX" => Some(true),
        _ => None,
    }
}

/// Words of a line; those in quotes may hold blanks. `None`: a quote is not closed.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word.to_string());
        rest = after.trim_start();
    }
    Some(words)
}

// --- XML

fn xml(path: &str, text: &str) -> Result<Vec<FormatField>> {
    let unreadable = || errors::format_unreadable(path);
    let mut fields: Vec<(String, FormatField)> = Vec::new();
    let mut column = 0;
    for tag in tags(text) {
        let tag = tag.ok_or_else(unreadable)?;
        match tag.name {
            "FIELD" if fields.len() == FIELDS_MAX => return Err(errors::format(4822, path, None)),
            "FIELD" => {
                let id = tag.attribute("ID").ok_or_else(unreadable)?;
                let field = xml_field(path, fields.len() + 1, &tag)?;
                fields.push((id, field));
            }
            "COLUMN" => {
                let source = tag.attribute("SOURCE").ok_or_else(unreadable)?;
                let field = fields.iter_mut().find(|(id, _)| *id == source);
                let (_, field) = field.ok_or_else(unreadable)?;
                field.column = Some(column);
                column += 1;
            }
            _ => {}
        }
    }
    match fields.is_empty() {
        true => Err(errors::format(4822, path, None)),
        false => Ok(fields.into_iter().map(|(_, field)| field).collect()),
    }
}

fn xml_field(path: &str, number: usize, tag: &Tag<'_>) -> Result<FormatField> {
    let bad = |message: i32| -> SqlError { errors::format(message, path, Some(number)) };
    let kind = tag.attribute("type").ok_or_else(|| bad(4824))?;
    let wide = is_wide(&kind).ok_or_else(|| bad(4824))?;
    let size = |name: &str, message: i32| match tag.attribute(name) {
        None => Ok(0),
        Some(text) => text.parse::<usize>().map_err(|_| bad(message)),
    };
    let terminator = tag.attribute("TERMINATOR").unwrap_or_default();
    Ok(FormatField {
        wide,
        prefix: size("PREFIX_LENGTH", 4825)?,
        // A bound on a field with a terminator is not one in bytes of the file.
        length: size("LENGTH", 4826)?,
        terminator: super::options::terminator(&terminator, wide),
        column: None,
    })
}

struct Tag<'a> {
    name: &'a str,
    attributes: &'a str,
}

/// The opening tags of a text, without its comments. `None` as an item: it is no XML.
fn tags(text: &str) -> impl Iterator<Item = Option<Tag<'_>>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once('<')?;
            if let Some(comment) = after.strip_prefix("!--") {
                rest = comment.split_once("-->").map_or("", |(_, after)| after);
                continue;
            }
            let Some(end) = tag_end(after) else {
                rest = "";
                return Some(None);
            };
            let (inside, next) = after.split_at(end);
            rest = next;
            if inside.starts_with(['/', '?', '!']) {
                continue;
            }
            let (name, attributes) = inside
                .split_once(char::is_whitespace)
                .unwrap_or((inside, ""));
            let name = name
                .rsplit(':')
                .next()
                .unwrap_or(name)
                .trim_end_matches('/');
            return Some(Some(Tag { name, attributes }));
        }
    })
}

/// Where the tag ends: at a `>` outside quotes.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '>') => return Some(at),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    None
}

impl Tag<'_> {
    /// The value of an attribute, whatever its namespace.
    fn attribute(&self, name: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            let (before, after) = rest.split_once('=')?;
            let quote = after.trim_start().chars().next()?;
            let inside = after.trim_start().strip_prefix(['"', '\''])?;
            let (value, next) = inside.split_once(quote)?;
            let found = before.trim().rsplit(':').next().unwrap_or_default();
            if found == name {
                return Some(unescape(value));
            }
            rest = next;
        }
    }
}

fn unescape(text: &str) -> String {
    let named = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ];
    named
        .iter()
        .fold(text.to_string(), |text, (name, c)| text.replace(name, c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(result: Result<Vec<FormatField>>) -> i32 {
        result.map_or_else(|e| e.number, |_| 0)
    }

    #[test]
    fn plain_files_say_where_each_field_goes() {
        let text = "14.0\n3\n1 SQLCHAR 0 10 \", \" 2 name \"\"\n2 SQLCHAR 0 3 \"\" 0 skipped \"\"\n\
                    3 SQLNCHAR 0 20 \"\\n\" 1 id Latin1\n";
        let fields = parse("f", text, 2).expect("a format");
        let field = |wide, length, terminator: &[u8], column| FormatField {
            wide,
            prefix: 0,
            length,
            terminator: terminator.to_vec(),
            column,
        };
        assert_eq!(fields[0], field(false, 10, b", ", Some(1)));
        assert_eq!(fields[1], field(false, 3, b"", None));
        assert_eq!(fields[2], field(true, 20, b"\n\0", Some(0)));
    }

    #[test]
    fn damaged_plain_files_have_their_errors() {
        let one = |line: &str| parse("f", &format!("14.0\n1\n{line}\n"), 1);
        assert_eq!(number(parse("f", "14.0\nx\n", 1)), 4822);
        assert_eq!(
            number(parse("f", "14.0\n2\n1 SQLCHAR 0 1 \",\" 1 a \"\"\n", 1)),
            4822
        );
        assert_eq!(number(one("2 SQLCHAR 0 1 \",\" 1 a \"\"")), 4823);
        assert_eq!(number(one("1 SQLINT 0 4 \"\" 1 a \"\"")), 4824);
        assert_eq!(number(one("1 SQLCHAR 3 1 \",\" 1 a \"\"")), 4825);
        assert_eq!(number(one("1 SQLCHAR 0 x \",\" 1 a \"\"")), 4826);
        assert_eq!(number(one("1 SQLCHAR 0 0 \"\" 1 a \"\"")), 4827);
        assert_eq!(number(one("1 SQLCHAR 0 0 \", 1 a")), 4827);
        assert_eq!(number(one("1 SQLCHAR 0 1 \",\" 2 a \"\"")), 4828);
    }

    #[test]
    fn xml_files_take_columns_in_the_order_of_the_table() {
        let text = "<?xml version=\"1.0\"?>\n<BCPFORMAT xmlns:xsi=\"http://x\"><!-- <FIELD/> --><RECORD>
            <FIELD ID=\"1\" xsi:type=\"CharTerm\" TERMINATOR=\"&gt;\" MAX_LENGTH=\"7\"/>
            <FIELD ID=\"2\" xsi:type=\"CharFixed\" LENGTH='4'/>
            <FIELD ID=\"3\" xsi:type=\"NCharTerm\" TERMINATOR=\"\\r\\n\"/></RECORD>
            <ROW><COLUMN SOURCE=\"3\" NAME=\"a\" xsi:type=\"SQLINT\"/><COLUMN SOURCE=\"1\" NAME=\"b\"/></ROW></BCPFORMAT>";
        let fields = parse("f", text, 2).expect("a format");
        let seen: Vec<_> = fields
            .iter()
            .map(|f| (f.column, f.length, f.terminator.as_slice()))
            .collect();
        let wide: &[u8] = b"\r\0\n\0";
        assert_eq!(
            seen,
            [(Some(1), 0, &b">"[..]), (None, 4, b""), (Some(0), 0, wide)]
        );
    }

    #[test]
    fn damaged_xml_files_have_their_errors() {
        assert_eq!(number(parse("f", "<BCPFORMAT><RECORD>", 1)), 4822);
        assert_eq!(number(parse("f", "<BCPFORMAT><FIELD ID=\"1\"", 1)), 4862);
        let native = "<FIELD ID=\"1\" xsi:type=\"NativeFixed\" LENGTH=\"4\"/>";
        assert_eq!(number(parse("f", native, 1)), 4824);
        let nowhere = "<FIELD ID='1' xsi:type='CharTerm' TERMINATOR=','/><COLUMN SOURCE='2'/>";
        assert_eq!(number(parse("f", nowhere, 1)), 4862);
    }
}
