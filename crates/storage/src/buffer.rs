//! Buffer pool: pages of all databases in a bounded number of frames, with a latch each.
//!
//! Theory: a sharded table maps pages to frames; a pinned frame stays. Victims are found by the clock algorithm among
//! clean, unpinned frames. Dirty pages are written by [`Pool::flush`] in batches, never alone, after the log that
//! covers them is hard.
//!
//! Invariants
//! 1. A page is changed only under its exclusive latch, after `PageWrite::prepare` noted where its redo begins.
//! 2. `rec_lsn` is 0 when the frame equals the disk; `flushing_lsn` is set while its write is under way. The redo
//!    start of a checkpoint is below both.
//! 3. A frame is reused only when unpinned, clean and not being flushed.
//! 4. A page whose versions would not survive a crash stays dirty (`VersionStore::holds_back`) until they are on pages.
//!    While the database is recovered its frame may be emptied before, into a scratch file (`aside`); so it may while pages
//!    go on waiting after that.
//!
//! Latches: tree pages from the root down, left before right; the allocation page last. A shard lock is held only for
//! table look-ups, and no latch is waited for under it.

mod repair;
mod run;

pub use run::Run;

use crate::api::Growth;
use crate::aside::{Aside, FrameNotes};
use crate::datafile::{Boot, DOUBLE_WRITE_PAGES, FileSet};
use crate::error::{Result, StorageError};
use crate::log::Log;
use crate::log::record::PageAction;
use crate::page::{PAGE_BYTES, Page};
use crate::pause::pause;
use crate::planted::{Bug, planted};
use crate::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::version::{Chunk, VersionStore};
use daruma_base::{Clock, Lsn, PageId, WaitKind, WaitRegistry, reached};
use repair::Repairs;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

const SHARDS: usize = 64;
/// How often a thread in need of a frame looks again, a millisecond apart, before it gives up.
const RELIEF_TRIES: usize = 2_000;
/// One frame in so many is written when none is clean. All frames are looked at to find them, which would cost too much
/// for one batch of the doublewrite area in a large pool.
const RELIEF_SHARE: usize = 64;
/// So long after a search for a clean frame in vain the pool counts as pressed.
const PRESSED_FOR: std::time::Duration = std::time::Duration::from_secs(1);
/// How long a flush waits for a latched page before it leaves it to the next round.
const FLUSH_LATCH_WAIT: std::time::Duration = std::time::Duration::from_millis(1);

/// Files and log of one open database; ids are never reused while the server runs.
pub struct Store {
    pub id: u32,
    pub files: FileSet,
    pub log: Arc<Log>,
    /// Decides which pages may be written.
    pub versions: VersionStore,
    /// Where pages are kept that may not, when recovery finds frames scarce.
    pub aside: Aside,
    /// Damaged pages whose content a copy is asked for.
    pub repairs: Repairs,
    /// One flush at a time, so that an older copy of a page never overwrites a newer one.
    flush: Mutex<()>,
    /// The boot page tells of no log above this, although it is hard: it is being cut off.
    told_max: AtomicU64,
}

impl Store {
    /// Files and log of a database under the number that its frames carry.
    pub fn new(id: u32, files: FileSet, log: Arc<Log>) -> Store {
        Store {
            id,
            files,
            log,
            versions: VersionStore::default(),
            aside: Aside::default(),
            repairs: Repairs::default(),
            flush: Mutex::new(()),
            told_max: AtomicU64::new(u64::MAX),
        }
    }

    /// Changes the boot page durably. Each time it says how far the log is on disk.
    pub fn write_boot(&self, change: impl FnOnce(&mut Boot)) -> Result<()> {
        self.or_fence(self.files.write_boot(|boot| {
            change(boot);
            let told_max = Lsn(self.told_max.load(Ordering::Acquire));
            boot.hard = self.log.hardened().min(told_max);
            assert!(boot.hard < Lsn::MAX, "the end of the log is not known yet");
        }))
    }

    /// Takes away the log from `at` on, a block boundary. Nothing else may depend on it: neither redo of a restart, nor what is
    /// redone and shown, nor what was told of as being here, which is taken back first. A log backup that has any of it is of a path that
    /// was left: there is no log chain before the next full backup, or the first log backup that the log tells of.
    pub fn cut_log_tail(&self, at: Lsn) -> Result<()> {
        let boot = self.files.boot();
        let is_applied = at.0 < self.log.shown().load(Ordering::Acquire);
        if !self.log.is_copy() || at <= boot.checkpoint || at < boot.redo_start || is_applied {
            return Err(StorageError::DamagedLog {
                path: self.files.path(1),
                lsn: at,
                what: "the log that is to be cut off is applied, or a restart needs it".into(),
            });
        }
        self.files.change_epochs(|epochs| epochs.cut(at));
        // Others may write the boot page until the tail is gone.
        self.told_max.store(at.0, Ordering::Release);
        let result = self.write_boot(|boot| {
            if boot.log_backup > at {
                boot.log_backup = Lsn::NONE;
            }
        });
        let result = result.and_then(|()| {
            pause("log.tail.untold");
            self.log.cut_tail(at)
        });
        self.told_max.store(u64::MAX, Ordering::Release);
        result
    }

