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

mod ends;
mod handle;
mod room;
mod vlf;

pub use handle::Handle;
pub use room::{
    BLOCK_ROOM_BYTES, CHECKPOINT_RESERVE_BYTES, ENDINGS_RESERVE_BYTES, Extension, Left, Placement,
    Room, Tried,
};
pub use vlf::{FORMAT_VERSION, Filled, VlfInfo, file_header, unwritten_header};

use super::block::BLOCK_ALIGN_BYTES;
use super::hold::Need;
use crate::api::{FileSpec, Growth};
use crate::bytes::*;
use crate::datafile::unsupported;
use crate::error::{Result, StorageError};
use crate::meter::metered;
use crate::planted::{Bug, planted};
use daruma_base::{Env, Lsn, OpenMode, reached};
use std::sync::Arc;
use vlf::{VLF_HELD_AT, VLF_UNWRITTEN_AT, Vlf, is_place_in_stream, is_vlf_header};

/// First bytes of a log file.
pub const FILE_MAGIC: u32 = 0x474F_4C44; // "DLOG"
/// Bytes of the file header, and of each VLF header.
pub const HEADER_BYTES: u64 = BLOCK_ALIGN_BYTES as u64;
/// The stream starts here; smaller LSNs mean "none".
pub const FIRST_LSN: u64 = BLOCK_ALIGN_BYTES as u64;
/// The stream never comes here, nor does the number of a VLF: at 100 GB a second it would take most of a year.
pub const LSN_END: u64 = 1 << 61;
/// How often bytes that are no header are read before that is believed.
const READ_TRIES: usize = 4;
/// Virtual log files that are read with [`Bug::ReadFewVlfs`].
const PLANTED_VLFS: usize = 3;
/// Smallest VLF.
pub const VLF_BYTES_MIN: u64 = 256 << 10;
/// Smallest log file: two VLFs.
pub const LOG_FILE_BYTES_MIN: u64 = HEADER_BYTES + 2 * VLF_BYTES_MIN;
/// `log_reuse_wait_desc` of a log that nothing keeps.
pub const NOTHING: &str = "NOTHING";
const CHECKPOINT: &str = "CHECKPOINT";
/// The same of one that waits for a page to be written.
pub const OLDEST_PAGE: &str = "OLDEST_PAGE";

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
        log.vlfs = vlfs.into_vlfs();
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
            if planted(Bug::ReadFewVlfs) && self.vlfs.len() == PLANTED_VLFS {
                break;
            }
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

    /// Called when a block was sealed and the stream now ends at `lsn`.
    pub fn advance(&mut self, lsn: u64) {
        if let Some(index) = self.current {
            debug_assert!(lsn - self.vlfs[index].start_lsn <= self.vlfs[index].usable());
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

    /// Bytes that a cut there would free.
    pub fn would_free(&self, lowest: Lsn) -> u64 {
        let freed = self.frees(lowest);
        freed.map(|index| self.vlfs[index].usable()).sum()
    }

    /// VLFs in use that lie below `lowest`.
    fn frees(&self, lowest: Lsn) -> impl Iterator<Item = usize> {
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
