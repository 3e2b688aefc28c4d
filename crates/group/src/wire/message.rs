//! The messages.
//!
//! | message | from | means |
//! |---|---|---|
//! | `Hello`, `Welcome` | both | who speaks, and in which version; the first on a connection |
//! | `Lead` | primary | this database has an epoch; answered by `Ack`, `Depose` or `Rejoin` |
//! | `Block` | primary | the next log block |
//! | `Quorum` | primary | how far `quorum` is, where no block says it |
//! | `Listed` | primary | the judge's record has changed |
//! | `Ack` | secondary | what is received, hard and applied there |
//! | `Depose` | secondary | a later epoch is promised, or led |
//! | `Rejoin` | secondary | its log parts from the primary's below what may be on its pages |
//! | `Ask`, `Judged` | both | a request to the judge whose record lies with the other, and the answer |
//! | `Grant` | receiver | so many bytes more may come |
//! | `Ping`, `Pong` | both | the link lives; the clock comes back |
//! | `Bye` | both | why the connection ends |
//! | `Define` | primary | what the group is: its definition, which this room hands on as it is |
//! | `Rest` | secondary | it takes no log of this database for now, or takes it again |
//! | `Packet` | both | bytes of another room that uses these connections: nodes of a cluster |
//! | `SeedAsk`, `Seed` | new secondary, primary | a copy of a database, on a connection of its own |
//! | `PageAsk`, `PageGiven` | who lost a page, who has it | a page as it is when everything below a position is redone |
//! | `Poll`, `Voted` | who leads or is to lead, voters | what a voter is asked, and its vote, where a manager outside promotes |

use super::bytes::{Reader, Writer};
use super::{BLOCK_BYTES_MAX, WireError};
use crate::commit::{
    BALLOT_NUMBER_MAX, Call, EpochId, Fork, History, Record, ReplicaId, Reply, Request, Verdict,
    Vote, Word,
};
use daruma_base::{Lsn, PageId};
use std::sync::Arc;

/// Bytes of a server's name.
pub const NAME_BYTES_MAX: usize = 256;
/// Bytes of a reason in `Bye`.
pub const REASON_BYTES_MAX: usize = 256;

pub(super) const KIND_HELLO: u8 = 0;
pub(super) const KIND_BLOCK: u8 = 3;
pub(super) const KIND_BYE: u8 = 13;
pub(super) const KIND_DEFINE: u8 = 14;
pub(super) const KIND_SEED: u8 = 16;
const KIND_SEED_ASK: u8 = 17;
pub(super) const KIND_PACKET: u8 = 18;
const KIND_PAGE_ASK: u8 = 19;
pub(super) const KIND_PAGE_GIVEN: u8 = 20;
const KIND_POLL: u8 = 21;
const KIND_VOTED: u8 = 22;
pub(super) const KIND_MAX: u8 = KIND_VOTED;

/// Bytes of a group's definition.
pub const DEFINITION_BYTES_MAX: usize = 256 << 10;
/// Bytes of a packet.
pub const PACKET_BYTES_MAX: usize = 256 << 10;
/// Bytes of a part of a copy.
pub const SEED_BYTES_MAX: usize = 64 << 10;
/// Bytes of a page.
pub const PAGE_BYTES: usize = 8192;
/// Bytes of an answer's body beside the page: database, epoch, which page, and the position.
pub(super) const PAGE_GIVEN_BYTES: usize = 16 + 24 + 8 + 8;
/// Bytes of a seed's frame beside its part: head and database.
const SEED_FRAME_BYTES: usize = super::FRAME_HEADER_BYTES + 16;

/// How a block's bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Codec {
    /// As they are.
    Plain,
    /// LZ4 block format.
    Lz4,
    /// A zstd frame.
    Zstd,
}

impl Codec {
    /// Every codec, the cheapest first.
    pub const ALL: [Codec; 3] = [Codec::Plain, Codec::Lz4, Codec::Zstd];

    /// Its number in a message.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The codec that has this number.
    pub fn from_code(code: u8) -> Result<Codec, WireError> {
        let found = Codec::ALL.into_iter().find(|c| c.code() == code);
        found.ok_or(WireError::Body("codec"))
    }
}

