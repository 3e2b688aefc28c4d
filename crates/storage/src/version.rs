//! Versions of rows: what an entry was before a transaction changed it.
//!
//! Theory: each transaction appends to its own chunks, which nobody else writes; the entry's head holds the place
//! (chunk number and offset, 48 bits). Versions serve snapshots, and under accelerated recovery they also stand for
//! undo. When a committed transaction is visible to everyone, its chunks are dropped whole, without visiting a row: a
//! stale locator is never followed, because the row's writer is visible then.
//!
//! Version: length u16 | flags u8 | writer u48 | version u48 (the head before) | payload before. The payload is kept
//! whole, so a transaction that changes a row again needs no second version: nothing here depends on what came later. It makes one
//! all the same where the row was longer in between: the version says how many bytes its page keeps for it (`tree::room`).
//!
//! Chunks live in memory and reach pages only when they must (`pvs`). Under accelerated recovery a data page may be written
//! only when the versions its unresolved entries point to are on pages, which the log has; changes that the crash took
//! from the page are redone, and redo rebuilds their versions from the page as it was. Either way the version of every
//! change that survives a crash survives with it.
//!
//! A transaction that is resolved in memory may be unresolved again after a crash: its commit record, or what took its
//! changes back, may not be on disk. So a guard falls only with the position of that record (`VersionStore::release`), and
//! the log is hard up to there before another page is written.
//!
//! A transaction with lasting savepoints has several ids, and a version made under a later one may lead to a version of
//! an earlier one: a page waits for both (`Content::below`).
//!
//! Invariants
//! 1. A chunk on pages is sealed: nothing is appended to it any more.
//! 2. [`VersionStore::holds_back`] is asked before a data page is written, and the log is hard up to
//!    [`VersionStore::hard_first`], asked after it.
//! 3. [`VersionStore::release`] is called before anybody can take the transaction for resolved: before its state changes in
//!    the transaction table, before its chunks stop guarding or go.
//!
//! Read next: `pvs`, `revert`, docs/format.md

use crate::bytes::{Put, Reader};
use crate::page::{Head, Page};
use crate::pause::pause;
use crate::planted::{Bug, planted};
use crate::sync::{Mutex, RwLock};
use daruma_base::memory::for_all;
use daruma_base::{Lsn, PageId, TxnId};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// A whole number of version pages (`pvs`); offsets fit 16 bits, and images of the pages one record.
pub const CHUNK_BYTES: usize = crate::pvs::CHUNK_PAGES_MAX * crate::pvs::PAGE_DATA_BYTES;
const SMALL_CHUNK_BYTES: usize = 256;
/// What a chunk takes of memory beside its versions, about: the rest of a small one, its entry among the chunks and in the
/// list of its transaction.
const CHUNK_OVERHEAD_BYTES: u64 = 512;

/// Versions of one transaction, side by side.
pub struct Chunk {
    pub id: u32,
    pub txn: TxnId,
    /// Data pages whose entries point here wait until the chunk is on pages.
    pub guards_pages: AtomicBool,
    pub(crate) content: RwLock<Content>,
}

/// Versions of a chunk and what is known of their pages.
#[derive(Default)]
pub struct Content {
    /// Empty when the chunk is on pages only. After a restart a length of zero means: look on the pages.
    pub bytes: Vec<u8>,
    pub is_sealed: bool,
    /// Its pages in order, once it has some.
    pub pages: Vec<PageId>,
    /// Chunks of unresolved transactions that versions here lead to, as far as they may be without pages.
    pub below: Vec<u32>,
    /// Nobody needs it any more: pages it still gets are to be freed.
    pub is_dropped: bool,
    /// Counted in `VersionStore::owed_bytes`.
    pub(crate) owed: u64,
}

impl Content {
    fn lead_to(&mut self, version: u64) {
        let id = (version >> 16) as u32;
        if id != 0 && !self.below.contains(&id) {
            self.below.push(id);
        }
    }
}

