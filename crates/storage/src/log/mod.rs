//! Write-ahead log: orders changes and makes them durable before the pages they touch.
//!
//! Theory: records gather in the open block, are sealed into checksummed blocks of up to 60 KiB, and harden when the
//! block is synced. An [`Lsn`] is a byte position in the endless stream of blocks; blocks start at multiples of 4 KiB
//! so that no byte once hard is ever written again. The stream is laid over virtual log files (VLFs) of one
//! preallocated file, reused in a circle. The thread that first needs a position hard becomes the leader, writes and syncs
//! everything sealed so far, and wakes all who waited for it: one sync serves them all, and a lone committer pays no
//! thread switch.
//!
//! Invariants
//! 1. LSNs only grow; a sealed block never changes.
//! 2. No page is written while its page LSN is not hard (`buffer` asks [`Log::harden`] first).
//! 3. A VLF is reused only when all of it lies below the truncation point.
//! 4. After a failed write or sync the log is fenced for good: nothing is retried as if nothing had happened.
//! 5. Each record of new work leaves room for the rollback of all that is open, for a block of its own for the end of each open
//!    transaction, and for a checkpoint; what ends a transaction leaves the room of the checkpoint. A checkpoint takes it where it lets
//!    log go; any other is work. So a log that cannot grow is not stuck, as long as its file system writes in place what has its space.
//!
//! After a crash: the first bad block ends the log, unless a later block proves that the bad one had been hard, which
//! is corruption and stops the database.
//! Latches: page latch, then `growing`, then `state`, then the latch of `group`, which is taken last. The file grows outside of
//! `state`: a writer that finds room goes on meanwhile.
//! Read next: `record`, `file`, `docs/format.md`.

mod ahead;
pub(crate) mod block;
pub(crate) mod commit;
mod delayed;
mod describe;
mod feed;
mod file;
mod flush;
mod flusher;
mod follow;
mod group;
mod hold;
mod kept;
mod quorum;
mod reader;
pub mod rebuild;
pub mod record;
mod shown;
mod spare;

pub use block::RECORD_BYTES_MAX;
pub use delayed::{DelayedBound, DelayedStats, LogWriterSignal};
pub use describe::{LogLine, LogListing};
pub use feed::{Fed, FeedBlock, FeedLimit, LogFeed, NoFeed, inspect_unpadded};
pub use file::{
    FILE_MAGIC as LOG_MAGIC, FIRST_LSN, FORMAT_VERSION as LOG_FORMAT, NOTHING, OLDEST_PAGE, VlfInfo,
};
pub use flusher::LogFlusher;
pub use follow::BlockError;
pub use hold::{LogHold, Need};
pub use kept::LogMemory;
pub use reader::{Block, LogCursor, UndoReader};

use crate::api::LogStats;
use crate::error::{Result, StorageError};
use crate::meter::IoStats;
use crate::pause::pause;
use crate::planted::{Bug, planted};
use crate::sync::{Mutex, MutexGuard};
use ahead::Ahead;
use block::OpenBlock;
use daruma_base::memory::for_all;
use daruma_base::{Env, Lsn, WaitKind, WaitRegistry, reached};
use delayed::{DelayedCommits, DelayedState};
use feed::Feeds;
use file::{
    BLOCK_ROOM_BYTES, CHECKPOINT_RESERVE_BYTES, ENDINGS_RESERVE_BYTES, Extension, Left, LogFile,
    Placement, Room, Tried,
};
use flush::FlushCounters;
use group::Group;
use hold::Holds;
use quorum::Quorum;
use record::CHECKPOINT_PART_BYTES;
use spare::SpareBuffers;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Reserved for the end of a transaction: the block that it is in may be written before anything else comes into it.
pub(crate) const END_BYTES: u64 = block::BLOCK_ALIGN_BYTES as u64;

/// A sealed block on its way to disk or kept for readers.
#[derive(Clone)]
struct Sealed {
    lsn: u64,
    offset: u64,
    bytes: Arc<Vec<u8>>,
    delayed: DelayedCommits,
}

