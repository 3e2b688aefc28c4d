//! BACKUP DATABASE and BACKUP LOG.

use super::options::{self, Ending, Options};
use super::standby;
use super::suspect::{self, SuspectPage};
use super::{BASE, PATH, RESTORING, Watch, history, say};
use crate::error::{Result, SqlError};
use crate::instance::{
    DatabaseEntry, FileClaim, IN_USE, MASTER, OpenDatabase, TEMPDB, close_database,
};
use crate::messages;
use crate::session::Execution;
use daruma_backup::{
    self as engine, BackupError, BackupKind, Destination, Device, DiskDevice, MediaLabel, MediaSet,
    Origin, Random16, Request, SetInfo, Tuning,
};
use daruma_base::{Lsn, PageId};
use daruma_catalog::DatabaseDef;
use daruma_storage::{Epochs, RecoveryModel, Settings, StorageError};
use daruma_syntax::ast;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// Base that a differential builds on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Base {
    pub set: Random16,
    pub lsn: u64,
    pub files: Vec<u16>,
    /// Where it ends, and in which epoch the log just before that was made; `None` where that is not known.
    #[serde(default)]
    pub end: Option<(u64, Random16)>,
}

impl Base {
    /// Was the database cut back to before the end of this backup? It has pages then that no differential brings back.
    fn is_cut_off(&self, epochs: &Epochs) -> bool {
        let Some((end, made_in)) = self.end else {
            return false;
        };
        let now = epochs.before(Lsn(end));
        now.is_some_and(|epoch| epoch.id.to_le_bytes() != made_in.0)
    }
}

/// Recovery path: its number, and where it left the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Path {
    pub fork: u64,
    pub lsn: u64,
}

/// RETAINDAYS at most.
const RETAIN_DAYS_MAX: i64 = 99_999;

pub(super) fn backup(ex: &Execution<'_>, statement: &ast::Backup) -> Result<()> {
    if ex.state.trancount.get() > 0 || ex.depth.get() > 0 {
        return Err(messages::error(3021, &[]));
    }
    let name = options::name(ex, &statement.database)?;
    let entry = ex
        .instance()
        .database_named(&name)
        .ok_or_else(|| messages::error_state(911, 11, &[&name]))?;
    if entry.id() == TEMPDB {
        return Err(messages::error(3147, &[]));
    }
    if entry.id() == MASTER && statement.kind == ast::BackupKind::Log {
        return Err(messages::error(4212, &[]));
    }
    if !statement.parts.is_empty() {
        return Err(messages::not_supported("backup of single files"));
    }
    let options = Options::evaluate(ex, &statement.options)?;
    options.check(match statement.kind {
        ast::BackupKind::Database => options::OF_BACKUP_DATABASE,
        ast::BackupKind::Log => options::OF_BACKUP_LOG,
    })?;
    if entry.is_standby() {
        return Err(messages::error(3036, &[&name]));
    }
    ex.state.visit(&entry)?;
    if entry.availability().is_secondary() {
        return Err(messages::error(3059, &[]));
    }
    let open = entry.open()?;
    let destination = destination(ex, statement, &options)?;
    let _claim = claim_files(ex, &destination)?;
    if destination.overwrite && !destination.format && !options.has("SKIP") {
        check_expired(ex, &destination)?;
    }
    let tuning = tuning(ex, &options)?;
    let job = Job {
        ex,
        entry: &entry,
        open,
        destination,
        tuning,
        options,
    };
    match statement.kind {
        ast::BackupKind::Database => job.database(),
        ast::BackupKind::Log => job.log(),
    }
}

fn destination(
    ex: &Execution<'_>,
    statement: &ast::Backup,
    options: &Options,
) -> Result<Destination> {
    let mirrors = statement
        .mirrors
        .iter()
        .map(|m| options::devices(ex, m, options));
    let format = options.has("FORMAT");
    Ok(Destination {
        devices: options::devices(ex, &statement.devices, options)?,
        mirrors: mirrors.collect::<Result<_>>()?,
        overwrite: options.has("INIT") || format,
        format,
    })
}

