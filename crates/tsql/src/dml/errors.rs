//! Errors of INSERT, UPDATE, DELETE and bulk load, with the product's numbers, levels, states and words.
//!
//! Names of tables come in the form each message shows them: bare (544), `schema.table` (547, 2627, 2601) or
//! `database.schema.table` (515, 2628).

use crate::error::SqlError;
use crate::host::TableRef;
use daruma_catalog::{CheckDef, ForeignKeyDef, IndexDef, TableDef};

/// Which statement an error of a constraint names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Insert,
    Update,
    Delete,
    AlterTable,
}

impl Verb {
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Insert => "INSERT",
            Verb::Update => "UPDATE",
            Verb::Delete => "DELETE",
            Verb::AlterTable => "ALTER TABLE",
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

pub fn null_not_allowed(table: &TableRef, column: &str, verb: Verb) -> SqlError {
    let text = format!(
        "Cannot insert the value NULL into column '{column}', table '{}'; column does not allow nulls. {} fails.",
        three_part(table),
        verb.as_str()
    );
    SqlError::new(515, 16, 2, text)
}

pub fn truncated(table: &TableRef, column: &str, kept: &str) -> SqlError {
    let text = format!(
        "String or binary data would be truncated in table '{}', column '{column}'. Truncated value: '{kept}'.",
        three_part(table)
    );
    SqlError::new(2628, 16, 1, text)
}

pub fn identity_insert_off(table: &TableRef) -> SqlError {
    let text = format!(
        "Cannot insert explicit value for identity column in table '{}' when IDENTITY_INSERT is set to OFF.",
        table.name
    );
    SqlError::new(544, 16, 1, text)
}

pub fn identity_value_missing(table: &TableRef) -> SqlError {
    let text = format!(
        "Explicit value must be specified for identity column in table '{}' either when IDENTITY_INSERT is set to ON or when a replication user is inserting into a NOT FOR REPLICATION identity column.",
        table.name
    );
    SqlError::new(545, 16, 1, text)
}

pub fn identity_needs_column_list(written: &str) -> SqlError {
    let text = format!(
        "An explicit value for the identity column in table '{written}' can only be specified when a column list is used and IDENTITY_INSERT is ON."
    );
    SqlError::new(8101, 16, 1, text)
}

pub fn identity_default() -> SqlError {
    SqlError::new(
        339,
        16,
        1,
        "DEFAULT or NULL are not allowed as explicit identity values.",
    )
}

pub fn identity_update(column: &str) -> SqlError {
    SqlError::new(
        8102,
        16,
        1,
        format!("Cannot update identity column '{column}'."),
    )
}

pub fn identity_overflow(data_type: &str) -> SqlError {
    SqlError::new(
        8115,
        16,
        1,
        format!("Arithmetic overflow error converting IDENTITY to data type {data_type}."),
    )
}

pub fn computed_column(column: &str) -> SqlError {
    let text = format!(
        "The column \"{column}\" cannot be modified because it is either a computed column or is the result of a UNION operator."
    );
    SqlError::new(271, 16, 1, text)
}

pub fn rowversion_update() -> SqlError {
    SqlError::new(272, 16, 1, "Cannot update a timestamp column.")
}

pub fn rowversion_insert() -> SqlError {
    SqlError::new(
        273,
        16,
        1,
        "Cannot insert an explicit value into a timestamp column. Use INSERT with a column list to exclude the timestamp column, or insert a DEFAULT into the timestamp column.",
    )
}

pub fn value_count_mismatch() -> SqlError {
    SqlError::new(
        213,
        16,
        1,
        "Column name or number of supplied values does not match table definition.",
    )
}

pub fn fewer_values() -> SqlError {
    SqlError::new(
        109,
        15,
        1,
        "There are more columns in the INSERT statement than values specified in the VALUES clause. The number of values in the VALUES clause must match the number of columns specified in the INSERT statement.",
    )
}

pub fn more_values() -> SqlError {
    SqlError::new(
        110,
        15,
        1,
        "There are fewer columns in the INSERT statement than values specified in the VALUES clause. The number of values in the VALUES clause must match the number of columns specified in the INSERT statement.",
    )
}

pub fn fewer_items() -> SqlError {
    SqlError::new(
        120,
        15,
        1,
        "The select list for the INSERT statement contains fewer items than the insert list. The number of SELECT values must match the number of INSERT columns.",
    )
}

pub fn more_items() -> SqlError {
    SqlError::new(
        121,
        15,
        1,
        "The select list for the INSERT statement contains more items than the insert list. The number of SELECT values must match the number of INSERT columns.",
    )
}

pub fn uneven_values() -> SqlError {
    SqlError::new(
        10709,
        16,
        1,
        "The number of columns for each row in a table value constructor must be the same.",
    )
}

pub fn column_twice(column: &str) -> SqlError {
    let text = format!(
        "The column name '{column}' is specified more than once in the SET clause or column list of an INSERT. A column cannot be assigned more than one value in the same clause. Modify the clause to make sure that a column is updated only once. If this statement updates or inserts columns into a view, column aliasing can conceal the duplication in your code."
    );
    SqlError::new(264, 16, 1, text)
}

pub fn unknown_column(column: &str) -> SqlError {
    SqlError::new(207, 16, 1, format!("Invalid column name '{column}'."))
}

pub fn unbound_name(name: &str) -> SqlError {
    SqlError::new(
        4104,
        16,
        1,
        format!("The multi-part identifier \"{name}\" could not be bound."),
    )
}

pub fn invalid_object(name: &str) -> SqlError {
    SqlError::new(208, 16, 1, format!("Invalid object name '{name}'."))
}

pub fn not_updatable(name: &str, why: ViewProblem) -> SqlError {
    match why {
        ViewProblem::ManyTables => SqlError::new(
            4405,
            16,
            1,
            format!(
                "View or function '{name}' is not updatable because the modification affects multiple base tables."
            ),
        ),
        ViewProblem::Aggregates => SqlError::new(
            4403,
            16,
            1,
            format!(
                "Cannot update the view or function '{name}' because it contains aggregates, or a DISTINCT or GROUP BY clause, or PIVOT or UNPIVOT operator."
            ),
        ),
        ViewProblem::Derived => SqlError::new(
            4406,
            16,
            1,
            format!(
                "Update or insert of view or function '{name}' failed because it contains a derived or constant field."
            ),
        ),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewProblem {
    ManyTables,
    Aggregates,
    Derived,
}

pub fn output_with_triggers(target: &str) -> SqlError {
    let text = format!(
        "The target table '{target}' of the DML statement cannot have any enabled triggers if the statement contains an OUTPUT clause without INTO clause."
    );
    SqlError::new(334, 16, 1, text)
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
            let text = format!(
                "Violation of {kind} constraint '{name}'. Cannot insert duplicate key in object '{object}'. The duplicate key value is {values}."
            );
            SqlError::new(2627, 14, 1, text)
        }
        None => {
            let text = format!(
                "Cannot insert duplicate key row in object '{object}' with unique index '{name}'. The duplicate key value is {values}."
            );
            SqlError::new(2601, 14, 1, text)
        }
    }
}

/// 1505: CREATE UNIQUE INDEX met two equal keys.
pub fn duplicate_in_build(table: &TableRef, index: &IndexDef, values: &str) -> SqlError {
    let text = format!(
        "The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for the object name '{}' and the index name '{}'. The duplicate key value is {values}.",
        two_part(table),
        index.name.as_deref().unwrap_or("")
    );
    SqlError::new(1505, 16, 1, text)
}

/// Warning sent once per statement when IGNORE_DUP_KEY dropped rows.
pub fn duplicate_ignored() -> SqlError {
    SqlError::new(3604, 10, 1, "Duplicate key was ignored.")
}

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
    let place = column
        .map(|c| format!(", column '{c}'"))
        .unwrap_or_default();
    let text = format!(
        "The {} statement conflicted with the {kind} constraint \"{name}\". The conflict occurred in database \"{}\", table \"{}\"{place}.",
        verb.as_str(),
        table.database.name(),
        two_part(table)
    );
    SqlError::new(547, 16, 0, text)
}

/// A clause that is understood and refused.
pub fn not_supported(what: &str) -> SqlError {
    SqlError::new(40517, 16, 1, format!("{what} is not supported."))
}

pub fn unknown_prefix(prefix: &str) -> SqlError {
    let text = format!(
        "The column prefix '{prefix}' does not match with a table name or alias name used in the query."
    );
    SqlError::new(107, 15, 1, text)
}

pub fn write_not_supported() -> SqlError {
    not_supported("UPDATE .. SET column.WRITE (..)")
}

pub fn system_catalog() -> SqlError {
    SqlError::new(
        259,
        16,
        1,
        "Ad hoc updates to system catalogs are not allowed.",
    )
}
