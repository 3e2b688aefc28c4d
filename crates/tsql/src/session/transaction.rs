//! The session's transaction: one storage transaction for each database it touches, with uncommitted definitions.
//!
//! Theory: every statement runs in a transaction; without BEGIN TRANSACTION it is one of its own (autocommit). A mark
//! taken at the start of a statement names a savepoint in each part, so that a failing statement takes back exactly
//! what it did. Parts that wrote in several databases commit as one (`commit_together`), the others one after the other,
//! the current database last; definitions become visible right after the commit and before any lock is released.
//!
//! States (trancount, doomed)
//! | state | entered by | left by |
//! |---|---|---|
//! | none | start | statement, BEGIN |
//! | autocommit | statement | end of statement |
//! | open | BEGIN, implicit transaction | COMMIT at 1, ROLLBACK |
//! | doomed | error that dooms, inside TRY | ROLLBACK, end of batch (3998) |

use super::SessionState;
use super::definition_locks::locks_of;
use super::temp::TempUndo;
use super::unhard::Lateness;
use crate::error::{Result, SqlError};
use crate::host::{IsolationLevel, TableRef};
use crate::instance::OpenDatabase;
use crate::instance::hadr::Availability;
use crate::messages;
use daruma_base::DatabaseId;
use daruma_catalog::{
    CatalogDelta, Change, CounterId, DatabaseCatalog, FilegroupDef, TableDef, names_equal,
};
use daruma_storage::{DelayedDurability, Durability, Savepoint, Txn, commit_together};
use std::sync::Arc;

/// The transaction's part in one database.
pub(crate) struct Part {
    pub open: OpenDatabase,
    pub txn: Txn,
    pub start: Savepoint,
    pub delta: Option<CatalogDelta>,
}

impl Part {
    fn is_temporary(&self) -> bool {
        self.open.storage.id() == crate::instance::TEMPDB
    }

    fn has_changed_definitions(&self) -> bool {
        self.delta.as_ref().is_some_and(|d| d.position() > 0)
    }

    /// Does the commit of this part wait for the disk? What COMMIT asks for counts where the database allows it.
    fn durability(&self, may_be_delayed: bool, asked: bool) -> Durability {
        let storage = &self.open.storage;
        if self.is_temporary() {
            return Durability::Delayed;
        }
        let is_system = storage.id() <= crate::instance::MSDB;
        if is_system || !may_be_delayed {
            return Durability::Full;
        }
        match storage.settings().delayed_durability {
            DelayedDurability::Forced => Durability::Delayed,
            DelayedDurability::Allowed if asked => Durability::Delayed,
            DelayedDurability::Allowed | DelayedDurability::Disabled => Durability::Full,
        }
    }
}

/// Position in all parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mark {
    /// The transaction, if there was one.
    transaction: Option<u64>,
    parts: Vec<(DatabaseId, Savepoint, usize)>,
    temp: usize,
}

pub(crate) struct Transaction {
    /// Descriptor that clients repeat.
    pub id: u64,
    pub autocommit: bool,
    pub name: Option<String>,
    pub parts: Vec<Part>,
    pub savepoints: Vec<(String, Mark)>,
    pub doomed: bool,
    pub begun_utc: i64,
    pub temp_undo: Vec<TempUndo>,
    pub isolation: IsolationLevel,
}

impl Transaction {
    /// The part of the transaction in one database, if it has touched it.
    pub fn part(&self, database: DatabaseId) -> Option<&Part> {
        self.parts.iter().find(|p| p.open.storage.id() == database)
    }

    fn part_mut(&mut self, database: DatabaseId) -> Option<&mut Part> {
        self.parts
            .iter_mut()
            .find(|p| p.open.storage.id() == database)
    }

    /// A definition must not vanish after others have used it.
    fn may_be_delayed(&self) -> bool {
        let mut lasting = self.parts.iter().filter(|p| !p.is_temporary());
        !lasting.any(Part::has_changed_definitions)
    }

