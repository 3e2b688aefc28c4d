//! Properties of a database that its boot page has and its log as well: settings, where the next log backup begins, and the epochs
//! of the log.
//!
//! The boot page is what a restart reads. The log carries what was changed to wherever it is replayed: a restored chain ends with
//! the settings that the database had where the chain ends.
//!
//! Invariants
//! 1. Changed settings are logged, and the record is hard, before the boot page has them.
//! 2. Changes are logged in the order in which the boot page gets them.

use crate::api::{RecoveryModel, Settings};
use crate::buffer::Store;
use crate::bytes::*;
use crate::database::Database;
use crate::datafile::{Boot, FileSet};
use crate::epoch::{self, Epoch, EpochBegin, Epochs};
use crate::error::{Result, StorageError};
use crate::log::record::{self, Kind};
use crate::log::{AppendKind, EpochToBegin};
use crate::{DelayedDurability, log::record::Record};
use daruma_base::{Lsn, TxnId};
use std::sync::{Arc, Weak};

/// What a `Property` record says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Property {
    Settings(Settings),
    /// The next log backup begins here: a log chain has begun, or a log backup was taken.
    LogBackup(Lsn),
    /// From this record on the log is of another epoch.
    Epoch(EpochBegin),
}

const SETTINGS: u8 = 1;
const LOG_BACKUP: u8 = 2;
const EPOCH: u8 = 3;

impl Property {
    /// A whole record.
    fn write(self) -> Vec<u8> {
        let mut out = Vec::new();
        record::start(&mut out, Kind::Property, TxnId::NONE, Lsn::NONE);
        match self {
            Property::Settings(settings) => {
                out.put_u8(SETTINGS);
                write_settings(&mut out, &settings);
            }
            Property::LogBackup(lsn) => {
                out.put_u8(LOG_BACKUP);
                out.put_u64(lsn.0);
            }
            Property::Epoch(begin) => {
                out.put_u8(EPOCH);
                begin.write(&mut out);
            }
        }
        record::finish(&mut out);
        out
    }

    /// `None` for damage.
    pub fn parse(body: &[u8]) -> Option<Property> {
        let mut r = Reader::new(body);
        match r.u8()? {
            SETTINGS => read_settings(&mut r).map(Property::Settings),
            LOG_BACKUP => Some(Property::LogBackup(Lsn(r.u64()?))),
            EPOCH => EpochBegin::read(&mut r).map(Property::Epoch),
            _ => None,
        }
    }
}

fn write_settings(out: &mut Vec<u8>, s: &Settings) {
    let flags = [
        s.accelerated_recovery,
        s.read_committed_snapshot,
        s.allow_snapshot,
        s.read_only,
        s.optimized_locking,
    ];
    let bits = flags
        .iter()
        .rev()
        .fold(0, |bits, flag| bits << 1 | u8::from(*flag));
    out.put_u8(bits);
    out.put_u8(s.delayed_durability as u8);
    out.put_u8(s.recovery_model as u8);
    out.put_u32(s.target_recovery_seconds);
    out.put_u32(s.delayed_milliseconds);
    out.put_u32(s.delayed_kilobytes);
    out.put_u16(s.version_store_filegroup);
    out.put_u32(s.version_store_megabytes);
}

fn read_settings(r: &mut Reader<'_>) -> Option<Settings> {
    let flags = r.u8()?;
    let flag = |at: u8| flags & 1 << at != 0;
    Some(Settings {
        accelerated_recovery: flag(0),
        read_committed_snapshot: flag(1),
        allow_snapshot: flag(2),
        read_only: flag(3),
        optimized_locking: flag(4),
        delayed_durability: match r.u8()? {
            0 => DelayedDurability::Disabled,
            1 => DelayedDurability::Allowed,
            2 => DelayedDurability::Forced,
            _ => return None,
        },
        recovery_model: match r.u8()? {
            0 => RecoveryModel::Full,
            1 => RecoveryModel::BulkLogged,
            2 => RecoveryModel::Simple,
            _ => return None,
        },
        target_recovery_seconds: r.u32()?,
        delayed_milliseconds: r.u32()?,
        delayed_kilobytes: r.u32()?,
        version_store_filegroup: r.u16()?,
        version_store_megabytes: r.u32()?,
    })
}

