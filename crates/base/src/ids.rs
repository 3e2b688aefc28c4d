//! Identifiers as newtypes, so that one cannot be taken for another.

use std::fmt;

/// Database number as `DB_ID()` shows it: master 1, tempdb 2, model 3, msdb 4, user databases from 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DatabaseId(pub u16);

/// Page address: file number (1 = primary data file) and page number in that file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PageId {
    pub file: u16,
    pub page: u32,
}

impl PageId {
    /// "No page": page 0 of file 0 never exists.
    pub const NONE: PageId = PageId { file: 0, page: 0 };

    /// The page at this position of this file.
    pub const fn new(file: u16, page: u32) -> PageId {
        PageId { file, page }
    }

    /// Is this the id that stands for no page?
    pub const fn is_none(self) -> bool {
        self.file == 0
    }

    /// Packed form for storage: file in the upper 16 of 48 bits.
    pub const fn to_u64(self) -> u64 {
        ((self.file as u64) << 32) | self.page as u64
    }

    /// The id that [`PageId::to_u64`] packed.
    pub const fn from_u64(packed: u64) -> PageId {
        PageId {
            file: (packed >> 32) as u16,
            page: packed as u32,
        }
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}:{})", self.file, self.page)
    }
}

/// Log sequence number: byte position in the database's endless log stream. Only grows; 0 means "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// No position; smaller than every other one.
    pub const NONE: Lsn = Lsn(0);
    /// Larger than every position.
    pub const MAX: Lsn = Lsn(u64::MAX);

    /// Is this the position that stands for none?
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}:{:08x}", self.0 >> 32, self.0 as u32)
    }
}

/// Id of a writing transaction within one database. 48 bits on disk; only grows; 0 means "none, always committed".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TxnId(pub u64);

impl TxnId {
    /// No transaction; smaller than every id.
    pub const NONE: TxnId = TxnId(0);
    /// The largest id, 48 bits.
    pub const MAX: TxnId = TxnId((1 << 48) - 1);
}
