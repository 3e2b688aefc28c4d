//! Write-ahead log: orders changes and makes them durable before the pages they touch.
//!
//! Theory: records gather in the open block, are sealed into checksummed blocks of up to 60 KiB, and harden when the
//! block is synced. An [`Lsn`] is a byte position in the endless stream of blocks; blocks start at multiples of 4 KiB
//! so that no byte once hard is ever written again. The stream is laid over virtual log files (VLFs) of one
//! preallocated file, reused in a circle. Whoever needs a position hard first becomes the leader, writes and syncs
//! everything sealed so far, and wakes all who waited for it: one sync serves them all, and a lone committer pays no
//! thread switch.
//!
//! Invariants
//! 1. LSNs only grow; a sealed block never changes.
//! 2. No page is written while its page LSN is not hard (`buffer` asks [`Log::harden`] first).
//! 3. A VLF is reused only when all of it lies below the truncation point.
//! 4. After a failed write or sync the log is fenced for good: nothing is retried as if nothing had happened.
//!
//! After a crash: the first bad block ends the log, unless a later block proves that the bad one had been hard, which
//! is corruption and stops the database.
//! Latches: page latch, then `state`; `flush` is never taken while `state` is held.
//! Read next: `record`, `file`, `docs/format.md`.

mod block;
mod file;
mod reader;
pub mod record;

pub use block::RECORD_BYTES_MAX;
pub use file::VlfInfo;
pub use reader::{LogCursor, UndoReader};

use crate::error::{Result, StorageError};
use block::OpenBlock;
use daruma_base::{Env, Lsn, WaitKind, WaitRegistry};
use file::{LogFile, Placement};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Sealed and not yet hard: beyond this, appenders flush before they go on.
const BACKLOG_BYTES_MAX: usize = 16 << 20;
/// Hard blocks kept in memory for rollback.
const RECENT_BYTES_MAX: usize = 8 << 20;

/// A sealed block on its way to disk or kept for readers.
#[derive(Clone)]
struct Sealed {
    lsn: u64,
    offset: u64,
    bytes: Arc<Vec<u8>>,
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
    recent_bytes: usize,
    /// Log bytes that rollbacks of active transactions may need.
    undo_reserved: u64,
}

#[derive(Default)]
struct FlushState {
    leader: bool,
    failed: Option<String>,
}

pub struct Log {
    state: Mutex<LogState>,
    flush: Mutex<FlushState>,
    flushed: Condvar,
    hardened: AtomicU64,
    fenced: AtomicBool,
    /// False for tempdb: nothing has to survive.
    durable: bool,
    flushes: AtomicU64,
    flushed_bytes: AtomicU64,
    env: Env,
    waits: Arc<WaitRegistry>,
}

/// What an append is for: decides whether it may use the space reserved for rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendKind {
    /// New work: leaves the reserve alone and adds to it what its own undo may need.
    Forward,
    /// Needs no undo but is new work all the same (system operations).
    System,
    /// Rollback, commit, checkpoint: may use the reserve.
    Completion,
}

impl Log {
    fn new(
        file: LogFile,
        next_block: u64,
        durable: bool,
        env: Env,
        waits: Arc<WaitRegistry>,
    ) -> Log {
        Log {
            state: Mutex::new(LogState {
                open: None,
                next_block,
                file,
                sealed: VecDeque::new(),
                sealed_bytes: 0,
                headers: Vec::new(),
                recent: VecDeque::new(),
                recent_bytes: 0,
                undo_reserved: 0,
            }),
            flush: Mutex::default(),
            flushed: Condvar::new(),
            hardened: AtomicU64::new(next_block),
            fenced: AtomicBool::new(false),
            durable,
            flushes: AtomicU64::new(0),
            flushed_bytes: AtomicU64::new(0),
            env,
            waits,
        }
    }

    /// Creates the log file and starts the stream.
    pub fn create(
        spec: &crate::FileSpec,
        guid: u64,
        durable: bool,
        env: &Env,
        waits: &Arc<WaitRegistry>,
    ) -> Result<Log> {
        let file = LogFile::create(spec, guid, env, durable)?;
        Ok(Log::new(
            file,
            file::FIRST_LSN,
            durable,
            env.clone(),
            waits.clone(),
        ))
    }

    /// Opens the log file for recovery: read it with [`Log::cursor`], then say where it ends with [`Log::resume`].
    pub fn open(
        spec: &crate::FileSpec,
        guid: u64,
        env: &Env,
        waits: &Arc<WaitRegistry>,
    ) -> Result<Log> {
        let file = LogFile::open(spec, guid, env)?;
        Ok(Log::new(file, u64::MAX, true, env.clone(), waits.clone()))
    }

