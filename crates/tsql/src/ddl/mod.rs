//! Definitions: CREATE, ALTER and DROP of everything that lives in a database, and of databases.
//!
//! Theory: a definition statement changes rows of the catalog through the session's transaction
//! (`SessionState::change`), so it commits and rolls back like any other. A name being created is locked; an object
//! being changed is locked for schema modification until the transaction ends. Rows are moved by `dml::build`.
//! Temporary tables and table variables take the same way, but their definitions stay in the session.
//!
//! Databases are no part of a transaction: they are created and dropped at once (`database`).
//!
//! Map: `table` (shape of a table), `keys` (its keys and indexes), `table_type`, `foreign` (foreign keys), `alter`, `bound` (schema binding), `index`, `storage_options` (of tables and indexes), `filter` (of indexes), `module`, `ddl_trigger` (of definitions), `function`, `objects` (schemas, types,
//! sequences, synonyms, drops), `properties` (go with what they describe), `database`, `definition` (texts), `names` (generated names), `into` (SELECT INTO).

mod alter;
mod bound;
pub(crate) mod database;
mod ddl_trigger;
pub(crate) mod definition;
mod dependents;
mod filter;
mod foreign;
mod function;
mod index;
mod into;
mod keys;
mod module;
mod names;
mod nullability;
mod objects;
mod properties;
pub mod rename;
mod storage_options;
mod table;
mod table_type;

pub(crate) use function::{effect_of, may_stand_in_function};
pub(crate) use into::select_into;
pub(crate) use table::{create_table_variable, truncate};
pub(crate) use table_type::{bare_table_of_type, table_of_type};

use crate::error::Result;
use crate::host::{Host, Resolved, TableKind, TableRef};
use crate::messages;
use crate::session::Execution;
use crate::sink::OutputColumn;
use daruma_catalog::{Change, ColumnDef, DatabaseCatalog, Object, ObjectKind, Put, TableDef};
use daruma_storage::{LockMode, LockResource};
use daruma_syntax::ast::{self, DropKind, ObjectName, StatementKind, TriggerScope};
use std::sync::Arc;

/// Is the statement one of this room's (databases apart)?
pub(crate) fn handles(kind: &StatementKind) -> bool {
    use StatementKind::*;
    matches!(
        kind,
        CreateTable(_)
            | AlterTable(_)
            | CreateIndex(_)
            | AlterIndex(_)
            | DropIndex(_)
            | CreateStatistics(_)
            | UpdateStatistics(_)
            | SwitchTrigger(_)
            | CreateSchema(_)
            | AlterSchema(_)
            | CreateType(_)
            | CreateSequence(_)
            | AlterSequence(_)
            | CreateSynonym(_)
            | Drop(_)
            | CreateView(_)
            | CreateProcedure(_)
            | CreateFunction(_)
            | CreateTrigger(_)
            | OtherDdl(_)
    )
}

/// TDS `curcmd` of the statement's DONE.
pub(crate) fn command_code(kind: &StatementKind) -> u16 {
    use StatementKind::*;
    match kind {
        CreateTable(_) => 0xC6,
        CreateIndex(_) => 0xC8,
        DropIndex(_) => 0xC9,
        CreateView(_) => 0xCF,
        AlterTable(_) => 0xD8,
        CreateTrigger(_) => 0xDD,
        CreateProcedure(_) => 0xDE,
        Drop(drop) => match drop.kind {
            ast::DropKind::Table => 0xC7,
            ast::DropKind::View => 0xD0,
            ast::DropKind::Procedure => 0xDF,
            ast::DropKind::Trigger => 0xE1,
            _ => 0xFD,
        },
        _ => 0xFD,
    }
}

