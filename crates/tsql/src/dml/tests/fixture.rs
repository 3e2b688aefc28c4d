//! A host with one database, tables made by hand and one transaction, for the tests of this room.

use crate::access::TableAccess;
use crate::dml;
use crate::error::{Result, SqlError};
use crate::executor::{RowBatch, open, prepare_select};
use crate::host::*;
use daruma_base::{CancelFlag, DatabaseId};
use daruma_catalog::*;
use daruma_storage::*;
use daruma_syntax::ast::{Execute, ObjectName, Statement, StatementKind};
use daruma_syntax::{ParseOptions, parse_batch};
use daruma_value::{CollationId, DataType, Len, Value};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

pub const INT: DataType = DataType::Int;
pub const fn varchar(len: u16) -> DataType {
    DataType::VarChar(Len(len))
}

/// Rows a trigger saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Fired {
    pub table: String,
    pub action: TriggerAction,
    pub inserted: Vec<Vec<Value>>,
    pub deleted: Vec<Vec<Value>>,
    pub updated: Vec<i32>,
}

/// A host over a database in memory, without a session.
pub struct TestHost {
    pub engine: Arc<Engine>,
    pub disk: Arc<daruma_sim::SimDisk>,
    pub database: Arc<Database>,
    pub owner: Arc<Owner>,
    pub txn: RefCell<Txn>,
    pub tables: RefCell<Vec<TableRef>>,
    pub variables: RefCell<HashMap<String, (DataType, Value)>>,
    pub messages: RefCell<Vec<SqlError>>,
    pub triggers: RefCell<Vec<(String, TriggerAction)>>,
    pub fired: RefCell<Vec<Fired>>,
    pub identity_insert: RefCell<Option<String>>,
    pub last_identity: Cell<Option<i128>>,
    pub grant_bytes: Cell<usize>,
    pub exec_rows: RefCell<Vec<Vec<Value>>>,
    counters: RefCell<HashMap<(i32, &'static str), i128>>,
    next_object: Cell<i32>,
    cancel: CancelFlag,
    /// How often the cancel flag was looked at: once for so many rows of work.
    pub looks: Cell<u64>,
    /// How often bytes were drawn: each time others.
    draws: Cell<u64>,
}

/// A database to open sessions on, from any thread.
#[derive(Clone)]
pub struct Shared {
    pub engine: Arc<Engine>,
    disk: Arc<daruma_sim::SimDisk>,
    database: Arc<Database>,
    tables: Vec<TableRef>,
}

impl Shared {
    pub fn session(self, id: u64) -> TestHost {
        self.session_of(Owner::new(id, CancelFlag::new()))
    }

    pub fn session_of(self, owner: Arc<Owner>) -> TestHost {
        TestHost::over(self, owner)
    }
}

impl TestHost {
    pub fn new() -> TestHost {
        let disk = daruma_sim::SimDisk::new(1);
        let engine = Engine::new(
            daruma_sim::env(&disk, 1),
            EngineConfig {
                buffer_pool_pages: 4096,
                ..EngineConfig::default()
            },
        );
        let file = |id, filegroup, name: &str, size_pages| FileSpec {
            id,
            filegroup,
            logical_name: name.to_string(),
            path: PathBuf::from(format!("/data/{name}")),
            size_pages,
            growth: Growth::Pages(1024),
            max_pages: None,
        };
        let files = vec![
            file(1, 1, "test.mdf", 1024),
            file(2, 0, "test_log.ldf", 1024),
        ];
        let database = engine
            .create_database(DatabaseId(5), "test", files, Settings::default())
            .unwrap();
        Shared {
            engine,
            disk,
            database,
            tables: Vec::new(),
        }
        .session(1)
    }

