//! Errors of storage. Product error numbers are given by the layers above.

use daruma_base::{Lsn, PageId, WaitKind};
use std::path::PathBuf;

/// A result whose error is a [`StorageError`].
pub type Result<T> = std::result::Result<T, StorageError>;

/// Reason why storage could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Product error 2601/2627. The key found.
    #[error("an entry with this key exists already")]
    DuplicateKey { key: Vec<u8> },
    /// Product error 1205.
    #[error("chosen as deadlock victim while waiting for {wait:?}")]
    Deadlock { wait: WaitKind },
    /// Product error 1222.
    #[error("lock request timed out")]
    LockTimeout,
    /// Product error 3960: a row written after this snapshot was taken.
    #[error("snapshot update conflict")]
    SnapshotConflict,
    /// Product error 3961: the tree was made after this snapshot was taken.
    #[error("the tree is younger than the snapshot")]
    YoungerThanSnapshot,
    /// The cancel flag of the owner was set while waiting.
    #[error("cancelled while waiting")]
    Cancelled,
    /// Product error 824.
    #[error("page {page} of {path}: checksum expected {expected:08x}, found {found:08x}")]
    BadPage {
        page: PageId,
        path: PathBuf,
        expected: u32,
        found: u32,
    },
    /// Product error 824 as well: the checksum is right, the content is not.
    #[error("page {page} of {path} is damaged: {what}")]
    DamagedPage {
        page: PageId,
        path: PathBuf,
        what: String,
    },
    /// One of the two above, and the tree or blob (root or first page) that the page was read for.
    #[error("{source}")]
    DamagedIn {
        owner: PageId,
        source: Box<StorageError>,
    },
    /// Product error 9004.
    #[error("log of {path} is damaged at {lsn}: {what}")]
    DamagedLog {
        path: PathBuf,
        lsn: Lsn,
        what: String,
    },
    /// Product error 9002.
    #[error("the log is full due to {reason}")]
    LogFull {
        reason: &'static str,
        /// Of the log file.
        path: PathBuf,
    },
    /// The store of row versions is at its limit, and what keeps most of it.
    #[error("the version store of {database} has reached {bytes_max} bytes")]
    VersionStoreFull {
        database: String,
        bytes_max: u64,
        /// The limit is on what versions take of memory, not on all of them.
        is_memory: bool,
        pin: Option<Box<crate::pins::VersionPin>>,
    },
    /// Product error 1105.
    #[error("filegroup {filegroup} is full")]
    FilegroupFull {
        filegroup: u16,
        /// Of a file in it that could not grow.
        path: PathBuf,
    },
    /// Product error 701.
    #[error("buffer pool has no free page: all {pages} are in use")]
    BufferPoolFull { pages: usize },
    /// Product error 9001: the log failed earlier; the database must be restarted and recovered.
    #[error("the database is fenced: {cause}")]
    Fenced { cause: String },
    /// Product errors 5105, 5120, 5170 and friends.
    #[error("{action} {path}: {source}")]
    Io {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// Product error 1701/511.
    #[error("entry of {bytes} bytes exceeds the limit of {limit} bytes")]
    EntryTooLarge { bytes: usize, limit: usize },
    /// Files that do not belong together, or were written by a newer release.
    #[error("{path}: {what}")]
    BadFile { path: PathBuf, what: String },
    /// A transaction is prepared, and the database that decides about it must be recovered first.
    #[error(
        "a transaction is in doubt until database {database}, which coordinates it, is online again"
    )]
    InDoubt { database: String },
    /// More databases in one transaction than can commit together.
    #[error("a transaction cannot write in more than {max} databases")]
    TooManyDatabases { max: usize },
    /// The database is read-only or not online.
    #[error("the database is {state}")]
    NotOnline { state: &'static str },
}

/// Is there no room for what was to be written: on the disk, in what may be used of it, or in the largest file allowed?
pub fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::FileTooLarge | ErrorKind::QuotaExceeded
    )
}

impl StorageError {
    /// A filegroup in which no page can be allocated, for want of a file.
    pub(crate) fn no_file(filegroup: u16) -> StorageError {
        StorageError::FilegroupFull {
            filegroup,
            path: PathBuf::new(),
        }
    }

    /// Names the tree or blob that a page was read for, when the error is about a damaged page.
    pub fn within(self, owner: PageId) -> StorageError {
        match self {
            StorageError::BadPage { .. } | StorageError::DamagedPage { .. } => {
                let source = Box::new(self);
                StorageError::DamagedIn { owner, source }
            }
            other => other,
        }
    }

    /// The page that is damaged, and whether its checksum says so.
    pub fn damaged_page(&self) -> Option<(PageId, bool)> {
        match self {
            StorageError::BadPage { page, .. } => Some((*page, true)),
            StorageError::DamagedPage { page, .. } => Some((*page, false)),
            StorageError::DamagedIn { source, .. } => source.damaged_page(),
            _ => None,
        }
    }

    /// Does the error say that a page or the log is damaged, rather than that the database may not be used?
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            StorageError::BadPage { .. }
                | StorageError::DamagedPage { .. }
                | StorageError::DamagedIn { .. }
                | StorageError::DamagedLog { .. }
        )
    }

    /// Has a sync failed? Nobody knows then what is on disk, whatever reads find in memory.
    pub fn is_failed_sync(&self) -> bool {
        matches!(self, StorageError::Io { action, .. } if action.starts_with("sync"))
    }

    /// May the same statement succeed when simply repeated?
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            StorageError::Deadlock { .. }
                | StorageError::LockTimeout
                | StorageError::SnapshotConflict
                | StorageError::YoungerThanSnapshot
        )
    }
}
