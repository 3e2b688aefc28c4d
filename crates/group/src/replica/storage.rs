//! Storage's logs, as a replica meets them.
//!
//! Redo has a thread of its own, which reads what is hard from the log and goes as far as it is told; receiving and syncing never wait
//! for it.

use super::log::{Feed, LogBlock, LogError, PrimaryLog, SecondaryLog};
use crate::commit::ReplicaId;
use daruma_base::{Lsn, PageId};
use daruma_storage::{
    Cut, Database, Fed, FeedBlock, LogFeed, LogHold, Secondary, StandingPin, StorageError,
};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What `log_reuse_wait_desc` shows while a replica needs the log.
const REASON: &str = "AVAILABILITY_REPLICA";
/// Sessions have smaller numbers than the owner of a replica's pin.
const PIN_OWNER: u64 = 1 << 61;

/// What a server does when its standing in a database changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sessions may come.
    Opened,
    /// This node leads no longer: sessions end, and what waits has an unknown outcome.
    Fenced,
}

/// The log of a database that this node leads.
pub struct StorageLog {
    db: Arc<Database>,
    told: Box<dyn Fn(Change) + Send + Sync>,
    kept: Mutex<Vec<Kept>>,
}

/// What one replica needs, also while it is away.
struct Kept {
    replica: ReplicaId,
    log: Option<LogHold>,
    versions: Option<StandingPin>,
    /// Since when it has had no connection, as far as anybody has looked: what is kept for it has a bound then.
    away_since: Option<Instant>,
    /// Somebody knows that its log is gone.
    is_told: bool,
}

impl Kept {
    fn new(replica: ReplicaId, log: Option<LogHold>) -> Kept {
        Kept {
            replica,
            log,
            versions: None,
            away_since: None,
            is_told: false,
        }
    }

    /// Has its log become too long, since the last look?
    fn has_lost_log(&mut self) -> bool {
        let is_lost = self.log.as_ref().is_some_and(LogHold::is_broken);
        let is_news = is_lost && !self.is_told;
        self.is_told = is_lost;
        is_news
    }
}

impl StorageLog {
    /// `told` is called under latches of the group: it may wake somebody and nothing else. For the replicas all log is kept that
    /// is there, until they say what they have.
    pub fn new(
        db: &Arc<Database>,
        replicas: &[ReplicaId],
        told: Box<dyn Fn(Change) + Send + Sync>,
    ) -> Arc<StorageLog> {
        let from = db.log_stats().min_lsn;
        let kept = |replica: &ReplicaId| Kept::new(*replica, db.hold_log(from, REASON));
        Arc::new(StorageLog {
            db: db.clone(),
            told,
            kept: Mutex::new(replicas.iter().map(kept).collect()),
        })
    }

    /// More log than this is not kept for a replica that has had no connection for `grace`: it has to be seeded anew then. Those for which
    /// log was given up since this was asked last. One that is connected has no bound: it catches up, or rests because somebody wants it to.
    pub fn bound_absent(
        &self,
        bytes_max: u64,
        grace: Duration,
        is_connected: impl Fn(ReplicaId) -> bool,
    ) -> Vec<ReplicaId> {
        let now = Instant::now();
        let mut lost = Vec::new();
        for of_it in self.kept.lock().iter_mut() {
            let since = match is_connected(of_it.replica) {
                true => None,
                false => Some(of_it.away_since.unwrap_or(now)),
            };
            of_it.away_since = since;
            let is_away = since.is_some_and(|since| now.duration_since(since) >= grace);
            let bound = if is_away { bytes_max } else { u64::MAX };
            of_it.log.iter().for_each(|hold| hold.set_bound(bound));
            if of_it.has_lost_log() {
                lost.push(of_it.replica);
            }
        }
        lost
    }
}

impl PrimaryLog for StorageLog {
    fn end(&self) -> Lsn {
        self.db.log_stats().end_lsn
    }

    fn here(&self) -> Lsn {
        self.db.log_stats().hardened_lsn
    }

    fn has_failed(&self) -> bool {
        self.db.failure().is_some()
    }

    fn raise_quorum(&self, quorum: Lsn) {
        self.db.raise_quorum(quorum);
    }

    fn acknowledge_alone(&self) {
        self.db.set_participants(false);
    }

