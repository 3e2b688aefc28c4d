//! Backups of a database at work: pages are copied between the steps of the sessions, and what was taken is restored on a disk
//! of its own, where it must recover to the state at the end of the backup.
//!
//! | kind | pages | log |
//! |---|---|---|
//! | full | all that were allocated when it began | from where recovery needs it to the end of the backup |
//! | differential | those changed since the redo start of its base | as above |
//! | log | | from the end of the backup before |
//!
//! `daruma-backup` does the same with threads and devices, which a run that must repeat itself cannot have; which pages belong
//! to a differential both ask of storage (`is_changed`).

use crate::model::State;
use crate::world::{DATA, LOG};
use daruma_base::{Disk, Lsn};
use daruma_sim::{SimDisk, SimRandom};
use daruma_storage::*;
use std::path::Path;
use std::sync::Arc;

const PAGE_BYTES: usize = 8192;
/// Pages read in one go at most.
const RUN_PAGES_MAX: u32 = 32;
const LOG_CHUNK_BYTES: usize = 64 << 10;
/// Where a differential's log lies until it takes the place of its base's.
const NEXT_LOG: &str = "/t_log2.ldf";
/// A restore draws nothing that matters.
const ENV_SEED: u64 = 1;

/// A backup that is being taken.
pub struct Copying {
    copy: DataCopy,
    todo: Vec<(u16, PageRun)>,
    base: Option<Arc<Backup>>,
    pages: Vec<CopiedPage>,
}

struct CopiedPage {
    file: u16,
    page: u32,
    bytes: Vec<u8>,
}

/// A full or differential backup, and what it must restore.
pub struct Backup {
    /// The full backup that a differential belongs to.
    pub base: Option<Arc<Backup>>,
    guid: u64,
    boot: Vec<u8>,
    files: Vec<FileSpec>,
    pages: Vec<CopiedPage>,
    log: Vec<LogChunk>,
    redo_start: Lsn,
    end: Lsn,
}

/// Log behind a backup.
pub struct LogBackup {
    from: Lsn,
    end: Lsn,
    chunks: Vec<LogChunk>,
}

/// Backups that restore one state together.
pub struct Chain {
    pub backup: Arc<Backup>,
    pub logs: Vec<LogBackup>,
    pub state: State,
    /// Keeps the log for the next log backup.
    hold: LogHold,
}

impl Copying {
    /// Begins a backup; a differential if a base is given.
    pub fn begin(db: &Arc<Database>, base: Option<Arc<Backup>>) -> Result<Copying> {
        let copy = db.start_copy()?;
        let mut todo = Vec::new();
        for file in copy.files() {
            for run in &file.runs {
                for first in (run.first..run.first + run.count).step_by(RUN_PAGES_MAX as usize) {
                    let count = RUN_PAGES_MAX.min(run.first + run.count - first);
                    todo.push((file.info.spec.id, PageRun { first, count }));
                }
            }
        }
        Ok(Copying {
            copy,
            todo,
            base,
            pages: Vec::new(),
        })
    }

    /// Are all pages copied?
    pub fn is_done(&self) -> bool {
        self.todo.is_empty()
    }

    /// Copies some of the pages that are left, in any order.
    pub fn go_on(&mut self, random: &SimRandom) -> Result<()> {
        for _ in 0..1 + random.below(4) {
            if self.todo.is_empty() {
                break;
            }
            let at = random.below(self.todo.len() as u64) as usize;
            let (file, run) = self.todo.swap_remove(at);
            let mut bytes = vec![0; run.count as usize * PAGE_BYTES];
            self.copy.read(file, run, &mut bytes)?;
            let since = self.base.as_ref().map(|base| base.redo_start);
            for (page, bytes) in (run.first..).zip(bytes.chunks_exact(PAGE_BYTES)) {
                if is_changed(bytes, since) {
                    let bytes = bytes.to_vec();
                    self.pages.push(CopiedPage { file, page, bytes });
                }
            }
        }
        Ok(())
    }

    /// Ends the backup: it restores what is committed now.
    pub fn end(self, now: &State) -> Result<Chain> {
        let end = self.copy.harden()?;
        let db = self.copy.database();
        let infos = db.files().into_iter();
        let files = infos.map(|info| FileSpec {
            size_pages: info.size_pages,
            ..info.spec
        });
        let backup = Backup {
            guid: self.copy.guid(),
            boot: self.copy.boot_image(),
            files: files.collect(),
            log: log_of(db, self.copy.log_start(), end)?,
            redo_start: self.copy.redo_start(),
            base: self.base,
            pages: self.pages,
            end,
        };
        let mut hold = self.copy.into_hold();
        hold.advance(end);
        Ok(Chain {
            backup: Arc::new(backup),
            logs: Vec::new(),
            state: now.clone(),
            hold,
        })
    }
}

fn log_of(db: &Database, from: Lsn, to: Lsn) -> Result<Vec<LogChunk>> {
    let mut source = db.read_log(from, to)?;
    let mut chunks = Vec::new();
    while let Some(chunk) = source.next(LOG_CHUNK_BYTES)? {
        chunks.push(chunk);
    }
    Ok(chunks)
}

