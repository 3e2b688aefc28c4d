//! Page restore: `RESTORE DATABASE d PAGE = '1:57, 1:202' FROM ..`, then RESTORE LOG, then RECOVERY.
//!
//! Theory: the database is taken out of use, and its files stay as they are. The pages are taken from the backup and
//! rolled forward beside them, in a file of their own, by each log backup; RECOVERY rolls them on through the database's own
//! log to its end and writes them into their places. So the tail of the log needs no backup while it is still there, and
//! whatever fails before the end leaves the database as it was, and until then the restore may be taken back: SET ONLINE.
//!
//! A page that the backup does not have was free then. Where the database uses it now, the log brings it; where it does not, the
//! restore is refused. What that cannot be known of, and turns out to need nothing, is left as it is. One that is in use at the end
//! and has no content ends the restore: it may be taken back.
//!
//! | stopped while | found at the next start | done |
//! |---|---|---|
//! | rolling forward | the definition and the pages of the last whole step | the next RESTORE goes on |
//! | writing the pages | the same; a page is as it was or as it is to be | RECOVERY writes them again |
//! | taking it back | the database as it was, or the same | it is opened; or the next RESTORE goes on |
//! | making or removing the file | the file, and that it was made | it is removed, but for that of the last whole step |

use super::exchange::{files_of, suffixed};
use super::options::{self, Ending};
use super::restore::{Job, open_files, require_exclusive};
use super::take::path_of;
use super::{PAGES, PAGES_FILE, RESTORING, Watch, say, suspect};
use crate::error::{Result, SqlError};
use crate::instance::left_behind::{Cleaner, sync_directories};
use crate::instance::{DatabaseEntry, OpenDatabase, close_database};
use crate::messages;
use crate::session::Execution;
use daruma_backup::{BackupKind, RestoreState, restore_pages};
use daruma_base::{Disk, Lsn, OpenMode, PageId};
use daruma_catalog::DatabaseDef;
use daruma_storage::{ClosedFiles, PageRoll, RecoveryModel, Settings};
use daruma_syntax::ast::DatabasePart;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The product's own limit.
const PAGES_MAX: usize = 1_000;
const MAGIC: &[u8; 16] = b"Daruma: pages   ";
const HEADER_BYTES: usize = 512;
const FILE_BYTES_MAX: usize = HEADER_BYTES + PAGES_MAX * 8_199 + 4;

/// How far a page restore is: kept with the definition.
#[derive(Serialize, Deserialize)]
struct Progress {
    state: RestoreState,
    /// Counts the steps: each has a file of its own, so that one that fails spoils nothing.
    step: u32,
}

impl Progress {
    fn of(def: &DatabaseDef) -> Option<Progress> {
        serde_json::from_str(def.options.get(PAGES)?).ok()
    }

    fn file(&self, def: &DatabaseDef) -> PathBuf {
        file_of_step(def, self.step)
    }
}

fn file_of_step(def: &DatabaseDef, step: u32) -> PathBuf {
    let data = files_of(def).data;
    let first = data.iter().find(|f| f.id == 1);
    let path = first.map(|f| f.path.clone()).unwrap_or_default();
    suffixed(&path, &format!("pages{step}"))
}

/// First sector of a file with pages: it shows that the file is one, and whose.
fn header(guid: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let (magic, rest) = header.split_at_mut(MAGIC.len());
    magic.copy_from_slice(MAGIC);
    rest[..8].copy_from_slice(&guid.to_le_bytes());
    header
}

/// Is this a file with pages of the database, or space for one that nothing was written to?
fn is_own(disk: &dyn Disk, path: &Path, guid: u64) -> std::io::Result<bool> {
    let file = disk.open(path, OpenMode::ReadOnly)?;
    let bytes = usize::try_from(file.len()?).unwrap_or(usize::MAX);
    let mut found = vec![0; bytes.min(HEADER_BYTES)];
    file.read_at(&mut found, 0)?;
    let is_empty = bytes <= FILE_BYTES_MAX && found.iter().all(|b| *b == 0);
    Ok(is_empty || found == header(guid))
}

/// At start: deletes the files that a crash has left beside that of the last whole step.
pub(crate) fn settle(cleaner: &Cleaner<'_>, def: &mut DatabaseDef) {
    let made = def.options.get(PAGES_FILE).and_then(|mark| {
        let (step, guid) = mark.split_once(' ')?;
        Some((step.parse().ok()?, u64::from_str_radix(guid, 16).ok()?))
    });
    let Some((newest, guid)) = made else {
        return;
    };
    let kept = Progress::of(def).map(|progress| progress.step);
    let old = (1..=newest).filter(|step: &u32| Some(*step) != kept);
    let paths: Vec<PathBuf> = old.map(|step| file_of_step(def, step)).collect();
    let mut is_done = true;
    for path in &paths {
        is_done &= cleaner.remove_own(path, |disk| is_own(disk, path, guid));
    }
    let synced = sync_directories(cleaner.env, paths.iter());
    if is_done && kept.is_none() && synced.is_ok() {
        def.options.remove(PAGES_FILE);
    }
}

