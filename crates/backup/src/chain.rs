//! Which backup may follow which: rules of the log chain, as pure functions.
//!
//! | the database was restored to | a backup is applied | when |
//! |---|---|---|
//! | nothing | full | always |
//! | a full backup, whatever of differentials and log followed it | differential | it builds on that very full backup (else 3136), and on the last differential: below |
//! | position E of path P | log, [F, L] | F <= E (else 4305) and L > E, or L = E where the newest pages end (else 4326), on path P or on one that left P at or after E (else 4330) |
//!
//! What a path is, the epochs say where both know them: the log just before E must be of one epoch, by its id, in what there is and
//! in the set. Two copies of a database that were opened apart have different epochs, though they may be on one path by name. Sets
//! of older releases know of no epochs; then the number of the path decides.
//!
//! Log is only laid out, until recovery; but a differential writes pages, and each has all that changed since the full backup. So
//! it may come after any log, also after log that goes beyond it, which it replaces, and after a differential that ends no later
//! (else 3136) and lies on its path (else 4330): then it has every page of that again. Pages of a later one, or of another path,
//! would stay in the files, and recovery would find them beside older ones. Single pages take log as it comes, so that a differential must
//! lie on the path of that log as well. One that was broken off may have written some of its pages and
//! not all: log and recovery are refused, until a differential that fits these pages has been restored.
//!
//! A restore to a point in time ends the path: what follows must have been taken on the path that begins there.

use crate::meta::{BackupKind, EpochMeta, Random16, SetInfo};
use serde::{Deserialize, Serialize};

/// As many are kept as a database remembers.
const EPOCHS_MAX: usize = daruma_storage::EPOCHS_MAX;

/// The epoch in which the log just before `end` was made, if the list knows.
fn made_before(epochs: &[EpochMeta], end: u64) -> Option<&EpochMeta> {
    epochs.iter().rev().find(|e| e.start < end)
}

/// The newest pages in the files of a database that is being restored: where the backup ends that they are from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Pages {
    set: Random16,
    end_lsn: u64,
    fork: u64,
    /// In which the log just before the end was made; `None` in sets that do not know.
    epoch: Option<Random16>,
    /// Some of them may be missing.
    #[serde(default)]
    are_partial: bool,
}

impl Pages {
    fn of(set: &SetInfo, are_partial: bool) -> Pages {
        Pages {
            set: set.set,
            end_lsn: set.last_lsn,
            fork: set.fork,
            epoch: made_before(&set.epochs, set.last_lsn).map(|e| e.id),
            are_partial,
        }
    }

    /// Is their end a point of the path that these epochs tell of? `None` if that is not known.
    fn lie_on(&self, epochs: &[EpochMeta]) -> Option<bool> {
        let there = made_before(epochs, self.end_lsn)?;
        Some(self.epoch? == there.id)
    }
}

/// How far a database that is being restored has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestoreState {
    /// The full backup it began with.
    pub base: Random16,
    pub base_lsn: u64,
    pub guid: u64,
    /// The log in the file ends here.
    pub end_lsn: u64,
    pub fork: u64,
    pub fork_lsn: u64,
    /// Who made the log that there is, oldest first.
    #[serde(default)]
    pub epochs: Vec<EpochMeta>,
    /// The boot page with which recovery will begin.
    pub boot: Vec<u8>,
    /// A point in time was reached: no more log may follow.
    pub stopped: bool,
    /// Recovery makes no sense before the log has come so far: pages of that time are there already.
    #[serde(default)]
    pub needs_lsn: u64,
    /// `None` in the state of an older release: then no pages are newer than `end_lsn` and `needs_lsn`, on the path of the log.
    #[serde(default)]
    pages: Option<Pages>,
}

/// Why a backup cannot be applied. The product's error number is in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainError {
    /// 4305: begins after what there is.
    TooRecent { first: u64, end: u64 },
    /// 4326: ends before what there is.
    TooEarly { last: u64, end: u64 },
    /// 4330: another recovery path.
    OtherPath,
    /// 3154 or 3118-like: another database.
    OtherDatabase,
    /// 3136: the differential builds on another full backup, or ends before another one whose pages are in the files.
    OtherBase,
    /// 4319: a differential was broken off, and none has been restored since.
    BrokenOff,
    /// 3117: nothing to roll forward.
    NothingRestored,
    /// 4335: rolled forward beyond it already.
    Stopped,
}

impl RestoreState {
    /// The state after a full backup.
    pub fn after_full(set: &SetInfo) -> RestoreState {
        RestoreState {
            base: set.set,
            base_lsn: set.redo_lsn,
            guid: set.database_guid,
            end_lsn: set.last_lsn,
            fork: set.fork,
            fork_lsn: set.fork_lsn,
            epochs: set.epochs.clone(),
            boot: set.boot.clone(),
            stopped: false,
            needs_lsn: 0,
            pages: Some(Pages::of(set, false)),
        }
    }

