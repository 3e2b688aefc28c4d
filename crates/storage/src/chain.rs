//! The log chain: which part of the log must wait for a log backup, and cutting what nobody needs.
//!
//! | recovery model | full backup since | the log is kept from |
//! |---|---|---|
//! | SIMPLE | any | what recovery and rollback need |
//! | FULL, BULK_LOGGED | none yet | the same: without a full backup a log backup is of no use |
//! | FULL, BULK_LOGGED | taken | the end of the last log backup, if that is lower |
//!
//! Invariants
//! 1. The start of the chain is in the boot page before the call that moves it returns, so a crash never loses log
//!    that the next log backup needs, nor does it forget that a chain is there.
//! 2. Going to SIMPLE breaks the chain; only another full backup starts one again.

use crate::api::RecoveryModel;
use crate::database::Database;
use crate::error::Result;
use crate::log::{BlockError, LogFeed, LogHold, NOTHING, Need, NoFeed, OLDEST_PAGE};
use crate::planted::{Bug, planted};
use daruma_base::{Lsn, reached};

impl Database {
    /// Keeps the log from `from` (a block boundary) on until the guard is dropped. `None` when it is gone already.
    /// `reason` is what `log_reuse_wait_desc` shows while this hold keeps the log.
    pub fn hold_log(&self, from: Lsn, reason: &'static str) -> Option<LogHold> {
        self.store().log.hold(from, reason)
    }

    /// The sealed blocks of the log from `from` (a block boundary) on, as they come, for a copy of it elsewhere. The log is held
    /// from there, for `reason`.
    pub fn log_feed(
        &self,
        from: Lsn,
        reason: &'static str,
    ) -> std::result::Result<LogFeed, NoFeed> {
        self.store().log.feed(from, reason)
    }

    /// Position up to which the log is on disk, here and on every commit participant: a block boundary, and where a backup of the
    /// log ends.
    pub fn hardened_lsn(&self) -> Lsn {
        self.store().log.quorum()
    }

    /// From here on the log is another node's copy: it goes on with the blocks that come, and with nothing else. No transaction
    /// may be open. All that is in the log stays there until it is cut off.
    pub fn follow_log(&self) -> Result<()> {
        let log = &self.store().log;
        log.harden_all_here()?;
        self.store().write_boot(|boot| {
            boot.is_copy = true;
            boot.clean = false;
        })?;
        log.follow(log.hardened(), log.min_lsn())
    }

    /// Takes the next block of the log that this database's is a copy of, without padding. Hard after [`Database::sync_blocks`].
    pub fn append_block(&self, used: &[u8]) -> std::result::Result<Lsn, BlockError> {
        self.store().log.append_block(used)
    }

    /// Makes the blocks hard that have come, on this thread; up to where the log is hard then, which may be told.
    pub fn sync_blocks(&self) -> Result<Lsn> {
        self.store().log.sync_blocks()
    }

    /// Has the boot page say, durably, how far the log is here: a copy that ends before has lost something that was told of. To
    /// be called once in a while; what was told since is found by looking.
    pub fn note_told(&self) -> Result<()> {
        match self.store().files.boot().hard < self.store().log.hardened() {
            true => self.store().write_boot(|_| {}),
            false => Ok(()),
        }
    }

    /// Takes away the log from `at` on, a block boundary, durably: at any moment a crash finds all of it or nothing. No page may
    /// have anything of it, nobody may read it, and no block may come meanwhile.
    pub fn cut_log_tail(&self, at: Lsn) -> Result<()> {
        self.store().cut_log_tail(at)
    }

    /// Commits wait from now on until every participant has them ([`Database::raise_quorum`]), or do not any more. Participants
    /// have all that is on disk here when they begin.
    pub fn set_participants(&self, are_there: bool) {
        self.store().log.set_participants(are_there);
    }

    /// Every commit participant has the log below `lsn`, a block boundary. Ends the commits that have waited for that, in the
    /// order of the log, on this thread, which may hold nothing that those could need.
    pub fn raise_quorum(&self, lsn: Lsn) {
        self.store().log.raise_quorum(lsn);
    }

