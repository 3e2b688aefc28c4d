//! A database of a group on this server: led, followed, or neither, and how it goes from one to the other.
//!
//! | found at start | done |
//! |---|---|
//! | this server led it last, or a failover to it was cut short, it has promised nobody a later epoch, and no cluster decides | the judge, its own file, grants the next epoch; opened by recovery |
//! | anything else | followed: nothing is applied before a primary says where the logs part |
//! | no file of its standing | left alone: it waits for somebody to join it |
//!
//! | event | done |
//! |---|---|
//! | another replica leads | nothing more is acknowledged; sessions end; closed as after a crash, and followed |
//! | failover, planned (`failover`) | the primary's record grants it: everything acknowledged is here; redo to the end, then led |
//! | failover, forced (`failover`) | the same by this server's own word |
//!
//! The history of a log is storage's: the epoch that a judge grants is the one that storage's first record names.

use super::common::file_error;
use super::group::{Group, Task, hex};
use daruma_base::{Lsn, PageId};
use daruma_catalog::{GroupDatabaseDef, GroupDef, names_equal};
use daruma_group::commit::{
    Epoch, EpochId, Fork, History, Record, ReplicaId, Request, Role, Verdict,
};
use daruma_group::replica::{
    Authority, Change, CopyChange, Followed, Following, Led, Standing, StandingFile, StorageCopy,
    StorageLog,
};
use daruma_group::transport::Link;
use daruma_storage::{Database, Secondary};
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::instance::hadr::{Availability, DatabaseAct, Lease};
use daruma_tsql::instance::{ABSENT_REPLICA_LOG, DatabaseEntry, UNACKNOWLEDGED_LOG};
use daruma_tsql::messages;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A database that joins follows by then, or the statement fails.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Sessions of a database whose role changes have so long to notice.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Clone)]
pub(super) struct DatabasePart {
    /// `group_database_id`.
    pub id: [u8; 16],
    pub entry: Arc<DatabaseEntry>,
    pub state: PartState,
    /// What the error log was told last.
    trouble: Arc<Mutex<Option<String>>>,
}

#[derive(Clone)]
pub(super) enum PartState {
    Led {
        storage: Arc<Database>,
        led: Arc<Led>,
        log: Arc<StorageLog>,
    },
    Followed {
        secondary: Arc<Secondary>,
        copy: Arc<StorageCopy>,
        followed: Arc<Followed>,
    },
    /// It could not be opened, or redo failed; the error log says why.
    Down,
}

impl DatabasePart {
    pub(super) fn number(&self) -> u128 {
        u128::from_be_bytes(self.id)
    }

    /// Of a database that is led; `None` for others.
    pub(super) fn role(&self) -> Option<Role> {
        match &self.state {
            PartState::Led { led, .. } => Some(led.role()),
            _ => None,
        }
    }

    /// Is it led, or could it be, as far as is known?
    pub(super) fn could_be_led(&self) -> bool {
        match &self.state {
            PartState::Led { .. } => true,
            PartState::Followed { copy, followed, .. } => {
                copy.goes_on() && followed.failure().is_none()
            }
            PartState::Down => false,
        }
    }

    /// Number of the newest epoch of its log that is known.
    pub(super) fn epoch_number(&self) -> u64 {
        match &self.state {
            PartState::Led { led, .. } => led.epoch().number,
            PartState::Followed { followed, .. } => followed.promised().number,
            PartState::Down => 0,
        }
    }

    /// Is the database one of that definition?
    pub(super) fn stays(&self, def: &GroupDef) -> bool {
        let mut databases = def.databases.iter();
        databases.any(|d| d.group_database_id == self.id)
    }

    /// What can be written and let go of.
    pub(super) fn keep_up(&self) {
        if let PartState::Followed {
            secondary,
            followed,
            ..
        } = &self.state
        {
            // What fails fences the log, and redo finds that out.
            let _ = secondary.restart_point();
            followed.report();
        }
    }
}