/// Error 4030 where a set on the media is not to be overwritten yet. What is no backup is left to who writes over it.
fn check_expired(ex: &Execution<'_>, destination: &Destination) -> Result<()> {
    let now = ex.instance().now_utc();
    let mirrors = destination.mirrors.iter().flatten();
    for device in destination.devices.iter().chain(mirrors) {
        let Ok(media) = MediaSet::open_any(std::slice::from_ref(device)) else {
            continue;
        };
        let sets = media.positions().into_iter();
        let expiries = sets.map(|position| media.set_info(position).map(|info| info.expires_utc));
        let expiries = expiries.collect::<engine::Result<Vec<_>>>();
        let expiries = expiries.map_err(super::sql_error)?;
        if let Some(latest) = expiries.into_iter().flatten().max().filter(|at| *at > now) {
            let at = expiry_text(latest, ex.instance().env().clock.local_offset_minutes());
            return Err(messages::error(4030, &[&device.name(), &at]));
        }
    }
    Ok(())
}

/// An instant in local time, as `Jan  1 2027 12:00:00:000AM`.
fn expiry_text(utc_100ns: i64, offset_minutes: i16) -> String {
    let local = i128::from(utc_100ns) + i128::from(offset_minutes) * 600_000_000;
    let at = jiff::Timestamp::from_nanosecond(local * 100).unwrap_or_default();
    let civil = at.to_zoned(jiff::tz::TimeZone::UTC).datetime();
    civil.strftime("%b %e %Y %l:%M:%S:000%p").to_string()
}

/// The files of a backup, for as long as it takes: nobody else's, and nobody else's meanwhile.
fn claim_files(ex: &Execution<'_>, destination: &Destination) -> Result<FileClaim> {
    let devices = || {
        let mirrors = destination.mirrors.iter().flatten();
        destination.devices.iter().chain(mirrors)
    };
    let paths: Vec<PathBuf> = devices()
        .filter_map(|d| d.path())
        .flat_map(|p| [p.to_path_buf(), DiskDevice::partial(p)])
        .collect();
    ex.instance().claim_files(&paths, &[]).map_err(|(path, _)| {
        let is_it = |d: &&Arc<dyn Device>| {
            d.path()
                .is_some_and(|p| p == path || DiskDevice::partial(p) == path)
        };
        let name = devices().find(is_it).map_or("", |d| d.name());
        messages::error(3201, &[&name, &IN_USE])
    })
}

fn tuning(ex: &Execution<'_>, options: &Options) -> Result<Tuning> {
    let processors = std::thread::available_parallelism().map_or(2, |n| n.get());
    Ok(Tuning {
        compression: options.compression(ex)?,
        transfer_bytes: options.transfer_bytes()?,
        block_bytes: options.block_bytes()?,
        processors,
        buffers: options.buffers()?.unwrap_or(0),
        encryption: options.encryption(ex)?,
        keep_damaged: options.goes_on(),
        choose_level: options.leaves_level(),
    })
}

struct Job<'e, 'a> {
    ex: &'e Execution<'a>,
    entry: &'e Arc<DatabaseEntry>,
    open: OpenDatabase,
    destination: Destination,
    tuning: Tuning,
    options: Options,
}

impl Job<'_, '_> {
    fn database(&self) -> Result<()> {
        let _one = self.entry.backup.try_lock();
        if _one.is_none() {
            return Err(messages::error(3023, &[]));
        }
        let differential = self.options.has("DIFFERENTIAL");
        let base = match differential {
            true => Some(self.base()?),
            false => None,
        };
        let watch = Watch::new(self.ex, "BACKUP DATABASE", self.options.stats());
        // Counters held in memory go with the copy as they are.
        crate::instance::save_counters(&self.open)?;
        let (label, info) = (self.label(), self.info()?);
        let request = self.request(&label, info);
        let mut tick = |p| watch.tick(p);
        let taken = match &base {
            None => engine::take_full(request, &mut tick),
            Some(b) => engine::take_differential(request, b.set, Lsn(b.lsn), &b.files, &mut tick),
        };
        let taken = taken.map_err(|e| self.explain(&watch, e))?;
        let what = match differential {
            true => "BACKUP DATABASE WITH DIFFERENTIAL",
            false => "BACKUP DATABASE",
        };
        if !differential && !self.options.has("COPY_ONLY") {
            self.note_full(&taken.info)?;
        }
        drop(taken.hold);
        self.report(&watch, what, &taken.info)
    }

