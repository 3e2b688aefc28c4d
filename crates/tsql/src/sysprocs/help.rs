//! sp_help and its relatives: what an object is, its text, its indexes, its size.

use super::define::{Procedure, database_name, in_database, send};
use crate::error::{Result, SqlError};
use crate::messages;
use crate::session::{SystemCall, definition_of};
use crate::sysviews::shown_text;
use daruma_base::DatabaseId;
use daruma_catalog::{
    DatabaseCatalog, IndexDef, IndexKind, Object, ObjectKind, ReferentialAction, TableDef,
};
use daruma_storage::Database;
use daruma_syntax::{ParseOptions, parse_object_name};
use daruma_value::{DataType, Value};
use std::sync::Arc;

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::native("sp_help", "@objname nvarchar(776) = NULL", help),
    Procedure::native(
        "sp_helptext",
        "@objname nvarchar(776); @columnname sysname = NULL",
        help_text,
    ),
    Procedure::native("sp_helpindex", "@objname nvarchar(776)", help_index),
    Procedure::native(
        "sp_helpconstraint",
        "@objname nvarchar(776); @nomsg varchar(5) = msg",
        help_constraint,
    ),
    Procedure::native(
        "sp_spaceused",
        "@objname nvarchar(776) = NULL; @updateusage varchar(5) = false; @mode varchar(11) = ALL; @oneresultset bit = 0; @include_total_xtp_storage bit = 0",
        space_used,
    ),
    Procedure::native(
        "sp_tablecollations_100",
        "@object nvarchar(4000)",
        table_collations,
    ),
    Procedure::native(
        "sp_tablecollations_90",
        "@object nvarchar(4000)",
        table_collations,
    ),
    Procedure::native(
        "sp_tablecollations",
        "@object nvarchar(4000)",
        table_collations,
    ),
    Procedure::text(
        "sp_helptrigger",
        "@tabname nvarchar(776); @triggertype char(6) = NULL",
        HELP_TRIGGER,
    ),
    Procedure::text(
        "sp_helpstats",
        "@objname nvarchar(776); @results nvarchar(5) = STATS",
        HELP_STATS,
    ),
    Procedure::text("sp_depends", "@objname nvarchar(776)", DEPENDS),
];

/// Object that a name stands for.
enum Found {
    Object(DatabaseId, Arc<Object>),
    Temporary {
        id: i32,
        name: String,
        def: Arc<TableDef>,
    },
}

impl Found {
    fn table(&self) -> Option<(i32, &str, &Arc<TableDef>)> {
        match self {
            Found::Temporary { id, name, def } => Some((*id, name, def)),
            Found::Object(_, object) => match &object.kind {
                ObjectKind::Table(def) => Some((object.id, &object.name, def)),
                _ => None,
            },
        }
    }

    fn database(&self) -> DatabaseId {
        match self {
            Found::Object(database, _) => *database,
            Found::Temporary { .. } => crate::instance::TEMPDB,
        }
    }
}

/// Looks an object up from the database the procedure was named in; error 15009 when there is none.
fn find(call: &SystemCall<'_, '_>, text: &str) -> Result<Found> {
    let missing = || messages::error(15009, &[&text, &database_name(call, call.database)]);
    let name = parse_object_name(text, &ParseOptions::default()).map_err(|_| missing())?;
    let execution = call.execution;
    if name.is_temporary() {
        let table = execution
            .state
            .temp_table(&name.name.text)
            .ok_or_else(missing)?;
        return Ok(Found::Temporary {
            id: table.object_id,
            name: table.name.clone(),
            def: table.def.clone(),
        });
    }
    let database = execution
        .named_database(call.database, &name)
        .map_err(|_| missing())?;
    let catalog = execution.visible(database)?;
    let object = execution
        .catalog_object(&catalog, database, &name)
        .ok_or_else(missing)?;
    Ok(Found::Object(database, object))
}

fn find_argument(call: &SystemCall<'_, '_>) -> Result<Found> {
    find(call, &call.text(0).unwrap_or_default())
}

