//! The files of a database: how large they are and how they may grow.

use super::Database;
use super::checkpoint::Wanted;
use crate::api::*;
use crate::error::{Result, StorageError};
use crate::lock::Owner;
use crate::log::record::{self, Kind, Ops, Record};
use crate::page::PageType;
use crate::tree::{Onward, WayOut};
use daruma_base::{Lsn, PageId};
use std::collections::BTreeSet;

/// So often a walk over the pages of a file asks whether it is to go on.
const CHECK_PAGES: u32 = 1_024;

/// What a file holds that belongs to somebody.
#[derive(Clone, Debug, Default)]
pub struct FileContent {
    /// Trees with pages here.
    pub trees: BTreeSet<TreeId>,
    /// Of them, those whose root is here: it cannot be moved.
    pub roots: BTreeSet<TreeId>,
    /// Pages of blobs.
    pub blob_pages: u64,
}

impl Database {
    /// All files with their sizes and pages in use; the log is the last. It reads the allocation pages.
    pub fn files(&self) -> Vec<FileInfo> {
        let mut infos = self.store.files.infos();
        for info in &mut infos {
            info.used_pages = self.used_pages(info.spec.id).unwrap_or(0);
        }
        let log = &self.store.log;
        infos.push(FileInfo {
            spec: self.log_spec.lock().clone(),
            size_pages: log.size_bytes() / 8192,
            used_pages: log.stats().used_bytes.div_ceil(8192),
            io: log.io_stats(),
        });
        infos
    }

    fn used_pages(&self, file: u16) -> Result<u64> {
        let size = self.store.files.size_pages(file) as u32;
        let mut used = 0;
        for first in (0..size).step_by(crate::alloc::INTERVAL_PAGES as usize) {
            if first + 1 < size {
                let map = self
                    .pool()
                    .read(&self.store, PageId::new(file, first + 1))?;
                used +=
                    crate::alloc::count_set(&map, (size - first).min(crate::alloc::INTERVAL_PAGES));
            }
        }
        Ok(used)
    }

    /// Adds a data file (and its filegroup, when new). Its id is none that [`Database::is_file_gone`] knows.
    pub fn add_file(&self, spec: FileSpec) -> Result<()> {
        assert!(
            !self.is_file_gone(spec.id),
            "file {} was another one a while ago",
            spec.id
        );
        self.check_writable()?;
        self.store.files.create_file(&spec)
    }

    /// Was a file of this id removed since the database was opened? Pages of it may still be in memory.
    pub fn is_file_gone(&self, id: u16) -> bool {
        self.store.files.is_gone(id)
    }

    /// From now on no page is allocated in a data file (`is_closed`), or again. What it was before.
    pub fn close_file(&self, id: u16, is_closed: bool) -> Result<bool> {
        self.check_writable()?;
        self.store.files.set_closed(id, is_closed)
    }

    /// Has the filegroup of a file another one in which pages can be allocated?
    pub fn has_room_beside(&self, id: u16) -> bool {
        let group = self.store.files.filegroup_of(id);
        self.store
            .files
            .of_filegroup(group)
            .iter()
            .any(|f| *f != id)
    }

    /// Pages of a file that hold something of the database's, beside those that every file has.
    pub fn content_pages(&self, id: u16) -> Result<u64> {
        let size = self.store.files.size_pages(id) as u32;
        let mut content = 0;
        for first in (0..size).step_by(crate::alloc::INTERVAL_PAGES as usize) {
            if first + 1 >= size {
                break;
            }
            // A writer that chose a page before the file was closed has logged it once this latch is held.
            let map = self.pool().write(&self.store, PageId::new(id, first + 1))?;
            let fixed = match (first, id) {
                (0, 1) => crate::datafile::FIRST_FREE_PRIMARY,
                (0, _) => crate::datafile::FIRST_FREE_OTHER,
                _ => 2,
            };
            let covered = (size - first).min(crate::alloc::INTERVAL_PAGES);
            let used = crate::alloc::count_set(&map, covered);
            content += used.saturating_sub(u64::from(fixed));
        }
        Ok(content)
    }