    /// Will the commit of what is done so far, of a statement on its own, wait until it is on the disk of this database?
    fn will_harden(&self, database: DatabaseId, delayed: bool) -> bool {
        let part = self.part(database).filter(|p| p.txn.has_written());
        let may_be_delayed = self.may_be_delayed();
        part.is_some_and(|p| p.durability(may_be_delayed, delayed) == Durability::Full)
    }

    /// Writes in databases that outlive the server.
    fn written(&self) -> Vec<Txn> {
        let lasting = self.parts.iter().filter(|p| !p.is_temporary());
        let written = lasting.filter(|p| p.txn.has_written());
        written.map(|p| p.txn.clone()).collect()
    }

    /// A mark for the statement that begins now.
    fn mark(&self) -> Mark {
        self.mark_by(Txn::savepoint)
    }

    fn mark_by(&self, savepoint: fn(&Txn) -> Savepoint) -> Mark {
        let position = |p: &Part| {
            let changes = p.delta.as_ref().map_or(0, CatalogDelta::position);
            (p.open.storage.id(), savepoint(&p.txn), changes)
        };
        Mark {
            transaction: Some(self.id),
            parts: self.parts.iter().map(position).collect(),
            temp: self.temp_undo.len(),
        }
    }
}

impl SessionState {
    /// Makes sure that a transaction is there; true when this call began an autocommit one.
    pub(crate) fn ensure_transaction(&self) -> bool {
        if self.transaction.borrow().is_some() {
            return false;
        }
        self.start_transaction(true, None);
        true
    }

    fn start_transaction(&self, autocommit: bool, name: Option<String>) {
        self.settle();
        let id = self.instance.unique_number();
        let begun_utc = self.instance.now_utc();
        let isolation = self.settings.borrow().isolation;
        *self.transaction.borrow_mut() = Some(Transaction {
            id,
            autocommit,
            name,
            parts: Vec::new(),
            savepoints: Vec::new(),
            doomed: false,
            begun_utc,
            temp_undo: Vec::new(),
            isolation,
        });
    }

    /// BEGIN TRANSACTION. Gives the descriptor when this is the outermost.
    pub(crate) fn begin_transaction(&self, name: Option<String>) -> Option<u64> {
        let count = self.trancount.get() + 1;
        self.trancount.set(count);
        if count > 1 {
            return None;
        }
        self.start_transaction(false, name);
        self.note_transaction();
        self.transaction_id()
    }

    /// Makes the transaction of a single statement one of the session, to be ended by COMMIT or ROLLBACK; false where it is none.
    pub(crate) fn keep_transaction(&self) -> bool {
        let is_changed = match self.transaction.borrow_mut().as_mut() {
            Some(t) => std::mem::replace(&mut t.autocommit, false),
            None => false,
        };
        self.note_transaction();
        is_changed
    }

    pub(crate) fn transaction_id(&self) -> Option<u64> {
        self.transaction.borrow().as_ref().map(|t| t.id)
    }

    pub(crate) fn is_doomed(&self) -> bool {
        self.transaction.borrow().as_ref().is_some_and(|t| t.doomed)
    }

    pub(crate) fn doom(&self) {
        if let Some(t) = self.transaction.borrow_mut().as_mut() {
            t.doomed = true;
        }
    }

    /// COMMIT TRANSACTION: gives the descriptor when the outermost was committed.
    pub(crate) fn commit_transaction(
        &self,
        delayed: Option<bool>,
        lateness: Lateness,
    ) -> Result<Option<u64>> {
        match self.trancount.get() {
            0 => Err(messages::error(3902, &[])),
            _ if self.is_doomed() => Err(messages::error(3930, &[])),
            1 => {
                let id = self.transaction_id();
                self.commit_parts_as(delayed, lateness)?;
                Ok(id)
            }
            count => {
                self.trancount.set(count - 1);
                Ok(None)
            }
        }
    }

