//! Files that are being made or deleted: what master says of them before it is done, and what a start makes of it.
//!
//! | master says | so the statement was cut short | the start |
//! |---|---|---|
//! | creating | CREATE DATABASE | deletes what was made, and the row |
//! | dropping | DROP DATABASE | deletes what is left when the other databases are recovered: they may have to ask its log |
//! | adding a file | ADD FILE | keeps the file when it is whole, since pages of it may be in use; else deletes it |
//! | a restore is under way | RESTORE | see `session::backup::under_way`, `session::backup::pages` |
//! | removing a file | REMOVE FILE | deletes it: it was empty, and the log behind the last checkpoint does not speak of it |
//!
//! Invariant: a start deletes a file only if master says that it was being made or deleted, and the file itself shows that it
//! is that one: it names the guid that master has written down, or has no content and no more space than it was to get.
//! Anything else may be somebody's data, is left, and is told in the error log.

use super::{ErrorLog, MSDB, stored_form};
use crate::error::Result;
use crate::session::{Settled, settle_pages, settle_restore};
use daruma_base::{Disk, Env};
use daruma_catalog::{Catalog, DatabaseDef, FileDef};
use daruma_storage::{FileTrace, Registration};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

const CREATING: &str = "DARUMA CREATING";
const DROPPING: &str = "DARUMA DROPPING";
const ADDING: &str = "DARUMA ADDING FILE";
const REMOVING: &str = "DARUMA REMOVING FILE";
/// Of a file whose size the definition does not say: the smallest ones are made larger than asked for.
const FILE_PAGES_MIN: u64 = 256;
const PAGE_BYTES: u64 = 8_192;

/// As whom the files of a database know it. Those of the system are what their ids say: master must be open before anybody
/// can know when it was created.
pub(crate) fn registration(def: &DatabaseDef) -> Registration {
    let created_utc = match def.id <= MSDB.0 {
        true => 0,
        false => def.created_utc,
    };
    Registration {
        database: def.id,
        created_utc,
    }
}

pub(crate) fn marked_creating(def: &DatabaseDef, guid: u64) -> DatabaseDef {
    marked(def, CREATING, format!("{guid:x}"))
}

pub(crate) fn marked_dropping(def: &DatabaseDef, guid: Option<u64>) -> DatabaseDef {
    let guid = guid.map_or(String::new(), |guid| format!("{guid:x}"));
    marked(def, DROPPING, guid)
}

/// `def` has the file already.
pub(crate) fn marked_adding(def: &DatabaseDef, file: u16, guid: u64) -> DatabaseDef {
    marked(def, ADDING, format!("{file} {guid:x}"))
}

/// `def` still has the file.
pub(crate) fn marked_removing(def: &DatabaseDef, file: u16, guid: u64) -> DatabaseDef {
    marked(def, REMOVING, format!("{file} {guid:x}"))
}

fn marked(def: &DatabaseDef, mark: &str, value: String) -> DatabaseDef {
    let mut def = def.clone();
    def.options.insert(mark.to_string(), value);
    def
}

pub(crate) fn is_dropping(def: &DatabaseDef) -> bool {
    def.options.contains_key(DROPPING)
}

fn guid_of(def: &DatabaseDef, mark: &str) -> Option<u64> {
    u64::from_str_radix(def.options.get(mark)?, 16).ok()
}

fn file_of(def: &DatabaseDef, mark: &str) -> Option<(u16, u64)> {
    let (file, guid) = def.options.get(mark)?.split_once(' ')?;
    Some((file.parse().ok()?, u64::from_str_radix(guid, 16).ok()?))
}

/// Deletes files that are what master says they are.
pub(crate) struct Cleaner<'a> {
    pub env: &'a Env,
    pub log: &'a ErrorLog,
    /// Source column of what is told.
    pub source: &'a str,
}

