//! sys.extended_properties and fn_listextendedproperty.

use super::define::{Cell, Rows, View};
use super::source::Source;
use crate::error::Result;
use crate::session::is_of_kind;
use daruma_catalog::{
    DatabaseCatalog, Object, ObjectKind, PropertyClass, PropertyDef, PropertyValue, constraints_of,
    names_equal,
};
use daruma_value::convert::{ConvertContext, convert};
use daruma_value::{DataType, Value};

pub(super) const VIEWS: &[View] = &[
    View::sys("extended_properties", PROPERTIES, properties),
    View::function("fn_listextendedproperty", (7, 7), LISTED, listed),
];

const PROPERTIES: &str = "class tinyint; class_desc nvarchar(60)?; major_id int; minor_id int; name sysname; value sql_variant?";

fn properties(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for set in source.catalog()?.properties() {
        for property in &set.list {
            rows.add()
                .set("class", i64::from(set.class.number()))
                .set("class_desc", set.class.description())
                .set("major_id", set.major)
                .set("minor_id", property.minor)
                .set("name", &property.name)
                .set("value", value_cell(property));
        }
    }
    Ok(())
}

fn value_cell(property: &PropertyDef) -> Option<Cell> {
    let PropertyValue { data_type, text } = property.value.as_ref()?;
    let style = crate::sysprocs::text_style(*data_type);
    let context = ConvertContext::default();
    let text = Value::str(text);
    let value = convert(&text, DataType::NVARCHAR_MAX, *data_type, style, &context).ok()?;
    Some((*data_type, value).into())
}

const LISTED: &str = "objtype sysname?; objname sysname?; name sysname; value sql_variant?";

/// Something whose properties are listed.
struct Target {
    kind: String,
    name: String,
    class: PropertyClass,
    major: i32,
    minor: i32,
}

fn listed(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let text = |n: usize| match source.arguments.get(n) {
        Some(Value::Str(text)) => Some(text.to_string()),
        _ => None,
    };
    let wanted = text(0);
    let kinds: Vec<String> = (0..3)
        .map_while(|n| text(1 + n * 2).filter(|t| !t.is_empty()))
        .map(|kind| kind.trim().to_ascii_uppercase())
        .collect();
    let names: Vec<Option<String>> = (0..kinds.len()).map(|n| text(2 + n * 2)).collect();
    let catalog = source.catalog()?;
    for target in targets(source, &catalog, &kinds, &names)? {
        let set = catalog.properties_of(target.class, target.major);
        let list = set.map_or(&[][..], |s| s.list.as_slice());
        let fits = |p: &&PropertyDef| {
            p.minor == target.minor && wanted.as_ref().is_none_or(|w| names_equal(w, &p.name))
        };
        for property in list.iter().filter(fits) {
            let shown = |text: &String| (!text.is_empty()).then(|| text.clone());
            rows.add()
                .set("objtype", shown(&target.kind))
                .set("objname", shown(&target.name))
                .set("name", &property.name)
                .set("value", value_cell(property));
        }
    }
    Ok(())
}

/// Target that the levels name: one thing, or all of a kind where the last name is left out.
fn targets(
    source: &Source<'_>,
    catalog: &DatabaseCatalog,
    kinds: &[String],
    names: &[Option<String>],
) -> Result<Vec<Target>> {
    let kind = |n: usize| kinds.get(n).map_or("", String::as_str);
    let name = |n: usize| names.get(n).and_then(Option::as_deref);
    let schemas = catalog
        .schemas()
        .filter(|s| name(0).is_none_or(|n| names_equal(n, &s.name)));
    let mut found = Vec::new();
    match (kinds.len(), kind(0)) {
        (0, _) => found.push(target("", "", PropertyClass::Database, 0, 0)),
        (1, "SCHEMA") => {
            found.extend(schemas.map(|s| target("SCHEMA", &s.name, PropertyClass::Schema, s.id, 0)))
        }
        (1, "USER") => {
            let users = catalog.principals();
            let users = users.filter(|p| name(0).is_none_or(|n| names_equal(n, &p.name)));
            found.extend(users.map(|p| target("USER", &p.name, PropertyClass::Principal, p.id, 0)));
        }
        (1, "FILEGROUP") => {
            for group in &source.entry()?.def().filegroups {
                if name(0).is_none_or(|n| names_equal(n, &group.name)) {
                    let id = i32::from(group.id);
                    found.push(target(
                        "FILEGROUP",
                        &group.name,
                        PropertyClass::Filegroup,
                        id,
                        0,
                    ));
                }
            }
        }
        (_, "SCHEMA" | "USER") => {
            for schema in schemas.filter(|_| name(0).is_some()) {
                found.extend(in_schema(catalog, schema.id, kinds, names));
            }
        }
        _ => {}
    }
    Ok(found)
}

