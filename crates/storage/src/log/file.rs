//! The log file: a header, then virtual log files (VLFs) reused in a circle.
//!
//! ```text
//! file header, 4 KiB: magic u32 | checksum u32 | format u32 | reserved u32 | database guid u64
//! VLF header, 4 KiB:  magic u32 | checksum u32 | size u64 | sequence u64 (0 = never used) | start_lsn u64
//!                     | incarnation u32 | unused u32 | offset u64 | unwritten u32 | unused u32 | held u64
//! ```
//! A VLF header lies in one 512-byte sector, so a crash leaves either the old or the new one.
//! A VLF of sequence n holds the stream from its start_lsn to the start_lsn of sequence n+1.
//! One that a restore wrote says in `held` how many bytes of the stream are in it: what lies behind them is of no step that
//! came to its end.
//! Space that was never written costs each commit into it a change of the file system's metadata, so VLFs are written with
//! zeros: when the file grows, or, those that a restore made and left unwritten, when they are put to use.

use super::block::{BLOCK_ALIGN_BYTES, BLOCK_BYTES_MAX};
use super::hold::Need;
use crate::api::{FileSpec, Growth};
use crate::bytes::*;
use crate::datafile::unsupported;
use crate::error::{Result, StorageError};
use crate::meter::{IoStats, Meter, metered};
use crate::planted::{Bug, planted};
use crate::sync::{Mutex, MutexGuard};
use daruma_base::{DIRECT_BYTES, DiskFile, Env, Lsn, OpenMode, reached};
use std::path::PathBuf;
use std::sync::Arc;

/// First bytes of a log file.
pub const FILE_MAGIC: u32 = 0x474F_4C44; // "DLOG"
const VLF_MAGIC: u32 = 0x464C_5644; // "DVLF"
/// Where a VLF header says at which offset it lies.
const VLF_OFFSET_AT: usize = 40;
const VLF_UNWRITTEN_AT: usize = 48;
const VLF_HELD_AT: usize = 56;
/// Zeros are written in pieces.
const ZEROS_BYTES: usize = 1 << 20;
/// So much new space is synced at once: commits wait for no more.
const NEW_SPACE_SYNC_BYTES: u64 = 16 << 20;
const SECTOR_BYTES: usize = 512;
/// 3: records that begin an epoch.
const FORMAT_VERSION: u32 = 3;
/// Bytes of the file header, and of each VLF header.
pub const HEADER_BYTES: u64 = BLOCK_ALIGN_BYTES as u64;
/// The stream starts here; smaller LSNs mean "none".
pub const FIRST_LSN: u64 = BLOCK_ALIGN_BYTES as u64;
/// The stream never comes here, nor does the number of a VLF: at 100 GB a second it would take most of a year.
pub const LSN_END: u64 = 1 << 61;
/// How often bytes that are no header are read before that is believed.
const READ_TRIES: usize = 4;
/// Smallest VLF.
pub const VLF_BYTES_MIN: u64 = 256 << 10;
/// Smallest log file: two VLFs.
pub const LOG_FILE_BYTES_MIN: u64 = HEADER_BYTES + 2 * VLF_BYTES_MIN;
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
/// `log_reuse_wait_desc` of a log that nothing keeps.
pub const NOTHING: &str = "NOTHING";
const CHECKPOINT: &str = "CHECKPOINT";
/// The same of one that waits for a page to be written.
pub const OLDEST_PAGE: &str = "OLDEST_PAGE";

/// One VLF as `sys.dm_db_log_info` shows it.
#[derive(Clone, Copy, Debug)]
pub struct VlfInfo {
    /// Of its header in the file.
    pub offset: u64,
    /// Header included.
    pub size: u64,
    /// Grows each time that one is put to use; 0: never was.
    pub sequence: u64,
    /// Stream position of its first block.
    pub start_lsn: u64,
    /// Something in it is needed.
    pub active: bool,
}

struct Vlf {
    offset: u64,
    size: u64,
    sequence: u64,
    start_lsn: u64,
    incarnation: u32,
    active: bool,
    /// Its space was allocated, nothing more.
    unwritten: bool,
    /// Bytes of the stream that a restore put there; 0 when the blocks tell themselves where they end.
    held: u64,
}

impl Vlf {
    /// One in which nothing of the stream is.
    fn unused(offset: u64, size: u64, unwritten: bool) -> Vlf {
        Vlf {
            offset,
            size,
            sequence: 0,
            start_lsn: 0,
            incarnation: 0,
            active: false,
            unwritten,
            held: 0,
        }
    }

