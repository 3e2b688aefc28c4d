//! Definitions as a principal may know them: without what is hidden from it, and without texts that it may not read.
//!
//! Theory: a principal with any permission on something sees it; its text (of modules, constraints, defaults, computed columns,
//! filters) is for those who could change it or were given VIEW DEFINITION. A part is as visible as what it belongs to.
//! The result is a catalog like any other, with empty texts in the place of those that are kept back, so that views and
//! functions about definitions cannot tell more than it holds.

use super::Execution;
use super::rights::{Rights, Securable};
use crate::host::{Host, TableRef};
use crate::instance::{MASTER, TEMPDB};
use daruma_base::DatabaseId;
use daruma_catalog::{
    Change, DatabaseCatalog, DdlTriggerDef, Object, ObjectKind, PrincipalDef, PropertyClass,
    PropertySet, Put, TableDef, TypeDef, constraints_of,
};
use std::sync::Arc;

/// Each of them lets one know of every database.
const EVERY_DATABASE: &[&str] = &[
    "VIEW ANY DATABASE",
    "ALTER ANY DATABASE",
    "CREATE ANY DATABASE",
];

impl Execution<'_> {
    /// May the session know that the database is there? What it may enter it knows.
    pub(crate) fn knows_database(&self, database: DatabaseId) -> bool {
        let server = self.state.server_rights();
        matches!(database, MASTER | TEMPDB)
            || database == self.current_database()
            || EVERY_DATABASE.iter().any(|p| server.has(p))
            || self.state.rights(database).is_ok()
    }

    /// Other sessions' tables are for those who may do everything.
    pub(crate) fn knows_temporary(&self, table: &TableRef) -> bool {
        table.name.starts_with("##") || self.is_unlimited() || self.state.has_temp(table.object_id)
    }
}

pub(super) fn visible_to(whole: &DatabaseCatalog, rights: &Rights) -> DatabaseCatalog {
    let mut visible = whole.clone();
    for object in whole.objects() {
        let on = securable_of(whole, object);
        if !rights.sees(whole, on) {
            hide_object(object, &mut visible);
        } else if !rights.reads_text(whole, on) {
            hide_text(object, &mut visible);
        }
    }
    let may_see = |t: &&Arc<DdlTriggerDef>| {
        ["ALTER ANY DATABASE DDL TRIGGER", "VIEW DEFINITION"]
            .iter()
            .any(|p| rights.may(whole, p, Securable::Database) && !t.on_server)
    };
    for trigger in whole.ddl_triggers().filter(|t| !may_see(t)) {
        visible.apply(&Change::DropDdlTrigger(trigger.clone()));
    }
    let hidden_types = whole.types().filter(|t| !sees_type(whole, rights, t));
    for def in hidden_types {
        visible.apply(&Change::DropType(def.id));
        forget_properties(PropertyClass::Type, def.id, &mut visible);
    }
    let others = whole
        .principals()
        .filter(|p| !sees_principal(whole, rights, p));
    for def in others {
        visible.apply(&Change::DropPrincipal(def.id));
        forget_properties(PropertyClass::Principal, def.id, &mut visible);
    }
    visible
}

/// A trigger is as visible as its table.
fn securable_of(whole: &DatabaseCatalog, object: &Object) -> Securable {
    let table = match &object.kind {
        ObjectKind::Trigger(trigger) => whole.object(trigger.parent),
        _ => None,
    };
    Securable::of(table.map_or(object, |t| t))
}

/// Types have no permissions of their own here: those on the schema count.
fn sees_type(whole: &DatabaseCatalog, rights: &Rights, def: &TypeDef) -> bool {
    rights.sees(whole, Securable::Schema(def.schema_id))
}

/// Itself, its roles, and those it manages or may act as.
fn sees_principal(whole: &DatabaseCatalog, rights: &Rights, def: &PrincipalDef) -> bool {
    let manages = match def.is_role {
        true => "ALTER ANY ROLE",
        false => "ALTER ANY USER",
    };
    let on = Securable::Principal(def.id);
    rights.principals.contains(&def.id)
        || rights.may(whole, manages, Securable::Database)
        || ["VIEW DEFINITION", "IMPERSONATE", "ALTER"]
            .iter()
            .any(|p| rights.may(whole, p, on))
}

fn hide_object(object: &Arc<Object>, visible: &mut DatabaseCatalog) {
    visible.apply(&Change::DropObject(object.clone()));
    if let ObjectKind::Table(def) = &object.kind {
        for (constraint, _) in constraints_of(object.id, def) {
            forget_properties(PropertyClass::Object, constraint.id, visible);
        }
    }
}

fn forget_properties(class: PropertyClass, major: i32, visible: &mut DatabaseCatalog) {
    let none = PropertySet {
        class,
        major,
        list: Vec::new(),
    };
    visible.apply(&Change::PutProperties(Put::new(none)));
}

fn hide_text(object: &Object, visible: &mut DatabaseCatalog) {
    let mut shown = object.clone();
    match &mut shown.kind {
        ObjectKind::View(module) | ObjectKind::Procedure(module) | ObjectKind::Function(module) => {
            Arc::make_mut(module).definition.clear()
        }
        ObjectKind::Trigger(trigger) => Arc::make_mut(trigger).module.definition.clear(),
        ObjectKind::Table(def) if has_text(def) => clear_texts(Arc::make_mut(def)),
        _ => return,
    }
    visible.apply(&Change::PutObject(Put::new(shown)));
}

fn has_text(def: &TableDef) -> bool {
    !def.checks.is_empty()
        || def.indexes.iter().any(|i| i.filter.is_some())
        || def
            .columns
            .iter()
            .any(|c| c.default.is_some() || c.computed.is_some())
}

fn clear_texts(def: &mut TableDef) {
    def.checks.iter_mut().for_each(|c| c.definition.clear());
    let filters = def.indexes.iter_mut().filter_map(|i| i.filter.as_mut());
    filters.for_each(String::clear);
    for column in &mut def.columns {
        if let Some(default) = &mut column.default {
            default.definition.clear();
        }
        if let Some(computed) = &mut column.computed {
            computed.definition.clear();
        }
    }
}
