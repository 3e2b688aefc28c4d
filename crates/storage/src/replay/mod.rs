//! Replay: the records of the log in order, each applied to the pages that are older. Crash recovery, a restore and a standby
//! are drivers of it; what it leaves is the state at the end of the log and a list of who had not ended (the losers). The caller
//! takes the losers back.
//!
//! Theory: ARIES (Mohan et al., 1992) with analysis and redo in one pass, and with logical revert for accelerated transactions
//! (`revert`). A pass cannot know who will commit, so it makes the versions of every accelerated transaction that is open at the
//! record, and lets go of them at the record that ends it. What is remembered is bounded by the open transactions and by what
//! ended since the last checkpoint but one, however much log is read: a restore reads all of a chain in one go.
//!
//! The end of the log is looked for first, from where the boot page knows it to be hard: what lies behind is written once more
//! before a page may depend on it.
//!
//! | found at start | done |
//! |---|---|
//! | torn page in the doublewrite batch | restored from the doublewrite area (`FileSet::restore_torn`) |
//! | torn boot page | the other copy is used |
//! | bad last block of the log | ends the log |
//! | blocks of which no later one says that they are hard | written once more and synced (`Log::write_again`) |
//! | bad block, but a later one, or the boot page, proves it was hard | refused: `DamagedLog` |
//! | record newer than its page | applied |
//! | record not newer than its page | ignored |
//! | classic transaction without commit or end | rolled back (`undo`), with compensation records |
//! | accelerated transaction without commit or end | marked as aborted, reverted in the background (`revert`) |
//! | its change is redone | its version is rebuilt from the page as it was |
//! | its change is on disk already | its version is on its pages: the log had them before |
//! | fewer frames than pages that wait for versions | those pages are put aside until the versions are placed (`aside`) |
//! | prepared transaction without commit or end | its coordinator is asked (`coordinator`) |
//! | deferred free of a committed transaction | carried out in the background |
//! | page damaged outside the doublewrite batch | refused: `BadPage`; the other databases come up |
//!
//! | room | what it knows |
//! |---|---|
//! | `tracker` | what the log says about transactions, deferred frees and version chunks |
//! | `apply` | how a record changes pages |
//! | `versions` | which versions a record made, and how long they are kept |
//!
//! Invariants
//! 1. No page is written before the log that it depends on is hard: [`find_end`] comes before the first record is applied.
//! 2. A page with entries of an open accelerated transaction stays dirty, or is put aside, until their versions are on pages or
//!    the transaction has ended. A record that the pass has not come to yet may say either.
//!
//! Read next: `redo`, `undo`, `revert`, docs/format.md

mod apply;
mod tracker;
mod versions;

pub use tracker::{Ask, PlacedChunk, Recovered};

use crate::buffer::{Pool, Store};
use crate::coordinator::{Outcome, ResolvedUnit};
use crate::database::Database;
use crate::error::{Result, StorageError};
use crate::log::record::{self, Kind};
use crate::log::{AppendKind, Block, CommitPoint, commit};
use crate::page::PAGE_BYTES;
use crate::unit::Decision;
use apply::Apply;
use daruma_base::{Lsn, reached};
use tracker::TxnTracker;
use versions::Versions;

/// The end of the log. What nothing proves to be hard is written once more, so that from here on all of it is.
pub fn find_end(store: &Store) -> Result<Lsn> {
    let boot = store.files.boot();
    let mut hard = boot.redo_start.max(boot.hard);
    let Ok(mut cursor) = store.log.cursor(hard) else {
        // The file ends there, or before: whoever reads up to there finds out.
        return Ok(hard);
    };
    while let Some(block) = cursor.next()? {
        hard = hard.max(block.hardened_before());
    }
    let end = cursor.position();
    if !boot.clean && hard < end {
        store.log.write_again(hard, end)?;
    }
    Ok(end)
}

/// Gives every block from the redo start to `end`, which [`find_end`] has found, to `each`.
fn read(store: &Store, end: Lsn, each: &mut dyn FnMut(&Block) -> Result<()>) -> Result<()> {
    let mut cursor = store.log.cursor(store.files.boot().redo_start)?;
    while cursor.position() < end {
        let Some(block) = cursor.next()? else {
            reached!("log.end.before_hard");
            let what = "the log ends before a position up to which it had been written safely";
            return Err(damaged(store, cursor.position(), what));
        };
        each(&block)?;
    }
    Ok(())
}

