//! Copying a database while it works: a fuzzy copy of its allocated pages, and the log that makes the copy whole.
//!
//! Theory: a copy is what a crash would leave, drawn out over time. Redo may begin at any block boundary S up to which
//! every change has reached the data files; each page copied later holds at least those changes, and its page LSN
//! says which records it needs no more. So pages are read in any order, straight from the files, while writers work;
//! the log from S to a point after the last page was read then brings all of them to that point. What the pool has not
//! written yet the log has. A page that is being written may be read torn: its checksum tells, and it is read again.
//!
//! Which pages: those that are allocated at S, because redo of a page that was free at S begins with an image of it.
//! 1. The log is hardened and S is the next block.
//! 2. The allocation pages are read. A page allocated at S is missing from them only if it was freed since.
//! 3. Those are found in the log between S and now, which is short, as cleared bits.
//! 4. Checkpoints are taken until redo would start at S or later. Reading pages may begin.
//!
//! Invariants
//! 1. The log from [`DataCopy::log_start`] on is held until the copy is dropped.
//! 2. Page bytes handed out have their own checksum and identity right, or are refused.
//! 3. The free space in the middle of a tree page is handed out as zeros: what lies there has no meaning.
//!
//! Tests: `crates/backup`. Read next: `rebuild`, which is the way back.

use crate::alloc::{self, INTERVAL_PAGES};
use crate::api::FileInfo;
use crate::buffer::Store;
use crate::bytes::*;
use crate::database::Database;
use crate::datafile::{Boot, DOUBLE_WRITE_PAGES, encode_boot};
use crate::error::{Result, StorageError};
use crate::log::record::{self, PageAction, Record, u16s};
use crate::log::{LogCursor, LogHold};
use crate::page::{HEADER_BYTES, PAGE_BYTES, Page, PageType};
use crate::planted::{Bug, planted};
use daruma_base::{Lsn, PageId, reached};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Reason in `log_reuse_wait_desc` while a copy holds the log.
const REASON: &str = "ACTIVE_BACKUP_OR_RESTORE";
/// A page that stays latched is left out by a flush; so often, a few milliseconds apart, it is tried again.
const CHECKPOINT_TRIES: usize = 2_000;
const CHECKPOINT_WAIT: Duration = Duration::from_millis(2);
/// How often a page with a wrong checksum is read again: it may be under way to disk.
const TORN_TRIES: usize = 100;
/// How often a page is read as zeros before that is believed.
const ZERO_READINGS: usize = 8;
const TORN_WAIT: Duration = Duration::from_millis(1);
/// Stands for a page that could not be read: neither empty nor one with a right checksum.
const UNREADABLE: u8 = 0xDB;
/// First page of the doublewrite area, its header.
const DOUBLE_WRITE_FIRST: u32 = 31;

/// Adjacent pages to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    pub first: u32,
    pub count: u32,
}

/// The pages of one data file to copy.
#[derive(Clone, Debug)]
pub struct FileExtents {
    pub info: FileInfo,
    pub runs: Vec<PageRun>,
    pub pages: u64,
}

/// A copy under way.
pub struct DataCopy {
    db: Arc<Database>,
    hold: LogHold,
    redo_start: Lsn,
    boot: Boot,
    files: Vec<FileExtents>,
}

impl Database {
    /// Begins a copy. Writers go on; the log is held from here on.
    pub fn start_copy(self: &Arc<Self>) -> Result<DataCopy> {
        if self.store().log.is_tight() {
            // Nothing comes free any more once all of the log is held.
            self.checkpoint()?;
        }
        let mut hold = self.hold_all_log()?;
        self.flush_log()?;
        let mut redo_start = self.store().log.block_start();
        let mut pages = self.allocated_pages()?;
        self.flush_log()?;
        for page in freed_pages(self.store(), redo_start, self.hardened_lsn())? {
            pages.insert(page.to_u64());
        }
        if !planted(Bug::CopyUnwritten) {
            self.checkpoint_from(redo_start)?;
        }
        let boot = self.store().files.boot();
        if boot.redo_start < redo_start && !planted(Bug::CopyUnwritten) {
            // Some pages wait for versions that have no pages: what the disk has of them is older.
            for page in freed_pages(self.store(), boot.redo_start, redo_start)? {
                pages.insert(page.to_u64());
            }
            redo_start = boot.redo_start;
        }
        hold.advance(redo_start.min(self.log_needed_by_transactions()));
        let files = self.extents(&pages);
        Ok(DataCopy {
            db: self.clone(),
            hold,
            redo_start,
            boot,
            files,
        })
    }

