//! A host that remembers what was resolved while a statement was bound.
//!
//! Theory: whether a statement reads the table it changes decides whether its rows must be gathered first (Halloween
//! protection) and whether a row that changed meanwhile can be judged by itself. Every table a statement reads, also
//! one inside a view, is resolved through the host, so counting there misses none.
//!
//! Names in the text itself are kept apart from those in the views it names: schema binding binds the former alone.

use crate::error::{Result, SqlError};
use crate::host::{
    Access, CursorRow, Host, Images, InsteadTarget, Resolved, SessionSettings, SpillSpace,
    TableKind, TableRef, TriggerAction, TypeKey, UserFunction, VariableType,
};
use daruma_base::{CancelFlag, DatabaseId};
use daruma_storage::{Database, ReadView, Txn};
use daruma_syntax::ast::{CursorRef, Execute, ObjectName};
use daruma_value::{CollationId, DataType, Value};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A host that notes which tables a statement reads, so that it is known whether it reads its own target.
pub struct Watch<'h> {
    inner: &'h dyn Host,
    tables: RefCell<Vec<(DatabaseId, i32)>>,
    /// A view, function or virtual table was resolved.
    others: Cell<bool>,
    /// A function of several statements is called.
    calls: Cell<bool>,
    /// Those functions.
    functions: RefCell<Vec<(DatabaseId, i32)>>,
    /// Views that are being expanded.
    depth: Cell<usize>,
    named: RefCell<Vec<Named>>,
    /// Columns that the text itself reads: database, object, column.
    columns: RefCell<Vec<(DatabaseId, i32, i32)>>,
}

/// A name of the text and what it stands for.
#[derive(Clone)]
pub(crate) struct Named {
    pub name: ObjectName,
    pub database: DatabaseId,
    /// `None` is an object of the system.
    pub object: Option<i32>,
}

