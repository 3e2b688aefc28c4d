//! Figures of a database about its transactions, its log and its versions.

use super::Database;
use crate::api::*;
use crate::log::{CommitPoint, DelayedStats, VlfInfo};
use daruma_base::TxnId;
use std::sync::atomic::{AtomicU64, Ordering};

impl Database {
    pub(crate) fn count_transaction(&self, wrote: bool) {
        self.transactions.fetch_add(1, Ordering::Relaxed);
        self.write_transactions
            .fetch_add(u64::from(wrote), Ordering::Relaxed);
    }
    /// Transactions that have ended since the database was opened, and those of them that had written.
    pub fn transaction_counts(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.transactions), count(&self.write_transactions))
    }

    /// Ids and log positions of transactions that have written and not ended.
    pub fn active_transactions(&self) -> Vec<(TxnId, u64)> {
        self.active
            .lock()
            .values()
            .map(|p| (p.id, p.first.0))
            .collect()
    }

    /// Owners of the locks of transactions that have written and not ended; 0 for those that a restart found.
    pub fn writers(&self) -> Vec<u64> {
        self.active.lock().values().map(|p| p.owner).collect()
    }

    /// Loss if the machine stopped at this moment.
    pub fn delayed_stats(&self) -> DelayedStats {
        self.store.log.delayed_stats()
    }

    /// Position and time of the last commit.
    pub fn last_commit(&self) -> CommitPoint {
        self.store.log.last_commit()
    }

    /// Positions and sizes for sys.dm_db_log_stats.
    pub fn log_stats(&self) -> LogStats {
        let boot = self.store.files.boot();
        let mut recovery_lsn = boot.redo_start;
        self.with_log_needed_by_transactions(|oldest| {
            recovery_lsn = oldest.map_or(recovery_lsn, |oldest| oldest.min(recovery_lsn));
        });
        LogStats {
            checkpoint_lsn: boot.checkpoint,
            recovery_lsn,
            ..self.store.log.stats()
        }
    }

    /// Virtual log files for `sys.dm_db_log_info`.
    pub fn vlfs(&self) -> Vec<VlfInfo> {
        self.store.log.vlfs()
    }

    /// Bytes of row versions in memory.
    pub fn version_bytes(&self) -> u64 {
        self.versions().memory_bytes()
    }

    /// Figures of the version store for its views.
    pub fn version_stats(&self) -> VersionStats {
        // Not under the other latch: who aborts takes the active ones first.
        let oldest_active = self.active.lock().keys().min().copied();
        let aborted = self.aborted.map.lock();
        let (snapshots, oldest_snapshot) = self.txns.snapshots_in_use();
        VersionStats {
            memory_bytes: self.versions().memory_bytes(),
            pages: self.versions().page_count(),
            chunks: self.versions().chunk_count(),
            filegroup: self.settings().version_store_filegroup,
            aborted: aborted.len() as u64,
            oldest_active,
            oldest_aborted: aborted.keys().next().copied(),
            snapshots: snapshots as u64,
            oldest_snapshot,
            rows_reverted: self.aborted.rows.load(Ordering::Relaxed),
            pages_reverted: self.aborted.pages.load(Ordering::Relaxed),
        }
    }
}
