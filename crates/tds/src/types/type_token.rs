//! The byte that begins a TYPE_INFO.

/// A NULL without a type.
pub const NULL: u8 = 0x1F;
/// tinyint NOT NULL, 1 byte without sign.
pub const INT1: u8 = 0x30;
/// bit NOT NULL, 1 byte.
pub const BIT: u8 = 0x32;
/// smallint NOT NULL, 2 bytes.
pub const INT2: u8 = 0x34;
/// int NOT NULL, 4 bytes.
pub const INT4: u8 = 0x38;
/// smalldatetime NOT NULL: days since 1900 and minutes, 2 bytes each.
pub const SMALL_DATETIME: u8 = 0x3A;
/// real NOT NULL, 4 bytes.
pub const REAL: u8 = 0x3B;
/// money NOT NULL: ten-thousandths, the high 4 bytes first, then the low 4.
pub const MONEY: u8 = 0x3C;
/// datetime NOT NULL: days since 1900 and three-hundredths of a second, 4 bytes each.
pub const DATETIME: u8 = 0x3D;
/// float NOT NULL, 8 bytes.
pub const FLOAT: u8 = 0x3E;
/// smallmoney NOT NULL: ten-thousandths in 4 bytes.
pub const SMALL_MONEY: u8 = 0x7A;
/// bigint NOT NULL, 8 bytes.
pub const INT8: u8 = 0x7F;

/// tinyint to bigint, by length: 1, 2, 4 or 8; 0 for NULL.
pub const INT_N: u8 = 0x26;
/// bit: length 1, or 0 for NULL.
pub const BIT_N: u8 = 0x68;
/// real and float: length 4 or 8, 0 for NULL.
pub const FLOAT_N: u8 = 0x6D;
/// smallmoney and money: length 4 or 8, 0 for NULL.
pub const MONEY_N: u8 = 0x6E;
/// smalldatetime and datetime: length 4 or 8, 0 for NULL.
pub const DATETIME_N: u8 = 0x6F;
/// uniqueidentifier: length 16, or 0 for NULL; the first three groups are little-endian.
pub const GUID: u8 = 0x24;
/// decimal: a sign byte and an integer of 4, 8, 12 or 16 bytes.
pub const DECIMAL_N: u8 = 0x6A;
/// numeric, as `DECIMAL_N`; clients show the name.
pub const NUMERIC_N: u8 = 0x6C;
/// date: days since 0001-01-01 in 3 bytes (7.3 and later).
pub const DATE_N: u8 = 0x28;
/// time: units of the scale since midnight in 3 to 5 bytes (7.3 and later).
pub const TIME_N: u8 = 0x29;
/// datetime2: a time, then a date (7.3 and later).
pub const DATETIME2_N: u8 = 0x2A;
/// datetimeoffset: a datetime2 in UTC and minutes of offset in 2 bytes (7.3 and later).
pub const DATETIMEOFFSET_N: u8 = 0x2B;

/// Forms older than TDS 7, with one-byte lengths and no collation.
pub const OLD_CHAR: u8 = 0x2F;
/// varchar up to 255 bytes with a one-byte length, as old clients send it.
pub const OLD_VARCHAR: u8 = 0x27;
/// binary up to 255 bytes, as old clients send it.
pub const OLD_BINARY: u8 = 0x2D;
/// varbinary up to 255 bytes, as old clients send it.
pub const OLD_VARBINARY: u8 = 0x25;
/// decimal of old clients.
pub const OLD_DECIMAL: u8 = 0x37;
/// numeric of old clients.
pub const OLD_NUMERIC: u8 = 0x3F;

/// char, in the collation's code page.
pub const CHAR: u8 = 0xAF;
/// varchar, and with 0xFFFF as length varchar(max).
pub const VARCHAR: u8 = 0xA7;
/// nchar, UTF-16.
pub const NCHAR: u8 = 0xEF;
/// nvarchar, and with 0xFFFF as length nvarchar(max).
pub const NVARCHAR: u8 = 0xE7;
/// binary.
pub const BINARY: u8 = 0xAD;
/// varbinary, and with 0xFFFF as length varbinary(max).
pub const VARBINARY: u8 = 0xA5;

/// text, with a text pointer before each value.
pub const TEXT: u8 = 0x23;
/// ntext, with a text pointer before each value.
pub const NTEXT: u8 = 0x63;
/// image, with a text pointer before each value.
pub const IMAGE: u8 = 0x22;

/// sql_variant: each value carries its own type.
pub const VARIANT: u8 = 0x62;
/// xml, in chunks (7.2 and later).
pub const XML: u8 = 0xF1;
/// A CLR type: geometry, geography, hierarchyid, or a user's.
pub const UDT: u8 = 0xF0;
/// A table-valued parameter; in requests only.
pub const TABLE: u8 = 0xF3;
/// json, for clients that asked for the feature at login.
pub const JSON: u8 = 0xF4;
/// vector, for clients that asked for the feature at login.
pub const VECTOR: u8 = 0xF5;
