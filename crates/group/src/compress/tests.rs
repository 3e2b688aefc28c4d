//! Packing, sharing and choosing.

use super::*;
use crate::commit::EpochId;
use crate::wire::Codecs;
use daruma_base::Lsn;
use proptest::prelude::*;
use std::time::Duration;

fn block(codec: Codec, plain_bytes: usize, bytes: &[u8]) -> Block {
    Block {
        epoch: EpochId::default(),
        first: Lsn(4096),
        end: Lsn(8192),
        quorum: Lsn::NONE,
        primary_here: Lsn::NONE,
        clock_us: 0,
        codec,
        plain_bytes: plain_bytes as u32,
        bytes: Arc::from(bytes),
    }
}

fn text(bytes: usize) -> Vec<u8> {
    b"insert into dbo.target values ('some text of a row', "
        .iter()
        .copied()
        .cycle()
        .take(bytes)
        .collect()
}

/// Bytes that do not pack, always the same.
fn noise(bytes: usize) -> Vec<u8> {
    let mut x = 1u64;
    let mut next = || {
        x = x
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (x >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

#[test]
fn a_packed_block_is_the_same_when_unpacked() {
    for codec in [Codec::Lz4, Codec::Zstd] {
        for bytes in [600, 4096, BLOCK_BYTES_MAX] {
            let plain = text(bytes);
            let packed = pack(codec, &plain).expect("it becomes smaller");
            let unpacked = unpack(&block(codec, bytes, &packed)).expect("it unpacks");
            assert_eq!(&unpacked[..], &plain[..]);
        }
        assert!(pack(codec, &noise(4096)).is_none(), "noise does not pack");
    }
}

#[test]
fn a_block_that_is_longer_than_it_says_is_refused() {
    for codec in [Codec::Lz4, Codec::Zstd] {
        let packed = pack(codec, &text(60_000)).expect("it becomes smaller");
        for claimed in [
            0,
            100,
            59_999,
            60_001,
            BLOCK_BYTES_MAX,
            BLOCK_BYTES_MAX + 1,
            usize::MAX >> 32,
        ] {
            assert!(
                unpack(&block(codec, claimed, &packed)).is_err(),
                "{codec:?} as {claimed}"
            );
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_unpack_or_are_refused(zstd in any::<bool>(), claimed in 0..70_000usize, bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        let codec = if zstd { Codec::Zstd } else { Codec::Lz4 };
        if let Ok(plain) = unpack(&block(codec, claimed, &bytes)) {
            prop_assert_eq!(plain.len(), claimed);
        }
    }
}

#[test]
fn replicas_share_what_is_packed_and_the_cache_is_bounded() {
    let cache = PackCache::new(10_000);
    let clock = || Duration::ZERO;
    let plain = text(4000);
    assert!(cache.get(Lsn(1), Codec::Zstd, &plain, &clock).1.is_some());
    assert!(cache.get(Lsn(1), Codec::Zstd, &plain, &clock).1.is_none());
    assert!(cache.get(Lsn(1), Codec::Lz4, &plain, &clock).1.is_some());
    assert!(cache.has(Lsn(1), Codec::Zstd));
    cache.get(Lsn(2), Codec::Zstd, &plain, &clock);
    assert!(!cache.has(Lsn(1), Codec::Zstd), "the oldest is gone");
    assert_eq!(cache.counts(), CacheCounts { hits: 1, misses: 3 });
    let (packed, _) = cache.get(Lsn(3), Codec::Zstd, &noise(4000), &clock);
    assert_eq!(packed.codec, Codec::Plain);
}

/// A link of `mbit` to which blocks of `bytes` are sent that pack as full text blocks do; how the last of them travels.
fn settled(mbit: f64, bytes: usize, waiting: bool, idle_share: f64) -> Codec {
    let mut choice = Choice::new(Mode::Automatic, Codecs::OURS);
    let ns_per_byte = 8000.0 / mbit;
    let mut now = Duration::from_secs(1);
    let mut last = Codec::Plain;
    for _ in 0..1000 {
        let decision = choice.choose(bytes, waiting, idle_share, |_| false);
        let (ratio, ns) = match decision.codec {
            Codec::Plain => (1.0, 0.0),
            Codec::Lz4 => (1.0 / 4.9, 1.5),
            Codec::Zstd => (1.0 / 9.0, 2.5),
        };
        let packed = (bytes as f64 * ratio) as usize;
        if decision.codec != Codec::Plain {
            choice.packed(
                decision.codec,
                bytes,
                packed,
                Duration::from_nanos((bytes as f64 * ns) as u64),
            );
        }
        choice.rate().sent(packed, now);
        choice.rate().sent(packed, now);
        now += Duration::from_nanos((2.0 * packed as f64 * ns_per_byte) as u64);
        choice.rate().arrived(2 * packed as u64, now);
        if !decision.is_probe {
            last = decision.codec;
        }
    }
    last
}

#[test]
fn full_blocks_are_packed_on_slow_links_and_not_on_fast_ones() {
    for mbit in [20.0, 100.0] {
        assert_eq!(
            settled(mbit, 60_000, false, 1.0),
            Codec::Zstd,
            "{mbit} Mbit/s"
        );
    }
    assert_eq!(
        settled(1000.0, 60_000, false, 1.0),
        Codec::Lz4,
        "the quicker one wins on a quicker link"
    );
    for mbit in [10_000.0, 40_000.0] {
        assert_eq!(
            settled(mbit, 60_000, false, 1.0),
            Codec::Plain,
            "{mbit} Mbit/s"
        );
    }
    assert_eq!(
        settled(20.0, 300, false, 1.0),
        Codec::Plain,
        "small blocks travel as they are"
    );
    assert_eq!(
        settled(2500.0, 60_000, false, 0.0),
        Codec::Plain,
        "busy processors pack less"
    );
}

#[test]
fn others_are_probed_and_modes_are_obeyed() {
    let mut choice = Choice::new(Mode::Automatic, Codecs::OURS);
    let probes = (0..640)
        .filter(|_| choice.choose(30_000, false, 1.0, |_| false).is_probe)
        .count();
    assert_eq!(probes, 10);
    choice.set_mode(Mode::Always);
    assert_eq!(choice.choose(100, false, 1.0, |_| false).codec, Codec::Zstd);
    choice.set_mode(Mode::Never);
    assert_eq!(
        choice.choose(60_000, true, 1.0, |_| true).codec,
        Codec::Plain
    );
    let mut plain_only = Choice::new(Mode::Always, Codecs(1));
    assert_eq!(
        plain_only.choose(60_000, false, 1.0, |_| false).codec,
        Codec::Plain
    );
}

#[test]
fn what_another_link_has_packed_costs_nothing() {
    let mut choice = Choice::new(Mode::Automatic, Codecs::OURS);
    assert_eq!(
        choice.choose(60_000, true, 1.0, |_| false).codec,
        Codec::Plain
    );
    assert_ne!(
        choice
            .choose(60_000, true, 1.0, |c| c != Codec::Plain)
            .codec,
        Codec::Plain
    );
}

#[test]
fn flags_and_defaults_make_the_mode() {
    let none = TraceFlags::default();
    let all = TraceFlags {
        to_synchronous: true,
        not_to_asynchronous: true,
        seeding: true,
    };
    let modes = |d, f| {
        (
            Mode::of_log(d, f, true),
            Mode::of_log(d, f, false),
            Mode::of_seeding(d, f),
        )
    };
    assert_eq!(
        modes(Defaults::Of2014, none),
        (Mode::Always, Mode::Always, Mode::Never)
    );
    assert_eq!(
        modes(Defaults::Of2016, none),
        (Mode::Never, Mode::Always, Mode::Never)
    );
    assert_eq!(
        modes(Defaults::Automatic, none),
        (Mode::Automatic, Mode::Automatic, Mode::Automatic)
    );
    for defaults in [Defaults::Of2014, Defaults::Of2016, Defaults::Automatic] {
        assert_eq!(
            modes(defaults, all),
            (Mode::Always, Mode::Never, Mode::Always)
        );
    }
}
