//! Persistent version store: chunks of versions on pages of the database.
//!
//! A chunk gets pages when a data page that depends on it is to be written (accelerated recovery), or when versions
//! would take too much memory. One record allocates the pages; the versions themselves are not logged, and the pages
//! are written straight to the file: nothing refers to them before they are synced, which happens before the data page
//! goes to its place (`FileSet::write`).
//!
//! A copy of the database (`copy`) sees pages at different times: a data page may be copied with a change whose version
//! page was copied too early. So while a copy is under way, the log has images of the version pages as well.
//!
//! Page: after the header chunk u32, transaction u48, bytes in use u16, then versions. `next` links a chunk's pages
//! for whoever looks at the bytes; the records list them.
//! A version page carries the LSN up to which the log was hard when it was written, so redo of what the page was
//! before leaves it alone.

use crate::buffer::{Pool, Store};
use crate::bytes::*;
use crate::database::Database;
use crate::error::{Result, StorageError};
use crate::log::AppendKind;
use crate::log::record::{self, Kind, PageAction, PartsWriter};
use crate::page::{HEADER_BYTES, PAGE_BYTES, Page, PageType};
use crate::pause::pause;
use crate::recovery::PlacedChunk;
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
/// A page of a chunk is read so often before it counts as never synced.
const READS_BEFORE_REBUILDING: usize = 8;

