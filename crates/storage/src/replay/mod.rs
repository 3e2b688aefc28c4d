//! Replay: the records of the log in order, each applied to the pages that are older. Crash recovery, a restore and a standby
//! are drivers of it; what it leaves is the state at the end of the log and a list of who had not ended (the losers). The caller
//! takes the losers back.
//!
//! Theory: ARIES (Mohan et al., 1992) with analysis and redo in one pass, and with logical revert for accelerated transactions
//! (`revert`). Crash recovery looks ahead for the end of the log and for commits (`ahead`); a pass that never ends cannot know who will
//! commit. It makes the versions of every accelerated transaction that is open at the record and not known to commit, and lets go
//! of them at the record that ends it. What is remembered is bounded by the open transactions and by what
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
//! | and no page for these versions, in a full file on a full disk | they stay aside until they are reverted (`database::scarce`) |
//! | prepared transaction without commit or end | its coordinator is asked (`coordinator`) |
//! | deferred free of a committed transaction | carried out in the background |
//! | page damaged outside the doublewrite batch | refused: `BadPage`; the other databases come up |
//!
//! | room | what it knows |
//! |---|---|
//! | `ahead` | where the log ends, and who commits in it |
//! | `tracker` | what the log says about transactions, deferred frees and version chunks |
//! | `apply` | how a record changes pages |
//! | `versions` | which versions a record made, and how long they are kept |
//!
//! Invariants
//! 1. No page is written before the log that it depends on is hard: [`look_ahead`] comes before the first record is applied.
//! 2. A page with entries of an open accelerated transaction stays dirty, or is put aside, until their versions are on pages or
//!    the transaction has ended, or is known to commit. A record that the pass has not come to yet may say any of it.
//!
//! 3. Nothing waits for a reader, nor for anything else while it holds a latch, but for a frame.
//!
//! Read next: `follow`, `redo`, `undo`, `revert`, docs/format.md

mod ahead;
mod apply;
mod tracker;
mod versions;

pub use ahead::{Ahead, look_ahead};
pub use tracker::{Ask, Loser, PlacedChunk, Recovered};

use crate::api::Durability;
use crate::buffer::{Pool, Store};
use crate::coordinator::{Outcome, ResolvedUnit};
use crate::database::Database;
use crate::error::{Result, StorageError};
use crate::log::record::{self, Kind, Record};
use crate::log::{Block, commit};
use crate::unit::Decision;
use ahead::Commits;
use apply::Apply;
use daruma_base::{Lsn, PageId, reached};
pub(crate) use tracker::TxnTracker;
use versions::Versions;

/// Gives every block from the redo start to `end`, which [`look_ahead`] has found, to `each`.
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

/// Crash recovery: repeats history from the redo start to the end that was found. `at_block` is told of each block; what it refuses ends the
/// recovery. `decided` is told what this database has decided for others before anybody is asked: those who ask each other at the
/// same time need not wait for each other's answers.
pub fn recover(
    pool: &Pool,
    store: &Store,
    ahead: Ahead,
    at_block: &dyn Fn(Lsn) -> Result<()>,
    decided: &dyn Fn(Vec<Decision>),
    ask: Ask<'_>,
) -> Result<Recovered> {
    let beside = None;
    let site = Site {
        pool,
        store,
        beside,
    };
    let mut replay = Replay::new(store);
    let Ahead { end, commits } = ahead;
    replay.commits = commits;
    read(store, end, &mut |block| {
        at_block(block.lsn)?;
        replay.feed(site, block)
    })?;
    replay.finish(site, end, decided, ask)
}

/// What the log of a closed database has decided for others. No page is touched.
pub fn read_decisions(store: &Store) -> Result<Vec<Decision>> {
    let end = look_ahead(store)?.end;
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

/// Pages and log that a replay works on.
#[derive(Clone, Copy)]
pub(crate) struct Site<'a> {
    pub pool: &'a Pool,
    pub store: &'a Store,
    /// Readers of the same pages, if there may be any.
    pub beside: Option<&'a dyn Beside>,
}

impl<'a> Site<'a> {
    fn versions(self) -> Versions<'a> {
        Versions::new(self)
    }
}

/// What readers beside a replay have to be told, and what they need of it.
pub(crate) trait Beside {
    /// The record is about to be applied.
    fn before(&self, record: &Record<'_>) -> Result<()>;
    /// A page leaves its tree; the pages of the record are latched.
    fn unlinks(&self, tree: PageId);
    /// A page of the tree was written whole; the pages of the record are latched.
    fn rewrites(&self, tree: PageId);
    /// The primary is to free these trees: who dropped them has committed, or who made them has not. The record at `at` is applied.
    fn drops(&self, trees: Vec<PageId>, at: Lsn);
    /// The record at `lsn` is applied.
    fn after(&self, lsn: Lsn, record: &Record<'_>, tracker: &TxnTracker) -> Result<()>;
    /// These versions are of transactions that the commit record at `lsn` has ended: older snapshots may need them.
    fn committed(&self, lsn: Lsn, chunks: Vec<u32>);
}

/// A replay under way. It may never end.
pub(crate) struct Replay {
    tracker: TxnTracker,
    /// Known to lie ahead.
    commits: Commits,
}

impl Replay {
    /// Begins at the redo start of the boot page.
    pub fn new(store: &Store) -> Replay {
        Replay {
            tracker: TxnTracker::new(&store.files.boot()),
            commits: Commits::default(),
        }
    }

    /// What the log has said so far.
    pub fn tracker(&self) -> &TxnTracker {
        &self.tracker
    }

    /// The next block of the log.
    pub fn feed(&mut self, site: Site<'_>, block: &Block) -> Result<()> {
        let apply = Apply::new(site, &self.commits);
        for (lsn, bytes) in block.records() {
            let record = self.tracker.read(site.store, block.lsn, lsn, bytes)?;
            if let Some(beside) = site.beside {
                beside.before(&record)?;
            }
            apply.record(block.lsn, lsn, &record, &mut self.tracker)?;
            let released = self.tracker.take_released();
            let dropped = self.tracker.take_dropped();
            match site.beside {
                Some(beside) => {
                    beside.drops(dropped, lsn);
                    beside.after(lsn, &record, &self.tracker)?;
                    match record.kind == Kind::Commit && !released.is_empty() {
                        true => beside.committed(lsn, released),
                        false => site.versions().forget(&released),
                    }
                }
                None => site.versions().forget(&released),
            }
        }
        Ok(())
    }

    /// Versions of open transactions that got their pages before the first record that was read can be found from here on.
    pub fn take_placed(&mut self, site: Site<'_>) {
        site.versions().take_placed(&mut self.tracker);
    }

    /// The log ends here: whoever is still open has lost.
    pub fn finish(
        mut self,
        site: Site<'_>,
        end: Lsn,
        decided: &dyn Fn(Vec<Decision>),
        ask: Ask<'_>,
    ) -> Result<Recovered> {
        self.tracker.check_complete(site.store)?;
        decided(self.tracker.decisions());
        let resolved = self.tracker.resolve(ask)?;
        site.versions().forget(&self.tracker.take_released());
        self.take_placed(site);
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
        let appended = |lsn| db.txns().committed(ids.iter().copied(), lsn, false);
        let log = &db.store().log;
        log.append_commit(&body, utc_100ns, Durability::Delayed, appended)?;
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
