//! Start of the server: master and the other databases of the system. The rest follows in `recovery`.

use super::database::{DefaultSizes, OpenDatabase, loaded_form, simple_def, stored_form};
use super::left_behind::{Cleaner, registration};
use super::recovery::{RecoveryQueue, Watcher};
use super::*;
use crate::error::SqlError;
use daruma_catalog::{DatabaseDef, LoginDef, Put};
use daruma_storage::{EngineConfig, RecoveryModel, Settings, StorageError};
use std::io::ErrorKind;

const COMPLETE_MARK: &str = "creation complete";
/// Part of the memory besides pages that one log's blocks may take while it is written to.
const LOG_PART: u64 = 16;
/// Source column of start-up messages, as the product's start-up session.
pub(super) const SOURCE: &str = "spid9s";

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
    remove_scratch_files(&env, &data_dir, &log);
    let config = EngineConfig {
        buffer_pool_pages: options.buffer_pool_pages,
        version_memory_bytes: options.work_memory_bytes.unwrap_or(0) / 2,
        log_memory_bytes: options.work_memory_bytes.unwrap_or(u64::MAX) / LOG_PART,
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
    let (databases, recovery) = start.databases(master)?;
    let hadr = hadr::Hadr::load(&master_catalog)?;
    let events = events::Events::load(&master_catalog)?;
    let logins = Logins::new(master_catalog, options.password_hasher.clone());
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
        recovery,
        sessions: SessionRegistry::default(),
        configuration,
        log,
        logins,
        hadr,
        events,
        plans: PlanCache::new(memory.clone()),
        memory,
        registry,
        global_temps: Mutex::default(),
        global_modules: Mutex::default(),
        temp_tables: Mutex::default(),
        temp_counters: Mutex::default(),
        catalog_version: AtomicU64::new(1),
        next_number: AtomicU64::new(1),
        sequential_ids: Default::default(),
        next_temp_id: AtomicI32::new(-1_000_000),
        shutdown: Mutex::new(None),
        names: Default::default(),
        system_owner: system_owner(),
        url_devices: std::sync::OnceLock::new(),
        suspect_pages: Default::default(),
        files: Default::default(),
        default_folders: std::sync::OnceLock::new(),
        give_back_memory: std::sync::OnceLock::new(),
        processor_ms: std::sync::OnceLock::new(),
        volume_space: std::sync::OnceLock::new(),
        completed: Default::default(),
        requests: AtomicU64::new(0),
        deadlocks: AtomicU64::new(0),
        trace_flags: Mutex::default(),
        without_logon_triggers: AtomicBool::new(false),
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
            let open = self.open(&def)?;
            if open.catalog.has_mark(COMPLETE_MARK)? {
                return Ok((def, open));
            }
            open.storage.close()?;
            self.remove_files(&def)?;
        }
        let open = self.create(&def)?;
        Ok((def, open))
    }

    /// The registry of all databases; completes a first start. The system's own are open, the others wait for their recovery.
    fn databases(
        &self,
        master: (DatabaseDef, OpenDatabase),
    ) -> Result<(BTreeMap<u16, Arc<DatabaseEntry>>, RecoveryQueue)> {
        let (master_def, master) = master;
        let catalog = master.catalog.clone();
        if !catalog.has_mark(COMPLETE_MARK)? {
            self.bootstrap(&catalog, &master_def)?;
        }
        let defs = self.settled(&catalog)?;
        let files: Vec<_> = defs
            .iter()
            .map(|d| (DatabaseId(d.id), d.file_specs()))
            .collect();
        self.engine.set_directory(Arc::new(move || files.clone()));
        let (mut entries, queue) = (BTreeMap::new(), RecoveryQueue::default());
        for def in defs {
            let entry = Arc::new(DatabaseEntry::new(def.clone()));
            entries.insert(def.id, entry.clone());
            match def.id {
                id if id == MASTER.0 => entry.set_open(master.clone()),
                id if id == TEMPDB.0 => entry.set_open(self.fresh_tempdb(&def)?),
                id if id == MODEL.0 => entry.set_open(self.open(&def)?),
                id if id == MSDB.0 => self.open_msdb(&entry, &def),
                _ if entry.is_standby() => queue.add(entry),
                _ if def.offline || entry.is_restoring() => {}
                _ => queue.add(entry),
            }
        }
        Ok((entries, queue))
    }

    /// The definitions in master, after what was cut short in making and deleting files was put in order.
    fn settled(&self, catalog: &Catalog) -> Result<Vec<DatabaseDef>> {
        let cleaner = Cleaner {
            env: self.env,
            log: self.log,
            source: SOURCE,
        };
        let mut defs = Vec::new();
        let logins = catalog.current();
        for mut def in catalog.databases()? {
            // Earlier builds stored the name alone. One that nobody has is not kept for whoever gets it.
            if def.owner_sid.is_none() {
                match logins.login_named(&def.owner) {
                    Some(owner) => def.set_owner(owner),
                    None => def.owner_sid = Some(Vec::new()),
                }
                catalog.put_database(&def)?;
            }
            let def = loaded_form(def, self.data_dir);
            defs.extend(cleaner.settle(catalog, self.data_dir, def)?);
        }
        Ok(defs)
    }

    /// The server does without msdb, except for what needs it: the history of backups, suspect pages.
    fn open_msdb(&self, entry: &DatabaseEntry, def: &DatabaseDef) {
        match self.open(def) {
            Ok(open) => entry.set_open(open),
            Err(error) => {
                recovery::tell_failure(self.log, def, &error);
                entry.set_failed(error.message);
            }
        }
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
        let sa = Change::PutLogin(Put::new(self.sa()));
        catalog.change_alone::<SqlError>(&logins_lock(), |_| Ok(sa))?;
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
            certificate_id: None,
        }
    }

    fn fresh_tempdb(&self, def: &DatabaseDef) -> Result<OpenDatabase> {
        self.log.write(SOURCE, "Clearing tempdb database.");
        let open = self.create(def)?;
        self.log.write(SOURCE, "Starting up database 'tempdb'.");
        Ok(open)
    }

    fn open(&self, def: &DatabaseDef) -> Result<OpenDatabase> {
        let watcher = Watcher {
            env: self.env,
            engine: self.engine,
            log: self.log,
        };
        Ok(watcher.open(def, None, None)?.0)
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
            .create_database_as(
                DatabaseId(def.id),
                &def.name,
                def.file_specs(),
                settings,
                self.env.random.u64(),
                registration(def),
            )
            .map_err(|e| open_error(def, e))?;
        let catalog = Arc::new(Catalog::create(&storage)?);
        Ok(OpenDatabase { storage, catalog })
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

pub(super) fn open_error(def: &DatabaseDef, error: StorageError) -> SqlError {
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

/// Scratch files live as long as their statement or cursor: those that are there now are of a server that was killed.
fn remove_scratch_files(env: &Env, data_dir: &Path, log: &ErrorLog) {
    let files = env.disk.list(&data_dir.join(SCRATCH_FOLDER));
    for file in files.unwrap_or_default() {
        if let Err(error) = env.disk.remove(&file) {
            let text = format!(
                "Scratch file '{}' cannot be removed: {error}",
                file.display()
            );
            log.write("Server", &text);
        }
    }
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
