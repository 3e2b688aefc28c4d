//! Surroundings that a statement can reach while it is bound, planned and run. Implemented by the session; tests bring their own.
//!
//! All methods take `&self`: a session is used by one thread at a time and keeps its state in cells.

use crate::error::{Result, SqlError};
use crate::executor::ActualRows;
use crate::executor::SharedRows;
use crate::executor::xml::XmlNodes;
use crate::instance::Batch;
use crate::messages;
use crate::sink::OutputColumn;
use daruma_base::cancel::CancelReason;
use daruma_base::{CancelFlag, DatabaseId};
use daruma_catalog::{FunctionDef, Object, ObjectKind, TableDef};
use daruma_storage::{Database, ReadView, Stamp, Txn};
use daruma_syntax::ast::{CursorRef, Expr, ObjectName};
use daruma_value::temporal::DateFormat;
use daruma_value::{CollationId, DataType, Value};
use daruma_xml::Prepared;
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// A table that rows can be read from and written to, with everything the query rooms need to reach it.
#[derive(Clone)]
pub struct TableRef {
    pub database: Arc<Database>,
    pub object_id: i32,
    /// Parts of the name as errors and plans show them.
    pub schema_name: String,
    pub name: String,
    pub def: Arc<TableDef>,
    pub kind: TableKind,
    /// Of a variable that was declared with a table type.
    pub table_type: Option<TypeKey>,
}

impl TableRef {
    /// Database and object, as a [`RowPlace`] has them.
    pub fn key(&self) -> (DatabaseId, i32) {
        (self.database.id(), self.object_id)
    }
}

/// A user's type: its database and `user_type_id`.
pub type TypeKey = (DatabaseId, i32);

/// Where a table lives, and whether transactions are about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    User,
    /// `#t`: lives in tempdb.
    Temporary,
    /// `@t`: not part of transactions.
    Variable,
}

/// Meaning of a name in FROM.
#[derive(Clone)]
pub enum Resolved {
    Table(TableRef),
    /// Query text to expand, bound in the context of `database`.
    View {
        database: DatabaseId,
        object: Arc<Object>,
    },
    /// System view or table-valued system function.
    Virtual(Arc<dyn VirtualTable>),
    /// User table-valued function.
    Function {
        database: DatabaseId,
        object: Arc<Object>,
    },
}

/// A row of a table, and how it was when it was read.
#[derive(Clone, Debug)]
pub struct RowPlace {
    /// Database and object.
    pub table: (DatabaseId, i32),
    pub key: Vec<u8>,
    pub stamp: Stamp,
}

/// What a cursor stands on.
#[derive(Clone, Debug)]
pub struct CursorRow {
    /// The row of each table of its query.
    pub places: Vec<RowPlace>,
    /// Columns of FOR UPDATE OF; none: all may be changed.
    pub columns: Vec<String>,
}

impl CursorRow {
    /// The row of a table; 16933 when the cursor has none, or more than one.
    pub fn place_in(&self, table: &TableRef) -> Result<&RowPlace> {
        let key = table.key();
        let mut places = self.places.iter().filter(|p| p.table == key);
        match (places.next(), places.next()) {
            (Some(place), None) => Ok(place),
            _ => Err(crate::messages::error(16933, &[])),
        }
    }
}

/// A function that is made of statements, as plans keep it.
pub struct UserFunction {
    pub database: DatabaseId,
    pub object: Arc<Object>,
    /// Keys of its parameters' names, and their types.
    pub parameters: Vec<(Arc<str>, DataType)>,
    /// What DEFAULT means for each parameter.
    pub defaults: Vec<Option<Expr>>,
    /// The value of a scalar function that does nothing else than to return it.
    pub returned: Option<Expr>,
    /// Hash of the parameters' types.
    pub signature: u64,
    /// Its text, parsed, while the server keeps it.
    pub batch: Weak<Batch>,
}

impl UserFunction {
    /// Its definition: all that is made of statements have one.
    pub fn def(&self) -> Option<&FunctionDef> {
        match &self.object.kind {
            ObjectKind::Function(module) => module.function.as_ref(),
            _ => None,
        }
    }

