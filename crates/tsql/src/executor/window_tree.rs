//! Aggregates over any frame of a partition, from aggregates of its blocks.
//!
//! Theory: a tree with the aggregate of every block of rows, of every block of blocks, and so on (a segment tree; for window
//! functions Leis et al., VLDB 2015). A frame is a few rows at its ends and blocks between them, so wide frames that move cost
//! what narrow ones do. Merged from the first row to the last, as if row after row had been taken in.

use super::accumulate::Accumulator;
use super::context::Ctx;
use super::kept_rows::KeptRows;
use super::plan::{AggregateCall, WindowStep};
use crate::error::Result;
use std::ops::Range;

/// Rows of a block, and blocks of a larger one.
const FAN: usize = 32;

/// A frame of fewer rows is summed row by row.
pub const WIDE_ROWS: usize = 4 * FAN;

/// Aggregates of the blocks of one partition, for one call.
pub struct WindowTree {
    /// Blocks of rows, then blocks of those, as long as there are more than a few.
    levels: Vec<Vec<Accumulator>>,
    bytes: usize,
}

/// Rows of a frame, or a block: level and number. Rows are level 0.
struct Piece {
    level: usize,
    at: usize,
}

impl WindowTree {
    /// Reads the partition once.
    pub fn new(
        rows: &mut KeptRows,
        call: &WindowStep,
        shape: &AggregateCall,
        cx: &Ctx<'_>,
    ) -> Result<WindowTree> {
        let mut tree = WindowTree {
            levels: Vec::new(),
            bytes: 0,
        };
        let mut blocks = Vec::with_capacity(rows.len() / FAN);
        for block in 0..rows.len() / FAN {
            let mut sum = Accumulator::new(shape);
            for at in block * FAN..(block + 1) * FAN {
                take_row(&mut sum, rows, at, call, shape, cx)?;
            }
            let bytes = sum.bytes();
            cx.hold(bytes)?;
            tree.bytes += bytes;
            blocks.push(sum);
        }
        while blocks.len() > FAN {
            let mut above = Vec::with_capacity(blocks.len() / FAN);
            for part in blocks.chunks_exact(FAN) {
                let mut sum = Accumulator::new(shape);
                part.iter().try_for_each(|block| sum.merge(shape, block))?;
                above.push(sum);
            }
            tree.levels.push(std::mem::replace(&mut blocks, above));
        }
        tree.levels.push(blocks);
        Ok(tree)
    }

    /// Gives its memory back.
    pub fn release(self, cx: &Ctx<'_>) {
        cx.release(self.bytes);
    }

    /// The aggregate of these rows.
    pub fn over(
        &self,
        frame: Range<usize>,
        rows: &mut KeptRows,
        call: &WindowStep,
        shape: &AggregateCall,
        cx: &Ctx<'_>,
    ) -> Result<Accumulator> {
        let mut pieces = Vec::with_capacity(2 * FAN * (self.levels.len() + 1));
        self.pieces(0, frame, &mut pieces);
        let mut sum = Accumulator::new(shape);
        for piece in pieces {
            let above = piece.level.checked_sub(1).and_then(|l| self.levels.get(l));
            match above.and_then(|blocks| blocks.get(piece.at)) {
                Some(block) => sum.merge(shape, block)?,
                None => take_row(&mut sum, rows, piece.at, call, shape, cx)?,
            }
        }
        Ok(sum)
    }

    /// What lies side by side in `range` of a level, in order, as large as it goes.
    fn pieces(&self, level: usize, range: Range<usize>, out: &mut Vec<Piece>) {
        let piece = |at| Piece { level, at };
        let (first, last) = (range.start.div_ceil(FAN), range.end / FAN);
        let above = self.levels.get(level).map_or(0, Vec::len);
        if first >= last || last > above {
            out.extend(range.map(piece));
            return;
        }
        out.extend((range.start..first * FAN).map(piece));
        self.pieces(level + 1, first..last, out);
        out.extend((last * FAN..range.end).map(piece));
    }
}

/// Takes a row of the partition into a sum.
pub fn take_row(
    sum: &mut Accumulator,
    rows: &mut KeptRows,
    at: usize,
    call: &WindowStep,
    shape: &AggregateCall,
    cx: &Ctx<'_>,
) -> Result<()> {
    cx.tick(1)?;
    let row = rows.row(at)?;
    let value = call.args.first().map(|a| a.eval(row, cx)).transpose()?;
    sum.add(shape, value.as_ref(), row, cx).map(|_| ())
}
