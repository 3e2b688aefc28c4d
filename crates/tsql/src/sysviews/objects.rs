//! Schemas, objects, tables, views, programs, triggers, synonyms and sequences.

use super::define::{Rows, View};
use super::names::SystemObject;
use super::source::{
    ObjectLine, Source, shown_text, sorted_objects, table_type_object_id, type_description,
    user_type_id,
};
use crate::binder::defined_view;
use crate::error::Result;
use daruma_catalog::{CounterId, ModuleDef, Object, ObjectKind, SequenceDef, TriggerDef};

/// Columns that `sys.objects` and all views of one kind of object begin with.
macro_rules! object_columns {
    () => {
        "name sysname; object_id int; principal_id int?; schema_id int; parent_object_id int; type char(2)?;
        type_desc nvarchar(60)?; create_date datetime; modify_date datetime; is_ms_shipped bit; is_published bit;
        is_schema_published bit;"
    };
}
pub(super) use object_columns;

pub(super) const VIEWS: &[View] = &[
    View::sys("schemas", SCHEMAS, schemas),
    View::sys("objects", OBJECTS, objects),
    View::sys("all_objects", OBJECTS, all_objects),
    View::sys("system_objects", OBJECTS, system_objects),
    View::sys("tables", TABLES, tables),
    View::sys("views", VIEWS_COLUMNS, views),
    View::sys("all_views", VIEWS_COLUMNS, all_views),
    View::sys("system_views", VIEWS_COLUMNS, system_views),
    View::sys("procedures", PROCEDURES, procedures),
    View::sys("triggers", TRIGGERS, triggers),
    View::sys("trigger_events", TRIGGER_EVENTS, trigger_events),
    View::sys("events", EVENTS, trigger_events),
    View::sys("synonyms", SYNONYMS, synonyms),
    View::sys("sequences", SEQUENCES, sequences),
    View::sys("sql_modules", MODULES, modules),
    View::sys("all_sql_modules", MODULES, modules),
    View::sys("system_sql_modules", MODULES, super::define::nothing),
    View::sys("table_types", TABLE_TYPES, table_types),
];

const SCHEMAS: &str = "name sysname; schema_id int; principal_id int?";

fn schemas(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let catalog = source.catalog()?;
    for schema in catalog.schemas() {
        rows.add()
            .set("name", &schema.name)
            .set("schema_id", schema.id)
            .set("principal_id", schema.principal_id);
    }
    Ok(())
}

const OBJECTS: &str = object_columns!();

fn objects(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for line in source.objects()? {
        object_row(source, &line, rows);
    }
    super::base_tables::objects(source, rows)
}

fn all_objects(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    objects(source, rows)?;
    system_objects(source, rows)
}

fn system_objects(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for object in source.system_objects()? {
        system_row(source, &object, rows)?;
    }
    Ok(())
}

/// The columns that all views of objects begin with.
pub(super) fn object_row(source: &Source<'_>, line: &ObjectLine, rows: &mut Rows<'_>) {
    rows.add()
        .set("name", &line.name)
        .set("object_id", line.id)
        .set("schema_id", line.schema_id)
        .set("parent_object_id", line.parent_id)
        .set("type", line.type_code)
        .set("type_desc", type_description(line.type_code))
        .set("create_date", source.time(line.created_utc))
        .set("modify_date", source.time(line.modified_utc))
        .set("is_ms_shipped", line.is_ms_shipped);
}

fn system_row(source: &Source<'_>, object: &SystemObject, rows: &mut Rows<'_>) -> Result<()> {
    let started_utc = source.instance()?.started_utc();
    let line = ObjectLine {
        id: object.id,
        name: object.name.clone(),
        schema_id: object.schema_id,
        parent_id: 0,
        type_code: object.type_code,
        created_utc: started_utc,
        modified_utc: started_utc,
        is_ms_shipped: true,
    };
    object_row(source, &line, rows);
    Ok(())
}

const TABLES: &str = concat!(
    object_columns!(),
    "lob_data_space_id int; filestream_data_space_id int?; max_column_id_used int;
    lock_on_bulk_load bit; uses_ansi_nulls bit?; is_replicated bit? = 0; has_replication_filter bit? = 0;
    is_merge_published bit? = 0; is_sync_tran_subscribed bit? = 0; has_unchecked_assembly_data bit;
    text_in_row_limit int? = 0; large_value_types_out_of_row bit? = 0; is_tracked_by_cdc bit? = 0;
    lock_escalation tinyint? = 0; lock_escalation_desc nvarchar(60)? = TABLE; is_filetable bit? = 0;
    is_memory_optimized bit? = 0; durability tinyint? = 0; durability_desc nvarchar(60)? = SCHEMA_AND_DATA;
    temporal_type tinyint? = 0; temporal_type_desc nvarchar(60)? = NON_TEMPORAL_TABLE; history_table_id int?;
    is_remote_data_archive_enabled bit? = 0; is_external bit = 0; history_retention_period int?;
    history_retention_period_unit int?; history_retention_period_unit_desc nvarchar(10)?; is_node bit? = 0;
    is_edge bit? = 0; data_retention_period int? = -1; data_retention_period_unit int? = -1;
    data_retention_period_unit_desc nvarchar(10)? = INFINITE; ledger_type tinyint? = 0;
    ledger_type_desc nvarchar(60)? = NON_LEDGER_TABLE; ledger_view_id int?; is_dropped_ledger_table bit? = 0"
);

