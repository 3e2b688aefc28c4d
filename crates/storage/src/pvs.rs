//! Persistent version store: chunks of versions on pages of the database.
//!
//! A chunk gets pages when a data page that depends on it is to be written (accelerated recovery), or when versions
//! would take too much memory. One record allocates the pages and has images of them, so from there on they are pages
//! as all others: redo brings them back, copies of the database and single-page restores have them, and whoever has the
//! log has the versions. The record is hard before a data page that depends on it is written (`VersionStore::hard_first`).
//!
//! Chunks that guard no page (classic transactions) go to pages only to save memory. No recovery needs them, so their pages
//! are allocated without images; after a crash they are freed unread.
//!
//! Page: after the header chunk u32, transaction u48, bytes in use u16, then versions. `next` links a chunk's pages
//! for whoever looks at the bytes; the records list them.
//!
//! Invariant: a version page is written through the pool. What it was before may have to stay on disk until versions of
//! entries that were moved away from it are on pages (`PageWrite::keep_back`).

use crate::alloc::Reach;
use crate::buffer::{PageWrite, Store};
use crate::bytes::*;
use crate::database::Database;
use crate::error::{Result, StorageError};
use crate::log::record::{self, Kind, PageAction, PartsWriter};
use crate::log::{AppendKind, RECORD_BYTES_MAX};
use crate::page::{HEADER_BYTES, PAGE_BYTES, Page, PageType};
use crate::pause::pause;
use crate::planted::{Bug, planted};
use crate::version::{Chunk, Found, Version, parse_version};
use daruma_base::{Lsn, PageId, TxnId, reached};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const DATA_AT: usize = HEADER_BYTES + 12;
/// Versions on one page.
pub const PAGE_DATA_BYTES: usize = PAGE_BYTES - DATA_AT;
/// Chunks freed by one record.
const FREED_MAX: usize = 64;
/// Pages of one chunk: images of all of them fit one record.
pub const CHUNK_PAGES_MAX: usize = 7;
const _: () = assert!(CHUNK_PAGES_MAX * (PAGE_BYTES + 32) + 1024 <= RECORD_BYTES_MAX);

impl Database {
    /// The version at a locator, `None` when it was dropped.
    pub(crate) fn version(&self, locator: u64) -> Result<Option<Version>> {
        // Asked first: what is brought back from there meanwhile is found in its place.
        let is_aside = self.store().aside.is_used();
        match self.versions().find(locator) {
            Found::Here(version) => Ok(Some(version)),
            Found::Gone if is_aside => self.version_aside(locator),
            Found::Gone => Ok(None),
            Found::OnPages(chunk, offset) => self.version_on_pages(&chunk, offset),
        }
    }

    fn version_on_pages(&self, chunk: &Chunk, offset: usize) -> Result<Option<Version>> {
        pause("version.on_pages");
        match self.read_version(chunk, offset) {
            // Its transaction became visible to everyone meanwhile, and its pages have a new life.
            Err(_) if chunk.content.read().is_dropped => Ok(None),
            found => found.map(Some),
        }
    }

    /// Beside a replay, and behind one that found no pages for them, versions may have been put aside. They stay there: memory is
    /// scarce.
    fn version_aside(&self, locator: u64) -> Result<Option<Version>> {
        let Some(chunk) = self.versions().chunk((locator >> 16) as u32) else {
            return Ok(None);
        };
        let offset = (locator & 0xFFFF) as usize;
        // Under this latch it does not leave the one place for another.
        let content = chunk.content.read();
        if !content.pages.is_empty() {
            drop(content);
            return self.version_on_pages(&chunk, offset);
        }
        let parse = |bytes: &[u8]| bytes.get(offset..).and_then(parse_version);
        match content.bytes.is_empty() {
            true => {
                let bytes = self.store().aside.read_chunk(chunk.id)?;
                Ok(bytes.and_then(|bytes| parse(&bytes)))
            }
            false => Ok(parse(&content.bytes)),
        }
    }

    /// Drops versions of a transaction that nobody can need any more, wherever they are.
    pub(crate) fn discard_versions(&self, chunks: &[u32]) {
        self.versions().discard(chunks);
        self.forget_aside(chunks);
    }

    /// Of no use any more: bytes of chunks that were put aside.
    pub(crate) fn forget_aside(&self, chunks: &[u32]) {
        let aside = &self.store().aside;
        if aside.is_used() {
            chunks.iter().for_each(|id| aside.forget_chunk(*id));
        }
    }

