//! Types and columns in ODBC's terms: what the catalogue procedures (`sp_columns`, `sp_datatype_info`) select from.
//!
//! The views carry the product's names for them (`spt_..`), which are no part of any client's contract.

use super::columns::{BUILT_IN, SYSNAME_ID, each_column};
use super::define::{Rows, View};
use super::source::{Source, shown_text, sorted_objects};
use crate::error::Result;
use daruma_catalog::{ColumnDef, DatabaseCatalog, ObjectKind, ParameterDef};
use daruma_value::{DataType, Len};
use std::collections::HashMap;

pub(super) const VIEWS: &[View] = &[
    View::sys("spt_datatype_info", DATATYPES, datatypes),
    View::sys("spt_columns_odbc_view", COLUMNS, columns),
    View::sys("spt_sproc_columns_odbc_view", PARAMETERS, parameters),
];

/// A type as ODBC describes it.
struct OdbcType {
    /// ODBC 3 and ODBC 2 numbers, and the one for clients from before SQL Server 2008.
    number: i32,
    number_2: i32,
    number_old: i32,
    precision: i32,
    length: i32,
    scale: Option<i32>,
    radix: Option<i32>,
    sql_type: i32,
    datetime_sub: Option<i32>,
    octets: Option<i32>,
    /// `SS_DATA_TYPE` when NOT NULL and when nullable.
    old_types: (i32, i32),
}

const NUMERIC: i32 = 2;
const DATETIME: i32 = 9;

fn describe(data_type: DataType) -> OdbcType {
    use DataType::*;
    let scale = i32::from(data_type.scale());
    let precision = i32::from(data_type.precision());
    match data_type {
        Bit => plain(-7, 1, 1, None, None, (50, 50)),
        TinyInt => plain(-6, 3, 1, Some(0), Some(10), (48, 38)),
        SmallInt => plain(5, 5, 2, Some(0), Some(10), (52, 38)),
        Int => plain(4, 10, 4, Some(0), Some(10), (56, 38)),
        BigInt => plain(-5, 19, 8, Some(0), Some(10), (63, 108)),
        Decimal { .. } => plain(
            3,
            precision,
            precision + 2,
            Some(scale),
            Some(10),
            (106, 106),
        ),
        Money => plain(3, 19, 21, Some(4), Some(10), (60, 110)),
        SmallMoney => plain(3, 10, 12, Some(4), Some(10), (122, 110)),
        Real => plain(7, 24, 4, None, Some(2), (59, 109)),
        Float => plain(6, 53, 8, None, Some(2), (62, 109)),
        DateTime => moment((93, 11, 11), 23, 16, Some(3), Some(3), (61, 111)),
        SmallDateTime => moment((93, 11, 11), 16, 16, Some(0), Some(3), (58, 111)),
        DateTime2 { .. } => moment((93, 11, -9), precision, 16, Some(scale), Some(3), (0, 0)),
        Date => moment((91, 9, -9), 10, 6, None, Some(1), (0, 0)),
        Time { .. } => moment((-154, -154, -9), precision, 12, Some(scale), None, (0, 0)),
        DateTimeOffset { .. } => moment((-155, -155, -9), precision, 20, Some(scale), None, (0, 0)),
        Char(len) => text(1, len, 1, (47, 39)),
        VarChar(len) => text(12, len, 1, (39, 39)),
        NChar(len) => text(-8, len, 2, (39, 39)),
        NVarChar(len) => text(-9, len, 2, (39, 39)),
        Binary(len) => text(-2, len, 1, (45, 37)),
        VarBinary(len) => text(-3, len, 1, (37, 37)),
        Text => large(-1, i32::MAX, i32::MAX, 35),
        NText => large(-10, 1_073_741_823, 2_147_483_646, 35),
        Image => large(-4, i32::MAX, i32::MAX, 34),
        Xml => large(-152, 0, 0, 0),
        RowVersion => OdbcType {
            octets: Some(8),
            ..plain(-2, 8, 8, None, None, (45, 37))
        },
        UniqueIdentifier => plain(-11, 36, 16, None, None, (37, 37)),
        Variant => plain(-150, 8_000, 8_000, None, None, (39, 39)),
        HierarchyId => large(-151, 892, 892, 0),
        Geography | Geometry => large(-151, 0, 0, 0),
    }
}

