//! Single pages rolled forward: a page from a backup, and every record of the log that changes it since.
//!
//! Theory: redo is local to pages. Whether a page needs a record is told by its LSN, so the log of any number of backups
//! is applied to a few pages as recovery would apply it to all. A page whose content is not known yet, because it was
//! free or held row versions, becomes known with the next image of it: every use of a free page begins with one.
//!
//! Invariants
//! 1. Nothing is written before the pages have come to the end of the database's own log.
//! 2. A page whose content is not known at the end of the log is left as it is: it is free, or holds row versions.
//! 3. A page is written through the doublewrite area: a crash leaves it as it was, or as it is to be.
//! 4. Header, boot, doublewrite and allocation pages are not restored singly: what they say is not all in the log.
//!
//! Tests: `crates/backup/tests/pages.rs`. Read next: `redo`, `replay`.

use crate::alloc::INTERVAL_PAGES;
use crate::api::FileSpec;
use crate::bytes::*;
use crate::copy::{LogChunk, is_made_anew, is_whole};
use crate::database::open::split_specs;
use crate::datafile::{DOUBLE_WRITE_PAGES, FileSet};
use crate::engine::Engine;
use crate::error::{Result, StorageError};
use crate::log::Log;
use crate::log::rebuild::{blocks, damaged_chunk, records};
use crate::log::record::{self, Kind, Ops, Record};
use crate::page::{PAGE_BYTES, Page, PageType};
use crate::redo;
use daruma_base::{Lsn, PageId, TxnId};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Pages under way; `None` while the content is not known.
#[derive(Clone, Default)]
pub struct PageRoll {
    pages: BTreeMap<PageId, Option<Page>>,
}

const ENTRY_BYTES: usize = 7 + PAGE_BYTES;

impl PageRoll {
    /// The pages, none of which has its content yet.
    pub fn new(pages: impl IntoIterator<Item = PageId>) -> PageRoll {
        PageRoll {
            pages: pages.into_iter().map(|id| (id, None)).collect(),
        }
    }

    /// The pages, in order.
    pub fn ids(&self) -> Vec<PageId> {
        self.pages.keys().copied().collect()
    }

    /// The pages whose content is not known (yet), in order.
    pub fn unknown(&self) -> Vec<PageId> {
        let unknown = self.pages.iter().filter(|(_, page)| page.is_none());
        unknown.map(|(id, _)| *id).collect()
    }

    /// May this page be restored by itself?
    pub fn is_restorable(page: PageId) -> bool {
        !is_made_anew(page) && page.page % INTERVAL_PAGES > 1
    }

    /// The content in a backup. False for a page that nobody asked for.
    pub fn put(&mut self, id: PageId, bytes: &[u8]) -> Result<bool> {
        let Some(place) = self.pages.get_mut(&id) else {
            return Ok(false);
        };
        let content: Option<&[u8; PAGE_BYTES]> = bytes.try_into().ok();
        let Some(content) = content.filter(|c| is_whole(id, &c[..])) else {
            return Err(damaged(id, "its copy is damaged"));
        };
        let mut page = Page::zeroed();
        page.bytes_mut().copy_from_slice(content);
        *place = Some(page).filter(|p| !p.is_zero());
        Ok(true)
    }

    /// Applies whole blocks of log, in order.
    pub fn apply(&mut self, chunk: &LogChunk) -> Result<()> {
        for block in blocks(chunk) {
            let (lsn, bytes) = block.map_err(damaged_chunk)?;
            for (lsn, record) in records(lsn, bytes) {
                self.apply_record(lsn, record)?;
            }
        }
        Ok(())
    }

    fn apply_record(&mut self, lsn: Lsn, bytes: &[u8]) -> Result<()> {
        let unreadable = || damaged_chunk("a log record is unreadable");
        let record = Record::parse(bytes).ok_or_else(unreadable)?;
        match record.kind {
            Kind::Ops => self.ops(lsn, record.txn, record.body),
            Kind::Clr => {
                let (_, ops) = record::parse_clr(record.body).ok_or_else(unreadable)?;
                self.ops(lsn, record.txn, ops)
            }
            Kind::Revert => self.ops(lsn, TxnId::NONE, record.body),
            Kind::Versions => {
                let (_, pages, parts) =
                    record::parse_versions(record.body).ok_or_else(unreadable)?;
                pages.iter().for_each(|page| self.forget(*page, lsn));
                self.parts(lsn, parts)
            }
            Kind::System | Kind::Owned | Kind::FreeDone | Kind::VersionsFreed => {
                self.parts(lsn, record::parts_of(&record).ok_or_else(unreadable)?)
            }
            _ => Ok(()),
        }
    }

    /// From here on the page holds row versions, which the log need not have.
    fn forget(&mut self, id: PageId, lsn: Lsn) {
        if let Some(place) = self.pages.get_mut(&id)
            && place.as_ref().is_some_and(|page| page.lsn() < lsn)
        {
            *place = None;
        }
    }

