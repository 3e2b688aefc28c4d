//! Compression of the log stream: block by block, when it pays.
//!
//! Theory: a block is packed alone, so that any replica can be fed from any block on, and the packed bytes are shared by all of them
//! ([`PackCache`]). Nothing waits for more data to make a better ratio. Which codec pays differs by link, by size and by load, so
//! each link measures: [`Choice`] keeps moving averages of ratio and time for each codec and size class, and of the link's rate.
//!
//! Small blocks gain nothing but the padding that they travel without. Encrypted blocks do not pack, which the averages show.
//!
//! Invariants
//! 1. What is unpacked is as long as the frame said, and no longer than a block: nothing is allocated beyond that.
//! 2. A block that does not become smaller travels as it is.
//! 3. A mode counts from the next block on: [`ModeOf`] is asked for each.
//!
//! Read next: `choice`, `cache`.

mod cache;
mod choice;

pub use cache::{CacheCounts, PackCache, Packed};
pub use choice::{Choice, Decision, LinkRate};

use crate::wire::{BLOCK_BYTES_MAX, Block, Codec, WireError};
use std::cell::RefCell;
use std::sync::Arc;

/// Level of zstd: above 3 nothing is gained on log, and 1 is the fastest of the usual ones.
const ZSTD_LEVEL: i32 = 1;

/// When a stream is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// Never.
    Never,
    /// Every block that becomes smaller.
    Always,
    /// When it is faster.
    #[default]
    Automatic,
}

/// Which release's defaults apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Defaults {
    /// Daruma's own: automatic.
    #[default]
    Automatic,
    /// Of 2012 and 2014: every stream of log.
    Of2014,
    /// Of 2016 and later: log to asynchronous replicas only.
    Of2016,
}

/// Trace flags that are on for the whole instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TraceFlags {
    /// 9592: log to synchronous replicas is compressed.
    pub to_synchronous: bool,
    /// 1462: log to asynchronous replicas is not compressed.
    pub not_to_asynchronous: bool,
    /// 9567: seeding is compressed.
    pub seeding: bool,
}

/// How log goes to a replica now; told whether the replica is a synchronous one.
pub type ModeOf = Arc<dyn Fn(bool) -> Mode + Send + Sync>;

impl Mode {
    /// For log to a replica.
    pub fn of_log(defaults: Defaults, flags: TraceFlags, synchronous: bool) -> Mode {
        match (synchronous, defaults) {
            (true, _) if flags.to_synchronous => Mode::Always,
            (false, _) if flags.not_to_asynchronous => Mode::Never,
            (_, Defaults::Automatic) => Mode::Automatic,
            (true, Defaults::Of2016) => Mode::Never,
            (_, Defaults::Of2014 | Defaults::Of2016) => Mode::Always,
        }
    }

    /// For seeding.
    pub fn of_seeding(defaults: Defaults, flags: TraceFlags) -> Mode {
        match defaults {
            _ if flags.seeding => Mode::Always,
            Defaults::Automatic => Mode::Automatic,
            Defaults::Of2014 | Defaults::Of2016 => Mode::Never,
        }
    }
}

thread_local! {
    static ZSTD: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// Packs a block. `None`: it would not become smaller.
pub fn pack(codec: Codec, plain: &[u8]) -> Option<Arc<[u8]>> {
    let packed = match codec {
        Codec::Plain => return None,
        Codec::Lz4 => lz4_flex::block::compress(plain),
        Codec::Zstd => pack_zstd(plain)?,
    };
    (packed.len() < plain.len()).then(|| Arc::from(packed))
}

fn pack_zstd(plain: &[u8]) -> Option<Vec<u8>> {
    ZSTD.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
        }
        kept.as_mut()?.compress(plain).ok()
    })
}

/// The bytes of a block as they were before they were packed.
pub fn unpack(block: &Block) -> Result<Arc<[u8]>, WireError> {
    if block.codec == Codec::Plain {
        return Ok(block.bytes.clone());
    }
    let packed = (block.codec, block.plain_bytes, &*block.bytes);
    unpack_within(BLOCK_BYTES_MAX, packed).map(Arc::from)
}

/// Unpacks bytes that were packed by this codec, so many before: `Err` where they were others, or more than `most`.
pub fn unpack_within(
    most: usize,
    (codec, plain_bytes, packed): (Codec, u32, &[u8]),
) -> Result<Vec<u8>, WireError> {
    let bad = WireError::Body("packed block");
    let plain_bytes = usize::try_from(plain_bytes).unwrap_or(usize::MAX);
    if plain_bytes > most {
        return Err(bad);
    }
    let mut plain = vec![0; plain_bytes];
    let length = match codec {
        Codec::Plain => return Err(bad),
        Codec::Lz4 => lz4_flex::block::decompress_into(packed, &mut plain).map_err(|_| bad)?,
        Codec::Zstd => zstd::bulk::decompress_to_buffer(packed, &mut plain[..]).map_err(|_| bad)?,
    };
    match length == plain_bytes {
        true => Ok(plain),
        false => Err(bad),
    }
}

#[cfg(test)]
mod tests;