    /// What a closed file holds.
    pub fn file_content(
        &self,
        id: u16,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<FileContent> {
        let mut content = FileContent::default();
        let size = self.store.files.size_pages(id) as u32;
        for page in 0..size {
            if page.is_multiple_of(CHECK_PAGES) {
                check()?;
            }
            if !self.is_taken(PageId::new(id, page))? {
                continue;
            }
            let page = self.pool().read(&self.store, PageId::new(id, page))?;
            match page.page_type() {
                Some(PageType::Tree) if page.tree() == page.id() => {
                    content.roots.insert(TreeId(page.tree()));
                    content.trees.insert(TreeId(page.tree()));
                }
                Some(PageType::Tree) => drop(content.trees.insert(TreeId(page.tree()))),
                Some(PageType::Blob) => content.blob_pages += 1,
                _ => {}
            }
        }
        Ok(content)
    }

    fn is_taken(&self, page: PageId) -> Result<bool> {
        let (map, bit) = crate::alloc::bit_of(page);
        let map = self.pool().read(&self.store, map)?;
        Ok(crate::alloc::get_bit(&map, bit))
    }

    /// Moves the pages of a tree, all but its root, out of a closed file into others of its filegroup. `check` may end it
    /// between two pages. Its owner waits for replicas as one who writes. How many have moved.
    pub fn move_tree_out(
        &self,
        tree: TreeId,
        file: u16,
        owner: &Owner,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<u64> {
        self.check_writable()?;
        let mut way = WayOut::default();
        let mut moved = 0;
        loop {
            check()?;
            // Trees are freed meanwhile.
            self.make_way(owner)?;
            let _no_reclaim = self.no_reclaim();
            if !self.is_tree(tree)? {
                return Ok(moved);
            }
            match self.tree(tree)?.move_one_out(self, file, &mut way)? {
                Onward::Moved => moved += 1,
                Onward::Looked => {}
                Onward::Over => return Ok(moved),
            }
        }
    }

    /// Can a closed file without content go: does nothing speak of it that a restart or the next log backup would read? False
    /// when a log backup has to come first, or a page is in use by somebody at this moment. `FilegroupFull` when redo has to begin at what
    /// speaks of it, because versions find no page.
    pub fn is_file_settled(&self, id: u16) -> Result<bool> {
        let mut waiting = self.checkpoint_all(Wanted::Room)?;
        let boot = self.store.files.boot();
        let from = match boot.log_backup {
            Lsn::NONE => boot.redo_start,
            chain => chain.min(boot.redo_start),
        };
        let Some(hold) = self.store.log.hold(from, "OTHER_TRANSIENT") else {
            return Ok(false);
        };
        let end = self.hardened_lsn();
        let mut cursor = self.store.log.cursor(hold.from())?;
        while let Some(block) = cursor.next_before(end)? {
            for (lsn, bytes) in block.records() {
                match Record::parse(bytes).and_then(|r| touches(&r, id)) {
                    Some(false) => {}
                    Some(true) => return waiting.take().map_or(Ok(false), Err),
                    None => {
                        return Err(StorageError::DamagedLog {
                            path: self.log_path(),
                            lsn,
                            what: "unreadable record".into(),
                        });
                    }
                }
            }
        }
        Ok(true)
    }

    /// The file, closed and settled, leaves the database. It is not deleted.
    pub fn forget_file(&self, id: u16) {
        assert!(id != 1, "the primary file stays");
        self.store.files.forget_file(id);
        self.pool().discard_file(&self.store, id);
    }

    /// Makes a data or log file at least so large and sets how it may grow from here. Files never shrink here.
    pub fn modify_file(
        &self,
        id: u16,
        size_pages: u64,
        growth: crate::Growth,
        max_pages: Option<u64>,
    ) -> Result<()> {
        self.check_writable()?;
        if id != self.log_spec.lock().id {
            return self.store.modify(id, size_pages, growth, max_pages);
        }
        // Takes as long as the new space takes to write.
        self.store.log.modify(size_pages, growth, max_pages)?;
        let mut log_spec = self.log_spec.lock();
        (log_spec.growth, log_spec.max_pages) = (growth, max_pages);
        Ok(())
    }
}

/// Does a record change a page of the file? `None` when it cannot be read.
fn touches(record: &Record<'_>, file: u16) -> Option<bool> {
    let body = match record.kind {
        Kind::Ops | Kind::Revert => record.body,
        Kind::Clr => record::parse_clr(record.body)?.1,
        _ => {
            let parts = record::parts_of(record).unwrap_or_default();
            for part in record::parts(parts) {
                if part?.0.file == file {
                    return Some(true);
                }
            }
            return Some(false);
        }
    };
    Some(Ops::parse(body)?.page.file == file)
}
