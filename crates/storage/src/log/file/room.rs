//! Room in the log file: where the next block goes, who may take what is left, and how the file grows and shrinks.
//!
//! Theory: whoever appends leaves what others may need to come to an end. Work leaves the room of rollbacks, of the ends of transactions
//! and of a checkpoint; an end leaves the room of a checkpoint; a checkpoint makes room. What ends something grows the file past its
//! limits before it fails.

use super::super::block::{BLOCK_ALIGN_BYTES, BLOCK_BYTES_MAX};
use super::handle::Handle;
use super::vlf::Vlf;
use super::{CHECKPOINT, HEADER_BYTES, LogFile, NOTHING, VLF_BYTES_MIN};
use crate::api::Growth;
use crate::error::{Result, StorageError};
use daruma_base::reached;

/// So much new space is synced at once: commits wait for no more.
const NEW_SPACE_SYNC_BYTES: u64 = 16 << 20;
/// Room that a block may need.
pub const BLOCK_ROOM_BYTES: u64 = (BLOCK_BYTES_MAX + BLOCK_ALIGN_BYTES) as u64;
/// Left for the record of a checkpoint, of one part, by all others: without it a log that is full, on a disk that is full, stays so.
pub const CHECKPOINT_RESERVE_BYTES: u64 = BLOCK_ROOM_BYTES;
/// Left by new work besides what rollbacks and the ends of open transactions may need: for ends of unusual length, and for what
/// blocks that are written before they are full leave unused.
pub const ENDINGS_RESERVE_BYTES: u64 = BLOCK_ROOM_BYTES;
/// With more VLFs than this the file grows by larger steps than it was told: each of them costs a look whenever a block is
/// opened, and a read when the file is.
const VLFS_WANTED_MAX: usize = 10_000;
/// Then by this part of its size.
const LARGE_STEP_SHARE: u64 = 16;
/// A step below this part of the file's size is one VLF.
const SMALL_STEP_SHARE: u64 = 8;

/// Where a block goes, and a VLF header to write first if it opens a new one.
pub struct Placement {
    /// Of the block in the file.
    pub offset: u64,
    /// Bytes up to the end of its VLF.
    pub here: u64,
    /// Those, and the bytes of VLFs that are free.
    pub room: u64,
    /// Where the header of a new VLF goes, and the header.
    pub header: Option<(u64, Vec<u8>)>,
}

/// Result of looking for room.
pub enum Room {
    Found(Placement),
    /// The file, which has so many bytes, is to grow first; then ask again.
    Grow {
        step: u64,
        seen: u64,
    },
}

/// Bytes of room that whoever appends leaves to others.
#[derive(Clone, Copy)]
pub enum Left {
    /// By new work: for rollbacks, the ends of transactions, and checkpoints.
    ByWork(u64),
    /// By what ends a transaction, and by a checkpoint.
    ByEndings(u64),
}

impl Left {
    /// Bytes that stay free.
    pub fn bytes(self) -> u64 {
        let (Left::ByWork(bytes) | Left::ByEndings(bytes)) = self;
        bytes
    }
}

/// Attempts made already to get room for a block.
#[derive(Default)]
pub struct Tried {
    growth: bool,
    growth_past_limit: bool,
    /// Of the last growth.
    pub failure: Option<StorageError>,
}

/// VLFs that are to come behind the last one.
pub struct Extension {
    handle: Handle,
    vlfs: Vec<Vlf>,
    start: u64,
    end: u64,
}

impl Extension {
    pub(super) fn into_vlfs(self) -> Vec<Vlf> {
        self.vlfs
    }

    /// Makes room on disk, zeroed so that later writes change no metadata if the log is `durable`. The caller holds nothing
    /// that a commit needs.
    pub fn write(&self, durable: bool) -> Result<()> {
        let handle = &self.handle;
        let allocated = handle.file.allocate(self.end);
        allocated.map_err(|e| handle.error("grow log", e))?;
        let mut at = self.start;
        while durable && at < self.end {
            let end = self.end.min(at + NEW_SPACE_SYNC_BYTES);
            handle.write_zeros(at, end)?;
            if end < self.end {
                let _alone = handle.alone();
                handle.sync()?;
            }
            at = end;
        }
        let _alone = handle.alone();
        for vlf in &self.vlfs {
            handle.write(&vlf.header(), vlf.offset)?;
        }
        match durable {
            true => handle.sync(),
            false => Ok(()),
        }
    }
}

impl LogFile {
    /// Looks for room for a block of at least `need` bytes at `lsn`, leaving what is to be left.
    pub fn place(&mut self, lsn: u64, need: u64, left: Left, tried: &mut Tried) -> Result<Room> {
        let here = match self.left_in_current(lsn) {
            here if here >= need => here,
            // The rest of the VLF is not used.
            _ => 0,
        };
        let room = here + self.free_bytes();
        if let Some(grow) = self.claim(room, need, 2 * BLOCK_ROOM_BYTES, left, tried)? {
            return Ok(grow);
        }
        if here > 0 {
            let vlf = &self.vlfs[self.current.unwrap_or(0)];
            return Ok(Room::Found(Placement {
                offset: vlf.offset + HEADER_BYTES + (lsn - vlf.start_lsn),
                here,
                room,
                header: None,
            }));
        }
        let next = self.next_free().ok_or_else(|| self.full())?;
        self.fill(next)?;
        Ok(Room::Found(self.open_vlf(next, lsn, room)))
    }

