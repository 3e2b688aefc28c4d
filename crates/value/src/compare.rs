//! Order and equality of values, and byte keys for hash joins and aggregates.
//!
//! Theory: operators compare values of one type, after the binder inserted conversions; numbers of different types and
//! temporals of different precision are compared all the same, so that a caller who skips a lossless conversion is right.
//!
//! Invariants
//! 1. `compare` is a total order over the non-NULL values of one type (NaN cannot be stored).
//! 2. `write_key(a) == write_key(b)` exactly when `compare(a, b)` is `Equal` or both are NULL; keys are self-delimiting.

use crate::collation::{self, CollationId};
use crate::{DataType, DateTimeOffset, Decimal, Value, VariantValue, decimal};
use std::cmp::Ordering;

/// Order of two values; `None` when one is NULL or their kinds never meet.
pub fn compare(left: &Value, right: &Value, collation: CollationId) -> Option<Ordering> {
    use Value::*;
    Some(match (left, right) {
        (Null, _) | (_, Null) => return None,
        (Int(a), Int(b)) => a.cmp(b),
        (Str(a), Str(b)) => collation::compare(a, b, collation),
        (Bytes(a), Bytes(b)) => compare_bytes(a, b),
        (Guid(a), Guid(b)) => guid_key(a).cmp(&guid_key(b)),
        (Date(a), Date(b)) => a.cmp(b),
        (Time(a), Time(b)) => a.ticks.cmp(&b.ticks),
        (SmallDateTime(a), SmallDateTime(b)) => a.cmp(b),
        (DateTime(a), DateTime(b)) => a.cmp(b),
        (DateTime2(a), DateTime2(b)) => (a.days, a.ticks).cmp(&(b.days, b.ticks)),
        (DateTimeOffset(a), DateTimeOffset(b)) => instant(a).cmp(&instant(b)),
        (Variant(a), Variant(b)) => compare_variants(a, b, collation),
        _ => match (temporal_instant(left), temporal_instant(right)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => compare_numbers(left, right)?,
        },
    })
}

/// Equality for `=`; NULL is unknown.
pub fn equal(left: &Value, right: &Value, collation: CollationId) -> Option<bool> {
    match (left, right) {
        (Value::Str(a), Value::Str(b)) => Some(collation::equal(a, b, collation)),
        _ => compare(left, right, collation).map(Ordering::is_eq),
    }
}

/// Order for ORDER BY and grouping: NULL first and equal to itself.
pub fn compare_nulls_first(left: &Value, right: &Value, collation: CollationId) -> Ordering {
    match (left.is_null(), right.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => compare(left, right, collation).unwrap_or(Ordering::Equal),
    }
}

fn instant(value: &DateTimeOffset) -> (i32, u64) {
    (value.utc.days, value.utc.ticks)
}

/// Binary strings compare as if the shorter were padded with zero bytes.
fn compare_bytes(left: &[u8], right: &[u8]) -> Ordering {
    trim_zeros(left).cmp(trim_zeros(right))
}

/// The part of a binary string that counts in comparisons.
pub(crate) fn trim_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes
        .iter()
        .rposition(|b| *b != 0)
        .map_or(0, |last| last + 1);
    bytes.get(..end).unwrap_or_default()
}

/// The bytes of a guid, most significant first in the product's order: the node first, the time last.
pub(crate) fn guid_key(guid: &[u8; 16]) -> [u8; 16] {
    const ORDER: [usize; 16] = [10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3];
    ORDER.map(|i| guid[i])
}

fn compare_numbers(left: &Value, right: &Value) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (left.as_i64(), right.as_i64()) {
        return Some(a.cmp(&b));
    }
    if let (Some(a), Some(b)) = (left.as_decimal(), right.as_decimal()) {
        return Some(decimal::compare(a, b));
    }
    left.as_f64()?.partial_cmp(&right.as_f64()?)
}

impl Value {
    /// Any integer type, bit included.
    pub fn as_i64(&self) -> Option<i64> {
        Some(match self {
            Value::Bit(v) => i64::from(*v),
            Value::TinyInt(v) => i64::from(*v),
            Value::SmallInt(v) => i64::from(*v),
            Value::Int(v) => i64::from(*v),
            Value::BigInt(v) => *v,
            _ => return None,
        })
    }

