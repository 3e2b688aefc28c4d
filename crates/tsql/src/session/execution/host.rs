//! The session as statements see it: [`Host`] for a running request.
//!
//! Names are resolved in `resolve`, rights asked for in `access`; here is what reads and writes need of the session while they
//! run: views, locks, the transaction, counters, triggers, memory. A lock that was waited for may uncover another
//! definition; then the statement starts anew (2801).

use super::{Execution, PLANNED_BEFORE};
use crate::error::{Result, SqlError};
use crate::executor::ActualRows;
use crate::executor::scratch_error;
use crate::host::*;
use crate::instance::{Instance, LoginList, Promise, SCRATCH_FOLDER, SMALL_BYTES};
use crate::messages;
use crate::session::frame::FrameKind;
use crate::session::show::Counting;
use daruma_base::{CancelFlag, DatabaseId};
use daruma_catalog::{
    CounterId, DatabaseCatalog, IdentityDef, Object, ObjectKind, Pace, SequenceDef, name_key,
};
use daruma_storage::{Database, Isolation, LockMode, LockResource, ReadView, Txn};
use daruma_syntax::ast::{self, CursorRef, ObjectName};
use daruma_value::functions::RandomSequence;
use daruma_value::{CollationId, DataType, Value};
use std::rc::Rc;
use std::sync::Arc;

