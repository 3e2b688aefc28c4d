//! What a node must remember of its standing in a database's group: promise, history, the judge's record.
//!
//! ```text
//! 0 magic u32 | 4 version u32 | 8 CRC-32C u32 of the rest | 12 length u32 | 16 promise, history, record
//! ```
//! The file is written beside the old one, synced and renamed over it: a crash leaves the one or the other. With CLUSTER_TYPE = NONE
//! the primary's file is the judge.

use crate::commit::{EpochId, History, Record, Reply, Request};
use crate::wire::{WireError, decode_standing, encode_standing};
use daruma_base::{Disk, OpenMode};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: u32 = 0x5453_4744; // "DGST"
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;
/// A history of 128 epochs, and room.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Nothing older is acknowledged.
    pub promised: EpochId,
    /// Of the log here.
    pub history: History,
    /// The judge's record, as far as it is known here.
    pub record: Record,
}

/// The file of one database.
pub struct StandingFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    standing: Standing,
}

impl StandingFile {
    /// Makes the file of a database that joins a group.
    pub fn create(
        disk: &Arc<dyn Disk>,
        path: &Path,
        standing: Standing,
    ) -> io::Result<StandingFile> {
        let mut file = StandingFile {
            disk: disk.clone(),
            path: path.to_path_buf(),
            standing: standing.clone(),
        };
        file.store(standing)?;
        Ok(file)
    }

    /// Reads the file. `None`: the database is in no group.
    pub fn open(disk: &Arc<dyn Disk>, path: &Path) -> io::Result<Option<StandingFile>> {
        let file = match disk.open(path, OpenMode::ReadOnly) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let length = file.len()?;
        if length > FILE_BYTES_MAX {
            return Err(bad("longer than it can be"));
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| bad("length"))?];
        file.read_at(&mut bytes, 0)?;
        let standing = decode(&bytes)?;
        Ok(Some(StandingFile {
            disk: disk.clone(),
            path: path.to_path_buf(),
            standing,
        }))
    }

    /// What it says.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Replaces what it says; durable when this returns.
    pub fn store(&mut self, standing: Standing) -> io::Result<()> {
        let bytes = encode(&standing);
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        match self.disk.remove(&beside) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let file = self.disk.open(&beside, OpenMode::CreateNew)?;
        file.write_at(&bytes, 0)?;
        file.sync_data()?;
        drop(file);
        self.disk.rename(&beside, &self.path)?;
        self.disk
            .sync_dir(self.path.parent().unwrap_or(Path::new(".")))?;
        self.standing = standing;
        Ok(())
    }

    /// Answers as the judge: the record is durable before the reply leaves.
    pub fn answer(&mut self, request: Request) -> io::Result<Reply> {
        let mut record = self.standing.record;
        let reply = record.answer(request);
        if record != self.standing.record {
            let standing = Standing {
                record,
                ..self.standing.clone()
            };
            self.store(standing)?;
        }
        Ok(reply)
    }
}

fn encode(standing: &Standing) -> Vec<u8> {
    let mut body = Vec::new();
    encode_standing(
        &standing.promised,
        &standing.history,
        &standing.record,
        &mut body,
    );
    let mut bytes = MAGIC.to_le_bytes().to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(crc32c::crc32c(&body).to_le_bytes());
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn decode(bytes: &[u8]) -> io::Result<Standing> {
    let Some((head, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(bad("too short"));
    };
    let number = |at: usize| {
        head.get(at..at + 4)
            .and_then(|b| b.try_into().ok())
            .map_or(0, u32::from_le_bytes)
    };
    if number(0) != MAGIC {
        return Err(bad("not such a file"));
    }
    if number(4) != VERSION {
        return Err(bad("another version"));
    }
    if number(12) as usize != body.len() || number(8) != crc32c::crc32c(body) {
        return Err(bad("damaged"));
    }
    let (promised, history, record) =
        decode_standing(body).map_err(|e: WireError| bad(&e.to_string()))?;
    Ok(Standing {
        promised,
        history,
        record,
    })
}

fn bad(what: &str) -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        format!("standing of a replica: {what}"),
    )
}