impl Group {
    // --- at the start and at the end of the server

    pub(super) fn start_all(self: &Arc<Self>) {
        self.forget_stale_marks();
        for database in &self.def().databases {
            if database.is_joined {
                self.start(database);
            }
        }
    }

    fn start(self: &Arc<Self>, database: &GroupDatabaseDef) {
        let Some(entry) = self.common.instance.database_named(&database.name) else {
            return;
        };
        self.set_availability(&entry, Availability::Resolving);
        if self.is_reverting(database.group_database_id) {
            return self.put(database.group_database_id, &entry, PartState::Down);
        }
        if let Err(error) = self.restart(database, &entry) {
            self.common.log(&format!(
                "Database '{}' of availability group '{}' could not be started: {error}",
                database.name,
                self.def().name
            ));
            self.put(database.group_database_id, &entry, PartState::Down);
        }
    }

    fn restart(
        self: &Arc<Self>,
        database: &GroupDatabaseDef,
        entry: &Arc<DatabaseEntry>,
    ) -> Result<()> {
        let id = database.group_database_id;
        let mut file = self.standing(id)?;
        let standing = file.standing().clone();
        let record = standing.record;
        let is_mine = self.is_primary() || self.failover().is_some();
        let leads = self.warrant.is_none()
            && is_mine
            && record.primary == self.me
            && standing.promised == record.epoch;
        if !leads {
            self.set_restoring(entry, true)?;
            return self.follow(id, entry, file, None, Lsn::MAX);
        }
        let to = EpochId {
            number: record.epoch.number + 1,
            id: u128::from_be_bytes(self.common.random_id()),
        };
        let request = Request::Promote {
            from: record.epoch,
            to,
            replica: self.me,
        };
        let reply = file.answer(request).map_err(|e| self.failed_file(id, &e))?;
        if reply.verdict != Verdict::Granted {
            return self.follow(id, entry, file, None, Lsn::MAX);
        }
        let open = self
            .common
            .instance
            .open_primary(entry, (to.number, to.id))?;
        entry.set_open(open.clone());
        self.begin_reign(id, entry, file, &open.storage, reply.record, None)
    }

    /// Ends what the databases do. One whose commits nobody else waits for is closed with the server's others, in good order; any
    /// other as after a crash: nothing more is to come into its log that nobody has.
    pub(super) fn rest_all(&self) {
        let parts = std::mem::take(&mut *self.parts.lock());
        for part in parts {
            // Whoever leads by a lease acknowledges nothing any more, alone or not.
            let is_alone = self.warrant.is_none()
                && matches!(&part.state, PartState::Led { led, .. }
                if led.role() == Role::Open && led.progress().iter().all(|p| !p.is_participant));
            self.node.remove(part.number());
            match part.state {
                PartState::Led { .. } if is_alone => {}
                PartState::Led { storage, .. } => {
                    part.entry.take_open();
                    storage.end_reign();
                    let _ = storage.close();
                }
                PartState::Followed {
                    secondary, copy, ..
                } => {
                    part.entry.take_open();
                    copy.stop();
                    // A restart redoes what is not written here.
                    let _ = secondary.restart_point();
                    let _ = secondary.close();
                }
                PartState::Down => {}
            }
        }
    }

    pub(super) fn tick(self: &Arc<Self>) {
        self.follow_owner();
        let parts = self.parts.lock().clone();
        for part in &parts {
            match &part.state {
                PartState::Led { storage, led, log } => {
                    led.ask_again();
                    self.bound_log(part, log);
                    self.bound_unacknowledged(storage);
                }
                PartState::Followed { followed, .. } => {
                    self.tell_trouble(part, followed);
                    self.revert_if_due(part, followed);
                }
                PartState::Down => {}
            }
        }
    }

