//! Reading the log back: block by block forwards for recovery, record by record backwards for rollback.

use super::Log;
use super::block::{self, BLOCK_ALIGN_BYTES, BLOCK_BYTES_MAX, Found};
use super::file::LogMap;
use crate::error::{Result, StorageError};
use daruma_base::{Lsn, reached};
use std::sync::Arc;

/// How often bytes that are no block are read before the log is taken to end there: what is believed then is that nothing was
/// ever committed behind.
const END_TRIES: usize = 16;
/// How often a record is looked for where it must be.
const READ_TRIES: usize = 4;
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
    /// Up to where the log was known to be hard when the block was written.
    pub fn hardened_before(&self) -> Lsn {
        Lsn(block::hardened_before(&self.bytes))
    }

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
    /// Is what blocks say to be hard hard here? Not in a copy of another node's log.
    believes_blocks: bool,
    /// Bytes read ahead and the file offset of their start.
    buffer: Vec<u8>,
    buffer_offset: u64,
}

impl LogCursor {
    pub(super) fn new(map: LogMap, start: Lsn, believes_blocks: bool) -> Result<LogCursor> {
        let cursor = LogCursor {
            map,
            lsn: start.0,
            believes_blocks,
            buffer: Vec::new(),
            buffer_offset: 0,
        };
        match cursor.map.locate(start.0) {
            Some(_) => Ok(cursor),
            None => Err(cursor.damaged(start.0, "the start of recovery is not in the log file")),
        }
    }

    /// Up to where the block proves the log to be hard.
    pub fn proven_by(&self, block: &Block) -> Lsn {
        match self.believes_blocks {
            true => block.hardened_before(),
            false => Lsn::NONE,
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
        match self.inspect(offset, want, left, incarnation)? {
            Found::Block { padded, used } => {
                let bytes = self.bytes(offset, used, left)?[..used].to_vec();
                self.lsn += padded as u64;
                Ok(Some(Block {
                    lsn: Lsn(lsn),
                    bytes,
                }))
            }
            found @ (Found::Nothing | Found::Torn) => {
                if found == Found::Torn {
                    reached!("log.end.torn");
                }
                if self.believes_blocks && self.was_hard(lsn)? {
                    return Err(
                        self.damaged(lsn, "a log block that had been written safely is damaged")
                    );
                }
                Ok(None)
            }
        }
    }

    /// The next block of a log that is known to be good up to `end`; `None` there. A second reading must find what the first
    /// has found: were it to end early, what is behind would be taken for done.
    pub fn next_before(&mut self, end: Lsn) -> Result<Option<Block>> {
        if self.position() >= end {
            return Ok(None);
        }
        match self.next()? {
            Some(block) => Ok(Some(block)),
            None => {
                reached!("log.shorter_than_known");
                Err(self.gap())
            }
        }
    }

    /// What lies at the cursor. The end of the log is believed only when many readings agree: a passing error of the disk must
    /// not cut off commits.
    fn inspect(&mut self, offset: u64, want: usize, left: u64, incarnation: u32) -> Result<Found> {
        let lsn = self.lsn;
        let mut found = block::inspect(self.bytes(offset, want, left)?, lsn, incarnation);
        for _ in 1..END_TRIES {
            if matches!(found, Found::Block { .. }) {
                break;
            }
            self.read(offset, want)?;
            found = block::inspect(&self.buffer, lsn, incarnation);
        }
        Ok(found)
    }

    /// Incarnation and padded length of the next block, if there is one.
    pub fn peek(&mut self) -> Result<Option<(u32, usize)>> {
        let Some((offset, left, incarnation)) = self.map.locate(self.lsn) else {
            return Ok(None);
        };
        let want = (BLOCK_BYTES_MAX + BLOCK_ALIGN_BYTES).min(left as usize);
        match self.inspect(offset, want, left, incarnation)? {
            Found::Block { padded, .. } => Ok(Some((incarnation, padded))),
            Found::Nothing | Found::Torn => Ok(None),
        }
    }

    /// The error of a reader that knows that there must be a block here.
    pub fn gap(&self) -> StorageError {
        self.damaged(
            self.lsn,
            "a log block that had been written safely is damaged",
        )
    }

    /// At least `want` bytes of the file at `offset` (fewer only at the end of the VLF).
    fn bytes(&mut self, offset: u64, want: usize, left: u64) -> Result<&[u8]> {
        let have = self.buffer_offset.saturating_add(self.buffer.len() as u64);
        if offset < self.buffer_offset || offset + want as u64 > have {
            self.read(offset, READ_AHEAD_BYTES.max(want).min(left as usize))?;
        }
        Ok(&self.buffer[(offset - self.buffer_offset) as usize..])
    }

    fn read(&mut self, offset: u64, len: usize) -> Result<()> {
        // Nothing is in it should the read fail.
        self.buffer_offset = u64::MAX;
        self.buffer.resize(len, 0);
        self.map.handle.read(&mut self.buffer, offset)?;
        self.buffer_offset = offset;
        Ok(())
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
                reached!("log.middle.damaged");
                return Ok(true);
            }
            at += BLOCK_ALIGN_BYTES as u64;
        }
        Ok(false)
    }
}

