//! Splits a data file into rows of raw fields, for BULK INSERT.
//!
//! Theory: a file with n columns has n fields in each row. Without `FORMAT = 'CSV'` the first n-1 end at the field
//! terminator and the last at the row terminator, whatever else they contain; that is the product's rule, and why a
//! missing field shows as a conversion error rather than a short row. With CSV a field may be quoted, a doubled quote
//! stands for one, and a row may end early (an error). Terminators are bytes; for wide files they are UTF-16.
//!
//! A row terminator of `\n` ends at LF and drops a CR before it, so files of both kinds load alike.

use std::io::{self, Read};

/// Longest field taken from a file.
pub const FIELD_BYTES_MAX: usize = 256 << 20;
const CHUNK_BYTES: usize = 256 << 10;

/// How the file is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub columns: usize,
    pub field_end: Vec<u8>,
    pub row_end: Vec<u8>,
    /// Drop a CR before `row_end` (given as LF).
    pub trim_cr: bool,
    /// Quote character: CSV rules apply.
    pub quote: Option<u8>,
    /// UTF-16 little-endian.
    pub wide: bool,
}

/// Why no row came out.
#[derive(Debug)]
pub enum FieldError {
    Io(io::Error),
    /// The file ends inside a row.
    UnexpectedEnd,
    /// A field exceeds the limit: 1-based column.
    TooLong {
        column: usize,
    },
    /// CSV: text after a closing quote, or a row with too few or too many fields. 1-based column.
    Malformed {
        column: usize,
    },
}

/// Fields of one row; reused.
#[derive(Debug, Default)]
pub struct Record {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    quoted: Vec<bool>,
}

impl Record {
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    pub fn field(&self, index: usize) -> &[u8] {
        let start = index
            .checked_sub(1)
            .and_then(|i| self.ends.get(i))
            .copied()
            .unwrap_or(0);
        let end = self.ends.get(index).copied().unwrap_or(start);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// Was the field in quotes? An empty field in quotes is an empty string, not NULL.
    pub fn is_quoted(&self, index: usize) -> bool {
        self.quoted.get(index).copied().unwrap_or(false)
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.quoted.clear();
    }

    fn end_field(&mut self, quoted: bool) {
        self.ends.push(self.bytes.len());
        self.quoted.push(quoted);
    }
}

pub struct FieldReader<'a> {
    source: &'a mut dyn Read,
    layout: Layout,
    buffer: Vec<u8>,
    position: usize,
    ended: bool,
    at_start: bool,
}

/// What ended a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Field,
    Row,
    File,
}