/// The file with the pages of a restore that is under way.
pub(super) fn file_of(def: &DatabaseDef) -> Option<PathBuf> {
    Progress::of(def).map(|progress| progress.file(def))
}

/// Is the database in the middle of a page restore?
pub(crate) fn is_under_way(entry: &DatabaseEntry) -> bool {
    entry.def().options.contains_key(PAGES)
}

/// `1:57, 1:202` from the statement.
fn asked(ex: &Execution<'_>, parts: &[DatabasePart]) -> Result<Vec<PageId>> {
    let mut pages = Vec::new();
    for part in parts {
        let DatabasePart::Page(value) = part else {
            return Err(messages::not_supported("restore of single files"));
        };
        let text = options::text_of(ex, value)?;
        for one in text.split(',').map(str::trim) {
            let numbers = one.split_once(':');
            let page = numbers.and_then(|(file, page)| {
                Some(PageId::new(
                    file.trim().parse().ok()?,
                    page.trim().parse().ok()?,
                ))
            });
            let page = page.ok_or_else(|| messages::error(102, &[&one]))?;
            if !PageRoll::is_restorable(page) {
                return Err(messages::error(3111, &[&format_args!("({one})")]));
            }
            pages.push(page);
        }
    }
    match pages.len() > PAGES_MAX {
        true => Err(messages::not_supported(
            "restore of more than 1000 pages at once",
        )),
        false => Ok(pages),
    }
}

/// The database whose pages are to be restored, before anything is done to it.
enum Target {
    Open(OpenDatabase),
    Closed(Box<ClosedFiles>),
}

impl Target {
    /// The caller keeps everybody else out of the database.
    fn of(ex: &Execution<'_>, entry: &DatabaseEntry) -> Result<Target> {
        match entry.held() {
            Some(open) => Ok(Target::Open(open)),
            None => {
                let files = entry.def().file_specs();
                let files = ex.instance().engine().closed_files(files)?;
                Ok(Target::Closed(Box::new(files)))
            }
        }
    }

    fn identity(&self) -> (u64, Settings) {
        match self {
            Target::Open(open) => (open.storage.guid(), open.storage.settings()),
            Target::Closed(files) => (files.guid(), files.settings()),
        }
    }

    fn is_free(&self, page: PageId) -> bool {
        match self {
            Target::Open(open) => open.storage.is_free(page),
            Target::Closed(files) => files.is_free(page),
        }
    }
}

/// Error 4330: since the backup, the database has left the path that the backup is on.
fn check_path(def: &DatabaseDef, state: &RestoreState) -> Result<()> {
    let path = path_of(def);
    match path.fork != state.fork && path.lsn < state.end_lsn {
        true => Err(messages::error(4330, &[])),
        false => Ok(()),
    }
}

impl Job<'_, '_> {
    /// `RESTORE DATABASE d PAGE = ..`: from a full backup to begin with, from a differential to go on.
    pub(super) fn pages(&self, parts: &[DatabasePart]) -> Result<()> {
        let pages = asked(self.ex, parts)?;
        self.check_ending()?;
        let entry = self.existing()?;
        let missing = pages.iter().find(|p| {
            let def = entry.def();
            let is_it = |f: &&daruma_catalog::FileDef| f.id == p.file && f.filegroup != 0;
            def.files.iter().find(is_it).is_none()
        });
        if let Some(page) = missing {
            return Err(messages::error(
                102,
                &[&format_args!("{}:{}", page.file, page.page)],
            ));
        }
        match (is_under_way(&entry), self.info().kind) {
            (false, BackupKind::Full) if entry.is_system() || entry.is_restoring() => {
                return Err(messages::not_supported("page restore of this database"));
            }
            (false, BackupKind::Full) => {}
            (true, BackupKind::Differential) => return self.roll_pages(&entry),
            _ => return Err(messages::error(3117, &[])),
        }
        let alone = require_exclusive(self.ex, &entry)?;
        let target = Target::of(self.ex, &entry)?;
        self.check_owner(&target)?;
        let mut roll = PageRoll::new(pages);
        let state = restore_pages(&self.set, &mut roll, None).map_err(super::sql_error)?;
        check_path(&entry.def(), &state)?;
        self.check_use(&target, &roll)?;
        drop(target);
        self.keep(&entry, &Progress { state, step: 1 }, &roll)?;
        if let Some(open) = entry.take_open() {
            // A database with damaged pages may not close cleanly; recovery will see to it.
            let _ = close_database(&open);
        }
        drop(alone);
        self.ex.instance().plans.clear();
        self.end_step(&entry, roll.ids().len())
    }