fn target(kind: &str, name: &str, class: PropertyClass, major: i32, minor: i32) -> Target {
    Target {
        kind: kind.to_string(),
        name: name.to_string(),
        class,
        major,
        minor,
    }
}

fn in_schema(
    catalog: &DatabaseCatalog,
    schema: i32,
    kinds: &[String],
    names: &[Option<String>],
) -> Vec<Target> {
    let kind = kinds.get(1).map_or("", String::as_str);
    let name = names.get(1).and_then(Option::as_deref);
    let fits = |own: &str| name.is_none_or(|n| names_equal(n, own));
    if kind == "TYPE" {
        let types = catalog
            .types()
            .filter(|t| t.schema_id == schema && fits(&t.name));
        return types
            .map(|t| target(kind, &t.name, PropertyClass::Type, t.id, 0))
            .collect();
    }
    let mut objects: Vec<_> = catalog
        .objects()
        .filter(|o| o.schema_id == schema && is_of_kind(o, kind) && fits(&o.name))
        .collect();
    objects.sort_by(|a, b| a.name.cmp(&b.name));
    match kinds.get(2) {
        None => objects
            .iter()
            .map(|o| target(kind, &o.name, PropertyClass::Object, o.id, 0))
            .collect(),
        Some(part) if name.is_some() => {
            let wanted = names.get(2).and_then(Option::as_deref);
            let mut parts: Vec<Target> = objects
                .iter()
                .flat_map(|o| parts_of(catalog, o, part))
                .collect();
            parts.retain(|p| wanted.is_none_or(|w| names_equal(w, &p.name)));
            parts
        }
        Some(_) => Vec::new(),
    }
}

/// All parts of a kind.
fn parts_of(catalog: &DatabaseCatalog, object: &Object, kind: &str) -> Vec<Target> {
    let id = object.id;
    match (kind, &object.kind) {
        ("COLUMN", ObjectKind::Table(def)) => (def.columns.iter())
            .map(|c| target(kind, &c.name, PropertyClass::Object, id, c.id))
            .collect(),
        ("COLUMN", ObjectKind::View(module)) => (module.columns.iter().zip(1..))
            .map(|(c, at)| target(kind, &c.name, PropertyClass::Object, id, at))
            .collect(),
        ("INDEX", ObjectKind::Table(def)) => (def.indexes.iter())
            .filter_map(|i| {
                Some(target(
                    kind,
                    i.name.as_deref()?,
                    PropertyClass::Index,
                    id,
                    i.id,
                ))
            })
            .collect(),
        ("CONSTRAINT", ObjectKind::Table(def)) => (constraints_of(id, def).iter())
            .map(|(c, name)| target(kind, name, PropertyClass::Object, c.id, 0))
            .collect(),
        ("TRIGGER", _) => (catalog.triggers_of(id))
            .map(|t| target(kind, &t.name, PropertyClass::Object, t.id, 0))
            .collect(),
        ("PARAMETER", ObjectKind::Procedure(m) | ObjectKind::Function(m)) => (m.parameters.iter())
            .zip(1..)
            .map(|(p, at)| target(kind, &p.name, PropertyClass::Parameter, id, at))
            .collect(),
        _ => Vec::new(),
    }
}