    /// Any exact number.
    pub fn as_decimal(&self) -> Option<Decimal> {
        Some(match self {
            Value::Decimal(v) => *v,
            Value::SmallMoney(v) => Decimal::new(i128::from(*v), 10, 4),
            Value::Money(v) => Decimal::new(i128::from(*v), 19, 4),
            other => Decimal::from_i64(other.as_i64()?),
        })
    }

    /// Any number, perhaps rounded.
    pub fn as_f64(&self) -> Option<f64> {
        Some(match self {
            Value::Real(v) => f64::from(*v),
            Value::Float(v) => *v,
            Value::Decimal(v) => v.to_f64(),
            Value::Money(v) => *v as f64 / 10_000.0,
            Value::SmallMoney(v) => f64::from(*v) / 10_000.0,
            other => other.as_i64()? as f64,
        })
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(v) => Some(v),
            _ => None,
        }
    }

    /// The bytes, if it is a binary value.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(v) => Some(v),
            _ => None,
        }
    }
}

/// Rank of a `sql_variant`'s family: a value of a higher family is the greater, whatever it holds.
pub(crate) fn variant_family(data_type: DataType) -> u8 {
    use DataType::*;
    match data_type {
        UniqueIdentifier => 0,
        Binary(_) | VarBinary(_) | RowVersion => 1,
        Char(_) | VarChar(_) | NChar(_) | NVarChar(_) => 2,
        Bit | TinyInt | SmallInt | Int | BigInt | Decimal { .. } | SmallMoney | Money => 3,
        Real | Float => 4,
        _ => 5,
    }
}

fn compare_variants(left: &VariantValue, right: &VariantValue, collation: CollationId) -> Ordering {
    let families = variant_family(left.data_type).cmp(&variant_family(right.data_type));
    families.then_with(|| {
        match (
            temporal_instant(&left.value),
            temporal_instant(&right.value),
        ) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => compare(&left.value, &right.value, collation).unwrap_or(Ordering::Equal),
        }
    })
}

/// Days since 0001-01-01 and 100 ns units, for values of any temporal type.
pub(crate) fn temporal_instant(value: &Value) -> Option<(i32, u64)> {
    const DAYS_1900: i32 = 693_595;
    Some(match value {
        Value::Date(days) => (*days, 0),
        Value::Time(t) => (DAYS_1900, t.ticks),
        Value::SmallDateTime(v) => (
            DAYS_1900 + i32::from(v.days),
            u64::from(v.minutes) * 600_000_000,
        ),
        // Thirds of a hundredth of a second, rounded to what datetime2 would show.
        Value::DateTime(v) => (DAYS_1900 + v.days, (u64::from(v.ticks) * 100_000 + 1) / 3),
        Value::DateTime2(v) => (v.days, v.ticks),
        Value::DateTimeOffset(v) => instant(v),
        _ => return None,
    })
}

/// Appends a key that is equal exactly for equal values. Keys of several values may be joined.
pub fn write_key(value: &Value, collation: CollationId, out: &mut Vec<u8>) {
    const NULL: u8 = 0;
    const INTEGER: u8 = 1;
    const DECIMAL: u8 = 2;
    const FLOAT: u8 = 3;
    const TEMPORAL: u8 = 4;
    const TEXT: u8 = 5;
    const BINARY: u8 = 6;
    const GUID: u8 = 7;
    const VARIANT: u8 = 8;
    if let Some(number) = value.as_i64() {
        out.push(INTEGER);
        out.extend_from_slice(&number.to_le_bytes());
        return;
    }
    if let Some(number) = value.as_decimal() {
        let (unscaled, scale) = number.normalized();
        if scale == 0
            && let Ok(whole) = i64::try_from(unscaled)
        {
            out.push(INTEGER);
            out.extend_from_slice(&whole.to_le_bytes());
            return;
        }
        out.push(DECIMAL);
        out.push(scale);
        out.extend_from_slice(&unscaled.to_le_bytes());
        return;
    }
    if let Some((days, ticks)) = temporal_instant(value) {
        out.push(TEMPORAL);
        out.extend_from_slice(&days.to_le_bytes());
        out.extend_from_slice(&ticks.to_le_bytes());
        return;
    }
    match value {
        Value::Real(_) | Value::Float(_) => {
            // Adding zero turns -0 into 0, which equals it.
            let number = value.as_f64().unwrap_or(0.0) + 0.0;
            out.push(FLOAT);
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        Value::Str(text) => write_sized(TEXT, out, |out| collation::sort_key(text, collation, out)),
        Value::Bytes(bytes) => {
            write_sized(BINARY, out, |out| out.extend_from_slice(trim_zeros(bytes)))
        }
        Value::Guid(guid) => {
            out.push(GUID);
            out.extend_from_slice(guid);
        }
        Value::Variant(variant) => {
            out.extend_from_slice(&[VARIANT, variant_family(variant.data_type)]);
            write_key(&variant.value, collation, out);
        }
        _ => out.push(NULL),
    }
}

fn write_sized(tag: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let size = (out.len() - at - 4) as u32;
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&size.to_le_bytes());
    }
}

