//! Is a page free? Asked of an open database, or of the files of a closed one.
//!
//! Theory: the allocation page that covers a page says so. Of a closed database it is right on disk only after a clean stop; else
//! the log may have more to say, and no page is called free.
//!
//! Invariant: an allocation page that cannot be read, or is none, makes no page free, nor lost: what is free need not be restored,
//! and what is lost ends a restore.
//!
//! Tests: `crates/tsql/tests/restore_steps.rs`. Read next: `alloc`, `roll`.

use crate::alloc;
use crate::api::{FileSpec, Settings};
use crate::database::Database;
use crate::database::open::split_specs;
use crate::datafile::FileSet;
use crate::engine::Engine;
use crate::error::Result;
use crate::page::{Page, PageType};
use daruma_base::PageId;

/// The data files of a database that is not open.
pub struct ClosedFiles {
    files: FileSet,
}

impl Engine {
    /// The data files of a closed database, to be looked at. Its caller sees to it that nobody opens the database meanwhile.
    ///
    /// # Errors
    /// When a file cannot be read, or is none of a database.
    pub fn closed_files(&self, files: Vec<FileSpec>) -> Result<ClosedFiles> {
        let (_, data) = split_specs(files)?;
        let files = FileSet::open(&data, self.env())?;
        Ok(ClosedFiles { files })
    }
}

impl ClosedFiles {
    /// Identity of the files, kept by backups and restores.
    pub fn guid(&self) -> u64 {
        self.files.guid()
    }

    /// The settings as last written.
    pub fn settings(&self) -> Settings {
        self.files.boot().settings
    }

    /// Is it certain that the page is in no use?
    pub fn is_free(&self, page: PageId) -> bool {
        let read = |id| {
            let mut map = Page::zeroed();
            self.files.read(id, &mut map).map(|()| map)
        };
        self.files.boot().clean
            && is_free(page, self.files.size_pages(page.file), |id, bit| {
                read(id).is_ok_and(|map| says_free(&map, bit))
            })
    }
}

impl Database {
    /// Is it certain that the page is in no use now?
    pub fn is_free(&self, page: PageId) -> bool {
        let size = self.store().files.size_pages(page.file);
        is_free(page, size, |id, bit| {
            let map = self.pool().read(self.store(), id);
            map.is_ok_and(|map| says_free(&map, bit))
        })
    }

    /// Is it certain that the page is in use now, and that its content is lost?
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn is_lost(&self, page: PageId) -> Result<bool> {
        let (map, bit) = alloc::bit_of(page);
        let map = self.pool().read(self.store(), map);
        let is_allocation = |map: &Page| map.page_type() == Some(PageType::Allocation);
        let is_used = map.is_ok_and(|map| is_allocation(&map) && alloc::get_bit(&map, bit));
        Ok(is_used && self.pool().is_damaged(self.store(), page)?)
    }
}

fn is_free(page: PageId, size_pages: u64, says_free: impl FnOnce(PageId, u16) -> bool) -> bool {
    let (map, bit) = alloc::bit_of(page);
    u64::from(page.page) >= size_pages || says_free(map, bit)
}

fn says_free(map: &Page, bit: u16) -> bool {
    map.page_type() == Some(PageType::Allocation) && !alloc::get_bit(map, bit)
}