    /// Log is kept for replicas that are away up to what the server is configured for.
    fn bound_log(&self, part: &DatabasePart, log: &StorageLog) {
        let configuration = &self.common.instance.configuration;
        let megabytes = configuration.in_use(ABSENT_REPLICA_LOG);
        let bytes_max = configuration.bytes_in_use(ABSENT_REPLICA_LOG);
        let grace = self.session_timeout();
        for replica in log.bound_absent(bytes_max, grace, |r| self.node.is_connected(r)) {
            let server = self
                .replica(replica.number())
                .map_or_else(String::new, |r| r.server);
            self.common.log(&format!(
                "Log of database '{}' is kept no longer for '{server}', which is away and would need more than {megabytes} MB of it \
                 ('{ABSENT_REPLICA_LOG}'): the database has to be seeded there anew.",
                part.entry.name()
            ));
        }
    }

    /// Writers wait for synchronous replicas that lack more than the server is configured for.
    fn bound_unacknowledged(&self, storage: &Database) {
        let configuration = &self.common.instance.configuration;
        storage.set_unacknowledged_max(configuration.bytes_in_use(UNACKNOWLEDGED_LOG));
    }

    /// What keeps a copy from following, once each time that it is another thing.
    fn tell_trouble(&self, part: &DatabasePart, followed: &Followed) {
        let name = part.entry.name();
        let trouble = match (followed.following(), followed.failure()) {
            (_, Some(why)) => Some(format!("Database '{name}' follows no more: {why}.")),
            (Following::Parted(Fork::At(at)), _) => Some(format!(
                "The log of database '{name}' parts from the primary's at {at}: what only this server has is kept. \
                 ALTER DATABASE SET HADR RESUME gives it up; pages that have it are fetched from the primary, with automatic seeding; without, \
                 the database has to be copied anew."
            )),
            (Following::Parted(Fork::Nothing), _) => Some(format!(
                "The log of database '{name}' and the primary's have nothing in common, or the primary no longer has what comes next: \
                 the database has to be seeded anew."
            )),
            _ => None,
        };
        let mut told = part.trouble.lock();
        if *told != trouble {
            trouble.iter().for_each(|text| self.common.log(text));
            *told = trouble;
        }
    }

    // --- led

    /// A database that is open here begins to be the group's.
    pub(super) fn lead_new(self: &Arc<Self>, database: &GroupDatabaseDef) -> Result<()> {
        let (name, group) = (&database.name, &self.def().name);
        let entry = self.common.instance.database_named(name);
        let entry = entry.ok_or_else(|| messages::error(35238, &[name, group]))?;
        let storage = entry.open()?.storage;
        // What is told of the epoch is hard.
        storage.settle_epoch()?;
        storage.sync_blocks()?;
        let history = history_of(&storage)?;
        let last = history.last().map(|e| e.name).unwrap_or_default();
        let id = database.group_database_id;
        let standing = Standing {
            promised: last,
            history,
            record: Record::first(last, self.me),
        };
        let path = self.standing_path(id);
        let file = StandingFile::create(self.common.disk(), &path, standing)
            .map_err(|e| file_error(&path, &e))?;
        let opens_at = storage.hardened_lsn();
        self.lead(id, &entry, file, &storage, opens_at, None)
    }

    /// The judge has granted an epoch, and storage has begun it: sessions may come when the participants have its first record.
    pub(super) fn begin_reign(
        self: &Arc<Self>,
        id: [u8; 16],
        entry: &Arc<DatabaseEntry>,
        mut file: StandingFile,
        storage: &Arc<Database>,
        record: Record,
        acknowledged: Option<Lsn>,
    ) -> Result<()> {
        let standing = Standing {
            promised: record.epoch,
            history: history_of(storage)?,
            record,
        };
        file.store(standing).map_err(|e| self.failed_file(id, &e))?;
        let opens_at = storage.sync_blocks()?;
        self.lead(id, entry, file, storage, opens_at, acknowledged)
    }