    /// Table type of the parameter at this place, if it has one.
    pub fn table_type(&self, at: usize) -> Option<i32> {
        match &self.object.kind {
            ObjectKind::Function(module) => module.parameters.get(at)?.table_type(),
            _ => None,
        }
    }
}

impl PartialEq for UserFunction {
    fn eq(&self, other: &UserFunction) -> bool {
        self.database == other.database && self.object == other.object
    }
}

impl std::fmt::Debug for UserFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UserFunction({})", self.object.name)
    }
}

/// Rows that are made when they are asked for. It ends with the first error.
pub type LazyRows = Box<dyn Iterator<Item = Result<Vec<Value>>> + Send>;

/// A table whose rows are computed: system views and table-valued system functions.
pub trait VirtualTable: Send + Sync {
    /// As catalog views and error texts show it.
    fn name(&self) -> &str;
    /// The columns of its rows, in order.
    fn columns(&self) -> &[OutputColumn];
    /// Number of arguments a function takes; 0..=0 for a view.
    fn arguments(&self) -> std::ops::RangeInclusive<usize> {
        0..=0
    }
    /// All rows, as seen from `database` (the one the name was qualified with, or the current one).
    fn rows(
        &self,
        host: &dyn Host,
        database: DatabaseId,
        arguments: &[Value],
    ) -> Result<Vec<Vec<Value>>>;
    /// The rows of a function one after the other: they need not lie in memory together.
    fn stream(
        &self,
        host: &dyn Host,
        database: DatabaseId,
        arguments: &[Value],
    ) -> Result<LazyRows> {
        let rows = self.rows(host, database, arguments)?;
        Ok(Box::new(rows.into_iter().map(Ok)))
    }
    /// Are its rows nodes of a document? The documents of a statement are kept by its execution.
    fn nodes(&self) -> Option<&XmlNodes> {
        None
    }
    /// The rows, where they were gathered before the statement: it reads them from there.
    fn gathered(&self) -> Option<&Arc<SharedRows>> {
        None
    }
}

/// What a statement changed, as its triggers see it.
#[derive(Clone, Default)]
pub struct Images {
    pub inserted: Arc<SharedRows>,
    pub deleted: Arc<SharedRows>,
}

/// A table or view whose changes go to an INSTEAD OF trigger.
#[derive(Clone)]
pub struct InsteadTarget {
    /// Of a view: its columns under its own name and id. It has no rows of its own.
    pub table: TableRef,
    pub is_view: bool,
}

/// Declared type of a variable.
#[derive(Clone)]
pub enum VariableType {
    Scalar(DataType),
    Table(TableRef),
    /// A table-valued parameter, which is only read.
    Parameter(TableRef),
    Cursor,
}

/// SET options that change how statements run. Statements take copies: no field may be expensive to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSettings {
    pub ansi_nulls: bool,
    pub ansi_padding: bool,
    pub ansi_warnings: bool,
    pub ansi_null_dflt_on: bool,
    pub arithabort: bool,
    pub concat_null_yields_null: bool,
    pub quoted_identifier: bool,
    pub nocount: bool,
    pub xact_abort: bool,
    pub implicit_transactions: bool,
    pub numeric_roundabort: bool,
    /// `None`: as the database has it.
    pub cursor_close_on_commit: Option<bool>,
    pub fmtonly: bool,
    pub noexec: bool,
    pub parseonly: bool,
    pub showplan: Showplan,
    pub statistics_io: bool,
    pub statistics_time: bool,
    pub statistics_xml: bool,
    pub statistics_profile: bool,
    /// SET ROWCOUNT; 0 = all.
    pub rowcount: u64,
    pub textsize: i32,
    pub datefirst: u8,
    pub dateformat: DateFormat,
    pub language: &'static str,
    pub lock_timeout_ms: i64,
    pub deadlock_priority: i64,
    pub isolation: IsolationLevel,
}

