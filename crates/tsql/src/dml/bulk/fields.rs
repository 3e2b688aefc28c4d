//! Splits a data file into rows of raw fields, for BULK INSERT.
//!
//! Theory: a file with n columns has n fields in each row. Without `FORMAT = 'CSV'` the first n-1 end at the field
//! terminator and the last at the row terminator, whatever else they contain; that is the product's rule, and why a
//! missing field shows as a conversion error rather than a short row. With CSV a field may be quoted, a doubled quote
//! stands for one, and a row may end early (an error). Terminators are bytes; for wide files they are UTF-16.
//!
//! A row terminator of `\n` ends at LF and drops a CR before it, so files of both kinds load alike.

use super::format::FormatField;
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
    /// Of a format file: it cuts each field in its own way, and the rest of the layout says nothing.
    pub fields: Vec<FormatField>,
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
    /// Fields of the row.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of a field, from 0; empty behind the last.
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

/// Cuts a file into rows and fields by their terminators, with a bound on the length of a field.
pub struct FieldReader<'a> {
    source: Box<dyn Read + 'a>,
    layout: Layout,
    buffer: Vec<u8>,
    position: usize,
    ended: bool,
    at_start: bool,
    /// Bytes of the source before the buffer.
    before: u64,
    /// The row as it stands in the source, if somebody wants it.
    row: Option<Vec<u8>>,
    row_offset: u64,
}

/// Terminator that ended a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Field,
    Row,
    File,
}

