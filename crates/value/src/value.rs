//! One datum of any type.

use crate::DataType;
use compact_str::CompactString;

/// A datum. `Null` has no type of its own: the static type of the column or expression applies.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bit(bool),
    TinyInt(u8),
    SmallInt(i16),
    Int(i32),
    BigInt(i64),
    Decimal(Decimal),
    /// 1/10,000 units.
    SmallMoney(i32),
    /// 1/10,000 units.
    Money(i64),
    Real(f32),
    Float(f64),
    /// Days since 0001-01-01 (proleptic Gregorian), 0..=3_652_058.
    Date(i32),
    Time(Time),
    SmallDateTime(SmallDateTime),
    DateTime(DateTime),
    DateTime2(DateTime2),
    DateTimeOffset(DateTimeOffset),
    /// Text of any character type.
    Str(CompactString),
    /// Bytes of any binary type, rowversion included.
    Bytes(Vec<u8>),
    /// The 16 bytes in the order the wire and `CAST(.. AS binary(16))` show (first three groups little-endian).
    Guid([u8; 16]),
    Variant(Box<VariantValue>),
}

/// `unscaled / 10^scale`, |unscaled| < 10^38. Two halves keep `Value` at 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    pub hi: i64,
    pub lo: u64,
    pub precision: u8,
    pub scale: u8,
}

impl Decimal {
    /// The number `unscaled` divided by ten to the power of `scale`.
    pub const fn new(unscaled: i128, precision: u8, scale: u8) -> Decimal {
        Decimal {
            hi: (unscaled >> 64) as i64,
            lo: unscaled as u64,
            precision,
            scale,
        }
    }

    /// The number without its decimal point.
    pub const fn unscaled(self) -> i128 {
        ((self.hi as i128) << 64) | self.lo as i128
    }
}

/// Time of day in units of 100 ns, always normalised to scale 7; `scale` is how many digits show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time {
    pub ticks: u64,
    pub scale: u8,
}

/// Days since 1900-01-01 and minutes since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SmallDateTime {
    pub days: u16,
    pub minutes: u16,
}

/// Days since 1900-01-01 (from 1753-01-01 on) and 1/300 s since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DateTime {
    pub days: i32,
    pub ticks: u32,
}

/// Days since 0001-01-01 and 100 ns units since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DateTime2 {
    pub days: i32,
    pub ticks: u64,
    pub scale: u8,
}

/// UTC instant with the offset it was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DateTimeOffset {
    pub utc: DateTime2,
    pub offset_minutes: i16,
}

/// Content of a `sql_variant`: its own base type and value (never NULL, never nested).
#[derive(Clone, Debug, PartialEq)]
pub struct VariantValue {
    pub data_type: DataType,
    pub value: Value,
}

impl Value {
    /// Is it NULL?
    pub const fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Bytes that the value has allocated, roughly.
    #[inline]
    pub fn outside_bytes(&self) -> usize {
        /// Texts of no more bytes lie in the value itself.
        const INLINE_BYTES: usize = 24;
        match self {
            Value::Str(text) if text.len() > INLINE_BYTES => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Variant(variant) => size_of::<VariantValue>() + variant.value.outside_bytes(),
            _ => 0,
        }
    }

    /// A text.
    pub fn str(text: impl AsRef<str>) -> Value {
        Value::Str(CompactString::new(text))
    }
}

const _: () = assert!(size_of::<Value>() == 32);
