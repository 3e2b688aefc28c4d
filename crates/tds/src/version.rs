//! Protocol versions and what each of them changes in the layouts.

use crate::{Result, TdsError};

/// A protocol version, oldest first, so that `version >= TdsVersion::V7_2` reads as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TdsVersion {
    /// SQL Server 2000.
    V7_1,
    /// SQL Server 2000 SP1.
    V7_1Rev1,
    /// SQL Server 2005: ALL_HEADERS, `max` types, xml, 64-bit counts.
    V7_2,
    /// SQL Server 2008: date, time, datetime2, datetimeoffset, table-valued parameters.
    V7_3A,
    /// SQL Server 2008 R2: NBCROW.
    V7_3B,
    /// SQL Server 2012 and later: FeatureExt, routing.
    V7_4,
    /// Strict encryption; layouts as in 7.4.
    V8_0,
}

impl TdsVersion {
    /// Version asked for in LOGIN7. Unknown later 7.x are served as 7.4.
    pub fn from_login(dword: u32) -> Result<TdsVersion> {
        Ok(match dword {
            0x7100_0000 => TdsVersion::V7_1,
            0x7100_0001..=0x71FF_FFFF => TdsVersion::V7_1Rev1,
            0x7200_0000..=0x72FF_FFFF => TdsVersion::V7_2,
            0x7300_0000..=0x730A_FFFF => TdsVersion::V7_3A,
            0x730B_0000..=0x73FF_FFFF => TdsVersion::V7_3B,
            0x7400_0000..=0x7FFF_FFFF => TdsVersion::V7_4,
            0x0800_0000..=0x08FF_FFFF => TdsVersion::V8_0,
            found => return Err(TdsError::UnsupportedVersion { found }),
        })
    }

    /// The value in LOGIN7 (little-endian there).
    pub const fn login_value(self) -> u32 {
        match self {
            TdsVersion::V7_1 => 0x7100_0000,
            TdsVersion::V7_1Rev1 => 0x7100_0001,
            TdsVersion::V7_2 => 0x7209_0002,
            TdsVersion::V7_3A => 0x730A_0003,
            TdsVersion::V7_3B => 0x730B_0003,
            TdsVersion::V7_4 => 0x7400_0004,
            TdsVersion::V8_0 => 0x0800_0000,
        }
    }

    /// The value in LOGINACK (big-endian there); only the first 7.1 differs from LOGIN7.
    pub const fn ack_value(self) -> u32 {
        match self {
            TdsVersion::V7_1 => 0x0701_0000,
            other => other.login_value(),
        }
    }

    /// The version that a server's LOGINACK names.
    pub fn from_ack(dword: u32) -> Result<TdsVersion> {
        match dword {
            0x0701_0000 => Ok(TdsVersion::V7_1),
            other => TdsVersion::from_login(other),
        }
    }

    /// ALL_HEADERS, 32-bit UserType and line, 64-bit DONE count, PLP, multi-part table names.
    pub const fn has_wide_fields(self) -> bool {
        self as u8 >= TdsVersion::V7_2 as u8
    }

    /// Does it know date, time, datetime2 and datetimeoffset?
    pub const fn has_new_dates(self) -> bool {
        self as u8 >= TdsVersion::V7_3A as u8
    }

    /// Does it know rows with a bitmap of NULLs?
    pub const fn has_nbc_row(self) -> bool {
        self as u8 >= TdsVersion::V7_3B as u8
    }

    /// Does it know feature extensions?
    pub const fn has_features(self) -> bool {
        self as u8 >= TdsVersion::V7_4 as u8
    }
}
