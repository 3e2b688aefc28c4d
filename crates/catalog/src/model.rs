//! Definitions as they are stored and shared. Names compare without case (database collation); ids are SQL Server's
//! kind of ids: `object_id` per database, `column_id` and `index_id` per table.

use daruma_storage::TreeId;
use daruma_value::{CollationId, DataType};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Id of an object (`sys.objects.object_id`), unique in its database.
pub type ObjectId = i32;
/// Id of a schema (`sys.schemas.schema_id`), unique in its database.
pub type SchemaId = i32;
/// 1-based, never reused within a table.
pub type ColumnId = i32;
/// 0 heap, 1 clustered, 2.. nonclustered.
pub type IndexId = i32;

/// Schema `dbo`, which every database has.
pub const SCHEMA_DBO: SchemaId = 1;
/// Schema `guest`.
pub const SCHEMA_GUEST: SchemaId = 2;
/// Schema `INFORMATION_SCHEMA`, whose views are built in.
pub const SCHEMA_INFORMATION_SCHEMA: SchemaId = 3;
/// Schema `sys`, whose views are built in.
pub const SCHEMA_SYS: SchemaId = 4;
/// First id given to user objects; smaller ids belong to system objects.
pub const FIRST_USER_OBJECT_ID: ObjectId = 901_578_250;

/// A schema: a name space that a principal owns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchemaDef {
    pub id: SchemaId,
    pub name: String,
    pub principal_id: i32,
}

/// An object of `sys.objects`. Constraints live inside their table but have ids and names of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Object {
    pub id: ObjectId,
    pub schema_id: SchemaId,
    pub name: String,
    /// 100 ns since 1970-01-01 UTC.
    pub created_utc: i64,
    pub modified_utc: i64,
    pub kind: ObjectKind,
}

/// Kind of an object, with its definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ObjectKind {
    Table(Arc<TableDef>),
    View(Arc<ModuleDef>),
    Procedure(Arc<ModuleDef>),
    Function(Arc<ModuleDef>),
    Trigger(Arc<TriggerDef>),
    Sequence(Arc<SequenceDef>),
    Synonym { target: String },
}

/// A table: user, temporary or table variable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableDef {
    pub columns: Vec<ColumnDef>,
    /// The first is the table itself: `index_id` 0 (heap) or 1 (clustered).
    pub indexes: Vec<IndexDef>,
    pub checks: Vec<CheckDef>,
    pub foreign_keys: Vec<ForeignKeyDef>,
    pub identity: Option<IdentityDef>,
    pub next_column_id: ColumnId,
    /// Data space of LOB data and of the table: filegroup id, 1 = PRIMARY.
    pub filegroup: u16,
    pub ansi_nulls: bool,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnDef {
    pub id: ColumnId,
    pub name: String,
    pub data_type: DataType,
    /// Alias type, if declared with one (`sys.types.user_type_id`); `sysname` is 256.
    pub user_type_id: Option<i32>,
    pub nullable: bool,
    pub collation: CollationId,
    pub default: Option<DefaultDef>,
    pub computed: Option<ComputedDef>,
    pub is_identity: bool,
    pub is_rowguid: bool,
    pub is_sparse: bool,
    /// Value of this column in rows stored before the column was added, as T-SQL literal text; `None` is NULL.
    pub missing_value: Option<String>,
}

/// A DEFAULT constraint of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefaultDef {
    pub id: ObjectId,
    pub name: String,
    pub is_system_named: bool,
    /// Expression text in parentheses, as `sys.default_constraints.definition` shows it.
    pub definition: String,
}

/// The expression of a computed column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComputedDef {
    pub definition: String,
    pub persisted: bool,
}

/// The IDENTITY property of a column; the value it stands at is a counter elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct IdentityDef {
    pub column_id: ColumnId,
    /// 38 digits fit.
    pub seed: i128,
    pub increment: i128,
    pub not_for_replication: bool,
}