/// How a statement locks the definitions of the current database ([`Execution::lock_definitions`]); nothing where it has to do with what
/// belongs to the session alone, or changes no definition.
pub(crate) fn lock_of_definitions(ex: &Execution<'_>, kind: &StatementKind) -> Option<LockMode> {
    use StatementKind::*;
    match kind {
        CreateSchema(_) | CreateType(_) => Some(LockMode::Exclusive),
        // Nobody who defines something at the same time misses it.
        CreateTrigger(s) if is_of_definitions(&s.on) => Some(LockMode::Exclusive),
        SwitchTrigger(s) if is_of_definitions(&s.on) => Some(LockMode::Exclusive),
        // At once: who takes it shared and raises it waits for others who do so, and they for him.
        AlterSchema(s) if objects::moves_named(ex, s) => Some(LockMode::Exclusive),
        Drop(drop) => match drop.kind {
            DropKind::Schema | DropKind::Type | DropKind::Sequence => Some(LockMode::Exclusive),
            DropKind::Trigger if drop.scope.is_some() => Some(LockMode::Exclusive),
            _ if drop.names.iter().all(ObjectName::is_temporary) => None,
            DropKind::Statistics => None,
            _ => Some(LockMode::Shared),
        },
        CreateTable(s) if s.name.is_temporary() => None,
        CreateProcedure(s) if s.name.is_temporary() => None,
        AlterTable(s) if s.name.is_temporary() => None,
        // They name nothing but their table, which they lock.
        CreateIndex(_) | AlterIndex(_) | DropIndex(_) | SwitchTrigger(_) => None,
        CreateStatistics(_) | UpdateStatistics(_) => None,
        _ => Some(LockMode::Shared),
    }
}

fn is_of_definitions(scope: &TriggerScope) -> bool {
    !matches!(scope, TriggerScope::Object(_))
}

/// Is it about a trigger of the server, which is defined in master?
pub(crate) fn is_about_server(kind: &StatementKind) -> bool {
    let scope = match kind {
        StatementKind::CreateTrigger(s) => Some(&s.on),
        StatementKind::SwitchTrigger(s) => Some(&s.on),
        StatementKind::Drop(s) => s.scope.as_ref(),
        _ => None,
    };
    scope == Some(&TriggerScope::AllServer)
}

/// Does an object have the name and schema that it had before a wait? Another one may have them now.
pub(crate) fn is_in_place(now: &Object, before: &Object) -> bool {
    now.schema_id == before.schema_id && now.name == before.name
}

/// A DROP of what is not there waits for nobody, and nobody for it.
pub(crate) fn finds_what_it_drops(ex: &Execution<'_>, kind: &StatementKind) -> Result<bool> {
    match kind {
        StatementKind::Drop(drop) => objects::finds_any(ex, drop),
        _ => Ok(true),
    }
}

/// Runs a definition statement. `text` is its source.
pub(crate) fn execute(ex: &Execution<'_>, kind: &StatementKind, text: &str) -> Result<()> {
    match kind {
        StatementKind::CreateTable(s) => table::create(ex, s),
        StatementKind::AlterTable(s) => alter::alter(ex, s),
        StatementKind::CreateIndex(s) => index::create(ex, s),
        StatementKind::AlterIndex(s) => index::alter(ex, s),
        StatementKind::DropIndex(s) => index::drop(ex, s),
        StatementKind::CreateStatistics(s) => {
            let table = table_named(ex, &s.table)?;
            crate::statistics::define::create(ex, &table, s)?;
            ex.instance().bump_catalog_version();
            Ok(())
        }
        StatementKind::UpdateStatistics(s) => {
            let table = table_named(ex, &s.table)?;
            crate::statistics::define::update(ex, &table, s)?;
            // Plans made with the old ones are made anew.
            ex.instance().bump_catalog_version();
            Ok(())
        }
        StatementKind::SwitchTrigger(s) => module::switch_trigger(ex, s),
        StatementKind::CreateSchema(s) => objects::create_schema(ex, s, text),
        StatementKind::AlterSchema(s) => objects::alter_schema(ex, s),
        StatementKind::CreateType(s) => objects::create_type(ex, s),
        StatementKind::CreateSequence(s) => objects::create_sequence(ex, s),
        StatementKind::AlterSequence(s) => objects::alter_sequence(ex, s),
        StatementKind::CreateSynonym(s) => objects::create_synonym(ex, s),
        StatementKind::Drop(s) => objects::drop(ex, s),
        StatementKind::CreateView(s) => module::create_view(ex, s, text),
        StatementKind::CreateProcedure(s) => module::create_procedure(ex, s, text),
        StatementKind::CreateTrigger(s) => module::create_trigger(ex, s, text),
        StatementKind::CreateFunction(s) => module::create_function(ex, s, text),
        StatementKind::OtherDdl(other) => Err(messages::not_supported(&other.what)),
        _ => Err(messages::not_supported("definition statement")),
    }
}

/// The other database that a name leads to, itself or by way of a synonym: its definitions are locked before anything that the name means.
/// What cannot be reached is told by those who look for it.
fn other_database(ex: &Execution<'_>, name: &ObjectName) -> Option<daruma_base::DatabaseId> {
    let current = ex.current_database();
    let found = match ex.find_object(name) {
        Ok(Some((database, _))) => database,
        _ => ex.named_database(current, name).ok()?,
    };
    (found != current && !name.is_temporary()).then_some(found)
}