fn help(call: &SystemCall<'_, '_>) -> Result<i32> {
    let Some(text) = call.text(0) else {
        run(call, call.database, ALL_OBJECTS, &[])?;
        return Ok(0);
    };
    let found = match find(call, &text) {
        Ok(found) => found,
        Err(error) => {
            return help_type(call, &text).and_then(|known| if known { Ok(0) } else { Err(error) });
        }
    };
    let database = found.database();
    let id = match &found {
        Found::Object(_, object) => object.id,
        Found::Temporary { id, .. } => *id,
    };
    let id = [("@id", DataType::Int, Value::Int(id))];
    run(call, database, OBJECT, &id)?;
    match (&found, found.table()) {
        (_, Some((_, name, def))) => {
            run(call, database, COLUMNS, &id)?;
            run(call, database, TABLE_PARTS, &id)?;
            send_indexes(call, database, name, def)?;
            send_constraints(call, &found)?;
            send_references(call, &found)?;
        }
        (Found::Object(_, object), None) => match object.kind {
            ObjectKind::View(_) => run(call, database, COLUMNS, &id)?,
            ObjectKind::Procedure(_) | ObjectKind::Function(_) => {
                run(call, database, PARAMETERS, &id)?
            }
            _ => {}
        },
        _ => {}
    }
    Ok(0)
}

/// sp_help of a data type.
fn help_type(call: &SystemCall<'_, '_>, name: &str) -> Result<bool> {
    let known = crate::session::named_type(name, &[]).is_some()
        || call
            .host()
            .catalog(call.database)?
            .type_named(daruma_catalog::SCHEMA_DBO, name)
            .is_some();
    if known {
        run(
            call,
            call.database,
            TYPE,
            &[("@name", DataType::SYSNAME, Value::str(name))],
        )?;
    }
    Ok(known)
}

fn run(
    call: &SystemCall<'_, '_>,
    database: DatabaseId,
    text: &str,
    parameters: &[(&str, DataType, Value)],
) -> Result<()> {
    call.run(&in_database(text, call, database), parameters)
}

const ALL_OBJECTS: &str = "
SELECT o.name AS Name, s.name AS Owner, LOWER(REPLACE(o.type_desc, '_', ' ')) AS Object_type
FROM $.sys.all_objects o JOIN $.sys.schemas s ON s.schema_id = o.schema_id
ORDER BY 2, 3 DESC, 1
SELECT t.name AS User_type, TYPE_NAME(t.system_type_id) AS Storage_type, t.max_length AS Length, t.precision AS Prec, t.scale AS Scale,
    CASE WHEN t.is_nullable = 1 THEN 'yes' ELSE 'no' END AS Nullable, 'none' AS Default_name, 'none' AS Rule_name, t.collation_name AS Collation
FROM $.sys.types t WHERE t.is_user_defined = 1 AND t.is_table_type = 0 ORDER BY 1";

const TYPE: &str = "
SELECT t.name AS Type_name, TYPE_NAME(t.system_type_id) AS Storage_type, t.max_length AS Length, t.precision AS Prec, t.scale AS Scale,
    CASE WHEN t.is_nullable = 1 THEN 'yes' ELSE 'no' END AS Nullable, 'none' AS Default_name, 'none' AS Rule_name, t.collation_name AS Collation
FROM $.sys.types t WHERE t.name = @name";

const OBJECT: &str = "
SELECT o.name AS Name, N'dbo' AS Owner,
    CASE o.type WHEN 'U' THEN 'user table' WHEN 'V' THEN 'view' WHEN 'P' THEN 'stored procedure' WHEN 'TR' THEN 'trigger'
        ELSE LOWER(REPLACE(o.type_desc, '_', ' ')) END AS Type,
    o.create_date AS Created_datetime
FROM $.sys.objects o WHERE o.object_id = @id";

const COLUMNS: &str = "
SELECT c.name AS Column_name, t.name AS Type, CASE WHEN c.is_computed = 1 THEN 'yes' ELSE 'no' END AS Computed,
    CAST(c.max_length AS int) AS Length,
    CASE WHEN c.precision > 0 THEN CAST(c.precision AS char(5)) ELSE '     ' END AS Prec,
    CASE WHEN c.precision > 0 THEN CAST(c.scale AS char(5)) ELSE '     ' END AS Scale,
    CASE WHEN c.is_nullable = 1 THEN 'yes' ELSE 'no' END AS Nullable,
    CASE WHEN c.collation_name IS NULL AND c.is_ansi_padded = 0 THEN '(n/a)' WHEN c.is_ansi_padded = 1 THEN 'no' ELSE 'yes' END AS TrimTrailingBlanks,
    CASE WHEN c.collation_name IS NULL AND c.is_ansi_padded = 0 THEN '(n/a)' WHEN c.is_nullable = 1 THEN 'yes' ELSE 'no' END AS FixedLenNullInSource,
    c.collation_name AS Collation
