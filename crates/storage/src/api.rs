//! Plain types of the public interface.

use crate::coordinator::ResolvedUnit;
use crate::log::{CommitPoint, DelayedBound};
use crate::meter::IoStats;
use daruma_base::{Lsn, PageId, TxnId};
use std::path::PathBuf;
use std::time::Duration;

/// Largest key of a B+tree entry in bytes. A page must hold at least two entries of largest size.
pub const KEY_BYTES_MAX: usize = 1_700;
/// Largest payload of one entry; longer values go to blobs.
pub const PAYLOAD_BYTES_MAX: usize = 8_060 - KEY_BYTES_MAX.div_ceil(8);
/// Rows at most this long always fit, whatever the key (for callers that decide what to spill to blobs).
pub const ENTRY_BYTES_MAX: usize = 7_960;

/// Root page of a tree: never moves, so it names the tree for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreeId(pub PageId);

/// A value stored on overflow pages. 16 bytes in the caller's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlobRef {
    /// Its first page, which names it.
    pub first: PageId,
    /// Length of the value.
    pub bytes: u64,
}

impl BlobRef {
    /// The form kept in a payload: first page, then length, both u64.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.first.to_u64().to_le_bytes());
        out[8..].copy_from_slice(&self.bytes.to_le_bytes());
        out
    }

    /// The reverse of [`BlobRef::to_bytes`]. Any bytes give a reference; whether it leads anywhere is seen when it is read.
    pub fn from_bytes(bytes: [u8; 16]) -> BlobRef {
        let (first, len) = bytes.split_at(8);
        let number = |half: &[u8]| {
            half.iter()
                .rev()
                .fold(0u64, |n, b| (n << 8) | u64::from(*b))
        };
        BlobRef {
            first: PageId::from_u64(number(first)),
            bytes: number(len),
        }
    }
}

/// Writer of the entry that a read saw; handed back with a write to detect changes in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Transaction that wrote the entry last.
    pub txn: TxnId,
    /// Where the state before is kept; 0 for none.
    pub version: u64,
}

/// Result of an update or delete of an entry read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    Done,
    /// Someone else changed it since it was read: read it again (`Tree::get` with a current view) and decide anew.
    Changed,
    /// It does not exist any more.
    Gone,
}

/// How a reader treats entries of other transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Sees whatever is there.
    ReadUncommitted,
    /// Sees what was committed when the statement began; never waits (READ_COMMITTED_SNAPSHOT ON).
    ReadCommittedSnapshot,
    /// Sees the newest committed state of each row; waits for a writer of a row it needs (READ_COMMITTED_SNAPSHOT OFF).
    ReadCommitted,
    /// As `ReadCommitted`, and keeps a shared lock on every row read until the transaction ends.
    RepeatableRead,
    /// As `RepeatableRead`, and keeps others from inserting into the ranges read.
    Serializable,
    /// Sees what was committed when the transaction first read.
    Snapshot,
    /// Newest committed state of each row without waiting: for what is locked otherwise, or passed when it is.
    Current,
    /// Newest committed state of each row, as one sees it who locks it for update before looking: waits for its writer and
    /// for update locks on its key, first come, first served. For finding the target rows of UPDATE and DELETE, whose
    /// write then checks the stamp. Under `Snapshot` use `Snapshot` instead.
    Update,
}

/// Order in which a scan gives entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

/// One end of a key range. Keys are byte strings; `Included`/`Excluded` compare whole keys, the `Prefix` forms
/// compare the leading bytes only (all keys that start with it are inside or outside together).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    Unbounded,
    Included(Vec<u8>),
    Excluded(Vec<u8>),
    PrefixIncluded(Vec<u8>),
    PrefixExcluded(Vec<u8>),
}

/// Range and order of a scan.
#[derive(Clone, Debug)]
pub struct ScanSpec {
    /// Where the range begins.
    pub low: Bound,
    /// Where the range ends.
    pub high: Bound,
    /// From `low` to `high`, or back.
    pub direction: Direction,
}