/// The codecs that a side understands. Bits that this build does not know are left out when two sides agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codecs(pub u8);

impl Codecs {
    /// Those of this build.
    pub const OURS: Codecs = Codecs(0b111 | Codecs::PACKED_SEEDS);
    /// Parts of a copy may be packed, too.
    const PACKED_SEEDS: u8 = 0b1000;

    /// May parts of a copy be packed?
    pub const fn packs_seeds(self) -> bool {
        self.0 & Codecs::PACKED_SEEDS != 0
    }

    /// Is this one of them? Plain always is.
    pub fn has(self, codec: Codec) -> bool {
        codec == Codec::Plain || self.0 & 1 << codec.code() != 0
    }

    /// Those that both sides understand.
    #[must_use]
    pub const fn and(self, other: Codecs) -> Codecs {
        Codecs(self.0 & other.0)
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Log and everything that goes with it.
    Member,
    /// A copy of a database, so that nothing else waits behind it.
    Seed,
}

/// Greeting of the side that connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest and newest version that it speaks.
    pub versions: (u16, u16),
    /// Id of the group.
    pub group: u128,
    /// Its place in the group.
    pub replica: ReplicaId,
    /// Whom it means to speak to.
    pub to: ReplicaId,
    /// Its server's name.
    pub name: String,
    /// Codecs that it understands.
    pub codecs: Codecs,
    /// Bytes of blocks that it takes before it grants more.
    pub window_bytes: u32,
    /// What it connects for.
    pub purpose: Purpose,
}

/// Greeting of the side that was connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version from here on.
    pub version: u16,
    /// Its server's name.
    pub name: String,
    /// Codecs that it understands.
    pub codecs: Codecs,
    /// Bytes of blocks that it takes before it grants more.
    pub window_bytes: u32,
}

/// A primary's epoch of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeadTold {
    /// The epoch.
    pub epoch: EpochId,
    /// Of the primary's log.
    pub history: History,
    /// As the judge has it.
    pub record: Record,
}

/// A log block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The epoch that its sender leads.
    pub epoch: EpochId,
    /// Where it begins.
    pub first: Lsn,
    /// Where the next one begins.
    pub end: Lsn,
    /// Hard on all participants, as the primary knows.
    pub quorum: Lsn,
    /// Hard on the primary.
    pub primary_here: Lsn,
    /// The primary's clock, for the acknowledgement to repeat.
    pub clock_us: u64,
    /// How `bytes` are packed.
    pub codec: Codec,
    /// Length when they are unpacked.
    pub plain_bytes: u32,
    /// Header and records, without padding.
    pub bytes: Arc<[u8]>,
}

/// Bytes of a block's frame beside its bytes: head, database, and what stands before the bytes.
const BLOCK_FRAME_BYTES: usize = super::FRAME_HEADER_BYTES + 16 + 24 + 5 * 8 + 1 + 4;

impl Block {
    /// Bytes of its frame, which flow control counts.
    pub fn frame_bytes(&self) -> usize {
        BLOCK_FRAME_BYTES + self.bytes.len()
    }
}

/// What a secondary has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The epoch that it promised.
    pub epoch: EpochId,
    /// End of its log.
    pub received: Lsn,
    /// Hard there.
    pub here: Lsn,
    /// Redone and shown there.
    pub applied: Lsn,
    /// Oldest position that a reader there may need.
    pub pin: Lsn,
    /// The clock of the newest block that it covers.
    pub clock_us: u64,
}

/// A page of a database that one replica lost and another has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageWanted {
    /// The epoch that both are in.
    pub epoch: EpochId,
    /// Which page.
    pub page: PageId,
    /// Everything below is to be redone, and nothing from here on may have changed the page.
    pub below: Lsn,
}

