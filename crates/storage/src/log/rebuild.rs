//! Log files put together from copied blocks: what restore does.
//!
//! Theory: the stream is position-independent but for its VLF headers, so copied blocks are laid out again in VLFs of
//! their own, one for each section: adjacent blocks of one incarnation. What follows a section without a gap goes into its VLF
//! as long as that is small, so a chain of many short log backups needs no more VLFs than one of few long ones. Recovery then
//! reads the file like any other.
//! Headers are written last, and say how far their VLF is filled: a section counts only once all of it is on disk.
//!
//! A restore to a point in time ends the stream before the first commit that is later: the block with that commit is
//! sealed anew with the records before it.

use super::block::{self, BLOCK_ALIGN_BYTES, Found, OpenBlock};
use super::file::{
    FIRST_LSN, Filled, HEADER_BYTES, LSN_END, LogFile, VLF_BYTES_MIN, file_header, unwritten_header,
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
    /// Position behind the section.
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

    /// What a description of a copy says is not to be believed before it is seen to be possible.
    fn check(&self) -> Result<()> {
        let is_whole = |n: u64| n.is_multiple_of(BLOCK_ALIGN_BYTES as u64);
        let is_possible = is_whole(self.start.0)
            && is_whole(self.bytes)
            && (FIRST_LSN..LSN_END).contains(&self.start.0)
            && (1..=SECTION_BYTES_MAX).contains(&self.bytes);
        match is_possible {
            true => Ok(()),
            false => Err(damaged_chunk("a copy claims an impossible part of the log")),
        }
    }

    /// A VLF of its own.
    fn vlf(&self, offset: u64, sequence: u64) -> Filled {
        Filled {
            offset,
            size: vlf_bytes(self.bytes),
            sequence,
            start_lsn: self.start.0,
            incarnation: self.incarnation,
            held: self.bytes,
        }
    }

    /// The VLF before it with the section added, if it goes on where that ends.
    fn added_to(&self, vlf: &Filled) -> Option<Filled> {
        let held = vlf.held + self.bytes;
        let goes_on = vlf.end_lsn() == self.start.0 && vlf.incarnation == self.incarnation;
        (goes_on && held <= SECTION_BYTES_MAX).then(|| Filled {
            held,
            size: vlf_bytes(held).max(vlf.size),
            ..*vlf
        })
    }
}

fn vlf_bytes(held: u64) -> u64 {
    (HEADER_BYTES + held)
        .next_multiple_of(HEADER_BYTES)
        .max(VLF_BYTES_MIN)
}

/// Where a section goes.
struct Placed {
    section: LogSection,
    /// Of its first block in the log file.
    offset: u64,
}

/// A log file under construction.
pub struct LogRebuild {
    file: Arc<dyn DiskFile>,
    spec: FileSpec,
    /// In order of the stream.
    placed: Vec<Placed>,
    /// Content of the headers once the blocks are there.
    vlfs: Vec<Filled>,
}

