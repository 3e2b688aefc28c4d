//! Recovery of the databases of a server that has started: side by side, while others that are ready are in use.
//!
//! Theory: whoever runs the server calls [`Instance::recover_next`] from as many threads as it likes until it says that nothing
//! is left: first the databases, by id; then, for each that had something to recover, the checkpoint that makes the next
//! restart short. A database is in use before its checkpoint. Databases that ask each other how a transaction ended see to it
//! themselves that nobody waits in a circle (`daruma_storage`, `coordinator`).
//!
//! Each phase is told in the error log when it is done.

use super::left_behind::{Cleaner, is_dropping, registration};
use super::startup::{SOURCE, open_error};
use super::*;
use daruma_storage::{
    Database, DelayedDurability, Opening, Outcome, RecoveryPhase, RecoveryProgress, RecoveryReport,
    ResolvedUnit, Settings, StorageError,
};
use parking_lot::Condvar;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const NO_ACTION: &str = "This is an informational message only. No user action is required.";
/// A clean database is opened without a word, unless it takes longer than that.
const SILENT_MS: u64 = 1_000;
/// Bytes of log that recovery repeats in a millisecond, about: for the first estimate.
const REDO_BYTES_PER_MS: u64 = 64 << 10;

/// Databases that are recovered after the start.
#[derive(Default)]
pub(crate) struct RecoveryQueue {
    work: Mutex<Work>,
    changed: Condvar,
    is_stopped: AtomicBool,
}

#[derive(Default)]
struct Work {
    to_open: VecDeque<Arc<DatabaseEntry>>,
    under_way: usize,
    to_checkpoint: VecDeque<Arc<DatabaseEntry>>,
    /// DROP DATABASE that were cut short.
    to_drop: Vec<Arc<DatabaseEntry>>,
    is_over: bool,
}

enum Step {
    Open(Arc<DatabaseEntry>),
    Drop(Vec<Arc<DatabaseEntry>>),
    Checkpoint(Arc<DatabaseEntry>),
}

impl RecoveryQueue {
    /// To be opened, or dropped for good, by [`Instance::recover_next`].
    pub fn add(&self, entry: Arc<DatabaseEntry>) {
        entry.set_recovering(true);
        let mut work = self.work.lock();
        match is_dropping(&entry.def()) {
            true => work.to_drop.push(entry),
            false => work.to_open.push_back(entry),
        }
    }

    fn next(&self) -> Option<Step> {
        let mut work = self.work.lock();
        if self.is_stopped.load(Ordering::Acquire) {
            return None;
        }
        if let Some(entry) = work.to_open.pop_front() {
            work.under_way += 1;
            return Some(Step::Open(entry));
        }
        if work.under_way == 0 && !work.is_over {
            work.is_over = true;
            return Some(Step::Drop(std::mem::take(&mut work.to_drop)));
        }
        work.to_checkpoint.pop_front().map(Step::Checkpoint)
    }
}

impl Instance {
    /// Takes the next step of the recovery after the start. False when nothing is left for this thread.
    pub fn recover_next(&self) -> bool {
        match self.recovery.next() {
            Some(Step::Open(entry)) => {
                let had_work = self.recover(&entry);
                let mut work = self.recovery.work.lock();
                work.under_way -= 1;
                if had_work {
                    work.to_checkpoint.push_back(entry);
                }
                drop(work);
                self.recovery.changed.notify_all();
            }
            Some(Step::Drop(entries)) => {
                entries.iter().for_each(|entry| self.finish_drop(entry));
                self.log.write(SOURCE, "Recovery is complete. This is an informational message only. No user action is required.");
                self.recovery.changed.notify_all();
            }
            Some(Step::Checkpoint(entry)) => self.checkpoint_after_recovery(&entry),
            None => return false,
        }
        true
    }

    /// Waits until every database is open, or is known not to be, but no longer than that. Is it so?
    pub fn wait_until_recovered(&self, at_most: Duration) -> bool {
        let mut work = self.recovery.work.lock();
        let is_busy = |work: &mut Work| !work.to_open.is_empty() || work.under_way > 0;
        self.recovery
            .changed
            .wait_while_for(&mut work, is_busy, at_most);
        !is_busy(&mut work)
    }

    /// No step begins any more, and a redo under way ends as if the server had crashed.
    pub fn stop_recovery(&self) {
        let _no_step_begins = self.recovery.work.lock();
        self.recovery.is_stopped.store(true, Ordering::Release);
    }

    /// Opens a database. Did it have anything to recover?
    fn recover(&self, entry: &DatabaseEntry) -> bool {
        let def = entry.def();
        if entry.is_standby() {
            self.recover_standby(entry, &def);
            return false;
        }
        if self.hadr.service().opens(&def.name) {
            // Its group does, in the role that this server has there.
            entry.set_recovering(false);
            return false;
        }
        match self.open_watched(&def, Some(&self.recovery.is_stopped)) {
            Ok((open, report)) => {
                entry.set_open(open);
                self.bump_catalog_version();
                report.needed
            }
            Err(_) if self.recovery.is_stopped.load(Ordering::Acquire) => {
                let text = format!("Recovery of database '{}' was stopped.", def.name);
                self.log.write(SOURCE, &text);
                false
            }
            Err(error) => {
                tell_failure(&self.log, &def, &error);
                entry.set_failed(error.message);
                false
            }
        }
    }