    /// Identity of the files, kept by backups and restores.
    pub fn guid(&self) -> u64 {
        self.store().files.guid()
    }

    /// Reads the log between two block boundaries below `hardened_lsn`. The caller holds it.
    pub fn read_log(&self, start: Lsn, end: Lsn) -> Result<LogSource> {
        let cursor = match start < end {
            true => Some(self.store().log.cursor(start)?),
            false => None,
        };
        Ok(LogSource { cursor, end })
    }

    fn hold_all_log(&self) -> Result<LogHold> {
        loop {
            let from = self.store().log.min_lsn();
            if let Some(hold) = self.hold_log(from, REASON) {
                return Ok(hold);
            }
            if self.store().log.is_fenced() {
                self.check_writable()?;
            }
        }
    }

    /// Pages whose bit is set, the fixed ones that are made anew left out.
    fn allocated_pages(&self) -> Result<BTreeSet<u64>> {
        let mut pages = BTreeSet::new();
        for info in self.store().files.infos() {
            let (file, size) = (info.spec.id, info.size_pages as u32);
            for first in (0..size).step_by(INTERVAL_PAGES as usize) {
                if first + 1 >= size {
                    continue;
                }
                let map = self
                    .pool()
                    .read(self.store(), PageId::new(file, first + 1))?;
                if map.page_type() != Some(PageType::Allocation) {
                    continue;
                }
                let taken = (0..(size - first).min(INTERVAL_PAGES))
                    .filter(|bit| alloc::get_bit(&map, *bit as u16))
                    .map(|bit| PageId::new(file, first + bit))
                    .filter(|page| !is_made_anew(*page));
                pages.extend(taken.map(PageId::to_u64));
            }
        }
        Ok(pages)
    }

    /// Oldest position that rollback of a transaction now open needs. Those that began in the meantime need nothing older
    /// than the copy's redo; those that have ended since the checkpoint say so in the log that the copy takes along.
    fn log_needed_by_transactions(&self) -> Lsn {
        let mut oldest = Lsn::MAX;
        self.with_log_needed_by_transactions(|needed| oldest = needed.unwrap_or(oldest));
        oldest
    }

    fn checkpoint_from(&self, redo_start: Lsn) -> Result<()> {
        for _ in 0..CHECKPOINT_TRIES {
            self.checkpoint_for_copy()?;
            let is_written = self.store().files.boot().redo_start >= redo_start;
            if is_written || self.lacks_pages_for_versions(redo_start) {
                return Ok(());
            }
            self.env().clock.sleep(CHECKPOINT_WAIT);
        }
        Err(StorageError::NotOnline {
            state: "too busy for a checkpoint",
        })
    }

    /// A checkpoint has left pages that wait for versions.
    fn lacks_pages_for_versions(&self, before: Lsn) -> bool {
        let held = self.pool().held_back(self.store(), before, usize::MAX);
        let aside = &self.store().aside;
        !held.is_empty() || aside.with_min_rec_lsn(|oldest| oldest.is_some_and(|l| l < before.0))
    }

    fn extents(&self, pages: &BTreeSet<u64>) -> Vec<FileExtents> {
        let infos = self.store().files.infos();
        let extents = |info: FileInfo| {
            let file = info.spec.id;
            let range = PageId::new(file, 0).to_u64()..=PageId::new(file, u32::MAX).to_u64();
            let mut runs: Vec<PageRun> = Vec::new();
            for page in pages.range(range).map(|p| PageId::from_u64(*p).page) {
                match runs.last_mut() {
                    Some(run) if run.first + run.count == page => run.count += 1,
                    _ => runs.push(PageRun {
                        first: page,
                        count: 1,
                    }),
                }
            }
            let pages = runs.iter().map(|r| u64::from(r.count)).sum();
            FileExtents { info, runs, pages }
        };
        infos.into_iter().map(extents).collect()
    }
}

/// Header, boot and doublewrite pages belong to the file, not to its content.
pub(crate) fn is_made_anew(page: PageId) -> bool {
    let double_write = DOUBLE_WRITE_FIRST..=DOUBLE_WRITE_FIRST + DOUBLE_WRITE_PAGES as u32;
    page.page == 0
        || (page.file == 1 && (matches!(page.page, 2 | 3) || double_write.contains(&page.page)))
}

