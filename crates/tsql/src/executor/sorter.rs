//! Rows put in order: in memory while they fit, otherwise in sorted runs on disk that are merged.
//!
//! Theory: rows stay where they were added; an index of row numbers is sorted. Equal rows keep their order, so that results repeat.
//!
//! Use: `add` rows, `finish`, then `fill` batches until one is empty.

use super::batch::RowBatch;
use super::context::{Ctx, SPILLED_BYTES_MIN};
use super::plan::SortColumn;
use super::spill::{SpillFile, row_bytes};
use crate::error::Result;
use daruma_value::Value;
use daruma_value::compare::compare_nulls_first;
use std::cmp::Ordering;

/// A run of short rows has at least this many, however small the grant.
const RUN_ROWS_MIN: usize = 4096;
/// More runs are made one before they are read together.
const RUNS_MAX: usize = 64;

/// Rows that come out in the order of the keys.
pub struct Sorter {
    keys: Vec<SortColumn>,
    width: usize,
    rows: RowBatch,
    order: Vec<u32>,
    at: usize,
    bytes: usize,
    runs: Vec<Run>,
    /// Runs that have rows left; the one with the first row is first.
    heap: Vec<usize>,
    /// After a cut: the last row that is still among the first.
    worst: Vec<Value>,
}

/// A sorted run on disk, with the block that is being read.
struct Run {
    file: SpillFile,
    batch: RowBatch,
    at: usize,
    done: bool,
}

fn compare_rows(a: &[Value], b: &[Value], keys: &[SortColumn]) -> Ordering {
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

impl Sorter {
    /// For rows of `width` values.
    pub fn new(keys: Vec<SortColumn>, width: usize) -> Sorter {
        let mut rows = RowBatch::new();
        rows.reset(width);
        Sorter {
            keys,
            width,
            rows,
            order: Vec::new(),
            at: 0,
            bytes: 0,
            runs: Vec::new(),
            heap: Vec::new(),
            worst: Vec::new(),
        }
    }

    /// Forgets all rows.
    pub fn clear(&mut self, cx: &Ctx<'_>) {
        cx.release(std::mem::take(&mut self.bytes));
        self.rows.reset(self.width);
        self.runs.clear();
        self.heap.clear();
        self.order.clear();
        self.worst.clear();
        self.at = 0;
    }

    /// Values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows that are in memory.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a row; true when the rows so far went to disk.
    pub fn add(&mut self, row: &[Value], cx: &Ctx<'_>) -> Result<bool> {
        let bytes = row_bytes(row);
        self.rows.push_slice(row);
        self.bytes += bytes;
        let is_small = self.rows.len() < RUN_ROWS_MIN && self.bytes < SPILLED_BYTES_MIN;
        if cx.reserve(bytes) || is_small {
            return Ok(false);
        }
        self.write_run(cx)?;
        Ok(true)
    }

    /// Keeps the first `limit` of the rows in memory.
    pub fn cut(&mut self, limit: usize, cx: &Ctx<'_>) {
        self.sort_order();
        self.order.truncate(limit);
        let mut kept = RowBatch::new();
        kept.reset(self.width);
        for index in &self.order {
            kept.push_slice(self.rows.row(*index as usize));
        }
        self.worst.clear();
        if let Some(last) = kept.len().checked_sub(1) {
            self.worst.extend_from_slice(kept.row(last));
        }
        cx.release(self.bytes);
        self.bytes = kept.rows().map(row_bytes).sum();
        cx.reserve(self.bytes);
        self.rows = kept;
    }

    /// After a cut: is the row behind all that are wanted?
    pub fn is_behind(&self, row: &[Value]) -> bool {
        !self.worst.is_empty() && compare_rows(row, &self.worst, &self.keys) != Ordering::Less
    }

    /// To be called when all rows were added. With a limit that many are given at least, unless there are fewer.
    pub fn finish(&mut self, limit: Option<usize>, cx: &Ctx<'_>) -> Result<()> {
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
        self.start_merge()
    }

    /// Adds the next rows to `out` until it is full; each row is given once.
    pub fn fill(&mut self, out: &mut RowBatch, cx: &Ctx<'_>) -> Result<()> {
        if !self.runs.is_empty() {
            while !out.is_full() {
                cx.tick(1)?;
                let more = self.merge(&mut |row| {
                    out.push_slice(row);
                    Ok(())
                })?;
                if !more {
                    break;
                }
            }
            return Ok(());
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
            cx.release(std::mem::take(&mut self.bytes));
        }
        Ok(())
    }

    fn sort_order(&mut self) {
        self.order.clear();
        self.order.extend(0..self.rows.len() as u32);
        let (rows, keys) = (&self.rows, &self.keys);
        self.order
            .sort_by(|a, b| compare_rows(rows.row(*a as usize), rows.row(*b as usize), keys));
    }

    fn write_run(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.sort_order();
        let mut file = SpillFile::new(cx, self.width)?;
        for index in &self.order {
            cx.tick(1)?;
            file.add(self.rows.row(*index as usize))?;
        }
        file.finish()?;
        if self.runs.len() >= RUNS_MAX {
            self.join_runs(cx)?;
        }
        self.runs.push(Run::of(file));
        self.rows.reset(self.width);
        cx.release(self.bytes);
        self.bytes = 0;
        Ok(())
    }

    /// Starts reading all runs from their beginnings.
    fn start_merge(&mut self) -> Result<()> {
        for run in &mut self.runs {
            run.fill()?;
        }
        let runs = self.runs.iter().enumerate();
        self.heap = runs.filter(|(_, r)| !r.done).map(|(i, _)| i).collect();
        for at in (0..self.heap.len() / 2).rev() {
            self.sink(at);
        }
        Ok(())
    }

    /// Gives the next row of the merged runs to `take`; false when there is none.
    fn merge(&mut self, take: &mut dyn FnMut(&[Value]) -> Result<()>) -> Result<bool> {
        let Some(run) = self.heap.first().and_then(|r| self.runs.get_mut(*r)) else {
            return Ok(false);
        };
        take(run.row())?;
        run.at += 1;
        if run.at >= run.batch.len() {
            run.fill()?;
        }
        if run.done {
            self.heap.swap_remove(0);
        }
        self.sink(0);
        Ok(true)
    }

    /// Is a run's row before another's? Of equal rows that of the earlier run, so that equal rows keep their order.
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (Some(x), Some(y)) = (self.runs.get(a), self.runs.get(b)) else {
            return false;
        };
        compare_rows(x.row(), y.row(), &self.keys).then(a.cmp(&b)) == Ordering::Less
    }

    /// Moves a run down the heap to its place: no run is before the one above it.
    fn sink(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if let (Some(c), Some(l)) = (self.heap.get(child), self.heap.get(least))
                    && self.is_before(*c, *l)
                {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    /// Makes one run of all: each run that is read takes memory for a block.
    fn join_runs(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.start_merge()?;
        let mut file = SpillFile::new(cx, self.width)?;
        while self.merge(&mut |row| file.add(row))? {
            cx.tick(1)?;
        }
        file.finish()?;
        self.runs.clear();
        self.runs.push(Run::of(file));
        Ok(())
    }
}

impl Run {
    fn of(file: SpillFile) -> Run {
        Run {
            file,
            batch: RowBatch::new(),
            at: 0,
            done: false,
        }
    }

    fn fill(&mut self) -> Result<()> {
        self.at = 0;
        self.done = !self.file.read(&mut self.batch)?;
        Ok(())
    }

    fn row(&self) -> &[Value] {
        self.batch.row(self.at)
    }
}