fn plain(
    number: i32,
    precision: i32,
    length: i32,
    scale: Option<i32>,
    radix: Option<i32>,
    old_types: (i32, i32),
) -> OdbcType {
    OdbcType {
        number,
        number_2: number,
        number_old: number,
        precision,
        length,
        scale,
        radix,
        sql_type: number,
        datetime_sub: None,
        octets: None,
        old_types,
    }
}

fn moment(
    numbers: (i32, i32, i32),
    precision: i32,
    length: i32,
    scale: Option<i32>,
    sub: Option<i32>,
    old_types: (i32, i32),
) -> OdbcType {
    OdbcType {
        number_2: numbers.1,
        number_old: numbers.2,
        sql_type: if sub.is_some() { DATETIME } else { numbers.0 },
        datetime_sub: sub,
        ..plain(numbers.0, precision, length, scale, None, old_types)
    }
}

/// Text and bytes: a length of 0 means no limit.
fn text(number: i32, len: Len, unit: i32, old_types: (i32, i32)) -> OdbcType {
    let size = if len.is_max() { 0 } else { i32::from(len.0) };
    OdbcType {
        octets: Some(size * unit),
        ..plain(number, size, size * unit, None, None, old_types)
    }
}

fn large(number: i32, precision: i32, length: i32, old_type: i32) -> OdbcType {
    OdbcType {
        octets: Some(length),
        ..plain(number, precision, length, None, None, (old_type, old_type))
    }
}

/// The columns that tables and procedures share.
macro_rules! odbc_columns {
    () => {
        "COLUMN_NAME sysname?; DATA_TYPE smallint; DATA_TYPE_2 smallint; DATA_TYPE_OLD smallint; TYPE_NAME sysname;
        PRECISION int?; LENGTH int?; SCALE smallint?; RADIX smallint?; NULLABLE smallint; REMARKS varchar(254)?;
        COLUMN_DEF nvarchar(4000)?; SQL_DATA_TYPE smallint; SQL_DATETIME_SUB smallint?; CHAR_OCTET_LENGTH int?;
        ORDINAL_POSITION int; IS_NULLABLE varchar(254); SS_DATA_TYPE tinyint;"
    };
}

const COLUMNS: &str = concat!(
    odbc_columns!(),
    "object_id int; column_id int; TABLE_OWNER sysname; TABLE_NAME sysname; SS_IS_SPARSE smallint; SS_IS_COLUMN_SET smallint;
    SS_IS_COMPUTED smallint; SS_IS_IDENTITY smallint; SS_TYPE_SCHEMA_NAME sysname?; SS_TYPE_NAME sysname?"
);

/// Name of a type as declared: alias types by their own name.
fn type_name(catalog: &DatabaseCatalog, data_type: DataType, alias: Option<i32>) -> String {
    match alias {
        Some(SYSNAME_ID) => "sysname".to_string(),
        Some(id) => catalog
            .type_by_id(id)
            .map_or(data_type.name().to_string(), |t| t.name.clone()),
        None => data_type.name().to_string(),
    }
}

fn type_columns(data_type: DataType, nullable: bool, rows: &mut Rows<'_>) {
    let odbc = describe(data_type);
    rows.set("DATA_TYPE", odbc.number)
        .set("DATA_TYPE_2", odbc.number_2)
        .set("DATA_TYPE_OLD", odbc.number_old)
        .set("PRECISION", odbc.precision)
        .set("LENGTH", odbc.length)
        .set("SCALE", odbc.scale)
        .set("RADIX", odbc.radix)
        .set("NULLABLE", nullable)
        .set("SQL_DATA_TYPE", odbc.sql_type)
        .set("SQL_DATETIME_SUB", odbc.datetime_sub)
        .set("CHAR_OCTET_LENGTH", odbc.octets)
        .set("IS_NULLABLE", if nullable { "YES" } else { "NO" })
        .set(
            "SS_DATA_TYPE",
            if nullable {
                odbc.old_types.1
            } else {
                odbc.old_types.0
            },
        );
}