    /// May `need` bytes of `room` be used, with what is to be left? The file is to grow before it has less than `spare` besides: best
    /// effort, as long as there is what is asked now. For what ends something it grows past its limits rather than fence the database.
    pub fn claim(
        &self,
        room: u64,
        need: u64,
        spare: u64,
        left: Left,
        tried: &mut Tried,
    ) -> Result<Option<Room>> {
        if room >= left.bytes() + spare.max(need) {
            return Ok(None);
        }
        if !std::mem::replace(&mut tried.growth, true) {
            match self.step() {
                Ok(step) => return Ok(Some(self.grow(step))),
                Err(error) => tried.failure = Some(error),
            }
        }
        if room >= left.bytes() + need {
            return Ok(None);
        }
        let failure = tried.failure.take().unwrap_or_else(|| self.full());
        let is_ending = matches!(left, Left::ByEndings(_));
        let is_full = matches!(failure, StorageError::LogFull { .. });
        if is_ending && is_full && !std::mem::replace(&mut tried.growth_past_limit, true) {
            reached!("log.grown_past_its_limit");
            return Ok(Some(self.grow(VLF_BYTES_MIN)));
        }
        Err(failure)
    }

    /// Bytes in the VLF of `lsn` from there on, and in those that are free.
    pub fn room(&self, lsn: u64) -> u64 {
        self.left_in_current(lsn) + self.free_bytes()
    }

    fn grow(&self, step: u64) -> Room {
        let seen = self.size_bytes();
        Room::Grow { step, seen }
    }

    /// Will the file have to grow for what is logged next? A few blocks more than work must leave, besides the reserve.
    pub fn is_used_up(&self, lsn: u64, reserve: u64) -> bool {
        self.room(lsn) < reserve + 4 * BLOCK_ROOM_BYTES
    }

    /// Little room is left besides the reserve, in the file as it is. Looked at once a block, so the margin is what one block of
    /// a large transaction can take and reserve, twice its size, and the two blocks of room that work must leave.
    pub fn is_tight(&self, lsn: u64, reserve: u64) -> bool {
        let margin = self.size_bytes() / 8 + 5 * BLOCK_BYTES_MAX as u64;
        self.room(lsn) < reserve + margin
    }

    /// Bytes that may wait to be logged when the file is tight and a checkpoint begins: half of the margin. A file that may
    /// grow takes any amount.
    pub fn versions_max(&self) -> u64 {
        let may_grow = !matches!(self.growth, Growth::Pages(0) | Growth::Percent(0))
            && self
                .max_bytes
                .is_none_or(|max| self.size_bytes() * 2 <= max);
        match may_grow {
            true => u64::MAX,
            false => self.size_bytes() / 16,
        }
    }

    fn left_in_current(&self, lsn: u64) -> u64 {
        self.current.map_or(0, |i| {
            self.vlfs[i]
                .usable()
                .saturating_sub(lsn - self.vlfs[i].start_lsn)
        })
    }

    fn free_bytes(&self) -> u64 {
        self.vlfs
            .iter()
            .filter(|v| !v.active)
            .map(Vlf::usable)
            .sum()
    }

    pub(super) fn next_free(&self) -> Option<usize> {
        let from = self.current.map_or(0, |i| i + 1);
        let count = self.vlfs.len();
        (0..count)
            .map(|i| (from + i) % count)
            .find(|i| !self.vlfs[*i].active)
    }

    fn open_vlf(&mut self, index: usize, lsn: u64, room: u64) -> Placement {
        if self.vlfs[index].sequence > 0 {
            reached!("log.vlf.reused");
        }
        let sequence = self.vlfs.iter().map(|v| v.sequence).max().unwrap_or(0) + 1;
        let incarnation = self.incarnation;
        let vlf = &mut self.vlfs[index];
        vlf.sequence = sequence;
        vlf.incarnation = incarnation;
        vlf.start_lsn = lsn;
        vlf.held = 0;
        vlf.active = true;
        self.current = Some(index);
        let vlf = &self.vlfs[index];
        Placement {
            offset: vlf.offset + HEADER_BYTES,
            here: vlf.usable(),
            room,
            header: Some((vlf.offset, vlf.header())),
        }
    }

    /// Writes a VLF that was left unwritten. The zeros are durable before its first block: what a cut has left in it could pass
    /// for the blocks behind that.
    fn fill(&mut self, index: usize) -> Result<()> {
        let vlf = &mut self.vlfs[index];
        if vlf.unwritten {
            reached!("log.vlf.filled");
            let (from, end) = (vlf.offset + HEADER_BYTES, vlf.offset + vlf.size);
            let _alone = self.handle.alone();
            self.handle.write_zeros(from, end)?;
            self.handle.sync()?;
            vlf.unwritten = false;
        }
        Ok(())
    }

