//! Rights for statements that no plan shows: definitions, databases, the server; and which table a change is about.
//!
//! | statement | permission | error |
//! |---|---|---|
//! | CREATE of an object | CREATE .. on the database, ALTER on the schema | 262, 2760 |
//! | ALTER of a view, procedure or trigger | ALTER on the object | 3701 |
//! | CREATE TRIGGER | ALTER on its table | 2104 |
//! | triggers ON DATABASE, ON ALL SERVER | ALTER ANY DATABASE DDL TRIGGER, CONTROL SERVER | 262, 297, 3701 |
//! | ALTER of others, CREATE INDEX, TRUNCATE | ALTER on the object | 1088, 15151 |
//! | DROP | CONTROL on the object or ALTER on its schema | 3701 |
//! | databases | CREATE ANY DATABASE, ALTER ANY DATABASE, ALTER on it | 262, 5011, 3701 |
//! | BACKUP, CHECKPOINT | of these names on the database | 262 |
//! | KILL, SHUTDOWN, RECONFIGURE, DBCC, BULK INSERT | of the server | 6102, 6004, 5812, 2571, 4834 |

use super::needs::{ChangedObject, Reads};
use super::{Execution, Securable};
use crate::binder::target_object;
use crate::error::{Result, SqlError};
use crate::host::Host;
use crate::messages;
use crate::session::backup_database;
use daruma_base::DatabaseId;
use daruma_catalog::{Object, SCHEMA_DBO};
use daruma_syntax::ast::{
    self, AlterDatabaseAction, DatabaseOption, DmlTarget, DropKind, ObjectName, QueryBody,
    StatementKind, TriggerScope, TypeKind,
};
use std::sync::Arc;

