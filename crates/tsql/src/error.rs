//! Errors and messages with the product's numbers.

use daruma_base::PageId;
use daruma_storage::{PinKind, StorageError, VersionPin};
use std::path::PathBuf;

/// A result whose error is a [`SqlError`].
pub type Result<T> = std::result::Result<T, SqlError>;

/// An ERROR (class 11 and up) or INFO message. `procedure` and `line` are filled in by the session.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlError {
    pub number: i32,
    pub class: u8,
    pub state: u8,
    pub message: String,
    pub procedure: Option<String>,
    pub line: i32,
    /// Does the error end the batch (and roll back the transaction) whatever XACT_ABORT says: 1205, 3960, 3961, kill?
    pub kills_transaction: bool,
    /// Of 824: the page, for the layer that knows what it belongs to.
    pub damaged: Option<Box<DamagedPage>>,
    /// Of 9002 and 1105: the file, for the layer that knows the database.
    pub full: Option<Box<FullFile>>,
    /// Said right after this one: 1750 after the reason why a constraint could not be made. It is what CATCH sees.
    pub next: Option<Box<SqlError>>,
}

/// A page that is not what was written.
#[derive(Clone, Debug, PartialEq)]
pub struct DamagedPage {
    pub page: PageId,
    pub path: PathBuf,
    /// Root of the tree it was read for.
    pub owner: Option<PageId>,
    pub what: String,
    /// Is it the checksum that is wrong?
    pub is_checksum: bool,
}

/// A file that has no room and cannot grow.
#[derive(Clone, Debug, PartialEq)]
pub struct FullFile {
    pub path: PathBuf,
    pub what: Full,
}

/// Kind of a file that is full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Full {
    /// What keeps its content, as `log_reuse_wait_desc` says it.
    Log {
        reason: &'static str,
    },
    Data {
        filegroup: u16,
    },
}

impl FullFile {
    fn of(error: &StorageError) -> Option<FullFile> {
        let (path, what) = match error {
            StorageError::LogFull { reason, path } => (path, Full::Log { reason }),
            StorageError::FilegroupFull { filegroup, path } => {
                let filegroup = *filegroup;
                (path, Full::Data { filegroup })
            }
            _ => return None,
        };
        let path = path.clone();
        Some(FullFile { path, what })
    }
}

/// How messages name the tree of all definitions.
pub(crate) const SYSTEM_CATALOG: &str = "the system catalog";
const PAGE_BYTES: u64 = 8_192;

impl DamagedPage {
    /// 824 for a page of a database; `belongs` names what it is a part of.
    pub fn told(&self, database: u16, belongs: Option<&str>) -> SqlError {
        let offset = format!("{:#018x}", u64::from(self.page.page) * PAGE_BYTES);
        let path = self.path.display();
        let mut error = crate::messages::error_state(
            824,
            2,
            &[&self.what, &"read", &self.page, &database, &offset, &path],
        );
        if let Some(name) = belongs {
            error.message = format!("{} The page belongs to {name}.", error.message);
        }
        error
    }

    fn of(error: &StorageError) -> Option<DamagedPage> {
        let (page, path, what) = match error {
            StorageError::DamagedIn { owner, source } => {
                let owner = Some(*owner);
                return DamagedPage::of(source).map(|page| DamagedPage { owner, ..page });
            }
            StorageError::BadPage {
                page,
                path,
                expected,
                found,
            } => {
                let what = format!(
                    "incorrect checksum (expected: 0x{expected:08x}; actual: 0x{found:08x})"
                );
                (page, path, what)
            }
            StorageError::DamagedPage { page, path, what } => (page, path, what.clone()),
            _ => return None,
        };
        Some(DamagedPage {
            page: *page,
            path: path.clone(),
            owner: None,
            what,
            is_checksum: matches!(error, StorageError::BadPage { .. }),
        })
    }
}

impl SqlError {
    /// An error that stands on no line yet. 1205, 3960 and 3961 end the transaction.
    pub fn new(number: i32, class: u8, state: u8, message: impl Into<String>) -> SqlError {
        SqlError {
            number,
            class,
            state,
            message: message.into(),
            procedure: None,
            line: 0,
            kills_transaction: matches!(number, 1205 | 3960 | 3961),
            damaged: None,
            full: None,
            next: None,
        }
    }