    fn log(&self) -> Result<()> {
        let settings = self.open.storage.settings();
        if settings.recovery_model == RecoveryModel::Simple {
            return Err(messages::error(4208, &[&"BACKUP LOG"]));
        }
        let _one = self.entry.log_backup.try_lock();
        if _one.is_none() {
            return Err(messages::error(3023, &[]));
        }
        let start = self.open.storage.log_backup_start();
        if start == Lsn::NONE {
            return Err(messages::error(4214, &[]));
        }
        let ending = self.options.ending(self.ex)?;
        let _undo = standby::claim_undo(self.ex, Some(self.entry), &ending)?;
        let tail = ending != Ending::Recovery;
        // Nobody commits between the end of the backup and that of the database.
        let _alone = match tail {
            true => Some(super::restore::require_exclusive(self.ex, self.entry)?),
            false => None,
        };
        let watch = Watch::new(self.ex, "BACKUP LOG", self.options.stats());
        let label = self.label();
        let info = SetInfo {
            tail,
            ..self.info()?
        };
        let request = self.request(&label, info);
        let taken = engine::take_log(request, start, &mut |p| watch.tick(p));
        let taken = taken.map_err(|e| self.explain(&watch, e))?;
        if !self.options.keeps_log() {
            let to = Lsn(taken.info.last_lsn);
            self.open.storage.log_backed_up_to(to)?;
            self.entry.note_log_backup(taken.info.finished_utc);
        }
        drop(taken.hold);
        if tail {
            self.leave_restoring()?;
        }
        if let Ending::Standby(undo) = &ending {
            standby::enter(self.ex, self.entry, undo)?;
        }
        self.report(&watch, "BACKUP LOG", &taken.info)
    }

    /// After a tail-log backup the database is out of use until something is restored over it, or RECOVERY.
    fn leave_restoring(&self) -> Result<()> {
        self.ex.change_database(self.entry, |def| {
            def.options.insert(RESTORING.into(), String::new());
            Ok(())
        })?;
        match self.entry.take_open() {
            Some(open) => close_database(&open),
            None => Ok(()),
        }
    }

    fn base(&self) -> Result<Base> {
        let def = self.entry.def();
        let base = def.options.get(BASE);
        let base = base.and_then(|text| serde_json::from_str::<Base>(text).ok());
        let base = base.filter(|base| !base.is_cut_off(&self.open.storage.epochs()));
        base.ok_or_else(|| {
            let name = self.entry.name();
            SqlError::new(
                3035,
                16,
                1,
                format!(
                    "Cannot perform a differential backup for database \"{name}\", because a current database backup does not exist. Perform a full database backup by reissuing BACKUP DATABASE, omitting the WITH DIFFERENTIAL option."
                ),
            )
        })
    }

    fn note_full(&self, info: &SetInfo) -> Result<()> {
        self.open.storage.note_full_backup(Lsn(info.last_lsn))?;
        let data = info.files.iter().filter(|f| f.filegroup != 0);
        let mut epochs = info.epochs.iter().rev();
        let made_in = epochs.find(|e| e.start < info.last_lsn).map(|e| e.id);
        let base = Base {
            set: info.set,
            lsn: info.redo_lsn,
            files: data.map(|f| f.id).collect(),
            end: made_in.map(|id| (info.last_lsn, id)),
        };
        let text = serde_json::to_string(&base).unwrap_or_default();
        self.ex.change_database(self.entry, |def| {
            def.options.insert(BASE.into(), text);
            Ok(())
        })
    }