/// The user or temporary table a statement names; error 4902.
fn table_named(ex: &Execution<'_>, name: &ObjectName) -> Result<TableRef> {
    let missing = || messages::error(4902, &[&name.dotted()]);
    match ex.resolve(name) {
        Ok(Resolved::Table(table)) => Ok(table),
        Ok(_) => Err(messages::error(4909, &[&name.dotted()])),
        Err(error) if error.number == 208 => Err(missing()),
        Err(error) => Err(error),
    }
}

/// Locks a table against all others until the transaction ends, and reads its definition again.
fn lock_for_change(ex: &Execution<'_>, table: TableRef) -> Result<TableRef> {
    if table.kind != TableKind::User {
        return Ok(table);
    }
    ex.lock_schema(&table.database, table.object_id)?;
    ex.last_written
        .set(Some((table.database.id(), table.object_id)));
    let place = (table.schema_name, table.name);
    let table = match ex.table_by_id(table.database.id(), table.object_id) {
        // It was dropped while this statement waited.
        Err(error) if error.number == 208 => Err(messages::error(4902, &[&place.1])),
        // Or renamed or moved: another one may have its name.
        Ok(now) if (&now.schema_name, &now.name) != (&place.0, &place.1) => {
            Err(messages::error(2801, &[&place.1]))
        }
        other => other,
    }?;
    ex.state.check_filegroups(&table)?;
    // Behind the wait: what was not there before was not asked for.
    let catalog = ex.catalog(table.database.id())?;
    if let Some(object) = catalog.object(table.object_id) {
        ex.alters(table.database.id(), object, || {
            messages::error_state(1088, 13, &[&table.name])
        })?;
    }
    Ok(table)
}

/// Locks a table that a definition refers to; error 2801 where it is not as it was read any more, with which the statement begins
/// anew.
fn lock_referenced(ex: &Execution<'_>, table: &TableRef) -> Result<()> {
    let database = table.database.id();
    lock_object(ex, database, table.object_id)?;
    let catalog = ex.catalog(database)?;
    let is_as_read = |now: &&Arc<Object>| {
        let schema = catalog.schema(now.schema_id);
        let is_there = schema.is_some_and(|s| s.name == table.schema_name);
        is_there && now.name == table.name && is_of(table, now)
    };
    match catalog.object(table.object_id).filter(is_as_read) {
        Some(_) => Ok(()),
        None => Err(messages::error(2801, &[&table.name])),
    }
}

/// An object that nobody else changes until the transaction ends, as it is then; nothing where `find` does not find it any more.
fn locked_object(
    ex: &Execution<'_>,
    database: daruma_base::DatabaseId,
    find: impl Fn(&DatabaseCatalog) -> Option<Arc<Object>>,
) -> Result<Option<Arc<Object>>> {
    let catalog = ex.catalog(database)?;
    let Some(object) = find(&catalog) else {
        return Ok(None);
    };
    lock_object(ex, database, object.id)?;
    let catalog = ex.catalog(database)?;
    let found = find(&catalog);
    Ok(found.filter(|now| now.id == object.id))
}

/// Locks an object for schema modification, and reads it again: nothing where it was dropped meanwhile, error 2801 where it was renamed
/// or moved, with which a statement begins anew.
fn locked_in_place(
    ex: &Execution<'_>,
    database: daruma_base::DatabaseId,
    object: &Object,
) -> Result<Option<Arc<Object>>> {
    lock_object(ex, database, object.id)?;
    match ex.catalog(database)?.object(object.id) {
        Some(now) if !is_in_place(now, object) => Err(messages::error(2801, &[&object.name])),
        now => Ok(now.cloned()),
    }
}

/// Locks an object for schema modification.
fn lock_object(ex: &Execution<'_>, database: daruma_base::DatabaseId, id: i32) -> Result<()> {
    let open = ex.instance().open_database(database)?;
    ex.lock_schema(&open.storage, id)
}