impl Database {
    /// The version at a locator, `None` when it was dropped.
    pub(crate) fn version(&self, locator: u64) -> Result<Option<Version>> {
        match self.versions().find(locator) {
            Found::Here(version) => Ok(Some(version)),
            Found::Gone => Ok(None),
            Found::OnPages(chunk, offset) => self.read_version(&chunk, offset).map(Some),
        }
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

    /// Puts chunks on pages, and those below them. The caller holds no latch.
    pub(crate) fn place_chunks(&self, chunks: &[Arc<Chunk>]) -> Result<()> {
        let _one_at_a_time = self.versions().placing.lock();
        for chunk in chunks {
            self.place(chunk)?;
            for below in self.versions().unplaced(chunk.id) {
                reached!("versions.placed.below");
                self.place(&below)?;
            }
            chunk.content.write().below.clear();
        }
        Ok(())
    }

    fn place(&self, chunk: &Arc<Chunk>) -> Result<()> {
        bring_back(self.store(), chunk)?;
        let len = {
            let mut content = chunk.content.write();
            content.is_sealed = true;
            if content.is_dropped || !content.pages.is_empty() {
                return Ok(());
            }
            content.bytes.len()
        };
        let count = len.div_ceil(PAGE_DATA_BYTES).max(1);
        let filegroup = self.settings().version_store_filegroup;
        let mut space = self.choose_in_filegroup(filegroup, count)?;
        let ids = space.pages.clone();
        self.discard_all(&ids);
        // What freed these pages must not be undone by a crash: they are overwritten here and now.
        let freed = self.allocator().last_freed();
        self.store().log.harden(freed)?;
        // The pages carry a position that is hard: no record of their next life may look older than that.
        let lsn = Lsn(self.store().log.hardened().0 - 1).max(freed);
        let pages = version_pages(chunk, &chunk.content.read().bytes, &ids, lsn);
        pause("versions.to_be_written");
        let written_by = self.store().files.write_unsynced(&pages)?;
        // Who follows an old link looks at a page before he sees that it is no longer what he wants: what such a one read
        // while it was being written must not be taken for the versions.
        self.discard_all(&ids);
        if self.versions().copies.load(Ordering::SeqCst) > 0 {
            // Before the pages are taken: what can fail for want of log must not leave them to nobody.
            self.log_images(&pages)?;
        }
        let mut body = Vec::new();
        record::start(&mut body, Kind::Versions, chunk.txn, Lsn::NONE);
        record::write_versions(&mut body, chunk.id, &ids);
        space.write_parts(&mut body);
        record::finish(&mut body);
        let lsn = self.apply_system(&body, &mut [&mut space.bitmap], AppendKind::System)?;
        self.versions()
            .placed_lsn
            .fetch_max(lsn.0, Ordering::AcqRel);
        self.versions().set_pages(chunk, ids, written_by);
        Ok(())
    }

    fn discard_all(&self, ids: &[PageId]) {
        for id in ids {
            self.pool().discard(self.store(), *id);
        }
    }

    fn log_images(&self, pages: &[Page]) -> Result<()> {
        for page in pages {
            let mut body = Vec::new();
            record::start(&mut body, Kind::System, TxnId::NONE, Lsn::NONE);
            PartsWriter::new(&mut body).image(page);
            record::finish(&mut body);
            let lsn = self.store().log.append(&body, AppendKind::System)?;
            self.versions()
                .placed_lsn
                .fetch_max(lsn.0, Ordering::AcqRel);
        }
        Ok(())
    }

    /// From now on, until the guard is dropped, the log has every version page.
    pub(crate) fn log_versions(self: &Arc<Self>) -> VersionsLogged {
        self.versions().copies.fetch_add(1, Ordering::SeqCst);
        // A chunk that was being placed without that is on its pages before the guard is given out.
        drop(self.versions().placing.lock());
        VersionsLogged(self.clone())
    }

    /// Chunks that keep the pages of the next flush from being written are put on pages, so that they can be.
    pub(crate) fn place_for_flush(&self, before: Lsn, limit: usize) -> Result<()> {
        let mut wanted = self.pool().held_back(self.store(), before, limit);
        wanted.sort_unstable_by_key(|c: &Arc<Chunk>| c.id);
        wanted.dedup_by_key(|c| c.id);
        for chunk in wanted {
            // Its transaction may have committed since: then no page waits for it.
            if self.versions().is_unplaced(chunk.id) {
                self.place_chunks(&[chunk])?;
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
        for (map, chunks) in by_map {
            self.free_version_pages(map, &chunks)?;
        }
        Ok(!chunks.is_empty())
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
        let lsn = self.apply_system(&body, &mut [&mut bitmap], AppendKind::Completion)?;
        let is_freed = |c: &Arc<Chunk>| chunks.iter().any(|freed| Arc::ptr_eq(c, freed));
        self.versions().dropped.lock().retain(|c| !is_freed(c));
        self.versions().add_pages(-(pages.len() as i64));
        pages.iter().for_each(|p| self.allocator().freed(*p, lsn));
        Ok(())
    }
}

/// See [`Database::log_versions`].
pub struct VersionsLogged(Arc<Database>);

impl Drop for VersionsLogged {
    fn drop(&mut self) {
        self.0.versions().copies.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Is this the image of a page of that chunk?
pub fn is_image_of(action: &PageAction<'_>, chunk: u32) -> bool {
    match action {
        PageAction::Image(image) => {
            image.get(4) == Some(&(PageType::Versions as u8))
                && image.get(HEADER_BYTES..HEADER_BYTES + 4) == Some(&chunk.to_le_bytes()[..])
        }
        _ => false,
    }
}

fn belongs(chunk: &Chunk, page: &Page) -> bool {
    is_of(page, chunk.id, chunk.txn)
}

fn is_of(page: &Page, chunk: u32, txn: TxnId) -> bool {
    let bytes = &page.bytes()[..];
    page.page_type() == Some(PageType::Versions)
        && get_u32(bytes, HEADER_BYTES) == chunk
        && get_u48(bytes, HEADER_BYTES + 4) == txn.0
}

/// After a crash: are all pages of the chunk there? If so they hold all of it, for it was sealed. What a checkpoint has told
/// to be hard is not read: a transaction may have any number of versions.
pub fn is_whole(pool: &Pool, store: &Store, chunk: &PlacedChunk) -> Result<bool> {
    if chunk.is_hard {
        return Ok(true);
    }
    for id in &chunk.pages {
        if !is_page_whole(pool, store, chunk, *id)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A page that was not synced is written again with what redo rebuilds, which is less than it held when it was. So damage is
/// believed late: a bit flipped on the way must not cost versions that are there.
fn is_page_whole(pool: &Pool, store: &Store, chunk: &PlacedChunk, id: PageId) -> Result<bool> {
    for _ in 0..READS_BEFORE_REBUILDING {
        match pool.read(store, id) {
            Ok(page) => return Ok(is_of(&page, chunk.id, chunk.txn)),
            Err(error) if error.is_damage() => {
                reached!("versions.page.damaged");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// After redo: a chunk whose pages were not whole is written to them again, as far as redo has rebuilt it.
pub fn place_again(pool: &Pool, store: &Store, placed: &PlacedChunk, lsn: Lsn) -> Result<()> {
    let Some(chunk) = store.versions.chunk(placed.id) else {
        // Nobody needs it; its pages are freed with the transaction's other chunks.
        let pages = placed.pages.clone();
        store
            .versions
            .restore_chunk(placed.id, placed.txn, pages, u64::MAX);
        return Ok(());
    };
    bring_back(store, &chunk)?;
    placed.pages.iter().for_each(|id| pool.discard(store, *id));
    let images = version_pages(&chunk, &chunk.content.read().bytes, &placed.pages, lsn);
    let written_by = store.files.write_unsynced(&images)?;
    let mut content = chunk.content.write();
    content.pages.clone_from(&placed.pages);
    content.written_by = written_by;
    store.versions.add_pages(placed.pages.len() as i64);
    Ok(())
}

/// In recovery: the bytes of a chunk that were put aside are in memory again.
pub fn bring_back(store: &Store, chunk: &Chunk) -> Result<()> {
    if let Some(bytes) = store.aside.take_chunk(chunk.id)? {
        store.versions.give_memory(chunk, bytes);
    }
    Ok(())
}

/// In recovery: when versions take more memory than this, the older ones leave it until half of it is free. They go to
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
        let content = chunk.content.read();
        if !content.bytes.is_empty() && content.pages.is_empty() {
            reached!("aside.versions");
            store.aside.put_chunk(chunk.id, &content.bytes)?;
        }
        drop(content);
        store.versions.forget_memory(&chunk);
    }
    Ok(())
}

/// The chunk's bytes on pages, linked and sealed.
fn version_pages(chunk: &Chunk, bytes: &[u8], ids: &[PageId], lsn: Lsn) -> Vec<Page> {
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
        page.set_lsn(lsn);
        page.seal();
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
        let mut segment = crate::version::Segment::new(true, false);
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
        db.place_chunks(&chosen).expect("nothing to place");
        assert_eq!((versions.page_count(), versions.memory_bytes()), (0, 0));
        // And in the other order: the pages come while it is dropped.
        versions.set_pages(&chosen[0], vec![PageId::new(1, 200)], 0);
        assert_eq!(
            (versions.page_count(), versions.dropped.lock().len()),
            (1, 1)
        );
    }
}