    fn lead(
        self: &Arc<Self>,
        id: [u8; 16],
        entry: &Arc<DatabaseEntry>,
        file: StandingFile,
        storage: &Arc<Database>,
        opens_at: Lsn,
        acknowledged: Option<Lsn>,
    ) -> Result<()> {
        let number = u128::from_be_bytes(id);
        self.bound_unacknowledged(storage);
        let lease = self.warrant.clone().map(|w| w as Arc<dyn Lease>);
        entry.set_lease(lease);
        let tell = self.teller();
        let told = move |change| {
            tell(match change {
                Change::Opened => Task::Opened(number),
                Change::Fenced => Task::Fenced(number),
            });
        };
        let rules = self.rules();
        let fed: Vec<ReplicaId> = rules.replicas.iter().map(|r| r.replica).collect();
        let log = StorageLog::new(storage, &fed, Box::new(told));
        let led = Led::begin(
            number,
            self.me,
            file,
            log.clone(),
            opens_at,
            acknowledged,
            rules,
            self.session_timeout(),
            self.common.modes(),
            self.authority(number),
        );
        let led = led.map_err(|e| SqlError::new(17300, 16, 1, e.to_string()))?;
        if self.is_suspended(id) {
            let others = self.others();
            others.into_iter().for_each(|r| led.rest(r, true));
        }
        self.node.lead(number, led.clone());
        let storage = storage.clone();
        self.put(id, entry, PartState::Led { storage, led, log });
        Ok(())
    }

    /// Who says that this server may lead, beside the database's record.
    fn authority(&self, database: u128) -> Option<Arc<dyn Authority>> {
        let warrant = self.warrant.clone()?;
        warrant.listing().forget(database);
        Some(warrant)
    }

    pub(super) fn opened(&self, database: u128) {
        let Some(part) = self.part(database) else {
            return;
        };
        if part.role() == Some(Role::Open) && !self.is_paused.load(Ordering::Acquire) {
            self.set_availability(&part.entry, self.primary_availability());
            self.common.log(&format!(
                "The availability group database '{}' is changing roles from \"RESOLVING\" to \"PRIMARY\".",
                part.entry.name()
            ));
        }
    }

    /// Another replica leads the database: it is followed from now on.
    pub(super) fn fenced(self: &Arc<Self>, database: u128) {
        let Some(part) = self.part(database) else {
            return;
        };
        let PartState::Led { storage, led, .. } = &part.state else {
            return;
        };
        // One that was fenced before, and is led again, goes on.
        if led.role() != Role::Fenced {
            return;
        }
        let name = part.entry.name();
        self.common.log(&format!(
            "The availability group database '{name}' is changing roles from \"PRIMARY\" to \"SECONDARY\", because another replica leads it, or is to."
        ));
        self.set_availability(&part.entry, Availability::Resolving);
        // Pages may have what was acknowledged.
        let known = storage.hardened_lsn();
        self.node.remove(database);
        self.put_down(&part.entry, storage);
        let followed = self
            .set_restoring(&part.entry, true)
            .and_then(|()| self.standing(part.id))
            .and_then(|file| self.follow(part.id, &part.entry, file, Some(known), known));
        if let Err(error) = followed {
            self.down(&part, &error.message);
        }
    }

    /// A database whose log is fenced is closed, when its sessions have noticed.
    fn put_down(&self, entry: &Arc<DatabaseEntry>, storage: &Arc<Database>) {
        let until = Instant::now() + LEAVE_TIMEOUT;
        while entry.session_count() > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        entry.take_open();
        // Nothing can be written to it any more, so nothing can fail that matters.
        let _ = storage.close();
    }