    fn wait_for_participants(&self) -> Lsn {
        self.db.set_participants(true);
        self.db.hardened_lsn()
    }

    fn hold_writers_back(&self, are_held: bool) {
        self.db.hold_writers_back(are_held);
    }

    fn open(&self) {
        (self.told)(Change::Opened);
    }

    fn fence(&self) {
        self.db.end_reign();
        (self.told)(Change::Fenced);
    }

    fn keep_for(&self, replica: ReplicaId, here: Lsn, pin: Lsn) {
        let mut kept = self.kept.lock();
        let at = kept.iter().position(|k| k.replica == replica);
        let at = at.unwrap_or_else(|| {
            kept.push(Kept::new(replica, self.db.hold_log(here, REASON)));
            kept.len() - 1
        });
        let Some(of_it) = kept.get_mut(at) else {
            return;
        };
        match &mut of_it.log {
            Some(hold) if !hold.is_broken() => hold.advance(here),
            _ => of_it.log = self.db.hold_log(here, REASON),
        }
        of_it.away_since = None;
        of_it.log.iter().for_each(|hold| hold.set_bound(u64::MAX));
        match &of_it.versions {
            Some(versions) => versions.advance(pin),
            None if pin.is_none() => {}
            None => {
                let owner = PIN_OWNER + u64::from(replica.number());
                of_it.versions = Some(self.db.pin_for_secondary(owner, pin));
            }
        }
    }

    fn unpin(&self, replica: ReplicaId) {
        let mut kept = self.kept.lock();
        let of_it = kept.iter_mut().find(|k| k.replica == replica);
        of_it.into_iter().for_each(|k| k.versions = None);
    }

    fn forget(&self, replica: ReplicaId) {
        self.kept.lock().retain(|k| k.replica != replica);
    }

    fn feed(
        &self,
        from: Lsn,
        more: Box<dyn Fn() + Send + Sync>,
    ) -> Result<Box<dyn Feed>, LogError> {
        let feed = self.db.log_feed(from, REASON).map_err(|_| LogError::Gone)?;
        feed.on_more(more);
        Ok(Box::new(BlocksOf { feed, ahead: None }))
    }
}

struct BlocksOf {
    feed: LogFeed,
    /// A block that came before it was wanted.
    ahead: Option<FeedBlock>,
}

impl Feed for BlocksOf {
    fn next(&mut self, limit: Lsn) -> Result<Option<LogBlock>, LogError> {
        if self.ahead.is_none() {
            self.ahead = match self.feed.try_next().map_err(failed)? {
                Fed::Block(block) => Some(block),
                Fed::Nothing => None,
                Fed::Gone => return Err(LogError::Gone),
            };
        }
        let block = self.ahead.take_if(|block| block.end() <= limit);
        Ok(block.map(|block| LogBlock {
            first: block.lsn(),
            end: block.end(),
            used: block.used().len(),
            bytes: block.shared().clone(),
        }))
    }

    fn release_below(&mut self, to: Lsn) {
        self.feed.release_below(to);
    }
}

/// What redo has to tell a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyChange {
    /// Readers may come.
    Readable,
    /// Definitions are not what they were.
    Definitions,
    /// Redo cannot go on; the damaged page that it met, if it was one, and whether the page's checksum is wrong.
    Failed(String, Option<(PageId, bool)>),
}

/// The log of a database that this node follows, and its redo.
pub struct StorageCopy {
    secondary: Arc<Secondary>,
    told: Arc<dyn Fn(CopyChange) + Send + Sync>,
    /// Nothing below is to be taken back without every page being looked at; `None` where that is not known of any position.
    known: Option<Lsn>,
    redo: Mutex<Redo>,
    moved: Condvar,
}

#[derive(Default)]
struct Redo {
    limit: Lsn,
    failed: Option<String>,
    stopped: bool,
    /// It waits for a page, wherever it may go.
    is_held: bool,
    /// The thread reads the log or changes pages.
    is_at_work: bool,
}

