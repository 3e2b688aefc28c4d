//! Rows that are all read before the first is written, because what reads them may read the table that they go to: in memory
//! up to the statement's grant, on disk beyond it.

use crate::error::Result;
use crate::executor::{RowBatch, SpillFile, row_bytes};
use crate::host::Host;
use daruma_value::Value;

/// Rows of one width, in order.
pub(super) struct GatheredRows<'h> {
    host: &'h dyn Host,
    width: usize,
    grant_bytes: usize,
    /// Those that are not on disk; they come behind those that are.
    rows: Vec<Vec<Value>>,
    bytes: usize,
    spilled: Option<SpillFile>,
}

impl<'h> GatheredRows<'h> {
    /// No rows yet, of `width` values each.
    pub fn new(host: &'h dyn Host, width: usize) -> GatheredRows<'h> {
        GatheredRows {
            host,
            width,
            grant_bytes: host.memory_grant_bytes(),
            rows: Vec::new(),
            bytes: 0,
            spilled: None,
        }
    }

    /// Takes a row; beyond the memory grant rows go to disk, which may fail.
    pub fn add(&mut self, row: &[Value]) -> Result<()> {
        self.bytes += row_bytes(row) + size_of::<Vec<Value>>();
        self.rows.push(row.to_vec());
        match self.bytes > self.grant_bytes {
            true => self.spill(),
            false => Ok(()),
        }
    }

    fn spill(&mut self) -> Result<()> {
        let mut file = match self.spilled.take() {
            Some(file) => file,
            None => SpillFile::in_space(self.host.spill()?, self.width)?,
        };
        self.rows.iter().try_for_each(|row| file.add(row))?;
        self.spilled = Some(file);
        self.rows.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Hands the rows over one by one, in the order in which they were added.
    pub fn each(mut self, mut take: impl FnMut(&mut [Value]) -> Result<()>) -> Result<()> {
        if let Some(mut file) = self.spilled.take() {
            file.finish()?;
            let mut batch = RowBatch::new();
            while file.read(&mut batch)? {
                super::check_cancel(self.host)?;
                for i in 0..batch.len() {
                    take(batch.row_mut(i))?;
                }
            }
        }
        self.rows.iter_mut().try_for_each(|row| take(row))
    }
}
