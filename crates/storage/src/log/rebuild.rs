//! Log files put together from copied blocks: what restore does.
//!
//! Theory: the stream is position-independent but for its VLF headers, so copied blocks are laid out again in VLFs of
//! their own, one for each section: adjacent blocks of one incarnation. Recovery then reads the file like any other.
//! Headers are written last: a section counts only once all of it is on disk.
//!
//! A restore to a point in time ends the stream before the first commit that is later: the block with that commit is
//! sealed anew with the records before it.

use super::block::{self, BLOCK_ALIGN_BYTES, Found, OpenBlock};
use super::file::{
    HEADER_BYTES, LogFile, VLF_BYTES_MIN, file_header, unwritten_header, vlf_header,
};
use super::record::{Kind, Record};
use crate::api::FileSpec;
use crate::bytes::*;
use crate::copy::LogChunk;
use crate::error::{Result, StorageError};
use daruma_base::{DiskFile, Env, Lsn, OpenMode};
use std::sync::Arc;

/// Longest section: VLFs of this size are reused one by one later.
pub const SECTION_BYTES_MAX: u64 = 64 << 20;
/// Room for what recovery itself writes, beyond the sections.
const SPARE_BYTES_MIN: u64 = 1 << 20;
/// That room is not written, which can take longer than all else: each VLF is when it is put to use, so it is to be small
/// enough for that to be no pause.
const SPARE_VLF_BYTES: u64 = 16 << 20;
const SPARE_VLFS_MIN: u64 = 4;
const SPARE_VLFS_MAX: u64 = 512;

/// Adjacent log blocks of one incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSection {
    pub start: Lsn,
    pub bytes: u64,
    pub incarnation: u32,
}

impl LogSection {
    pub fn end(&self) -> Lsn {
        Lsn(self.start.0 + self.bytes)
    }

    /// Adds a piece of the stream to a list of sections in order.
    pub fn extend(sections: &mut Vec<LogSection>, start: Lsn, bytes: u64, incarnation: u32) {
        match sections.last_mut() {
            Some(last)
                if last.end() == start
                    && last.incarnation == incarnation
                    && last.bytes + bytes <= SECTION_BYTES_MAX =>
            {
                last.bytes += bytes;
            }
            _ => sections.push(LogSection {
                start,
                bytes,
                incarnation,
            }),
        }
    }

    fn vlf_bytes(&self) -> u64 {
        (HEADER_BYTES + self.bytes)
            .next_multiple_of(HEADER_BYTES)
            .max(VLF_BYTES_MIN)
    }
}

/// A log file under construction.
pub struct LogRebuild {
    file: Arc<dyn DiskFile>,
    spec: FileSpec,
    /// Sections with the file offset of their VLF and its sequence.
    placed: Vec<(LogSection, u64, u64)>,
}

impl LogRebuild {
    /// A new file that holds `sections`, and free VLFs up to the size asked for.
    pub fn create(
        env: &Env,
        spec: &FileSpec,
        guid: u64,
        sections: &[LogSection],
    ) -> Result<LogRebuild> {
        let file = env
            .disk
            .open(&spec.path, OpenMode::CreateNew)
            .map_err(|e| io_error("create", spec, e))?;
        let mut log = LogRebuild {
            file,
            spec: spec.clone(),
            placed: Vec::new(),
        };
        let end = log.place(sections, HEADER_BYTES, 1);
        let spare = (spec.size_pages * 8192)
            .saturating_sub(end)
            .max(SPARE_BYTES_MIN);
        let count = (spare / SPARE_VLF_BYTES).clamp(SPARE_VLFS_MIN, SPARE_VLFS_MAX);
        let each = (spare / count / HEADER_BYTES * HEADER_BYTES).max(VLF_BYTES_MIN);
        log.allocate(end + count * each)?;
        log.write(&file_header(guid), 0)?;
        for n in 0..count {
            let at = end + n * each;
            log.write(&unwritten_header(each, at), at)?;
        }
        Ok(log)
    }