    fn ops(&mut self, lsn: Lsn, txn: TxnId, body: &[u8]) -> Result<()> {
        let ops = Ops::parse(body).ok_or_else(|| damaged_chunk("a log record is unreadable"))?;
        let Some(Some(page)) = self.pages.get_mut(&ops.page) else {
            return Ok(());
        };
        if page.lsn() < lsn {
            redo::apply_ops(page, &ops, txn).map_err(|what| damaged(ops.page, what))?;
            page.set_lsn(lsn);
        }
        Ok(())
    }

    fn parts(&mut self, lsn: Lsn, body: &[u8]) -> Result<()> {
        // Several parts of one record may change one page; whether it needs them is decided at the first.
        let mut decided: Vec<(PageId, bool)> = Vec::new();
        for part in record::parts(body) {
            let (id, action) = part.ok_or_else(|| damaged_chunk("a log record is unreadable"))?;
            let Some(place) = self.pages.get_mut(&id) else {
                continue;
            };
            if place.is_none() && action.is_image() {
                *place = Some(Page::zeroed());
            }
            let Some(page) = place else { continue };
            let needed = match decided.iter().find(|(page, _)| *page == id) {
                Some((_, needed)) => *needed,
                None => {
                    decided.push((id, page.lsn() < lsn));
                    page.lsn() < lsn
                }
            };
            if needed {
                redo::apply_part(page, id, &action).map_err(|what| damaged(id, what))?;
                page.set_lsn(lsn);
            }
        }
        Ok(())
    }

    /// As bytes, to go on after a restart.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4 + self.pages.len() * ENTRY_BYTES);
        for (id, page) in &self.pages {
            out.put_u16(id.file);
            out.put_u32(id.page);
            out.put_u8(u8::from(page.is_some()));
            match page {
                Some(page) => out.extend_from_slice(page.bytes()),
                None => out.resize(out.len() + PAGE_BYTES, 0),
            }
        }
        let sum = crc32c::crc32c(&out);
        out.put_u32(sum);
        out
    }

    /// `None` when these are not the bytes of pages.
    pub fn decode(bytes: &[u8]) -> Option<PageRoll> {
        let (entries, sum) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(entries) != u32::from_le_bytes(*sum) {
            return None;
        }
        let entry = |entry: &[u8]| {
            let mut reader = Reader::new(entry);
            let id = PageId::new(reader.u16()?, reader.u32()?);
            let known = reader.u8()? != 0;
            let content: &[u8; PAGE_BYTES] = entry.get(7..)?.try_into().ok()?;
            let mut page = Page::zeroed();
            page.bytes_mut().copy_from_slice(content);
            Some((id, known.then_some(page)))
        };
        let pages = entries.chunks(ENTRY_BYTES).map(entry);
        pages.collect::<Option<_>>().map(|pages| PageRoll { pages })
    }
}

fn damaged(page: PageId, what: &str) -> StorageError {
    StorageError::DamagedPage {
        page,
        path: PathBuf::new(),
        what: format!("restore of the page: {what}"),
    }
}

impl Engine {
    /// Rolls pages from `from` to the end of the log of a closed database and writes them into its files. Those that needed
    /// nothing and were left as they are; `None` when that log begins later: backups of it are missing.
    pub fn mend_pages(
        &self,
        guid: u64,
        files: Vec<FileSpec>,
        mut roll: PageRoll,
        from: Lsn,
    ) -> Result<Option<Vec<PageId>>> {
        let (log_spec, data) = split_specs(files)?;
        let files = FileSet::open(&data, self.env())?;
        if files.guid() != guid {
            return Err(StorageError::BadFile {
                path: files.path(1),
                what: "the pages are of another database".into(),
            });
        }
        files.restore_torn()?;
        let log = Log::open(&log_spec, guid, self.env(), self.log_shared())?;
        let Ok(mut cursor) = log.cursor(from) else {
            return Ok(None);
        };
        while let Some(block) = cursor.next()? {
            for (lsn, record) in block.records() {
                roll.apply_record(lsn, record)?;
            }
        }
        if cursor.position() < files.boot().hard {
            return Err(cursor.gap());
        }
        roll.write(&files).map(Some)
    }
}

impl PageRoll {
    /// The pages that are left as they are.
    fn write(self, files: &FileSet) -> Result<Vec<PageId>> {
        // All of them are looked at before the first is written.
        let (mut ready, mut left) = (Vec::new(), Vec::new());
        for (id, page) in self.pages {
            match page.map(|page| (page.page_type(), page)) {
                None | Some((Some(PageType::Free | PageType::Versions), _)) => left.push(id),
                Some((Some(PageType::Tree | PageType::Blob), page)) if page.id() == id => {
                    ready.push(page);
                }
                Some(_) => return Err(damaged(id, "it holds no data")),
            }
        }
        for page in &mut ready {
            page.seal();
            files.ensure_size(page.id())?;
        }
        // The page may have been whole, and the restore may be taken back: a torn one would be lost.
        for batch in ready.chunks(DOUBLE_WRITE_PAGES) {
            files.write(batch)?;
        }
        Ok(left)
    }
}
