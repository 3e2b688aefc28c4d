//! Versions that records made when they were written, made again from the pages as they were.
//!
//! Those of classic transactions serve snapshots, which no restart survives: they are made again only beside readers. A chunk of
//! an accelerated one is of use until its transaction ends, so it is let go of there, or, beside readers, when no snapshot is
//! left from before; until then pages wait for it as they did before the crash (`VersionStore::holds_back`). When the log gives
//! it pages, they have what was rebuilt, and memory needs it no longer.
//!
//! Memory: beyond a quarter of the pool chunks are put aside.

use super::Site;
use super::apply::refused;
use super::tracker::TxnTracker;
use crate::buffer::Store;
use crate::error::Result;
use crate::log::record::{LeafOp, Ops};
use crate::page::{Head, PAGE_BYTES, Page};
use crate::pvs;
use crate::version::Chunk;
use daruma_base::{PageId, TxnId};
use std::sync::Arc;

pub(super) struct Versions<'a> {
    store: &'a Store,
    /// Rebuilt versions beyond this are put aside.
    bytes_max: u64,
    has_readers: bool,
}

impl<'a> Versions<'a> {
    pub(super) fn new(site: Site<'a>) -> Versions<'a> {
        Versions {
            store: site.store,
            bytes_max: (site.pool.frame_count() * PAGE_BYTES / 4) as u64,
            has_readers: site.beside.is_some(),
        }
    }

    /// Does anybody need what the transaction's records change?
    pub(super) fn are_wanted(&self, txn: TxnId, tracker: &mut TxnTracker) -> bool {
        self.has_readers && tracker.is_open(txn) || tracker.open_accelerated(txn).is_some()
    }

    /// The versions that a record's operations made when it was written: the page shows the entries as they were.
    /// Within one record an insert moves later slots, and no entry is changed twice.
    pub(super) fn rebuild(
        &self,
        page: &Page,
        ops: &Ops<'_>,
        txn: TxnId,
        tracker: &mut TxnTracker,
    ) -> Result<()> {
        let refused = |what| refused(self.store, ops.page, what);
        let mut inserted = 0;
        for op in ops.iter() {
            let (slot, before, version) =
                match op.ok_or_else(|| refused("damaged leaf operation"))? {
                    LeafOp::Insert { .. } => {
                        inserted += 1;
                        continue;
                    }
                    LeafOp::Update {
                        slot,
                        before,
                        version,
                        ..
                    }
                    | LeafOp::Delete {
                        slot,
                        before,
                        version,
                        ..
                    } => (slot, before, version),
                    // Compensations make no versions, and come in records of their own.
                    LeafOp::Remove { .. } | LeafOp::Restore { .. } => return Ok(()),
                };
            let slot = slot.checked_sub(inserted);
            let slot = slot.filter(|slot: &usize| *slot < page.slots());
            let slot = slot.ok_or_else(|| refused("slot out of range"))?;
            // Its own state before is a version only where the record says so.
            let is_old = before.writer == txn && version == before.version;
            if is_old || version == 0 {
                continue;
            }
            self.keep(txn, version, before, page.payload(slot), tracker)?;
        }
        Ok(())
    }

    /// The numbers of chunks that are not made again are given to no others.
    pub(super) fn skip(&self, ops: &Ops<'_>) {
        for op in ops.iter().flatten() {
            if let LeafOp::Update { version, .. } | LeafOp::Delete { version, .. } = op
                && version != 0
            {
                self.store.versions.skip_number((version >> 16) as u32);
            }
        }
    }

    fn keep(
        &self,
        txn: TxnId,
        locator: u64,
        before: Head,
        payload: &[u8],
        tracker: &mut TxnTracker,
    ) -> Result<()> {
        let versions = &self.store.versions;
        let id = (locator >> 16) as u32;
        let known = versions.chunk(id);
        // A chunk may get its pages between the making of a version and the record that needed it.
        let is_on_pages = |c: &Arc<Chunk>| !c.content.read().pages.is_empty();
        if !known.as_ref().is_some_and(is_on_pages) {
            match &known {
                Some(chunk) => pvs::bring_back(self.store, chunk)?,
                None => tracker.own_chunk(txn, id),
            }
            let guards_pages = tracker.open_accelerated(txn).is_some();
            versions.restore(known, (txn, guards_pages), locator, before, payload);
            pvs::bound_memory(self.store, self.bytes_max)?;
        }
        if tracker.open_accelerated(before.writer).is_some() {
            versions.note_below(locator, before.version);
        }
        Ok(())
    }

    /// The log has given a chunk pages, which have been redone.
    pub(super) fn placed(&self, id: u32, txn: TxnId, pages: Vec<PageId>, tracker: &mut TxnTracker) {
        if tracker.open_accelerated(txn).is_none() {
            // Ended; or not known yet: a checkpoint that follows says who it is, and what it left is taken up at the end.
            return;
        }
        let versions = &self.store.versions;
        if versions.chunk(id).is_none() {
            tracker.own_chunk(txn, id);
        }
        versions.restore_chunk(id, txn, pages);
        self.store.aside.forget_chunk(id);
    }

    /// Lets go of versions that nobody needs any more.
    pub(super) fn forget(&self, chunks: &[u32]) {
        if chunks.is_empty() {
            return;
        }
        self.store.versions.forget_chunks(chunks);
        for id in chunks {
            self.store.aside.forget_chunk(*id);
        }
    }

    /// Chunks that losers had on pages before the first record that was read: only a checkpoint told of them.
    pub(super) fn take_placed(&self, tracker: &mut TxnTracker) {
        let versions = &self.store.versions;
        for (id, txn, pages) in tracker.placed_by_losers() {
            match versions.chunk(id) {
                Some(chunk) if !chunk.content.read().pages.is_empty() => continue,
                Some(_) => self.store.aside.forget_chunk(id),
                None => tracker.own_chunk(txn, id),
            }
            versions.restore_chunk(id, txn, pages);
        }
    }
}
