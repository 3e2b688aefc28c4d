//! Order-preserving encoding of typed values for B+tree keys.
//!
//! Theory: the bytes of two encoded keys compare (memcmp) as the values do, column by column, so that the tree knows
//! nothing of types. Numbers are big-endian with the sign bit turned; text is its collation sort key; variable parts
//! end in a terminator that sorts below any content. A descending column has all its bytes inverted.
//!
//! Invariants
//! 1. For one type and direction, `encode(a) < encode(b)` exactly when `a < b`; NULL is lowest (highest when descending).
//! 2. No encoding is a proper prefix of another of the same column, so joined columns keep their order.

use crate::collation::{self, CollationId};
use crate::compare::{guid_key, temporal_instant, trim_zeros, variant_family};
use crate::decimal::{PRECISION_MAX, power_of_ten};
use crate::{DataType, Decimal, Value};
use ethnum::I256;

const NULL: u8 = 0x00;
const PRESENT: u8 = 0x01;
/// Ends a variable part; a zero byte inside is written as `ZERO ESCAPED`.
const ZERO: u8 = 0x00;
const ESCAPED: u8 = 0xFF;
/// Room for a key column of most types with its mark, so that a short key is one allocation.
const KEY_BYTES: usize = 16;

/// Appends the key of one column. A value of another kind than `data_type` is encoded by its own kind.
pub fn encode_key(
    value: &Value,
    data_type: DataType,
    collation: CollationId,
    descending: bool,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.reserve(KEY_BYTES);
    match value {
        Value::Null => out.push(NULL),
        present => {
            out.push(PRESENT);
            encode_present(present, data_type, collation, out);
        }
    }
    if descending {
        for byte in out.iter_mut().skip(start) {
            *byte = !*byte;
        }
    }
}

/// The smallest key above every key that starts with `prefix`; `None` when there is none. For ranges over leading columns.
pub fn prefix_successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|b| *b != 0xFF)?;
    let mut next = prefix.get(..=last)?.to_vec();
    if let Some(byte) = next.last_mut() {
        *byte += 1;
    }
    Some(next)
}

fn encode_present(value: &Value, data_type: DataType, collation: CollationId, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bit(v) => out.push(u8::from(*v)),
        Value::TinyInt(v) => out.push(*v),
        Value::SmallInt(v) => out.extend_from_slice(&(v.cast_unsigned() ^ (1 << 15)).to_be_bytes()),
        Value::Int(v) | Value::SmallMoney(v) => out.extend_from_slice(&signed32(*v)),
        Value::BigInt(v) | Value::Money(v) => out.extend_from_slice(&signed64(*v)),
        Value::Decimal(v) => encode_decimal(*v, data_type, out),
        Value::Real(v) => out.extend_from_slice(&float_key(f64::from(*v))),
        Value::Float(v) => out.extend_from_slice(&float_key(*v)),
        Value::Date(days) => out.extend_from_slice(&signed32(*days)),
        Value::Time(v) => out.extend_from_slice(&ticks(v.ticks)),
        Value::SmallDateTime(v) => {
            out.extend_from_slice(&v.days.to_be_bytes());
            out.extend_from_slice(&v.minutes.to_be_bytes());
        }
        Value::DateTime(v) => {
            out.extend_from_slice(&signed32(v.days));
            out.extend_from_slice(&v.ticks.to_be_bytes());
        }
        Value::DateTime2(v) => {
            out.extend_from_slice(&signed32(v.days));
            out.extend_from_slice(&ticks(v.ticks));
        }
        // The offset does not count: equal instants are equal keys.
        Value::DateTimeOffset(v) => {
            out.extend_from_slice(&signed32(v.utc.days));
            out.extend_from_slice(&ticks(v.utc.ticks));
        }
        Value::Str(text) => encode_text(text, collation, out),
        Value::Bytes(bytes) => encode_escaped(trim_zeros(bytes), out),
        Value::Guid(guid) => out.extend_from_slice(&guid_key(guid)),
        Value::Variant(v) => encode_variant(&v.value, v.data_type, collation, out),
    }
}

fn signed32(value: i32) -> [u8; 4] {
    (value.cast_unsigned() ^ (1 << 31)).to_be_bytes()
}

fn signed64(value: i64) -> [u8; 8] {
    (value.cast_unsigned() ^ (1 << 63)).to_be_bytes()
}

