//! Extent of encryption: the client's wish against the server's policy.

use crate::{Result, TdsError};

/// The ENCRYPTION option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Encryption {
    /// Login only.
    Off = 0,
    /// The whole connection.
    On = 1,
    /// The sender cannot encrypt.
    NotSupported = 2,
    /// The whole connection, or none at all.
    Required = 3,
    /// Sent inside the TLS of TDS 8.0, where the option means nothing.
    Strict = 4,
}

impl Encryption {
    /// The high bit announces a client certificate, which changes nothing here.
    pub(super) fn from_byte(byte: u8) -> Result<Encryption> {
        match byte & 0x7F {
            0 => Ok(Encryption::Off),
            1 => Ok(Encryption::On),
            2 => Ok(Encryption::NotSupported),
            3 => Ok(Encryption::Required),
            4 => Ok(Encryption::Strict),
            _ => {
                let expected = "0 to 4";
                Err(TdsError::Unexpected {
                    what: "ENCRYPTION",
                    expected,
                    found: byte.into(),
                })
            }
        }
    }
}

/// What a server is able and told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEncryption {
    /// TLS cannot be offered.
    NoCertificate,
    /// Encrypts what the client wishes.
    Optional,
    /// Clients that cannot encrypt are turned away.
    Forced,
}

/// What both sides do after the PRELOGIN reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncryptionPlan {
    /// No TLS at all.
    Plain,
    /// TLS for exactly the LOGIN7 message.
    LoginOnly,
    /// TLS from the login on.
    Full,
    /// The wishes do not meet: the client will leave; a server that waits for it may close.
    Refused,
}

/// The server's reply and what follows from it.
pub const fn negotiate(
    client: Encryption,
    server: ServerEncryption,
) -> (Encryption, EncryptionPlan) {
    use Encryption as E;
    use ServerEncryption as S;
    match (client, server) {
        (E::Off | E::NotSupported, S::NoCertificate) => (E::NotSupported, EncryptionPlan::Plain),
        (E::On | E::Required | E::Strict, S::NoCertificate) => {
            (E::NotSupported, EncryptionPlan::Refused)
        }
        (E::NotSupported, S::Optional) => (E::NotSupported, EncryptionPlan::Plain),
        (E::NotSupported, S::Forced) => (E::Required, EncryptionPlan::Refused),
        (E::Off, S::Optional) => (E::Off, EncryptionPlan::LoginOnly),
        (E::Off, S::Forced) => (E::Required, EncryptionPlan::Full),
        (E::On | E::Required | E::Strict, S::Optional | S::Forced) => (E::On, EncryptionPlan::Full),
    }
}