struct LogState {
    open: Option<OpenBlock>,
    /// LSN of the next block to open when none is open.
    next_block: u64,
    file: LogFile,
    sealed: VecDeque<Sealed>,
    sealed_bytes: usize,
    /// VLF headers to write before the sealed blocks.
    headers: Vec<(u64, Vec<u8>)>,
    recent: VecDeque<Sealed>,
    /// Memory that the recent blocks take.
    recent_bytes: usize,
    /// Where the log ended at the last look whether it rests, and when it was first seen to end there.
    seen: (u64, Duration),
    spare: SpareBuffers,
    memory: LogMemory,
    /// Bytes from the start of the open block to the end of its VLF and in VLFs that are free, or fewer.
    open_room: u64,
    /// Log bytes that active transactions may need for their rollbacks and ends.
    undo_reserved: u64,
    /// Log bytes that the next checkpoint may need.
    checkpoint_bytes: u64,
    /// The same, as far as there was room for it when the log was last cut: a reserve that is not there would be in the way of what ends
    /// transactions.
    checkpoint_reserved: u64,
    /// Log bytes for which a checkpoint has the file grow: work leaves them, what ends transactions does not wait for them.
    checkpoint_claimed: u64,
    /// Delayed commits in the open block.
    delayed: DelayedCommits,
    last_commit: CommitPoint,
    /// Commits that are not hard and wait to be, in the order of the log.
    awaited: VecDeque<Lsn>,
    feeds: Arc<Feeds>,
    /// Times the tail was cut, and where the last time.
    cuts: u64,
    cut_at: u64,
    /// It is to be a copy no longer: no more blocks are taken.
    refuses_blocks: bool,
    /// It begins with the next record. No block is open then.
    awaited_epoch: Option<Arc<dyn EpochToBegin>>,
}

/// An epoch of which the log has no record yet. Called under the log's latch.
pub trait EpochToBegin: Send + Sync {
    /// The record that says that it begins at `start`.
    fn record(&self, start: Lsn) -> Vec<u8>;
    /// The log has that record: the history is to have the epoch.
    fn has_begun(&self, start: Lsn);
}

/// The newest commit record: its position and time (100 ns since 1970). Zeros when there was none yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitPoint {
    pub lsn: Lsn,
    pub utc_100ns: i64,
}

/// The log of one database: the open block, sealed ones on their way to disk, and the file.
pub struct Log {
    state: Mutex<LogState>,
    /// Held while the file grows or shrinks.
    growing: Mutex<()>,
    group: Group,
    quorum: Quorum,
    ahead: Ahead,
    hardened: AtomicU64,
    shown: Arc<AtomicU64>,
    fence: Fence,
    tight: AtomicBool,
    /// Bytes of versions that may wait for pages, of which the log must have images first.
    versions_max: AtomicU64,
    /// False for tempdb: nothing has to survive.
    durable: bool,
    counters: FlushCounters,
    holds: Arc<Holds>,
    feeds: Arc<Feeds>,
    /// It takes the blocks of another node, and nothing else.
    is_copy: AtomicBool,
    delayed: DelayedState,
    /// Moving average of the time a write and sync take.
    sync_ns_average: AtomicU64,
    signal: Arc<LogWriterSignal>,
    flusher: Arc<LogFlusher>,
    me: Weak<Log>,
    env: Env,
    waits: Arc<WaitRegistry>,
}

/// Whether anything may still be logged, or read of what the log describes. In a cache line of its own: every access to a
/// page looks at it.
#[derive(Default)]
#[repr(align(64))]
struct Fence {
    is_up: AtomicBool,
    /// Put up by whoever closed the database, not by a failure.
    is_closed: AtomicBool,
}

/// State that the logs of all databases of a server share.
#[derive(Clone, Default)]
pub struct LogShared {
    pub waits: Arc<WaitRegistry>,
    pub signal: Arc<LogWriterSignal>,
    pub flusher: Arc<LogFlusher>,
    pub memory: LogMemory,
}

/// Purpose of an append: decides whether it may use the space reserved for rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendKind {
    /// New work: leaves the reserve alone and adds to it what its own undo may need.
    Forward,
    /// As `Forward`, and the first record of its transaction: adds what its end may need besides.
    First,
    /// Needs no undo but is new work all the same (system operations).
    System,
    /// Rollback, commit, versions that pages wait for: may use the reserve.
    Completion,
    /// May use what others leave for it: where the log is full, the record of a checkpoint is what makes room.
    Checkpoint,
}

impl AppendKind {
    fn is_work(self) -> bool {
        match self {
            AppendKind::Forward | AppendKind::First | AppendKind::System => true,
            AppendKind::Completion | AppendKind::Checkpoint => false,
        }
    }