impl SessionSettings {
    /// Are plans shown, in place of results or behind them? That asks for the permission SHOWPLAN.
    pub fn shows_plans(&self) -> bool {
        self.showplan != Showplan::Off || self.statistics_xml || self.statistics_profile
    }
}

/// Form of plan that SET SHOWPLAN_* asks for in place of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Showplan {
    Off,
    Text,
    All,
    /// One document for each batch.
    Xml,
}

/// As set by SET TRANSACTION ISOLATION LEVEL; what READ COMMITTED means depends on the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
    Snapshot,
}

/// Locking hints of one table in a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockHints {
    pub nolock: bool,
    pub updlock: bool,
    pub xlock: bool,
    pub holdlock: bool,
    pub repeatableread: bool,
    pub tablock: bool,
    pub tablockx: bool,
    pub readpast: bool,
    pub readcommittedlock: bool,
    pub readcommitted: bool,
    pub nowait: bool,
    /// Set by the planner, not by a hint: the scan locks its rows one by one (for UPDLOCK, XLOCK or READPAST).
    pub by_row: bool,
    /// The scan looks for whole keys, so locking a key also keeps one from being inserted under it.
    pub by_key: bool,
}

impl LockHints {
    /// These and those.
    pub fn with(self, more: LockHints) -> LockHints {
        LockHints {
            nolock: self.nolock | more.nolock,
            updlock: self.updlock | more.updlock,
            xlock: self.xlock | more.xlock,
            holdlock: self.holdlock | more.holdlock,
            repeatableread: self.repeatableread | more.repeatableread,
            tablock: self.tablock | more.tablock,
            tablockx: self.tablockx | more.tablockx,
            readpast: self.readpast | more.readpast,
            readcommittedlock: self.readcommittedlock | more.readcommittedlock,
            readcommitted: self.readcommitted | more.readcommitted,
            nowait: self.nowait | more.nowait,
            by_row: self.by_row | more.by_row,
            by_key: self.by_key | more.by_key,
        }
    }

    /// Are rows locked or passed one by one?
    pub fn locks_rows(&self) -> bool {
        self.updlock || self.xlock || self.readpast
    }
}

/// Why a view of the data is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read(LockHints),
    /// To find rows that this statement will update or delete.
    Target,
    /// The same for a table with hints.
    HintedTarget(LockHints),
    /// To check a foreign key or unique constraint: always the newest committed state.
    Constraint,
}

/// The session as the query rooms see it.
pub trait Host {
    /// The session's database, which names without one mean.
    fn current_database(&self) -> DatabaseId;
    /// Collation of a database: of literals, variables and results of functions in its texts.
    fn collation(&self, _database: DatabaseId) -> CollationId {
        CollationId::DEFAULT
    }
    /// Where the running statement's rows are counted, operator by operator; nowhere unless somebody asked.
    fn actual_rows(&self) -> Option<Rc<ActualRows>> {
        None
    }
    /// The SET options as they are when the statement begins.
    fn settings(&self) -> SessionSettings;
    /// Set by an attention or KILL; long work looks at it.
    fn cancel(&self) -> &CancelFlag;

