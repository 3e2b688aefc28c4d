//! Queries of cursors: rows that are found once, and read again where they lie.
//!
//! Theory: beside its columns a row carries the key and stamp of the row of each table that it is made of. The same query
//! over scans that are pinned to those keys gives the row as it is now: with its conditions for a DYNAMIC cursor, which
//! shows a row only while it qualifies, without them for a KEYSET one, whose rows stay members.
//!
//! Only a query of filters, joins, sorts and computed columns over stored tables has such rows. One that groups, combines
//! or numbers rows is read once; a cursor over it is STATIC and READ ONLY, as in the product.

use super::api::{SelectPlan, plan_select, stamp_from_value, with_room};
use crate::access::TableAccess;
use crate::binder::Binder;
use crate::binder::tree::*;
use crate::error::Result;
use crate::host::{Host, RowPlace, TableRef};
use daruma_base::DatabaseId;
use daruma_syntax::ast;
use daruma_value::Value;
use parking_lot::Mutex;
use std::sync::Arc;

/// The key of the row that a scan gives, and no other. A plan with pins belongs to one cursor or statement.
#[derive(Debug, Default)]
pub struct RowPin(Mutex<Option<Vec<u8>>>);

impl RowPin {
    /// A pin at this key.
    pub fn at(key: &[u8]) -> Arc<RowPin> {
        Arc::new(RowPin(Mutex::new(Some(key.to_vec()))))
    }

    /// Moves it; `None`: the scan gives no row.
    fn set(&self, key: Option<&[u8]>) {
        *self.0.lock() = key.map(<[u8]>::to_vec);
    }

    pub(super) fn key(&self) -> Option<Vec<u8>> {
        self.0.lock().clone()
    }
}

/// Where a query gives key and stamp of a table's rows.
struct Locator {
    table: TableAccess,
    key: ColId,
    stamp: ColId,
}

/// How a cursor reads a row that it fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rereads {
    /// While it qualifies.
    Dynamic,
    /// As long as it is there.
    Keyset,
}

/// The query of a cursor.
pub struct CursorPlan {
    /// Finds the rows: the columns, then key and stamp for each table of `live`.
    pub select: Arc<SelectPlan>,
    pub live: Option<LivePlan>,
}

/// Reads a row of a cursor as it is now.
pub struct LivePlan {
    /// Tables of its rows, as they were when it was made.
    tables: Vec<TableAccess>,
    pins: Vec<Arc<RowPin>>,
    /// Gives what `select` gives, of the row that the pins are at.
    pub again: Arc<SelectPlan>,
}

impl LivePlan {
    /// Moves the pins to the row that has these places behind its columns.
    pub fn pin(&self, places: &[Value]) {
        for (pin, place) in self.pins.iter().zip(places.chunks(2)) {
            match place.first() {
                Some(Value::Bytes(key)) => pin.set(Some(key)),
                _ => pin.set(None),
            }
        }
    }

    /// Where the row lies; an outer join may have none in a table.
    pub fn places(&self, places: &[Value]) -> Vec<RowPlace> {
        let tables = self.tables.iter().zip(places.chunks(2));
        let place = |(of, place): (&TableAccess, &[Value])| match place {
            [Value::Bytes(key), Value::Guid(stamp)] => Some(RowPlace {
                table: of.table.key(),
                key: key.to_vec(),
                stamp: stamp_from_value(stamp),
            }),
            _ => None,
        };
        tables.filter_map(place).collect()
    }

    /// These places, with another key in the one of a table.
    pub fn moved(&self, places: &[Value], table: (DatabaseId, i32), key: &[u8]) -> Vec<Value> {
        let mut moved = places.to_vec();
        let of = self.tables.iter().zip(moved.chunks_mut(2));
        for (_, place) in of.filter(|(access, _)| access.table.key() == table) {
            if let Some(own) = place.first_mut().filter(|own| !matches!(own, Value::Null)) {
                *own = Value::Bytes(key.to_vec());
            }
        }
        moved
    }

    /// Tables that a row is made of, as they were when the plan was made.
    pub fn tables(&self) -> impl Iterator<Item = &TableRef> {
        self.tables.iter().map(|access| &access.table)
    }

    /// The table that a row lies in.
    pub fn table_of(&self, place: &RowPlace) -> Option<&TableAccess> {
        let mut tables = self.tables.iter();
        tables.find(|access| access.table.key() == place.table)
    }

    /// Are its rows made of the same tables, and of the same columns, as those of another plan?
    pub fn is_like(&self, other: &LivePlan) -> bool {
        let tables = |plan: &LivePlan| plan.tables().map(TableRef::key).collect::<Vec<_>>();
        tables(self) == tables(other) && self.again.columns() == other.again.columns()
    }
}

