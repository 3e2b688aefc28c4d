//! BACKUP and RESTORE: options, devices, progress and errors; `take`, `restore`, `describe` and `history` do the work.
//!
//! Theory: the backup room knows pages, log and files; what it needs to know about a database beyond that (its
//! definition) travels through it as text. How far a database is in a restore, and which full backup a differential
//! builds on, is kept with its definition in master, so it survives a restart.

pub(crate) mod credentials;
mod describe;
mod exchange;
mod history;
mod msdb;
mod options;
mod pages;
mod restore;
mod standby;
mod suspect;
mod take;
mod under_way;

pub(crate) use history::prepare as prepare_history;
pub(crate) use options::name as backup_database;
pub(crate) use pages::{
    is_under_way as restores_pages, settle as settle_pages, take_back as take_back_pages,
};
pub(crate) use restore::{forget_restores, ready_to_follow, utc_of};
pub(crate) use standby::open_files as open_standby;
pub(crate) use suspect::{
    SuspectPage, SuspectPages, forget as forget_suspects, note as note_suspects,
};
pub(crate) use under_way::{Settled, settle_restore};

use crate::error::{Result, SqlError};
use crate::messages;
use crate::session::Execution;
use daruma_backup::{BackupError, Cancelled, ChainError, KeyProblem, Progress};
use daruma_catalog::DatabaseDef;
use daruma_storage::StorageError;
use daruma_syntax::ast::NameOrVariable;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;

/// Options of a database definition under which the state of backups and restores is kept; never shown.
pub(crate) const RESTORING: &str = "DARUMA RESTORING";
/// Beside it: the moment up to which the database has been rolled forward.
pub(crate) const ROLLED_TO: &str = "DARUMA ROLLED TO";
/// Readable between restores; the value is the path of its undo file.
pub(crate) const STANDBY: &str = "DARUMA STANDBY";
/// The full backup that the next differential builds on.
const BASE: &str = "DARUMA DIFFERENTIAL BASE";

/// The next differential backup needs another full one first.
pub(crate) fn forget_differential_base(def: &mut daruma_catalog::DatabaseDef) {
    def.options.remove(BASE);
}

/// Where the log stood that the next differential backup builds on, and the files that it has.
pub(crate) fn differential_base(def: &DatabaseDef) -> Option<(u64, Vec<u16>)> {
    let base: take::Base = serde_json::from_str(def.options.get(BASE)?).ok()?;
    Some((base.lsn, base.files))
}

/// The recovery path, changed by each restore that recovers.
const PATH: &str = "DARUMA RECOVERY PATH";
/// How far a restore of single pages is.
const PAGES: &str = "DARUMA PAGES";
/// The newest file that was made for it.
const PAGES_FILE: &str = "DARUMA PAGES FILE";

/// Files that a database has between two restores, beside its own: the undo file, and pages that are being restored.
pub(crate) fn files_beside(def: &DatabaseDef) -> Vec<PathBuf> {
    let undo = standby::undo_file(def);
    undo.into_iter().chain(pages::file_of(def)).collect()
}

/// TDS `curcmd` of BACKUP and RESTORE.
const COMMAND: u16 = 0xFD;

/// Percent messages, `dm_exec_requests`, and cancel.
struct Watch<'e, 'a> {
    ex: &'e Execution<'a>,
    step: Option<u32>,
    told: Cell<u32>,
    start: std::time::Duration,
    failure: RefCell<Option<SqlError>>,
}

impl<'e, 'a> Watch<'e, 'a> {
    fn new(ex: &'e Execution<'a>, command: &'static str, step: Option<u32>) -> Watch<'e, 'a> {
        ex.state.entry.activity.lock().command = command;
        Watch {
            ex,
            step,
            told: Cell::new(0),
            start: ex.instance().env().clock.monotonic(),
            failure: RefCell::new(None),
        }
    }

    fn tick(&self, progress: Progress) -> std::result::Result<(), Cancelled> {
        let percent = match progress.total {
            0 => 100.0,
            total => progress.done as f64 * 100.0 / total as f64,
        };
        {
            let elapsed = self.elapsed_ms() as f64;
            let mut activity = self.ex.state.entry.activity.lock();
            activity.percent_complete = percent as f32;
            activity.remaining_ms = match percent > 0.0 {
                true => (elapsed * (100.0 - percent) / percent) as i64,
                false => 0,
            };
        }
        self.goes_on(self.tell(percent as u32, 99).and(self.ex.check_cancel()))
    }

    /// What comes before the work whose progress is told: asks no more than whether it is to end.
    fn look(&self) -> std::result::Result<(), Cancelled> {
        self.goes_on(self.ex.check_cancel())
    }

