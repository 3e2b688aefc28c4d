//! Pages: 8 KiB, a 64-byte header, entries growing up, a slot array growing down.
//!
//! ```text
//! 0 checksum u32 | 4 type u8 | 5 level u8 | 6 flags u16 | 8 page_lsn u64 | 16 file u16 | 18 slots u16 | 20 page u32
//! 24 tree root u48 | 30 heap_top u16 | 32 next page u48 | 38 garbage u16 | 40 reserved .. 64 entries
//! ```
//! Leaf entry: flags u8 | writer u48 | version u48 | key_len u16 | payload_len u16 | key | payload.
//! Internal entry: child u48 | key_len u16 | key; the first entry's key is empty (minus infinity).
//!
//! Invariants
//! 1. A page that passed [`Page::validate`] can be read without bounds failing; every change keeps it so.
//! 2. `heap_top - 64 - garbage` = bytes of live entries; compaction changes no logical content and is not logged.
//! 3. Entries are in key order by slot.

use crate::bytes::*;
use daruma_base::{Lsn, PageId, TxnId};
use std::cmp::Ordering;

/// Size of every page.
pub const PAGE_BYTES: usize = 8192;
/// Its first bytes, the same in every type.
pub const HEADER_BYTES: usize = 64;
/// Bytes of a leaf entry before key and payload: flags, writer, version, two lengths.
pub const LEAF_HEAD_BYTES: usize = 17;
/// Bytes of an internal entry before its key: child and length.
pub const INTERNAL_HEAD_BYTES: usize = 8;
const SLOT_BYTES: usize = 2;
/// Usable bytes of a page for entries and slots.
pub const CAPACITY_BYTES: usize = PAGE_BYTES - HEADER_BYTES;

/// The entry is deleted; it stays until no reader can need it.
pub const FLAG_DELETED: u8 = 1;

/// Kind of a page, as its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageType {
    Free = 0,
    FileHeader = 1,
    Boot = 2,
    Allocation = 3,
    Tree = 4,
    Blob = 5,
    DoubleWrite = 6,
    Versions = 7,
}

impl PageType {
    /// The type of a stored byte; `None` for one that no release has written.
    pub fn from_u8(v: u8) -> Option<PageType> {
        use PageType::*;
        [
            Free,
            FileHeader,
            Boot,
            Allocation,
            Tree,
            Blob,
            DoubleWrite,
            Versions,
        ]
        .into_iter()
        .find(|t| *t as u8 == v)
    }
}

/// Head of a leaf entry: who wrote it, and where its previous version is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Head {
    /// [`FLAG_DELETED`] or 0.
    pub flags: u8,
    /// Transaction that wrote the entry last.
    pub writer: TxnId,
    /// 0 = no older version.
    pub version: u64,
}

impl Head {
    /// The entry is there for those only who still need what was before.
    pub fn is_deleted(self) -> bool {
        self.flags & FLAG_DELETED != 0
    }
}

/// An entry of a leaf, as it lies on the page.
#[derive(Clone, Copy, Debug)]
pub struct LeafEntry<'a> {
    /// Transaction that wrote it.
    pub head: Head,
    /// By which entries are ordered.
    pub key: &'a [u8],
    /// Payload that the caller stored under the key.
    pub payload: &'a [u8],
}

/// The bytes of one page.
#[derive(Clone)]
pub struct Page {
    bytes: Box<[u8; PAGE_BYTES]>,
}

impl Page {
    /// A page that was never written.
    pub fn zeroed() -> Page {
        Page {
            bytes: Box::new([0; PAGE_BYTES]),
        }
    }

    /// All of it, as it is on disk.
    pub fn bytes(&self) -> &[u8; PAGE_BYTES] {
        &self.bytes
    }

    /// The same to change. The checksum is wrong until [`Page::seal`].
    pub fn bytes_mut(&mut self) -> &mut [u8; PAGE_BYTES] {
        &mut self.bytes
    }

