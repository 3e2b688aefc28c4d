//! Databases, their files and options, backup and restore.

use super::{Expr, Ident, OptionItem, OptionValue};

/// `CREATE DATABASE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateDatabase {
    pub name: Ident,
    pub containment: Option<String>,
    /// Files of PRIMARY first, then the other filegroups.
    pub filegroups: Vec<FilegroupSpec>,
    pub log: Vec<FileSpec>,
    pub collation: Option<Ident>,
    pub options: Vec<OptionItem>,
    /// `FOR ATTACH`, `FOR ATTACH_REBUILD_LOG`.
    pub attach: Option<Attach>,
    /// `AS SNAPSHOT OF db`.
    pub snapshot_of: Option<Ident>,
}

/// `FOR ATTACH` of a CREATE DATABASE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    Attach,
    RebuildLog,
}

/// A filegroup and its files, as CREATE DATABASE lists them.
#[derive(Clone, Debug, PartialEq)]
pub struct FilegroupSpec {
    /// `None` is PRIMARY.
    pub name: Option<Ident>,
    pub default: bool,
    /// `CONTAINS FILESTREAM`, `CONTAINS MEMORY_OPTIMIZED_DATA`.
    pub contains: Option<String>,
    pub files: Vec<FileSpec>,
}

/// `(NAME = .., FILENAME = '..', SIZE = .., MAXSIZE = .., FILEGROWTH = ..)`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FileSpec {
    pub name: Option<Ident>,
    pub new_name: Option<Ident>,
    pub file_name: Option<String>,
    pub size: Option<FileSize>,
    pub max_size: Option<FileSize>,
    pub file_growth: Option<FileSize>,
    pub offline: bool,
}

/// A size without a unit counts megabytes. `Percent` is for growth, `Unlimited` for the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSize {
    Kilobytes(u64),
    Megabytes(u64),
    Gigabytes(u64),
    Terabytes(u64),
    Percent(u64),
    Unlimited,
}

impl FileSize {
    /// Bytes of an absolute size; `None` for a percentage, `Unlimited`, or more than `u64` holds.
    pub fn bytes(self) -> Option<u64> {
        let (count, shift) = match self {
            FileSize::Kilobytes(count) => (count, 10),
            FileSize::Megabytes(count) => (count, 20),
            FileSize::Gigabytes(count) => (count, 30),
            FileSize::Terabytes(count) => (count, 40),
            FileSize::Percent(_) | FileSize::Unlimited => return None,
        };
        count.checked_mul(1 << shift)
    }
}

/// `ALTER DATABASE`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterDatabase {
    /// `None` is `ALTER DATABASE CURRENT`.
    pub name: Option<Ident>,
    pub action: AlterDatabaseAction,
}

/// What an ALTER DATABASE does.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterDatabaseAction {
    Set {
        options: Vec<DatabaseOption>,
        termination: Option<Termination>,
    },
    ModifyName(Ident),
    Collate(Ident),
    AddFile {
        files: Vec<FileSpec>,
        filegroup: Option<Ident>,
    },
    AddLogFile(Vec<FileSpec>),
    RemoveFile(Ident),
    ModifyFile(FileSpec),
    AddFilegroup {
        name: Ident,
        contains: Option<String>,
    },
    RemoveFilegroup(Ident),
    ModifyFilegroup {
        name: Ident,
        change: FilegroupChange,
    },
    /// `SCOPED CONFIGURATION SET name = value` or `CLEAR name`; `secondary` for `FOR SECONDARY`.
    ScopedConfiguration {
        secondary: bool,
        clear: bool,
        option: OptionItem,
    },
    /// `MODIFY (EDITION = ..)` of the cloud product.
    Modify(Vec<OptionItem>),
}

/// What `MODIFY FILEGROUP` changes.
#[derive(Clone, Debug, PartialEq)]
pub enum FilegroupChange {
    Default,
    ReadOnly,
    ReadWrite,
    Rename(Ident),
    AutogrowAllFiles,
    AutogrowSingleFile,
}

