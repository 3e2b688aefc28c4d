//! What nodes say to each other.
//!
//! | packet | from | means |
//! |---|---|---|
//! | `Core` | all | the register's own messages |
//! | `PreVote`, `PreVoted` | who hears no leader | would you vote for me? Nothing is promised, so a node that is cut off disturbs nobody |
//! | `Round`, `Rounded` | leader, members | nobody leads with a higher ballot, as far as I know; also the sign of life |
//! | `LeaseAsk`, `LeaseOk` | owner of groups, leader | may I act for so long from when I asked? |
//! | `Ask`, `Answer` | any node, leader | a wish, and what became of it |
//! | `Join`, `Joined` | a new node, a member | let me in |

use crate::codec::{CodecError, Reader, Writer};
use crate::command::{Command, Outcome};
use crate::state::{GROUPS_MAX, GroupId};
use daruma_quorum::{Ballot, Configuration, Message, Version};

/// Bytes of a wish or its outcome.
const JSON_BYTES_MAX: usize = 160 << 10;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    Core(Message),
    PreVote {
        ballot: Ballot,
        version: Version,
    },
    PreVoted {
        /// The ballot that was asked about.
        asked: Ballot,
        /// The highest that the member has seen.
        ballot: Ballot,
        granted: bool,
        newer: Option<(Configuration, bool)>,
    },
    Round {
        ballot: Ballot,
        seq: u64,
    },
    Rounded {
        ballot: Ballot,
        seq: u64,
        /// What the member holds.
        version: Version,
        settled: bool,
        /// It wants to stop, and gives its vote away.
        leaving: bool,
        /// Does it reach the witness? `None`: it has not found out.
        reaches_witness: Option<bool>,
    },
    LeaseAsk {
        seq: u64,
        owned: Vec<(GroupId, u64)>,
    },
    LeaseOk {
        seq: u64,
    },
    Ask {
        id: u64,
        command: Command,
    },
    Answer {
        id: u64,
        outcome: Outcome,
    },
    Join {
        name: String,
        address: String,
        fingerprint: [u8; 32],
    },
    Joined(Outcome),
}

impl Packet {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        match self {
            Packet::Core(message) => {
                w.u8(0);
                w.message(message);
            }
            Packet::PreVote { ballot, version } => {
                w.u8(1);
                w.ballot(*ballot);
                w.version(*version);
            }
            Packet::PreVoted {
                asked,
                ballot,
                granted,
                newer,
            } => {
                w.u8(2);
                w.ballot(*asked);
                w.ballot(*ballot);
                w.flag(*granted);
                w.optional(newer.as_ref(), Writer::stored);
            }
            Packet::Round { ballot, seq } => {
                w.u8(3);
                w.ballot(*ballot);
                w.u64(*seq);
            }
            Packet::Rounded {
                ballot,
                seq,
                version,
                settled,
                leaving,
                reaches_witness,
            } => {
                w.u8(4);
                w.ballot(*ballot);
                w.u64(*seq);
                w.version(*version);
                w.flag(*settled);
                w.flag(*leaving);
                w.optional(*reaches_witness, Writer::flag);
            }
            Packet::LeaseAsk { seq, owned } => {
                w.u8(5);
                w.u64(*seq);
                w.u16(owned.len() as u16);
                for (group, epoch) in owned {
                    w.u128(u128::from_be_bytes(*group));
                    w.u64(*epoch);
                }
            }
            Packet::LeaseOk { seq } => {
                w.u8(6);
                w.u64(*seq);
            }
            Packet::Ask { id, command } => {
                w.u8(7);
                w.u64(*id);
                w.bytes(&json(command));
            }
            Packet::Answer { id, outcome } => {
                w.u8(8);
                w.u64(*id);
                w.bytes(&json(outcome));
            }
            Packet::Join {
                name,
                address,
                fingerprint,
            } => {
                w.u8(9);
                w.bytes(name.as_bytes());
                w.bytes(address.as_bytes());
                w.bytes(fingerprint);
            }
            Packet::Joined(outcome) => {
                w.u8(10);
                w.bytes(&json(outcome));
            }
        }
        w.0
    }

    /// From bytes of another node.
    pub fn decode(bytes: &[u8]) -> Result<Packet, CodecError> {
        let mut r = Reader::new(bytes);
        let packet = match r.u8()? {
            0 => Packet::Core(r.message()?),
            1 => Packet::PreVote {
                ballot: r.ballot()?,
                version: r.version()?,
            },
            2 => Packet::PreVoted {
                asked: r.ballot()?,
                ballot: r.ballot()?,
                granted: r.flag()?,
                newer: r.optional(Reader::stored)?,
            },
            3 => Packet::Round {
                ballot: r.ballot()?,
                seq: r.u64()?,
            },
            4 => Packet::Rounded {
                ballot: r.ballot()?,
                seq: r.u64()?,
                version: r.version()?,
                settled: r.flag()?,
                leaving: r.flag()?,
                reaches_witness: r.optional(Reader::flag)?,
            },
            5 => Packet::LeaseAsk {
                seq: r.u64()?,
                owned: owned(&mut r)?,
            },
            6 => Packet::LeaseOk { seq: r.u64()? },
            7 => Packet::Ask {
                id: r.u64()?,
                command: from_json(r.bytes(JSON_BYTES_MAX)?)?,
            },
            8 => Packet::Answer {
                id: r.u64()?,
                outcome: from_json(r.bytes(JSON_BYTES_MAX)?)?,
            },
            9 => Packet::Join {
                name: text(r.bytes(1024)?)?,
                address: text(r.bytes(1024)?)?,
                fingerprint: <[u8; 32]>::try_from(r.bytes(32)?)
                    .map_err(|_| CodecError("fingerprint"))?,
            },
            10 => Packet::Joined(from_json(r.bytes(JSON_BYTES_MAX)?)?),
            _ => return Err(CodecError("packet")),
        };
        r.end()?;
        Ok(packet)
    }
}

fn owned(r: &mut Reader<'_>) -> Result<Vec<(GroupId, u64)>, CodecError> {
    let count = usize::from(r.u16()?);
    if count > GROUPS_MAX {
        return Err(CodecError("number of groups"));
    }
    (0..count)
        .map(|_| Ok((r.u128()?.to_be_bytes(), r.u64()?)))
        .collect()
}

fn text(bytes: &[u8]) -> Result<String, CodecError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| CodecError("text"))
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    // Numbers, texts and lists of them are always JSON.
    serde_json::to_vec(value).unwrap_or_default()
}

fn from_json<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    serde_json::from_slice(bytes).map_err(|_| CodecError("JSON"))
}
