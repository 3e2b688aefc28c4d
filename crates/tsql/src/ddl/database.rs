//! CREATE, ALTER and DROP DATABASE. Not part of any transaction: done at once and recorded in master.
//!
//! Order of a creation: master's row with a mark, files, master's row as it stays; of a drop: the mark, no files, no row. A
//! start that finds a mark ends what was begun (`instance::left_behind`).

mod emptying;
mod exclusive;
mod files;
mod options;

pub(crate) use emptying::empty_file;
pub(crate) use exclusive::unused;

use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::instance::left_behind::{
    Cleaner, marked_creating, marked_dropping, registration, sync_directories,
};
use crate::instance::{
    DatabaseEntry, DefaultSizes, FileClaim, FileOwner, NameClaim, OpenDatabase, Shut, absolute,
    file_stem, simple_def, stored_form,
};
use crate::messages;
use crate::session::Execution;
use daruma_base::DatabaseId;
use daruma_catalog::{Catalog, DatabaseDef, FileDef, FileGrowth, FilegroupDef, names_equal};
use daruma_storage::{FileTrace, Settings, StorageError};
use daruma_syntax::ast::{self, AlterDatabaseAction, FileSize, FileSpec, Termination};
use daruma_value::CollationId;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a page, for sizes.
const PAGE_BYTES: u64 = 8_192;

/// CREATE DATABASE. Nobody drops the login that will own it meanwhile.
pub(crate) fn create(ex: &Execution<'_>, statement: &ast::CreateDatabase) -> Result<()> {
    let name = &statement.name.text;
    // Before the login: who waits for the name, which a restore may have for long, keeps nobody from changing it.
    let claim = ex.instance().claim_names(&[name], &ex.patience())?;
    ex.atomic(|| {
        ex.lock_new_owner()?;
        ex.may_create_database(statement)?;
        create_with(ex, statement, &claim)
    })
}

fn create_with(
    ex: &Execution<'_>,
    statement: &ast::CreateDatabase,
    claim: &NameClaim<'_>,
) -> Result<()> {
    let instance = ex.instance();
    let name = &statement.name.text;
    if statement.snapshot_of.is_some() || statement.attach.is_some() {
        return Err(messages::not_supported("database snapshots and FOR ATTACH"));
    }
    if instance.database_named(name).is_some() {
        return Err(messages::error_state(1801, 3, &[name]));
    }
    let is_partial = |c: &String| !c.eq_ignore_ascii_case("NONE");
    if statement.containment.as_ref().is_some_and(is_partial) {
        return Err(messages::not_supported("CONTAINMENT"));
    }
    let mut def = definition(ex, statement, claim.free_id())?;
    for option in &statement.options {
        options::set_at_creation(&mut def, option)?;
    }
    check_files(ex, &def)?;
    let paths: Vec<PathBuf> = def.files.iter().map(|f| f.path.clone()).collect();
    let _claim = claim_files(ex, &paths, &[])
        .map_err(|e| e.followed(messages::error_state(1802, 4, &[])))?;
    let guid = instance.env().random.u64();
    let master = instance.master_catalog()?;
    master.put_database(&stored_form(
        &marked_creating(&def, guid),
        instance.data_dir(),
    ))?;
    let open = create_files(ex, &def, guid).inspect_err(|_| undo_creation(ex, &def, guid))?;
    let entry = Arc::new(DatabaseEntry::new(def.clone()));
    entry.set_open(open);
    if let Err(error) = instance.store_database(&entry, def) {
        remove_files(ex, &entry);
        return Err(error);
    }
    instance.insert_database(entry.clone());
    instance.log.write(
        &format!("spid{}", ex.spid()),
        &messages::error(17137, &[name]).message,
    );
    Ok(())
}

/// Takes back what a creation has made before it failed. What cannot be taken back now is at the next start.
fn undo_creation(ex: &Execution<'_>, def: &DatabaseDef, guid: u64) {
    let instance = ex.instance();
    let source = format!("spid{}", ex.spid());
    let cleaner = Cleaner {
        env: instance.env(),
        log: &instance.log,
        source: &source,
    };
    if cleaner.remove_files(def, Some(guid))
        && let Ok(master) = instance.master_catalog()
    {
        let _ = master.delete_database(def.id);
    }
}

