//! `Catalog`: the stored definitions of one open database, and the server's own rows in master.

use crate::alone::Alone;
use crate::change::{Change, Put};
use crate::counters::{CounterId, Counters, Pace, Reached, key_of};
use crate::error::{CatalogError, Result};
use crate::group::ServerRow;
use crate::model::*;
use crate::property::PropertyClass;
use crate::rows;
use crate::server::DatabaseDef;
use crate::snapshot::DatabaseCatalog;
use crate::statistics::{self, StatisticsMap, TableStatistics};
use daruma_base::{CancelFlag, Lsn};
use daruma_storage::{
    BlobRef, Database, Durability, Isolation, LockMode, LockResource, ReadView, Txn,
};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Distance between successive object ids; they spread over the positive 32-bit numbers.
const OBJECT_ID_STEP: i32 = 16_000_057;

/// The catalog of one database.
pub struct Catalog {
    db: Arc<Database>,
    current: RwLock<Arc<DatabaseCatalog>>,
    /// Serialises publishing, so that versions are published in order.
    publishing: Mutex<()>,
    counters: Counters,
    statistics: StatisticsMap,
    /// On a secondary: which of another node's changes it has.
    as_of: AtomicU64,
    /// On a secondary: a digest of the definitions that it has.
    print: AtomicU64,
}

/// How long a change outside of any session waits for a session's lock, in ms.
const ALONE_WAIT_MS: i64 = 5_000;

impl Catalog {
    /// Writes the rows that every database has and opens the catalog.
    pub fn create(db: &Arc<Database>) -> Result<Catalog> {
        in_transaction(db, |txn| {
            fixed_schemas()
                .iter()
                .try_for_each(|s| rows::put(txn, &rows::id_key(rows::KIND_SCHEMA, s.id), s))
        })?;
        Catalog::open(db)
    }

    /// Loads all definitions.
    pub fn open(db: &Arc<Database>) -> Result<Catalog> {
        // Before they are read: what is changed later is read again.
        let (print, as_of) = match db.is_secondary() {
            true => rows::fingerprint(db)?,
            false => (0, Lsn::NONE),
        };
        let (mut snapshot, statistics) = load(db)?;
        snapshot.set_version(1);
        Ok(Catalog {
            counters: Counters::load(db.clone())?,
            db: db.clone(),
            current: RwLock::new(Arc::new(snapshot)),
            publishing: Mutex::new(()),
            statistics,
            as_of: AtomicU64::new(as_of.0),
            print: AtomicU64::new(print),
        })
    }

    /// On a secondary: reads the definitions again when redo has shown others since, and calls `changed` before anybody takes them for
    /// those that he knew.
    ///
    /// # Errors
    /// When they cannot be read: then those of before stay until the next call.
    pub fn follow(&self, changed: impl FnOnce()) -> Result<()> {
        let is_behind = || self.db.definitions_position().0 > self.as_of.load(Ordering::Acquire);
        if !is_behind() {
            return Ok(());
        }
        let _publishing = self.publishing.lock();
        if !is_behind() {
            return Ok(());
        }
        // Most of what changes is counters, which are no definitions.
        let (print, as_of) = rows::fingerprint(&self.db)?;
        if self.print.load(Ordering::Acquire) != print {
            let (mut snapshot, _) = load(&self.db)?;
            let mut current = self.current.write();
            snapshot.set_version(current.version() + 1);
            *current = Arc::new(snapshot);
            drop(current);
            self.print.store(print, Ordering::Release);
            changed();
        }
        self.as_of.store(as_of.0, Ordering::Release);
        Ok(())
    }

    /// The database whose catalog this is.
    pub fn database(&self) -> &Arc<Database> {
        &self.db
    }

    /// The newest committed snapshot.
    pub fn current(&self) -> Arc<DatabaseCatalog> {
        self.current.read().clone()
    }