/// A message. `database` is the id that the database has in the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Hello(Hello),
    Welcome(Welcome),
    Lead {
        database: u128,
        lead: LeadTold,
    },
    Block {
        database: u128,
        block: Block,
    },
    Quorum {
        database: u128,
        epoch: EpochId,
        quorum: Lsn,
    },
    Listed {
        database: u128,
        record: Record,
    },
    Ack {
        database: u128,
        ack: Ack,
    },
    Depose {
        database: u128,
        promised: EpochId,
        led: bool,
    },
    Rejoin {
        database: u128,
        fork: Fork,
    },
    Ask {
        database: u128,
        request: Request,
    },
    Judged {
        database: u128,
        reply: Reply,
    },
    Grant {
        bytes: u32,
    },
    /// `is_answer`: the other side's clock comes back.
    Ping {
        clock_us: u64,
        is_answer: bool,
    },
    Bye {
        reason: String,
    },
    Define {
        definition: Arc<[u8]>,
    },
    Packet {
        bytes: Arc<[u8]>,
    },
    Rest {
        database: u128,
        rests: bool,
    },
    Seed {
        database: u128,
        part: Arc<[u8]>,
    },
    SeedAsk {
        database: u128,
    },
    PageAsk {
        database: u128,
        wanted: PageWanted,
    },
    /// The page, sealed; `None`: it cannot be had here.
    PageGiven {
        database: u128,
        wanted: PageWanted,
        content: Option<Arc<[u8]>>,
    },
    /// The answer repeats `ask`.
    Poll {
        ask: u64,
        call: Call,
    },
    /// The vote as it is then, also where the voter refuses. `None`: it has none yet.
    Voted {
        ask: u64,
        vote: Option<Vote>,
    },
}

/// Bytes of a seed's frame, which flow control counts.
pub fn seed_frame_bytes(part: &[u8]) -> usize {
    SEED_FRAME_BYTES + part.len()
}

impl Message {
    pub(super) fn kind(&self) -> u8 {
        match self {
            Message::Hello(_) => KIND_HELLO,
            Message::Welcome(_) => 1,
            Message::Lead { .. } => 2,
            Message::Block { .. } => KIND_BLOCK,
            Message::Quorum { .. } => 4,
            Message::Listed { .. } => 5,
            Message::Ack { .. } => 6,
            Message::Depose { .. } => 7,
            Message::Rejoin { .. } => 8,
            Message::Ask { .. } => 9,
            Message::Judged { .. } => 10,
            Message::Grant { .. } => 11,
            Message::Ping { .. } => 12,
            Message::Bye { .. } => KIND_BYE,
            Message::Define { .. } => KIND_DEFINE,
            Message::Rest { .. } => 15,
            Message::Seed { .. } => KIND_SEED,
            Message::SeedAsk { .. } => KIND_SEED_ASK,
            Message::Packet { .. } => KIND_PACKET,
            Message::PageAsk { .. } => KIND_PAGE_ASK,
            Message::PageGiven { .. } => KIND_PAGE_GIVEN,
            Message::Poll { .. } => KIND_POLL,
            Message::Voted { .. } => KIND_VOTED,
        }
    }