    /// Meaning of a table, view or function name at this moment, in this session and transaction. Takes the schema
    /// stability lock that keeps the definition in place until the statement ends. Error 208 when there is none.
    fn resolve(&self, name: &ObjectName) -> Result<Resolved>;
    /// Resolves within another database's context, for names inside views and procedures.
    fn resolve_in(&self, database: DatabaseId, name: &ObjectName) -> Result<Resolved>;
    /// The table with this object id, for foreign keys, which name their other table so. Takes the schema stability
    /// lock like `resolve`.
    fn table_by_id(&self, database: DatabaseId, object_id: i32) -> Result<TableRef>;
    /// Grows whenever a definition changed that `resolve` could see: key of cached plans.
    fn catalog_version(&self) -> u64;
    /// Data type of a named type, alias types included: error 2715 when unknown. The flag is the nullability that an
    /// alias type prescribes.
    fn resolve_type(
        &self,
        schema: Option<&str>,
        name: &str,
        arguments: &[i64],
    ) -> Result<(DataType, Option<bool>, Option<i32>)>;
    /// Metadata and session functions that need the catalog or the session (OBJECT_ID, DB_NAME, SERVERPROPERTY,
    /// SUSER_SNAME, SCOPE_IDENTITY, @@ROWCOUNT as "@@rowcount", ...): result type, or `None` if unknown.
    fn system_function_type(&self, name: &str) -> Option<DataType>;
    /// The value of a function that depends on the session, such as SUSER_NAME.
    fn system_function(&self, name: &str, arguments: &[Value]) -> Result<Value>;
    /// What plans keep of a function that `resolve` gave and that is made of statements.
    fn user_function(&self, _: DatabaseId, object: &Arc<Object>) -> Result<Arc<UserFunction>> {
        Err(messages::error(208, &[&object.name]))
    }
    /// Value of a scalar function for values of its parameters' types.
    fn call_function(&self, function: &UserFunction, _: Vec<Value>) -> Result<Value> {
        Err(messages::error(208, &[&function.object.name]))
    }
    /// Rows of a multi-statement function.
    fn function_rows(&self, function: &UserFunction, _: &[Value]) -> Result<Vec<Vec<Value>>> {
        Err(messages::error(208, &[&function.object.name]))
    }
    /// An expression of a table's definition is bound until `leave_stored_text`: what it names was asked for when it was made.
    fn enter_stored_text(&self) {}
    /// Ends the innermost `enter_stored_text`.
    fn leave_stored_text(&self) {}

    /// A table of the type to bind a text with, not to be opened.
    fn bare_table(&self, _: &str, of: TypeKey) -> Result<TableRef> {
        Err(messages::error(2715, &[&1, &of.1]))
    }

    /// Type of a local variable, `None` for one that is not declared.
    fn variable_type(&self, name: &str) -> Option<VariableType>;
    /// Value of a local variable.
    fn variable(&self, name: &str) -> Result<Value>;
    /// Assigns a local variable; the value is converted before.
    fn set_variable(&self, name: &str, value: Value) -> Result<()>;

    /// The session's transaction in `database`, begun if there is none yet.
    fn txn(&self, database: &Arc<Database>) -> Result<Txn>;
    /// A view for this statement: the same one for all reads of one database with equal `access`. Takes the table's
    /// intent lock where the isolation level asks for it.
    fn view(&self, table: &TableRef, access: Access) -> Result<ReadView>;
    /// Does what hints say about the table that INSERT is about to fill: how long the statement waits, and whether the
    /// whole table is locked.
    fn begin_hinted_insert(&self, _table: &TableRef, _hints: LockHints) -> Result<()> {
        Ok(())
    }
    /// Locks the table for writing (intent exclusive) and refuses what the session may not write.
    fn begin_write(&self, table: &TableRef) -> Result<Txn>;

    /// Next identity value of a table (reserved in blocks, never rolled back).
    fn next_identity(&self, table: &TableRef) -> Result<i128>;
    /// Raises the identity counter after an explicit insert.
    fn note_identity(&self, table: &TableRef, value: i128) -> Result<()>;
    /// Is IDENTITY_INSERT ON for the table?
    fn identity_insert(&self, table: &TableRef) -> bool;
    /// Sets the value of SCOPE_IDENTITY and @@IDENTITY.
    fn set_last_identity(&self, value: i128);
    /// Which sequence a name means, and the type of its values: error 208 when there is none of the name.
    fn sequence(&self, name: &ObjectName) -> Result<(TypeKey, DataType)> {
        Err(crate::messages::error(208, &[&name.dotted()]))
    }
    /// Draws NEXT VALUE FOR; the sequence's cache is not undone by ROLLBACK.
    fn next_sequence_value(&self, name: &ObjectName) -> Result<Value>;
    /// Begins a row of a statement: until [`Host::end_row`] all references to one sequence give one value. False within a row.
    fn begin_row(&self) -> bool {
        false
    }
    /// Ends the row that was begun.
    fn end_row(&self) {}
    /// Next value for a rowversion column of the database.
    fn next_rowversion(&self, database: &Arc<Database>) -> Result<u64>;
    /// Next hidden row number of a heap or non-unique clustered index.
    fn next_row_number(&self, table: &TableRef) -> Result<u64>;