    /// An error of a module as a whole, told with its name and line 0; one of the calling text (class 15) stays there.
    pub fn of_module(mut self, name: &str) -> SqlError {
        self.procedure = (self.class != 15).then(|| name.to_string());
        self
    }

    /// This error, then `next`.
    pub fn followed(mut self, next: SqlError) -> SqlError {
        match &mut self.next {
            Some(last) => **last = (**last).clone().followed(next),
            None => self.next = Some(Box::new(next)),
        }
        self
    }
}

impl std::fmt::Display for SqlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Msg {}, Level {}, State {}: {}",
            self.number, self.class, self.state, self.message
        )
    }
}

impl std::error::Error for SqlError {}

/// Storage errors that need no more context than they carry. `DuplicateKey` and the like are turned into 2627/2601
/// with names by the layer that knows the index.
impl From<StorageError> for SqlError {
    fn from(error: StorageError) -> SqlError {
        if let StorageError::VersionStoreFull {
            database,
            bytes_max,
            is_memory,
            pin,
        } = &error
        {
            let limit = match is_memory {
                true => "memory of the server",
                false => "PERSISTENT_VERSION_STORE_MAX_SIZE",
            };
            let culprit = pin.as_deref().map_or(String::new(), culprit);
            return crate::messages::error(
                12190,
                &[database, &(bytes_max >> 20), &limit, &culprit],
            );
        }
        if let StorageError::TooManyDatabases { max } = &error {
            return crate::messages::error(925, &[max]);
        }
        let (number, class) = match &error {
            StorageError::DuplicateKey { .. } => (2627, 14),
            StorageError::Deadlock { .. } => (1205, 13),
            StorageError::LockTimeout => (1222, 16),
            StorageError::SnapshotConflict => (3960, 16),
            StorageError::YoungerThanSnapshot => (3961, 16),
            StorageError::Cancelled => (3617, 16),
            StorageError::BadPage { .. }
            | StorageError::DamagedPage { .. }
            | StorageError::DamagedIn { .. } => (824, 24),
            StorageError::DamagedLog { .. } => (9004, 21),
            StorageError::LogFull { .. } => (9002, 17),
            StorageError::VersionStoreFull { .. } => (12190, 17),
            StorageError::FilegroupFull { .. } => (1105, 17),
            StorageError::BufferPoolFull { .. } => (701, 17),
            StorageError::Fenced { .. } => (9001, 21),
            StorageError::Io { .. } => (823, 24),
            StorageError::EntryTooLarge { .. } => (511, 16),
            StorageError::BadFile { .. } => (5171, 16),
            StorageError::NotOnline { .. } | StorageError::InDoubt { .. } => (945, 14),
            StorageError::TooManyDatabases { .. } => (925, 19),
        };
        SqlError {
            damaged: DamagedPage::of(&error).map(Box::new),
            full: FullFile::of(&error).map(Box::new),
            ..SqlError::new(number, class, 1, error.to_string())
        }
    }
}

/// Keeper of the versions that fill a version store, in a sentence.
fn culprit(pin: &VersionPin) -> String {
    let session = match pin.owner {
        0 => format!("{} sessions", pin.owners),
        owner => format!("session {}", crate::instance::spid_of_owner(owner)),
    };
    match pin.kind {
        PinKind::ActiveTransaction => format!(
            "Most of it is kept by the active transaction {} of {session}.",
            pin.txn.0
        ),
        PinKind::Snapshot => format!("Most of it is kept for a snapshot of {session}."),
        PinKind::AbortedTransaction => format!(
            "Most of it is kept by the aborted transaction {}, which is being reverted.",
            pin.txn.0
        ),
    }
}

/// Errors of values carry their own numbers.
impl From<daruma_value::ValueError> for SqlError {
    fn from(error: daruma_value::ValueError) -> SqlError {
        let level = crate::messages::find(error.number()).map_or(error.level(), |m| m.severity);
        SqlError::new(error.number(), level, error.state(), error.to_string())
    }
}
