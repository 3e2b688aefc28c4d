//! INFORMATION_SCHEMA: the standard's views over the same definitions.

use super::columns::{collation_name, each_column, typed_number};
use super::constraints::action;
use super::define::{Rows, View};
use super::objects::{checks_rows, module_of};
use super::principals::FIXED_ROLES;
use super::source::{Source, Table, shown_text, sorted_objects};
use crate::error::Result;
use daruma_catalog::{
    ColumnDef, DatabaseCatalog, ForeignKeyDef, ObjectKind, ParameterDef, TypeDef,
};
use daruma_value::{CollationId, DataType, Len};
use std::collections::HashMap;

pub(super) const fn view(
    name: &'static str,
    columns: &'static str,
    fill: super::define::Fill,
) -> View {
    View::new("INFORMATION_SCHEMA", name, columns, fill)
}

pub(super) const VIEWS: &[View] = &[
    view("SCHEMATA", SCHEMATA, schemata),
    view("TABLES", TABLES, tables),
    view("COLUMNS", COLUMNS, columns),
    view("VIEWS", VIEW_COLUMNS, views),
    view("TABLE_CONSTRAINTS", TABLE_CONSTRAINTS, table_constraints),
    view("KEY_COLUMN_USAGE", KEY_COLUMN_USAGE, key_column_usage),
    view(
        "REFERENTIAL_CONSTRAINTS",
        REFERENTIAL_CONSTRAINTS,
        referential_constraints,
    ),
    view(
        "CONSTRAINT_COLUMN_USAGE",
        CONSTRAINT_COLUMN_USAGE,
        constraint_column_usage,
    ),
    view(
        "CONSTRAINT_TABLE_USAGE",
        CONSTRAINT_TABLE_USAGE,
        constraint_table_usage,
    ),
    view("CHECK_CONSTRAINTS", CHECK_CONSTRAINTS, check_constraints),
    view("ROUTINES", ROUTINES, routines),
    view("PARAMETERS", PARAMETERS, parameters),
    view("SEQUENCES", SEQUENCES, sequences),
    view("DOMAINS", DOMAINS, domains),
];

/// Database and catalog that every view names things by.
pub(super) struct Names {
    pub catalog: std::sync::Arc<DatabaseCatalog>,
    database: String,
}

impl Names {
    /// Those of the database that the view is read in.
    pub fn of(source: &Source<'_>) -> Result<Names> {
        Ok(Names {
            catalog: source.catalog()?,
            database: source.entry()?.name(),
        })
    }

    fn schema(&self, id: i32) -> String {
        self.catalog
            .schema(id)
            .map_or(String::new(), |s| s.name.clone())
    }

    /// `X_CATALOG`, `X_SCHEMA` and `X_NAME`.
    pub fn set(&self, rows: &mut Rows<'_>, prefix: &str, schema_id: i32, name: &str) {
        rows.set(&format!("{prefix}_CATALOG"), &self.database)
            .set(&format!("{prefix}_SCHEMA"), self.schema(schema_id))
            .set(&format!("{prefix}_NAME"), name);
    }
}

fn tables_only(source: &Source<'_>) -> Result<Vec<Table>> {
    Ok(source
        .tables()?
        .into_iter()
        .filter(|t| !t.is_type)
        .collect())
}

const SCHEMATA: &str = "
    CATALOG_NAME nvarchar(128)?; SCHEMA_NAME nvarchar(128); SCHEMA_OWNER nvarchar(128)?;
    DEFAULT_CHARACTER_SET_CATALOG varchar(6)?; DEFAULT_CHARACTER_SET_SCHEMA varchar(3)?;
    DEFAULT_CHARACTER_SET_NAME sysname? = iso_1";

