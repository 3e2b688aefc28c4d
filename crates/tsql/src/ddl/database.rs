//! CREATE, ALTER and DROP DATABASE. Not part of any transaction: done at once and recorded in master.
//!
//! Order of a creation: files, then master's row. Whatever stops it before the row leaves files that the statement
//! itself removes again (or that a later CREATE reports as existing, error 5170).

use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::instance::{DatabaseEntry, DefaultSizes, OpenDatabase, absolute, file_stem, simple_def};
use crate::messages;
use crate::session::Execution;
use daruma_base::{DatabaseId, cancel::CancelReason};
use daruma_catalog::{
    Catalog, DatabaseDef, FileDef, FileGrowth, FilegroupDef, UserAccess, names_equal,
};
use daruma_storage as storage;
use daruma_storage::{Settings, StorageError};
use daruma_syntax::ast::{
    self, AlterDatabaseAction, DatabaseOption, DatabaseState, FileSize, FileSpec, FilegroupChange,
    OptionValue, Termination,
};
use daruma_value::CollationId;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a page, for sizes.
const PAGE_BYTES: u64 = 8_192;
/// How long WITH ROLLBACK waits for the sessions it ended to leave.
const EXCLUSIVE_WAIT: Duration = Duration::from_secs(20);
const EXCLUSIVE_STEP: Duration = Duration::from_millis(5);

pub(crate) fn create(ex: &Execution<'_>, statement: &ast::CreateDatabase) -> Result<()> {
    let instance = ex.instance();
    let _one_at_a_time = instance.database_ddl.lock();
    let name = &statement.name.text;
    if statement.snapshot_of.is_some() || statement.attach.is_some() {
        return Err(messages::not_supported("database snapshots and FOR ATTACH"));
    }
    if instance.database_named(name).is_some() {
        return Err(messages::error_state(1801, 3, &[name]));
    }
    let def = definition(ex, statement)?;
    check_files(ex, &def)?;
    let open = create_files(ex, &def)?;
    let entry = Arc::new(DatabaseEntry::new(def.clone()));
    entry.set_open(open);
    instance.insert_database(entry.clone());
    if let Err(error) = instance.save_database(&entry, def.clone()) {
        instance.remove_database(entry.id());
        remove_files(ex, &entry);
        return Err(error);
    }
    instance.log.write(
        &format!("spid{}", ex.spid()),
        &messages::error(17137, &[name]).message,
    );
    Ok(())
}

