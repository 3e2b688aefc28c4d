//! Table-valued parameters: a small table with its own columns, sent with a call.

use crate::types::{Place, TypeInfo, ValueEncoder, decode_value, type_token};
use crate::wire::{Reader, put_b_varchar};
use crate::{Result, TdsError};
use daruma_value::Value;
use std::fmt;

/// In place of a column count: the parameter is left to its default, an empty table.
const NO_TABLE: u16 = u16::MAX;
const COLUMN_DEFAULT: u16 = 0x200;
const COLUMNS_MAX: usize = 1024;

const END: u8 = 0x00;
const ROW: u8 = 0x01;
const SORT_ORDER: u8 = 0x10;
const COLUMN_ORDER: u8 = 0x11;

/// An empty row costs its sender one byte.
const ROWS_MAX: usize = 16 << 20;
/// Values that cost their sender nothing (defaults, the NULL type), in all rows together.
const FREE_VALUES_MAX: usize = 4 << 20;

/// The rows of a table-valued parameter, and what they are.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct TableValue {
    pub database: String,
    pub schema: String,
    pub type_name: String,
    /// No table was sent: the parameter takes its default.
    pub is_null: bool,
    /// In the order of the type, unless `column_order` says otherwise.
    pub columns: Vec<TableColumn>,
    /// What the client promises about the order of the rows, and their uniqueness.
    pub sort: Vec<SortColumn>,
    /// Order of the columns in each row, if not that of the type (from 1).
    pub column_order: Vec<u16>,
    /// One value for each column; NULL stands for a default.
    pub rows: TableRows,
}

/// Rows as they were sent, in the bytes of the message that was bounded when it was gathered: decoded one by one, since
/// small rows take many times their bytes in memory. What was decoded was read once, to its end.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct TableRows {
    /// Without the byte that ends them.
    bytes: Vec<u8>,
    count: usize,
}

impl fmt::Debug for TableRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows of {} bytes", self.count, self.bytes.len())
    }
}

impl TableRows {
    /// Number of rows.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Is there no row?
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A column of a table-valued parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    pub name: String,
    pub user_type: u32,
    /// Bits of the wire; see [`TableColumn::is_default`].
    pub flags: u16,
    pub type_info: TypeInfo,
}

/// A column that the client says its rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortColumn {
    /// From 1.
    pub column: u16,
    /// The rows are ordered from the greatest value down.
    pub is_descending: bool,
    /// No two rows agree in the columns up to this one.
    pub is_unique: bool,
}

impl TableColumn {
    /// The rows hold nothing for this column; the type's default counts.
    pub const fn is_default(&self) -> bool {
        self.flags & COLUMN_DEFAULT != 0
    }

    const fn is_free(&self) -> bool {
        self.is_default() || self.type_info.token == type_token::NULL
    }
}