    /// Pages go to the end of the log, like the rest of the database.
    fn check_ending(&self) -> Result<()> {
        match (&self.ending, self.stop_time()) {
            (Ending::Standby(_), _) => Err(messages::not_supported("STANDBY in a page restore")),
            (_, Some(_)) => Err(messages::not_supported("STOPAT in a page restore")),
            _ => Ok(()),
        }
    }

    /// The pages must be of this very database, which must have a log to roll them forward by.
    fn check_owner(&self, target: &Target) -> Result<()> {
        let (guid, settings) = target.identity();
        if guid != self.info().database_guid {
            return Err(messages::error(3154, &[&self.name]));
        }
        match settings.recovery_model {
            RecoveryModel::Simple => Err(messages::error(4208, &[&"RESTORE PAGE"])),
            RecoveryModel::Full | RecoveryModel::BulkLogged => Ok(()),
        }
    }

    /// Error 3144 for a page that the backup does not have and the database does not use.
    fn check_use(&self, target: &Target, roll: &PageRoll) -> Result<()> {
        let unknown = roll.unknown();
        let Some(page) = unknown.into_iter().find(|page| target.is_free(*page)) else {
            return Ok(());
        };
        let device = self.devices.first().map_or("", |d| d.name());
        let text = format!(
            "Page {page} was not backed up in file {} on device '{device}', and the database does not use it. The page cannot be restored from this backup set.",
            self.info().position
        );
        Err(SqlError::new(3144, 16, 2, text))
    }

    /// A differential or log backup on the way of pages.
    pub(super) fn roll_pages(&self, entry: &Arc<DatabaseEntry>) -> Result<()> {
        self.check_ending()?;
        let (progress, mut roll) = load(self.ex, entry)?;
        let state = restore_pages(&self.set, &mut roll, Some(progress.state));
        let next = Progress {
            state: state.map_err(super::sql_error)?,
            step: progress.step + 1,
        };
        self.keep(entry, &next, &roll)?;
        self.end_step(entry, roll.ids().len())
    }

    /// Writes the pages of a step, and then that it is the last one. A start knows of the file before there is one.
    fn keep(&self, entry: &Arc<DatabaseEntry>, progress: &Progress, roll: &PageRoll) -> Result<()> {
        let instance = self.ex.instance();
        let before = entry.def();
        let guid = progress.state.guid;
        self.ex.change_database(entry, |def| {
            let made = format!("{} {guid:x}", progress.step);
            def.options.insert(PAGES_FILE.into(), made);
            Ok(())
        })?;
        write_whole(
            &instance.env().disk,
            &progress.file(&before),
            guid,
            &roll.encode(),
        )?;
        let text = serde_json::to_string(progress).unwrap_or_default();
        self.ex.change_database(entry, |def| {
            def.options.insert(PAGES.into(), text);
            def.options.insert(RESTORING.into(), String::new());
            Ok(())
        })?;
        if let Some(old) = Progress::of(&before) {
            let _ = instance.env().disk.remove(&old.file(&before));
        }
        Ok(())
    }

    fn end_step(&self, entry: &Arc<DatabaseEntry>, pages: usize) -> Result<()> {
        let (what, log) = match self.info().kind {
            BackupKind::Log => ("RESTORE LOG", true),
            _ => ("RESTORE DATABASE ... FILE=<name>", false),
        };
        let watch = Watch::new(self.ex, "RESTORE DATABASE", self.options.stats());
        if self.ending == Ending::Recovery {
            recover(self.ex, entry)?;
        }
        let def = entry.def();
        let file = def.files.iter().find(|f| (f.filegroup == 0) == log);
        let file = file.map_or("", |f| f.logical_name.as_str());
        let count = match log {
            true => self.info().log_pages,
            false => pages as u64,
        };
        let position = self.info().position;
        say(
            self.ex,
            messages::error(4035, &[&count, &self.name, &file, &position]),
        )?;
        say(self.ex, watch.summary(what, count))
    }
}