    /// The database that it is about. `None`: the connection.
    pub fn database(&self) -> Option<u128> {
        match self {
            Message::Lead { database, .. }
            | Message::Block { database, .. }
            | Message::Quorum { database, .. }
            | Message::Listed { database, .. }
            | Message::Ack { database, .. }
            | Message::Depose { database, .. }
            | Message::Rejoin { database, .. }
            | Message::Ask { database, .. }
            | Message::Judged { database, .. }
            | Message::Rest { database, .. }
            | Message::Seed { database, .. }
            | Message::SeedAsk { database }
            | Message::PageAsk { database, .. }
            | Message::PageGiven { database, .. } => Some(*database),
            _ => None,
        }
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) {
        if let Some(database) = self.database() {
            w.u128(database);
        }
        match self {
            Message::Hello(hello) => encode_hello(hello, w),
            Message::Welcome(welcome) => {
                w.u16(welcome.version);
                w.text(&welcome.name, NAME_BYTES_MAX);
                w.u8(welcome.codecs.0);
                w.u32(welcome.window_bytes);
            }
            Message::Lead { lead, .. } => {
                w.epoch(lead.epoch);
                w.history(&lead.history);
                w.record(&lead.record);
            }
            Message::Block { block, .. } => encode_block(block, w),
            Message::Quorum { epoch, quorum, .. } => {
                w.epoch(*epoch);
                w.lsn(*quorum);
            }
            Message::Listed { record, .. } => w.record(record),
            Message::Ack { ack, .. } => encode_ack(ack, w),
            Message::Depose { promised, led, .. } => {
                w.epoch(*promised);
                w.u8(u8::from(*led));
            }
            Message::Rejoin { fork, .. } => match fork {
                Fork::At(at) => {
                    w.u8(1);
                    w.lsn(*at);
                }
                Fork::Nothing => w.u8(0),
            },
            Message::Ask { request, .. } => encode_request(*request, w),
            Message::Judged { reply, .. } => {
                encode_request(reply.request, w);
                w.u8(u8::from(reply.verdict == Verdict::Granted));
                w.record(&reply.record);
            }
            Message::Grant { bytes } => w.u32(*bytes),
            Message::Ping {
                clock_us,
                is_answer,
            } => {
                w.u64(*clock_us);
                w.u8(u8::from(*is_answer));
            }
            Message::Bye { reason } => w.text(reason, REASON_BYTES_MAX),
            Message::Define { definition } => w.bytes(definition),
            Message::Packet { bytes } => w.bytes(bytes),
            Message::Rest { rests, .. } => w.u8(u8::from(*rests)),
            Message::Seed { part, .. } => w.bytes(part),
            Message::SeedAsk { .. } => {}
            Message::PageAsk { wanted, .. } => encode_wanted(wanted, w),
            Message::PageGiven {
                wanted, content, ..
            } => {
                encode_wanted(wanted, w);
                w.bytes(content.as_deref().unwrap_or_default());
            }
            Message::Poll { ask, call } => {
                w.u64(*ask);
                encode_call(*call, w);
            }
            Message::Voted { ask, vote } => {
                w.u64(*ask);
                w.u8(u8::from(vote.is_some()));
                if let Some(vote) = vote {
                    w.u64(vote.promised);
                    encode_word(&vote.word, w);
                }
            }
        }
    }

    pub(super) fn decode(kind: u8, r: &mut Reader<'_>) -> Result<Message, WireError> {
        match kind {
            KIND_HELLO => Ok(Message::Hello(decode_hello(r)?)),
            1 => Ok(Message::Welcome(Welcome {
                version: r.u16()?,
                name: r.text(NAME_BYTES_MAX)?,
                codecs: Codecs(r.u8()?),
                window_bytes: r.u32()?,
            })),
            2..=10 | 15..=KIND_SEED_ASK | KIND_PAGE_ASK | KIND_PAGE_GIVEN => {
                let database = r.u128()?;
                Message::decode_of_database(kind, database, r)
            }
            11 => Ok(Message::Grant { bytes: r.u32()? }),
            12 => Ok(Message::Ping {
                clock_us: r.u64()?,
                is_answer: r.flag()?,
            }),
            KIND_BYE => Ok(Message::Bye {
                reason: r.text(REASON_BYTES_MAX)?,
            }),
            KIND_DEFINE => Ok(Message::Define {
                definition: Arc::from(r.rest()),
            }),
            KIND_PACKET => Ok(Message::Packet {
                bytes: Arc::from(r.rest()),
            }),
            KIND_POLL => Ok(Message::Poll {
                ask: r.u64()?,
                call: decode_call(r)?,
            }),
            KIND_VOTED => Ok(Message::Voted {
                ask: r.u64()?,
                vote: match r.flag()? {
                    false => None,
                    true => Some(Vote {
                        promised: decode_ballot_number(r)?,
                        word: decode_word(r)?,
                    }),
                },
            }),
            _ => Err(WireError::Kind(kind)),
        }
    }