    fn usable(&self) -> u64 {
        self.size - HEADER_BYTES
    }

    /// Bytes of it in which the stream may be looked for.
    fn readable(&self) -> u64 {
        match self.held {
            0 => self.usable(),
            held => held,
        }
    }

    fn header(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES as usize];
        put_u32(&mut bytes, 0, VLF_MAGIC);
        put_u64(&mut bytes, 8, self.size);
        put_u64(&mut bytes, 16, self.sequence);
        put_u64(&mut bytes, 24, self.start_lsn);
        put_u32(&mut bytes, 32, self.incarnation);
        put_u64(&mut bytes, VLF_OFFSET_AT, self.offset);
        put_u32(&mut bytes, VLF_UNWRITTEN_AT, u32::from(self.unwritten));
        put_u64(&mut bytes, VLF_HELD_AT, self.held);
        let sum = crc32c::crc32c(&bytes[8..SECTOR_BYTES]);
        put_u32(&mut bytes, 4, sum);
        bytes
    }
}

/// First 4 KiB of a log file.
pub fn file_header(guid: u64) -> Vec<u8> {
    let mut header = vec![0; HEADER_BYTES as usize];
    put_u32(&mut header, 0, FILE_MAGIC);
    put_u32(&mut header, 8, FORMAT_VERSION);
    put_u64(&mut header, 16, guid);
    let sum = crc32c::crc32c(&header[8..]);
    put_u32(&mut header, 4, sum);
    header
}

/// A virtual log file that a restore fills.
#[derive(Clone, Copy, Debug)]
pub struct Filled {
    /// In the log file, of its header.
    pub offset: u64,
    /// Header included.
    pub size: u64,
    /// Its place in the order of use.
    pub sequence: u64,
    /// Stream position of its first block.
    pub start_lsn: u64,
    /// Incarnation that its blocks must carry.
    pub incarnation: u32,
    /// Bytes of the stream in it.
    pub held: u64,
}

impl Filled {
    /// Stream position behind what it holds.
    pub fn end_lsn(&self) -> u64 {
        self.start_lsn + self.held
    }

    /// Its first 4 KiB.
    pub fn header(&self) -> Vec<u8> {
        let vlf = Vlf {
            sequence: self.sequence,
            start_lsn: self.start_lsn,
            incarnation: self.incarnation,
            held: self.held,
            ..Vlf::unused(self.offset, self.size, false)
        };
        vlf.header()
    }
}

/// First 4 KiB of a virtual log file at `offset` that holds nothing and whose space was allocated only.
pub fn unwritten_header(size: u64, offset: u64) -> Vec<u8> {
    Vlf::unused(offset, size, true).header()
}

/// Handle for writing outside the log's state lock.
#[derive(Clone)]
pub struct Handle {
    file: Arc<dyn DiskFile>,
    path: Arc<PathBuf>,
    meter: Meter,
    syncing: Arc<Mutex<()>>,
}

impl Handle {
    /// Writes bytes; durable after the next sync.
    pub fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file
            .write_at(bytes, offset)
            .map_err(|e| self.error("write log", e))
    }

    /// Writes adjacent parts.
    pub fn write_parts(&self, parts: &[&[u8]], offset: u64) -> Result<()> {
        self.file
            .write_parts_at(parts, offset)
            .map_err(|e| self.error("write log", e))
    }

    /// Writes adjacent parts and returns when they are durable. Says nothing about other writes.
    pub fn write_synced(&self, parts: &[&[u8]], offset: u64) -> Result<()> {
        self.file
            .write_synced_at(parts, offset)
            .map_err(|e| self.error("write log", e))
    }

    /// Writes zeros between two multiples of 4 KiB.
    fn write_zeros(&self, from: u64, end: u64) -> Result<()> {
        let zeros = vec![0; ZEROS_BYTES + DIRECT_BYTES];
        let aligned = zeros.as_ptr().align_offset(DIRECT_BYTES);
        let zeros = zeros.get(aligned..).unwrap_or_default();
        let mut at = from;
        while at < end {
            let len = (end - at).min(ZEROS_BYTES as u64);
            let piece = zeros.get(..len as usize).unwrap_or_default();
            let written = self.file.write_direct_at(piece, at);
            written.map_err(|e| self.error("write log", e))?;
            at += len;
        }
        Ok(())
    }

    /// Fills `bytes` from the file.
    pub fn read(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.file
            .read_at(bytes, offset)
            .map_err(|e| self.error("read log", e))
    }

    /// To be held from a write to the end of the sync that makes it durable. The system tells of a lost write once, to
    /// whoever syncs next: that must not be somebody who had something else to sync. Taken after the log's state, if both.
    pub fn alone(&self) -> MutexGuard<'_, ()> {
        self.syncing.lock()
    }

    /// Makes every write so far durable.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| self.error("sync log", e))
    }

    /// Calls and bytes since the file was opened.
    pub fn io_stats(&self) -> IoStats {
        self.meter.stats()
    }

    /// Of the log file.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    fn error(&self, action: &'static str, source: std::io::Error) -> StorageError {
        StorageError::Io {
            action,
            path: self.path.as_ref().clone(),
            source,
        }
    }
}

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

