//! Files and filegroups of a database: added, changed and removed.

use super::exclusive::exclusive;
use super::{claim_files, edit, file_def, file_error, growth, next_file_id, pages, unique_files};
use crate::error::{Result, SqlError};
use crate::instance::left_behind::{Cleaner, marked_adding, marked_removing, sync_directories};
use crate::instance::{DatabaseEntry, DefaultSizes, OpenDatabase};
use crate::messages;
use crate::session::Execution;
use daruma_catalog::{DatabaseDef, FileDef, FilegroupDef, names_equal};
use daruma_syntax::ast::{FileSize, FileSpec, FilegroupChange};
use std::sync::Arc;

pub(super) fn add_files(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    files: &[FileSpec],
    filegroup: Option<&str>,
) -> Result<()> {
    let open = entry.open()?;
    let _no_backup = entry
        .backup
        .try_lock()
        .ok_or_else(|| messages::error(3023, &[]))?;
    for spec in files {
        add_file(ex, entry, &open, spec, filegroup)?;
    }
    Ok(())
}

/// Pages of the file may be in use before the definition of the database is stored with it: what a start finds of it then is
/// kept, if it is whole.
fn add_file(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    open: &OpenDatabase,
    spec: &FileSpec,
    filegroup: Option<&str>,
) -> Result<()> {
    let instance = ex.instance();
    let mut change = ex.begin_change(entry)?;
    let def = &mut change.def;
    let group = match filegroup {
        None => 1,
        Some(name) => def
            .filegroup_named(name)
            .map(|g| g.id)
            .ok_or_else(|| messages::error(1921, &[&"filegroup", &name]))?,
    };
    let id = free_file_id(def, open);
    let file = file_def(ex, &def.name, spec, id, group, "ndf")?;
    check_file_writable(def, &file)?;
    def.files.push(file.clone());
    unique_files(def)?;
    if instance.env().disk.exists(&file.path).unwrap_or(false) {
        return Err(messages::error(5170, &[&file.path.display()]));
    }
    let _claim = claim_files(ex, std::slice::from_ref(&file.path), &[])?;
    let guid = open.storage.guid();
    change.mark(&marked_adding(&change.def, id, guid))?;
    if let Err(error) = open.storage.add_file(file.spec()) {
        let source = format!("spid{}", ex.spid());
        let cleaner = Cleaner {
            env: instance.env(),
            log: &instance.log,
            source: &source,
        };
        if cleaner.remove(&file, Some(guid)) {
            change.give_up()?;
        }
        return Err(file_error(error));
    }
    change.store()
}

/// Error 5055 for a file of a filegroup that is READ_ONLY.
fn check_file_writable(def: &DatabaseDef, file: &FileDef) -> Result<()> {
    let mut groups = def.filegroups.iter();
    match groups.any(|g| g.id == file.filegroup && g.keeps_out()) {
        true => Err(messages::error(5055, &[&file.logical_name])),
        false => Ok(()),
    }
}

/// Not that of a file which is gone, as long as pages of that may be in memory.
fn free_file_id(def: &DatabaseDef, open: &OpenDatabase) -> u16 {
    let mut id = next_file_id(def);
    while open.storage.is_file_gone(id) {
        id += 1;
    }
    id
}

fn file_named<'a>(def: &'a DatabaseDef, name: &str) -> Result<&'a FileDef> {
    def.files
        .iter()
        .find(|f| names_equal(&f.logical_name, name))
        .ok_or_else(|| messages::error(5009, &[]))
}

/// REMOVE FILE: no page of it holds anything, and neither a restart nor a restore of the log will meet one that did.
pub(super) fn remove_file(ex: &Execution<'_>, entry: &DatabaseEntry, name: &str) -> Result<()> {
    let def = entry.def();
    let file = file_named(&def, name)?;
    if file.id <= 2 {
        return Err(messages::error(5020, &[]));
    }
    check_file_writable(&def, file)?;
    let open = entry.open()?;
    let _no_backup = entry
        .backup
        .try_lock()
        .ok_or_else(|| messages::error(3023, &[]))?;
    let was_closed = open.storage.close_file(file.id, true)?;
    let removed = remove_closed(ex, entry, &open, file);
    if removed.is_err() && !open.storage.is_file_gone(file.id) {
        open.storage.close_file(file.id, was_closed)?;
    }
    removed
}

fn remove_closed(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    open: &OpenDatabase,
    file: &FileDef,
) -> Result<()> {
    let instance = ex.instance();
    let not_empty = || messages::error(5042, &[&"file", &file.logical_name]);
    let def = entry.def();
    let holds_versions = def.version_store_filegroup == file.filegroup
        && open.storage.settings().accelerated_recovery;
    if holds_versions && !open.storage.has_room_beside(file.id) {
        return Err(not_empty());
    }
    clean(ex, open)?;
    if open.storage.content_pages(file.id)? > 0 || !open.storage.is_file_settled(file.id)? {
        return Err(not_empty());
    }
    let guid = open.storage.guid();
    let mut change = ex.begin_change(entry)?;
    check_file_writable(&change.def, file)?;
    change.mark(&marked_removing(&change.def, file.id, guid))?;
    open.storage.forget_file(file.id);
    let source = format!("spid{}", ex.spid());
    let cleaner = Cleaner {
        env: instance.env(),
        log: &instance.log,
        source: &source,
    };
    cleaner.remove(file, Some(guid));
    let _ = sync_directories(instance.env(), [&file.path].into_iter());
    change.def.files.retain(|f| f.id != file.id);
    // A differential backup says nothing of files that are gone since its base.
    crate::session::forget_differential_base(&mut change.def);
    change.store()
}