/// Puts a changed definition in place; gives the table as it is now.
fn put_table(ex: &Execution<'_>, table: &TableRef, def: TableDef) -> Result<TableRef> {
    let def = Arc::new(def);
    match table.kind {
        TableKind::User => {
            let database = table.database.id();
            let catalog = ex.catalog(database)?;
            let before = catalog.object(table.object_id);
            let before = before.ok_or_else(|| messages::error(208, &[&table.name]))?;
            if !is_of(table, before) {
                return Err(messages::error(2801, &[&table.name]));
            }
            properties::forget_removed(ex, database, table.object_id, &table.def, &def)?;
            let changed = Object {
                kind: ObjectKind::Table(def.clone()),
                modified_utc: ex.instance().now_utc(),
                ..(**before).clone()
            };
            put_object(ex, database, Put::over(before, changed))?;
        }
        _ => ex.state.alter_temp(table, def.clone()),
    }
    ex.note_planned();
    Ok(TableRef {
        def,
        ..table.clone()
    })
}

/// Has the table the definition with which it was read?
fn is_of(table: &TableRef, now: &Object) -> bool {
    match &now.kind {
        ObjectKind::Table(def) => Arc::ptr_eq(def, &table.def) || *def == table.def,
        _ => false,
    }
}

/// Puts an object in place; error 2801 where it is not the one that it was made of any more.
fn put_object(
    ex: &Execution<'_>,
    database: daruma_base::DatabaseId,
    object: Put<Object>,
) -> Result<()> {
    ex.state.change(database, Change::PutObject(object))?;
    ex.note_planned();
    Ok(())
}

/// A new object of a kind.
fn new_object(ex: &Execution<'_>, id: i32, schema_id: i32, name: &str, kind: ObjectKind) -> Object {
    let now = ex.instance().now_utc();
    Object {
        id,
        schema_id,
        name: name.to_string(),
        created_utc: now,
        modified_utc: now,
        kind,
    }
}

/// Locks a name that is about to be created and checks that it is free; error 2714.
fn reserve_name(
    ex: &Execution<'_>,
    database: daruma_base::DatabaseId,
    schema_id: i32,
    name: &str,
) -> Result<()> {
    let open = ex.instance().open_database(database)?;
    let key = format!("{schema_id}.{}", daruma_catalog::name_key(name));
    ex.lock_for_transaction(&open.storage, LockResource::Name(key), LockMode::Exclusive)?;
    match ex.catalog(database)?.name_in_use(schema_id, name) {
        true => Err(messages::error_state(2714, 6, &[&name])),
        false => Ok(()),
    }
}

/// An id for a new object or constraint of a database.
fn new_id(ex: &Execution<'_>, database: daruma_base::DatabaseId) -> Result<i32> {
    let open = ex.instance().open_database(database)?;
    let view = ex.catalog(database)?;
    let cancel = &ex.state.entry.cancel;
    Ok(open
        .catalog
        .allocate_object_id(cancel, |id| view.id_in_use(id))?)
}

/// Database and schema in which a name is to be created.
fn place_for(ex: &Execution<'_>, name: &ObjectName) -> Result<(daruma_base::DatabaseId, i32)> {
    ex.refuse_server(name)?;
    let missing = |e: crate::error::SqlError| match (&name.database, e.number) {
        (Some(database), 208) => messages::error(2702, &[&database.text]),
        _ => e,
    };
    let database = ex
        .named_database(ex.current_database(), name)
        .map_err(missing)?;
    if database != ex.current_database() {
        ex.lock_definitions(database, LockMode::Shared)?;
        // The schema may be somebody else's behind the wait.
        ex.may_alter_schema_of(name)?;
    }
    let catalog = ex.catalog(database)?;
    let schema = ex.schema_for_creation(&catalog, database, name)?;
    refuse_read_only(ex, database)?;
    Ok((database, schema))
}

/// 3906: nothing can be defined in a read-only database.
fn refuse_read_only(ex: &Execution<'_>, database: daruma_base::DatabaseId) -> Result<()> {
    ex.state.check_writable(database)?;
    let open = ex.instance().open_database(database)?;
    match open.storage.settings().read_only {
        true => Err(messages::error(3906, &[&open.storage.name()])),
        false => Ok(()),
    }
}

/// A column of what a query gives, as the column of a table, view or function.
pub(crate) fn result_column(at: usize, column: &OutputColumn) -> ColumnDef {
    ColumnDef {
        id: at as i32 + 1,
        name: column.name.clone(),
        data_type: column.data_type,
        user_type_id: None,
        nullable: column.nullable,
        collation: column.collation,
        default: None,
        computed: None,
        is_identity: false,
        is_rowguid: false,
        is_sparse: false,
        missing_value: None,
    }
}