impl<'a> FieldReader<'a> {
    /// Reads from the start of `source`.
    pub fn new(source: impl Read + 'a, layout: Layout) -> FieldReader<'a> {
        FieldReader {
            source: Box::new(source),
            layout,
            buffer: Vec::new(),
            position: 0,
            ended: false,
            at_start: true,
            before: 0,
            row: None,
            row_offset: 0,
        }
    }

    /// From here on the rows are kept as they stand in the source.
    pub fn keep_rows(&mut self) {
        self.row = Some(Vec::new());
    }

    /// Where the row that was read last begins in the source, and its bytes if they are kept.
    pub fn row(&self) -> (u64, &[u8]) {
        (self.row_offset, self.row.as_deref().unwrap_or_default())
    }

    /// Reads the next row. False at the end of the file.
    pub fn next(&mut self, record: &mut Record) -> Result<bool, FieldError> {
        record.clear();
        self.skip_byte_order_mark()?;
        if !self.want(1)? {
            return Ok(false);
        }
        self.row_offset = self.before + self.position as u64;
        if let Some(row) = &mut self.row {
            row.clear();
        }
        match self.layout.quote {
            _ if !self.layout.fields.is_empty() => self.shaped_row(record)?,
            Some(quote) => self.csv_row(record, quote)?,
            None => self.plain_row(record)?,
        }
        Ok(true)
    }

    /// Steps over bytes of the buffer.
    fn step(&mut self, bytes: usize) {
        let end = (self.position + bytes).min(self.buffer.len());
        if let Some(row) = &mut self.row {
            row.extend_from_slice(self.buffer.get(self.position..end).unwrap_or_default());
        }
        self.position = end;
    }

    /// A row as a format file describes it.
    fn shaped_row(&mut self, record: &mut Record) -> Result<(), FieldError> {
        let fields = std::mem::take(&mut self.layout.fields);
        let count = fields.len();
        let result = (1..).zip(&fields).try_for_each(|(column, field)| {
            let end = match field.prefix {
                0 if field.terminator.is_empty() => {
                    self.counted_field(record, field.length, column)?
                }
                0 => self.ended_field(record, &field.terminator, field.wide, column)?,
                _ => {
                    let length = self.prefix(field.prefix)?;
                    self.counted_field(record, length, column)?
                }
            };
            record.end_field(false);
            match end == End::File && column < count {
                true => Err(FieldError::UnexpectedEnd),
                false => Ok(()),
            }
        });
        self.layout.fields = fields;
        result
    }

    /// The length before a field; all ones stand for NULL, which is read as nothing.
    fn prefix(&mut self, bytes: usize) -> Result<usize, FieldError> {
        if !self.want(bytes)? {
            return Err(FieldError::UnexpectedEnd);
        }
        let found = self.buffer.get(self.position..self.position + bytes);
        let found = found.unwrap_or_default();
        let is_null = found.iter().all(|b| *b == 0xFF);
        let length = found.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
        self.step(bytes);
        match is_null {
            true => Ok(0),
            false => Ok(usize::try_from(length).unwrap_or(usize::MAX)),
        }
    }

    fn counted_field(
        &mut self,
        record: &mut Record,
        length: usize,
        column: usize,
    ) -> Result<End, FieldError> {
        if length > FIELD_BYTES_MAX {
            return Err(FieldError::TooLong { column });
        }
        if !self.want(length)? {
            return Err(FieldError::UnexpectedEnd);
        }
        let bytes = self.buffer.get(self.position..self.position + length);
        record.bytes.extend_from_slice(bytes.unwrap_or_default());
        self.step(length);
        Ok(End::Field)
    }

    fn skip_byte_order_mark(&mut self) -> Result<(), FieldError> {
        if !std::mem::take(&mut self.at_start) {
            return Ok(());
        }
        let marks: [&[u8]; 2] = [&[0xFF, 0xFE], &[0xEF, 0xBB, 0xBF]];
        for mark in marks {
            if self.starts_with(mark)? {
                self.step(mark.len());
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
        let end = self.ended_field(record, &terminator, self.layout.wide, column)?;
        Ok(if last && end == End::Field {
            End::Row
        } else {
            end
        })
    }

    /// A field up to its terminator.
    fn ended_field(
        &mut self,
        record: &mut Record,
        terminator: &[u8],
        wide: bool,
        column: usize,
    ) -> Result<End, FieldError> {
        let unit = if wide { 2 } else { 1 };
        let start = record.bytes.len();
        loop {
            if !self.want(terminator.len().max(unit))? {
                let rest = self.buffer.get(self.position..).unwrap_or_default();
                record.bytes.extend_from_slice(rest);
                self.step(self.buffer.len() - self.position);
                return Ok(End::File);
            }
            let window = self.buffer.get(self.position..).unwrap_or_default();
            let (taken, found) = match find(window, terminator, unit) {
                Some(at) => (at, true),
                None => {
                    let keep = terminator.len() - 1 + (unit - 1);
                    let taken = window.len().saturating_sub(keep).max(unit) / unit * unit;
                    (taken, false)
                }
            };
            let bytes = window.get(..taken).unwrap_or_default();
            record.bytes.extend_from_slice(bytes);
            self.step(taken);
            if found {
                self.step(terminator.len());
                return Ok(End::Field);
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
        self.step(mark.len());
        loop {
            if !self.want(1)? {
                return Err(FieldError::UnexpectedEnd);
            }
            if self.starts_with(mark)? {
                self.step(mark.len());
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
            self.step(row_end.len());
            if self.layout.trim_cr {
                trim_cr(record, self.layout.wide);
            }
            return Ok(Some(End::Row));
        }
        let field_end = self.layout.field_end.clone();
        if self.starts_with(&field_end)? {
            self.step(field_end.len());
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
        let unit = if self.layout.wide { 2 } else { 1 };
        let end = (self.position + unit).min(self.buffer.len());
        record
            .bytes
            .extend_from_slice(self.buffer.get(self.position..end).unwrap_or_default());
        self.step(unit);
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
            self.before += self.position as u64;
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
            fields: Vec::new(),
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
            fields: Vec::new(),
        };
        let mut source = text.as_slice();
        let mut reader = FieldReader::new(&mut source, wide);
        let mut record = Record::default();
        assert!(reader.next(&mut record).unwrap());
        assert_eq!(record.field(0), [b'1', 0]);
        assert_eq!(record.field(1), [0x09, 0x0a]);
        assert!(!reader.next(&mut record).unwrap());
    }

    fn field(prefix: usize, length: usize, terminator: &[u8]) -> FormatField {
        FormatField {
            wide: false,
            prefix,
            length,
            terminator: terminator.to_vec(),
            column: None,
        }
    }

    #[test]
    fn a_format_file_cuts_each_field_in_its_own_way() {
        let fields = vec![
            field(0, 0, b";"),
            field(0, 3, b""),
            field(1, 0, b""),
            field(0, 0, b"\n"),
        ];
        let shaped = || Layout {
            fields: fields.clone(),
            ..layout(4, ",", "\n", false)
        };
        let got = rows(b"a;xyz\x02hi,rest\nb;123\xFF,\n", shaped()).unwrap();
        assert_eq!(got, [["a", "xyz", "hi", ",rest"], ["b", "123", "", ","]]);
        for short in [&b"a;xy"[..], b"a", b"a;xyz\x09hi", b"a;xyz"] {
            assert!(matches!(
                rows(short, shaped()),
                Err(FieldError::UnexpectedEnd)
            ));
        }
    }

    #[test]
    fn rows_are_kept_as_they_stand_in_the_file() {
        let text = b"\xEF\xBB\xBF1,\"a\"\r\n22,b\n";
        let mut source = &text[..];
        let mut reader = FieldReader::new(&mut source, layout(2, ",", "\n", true));
        reader.keep_rows();
        let mut record = Record::default();
        assert!(reader.next(&mut record).unwrap());
        assert_eq!(reader.row(), (3, &b"1,\"a\"\r\n"[..]));
        assert!(reader.next(&mut record).unwrap());
        assert_eq!(reader.row(), (10, &b"22,b\n"[..]));
    }

    #[test]
    fn long_fields_cross_reads() {
        let long = "x".repeat(CHUNK_BYTES * 2 + 17);
        let text = format!("{long}||b\n");
        let got = rows(text.as_bytes(), layout(2, "||", "\n", false)).unwrap();
        assert_eq!(got, [[long.as_str(), "b"]]);
    }
}
