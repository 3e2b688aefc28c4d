//! Nested loops: for each outer row the inner side runs again, with the outer row's values as its parameters.
//!
//! Theory: joins with an index seek inside, APPLY, and joins on anything but equality. When the inner side does not look
//! at the outer row, its rows are read once, as far as anybody wants them, and kept, on disk beyond the grant.

use super::batch::RowBatch;
use super::context::{Ctx, Reads};
use super::kept_rows::KeptRows;
use super::operator::{Operator, build};
use super::plan::{JoinKind, NestedLoopNode};
use crate::error::Result;
use daruma_value::Value;
use std::sync::Arc;

/// For each outer row the inner side, which may depend on it.
pub struct NestedLoopOp {
    node: Arc<NestedLoopNode>,
    outer: Box<dyn Operator>,
    inner: Box<dyn Operator>,
    outer_batch: RowBatch,
    outer_at: usize,
    /// The inner side stands in the rows of the outer row at `outer_at`.
    open: bool,
    matched: bool,
    inner_batch: RowBatch,
    inner_at: usize,
    /// Inner rows kept, when they are the same for all outer rows.
    spool: KeptRows,
    spooled: bool,
    /// All inner rows are kept.
    is_whole: bool,
    /// What the kept rows depend on.
    reads: Option<Reads>,
    spool_at: usize,
    joined: Vec<Value>,
}

impl NestedLoopOp {
    /// The operator before its first row.
    pub fn new(node: Arc<NestedLoopNode>, cx: &Ctx<'_>) -> Result<NestedLoopOp> {
        Ok(NestedLoopOp {
            outer: build(&node.outer, cx)?,
            inner: build(&node.inner, cx)?,
            outer_batch: RowBatch::new(),
            outer_at: 0,
            open: false,
            matched: false,
            inner_batch: RowBatch::new(),
            inner_at: 0,
            spool: KeptRows::of(node.inner.schema.len()),
            spooled: false,
            is_whole: false,
            reads: None,
            spool_at: 0,
            joined: Vec::new(),
            node,
        })
    }

    /// Shows the outer row to the inner side.
    fn bind(&self, cx: &Ctx<'_>) {
        let row = self.outer_batch.row(self.outer_at);
        for (position, slot) in &self.node.bind {
            cx.set_param(*slot, row.get(*position).cloned().unwrap_or(Value::Null));
        }
    }

    fn start_inner(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.bind(cx);
        let row = self.outer_batch.row(self.outer_at);
        self.joined.clear();
        self.joined.extend_from_slice(row);
        self.open = true;
        self.matched = false;
        self.inner_at = 0;
        self.spool_at = 0;
        self.inner_batch.reset(0);
        if !self.node.spool {
            return self.inner.rewind(cx);
        }
        match self.spooled {
            true => Ok(()),
            false => self.spool_inner(cx),
        }
    }

    /// Begins to keep the rows of the inner side, unless those kept before a new start are the same.
    fn spool_inner(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.spooled = true;
        if self.reads.as_ref().is_some_and(|r| cx.reads_the_same(r)) {
            return Ok(());
        }
        if self.reads.take().is_some() {
            self.spool.clear(self.node.inner.schema.len(), cx);
            self.is_whole = false;
            self.inner.rewind(cx)?;
        }
        Ok(())
    }

    /// Keeps more rows of the inner side; false when there are none. Once they go to disk all of them do: they are read back only then.
    fn spool_more(&mut self, cx: &Ctx<'_>) -> Result<bool> {
        let before = self.spool.len();
        while !self.is_whole && (self.spool.len() == before || self.spool.is_on_disk()) {
            let begun = cx.begin_reads();
            self.is_whole = !self.inner.next(cx, &mut self.inner_batch)?;
            let reads = cx.end_reads(begun);
            match &mut self.reads {
                Some(known) => known.add(reads),
                None => self.reads = Some(reads),
            }
            cx.tick(self.inner_batch.len() as u32)?;
            for row in self.inner_batch.rows() {
                self.spool.add(row, cx)?;
            }
            if self.is_whole {
                self.spool.finish()?;
            }
        }
        Ok(self.spool.len() > before)
    }

    /// Moves to the next inner row; false when there is none left.
    fn advance(&mut self, cx: &Ctx<'_>) -> Result<bool> {
        if self.node.spool {
            return Ok(self.spool_at < self.spool.len() || self.spool_more(cx)?);
        }
        if self.inner_at < self.inner_batch.len() {
            return Ok(true);
        }
        self.inner_at = 0;
        self.inner.next(cx, &mut self.inner_batch)
    }

    /// The inner row, which is passed.
    fn inner_row(&mut self) -> Result<&[Value]> {
        if self.node.spool {
            self.spool_at += 1;
            return self.spool.row(self.spool_at - 1);
        }
        self.inner_at += 1;
        Ok(self.inner_batch.row(self.inner_at - 1))
    }

    /// Puts the inner row behind the outer one; does the pair pass the join condition?
    fn pair(&mut self, cx: &Ctx<'_>) -> Result<bool> {
        let width = self.node.outer.schema.len();
        self.joined.truncate(width);
        let mut joined = std::mem::take(&mut self.joined);
        joined.extend_from_slice(self.inner_row()?);
        self.joined = joined;
        match &self.node.on {
            Some(on) => on.accepts(&self.joined, cx),
            None => Ok(true),
        }
    }

    fn put(&self, out: &mut RowBatch) {
        for position in &self.node.output {
            out.put(self.joined.get(*position).cloned().unwrap_or(Value::Null));
        }
        out.finish_row();
    }

    fn put_outer(&mut self, out: &mut RowBatch) {
        let width = self.node.outer.schema.len();
        self.joined.truncate(width);
        self.put(out);
    }

    fn close_outer(&mut self) {
        self.open = false;
        self.outer_at += 1;
    }

    /// All rows that the present outer row gives, as far as `out` has room.
    fn run_outer(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<()> {
        while !out.is_full() {
            cx.tick(1)?;
            if !self.advance(cx)? {
                let alone = match self.node.kind {
                    JoinKind::Left | JoinKind::Anti | JoinKind::Full => !self.matched,
                    JoinKind::Inner | JoinKind::Semi => false,
                };
                if alone {
                    self.put_outer(out);
                }
                self.close_outer();
                return Ok(());
            }
            if !self.pair(cx)? {
                continue;
            }
            self.matched = true;
            match self.node.kind {
                JoinKind::Inner | JoinKind::Left | JoinKind::Full => self.put(out),
                JoinKind::Semi => {
                    self.put_outer(out);
                    self.close_outer();
                    return Ok(());
                }
                JoinKind::Anti => {
                    self.close_outer();
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Operator for NestedLoopOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.node.output.len());
        if self.open {
            // Whoever read the rows so far may have shown older ones to subqueries of its own, by the same parameters.
            self.bind(cx);
        }
        loop {
            if self.outer_at >= self.outer_batch.len() {
                if !out.is_empty() {
                    return Ok(true);
                }
                self.outer_at = 0;
                if !self.outer.next(cx, &mut self.outer_batch)? {
                    return Ok(false);
                }
            }
            if !self.open {
                self.start_inner(cx)?;
            }
            self.run_outer(cx, out)?;
            if out.is_full() {
                return Ok(true);
            }
        }
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.open = false;
        self.outer_at = 0;
        self.outer_batch.reset(0);
        // Whether the kept rows hold is seen when they are wanted: outer rows set parameters until then.
        self.spooled = false;
        self.outer.rewind(cx)
    }
}
