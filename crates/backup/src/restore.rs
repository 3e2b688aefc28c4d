//! Restoring: data files and log file written from a backup set, in parallel, and nothing else touched.
//!
//! Theory: all of a set is read and checked while it is written to files that nobody uses yet; who calls decides when
//! these take the place of others. The log of each backup is laid out in the log file; recovery runs once, when the
//! database is to be opened.

use crate::chain::RestoreState;
use crate::error::{BackupError, Result};
use crate::frame::Kind;
use crate::meta::{SetInfo, history};
use crate::pump::Tick;
use crate::reader::{Content, SetReader};
use crate::take::PAGE_BYTES;
use daruma_base::{Env, Lsn, PageId};
use daruma_storage::{FileSpec, LogChunk, LogSection, PageRun, Rebuild, Stop, StorageError};

/// Files of the database to write. Paths are where they are written now.
#[derive(Clone, Debug)]
pub struct Files {
    pub data: Vec<FileSpec>,
    pub log: FileSpec,
}

/// Writes new files from a full backup. On an error they are to be removed.
pub fn restore_full(
    env: &Env,
    set: &SetReader,
    files: &Files,
    processors: usize,
    tick: Tick<'_>,
) -> Result<RestoreState> {
    set.check_undamaged()?;
    let mut rebuild = Rebuild::new(env, set.info().database_guid);
    for spec in &files.data {
        rebuild.create_file(spec)?;
    }
    rebuild.create_log(&files.log, &sections(set.info()))?;
    apply_all(set, &rebuild, processors, tick)?;
    rebuild.finish()?;
    Ok(RestoreState::after_full(set.info()))
}

/// Reads and checks all of a differential, before anything of it is written: the files are all there is of the database. Gives the
/// state to be stored before [`restore_differential`] begins, for whoever finds it broken off.
pub fn begin_differential(
    set: &SetReader,
    state: &RestoreState,
    processors: usize,
    tick: Tick<'_>,
) -> Result<RestoreState> {
    state.check(set.info()).map_err(BackupError::Chain)?;
    verify(set, processors, tick)?;
    Ok(state.with_partial(set.info()))
}

/// Writes a differential that [`begin_differential`] has checked over the files of a restored full backup. `files` names a new log file,
/// which replaces the one before once this has returned.
pub fn restore_differential(
    env: &Env,
    set: &SetReader,
    files: &Files,
    exists: impl Fn(&FileSpec) -> bool,
    state: &mut RestoreState,
    processors: usize,
    tick: Tick<'_>,
) -> Result<()> {
    state.check(set.info()).map_err(BackupError::Chain)?;
    let rebuild = Rebuild::new(env, state.guid);
    or_remove(rebuild, |rebuild| {
        for spec in &files.data {
            match exists(spec) {
                true => rebuild.open_file(spec)?,
                false => rebuild.create_file(spec)?,
            }
        }
        rebuild.create_log(&files.log, &sections(set.info()))?;
        apply_all(set, rebuild, processors, tick)?;
        Ok(rebuild.finish()?)
    })?;
    state.applied(set.info(), set.info().last_lsn, false);
    Ok(())
}

/// A try that fails leaves no new data files behind: the next one makes them anew.
fn or_remove(mut rebuild: Rebuild, work: impl FnOnce(&mut Rebuild) -> Result<()>) -> Result<()> {
    let result = work(&mut rebuild);
    if result.is_err() {
        rebuild.remove_created();
    }
    result
}