    /// See [`FileSet::grow`].
    pub fn grow(&self, file: u16, seen_pages: u64) -> Result<()> {
        self.or_fence(self.files.grow(file, seen_pages))
    }

    /// See [`FileSet::grow_past_limits`].
    pub fn grow_past_limits(&self, filegroup: u16, pages_max: u64) -> Result<()> {
        self.or_fence(self.files.grow_past_limits(filegroup, pages_max))
    }

    /// See [`FileSet::modify`].
    pub fn modify(&self, file: u16, pages: u64, growth: Growth, max: Option<u64>) -> Result<()> {
        self.or_fence(self.files.modify(file, pages, growth, max))
    }

    /// After a failed sync nobody knows what is on disk: only recovery can find out.
    fn or_fence(&self, result: Result<()>) -> Result<()> {
        if result.is_err()
            && let Some(cause) = self.files.failure()
        {
            self.log.fence(&cause);
        }
        result
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    store: u32,
    page: u64,
}

impl Key {
    fn shard(self) -> usize {
        ((self.page ^ (self.page >> 9)) as usize ^ self.store as usize) % SHARDS
    }
}

/// Multiplicative hash: keys are small integers, not chosen by an adversary.
#[derive(Default)]
pub struct FastHasher(u64);

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }
    fn write_u32(&mut self, v: u32) {
        self.write_u64(u64::from(v));
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0.rotate_left(5) ^ v).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// Memory of a frame with its page.
const FRAME_BYTES: usize = size_of::<Frame>() + PAGE_BYTES;

struct Frame {
    index: u32,
    latch: RwLock<Page>,
    store: AtomicU32,
    page: AtomicU64,
    valid: AtomicBool,
    pins: AtomicU32,
    referenced: AtomicBool,
    rec_lsn: AtomicU64,
    flushing_lsn: AtomicU64,
    /// Chunks of versions of entries that a split moved away: once the page is written, redo can no longer rebuild them.
    waits_for: Mutex<Vec<u32>>,
    /// The last inserts into the page (`run`).
    run: AtomicU64,
}

impl Frame {
    fn new(index: u32) -> Frame {
        Frame {
            index,
            latch: RwLock::new(Page::zeroed()),
            store: AtomicU32::new(0),
            page: AtomicU64::new(u64::MAX),
            valid: AtomicBool::new(false),
            pins: AtomicU32::new(1),
            referenced: AtomicBool::new(true),
            rec_lsn: AtomicU64::new(0),
            flushing_lsn: AtomicU64::new(0),
            waits_for: Mutex::default(),
            run: AtomicU64::new(0),
        }
    }

    fn key(&self) -> Key {
        Key {
            store: self.store.load(Ordering::Acquire),
            page: self.page.load(Ordering::Acquire),
        }
    }

    /// Must the page wait for versions: of its own entries, or of entries that were moved away?
    fn is_held_back(
        &self,
        page: &Page,
        versions: &VersionStore,
        mut wanted: Option<&mut Vec<Arc<Chunk>>>,
    ) -> bool {
        let mut waits_for = self.waits_for.lock();
        waits_for.retain(|id| versions.is_unplaced(*id));
        if let Some(wanted) = &mut wanted {
            wanted.extend(waits_for.iter().flat_map(|id| versions.unplaced(*id)));
        }
        let moved = !waits_for.is_empty();
        drop(waits_for);
        versions.holds_back(page, wanted) || moved
    }

    /// Holds nothing any more. The caller has taken it out of the table, and nobody else changes it.
    fn forget(&self) {
        self.valid.store(false, Ordering::Release);
        self.store.store(0, Ordering::Release);
        self.page.store(u64::MAX, Ordering::Release);
        self.rec_lsn.store(0, Ordering::Release);
        self.flushing_lsn.store(0, Ordering::Release);
        self.waits_for.lock().clear();
    }

    fn is_clean(&self) -> bool {
        self.rec_lsn.load(Ordering::Acquire) == 0 && self.flushing_lsn.load(Ordering::Acquire) == 0
    }
}

/// Keeps a frame in place; the last field of every guard, so that the latch is released first.
struct Pin<'a>(&'a Frame);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.0.pins.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A page latched for reading.
pub struct PageRead<'a> {
    guard: RwLockReadGuard<'a, Page>,
    _pin: Pin<'a>,
}

impl Deref for PageRead<'_> {
    type Target = Page;
    fn deref(&self) -> &Page {
        &self.guard
    }
}

/// A page latched for changing.
pub struct PageWrite<'a> {
    guard: RwLockWriteGuard<'a, Page>,
    pin: Pin<'a>,
}