impl Host for Execution<'_> {
    fn current_database(&self) -> DatabaseId {
        match self.state.frames.borrow().last() {
            Some(frame) if frame.kind != FrameKind::Batch => frame.database,
            _ => self.state.database.borrow().id(),
        }
    }

    fn collation(&self, database: DatabaseId) -> CollationId {
        let entry = self.state.instance.database(database);
        entry.map_or(CollationId::DEFAULT, |e| e.def().collation)
    }

    fn actual_rows(&self) -> Option<Rc<ActualRows>> {
        self.counting.borrow().as_ref().map(Counting::rows)
    }

    fn settings(&self) -> SessionSettings {
        self.state.settings.borrow().clone()
    }

    fn cancel(&self) -> &CancelFlag {
        &self.state.entry.cancel
    }

    fn resolve(&self, name: &ObjectName) -> Result<Resolved> {
        self.resolve_name(self.current_database(), name)
    }

    fn resolve_in(&self, database: DatabaseId, name: &ObjectName) -> Result<Resolved> {
        self.resolve_name(database, name)
    }

    fn table_by_id(&self, database: DatabaseId, object_id: i32) -> Result<TableRef> {
        let catalog = self.state.catalog(database)?;
        let object = catalog
            .object(object_id)
            .ok_or_else(|| messages::error(208, &[&object_id]))?;
        match self.table_ref(database, &catalog, object)? {
            Some(table) => Ok(table),
            None => Err(messages::error(208, &[&object.name])),
        }
    }

    fn catalog_version(&self) -> u64 {
        self.state.instance.catalog_version() + (self.state.private_version.get() << 32)
    }

    fn resolve_type(
        &self,
        schema: Option<&str>,
        name: &str,
        arguments: &[i64],
    ) -> Result<(DataType, Option<bool>, Option<i32>)> {
        self.resolve_type_name(schema, name, arguments)
    }

    fn system_function_type(&self, name: &str) -> Option<DataType> {
        crate::session::functions::result_type(name)
    }

    fn system_function(&self, name: &str, arguments: &[Value]) -> Result<Value> {
        self.call_system_function(name, arguments)
    }

    fn user_function(
        &self,
        database: DatabaseId,
        object: &Arc<Object>,
    ) -> Result<Arc<UserFunction>> {
        self.make_function(database, object).map(Arc::new)
    }

    fn call_function(&self, function: &UserFunction, arguments: Vec<Value>) -> Result<Value> {
        self.call_scalar(function, arguments)
    }

    fn function_rows(
        &self,
        function: &UserFunction,
        arguments: &[Value],
    ) -> Result<Vec<Vec<Value>>> {
        self.rows_of_function(function, arguments.to_vec())
    }

    fn enter_stored_text(&self) {
        Execution::enter_stored_text(self);
    }

    fn leave_stored_text(&self) {
        Execution::leave_stored_text(self);
    }

    fn bare_table(&self, name: &str, (database, id): TypeKey) -> Result<TableRef> {
        let catalog = self.state.catalog(database)?;
        let def = catalog.type_by_id(id);
        let def = def.ok_or_else(|| messages::error(2715, &[&1, &name]))?;
        crate::ddl::bare_table_of_type(self, name, database, def)
    }

    fn variable_type(&self, name: &str) -> Option<VariableType> {
        if let Some(noted) = self.noted_variables.borrow_mut().as_mut() {
            noted.insert(name_key(name));
        }
        let frames = self.state.frames.borrow();
        let declared = frames.last()?.variable(name).map(|v| v.declared.clone());
        if let Some(VariableType::Table(_) | VariableType::Parameter(_)) = declared {
            self.note_private();
        }
        declared
    }

    fn variable(&self, name: &str) -> Result<Value> {
        let frames = self.state.frames.borrow();
        match frames.last().and_then(|f| f.variable(name)) {
            Some(variable) => {
                self.check_copy(&variable.value)?;
                Ok(variable.value.clone())
            }
            None => Err(messages::error_state(137, 2, &[&name])),
        }
    }

    fn set_variable(&self, name: &str, value: Value) -> Result<()> {
        let mut frames = self.state.frames.borrow_mut();
        match frames.last_mut().and_then(|f| f.variable_mut(name)) {
            Some(variable) => {
                variable.value = value;
                Ok(())
            }
            None => Err(messages::error_state(137, 1, &[&name])),
        }
    }

    /// A kept plan may know the database as it was before it went offline and came back, while the statement waited to come in.
    fn txn(&self, database: &Arc<Database>) -> Result<Txn> {
        let txn = self.state.txn_in(database.id())?;
        match Arc::ptr_eq(txn.database(), database) {
            true => Ok(txn),
            false => Err(messages::error(942, &[&database.name()])),
        }
    }

    fn view(&self, table: &TableRef, access: Access) -> Result<ReadView> {
        if table.kind != TableKind::User && self.planned_version.get() == PLANNED_BEFORE {
            self.check_unstored(table)?;
        }
        if table.kind == TableKind::Variable {
            return Ok(self.variable_transaction()?.view(Isolation::Current));
        }
        if let Access::Read(hints) | Access::HintedTarget(hints) = access
            && hints.nowait
        {
            self.wait_for_nothing();
        }
        let isolation = self.isolation(table, access)?;
        if table.kind == TableKind::User {
            self.lock_for_read(table, access, isolation)?;
            if self.planned_version.get() != self.catalog_version() {
                self.check_definition(table)?;
            }
        }
        self.keep_long_values(table, isolation)?;
        let id = table.database.id();
        let mut views = self.views.borrow_mut();
        let for_update = isolation == Isolation::Update
            || isolation == Isolation::Serializable && means_to_write(access);
        let same = |(d, i, view): &&(DatabaseId, Isolation, ReadView)| {
            *d == id && *i == isolation && view.is_for_update() == for_update
        };
        if let Some((_, _, view)) = views.iter().find(same) {
            return Ok(view.clone());
        }
        let view = self.txn(&table.database)?.view(isolation);
        let view = match for_update {
            true => view.for_update(),
            false => view,
        };
        views.push((id, isolation, view.clone()));
        drop(views);
        if table.database.is_secondary() {
            self.check_followed(table)?;
        }
        Ok(view)
    }

    fn begin_hinted_insert(&self, table: &TableRef, hints: LockHints) -> Result<()> {
        if hints.nowait {
            self.wait_for_nothing();
        }
        if table.kind == TableKind::User && (hints.tablock || hints.tablockx) {
            let object = LockResource::Object(table.object_id);
            self.lock_for_transaction(&table.database, object, LockMode::Exclusive)?;
        }
        Ok(())
    }

    fn begin_write(&self, table: &TableRef) -> Result<Txn> {
        if table.kind == TableKind::Variable {
            return self.variable_transaction();
        }
        if self.in_function() {
            return Err(messages::error_state(443, 15, &[&"UPDATE"]));
        }
        if self.state.is_doomed() {
            return Err(messages::error(3930, &[]));
        }
        self.last_written
            .set(Some((table.database.id(), table.object_id)));
        if self.state.settings.borrow().statistics_io && self.written.borrow().is_none() {
            *self.written.borrow_mut() = Some(table.name.clone());
        }
        if table.kind == TableKind::User {
            // Whoever just makes it READ_ONLY is waited for here.
            self.txn(&table.database)?;
            if table.database.settings().read_only {
                return Err(messages::error(3906, &[&table.database.name()]));
            }
            self.state.check_writable(table.database.id())?;
            self.state.check_filegroups(table)?;
            let object = LockResource::Object(table.object_id);
            self.lock_for_transaction(&table.database, object, LockMode::IntentExclusive)?;
            self.check_definition(table)?;
        }
        self.txn(&table.database)
    }

    fn next_identity(&self, table: &TableRef) -> Result<i128> {
        let Some(identity) = table.def.identity else {
            return Err(messages::error(8106, &[&table.name]));
        };
        let data_type = identity_type(table, identity);
        let next = |last: Option<i128>| match last {
            None => Ok(identity.seed),
            Some(last) => crate::session::types::checked_integer(
                last.saturating_add(identity.increment),
                data_type,
                "IDENTITY",
            ),
        };
        let id = CounterId::Identity(table.object_id);
        self.next_counter(table, id, identity_pace(table), next)
    }

    fn note_identity(&self, table: &TableRef, value: i128) -> Result<()> {
        let ascending = table.def.identity.is_none_or(|i| i.increment >= 0);
        let next = |last: Option<i128>| {
            Ok(match last {
                Some(last) if (value > last) != ascending => last,
                _ => value,
            })
        };
        let id = CounterId::Identity(table.object_id);
        self.next_counter(table, id, identity_pace(table), next)
            .map(|_| ())
    }

    fn identity_insert(&self, table: &TableRef) -> bool {
        *self.state.identity_insert.borrow() == Some((table.database.id(), table.object_id))
    }

    fn set_last_identity(&self, value: i128) {
        self.state.last_identity.set(Some(value));
        self.top_mut(|frame| frame.scope_identity = Some(value));
    }

    fn sequence(&self, name: &ObjectName) -> Result<(TypeKey, DataType)> {
        let (database, object) = self.sequence_named(name)?;
        match &object.kind {
            ObjectKind::Sequence(sequence) => Ok(((database, object.id), sequence.data_type)),
            _ => Err(messages::error(11726, &[&name.dotted()])),
        }
    }

    fn next_sequence_value(&self, name: &ObjectName) -> Result<Value> {
        if self.in_function() {
            return Err(messages::error(11719, &[]));
        }
        let (database, object) = self.sequence_to_use(name)?;
        let ObjectKind::Sequence(sequence) = &object.kind else {
            return Err(messages::error(11726, &[&name.dotted()]));
        };
        if !self.is_unlimited() && !self.is_chained(database, &object)? {
            self.check_object(database, &object, "UPDATE")?;
        }
        let key = (database, object.id);
        if let Some(known) = self.row_values.borrow().as_deref()
            && let Some((_, value)) = known.iter().find(|(of, _)| *of == key)
        {
            return Ok(value.clone());
        }
        let open = self.state.instance.open_database(database)?;
        let next = |last: Option<i128>| next_of(sequence, last, &object.name);
        let value = self.advance_sequence(&open, object.id, sequence, next)?;
        let value = crate::session::types::integer_value(value, sequence.data_type)?;
        if let Some(known) = self.row_values.borrow_mut().as_mut() {
            known.push((key, value.clone()));
        }
        Ok(value)
    }

    fn begin_row(&self) -> bool {
        let mut values = self.row_values.borrow_mut();
        let begins = values.is_none();
        values.get_or_insert_default();
        begins
    }

    fn end_row(&self) {
        *self.row_values.borrow_mut() = None;
    }

    fn next_rowversion(&self, database: &Arc<Database>) -> Result<u64> {
        let open = self.state.instance.open_database(database.id())?;
        let cancel = &self.state.entry.cancel;
        Ok(open.catalog.next_number(CounterId::RowVersion, cancel)? + 2_000)
    }

    fn next_row_number(&self, table: &TableRef) -> Result<u64> {
        let next = |last: Option<i128>| Ok(last.unwrap_or(0) + 1);
        let id = CounterId::RowNumber(table.object_id);
        let number = self.next_counter(table, id, Pace::NUMBERS, next)?;
        Ok(number as u64)
    }

    fn fire_triggers(
        &self,
        table: &TableRef,
        action: TriggerAction,
        images: Images,
        updated_columns: &[i32],
        rows: u64,
    ) -> Result<()> {
        self.run_triggers(table, action, images, updated_columns, rows)
    }

    fn instead_of(
        &self,
        name: &ObjectName,
        action: TriggerAction,
    ) -> Result<Option<InsteadTarget>> {
        self.instead_target(name, action)
    }

    fn has_instead(&self, database: DatabaseId, object: i32, action: TriggerAction) -> bool {
        self.instead_trigger(database, object, action)
            .is_ok_and(|found| found.is_some())
    }

    fn fire_instead(
        &self,
        table: &TableRef,
        action: TriggerAction,
        images: Images,
        updated_columns: &[i32],
        rows: u64,
    ) -> Result<()> {
        let trigger = self.instead_trigger(table.database.id(), table.object_id, action)?;
        let triggers: Vec<_> = trigger.into_iter().collect();
        self.run_each_trigger(&triggers, table, images, updated_columns, rows)
    }

    fn has_triggers(&self, table: &TableRef, action: TriggerAction) -> bool {
        self.trigger_objects(table, action)
            .is_ok_and(|list| !list.is_empty())
    }

    fn referencing(&self, table: &TableRef) -> Result<Vec<(TableRef, usize)>> {
        if table.kind != TableKind::User {
            return Ok(Vec::new());
        }
        let database = table.database.id();
        let catalog = self.state.catalog(database)?;
        let mut found = Vec::new();
        for id in catalog.referencing(table.object_id) {
            let other = self.table_by_id(database, *id)?;
            let keys = other.def.foreign_keys.iter().enumerate();
            let positions = keys
                .filter(|(_, k)| k.referenced_table == table.object_id)
                .map(|(at, _)| at);
            found.extend(positions.map(|at| (other.clone(), at)));
        }
        Ok(found)
    }

    fn execute_for_rows(
        &self,
        exec: &ast::Execute,
        row: &mut dyn FnMut(&[Value]) -> Result<()>,
    ) -> Result<()> {
        self.capture_rows(exec)?.iter().try_for_each(|r| row(r))
    }

    fn message(&self, message: SqlError) {
        let mut pending = self.pending.borrow_mut();
        if !pending
            .iter()
            .any(|m| m.number == message.number && m.message == message.message)
        {
            pending.push(message);
        }
    }

    fn count_scan(&self, table: &TableRef, logical_reads: u64, physical_reads: u64) {
        if self.state.settings.borrow().statistics_io {
            crate::session::statistics::count(
                &mut self.reads.borrow_mut(),
                &table.name,
                logical_reads,
                physical_reads,
            );
        }
    }

    fn now(&self) -> (i64, i16) {
        if let Some(now) = self.statement_now.get() {
            return now;
        }
        let clock = &self.state.instance.env().clock;
        let now = (clock.utc_100ns(), clock.local_offset_minutes());
        self.statement_now.set(Some(now));
        now
    }

    fn random(&self, seed: Option<i32>) -> f64 {
        let mut sequence = match (seed, self.state.random.get()) {
            (None, Some(begun)) => begun,
            (Some(seed), _) => RandomSequence::from_seed(seed),
            (None, None) => {
                let mut seed = [0; 4];
                self.random_bytes(&mut seed);
                RandomSequence::from_seed(i32::from_le_bytes(seed))
            }
        };
        let number = sequence.draw();
        self.state.random.set(Some(sequence));
        number
    }

    fn random_bytes(&self, buf: &mut [u8]) {
        self.state.instance.env().random.fill(buf);
    }

    fn sequential_guid(&self) -> Option<[u8; 16]> {
        let instance = &self.state.instance;
        Some(instance.sequential_ids.next(instance.env()))
    }

    fn memory_grant_bytes(&self) -> usize {
        let grant = self.state.instance.memory.grant_bytes();
        usize::try_from(grant).unwrap_or(0)
    }

    fn check_memory(&self, wanted: usize) -> Result<()> {
        let (held, wanted) = (self.held_bytes(), as_signed(wanted));
        // A small request is not worth a look at what others hold.
        if held.saturating_add(wanted) < SMALL_BYTES {
            return Ok(());
        }
        self.with_room(|memory, asking| memory.ask(asking, wanted))
    }

    fn promise_memory(&self, wanted: usize) -> Result<Option<Promise>> {
        let wanted = as_signed(wanted);
        if wanted < SMALL_BYTES {
            return self.check_memory(0).map(|()| None);
        }
        self.with_room(|memory, asking| memory.promise(asking, wanted))
            .map(Some)
    }

    fn memory_is_short(&self) -> bool {
        self.state.instance.memory.is_short()
    }

    fn spill(&self) -> Result<SpillSpace> {
        let instance = &self.state.instance;
        let directory = instance.data_dir().join(SCRATCH_FOLDER);
        let disk = instance.env().disk.clone();
        disk.create_dir_all(&directory)
            .map_err(|e| scratch_error("make folder", &directory, e))?;
        Ok(SpillSpace {
            disk,
            directory,
            id: instance.unique_number(),
        })
    }

    fn instance(&self) -> Option<&Arc<Instance>> {
        Some(&self.state.instance)
    }

    fn logins(&self) -> Option<LoginList> {
        Some(self.state.logins())
    }

    fn cursor_row(&self, cursor: &CursorRef) -> Result<CursorRow> {
        self.row_of_cursor(cursor)
    }

    fn catalog(&self, database: DatabaseId) -> Result<Arc<DatabaseCatalog>> {
        self.state.catalog(database)
    }

    fn stored_catalog(&self, database: DatabaseId) -> Option<Arc<daruma_catalog::Catalog>> {
        let open = self.state.instance.open_database(database).ok()?;
        Some(open.catalog)
    }

    fn visible_catalog(&self, database: DatabaseId) -> Result<Arc<DatabaseCatalog>> {
        self.visible(database)
    }

    fn xml_document(&self, handle: i64) -> Result<Arc<daruma_xml::Prepared>> {
        self.prepared_document(handle)
    }

    fn note_column(&self, database: DatabaseId, object: i32, column: i32) {
        self.note_column_use(database, object, column);
    }

    fn enter_view(&self, database: DatabaseId, view: &Object) {
        self.enter_view_of(database, view);
    }

    fn leave_view(&self) {
        self.leave_view_of();
    }

    fn sees_database(&self, database: DatabaseId) -> bool {
        self.knows_database(database)
    }

    fn sees_temporary(&self, table: &TableRef) -> bool {
        self.knows_temporary(table)
    }

    fn has_database_permission(&self, database: DatabaseId, permission: &str) -> bool {
        self.may_on_database(database, permission)
    }

    fn has_server_permission(&self, permission: &str) -> bool {
        self.state.server_rights().has(permission)
    }

    fn session_entry(&self) -> Option<&Arc<crate::instance::SessionEntry>> {
        Some(&self.state.entry)
    }
}