/// An index, or the heap or clustered index that holds a table's rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndexDef {
    pub id: IndexId,
    pub name: Option<String>,
    pub kind: IndexKind,
    #[serde(with = "tree_id")]
    pub tree: TreeId,
    pub unique: bool,
    /// Set when a PRIMARY KEY or UNIQUE constraint owns the index: the constraint's object id.
    pub constraint: Option<KeyConstraintDef>,
    pub key: Vec<IndexColumn>,
    /// Nonclustered: columns carried besides the key and the row locator.
    pub included: Vec<ColumnId>,
    pub filter: Option<String>,
    pub fill_factor: u8,
    pub ignore_dup_key: bool,
    pub disabled: bool,
    pub filegroup: u16,
}

/// How an index is keyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexKind {
    /// A B+tree keyed by a hidden 8-byte row number that only grows.
    Heap,
    /// Not unique: the hidden row number follows the key columns.
    Clustered,
    Nonclustered,
}

/// A PRIMARY KEY or UNIQUE constraint, which an index enforces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyConstraintDef {
    pub id: ObjectId,
    pub is_primary_key: bool,
    pub is_system_named: bool,
}

/// A key column of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexColumn {
    pub column_id: ColumnId,
    pub descending: bool,
}

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckDef {
    pub id: ObjectId,
    pub name: String,
    pub is_system_named: bool,
    pub definition: String,
    /// Set for a column-level check (`parent_column_id`).
    pub column_id: Option<ColumnId>,
    pub disabled: bool,
    pub not_trusted: bool,
}

/// A FOREIGN KEY constraint, stored with the table that refers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForeignKeyDef {
    pub id: ObjectId,
    pub name: String,
    pub is_system_named: bool,
    pub columns: Vec<ColumnId>,
    pub referenced_table: ObjectId,
    pub referenced_columns: Vec<ColumnId>,
    /// Index of the referenced table that enforces uniqueness.
    pub referenced_index: IndexId,
    pub on_delete: ReferentialAction,
    pub on_update: ReferentialAction,
    pub disabled: bool,
    pub not_trusted: bool,
}

/// Action on rows that refer to one which is deleted or whose key changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReferentialAction {
    NoAction,
    Cascade,
    SetNull,
    SetDefault,
}

/// A view, procedure or function: its text is its definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModuleDef {
    /// The CREATE statement as written.
    pub definition: String,
    pub ansi_nulls: bool,
    pub quoted_identifier: bool,
    /// Result columns as bound at creation (views), for `sys.columns`.
    pub columns: Vec<ColumnDef>,
    pub parameters: Vec<ParameterDef>,
    pub schema_bound: bool,
    /// Of a function that is no inline one.
    #[serde(default)]
    pub function: Option<FunctionDef>,
}

/// What a function of several statements gives, and how it may be used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionDef {
    /// Type of its value; `None` for one that gives rows, which are of the module's columns.
    pub returns: Option<ReturnDef>,
    /// RETURNS NULL ON NULL INPUT.
    pub null_on_null_input: bool,
    /// Bound to its schema, and of expressions alone that give the same for the same arguments.
    pub is_deterministic: bool,
}

/// Type of a function's value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReturnDef {
    pub data_type: DataType,
    pub user_type_id: Option<i32>,
}

/// A parameter of a procedure or function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterDef {
    /// With the leading `@`.
    pub name: String,
    pub data_type: DataType,
    pub user_type_id: Option<i32>,
    pub is_output: bool,
    pub has_default: bool,
    pub is_readonly: bool,
}

impl ParameterDef {
    /// In the place of `user_type_id`: the parameter is CURSOR VARYING OUTPUT, which is of no type.
    pub const CURSOR: i32 = -1;

    /// Does it give a cursor to the caller?
    pub fn is_cursor(&self) -> bool {
        self.user_type_id == Some(ParameterDef::CURSOR)
    }
}

/// A trigger and the statements that fire it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriggerDef {
    pub module: ModuleDef,
    pub parent: ObjectId,
    pub on_insert: bool,
    pub on_update: bool,
    pub on_delete: bool,
    pub instead_of: bool,
    pub disabled: bool,
}

/// A sequence; the value it stands at is a counter elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SequenceDef {
    pub data_type: DataType,
    pub start: i128,
    pub increment: i128,
    pub minimum: i128,
    pub maximum: i128,
    pub cycle: bool,
    /// CACHE: how many values, 0 for NO CACHE, `None` where the server may choose.
    #[serde(default)]
    pub cache: Option<i32>,
}