impl Deref for PageWrite<'_> {
    type Target = Page;
    fn deref(&self) -> &Page {
        &self.guard
    }
}

impl DerefMut for PageWrite<'_> {
    fn deref_mut(&mut self) -> &mut Page {
        &mut self.guard
    }
}

impl PageWrite<'_> {
    /// Where the page lives, also before its content says so.
    pub fn location(&self) -> PageId {
        PageId::from_u64(self.pin.0.page.load(Ordering::Acquire))
    }

    /// Must be called before a part of a system record is applied: entries that it takes away from the page may have
    /// versions that redo could rebuild from this page only.
    pub fn keep_back(&self, versions: &VersionStore, action: &PageAction<'_>) {
        let from = match action {
            PageAction::Truncate { count, .. } => *count,
            action if action.is_image() => 0,
            _ => return,
        };
        if from == 0 && planted(Bug::ForgetWaits) {
            self.pin.0.waits_for.lock().clear();
            return;
        }
        let mut chunks = Vec::new();
        versions.guarding(&self.guard, from, &mut chunks);
        if !chunks.is_empty() {
            self.pin.0.waits_for.lock().extend(chunks);
        }
    }

    /// Must be called before the log record of a change is appended: redo of this page begins here or later.
    pub fn prepare(&self, log: &Log) {
        if self.pin.0.rec_lsn.load(Ordering::Acquire) == 0 {
            self.prepare_at(log.block_start());
        }
    }

    /// As `prepare`, with the position given (redo knows it).
    pub fn prepare_at(&self, block_start: Lsn) {
        let clean = 0;
        let rec_lsn = &self.pin.0.rec_lsn;
        let made_dirty =
            rec_lsn.compare_exchange(clean, block_start.0, Ordering::AcqRel, Ordering::Acquire);
        if made_dirty.is_ok() {
            LOGICAL_WRITES.set(LOGICAL_WRITES.get() + 1);
        }
    }
}

thread_local! {
    static LOGICAL_READS: Cell<u64> = const { Cell::new(0) };
    static PHYSICAL_READS: Cell<u64> = const { Cell::new(0) };
    static LOGICAL_WRITES: Cell<u64> = const { Cell::new(0) };
}

/// Reads and writes of the calling thread so far.
pub fn thread_io() -> crate::api::IoCounters {
    crate::api::IoCounters {
        logical_reads: LOGICAL_READS.get(),
        physical_reads: PHYSICAL_READS.get(),
        logical_writes: LOGICAL_WRITES.get(),
    }
}

type Shard = Mutex<HashMap<Key, u32, BuildHasherDefault<FastHasher>>>;

/// The buffer pool: frames of 8 KiB pages, shared by all databases.
pub struct Pool {
    frames: Vec<OnceLock<Box<Frame>>>,
    /// Frames in existence; grows to the limit as they are needed, so an idle server stays small.
    allocated: AtomicUsize,
    hand: AtomicUsize,
    /// Pages of all databases that wait for versions of running transactions, about.
    pub waiting_pages: Arc<AtomicUsize>,
    /// Until when the pool counts as pressed, in milliseconds of the clock.
    pressed_until: AtomicU64,
    shards: Vec<Shard>,
    stores: RwLock<HashMap<u32, Arc<Store>>>,
    waits: Arc<WaitRegistry>,
    clock: Arc<dyn Clock>,
}

impl Drop for Pool {
    fn drop(&mut self) {
        let frames = self.live_frames().count();
        daruma_base::memory::set_pages_apart(-((frames * FRAME_BYTES) as i64));
    }
}

impl Pool {
    /// A pool of at most `pages` frames, and no less than 64; they are allocated when they are first needed.
    pub fn new(pages: usize, clock: Arc<dyn Clock>, waits: Arc<WaitRegistry>) -> Pool {
        Pool {
            frames: (0..pages.max(64)).map(|_| OnceLock::new()).collect(),
            allocated: AtomicUsize::new(0),
            hand: AtomicUsize::new(0),
            waiting_pages: Arc::default(),
            pressed_until: AtomicU64::new(0),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            stores: RwLock::default(),
            waits,
            clock,
        }
    }

    /// Pages of this database can be read from now on.
    pub fn add_store(&self, store: &Arc<Store>) {
        self.stores.write().insert(store.id, store.clone());
    }

    /// Forgets a store and its pages, dirty or not. Waits for threads that write or latch them: a page that stayed dirty
    /// would keep its frame for ever. The caller holds no latch, and the store's log is fenced: nobody changes pages.
    pub fn remove_store(&self, store: &Store) {
        let _no_flush = store.flush.lock();
        self.stores.write().remove(&store.id);
        for frame in self.live_frames() {
            if frame.store.load(Ordering::Acquire) != store.id {
                continue;
            }
            frame.pins.fetch_add(1, Ordering::AcqRel);
            let pin = Pin(frame);
            pause("pool.page_of_removed_store");
            let _alone = pin.0.latch.write();
            let key = frame.key();
            let mut shard = self.shards[key.shard()].lock();
            if key.store == store.id {
                shard.remove(&key);
                frame.forget();
            }
        }
    }

