//! Columns, types, identity and computed columns, parameters.

use super::define::{Cell, Rows, View};
use super::source::{Source, shown_text, sorted_objects, user_type_id};
use crate::error::Result;
use crate::sink::OutputColumn;
use daruma_catalog::{
    ColumnDef, CounterId, ObjectKind, ParameterDef, SCHEMA_SYS, TableDef, TypeDef,
};
use daruma_value::{CollationId, DataType, Decimal, Len, Value};

macro_rules! column_columns {
    () => {
        "object_id int; name sysname?; column_id int; system_type_id tinyint; user_type_id int; max_length smallint;
        precision tinyint; scale tinyint; collation_name sysname?; is_nullable bit?; is_ansi_padded bit; is_rowguidcol bit;
        is_identity bit; is_computed bit; is_filestream bit; is_replicated bit? = 0; is_non_sql_subscribed bit? = 0;
        is_merge_published bit? = 0; is_dts_replicated bit? = 0; is_xml_document bit; xml_collection_id int;
        default_object_id int; rule_object_id int; is_sparse bit? = 0; is_column_set bit? = 0;
        generated_always_type tinyint? = 0; generated_always_type_desc nvarchar(60)? = NOT_APPLICABLE;
        encryption_type int?; encryption_type_desc nvarchar(64)?; encryption_algorithm_name sysname?;
        column_encryption_key_id int?; column_encryption_key_database_name sysname?; is_hidden bit? = 0;
        is_masked bit = 0; graph_type int?; graph_type_desc nvarchar(60)?; is_data_deletion_filter_column bit? = 0;
        ledger_view_column_type int?; ledger_view_column_type_desc nvarchar(60)?; is_dropped_ledger_column bit? = 0;"
    };
}

pub(super) const VIEWS: &[View] = &[
    View::sys("columns", column_columns!(), columns),
    View::sys("all_columns", column_columns!(), all_columns),
    View::sys("system_columns", column_columns!(), system_columns),
    View::sys("identity_columns", IDENTITY_COLUMNS, identity_columns),
    View::sys("computed_columns", COMPUTED_COLUMNS, computed_columns),
    View::sys("masked_columns", MASKED_COLUMNS, super::define::nothing),
    View::sys("types", TYPES, types),
    View::sys("parameters", PARAMETERS, parameters),
    View::sys("all_parameters", PARAMETERS, all_parameters),
    View::sys("system_parameters", PARAMETERS, system_parameters),
];

const IDENTITY_COLUMNS: &str = concat!(
    column_columns!(),
    "seed_value sql_variant?; increment_value sql_variant?; last_value sql_variant?; is_not_for_replication bit?"
);
const COMPUTED_COLUMNS: &str = concat!(
    column_columns!(),
    "definition nvarchar(max)?; uses_database_collation bit = 1; is_persisted bit"
);
const MASKED_COLUMNS: &str = concat!(column_columns!(), "masking_function nvarchar(4000)?");

/// Visits every column of tables, views and functions: object id, column, and the table when there is one.
pub(crate) fn each_column(
    source: &Source<'_>,
    mut visit: impl FnMut(i32, &ColumnDef, Option<&TableDef>),
) -> Result<()> {
    for table in source.tables()? {
        table
            .def
            .columns
            .iter()
            .for_each(|c| visit(table.id, c, Some(&table.def)));
    }
    for object in sorted_objects(&*source.catalog()?) {
        if let ObjectKind::View(module) | ObjectKind::Function(module) = &object.kind {
            module
                .columns
                .iter()
                .for_each(|c| visit(object.id, c, None));
        }
    }
    Ok(())
}

fn columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_column(source, |object, column, _| column_row(object, column, rows))?;
    super::base_tables::columns(rows);
    Ok(())
}

fn column_row(object: i32, column: &ColumnDef, rows: &mut Rows<'_>) {
    let data_type = column.data_type;
    rows.add()
        .set("object_id", object)
        .set("name", &column.name)
        .set("column_id", column.id)
        .set("system_type_id", data_type.system_type_id())
        .set("user_type_id", user_type_id(data_type, column.user_type_id))
        .set("max_length", data_type.max_length())
        .set("precision", data_type.precision())
        .set("scale", data_type.scale())
        .set(
            "collation_name",
            collation_name(data_type, column.collation),
        )
        .set("is_nullable", column.nullable)
        .set(
            "is_ansi_padded",
            data_type.is_character() || data_type.is_binary(),
        )
        .set("is_rowguidcol", column.is_rowguid)
        .set("is_identity", column.is_identity)
        .set("is_computed", column.computed.is_some())
        .set(
            "default_object_id",
            column.default.as_ref().map_or(0, |d| d.id),
        )
        .set("is_sparse", column.is_sparse);
}

/// Only text has a collation.
pub(crate) fn collation_name(data_type: DataType, collation: CollationId) -> Option<&'static str> {
    (data_type.is_character() && data_type != DataType::Xml).then(|| collation.name())
}

