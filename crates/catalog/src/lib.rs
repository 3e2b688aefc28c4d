//! Catalog: databases, schemas, tables, columns, indexes, constraints, programs and principals as stored rows.
//!
//! Theory: every object is one row of the database's catalog tree, serialised with names so that later releases can
//! add fields. A `DatabaseCatalog`] is an immutable snapshot of all of them, shared by readers. A transaction that
//! changes definitions keeps a private `CatalogDelta` over the snapshot; commit publishes it, rollback forgets it,
//! and the rows in the tree are rolled back by storage like any others. So DDL is transactional.
//!
//! This room knows storage and types; it knows no SQL text except as opaque definitions.
//!
//! Read next: `model`.

pub mod model;

pub use model::*;
