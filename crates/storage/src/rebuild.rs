//! Files of a database written from a copy: the way back from [`crate::DataCopy`].
//!
//! Theory: restore creates the data files, writes page images in any order and from several threads, lays the copied
//! log out in a new log file, and writes the boot page last. What is then on disk is what a crash would have left at
//! the end of the copy; opening the database recovers it.
//!
//! Invariants
//! 1. Every page is checked (checksum, identity) before it is written, every log block too.
//! 2. Without [`Rebuild::finish`] the files have no boot page, so they can never be opened by mistake.
//!
//! Read next: `copy`, `log::rebuild`; `kept`, where files are there already.

mod kept;

use crate::api::{FileSpec, RecoveryModel};
use crate::copy::{LogChunk, PageRun, is_whole};
use crate::datafile::{
    BOOT_PAGES, Boot, DATA_FILE_PAGES_MIN, decode_boot, encode_boot, encode_epochs, first_pages,
};
use crate::epoch::Epochs;
use crate::error::{Result, StorageError};
use crate::log::rebuild::{LogRebuild, LogSection, io_error};
use crate::page::{HEADER_BYTES, PAGE_BYTES, Page, PageType};
use daruma_base::{DiskFile, Env, Lsn, OpenMode, PageId};
use kept::Known;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of a boot page that are kept in a copy.
pub const BOOT_BYTES: usize = 256;

/// From here on a run is written past the system's cache, which would only copy it; smaller ones are better gathered there.
const DIRECT_RUN_BYTES: usize = 256 << 10;

struct File {
    spec: FileSpec,
    file: Arc<dyn DiskFile>,
    /// Of one that was taken over.
    known: Option<Known>,
}

/// Pages that a data file has at least.
fn least_pages(spec: &FileSpec) -> u64 {
    spec.size_pages.max(match spec.id {
        1 => DATA_FILE_PAGES_MIN,
        _ => 16,
    })
}

/// Files being written.
pub struct Rebuild {
    env: Env,
    guid: u64,
    files: Vec<File>,
    /// Data files that were not there before.
    created: Vec<PathBuf>,
    log: Option<LogRebuild>,
}

impl Rebuild {
    /// Files to be written for a database with this identity; nothing is created yet.
    pub fn new(env: &Env, guid: u64) -> Rebuild {
        Rebuild {
            env: env.clone(),
            guid,
            files: Vec::new(),
            created: Vec::new(),
            log: None,
        }
    }

    /// Creates a data file; it must not exist.
    pub fn create_file(&mut self, spec: &FileSpec) -> Result<()> {
        let disk = &self.env.disk;
        let file = disk
            .open(&spec.path, OpenMode::CreateNew)
            .map_err(|e| io_error("create", spec, e))?;
        self.created.push(spec.path.clone());
        file.allocate(least_pages(spec) * PAGE_BYTES as u64)
            .map_err(|e| io_error("allocate", spec, e))?;
        for (at, page) in first_pages(spec, self.guid).iter().enumerate() {
            file.write_at(page.bytes(), (at * PAGE_BYTES) as u64)
                .map_err(|e| io_error("write", spec, e))?;
        }
        self.files.push(File {
            spec: spec.clone(),
            file,
            known: None,
        });
        Ok(())
    }

    /// Removes the data files that were created here, after a failure: they would stand in the way of the next try. What cannot be
    /// removed is left.
    pub fn remove_created(&mut self) {
        self.files.clear();
        for path in self.created.drain(..) {
            let _ = self.env.disk.remove(&path);
        }
    }

    /// Opens a data file of an earlier restore to write more pages into it, growing it to the size asked for.
    pub fn open_file(&mut self, spec: &FileSpec) -> Result<()> {
        let file = self
            .env
            .disk
            .open(&spec.path, OpenMode::ReadWrite)
            .map_err(|e| io_error("open", spec, e))?;
        file.allocate(spec.size_pages * PAGE_BYTES as u64)
            .map_err(|e| io_error("allocate", spec, e))?;
        self.files.push(File {
            spec: spec.clone(),
            file,
            known: None,
        });
        Ok(())
    }

    /// Creates the log file with room for these sections.
    pub fn create_log(&mut self, spec: &FileSpec, sections: &[LogSection]) -> Result<()> {
        self.log = Some(LogRebuild::create(&self.env, spec, self.guid, sections)?);
        Ok(())
    }

    /// Adds sections to the log file of an earlier restore, whose log ends at `from`.
    pub fn append_log(
        &mut self,
        spec: &FileSpec,
        from: Lsn,
        sections: &[LogSection],
    ) -> Result<()> {
        let log = LogRebuild::append(&self.env, spec, self.guid, from, sections)?;
        self.log = Some(log);
        Ok(())
    }

    /// Makes the log of a restored database end at `end`.
    pub fn end_log(&self, spec: &FileSpec, end: Lsn) -> Result<()> {
        LogRebuild::end_at(&self.env, spec, self.guid, end)
    }