impl ScanSpec {
    /// Every entry, forward.
    pub fn all() -> ScanSpec {
        ScanSpec {
            low: Bound::Unbounded,
            high: Bound::Unbounded,
            direction: Direction::Forward,
        }
    }

    /// All entries whose key starts with `prefix`.
    pub fn prefix(prefix: Vec<u8>) -> ScanSpec {
        ScanSpec {
            low: Bound::PrefixIncluded(prefix.clone()),
            high: Bound::PrefixIncluded(prefix),
            direction: Direction::Forward,
        }
    }
}

/// Entries of one scan step, usually those of one page, copied out so that no latch is held. Reused between steps.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    entries: Vec<BatchEntry>,
}

#[derive(Clone, Copy, Debug)]
struct BatchEntry {
    start: u32,
    payload: u32,
    end: u32,
    stamp: Stamp,
}

impl Batch {
    /// An empty batch, to be filled by [`crate::Scan::next`].
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Forgets the entries and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an entry behind the others.
    pub fn push(&mut self, key: &[u8], payload: &[u8], stamp: Stamp) {
        let start = self.bytes.len() as u32;
        self.bytes.reserve(key.len() + payload.len());
        self.bytes.extend_from_slice(key);
        let payload_start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(payload);
        let end = self.bytes.len() as u32;
        self.entries.push(BatchEntry {
            start,
            payload: payload_start,
            end,
            stamp,
        });
    }

    /// Panics when `index >= len()`.
    pub fn key(&self, index: usize) -> &[u8] {
        let e = &self.entries[index];
        &self.bytes[e.start as usize..e.payload as usize]
    }

    /// Payload of an entry. Panics behind the end.
    pub fn payload(&self, index: usize) -> &[u8] {
        let e = &self.entries[index];
        &self.bytes[e.payload as usize..e.end as usize]
    }

    /// Writer of an entry. Panics behind the end.
    pub fn stamp(&self, index: usize) -> Stamp {
        self.entries[index].stamp
    }
}

/// One entry read by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Payload that the caller stored under the key.
    pub payload: Vec<u8>,
    /// Writer of it: to be handed back with a change.
    pub stamp: Stamp,
}

/// Rows for [`crate::Tree::update_batch`], in key order: key, stamp seen, new payload. Reused between pages.
#[derive(Debug, Default)]
pub struct UpdateBatch {
    pub(crate) batch: Batch,
}

impl UpdateBatch {
    /// A batch without changes.
    pub fn new() -> UpdateBatch {
        UpdateBatch::default()
    }

    /// Forgets the changes and keeps the memory.
    pub fn clear(&mut self) {
        self.batch.clear();
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// True without changes.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Adds a change of the entry with this key, which was read with this stamp.
    pub fn push(&mut self, key: &[u8], stamp: Stamp, new_payload: &[u8]) {
        self.batch.push(key, new_payload, stamp);
    }

    /// Key of a change. Panics behind the end.
    pub fn key(&self, index: usize) -> &[u8] {
        self.batch.key(index)
    }
}

/// Lock modes on tables (`TableLock`) and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    SchS,
    SchM,
    IntentShared,
    IntentExclusive,
    Shared,
    Update,
    SharedIntentExclusive,
    Exclusive,
}

/// Resource of a lock. `object` is the caller's object id within the database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LockResource {
    Database,
    Object(i32),
    /// Named application lock (`sp_getapplock`) or a name being created.
    Name(String),
    Key {
        tree: TreeId,
        key: Vec<u8>,
    },
}

