//! Keys, checks, defaults and foreign keys.

use super::define::{Rows, View};
use super::objects::{object_columns, object_row};
use super::source::{ObjectLine, Source, Table, shown_text};
use crate::error::Result;
use daruma_catalog::ReferentialAction;

pub(super) const VIEWS: &[View] = &[
    View::sys("key_constraints", KEYS, keys),
    View::sys("check_constraints", CHECKS, checks),
    View::sys("default_constraints", DEFAULTS, defaults),
    View::sys("foreign_keys", FOREIGN_KEYS, foreign_keys),
    View::sys(
        "foreign_key_columns",
        FOREIGN_KEY_COLUMNS,
        foreign_key_columns,
    ),
];

const KEYS: &str = concat!(
    object_columns!(),
    "unique_index_id int?; is_system_named bit; is_enforced bit? = 1"
);
const CHECKS: &str = concat!(
    object_columns!(),
    "is_disabled bit; is_not_for_replication bit; is_not_trusted bit; parent_column_id int; definition nvarchar(max)?;
    uses_database_collation bit? = 1; is_system_named bit"
);
const DEFAULTS: &str = concat!(
    object_columns!(),
    "parent_column_id int; definition nvarchar(max)?; is_system_named bit"
);
const FOREIGN_KEYS: &str = concat!(
    object_columns!(),
    "referenced_object_id int?; key_index_id int?; is_disabled bit; is_not_for_replication bit; is_not_trusted bit;
    delete_referential_action tinyint?; delete_referential_action_desc nvarchar(60)?;
    update_referential_action tinyint?; update_referential_action_desc nvarchar(60)?; is_system_named bit"
);

fn constraint_row(
    source: &Source<'_>,
    table: &Table,
    id: i32,
    name: &str,
    type_code: &'static str,
    rows: &mut Rows<'_>,
) {
    let line = ObjectLine {
        id,
        name: name.to_string(),
        schema_id: table.schema_id,
        parent_id: table.id,
        type_code,
        created_utc: table.created_utc,
        modified_utc: table.modified_utc,
        is_ms_shipped: false,
    };
    object_row(source, &line, rows);
}

fn keys(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for table in source.tables()? {
        for index in &table.def.indexes {
            let Some(key) = &index.constraint else {
                continue;
            };
            let name = index.name.as_deref().unwrap_or_default();
            constraint_row(
                source,
                &table,
                key.id,
                name,
                if key.is_primary_key { "PK" } else { "UQ" },
                rows,
            );
            rows.set("unique_index_id", index.id)
                .set("is_system_named", key.is_system_named);
        }
    }
    Ok(())
}

fn checks(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for table in source.tables()? {
        for check in &table.def.checks {
            constraint_row(source, &table, check.id, &check.name, "C ", rows);
            rows.set("is_disabled", check.disabled)
                .set("is_not_trusted", check.not_trusted)
                .set("parent_column_id", check.column_id.unwrap_or(0))
                .set("definition", shown_text(&check.definition))
                .set("is_system_named", check.is_system_named);
        }
    }
    Ok(())
}

fn defaults(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for table in source.tables()? {
        for column in &table.def.columns {
            let Some(default) = &column.default else {
                continue;
            };
            constraint_row(source, &table, default.id, &default.name, "D ", rows);
            rows.set("parent_column_id", column.id)
                .set("definition", shown_text(&default.definition))
                .set("is_system_named", default.is_system_named);
        }
    }
    Ok(())
}

/// Number and name of a referential action.
pub(super) fn action(action: ReferentialAction) -> (i32, &'static str) {
    match action {
        ReferentialAction::NoAction => (0, "NO_ACTION"),
        ReferentialAction::Cascade => (1, "CASCADE"),
        ReferentialAction::SetNull => (2, "SET_NULL"),
        ReferentialAction::SetDefault => (3, "SET_DEFAULT"),
    }
}

fn foreign_keys(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for table in source.tables()? {
        for key in &table.def.foreign_keys {
            constraint_row(source, &table, key.id, &key.name, "F ", rows);
            let (delete, delete_name) = action(key.on_delete);
            let (update, update_name) = action(key.on_update);
            rows.set("referenced_object_id", key.referenced_table)
                .set("key_index_id", key.referenced_index)
                .set("is_disabled", key.disabled)
                .set("is_not_trusted", key.not_trusted)
                .set("delete_referential_action", delete)
                .set("delete_referential_action_desc", delete_name)
                .set("update_referential_action", update)
                .set("update_referential_action_desc", update_name)
                .set("is_system_named", key.is_system_named);
        }
    }
    Ok(())
}

const FOREIGN_KEY_COLUMNS: &str = "
    constraint_object_id int; constraint_column_id int; parent_object_id int; parent_column_id int;
    referenced_object_id int; referenced_column_id int";

fn foreign_key_columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for table in source.tables()? {
        for key in &table.def.foreign_keys {
            let pairs = key.columns.iter().zip(&key.referenced_columns);
            for (at, (parent, referenced)) in pairs.enumerate() {
                rows.add()
                    .set("constraint_object_id", key.id)
                    .set("constraint_column_id", at + 1)
                    .set("parent_object_id", table.id)
                    .set("parent_column_id", *parent)
                    .set("referenced_object_id", key.referenced_table)
                    .set("referenced_column_id", *referenced);
            }
        }
    }
    Ok(())
}
