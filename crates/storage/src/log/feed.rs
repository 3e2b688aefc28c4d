//! Feeds: the sealed blocks of a log, in order, for those who keep a copy of it elsewhere.
//!
//! Theory: a block never changes once it is sealed, so a feed hands out the very bytes that the writer has on their way to disk,
//! mostly before they are there: copying and syncing here go on side by side. A feed that has fallen behind what memory keeps
//! reads the file until it has caught up. It holds the log from the position that its owner says is safe elsewhere, up to a
//! bound: beyond it the hold is broken, and the copy has to be made anew.
//!
//! A thread that waits for more is woken by the seal, by a sync, by a raised quorum and by the fence; nobody looks again in between.
//! Without a feed all of that costs one look at a counter.
//!
//! Invariants
//! 1. Each block is handed out once, and begins where the one before ended.
//! 2. Nothing is read from the file that is not hard here.
//!
//! Latches: the log's state, then the bells.

use super::block::{BLOCK_ALIGN_BYTES, Found, inspect, padded_bytes};
use super::{Log, LogCursor, LogHold, LogState};
use crate::error::{Result, StorageError};
use crate::sync::{Condvar, Mutex};
use daruma_base::{Lsn, reached};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A sealed block on its way to a copy of the log.
#[derive(Clone)]
pub struct FeedBlock {
    lsn: u64,
    /// Perhaps with padding.
    bytes: Arc<Vec<u8>>,
    used: usize,
    is_hard: bool,
}

impl FeedBlock {
    /// Position of its first byte.
    pub fn lsn(&self) -> Lsn {
        Lsn(self.lsn)
    }

    /// Where the next block begins: padding counts.
    pub fn end(&self) -> Lsn {
        Lsn(self.lsn + padded_bytes(self.used) as u64)
    }

    /// Header and records. The zeros behind them need not travel.
    pub fn used(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }

    /// The allocation that holds the bytes: the same for all feeds that take the block from memory.
    pub fn shared(&self) -> &Arc<Vec<u8>> {
        &self.bytes
    }

    /// Was it on disk here when it was handed out?
    pub fn is_hard(&self) -> bool {
        self.is_hard
    }
}

/// Position and padded length of a block that arrived without its padding; `None` unless it is whole. The checksum covers the
/// padding, which is zeros.
pub fn inspect_unpadded(used: &[u8]) -> Option<(Lsn, Vec<u8>)> {
    let lsn = super::block::claimed_lsn(used)?;
    let incarnation = super::block::incarnation_of(used);
    let mut padded = used.to_vec();
    padded.resize(padded_bytes(used.len()), 0);
    match inspect(&padded, lsn, incarnation) {
        Found::Block { used: len, .. } if len == used.len() => Some((Lsn(lsn), padded)),
        _ => None,
    }
}

/// What a feed has for its owner.
pub enum Fed {
    /// The next block.
    Block(FeedBlock),
    /// Nothing for now.
    Nothing,
    /// The log that comes next is not kept any more: the copy must be made anew.
    Gone,
}

/// How far a feed goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedLimit {
    /// To the last sealed block, hard here or not.
    Sealed,
    /// To what is hard here and on every commit participant: nothing of it can be taken back.
    Quorum,
}

/// Why there is no feed from a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFeed {
    /// The log there has been cut: the copy must be made anew.
    Gone,
    /// The log here ends before it, or no block begins there: the two went different ways.
    NotOurs,
}

/// Wakes the owner of a feed.
#[derive(Default)]
struct Bell {
    is_rung: Mutex<bool>,
    rung: Condvar,
    then: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl Bell {
    fn ring(&self) {
        *self.is_rung.lock() = true;
        self.rung.notify_all();
        if let Some(then) = &*self.then.lock() {
            then();
        }
    }
}

/// The bells of a log's open feeds.
#[derive(Default)]
pub(super) struct Feeds {
    open: AtomicUsize,
    bells: Mutex<Vec<Weak<Bell>>>,
}

impl Feeds {
    fn add(&self) -> Arc<Bell> {
        let bell = Arc::new(Bell::default());
        let mut bells = self.bells.lock();
        bells.retain(|bell| bell.strong_count() > 0);
        bells.push(Arc::downgrade(&bell));
        self.open.store(bells.len(), Ordering::Release);
        bell
    }