fn definition(ex: &Execution<'_>, statement: &ast::CreateDatabase, id: u16) -> Result<DatabaseDef> {
    let instance = ex.instance();
    let name = &statement.name.text;
    let mut def = simple_def(
        id,
        name,
        instance.data_dir(),
        DefaultSizes::USER,
        instance.now_utc(),
    );
    for log in def.files.iter_mut().filter(|file| file.filegroup == 0) {
        let name = log.path.file_name().unwrap_or_default();
        log.path = instance.log_dir().join(name);
    }
    ex.own(&mut def);
    if let Some(collation) = &statement.collation {
        def.collation = CollationId::from_name(&collation.text)
            .ok_or_else(|| messages::error(448, &[&collation.text]))?;
    }
    if !statement.filegroups.is_empty() {
        data_files(ex, &mut def, statement)?;
    }
    if !statement.log.is_empty() {
        def.files.retain(|f| f.filegroup != 0);
        for (at, spec) in statement.log.iter().enumerate() {
            let id = if at == 0 { 2 } else { next_file_id(&def) };
            let file = file_def(ex, name, spec, id, 0, "ldf")?;
            def.files.push(file);
        }
        if statement.log.len() > 1 {
            return Err(messages::not_supported("several log files"));
        }
    }
    def.files.sort_by_key(|f| f.id);
    unique_files(&def)?;
    Ok(def)
}

fn data_files(
    ex: &Execution<'_>,
    def: &mut DatabaseDef,
    statement: &ast::CreateDatabase,
) -> Result<()> {
    def.files.retain(|f| f.filegroup == 0);
    for group in &statement.filegroups {
        let group_id = match &group.name {
            None => 1,
            Some(name) if name.is("PRIMARY") => 1,
            Some(name) => {
                let id = def.filegroups.iter().map(|g| g.id).max().unwrap_or(1) + 1;
                def.filegroups.push(FilegroupDef {
                    id,
                    name: name.text.clone(),
                    is_default: false,
                    read_only: false,
                });
                id
            }
        };
        if group.default {
            def.filegroups
                .iter_mut()
                .for_each(|g| g.is_default = g.id == group_id);
        }
        for spec in &group.files {
            let primary = !def.files.iter().any(|f| f.id == 1);
            let id = if primary { 1 } else { next_file_id(def) };
            let file = file_def(
                ex,
                &def.name,
                spec,
                id,
                group_id,
                if primary { "mdf" } else { "ndf" },
            )?;
            def.files.push(file);
        }
    }
    Ok(())
}

fn next_file_id(def: &DatabaseDef) -> u16 {
    def.files.iter().map(|f| f.id).max().unwrap_or(2).max(2) + 1
}

fn file_def(
    ex: &Execution<'_>,
    database: &str,
    spec: &FileSpec,
    id: u16,
    filegroup: u16,
    extension: &str,
) -> Result<FileDef> {
    let logical_name = spec
        .name
        .as_ref()
        .map_or(database.to_string(), |n| n.text.clone());
    let path = match &spec.file_name {
        Some(path) => local_path(ex, path),
        None => {
            let folder = match filegroup {
                0 => ex.instance().log_dir(),
                _ => ex.instance().data_dir(),
            };
            folder.join(format!("{}.{extension}", file_stem(&logical_name)))
        }
    };
    let default = DefaultSizes::USER;
    let default_size = if filegroup == 0 {
        default.log_pages
    } else {
        default.data_pages
    };
    let size_pages = spec
        .size
        .and_then(FileSize::bytes)
        .map_or(default_size, pages);
    Ok(FileDef {
        id,
        filegroup,
        logical_name,
        path,
        size_pages: size_pages.max(128),
        growth: growth(spec.file_growth, default.growth_pages),
        max_pages: spec.max_size.and_then(FileSize::bytes).map(pages),
    })
}