    /// Beside a replay: the log is about to free the pages of the chunk, and a snapshot may need it longer.
    pub(crate) fn take_off_pages(&self, chunk: &Chunk) -> Result<()> {
        let pages = chunk.content.read().pages.clone();
        let mut bytes = Vec::new();
        for id in &pages {
            let page = self.pool().read(self.store(), *id)?;
            self.check_version_page(chunk, &page, *id)?;
            let used = usize::from(get_u16(&page.bytes()[..], HEADER_BYTES + 10));
            let used = used.min(PAGE_DATA_BYTES);
            bytes.extend_from_slice(&page.bytes()[DATA_AT..DATA_AT + used]);
        }
        self.versions().keep_in_memory(chunk, bytes);
        Ok(())
    }

    fn read_version(&self, chunk: &Chunk, offset: usize) -> Result<Version> {
        let pages = chunk.content.read().pages.clone();
        let mut bytes = Vec::new();
        self.copy_from(chunk, &pages, offset, 2, &mut bytes)?;
        let len = usize::from(get_u16(&bytes, 0));
        self.copy_from(chunk, &pages, offset + 2, len, &mut bytes)?;
        parse_version(&bytes).ok_or_else(|| self.missing_version(pages[0]))
    }

    fn copy_from(
        &self,
        chunk: &Chunk,
        pages: &[PageId],
        mut offset: usize,
        mut len: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        while len > 0 {
            let id = pages.get(offset / PAGE_DATA_BYTES).copied();
            let id = id.ok_or_else(|| self.missing_version(pages[0]))?;
            let page = self.pool().read(self.store(), id)?;
            self.check_version_page(chunk, &page, id)?;
            let at = offset % PAGE_DATA_BYTES;
            let take = len.min(PAGE_DATA_BYTES - at);
            out.extend_from_slice(&page.bytes()[DATA_AT + at..DATA_AT + at + take]);
            offset += take;
            len -= take;
        }
        Ok(())
    }

    /// Reads every page of the chunk. Memory is left alone.
    pub(crate) fn read_version_pages(&self, chunk: &Chunk) -> Result<()> {
        let pages = chunk.content.read().pages.clone();
        for id in pages {
            let page = self.pool().read(self.store(), id)?;
            self.check_version_page(chunk, &page, id)?;
        }
        Ok(())
    }

    fn check_version_page(&self, chunk: &Chunk, page: &Page, id: PageId) -> Result<()> {
        if belongs(chunk, page) {
            Ok(())
        } else {
            Err(self.missing_version(id))
        }
    }

    pub(crate) fn missing_version(&self, page: PageId) -> StorageError {
        StorageError::DamagedPage {
            page,
            path: self.store().files.path(page.file),
            what: "a row version is missing".into(),
        }
    }

    // --- placing ------------------------------------------------------------------------------------------------

    /// Puts chunks on pages, and those below them. `kind` is `System` for a writer, who may fail in a full log, and `Completion`
    /// where pages must get to disk so that a full log can be cut. The caller holds no latch.
    pub(crate) fn place_chunks(&self, chunks: &[Arc<Chunk>], kind: AppendKind) -> Result<()> {
        let _one_at_a_time = self.versions().placing.lock();
        for chunk in chunks {
            self.place(chunk, kind)?;
            for below in self.versions().unplaced(chunk.id) {
                reached!("versions.placed.below");
                self.place(&below, kind)?;
            }
            chunk.content.write().below.clear();
        }
        Ok(())
    }