impl<'h> Watch<'h> {
    /// Passes everything on to `inner`.
    pub fn new(inner: &'h dyn Host) -> Watch<'h> {
        Watch {
            inner,
            tables: RefCell::default(),
            others: Cell::new(false),
            calls: Cell::new(false),
            functions: RefCell::default(),
            depth: Cell::new(0),
            named: RefCell::default(),
            columns: RefCell::default(),
        }
    }

    /// How often the table was resolved.
    pub fn count(&self, table: &TableRef) -> usize {
        let id = (table.database.id(), table.object_id);
        self.tables.borrow().iter().filter(|t| **t == id).count()
    }

    /// Functions of several statements that are called.
    pub fn functions(&self) -> Vec<(DatabaseId, i32)> {
        self.functions.borrow().clone()
    }

    /// Does it read the table, or call a function that may?
    pub fn may_read(&self, table: &TableRef) -> bool {
        self.calls.get() || self.count(table) > 0
    }

    /// Was anything resolved but this table?
    pub fn saw_others(&self, table: &TableRef) -> bool {
        let id = (table.database.id(), table.object_id);
        self.others.get() || self.calls.get() || self.tables.borrow().iter().any(|t| *t != id)
    }

    /// Names in the text itself, in order.
    pub fn named(&self) -> Vec<Named> {
        self.named.borrow().clone()
    }

    /// Does the text itself read the column?
    pub fn reads(&self, database: DatabaseId, object: i32, column: i32) -> bool {
        let columns = self.columns.borrow();
        columns.contains(&(database, object, column))
    }

    fn note_table(&self, table: &TableRef) {
        self.tables
            .borrow_mut()
            .push((table.database.id(), table.object_id));
    }

    fn note(&self, name: &ObjectName, resolved: Resolved) -> Resolved {
        if self.depth.get() == 0 {
            let (database, object) = match &resolved {
                Resolved::Table(table) => (table.database.id(), Some(table.object_id)),
                Resolved::View { database, object } | Resolved::Function { database, object } => {
                    (*database, Some(object.id))
                }
                Resolved::Virtual(_) => (self.current_database(), None),
            };
            self.named.borrow_mut().push(Named {
                name: name.clone(),
                database,
                object,
            });
        }
        match &resolved {
            Resolved::Table(table) => self.note_table(table),
            _ => self.others.set(true),
        }
        resolved
    }
}

impl Host for Watch<'_> {
    fn current_database(&self) -> DatabaseId {
        self.inner.current_database()
    }
    fn collation(&self, database: DatabaseId) -> CollationId {
        self.inner.collation(database)
    }
    fn settings(&self) -> SessionSettings {
        self.inner.settings()
    }
    fn cancel(&self) -> &CancelFlag {
        self.inner.cancel()
    }
    fn resolve(&self, name: &ObjectName) -> Result<Resolved> {
        self.inner.resolve(name).map(|r| self.note(name, r))
    }
    fn resolve_in(&self, database: DatabaseId, name: &ObjectName) -> Result<Resolved> {
        let resolved = self.inner.resolve_in(database, name);
        resolved.map(|r| self.note(name, r))
    }
    fn catalog(&self, database: DatabaseId) -> Result<Arc<daruma_catalog::DatabaseCatalog>> {
        self.inner.catalog(database)
    }
    fn instance(&self) -> Option<&Arc<crate::instance::Instance>> {
        self.inner.instance()
    }
    fn logins(&self) -> Option<crate::instance::LoginList> {
        self.inner.logins()
    }
    fn xml_document(&self, handle: i64) -> Result<Arc<daruma_xml::Prepared>> {
        self.inner.xml_document(handle)
    }
    fn cursor_row(&self, cursor: &CursorRef) -> Result<CursorRow> {
        self.inner.cursor_row(cursor)
    }
    fn visible_catalog(
        &self,
        database: DatabaseId,
    ) -> Result<Arc<daruma_catalog::DatabaseCatalog>> {
        self.inner.visible_catalog(database)
    }
    fn note_column(&self, database: DatabaseId, object: i32, column: i32) {
        if self.depth.get() == 0 {
            let mut columns = self.columns.borrow_mut();
            columns.push((database, object, column));
        }
        self.inner.note_column(database, object, column);
    }
    fn enter_view(&self, database: DatabaseId, view: &daruma_catalog::Object) {
        self.depth.set(self.depth.get() + 1);
        self.inner.enter_view(database, view);
    }
    fn leave_view(&self) {
        self.depth.set(self.depth.get().saturating_sub(1));
        self.inner.leave_view();
    }
    fn sees_database(&self, database: DatabaseId) -> bool {
        self.inner.sees_database(database)
    }
    fn sees_temporary(&self, table: &TableRef) -> bool {
        self.inner.sees_temporary(table)
    }
    fn has_database_permission(&self, database: DatabaseId, permission: &str) -> bool {
        self.inner.has_database_permission(database, permission)
    }
    fn has_server_permission(&self, permission: &str) -> bool {
        self.inner.has_server_permission(permission)
    }
    fn table_by_id(&self, database: DatabaseId, object_id: i32) -> Result<TableRef> {
        self.inner.table_by_id(database, object_id)
    }
    fn catalog_version(&self) -> u64 {
        self.inner.catalog_version()
    }
    fn resolve_type(
        &self,
        schema: Option<&str>,
        name: &str,
        arguments: &[i64],
    ) -> Result<(DataType, Option<bool>, Option<i32>)> {
        self.inner.resolve_type(schema, name, arguments)
    }
    fn system_function_type(&self, name: &str) -> Option<DataType> {
        self.inner.system_function_type(name)
    }
    fn system_function(&self, name: &str, arguments: &[Value]) -> Result<Value> {
        self.inner.system_function(name, arguments)
    }
    fn user_function(
        &self,
        database: DatabaseId,
        object: &Arc<daruma_catalog::Object>,
    ) -> Result<Arc<UserFunction>> {
        // It reads what it likes.
        self.calls.set(true);
        self.functions.borrow_mut().push((database, object.id));
        self.inner.user_function(database, object)
    }
    fn call_function(&self, function: &UserFunction, arguments: Vec<Value>) -> Result<Value> {
        self.inner.call_function(function, arguments)
    }
    fn function_rows(
        &self,
        function: &UserFunction,
        arguments: &[Value],
    ) -> Result<Vec<Vec<Value>>> {
        self.inner.function_rows(function, arguments)
    }
    fn enter_stored_text(&self) {
        self.inner.enter_stored_text();
    }
    fn leave_stored_text(&self) {
        self.inner.leave_stored_text();
    }
    fn bare_table(&self, name: &str, of: TypeKey) -> Result<TableRef> {
        self.inner.bare_table(name, of)
    }
    fn variable_type(&self, name: &str) -> Option<VariableType> {
        let found = self.inner.variable_type(name);
        if let Some(VariableType::Table(table) | VariableType::Parameter(table)) = &found {
            debug_assert_eq!(table.kind, TableKind::Variable);
            self.note_table(table);
        }
        found
    }
    fn variable(&self, name: &str) -> Result<Value> {
        self.inner.variable(name)
    }
    fn set_variable(&self, name: &str, value: Value) -> Result<()> {
        self.inner.set_variable(name, value)
    }
    fn txn(&self, database: &Arc<Database>) -> Result<Txn> {
        self.inner.txn(database)
    }
    fn view(&self, table: &TableRef, access: Access) -> Result<ReadView> {
        self.inner.view(table, access)
    }
    fn begin_write(&self, table: &TableRef) -> Result<Txn> {
        self.inner.begin_write(table)
    }
    fn next_identity(&self, table: &TableRef) -> Result<i128> {
        self.inner.next_identity(table)
    }
    fn note_identity(&self, table: &TableRef, value: i128) -> Result<()> {
        self.inner.note_identity(table, value)
    }
    fn identity_insert(&self, table: &TableRef) -> bool {
        self.inner.identity_insert(table)
    }
    fn set_last_identity(&self, value: i128) {
        self.inner.set_last_identity(value);
    }
    fn sequence(&self, name: &ObjectName) -> Result<(TypeKey, DataType)> {
        self.inner.sequence(name)
    }
    fn next_sequence_value(&self, name: &ObjectName) -> Result<Value> {
        self.inner.next_sequence_value(name)
    }
    fn next_rowversion(&self, database: &Arc<Database>) -> Result<u64> {
        self.inner.next_rowversion(database)
    }
    fn next_row_number(&self, table: &TableRef) -> Result<u64> {
        self.inner.next_row_number(table)
    }
    fn fire_triggers(
        &self,
        table: &TableRef,
        action: TriggerAction,
        images: Images,
        updated_columns: &[i32],
        rows: u64,
    ) -> Result<()> {
        self.inner
            .fire_triggers(table, action, images, updated_columns, rows)
    }
    fn instead_of(
        &self,
        name: &ObjectName,
        action: TriggerAction,
    ) -> Result<Option<InsteadTarget>> {
        self.inner.instead_of(name, action)
    }
    fn has_instead(&self, database: DatabaseId, object: i32, action: TriggerAction) -> bool {
        self.inner.has_instead(database, object, action)
    }
    fn fire_instead(
        &self,
        table: &TableRef,
        action: TriggerAction,
        images: Images,
        updated_columns: &[i32],
        rows: u64,
    ) -> Result<()> {
        self.inner
            .fire_instead(table, action, images, updated_columns, rows)
    }
    fn has_triggers(&self, table: &TableRef, action: TriggerAction) -> bool {
        self.inner.has_triggers(table, action)
    }
    fn referencing(&self, table: &TableRef) -> Result<Vec<(TableRef, usize)>> {
        self.inner.referencing(table)
    }
    fn execute_for_rows(
        &self,
        exec: &Execute,
        row: &mut dyn FnMut(&[Value]) -> Result<()>,
    ) -> Result<()> {
        self.inner.execute_for_rows(exec, row)
    }
    fn message(&self, message: SqlError) {
        self.inner.message(message);
    }
    fn count_scan(&self, table: &TableRef, logical_reads: u64, physical_reads: u64) {
        self.inner.count_scan(table, logical_reads, physical_reads);
    }
    fn now(&self) -> (i64, i16) {
        self.inner.now()
    }
    fn random(&self, seed: Option<i32>) -> f64 {
        self.inner.random(seed)
    }
    fn random_bytes(&self, buf: &mut [u8]) {
        self.inner.random_bytes(buf);
    }
    fn sequential_guid(&self) -> Option<[u8; 16]> {
        self.inner.sequential_guid()
    }
    fn memory_grant_bytes(&self) -> usize {
        self.inner.memory_grant_bytes()
    }
    fn check_memory(&self, wanted: usize) -> Result<()> {
        self.inner.check_memory(wanted)
    }
    fn promise_memory(&self, wanted: usize) -> Result<Option<crate::instance::Promise>> {
        self.inner.promise_memory(wanted)
    }
    fn memory_is_short(&self) -> bool {
        self.inner.memory_is_short()
    }
    fn spill(&self) -> Result<SpillSpace> {
        self.inner.spill()
    }
}
