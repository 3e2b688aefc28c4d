//! Rows kept for as long as somebody looks back at them: in memory, or on disk beyond the grant.
//!
//! Theory: rows are added front to back and then read at any place, mostly near the places read last; so of those on disk a few
//! blocks are in memory.

use super::batch::RowBatch;
use super::context::{Ctx, SPILLED_BYTES_MIN};
use super::spill::{SpillFile, row_bytes};
use crate::access::damaged;
use crate::error::Result;
use daruma_value::Value;

/// Fewer short rows stay in memory.
const SPILLED_ROWS_MIN: usize = 1024;
/// Blocks on disk that are in memory: of a window the present row's, the frame's ends, and one to come.
const BLOCKS: usize = 4;

/// Rows of equal width, in the order in which they were added.
#[derive(Default)]
pub struct KeptRows {
    memory: RowBatch,
    bytes: usize,
    file: Option<SpillFile>,
    /// Blocks read back, each with the number of its first row; the last one read is first.
    blocks: Vec<(usize, RowBatch)>,
    len: usize,
}

impl KeptRows {
    /// For rows of so many values.
    pub fn of(width: usize) -> KeptRows {
        let mut rows = KeptRows::default();
        rows.memory.reset(width);
        rows
    }

    /// Forgets all rows and sets the number of values of the next ones.
    pub fn clear(&mut self, width: usize, cx: &Ctx<'_>) {
        cx.release(std::mem::take(&mut self.bytes));
        self.memory.reset(width);
        self.file = None;
        self.blocks.clear();
        self.len = 0;
    }

    /// Rows that were added.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Rows on disk are read once all were added.
    pub fn is_on_disk(&self) -> bool {
        self.file.is_some()
    }

    /// Adds a row of the width; beyond the grant all rows go to disk.
    pub fn add(&mut self, row: &[Value], cx: &Ctx<'_>) -> Result<()> {
        self.len += 1;
        if let Some(file) = &mut self.file {
            return file.add(row);
        }
        let bytes = row_bytes(row);
        self.memory.push_slice(row);
        self.bytes += bytes;
        let is_much = self.len >= SPILLED_ROWS_MIN || self.bytes >= SPILLED_BYTES_MIN;
        if !cx.reserve(bytes) && is_much {
            self.spill(cx)?;
        }
        Ok(())
    }

    fn spill(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let width = self.memory.width();
        let mut file = SpillFile::new(cx, width)?;
        for row in self.memory.rows() {
            file.add(row)?;
        }
        self.file = Some(file);
        self.memory = RowBatch::new();
        self.memory.reset(width);
        cx.release(std::mem::take(&mut self.bytes));
        Ok(())
    }

    /// To be called before rows are read, when some were added.
    pub fn finish(&mut self) -> Result<()> {
        match &mut self.file {
            Some(file) => file.finish(),
            None => Ok(()),
        }
    }

    /// The row at `index`, counted from 0.
    pub fn row(&mut self, index: usize) -> Result<&[Value]> {
        let Some(file) = &self.file else {
            return Ok(self.memory.row(index));
        };
        let holds =
            |(first, batch): &(usize, RowBatch)| (*first..*first + batch.len()).contains(&index);
        match self.blocks.iter().position(holds) {
            Some(0) => {}
            Some(at) => self.blocks.swap(0, at),
            None => {
                let mut batch = match self.blocks.len() < BLOCKS {
                    true => RowBatch::new(),
                    false => self.blocks.pop().map_or_else(RowBatch::new, |(_, b)| b),
                };
                let (number, first) = file
                    .block_of(index)
                    .ok_or_else(|| damaged("no block holds the row"))?;
                file.read_numbered(number, &mut batch)?;
                self.blocks.insert(0, (first, batch));
            }
        }
        Ok(self.blocks.first().map_or(&[], |(first, batch)| {
            batch.row(index.saturating_sub(*first))
        }))
    }
}