    /// Adds sections behind those that a log file of an earlier restore holds.
    pub fn append(
        env: &Env,
        spec: &FileSpec,
        guid: u64,
        sections: &[LogSection],
    ) -> Result<LogRebuild> {
        let (end, sequence) = {
            let existing = LogFile::open(spec, guid, env)?;
            let sequence = existing.vlfs().iter().map(|v| v.sequence).max();
            (existing.size_bytes(), sequence.unwrap_or(0) + 1)
        };
        let file = env
            .disk
            .open(&spec.path, OpenMode::ReadWrite)
            .map_err(|e| io_error("open", spec, e))?;
        let mut log = LogRebuild {
            file,
            spec: spec.clone(),
            placed: Vec::new(),
        };
        let end = log.place(sections, end, sequence);
        log.allocate(end)?;
        Ok(log)
    }

    fn place(&mut self, sections: &[LogSection], mut offset: u64, mut sequence: u64) -> u64 {
        for section in sections {
            self.placed.push((*section, offset, sequence));
            offset += section.vlf_bytes();
            sequence += 1;
        }
        offset
    }

    /// Writes blocks of one section. Chunks may come in any order and from several threads.
    pub fn write_blocks(&self, chunk: &LogChunk) -> Result<()> {
        check_blocks(chunk).map_err(|what| self.bad(what))?;
        let end = chunk.lsn.0 + chunk.bytes.len() as u64;
        let place = self.placed.iter().find(|(s, ..)| {
            s.start <= chunk.lsn && end <= s.end().0 && s.incarnation == chunk.incarnation
        });
        let Some((section, offset, _)) = place else {
            return Err(self.bad("log blocks outside the sections of their backup"));
        };
        let within = chunk.lsn.0 - section.start.0;
        self.write(&chunk.bytes, offset + HEADER_BYTES + within)
    }

    /// Makes the blocks durable, then the headers that say they are there.
    pub fn finish(&self) -> Result<()> {
        self.sync()?;
        for (section, offset, sequence) in &self.placed {
            let header = vlf_header(
                section.vlf_bytes(),
                *sequence,
                section.start.0,
                section.incarnation,
            );
            self.write(&header, *offset)?;
        }
        self.sync()
    }

    fn bad(&self, what: &str) -> StorageError {
        StorageError::BadFile {
            path: self.spec.path.clone(),
            what: what.into(),
        }
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.file
            .allocate(len)
            .map_err(|e| io_error("allocate", &self.spec, e))
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file
            .write_at(bytes, offset)
            .map_err(|e| io_error("write", &self.spec, e))
    }

    fn sync(&self) -> Result<()> {
        self.file
            .sync_data()
            .map_err(|e| io_error("sync", &self.spec, e))
    }
}

pub(crate) fn io_error(
    action: &'static str,
    spec: &FileSpec,
    source: std::io::Error,
) -> StorageError {
    StorageError::Io {
        action,
        path: spec.path.clone(),
        source,
    }
}

/// Every block of a chunk is intact and where it says it is.
fn check_blocks(chunk: &LogChunk) -> std::result::Result<(), &'static str> {
    blocks(chunk).try_for_each(|block| block.map(|_| ()))
}

/// Blocks of a chunk: position, and bytes without padding.
pub(crate) fn blocks(
    chunk: &LogChunk,
) -> impl Iterator<Item = std::result::Result<(Lsn, &[u8]), &'static str>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = chunk.bytes.get(at..).filter(|r| !r.is_empty())?;
        let lsn = chunk.lsn.0 + at as u64;
        match block::inspect(rest, lsn, chunk.incarnation) {
            Found::Block { padded, used } => {
                at += padded;
                Some(Ok((Lsn(lsn), rest.get(..used).unwrap_or_default())))
            }
            Found::Nothing | Found::Torn => {
                at = chunk.bytes.len();
                Some(Err("a log block is damaged"))
            }
        }
    })
}

/// Where a restore to a point in time stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Before the first commit later than this time (100 ns since 1970).
    Time(i64),
    /// Before the record at this position.
    Before(Lsn),
}

impl Stop {
    fn reached(self, lsn: Lsn, record: &[u8]) -> bool {
        match self {
            Stop::Before(stop) => lsn >= stop,
            Stop::Time(stop) => commit_time(record).is_some_and(|time| time > stop),
        }
    }
}

fn commit_time(bytes: &[u8]) -> Option<i64> {
    let record = Record::parse(bytes).filter(|r| r.kind == Kind::Commit)?;
    Reader::new(record.body).u64().map(|t| t as i64)
}