/// Dropped trees give their pages back, as far as nobody needs them.
pub(super) fn clean(ex: &Execution<'_>, open: &OpenDatabase) -> Result<()> {
    while open.storage.clean_versions()? {
        ex.check_cancel()?;
    }
    Ok(())
}

pub(super) fn modify_file(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    spec: &FileSpec,
) -> Result<()> {
    let wanted = spec.name.as_ref().map_or(String::new(), |n| n.text.clone());
    let mut change = ex.begin_change(entry)?;
    let def = &mut change.def;
    let file = def
        .files
        .iter()
        .find(|f| names_equal(&f.logical_name, &wanted))
        .ok_or_else(|| messages::error(5041, &[&wanted]))?;
    if spec.file_name.is_some() {
        return Err(messages::not_supported("MODIFY FILE with FILENAME"));
    }
    if spec.offline {
        return Err(messages::not_supported("MODIFY FILE with OFFLINE"));
    }
    check_file_writable(def, file)?;
    let mut file = file.clone();
    let open = entry.open()?;
    let live = open.storage.files();
    let live_pages = live
        .iter()
        .find(|f| f.spec.id == file.id)
        .map_or(file.size_pages, |f| f.size_pages);
    if let Some(size) = spec.size.and_then(FileSize::bytes).map(pages) {
        // Written sizes are whole megabytes mostly; the log's is cut to whole virtual files.
        if size <= live_pages.min(file.size_pages) {
            return Err(messages::error(5039, &[]));
        }
        file.size_pages = size;
    }
    if let Some(name) = &spec.new_name {
        file.logical_name = name.text.clone();
    }
    if spec.file_growth.is_some() {
        file.growth = growth(spec.file_growth, DefaultSizes::USER.growth_pages);
    }
    match spec.max_size {
        Some(FileSize::Unlimited) => file.max_pages = None,
        Some(size) => file.max_pages = size.bytes().map(pages),
        None => {}
    }
    if file
        .max_pages
        .is_some_and(|max| max < live_pages.max(file.size_pages))
    {
        return Err(messages::error(5040, &[&file.logical_name]));
    }
    let limits = file.spec();
    open.storage
        .modify_file(file.id, file.size_pages, limits.growth, limits.max_pages)?;
    def.files.retain(|f| f.id != file.id);
    def.files.push(file);
    def.files.sort_by_key(|f| f.id);
    change.store()
}

pub(super) fn add_filegroup(ex: &Execution<'_>, entry: &DatabaseEntry, name: &str) -> Result<()> {
    ex.change_database(entry, |def| {
        if def.filegroup_named(name).is_some() {
            return Err(SqlError::new(
                5035,
                16,
                1,
                format!(
                    "Filegroup '{name}' already exists in this database. Specify a different name or remove the conflicting filegroup if it is empty."
                ),
            ));
        }
        let id = def.filegroups.iter().map(|g| g.id).max().unwrap_or(1) + 1;
        def.filegroups.push(FilegroupDef {
            id,
            name: name.to_string(),
            is_default: false,
            read_only: false,
        });
        Ok(())
    })
}

pub(super) fn remove_filegroup(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    name: &str,
) -> Result<()> {
    ex.change_database(entry, |def| {
        let group = def
            .filegroup_named(name)
            .ok_or_else(|| messages::error(1921, &[&"filegroup", &name]))?;
        let id = group.id;
        if def.files.iter().any(|f| f.filegroup == id) {
            return Err(messages::error(5042, &[&"filegroup", &name]));
        }
        def.filegroups.retain(|g| g.id != id);
        Ok(())
    })
}

pub(super) fn modify_filegroup(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    name: &str,
    change: &FilegroupChange,
) -> Result<()> {
    let def = entry.def();
    let id = def
        .filegroup_named(name)
        .map(|g| g.id)
        .ok_or_else(|| messages::error(1921, &[&"filegroup", &name]))?;
    let mut alone = None;
    if matches!(
        change,
        FilegroupChange::ReadOnly | FilegroupChange::ReadWrite
    ) {
        // READ_WRITE is always possible: earlier versions took READ_ONLY for any filegroup, without effect.
        let read_only = *change == FilegroupChange::ReadOnly;
        if read_only && id == FilegroupDef::PRIMARY {
            return Err(messages::error(5047, &[]));
        }
        let is_accelerated = entry.open()?.storage.settings().accelerated_recovery;
        if read_only && is_accelerated && id == def.version_store_filegroup {
            let what = "READ_ONLY for the filegroup of the persistent version store";
            return Err(messages::not_supported(what));
        }
        alone = Some(exclusive(ex, entry, None)?);
    }
    if matches!(change, FilegroupChange::AutogrowAllFiles) {
        return Err(messages::not_supported("AUTOGROW_ALL_FILES"));
    }
    edit(ex, entry, |def| {
        for group in &mut def.filegroups {
            match change {
                FilegroupChange::Default => group.is_default = group.id == id,
                FilegroupChange::ReadOnly if group.id == id => group.read_only = true,
                FilegroupChange::ReadWrite if group.id == id => group.read_only = false,
                FilegroupChange::Rename(new_name) if group.id == id => {
                    group.name = new_name.text.clone()
                }
                _ => {}
            }
        }
    })?;
    drop(alone);
    Ok(())
}
