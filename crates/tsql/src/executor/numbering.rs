//! Dense numbers for keys, a batch at a time: groups of an aggregate, keys of a hash join.
//!
//! Theory: a single key column of numbers goes into a table of integers; every other key becomes bytes that are equal
//! exactly for equal keys. Integer keys start out hashed by their low bits, which leaves dense ids next to each other;
//! when that makes long runs the table turns to a real hash. A batch whose keys are numbers of another kind turns the
//! whole table to bytes.
//!
//! Invariants
//! 1. Numbers are given in the order in which keys first come, without gaps.
//! 2. Turning to bytes changes no number.

use super::key_table::KeyTable;
use crate::error::Result;
use daruma_value::column::{Class, Column, Data, NO_ROW, Number};
use daruma_value::compare::write_key;
use daruma_value::{CollationId, DataType, Value};

/// Treatment of NULL in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// Equal to itself: grouping.
    Group,
    /// Equal to nothing: joins.
    Nobody,
}

/// Gives equal keys equal numbers, in order of arrival: the dictionary of grouping and joining.
pub struct Numbering {
    keys: Keys,
    nulls: Nulls,
    collations: Vec<CollationId>,
    buffer: Vec<u8>,
}

enum Keys {
    /// Nothing is known of the keys yet.
    Unknown,
    Integers {
        table: IntTable,
        class: Class,
        data_type: DataType,
        /// Number of NULL.
        null: u32,
    },
    Bytes(KeyTable),
}

impl Numbering {
    /// `collations` has one entry for each key column.
    pub fn new(collations: &[CollationId], nulls: Nulls) -> Numbering {
        Numbering {
            keys: Keys::Unknown,
            nulls,
            collations: collations.to_vec(),
            buffer: Vec::new(),
        }
    }

    /// Different keys so far.
    pub fn len(&self) -> usize {
        match &self.keys {
            Keys::Unknown => 0,
            Keys::Integers { table, .. } => table.keys.len(),
            Keys::Bytes(table) => table.len(),
        }
    }

    /// Appends the number of each row's key to `out`; new keys get new ones. [`NO_ROW`] for NULL keys of a join.
    pub fn number(&mut self, keys: &[&Column], len: usize, out: &mut Vec<u32>) -> Result<()> {
        self.settle(keys);
        let nulls = self.nulls;
        match (&mut self.keys, keys) {
            (Keys::Integers { table, null, .. }, [column]) => {
                let Data::Int(data) = column.data() else {
                    return Err(crate::binder::too_complex());
                };
                for (row, key) in data.iter().enumerate() {
                    let number = if !column.nulls().is_empty() && column.is_null(row) {
                        if nulls == Nulls::Group && *null == NO_ROW {
                            *null = table.reserve()?;
                        }
                        *null
                    } else {
                        table.insert(*key)?
                    };
                    out.push(number);
                }
                Ok(())
            }
            (Keys::Bytes(table), _) => {
                for row in 0..len {
                    let whole = row_key(keys, &self.collations, row, &mut self.buffer);
                    out.push(if whole || nulls == Nulls::Group {
                        let entry = table.insert(&self.buffer);
                        entry.ok_or_else(crate::binder::too_complex)?.0
                    } else {
                        NO_ROW
                    });
                }
                Ok(())
            }
            _ => Err(crate::binder::too_complex()),
        }
    }

    /// Appends the number of each row's key to `out`, [`NO_ROW`] for unknown keys.
    pub fn find(&mut self, keys: &[&Column], len: usize, out: &mut Vec<u32>) -> Result<()> {
        self.settle(keys);
        let nulls = self.nulls;
        match (&self.keys, keys) {
            (Keys::Integers { table, null, .. }, [column]) => {
                let Data::Int(data) = column.data() else {
                    return Err(crate::binder::too_complex());
                };
                if column.nulls().is_empty() {
                    out.extend(data.iter().map(|key| table.find(*key)));
                    return Ok(());
                }
                let null = if nulls == Nulls::Group { *null } else { NO_ROW };
                out.extend(data.iter().enumerate().map(|(row, key)| {
                    if column.is_null(row) {
                        null
                    } else {
                        table.find(*key)
                    }
                }));
                Ok(())
            }
            (Keys::Bytes(table), _) => {
                for row in 0..len {
                    let whole = row_key(keys, &self.collations, row, &mut self.buffer);
                    let known = if whole || nulls == Nulls::Group {
                        table.find(&self.buffer)
                    } else {
                        None
                    };
                    out.push(known.unwrap_or(NO_ROW));
                }
                Ok(())
            }
            _ => Err(crate::binder::too_complex()),
        }
    }