/// `WITH ROLLBACK IMMEDIATE | ROLLBACK AFTER n [SECONDS] | NO_WAIT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    RollbackImmediate,
    RollbackAfter { seconds: u32 },
    NoWait,
}

/// An option of `ALTER DATABASE .. SET`.
#[derive(Clone, Debug, PartialEq)]
pub enum DatabaseOption {
    AcceleratedDatabaseRecovery {
        on: bool,
        version_store_filegroup: Option<Ident>,
    },
    DelayedDurability(DelayedDurability),
    Recovery(RecoveryModel),
    CompatibilityLevel(u32),
    TargetRecoveryTime {
        seconds: u32,
    },
    ReadCommittedSnapshot(bool),
    AllowSnapshotIsolation(bool),
    PageVerify(PageVerify),
    UserAccess(UserAccess),
    State(DatabaseState),
    ReadOnly(bool),
    Hadr(HadrChange),
    /// `AUTO_CLOSE OFF`, `QUERY_STORE = ON (..)`, `TRUSTWORTHY ON` and all others.
    Other(OptionItem),
}

/// `DELAYED_DURABILITY` of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayedDurability {
    Disabled,
    Allowed,
    Forced,
}

/// `RECOVERY` of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryModel {
    Full,
    BulkLogged,
    Simple,
}

/// `PAGE_VERIFY` of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageVerify {
    Checksum,
    TornPageDetection,
    None,
}

/// Users that a database admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserAccess {
    Single,
    Restricted,
    Multi,
}

/// Whether a database is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseState {
    Online,
    Offline,
    Emergency,
}

/// `SET HADR` of a database.
#[derive(Clone, Debug, PartialEq)]
pub enum HadrChange {
    Join(Ident),
    Off,
    Suspend,
    Resume,
}

/// The database of BACKUP, RESTORE and KILL-like statements: a name or a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum NameOrVariable {
    Name(Ident),
    Variable(String),
}

/// `BACKUP`.
#[derive(Clone, Debug, PartialEq)]
pub struct Backup {
    pub kind: BackupKind,
    pub database: NameOrVariable,
    /// `FILE = f`, `FILEGROUP = g`, `READ_WRITE_FILEGROUPS` before TO.
    pub parts: Vec<DatabasePart>,
    pub devices: Vec<BackupDevice>,
    /// Each `MIRROR TO` list.
    pub mirrors: Vec<Vec<BackupDevice>>,
    pub options: Vec<OptionItem>,
}

/// What a BACKUP takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupKind {
    Database,
    Log,
}

/// A part of a database that a BACKUP or RESTORE names.
#[derive(Clone, Debug, PartialEq)]
pub enum DatabasePart {
    /// A string, word or variable.
    File(OptionValue),
    Filegroup(OptionValue),
    ReadWriteFilegroups,
    /// `PAGE = '1:57, 1:202'`.
    Page(OptionValue),
}

/// Where a backup goes to or comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum BackupDevice {
    /// A logical device name or a variable which holds one.
    Logical(NameOrVariable),
    /// `DISK = '..'`; the path is a string or a variable.
    Physical { medium: BackupMedium, path: Expr },
}

/// The kind of a backup device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupMedium {
    Disk,
    Tape,
    Url,
    DatabaseSnapshot,
    VirtualDevice,
}

/// `RESTORE`.
#[derive(Clone, Debug, PartialEq)]
pub struct Restore {
    pub kind: RestoreKind,
    /// `None` for HEADERONLY and its like.
    pub database: Option<NameOrVariable>,
    pub parts: Vec<DatabasePart>,
    /// Empty for `RESTORE DATABASE d WITH RECOVERY`.
    pub devices: Vec<BackupDevice>,
    pub moves: Vec<RestoreMove>,
    pub options: Vec<OptionItem>,
}

/// What a RESTORE brings back or shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreKind {
    Database,
    Log,
    FileListOnly,
    HeaderOnly,
    LabelOnly,
    RewindOnly,
    VerifyOnly,
}

/// `MOVE 'logical' TO 'path'`.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoreMove {
    pub logical: Expr,
    pub path: Expr,
}