fn schemata(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let names = Names::of(source)?;
    for schema in names.catalog.schemas() {
        let owner = principal_name(&names.catalog, schema.principal_id);
        let owner = owner.unwrap_or_else(|| "dbo".to_string());
        rows.add()
            .set("CATALOG_NAME", &names.database)
            .set("SCHEMA_NAME", &schema.name)
            .set("SCHEMA_OWNER", owner);
    }
    Ok(())
}

/// `None` for one that must not be known.
pub(super) fn principal_name(catalog: &DatabaseCatalog, id: i32) -> Option<String> {
    if id == 0 {
        return Some("public".to_string());
    }
    let role = FIXED_ROLES.iter().find(|(i, _)| *i == id);
    match (super::names::fixed_schema_name(id), role) {
        ("", None) => catalog.principal(id).map(|p| p.name.clone()),
        ("", Some((_, role))) => Some((*role).to_string()),
        (fixed, _) => Some(fixed.to_string()),
    }
}

const TABLES: &str = "TABLE_CATALOG nvarchar(128)?; TABLE_SCHEMA sysname?; TABLE_NAME sysname; TABLE_TYPE varchar(10)?";

fn tables(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let names = Names::of(source)?;
    for table in tables_only(source)? {
        rows.add();
        names.set(rows, "TABLE", table.schema_id, &table.name);
        rows.set("TABLE_TYPE", "BASE TABLE");
    }
    for object in sorted_objects(&names.catalog)
        .iter()
        .filter(|o| matches!(o.kind, ObjectKind::View(_)))
    {
        rows.add();
        names.set(rows, "TABLE", object.schema_id, &object.name);
        rows.set("TABLE_TYPE", "VIEW");
    }
    Ok(())
}

macro_rules! type_columns {
    () => {
        "DATA_TYPE nvarchar(128)?; CHARACTER_MAXIMUM_LENGTH int?; CHARACTER_OCTET_LENGTH int?;
        COLLATION_CATALOG sysname?; COLLATION_SCHEMA sysname?; COLLATION_NAME sysname?; CHARACTER_SET_CATALOG sysname?;
        CHARACTER_SET_SCHEMA sysname?; CHARACTER_SET_NAME sysname?; NUMERIC_PRECISION tinyint?;
        NUMERIC_PRECISION_RADIX smallint?; NUMERIC_SCALE int?; DATETIME_PRECISION smallint?;"
    };
}

const COLUMNS: &str = "
    TABLE_CATALOG nvarchar(128)?; TABLE_SCHEMA nvarchar(128)?; TABLE_NAME sysname; COLUMN_NAME sysname?;
    ORDINAL_POSITION int?; COLUMN_DEFAULT nvarchar(4000)?; IS_NULLABLE varchar(3)?; DATA_TYPE nvarchar(128)?;
    CHARACTER_MAXIMUM_LENGTH int?; CHARACTER_OCTET_LENGTH int?; NUMERIC_PRECISION tinyint?;
    NUMERIC_PRECISION_RADIX smallint?; NUMERIC_SCALE int?; DATETIME_PRECISION smallint?; CHARACTER_SET_CATALOG sysname?;
    CHARACTER_SET_SCHEMA sysname?; CHARACTER_SET_NAME sysname?; COLLATION_CATALOG sysname?; COLLATION_SCHEMA sysname?;
    COLLATION_NAME sysname?; DOMAIN_CATALOG sysname?; DOMAIN_SCHEMA sysname?; DOMAIN_NAME sysname?";

fn columns(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let names = Names::of(source)?;
    let mut owners: HashMap<i32, (i32, String)> = tables_only(source)?
        .into_iter()
        .map(|t| (t.id, (t.schema_id, t.name)))
        .collect();
    owners.extend(
        sorted_objects(&names.catalog)
            .iter()
            .map(|o| (o.id, (o.schema_id, o.name.clone()))),
    );
    let mut ordinal = (0, 0);
    each_column(source, |object, column, _| {
        let Some((schema_id, name)) = owners.get(&object) else {
            return;
        };
        ordinal = if ordinal.0 == object {
            (object, ordinal.1 + 1)
        } else {
            (object, 1)
        };
        rows.add();
        names.set(rows, "TABLE", *schema_id, name);
        column_row(&names, column, ordinal.1, rows);
    })
}