    /// Bytes that such a record of `record_bytes` adds to the reserve: its undo takes up to twice as much as it and a header, and the
    /// end of a transaction, which nobody may share, a padded block.
    pub fn reserves(self, record_bytes: usize) -> u64 {
        let undo = 2 * record_bytes as u64 + 64;
        match self {
            AppendKind::First => undo + END_BYTES,
            AppendKind::Forward => undo,
            AppendKind::System | AppendKind::Completion | AppendKind::Checkpoint => 0,
        }
    }
}

impl Log {
    fn new(
        file: LogFile,
        next_block: u64,
        durable: bool,
        env: Env,
        shared: &LogShared,
    ) -> Arc<Log> {
        let feeds = Arc::<Feeds>::default();
        Arc::new_cyclic(|me| Log {
            state: Mutex::new(LogState {
                open: None,
                next_block,
                file,
                sealed: VecDeque::new(),
                sealed_bytes: 0,
                headers: Vec::new(),
                recent: VecDeque::new(),
                recent_bytes: 0,
                seen: (0, Duration::ZERO),
                memory: shared.memory,
                spare: SpareBuffers::default(),
                open_room: 0,
                undo_reserved: 0,
                checkpoint_bytes: CHECKPOINT_RESERVE_BYTES,
                checkpoint_reserved: 0,
                checkpoint_claimed: 0,
                delayed: DelayedCommits::default(),
                last_commit: CommitPoint::default(),
                awaited: VecDeque::new(),
                feeds: feeds.clone(),
                cuts: 0,
                cut_at: u64::MAX,
                refuses_blocks: false,
                awaited_epoch: None,
            }),
            growing: Mutex::default(),
            delayed: DelayedState::new(),
            sync_ns_average: AtomicU64::new(0),
            signal: shared.signal.clone(),
            flusher: shared.flusher.clone(),
            me: me.clone(),
            group: Group::default(),
            quorum: Quorum::default(),
            ahead: Ahead::default(),
            hardened: AtomicU64::new(next_block),
            shown: Arc::new(AtomicU64::new(file::FIRST_LSN)),
            fence: Fence::default(),
            tight: AtomicBool::new(false),
            versions_max: AtomicU64::new(u64::MAX),
            durable,
            counters: FlushCounters::default(),
            holds: Arc::default(),
            feeds,
            is_copy: AtomicBool::new(false),
            env,
            waits: shared.waits.clone(),
        })
    }

    /// Creates the log file and starts the stream.
    pub fn create(
        spec: &crate::FileSpec,
        guid: u64,
        durable: bool,
        env: &Env,
        shared: &LogShared,
    ) -> Result<Arc<Log>> {
        let file = LogFile::create(spec, guid, env, durable)?;
        let log = Log::new(file, file::FIRST_LSN, durable, env.clone(), shared);
        log.reserve_room();
        Ok(log)
    }

    /// Opens the log file for recovery: read it with [`Log::cursor`], then say where it ends with [`Log::resume`].
    pub fn open(
        spec: &crate::FileSpec,
        guid: u64,
        env: &Env,
        shared: &LogShared,
    ) -> Result<Arc<Log>> {
        let file = LogFile::open(spec, guid, env)?;
        Ok(Log::new(file, u64::MAX, true, env.clone(), shared))
    }

    /// Blocks from `start` (a block boundary) on.
    pub fn cursor(&self, start: Lsn) -> Result<LogCursor> {
        let state = self.state.lock();
        LogCursor::new(state.file.reader(), start, !self.is_copy())
    }

    /// Before recovery relies on it: writes the blocks from `from` (a block boundary) on once more, as they are, and syncs them.
    /// A sync that failed may have dropped writes which reads go on to show, and that a later sync passes over.
    pub fn write_again(&self, from: Lsn, end: Lsn) -> Result<()> {
        let map = self.state.lock().file.reader();
        let handle = map.handle.clone();
        let mut cursor = self.cursor(from)?;
        while let Some(block) = cursor.next_before(end)? {
            if let Some((offset, _, _)) = map.locate(block.lsn.0) {
                handle.write(&block.bytes, offset)?;
            }
        }
        let _alone = handle.alone();
        handle.sync()
    }