    /// Chooses the kind of table, or changes it for keys of another kind.
    fn settle(&mut self, keys: &[&Column]) {
        let integers = match keys {
            [column] if matches!(column.data(), Data::Int(_)) => {
                column.class().map(|c| (c, column.data_type()))
            }
            _ => None,
        };
        match (&mut self.keys, integers) {
            (Keys::Unknown, Some((class, data_type))) => {
                self.keys = Keys::Integers {
                    table: IntTable::default(),
                    class,
                    data_type,
                    null: NO_ROW,
                };
            }
            (Keys::Unknown, None) => self.keys = Keys::Bytes(KeyTable::new()),
            (Keys::Integers { class, .. }, Some((other, _))) if *class == other => {}
            (Keys::Integers { .. }, _) => self.turn_to_bytes(),
            (Keys::Bytes(_), _) => {}
        }
    }

    fn turn_to_bytes(&mut self) {
        let Keys::Integers {
            table,
            data_type,
            null,
            ..
        } = &self.keys
        else {
            return;
        };
        let collation = self.collations.first().copied().unwrap_or_default();
        let mut bytes = KeyTable::new();
        for (number, key) in table.keys.iter().enumerate() {
            let value = if number as u32 == *null {
                Value::Null
            } else {
                Number::Int(*key).value(*data_type)
            };
            self.buffer.clear();
            write_key(&value, collation, &mut self.buffer);
            bytes.insert(&self.buffer);
        }
        self.keys = Keys::Bytes(bytes);
    }
}

/// Key bytes of a row; false when a part is NULL.
pub fn row_key(
    keys: &[&Column],
    collations: &[CollationId],
    row: usize,
    out: &mut Vec<u8>,
) -> bool {
    out.clear();
    let mut whole = true;
    for (column, collation) in keys.iter().zip(collations) {
        match column.data() {
            Data::Any(values) => {
                let value = values.get(row).unwrap_or(&Value::Null);
                whole &= !value.is_null();
                write_key(value, *collation, out);
            }
            _ => {
                let value = column.value(row);
                whole &= !value.is_null();
                write_key(&value, *collation, out);
            }
        }
    }
    whole
}

/// Open addressing over integers.
#[derive(Default)]
struct IntTable {
    /// Numbers by bucket; a power of two of them, at most half in use.
    buckets: Vec<u32>,
    keys: Vec<i64>,
    /// Low bits made long runs.
    hashed: bool,
    /// A number that no key has: NULL's.
    reserved: u32,
}

/// Steps of a search by low bits after which the table turns to hashing.
const RUN_MAX: usize = 16;

impl IntTable {
    #[inline]
    fn start(&self, key: i64) -> usize {
        let key = key.cast_unsigned();
        if self.hashed {
            let product = u128::from(key ^ 0xD6E8_FEB8_6659_FD93) * 0x9E37_79B9_7F4A_7C15;
            ((product >> 64) ^ product) as usize
        } else {
            key as usize
        }
    }

    /// Number of the key, or the free bucket for it and the steps it took.
    #[inline]
    fn probe(&self, key: i64) -> (u32, usize, usize) {
        let mask = self.buckets.len().wrapping_sub(1);
        let mut at = self.start(key) & mask;
        for step in 0..self.buckets.len() {
            match self.buckets.get(at) {
                Some(&number) if number != NO_ROW => {
                    if self.keys.get(number as usize) == Some(&key) && !self.is_reserved(number) {
                        return (number, at, step);
                    }
                }
                _ => return (NO_ROW, at, step),
            }
            at = (at + 1) & mask;
        }
        (NO_ROW, 0, 0)
    }

    #[inline]
    fn is_reserved(&self, number: u32) -> bool {
        self.reserved == number + 1
    }

    #[inline]
    fn find(&self, key: i64) -> u32 {
        self.probe(key).0
    }