    fn goes_on(&self, told: Result<()>) -> std::result::Result<(), Cancelled> {
        told.map_err(|error| {
            self.failure.borrow_mut().get_or_insert(error);
            Cancelled
        })
    }

    /// `n percent processed.` for every step that was reached; `most` keeps the last one for the end.
    fn tell(&self, percent: u32, most: u32) -> Result<()> {
        let Some(step) = self.step else { return Ok(()) };
        let due = self.told.get() + step;
        if percent.min(most) >= due {
            self.told.set(percent / step * step);
            say(self.ex, messages::error(3211, &[&percent]))?;
        }
        Ok(())
    }

    fn tell_all(&self) -> Result<()> {
        match self.step {
            Some(_) => say(self.ex, messages::error(3211, &[&100])),
            None => Ok(()),
        }
    }

    fn elapsed_ms(&self) -> u64 {
        let now = self.ex.instance().env().clock.monotonic();
        now.saturating_sub(self.start).as_millis() as u64
    }

    /// The error to show: what made us cancel is more than that it was cancelled.
    fn explain(&self, error: BackupError) -> SqlError {
        match (error, self.failure.take()) {
            (BackupError::Cancelled, Some(failure)) => failure,
            (error, _) => sql_error(error),
        }
    }

    /// `BACKUP DATABASE successfully processed ...`, with the product's arithmetic: rates are cut, not rounded.
    fn summary(&self, what: &str, pages: u64) -> SqlError {
        let ms = self.elapsed_ms();
        let rate = rate_thousandths(pages, ms);
        let args: [&dyn std::fmt::Display; 6] = [
            &what,
            &pages,
            &(ms / 1_000),
            &format_args!("{:03}", ms % 1_000),
            &(rate / 1_000),
            &format_args!("{:03}", rate % 1_000),
        ];
        messages::error(3014, &args)
    }
}

impl Drop for Watch<'_, '_> {
    fn drop(&mut self) {
        let mut activity = self.ex.state.entry.activity.lock();
        activity.percent_complete = 0.0;
        activity.remaining_ms = 0;
    }
}

/// Thousandths of a megabyte per second.
fn rate_thousandths(pages: u64, ms: u64) -> u64 {
    match ms {
        0 => 0,
        ms => (u128::from(pages) * 8_192 * 1_000_000 / (1 << 20) / u128::from(ms)) as u64,
    }
}

/// Sends a message at once: the client sees how far a long statement is.
fn say(ex: &Execution<'_>, message: SqlError) -> Result<()> {
    let sent = ex
        .send_located(message)
        .and_then(|()| ex.to_client(|sink| sink.flush()));
    sent.map_err(|_| super::query::client_gone())
}

/// Error of a device in the product's form: `2(No such file or directory)`.
fn system_error(error: &std::io::Error) -> String {
    let number = match (error.raw_os_error(), error.kind()) {
        (_, std::io::ErrorKind::ResourceBusy) => 32,
        (Some(number), _) => number,
        (None, std::io::ErrorKind::NotFound) => 2,
        (None, std::io::ErrorKind::AlreadyExists) => 17,
        (None, _) => 5,
    };
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    format!("{number}({text})")
}

fn sql_error(error: BackupError) -> SqlError {
    match error {
        BackupError::Storage(StorageError::Io {
            action,
            path,
            source,
        }) => {
            let name = path.display().to_string();
            match action.starts_with("read") {
                true => messages::error(3203, &[&name, &system_error(&source)]),
                false => messages::error(3202, &[&name, &system_error(&source)]),
            }
        }
        BackupError::Storage(error) => error.into(),
        BackupError::Open { device, source } => {
            messages::error(3201, &[&device, &system_error(&source)])
        }
        BackupError::Io {
            action,
            device,
            source,
        } => {
            let number = if action == "read" { 3203 } else { 3202 };
            messages::error(number, &[&device, &system_error(&source)])
        }
        BackupError::OtherRelease { found, own } => messages::error(3169, &[&found, &own]),
        BackupError::Malformed { device, .. } => messages::error(3241, &[&device]),
        BackupError::Damaged { device, what } => messages::error(3203, &[&device, &what]),
        BackupError::DamagedSet => messages::error(3182, &[]),
        BackupError::DamagedPage { file, page } => {
            messages::error(3183, &[&file, &page, &"backup"])
        }
        BackupError::Key(problem) => key_error(&problem),
        BackupError::FamiliesMissing { expected, found } => {
            messages::error(3132, &[&expected, &found])
        }
        BackupError::FamilyCount {
            device,
            expected,
            found,
        } => messages::error(3231, &[&device, &expected, &found]),
        BackupError::ForeignFamily { device } => messages::error(3258, &[&device]),
        BackupError::RepeatedFamily { device, family } => {
            messages::error(3227, &[&device, &family, &device])
        }
        BackupError::NoSet { device, position } => messages::error(4038, &[&position, &device]),
        BackupError::Chain(chain) => chain_error(chain),
        BackupError::Cancelled => messages::error(3617, &[]),
        BackupError::Unusable(what) => SqlError::new(3201, 16, 2, what),
    }
}

