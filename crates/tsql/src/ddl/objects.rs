//! Schemas, alias types, sequences, synonyms, and DROP.

use super::table::signed_integer;
use super::{
    database, definition, locked_in_place, new_id, new_object, place_for, put_object, reserve_name,
};
use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::messages;
use crate::session::{Execution, drop_trees, integer_limits};
use daruma_base::DatabaseId;
use daruma_catalog::{
    Change, DatabaseCatalog, Object, ObjectKind, Put, SCHEMA_DBO, SCHEMA_SYS, SchemaDef,
    SequenceDef, TableDef, TypeDef, constraints_of, names_equal,
};
use daruma_storage::LockMode;
use daruma_syntax::ast::{
    self, ColumnConstraintKind, DropKind, Expr, ObjectName, SequenceCache, SequenceOption,
    StatementKind, TableConstraintKind, TypeKind,
};
use daruma_value::DataType;
use std::sync::Arc;

pub(super) fn create_schema(
    ex: &Execution<'_>,
    statement: &ast::CreateSchema,
    text: &str,
) -> Result<()> {
    let name = statement.name.as_ref().or(statement.owner.as_ref());
    let name = name.map(|n| n.text.clone()).unwrap_or_default();
    let database = ex.current_database();
    let open = ex.instance().open_database(database)?;
    let key =
        daruma_storage::LockResource::Name(format!("schema {}", daruma_catalog::name_key(&name)));
    ex.lock_for_transaction(&open.storage, key, daruma_storage::LockMode::Exclusive)?;
    let catalog = ex.catalog(database)?;
    if catalog.schema_named(&name).is_some() {
        let taken = messages::error_state(2714, 6, &[&name]);
        return Err(taken.followed(messages::error(2759, &[])));
    }
    let owner = match &statement.owner {
        None => ex.own_principal()?,
        Some(owner) => ex
            .database_principal(&owner.text)
            .ok_or_else(|| messages::error(15151, &[&"find", &"principal", &owner.text]))?,
    };
    if !ex.may_stand_for(database, owner) {
        let shown = statement.owner.as_ref().map_or("", |o| o.text.as_str());
        return Err(messages::error(15151, &[&"find", &"principal", &shown]));
    }
    let def = SchemaDef {
        id: catalog.next_schema_id(),
        name,
        principal_id: owner,
    };
    // Builds before this one left what was granted on a schema that had the number.
    ex.forget_schema_permissions(database, def.id)?;
    let schema = def.id;
    let told = ex.told_of_events(ex.event_of_schema(&def.name).into_iter().collect())?;
    ex.state
        .change(database, Change::PutSchema(Put::new(def)))?;
    // When all is done: what begins anew because another has changed what an element refers to is told once.
    let mut heard = vec![(told, text.to_string())];
    for element in in_order(statement) {
        let kind = in_schema(ex, &element.kind, statement, schema)?;
        let own = ex.running_batch();
        let own = own.map_or(text.to_string(), |b| element.span.text(&b.text).to_string());
        ex.check_statement(&kind)?;
        let told = ex.told_of(&kind)?;
        match &kind {
            StatementKind::Grant(grant) => ex.run_grant(grant)?,
            kind => super::execute(ex, kind, &own)?,
        }
        heard.push((told, own));
    }
    heard
        .iter()
        .try_for_each(|(told, text)| ex.fire(told, text))
}

/// The elements of CREATE SCHEMA, which may stand in any order: tables, then views, then permissions.
fn in_order(statement: &ast::CreateSchema) -> Vec<&ast::Statement> {
    let mut elements: Vec<_> = statement.elements.iter().collect();
    elements.sort_by_key(|element| match &element.kind {
        StatementKind::CreateTable(_) => 0,
        StatementKind::CreateView(_) => 1,
        _ => 2,
    });
    elements
}

