//! Taking a backup: what goes into a full, a differential and a log backup.
//!
//! ```text
//! full:          pages allocated when it began | log from where rollback may need it to the end of the backup
//! differential:  of these pages the ones with a page LSN from the base's redo start on | log as above
//! log:           log from the end of the last log backup to what is on disk
//! ```
//! Pages that a full backup did not store again in a differential are the same: their last change is older than where
//! redo of the base begins, so the base has it.
//!
//! Frame of pages: runs u32, then for each file u16, first page u32, pages u16; then the pages. Frame of log: position
//! u64, incarnation u32, blocks.

use crate::codec::{Compression, Encoder};
use crate::error::{BackupError, Result};
use crate::frame::Kind;
use crate::governor::{Governor, Load};
use crate::level::Levels;
use crate::meta::{BackupKind, FileMeta, Random16, SectionMeta, SetInfo, epochs_between};
use crate::origin::Origin;
use crate::page_frame::PageFrame;
use crate::pump::{self, Crew, Tick};
use crate::writer::{Destination, MediaLabel, MediaWriter, Tuning};
use daruma_base::{Env, Lsn, PageId};
use daruma_storage::{DataCopy, Database, LogHold, LogSection, LogSource, PageRun};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(crate) const PAGE_BYTES: usize = 8192;
/// Most pages in a frame.
const PAGES_PER_FRAME_MAX: u32 = 512;
/// A database with more damaged pages than this is not backed up, whatever is asked.
const DAMAGED_PAGES_MAX: usize = 1_000;

/// Request for a backup: its source and destination. `info` holds what the layers above know; this fills in the rest.
pub struct Request<'a> {
    pub env: &'a Env,
    pub database: &'a Arc<Database>,
    pub destination: &'a Destination,
    pub label: &'a MediaLabel,
    pub tuning: &'a Tuning,
    pub info: SetInfo,
}

/// Result of a backup.
pub struct Taken {
    pub info: SetInfo,
    /// Keeps the log until the caller has noted the backup.
    pub hold: LogHold,
}

/// A full backup.
pub fn take_full(request: Request<'_>, tick: Tick<'_>) -> Result<Taken> {
    take_pages(request, None, tick)
}

/// What changed since the full backup `base`, whose redo began at `base_lsn`.
pub fn take_differential(
    mut request: Request<'_>,
    base: Random16,
    base_lsn: Lsn,
    base_files: &[u16],
    tick: Tick<'_>,
) -> Result<Taken> {
    request.info.base_set = Some(base);
    request.info.base_lsn = base_lsn.0;
    take_pages(request, Some((base_lsn, base_files)), tick)
}

fn take_pages(request: Request<'_>, since: Option<(Lsn, &[u16])>, tick: Tick<'_>) -> Result<Taken> {
    let Request {
        env,
        database,
        destination,
        label,
        tuning,
        mut info,
    } = request;
    let media = MediaWriter::open(env, destination, label, tuning)?;
    info.started_utc = env.clock.utc_100ns();
    let copy = database.start_copy()?;
    describe(&mut info, &media, tuning);
    info.kind = match since {
        None => BackupKind::Full,
        Some(_) => BackupKind::Differential,
    };
    info.database_guid = copy.guid();
    info.boot = copy.boot_image();
    info.first_lsn = copy.log_start().0;
    info.redo_lsn = copy.redo_start().0;
    info.checkpoint_lsn = copy.checkpoint_lsn().0;
    media.begin(&info)?;

    let pages = PageFrames::new(&copy, tuning, since);
    let mut crew = Workers::new(env, database, &media, tuning);
    crew.run(pages.total, tick, |worker| pages.take_one(worker))?;
    let end = copy.harden()?;
    let log = LogFrames::new(database, copy.log_start(), end, tuning)?;
    crew.run(
        pages.total,
        &mut |p| {
            // The log comes on top of the pages: all of those are done.
            tick(pump::Progress {
                done: p.total,
                total: p.total,
            })
        },
        |worker| log.take_one(worker),
    )?;

    info.damaged_pages = pages.damaged.map(Mutex::into_inner).unwrap_or_default();
    info.damaged_pages.sort_unstable();
    info.damaged = !info.damaged_pages.is_empty();
    let counts = pages.counts.into_inner();
    info.files = files_of(&copy, &counts);
    info.pages = counts.values().sum();
    info.last_lsn = end.0;
    // A differential tells of all since its base: whether another one, which was restored before it, lies on its path.
    let known_from = since.map_or(copy.log_start(), |(base, _)| base.min(copy.log_start()));
    info.epochs = epochs_between(&database.epochs(), known_from, end);
    log.describe(&mut info);
    finish(env, media, &mut info)?;
    Ok(Taken {
        info,
        hold: copy.into_hold(),
    })
}