/// All versions of one database.
#[derive(Default)]
pub struct VersionStore {
    chunks: RwLock<HashMap<u32, Arc<Chunk>>>,
    next: AtomicU32,
    /// Numbers have begun again: one that comes may still be that of a chunk whose pages are to be freed.
    has_wrapped: AtomicBool,
    /// Chunks of committed transactions, by commit timestamp, until everyone sees the commit.
    committed: Mutex<VecDeque<(u64, Vec<u32>)>>,
    /// Chunks that are no longer needed and have pages to free.
    pub(crate) dropped: Mutex<Vec<Arc<Chunk>>>,
    memory_bytes: AtomicU64,
    /// As many as `chunks` has.
    chunk_count: AtomicU64,
    /// Bytes of full chunks that guard pages and have none: should pages be written, the log must take them first.
    owed_bytes: AtomicU64,
    /// Limit of memory and pages together; 0 for none (`pressure`).
    pub(crate) bytes_max: AtomicU64,
    page_count: AtomicU64,
    /// Writers below need no version any more; a hint, it may lag.
    pub(crate) watermark: AtomicU64,
    /// Position of the newest record that gave pages to a chunk.
    placed_lsn: AtomicU64,
    /// Position of the newest record that resolved a transaction whose versions guarded pages.
    released_lsn: AtomicU64,
    /// Chunks are placed one at a time.
    pub(crate) placing: Mutex<()>,
}

/// The chunks of one transaction, as it writes them.
#[derive(Default)]
pub struct Segment {
    chunks: Vec<u32>,
    current: Option<Arc<Chunk>>,
    /// Sealed, and not on pages yet.
    pub unplaced: Vec<Arc<Chunk>>,
    waiting: Waiting,
    pub is_accelerated: bool,
    /// The transaction has written under earlier ids, whose versions may lie below those made here.
    has_earlier: bool,
    scratch: Vec<u8>,
}

/// Pages that wait for versions of a segment, about: one that comes again after another counts again, and those whose versions a
/// checkpoint placed still count.
#[derive(Default)]
struct Waiting {
    /// Those of all segments.
    total: Option<Arc<AtomicUsize>>,
    own: usize,
    last: Option<PageId>,
}

impl Waiting {
    fn add(&mut self, pages: usize) {
        self.own += pages;
        if let Some(total) = &self.total {
            total.fetch_add(pages, Ordering::Relaxed);
        }
    }

