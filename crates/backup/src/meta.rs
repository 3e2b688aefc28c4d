//! Descriptions of media and backup sets, stored as JSON: readable without this program, and open to new fields.

use crate::cipher::Envelope;
use crate::origin::Origin;
use daruma_base::{Lsn, Random};
use daruma_storage::{Epoch, Epochs, LogSection};
use serde::{Deserialize, Serialize};

/// A random identifier, the form of the product's uniqueidentifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub struct Random16(pub [u8; 16]);

impl Random16 {
    /// 16 random bytes.
    pub fn new(random: &dyn Random) -> Random16 {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        Random16(bytes)
    }

    /// The part that every frame carries.
    pub fn short(self) -> u64 {
        let mut half = [0; 8];
        half.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(half)
    }
}

/// Label of one media family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MediaInfo {
    pub media: Random16,
    /// From 1.
    pub family: u16,
    pub families: u16,
    pub mirrors: u16,
    pub name: Option<String>,
    pub description: Option<String>,
    /// 100 ns since 1970.
    pub created_utc: i64,
    pub block_bytes: u32,
    pub compressed: bool,
    pub software: String,
}

/// Extent of a set: the whole database, its changes, or its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BackupKind {
    Full,
    Differential,
    Log,
}

/// A file of the database that was backed up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileMeta {
    pub id: u16,
    pub filegroup: u16,
    pub logical_name: String,
    pub path: String,
    pub size_pages: u64,
    pub max_pages: Option<u64>,
    /// Pages of this file in the backup.
    pub pages: u64,
}

/// A piece of the log in a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionMeta {
    pub start: u64,
    pub bytes: u64,
    pub incarnation: u32,
}

impl From<&LogSection> for SectionMeta {
    fn from(s: &LogSection) -> SectionMeta {
        SectionMeta {
            start: s.start.0,
            bytes: s.bytes,
            incarnation: s.incarnation,
        }
    }
}

impl From<&SectionMeta> for LogSection {
    fn from(s: &SectionMeta) -> LogSection {
        LogSection {
            start: Lsn(s.start),
            bytes: s.bytes,
            incarnation: s.incarnation,
        }
    }
}

/// A stretch of the log that one server made in one go, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochMeta {
    pub number: u64,
    pub id: Random16,
    pub start: u64,
}

impl From<&Epoch> for EpochMeta {
    fn from(e: &Epoch) -> EpochMeta {
        EpochMeta {
            number: e.number,
            id: Random16(e.id.to_le_bytes()),
            start: e.start.0,
        }
    }
}

/// The epochs that a log between two positions knows of: that of what comes before, and those that begin in it.
pub fn epochs_between(epochs: &Epochs, first: Lsn, last: Lsn) -> Vec<EpochMeta> {
    let from = epochs.before(first).map_or(first, |e| e.start);
    let known = epochs.list().iter();
    let within = known.filter(|e| e.start >= from && e.start < last);
    within.map(EpochMeta::from).collect()
}

/// The history that a restored database begins with; empty for a list that is none.
pub fn history(list: &[EpochMeta]) -> Epochs {
    let epoch = |e: &EpochMeta| Epoch {
        number: e.number,
        id: u128::from_le_bytes(e.id.0),
        start: Lsn(e.start),
    };
    Epochs::from_list(list.iter().map(epoch).collect()).unwrap_or_default()
}

/// Part of a set that a family holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyManifest {
    pub frames: u64,
    pub bytes: u64,
    pub index_checksum: u32,
}

/// Description of a backup set: the same in every family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetInfo {
    /// Who wrote it: looked at before the rest.
    #[serde(default)]
    pub origin: Origin,
    pub set: Random16,
    pub position: u32,
    pub kind: BackupKind,
    pub name: Option<String>,
    pub description: Option<String>,
    pub user: String,
    pub server: String,
    pub database: String,
    /// Identity of the database files.
    pub database_guid: u64,
    pub database_created_utc: i64,
    pub started_utc: i64,
    pub finished_utc: i64,
    pub expires_utc: Option<i64>,
    /// The log in the set begins and ends here.
    pub first_lsn: u64,
    pub last_lsn: u64,
    pub checkpoint_lsn: u64,
    /// Where redo of the copied pages begins; 0 in a log backup.
    pub redo_lsn: u64,
    /// `redo_lsn` of the last full backup before this one.
    pub database_backup_lsn: u64,
    /// Of a differential: `redo_lsn` and set of the full backup it builds on.
    pub base_lsn: u64,
    pub base_set: Option<Random16>,
    /// The recovery path on which the set was taken, and where that path left the one before.
    pub fork: u64,
    pub fork_lsn: u64,
    /// Who made the log of the set, oldest first. Empty in sets of older releases.
    #[serde(default)]
    pub epochs: Vec<EpochMeta>,
    pub recovery_model: u8,
    pub copy_only: bool,
    pub begins_chain: bool,
    /// A log backup that leaves the database restoring.
    pub tail: bool,
    pub compression: Option<String>,
    pub encryption: Option<Envelope>,
    pub files: Vec<FileMeta>,
    pub pages: u64,
    pub log_pages: u64,
    pub sections: Vec<SectionMeta>,
    /// The boot page to begin with.
    pub boot: Vec<u8>,
    /// Facts about the database that the layers above need; opaque here.
    pub definition: String,
    pub plain_bytes: u64,
    pub stored_bytes: u64,
    /// Pages were stored that are damaged: these.
    pub damaged: bool,
    pub damaged_pages: Vec<(u16, u32)>,
    pub manifest: Vec<FamilyManifest>,
}

/// Where a set lies in a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    pub position: u32,
    pub set: Random16,
    pub begin: u64,
    pub index: u64,
    pub end: u64,
}

/// All sets of a family.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Directory {
    pub sets: Vec<DirectoryEntry>,
}
