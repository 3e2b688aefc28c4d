//! Round trips, cut frames, flipped bits, any body.

use super::*;
use crate::commit::{
    BALLOT_NUMBER_MAX, Call, Epoch, EpochId, Fork, History, Record, ReplicaId, Replicas, Reply,
    Request, Verdict, Vote, Word,
};
use daruma_base::{Lsn, PageId};
use proptest::prelude::*;
use std::sync::Arc;

fn replica() -> impl Strategy<Value = ReplicaId> {
    (0..9u8).prop_map(|n| ReplicaId::new(n).expect("a replica"))
}

fn replicas() -> impl Strategy<Value = Replicas> {
    (0..512u16).prop_map(|bits| Replicas::from_bits(bits).expect("replicas"))
}

fn epoch() -> impl Strategy<Value = EpochId> {
    (any::<u64>(), any::<u128>()).prop_map(|(number, id)| EpochId { number, id })
}

fn lsn() -> impl Strategy<Value = Lsn> {
    any::<u64>().prop_map(Lsn)
}

fn history() -> impl Strategy<Value = History> {
    proptest::collection::vec((1..1000u64, 0..10_000u64, any::<u128>()), 0..20).prop_map(|steps| {
        let (mut number, mut start) = (0, 0);
        let epochs = steps.into_iter().map(|(n, s, id)| {
            (number, start) = (number + n, start + s);
            let name = EpochId { number, id };
            Epoch {
                name,
                start: Lsn(start),
            }
        });
        History::new(epochs.collect()).expect("a history that grows")
    })
}

fn record() -> impl Strategy<Value = Record> {
    (epoch(), replica(), replicas(), any::<u64>()).prop_map(
        |(epoch, primary, members, sequence)| Record {
            epoch,
            primary,
            members,
            sequence,
        },
    )
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (epoch(), any::<u64>(), replicas()).prop_map(|(epoch, sequence, members)| {
            Request::Change {
                epoch,
                sequence,
                members,
            }
        }),
        (epoch(), epoch(), replica()).prop_map(|(from, to, replica)| Request::Promote {
            from,
            to,
            replica
        }),
        (epoch(), replica()).prop_map(|(to, replica)| Request::Force { to, replica }),
    ]
}

fn block() -> impl Strategy<Value = Block> {
    let packed = (
        0..3usize,
        proptest::collection::vec(any::<u8>(), 0..2000),
        0..1000u32,
    );
    (
        epoch(),
        any::<u32>(),
        1..u64::from(u32::MAX),
        lsn(),
        lsn(),
        any::<u64>(),
        packed,
    )
        .prop_map(
            |(epoch, first, length, quorum, primary_here, clock_us, (codec, bytes, more))| {
                let codec = Codec::ALL[codec];
                let more = if codec == Codec::Plain { 0 } else { more };
                Block {
                    epoch,
                    first: Lsn(u64::from(first)),
                    end: Lsn(u64::from(first) + length),
                    quorum,
                    primary_here,
                    clock_us,
                    codec,
                    plain_bytes: bytes.len() as u32 + more,
                    bytes: Arc::from(bytes),
                }
            },
        )
}

fn ack() -> impl Strategy<Value = Ack> {
    (epoch(), any::<[u32; 3]>(), lsn(), any::<u64>()).prop_map(|(epoch, mut at, pin, clock_us)| {
        at.sort_unstable();
        let [applied, here, received] = at.map(|a| Lsn(u64::from(a)));
        Ack {
            epoch,
            received,
            here,
            applied,
            pin,
            clock_us,
        }
    })
}

fn wanted() -> impl Strategy<Value = PageWanted> {
    (epoch(), any::<u16>(), any::<u32>(), lsn()).prop_map(|(epoch, file, page, below)| PageWanted {
        epoch,
        page: PageId::new(file, page),
        below,
    })
}

/// A page, of which one byte tells it from others.
fn page() -> impl Strategy<Value = Option<Arc<[u8]>>> {
    proptest::option::of(any::<u8>().prop_map(|byte| Arc::from(vec![byte; PAGE_BYTES])))
}

fn bytes() -> impl Strategy<Value = Arc<[u8]>> {
    proptest::collection::vec(any::<u8>(), 0..300).prop_map(Arc::from)
}

fn word() -> impl Strategy<Value = Word> {
    (0..BALLOT_NUMBER_MAX, 0..BALLOT_NUMBER_MAX, replicas()).prop_map(|(epoch, said, replicas)| {
        Word {
            epoch,
            said,
            replicas,
        }
    })
}

