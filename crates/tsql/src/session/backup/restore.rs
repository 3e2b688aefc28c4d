//! RESTORE DATABASE and RESTORE LOG.
//!
//! Theory: files are written beside their names and exchanged when all of the backup was read and found right. The old
//! files stay, under other names, until the restored database stands; whatever fails before that brings them back
//! ([`Exchange`]). Master knows of each step before it is taken, so that a start can do the same ([`UnderWay`]).

use super::exchange::{
    Exchange, RESTORED_AS, files_of, move_file, paths_of, remove_all, suffixed, with_suffix,
};
use super::options::{self, Ending, Options};
use super::take::{Base, Path as RecoveryPath, report_files};
use super::under_way::{self, Step, UnderWay};
use super::{
    BASE, PAGES, PAGES_FILE, PATH, RESTORING, ROLLED_TO, STANDBY, Watch, files_beside, history, say,
};
use super::{standby, suspect};
use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::instance::change::{ALWAYS, GoOn};
use crate::instance::left_behind::{registration, sync_directories};
use crate::instance::{
    DatabaseEntry, FileClaim, FileOwner, MASTER, NameClaim, OpenDatabase, Shut, close_database,
    recovery_lines, stored_form,
};
use crate::messages;
use crate::session::Execution;
use daruma_backup::{
    self as engine, BackupKind, Device, MediaSet, RestoreState, SetInfo, SetReader,
};
use daruma_base::{DatabaseId, Env};
use daruma_catalog::{Catalog, DatabaseDef, FileDef, names_equal};
use daruma_storage::{FileSpec, Opening, RecoveryModel, Stop};
use daruma_syntax::ast;
use daruma_value::temporal::{Moment, TICKS_PER_DAY};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

/// 0001-01-01 to 1970-01-01.
const DAYS_TO_1970: i128 = 719_162;

pub(super) fn restore(ex: &Execution<'_>, statement: &ast::Restore) -> Result<()> {
    if ex.state.trancount.get() > 0 || ex.depth.get() > 0 {
        return Err(messages::error(3021, &[]));
    }
    let name = match &statement.database {
        Some(name) => options::name(ex, name)?,
        None => String::new(),
    };
    let options = Options::evaluate(ex, &statement.options)?;
    options.check(options::OF_RESTORE)?;
    let ending = options.ending(ex)?;
    let claim = ex.instance().claim_names(&[&name], &ex.patience())?;
    let entry = ex.instance().database_named(&name);
    if statement.devices.is_empty() {
        return without_devices(ex, &name, entry.as_ref(), ending, &options);
    }
    let devices = options::devices(ex, &statement.devices, &options)?;
    let media = MediaSet::open(&devices).map_err(super::sql_error)?;
    let position = options.number("FILE").unwrap_or(1) as u32;
    let secret = options.secret(ex)?;
    let set = media.unlock(position, secret.as_ref());
    let set = options.with_damage(set.map_err(super::sql_error)?);
    let job = Job {
        ex,
        name,
        claim,
        entry,
        moves: options::moves(ex, &statement.moves)?,
        options,
        ending,
        devices,
        set,
    };
    let wrong_kind = |made_by: &str| {
        let device = job.devices.first().map_or("", |d| d.name());
        Err(messages::error(3135, &[&device, &made_by]))
    };
    if !statement.parts.is_empty() {
        return job.pages(&statement.parts);
    }
    match (statement.kind, job.info().kind) {
        (ast::RestoreKind::Database, BackupKind::Full) => job.full(),
        (ast::RestoreKind::Database, BackupKind::Differential) => {
            job.go_on(|entry, state| job.differential(entry, state))
        }
        (ast::RestoreKind::Log, BackupKind::Log) => job.go_on(|entry, state| job.log(entry, state)),
        (_, BackupKind::Log) => wrong_kind("BACKUP LOG"),
        (_, BackupKind::Full | BackupKind::Differential) => wrong_kind("BACKUP DATABASE"),
    }
}

/// 3101 and 3102: nobody may be in the database. Until the guard is dropped nobody comes (952).
pub(super) fn require_exclusive<'e>(
    ex: &Execution<'_>,
    entry: &'e DatabaseEntry,
) -> Result<Shut<'e>> {
    if ex.current_database() == entry.id() {
        return Err(messages::error(3102, &[&entry.name()]));
    }
    entry.check_recovered()?;
    let alone = crate::ddl::database::unused(ex, entry)?;
    let alone = alone.ok_or_else(|| messages::error(3101, &[]))?;
    alone.refuse();
    Ok(alone)
}