    /// Empties the page and gives it an identity.
    pub fn format(&mut self, id: PageId, page_type: PageType, level: u8, tree: PageId) {
        self.bytes.fill(0);
        self.bytes[4] = page_type as u8;
        self.bytes[5] = level;
        put_u16(&mut self.bytes[..], 16, id.file);
        put_u32(&mut self.bytes[..], 20, id.page);
        put_u48(&mut self.bytes[..], 24, tree.to_u64());
        self.set_heap_top(HEADER_BYTES);
    }

    /// As the file system gives what was never written.
    pub fn is_zero(&self) -> bool {
        self.bytes.iter().all(|b| *b == 0)
    }

    // --- header -------------------------------------------------------------------------------------------------

    /// `None` for an unknown type.
    pub fn page_type(&self) -> Option<PageType> {
        PageType::from_u8(self.bytes[4])
    }
    /// Of a tree page: 0 for leaves.
    pub fn level(&self) -> u8 {
        self.bytes[5]
    }
    /// Of a tree page: it has entries, not children.
    pub fn is_leaf(&self) -> bool {
        self.bytes[5] == 0
    }
    /// Position of the last record that changed it.
    pub fn lsn(&self) -> Lsn {
        Lsn(get_u64(&self.bytes[..], 8))
    }
    /// See [`Page::lsn`].
    pub fn set_lsn(&mut self, lsn: Lsn) {
        put_u64(&mut self.bytes[..], 8, lsn.0);
    }
    /// Where the page says that it belongs.
    pub fn id(&self) -> PageId {
        PageId::new(get_u16(&self.bytes[..], 16), get_u32(&self.bytes[..], 20))
    }
    /// Number of entries.
    pub fn slots(&self) -> usize {
        usize::from(get_u16(&self.bytes[..], 18))
    }
    fn set_slots(&mut self, n: usize) {
        put_u16(&mut self.bytes[..], 18, n as u16);
    }
    /// Root of its tree, or first page of its blob.
    pub fn tree(&self) -> PageId {
        PageId::from_u64(get_u48(&self.bytes[..], 24))
    }
    fn heap_top(&self) -> usize {
        usize::from(get_u16(&self.bytes[..], 30))
    }
    fn set_heap_top(&mut self, v: usize) {
        put_u16(&mut self.bytes[..], 30, v as u16);
    }
    /// The page to the right, or the next of a chain; none at the end.
    pub fn next(&self) -> PageId {
        PageId::from_u64(get_u48(&self.bytes[..], 32))
    }
    /// See [`Page::next`].
    pub fn set_next(&mut self, page: PageId) {
        put_u48(&mut self.bytes[..], 32, page.to_u64());
    }
    fn garbage(&self) -> usize {
        usize::from(get_u16(&self.bytes[..], 38))
    }
    fn set_garbage(&mut self, v: usize) {
        put_u16(&mut self.bytes[..], 38, v as u16);
    }

    /// CRC32C of everything behind the stored one.
    pub fn compute_checksum(&self) -> u32 {
        crc32c::crc32c(&self.bytes[4..])
    }
    /// Checksum in the page's header.
    pub fn stored_checksum(&self) -> u32 {
        get_u32(&self.bytes[..], 0)
    }
    /// Stores the checksum: the last thing before a page is written.
    pub fn seal(&mut self) {
        let sum = self.compute_checksum();
        put_u32(&mut self.bytes[..], 0, sum);
    }

    // --- space --------------------------------------------------------------------------------------------------

    fn slots_start(&self) -> usize {
        PAGE_BYTES - self.slots() * SLOT_BYTES
    }
    fn contiguous_free(&self) -> usize {
        self.slots_start().saturating_sub(self.heap_top())
    }
    /// Free bytes, garbage included.
    pub fn free_bytes(&self) -> usize {
        self.contiguous_free() + self.garbage()
    }
    /// Does a new entry of `entry_bytes` (with its slot) fit?
    pub fn fits(&self, entry_bytes: usize) -> bool {
        self.free_bytes() >= entry_bytes + SLOT_BYTES
    }
    /// Does an entry of this page fit when it changes its size from `old` to `new` bytes?
    pub fn fits_resized(&self, old: usize, new: usize) -> bool {
        new <= old || self.free_bytes() + old >= new
    }
    /// Bytes of entries and slots.
    pub fn used_bytes(&self) -> usize {
        CAPACITY_BYTES - self.free_bytes()
    }