    fn label(&self) -> MediaLabel {
        MediaLabel {
            name: self.options.text("MEDIANAME"),
            description: self.options.text("MEDIADESCRIPTION"),
            software: "Daruma".into(),
        }
    }

    fn request<'r>(&'r self, label: &'r MediaLabel, info: SetInfo) -> Request<'r> {
        Request {
            env: self.ex.instance().env(),
            database: &self.open.storage,
            destination: &self.destination,
            label,
            tuning: &self.tuning,
            info,
        }
    }

    fn info(&self) -> Result<SetInfo> {
        let instance = self.ex.instance();
        let def = self.entry.def();
        let settings = self.open.storage.settings();
        let path = path_of(&def);
        let base = self.base().ok();
        Ok(SetInfo {
            origin: Origin::default(),
            set: Random16::default(),
            position: 0,
            kind: BackupKind::Full,
            name: self.options.text("NAME"),
            description: self.options.text("DESCRIPTION"),
            user: self.ex.state.entry.login.login.clone(),
            server: instance.options().server_name.clone(),
            database: def.name.clone(),
            database_guid: self.open.storage.guid(),
            database_created_utc: def.created_utc,
            started_utc: 0,
            finished_utc: 0,
            expires_utc: self.expires_utc()?,
            first_lsn: 0,
            last_lsn: 0,
            checkpoint_lsn: self.open.storage.log_stats().checkpoint_lsn.0,
            redo_lsn: 0,
            database_backup_lsn: base.map_or(0, |b| b.lsn),
            base_lsn: 0,
            base_set: None,
            fork: path.fork,
            fork_lsn: path.lsn,
            epochs: Vec::new(),
            recovery_model: settings.recovery_model as u8,
            copy_only: self.options.has("COPY_ONLY"),
            begins_chain: begins_chain(&self.open, &settings),
            tail: false,
            compression: None,
            encryption: None,
            files: Vec::new(),
            pages: 0,
            log_pages: 0,
            sections: Vec::new(),
            boot: Vec::new(),
            definition: definition(&def),
            plain_bytes: 0,
            stored_bytes: 0,
            damaged: false,
            damaged_pages: Vec::new(),
            manifest: Vec::new(),
        })
    }

    /// EXPIREDATE or RETAINDAYS.
    fn expires_utc(&self) -> Result<Option<i64>> {
        let instance = self.ex.instance();
        if let Some(at) = self.options.moment("EXPIREDATE") {
            let offset = instance.env().clock.local_offset_minutes();
            return Ok(Some(super::restore::utc_of(at, offset)));
        }
        let Some(text) = self.options.text("RETAINDAYS") else {
            return Ok(None);
        };
        let days: Option<i64> = text.trim().parse().ok();
        match days.filter(|days| (0..=RETAIN_DAYS_MAX).contains(days)) {
            Some(days) => Ok(Some(instance.now_utc() + days * 864_000_000_000)),
            None => Err(options::invalid("RETAINDAYS", text)),
        }
    }

    fn report(&self, watch: &Watch<'_, '_>, what: &str, info: &SetInfo) -> Result<()> {
        report_files(self.ex, watch, &self.entry.name(), info)?;
        history::backup(self.ex, info, &self.destination);
        self.log_backup(info);
        if info.damaged {
            self.report_damage(info)?;
        }
        say(self.ex, watch.summary(what, info.pages + info.log_pages))
    }

    /// After CONTINUE_AFTER_ERROR: the pages go into the error log, the warning to the client.
    fn report_damage(&self, info: &SetInfo) -> Result<()> {
        let each = info.damaged_pages.iter();
        let suspects = each.map(|(file, page)| SuspectPage {
            page: PageId::new(*file, *page),
            checksum: true,
        });
        self.note_suspects(&suspects.collect::<Vec<_>>());
        let source = format!("spid{}", self.ex.spid());
        for (file, page) in &info.damaged_pages {
            let path = info.files.iter().find(|f| f.id == *file);
            let path = path.map_or("", |f| f.path.as_str());
            let told = messages::error(3043, &[&info.database, file, page, &path]);
            self.ex.instance().log.write(&source, &told.message);
        }
        say(self.ex, messages::error(3042, &[]))
    }

