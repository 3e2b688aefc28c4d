//! Rows that are made once, and given again whenever whoever reads them starts anew.
//!
//! Theory: below a loop, and in a subquery, groups, sorts and windows that do not look at the row around them would be made for each such row. Whether
//! they are wanted a second time is seen when they are: until then their rows pass through, so that one who reads once pays nothing. From the
//! second time on they are kept as they are read, on disk beyond the grant: numbers of rows, EXCEPT, or what comes in the order of an index
//! give their first rows before they have read all, and whoever wants only these does not wait for the others. If what they read has
//! changed by then, nothing is kept any more. Only where the row around comes several times in turn, as that of a join in which another
//! row repeats it, the next ones are kept then.

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
    /// The first rows of the input, as far as they were wanted.
    rows: KeptRows,
    /// They are all there are.
    is_whole: bool,
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
    /// Rows are given from those that are kept, then from the input, and kept.
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
            is_whole: false,
            at: 0,
            reads: None,
            changes: 0,
            node,
        })
    }

    fn width(&self) -> usize {
        self.node.input.schema.len()
    }

    /// Begins to keep rows, unless those kept before are the same.
    fn begin(&mut self, cx: &Ctx<'_>) -> Result<()> {
        if let Some(reads) = self.reads.take() {
            if cx.reads_the_same(&reads) {
                self.reads = Some(reads);
                self.stage = Stage::Kept;
                self.changes = 0;
                return self.rows.finish();
            }
            self.rows.clear(self.width(), cx);
            self.is_whole = false;
            self.changes += 1;
            if !self.node.follows || self.changes > CHANGES_MAX {
                self.stage = Stage::Changing;
                return self.input.rewind(cx);
            }
        }
        self.stage = Stage::Kept;
        let begun = cx.begin_reads();
        self.input.rewind(cx)?;
        self.reads = Some(cx.end_reads(begun));
        Ok(())
    }

    /// Gives the next rows of the input and keeps them.
    fn go_on(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        let begun = cx.begin_reads();
        let is_more = self.input.next(cx, out)?;
        let reads = cx.end_reads(begun);
        match &mut self.reads {
            Some(known) => known.add(reads),
            None => self.reads = Some(reads),
        }
        self.is_whole = !is_more;
        if is_more {
            cx.tick(out.len() as u32)?;
            for row in out.rows() {
                self.rows.add(row, cx)?;
            }
            self.at = self.rows.len();
        }
        Ok(is_more)
    }
}

impl Operator for KeepOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        match self.stage {
            Stage::New => self.stage = Stage::First,
            Stage::Again => self.begin(cx)?,
            Stage::First | Stage::Kept | Stage::Changing => {}
        }
        if self.stage != Stage::Kept {
            return self.input.next(cx, out);
        }
        if self.at == self.rows.len() && !self.is_whole {
            return self.go_on(cx, out);
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