/// A path as written; one from another operating system keeps its file name only.
pub(crate) fn local_path(ex: &Execution<'_>, path: &str) -> PathBuf {
    local_path_in(path, ex.instance().data_dir())
}

/// The same for files that lie in `folder` where none is named.
pub(crate) fn local_path_in(path: &str, folder: &Path) -> PathBuf {
    let foreign = path.contains('\\') || path.as_bytes().get(1) == Some(&b':');
    let local = match foreign {
        true => path.rsplit(['\\', '/']).next().unwrap_or(path),
        false => path,
    };
    absolute(&PathBuf::from(local), folder)
}

fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES)
}

fn growth(written: Option<FileSize>, default_pages: u32) -> FileGrowth {
    match written {
        None => FileGrowth::Pages(default_pages),
        Some(FileSize::Percent(percent)) => FileGrowth::Percent(percent.min(100) as u8),
        Some(size) => {
            FileGrowth::Pages(u32::try_from(pages(size.bytes().unwrap_or(0))).unwrap_or(u32::MAX))
        }
    }
}

/// Logical names and paths of one database differ.
fn unique_files(def: &DatabaseDef) -> Result<()> {
    for (at, file) in def.files.iter().enumerate() {
        for other in def.files.iter().skip(at + 1) {
            if names_equal(&file.logical_name, &other.logical_name) {
                return Err(messages::error(1828, &[&file.logical_name]));
            }
            if file.path == other.path {
                return Err(messages::error(1834, &[&file.path.display(), &def.name]));
            }
        }
    }
    Ok(())
}

fn check_files(ex: &Execution<'_>, def: &DatabaseDef) -> Result<()> {
    for file in &def.files {
        if ex.instance().env().disk.exists(&file.path).unwrap_or(false) {
            let exists = messages::error(5170, &[&file.path.display()]);
            return Err(exists.followed(messages::error_state(1802, 4, &[])));
        }
    }
    Ok(())
}

/// Files to be made, or removed: 1834 and 5170 for those that are somebody's, beside `allowed`.
fn claim_files(ex: &Execution<'_>, paths: &[PathBuf], allowed: &[PathBuf]) -> Result<FileClaim> {
    let claimed = ex.instance().claim_files(paths, allowed);
    claimed.map_err(|(path, owner)| match owner {
        FileOwner::Database(name) => messages::error(1834, &[&path.display(), &name]),
        FileOwner::Server | FileOwner::Statement => messages::error(5170, &[&path.display()]),
    })
}

fn create_files(ex: &Execution<'_>, def: &DatabaseDef, guid: u64) -> Result<OpenDatabase> {
    let instance = ex.instance();
    let model = instance
        .open_database(crate::instance::MODEL)?
        .storage
        .settings();
    let settings = Settings {
        recovery_model: model.recovery_model,
        ..Settings::default()
    };
    let created = instance.engine().create_database_as(
        DatabaseId(def.id),
        &def.name,
        def.file_specs(),
        settings,
        guid,
        registration(def),
    );
    let storage = created.map_err(creation_error)?;
    let catalog = Catalog::create(&storage).map(Arc::new);
    match catalog {
        Ok(catalog) => Ok(OpenDatabase { storage, catalog }),
        Err(error) => {
            let _ = storage.close();
            Err(error.into())
        }
    }
}

fn creation_error(error: StorageError) -> SqlError {
    file_error(error).followed(messages::error_state(1802, 4, &[]))
}

/// A file that could not be made.
fn file_error(error: StorageError) -> SqlError {
    match &error {
        StorageError::Io { path, source, .. } => messages::error(5123, &[&source, &path.display()]),
        _ => SqlError::from(error),
    }
}

