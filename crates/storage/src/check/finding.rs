//! Findings of a check, and its report.

use crate::error::StorageError;
use daruma_base::PageId;
use std::fmt;

/// Fault of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// It cannot be read: checksum, identity or inner structure.
    Unreadable {
        test: String,
        expected: u32,
        found: u32,
    },
    /// It is no page of the tree or blob that refers to it.
    Foreign,
    /// Its level is not one less than that of the page above.
    Level { found: u8, expected: u8 },
    /// The key of a slot is not above the one before.
    KeyOrder { slot: usize },
    /// The key of a slot is outside the separators of the page above, one of which is in `parent_slot`.
    KeyRange {
        slot: usize,
        level: u8,
        parent: PageId,
        parent_slot: usize,
    },
    /// The chain of leaves goes on with another page than the tree.
    Chain { next: PageId, expected: PageId },
    /// An entry cannot be what was stored.
    Entry { slot: usize, what: String },
    /// A blob has not the pages that its length asks for.
    BlobLength { bytes: u64, pages: u64 },
    /// A second owner refers to it; the page names `other`.
    UsedTwice { other: PageId },
    /// It is used, and marked as free in the allocation page.
    MarkedFree { map: PageId },
    /// It is marked as used in the allocation page, and nobody uses it.
    Leak { map: PageId },
}

impl FindingKind {
    pub(super) fn unreadable(error: StorageError) -> FindingKind {
        let (test, expected, found) = match error {
            StorageError::DamagedIn { source, .. } => return FindingKind::unreadable(*source),
            StorageError::BadPage {
                expected, found, ..
            } => ("checksum".to_string(), expected, found),
            StorageError::DamagedPage { what, .. } => (what, 0, 0),
            other => (other.to_string(), 0, 0),
        };
        FindingKind::Unreadable {
            test,
            expected,
            found,
        }
    }

    /// Is it about which pages are in use rather than about their content?
    pub fn is_allocation(&self) -> bool {
        matches!(
            self,
            FindingKind::UsedTwice { .. }
                | FindingKind::MarkedFree { .. }
                | FindingKind::Leak { .. }
        )
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FindingKind::Unreadable {
                test,
                expected,
                found,
            } => write!(f, "{test}: expected {expected}, found {found}"),
            FindingKind::Foreign => f.write_str("not a page of its owner"),
            FindingKind::Level { found, expected } => {
                write!(f, "level {found} where {expected} should be")
            }
            FindingKind::KeyOrder { slot } => {
                write!(f, "the key in slot {slot} is not above the one before")
            }
            FindingKind::KeyRange { slot, parent, .. } => write!(
                f,
                "the key in slot {slot} is outside the separators of page {parent}"
            ),
            FindingKind::Chain { next, expected } => write!(
                f,
                "followed by page {next} in the chain but by page {expected} in the tree"
            ),
            FindingKind::Entry { slot, what } => write!(f, "slot {slot}: {what}"),
            FindingKind::BlobLength { bytes, pages } => {
                write!(f, "a blob of {bytes} bytes in {pages} pages")
            }
            FindingKind::UsedTwice { other } => {
                write!(f, "used by a second owner; the page belongs to {other}")
            }
            FindingKind::MarkedFree { .. } => f.write_str("in use but marked as free"),
            FindingKind::Leak { .. } => f.write_str("marked as used, but nobody uses it"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: FindingKind,
    pub page: PageId,
    /// Root of the tree or first page of the blob it was found in.
    pub owner: Option<PageId>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.page)?;
        if let Some(owner) = self.owner {
            write!(f, " of {owner}")?;
        }
        write!(f, ": {}", self.kind)
    }
}

/// Figures of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSummary {
    pub pages: u64,
    pub leaves: u64,
    /// Entries that are not deleted, of whatever transaction.
    pub entries: u64,
}

/// Result of a whole check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Findings that were not taken before.
    pub findings: Vec<Finding>,
    /// Pages in use by trees and blobs.
    pub pages: u64,
    /// Nothing changed meanwhile and every page could be read, so that pages without an owner could be told.
    pub exact: bool,
}