/// The log from `start` on. The caller has seen to it that there is a log chain.
pub fn take_log(request: Request<'_>, start: Lsn, tick: Tick<'_>) -> Result<Taken> {
    let Request {
        env,
        database,
        destination,
        label,
        tuning,
        mut info,
    } = request;
    let gone = || BackupError::Unusable("the log that the backup needs is gone".into());
    let hold = database
        .hold_log(start, "ACTIVE_BACKUP_OR_RESTORE")
        .ok_or_else(gone)?;
    let media = MediaWriter::open(env, destination, label, tuning)?;
    info.started_utc = env.clock.utc_100ns();
    database.flush_log()?;
    let end = database.hardened_lsn();
    describe(&mut info, &media, tuning);
    info.kind = BackupKind::Log;
    info.first_lsn = start.0;
    info.last_lsn = end.0;
    info.epochs = epochs_between(&database.epochs(), start, end);
    media.begin(&info)?;
    let log = LogFrames::new(database, start, end, tuning)?;
    let bytes = end.0.saturating_sub(start.0);
    Workers::new(env, database, &media, tuning).run(bytes, tick, |worker| log.take_one(worker))?;
    log.describe(&mut info);
    finish(env, media, &mut info)?;
    Ok(Taken { info, hold })
}

fn describe(info: &mut SetInfo, media: &MediaWriter, tuning: &Tuning) {
    info.origin = Origin::of_this_release();
    info.set = media.set();
    info.position = media.position();
    info.encryption = media.envelope().cloned();
    info.compression = tuning.compression.name().map(str::to_string);
}

fn finish(env: &Env, media: MediaWriter, info: &mut SetInfo) -> Result<()> {
    info.finished_utc = env.clock.utc_100ns();
    info.plain_bytes = (info.pages + info.log_pages) * PAGE_BYTES as u64;
    info.stored_bytes = media.stored_bytes();
    media.finish(info)
}

fn files_of(copy: &DataCopy, counts: &BTreeMap<u16, u64>) -> Vec<FileMeta> {
    // Files may have grown while they were read.
    let now = copy.database().files();
    let meta = |info: &daruma_storage::FileInfo| FileMeta {
        id: info.spec.id,
        filegroup: info.spec.filegroup,
        logical_name: info.spec.logical_name.clone(),
        path: info.spec.path.display().to_string(),
        size_pages: info.size_pages,
        max_pages: info.spec.max_pages,
        pages: counts.get(&info.spec.id).copied().unwrap_or(0),
    };
    now.iter().map(meta).collect()
}

/// The threads of a backup, and the care they take of the sessions.
struct Workers<'a> {
    env: &'a Env,
    database: &'a Database,
    media: &'a MediaWriter,
    tuning: &'a Tuning,
    governor: Governor,
    levels: Option<Mutex<Levels>>,
}

impl<'a> Workers<'a> {
    fn new(
        env: &'a Env,
        database: &'a Database,
        media: &'a MediaWriter,
        tuning: &'a Tuning,
    ) -> Workers<'a> {
        let chooses = tuning.choose_level && matches!(tuning.compression, Compression::Zstd { .. });
        Workers {
            env,
            database,
            media,
            tuning,
            governor: Governor::new(media.queue().lanes(), load_of(database)),
            levels: chooses.then(|| Mutex::new(Levels::new(tuning.processors))),
        }
    }

    /// Runs a phase; `take_one` says whether there was a frame to take. What it added may not be written yet when this
    /// returns.
    fn run(
        &mut self,
        total: u64,
        tick: Tick<'_>,
        take_one: impl Fn(&mut Worker<'_>) -> Result<bool> + Sync,
    ) -> Result<()> {
        let (env, tuning, media) = (self.env, self.tuning, self.media);
        let (database, governor, levels) = (self.database, &mut self.governor, &self.levels);
        let pace = &mut || {
            media.queue().set_limit(governor.observe(load_of(database)));
            if let Some(levels) = levels {
                let look = media.queue().look();
                levels.lock().observe(env.clock.monotonic(), look);
            }
        };
        pump::run(
            tuning.threads(),
            tuning.processors,
            total,
            tick,
            pace,
            |crew| {
                env.clock.run_in_background();
                let mut worker = Worker {
                    env,
                    crew,
                    media,
                    levels: levels.as_ref(),
                    encoder: Encoder::new(tuning.compression).map_err(compress_error)?,
                    pages: PageFrame::default(),
                    log: Vec::new(),
                };
                // A failed write is told when the queue is closed.
                while !crew.is_stopped() && !media.queue().has_failed() && take_one(&mut worker)? {}
                Ok(())
            },
        )?;
        match media.queue().has_failed() {
            true => media.queue().close(),
            false => Ok(()),
        }
    }
}