    /// A full backup that needs the log from `from` on has succeeded: under FULL and BULK_LOGGED the log chain starts
    /// there, unless it runs already. Call it while a hold at `from` is still there.
    pub fn note_full_backup(&self, from: Lsn) -> Result<()> {
        // A checkpoint that saw no chain yet must have cut before the caller's hold goes.
        let _no_checkpoint = self.no_checkpoint();
        let boot = self.store().files.boot();
        let starts =
            boot.settings.recovery_model != RecoveryModel::Simple && boot.log_backup == Lsn::NONE;
        if !starts {
            return Ok(());
        }
        self.log_backup_begins(from)
    }

    /// Where the next log backup begins; `Lsn::NONE` when there is no chain (error 4214).
    pub fn log_backup_start(&self) -> Lsn {
        self.store().files.boot().log_backup
    }

    /// A log backup has saved everything below `to` (a block boundary): the log may be cut there.
    pub fn log_backed_up_to(&self, to: Lsn) -> Result<()> {
        let boot = self.store().files.boot();
        if boot.log_backup == Lsn::NONE || to <= boot.log_backup {
            return Ok(());
        }
        self.log_backup_begins(to)
    }

    /// DBCC SHRINKFILE of the log: as far towards `bytes` as what is needed allows. False when that was not all.
    pub fn shrink_log(&self, bytes: u64) -> Result<bool> {
        self.checkpoint()?;
        self.store().log.shrink_to(bytes)
    }

    /// Before a write, with no latch held: when the log is nearly full, a writer makes room first. A small
    /// log grows: in less than `LOG_BYTES_WANTED` checkpoints cannot keep up with those who write at full speed. A
    /// larger one is cut, so it grows on, or is refused as full (9002), only because something really holds it.
    pub(crate) fn relieve_log(&self) {
        if !self.store().log.is_tight() {
            return;
        }
        let _one_at_a_time = self.relief().lock();
        let log = &self.store().log;
        if log.is_tight() && log.grow_towards(self.log_bytes_wanted()) {
            return;
        }
        let since = log.end().0.saturating_sub(self.checkpoint_end().0);
        if !log.is_tight() || log.is_fenced() {
            return;
        }
        let frees_now = || {
            let passed_over = self.checkpoint_passed_over();
            passed_over.is_some_and(|from| self.would_free_log(from) > 0)
        };
        let is_refused = self.checkpoint_was_refused();
        if !is_refused && (since >= log.size_bytes() / 32 || frees_now()) {
            reached!("log.relieved");
            // A checkpoint that fails leaves things as they are; the write will say what is wrong.
            let _ = self.checkpoint();
        } else {
            // Little has been logged since the last checkpoint: another one would free no more. What kept the log then may be gone.
            self.cut_log_again();
        }
    }

    /// Cuts the log below what recovery, rollback, the next log backup and every hold need.
    pub(crate) fn cut_log(&self, redo_start: Lsn, oldest_page: bool) {
        self.remember_needs(&[Need {
            from: redo_start,
            reason: if oldest_page { OLDEST_PAGE } else { NOTHING },
        }]);
        self.cut_log_again();
    }

    /// Cuts once more with the redo start of the last checkpoint: something else let go.
    pub(crate) fn cut_log_again(&self) {
        if let Some(redo) = self.remembered_needs().first() {
            self.with_needs(*redo, |needs| self.store().log.cut(needs));
        }
    }

    /// Bytes of log that a checkpoint from which redo begins there would let go.
    pub(crate) fn would_free_log(&self, redo_start: Lsn) -> u64 {
        let redo = Need {
            from: redo_start,
            reason: NOTHING,
        };
        let mut would = 0;
        self.with_needs(redo, |needs| would = self.store().log.would_free(needs));
        would
    }

    /// What needs log besides redo, and that. Under the latch of the active transactions.
    fn with_needs(&self, redo: Need, then: impl FnOnce(&[Need])) {
        let mut needs = vec![redo];
        let chain = self.log_backup_start();
        if chain != Lsn::NONE {
            needs.push(Need {
                from: chain,
                reason: "LOG_BACKUP",
            });
        }
        self.with_log_needed_by_transactions(|oldest| {
            let oldest = oldest.filter(|o| *o < redo.from && !planted(Bug::ReuseLogEarly));
            needs.extend(oldest.map(|from| Need {
                from,
                reason: "ACTIVE_TRANSACTION",
            }));
            then(&needs);
        });
    }
}