    /// Continues the stream after the last good block, keeping everything from `keep_from` on. A log that was a copy is one no
    /// longer: what lies behind its end, and says what was hard elsewhere, is taken away before anybody believes it.
    pub fn resume(&self, end: Lsn, keep_from: Lsn) -> Result<()> {
        let mut state = self.state.lock();
        assert!(
            state.sealed.is_empty() && (state.next_block == u64::MAX || state.next_block == end.0),
            "the log ends at {}, not at {end}",
            state.next_block
        );
        if self.is_copy() {
            state.file.cut_at(end.0)?;
        }
        self.is_copy.store(false, Ordering::Release);
        state.next_block = state.file.resume(end.0, keep_from.0)?;
        self.hardened.store(state.next_block, Ordering::Release);
        self.shown.store(state.next_block, Ordering::Release);
        Ok(())
    }

    /// From here on work leaves room for a checkpoint, as far as there is any. Until recovery is over, what it rolls back may take it.
    pub fn reserve_room(&self) {
        self.state.lock().reserve_for_checkpoint();
    }

    /// The next record that is appended, whatever it is, comes behind the one that begins this epoch. Until then nothing is logged:
    /// servers that start again and again with nothing to log take nothing of a full log.
    pub fn await_epoch(&self, epoch: Option<Arc<dyn EpochToBegin>>) {
        let mut state = self.state.lock();
        assert!(state.open.is_none(), "an epoch begins with a block");
        state.awaited_epoch = epoch;
    }

    /// Begins the epoch that was to wait for the first record.
    pub fn begin_awaited_epoch(&self) -> Result<()> {
        self.check()?;
        let append = |state: &mut LogState, hardened, tried: &mut Tried| {
            let grow = state.begin_awaited(AppendKind::System, hardened, tried)?;
            Ok(grow.unwrap_or(Appended::At(0)))
        };
        self.append_with(self.state.lock(), append).1.map(|_| ())
    }

    /// Position below which no record will be appended any more: start of the block now open.
    pub fn block_start(&self) -> Lsn {
        let state = self.state.lock();
        Lsn(state.open.as_ref().map_or(state.next_block, |o| o.lsn()))
    }

    /// End of the log in memory.
    pub fn end(&self) -> Lsn {
        let state = self.state.lock();
        Lsn(state.end())
    }

    /// Everything below is on disk here.
    pub fn hardened(&self) -> Lsn {
        Lsn(self.hardened.load(Ordering::Acquire))
    }

    /// Is the record at `lsn` on disk here and on every commit participant, if it has to be at all?
    pub fn is_hard(&self, lsn: Lsn) -> bool {
        !self.durable || self.quorum() > lsn
    }

    /// Has a write or sync failed? Nothing is written any more then.
    pub fn is_fenced(&self) -> bool {
        self.fence.is_up.load(Ordering::Acquire)
    }

