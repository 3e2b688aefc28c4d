//! Changes of the definitions of databases, one at a time for each.
//!
//! Theory: a change begins by taking the definition as it is, with a latch that keeps others from changing it, and ends with
//! storing what was made of it. So nothing is stored that was made of a definition which another has replaced meanwhile, be it the
//! work of a moment or of minutes, as ADD FILE is. Whoever waits for another is asked now and then whether he goes on.
//!
//! Invariant: nothing is stored behind the end of the database ([`DatabaseChange::end_database`]).

use super::{DatabaseEntry, Instance, stored_form};
use crate::error::Result;
use crate::messages;
use daruma_catalog::DatabaseDef;
use parking_lot::{Mutex, MutexGuard};
use std::time::Duration;

/// How often one who waits is asked whether he goes on.
pub(super) const PATIENCE_STEP: Duration = Duration::from_millis(10);

/// Asked while somebody waits: an error ends that.
pub(crate) type GoOn<'a> = &'a dyn Fn() -> Result<()>;

/// For work of the server's own, which nobody cancels.
pub(crate) const ALWAYS: GoOn<'static> = &|| Ok(());

/// Takes a latch that others may hold for long.
pub(super) fn lock_patiently<'m, T>(
    mutex: &'m Mutex<T>,
    go_on: GoOn<'_>,
) -> Result<MutexGuard<'m, T>> {
    loop {
        if let Some(guard) = mutex.try_lock_for(PATIENCE_STEP) {
            return Ok(guard);
        }
        go_on()?;
    }
}

/// A change of a definition that has begun: nobody else changes it, nor the settings of the database.
pub(crate) struct DatabaseChange<'i> {
    instance: &'i Instance,
    entry: &'i DatabaseEntry,
    is_gone: MutexGuard<'i, bool>,
    /// As it is to be.
    pub def: DatabaseDef,
}

impl DatabaseChange<'_> {
    /// Stores the definition as it is to be, in master and then in the registry.
    pub fn store(self) -> Result<()> {
        self.instance.store_database(self.entry, self.def)
    }

    /// Lets master, and nobody else, say what a start is to put right if the change is cut short.
    pub fn mark(&self, marked: &DatabaseDef) -> Result<()> {
        let stored = stored_form(marked, &self.instance.data_dir);
        Ok(self.instance.master_catalog()?.put_database(&stored)?)
    }

    /// Takes back what was marked: the definition stays as it was.
    pub fn give_up(mut self) -> Result<()> {
        self.def = (*self.entry.def()).clone();
        self.store()
    }

    /// The database goes: who waits to change it is told (911).
    pub fn end_database(mut self) {
        *self.is_gone = true;
    }
}

impl Instance {
    /// Begins a change of a database's definition, when nobody else is changing it. Error 911 when the database is gone.
    pub(crate) fn begin_change<'i>(
        &'i self,
        entry: &'i DatabaseEntry,
        go_on: GoOn<'_>,
    ) -> Result<DatabaseChange<'i>> {
        Ok(DatabaseChange {
            instance: self,
            is_gone: entry.lock_definition(go_on)?,
            def: (*entry.def()).clone(),
            entry,
        })
    }

    /// Changes a definition at once, for the server itself; `Execution::change_database` does it for a session.
    pub(crate) fn change_database(
        &self,
        entry: &DatabaseEntry,
        change: impl FnOnce(&mut DatabaseDef) -> Result<()>,
    ) -> Result<()> {
        let mut begun = self.begin_change(entry, ALWAYS)?;
        change(&mut begun.def)?;
        begun.store()
    }

    /// Notes in a definition what no plan and no right depends on: it is stored, and plans stay. Nobody is waited for: where
    /// another is changing the definition, who may be waiting for the caller, nothing is noted, which is error 3617.
    pub(crate) fn note_in_database(
        &self,
        entry: &DatabaseEntry,
        note: impl FnOnce(&mut DatabaseDef),
    ) -> Result<()> {
        let mut begun = self.begin_change(entry, &|| Err(messages::error(3617, &[])))?;
        note(&mut begun.def);
        let stored = stored_form(&begun.def, &self.data_dir);
        self.master_catalog()?.put_database(&stored)?;
        entry.set_def(begun.def);
        Ok(())
    }

    /// The caller has begun the change, or nobody else knows the database yet.
    pub(crate) fn store_database(&self, entry: &DatabaseEntry, def: DatabaseDef) -> Result<()> {
        self.master_catalog()?
            .put_database(&stored_form(&def, &self.data_dir))?;
        entry.set_def(def);
        self.bump_catalog_version();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_wait_ends_when_it_is_to_go_on_no_more() {
        let latch = Mutex::new(());
        let held = latch.lock();
        let asked = Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            match asked.get() {
                3 => Err(messages::error(3617, &[])),
                _ => Ok(()),
            }
        };
        let ended = lock_patiently(&latch, &go_on).map(|_| ());
        assert_eq!(ended.map_err(|e| e.number), Err(3617));
        drop(held);
        assert!(lock_patiently(&latch, &go_on).is_ok());
        assert_eq!(asked.get(), 3);
    }
}
