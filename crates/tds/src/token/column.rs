//! COLMETADATA: the columns of a result, and of a bulk load.

use super::token_byte;
use crate::types::{Place, TypeInfo, WireCollation};
use crate::wire::{Reader, put_b_varchar, put_us_varchar};
use crate::{Result, TdsError, TdsVersion};
use daruma_value::DataType;

/// Says "no columns follow" in place of a count.
const NO_METADATA: u16 = u16::MAX;
const ROWVERSION_USER_TYPE: u32 = 80;
const TABLE_PARTS_MAX: usize = 4;

/// Bits of `Column::flags`.
pub mod column_flag {
    /// The column may hold NULL.
    pub const NULLABLE: u16 = 0x0001;
    /// Comparisons of the column tell `a` from `A`.
    pub const CASE_SENSITIVE: u16 = 0x0002;
    /// The column can be changed through the result's source.
    pub const UPDATABLE: u16 = 0x0004;
    /// Whether the column can be changed was not found out.
    pub const UPDATABLE_UNKNOWN: u16 = 0x0008;
    /// The column has the IDENTITY property.
    pub const IDENTITY: u16 = 0x0010;
    /// A computed column or an expression.
    pub const COMPUTED: u16 = 0x0020;
    /// Always Encrypted: crypto metadata follows, which only clients that asked for the feature can read.
    pub const ENCRYPTED: u16 = 0x0800;
    /// A key column that browse mode added to the query's own.
    pub const HIDDEN: u16 = 0x2000;
    /// Part of the table's unique key in browse mode.
    pub const KEY: u16 = 0x4000;
    /// Whether the column may hold NULL was not found out.
    pub const NULLABILITY_UNKNOWN: u16 = 0x8000;
}

/// A column of a result set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// As the result calls it; at most 255 UTF-16 units are sent.
    pub name: String,
    /// 0 but for `rowversion` (80) and alias types. Versions before 7.2 carry 16 bits of it.
    pub user_type: u32,
    /// `column_flag` bits.
    pub flags: u16,
    /// How values of the column are encoded.
    pub type_info: TypeInfo,
    /// Name parts of the table a text, ntext or image column comes from.
    pub table: Vec<String>,
}

/// Result columns and bulk load columns differ in the table names of text types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnLayout {
    Result(TdsVersion),
    Bulk(TdsVersion),
}

impl Column {
    /// A column of a result for a client of `version`. `flags` as in `column_flag`; NULLABLE is set from `nullable`.
    pub fn new(
        name: impl Into<String>,
        data_type: DataType,
        nullable: bool,
        collation: WireCollation,
        version: TdsVersion,
    ) -> Column {
        let user_type = if data_type == DataType::RowVersion {
            ROWVERSION_USER_TYPE
        } else {
            0
        };
        let flags =
            column_flag::UPDATABLE_UNKNOWN | if nullable { column_flag::NULLABLE } else { 0 };
        let type_info = TypeInfo::for_column(data_type, nullable, collation, version);
        Column {
            name: name.into(),
            user_type,
            flags,
            type_info,
            table: Vec::new(),
        }
    }

    /// May a value be NULL?
    pub const fn is_nullable(&self) -> bool {
        self.flags & column_flag::NULLABLE != 0
    }

    /// The declared type; rowversion is told from binary(8) by its user type.
    pub fn data_type(&self) -> DataType {
        match (self.type_info.data_type(), self.user_type) {
            (DataType::Binary(_) | DataType::VarBinary(_), ROWVERSION_USER_TYPE) => {
                DataType::RowVersion
            }
            (other, _) => other,
        }
    }

    fn encode(&self, layout: ColumnLayout, out: &mut Vec<u8>) {
        put_user_type(self.user_type, layout.version(), out);
        out.extend_from_slice(&self.flags.to_le_bytes());
        self.type_info.encode(Place::Column, out);
        if self.type_info.is_text_pointer() {
            layout.put_table(&self.table, out);
        }
        put_b_varchar(out, &self.name);
    }

