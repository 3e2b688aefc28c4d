//! Rows in bulk: SELECT INTO, the protocol's bulk load, and BULK INSERT from a file.
//!
//! Theory: all three feed an `Inserter`. Constraints and triggers are left out unless asked for, and given identity
//! values may be kept, as the product does.
//!
//! Read next: `fields`, `format`, `options`, `super::inserter`.

mod errors;
pub mod fields;
mod format;
mod options;
mod rejected;

use super::assign::Assign;
use super::errors::{Verb, identity_value_missing};
use super::inserter::{InsertOptions, InsertShape, Inserter};
use super::target::Writable;
use crate::access::damaged;
use crate::error::{Result, SqlError};
use crate::executor::RowBatch;
use crate::host::{Host, Resolved, TableRef};
use daruma_base::{DiskFile, OpenMode};
use daruma_catalog::ColumnDef;
use daruma_syntax::ast;
use daruma_value::{DataType, Value};
use fields::{FieldError, FieldReader, Record};
use format::FormatField;
pub use options::BulkOptions;
use rejected::Rejected;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Target of a bulk load by the protocol: made once, then `begin`.
pub struct BulkTarget {
    shape: InsertShape,
    assign: Vec<Assign>,
    options: InsertOptions,
}

/// A column as the client sends it.
#[derive(Clone, Debug)]
pub struct BulkColumn {
    pub name: String,
    pub data_type: DataType,
}

impl BulkTarget {
    /// `columns` in the order in which rows will hold them.
    pub fn new(
        host: &dyn Host,
        table: &TableRef,
        columns: &[BulkColumn],
        options: InsertOptions,
    ) -> Result<BulkTarget> {
        super::options::check(host, &table.def, "INSERT")?;
        let writable = Arc::new(Writable::prepare(host, table)?);
        let ordinals =
            super::insert::named_columns(&writable, columns.iter().map(|c| c.name.as_str()))?;
        let mut assign = Vec::with_capacity(columns.len());
        for (ordinal, column) in ordinals.iter().zip(columns) {
            let def = column_at(table, *ordinal)?;
            assign.push(Assign::into_column(column.data_type, table, def, host)?);
        }
        Ok(BulkTarget {
            shape: InsertShape::new(writable, ordinals),
            assign,
            options,
        })
    }

    pub fn begin<'a>(&'a self, host: &'a dyn Host) -> Result<BulkInsert<'a>> {
        let inserter = Inserter::begin(host, &self.shape, self.options, Verb::Insert)?;
        Ok(BulkInsert {
            target: self,
            inserter,
            given: Vec::new(),
        })
    }
}

/// Options of `INSERT BULK .. WITH (..)`.
pub fn insert_bulk_options(ast: &ast::InsertBulk) -> InsertOptions {
    let has = |name: &str| ast.options.iter().any(|o| o.is(name));
    InsertOptions {
        keep_nulls: has("KEEP_NULLS"),
        check_constraints: has("CHECK_CONSTRAINTS"),
        fire_triggers: has("FIRE_TRIGGERS"),
        keep_identity: true,
    }
}

/// A bulk load under way.
pub struct BulkInsert<'a> {
    target: &'a BulkTarget,
    inserter: Inserter<'a>,
    given: Vec<Option<Value>>,
}

impl BulkInsert<'_> {
    /// Takes one row, in the order of the target's columns.
    pub fn push(&mut self, row: &mut [Value]) -> Result<()> {
        self.given.clear();
        for (value, assign) in row.iter_mut().zip(&self.target.assign) {
            self.given
                .push(Some(assign.convert(std::mem::replace(value, Value::Null))?));
        }
        self.inserter.push(&mut self.given, None)
    }

    /// Writes what is left and gives the number of rows.
    pub fn finish(self) -> Result<u64> {
        self.inserter.finish(None)
    }
}

/// Rows for the next call; false at the end.
pub type NextRows<'a> = dyn FnMut(&mut RowBatch) -> Result<bool> + 'a;

/// Fills a table from a stream of rows with one value for each of its columns that can be given: SELECT INTO.
pub fn insert_stream(host: &dyn Host, table: &TableRef, next: &mut NextRows) -> Result<u64> {
    let columns = table.def.columns.iter().filter(|c| c.computed.is_none());
    let columns: Vec<_> = columns
        .map(|c| BulkColumn {
            name: c.name.clone(),
            data_type: c.data_type,
        })
        .collect();
    let options = InsertOptions {
        keep_nulls: true,
        check_constraints: false,
        fire_triggers: false,
        keep_identity: true,
    };
    let target = BulkTarget::new(host, table, &columns, options)?;
    let mut insert = target.begin(host)?;
    let mut batch = RowBatch::new();
    while next(&mut batch)? {
        for i in 0..batch.len() {
            insert.push(batch.row_mut(i))?;
        }
    }
    insert.finish()
}

