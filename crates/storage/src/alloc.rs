//! Page allocation: one bit per page in allocation pages, one such page for every 64,000 pages of a file.
//!
//! Allocation and release are parts of the system record of the operation that needs them (a split, a blob, a drop): the caller
//! gets the latched allocation page and the chosen bits, logs, and applies. So no page is ever allocated by a record
//! that does not also use it.

use crate::buffer::{PageWrite, Pool, Store};
use crate::bytes::*;
use crate::error::{Result, StorageError};
use crate::log::record::PartsWriter;
use crate::page::{HEADER_BYTES, PAGE_BYTES, Page, PageType};
use crate::page_set::PageSet;
use crate::pause::pause;
use crate::sync::Mutex;
use daruma_base::{PageId, reached};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Pages covered by one allocation page.
pub const INTERVAL_PAGES: u32 = 64_000;
const _: () = assert!(INTERVAL_PAGES as usize <= (PAGE_BYTES - HEADER_BYTES) * 8);

/// The allocation page that covers `page`, and the bit in it.
pub fn bit_of(page: PageId) -> (PageId, u16) {
    let interval = page.page / INTERVAL_PAGES;
    (
        PageId::new(page.file, interval * INTERVAL_PAGES + 1),
        (page.page % INTERVAL_PAGES) as u16,
    )
}

/// A fresh allocation page in which the first `reserved` pages of its interval are taken.
pub fn new_bitmap(id: PageId, reserved: u32) -> Page {
    let mut page = Page::zeroed();
    page.format(id, PageType::Allocation, 0, PageId::NONE);
    for bit in 0..reserved.max(2) {
        set_bit(&mut page, bit as u16, true);
    }
    page
}

/// Sets or clears a bit of an allocation page; the caller has logged that.
pub fn set_bit(page: &mut Page, bit: u16, on: bool) {
    let byte = &mut page.bytes_mut()[HEADER_BYTES + usize::from(bit) / 8];
    let mask = 1 << (bit % 8);
    if on { *byte |= mask } else { *byte &= !mask }
}

/// Is the page that belongs to this bit in use?
pub fn get_bit(page: &Page, bit: u16) -> bool {
    page.bytes()[HEADER_BYTES + usize::from(bit) / 8] & (1 << (bit % 8)) != 0
}

/// Bits that are set among the first `limit`.
pub fn count_set(page: &Page, limit: u32) -> u64 {
    let bytes = &page.bytes()[HEADER_BYTES..];
    let whole: u64 = bytes[..limit as usize / 8]
        .iter()
        .map(|b| u64::from(b.count_ones()))
        .sum();
    whole
        + (limit / 8 * 8..limit)
            .filter(|b| get_bit(page, *b as u16))
            .count() as u64
}

/// Pages chosen from one allocation page that is still latched. Log `Bits { set: true }`, then apply it.
pub struct Allocation<'a> {
    pub bitmap: PageWrite<'a>,
    pub pages: Vec<PageId>,
    pub bits: Vec<u16>,
    /// No record covers the allocation page yet: log its image before the bits.
    pub fresh: bool,
}

impl Allocation<'_> {
    /// Adds the parts that take the chosen pages to a record.
    pub fn write_parts(&self, body: &mut Vec<u8>) {
        let mut parts = PartsWriter::new(body);
        if self.fresh {
            parts.image(&self.bitmap);
        }
        parts.bits(self.bitmap.location(), true, &self.bits);
    }
}

/// Which pages of a file may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those that its largest size allows.
    WithinLimits,
    /// Also those behind, where it has grown past that.
    PastLimits,
}

/// Where to look first, per file, and who is told of freed pages.
#[derive(Default)]
pub struct Allocator {
    hints: Mutex<HashMap<u16, u32>>,
    watches: Mutex<Vec<Weak<Mutex<PageSet>>>>,
}