    fn decode(reader: &mut Reader<'_>, layout: ColumnLayout) -> Result<Column> {
        let user_type = decode_user_type(reader, layout.version())?;
        let flags = reader.u16("column flags")?;
        let type_info = TypeInfo::decode(reader, Place::Column)?;
        let table = if type_info.is_text_pointer() {
            layout.decode_table(reader)?
        } else {
            Vec::new()
        };
        let name = reader.b_varchar("column name")?;
        Ok(Column {
            name,
            user_type,
            flags,
            type_info,
            table,
        })
    }
}

impl ColumnLayout {
    const fn version(self) -> TdsVersion {
        match self {
            ColumnLayout::Result(version) | ColumnLayout::Bulk(version) => version,
        }
    }

    fn is_multi_part(self) -> bool {
        matches!(self, ColumnLayout::Result(version) if version.has_wide_fields())
    }

    fn put_table(self, table: &[String], out: &mut Vec<u8>) {
        if self.is_multi_part() {
            let parts = table.iter().take(TABLE_PARTS_MAX);
            out.push(parts.len() as u8);
            parts.for_each(|part| put_us_varchar(out, part));
        } else {
            put_us_varchar(out, &table.join("."));
        }
    }

    fn decode_table(self, reader: &mut Reader<'_>) -> Result<Vec<String>> {
        if !self.is_multi_part() {
            return Ok(vec![reader.us_varchar("table name")?]);
        }
        let parts = usize::from(reader.u8("table name parts")?);
        if parts > TABLE_PARTS_MAX {
            return Err(TdsError::TooLong {
                what: "table name parts",
                limit: TABLE_PARTS_MAX,
                found: parts,
            });
        }
        (0..parts)
            .map(|_| reader.us_varchar("table name"))
            .collect()
    }
}

pub(super) fn put_user_type(user_type: u32, version: TdsVersion, out: &mut Vec<u8>) {
    if version.has_wide_fields() {
        out.extend_from_slice(&user_type.to_le_bytes());
    } else {
        out.extend_from_slice(&u16::try_from(user_type).unwrap_or(0).to_le_bytes());
    }
}

pub(super) fn decode_user_type(reader: &mut Reader<'_>, version: TdsVersion) -> Result<u32> {
    if version.has_wide_fields() {
        reader.u32("user type")
    } else {
        reader.u16("user type").map(u32::from)
    }
}

/// COLMETADATA with the columns of the rows to come.
pub fn put_column_metadata(columns: &[Column], version: TdsVersion, out: &mut Vec<u8>) {
    put_columns(columns, ColumnLayout::Result(version), out);
}

/// COLMETADATA of a statement whose columns the client asked not to be told.
pub fn put_no_metadata(out: &mut Vec<u8>) {
    out.push(token_byte::COL_METADATA);
    out.extend_from_slice(&NO_METADATA.to_le_bytes());
}

pub(crate) fn put_columns(columns: &[Column], layout: ColumnLayout, out: &mut Vec<u8>) {
    let count = u16::try_from(columns.len())
        .unwrap_or(NO_METADATA - 1)
        .min(NO_METADATA - 1);
    out.push(token_byte::COL_METADATA);
    out.extend_from_slice(&count.to_le_bytes());
    for column in columns.iter().take(usize::from(count)) {
        column.encode(layout, out);
    }
}

/// What follows the token byte; `None` for "no metadata".
pub(crate) fn decode_columns(
    reader: &mut Reader<'_>,
    layout: ColumnLayout,
) -> Result<Option<Vec<Column>>> {
    let count = reader.u16("column count")?;
    if count == NO_METADATA {
        return Ok(None);
    }
    let mut columns = Vec::new();
    for _ in 0..count {
        columns.push(Column::decode(reader, layout)?);
    }
    Ok(Some(columns))
}