FROM $.sys.columns c LEFT JOIN $.sys.types t ON t.user_type_id = c.user_type_id
WHERE c.object_id = @id ORDER BY c.column_id";

const TABLE_PARTS: &str = "
IF EXISTS (SELECT * FROM $.sys.identity_columns WHERE object_id = @id)
    SELECT name AS [Identity], seed_value AS Seed, increment_value AS Increment, CAST(is_not_for_replication AS int) AS [Not For Replication]
    FROM $.sys.identity_columns WHERE object_id = @id
ELSE
    SELECT N'No identity column defined.' AS [Identity], CAST(NULL AS numeric(38)) AS Seed, CAST(NULL AS numeric(38)) AS Increment,
        CAST(NULL AS int) AS [Not For Replication]
SELECT COALESCE((SELECT TOP (1) name FROM $.sys.columns WHERE object_id = @id AND is_rowguidcol = 1), N'No rowguidcol column defined.') AS [RowGuidCol]
SELECT g.name AS Data_located_on_filegroup
FROM $.sys.indexes i JOIN $.sys.filegroups g ON g.data_space_id = i.data_space_id WHERE i.object_id = @id AND i.index_id < 2";

const PARAMETERS: &str = "
IF EXISTS (SELECT * FROM $.sys.parameters WHERE object_id = @id)
    SELECT p.name AS Parameter_name, t.name AS Type, p.max_length AS Length, p.precision AS Prec, p.scale AS Scale,
        p.parameter_id AS Param_order, CAST(NULL AS sysname) AS Collation
    FROM $.sys.parameters p LEFT JOIN $.sys.types t ON t.user_type_id = p.user_type_id WHERE p.object_id = @id ORDER BY p.parameter_id";

const HELP_TRIGGER: &str = "
SELECT t.name AS trigger_name, N'dbo' AS trigger_owner,
    CAST(MAX(CASE WHEN e.type = 2 THEN 1 ELSE 0 END) AS int) AS isupdate, CAST(MAX(CASE WHEN e.type = 3 THEN 1 ELSE 0 END) AS int) AS isdelete,
    CAST(MAX(CASE WHEN e.type = 1 THEN 1 ELSE 0 END) AS int) AS isinsert,
    CASE WHEN MAX(CAST(t.is_instead_of_trigger AS int)) = 1 THEN 0 ELSE 1 END AS isafter, MAX(CAST(t.is_instead_of_trigger AS int)) AS isinsteadof,
    N'dbo' AS trigger_schema
FROM $.sys.triggers t JOIN $.sys.trigger_events e ON e.object_id = t.object_id
WHERE t.parent_id = OBJECT_ID(@tabname) GROUP BY t.name ORDER BY t.name";

const HELP_STATS: &str = "
IF OBJECT_ID(@objname) IS NULL
    RAISERROR (15009, 16, 1, @objname, @db)
ELSE IF NOT EXISTS (SELECT * FROM $.sys.stats s WHERE s.object_id = OBJECT_ID(@objname) AND (@results = 'ALL' OR s.auto_created = 1 OR s.user_created = 1))
    PRINT 'This object does not have any statistics.'
ELSE
    SELECT s.name AS statistics_name,
        (SELECT STRING_AGG(CAST(c.name AS nvarchar(max)), N', ') WITHIN GROUP (ORDER BY k.stats_column_id)
         FROM $.sys.stats_columns k JOIN $.sys.columns c ON c.object_id = k.object_id AND c.column_id = k.column_id
         WHERE k.object_id = s.object_id AND k.stats_id = s.stats_id) AS statistics_keys
    FROM $.sys.stats s
    WHERE s.object_id = OBJECT_ID(@objname) AND (@results = 'ALL' OR s.auto_created = 1 OR s.user_created = 1)
    ORDER BY s.name";