fn system_columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for object in source.system_objects()? {
        let Some(table) = &object.table else { continue };
        for (at, column) in table.columns().iter().enumerate() {
            system_column_row(object.id, at + 1, column, rows);
        }
    }
    Ok(())
}

pub(super) fn system_column_row(
    object: i32,
    id: usize,
    column: &OutputColumn,
    rows: &mut Rows<'_>,
) {
    let data_type = column.data_type;
    rows.add()
        .set("object_id", object)
        .set("name", &column.name)
        .set("column_id", id)
        .set("system_type_id", data_type.system_type_id())
        .set(
            "user_type_id",
            user_type_id(data_type, sysname_id(data_type)),
        )
        .set("max_length", data_type.max_length())
        .set("precision", data_type.precision())
        .set("scale", data_type.scale())
        .set(
            "collation_name",
            collation_name(data_type, column.collation),
        )
        .set("is_nullable", column.nullable)
        .set(
            "is_ansi_padded",
            data_type.is_character() || data_type.is_binary(),
        );
}

fn sysname_id(data_type: DataType) -> Option<i32> {
    (data_type == DataType::SYSNAME).then_some(SYSNAME_ID)
}

pub(crate) const SYSNAME_ID: i32 = 256;

fn all_columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    columns(source, rows)?;
    system_columns(source, rows)
}

fn identity_columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let open = source.open()?;
    each_column(source, |object, column, table| {
        let Some(identity) = table
            .and_then(|t| t.identity)
            .filter(|i| i.column_id == column.id)
        else {
            return;
        };
        column_row(object, column, rows);
        let typed = |n| typed_number(n, column.data_type);
        rows.set("seed_value", typed(identity.seed))
            .set("increment_value", typed(identity.increment))
            .set(
                "last_value",
                open.catalog
                    .last_value(CounterId::Identity(object))
                    .map(typed),
            )
            .set("is_not_for_replication", identity.not_for_replication);
    })
}

/// A number that a `sql_variant` column shows in the type it belongs to.
pub(crate) fn typed_number(n: i128, data_type: DataType) -> Cell {
    let value = match data_type {
        DataType::TinyInt => Value::TinyInt(n as u8),
        DataType::SmallInt => Value::SmallInt(n as i16),
        DataType::Int => Value::Int(n as i32),
        DataType::Decimal { precision, scale } => Value::Decimal(Decimal::new(n, precision, scale)),
        _ => Value::BigInt(n as i64),
    };
    Cell::Typed(data_type, value)
}

fn computed_columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_column(source, |object, column, _| {
        if let Some(computed) = &column.computed {
            column_row(object, column, rows);
            rows.set("definition", shown_text(&computed.definition))
                .set("is_persisted", computed.persisted);
        }
    })
}

const TYPES: &str = "
    name sysname; system_type_id tinyint; user_type_id int; schema_id int; principal_id int?; max_length smallint;
    precision tinyint; scale tinyint; collation_name sysname?; is_nullable bit? = 1; is_user_defined bit;
    is_assembly_type bit; default_object_id int; rule_object_id int; is_table_type bit";

/// `system_type_id` of table types.
const TABLE_TYPE_ID: u8 = 243;

/// Built-in types in the order in which `sys.types` lists them; each at its greatest size.
pub(crate) const BUILT_IN: &[(&str, DataType)] = &[
    ("image", DataType::Image),
    ("text", DataType::Text),
    ("uniqueidentifier", DataType::UniqueIdentifier),
    ("date", DataType::Date),
    ("time", DataType::Time { scale: 7 }),
    ("datetime2", DataType::DateTime2 { scale: 7 }),
    ("datetimeoffset", DataType::DateTimeOffset { scale: 7 }),
    ("tinyint", DataType::TinyInt),
    ("smallint", DataType::SmallInt),
    ("int", DataType::Int),
    ("smalldatetime", DataType::SmallDateTime),
    ("real", DataType::Real),
    ("money", DataType::Money),
    ("datetime", DataType::DateTime),
    ("float", DataType::Float),
    ("sql_variant", DataType::Variant),
    ("ntext", DataType::NText),
    ("bit", DataType::Bit),
    (
        "decimal",
        DataType::Decimal {
            precision: 38,
            scale: 38,
        },
    ),
    (
        "numeric",
        DataType::Decimal {
            precision: 38,
            scale: 38,
        },
    ),
    ("smallmoney", DataType::SmallMoney),
    ("bigint", DataType::BigInt),
    ("hierarchyid", DataType::HierarchyId),
    ("geometry", DataType::Geometry),
    ("geography", DataType::Geography),
    ("varbinary", DataType::VarBinary(Len(8_000))),
    ("varchar", DataType::VarChar(Len(8_000))),
    ("binary", DataType::Binary(Len(8_000))),
    ("char", DataType::Char(Len(8_000))),
    ("timestamp", DataType::RowVersion),
    ("nvarchar", DataType::NVarChar(Len(4_000))),
    ("nchar", DataType::NChar(Len(4_000))),
    ("xml", DataType::Xml),
    ("sysname", DataType::SYSNAME),
];