    /// Forgets the pages of some stores that nobody uses right now; how many of them were dirty.
    fn forget_unused(&self, is_wanted: impl Fn(u32) -> bool) -> usize {
        let mut dirty = 0;
        for frame in self.live_frames() {
            let key = frame.key();
            if key.store == 0 || !is_wanted(key.store) {
                continue;
            }
            let mut shard = self.shards[key.shard()].lock();
            if frame.key() == key && frame.pins.load(Ordering::Acquire) == 0 {
                // A frame that was let go of keeps its key; the table may lead to another one.
                if shard.get(&key) == Some(&frame.index) {
                    shard.remove(&key);
                }
                dirty += usize::from(!frame.is_clean());
                frame.forget();
            }
        }
        dirty
    }

    /// Forgets pages of stores that are gone: somebody was about to change them when they went.
    fn forget_orphans(&self) {
        let stores = self.stores.read();
        if self.forget_unused(|store| !stores.contains_key(&store)) > 0 {
            reached!("pool.orphan");
        }
    }

    fn live_frames(&self) -> impl Iterator<Item = &Frame> {
        let n = self
            .allocated
            .load(Ordering::Acquire)
            .min(self.frames.len());
        self.frames[..n]
            .iter()
            .filter_map(|f| f.get().map(Box::as_ref))
    }

    fn frame(&self, index: u32) -> &Frame {
        self.frames[index as usize].get_or_init(|| {
            let frame = Box::new(Frame::new(index));
            daruma_base::memory::set_pages_apart(FRAME_BYTES as i64);
            frame
        })
    }