/// Which columns are read or written is not known: the lists are those of the objects.
/// The objects at the other end of the dependencies that have the object at `$own`.
macro_rules! dependencies {
    ($own:literal, $other:literal) => {
        concat!(
            "SELECT s.name + N'.' + o.name AS name, LOWER(REPLACE(o.type_desc, N'_', N' ')) AS type
        FROM $.sys.sql_expression_dependencies d JOIN $.sys.objects o ON o.object_id = d.",
            $other,
            "
            JOIN $.sys.schemas s ON s.schema_id = o.schema_id
        WHERE d.",
            $own,
            " = @id ORDER BY 1"
        )
    };
}

const DEPENDS: &str = concat!(
    "
DECLARE @id int = OBJECT_ID(@objname)
IF @id IS NULL
    RAISERROR (15009, 16, 1, @objname, @db)
ELSE
BEGIN
    DECLARE @uses bit = 0, @used bit = 0
    IF EXISTS (SELECT * FROM $.sys.sql_expression_dependencies d WHERE d.referencing_id = @id AND d.referenced_id IS NOT NULL) SET @uses = 1
    IF EXISTS (SELECT * FROM $.sys.sql_expression_dependencies d WHERE d.referenced_id = @id) SET @used = 1
    IF @uses = 1
    BEGIN
        RAISERROR (15459, -1, -1)
        ",
    dependencies!("referencing_id", "referenced_id"),
    "
    END
    IF @used = 1
    BEGIN
        RAISERROR (15460, -1, -1)
        ",
    dependencies!("referenced_id", "referencing_id"),
    "
    END
    IF @uses = 0 AND @used = 0 RAISERROR (15461, -1, -1)
END"
);

fn help_text(call: &SystemCall<'_, '_>) -> Result<i32> {
    let text = call.text(0).unwrap_or_default();
    let definition = match find(call, &text)? {
        Found::Object(_, object) => definition_of(&object).map(str::to_string),
        Found::Temporary { .. } => None,
    };
    let Some(definition) = definition else {
        return Err(SqlError::new(
            15197,
            16,
            1,
            format!("There is no text for object '{text}'."),
        ));
    };
    send(call, "Text nvarchar(255)?", |_, rows| {
        for line in text_lines(&definition) {
            rows.add().set("Text", line);
        }
        Ok(())
    })?;
    Ok(0)
}

/// Longest piece of a line in one row.
const TEXT_CHARS_MAX: usize = 255;

/// Lines with their ends; longer ones in pieces.
fn text_lines(text: &str) -> Vec<String> {
    let mut list = Vec::new();
    for line in text.split_inclusive('\n') {
        let characters: Vec<char> = line.chars().collect();
        list.extend(
            characters
                .chunks(TEXT_CHARS_MAX)
                .map(|piece| piece.iter().collect::<String>()),
        );
    }
    list
}

fn help_index(call: &SystemCall<'_, '_>) -> Result<i32> {
    let found = find_argument(call)?;
    match found.table() {
        Some((_, name, def)) => send_indexes(call, found.database(), name, def)?,
        None => no_indexes(call, &call.text(0).unwrap_or_default())?,
    }
    Ok(0)
}

fn no_indexes(call: &SystemCall<'_, '_>, name: &str) -> Result<()> {
    let text =
        format!("The object '{name}' does not have any indexes, or you do not have permissions.");
    call.message(SqlError::new(15472, 10, 1, text))
}

fn send_indexes(
    call: &SystemCall<'_, '_>,
    database: DatabaseId,
    name: &str,
    def: &TableDef,
) -> Result<()> {
    let mut indexes: Vec<&IndexDef> = def
        .indexes
        .iter()
        .filter(|i| i.kind != IndexKind::Heap)
        .collect();
    if indexes.is_empty() {
        return no_indexes(call, name);
    }
    indexes.sort_by_key(|i| i.name.as_deref().map(str::to_lowercase));
    let filegroups = call
        .execution
        .instance()
        .database(database)
        .map(|d| d.def().filegroups.clone())
        .unwrap_or_default();
    send(
        call,
        "index_name sysname?; index_description varchar(210)?; index_keys nvarchar(2126)?",
        |_, rows| {
            for index in indexes {
                let filegroup = filegroups
                    .iter()
                    .find(|g| g.id == index.filegroup)
                    .map_or("PRIMARY", |g| g.name.as_str());
                rows.add()
                    .set("index_name", index.name.as_ref())
                    .set("index_description", index_description(index, filegroup))
                    .set("index_keys", key_list(def, index));
            }
            Ok(())
        },
    )
}