    /// There may be something for those who wait.
    #[inline]
    pub fn ring(&self) {
        if self.open.load(Ordering::Acquire) > 0 {
            self.ring_all();
        }
    }

    #[cold]
    fn ring_all(&self) {
        let bells: Vec<Arc<Bell>> = {
            let bells = self.bells.lock();
            bells.iter().filter_map(Weak::upgrade).collect()
        };
        bells.iter().for_each(|bell| bell.ring());
    }

    fn remove(&self, bell: &Arc<Bell>) {
        let mut bells = self.bells.lock();
        let gone = Arc::downgrade(bell);
        bells.retain(|bell| bell.strong_count() > 0 && !Weak::ptr_eq(bell, &gone));
        self.open.store(bells.len(), Ordering::Release);
    }
}

/// The blocks of a log from a position on.
pub struct LogFeed {
    log: Arc<Log>,
    /// Position of the next block.
    next: Lsn,
    limit: FeedLimit,
    hold: LogHold,
    bell: Arc<Bell>,
    /// Cuts of the log's tail that it knows of.
    cuts: u64,
    /// Reads the file up to a position that was hard when it was made.
    behind: Option<(LogCursor, Lsn)>,
}

impl Log {
    /// The blocks from `from` (a block boundary) on. The log is held from there; `reason` is what `log_reuse_wait_desc` shows
    /// meanwhile.
    pub fn feed(
        self: &Arc<Self>,
        from: Lsn,
        reason: &'static str,
    ) -> std::result::Result<LogFeed, NoFeed> {
        if from > self.sealed_end() || !from.0.is_multiple_of(BLOCK_ALIGN_BYTES as u64) {
            return Err(NoFeed::NotOurs);
        }
        let hold = self.hold(from, reason).ok_or(NoFeed::Gone)?;
        Ok(LogFeed {
            log: self.clone(),
            next: from,
            limit: FeedLimit::Sealed,
            hold,
            cuts: self.state.lock().cuts,
            bell: self.feeds.add(),
            behind: None,
        })
    }

    /// Where the block after the last sealed one begins.
    pub fn sealed_end(&self) -> Lsn {
        Lsn(self.state.lock().next_block)
    }
}

impl LogFeed {
    /// Position of the block that comes next.
    pub fn position(&self) -> Lsn {
        self.next
    }

    /// From where on the log is held.
    pub fn held_from(&self) -> Lsn {
        self.hold.from()
    }

    /// What lies below `to` is safe elsewhere, and need not be kept for this feed. Never moves back.
    pub fn release_below(&mut self, to: Lsn) {
        self.hold.advance(to.min(self.next));
    }

    /// Keeps no more log than this, counted from what is released to the end of the log.
    pub fn set_bound(&self, bytes_max: u64) {
        self.hold.set_bound(bytes_max);
    }

    /// How far it goes; at first to the last sealed block.
    pub fn set_limit(&mut self, limit: FeedLimit) {
        self.limit = limit;
    }

    /// Goes back to `to`, a block boundary that was not released: what was sent may have been lost. False when it was.
    pub fn rewind(&mut self, to: Lsn) -> bool {
        if to < self.hold.from() || to > self.next || self.hold.is_broken() {
            return false;
        }
        (self.next, self.behind) = (to, None);
        true
    }

    /// The next block, if there is one. Waits for nobody, but may read the file.
    pub fn try_next(&mut self) -> Result<Fed> {
        if self.hold.is_broken() {
            reached!("log.feed.gone");
            return Ok(Fed::Gone);
        }
        let block = match self.look_in_memory()? {
            Place::Block(block) => block,
            Place::InFile(end) => match self.read_file(end) {
                Ok(block) => block,
                // It was cut while it was read.
                Err(_) if self.hold.is_broken() => return Ok(Fed::Gone),
                Err(error) => return Err(error),
            },
            Place::Nowhere => return Ok(Fed::Nothing),
            Place::CutOff => return Ok(Fed::Gone),
        };
        self.next = block.end();
        Ok(Fed::Block(block))
    }