    fn decode_of_database(
        kind: u8,
        database: u128,
        r: &mut Reader<'_>,
    ) -> Result<Message, WireError> {
        Ok(match kind {
            2 => {
                let lead = LeadTold {
                    epoch: r.epoch()?,
                    history: r.history()?,
                    record: r.record()?,
                };
                Message::Lead { database, lead }
            }
            KIND_BLOCK => {
                let block = decode_block(r)?;
                Message::Block { database, block }
            }
            4 => Message::Quorum {
                database,
                epoch: r.epoch()?,
                quorum: r.lsn()?,
            },
            5 => Message::Listed {
                database,
                record: r.record()?,
            },
            6 => Message::Ack {
                database,
                ack: decode_ack(r)?,
            },
            7 => Message::Depose {
                database,
                promised: r.epoch()?,
                led: r.flag()?,
            },
            8 => Message::Rejoin {
                database,
                fork: match r.flag()? {
                    true => Fork::At(r.lsn()?),
                    false => Fork::Nothing,
                },
            },
            9 => Message::Ask {
                database,
                request: decode_request(r)?,
            },
            15 => Message::Rest {
                database,
                rests: r.flag()?,
            },
            KIND_SEED => Message::Seed {
                database,
                part: Arc::from(r.rest()),
            },
            KIND_SEED_ASK => Message::SeedAsk { database },
            KIND_PAGE_ASK => Message::PageAsk {
                database,
                wanted: decode_wanted(r)?,
            },
            KIND_PAGE_GIVEN => Message::PageGiven {
                database,
                wanted: decode_wanted(r)?,
                content: match r.rest() {
                    [] => None,
                    page if page.len() == PAGE_BYTES => Some(Arc::from(page)),
                    _ => return Err(WireError::Body("page")),
                },
            },
            _ => Message::Judged {
                database,
                reply: decode_reply(r)?,
            },
        })
    }
}

fn encode_call(call: Call, w: &mut Writer<'_>) {
    match call {
        Call::Look => w.u8(0),
        Call::Promise(epoch) => {
            w.u8(1);
            w.u64(epoch);
        }
        Call::Keep(word) => {
            w.u8(2);
            encode_word(&word, w);
        }
    }
}

fn decode_call(r: &mut Reader<'_>) -> Result<Call, WireError> {
    Ok(match r.u8()? {
        0 => Call::Look,
        1 => Call::Promise(decode_ballot_number(r)?),
        2 => Call::Keep(decode_word(r)?),
        _ => return Err(WireError::Body("question to a voter")),
    })
}

fn encode_word(word: &Word, w: &mut Writer<'_>) {
    w.u64(word.epoch);
    w.u64(word.said);
    w.u16(word.replicas.bits());
}

fn decode_word(r: &mut Reader<'_>) -> Result<Word, WireError> {
    Ok(Word {
        epoch: decode_ballot_number(r)?,
        said: decode_ballot_number(r)?,
        replicas: r.replicas()?,
    })
}

/// An epoch or a word's number. One that is too high would leave none for whoever comes after it.
fn decode_ballot_number(r: &mut Reader<'_>) -> Result<u64, WireError> {
    let number = r.u64()?;
    match number < BALLOT_NUMBER_MAX {
        true => Ok(number),
        false => Err(WireError::Body("number of a ballot")),
    }
}

fn encode_wanted(wanted: &PageWanted, w: &mut Writer<'_>) {
    w.epoch(wanted.epoch);
    w.u64(wanted.page.to_u64());
    w.lsn(wanted.below);
}

fn decode_wanted(r: &mut Reader<'_>) -> Result<PageWanted, WireError> {
    let epoch = r.epoch()?;
    let number = r.u64()?;
    let page = PageId::from_u64(number);
    match page.to_u64() == number {
        true => Ok(PageWanted {
            epoch,
            page,
            below: r.lsn()?,
        }),
        false => Err(WireError::Body("number of a page")),
    }
}

fn encode_hello(hello: &Hello, w: &mut Writer<'_>) {
    w.u16(hello.versions.0);
    w.u16(hello.versions.1);
    w.u128(hello.group);
    w.u8(hello.replica.number());
    w.u8(hello.to.number());
    w.text(&hello.name, NAME_BYTES_MAX);
    w.u8(hello.codecs.0);
    w.u32(hello.window_bytes);
    w.u8(hello.purpose as u8);
}