fn index_description(index: &IndexDef, filegroup: &str) -> String {
    let mut text = match index.kind {
        IndexKind::Clustered => "clustered".to_string(),
        _ => "nonclustered".to_string(),
    };
    if index.ignore_dup_key {
        text.push_str(", ignore duplicate keys");
    }
    if index.unique {
        text.push_str(", unique");
    }
    match &index.constraint {
        Some(key) if key.is_primary_key => text.push_str(", primary key"),
        Some(_) => text.push_str(", unique key"),
        None => {}
    }
    format!("{text} located on {filegroup}")
}

/// `a, b(-)`: the key columns, descending ones marked.
fn key_list(def: &TableDef, index: &IndexDef) -> String {
    let key = |k: &daruma_catalog::IndexColumn| {
        let name = def.column(k.column_id).map_or("", |c| c.name.as_str());
        if k.descending {
            format!("{name}(-)")
        } else {
            name.to_string()
        }
    };
    index.key.iter().map(key).collect::<Vec<_>>().join(", ")
}

fn help_constraint(call: &SystemCall<'_, '_>) -> Result<i32> {
    let found = find_argument(call)?;
    if call.text(1).as_deref() != Some("nomsg") {
        let text = call.text(0).unwrap_or_default();
        send(call, "Object~Name nvarchar(776)", |_, rows| {
            rows.add().set("Object Name", text.as_str());
            Ok(())
        })?;
    }
    send_constraints(call, &found)?;
    send_references(call, &found)?;
    Ok(0)
}

const CONSTRAINT_COLUMNS: &str = "
    constraint_type nvarchar(146)?; constraint_name nvarchar(128)?; delete_action nvarchar(11)? = (n/a);
    update_action nvarchar(11)? = (n/a); status_enabled varchar(8)? = (n/a); status_for_replication varchar(19)? = (n/a);
    constraint_keys nvarchar(2126)?";

fn send_constraints(call: &SystemCall<'_, '_>, found: &Found) -> Result<()> {
    let Some((_, name, def)) = found.table() else {
        return Ok(());
    };
    let has_keys = def.indexes.iter().any(|i| i.constraint.is_some());
    let has_defaults = def.columns.iter().any(|c| c.default.is_some());
    if !has_keys && !has_defaults && def.checks.is_empty() && def.foreign_keys.is_empty() {
        let text = format!(
            "No constraints are defined on object '{name}', or you do not have permissions."
        );
        return call.message(SqlError::new(15469, 10, 1, text));
    }
    let catalog = call.host().visible_catalog(found.database())?;
    let database = database_name(call, found.database());
    send(call, CONSTRAINT_COLUMNS, |_, rows| {
        for check in &def.checks {
            let column = check.column_id.and_then(|id| def.column(id));
            let kind = column.map_or("CHECK Table Level ".to_string(), |c| {
                format!("CHECK on column {}", c.name)
            });
            rows.add()
                .set("constraint_type", kind)
                .set("constraint_name", &check.name);
            rows.set("status_enabled", enabled(check.disabled))
                .set("status_for_replication", "Is_For_Replication");
            rows.set("constraint_keys", shown_text(&check.definition));
        }
        for column in &def.columns {
            if let Some(default) = &column.default {
                rows.add().set(
                    "constraint_type",
                    format!("DEFAULT on column {}", column.name),
                );
                rows.set("constraint_name", &default.name)
                    .set("constraint_keys", shown_text(&default.definition));
            }
        }
        for key in &def.foreign_keys {
            rows.add()
                .set("constraint_type", "FOREIGN KEY")
                .set("constraint_name", &key.name);
            rows.set("delete_action", action(key.on_delete))
                .set("update_action", action(key.on_update));
            rows.set("status_enabled", enabled(key.disabled))
                .set("status_for_replication", "Is_For_Replication");
            rows.set("constraint_keys", column_list(def, &key.columns));
            rows.add()
                .set("constraint_type", " ")
                .set("constraint_name", " ")
                .set("delete_action", " ")
                .set("update_action", " ");
            rows.set("status_enabled", " ")
                .set("status_for_replication", " ");
            rows.set(
                "constraint_keys",
                format!("REFERENCES {database}.{}", referenced(&catalog, key)),
            );
        }
        for index in def.indexes.iter().filter(|i| i.constraint.is_some()) {
            let primary = index.constraint.as_ref().is_some_and(|c| c.is_primary_key);
            let clustered = if index.kind == IndexKind::Clustered {
                "clustered"
            } else {
                "non-clustered"
            };
            let kind = if primary { "PRIMARY KEY" } else { "UNIQUE" };
            rows.add()
                .set("constraint_type", format!("{kind} ({clustered})"))
                .set("constraint_name", index.name.as_ref());
            rows.set("constraint_keys", key_list(def, index));
        }
        Ok(())
    })
}