/// An element of CREATE SCHEMA: what it makes, or gives permissions on, without a schema is in the new one. So is what its keys refer to,
/// if it is there.
fn in_schema(
    ex: &Execution<'_>,
    element: &StatementKind,
    statement: &ast::CreateSchema,
    id: i32,
) -> Result<StatementKind> {
    let mut element = element.clone();
    let schema = statement.name.as_ref().or(statement.owner.as_ref());
    if let StatementKind::CreateTable(s) = &mut element {
        let catalog = ex.catalog(ex.current_database())?;
        let own = s.name.name.text.clone();
        let is_here = |name: &ObjectName| {
            let text = &name.name.text;
            names_equal(text, &own) || catalog.object_named(id, text).is_some()
        };
        for references in referred_to(&mut s.definition) {
            let name = &mut references.table;
            if name.schema.is_none() && is_here(name) {
                name.schema = schema.cloned();
            }
        }
    }
    let name = match &mut element {
        StatementKind::CreateTable(s) => Some(&mut s.name),
        StatementKind::CreateView(s) => Some(&mut s.name),
        StatementKind::Grant(s) => match &mut s.on {
            Some(on) if on.class.as_deref().is_none_or(|c| c == "OBJECT") => Some(&mut on.name),
            _ => None,
        },
        _ => None,
    };
    if let Some(name) = name
        && name.schema.is_none()
    {
        name.schema = schema.cloned();
    }
    Ok(element)
}

/// What the foreign keys of a table name.
fn referred_to(table: &mut ast::TableDefinition) -> impl Iterator<Item = &mut ast::References> {
    let of_columns = table.columns.iter_mut().flat_map(|c| &mut c.constraints);
    let of_columns = of_columns.filter_map(|c| match &mut c.kind {
        ColumnConstraintKind::References(references) => Some(references),
        _ => None,
    });
    let of_table = table.constraints.iter_mut();
    let of_table = of_table.filter_map(|c| match &mut c.kind {
        TableConstraintKind::ForeignKey { references, .. } => Some(references),
        _ => None,
    });
    of_columns.chain(of_table)
}

/// ALTER SCHEMA .. TRANSFER.
pub(super) fn alter_schema(ex: &Execution<'_>, statement: &ast::AlterSchema) -> Result<()> {
    let database = ex.current_database();
    let catalog = ex.catalog(database)?;
    let target = catalog.schema_named(&statement.name.text).map(|s| s.id);
    let target = target
        .ok_or_else(|| messages::error(15151, &[&"alter", &"schema", &statement.name.text]))?;
    let missing = || messages::error(15151, &[&"find", &"object", &statement.object.name.text]);
    let find = |catalog: &DatabaseCatalog| ex.catalog_object(catalog, database, &statement.object);
    let named = find(&catalog).ok_or_else(missing)?;
    if is_named_by_definitions(&named) {
        // Held already, unless it is another one than the statement has found.
        ex.lock_definitions(database, LockMode::Exclusive)?;
    }
    let object = super::locked_object(ex, database, find)?.ok_or_else(missing)?;
    ex.may_transfer(statement)?;
    let catalog = ex.catalog(database)?;
    super::bound::refuse_transfer(ex, database, &object)?;
    // Triggers are in the schema of what they belong to.
    let triggers = catalog.triggers_of(object.id);
    for moved in std::iter::once(&object).chain(triggers) {
        for name in names_in_schema(moved) {
            reserve_in_target(ex, database, target, &name)?;
        }
        let there = Object {
            schema_id: target,
            modified_utc: ex.instance().now_utc(),
            ..(**moved).clone()
        };
        put_object(ex, database, Put::over(moved, there))?;
    }
    Ok(())
}

/// Does the statement move what definitions name? It keeps others from defining anything.
pub(super) fn moves_named(ex: &Execution<'_>, statement: &ast::AlterSchema) -> bool {
    let found = ex.find_object(&statement.object);
    matches!(found, Ok(Some((_, object))) if is_named_by_definitions(&object))
}

/// The names that an object has in its schema: its own and those of its constraints.
fn names_in_schema(object: &Object) -> Vec<Arc<str>> {
    let own = std::iter::once(Arc::from(object.name.as_str()));
    match &object.kind {
        ObjectKind::Table(def) => {
            let constraints = constraints_of(object.id, def);
            own.chain(constraints.into_iter().map(|(_, name)| name))
                .collect()
        }
        _ => own.collect(),
    }
}

