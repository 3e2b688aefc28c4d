//! Headers of the log file and of its virtual log files.

use super::{FILE_MAGIC, FIRST_LSN, HEADER_BYTES, LSN_END};
use crate::bytes::*;

const VLF_MAGIC: u32 = 0x464C_5644; // "DVLF"
/// Where a VLF header says at which offset it lies.
const VLF_OFFSET_AT: usize = 40;
pub(super) const VLF_UNWRITTEN_AT: usize = 48;
pub(super) const VLF_HELD_AT: usize = 56;
const SECTOR_BYTES: usize = 512;
/// 3: records that begin an epoch.
pub const FORMAT_VERSION: u32 = 3;

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

pub(super) struct Vlf {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) sequence: u64,
    pub(super) start_lsn: u64,
    pub(super) incarnation: u32,
    pub(super) active: bool,
    /// Its space was allocated, nothing more.
    pub(super) unwritten: bool,
    /// Bytes of the stream that a restore put there; 0 when the blocks tell themselves where they end.
    pub(super) held: u64,
}

impl Vlf {
    /// One in which nothing of the stream is.
    pub(super) fn unused(offset: u64, size: u64, unwritten: bool) -> Vlf {
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

    pub(super) fn usable(&self) -> u64 {
        self.size - HEADER_BYTES
    }

    /// Bytes of it in which the stream may be looked for.
    pub(super) fn readable(&self) -> u64 {
        match self.held {
            0 => self.usable(),
            held => held,
        }
    }

    pub(super) fn header(&self) -> Vec<u8> {
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

/// Is it the intact header of the VLF at `offset`? A read that lost its way finds the header of another one, which is
/// intact as well. Headers of older releases do not name their place: they say 0 there.
pub(super) fn is_vlf_header(header: &[u8], offset: u64) -> bool {
    let named = get_u64(header, VLF_OFFSET_AT);
    get_u32(header, 0) == VLF_MAGIC
        && get_u32(header, 4) == crc32c::crc32c(&header[8..SECTOR_BYTES])
        && (named == offset || named == 0)
}

/// Can the log have come so far? What it has not is somebody's invention, and what is counted on from there would overflow.
pub(super) fn is_place_in_stream(sequence: u64, start_lsn: u64, incarnation: u32) -> bool {
    let is_start = start_lsn.is_multiple_of(HEADER_BYTES) && start_lsn < LSN_END;
    (sequence == 0 || is_start && start_lsn >= FIRST_LSN)
        && sequence < LSN_END
        && incarnation < u32::MAX / 2
}