fn enabled(disabled: bool) -> &'static str {
    if disabled { "Disabled" } else { "Enabled" }
}

fn action(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::NoAction => "No Action",
        ReferentialAction::Cascade => "Cascade",
        ReferentialAction::SetNull => "Set Null",
        ReferentialAction::SetDefault => "Set Default",
    }
}

fn column_list(def: &TableDef, ids: &[i32]) -> String {
    let names = ids
        .iter()
        .filter_map(|id| def.column(*id))
        .map(|c| c.name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// `schema.table (columns)` of a foreign key's other side.
fn referenced(catalog: &DatabaseCatalog, key: &daruma_catalog::ForeignKeyDef) -> String {
    let Some(object) = catalog.object(key.referenced_table) else {
        return String::new();
    };
    let schema = catalog
        .schema(object.schema_id)
        .map_or("dbo", |s| s.name.as_str());
    let columns = match &object.kind {
        ObjectKind::Table(def) => column_list(def, &key.referenced_columns),
        _ => String::new(),
    };
    format!("{schema}.{} ({columns})", object.name)
}

fn send_references(call: &SystemCall<'_, '_>, found: &Found) -> Result<()> {
    let Some((id, name, _)) = found.table() else {
        return Ok(());
    };
    let catalog = call.host().visible_catalog(found.database())?;
    let database = database_name(call, found.database());
    let mut lines = Vec::new();
    for object in catalog
        .referencing(id)
        .iter()
        .filter_map(|id| catalog.object(*id))
    {
        let ObjectKind::Table(def) = &object.kind else {
            continue;
        };
        let schema = catalog
            .schema(object.schema_id)
            .map_or("dbo", |s| s.name.as_str());
        let keys = def.foreign_keys.iter().filter(|k| k.referenced_table == id);
        lines.extend(keys.map(|k| format!("{database}.{schema}.{}: {}", object.name, k.name)));
    }
    if lines.is_empty() {
        let text = format!(
            "No foreign keys reference table '{name}', or you do not have permissions on referencing tables."
        );
        return call.message(SqlError::new(15470, 10, 1, text));
    }
    send(
        call,
        "Table~is~referenced~by~foreign~key nvarchar(516)",
        |_, rows| {
            for line in lines {
                rows.add().set("Table is referenced by foreign key", line);
            }
            Ok(())
        },
    )
}

const PAGE_KB: u64 = 8;

fn space_used(call: &SystemCall<'_, '_>) -> Result<i32> {
    match call.text(0) {
        Some(text) => table_space(call, &text),
        None => database_space(call),
    }
}

/// Rows and pages of a table: of its own tree, and of its other indexes.
fn table_pages(database: &Database, def: &TableDef) -> (u64, u64, u64) {
    let mut sizes = (0, 0, 0);
    for (at, index) in def.indexes.iter().enumerate() {
        let Ok(tree) = database.tree(index.tree) else {
            continue;
        };
        if at == 0 {
            sizes.0 = tree.approximate_count();
            sizes.1 = tree.approximate_pages();
        } else {
            sizes.2 += tree.approximate_pages();
        }
    }
    sizes
}

fn table_space(call: &SystemCall<'_, '_>, text: &str) -> Result<i32> {
    let found = find(call, text)?;
    let Some((_, name, def)) = found.table() else {
        let what = "The object does not have space allocated.";
        return Err(SqlError::new(15235, 16, 1, what));
    };
    let open = call.execution.instance().open_database(found.database())?;
    let (count, data, indexes) = table_pages(&open.storage, def);
    send(
        call,
        "name nvarchar(128); rows char(20); reserved varchar(18)?; data varchar(18)?; index_size varchar(18)?; unused varchar(18)?",
        |_, rows| {
            rows.add()
                .set("name", name)
                .set("rows", count.to_string())
                .set("reserved", kilobytes(data + indexes))
                .set("data", kilobytes(data))
                .set("index_size", kilobytes(indexes))
                .set("unused", kilobytes(0));
            Ok(())
        },
    )?;
    Ok(0)
}

fn kilobytes(pages: u64) -> String {
    format!("{} KB", pages * PAGE_KB)
}

fn megabytes(pages: u64) -> String {
    format!("{:.2} MB", pages as f64 / 128.0)
}

fn database_space(call: &SystemCall<'_, '_>) -> Result<i32> {
    let open = call.execution.instance().open_database(call.database)?;
    let files = open.storage.files();
    let pages = |log: bool| files.iter().filter(move |f| (f.spec.filegroup == 0) == log);
    let data: u64 = pages(false).map(|f| f.size_pages).sum();
    let used: u64 = pages(false).map(|f| f.used_pages).sum();
    let log: u64 = pages(true).map(|f| f.size_pages).sum();
    let name = database_name(call, call.database);
    let catalog = call.host().catalog(call.database)?;
    let (mut table_data, mut table_indexes) = (0, 0);
    for object in catalog.objects() {
        if let ObjectKind::Table(def) = &object.kind {
            let (_, data, indexes) = table_pages(&open.storage, def);
            table_data += data;
            table_indexes += indexes;
        }
    }
    send(
        call,
        "database_name nvarchar(128)?; database_size varchar(18)?; unallocated~space varchar(18)?",
        |_, rows| {
            rows.add()
                .set("database_name", name)
                .set("database_size", megabytes(data + log))
                .set("unallocated space", megabytes(data.saturating_sub(used)));
            Ok(())
        },
    )?;
    send(
        call,
        "reserved varchar(18)?; data varchar(18)?; index_size varchar(18)?; unused varchar(18)?",
        |_, rows| {
            rows.add()
                .set("reserved", kilobytes(used))
                .set("data", kilobytes(table_data))
                .set("index_size", kilobytes(table_indexes))
                .set(
                    "unused",
                    kilobytes(used.saturating_sub(table_data + table_indexes)),
                );
            Ok(())
        },
    )?;
    Ok(0)
}

const COLLATION_COLUMNS: &str = "
    colid int; name sysname?; tds_collation_28 binary(5)?; tds_collation_90 binary(5)?; tds_collation_100 binary(5)?;
    collation_28 sysname?; collation_90 sysname?; collation_100 sysname?";

/// Procedure that bulk copy calls before it sends rows: the collation of each column.
fn table_collations(call: &SystemCall<'_, '_>) -> Result<i32> {
    let text = call.text(0).unwrap_or_default();
    // Bulk copy writes a missing schema as an empty name: `.[t]`.
    let found = find(call, text.trim_start_matches('.'))?;
    let columns = found
        .table()
        .map(|(.., def)| def.columns.clone())
        .unwrap_or_default();
    send(call, COLLATION_COLUMNS, |_, rows| {
        for (at, column) in columns.iter().enumerate() {
            rows.add().set("colid", at + 1).set("name", &column.name);
            if column.data_type.is_character() && column.data_type != DataType::Xml {
                let wire = column.collation.wire_bytes().to_vec();
                let name = column.collation.name();
                rows.set("tds_collation_28", wire.clone())
                    .set("tds_collation_90", wire.clone())
                    .set("tds_collation_100", wire);
                rows.set("collation_28", name)
                    .set("collation_90", name)
                    .set("collation_100", name);
            }
        }
        Ok(())
    })?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_in_lines_of_limited_length() {
        assert_eq!(text_lines("a\r\nb"), ["a\r\n", "b"]);
        let long = "x".repeat(300);
        assert_eq!(
            text_lines(&long)
                .iter()
                .map(String::len)
                .collect::<Vec<_>>(),
            [255, 45]
        );
    }
}
