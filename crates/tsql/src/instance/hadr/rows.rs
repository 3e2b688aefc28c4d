//! Definitions of one kind, kept whole in memory and written through to master.

use crate::error::Result;
use daruma_catalog::{Catalog, ServerRow};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// The rows of a kind: read without the catalog, changed one after the other.
pub struct ServerRows<T> {
    list: RwLock<Vec<Arc<T>>>,
    /// Held by whoever changes the list.
    changing: Mutex<()>,
    /// Marks of those that somebody is about to remove: their ids.
    leaving: Mutex<Vec<Arc<i32>>>,
    catalog: Arc<Catalog>,
}

impl<T: ServerRow + Clone> ServerRows<T> {
    /// Reads them from `master`.
    pub fn load(catalog: Arc<Catalog>) -> Result<ServerRows<T>> {
        let list = catalog.server_rows()?.into_iter().map(Arc::new).collect();
        Ok(ServerRows {
            list: RwLock::new(list),
            changing: Mutex::default(),
            leaving: Mutex::default(),
            catalog,
        })
    }

    /// All rows, in the order of their ids.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.list.read().clone()
    }

    /// The first row that fits.
    pub fn find(&self, fits: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        self.list.read().iter().find(|row| fits(row)).cloned()
    }

    /// The row with this id.
    pub fn by_id(&self, id: i32) -> Option<Arc<T>> {
        self.find(|row| row.id() == id)
    }

    /// The first row that fits, unless somebody is about to remove it.
    pub fn staying(&self, fits: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let marks = self.leaving.lock();
        self.unmarked(&marks, fits)
    }

    /// Marks the first row that fits and that nobody is about to remove, until it is gone or the mark is let go of: nobody else
    /// removes it meanwhile, so its id stays its own.
    pub fn leave(&self, fits: impl Fn(&T) -> bool) -> Option<(Arc<T>, Leaving<'_>)> {
        let mut marks = self.leaving.lock();
        let row = self.unmarked(&marks, fits)?;
        let mark = Arc::new(row.id());
        marks.push(mark.clone());
        let all = &self.leaving;
        Some((row, Leaving { all, mark }))
    }

    fn unmarked(&self, marks: &[Arc<i32>], fits: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        self.find(|row| fits(row) && !marks.iter().any(|id| **id == row.id()))
    }

    /// Runs `work` while nobody changes rows: what it finds there stays until what stands on it is stored.
    pub fn unchanged<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        let _one = self.changing.lock();
        work()
    }

    /// Adds a row with the id given to `make`, `first` or the next after the highest. `make` runs while nobody else changes
    /// rows, so what it checks stays true.
    pub fn create(&self, first: i32, make: impl FnOnce(i32) -> Result<T>) -> Result<Arc<T>> {
        let _one = self.changing.lock();
        let highest = self.list.read().iter().map(|row| row.id()).max();
        let row = make(highest.map_or(first, |id| id.saturating_add(1).max(first)))?;
        self.put(row)
    }

    /// Changes a row that is still there; `None` when it is not.
    pub fn change(
        &self,
        id: i32,
        change: impl FnOnce(&mut T) -> Result<()>,
    ) -> Result<Option<Arc<T>>> {
        self.change_then(id, change, |_, _, _| ())
    }

    /// Changes the first row that fits; `None` when there is none.
    pub fn change_found(
        &self,
        fits: impl Fn(&T) -> bool,
        change: impl FnOnce(&mut T) -> Result<()>,
    ) -> Result<Option<Arc<T>>> {
        self.change_first(fits, change, |_, _, _| ())
    }

    /// The same, and `then` is told the row before and after and whether it could be stored, before anybody else changes rows.
    pub fn change_then(
        &self,
        id: i32,
        change: impl FnOnce(&mut T) -> Result<()>,
        then: impl FnOnce(&T, &T, bool),
    ) -> Result<Option<Arc<T>>> {
        self.change_first(|row| row.id() == id, change, then)
    }

    fn change_first(
        &self,
        fits: impl Fn(&T) -> bool,
        change: impl FnOnce(&mut T) -> Result<()>,
        then: impl FnOnce(&T, &T, bool),
    ) -> Result<Option<Arc<T>>> {
        let _one = self.changing.lock();
        let Some(before) = self.find(fits) else {
            return Ok(None);
        };
        let mut after = (*before).clone();
        change(&mut after)?;
        let stored = self.put(after.clone());
        then(&before, &after, stored.is_ok());
        stored.map(Some)
    }

    /// Removes a row after `check`, which runs while nobody else changes rows.
    pub fn remove(&self, id: i32, check: impl FnOnce() -> Result<()>) -> Result<()> {
        let _one = self.changing.lock();
        check()?;
        self.delete(id)
    }

    /// Removes a row that is still there, and `then` ends what it stood for, before anybody else changes rows.
    pub fn remove_then(&self, id: i32, then: impl FnOnce(&T) -> Result<()>) -> Result<bool> {
        let _one = self.changing.lock();
        let Some(row) = self.by_id(id) else {
            return Ok(false);
        };
        self.delete(id)?;
        then(&row).map(|()| true)
    }

    fn delete(&self, id: i32) -> Result<()> {
        self.catalog.delete_server_row::<T>(id)?;
        self.list.write().retain(|row| row.id() != id);
        // The next row of this id is another one.
        self.leaving.lock().retain(|mark| **mark != id);
        Ok(())
    }

    fn put(&self, row: T) -> Result<Arc<T>> {
        self.catalog.put_server_row(&row)?;
        let row = Arc::new(row);
        let mut list = self.list.write();
        list.retain(|other| other.id() != row.id());
        list.push(row.clone());
        list.sort_by_key(|row| row.id());
        Ok(row)
    }
}

/// Mark of a row that whoever has it is about to remove, and nobody else.
pub struct Leaving<'a> {
    all: &'a Mutex<Vec<Arc<i32>>>,
    mark: Arc<i32>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        all.retain(|mark| !Arc::ptr_eq(mark, &self.mark));
    }
}
