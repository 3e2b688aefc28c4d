//! Values of a subquery, as far as they answer `x op ANY (subquery)`.
//!
//! Theory: equality looks among keys. Every other comparison holds for some value exactly when it holds for the least or
//! the greatest one, so these two are kept. NULL among the values makes unknown what would be false, and without any value even a NULL
//! before ANY is false.

use super::expr::holds;
use daruma_syntax::ast::CompareOp;
use daruma_value::compare::{compare, write_key};
use daruma_value::{CollationId, Value};
use std::cmp::Ordering;
use std::collections::HashSet;

/// What a key takes beside its bytes.
const KEY_BYTES: usize = 48;

/// For one comparison under one collation.
pub struct ValueSet {
    op: CompareOp,
    collation: CollationId,
    keys: HashSet<Vec<u8>>,
    least: Option<Value>,
    greatest: Option<Value>,
    has_null: bool,
    kinds: Kinds,
    /// Memory that was told to be taken.
    bytes: usize,
}

/// Keys of approximate numbers do not meet those of exact ones, and variants compare by rules of their own.
#[derive(Clone, Copy, Default)]
struct Kinds {
    exact: bool,
    float: bool,
    variant: bool,
}

impl Kinds {
    fn note(&mut self, value: &Value) {
        match value {
            Value::Variant(_) => self.variant = true,
            Value::Float(_) | Value::Real(_) => self.float = true,
            _ => self.exact = true,
        }
    }
}

impl ValueSet {
    /// Without values.
    pub fn new(op: CompareOp, collation: CollationId) -> ValueSet {
        ValueSet {
            op,
            collation,
            keys: HashSet::new(),
            least: None,
            greatest: None,
            has_null: false,
            kinds: Kinds::default(),
            bytes: 0,
        }
    }

    /// Is it enough to know the least and the greatest value?
    pub fn is_of_ends(&self) -> bool {
        self.op != CompareOp::Equal
    }

    /// Memory of the values, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a value in. Gives the bytes that this takes.
    pub fn add(&mut self, value: &Value) -> usize {
        if value.is_null() {
            self.has_null = true;
            return 0;
        }
        self.kinds.note(value);
        let taken = match self.is_of_ends() {
            true => self.add_end(value),
            false => self.add_key(value),
        };
        self.bytes += taken;
        taken
    }

    fn add_key(&mut self, value: &Value) -> usize {
        let mut key = Vec::new();
        write_key(value, self.collation, &mut key);
        let bytes = key.len() + KEY_BYTES;
        match self.keys.insert(key) {
            true => bytes,
            false => 0,
        }
    }

    fn add_end(&mut self, value: &Value) -> usize {
        let collation = self.collation;
        for (end, order) in [
            (&mut self.least, Ordering::Less),
            (&mut self.greatest, Ordering::Greater),
        ] {
            let is_further = |end: &Value| compare(value, end, collation) == Some(order);
            if end.as_ref().is_none_or(is_further) {
                *end = Some(value.clone());
            }
        }
        let ends = [&self.least, &self.greatest].into_iter().flatten();
        let bytes: usize = ends.map(Value::outside_bytes).sum();
        // What was once taken stays taken: the next end may be as long.
        bytes.saturating_sub(self.bytes)
    }

    /// Does the comparison hold for `left` and some value? `Some(None)`: nobody can know, for NULL. `None`: the values have to be compared
    /// one by one.
    pub fn answer(&self, left: &Value) -> Option<Option<bool>> {
        if left.is_null() {
            let is_empty = self.keys.is_empty() && self.least.is_none() && !self.has_null;
            return Some(is_empty.then_some(false));
        }
        let mut all = self.kinds;
        all.note(left);
        if all.variant {
            return None;
        }
        let found = match self.op {
            CompareOp::Equal if all.exact && all.float => return None,
            CompareOp::Equal => {
                let mut key = Vec::new();
                write_key(left, self.collation, &mut key);
                self.keys.contains(&key)
            }
            op => {
                let holds_for = |end: &Value| {
                    compare(left, end, self.collation).is_some_and(|order| holds(op, order))
                };
                let ends = [&self.least, &self.greatest];
                ends.into_iter().flatten().any(holds_for)
            }
        };
        Some(match found {
            true => Some(true),
            false if self.has_null => None,
            false => Some(false),
        })
    }
}