    fn clear(&mut self) {
        let own = std::mem::take(&mut self.own);
        self.last = None;
        if let Some(total) = &self.total {
            total.fetch_sub(own, Ordering::Relaxed);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Segment {
    /// No chunk yet; `has_earlier`: the transaction has written under earlier ids. `waiting`: pages that wait for versions of all
    /// segments.
    pub fn new(is_accelerated: bool, has_earlier: bool, waiting: &Arc<AtomicUsize>) -> Segment {
        Segment {
            is_accelerated,
            has_earlier,
            waiting: Waiting {
                total: Some(waiting.clone()),
                ..Waiting::default()
            },
            ..Segment::default()
        }
    }

    /// Were versions added that pages may have to wait for?
    pub fn guards_pages(&self) -> bool {
        self.is_accelerated && !self.chunks.is_empty()
    }

    /// Gives all chunks away, at the transaction's end.
    pub fn take_chunks(&mut self) -> Vec<u32> {
        self.current = None;
        self.unplaced.clear();
        self.waiting.clear();
        std::mem::take(&mut self.chunks)
    }

    /// Would pages take versions that nobody has put there?
    pub fn fills_pages(&self) -> bool {
        let is_filled =
            |c: &Arc<Chunk>| c.content.read().bytes.len() >= crate::pvs::PAGE_DATA_BYTES;
        !self.unplaced.is_empty() || self.current.as_ref().is_some_and(is_filled)
    }

    /// An entry of the page is about to get a version.
    pub fn note_page(&mut self, page: PageId) {
        if self.is_accelerated && self.waiting.last.replace(page) != Some(page) {
            self.waiting.add(1);
        }
    }

    /// Pages that wait for versions added since all were placed.
    pub fn waiting_pages(&self) -> usize {
        self.waiting.own
    }

    /// Everything not yet on pages, the open chunk included, which is closed by that.
    pub fn take_unplaced(&mut self) -> Vec<Arc<Chunk>> {
        self.waiting.clear();
        let mut chunks = std::mem::take(&mut self.unplaced);
        chunks.extend(self.current.take());
        chunks
    }
}

/// An older state of an entry.
#[derive(Debug)]
pub struct Version {
    pub head: Head,
    pub payload: Vec<u8>,
}

/// Where a version is to be found.
pub enum Found {
    Here(Version),
    /// In this chunk, on pages, at this offset.
    OnPages(Arc<Chunk>, usize),
    Gone,
}

impl VersionStore {
    /// Adds a version and returns its locator.
    pub fn add(&self, segment: &mut Segment, txn: TxnId, head: Head, payload: &[u8]) -> u64 {
        let mut bytes = std::mem::take(&mut segment.scratch);
        bytes.clear();
        write_version(&mut bytes, head, payload);
        let below = segment.has_earlier || head.writer == txn;
        let below = if below { head.version } else { 0 };
        // Whoever drops the chunk, it is seldom this thread.
        let at = for_all(|| self.append(segment, txn, &bytes, below));
        segment.scratch = bytes;
        at
    }

    /// `below`: the version that this one leads to, where it may have no pages. It is told together with the bytes: a chunk that is
    /// placed between the two would be taken for one that leads nowhere.
    fn append(&self, segment: &mut Segment, txn: TxnId, bytes: &[u8], below: u64) -> u64 {
        self.memory_bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let mut capacity = SMALL_CHUNK_BYTES.max(bytes.len());
        if let Some(chunk) = segment.current.take() {
            let mut content = chunk.content.write();
            if !content.is_sealed && content.bytes.len() + bytes.len() <= CHUNK_BYTES {
                let offset = content.bytes.len() as u64;
                content.bytes.extend_from_slice(bytes);
                if u64::from(chunk.id) != below >> 16 {
                    content.lead_to(below);
                }
                drop(content);
                let at = (u64::from(chunk.id) << 16) | offset;
                segment.current = Some(chunk);
                return at;
            }
            content.is_sealed = true;
            let is_placed = !content.pages.is_empty();
            if !is_placed && segment.is_accelerated {
                self.owe(&mut content);
            }
            drop(content);
            if !is_placed {
                segment.unplaced.push(chunk);
            }
            capacity = CHUNK_BYTES;
        }
        let mut content = Vec::with_capacity(capacity);
        content.extend_from_slice(bytes);
        let chunk = self.publish(txn, segment.is_accelerated, content, below);
        segment.chunks.push(chunk.id);
        let at = u64::from(chunk.id) << 16;
        segment.current = Some(chunk);
        at
    }

    /// Chunks that were taken from the segment to be placed, and could not be: those without pages are the first of the next try.
    /// `waiting`: the pages that waited for them.
    pub(crate) fn give_back(&self, segment: &mut Segment, chunks: Vec<Arc<Chunk>>, waiting: usize) {
        segment.waiting.clear();
        segment.waiting.add(waiting);
        for chunk in chunks {
            let mut content = chunk.content.write();
            if content.is_dropped || !content.pages.is_empty() {
                continue;
            }
            content.is_sealed = true;
            if segment.is_accelerated {
                self.owe(&mut content);
            }
            drop(content);
            segment.unplaced.push(chunk);
        }
    }

    fn publish(&self, txn: TxnId, guards_pages: bool, bytes: Vec<u8>, below: u64) -> Arc<Chunk> {
        let (id, mut chunks) = loop {
            // Both at once, as in `discard`: a chunk goes from one to the other.
            let has_wrapped = self.has_wrapped.load(Ordering::Acquire);
            let dropped = has_wrapped.then(|| self.dropped.lock());
            let chunks = self.chunks.write();
            let dropped = dropped.as_deref().map(Vec::as_slice);
            if let Some(id) = self.next_number(&chunks, dropped) {
                break (id, chunks);
            }
        };
        let mut content = Content {
            bytes,
            ..Content::default()
        };
        content.lead_to(below);
        let chunk = Arc::new(Chunk {
            id,
            txn,
            guards_pages: AtomicBool::new(guards_pages),
            content: RwLock::new(content),
        });
        chunks.insert(id, chunk.clone());
        self.note_count(&chunks);
        chunk
    }

    /// A number that no chunk has; the record that frees the pages of a dropped one must mean no other. `None`: numbers have begun
    /// again, and it is not known which are dropped.
    fn next_number(
        &self,
        chunks: &HashMap<u32, Arc<Chunk>>,
        dropped: Option<&[Arc<Chunk>]>,
    ) -> Option<u32> {
        loop {
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            if id == u32::MAX {
                self.has_wrapped.store(true, Ordering::Release);
            }
            if dropped.is_none() && self.has_wrapped.load(Ordering::Acquire) {
                return None;
            }
            let is_dropped = dropped.unwrap_or_default().iter().any(|c| c.id == id);
            // 0 means "no version".
            if id != 0 && !is_dropped && !chunks.contains_key(&id) {
                return Some(id);
            }
        }
    }

    fn note_count(&self, chunks: &HashMap<u32, Arc<Chunk>>) {
        self.chunk_count
            .store(chunks.len() as u64, Ordering::Relaxed);
    }

    /// The chunk with this number, if it is there.
    pub fn chunk(&self, id: u32) -> Option<Arc<Chunk>> {
        self.chunks.read().get(&id).cloned()
    }

    /// The version at a locator. `Gone` when it was dropped: the entry's writer has become visible to everyone.
    pub fn find(&self, locator: u64) -> Found {
        let offset = (locator & 0xFFFF) as usize;
        let Some(chunk) = self.chunk((locator >> 16) as u32) else {
            return Found::Gone;
        };
        let content = chunk.content.read();
        match content.bytes.get(offset..).and_then(parse_version) {
            Some(version) => Found::Here(version),
            None if !content.pages.is_empty() => {
                drop(content);
                Found::OnPages(chunk, offset)
            }
            None => Found::Gone,
        }
    }

    /// Must pages that depend on the chunk wait?
    pub fn is_unplaced(&self, id: u32) -> bool {
        let Some(chunk) = self.guard(id) else {
            return false;
        };
        let content = chunk.content.read();
        if content.pages.is_empty() || content.below.is_empty() {
            return content.pages.is_empty();
        }
        drop(content);
        !self.unplaced(id).is_empty()
    }

    /// Chunks without pages among this one and those below it.
    pub fn unplaced(&self, id: u32) -> Vec<Arc<Chunk>> {
        let (mut ids, mut next, mut found) = (vec![id], 0, Vec::new());
        let mut seen = HashSet::from([id]);
        while let Some(id) = ids.get(next).copied() {
            next += 1;
            let Some(chunk) = self.guard(id) else {
                continue;
            };
            let content = chunk.content.read();
            let is_placed = !content.pages.is_empty();
            let below = content.below.clone();
            drop(content);
            ids.extend(below.into_iter().filter(|id| seen.insert(*id)));
            if !is_placed {
                found.push(chunk);
            }
        }
        found
    }

    fn guard(&self, id: u32) -> Option<Arc<Chunk>> {
        self.chunk(id)
            .filter(|chunk| chunk.guards_pages.load(Ordering::Acquire))
    }

    /// Must the page wait because an entry's version would not survive a crash? Adds the chunks to `wanted`.
    pub fn holds_back(&self, page: &Page, wanted: Option<&mut Vec<Arc<Chunk>>>) -> bool {
        let mut ids = Vec::new();
        self.guarding(page, 0, &mut ids);
        let held = !ids.is_empty();
        if let Some(wanted) = wanted {
            wanted.extend(ids.into_iter().flat_map(|id| self.unplaced(id)));
        }
        held
    }

    /// Unplaced chunks that entries of the page, from slot `from` on, point to.
    pub fn guarding(&self, page: &Page, from: usize, ids: &mut Vec<u32>) {
        if page.page_type() != Some(crate::page::PageType::Tree) || !page.is_leaf() {
            return;
        }
        let watermark = TxnId(self.watermark.load(Ordering::Acquire));
        let mut last = None;
        for slot in from..page.slots() {
            let head = page.head(slot);
            let id = (head.version >> 16) as u32;
            if head.version == 0 || head.writer < watermark || last == Some(id) {
                continue;
            }
            last = Some(id);
            if !ids.contains(&id) && self.is_unplaced(id) {
                ids.push(id);
            }
        }
    }

    /// Position that has to be hard before a page is written that [`VersionStore::holds_back`] let go: the records that gave
    /// pages to versions it depends on, and those that made others needless.
    pub(crate) fn hard_first(&self) -> Lsn {
        let placed = self.placed_lsn.load(Ordering::Acquire);
        let released = match planted(Bug::ReleaseUnhard) {
            true => 0,
            false => self.released_lsn.load(Ordering::Acquire),
        };
        Lsn(placed.max(released))
    }

    // --- the end of a transaction -------------------------------------------------------------------------------

    /// The record at `lsn` resolves a transaction: pages that waited for its versions may be written once it is hard.
    pub fn release(&self, lsn: Lsn) {
        self.released_lsn.fetch_max(lsn.0, Ordering::AcqRel);
    }

    /// The transaction has committed: its versions serve older snapshots only.
    pub fn commit(&self, chunks: Vec<u32>, timestamp: u64) {
        if chunks.is_empty() {
            return;
        }
        for id in &chunks {
            if let Some(chunk) = self.chunk(*id) {
                chunk.guards_pages.store(false, Ordering::Release);
                self.settle_owed(&mut chunk.content.write());
            }
        }
        self.committed.lock().push_back((timestamp, chunks));
    }

    /// Drops the versions of transactions whose commit everyone sees. Returns their chunks.
    pub fn drop_settled(&self, settled: u64, watermark: TxnId) -> Vec<u32> {
        self.watermark.store(watermark.0, Ordering::Release);
        let mut all = Vec::new();
        loop {
            let chunks = {
                let mut committed = self.committed.lock();
                match committed.front() {
                    Some((at, _)) if *at <= settled => {
                        committed.pop_front().map(|(_, c)| c).unwrap_or_default()
                    }
                    _ => return all,
                }
            };
            self.discard(&chunks);
            all.extend(chunks);
        }
    }

    /// Drops chunks that nobody can need any more.
    pub fn discard(&self, chunks: &[u32]) {
        if chunks.is_empty() {
            return;
        }
        // A checkpoint finds a chunk in one place or the other.
        let mut dropped = self.dropped.lock();
        let gone: Vec<Arc<Chunk>> = {
            let mut all = self.chunks.write();
            let gone = chunks.iter().filter_map(|id| all.remove(id)).collect();
            self.note_count(&all);
            gone
        };
        pause("versions.discarded");
        for_all(|| self.drop_all(gone, &mut dropped));
    }

    fn drop_all(&self, gone: Vec<Arc<Chunk>>, dropped: &mut Vec<Arc<Chunk>>) {
        for chunk in gone {
            let mut content = chunk.content.write();
            self.memory_bytes
                .fetch_sub(content.bytes.len() as u64, Ordering::Relaxed);
            self.settle_owed(&mut content);
            content.is_dropped = true;
            content.bytes = Vec::new();
            let has_pages = !content.pages.is_empty();
            drop(content);
            if has_pages {
                dropped.push(chunk);
            }
        }
    }

    /// Chunks that could not be freed come behind all others.
    pub(crate) fn put_off(&self, chunks: &[&Arc<Chunk>]) {
        let is_put_off = |c: &Arc<Chunk>| chunks.iter().any(|other| Arc::ptr_eq(c, other));
        self.dropped.lock().sort_by_key(is_put_off);
    }

    // --- restart ------------------------------------------------------------------------------------------------

    /// A chunk that the log has given pages: they have its versions, also those that redo has rebuilt.
    pub fn restore_chunk(&self, id: u32, txn: TxnId, pages: Vec<PageId>) {
        let chunk = self.chunk(id);
        let chunk = chunk.unwrap_or_else(|| self.restored(id, (txn, true)));
        self.add_pages(pages.len() as i64);
        chunk.content.write().pages = pages;
        self.forget_memory(&chunk);
    }

    /// A chunk from before the crash, empty as yet.
    fn restored(&self, id: u32, (txn, guards_pages): (TxnId, bool)) -> Arc<Chunk> {
        let chunk = Arc::new(Chunk {
            id,
            txn,
            guards_pages: AtomicBool::new(guards_pages),
            content: RwLock::new(Content {
                is_sealed: true,
                ..Content::default()
            }),
        });
        let mut chunks = self.chunks.write();
        chunks.insert(id, chunk.clone());
        self.note_count(&chunks);
        drop(chunks);
        self.skip_number(id);
        chunk
    }

    /// In replay: the transactions of these chunks have ended, as the log says. What pages they had, the log frees.
    pub fn forget_chunks(&self, ids: &[u32]) {
        let gone: Vec<Arc<Chunk>> = {
            let mut chunks = self.chunks.write();
            let gone = ids.iter().filter_map(|id| chunks.remove(id)).collect();
            self.note_count(&chunks);
            gone
        };
        for chunk in gone {
            let pages = chunk.content.read().pages.len();
            self.add_pages(-(pages as i64));
            self.forget_memory(&chunk);
        }
    }

    /// A chunk of this number is there, or waits for its pages to be freed.
    pub fn skip_number(&self, id: u32) {
        if id == u32::MAX {
            self.has_wrapped.store(true, Ordering::Release);
        }
        self.next.fetch_max(id.wrapping_add(1), Ordering::Relaxed);
    }

    /// A version that redo met again, and which is on pages, leads to another one.
    pub fn note_below(&self, locator: u64, below: u64) {
        if let Some(chunk) = self.chunk((locator >> 16) as u32) {
            chunk.content.write().lead_to(below);
        }
    }

    /// A version that redo met again. Its chunk, `known` if there is one already, is not aside. With the transaction: do its chunks
    /// guard pages?
    pub fn restore(
        &self,
        known: Option<Arc<Chunk>>,
        txn: (TxnId, bool),
        locator: u64,
        head: Head,
        payload: &[u8],
    ) {
        let (id, offset) = ((locator >> 16) as u32, (locator & 0xFFFF) as usize);
        let chunk = known.unwrap_or_else(|| self.restored(id, txn));
        let mut content = chunk.content.write();
        let before = content.bytes.len();
        if before == offset {
            write_version(&mut content.bytes, head, payload);
        } else {
            let mut bytes = Vec::new();
            write_version(&mut bytes, head, payload);
            let end = offset + bytes.len();
            if before < end {
                content.bytes.resize(end, 0);
            }
            content.bytes[offset..end].copy_from_slice(&bytes);
        }
        let grown = content.bytes.len() - before;
        self.memory_bytes.fetch_add(grown as u64, Ordering::Relaxed);
    }

    /// Chunks in existence, with their transactions.
    pub fn all_chunks(&self) -> Vec<Arc<Chunk>> {
        self.chunks.read().values().cloned().collect()
    }

    /// Every chunk that may have pages, those included that are only to be freed.
    pub(crate) fn chunks_with_dropped(&self) -> Vec<Arc<Chunk>> {
        let dropped = self.dropped.lock();
        let mut chunks = self.all_chunks();
        chunks.extend(dropped.iter().cloned());
        chunks
    }

    /// Bound on versions in memory and on pages, in MiB; 0 is none.
    pub fn set_megabytes_max(&self, megabytes: u32) {
        self.bytes_max
            .store(u64::from(megabytes) << 20, Ordering::Relaxed);
    }

    /// Nothing is added to the chunk any more, and its bytes have to go to the log.
    fn owe(&self, content: &mut Content) {
        if content.owed == 0 {
            content.owed = content.bytes.len() as u64;
            self.owed_bytes.fetch_add(content.owed, Ordering::Relaxed);
        }
    }

    /// The chunk's bytes will not have to go to the log, or are there.
    fn settle_owed(&self, content: &mut Content) {
        let owed = std::mem::take(&mut content.owed);
        if owed > 0 {
            self.owed_bytes.fetch_sub(owed, Ordering::Relaxed);
        }
    }

    /// Bytes that the log has to take before all pages may be written, those of the chunks being filled left out.
    pub(crate) fn owed_bytes(&self) -> u64 {
        self.owed_bytes.load(Ordering::Relaxed)
    }

    // --- figures ------------------------------------------------------------------------------------------------

    /// Bytes of versions in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Chunks in existence.
    pub fn chunk_count(&self) -> u64 {
        self.chunk_count.load(Ordering::Relaxed)
    }

    /// Bytes of memory that versions take with what keeps them.
    pub fn footprint_bytes(&self) -> u64 {
        self.memory_bytes() + self.chunk_count() * CHUNK_OVERHEAD_BYTES
    }

    /// Pages that hold versions.
    pub fn page_count(&self) -> u64 {
        self.page_count.load(Ordering::Relaxed)
    }

    pub(crate) fn add_pages(&self, by: i64) {
        if by >= 0 {
            self.page_count.fetch_add(by as u64, Ordering::Relaxed);
        } else {
            self.page_count
                .fetch_sub(by.unsigned_abs(), Ordering::Relaxed);
        }
    }

    /// The record at `lsn` gave the chunk its pages. One that nobody needs any more gives them back.
    pub(crate) fn set_pages(&self, chunk: &Arc<Chunk>, pages: Vec<PageId>, lsn: Lsn) {
        self.placed_lsn.fetch_max(lsn.0, Ordering::AcqRel);
        self.add_pages(pages.len() as i64);
        let mut content = chunk.content.write();
        content.pages = pages;
        self.settle_owed(&mut content);
        let is_dropped = content.is_dropped;
        drop(content);
        if is_dropped {
            self.dropped.lock().push(chunk.clone());
        }
    }

    /// The chunk's memory is given back; its pages, or in recovery the scratch file, keep the versions.
    pub(crate) fn forget_memory(&self, chunk: &Chunk) {
        self.forget_bytes(&mut chunk.content.write());
    }

    /// The same, of a chunk that is latched.
    pub(crate) fn forget_bytes(&self, content: &mut Content) {
        if content.is_dropped {
            return;
        }
        let bytes = std::mem::take(&mut content.bytes);
        self.memory_bytes
            .fetch_sub(bytes.len() as u64, Ordering::Relaxed);
        for_all(|| drop(bytes));
    }

    /// Bytes of the chunk that were kept elsewhere are in memory again.
    pub(crate) fn give_memory(&self, content: &mut Content, bytes: Vec<u8>) {
        self.forget_bytes(content);
        self.memory_bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        content.bytes = bytes;
    }

    /// The chunk is in memory from here on, and on pages no more.
    pub(crate) fn keep_in_memory(&self, chunk: &Chunk, bytes: Vec<u8>) {
        let mut content = chunk.content.write();
        if !content.is_dropped {
            self.give_memory(&mut content, bytes);
            let pages = std::mem::take(&mut content.pages);
            self.add_pages(-(pages.len() as i64));
        }
    }

    /// Beside a replay: the pages of chunks that nobody needs any more are freed by the log.
    pub(crate) fn leave_dropped(&self) {
        for chunk in std::mem::take(&mut *self.dropped.lock()) {
            let pages = chunk.content.read().pages.len();
            self.add_pages(-(pages as i64));
        }
    }
}

fn write_version(out: &mut Vec<u8>, head: Head, payload: &[u8]) {
    out.put_u16((13 + payload.len()) as u16);
    out.put_u8(head.flags);
    out.put_u48(head.writer.0);
    out.put_u48(head.version);
    out.extend_from_slice(payload);
}

/// Bytes that a version takes.
pub fn version_bytes(version: &Version) -> u64 {
    15 + version.payload.len() as u64
}

/// The version at the start of `bytes`; `None` when there is none, or none that makes sense.
pub fn parse_version(bytes: &[u8]) -> Option<Version> {
    let mut version = Reader::new(Reader::new(bytes).short()?);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(store: &VersionStore, at: u64) -> Option<Version> {
        match store.find(at) {
            Found::Here(version) => Some(version),
            Found::OnPages(..) | Found::Gone => None,
        }
    }

    #[test]
    fn versions_are_found_until_their_writers_commit_is_settled() {
        let store = VersionStore::default();
        let (mut a, mut b) = (Segment::default(), Segment::default());
        let head = Head {
            flags: 0,
            writer: TxnId(3),
            version: 9,
        };
        let at = store.add(&mut a, TxnId(10), head, b"old payload");
        let other = store.add(&mut b, TxnId(11), head, b"x");
        let version = read(&store, at).expect("there");
        assert_eq!(
            (version.head, version.payload),
            (head, b"old payload".to_vec())
        );
        store.commit(a.take_chunks(), 5);
        store.commit(b.take_chunks(), 6);
        store.drop_settled(4, TxnId(1));
        assert!(read(&store, at).is_some());
        store.drop_settled(5, TxnId(11));
        assert!(read(&store, at).is_none() && read(&store, other).is_some());
        store.drop_settled(6, TxnId(12));
        assert_eq!(
            (read(&store, other).is_none(), store.memory_bytes()),
            (true, 0)
        );
    }

    #[test]
    fn what_redo_restores_is_found_at_the_old_place() {
        let store = VersionStore::default();
        let head = Head {
            flags: 1,
            writer: TxnId(3),
            version: 0,
        };
        let at = |offset: u64| (7 << 16) | offset;
        store.restore(None, (TxnId(10), true), at(400), head, b"later");
        store.restore(store.chunk(7), (TxnId(10), true), at(0), head, b"first");
        assert_eq!(read(&store, at(0)).expect("there").payload, b"first");
        assert_eq!(read(&store, at(400)).expect("there").payload, b"later");
        assert!(read(&store, at(100)).is_none(), "a gap holds no version");
        let mut segment = Segment::default();
        let fresh = store.add(&mut segment, TxnId(11), head, b"x");
        assert!(fresh >> 16 > 7, "numbers still in use are not given again");
    }

    /// Chunk numbers have 32 bits; the log frees pages by them.
    #[test]
    fn numbers_that_begin_again_pass_over_dropped_chunks() {
        let store = VersionStore::default();
        let head = Head {
            flags: 0,
            writer: TxnId(3),
            version: 0,
        };
        let add = || {
            let mut segment = Segment::default();
            let at = store.add(&mut segment, TxnId(10), head, b"x");
            (at >> 16) as u32
        };
        let (first, second, kept) = (add(), add(), add());
        assert_eq!((first, second, kept), (1, 2, 3));
        // Their pages are still to be freed.
        for id in [first, second] {
            let chunk = store.chunk(id).expect("is there");
            store.set_pages(&chunk, vec![PageId::new(1, 100 + id)], Lsn::NONE);
        }
        store.discard(&[first, second]);
        store.next.store(u32::MAX - 1, Ordering::Relaxed);
        assert_eq!(add(), u32::MAX - 1);
        assert_eq!(
            [add(), add()],
            [4, 5],
            "neither dropped ones nor those in use"
        );
        // After a restart the last number may be that of a dropped one.
        let store = VersionStore::default();
        store.skip_number(u32::MAX);
        assert!(store.has_wrapped.load(Ordering::Relaxed));
    }
}