/// Crash recovery: repeats history from the redo start to `end`. `at_block` is told of each block; what it refuses ends the
/// recovery. `decided` is told what this database has decided for others before anybody is asked: those who ask each other at the
/// same time need not wait for each other's answers.
pub fn recover(
    pool: &Pool,
    store: &Store,
    end: Lsn,
    at_block: &dyn Fn(Lsn) -> Result<()>,
    decided: &dyn Fn(Vec<Decision>),
    ask: Ask<'_>,
) -> Result<Recovered> {
    let mut replay = Replay::new(pool, store);
    read(store, end, &mut |block| {
        at_block(block.lsn)?;
        replay.feed(block)
    })?;
    replay.finish(end, decided, ask)
}

/// What the log of a closed database has decided for others. No page is touched.
pub fn read_decisions(store: &Store) -> Result<Vec<Decision>> {
    let end = find_end(store)?;
    let mut tracker = TxnTracker::new(&store.files.boot());
    read(store, end, &mut |block| {
        for (lsn, bytes) in block.records() {
            tracker.read(store, block.lsn, lsn, bytes)?;
        }
        Ok(())
    })?;
    tracker.check_complete(store)?;
    Ok(tracker.decisions())
}

/// A replay under way.
struct Replay<'a> {
    store: &'a Store,
    tracker: TxnTracker,
    apply: Apply<'a>,
}

impl<'a> Replay<'a> {
    /// Begins at the redo start of the boot page.
    fn new(pool: &'a Pool, store: &'a Store) -> Replay<'a> {
        let versions = Versions::new(store, (pool.frame_count() * PAGE_BYTES / 4) as u64);
        Replay {
            store,
            tracker: TxnTracker::new(&store.files.boot()),
            apply: Apply::new(pool, store, versions),
        }
    }

    /// The next block of the log.
    fn feed(&mut self, block: &Block) -> Result<()> {
        for (lsn, bytes) in block.records() {
            let record = self.tracker.read(self.store, block.lsn, lsn, bytes)?;
            self.apply
                .record(block.lsn, lsn, &record, &mut self.tracker)?;
            self.apply.versions.release(&mut self.tracker);
        }
        Ok(())
    }

    /// The log ends here: whoever is still open has lost.
    fn finish(
        mut self,
        end: Lsn,
        decided: &dyn Fn(Vec<Decision>),
        ask: Ask<'_>,
    ) -> Result<Recovered> {
        self.tracker.check_complete(self.store)?;
        decided(self.tracker.decisions());
        let resolved = self.tracker.resolve(ask)?;
        self.apply.versions.release(&mut self.tracker);
        self.apply.versions.take_placed(&mut self.tracker);
        Ok(self.tracker.finish(resolved, end))
    }
}

/// Logs the commits of prepared transactions, so that nobody has to be asked again.
pub fn log_commits(db: &Database, resolved: &[ResolvedUnit]) -> Result<()> {
    let committed = resolved.iter().filter(|r| r.outcome != Outcome::RolledBack);
    for ResolvedUnit { ids, .. } in committed {
        let Some((last, earlier)) = ids.split_last() else {
            continue;
        };
        let utc_100ns = db.env().clock.utc_100ns();
        let mut body = Vec::new();
        record::start(&mut body, Kind::Commit, *last, Lsn::NONE);
        commit::write_commit(&mut body, utc_100ns, None, earlier.iter().copied());
        record::finish(&mut body);
        let log = &db.store().log;
        let lsn = log.append(&body, AppendKind::Completion)?;
        log.set_last_commit(CommitPoint { lsn, utc_100ns });
    }
    Ok(())
}

fn damaged(store: &Store, lsn: Lsn, what: &str) -> StorageError {
    StorageError::DamagedLog {
        path: store.files.path(1),
        lsn,
        what: what.into(),
    }
}

#[cfg(test)]
mod tests;