fn reserve_in_target(
    ex: &Execution<'_>,
    database: DatabaseId,
    target: i32,
    name: &str,
) -> Result<()> {
    reserve_name(ex, database, target, name).map_err(|error| match error.number {
        2714 => SqlError::new(
            15530,
            16,
            1,
            format!("The object with name \"{name}\" already exists."),
        ),
        _ => error,
    })
}

/// Sequences and functions are named by defaults, checks and computed columns, which lock none of them.
pub(super) fn is_named_by_definitions(object: &Object) -> bool {
    matches!(
        object.kind,
        ObjectKind::Sequence(_) | ObjectKind::Function(_)
    )
}

/// Is there anything that a DROP names?
pub(super) fn finds_any(ex: &Execution<'_>, statement: &ast::Drop) -> Result<bool> {
    let catalog = ex.catalog(ex.current_database())?;
    if let Some(scope) = &statement.scope {
        return super::ddl_trigger::finds_any(ex, scope, &statement.names);
    }
    let is_there = |name: &ObjectName| match &statement.kind {
        DropKind::Schema => catalog.schema_named(&name.name.text).is_some(),
        DropKind::Type => type_named(&catalog, name).is_some(),
        _ => matches!(ex.find_object(name), Ok(Some(_))),
    };
    Ok(statement.names.iter().any(is_there))
}

pub(super) fn create_type(ex: &Execution<'_>, statement: &ast::CreateType) -> Result<()> {
    if let TypeKind::External(_) = &statement.kind {
        return Err(messages::not_supported("CLR types"));
    }
    let (database, schema_id) = place_for(ex, &statement.name)?;
    let name = &statement.name.name.text;
    reserve_name(ex, database, schema_id, name)
        .or_else(|e| if e.number == 2714 { Ok(()) } else { Err(e) })?;
    let catalog = ex.catalog(database)?;
    if catalog.type_named(schema_id, name).is_some()
        || crate::session::named_type(name, &[]).is_some()
    {
        return Err(messages::error(219, &[&statement.name.dotted()]));
    }
    let id = catalog.next_type_id();
    let (data_type, nullable, table) = match &statement.kind {
        TypeKind::Alias { base, nullable, .. } => (ex.type_of(base)?.0, *nullable, None),
        TypeKind::Table {
            definition,
            options,
        } => {
            let def = super::table_type::shape(ex, database, name, definition, options)?;
            (DataType::Int, Some(false), Some(Arc::new(def)))
        }
        TypeKind::External(_) => return Err(messages::not_supported("CLR types")),
    };
    let def = TypeDef {
        id,
        schema_id,
        name: name.clone(),
        data_type,
        nullable: nullable.unwrap_or(true),
        table,
    };
    ex.state.change(database, Change::PutType(Put::new(def)))
}

pub(super) fn create_sequence(ex: &Execution<'_>, statement: &ast::CreateSequence) -> Result<()> {
    let (database, schema_id) = place_for(ex, &statement.name)?;
    let name = &statement.name.name.text;
    reserve_name(ex, database, schema_id, name)?;
    let data_type = match &statement.data_type {
        Some(written) => ex.type_of(written)?.0,
        None => DataType::BigInt,
    };
    let integral = data_type.is_integer() && data_type != DataType::Bit
        || matches!(data_type, DataType::Decimal { scale: 0, .. });
    if !integral {
        return Err(messages::error(11702, &[&statement.name.dotted()]));
    }
    let (low, high) = integer_limits(data_type);
    let mut def = SequenceDef {
        data_type,
        start: low,
        increment: 1,
        minimum: low,
        maximum: high,
        cycle: false,
        cache: None,
    };
    let mut start = None;
    for option in &statement.options {
        match option {
            SequenceOption::StartWith(expr) => start = Some(integer(expr)?),
            SequenceOption::Restart(_) => return Err(messages::error(11710, &[&"RESTART"])),
            other => apply(&mut def, other, &statement.name)?,
        }
    }
    def.start = start.unwrap_or(if def.increment > 0 {
        def.minimum
    } else {
        def.maximum
    });
    check_sequence(&def, &statement.name)?;
    let id = new_id(ex, database)?;
    let object = new_object(ex, id, schema_id, name, ObjectKind::Sequence(Arc::new(def)));
    put_object(ex, database, Put::new(object))
}

