//! A copy over files that are there: pages that are right stay, and need not be sent.
//!
//! Theory: of a file that a copy left unfinished, or of a database whose log parted from the copy's, most pages are what they are to be.
//! Whoever receives the copy tells the sums of its pages ([`Rebuild::read_kept`]), whoever sends it says which of them stay
//! ([`Rebuild::keep_pages`]). In the end the file is what a new one would be, but for the free space within pages: each page was written,
//! or stays, or is zeros. The last matters. A page outside of the copy may have what a log said that the copy does not have; it could
//! look newer than the records which are about to give it content, and redo would pass over them.
//!
//! Invariants
//! 1. Before anything else is written to a file that is taken over, its boot pages are gone, durably: nobody can open it as a database
//!    until the copy is whole.
//! 2. A page stays only if its checksum is right.
//!
//! Tests: `crates/storage/tests/copies.rs`. Read next: `rebuild`.

use super::{File, PAGE_BYTES, Rebuild, least_pages};
use crate::api::FileSpec;
use crate::copy::{PageRun, blank_free_space, is_whole, is_zero};
use crate::datafile::{BOOT_PAGES, first_pages};
use crate::error::{Result, StorageError};
use crate::log::rebuild::io_error;
use crate::sync::Mutex;
use daruma_base::{OpenMode, PageId, reached};
use std::io::ErrorKind;
use std::path::PathBuf;

/// Header and first allocation page, which are written when a file is taken over.
const MADE_PAGES: u32 = 2;
/// Pages that are looked at together in the end.
const CLEARED_PAGES: u32 = 32;

/// Of a file that was taken over: which pages are what they are to be, a bit for each.
pub(super) struct Known(Mutex<Vec<u64>>);

impl Known {
    fn none_of(pages: u64) -> Known {
        let words = usize::try_from(pages.div_ceil(64)).unwrap_or(usize::MAX);
        let known = Known(Mutex::new(vec![0; words]));
        known.add(PageRun {
            first: 0,
            count: MADE_PAGES,
        });
        known
    }

    /// These are.
    pub(super) fn add(&self, run: PageRun) {
        let mut bits = self.0.lock();
        for page in run.first..run.first.saturating_add(run.count) {
            if let Some(word) = bits.get_mut(page as usize / 64) {
                *word |= 1 << (page % 64);
            }
        }
    }

    /// The next pages from `page` on, and before `end`, that are not; some of them.
    fn unknown_from(&self, page: u32, end: u32) -> Option<PageRun> {
        let bits = self.0.lock();
        let has = |page: &u32| {
            let word = bits.get(*page as usize / 64).copied().unwrap_or(0);
            word & (1 << (page % 64)) != 0
        };
        let first = (page..end).find(|page| !has(page))?;
        let most = end.min(first.saturating_add(CLEARED_PAGES));
        let after = (first..most).find(has).unwrap_or(most);
        Some(PageRun {
            first,
            count: after - first,
        })
    }
}

impl Rebuild {
    /// Takes over a data file that is there, to write the copy into it; `false`: there is none. Pages that are neither written nor kept
    /// are zeros in the end.
    ///
    /// # Errors
    /// When the file cannot be read, written, or made as large as it is to be.
    pub fn reuse_file(&mut self, spec: &FileSpec) -> Result<bool> {
        let file = match self.env.disk.open(&spec.path, OpenMode::ReadWrite) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(|e| io_error("open", spec, e))?,
        };
        let written = |e| io_error("write", spec, e);
        let bytes = least_pages(spec) * PAGE_BYTES as u64;
        let at = |page: u32| u64::from(page) * PAGE_BYTES as u64;
        file.allocate(bytes)
            .map_err(|e| io_error("allocate", spec, e))?;
        if spec.id == 1 {
            for page in BOOT_PAGES {
                file.write_at(&[0; PAGE_BYTES], at(page)).map_err(written)?;
            }
            file.sync_data().map_err(|e| io_error("sync", spec, e))?;
        }
        file.set_len(bytes).map_err(written)?;
        for (page, content) in (0..).zip(first_pages(spec, self.guid)) {
            file.write_at(content.bytes(), at(page)).map_err(written)?;
        }
        self.files.push(File {
            spec: spec.clone(),
            file,
            known: Some(Known::none_of(least_pages(spec))),
        });
        Ok(true)
    }

    /// Files that were taken over, and their pages.
    pub fn reused(&self) -> impl Iterator<Item = (u16, u64)> {
        let reused = self.files.iter().filter(|f| f.known.is_some());
        reused.map(|f| (f.spec.id, least_pages(&f.spec)))
    }

    /// Reads a page of a file that was taken over as a copy has it, with its free space blank. `false`: it is none that could stay.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_kept(&self, page: PageId, out: &mut [u8; PAGE_BYTES]) -> Result<bool> {
        let file = self.file(page.file)?;
        file.read(page.page, out)?;
        let stays = page.page >= MADE_PAGES && is_whole(page, out);
        blank_free_space(out);
        Ok(stays)
    }

    /// These pages of a file that was taken over are what the copy has.
    ///
    /// # Errors
    /// When the file was not, or ends before.
    pub fn keep_pages(&self, file: u16, run: PageRun) -> Result<()> {
        let file = self.file(file)?;
        let end = u64::from(run.first) + u64::from(run.count);
        match &file.known {
            Some(known) if end <= least_pages(&file.spec) => {
                known.add(run);
                Ok(())
            }
            _ => Err(StorageError::BadFile {
                path: PathBuf::from(&file.spec.path),
                what: "pages are to stay that are not there".into(),
            }),
        }
    }

    /// Whatever nobody has spoken of is what a new file has there.
    pub(super) fn clear_rest(&self) -> Result<()> {
        for file in &self.files {
            if let Some(known) = &file.known {
                file.clear_all_but(known)?;
            }
        }
        Ok(())
    }
}

impl File {
    fn read(&self, page: u32, out: &mut [u8; PAGE_BYTES]) -> Result<()> {
        let at = u64::from(page) * PAGE_BYTES as u64;
        self.file
            .read_at(out, at)
            .map_err(|e| io_error("read pages of", &self.spec, e))
    }

    fn clear_all_but(&self, known: &Known) -> Result<()> {
        let end = u32::try_from(least_pages(&self.spec)).unwrap_or(u32::MAX);
        let zeros = vec![0; CLEARED_PAGES as usize * PAGE_BYTES];
        let mut content = zeros.clone();
        let mut next = MADE_PAGES;
        while let Some(run) = known.unknown_from(next, end) {
            next = run.first + run.count;
            let bytes = run.count as usize * PAGE_BYTES;
            let (content, zeros) = (&mut content[..bytes], &zeros[..bytes]);
            let at = u64::from(run.first) * PAGE_BYTES as u64;
            // What cannot be read is none of what a new file has.
            if self.file.read_at(content, at).is_ok() && is_zero(content) {
                continue;
            }
            reached!("rebuild.page.cleared");
            self.file
                .write_at(zeros, at)
                .map_err(|e| io_error("write pages of", &self.spec, e))?;
        }
        Ok(())
    }
}