    /// A database that is readable between restores. If it is not, more backups can still be restored.
    fn recover_standby(&self, entry: &DatabaseEntry, def: &DatabaseDef) {
        match crate::session::open_standby(&self.engine, def) {
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
                entry.set_recovering(false);
            }
        }
    }

    fn finish_drop(&self, entry: &DatabaseEntry) {
        // It waits as long as it takes.
        let _claim = self.claim_names(&[&entry.name()], change::ALWAYS);
        let def = entry.def();
        let cleaner = Cleaner {
            env: &self.env,
            log: &self.log,
            source: SOURCE,
        };
        // The rest is tried again at the next start.
        if cleaner.finish_drop(&def)
            && let Ok(master) = self.master_catalog()
        {
            let _ = master.delete_database(def.id);
        }
        self.remove_database(entry.id());
    }

    /// Others use the database meanwhile; somebody may even have dropped it.
    fn checkpoint_after_recovery(&self, entry: &DatabaseEntry) {
        let Ok(open) = entry.open() else { return };
        let (name, id) = (entry.name(), entry.id().0);
        self.log.write(
            SOURCE,
            &format!("Recovery is writing a checkpoint in database '{name}' ({id}). {NO_ACTION}"),
        );
        let clock = &self.env.clock;
        let start = clock.monotonic();
        let goes_on = || !self.recovery.is_stopped.load(Ordering::Acquire);
        let written = open.storage.checkpoint_in_steps(&goes_on);
        let ms = clock.monotonic().saturating_sub(start).as_millis();
        let text = match written {
            Ok(false) => return,
            Ok(true) => format!(
                "The checkpoint after the recovery of database '{name}' ({id}) took {ms} ms, during which the database was in use. {NO_ACTION}"
            ),
            Err(error) => format!(
                "The checkpoint after the recovery of database '{name}' ({id}) failed: {error}."
            ),
        };
        self.log.write(SOURCE, &text);
    }

    /// Opens a registered database, and tells the error log of it.
    pub(crate) fn open_watched(
        &self,
        def: &DatabaseDef,
        stop: Option<&AtomicBool>,
    ) -> Result<(OpenDatabase, RecoveryReport)> {
        let watcher = Watcher {
            env: &self.env,
            engine: &self.engine,
            log: &self.log,
        };
        watcher.open(def, stop, None)
    }

    /// The same in an epoch that a group has granted: number and id.
    pub(crate) fn open_as_primary(
        &self,
        def: &DatabaseDef,
        epoch: (u64, u128),
    ) -> Result<OpenDatabase> {
        let watcher = Watcher {
            env: &self.env,
            engine: &self.engine,
            log: &self.log,
        };
        Ok(watcher.open(def, None, Some(epoch))?.0)
    }
}

/// The two errors that a database which cannot be opened leaves in the error log.
pub(super) fn tell_failure(log: &ErrorLog, def: &DatabaseDef, error: &SqlError) {
    let stopped = messages::error(3414, &[&def.name, &def.id, &0]);
    for told in [error, &stopped] {
        let text = format!(
            "Error: {}, Severity: {}, State: {}.\n{}",
            told.number, told.class, told.state, told.message
        );
        log.write(SOURCE, &text);
    }
}

/// Opens databases and writes what happens into the error log as it happens.
pub(super) struct Watcher<'a> {
    pub env: &'a Env,
    pub engine: &'a Arc<Engine>,
    pub log: &'a ErrorLog,
}

impl Watcher<'_> {
    /// Recovers one database and opens it, telling the phases to the error log. A stop that is asked for meanwhile is
    /// an error.
    pub fn open(
        &self,
        def: &DatabaseDef,
        stop: Option<&AtomicBool>,
        epoch: Option<(u64, u128)>,
    ) -> Result<(OpenDatabase, RecoveryReport)> {
        let start = self.env.clock.monotonic();
        self.tell(&messages::error(17137, &[&def.name]).message);
        let watch = |progress: RecoveryProgress<'_>| self.progress(def, &progress);
        let opening = Opening {
            registration: Some(registration(def)),
            watch: Some(&watch),
            stop,
            epoch,
        };
        let (storage, report) = self
            .engine
            .open_database_as(DatabaseId(def.id), &def.name, def.file_specs(), opening)
            .map_err(|e: StorageError| open_error(def, e))?;
        let recovered = self.env.clock.monotonic();
        let open = with_catalog(def, storage)?;
        let now = self.env.clock.monotonic();
        let ms = |from: Duration, to: Duration| to.saturating_sub(from).as_millis() as u64;
        let times = Times {
            catalog_ms: ms(recovered, now),
            total_ms: ms(start, now),
        };
        let settings = open.storage.settings();
        for line in end_lines(&def.name, def.id, &settings, &report, &times) {
            self.tell(&line);
        }
        Ok((open, report))
    }

    fn progress(&self, def: &DatabaseDef, progress: &RecoveryProgress<'_>) {
        if !progress.report.needed {
            return;
        }
        let (name, id, report) = (&def.name, def.id, progress.report);
        let complete = |percent: u8, remaining_ms: u64, phase: u8| {
            complete_line(name, id, percent, remaining_ms, phase)
        };
        match progress.phase {
            RecoveryPhase::Analysis => {
                self.tell(&messages::error(49930, &[&"started", name, &1]).message);
            }
            RecoveryPhase::Redo if progress.percent == 0 => {
                self.tell(&complete(0, report.log_bytes / REDO_BYTES_PER_MS, 2));
            }
            RecoveryPhase::Redo => self.tell(&complete(
                progress.percent.min(99),
                progress.remaining_ms,
                2,
            )),
            RecoveryPhase::Undo => self.tell(&forward_line(name, id, report)),
        }
    }

    fn tell(&self, text: &str) {
        self.log.write(SOURCE, text);
    }
}