/// Reads single records at known positions, mostly walking backwards. Only from blocks whose checksum is right: what
/// rollback takes for the old bytes of a row must be what was logged.
pub struct UndoReader<'a> {
    log: &'a Log,
    map: Option<LogMap>,
    window: Vec<u8>,
    window_lsn: u64,
    /// Good blocks of the window: where they begin and end in it.
    blocks: Vec<(usize, usize)>,
}

/// Window of the log read at once when walking backwards.
const WINDOW_BYTES: u64 = 256 << 10;

impl<'a> UndoReader<'a> {
    /// Reads records backwards for a rollback; it keeps a window of the file.
    pub fn new(log: &'a Log) -> UndoReader<'a> {
        UndoReader {
            log,
            map: None,
            window: Vec::new(),
            window_lsn: 0,
            blocks: Vec::new(),
        }
    }

    /// The record at this position, from memory if it is there. A block that does not check is read again before it
    /// is an error.
    pub fn read(&mut self, lsn: Lsn) -> Result<Vec<u8>> {
        if let Some(record) = self.log.record_in_memory(lsn) {
            return Ok(record);
        }
        if let Some(record) = self.in_window(lsn) {
            return Ok(record);
        }
        for _ in 0..READ_TRIES {
            self.load_window(lsn)?;
            if let Some(record) = self.in_window(lsn) {
                return Ok(record);
            }
        }
        Err(self.damaged(lsn))
    }

    fn in_window(&self, lsn: Lsn) -> Option<Vec<u8>> {
        let at = lsn.0.checked_sub(self.window_lsn)? as usize;
        let index = self.blocks.partition_point(|b| b.0 <= at).checked_sub(1)?;
        let (start, end) = *self.blocks.get(index)?;
        let block = self.window.get(start..end)?;
        block::record_at(block, at.checked_sub(start)?).map(<[u8]>::to_vec)
    }

    /// Finds the good blocks of the window, which begins at a multiple of the block alignment.
    fn note_blocks(&mut self, incarnation: u32) {
        self.blocks.clear();
        let mut at = 0;
        while let Some(rest) = self.window.get(at..).filter(|r| !r.is_empty()) {
            at += match block::inspect(rest, self.window_lsn + at as u64, incarnation) {
                Found::Block { padded, used } => {
                    self.blocks.push((at, at + used));
                    padded
                }
                Found::Nothing | Found::Torn => BLOCK_ALIGN_BYTES,
            };
        }
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
        let Some((offset, left, incarnation)) = map.locate(lsn.0) else {
            return Err(self.damaged(lsn));
        };
        let extent = map
            .extents
            .iter()
            .rev()
            .find(|e| e.start_lsn <= lsn.0)
            .copied();
        let within = extent.map_or(0, |e| lsn.0 - e.start_lsn);
        let align = BLOCK_ALIGN_BYTES as u64;
        let before = within - within.saturating_sub(WINDOW_BYTES) / align * align;
        let after = left.min(BLOCK_BYTES_MAX as u64 + BLOCK_ALIGN_BYTES as u64);
        self.window.resize((before + after) as usize, 0);
        map.handle.read(&mut self.window, offset - before)?;
        self.window_lsn = lsn.0 - before;
        self.note_blocks(incarnation);
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