fn column_row(names: &Names, column: &ColumnDef, ordinal: i32, rows: &mut Rows<'_>) {
    rows.set("COLUMN_NAME", &column.name)
        .set("ORDINAL_POSITION", ordinal)
        .set(
            "COLUMN_DEFAULT",
            column
                .default
                .as_ref()
                .and_then(|d| shown_text(&d.definition)),
        )
        .set("IS_NULLABLE", if column.nullable { "YES" } else { "NO" });
    set_type(column.data_type, column.collation, rows);
    let alias = column
        .user_type_id
        .and_then(|id| names.catalog.type_by_id(id));
    match (alias, column.user_type_id) {
        (Some(alias), _) => names.set(rows, "DOMAIN", alias.schema_id, &alias.name),
        (None, Some(super::columns::SYSNAME_ID)) => {
            names.set(rows, "DOMAIN", daruma_catalog::SCHEMA_SYS, "sysname")
        }
        _ => {}
    }
}

/// The columns that describe a type; names differ in order only.
fn set_type(data_type: DataType, collation: CollationId, rows: &mut Rows<'_>) {
    let (characters, octets) = lengths(data_type);
    let (precision, radix, scale) = numeric(data_type);
    let character_set = match data_type {
        DataType::Xml => None,
        t if t.is_unicode() => Some("UNICODE"),
        t if t.is_character() => Some("iso_1"),
        _ => None,
    };
    rows.set("DATA_TYPE", data_type.name())
        .set_if_present("CHARACTER_MAXIMUM_LENGTH", characters)
        .set_if_present("CHARACTER_OCTET_LENGTH", octets)
        .set_if_present("NUMERIC_PRECISION", precision)
        .set_if_present("NUMERIC_PRECISION_RADIX", radix)
        .set_if_present("NUMERIC_SCALE", scale)
        .set_if_present("DATETIME_PRECISION", datetime_precision(data_type))
        .set_if_present("CHARACTER_SET_NAME", character_set)
        .set_if_present("COLLATION_NAME", collation_name(data_type, collation));
}

/// Longest text in characters and bytes; -1 for `max`.
fn lengths(data_type: DataType) -> (Option<i32>, Option<i32>) {
    let (characters, octets) = match data_type {
        DataType::Text | DataType::Image => (i32::MAX, i32::MAX),
        DataType::NText => (1_073_741_823, 2_147_483_646),
        DataType::Variant => (0, 0),
        DataType::HierarchyId => (892, 892),
        DataType::Geography | DataType::Geometry | DataType::Xml => (-1, -1),
        DataType::RowVersion => return (None, None),
        other => match other.declared_len() {
            Some(Len::MAX) => (-1, -1),
            Some(Len(n)) if other.is_unicode() => (i32::from(n), i32::from(n) * 2),
            Some(Len(n)) => (i32::from(n), i32::from(n)),
            None => return (None, None),
        },
    };
    (Some(characters), Some(octets))
}

fn numeric(data_type: DataType) -> (Option<u8>, Option<i16>, Option<i32>) {
    match data_type {
        DataType::Bit => (None, None, None),
        DataType::Real | DataType::Float => (Some(data_type.precision()), Some(2), None),
        t if t.is_exact_numeric() => (Some(t.precision()), Some(10), Some(i32::from(t.scale()))),
        _ => (None, None, None),
    }
}

fn datetime_precision(data_type: DataType) -> Option<u8> {
    match data_type {
        DataType::Date | DataType::SmallDateTime => Some(0),
        t if t.is_temporal() => Some(t.scale()),
        _ => None,
    }
}

