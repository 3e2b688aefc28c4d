//! Rows in bulk: SELECT INTO, the protocol's bulk load, and BULK INSERT from a file.
//!
//! Theory: all three feed an `Inserter`. Constraints and triggers are left out unless asked for, and given identity
//! values may be kept, as the product does.
//!
//! Read next: `import` (BULK INSERT, batch by batch), `fields`, `format`, `options`, `super::inserter`.

mod errors;
pub mod fields;
mod format;
mod import;
mod options;
mod rejected;

use super::assign::Assign;
use super::errors::{Verb, identity_value_missing};
use super::inserter::{InsertOptions, InsertShape, Inserter};
use super::target::Writable;
use crate::access::damaged;
use crate::error::{Result, SqlError};
use crate::executor::RowBatch;
use crate::host::{Host, TableRef, TriggerAction};
use daruma_catalog::ColumnDef;
use daruma_syntax::ast;
use daruma_value::{DataType, Value};
use fields::Record;
use format::FormatField;
pub use import::FileImport;
pub use options::BulkOptions;
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
        refuse_instead(host, table, options.fire_triggers)?;
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

    /// Begins a batch of rows; it ends with the transaction that it is in.
    pub fn begin<'a>(&'a self, host: &'a dyn Host) -> Result<BulkInsert<'a>> {
        let inserter = Inserter::begin(host, &self.shape, self.options, Verb::Insert)?;
        Ok(BulkInsert {
            target: self,
            inserter,
            given: Vec::new(),
        })
    }
}

/// Without FIRE_TRIGGERS a load asks for none; with it one that stands for the change would be passed by.
fn refuse_instead(host: &dyn Host, table: &TableRef, fires: bool) -> Result<()> {
    let id = table.database.id();
    match fires && host.has_instead(id, table.object_id, TriggerAction::Insert) {
        true => Err(super::errors::not_supported(
            "FIRE_TRIGGERS beside an INSTEAD OF trigger",
        )),
        false => Ok(()),
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

/// Column that each field of the file is for.
struct FileLoad {
    shape: InsertShape,
    fields: Vec<FieldTarget>,
    options: InsertOptions,
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
        format: &[FormatField],
    ) -> Result<FileLoad> {
        super::options::check(host, &table.def, "INSERT")?;
        refuse_instead(host, table, options.fire_triggers)?;
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
            shape: InsertShape::new(writable, given.collect()),
            options: InsertOptions {
                keep_nulls: options.keep_nulls,
                check_constraints: options.check_constraints,
                fire_triggers: options.fire_triggers,
                keep_identity: true,
            },
        })
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