impl LogChunk {
    /// Commit times of the first and the last transaction that commits in this chunk.
    pub fn commit_times(&self) -> Result<Option<(i64, i64)>> {
        let mut times: Option<(i64, i64)> = None;
        for block in blocks(self) {
            let (lsn, bytes) = block.map_err(damaged_chunk)?;
            for (_, record) in records(lsn, bytes) {
                if let Some(time) = commit_time(record) {
                    times = Some(times.map_or((time, time), |(a, b)| (a.min(time), b.max(time))));
                }
            }
        }
        Ok(times)
    }

    /// Drops the blocks below `from`, a block boundary if it lies within the chunk.
    pub fn skip_to(&mut self, from: Lsn) -> Result<()> {
        let Some(skip) = from.0.checked_sub(self.lsn.0).filter(|s| *s > 0) else {
            return Ok(());
        };
        let skip = skip.min(self.bytes.len() as u64);
        let boundary = skip == self.bytes.len() as u64
            || blocks(self).any(|b| b.is_ok_and(|(lsn, _)| lsn == from));
        if !boundary {
            return Err(damaged_chunk("a position within a log block"));
        }
        self.bytes.drain(..skip as usize);
        self.lsn = Lsn(self.lsn.0 + skip);
        Ok(())
    }

    /// Cuts the chunk at the stop. True when it was reached: the stream ends with what is left.
    pub fn cut(&mut self, stop: Stop) -> Result<bool> {
        let mut end = None;
        for block in blocks(self) {
            let (lsn, bytes) = block.map_err(damaged_chunk)?;
            if let Some((at, _)) = records(lsn, bytes).find(|(l, r)| stop.reached(*l, r)) {
                end = Some((lsn, bytes.to_vec(), at));
                break;
            }
        }
        let Some((block, bytes, at)) = end else {
            return Ok(false);
        };
        self.bytes.truncate((block.0 - self.lsn.0) as usize);
        let mut kept = records(block, &bytes)
            .take_while(|(l, _)| *l < at)
            .peekable();
        if kept.peek().is_some() {
            let mut open = OpenBlock::new(block.0, 0, Vec::new());
            kept.for_each(|(_, record)| drop_position(open.push(record)));
            let hardened = block::hardened_before(&bytes);
            self.bytes
                .extend_from_slice(&open.seal(self.incarnation, hardened));
        }
        debug_assert!(self.bytes.len().is_multiple_of(BLOCK_ALIGN_BYTES));
        Ok(true)
    }
}

fn drop_position(_lsn: u64) {}

pub(crate) fn damaged_chunk(what: &str) -> StorageError {
    StorageError::BadFile {
        path: std::path::PathBuf::new(),
        what: what.into(),
    }
}

pub(crate) fn records(block_lsn: Lsn, bytes: &[u8]) -> impl Iterator<Item = (Lsn, &[u8])> {
    let mut at = block::BLOCK_HEADER_BYTES;
    std::iter::from_fn(move || {
        let record = block::record_at(bytes, at)?;
        let lsn = Lsn(block_lsn.0 + at as u64);
        at += record.len();
        Some((lsn, record))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_sim::SimDisk;

    /// Restores need not wait for zeros, nor need the commits that follow do without.
    #[test]
    fn free_space_is_allocated_and_written_when_it_is_put_to_use() {
        let disk = SimDisk::new(1);
        let env = daruma_sim::env(&disk, 1);
        let spec = FileSpec::log("/t.ldf", 10 * SPARE_VLF_BYTES / 8192);
        let log = LogRebuild::create(&env, &spec, 7, &[]).expect("creates");
        log.finish().expect("finishes");
        drop(log);
        let mut file = LogFile::open(&spec, 7, &env).expect("opens");
        assert!(file.size_bytes() <= spec.size_pages * 8192);
        assert_eq!(file.vlfs().len(), 9);
        let written = |file: &LogFile| file.handle().io_stats().bytes_written;
        let placed = file.place(4096, None).expect("finds room");
        let filled = written(&file);
        assert!(filled >= SPARE_VLF_BYTES - HEADER_BYTES, "{filled}");
        assert!(placed.header.is_some());
        file.place(8192, None).expect("the same has room");
        assert_eq!(written(&file), filled, "it is written once");
        file.place(4096 + 2 * SPARE_VLF_BYTES, None)
            .expect("the next");
        assert!(written(&file) >= 2 * filled);
    }
}
