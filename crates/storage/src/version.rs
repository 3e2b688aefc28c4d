//! Versions of rows for snapshots: what an entry was before a transaction changed it.
//!
//! Theory: each transaction appends to its own chunks, which nobody else writes; the entry's head holds the place
//! (chunk number and offset, 48 bits). When the watermark passes a transaction, its chunks are dropped whole, without
//! visiting a row: a stale locator is never followed, because the row's writer is then below the watermark.
//!
//! Version: length u16 | flags u8 | writer u48 | version u48 (the head before) | payload before. The payload is kept
//! whole, so a transaction that changes a row again needs no second version: nothing here depends on what came later.

use crate::bytes::{Put, Reader};
use crate::page::Head;
use daruma_base::TxnId;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const CHUNK_BYTES: usize = 64 << 10;
const SMALL_CHUNK_BYTES: usize = 256;

type Chunk = Arc<RwLock<Vec<u8>>>;

/// All versions of one database.
pub struct VersionStore {
    chunks: RwLock<HashMap<u32, Chunk>>,
    next: AtomicU32,
    /// Chunks of each transaction, to be dropped when the watermark passes it.
    owned: Mutex<BTreeMap<TxnId, Vec<u32>>>,
    bytes: AtomicU64,
}

/// The chunk a transaction is appending to.
#[derive(Default)]
pub struct Segment {
    current: Option<(u32, Chunk)>,
    scratch: Vec<u8>,
}

/// An older state of an entry.
pub struct Version {
    pub head: Head,
    pub payload: Vec<u8>,
}

impl Default for VersionStore {
    fn default() -> VersionStore {
        VersionStore {
            chunks: RwLock::default(),
            next: AtomicU32::new(1),
            owned: Mutex::default(),
            bytes: AtomicU64::new(0),
        }
    }
}

impl VersionStore {
    /// Adds a version and returns its locator.
    pub fn add(&self, segment: &mut Segment, txn: TxnId, head: Head, payload: &[u8]) -> u64 {
        let bytes = &mut segment.scratch;
        bytes.clear();
        bytes.put_u16((13 + payload.len()) as u16);
        bytes.put_u8(head.flags);
        bytes.put_u48(head.writer.0);
        bytes.put_u48(head.version);
        bytes.extend_from_slice(payload);
        let bytes = std::mem::take(&mut segment.scratch);
        let at = self.append(segment, txn, &bytes);
        segment.scratch = bytes;
        at
    }

    fn append(&self, segment: &mut Segment, txn: TxnId, bytes: &[u8]) -> u64 {
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if let Some((id, chunk)) = &segment.current {
            let mut chunk = chunk.write();
            if chunk.len() + bytes.len() <= CHUNK_BYTES {
                let offset = chunk.len() as u64;
                chunk.extend_from_slice(bytes);
                return (u64::from(*id) << 16) | offset;
            }
        }
        let capacity = if segment.current.is_some() {
            CHUNK_BYTES
        } else {
            SMALL_CHUNK_BYTES.max(bytes.len())
        };
        let mut content = Vec::with_capacity(capacity);
        content.extend_from_slice(bytes);
        let chunk = Arc::new(RwLock::new(content));
        let id = self.publish(txn, &chunk);
        segment.current = Some((id, chunk));
        u64::from(id) << 16
    }

    fn publish(&self, txn: TxnId, chunk: &Chunk) -> u32 {
        let mut chunks = self.chunks.write();
        let id = loop {
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            // 0 means "no version"; after a wrap, numbers still in use are skipped.
            if id != 0 && !chunks.contains_key(&id) {
                break id;
            }
        };
        chunks.insert(id, chunk.clone());
        self.owned.lock().entry(txn).or_default().push(id);
        id
    }

    /// The version at a locator. `None` when it was dropped: the entry's writer has become visible to everyone.
    pub fn read(&self, locator: u64) -> Option<Version> {
        let chunk = self.chunks.read().get(&((locator >> 16) as u32)).cloned()?;
        let chunk = chunk.read();
        let mut reader = Reader::new(chunk.get((locator & 0xFFFF) as usize..)?);
        let mut version = Reader::new(reader.short()?);
        let head = Head {
            flags: version.u8()?,
            writer: TxnId(version.u48()?),
            version: version.u48()?,
        };
        Some(Version {
            head,
            payload: version.rest().to_vec(),
        })
    }

    /// Drops the versions of every transaction below the watermark.
    pub fn drop_below(&self, watermark: TxnId) {
        let mut owned = self.owned.lock();
        if owned
            .first_key_value()
            .is_none_or(|(txn, _)| *txn >= watermark)
        {
            return;
        }
        let keep = owned.split_off(&watermark);
        let dropped = std::mem::replace(&mut *owned, keep);
        drop(owned);
        let mut chunks = self.chunks.write();
        let gone: Vec<Chunk> = dropped
            .values()
            .flatten()
            .filter_map(|id| chunks.remove(id))
            .collect();
        drop(chunks);
        let bytes: u64 = gone.iter().map(|c| c.read().len() as u64).sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes of versions in memory.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_until_their_writer_is_below_the_watermark() {
        let store = VersionStore::default();
        let (mut a, mut b) = (Segment::default(), Segment::default());
        let head = Head {
            flags: 0,
            writer: TxnId(3),
            version: 9,
        };
        let at = store.add(&mut a, TxnId(10), head, b"old payload");
        let other = store.add(&mut b, TxnId(11), head, b"x");
        let version = store.read(at).expect("there");
        assert_eq!(
            (version.head, version.payload),
            (head, b"old payload".to_vec())
        );
        store.drop_below(TxnId(11));
        assert!(store.read(at).is_none() && store.read(other).is_some());
        store.drop_below(TxnId(12));
        assert_eq!((store.read(other).is_none(), store.bytes()), (true, 0));
    }
}
