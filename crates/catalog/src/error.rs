//! Errors of the catalog.

use daruma_storage::StorageError;

/// A result whose error is a [`CatalogError`].
pub type Result<T> = std::result::Result<T, CatalogError>;

/// Fault of stored definitions.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A row of the catalog tree that this release cannot read.
    #[error("catalog row {key:02x?} cannot be read: {what}")]
    BadRow { key: Vec<u8>, what: String },
    /// A row was changed again and again by others while it was being replaced.
    #[error("catalog row {key:02x?} is changed by another transaction")]
    Contended { key: Vec<u8> },
}
