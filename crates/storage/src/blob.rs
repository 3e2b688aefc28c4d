//! Blobs: values too long for a page, on pages of their own.
//!
//! Theory: a blob never changes. Its first page and the index pages chained behind it list the data pages; all are
//! written by records that also allocate them, so a crash leaks nothing. The record that creates the first page is
//! undone with the transaction; freeing waits until the transaction that dropped the blob has committed and no
//! snapshot can need it.
//!
//! Index page: after the header count u16, then data pages u48 each. Data page: after the header length u16, bytes.

use crate::api::BlobRef;
use crate::buffer::PageWrite;
use crate::bytes::*;
use crate::database::Database;
use crate::error::{Result, StorageError};
use crate::log::AppendKind;
use crate::log::record::{self, Kind, PartsWriter, Space};
use crate::page::{HEADER_BYTES, PAGE_BYTES, Page, PageType};
use crate::tree::{clear_bits, free_last_page};
use crate::txn::Txn;
use daruma_base::{Lsn, PageId, TxnId, reached};

/// Bytes of a value on one of its pages.
pub const DATA_BYTES: usize = PAGE_BYTES - HEADER_BYTES - 2;
const INDEX_ENTRIES: usize = (PAGE_BYTES - HEADER_BYTES - 2) / 6;
/// Data pages logged in one record together with the index page.
const PAGES_PER_RECORD: usize = 5;

/// Writes a value outside of its row, five pages with each record; the transaction owns its pages until it ends.
pub fn put(db: &Database, txn: &Txn, filegroup: u16, bytes: &[u8]) -> Result<BlobRef> {
    let first = create_first(db, txn, filegroup)?;
    let mut index = first;
    let mut listed = 0;
    for chunk in bytes.chunks(DATA_BYTES * PAGES_PER_RECORD) {
        db.hold_back(txn.owner())?;
        if listed + PAGES_PER_RECORD > INDEX_ENTRIES {
            index = chain_index(db, filegroup, index)?;
            listed = 0;
        }
        listed += append_data(db, filegroup, index, chunk)?;
        db.note_ahead(txn.owner(), chunk.len() as u64);
    }
    Ok(BlobRef {
        first,
        bytes: bytes.len() as u64,
    })
}

/// The first index page, owned by the transaction.
fn create_first(db: &Database, txn: &Txn, filegroup: u16) -> Result<PageId> {
    let mut state = txn.start_write()?;
    let mut space = db.choose_within_limits(filegroup, 1)?;
    let id = space.pages[0];
    let mut page = db.pool().write_new(db.store(), id)?;
    let mut content = Page::zeroed();
    content.format(id, PageType::Blob, 0, id);
    let mut body = Vec::new();
    state.start_record(&mut body, Kind::Owned);
    Space::Blob(id).write(&mut body);
    space.write_parts(&mut body);
    PartsWriter::new(&mut body).image(&content);
    record::finish(&mut body);
    space.bitmap.prepare(&db.store().log);
    page.prepare(&db.store().log);
    let lsn = state.append_owned(db, &body, Space::Blob(id))?;
    db.apply_parts(
        &body[record::RECORD_HEADER_BYTES + record::SPACE_BYTES..],
        lsn,
        &mut [&mut space.bitmap, &mut page],
    );
    Ok(id)
}

fn system_record() -> Vec<u8> {
    let mut body = Vec::new();
    record::start(&mut body, Kind::System, TxnId::NONE, Lsn::NONE);
    body
}

/// Adds an index page behind `index`.
fn chain_index(db: &Database, filegroup: u16, index: PageId) -> Result<PageId> {
    reached!("blob.index.chained");
    let mut last = db.pool().write(db.store(), index)?;
    let mut space = db.choose_within_limits(filegroup, 1)?;
    let id = space.pages[0];
    let mut page = db.pool().write_new(db.store(), id)?;
    let mut content = Page::zeroed();
    content.format(id, PageType::Blob, 0, last.tree());
    let mut body = system_record();
    PartsWriter::new(&mut body).set_next(index, id);
    space.write_parts(&mut body);
    PartsWriter::new(&mut body).image(&content);
    record::finish(&mut body);
    db.apply_system(
        &body,
        &mut [&mut last, &mut space.bitmap, &mut page],
        AppendKind::System,
    )?;
    Ok(id)
}