/// A day of 100 ns units (864 * 10^9) is below 2^40.
fn ticks(value: u64) -> [u8; 5] {
    let [_, _, _, tail @ ..] = value.to_be_bytes();
    tail
}

/// IEEE total order without the two zeros: negatives inverted, positives with the sign bit set.
fn float_key(value: f64) -> [u8; 8] {
    let bits = (value + 0.0).to_bits();
    let key = if bits >> 63 == 1 {
        !bits
    } else {
        bits | (1 << 63)
    };
    key.to_be_bytes()
}

/// At the column's scale; up to 18 digits fit eight bytes.
fn encode_decimal(value: Decimal, data_type: DataType, out: &mut Vec<u8>) {
    let (precision, scale) = match data_type {
        DataType::Decimal { precision, scale } => (precision, scale),
        _ => (value.precision, value.scale),
    };
    let unscaled = value.rescale(precision, scale).unwrap_or(value).unscaled();
    if precision <= 18 {
        out.extend_from_slice(&signed64(unscaled as i64));
    } else {
        out.extend_from_slice(&(unscaled.cast_unsigned() ^ (1 << 127)).to_be_bytes());
    }
}

fn encode_text(text: &str, collation: CollationId, out: &mut Vec<u8>) {
    if collation.is_binary() {
        encode_escaped(text.trim_end_matches(' ').as_bytes(), out);
    } else {
        // Linguistic sort keys hold no zero byte: the bare terminator is enough.
        collation::sort_key(text, collation, out);
        out.push(ZERO);
    }
}

fn encode_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|b| *b == ZERO) {
        let (head, tail) = rest.split_at(at);
        out.extend_from_slice(head);
        out.extend_from_slice(&[ZERO, ESCAPED]);
        rest = tail.get(1..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[ZERO, ZERO]);
}

/// The family first, then the value in a form that all types of the family share.
fn encode_variant(value: &Value, data_type: DataType, collation: CollationId, out: &mut Vec<u8>) {
    out.push(variant_family(data_type));
    if let Some(number) = value.as_decimal() {
        // At scale 38 any two exact numbers compare; 76 digits fit 256 bits.
        let factor = I256::from(power_of_ten(PRECISION_MAX - number.scale));
        let mut bytes = (I256::from(number.unscaled()) * factor).to_be_bytes();
        if let Some(sign) = bytes.first_mut() {
            *sign ^= 0x80;
        }
        out.extend_from_slice(&bytes);
    } else if let Some((days, time)) = temporal_instant(value) {
        out.extend_from_slice(&signed32(days));
        out.extend_from_slice(&ticks(time));
    } else {
        encode_present(value, data_type, collation, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare_nulls_first;
    use crate::testing::{TYPES, value_of};
    use crate::types::is_comparable;
    use proptest::prelude::*;

    fn typed_pair() -> impl Strategy<Value = (DataType, [Value; 4])> {
        let comparable: Vec<DataType> = TYPES
            .iter()
            .copied()
            .filter(|t| is_comparable(*t))
            .collect();
        prop::sample::select(comparable).prop_flat_map(|t| {
            let nullable = || prop_oneof![1 => Just(Value::Null), 9 => value_of(t)];
            (Just(t), [nullable(), nullable(), nullable(), nullable()])
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn bytes_order_as_values((t, [a, b, c, d]) in typed_pair(), down in any::<bool>(), binary in any::<bool>()) {
            let collation = if binary { CollationId::BIN2 } else { CollationId::DEFAULT };
            let key = |first: &Value, second: &Value| {
                let mut out = Vec::new();
                encode_key(first, t, collation, down, &mut out);
                encode_key(second, t, collation, false, &mut out);
                out
            };
            let first = compare_nulls_first(&a, &b, collation);
            let first = if down { first.reverse() } else { first };
            let expected = first.then(compare_nulls_first(&c, &d, collation));
            prop_assert_eq!(key(&a, &c).cmp(&key(&b, &d)), expected);
        }
    }

    #[test]
    fn successor_of_a_prefix() {
        assert_eq!(prefix_successor(&[1, 0xFF]), Some(vec![2]));
        assert_eq!(prefix_successor(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(prefix_successor(&[0xFF]), None);
    }
}