    /// Waits until there may be more, at most for `timeout`. False when nothing has happened.
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut is_rung = self.bell.is_rung.lock();
        if !*is_rung {
            self.bell.rung.wait_for(&mut is_rung, timeout);
        }
        std::mem::take(&mut *is_rung)
    }

    /// Calls `then` whenever there may be more. It runs on threads that write the log, some of which hold its latch: it may
    /// wake somebody and nothing else.
    pub fn on_more(&self, then: impl Fn() + Send + Sync + 'static) {
        *self.bell.then.lock() = Some(Box::new(then));
    }

    /// What memory has; where the file must be read, up to where.
    fn look_in_memory(&mut self) -> Result<Place> {
        let log = &self.log;
        let state = log.state.lock();
        if self.cuts != state.cuts {
            if self.cuts + 1 != state.cuts || self.next.0 > state.cut_at {
                return Ok(Place::CutOff);
            }
            (self.cuts, self.behind) = (state.cuts, None);
        }
        let end = match self.limit {
            FeedLimit::Sealed => Lsn(state.next_block),
            FeedLimit::Quorum => log.quorum(),
        };
        if self.next >= end {
            drop(state);
            return log.check().map(|()| Place::Nowhere);
        }
        let hardened = log.hardened();
        if let Some(block) = state.sealed_at(self.next, hardened)? {
            self.behind = None;
            return Ok(match block.end() <= end {
                true => Place::Block(block),
                false => Place::Nowhere,
            });
        }
        drop(state);
        let to = hardened.min(end);
        match self.next < to {
            true => Ok(Place::InFile(to)),
            false => Err(log.no_block_at(self.next)),
        }
    }

    fn read_file(&mut self, end: Lsn) -> Result<FeedBlock> {
        let (mut cursor, known) = match self.behind.take() {
            Some((cursor, known)) if cursor.position() == self.next && self.next < known => {
                (cursor, known)
            }
            _ => {
                reached!("log.feed.behind");
                (self.log.cursor(self.next)?, end)
            }
        };
        let Some(block) = cursor.next_before(known)? else {
            return Err(self.log.no_block_at(self.next));
        };
        self.behind = Some((cursor, known));
        Ok(FeedBlock {
            lsn: block.lsn.0,
            used: block.bytes.len(),
            bytes: Arc::new(block.bytes),
            is_hard: true,
        })
    }
}

impl Drop for LogFeed {
    fn drop(&mut self) {
        self.log.feeds.remove(&self.bell);
    }
}

/// Where the next block is.
enum Place {
    Block(FeedBlock),
    /// It has to be read from the file, which is hard up to here.
    InFile(Lsn),
    /// There is none yet.
    Nowhere,
    /// The feed has gone on behind a place at which the log was cut.
    CutOff,
}

impl Log {
    fn no_block_at(&self, lsn: Lsn) -> StorageError {
        StorageError::DamagedLog {
            path: self.state.lock().file.handle().path().clone(),
            lsn,
            what: "no block begins where a copy of the log goes on".into(),
        }
    }
}

impl LogState {
    /// The sealed block at a position, if it is in memory. An error when one that begins elsewhere lies there.
    fn sealed_at(&self, lsn: Lsn, hardened: Lsn) -> Result<Option<FeedBlock>> {
        let first = self.recent.front().or(self.sealed.front());
        if first.is_none_or(|first| lsn.0 < first.lsn) {
            return Ok(None);
        }
        let blocks = match self.sealed.front() {
            Some(unhard) if unhard.lsn <= lsn.0 => &self.sealed,
            _ => &self.recent,
        };
        let index = blocks.partition_point(|block| block.lsn < lsn.0);
        let Some(block) = blocks.get(index).filter(|block| block.lsn == lsn.0) else {
            return Err(StorageError::DamagedLog {
                path: self.file.handle().path().clone(),
                lsn,
                what: "no block begins where a copy of the log goes on".into(),
            });
        };
        Ok(Some(FeedBlock {
            lsn: block.lsn,
            used: super::block::used_bytes(&block.bytes),
            bytes: block.bytes.clone(),
            is_hard: block.lsn < hardened.0,
        }))
    }
}