    /// Commits whatever transaction there is.
    pub(crate) fn commit_parts(&self, delayed: Option<bool>) -> Result<()> {
        self.commit_parts_as(delayed, Lateness::Never)
    }

    /// Will the running statement, if it is on its own, wait for the disk of this database when it commits?
    pub(super) fn will_harden(&self, database: DatabaseId, delayed: bool) -> bool {
        let transaction = self.transaction.borrow();
        let own = transaction.as_ref().filter(|t| t.autocommit);
        own.is_some_and(|t| t.will_harden(database, delayed))
    }

    pub(crate) fn commit_parts_as(&self, delayed: Option<bool>, lateness: Lateness) -> Result<()> {
        let Some(mut transaction) = self.transaction.borrow_mut().take() else {
            return Ok(());
        };
        self.trancount.set(0);
        let current = self.database.borrow().id();
        transaction
            .parts
            .sort_by_key(|p| p.open.storage.id() == current);
        let may_be_delayed = transaction.may_be_delayed();
        if lateness == Lateness::Allowed
            && let [part] = transaction.parts.as_slice()
            && part.durability(may_be_delayed, delayed == Some(true)) == Durability::Full
            && !part.has_changed_definitions()
            && transaction.temp_undo.is_empty()
        {
            self.statement_locks.borrow_mut().clear();
            let result = self.commit_late(&part.txn);
            self.note_end(transaction.autocommit);
            return result;
        }
        let autocommit = transaction.autocommit;
        let mut failure = keep_counters(&transaction).err();
        // Written nothing in more than one: the usual case, and no list is made for it.
        if failure.is_none() && transaction.parts.len() > 1 {
            let written = transaction.written();
            if written.len() > 1 {
                let committed = self
                    .check_groups(&written)
                    .and_then(|()| commit_together(&written).map_err(SqlError::from));
                failure = committed.err();
            }
        }
        for part in &transaction.parts {
            let durability = part.durability(may_be_delayed, delayed == Some(true));
            match &failure {
                None => failure = self.commit_part(part, durability).err(),
                // An earlier part failed: the rest must not become durable.
                Some(_) => drop(part.txn.rollback()),
            }
        }
        match failure {
            Some(_) => self.undo_definitions(transaction),
            None => {
                for (part, id) in kept_counters(&transaction) {
                    part.open.catalog.reached_is_kept(id);
                }
                self.forget_dropped_temps(&transaction.temp_undo);
            }
        }
        self.end_of_transaction(autocommit);
        failure.map_or(Ok(()), Err)
    }

    /// Error 40517 where databases of a group and others were written. After a failover the group's would be on another server, and nobody
    /// there could tell, or be told, how the transaction ended.
    fn check_groups(&self, written: &[Txn]) -> Result<()> {
        let hadr = &self.instance.hadr;
        let group = |txn: &Txn| {
            let entry = self.instance.database(txn.database().id())?;
            Some(hadr.group_of_database(&entry.name())?.group_id)
        };
        let mut groups = written.iter().map(group);
        let first = groups.next().flatten();
        match groups.all(|g| g == first) {
            true => Ok(()),
            false => Err(messages::not_supported(
                "A transaction that changes databases of an availability group and others",
            )),
        }
    }

    fn commit_part(&self, part: &Part, durability: Durability) -> Result<()> {
        part.txn.commit(durability)?;
        if let Some(delta) = &part.delta {
            self.instance.publish(&part.open.catalog, delta.changes());
        }
        Ok(())
    }

    /// Rolls back whatever transaction there is; gives its descriptor when a client knows it.
    pub(crate) fn rollback_all(&self) -> Result<Option<u64>> {
        let Some(transaction) = self.transaction.borrow_mut().take() else {
            return Ok(None);
        };
        self.trancount.set(0);
        let mut result = Ok(());
        for part in &transaction.parts {
            result = result.and(part.txn.rollback());
        }
        let (id, autocommit) = (transaction.id, transaction.autocommit);
        self.undo_definitions(transaction);
        self.end_of_transaction(autocommit);
        result?;
        Ok((!autocommit).then_some(id))
    }

