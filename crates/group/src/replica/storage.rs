//! Storage's logs, as a replica meets them.
//!
//! Redo has a thread of its own, which reads what is hard from the log and goes as far as it is told; receiving and syncing never wait
//! for it.

use super::log::{Feed, LogBlock, LogError, PrimaryLog, SecondaryLog};
use daruma_base::Lsn;
use daruma_storage::{Database, Fed, FeedBlock, LogFeed, Secondary, StorageError};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What `log_reuse_wait_desc` shows while a replica needs the log.
const REASON: &str = "AVAILABILITY_REPLICA";

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
}

impl StorageLog {
    /// `told` is called under latches of the group: it may wake somebody and nothing else.
    pub fn new(db: &Arc<Database>, told: Box<dyn Fn(Change) + Send + Sync>) -> Arc<StorageLog> {
        Arc::new(StorageLog {
            db: db.clone(),
            told,
        })
    }
}

impl PrimaryLog for StorageLog {
    fn end(&self) -> Lsn {
        self.db.log_stats().end_lsn
    }

    fn here(&self) -> Lsn {
        self.db.log_stats().hardened_lsn
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

    fn open(&self) {
        (self.told)(Change::Opened);
    }

    fn fence(&self) {
        (self.told)(Change::Fenced);
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

/// The log of a database that this node follows, and its redo.
pub struct StorageCopy {
    secondary: Arc<Secondary>,
    redo: Mutex<Redo>,
    moved: Condvar,
}

#[derive(Default)]
struct Redo {
    limit: Lsn,
    failed: Option<String>,
    stopped: bool,
    /// The thread reads the log or changes pages.
    is_at_work: bool,
}

impl StorageCopy {
    /// Redo begins when it is told how far.
    pub fn begin(secondary: &Arc<Secondary>) -> io::Result<Arc<StorageCopy>> {
        let copy = Arc::new(StorageCopy {
            secondary: secondary.clone(),
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
        loop {
            let limit = {
                let mut redo = self.redo.lock();
                redo.is_at_work = false;
                self.moved.notify_all();
                while redo.limit <= self.secondary.applied() && !redo.stopped {
                    self.moved.wait(&mut redo);
                }
                if redo.stopped {
                    return;
                }
                redo.is_at_work = true;
                redo.limit
            };
            let applied = self.secondary.apply(limit);
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
        self.secondary
            .unread_database()
            .cut_log_tail(at)
            .map_err(failed)
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
        self.secondary.applied()
    }
}

fn failed(error: StorageError) -> LogError {
    LogError::Failed(error.to_string())
}