    fn note_suspects(&self, pages: &[SuspectPage]) {
        suspect::note(&self.ex.state.instance, self.entry.id().0, pages);
    }

    /// 3043 names the page that ended a backup.
    fn explain(&self, watch: &Watch<'_, '_>, error: BackupError) -> SqlError {
        match error {
            BackupError::Storage(StorageError::BadPage { page, path, .. }) => {
                self.note_suspects(&[SuspectPage {
                    page,
                    checksum: true,
                }]);
                let (name, path) = (self.entry.name(), path.display());
                messages::error(3043, &[&name, &page.file, &page.page, &path])
            }
            error => watch.explain(error),
        }
    }

    /// The error log tells of backups, clients do not.
    fn log_backup(&self, info: &SetInfo) {
        let devices: Vec<String> = self
            .destination
            .devices
            .iter()
            .enumerate()
            .map(|(at, d)| format!("FILE={}, TYPE=DISK: {{'{}'}}", at + 1, d.name()))
            .collect();
        let created = crate::instance::format_local(info.database_created_utc, 0);
        let (date, time) = created.split_once(' ').unwrap_or((&created, ""));
        let count = devices.len();
        let list = devices.join(", ");
        let text = match info.kind {
            BackupKind::Full => messages::error(
                18264,
                &[
                    &info.database,
                    &date,
                    &time,
                    &info.pages,
                    &info.first_lsn,
                    &info.last_lsn,
                    &count,
                    &list,
                ],
            ),
            BackupKind::Differential => messages::error(
                18270,
                &[
                    &info.database,
                    &date,
                    &time,
                    &info.pages,
                    &info.first_lsn,
                    &info.last_lsn,
                    &info.base_lsn,
                    &count,
                    &list,
                ],
            ),
            BackupKind::Log => messages::error(
                18265,
                &[
                    &info.database,
                    &date,
                    &time,
                    &info.first_lsn,
                    &info.last_lsn,
                    &count,
                    &list,
                ],
            ),
        };
        let source = format!("spid{}", self.ex.spid());
        self.ex.instance().log.write(&source, &text.message);
    }
}

fn begins_chain(open: &OpenDatabase, settings: &Settings) -> bool {
    settings.recovery_model != RecoveryModel::Simple && open.storage.log_backup_start() == Lsn::NONE
}

pub(super) fn path_of(def: &DatabaseDef) -> Path {
    let text = def.options.get(PATH);
    text.and_then(|t| serde_json::from_str(t).ok())
        .unwrap_or_default()
}

/// The definition as it goes into a backup: without what belongs to this server.
fn definition(def: &DatabaseDef) -> String {
    let mut def = def.clone();
    def.options.retain(|name, _| !name.starts_with("DARUMA "));
    serde_json::to_string(&def).unwrap_or_default()
}

/// 4035 for each file; `100 percent processed.` stands between data and log.
pub(super) fn report_files(
    ex: &Execution<'_>,
    watch: &Watch<'_, '_>,
    database: &str,
    info: &SetInfo,
) -> Result<()> {
    for file in info.files.iter().filter(|f| f.filegroup != 0) {
        let line = messages::error(
            4035,
            &[&file.pages, &database, &file.logical_name, &info.position],
        );
        say(ex, line)?;
    }
    watch.tell_all()?;
    let def: Option<DatabaseDef> = serde_json::from_str(&info.definition).ok();
    let log = def.and_then(|d| d.files.into_iter().find(|f| f.filegroup == 0));
    let log = log.map_or(format!("{database}_log"), |f| f.logical_name);
    say(
        ex,
        messages::error(4035, &[&info.log_pages, &database, &log, &info.position]),
    )
}
