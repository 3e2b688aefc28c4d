//! Catalog: databases, schemas, tables, columns, indexes, constraints, programs and principals as stored rows.
//!
//! Theory: every object is one row of the database's catalog tree, serialised with names so that later releases can
//! add fields. A [`DatabaseCatalog`] is an immutable snapshot of all of them, shared by readers. A transaction that
//! changes definitions keeps a private [`CatalogDelta`] over the snapshot; commit publishes it, rollback forgets it,
//! and the rows in the tree are rolled back by storage like any others. So DDL is transactional.
//!
//! Invariants
//! 1. A snapshot never changes; versions only grow.
//! 2. A transaction that changes an object holds its schema modification lock until the change is published.
//! 3. A definition is replaced by one that was made of it ([`Change::is_of`]).
//! 4. A counter value is never given out twice: its mark hardens before anything that uses it.
//!
//! This room knows storage and types; it knows no SQL text except as opaque definitions.
//!
//! Read next: `model`, `snapshot`, `change`, `catalog`.

mod alone;
mod catalog;
mod change;
mod counters;
mod ddl_trigger;
mod error;
mod event;
mod group;
mod message;
pub mod model;
mod property;
mod rows;
mod server;
mod snapshot;
mod statistics;

pub use catalog::Catalog;
pub use change::{CatalogDelta, Change, Put};
pub use counters::{CounterId, Pace, Reached};
pub use ddl_trigger::DdlTriggerDef;
pub use error::{CatalogError, Result};
pub use event::*;
pub use group::*;
pub use message::{MessageDef, MessageSet};
pub use model::*;
pub use property::{PropertyClass, PropertyDef, PropertySet, PropertyValue};
pub use server::*;
pub use snapshot::{ConstraintKind, ConstraintRef, DatabaseCatalog, constraints_of};
pub use statistics::{FIRST_STATISTICS_ID, HistogramStep, StatisticsDef, TableStatistics};