/// `system_type_id` and `user_type_id` of a built-in type: `numeric` has numbers of its own.
pub(crate) fn built_in_ids(name: &str, data_type: DataType) -> (u8, i32) {
    match name {
        "numeric" => (108, 108),
        "sysname" => (data_type.system_type_id(), SYSNAME_ID),
        _ => (data_type.system_type_id(), user_type_id(data_type, None)),
    }
}

fn types(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (name, data_type) in BUILT_IN {
        let (system, user) = built_in_ids(name, *data_type);
        rows.add()
            .set("name", *name)
            .set("system_type_id", system)
            .set("user_type_id", user)
            .set("schema_id", SCHEMA_SYS);
        type_sizes(*data_type, rows);
        rows.set(
            "is_nullable",
            *name != "sysname" && *data_type != DataType::RowVersion,
        );
        rows.set("is_assembly_type", system == 240);
    }
    for def in source.catalog()?.types() {
        alias_row(def, rows);
    }
    Ok(())
}

fn type_sizes(data_type: DataType, rows: &mut Rows<'_>) {
    rows.set("max_length", data_type.max_length())
        .set("precision", data_type.precision())
        .set("scale", data_type.scale())
        .set(
            "collation_name",
            collation_name(data_type, CollationId::DEFAULT),
        );
}

fn alias_row(def: &TypeDef, rows: &mut Rows<'_>) {
    let is_table = def.table.is_some();
    rows.add()
        .set("name", &def.name)
        .set(
            "system_type_id",
            if is_table {
                TABLE_TYPE_ID
            } else {
                def.data_type.system_type_id()
            },
        )
        .set("user_type_id", def.id)
        .set("schema_id", def.schema_id);
    if is_table {
        rows.set("max_length", -1);
    } else {
        type_sizes(def.data_type, rows);
    }
    rows.set("is_nullable", def.nullable && !is_table)
        .set("is_user_defined", true)
        .set("is_table_type", is_table);
}

const PARAMETERS: &str = "
    object_id int; name sysname?; parameter_id int; system_type_id tinyint; user_type_id int; max_length smallint;
    precision tinyint; scale tinyint; is_output bit; is_cursor_ref bit; has_default_value bit; is_xml_document bit;
    default_value sql_variant?; xml_collection_id int; is_readonly bit; is_nullable bit? = 1; encryption_type int?;
    encryption_type_desc nvarchar(64)?; encryption_algorithm_name sysname?; column_encryption_key_id int?;
    column_encryption_key_database_name sysname?";

fn parameters(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for object in sorted_objects(&*source.catalog()?) {
        if let ObjectKind::Procedure(module) | ObjectKind::Function(module) = &object.kind {
            // The value of a function is its parameter 0.
            if let Some(returns) = module.function.and_then(|f| f.returns) {
                rows.add()
                    .set("object_id", object.id)
                    .set("name", "")
                    .set("parameter_id", 0);
                parameter_type(returns.data_type, returns.user_type_id, rows);
                rows.set("is_output", true);
            }
            for (at, parameter) in module.parameters.iter().enumerate() {
                parameter_row(object.id, at + 1, parameter, rows);
            }
        }
    }
    Ok(())
}

fn parameter_row(object: i32, id: usize, parameter: &ParameterDef, rows: &mut Rows<'_>) {
    rows.add()
        .set("object_id", object)
        .set("name", &parameter.name)
        .set("parameter_id", id);
    match parameter.table_type() {
        Some(id) => {
            rows.set("system_type_id", TABLE_TYPE_ID)
                .set("user_type_id", id)
                .set("max_length", -1);
        }
        None if parameter.is_cursor() => {
            rows.set("is_cursor_ref", true);
        }
        None => parameter_type(parameter.data_type, parameter.user_type_id, rows),
    }
    rows.set("is_output", parameter.is_output)
        .set("has_default_value", parameter.has_default)
        .set("is_readonly", parameter.is_readonly);
}

fn parameter_type(data_type: DataType, alias: Option<i32>, rows: &mut Rows<'_>) {
    rows.set("system_type_id", data_type.system_type_id())
        .set("user_type_id", user_type_id(data_type, alias))
        .set("max_length", data_type.max_length())
        .set("precision", data_type.precision())
        .set("scale", data_type.scale());
}

fn system_parameters(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let registry = source.instance()?.registry();
    for object in source.system_objects()? {
        let Some(procedure) = registry
            .procedure(&object.name)
            .filter(|_| object.table.is_none())
        else {
            continue;
        };
        for (at, parameter) in procedure.parameters().iter().enumerate() {
            rows.add()
                .set("object_id", object.id)
                .set("name", parameter.name)
                .set("parameter_id", at + 1);
            parameter_type(parameter.data_type, sysname_id(parameter.data_type), rows);
            rows.set("is_output", parameter.output)
                .set("has_default_value", parameter.default.is_some());
        }
    }
    Ok(())
}

fn all_parameters(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    parameters(source, rows)?;
    system_parameters(source, rows)
}
