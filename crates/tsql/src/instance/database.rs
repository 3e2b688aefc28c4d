//! A database as the instance holds it: definition, storage and catalog, if it is open.

use super::change::{GoOn, lock_patiently};
use super::door::{Door, Reception};
use super::hadr::{Availability, Lease};
use super::{MASTER, MSDB, TEMPDB};
use crate::error::Result;
use crate::messages;
use daruma_base::DatabaseId;
use daruma_catalog::{Catalog, DatabaseDef, FileDef, FileGrowth, FilegroupDef, UserAccess};
use daruma_storage::{Database, DatabaseState};
use daruma_value::CollationId;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};

/// Compatibility level of SQL Server 2022.
pub const COMPATIBILITY_LEVEL: u32 = 160;

/// Option of a definition under which the time of the last good CHECKDB is kept, in UTC; never shown as an option.
pub(crate) const LAST_GOOD_CHECK: &str = "DARUMA LAST GOOD CHECK";

/// An open database.
#[derive(Clone)]
pub struct OpenDatabase {
    pub storage: Arc<Database>,
    pub catalog: Arc<Catalog>,
}

/// Entry of the registry; lives as long as the database exists or someone still refers to it.
pub struct DatabaseEntry {
    id: DatabaseId,
    def: RwLock<Arc<DatabaseDef>>,
    /// Its latch, and that of `failure`, is not held while another one is taken: who waits to write keeps out those who come to read,
    /// even who reads already.
    open: RwLock<Option<OpenDatabase>>,
    /// Why it could not be opened.
    failure: RwLock<Option<String>>,
    /// It waits for its recovery after the start of the server, or is in the middle of it.
    is_recovering: AtomicBool,
    door: Door,
    /// Held from reading the definition, or the settings, to storing what comes of it: one change is not made of what another has
    /// replaced meanwhile. The flag is set by DROP DATABASE: nothing is stored any more.
    changing: Mutex<bool>,
    /// One backup of the data, or change of the files, at a time; one backup of the log.
    pub backup: Mutex<()>,
    pub log_backup: Mutex<()>,
    /// When the log was last backed up since the server started, UTC in 100 ns; 0 for never.
    last_log_backup: AtomicI64,
    /// An [`Availability`].
    availability: AtomicU8,
    /// By what this server leads it, beside `availability`.
    lease: RwLock<Option<Arc<dyn Lease>>>,
}

impl DatabaseEntry {
    /// See `last_log_backup`.
    pub fn last_log_backup_utc(&self) -> i64 {
        self.last_log_backup.load(Ordering::Relaxed)
    }

    /// A log backup has ended at this time (100 ns since 1970, UTC).
    pub fn note_log_backup(&self, utc_100ns: i64) {
        self.last_log_backup.store(utc_100ns, Ordering::Relaxed);
    }

    /// A database that is known and not open.
    pub fn new(def: DatabaseDef) -> DatabaseEntry {
        let door = Door::default();
        door.set_single(def.user_access == UserAccess::Single);
        DatabaseEntry {
            id: DatabaseId(def.id),
            def: RwLock::new(Arc::new(def)),
            open: RwLock::new(None),
            failure: RwLock::new(None),
            is_recovering: AtomicBool::new(false),
            door,
            changing: Mutex::new(false),
            backup: Mutex::new(()),
            log_backup: Mutex::new(()),
            last_log_backup: AtomicI64::new(0),
            availability: AtomicU8::new(Availability::Alone as u8),
            lease: RwLock::default(),
        }
    }

    /// What sessions may do with it as one of a group, now.
    pub fn availability(&self) -> Availability {
        use Availability::{Primary, PrimaryForWriters, Resolving};
        match self.given_availability() {
            Primary | PrimaryForWriters if !self.has_lease() => Resolving,
            given => given,
        }
    }

    /// What the group's service has said last.
    pub(super) fn given_availability(&self) -> Availability {
        Availability::from_number(self.availability.load(Ordering::Acquire))
    }

    fn has_lease(&self) -> bool {
        self.lease.read().as_ref().is_none_or(|l| l.stands())
    }

    /// By what this server leads it from now on; `None`: by its own record alone.
    pub fn set_lease(&self, lease: Option<Arc<dyn Lease>>) {
        *self.lease.write() = lease;
    }

    pub(super) fn set_availability(&self, availability: Availability) {
        self.availability
            .store(availability as u8, Ordering::Release);
    }

