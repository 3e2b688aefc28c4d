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
    /// USE is to be answered with message 5701.
    pub const USE_DB_NOTICE: u8 = 0x20;
    /// Without the database asked for there shall be no login.
    pub const DATABASE_FATAL: u8 = 0x40;
    /// SET LANGUAGE is to be answered with message 5703.
    pub const LANGUAGE_NOTICE: u8 = 0x80;
}

/// Bits of `option_flags2`.
pub mod option2 {
    /// Without the language asked for there shall be no login.
    pub const LANGUAGE_FATAL: u8 = 0x01;
    /// The session starts with the ANSI options on.
    pub const ODBC: u8 = 0x02;
    /// Authentication by SSPI in place of a password.
    pub const INTEGRATED_SECURITY: u8 = 0x80;
}

/// Bits of `type_flags`.
pub mod type_flag {
    /// ApplicationIntent=ReadOnly.
    pub const READ_ONLY_INTENT: u8 = 0x20;
}

/// Bits of `option_flags3`.
pub mod option3 {
    /// `new_password` holds the password that the login shall have from now on.
    pub const CHANGE_PASSWORD: u8 = 0x01;
    /// The client copes with collations that it does not know.
    pub const UNKNOWN_COLLATION: u8 = 0x08;
    /// A feature extension block follows.
    pub const EXTENSION: u8 = 0x10;
}

/// LOGIN7 as a server reads it and a client writes it. Writing refuses a text of more than 128 UTF-16
/// units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login7 {
    /// The version that the client asks for; the server's LOGINACK decides.
    pub version: TdsVersion,
    /// 0 leaves the choice to the server; see `packet::negotiate_packet_bytes`.
    pub packet_bytes: u32,
    /// Version of the client's library.
    pub client_version: u32,
    /// Process id of the client, `host_process_id` of sys.dm_exec_sessions.
    pub client_pid: u32,
    /// Of the connection that a client reconnects; unused otherwise.
    pub connection_id: u32,
    /// `option1` bits.
    pub option_flags1: u8,
    /// `option2` bits.
    pub option_flags2: u8,
    /// `type_flag` bits; the low four are the dialect, 0 for T-SQL.
    pub type_flags: u8,
    /// `option3` bits.
    pub option_flags3: u8,
    /// Minutes from UTC; servers do not use it.
    pub time_zone: i32,
    /// Locale of the client, such as 0x0409 for English of the United States.
    pub lcid: u32,
    /// Name of the client's machine, as HOST_NAME() shows it.
    pub host_name: String,
    /// Name of the login.
    pub user_name: String,
    /// Scrambled on the wire, which protects nothing: that is what TLS is for.
    pub password: Secret,
    /// Name of the program, as APP_NAME() shows it.
    pub app_name: String,
    /// The server as the client calls it.
    pub server_name: String,
    /// Name of the client's library, `client_interface_name` of sys.dm_exec_sessions.
    pub library_name: String,
    /// Empty for the login's default.
    pub language: String,
    /// Empty for the login's default.
    pub database: String,
    /// The client's network address.
    pub client_id: [u8; 6],
    /// First step of integrated authentication.
    pub sspi: Vec<u8>,
    /// File that the client wants attached as its database.
    pub attach_db_file: String,
    /// See `option3::CHANGE_PASSWORD`.
    pub new_password: Secret,
    /// At most 64.
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

    /// Does the client log in without a password, by SSPI?
    pub const fn wants_integrated_security(&self) -> bool {
        self.option_flags2 & option2::INTEGRATED_SECURITY != 0
    }

    /// Does the client say that it will only read (ApplicationIntent=ReadOnly)?
    pub const fn is_read_only(&self) -> bool {
        self.type_flags & type_flag::READ_ONLY_INTENT != 0
    }

    /// What the client sent for the feature with this number, if it asked for it.
    pub fn feature(&self, id: u8) -> Option<&Feature> {
        self.features.iter().find(|feature| feature.id == id)
    }
}