    /// Refuses all that must not happen to a database any more whose log has failed, or which is closed: what is in memory
    /// may never have been logged.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.is_fenced() {
            false => Ok(()),
            true => Err(self.fenced_error()),
        }
    }

    /// Appends a record and returns its position. The record is hard only after [`Log::harden`].
    pub fn append(&self, record: &[u8], kind: AppendKind) -> Result<Lsn> {
        self.append_then(record, kind, || {})
    }

    /// As `append`; `appended` runs before anything can be appended behind the record.
    pub fn append_then(
        &self,
        record: &[u8],
        kind: AppendKind,
        appended: impl FnOnce(),
    ) -> Result<Lsn> {
        assert!(
            record.len() <= RECORD_BYTES_MAX,
            "record of {} bytes",
            record.len()
        );
        self.check()?;
        let mut state = self.state.lock();
        if state.has_backlog() {
            drop(state);
            self.relieve()?;
            state = self.state.lock();
        }
        let block = state.next_block;
        let (state, result) = self.append_to(state, record, kind);
        if result.is_ok() {
            appended();
        }
        // Looked at once a block, for it costs a walk over the VLFs.
        if state.next_block != block || state.is_block_new() || result.is_err() {
            self.ahead.sealed_to(state.next_block);
            self.tight.store(state.is_tight(), Ordering::Relaxed);
            let versions_max = state.file.versions_max();
            self.versions_max.store(versions_max, Ordering::Relaxed);
        }
        result
    }

    /// Appends the records of one checkpoint; the position of the last. Where there is no room for all of them, none is appended. `freed`:
    /// bytes of log that the checkpoint is to let go, which it may take from rollbacks meanwhile.
    pub fn append_checkpoint(
        &self,
        parts: &[Vec<u8>],
        kind: AppendKind,
        freed: u64,
    ) -> Result<Lsn> {
        let appended = self.append_parts(parts, kind, freed);
        if appended.is_err() {
            self.state.lock().reserve_for_checkpoint();
        }
        appended
    }

    fn append_parts(&self, parts: &[Vec<u8>], kind: AppendKind, freed: u64) -> Result<Lsn> {
        let blocks = parts
            .iter()
            .map(|part| block::padded_bytes(block::BLOCK_HEADER_BYTES + part.len()) as u64);
        let bytes: u64 = blocks.sum();
        let is_large = bytes > (CHECKPOINT_PART_BYTES / 2) as u64;
        // The next one may have a part more. It is reserved when the log is cut, which makes room for it.
        self.state.lock().checkpoint_bytes = match is_large {
            true => room_for_parts(bytes + BLOCK_ROOM_BYTES),
            false => CHECKPOINT_RESERVE_BYTES,
        };
        if parts.len() > 1 {
            let claimed = self.claim_for_checkpoint(room_for_parts(bytes), kind, freed);
            self.state.lock().checkpoint_claimed = 0;
            claimed?;
        }
        let mut lsn = Lsn::NONE;
        for part in parts {
            lsn = self.append(part, kind)?;
            if kind == AppendKind::Checkpoint {
                // What it has taken is in nobody's way any more.
                let reserved = &mut self.state.lock().checkpoint_reserved;
                *reserved = reserved.saturating_sub(BLOCK_ROOM_BYTES);
            }
        }
        Ok(lsn)
    }

    /// Sees to it that there is so much room besides what it has to leave. Others leave it to a checkpoint that makes room.
    fn claim_for_checkpoint(&self, room: u64, kind: AppendKind, freed: u64) -> Result<()> {
        let mut tried = Tried::default();
        loop {
            let (step, seen) = {
                let mut state = self.state.lock();
                let left = match kind {
                    AppendKind::Checkpoint => {
                        // No work takes what the file grows by meanwhile.
                        state.checkpoint_claimed = room;
                        Left::ByEndings(state.undo_reserved.saturating_sub(freed))
                    }
                    _ => Left::ByWork(state.reserved() + ENDINGS_RESERVE_BYTES),
                };
                let there = state.file.room(state.end());
                match state.file.claim(there, room, room, left, &mut tried)? {
                    Some(Room::Grow { step, seen }) => (step, seen),
                    _ => {
                        if kind == AppendKind::Checkpoint {
                            state.checkpoint_reserved = state.checkpoint_reserved.max(room);
                        }
                        return Ok(());
                    }
                }
            };
            match self.grow(|file| file.by(step, seen)) {
                // One step may be less than it takes.
                Ok(_) => tried = Tried::default(),
                Err(error) => tried.failure = Some(error),
            }
        }
    }

    /// Appends under the latch, which is let go of while the file grows for it.
    fn append_to<'a>(
        &'a self,
        state: MutexGuard<'a, LogState>,
        record: &[u8],
        kind: AppendKind,
    ) -> (MutexGuard<'a, LogState>, Result<Lsn>) {
        let append = |state: &mut LogState, hardened, tried: &mut Tried| match state
            .begin_awaited(kind, hardened, tried)?
        {
            Some(grow) => Ok(grow),
            None => state.append(record, kind, hardened, tried),
        };
        self.append_with(state, append)
    }

    /// Appends as `append` does, which may ask for growth several times.
    fn append_with<'a>(
        &'a self,
        mut state: MutexGuard<'a, LogState>,
        append: impl Fn(&mut LogState, u64, &mut Tried) -> Result<Appended>,
    ) -> (MutexGuard<'a, LogState>, Result<Lsn>) {
        let mut tried = Tried::default();
        if self.is_copy() {
            return (state, Err(StorageError::NotOnline { state: "a copy" }));
        }
        loop {
            let hardened = self.hardened().0;
            match for_all(|| append(&mut state, hardened, &mut tried)) {
                Ok(Appended::At(lsn)) => return (state, Ok(Lsn(lsn))),
                Err(error) => return (state, Err(error)),
                Ok(Appended::Grow { step, seen }) => {
                    drop(state);
                    tried.failure = self.grow(|file| file.by(step, seen)).err();
                    state = self.state.lock();
                }
            }
        }
    }

    /// Grows the file as planned; false when nothing was planned. Commits go on while the space is written.
    fn grow(&self, plan: impl FnOnce(&mut LogFile) -> Option<Extension>) -> Result<bool> {
        let _one_at_a_time = self.growing.lock();
        let Some(extension) = plan(&mut self.state.lock().file) else {
            return Ok(false);
        };
        pause("log.growing");
        let written = extension.write(self.durable);
        let mut state = self.state.lock();
        state.file.adopt(extension, written).map(|()| true)
    }

    /// More bytes of versions than this should not wait for pages.
    pub fn versions_max(&self) -> u64 {
        self.versions_max.load(Ordering::Relaxed)
    }

    /// Is so little room left that a checkpoint should come before more work?
    pub fn is_tight(&self) -> bool {
        self.tight.load(Ordering::Relaxed)
    }

    /// Will the file have to grow for what is logged next?
    pub fn is_used_up(&self) -> bool {
        let state = self.state.lock();
        state.file.is_used_up(state.end(), state.reserved())
    }

    /// Grows the file by one step if it is smaller than `wanted` and may grow. True when there is room again.
    pub fn grow_towards(&self, wanted: u64) -> bool {
        let has_grown = self.durable && self.grow(|file| file.towards(wanted)).unwrap_or(false);
        let state = self.state.lock();
        let is_tight = state.is_tight();
        self.tight.store(is_tight, Ordering::Relaxed);
        has_grown && !is_tight
    }

    /// Position and time of the last commit record.
    pub fn last_commit(&self) -> CommitPoint {
        self.state.lock().last_commit
    }

    /// Takes over what recovery found.
    pub fn set_last_commit(&self, commit: CommitPoint) {
        self.state.lock().last_commit = commit;
    }

    fn relieve(&self) -> Result<()> {
        reached!("log.backlog");
        let start = self.env.clock.monotonic();
        let result = self.harden_all_here();
        self.waits.record(
            WaitKind::LogBuffer,
            self.env.clock.monotonic().saturating_sub(start),
        );
        result
    }

    /// Gives back what a finished transaction had reserved for its rollback.
    pub fn release_undo(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.undo_reserved = state.undo_reserved.saturating_sub(bytes);
    }

    /// Frees VLFs that lie wholly below every need and every hold. The needs stay until they are told anew.
    pub fn cut(&self, needs: &[Need]) {
        let mut state = self.state.lock();
        self.holds.break_beyond(Lsn(state.end()));
        if let Some(lowest) = self.lowest(needs) {
            state.file.truncate(lowest);
        }
        state.reserve_for_checkpoint();
        self.tight.store(state.is_tight(), Ordering::Relaxed);
    }

    /// Bytes that a cut with these needs would free.
    pub fn would_free(&self, needs: &[Need]) -> u64 {
        let state = self.state.lock();
        let lowest = self.lowest(needs);
        lowest.map_or(0, |lowest| state.file.would_free(lowest.from))
    }

    fn lowest(&self, needs: &[Need]) -> Option<Need> {
        let needs = needs.iter().copied().chain(self.holds.lowest());
        needs.min_by_key(|n| n.from)
    }

    /// Keeps the log from `from` on until the guard is dropped; `None` when it is gone already. `reason` is told in
    /// `log_reuse_wait_desc` while this hold is what keeps the log.
    pub fn hold(&self, from: Lsn, reason: &'static str) -> Option<LogHold> {
        let state = self.state.lock();
        (from.0 >= state.file.min_lsn()).then(|| self.holds.take(from, reason))
    }

    /// The virtual log files in the order of the file.
    pub fn vlfs(&self) -> Vec<VlfInfo> {
        self.state.lock().file.vlfs()
    }

    /// Makes the file at least so large and sets how it may grow from here.
    pub fn modify(&self, pages: u64, growth: crate::Growth, max: Option<u64>) -> Result<()> {
        self.grow(|file| file.modify(pages, growth, max))
            .map(|_| ())
    }

    /// Reads and writes of the log file.
    pub fn io_stats(&self) -> IoStats {
        self.state.lock().file.handle().io_stats()
    }

    /// Shortens the file to `bytes`, as far as what is at its end is not needed; false when that was not all.
    pub fn shrink_to(&self, bytes: u64) -> Result<bool> {
        let _no_growth = self.growing.lock();
        let result = {
            let mut state = self.state.lock();
            state.open_room = 0;
            state.file.shrink_to(bytes)
        };
        if let Err(error) = &result {
            self.fence(&error.to_string());
        }
        result
    }

    /// Nothing will be written any more: others may open the file.
    pub fn release(&self) {
        let _no_growth = self.growing.lock();
        self.state.lock().file.release();
    }

    /// Size of the file.
    pub fn size_bytes(&self) -> u64 {
        self.state.lock().file.size_bytes()
    }

    /// Bytes of virtual log files in use.
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().file.used_bytes()
    }

    /// The lowest position that anybody needed when the log was last cut.
    pub fn lowest_needed(&self) -> Lsn {
        Lsn(self.state.lock().file.lowest_needed())
    }

    /// Oldest position that is still in the file.
    pub fn min_lsn(&self) -> Lsn {
        Lsn(self.state.lock().file.min_lsn())
    }

    /// Everything but what the checkpoint knows.
    pub fn stats(&self) -> LogStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let hardened_lsn = self.hardened();
        let state = self.state.lock();
        LogStats {
            size_bytes: state.file.size_bytes(),
            used_bytes: state.end().saturating_sub(state.file.lowest_needed()),
            active_bytes: state.file.used_bytes(),
            min_lsn: Lsn(state.file.lowest_needed()),
            end_lsn: Lsn(state.end()),
            hardened_lsn,
            checkpoint_lsn: Lsn::NONE,
            recovery_lsn: Lsn::NONE,
            flushes: count(&self.counters.flushes),
            flushed_bytes: count(&self.counters.bytes),
            flush_write_ns: count(&self.counters.write_ns),
            commit_waits: count(&self.counters.commit_waits),
            commit_wait_ns: count(&self.counters.commit_wait_ns),
            growths: state.file.growths(),
            truncations: state.file.truncations(),
            reuse_wait: state.file.reuse_wait(),
        }
    }

    /// Bytes of the record at `lsn`, from memory if it is still there.
    fn record_in_memory(&self, lsn: Lsn) -> Option<Vec<u8>> {
        let state = self.state.lock();
        if let Some(open) = &state.open
            && lsn.0 >= open.lsn()
        {
            return block::record_at(open.bytes(), (lsn.0 - open.lsn()) as usize)
                .map(<[u8]>::to_vec);
        }
        let find = |blocks: &VecDeque<Sealed>| {
            let index = blocks.partition_point(|b| b.lsn <= lsn.0).checked_sub(1)?;
            let block = blocks.get(index)?;
            block::record_at(&block.bytes, (lsn.0 - block.lsn) as usize).map(<[u8]>::to_vec)
        };
        find(&state.sealed).or_else(|| find(&state.recent))
    }
}