pub(super) fn alter_sequence(ex: &Execution<'_>, statement: &ast::AlterSequence) -> Result<()> {
    let found = ex.find_object(&statement.name)?;
    let (database, object) =
        found.ok_or_else(|| messages::error(208, &[&statement.name.dotted()]))?;
    let wrong = || messages::error(11726, &[&statement.name.dotted()]);
    if !matches!(object.kind, ObjectKind::Sequence(_)) {
        return Err(wrong());
    }
    let object = locked_in_place(ex, database, &object)?
        .ok_or_else(|| messages::error(208, &[&statement.name.dotted()]))?;
    ex.alters(database, &object, || {
        messages::error(2801, &[&statement.name.dotted()])
    })?;
    let ObjectKind::Sequence(old) = &object.kind else {
        return Err(wrong());
    };
    let mut def = (**old).clone();
    let mut restart = None;
    for option in &statement.options {
        match option {
            SequenceOption::Restart(None) => restart = Some(def.start),
            SequenceOption::Restart(Some(expr)) => {
                def.start = integer(expr)?;
                restart = Some(def.start);
            }
            SequenceOption::StartWith(_) => return Err(messages::error(11711, &[&"START WITH"])),
            other => apply(&mut def, other, &statement.name)?,
        }
    }
    check_sequence(&def, &statement.name)?;
    let changed = Object {
        modified_utc: ex.instance().now_utc(),
        kind: ObjectKind::Sequence(Arc::new(def)),
        ..(*object).clone()
    };
    put_object(ex, database, Put::over(&object, changed))?;
    match restart {
        Some(_) => ex.state.reset_sequence(database, object.id),
        None => Ok(()),
    }
}

fn apply(def: &mut SequenceDef, option: &SequenceOption, name: &ObjectName) -> Result<()> {
    let (low, high) = integer_limits(def.data_type);
    match option {
        SequenceOption::IncrementBy(expr) => {
            def.increment = integer(expr)?;
            if def.increment == 0 {
                return Err(messages::error(11700, &[&name.dotted()]));
            }
        }
        SequenceOption::MinValue(value) => def.minimum = value.as_ref().map_or(Ok(low), integer)?,
        SequenceOption::MaxValue(value) => {
            def.maximum = value.as_ref().map_or(Ok(high), integer)?
        }
        SequenceOption::Cycle(cycle) => def.cycle = *cycle,
        SequenceOption::Cache(SequenceCache::Default) => def.cache = None,
        SequenceOption::Cache(SequenceCache::None) => def.cache = Some(0),
        SequenceOption::Cache(SequenceCache::Size(expr)) => {
            let size = i32::try_from(integer(expr)?).ok().filter(|size| *size > 0);
            let size = size.ok_or_else(|| messages::error(11706, &[&name.dotted()]))?;
            def.cache = Some(size);
        }
        SequenceOption::StartWith(_) | SequenceOption::Restart(_) => {}
    }
    Ok(())
}

fn check_sequence(def: &SequenceDef, name: &ObjectName) -> Result<()> {
    if def.minimum >= def.maximum {
        return Err(messages::error(11705, &[&name.dotted()]));
    }
    if !(def.minimum..=def.maximum).contains(&def.start) {
        return Err(messages::error(11703, &[&name.dotted()]));
    }
    match def.increment.unsigned_abs() > def.maximum.abs_diff(def.minimum) {
        true => Err(messages::error(11701, &[&name.dotted()])),
        false => Ok(()),
    }
}

fn integer(expr: &Expr) -> Result<i128> {
    signed_integer(expr).ok_or_else(|| messages::error(102, &[expr]))
}