    fn place(&self, chunk: &Arc<Chunk>, kind: AppendKind) -> Result<()> {
        bring_back(self.store(), chunk)?;
        let len = {
            let mut content = chunk.content.write();
            content.is_sealed = true;
            if content.is_dropped || !content.pages.is_empty() {
                return Ok(());
            }
            content.bytes.len()
        };
        // A chunk that guards no page now has a commit before this record, or belongs to a classic transaction: no recovery
        // looks at it.
        let is_logged = chunk.guards_pages.load(Ordering::Acquire) && !planted(Bug::PlaceUnlogged);
        let count = len.div_ceil(PAGE_DATA_BYTES).max(1);
        let filegroup = self.settings().version_store_filegroup;
        let reach = match kind {
            AppendKind::Completion => Reach::PastLimits,
            _ => Reach::WithinLimits,
        };
        let mut space = self.choose_in_filegroup(filegroup, count, reach)?;
        let ids = space.pages.clone();
        pause("versions.to_be_placed");
        let mut latched = Vec::with_capacity(count);
        for id in &ids {
            latched.push(self.pool().write_new(self.store(), *id)?);
        }
        let content = version_pages(chunk, &chunk.content.read().bytes, &ids);
        let mut body = Vec::new();
        record::start(&mut body, Kind::Versions, chunk.txn, Lsn::NONE);
        record::write_versions(&mut body, chunk.id, &ids);
        space.write_parts(&mut body);
        if is_logged {
            let mut parts = PartsWriter::new(&mut body);
            content.iter().for_each(|page| parts.packed_image(page));
        }
        record::finish(&mut body);
        let mut pages: Vec<&mut PageWrite<'_>> = latched.iter_mut().collect();
        pages.push(&mut space.bitmap);
        let lsn = self.apply_system(&body, &mut pages, kind)?;
        if !is_logged {
            for (page, content) in latched.iter_mut().zip(content) {
                page.keep_back(self.versions(), &PageAction::Image(&[]));
                **page = content;
                page.set_lsn(lsn);
            }
        }
        if planted(Bug::PlaceOld) {
            let before = Lsn(self.hardened_lsn().0.saturating_sub(1));
            latched.iter_mut().for_each(|page| page.set_lsn(before));
        }
        self.versions().set_pages(chunk, ids, lsn);
        Ok(())
    }

    /// Chunks that keep the pages of the next flush from being written are put on pages, so that they can be; not those of
    /// transactions that are spared.
    pub(crate) fn place_for_flush(
        &self,
        before: Lsn,
        limit: usize,
        is_spared: impl Fn(TxnId) -> bool,
    ) -> Result<()> {
        let mut wanted = self.pool().held_back(self.store(), before, limit);
        wanted.sort_unstable_by_key(|c: &Arc<Chunk>| c.id);
        wanted.dedup_by_key(|c| c.id);
        for chunk in wanted {
            // Its transaction may have committed since: then no page waits for it.
            if self.versions().is_unplaced(chunk.id) && !is_spared(chunk.txn) {
                self.place_chunks(&[chunk], AppendKind::Completion)?;
            }
        }
        Ok(())
    }

    // --- freeing ------------------------------------------------------------------------------------------------

    /// Frees the pages of chunks nobody needs. True when there were any.
    pub(crate) fn free_versions(&self) -> Result<bool> {
        let _one_at_a_time = self.versions().placing.lock();
        let chunks: Vec<Arc<Chunk>> = {
            let dropped = self.versions().dropped.lock();
            dropped.iter().take(FREED_MAX).cloned().collect()
        };
        // A chunk's pages share one allocation page, so do those of most chunks freed together.
        let mut by_map: BTreeMap<PageId, Vec<&Arc<Chunk>>> = BTreeMap::new();
        for chunk in &chunks {
            if let Some(first) = chunk.content.read().pages.first() {
                let map = crate::alloc::bit_of(*first).0;
                by_map.entry(map).or_default().push(chunk);
            }
        }
        let mut failure = None;
        for (map, chunks) in by_map {
            if let Err(error) = self.free_version_pages(map, &chunks) {
                // The next ones may lie elsewhere.
                self.versions().put_off(&chunks);
                failure.get_or_insert(error);
            }
        }
        failure.map_or(Ok(!chunks.is_empty()), Err)
    }

    /// The chunks stay among the dropped ones until it is logged: a failure here must not be the last try.
    fn free_version_pages(&self, map: PageId, chunks: &[&Arc<Chunk>]) -> Result<()> {
        let mut bitmap = self.pool().write(self.store(), map)?;
        let ids: Vec<u32> = chunks.iter().map(|c| c.id).collect();
        let pages = chunks.iter().map(|c| c.content.read().pages.clone());
        let pages: Vec<PageId> = pages.flatten().collect();
        let bits: Vec<u16> = pages.iter().map(|p| crate::alloc::bit_of(*p).1).collect();
        let mut body = Vec::new();
        record::start(&mut body, Kind::VersionsFreed, TxnId::NONE, Lsn::NONE);
        record::write_versions_freed(&mut body, &ids);
        PartsWriter::new(&mut body).bits(map, false, &bits);
        record::finish(&mut body);
        self.apply_system(&body, &mut [&mut bitmap], AppendKind::Completion)?;
        let is_freed = |c: &Arc<Chunk>| chunks.iter().any(|freed| Arc::ptr_eq(c, freed));
        self.versions().dropped.lock().retain(|c| !is_freed(c));
        self.versions().add_pages(-(pages.len() as i64));
        pages.iter().for_each(|p| self.allocator().freed(*p));
        Ok(())
    }
}