fn columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let catalog = source.catalog()?;
    let mut owners: HashMap<i32, (i32, String)> = source
        .tables()?
        .into_iter()
        .filter(|t| !t.is_type)
        .map(|t| (t.id, (t.schema_id, t.name)))
        .collect();
    owners.extend(
        sorted_objects(&catalog)
            .iter()
            .map(|o| (o.id, (o.schema_id, o.name.clone()))),
    );
    let mut ordinal = (0, 0);
    each_column(source, |object, column, _| {
        let Some((schema, table)) = owners.get(&object) else {
            return;
        };
        ordinal = if ordinal.0 == object {
            (object, ordinal.1 + 1)
        } else {
            (object, 1)
        };
        column_row(&catalog, column, rows);
        rows.set("ORDINAL_POSITION", ordinal.1)
            .set("object_id", object)
            .set("column_id", column.id);
        rows.set(
            "TABLE_OWNER",
            catalog.schema(*schema).map_or("dbo", |s| s.name.as_str()),
        )
        .set("TABLE_NAME", table);
    })?;
    system_columns(source, rows)
}

fn column_row(catalog: &DatabaseCatalog, column: &ColumnDef, rows: &mut Rows<'_>) {
    let mut name = type_name(catalog, column.data_type, column.user_type_id);
    if column.is_identity {
        name.push_str(" identity");
    }
    rows.add()
        .set("COLUMN_NAME", &column.name)
        .set("TYPE_NAME", name);
    type_columns(column.data_type, column.nullable, rows);
    let default = column.default.as_ref();
    let default = default.and_then(|d| shown_text(&d.definition));
    rows.set("COLUMN_DEF", default)
        .set("SS_IS_SPARSE", column.is_sparse)
        .set("SS_IS_COMPUTED", column.computed.is_some())
        .set("SS_IS_IDENTITY", column.is_identity);
}

fn system_columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for object in source
        .system_objects()?
        .iter()
        .filter(|o| o.type_code == "V ")
    {
        let Some(table) = &object.table else { continue };
        for (at, column) in table.columns().iter().enumerate() {
            let name = if column.data_type == DataType::SYSNAME {
                "sysname"
            } else {
                column.data_type.name()
            };
            rows.add()
                .set("COLUMN_NAME", &column.name)
                .set("TYPE_NAME", name);
            type_columns(column.data_type, column.nullable, rows);
            rows.set("ORDINAL_POSITION", at + 1)
                .set("object_id", object.id)
                .set("column_id", at + 1)
                .set(
                    "TABLE_OWNER",
                    super::names::fixed_schema_name(object.schema_id),
                )
                .set("TABLE_NAME", &object.name);
        }
    }
    Ok(())
}

const PARAMETERS: &str = concat!(
    odbc_columns!(),
    "object_id int; PROCEDURE_OWNER sysname; PROCEDURE_NAME nvarchar(134); COLUMN_TYPE smallint"
);

/// Kinds of parameters: 1 input, 2 input and output, 5 return value.
fn parameters(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let catalog = source.catalog()?;
    for object in sorted_objects(&catalog) {
        let (ObjectKind::Procedure(module) | ObjectKind::Function(module)) = &object.kind else {
            continue;
        };
        let owner = catalog
            .schema(object.schema_id)
            .map_or("dbo", |s| s.name.as_str());
        let place = |rows: &mut Rows<'_>, ordinal: usize, kind: i32| {
            rows.set("ORDINAL_POSITION", ordinal)
                .set("object_id", object.id)
                .set("PROCEDURE_OWNER", owner)
                .set("PROCEDURE_NAME", format!("{};1", object.name))
                .set("COLUMN_TYPE", kind);
        };
        rows.add()
            .set("COLUMN_NAME", "@RETURN_VALUE")
            .set("TYPE_NAME", "int");
        type_columns(DataType::Int, false, rows);
        place(rows, 0, 5);
        for (at, parameter) in module.parameters.iter().enumerate() {
            parameter_row(&catalog, parameter, rows);
            place(rows, at + 1, if parameter.is_output { 2 } else { 1 });
        }
    }
    system_parameters(source, rows)
}