pub(super) fn create_synonym(ex: &Execution<'_>, statement: &ast::CreateSynonym) -> Result<()> {
    let (database, schema_id) = place_for(ex, &statement.name)?;
    let name = &statement.name.name.text;
    reserve_name(ex, database, schema_id, name)?;
    let id = new_id(ex, database)?;
    let target = definition::bracketed_name(&statement.target);
    let object = new_object(ex, id, schema_id, name, ObjectKind::Synonym { target });
    put_object(ex, database, Put::new(object))
}

// --- DROP

/// `DROP STATISTICS table.name`.
fn drop_statistics(ex: &Execution<'_>, name: &ObjectName) -> Result<()> {
    let Some(table) = name.schema.clone() else {
        return Err(messages::error(
            3701,
            &[&"drop", &"statistics", &name.dotted()],
        ));
    };
    let of = ObjectName {
        server: None,
        database: None,
        schema: name.database.clone(),
        name: table,
        span: name.span,
    };
    let table = super::table_named(ex, &of)?;
    crate::statistics::define::drop(ex, &table, &name.name.text)
}

pub(super) fn drop(ex: &Execution<'_>, statement: &ast::Drop) -> Result<()> {
    for name in &statement.names {
        let dropped = match &statement.kind {
            DropKind::Trigger if statement.scope.is_some() => drop_scoped(ex, statement, name),
            DropKind::Schema => drop_schema(ex, statement, name),
            DropKind::Type => drop_type(ex, statement, name),
            DropKind::Statistics => drop_statistics(ex, name),
            DropKind::Database => database::drop(ex, &name.name.text),
            kind => match expected(kind) {
                Some(kind) => drop_object(ex, name, kind),
                None => Err(messages::not_supported("this kind of DROP")),
            },
        };
        match dropped {
            Err(error) if statement.if_exists && matches!(error.number, 3701 | 15151 | 218) => {}
            other => other?,
        }
    }
    Ok(())
}

/// A trigger of definitions.
fn drop_scoped(ex: &Execution<'_>, statement: &ast::Drop, name: &ObjectName) -> Result<()> {
    let scope = statement.scope.as_ref();
    scope.map_or(Ok(()), |scope| super::ddl_trigger::drop(ex, scope, name))
}

/// Type code, word in messages, word in `DROP x`.
fn expected(kind: &DropKind) -> Option<(&'static str, &'static str, &'static str)> {
    Some(match kind {
        DropKind::Table => ("U ", "table", "TABLE"),
        DropKind::View => ("V ", "view", "VIEW"),
        DropKind::Procedure => ("P ", "procedure", "PROCEDURE"),
        DropKind::Function => ("FN", "function", "FUNCTION"),
        DropKind::Trigger => ("TR", "trigger", "TRIGGER"),
        DropKind::Sequence => ("SO", "sequence object", "SEQUENCE"),
        DropKind::Synonym => ("SN", "synonym", "SYNONYM"),
        _ => return None,
    })
}

fn drop_object(
    ex: &Execution<'_>,
    name: &ObjectName,
    (code, what, word): (&str, &str, &str),
) -> Result<()> {
    let absent = || messages::error_state(3701, 5, &[&"drop", &what, &name.dotted()]);
    if name.is_temporary() && code == "P " {
        let found = ex.state.temp_module(&name.name.text);
        found
            .filter(|_| ex.state.may_change_module(&name.name.text))
            .ok_or_else(absent)?;
        return ex.state.set_temp_module(&name.name.text, None);
    }
    if name.is_temporary() {
        let table = ex
            .state
            .temp_table(&name.name.text)
            .filter(|_| code == "U ")
            .ok_or_else(absent)?;
        return ex.state.drop_temp(&table);
    }
    let database = ex
        .named_database(ex.current_database(), name)
        .map_err(|_| absent())?;
    let catalog = ex.catalog(database)?;
    if database == ex.current_database() && ex.catalog_object(&catalog, database, name).is_none() {
        return Err(absent());
    }
    let mode = match word {
        "SEQUENCE" => LockMode::Exclusive,
        _ => LockMode::Shared,
    };
    // The statement may have begun without it, when there was nothing of the name.
    ex.under_definitions(database, mode, || {
        drop_stored(ex, database, name, (code, what, word))
    })
}

