//! Recursive queries: the anchor's rows, then the step over the rows of the step before, until it gives none.
//!
//! Theory: rows are handed on as they come and kept for the next step only, on disk beyond the grant.

use super::batch::RowBatch;
use super::context::{Ctx, WorkRows};
use super::kept_rows::KeptRows;
use super::operator::{Operator, build};
use super::plan::RecursiveNode;
use crate::error::{Result, SqlError};
use std::sync::Arc;

/// Gives the anchor's rows, then those of each step.
pub struct RecursiveOp {
    node: Arc<RecursiveNode>,
    anchor: Box<dyn Operator>,
    step: Box<dyn Operator>,
    /// Rows for the next step.
    fresh: KeptRows,
    in_anchor: bool,
    rounds: u32,
    width: usize,
}

impl RecursiveOp {
    /// Builds both parts; nothing is read yet.
    pub fn new(node: Arc<RecursiveNode>, width: usize, cx: &Ctx<'_>) -> Result<RecursiveOp> {
        Ok(RecursiveOp {
            anchor: build(&node.anchor, cx)?,
            step: build(&node.step, cx)?,
            node,
            fresh: KeptRows::of(width),
            in_anchor: true,
            rounds: 0,
            width,
        })
    }

    /// The step reads what came last; what it read before is given back.
    fn hand_over(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let mut fresh = std::mem::replace(&mut self.fresh, KeptRows::of(self.width));
        fresh.finish()?;
        self.set_work(fresh, cx);
        self.step.rewind(cx)
    }

    fn set_work(&self, rows: KeptRows, cx: &Ctx<'_>) {
        if let Some(read) = cx.set_work_rows(self.node.id, rows) {
            read.borrow_mut().clear(self.width, cx);
        }
    }
}

fn exhausted(max_recursion: u32) -> SqlError {
    SqlError::new(
        530,
        16,
        1,
        format!(
            "The statement terminated. The maximum recursion {max_recursion} has been exhausted before statement completion."
        ),
    )
}

impl Operator for RecursiveOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        loop {
            let more = if self.in_anchor {
                self.anchor.next(cx, out)?
            } else {
                self.step.next(cx, out)?
            };
            if more {
                // A round that finds nothing more counts as none.
                if self.node.max_recursion > 0 && self.rounds > self.node.max_recursion {
                    return Err(exhausted(self.node.max_recursion));
                }
                for row in out.rows() {
                    self.fresh.add(row, cx)?;
                }
                return Ok(true);
            }
            if self.fresh.len() == 0 {
                out.reset(self.width);
                return Ok(false);
            }
            self.rounds += 1;
            self.in_anchor = false;
            self.hand_over(cx)?;
        }
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.in_anchor = true;
        self.rounds = 0;
        self.fresh.clear(self.width, cx);
        self.set_work(KeptRows::of(self.width), cx);
        self.anchor.rewind(cx)
    }
}

/// Reads the rows of the step before.
pub struct WorkTableOp {
    id: u32,
    rows: Option<WorkRows>,
    at: usize,
    width: usize,
}

impl WorkTableOp {
    /// For rows of `width` values.
    pub fn new(id: u32, width: usize) -> WorkTableOp {
        WorkTableOp {
            id,
            rows: None,
            at: 0,
            width,
        }
    }
}

impl Operator for WorkTableOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.width);
        let rows = self.rows.get_or_insert_with(|| cx.work_rows(self.id));
        let mut rows = rows.borrow_mut();
        while self.at < rows.len() && !out.is_full() {
            out.push_slice(rows.row(self.at)?);
            self.at += 1;
        }
        Ok(!out.is_empty())
    }

    fn rewind(&mut self, _: &Ctx<'_>) -> Result<()> {
        self.rows = None;
        self.at = 0;
        Ok(())
    }
}