/// Adds the log of a log backup, up to `stop` if that comes first. `new_files` are files that the database got since.
pub fn restore_log(
    env: &Env,
    set: &SetReader,
    files: &Files,
    new_files: &[FileSpec],
    state: &mut RestoreState,
    stop: Option<Stop>,
    tick: Tick<'_>,
) -> Result<()> {
    state.check(set.info()).map_err(BackupError::Chain)?;
    let total = set.info().last_lsn.saturating_sub(set.info().first_lsn);
    let plan = plan_log(set, Lsn(state.end_lsn), stop)?;
    or_remove(Rebuild::new(env, state.guid), |rebuild| {
        for spec in new_files {
            rebuild.create_file(spec)?;
        }
        rebuild.append_log(&files.log, Lsn(state.end_lsn), &plan.sections)?;
        let mut done = 0;
        set.in_order(Kind::Log, |content| {
            let chunk = plan.trim(log_chunk(content.plain)?)?;
            done += chunk.bytes.len() as u64;
            if !chunk.bytes.is_empty() {
                rebuild.write_log(&chunk)?;
            }
            tick(crate::Progress { done, total }).map_err(|_| BackupError::Cancelled)?;
            Ok(true)
        })?;
        Ok(rebuild.finish()?)
    })?;
    state.applied(set.info(), plan.end.0, plan.stopped);
    Ok(())
}

/// Writes the boot page: from now on the files are a database that opens, and recovers to the end of its log.
pub fn write_boot(env: &Env, files: &Files, state: &RestoreState) -> Result<()> {
    state.check_whole().map_err(BackupError::Chain)?;
    let mut rebuild = Rebuild::new(env, state.guid);
    for spec in files.data.iter().filter(|f| f.id == 1) {
        rebuild.open_file(spec)?;
    }
    rebuild.end_log(&files.log, Lsn(state.end_lsn))?;
    let epochs = history(&state.epochs);
    Ok(rebuild.write_boot(&state.boot, Lsn(state.end_lsn), &epochs, true)?)
}

/// Reads and checks everything, writes nothing.
pub fn verify(set: &SetReader, processors: usize, tick: Tick<'_>) -> Result<()> {
    set.check_undamaged()?;
    set.for_each(processors, tick, |content| match content.kind {
        Kind::Pages => each_run(content.plain, |file, run, pages| {
            pages_of(set, file, run, pages).map(|_| ())
        }),
        Kind::Log => log_chunk(content.plain)?
            .commit_times()
            .map(|_| ())
            .map_err(Into::into),
        _ => Ok(()),
    })
}

fn sections(info: &SetInfo) -> Vec<LogSection> {
    info.sections.iter().map(LogSection::from).collect()
}

fn apply_all(set: &SetReader, rebuild: &Rebuild, processors: usize, tick: Tick<'_>) -> Result<()> {
    set.for_each(processors, tick, |content: Content<'_>| {
        match content.kind {
            Kind::Pages => each_run(content.plain, |file, run, pages| {
                write_run(set, rebuild, file, run, pages)
            }),
            Kind::Log => Ok(rebuild.write_log(&log_chunk(content.plain)?)?),
            _ => Ok(()),
        }
    })
}

/// Damaged pages of a run: ones that the description names. Any other is an error.
fn pages_of(set: &SetReader, file: u16, run: PageRun, pages: &[u8]) -> Result<Vec<u32>> {
    if daruma_storage::check_pages(file, run.first, pages) {
        return Ok(Vec::new());
    }
    let each = (run.first..).zip(pages.chunks_exact(PAGE_BYTES));
    let damaged = each.filter(|(page, bytes)| !daruma_storage::check_pages(file, *page, bytes));
    let known = |(page, _)| match set.is_known_damage(file, page) {
        true => Ok(page),
        false => Err(BackupError::DamagedPage { file, page }),
    };
    damaged.map(known).collect()
}

fn write_run(
    set: &SetReader,
    rebuild: &Rebuild,
    file: u16,
    run: PageRun,
    pages: &[u8],
) -> Result<()> {
    match rebuild.write_pages(file, run, pages) {
        // It checks the pages before it writes any.
        Err(StorageError::DamagedPage { .. }) => {}
        written => return Ok(written?),
    }
    let damaged = pages_of(set, file, run, pages)?;
    for (page, bytes) in (run.first..).zip(pages.chunks_exact(PAGE_BYTES)) {
        let one = PageRun {
            first: page,
            count: 1,
        };
        match damaged.contains(&page) {
            true => rebuild.write_damaged(PageId::new(file, page), bytes)?,
            false => rebuild.write_pages(file, one, bytes)?,
        }
    }
    Ok(())
}