impl Cleaner<'_> {
    /// Decision of the start about a definition before its database is opened. `None`: there is no such database.
    pub fn settle(
        &self,
        catalog: &Catalog,
        data_dir: &Path,
        mut def: DatabaseDef,
    ) -> Result<Option<DatabaseDef>> {
        if def.options.contains_key(CREATING) {
            if self.remove_files(&def, guid_of(&def, CREATING)) {
                catalog.delete_database(def.id)?;
            }
            return Ok(None);
        }
        let before = def.clone();
        match settle_restore(self, data_dir, &mut def) {
            Settled::Database => {}
            Settled::Nothing { is_clean } => {
                if is_clean {
                    catalog.delete_database(def.id)?;
                }
                return Ok(None);
            }
        }
        settle_pages(self, &mut def);
        if let Some((id, guid)) = file_of(&def, ADDING) {
            self.settle_added(&mut def, id, guid)?;
        }
        if let Some((id, guid)) = file_of(&def, REMOVING) {
            self.take_file(&mut def, id, guid);
        }
        def.options.remove(ADDING);
        def.options.remove(REMOVING);
        if def != before {
            catalog.put_database(&stored_form(&def, data_dir))?;
        }
        Ok(Some(def))
    }

    fn settle_added(&self, def: &mut DatabaseDef, id: u16, guid: u64) -> Result<()> {
        let Some(file) = def.files.iter().find(|f| f.id == id) else {
            return Ok(());
        };
        let disk = self.env.disk.as_ref();
        let is_whole = daruma_storage::is_whole_data_file(disk, &file.path, id, guid);
        // One that cannot be read now may be in use: opening the database tells.
        if !is_whole.unwrap_or(true) {
            self.take_file(def, id, guid);
        }
        Ok(())
    }

    fn take_file(&self, def: &mut DatabaseDef, id: u16, guid: u64) {
        for file in def.files.iter().filter(|f| f.id == id) {
            self.remove(file, Some(guid));
        }
        def.files.retain(|f| f.id != id);
    }

    /// Ends a DROP DATABASE that was cut short. False while files of it are left.
    pub fn finish_drop(&self, def: &DatabaseDef) -> bool {
        self.remove_files(def, guid_of(def, DROPPING))
    }

    /// Deletes what can be deleted, durably. False when something is left that is to be deleted.
    pub fn remove_files(&self, def: &DatabaseDef, guid: Option<u64>) -> bool {
        let removed: Vec<bool> = def.files.iter().map(|f| self.remove(f, guid)).collect();
        let synced = sync_directories(self.env, def.files.iter().map(|f| &f.path));
        synced.is_ok() && !removed.contains(&false)
    }

    /// False when the file is to be deleted and cannot be.
    pub fn remove(&self, file: &FileDef, guid: Option<u64>) -> bool {
        let allocated = file.size_pages.max(FILE_PAGES_MIN) * PAGE_BYTES;
        self.remove_own(&file.path, |disk| {
            Ok(match FileTrace::read(disk, &file.path)? {
                FileTrace::Absent | FileTrace::Foreign => false,
                FileTrace::Of { guid: found } => Some(found) == guid,
                FileTrace::Unwritten { bytes } => bytes <= allocated,
            })
        })
    }

    /// Deletes a file that shows that it is the one in question. False when it is to be deleted and cannot be.
    pub fn remove_own(
        &self,
        path: &Path,
        is_own: impl FnOnce(&dyn Disk) -> io::Result<bool>,
    ) -> bool {
        let disk = self.env.disk.as_ref();
        let removed = disk.exists(path).and_then(|is_there| {
            if !is_there {
                return Ok(());
            }
            if is_own(disk)? {
                return disk.remove(path);
            }
            self.tell(&format!(
                "File '{}' was left where it is: nothing shows that it belongs to the statement that was cut short.",
                path.display()
            ));
            Ok(())
        });
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let path = path.display();
                self.tell(&format!("File '{path}' could not be deleted: {error}."));
                false
            }
            _ => true,
        }
    }

    fn tell(&self, text: &str) {
        self.log.write(self.source, text);
    }
}

/// Makes creations and removals of these files durable.
pub(crate) fn sync_directories<'a>(
    env: &Env,
    paths: impl Iterator<Item = &'a PathBuf>,
) -> io::Result<()> {
    let directories: BTreeSet<&Path> = paths.filter_map(|p| p.parent()).collect();
    directories
        .into_iter()
        .try_for_each(|directory| env.disk.sync_dir(directory))
}
