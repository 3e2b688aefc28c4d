//! Rows that are made once, and given again whenever whoever reads them starts anew.
//!
//! Theory: below a loop, and in a subquery, groups, sorts and windows that do not look at the row around them would be made for each such row. Whether
//! they are wanted a second time is seen when they are: until then their rows pass through, so that one who reads once pays nothing. The
//! second time all of them are kept, on disk beyond the grant. If what they read has changed by then, nothing is kept any more. Only where
//! the row around comes several times in turn, as that of a join in which another row repeats it, the next ones are kept then.

use super::batch::RowBatch;
use super::context::{Ctx, Reads};
use super::kept_rows::KeptRows;
use super::operator::{Operator, build};
use super::plan::KeepNode;
use crate::error::Result;
use std::sync::Arc;

/// So many changes in turn, and nothing is kept any more.
const CHANGES_MAX: u32 = 64;

/// Gives the rows of its input, which runs twice at most while it reads the same.
pub struct KeepOp {
    node: Arc<KeepNode>,
    input: Box<dyn Operator>,
    stage: Stage,
    rows: KeptRows,
    at: usize,
    /// What the kept rows depend on, and how often in turn that was another.
    reads: Option<Reads>,
    changes: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nobody has read yet.
    New,
    /// Rows pass for the first time.
    First,
    /// It was started again; whether the kept rows hold is seen when they are wanted.
    Again,
    /// Rows are given from those that are kept.
    Kept,
    /// What it reads is another each time.
    Changing,
}

impl KeepOp {
    /// The operator before its first row.
    pub fn new(node: Arc<KeepNode>, cx: &Ctx<'_>) -> Result<KeepOp> {
        Ok(KeepOp {
            input: build(&node.input, cx)?,
            stage: Stage::New,
            rows: KeptRows::of(node.input.schema.len()),
            at: 0,
            reads: None,
            changes: 0,
            node,
        })
    }

    fn width(&self) -> usize {
        self.node.input.schema.len()
    }

    /// Keeps the rows, unless those kept before are the same.
    fn fill(&mut self, cx: &Ctx<'_>) -> Result<()> {
        if let Some(reads) = &self.reads {
            if cx.reads_the_same(reads) {
                self.stage = Stage::Kept;
                self.changes = 0;
                return Ok(());
            }
            self.rows.clear(self.width(), cx);
            self.changes += 1;
            if !self.node.follows || self.changes > CHANGES_MAX {
                self.stage = Stage::Changing;
                return self.input.rewind(cx);
            }
        }
        let begun = cx.begin_reads();
        self.input.rewind(cx)?;
        let mut batch = RowBatch::new();
        while self.input.next(cx, &mut batch)? {
            cx.tick(batch.len() as u32)?;
            for row in batch.rows() {
                self.rows.add(row, cx)?;
            }
        }
        self.rows.finish()?;
        self.reads = Some(cx.end_reads(begun));
        self.stage = Stage::Kept;
        Ok(())
    }
}

impl Operator for KeepOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        match self.stage {
            Stage::New => self.stage = Stage::First,
            Stage::Again => self.fill(cx)?,
            Stage::First | Stage::Kept | Stage::Changing => {}
        }
        if self.stage != Stage::Kept {
            return self.input.next(cx, out);
        }
        out.reset(self.width());
        while self.at < self.rows.len() && !out.is_full() {
            cx.tick(1)?;
            out.push_slice(self.rows.row(self.at)?);
            self.at += 1;
        }
        Ok(!out.is_empty())
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.at = 0;
        match self.stage {
            Stage::New | Stage::Changing => self.input.rewind(cx),
            Stage::First | Stage::Again | Stage::Kept => {
                self.stage = Stage::Again;
                Ok(())
            }
        }
    }
}
