//! ENVCHANGE: what changed in the session that a client has to know.

use super::token_byte;
use crate::types::WireCollation;
use crate::wire::{
    Reader, end_u16_length, put_b_varbyte, put_b_varchar, put_us_varchar, start_u16_length,
};
use crate::{Result, TdsError, TdsVersion};

const DATABASE: u8 = 1;
const LANGUAGE: u8 = 2;
const PACKET_SIZE: u8 = 4;
const COLLATION: u8 = 7;
const BEGIN: u8 = 8;
const COMMIT: u8 = 9;
const ROLLBACK: u8 = 10;
const MIRROR: u8 = 13;
const TRANSACTION_ENDED: u8 = 17;
const RESET_DONE: u8 = 18;
const USER_INSTANCE: u8 = 19;
const ROUTING: u8 = 20;

/// A change of the session that the client must know of ([MS-TDS] 2.2.7.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvChange {
    /// USE, or the database of the login.
    Database { new: String, old: String },
    /// SET LANGUAGE, or the language of the login.
    Language { new: String, old: String },
    /// What the server granted of the size asked in LOGIN7, in bytes.
    PacketSize { new: u32, old: u32 },
    /// Collation of the current database, by which `varchar` parameters are encoded.
    Collation {
        new: WireCollation,
        old: Option<WireCollation>,
    },
    /// Descriptors are never 0 for an open transaction; the client repeats them in its requests.
    BeginTransaction { descriptor: u64 },
    /// The transaction ended by COMMIT; requests carry descriptor 0 again.
    CommitTransaction { descriptor: u64 },
    /// The transaction ended by ROLLBACK or by an error.
    RollbackTransaction { descriptor: u64 },
    /// A transaction of another connection, joined here, ended.
    TransactionEnded { descriptor: u64 },
    /// Where to log in when this server does not answer.
    MirrorPartner { server: String },
    /// Name of the user's own instance, which was started for the login.
    UserInstance { name: String },
    /// The session was reset as the request's first packet asked.
    ResetDone,
    /// The client must log in elsewhere: read-only routing.
    Routing(Routing),
    /// A kind that has no meaning here; kept for clients to show.
    Other { kind: u8, data: Vec<u8> },
}

/// Where the client should log in instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// TCP port.
    pub port: u16,
    /// Name or address.
    pub server: String,
}

impl EnvChange {
    const fn kind(&self) -> u8 {
        match self {
            EnvChange::Database { .. } => DATABASE,
            EnvChange::Language { .. } => LANGUAGE,
            EnvChange::PacketSize { .. } => PACKET_SIZE,
            EnvChange::Collation { .. } => COLLATION,
            EnvChange::BeginTransaction { .. } => BEGIN,
            EnvChange::CommitTransaction { .. } => COMMIT,
            EnvChange::RollbackTransaction { .. } => ROLLBACK,
            EnvChange::TransactionEnded { .. } => TRANSACTION_ENDED,
            EnvChange::MirrorPartner { .. } => MIRROR,
            EnvChange::UserInstance { .. } => USER_INSTANCE,
            EnvChange::ResetDone => RESET_DONE,
            EnvChange::Routing(_) => ROUTING,
            EnvChange::Other { kind, .. } => *kind,
        }
    }

    /// Does a client of `version` know this kind?
    const fn is_known_to(&self, version: TdsVersion) -> bool {
        match self.kind() {
            0..=COLLATION => true,
            ROUTING => version.has_features(),
            _ => version.has_wide_fields(),
        }
    }

    /// Appends the token, or nothing for a client too old to know it.
    pub fn encode(&self, version: TdsVersion, out: &mut Vec<u8>) {
        if !self.is_known_to(version) {
            return;
        }
        out.push(token_byte::ENV_CHANGE);
        let length = start_u16_length(out);
        out.push(self.kind());
        self.put_values(out);
        end_u16_length(out, length);
    }