fn drop_stored(
    ex: &Execution<'_>,
    database: DatabaseId,
    name: &ObjectName,
    (code, what, word): (&str, &str, &str),
) -> Result<()> {
    let absent = || messages::error_state(3701, 5, &[&"drop", &what, &name.dotted()]);
    let catalog = ex.catalog(database)?;
    let object = ex
        .catalog_object(&catalog, database, name)
        .ok_or_else(absent)?;
    let is_function = |code: &str| matches!(code, "FN" | "IF" | "TF");
    if object.type_code() != code && !(is_function(code) && is_function(object.type_code())) {
        let kind = object_word(&object);
        let proper = format!("DROP {}", kind.to_uppercase());
        return Err(messages::error(
            3705,
            &[&word, &name.dotted(), &name.dotted(), &kind, &proper],
        ));
    }
    super::refuse_read_only(ex, database)?;
    if let ObjectKind::Trigger(trigger) = &object.kind {
        // As those do who change the triggers of a table.
        super::lock_object(ex, database, trigger.parent)?;
    }
    let current = locked_in_place(ex, database, &object)?.ok_or_else(absent)?;
    // What was asked for may be another one by now. The statement begins anew, and tells what is missing.
    ex.may_drop_object(database, &current, name)
        .map_err(|_| messages::error(2801, &[&name.dotted()]))?;
    remove(ex, database, &current, name)
}

/// Rights behind a wait: what a name means may be something else by then. The statement begins anew, and tells what is missing.
fn ask_again(ex: &Execution<'_>, statement: &ast::Drop, name: &ObjectName) -> Result<()> {
    ex.may_drop(statement, name)
        .map_err(|_| messages::error(2801, &[&name.dotted()]))
}

fn object_word(object: &Object) -> &'static str {
    match &object.kind {
        ObjectKind::Table(_) => "table",
        ObjectKind::View(_) => "view",
        ObjectKind::Procedure(_) => "procedure",
        ObjectKind::Function(_) => "function",
        ObjectKind::Trigger(_) => "trigger",
        ObjectKind::Sequence(_) => "sequence",
        ObjectKind::Synonym { .. } => "synonym",
    }
}

fn remove(
    ex: &Execution<'_>,
    database: DatabaseId,
    object: &Arc<Object>,
    name: &ObjectName,
) -> Result<()> {
    if let ObjectKind::Table(def) = &object.kind {
        let catalog = ex.catalog(database)?;
        if catalog
            .referencing(object.id)
            .iter()
            .any(|id| *id != object.id)
        {
            return Err(messages::error(3726, &[&name.dotted()]));
        }
        super::bound::refuse(ex, database, object, ("DROP TABLE", 1), &name.dotted())?;
        if ex.state.read_only_filegroup(database, def).is_some() {
            return Err(messages::error(3740, &[&"table", &name.dotted()]));
        }
        let triggers: Vec<Arc<Object>> = catalog.triggers_of(object.id).cloned().collect();
        let txn = ex.state.txn_in(database)?;
        drop_trees(&txn, def)?;
        super::properties::forget_removed(ex, database, object.id, def, &TableDef::default())?;
        for trigger in triggers {
            ex.state.change(database, Change::DropObject(trigger))?;
        }
    }
    if matches!(object.kind, ObjectKind::View(_)) {
        super::bound::refuse(ex, database, object, ("DROP VIEW", 1), &name.dotted())?;
        let catalog = ex.catalog(database)?;
        let triggers: Vec<Arc<Object>> = catalog.triggers_of(object.id).cloned().collect();
        for trigger in triggers {
            ex.state.change(database, Change::DropObject(trigger))?;
        }
    }
    if matches!(object.kind, ObjectKind::Function(_)) {
        super::bound::refuse(ex, database, object, ("DROP FUNCTION", 1), &name.dotted())?;
    }
    if matches!(object.kind, ObjectKind::Sequence(_)) {
        super::bound::refuse(ex, database, object, ("DROP SEQUENCE", 1), &name.dotted())?;
    }
    ex.state
        .change(database, Change::DropObject(object.clone()))?;
    ex.note_planned();
    Ok(())
}

