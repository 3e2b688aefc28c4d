//! Errors of INSERT, UPDATE and DELETE: which message, which state, and in what form each names its table: bare (544),
//! `schema.table` (547, 2627, 2601) or `database.schema.table` (515, 2628).

use crate::error::{Result, SqlError};
use crate::host::{Host, TableRef, VariableType};
use crate::messages::{error, error_state};
use daruma_catalog::{CheckDef, ForeignKeyDef, IndexDef, TableDef};

pub use crate::messages::not_supported;

/// Which statement an error of a constraint names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Insert,
    Update,
    Delete,
    AlterTable,
    Merge,
    /// A new row of a MERGE.
    MergeInsert,
    MergeUpdate,
}

impl Verb {
    /// As constraint errors name the statement.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Insert => "INSERT",
            Verb::Update => "UPDATE",
            Verb::Delete => "DELETE",
            Verb::AlterTable => "ALTER TABLE",
            Verb::Merge | Verb::MergeInsert | Verb::MergeUpdate => "MERGE",
        }
    }

    /// Action on the row, whatever the statement is called.
    fn action(self) -> &'static str {
        match self {
            Verb::MergeInsert => "INSERT",
            Verb::MergeUpdate => "UPDATE",
            other => other.as_str(),
        }
    }
}

/// `schema.table`.
pub fn two_part(table: &TableRef) -> String {
    format!("{}.{}", table.schema_name, table.name)
}

/// `database.schema.table`.
pub fn three_part(table: &TableRef) -> String {
    format!(
        "{}.{}.{}",
        table.database.name(),
        table.schema_name,
        table.name
    )
}

/// 515: a NULL for a column that does not allow it.
pub fn null_not_allowed(table: &TableRef, column: &str, verb: Verb) -> SqlError {
    error_state(515, 2, &[&column, &three_part(table), &verb.action()])
}

/// 544: a value for an identity column while IDENTITY_INSERT is OFF.
pub fn identity_insert_off(table: &TableRef) -> SqlError {
    error(544, &[&table.name])
}

/// 545: no value for an identity column while IDENTITY_INSERT is ON.
pub fn identity_value_missing(table: &TableRef) -> SqlError {
    error(545, &[&table.name])
}

/// 8101: IDENTITY_INSERT is ON and the column is not listed.
pub fn identity_needs_column_list(written: &str) -> SqlError {
    error(8101, &[&written])
}

/// 339: DEFAULT or NULL as an identity value.
pub fn identity_default() -> SqlError {
    error(339, &[])
}

/// 8102: SET of an identity column.
pub fn identity_update(column: &str) -> SqlError {
    error(8102, &[&column])
}

/// 8115: the next identity value does not fit the column's type.
pub fn identity_overflow(data_type: &str) -> SqlError {
    error(8115, &[&"IDENTITY", &data_type])
}

/// 271: a value for a computed column.
pub fn computed_column(column: &str) -> SqlError {
    error(271, &[&column])
}

/// 272: SET of a rowversion column.
pub fn rowversion_update() -> SqlError {
    error(272, &[])
}

/// 273: a value for a rowversion column.
pub fn rowversion_insert() -> SqlError {
    error(273, &[])
}

/// 213: as many values as columns are needed, and no columns are listed.
pub fn value_count_mismatch() -> SqlError {
    error(213, &[])
}

/// 109: more columns are listed than there are values.
pub fn fewer_values() -> SqlError {
    error(109, &[])
}

/// 110: fewer columns are listed than there are values.
pub fn more_values() -> SqlError {
    error(110, &[])
}

/// 199: the SELECT of an INSERT assigns variables.
pub fn assigning_source() -> SqlError {
    error(199, &[])
}

/// 120: the SELECT has fewer items than columns are listed.
pub fn fewer_items() -> SqlError {
    error(120, &[])
}

/// 121: the SELECT has more items than columns are listed.
pub fn more_items() -> SqlError {
    error(121, &[])
}

/// 10709: rows of VALUES differ in length.
pub fn uneven_values() -> SqlError {
    error(10709, &[])
}

/// 264: a column is assigned twice.
pub fn column_twice(column: &str) -> SqlError {
    error(264, &[&column])
}

/// 207: there is no column of this name.
pub fn unknown_column(column: &str) -> SqlError {
    error(207, &[&column])
}

/// 107: `prefix.*` names no table of the statement.
pub fn unknown_prefix(prefix: &str) -> SqlError {
    error(107, &[&prefix])
}

/// 208: there is no object of this name, or it may not be seen.
pub fn invalid_object(name: &str) -> SqlError {
    error(208, &[&name])
}

/// 259: a system view is the target.
pub fn system_catalog() -> SqlError {
    error(259, &[])
}

