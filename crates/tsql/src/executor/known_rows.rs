//! Which rows of a partition have a value: the n-th of them before or behind a row, however many rows without one lie between.
//!
//! Theory: a bit for each row, and for each word of bits how many are set before it. A place among the rows with a value is counted
//! in one word, and found again by halving the list of words.

use super::context::Ctx;
use super::kept_rows::KeptRows;
use super::plan::WindowStep;
use crate::error::Result;

const WORD_BITS: usize = u64::BITS as usize;

/// The rows of a partition whose argument is not NULL.
#[derive(Default)]
pub struct KnownRows {
    words: Vec<u64>,
    /// Rows with a value before each word.
    before: Vec<usize>,
    count: usize,
    bytes: usize,
}

impl KnownRows {
    /// Looks at the first argument of the call for every row, once.
    pub fn new(rows: &mut KeptRows, call: &WindowStep, cx: &Ctx<'_>) -> Result<KnownRows> {
        let mut known = KnownRows::default();
        for at in 0..rows.len() {
            cx.tick(1)?;
            let has_value = match call.args.first() {
                Some(arg) => !arg.eval(rows.row(at)?, cx)?.is_null(),
                None => false,
            };
            known.push(at, has_value);
        }
        known.bytes = known.words.len() * (size_of::<u64>() + size_of::<usize>());
        cx.reserve(known.bytes);
        Ok(known)
    }

    /// Gives its memory back.
    pub fn release(&self, cx: &Ctx<'_>) {
        cx.release(self.bytes);
    }

    fn push(&mut self, at: usize, has_value: bool) {
        if at.is_multiple_of(WORD_BITS) {
            self.words.push(0);
            self.before.push(self.count);
        }
        if let Some(word) = self.words.last_mut().filter(|_| has_value) {
            *word |= 1u64 << (at % WORD_BITS);
            self.count += 1;
        }
    }

    /// How many rows before this one have a value.
    pub fn before(&self, row: usize) -> usize {
        let at = row / WORD_BITS;
        let (Some(word), Some(before)) = (self.words.get(at), self.before.get(at)) else {
            return self.count;
        };
        let lower = *word & ((1u64 << (row % WORD_BITS)) - 1);
        before + lower.count_ones() as usize
    }

    /// The row that has the value of this number, counted from 0.
    pub fn row(&self, number: usize) -> Option<usize> {
        if number >= self.count {
            return None;
        }
        let at = self.before.partition_point(|before| *before <= number) - 1;
        let mut word = *self.words.get(at)?;
        for _ in *self.before.get(at)?..number {
            word &= word - 1;
        }
        Some(at * WORD_BITS + word.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_and_found_again() {
        for every in [1, 2, 63, 64, 65, 500] {
            let mut known = KnownRows::default();
            let rows = 1_000;
            (0..rows).for_each(|at| known.push(at, at % every == 0));
            let with_value: Vec<usize> = (0..rows).step_by(every).collect();
            for (number, row) in with_value.iter().enumerate() {
                assert_eq!(known.row(number), Some(*row), "{every}");
            }
            assert_eq!(known.row(with_value.len()), None, "{every}");
            for row in 0..=rows + 64 {
                let expected = with_value.iter().filter(|r| **r < row).count();
                assert_eq!(known.before(row), expected, "{every} {row}");
            }
        }
        assert_eq!(KnownRows::default().row(0), None);
    }
}
