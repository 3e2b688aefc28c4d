//! Sort of the rows below.
//!
//! Theory: with a limit above (TOP n) only about the first n rows are kept, by cutting back whenever twice as many have gathered;
//! from then on a row that does not come before the n-th is passed over, so that nearly all rows cost one comparison.

use super::batch::{BATCH_ROWS, RowBatch};
use super::context::Ctx;
use super::operator::{Operator, build};
use super::plan::SortNode;
use super::sorter::Sorter;
use crate::error::Result;
use std::sync::Arc;

/// A limit above this sorts everything.
const LIMIT_MAX: u64 = 100_000;

/// Sorts in memory, and in runs on disk when the grant is used up.
pub struct SortOp {
    node: Arc<SortNode>,
    input: Box<dyn Operator>,
    width: usize,
    sorter: Sorter,
    sorted: bool,
}

impl SortOp {
    /// The operator before its first row; `width` is that of its rows.
    pub fn new(node: Arc<SortNode>, width: usize, cx: &Ctx<'_>) -> Result<SortOp> {
        Ok(SortOp {
            input: build(&node.input, cx)?,
            sorter: Sorter::new(node.keys.clone(), width),
            node,
            width,
            sorted: false,
        })
    }

    fn limit(&self, cx: &Ctx<'_>) -> Result<Option<usize>> {
        let mut sum: u64 = 0;
        for part in &self.node.limit {
            // A wrong count is the TOP's to report.
            match part.eval(&[], cx)?.as_i64() {
                Some(n) if n >= 0 => sum = sum.saturating_add(n.unsigned_abs()),
                _ => return Ok(None),
            }
        }
        let is_limit = !self.node.limit.is_empty() && sum <= LIMIT_MAX;
        Ok(is_limit.then_some(sum as usize))
    }

    fn run(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.sorted = true;
        self.sorter.clear(cx);
        let mut limit = self.limit(cx)?;
        let mut batch = RowBatch::new();
        while self.input.next(cx, &mut batch)? {
            for row in batch.rows() {
                cx.tick(1)?;
                if self.sorter.is_behind(row) {
                    continue;
                }
                if self.sorter.add(row, cx)? {
                    // Even the first rows do not fit: what is behind them already stays away, the rest is sorted on disk.
                    limit = None;
                }
            }
            if let Some(limit) = limit
                && self.sorter.len() >= limit + limit.max(BATCH_ROWS)
            {
                self.sorter.cut(limit, cx);
            }
        }
        self.sorter.finish(limit, cx)
    }
}

impl Operator for SortOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.width);
        if !self.sorted {
            self.run(cx)?;
        }
        self.sorter.fill(out, cx)?;
        Ok(!out.is_empty())
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.sorted = false;
        self.sorter.clear(cx);
        self.input.rewind(cx)
    }
}