/// A schema that came after the statement was asked about is locked and asked about here.
fn drop_schema(ex: &Execution<'_>, statement: &ast::Drop, name: &ObjectName) -> Result<()> {
    let database = ex.current_database();
    let text = &name.name.text;
    if ex.catalog(database)?.schema_named(text).is_none() {
        return Err(messages::error(15151, &[&"drop", &"schema", text]));
    }
    ex.under_definitions(database, LockMode::Exclusive, || {
        ask_again(ex, statement, name)?;
        remove_schema(ex, database, name)
    })
}

fn remove_schema(ex: &Execution<'_>, database: DatabaseId, name: &ObjectName) -> Result<()> {
    let catalog = ex.catalog(database)?;
    let text = &name.name.text;
    let schema = catalog
        .schema_named(text)
        .ok_or_else(|| messages::error(15151, &[&"drop", &"schema", text]))?
        .clone();
    if matches!(schema.id, SCHEMA_DBO..=SCHEMA_SYS) {
        return Err(messages::error(15150, &[&"drop", &"schema", text]));
    }
    if let Some(object) = catalog.objects().find(|o| o.schema_id == schema.id) {
        return Err(messages::error(3729, &[&"drop schema", text, &object.name]));
    }
    if let Some(def) = catalog.types().find(|t| t.schema_id == schema.id) {
        return Err(messages::error(3729, &[&"drop schema", text, &def.name]));
    }
    // The number may be given out again: it must not come with permissions.
    ex.forget_schema_permissions(database, schema.id)?;
    ex.state.change(database, Change::DropSchema(schema.id))
}

/// The type that a statement names: without a schema it is one of dbo's, whoever asks.
fn type_named<'c>(catalog: &'c DatabaseCatalog, name: &ObjectName) -> Option<&'c Arc<TypeDef>> {
    let schema_id = match &name.schema {
        Some(schema) => catalog.schema_named(&schema.text)?.id,
        None => SCHEMA_DBO,
    };
    catalog.type_named(schema_id, &name.name.text)
}

/// As [`drop_schema`].
fn drop_type(ex: &Execution<'_>, statement: &ast::Drop, name: &ObjectName) -> Result<()> {
    let database = ex.current_database();
    if type_named(&*ex.catalog(database)?, name).is_none() {
        return Err(messages::error(218, &[&name.dotted()]));
    }
    ex.under_definitions(database, LockMode::Exclusive, || {
        ask_again(ex, statement, name)?;
        remove_type(ex, database, name)
    })
}

fn remove_type(ex: &Execution<'_>, database: DatabaseId, name: &ObjectName) -> Result<()> {
    let catalog = ex.catalog(database)?;
    let found = type_named(&catalog, name);
    let def = found.ok_or_else(|| messages::error(218, &[&name.dotted()]))?;
    let uses = |o: &&Arc<Object>| match &o.kind {
        ObjectKind::Table(t) => t.columns.iter().any(|c| c.user_type_id == Some(def.id)),
        ObjectKind::Procedure(m) | ObjectKind::Function(m) => {
            let returns = m.function.and_then(|f| f.returns);
            m.parameters.iter().any(|p| p.user_type_id == Some(def.id))
                || m.columns.iter().any(|c| c.user_type_id == Some(def.id))
                || returns.is_some_and(|r| r.user_type_id == Some(def.id))
        }
        _ => false,
    };
    let users = catalog.objects().filter(uses);
    let user = users.min_by(|a, b| a.name.cmp(&b.name));
    let has_column = |t: &TypeDef| {
        let table = t.table.as_ref();
        table.is_some_and(|t| t.columns.iter().any(|c| c.user_type_id == Some(def.id)))
    };
    let user = match user {
        Some(object) => Some(&object.name),
        None => catalog.types().find(|t| has_column(t)).map(|t| &t.name),
    };
    match user {
        Some(user) => Err(messages::error(3732, &[&name.dotted(), user])),
        None => ex.state.change(database, Change::DropType(def.id)),
    }
}