/// The VLFs of an open log file, and how it may grow. Guarded by the log's state.
pub struct LogFile {
    handle: Handle,
    vlfs: Vec<Vlf>,
    current: Option<usize>,
    incarnation: u32,
    growth: Growth,
    max_bytes: Option<u64>,
    /// Reason why the last cut went no further.
    kept_by: Need,
    growths: u64,
    truncations: u64,
}

/// Where parts of the stream lie in the file, for readers.
pub struct LogMap {
    /// To read with.
    pub handle: Handle,
    /// By start_lsn.
    pub extents: Vec<Extent>,
}

/// One VLF's part of the stream.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Stream position of its first block.
    pub start_lsn: u64,
    /// File offset of the first block.
    pub offset: u64,
    /// Bytes in which the stream may be looked for.
    pub usable: u64,
    /// Incarnation that its blocks must carry.
    pub incarnation: u32,
}

impl LogMap {
    /// File offset of stream position `lsn`, bytes left in its VLF, and the incarnation its blocks must have.
    pub fn locate(&self, lsn: u64) -> Option<(u64, u64, u32)> {
        let index = self
            .extents
            .partition_point(|e| e.start_lsn <= lsn)
            .checked_sub(1)?;
        let extent = self.extents.get(index)?;
        let within = lsn - extent.start_lsn;
        (within < extent.usable).then(|| {
            (
                extent.offset + within,
                extent.usable - within,
                extent.incarnation,
            )
        })
    }
}

/// Is it the intact header of the VLF at `offset`? A read that lost its way finds the header of another one, which is
/// intact as well. Headers of older releases do not name their place: they say 0 there.
fn is_vlf_header(header: &[u8], offset: u64) -> bool {
    let named = get_u64(header, VLF_OFFSET_AT);
    get_u32(header, 0) == VLF_MAGIC
        && get_u32(header, 4) == crc32c::crc32c(&header[8..SECTOR_BYTES])
        && (named == offset || named == 0)
}

/// Can the log have come so far? What it has not is somebody's invention, and what is counted on from there would overflow.
fn is_place_in_stream(sequence: u64, start_lsn: u64, incarnation: u32) -> bool {
    let is_start = start_lsn.is_multiple_of(HEADER_BYTES) && start_lsn < LSN_END;
    (sequence == 0 || is_start && start_lsn >= FIRST_LSN)
        && sequence < LSN_END
        && incarnation < u32::MAX / 2
}

impl LogFile {
    /// Makes a new file, which must not exist, of the size asked for. With `durable` it and its name survive a power loss.
    pub fn create(spec: &FileSpec, guid: u64, env: &Env, durable: bool) -> Result<LogFile> {
        let path = Arc::new(spec.path.clone());
        let io = |action| {
            let path = spec.path.clone();
            move |source| StorageError::Io {
                action,
                path,
                source,
            }
        };
        let file = match durable {
            true => env.disk.open(&spec.path, OpenMode::CreateNew),
            false => crate::datafile::create_in_place(env, &spec.path),
        };
        let file = file.map_err(io("create log"))?;
        let (file, meter) = metered(file, &env.clock);
        let handle = Handle {
            file,
            path,
            meter,
            syncing: Arc::default(),
        };
        let header = file_header(guid);
        let mut log = LogFile {
            handle,
            vlfs: Vec::new(),
            current: None,
            incarnation: 1,
            growth: spec.growth,
            max_bytes: spec.max_pages.map(|p| p * 8192),
            kept_by: Need {
                from: Lsn::NONE,
                reason: NOTHING,
            },
            growths: 0,
            truncations: 0,
        };
        log.handle.write(&header, 0)?;
        let size = (spec.size_pages * 8192).max(LOG_FILE_BYTES_MIN) - HEADER_BYTES;
        let vlfs = log.extension(size);
        vlfs.write(durable)?;
        log.vlfs = vlfs.vlfs;
        // The log may lie in a directory of its own.
        if durable && let Some(directory) = spec.path.parent() {
            env.disk
                .sync_dir(directory)
                .map_err(io("sync directory of log"))?;
        }
        Ok(log)
    }