    fn file(&self, id: u16) -> Result<&File> {
        let no_file = || StorageError::BadFile {
            path: PathBuf::new(),
            what: format!("the copy names file {id}, which it does not describe"),
        };
        self.files
            .iter()
            .find(|f| f.spec.id == id)
            .ok_or_else(no_file)
    }

    /// Writes a run of pages.
    pub fn write_pages(&self, file: u16, run: PageRun, bytes: &[u8]) -> Result<()> {
        let file = self.file(file)?;
        let refused = |what: String| StorageError::DamagedPage {
            page: PageId::new(file.spec.id, run.first),
            path: file.spec.path.clone(),
            what,
        };
        if bytes.len() != run.count as usize * PAGE_BYTES {
            return Err(refused("a run of pages of the wrong length".into()));
        }
        let pages = (run.first..=u32::MAX).zip(bytes.chunks_exact(PAGE_BYTES));
        for (page, content) in pages {
            if !is_whole(PageId::new(file.spec.id, page), content) {
                return Err(refused(format!("page {page} of a copy is damaged")));
            }
        }
        let at = u64::from(run.first) * PAGE_BYTES as u64;
        let written = match bytes.len() >= DIRECT_RUN_BYTES {
            true => file.file.write_direct_at(bytes, at),
            false => file.file.write_at(bytes, at),
        };
        file.known.iter().for_each(|known| known.add(run));
        written.map_err(|e| io_error("write pages of", &file.spec, e))
    }

    /// Writes a page that is known to be damaged as it is: whoever reads it is told.
    pub fn write_damaged(&self, page: PageId, bytes: &[u8]) -> Result<()> {
        let file = self.file(page.file)?;
        let at = u64::from(page.page) * PAGE_BYTES as u64;
        file.file
            .write_at(bytes, at)
            .map_err(|e| io_error("write pages of", &file.spec, e))
    }

    /// Writes blocks of log where they were in the original; an error without a log file.
    pub fn write_log(&self, chunk: &LogChunk) -> Result<()> {
        match &self.log {
            Some(log) => log.write_blocks(chunk),
            None => Err(StorageError::BadFile {
                path: PathBuf::new(),
                what: "log blocks without a log file".into(),
            }),
        }
    }

    /// Makes pages and log durable.
    pub fn finish(&self) -> Result<()> {
        self.clear_rest()?;
        for file in &self.files {
            file.file
                .sync_data()
                .map_err(|e| io_error("sync", &file.spec, e))?;
        }
        self.log.as_ref().map_or(Ok(()), LogRebuild::finish)?;
        let dirs = self.files.iter().filter_map(|f| f.spec.path.parent());
        for dir in dirs {
            let sync = self.env.disk.sync_dir(dir);
            sync.map_err(|source| StorageError::Io {
                action: "sync directory",
                path: dir.to_path_buf(),
                source,
            })?;
        }
        Ok(())
    }

    /// Writes the boot page of a copy whose log ends at `end` and has these epochs: recovery must find all of it. `from_backups`: under FULL and
    /// BULK_LOGGED the next log backup begins there. The copy of a database that goes on elsewhere lacks log that was backed up nowhere: its log says
    /// when the next backup there has been taken.
    pub fn write_boot(
        &self,
        image: &[u8],
        end: Lsn,
        epochs: &Epochs,
        from_backups: bool,
    ) -> Result<()> {
        let file = self.file(1)?;
        let mut page = Page::zeroed();
        let kept = page
            .bytes_mut()
            .get_mut(HEADER_BYTES..HEADER_BYTES + image.len());
        let Some(kept) = kept.filter(|k| k.len() == BOOT_BYTES) else {
            return Err(StorageError::BadFile {
                path: file.spec.path.clone(),
                what: "the copy of the boot page has the wrong length".into(),
            });
        };
        kept.copy_from_slice(image);
        let boot = decode_boot(&page);
        let log_backup = match boot.settings.recovery_model {
            RecoveryModel::Full | RecoveryModel::BulkLogged if from_backups => end,
            _ => Lsn::NONE,
        };
        for (number, sequence) in BOOT_PAGES.into_iter().zip(2..) {
            let boot = Boot {
                sequence,
                log_backup,
                hard: end,
                clean: false,
                is_copy: false,
                // A copy belongs to whoever opens it first.
                registered: Default::default(),
                ..boot
            };
            let mut page = Page::zeroed();
            page.format(PageId::new(1, number), PageType::Boot, 0, PageId::NONE);
            encode_boot(&boot, &mut page);
            encode_epochs(epochs, &mut page);
            page.seal();
            let at = u64::from(number) * PAGE_BYTES as u64;
            file.file
                .write_at(page.bytes(), at)
                .map_err(|e| io_error("write boot page of", &file.spec, e))?;
        }
        file.file
            .sync_data()
            .map_err(|e| io_error("sync", &file.spec, e))
    }
}