pub(super) struct Job<'e, 'a> {
    pub ex: &'e Execution<'a>,
    pub name: String,
    claim: NameClaim<'e>,
    entry: Option<Arc<DatabaseEntry>>,
    pub options: Options,
    pub ending: Ending,
    moves: Vec<(String, String)>,
    pub devices: Vec<Arc<dyn Device>>,
    pub set: SetReader,
}

impl Job<'_, '_> {
    /// The description of the chosen set.
    pub fn info(&self) -> &SetInfo {
        self.set.info()
    }

    fn env(&self) -> &Env {
        self.ex.instance().env()
    }

    fn processors(&self) -> usize {
        std::thread::available_parallelism().map_or(2, |n| n.get())
    }

    fn recovers(&self) -> bool {
        self.ending == Ending::Recovery
    }

    // --- full

    fn full(&self) -> Result<()> {
        let _alone = match &self.entry {
            Some(entry) => Some(self.check_replaceable(entry)?),
            None => None,
        };
        if let Some(stop) = self.stop_time()
            && stop < self.info().finished_utc
        {
            return Err(messages::error(4338, &[]));
        }
        let def = self.planned_definition()?;
        let _undo = standby::claim_undo(self.ex, self.entry.as_ref(), &self.ending)?;
        let _files = self.claim(&def.files)?;
        let entry = self.entry.as_ref();
        let beside_old = entry.map_or_else(Vec::new, |e| files_beside(&e.def()));
        let disk = &self.env().disk;
        let under_way = self.under_way(&def);
        self.mark(&def, &under_way, &self.ex.patience())?;
        let beside = with_suffix(&def, RESTORED_AS);
        remove_all(disk, &beside);
        let watch = Watch::new(self.ex, "RESTORE DATABASE", self.options.stats());
        let restored = engine::restore_full(
            self.env(),
            &self.set,
            &files_of(&beside),
            self.processors(),
            &mut |p| watch.tick(p),
        );
        let state = restored.map_err(|error| {
            remove_all(disk, &beside);
            self.unmark(&def);
            watch.explain(error)
        })?;
        let installed = self.install(&def, &state, under_way);
        if installed.is_err() {
            remove_all(disk, &beside);
        }
        let mut lines = installed?;
        for path in beside_old {
            // Nobody needs it any more; where it stays, it is only in the way.
            let _ = disk.remove(&path);
        }
        if let Some(entry) = entry {
            suspect::restored(&self.ex.state.instance, entry.id().0, None);
        }
        if let (Ending::Standby(undo), Some(entry)) =
            (&self.ending, self.ex.instance().database_named(&self.name))
        {
            lines = standby::enter(self.ex, &entry, undo)?;
        }
        self.report(&watch, "RESTORE DATABASE", &lines)
    }