    #[inline]
    fn insert(&mut self, key: i64) -> Result<u32> {
        if self.keys.len() * 2 >= self.buckets.len() {
            self.rebuild((self.buckets.len() * 2).max(64));
        }
        let (known, mut bucket, steps) = self.probe(key);
        if known != NO_ROW {
            return Ok(known);
        }
        if steps > RUN_MAX && !self.hashed {
            self.hashed = true;
            self.rebuild(self.buckets.len());
            bucket = self.probe(key).1;
        }
        let number = self.next()?;
        self.keys.push(key);
        if let Some(place) = self.buckets.get_mut(bucket) {
            *place = number;
        }
        Ok(number)
    }

    fn next(&self) -> Result<u32> {
        u32::try_from(self.keys.len())
            .ok()
            .filter(|n| *n < NO_ROW - 1)
            .ok_or_else(crate::binder::too_complex)
    }

    /// A number without a key.
    fn reserve(&mut self) -> Result<u32> {
        let number = self.next()?;
        self.keys.push(0);
        self.reserved = number + 1;
        Ok(number)
    }

    fn rebuild(&mut self, size: usize) {
        self.buckets.clear();
        self.buckets.resize(size, NO_ROW);
        for number in 0..self.keys.len() as u32 {
            if self.is_reserved(number) {
                continue;
            }
            let key = self.keys.get(number as usize).copied().unwrap_or(0);
            let (_, bucket, _) = self.probe(key);
            if let Some(place) = self.buckets.get_mut(bucket) {
                *place = number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn column(data_type: DataType, values: impl IntoIterator<Item = Value>) -> Column {
        let mut column = Column::new(data_type);
        values.into_iter().for_each(|v| column.push(v));
        column
    }

    /// Numbers as a map gives them.
    fn expected(values: &[Option<i64>], known: &mut HashMap<Option<i64>, u32>) -> Vec<u32> {
        let mut number = |v: &Option<i64>| {
            let next = known.len() as u32;
            *known.entry(*v).or_insert(next)
        };
        values.iter().map(&mut number).collect()
    }

    fn keys(seed: u64, stride: i64) -> Vec<Option<i64>> {
        let mut x = seed;
        let mut next = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (x >> 33) as i64
        };
        (0..3000)
            .map(|_| match next() % 9 {
                0 => None,
                _ => Some(next() % 700 * stride),
            })
            .collect()
    }

    #[test]
    fn numbers_are_dense_and_stable() {
        for stride in [1i64, -3, 1 << 20, 1 << 40, 0x1234_5678_9ABC] {
            let given = keys(stride.unsigned_abs(), stride);
            let values: Vec<Value> = given
                .iter()
                .map(|v| v.map_or(Value::Null, Value::BigInt))
                .collect();
            let mut map = HashMap::new();
            let want = expected(&given, &mut map);
            let mut numbering = Numbering::new(&[CollationId::DEFAULT], Nulls::Group);
            let mut found = Vec::new();
            for chunk in values.chunks(100) {
                let column = column(DataType::BigInt, chunk.iter().cloned());
                numbering
                    .number(&[&column], chunk.len(), &mut found)
                    .unwrap();
            }
            assert_eq!(found, want, "stride {stride}");
            assert_eq!(numbering.len(), map.len());
            // Keys of another kind, and no kind at all, find the same numbers.
            let decimals = values.iter().map(|v| match v {
                Value::BigInt(n) => {
                    Value::Decimal(daruma_value::Decimal::new(i128::from(*n) * 100, 38, 2))
                }
                other => other.clone(),
            });
            let wide = DataType::Decimal {
                precision: 38,
                scale: 2,
            };
            let mut again = Vec::new();
            numbering
                .find(&[&column(wide, decimals)], values.len(), &mut again)
                .unwrap();
            assert_eq!(again, want, "stride {stride}");
        }
    }

    #[test]
    fn null_keys_of_a_join_find_nobody() {
        let given = column(DataType::Int, [Value::Int(1), Value::Null, Value::Int(1)]);
        let mut numbering = Numbering::new(&[CollationId::DEFAULT], Nulls::Nobody);
        let mut found = Vec::new();
        numbering.number(&[&given], 3, &mut found).unwrap();
        numbering.find(&[&given], 3, &mut found).unwrap();
        assert_eq!(found, [0, NO_ROW, 0, 0, NO_ROW, 0]);
        let two = [&given, &given];
        let mut pairs = Numbering::new(&[CollationId::DEFAULT; 2], Nulls::Nobody);
        let mut found = Vec::new();
        pairs.number(&two, 3, &mut found).unwrap();
        assert_eq!(found, [0, NO_ROW, 0]);
    }
}