pub(crate) fn drop(ex: &Execution<'_>, name: &str) -> Result<()> {
    let instance = ex.instance();
    let claim = instance.claim_names(&[name], &ex.patience())?;
    let absent = || messages::error_state(3701, 1, &[&"drop", &"database", &name]);
    let entry = instance.database_named(name).ok_or_else(absent)?;
    if entry.is_system() {
        return Err(messages::error_state(
            3708,
            4,
            &[&"drop", &"database", &name, &"database"],
        ));
    }
    entry.check_recovered()?;
    if instance.hadr.group_of_database(name).is_some() {
        return Err(messages::error(3752, &[&entry.name()]));
    }
    let in_use = || messages::error_state(3702, 3, &[&name]);
    if ex.current_database() == entry.id() {
        return Err(in_use());
    }
    let _alone = exclusive::unused(ex, &entry)?.ok_or_else(in_use)?;
    let master = instance.master_catalog()?;
    let change = ex.begin_change(&entry)?;
    let guid = guid_of(ex, &entry);
    let paths: Vec<PathBuf> = change.def.files.iter().map(|f| f.path.clone()).collect();
    // Nobody else makes files in their places before they are gone.
    let _files = claim_files(ex, &paths, &paths)?;
    claim.keep_id(entry.id().0);
    change.mark(&marked_dropping(&change.def, guid))?;
    change.end_database();
    instance.remove_database(entry.id());
    remove_files(ex, &entry);
    guid.iter()
        .for_each(|guid| instance.engine().forget_database(*guid));
    master.delete_database(entry.id().0)?;
    crate::session::forget_suspects(&ex.state.instance, entry.id().0);
    Ok(())
}

/// By which the files of a database show that they are its own.
fn guid_of(ex: &Execution<'_>, entry: &DatabaseEntry) -> Option<u64> {
    if let Some(open) = entry.held() {
        return Some(open.storage.guid());
    }
    let def = entry.def();
    let primary = def.files.iter().find(|f| f.id == 1)?;
    let disk = &ex.instance().env().disk;
    match FileTrace::read(disk.as_ref(), &primary.path) {
        Ok(FileTrace::Of { guid }) => Some(guid),
        _ => None,
    }
}

/// Closes and deletes the files; what cannot be deleted is logged and left.
fn remove_files(ex: &Execution<'_>, entry: &DatabaseEntry) {
    let instance = ex.instance();
    if let Some(open) = entry.take_open() {
        let _ = open.storage.close();
    }
    let def = entry.def();
    let beside = crate::session::files_beside(&def);
    let paths = def.files.iter().map(|f| &f.path).chain(&beside);
    for path in paths {
        if let Err(error) = instance.env().disk.remove(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            instance.log.write(
                &format!("spid{}", ex.spid()),
                &format!("File '{}' could not be deleted: {error}.", path.display()),
            );
        }
    }
    // Before the row that names them goes. A directory that cannot be synced leaves the rest to the next start.
    let _ = sync_directories(instance.env(), def.files.iter().map(|f| &f.path));
}

pub(crate) fn alter(ex: &Execution<'_>, statement: &ast::AlterDatabase) -> Result<()> {
    let instance = ex.instance();
    let entry = match &statement.name {
        None => instance.database(ex.current_database()),
        Some(name) => instance.database_named(&name.text),
    };
    let name = statement
        .name
        .as_ref()
        .map_or(String::new(), |n| n.text.clone());
    let entry = entry.ok_or_else(|| {
        messages::error_state(5011, 5, &[&name]).followed(messages::error(5069, &[]))
    })?;
    let failed = |mut e: SqlError| {
        ex.name_database(&mut e, &entry.name());
        match e.number {
            5069 => e,
            _ => e.followed(messages::error(5069, &[])),
        }
    };
    if entry.is_standby() {
        return Err(failed(messages::error(5004, &[])));
    }
    entry.check_recovered().map_err(failed)?;
    entry.check_changeable(ex.spid()).map_err(failed)?;
    change(ex, &entry, &statement.action).map_err(failed)
}