    /// May the database that has the name be replaced? Then nobody else comes into it.
    fn check_replaceable<'d>(&self, entry: &'d DatabaseEntry) -> Result<Shut<'d>> {
        if entry.id() == MASTER {
            return Err(messages::error(3108, &[]));
        }
        if entry.is_system() {
            return Err(messages::not_supported("restore of a system database"));
        }
        let alone = require_exclusive(self.ex, entry)?;
        let has_work = !entry.is_standby() && !self.options.has("REPLACE");
        let (Some(open), true) = (entry.held(), has_work) else {
            return Ok(alone);
        };
        if open.storage.guid() != self.info().database_guid {
            return Err(messages::error(3154, &[&entry.name()]));
        }
        match open.storage.settings().recovery_model {
            RecoveryModel::Simple => Ok(alone),
            _ => Err(messages::error(3159, &[&entry.name()])),
        }
    }

    /// The definition in the backup under the new name, with the files where MOVE puts them.
    fn planned_definition(&self) -> Result<DatabaseDef> {
        let mut def = self.definition()?;
        def.name.clone_from(&self.name);
        let entry = self.entry.as_ref();
        def.id = entry.map_or_else(|| self.claim.free_id(), |e| e.id().0);
        def.offline = false;
        self.options.restrict(&mut def);
        // Who owned it elsewhere, and what only an administrator gives, is not the backup's to say.
        match &self.entry {
            Some(entry) => {
                let now = entry.def();
                def.owner.clone_from(&now.owner);
                def.owner_sid.clone_from(&now.owner_sid);
            }
            None => self.ex.own(&mut def),
        }
        for given in ["TRUSTWORTHY", "DB_CHAINING"] {
            def.options.remove(given);
        }
        forget_restores(&mut def);
        for (logical, _) in &self.moves {
            if !def
                .files
                .iter()
                .any(|f| names_equal(&f.logical_name, logical))
            {
                return Err(messages::error(3234, &[logical, &self.name]));
            }
        }
        for file in &mut def.files {
            self.place(file);
        }
        let problems: Vec<SqlError> = def.files.iter().filter_map(|f| self.conflict(f)).collect();
        let first = problems.into_iter().reduce(SqlError::followed);
        match first {
            Some(first) => Err(first.followed(messages::error(3119, &[]))),
            None => Ok(def),
        }
    }

    fn definition(&self) -> Result<DatabaseDef> {
        let unreadable = |_| {
            let device = self.devices.first().map_or("", |d| d.name());
            messages::error(3241, &[&device])
        };
        serde_json::from_str(&self.info().definition).map_err(unreadable)
    }

    /// Where a file goes, and how large it was when it was backed up.
    fn place(&self, file: &mut FileDef) {
        let moved = self
            .moves
            .iter()
            .find(|(logical, _)| names_equal(logical, &file.logical_name));
        if let Some((_, path)) = moved {
            file.path = crate::ddl::database::local_path(self.ex, path);
        }
        if let Some(meta) = self.info().files.iter().find(|f| f.id == file.id) {
            file.size_pages = meta.size_pages;
        }
    }

    /// A file that something else owns.
    fn conflict(&self, file: &FileDef) -> Option<SqlError> {
        let path = file.path.display();
        let elsewhere = messages::error(3156, &[&file.logical_name, &path]);
        let disk = self.env().disk.as_ref();
        let identity = disk.identity(&file.path);
        if self
            .own_files()
            .iter()
            .any(|p| disk.identity(p) == identity)
        {
            return None;
        }
        let there = || messages::error(5170, &[&path]);
        let problem = match self.ex.instance().owner_of_file(&file.path) {
            Some(FileOwner::Database(other)) => Some(messages::error(1834, &[&path, &other])),
            Some(FileOwner::Server | FileOwner::Statement) => Some(there()),
            None if !disk.exists(&file.path).unwrap_or(false) => None,
            None if !self.options.has("REPLACE") => Some(there()),
            // Nobody means to replace a backup by a database, least of all the one that is being read.
            None => match engine::is_backup(disk, &file.path) {
                Ok(false) => None,
                Ok(true) | Err(_) => Some(there()),
            },
        };
        problem.map(|p| p.followed(elsewhere))
    }

    /// Files of the database that is there already.
    fn own_files(&self) -> Vec<PathBuf> {
        let entry = self.entry.as_ref();
        entry.map_or_else(Vec::new, |e| super::exchange::paths_of(&e.def()))
    }

    /// Takes the places of files, and those beside them, for as long as the restore writes there.
    fn claim(&self, files: &[FileDef]) -> Result<FileClaim> {
        let places = |f: &FileDef| super::exchange::places_of(&f.path);
        let places: Vec<PathBuf> = files.iter().flat_map(places).collect();
        let claimed = self.ex.instance().claim_files(&places, &self.own_files());
        claimed.map_err(|(path, owner)| {
            let owner = match owner {
                FileOwner::Database(name) => name,
                FileOwner::Server | FileOwner::Statement => self.name.clone(),
            };
            let used = messages::error(1834, &[&path.display(), &owner]);
            used.followed(messages::error(3119, &[]))
        })
    }

    /// What a start is to know of the restore of a full backup.
    fn under_way(&self, def: &DatabaseDef) -> UnderWay {
        let (disk, own) = (self.env().disk.as_ref(), self.own_files());
        let is_there = |path: &FilePath| {
            let identity = disk.identity(path);
            disk.exists(path).unwrap_or(false) && !own.iter().any(|p| disk.identity(p) == identity)
        };
        let guid = self.info().database_guid;
        let under_way = UnderWay::new(Step::Writing, guid, &def.files, is_there);
        match self.entry {
            Some(_) => under_way,
            None => under_way.of_new(),
        }
    }

    /// `def` is the definition that a new database is to have; `go_on` ends the wait for another change of one that is there.
    fn mark(&self, def: &DatabaseDef, under_way: &UnderWay, go_on: GoOn<'_>) -> Result<()> {
        let instance = self.ex.instance();
        let data_dir = instance.data_dir();
        match &self.entry {
            Some(entry) => {
                let mut change = instance.begin_change(entry, go_on)?;
                change.def = under_way.mark(&change.def, data_dir);
                change.store()
            }
            None => {
                let marked = stored_form(&under_way.mark(def, data_dir), data_dir);
                Ok(instance.master_catalog()?.put_database(&marked)?)
            }
        }
    }

    /// After a failure that has left nothing to be done. If master cannot be told, the next start finds that out.
    fn unmark(&self, def: &DatabaseDef) {
        let instance = self.ex.instance();
        if sync_directories(self.env(), def.files.iter().map(|f| &f.path)).is_err() {
            return;
        }
        let _ = match &self.entry {
            Some(entry) => self.forget_mark(entry),
            None => instance.master_catalog().and_then(|master| {
                master.delete_database(def.id)?;
                Ok(())
            }),
        };
    }

    /// Also after the statement was cancelled.
    fn forget_mark(&self, entry: &DatabaseEntry) -> Result<()> {
        let mut change = self.ex.instance().begin_change(entry, ALWAYS)?;
        match under_way::forget(&mut change.def) {
            true => change.store(),
            false => Ok(()),
        }
    }

    /// Exchanges the files and, with RECOVERY, opens the database. Lines for the error log.
    fn install(
        &self,
        def: &DatabaseDef,
        state: &RestoreState,
        under_way: UnderWay,
    ) -> Result<Vec<String>> {
        let old = self.entry.as_ref().map(|entry| entry.def());
        let exchanging = under_way.at(Step::Exchanging);
        self.mark(def, &exchanging, ALWAYS)
            .inspect_err(|_| self.unmark(def))?;
        if let Some(open) = self.entry.as_ref().and_then(|e| e.take_open()) {
            // What cannot be written any more is about to be replaced; it is there again if the restore fails.
            let _ = close_database(&open);
        }
        let old_files = old.as_ref().map_or_else(Vec::new, |d| d.files.clone());
        let old_paths = old.as_ref().map_or_else(Vec::new, |d| paths_of(d));
        let exchange = Exchange::new(&self.env().disk, old_paths, paths_of(def));
        let result = exchange
            .forward()
            .and_then(|()| self.stand_up(def, state, &old_files));
        match result {
            Ok(lines) => {
                exchange.tidy();
                if let Some(entry) = &self.entry {
                    // If not, the next start does it.
                    let _ = sync_directories(self.env(), old_files.iter().map(|f| &f.path))
                        .map(|()| self.forget_mark(entry));
                }
                Ok(lines)
            }
            Err(error) => {
                // It may have become what it was to be in master, though that could not be told. Then the next start goes by
                // what it finds there, and by the files of both, which stay.
                if let Err(unknown) = self.mark(def, &exchanging, ALWAYS) {
                    if let Some(entry) = &self.entry {
                        entry.set_failed(unknown.message);
                    }
                    return Err(error);
                }
                let is_back = exchange.back().is_ok();
                match &self.entry {
                    Some(entry) => self.reopen(entry, is_back),
                    None if is_back => self.unmark(def),
                    None => {}
                }
                Err(error)
            }
        }
    }

    /// `old` are the files of the database that is replaced.
    fn stand_up(
        &self,
        def: &DatabaseDef,
        state: &RestoreState,
        old: &[FileDef],
    ) -> Result<Vec<String>> {
        let instance = self.ex.instance();
        let mut def = def.clone();
        let mut lines = Vec::new();
        let mut open = None;
        if self.recovers() {
            let recovered = recover(self.ex, &def, state)?;
            recovered.note(&mut def);
            (open, lines) = (Some(recovered.open), recovered.lines);
        } else {
            remember(&mut def, state);
            self.note_moment(&mut def);
        }
        let leaves = |f: &&FileDef| !def.files.iter().any(|new| new.path == f.path);
        let left: Vec<FileDef> = old.iter().filter(leaves).cloned().collect();
        if !left.is_empty() {
            let tidying = UnderWay::new(Step::Tidying, state.guid, &left, |_| false);
            def = tidying.mark(&def, instance.data_dir());
        }
        let entry = match &self.entry {
            Some(entry) => entry.clone(),
            None => {
                let entry = Arc::new(DatabaseEntry::new(def.clone()));
                instance.insert_database(entry.clone());
                entry
            }
        };
        let is_new = self.entry.is_none();
        // Who owns it now is not what the backup, nor the beginning of the restore, says.
        let saved = self.ex.atomic(|| {
            // Nobody drops the login meanwhile that is to own it. Where somebody does already, it is not waited for longer than for a lock.
            let may_own = !is_new || self.ex.lock_new_owner().is_ok();
            instance.change_database(&entry, |current| {
                def.owner = std::mem::take(&mut current.owner);
                def.owner_sid = current.owner_sid.take();
                // A login that has been dropped since it began to restore owns nothing.
                let has_owner = || instance.logins.list().owner_of(&def).is_some();
                if is_new && !(may_own && has_owner()) {
                    instance.give_to_administrator(&mut def);
                }
                *current = def;
                Ok(())
            })
        });
        match (saved, open) {
            (Ok(()), Some(open)) => entry.set_open(open),
            (Ok(()), None) => {}
            (Err(error), open) => {
                if let Some(open) = open {
                    let _ = open.storage.close();
                }
                if self.entry.is_none() {
                    instance.remove_database(entry.id());
                }
                return Err(error);
            }
        }
        instance.plans.clear();
        Ok(lines)
    }

    /// After a failed exchange: the old database as it was. While it is not certain that its files have their names for good
    /// (`is_back`), the definition goes on telling the next start to see to that.
    fn reopen(&self, entry: &Arc<DatabaseEntry>, is_back: bool) {
        let instance = self.ex.instance();
        let restored = match is_back {
            true => self.forget_mark(entry),
            false => Ok(()),
        };
        let def = &entry.def();
        if entry.is_standby() {
            let opened = restored.and_then(|()| standby::open_files(instance.engine(), def));
            if let Ok((open, _)) = opened {
                entry.set_open(open);
            }
            return;
        }
        if entry.is_restoring() || def.offline {
            return;
        }
        let opened = restored.and_then(|()| open_files(self.ex, def));
        match opened {
            Ok((open, _)) => entry.set_open(open),
            Err(error) => entry.set_failed(error.message),
        }
    }

    // --- differential and log

    /// The database to go on with; 3118 when there is none.
    pub fn existing(&self) -> Result<Arc<DatabaseEntry>> {
        let entry = self.entry.clone();
        entry.ok_or_else(|| messages::error(3118, &[&self.name]))
    }

    /// A step on a database in restore, which may be standing by.
    fn go_on(
        &self,
        step: impl FnOnce(&Arc<DatabaseEntry>, RestoreState) -> Result<()>,
    ) -> Result<()> {
        let entry = &self.existing()?;
        if super::pages::is_under_way(entry) {
            return self.roll_pages(entry);
        }
        let state = state_of(&entry.def()).ok_or_else(|| messages::error(3117, &[]))?;
        state.check(self.info()).map_err(super::chain_error)?;
        self.check_moment(&entry.def())?;
        let done = standby::around(self.ex, entry, || step(entry, state));
        if done.is_err() {
            // If master cannot be told, the next start finds that nothing is left to be done.
            let _ = self.forget_mark(entry);
        }
        done
    }

    fn differential(&self, entry: &Arc<DatabaseEntry>, mut state: RestoreState) -> Result<()> {
        let mut def = (*entry.def()).clone();
        let _undo = standby::claim_undo(self.ex, Some(entry), &self.ending)?;
        let _files = self.add_new_files(&mut def)?.1;
        let watch = Watch::new(self.ex, "RESTORE DATABASE", self.options.stats());
        // From the first page on only a complete differential makes sense.
        let begun =
            engine::begin_differential(&self.set, &state, self.processors(), &mut |_| watch.look());
        self.save_state(entry, &begun.map_err(|e| watch.explain(e))?)?;
        let disk = &self.env().disk;
        let mut files = files_of(&def);
        let log_path = files.log.path.clone();
        files.log.path = suffixed(&log_path, RESTORED_AS);
        let _ = disk.remove(&files.log.path);
        for file in &mut files.data {
            let meta = self.info().files.iter().find(|f| f.id == file.id);
            file.size_pages = meta.map_or(file.size_pages, |m| m.size_pages);
        }
        engine::restore_differential(
            self.env(),
            &self.set,
            &files,
            |spec| disk.exists(&spec.path).unwrap_or(false),
            &mut state,
            self.processors(),
            &mut |p| watch.tick(p),
        )
        .map_err(|e| watch.explain(e))?;
        move_file(disk, &files.log.path, &log_path)?;
        let lines = self.applied(entry, def, &state, false)?;
        self.report(&watch, "RESTORE DATABASE", &lines)
    }

    fn log(&self, entry: &Arc<DatabaseEntry>, mut state: RestoreState) -> Result<()> {
        let mut def = (*entry.def()).clone();
        let _undo = standby::claim_undo(self.ex, Some(entry), &self.ending)?;
        let (new_files, _files) = self.add_new_files(&mut def)?;
        let stop = self.stop_time();
        let watch = Watch::new(self.ex, "RESTORE LOG", self.options.stats());
        engine::restore_log(
            self.env(),
            &self.set,
            &files_of(&def),
            &new_files,
            &mut state,
            stop.map(Stop::Time),
            &mut |p| watch.tick(p),
        )
        .map_err(|e| watch.explain(e))?;
        // A point in time that this log does not reach: the next one may.
        let short = stop.is_some_and(|s| !state.stopped && s > self.info().finished_utc);
        let lines = self.applied(entry, def, &state, short)?;
        if short {
            let text = "This backup set contains records that were logged before the designated point in time. The database is being left in the restoring state so that more roll forward can be performed.";
            say(self.ex, SqlError::new(0, 0, 1, text))?;
        }
        self.report(&watch, "RESTORE LOG", &lines)
    }

    /// Files that the database got after the backup it was restored from, and a claim on them.
    fn add_new_files(&self, def: &mut DatabaseDef) -> Result<(Vec<FileSpec>, FileClaim)> {
        let backed_up = self.definition()?;
        let mut added: Vec<FileDef> = Vec::new();
        for mut file in backed_up.files {
            if def.files.iter().any(|f| f.id == file.id) {
                continue;
            }
            self.place(&mut file);
            if let Some(problem) = self.conflict(&file) {
                return Err(problem.followed(messages::error(3119, &[])));
            }
            added.push(file.clone());
            def.files.push(file);
        }
        def.filegroups = backed_up.filegroups;
        let claim = self.claim(&added)?;
        if !added.is_empty() {
            let is_there = |path: &FilePath| self.env().disk.exists(path).unwrap_or(false);
            let guid = self.info().database_guid;
            let adding = UnderWay::new(Step::Adding, guid, &added, is_there);
            self.mark(def, &adding, &self.ex.patience())?;
        }
        Ok((added.iter().map(FileDef::spec).collect(), claim))
    }

    fn save_state(&self, entry: &Arc<DatabaseEntry>, state: &RestoreState) -> Result<()> {
        self.ex.change_database(entry, |def| {
            remember(def, state);
            Ok(())
        })
    }

    fn applied(
        &self,
        entry: &Arc<DatabaseEntry>,
        restored: DatabaseDef,
        state: &RestoreState,
        short: bool,
    ) -> Result<Vec<String>> {
        let instance = self.ex.instance();
        instance.change_database(entry, |def| {
            (def.files, def.filegroups) = (restored.files, restored.filegroups);
            under_way::forget(def);
            remember(def, state);
            self.note_moment(def);
            self.options.restrict(def);
            Ok(())
        })?;
        match &self.ending {
            Ending::Standby(undo) => return standby::enter(self.ex, entry, undo),
            Ending::Recovery if !short => {}
            Ending::Recovery | Ending::NoRecovery => return Ok(Vec::new()),
        }
        recover_in_place(self.ex, entry, Some(state), |_| {})
    }

    /// Errors 4335 and 4338: a point in time that lies before what the database holds, or would hold, already.
    fn check_moment(&self, def: &DatabaseDef) -> Result<()> {
        let Some(stop) = self.stop_time() else {
            return Ok(());
        };
        let (number, moment) = match self.info().kind {
            BackupKind::Log => {
                let rolled_to = def.options.get(ROLLED_TO).and_then(|t| t.parse().ok());
                (4335, rolled_to.unwrap_or(i64::MIN))
            }
            _ => (4338, self.info().finished_utc),
        };
        match stop < moment {
            true => Err(messages::error(number, &[])),
            false => Ok(()),
        }
    }

    /// The log in a backup of the log ends when that begins; pages are of the time when their backup ends.
    fn note_moment(&self, def: &mut DatabaseDef) {
        let info = self.info();
        let moment = match info.kind {
            BackupKind::Log => info.started_utc,
            _ => info.finished_utc,
        };
        def.options.insert(ROLLED_TO.into(), moment.to_string());
    }

    /// STOPAT as an instant.
    pub fn stop_time(&self) -> Option<i64> {
        let offset = self.env().clock.local_offset_minutes();
        let moment = self.options.moment("STOPAT")?;
        Some(utc_of(moment, offset))
    }

    fn report(&self, watch: &Watch<'_, '_>, what: &str, lines: &[String]) -> Result<()> {
        let source = format!("spid{}", self.ex.spid());
        let log = &self.ex.instance().log;
        lines.iter().for_each(|line| log.write(&source, line));
        let info = self.info();
        report_files(self.ex, watch, &self.name, info)?;
        history::restore(self.ex, &self.name, info, &self.options_word());
        if info.damaged {
            self.report_damage()?;
        }
        say(self.ex, watch.summary(what, info.pages + info.log_pages))
    }

    /// After CONTINUE_AFTER_ERROR: the pages go into the error log, the warning to the client.
    fn report_damage(&self) -> Result<()> {
        let source = format!("spid{}", self.ex.spid());
        for (file, page) in &self.info().damaged_pages {
            let told = messages::error(3183, &[file, page, &self.name]);
            self.ex.instance().log.write(&source, &told.message);
        }
        say(self.ex, messages::error(3184, &[]))
    }

    fn options_word(&self) -> history::RestoreOptions {
        history::RestoreOptions {
            replace: self.options.has("REPLACE"),
            recovery: self.recovers(),
            stop_at: self.stop_time(),
        }
    }
}

