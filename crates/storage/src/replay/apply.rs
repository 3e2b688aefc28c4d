//! Records applied to the pages that are older.
//!
//! All pages of a record are latched before the first of them changes, in the order in which the record names them, which is that
//! in which they were latched when it was written: nobody may see half of a split.

use super::ahead::Commits;
use super::tracker::TxnTracker;
use super::versions::Versions;
use super::{Site, damaged};
use crate::buffer::{PageWrite, Store};
use crate::error::{Result, StorageError};
use crate::log::record::{self, Kind, Ops, Record};
use crate::page::PageType;
use crate::planted::{Bug, planted};
use crate::redo;
use daruma_base::{Lsn, PageId, TxnId};

pub(super) struct Apply<'a> {
    site: Site<'a>,
    store: &'a Store,
    versions: Versions<'a>,
    commits: &'a Commits,
}

/// A page of a record with several parts.
struct Latched<'a> {
    id: PageId,
    page: PageWrite<'a>,
    /// It is older than the record.
    is_needed: bool,
}

impl<'a> Apply<'a> {
    pub(super) fn new(site: Site<'a>, commits: &'a Commits) -> Apply<'a> {
        Apply {
            site,
            store: site.store,
            versions: site.versions(),
            commits,
        }
    }

    /// The record at `lsn` of the block at `block`, which `tracker` has noted.
    pub(super) fn record(
        &self,
        block: Lsn,
        lsn: Lsn,
        record: &Record<'_>,
        tracker: &mut TxnTracker,
    ) -> Result<()> {
        let unreadable = || damaged(self.store, lsn, "unreadable record body");
        match record.kind {
            Kind::Ops => {
                let ops = self.parse_ops(lsn, record.body)?;
                self.note_work(lsn, &ops, record.txn, tracker)?;
                self.ops(block, lsn, record.txn, &ops, Some(tracker))
            }
            Kind::Clr => {
                let (_, ops) = record::parse_clr(record.body).ok_or_else(unreadable)?;
                let ops = self.parse_ops(lsn, ops)?;
                self.ops(block, lsn, record.txn, &ops, None)
            }
            Kind::Revert => {
                let ops = self.parse_ops(lsn, record.body)?;
                self.ops(block, lsn, TxnId::NONE, &ops, None)
            }
            Kind::System | Kind::Owned | Kind::FreeDone | Kind::VersionsFreed => {
                let parts = record::parts_of(record).ok_or_else(unreadable)?;
                self.parts(block, lsn, parts)
            }
            Kind::Versions => {
                let (chunk, pages, parts) =
                    record::parse_versions(record.body).ok_or_else(unreadable)?;
                self.parts(block, lsn, parts)?;
                if !self.commits.has(record.txn) {
                    self.versions.placed(chunk, record.txn, pages, tracker);
                }
                Ok(())
            }
            Kind::Defer
            | Kind::Commit
            | Kind::Prepare
            | Kind::End
            | Kind::Checkpoint
            | Kind::ClrSpace
            | Kind::Abort
            | Kind::Forget
            | Kind::Property => Ok(()),
        }
    }

    fn parse_ops<'r>(&self, lsn: Lsn, body: &'r [u8]) -> Result<Ops<'r>> {
        Ops::parse(body).ok_or_else(|| damaged(self.store, lsn, "unreadable leaf operations"))
    }

    /// Where an accelerated transaction wrote, also when the page has it already.
    fn note_work(
        &self,
        lsn: Lsn,
        ops: &Ops<'_>,
        txn: TxnId,
        tracker: &mut TxnTracker,
    ) -> Result<()> {
        if self.commits.has(txn) {
            return Ok(());
        }
        let Some(open) = tracker.open_accelerated(txn) else {
            return Ok(());
        };
        let tree = crate::api::TreeId(ops.tree);
        for op in ops.iter() {
            let op = op.ok_or_else(|| damaged(self.store, lsn, "unreadable leaf operations"))?;
            if let Some(key) = op.key() {
                open.work.note(tree, ops.page.to_u64(), key, key, 0);
            }
        }
        Ok(())
    }

    /// `tracker` for operations that made versions if their transaction is accelerated.
    fn ops(
        &self,
        block: Lsn,
        lsn: Lsn,
        txn: TxnId,
        ops: &Ops<'_>,
        tracker: Option<&mut TxnTracker>,
    ) -> Result<()> {
        let store = self.store;
        store.files.ensure_size(ops.page)?;
        let mut page = self.site.pool.write(store, ops.page)?;
        if page.lsn() >= lsn && !planted(Bug::ApplyTwice) {
            if let Some(tracker) = tracker {
                tracker.skipped(txn);
            }
            return Ok(());
        }
        page.prepare_at(block);
        if let Some(tracker) = tracker {
            match self.commits.has(txn) {
                true => self.versions.skip(ops),
                false if self.versions.are_wanted(txn, tracker) => {
                    self.versions.rebuild(&page, ops, txn, tracker)?;
                }
                false => {}
            }
        }
        redo::apply_ops(&mut page, ops, txn).map_err(|what| refused(store, ops.page, what))?;
        page.set_lsn(lsn);
        Ok(())
    }

    fn parts(&self, block: Lsn, lsn: Lsn, body: &[u8]) -> Result<()> {
        let mut pages = self.latch_all(lsn, body)?;
        for part in record::parts(body) {
            let (id, action) = part.ok_or_else(|| self.unreadable_parts(lsn))?;
            let page = pages.iter_mut().find(|p| p.id == id && p.is_needed);
            let Some(Latched { page, .. }) = page else {
                continue;
            };
            page.prepare_at(block);
            page.keep_back(&self.store.versions, &action);
            if let Some(beside) = self.site.beside
                && action.is_image()
                && page.page_type() == Some(PageType::Tree)
            {
                // It may become another's, or move: an unlinked leaf becomes free, a moved one leaves its place.
                beside.unlinks(page.tree());
            }
            redo::apply_part(page, id, &action).map_err(|what| refused(self.store, id, what))?;
            page.set_lsn(lsn);
            if let Some(beside) = self.site.beside
                && action.is_image()
                && page.page_type() == Some(PageType::Tree)
            {
                // A page that was not in memory did not say whose it was.
                beside.rewrites(page.tree());
            }
        }
        Ok(())
    }

    /// Several parts of one record may change one page: whether it needs them is decided before the first.
    fn latch_all(&self, lsn: Lsn, body: &[u8]) -> Result<Vec<Latched<'a>>> {
        let store = self.store;
        let mut pages: Vec<Latched<'_>> = Vec::new();
        for part in record::parts(body) {
            let (id, action) = part.ok_or_else(|| self.unreadable_parts(lsn))?;
            if pages.iter().any(|p| p.id == id) {
                continue;
            }
            store.files.ensure_size(id)?;
            let page = match action.is_image() {
                true => self.site.pool.write_new(store, id)?,
                false => self.site.pool.write(store, id)?,
            };
            let is_needed = page.lsn() < lsn;
            pages.push(Latched {
                id,
                page,
                is_needed,
            });
        }
        Ok(pages)
    }

    fn unreadable_parts(&self, lsn: Lsn) -> StorageError {
        damaged(self.store, lsn, "unreadable page parts")
    }
}

pub(super) fn refused(store: &Store, page: PageId, what: &str) -> StorageError {
    StorageError::DamagedPage {
        page,
        path: store.files.path(page.file),
        what: format!("redo: {what}"),
    }
}