/// Binds and plans the query of a cursor, whose names are looked up in this database. With `locks` a row that is read again is
/// locked for update.
pub fn prepare_cursor(
    query: &ast::Query,
    database: DatabaseId,
    rereads: Rereads,
    locks: bool,
    host: &dyn Host,
) -> Result<CursorPlan> {
    with_room(|| prepare_here(query, database, rereads, locks, host))
}

fn prepare_here(
    query: &ast::Query,
    database: DatabaseId,
    rereads: Rereads,
    locks: bool,
    host: &dyn Host,
) -> Result<CursorPlan> {
    let mut binder = Binder::new(host);
    if database != host.current_database() {
        binder.database = Some(database);
    }
    let mut bound = binder.statement(query)?;
    let mut found = Vec::new();
    let is_live = bound.assignments.is_empty()
        && !takes_next_value(&mut bound.rel)
        && locate(below_top(&mut bound.rel), &mut binder, &mut found)?
        && !found.is_empty();
    if !is_live {
        let select = plan_select(&binder, bound, &[], host)?;
        return Ok(CursorPlan { select, live: None });
    }
    let mut again = bound.clone();
    again.rel = std::mem::replace(below_top(&mut again.rel), Rel::One);
    let mut pins = Vec::with_capacity(found.len());
    pin_scans(&mut again.rel, rereads, locks, &mut pins);
    let places: Vec<ColId> = found.iter().flat_map(|f| [f.key, f.stamp]).collect();
    let tables = found.into_iter().map(|f| f.table).collect();
    let again = plan_select(&binder, again, &places, host)?;
    let select = plan_select(&binder, bound, &places, host)?;
    let live = Some(LivePlan {
        tables,
        pins,
        again,
    });
    Ok(CursorPlan { select, live })
}

/// The query without TOP and OFFSET at its end, which leave rows out and change none.
fn below_top(rel: &mut Rel) -> &mut Rel {
    match rel {
        Rel::Top(top) => below_top(&mut top.input),
        rel => rel,
    }
}

/// A row that is read again would take another value.
fn takes_next_value(rel: &mut Rel) -> bool {
    let mut takes = false;
    rel.for_each_scalar_mut(&mut |scalar| {
        takes |= scalar.any(&|s| matches!(s.kind, Kind::NextValue(_)));
    });
    takes
}

/// Lets each scan give key and stamp. False when rows of the query are not made of one row of each scan.
fn locate(rel: &mut Rel, binder: &mut Binder<'_>, found: &mut Vec<Locator>) -> Result<bool> {
    match rel {
        Rel::Table(scan) => {
            let (key, stamp) = binder.locator()?;
            scan.locator = Some((key, stamp));
            found.push(Locator {
                table: scan.access.clone(),
                key,
                stamp,
            });
            Ok(true)
        }
        Rel::Filter { input, .. } | Rel::Compute { input, .. } | Rel::Sort { input, .. } => {
            locate(input, binder, found)
        }
        Rel::Join(join) if !matches!(join.kind, JoinKind::Semi | JoinKind::Anti) => {
            Ok(locate(&mut join.left, binder, found)? && locate(&mut join.right, binder, found)?)
        }
        _ => Ok(false),
    }
}

/// Pins the scans, in the order in which [`locate`] found them.
fn pin_scans(rel: &mut Rel, rereads: Rereads, locks: bool, pins: &mut Vec<Arc<RowPin>>) {
    match rel {
        Rel::Table(scan) => {
            let pin = Arc::<RowPin>::default();
            scan.pin = Some(pin.clone());
            scan.hints.updlock |= locks;
            (scan.forced_index, scan.force_seek) = (None, false);
            pins.push(pin);
        }
        Rel::Filter { input, .. } if rereads == Rereads::Keyset => {
            *rel = std::mem::replace(&mut **input, Rel::One);
            pin_scans(rel, rereads, locks, pins);
        }
        Rel::Filter { input, .. } | Rel::Compute { input, .. } | Rel::Sort { input, .. } => {
            pin_scans(input, rereads, locks, pins);
        }
        Rel::Join(join) => {
            if rereads == Rereads::Keyset {
                join.on.clear();
            }
            pin_scans(&mut join.left, rereads, locks, pins);
            pin_scans(&mut join.right, rereads, locks, pins);
        }
        _ => {}
    }
}

/// Pins the scan that gives rows under this key column. False where there is none.
pub(crate) fn pin_target(rel: &mut Rel, key: ColId, pin: &Arc<RowPin>) -> bool {
    if let Rel::Table(scan) = rel {
        let is_it = scan.target.is_some_and(|(own, _)| own == key);
        if is_it {
            scan.pin = Some(pin.clone());
            (scan.forced_index, scan.force_seek) = (None, false);
        }
        return is_it;
    }
    let mut inputs = rel.inputs_mut().into_iter();
    inputs.any(|input| pin_target(input, key, pin))
}
