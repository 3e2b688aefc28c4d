//! `DatabaseCatalog`: an immutable snapshot of all definitions of one database.
//!
//! Theory: readers share the snapshot through an `Arc`; a change makes a new one. All entries are behind `Arc`s, so a
//! copy costs the maps, not the definitions. Constraints live inside their tables but share the name space of objects,
//! so they are indexed by name and id as well.

use crate::change::Change;
use crate::ddl_trigger::DdlTriggerDef;
use crate::message::MessageSet;
use crate::model::*;
use crate::property::{PropertyClass, PropertySet};
use crate::server::{LoginDef, PermissionSet, PrincipalDef};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A constraint found by name or id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstraintRef {
    pub id: ObjectId,
    pub table: ObjectId,
    pub kind: ConstraintKind,
}

/// Kind of a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintKind {
    PrimaryKey,
    Unique,
    Check,
    Default,
    ForeignKey,
}

impl ConstraintKind {
    /// Code of `sys.objects.type`, two characters.
    pub fn type_code(self) -> &'static str {
        match self {
            ConstraintKind::PrimaryKey => "PK",
            ConstraintKind::Unique => "UQ",
            ConstraintKind::Check => "C ",
            ConstraintKind::Default => "D ",
            ConstraintKind::ForeignKey => "F ",
        }
    }
}

/// All definitions of one database at one moment.
#[derive(Clone, Debug, Default)]
pub struct DatabaseCatalog {
    version: u64,
    schemas: BTreeMap<SchemaId, Arc<SchemaDef>>,
    objects: HashMap<ObjectId, Arc<Object>>,
    names: HashMap<(SchemaId, String), ObjectId>,
    constraints: HashMap<ObjectId, (ConstraintRef, Arc<str>)>,
    constraint_names: HashMap<(SchemaId, String), ObjectId>,
    triggers: HashMap<ObjectId, Vec<ObjectId>>,
    referencing: HashMap<ObjectId, Vec<ObjectId>>,
    types: BTreeMap<i32, Arc<TypeDef>>,
    ddl_triggers: BTreeMap<ObjectId, Arc<DdlTriggerDef>>,
    principals: BTreeMap<i32, Arc<PrincipalDef>>,
    permissions: BTreeMap<i32, Arc<PermissionSet>>,
    properties: BTreeMap<(PropertyClass, i32), Arc<PropertySet>>,
    messages: BTreeMap<i32, Arc<MessageSet>>,
    logins: BTreeMap<i32, Arc<LoginDef>>,
}