    /// Forgets the definitions of a transaction that did not commit.
    fn undo_definitions(&self, transaction: Transaction) {
        if transaction.parts.iter().any(Part::has_changed_definitions) {
            self.note_redefined();
        }
        self.undo_temp(transaction.temp_undo);
    }

    /// ROLLBACK TRANSACTION name: a savepoint, or the outermost transaction's name. `Some(id)` when all was rolled back.
    pub(crate) fn rollback_named(&self, name: &str) -> Result<Option<u64>> {
        if self.trancount.get() == 0 {
            return Err(messages::error(3903, &[]));
        }
        let found = {
            let transaction = self.transaction.borrow();
            let list = transaction.as_ref().map_or(&[][..], |t| &t.savepoints);
            let position = list.iter().rposition(|(n, _)| names_equal(n, name));
            position.and_then(|at| list.get(at).map(|(_, mark)| (at, mark.clone())))
        };
        if let Some((at, mark)) = found {
            if self.is_doomed() {
                return Err(messages::error(3931, &[]));
            }
            self.rollback_to(&mark)?;
            if let Some(t) = self.transaction.borrow_mut().as_mut() {
                t.savepoints.truncate(at + 1);
            }
            return Ok(None);
        }
        let outermost = self
            .transaction
            .borrow()
            .as_ref()
            .is_some_and(|t| t.name.as_deref().is_some_and(|n| names_equal(n, name)));
        match outermost {
            true => self.rollback_all(),
            false => Err(messages::error(6401, &[&name])),
        }
    }

    /// SAVE TRANSACTION.
    pub(crate) fn save_transaction(&self, name: &str) -> Result<()> {
        if self.trancount.get() == 0 {
            return Err(messages::error(628, &[]));
        }
        if self.is_doomed() {
            return Err(messages::error(3930, &[]));
        }
        if let Some(t) = self.transaction.borrow_mut().as_mut() {
            let mark = t.mark_by(Txn::lasting_savepoint);
            t.savepoints.push((name.to_string(), mark));
        }
        Ok(())
    }

    /// Position to come back to when the statement that begins now fails.
    pub(crate) fn mark(&self) -> Mark {
        self.transaction
            .borrow()
            .as_ref()
            .map_or_else(Mark::default, Transaction::mark)
    }

    pub(crate) fn rollback_to(&self, mark: &Mark) -> Result<()> {
        let mut undone = Vec::new();
        let mut redefined = false;
        {
            let mut transaction = self.transaction.borrow_mut();
            let Some(t) = transaction.as_mut() else {
                return Ok(());
            };
            // What was marked ended within the statement (a trigger's ROLLBACK), and another one has begun since.
            if mark.transaction.is_some_and(|marked| marked != t.id) {
                return Ok(());
            }
            for part in &mut t.parts {
                let id = part.open.storage.id();
                let known = mark.parts.iter().find(|(d, _, _)| *d == id);
                let (savepoint, changes) = known.map_or((&part.start, 0), |(_, s, c)| (s, *c));
                part.txn.rollback_to(savepoint.clone())?;
                if let Some(delta) = part.delta.as_mut() {
                    redefined |= delta.position() > changes;
                    delta.rollback_to(changes);
                }
            }
            if mark.temp < t.temp_undo.len() {
                undone = t.temp_undo.split_off(mark.temp);
            }
        }
        self.undo_temp(undone);
        if redefined {
            self.note_redefined();
        }
        Ok(())
    }

    /// Does the open transaction work in this database?
    pub(super) fn has_part_in(&self, database: DatabaseId) -> bool {
        let transaction = self.transaction.borrow();
        transaction
            .as_ref()
            .is_some_and(|t| t.part(database).is_some())
    }