fn tables(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let lines = source.objects()?;
    for table in source.tables()?.iter().filter(|t| !t.is_type) {
        let Some(line) = lines.iter().find(|l| l.id == table.id) else {
            continue;
        };
        object_row(source, line, rows);
        let large = table.def.columns.iter().any(|c| c.data_type.is_large());
        let last_column = table.def.columns.iter().map(|c| c.id).max().unwrap_or(0);
        rows.set(
            "lob_data_space_id",
            if large { table.def.filegroup } else { 0 },
        )
        .set(
            "max_column_id_used",
            last_column.max(table.def.next_column_id - 1),
        )
        .set("uses_ansi_nulls", table.def.ansi_nulls);
    }
    Ok(())
}

const VIEWS_COLUMNS: &str = concat!(
    object_columns!(),
    "is_replicated bit? = 0; has_replication_filter bit? = 0; has_opaque_metadata bit;
    has_unchecked_assembly_data bit; with_check_option bit; is_date_correlation_view bit; is_tracked_by_cdc bit? = 0;
    has_snapshot bit? = 0; ledger_view_type tinyint? = 0; ledger_view_type_desc nvarchar(60)? = NON_LEDGER_VIEW;
    is_dropped_ledger_view bit? = 0"
);

fn views(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let catalog = source.catalog()?;
    for line in source.objects()?.iter().filter(|l| l.type_code == "V ") {
        object_row(source, line, rows);
        if let Some(ObjectKind::View(module)) = catalog.object(line.id).map(|o| &o.kind) {
            rows.set("with_check_option", checks_rows(module));
        }
    }
    Ok(())
}

/// Was a view defined WITH CHECK OPTION?
pub(super) fn checks_rows(module: &ModuleDef) -> bool {
    matches!(defined_view(module), Ok(Some(view)) if view.check_option)
}

fn all_views(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    views(source, rows)?;
    system_views(source, rows)
}

fn system_views(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for object in source
        .system_objects()?
        .iter()
        .filter(|o| o.type_code == "V ")
    {
        system_row(source, object, rows)?;
    }
    Ok(())
}

fn of_type(source: &Source<'_>, rows: &mut Rows<'_>, code: &str) -> Result<()> {
    for line in source.objects()?.iter().filter(|l| l.type_code == code) {
        object_row(source, line, rows);
    }
    Ok(())
}

const PROCEDURES: &str = concat!(
    object_columns!(),
    "is_auto_executed bit; is_execution_replicated bit? = 0;
    is_repl_serializable_only bit? = 0; skips_repl_constraints bit? = 0"
);

fn procedures(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    of_type(source, rows, "P ")
}

const TRIGGERS: &str = "
    name sysname; object_id int; parent_class tinyint = 1; parent_class_desc nvarchar(60)? = OBJECT_OR_COLUMN;
    parent_id int; type char(2) = TR; type_desc nvarchar(60)? = SQL_TRIGGER; create_date datetime; modify_date datetime;
    is_ms_shipped bit; is_disabled bit; is_not_for_replication bit; is_instead_of_trigger bit";

fn each_trigger(source: &Source<'_>, mut visit: impl FnMut(&Object, &TriggerDef)) -> Result<()> {
    for object in sorted_objects(&*source.catalog()?) {
        if let ObjectKind::Trigger(trigger) = &object.kind {
            visit(&object, trigger);
        }
    }
    Ok(())
}

fn triggers(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_trigger(source, |object, trigger| {
        rows.add()
            .set("name", &object.name)
            .set("object_id", object.id)
            .set("parent_id", trigger.parent)
            .set("create_date", source.time(object.created_utc))
            .set("modify_date", source.time(object.modified_utc))
            .set("is_disabled", trigger.disabled)
            .set("is_instead_of_trigger", trigger.instead_of);
    })?;
    super::ddl_triggers::triggers(source, rows)
}

const TRIGGER_EVENTS: &str = "
    object_id int; type int; type_desc nvarchar(128); is_first bit; is_last bit; event_group_type int?;
    event_group_type_desc nvarchar(60)?; is_trigger_event bit? = 1";
const EVENTS: &str = "
    object_id int; type int; type_desc nvarchar(60)?; is_trigger_event bit? = 1; event_group_type int?;
    event_group_type_desc nvarchar(60)?";