/// Pages whose allocation bit a record between `from` and `to` clears.
fn freed_pages(store: &Store, from: Lsn, to: Lsn) -> Result<Vec<PageId>> {
    let mut freed = Vec::new();
    if from >= to {
        return Ok(freed);
    }
    let mut cursor = store.log.cursor(from)?;
    while let Some(block) = cursor.next_before(to)? {
        for (lsn, bytes) in block.records() {
            let unreadable = || StorageError::DamagedLog {
                path: store.files.path(1),
                lsn,
                what: "unreadable record".into(),
            };
            let record = Record::parse(bytes).ok_or_else(unreadable)?;
            for part in record::parts(record::parts_of(&record).unwrap_or_default()) {
                let (map, action) = part.ok_or_else(unreadable)?;
                if let PageAction::Bits {
                    set: false,
                    indexes,
                } = action
                {
                    let first = map.page.saturating_sub(1);
                    freed.extend(
                        u16s(indexes).map(|bit| PageId::new(map.file, first + u32::from(bit))),
                    );
                }
            }
        }
    }
    Ok(freed)
}

impl DataCopy {
    /// The database that is copied.
    pub fn database(&self) -> &Arc<Database> {
        &self.db
    }

    /// The files with the runs of pages that the copy takes.
    pub fn files(&self) -> &[FileExtents] {
        &self.files
    }

    /// Where redo of the copy begins. Pages with a smaller LSN equal those of any earlier copy that began later.
    pub fn redo_start(&self) -> Lsn {
        self.redo_start
    }

    /// Where the log that the copy needs begins: rollback may need more of it than redo.
    pub fn log_start(&self) -> Lsn {
        self.hold.from()
    }

    /// Last checkpoint before the copy.
    pub fn checkpoint_lsn(&self) -> Lsn {
        self.boot.checkpoint
    }

    /// Identity of the database, which a restored copy keeps.
    pub fn guid(&self) -> u64 {
        self.boot.guid
    }

    /// The boot page with which recovery of the copy begins.
    pub fn boot_image(&self) -> Vec<u8> {
        let boot = Boot {
            redo_start: self.redo_start,
            clean: false,
            log_backup: Lsn::NONE,
            ..self.boot
        };
        let mut page = Page::zeroed();
        encode_boot(&boot, &mut page);
        page.bytes()[HEADER_BYTES..HEADER_BYTES + super::rebuild::BOOT_BYTES].to_vec()
    }

    /// Ends the copy but keeps its log.
    pub fn into_hold(self) -> LogHold {
        self.hold
    }

    /// Hardens the log and says where it ends: the state the copy will have.
    pub fn harden(&self) -> Result<Lsn> {
        self.db.flush_log()?;
        Ok(self.db.hardened_lsn())
    }

    /// Reads a run of pages into `out`, which is as long. Pages never written are zero.
    pub fn read(&self, file: u16, run: PageRun, out: &mut [u8]) -> Result<()> {
        assert_eq!(out.len(), run.count as usize * PAGE_BYTES, "room for a run");
        self.read_bytes(PageId::new(file, run.first), out)?;
        for (page, bytes) in (run.first..).zip(out.chunks_exact_mut(PAGE_BYTES)) {
            let id = PageId::new(file, page);
            self.read_until_whole(id, bytes)?;
            blank_free_space(bytes);
        }
        Ok(())
    }