fn of_ballot() -> impl Strategy<Value = Message> {
    let call = prop_oneof![
        Just(Call::Look),
        (0..BALLOT_NUMBER_MAX).prop_map(Call::Promise),
        word().prop_map(Call::Keep),
    ];
    let vote = (0..BALLOT_NUMBER_MAX, word()).prop_map(|(promised, word)| Vote { promised, word });
    prop_oneof![
        (any::<u64>(), call).prop_map(|(ask, call)| Message::Poll { ask, call }),
        (any::<u64>(), proptest::option::of(vote))
            .prop_map(|(ask, vote)| Message::Voted { ask, vote }),
    ]
}

fn of_connection() -> impl Strategy<Value = Message> {
    let hello = (
        any::<(u16, u16)>(),
        any::<u128>(),
        replica(),
        replica(),
        ".{0,60}",
        any::<u8>(),
        any::<u32>(),
        any::<bool>(),
    );
    let hello = hello.prop_map(
        |(versions, group, replica, to, name, codecs, window_bytes, seeds)| {
            Message::Hello(Hello {
                versions,
                group,
                replica,
                to,
                name,
                codecs: Codecs(codecs),
                window_bytes,
                purpose: match seeds {
                    true => Purpose::Seed,
                    false => Purpose::Member,
                },
            })
        },
    );
    let welcome = (any::<u16>(), ".{0,60}", any::<u8>(), any::<u32>());
    let welcome = welcome.prop_map(|(version, name, codecs, window_bytes)| {
        Message::Welcome(Welcome {
            version,
            name,
            codecs: Codecs(codecs),
            window_bytes,
        })
    });
    prop_oneof![
        hello,
        welcome,
        any::<u32>().prop_map(|bytes| Message::Grant { bytes }),
        (any::<u64>(), any::<bool>()).prop_map(|(clock_us, is_answer)| Message::Ping {
            clock_us,
            is_answer
        }),
        ".{0,60}".prop_map(|reason| Message::Bye { reason }),
        bytes().prop_map(|definition| Message::Define { definition }),
        bytes().prop_map(|bytes| Message::Packet { bytes }),
    ]
}