/// One row of `sys.dm_tran_locks`.
#[derive(Clone, Debug)]
pub struct LockInfo {
    /// Id of the database.
    pub database: u16,
    /// Id of the owner that holds the lock or waits for it.
    pub owner: u64,
    /// Resource that is locked.
    pub resource: LockDescription,
    /// Mode in the product's letters: S, U, X, IS, IX, SIX, Sch-S, Sch-M.
    pub mode: &'static str,
    /// False while the owner waits.
    pub granted: bool,
}

/// Resource of a lock, as sys.dm_tran_locks describes it.
#[derive(Clone, Debug)]
pub enum LockDescription {
    Resource(LockResource),
    Range { tree: TreeId },
    Transaction(TxnId),
}

/// How a commit becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Returns when the commit record is on disk.
    #[default]
    Full,
    /// Returns at once; the log is hardened soon after.
    Delayed,
}

/// A point in a transaction to roll back to. While it lives, what that needs is kept.
#[derive(Clone)]
pub struct Savepoint {
    pub(crate) id: TxnId,
    pub(crate) lsn: Lsn,
    pub(crate) _hold: Option<std::sync::Arc<crate::kept::SavepointHold>>,
}

impl std::fmt::Debug for Savepoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Savepoint({})", self.lsn)
    }
}

/// Growth of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    Pages(u32),
    Percent(u8),
}

/// A data or log file to create. Sizes in 8 KiB pages.
#[derive(Clone, Debug)]
pub struct FileSpec {
    /// 1 primary data, 2 log, 3.. further data files.
    pub id: u16,
    /// 0 for the log, 1 PRIMARY, 2.. further filegroups.
    pub filegroup: u16,
    /// Name in ALTER DATABASE and the system views.
    pub logical_name: String,
    /// Where the file is.
    pub path: PathBuf,
    /// First size; a file is never made smaller than its format needs.
    pub size_pages: u64,
    /// Step by which it grows when it is full.
    pub growth: Growth,
    /// Largest size; `None` for what the disk holds.
    pub max_pages: Option<u64>,
}

/// How files grow of which nothing else was said.
const GROWTH_PAGES: u32 = 64;

impl FileSpec {
    /// A data file that may grow without end, named as its file is.
    pub fn data(id: u16, filegroup: u16, path: &str, size_pages: u64) -> FileSpec {
        FileSpec {
            id,
            filegroup,
            logical_name: path.trim_start_matches('/').into(),
            path: path.into(),
            size_pages,
            growth: Growth::Pages(GROWTH_PAGES),
            max_pages: None,
        }
    }

    /// The log file.
    pub fn log(path: &str, size_pages: u64) -> FileSpec {
        FileSpec::data(2, 0, path, size_pages)
    }
}

/// A file as it is now.
#[derive(Clone, Debug)]
pub struct FileInfo {
    /// Names, and how it may grow now.
    pub spec: FileSpec,
    /// Present size.
    pub size_pages: u64,
    /// Pages in use (data files) or bytes of live log divided by page size (log file).
    pub used_pages: u64,
    /// Calls and bytes since it was opened.
    pub io: IoStats,
}

/// Settings kept in the boot page because recovery needs them before any catalog can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// ACCELERATED_DATABASE_RECOVERY: for transactions that begin from now on.
    pub accelerated_recovery: bool,
    /// READ_COMMITTED_SNAPSHOT; kept here, acted on by the layer above.
    pub read_committed_snapshot: bool,
    /// ALLOW_SNAPSHOT_ISOLATION; kept here, acted on by the layer above.
    pub allow_snapshot: bool,
    /// DELAYED_DURABILITY.
    pub delayed_durability: DelayedDurability,
    /// RECOVERY.
    pub recovery_model: RecoveryModel,
    /// TARGET_RECOVERY_TIME: redo is kept below what recovery repeats in so many seconds; 0 for the default.
    pub target_recovery_seconds: u32,
    /// READ_ONLY: no transaction may write.
    pub read_only: bool,
    /// Bound on what a crash may cost when commits are delayed: age of a commit, and log not yet on disk.
    pub delayed_milliseconds: u32,
    /// See `delayed_milliseconds`.
    pub delayed_kilobytes: u32,
    /// Filegroup of the persistent version store.
    pub version_store_filegroup: u16,
    /// Limit of the version store, memory and pages together; 0 for none.
    pub version_store_megabytes: u32,
    /// Rows to be written are judged by their newest committed state and locked when they qualify. Rows are locked
    /// through their transaction with and without.
    pub optimized_locking: bool,
}

