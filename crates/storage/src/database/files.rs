//! The files of a database: how large they are and how they may grow.

use super::Database;
use crate::api::*;
use crate::error::Result;
use daruma_base::PageId;

impl Database {
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

    /// Adds a data file (and its filegroup, when new).
    pub fn add_file(&self, spec: FileSpec) -> Result<()> {
        self.check_writable()?;
        self.store.files.create_file(&spec)
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
