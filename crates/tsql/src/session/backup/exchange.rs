//! The files of a restore: written beside their names (`NAME.restoring`) and exchanged with those that are there, which are
//! `NAME.replaced` until the restored database stands. What a crash makes of it: `under_way`.

use crate::error::Result;
use crate::messages;
use daruma_backup::Files;
use daruma_base::Disk;
use daruma_catalog::DatabaseDef;
use daruma_storage::FileSpec;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const RESTORED_AS: &str = "restoring";
pub(super) const REPLACED_AS: &str = "replaced";

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
    disk: &'a Arc<dyn Disk>,
    old: Vec<PathBuf>,
    new: Vec<PathBuf>,
    /// Of the new ones, those in whose place there is something that is none of the old ones.
    there: Vec<PathBuf>,
}

impl Exchange<'_> {
    /// Notes what is in the place of the new files; nothing is moved yet.
    pub fn new(disk: &Arc<dyn Disk>, old: Vec<PathBuf>, new: Vec<PathBuf>) -> Exchange<'_> {
        let is_there =
            |p: &&PathBuf| disk.exists(p).unwrap_or(false) && !leads_to(disk.as_ref(), p, &old);
        let there = new.iter().filter(is_there).cloned().collect();
        Exchange {
            disk,
            old,
            new,
            there,
        }
    }

    /// Puts the restored files in the place of the old ones. A crash in between is ended at the next start.
    pub fn forward(&self) -> Result<()> {
        for path in self.old.iter().chain(&self.there) {
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
        let undo = Undo {
            disk: self.disk.as_ref(),
            old: &self.old,
            new: &self.new,
            there: &self.there,
        };
        let (mut outcome, left) = undo.names();
        for path in left {
            outcome = outcome.and(match self.disk.remove(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            });
        }
        let all = self.old.iter().chain(&self.new);
        let folders: BTreeSet<&Path> = all.filter_map(|path| path.parent()).collect();
        let mut folders = folders.into_iter();
        outcome.and_then(|()| folders.try_for_each(|folder| self.disk.sync_dir(folder)))
    }

    /// Removes what was replaced; a file that stays is removed at the next start.
    pub fn tidy(&self) {
        for path in self.old.iter().chain(&self.there) {
            let _ = self.disk.remove(&suffixed(path, REPLACED_AS));
        }
    }
}

/// An exchange to be taken back, however far it has come.
pub(super) struct Undo<'a> {
    pub disk: &'a dyn Disk,
    pub old: &'a [PathBuf],
    pub new: &'a [PathBuf],
    /// See [`Exchange`].
    pub there: &'a [PathBuf],
}

impl<'a> Undo<'a> {
    /// What was moved away gets its names back. The new names that are to be free then: what is there was restored.
    pub fn names(&self) -> (io::Result<()>, Vec<&'a PathBuf>) {
        let moved = self.old.iter().chain(self.there);
        let mut outcome = Ok(());
        for path in moved {
            outcome = outcome.and(bring_back(self.disk, path));
        }
        let is_left =
            |path: &&PathBuf| !self.there.contains(path) && !leads_to(self.disk, path, self.old);
        (outcome, self.new.iter().filter(is_left).collect())
    }
}

/// Is it one of these files, by whatever path?
fn leads_to(disk: &dyn Disk, path: &Path, files: &[PathBuf]) -> bool {
    let file = disk.identity(path);
    files.iter().any(|f| disk.identity(f) == file)
}

fn bring_back(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let replaced = suffixed(path, REPLACED_AS);
    match disk.exists(&replaced)? {
        true => disk.rename(&replaced, path),
        false => Ok(()),
    }
}