fn trigger_events(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    each_trigger(source, |object, trigger| {
        let events = [
            (trigger.on_insert, 1, "INSERT"),
            (trigger.on_update, 2, "UPDATE"),
            (trigger.on_delete, 3, "DELETE"),
        ];
        for (_, number, name) in events.into_iter().filter(|(on, ..)| *on) {
            rows.add()
                .set("object_id", object.id)
                .set("type", number)
                .set("type_desc", name);
        }
    })?;
    super::ddl_triggers::events(source, rows)
}

const SYNONYMS: &str = concat!(object_columns!(), "base_object_name nvarchar(1035)?");

fn synonyms(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let catalog = source.catalog()?;
    for line in source.objects()?.iter().filter(|l| l.type_code == "SN") {
        object_row(source, line, rows);
        if let Some(ObjectKind::Synonym { target }) = catalog.object(line.id).map(|o| &o.kind) {
            rows.set("base_object_name", target);
        }
    }
    Ok(())
}

const SEQUENCES: &str = concat!(
    object_columns!(),
    "start_value sql_variant; increment sql_variant; minimum_value sql_variant?;
    maximum_value sql_variant?; is_cycling bit?; is_cached bit?; cache_size int?; system_type_id tinyint;
    user_type_id int; precision tinyint; scale tinyint?; current_value sql_variant; is_exhausted bit;
    last_used_value sql_variant?"
);

fn sequences(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let open = source.open()?;
    let catalog = source.catalog()?;
    for line in source.objects()?.iter().filter(|l| l.type_code == "SO") {
        let Some(ObjectKind::Sequence(def)) = catalog.object(line.id).map(|o| &o.kind) else {
            continue;
        };
        object_row(source, line, rows);
        sequence_columns(
            def,
            open.catalog.last_value(CounterId::Sequence(line.id)),
            rows,
        );
    }
    Ok(())
}

fn sequence_columns(def: &SequenceDef, last: Option<i128>, rows: &mut Rows<'_>) {
    let typed = |n: i128| super::columns::typed_number(n, def.data_type);
    rows.set("start_value", typed(def.start))
        .set("increment", typed(def.increment))
        .set("minimum_value", typed(def.minimum))
        .set("maximum_value", typed(def.maximum))
        .set("is_cycling", def.cycle)
        .set("is_cached", def.cache != Some(0))
        .set("cache_size", def.cache.filter(|size| *size > 0))
        .set("system_type_id", def.data_type.system_type_id())
        .set("user_type_id", user_type_id(def.data_type, None))
        .set("precision", def.data_type.precision())
        .set("scale", def.data_type.scale())
        .set("current_value", typed(last.unwrap_or(def.start)))
        .set(
            "is_exhausted",
            !def.cycle
                && last.is_some_and(|l| {
                    l == if def.increment < 0 {
                        def.minimum
                    } else {
                        def.maximum
                    }
                }),
        );
    if let Some(last) = last {
        rows.set("last_used_value", typed(last));
    }
}

const MODULES: &str = "
    object_id int; definition nvarchar(max)?; uses_ansi_nulls bit?; uses_quoted_identifier bit?; is_schema_bound bit?;
    uses_database_collation bit? = 0; is_recompiled bit? = 0; null_on_null_input bit? = 0; execute_as_principal_id int?;
    uses_native_compilation bit? = 0; inline_type bit? = 0; is_inlineable bit? = 0";

/// The text of a view, procedure, function or trigger.
pub(crate) fn module_of(object: &Object) -> Option<&ModuleDef> {
    match &object.kind {
        ObjectKind::View(module) | ObjectKind::Procedure(module) | ObjectKind::Function(module) => {
            Some(module)
        }
        ObjectKind::Trigger(trigger) => Some(&trigger.module),
        _ => None,
    }
}

fn modules(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for object in sorted_objects(&*source.catalog()?) {
        if let Some(module) = module_of(&object) {
            rows.add()
                .set("object_id", object.id)
                .set("definition", shown_text(&module.definition))
                .set("uses_ansi_nulls", module.ansi_nulls)
                .set("uses_quoted_identifier", module.quoted_identifier)
                .set("is_schema_bound", module.schema_bound);
            let function = module.function.as_ref();
            rows.set(
                "null_on_null_input",
                function.is_some_and(|f| f.null_on_null_input),
            );
        }
    }
    super::ddl_triggers::modules(source, rows)
}

const TABLE_TYPES: &str = "
    name sysname; system_type_id tinyint = 243; user_type_id int; schema_id int; principal_id int?;
    max_length smallint = -1; precision tinyint; scale tinyint; collation_name sysname?; is_nullable bit? = 0;
    is_user_defined bit = 1; is_assembly_type bit; default_object_id int; rule_object_id int; is_table_type bit = 1;
    type_table_object_id int; is_memory_optimized bit? = 0";

fn table_types(source: &Source<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for def in source.catalog()?.types().filter(|t| t.table.is_some()) {
        rows.add()
            .set("name", &def.name)
            .set("user_type_id", def.id)
            .set("schema_id", def.schema_id)
            .set("type_table_object_id", table_type_object_id(def.id));
    }
    Ok(())
}