impl Execution<'_> {
    /// Fails unless the session may run a statement that is not planned.
    pub(crate) fn check_statement(&self, statement: &StatementKind) -> Result<()> {
        if self.is_unlimited() {
            return Ok(());
        }
        use StatementKind::*;
        match statement {
            CreateTable(s) if s.name.is_temporary() => Ok(()),
            CreateTable(s) => self.may_create(&s.name, "CREATE TABLE"),
            CreateView(s) => self.may_define(s.mode, &s.name, "CREATE VIEW"),
            CreateProcedure(s) if s.name.is_temporary() => Ok(()),
            CreateProcedure(s) => self.may_define(s.mode, &s.name, "CREATE PROCEDURE"),
            CreateFunction(s) => self.may_define(s.mode, &s.name, "CREATE FUNCTION"),
            CreateTrigger(s) => match &s.on {
                TriggerScope::Object(table) => self.may_define_trigger(s, table),
                other => self.may_change_triggers_of(other),
            },
            CreateType(s) => match &s.kind {
                TypeKind::Alias { .. } | TypeKind::Table { .. } => {
                    self.may_create(&s.name, "CREATE TYPE")
                }
                // Of assemblies: not supported, whoever asks.
                TypeKind::External(_) => Ok(()),
            },
            CreateSequence(s) => self.may_alter_schema_of(&s.name),
            CreateSynonym(s) => self.may_create(&s.name, "CREATE SYNONYM"),
            CreateSchema(_) => self.needs_database("CREATE SCHEMA"),
            AlterTable(s) => self.may_alter_table(&s.name),
            CreateIndex(s) => self.may_alter_named(&s.table, 12, &s.table.dotted()),
            AlterIndex(s) => self.may_alter_table(&s.table),
            CreateStatistics(s) => self.may_alter_table(&s.table),
            UpdateStatistics(s) => self.may_alter_table(&s.table),
            Truncate(s) => self.may_alter_named(&s.table, 7, &s.table.name.text),
            DropIndex(s) => s.indexes.iter().try_for_each(|i| {
                self.may_alter_table(&i.table).map_err(|_| {
                    let shown = format!("{}.{}", i.table.dotted(), i.name.text);
                    messages::error_state(3701, 6, &[&"drop", &"index", &shown])
                })
            }),
            SwitchTrigger(s) => match &s.on {
                TriggerScope::Object(table) => self.may_alter_table(table),
                other => self.may_change_triggers_of(other),
            },
            AlterSequence(s) => self.may_alter(&s.name, "sequence"),
            AlterSchema(s) => self.may_transfer(s),
            Drop(s) => s.names.iter().try_for_each(|name| self.may_drop(s, name)),
            Select(query) if has_into(query) => self.may_select_into(query),
            BulkInsert(s) => self.may_bulk_insert(&s.table),
            InsertBulk(s) => match self.find_object(&s.table)? {
                Some((database, object)) => self.check_object(database, &object, "INSERT"),
                None => Ok(()),
            },
            CreateDatabase(s) => self.may_create_database(s),
            AlterDatabase(s) => self.may_alter_database(s),
            Checkpoint(_) => self.needs_database("CHECKPOINT"),
            Kill(_) => self
                .needs_server("ALTER ANY CONNECTION")
                .map_err(|_| messages::error(6102, &[])),
            Shutdown { .. } => self.needs_server("SHUTDOWN").map_err(|_| SqlError {
                class: 14,
                ..messages::error(6004, &[])
            }),
            Reconfigure { .. } => self
                .needs_server("ALTER SETTINGS")
                .map_err(|_| messages::error(5812, &[])),
            Dbcc(s) => self.may_run_dbcc(&s.name),
            // They are asked while they are planned.
            Select(_) | Insert(_) | Update(_) | Delete(_) | Merge(_) => Ok(()),
            // They ask themselves: what they need depends on what they name.
            Backup(_)
            | Restore(_)
            | Grant(_)
            | Principal(_)
            | Key(_)
            | CreateEndpoint(_)
            | EventSession(_)
            | CreateAvailabilityGroup(_)
            | AlterAvailabilityGroup(_)
            | ExecuteAs(_)
            | Execute(_)
            | Use(_) => Ok(()),
            // They are about the session and its own variables, cursors and transactions.
            Block(_)
            | If(_)
            | While(_)
            | Break
            | Continue
            | Label(_)
            | Goto(_)
            | Return(_)
            | TryCatch(_)
            | Atomic { .. }
            | Throw(_)
            | RaisError(_)
            | Print(_)
            | WaitFor(_)
            | Declare(_)
            | DeclareTable(_)
            | DeclareCursor(_)
            | Set(_)
            | Open(_)
            | Fetch(_)
            | Close(_)
            | Deallocate(_)
            | BeginTransaction(_)
            | Commit(_)
            | Rollback(_)
            | SaveTransaction(_)
            | Revert { .. } => Ok(()),
            // Not supported, whoever asks.
            TextPointer(_) | CreateXmlSchemaCollection(_) | OtherDdl(_) => Ok(()),
        }
    }

    /// Triggers of definitions: error 262 or 297.
    pub(crate) fn may_change_triggers_of(&self, scope: &TriggerScope) -> Result<()> {
        match scope {
            TriggerScope::AllServer => self.needs_server("CONTROL SERVER"),
            _ => self.needs_database("ALTER ANY DATABASE DDL TRIGGER"),
        }
    }

    /// CREATE DATABASE, which asks again when it has waited.
    pub(crate) fn may_create_database(&self, statement: &ast::CreateDatabase) -> Result<()> {
        let opens = statement.options.iter().any(opens_to_others);
        match self.state.server_rights().has("CREATE ANY DATABASE") {
            true if opens && !self.is_unlimited() => Err(messages::error(15247, &[])),
            true => Ok(()),
            false => Err(messages::error(262, &[&"CREATE DATABASE", &"master"])),
        }
    }

    /// BACKUP, which adds to its errors.
    pub(crate) fn may_back_up(&self, statement: &ast::Backup) -> Result<()> {
        if self.is_unlimited() {
            return Ok(());
        }
        let permission = match statement.kind {
            ast::BackupKind::Database => "BACKUP DATABASE",
            ast::BackupKind::Log => "BACKUP LOG",
        };
        let name = backup_database(self, &statement.database)?;
        let database = self.state.instance.database_named(&name);
        let database = database.map_or(self.current_database(), |d| d.id());
        self.needs_in(database, permission)
    }

    /// RESTORE, which adds to its errors.
    pub(crate) fn may_restore(&self, statement: &ast::Restore) -> Result<()> {
        match self.state.server_rights().has("CREATE ANY DATABASE") {
            true => Ok(()),
            false => Err(self.may_not_restore(statement)?),
        }
    }

    /// 3110 names the database; what only reads a backup is refused like CREATE DATABASE.
    fn may_not_restore(&self, statement: &ast::Restore) -> Result<SqlError> {
        Ok(match &statement.database {
            Some(name) => messages::error(3110, &[&backup_database(self, name)?]),
            None => messages::error(262, &[&"CREATE DATABASE", &"master"]),
        })
    }

    /// Error 297 without a permission of the server.
    pub(crate) fn needs_server(&self, permission: &str) -> Result<()> {
        match self.state.server_rights().has(permission) {
            true => Ok(()),
            false => Err(messages::error(297, &[])),
        }
    }

    /// Error 262 without a permission of the current database.
    pub(crate) fn needs_database(&self, permission: &str) -> Result<()> {
        if self.is_unlimited() {
            return Ok(());
        }
        self.needs_in(self.current_database(), permission)
    }

    pub(crate) fn needs_in(&self, database: DatabaseId, permission: &str) -> Result<()> {
        self.state.rights(database)?;
        if self.may(database, permission, Securable::Database) {
            return Ok(());
        }
        Err(messages::error(
            262,
            &[&permission, &self.database_text(database)],
        ))
    }

    pub(super) fn database_text(&self, database: DatabaseId) -> String {
        let entry = self.state.instance.database(database);
        entry.map_or(String::new(), |d| d.name())
    }

    fn may_create(&self, name: &ObjectName, permission: &str) -> Result<()> {
        let database = self.named_database(self.current_database(), name)?;
        self.needs_in(database, permission)?;
        self.may_alter_schema_of(name)
    }

    /// Error 2760 unless the session may put something in the schema of a name.
    pub(crate) fn may_alter_schema_of(&self, name: &ObjectName) -> Result<()> {
        if self.is_unlimited() {
            return Ok(());
        }
        let database = self.named_database(self.current_database(), name)?;
        let catalog = self.state.catalog(database)?;
        let schema = self.schema_for_creation(&catalog, database, name)?;
        match self.may(database, "ALTER", Securable::Schema(schema)) {
            true => Ok(()),
            false => {
                let shown = catalog
                    .schema(schema)
                    .map_or(String::new(), |s| s.name.clone());
                Err(messages::error(2760, &[&shown]))
            }
        }
    }

    fn may_define(&self, mode: ast::DefineMode, name: &ObjectName, create: &str) -> Result<()> {
        match (mode, self.defined_as(name)?) {
            (ast::DefineMode::Create, _) | (_, None) => {
                self.may_create(name, create).map_err(|e| match e.number {
                    262 => SqlError { state: 18, ..e },
                    _ => e,
                })
            }
            (_, Some((database, object))) => self.may_replace(database, &object),
        }
    }

    /// The object that stands where a definition of this name goes, and nothing that the name would mean elsewhere.
    fn defined_as(&self, name: &ObjectName) -> Result<Option<(DatabaseId, Arc<Object>)>> {
        let database = self.named_database(self.current_database(), name)?;
        let catalog = self.state.catalog(database)?;
        let schema = self.schema_for_creation(&catalog, database, name)?;
        let object = catalog.object_named(schema, &name.name.text);
        Ok(object.map(|o| (database, o.clone())))
    }

    fn may_replace(&self, database: DatabaseId, module: &Arc<Object>) -> Result<()> {
        self.alters(database, module, || SqlError {
            class: 14,
            ..messages::error_state(3701, 20, &[&"alter", &kind_of(module), &module.name])
        })
    }

    fn may_define_trigger(&self, statement: &ast::CreateTrigger, table: &ObjectName) -> Result<()> {
        // A trigger is in the schema of its table, whatever its name says.
        if statement.mode != ast::DefineMode::Create
            && let Some((database, parent)) = self.find_object(table)?
            && let catalog = self.state.catalog(database)?
            && let Some(trigger) = catalog.object_named(parent.schema_id, &statement.name.name.text)
        {
            self.may_replace(database, trigger)?;
        }
        self.may_alter_table(table)
            .map_err(|_| messages::error(2104, &[&"create", &statement.name.dotted()]))
    }

    fn may_alter_table(&self, name: &ObjectName) -> Result<()> {
        self.may_alter_named(name, 13, &name.dotted())
    }

    /// Error 1088, with the name as the statement at hand shows it.
    fn may_alter_named(&self, name: &ObjectName, state: u8, shown: &str) -> Result<()> {
        if name.is_temporary() {
            return Ok(());
        }
        match self.find_object(name)? {
            Some((database, object)) => self.alters(database, &object, || {
                messages::error_state(1088, state, &[&shown])
            }),
            // The statement tells what is missing.
            None => Ok(()),
        }
    }

    fn may_alter(&self, name: &ObjectName, kind: &str) -> Result<()> {
        match self.find_object(name)? {
            Some((database, object)) => self.alters(database, &object, || {
                messages::error(15151, &[&"alter", &kind, &object.name])
            }),
            None => Ok(()),
        }
    }

    /// For procedures of the system that change an object.
    pub(crate) fn check_alter(&self, database: DatabaseId, object: &Arc<Object>) -> Result<()> {
        self.alters(database, object, || messages::error(15247, &[]))
    }

    /// May the session change what is in a schema?
    pub(crate) fn may_alter_schema(&self, database: DatabaseId, schema: i32) -> bool {
        self.is_unlimited() || self.may(database, "ALTER", Securable::Schema(schema))
    }

    /// Fails with `refusal` unless the session may alter an object.
    pub(crate) fn alters(
        &self,
        database: DatabaseId,
        object: &Arc<Object>,
        refusal: impl FnOnce() -> SqlError,
    ) -> Result<()> {
        // A trigger belongs to its table.
        let object = match &object.kind {
            daruma_catalog::ObjectKind::Trigger(t) => {
                let catalog = self.state.catalog(database)?;
                catalog.object(t.parent).unwrap_or(object).clone()
            }
            _ => object.clone(),
        };
        match self.is_unlimited() || self.may(database, "ALTER", Securable::of(&object)) {
            true => Ok(()),
            false => Err(refusal()),
        }
    }

    /// ALTER SCHEMA .. TRANSFER; error 15151.
    pub(crate) fn may_transfer(&self, statement: &ast::AlterSchema) -> Result<()> {
        if self.is_unlimited() {
            return Ok(());
        }
        let database = self.current_database();
        let catalog = self.state.catalog(database)?;
        let target = catalog.schema_named(&statement.name.text).map(|s| s.id);
        let may_enter = target.is_none_or(|id| self.may(database, "ALTER", Securable::Schema(id)));
        if !may_enter {
            let name = &statement.name.text;
            return Err(messages::error(15151, &[&"alter", &"schema", name]));
        }
        let Some(object) = self.catalog_object(&catalog, database, &statement.object) else {
            return Ok(());
        };
        match self.may(database, "CONTROL", Securable::of(&object)) {
            true => Ok(()),
            false => {
                let name = &object.name;
                Err(messages::error(15151, &[&"transfer", &"object", name]))
            }
        }
    }

    /// Fails unless the session may drop this object, which the statement calls so.
    pub(crate) fn may_drop_object(
        &self,
        database: DatabaseId,
        object: &Arc<Object>,
        name: &ObjectName,
    ) -> Result<()> {
        let is_trigger = matches!(object.kind, daruma_catalog::ObjectKind::Trigger(_));
        let refused = || SqlError {
            class: 14,
            ..messages::error_state(3701, 20, &[&"drop", &kind_of(object), &name.name.text])
        };
        let may = self.is_unlimited()
            || self.may(database, "CONTROL", Securable::of(object))
            || self.may(database, "ALTER", Securable::Schema(object.schema_id))
            || is_trigger && self.alters(database, object, refused).is_ok();
        match may {
            true => Ok(()),
            false => Err(refused()),
        }
    }

    /// Fails unless the session may drop what a name of the statement means. What is not there may be dropped: who looks for it tells.
    pub(crate) fn may_drop(&self, statement: &ast::Drop, name: &ObjectName) -> Result<()> {
        if self.is_unlimited() {
            return Ok(());
        }
        let refused = |kind: &str| SqlError {
            class: 14,
            ..messages::error_state(3701, 20, &[&"drop", &kind, &name.name.text])
        };
        if let Some(scope) = &statement.scope {
            let may = self.may_change_triggers_of(scope);
            return may.map_err(|_| refused("trigger"));
        }
        match statement.kind {
            DropKind::Database => {
                let Some(entry) = self.state.instance.database_named(&name.name.text) else {
                    return Ok(());
                };
                let may = self.state.server_rights().has("ALTER ANY DATABASE")
                    || self.may(entry.id(), "CONTROL", Securable::Database);
                match may {
                    true => Ok(()),
                    false => {
                        let name = &name.name.text;
                        Err(messages::error_state(
                            3701,
                            2,
                            &[&"drop", &"database", name],
                        ))
                    }
                }
            }
            DropKind::Schema => {
                let database = self.current_database();
                let catalog = self.state.catalog(database)?;
                let Some(schema) = catalog.schema_named(&name.name.text) else {
                    return Ok(());
                };
                let may = self.may(database, "CONTROL", Securable::Schema(schema.id))
                    || self.may(database, "ALTER ANY SCHEMA", Securable::Database);
                match may {
                    true => Ok(()),
                    false => Err(messages::error(15151, &[&"drop", &"schema", &schema.name])),
                }
            }
            DropKind::Statistics => {
                // `table.name` or `schema.table.name`.
                let Some(table) = name.schema.clone() else {
                    return Ok(());
                };
                let table = ObjectName {
                    server: None,
                    database: None,
                    schema: name.database.clone(),
                    name: table,
                    span: name.span,
                };
                match self.find_object(&table)? {
                    Some((database, object)) => {
                        self.alters(database, &object, || refused("statistics"))
                    }
                    None => Ok(()),
                }
            }
            DropKind::Type => {
                let database = self.current_database();
                let catalog = self.state.catalog(database)?;
                // Without a schema it is one of dbo's, whoever asks.
                let schema = match &name.schema {
                    Some(schema) => catalog.schema_named(&schema.text).map(|s| s.id),
                    None => Some(SCHEMA_DBO),
                };
                let schema = schema.filter(|s| catalog.type_named(*s, &name.name.text).is_some());
                match schema.is_none_or(|s| self.may(database, "ALTER", Securable::Schema(s))) {
                    true => Ok(()),
                    false => Err(refused("type")),
                }
            }
            DropKind::Table
            | DropKind::View
            | DropKind::Procedure
            | DropKind::Function
            | DropKind::Trigger
            | DropKind::Sequence
            | DropKind::Synonym
                if !name.is_temporary() =>
            {
                let database = self.named_database(self.current_database(), name)?;
                let catalog = self.state.catalog(database)?;
                match self.catalog_object(&catalog, database, name) {
                    Some(object) => self.may_drop_object(database, &object, name),
                    None => Ok(()),
                }
            }
            // Temporary ones.
            DropKind::Table
            | DropKind::View
            | DropKind::Procedure
            | DropKind::Function
            | DropKind::Trigger
            | DropKind::Sequence
            | DropKind::Synonym => Ok(()),
            // They ask themselves.
            DropKind::Login
            | DropKind::User
            | DropKind::Role
            | DropKind::ServerRole
            | DropKind::ApplicationRole
            | DropKind::Certificate
            | DropKind::MasterKey
            | DropKind::Endpoint
            | DropKind::AvailabilityGroup
            | DropKind::Credential => Ok(()),
            // Not supported, whoever asks.
            DropKind::Default
            | DropKind::Rule
            | DropKind::Aggregate
            | DropKind::Assembly
            | DropKind::XmlSchemaCollection
            | DropKind::PartitionFunction
            | DropKind::PartitionScheme
            | DropKind::SymmetricKey
            | DropKind::AsymmetricKey => Ok(()),
        }
    }

    fn may_select_into(&self, query: &ast::Query) -> Result<()> {
        match into_name(query) {
            Some(name) if !name.is_temporary() => self.may_create(name, "CREATE TABLE"),
            _ => Ok(()),
        }
    }

    pub(crate) fn may_bulk_insert(&self, table: &ObjectName) -> Result<()> {
        if !self.state.server_rights().has("ADMINISTER BULK OPERATIONS") {
            return Err(messages::error(4834, &[]));
        }
        match self.find_object(table)? {
            Some((database, object)) => self.check_object(database, &object, "INSERT"),
            None => Ok(()),
        }
    }

    fn may_alter_database(&self, statement: &ast::AlterDatabase) -> Result<()> {
        let (id, shown) = match &statement.name {
            None => {
                let id = self.current_database();
                (Some(id), self.database_text(id))
            }
            Some(name) => {
                let entry = self.state.instance.database_named(&name.text);
                (entry.map(|e| e.id()), name.text.clone())
            }
        };
        let may = self.state.server_rights().has("ALTER ANY DATABASE")
            || id.is_some_and(|id| self.may(id, "ALTER", Securable::Database));
        let opens = match &statement.action {
            AlterDatabaseAction::Set { options, .. } => options.iter().any(|o| match o {
                DatabaseOption::Other(item) => opens_to_others(item),
                _ => false,
            }),
            _ => false,
        };
        match may {
            true if opens => Err(messages::error(15247, &[]).followed(messages::error(5069, &[]))),
            true => Ok(()),
            false => {
                Err(messages::error_state(5011, 9, &[&shown]).followed(messages::error(5069, &[])))
            }
        }
    }

    /// Target of a change, of which INSERT, UPDATE or DELETE is asked and not SELECT.
    pub(super) fn changed_object(&self, statement: &StatementKind) -> Option<ChangedObject> {
        let mut sets = Vec::new();
        let (target, from, with, permissions, reads) = match statement {
            StatementKind::Insert(s) => {
                let reads = reads(s.output.is_some(), false);
                (&s.target, &[][..], &s.with, vec!["INSERT"], reads)
            }
            StatementKind::Update(s) => {
                let noted = s.filter.is_some()
                    || !s.from.is_empty()
                    || !s.with.ctes.is_empty()
                    || s.assignments.iter().any(reads_columns);
                let hidden = s.output.is_some() || s.assignments.iter().any(sets_variable);
                sets.extend(s.assignments.iter().filter_map(set_column));
                let reads = reads(hidden, noted);
                (&s.target, s.from.as_slice(), &s.with, vec!["UPDATE"], reads)
            }
            StatementKind::Delete(s) => {
                let noted = s.filter.is_some() || !s.from.is_empty() || !s.with.ctes.is_empty();
                let reads = reads(s.output.is_some(), noted);
                (&s.target, s.from.as_slice(), &s.with, vec!["DELETE"], reads)
            }
            StatementKind::Merge(s) => {
                let mut wanted = Vec::new();
                for clause in &s.clauses {
                    let permission = match &clause.action {
                        ast::MergeAction::Update(list) => {
                            sets.extend(list.iter().filter_map(set_column));
                            "UPDATE"
                        }
                        ast::MergeAction::Delete => "DELETE",
                        ast::MergeAction::Insert { .. } => "INSERT",
                    };
                    if !wanted.contains(&permission) {
                        wanted.push(permission);
                    }
                }
                // The clauses are not bound with the target.
                (&s.target, &[][..], &s.with, wanted, Reads::All)
            }
            _ => return None,
        };
        let DmlTarget::Table { name, .. } = target else {
            // A variable or a rowset: whatever is named is read.
            return None;
        };
        let key_of = |name: &ObjectName| {
            let found = self.find_object(name).ok().flatten();
            found.map(|(database, object)| (database, object.id))
        };
        Some(ChangedObject {
            named: target_object(name, from, with).and_then(key_of),
            into: output_table(statement).and_then(key_of),
            permissions,
            sets,
            reads,
        })
    }
}

