//! Packed blocks, shared by the links that want the same block packed in the same way.
//!
//! The first link that asks packs; others wait for it rather than do the same again.

use super::pack;
use crate::wire::Codec;
use daruma_base::Lsn;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A block as it travels.
#[derive(Clone, Debug)]
pub struct Packed {
    /// How. Plain: it did not become smaller.
    pub codec: Codec,
    /// What is sent.
    pub bytes: Arc<[u8]>,
}

type Key = (Lsn, Codec);
type Place = Arc<OnceLock<Packed>>;

/// Of one database.
pub struct PackCache {
    kept: Mutex<Kept>,
    bytes_max: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Default)]
struct Kept {
    places: BTreeMap<Key, Place>,
    order: VecDeque<(Key, usize)>,
    bytes: usize,
}

/// The product's counters Log Compression Cache hits and misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CacheCounts {
    /// Blocks that another link had packed.
    pub hits: u64,
    /// Blocks that were packed.
    pub misses: u64,
}

impl PackCache {
    /// A cache of blocks that were at most so many bytes long before they were packed.
    pub fn new(bytes_max: usize) -> PackCache {
        PackCache {
            kept: Mutex::default(),
            bytes_max,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The block at `lsn`, packed. The time it took is handed on if it was done now: `clock` is a monotonic one.
    pub fn get(
        &self,
        lsn: Lsn,
        codec: Codec,
        plain: &[u8],
        clock: &dyn Fn() -> Duration,
    ) -> (Packed, Option<Duration>) {
        let place = self.place(lsn, codec, plain.len());
        let mut took = None;
        let packed = place.get_or_init(|| {
            let began = clock();
            let packed = packed_or_plain(codec, plain);
            took = Some(clock().saturating_sub(began));
            packed
        });
        let count = if took.is_some() {
            &self.misses
        } else {
            &self.hits
        };
        count.fetch_add(1, Ordering::Relaxed);
        (packed.clone(), took)
    }

    /// Has a link packed this block in this way?
    pub fn has(&self, lsn: Lsn, codec: Codec) -> bool {
        self.kept.lock().places.contains_key(&(lsn, codec))
    }

    /// A log was cut and goes on with other blocks at the same positions.
    pub fn clear(&self) {
        *self.kept.lock() = Kept::default();
    }

    /// Hits and misses.
    pub fn counts(&self) -> CacheCounts {
        CacheCounts {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }

    fn place(&self, lsn: Lsn, codec: Codec, plain_bytes: usize) -> Place {
        let mut kept = self.kept.lock();
        if let Some(place) = kept.places.get(&(lsn, codec)) {
            return place.clone();
        }
        let place = Place::default();
        kept.places.insert((lsn, codec), place.clone());
        kept.order.push_back(((lsn, codec), plain_bytes));
        kept.bytes += plain_bytes;
        while kept.bytes > self.bytes_max {
            let Some((oldest, bytes)) = kept.order.pop_front() else {
                break;
            };
            kept.places.remove(&oldest);
            kept.bytes -= bytes;
        }
        place
    }
}

fn packed_or_plain(codec: Codec, plain: &[u8]) -> Packed {
    match pack(codec, plain) {
        Some(bytes) => Packed { codec, bytes },
        None => Packed {
            codec: Codec::Plain,
            bytes: Arc::from(plain),
        },
    }
}