/// `RESTORE DATABASE name WITH RECOVERY`, or with STANDBY: no backup is applied.
fn without_devices(
    ex: &Execution<'_>,
    name: &str,
    entry: Option<&Arc<DatabaseEntry>>,
    ending: Ending,
    options: &Options,
) -> Result<()> {
    let entry = entry.ok_or_else(|| messages::error_state(911, 11, &[&name]))?;
    if !entry.is_restoring() {
        return Err(messages::error(3153, &[]));
    }
    standby::around(ex, entry, || match ending {
        Ending::Recovery => recover_only(ex, entry, options),
        Ending::NoRecovery => Ok(()),
        Ending::Standby(undo) => standby::enter(ex, entry, &undo).map(|_| ()),
    })
}

fn recover_only(ex: &Execution<'_>, entry: &Arc<DatabaseEntry>, options: &Options) -> Result<()> {
    let watch = Watch::new(ex, "RESTORE DATABASE", None);
    if super::pages::is_under_way(entry) {
        super::pages::recover(ex, entry)?;
        return say(ex, watch.summary("RESTORE DATABASE", 0));
    }
    let state = state_of(&entry.def());
    let lines = recover_in_place(ex, entry, state.as_ref(), |def| options.restrict(def))?;
    let source = format!("spid{}", ex.spid());
    lines
        .iter()
        .for_each(|l| ex.instance().log.write(&source, l));
    say(ex, watch.summary("RESTORE DATABASE", 0))
}

