//! Storage engine: pages, log, B+trees, transactions, versions, locks and recovery of one or more databases.
//!
//! Theory: a table or index is a B+tree of (key bytes, payload bytes); this crate has never heard of SQL, columns or
//! types. Keys compare as bytes. Every leaf entry carries the id of the transaction that wrote it and the locator of
//! its previous version, so readers never wait for writers, row locks are waits on a transaction id, and rollback and
//! recovery know what to take back.
//!
//! How to use it, bottom up:
//! * [`Engine`] owns what all databases share (buffer pool, lock manager, waits). [`Database`] is one set of files.
//! * [`Owner`] is whoever holds locks and may be chosen as a deadlock victim: one per session transaction.
//! * [`Database::begin`] gives a [`Txn`] (cheap handle, clone freely). It gets an id at its first write.
//! * [`Database::tree`] gives a [`Tree`]; [`Tree::get`], [`Tree::scan`] read under a [`ReadView`]; [`Tree::insert`],
//!   [`Tree::update`], [`Tree::delete`] write under a `Txn`.
//! * Values over a page go through [`Database::put_blob`]; the caller stores the [`BlobRef`] in its payload.
//!
//! Writing rows that were read before: pass the [`Stamp`] seen by the read. If the row changed since, the write is
//! refused with [`WriteOutcome::Changed`] and the caller reads again and decides anew. A write that meets a row of
//! an active transaction waits for that transaction first.

mod api;
mod bytes;
mod delta;
mod error;
mod log;
mod page;
mod stub;

pub use api::*;
pub use error::{Result, StorageError};
pub use stub::{Database, Engine, EngineConfig, Owner, ReadView, Scan, Tree, Txn};