impl Settings {
    pub(crate) fn delayed_bound(&self) -> DelayedBound {
        DelayedBound {
            age: Duration::from_millis(u64::from(self.delayed_milliseconds)),
            bytes: u64::from(self.delayed_kilobytes) << 10,
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            accelerated_recovery: false,
            read_committed_snapshot: true,
            allow_snapshot: true,
            delayed_durability: DelayedDurability::Disabled,
            recovery_model: RecoveryModel::Simple,
            target_recovery_seconds: 60,
            read_only: false,
            delayed_milliseconds: 10,
            delayed_kilobytes: 1_024,
            version_store_filegroup: 1,
            version_store_megabytes: 0,
            optimized_locking: false,
        }
    }
}

/// Whether commits may return before they are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayedDurability {
    Disabled,
    Allowed,
    Forced,
}

/// Until when the log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryModel {
    Full,
    BulkLogged,
    Simple,
}

/// Whether a database may be used, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseState {
    Online,
    /// Between the backups of a restore.
    Restoring,
    Recovering,
    /// Recovery failed or the log failed: see the error log.
    Suspect,
    Offline,
}

/// As whom the server knows a database. Its files say so too: files that were exchanged with those of another one, or are a
/// copy of theirs, do not pass for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    pub database: u16,
    /// When it was created, UTC in 100 ns.
    pub created_utc: i64,
}

/// The part of a recovery that is about to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryPhase {
    Analysis,
    Redo,
    Undo,
}

/// How far a recovery is.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryProgress<'a> {
    pub phase: RecoveryPhase,
    /// Of the phase.
    pub percent: u8,
    /// Of the phase, as far as it can be told by what went by.
    pub remaining_ms: u64,
    /// Figures known by now.
    pub report: &'a RecoveryReport,
}

/// How a database is opened.
#[derive(Clone, Copy, Default)]
pub struct Opening<'a> {
    /// Files of another registration are refused before anything is written; files of none get this one.
    pub registration: Option<Registration>,
    /// Told when a phase begins, and now and then during one.
    pub watch: Option<&'a dyn Fn(RecoveryProgress<'_>)>,
    /// Once set, redo ends with [`crate::StorageError::Cancelled`]: as after a crash, the next opening begins anew.
    pub stop: Option<&'a std::sync::atomic::AtomicBool>,
    /// Number and id of the epoch that begins, if a group of replicas has granted one: commits wait for participants from the first.
    pub epoch: Option<(u64, u128)>,
}

/// Report of a recovery, for the error log. Times add up to what opening took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Transactions with a commit record in the log read.
    pub rolled_forward: u64,
    /// Transactions without one that were not rolled back before.
    pub rolled_back: u64,
    /// Opening files and log, and restoring torn pages.
    pub files_ms: u64,
    /// Reading the log.
    pub analysis_ms: u64,
    /// Repeating it.
    pub redo_ms: u64,
    /// Rolling back from the log, or marking.
    pub undo_ms: u64,
    /// Part of it for system transactions; they are complete in one record, so 0.
    pub system_undo_ms: u64,
    /// Noting durably that all this was done: a checkpoint record, without waiting for pages.
    pub settle_ms: u64,
    /// Log read.
    pub log_bytes: u64,
    /// Pages put back from the doublewrite area.
    pub torn_pages_restored: u64,
    /// Transactions rolled back by a mark, to be reverted in the background.
    pub to_revert: u64,
    /// Accelerated recovery is on.
    pub is_accelerated: bool,
    /// False when the database was shut down cleanly and nothing had to be done.
    pub needed: bool,
    /// Newest commit that is there again; zeros when the log shows none.
    pub last_commit: CommitPoint,
    /// Prepared transactions of several databases, and how they ended.
    pub resolved: Vec<ResolvedUnit>,
}

