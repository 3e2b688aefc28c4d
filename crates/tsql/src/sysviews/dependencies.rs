//! Objects that modules name: `sys.sql_expression_dependencies`, `sys.sql_dependencies`.
//!
//! Theory: nothing is stored of it. A module's text is read again, and what it names where an object stands (FROM, the
//! targets of changes, EXEC, calls of functions, sequences) is looked up as the module would. A name of several parts
//! that means nothing yet is listed without an id; a bare one is not, for it may be an alias or a common table
//! expression.

use super::define::{Rows, View};
use super::objects::module_of;
use super::source::{Source, sorted_objects};
use crate::error::Result;
use daruma_catalog::{DatabaseCatalog, Object, ObjectKind, SCHEMA_DBO, name_key};
use daruma_syntax::ast::{Ident, ObjectName};
use daruma_syntax::{ParseOptions, named_objects};
use std::collections::HashSet;

pub(super) const VIEWS: &[View] = &[
    View::sys("sql_expression_dependencies", EXPRESSIONS, expressions),
    View::sys("sql_dependencies", OLD, old),
];

const EXPRESSIONS: &str = "
    referencing_id int; referencing_minor_id int; referencing_class tinyint? = 1;
    referencing_class_desc nvarchar(60)? = OBJECT_OR_COLUMN; is_schema_bound_reference bit; referenced_class tinyint? = 1;
    referenced_class_desc nvarchar(60)? = OBJECT_OR_COLUMN; referenced_server_name sysname?;
    referenced_database_name sysname?; referenced_schema_name sysname?; referenced_entity_name sysname?;
    referenced_id int?; referenced_minor_id int; is_caller_dependent bit; is_ambiguous bit";

fn expressions(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let catalog = source.catalog()?;
    for object in sorted_objects(&catalog) {
        let bound = module_of(&object).is_some_and(|m| m.schema_bound);
        for Reference { name, id } in references(&catalog, &object) {
            let part = |part: &Option<Ident>| part.as_ref().map(|p| p.text.clone());
            rows.add()
                .set("referencing_id", object.id)
                .set("is_schema_bound_reference", bound)
                .set("referenced_server_name", part(&name.server))
                .set("referenced_database_name", part(&name.database))
                .set("referenced_schema_name", part(&name.schema))
                .set("referenced_entity_name", &name.name.text)
                .set("referenced_id", id);
        }
    }
    Ok(())
}

const OLD: &str = "
    class tinyint; class_desc nvarchar(60)? = OBJECT_OR_COLUMN_REFERENCE_NON_SCHEMA_BOUND; object_id int; column_id int;
    referenced_major_id int; referenced_minor_id int; is_selected bit; is_updated bit; is_select_all bit";

fn old(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let catalog = source.catalog()?;
    for object in sorted_objects(&catalog) {
        let bound = module_of(&object).is_some_and(|m| m.schema_bound);
        let known = references(&catalog, &object)
            .into_iter()
            .filter_map(|r| r.id);
        for id in known {
            let row = rows.add();
            row.set("object_id", object.id)
                .set("referenced_major_id", id);
            if bound {
                row.set("class", 1)
                    .set("class_desc", "OBJECT_OR_COLUMN_REFERENCE_SCHEMA_BOUND");
            }
        }
    }
    Ok(())
}

/// Something that a module names.
struct Reference {
    name: ObjectName,
    /// The object of this database that it means.
    id: Option<i32>,
}

/// Each once. A text that may not be seen names nothing.
fn references(catalog: &DatabaseCatalog, object: &Object) -> Vec<Reference> {
    let Some(module) = module_of(object) else {
        return Vec::new();
    };
    let options = ParseOptions {
        quoted_identifier: module.quoted_identifier,
    };
    // The module's own name comes first, then the table of a trigger.
    let own = match object.kind {
        ObjectKind::Trigger(_) => 2,
        _ => 1,
    };
    let mut found: Vec<Reference> = Vec::new();
    let mut known = HashSet::new();
    for name in named_objects(&module.definition, &options)
        .into_iter()
        .skip(own)
    {
        let id = meaning(catalog, object, &name);
        let is_told = id.is_some() || is_elsewhere(&name);
        if !is_told || id == Some(object.id) {
            continue;
        }
        let unknown_name = id.is_none().then(|| parts(&name));
        if known.insert((id, unknown_name)) {
            found.push(Reference { name, id });
        }
    }
    found
}

/// The parts of a name as they are compared.
fn parts(name: &ObjectName) -> [Option<String>; 4] {
    let outer = [&name.server, &name.database, &name.schema];
    let key = |part: &Option<Ident>| part.as_ref().map(|p| name_key(&p.text));
    let [server, database, schema] = outer.map(key);
    [server, database, schema, Some(name_key(&name.name.text))]
}

/// Several parts, and not of the system.
fn is_elsewhere(name: &ObjectName) -> bool {
    let of_system = |s: &Ident| s.is("sys") || s.is("INFORMATION_SCHEMA");
    let schema = name.schema.as_ref();
    (schema.is_some() || name.database.is_some()) && !schema.is_some_and(of_system)
}

/// Names without a schema are looked for in the module's own, then in dbo.
fn meaning(catalog: &DatabaseCatalog, object: &Object, name: &ObjectName) -> Option<i32> {
    if name.server.is_some() || name.database.is_some() {
        return None;
    }
    let path = match &name.schema {
        Some(schema) => vec![catalog.schema_named(&schema.text)?.id],
        None => vec![object.schema_id, SCHEMA_DBO],
    };
    let found = path
        .iter()
        .find_map(|schema| catalog.object_named(*schema, &name.name.text));
    found.map(|o| o.id)
}