impl<'a> FieldReader<'a> {
    pub fn new(source: &'a mut dyn Read, layout: Layout) -> FieldReader<'a> {
        FieldReader {
            source,
            layout,
            buffer: Vec::new(),
            position: 0,
            ended: false,
            at_start: true,
        }
    }

    /// Reads the next row. False at the end of the file.
    pub fn next(&mut self, record: &mut Record) -> Result<bool, FieldError> {
        record.clear();
        self.skip_byte_order_mark()?;
        if !self.want(1)? {
            return Ok(false);
        }
        match self.layout.quote {
            Some(quote) => self.csv_row(record, quote)?,
            None => self.plain_row(record)?,
        }
        Ok(true)
    }

    fn skip_byte_order_mark(&mut self) -> Result<(), FieldError> {
        if !std::mem::take(&mut self.at_start) {
            return Ok(());
        }
        let marks: [&[u8]; 2] = [&[0xFF, 0xFE], &[0xEF, 0xBB, 0xBF]];
        for mark in marks {
            if self.starts_with(mark)? {
                self.position += mark.len();
                break;
            }
        }
        Ok(())
    }

    fn plain_row(&mut self, record: &mut Record) -> Result<(), FieldError> {
        for column in 1..=self.layout.columns {
            let last = column == self.layout.columns;
            let end = self.plain_field(record, last, column)?;
            if last && self.layout.trim_cr {
                trim_cr(record, self.layout.wide);
            }
            record.end_field(false);
            if end == End::File && !last {
                return Err(FieldError::UnexpectedEnd);
            }
        }
        Ok(())
    }

    fn plain_field(
        &mut self,
        record: &mut Record,
        last: bool,
        column: usize,
    ) -> Result<End, FieldError> {
        let terminator = if last {
            self.layout.row_end.clone()
        } else {
            self.layout.field_end.clone()
        };
        let step = if self.layout.wide { 2 } else { 1 };
        let start = record.bytes.len();
        loop {
            if !self.want(terminator.len().max(step))? {
                let rest = self.buffer.get(self.position..).unwrap_or_default();
                record.bytes.extend_from_slice(rest);
                self.position = self.buffer.len();
                return Ok(End::File);
            }
            let window = self.buffer.get(self.position..).unwrap_or_default();
            match find(window, &terminator, step) {
                Some(at) => {
                    record
                        .bytes
                        .extend_from_slice(window.get(..at).unwrap_or_default());
                    self.position += at + terminator.len();
                    return Ok(if last { End::Row } else { End::Field });
                }
                None => {
                    let keep = terminator.len() - 1 + (step - 1);
                    let taken = window.len().saturating_sub(keep).max(step) / step * step;
                    record
                        .bytes
                        .extend_from_slice(window.get(..taken).unwrap_or_default());
                    self.position += taken;
                }
            }
            if record.bytes.len() - start > FIELD_BYTES_MAX {
                return Err(FieldError::TooLong { column });
            }
        }
    }

    /// A malformed row is read to its end, so that the next one starts in the right place.
    fn csv_row(&mut self, record: &mut Record, quote: u8) -> Result<(), FieldError> {
        let mark = self.unit(quote);
        let mut bad = None;
        loop {
            let column = record.count() + 1;
            let quoted = self.starts_with(&mark)?;
            if quoted {
                self.quoted_field(record, &mark, column)?;
            }
            let clean = record.bytes.len();
            let end = self.bare_field(record, column)?;
            if quoted && record.bytes.len() > clean || column > self.layout.columns {
                bad = bad.or(Some(column));
            }
            record.end_field(quoted);
            if end != End::Field {
                break;
            }
        }
        if record.count() < self.layout.columns {
            bad = bad.or(Some(record.count() + 1));
        }
        bad.map_or(Ok(()), |column| Err(FieldError::Malformed { column }))
    }

    fn bare_field(&mut self, record: &mut Record, column: usize) -> Result<End, FieldError> {
        let start = record.bytes.len();
        loop {
            if let Some(end) = self.terminator(record)? {
                return Ok(end);
            }
            self.take_unit(record);
            if record.bytes.len() - start > FIELD_BYTES_MAX {
                return Err(FieldError::TooLong { column });
            }
        }
    }

    /// The inside of a quoted field, up to its closing quote.
    fn quoted_field(
        &mut self,
        record: &mut Record,
        mark: &[u8],
        column: usize,
    ) -> Result<(), FieldError> {
        let start = record.bytes.len();
        self.position += mark.len();
        loop {
            if !self.want(1)? {
                return Err(FieldError::UnexpectedEnd);
            }
            if self.starts_with(mark)? {
                self.position += mark.len();
                if !self.starts_with(mark)? {
                    return Ok(());
                }
            }
            self.take_unit(record);
            if record.bytes.len() - start > FIELD_BYTES_MAX {
                return Err(FieldError::TooLong { column });
            }
        }
    }

    /// Steps over a field or row terminator, or notices the end of the file.
    fn terminator(&mut self, record: &mut Record) -> Result<Option<End>, FieldError> {
        if !self.want(1)? {
            return Ok(Some(End::File));
        }
        let row_end = self.layout.row_end.clone();
        if self.starts_with(&row_end)? {
            self.position += row_end.len();
            if self.layout.trim_cr {
                trim_cr(record, self.layout.wide);
            }
            return Ok(Some(End::Row));
        }
        let field_end = self.layout.field_end.clone();
        if self.starts_with(&field_end)? {
            self.position += field_end.len();
            return Ok(Some(End::Field));
        }
        Ok(None)
    }

    fn unit(&self, ascii: u8) -> Vec<u8> {
        if self.layout.wide {
            vec![ascii, 0]
        } else {
            vec![ascii]
        }
    }

    fn take_unit(&mut self, record: &mut Record) {
        let step = if self.layout.wide { 2 } else { 1 };
        let end = (self.position + step).min(self.buffer.len());
        record
            .bytes
            .extend_from_slice(self.buffer.get(self.position..end).unwrap_or_default());
        self.position = end;
    }

    fn starts_with(&mut self, pattern: &[u8]) -> Result<bool, FieldError> {
        self.want(pattern.len())?;
        Ok(self
            .buffer
            .get(self.position..)
            .unwrap_or_default()
            .starts_with(pattern))
    }

    /// Makes `bytes` bytes available after the position; false if the file ends before.
    fn want(&mut self, bytes: usize) -> Result<bool, FieldError> {
        while self.buffer.len() - self.position < bytes && !self.ended {
            self.buffer.drain(..self.position);
            self.position = 0;
            let filled = self.buffer.len();
            self.buffer.resize(filled + CHUNK_BYTES, 0);
            let read = loop {
                match self
                    .source
                    .read(self.buffer.get_mut(filled..).unwrap_or_default())
                {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            let read = read
                .inspect_err(|_| self.ended = true)
                .map_err(FieldError::Io)?;
            self.buffer.truncate(filled + read);
            self.ended = read == 0;
        }
        Ok(self.buffer.len() - self.position >= bytes)
    }
}

/// Position of `needle` at a multiple of `step`.
fn find(haystack: &[u8], needle: &[u8], step: usize) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(at) = haystack.get(from..)?.iter().position(|b| *b == first) {
        let at = from + at;
        if at % step == 0 && haystack.get(at..)?.starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

fn trim_cr(record: &mut Record, wide: bool) {
    let start = record.ends.last().copied().unwrap_or(0);
    let field = record.bytes.get(start..).unwrap_or_default();
    let cr: &[u8] = if wide { &[b'\r', 0] } else { b"\r" };
    if field.ends_with(cr) {
        record.bytes.truncate(record.bytes.len() - cr.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(columns: usize, field: &str, row: &str, csv: bool) -> Layout {
        Layout {
            columns,
            field_end: field.into(),
            row_end: row.into(),
            trim_cr: row == "\n",
            quote: csv.then_some(b'"'),
            wide: false,
        }
    }

    fn rows(text: &[u8], layout: Layout) -> Result<Vec<Vec<String>>, FieldError> {
        let mut source = text;
        let mut reader = FieldReader::new(&mut source, layout);
        let (mut record, mut out) = (Record::default(), Vec::new());
        while reader.next(&mut record)? {
            let text = |i| String::from_utf8_lossy(record.field(i)).into_owned();
            out.push((0..record.count()).map(text).collect());
        }
        Ok(out)
    }

    #[test]
    fn plain_rows_split_at_terminators_of_any_length() {
        let got = rows(b"1+|a&|\n2+|&|\n", layout(2, "+|", "&|\n", false)).unwrap();
        assert_eq!(got, [["1", "a"], ["2", ""]]);
    }

    #[test]
    fn line_feeds_with_and_without_carriage_return_end_rows() {
        let got = rows(b"1\ta\r\n2\tb\n3\tc", layout(2, "\t", "\n", false)).unwrap();
        assert_eq!(got, [["1", "a"], ["2", "b"], ["3", "c"]]);
    }

    #[test]
    fn a_row_terminator_before_the_last_field_is_data() {
        let got = rows(b"1\n2\tb\n", layout(2, "\t", "\n", false)).unwrap();
        assert_eq!(got, [["1\n2", "b"]]);
    }

    #[test]
    fn the_end_inside_a_row_is_an_error() {
        let got = rows(b"1\ta\n2", layout(2, "\t", "\n", false));
        assert!(matches!(got, Err(FieldError::UnexpectedEnd)));
    }

    #[test]
    fn csv_quotes_hold_terminators_and_doubled_quotes() {
        let got = rows(
            b"\"a,b\",\"say \"\"hi\"\"\"\r\nx,\"line\nbreak\"\n",
            layout(2, ",", "\n", true),
        )
        .unwrap();
        assert_eq!(got, [["a,b", "say \"hi\""], ["x", "line\nbreak"]]);
    }

    #[test]
    fn csv_rows_of_the_wrong_width_are_errors() {
        assert!(matches!(
            rows(b"a\n", layout(2, ",", "\n", true)),
            Err(FieldError::Malformed { column: 2 })
        ));
        assert!(matches!(
            rows(b"a,b,c\n", layout(2, ",", "\n", true)),
            Err(FieldError::Malformed { column: 3 })
        ));
        assert!(matches!(
            rows(b"\"a\"x,b\n", layout(2, ",", "\n", true)),
            Err(FieldError::Malformed { column: 1 })
        ));
    }

    #[test]
    fn byte_order_marks_are_skipped_and_wide_files_split_on_code_units() {
        let mut text = vec![0xFF, 0xFE];
        text.extend("1\t\u{0a09}\n".encode_utf16().flat_map(u16::to_le_bytes));
        let wide = Layout {
            columns: 2,
            field_end: vec![b'\t', 0],
            row_end: vec![b'\n', 0],
            trim_cr: true,
            quote: None,
            wide: true,
        };
        let mut source = text.as_slice();
        let mut reader = FieldReader::new(&mut source, wide);
        let mut record = Record::default();
        assert!(reader.next(&mut record).unwrap());
        assert_eq!(record.field(0), [b'1', 0]);
        assert_eq!(record.field(1), [0x09, 0x0a]);
        assert!(!reader.next(&mut record).unwrap());
    }

    #[test]
    fn long_fields_cross_reads() {
        let long = "x".repeat(CHUNK_BYTES * 2 + 17);
        let text = format!("{long}||b\n");
        let got = rows(text.as_bytes(), layout(2, "||", "\n", false)).unwrap();
        assert_eq!(got, [[long.as_str(), "b"]]);
    }
}