    fn put_values(&self, out: &mut Vec<u8>) {
        match self {
            EnvChange::Database { new, old } | EnvChange::Language { new, old } => {
                put_b_varchar(out, new);
                put_b_varchar(out, old);
            }
            EnvChange::PacketSize { new, old } => {
                put_b_varchar(out, &new.to_string());
                put_b_varchar(out, &old.to_string());
            }
            EnvChange::Collation { new, old } => {
                put_b_varbyte(out, &new.0);
                put_b_varbyte(out, old.as_ref().map_or(&[], |old| &old.0));
            }
            EnvChange::BeginTransaction { descriptor } => {
                put_b_varbyte(out, &descriptor.to_le_bytes());
                out.push(0);
            }
            EnvChange::CommitTransaction { descriptor }
            | EnvChange::RollbackTransaction { descriptor }
            | EnvChange::TransactionEnded { descriptor } => {
                out.push(0);
                put_b_varbyte(out, &descriptor.to_le_bytes());
            }
            EnvChange::MirrorPartner { server: name } | EnvChange::UserInstance { name } => {
                put_b_varchar(out, name);
                out.push(0);
            }
            EnvChange::ResetDone => out.extend_from_slice(&[0, 0]),
            EnvChange::Routing(routing) => put_routing(routing, out),
            EnvChange::Other { data, .. } => out.extend_from_slice(data),
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<EnvChange> {
        let length = usize::from(reader.u16("ENVCHANGE length")?);
        let mut content = reader.sub(length, "ENVCHANGE")?;
        let kind = content.u8("ENVCHANGE kind")?;
        let names = |content: &mut Reader<'_>| -> Result<(String, String)> {
            Ok((
                content.b_varchar("new value")?,
                content.b_varchar("old value")?,
            ))
        };
        Ok(match kind {
            DATABASE => names(&mut content).map(|(new, old)| EnvChange::Database { new, old })?,
            LANGUAGE => names(&mut content).map(|(new, old)| EnvChange::Language { new, old })?,
            PACKET_SIZE => {
                let (new, old) = names(&mut content)?;
                EnvChange::PacketSize {
                    new: number(&new)?,
                    old: number(&old).unwrap_or(0),
                }
            }
            COLLATION => decode_collation(&mut content)?,
            BEGIN => EnvChange::BeginTransaction {
                descriptor: descriptor(content.b_varbyte("descriptor")?)?,
            },
            COMMIT => EnvChange::CommitTransaction {
                descriptor: old_descriptor(&mut content)?,
            },
            ROLLBACK => EnvChange::RollbackTransaction {
                descriptor: old_descriptor(&mut content)?,
            },
            TRANSACTION_ENDED => EnvChange::TransactionEnded {
                descriptor: old_descriptor(&mut content)?,
            },
            MIRROR => EnvChange::MirrorPartner {
                server: content.b_varchar("partner")?,
            },
            USER_INSTANCE => EnvChange::UserInstance {
                name: content.b_varchar("instance")?,
            },
            RESET_DONE => EnvChange::ResetDone,
            ROUTING => EnvChange::Routing(decode_routing(&mut content)?),
            kind => EnvChange::Other {
                kind,
                data: content.take_rest().to_vec(),
            },
        })
    }
}

fn put_routing(routing: &Routing, out: &mut Vec<u8>) {
    let length = start_u16_length(out);
    out.push(0);
    out.extend_from_slice(&routing.port.to_le_bytes());
    put_us_varchar(out, &routing.server);
    end_u16_length(out, length);
    out.extend_from_slice(&[0, 0]);
}

fn decode_routing(content: &mut Reader<'_>) -> Result<Routing> {
    content.u16("routing length")?;
    let protocol = content.u8("routing protocol")?;
    if protocol != 0 {
        let expected = "0, TCP";
        return Err(TdsError::Unexpected {
            what: "routing protocol",
            expected,
            found: protocol.into(),
        });
    }
    Ok(Routing {
        port: content.u16("routing port")?,
        server: content.us_varchar("routing server")?,
    })
}

fn decode_collation(content: &mut Reader<'_>) -> Result<EnvChange> {
    let new = content.b_varbyte("new collation")?;
    let old = content.b_varbyte("old collation")?;
    let new = WireCollation(new.try_into().unwrap_or([0; 5]));
    Ok(EnvChange::Collation {
        new,
        old: old.try_into().ok().map(WireCollation),
    })
}

fn old_descriptor(content: &mut Reader<'_>) -> Result<u64> {
    content.b_varbyte("new value")?;
    descriptor(content.b_varbyte("descriptor")?)
}

fn descriptor(bytes: &[u8]) -> Result<u64> {
    let expected = "8 bytes";
    let found = bytes.len() as u64;
    let bytes = bytes.try_into().map_err(|_| TdsError::Unexpected {
        what: "descriptor",
        expected,
        found,
    })?;
    Ok(u64::from_le_bytes(bytes))
}

fn number(text: &str) -> Result<u32> {
    let found = text.len() as u64;
    text.parse().map_err(|_| TdsError::Unexpected {
        what: "packet size",
        expected: "a decimal number",
        found,
    })
}