/// A 64-bit hash of key bytes, for hash tables and CHECKSUM-like uses inside the engine. Not stable across versions.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product as u64) ^ (product >> 64) as u64
    };
    let mut hash = MULTIPLIER ^ bytes.len() as u64;
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        hash = fold(hash ^ u64::from_le_bytes(*word), MULTIPLIER);
    }
    let last = tail.iter().fold(0u64, |w, b| (w << 8) | u64::from(*b));
    fold(hash ^ last, MULTIPLIER ^ 0xD6E8_FEB8_6659_FD93)
}

/// Hash of one value, consistent with `compare`.
pub fn hash_key(value: &Value, collation: CollationId) -> u64 {
    let mut key = Vec::with_capacity(32);
    write_key(value, collation, &mut key);
    hash_bytes(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Len;
    use proptest::prelude::*;

    const C: CollationId = CollationId::DEFAULT;

    #[test]
    fn mixed_numbers() {
        let dec = |t: &str| Value::Decimal(Decimal::parse_literal(t).expect(t));
        assert_eq!(
            compare(&Value::Int(1), &dec("1.00"), C),
            Some(Ordering::Equal)
        );
        assert_eq!(hash_key(&Value::Int(1), C), hash_key(&dec("1.00"), C));
        assert_eq!(
            compare(&Value::Money(15_000), &dec("1.6"), C),
            Some(Ordering::Less)
        );
        assert_eq!(compare(&Value::Null, &Value::Int(1), C), None);
        assert_eq!(
            compare_nulls_first(&Value::Null, &Value::Int(1), C),
            Ordering::Less
        );
    }

    #[test]
    fn text_binary_and_guids() {
        assert_eq!(
            equal(&Value::str("ABC "), &Value::str("abc"), C),
            Some(true)
        );
        assert_eq!(
            hash_key(&Value::str("ABC "), C),
            hash_key(&Value::str("abc"), C)
        );
        assert_eq!(
            equal(&Value::Bytes(vec![1, 0]), &Value::Bytes(vec![1]), C),
            Some(true)
        );
        let (mut a, mut b) = ([0u8; 16], [0u8; 16]);
        a[0] = 0xFF;
        b[10] = 1;
        assert_eq!(
            compare(&Value::Guid(a), &Value::Guid(b), C),
            Some(Ordering::Less)
        );
    }

    #[test]
    fn variants_order_by_family_first() {
        let v = |data_type, value| Value::Variant(Box::new(VariantValue { data_type, value }));
        let text = v(DataType::VarChar(Len(3)), Value::str("999"));
        let int = v(DataType::Int, Value::Int(1));
        assert_eq!(compare(&text, &int, C), Some(Ordering::Less));
        assert_eq!(
            equal(&int, &v(DataType::BigInt, Value::BigInt(1)), C),
            Some(true)
        );
    }

    proptest! {
        #[test]
        fn keys_agree_with_equality(a in "[aA \u{e9}]{0,3}", b in "[aA \u{e9}]{0,3}") {
            let key = |t: &str| { let mut k = Vec::new(); write_key(&Value::str(t), C, &mut k); k };
            prop_assert_eq!(equal(&Value::str(&a), &Value::str(&b), C), Some(key(&a) == key(&b)));
        }
    }
}