/// Properties as a replay of the log finds them; nothing for what it does not speak of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Properties {
    settings: Option<Settings>,
    /// `Lsn::NONE` for a chain that was broken.
    log_backup: Option<Lsn>,
    epochs: Epochs,
}

impl Properties {
    /// The records come in order.
    pub fn note(&mut self, property: Property) {
        match property {
            Property::Settings(settings) => {
                self.settings = Some(settings);
                if settings.recovery_model == RecoveryModel::Simple {
                    self.log_backup = Some(Lsn::NONE);
                }
            }
            Property::LogBackup(from) => self.log_backup = Some(from),
            Property::Epoch(begin) => self.epochs.begin(begin.epoch),
        }
    }

    /// Gives a boot page what it may not have. A database that was restored begins its own chain where its log ends.
    pub fn apply(&self, boot: &mut Boot) {
        if let Some(settings) = self.settings {
            boot.settings = settings;
        }
        match self.log_backup {
            Some(Lsn::NONE) => boot.log_backup = Lsn::NONE,
            Some(from) => boot.log_backup = boot.log_backup.max(from),
            None => {}
        }
    }
}

impl Properties {
    /// Gives the history of a log that ends at `end` what the replay has found; it forgets what is not in the log.
    pub fn complete(&self, epochs: &mut Epochs, end: Lsn) {
        self.add_to(epochs);
        epochs.cut(end);
    }

    /// Gives the history what the replay has found so far.
    pub fn add_to(&self, epochs: &mut Epochs) {
        for epoch in self.epochs.list() {
            if !epochs.list().contains(epoch) {
                epochs.begin(*epoch);
            }
        }
    }
}

/// The record with which an epoch begins at `start`.
fn begins(files: &FileSet, number: u64, id: u128, start: Lsn) -> Vec<u8> {
    let epoch = Epoch { number, id, start };
    let parent = files.epochs().before(start).map_or(0, |e| e.id);
    Property::Epoch(EpochBegin { epoch, parent }).write()
}

/// An epoch of this node's own that has no record yet.
struct OwnEpoch {
    number: u64,
    id: u128,
    store: Weak<Store>,
}

impl EpochToBegin for OwnEpoch {
    fn record(&self, start: Lsn) -> Vec<u8> {
        let store = self.store.upgrade();
        store.map_or_else(Vec::new, |s| begins(&s.files, self.number, self.id, start))
    }

    fn has_begun(&self, start: Lsn) {
        let (number, id) = (self.number, self.id);
        if let Some(store) = self.store.upgrade() {
            let epoch = Epoch { number, id, start };
            store.files.change_epochs(|all| all.begin(epoch));
        }
    }
}

impl Database {
    /// Who went on with the log where, oldest first.
    pub fn epochs(&self) -> Arc<Epochs> {
        self.store().files.epochs()
    }

    /// The log goes on in an epoch of this number and id, which begins where the last sealed block ends: nothing has been
    /// appended behind that. Its record becomes hard, and the boot page gets it, with whatever follows.
    pub fn begin_epoch(&self, number: u64, id: u128) -> Result<Epoch> {
        let (log, files) = (&self.store().log, &self.store().files);
        log.await_epoch(None);
        let start = log.block_start();
        let record = begins(files, number, id, start);
        log.append(&record, AppendKind::Completion)?;
        let epoch = Epoch { number, id, start };
        files.change_epochs(|all| all.begin(epoch));
        Ok(epoch)
    }