/// How far restores of the database were that a copy was made of, and where their files are, is not for the copy.
pub(crate) fn forget_restores(def: &mut DatabaseDef) {
    for state in [STANDBY, RESTORING, ROLLED_TO, PAGES, PAGES_FILE] {
        def.options.remove(state);
    }
    under_way::forget(def);
}

/// Files that were restored WITH NORECOVERY get their boot page: from now on they are a database that can follow another's log. The
/// definition says so; the caller stores it before anything else is done to them.
pub(crate) fn ready_to_follow(env: &Env, def: &mut DatabaseDef) -> Result<()> {
    if let Some(state) = state_of(def) {
        engine::write_boot(env, &files_of(def), &state).map_err(super::sql_error)?;
    }
    def.options.remove(ROLLED_TO);
    def.options.insert(RESTORING.into(), String::new());
    Ok(())
}

fn remember(def: &mut DatabaseDef, state: &RestoreState) {
    let text = serde_json::to_string(state).unwrap_or_default();
    def.options.insert(RESTORING.into(), text);
}

pub(super) fn state_of(def: &DatabaseDef) -> Option<RestoreState> {
    serde_json::from_str(def.options.get(RESTORING)?).ok()
}

/// Restored files that are a database again.
struct Recovered {
    open: OpenDatabase,
    /// For the error log.
    lines: Vec<String>,
    /// Where the new recovery path begins, and what differential backups build on; none after a backup of the tail of the log, which
    /// left the files as they were.
    begun: Option<(RecoveryPath, Base)>,
}