fn load_of(database: &Database) -> Load {
    let stats = database.log_stats();
    Load {
        flushes: stats.flushes,
        time: Duration::from_nanos(stats.flush_write_ns),
    }
}

/// One thread of a backup, and its buffers.
struct Worker<'a> {
    env: &'a Env,
    crew: &'a Crew,
    media: &'a MediaWriter,
    levels: Option<&'a Mutex<Levels>>,
    encoder: Encoder,
    pages: PageFrame,
    log: Vec<u8>,
}

impl Worker<'_> {
    /// Compresses and adds what `pages` holds.
    fn add_pages(&mut self, pages: u32, range: (u64, u64)) -> Result<()> {
        let permit = self.crew.permit();
        let plain = self.pages.finish();
        let (codec, stored) = encode(self.env, self.levels, &mut self.encoder, plain)?;
        drop(permit);
        self.media
            .add(Kind::Pages, codec, plain.len(), stored, pages, range)
    }

    /// Compresses and adds what `log` holds.
    fn add_log(&mut self, range: (u64, u64)) -> Result<()> {
        let permit = self.crew.permit();
        let (codec, stored) = encode(self.env, self.levels, &mut self.encoder, &self.log)?;
        drop(permit);
        self.media
            .add(Kind::Log, codec, self.log.len(), stored, 1, range)
    }
}

/// Compresses at the level that pays.
fn encode<'a>(
    env: &Env,
    levels: Option<&Mutex<Levels>>,
    encoder: &'a mut Encoder,
    plain: &'a [u8],
) -> Result<(Compression, &'a [u8])> {
    let Some(levels) = levels else {
        return encoder.encode(plain).map_err(compress_error);
    };
    let level = levels.lock().next();
    encoder.set_level(level).map_err(compress_error)?;
    let begun = env.clock.monotonic();
    let (codec, stored) = encoder.encode(plain).map_err(compress_error)?;
    let time = env.clock.monotonic().saturating_sub(begun);
    levels.lock().record(level, plain.len(), stored.len(), time);
    Ok((codec, stored))
}

fn compress_error(source: std::io::Error) -> BackupError {
    BackupError::Io {
        action: "compress for",
        device: "backup".into(),
        source,
    }
}

/// Runs of pages, cut into frames.
struct PageFrames<'a> {
    copy: &'a DataCopy,
    frames: Vec<Vec<(u16, PageRun)>>,
    next: AtomicUsize,
    total: u64,
    since: Option<(Lsn, &'a [u16])>,
    /// Pages stored, by file.
    counts: Mutex<BTreeMap<u16, u64>>,
    /// Pages stored although they are damaged; `None` when the first one ends the backup.
    damaged: Option<Mutex<Vec<(u16, u32)>>>,
}

