//! Temporary tables and table variables: definitions that live in the session, rows that live in tempdb.
//!
//! Theory: `#t` belongs to the frame that created it and is dropped when a procedure or dynamic text ends; `##t` lives
//! in the instance until its creator goes. Creation and removal are part of the transaction, so each leaves an undo
//! entry. Table variables are no part of any transaction: they are created and dropped by transactions of their own.

use super::cursor::WayBack;
use super::{SessionState, TempModule};
use crate::error::Result;
use crate::host::TableRef;
use crate::instance::{GlobalTemp, TEMPDB};
use daruma_base::DatabaseId;
use daruma_catalog::{CounterId, Reached, TableDef, name_key, names_equal};
use daruma_storage::{Durability, Txn};
use std::sync::Arc;

/// A `#table` of this session.
#[derive(Clone)]
pub(crate) struct TempTable {
    pub table: TableRef,
    /// Number of frames when it was created.
    pub level: usize,
}

/// How to take back what a transaction did to temporary tables, and to what else the session keeps in memory.
pub(crate) enum TempUndo {
    Created(i32),
    Dropped(Box<TempTable>),
    Altered(i32, Arc<TableDef>),
    CreatedGlobal(String),
    DroppedGlobal(String, Box<GlobalTemp>),
    /// A temporary procedure as it was before.
    Module(String, Option<TempModule>),
    /// A stored counter that was set anew.
    Counter(DatabaseId, CounterId, Option<Reached>),
    /// A counter of a temporary table, as it was.
    TempCounter(CounterId, Option<Reached>),
    /// A row of a cursor whose key was changed through it.
    Moved(WayBack),
}

impl SessionState {
    pub(crate) fn temp_table(&self, name: &str) -> Option<TableRef> {
        if name.starts_with("##") {
            return self
                .instance
                .global_temps
                .lock()
                .get(&name_key(name))
                .map(|g| g.table.clone());
        }
        let list = self.temps.borrow();
        list.iter()
            .rev()
            .find(|t| names_equal(&t.table.name, name))
            .map(|t| t.table.clone())
    }

    /// A temporary table of any session, as it is now.
    pub(crate) fn temporary(&self, id: i32) -> Option<TableRef> {
        self.instance.temp_tables.lock().get(&id).cloned()
    }

    /// Is it one of this session's own?
    pub(crate) fn has_temp(&self, id: i32) -> bool {
        self.temps.borrow().iter().any(|t| t.table.object_id == id)
    }

    /// Was a table of this name created in the frame that runs now?
    pub(crate) fn temp_name_in_use(&self, name: &str) -> bool {
        if name.starts_with("##") {
            return self.temp_table(name).is_some();
        }
        let level = self.frames.borrow().len();
        self.temps
            .borrow()
            .iter()
            .any(|t| t.level == level && names_equal(&t.table.name, name))
    }

    pub(crate) fn add_temp(&self, table: TableRef) {
        self.instance
            .temp_tables
            .lock()
            .insert(table.object_id, table.clone());
        if table.name.starts_with("##") {
            let key = name_key(&table.name);
            let global = GlobalTemp {
                table,
                creator: self.entry.spid,
            };
            self.instance
                .global_temps
                .lock()
                .insert(key.clone(), global);
            self.push_temp_undo(TempUndo::CreatedGlobal(key));
            self.instance.bump_catalog_version();
        } else {
            let level = self.frames.borrow().len();
            self.push_temp_undo(TempUndo::Created(table.object_id));
            self.temps.borrow_mut().push(TempTable { table, level });
        }
    }

    /// Puts a changed definition in place.
    pub(crate) fn alter_temp(&self, table: &TableRef, def: Arc<TableDef>) {
        self.push_temp_undo(TempUndo::Altered(table.object_id, table.def.clone()));
        self.set_temp_def(table.object_id, &def);
    }

    fn set_temp_def(&self, id: i32, def: &Arc<TableDef>) {
        for temp in self
            .temps
            .borrow_mut()
            .iter_mut()
            .filter(|t| t.table.object_id == id)
        {
            temp.table.def = def.clone();
        }
        for global in self
            .instance
            .global_temps
            .lock()
            .values_mut()
            .filter(|g| g.table.object_id == id)
        {
            global.table.def = def.clone();
        }
        if let Some(table) = self.instance.temp_tables.lock().get_mut(&id) {
            table.def = def.clone();
        }
    }

    /// Drops a temporary table as part of the transaction.
    pub(crate) fn drop_temp(&self, table: &TableRef) -> Result<()> {
        let txn = self.txn_in(TEMPDB)?;
        drop_trees(&txn, &table.def)?;
        self.instance.temp_tables.lock().remove(&table.object_id);
        if table.name.starts_with("##") {
            let key = name_key(&table.name);
            if let Some(global) = self.instance.global_temps.lock().remove(&key) {
                self.push_temp_undo(TempUndo::DroppedGlobal(key, Box::new(global)));
            }
            self.instance.bump_catalog_version();
        } else {
            let mut list = self.temps.borrow_mut();
            if let Some(at) = list
                .iter()
                .position(|t| t.table.object_id == table.object_id)
            {
                let temp = list.remove(at);
                drop(list);
                self.push_temp_undo(TempUndo::Dropped(Box::new(temp)));
            }
        }
        Ok(())
    }

