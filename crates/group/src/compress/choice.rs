//! Which codec a block takes on one link.
//!
//! Theory: a block that finds the link idle arrives after `packing + packed / rate`; where others wait already, packing and sending go
//! on side by side and the slower of the two counts. Both are estimated from moving averages by codec and size class, and the
//! smallest wins. One block in 64 takes another codec, so that the averages of those that lost are not from another time.
//!
//! The link's rate is that at which bytes are acknowledged while more of them wait (Cardwell et al., "BBR: Congestion-Based Congestion
//! Control", 2016): a sample taken while the sender had nothing more to send says only that the link is at least that fast.

use super::Mode;
use crate::wire::{Codec, Codecs};
use std::collections::VecDeque;
use std::time::Duration;

/// Blocks below this gain less than a packet's cost.
const PACKED_BYTES_MIN: usize = 512;
/// One block in so many is a probe.
const PROBE_EVERY: u32 = 64;
/// Upper bounds of the size classes but the last.
const CLASS_BYTES: [usize; 2] = [4 << 10, 16 << 10];
/// Weight of a new sample.
const WEIGHT: f64 = 1.0 / 8.0;
/// The rate of a link that has not been measured: fast, so that nothing is compressed on a hunch. Bytes per nanosecond.
const RATE_AT_FIRST: f64 = 1.25;
/// Unpacking takes about this share of the time that packing took.
const UNPACK_SHARE: f64 = 0.25;
/// A machine without an idle processor still gives packing this share of one.
const IDLE_SHARE_MIN: f64 = 0.2;

/// What to do with one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// How it travels.
    pub codec: Codec,
    /// It is a probe, and not what is thought best.
    pub is_probe: bool,
}

#[derive(Clone, Copy, Debug)]
struct Average {
    /// Packed bytes for each plain one.
    ratio: f64,
    /// To pack one byte.
    ns_per_byte: f64,
}

/// Measured for each codec and size class of one link.
#[derive(Clone, Debug)]
pub struct Choice {
    mode: Mode,
    codecs: Codecs,
    averages: [[Average; 3]; CLASS_BYTES.len() + 1],
    blocks: u32,
    rate: LinkRate,
}

impl Choice {
    /// For a link whose sides have these codecs in common.
    pub fn new(mode: Mode, codecs: Codecs) -> Choice {
        // First guesses, of log of many commits; each is replaced within a few blocks.
        let plain = Average {
            ratio: 1.0,
            ns_per_byte: 0.0,
        };
        let lz4 = Average {
            ratio: 0.40,
            ns_per_byte: 1.8,
        };
        let zstd = Average {
            ratio: 0.25,
            ns_per_byte: 3.0,
        };
        Choice {
            mode,
            codecs,
            averages: [[plain, lz4, zstd]; CLASS_BYTES.len() + 1],
            blocks: 0,
            rate: LinkRate::default(),
        }
    }

    /// How the next blocks are to go: trace flags may have changed.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// The link's rate.
    pub fn rate(&mut self) -> &mut LinkRate {
        &mut self.rate
    }

    /// How the next block travels. `waiting`: others are before it on the link. `idle_share`: of the processors. `has`: another link
    /// has packed it in this way.
    pub fn choose(
        &mut self,
        plain_bytes: usize,
        waiting: bool,
        idle_share: f64,
        has: impl Fn(Codec) -> bool,
    ) -> Decision {
        let codec = match self.mode {
            Mode::Never => Codec::Plain,
            Mode::Always => self.strongest(),
            Mode::Automatic if plain_bytes < PACKED_BYTES_MIN => Codec::Plain,
            Mode::Automatic => return self.measured(plain_bytes, waiting, idle_share, has),
        };
        Decision {
            codec,
            is_probe: false,
        }
    }

    /// What became of a block that was packed for this link or another.
    pub fn packed(
        &mut self,
        codec: Codec,
        plain_bytes: usize,
        packed_bytes: usize,
        took: Duration,
    ) {
        let average = &mut self.averages[class(plain_bytes)][codec as usize];
        let plain = plain_bytes.max(1) as f64;
        average.ratio += (packed_bytes as f64 / plain - average.ratio) * WEIGHT;
        average.ns_per_byte += (took.as_nanos() as f64 / plain - average.ns_per_byte) * WEIGHT;
    }