impl<'a> PageFrames<'a> {
    fn new(copy: &'a DataCopy, tuning: &Tuning, since: Option<(Lsn, &'a [u16])>) -> Self {
        let per_frame = (tuning.transfer_bytes / PAGE_BYTES) as u32;
        let per_frame = per_frame.clamp(1, PAGES_PER_FRAME_MAX);
        let runs = copy
            .files()
            .iter()
            .flat_map(|f| f.runs.iter().map(|run| (f.info.spec.id, *run)));
        PageFrames {
            copy,
            frames: cut(runs, per_frame),
            next: AtomicUsize::new(0),
            total: copy.files().iter().map(|f| f.pages).sum(),
            since,
            counts: Mutex::default(),
            damaged: tuning.keep_damaged.then(Mutex::default),
        }
    }

    /// Reads a run; says which of its pages are damaged, if that is no reason to stop.
    fn read(&self, file: u16, run: PageRun, out: &mut [u8]) -> Result<Vec<u32>> {
        let Some(all) = &self.damaged else {
            self.copy.read(file, run, out)?;
            return Ok(Vec::new());
        };
        let damaged = self.copy.read_damaged(file, run, out)?;
        let mut all = all.lock();
        all.extend(damaged.iter().map(|page| (file, *page)));
        if all.len() > DAMAGED_PAGES_MAX {
            return Err(BackupError::Unusable(format!(
                "more than {DAMAGED_PAGES_MAX} pages are damaged"
            )));
        }
        Ok(damaged)
    }

    fn take_one(&self, worker: &mut Worker<'_>) -> Result<bool> {
        let Some(frame) = self.frames.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
            return Ok(false);
        };
        let asked = frame.iter().map(|(_, r)| r.count).sum();
        let pages = &mut worker.pages;
        pages.clear(asked);
        for (file, run) in frame {
            let damaged = self.read(*file, *run, pages.space(run.count))?;
            pages.keep(*file, *run, |page, bytes| {
                damaged.contains(&page) || self.is_wanted(*file, bytes)
            });
        }
        if let (Some(first), Some(last)) = (pages.runs().first(), pages.runs().last()) {
            let range = (
                PageId::new(first.0, first.1.first).to_u64(),
                PageId::new(last.0, last.1.first + last.1.count - 1).to_u64(),
            );
            let kept: u32 = pages.runs().iter().map(|(_, r)| r.count).sum();
            {
                let mut counts = self.counts.lock();
                for (file, run) in pages.runs() {
                    *counts.entry(*file).or_default() += u64::from(run.count);
                }
            }
            worker.add_pages(kept, range)?;
        }
        worker.crew.add_done(u64::from(asked));
        Ok(true)
    }

    /// Was the page ever written and, in a differential, changed since the base?
    fn is_wanted(&self, file: u16, page: &[u8]) -> bool {
        let base = self.since.filter(|(_, files)| files.contains(&file));
        daruma_storage::is_changed(page, base.map(|(lsn, _)| lsn))
    }
}

/// Cuts runs into frames of at most `per_frame` pages.
fn cut(runs: impl Iterator<Item = (u16, PageRun)>, per_frame: u32) -> Vec<Vec<(u16, PageRun)>> {
    let mut frames: Vec<Vec<(u16, PageRun)>> = Vec::new();
    let mut room = 0;
    for (file, mut run) in runs {
        while run.count > 0 {
            if room == 0 {
                frames.push(Vec::new());
                room = per_frame;
            }
            let count = run.count.min(room);
            let piece = PageRun {
                first: run.first,
                count,
            };
            if let Some(frame) = frames.last_mut() {
                frame.push((file, piece));
            }
            run.first += count;
            run.count -= count;
            room -= count;
        }
    }
    frames
}

/// The log, chunk by chunk.
struct LogFrames {
    source: Mutex<(LogSource, Vec<LogSection>)>,
    bytes: u64,
    chunk_bytes: usize,
}

impl LogFrames {
    fn new(database: &Database, start: Lsn, end: Lsn, tuning: &Tuning) -> Result<LogFrames> {
        Ok(LogFrames {
            source: Mutex::new((database.read_log(start, end)?, Vec::new())),
            bytes: end.0.saturating_sub(start.0),
            chunk_bytes: tuning.transfer_bytes,
        })
    }

    fn take_one(&self, worker: &mut Worker<'_>) -> Result<bool> {
        let chunk = {
            let (source, sections) = &mut *self.source.lock();
            let chunk = source.next(self.chunk_bytes)?;
            if let Some(c) = &chunk {
                let bytes = c.bytes.len() as u64;
                LogSection::extend(sections, c.lsn, bytes, c.incarnation);
            }
            chunk
        };
        let Some(chunk) = chunk else {
            return Ok(false);
        };
        let (log, bytes) = (&mut worker.log, chunk.bytes.len() as u64);
        log.clear();
        log.extend_from_slice(&chunk.lsn.0.to_le_bytes());
        log.extend_from_slice(&chunk.incarnation.to_le_bytes());
        log.extend_from_slice(&chunk.bytes);
        worker.add_log((chunk.lsn.0, chunk.lsn.0 + bytes))?;
        worker.crew.add_done(bytes);
        Ok(true)
    }

    fn describe(self, info: &mut SetInfo) {
        let (_, sections) = self.source.into_inner();
        info.sections = sections.iter().map(SectionMeta::from).collect();
        info.log_pages = self.bytes.div_ceil(PAGE_BYTES as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_full_and_keep_the_order() {
        let run = |first, count| PageRun { first, count };
        let frames = cut(
            [(1, run(0, 5)), (1, run(9, 2)), (3, run(8, 4))].into_iter(),
            4,
        );
        assert_eq!(
            frames,
            vec![
                vec![(1, run(0, 4))],
                vec![(1, run(4, 1)), (1, run(9, 2)), (3, run(8, 1))],
                vec![(3, run(9, 3))],
            ]
        );
    }
}