    /// The state while pages of this differential are being written, for whoever finds it broken off.
    pub(crate) fn with_partial(&self, set: &SetInfo) -> RestoreState {
        RestoreState {
            needs_lsn: set.last_lsn,
            pages: Some(Pages::of(set, true)),
            ..self.clone()
        }
    }

    /// [`ChainError::BrokenOff`] where recovery would find pages of a differential of which others are missing.
    pub(crate) fn check_whole(&self) -> Result<(), ChainError> {
        let are_partial = self.pages.as_ref().is_some_and(|pages| pages.are_partial);
        match are_partial || self.end_lsn < self.needs_lsn {
            true => Err(ChainError::BrokenOff),
            false => Ok(()),
        }
    }

    /// May this set be restored next? Every reason against it is an error of its own.
    pub fn check(&self, set: &SetInfo) -> Result<(), ChainError> {
        if set.database_guid != self.guid {
            return Err(ChainError::OtherDatabase);
        }
        match set.kind {
            BackupKind::Full => Ok(()),
            BackupKind::Differential => self.check_differential(set),
            BackupKind::Log => self.check_log(set),
        }
    }

    fn check_differential(&self, set: &SetInfo) -> Result<(), ChainError> {
        if set.base_set != Some(self.base) {
            return Err(ChainError::OtherBase);
        }
        let pages = self.newest_pages();
        if set.last_lsn < pages.end_lsn {
            return Err(ChainError::OtherBase);
        }
        if set.set == pages.set {
            return Ok(());
        }
        // Where no epochs tell: that it builds on the full backup is proof for the pages of that.
        let is_same = || pages.set == self.base || pages.fork == set.fork;
        match pages.lie_on(&set.epochs).unwrap_or_else(is_same) {
            true => Ok(()),
            false => Err(ChainError::OtherPath),
        }
    }

    /// As `check`, where log was applied to pages at once and not only laid out: a differential must lie on the path of that log too.
    pub(crate) fn check_rolled(&self, set: &SetInfo) -> Result<(), ChainError> {
        self.check(set)?;
        if set.kind != BackupKind::Differential {
            return Ok(());
        }
        let common = self.end_lsn.min(set.last_lsn);
        let is_same = match (
            made_before(&self.epochs, common),
            made_before(&set.epochs, common),
        ) {
            (Some(here), Some(there)) => here.id == there.id,
            _ => set.fork == self.fork,
        };
        match is_same {
            true => Ok(()),
            false => Err(ChainError::OtherPath),
        }
    }

    fn newest_pages(&self) -> Pages {
        let end_lsn = self.end_lsn.max(self.needs_lsn);
        self.pages.clone().unwrap_or_else(|| Pages {
            set: Random16::default(),
            end_lsn,
            fork: self.fork,
            epoch: made_before(&self.epochs, end_lsn).map(|e| e.id),
            are_partial: false,
        })
    }

    fn check_log(&self, set: &SetInfo) -> Result<(), ChainError> {
        if self.stopped {
            return Err(ChainError::Stopped);
        }
        if self.pages.as_ref().is_some_and(|pages| pages.are_partial) {
            return Err(ChainError::BrokenOff);
        }
        let (first, last, end) = (set.first_lsn, set.last_lsn, self.end_lsn);
        // Taken at once behind the full backup it may end where that ends, and is a link of the chain all the same.
        let is_behind_pages = end == self.newest_pages().end_lsn;
        if last < end || (last == end && first < end && !is_behind_pages) {
            return Err(ChainError::TooEarly { last, end });
        }
        if first > end {
            return Err(ChainError::TooRecent { first, end });
        }
        let is_same = match (
            made_before(&self.epochs, end),
            made_before(&set.epochs, end),
        ) {
            (Some(here), Some(there)) => here.id == there.id,
            _ => set.fork == self.fork || (set.fork_lsn >= end && first >= end),
        };
        if is_same {
            Ok(())
        } else {
            Err(ChainError::OtherPath)
        }
    }

    /// Notes that a differential or log backup was applied up to `end`.
    pub fn applied(&mut self, set: &SetInfo, end: u64, stopped: bool) {
        self.end_lsn = end;
        self.fork = set.fork;
        self.fork_lsn = set.fork_lsn;
        let first = set.epochs.first().map_or(end, |e| e.start);
        self.epochs.retain(|e| e.start < first);
        let added = set.epochs.iter().filter(|e| e.start < end);
        self.epochs.extend(added);
        let excess = self.epochs.len().saturating_sub(EPOCHS_MAX);
        self.epochs.drain(..excess);
        self.stopped = stopped;
        if set.kind == BackupKind::Differential {
            self.boot.clone_from(&set.boot);
            self.pages = Some(Pages::of(set, false));
            self.needs_lsn = 0;
        }
    }
}