impl DatabaseCatalog {
    /// Grows with every published change.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn set_version(&mut self, version: u64) {
        self.version = version;
    }

    /// The schema with this id.
    pub fn schema(&self, id: SchemaId) -> Option<&Arc<SchemaDef>> {
        self.schemas.get(&id)
    }

    /// The schema with this name, whatever its case.
    pub fn schema_named(&self, name: &str) -> Option<&Arc<SchemaDef>> {
        self.schemas.values().find(|s| names_equal(&s.name, name))
    }

    /// All schemas, in the order of their ids.
    pub fn schemas(&self) -> impl Iterator<Item = &Arc<SchemaDef>> {
        self.schemas.values()
    }

    /// The object with this id.
    pub fn object(&self, id: ObjectId) -> Option<&Arc<Object>> {
        self.objects.get(&id)
    }

    /// The object with this name in a schema, whatever its case.
    pub fn object_named(&self, schema: SchemaId, name: &str) -> Option<&Arc<Object>> {
        self.names
            .get(&(schema, name_key(name)))
            .and_then(|id| self.objects.get(id))
    }

    /// In no particular order.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    /// The constraint with this id: its kind and its table.
    pub fn constraint(&self, id: ObjectId) -> Option<ConstraintRef> {
        self.constraints.get(&id).map(|(c, _)| *c)
    }

    /// The name of the constraint with this id.
    pub fn constraint_name(&self, id: ObjectId) -> Option<&str> {
        self.constraints.get(&id).map(|(_, n)| n.as_ref())
    }

    /// The constraint with this name in a schema.
    pub fn constraint_named(&self, schema: SchemaId, name: &str) -> Option<ConstraintRef> {
        let id = self.constraint_names.get(&(schema, name_key(name)))?;
        self.constraint(*id)
    }

    /// Is the name of an object or constraint taken?
    pub fn name_in_use(&self, schema: SchemaId, name: &str) -> bool {
        let key = (schema, name_key(name));
        self.names.contains_key(&key) || self.constraint_names.contains_key(&key)
    }

    /// Is the id of an object, constraint or trigger of definitions taken?
    pub fn id_in_use(&self, id: ObjectId) -> bool {
        self.objects.contains_key(&id)
            || self.constraints.contains_key(&id)
            || self.ddl_triggers.contains_key(&id)
    }

    /// Triggers on a table or view, oldest first.
    pub fn triggers_of(&self, parent: ObjectId) -> impl Iterator<Item = &Arc<Object>> {
        let ids = self.triggers.get(&parent).map_or(&[][..], Vec::as_slice);
        ids.iter().filter_map(|id| self.objects.get(id))
    }

    /// Ids of the tables with foreign keys to `table`.
    pub fn referencing(&self, table: ObjectId) -> &[ObjectId] {
        self.referencing.get(&table).map_or(&[][..], Vec::as_slice)
    }

    /// The alias type with this id.
    pub fn type_by_id(&self, id: i32) -> Option<&Arc<TypeDef>> {
        self.types.get(&id)
    }

    /// The alias type with this name in a schema, whatever its case.
    pub fn type_named(&self, schema: SchemaId, name: &str) -> Option<&Arc<TypeDef>> {
        self.types
            .values()
            .find(|t| t.schema_id == schema && names_equal(&t.name, name))
    }

    /// All alias types, in the order of their ids.
    pub fn types(&self) -> impl Iterator<Item = &Arc<TypeDef>> {
        self.types.values()
    }

    /// Triggers of definitions, oldest first; those of the server are in master's catalog.
    pub fn ddl_triggers(&self) -> impl Iterator<Item = &Arc<DdlTriggerDef>> {
        self.ddl_triggers.values()
    }

    /// The trigger of definitions with this id.
    pub fn ddl_trigger(&self, id: ObjectId) -> Option<&Arc<DdlTriggerDef>> {
        self.ddl_triggers.get(&id)
    }

    /// The trigger of definitions with this name, whatever its case, of the server or of the database.
    pub fn ddl_trigger_named(&self, on_server: bool, name: &str) -> Option<&Arc<DdlTriggerDef>> {
        self.ddl_triggers
            .values()
            .find(|t| t.on_server == on_server && names_equal(&t.name, name))
    }

    /// All users and roles, in the order of their ids.
    pub fn principals(&self) -> impl Iterator<Item = &Arc<PrincipalDef>> {
        self.principals.values()
    }

    /// The user or role with this id.
    pub fn principal(&self, id: i32) -> Option<&Arc<PrincipalDef>> {
        self.principals.get(&id)
    }

    /// Permissions of all principals that have any.
    pub fn permissions(&self) -> impl Iterator<Item = &Arc<PermissionSet>> {
        self.permissions.values()
    }

    /// Permissions granted or denied to a principal; `None` for none.
    pub fn permissions_of(&self, principal: i32) -> Option<&Arc<PermissionSet>> {
        self.permissions.get(&principal)
    }

    /// Extended properties of all that has any.
    pub fn properties(&self) -> impl Iterator<Item = &Arc<PropertySet>> {
        self.properties.values()
    }

    /// Extended properties of one thing; `None` when it has none.
    pub fn properties_of(&self, class: PropertyClass, major: i32) -> Option<&Arc<PropertySet>> {
        self.properties.get(&(class, major))
    }

    /// Messages of users, by number.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = &Arc<MessageSet>> {
        self.messages.values()
    }

    /// The message of users with this number.
    pub fn message(&self, number: i32) -> Option<&Arc<MessageSet>> {
        self.messages.get(&number)
    }

    /// Logins of the server, in the order of their ids; those of master's catalog count.
    pub fn logins(&self) -> impl Iterator<Item = &Arc<LoginDef>> {
        self.logins.values()
    }

    /// The login with this id.
    pub fn login(&self, id: i32) -> Option<&Arc<LoginDef>> {
        self.logins.get(&id)
    }

    /// The login with this name, whatever its case.
    pub fn login_named(&self, name: &str) -> Option<&Arc<LoginDef>> {
        self.logins.values().find(|l| names_equal(&l.name, name))
    }

    /// The user or role with this name, whatever its case.
    pub fn principal_named(&self, name: &str) -> Option<&Arc<PrincipalDef>> {
        self.principals
            .values()
            .find(|p| names_equal(&p.name, name))
    }

    /// A free `principal_id`, `schema_id` or `user_type_id` is one above the largest in use.
    pub fn next_principal_id(&self) -> i32 {
        self.principals.keys().max().map_or(5, |id| (id + 1).max(5))
    }

    /// The id that a new schema gets.
    pub fn next_schema_id(&self) -> SchemaId {
        let user = self.schemas.keys().filter(|id| **id < 16_384);
        user.max().map_or(5, |id| (id + 1).max(5))
    }

    /// The id that a new alias type gets.
    pub fn next_type_id(&self) -> i32 {
        self.types.keys().max().map_or(257, |id| (id + 1).max(257))
    }

    /// Takes a change in. The version stays; whoever publishes sets it.
    pub fn apply(&mut self, change: &Change) {
        if let Some(owner) = change.ends_properties() {
            self.properties.remove(&owner);
        }
        match change {
            Change::PutSchema(schema) => {
                self.schemas.insert(schema.id, schema.def().clone());
            }
            Change::DropSchema(id) => {
                self.schemas.remove(id);
            }
            Change::PutObject(object) => {
                self.remove_object(object.id);
                self.insert_object(object.def().clone());
            }
            Change::DropObject(object) => {
                self.remove_object(object.id);
                for class in PropertyClass::OF_OBJECT {
                    self.properties.remove(&(class, object.id));
                }
            }
            Change::PutType(def) => {
                self.types.insert(def.id, def.def().clone());
            }
            Change::DropType(id) => {
                self.types.remove(id);
            }
            Change::PutDdlTrigger(def) => {
                self.ddl_triggers.insert(def.id, def.def().clone());
            }
            Change::DropDdlTrigger(def) => {
                self.ddl_triggers.remove(&def.id);
            }
            Change::PutPrincipal(def) => {
                self.principals.insert(def.id, def.def().clone());
            }
            Change::DropPrincipal(id) => {
                self.principals.remove(id);
            }
            Change::PutPermissions(set) if set.list.is_empty() => {
                self.permissions.remove(&set.grantee);
            }
            Change::PutPermissions(set) => {
                self.permissions.insert(set.grantee, set.def().clone());
            }
            Change::PutMessages(set) if set.list.is_empty() => {
                self.messages.remove(&set.number);
            }
            Change::PutMessages(set) => {
                self.messages.insert(set.number, set.def().clone());
            }
            Change::PutLogin(def) => {
                self.logins.insert(def.id, def.def().clone());
            }
            Change::DropLogin(id) => {
                self.logins.remove(id);
            }
            Change::PutProperties(set) if set.list.is_empty() => {
                self.properties.remove(&(set.class, set.major));
            }
            Change::PutProperties(set) => {
                self.properties
                    .insert((set.class, set.major), set.def().clone());
            }
        }
    }

    fn insert_object(&mut self, object: Arc<Object>) {
        let key = (object.schema_id, name_key(&object.name));
        self.names.insert(key, object.id);
        match &object.kind {
            ObjectKind::Table(table) => {
                for (constraint, name) in constraints_of(object.id, table) {
                    self.constraint_names
                        .insert((object.schema_id, name_key(&name)), constraint.id);
                    self.constraints.insert(constraint.id, (constraint, name));
                }
                for key in &table.foreign_keys {
                    insert_sorted(
                        self.referencing.entry(key.referenced_table).or_default(),
                        object.id,
                    );
                }
            }
            ObjectKind::Trigger(trigger) => {
                insert_sorted(self.triggers.entry(trigger.parent).or_default(), object.id);
            }
            _ => {}
        }
        self.objects.insert(object.id, object);
    }

    fn remove_object(&mut self, id: ObjectId) {
        let Some(object) = self.objects.remove(&id) else {
            return;
        };
        let key = (object.schema_id, name_key(&object.name));
        if self.names.get(&key) == Some(&id) {
            self.names.remove(&key);
        }
        match &object.kind {
            ObjectKind::Table(table) => {
                for (constraint, name) in constraints_of(id, table) {
                    self.constraints.remove(&constraint.id);
                    self.constraint_names
                        .remove(&(object.schema_id, name_key(&name)));
                }
                for key in &table.foreign_keys {
                    remove_id(&mut self.referencing, key.referenced_table, id);
                }
            }
            ObjectKind::Trigger(trigger) => remove_id(&mut self.triggers, trigger.parent, id),
            _ => {}
        }
    }
}