fn change(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    action: &AlterDatabaseAction,
) -> Result<()> {
    match action {
        AlterDatabaseAction::Set {
            options,
            termination,
        } => options::set_options(ex, entry, options, *termination),
        AlterDatabaseAction::ModifyName(name) => {
            options::entry_alone(ex, entry)?;
            rename(ex, entry, &name.text)
        }
        AlterDatabaseAction::Collate(collation) => {
            let id = CollationId::from_name(&collation.text)
                .ok_or_else(|| messages::error(448, &[&collation.text]))?;
            edit(ex, entry, |def| def.collation = id)
        }
        AlterDatabaseAction::AddFile { files, filegroup } => files::add_files(
            ex,
            entry,
            files,
            filegroup.as_ref().map(|g| g.text.as_str()),
        ),
        AlterDatabaseAction::AddLogFile(_) => Err(messages::not_supported("several log files")),
        AlterDatabaseAction::RemoveFile(name) => files::remove_file(ex, entry, &name.text),
        AlterDatabaseAction::ModifyFile(spec) => files::modify_file(ex, entry, spec),
        AlterDatabaseAction::AddFilegroup { name, contains } => match contains {
            Some(what) => Err(messages::not_supported(what)),
            None => files::add_filegroup(ex, entry, &name.text),
        },
        AlterDatabaseAction::RemoveFilegroup(name) => {
            files::remove_filegroup(ex, entry, &name.text)
        }
        AlterDatabaseAction::ModifyFilegroup { name, change } => {
            files::modify_filegroup(ex, entry, &name.text, change)
        }
        AlterDatabaseAction::ScopedConfiguration { option, clear, .. } => {
            let value = if *clear {
                None
            } else {
                options::option_value(&option.value)
            };
            let key = format!("SCOPED {}", option.name);
            edit(ex, entry, |def| match value {
                Some(text) => drop_value(def.options.insert(key, text)),
                None => drop_value(def.options.remove(&key)),
            })
        }
        AlterDatabaseAction::Modify(_) => {
            Err(messages::not_supported("MODIFY of the cloud product"))
        }
    }
}

fn drop_value(_old: Option<String>) {}

/// Changes the stored definition.
fn edit(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    change: impl FnOnce(&mut DatabaseDef),
) -> Result<()> {
    ex.change_database(entry, |def| {
        change(def);
        Ok(())
    })
}

/// The database for this session alone, and a claim on its name and perhaps on another one. Whoever has that is not waited for while
/// others wait for the database: he may be in it.
fn alone_with_name<'e>(
    ex: &'e Execution<'_>,
    entry: &'e DatabaseEntry,
    other: Option<&str>,
    termination: Option<Termination>,
) -> Result<(Shut<'e>, NameClaim<'e>)> {
    let at_once = || Err(messages::error(1222, &[]));
    let patience = ex.patience();
    loop {
        let alone = exclusive::exclusive(ex, entry, termination)?;
        let name = entry.name();
        let names: Vec<&str> = std::iter::once(name.as_str()).chain(other).collect();
        if let Ok(claim) = ex.instance().claim_names(&names, &at_once) {
            return Ok((alone, claim));
        }
        std::mem::drop(alone);
        std::mem::drop(ex.instance().claim_names(&names, &patience)?);
    }
}

fn rename(ex: &Execution<'_>, entry: &Arc<DatabaseEntry>, new_name: &str) -> Result<()> {
    if entry.is_system() {
        return Err(messages::error(
            3708,
            &[&"rename", &"database", &entry.name(), &"database"],
        ));
    }
    let check_free = || {
        let other = ex.instance().database_named(new_name);
        match other.is_some_and(|other| other.id() != entry.id()) {
            true => Err(messages::error_state(1801, 3, &[&new_name])),
            false => Ok(()),
        }
    };
    check_free()?;
    let (_alone, _claim) = alone_with_name(ex, entry, Some(new_name), None)?;
    check_free()?;
    entry.open()?.storage.rename(new_name);
    edit(ex, entry, |def| def.name = new_name.to_string())?;
    ex.message(SqlError::new(
        0,
        0,
        1,
        format!("The database name '{new_name}' has been set."),
    ));
    Ok(())
}
