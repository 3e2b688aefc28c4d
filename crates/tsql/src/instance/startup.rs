//! Start of the server: master, the other databases, recovery messages.

use super::database::{DefaultSizes, OpenDatabase, loaded_form, simple_def, stored_form};
use super::*;
use daruma_catalog::{DatabaseDef, LoginDef};
use daruma_storage::{
    DelayedDurability, EngineConfig, Outcome, RecoveryModel, RecoveryReport, ResolvedUnit,
    Settings, StorageError,
};
use std::io::ErrorKind;

const COMPLETE_MARK: &str = "creation complete";
/// Source column of start-up messages, as the product's start-up session.
const SOURCE: &str = "spid9s";

pub(super) fn start(env: Env, data_dir: &Path, options: InstanceOptions) -> Result<Arc<Instance>> {
    let data_dir = data_dir.to_path_buf();
    env.disk
        .create_dir_all(&data_dir)
        .map_err(|e| directory_error(&data_dir, &e))?;
    let log =
        ErrorLog::open(&env, &data_dir.join("log")).map_err(|e| directory_error(&data_dir, &e))?;
    log.write("Server", &first_line(&options));
    log.write("Server", &format!("Server name is '{}'. This is an informational message only. No user action is required.", options.server_name));
    log.write(
        "Server",
        &format!(
            "Logging SQL Server messages in file '{}'.",
            log.path(0).display()
        ),
    );
    let config = EngineConfig {
        buffer_pool_pages: options.buffer_pool_pages,
        ..EngineConfig::default()
    };
    let engine = Engine::new(env.clone(), config);
    let start = Starter {
        env: &env,
        engine: &engine,
        data_dir: &data_dir,
        log: &log,
    };
    let master = start.master()?;
    let configuration = Configuration::new(&master.1.catalog.configuration()?);
    let master_catalog = master.1.catalog.clone();
    let databases = start.databases(master)?;
    let logins = Logins::load(master_catalog, options.password_hasher.clone())?;
    log.write(
        SOURCE,
        "Recovery is complete. This is an informational message only. No user action is required.",
    );
    let mut registry = Registry::default();
    crate::sysviews::register(&mut registry);
    crate::sysprocs::register(&mut registry);
    let memory = WorkMemory::new(options.work_memory_bytes);
    Ok(Arc::new(Instance {
        started_utc: env.clock.utc_100ns(),
        env,
        engine,
        options,
        data_dir,
        databases: RwLock::new(databases),
        sessions: SessionRegistry::default(),
        configuration,
        log,
        logins,
        plans: PlanCache::new(memory.clone()),
        memory,
        registry,
        global_temps: Mutex::default(),
        temp_tables: Mutex::default(),
        temp_counters: Mutex::default(),
        catalog_version: AtomicU64::new(1),
        next_number: AtomicU64::new(1),
        sequential_ids: Default::default(),
        next_temp_id: AtomicI32::new(-1_000_000),
        shutdown: Mutex::new(None),
        database_ddl: Mutex::new(()),
        system_owner: system_owner(),
        url_devices: std::sync::OnceLock::new(),
        suspect_pages: Default::default(),
        files: Default::default(),
        trace_flags: Mutex::default(),
    }))
}

fn first_line(options: &InstanceOptions) -> String {
    format!(
        "Microsoft SQL Server 2022 work-alike Daruma - {PRODUCT_VERSION} {}",
        options.host_description
    )
}

struct Starter<'a> {
    env: &'a Env,
    engine: &'a Arc<Engine>,
    data_dir: &'a Path,
    log: &'a ErrorLog,
}