    #[inline]
    fn offset(&self, slot: usize) -> usize {
        usize::from(get_u16(
            &self.bytes[..],
            PAGE_BYTES - (slot + 1) * SLOT_BYTES,
        ))
    }
    fn set_offset(&mut self, slot: usize, offset: usize) {
        put_u16(
            &mut self.bytes[..],
            PAGE_BYTES - (slot + 1) * SLOT_BYTES,
            offset as u16,
        );
    }

    /// Bytes of the entry in `slot`.
    pub fn entry_bytes(&self, slot: usize) -> usize {
        let at = self.offset(slot);
        if self.is_leaf() {
            LEAF_HEAD_BYTES
                + usize::from(get_u16(&self.bytes[..], at + 13))
                + usize::from(get_u16(&self.bytes[..], at + 15))
        } else {
            INTERNAL_HEAD_BYTES + usize::from(get_u16(&self.bytes[..], at + 6))
        }
    }

    /// Moves entries together so that all free space is in one piece.
    fn compact(&mut self) {
        let mut copy = [0u8; PAGE_BYTES];
        let mut top = HEADER_BYTES;
        for slot in 0..self.slots() {
            let (at, len) = (self.offset(slot), self.entry_bytes(slot));
            copy[top..top + len].copy_from_slice(&self.bytes[at..at + len]);
            // The slot array is rewritten as we go; entries are read from the untouched heap.
            self.set_offset(slot, top);
            top += len;
        }
        self.bytes[HEADER_BYTES..top].copy_from_slice(&copy[HEADER_BYTES..top]);
        self.set_heap_top(top);
        self.set_garbage(0);
    }

    /// Space for `len` bytes at the top of the heap. The caller has checked that they fit.
    fn allocate(&mut self, len: usize, extra_slot: usize) -> usize {
        if self.contiguous_free() < len + extra_slot {
            self.compact();
        }
        assert!(
            self.contiguous_free() >= len + extra_slot,
            "page {} has no room for {len} bytes",
            self.id()
        );
        let at = self.heap_top();
        self.set_heap_top(at + len);
        at
    }

    fn open_slot(&mut self, slot: usize) {
        let n = self.slots();
        let start = PAGE_BYTES - n * SLOT_BYTES;
        let end = PAGE_BYTES - slot * SLOT_BYTES;
        self.bytes.copy_within(start..end, start - SLOT_BYTES);
        self.set_slots(n + 1);
    }

    fn close_slot(&mut self, slot: usize) {
        let n = self.slots();
        let start = PAGE_BYTES - n * SLOT_BYTES;
        let end = PAGE_BYTES - (slot + 1) * SLOT_BYTES;
        self.bytes.copy_within(start..end, start + SLOT_BYTES);
        self.set_slots(n - 1);
    }

    /// Removes an entry altogether.
    pub fn remove(&mut self, slot: usize) {
        let len = self.entry_bytes(slot);
        self.close_slot(slot);
        self.set_garbage(self.garbage() + len);
    }

    /// Keeps the first `count` entries.
    pub fn truncate(&mut self, count: usize) {
        while self.slots() > count {
            self.remove(self.slots() - 1);
        }
    }

    // --- leaf entries -------------------------------------------------------------------------------------------

    /// Head of a leaf entry. Panics for a slot that is not there.
    #[inline]
    pub fn head(&self, slot: usize) -> Head {
        let at = self.offset(slot);
        Head {
            flags: self.bytes[at],
            writer: TxnId(get_u48(&self.bytes[..], at + 1)),
            version: get_u48(&self.bytes[..], at + 7),
        }
    }

    /// Replaces the head of a leaf entry, which keeps its place.
    pub fn set_head(&mut self, slot: usize, head: Head) {
        let at = self.offset(slot);
        self.write_head(at, head);
    }