fn load(ex: &Execution<'_>, entry: &DatabaseEntry) -> Result<(Progress, PageRoll)> {
    let def = entry.def();
    let progress = Progress::of(&def).ok_or_else(|| messages::error(3117, &[]))?;
    let path = progress.file(&def);
    let failed =
        |e: std::io::Error| messages::error(3203, &[&path.display(), &super::system_error(&e)]);
    let read = || {
        let file = ex.instance().env().disk.open(&path, OpenMode::ReadOnly)?;
        let len = usize::try_from(file.len()?).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(FILE_BYTES_MAX).saturating_sub(HEADER_BYTES)];
        file.read_at(&mut bytes, HEADER_BYTES as u64)?;
        Ok(bytes)
    };
    let roll = PageRoll::decode(&read().map_err(failed)?);
    let roll = roll.ok_or_else(|| failed(std::io::ErrorKind::InvalidData.into()))?;
    Ok((progress, roll))
}

/// Nothing but an older file with pages of the database gives way.
fn write_whole(disk: &Arc<dyn Disk>, path: &Path, guid: u64, bytes: &[u8]) -> Result<()> {
    let write = || {
        if disk.exists(path)? && is_own(disk.as_ref(), path, guid)? {
            disk.remove(path)?;
        }
        let file = disk.open(path, OpenMode::CreateNew)?;
        // First of all: whatever a crash leaves of the rest, this shows whose it is.
        file.write_at(&header(guid), 0)?;
        file.sync_data()?;
        file.write_at(bytes, HEADER_BYTES as u64)?;
        file.sync_data()?;
        path.parent().map_or(Ok(()), |dir| disk.sync_dir(dir))
    };
    write().map_err(|e| messages::error(3202, &[&path.display(), &super::system_error(&e)]))
}

/// RECOVERY: the pages go to the end of the log and into their places, and the database opens as after a crash.
pub(super) fn recover(ex: &Execution<'_>, entry: &Arc<DatabaseEntry>) -> Result<()> {
    let instance = ex.instance();
    let (progress, roll) = load(ex, entry)?;
    let (state, def) = (&progress.state, entry.def());
    let needs_log = || {
        let end = state.end_lsn;
        messages::error(4303, &[&end, &end])
    };
    check_path(&def, state)?;
    let from = Lsn(state.end_lsn);
    let mut pages = roll.ids();
    let mended = instance
        .engine()
        .mend_pages(state.guid, def.file_specs(), roll, from)?;
    let left = mended.ok_or_else(needs_log)?;
    pages.retain(|page| !left.contains(page));
    let kept = progress.file(&def);
    let (open, lines) = open_files(ex, &def)?;
    check_left(&open, &left).inspect_err(|_| {
        let _ = close_database(&open);
    })?;
    instance
        .change_database(entry, |def| {
            forget(def);
            def.offline = false;
            Ok(())
        })
        .inspect_err(|_| {
            // The next RECOVERY rolls the pages on through what this one has logged.
            let _ = close_database(&open);
        })?;
    entry.set_open(open);
    instance.plans.clear();
    let source = format!("spid{}", ex.spid());
    lines
        .iter()
        .for_each(|line| instance.log.write(&source, line));
    let _ = instance.env().disk.remove(&kept);
    suspect::restored(&ex.state.instance, entry.id().0, Some(&pages));
    for page in left {
        let text = format!(
            "Page {page} was left as it is: neither the backups nor the log have content for it."
        );
        say(ex, SqlError::new(0, 0, 1, text))?;
    }
    Ok(())
}

/// Error 3144 for a page that is in use, and that nothing has brought.
fn check_left(open: &OpenDatabase, left: &[PageId]) -> Result<()> {
    for page in left {
        if open.storage.is_lost(*page).map_err(SqlError::from)? {
            let text = format!(
                "Page {page} is in use, and neither the backups nor the log have content for it. The page cannot be restored from these backup sets."
            );
            return Err(SqlError::new(3144, 16, 3, text));
        }
    }
    Ok(())
}

fn forget(def: &mut DatabaseDef) {
    def.options.remove(PAGES);
    def.options.remove(RESTORING);
}

/// SET ONLINE: the pages under way are given up. No file of the database has changed for them, unless RECOVERY began to write
/// them, and what it writes is what the log makes of them too: it opens as if nobody had begun. False when none are under way.
pub(crate) fn take_back(ex: &Execution<'_>, entry: &Arc<DatabaseEntry>) -> Result<bool> {
    let before = entry.def();
    if !is_under_way(entry) {
        return Ok(false);
    }
    ex.change_database(entry, |def| {
        forget(def);
        def.offline = false;
        Ok(())
    })?;
    if let Some(kept) = file_of(&before) {
        let _ = ex.instance().env().disk.remove(&kept);
    }
    Ok(true)
}