fn of_database() -> impl Strategy<Value = Message> {
    let fork = prop_oneof![lsn().prop_map(Fork::At), Just(Fork::Nothing)];
    let reply = (request(), any::<bool>(), record()).prop_map(|(request, granted, record)| Reply {
        request,
        verdict: if granted {
            Verdict::Granted
        } else {
            Verdict::Refused
        },
        record,
    });
    prop_oneof![
        (any::<u128>(), epoch(), history(), record()).prop_map(
            |(database, epoch, history, record)| Message::Lead {
                database,
                lead: LeadTold {
                    epoch,
                    history,
                    record
                },
            }
        ),
        (any::<u128>(), block()).prop_map(|(database, block)| Message::Block { database, block }),
        (any::<u128>(), epoch(), lsn()).prop_map(|(database, epoch, quorum)| Message::Quorum {
            database,
            epoch,
            quorum
        }),
        (any::<u128>(), record())
            .prop_map(|(database, record)| Message::Listed { database, record }),
        (any::<u128>(), ack()).prop_map(|(database, ack)| Message::Ack { database, ack }),
        (any::<u128>(), epoch(), any::<bool>()).prop_map(|(database, promised, led)| {
            Message::Depose {
                database,
                promised,
                led,
            }
        }),
        (any::<u128>(), fork).prop_map(|(database, fork)| Message::Rejoin { database, fork }),
        (any::<u128>(), request())
            .prop_map(|(database, request)| Message::Ask { database, request }),
        (any::<u128>(), reply).prop_map(|(database, reply)| Message::Judged { database, reply }),
        (any::<u128>(), any::<bool>())
            .prop_map(|(database, rests)| Message::Rest { database, rests }),
        (any::<u128>(), bytes()).prop_map(|(database, part)| Message::Seed { database, part }),
        any::<u128>().prop_map(|database| Message::SeedAsk { database }),
        (any::<u128>(), wanted())
            .prop_map(|(database, wanted)| Message::PageAsk { database, wanted }),
        (any::<u128>(), wanted(), page()).prop_map(|(database, wanted, content)| {
            Message::PageGiven {
                database,
                wanted,
                content,
            }
        }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![of_connection(), of_database(), of_ballot()]
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_the_same(message in message(), next in message()) {
        let mut bytes = Vec::new();
        encode(VERSION, &message, &mut bytes);
        let length = bytes.len();
        if let Message::Block { block, .. } = &message {
            prop_assert_eq!(block.frame_bytes(), length);
        }
        if let Message::Seed { part, .. } = &message {
            prop_assert_eq!(seed_frame_bytes(part), length);
        }
        encode(VERSION, &next, &mut bytes);
        prop_assert_eq!(decode(&bytes), Ok(Some((message, length))));
        prop_assert_eq!(decode(&bytes[length..]), Ok(Some((next, bytes.len() - length))));
    }

    #[test]
    fn a_frame_that_is_cut_off_waits_for_more(message in message(), cut in any::<proptest::sample::Index>()) {
        let mut bytes = Vec::new();
        encode(VERSION, &message, &mut bytes);
        bytes.truncate(cut.index(bytes.len()));
        prop_assert_eq!(decode(&bytes), Ok(None));
    }

    #[test]
    fn a_flipped_bit_is_noticed(message in message(), at in any::<proptest::sample::Index>(), bit in 0..8u8) {
        let mut bytes = Vec::new();
        encode(VERSION, &message, &mut bytes);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        // A length that grew waits for bytes that never come; anything else is an error.
        let decoded = decode(&bytes);
        prop_assert!(decoded.is_err() || (decoded == Ok(None) && (8..12).contains(&at)), "{:?}", decoded);
    }

    /// The checksum is right, so the bodies are what is tried.
    #[test]
    fn any_body_is_a_message_or_an_error(kind in any::<u8>(), body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let bytes = frame(kind, &body);
        if let Ok(Some((message, length))) = decode(&bytes) {
            let mut again = Vec::new();
            encode(VERSION, &message, &mut again);
            prop_assert_eq!(&again[..], &bytes[..length]);
        }
    }
}

#[test]
fn a_length_is_refused_before_it_is_believed() {
    let mut bytes = Vec::new();
    encode(VERSION, &Message::Grant { bytes: 1 }, &mut bytes);
    bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(decode(&bytes), Err(WireError::TooLong { .. })));
    bytes[6] = 200;
    assert_eq!(decode(&bytes), Err(WireError::Kind(200)));
}

#[test]
fn neighbouring_versions_speak_and_others_do_not() {
    assert_eq!(common_version((1, 2), (2, 3)), Some(2));
    assert_eq!(common_version((2, 3), (1, 2)), Some(2));
    assert_eq!(common_version((1, 2), (3, 4)), None);
    let mut bytes = Vec::new();
    encode(VERSION + 1, &Message::Grant { bytes: 1 }, &mut bytes);
    assert_eq!(decode(&bytes), Err(WireError::Version(VERSION + 1)));
    // Log and cluster of the first builds are not those of this one.
    for message in [
        Message::Grant { bytes: 1 },
        Message::SeedAsk { database: 1 },
    ] {
        let mut bytes = Vec::new();
        encode(1, &message, &mut bytes);
        assert_eq!(decode(&bytes), Err(WireError::Version(1)));
    }
}

#[test]
fn builds_of_all_versions_can_say_why_they_do_not_speak() {
    let hello = Hello {
        versions: (1, 1),
        group: 1,
        replica: ReplicaId::new(1).expect("a replica"),
        to: ReplicaId::new(2).expect("a replica"),
        name: "OLD".into(),
        codecs: Codecs(0),
        window_bytes: 1,
        purpose: Purpose::Member,
    };
    let bye = Message::Bye {
        reason: "no version in common".into(),
    };
    for message in [Message::Hello(hello), bye] {
        let mut bytes = Vec::new();
        encode(GREETING_VERSION, &message, &mut bytes);
        let (read, _) = decode(&bytes).expect("is read").expect("is whole");
        assert_eq!(read, message);
    }
}

#[test]
fn a_page_that_is_given_is_whole() {
    let wanted = PageWanted {
        epoch: EpochId::default(),
        page: PageId::new(1, 200),
        below: Lsn(7),
    };
    let given = |bytes: usize| {
        let mut body = Vec::new();
        encode(
            VERSION,
            &Message::PageGiven {
                database: 1,
                wanted,
                content: Some(Arc::from(vec![0; bytes])),
            },
            &mut body,
        );
        decode(&body)
    };
    assert!(matches!(given(PAGE_BYTES), Ok(Some(_))));
    assert_eq!(given(PAGE_BYTES - 1), Err(WireError::Body("page")));
    assert!(matches!(
        given(PAGE_BYTES + 1),
        Err(WireError::TooLong { .. })
    ));
}
