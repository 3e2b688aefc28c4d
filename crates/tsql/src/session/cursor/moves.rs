//! Rows of an open cursor whose keys were changed through it: where they lie since then.
//!
//! Theory: what is kept belongs to the cursor, and the change of a row to a transaction. So each note gives a way back, which the
//! transaction has among what it takes back, newest first. A cursor that is gone has nothing to be taken back.
//!
//! Invariant: `bytes` counts the places noted and those in all ways back that are still there.

use daruma_value::Value;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Places of rows, by the positions of the rows from 1.
#[derive(Default)]
pub(super) struct Moves(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    places: HashMap<usize, Vec<Value>>,
    bytes: usize,
}

/// Where a row lay before it was moved.
pub(crate) struct WayBack {
    moves: Weak<Moves>,
    row: usize,
    /// `None`: where the cursor found it when it was opened.
    before: Option<Vec<Value>>,
}

impl Moves {
    /// Where the row lies, if it was moved.
    pub fn of(&self, row: usize) -> Option<Vec<Value>> {
        self.0.lock().places.get(&row).cloned()
    }

    /// Memory of all that is kept.
    pub fn bytes(&self) -> usize {
        self.0.lock().bytes
    }

    /// The row lies elsewhere from now on.
    pub fn note(self: &Arc<Self>, row: usize, places: Vec<Value>) -> WayBack {
        let mut noted = self.0.lock();
        noted.bytes += bytes_of(&places);
        let before = noted.places.insert(row, places);
        WayBack {
            moves: Arc::downgrade(self),
            row,
            before,
        }
    }
}

impl WayBack {
    /// The row lies again where it lay before.
    pub fn take(mut self) {
        let Some(moves) = self.moves.upgrade() else {
            return;
        };
        let mut noted = moves.0.lock();
        let replaced = match self.before.take() {
            Some(places) => noted.places.insert(self.row, places),
            None => noted.places.remove(&self.row),
        };
        noted.bytes -= replaced.as_deref().map_or(0, bytes_of);
    }
}

impl Drop for WayBack {
    fn drop(&mut self) {
        if let Some((before, moves)) = self.before.take().zip(self.moves.upgrade()) {
            moves.0.lock().bytes -= bytes_of(&before);
        }
    }
}

/// Memory of the places of a row.
pub(super) fn bytes_of(places: &[Value]) -> usize {
    let outside: usize = places.iter().map(Value::outside_bytes).sum();
    size_of_val(places) + outside + size_of::<(usize, Vec<Value>)>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(key: i32) -> Vec<Value> {
        vec![Value::Int(key)]
    }

    #[test]
    fn ways_back_are_taken_newest_first_or_forgotten() {
        let moves = Arc::new(Moves::default());
        let one = bytes_of(&place(0));
        let first = moves.note(3, place(1));
        let second = moves.note(3, place(2));
        let third = moves.note(3, place(4));
        assert_eq!(moves.bytes(), 3 * one);
        third.take();
        assert_eq!((moves.of(3), moves.bytes()), (Some(place(2)), 2 * one));
        drop(second);
        assert_eq!((moves.of(3), moves.bytes()), (Some(place(2)), one));
        first.take();
        assert_eq!((moves.of(3), moves.bytes()), (None, 0));
    }

    #[test]
    fn a_cursor_that_is_gone_has_no_ways_back() {
        let moves = Arc::new(Moves::default());
        let back = moves.note(1, place(1));
        drop(moves);
        back.take();
    }
}
