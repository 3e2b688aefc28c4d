//! The byte that begins a TYPE_INFO.

pub const NULL: u8 = 0x1F;
pub const INT1: u8 = 0x30;
pub const BIT: u8 = 0x32;
pub const INT2: u8 = 0x34;
pub const INT4: u8 = 0x38;
pub const SMALL_DATETIME: u8 = 0x3A;
pub const REAL: u8 = 0x3B;
pub const MONEY: u8 = 0x3C;
pub const DATETIME: u8 = 0x3D;
pub const FLOAT: u8 = 0x3E;
pub const SMALL_MONEY: u8 = 0x7A;
pub const INT8: u8 = 0x7F;

pub const INT_N: u8 = 0x26;
pub const BIT_N: u8 = 0x68;
pub const FLOAT_N: u8 = 0x6D;
pub const MONEY_N: u8 = 0x6E;
pub const DATETIME_N: u8 = 0x6F;
pub const GUID: u8 = 0x24;
pub const DECIMAL_N: u8 = 0x6A;
pub const NUMERIC_N: u8 = 0x6C;
pub const DATE_N: u8 = 0x28;
pub const TIME_N: u8 = 0x29;
pub const DATETIME2_N: u8 = 0x2A;
pub const DATETIMEOFFSET_N: u8 = 0x2B;

/// The forms of before TDS 7, with one-byte lengths and no collation.
pub const OLD_CHAR: u8 = 0x2F;
pub const OLD_VARCHAR: u8 = 0x27;
pub const OLD_BINARY: u8 = 0x2D;
pub const OLD_VARBINARY: u8 = 0x25;
pub const OLD_DECIMAL: u8 = 0x37;
pub const OLD_NUMERIC: u8 = 0x3F;

pub const CHAR: u8 = 0xAF;
pub const VARCHAR: u8 = 0xA7;
pub const NCHAR: u8 = 0xEF;
pub const NVARCHAR: u8 = 0xE7;
pub const BINARY: u8 = 0xAD;
pub const VARBINARY: u8 = 0xA5;

pub const TEXT: u8 = 0x23;
pub const NTEXT: u8 = 0x63;
pub const IMAGE: u8 = 0x22;

pub const VARIANT: u8 = 0x62;
pub const XML: u8 = 0xF1;
pub const UDT: u8 = 0xF0;
pub const TABLE: u8 = 0xF3;
pub const JSON: u8 = 0xF4;
pub const VECTOR: u8 = 0xF5;