/// Log figures for `dm_db_log_stats`, `SQLPERF(LOGSPACE)` and friends.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStats {
    /// Of the file.
    pub size_bytes: u64,
    /// From the lowest position that anybody needed at the last cut to the end.
    pub used_bytes: u64,
    /// Virtual log files with something needed in them, whole.
    pub active_bytes: u64,
    /// Lowest position that is needed, as far as it is still there.
    pub min_lsn: Lsn,
    /// End of the log in memory.
    pub end_lsn: Lsn,
    /// Everything before is on disk.
    pub hardened_lsn: Lsn,
    /// Last part of the last checkpoint.
    pub checkpoint_lsn: Lsn,
    /// Where a restart would begin to read, or a rollback after it end.
    pub recovery_lsn: Lsn,
    /// Writes of the log since it was opened.
    pub flushes: u64,
    /// Bytes of them, padding included.
    pub flushed_bytes: u64,
    /// Time of writing and syncing log.
    pub flush_write_ns: u64,
    /// Commits that waited for the disk, and how long in all.
    pub commit_waits: u64,
    /// See `commit_waits`.
    pub commit_wait_ns: u64,
    /// Times the file has grown, or has tried to.
    pub growths: u64,
    /// Cuts that freed something.
    pub truncations: u64,
    /// Reason why the log is not cut further: `log_reuse_wait_desc`.
    pub reuse_wait: &'static str,
}

/// An aborted transaction whose changes are not all reverted yet: a row of `sys.dm_tran_aborted_transactions`.
#[derive(Clone, Debug)]
pub struct AbortedInfo {
    /// The transaction.
    pub id: TxnId,
    /// At or before its first record.
    pub first_lsn: Lsn,
    /// End of the log when it was marked.
    pub abort_lsn: Lsn,
    /// When it first wrote; 0 when that is not known. For what a crash left it may be the time of the last commit before.
    pub begun_utc_100ns: i64,
    /// Part of a transaction that went on: what lay behind a savepoint, or a failed statement.
    pub is_nested: bool,
    /// Trees with something left to revert, as far as known.
    pub trees: Vec<TreeId>,
    /// Entries put back so far.
    pub reverted_rows: u64,
}

/// Figures of the version store: `sys.dm_tran_persistent_version_store_stats` and friends.
#[derive(Clone, Copy, Debug, Default)]
pub struct VersionStats {
    /// Versions in memory.
    pub memory_bytes: u64,
    /// Pages with versions.
    pub pages: u64,
    /// Pieces in which versions are kept; each belongs to one transaction.
    pub chunks: u64,
    /// Filegroup in which they get pages.
    pub filegroup: u16,
    /// Transactions to be reverted.
    pub aborted: u64,
    /// Lowest id of an active transaction.
    pub oldest_active: Option<TxnId>,
    /// Lowest id of one to be reverted.
    pub oldest_aborted: Option<TxnId>,
    /// Snapshots in use.
    pub snapshots: u64,
    /// Timestamp of the oldest, in order of commits.
    pub oldest_snapshot: Option<u64>,
    /// Entries put back since the database was opened.
    pub rows_reverted: u64,
    /// Pages on which entries were put back.
    pub pages_reverted: u64,
}

/// Counters of one thread of execution, read before and after a statement for `SET STATISTICS IO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounters {
    /// Pages looked at.
    pub logical_reads: u64,
    /// Pages that had to be read from a file.
    pub physical_reads: u64,
    /// Pages that became dirty; changing a dirty page again does not count.
    pub logical_writes: u64,
}