    /// The database is in the group no longer. One that this server leads stays open, and what waited in it for other replicas is acknowledged,
    /// if nobody else may come to lead it (`stays_open`); any other waits for more log.
    pub(super) fn let_go_of(&self, part: &DatabasePart, stays_open: bool) {
        match &part.state {
            PartState::Led { storage, led, .. } if stays_open && led.role() != Role::Fenced => {
                self.node.remove(part.number());
                storage.set_participants(false);
                storage.hold_writers_back(false);
                self.remove(part);
                self.set_availability(&part.entry, Availability::Alone);
            }
            _ => self.leave(part.id),
        }
    }

    // --- followed

    /// Of a log that this server led last and handed to nobody, what lies below `acknowledged` may have been acknowledged: only who was
    /// listed has that for certain. No page has anything above `known`, if that is known.
    pub(super) fn follow(
        self: &Arc<Self>,
        id: [u8; 16],
        entry: &Arc<DatabaseEntry>,
        file: StandingFile,
        known: Option<Lsn>,
        acknowledged: Lsn,
    ) -> Result<()> {
        let number = u128::from_be_bytes(id);
        let record = file.standing().record;
        let kept = match record.primary == self.me {
            true => acknowledged,
            false => Lsn::NONE,
        };
        self.set_availability(entry, Availability::Closed);
        let secondary = self.common.instance.open_secondary(entry, known)?;
        let tell = self.teller();
        let is_told = Arc::new(AtomicBool::new(false));
        let told = move |change| {
            tell(match change {
                CopyChange::Readable => Task::Readable(number),
                CopyChange::Definitions if is_told.swap(true, Ordering::AcqRel) => return,
                CopyChange::Definitions => Task::Definitions(number, is_told.clone()),
                CopyChange::Failed(why, page) => Task::Failed(number, why, page),
            });
        };
        let thread = |e: std::io::Error| SqlError::new(17300, 16, 1, e.to_string());
        let begun = StorageCopy::begin(&secondary, known, Box::new(told)).and_then(|copy| {
            copy.hold(self.repairs.is_awaited(number));
            let followed = Followed::begin(number, self.me, file, copy.clone(), kept);
            let followed = followed.inspect_err(|_| drop(copy.stop()))?;
            Ok((copy, followed))
        });
        let (copy, followed) = begun.map_err(|error| {
            // Whoever comes next finds the files closed.
            let _ = secondary.close();
            thread(error)
        })?;
        if self.is_suspended(id) {
            followed.rest(true, &[]);
        }
        self.put(
            id,
            entry,
            PartState::Followed {
                secondary,
                copy,
                followed: followed.clone(),
            },
        );
        self.node.follow(number, followed);
        Ok(())
    }

    /// Readers may come, or definitions have changed.
    pub(super) fn readable(self: &Arc<Self>, database: u128) {
        let Some(part) = self.part(database) else {
            return;
        };
        let PartState::Followed { secondary, .. } = &part.state else {
            return;
        };
        if let Ok(storage) = secondary.database() {
            match self.common.instance.show_database(&part.entry, storage) {
                Ok(()) => self.set_availability(&part.entry, self.secondary_availability()),
                Err(error) => self.failed(database, &error.message, None),
            }
        }
    }

    pub(super) fn failed(
        self: &Arc<Self>,
        database: u128,
        why: &str,
        page: Option<(PageId, bool)>,
    ) {
        if let Some(part) = self.part(database) {
            self.common.log(&format!(
                "Redo of database '{}' has ended: {why}",
                part.entry.name()
            ));
            if let Some((page, is_checksum)) = page {
                self.redo_needs(&part, page, is_checksum);
            }
        }
    }

    pub(super) fn down(&self, part: &DatabasePart, why: &str) {
        self.common.log(&format!(
            "Database '{}' could not take its new role: {why}",
            part.entry.name()
        ));
        self.put(part.id, &part.entry, PartState::Down);
    }