impl Recovered {
    /// What the definition says of it.
    fn note(&self, def: &mut DatabaseDef) {
        def.options.remove(RESTORING);
        def.offline = false;
        let Some((path, base)) = &self.begun else {
            return;
        };
        def.options.remove(ROLLED_TO);
        let texts = [
            (PATH, serde_json::to_string(path)),
            (BASE, serde_json::to_string(base)),
        ];
        for (name, text) in texts {
            def.options.insert(name.into(), text.unwrap_or_default());
        }
    }
}

/// Opens restored files: redo of the log, rollback of what had not committed. A new recovery path begins.
fn recover(ex: &Execution<'_>, def: &DatabaseDef, state: &RestoreState) -> Result<Recovered> {
    let env = ex.instance().env();
    engine::write_boot(env, &files_of(def), state).map_err(super::sql_error)?;
    let (open, lines) = open_files(ex, def)?;
    let path = RecoveryPath {
        fork: env.random.u64(),
        lsn: state.end_lsn,
    };
    let data = def.files.iter().filter(|f| f.filegroup != 0);
    let base = Base {
        set: state.base,
        lsn: state.base_lsn,
        files: data.map(|f| f.id).collect(),
        end: None,
    };
    Ok(Recovered {
        open,
        lines,
        begun: Some((path, base)),
    })
}