    fn write_head(&mut self, at: usize, head: Head) {
        self.bytes[at] = head.flags;
        put_u48(&mut self.bytes[..], at + 1, head.writer.0);
        put_u48(&mut self.bytes[..], at + 7, head.version);
    }

    /// A leaf entry. Panics for a slot that is not there.
    #[inline]
    pub fn leaf(&self, slot: usize) -> LeafEntry<'_> {
        let at = self.offset(slot);
        let key_len = usize::from(get_u16(&self.bytes[..], at + 13));
        let payload_len = usize::from(get_u16(&self.bytes[..], at + 15));
        let key_at = at + LEAF_HEAD_BYTES;
        LeafEntry {
            head: self.head(slot),
            key: &self.bytes[key_at..key_at + key_len],
            payload: &self.bytes[key_at + key_len..key_at + key_len + payload_len],
        }
    }

    /// Key of a leaf entry, or separator of an internal one.
    #[inline]
    pub fn key(&self, slot: usize) -> &[u8] {
        let at = self.offset(slot);
        let (len_at, key_at) = if self.is_leaf() {
            (13, LEAF_HEAD_BYTES)
        } else {
            (6, INTERNAL_HEAD_BYTES)
        };
        let len = usize::from(get_u16(&self.bytes[..], at + len_at));
        &self.bytes[at + key_at..at + key_at + len]
    }

    /// Payload of a leaf entry.
    pub fn payload(&self, slot: usize) -> &[u8] {
        self.leaf(slot).payload
    }

    /// Room that a leaf entry takes, without its slot.
    pub fn leaf_entry_bytes(key: &[u8], payload_len: usize) -> usize {
        LEAF_HEAD_BYTES + key.len() + payload_len
    }

    /// Inserts an entry at `slot`; those from there on move up. It must fit ([`Page::fits`]).
    pub fn insert_leaf(&mut self, slot: usize, head: Head, key: &[u8], payload: &[u8]) {
        let len = Self::leaf_entry_bytes(key, payload.len());
        let at = self.allocate(len, SLOT_BYTES);
        self.open_slot(slot);
        self.set_offset(slot, at);
        self.write_leaf(at, head, key, payload);
    }

    fn write_leaf(&mut self, at: usize, head: Head, key: &[u8], payload: &[u8]) {
        self.write_head(at, head);
        put_u16(&mut self.bytes[..], at + 13, key.len() as u16);
        put_u16(&mut self.bytes[..], at + 15, payload.len() as u16);
        let key_at = at + LEAF_HEAD_BYTES;
        self.bytes[key_at..key_at + key.len()].copy_from_slice(key);
        let payload_at = key_at + key.len();
        self.bytes[payload_at..payload_at + payload.len()].copy_from_slice(payload);
    }

    /// Replaces head and payload. The caller has checked `fits_resized`.
    pub fn replace_leaf(&mut self, slot: usize, head: Head, payload: &[u8]) {
        let at = self.offset(slot);
        let key_len = usize::from(get_u16(&self.bytes[..], at + 13));
        let old_payload = usize::from(get_u16(&self.bytes[..], at + 15));
        let old = LEAF_HEAD_BYTES + key_len + old_payload;
        if payload.len() <= old_payload {
            self.write_head(at, head);
            put_u16(&mut self.bytes[..], at + 15, payload.len() as u16);
            let payload_at = at + LEAF_HEAD_BYTES + key_len;
            self.bytes[payload_at..payload_at + payload.len()].copy_from_slice(payload);
            self.set_garbage(self.garbage() + old_payload - payload.len());
            return;
        }
        let new = LEAF_HEAD_BYTES + key_len + payload.len();
        let mut key = [0u8; crate::api::KEY_BYTES_MAX];
        key[..key_len].copy_from_slice(self.key(slot));
        if self.contiguous_free() < new {
            // Shrink the old entry to nothing first, so that compaction frees its space.
            put_u16(&mut self.bytes[..], at + 13, 0);
            put_u16(&mut self.bytes[..], at + 15, 0);
            self.compact();
            self.set_garbage(LEAF_HEAD_BYTES);
            if self.contiguous_free() < new {
                // The empty stub itself is in the way: drop it and compact once more.
                self.close_slot(slot);
                self.compact();
                let to = self.allocate(new, SLOT_BYTES);
                self.open_slot(slot);
                self.set_offset(slot, to);
                self.write_leaf(to, head, &key[..key_len], payload);
                return;
            }
        } else {
            self.set_garbage(self.garbage() + old);
        }
        let to = self.heap_top();
        self.set_heap_top(to + new);
        self.set_offset(slot, to);
        self.write_leaf(to, head, &key[..key_len], payload);
    }

    // --- internal entries ---------------------------------------------------------------------------------------

    /// Page below an internal entry.
    pub fn child(&self, slot: usize) -> PageId {
        PageId::from_u64(get_u48(&self.bytes[..], self.offset(slot)))
    }

    /// Inserts an internal entry at `slot`. It must fit ([`Page::fits`]).
    pub fn insert_internal(&mut self, slot: usize, child: PageId, key: &[u8]) {
        let at = self.allocate(INTERNAL_HEAD_BYTES + key.len(), SLOT_BYTES);
        self.open_slot(slot);
        self.set_offset(slot, at);
        put_u48(&mut self.bytes[..], at, child.to_u64());
        put_u16(&mut self.bytes[..], at + 6, key.len() as u16);
        let key_at = at + INTERNAL_HEAD_BYTES;
        self.bytes[key_at..key_at + key.len()].copy_from_slice(key);
    }

    // --- search -------------------------------------------------------------------------------------------------

    /// Position of `key`: `Ok(slot)` when there, `Err(slot)` where it would go.
    pub fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.slots());
        while low < high {
            let mid = (low + high) / 2;
            match self.key(mid).cmp(key) {
                Ordering::Less => low = mid + 1,
                Ordering::Greater => high = mid,
                Ordering::Equal => return Ok(mid),
            }
        }
        Err(low)
    }

    /// Slot of the child that covers `key` (internal pages).
    pub fn child_slot(&self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(slot) => slot,
            Err(slot) => slot.saturating_sub(1),
        }
    }

    // --- images -------------------------------------------------------------------------------------------------

    /// Compact copy for the log: header and live entries without free space.
    pub fn write_image(&self, out: &mut Vec<u8>) {
        match self.page_type() {
            Some(PageType::Tree) => {
                out.extend_from_slice(&self.bytes[..HEADER_BYTES]);
                for slot in 0..self.slots() {
                    let (at, len) = (self.offset(slot), self.entry_bytes(slot));
                    out.extend_from_slice(&self.bytes[at..at + len]);
                }
            }
            _ => {
                let end = self
                    .bytes
                    .iter()
                    .rposition(|b| *b != 0)
                    .map_or(HEADER_BYTES, |p| (p + 1).max(HEADER_BYTES));
                out.extend_from_slice(&self.bytes[..end]);
            }
        }
    }

    /// Rebuilds the page from an image. False when the image is damaged.
    #[must_use]
    pub fn read_image(&mut self, image: &[u8]) -> bool {
        if image.len() < HEADER_BYTES || image.len() > PAGE_BYTES {
            return false;
        }
        self.bytes.fill(0);
        let page_type = PageType::from_u8(image[4]);
        if page_type != Some(PageType::Tree) {
            self.bytes[..image.len()].copy_from_slice(image);
            return page_type.is_some();
        }
        self.bytes[..HEADER_BYTES].copy_from_slice(&image[..HEADER_BYTES]);
        let slots = self.slots();
        self.set_garbage(0);
        if HEADER_BYTES + slots * SLOT_BYTES > PAGE_BYTES
            || image.len() + slots * SLOT_BYTES > PAGE_BYTES
        {
            return false;
        }
        self.bytes[HEADER_BYTES..image.len()].copy_from_slice(&image[HEADER_BYTES..]);
        let mut at = HEADER_BYTES;
        for slot in 0..slots {
            if at + LEAF_HEAD_BYTES.max(INTERNAL_HEAD_BYTES) > PAGE_BYTES {
                return false;
            }
            self.set_offset(slot, at);
            at += self.entry_bytes(slot);
        }
        self.set_heap_top(at);
        at == image.len() && self.validate().is_ok()
    }

    /// Checks that every access stays inside the page. Done once when a page comes from disk.
    pub fn validate(&self) -> Result<(), &'static str> {
        if self.page_type() != Some(PageType::Tree) {
            return if self.page_type().is_some() {
                Ok(())
            } else {
                Err("unknown page type")
            };
        }
        let (slots, top) = (self.slots(), self.heap_top());
        if slots * SLOT_BYTES > CAPACITY_BYTES
            || top < HEADER_BYTES
            || top > PAGE_BYTES - slots * SLOT_BYTES
        {
            return Err("free space out of bounds");
        }
        let head = if self.is_leaf() {
            LEAF_HEAD_BYTES
        } else {
            INTERNAL_HEAD_BYTES
        };
        let mut live = 0;
        for slot in 0..slots {
            let at = self.offset(slot);
            if at < HEADER_BYTES || at + head > top || at + self.entry_bytes(slot) > top {
                return Err("entry out of bounds");
            }
            live += self.entry_bytes(slot);
        }
        if live + self.garbage() + HEADER_BYTES != top {
            return Err("free space does not add up");
        }
        if !self.is_leaf() && slots == 0 {
            return Err("internal page without children");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leaf() -> Page {
        let mut page = Page::zeroed();
        page.format(PageId::new(1, 7), PageType::Tree, 0, PageId::new(1, 7));
        page
    }

    proptest! {
        /// A page behaves like a sorted map under any sequence of inserts, replacements and removals, and an image
        /// of it rebuilds the same content.
        #[test]
        fn behaves_like_a_map(ops in proptest::collection::vec((0u8..3, 0u8..40, 0usize..900), 1..200)) {
            let mut page = leaf();
            let mut model = std::collections::BTreeMap::<Vec<u8>, Vec<u8>>::new();
            for (op, k, len) in ops {
                let key = vec![k; 1 + usize::from(k % 5)];
                let payload = vec![k ^ 0x55; len];
                match (op, page.search(&key)) {
                    (0, Err(slot)) if page.fits(Page::leaf_entry_bytes(&key, len)) => {
                        page.insert_leaf(slot, Head::default(), &key, &payload);
                        model.insert(key, payload);
                    }
                    (1, Ok(slot)) => {
                        let old = page.entry_bytes(slot);
                        if page.fits_resized(old, Page::leaf_entry_bytes(&key, len)) {
                            page.replace_leaf(slot, Head { writer: TxnId(9), ..Head::default() }, &payload);
                            model.insert(key, payload);
                        }
                    }
                    (2, Ok(slot)) => {
                        page.remove(slot);
                        model.remove(&key);
                    }
                    _ => {}
                }
                prop_assert_eq!(page.validate(), Ok(()));
            }
            let content: Vec<_> = (0..page.slots()).map(|s| (page.key(s).to_vec(), page.payload(s).to_vec())).collect();
            prop_assert_eq!(&content, &model.into_iter().collect::<Vec<_>>());
            let mut image = Vec::new();
            page.write_image(&mut image);
            let mut copy = Page::zeroed();
            prop_assert!(copy.read_image(&image));
            let copied: Vec<_> = (0..copy.slots()).map(|s| (copy.key(s).to_vec(), copy.payload(s).to_vec())).collect();
            prop_assert_eq!(content, copied);
        }

        #[test]
        fn damaged_images_are_refused_without_panic(mut image in proptest::collection::vec(any::<u8>(), 0..9000)) {
            if image.len() > 4 { image[4] = PageType::Tree as u8; }
            let mut page = Page::zeroed();
            let _ = page.read_image(&image);
        }
    }
}