    fn over(shared: Shared, owner: Arc<Owner>) -> TestHost {
        let Shared {
            engine,
            disk,
            database,
            tables,
        } = shared;
        let txn = RefCell::new(database.begin(&owner));
        TestHost {
            engine,
            disk,
            database,
            txn,
            tables: RefCell::new(tables),
            variables: RefCell::default(),
            messages: RefCell::default(),
            triggers: RefCell::default(),
            fired: RefCell::default(),
            identity_insert: RefCell::default(),
            last_identity: Cell::new(None),
            grant_bytes: Cell::new(64 << 20),
            exec_rows: RefCell::default(),
            counters: RefCell::default(),
            next_object: Cell::new(1000),
            cancel: owner.cancel.clone(),
            looks: Cell::new(0),
            draws: Cell::new(0),
            owner,
        }
    }

    /// What another session on the same database needs.
    pub fn shared(&self) -> Shared {
        Shared {
            engine: self.engine.clone(),
            disk: self.disk.clone(),
            database: self.database.clone(),
            tables: self.tables.borrow().clone(),
        }
    }

    pub fn table(&self, name: &str) -> TableRef {
        let found = self
            .tables
            .borrow()
            .iter()
            .find(|t| names_equal(&t.name, name))
            .cloned();
        found.unwrap_or_else(|| panic!("no table {name}"))
    }

    pub fn fresh_id(&self) -> i32 {
        self.next_object.set(self.next_object.get() + 1);
        self.next_object.get()
    }

    pub fn commit(&self) {
        self.txn.borrow().commit(Durability::Full).unwrap();
        self.engine.release_locks(&self.owner);
        *self.txn.borrow_mut() = self.database.begin(&self.owner);
    }

    /// Runs statements; each is atomic. Gives rows of OUTPUT or SELECT and the number of rows of the last one.
    pub fn run(&self, sql: &str) -> Result<(Vec<Vec<Value>>, u64)> {
        let batch =
            parse_batch(sql, &ParseOptions::default()).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        let mut last = (Vec::new(), 0);
        for statement in &batch {
            let savepoint = self.txn.borrow().savepoint();
            last = self
                .statement(statement)
                .inspect_err(|_| self.txn.borrow().rollback_to(savepoint).unwrap())?;
        }
        Ok(last)
    }

    /// The plan of one changing statement.
    pub fn plan(&self, sql: &str) -> Arc<dml::DmlPlan> {
        let batch = parse_batch(sql, &ParseOptions::default()).unwrap();
        match &batch[0].kind {
            StatementKind::Insert(insert) => dml::prepare_insert(insert, self).unwrap(),
            StatementKind::Update(update) => dml::prepare_update(update, self).unwrap(),
            StatementKind::Delete(delete) => dml::prepare_delete(delete, self).unwrap(),
            other => panic!("not a changing statement: {other:?}"),
        }
    }

    fn statement(&self, statement: &Statement) -> Result<(Vec<Vec<Value>>, u64)> {
        let plan = match &statement.kind {
            StatementKind::Insert(insert) => dml::prepare_insert(insert, self)?,
            StatementKind::Update(update) => dml::prepare_update(update, self)?,
            StatementKind::Delete(delete) => dml::prepare_delete(delete, self)?,
            StatementKind::Merge(merge) => dml::prepare_merge(merge, self)?,
            StatementKind::Select(query) => {
                let plan = prepare_select(query, self)?;
                let mut rows = Vec::new();
                let (mut stream, mut batch) = (open(&plan, self)?, RowBatch::new());
                while stream.next(&mut batch)? {
                    rows.extend(batch.rows().map(<[Value]>::to_vec));
                }
                let count = rows.len() as u64;
                return Ok((rows, count));
            }
            other => panic!("not a statement for this host: {other:?}"),
        };
        let mut rows = Vec::new();
        let mut take = |row: &[Value]| {
            rows.push(row.to_vec());
            Ok(())
        };
        let count = dml::execute(&plan, self, Some(&mut take))?;
        Ok((rows, count))
    }

    pub fn ok(&self, sql: &str) -> u64 {
        self.run(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).1
    }

    pub fn fails(&self, sql: &str) -> SqlError {
        match self.run(sql) {
            Err(error) => error,
            Ok(_) => panic!("{sql} should fail"),
        }
    }