impl TableValue {
    /// What follows the type byte.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<TableValue> {
        let mut table = TableValue {
            database: reader.b_varchar("table type database")?,
            schema: reader.b_varchar("table type schema")?,
            type_name: reader.b_varchar("table type name")?,
            ..TableValue::default()
        };
        match reader.u16("table column count")? {
            NO_TABLE => table.is_null = true,
            count => table.columns = decode_columns(count, reader)?,
        }
        table.decode_options(reader)?;
        table.decode_rows(reader)?;
        Ok(table)
    }

    fn decode_options(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        loop {
            match reader.u8("table option")? {
                END => return Ok(()),
                SORT_ORDER => self.sort = decode_sort(reader)?,
                COLUMN_ORDER => {
                    let count = reader.u16("column order count")?;
                    self.column_order = (0..count)
                        .map(|_| reader.u16("column order"))
                        .collect::<Result<_>>()?;
                }
                found => {
                    let expected = "0x00, 0x10 or 0x11";
                    return Err(TdsError::Unexpected {
                        what: "table option",
                        expected,
                        found: found.into(),
                    });
                }
            }
        }
    }

    fn decode_rows(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let free_per_row = self
            .columns
            .iter()
            .filter(|column| column.is_free())
            .count();
        let rows_max = match self.columns.is_empty() {
            true => 0,
            false => FREE_VALUES_MAX
                .checked_div(free_per_row)
                .unwrap_or(ROWS_MAX),
        };
        let start = reader.clone();
        let mut row = Vec::new();
        loop {
            let bytes = reader.consumed() - start.consumed();
            match reader.u8("table row")? {
                END => {
                    let rows = start.clone().take(bytes, "table rows")?;
                    self.rows.bytes = rows.to_vec();
                    return Ok(());
                }
                ROW if self.rows.len() < rows_max => {
                    decode_row(&self.columns, reader, &mut row)?;
                    self.rows.count += 1;
                }
                ROW => {
                    let found = self.rows.len() + 1;
                    return Err(TdsError::TooLong {
                        what: "table rows",
                        limit: rows_max,
                        found,
                    });
                }
                found => {
                    let expected = "0x00 or 0x01";
                    return Err(TdsError::Unexpected {
                        what: "table row",
                        expected,
                        found: found.into(),
                    });
                }
            }
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        out.push(type_token::TABLE);
        put_b_varchar(out, &self.database);
        put_b_varchar(out, &self.schema);
        put_b_varchar(out, &self.type_name);
        if self.is_null {
            out.extend_from_slice(&NO_TABLE.to_le_bytes());
        } else {
            self.put_columns(out)?;
        }
        self.put_options(out);
        out.push(END);
        out.extend_from_slice(&self.rows.bytes);
        out.push(END);
        Ok(())
    }

    fn put_columns(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&count_bytes(
            self.columns.len(),
            "table columns",
            COLUMNS_MAX,
        )?);
        for column in &self.columns {
            out.extend_from_slice(&column.user_type.to_le_bytes());
            out.extend_from_slice(&column.flags.to_le_bytes());
            column.type_info.encode(Place::Parameter, out);
            put_b_varchar(out, &column.name);
        }
        Ok(())
    }

    fn put_options(&self, out: &mut Vec<u8>) {
        if !self.sort.is_empty() {
            out.push(SORT_ORDER);
            out.extend_from_slice(&(self.sort.len() as u16).to_le_bytes());
            for sort in &self.sort {
                let unique = if sort.is_unique { 4 } else { 0 };
                out.extend_from_slice(&sort.column.to_le_bytes());
                out.push(if sort.is_descending { 2 } else { 1 } | unique);
            }
        }
        if !self.column_order.is_empty() {
            out.push(COLUMN_ORDER);
            out.extend_from_slice(&(self.column_order.len() as u16).to_le_bytes());
            self.column_order
                .iter()
                .for_each(|column| out.extend_from_slice(&column.to_le_bytes()));
        }
    }

    /// Adds a row: one value for each column.
    pub fn push(&mut self, row: &[Value]) -> Result<()> {
        if row.len() != self.columns.len() {
            return Err(TdsError::ColumnCount {
                expected: self.columns.len(),
                found: row.len(),
            });
        }
        let start = self.rows.bytes.len();
        let written = self.put_row(row);
        match written {
            Ok(()) => self.rows.count += 1,
            Err(_) => self.rows.bytes.truncate(start),
        }
        written
    }

    fn put_row(&mut self, row: &[Value]) -> Result<()> {
        let bytes = &mut self.rows.bytes;
        bytes.push(ROW);
        for (index, (column, value)) in self.columns.iter().zip(row).enumerate() {
            if !column.is_default() {
                ValueEncoder::new(&column.type_info, Place::Parameter)
                    .encode(value, bytes)
                    .map_err(|error| error.in_column(index))?;
            }
        }
        Ok(())
    }

    /// Reads the rows one by one into `row`, until `take` fails or they end.
    pub fn each_row<E: From<TdsError>>(
        &self,
        mut take: impl FnMut(&mut Vec<Value>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut reader = Reader::new(&self.rows.bytes);
        let mut row = Vec::with_capacity(self.columns.len());
        while !reader.is_empty() {
            reader.u8("table row").map_err(E::from)?;
            decode_row(&self.columns, &mut reader, &mut row).map_err(E::from)?;
            take(&mut row)?;
        }
        Ok(())
    }
}

fn decode_columns(count: u16, reader: &mut Reader<'_>) -> Result<Vec<TableColumn>> {
    let found = usize::from(count);
    if found > COLUMNS_MAX {
        return Err(TdsError::TooLong {
            what: "table columns",
            limit: COLUMNS_MAX,
            found,
        });
    }
    let columns = (0..count).map(|_| {
        let user_type = reader.u32("table column user type")?;
        let flags = reader.u16("table column flags")?;
        let type_info = TypeInfo::decode(reader, Place::Parameter)?;
        let name = reader.b_varchar("table column name")?;
        Ok(TableColumn {
            name,
            user_type,
            flags,
            type_info,
        })
    });
    columns.collect()
}

fn decode_sort(reader: &mut Reader<'_>) -> Result<Vec<SortColumn>> {
    let count = reader.u16("sort column count")?;
    let columns = (0..count).map(|_| {
        let column = reader.u16("sort column")?;
        let flags = reader.u8("sort column flags")?;
        Ok(SortColumn {
            column,
            is_descending: flags & 2 != 0,
            is_unique: flags & 4 != 0,
        })
    });
    columns.collect()
}

fn decode_row(
    columns: &[TableColumn],
    reader: &mut Reader<'_>,
    row: &mut Vec<Value>,
) -> Result<()> {
    row.clear();
    for column in columns {
        row.push(match column.is_default() {
            true => Value::Null,
            false => decode_value(&column.type_info, Place::Parameter, reader)?,
        });
    }
    Ok(())
}

fn count_bytes(found: usize, what: &'static str, limit: usize) -> Result<[u8; 2]> {
    let count = u16::try_from(found).ok().filter(|_| found <= limit);
    count
        .map(u16::to_le_bytes)
        .ok_or(TdsError::TooLong { what, limit, found })
}
