//! Sort: in memory while it fits, otherwise in sorted runs on disk that are merged.
//!
//! Theory: rows stay where they were read; an index of row numbers is sorted. With a limit above (TOP n) only about the
//! first n rows are kept, by cutting back whenever twice as many have gathered.

use super::batch::{BATCH_ROWS, RowBatch};
use super::context::Ctx;
use super::operator::{Operator, build};
use super::plan::{SortColumn, SortNode};
use super::spill::{SpillFile, row_bytes};
use crate::error::Result;
use daruma_value::Value;
use daruma_value::compare::compare_nulls_first;
use std::cmp::Ordering;
use std::sync::Arc;

/// A limit above this sorts everything.
const LIMIT_MAX: u64 = 100_000;
/// A run has at least this many rows, however small the grant.
const RUN_ROWS_MIN: usize = 4096;

pub struct SortOp {
    node: Arc<SortNode>,
    input: Box<dyn Operator>,
    width: usize,
    rows: RowBatch,
    order: Vec<u32>,
    at: usize,
    bytes: usize,
    runs: Vec<Run>,
    sorted: bool,
}

/// A sorted run on disk, with the block that is being read.
struct Run {
    file: SpillFile,
    batch: RowBatch,
    at: usize,
    done: bool,
}

pub fn compare_rows(a: &[Value], b: &[Value], keys: &[SortColumn]) -> Ordering {
    for key in keys {
        let (Some(x), Some(y)) = (a.get(key.position), b.get(key.position)) else {
            continue;
        };
        let order = compare_nulls_first(x, y, key.collation);
        if order != Ordering::Equal {
            return if key.descending {
                order.reverse()
            } else {
                order
            };
        }
    }
    Ordering::Equal
}

impl SortOp {
    pub fn new(node: Arc<SortNode>, width: usize, cx: &Ctx<'_>) -> Result<SortOp> {
        Ok(SortOp {
            input: build(&node.input, cx)?,
            node,
            width,
            rows: RowBatch::new(),
            order: Vec::new(),
            at: 0,
            bytes: 0,
            runs: Vec::new(),
            sorted: false,
        })
    }

    fn limit(&self, cx: &Ctx<'_>) -> Result<Option<usize>> {
        let Some(limit) = &self.node.limit else {
            return Ok(None);
        };
        Ok(match limit.eval(&[], cx)?.as_i64() {
            Some(n) if n >= 0 && (n as u64) <= LIMIT_MAX => Some(n as usize),
            _ => None,
        })
    }

    fn sort_order(&mut self) {
        self.order.clear();
        self.order.extend(0..self.rows.len() as u32);
        let (rows, keys) = (&self.rows, &self.node.keys);
        // Stable, so that equal rows keep their order and results repeat.
        self.order
            .sort_by(|a, b| compare_rows(rows.row(*a as usize), rows.row(*b as usize), keys));
    }

    /// Keeps the first `limit` rows in order.
    fn cut(&mut self, limit: usize, cx: &Ctx<'_>) {
        self.sort_order();
        self.order.truncate(limit);
        let mut kept = RowBatch::new();
        kept.reset(self.width);
        for index in &self.order {
            kept.push_slice(self.rows.row(*index as usize));
        }
        self.rows = kept;
        cx.release(self.bytes);
        self.bytes = 0;
    }

    fn write_run(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.sort_order();
        let mut file = SpillFile::new(cx, self.width)?;
        for index in &self.order {
            cx.tick(1)?;
            file.add(self.rows.row(*index as usize))?;
        }
        file.finish()?;
        self.runs.push(Run {
            file,
            batch: RowBatch::new(),
            at: 0,
            done: false,
        });
        self.rows.reset(self.width);
        cx.release(self.bytes);
        self.bytes = 0;
        Ok(())
    }

    fn run(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.sorted = true;
        self.rows.reset(self.width);
        let limit = self.limit(cx)?;
        let mut batch = RowBatch::new();
        while self.input.next(cx, &mut batch)? {
            for row in batch.rows() {
                cx.tick(1)?;
                let bytes = row_bytes(row);
                self.rows.push_slice(row);
                self.bytes += bytes;
                let fits = cx.reserve(bytes);
                if !fits && self.rows.len() >= RUN_ROWS_MIN && limit.is_none() {
                    self.write_run(cx)?;
                }
            }
            if let Some(limit) = limit
                && self.rows.len() >= 2 * limit.max(BATCH_ROWS)
            {
                self.cut(limit, cx);
            }
        }
        if self.runs.is_empty() {
            self.sort_order();
            if let Some(limit) = limit {
                self.order.truncate(limit);
            }
            return Ok(());
        }
        if !self.rows.is_empty() {
            self.write_run(cx)?;
        }
        for run in &mut self.runs {
            run.fill()?;
        }
        Ok(())
    }

    /// Next row of the merged runs.
    fn merge(&mut self, out: &mut RowBatch) -> Result<bool> {
        let mut best: Option<usize> = None;
        for (index, run) in self.runs.iter().enumerate().filter(|(_, r)| !r.done) {
            let better = match best.and_then(|b| self.runs.get(b)) {
                None => true,
                Some(b) => compare_rows(run.row(), b.row(), &self.node.keys) == Ordering::Less,
            };
            if better {
                best = Some(index);
            }
        }
        let Some(run) = best.and_then(|b| self.runs.get_mut(b)) else {
            return Ok(false);
        };
        out.push_slice(run.row());
        run.at += 1;
        if run.at >= run.batch.len() {
            run.fill()?;
        }
        Ok(true)
    }
}

impl Run {
    fn fill(&mut self) -> Result<()> {
        self.at = 0;
        self.done = !self.file.read(&mut self.batch)?;
        Ok(())
    }

    fn row(&self) -> &[Value] {
        self.batch.row(self.at)
    }
}

impl Operator for SortOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.width);
        if !self.sorted {
            self.run(cx)?;
        }
        if !self.runs.is_empty() {
            while !out.is_full() && self.merge(out)? {
                cx.tick(1)?;
            }
            return Ok(!out.is_empty());
        }
        while !out.is_full() {
            let Some(index) = self.order.get(self.at) else {
                break;
            };
            self.at += 1;
            // Each row leaves once: its values are moved, not copied.
            out.push(
                self.rows
                    .row_mut(*index as usize)
                    .iter_mut()
                    .map(|v| std::mem::replace(v, Value::Null)),
            );
        }
        if out.is_empty() {
            cx.release(self.bytes);
            self.bytes = 0;
        }
        Ok(!out.is_empty())
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        cx.release(self.bytes);
        self.bytes = 0;
        self.sorted = false;
        self.runs.clear();
        self.order.clear();
        self.at = 0;
        self.input.rewind(cx)
    }
}
