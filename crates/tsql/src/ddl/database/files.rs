//! Files and filegroups of a database: added, changed and removed.

use super::{claim_files, edit, file_def, file_error, growth, next_file_id, pages, unique_files};
use crate::error::{Result, SqlError};
use crate::instance::{DatabaseEntry, DefaultSizes};
use crate::messages;
use crate::session::Execution;
use daruma_catalog::{FilegroupDef, names_equal};
use daruma_syntax::ast::{FileSize, FileSpec, FilegroupChange};

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
        let mut def = (*entry.def()).clone();
        let group = match filegroup {
            None => 1,
            Some(name) => def
                .filegroup_named(name)
                .map(|g| g.id)
                .ok_or_else(|| messages::error(1921, &[&"filegroup", &name]))?,
        };
        let file = file_def(ex, &def.name, spec, next_file_id(&def), group, "ndf")?;
        def.files.push(file.clone());
        unique_files(&def)?;
        if ex.instance().env().disk.exists(&file.path).unwrap_or(false) {
            return Err(messages::error(5170, &[&file.path.display()]));
        }
        let _claim = claim_files(ex, std::slice::from_ref(&file.path))?;
        open.storage.add_file(file.spec()).map_err(file_error)?;
        ex.instance().save_database(entry, def)?;
    }
    Ok(())
}

pub(super) fn remove_file(entry: &DatabaseEntry, name: &str) -> Result<()> {
    let def = entry.def();
    let file = def
        .files
        .iter()
        .find(|f| names_equal(&f.logical_name, name))
        .ok_or_else(|| messages::error(5009, &[]))?;
    match file.id {
        1 | 2 => Err(messages::error(5020, &[])),
        _ => Err(messages::error(5042, &[&"file", &name])),
    }
}

pub(super) fn modify_file(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    spec: &FileSpec,
) -> Result<()> {
    let wanted = spec.name.as_ref().map_or(String::new(), |n| n.text.clone());
    let def = entry.def();
    let file = def
        .files
        .iter()
        .find(|f| names_equal(&f.logical_name, &wanted))
        .ok_or_else(|| messages::error(5041, &[&wanted]))?;
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
    edit(ex, entry, |def| {
        def.files.retain(|f| f.id != file.id);
        def.files.push(file.clone());
        def.files.sort_by_key(|f| f.id);
    })
}

pub(super) fn add_filegroup(ex: &Execution<'_>, entry: &DatabaseEntry, name: &str) -> Result<()> {
    if entry.def().filegroup_named(name).is_some() {
        return Err(SqlError::new(
            5035,
            16,
            1,
            format!(
                "Filegroup '{name}' already exists in this database. Specify a different name or remove the conflicting filegroup if it is empty."
            ),
        ));
    }
    edit(ex, entry, |def| {
        let id = def.filegroups.iter().map(|g| g.id).max().unwrap_or(1) + 1;
        def.filegroups.push(FilegroupDef {
            id,
            name: name.to_string(),
            is_default: false,
            read_only: false,
        });
    })
}

pub(super) fn remove_filegroup(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    name: &str,
) -> Result<()> {
    let def = entry.def();
    let group = def
        .filegroup_named(name)
        .ok_or_else(|| messages::error(1921, &[&"filegroup", &name]))?;
    if def.files.iter().any(|f| f.filegroup == group.id) {
        return Err(messages::error(5042, &[&"filegroup", &name]));
    }
    let id = group.id;
    edit(ex, entry, |def| def.filegroups.retain(|g| g.id != id))
}

pub(super) fn modify_filegroup(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    name: &str,
    change: &FilegroupChange,
) -> Result<()> {
    let def = entry.def();
    let id = def
        .filegroup_named(name)
        .map(|g| g.id)
        .ok_or_else(|| messages::error(1921, &[&"filegroup", &name]))?;
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
    })
}
