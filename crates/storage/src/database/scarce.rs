//! Few frames behind a recovery: what was put aside (`aside`) comes back, at once or later.
//!
//! Theory: when redo is over, versions get pages, and the pages that wait for them can be written. In a full file on a full disk
//! there are none. Then everything stays where it is, in frames and aside, and the database is used like that: readers find versions
//! aside, a page that is needed changes places with another, and checkpoints begin their redo before the oldest page of either
//! place. Reverting needs no page (`tree::room`), and what is reverted waits for no version: then the scratch file goes.
//!
//! Tests: tests/kept_room.rs, tests/small_pool.rs

use super::Database;
use super::failures::Task;
use crate::error::{Result, StorageError};
use crate::log::AppendKind;
use crate::page::PAGE_BYTES;
use crate::pvs;
use crate::version::Chunk;
use daruma_base::reached;
use std::sync::Arc;

/// Room that the scratch file has to spare while what is aside waits: a page leaves its frame before the one that is needed comes back.
const SPARE_PAGES: usize = 64;

impl Database {
    /// Redo is over: versions can get pages now, so pages that had to wait for them, in frames or put aside, need not
    /// wait any longer. Where versions find no page, all of them wait on.
    pub(super) fn settle_aside(&self) -> Result<()> {
        let aside = &self.store.aside;
        let memory_max = (self.pool().frame_count() * PAGE_BYTES / 4) as u64;
        let mut is_waiting = false;
        if aside.is_used() || self.pool().is_full() {
            let mut chunks = self.versions().all_chunks();
            chunks.retain(|chunk| chunk.content.read().pages.is_empty());
            chunks.sort_unstable_by_key(|chunk| chunk.id);
            for chunk in chunks {
                if self.place_in_recovery(&chunk)? {
                    self.versions().forget_memory(&chunk);
                } else {
                    is_waiting = true;
                    pvs::bound_memory(&self.store, memory_max)?;
                }
            }
        }
        match is_waiting {
            true => {
                reached!("recovery.aside.stays");
                Ok(())
            }
            false => self.empty_aside(),
        }
    }

    /// A file without a free page grows past its limits, or the versions stay where they are: false. The scratch file takes what it needs
    /// for that case before the disk is filled.
    fn place_in_recovery(&self, chunk: &Arc<Chunk>) -> Result<bool> {
        loop {
            let placed = self.place_chunks(std::slice::from_ref(chunk), AppendKind::Completion);
            let Err(StorageError::FilegroupFull { filegroup, .. }) = placed else {
                return placed.map(|()| true);
            };
            let reserved = self.store.aside.reserve(SPARE_PAGES);
            match self.store.grow_past_limits(filegroup, u64::MAX) {
                Err(StorageError::FilegroupFull { .. }) => {
                    reached!("recovery.versions.without_pages");
                    return reserved.map(|()| false);
                }
                grown => grown?,
            }
        }
    }

    /// Brings back all pages and removes the scratch file.
    fn empty_aside(&self) -> Result<()> {
        let aside = &self.store.aside;
        aside.shut();
        while let Some(page) = aside.next_page() {
            drop(self.pool().read(&self.store, page)?);
        }
        aside.close();
        Ok(())
    }

    /// The same, unless versions of what is to be reverted still wait for pages. False: something stays aside.
    pub(super) fn bring_back_aside(&self) -> Result<bool> {
        let aside = &self.store.aside;
        if !aside.is_open() && !aside.is_used() {
            return Ok(true);
        }
        if aside.has_chunks() || self.has_aborted_without_pages() {
            return Ok(false);
        }
        self.empty_aside().map(|()| true)
    }

    fn has_aborted_without_pages(&self) -> bool {
        let aborted = self.aborted.map.lock();
        let mut chunks = aborted.values().flat_map(|aborted| &aborted.chunks);
        chunks.any(|chunk| self.versions().is_unplaced(*chunk))
    }

    /// One round of background work.
    pub(super) fn aside_step(&self) -> Result<bool> {
        self.attempt(Task::BringBack, || self.bring_back_aside().map(|_| false))
    }
}