    /// The storage transaction in a database, begun if there is none yet.
    pub(crate) fn txn_in(&self, database: DatabaseId) -> Result<Txn> {
        if let Some(part) = self
            .transaction
            .borrow()
            .as_ref()
            .and_then(|t| t.part(database))
        {
            return Ok(part.txn.clone());
        }
        let current = self.database.borrow().clone();
        let entry = match current.id() == database {
            true => current,
            false => {
                let entry = self.instance.database(database);
                let entry = entry.ok_or_else(|| messages::error(2520, &[&database.0]))?;
                self.visit(&entry)?;
                entry
            }
        };
        self.ensure_transaction();
        let open = entry.open()?;
        let txn = open.storage.begin(&self.entry.owner);
        let start = txn.savepoint();
        if let Some(t) = self.transaction.borrow_mut().as_mut() {
            t.parts.push(Part {
                open,
                txn: txn.clone(),
                start,
                delta: None,
            });
        }
        Ok(txn)
    }

    /// Definitions of a database as this session sees them.
    pub(crate) fn catalog(&self, database: DatabaseId) -> Result<Arc<DatabaseCatalog>> {
        if let Some(t) = self.transaction.borrow_mut().as_mut()
            && let Some(part) = t.part_mut(database)
            && let Some(delta) = part.delta.as_mut()
        {
            delta.refresh(&part.open.catalog.current());
            return Ok(delta.view().clone());
        }
        let entry = self.instance.database(database);
        let entry = entry.ok_or_else(|| messages::error(2520, &[&database.0]))?;
        let availability = entry.availability();
        if availability != Availability::Alone {
            let reads_only = self.entry.login.read_only_intent;
            availability.check_intent(&entry.name(), reads_only)?;
        }
        if !entry.is_system() {
            entry.check_admits(self.entry.spid)?;
        }
        let open = entry.open()?;
        if availability.is_secondary() {
            self.instance.follow_definitions(&open)?;
        }
        Ok(open.catalog.current())
    }

    /// Plans that were made with definitions which redo has changed since are not used again, in the present database.
    pub(crate) fn follow_definitions(&self) -> Result<()> {
        let entry = self.database.borrow();
        match entry.availability().is_secondary() {
            true => self.instance.follow_definitions(&entry.open()?),
            false => Ok(()),
        }
    }

    /// Error 3906 where nothing but redo changes the database.
    pub(crate) fn check_writable(&self, database: DatabaseId) -> Result<()> {
        let current = self.database.borrow();
        let other = match current.id() == database {
            true => None,
            false => self.instance.database(database),
        };
        let entry = other.as_ref().unwrap_or(&current);
        match entry.availability().is_secondary() {
            true => Err(messages::error(3906, &[&entry.name()])),
            false => Ok(()),
        }
    }

    /// Error 652 where an index of the table, or its large values, lie in a filegroup that is read-only.
    pub(crate) fn check_filegroups(&self, table: &TableRef) -> Result<()> {
        let Some(group) = self.read_only_filegroup(table.database.id(), &table.def) else {
            return Ok(());
        };
        let index = table.def.indexes.iter().find(|i| i.filegroup == group.id);
        let name = index.and_then(|i| i.name.clone()).unwrap_or_default();
        let rowset = index.map_or(0, |i| i.tree.0.to_u64());
        let arguments: [&dyn std::fmt::Display; 4] = [&name, &table.name, &rowset, &group.name];
        Err(messages::error(652, &arguments))
    }

    /// The filegroup that keeps the table from being changed.
    pub(crate) fn read_only_filegroup(
        &self,
        database: DatabaseId,
        table: &TableDef,
    ) -> Option<FilegroupDef> {
        let def = self.instance.database(database)?.def();
        let holds = |group: &u16| {
            table.filegroup == *group || table.indexes.iter().any(|i| i.filegroup == *group)
        };
        let mut groups = def.filegroups.iter();
        groups.find(|g| g.keeps_out() && holds(&g.id)).cloned()
    }

