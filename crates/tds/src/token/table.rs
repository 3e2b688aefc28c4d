//! ORDER, TABNAME, COLINFO: how a result is sorted and where its columns come from.

use super::token_byte;
use crate::wire::{Reader, end_u16_length, put_b_varchar, put_us_varchar, start_u16_length};
use crate::{Result, TdsError, TdsVersion};

const PARTS_MAX: usize = 4;

/// Bits of `ColInfo::status`.
pub mod col_info_status {
    /// Not a column of a table.
    pub const EXPRESSION: u8 = 0x04;
    /// Part of its table's unique key.
    pub const KEY: u8 = 0x08;
    /// Added for the key; not in the query's list.
    pub const HIDDEN: u8 = 0x10;
    /// `base_name` follows: the result calls the column otherwise.
    pub const DIFFERENT_NAME: u8 = 0x20;
}

/// The origin of one result column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColInfo {
    /// From 1.
    pub column: u8,
    /// From 1 in the order of TABNAME; 0 for an expression.
    pub table: u8,
    /// `col_info_status` bits.
    pub status: u8,
    /// The column's name in its table, where the result calls it otherwise.
    pub base_name: Option<String>,
}

/// ORDER: columns (from 1) the rows are sorted by.
pub fn put_order(columns: &[u16], out: &mut Vec<u8>) {
    out.push(token_byte::ORDER);
    let length = start_u16_length(out);
    for column in columns.iter().take(usize::from(u16::MAX / 2)) {
        out.extend_from_slice(&column.to_le_bytes());
    }
    end_u16_length(out, length);
}

pub(super) fn decode_order(reader: &mut Reader<'_>) -> Result<Vec<u16>> {
    let length = usize::from(reader.u16("ORDER length")?);
    let mut content = reader.sub(length, "ORDER")?;
    let mut columns = Vec::with_capacity(length / 2);
    while !content.is_empty() {
        columns.push(content.u16("ORDER column")?);
    }
    Ok(columns)
}

/// TABNAME: the tables of a browse or cursor result, each by its name parts.
pub fn put_table_names(tables: &[Vec<String>], version: TdsVersion, out: &mut Vec<u8>) {
    out.push(token_byte::TAB_NAME);
    let length = start_u16_length(out);
    for parts in tables {
        if version == TdsVersion::V7_1 {
            put_us_varchar(out, &parts.join("."));
            continue;
        }
        let parts = parts.iter().take(PARTS_MAX);
        out.push(parts.len() as u8);
        parts.for_each(|part| put_us_varchar(out, part));
    }
    end_u16_length(out, length);
}

pub(super) fn decode_table_names(
    version: TdsVersion,
    reader: &mut Reader<'_>,
) -> Result<Vec<Vec<String>>> {
    let length = usize::from(reader.u16("TABNAME length")?);
    let mut content = reader.sub(length, "TABNAME")?;
    let mut tables = Vec::new();
    while !content.is_empty() {
        if version == TdsVersion::V7_1 {
            tables.push(vec![content.us_varchar("table name")?]);
            continue;
        }
        let found = usize::from(content.u8("table name parts")?);
        if found > PARTS_MAX {
            return Err(TdsError::TooLong {
                what: "table name parts",
                limit: PARTS_MAX,
                found,
            });
        }
        tables.push(
            (0..found)
                .map(|_| content.us_varchar("table name"))
                .collect::<Result<_>>()?,
        );
    }
    Ok(tables)
}

/// COLINFO: one entry for each column.
pub fn put_col_info(columns: &[ColInfo], out: &mut Vec<u8>) {
    out.push(token_byte::COL_INFO);
    let length = start_u16_length(out);
    for info in columns {
        let named = if info.base_name.is_some() {
            col_info_status::DIFFERENT_NAME
        } else {
            0
        };
        out.extend_from_slice(&[
            info.column,
            info.table,
            info.status & !col_info_status::DIFFERENT_NAME | named,
        ]);
        if let Some(name) = &info.base_name {
            put_b_varchar(out, name);
        }
    }
    end_u16_length(out, length);
}

pub(super) fn decode_col_info(reader: &mut Reader<'_>) -> Result<Vec<ColInfo>> {
    let length = usize::from(reader.u16("COLINFO length")?);
    let mut content = reader.sub(length, "COLINFO")?;
    let mut columns = Vec::new();
    while !content.is_empty() {
        let [column, table, status] = content.array("COLINFO column")?;
        let is_named = status & col_info_status::DIFFERENT_NAME != 0;
        let base_name = if is_named {
            Some(content.b_varchar("COLINFO name")?)
        } else {
            None
        };
        columns.push(ColInfo {
            column,
            table,
            status,
            base_name,
        });
    }
    Ok(columns)
}