impl Starter<'_> {
    /// Opens master, creating it first when there is none.
    fn master(&self) -> Result<(DatabaseDef, OpenDatabase)> {
        let def = self.system_def(MASTER.0, "master");
        if self.exists(&def) {
            let (open, report) = self.open(&def)?;
            if open.catalog.has_mark(COMPLETE_MARK)? {
                self.report(&def, &open, &report);
                return Ok((def, open));
            }
            open.storage.close()?;
            self.remove_files(&def)?;
        }
        let open = self.create(&def)?;
        Ok((def, open))
    }

    /// The registry of all databases; completes a first start.
    fn databases(
        &self,
        master: (DatabaseDef, OpenDatabase),
    ) -> Result<BTreeMap<u16, Arc<DatabaseEntry>>> {
        let (master_def, master) = master;
        let catalog = master.catalog.clone();
        if !catalog.has_mark(COMPLETE_MARK)? {
            self.bootstrap(&catalog, &master_def)?;
        }
        let mut entries = BTreeMap::new();
        let defs = catalog.databases()?.into_iter();
        let defs: Vec<DatabaseDef> = defs.map(|d| loaded_form(d, self.data_dir)).collect();
        let files: Vec<_> = defs
            .iter()
            .map(|d| (DatabaseId(d.id), d.file_specs()))
            .collect();
        self.engine.set_directory(Arc::new(move || files.clone()));
        for def in defs {
            crate::session::finish_interrupted_restore(self.env, &def);
            let entry = DatabaseEntry::new(def.clone());
            match def.id {
                id if id == MASTER.0 => entry.set_open(master.clone()),
                id if id == TEMPDB.0 => entry.set_open(self.fresh_tempdb(&def)?),
                _ if entry.is_standby() => self.open_standby(&entry, &def),
                _ if def.offline || entry.is_restoring() => {}
                _ => self.open_or_log(&entry, &def)?,
            }
            entries.insert(def.id, Arc::new(entry));
        }
        Ok(entries)
    }

    /// First start: the other system databases, `sa`, and last the mark.
    fn bootstrap(&self, catalog: &Catalog, master: &DatabaseDef) -> Result<()> {
        catalog.put_database(&stored_form(master, self.data_dir))?;
        for (id, name) in [(TEMPDB, "tempdb"), (MODEL, "model"), (MSDB, "msdb")] {
            let def = self.system_def(id.0, name);
            self.remove_files(&def)?;
            if id != TEMPDB {
                super::close_database(&self.create(&def)?)?;
            }
            catalog.put_database(&stored_form(&def, self.data_dir))?;
        }
        catalog.put_login(&self.sa())?;
        catalog.put_mark(COMPLETE_MARK)?;
        Ok(())
    }

    fn sa(&self) -> LoginDef {
        let now = self.env.clock.utc_100ns();
        LoginDef {
            id: 1,
            name: "sa".to_string(),
            sid: vec![1],
            password_hash: String::new(),
            default_database: "master".to_string(),
            default_language: "us_english".to_string(),
            disabled: false,
            created_utc: now,
            modified_utc: now,
            roles: vec!["sysadmin".to_string()],
            permissions: Vec::new(),
            // Nobody must be able to lock the administrator out.
            check_policy: false,
            check_expiration: false,
            must_change: false,
            password_set_utc: now,
        }
    }

    fn fresh_tempdb(&self, def: &DatabaseDef) -> Result<OpenDatabase> {
        self.log.write(SOURCE, "Clearing tempdb database.");
        self.remove_files(def)?;
        let open = self.create(def)?;
        self.log.write(SOURCE, "Starting up database 'tempdb'.");
        Ok(open)
    }

    /// A database that is readable between restores. If it is not, more backups can still be restored.
    fn open_standby(&self, entry: &DatabaseEntry, def: &DatabaseDef) {
        match crate::session::open_standby(self.engine, def) {
            Ok((open, lines)) => {
                lines.iter().for_each(|line| self.log.write(SOURCE, line));
                entry.set_open(open);
            }
            Err(error) => {
                let text = format!(
                    "The standby database '{}' cannot be read: {error}",
                    def.name
                );
                self.log.write(SOURCE, &text);
            }
        }
    }

    fn open_or_log(&self, entry: &DatabaseEntry, def: &DatabaseDef) -> Result<()> {
        match self.open(def) {
            Ok((open, report)) => {
                self.report(def, &open, &report);
                entry.set_open(open);
                Ok(())
            }
            // A database of the system itself must be there.
            Err(error) if entry.is_system() => Err(error),
            Err(error) => {
                let stopped = messages::error(3414, &[&def.name, &def.id, &0]);
                for told in [&error, &stopped] {
                    let text = format!(
                        "Error: {}, Severity: {}, State: {}.\n{}",
                        told.number, told.class, told.state, told.message
                    );
                    self.log.write(SOURCE, &text);
                }
                entry.set_failed(error.message);
                Ok(())
            }
        }
    }

    fn open(&self, def: &DatabaseDef) -> Result<(OpenDatabase, RecoveryReport)> {
        self.log
            .write(SOURCE, &messages::error(17137, &[&def.name]).message);
        let (storage, report) = self
            .engine
            .open_database(DatabaseId(def.id), &def.name, def.file_specs())
            .map_err(|e| open_error(def, e))?;
        let catalog = Catalog::open(&storage).map_err(|e| {
            let error = SqlError::from(e);
            match error.damaged {
                Some(page) => page.told(def.id, Some(crate::error::SYSTEM_CATALOG)),
                None => error,
            }
        });
        let catalog = match catalog {
            Ok(catalog) => Arc::new(catalog),
            Err(error) => {
                // Nothing was changed: what is on disk stays as it is.
                let _ = storage.close();
                return Err(error);
            }
        };
        Ok((OpenDatabase { storage, catalog }, report))
    }

    fn create(&self, def: &DatabaseDef) -> Result<OpenDatabase> {
        // New databases take their recovery model from model.
        let recovery_model = match def.id == super::MODEL.0 {
            true => RecoveryModel::Full,
            false => RecoveryModel::Simple,
        };
        let settings = Settings {
            read_committed_snapshot: false,
            recovery_model,
            ..Settings::default()
        };
        let storage = self
            .engine
            .create_database(DatabaseId(def.id), &def.name, def.file_specs(), settings)
            .map_err(|e| open_error(def, e))?;
        let catalog = Arc::new(Catalog::create(&storage)?);
        Ok(OpenDatabase { storage, catalog })
    }

    /// What recovery did, in the product's words.
    fn report(&self, def: &DatabaseDef, open: &OpenDatabase, report: &RecoveryReport) {
        for line in recovery_lines(&def.name, def.id, &open.storage.settings(), report) {
            self.log.write(SOURCE, &line);
        }
    }

    fn system_def(&self, id: u16, name: &str) -> DatabaseDef {
        simple_def(
            id,
            name,
            self.data_dir,
            DefaultSizes::SYSTEM,
            self.env.clock.utc_100ns(),
        )
    }

    fn exists(&self, def: &DatabaseDef) -> bool {
        def.files
            .iter()
            .all(|f| self.env.disk.exists(&f.path).unwrap_or(false))
    }

    fn remove_files(&self, def: &DatabaseDef) -> Result<()> {
        for file in &def.files {
            match self.env.disk.remove(&file.path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(file_error(&file.path, &e));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Messages of a recovery that had something to do.
pub(crate) fn recovery_lines(
    name: &str,
    id: u16,
    settings: &Settings,
    report: &RecoveryReport,
) -> Vec<String> {
    let mut assumed = assumed_lines(name, id, report);
    if !report.needed {
        return assumed;
    }
    const NO_ACTION: &str = "This is an informational message only. No user action is required.";
    let seconds = (report.analysis_ms + report.redo_ms + report.undo_ms) / 1_000;
    let regular_undo = report.undo_ms.saturating_sub(report.system_undo_ms);
    let mut lines = vec![
        messages::error(49930, &[&"started", &name, &1]).message,
        format!(
            "Recovery of database '{name}' ({id}) is 0% complete (approximately {seconds} seconds remain). Phase 2 of 3. {NO_ACTION}"
        ),
        format!(
            "{} transactions rolled forward in database '{name}' ({id}:0). {NO_ACTION}",
            report.rolled_forward
        ),
        format!(
            "Recovery of database '{name}' ({id}) is 100% complete (approximately 0 seconds remain). Phase 3 of 3. {NO_ACTION}"
        ),
    ];
    if settings.accelerated_recovery {
        lines.push(messages::error(12123, &[&id]).message);
    }
    if report.torn_pages_restored > 0 {
        lines.push(format!(
            "{} torn pages were restored in database '{name}' ({id}:0). {NO_ACTION}",
            report.torn_pages_restored
        ));
    }
    lines.push(format!(
        "{} transactions rolled back in database '{name}' ({id}:0). {NO_ACTION}",
        report.rolled_back
    ));
    lines.extend(last_commit_line(name, id, settings, report));
    lines.push(format!(
        "Recovery is writing a checkpoint in database '{name}' ({id}). {NO_ACTION}"
    ));
    lines.push(format!(
        "Recovery completed for database {name} (database ID {id}) in {seconds} second(s) (analysis {} ms, redo {} ms, undo {} ms [system undo {} ms, regular undo {regular_undo} ms].) ADR-enabled={}, Is primary=1, OL-Enabled={}. {NO_ACTION}",
        report.analysis_ms, report.redo_ms, report.undo_ms, report.system_undo_ms, u8::from(settings.accelerated_recovery), u8::from(settings.optimized_locking)
    ));
    lines.push(messages::error(49930, &[&"shutdown", &name, &1]).message);
    assumed.extend(lines);
    assumed
}

/// Transactions over several databases that were taken for committed because nobody could be asked.
fn assumed_lines(name: &str, id: u16, report: &RecoveryReport) -> Vec<String> {
    let resolved = report.resolved.iter();
    let assumed = resolved.filter(|r| r.outcome == Outcome::Assumed);
    let line = |resolved: &ResolvedUnit| {
        let xid = format!("(0:{})", resolved.ids.last().map_or(0, |id| id.0));
        let coordinator = resolved.unit.database;
        messages::error(3429, &[&xid, &"", &name, &id, &0, &coordinator, &0]).message
    };
    assumed.map(line).collect()
}

/// Up to which commit the database is there again: with delayed durability later ones may have been reported.
fn last_commit_line(
    name: &str,
    id: u16,
    settings: &Settings,
    report: &RecoveryReport,
) -> Option<String> {
    let commit = report.last_commit;
    if commit.lsn.is_none() {
        return None;
    }
    let later = match settings.delayed_durability {
        DelayedDurability::Disabled => {
            "No later commit was reported to a client, unless the last write of the log was damaged within a second."
        }
        DelayedDurability::Allowed | DelayedDurability::Forced => {
            "Later commits with delayed durability, if there were any, are lost."
        }
    };
    Some(format!(
        "Database '{name}' ({id}:0) is recovered up to the commit at LSN {} of {} UTC. {later}",
        crate::sysviews::lsn_text(commit.lsn),
        format_local(commit.utc_100ns, 0)
    ))
}

fn open_error(def: &DatabaseDef, error: StorageError) -> SqlError {
    let mut sql = SqlError::from(error);
    if let Some(page) = &sql.damaged {
        return page.told(def.id, None);
    }
    if sql.number == 9004 {
        let told = messages::error(9004, &[&def.name]);
        sql.message = format!("{} The {}.", told.message, sql.message);
        return sql;
    }
    sql.message = format!("Database '{}' cannot be opened: {}.", def.name, sql.message);
    sql
}

fn file_error(path: &Path, error: &std::io::Error) -> SqlError {
    messages::error(
        5120,
        &[&path.display(), &error.raw_os_error().unwrap_or(0), &error],
    )
}

fn directory_error(path: &Path, error: &std::io::Error) -> SqlError {
    messages::error(5133, &[&path.display(), &error])
}