    /// `database_id`; it stays for the life of the database.
    pub fn id(&self) -> DatabaseId {
        self.id
    }

    /// The name it has now.
    pub fn name(&self) -> String {
        self.def.read().name.clone()
    }

    /// The stored definition as it is now.
    pub fn def(&self) -> Arc<DatabaseDef> {
        self.def.read().clone()
    }

    /// Keeps others from changing the definition and the settings until the guard is dropped, which says whether the database is gone.
    /// Error 911 when it is.
    pub(super) fn lock_definition(&self, go_on: GoOn<'_>) -> Result<MutexGuard<'_, bool>> {
        let is_gone = lock_patiently(&self.changing, go_on)?;
        match *is_gone {
            true => Err(messages::error(911, &[&self.name()])),
            false => Ok(is_gone),
        }
    }

    /// Replaces the definition in memory; the caller has stored it.
    pub fn set_def(&self, def: DatabaseDef) {
        self.door.set_single(def.user_access == UserAccess::Single);
        *self.def.write() = Arc::new(def);
    }

    /// When DBCC CHECKDB last found nothing, in UTC; 0 for never.
    pub fn last_good_check_utc(&self) -> i64 {
        let def = self.def();
        let noted = def.options.get(LAST_GOOD_CHECK);
        noted.and_then(|utc| utc.parse().ok()).unwrap_or(0)
    }

    /// Is it master, tempdb, model or msdb?
    pub fn is_system(&self) -> bool {
        self.id.0 <= 4
    }

    /// TRUSTWORTHY: may its users be taken elsewhere for the logins that they stand for? On in a new msdb, as in the product.
    pub fn is_trustworthy(&self) -> bool {
        self.has_switch("TRUSTWORTHY", &[MSDB])
    }

    /// DB_CHAINING: may ownership chains lead out of it and into it?
    pub fn is_chaining(&self) -> bool {
        self.has_switch("DB_CHAINING", &[MASTER, TEMPDB, MSDB])
    }

    /// An option that is on from the beginning in some databases.
    fn has_switch(&self, name: &str, on_in: &[DatabaseId]) -> bool {
        let def = self.def();
        match def.option(name) {
            Some(_) => def.option_is_on(name),
            None => on_in.contains(&self.id),
        }
    }

    /// Storage and catalog; the product's error when it is not online, or suspect since its log failed.
    pub fn open(&self) -> Result<OpenDatabase> {
        let availability = self.availability();
        if availability != Availability::Alone {
            availability.check_open(&self.name())?;
        }
        match self.held() {
            Some(open) if open.storage.check_readable().is_ok() => Ok(open),
            _ => Err(self.not_online()),
        }
    }

    /// The same also when it is suspect: for those who ask no more than what it is, or close it.
    pub fn held(&self) -> Option<OpenDatabase> {
        self.open.read().clone()
    }

    /// The database can be used from now on.
    pub fn set_open(&self, open: OpenDatabase) {
        *self.failure.write() = None;
        *self.open.write() = Some(open);
        self.set_recovering(false);
    }

    /// The database could not be recovered; `why` is for the error log and for 926.
    pub fn set_failed(&self, why: String) {
        *self.failure.write() = Some(why);
        self.set_recovering(false);
    }

    /// Marks the time between begin and end of recovery, in which logins get 4060.
    pub fn set_recovering(&self, is_recovering: bool) {
        self.is_recovering.store(is_recovering, Ordering::Release);
    }

    /// Will it be opened, or found to be unusable, without anybody's doing?
    pub fn is_recovering(&self) -> bool {
        self.is_recovering.load(Ordering::Acquire)
    }

    /// Error 922 while nothing can be done with the database but wait.
    pub fn check_recovered(&self) -> Result<()> {
        match self.is_recovering() {
            true => Err(messages::error(922, &[&self.name()])),
            false => Ok(()),
        }
    }

    /// Takes it out of service.
    pub fn take_open(&self) -> Option<OpenDatabase> {
        self.open.write().take()
    }

    /// `state_desc`, from what is open and what has failed.
    pub fn state(&self) -> DatabaseState {
        match self.held() {
            Some(open) => open.storage.state(),
            None if self.is_recovering() => DatabaseState::Recovering,
            None if self.is_restoring() => DatabaseState::Restoring,
            None if self.failure.read().is_some() => DatabaseState::Suspect,
            None => DatabaseState::Offline,
        }
    }

    /// Does it wait for more backups to be restored?
    pub fn is_restoring(&self) -> bool {
        self.def
            .read()
            .options
            .contains_key(crate::session::RESTORING)
    }

    /// Is it readable meanwhile?
    pub fn is_standby(&self) -> bool {
        let def = self.def.read();
        def.options.contains_key(crate::session::STANDBY)
    }

    /// Sessions whose current database it is.
    pub fn session_count(&self) -> i32 {
        self.door.count()
    }

    /// A session makes it its current database. Error 924 when it is in SINGLE_USER and another's, 952 while it is backed up or restored
    /// by one who is alone in it. It waits for whoever is alone for a moment.
    pub(crate) fn enter(&self, spid: i32, go_on: GoOn<'_>) -> Result<()> {
        let reception = self.door.enter(spid, go_on)?;
        self.received(reception, || self.leave(spid))
    }

    /// Whoever was let in cannot have it taken away any more. Before, that may have been done: then he leaves.
    fn received(&self, reception: Reception, leave: impl FnOnce()) -> Result<()> {
        match reception {
            Reception::Admitted if self.held().is_some() => Ok(()),
            Reception::Admitted => {
                leave();
                Err(self.not_online())
            }
            Reception::Refused => Err(self.in_use()),
            Reception::InTransition => Err(messages::error(952, &[&self.name()])),
        }
    }

    /// A session left it.
    pub fn leave(&self, spid: i32) {
        self.door.leave(spid);
    }

    /// A session works in it from another one, until it ends its visit. Errors and waits as for [`DatabaseEntry::enter`].
    pub(crate) fn visit(&self, spid: i32, go_on: GoOn<'_>) -> Result<()> {
        let reception = self.door.visit(spid, go_on)?;
        self.received(reception, || self.end_visit(spid))
    }

    /// The end of a visit.
    pub fn end_visit(&self, spid: i32) {
        self.door.end_visit(spid);
    }

    /// Error 924 while it is in SINGLE_USER and another session's.
    pub(crate) fn check_admits(&self, spid: i32) -> Result<()> {
        match self.door.is_held_by_other(spid) {
            true => Err(self.in_use()),
            false => Ok(()),
        }
    }

    /// Error 5064 while it is in SINGLE_USER and another session's.
    pub fn check_changeable(&self, spid: i32) -> Result<()> {
        match self.door.is_held_by_other(spid) {
            true => Err(messages::error(5064, &[&self.name()])),
            false => Ok(()),
        }
    }

    /// Sessions that are in it or work in it from another one.
    pub(crate) fn sessions(&self) -> Vec<i32> {
        self.door.sessions()
    }

    /// Is it in SINGLE_USER?
    pub(crate) fn is_single_user(&self) -> bool {
        self.door.is_single()
    }

    /// Keeps others from coming; `None` while somebody else is there, or keeps others out himself.
    pub(crate) fn shut(&self, spid: i32) -> Option<Shut<'_>> {
        self.door.shut(spid).then(|| Shut(self))
    }

