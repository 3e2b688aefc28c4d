//! Parts of a copy, packed on their way where that is faster, or trace flag 9567 says so.
//!
//! ```text
//! PACKED | codec u8 | length before u32 | packed bytes
//! ```
//! Theory: a part is packed alone, by the codec that [`Choice`] finds for this link. What is behind on the link is what the peer has not
//! granted again, so the link's rate is that at which the new secondary writes the copy, where that is slower than the network.

use daruma_group::compress::{Choice, Mode, pack, unpack_within};
use daruma_group::wire::{Codec, Codecs, SEED_BYTES_MAX};
use std::borrow::Cow;
use std::time::Duration;

/// Begins a packed part.
pub(super) const PACKED: u8 = 6;
const HEAD_BYTES: usize = 1 + 1 + 4;

/// How the parts of one copy are packed.
pub(super) struct Packing {
    choice: Choice,
    is_understood: bool,
}

impl Packing {
    /// For a link whose sides have these codecs in common.
    pub(super) fn new(codecs: Codecs) -> Packing {
        Packing {
            choice: Choice::new(Mode::default(), codecs),
            is_understood: codecs.packs_seeds(),
        }
    }

    /// Of what was sent, this much has not arrived.
    pub(super) fn arrived(&mut self, outstanding_bytes: u64, now: Duration) {
        let rate = self.choice.rate();
        let arrived = rate.outstanding_bytes().saturating_sub(outstanding_bytes);
        if arrived > 0 {
            rate.arrived(arrived, now);
        }
    }

    /// The part as it is to travel; `clock` tells how long packing takes.
    pub(super) fn pack(
        &mut self,
        mode: Mode,
        part: Vec<u8>,
        clock: impl Fn() -> Duration,
    ) -> Vec<u8> {
        let packed = match self.is_understood {
            true => self.packed(mode, &part, &clock),
            false => None,
        };
        let part = packed.unwrap_or(part);
        self.choice.rate().sent(part.len(), clock());
        part
    }

    fn packed(
        &mut self,
        mode: Mode,
        part: &[u8],
        clock: &impl Fn() -> Duration,
    ) -> Option<Vec<u8>> {
        self.choice.set_mode(mode);
        let waiting = self.choice.rate().outstanding_bytes() > 0;
        let codec = self
            .choice
            .choose(part.len(), waiting, 1.0, |_| false)
            .codec;
        if codec == Codec::Plain {
            return None;
        }
        let began = clock();
        let packed = pack(codec, part);
        let took = clock().saturating_sub(began);
        let bytes = packed.as_ref().map_or(part.len(), |packed| packed.len());
        self.choice.packed(codec, part.len(), bytes, took);
        let packed = packed.filter(|packed| packed.len() + HEAD_BYTES < part.len())?;
        let mut whole = Vec::with_capacity(HEAD_BYTES + packed.len());
        whole.extend([PACKED, codec.code()]);
        whole.extend(u32::try_from(part.len()).ok()?.to_le_bytes());
        whole.extend(&*packed);
        Some(whole)
    }
}

/// A part as it was before it was packed. `None`: it cannot have been.
pub(super) fn unpacked(part: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some((&PACKED, rest)) = part.split_first() else {
        return Some(Cow::Borrowed(part));
    };
    let (codec, rest) = rest.split_first()?;
    let (plain_bytes, packed) = rest.split_first_chunk()?;
    let codec = Codec::from_code(*codec).ok()?;
    let packed = (codec, u32::from_le_bytes(*plain_bytes), packed);
    unpack_within(SEED_BYTES_MAX, packed).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: fn() -> Duration = || Duration::from_micros(7);

    fn part() -> Vec<u8> {
        let mut part = vec![2];
        part.resize(SEED_BYTES_MAX, 9);
        part
    }

    #[test]
    fn a_packed_part_is_the_same_afterwards() {
        let mut packing = Packing::new(Codecs::OURS);
        let packed = packing.pack(Mode::Always, part(), CLOCK);
        assert!(packed.len() * 100 < part().len());
        assert_eq!(unpacked(&packed).as_deref(), Some(&*part()));
        let plain = packing.pack(Mode::Never, part(), CLOCK);
        assert_eq!(plain, part());
        assert_eq!(unpacked(&plain).as_deref(), Some(&*part()));
    }

    #[test]
    fn a_peer_of_before_is_sent_no_packed_part() {
        let mut packing = Packing::new(Codecs(0b111));
        assert_eq!(packing.pack(Mode::Always, part(), CLOCK), part());
    }

    #[test]
    fn what_does_not_become_smaller_travels_as_it_is() {
        let mut packing = Packing::new(Codecs::OURS);
        let short = vec![1, 2, 3];
        assert_eq!(packing.pack(Mode::Always, short.clone(), CLOCK), short);
    }

    #[test]
    fn a_slow_link_has_parts_packed_and_a_fast_one_does_not() {
        let takes = |part_takes: Duration| {
            let mut packing = Packing::new(Codecs::OURS);
            let mut now = Duration::ZERO;
            let mut last = 0;
            // The part before is on its way while the next one is packed.
            for _ in 0..40 {
                packing.arrived(last, now);
                let clock = || now;
                last = packing.pack(Mode::Automatic, part(), clock).len() as u64;
                now += part_takes * u32::try_from(last).expect("a part") / SEED_BYTES_MAX as u32;
            }
            last < 1000
        };
        assert!(takes(Duration::from_millis(5)), "100 Mbit/s");
        assert!(!takes(Duration::from_micros(20)), "26 Gbit/s");
    }

    #[test]
    fn bytes_that_no_packing_made_are_refused() {
        let whole = Packing::new(Codecs::OURS).pack(Mode::Always, part(), CLOCK);
        for length in 1..whole.len() {
            assert_eq!(unpacked(&whole[..length]), None, "{length}");
        }
        let mut longer = whole.clone();
        longer[2..6].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut other = whole.clone();
        other[1] = 7;
        let mut twice = vec![PACKED, 0];
        twice.extend(&whole[2..]);
        for bad in [longer, other, twice] {
            assert_eq!(unpacked(&bad), None);
        }
    }
}