/// BULK INSERT from a file of the server's disk.
pub fn bulk_insert(ast: &ast::BulkInsert, host: &dyn Host) -> Result<u64> {
    let disk = host.spill()?.disk;
    let path = Path::new(&ast.file);
    if !matches!(disk.exists(path), Ok(true)) {
        return Err(errors::no_such_file(&ast.file));
    }
    let file = disk
        .open(path, OpenMode::ReadOnly)
        .map_err(|e| errors::cannot_read(&ast.file, &e))?;
    let left = file.len().map_err(|e| errors::cannot_read(&ast.file, &e))?;
    bulk_insert_from(
        ast,
        host,
        &mut FileReader {
            file,
            offset: 0,
            left,
        },
    )
}

/// A file read from start to end.
struct FileReader {
    file: Arc<dyn DiskFile>,
    offset: u64,
    left: u64,
}

impl Read for FileReader {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let wanted = (buf.len() as u64).min(self.left) as usize;
        self.file
            .read_at(buf.get_mut(..wanted).unwrap_or_default(), self.offset)?;
        self.offset += wanted as u64;
        self.left -= wanted as u64;
        Ok(wanted)
    }
}

/// BULK INSERT from any source of bytes; the statement's file name only serves messages.
pub fn bulk_insert_from(
    ast: &ast::BulkInsert,
    host: &dyn Host,
    file: &mut dyn Read,
) -> Result<u64> {
    let path = ast.file.as_str();
    let options = BulkOptions::parse(&ast.options)?;
    let table = match host.resolve(&ast.table)? {
        Resolved::Table(table) => table,
        _ => return Err(super::errors::invalid_object(&ast.table.dotted())),
    };
    let format = match &options.format_file {
        Some(path) => read_format(host, path, table.def.columns.len())?,
        None => Vec::new(),
    };
    let load = FileLoad::new(host, &table, &options, format)?;
    load.run(host, path, file, &options)
}