const VIEW_COLUMNS: &str = "
    TABLE_CATALOG nvarchar(128)?; TABLE_SCHEMA nvarchar(128)?; TABLE_NAME sysname; VIEW_DEFINITION nvarchar(4000)?;
    CHECK_OPTION varchar(7)? = NONE; IS_UPDATABLE varchar(2) = NO";

fn views(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let names = Names::of(source)?;
    for object in sorted_objects(&names.catalog) {
        if let ObjectKind::View(module) = &object.kind {
            rows.add();
            names.set(rows, "TABLE", object.schema_id, &object.name);
            rows.set("VIEW_DEFINITION", short_definition(&module.definition));
            if checks_rows(module) {
                rows.set("CHECK_OPTION", "CASCADE");
            }
        }
    }
    Ok(())
}

/// Definitions that do not fit the column are NULL in it.
fn short_definition(definition: &str) -> Option<&str> {
    let definition = shown_text(definition)?;
    (definition.chars().count() <= 4_000).then_some(definition)
}

macro_rules! constraint_names {
    () => {
        "CONSTRAINT_CATALOG nvarchar(128)?; CONSTRAINT_SCHEMA nvarchar(128)?; CONSTRAINT_NAME sysname;"
    };
}
macro_rules! table_names {
    () => {
        "TABLE_CATALOG nvarchar(128)?; TABLE_SCHEMA nvarchar(128)?; TABLE_NAME sysname;"
    };
}

/// A constraint with the columns it is on.
struct Constraint<'t> {
    table: &'t Table,
    name: &'t str,
    kind: &'static str,
    columns: Vec<i32>,
}

/// Keys, foreign keys and checks of a table; defaults are no constraints to the standard.
fn constraints(table: &Table) -> Vec<Constraint<'_>> {
    let make = |name, kind, columns| Constraint {
        table,
        name,
        kind,
        columns,
    };
    let keys = table.def.indexes.iter().filter_map(|index| {
        let kind = if index.constraint.as_ref()?.is_primary_key {
            "PRIMARY KEY"
        } else {
            "UNIQUE"
        };
        let columns = index.key.iter().map(|k| k.column_id).collect();
        Some(make(
            index.name.as_deref().unwrap_or_default(),
            kind,
            columns,
        ))
    });
    let foreign = table
        .def
        .foreign_keys
        .iter()
        .map(|k| make(k.name.as_str(), "FOREIGN KEY", k.columns.clone()));
    let checks = table
        .def
        .checks
        .iter()
        .map(|c| make(c.name.as_str(), "CHECK", c.column_id.into_iter().collect()));
    keys.chain(foreign).chain(checks).collect()
}