fn unreadable() -> BackupError {
    BackupError::Damaged {
        device: "backup".into(),
        what: "a frame whose content is unreadable".into(),
    }
}

/// The runs of a frame of pages.
pub(crate) fn each_run(
    plain: &[u8],
    mut apply: impl FnMut(u16, PageRun, &[u8]) -> Result<()>,
) -> Result<()> {
    let count = plain.get(..4).and_then(|b| b.try_into().ok());
    let count = count.map(u32::from_le_bytes).ok_or_else(unreadable)? as usize;
    let table_end = count
        .checked_mul(8)
        .and_then(|n| n.checked_add(4))
        .ok_or_else(unreadable)?;
    let table = plain.get(4..table_end).ok_or_else(unreadable)?;
    let mut pages = plain.get(table_end..).unwrap_or_default();
    for entry in table.chunks_exact(8) {
        let [f0, f1, p0, p1, p2, p3, c0, c1] = *entry else {
            return Err(unreadable());
        };
        let run = PageRun {
            first: u32::from_le_bytes([p0, p1, p2, p3]),
            count: u32::from(u16::from_le_bytes([c0, c1])),
        };
        let (own, rest) = pages
            .split_at_checked(run.count as usize * PAGE_BYTES)
            .ok_or_else(unreadable)?;
        apply(u16::from_le_bytes([f0, f1]), run, own)?;
        pages = rest;
    }
    pages.is_empty().then_some(()).ok_or_else(unreadable)
}

pub(crate) fn log_chunk(plain: &[u8]) -> Result<LogChunk> {
    let lsn = plain.get(..8).and_then(|b| b.try_into().ok());
    let incarnation = plain.get(8..12).and_then(|b| b.try_into().ok());
    match (lsn, incarnation, plain.get(12..)) {
        (Some(lsn), Some(incarnation), Some(bytes)) => Ok(LogChunk {
            lsn: Lsn(u64::from_le_bytes(lsn)),
            incarnation: u32::from_le_bytes(incarnation),
            bytes: bytes.to_vec(),
        }),
        _ => Err(unreadable()),
    }
}

/// Which part of a log backup is new, and where it ends.
pub(crate) struct LogPlan {
    from: Lsn,
    end: Lsn,
    stop: Option<Stop>,
    stopped: bool,
    sections: Vec<LogSection>,
}

/// Reads the whole backup once: checks it, and finds the stop.
pub(crate) fn plan_log(set: &SetReader, from: Lsn, stop: Option<Stop>) -> Result<LogPlan> {
    let mut plan = LogPlan {
        from,
        end: from,
        stop,
        stopped: false,
        sections: Vec::new(),
    };
    set.in_order(Kind::Log, |content| {
        let mut chunk = log_chunk(content.plain)?;
        chunk.commit_times()?;
        chunk.skip_to(plan.from)?;
        let reached = match stop {
            Some(stop) => chunk.cut(stop)?,
            None => false,
        };
        if !chunk.bytes.is_empty() {
            if chunk.lsn != plan.end {
                return Err(unreadable());
            }
            let bytes = chunk.bytes.len() as u64;
            LogSection::extend(&mut plan.sections, chunk.lsn, bytes, chunk.incarnation);
            plan.end = Lsn(chunk.lsn.0 + bytes);
        }
        plan.stopped = reached;
        Ok(!reached)
    })?;
    if !plan.stopped && plan.end.0 != set.info().last_lsn.max(from.0) {
        return Err(unreadable());
    }
    Ok(plan)
}

impl LogPlan {
    /// The part of a chunk that the plan keeps.
    pub fn trim(&self, mut chunk: LogChunk) -> Result<LogChunk> {
        if chunk.lsn >= self.end {
            chunk.bytes.clear();
            return Ok(chunk);
        }
        chunk.skip_to(self.from)?;
        if let Some(stop) = self.stop {
            chunk.cut(stop)?;
        }
        Ok(chunk)
    }
}