    /// Opens and syncs a file and reads all its VLF headers. An error for a file of another database or with a damaged header.
    pub fn open(spec: &FileSpec, guid: u64, env: &Env) -> Result<LogFile> {
        let (mut log, len) = LogFile::open_empty(spec, guid, env)?;
        log.read_vlfs(len)?;
        Ok(log)
    }

    /// The log file of a database that is being restored, of which everything up to `end` is there. What a step that did not
    /// come to its end has left behind is cut off. With the last VLF of the file, if the stream ends in it.
    pub fn open_restored(
        spec: &FileSpec,
        guid: u64,
        env: &Env,
        end: Lsn,
    ) -> Result<(LogFile, Option<Filled>)> {
        let (mut log, len) = LogFile::open_empty(spec, guid, env)?;
        // Behind the last VLF there may be blocks where a header would be. A header that rotted ends the reading as well: then
        // the end is not reached, and nothing is cut off.
        let unreadable = log.read_vlfs(len).err();
        match log.end_at(end.0) {
            Ok(last) => Ok((log, last)),
            Err(error) => Err(unreadable.unwrap_or(error)),
        }
    }

    /// Without its VLFs; and its length.
    fn open_empty(spec: &FileSpec, guid: u64, env: &Env) -> Result<(LogFile, u64)> {
        let bad = |what: String| StorageError::BadFile {
            path: spec.path.clone(),
            what,
        };
        let io = |source| StorageError::Io {
            action: "open log",
            path: spec.path.clone(),
            source,
        };
        let file = env.disk.open(&spec.path, OpenMode::ReadWrite).map_err(io)?;
        // A process that died may have left writes that the system still holds back: what is believed here could be lost
        // after all, when pages that follow from it, or decisions of other databases, are on disk.
        file.sync_data().map_err(io)?;
        let len = file.len().map_err(io)?;
        let (file, meter) = metered(file, &env.clock);
        let handle = Handle {
            file,
            path: Arc::new(spec.path.clone()),
            meter,
            syncing: Arc::default(),
        };
        let mut header = vec![0; HEADER_BYTES as usize];
        if len < HEADER_BYTES {
            return Err(bad("not a log file: too short".into()));
        }
        handle.read(&mut header, 0)?;
        if get_u32(&header, 0) != FILE_MAGIC || get_u32(&header, 4) != crc32c::crc32c(&header[8..])
        {
            return Err(bad("not a log file, or its header is damaged".into()));
        }
        if get_u32(&header, 8) != FORMAT_VERSION {
            let found = get_u32(&header, 8);
            return Err(bad(unsupported("log", found, FORMAT_VERSION)));
        }
        if get_u64(&header, 16) != guid {
            return Err(bad("the log belongs to another database".into()));
        }
        let log = LogFile {
            handle,
            vlfs: Vec::new(),
            current: None,
            incarnation: 1,
            growth: spec.growth,
            max_bytes: spec.max_pages.map(|p| p * 8192),
            kept_by: Need {
                from: Lsn::NONE,
                reason: NOTHING,
            },
            growths: 0,
            truncations: 0,
        };
        Ok((log, len))
    }

    fn read_vlfs(&mut self, len: u64) -> Result<()> {
        let path = self.handle.path().clone();
        let bad = |what: String| StorageError::BadFile {
            path: path.clone(),
            what,
        };
        let mut offset = HEADER_BYTES;
        let mut header = vec![0; HEADER_BYTES as usize];
        // All of them, however many: the stream would end early, and without a word, where the reading does.
        while offset + VLF_BYTES_MIN <= len {
            self.read_vlf_header(&mut header, offset)?;
            if header.iter().all(|b| *b == 0) {
                reached!("log.growth.interrupted");
                // The file was growing when the server stopped; nothing was ever written here.
                break;
            }
            if !is_vlf_header(&header, offset) {
                return Err(bad(format!(
                    "the header of the virtual log file at {offset} is damaged"
                )));
            }
            let (sequence, start_lsn) = (get_u64(&header, 16), get_u64(&header, 24));
            let size = get_u64(&header, 8);
            let fits = offset.checked_add(size).is_some_and(|end| end <= len);
            if sequence == 0 && !fits {
                reached!("log.growth.torn");
                // The same, and the header came to the disk before all of its space did.
                break;
            }
            if size < VLF_BYTES_MIN || !size.is_multiple_of(HEADER_BYTES) || !fits {
                return Err(bad(format!(
                    "virtual log file at {offset} has an impossible size of {size} bytes"
                )));
            }
            let held = get_u64(&header, VLF_HELD_AT);
            if held > size - HEADER_BYTES {
                return Err(bad(format!(
                    "virtual log file at {offset} claims to hold {held} of {size} bytes"
                )));
            }
            let incarnation = get_u32(&header, 32);
            if !is_place_in_stream(sequence, start_lsn, incarnation) {
                return Err(bad(format!(
                    "virtual log file at {offset} claims an impossible place in the log"
                )));
            }
            self.incarnation = self.incarnation.max(incarnation);
            self.vlfs.push(Vlf {
                offset,
                size,
                sequence,
                start_lsn,
                incarnation,
                active: sequence > 0,
                unwritten: get_u32(&header, VLF_UNWRITTEN_AT) != 0,
                held,
            });
            offset += size;
        }
        if self.vlfs.is_empty() {
            return Err(bad("no intact virtual log file".into()));
        }
        Ok(())
    }