/// Room that is enough for blocks of so many bytes, of which one may find the rest of each VLF too small.
fn room_for_parts(bytes: u64) -> u64 {
    let vlfs_left = 1 + bytes / (file::VLF_BYTES_MIN - BLOCK_ROOM_BYTES);
    bytes + vlfs_left * BLOCK_ROOM_BYTES
}

/// Result of appending a record.
enum Appended {
    At(u64),
    /// The file is to grow first.
    Grow {
        step: u64,
        seen: u64,
    },
}

impl LogState {
    /// Does the open block hold no more than one record?
    fn is_block_new(&self) -> bool {
        let first = block::BLOCK_HEADER_BYTES;
        self.open.as_ref().is_some_and(|o| {
            block::record_at(o.bytes(), first).is_some_and(|r| first + r.len() == o.len())
        })
    }

    fn is_tight(&self) -> bool {
        self.file.is_tight(self.end(), self.reserved())
    }

    fn reserve_for_checkpoint(&mut self) {
        let room = self.file.room(self.end());
        let besides = room.saturating_sub(self.undo_reserved);
        // A small file is not kept free for what it once had to take.
        let share = (self.file.size_bytes() / 8).max(CHECKPOINT_RESERVE_BYTES);
        let wanted = self.checkpoint_bytes.min(share);
        let beside_ends = besides.saturating_sub(ENDINGS_RESERVE_BYTES);
        // What a small one needs stays reserved when ends have taken their part.
        let least = CHECKPOINT_RESERVE_BYTES.min(besides);
        self.checkpoint_reserved = wanted.min(beside_ends).max(least);
    }