    /// SET HADR AVAILABILITY GROUP: a copy that was restored follows the primary. It fails where that cannot be.
    pub(super) fn join_database(self: &Arc<Self>, name: &str) -> Result<()> {
        let def = self.def();
        let database = def.database(name).cloned();
        let database = database.ok_or_else(|| messages::error(35281, &[&name, &def.name]))?;
        let entry = self.common.instance.database_named(name);
        let entry = entry.ok_or_else(|| messages::error(35238, &[&name, &def.name]))?;
        let id = database.group_database_id;
        if self.part(u128::from_be_bytes(id)).is_some() {
            return Err(messages::error(35280, &[&name, &def.name]));
        }
        self.common.instance.check_joinable(&entry)?;
        let joined = self.follow_new(id, &entry);
        if joined.is_err() {
            self.leave(id);
        }
        joined
    }

    fn follow_new(self: &Arc<Self>, id: [u8; 16], entry: &Arc<DatabaseEntry>) -> Result<()> {
        // Its files are a copy's that somebody has made, whatever was to become of others.
        self.forget_mark(id)?;
        let file = self.standing_of_copy(id, entry, EpochId::default())?;
        self.follow(id, entry, file, None, Lsn::MAX)?;
        self.await_following(id, entry)
    }

    /// Waits until a copy follows the primary; an error where it cannot.
    pub(super) fn await_following(&self, id: [u8; 16], entry: &DatabaseEntry) -> Result<()> {
        let Some(PartState::Followed { followed, .. }) =
            self.part(u128::from_be_bytes(id)).map(|p| p.state)
        else {
            return Err(messages::error(35250, &[]));
        };
        match followed.wait_following(JOIN_TIMEOUT) {
            Following::Primary | Following::Resting => Ok(()),
            Following::Parted(_) => Err(messages::error(1412, &[&entry.name()])),
            Following::Nobody => Err(messages::error(35250, &[])),
        }
    }

    /// The copy leaves the group and waits for more log, as it did before.
    pub(super) fn leave(&self, database: [u8; 16]) {
        let Some(part) = self.part(u128::from_be_bytes(database)) else {
            return self.forget_part(database);
        };
        self.set_availability(&part.entry, Availability::Resolving);
        if let PartState::Followed { followed, .. } = &part.state {
            // The primary lists it no longer; nothing else would tell, as long as the connection stands.
            let links = self.node.connections();
            let links: Vec<Arc<Link>> = links.into_iter().map(|(_, link)| link).collect();
            followed.rest(true, &links);
        }
        self.node.remove(part.number());
        match &part.state {
            PartState::Followed {
                secondary, copy, ..
            } => {
                copy.stop();
                part.entry.take_open();
                // What is not written here is redone from the log.
                let _ = secondary.restart_point();
                let _ = secondary.close();
            }
            PartState::Led { storage, .. } => {
                storage.end_reign();
                self.put_down(&part.entry, storage);
            }
            PartState::Down => {}
        }
        self.remove(&part);
        if let Err(error) = self.set_restoring(&part.entry, true) {
            self.common.log(&error.message);
        }
        self.set_availability(&part.entry, Availability::Alone);
    }

    /// This server is a replica of the group no more.
    pub(super) fn leave_all(&self) {
        let parts = self.parts.lock().clone();
        parts.iter().for_each(|part| self.leave(part.id));
    }

    /// SUSPEND and RESUME: of this replica's copy, or of all that are fed from here.
    pub(super) fn rest(&self, database: &str, act: DatabaseAct) -> Result<()> {
        let def = self.def();
        let part = def
            .database(database)
            .and_then(|d| self.part(u128::from_be_bytes(d.group_database_id)));
        let part = part.ok_or_else(|| messages::error(35242, &[&database]))?;
        let rests = act == DatabaseAct::Suspend;
        self.keep(|kept| {
            kept.suspended.retain(|id| *id != part.id);
            kept.suspended.extend(rests.then_some(part.id));
        })?;
        match &part.state {
            PartState::Led { led, .. } => {
                let others = self.others();
                others.into_iter().for_each(|r| led.rest(r, rests));
            }
            PartState::Followed { followed, .. } => {
                let links = self.node.connections();
                let links: Vec<Arc<Link>> = links.into_iter().map(|(_, link)| link).collect();
                followed.rest(rests, &links);
            }
            PartState::Down => {}
        }
        Ok(())
    }

