//! Data types as declared: base type with length, precision and scale.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Declared length of a character or binary type: characters (`n` types: UTF-16 units) or bytes, or `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Len(pub u16);

impl Len {
    /// `(max)`: up to 2^31-1 bytes.
    pub const MAX: Len = Len(u16::MAX);

    /// Is it `max`?
    pub const fn is_max(self) -> bool {
        self.0 == u16::MAX
    }
}

/// A SQL Server data type. Synonyms (`numeric`, `integer`, `dec`, `timestamp`) map to one variant each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DataType {
    Bit,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    /// `decimal(p, s)` and `numeric(p, s)`: 1 <= p <= 38, 0 <= s <= p.
    Decimal {
        precision: u8,
        scale: u8,
    },
    SmallMoney,
    Money,
    Real,
    Float,
    Date,
    /// Fractional-second digits 0..=7.
    Time {
        scale: u8,
    },
    SmallDateTime,
    DateTime,
    DateTime2 {
        scale: u8,
    },
    DateTimeOffset {
        scale: u8,
    },
    Char(Len),
    VarChar(Len),
    NChar(Len),
    NVarChar(Len),
    Text,
    NText,
    Binary(Len),
    VarBinary(Len),
    Image,
    UniqueIdentifier,
    /// `rowversion` / `timestamp`: 8 bytes, big-endian counter.
    RowVersion,
    Variant,
    /// Stored as text, in its normal form.
    Xml,
    /// Stored and shown in its binary form; no methods.
    HierarchyId,
    Geography,
    Geometry,
}

impl DataType {
    /// `sysname`: nvarchar(128).
    pub const SYSNAME: DataType = DataType::NVarChar(Len(128));
    /// `nvarchar(max)`.
    pub const NVARCHAR_MAX: DataType = DataType::NVarChar(Len::MAX);
    /// `varchar(max)`.
    pub const VARCHAR_MAX: DataType = DataType::VarChar(Len::MAX);
    /// `varbinary(max)`.
    pub const VARBINARY_MAX: DataType = DataType::VarBinary(Len::MAX);

    /// Is it a type of texts?
    pub const fn is_character(self) -> bool {
        use DataType::*;
        matches!(
            self,
            Char(_) | VarChar(_) | NChar(_) | NVarChar(_) | Text | NText | Xml
        )
    }

    /// `nchar`, `nvarchar`, `ntext`, `xml`: counted in UTF-16 units.
    pub const fn is_unicode(self) -> bool {
        use DataType::*;
        matches!(self, NChar(_) | NVarChar(_) | NText | Xml)
    }

    /// Is it a type of bytes?
    pub const fn is_binary(self) -> bool {
        use DataType::*;
        matches!(
            self,
            Binary(_) | VarBinary(_) | Image | RowVersion | HierarchyId | Geography | Geometry
        )
    }

    /// Is it a type of whole numbers, bit included?
    pub const fn is_integer(self) -> bool {
        use DataType::*;
        matches!(self, Bit | TinyInt | SmallInt | Int | BigInt)
    }

    /// Is it a type of numbers without rounding, money included?
    pub const fn is_exact_numeric(self) -> bool {
        use DataType::*;
        self.is_integer() || matches!(self, Decimal { .. } | SmallMoney | Money)
    }

    /// Is it a type of numbers?
    pub const fn is_numeric(self) -> bool {
        use DataType::*;
        self.is_exact_numeric() || matches!(self, Real | Float)
    }

    /// Is it a type of dates or times?
    pub const fn is_temporal(self) -> bool {
        use DataType::*;
        matches!(
            self,
            Date | Time { .. }
                | SmallDateTime
                | DateTime
                | DateTime2 { .. }
                | DateTimeOffset { .. }
        )
    }

    /// May a value of this type be up to 2 GiB long?
    pub const fn is_large(self) -> bool {
        use DataType::*;
        match self {
            VarChar(len) | NVarChar(len) | VarBinary(len) => len.is_max(),
            Text | NText | Image | Xml | Geography | Geometry => true,
            _ => false,
        }
    }

