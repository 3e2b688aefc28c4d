//! Results of a subquery that are remembered, by what it read of the rows around it.
//!
//! Theory: a result that is asked for again is not made again, and one that is forgotten is. So there is a bound on how many are kept and on the
//! memory of long ones; beyond it remembering begins anew. The last one is kept however long it is: a subquery that reads nothing has no other,
//! and is to run once.

use daruma_value::Value;
use std::collections::HashMap;

/// Results that are kept at most.
const RESULTS_MAX: usize = 65_536;
/// Memory of their keys and long values at most.
const BYTES_MAX: usize = 8 << 20;

/// Results by keys.
#[derive(Default)]
pub struct Memo {
    results: HashMap<Vec<u8>, Value>,
    bytes: usize,
}

impl Memo {
    /// The result for this key, if it is remembered.
    pub fn get(&self, key: &[u8]) -> Option<&Value> {
        self.results.get(key)
    }

    /// Remembers a result for a key that has none.
    pub fn insert(&mut self, key: Vec<u8>, value: Value) {
        let bytes = key.len() + value.outside_bytes();
        if self.results.len() >= RESULTS_MAX || self.bytes + bytes > BYTES_MAX {
            self.clear();
        }
        self.bytes += bytes;
        self.results.insert(key, value);
    }

    /// Forgets all, and gives their memory back.
    pub fn clear(&mut self) {
        *self = Memo::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_results_are_forgotten_before_they_fill_the_memory() {
        let mut memo = Memo::default();
        let long = "x".repeat(8000);
        for key in 0..5000_u32 {
            memo.insert(key.to_le_bytes().to_vec(), Value::str(&long));
            assert!(memo.results.len() * 8000 <= BYTES_MAX, "after {key}");
            assert!(memo.get(&key.to_le_bytes()).is_some(), "the last one");
        }
        memo.insert(vec![1], Value::str("x".repeat(BYTES_MAX)));
        assert!(memo.get(&[1]).is_some(), "the last one, however long");
        for key in 0..60_000_u32 {
            memo.insert(key.to_le_bytes().to_vec(), Value::Int(1));
        }
        assert!(memo.get(&[0; 4]).is_some(), "short ones stay");
    }
}
