//! Rows that are gathered once and then read by many, each at its own pace: `inserted` and `deleted` of a trigger. Or by one: what a
//! table is filled with that the query reads.
//!
//! Theory: rows lie in blocks, in memory as long as they take no more than a part of the statement's grant and the server's memory
//! is not short, otherwise all of them in a scratch file. A reader takes block after block; of a file it holds the present one.

use super::batch::RowBatch;
use super::context::SPILLED_BYTES_MIN;
use super::spill::{SpillFile, row_bytes};
use crate::error::Result;
use crate::host::{Host, check_cancel};
use daruma_value::Value;

/// A trigger has two such sets, and its statements have grants of their own meanwhile.
const GRANT_PART: usize = 4;
/// Of rows that stay when their statement has ended fewer bytes are not worth a file.
const KEPT_BYTES_MIN: usize = 64 << 10;

/// Takes rows in; see the module.
#[derive(Default)]
pub struct RowGatherer {
    rows: SharedRows,
    /// Most bytes in memory, where that is not a part of the grant.
    room: Option<usize>,
}

/// Rows that change no more.
#[derive(Default)]
pub struct SharedRows {
    blocks: Vec<RowBatch>,
    /// Number of each block's first row.
    firsts: Vec<usize>,
    file: Option<SpillFile>,
    len: usize,
    /// Of the rows in memory.
    bytes: usize,
}

/// A reader's block of those on disk.
#[derive(Default)]
pub struct ReadBlock {
    number: Option<usize>,
    rows: RowBatch,
}

impl RowGatherer {
    /// For rows that stay when their statement has ended: no more than so many bytes of them lie in memory, or a few.
    pub fn within(bytes: usize) -> RowGatherer {
        RowGatherer {
            room: Some(bytes),
            ..RowGatherer::default()
        }
    }

    /// Adds a row; all have the same number of values.
    pub fn add(&mut self, row: &[Value], host: &dyn Host) -> Result<()> {
        self.rows.len += 1;
        if let Some(file) = &mut self.rows.file {
            return file.add(row);
        }
        if self.rows.blocks.last().is_none_or(RowBatch::is_full) {
            host.check_memory(0)?;
            let mut block = RowBatch::new();
            block.reset(row.len());
            self.rows.firsts.push(self.rows.len - 1);
            self.rows.blocks.push(block);
        }
        if let Some(block) = self.rows.blocks.last_mut() {
            block.push_slice(row);
        }
        self.rows.bytes += row_bytes(row);
        let (least, most) = match self.room {
            Some(room) => (KEPT_BYTES_MIN, room),
            None => (SPILLED_BYTES_MIN, host.memory_grant_bytes() / GRANT_PART),
        };
        let bytes = self.rows.bytes;
        if bytes >= least && (bytes > most || host.memory_is_short()) {
            self.spill(row.len(), host)?;
        }
        Ok(())
    }

    fn spill(&mut self, width: usize, host: &dyn Host) -> Result<()> {
        let mut file = SpillFile::in_space(host.spill()?, width)?;
        for block in std::mem::take(&mut self.rows.blocks) {
            block.rows().try_for_each(|row| file.add(row))?;
        }
        self.rows.firsts.clear();
        self.rows.bytes = 0;
        self.rows.file = Some(file);
        Ok(())
    }

    /// Rows added so far.
    pub fn len(&self) -> usize {
        self.rows.len
    }

    /// Was none added?
    pub fn is_empty(&self) -> bool {
        self.rows.len == 0
    }

    /// The rows, once all were added.
    pub fn finish(mut self) -> Result<SharedRows> {
        if let Some(file) = &mut self.rows.file {
            file.finish()?;
        }
        Ok(self.rows)
    }

    /// Hands the rows over one by one, in the order in which they were added.
    pub fn each(
        self,
        host: &dyn Host,
        mut take: impl FnMut(&mut [Value]) -> Result<()>,
    ) -> Result<()> {
        let mut hand_over = |block: &mut RowBatch| {
            check_cancel(host)?;
            (0..block.len()).try_for_each(|i| take(block.row_mut(i)))
        };
        let SharedRows {
            mut blocks, file, ..
        } = self.finish()?;
        blocks.iter_mut().try_for_each(&mut hand_over)?;
        let Some(mut file) = file else { return Ok(()) };
        let mut block = RowBatch::new();
        while file.read(&mut block)? {
            hand_over(&mut block)?;
        }
        Ok(())
    }
}

impl SharedRows {
    /// Rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Has it no row?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the rows in memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Do they lie in a file?
    pub fn is_on_disk(&self) -> bool {
        self.file.is_some()
    }

    /// The block of this number; `None` behind the last one.
    pub fn block<'a>(
        &'a self,
        number: usize,
        read: &'a mut ReadBlock,
    ) -> Result<Option<&'a RowBatch>> {
        let Some(file) = &self.file else {
            return Ok(self.blocks.get(number));
        };
        if read.number != Some(number) {
            read.number = None;
            if !file.read_numbered(number, &mut read.rows)? {
                return Ok(None);
            }
            read.number = Some(number);
        }
        Ok(Some(&read.rows))
    }

    /// The row of this number, counted from 0; empty behind the last one.
    pub fn row<'a>(&'a self, row: usize, read: &'a mut ReadBlock) -> Result<&'a [Value]> {
        let found = match &self.file {
            Some(file) => file.block_of(row),
            None => {
                let after = self.firsts.partition_point(|first| *first <= row);
                let number = after.checked_sub(1);
                number.and_then(|n| Some((n, *self.firsts.get(n)?)))
            }
        };
        let Some((number, first)) = found else {
            return Ok(&[]);
        };
        let block = self.block(number, read)?;
        Ok(block.map_or(&[], |block| block.row(row - first)))
    }

    /// All rows, copied.
    pub fn all(&self) -> Result<Vec<Vec<Value>>> {
        let mut read = ReadBlock::default();
        let mut rows = Vec::with_capacity(self.len);
        let mut number = 0;
        while let Some(block) = self.block(number, &mut read)? {
            rows.extend(block.rows().map(<[Value]>::to_vec));
            number += 1;
        }
        Ok(rows)
    }
}
