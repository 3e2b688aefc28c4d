//! What can be wrong with bytes from a peer, or with values we are asked to send.

use thiserror::Error;

/// A result whose error is a [`TdsError`].
pub type Result<T, E = TdsError> = std::result::Result<T, E>;

/// Every fault names the element, what was expected and what was found.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TdsError {
    /// The input ends early. A stream decoder takes this as "wait for more bytes".
    #[error("{what}: expected {expected} more bytes, found {found}")]
    Truncated {
        what: &'static str,
        expected: usize,
        found: usize,
    },
    /// An element is longer than the structure around it says. More bytes would not help.
    #[error("{what}: expected {expected} bytes inside the enclosing structure, found {found}")]
    Overrun {
        what: &'static str,
        expected: usize,
        found: usize,
    },
    /// An element has a value that its place does not allow.
    #[error("{what}: expected {expected}, found {found:#x}")]
    Unexpected {
        what: &'static str,
        expected: &'static str,
        found: u64,
    },
    /// An element is longer than the limit for it, which is the protocol's or our own.
    #[error("{what}: expected at most {limit}, found {found}")]
    TooLong {
        what: &'static str,
        limit: usize,
        found: usize,
    },
    /// Bytes are left after the last element.
    #[error("{what}: expected the end, found {found} more bytes")]
    Trailing { what: &'static str, found: usize },
    /// The peer asks for a protocol that is not spoken here.
    #[error("TDS version: expected 7.1 to 7.4 or 8.0, found {found:#010x}")]
    UnsupportedVersion { found: u32 },
    /// The value to be sent is of another type than its column.
    #[error("value for {expected}: found {found}")]
    WrongValue {
        expected: &'static str,
        found: &'static str,
    },
    /// The value to be sent does not fit its column.
    #[error("value for {expected}: out of range")]
    OutOfRange { expected: &'static str },
    /// The value to be sent is NULL, and its type has no NULL on the wire.
    #[error("NULL for a column that does not allow it")]
    NullNotAllowed,
    /// The row to be sent has more or fewer values than there are columns.
    #[error("row: expected {expected} values, found {found}")]
    ColumnCount { expected: usize, found: usize },
    /// One of the above, in this column (from 0).
    #[error("column {column}: {source}")]
    InColumn {
        column: usize,
        source: Box<TdsError>,
    },
}

impl TdsError {
    /// Could more bytes turn this failure into a success?
    pub(crate) const fn is_truncation(&self) -> bool {
        matches!(self, TdsError::Truncated { .. })
    }

    pub(crate) fn in_column(self, column: usize) -> TdsError {
        TdsError::InColumn {
            column,
            source: Box::new(self),
        }
    }
}
