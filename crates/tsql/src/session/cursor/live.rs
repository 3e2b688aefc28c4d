//! Rows of open KEYSET and DYNAMIC cursors as they are now, and those that are changed through one.
//!
//! Theory: FETCH reads a row by its key, with a plan that was made when the cursor was opened. Since then its tables may have
//! become others, so each is compared with its definition when the plan runs. Where a table is the same in another place (it was
//! emptied, or built anew), its keys still mean what they meant: the query is planned once more. Any other change is error 16943.
//!
//! Invariant: no plan of an earlier statement reads a table that was not compared (`PLANNED_BEFORE`).

use super::moves::bytes_of;
use super::{BYTES_MAX, Cursor, Found, Live};
use crate::error::{Result, SqlError};
use crate::executor::{LivePlan, RowBatch, open, prepare_cursor};
use crate::host::{Access, CursorRow, Host, RowPlace, TableKind, TableRef};
use crate::messages;
use crate::session::Execution;
use crate::session::temp::TempUndo;
use daruma_base::DatabaseId;
use daruma_catalog::TableDef;
use daruma_storage::Isolation;
use daruma_syntax::ast::CursorRef;
use daruma_value::Value;
use std::sync::Arc;

impl Execution<'_> {
    /// The row as it is now, and where it lies; a STATIC cursor's as it was.
    pub(super) fn read_again(&self, name: &CursorRef, row: Option<Vec<Value>>) -> Result<Found> {
        let live = self.with_cursor(name, |cursor| {
            let opened = cursor.opened.as_mut();
            let (width, at) = opened.as_ref().map_or((0, 0), |o| (o.columns.len(), o.at));
            let live = opened.and_then(|o| o.live.as_mut());
            Ok(live.map(|live| {
                live.current.clear();
                (live.plan.clone(), width, live.moved.of(at))
            }))
        })?;
        let Some(row) = row else {
            return Ok(Found::End);
        };
        let Some((plan, width, moved)) = live else {
            return Ok(Found::Row(row));
        };
        let found = row.get(width..).unwrap_or_default();
        let places = moved.as_deref().unwrap_or(found);
        let (plan, again) = match self.first_row(name, &plan, places) {
            // The table or its database is another one, or none.
            Err(error) if matches!(error.number, 2801 | 2520) => {
                let plan = self.plan_again(name, &plan)?;
                let again = self.first_row(name, &plan, places);
                (plan, again.map_err(changed)?)
            }
            again => (plan, again.map_err(changed)?),
        };
        let Some(mut again) = again else {
            return Ok(Found::Missing);
        };
        let places = plan.places(again.get(width..).unwrap_or_default());
        again.truncate(width);
        self.with_live(name, |live| live.current = places)?;
        Ok(Found::Row(again))
    }

    /// The row that has these places, as a statement of its own reads it.
    fn first_row(
        &self,
        name: &CursorRef,
        plan: &LivePlan,
        places: &[Value],
    ) -> Result<Option<Vec<Value>>> {
        let variables = self.with_cursor(name, |cursor| Ok(cursor.variables.clone()))?;
        plan.pin(places);
        let read = || {
            self.note_planned_before();
            let mut stream = open(&plan.again, self)?;
            let mut batch = RowBatch::new();
            let found = stream.next(&mut batch)?;
            Ok(batch.rows().next().filter(|_| found).map(<[Value]>::to_vec))
        };
        self.atomic(|| self.with_variables(&variables, read))
    }

    /// A plan for the tables of an open cursor where they are now; 16943 where they are not the same.
    fn plan_again(&self, name: &CursorRef, before: &LivePlan) -> Result<Arc<LivePlan>> {
        let asked = |cursor: &mut Cursor| {
            let variables = cursor.variables.clone();
            Ok((
                cursor.query.clone(),
                variables,
                cursor.rereads,
                cursor.locks,
                cursor.database,
            ))
        };
        let (query, variables, rereads, locks, database) = self.with_cursor(name, asked)?;
        let rereads = rereads.ok_or_else(schema_changed)?;
        let plan = self.atomic(|| {
            self.check_same(before)?;
            self.note_planned();
            let prepare = || {
                let plan = || prepare_cursor(&query, database, rereads, locks, self);
                self.with_access(None, plan)
            };
            self.with_variables(&variables, prepare)
        });
        let plan = plan.map_err(|error| match messages::ends_scope(error.number) {
            true => schema_changed(),
            false => error,
        })?;
        let plan = plan.live.filter(|plan| plan.is_like(before));
        let plan = Arc::new(plan.ok_or_else(schema_changed)?);
        self.with_live(name, |live| live.plan = plan.clone())?;
        Ok(plan)
    }

    /// 16943 where a table has not the definition that it had, wherever its rows lie. All are locked until the statement ends.
    fn check_same(&self, before: &LivePlan) -> Result<()> {
        before.tables().try_for_each(|table| {
            let now = self.table_now(table)?;
            match now.is_some_and(|now| is_same_elsewhere(&now.def, &table.def)) {
                true => Ok(()),
                false => Err(schema_changed()),
            }
        })
    }

    /// The table as it is now; `None` where it is gone, or its database is.
    fn table_now(&self, table: &TableRef) -> Result<Option<TableRef>> {
        let now = match table.kind {
            TableKind::User => match self.table_by_id(table.database.id(), table.object_id) {
                Err(error) if matches!(error.number, 208 | 2520 | 2801) => None,
                now => Some(now?),
            },
            TableKind::Temporary => self.state.temporary(table.object_id),
            TableKind::Variable => self.live_table(table.object_id),
        };
        Ok(now.filter(|now| Arc::ptr_eq(&now.database, &table.database)))
    }

    /// What a cursor keeps of its rows, if it is there, open, and reads them again.
    fn with_live(&self, name: &CursorRef, work: impl FnOnce(&mut Live)) -> Result<()> {
        self.with_cursor(name, |cursor| {
            if let Some(live) = cursor.opened.as_mut().and_then(|o| o.live.as_mut()) {
                work(live);
            }
            Ok(())
        })
    }

    /// The row that a cursor stands on, which is to be changed through it.
    pub(crate) fn row_of_cursor(&self, name: &CursorRef) -> Result<CursorRow> {
        let (row, plan) = self.with_cursor(name, |cursor| {
            let Some(opened) = &cursor.opened else {
                return Err(messages::error(16917, &[]));
            };
            if cursor.is_read_only {
                return Err(messages::error(16929, &[]));
            }
            match opened.live.as_ref().filter(|l| !l.current.is_empty()) {
                Some(live) => {
                    let row = CursorRow {
                        places: live.current.clone(),
                        columns: cursor.update_of.clone(),
                    };
                    Ok((row, live.plan.clone()))
                }
                None => Err(messages::error(16931, &[])),
            }
        })?;
        self.check_same(&plan)?;
        Ok(row)
    }

    /// A row of this table was changed through the cursor that stands on it, and may have got another key by that: it is as
    /// it is now for the next change, whether or not the cursor would find it by now. What a trigger did to the cursor is left alone.
    pub(crate) fn renew_current(
        &self,
        name: &CursorRef,
        table: (DatabaseId, i32),
        moved_to: Option<Vec<u8>>,
    ) -> Result<()> {
        let stands = self.with_cursor(name, |cursor| {
            let live = cursor.opened.as_ref().and_then(|o| o.live.as_ref());
            let place = live.and_then(|live| live.current.iter().find(|p| p.table == table));
            Ok(live.zip(place).map(|(l, p)| (l.plan.clone(), p.clone())))
        });
        let Ok(Some((plan, mut before))) = stands else {
            return Ok(());
        };
        if let Some(key) = moved_to {
            self.note_moved(name, &before, &key)?;
            before.key = key;
        }
        let now = self.place_now(&plan, &before)?;
        self.with_live(name, |live| match now {
            Some(now) => live
                .current
                .iter_mut()
                .filter(|p| p.table == table)
                .for_each(|p| *p = now.clone()),
            None => live.current.clear(),
        })
    }

    /// The row that the cursor stands on has another key in this table from now on, unless the change is taken back: 701 where
    /// cursors would keep too much.
    fn note_moved(&self, name: &CursorRef, before: &RowPlace, key: &[u8]) -> Result<()> {
        let (held, _) = self.cursors().held();
        let way_back = self.with_cursor(name, |cursor| {
            let Some(opened) = cursor.opened.as_mut() else {
                return Ok(None);
            };
            let (at, width) = (opened.at, opened.columns.len());
            let Some(live) = opened.live.as_mut() else {
                return Ok(None);
            };
            let found = match live.moved.of(at) {
                Some(moved) => moved,
                None => {
                    let row = opened.rows.row(at.saturating_sub(1), &mut opened.read)?;
                    row.get(width..).unwrap_or_default().to_vec()
                }
            };
            let moved = live.plan.moved(&found, before.table, key);
            if held.saturating_add(bytes_of(&moved)) > BYTES_MAX {
                return Err(messages::error(701, &[&"default"]));
            }
            Ok(Some(live.moved.note(at, moved)))
        })?;
        if let Some(way_back) = way_back {
            self.state.push_temp_undo(TempUndo::Moved(way_back));
        }
        Ok(())
    }

    /// A place with the stamp that its row has now; `None` where it has none.
    fn place_now(&self, plan: &LivePlan, place: &RowPlace) -> Result<Option<RowPlace>> {
        let Some(access) = plan.table_of(place) else {
            return Ok(None);
        };
        let table = &access.table;
        // A trigger may have put its rows elsewhere.
        let now = self.table_now(table)?;
        if !now.is_some_and(|now| *now.def == *table.def) {
            return Ok(None);
        }
        // The statement holds the row, so that what is newest is its own.
        let view = match table.kind {
            TableKind::Variable => self.view(table, Access::Target)?,
            _ => self.txn(&table.database)?.view(Isolation::Current),
        };
        let entry = access.tree(access.primary())?.get(&view, &place.key)?;
        Ok(entry.map(|entry| RowPlace {
            stamp: entry.stamp,
            ..place.clone()
        }))
    }
}

/// Do both describe the same rows, in whatever place? A table that was emptied or built anew has other trees.
fn is_same_elsewhere(now: &TableDef, before: &TableDef) -> bool {
    let mut moved = before.clone();
    for (index, now) in moved.indexes.iter_mut().zip(&now.indexes) {
        index.tree = now.tree;
    }
    moved == *now
}

fn schema_changed() -> SqlError {
    messages::error(16943, &[])
}

/// Of errors that tell of another definition, the one for cursors.
fn changed(error: SqlError) -> SqlError {
    match error.number {
        2801 | 3961 => schema_changed(),
        _ => error,
    }
}