/// The table variable that a statement changes: 1087 when there is none of the name, 10700 when it is a parameter.
pub fn changed_variable(host: &dyn Host, name: &str) -> Result<TableRef> {
    match host.variable_type(name) {
        Some(VariableType::Table(table)) => Ok(table),
        Some(VariableType::Parameter(_)) => Err(error(10700, &[&name])),
        _ => Err(undeclared_table_variable(name)),
    }
}

/// 1077: a table variable takes no values for its identity column.
pub fn explicit_identity() -> SqlError {
    error(1077, &[])
}

/// 1087: there is no table variable of this name.
pub fn undeclared_table_variable(name: &str) -> SqlError {
    error_state(1087, 2, &[&name])
}

/// 1060: TOP is no integer.
pub fn bad_row_count() -> SqlError {
    error(1060, &[])
}

/// 127: TOP is below 0.
pub fn negative_row_count() -> SqlError {
    error(127, &[])
}

/// Why a view cannot be written through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewProblem {
    ManyTables,
    Aggregates,
    Derived,
}

/// 4405, 4403 or 4406: a view or derived table that rows cannot be changed through.
pub fn not_updatable(name: &str, why: ViewProblem) -> SqlError {
    let number = match why {
        ViewProblem::ManyTables => 4405,
        ViewProblem::Aggregates => 4403,
        ViewProblem::Derived => 4406,
    };
    error(number, &[&name])
}

/// 334: OUTPUT without INTO into a table with triggers for the action.
pub fn output_with_triggers(target: &str) -> SqlError {
    error(334, &[&target])
}

/// 2627 for a constraint, 2601 for a plain unique index. `values` is the key as `(1, abc)`.
pub fn duplicate_key(table: &TableRef, index: &IndexDef, values: &str) -> SqlError {
    let object = two_part(table);
    let name = index.name.as_deref().unwrap_or("");
    match &index.constraint {
        Some(constraint) => {
            let kind = if constraint.is_primary_key {
                "PRIMARY KEY"
            } else {
                "UNIQUE KEY"
            };
            error(2627, &[&kind, &name, &object, &values])
        }
        None => error(2601, &[&object, &name, &values]),
    }
}

/// 1505: CREATE UNIQUE INDEX met two equal keys.
pub fn duplicate_in_build(table: &TableRef, index: &IndexDef, values: &str) -> SqlError {
    error(
        1505,
        &[
            &two_part(table),
            &index.name.as_deref().unwrap_or(""),
            &values,
        ],
    )
}

/// Warning sent once per statement when IGNORE_DUP_KEY dropped rows.
pub fn duplicate_ignored() -> SqlError {
    error(3604, &[])
}

/// 547: a row that a check constraint refuses.
pub fn check_violation(table: &TableRef, check: &CheckDef, verb: Verb) -> SqlError {
    let column = check
        .column_id
        .and_then(|id| table.def.column(id))
        .map(|c| c.name.as_str());
    conflict(verb, "CHECK", &check.name, table, column)
}

/// A row of `child` names a key that `parent` does not have.
pub fn foreign_key_violation(
    parent: &TableRef,
    child: &TableRef,
    key: &ForeignKeyDef,
    verb: Verb,
) -> SqlError {
    let kind = if same_table(parent, child) {
        "FOREIGN KEY SAME TABLE"
    } else {
        "FOREIGN KEY"
    };
    let column = single_column(&parent.def, &key.referenced_columns);
    conflict(verb, kind, &key.name, parent, column)
}

/// A key of `parent` that rows of `child` still name would go away.
pub fn reference_violation(
    parent: &TableRef,
    child: &TableRef,
    key: &ForeignKeyDef,
    verb: Verb,
) -> SqlError {
    let kind = if same_table(parent, child) {
        "SAME TABLE REFERENCE"
    } else {
        "REFERENCE"
    };
    let column = single_column(&child.def, &key.columns);
    conflict(verb, kind, &key.name, child, column)
}

fn same_table(a: &TableRef, b: &TableRef) -> bool {
    a.object_id == b.object_id && a.database.id() == b.database.id()
}

fn single_column<'a>(def: &'a TableDef, ids: &[i32]) -> Option<&'a str> {
    match ids {
        [id] => def.column(*id).map(|c| c.name.as_str()),
        _ => None,
    }
}

fn conflict(
    verb: Verb,
    kind: &str,
    name: &str,
    table: &TableRef,
    column: Option<&str>,
) -> SqlError {
    let (before, after) = if column.is_some() {
        (", column '", "'")
    } else {
        ("", "")
    };
    let column = column.unwrap_or("");
    let (verb, database, table) = (verb.as_str(), table.database.name(), two_part(table));
    error_state(
        547,
        0,
        &[
            &verb, &kind, &name, &database, &table, &before, &column, &after,
        ],
    )
}

/// Cascades and views that run away.
pub fn too_deep(limit: usize) -> SqlError {
    error(217, &[&limit])
}