const fn as_signed(bytes: usize) -> i64 {
    // Larger sizes than these exist nowhere.
    if bytes > (i64::MAX as usize) / 2 {
        i64::MAX / 2
    } else {
        bytes as i64
    }
}

impl Execution<'_> {
    fn next_counter(
        &self,
        table: &TableRef,
        id: CounterId,
        pace: Pace,
        next: impl FnMut(Option<i128>) -> Result<i128>,
    ) -> Result<i128> {
        match table.kind {
            TableKind::User => {
                let open = self.state.instance.open_database(table.database.id())?;
                let cancel = &self.state.entry.cancel;
                open.catalog.next_value(id, pace, cancel, next)
            }
            _ => self.state.next_temp_counter(id, next),
        }
    }

    /// After waiting for a lock the table may be another one than the one planned for: 2801 makes the statement start anew.
    /// On a secondary: 2801 where the statement was planned with other definitions than those of what it is about to read.
    fn check_followed(&self, table: &TableRef) -> Result<()> {
        let instance = &self.state.instance;
        instance.follow_definitions(&instance.open_database(table.database.id())?)?;
        match self.planned_version.get() == self.catalog_version() {
            true => Ok(()),
            false => self.check_definition(table),
        }
    }

    fn check_definition(&self, table: &TableRef) -> Result<()> {
        if self.planned_version.get() == PLANNED_BEFORE {
            // Plans of statements do not outlive a database: another one may have its number, and tables of the same definition.
            let open = self.state.instance.open_database(table.database.id())?;
            if !Arc::ptr_eq(&open.storage, &table.database) {
                return Err(messages::error(2801, &[&table.name]));
            }
        }
        let catalog = self.state.catalog(table.database.id())?;
        let same = catalog
            .object(table.object_id)
            .is_some_and(|object| is_definition(object, table));
        match same {
            true => Ok(()),
            false => Err(messages::error(2801, &[&table.name])),
        }
    }

    /// The same of a temporary table or a table variable, which is planned for and read by one session.
    fn check_unstored(&self, table: &TableRef) -> Result<()> {
        let now = match table.kind {
            TableKind::Variable => self.live_table(table.object_id),
            _ => self.state.temporary(table.object_id),
        };
        match now.is_some_and(|now| *now.def == *table.def) {
            true => Ok(()),
            false => Err(messages::error(2801, &[&table.name])),
        }
    }

    /// A table of the catalog, protected until the statement ends.
    pub(crate) fn table_ref(
        &self,
        database: DatabaseId,
        catalog: &DatabaseCatalog,
        object: &Arc<Object>,
    ) -> Result<Option<TableRef>> {
        let ObjectKind::Table(_) = &object.kind else {
            return Ok(None);
        };
        let open = self.state.instance.open_database(database)?;
        self.lock_for_statement(&open.storage, object.id, LockMode::SchS)?;
        // The last holder of the lock may have changed the definition.
        let current = self.state.catalog(database)?;
        let same_place = |now: &&Arc<Object>| crate::ddl::is_in_place(now, object);
        let object = current
            .object(object.id)
            .filter(same_place)
            .ok_or_else(|| messages::error(2801, &[&object.name]))?;
        let ObjectKind::Table(def) = &object.kind else {
            return Ok(None);
        };
        Ok(Some(TableRef {
            database: open.storage,
            object_id: object.id,
            schema_name: catalog
                .schema(object.schema_id)
                .map_or(String::new(), |s| s.name.clone()),
            name: object.name.clone(),
            def: def.clone(),
            kind: TableKind::User,
            table_type: None,
        }))
    }

    fn sequence_named(&self, name: &ObjectName) -> Result<(DatabaseId, Arc<Object>)> {
        let found = self.find_object(name)?;
        found.ok_or_else(|| messages::error(208, &[&name.dotted()]))
    }

    /// The same, which nobody changes before the statement ends.
    pub(in crate::session) fn sequence_to_use(
        &self,
        name: &ObjectName,
    ) -> Result<(DatabaseId, Arc<Object>)> {
        let (database, object) = self.sequence_named(name)?;
        let open = self.state.instance.open_database(database)?;
        self.lock_for_statement(&open.storage, object.id, LockMode::SchS)?;
        // The last holder of the lock may have changed or dropped it.
        match self.state.catalog(database)?.object(object.id) {
            Some(now) if crate::ddl::is_in_place(now, &object) => Ok((database, now.clone())),
            _ => Err(messages::error(2801, &[&name.dotted()])),
        }
    }
}

