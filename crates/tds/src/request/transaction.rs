//! Transaction manager requests: begin, commit, roll back and save without a statement.

use super::Headers;
use crate::wire::{Reader, put_b_varbyte, put_us_varbyte, text};
use crate::{Result, TdsError, TdsVersion};

const GET_DTC_ADDRESS: u16 = 0;
const PROPAGATE: u16 = 1;
const BEGIN: u16 = 5;
const PROMOTE: u16 = 6;
const COMMIT: u16 = 7;
const ROLLBACK: u16 = 8;
const SAVE: u16 = 9;

/// In the flags of commit and rollback: begin anew at once.
const BEGIN_NEXT: u8 = 0x01;

/// What a new transaction asks for; `Keep` leaves the session's level as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Isolation {
    Keep = 0,
    ReadUncommitted = 1,
    ReadCommitted = 2,
    RepeatableRead = 3,
    Serializable = 4,
    Snapshot = 5,
}

/// How a transaction begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// The level that the transaction sets for the session.
    pub isolation: Isolation,
    /// Empty if the client gave none.
    pub name: String,
}

/// A request to the transaction manager ([MS-TDS] 2.2.6.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionRequest {
    /// BEGIN TRANSACTION.
    Begin(Begin),
    /// COMMIT, and at once another transaction if `next` is given.
    Commit { name: String, next: Option<Begin> },
    /// ROLLBACK: to the savepoint `name` if there is one, whole otherwise.
    Rollback { name: String, next: Option<Begin> },
    /// SAVE TRANSACTION.
    Save { name: String },
    /// Asks for the address of the distributed transaction coordinator.
    GetDtcAddress { data: Vec<u8> },
    /// Joins a distributed transaction.
    Propagate { data: Vec<u8> },
    /// Makes the local transaction a distributed one.
    Promote,
}

impl TransactionRequest {
    /// Reads the message's payload.
    pub fn decode(body: &[u8], version: TdsVersion) -> Result<(Headers, TransactionRequest)> {
        let mut reader = Reader::new(body);
        let headers = Headers::decode(&mut reader, version)?;
        let request = match reader.u16("transaction request")? {
            GET_DTC_ADDRESS => TransactionRequest::GetDtcAddress {
                data: rest_data(&mut reader)?,
            },
            PROPAGATE => TransactionRequest::Propagate {
                data: rest_data(&mut reader)?,
            },
            BEGIN => TransactionRequest::Begin(decode_begin(&mut reader)?),
            PROMOTE => TransactionRequest::Promote,
            COMMIT => {
                let (name, next) = decode_end(&mut reader)?;
                TransactionRequest::Commit { name, next }
            }
            ROLLBACK => {
                let (name, next) = decode_end(&mut reader)?;
                TransactionRequest::Rollback { name, next }
            }
            SAVE => TransactionRequest::Save {
                name: decode_name(&mut reader)?,
            },
            found => {
                let expected = "0, 1 or 5 to 9";
                return Err(TdsError::Unexpected {
                    what: "transaction request",
                    expected,
                    found: found.into(),
                });
            }
        };
        Ok((headers, request))
    }

    /// Appends the message's payload.
    pub fn encode(&self, headers: &Headers, version: TdsVersion, out: &mut Vec<u8>) {
        headers.encode(version, out);
        out.extend_from_slice(&self.number().to_le_bytes());
        match self {
            TransactionRequest::Begin(begin) => put_begin(begin, out),
            TransactionRequest::Commit { name, next }
            | TransactionRequest::Rollback { name, next } => {
                put_name(name, out);
                out.push(if next.is_some() { BEGIN_NEXT } else { 0 });
                if let Some(begin) = next {
                    put_begin(begin, out);
                }
            }
            TransactionRequest::Save { name } => put_name(name, out),
            TransactionRequest::GetDtcAddress { data } | TransactionRequest::Propagate { data } => {
                put_us_varbyte(out, data);
            }
            TransactionRequest::Promote => {}
        }
    }

    const fn number(&self) -> u16 {
        match self {
            TransactionRequest::Begin(_) => BEGIN,
            TransactionRequest::Commit { .. } => COMMIT,
            TransactionRequest::Rollback { .. } => ROLLBACK,
            TransactionRequest::Save { .. } => SAVE,
            TransactionRequest::GetDtcAddress { .. } => GET_DTC_ADDRESS,
            TransactionRequest::Propagate { .. } => PROPAGATE,
            TransactionRequest::Promote => PROMOTE,
        }
    }
}

fn rest_data(reader: &mut Reader<'_>) -> Result<Vec<u8>> {
    if reader.is_empty() {
        return Ok(Vec::new());
    }
    Ok(reader.us_varbyte("transaction request data")?.to_vec())
}

fn decode_begin(reader: &mut Reader<'_>) -> Result<Begin> {
    let isolation = match reader.u8("isolation level")? {
        0 => Isolation::Keep,
        1 => Isolation::ReadUncommitted,
        2 => Isolation::ReadCommitted,
        3 => Isolation::RepeatableRead,
        4 => Isolation::Serializable,
        5 => Isolation::Snapshot,
        found => {
            let expected = "0 to 5";
            return Err(TdsError::Unexpected {
                what: "isolation level",
                expected,
                found: found.into(),
            });
        }
    };
    Ok(Begin {
        isolation,
        name: decode_name(reader)?,
    })
}

fn decode_end(reader: &mut Reader<'_>) -> Result<(String, Option<Begin>)> {
    let name = decode_name(reader)?;
    let flags = reader.u8("transaction flags")?;
    let next = if flags & BEGIN_NEXT != 0 {
        Some(decode_begin(reader)?)
    } else {
        None
    };
    Ok((name, next))
}

/// Counted in bytes, unlike other names.
fn decode_name(reader: &mut Reader<'_>) -> Result<String> {
    text::from_utf16(reader.b_varbyte("transaction name")?, "transaction name").map(String::from)
}

fn put_begin(begin: &Begin, out: &mut Vec<u8>) {
    out.push(begin.isolation as u8);
    put_name(&begin.name, out);
}

fn put_name(name: &str, out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    text::put_utf16_limited(&mut bytes, name, usize::from(u8::MAX / 2));
    put_b_varbyte(out, &bytes);
}
