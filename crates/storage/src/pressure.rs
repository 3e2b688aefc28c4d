//! Back-pressure: what happens to writers when the version store comes near its limit.
//!
//! Theory: versions are made faster than anyone can wait for them, and kept for as long as the slowest reader or the
//! oldest transaction wants. Without a limit the disk is the limit, and everybody fails at once. With one, writers of
//! new versions pause for a moment with every page once four fifths are in use, which gives the cleaner its chance; at
//! the limit they wait, and clean themselves, for a few seconds; then the statement fails and says who keeps the
//! versions. Inserts, commits and rollbacks need no versions and go on.
//!
//! Invariant: whoever pauses or waits holds no latch. It may hold locks, so the wait is bounded, and a cancelled
//! session does not wait at all.
//!
//! Tests: tests/version_pressure.rs

use crate::database::Database;
use crate::error::{Result, StorageError};
use crate::lock::Owner;
use crate::page::PAGE_BYTES;
use crate::pins::{PinKind, VersionPin};
use daruma_base::reached;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The longest pause of a writer for one page, just below the limit.
const PAUSE_MAX: Duration = Duration::from_millis(5);
/// How long a writer waits at the limit, and how often it looks.
const WAIT_MAX: Duration = Duration::from_secs(5);
const WAIT_STEP: Duration = Duration::from_millis(10);

impl Database {
    /// Versions in memory and pages for versions, in bytes: what the limit is on.
    pub fn version_store_bytes(&self) -> u64 {
        self.versions().memory_bytes() + self.versions().page_count() * PAGE_BYTES as u64
    }

    /// A transaction is about to make versions. The caller holds no latch.
    pub(crate) fn press_writer(&self, owner: &Owner) -> Result<()> {
        let limit = self.versions().bytes_max.load(Ordering::Relaxed);
        if limit == 0 {
            return Ok(());
        }
        let soft = limit / 5 * 4;
        let used = self.version_store_bytes();
        if used < soft {
            return Ok(());
        }
        if used < limit {
            reached!("versions.writer.paused");
            let share = (used - soft) as f64 / (limit - soft) as f64;
            self.env().clock.sleep(PAUSE_MAX.mul_f64(share));
            return Ok(());
        }
        self.wait_for_room(limit, owner)
    }

    fn wait_for_room(&self, limit: u64, owner: &Owner) -> Result<()> {
        reached!("versions.writer.waits");
        let clock = &self.env().clock;
        let until = clock.monotonic() + WAIT_MAX;
        loop {
            self.check_writable()?;
            // The background tells what it cannot clean; a writer of something else need not fail for it.
            let busy = self.clean_versions().unwrap_or(false);
            if self.version_store_bytes() < limit {
                return Ok(());
            }
            if owner.cancel.get().is_some() {
                return Err(StorageError::Cancelled);
            }
            if busy {
                continue;
            }
            let pins = self.version_pins();
            // Versions that the transaction itself keeps do not go away by waiting.
            let is_own =
                |p: &VersionPin| p.kind != PinKind::AbortedTransaction && p.owner == owner.id;
            let others = pins.iter().any(|p| p.bytes() > 0 && !is_own(p));
            if !others || clock.monotonic() >= until {
                return Err(StorageError::VersionStoreFull {
                    database: self.name(),
                    bytes_max: limit,
                    pin: pins.into_iter().next().map(Box::new),
                });
            }
            clock.sleep(WAIT_STEP);
        }
    }
}