    pub(crate) fn push_temp_undo(&self, undo: TempUndo) {
        if let Some(t) = self.transaction.borrow_mut().as_mut() {
            t.temp_undo.push(undo);
        }
    }

    /// Takes entries back, newest first.
    pub(crate) fn undo_temp(&self, entries: Vec<TempUndo>) {
        for entry in entries.into_iter().rev() {
            match entry {
                TempUndo::Created(id) => {
                    self.temps.borrow_mut().retain(|t| t.table.object_id != id);
                    self.instance.temp_tables.lock().remove(&id);
                }
                TempUndo::Dropped(temp) => {
                    self.instance
                        .temp_tables
                        .lock()
                        .insert(temp.table.object_id, temp.table.clone());
                    self.temps.borrow_mut().push(*temp);
                }
                TempUndo::Altered(id, def) => self.set_temp_def(id, &def),
                TempUndo::CreatedGlobal(key) => {
                    if let Some(global) = self.instance.global_temps.lock().remove(&key) {
                        self.instance
                            .temp_tables
                            .lock()
                            .remove(&global.table.object_id);
                    }
                }
                TempUndo::Module(key, before) => self.put_temp_module(&key, before),
                TempUndo::Counter(database, id, reached) => {
                    // A database that is gone has no counters to bring back.
                    let Ok(open) = self.instance.open_database(database) else {
                        continue;
                    };
                    match self.has_set_counter(database, id) {
                        true => open.catalog.set_reached(id, reached),
                        false => open.catalog.take_reached_back(id, reached),
                    }
                }
                TempUndo::TempCounter(id, reached) => self.set_temp_counter(id, reached),
                TempUndo::Moved(way_back) => way_back.take(),
                TempUndo::DroppedGlobal(key, global) => {
                    self.instance
                        .temp_tables
                        .lock()
                        .insert(global.table.object_id, global.table.clone());
                    self.instance.global_temps.lock().insert(key, *global);
                }
            }
        }
    }

    /// Has the transaction set the counter before what is being taken back?
    fn has_set_counter(&self, database: DatabaseId, id: CounterId) -> bool {
        let is_it =
            |u: &TempUndo| matches!(u, TempUndo::Counter(d, i, _) if *d == database && *i == id);
        let transaction = self.transaction.borrow();
        let open = transaction.as_ref();
        open.is_some_and(|t| t.temp_undo.iter().any(is_it))
    }

    /// After a commit nothing can bring dropped tables back: their counters go.
    pub(crate) fn forget_dropped_temps(&self, entries: &[TempUndo]) {
        let mut counters = self.instance.temp_counters.lock();
        for entry in entries {
            if let TempUndo::Dropped(temp) = entry {
                let id = temp.table.object_id;
                counters.retain(|counter, _| !matches!(counter, CounterId::Identity(t) | CounterId::RowNumber(t) if *t == id));
            }
        }
    }

    /// Sets how far a counter of a temporary table is.
    pub(crate) fn set_temp_counter(&self, id: CounterId, reached: Option<Reached>) {
        let mut counters = self.instance.temp_counters.lock();
        match reached {
            Some(reached) => drop(counters.insert(id, reached)),
            None => drop(counters.remove(&id)),
        }
    }

    /// Drops the temporary tables of frames deeper than `level`.
    pub(crate) fn drop_temps_above(&self, level: usize) -> Result<()> {
        let list: Vec<TableRef> = {
            let temps = self.temps.borrow();
            temps
                .iter()
                .filter(|t| t.level > level)
                .map(|t| t.table.clone())
                .collect()
        };
        if list.is_empty() {
            return Ok(());
        }
        let own = self.ensure_transaction();
        let dropped = list.iter().try_for_each(|table| self.drop_temp(table));
        match (own, &dropped) {
            (true, Ok(())) => self.commit_parts(None),
            (true, Err(_)) => self.rollback_all().and(dropped),
            (false, _) => dropped,
        }
    }

    /// Next value of a counter of a temporary table: kept in memory only.
    pub(crate) fn next_temp_counter(
        &self,
        id: CounterId,
        next: impl FnOnce(Option<i128>) -> Result<i128>,
    ) -> Result<i128> {
        let mut counters = self.instance.temp_counters.lock();
        let value = next(counters.get(&id).map(|r| r.last))?;
        counters.insert(id, Reached::given(value));
        Ok(value)
    }

    /// Work in tempdb outside the session's transaction, committed at once.
    pub(crate) fn autonomous<T>(&self, work: impl FnOnce(&Txn) -> Result<T>) -> Result<T> {
        let tempdb = self.instance.open_database(TEMPDB)?;
        let txn = tempdb.storage.begin(&self.entry.owner);
        match work(&txn) {
            Ok(value) => {
                txn.commit(Durability::Delayed)?;
                Ok(value)
            }
            Err(error) => {
                txn.rollback()?;
                Err(error)
            }
        }
    }
}

/// Gives the pages of a table and its indexes back with the transaction.
pub(crate) fn drop_trees(txn: &Txn, def: &TableDef) -> Result<()> {
    for index in &def.indexes {
        crate::access::drop_tree(txn, def, index)?;
    }
    Ok(())
}
