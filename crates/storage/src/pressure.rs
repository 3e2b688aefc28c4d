//! Back-pressure: what happens to writers when the version store comes near its limit.
//!
//! There are two limits: one is set for a database (memory and pages together), the other is what the server lets its versions
//! take of memory, which versions leave for pages except for the last ones of each transaction.
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

/// One limit on versions.
struct Share {
    used: u64,
    limit: u64,
    is_memory: bool,
}

impl Database {
    /// Versions in memory and pages for versions, in bytes: what the limit is on.
    pub fn version_store_bytes(&self) -> u64 {
        self.versions().memory_bytes() + self.versions().page_count() * PAGE_BYTES as u64
    }

    /// What versions take, and the most that they may take; pages and memory first, then memory alone. Shares without a limit
    /// are left out.
    fn version_shares(&self) -> impl Iterator<Item = Share> {
        let limit = self.versions().bytes_max.load(Ordering::Relaxed);
        let all = (limit > 0).then(|| Share {
            used: self.version_store_bytes(),
            limit,
            is_memory: false,
        });
        let limit = self.engine.version_memory_bytes;
        let memory = (limit > 0).then(|| Share {
            used: self.versions().footprint_bytes(),
            limit,
            is_memory: true,
        });
        all.into_iter().chain(memory)
    }

    /// A transaction is about to make versions. The caller holds no latch.
    pub(crate) fn press_writer(&self, owner: &Owner) -> Result<()> {
        let pressed = |share: &Share| share.used >= share.limit / 5 * 4;
        let mut pause = Duration::ZERO;
        for share in self.version_shares().filter(pressed) {
            if share.used >= share.limit {
                return self.wait_for_room(owner);
            }
            let soft = share.limit / 5 * 4;
            let above = (share.used - soft) as f64 / (share.limit - soft) as f64;
            pause = pause.max(PAUSE_MAX.mul_f64(above));
        }
        if !pause.is_zero() {
            reached!("versions.writer.paused");
            self.env().clock.sleep(pause);
        }
        Ok(())
    }

    fn wait_for_room(&self, owner: &Owner) -> Result<()> {
        reached!("versions.writer.waits");
        let clock = &self.env().clock;
        let until = clock.monotonic() + WAIT_MAX;
        loop {
            self.check_writable()?;
            // The background tells what it cannot clean; a writer of something else need not fail for it.
            let busy = self.clean_versions().unwrap_or(false);
            let Some(full) = self.version_shares().find(|s| s.used >= s.limit) else {
                return Ok(());
            };
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
                    bytes_max: full.limit,
                    is_memory: full.is_memory,
                    pin: pins.into_iter().next().map(Box::new),
                });
            }
            clock.sleep(WAIT_STEP);
        }
    }
}