fn decode_hello(r: &mut Reader<'_>) -> Result<Hello, WireError> {
    Ok(Hello {
        versions: (r.u16()?, r.u16()?),
        group: r.u128()?,
        replica: r.replica()?,
        to: r.replica()?,
        name: r.text(NAME_BYTES_MAX)?,
        codecs: Codecs(r.u8()?),
        window_bytes: r.u32()?,
        purpose: match r.flag()? {
            false => Purpose::Member,
            true => Purpose::Seed,
        },
    })
}

fn encode_block(block: &Block, w: &mut Writer<'_>) {
    w.epoch(block.epoch);
    w.lsn(block.first);
    w.lsn(block.end);
    w.lsn(block.quorum);
    w.lsn(block.primary_here);
    w.u64(block.clock_us);
    w.u8(block.codec.code());
    w.u32(block.plain_bytes);
    w.bytes(&block.bytes);
}

fn decode_block(r: &mut Reader<'_>) -> Result<Block, WireError> {
    let epoch = r.epoch()?;
    let (first, end) = (r.lsn()?, r.lsn()?);
    let (quorum, primary_here) = (r.lsn()?, r.lsn()?);
    let clock_us = r.u64()?;
    let codec = Codec::from_code(r.u8()?)?;
    let plain_bytes = r.u32()?;
    let bytes = r.rest();
    let plain = plain_bytes as usize;
    let fits = plain <= BLOCK_BYTES_MAX
        && bytes.len() <= plain
        && (codec != Codec::Plain || bytes.len() == plain);
    if !fits || first >= end {
        return Err(WireError::Body("log block"));
    }
    Ok(Block {
        epoch,
        first,
        end,
        quorum,
        primary_here,
        clock_us,
        codec,
        plain_bytes,
        bytes: Arc::from(bytes),
    })
}

fn encode_ack(ack: &Ack, w: &mut Writer<'_>) {
    w.epoch(ack.epoch);
    w.lsn(ack.received);
    w.lsn(ack.here);
    w.lsn(ack.applied);
    w.lsn(ack.pin);
    w.u64(ack.clock_us);
}

fn decode_ack(r: &mut Reader<'_>) -> Result<Ack, WireError> {
    let ack = Ack {
        epoch: r.epoch()?,
        received: r.lsn()?,
        here: r.lsn()?,
        applied: r.lsn()?,
        pin: r.lsn()?,
        clock_us: r.u64()?,
    };
    match ack.applied <= ack.here && ack.here <= ack.received {
        true => Ok(ack),
        false => Err(WireError::Body("acknowledgement")),
    }
}

fn encode_request(request: Request, w: &mut Writer<'_>) {
    match request {
        Request::Change {
            epoch,
            sequence,
            members,
        } => {
            w.u8(0);
            w.epoch(epoch);
            w.u64(sequence);
            w.u16(members.bits());
        }
        Request::Promote { from, to, replica } => {
            w.u8(1);
            w.epoch(from);
            w.epoch(to);
            w.u8(replica.number());
        }
        Request::Force { to, replica } => {
            w.u8(2);
            w.epoch(to);
            w.u8(replica.number());
        }
    }
}

fn decode_request(r: &mut Reader<'_>) -> Result<Request, WireError> {
    Ok(match r.u8()? {
        0 => Request::Change {
            epoch: r.epoch()?,
            sequence: r.u64()?,
            members: r.replicas()?,
        },
        1 => Request::Promote {
            from: r.epoch()?,
            to: r.epoch()?,
            replica: r.replica()?,
        },
        2 => Request::Force {
            to: r.epoch()?,
            replica: r.replica()?,
        },
        _ => return Err(WireError::Body("request")),
    })
}

fn decode_reply(r: &mut Reader<'_>) -> Result<Reply, WireError> {
    let request = decode_request(r)?;
    let verdict = match r.flag()? {
        true => Verdict::Granted,
        false => Verdict::Refused,
    };
    let record = r.record()?;
    Ok(Reply {
        request,
        verdict,
        record,
    })
}