impl LogRebuild {
    /// A new file that holds `sections`, and free VLFs up to the size asked for.
    pub fn create(
        env: &Env,
        spec: &FileSpec,
        guid: u64,
        sections: &[LogSection],
    ) -> Result<LogRebuild> {
        sections.iter().try_for_each(LogSection::check)?;
        let file = env
            .disk
            .open(&spec.path, OpenMode::CreateNew)
            .map_err(|e| io_error("create", spec, e))?;
        let mut log = LogRebuild {
            file,
            spec: spec.clone(),
            placed: Vec::new(),
            vlfs: Vec::new(),
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

    /// Adds sections behind those that a log file of an earlier restore holds, which end at `from`.
    pub fn append(
        env: &Env,
        spec: &FileSpec,
        guid: u64,
        from: Lsn,
        sections: &[LogSection],
    ) -> Result<LogRebuild> {
        sections.iter().try_for_each(LogSection::check)?;
        let (end, sequence, last) = {
            let (existing, last) = LogFile::open_restored(spec, guid, env, from)?;
            let sequence = existing.vlfs().iter().map(|v| v.sequence).max();
            (existing.size_bytes(), sequence.unwrap_or(0) + 1, last)
        };
        let file = env
            .disk
            .open(&spec.path, OpenMode::ReadWrite)
            .map_err(|e| io_error("open", spec, e))?;
        let mut log = LogRebuild {
            file,
            spec: spec.clone(),
            placed: Vec::new(),
            vlfs: Vec::new(),
        };
        let (mut end, mut sections) = (end, sections);
        if let (Some(last), [first, rest @ ..]) = (last, sections)
            && let Some(vlf) = first.added_to(&last)
        {
            log.placed.push(Placed {
                section: *first,
                offset: last.offset + HEADER_BYTES + last.held,
            });
            log.vlfs.push(vlf);
            (end, sections) = (vlf.offset + vlf.size, rest);
        }
        let end = log.place(sections, end, sequence);
        log.allocate(end)?;
        Ok(log)
    }

    /// Ends the log of a restored database at `end`: a step that was told to have failed may have come further.
    pub fn end_at(env: &Env, spec: &FileSpec, guid: u64, end: Lsn) -> Result<()> {
        LogFile::open_restored(spec, guid, env, end).map(|_| ())
    }

    fn place(&mut self, sections: &[LogSection], mut offset: u64, mut sequence: u64) -> u64 {
        for section in sections {
            let vlf = section.vlf(offset, sequence);
            self.placed.push(Placed {
                section: *section,
                offset: offset + HEADER_BYTES,
            });
            self.vlfs.push(vlf);
            offset += vlf.size;
            sequence += 1;
        }
        offset
    }

    /// Writes blocks of one section. Chunks may come in any order and from several threads.
    pub fn write_blocks(&self, chunk: &LogChunk) -> Result<()> {
        check_blocks(chunk).map_err(|what| self.bad(what))?;
        let end = chunk.lsn.0 + chunk.bytes.len() as u64;
        let before = self
            .placed
            .partition_point(|p| p.section.start <= chunk.lsn);
        let place = self.placed.get(..before).and_then(<[Placed]>::last);
        let place = place
            .filter(|p| end <= p.section.end().0 && p.section.incarnation == chunk.incarnation);
        let Some(place) = place else {
            return Err(self.bad("log blocks outside the sections of their backup"));
        };
        let within = chunk.lsn.0 - place.section.start.0;
        self.write(&chunk.bytes, place.offset + within)
    }

    /// Makes the blocks durable, then the headers that say they are there.
    pub fn finish(&self) -> Result<()> {
        self.sync()?;
        for vlf in &self.vlfs {
            self.write(&vlf.header(), vlf.offset)?;
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
    use super::super::file::{Left, Room};
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
        let place = |file: &mut LogFile, lsn| match file.place(
            lsn,
            HEADER_BYTES,
            Left::ByEndings(0),
            &mut Default::default(),
        ) {
            Ok(Room::Found(placement)) => placement,
            _ => panic!("there is room"),
        };
        let placed = place(&mut file, 4096);
        let filled = written(&file);
        assert!(filled >= SPARE_VLF_BYTES - HEADER_BYTES, "{filled}");
        assert!(placed.header.is_some());
        place(&mut file, 8192);
        assert_eq!(written(&file), filled, "it is written once");
        place(&mut file, 4096 + 2 * SPARE_VLF_BYTES);
        assert!(written(&file) >= 2 * filled);
    }

    const GUID: u64 = 7;

    /// A chunk of blocks of 4 KiB.
    fn chunk(start: u64, blocks: u64, incarnation: u32) -> LogChunk {
        let at = |n: u64| start + n * BLOCK_ALIGN_BYTES as u64;
        let sealed = |n| {
            let mut open = OpenBlock::new(at(n), 0, Vec::new());
            open.push(&[9; 100]);
            open.seal(incarnation, at(n))
        };
        LogChunk {
            lsn: Lsn(start),
            incarnation,
            bytes: (0..blocks).flat_map(sealed).collect(),
        }
    }

    fn section(chunk: &LogChunk) -> LogSection {
        LogSection {
            start: chunk.lsn,
            bytes: chunk.bytes.len() as u64,
            incarnation: chunk.incarnation,
        }
    }

    fn end_of(chunk: &LogChunk) -> u64 {
        section(chunk).end().0
    }

    /// The log file after a full restore with one block.
    fn restored(env: &Env, spec: &FileSpec) -> u64 {
        let first = chunk(4_096, 1, 1);
        let log = LogRebuild::create(env, spec, GUID, &[section(&first)]).expect("creates");
        log.write_blocks(&first).expect("writes");
        log.finish().expect("finishes");
        end_of(&first)
    }

    fn append(env: &Env, spec: &FileSpec, from: u64, chunk: &LogChunk) -> LogRebuild {
        let log = LogRebuild::append(env, spec, GUID, Lsn(from), &[section(chunk)]);
        let log = log.expect("appends");
        log.write_blocks(chunk).expect("writes");
        log
    }

    /// Where a recovery that begins at the first block finds the end.
    fn found_end(env: &Env, spec: &FileSpec) -> u64 {
        let log = super::super::Log::open(spec, GUID, env, &Default::default()).expect("opens");
        let mut cursor = log.cursor(Lsn(4_096)).expect("a cursor");
        while cursor.next().expect("no damage").is_some() {}
        cursor.position().0
    }

    /// A standby that is fed every few seconds, for days.
    #[test]
    fn a_long_chain_of_short_steps_needs_few_vlfs() {
        let disk = SimDisk::new(1);
        let env = daruma_sim::env(&disk, 1);
        let spec = FileSpec::log("/t.ldf", 256);
        let mut end = restored(&env, &spec);
        let vlfs = || {
            LogFile::open(&spec, GUID, &env)
                .expect("opens")
                .vlfs()
                .len()
        };
        let before = vlfs();
        for step in 0..400 {
            // Each hundredth step the source was restarted.
            let next = chunk(end, 1 + step % 3, 1 + step as u32 / 100);
            append(&env, &spec, end, &next).finish().expect("finishes");
            end = end_of(&next);
            assert!(step % 50 > 0 || found_end(&env, &spec) == end, "{step}");
        }
        assert_eq!(found_end(&env, &spec), end);
        assert!(vlfs() <= before + 5, "{} after {before}", vlfs());
    }

    #[test]
    fn a_step_that_was_cancelled_or_not_told_of_leaves_nothing_behind() {
        for (is_told, first_is_small) in
            [(true, true), (true, false), (false, true), (false, false)]
        {
            let disk = SimDisk::new(1);
            let env = daruma_sim::env(&disk, 1);
            let spec = FileSpec::log("/t.ldf", 256);
            let mut end = restored(&env, &spec);
            if !first_is_small {
                // The next steps go into the VLF of this one.
                let whole = chunk(end, 3, 1);
                append(&env, &spec, end, &whole).finish().expect("finishes");
                end = end_of(&whole);
            }
            let long = append(&env, &spec, end, &chunk(end, 300, 1));
            if !is_told {
                long.finish().expect("finishes");
            }
            drop(long);
            disk.restart();
            LogRebuild::end_at(&env, &spec, GUID, Lsn(end)).expect("ends");
            assert_eq!(found_end(&env, &spec), end, "{is_told} {first_is_small}");
            let long = append(&env, &spec, end, &chunk(end, 300, 1));
            drop(long);
            let short = chunk(end, 2, 1);
            append(&env, &spec, end, &short).finish().expect("finishes");
            assert_eq!(
                found_end(&env, &spec),
                end_of(&short),
                "{is_told} {first_is_small}"
            );
        }
    }

    /// The description of a backup set is somebody's text.
    #[test]
    fn impossible_sections_are_refused() {
        let disk = SimDisk::new(1);
        let env = daruma_sim::env(&disk, 1);
        let spec = FileSpec::log("/t.ldf", 256);
        let good = section(&chunk(4_096, 1, 1));
        let from = |start| LogSection {
            start: Lsn(start),
            ..good
        };
        let long = |bytes| LogSection { bytes, ..good };
        let bad = [
            from(0),
            from(4_097),
            from(u64::MAX - 4_095),
            long(0),
            long(100),
        ];
        for section in bad
            .into_iter()
            .chain([long(1 << 40), long(u64::MAX - 4_095)])
        {
            let made = LogRebuild::create(&env, &spec, GUID, &[section]);
            assert!(made.is_err(), "{section:?}");
            assert!(!env.disk.exists(&spec.path).expect("looks"), "{section:?}");
        }
    }

    /// Files of older releases have a virtual log file for each step.
    #[test]
    fn a_log_of_any_number_of_vlfs_is_read_to_its_end() {
        const VLFS: u64 = 10_100;
        // Only what is written takes room here.
        let below: Arc<dyn daruma_base::Disk> = SimDisk::new(1);
        let disk = crate::OverlayDisk::create(&below, std::path::Path::new("/changes"));
        let env = Env {
            disk: Arc::new(disk.expect("creates")),
            ..daruma_sim::env(&SimDisk::new(1), 1)
        };
        let spec = FileSpec::log("/t.ldf", 256);
        let chunks = (0..VLFS).map(|n| chunk(4_096 * (1 + n), 1, 1 + n as u32));
        let sections: Vec<LogSection> = chunks.clone().map(|c| section(&c)).collect();
        let log = LogRebuild::create(&env, &spec, GUID, &sections).expect("creates");
        chunks.for_each(|c| log.write_blocks(&c).expect("writes"));
        log.finish().expect("finishes");
        drop(log);
        assert_eq!(found_end(&env, &spec), 4_096 * (1 + VLFS));
        let file = LogFile::open(&spec, GUID, &env).expect("opens");
        assert_eq!(
            file.vlfs().iter().filter(|v| v.sequence > 0).count() as u64,
            VLFS
        );
    }
}