    /// Writes a change into the catalog tree, as part of `txn`.
    pub fn write(&self, txn: &Txn, change: &Change) -> Result<()> {
        if let Some((class, major)) = change.ends_properties() {
            rows::delete(txn, &rows::properties_key(class.number(), major))?;
        }
        match change {
            Change::PutSchema(s) => rows::put(txn, &rows::id_key(rows::KIND_SCHEMA, s.id), &**s),
            Change::DropSchema(id) => rows::delete(txn, &rows::id_key(rows::KIND_SCHEMA, *id)),
            Change::PutObject(o) => rows::put(txn, &rows::id_key(rows::KIND_OBJECT, o.id), &**o),
            Change::DropObject(object) => self.delete_object(txn, object.id),
            Change::PutType(t) => rows::put(txn, &rows::id_key(rows::KIND_TYPE, t.id), &**t),
            Change::DropType(id) => rows::delete(txn, &rows::id_key(rows::KIND_TYPE, *id)),
            Change::PutDdlTrigger(t) => {
                rows::put(txn, &rows::id_key(rows::KIND_DDL_TRIGGER, t.id), &**t)
            }
            Change::DropDdlTrigger(t) => {
                rows::delete(txn, &rows::id_key(rows::KIND_DDL_TRIGGER, t.id))
            }
            Change::PutPrincipal(p) => {
                rows::put(txn, &rows::id_key(rows::KIND_PRINCIPAL, p.id), &**p)
            }
            Change::DropPrincipal(id) => {
                rows::delete(txn, &rows::id_key(rows::KIND_PRINCIPAL, *id))
            }
            Change::PutPermissions(set) => {
                let key = rows::id_key(rows::KIND_PERMISSIONS, set.grantee);
                match set.list.is_empty() {
                    true => rows::delete(txn, &key),
                    false => rows::put(txn, &key, &**set),
                }
            }
            Change::PutMessages(set) => {
                let key = rows::id_key(rows::KIND_MESSAGES, set.number);
                match set.list.is_empty() {
                    true => rows::delete(txn, &key),
                    false => rows::put(txn, &key, &**set),
                }
            }
            Change::PutLogin(l) => rows::put(txn, &rows::id_key(rows::KIND_LOGIN, l.id), &**l),
            Change::DropLogin(id) => rows::delete(txn, &rows::id_key(rows::KIND_LOGIN, *id)),
            Change::PutProperties(set) => {
                let key = rows::properties_key(set.class.number(), set.major);
                match set.list.is_empty() {
                    true => rows::delete(txn, &key),
                    false => rows::put(txn, &key, &**set),
                }
            }
        }
    }

    /// Makes committed changes visible to everybody. Called after the commit, while the transaction still holds its
    /// locks on the changed objects.
    pub fn publish(&self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        let _one_at_a_time = self.publishing.lock();
        let mut next = (*self.current()).clone();
        for change in changes {
            next.apply(change);
            if let Change::DropObject(object) = change {
                self.statistics.forget(object.id);
                for counter in counters_of(object.id) {
                    self.counters.forget(counter);
                }
            }
        }
        next.set_version(next.version() + 1);
        *self.current.write() = Arc::new(next);
    }

    /// Makes the change that `decide` makes of the definitions as they are, in a transaction of its own, which is durable and
    /// published on return. It waits for whoever has `resource`, as those do who change what it stands for in a transaction: the error
    /// of a lock timeout after `ALONE_WAIT_MS`.
    pub fn change_alone<E: From<CatalogError>>(
        &self,
        resource: &LockResource,
        decide: impl FnOnce(&Arc<DatabaseCatalog>) -> std::result::Result<Change, E>,
    ) -> std::result::Result<(), E> {
        let waiter = Alone::waiting(&self.db, ALONE_WAIT_MS);
        self.db
            .lock(waiter.owner(), resource.clone(), LockMode::Exclusive)
            .map_err(CatalogError::from)?;
        let change = decide(&self.current())?;
        self.change(|txn| self.write(txn, &change))?;
        self.publish(&[change]);
        Ok(())
    }

    /// A new id for an object or constraint. `taken` tells ids in use that are not yet committed.
    pub fn allocate_object_id(
        &self,
        cancel: &CancelFlag,
        taken: impl Fn(ObjectId) -> bool,
    ) -> Result<ObjectId> {
        let current = self.current();
        let free = |last: Option<i128>| {
            let mut id = last.map_or(FIRST_USER_OBJECT_ID, |last| {
                next_object_id(last as ObjectId)
            });
            while current.id_in_use(id) || taken(id) {
                id = next_object_id(id);
            }
            Ok::<i128, CatalogError>(i128::from(id))
        };
        Ok(self
            .counters
            .advance(CounterId::ObjectId, Pace::OBJECT_IDS, cancel, free)?
            .0 as ObjectId)
    }