fn definition(ex: &Execution<'_>, statement: &ast::CreateDatabase) -> Result<DatabaseDef> {
    let instance = ex.instance();
    let name = &statement.name.text;
    let mut def = simple_def(
        instance.free_database_id(),
        name,
        instance.data_dir(),
        DefaultSizes::USER,
        instance.now_utc(),
    );
    def.owner = instance
        .sessions
        .get(ex.spid())
        .map_or("sa".to_string(), |s| s.login.login.clone());
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
        None => ex
            .instance()
            .data_dir()
            .join(format!("{}.{extension}", file_stem(&logical_name))),
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
    let foreign = path.contains('\\') || path.as_bytes().get(1) == Some(&b':');
    let local = match foreign {
        true => path.rsplit(['\\', '/']).next().unwrap_or(path),
        false => path,
    };
    absolute(&PathBuf::from(local), ex.instance().data_dir())
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

fn create_files(ex: &Execution<'_>, def: &DatabaseDef) -> Result<OpenDatabase> {
    let instance = ex.instance();
    let model = instance
        .open_database(crate::instance::MODEL)?
        .storage
        .settings();
    let settings = Settings {
        recovery_model: model.recovery_model,
        ..Settings::default()
    };
    let created = instance.engine().create_database(
        DatabaseId(def.id),
        &def.name,
        def.file_specs(),
        settings,
    );
    let storage = created.map_err(|e| creation_error(def, e))?;
    let catalog = Catalog::create(&storage).map(Arc::new);
    match catalog {
        Ok(catalog) => Ok(OpenDatabase { storage, catalog }),
        Err(error) => {
            let _ = storage.close();
            Err(error.into())
        }
    }
}

fn creation_error(def: &DatabaseDef, error: StorageError) -> SqlError {
    let first = match &error {
        StorageError::Io { path, source, .. } => messages::error(5123, &[&source, &path.display()]),
        _ => SqlError::from(error),
    };
    let _ = def;
    first.followed(messages::error_state(1802, 4, &[]))
}

pub(crate) fn drop(ex: &Execution<'_>, name: &str) -> Result<()> {
    let instance = ex.instance();
    let _one_at_a_time = instance.database_ddl.lock();
    let absent = || messages::error_state(3701, 1, &[&"drop", &"database", &name]);
    let entry = instance.database_named(name).ok_or_else(absent)?;
    if entry.is_system() {
        return Err(messages::error_state(
            3708,
            4,
            &[&"drop", &"database", &name, &"database"],
        ));
    }
    if ex.current_database() == entry.id() || entry.session_count() > 0 {
        return Err(messages::error_state(3702, 3, &[&name]));
    }
    instance.master_catalog()?.delete_database(entry.id().0)?;
    instance.remove_database(entry.id());
    remove_files(ex, &entry);
    crate::session::forget_suspects(&ex.state.instance, entry.id().0);
    Ok(())
}

/// Closes and deletes the files; what cannot be deleted is logged and left.
fn remove_files(ex: &Execution<'_>, entry: &DatabaseEntry) {
    let instance = ex.instance();
    if let Some(open) = entry.take_open() {
        let _ = open.storage.close();
        instance.engine().forget_database(open.storage.guid());
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
    let failed = |e: SqlError| match e.number {
        5069 => e,
        _ => e.followed(messages::error(5069, &[])),
    };
    let entry = entry.ok_or_else(|| {
        messages::error_state(5011, 5, &[&name]).followed(messages::error(5069, &[]))
    })?;
    if entry.is_standby() {
        return Err(failed(messages::error(5004, &[])));
    }
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
        } => set_options(ex, entry, options, *termination),
        AlterDatabaseAction::ModifyName(name) => rename(ex, entry, &name.text),
        AlterDatabaseAction::Collate(collation) => {
            let id = CollationId::from_name(&collation.text)
                .ok_or_else(|| messages::error(448, &[&collation.text]))?;
            edit(ex, entry, |def| def.collation = id)
        }
        AlterDatabaseAction::AddFile { files, filegroup } => add_files(
            ex,
            entry,
            files,
            filegroup.as_ref().map(|g| g.text.as_str()),
        ),
        AlterDatabaseAction::AddLogFile(_) => Err(messages::not_supported("several log files")),
        AlterDatabaseAction::RemoveFile(name) => remove_file(entry, &name.text),
        AlterDatabaseAction::ModifyFile(spec) => modify_file(ex, entry, spec),
        AlterDatabaseAction::AddFilegroup { name, contains } => match contains {
            Some(what) => Err(messages::not_supported(what)),
            None => add_filegroup(ex, entry, &name.text),
        },
        AlterDatabaseAction::RemoveFilegroup(name) => remove_filegroup(ex, entry, &name.text),
        AlterDatabaseAction::ModifyFilegroup { name, change } => {
            modify_filegroup(ex, entry, &name.text, change)
        }
        AlterDatabaseAction::ScopedConfiguration { option, clear, .. } => {
            let value = if *clear {
                None
            } else {
                option_value(&option.value)
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
    let mut def = (*entry.def()).clone();
    change(&mut def);
    ex.instance().save_database(entry, def)
}

fn rename(ex: &Execution<'_>, entry: &Arc<DatabaseEntry>, new_name: &str) -> Result<()> {
    if entry.is_system() {
        return Err(messages::error(
            3708,
            &[&"rename", &"database", &entry.name(), &"database"],
        ));
    }
    let taken = ex
        .instance()
        .database_named(new_name)
        .is_some_and(|other| other.id() != entry.id());
    if taken {
        return Err(messages::error_state(1801, 3, &[&new_name]));
    }
    exclusive(ex, entry, None)?;
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

fn add_files(
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
        open.storage.add_file(file.spec())?;
        ex.instance().save_database(entry, def)?;
    }
    Ok(())
}

fn remove_file(entry: &DatabaseEntry, name: &str) -> Result<()> {
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

fn modify_file(ex: &Execution<'_>, entry: &DatabaseEntry, spec: &FileSpec) -> Result<()> {
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

fn add_filegroup(ex: &Execution<'_>, entry: &DatabaseEntry, name: &str) -> Result<()> {
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

fn remove_filegroup(ex: &Execution<'_>, entry: &DatabaseEntry, name: &str) -> Result<()> {
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

fn modify_filegroup(
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

// --- SET

fn set_options(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    options: &[DatabaseOption],
    termination: Option<Termination>,
) -> Result<()> {
    options
        .iter()
        .try_for_each(|option| set_option(ex, entry, option, termination))
}

fn set_option(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    option: &DatabaseOption,
    termination: Option<Termination>,
) -> Result<()> {
    match option {
        DatabaseOption::AcceleratedDatabaseRecovery {
            on,
            version_store_filegroup,
        } => {
            let group = version_store_filegroup.as_ref().map(|g| g.text.as_str());
            accelerated_recovery(ex, entry, *on, group, termination)
        }
        DatabaseOption::DelayedDurability(_)
            if matches!(
                entry.id(),
                crate::instance::MASTER | crate::instance::TEMPDB
            ) =>
        {
            Err(messages::error(
                5058,
                &[&"DELAYED_DURABILITY", &entry.name()],
            ))
        }
        DatabaseOption::DelayedDurability(value) => with_settings(entry, |s| {
            s.delayed_durability = match value {
                ast::DelayedDurability::Disabled => storage::DelayedDurability::Disabled,
                ast::DelayedDurability::Allowed => storage::DelayedDurability::Allowed,
                ast::DelayedDurability::Forced => storage::DelayedDurability::Forced,
            };
        }),
        DatabaseOption::Recovery(model) => {
            if entry.id() == crate::instance::TEMPDB {
                return Err(messages::error(5058, &[&"RECOVERY", &entry.name()]));
            }
            with_settings(entry, |s| {
                s.recovery_model = match model {
                    ast::RecoveryModel::Full => storage::RecoveryModel::Full,
                    ast::RecoveryModel::BulkLogged => storage::RecoveryModel::BulkLogged,
                    ast::RecoveryModel::Simple => storage::RecoveryModel::Simple,
                };
            })
        }
        DatabaseOption::TargetRecoveryTime { seconds } => {
            with_settings(entry, |s| s.target_recovery_seconds = *seconds)
        }
        DatabaseOption::ReadCommittedSnapshot(on) => {
            if entry.is_system() && entry.id() != crate::instance::MODEL {
                return Err(messages::error(
                    5058,
                    &[&"READ_COMMITTED_SNAPSHOT", &entry.name()],
                ));
            }
            exclusive(ex, entry, termination)?;
            with_settings(entry, |s| s.read_committed_snapshot = *on)
        }
        DatabaseOption::AllowSnapshotIsolation(on) => {
            with_settings(entry, |s| s.allow_snapshot = *on)
        }
        DatabaseOption::ReadOnly(on) => {
            if entry.is_system() {
                return Err(messages::error(5058, &[&"READ_ONLY", &entry.name()]));
            }
            exclusive(ex, entry, termination)?;
            with_settings(entry, |s| s.read_only = *on)
        }
        DatabaseOption::CompatibilityLevel(level) => match level {
            100 | 110 | 120 | 130 | 140 | 150 | 160 => {
                edit(ex, entry, |def| def.compatibility_level = *level)
            }
            _ => Err(SqlError::new(
                15048,
                16,
                1,
                "Valid values of the database compatibility level are 100, 110, 120, 130, 140, 150, or 160.",
            )),
        },
        DatabaseOption::PageVerify(verify) => {
            let text = match verify {
                ast::PageVerify::Checksum => "CHECKSUM",
                ast::PageVerify::TornPageDetection => "TORN_PAGE_DETECTION",
                ast::PageVerify::None => "NONE",
            };
            edit(ex, entry, |def| {
                drop_value(
                    def.options
                        .insert("PAGE_VERIFY".to_string(), text.to_string()),
                )
            })
        }
        DatabaseOption::UserAccess(access) => user_access(ex, entry, *access, termination),
        DatabaseOption::State(state) => set_state(ex, entry, *state, termination),
        DatabaseOption::Hadr(_) => Err(messages::not_supported("HADR")),
        DatabaseOption::Other(item) if item.name.eq_ignore_ascii_case(DELAYED_MILLISECONDS) => {
            let value = bound_value(item, 1..=60_000)?;
            with_settings(entry, |s| s.delayed_milliseconds = value)
        }
        DatabaseOption::Other(item) if item.name.eq_ignore_ascii_case(DELAYED_KILOBYTES) => {
            let value = bound_value(item, 64..=65_536)?;
            with_settings(entry, |s| s.delayed_kilobytes = value)
        }
        DatabaseOption::Other(item) if is_mirroring(&item.name) => {
            Err(messages::not_supported("database mirroring"))
        }
        DatabaseOption::Other(item) if item.name.eq_ignore_ascii_case(OPTIMIZED_LOCKING) => {
            optimized_locking(entry, item)
        }
        DatabaseOption::Other(item) if item.name.eq_ignore_ascii_case(VERSIONS_MAX) => {
            let megabytes = version_store_limit(item)?;
            with_settings(entry, |s| s.version_store_megabytes = megabytes)
        }
        DatabaseOption::Other(item) => {
            let value = option_value(&item.value).unwrap_or_else(|| "ON".to_string());
            if is_refused(&item.name, &value) {
                return Err(messages::not_supported(&item.name));
            }
            edit(ex, entry, |def| {
                drop_value(def.options.insert(item.name.to_uppercase(), value))
            })
        }
    }
}

/// Options that promise what this server does not do; switching them off is what they are.
fn is_refused(name: &str, value: &str) -> bool {
    const REFUSED: [&str; 8] = [
        "CHANGE_TRACKING",
        "CONTAINMENT",
        "ENCRYPTION",
        "FILESTREAM",
        "PARTNER",
        "REMOTE_DATA_ARCHIVE",
        "SUSPEND_FOR_SNAPSHOT_BACKUP",
        "WITNESS",
    ];
    let is_off = ["OFF", "NONE"]
        .iter()
        .any(|o| value.eq_ignore_ascii_case(o));
    REFUSED.iter().any(|r| name.eq_ignore_ascii_case(r)) && !is_off
}

/// Options of our own: how much a crash may cost while commits are delayed.
const DELAYED_MILLISECONDS: &str = "DELAYED_DURABILITY_MILLISECONDS";
const DELAYED_KILOBYTES: &str = "DELAYED_DURABILITY_KILOBYTES";

const OPTIMIZED_LOCKING: &str = "OPTIMIZED_LOCKING";
/// Of our own as well: where writers of new versions are slowed, and then refused.
const VERSIONS_MAX: &str = "PERSISTENT_VERSION_STORE_MAX_SIZE";

/// `PARTNER`, `PARTNER SAFETY`, `WITNESS`.
fn is_mirroring(option: &str) -> bool {
    let first = option.split(' ').next().unwrap_or_default();
    first.eq_ignore_ascii_case("PARTNER") || first.eq_ignore_ascii_case("WITNESS")
}

/// Rows are locked through their transaction in any case; the option has the product's conditions.
fn optimized_locking(entry: &DatabaseEntry, item: &ast::OptionItem) -> Result<()> {
    let on = match option_value(&item.value).as_deref() {
        None | Some("ON") => true,
        Some("OFF") => false,
        Some(other) => return Err(messages::error(102, &[&other])),
    };
    if on && !entry.open()?.storage.settings().accelerated_recovery {
        return Err(messages::error(12133, &[]));
    }
    with_settings(entry, |s| s.optimized_locking = on)
}

/// Megabytes; 0 for no limit.
fn version_store_limit(item: &ast::OptionItem) -> Result<u32> {
    let text = option_value(&item.value).unwrap_or_default();
    if text.eq_ignore_ascii_case("UNLIMITED") {
        return Ok(0);
    }
    let (amount, unit) = text.split_once(' ').unwrap_or((&text, "MB"));
    let factor: u32 = match unit.trim().to_ascii_uppercase().as_str() {
        "MB" => 1,
        "GB" => 1_024,
        "TB" => 1_048_576,
        _ => 0,
    };
    let megabytes = amount
        .parse::<u32>()
        .ok()
        .and_then(|n| n.checked_mul(factor));
    megabytes.filter(|n| *n > 0).ok_or_else(|| {
        let text = format!(
            "The value of option {VERSIONS_MAX} must be a size in MB, GB or TB from 1 MB on, or UNLIMITED."
        );
        SqlError::new(5057, 16, 1, text)
    })
}

fn bound_value(item: &ast::OptionItem, allowed: RangeInclusive<u32>) -> Result<u32> {
    option_value(&item.value)
        .and_then(|text| text.parse().ok())
        .filter(|value| allowed.contains(value))
        .ok_or_else(|| {
            let (least, most) = (allowed.start(), allowed.end());
            let text = format!(
                "The value of option {} must be a whole number from {least} to {most}.",
                item.name
            );
            SqlError::new(5057, 16, 1, text)
        })
}

fn option_value(value: &OptionValue) -> Option<String> {
    Some(match value {
        OptionValue::None => return None,
        OptionValue::On => "ON".to_string(),
        OptionValue::Off => "OFF".to_string(),
        OptionValue::Word(word) => word.clone(),
        OptionValue::Name(name) => name.text.clone(),
        OptionValue::Quantity { amount, unit } => format!("{amount} {unit}"),
        OptionValue::Expr(expr) => expr.to_string(),
        OptionValue::List(_) => "ON".to_string(),
        OptionValue::Qualified(inner, _) => return option_value(inner),
    })
}

fn with_settings(entry: &DatabaseEntry, change: impl FnOnce(&mut Settings)) -> Result<()> {
    let open = entry.open()?;
    let mut settings = open.storage.settings();
    change(&mut settings);
    Ok(open.storage.set_settings(settings)?)
}

fn accelerated_recovery(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    on: bool,
    filegroup: Option<&str>,
    termination: Option<Termination>,
) -> Result<()> {
    if entry.is_system() {
        return Err(messages::error(12122, &[]));
    }
    let def = entry.def();
    let group = match filegroup {
        None => def.version_store_filegroup,
        Some(name) => def
            .filegroup_named(name)
            .map(|g| g.id)
            .ok_or_else(|| messages::error(1921, &[&"filegroup", &name]))?,
    };
    if on && !can_hold_versions(&def, group) {
        return Err(messages::error(12129, &[&entry.name()]));
    }
    let settings = entry.open()?.storage.settings();
    if !on && settings.optimized_locking {
        return Err(messages::error(12134, &[]));
    }
    if on && settings.accelerated_recovery && group != def.version_store_filegroup {
        return Err(messages::error(12125, &[&entry.name()]));
    }
    let storage = entry.open()?.storage;
    if on && group != def.version_store_filegroup {
        // What can be drained is: the error is left for versions that somebody still needs.
        while storage.clean_versions()? {
            ex.check_cancel()?;
        }
    }
    let store = storage.version_stats();
    if on && group != def.version_store_filegroup && (store.pages > 0 || store.aborted > 0) {
        return Err(messages::error(12120, &[&entry.name()]));
    }
    if settings.accelerated_recovery != on {
        // Transactions begun before go on as they began, so nobody has to leave, unless a termination clause says so.
        if termination.is_some() {
            exclusive(ex, entry, termination)?;
        }
        with_settings(entry, |s| {
            s.accelerated_recovery = on;
            s.version_store_filegroup = group;
        })?;
        let number = if on { 12123 } else { 12124 };
        ex.instance().log.write(
            &format!("spid{}", ex.spid()),
            &messages::error(number, &[&entry.id().0]).message,
        );
    }
    edit(ex, entry, |def| def.version_store_filegroup = group)
}

/// The version store needs pages: of a filegroup without files, or one that may not be written, it could get none.
fn can_hold_versions(def: &DatabaseDef, filegroup: u16) -> bool {
    let is_read_only = |g: &FilegroupDef| g.id == filegroup && g.read_only;
    def.files.iter().any(|f| f.filegroup == filegroup) && !def.filegroups.iter().any(is_read_only)
}

fn user_access(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    access: ast::UserAccess,
    termination: Option<Termination>,
) -> Result<()> {
    if entry.is_system() {
        return Err(messages::error(5058, &[&"SINGLE_USER", &entry.name()]));
    }
    let access = match access {
        ast::UserAccess::Single => UserAccess::Single,
        ast::UserAccess::Restricted => UserAccess::Restricted,
        ast::UserAccess::Multi => UserAccess::Multi,
    };
    if access != UserAccess::Multi {
        exclusive(ex, entry, termination)?;
    }
    edit(ex, entry, |def| def.user_access = access)
}

fn set_state(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    state: DatabaseState,
    termination: Option<Termination>,
) -> Result<()> {
    if entry.is_system() {
        return Err(messages::error(5058, &[&"OFFLINE", &entry.name()]));
    }
    match state {
        DatabaseState::Offline => {
            if ex.current_database() == entry.id() {
                return Err(messages::error(5070, &[&entry.name()]));
            }
            exclusive(ex, entry, termination)?;
            if let Some(open) = entry.take_open() {
                open.catalog.save_counters()?;
                open.storage.close()?;
            }
            edit(ex, entry, |def| def.offline = true)
        }
        DatabaseState::Online => {
            if entry.open().is_ok() {
                return Ok(());
            }
            let def = entry.def();
            let opened =
                ex.instance()
                    .engine()
                    .open_database(entry.id(), &def.name, def.file_specs());
            let (storage, report) = opened?;
            for line in
                crate::instance::recovery_lines(&def.name, def.id, &storage.settings(), &report)
            {
                ex.instance()
                    .log
                    .write(&format!("spid{}", ex.spid()), &line);
            }
            let catalog = Arc::new(Catalog::open(&storage)?);
            entry.set_open(OpenDatabase { storage, catalog });
            edit(ex, entry, |def| def.offline = false)
        }
        DatabaseState::Emergency => Err(messages::not_supported("EMERGENCY")),
    }
}

/// Waits until this session is the only one in the database; WITH ROLLBACK ends the others.
fn exclusive(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    termination: Option<Termination>,
) -> Result<()> {
    let own = i32::from(ex.current_database() == entry.id());
    let alone = || entry.session_count() <= own;
    if alone() {
        return Ok(());
    }
    let clock = &ex.instance().env().clock;
    let start = clock.monotonic();
    let patience = match termination {
        Some(Termination::NoWait) => return Err(messages::error(5070, &[&entry.name()])),
        Some(Termination::RollbackAfter { seconds }) => {
            Some(Duration::from_secs(u64::from(seconds)))
        }
        Some(Termination::RollbackImmediate) => Some(Duration::ZERO),
        None => None,
    };
    let mut ended = false;
    loop {
        if alone() {
            return Ok(());
        }
        ex.check_cancel()?;
        let waited = clock.monotonic().saturating_sub(start);
        if let Some(patience) = patience
            && waited >= patience
            && !ended
        {
            end_sessions(ex, entry.id());
            ended = true;
        }
        if patience.is_some_and(|p| waited > p + EXCLUSIVE_WAIT) {
            return Err(messages::error(5061, &[&entry.name()]));
        }
        clock.sleep(EXCLUSIVE_STEP);
    }
}

fn end_sessions(ex: &Execution<'_>, database: DatabaseId) {
    for session in ex.instance().sessions.all() {
        let there = session.activity.lock().database == Some(database);
        if there && session.spid != ex.spid() {
            session.cancel.set(CancelReason::Kill);
        }
    }
}
