//! Reading the log back: block by block forwards for recovery, record by record backwards for rollback.

use super::Log;
use super::block::{self, BLOCK_ALIGN_BYTES, BLOCK_BYTES_MAX, Found};
use super::file::LogMap;
use crate::error::{Result, StorageError};
use daruma_base::Lsn;
use std::sync::Arc;

const READ_AHEAD_BYTES: usize = 1 << 20;
/// How far behind a bad block to look for proof that it had been hard. Covers all that can be unsynced at once.
const PROOF_BYTES: u64 = 64 << 20;

/// A good block of the stream.
pub struct Block {
    pub lsn: Lsn,
    /// Header and records, without padding.
    pub bytes: Vec<u8>,
}

impl Block {
    /// Records with their positions. A length that leads out of the block ends it (the checksum was right, so that
    /// would be a bug of ours, which the caller reports as damage).
    pub fn records(&self) -> impl Iterator<Item = (Lsn, &[u8])> {
        let mut at = block::BLOCK_HEADER_BYTES;
        std::iter::from_fn(move || {
            let record = block::record_at(&self.bytes, at)?;
            let lsn = Lsn(self.lsn.0 + at as u64);
            at += record.len();
            Some((lsn, record))
        })
    }
}

/// Reads blocks from a starting point to the end of the log.
pub struct LogCursor {
    map: LogMap,
    lsn: u64,
    /// Bytes read ahead and the file offset of their start.
    buffer: Vec<u8>,
    buffer_offset: u64,
}

impl LogCursor {
    pub(super) fn new(map: LogMap, start: Lsn) -> Result<LogCursor> {
        let cursor = LogCursor {
            map,
            lsn: start.0,
            buffer: Vec::new(),
            buffer_offset: 0,
        };
        match cursor.map.locate(start.0) {
            Some(_) => Ok(cursor),
            None => Err(cursor.damaged(start.0, "the start of recovery is not in the log file")),
        }
    }

    /// Where the next block starts; after the last block, the end of the log.
    pub fn position(&self) -> Lsn {
        Lsn(self.lsn)
    }

    fn damaged(&self, lsn: u64, what: &str) -> StorageError {
        StorageError::DamagedLog {
            path: self.map.handle.path().clone(),
            lsn: Lsn(lsn),
            what: what.into(),
        }
    }

    /// The next block, or `None` at the end of the log.
    pub fn next(&mut self) -> Result<Option<Block>> {
        let Some((offset, left, incarnation)) = self.map.locate(self.lsn) else {
            return Ok(None);
        };
        let lsn = self.lsn;
        let want = (BLOCK_BYTES_MAX + BLOCK_ALIGN_BYTES).min(left as usize);
        match block::inspect(self.bytes(offset, want, left)?, lsn, incarnation) {
            Found::Block { padded, used } => {
                let bytes = self.bytes(offset, used, left)?[..used].to_vec();
                self.lsn += padded as u64;
                Ok(Some(Block {
                    lsn: Lsn(lsn),
                    bytes,
                }))
            }
            Found::Nothing | Found::Torn => {
                if self.was_hard(lsn)? {
                    return Err(
                        self.damaged(lsn, "a log block that had been written safely is damaged")
                    );
                }
                Ok(None)
            }
        }
    }

    /// At least `want` bytes of the file at `offset` (fewer only at the end of the VLF).
    fn bytes(&mut self, offset: u64, want: usize, left: u64) -> Result<&[u8]> {
        let have = self.buffer_offset + self.buffer.len() as u64;
        if offset < self.buffer_offset || offset + want as u64 > have {
            let len = READ_AHEAD_BYTES.max(want).min(left as usize);
            self.buffer.resize(len, 0);
            self.map.handle.read(&mut self.buffer, offset)?;
            self.buffer_offset = offset;
        }
        Ok(&self.buffer[(offset - self.buffer_offset) as usize..])
    }

    /// Does a later, intact block say that position `lsn` was hard before it was written?
    fn was_hard(&mut self, lsn: u64) -> Result<bool> {
        let mut at = lsn + BLOCK_ALIGN_BYTES as u64;
        let end = lsn + PROOF_BYTES;
        while at < end {
            let Some((offset, left, incarnation)) = self.map.locate(at) else {
                // Past the end of this VLF: go on where the next one starts.
                match self
                    .map
                    .extents
                    .iter()
                    .map(|e| e.start_lsn)
                    .find(|s| *s > at)
                {
                    Some(start) if start < end => at = start,
                    _ => return Ok(false),
                }
                continue;
            };
            let want = (BLOCK_BYTES_MAX + BLOCK_ALIGN_BYTES).min(left as usize);
            let bytes = self.bytes(offset, want, left)?;
            if block::claimed_lsn(bytes) == Some(at)
                && matches!(block::inspect(bytes, at, incarnation), Found::Block { .. })
                && block::hardened_before(bytes) > lsn
            {
                return Ok(true);
            }
            at += BLOCK_ALIGN_BYTES as u64;
        }
        Ok(false)
    }
}

/// Reads single records at known positions, mostly walking backwards.
pub struct UndoReader<'a> {
    log: &'a Log,
    map: Option<LogMap>,
    window: Vec<u8>,
    window_lsn: u64,
}

/// Window of the log read at once when walking backwards.
const WINDOW_BYTES: u64 = 256 << 10;

impl<'a> UndoReader<'a> {
    pub fn new(log: &'a Log) -> UndoReader<'a> {
        UndoReader {
            log,
            map: None,
            window: Vec::new(),
            window_lsn: 0,
        }
    }

    pub fn read(&mut self, lsn: Lsn) -> Result<Vec<u8>> {
        if let Some(record) = self.log.record_in_memory(lsn) {
            return Ok(record);
        }
        if let Some(record) = self.in_window(lsn) {
            return Ok(record);
        }
        self.load_window(lsn)?;
        match self.in_window(lsn) {
            Some(record) => Ok(record),
            None => Err(self.damaged(lsn)),
        }
    }

    fn in_window(&self, lsn: Lsn) -> Option<Vec<u8>> {
        let at = lsn.0.checked_sub(self.window_lsn)? as usize;
        block::record_at(&self.window, at).map(<[u8]>::to_vec)
    }

    /// Loads the bytes around `lsn`: mostly those before it, and enough behind it for one record.
    fn load_window(&mut self, lsn: Lsn) -> Result<()> {
        let fresh = self.map.is_none();
        let map = self
            .map
            .get_or_insert_with(|| self.log.state.lock().file.reader());
        if !fresh && map.locate(lsn.0).is_none() {
            *map = self.log.state.lock().file.reader();
        }
        let Some((offset, left, _)) = map.locate(lsn.0) else {
            return Err(self.damaged(lsn));
        };
        let extent = map
            .extents
            .iter()
            .rev()
            .find(|e| e.start_lsn <= lsn.0)
            .copied();
        let within = extent.map_or(0, |e| lsn.0 - e.start_lsn);
        let before = within.min(WINDOW_BYTES);
        let after = left.min(BLOCK_BYTES_MAX as u64 + BLOCK_ALIGN_BYTES as u64);
        self.window.resize((before + after) as usize, 0);
        map.handle.read(&mut self.window, offset - before)?;
        self.window_lsn = lsn.0 - before;
        Ok(())
    }

    fn damaged(&self, lsn: Lsn) -> StorageError {
        let path: Arc<std::path::PathBuf> =
            Arc::new(self.log.state.lock().file.handle().path().clone());
        StorageError::DamagedLog {
            path: path.as_ref().clone(),
            lsn,
            what: "no record where one is needed".into(),
        }
    }
}