/// What a format file says of a data file for a table with so many columns.
fn read_format(host: &dyn Host, path: &str, columns: usize) -> Result<Vec<FormatField>> {
    let disk = host.spill()?.disk;
    if !matches!(disk.exists(Path::new(path)), Ok(true)) {
        return Err(errors::no_such_file(path));
    }
    let unreadable = |_| errors::format_unreadable(path);
    let file = disk.open(Path::new(path), OpenMode::ReadOnly);
    let file = file.map_err(unreadable)?;
    let len = file.len().map_err(unreadable)?;
    if len > format::FORMAT_BYTES_MAX {
        return Err(errors::format_unreadable(path));
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(&mut bytes, 0).map_err(unreadable)?;
    format::parse(path, &String::from_utf8_lossy(&bytes), columns)
}

/// What each field of the file becomes.
struct FileLoad {
    shape: InsertShape,
    fields: Vec<FieldTarget>,
    options: InsertOptions,
    format: Vec<FormatField>,
}

/// One field of the file. Without a format file it has all columns of the table in order.
struct FieldTarget {
    name: String,
    wide: bool,
    /// `None`: the field is there and is ignored (identity, computed and rowversion columns, and those of no column).
    assign: Option<Assign>,
    data_type: DataType,
    nullable: bool,
}

impl FileLoad {
    fn new(
        host: &dyn Host,
        table: &TableRef,
        options: &BulkOptions,
        format: Vec<FormatField>,
    ) -> Result<FileLoad> {
        super::options::check(host, &table.def, "INSERT")?;
        let writable = Arc::new(Writable::prepare(host, table)?);
        if options.keep_identity && host.identity_insert(table) && writable.identity.is_none() {
            return Err(identity_value_missing(table));
        }
        let takes = |c: &ColumnDef| {
            c.computed.is_none()
                && c.data_type != DataType::RowVersion
                && (options.keep_identity || !c.is_identity)
        };
        // Column of each field, and whether the field is in UTF-16.
        let sources: Vec<(Option<usize>, bool)> = match format.is_empty() {
            true => (0..table.def.columns.len())
                .map(|i| (Some(i), options.wide))
                .collect(),
            false => format.iter().map(|f| (f.column, f.wide)).collect(),
        };
        let column = |source: Option<usize>| source.and_then(|i| table.def.columns.get(i));
        let given = sources.iter().filter_map(|(source, _)| *source);
        let given = given.filter(|i| column(Some(*i)).is_some_and(takes));
        let fields = sources.iter().map(|(source, wide)| match column(*source) {
            Some(c) => FieldTarget {
                name: c.name.clone(),
                wide: *wide,
                assign: takes(c).then(|| Assign::from_text(table, c, host)),
                data_type: c.data_type,
                nullable: c.nullable || !options.keep_nulls && c.default.is_some(),
            },
            None => FieldTarget::ignored(),
        });
        Ok(FileLoad {
            fields: fields.collect(),
            format,
            shape: InsertShape::new(writable, given.collect()),
            options: InsertOptions {
                keep_nulls: options.keep_nulls,
                check_constraints: options.check_constraints,
                fire_triggers: options.fire_triggers,
                keep_identity: true,
            },
        })
    }

    fn run(
        &self,
        host: &dyn Host,
        path: &str,
        file: &mut dyn Read,
        options: &BulkOptions,
    ) -> Result<u64> {
        let layout = options.layout(self.fields.len(), self.format.clone());
        let mut reader = FieldReader::new(file, layout);
        let mut rejected = None;
        if let Some(path) = &options.error_file {
            rejected = Some(Rejected::create(&host.spill()?.disk, path)?);
            reader.keep_rows();
        }
        let mut inserter = Inserter::begin(host, &self.shape, self.options, Verb::Insert)?;
        let (mut record, mut given) = (Record::default(), Vec::new());
        let (mut number, mut refused) = (0, 0);
        loop {
            number += 1;
            if options.last_row != 0 && number > options.last_row {
                break;
            }
            let wanted = number >= options.first_row;
            let problem = match reader.next(&mut record) {
                Ok(false) => break,
                Ok(true) if !wanted => continue,
                Ok(true) => self.row(&record, number, options, &mut given).err(),
                Err(FieldError::Malformed { .. }) if !wanted => continue,
                Err(FieldError::Malformed { column }) => {
                    Some(errors::invalid_csv(path, number, column))
                }
                Err(FieldError::TooLong { column }) => {
                    return Err(errors::column_too_long(number, column));
                }
                Err(FieldError::UnexpectedEnd) => return Err(errors::unexpected_end()),
                Err(FieldError::Io(e)) => return Err(errors::cannot_read(path, &e)),
            };
            match problem {
                None => inserter.push(&mut given, None)?,
                Some(error) => {
                    refused += 1;
                    if let Some(rejected) = &mut rejected {
                        let (offset, bytes) = reader.row();
                        rejected.note(number, offset, bytes, &error)?;
                    }
                    if refused > options.max_errors {
                        host.message(error);
                        return Err(errors::too_many_errors(options.max_errors));
                    }
                    host.message(error);
                }
            }
        }
        inserter.finish(None)
    }

    fn row(
        &self,
        record: &Record,
        number: u64,
        options: &BulkOptions,
        given: &mut Vec<Option<Value>>,
    ) -> Result<()> {
        given.clear();
        for (i, field) in self.fields.iter().enumerate() {
            if let Some(assign) = &field.assign {
                let value = field
                    .value(record.field(i), record.is_quoted(i), options)
                    .map_err(|e| e.at(number, i + 1, field))?;
                if value.is_null() && !field.nullable {
                    return Err(errors::unexpected_null(number, i + 1, &field.name));
                }
                let value = assign
                    .convert(value)
                    .map_err(|e| field.conversion_error(&e, number, i + 1))?;
                given.push(Some(value));
            }
        }
        Ok(())
    }
}

/// A field that cannot be what its column is.
struct BadField;

impl BadField {
    fn at(self, row: u64, column: usize, field: &FieldTarget) -> SqlError {
        errors::type_mismatch(row, column, &field.name)
    }
}

impl FieldTarget {
    /// A field that no column takes.
    fn ignored() -> FieldTarget {
        FieldTarget {
            name: String::new(),
            wide: false,
            assign: None,
            data_type: DataType::Int,
            nullable: true,
        }
    }

    fn value(
        &self,
        bytes: &[u8],
        quoted: bool,
        options: &BulkOptions,
    ) -> std::result::Result<Value, BadField> {
        if bytes.is_empty() {
            let text = quoted && self.data_type.is_character();
            return Ok(if text { Value::str("") } else { Value::Null });
        }
        let text = options.decode(bytes, self.wide).ok_or(BadField)?;
        // One NUL stands for an empty text.
        if text == "\0" && self.data_type.is_character() {
            return Ok(Value::str(""));
        }
        if self.data_type.is_binary() {
            let digits = text.strip_prefix("0x").unwrap_or(&text);
            return hex_bytes(digits).map(Value::Bytes).ok_or(BadField);
        }
        if self.data_type.is_character() {
            Ok(Value::str(text))
        } else {
            Ok(Value::str(text.trim()))
        }
    }

    fn conversion_error(&self, error: &SqlError, row: u64, column: usize) -> SqlError {
        match error.number {
            2628 | 8152 => errors::truncation(row, column, &self.name),
            8115 | 220 | 232 | 244 | 248 | 236 | 294 | 242 => {
                errors::overflow(row, column, &self.name)
            }
            _ => errors::type_mismatch(row, column, &self.name),
        }
    }
}

fn hex_bytes(digits: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let pairs = digits.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect()
}

fn column_at(table: &TableRef, ordinal: usize) -> Result<&ColumnDef> {
    table
        .def
        .columns
        .get(ordinal)
        .ok_or_else(|| damaged("no such column"))
}
