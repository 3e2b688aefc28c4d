//! Storage engine: pages, log, B+trees, transactions, versions, locks and recovery of one or more databases.
//!
//! Theory: a table or index is a B+tree of (key bytes, payload bytes); this crate has never heard of SQL, columns or
//! types. Keys compare as bytes. Every leaf entry carries the id of the transaction that wrote it and the locator of
//! its previous version, so readers never wait for writers, row locks are waits on a transaction id, and rollback and
//! recovery know what to take back.
//!
//! How to use it, bottom up:
//! * [`Engine`] owns what all databases share (buffer pool, lock manager, waits). [`Database`] is one set of files.
//! * [`Owner`] holds locks and may be chosen as a deadlock victim: one per session transaction.
//! * [`Database::begin`] gives a [`Txn`] (cheap handle, clone freely). It gets an id at its first write.
//! * [`Database::tree`] gives a [`Tree`]; [`Tree::get`], [`Tree::scan`] read under a [`ReadView`]; [`Tree::insert`],
//!   [`Tree::update`], [`Tree::delete`] write under a `Txn`.
//! * [`Database::background_step`] does checkpoints and cleaning; a thread of the program calls it regularly.
//! * Values over a page go through [`Database::put_blob`]; the caller stores the [`BlobRef`] in its payload.
//!
//! Writing rows that were read before: pass the [`Stamp`] seen by the read. If the row changed since, the write is
//! refused with [`WriteOutcome::Changed`] and the caller reads again and decides anew. A write that meets a row of
//! an active transaction waits for that transaction first.

mod ahead;
mod alloc;
mod api;
mod aside;
mod blob;
mod buffer;
mod bytes;
mod chain;
mod check;
mod coordinator;
mod copy;
mod database;
mod datafile;
mod delta;
mod engine;
mod epoch;
mod error;
mod follow;
mod free;
#[doc(hidden)]
pub mod hostile;
mod kept;
mod lock;
mod log;
mod mend;
mod meter;
mod overlay;
mod page;
mod page_set;
mod pause;
mod pins;
mod planted;
mod pressure;
mod properties;
mod pvs;
mod rebuild;
mod redo;
mod replay;
mod revert;
mod roll;
mod status;
mod sweep;
mod sync;
mod together;
mod trace;
mod tree;
mod txn;
mod undo;
mod unit;
mod version;
mod work;

pub use api::*;
pub use buffer::thread_io;
pub use check::{CheckReport, CheckWatch, Checker, Finding, FindingKind, TreeSummary};
pub use coordinator::{Directory, Outcome, ResolvedUnit};
pub use copy::{DataCopy, FileExtents, LogChunk, LogSource, PageRun, check_pages, is_changed};
pub use database::{Database, FileContent};
pub use datafile::FORMAT_VERSION as FILE_FORMAT;
pub use engine::{Engine, EngineConfig};
pub use epoch::{EPOCHS_MAX, Epoch, Epochs};
pub use error::{Result, StorageError, is_full};
pub use follow::{Cut, Secondary, StandingPin};
pub use free::ClosedFiles;
pub use lock::{Deadlock, DeadlockOwner, DeadlockWatch, Owner};
pub use log::rebuild::{LogSection, Stop};
pub use log::{
    BlockError, CommitPoint, DelayedStats, Fed, FeedBlock, FeedLimit, LOG_FORMAT, LogFeed,
    LogFlusher, LogHold, LogLine, LogListing, LogWriterSignal, NoFeed, VlfInfo, inspect_unpadded,
};
pub use mend::Mending;
pub use meter::IoStats;
pub use overlay::OverlayDisk;
pub use pins::{PinKind, SweepTimes, VersionPin};
#[cfg(feature = "planted-bugs")]
pub use planted::{Bug, plant, planted};
pub use rebuild::{BOOT_BYTES, Rebuild};
pub use roll::PageRoll;
pub use sweep::CleanScope;
pub use together::commit_together;
pub use trace::{FileTrace, is_whole_data_file};
pub use tree::figures::{FiguresMode, LevelFigures, TreeFigures};
pub use tree::{RowLock, Scan, Tree, TreeUse};
pub use txn::{ReadView, Txn, UnhardCommit};
pub use unit::Unit;