    /// Last value of a counter, if any was given out.
    pub fn last_value(&self, id: CounterId) -> Option<i128> {
        let reached = self.counters.reached(id).filter(|r| r.is_given);
        reached.map(|r| r.last)
    }

    /// How far a counter is; `None` where no value was given out, nor the first one named.
    pub fn reached(&self, id: CounterId) -> Option<Reached> {
        self.counters.reached(id)
    }

    /// Gives out the value that `next` computes from the last one; errors of `next` change nothing. Where another transaction has the
    /// counter's row it waits until `cancel`, and asks `next` again.
    pub fn next_value<E: From<CatalogError>>(
        &self,
        id: CounterId,
        pace: Pace,
        cancel: &CancelFlag,
        next: impl FnMut(Option<i128>) -> std::result::Result<i128, E>,
    ) -> std::result::Result<i128, E> {
        Ok(self.counters.advance(id, pace, cancel, next)?.0)
    }

    /// As `next_value`, of a sequence. After a crash it may give the value again unless the log is hard up to the position, if there is
    /// one, before the value is used outside of this database ([`Database::harden_within`]).
    pub fn next_in_sequence<E: From<CatalogError>>(
        &self,
        id: ObjectId,
        def: &SequenceDef,
        cancel: &CancelFlag,
        next: impl FnMut(Option<i128>) -> std::result::Result<i128, E>,
    ) -> std::result::Result<(i128, Option<Lsn>), E> {
        let id = CounterId::Sequence(id);
        self.counters.advance(id, def.into(), cancel, next)
    }

    /// Next of a counter that starts at 1 and steps by 1: row numbers, row versions.
    pub fn next_number(&self, id: CounterId, cancel: &CancelFlag) -> Result<u64> {
        let next = |last: Option<i128>| Ok::<i128, CatalogError>(last.unwrap_or(0) + 1);
        Ok(self.counters.advance(id, Pace::NUMBERS, cancel, next)?.0 as u64)
    }

    /// Sets what `reached` answers, within a transaction that alone uses the counter: RESEED, RESTART, TRUNCATE. [`Catalog::keep_reached`]
    /// makes it part of its commit; a crash before that brings back what was stored before.
    pub fn set_reached(&self, id: CounterId, reached: Option<Reached>) {
        self.counters.set(id, reached);
    }

    /// The transaction has taken that back, and has not set it before.
    pub fn take_reached_back(&self, id: CounterId, reached: Option<Reached>) {
        self.counters.take_back(id, reached);
    }

    /// Makes what was set a part of the transaction that has set it, right before its commit.
    pub fn keep_reached(&self, txn: &Txn, id: CounterId) -> Result<()> {
        self.counters.keep(txn, id)
    }

    /// That commit is done.
    pub fn reached_is_kept(&self, id: CounterId) {
        self.counters.is_kept(id);
    }

    /// Values of definitions that are too long for a page, as `view` sees them: for a check of all pages.
    pub fn blobs(&self, view: &ReadView, each: &mut dyn FnMut(BlobRef)) -> Result<()> {
        rows::blobs(&self.db, view, each)
    }

    /// Writes exact counter values: before a clean close.
    pub fn save_counters(&self) -> Result<()> {
        self.counters.save()
    }

    fn delete_object(&self, txn: &Txn, id: ObjectId) -> Result<()> {
        rows::delete(txn, &rows::id_key(rows::KIND_OBJECT, id))?;
        rows::delete(txn, &statistics::key(id))?;
        for class in PropertyClass::OF_OBJECT {
            rows::delete(txn, &rows::properties_key(class.number(), id))?;
        }
        counters_of(id)
            .iter()
            .try_for_each(|counter| rows::delete(txn, &key_of(*counter)))
    }
}

/// Statistics, which no transaction waits for.
impl Catalog {
    /// Statistics of a table's columns; `None` before anybody asked for them.
    pub fn statistics(&self, table: ObjectId) -> Option<Arc<TableStatistics>> {
        self.statistics.get(table)
    }