/// Options that let users of a database act in others: only sysadmin gives them.
fn opens_to_others(item: &ast::OptionItem) -> bool {
    let is = |name: &str| item.name.eq_ignore_ascii_case(name);
    is("TRUSTWORTHY") || is("DB_CHAINING")
}

/// The table of OUTPUT INTO.
fn output_table(statement: &StatementKind) -> Option<&ObjectName> {
    let output = match statement {
        StatementKind::Insert(s) => s.output.as_ref(),
        StatementKind::Update(s) => s.output.as_ref(),
        StatementKind::Delete(s) => s.output.as_ref(),
        StatementKind::Merge(s) => s.output.as_ref(),
        _ => None,
    };
    match &output?.into.as_ref()?.target {
        ast::OutputTarget::Table(name) => Some(name),
        ast::OutputTarget::Variable(_) => None,
    }
}

fn reads(hidden: bool, noted: bool) -> Reads {
    match (hidden, noted) {
        (true, _) => Reads::All,
        (false, true) => Reads::Noted,
        (false, false) => Reads::Nothing,
    }
}

/// Their values are not bound with the target.
fn sets_variable(assignment: &ast::Assignment) -> bool {
    matches!(
        assignment,
        ast::Assignment::Variable { .. } | ast::Assignment::Both { .. }
    )
}