    /// Left by new work, besides what is the same always.
    fn reserved(&self) -> u64 {
        self.undo_reserved + self.checkpoint_reserved.max(self.checkpoint_claimed)
    }

    fn end(&self) -> u64 {
        self.open
            .as_ref()
            .map_or(self.next_block, |o| o.lsn() + o.len() as u64)
    }

    /// Begins the epoch that waits for the first record, which is of this kind: it leaves and may use what that does. The history has it
    /// before anybody can seal the block that it is in. `Some`: the file is to grow first.
    fn begin_awaited(
        &mut self,
        kind: AppendKind,
        hardened: u64,
        tried: &mut Tried,
    ) -> Result<Option<Appended>> {
        let Some(epoch) = self.awaited_epoch.clone() else {
            return Ok(None);
        };
        let start = Lsn(self.next_block);
        let kind = if kind.is_work() {
            AppendKind::System
        } else {
            kind
        };
        let appended = self.append(&epoch.record(start), kind, hardened, tried)?;
        if matches!(appended, Appended::Grow { .. }) {
            return Ok(Some(appended));
        }
        epoch.has_begun(start);
        self.awaited_epoch = None;
        *tried = Tried::default();
        Ok(None)
    }

    fn append(
        &mut self,
        record: &[u8],
        kind: AppendKind,
        hardened: u64,
        tried: &mut Tried,
    ) -> Result<Appended> {
        if self.open.as_ref().is_some_and(|o| !o.fits(record.len())) {
            self.seal(hardened);
        }
        let reserves = kind.reserves(record.len());
        let left = match kind {
            AppendKind::Forward | AppendKind::First | AppendKind::System
                if planted(Bug::LeaveNoRoom) =>
            {
                Left::ByWork(0)
            }
            AppendKind::Forward | AppendKind::First | AppendKind::System => {
                Left::ByWork(self.reserved() + reserves + ENDINGS_RESERVE_BYTES)
            }
            AppendKind::Completion => Left::ByEndings(self.checkpoint_reserved),
            AppendKind::Checkpoint => Left::ByEndings(0),
        };
        let grow = match self.open {
            None => self.open_block(record.len(), left, tried)?,
            Some(_) => self.claim_in_open(record.len(), left, tried)?,
        };
        if let Some(grow) = grow {
            return Ok(grow);
        }
        self.undo_reserved += reserves;
        let Some(open) = &mut self.open else {
            unreachable!("a block was just opened")
        };
        Ok(Appended::At(open.push(record)))
    }