    /// The log goes on in an epoch of this node's own, which begins with the first record that anybody appends.
    pub(crate) fn await_own_epoch(&self, store: &Arc<Store>) {
        let number = self.epochs().last().map_or(0, |e| e.number) + 1;
        let id = epoch::new_id(&*self.env().random);
        let store = Arc::downgrade(store);
        let epoch = OwnEpoch { number, id, store };
        self.store().log.await_epoch(Some(Arc::new(epoch)));
    }

    /// The epoch in which the log goes on is in the history from here on: for those who tell others of it.
    pub fn settle_epoch(&self) -> Result<()> {
        self.store().log.begin_awaited_epoch()
    }

    /// Changes the settings, durably, in the log and then in the boot page.
    pub(crate) fn log_settings(
        &self,
        settings: Settings,
        change: impl FnOnce(&mut Boot),
    ) -> Result<()> {
        let _in_order = self.changing_property().lock();
        if self.is_durable() {
            let record = Property::Settings(settings).write();
            let lsn = self.store().log.append(&record, AppendKind::Completion)?;
            self.store().log.harden(lsn)?;
        }
        self.store().write_boot(change)
    }

    /// The next log backup begins at `from`: durably in the boot page, and then, when the log has been cut, in the log. A log
    /// that is full must become free by a log backup, so one that cannot take the record does without: the next one says more.
    pub(crate) fn log_backup_begins(&self, from: Lsn) -> Result<()> {
        let _in_order = self.changing_property().lock();
        self.store().write_boot(|b| b.log_backup = from)?;
        self.cut_log_again();
        let record = Property::LogBackup(from).write();
        match self.store().log.append(&record, AppendKind::Completion) {
            Ok(_) | Err(StorageError::LogFull { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// For the listing of the log.
pub(crate) fn describe(record: &Record<'_>) -> Option<String> {
    Some(match Property::parse(record.body)? {
        Property::Settings(_) => "settings of the database".into(),
        Property::LogBackup(lsn) => format!("the next log backup begins at {lsn}"),
        Property::Epoch(begin) => format!("epoch {} begins", begin.epoch.number),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn settings() -> Settings {
        Settings {
            accelerated_recovery: true,
            allow_snapshot: true,
            optimized_locking: true,
            delayed_durability: DelayedDurability::Forced,
            recovery_model: RecoveryModel::BulkLogged,
            target_recovery_seconds: 7,
            version_store_filegroup: 3,
            version_store_megabytes: 900,
            ..Settings::default()
        }
    }

    proptest! {
        #[test]
        fn damaged_properties_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Property::parse(&bytes);
        }
    }

    #[test]
    fn properties_read_back_what_was_written() {
        let all = [
            Property::Settings(settings()),
            Property::Settings(Settings::default()),
            Property::LogBackup(Lsn(77_000)),
            Property::Epoch(EpochBegin {
                epoch: Epoch {
                    number: 3,
                    id: 5 << 90 | 7,
                    start: Lsn(81_920),
                },
                parent: u128::MAX - 9,
            }),
        ];
        for property in all {
            let bytes = property.write();
            let record = Record::parse(&bytes).expect("a record");
            assert_eq!(record.kind, Kind::Property);
            assert_eq!(Property::parse(record.body), Some(property));
        }
    }

    #[test]
    fn a_chain_never_goes_back_and_simple_breaks_it() {
        let simple = Settings {
            recovery_model: RecoveryModel::Simple,
            ..settings()
        };
        let mut boot = Boot {
            log_backup: Lsn(9_000),
            ..Boot::default()
        };
        let mut found = Properties::default();
        found.note(Property::LogBackup(Lsn(5_000)));
        found.apply(&mut boot);
        assert_eq!(boot.log_backup, Lsn(9_000));
        found.note(Property::Settings(simple));
        found.apply(&mut boot);
        assert_eq!((boot.log_backup, boot.settings), (Lsn::NONE, simple));
        found.note(Property::LogBackup(Lsn(12_000)));
        found.note(Property::Settings(settings()));
        found.apply(&mut boot);
        assert_eq!((boot.log_backup, boot.settings), (Lsn(12_000), settings()));
    }
}