impl Allocator {
    /// Chooses `count` free pages of one allocation page of the filegroup, growing a file when all are full: the smallest that may grow
    /// and for which the disk has room. Pages behind the limits are the last that are looked at.
    pub fn choose<'a>(
        &self,
        pool: &'a Pool,
        store: &Store,
        filegroup: u16,
        count: usize,
        reach: Reach,
    ) -> Result<Allocation<'a>> {
        loop {
            let files = store.files.of_filegroup(filegroup);
            // From before they are looked at: a file that has grown since is looked at again, not asked to grow once more.
            let seen = sizes(store, &files);
            for file in &files {
                let found = self.choose_in(pool, store, *file, count, Reach::WithinLimits)?;
                if let Some(found) = found {
                    return Ok(found);
                }
            }
            pause("alloc.full");
            match grow_one(store, seen, filegroup) {
                Err(full @ StorageError::FilegroupFull { .. }) if reach == Reach::PastLimits => {
                    for file in &files {
                        if let Some(found) = self.choose_in(pool, store, *file, count, reach)? {
                            return Ok(found);
                        }
                    }
                    return Err(full);
                }
                grown => grown?,
            }
        }
    }

    fn choose_in<'a>(
        &self,
        pool: &'a Pool,
        store: &Store,
        file: u16,
        count: usize,
        reach: Reach,
    ) -> Result<Option<Allocation<'a>>> {
        let size = match reach {
            Reach::WithinLimits => store.files.size_pages_within_limits(file),
            Reach::PastLimits => store.files.size_pages(file),
        } as u32;
        let hint = self.hints.lock().get(&file).copied().unwrap_or(0);
        let intervals = size.div_ceil(INTERVAL_PAGES);
        for step in 0..intervals {
            let interval = (hint / INTERVAL_PAGES + step) % intervals;
            let from = if step == 0 { hint % INTERVAL_PAGES } else { 0 };
            if let Some(found) = self.choose_from(pool, store, file, interval, from, size, count)? {
                return Ok(Some(found));
            }
        }
        // Pages freed before the hint, or another interval that had too few in one piece.
        self.hints.lock().insert(file, 0);
        if hint == 0 {
            Ok(None)
        } else {
            self.choose_in(pool, store, file, count, reach)
        }
    }

    fn choose_from<'a>(
        &self,
        pool: &'a Pool,
        store: &Store,
        file: u16,
        interval: u32,
        from: u32,
        size: u32,
        count: usize,
    ) -> Result<Option<Allocation<'a>>> {
        let first = interval * INTERVAL_PAGES;
        if first + 1 >= size {
            return Ok(None);
        }
        let limit = (size - first).min(INTERVAL_PAGES);
        let mut bitmap = pool.write(store, PageId::new(file, first + 1))?;
        if store.files.is_closed(file) {
            return Ok(None);
        }
        let unformatted = bitmap.is_zero();
        if unformatted {
            reached!("alloc.new_map");
            // In memory only until the caller logs it.
            *bitmap = new_bitmap(PageId::new(file, first + 1), 2);
        }
        let bits = free_bits(&bitmap, from, limit, count);
        if bits.len() < count {
            if unformatted {
                bitmap.bytes_mut().fill(0);
            }
            return Ok(None);
        }
        // Judged by its LSN, so that a caller that failed before it logged leaves the next one to log the image.
        let fresh = bitmap.lsn().is_none();
        let last = bits.last().copied().unwrap_or(0);
        self.hints.lock().insert(file, first + u32::from(last) + 1);
        let pages = bits
            .iter()
            .map(|b| PageId::new(file, first + u32::from(*b)))
            .collect();
        Ok(Some(Allocation {
            bitmap,
            pages,
            bits,
            fresh,
        }))
    }

    /// A page was freed: look there first next time. The caller still latches its allocation page.
    pub fn freed(&self, page: PageId) {
        let mut hints = self.hints.lock();
        let hint = hints.entry(page.file).or_insert(page.page);
        *hint = (*hint).min(page.page);
        drop(hints);
        self.watches.lock().retain(|watch| {
            let watch = watch.upgrade();
            watch
                .as_ref()
                .map(|pages| pages.lock().insert(page))
                .is_some()
        });
    }

    /// A set into which every page comes that is freed from now on, before anybody can take it again; for as long as the caller
    /// keeps the set.
    pub fn watch_freed(&self) -> Arc<Mutex<PageSet>> {
        let pages = Arc::default();
        let mut watches = self.watches.lock();
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(Arc::downgrade(&pages));
        pages
    }
}

/// Sizes of files in pages, with their numbers.
fn sizes(store: &Store, files: &[u16]) -> Vec<(u64, u16)> {
    let sized = |file: &u16| (store.files.size_pages(*file), *file);
    files.iter().map(sized).collect()
}

/// Grows the smallest of the files that can, unless one is larger than it was seen. The error is that of the smallest when none can.
fn grow_one(store: &Store, mut seen: Vec<(u64, u16)>, filegroup: u16) -> Result<()> {
    seen.sort_unstable();
    let mut refused = None;
    for (size, file) in seen {
        match store.grow(file, size) {
            Err(full @ StorageError::FilegroupFull { .. }) => {
                refused.get_or_insert(full);
            }
            other => return other,
        }
    }
    Err(refused.unwrap_or_else(|| StorageError::no_file(filegroup)))
}

fn free_bits(page: &Page, from: u32, limit: u32, count: usize) -> Vec<u16> {
    let mut bits = Vec::with_capacity(count);
    let mut bit = from;
    while bit < limit && bits.len() < count {
        // Skip 64 taken pages at a time.
        if bit.is_multiple_of(64) && limit - bit >= 64 {
            let word = get_u64(page.bytes(), HEADER_BYTES + bit as usize / 8);
            if word == u64::MAX {
                bit += 64;
                continue;
            }
        }
        if !get_bit(page, bit as u16) {
            bits.push(bit as u16);
        }
        bit += 1;
    }
    bits
}