fn with_catalog(def: &DatabaseDef, storage: Arc<Database>) -> Result<OpenDatabase> {
    let catalog = Catalog::open(&storage).map_err(|e| {
        let error = SqlError::from(e);
        match error.damaged {
            Some(page) => page.told(def.id, Some(crate::error::SYSTEM_CATALOG)),
            None => error,
        }
    });
    match catalog {
        Ok(catalog) => Ok(OpenDatabase {
            storage,
            catalog: Arc::new(catalog),
        }),
        Err(error) => {
            // Nothing was changed: what is on disk stays as it is.
            let _ = storage.close();
            Err(error)
        }
    }
}

/// Parts of the wait for a database beside its recovery, in milliseconds.
#[derive(Default)]
struct Times {
    catalog_ms: u64,
    total_ms: u64,
}

/// All messages of a recovery that had something to do, for those who tell them at its end.
pub(crate) fn recovery_lines(
    name: &str,
    id: u16,
    settings: &Settings,
    report: &RecoveryReport,
) -> Vec<String> {
    let total_ms =
        report.files_ms + report.analysis_ms + report.redo_ms + report.undo_ms + report.settle_ms;
    let times = Times {
        catalog_ms: 0,
        total_ms,
    };
    let mut lines = Vec::new();
    if report.needed {
        lines.push(messages::error(49930, &[&"started", &name, &1]).message);
        lines.push(forward_line(name, id, report));
    }
    lines.extend(end_lines(name, id, settings, report, &times));
    lines
}

fn complete_line(name: &str, id: u16, percent: u8, remaining_ms: u64, phase: u8) -> String {
    let seconds = remaining_ms.div_ceil(1_000);
    format!(
        "Recovery of database '{name}' ({id}) is {percent}% complete (approximately {seconds} seconds remain). Phase {phase} of 3. {NO_ACTION}"
    )
}

fn forward_line(name: &str, id: u16, report: &RecoveryReport) -> String {
    format!(
        "{} transactions rolled forward in database '{name}' ({id}:0). {NO_ACTION}",
        report.rolled_forward
    )
}

/// Messages of the error log about a database that has been recovered.
fn end_lines(
    name: &str,
    id: u16,
    settings: &Settings,
    report: &RecoveryReport,
    times: &Times,
) -> Vec<String> {
    let mut lines = assumed_lines(name, id, report);
    if !report.needed {
        lines.extend((times.total_ms >= SILENT_MS).then(|| times_line(name, id, report, times)));
        return lines;
    }
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
    lines.push(complete_line(name, id, 100, 0, 3));
    lines.extend(last_commit_line(name, id, settings, report));
    // Work without a figure of its own in this message counts in its phase, so that the figures add up.
    let analysis = report.files_ms + report.analysis_ms;
    let undo = times.total_ms.saturating_sub(analysis + report.redo_ms);
    let regular = undo.saturating_sub(report.system_undo_ms);
    lines.push(format!(
        "Recovery completed for database {name} (database ID {id}) in {} second(s) (analysis {analysis} ms, redo {} ms, undo {undo} ms [system undo {} ms, regular undo {regular} ms].) ADR-enabled={}, Is primary=1, OL-Enabled={}. {NO_ACTION}",
        times.total_ms / 1_000,
        report.redo_ms,
        report.system_undo_ms,
        u8::from(settings.accelerated_recovery),
        u8::from(settings.optimized_locking)
    ));
    lines.push(times_line(name, id, report, times));
    lines.push(messages::error(49930, &[&"shutdown", &name, &1]).message);
    lines
}

fn times_line(name: &str, id: u16, report: &RecoveryReport, times: &Times) -> String {
    format!(
        "Database '{name}' ({id}) was opened in {} ms: files {} ms, analysis {} ms, redo {} ms of {} KB of log, undo {} ms, checkpoint record {} ms, definitions {} ms. {NO_ACTION}",
        times.total_ms,
        report.files_ms,
        report.analysis_ms,
        report.redo_ms,
        report.log_bytes / 1_024,
        report.undo_ms,
        report.settle_ms,
        times.catalog_ms
    )
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