/// Alias type (`CREATE TYPE .. FROM`). Built-in types are not stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeDef {
    /// `user_type_id`, from 257.
    pub id: i32,
    pub schema_id: SchemaId,
    pub name: String,
    pub data_type: DataType,
    pub nullable: bool,
    /// Table types carry their shape.
    pub table: Option<Arc<TableDef>>,
}

impl ParameterDef {
    /// Its table type, if it is a table: nothing else is read only.
    pub fn table_type(&self) -> Option<i32> {
        self.user_type_id.filter(|_| self.is_readonly)
    }
}

impl TableDef {
    /// The column with this id.
    pub fn column(&self, id: ColumnId) -> Option<&ColumnDef> {
        self.columns.iter().find(|c| c.id == id)
    }

    /// The column with this name, whatever its case.
    pub fn column_named(&self, name: &str) -> Option<&ColumnDef> {
        self.columns.iter().find(|c| names_equal(&c.name, name))
    }

    /// Position of a column in `columns`.
    pub fn ordinal(&self, id: ColumnId) -> Option<usize> {
        self.columns.iter().position(|c| c.id == id)
    }

    /// The table's own storage: heap or clustered index.
    pub fn primary(&self) -> Option<&IndexDef> {
        self.indexes.first()
    }

    /// The index with this id; 0 and 1 are the table's rows.
    pub fn index(&self, id: IndexId) -> Option<&IndexDef> {
        self.indexes.iter().find(|i| i.id == id)
    }
}

impl Object {
    /// Code of `sys.objects.type`, two characters.
    pub fn type_code(&self) -> &'static str {
        match &self.kind {
            ObjectKind::Table(_) => "U ",
            ObjectKind::View(_) => "V ",
            ObjectKind::Procedure(_) => "P ",
            ObjectKind::Function(module) => match &module.function {
                None => "IF",
                Some(function) if function.returns.is_none() => "TF",
                Some(_) => "FN",
            },
            ObjectKind::Trigger(_) => "TR",
            ObjectKind::Sequence(_) => "SO",
            ObjectKind::Synonym { .. } => "SN",
        }
    }
}

/// Do two catalog names mean the same? Case-insensitive as in the default collation; trailing blanks do not count.
pub fn names_equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.trim_end_matches(' '), b.trim_end_matches(' '));
    if a.is_ascii() && b.is_ascii() {
        a.eq_ignore_ascii_case(b)
    } else {
        a.to_lowercase() == b.to_lowercase()
    }
}

/// Form of a name for hash maps: equal exactly when `names_equal`.
pub fn name_key(name: &str) -> String {
    let name = name.trim_end_matches(' ');
    if name.is_ascii() {
        name.to_ascii_lowercase()
    } else {
        name.to_lowercase()
    }
}

mod tree_id {
    use daruma_base::PageId;
    use daruma_storage::TreeId;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes a tree's id as the number of its root page.
    pub fn serialize<S: Serializer>(tree: &TreeId, s: S) -> Result<S::Ok, S::Error> {
        tree.0.to_u64().serialize(s)
    }

    /// Reads a tree's id from the number of its root page.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<TreeId, D::Error> {
        Ok(TreeId(PageId::from_u64(u64::deserialize(d)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function as servers wrote it that knew inline ones alone.
    const INLINE: &str = r#"{"Function":{"definition":"CREATE FUNCTION dbo.f () RETURNS TABLE AS RETURN (SELECT 1 AS a)",
        "ansi_nulls":true,"quoted_identifier":true,"columns":[],"parameters":[],"schema_bound":false}}"#;

    #[test]
    fn a_function_without_the_newer_field_is_an_inline_one() {
        let kind: ObjectKind = serde_json::from_str(INLINE).unwrap();
        let ObjectKind::Function(module) = &kind else {
            panic!("{kind:?}");
        };
        assert_eq!(module.function, None);
        let object = Object {
            id: 1,
            schema_id: SCHEMA_DBO,
            name: "f".to_string(),
            created_utc: 0,
            modified_utc: 0,
            kind,
        };
        assert_eq!(object.type_code(), "IF");
    }
}