    /// The page under a shared latch. It waits for a read that is under way; it never waits for a lock.
    pub fn read(&self, store: &Store, id: PageId) -> Result<PageRead<'_>> {
        loop {
            let pin = self.pin(store, id, WaitKind::PageIoLatchSh)?;
            let guard = pin.0.latch.read();
            if is_current(pin.0, store, id) {
                return Ok(PageRead { guard, _pin: pin });
            }
        }
    }

    /// The page under an exclusive latch.
    pub fn write(&self, store: &Store, id: PageId) -> Result<PageWrite<'_>> {
        loop {
            let pin = self.pin(store, id, WaitKind::PageIoLatchEx)?;
            let guard = pin.0.latch.write();
            if is_current(pin.0, store, id) {
                return Ok(PageWrite { guard, pin });
            }
        }
    }

    /// As `write`, for a latch that is out of order and so must not be waited for: `None` when another thread has it.
    pub fn try_write(&self, store: &Store, id: PageId) -> Result<Option<PageWrite<'_>>> {
        let pin = self.pin(store, id, WaitKind::PageIoLatchEx)?;
        let Some(guard) = pin.0.latch.try_write() else {
            return Ok(None);
        };
        Ok(is_current(pin.0, store, id).then_some(PageWrite { guard, pin }))
    }

    /// A page about to be given new content altogether: not read from disk, zeroed when it was not in memory.
    pub fn write_new(&self, store: &Store, id: PageId) -> Result<PageWrite<'_>> {
        loop {
            if let Some(pin) = self.lookup(store, id) {
                let guard = pin.0.latch.write();
                if is_current(pin.0, store, id) {
                    return Ok(PageWrite { guard, pin });
                }
                continue;
            }
            let victim = self.victim()?;
            let mut guard = victim.0.latch.write();
            if self.publish(store, id, victim.0) {
                if !self.bring_back(store, id, victim.0, &mut guard)? {
                    guard.bytes_mut().fill(0);
                }
                victim.0.valid.store(true, Ordering::Release);
                return Ok(PageWrite { guard, pin: victim });
            }
        }
    }

    fn lookup(&self, store: &Store, id: PageId) -> Option<Pin<'_>> {
        let key = Key {
            store: store.id,
            page: id.to_u64(),
        };
        let shard = self.shards[key.shard()].lock();
        let frame = self.frame(*shard.get(&key)?);
        frame.pins.fetch_add(1, Ordering::AcqRel);
        if !frame.referenced.load(Ordering::Relaxed) {
            frame.referenced.store(true, Ordering::Relaxed);
        }
        Some(Pin(frame))
    }

    /// Pins the frame of a page. The database is asked whether it may be read when the page is found: what was found before a
    /// failure of its log is as true as it ever was, and the pages of one that has failed may be gone from memory.
    fn pin(&self, store: &Store, id: PageId, wait: WaitKind) -> Result<Pin<'_>> {
        let pin = self.find(store, id, wait)?;
        match planted(Bug::AnswerFenced) {
            true => Ok(pin),
            false => store.log.check().map(|()| pin),
        }
    }

    /// Pins the frame of a page, reading the page first if it is not there.
    fn find(&self, store: &Store, id: PageId, wait: WaitKind) -> Result<Pin<'_>> {
        LOGICAL_READS.set(LOGICAL_READS.get() + 1);
        loop {
            if let Some(pin) = self.lookup(store, id) {
                return Ok(pin);
            }
            let victim = self.victim()?;
            let mut guard = victim.0.latch.write();
            if !self.publish(store, id, victim.0) {
                continue;
            }
            let start = self.clock.monotonic();
            let result = match self.bring_back(store, id, victim.0, &mut guard)? {
                true => Ok(()),
                false => store.files.read(id, &mut guard),
            };
            PHYSICAL_READS.set(PHYSICAL_READS.get() + 1);
            self.waits
                .record(wait, self.clock.monotonic().saturating_sub(start));
            match result {
                Ok(()) => {
                    victim.0.valid.store(true, Ordering::Release);
                    drop(guard);
                    return Ok(victim);
                }
                Err(error) => {
                    self.withdraw(victim.0);
                    return Err(error);
                }
            }
        }
    }

    /// Puts a claimed frame into the table. False when another thread was faster; the frame stays unmapped.
    fn publish(&self, store: &Store, id: PageId, frame: &Frame) -> bool {
        let key = Key {
            store: store.id,
            page: id.to_u64(),
        };
        let mut shard = self.shards[key.shard()].lock();
        if shard.contains_key(&key) {
            return false;
        }
        frame.valid.store(false, Ordering::Release);
        frame.store.store(key.store, Ordering::Release);
        frame.page.store(key.page, Ordering::Release);
        frame.referenced.store(true, Ordering::Relaxed);
        shard.insert(key, frame.index);
        true
    }

    /// Fills a frame that was just published with its page, if that was put aside. False when it was not.
    fn bring_back(
        &self,
        store: &Store,
        id: PageId,
        frame: &Frame,
        page: &mut Page,
    ) -> Result<bool> {
        match store.aside.take_page(id, page, &frame.rec_lsn) {
            Ok(None) => Ok(false),
            Ok(Some(notes)) => {
                *frame.waits_for.lock() = notes.waits_for;
                Ok(true)
            }
            Err(error) => {
                self.withdraw(frame);
                Err(error)
            }
        }
    }

    /// Forgets what is in memory of a page that belongs to nobody any more. Waits for a flush of it.
    fn discard(&self, store: &Store, id: PageId) {
        while let Some(pin) = self.lookup(store, id) {
            let guard = pin.0.latch.write();
            if !is_current(pin.0, store, id) {
                continue;
            }
            if pin.0.flushing_lsn.load(Ordering::Acquire) != 0 {
                if store.log.is_fenced() {
                    // A flush that failed never ends, and nobody reads the page any more.
                    return;
                }
                drop(guard);
                self.clock.sleep(FLUSH_LATCH_WAIT);
                continue;
            }
            pin.0.rec_lsn.store(0, Ordering::Release);
            pin.0.waits_for.lock().clear();
            pin.0.valid.store(false, Ordering::Release);
            self.withdraw(pin.0);
            return;
        }
    }

    /// Forgets all pages that nobody uses and that are as they are on disk: they are read again when they are needed.
    pub fn drop_clean(&self) {
        for frame in self.live_frames() {
            if let Some(pin) = self.claim_clean(frame) {
                frame.referenced.store(false, Ordering::Relaxed);
                drop(pin);
            }
        }
    }

    /// Takes a clean frame that nobody uses out of the table.
    fn claim_clean<'a>(&'a self, frame: &'a Frame) -> Option<Pin<'a>> {
        let key = frame.key();
        let mut shard = self.shards[key.shard()].lock();
        if frame.pins.load(Ordering::Acquire) > 0 || !frame.is_clean() || frame.key() != key {
            return None;
        }
        if shard.get(&key) == Some(&frame.index) {
            shard.remove(&key);
        }
        frame.pins.fetch_add(1, Ordering::AcqRel);
        frame.valid.store(false, Ordering::Release);
        Some(Pin(frame))
    }

    /// Forgets what is in memory of a file that is gone.
    pub fn discard_file(&self, store: &Store, file: u16) {
        let of_store = self
            .live_frames()
            .filter(|f| f.store.load(Ordering::Acquire) == store.id);
        let pages = of_store.map(|f| PageId::from_u64(f.page.load(Ordering::Acquire)));
        let pages: Vec<PageId> = pages.filter(|p| p.file == file).collect();
        pages.iter().for_each(|page| self.discard(store, *page));
    }

    /// Is every frame in use, so that eviction has begun?
    pub fn is_full(&self) -> bool {
        self.allocated.load(Ordering::Relaxed) >= self.frames.len()
    }

    /// Was there no clean frame of late? That a pool is full is no sign of it: one in use for a while always is.
    pub fn is_pressed(&self) -> bool {
        let until = self.pressed_until.load(Ordering::Relaxed);
        until > 0 && self.clock.monotonic().as_millis() < u128::from(until)
    }

    /// Most frames that there can be.
    pub fn frame_count(&self) -> usize {
        self.frames.len()
    }

    /// Chunks of versions that keep pages from being written which [`Pool::flush`] with these arguments would take.
    pub fn held_back(&self, store: &Store, before: Lsn, limit: usize) -> Vec<Arc<Chunk>> {
        let mut wanted = Vec::new();
        for (_, page, frame) in self.dirty(store, before, limit) {
            frame.pins.fetch_add(1, Ordering::AcqRel);
            let pin = Pin(frame);
            if let Some(guard) = pin.0.latch.try_read_for(FLUSH_LATCH_WAIT)
                && is_current(frame, store, PageId::from_u64(page))
            {
                frame.is_held_back(&guard, &store.versions, Some(&mut wanted));
            }
        }
        wanted
    }

    fn withdraw(&self, frame: &Frame) {
        let key = frame.key();
        self.shards[key.shard()].lock().remove(&key);
        frame.store.store(0, Ordering::Release);
        frame.page.store(u64::MAX, Ordering::Release);
    }

    /// Claims a frame that holds nothing of worth: pinned once, not in the table.
    fn victim(&self) -> Result<Pin<'_>> {
        let n = self.allocated.load(Ordering::Acquire);
        if n < self.frames.len() {
            let n = self.allocated.fetch_add(1, Ordering::AcqRel);
            if n < self.frames.len() {
                // A new frame is born pinned once.
                let frame = self.frame(n as u32);
                return Ok(Pin(frame));
            }
        }
        for _ in 0..RELIEF_TRIES {
            if let Some(pin) = self.clock_sweep() {
                return Ok(pin);
            }
            self.relieve()?;
        }
        Err(StorageError::BufferPoolFull {
            pages: self.frames.len(),
        })
    }

    fn clock_sweep(&self) -> Option<Pin<'_>> {
        for _ in 0..2 * self.frames.len() {
            let index = self.hand.fetch_add(1, Ordering::Relaxed) % self.frames.len();
            let Some(frame) = self.frames[index].get() else {
                continue;
            };
            if frame.pins.load(Ordering::Acquire) > 0 || !frame.is_clean() {
                continue;
            }
            if frame.referenced.swap(false, Ordering::Relaxed) {
                continue;
            }
            if let Some(pin) = self.claim_clean(frame) {
                return Some(pin);
            }
        }
        None
    }

    /// No clean frame was found: write some dirty pages of every store. The caller may hold latches, so this waits
    /// for no latch and for no other flush.
    fn relieve(&self) -> Result<()> {
        reached!("pool.relieved");
        let until = (self.clock.monotonic() + PRESSED_FOR).as_millis() as u64;
        self.pressed_until.store(until, Ordering::Relaxed);
        let stores: Vec<Arc<Store>> = self.stores.read().values().cloned().collect();
        let (mut written, mut refused) = (0, Ok(()));
        for store in stores {
            if store.log.is_fenced() {
                // They will never be written, nor read: the other databases need the room.
                written += self.forget_unused(|id| id == store.id);
                continue;
            }
            if let Some(_one_at_a_time) = store.flush.try_lock() {
                let limit = DOUBLE_WRITE_PAGES.max(self.frames.len() / RELIEF_SHARE);
                let reach = relief_reach(&store);
                written += self.flush_locked(&store, reach, limit, reach)?;
                if written == 0 {
                    // Where that is not possible, another database may have something to give.
                    match self.put_aside(&store) {
                        Ok(emptied) => written += emptied,
                        Err(error) => refused = Err(error),
                    }
                }
            }
        }
        if written == 0 {
            refused?;
            self.forget_orphans();
            self.clock.sleep(FLUSH_LATCH_WAIT);
        }
        Ok(())
    }

    /// Empties some frames whose pages may not be written, if their store has a place for them. Returns how many.
    fn put_aside(&self, store: &Store) -> Result<usize> {
        if !store.aside.is_open() {
            return Ok(0);
        }
        let limit = (self.frames.len() / 4).clamp(1, DOUBLE_WRITE_PAGES);
        let mut emptied = 0;
        for (_, _, frame) in self.dirty(store, Lsn::MAX, limit) {
            match self.put_frame_aside(store, frame) {
                Ok(is_emptied) => emptied += usize::from(is_emptied),
                Err(error) if emptied == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(emptied)
    }

    /// False when somebody uses the frame, or its page is clean. The caller has the store's flush latch: a page that is under way to
    /// disk may not leave its frame.
    fn put_frame_aside(&self, store: &Store, frame: &Frame) -> Result<bool> {
        let Some(mut aside) = store.aside.lock() else {
            return Ok(false);
        };
        let key = frame.key();
        let mut shard = self.shards[key.shard()].lock();
        let is_free = frame.pins.load(Ordering::Acquire) == 0
            && frame.key() == key
            && key.store == store.id
            && frame.valid.load(Ordering::Acquire)
            && frame.flushing_lsn.load(Ordering::Acquire) == 0;
        let rec_lsn = frame.rec_lsn.load(Ordering::Acquire);
        if !is_free || rec_lsn == 0 || shard.get(&key) != Some(&frame.index) {
            return Ok(false);
        }
        // Whoever has it may wait for versions, and for what is aside.
        let Some(mut waits_for) = frame.waits_for.try_lock() else {
            return Ok(false);
        };
        shard.remove(&key);
        frame.pins.fetch_add(1, Ordering::AcqRel);
        drop(shard);
        let _pin = Pin(frame);
        let notes = FrameNotes {
            rec_lsn,
            waits_for: waits_for.clone(),
        };
        let put = aside.put_page(PageId::from_u64(key.page), &frame.latch.read(), notes);
        if put.is_err() {
            self.shards[key.shard()].lock().insert(key, frame.index);
            return put.map(|()| false);
        }
        waits_for.clear();
        frame.valid.store(false, Ordering::Release);
        frame.store.store(0, Ordering::Release);
        frame.page.store(u64::MAX, Ordering::Release);
        frame.referenced.store(false, Ordering::Relaxed);
        frame.rec_lsn.store(0, Ordering::Release);
        Ok(true)
    }

    /// Oldest position from which redo may be needed for a page in memory.
    pub fn min_rec_lsn(&self, store: &Store) -> Option<Lsn> {
        let dirty = self
            .live_frames()
            .filter(|f| f.store.load(Ordering::Acquire) == store.id);
        let positions = dirty.flat_map(|f| {
            // `flushing_lsn` is set before `rec_lsn` is cleared, so reading them in the other order misses nothing.
            let rec = f.rec_lsn.load(Ordering::Acquire);
            [rec, f.flushing_lsn.load(Ordering::Acquire)]
        });
        store.aside.with_min_rec_lsn(|aside| {
            let positions = positions.filter(|l| *l != 0);
            positions.chain(aside).min().map(Lsn)
        })
    }

    /// Writes up to `limit` pages whose redo begins before `before`, oldest first. Returns how many were written.
    /// A failed write fences the database: its pages in memory and on disk can no longer be told apart.
    /// Pages that stay latched are left for the next round. The caller holds no latch.
    pub fn flush(&self, store: &Store, before: Lsn, limit: usize) -> Result<usize> {
        if store.log.has_participants() {
            // A long wait for them is to be over before the pages are chosen: those who need frames cannot flush meanwhile.
            store.log.harden_all()?;
        }
        let _one_at_a_time = store.flush.lock();
        self.flush_locked(store, before, limit, Lsn::MAX)
    }

    /// Writes up to `limit` dirty pages, from the `skip`-th on in the order of their places.
    pub fn flush_some(&self, store: &Store, skip: usize, limit: usize) -> Result<usize> {
        let _one_at_a_time = store.flush.lock();
        let dirty = self.dirty(store, Lsn::MAX, usize::MAX);
        let chosen = dirty.get(skip..).unwrap_or_default();
        let mut written = 0;
        for chunk in chosen[..chosen.len().min(limit)].chunks(DOUBLE_WRITE_PAGES) {
            written += self.flush_chunk(store, chunk, relief_reach(store))?;
        }
        Ok(written)
    }

    fn flush_locked(&self, store: &Store, before: Lsn, limit: usize, reach: Lsn) -> Result<usize> {
        let mut written = 0;
        for chunk in self.dirty(store, before, limit).chunks(DOUBLE_WRITE_PAGES) {
            written += self.flush_chunk(store, chunk, reach)?;
        }
        Ok(written)
    }

    /// The `limit` oldest dirty frames changed before `before`, in order of their pages: redo start, page, frame.
    fn dirty(&self, store: &Store, before: Lsn, limit: usize) -> Vec<(u64, u64, &Frame)> {
        let mut dirty: Vec<(u64, u64, &Frame)> = self
            .live_frames()
            .filter(|f| f.store.load(Ordering::Acquire) == store.id)
            .map(|f| {
                (
                    f.rec_lsn.load(Ordering::Acquire),
                    f.page.load(Ordering::Acquire),
                    f,
                )
            })
            .filter(|(rec, _, _)| *rec != 0 && *rec < before.0)
            .collect();
        if dirty.len() > limit {
            dirty.select_nth_unstable_by_key(limit - 1, |d| d.0);
            dirty.truncate(limit);
        }
        dirty.sort_unstable_by_key(|d| d.1);
        dirty
    }

    /// Writes pages of a chunk, but none with a change at `reach` or above it.
    fn flush_chunk(
        &self,
        store: &Store,
        chunk: &[(u64, u64, &Frame)],
        reach: Lsn,
    ) -> Result<usize> {
        if store.versions.hard_first() >= reach {
            return Ok(0);
        }
        let mut pages = Vec::with_capacity(chunk.len());
        let mut pins = Vec::with_capacity(chunk.len());
        let mut high = Lsn::NONE;
        for (_, page, frame) in chunk {
            frame.pins.fetch_add(1, Ordering::AcqRel);
            let pin = Pin(frame);
            let Some(guard) = frame.latch.try_read_for(FLUSH_LATCH_WAIT) else {
                continue;
            };
            let rec = frame.rec_lsn.load(Ordering::Acquire);
            if rec == 0
                || frame.key()
                    != (Key {
                        store: store.id,
                        page: *page,
                    })
                || !frame.valid.load(Ordering::Acquire)
            {
                continue;
            }
            if guard.id().is_none() {
                // A new page whose first record could not be logged: it never got content.
                reached!("flush.page.never_written");
                frame.rec_lsn.store(0, Ordering::Release);
                continue;
            }
            if guard.lsn() >= reach || frame.is_held_back(&guard, &store.versions, None) {
                continue;
            }
            frame.flushing_lsn.store(rec, Ordering::Release);
            frame.rec_lsn.store(0, Ordering::Release);
            let mut copy = guard.clone();
            drop(guard);
            high = high.max(copy.lsn());
            copy.seal();
            pages.push(copy);
            pins.push(pin);
        }
        if pages.is_empty() {
            return Ok(0);
        }
        // Asked after the pages were judged.
        high = high.max(store.versions.hard_first());
        let hardened = match () {
            () if planted(Bug::PageBeforeLog) => Ok(()),
            () if planted(Bug::FlushAboveQuorum) => store.log.harden_here(high),
            () => store.log.harden(high),
        };
        let is_planted = planted(Bug::PageBeforeLog) || planted(Bug::FlushAboveQuorum);
        let result = hardened.and_then(|()| {
            assert!(
                store.log.is_hard(high) || high.is_none() || is_planted,
                "pages that depend on {high} go to disk before it"
            );
            store.files.write(&pages)
        });
        if let Err(error) = &result {
            store.log.fence(&error.to_string());
        } else {
            // Before their frames can be let go of.
            store.repairs.written(&pages);
            pins.iter()
                .for_each(|p| p.0.flushing_lsn.store(0, Ordering::Release));
        }
        result.map(|()| pages.len())
    }
}

/// Pages with a change from here on are none for whoever needs frames: it may hold latches that the end of a commit needs, and
/// does not wait for participants.
fn relief_reach(store: &Store) -> Lsn {
    match store.log.has_participants() && !planted(Bug::FlushAboveQuorum) {
        true => store.log.quorum(),
        false => Lsn::MAX,
    }
}

fn is_current(frame: &Frame, store: &Store, id: PageId) -> bool {
    frame.valid.load(Ordering::Acquire)
        && frame.key()
            == Key {
                store: store.id,
                page: id.to_u64(),
            }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pause::visit;
    use crate::{EngineConfig, FileSpec, Settings};
    use daruma_base::DatabaseId;
    use daruma_sim::SimDisk;
    use std::sync::mpsc::channel;

    /// A frame of a database that is gone would never be written, and so never be free again.
    #[test]
    fn a_page_that_is_in_use_when_its_database_goes_leaves_its_frame_all_the_same() {
        let disk = SimDisk::new(1);
        let config = EngineConfig {
            buffer_pool_pages: 64,
            ..EngineConfig::default()
        };
        let engine = crate::Engine::new(daruma_sim::env(&disk, 1), config);
        let files = vec![
            FileSpec::data(1, 1, "/t.mdf", 256),
            FileSpec::log("/t_log.ldf", 256),
        ];
        let db = engine
            .create_database(DatabaseId(5), "t", files, Settings::default())
            .expect("creates");
        let (latched, is_latched) = channel();
        let (go, may_go) = channel::<()>();
        let user = {
            let db = db.clone();
            std::thread::spawn(move || {
                let page = db.pool().write(db.store(), crate::datafile::CATALOG_ROOT);
                let page = page.expect("reads");
                page.prepare_at(Lsn(4096));
                latched.send(()).expect("waits");
                let _ = may_go.recv();
            })
        };
        is_latched.recv().expect("latched");
        // The user is let go when the remover has come to the page, and is about to wait for it.
        let go = Cell::new(Some(go));
        visit(move |name| {
            if name == "pool.page_of_removed_store" {
                go.take();
            }
        });
        db.pool().remove_store(db.store());
        visit(|_| {});
        user.join().expect("ends");
        let of_store = |f: &&Frame| f.store.load(Ordering::Acquire) == db.store().id;
        assert_eq!(engine.pool().live_frames().filter(of_store).count(), 0);
    }
}
