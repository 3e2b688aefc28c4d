//! Errors of backups and restores. Product error numbers are given by the layers above.

use crate::chain::ChainError;
use crate::cipher::KeyProblem;
use daruma_storage::StorageError;
use std::io;

/// A result whose error is a [`BackupError`].
pub type Result<T> = std::result::Result<T, BackupError>;

/// Reason why a backup or restore ended. Variants name the product's error where there is one.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Product error 3201.
    #[error("cannot open backup device '{device}': {source}")]
    Open { device: String, source: io::Error },
    /// Product errors 3202 (write) and 3203 (read).
    #[error("{action} '{device}': {source}")]
    Io {
        action: &'static str,
        device: String,
        source: io::Error,
    },
    /// Product error 3241.
    #[error("the media family on device '{device}' is incorrectly formed: {what}")]
    Malformed { device: String, what: String },
    /// Product error 3169: its format is that of another release.
    #[error("release {found} made the backup, which {own} cannot read")]
    OtherRelease { found: String, own: String },
    /// Product error 3183: the set was whole once, and is damaged.
    #[error("device '{device}': {what}")]
    Damaged { device: String, what: String },
    /// Product error 3182: it was taken of a damaged database, and nobody said that this is all right.
    #[error("the backup set holds damaged pages")]
    DamagedSet,
    /// Product error 3183: a page in an intact frame is damaged.
    #[error("page {file}:{page} in the backup set is damaged")]
    DamagedPage { file: u16, page: u32 },
    /// Product error 3132.
    #[error("the media set has {expected} families, {found} are provided")]
    FamiliesMissing { expected: u16, found: u16 },
    /// Product error 3231.
    #[error("device '{device}' is formatted for {expected} families, {found} are given")]
    FamilyCount {
        device: String,
        expected: u16,
        found: u16,
    },
    /// Product error 3258 and 3227: devices that do not belong together.
    #[error("device '{device}' belongs to another media set")]
    ForeignFamily { device: String },
    /// Product error 3227.
    #[error("device '{device}' repeats family {family}")]
    RepeatedFamily { device: String, family: u16 },
    /// Product error 4038.
    #[error("there is no backup set {position} on device '{device}'")]
    NoSet { device: String, position: u32 },
    #[error("the backup set cannot be applied: {0:?}")]
    Chain(ChainError),
    /// Product errors 3279 and 33111.
    #[error("the key of the backup set is missing or wrong: {0:?}")]
    Key(KeyProblem),
    /// The restore was asked for something this kind of backup cannot give.
    #[error("{0}")]
    Unusable(String),
    #[error("cancelled")]
    Cancelled,
}