    /// Blocks from `start` (a block boundary) on.
    pub fn cursor(&self, start: Lsn) -> Result<LogCursor> {
        let state = self.state.lock();
        LogCursor::new(state.file.reader(), start)
    }

    /// Continues the stream after the last good block, keeping everything from `keep_from` on.
    pub fn resume(&self, end: Lsn, keep_from: Lsn) -> Result<()> {
        let mut state = self.state.lock();
        state.next_block = state.file.resume(end.0, keep_from.0)?;
        self.hardened.store(state.next_block, Ordering::Release);
        Ok(())
    }

    /// Position below which no record will be appended any more: start of the block now open.
    pub fn block_start(&self) -> Lsn {
        let state = self.state.lock();
        Lsn(state.open.as_ref().map_or(state.next_block, |o| o.lsn()))
    }

    /// End of the log in memory.
    pub fn end(&self) -> Lsn {
        let state = self.state.lock();
        Lsn(state
            .open
            .as_ref()
            .map_or(state.next_block, |o| o.lsn() + o.len() as u64))
    }

    pub fn hardened(&self) -> Lsn {
        Lsn(self.hardened.load(Ordering::Acquire))
    }

    pub fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Acquire)
    }

    /// Stops all further logging. The first cause stays.
    pub fn fence(&self, cause: &str) {
        self.fenced.store(true, Ordering::Release);
        let mut flush = self.flush.lock();
        flush.failed.get_or_insert_with(|| cause.to_string());
        self.flushed.notify_all();
    }

    fn fenced_error(&self) -> StorageError {
        let cause = self
            .flush
            .lock()
            .failed
            .clone()
            .unwrap_or_else(|| "log failure".into());
        StorageError::Fenced { cause }
    }

    /// Appends a record and returns its position. The record is hard only after [`Log::harden`].
    pub fn append(&self, record: &[u8], kind: AppendKind) -> Result<Lsn> {
        assert!(
            record.len() <= RECORD_BYTES_MAX,
            "record of {} bytes",
            record.len()
        );
        if self.is_fenced() {
            return Err(self.fenced_error());
        }
        let mut state = self.state.lock();
        if state.sealed_bytes > BACKLOG_BYTES_MAX {
            drop(state);
            self.relieve()?;
            state = self.state.lock();
        }
        let lsn = state.append(record, kind, self.hardened().0)?;
        Ok(Lsn(lsn))
    }

    fn relieve(&self) -> Result<()> {
        let start = self.env.clock.monotonic();
        let result = self.harden_all();
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

    /// Returns once everything up to and including the record at `lsn` is on disk.
    pub fn harden(&self, lsn: Lsn) -> Result<()> {
        if self.hardened() > lsn {
            return Ok(());
        }
        let start = self.env.clock.monotonic();
        let result = self.harden_slow(lsn);
        self.waits.record(
            WaitKind::WriteLog,
            self.env.clock.monotonic().saturating_sub(start),
        );
        result
    }

    /// Hardens everything appended so far.
    pub fn harden_all(&self) -> Result<()> {
        let end = self.end();
        if self.hardened() >= end {
            Ok(())
        } else {
            self.harden_slow(Lsn(end.0 - 1))
        }
    }

    fn harden_slow(&self, lsn: Lsn) -> Result<()> {
        let mut flush = self.flush.lock();
        loop {
            if self.hardened() > lsn {
                return Ok(());
            }
            if let Some(cause) = &flush.failed {
                return Err(StorageError::Fenced {
                    cause: cause.clone(),
                });
            }
            if flush.leader {
                self.flushed.wait(&mut flush);
                continue;
            }
            flush.leader = true;
            drop(flush);
            let result = self.write_sealed();
            flush = self.flush.lock();
            flush.leader = false;
            if let Err(error) = result {
                self.fenced.store(true, Ordering::Release);
                flush.failed.get_or_insert_with(|| error.to_string());
            }
            self.flushed.notify_all();
        }
    }

    /// Leader's work: seal the open block, write all sealed blocks in order, sync.
    fn write_sealed(&self) -> Result<()> {
        let (file, headers, blocks, end) = {
            let mut state = self.state.lock();
            state.seal(self.hardened().0);
            let headers = std::mem::take(&mut state.headers);
            let blocks: Vec<Sealed> = state.sealed.iter().cloned().collect();
            (state.file.handle(), headers, blocks, state.next_block)
        };
        for (offset, bytes) in &headers {
            file.write(bytes, *offset)?;
        }
        let mut written = 0;
        for run in contiguous(&blocks) {
            match run {
                [one] => file.write(&one.bytes, one.offset)?,
                many => {
                    let mut joined = Vec::with_capacity(many.iter().map(|b| b.bytes.len()).sum());
                    many.iter().for_each(|b| joined.extend_from_slice(&b.bytes));
                    file.write(&joined, many[0].offset)?;
                }
            }
            written += run.iter().map(|b| b.bytes.len() as u64).sum::<u64>();
        }
        if self.durable {
            file.sync()?;
        }
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.flushed_bytes.fetch_add(written, Ordering::Relaxed);
        self.state.lock().retire(blocks.len());
        self.hardened.store(end, Ordering::Release);
        Ok(())
    }

    /// Frees VLFs that lie wholly below `lsn`.
    pub fn truncate(&self, lsn: Lsn) {
        self.state.lock().file.truncate(lsn.0);
    }

    /// Why the log cannot be cut further, as `log_reuse_wait_desc` says it.
    pub fn set_reuse_wait(&self, reason: &'static str) {
        self.state.lock().file.set_reuse_wait(reason);
    }

    pub fn reuse_wait(&self) -> &'static str {
        self.state.lock().file.reuse_wait()
    }

    pub fn vlfs(&self) -> Vec<VlfInfo> {
        self.state.lock().file.vlfs()
    }

    pub fn size_bytes(&self) -> u64 {
        self.state.lock().file.size_bytes()
    }

    pub fn used_bytes(&self) -> u64 {
        self.state.lock().file.used_bytes()
    }

    pub fn min_lsn(&self) -> Lsn {
        Lsn(self.state.lock().file.min_lsn())
    }

    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    pub fn flushed_bytes(&self) -> u64 {
        self.flushed_bytes.load(Ordering::Relaxed)
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

/// Splits blocks into runs that are adjacent in the file, at most 1 MiB each.
fn contiguous(blocks: &[Sealed]) -> impl Iterator<Item = &[Sealed]> {
    let mut rest = blocks;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let (mut count, mut bytes) = (1, first.bytes.len());
        while let Some(next) = rest.get(count)
            && next.offset == first.offset + bytes as u64
            && bytes < 1 << 20
        {
            bytes += next.bytes.len();
            count += 1;
        }
        let (run, tail) = rest.split_at(count);
        rest = tail;
        Some(run)
    })
}