    // --- definitions

    /// The primary's definition has changed: what is in the group no longer leaves, and sessions may do what it says.
    pub(super) fn defined(self: &Arc<Self>) {
        self.connect();
        let def = self.def();
        let parts = self.parts.lock().clone();
        for part in parts {
            match &part.state {
                _ if !part.stays(&def) && !self.is_primary() => self.leave(part.id),
                PartState::Followed { secondary, .. } if secondary.is_readable() => {
                    self.set_availability(&part.entry, self.secondary_availability());
                }
                _ => {}
            }
        }
    }

    // --- parts

    pub(super) fn is_named(&self, database: &str) -> bool {
        let parts = self.parts.lock();
        parts.iter().any(|p| names_equal(&p.entry.name(), database))
    }

    pub(super) fn part(&self, number: u128) -> Option<DatabasePart> {
        let parts = self.parts.lock();
        parts.iter().find(|p| p.number() == number).cloned()
    }

    pub(super) fn put(&self, id: [u8; 16], entry: &Arc<DatabaseEntry>, state: PartState) {
        let entry = entry.clone();
        let mut parts = self.parts.lock();
        parts.retain(|p| p.id != id);
        parts.push(DatabasePart {
            id,
            entry,
            state,
            trouble: Arc::default(),
        });
    }

    fn remove(&self, part: &DatabasePart) {
        self.parts.lock().retain(|p| p.id != part.id);
        self.forget_part(part.id);
    }

    /// What the files of this server say of a database goes; the mark before the standing, without which no copy could follow.
    fn forget_part(&self, database: [u8; 16]) {
        let kept = self.keep(|kept| {
            kept.suspended.retain(|id| *id != database);
            kept.reverting.retain(|id| *id != database);
        });
        if let Err(error) = kept {
            self.common.log(&error.message);
        }
        self.end_copy(database);
        self.forget_standing(database);
    }

    pub(super) fn set_availability(&self, entry: &Arc<DatabaseEntry>, availability: Availability) {
        self.common.instance.set_availability(entry, availability);
    }

    pub(super) fn set_restoring(
        &self,
        entry: &Arc<DatabaseEntry>,
        is_restoring: bool,
    ) -> Result<()> {
        self.common.instance.set_restoring(entry, is_restoring)
    }

    // --- standing

    pub(super) fn standing_path(&self, id: [u8; 16]) -> PathBuf {
        self.common.folder().join(format!("{}.standing", hex(id)))
    }

    pub(super) fn standing(&self, id: [u8; 16]) -> Result<StandingFile> {
        let opened = StandingFile::open(self.common.disk(), &self.standing_path(id));
        let missing = || self.failed_file(id, &std::io::ErrorKind::NotFound.into());
        opened
            .map_err(|e| self.failed_file(id, &e))?
            .ok_or_else(missing)
    }

    fn failed_file(&self, id: [u8; 16], error: &std::io::Error) -> SqlError {
        file_error(&self.standing_path(id), error)
    }

    fn forget_standing(&self, id: [u8; 16]) {
        // A file that stays is of a database that no group names.
        let _ = self.common.disk().remove(&self.standing_path(id));
    }
}

/// Who made which part of the log, as storage knows it.
pub(super) fn history_of(storage: &Database) -> Result<History> {
    let epochs = storage.epochs();
    let epoch = |e: &daruma_storage::Epoch| Epoch {
        name: EpochId {
            number: e.number,
            id: e.id,
        },
        start: e.start,
    };
    let history = History::new(epochs.list().iter().map(epoch).collect());
    history.ok_or_else(|| {
        SqlError::new(
            1412,
            16,
            1,
            "The history of the database's log cannot be read.",
        )
    })
}