/// Is it a page of that chunk?
fn belongs(chunk: &Chunk, page: &Page) -> bool {
    let bytes = &page.bytes()[..];
    page.page_type() == Some(PageType::Versions)
        && get_u32(bytes, HEADER_BYTES) == chunk.id
        && get_u48(bytes, HEADER_BYTES + 4) == chunk.txn.0
}

/// In a replay: the bytes of a chunk that were put aside are in memory again.
pub fn bring_back(store: &Store, chunk: &Chunk) -> Result<()> {
    if !store.aside.is_used() {
        return Ok(());
    }
    // A reader beside the replay must not find them in neither place, nor bring back what has grown since.
    let mut content = chunk.content.write();
    if let Some(bytes) = store.aside.take_chunk(chunk.id)? {
        store.versions.give_memory(&mut content, bytes);
    }
    Ok(())
}

/// In a replay: when versions take more memory than this, the older ones leave it until half of it is free. They go to
/// their pages where they have some, and are put aside where not.
pub fn bound_memory(store: &Store, bytes_max: u64) -> Result<()> {
    if store.versions.memory_bytes() <= bytes_max {
        return Ok(());
    }
    let mut chunks = store.versions.all_chunks();
    chunks.sort_unstable_by_key(|c| c.id);
    for chunk in chunks {
        if store.versions.memory_bytes() <= bytes_max / 2 {
            break;
        }
        let mut content = chunk.content.write();
        if !content.bytes.is_empty() && content.pages.is_empty() {
            reached!("aside.versions");
            store.aside.put_chunk(chunk.id, &content.bytes)?;
        }
        store.versions.forget_bytes(&mut content);
    }
    Ok(())
}

/// The chunk's bytes on pages, linked.
fn version_pages(chunk: &Chunk, bytes: &[u8], ids: &[PageId]) -> Vec<Page> {
    let mut pages = Vec::with_capacity(ids.len());
    for (i, id) in ids.iter().enumerate() {
        let from = (i * PAGE_DATA_BYTES).min(bytes.len());
        let part = &bytes[from..(from + PAGE_DATA_BYTES).min(bytes.len())];
        let mut page = Page::zeroed();
        page.format(*id, PageType::Versions, 0, PageId::NONE);
        let b = &mut page.bytes_mut()[..];
        put_u32(b, HEADER_BYTES, chunk.id);
        put_u48(b, HEADER_BYTES + 4, chunk.txn.0);
        put_u16(b, HEADER_BYTES + 10, part.len() as u16);
        b[DATA_AT..DATA_AT + part.len()].copy_from_slice(part);
        page.set_next(ids.get(i + 1).copied().unwrap_or(PageId::NONE));
        pages.push(page);
    }
    pages
}

#[cfg(test)]
mod tests {
    use crate::*;
    use daruma_base::{DatabaseId, PageId, TxnId};
    use daruma_sim::SimDisk;

    /// Its transaction ends between the choice of a chunk and its turn.
    #[test]
    fn a_chunk_that_nobody_needs_any_more_gets_no_pages() {
        let disk = SimDisk::new(1);
        let config = EngineConfig {
            buffer_pool_pages: 64,
            ..EngineConfig::default()
        };
        let engine = Engine::new(daruma_sim::env(&disk, 1), config);
        let files = vec![
            FileSpec::data(1, 1, "/t.mdf", 256),
            FileSpec::log("/t_log.ldf", 256),
        ];
        let db = engine
            .create_database(DatabaseId(5), "t", files, Settings::default())
            .expect("creates");
        let mut segment = crate::version::Segment::new(true, false, &std::sync::Arc::default());
        let head = crate::page::Head {
            flags: 0,
            writer: TxnId(3),
            version: 0,
        };
        let versions = db.versions();
        versions.add(&mut segment, TxnId(7), head, &[1; 500]);
        let chosen = versions.all_chunks();
        let ids = segment.take_chunks();
        versions.discard(&ids);
        db.place_chunks(&chosen, crate::log::AppendKind::System)
            .expect("nothing to place");
        assert_eq!((versions.page_count(), versions.memory_bytes()), (0, 0));
        let kept = chosen[0].content.read().bytes.capacity();
        assert_eq!(kept, 0, "what is not counted is not there");
        // And in the other order: the pages come while it is dropped.
        versions.set_pages(
            &chosen[0],
            vec![PageId::new(1, 200)],
            daruma_base::Lsn::NONE,
        );
        assert_eq!(
            (versions.page_count(), versions.dropped.lock().len()),
            (1, 1)
        );
    }
}
