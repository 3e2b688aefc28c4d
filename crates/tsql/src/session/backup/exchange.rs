//! The files of a restore: written beside their names, exchanged with those that are there, and put right after a crash.
//!
//! | stopped while | found at the next start | done |
//! |---|---|---|
//! | writing | `NAME.restoring` | removed by the next restore |
//! | exchanging, or taking an exchange back | the definition says so | `NAME.replaced` becomes `NAME` again |
//! | done, not yet tidy | `NAME.replaced` beside `NAME` | removed |

use super::EXCHANGE;
use crate::error::Result;
use crate::messages;
use daruma_backup::Files;
use daruma_base::{Disk, Env};
use daruma_catalog::DatabaseDef;
use daruma_storage::FileSpec;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const RESTORED_AS: &str = "restoring";
const REPLACED_AS: &str = "replaced";

pub(super) fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// Where a restored file is before, while and after it takes its place.
pub(super) fn places_of(path: &Path) -> [PathBuf; 3] {
    [RESTORED_AS, REPLACED_AS, ""].map(|suffix| match suffix {
        "" => path.to_path_buf(),
        suffix => suffixed(path, suffix),
    })
}

pub(super) fn with_suffix(def: &DatabaseDef, suffix: &str) -> DatabaseDef {
    let mut def = def.clone();
    def.files
        .iter_mut()
        .for_each(|f| f.path = suffixed(&f.path, suffix));
    def
}

pub(super) fn paths_of(def: &DatabaseDef) -> Vec<PathBuf> {
    def.files.iter().map(|f| f.path.clone()).collect()
}

pub(super) fn files_of(def: &DatabaseDef) -> Files {
    let specs = def.file_specs();
    let (log, data): (Vec<_>, Vec<_>) = specs.into_iter().partition(|f| f.filegroup == 0);
    let none = || FileSpec {
        id: 2,
        filegroup: 0,
        logical_name: String::new(),
        path: PathBuf::new(),
        size_pages: 0,
        growth: daruma_storage::Growth::Pages(0),
        max_pages: None,
    };
    Files {
        data,
        log: log.into_iter().next().unwrap_or_else(none),
    }
}

pub(super) fn remove_all(disk: &Arc<dyn Disk>, def: &DatabaseDef) {
    for file in &def.files {
        // A file that is not there needs no removing.
        let _ = disk.remove(&file.path);
    }
}

pub(super) fn move_file(disk: &Arc<dyn Disk>, from: &Path, to: &Path) -> Result<()> {
    let moved = disk.rename(from, to).and_then(|()| match to.parent() {
        Some(dir) => disk.sync_dir(dir),
        None => Ok(()),
    });
    moved.map_err(|e| messages::error(3202, &[&to.display(), &super::system_error(&e)]))
}

/// New files in the place of old ones, and back.
pub(super) struct Exchange<'a> {
    pub disk: &'a Arc<dyn Disk>,
    pub old: Vec<PathBuf>,
    pub new: Vec<PathBuf>,
}

impl Exchange<'_> {
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        let only_new = self.new.iter().filter(|p| !self.old.contains(p));
        self.old.iter().chain(only_new)
    }

    /// Puts the restored files in the place of the old ones. A crash in between is ended at the next start.
    pub fn forward(&self) -> Result<()> {
        for path in self.all() {
            if self.disk.exists(path).unwrap_or(false) {
                move_file(self.disk, path, &suffixed(path, REPLACED_AS))?;
            }
        }
        let mut new = self.new.iter();
        new.try_for_each(|path| move_file(self.disk, &suffixed(path, RESTORED_AS), path))
    }

    /// The old files have their names again. On an error a power loss could bring some of the new ones back: the definition is
    /// to go on saying that files are being exchanged.
    pub fn back(&self) -> io::Result<()> {
        let mut outcome = Ok(());
        for path in self.all() {
            outcome = outcome.and(bring_back(self.disk.as_ref(), path));
            if !self.old.contains(path) && !self.was_there(path) {
                let _ = self.disk.remove(path);
            }
        }
        let folders: BTreeSet<&Path> = self.all().filter_map(|path| path.parent()).collect();
        let mut folders = folders.into_iter();
        outcome.and_then(|()| folders.try_for_each(|folder| self.disk.sync_dir(folder)))
    }

    /// After `bring_back` a file that was there before has taken its place again.
    fn was_there(&self, path: &Path) -> bool {
        self.disk.exists(path).unwrap_or(false) && !self.new.iter().any(|p| p == path)
    }

    /// Removes what was replaced; a file that stays is removed at the next start.
    pub fn tidy(&self) {
        for path in self.all() {
            let _ = self.disk.remove(&suffixed(path, REPLACED_AS));
        }
    }
}

fn bring_back(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let replaced = suffixed(path, REPLACED_AS);
    match disk.exists(&replaced)? {
        true => disk.rename(&replaced, path),
        false => Ok(()),
    }
}

/// At start: ends an exchange of files that a crash cut short. See the table above.
pub(crate) fn finish_interrupted_restore(env: &Env, def: &DatabaseDef) {
    let exchanging = def.options.contains_key(EXCHANGE);
    for path in paths_of(def) {
        if exchanging {
            // A failure shows when the database is opened; the next start tries again.
            let _ = bring_back(env.disk.as_ref(), &path);
        } else if env.disk.exists(&path).unwrap_or(false) {
            let _ = env.disk.remove(&suffixed(&path, REPLACED_AS));
        }
        let _ = env.disk.remove(&suffixed(&path, RESTORED_AS));
    }
}