impl StorageCopy {
    /// Redo begins when it is told how far. No page has anything above `known`, if that is known; `told` may wake somebody and
    /// nothing else.
    pub fn begin(
        secondary: &Arc<Secondary>,
        known: Option<Lsn>,
        told: Box<dyn Fn(CopyChange) + Send + Sync>,
    ) -> io::Result<Arc<StorageCopy>> {
        let told: Arc<dyn Fn(CopyChange) + Send + Sync> = told.into();
        let tell = told.clone();
        secondary.on_new_definitions(Box::new(move || tell(CopyChange::Definitions)));
        let copy = Arc::new(StorageCopy {
            secondary: secondary.clone(),
            told,
            known,
            redo: Mutex::default(),
            moved: Condvar::new(),
        });
        let redoing = copy.clone();
        std::thread::Builder::new()
            .name("group redo".into())
            .spawn(move || redoing.redo())?;
        Ok(copy)
    }

    /// Ends redo, where it stands: before a promotion, which goes on from there. An error of redo is given back.
    pub fn stop(&self) -> Option<String> {
        let mut redo = self.redo.lock();
        redo.stopped = true;
        self.moved.notify_all();
        while redo.is_at_work {
            self.moved.wait(&mut redo);
        }
        redo.failed.clone()
    }

    /// Can redo go on, as far as is known? Not where it has failed, or waits for a page.
    pub fn goes_on(&self) -> bool {
        let redo = self.redo.lock();
        redo.failed.is_none() && !redo.is_held
    }

    /// Redo waits, or waits no more: for a page that it needs.
    pub fn hold(&self, is_held: bool) {
        self.redo.lock().is_held = is_held;
        self.moved.notify_all();
    }

    /// Waits until everything below `to` is redone and shown. `false`: it is not within `limit`.
    pub fn wait_applied(&self, to: Lsn, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut redo = self.redo.lock();
        while self.secondary.applied() < to && redo.failed.is_none() {
            if self.moved.wait_until(&mut redo, until).timed_out() {
                break;
            }
        }
        self.secondary.applied() >= to
    }

    fn redo(&self) {
        let mut was_readable = false;
        loop {
            let limit = {
                let mut redo = self.redo.lock();
                redo.is_at_work = false;
                self.moved.notify_all();
                let has_none = |redo: &Redo| redo.is_held || redo.limit <= self.secondary.applied();
                while has_none(&redo) && !redo.stopped {
                    self.moved.wait(&mut redo);
                }
                if redo.stopped {
                    return;
                }
                redo.is_at_work = true;
                redo.limit
            };
            let applied = self.secondary.apply(limit);
            if !was_readable && self.secondary.is_readable() {
                was_readable = true;
                (self.told)(CopyChange::Readable);
            }
            if let Err(error) = &applied {
                let page = error.damaged_page();
                (self.told)(CopyChange::Failed(error.to_string(), page));
            }
            let mut redo = self.redo.lock();
            match applied {
                // A limit within a block: what lies before it is done, and the next word is of more.
                Ok(to) if redo.limit == limit => redo.limit = to,
                Ok(_) => {}
                Err(error) => {
                    redo.failed = Some(error.to_string());
                    redo.stopped = true;
                }
            }
        }
    }
}

impl SecondaryLog for StorageCopy {
    fn end(&self) -> Lsn {
        self.secondary.hardened()
    }

    fn append(&self, used: &[u8]) -> Result<Lsn, LogError> {
        let appended = self.secondary.unread_database().append_block(used);
        appended.map_err(|e| LogError::Refused(e.to_string()))
    }

    fn sync(&self) -> Result<Lsn, LogError> {
        self.secondary
            .unread_database()
            .sync_blocks()
            .map_err(failed)
    }

    fn cut(&self, at: Lsn) -> Result<(), LogError> {
        match self.secondary.cut_tail(at, self.known).map_err(failed)? {
            Cut::Done => Ok(()),
            Cut::Needed(why) => Err(LogError::Needed(why)),
        }
    }

    fn may_apply(&self, to: Lsn) {
        let mut redo = self.redo.lock();
        redo.limit = redo.limit.max(to);
        self.moved.notify_all();
    }

    fn applied(&self) -> Lsn {
        self.secondary.applied()
    }

    fn pin(&self) -> Lsn {
        match self.secondary.is_readable() {
            true => self.secondary.low_water_mark(),
            false => self.secondary.applied(),
        }
    }
}

fn failed(error: StorageError) -> LogError {
    LogError::Failed(error.to_string())
}
