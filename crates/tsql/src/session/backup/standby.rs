//! STANDBY: a database that waits for more backups and can be read meanwhile.
//!
//! Theory: the restored files stay as they are; recovery, with its rollback, runs over a disk that keeps every change in
//! the undo file ([`OverlayDisk`]). The next restore lets go of that and goes on with the files below. At the next start
//! of the server the recovery is repeated.

use super::exchange::files_of;
use super::options::Ending;
use super::restore::{require_exclusive, state_of};
use super::{STANDBY, system_error};
use crate::error::Result;
use crate::instance::{
    DatabaseEntry, FileClaim, IN_USE, OpenDatabase, close_database, recovery_lines,
};
use crate::messages;
use crate::session::Execution;
use daruma_base::{DatabaseId, Env};
use daruma_catalog::{Catalog, DatabaseDef};
use daruma_storage::{Engine, OverlayDisk, Settings};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the undo file of a standby database is.
pub(super) fn undo_file(def: &DatabaseDef) -> Option<PathBuf> {
    def.options.get(STANDBY).map(PathBuf::from)
}

/// The undo file of a database that is to stand by, for as long as the statement runs. What is there is replaced, but for
/// what is somebody's and for backups.
pub(super) fn claim_undo(
    ex: &Execution<'_>,
    entry: Option<&Arc<DatabaseEntry>>,
    ending: &Ending,
) -> Result<Option<FileClaim>> {
    let Ending::Standby(undo) = ending else {
        return Ok(None);
    };
    let refused = || messages::error(3201, &[&undo.display(), &IN_USE]);
    let own = entry.and_then(|e| undo_file(&e.def()));
    let instance = ex.instance();
    let claim = instance
        .claim_files(std::slice::from_ref(undo), own.as_slice())
        .map_err(|_| refused())?;
    let disk = instance.env().disk.as_ref();
    match daruma_backup::is_backup(disk, undo) {
        Ok(false) => Ok(Some(claim)),
        Ok(true) => Err(refused()),
        Err(error) => Err(messages::error(
            3201,
            &[&undo.display(), &system_error(&error)],
        )),
    }
}

/// Opens the restored files of a standby database read-only. Lines for the error log.
pub(crate) fn open_files(
    engine: &Arc<Engine>,
    def: &DatabaseDef,
) -> Result<(OpenDatabase, Vec<String>)> {
    let undo = undo_file(def).unwrap_or_default();
    let overlay = OverlayDisk::create(&engine.env().disk, &undo)
        .map_err(|e| messages::error(5123, &[&system_error(&e), &undo.display()]))?;
    let env = Env {
        disk: Arc::new(overlay),
        ..engine.env().clone()
    };
    // After a backup of the tail of the log the files are a database as they are.
    if let Some(state) = state_of(def) {
        daruma_backup::write_boot(&env, &files_of(def), &state).map_err(super::sql_error)?;
    }
    let id = DatabaseId(def.id);
    let (storage, report) =
        engine.open_database_on(env.disk.clone(), id, &def.name, def.file_specs())?;
    let lines = recovery_lines(&def.name, def.id, &storage.settings(), &report);
    let settings = Settings {
        read_only: true,
        ..storage.settings()
    };
    let catalog = Catalog::open(&storage)?;
    storage.set_settings(settings)?;
    let catalog = Arc::new(catalog);
    Ok((OpenDatabase { storage, catalog }, lines))
}

/// Makes a database that waits for more backups readable.
pub(super) fn enter(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    undo: &Path,
) -> Result<Vec<String>> {
    // Master knows of the undo file before it is there: whatever comes, it is somebody's.
    note_undo(ex, entry, Some(undo))?;
    let opened = open_files(ex.instance().engine(), &entry.def());
    let (open, lines) = opened.inspect_err(|_| {
        let _ = ex.instance().env().disk.remove(undo);
        let _ = note_undo(ex, entry, None);
    })?;
    entry.set_open(open);
    ex.instance().plans.clear();
    Ok(lines)
}

/// Says in the definition where the undo file is.
fn note_undo(ex: &Execution<'_>, entry: &DatabaseEntry, undo: Option<&Path>) -> Result<()> {
    ex.instance().change_database(entry, |def| {
        match undo {
            Some(undo) => def
                .options
                .insert(STANDBY.into(), undo.display().to_string()),
            None => def.options.remove(STANDBY),
        };
        Ok(())
    })
}

/// Before the next restore: nobody may be in the database, and the files are again as the last one left them. What it takes
/// to come back if that restore fails.
pub(super) fn leave(ex: &Execution<'_>, entry: &Arc<DatabaseEntry>) -> Result<Option<PathBuf>> {
    let Some(undo) = undo_file(&entry.def()) else {
        return Ok(None);
    };
    let _alone = require_exclusive(ex, entry)?;
    note_undo(ex, entry, None)?;
    if let Some(open) = entry.take_open() {
        // Its writes are about to be forgotten.
        let _ = close_database(&open);
    }
    ex.instance().plans.clear();
    let _ = ex.instance().env().disk.remove(&undo);
    Ok(Some(undo))
}

/// Runs a step of a restore on a database that may be standing by. After a failure it stands by again.
pub(super) fn around<T>(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    step: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let undo = leave(ex, entry)?;
    let result = step();
    if let (Err(_), Some(undo)) = (&result, undo)
        && entry.is_restoring()
        && let Err(error) = enter(ex, entry, &undo)
    {
        entry.set_failed(error.message);
    }
    result
}