fn sections(chunks: &[LogChunk]) -> Vec<LogSection> {
    let mut sections = Vec::new();
    for chunk in chunks {
        let bytes = chunk.bytes.len() as u64;
        LogSection::extend(&mut sections, chunk.lsn, bytes, chunk.incarnation);
    }
    sections
}

impl Chain {
    fn end(&self) -> Lsn {
        self.logs.last().map_or(self.backup.end, |log| log.end)
    }

    /// One more backup of the log.
    pub fn back_up_log(&mut self, db: &Database, now: &State) -> Result<()> {
        db.flush_log()?;
        let (from, end) = (self.end(), db.hardened_lsn());
        let chunks = log_of(db, from, end)?;
        self.logs.push(LogBackup { from, end, chunks });
        self.hold.advance(end);
        self.state = now.clone();
        Ok(())
    }

    /// The files as a restore leaves them, on a disk of their own. Says how many restores of log were given up on the way.
    pub fn restore(&self, seed: u64) -> Result<(Arc<SimDisk>, u64)> {
        let random = SimRandom::new(seed ^ 0x4E57);
        let disk = SimDisk::new(seed);
        let backup = &self.backup;
        match &backup.base {
            None => backup.write(&disk, false)?,
            Some(base) => {
                base.write(&disk, false)?;
                backup.write(&disk, true)?;
                let renamed = disk.rename(Path::new(NEXT_LOG), Path::new(LOG));
                renamed
                    .and_then(|()| disk.sync_dir(Path::new("/")))
                    .map_err(io_error)?;
            }
        }
        let mut cancelled = 0;
        for log in &self.logs {
            cancelled += u64::from(self.roll_forward(&disk, log, &random)?);
        }
        let mut rebuild = self.rebuild(&disk);
        for spec in backup.data().filter(|spec| spec.id == 1) {
            rebuild.open_file(spec)?;
        }
        rebuild.end_log(&backup.log_spec(LOG), self.end())?;
        rebuild.write_boot(&backup.boot, self.end(), &Epochs::default(), true)?;
        Ok((disk, cancelled))
    }

    fn rebuild(&self, disk: &Arc<SimDisk>) -> Rebuild {
        Rebuild::new(&daruma_sim::env(disk, ENV_SEED), self.backup.guid)
    }

    /// Adds a log backup, perhaps in two parts, and perhaps after a try that was given up when some of it was written.
    fn roll_forward(
        &self,
        disk: &Arc<SimDisk>,
        log: &LogBackup,
        random: &SimRandom,
    ) -> Result<bool> {
        let spec = self.backup.log_spec(LOG);
        let count = log.chunks.len();
        let is_cancelled = count > 0 && random.below(2) == 0;
        if is_cancelled {
            let mut rebuild = self.rebuild(disk);
            rebuild.append_log(&spec, log.from, &sections(&log.chunks))?;
            let written = 1 + random.below(count as u64) as usize;
            log.chunks[..written]
                .iter()
                .try_for_each(|c| rebuild.write_log(c))?;
        }
        let cut = random.below(count as u64 + 1) as usize;
        for part in [&log.chunks[..cut], &log.chunks[cut..]] {
            let Some(first) = part.first() else {
                continue;
            };
            let mut rebuild = self.rebuild(disk);
            rebuild.append_log(&spec, first.lsn, &sections(part))?;
            part.iter().try_for_each(|c| rebuild.write_log(c))?;
            rebuild.finish()?;
        }
        Ok(is_cancelled)
    }
}

impl Backup {
    fn data(&self) -> impl Iterator<Item = &FileSpec> {
        self.files.iter().filter(|spec| spec.filegroup != 0)
    }

    fn log_spec(&self, path: &str) -> FileSpec {
        let spec = self.files.iter().find(|spec| spec.filegroup == 0);
        let spec = spec.cloned().unwrap_or_else(|| FileSpec::log(path, 130));
        FileSpec {
            path: path.into(),
            ..spec
        }
    }

    /// Writes pages and log, over those of its base if that is there.
    fn write(&self, disk: &Arc<SimDisk>, over_base: bool) -> Result<()> {
        let mut rebuild = Rebuild::new(&daruma_sim::env(disk, ENV_SEED), self.guid);
        for spec in self.data() {
            assert_eq!(spec.path, Path::new(DATA), "one data file");
            match over_base {
                true => rebuild.open_file(spec)?,
                false => rebuild.create_file(spec)?,
            }
        }
        let log = self.log_spec(if over_base { NEXT_LOG } else { LOG });
        rebuild.create_log(&log, &sections(&self.log))?;
        for copied in &self.pages {
            let run = PageRun {
                first: copied.page,
                count: 1,
            };
            rebuild.write_pages(copied.file, run, &copied.bytes)?;
        }
        self.log.iter().try_for_each(|c| rebuild.write_log(c))?;
        rebuild.finish()
    }
}

fn io_error(source: std::io::Error) -> StorageError {
    StorageError::Io {
        action: "rename",
        path: NEXT_LOG.into(),
        source,
    }
}
