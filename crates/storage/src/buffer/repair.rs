//! A damaged page gets its content from a copy of the database.
//!
//! Theory: a page that cannot be read is not in memory, so nobody changes it; what it was is what a copy has that has redone all log
//! up to then. Until the copy's content is there the page may have been given new content altogether, and written: then it is left
//! as it is. [`Repairs`] has the pages that wait, and forgets those that are written.
//!
//! Invariants
//! 1. Content goes to a page that is damaged on disk and was not written since it was waited for, or nowhere.
//! 2. The page is written as any other: dirty first, then by a flush, through the doublewrite area.

use super::{PageWrite, Pool, Store, is_current};
use crate::error::{Result, StorageError};
use crate::page::Page;
use crate::sync::Mutex;
use daruma_base::{Lsn, PageId, reached};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Damaged pages that wait for their content.
#[derive(Default)]
pub struct Repairs {
    /// How many there are: usually none, and then a flush looks no further.
    count: AtomicUsize,
    pages: Mutex<Vec<PageId>>,
}

impl Repairs {
    /// From here on a write of the page is noticed.
    pub fn begin(&self, page: PageId) {
        let mut pages = self.pages.lock();
        if !pages.contains(&page) {
            pages.push(page);
        }
        self.count.store(pages.len(), Ordering::Release);
    }

    /// The page waits no more.
    pub fn end(&self, page: PageId) {
        self.retain(|p| p != page);
    }

    /// These were written.
    pub fn written(&self, pages: &[Page]) {
        if self.count.load(Ordering::Acquire) > 0 {
            self.retain(|p| pages.iter().all(|w| w.id() != p));
        }
    }

    fn awaits(&self, page: PageId) -> bool {
        self.pages.lock().contains(&page)
    }

    fn retain(&self, stays: impl Fn(PageId) -> bool) {
        let mut pages = self.pages.lock();
        pages.retain(|p| stays(*p));
        self.count.store(pages.len(), Ordering::Release);
    }
}

impl Pool {
    /// Is the page damaged on disk, and nothing else in memory?
    pub fn is_damaged(&self, store: &Store, id: PageId) -> Result<bool> {
        match self.read(store, id) {
            Ok(page) => Ok(page.is_zero()),
            Err(StorageError::BadPage { .. } | StorageError::DamagedPage { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Gives a damaged page that waits for it this content, and writes it. False: it is not damaged any more, or waits no more. The
    /// caller holds no latch, and has checked the content.
    pub fn repair(&self, store: &Store, content: &Page) -> Result<bool> {
        let id = content.id();
        let Some(mut page) = self.latch_damaged(store, id)? else {
            return Ok(false);
        };
        page.prepare(&store.log);
        page.bytes_mut().copy_from_slice(content.bytes());
        reached!("repair.installed");
        drop(page);
        self.flush_page(store, id)?;
        Ok(true)
    }

    fn latch_damaged(&self, store: &Store, id: PageId) -> Result<Option<PageWrite<'_>>> {
        loop {
            store.log.check()?;
            if let Some(pin) = self.lookup(store, id) {
                let guard = pin.0.latch.write();
                if !is_current(pin.0, store, id) {
                    continue;
                }
                // What the file system never wrote was read as zeros.
                let waits = guard.is_zero() && pin.0.is_clean() && store.repairs.awaits(id);
                return Ok(waits.then_some(PageWrite { guard, pin }));
            }
            let victim = self.victim()?;
            let mut guard = victim.0.latch.write();
            if !self.publish(store, id, victim.0) {
                continue;
            }
            if self.bring_back(store, id, victim.0, &mut guard)? {
                // It was written anew, and put aside since.
                victim.0.valid.store(true, Ordering::Release);
                return Ok(None);
            }
            let found = store.files.read(id, &mut guard);
            let is_damaged = match &found {
                Ok(()) => guard.is_zero(),
                Err(StorageError::BadPage { .. } | StorageError::DamagedPage { .. }) => true,
                Err(_) => false,
            };
            let waits = is_damaged && store.repairs.awaits(id);
            match found {
                Err(error) if !waits => {
                    self.withdraw(victim.0);
                    return match is_damaged {
                        true => Ok(None),
                        false => Err(error),
                    };
                }
                _ => victim.0.valid.store(true, Ordering::Release),
            }
            return Ok(waits.then_some(PageWrite { guard, pin: victim }));
        }
    }

    /// Writes a page if it is dirty. One whose versions have no pages yet is left to a later flush.
    fn flush_page(&self, store: &Store, id: PageId) -> Result<()> {
        if store.log.has_participants() {
            // As in `flush`.
            store.log.harden_all()?;
        }
        let _one_at_a_time = store.flush.lock();
        if let Some(pin) = self.lookup(store, id) {
            let rec_lsn = pin.0.rec_lsn.load(Ordering::Acquire);
            self.flush_chunk(store, &[(rec_lsn, id.to_u64(), pin.0)], Lsn::MAX)?;
        }
        Ok(())
    }
}