    fn open_block(
        &mut self,
        record_bytes: usize,
        left: Left,
        tried: &mut Tried,
    ) -> Result<Option<Appended>> {
        let need = block::padded_bytes(block::BLOCK_HEADER_BYTES + record_bytes) as u64;
        let placed = self.file.place(self.next_block, need, left, tried)?;
        let Placement {
            offset,
            here,
            room,
            header,
        } = match placed {
            Room::Found(placement) => placement,
            Room::Grow { step, seen } => return Ok(Some(Appended::Grow { step, seen })),
        };
        self.headers.extend(header);
        let bytes = self.spare.take();
        self.open = Some(OpenBlock::new(self.next_block, offset, bytes).within(here));
        self.open_room = room;
        Ok(None)
    }

    /// A record in the block that is open leaves as much to others as one that opens a block. The room is counted anew only where
    /// what was counted before does not do.
    fn claim_in_open(
        &mut self,
        record_bytes: usize,
        left: Left,
        tried: &mut Tried,
    ) -> Result<Option<Appended>> {
        let Some(open) = &self.open else {
            return Ok(None);
        };
        let need = block::padded_bytes(open.len() + record_bytes) as u64;
        if self.open_room >= left.bytes() + need {
            return Ok(None);
        }
        self.open_room = self.file.room(open.lsn());
        match self.file.claim(self.open_room, need, need, left, tried)? {
            Some(Room::Grow { step, seen }) => Ok(Some(Appended::Grow { step, seen })),
            _ => Ok(None),
        }
    }

    /// Closes the open block: pads, checksums and queues it.
    fn seal(&mut self, hardened: u64) {
        let Some(open) = self.open.take() else { return };
        let (lsn, offset) = (open.lsn(), open.offset());
        let bytes = Arc::new(open.seal(self.file.incarnation(), hardened));
        self.next_block = lsn + bytes.len() as u64;
        self.file.advance(self.next_block);
        self.sealed_bytes += bytes.len();
        self.sealed.push_back(Sealed {
            lsn,
            offset,
            bytes,
            delayed: std::mem::take(&mut self.delayed),
        });
        // Before the block is written here: copies elsewhere are made meanwhile.
        self.feeds.ring();
    }

    /// Time of the oldest delayed commit that is not hard, 0 without one.
    fn oldest_delayed_ns(&self) -> u64 {
        let blocks = self.sealed.iter().map(|b| &b.delayed);
        blocks
            .chain([&self.delayed])
            .find(|d| d.count > 0)
            .map_or(0, |d| d.since_ns.max(1))
    }
}