/// Writes the data pages of one chunk and lists them in the index page. How many pages there were.
fn append_data(db: &Database, filegroup: u16, index: PageId, chunk: &[u8]) -> Result<usize> {
    let mut last = db.pool().write(db.store(), index)?;
    let count = chunk.len().div_ceil(DATA_BYTES);
    let mut space = db.choose_within_limits(filegroup, count)?;
    let mut new_index = last.clone();
    space.pages.iter().for_each(|id| list(&mut new_index, *id));
    let mut body = system_record();
    PartsWriter::new(&mut body).image(&new_index);
    space.write_parts(&mut body);
    let mut latched: Vec<PageWrite<'_>> = Vec::with_capacity(count);
    for (id, bytes) in space.pages.iter().zip(chunk.chunks(DATA_BYTES)) {
        let mut content = Page::zeroed();
        content.format(*id, PageType::Blob, 1, last.tree());
        let b = &mut content.bytes_mut()[HEADER_BYTES..];
        put_u16(b, 0, bytes.len() as u16);
        b[2..2 + bytes.len()].copy_from_slice(bytes);
        PartsWriter::new(&mut body).image(&content);
        latched.push(db.pool().write_new(db.store(), *id)?);
    }
    record::finish(&mut body);
    let mut pages: Vec<&mut PageWrite<'_>> = latched.iter_mut().collect();
    pages.push(&mut space.bitmap);
    pages.push(&mut last);
    db.apply_system(&body, &mut pages, AppendKind::System)?;
    Ok(count)
}

fn list(index: &mut Page, id: PageId) {
    let b = &mut index.bytes_mut()[HEADER_BYTES..];
    let count = usize::from(get_u16(b, 0));
    put_u48(b, 2 + count * 6, id.to_u64());
    put_u16(b, 0, count as u16 + 1);
}

/// Pages that an index page of a value names.
pub fn listed(index: &Page) -> Vec<PageId> {
    let b = &index.bytes()[HEADER_BYTES..];
    let count = usize::from(get_u16(b, 0)).min(INDEX_ENTRIES);
    (0..count)
        .map(|i| PageId::from_u64(get_u48(b, 2 + i * 6)))
        .collect()
}

fn damaged(db: &Database, page: PageId, what: &str) -> StorageError {
    if db.is_secondary() {
        // The primary has freed it, and spared nobody here: the connection was lost meanwhile.
        return StorageError::YoungerThanSnapshot;
    }
    StorageError::DamagedPage {
        page,
        path: db.store().files.path(page.file),
        what: what.into(),
    }
}

/// At most `len` bytes from `offset`.
pub fn read(db: &Database, blob: BlobRef, offset: u64, len: usize) -> Result<Vec<u8>> {
    let end = blob.bytes.min(offset.saturating_add(len as u64));
    let mut out = Vec::with_capacity(end.saturating_sub(offset).min(1 << 30) as usize);
    let mut index = blob.first;
    let mut at = 0u64;
    while !index.is_none() && at < end {
        let (pages, next) = {
            let page = db.pool().read(db.store(), index)?;
            if page.page_type() != Some(PageType::Blob) || page.tree() != blob.first {
                return Err(damaged(db, index, "not a page of its blob"));
            }
            (listed(&page), page.next())
        };
        for id in pages {
            // Every data page but the last of the blob is full.
            let page_end = at + DATA_BYTES as u64;
            if page_end > offset && at < end {
                copy_data(db, blob, id, at, offset..end, &mut out)?;
            }
            at = page_end;
        }
        index = next;
    }
    if out.len() as u64 != end.saturating_sub(offset) {
        return Err(damaged(
            db,
            blob.first,
            "the blob is shorter than its reference says",
        ));
    }
    Ok(out)
}

fn copy_data(
    db: &Database,
    blob: BlobRef,
    id: PageId,
    at: u64,
    range: std::ops::Range<u64>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let page = db.pool().read(db.store(), id)?;
    if page.page_type() != Some(PageType::Blob) || page.tree() != blob.first {
        return Err(damaged(db, id, "not a page of its blob"));
    }
    let b = &page.bytes()[HEADER_BYTES..];
    let len = usize::from(get_u16(b, 0)).min(DATA_BYTES);
    let from = range.start.saturating_sub(at) as usize;
    let to = (range.end - at).min(len as u64) as usize;
    out.extend_from_slice(b.get(2 + from..2 + to).unwrap_or_default());
    Ok(())
}

/// Frees all pages, in steps that can be repeated after a crash: index pages behind the first one, then the rest.
pub fn free(db: &Database, first: PageId) -> Result<()> {
    loop {
        let mut head = db.pool().write(db.store(), first)?;
        let next = head.next();
        if next.is_none() {
            let pages = listed(&head);
            drop(head);
            return free_last_page(db, first, Space::Blob(first), &pages);
        }
        let index = db.pool().read(db.store(), next)?;
        let mut pages = listed(&index);
        let after = index.next();
        drop(index);
        pages.push(next);
        let mut body = system_record();
        PartsWriter::new(&mut body).set_next(first, after);
        let mut maps = clear_bits(db, &mut body, &pages)?;
        record::finish(&mut body);
        let mut latched: Vec<&mut PageWrite<'_>> = maps.iter_mut().collect();
        latched.push(&mut head);
        db.apply_system(&body, &mut latched, AppendKind::System)?;
        pages.iter().for_each(|p| db.allocator().freed(*p));
    }
}