impl LogState {
    fn append(&mut self, record: &[u8], kind: AppendKind, hardened: u64) -> Result<u64> {
        if self.open.as_ref().is_some_and(|o| !o.fits(record.len())) {
            self.seal(hardened);
        }
        let undo = if kind == AppendKind::Forward {
            2 * record.len() as u64 + 64
        } else {
            0
        };
        if self.open.is_none() {
            self.open_block(kind, undo)?;
        }
        self.undo_reserved += undo;
        let Some(open) = &mut self.open else {
            unreachable!("a block was just opened")
        };
        Ok(open.push(record))
    }

    fn open_block(&mut self, kind: AppendKind, undo: u64) -> Result<()> {
        let reserve = if kind == AppendKind::Completion {
            0
        } else {
            self.undo_reserved + undo
        };
        let Placement { offset, header } = self.file.place(self.next_block, reserve)?;
        self.headers.extend(header);
        self.open = Some(OpenBlock::new(self.next_block, offset));
        Ok(())
    }

    /// Closes the open block: pads, checksums and queues it.
    fn seal(&mut self, hardened: u64) {
        let Some(open) = self.open.take() else { return };
        let (lsn, offset) = (open.lsn(), open.offset());
        let bytes = Arc::new(open.seal(self.file.incarnation(), hardened));
        self.next_block = lsn + bytes.len() as u64;
        self.file.advance(self.next_block);
        self.sealed_bytes += bytes.len();
        self.sealed.push_back(Sealed { lsn, offset, bytes });
    }

    /// Moves the first `count` sealed blocks, now hard, to the recent ones.
    fn retire(&mut self, count: usize) {
        for _ in 0..count {
            let Some(block) = self.sealed.pop_front() else {
                return;
            };
            self.sealed_bytes -= block.bytes.len();
            self.recent_bytes += block.bytes.len();
            self.recent.push_back(block);
        }
        while self.recent_bytes > RECENT_BYTES_MAX {
            let Some(block) = self.recent.pop_front() else {
                return;
            };
            self.recent_bytes -= block.bytes.len();
        }
    }
}