    /// All stored rows in key order.
    pub fn rows(&self, name: &str) -> Vec<Vec<Value>> {
        let access = TableAccess::new(&self.table(name)).unwrap();
        self.payloads(access.tree(access.primary()).unwrap())
            .iter()
            .map(|payload| {
                let mut values = Vec::new();
                access.decode_row(payload, &mut values).unwrap();
                values
            })
            .collect()
    }

    /// Key columns of every entry of an index, in key order.
    pub fn index_keys(&self, name: &str, position: usize) -> Vec<Vec<Value>> {
        let access = TableAccess::new(&self.table(name)).unwrap();
        let index = access.index(position).unwrap();
        let payloads = self.payloads(access.tree(index).unwrap());
        let key = |payload: &Vec<u8>| {
            index
                .key
                .iter()
                .map(|k| access.column(index, payload, k.ordinal).unwrap())
                .collect()
        };
        payloads.iter().map(key).collect()
    }

    fn payloads(&self, tree: Arc<Tree>) -> Vec<Vec<u8>> {
        let view = self.txn.borrow().view(Isolation::Current);
        let mut scan = tree.scan(&view, ScanSpec::all());
        let (mut batch, mut out) = (Batch::new(), Vec::new());
        while scan.next(&mut batch).unwrap() {
            out.extend((0..batch.len()).map(|i| batch.payload(i).to_vec()));
        }
        out
    }

    fn count(&self, table: &TableRef, what: &'static str, start: i128, step: i128) -> i128 {
        let mut counters = self.counters.borrow_mut();
        let next = counters.entry((table.object_id, what)).or_insert(start);
        *next += step;
        *next - step
    }
}

/// Makes a table. The first index is the table itself.
pub struct TableBuilder {
    name: String,
    def: TableDef,
    indexes: Vec<(IndexKind, Vec<usize>, bool, Option<bool>)>,
}

impl TableBuilder {
    pub fn new(name: &str) -> TableBuilder {
        let def = TableDef {
            filegroup: 1,
            ansi_nulls: true,
            ..TableDef::default()
        };
        TableBuilder {
            name: name.to_string(),
            def,
            indexes: Vec::new(),
        }
    }

    pub fn column(mut self, name: &str, data_type: DataType, nullable: bool) -> TableBuilder {
        self.def.columns.push(ColumnDef {
            id: self.def.columns.len() as i32 + 1,
            name: name.to_string(),
            data_type,
            user_type_id: None,
            nullable,
            collation: CollationId::DEFAULT,
            default: None,
            computed: None,
            is_identity: false,
            is_rowguid: false,
            is_sparse: false,
            missing_value: None,
        });
        self
    }

    fn last(&mut self) -> &mut ColumnDef {
        self.def.columns.last_mut().unwrap()
    }

    pub fn default(mut self, definition: &str) -> TableBuilder {
        let name = format!("DF_{}", self.last().name);
        let definition = definition.to_string();
        self.last().default = Some(DefaultDef {
            id: 1,
            name,
            is_system_named: false,
            definition,
        });
        self
    }

    pub fn computed(mut self, definition: &str, persisted: bool) -> TableBuilder {
        self.last().computed = Some(ComputedDef {
            definition: definition.to_string(),
            persisted,
        });
        self
    }

    pub fn identity(mut self) -> TableBuilder {
        self.last().is_identity = true;
        let column_id = self.last().id;
        self.def.identity = Some(IdentityDef {
            column_id,
            seed: 1,
            increment: 1,
            not_for_replication: false,
        });
        self
    }

    pub fn check(mut self, name: &str, definition: &str, column_id: Option<i32>) -> TableBuilder {
        self.def.checks.push(CheckDef {
            id: 1,
            name: name.to_string(),
            is_system_named: false,
            definition: definition.to_string(),
            column_id,
            disabled: false,
            not_trusted: false,
        });
        self
    }

    /// Clustered primary key.
    pub fn primary(mut self, ordinals: &[usize]) -> TableBuilder {
        self.indexes.insert(
            0,
            (IndexKind::Clustered, ordinals.to_vec(), true, Some(true)),
        );
        self
    }