    /// AFTER triggers of `table` for an action (0 insert, 1 update, 2 delete): run them with these inserted and
    /// deleted rows (all columns of the table, in order). Called once per statement, even for no rows. `rows`: how
    /// many the statement changed, which triggers see as @@ROWCOUNT.
    fn fire_triggers(
        &self,
        table: &TableRef,
        action: TriggerAction,
        images: Images,
        updated_columns: &[i32],
        rows: u64,
    ) -> Result<()>;
    /// The table or view of this name, if an INSTEAD OF trigger of it is to be run for the action.
    fn instead_of(&self, _: &ObjectName, _: TriggerAction) -> Result<Option<InsteadTarget>> {
        Ok(None)
    }
    /// Is an INSTEAD OF trigger of the table or view to be run for the action?
    fn has_instead(&self, _: DatabaseId, _object: i32, _: TriggerAction) -> bool {
        false
    }
    /// As `fire_triggers`, for the INSTEAD OF trigger.
    fn fire_instead(
        &self,
        _table: &TableRef,
        _action: TriggerAction,
        _images: Images,
        _updated_columns: &[i32],
        _rows: u64,
    ) -> Result<()> {
        Ok(())
    }
    /// Must the rows of this action be gathered for AFTER triggers?
    fn has_triggers(&self, table: &TableRef, action: TriggerAction) -> bool;
    /// Tables whose foreign keys reference `table`, with the positions of those keys in their definitions.
    fn referencing(&self, table: &TableRef) -> Result<Vec<(TableRef, usize)>>;

    /// Runs EXEC and hands over the rows of its result sets: INSERT .. EXEC.
    fn execute_for_rows(
        &self,
        exec: &daruma_syntax::ast::Execute,
        row: &mut dyn FnMut(&[Value]) -> Result<()>,
    ) -> Result<()>;

    /// Sends an informational message or warning (for example 8153 once per statement).
    fn message(&self, message: SqlError);
    /// Counts reads for SET STATISTICS IO, per table.
    fn count_scan(&self, table: &TableRef, logical_reads: u64, physical_reads: u64);

    /// UTC now in 100 ns since 1970 and local offset in minutes: constant during a statement.
    fn now(&self) -> (i64, i16);
    /// Chance for NEWID, RAND and CRYPT_GEN_RANDOM, seeded in the simulation.
    fn random_bytes(&self, buf: &mut [u8]);
    /// RAND: the next number of the session's sequence, which a seed begins anew.
    fn random(&self, seed: Option<i32>) -> f64;
    /// NEWSEQUENTIALID; nothing where there is no server.
    fn sequential_guid(&self) -> Option<[u8; 16]> {
        None
    }
    /// Bytes that sorts and hashes of this statement may hold in memory before they spill.
    fn memory_grant_bytes(&self) -> usize;
    /// May the statement take `wanted` bytes more? Error 701 when it holds much and the server's memory is used up.
    fn check_memory(&self, _wanted: usize) -> Result<()> {
        Ok(())
    }
    /// As `check_memory`, for a large value: the bytes count as taken until the promise is dropped.
    fn promise_memory(&self, _wanted: usize) -> Result<Option<crate::instance::Promise>> {
        Ok(None)
    }
    /// A document that the session has prepared for OPENXML: error 8179 where there is none.
    fn xml_document(&self, handle: i64) -> Result<Arc<Prepared>> {
        Err(messages::error(8179, &[&handle]))
    }
    /// Is the server's memory nearly used up? Then sorts and hashes spill.
    fn memory_is_short(&self) -> bool {
        false
    }
    /// Directory for spill files, on the engine's disk.
    fn spill(&self) -> Result<SpillSpace>;

