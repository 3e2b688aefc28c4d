//! CHECKCATALOG: do definitions refer to what is there?
//!
//! They are looked at as they are stored, not as the server holds them in memory.

use super::report::{Place, Report};
use crate::error::{Result, SqlError};
use crate::instance::DatabaseEntry;
use crate::messages;
use crate::session::SystemCall;
use daruma_catalog::{Catalog, DatabaseCatalog, Object, ObjectKind, TableDef};

/// A reference that leads nowhere: what refers, from where, to what, where it should be.
pub(super) struct Dangling {
    attribute: String,
    row: String,
    view: &'static str,
    target: String,
    target_view: &'static str,
}

pub(super) fn check(
    call: &SystemCall<'_, '_>,
    report: &mut Report<'_, '_, '_>,
    entry: &DatabaseEntry,
) -> Result<()> {
    let open = entry.open()?;
    // Read again from its rows: what a damaged row says is an error of that row, not of the server's copy.
    let stored = Catalog::open(&open.storage)?;
    let catalog = stored.current();
    let mut objects: Vec<_> = catalog.objects().cloned().collect();
    objects.sort_by_key(|o| o.id);
    let filegroups: Vec<u16> = entry.def().filegroups.iter().map(|f| f.id).collect();
    report.begin_rest();
    for object in objects {
        call.execution.check_cancel()?;
        let mut dangling = Vec::new();
        references(&catalog, &object, &filegroups, &mut dangling);
        for one in dangling {
            let place = Place {
                object: object.id,
                ..Place::default()
            };
            report.error(vec![one.told()], place, false)?;
        }
    }
    report.end_rest()
}

impl Dangling {
    pub(super) fn told(&self) -> SqlError {
        let inner = messages::error(
            3853,
            &[
                &self.attribute,
                &self.row,
                &self.view,
                &self.target,
                &self.target_view,
            ],
        );
        messages::error(8992, &[&3853, &1, &inner.message])
    }
}

pub(super) fn references(
    catalog: &DatabaseCatalog,
    object: &Object,
    filegroups: &[u16],
    out: &mut Vec<Dangling>,
) {
    let row = format!("object_id={}", object.id);
    let mut missing = |attribute: String, view, target: String, target_view| {
        out.push(Dangling {
            attribute,
            row: row.clone(),
            view,
            target,
            target_view,
        });
    };
    let schema = object.schema_id;
    if catalog.schema(schema).is_none() {
        let text = format!("schema_id={schema}");
        missing(text.clone(), "objects", text, "schemas");
    }
    if let ObjectKind::Table(def) = &object.kind {
        columns(def, &mut missing);
        spaces(def, filegroups, &mut missing);
        foreign_keys(catalog, def, &mut missing);
    }
}

type Missing<'m> = dyn FnMut(String, &'static str, String, &'static str) + 'm;

fn columns(def: &TableDef, missing: &mut Missing<'_>) {
    for index in &def.indexes {
        let keys = index.key.iter().map(|k| k.column_id);
        for column in keys.chain(index.included.iter().copied()) {
            if def.column(column).is_none() {
                let attribute = format!("index_id={},column_id={column}", index.id);
                let target = format!("column_id={column}");
                missing(attribute, "index_columns", target, "columns");
            }
        }
    }
}

fn spaces(def: &TableDef, filegroups: &[u16], missing: &mut Missing<'_>) {
    for index in &def.indexes {
        if !filegroups.contains(&index.filegroup) {
            let text = format!("data_space_id={}", index.filegroup);
            missing(text.clone(), "indexes", text, "data_spaces");
        }
    }
}

fn foreign_keys(catalog: &DatabaseCatalog, def: &TableDef, missing: &mut Missing<'_>) {
    for key in &def.foreign_keys {
        let parent = catalog.object(key.referenced_table);
        let index = parent.and_then(|p| match &p.kind {
            ObjectKind::Table(parent) => parent.index(key.referenced_index),
            _ => None,
        });
        if index.is_none() {
            let attribute = format!("referenced_object_id={}", key.referenced_table);
            let target = format!(
                "object_id={},index_id={}",
                key.referenced_table, key.referenced_index
            );
            missing(attribute, "foreign_keys", target, "indexes");
        }
    }
}