    /// Nonclustered index; `constraint` makes it a UNIQUE constraint.
    pub fn index(mut self, ordinals: &[usize], unique: bool, constraint: bool) -> TableBuilder {
        self.indexes.push((
            IndexKind::Nonclustered,
            ordinals.to_vec(),
            unique,
            constraint.then_some(false),
        ));
        self
    }

    pub fn foreign_key(
        mut self,
        name: &str,
        ordinals: &[usize],
        parent: &TableRef,
        referenced: &[usize],
        on_delete: ReferentialAction,
        on_update: ReferentialAction,
    ) -> TableBuilder {
        let referenced_columns: Vec<_> = referenced
            .iter()
            .map(|o| parent.def.columns[*o].id)
            .collect();
        let matches = |i: &&IndexDef| {
            i.unique
                && i.key
                    .iter()
                    .map(|k| k.column_id)
                    .eq(referenced_columns.iter().copied())
        };
        let referenced_index = parent
            .def
            .indexes
            .iter()
            .find(matches)
            .map(|i| i.id)
            .unwrap();
        self.def.foreign_keys.push(ForeignKeyDef {
            id: 1,
            name: name.to_string(),
            is_system_named: false,
            columns: ordinals.iter().map(|o| self.def.columns[*o].id).collect(),
            referenced_table: parent.object_id,
            referenced_columns,
            referenced_index,
            on_delete,
            on_update,
            disabled: false,
            not_trusted: false,
        });
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut TableDef)) -> TableBuilder {
        change(&mut self.def);
        self
    }

    pub fn definition(self) -> TableDef {
        self.def
    }

    /// Creates the table with its trees.
    pub fn create(mut self, host: &TestHost) -> TableRef {
        if !matches!(self.indexes.first(), Some((IndexKind::Clustered, ..))) {
            self.indexes
                .insert(0, (IndexKind::Heap, Vec::new(), false, None));
        }
        let txn = host.txn.borrow().clone();
        for (n, (kind, ordinals, unique, constraint)) in self.indexes.iter().enumerate() {
            let prefix = match (kind, constraint) {
                (IndexKind::Clustered, _) => "PK",
                (_, Some(_)) => "UQ",
                _ => "IX",
            };
            let key = ordinals.iter().map(|o| IndexColumn {
                column_id: self.def.columns[*o].id,
                descending: false,
            });
            let position = self.def.indexes.len();
            self.def.indexes.insert(
                position,
                IndexDef {
                    id: if *kind == IndexKind::Heap {
                        0
                    } else {
                        n as i32 + 1
                    },
                    name: Some(format!("{prefix}_{}_{n}", self.name)),
                    kind: *kind,
                    tree: host.database.create_tree(&txn, 1).unwrap(),
                    unique: *unique,
                    constraint: constraint.map(|is_primary_key| KeyConstraintDef {
                        id: 1,
                        is_primary_key,
                        is_system_named: false,
                    }),
                    key: key.collect(),
                    included: Vec::new(),
                    filter: None,
                    fill_factor: 0,
                    ignore_dup_key: false,
                    disabled: false,
                    filegroup: 1,
                },
            );
        }
        let table = TableRef {
            database: host.database.clone(),
            object_id: host.fresh_id(),
            schema_name: "dbo".to_string(),
            name: self.name,
            def: Arc::new(self.def),
            kind: TableKind::User,
            table_type: None,
        };
        host.tables.borrow_mut().push(table.clone());
        host.commit();
        table
    }
}

/// Changes the definition of a table, as ALTER would.
pub fn alter(host: &TestHost, name: &str, change: impl FnOnce(&mut TableDef)) {
    let mut tables = host.tables.borrow_mut();
    let table = tables
        .iter_mut()
        .find(|t| names_equal(&t.name, name))
        .unwrap();
    let mut def = TableDef::clone(&table.def);
    change(&mut def);
    table.def = Arc::new(def);
}