    /// Changes what is known of a table, which nobody else changes meanwhile. It counts from now on, even if it cannot be stored (the
    /// error says why); an error of `change` changes nothing.
    pub fn change_statistics<E: From<CatalogError>>(
        &self,
        table: ObjectId,
        change: impl FnOnce(&mut TableStatistics) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let _alone = self.statistics.change_alone();
        let known = self.statistics.get(table);
        let mut known = known.map_or_else(TableStatistics::default, |t| (*t).clone());
        known.object_id = table;
        change(&mut known)?;
        self.statistics.put(known.clone());
        Ok(self.store_statistics(&known)?)
    }

    fn store_statistics(&self, table: &TableStatistics) -> Result<()> {
        let write = |txn: &Txn| statistics::write(txn, table);
        Alone::new(&self.db).run(write, |txn| txn.commit(Durability::Delayed))
    }

    /// Reads rows as they are now, without waiting for anybody.
    pub fn read_now<T, E: From<CatalogError>>(
        &self,
        work: impl FnOnce(&ReadView) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let alone = Alone::new(&self.db);
        let txn = alone.begin();
        let outcome = work(&txn.view(Isolation::ReadUncommitted));
        txn.commit(Durability::Delayed)
            .map_err(CatalogError::from)?;
        outcome
    }
}

/// Server-level rows. Only the catalog of master has them.
impl Catalog {
    /// Definitions of all databases (master only).
    pub fn databases(&self) -> Result<Vec<DatabaseDef>> {
        self.read(rows::KIND_DATABASE)
    }

    /// Stores a database's definition in a transaction of its own; it is durable on return.
    pub fn put_database(&self, def: &DatabaseDef) -> Result<()> {
        let key = rows::id_key(rows::KIND_DATABASE, i32::from(def.id));
        self.change(|txn| rows::put(txn, &key, def))
    }

    /// Removes a database's definition in a transaction of its own; it is durable on return.
    pub fn delete_database(&self, id: u16) -> Result<()> {
        let key = rows::id_key(rows::KIND_DATABASE, i32::from(id));
        self.change(|txn| rows::delete(txn, &key))
    }

    /// All rows of a kind (master only).
    pub fn server_rows<T: ServerRow>(&self) -> Result<Vec<T>> {
        self.read(T::KIND)
    }

    /// Stores a row in a transaction of its own; it is durable on return.
    pub fn put_server_row<T: ServerRow>(&self, row: &T) -> Result<()> {
        let key = rows::id_key(T::KIND, row.id());
        self.change(|txn| rows::put(txn, &key, row))
    }

    /// Removes a row in a transaction of its own; it is durable on return.
    pub fn delete_server_row<T: ServerRow>(&self, id: i32) -> Result<()> {
        let key = rows::id_key(T::KIND, id);
        self.change(|txn| rows::delete(txn, &key))
    }

    /// Configured values of server options that differ from their defaults, by name.
    pub fn configuration(&self) -> Result<BTreeMap<String, i64>> {
        let rows: Vec<(String, i64)> = self.read(rows::KIND_CONFIGURATION)?;
        Ok(rows.into_iter().collect())
    }

    /// Stores a server option's value in a transaction of its own; it is durable on return.
    pub fn put_configuration(&self, name: &str, value: i64) -> Result<()> {
        let key = rows::name_row_key(rows::KIND_CONFIGURATION, name);
        self.change(|txn| rows::put(txn, &key, &(name, value)))
    }

    /// A mark set once: "bootstrap is complete".
    pub fn has_mark(&self, name: &str) -> Result<bool> {
        let marks: Vec<String> = self.read(rows::KIND_MARK)?;
        Ok(marks.iter().any(|m| m == name))
    }

    /// Notes that something was done once for all; it is durable on return.
    pub fn put_mark(&self, name: &str) -> Result<()> {
        let key = rows::name_row_key(rows::KIND_MARK, name);
        self.change(|txn| rows::put(txn, &key, &name))
    }

    fn read<T: serde::de::DeserializeOwned>(&self, kind: u8) -> Result<Vec<T>> {
        let alone = Alone::new(&self.db);
        let txn = alone.begin();
        let rows = rows::read_all(&txn, kind);
        txn.commit(Durability::Delayed)?;
        Ok(rows?.into_iter().map(|(_, value)| value).collect())
    }