    /// Name without length, precision or scale, as `sys.types` and messages show it.
    pub const fn name(self) -> &'static str {
        use DataType::*;
        match self {
            Bit => "bit",
            TinyInt => "tinyint",
            SmallInt => "smallint",
            Int => "int",
            BigInt => "bigint",
            Decimal { .. } => "decimal",
            SmallMoney => "smallmoney",
            Money => "money",
            Real => "real",
            Float => "float",
            Date => "date",
            Time { .. } => "time",
            SmallDateTime => "smalldatetime",
            DateTime => "datetime",
            DateTime2 { .. } => "datetime2",
            DateTimeOffset { .. } => "datetimeoffset",
            Char(_) => "char",
            VarChar(_) => "varchar",
            NChar(_) => "nchar",
            NVarChar(_) => "nvarchar",
            Text => "text",
            NText => "ntext",
            Binary(_) => "binary",
            VarBinary(_) => "varbinary",
            Image => "image",
            UniqueIdentifier => "uniqueidentifier",
            RowVersion => "timestamp",
            Variant => "sql_variant",
            Xml => "xml",
            HierarchyId => "hierarchyid",
            Geography => "geography",
            Geometry => "geometry",
        }
    }

    /// Name in arithmetic and conversion errors, where the product says `numeric` for both exact types.
    pub const fn error_name(self) -> &'static str {
        match self {
            DataType::Decimal { .. } => "numeric",
            other => other.name(),
        }
    }

    /// `sys.types.system_type_id`.
    pub const fn system_type_id(self) -> u8 {
        use DataType::*;
        match self {
            Image => 34,
            Text => 35,
            UniqueIdentifier => 36,
            Date => 40,
            Time { .. } => 41,
            DateTime2 { .. } => 42,
            DateTimeOffset { .. } => 43,
            TinyInt => 48,
            SmallInt => 52,
            Int => 56,
            SmallDateTime => 58,
            Real => 59,
            Money => 60,
            DateTime => 61,
            Float => 62,
            Variant => 98,
            NText => 99,
            Bit => 104,
            Decimal { .. } => 106,
            SmallMoney => 122,
            BigInt => 127,
            VarBinary(_) => 165,
            VarChar(_) => 167,
            Binary(_) => 173,
            Char(_) => 175,
            RowVersion => 189,
            NVarChar(_) => 231,
            NChar(_) => 239,
            HierarchyId | Geography | Geometry => 240,
            Xml => 241,
        }
    }

    /// `sys.columns.max_length`: bytes, -1 for `max`.
    pub const fn max_length(self) -> i16 {
        use DataType::*;
        match self {
            Bit | TinyInt => 1,
            SmallInt => 2,
            Int | SmallMoney | Real | SmallDateTime => 4,
            BigInt | Money | Float | DateTime | RowVersion => 8,
            Date => 3,
            Time { scale } => 3 + fraction_bytes(scale),
            DateTime2 { scale } => 6 + fraction_bytes(scale),
            DateTimeOffset { scale } => 8 + fraction_bytes(scale),
            Decimal { precision, .. } => match precision {
                0..=9 => 5,
                10..=19 => 9,
                20..=28 => 13,
                _ => 17,
            },
            Char(len) | VarChar(len) | Binary(len) | VarBinary(len) => {
                if len.is_max() {
                    -1
                } else {
                    len.0 as i16
                }
            }
            NChar(len) | NVarChar(len) => {
                if len.is_max() {
                    -1
                } else {
                    (len.0 * 2) as i16
                }
            }
            Text | NText | Image | UniqueIdentifier => 16,
            Variant => 8016,
            Xml | Geography | Geometry => -1,
            HierarchyId => 892,
        }
    }

    /// `sys.columns.precision`.
    pub const fn precision(self) -> u8 {
        use DataType::*;
        match self {
            Bit => 1,
            TinyInt => 3,
            SmallInt => 5,
            Int | SmallMoney | Date => 10,
            BigInt | Money => 19,
            Decimal { precision, .. } => precision,
            Real => 24,
            Float => 53,
            SmallDateTime => 16,
            DateTime => 23,
            Time { scale } => 8 + fraction_chars(scale),
            DateTime2 { scale } => 19 + fraction_chars(scale),
            DateTimeOffset { scale } => 26 + fraction_chars(scale),
            _ => 0,
        }
    }

    /// `sys.columns.scale`.
    pub const fn scale(self) -> u8 {
        use DataType::*;
        match self {
            Decimal { scale, .. }
            | Time { scale }
            | DateTime2 { scale }
            | DateTimeOffset { scale } => scale,
            SmallMoney | Money => 4,
            DateTime => 3,
            _ => 0,
        }
    }

    /// Declared length of a character or binary type, counted in its own units.
    pub const fn declared_len(self) -> Option<Len> {
        use DataType::*;
        match self {
            Char(len) | VarChar(len) | NChar(len) | NVarChar(len) | Binary(len)
            | VarBinary(len) => Some(len),
            Text | NText | Image | Xml => Some(Len::MAX),
            RowVersion => Some(Len(8)),
            _ => None,
        }
    }
}

const fn fraction_bytes(scale: u8) -> i16 {
    match scale {
        0..=2 => 0,
        3..=4 => 1,
        _ => 2,
    }
}

const fn fraction_chars(scale: u8) -> u8 {
    if scale == 0 { 0 } else { scale + 1 }
}

/// As declared in T-SQL: `decimal(10,2)`, `nvarchar(max)`.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match *self {
            DataType::Decimal { precision, scale } => write!(f, "({precision},{scale})"),
            DataType::Time { scale }
            | DataType::DateTime2 { scale }
            | DataType::DateTimeOffset { scale } => {
                write!(f, "({scale})")
            }
            DataType::Char(len)
            | DataType::VarChar(len)
            | DataType::NChar(len)
            | DataType::NVarChar(len)
            | DataType::Binary(len)
            | DataType::VarBinary(len) => {
                if len.is_max() {
                    f.write_str("(max)")
                } else {
                    write!(f, "({})", len.0)
                }
            }
            _ => Ok(()),
        }
    }
}