impl Host for TestHost {
    fn current_database(&self) -> DatabaseId {
        self.database.id()
    }
    fn settings(&self) -> SessionSettings {
        SessionSettings {
            ansi_nulls: true,
            ansi_padding: true,
            ansi_warnings: true,
            ansi_null_dflt_on: true,
            arithabort: true,
            concat_null_yields_null: true,
            quoted_identifier: true,
            nocount: false,
            xact_abort: false,
            implicit_transactions: false,
            numeric_roundabort: false,
            cursor_close_on_commit: None,
            fmtonly: false,
            noexec: false,
            parseonly: false,
            showplan: Showplan::Off,
            statistics_io: false,
            statistics_time: false,
            statistics_xml: false,
            statistics_profile: false,
            rowcount: 0,
            textsize: -1,
            datefirst: 7,
            dateformat: daruma_value::temporal::DateFormat::Mdy,
            language: "us_english",
            lock_timeout_ms: -1,
            deadlock_priority: 0,
            isolation: IsolationLevel::ReadCommitted,
        }
    }
    fn cancel(&self) -> &CancelFlag {
        self.looks.set(self.looks.get() + 1);
        &self.cancel
    }
    fn resolve(&self, name: &ObjectName) -> Result<Resolved> {
        let found = self
            .tables
            .borrow()
            .iter()
            .find(|t| names_equal(&t.name, &name.name.text))
            .cloned();
        found
            .map(Resolved::Table)
            .ok_or_else(|| dml::errors::invalid_object(&name.dotted()))
    }
    fn resolve_in(&self, _: DatabaseId, name: &ObjectName) -> Result<Resolved> {
        self.resolve(name)
    }
    fn table_by_id(&self, _: DatabaseId, object_id: i32) -> Result<TableRef> {
        let found = self
            .tables
            .borrow()
            .iter()
            .find(|t| t.object_id == object_id)
            .cloned();
        found.ok_or_else(|| dml::errors::invalid_object("table"))
    }
    fn catalog_version(&self) -> u64 {
        1
    }
    fn resolve_type(
        &self,
        _: Option<&str>,
        name: &str,
        arguments: &[i64],
    ) -> Result<(DataType, Option<bool>, Option<i32>)> {
        let len = arguments.first().map_or(Len(30), |n| Len(*n as u16));
        let data_type = match name.to_ascii_lowercase().as_str() {
            "int" => INT,
            "bigint" => DataType::BigInt,
            "varchar" => DataType::VarChar(len),
            "nvarchar" => DataType::NVarChar(len),
            "money" => DataType::Money,
            "float" => DataType::Float,
            "decimal" => DataType::Decimal {
                precision: arguments.first().map_or(18, |n| *n as u8),
                scale: arguments.get(1).map_or(0, |n| *n as u8),
            },
            other => panic!("no type {other}"),
        };
        Ok((data_type, None, None))
    }
    fn system_function_type(&self, _: &str) -> Option<DataType> {
        None
    }
    fn system_function(&self, name: &str, _: &[Value]) -> Result<Value> {
        Err(dml::errors::not_supported(name))
    }
    fn variable_type(&self, name: &str) -> Option<VariableType> {
        if let Some((data_type, _)) = self.variables.borrow().get(name) {
            return Some(VariableType::Scalar(*data_type));
        }
        self.tables
            .borrow()
            .iter()
            .find(|t| t.name == name)
            .cloned()
            .map(VariableType::Table)
    }
    fn variable(&self, name: &str) -> Result<Value> {
        Ok(self
            .variables
            .borrow()
            .get(name)
            .map_or(Value::Null, |(_, value)| value.clone()))
    }
    fn set_variable(&self, name: &str, value: Value) -> Result<()> {
        if let Some((_, held)) = self.variables.borrow_mut().get_mut(name) {
            *held = value;
        }
        Ok(())
    }
    fn txn(&self, _: &Arc<Database>) -> Result<Txn> {
        Ok(self.txn.borrow().clone())
    }
    fn view(&self, _: &TableRef, access: Access) -> Result<ReadView> {
        let isolation = match access {
            Access::Read(_) => Isolation::ReadCommittedSnapshot,
            Access::Target | Access::HintedTarget(_) => Isolation::Update,
            Access::Constraint => Isolation::ReadCommitted,
        };
        Ok(self.txn.borrow().view(isolation))
    }
    fn begin_write(&self, _: &TableRef) -> Result<Txn> {
        Ok(self.txn.borrow().clone())
    }
    fn next_identity(&self, table: &TableRef) -> Result<i128> {
        Ok(self.count(table, "identity", 1, 1))
    }
    fn note_identity(&self, table: &TableRef, value: i128) -> Result<()> {
        let next = self.count(table, "identity", 1, 0);
        self.counters
            .borrow_mut()
            .insert((table.object_id, "identity"), next.max(value + 1));
        Ok(())
    }
    fn identity_insert(&self, table: &TableRef) -> bool {
        self.identity_insert.borrow().as_deref() == Some(table.name.as_str())
    }
    fn set_last_identity(&self, value: i128) {
        self.last_identity.set(Some(value));
    }
    fn next_sequence_value(&self, name: &ObjectName) -> Result<Value> {
        Err(dml::errors::not_supported(&name.dotted()))
    }
    fn next_rowversion(&self, _: &Arc<Database>) -> Result<u64> {
        let mut counters = self.counters.borrow_mut();
        let next = counters.entry((0, "rowversion")).or_insert(0);
        *next += 1;
        Ok(*next as u64)
    }
    fn next_row_number(&self, table: &TableRef) -> Result<u64> {
        Ok(self.count(table, "row", 1, 1) as u64)
    }
    fn fire_triggers(
        &self,
        table: &TableRef,
        action: TriggerAction,
        images: Images,
        updated_columns: &[i32],
        _rows: u64,
    ) -> Result<()> {
        self.fired.borrow_mut().push(Fired {
            table: table.name.clone(),
            action,
            inserted: images.inserted.all()?,
            deleted: images.deleted.all()?,
            updated: updated_columns.to_vec(),
        });
        Ok(())
    }
    fn has_triggers(&self, table: &TableRef, action: TriggerAction) -> bool {
        self.triggers
            .borrow()
            .contains(&(table.name.clone(), action))
    }
    fn referencing(&self, table: &TableRef) -> Result<Vec<(TableRef, usize)>> {
        let mut found = Vec::new();
        for child in self.tables.borrow().iter() {
            let keys = child.def.foreign_keys.iter().enumerate();
            found.extend(
                keys.filter(|(_, k)| k.referenced_table == table.object_id)
                    .map(|(i, _)| (child.clone(), i)),
            );
        }
        Ok(found)
    }
    fn execute_for_rows(
        &self,
        _: &Execute,
        row: &mut dyn FnMut(&[Value]) -> Result<()>,
    ) -> Result<()> {
        self.exec_rows.borrow().iter().try_for_each(|r| row(r))
    }
    fn message(&self, message: SqlError) {
        self.messages.borrow_mut().push(message);
    }
    fn count_scan(&self, _: &TableRef, _: u64, _: u64) {}
    fn now(&self) -> (i64, i16) {
        (17_000_000_000_000_000, 0)
    }
    fn random(&self, _: Option<i32>) -> f64 {
        0.5
    }
    fn random_bytes(&self, buf: &mut [u8]) {
        self.draws.set(self.draws.get() + 1);
        let drawn = self.draws.get().to_le_bytes().into_iter().cycle();
        buf.iter_mut()
            .zip(drawn)
            .for_each(|(place, byte)| *place = byte);
    }
    fn memory_grant_bytes(&self) -> usize {
        self.grant_bytes.get()
    }
    fn spill(&self) -> Result<SpillSpace> {
        Ok(SpillSpace {
            disk: self.disk.clone(),
            directory: PathBuf::from("/spill"),
            id: self.fresh_id() as u64,
        })
    }
}