fn identity_type(table: &TableRef, identity: IdentityDef) -> DataType {
    let column = table.def.column(identity.column_id);
    column.map_or(DataType::Int, |c| c.data_type)
}

/// How the identity values of a table go on.
fn identity_pace(table: &TableRef) -> Pace {
    let Some(identity) = table.def.identity else {
        return Pace::NUMBERS;
    };
    let (low, high) = crate::session::types::integer_range(identity_type(table, identity));
    Pace::of_identity(identity.increment, low, high)
}

fn is_definition(object: &Object, table: &TableRef) -> bool {
    object.name == table.name
        && matches!(&object.kind, ObjectKind::Table(def) if Arc::ptr_eq(def, &table.def) || **def == *table.def)
}

/// The value of a sequence behind `last`; 11728 where it has none.
pub(in crate::session) fn next_of(
    sequence: &SequenceDef,
    last: Option<i128>,
    name: &str,
) -> Result<i128> {
    let Some(last) = last else {
        return Ok(sequence.start);
    };
    let next = last.saturating_add(sequence.increment);
    match next {
        n if n >= sequence.minimum && n <= sequence.maximum => Ok(n),
        _ if !sequence.cycle => Err(messages::error(11728, &[&name])),
        _ if sequence.increment > 0 => Ok(sequence.minimum),
        _ => Ok(sequence.maximum),
    }
}

/// Does the statement find rows here that it, or a later one, will write?
fn means_to_write(access: Access) -> bool {
    match access {
        Access::Target | Access::HintedTarget(_) => true,
        Access::Read(hints) => hints.updlock || hints.xlock,
        Access::Constraint => false,
    }
}