fn set_column(assignment: &ast::Assignment) -> Option<String> {
    match assignment {
        ast::Assignment::Column { column, .. }
        | ast::Assignment::Both { column, .. }
        | ast::Assignment::Method { column, .. } => Some(column.name.text.clone()),
        ast::Assignment::Variable { .. } => None,
    }
}

/// Anything but a constant or variable is taken to read the table.
fn reads_columns(assignment: &ast::Assignment) -> bool {
    let constant = |e: &ast::Expr| {
        matches!(
            e,
            ast::Expr::Literal(_) | ast::Expr::Variable { .. } | ast::Expr::Default
        )
    };
    match assignment {
        ast::Assignment::Column { op, value, .. } | ast::Assignment::Both { op, value, .. } => {
            !constant(value) || !matches!(op, ast::AssignOp::Set)
        }
        ast::Assignment::Variable { value, .. } => !constant(value),
        ast::Assignment::Method { method, args, .. } => {
            // The query of modify() reads the document, and columns by sql:column().
            !method.is("WRITE") || !args.iter().all(constant)
        }
    }
}

fn has_into(query: &ast::Query) -> bool {
    into_name(query).is_some()
}

fn into_name(query: &ast::Query) -> Option<&ObjectName> {
    let mut body = &query.body;
    loop {
        match body {
            QueryBody::Select(select) => return select.into.as_ref().map(|i| &i.table),
            QueryBody::Set { branches, .. } => body = branches.first()?,
        }
    }
}

/// `%S_MSG` of an object's kind.
fn kind_of(object: &Object) -> &'static str {
    use daruma_catalog::ObjectKind::*;
    match object.kind {
        Table(_) => "table",
        View(_) => "view",
        Procedure(_) => "procedure",
        Function(_) => "function",
        Trigger(_) => "trigger",
        Sequence(_) => "sequence",
        Synonym { .. } => "synonym",
    }
}
