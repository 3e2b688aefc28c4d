//! Proof that a file was made for a database: the creation of one can be cut short, and what it left may be deleted
//! only if it cannot be anything else.
//!
//! A new file is empty, or zeros as far as its space was allocated, until its first sector is there, which names the guid of
//! its database. A crash keeps or loses a sector whole.

use crate::bytes::{get_u32, get_u64};
use crate::datafile::FILE_MAGIC as DATA_MAGIC;
use crate::log::LOG_MAGIC;
use crate::page::{HEADER_BYTES, PAGE_BYTES, Page, PageType};
use daruma_base::{Disk, OpenMode, PageId};
use std::io;
use std::path::Path;

const SECTOR_BYTES: usize = 512;

/// Kind of a file, by its first sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileTrace {
    Absent,
    /// Space that was allocated, and no content.
    Unwritten {
        bytes: u64,
    },
    /// A data file or log of the database with this guid.
    Of {
        guid: u64,
    },
    /// Something else.
    Foreign,
}

impl FileTrace {
    /// Reads the file's first sector; a file that is not there is no error.
    pub fn read(disk: &dyn Disk, path: &Path) -> io::Result<FileTrace> {
        if !disk.exists(path)? {
            return Ok(FileTrace::Absent);
        }
        let file = disk.open(path, OpenMode::ReadOnly)?;
        let bytes = file.len()?;
        if bytes == 0 {
            return Ok(FileTrace::Unwritten { bytes });
        }
        if bytes < SECTOR_BYTES as u64 {
            return Ok(FileTrace::Foreign);
        }
        let mut sector = [0; SECTOR_BYTES];
        file.read_at(&mut sector, 0)?;
        Ok(FileTrace::of(&sector, bytes))
    }

    fn of(sector: &[u8; SECTOR_BYTES], bytes: u64) -> FileTrace {
        if get_u64(sector, HEADER_BYTES) == DATA_MAGIC {
            let guid = get_u64(sector, HEADER_BYTES + 16);
            return FileTrace::Of { guid };
        }
        if get_u32(sector, 0) == LOG_MAGIC {
            let guid = get_u64(sector, 16);
            return FileTrace::Of { guid };
        }
        match sector.iter().all(|b| *b == 0) {
            true => FileTrace::Unwritten { bytes },
            false => FileTrace::Foreign,
        }
    }
}

/// Is a data file complete, as it is before its first page can be in use?
pub fn is_whole_data_file(disk: &dyn Disk, path: &Path, id: u16, guid: u64) -> io::Result<bool> {
    if FileTrace::read(disk, path)? != (FileTrace::Of { guid }) {
        return Ok(false);
    }
    let file = disk.open(path, OpenMode::ReadOnly)?;
    if file.len()? < 2 * PAGE_BYTES as u64 {
        return Ok(false);
    }
    for (number, kind) in [(0, PageType::FileHeader), (1, PageType::Allocation)] {
        let mut page = Page::zeroed();
        file.read_at(page.bytes_mut(), u64::from(number) * PAGE_BYTES as u64)?;
        let is_sound = page.stored_checksum() == page.compute_checksum()
            && page.id() == PageId::new(id, number)
            && page.page_type() == Some(kind);
        if !is_sound {
            return Ok(false);
        }
    }
    Ok(true)
}