/// Opens the files of a database that waited for more backups. `change` is what its definition is to say as well.
fn recover_in_place(
    ex: &Execution<'_>,
    entry: &DatabaseEntry,
    state: Option<&RestoreState>,
    change: impl FnOnce(&mut DatabaseDef),
) -> Result<Vec<String>> {
    let recovered = match state {
        Some(state) => recover(ex, &entry.def(), state)?,
        None => {
            let (open, lines) = open_files(ex, &entry.def())?;
            Recovered {
                open,
                lines,
                begun: None,
            }
        }
    };
    ex.instance().change_database(entry, |def| {
        recovered.note(def);
        change(def);
        Ok(())
    })?;
    entry.set_open(recovered.open);
    ex.instance().plans.clear();
    Ok(recovered.lines)
}

pub(super) fn open_files(
    ex: &Execution<'_>,
    def: &DatabaseDef,
) -> Result<(OpenDatabase, Vec<String>)> {
    let engine = ex.instance().engine();
    let opening = Opening {
        registration: Some(registration(def)),
        ..Opening::default()
    };
    let (storage, report) =
        engine.open_database_as(DatabaseId(def.id), &def.name, def.file_specs(), opening)?;
    let lines = recovery_lines(&def.name, def.id, &storage.settings(), &report);
    match Catalog::open(&storage) {
        Ok(catalog) => {
            let catalog = Arc::new(catalog);
            Ok((OpenDatabase { storage, catalog }, lines))
        }
        Err(error) => {
            let _ = storage.close();
            Err(error.into())
        }
    }
}

/// An instant in local time as UTC, in 100 ns.
pub(crate) fn utc_of(moment: Moment, offset_minutes: i16) -> i64 {
    let epoch = DAYS_TO_1970 * i128::from(TICKS_PER_DAY);
    let local = moment.total_ticks() - epoch;
    (local - i128::from(offset_minutes) * 600_000_000) as i64
}