    fn change(&self, work: impl FnOnce(&Txn) -> Result<()>) -> Result<()> {
        in_transaction(&self.db, work)
    }
}

/// Durable on return.
fn in_transaction(db: &Arc<Database>, work: impl FnOnce(&Txn) -> Result<()>) -> Result<()> {
    Alone::new(db).run(work, |txn| txn.commit(Durability::Full))
}

fn next_object_id(id: ObjectId) -> ObjectId {
    match id.checked_add(OBJECT_ID_STEP) {
        Some(next) => next,
        // Back to the low end, with an offset so that the second round meets other ids than the first.
        None => (i64::from(id) + i64::from(OBJECT_ID_STEP) - i64::from(i32::MAX)) as ObjectId,
    }
}

fn counters_of(id: ObjectId) -> [CounterId; 3] {
    [
        CounterId::Identity(id),
        CounterId::Sequence(id),
        CounterId::RowNumber(id),
    ]
}

fn fixed_schemas() -> Vec<SchemaDef> {
    let fixed = [
        (SCHEMA_DBO, "dbo", 1),
        (SCHEMA_GUEST, "guest", 2),
        (SCHEMA_INFORMATION_SCHEMA, "INFORMATION_SCHEMA", 3),
        (SCHEMA_SYS, "sys", 4),
        (16_384, "db_owner", 16_384),
        (16_385, "db_accessadmin", 16_385),
        (16_386, "db_securityadmin", 16_386),
        (16_387, "db_ddladmin", 16_387),
        (16_389, "db_backupoperator", 16_389),
        (16_390, "db_datareader", 16_390),
        (16_391, "db_datawriter", 16_391),
        (16_392, "db_denydatareader", 16_392),
        (16_393, "db_denydatawriter", 16_393),
    ];
    let make = |(id, name, principal_id): (SchemaId, &str, i32)| SchemaDef {
        id,
        name: name.to_string(),
        principal_id,
    };
    fixed.into_iter().map(make).collect()
}

/// All definitions, of one moment, and the statistics.
fn load(db: &Arc<Database>) -> Result<(DatabaseCatalog, StatisticsMap)> {
    let alone = Alone::new(db);
    let txn = alone.begin();
    let mut snapshot = DatabaseCatalog::default();
    for (_, schema) in rows::read_all::<SchemaDef>(&txn, rows::KIND_SCHEMA)? {
        snapshot.apply(&Change::PutSchema(Put::new(schema)));
    }
    for (_, def) in rows::read_all::<TypeDef>(&txn, rows::KIND_TYPE)? {
        snapshot.apply(&Change::PutType(Put::new(def)));
    }
    for (_, object) in rows::read_all::<Object>(&txn, rows::KIND_OBJECT)? {
        snapshot.apply(&Change::PutObject(Put::new(object)));
    }
    for (_, trigger) in rows::read_all(&txn, rows::KIND_DDL_TRIGGER)? {
        snapshot.apply(&Change::PutDdlTrigger(Put::new(trigger)));
    }
    for (_, principal) in rows::read_all(&txn, rows::KIND_PRINCIPAL)? {
        snapshot.apply(&Change::PutPrincipal(Put::new(principal)));
    }
    let known = rows::read_all::<TableStatistics>(&txn, rows::KIND_STATISTICS)?;
    let known = known.into_iter().map(|(_, table)| table);
    let known = known.filter(|t| snapshot.object(t.object_id).is_some());
    let statistics = StatisticsMap::load(known.collect());
    for (_, set) in rows::read_all(&txn, rows::KIND_PERMISSIONS)? {
        snapshot.apply(&Change::PutPermissions(Put::new(set)));
    }
    for (_, set) in rows::read_all(&txn, rows::KIND_PROPERTIES)? {
        snapshot.apply(&Change::PutProperties(Put::new(set)));
    }
    for (_, set) in rows::read_all(&txn, rows::KIND_MESSAGES)? {
        snapshot.apply(&Change::PutMessages(Put::new(set)));
    }
    for (_, login) in rows::read_all(&txn, rows::KIND_LOGIN)? {
        snapshot.apply(&Change::PutLogin(Put::new(login)));
    }
    txn.commit(Durability::Delayed)?;
    Ok((snapshot, statistics))
}
