//! Data types as declared: base type with length, precision and scale.

use serde::{Deserialize, Serialize};

/// Declared length of a character or binary type: characters (`n` types: UTF-16 units) or bytes, or `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Len(pub u16);

impl Len {
    /// `(max)`: up to 2^31-1 bytes.
    pub const MAX: Len = Len(u16::MAX);

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
    /// Stored as text; no XML methods.
    Xml,
    /// Stored and shown in its binary form; no methods.
    HierarchyId,
    Geography,
    Geometry,
}

impl DataType {
    /// `sysname`: nvarchar(128).
    pub const SYSNAME: DataType = DataType::NVarChar(Len(128));
    pub const NVARCHAR_MAX: DataType = DataType::NVarChar(Len::MAX);
    pub const VARCHAR_MAX: DataType = DataType::VarChar(Len::MAX);
    pub const VARBINARY_MAX: DataType = DataType::VarBinary(Len::MAX);

    pub const fn is_character(self) -> bool {
        use DataType::*;
        matches!(self, Char(_) | VarChar(_) | NChar(_) | NVarChar(_) | Text | NText | Xml)
    }

    /// `nchar`, `nvarchar`, `ntext`, `xml`: counted in UTF-16 units.
    pub const fn is_unicode(self) -> bool {
        use DataType::*;
        matches!(self, NChar(_) | NVarChar(_) | NText | Xml)
    }

    pub const fn is_binary(self) -> bool {
        use DataType::*;
        matches!(self, Binary(_) | VarBinary(_) | Image | RowVersion | HierarchyId | Geography | Geometry)
    }

    pub const fn is_integer(self) -> bool {
        use DataType::*;
        matches!(self, Bit | TinyInt | SmallInt | Int | BigInt)
    }

    pub const fn is_exact_numeric(self) -> bool {
        use DataType::*;
        self.is_integer() || matches!(self, Decimal { .. } | SmallMoney | Money)
    }

    pub const fn is_numeric(self) -> bool {
        use DataType::*;
        self.is_exact_numeric() || matches!(self, Real | Float)
    }

    pub const fn is_temporal(self) -> bool {
        use DataType::*;
        matches!(
            self,
            Date | Time { .. } | SmallDateTime | DateTime | DateTime2 { .. } | DateTimeOffset { .. }
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
}