    /// As `read`, but goes on after damaged pages and names them: they are given as they were found, or, if they cannot
    /// be read at all, as something that no one can take for a page.
    pub fn read_damaged(&self, file: u16, run: PageRun, out: &mut [u8]) -> Result<Vec<u32>> {
        assert_eq!(out.len(), run.count as usize * PAGE_BYTES, "room for a run");
        let mut damaged = Vec::new();
        for (page, bytes) in (run.first..).zip(out.chunks_exact_mut(PAGE_BYTES)) {
            let id = PageId::new(file, page);
            let read = self.read_bytes(id, bytes);
            match read.and_then(|()| self.read_until_whole(id, bytes)) {
                Ok(()) => blank_free_space(bytes),
                Err(StorageError::BadPage { .. }) => damaged.push(page),
                Err(StorageError::Io { .. }) => {
                    bytes.fill(UNREADABLE);
                    damaged.push(page);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(damaged)
    }

    fn read_bytes(&self, first: PageId, bytes: &mut [u8]) -> Result<()> {
        let files = &self.db.store().files;
        let read = files
            .handle(first.file)?
            .read_at(bytes, u64::from(first.page) * PAGE_BYTES as u64);
        read.map_err(|source| StorageError::Io {
            action: "read pages of",
            path: files.path(first.file),
            source,
        })
    }

    /// Reads a page that is not whole again, until it is: it may be under way to disk. So is one that seems never to have been
    /// written: a read that lost its way may have found that, and the copy would have no such page.
    fn read_until_whole(&self, id: PageId, bytes: &mut [u8]) -> Result<()> {
        let (mut tries, mut zeros) = (0, 0);
        loop {
            if !is_whole(id, bytes) {
                tries += 1;
                if tries > TORN_TRIES {
                    return Err(self.bad_page(id, bytes));
                }
                self.db.env().clock.sleep(TORN_WAIT);
            } else if is_named(id, bytes) {
                return Ok(());
            } else {
                reached!("copy.page.zero");
                zeros += 1;
                if zeros == ZERO_READINGS {
                    return Ok(());
                }
            }
            self.read_bytes(id, bytes)?;
        }
    }

    fn bad_page(&self, page: PageId, bytes: &[u8]) -> StorageError {
        StorageError::BadPage {
            page,
            path: self.db.store().files.path(page.file),
            expected: crc32c::crc32c(&bytes[4..]),
            found: get_u32(bytes, 0),
        }
    }
}

/// Does a backup need the page: was it ever written and, in a differential, changed since redo of its base began at `since`?
pub fn is_changed(page: &[u8], since: Option<Lsn>) -> bool {
    let lsn = page.get(8..16).and_then(|b| b.try_into().ok());
    let lsn = Lsn(lsn.map_or(0, u64::from_le_bytes));
    match since {
        Some(since) => lsn != Lsn::NONE && lsn >= since,
        None => lsn != Lsn::NONE || !is_zero(page),
    }
}

/// Are these pages, from `first` on, whole?
pub fn check_pages(file: u16, first: u32, bytes: &[u8]) -> bool {
    let mut pages = (first..=u32::MAX).zip(bytes.chunks(PAGE_BYTES));
    pages.all(|(page, bytes)| bytes.len() == PAGE_BYTES && is_whole(PageId::new(file, page), bytes))
}

/// Never written, or with the right checksum and name. An image of something else at a page's place is refused.
pub(crate) fn is_whole(id: PageId, bytes: &[u8]) -> bool {
    if is_named(id, bytes) {
        get_u32(bytes, 0) == crc32c::crc32c(&bytes[4..])
    } else {
        is_zero(bytes)
    }
}

fn is_named(id: PageId, bytes: &[u8]) -> bool {
    get_u16(bytes, 16) == id.file && get_u32(bytes, 20) == id.page
}

/// By the cache line: a search that may end at every byte is a slow one.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let mut lines = bytes.chunks(64);
    lines.all(|line| line.iter().fold(0, |all, b| all | b) == 0)
}

/// Zeroes what lies between the entries and the slots of a tree page: it compresses better.
pub(crate) fn blank_free_space(bytes: &mut [u8]) {
    if bytes[4] != PageType::Tree as u8 {
        return;
    }
    let top = usize::from(get_u16(bytes, 30));
    let slots = PAGE_BYTES.checked_sub(2 * usize::from(get_u16(bytes, 18)));
    let gap = slots.and_then(|end| bytes.get_mut(top..end));
    if top < HEADER_BYTES {
        return;
    }
    if let Some(gap) = gap
        && !is_zero(gap)
    {
        gap.fill(0);
        let sum = crc32c::crc32c(&bytes[4..]);
        put_u32(bytes, 0, sum);
    }
}

/// Whole log blocks, padded as they are on disk.
#[derive(Clone, Debug, Default)]
pub struct LogChunk {
    pub lsn: Lsn,
    /// The incarnation in which the blocks were written.
    pub incarnation: u32,
    pub bytes: Vec<u8>,
}

/// Reads a stretch of the log in chunks.
pub struct LogSource {
    cursor: Option<LogCursor>,
    end: Lsn,
}

impl LogSource {
    /// The next chunk of at most `bytes_max` bytes (or one block), all of one incarnation. `None` at the end.
    pub fn next(&mut self, bytes_max: usize) -> Result<Option<LogChunk>> {
        let Some(cursor) = &mut self.cursor else {
            return Ok(None);
        };
        let mut chunk = LogChunk {
            lsn: cursor.position(),
            ..LogChunk::default()
        };
        while cursor.position() < self.end {
            let Some((incarnation, len)) = cursor.peek()? else {
                return Err(cursor.gap());
            };
            let full = chunk.bytes.len() + len > bytes_max || incarnation != chunk.incarnation;
            if !chunk.bytes.is_empty() && full {
                break;
            }
            chunk.incarnation = incarnation;
            if let Some(block) = cursor.next()? {
                chunk.bytes.extend_from_slice(&block.bytes);
                let padded = (cursor.position().0 - chunk.lsn.0) as usize;
                chunk.bytes.resize(padded, 0);
            }
        }
        Ok((!chunk.bytes.is_empty()).then_some(chunk))
    }
}
