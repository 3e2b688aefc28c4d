//! LOGIN7: who logs in, from where, with which options.
//!
//! Layout: a fixed part whose text fields are (offset, length) pairs into the rest; 86 bytes up to TDS 7.1, 94 after.
//! Invariant: every offset and length lies inside the structure's own length, which lies inside the message.

mod decode;
mod encode;
mod feature;
mod secret;

#[cfg(test)]
mod tests;

pub use feature::{Feature, feature_id};
pub use secret::Secret;

use crate::TdsVersion;

/// Bits of `option_flags1`.
pub mod option1 {
    pub const USE_DB_NOTICE: u8 = 0x20;
    pub const DATABASE_FATAL: u8 = 0x40;
    pub const LANGUAGE_NOTICE: u8 = 0x80;
}

/// Bits of `option_flags2`.
pub mod option2 {
    pub const LANGUAGE_FATAL: u8 = 0x01;
    /// The session starts with the ANSI options on.
    pub const ODBC: u8 = 0x02;
    pub const INTEGRATED_SECURITY: u8 = 0x80;
}

/// Bits of `type_flags`.
pub mod type_flag {
    pub const READ_ONLY_INTENT: u8 = 0x20;
}

/// Bits of `option_flags3`.
pub mod option3 {
    pub const CHANGE_PASSWORD: u8 = 0x01;
    pub const UNKNOWN_COLLATION: u8 = 0x08;
    pub const EXTENSION: u8 = 0x10;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login7 {
    pub version: TdsVersion,
    /// 0 leaves the choice to the server; see `packet::negotiate_packet_bytes`.
    pub packet_bytes: u32,
    pub client_version: u32,
    pub client_pid: u32,
    pub connection_id: u32,
    pub option_flags1: u8,
    pub option_flags2: u8,
    pub type_flags: u8,
    pub option_flags3: u8,
    pub time_zone: i32,
    pub lcid: u32,
    pub host_name: String,
    pub user_name: String,
    pub password: Secret,
    pub app_name: String,
    pub server_name: String,
    pub library_name: String,
    pub language: String,
    pub database: String,
    pub client_id: [u8; 6],
    pub sspi: Vec<u8>,
    pub attach_db_file: String,
    pub new_password: Secret,
    pub features: Vec<Feature>,
}

impl Login7 {
    /// A client's login in the manner of an ODBC program.
    pub fn new(version: TdsVersion) -> Login7 {
        Login7 {
            version,
            packet_bytes: 0,
            client_version: 0,
            client_pid: 0,
            connection_id: 0,
            option_flags1: option1::USE_DB_NOTICE
                | option1::DATABASE_FATAL
                | option1::LANGUAGE_NOTICE,
            option_flags2: option2::LANGUAGE_FATAL | option2::ODBC,
            type_flags: 0,
            option_flags3: 0,
            time_zone: 0,
            lcid: 0x0409,
            host_name: String::new(),
            user_name: String::new(),
            password: Secret::default(),
            app_name: String::new(),
            server_name: String::new(),
            library_name: String::new(),
            language: String::new(),
            database: String::new(),
            client_id: [0; 6],
            sspi: Vec::new(),
            attach_db_file: String::new(),
            new_password: Secret::default(),
            features: Vec::new(),
        }
    }

    /// Does the session start with the ANSI options on?
    pub const fn is_odbc(&self) -> bool {
        self.option_flags2 & option2::ODBC != 0
    }

    pub const fn wants_integrated_security(&self) -> bool {
        self.option_flags2 & option2::INTEGRATED_SECURITY != 0
    }

    pub const fn is_read_only(&self) -> bool {
        self.type_flags & type_flag::READ_ONLY_INTENT != 0
    }

    pub fn feature(&self, id: u8) -> Option<&Feature> {
        self.features.iter().find(|feature| feature.id == id)
    }
}