    /// Bytes that are no header are read again before they are believed: a passing error of the disk must not cut off
    /// the log.
    fn read_vlf_header(&self, header: &mut [u8], offset: u64) -> Result<()> {
        for _ in 0..READ_TRIES {
            self.handle.read(header, offset)?;
            if is_vlf_header(header, offset) {
                break;
            }
        }
        Ok(())
    }

    /// `bytes` of VLFs behind the last one, the last of them with what the others leave, to be written and then taken in by [`LogFile::adopt`].
    fn extension(&self, bytes: u64) -> Extension {
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

    /// For use without the log's state.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Others may open the file from here on.
    pub fn release(&self) {
        self.handle.file.release();
    }

    /// Where the stream lies now.
    pub fn reader(&self) -> LogMap {
        let mut used: Vec<&Vlf> = self.vlfs.iter().filter(|v| v.sequence > 0).collect();
        used.sort_by_key(|v| (v.start_lsn, v.sequence));
        let extent = |v: &&Vlf| Extent {
            start_lsn: v.start_lsn,
            offset: v.offset + HEADER_BYTES,
            usable: v.readable(),
            incarnation: v.incarnation,
        };
        let extents = used.iter().map(extent).collect();
        LogMap {
            handle: self.handle.clone(),
            extents,
        }
    }

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

    fn next_free(&self) -> Option<usize> {
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

    /// Called when a block was sealed and the stream now ends at `lsn`.
    pub fn advance(&mut self, lsn: u64) {
        if let Some(index) = self.current {
            debug_assert!(lsn - self.vlfs[index].start_lsn <= self.vlfs[index].usable());
        }
    }

    /// Continues after recovery: the stream ends at `end`. VLFs wholly below `keep_from` become free.
    pub fn resume(&mut self, end: u64, keep_from: u64) -> Result<u64> {
        // A VLF opened after the end of the good stream holds nothing. Of what the crash has left in it, blocks may pass for some of
        // another node, should that be followed later: it is written with zeros before it is used.
        for vlf in &mut self.vlfs {
            if vlf.sequence > 0 && vlf.start_lsn >= end {
                reached!("log.vlf.beyond_end");
                *vlf = Vlf::unused(vlf.offset, vlf.size, true);
                self.handle.write(&vlf.header(), vlf.offset)?;
            }
        }
        self.handle.sync()?;
        // The stream goes on in a fresh VLF with a new incarnation: what the crash left behind the end stays behind.
        self.current = None;
        self.incarnation += 1;
        self.truncate(Need {
            from: Lsn(keep_from),
            reason: CHECKPOINT,
        });
        if self.next_free().is_none() {
            self.resume_within(end)?;
        }
        Ok(end)
    }

    /// Goes on in the VLF in which the stream ends, with the incarnation that it has: the disk may be full, and each restart
    /// would take one more. Zeros take the place of what the crash left behind the end.
    fn resume_within(&mut self, end: u64) -> Result<()> {
        let order = |i: &usize| (self.vlfs[*i].start_lsn, self.vlfs[*i].sequence);
        let used = (0..self.vlfs.len()).filter(|i| self.vlfs[*i].sequence > 0);
        let Some(index) = used.max_by_key(order) else {
            return Ok(());
        };
        let vlf = &self.vlfs[index];
        assert!(vlf.start_lsn < end, "a VLF behind the end is in use");
        let from = end - vlf.start_lsn;
        if vlf.unwritten || from > vlf.readable() || !end.is_multiple_of(HEADER_BYTES) {
            return Ok(());
        }
        reached!("log.vlf.resumed");
        let start = vlf.offset + HEADER_BYTES;
        if !planted(Bug::ResumeUnzeroed) {
            let zeros = self.handle.write_zeros(start + from, start + vlf.usable());
            let written = zeros.and_then(|()| self.handle.sync());
            written.map_err(|error| self.or_full(error))?;
        }
        if vlf.held > 0 {
            self.vlfs[index].held = 0;
            let vlf = &self.vlfs[index];
            self.handle.write(&vlf.header(), vlf.offset)?;
            self.handle.sync()?;
        }
        self.current = Some(index);
        self.incarnation = self.vlfs[index].incarnation;
        Ok(())
    }

    /// Ends the stream at `end`, durably and whatever lies behind; a crash before it is done leaves one or the other. It goes on
    /// in a fresh VLF.
    pub fn cut_at(&mut self, end: u64) -> Result<()> {
        let handle = self.handle();
        let _alone = handle.alone();
        self.hold_up_to(end)?;
        let mut beyond: Vec<usize> = (0..self.vlfs.len())
            .filter(|i| self.vlfs[*i].sequence > 0 && self.vlfs[*i].start_lsn >= end)
            .collect();
        // The one that begins at the end, if there is one, goes first: with its header the stream has ended there.
        beyond.sort_by_key(|i| self.vlfs[*i].start_lsn);
        for index in beyond {
            let vlf = &mut self.vlfs[index];
            // Its blocks could pass for some that will have the same positions: it is written with zeros before it is used.
            *vlf = Vlf::unused(vlf.offset, vlf.size, true);
            self.handle.write(&vlf.header(), vlf.offset)?;
            self.handle.sync()?;
        }
        self.current = None;
        let used = self.vlfs.iter().filter(|v| v.sequence > 0);
        self.incarnation = used.map(|v| v.incarnation).max().unwrap_or(1);
        Ok(())
    }

    /// The VLF in which the byte before `end` lies says that it holds nothing behind.
    fn hold_up_to(&mut self, end: u64) -> Result<()> {
        let before = self.vlfs.iter().enumerate();
        let before = before.filter(|(_, v)| v.sequence > 0 && v.start_lsn < end);
        let newest = before.max_by_key(|(_, v)| (v.start_lsn, v.sequence));
        let Some(index) = newest.map(|(index, _)| index) else {
            return Ok(());
        };
        let vlf = &mut self.vlfs[index];
        let held = end - vlf.start_lsn;
        if held > vlf.readable() {
            return Err(self.shorter_than(end));
        }
        if vlf.held != held {
            vlf.held = held;
            self.handle.write(&vlf.header(), vlf.offset)?;
        }
        self.handle.sync()
    }

    /// Ends the stream at `end`, in its VLF and in the file. The VLF that ends there, if it is the last of the file.
    fn end_at(&mut self, end: u64) -> Result<Option<Filled>> {
        let is_beyond = |v: &Vlf| v.sequence > 0 && v.start_lsn >= end;
        while self.vlfs.last().is_some_and(is_beyond) {
            reached!("restore.section.left");
            self.vlfs.pop();
        }
        let mut changed: Vec<usize> = Vec::new();
        for (index, vlf) in self.vlfs.iter_mut().enumerate() {
            if is_beyond(vlf) {
                *vlf = Vlf::unused(vlf.offset, vlf.size, vlf.unwritten);
                changed.push(index);
            }
        }
        let used = self.vlfs.iter().enumerate().filter(|(_, v)| v.sequence > 0);
        let newest = used.max_by_key(|(_, v)| (v.start_lsn, v.sequence));
        let Some(newest) = newest.map(|(index, _)| index) else {
            return Err(self.shorter_than(end));
        };
        let vlf = &mut self.vlfs[newest];
        let held = end - vlf.start_lsn;
        if held > vlf.readable() {
            return Err(self.shorter_than(end));
        }
        if vlf.held != held {
            vlf.held = held;
            changed.push(newest);
        }
        for index in changed {
            let vlf = &self.vlfs[index];
            self.handle.write(&vlf.header(), vlf.offset)?;
        }
        let len = self.size_bytes();
        let file = &self.handle.file;
        file.set_len(len)
            .and_then(|()| file.sync_data())
            .map_err(|e| self.handle.error("shorten log", e))?;
        let vlf = &self.vlfs[newest];
        let is_last = newest + 1 == self.vlfs.len();
        Ok(is_last.then_some(Filled {
            offset: vlf.offset,
            size: vlf.size,
            sequence: vlf.sequence,
            start_lsn: vlf.start_lsn,
            incarnation: vlf.incarnation,
            held,
        }))
    }

    fn shorter_than(&self, end: u64) -> StorageError {
        StorageError::DamagedLog {
            path: self.handle.path().clone(),
            lsn: Lsn(end),
            what: "the log file does not reach as far as it was restored".into(),
        }
    }

    /// Frees the VLFs below `lowest`, which is remembered as what kept the rest.
    pub fn truncate(&mut self, lowest: Need) {
        self.kept_by = lowest;
        let freed: Vec<usize> = self.frees(lowest.from).collect();
        self.truncations += u64::from(!freed.is_empty());
        for index in freed {
            self.vlfs[index].active = false;
        }
    }

    /// VLFs in use that lie below `lowest`.
    pub fn frees(&self, lowest: Lsn) -> impl Iterator<Item = usize> {
        let mut order: Vec<usize> = (0..self.vlfs.len())
            .filter(|i| self.vlfs[*i].sequence > 0)
            .collect();
        order.sort_by_key(|i| self.vlfs[*i].sequence);
        let nexts = order.clone().into_iter().skip(1);
        let pairs = order.into_iter().zip(nexts);
        pairs.filter_map(move |(this, next)| {
            let is_below = self.vlfs[next].start_lsn <= lowest.0 && Some(this) != self.current;
            (is_below && self.vlfs[this].active).then_some(this)
        })
    }

    /// Times it has grown, or has tried to.
    pub fn growths(&self) -> u64 {
        self.growths
    }

    /// Cuts that freed something.
    pub fn truncations(&self) -> u64 {
        self.truncations
    }

    /// For `sys.dm_db_log_info`, by their place in the file.
    pub fn vlfs(&self) -> Vec<VlfInfo> {
        let info = |v: &Vlf| VlfInfo {
            offset: v.offset,
            size: v.size,
            sequence: v.sequence,
            start_lsn: v.start_lsn,
            active: v.active,
        };
        self.vlfs.iter().map(info).collect()
    }

    /// Up to the end of the last VLF.
    pub fn size_bytes(&self) -> u64 {
        self.vlfs.last().map_or(HEADER_BYTES, |v| v.offset + v.size)
    }

    /// The lowest position that is needed, as far as the log is still there.
    pub fn lowest_needed(&self) -> u64 {
        self.kept_by.from.0.max(self.min_lsn())
    }

    /// Bytes of virtual log files that are not free: what counts when it is asked whether the log has room.
    pub fn used_bytes(&self) -> u64 {
        self.vlfs.iter().filter(|v| v.active).map(|v| v.size).sum()
    }

    /// Stream position of the oldest VLF that is not free.
    pub fn min_lsn(&self) -> u64 {
        self.vlfs
            .iter()
            .filter(|v| v.active && v.sequence > 0)
            .map(|v| v.start_lsn)
            .min()
            .unwrap_or(FIRST_LSN)
    }

    /// The blocks from now on are of this incarnation; where it changes they go into another VLF.
    pub fn set_incarnation(&mut self, incarnation: u32) {
        let is_current = |vlf: &Vlf| vlf.incarnation == incarnation;
        self.current = self.current.filter(|i| is_current(&self.vlfs[*i]));
        self.incarnation = incarnation;
    }

    /// Incarnation of blocks that are sealed from now on.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// In a log with room a need of the checkpoint within the VLF in use holds nothing.
    pub fn reuse_wait(&self) -> &'static str {
        let active = self.vlfs.iter().filter(|v| v.active).count();
        match self.kept_by.reason {
            OLDEST_PAGE if active <= 1 => NOTHING,
            reason => reason,
        }
    }

    /// What a full disk says of the log is that the log is full.
    fn or_full(&self, error: StorageError) -> StorageError {
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

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_sim::SimDisk;

    #[test]
    fn what_recovery_reads_is_hard() {
        let spec = FileSpec::log("/t_log.ldf", 256);
        for seed in 0..20 {
            let disk = SimDisk::new(seed);
            let env = daruma_sim::env(&disk, seed);
            drop(LogFile::create(&spec, 7, &env, true).expect("creates"));
            let file = env.disk.open(&spec.path, OpenMode::ReadWrite);
            let file = file.expect("opens");
            let at = 100 * 4_096;
            file.write_at(&[7; 4_096], at).expect("writes");
            drop(file);
            disk.restart();
            drop(LogFile::open(&spec, 7, &env).expect("opens"));
            disk.crash();
            let content = disk.content_of(&spec.path).expect("is there");
            assert!(content[at as usize..][..4_096] == [7; 4_096], "seed {seed}");
        }
    }

    /// A power loss while the file grows may keep the header of a new VLF and not all of its space.
    #[test]
    fn a_vlf_whose_space_was_lost_with_the_power_is_no_part_of_the_log() {
        let disk = SimDisk::new(1);
        let env = daruma_sim::env(&disk, 1);
        let spec = FileSpec::log("/t_log.ldf", 256);
        let log = LogFile::create(&spec, 7, &env, true).expect("creates");
        let (end, count) = (log.size_bytes(), log.vlfs().len());
        drop(log);
        let file = env
            .disk
            .open(&spec.path, OpenMode::ReadWrite)
            .expect("opens");
        let header = Vlf::unused(end, 4 * VLF_BYTES_MIN, false).header();
        file.write_at(&header, end).expect("writes");
        file.set_len(end + 3 * VLF_BYTES_MIN).expect("grows");
        drop(file);
        let log = LogFile::open(&spec, 7, &env).expect("opens");
        assert_eq!((log.size_bytes(), log.vlfs().len()), (end, count));
        let growth = log.extension(2 * VLF_BYTES_MIN);
        growth.write(true).expect("grows again");
        drop((log, growth));
        let log = LogFile::open(&spec, 7, &env).expect("opens");
        assert_eq!(log.size_bytes(), end + 2 * VLF_BYTES_MIN);
    }

    /// Headers with a right checksum that no release has written: somebody made the file.
    #[test]
    fn impossible_headers_are_refused() {
        let disk = SimDisk::new(1);
        let env = daruma_sim::env(&disk, 1);
        let spec = FileSpec::log("/t_log.ldf", 256);
        let log = LogFile::create(&spec, 7, &env, true).expect("creates");
        let VlfInfo {
            offset: last, size, ..
        } = *log.vlfs().last().expect("there are some");
        drop(log);
        let good = || Vlf {
            sequence: 1,
            start_lsn: FIRST_LSN,
            incarnation: 1,
            ..Vlf::unused(last, size, false)
        };
        let wrapped = |by: u64| (last - by).wrapping_neg();
        let sized = |size| Vlf { size, ..good() };
        let bad = [
            // The next header would be this one again, the first, or behind the largest position.
            sized(0_u64.wrapping_sub(HEADER_BYTES)),
            sized(wrapped(HEADER_BYTES)),
            sized(wrapped(0)),
            Vlf {
                start_lsn: u64::MAX - HEADER_BYTES + 1,
                ..good()
            },
            Vlf {
                start_lsn: FIRST_LSN + 1,
                ..good()
            },
            Vlf {
                start_lsn: 0,
                ..good()
            },
            Vlf {
                sequence: u64::MAX,
                ..good()
            },
            Vlf {
                incarnation: u32::MAX,
                ..good()
            },
            Vlf {
                held: size,
                ..good()
            },
            Vlf {
                held: u64::MAX,
                ..good()
            },
        ];
        let opens = |vlf: &Vlf| {
            let file = env.disk.open(&spec.path, OpenMode::ReadWrite);
            let file = file.expect("opens");
            file.write_at(&vlf.header(), last).expect("writes");
            drop(file);
            LogFile::open(&spec, 7, &env).map(|_| ())
        };
        opens(&good()).expect("a good one");
        for (n, vlf) in bad.iter().enumerate() {
            let opened = opens(vlf);
            assert!(
                matches!(opened, Err(StorageError::BadFile { .. })),
                "{n}: {opened:?}"
            );
        }
    }

    #[test]
    fn a_log_of_the_format_before_is_refused_by_its_number() {
        let disk = SimDisk::new(1);
        let env = daruma_sim::env(&disk, 1);
        let spec = FileSpec::log("/t_log.ldf", 256);
        drop(LogFile::create(&spec, 7, &env, true).expect("creates"));
        let file = env.disk.open(&spec.path, OpenMode::ReadWrite);
        let file = file.expect("opens");
        let mut header = vec![0; HEADER_BYTES as usize];
        file.read_at(&mut header, 0).expect("reads");
        put_u32(&mut header, 8, FORMAT_VERSION - 1);
        let sum = crc32c::crc32c(&header[8..]);
        put_u32(&mut header, 4, sum);
        file.write_at(&header, 0).expect("writes");
        drop(file);
        let refused = LogFile::open(&spec, 7, &env).err().expect("is refused");
        let said = refused.to_string();
        assert!(said.contains("log format 2 is not supported"), "{said}");
    }
}