    /// Has the transaction changed definitions that nobody else sees yet?
    pub(crate) fn has_private_definitions(&self) -> bool {
        self.transaction
            .borrow()
            .as_ref()
            .is_some_and(|t| t.parts.iter().any(Part::has_changed_definitions))
    }

    /// How many definitions of the database the transaction has changed, which nobody else sees yet.
    pub(super) fn changes_of_definitions(&self, database: DatabaseId) -> usize {
        let transaction = self.transaction.borrow();
        let part = transaction.as_ref().and_then(|t| t.part(database));
        let delta = part.and_then(|p| p.delta.as_ref());
        delta.map_or(0, CatalogDelta::position)
    }

    /// Makes a change of definitions part of the transaction. Error 2801 where it was not made of what is stored now: it would
    /// undo what another session did meanwhile.
    pub(crate) fn change(&self, database: DatabaseId, change: Change) -> Result<()> {
        self.check_writable(database)?;
        let txn = self.txn_in(database)?;
        let open = self.instance.open_database(database)?;
        // Others who change it publish before they give this up. Whoever reads before he changes has it already.
        for (resource, mode) in locks_of(&change) {
            open.storage.lock(&self.entry.owner, resource, mode)?;
        }
        if !change.is_of(&*self.catalog(database)?) {
            return Err(messages::error(2801, &[&change.name()]));
        }
        open.catalog.write(&txn, &change)?;
        if let Some(t) = self.transaction.borrow_mut().as_mut()
            && let Some(part) = t.part_mut(database)
        {
            let delta = part
                .delta
                .get_or_insert_with(|| CatalogDelta::new(open.catalog.current()));
            delta.push(change);
        }
        self.note_redefined();
        Ok(())
    }

    /// Definitions or permissions that this session alone sees have changed.
    fn note_redefined(&self) {
        self.private_version.set(self.private_version.get() + 1);
    }

    fn end_of_transaction(&self, autocommit: bool) {
        self.statement_locks.borrow_mut().clear();
        self.instance.engine().release_locks(&self.entry.owner);
        self.note_end(autocommit);
    }

    /// The registry and the cursors never hear of the transactions of single statements.
    fn note_end(&self, autocommit: bool) {
        if autocommit {
            return;
        }
        self.note_transaction();
        if self.closes_cursors() {
            self.cursors.close();
        }
    }

    /// Tells the registry about the transaction.
    fn note_transaction(&self) {
        let mut activity = self.entry.activity.lock();
        activity.open_transactions = self.trancount.get();
        let transaction = self.transaction.borrow();
        let open = transaction.as_ref().filter(|t| !t.autocommit);
        activity.transaction_id = open.map_or(0, |t| t.id);
        activity.transaction_start_utc = open.map_or(0, |t| t.begun_utc);
    }
}

/// What the transaction has set of counters is to be stored by its commit.
fn keep_counters(transaction: &Transaction) -> Result<()> {
    for (part, id) in kept_counters(transaction) {
        part.open.catalog.keep_reached(&part.txn, id)?;
    }
    Ok(())
}

/// The counters that a transaction has set, of tables and sequences that are there at its end.
fn kept_counters(transaction: &Transaction) -> impl Iterator<Item = (&Part, CounterId)> {
    transaction.temp_undo.iter().filter_map(|entry| {
        let TempUndo::Counter(database, id, _) = entry else {
            return None;
        };
        let part = transaction.part(*database)?;
        let (CounterId::Identity(object) | CounterId::Sequence(object)) = *id else {
            return None;
        };
        let view = part.delta.as_ref().map(CatalogDelta::view);
        let lives = view.is_none_or(|view| view.object(object).is_some());
        lives.then_some((part, *id))
    })
}