    fn measured(
        &mut self,
        plain_bytes: usize,
        waiting: bool,
        idle_share: f64,
        has: impl Fn(Codec) -> bool,
    ) -> Decision {
        let cost = |codec: Codec| self.cost_ns(codec, plain_bytes, waiting, idle_share, has(codec));
        let known = || Codec::ALL.into_iter().filter(|c| self.codecs.has(*c));
        let best = known()
            .min_by(|a, b| cost(*a).total_cmp(&cost(*b)))
            .unwrap_or(Codec::Plain);
        let others: Vec<Codec> = known()
            .filter(|c| *c != best && *c != Codec::Plain)
            .collect();
        self.blocks = self.blocks.wrapping_add(1);
        let turn = (self.blocks / PROBE_EVERY) as usize;
        match self.blocks.is_multiple_of(PROBE_EVERY) && !others.is_empty() {
            true => Decision {
                codec: others[turn % others.len()],
                is_probe: true,
            },
            false => Decision {
                codec: best,
                is_probe: false,
            },
        }
    }

    fn cost_ns(
        &self,
        codec: Codec,
        plain_bytes: usize,
        waiting: bool,
        idle_share: f64,
        has: bool,
    ) -> f64 {
        let average = self.averages[class(plain_bytes)][codec as usize];
        let plain = plain_bytes as f64;
        let packing = match has {
            true => 0.0,
            false => plain * average.ns_per_byte / idle_share.clamp(IDLE_SHARE_MIN, 1.0),
        };
        let unpacking = plain * average.ns_per_byte * UNPACK_SHARE;
        let sending = plain * average.ratio.min(1.0) / self.rate.bytes_per_ns();
        match waiting {
            true => packing.max(sending),
            false => packing + sending + unpacking,
        }
    }

    fn strongest(&self) -> Codec {
        let found = Codec::ALL.into_iter().rev().find(|c| self.codecs.has(*c));
        found.unwrap_or(Codec::Plain)
    }
}

fn class(bytes: usize) -> usize {
    CLASS_BYTES.iter().filter(|bound| bytes >= **bound).count()
}

/// How fast a link takes bytes.
#[derive(Clone, Debug)]
pub struct LinkRate {
    bytes_per_ns: f64,
    sent: u64,
    delivered: u64,
    delivered_at: Duration,
    /// For each piece under way: bytes sent with it, and what was delivered when it left.
    under_way: VecDeque<Sent>,
}

#[derive(Clone, Debug)]
struct Sent {
    total: u64,
    delivered: u64,
    delivered_at: Duration,
    was_idle: bool,
}

/// Pieces that are remembered; older ones are summed up in the next.
const UNDER_WAY_MAX: usize = 4096;

impl Default for LinkRate {
    fn default() -> LinkRate {
        LinkRate {
            bytes_per_ns: RATE_AT_FIRST,
            sent: 0,
            delivered: 0,
            delivered_at: Duration::ZERO,
            under_way: VecDeque::new(),
        }
    }
}

impl LinkRate {
    /// The rate as far as it is known.
    pub fn bytes_per_ns(&self) -> f64 {
        self.bytes_per_ns
    }

    /// Bytes are on their way whose arrival nobody has told yet.
    pub fn outstanding_bytes(&self) -> u64 {
        self.sent - self.delivered
    }

    /// So many bytes leave.
    pub fn sent(&mut self, bytes: usize, now: Duration) {
        let was_idle = self.sent == self.delivered;
        if was_idle {
            self.delivered_at = now;
        }
        self.sent += bytes as u64;
        if self.under_way.len() < UNDER_WAY_MAX {
            self.under_way.push_back(Sent {
                total: self.sent,
                delivered: self.delivered,
                delivered_at: self.delivered_at,
                was_idle,
            });
        }
    }

    /// So many of the bytes that left have arrived.
    pub fn arrived(&mut self, bytes: u64, now: Duration) {
        self.delivered = self.delivered.saturating_add(bytes).min(self.sent);
        self.delivered_at = now;
        let mut newest = None;
        while self
            .under_way
            .front()
            .is_some_and(|s| s.total <= self.delivered)
        {
            newest = self.under_way.pop_front();
        }
        let Some(piece) = newest else {
            return;
        };
        let elapsed = now.saturating_sub(piece.delivered_at).as_nanos().max(1) as f64;
        let sample = (self.delivered - piece.delivered) as f64 / elapsed;
        if !piece.was_idle || sample > self.bytes_per_ns {
            self.bytes_per_ns += (sample - self.bytes_per_ns) * WEIGHT;
        }
    }

    /// The connection is a new one: what was under way is lost, what was learnt stays.
    pub fn reconnected(&mut self) {
        self.under_way.clear();
        self.sent = self.delivered;
    }
}