    /// Lets nobody come who is not there already; `None` while somebody else does the same.
    pub(crate) fn want(&self, spid: i32) -> Option<Wanted<'_>> {
        self.door.want(spid).then(|| Wanted(self))
    }

    fn in_use(&self) -> crate::error::SqlError {
        messages::error(924, &[&self.name()])
    }

    fn not_online(&self) -> crate::error::SqlError {
        let name = self.name();
        let has_failed = self.failure.read().is_some();
        let is_suspect = has_failed || self.held().is_some();
        match is_suspect {
            _ if self.is_recovering() => messages::error(922, &[&name]),
            _ if self.is_restoring() => messages::error(927, &[&name]),
            true => messages::error(926, &[&name]),
            false => messages::error(942, &[&name]),
        }
    }
}

/// No session is in a database but one, and no other comes until this is dropped.
pub(crate) struct Shut<'e>(&'e DatabaseEntry);

impl Shut<'_> {
    /// It takes long: nobody is to wait for it (952).
    pub fn refuse(&self) {
        self.0.door.refuse();
    }
}

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.door.open();
    }
}

/// Nobody comes into a database who is not there already, until this is dropped.
pub(crate) struct Wanted<'e>(&'e DatabaseEntry);

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.0.door.want_no_more();
    }
}