    /// `bytes` of VLFs behind the last one, the last of them with what the others leave, to be written and then taken in by [`LogFile::adopt`].
    pub(super) fn extension(&self, bytes: u64) -> Extension {
        let start = self.size_bytes();
        let count = match bytes {
            _ if bytes < start / SMALL_STEP_SHARE => 1,
            _ if bytes <= 64 << 20 => 4,
            _ => 8,
        };
        let size = (bytes / count / HEADER_BYTES * HEADER_BYTES).max(VLF_BYTES_MIN);
        let count = (bytes / size).max(1);
        let mut vlfs: Vec<Vlf> = (0..count)
            .map(|i| Vlf::unused(start + i * size, size, false))
            .collect();
        let rest = (bytes / HEADER_BYTES * HEADER_BYTES).saturating_sub(size * count);
        if let Some(last) = vlfs.last_mut() {
            last.size += rest;
        }
        Extension {
            handle: self.handle.clone(),
            vlfs,
            start,
            end: start + size * count + rest,
        }
    }

    /// The new VLFs are on disk, or could not be written. Nothing else has changed the size of the file meanwhile.
    pub fn adopt(&mut self, extension: Extension, written: Result<()>) -> Result<()> {
        self.growths += 1;
        if written.is_err() {
            // What was allocated of it would be room that nobody has. Best effort: it is given back with the next growth that works.
            let _ = self.handle.file.set_len(extension.start);
        }
        written.map_err(|error| self.or_full(error))?;
        assert_eq!(
            extension.start,
            self.size_bytes(),
            "two grew the log at once"
        );
        self.vlfs.extend(extension.vlfs);
        Ok(())
    }

    /// One step of growth, if the file is smaller than `wanted`. `None` when it is as large or may not grow.
    pub fn towards(&self, wanted: u64) -> Option<Extension> {
        let is_small = self.size_bytes() < wanted;
        let step = is_small.then(|| self.step().ok()).flatten()?;
        Some(self.extension(step))
    }

    /// Growth by `step` of a file of `seen` bytes. `None` when it has grown meanwhile.
    pub fn by(&self, step: u64, seen: u64) -> Option<Extension> {
        (self.size_bytes() <= seen).then(|| self.extension(step))
    }

    /// Bytes by which the file may grow and is told to.
    fn step(&self) -> Result<u64> {
        let size = self.size_bytes();
        let full = self.full();
        let step = match self.growth {
            Growth::Pages(0) | Growth::Percent(0) => return Err(full),
            Growth::Pages(p) => u64::from(p) * 8192,
            Growth::Percent(p) => size * u64::from(p) / 100,
        };
        let mut step = step.max(VLF_BYTES_MIN);
        if self.vlfs.len() >= VLFS_WANTED_MAX {
            reached!("log.grown.faster");
            step = step.max(size / LARGE_STEP_SHARE);
        }
        reached!("log.grown");
        match self.max_bytes.is_some_and(|max| size + step > max) {
            true => Err(full),
            false => Ok(step),
        }
    }

    /// Sets how the file may grow from here; what it lacks of `pages`.
    pub fn modify(&mut self, pages: u64, growth: Growth, max: Option<u64>) -> Option<Extension> {
        (self.growth, self.max_bytes) = (growth, max.map(|p| p * 8192));
        let missing = (pages * 8192).saturating_sub(self.size_bytes());
        (missing >= VLF_BYTES_MIN).then(|| self.extension(missing))
    }

    /// Gives back VLFs at the end of the file that hold nothing needed, down to `bytes` or two VLFs. False when a VLF
    /// that is needed keeps it from going further. The length is durable with the next sync; a crash before leaves
    /// VLFs behind that were free.
    pub fn shrink_to(&mut self, bytes: u64) -> Result<bool> {
        let current = self.current;
        let mut is_held = false;
        while self.vlfs.len() > 2
            && let Some(last) = self.vlfs.last()
            && last.offset >= bytes
        {
            is_held = last.active || current == Some(self.vlfs.len() - 1);
            if is_held {
                break;
            }
            self.vlfs.pop();
        }
        let end = self.size_bytes();
        let _alone = self.handle.alone();
        self.handle
            .file
            .set_len(end)
            .and_then(|()| self.handle.file.sync_data())
            .map_err(|e| self.handle.error("shrink log", e))?;
        Ok(!is_held)
    }

    /// What a full disk says of the log is that the log is full.
    pub(super) fn or_full(&self, error: StorageError) -> StorageError {
        match error {
            StorageError::Io { source, .. } if crate::error::is_full(&source) => self.full(),
            other => other,
        }
    }

    fn full(&self) -> StorageError {
        StorageError::LogFull {
            reason: self.full_reason(),
            path: self.handle.path().clone(),
        }
    }

    /// Why a full log is full: something holds it, if only the checkpoint that has yet to come.
    fn full_reason(&self) -> &'static str {
        match self.kept_by.reason {
            NOTHING => CHECKPOINT,
            reason => reason,
        }
    }
}