    /// The row that a cursor stands on, to be changed: errors 16916, 16917, 16929 and 16931.
    fn cursor_row(&self, cursor: &CursorRef) -> Result<CursorRow> {
        let _ = cursor;
        Err(crate::messages::not_supported("WHERE CURRENT OF"))
    }

    /// The server, for system views. Tests without one have none.
    fn instance(&self) -> Option<&Arc<crate::instance::Instance>> {
        None
    }
    /// Logins as the session has changed them, for system views; `None` where there is no server.
    fn logins(&self) -> Option<crate::instance::LoginList> {
        None
    }
    /// Definitions of a database as this session sees them, for system views.
    fn catalog(&self, database: DatabaseId) -> Result<Arc<daruma_catalog::DatabaseCatalog>> {
        Err(crate::messages::error(2520, &[&database.0]))
    }
    /// The catalog that keeps a database's statistics.
    fn stored_catalog(&self, _: DatabaseId) -> Option<Arc<daruma_catalog::Catalog>> {
        None
    }
    /// The same without what the session must not know of.
    fn visible_catalog(
        &self,
        database: DatabaseId,
    ) -> Result<Arc<daruma_catalog::DatabaseCatalog>> {
        self.catalog(database)
    }
    /// A statement reads this column of a table or view that `resolve` gave.
    fn note_column(&self, _database: DatabaseId, _object: i32, _column: i32) {}
    /// Names that are resolved from now on stand in the text of this view, until `leave_view`.
    fn enter_view(&self, _database: DatabaseId, _view: &Object) {}
    /// Ends the innermost `enter_view`.
    fn leave_view(&self) {}
    /// May the session know of a database?
    fn sees_database(&self, _database: DatabaseId) -> bool {
        true
    }
    /// May the session know of a temporary table?
    fn sees_temporary(&self, _table: &TableRef) -> bool {
        true
    }
    /// Has the session a permission on a database (`VIEW DATABASE STATE`)?
    fn has_database_permission(&self, _database: DatabaseId, _permission: &str) -> bool {
        true
    }
    /// Has the session a permission of the server (`VIEW SERVER STATE`)?
    fn has_server_permission(&self, _permission: &str) -> bool {
        true
    }
    /// The session's entry in the registry.
    fn session_entry(&self) -> Option<&Arc<crate::instance::SessionEntry>> {
        None
    }
}

/// The culture whose names and forms a language has.
pub(crate) fn culture_of(language: &str) -> &'static str {
    match language {
        "us_english" => "en-US",
        "British" => "en-GB",
        "Deutsch" => "de-DE",
        "Fran\u{e7}ais" => "fr-FR",
        "Espa\u{f1}ol" => "es-ES",
        "Italiano" => "it-IT",
        "Nederlands" => "nl-NL",
        "Portugu\u{ea}s" => "pt-PT",
        "Dansk" => "da-DK",
        "Svenska" => "sv-SE",
        "Norsk" => "nn-NO",
        "Suomi" => "fi-FI",
        "polski" => "pl-PL",
        "\u{65e5}\u{672c}\u{8a9e}" => "ja-JP",
        _ => "",
    }
}

/// Error 3617 as soon as the client has given the request up, 596 once the session was killed, 701 when the memory that it
/// holds is too much. Work whose length the client decides (planning, reading, changing, checking) asks now and then.
pub(crate) fn check_cancel(host: &dyn Host) -> Result<()> {
    cancelled(host.cancel())?;
    host.check_memory(0)
}

/// As [`check_cancel`], of a flag.
pub(crate) fn cancelled(flag: &CancelFlag) -> Result<()> {
    match flag.get() {
        None => Ok(()),
        Some(CancelReason::Kill) => Err(messages::error(596, &[])),
        Some(CancelReason::Attention) => Err(messages::error(3617, &[])),
    }
}

/// Which statement fires a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerAction {
    Insert,
    Update,
    Delete,
}

/// Scratch space for sorts and hashes that exceed their grant.
pub struct SpillSpace {
    pub disk: Arc<dyn daruma_base::Disk>,
    pub directory: std::path::PathBuf,
    /// Unique in the server: use in file names.
    pub id: u64,
}