fn parameter_row(catalog: &DatabaseCatalog, parameter: &ParameterDef, rows: &mut Rows<'_>) {
    rows.add().set("COLUMN_NAME", &parameter.name).set(
        "TYPE_NAME",
        type_name(catalog, parameter.data_type, parameter.user_type_id),
    );
    type_columns(parameter.data_type, true, rows);
}

fn system_parameters(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let registry = source.instance()?.registry();
    for object in source
        .system_objects()?
        .iter()
        .filter(|o| o.table.is_none())
    {
        let Some(procedure) = registry.procedure(&object.name) else {
            continue;
        };
        for (at, parameter) in procedure.parameters().iter().enumerate() {
            rows.add()
                .set("COLUMN_NAME", parameter.name)
                .set("TYPE_NAME", parameter.data_type.name());
            type_columns(parameter.data_type, true, rows);
            rows.set("ORDINAL_POSITION", at + 1)
                .set("object_id", object.id)
                .set("PROCEDURE_OWNER", "sys")
                .set("PROCEDURE_NAME", format!("{};1", object.name))
                .set("COLUMN_TYPE", if parameter.output { 2 } else { 1 });
        }
    }
    Ok(())
}

const DATATYPES: &str = "
    TYPE_NAME sysname; DATA_TYPE smallint; DATA_TYPE_2 smallint; DATA_TYPE_OLD smallint; PRECISION int?;
    LITERAL_PREFIX varchar(32)?; LITERAL_SUFFIX varchar(32)?; CREATE_PARAMS varchar(32)?; NULLABLE smallint;
    CASE_SENSITIVE smallint; SEARCHABLE smallint; UNSIGNED_ATTRIBUTE smallint?; MONEY smallint; AUTO_INCREMENT smallint?;
    LOCAL_TYPE_NAME sysname?; MINIMUM_SCALE smallint?; MAXIMUM_SCALE smallint?; SQL_DATA_TYPE smallint;
    SQL_DATETIME_SUB smallint?; NUM_PREC_RADIX int?; INTERVAL_PRECISION smallint?; USERTYPE smallint?; LENGTH int?;
    SS_DATA_TYPE tinyint?";

fn datatypes(_: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for (name, data_type) in BUILT_IN {
        datatype_row(name, *data_type, rows);
        let identity = matches!(
            data_type,
            DataType::TinyInt
                | DataType::SmallInt
                | DataType::Int
                | DataType::BigInt
                | DataType::Decimal { .. }
        );
        if identity {
            let suffix = if matches!(data_type, DataType::Decimal { .. }) {
                "() identity"
            } else {
                " identity"
            };
            datatype_row(&format!("{name}{suffix}"), *data_type, rows);
            rows.set("NULLABLE", 0)
                .set("SEARCHABLE", 2)
                .set("AUTO_INCREMENT", 1);
        }
    }
    Ok(())
}