fn insert_sorted(ids: &mut Vec<ObjectId>, id: ObjectId) {
    if let Err(at) = ids.binary_search(&id) {
        ids.insert(at, id);
    }
}

fn remove_id(map: &mut HashMap<ObjectId, Vec<ObjectId>>, key: ObjectId, id: ObjectId) {
    if let Some(ids) = map.get_mut(&key) {
        ids.retain(|i| *i != id);
        if ids.is_empty() {
            map.remove(&key);
        }
    }
}

/// The named constraints of a table.
pub fn constraints_of(table_id: ObjectId, table: &TableDef) -> Vec<(ConstraintRef, Arc<str>)> {
    let make = |id, kind, name: &str| {
        let constraint = ConstraintRef {
            id,
            table: table_id,
            kind,
        };
        (constraint, Arc::from(name))
    };
    let keys = table.indexes.iter().filter_map(|index| {
        let constraint = index.constraint.as_ref()?;
        let kind = match constraint.is_primary_key {
            true => ConstraintKind::PrimaryKey,
            false => ConstraintKind::Unique,
        };
        Some(make(
            constraint.id,
            kind,
            index.name.as_deref().unwrap_or_default(),
        ))
    });
    let checks = table
        .checks
        .iter()
        .map(|c| make(c.id, ConstraintKind::Check, &c.name));
    let foreign = table
        .foreign_keys
        .iter()
        .map(|f| make(f.id, ConstraintKind::ForeignKey, &f.name));
    let defaults = table.columns.iter().filter_map(|c| c.default.as_ref());
    let defaults = defaults.map(|d| make(d.id, ConstraintKind::Default, &d.name));
    keys.chain(checks).chain(foreign).chain(defaults).collect()
}