fn key_error(problem: &KeyProblem) -> SqlError {
    match problem {
        KeyProblem::Password => messages::error(3279, &[]),
        KeyProblem::KeyFile { thumbprint } => {
            let digits: String = thumbprint.iter().map(|b| format!("{b:02X}")).collect();
            messages::error(33111, &[&"key file", &format_args!("0x{digits}")])
        }
        KeyProblem::NotEncrypted => SqlError::new(
            3201,
            16,
            3,
            "The backup set is not encrypted, although a key is given for it.",
        ),
        KeyProblem::KeyFileBytes(bytes) => SqlError::new(
            3201,
            16,
            4,
            format!("A key file holds 32 to 4096 bytes; this one has {bytes}."),
        ),
    }
}

fn chain_error(error: ChainError) -> SqlError {
    match error {
        ChainError::TooRecent { first, end } => messages::error(4305, &[&first, &end]),
        ChainError::TooEarly { last, end } => messages::error(4326, &[&last, &end]),
        ChainError::OtherPath => messages::error(4330, &[]),
        ChainError::OtherDatabase | ChainError::OtherBase => messages::error(3136, &[]),
        ChainError::BrokenOff => SqlError::new(
            4319,
            16,
            1,
            "A RESTORE of a differential backup was interrupted before its end. Restore that backup again, or begin anew with the full one.",
        ),
        ChainError::NothingRestored => messages::error(3117, &[]),
        ChainError::Stopped => messages::error(4335, &[]),
    }
}

impl Execution<'_> {
    pub(crate) fn run_backup(&self, backup: &daruma_syntax::ast::Backup) -> super::fail::Step<()> {
        let what = match backup.kind {
            daruma_syntax::ast::BackupKind::Database => "BACKUP DATABASE",
            daruma_syntax::ast::BackupKind::Log => "BACKUP LOG",
        };
        let may = self.may_back_up(backup);
        let result = may.and_then(|()| take::backup(self, backup));
        self.finish_backup_statement(what, Some(&backup.database), result)
    }

    pub(crate) fn run_restore(
        &self,
        restore: &daruma_syntax::ast::Restore,
    ) -> super::fail::Step<()> {
        use daruma_syntax::ast::RestoreKind;
        let what = match restore.kind {
            RestoreKind::Database => "RESTORE DATABASE",
            RestoreKind::Log => "RESTORE LOG",
            RestoreKind::FileListOnly => "RESTORE FILELIST",
            RestoreKind::HeaderOnly => "RESTORE HEADERONLY",
            RestoreKind::LabelOnly => "RESTORE LABELONLY",
            RestoreKind::RewindOnly => "RESTORE REWINDONLY",
            RestoreKind::VerifyOnly => "VERIFY DATABASE",
        };
        let result = self.may_restore(restore).and_then(|()| match restore.kind {
            RestoreKind::Database | RestoreKind::Log => restore::restore(self, restore),
            _ => describe::describe(self, restore),
        });
        self.finish_backup_statement(what, restore.database.as_ref(), result)
    }

    /// Every error of these statements is followed by 3013.
    fn finish_backup_statement(
        &self,
        what: &str,
        database: Option<&NameOrVariable>,
        result: Result<()>,
    ) -> super::fail::Step<()> {
        match result {
            Ok(()) => self.succeed(COMMAND),
            Err(mut error) => {
                if let Some(Ok(name)) = database.map(|name| backup_database(self, name)) {
                    self.name_database(&mut error, &name);
                }
                let error = error.followed(messages::error(3013, &[&what]));
                Err(self.failed(COMMAND, error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rate_thousandths;

    /// The three figures that article 003 prints.
    #[test]
    fn rates_are_cut_as_the_product_cuts_them() {
        for (pages, ms, rate) in [
            (1_600_755, 812_563, 15_390),
            (1_600_754, 305_687, 40_910),
            (1_600_754, 193_580, 64_603),
        ] {
            assert_eq!(rate_thousandths(pages, ms), rate);
        }
    }
}
