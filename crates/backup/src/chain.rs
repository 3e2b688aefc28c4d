//! Which backup may follow which: rules of the log chain, as pure functions.
//!
//! | the database was restored to | a backup is applied | when |
//! |---|---|---|
//! | nothing | full | always |
//! | a full backup | differential | it builds on that very full backup |
//! | position E of path P | log, [F, L] | F <= E (else 4305) and L > E (else 4326), on path P or on one that left P at or after E (else 4330) |
//!
//! What a path is, the epochs say where both know them: the log just before E must be of one epoch, by its id, in what there is and
//! in the set. Two copies of a database that were opened apart have different epochs, though they may be on one path by name. Sets
//! of older releases know of no epochs; then the number of the path decides.
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
    /// 3136: the differential builds on another full backup.
    OtherBase,
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
        }
    }

    /// May this set be restored next? Every reason against it is an error of its own.
    pub fn check(&self, set: &SetInfo) -> Result<(), ChainError> {
        if set.database_guid != self.guid {
            return Err(ChainError::OtherDatabase);
        }
        match set.kind {
            BackupKind::Full => Ok(()),
            BackupKind::Differential if set.base_set == Some(self.base) => Ok(()),
            BackupKind::Differential => Err(ChainError::OtherBase),
            BackupKind::Log => self.check_log(set),
        }
    }

    fn check_log(&self, set: &SetInfo) -> Result<(), ChainError> {
        if self.stopped {
            return Err(ChainError::Stopped);
        }
        let (first, last, end) = (set.first_lsn, set.last_lsn, self.end_lsn);
        if last < end || (last == end && first < end) {
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
        }
    }
}
