//! Changes to a catalog and the private overlay of a transaction that makes them.
//!
//! Theory: a delta is a list of changes over a published snapshot. Its view is that snapshot with the list applied, so
//! the transaction sees its own definitions and, after [`CatalogDelta::refresh`], those others committed meanwhile.
//! Rolling back to a savepoint cuts the list; committing publishes it.

use crate::message::MessageSet;
use crate::model::*;
use crate::property::PropertySet;
use crate::server::{LoginDef, PermissionSet, PrincipalDef};
use crate::snapshot::DatabaseCatalog;
use std::sync::Arc;

/// One definition put in place or taken away.
#[derive(Clone, Debug)]
pub enum Change {
    PutSchema(Arc<SchemaDef>),
    DropSchema(SchemaId),
    PutObject(Arc<Object>),
    DropObject(ObjectId),
    PutType(Arc<TypeDef>),
    DropType(i32),
    PutPrincipal(Arc<PrincipalDef>),
    DropPrincipal(i32),
    /// An empty list takes the row away.
    PutPermissions(Arc<PermissionSet>),
    /// As `PutPermissions`.
    PutProperties(Arc<PropertySet>),
    /// As `PutPermissions`; in master alone.
    PutMessages(Arc<MessageSet>),
    /// In master alone.
    PutLogin(Arc<LoginDef>),
    /// As `PutLogin`.
    DropLogin(i32),
}

/// Uncommitted definitions of one transaction in one database.
#[derive(Clone, Debug)]
pub struct CatalogDelta {
    changes: Vec<Change>,
    base: Arc<DatabaseCatalog>,
    view: Arc<DatabaseCatalog>,
}

impl CatalogDelta {
    /// No changes yet, over the snapshot that the transaction began with.
    pub fn new(base: Arc<DatabaseCatalog>) -> CatalogDelta {
        CatalogDelta {
            changes: Vec::new(),
            view: base.clone(),
            base,
        }
    }

    /// Definitions as the transaction sees them.
    pub fn view(&self) -> &Arc<DatabaseCatalog> {
        &self.view
    }

    /// The changes so far, in their order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Number of changes so far: the position of a savepoint.
    pub fn position(&self) -> usize {
        self.changes.len()
    }

    /// Adds a change; the view shows it from now on.
    pub fn push(&mut self, change: Change) {
        Arc::make_mut(&mut self.view).apply(&change);
        self.changes.push(change);
    }

    /// Forgets all changes made after `position`.
    pub fn rollback_to(&mut self, position: usize) {
        if position < self.changes.len() {
            self.changes.truncate(position);
            self.rebuild();
        }
    }

    /// Moves the overlay over a newer published snapshot.
    pub fn refresh(&mut self, current: &Arc<DatabaseCatalog>) {
        if !Arc::ptr_eq(&self.base, current) {
            self.base = current.clone();
            self.rebuild();
        }
    }

    fn rebuild(&mut self) {
        let mut view = (*self.base).clone();
        for change in &self.changes {
            view.apply(change);
        }
        self.view = Arc::new(view);
    }
}