fn each_constraint(
    source: &Source<'_>,
    mut visit: impl FnMut(&Names, &Constraint<'_>),
) -> Result<()> {
    let names = Names::of(source)?;
    for table in tables_only(source)? {
        constraints(&table).iter().for_each(|c| visit(&names, c));
    }
    Ok(())
}

fn constraint_row(names: &Names, constraint: &Constraint<'_>, rows: &mut Rows<'_>) {
    let table = constraint.table;
    rows.add();
    names.set(rows, "CONSTRAINT", table.schema_id, constraint.name);
    names.set(rows, "TABLE", table.schema_id, &table.name);
}

const TABLE_CONSTRAINTS: &str = concat!(
    constraint_names!(),
    table_names!(),
    "CONSTRAINT_TYPE varchar(11)?; IS_DEFERRABLE varchar(2) = NO; INITIALLY_DEFERRED varchar(2) = NO"
);

fn table_constraints(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_constraint(source, |names, constraint| {
        constraint_row(names, constraint, rows);
        rows.set("CONSTRAINT_TYPE", constraint.kind);
    })
}

const KEY_COLUMN_USAGE: &str = concat!(
    constraint_names!(),
    table_names!(),
    "COLUMN_NAME nvarchar(128)?; ORDINAL_POSITION int"
);

fn key_column_usage(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_constraint(source, |names, constraint| {
        if constraint.kind == "CHECK" {
            return;
        }
        for (at, id) in constraint.columns.iter().enumerate() {
            constraint_row(names, constraint, rows);
            let column = constraint.table.def.column(*id);
            rows.set("COLUMN_NAME", column.map(|c| &c.name))
                .set("ORDINAL_POSITION", at + 1);
        }
    })
}

const REFERENTIAL_CONSTRAINTS: &str = concat!(
    constraint_names!(),
    "UNIQUE_CONSTRAINT_CATALOG nvarchar(128)?; UNIQUE_CONSTRAINT_SCHEMA nvarchar(128)?; UNIQUE_CONSTRAINT_NAME sysname?;
    MATCH_OPTION varchar(7)? = SIMPLE; UPDATE_RULE varchar(11)?; DELETE_RULE varchar(11)?"
);

fn referential_constraints(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let names = Names::of(source)?;
    for table in tables_only(source)? {
        for key in &table.def.foreign_keys {
            rows.add();
            names.set(rows, "CONSTRAINT", table.schema_id, &key.name);
            referenced_key(&names, key, rows);
            let rule = |a| action(a).1.replace('_', " ");
            rows.set("UPDATE_RULE", rule(key.on_update))
                .set("DELETE_RULE", rule(key.on_delete));
        }
    }
    Ok(())
}

fn referenced_key(names: &Names, key: &ForeignKeyDef, rows: &mut Rows<'_>) {
    let Some(object) = names.catalog.object(key.referenced_table) else {
        return;
    };
    let ObjectKind::Table(def) = &object.kind else {
        return;
    };
    if let Some(name) = def
        .index(key.referenced_index)
        .and_then(|i| i.name.as_ref())
    {
        names.set(rows, "UNIQUE_CONSTRAINT", object.schema_id, name);
    }
}

const CONSTRAINT_COLUMN_USAGE: &str = concat!(
    table_names!(),
    "COLUMN_NAME nvarchar(128)?;",
    constraint_names!()
);

fn constraint_column_usage(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_constraint(source, |names, constraint| {
        for id in &constraint.columns {
            constraint_row(names, constraint, rows);
            rows.set(
                "COLUMN_NAME",
                constraint.table.def.column(*id).map(|c| &c.name),
            );
        }
    })
}

const CONSTRAINT_TABLE_USAGE: &str = concat!(table_names!(), constraint_names!());

fn constraint_table_usage(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_constraint(source, |names, constraint| {
        constraint_row(names, constraint, rows)
    })
}

const CHECK_CONSTRAINTS: &str = concat!(constraint_names!(), "CHECK_CLAUSE nvarchar(4000)?");

fn check_constraints(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let names = Names::of(source)?;
    for table in tables_only(source)? {
        for check in &table.def.checks {
            rows.add();
            names.set(rows, "CONSTRAINT", table.schema_id, &check.name);
            rows.set("CHECK_CLAUSE", short_definition(&check.definition));
        }
    }
    Ok(())
}

const ROUTINES: &str = concat!(
    "SPECIFIC_CATALOG nvarchar(128)?; SPECIFIC_SCHEMA nvarchar(128)?; SPECIFIC_NAME sysname; ROUTINE_CATALOG nvarchar(128)?;
    ROUTINE_SCHEMA nvarchar(128)?; ROUTINE_NAME sysname; ROUTINE_TYPE nvarchar(20)?; MODULE_CATALOG nvarchar(128)?;
    MODULE_SCHEMA nvarchar(128)?; MODULE_NAME nvarchar(128)?; UDT_CATALOG nvarchar(128)?; UDT_SCHEMA nvarchar(128)?;
    UDT_NAME nvarchar(128)?;",
    type_columns!(),
    "INTERVAL_TYPE nvarchar(30)?; INTERVAL_PRECISION smallint?; TYPE_UDT_CATALOG nvarchar(128)?;
    TYPE_UDT_SCHEMA nvarchar(128)?; TYPE_UDT_NAME nvarchar(128)?; SCOPE_CATALOG nvarchar(128)?; SCOPE_SCHEMA nvarchar(128)?;
    SCOPE_NAME nvarchar(128)?; MAXIMUM_CARDINALITY bigint?; DTD_IDENTIFIER nvarchar(128)?; ROUTINE_BODY nvarchar(30)? = SQL;
    ROUTINE_DEFINITION nvarchar(4000)?; EXTERNAL_NAME nvarchar(128)?; EXTERNAL_LANGUAGE nvarchar(30)?;
    PARAMETER_STYLE nvarchar(30)?; IS_DETERMINISTIC nvarchar(10)? = NO; SQL_DATA_ACCESS nvarchar(30)? = MODIFIES;
    IS_NULL_CALL nvarchar(10)?; SQL_PATH nvarchar(128)?; SCHEMA_LEVEL_ROUTINE nvarchar(10)? = YES;
    MAX_DYNAMIC_RESULT_SETS smallint? = -1; IS_USER_DEFINED_CAST nvarchar(10)? = NO;
    IS_IMPLICITLY_INVOCABLE nvarchar(10)? = NO; CREATED datetime; LAST_ALTERED datetime"
);

fn routines(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let names = Names::of(source)?;
    for object in sorted_objects(&names.catalog) {
        let kind = match &object.kind {
            ObjectKind::Procedure(_) => "PROCEDURE",
            ObjectKind::Function(_) => "FUNCTION",
            _ => continue,
        };
        rows.add();
        names.set(rows, "SPECIFIC", object.schema_id, &object.name);
        names.set(rows, "ROUTINE", object.schema_id, &object.name);
        rows.set("ROUTINE_TYPE", kind)
            .set(
                "ROUTINE_DEFINITION",
                module_of(&object).and_then(|m| short_definition(&m.definition)),
            )
            .set("CREATED", source.time(object.created_utc))
            .set("LAST_ALTERED", source.time(object.modified_utc));
        if let ObjectKind::Function(module) = &object.kind {
            let is_deterministic = module.function.is_some_and(|f| f.is_deterministic);
            rows.set(
                "IS_DETERMINISTIC",
                if is_deterministic { "YES" } else { "NO" },
            )
            .set("SQL_DATA_ACCESS", "READS")
            .set("IS_NULL_CALL", "YES")
            .set("MAX_DYNAMIC_RESULT_SETS", 0);
            match module.function.and_then(|f| f.returns) {
                Some(returns) => set_type(returns.data_type, CollationId::DEFAULT, rows),
                None => {
                    rows.set("DATA_TYPE", "TABLE");
                }
            }
            if module.function.is_some_and(|f| f.null_on_null_input) {
                rows.set("IS_NULL_CALL", "NO");
            }
        }
    }
    Ok(())
}

const PARAMETERS: &str = concat!(
    "SPECIFIC_CATALOG nvarchar(128)?; SPECIFIC_SCHEMA nvarchar(128)?; SPECIFIC_NAME sysname; ORDINAL_POSITION int;
    PARAMETER_MODE nvarchar(10)?; IS_RESULT nvarchar(10)? = NO; AS_LOCATOR nvarchar(10)? = NO; PARAMETER_NAME sysname?;",
    type_columns!(),
    "INTERVAL_TYPE nvarchar(30)?; INTERVAL_PRECISION smallint?; USER_DEFINED_TYPE_CATALOG nvarchar(128)?;
    USER_DEFINED_TYPE_SCHEMA nvarchar(128)?; USER_DEFINED_TYPE_NAME sysname?; SCOPE_CATALOG nvarchar(128)?;
    SCOPE_SCHEMA nvarchar(128)?; SCOPE_NAME nvarchar(128)?"
);

fn parameters(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let names = Names::of(source)?;
    for object in sorted_objects(&names.catalog) {
        if let ObjectKind::Procedure(module) | ObjectKind::Function(module) = &object.kind {
            if let Some(returns) = module.function.and_then(|f| f.returns) {
                rows.add();
                names.set(rows, "SPECIFIC", object.schema_id, &object.name);
                rows.set("ORDINAL_POSITION", 0)
                    .set("PARAMETER_MODE", "OUT")
                    .set("IS_RESULT", "YES")
                    .set("PARAMETER_NAME", "");
                set_type(returns.data_type, CollationId::DEFAULT, rows);
            }
            for (at, parameter) in module.parameters.iter().enumerate() {
                rows.add();
                names.set(rows, "SPECIFIC", object.schema_id, &object.name);
                parameter_row(&names, parameter, at + 1, rows);
            }
        }
    }
    Ok(())
}

fn parameter_row(names: &Names, parameter: &ParameterDef, ordinal: usize, rows: &mut Rows<'_>) {
    rows.set("ORDINAL_POSITION", ordinal)
        .set(
            "PARAMETER_MODE",
            if parameter.is_output { "INOUT" } else { "IN" },
        )
        .set("PARAMETER_NAME", &parameter.name);
    let of = parameter.table_type();
    match of.and_then(|id| names.catalog.type_by_id(id)) {
        Some(def) => {
            rows.set("DATA_TYPE", "table type");
            names.set(rows, "USER_DEFINED_TYPE", def.schema_id, &def.name);
        }
        None => set_type(parameter.data_type, CollationId::DEFAULT, rows),
    }
}

const SEQUENCES: &str = "
    SEQUENCE_CATALOG nvarchar(128)?; SEQUENCE_SCHEMA nvarchar(128)?; SEQUENCE_NAME sysname; DATA_TYPE nvarchar(128)?;
    NUMERIC_PRECISION tinyint?; NUMERIC_PRECISION_RADIX smallint?; NUMERIC_SCALE int?; START_VALUE sql_variant?;
    MINIMUM_VALUE sql_variant?; MAXIMUM_VALUE sql_variant?; INCREMENT sql_variant?; CYCLE_OPTION int?;
    DECLARED_DATA_TYPE sysname?; DECLARED_NUMERIC_PRECISION tinyint?; DECLARED_NUMERIC_SCALE int?";

fn sequences(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let names = Names::of(source)?;
    for object in sorted_objects(&names.catalog) {
        let ObjectKind::Sequence(def) = &object.kind else {
            continue;
        };
        let typed = |n| typed_number(n, def.data_type);
        rows.add();
        names.set(rows, "SEQUENCE", object.schema_id, &object.name);
        set_type(def.data_type, CollationId::DEFAULT, rows);
        rows.set("START_VALUE", typed(def.start))
            .set("MINIMUM_VALUE", typed(def.minimum))
            .set("MAXIMUM_VALUE", typed(def.maximum))
            .set("INCREMENT", typed(def.increment))
            .set("CYCLE_OPTION", def.cycle);
    }
    Ok(())
}

const DOMAINS: &str = concat!(
    "DOMAIN_CATALOG nvarchar(128)?; DOMAIN_SCHEMA nvarchar(128)?; DOMAIN_NAME sysname;",
    type_columns!(),
    "DOMAIN_DEFAULT nvarchar(4000)?"
);

fn domains(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let names = Names::of(source)?;
    let aliases = names.catalog.types().filter(|t| t.table.is_none());
    for def in aliases {
        domain_row(&names, def, rows);
    }
    Ok(())
}

fn domain_row(names: &Names, def: &TypeDef, rows: &mut Rows<'_>) {
    rows.add();
    names.set(rows, "DOMAIN", def.schema_id, &def.name);
    set_type(def.data_type, CollationId::DEFAULT, rows);
}