fn datatype_row(name: &str, data_type: DataType, rows: &mut Rows<'_>) {
    let odbc = describe(data_type);
    let is_numeric = data_type.is_numeric() && data_type != DataType::Bit;
    let number = if name.starts_with("numeric") {
        NUMERIC
    } else {
        odbc.number
    };
    let exact = data_type.is_exact_numeric() || data_type.is_temporal();
    let (prefix, suffix) = literal_marks(data_type);
    rows.add()
        .set("TYPE_NAME", name)
        .set("DATA_TYPE", number)
        .set(
            "DATA_TYPE_2",
            if number == NUMERIC {
                NUMERIC
            } else {
                odbc.number_2
            },
        )
        .set(
            "DATA_TYPE_OLD",
            if number == NUMERIC {
                NUMERIC
            } else {
                odbc.number_old
            },
        )
        .set("PRECISION", odbc.precision)
        .set("LITERAL_PREFIX", prefix)
        .set("LITERAL_SUFFIX", suffix)
        .set("CREATE_PARAMS", create_parameters(data_type, name))
        .set(
            "NULLABLE",
            name != "sysname" && data_type != DataType::RowVersion,
        )
        .set("SEARCHABLE", searchable(data_type))
        .set(
            "UNSIGNED_ATTRIBUTE",
            is_numeric.then_some(data_type == DataType::TinyInt),
        )
        .set(
            "MONEY",
            matches!(data_type, DataType::Money | DataType::SmallMoney),
        )
        .set("AUTO_INCREMENT", is_numeric.then_some(0))
        .set("LOCAL_TYPE_NAME", name)
        .set("MINIMUM_SCALE", exact.then_some(minimum_scale(data_type)))
        .set(
            "MAXIMUM_SCALE",
            exact.then_some(i32::from(data_type.scale())),
        )
        .set(
            "SQL_DATA_TYPE",
            if number == NUMERIC {
                NUMERIC
            } else {
                odbc.sql_type
            },
        )
        .set("SQL_DATETIME_SUB", odbc.datetime_sub)
        .set("NUM_PREC_RADIX", odbc.radix)
        .set("USERTYPE", user_type(data_type, name))
        .set("LENGTH", odbc.length)
        .set("SS_DATA_TYPE", odbc.old_types.1);
}

/// The number of a type in the old `systypes`; types younger than that have none. Orders the types of one ODBC number.
fn user_type(data_type: DataType, name: &str) -> i32 {
    use DataType::*;
    match data_type {
        _ if name == "sysname" => 18,
        Char(_) => 1,
        VarChar(_) => 2,
        Binary(_) => 3,
        VarBinary(_) => 4,
        TinyInt => 5,
        SmallInt => 6,
        Int => 7,
        Float => 8,
        Decimal { .. } if name == "numeric" => 10,
        Money => 11,
        DateTime => 12,
        Bit => 16,
        Text => 19,
        Image => 20,
        SmallMoney => 21,
        SmallDateTime => 22,
        Real => 23,
        Decimal { .. } => 24,
        RowVersion => 80,
        _ => 0,
    }
}

fn literal_marks(data_type: DataType) -> (Option<&'static str>, Option<&'static str>) {
    match data_type {
        DataType::Money | DataType::SmallMoney => (Some("$"), None),
        t if t.is_unicode() => (Some("N'"), Some("'")),
        t if t.is_binary() => (Some("0x"), None),
        t if t.is_character() || t.is_temporal() || t == DataType::UniqueIdentifier => {
            (Some("'"), Some("'"))
        }
        _ => (None, None),
    }
}

fn create_parameters(data_type: DataType, name: &str) -> Option<&'static str> {
    use DataType::*;
    match data_type {
        _ if name == "sysname" => None,
        Decimal { .. } => Some("precision,scale"),
        Char(_) | NChar(_) | Binary(_) => Some("length"),
        VarChar(_) | NVarChar(_) | VarBinary(_) => Some("max length"),
        Time { .. } | DateTime2 { .. } | DateTimeOffset { .. } => Some("scale"),
        _ => None,
    }
}

fn minimum_scale(data_type: DataType) -> i32 {
    match data_type {
        DataType::Money | DataType::SmallMoney => 4,
        DataType::DateTime => 3,
        _ => 0,
    }
}

/// 3: in any condition; 2: not with LIKE; 1: with LIKE only; 0: not at all.
fn searchable(data_type: DataType) -> i32 {
    match data_type {
        DataType::Image | DataType::Xml | DataType::Geography | DataType::Geometry => 0,
        DataType::Text | DataType::NText => 1,
        t if t.is_character() || t.is_temporal() => 3,
        _ => 2,
    }
}