/// Sizes of a new database when nothing else is said, in pages.
#[derive(Clone, Copy, Debug)]
pub struct DefaultSizes {
    pub data_pages: u64,
    pub log_pages: u64,
    pub growth_pages: u32,
}

impl DefaultSizes {
    /// 2 MiB of data and of log, growing by 16 MiB.
    pub const SYSTEM: DefaultSizes = DefaultSizes {
        data_pages: 256,
        log_pages: 256,
        growth_pages: 2_048,
    };
    /// 8 MiB of data and of log, growing by 64 MiB, as the product's model.
    pub const USER: DefaultSizes = DefaultSizes {
        data_pages: 1_024,
        log_pages: 1_024,
        growth_pages: 8_192,
    };
}

/// Definition of a database with one data file and one log file.
pub fn simple_def(id: u16, name: &str, dir: &Path, sizes: DefaultSizes, now: i64) -> DatabaseDef {
    let growth = FileGrowth::Pages(sizes.growth_pages);
    let file = |id, filegroup, logical_name: String, file_name: String, size_pages| FileDef {
        id,
        filegroup,
        logical_name,
        path: dir.join(file_name),
        size_pages,
        growth,
        max_pages: None,
    };
    let file_name = file_stem(name);
    DatabaseDef {
        id,
        name: name.to_string(),
        files: vec![
            file(
                1,
                1,
                name.to_string(),
                format!("{file_name}.mdf"),
                sizes.data_pages,
            ),
            file(
                2,
                0,
                format!("{name}_log"),
                format!("{file_name}_log.ldf"),
                sizes.log_pages,
            ),
        ],
        filegroups: vec![primary_filegroup()],
        created_utc: now,
        collation: CollationId::DEFAULT,
        compatibility_level: COMPATIBILITY_LEVEL,
        owner: "sa".to_string(),
        owner_sid: None,
        version_store_filegroup: 1,
        user_access: UserAccess::Multi,
        offline: false,
        options: default_options(),
    }
}

/// The filegroup that every database has.
pub fn primary_filegroup() -> FilegroupDef {
    FilegroupDef {
        id: 1,
        name: "PRIMARY".to_string(),
        is_default: true,
        read_only: false,
    }
}

/// Options of a new database that differ from OFF.
pub fn default_options() -> BTreeMap<String, String> {
    let defaults = [
        ("AUTO_CREATE_STATISTICS", "ON"),
        ("AUTO_UPDATE_STATISTICS", "ON"),
        ("PAGE_VERIFY", "CHECKSUM"),
    ];
    let text = |(name, value): (&str, &str)| (name.to_string(), value.to_string());
    defaults.into_iter().map(text).collect()
}

/// Name of a file for a database name: characters that no file name may hold become underscores.
pub fn file_stem(name: &str) -> String {
    let safe = |c: char| match c {
        '/' | '\\' | ':' | '\0' | '*' | '?' | '"' | '<' | '>' | '|' => '_',
        c => c,
    };
    name.chars().map(safe).collect()
}

/// The form of a definition that is stored: paths inside the data directory become relative, so that it can move.
pub fn stored_form(def: &DatabaseDef, data_dir: &Path) -> DatabaseDef {
    let mut stored = def.clone();
    for file in &mut stored.files {
        if let Ok(relative) = file.path.strip_prefix(data_dir) {
            file.path = relative.to_path_buf();
        }
    }
    stored
}

/// The reverse of [`stored_form`].
pub fn loaded_form(mut def: DatabaseDef, data_dir: &Path) -> DatabaseDef {
    for file in &mut def.files {
        file.path = absolute(&file.path, data_dir);
    }
    def
}

/// The path, below the data folder if it is relative.
pub fn absolute(path: &Path, data_dir: &Path) -> PathBuf {
    match path.is_absolute() {
        true => path.to_path_buf(),
        false => data_dir.join(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::change::ALWAYS;

    #[test]
    fn nobody_gets_into_a_database_that_was_taken_away() {
        let def = simple_def(5, "d", Path::new("/"), DefaultSizes::SYSTEM, 0);
        let entry = DatabaseEntry::new(def);
        for come in [DatabaseEntry::enter, DatabaseEntry::visit] {
            assert_eq!(come(&entry, 51, ALWAYS).map_err(|e| e.number), Err(942));
            assert_eq!(entry.sessions(), [0; 0]);
        }
    }
}
