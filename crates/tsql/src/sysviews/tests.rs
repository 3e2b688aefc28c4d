//! Shapes of the views: descriptions parse, names and ids are unique.

use super::*;
use crate::host::VirtualTable;
use std::collections::HashSet;

fn registry() -> Registry {
    let mut registry = Registry::default();
    register(&mut registry);
    registry
}

/// Parsing panics (debug builds) on a description it does not understand.
#[test]
fn every_description_parses_to_unique_columns() {
    let mut views = HashSet::new();
    for view in ALL.iter().copied().flatten() {
        assert!(
            views.insert((view.schema, view.name)),
            "{} twice",
            view.name
        );
        let registered = Registered::new(view);
        let mut names = HashSet::new();
        for column in registered.columns() {
            let plain = column.name.chars().all(|c| {
                c.is_ascii_alphanumeric() || c == '_' || (c == ' ' && view.name == "fn_dblog")
            });
            assert!(
                plain && names.insert(column.name.to_lowercase()),
                "{}.{}",
                view.name,
                column.name
            );
        }
        assert!(!names.is_empty(), "{}", view.name);
    }
}

#[test]
fn system_objects_have_ids_of_their_own() {
    let registry = registry();
    let objects = system_objects(&registry);
    let id = |schema: &str, name: &str| system_object(&registry, schema, name).map(|o| o.id);
    let ids: HashSet<i32> = objects.iter().map(|o| o.id).collect();
    assert_eq!(ids.len(), objects.len());
    assert!(ids.iter().all(|id| *id < 0));
    let found = id("sys", "XML_indexes");
    let found = found.and_then(|id| system_object_by_id(&registry, id));
    assert_eq!(found.map(|o| o.name), Some("xml_indexes".to_string()));
    assert_ne!(id("sys", "columns"), id("information_schema", "columns"));
    assert_eq!(id("dbo", "sysobjects"), id("sys", "sysobjects"));
    assert_eq!(id("sys", "no_such_view"), None);
}

/// Order and completeness where clients use positions or `SELECT *`.
#[test]
fn well_known_columns_are_in_their_places() {
    let registry = registry();
    for (view, position, column) in [
        ("databases", 1, "name"),
        ("databases", 54, "log_reuse_wait_desc"),
        ("columns", 20, "is_xml_document"),
        ("types", 15, "is_table_type"),
        ("indexes", 19, "filter_definition"),
        ("dm_exec_sessions", 37, "transaction_isolation_level"),
        ("dm_tran_locks", 12, "request_session_id"),
    ] {
        let table = registry
            .table("sys", view)
            .map(|t| t.columns()[position - 1].name.clone());
        assert_eq!(table.as_deref(), Some(column), "{view}");
    }
}
