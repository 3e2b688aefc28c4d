//! Changes to a catalog and the private overlay of a transaction that makes them.
//!
//! Theory: a delta is a list of changes over a published snapshot. Its view is that snapshot with the list applied, so
//! the transaction sees its own definitions and, after [`CatalogDelta::refresh`], those others committed meanwhile.
//! Rolling back to a savepoint cuts the list; committing publishes it.
//!
//! A definition is stored as a whole, so one that was made of a reading which others have replaced meanwhile would undo
//! what they did. A [`Put`] says what it was made of, and [`Change::is_of`] tells whether that still stands.

use crate::ddl_trigger::DdlTriggerDef;
use crate::message::MessageSet;
use crate::model::*;
use crate::property::{PropertyClass, PropertySet};
use crate::server::{LoginDef, PermissionSet, PrincipalDef};
use crate::snapshot::DatabaseCatalog;
use std::ops::Deref;
use std::sync::Arc;

/// A definition to be put in place, and the one that it was made of.
#[derive(Clone, Debug)]
pub struct Put<T> {
    def: Arc<T>,
    /// Nothing for what is new.
    before: Option<Arc<T>>,
}

impl<T: PartialEq> Put<T> {
    /// One that nothing stands in the place of.
    pub fn new(def: T) -> Put<T> {
        Put::of(None, def)
    }

    /// One that was made of `before`.
    pub fn over(before: &Arc<T>, def: T) -> Put<T> {
        Put::of(Some(before), def)
    }

    /// One that was made of what was found, which may be nothing.
    pub fn of(before: Option<&Arc<T>>, def: T) -> Put<T> {
        Put {
            def: Arc::new(def),
            before: before.cloned(),
        }
    }

    /// The definition.
    pub fn def(&self) -> &Arc<T> {
        &self.def
    }

    /// Does it replace nothing?
    pub fn is_new(&self) -> bool {
        self.before.is_none()
    }

    fn is_of(&self, now: Option<&Arc<T>>) -> bool {
        match (&self.before, now) {
            (None, None) => true,
            (Some(before), Some(now)) => is_same(before, now),
            _ => false,
        }
    }
}

impl<T> Deref for Put<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.def
    }
}

fn is_same<T: PartialEq>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

/// One definition put in place or taken away.
#[derive(Clone, Debug)]
pub enum Change {
    PutSchema(Put<SchemaDef>),
    DropSchema(SchemaId),
    PutObject(Put<Object>),
    /// The object as it was read.
    DropObject(Arc<Object>),
    PutType(Put<TypeDef>),
    DropType(i32),
    PutDdlTrigger(Put<DdlTriggerDef>),
    /// The trigger as it was read.
    DropDdlTrigger(Arc<DdlTriggerDef>),
    PutPrincipal(Put<PrincipalDef>),
    DropPrincipal(i32),
    /// An empty list takes the row away.
    PutPermissions(Put<PermissionSet>),
    /// As `PutPermissions`.
    PutProperties(Put<PropertySet>),
    /// As `PutPermissions`; in master alone.
    PutMessages(Put<MessageSet>),
    /// In master alone.
    PutLogin(Put<LoginDef>),
    /// As `PutLogin`.
    DropLogin(i32),
}

impl Change {
    /// What the definition is called, for messages: its name, or whose it is.
    pub fn name(&self) -> String {
        match self {
            Change::PutSchema(put) => put.name.clone(),
            Change::PutObject(put) => put.name.clone(),
            Change::DropObject(object) => object.name.clone(),
            Change::PutType(put) => put.name.clone(),
            Change::PutDdlTrigger(put) => put.name.clone(),
            Change::DropDdlTrigger(trigger) => trigger.name.clone(),
            Change::PutPrincipal(put) => put.name.clone(),
            Change::PutLogin(put) => put.name.clone(),
            Change::PutPermissions(put) => format!("permissions of {}", put.grantee),
            Change::PutProperties(put) => format!("properties of {}", put.major),
            Change::PutMessages(put) => format!("message {}", put.number),
            Change::DropSchema(id) => format!("schema {id}"),
            Change::DropType(id) => format!("type {id}"),
            Change::DropPrincipal(id) => format!("principal {id}"),
            Change::DropLogin(id) => format!("login {id}"),
        }
    }

    /// Whose extended properties go with it: those of a schema, type or principal that is dropped, or that had the number of a new one.
    /// Those of an object are of several classes.
    pub fn ends_properties(&self) -> Option<(PropertyClass, i32)> {
        match self {
            Change::DropSchema(id) => Some((PropertyClass::Schema, *id)),
            Change::PutSchema(put) if put.is_new() => Some((PropertyClass::Schema, put.id)),
            Change::DropType(id) => Some((PropertyClass::Type, *id)),
            Change::PutType(put) if put.is_new() => Some((PropertyClass::Type, put.id)),
            Change::DropPrincipal(id) => Some((PropertyClass::Principal, *id)),
            Change::PutPrincipal(put) if put.is_new() => Some((PropertyClass::Principal, put.id)),
            _ => None,
        }
    }

    /// Was it made of what `now` has in its place?
    pub fn is_of(&self, now: &DatabaseCatalog) -> bool {
        match self {
            Change::PutSchema(put) => put.is_of(now.schema(put.id)),
            Change::PutObject(put) => put.is_of(now.object(put.id)),
            Change::DropObject(object) => {
                let found = now.object(object.id);
                found.is_some_and(|found| is_same(object, found))
            }
            Change::PutType(put) => put.is_of(now.type_by_id(put.id)),
            Change::PutDdlTrigger(put) => put.is_of(now.ddl_trigger(put.id)),
            Change::DropDdlTrigger(trigger) => {
                let found = now.ddl_trigger(trigger.id);
                found.is_some_and(|found| is_same(trigger, found))
            }
            Change::PutPrincipal(put) => put.is_of(now.principal(put.id)),
            Change::PutPermissions(put) => put.is_of(now.permissions_of(put.grantee)),
            Change::PutProperties(put) => put.is_of(now.properties_of(put.class, put.major)),
            Change::PutMessages(put) => put.is_of(now.message(put.number)),
            Change::PutLogin(put) => put.is_of(now.login(put.id)),
            Change::DropSchema(_)
            | Change::DropType(_)
            | Change::DropPrincipal(_)
            | Change::DropLogin(_) => true,
        }
    }
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
