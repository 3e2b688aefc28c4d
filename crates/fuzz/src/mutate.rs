//! Changes of inputs by chance, for runs without libFuzzer. The same seed makes the same inputs.

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Chance(u64);

/// Inputs do not grow beyond this.
const LENGTH_MAX: usize = 1 << 14;
/// Values that decoders stumble over: lengths at their limits, markers.
const NUMBERS: &[u32] = &[
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFE,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFE,
    u32::MAX,
];

impl Chance {
    /// A generator that repeats itself for the same seed.
    pub const fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// The next number (SplitMix64).
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap_or(0)
    }

    /// One to eight changes of one of `inputs`.
    pub fn mutate(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.one_of(inputs).to_vec();
        for _ in 0..=self.below(8) {
            self.change(&mut bytes, inputs);
        }
        bytes.truncate(LENGTH_MAX);
        bytes
    }

    fn one_of<'a>(&mut self, inputs: &'a [Vec<u8>]) -> &'a [u8] {
        inputs
            .get(self.below(inputs.len()))
            .map_or(&[], Vec::as_slice)
    }

    fn change(&mut self, bytes: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        let end = (at + 1 + self.below(16)).min(bytes.len());
        match self.below(7) {
            0 => self.with(bytes, at, |byte, chance| byte ^ 1 << chance.below(8)),
            1 => self.with(bytes, at, |_, chance| chance.next() as u8),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let piece = bytes.get(at..end).unwrap_or_default().to_vec();
                bytes.splice(at..at, piece);
            }
            4 => {
                let number = NUMBERS[self.below(NUMBERS.len())].to_le_bytes();
                let width = 1 << self.below(3);
                for (place, byte) in bytes.iter_mut().skip(at).take(width).zip(number) {
                    *place = byte;
                }
            }
            5 => bytes.truncate(at),
            _ => {
                let other = self.one_of(inputs);
                let from = other.len() - other.len().min(at);
                bytes.truncate(at);
                bytes.extend_from_slice(other.get(from..).unwrap_or_default());
            }
        }
    }

    fn with(&mut self, bytes: &mut [u8], at: usize, change: fn(u8, &mut Chance) -> u8) {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = change(*byte, self);
        }
    }
}
