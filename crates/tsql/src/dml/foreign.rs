//! Foreign keys: do the keys that rows name exist, and what happens to rows whose key goes away.
//!
//! Theory: both directions look after they wrote, at the newest committed state, waiting for writers in between. An
//! insert of a child and a delete of its parent at the same time therefore cannot miss each other: one of them waits.
//! Keys are gathered during the statement and looked up at its end, each once, so a statement may delete a parent and
//! its children, or insert rows that name each other.
//!
//! Invariants
//! 1. A key with a NULL in it refers to nothing.
//! 2. Cascades are changes like any other: they check, cascade and fire triggers in turn, to a bounded depth.

use super::apply::{Change, OldRow};
use super::errors::{self, Verb};
use super::target::Writable;
use crate::access::{IndexAccess, TableAccess, damaged, split_entry};
use crate::error::Result;
use crate::executor::{ReadBlock, RowGatherer, SharedRows};
use crate::host::{Access, Host, TableRef};
use daruma_catalog::{ForeignKeyDef, ReferentialAction};
use daruma_storage::{Batch, ReadView, ScanSpec, Stamp, Tree, TreeUse};
use daruma_value::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Distinct keys held for a statement before they are looked up.
const PENDING_KEYS_MAX: usize = 100_000;
/// Keys whose children are looked for together.
const PART_KEYS: usize = 32_768;
/// Longest chain of tables that one deleted row may reach.
const CASCADE_DEPTH_MAX: usize = 32;

/// Keys that rows of one table name, to be found in their parents.
pub struct ParentLookups {
    lookups: Vec<ParentLookup>,
}

struct ParentLookup {
    /// Position in `TableDef::foreign_keys`.
    position: usize,
    parent: TableAccess,
    index: usize,
    /// Columns of the child in the order of the parent index's key.
    ordinals: Vec<usize>,
    pending: BTreeSet<Vec<u8>>,
    last: Vec<u8>,
    /// Buffer.
    key: Vec<u8>,
    /// The parent is the table itself: rows of this statement may be parents.
    at_end: bool,
}

impl ParentLookups {
    /// For the foreign keys of `table` that read a column of `changed` (all for new rows).
    pub fn new(
        host: &dyn Host,
        table: &TableRef,
        changed: Option<&[bool]>,
    ) -> Result<ParentLookups> {
        let mut lookups = Vec::new();
        for (position, key) in table
            .def
            .foreign_keys
            .iter()
            .enumerate()
            .filter(|(_, k)| !k.disabled)
        {
            let is_changed = |id: &i32| {
                let ordinal = table.def.ordinal(*id);
                changed.is_none_or(|c| ordinal.and_then(|o| c.get(o)).copied().unwrap_or(false))
            };
            if key.columns.iter().any(is_changed) {
                lookups.push(ParentLookup::new(host, table, position, key)?);
            }
        }
        Ok(ParentLookups { lookups })
    }

    /// One foreign key alone, for ALTER TABLE.
    pub fn single(host: &dyn Host, table: &TableRef, position: usize) -> Result<ParentLookups> {
        let key = table
            .def
            .foreign_keys
            .get(position)
            .ok_or_else(|| damaged("no such foreign key"))?;
        Ok(ParentLookups {
            lookups: vec![ParentLookup::new(host, table, position, key)?],
        })
    }

    /// Is there no foreign key that this statement must look after?
    pub fn is_empty(&self) -> bool {
        self.lookups.is_empty()
    }

    /// Notes the values of a row whose parents must be there.
    pub fn note(&mut self, values: &[Value]) -> Result<()> {
        self.lookups
            .iter_mut()
            .try_for_each(|lookup| lookup.note(values))
    }

    /// Looks up what may be looked up before the statement ends, when enough has gathered.
    pub fn relieve(&mut self, host: &dyn Host, table: &TableRef, verb: Verb) -> Result<()> {
        for lookup in &mut self.lookups {
            if !lookup.at_end && lookup.pending.len() > PENDING_KEYS_MAX {
                lookup.resolve(host, table, verb)?;
            }
        }
        Ok(())
    }

    /// All rows of the statement are written: every key must exist now.
    pub fn finish(&mut self, host: &dyn Host, table: &TableRef, verb: Verb) -> Result<()> {
        self.lookups
            .iter_mut()
            .try_for_each(|lookup| lookup.resolve(host, table, verb))
    }
}

impl ParentLookup {
    fn new(
        host: &dyn Host,
        table: &TableRef,
        position: usize,
        key: &ForeignKeyDef,
    ) -> Result<ParentLookup> {
        let at_end = key.referenced_table == table.object_id;
        let parent = if at_end {
            table.clone()
        } else {
            host.table_by_id(table.database.id(), key.referenced_table)?
        };
        let parent = TableAccess::new(&parent)?;
        let index = referenced_index(&parent, key)?;
        let ordinals = child_ordinals(table, &parent, parent.index(index)?, key)?;
        Ok(ParentLookup {
            position,
            parent,
            index,
            ordinals,
            pending: BTreeSet::new(),
            last: Vec::new(),
            key: Vec::new(),
            at_end,
        })
    }

    fn note(&mut self, values: &[Value]) -> Result<()> {
        let mut named = self
            .ordinals
            .iter()
            .map(|o| values.get(*o).unwrap_or(&Value::Null));
        if named.clone().any(Value::is_null) {
            return Ok(());
        }
        self.key.clear();
        self.parent
            .index(self.index)?
            .encode_prefix(&mut named, &mut self.key);
        if self.key != self.last {
            self.last.clone_from(&self.key);
            if !self.pending.contains(&self.key) {
                self.pending.insert(self.key.clone());
            }
        }
        Ok(())
    }

    fn resolve(&mut self, host: &dyn Host, table: &TableRef, verb: Verb) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let view = host.view(&self.parent.table, Access::Constraint)?;
        let index = self.parent.index(self.index)?;
        let tree = self.parent.tree(index)?;
        self.parent.note_use(self.index, TreeUse::Seek)?;
        for key in std::mem::take(&mut self.pending) {
            if !key_exists(&tree, &view, index, &key)? {
                let def = table
                    .def
                    .foreign_keys
                    .get(self.position)
                    .ok_or_else(|| damaged("no such foreign key"))?;
                return Err(errors::foreign_key_violation(
                    &self.parent.table,
                    table,
                    def,
                    verb,
                ));
            }
        }
        self.last.clear();
        Ok(())
    }
}

/// Position of the parent's index that a foreign key refers to.
fn referenced_index(parent: &TableAccess, key: &ForeignKeyDef) -> Result<usize> {
    let indexes = &parent.layouts.indexes;
    indexes
        .iter()
        .position(|i| i.def.id == key.referenced_index)
        .ok_or_else(|| damaged("no referenced index"))
}

/// Child columns in the order of the parent's index key.
fn child_ordinals(
    child: &TableRef,
    parent: &TableAccess,
    index: &IndexAccess,
    key: &ForeignKeyDef,
) -> Result<Vec<usize>> {
    let mut ordinals = Vec::with_capacity(index.key.len());
    for column in &index.key {
        let id = parent.def().columns.get(column.ordinal).map(|c| c.id);
        let at = key.referenced_columns.iter().position(|c| Some(*c) == id);
        let own = at
            .and_then(|at| key.columns.get(at))
            .and_then(|id| child.def.ordinal(*id));
        ordinals.push(own.ok_or_else(|| damaged("foreign key and index differ"))?);
    }
    Ok(ordinals)
}

fn key_exists(tree: &Arc<Tree>, view: &ReadView, index: &IndexAccess, key: &[u8]) -> Result<bool> {
    if index.def.unique {
        return Ok(tree.get(view, key)?.is_some());
    }
    Ok(tree
        .scan(view, ScanSpec::prefix(key.to_vec()))
        .next(&mut Batch::new())?)
}

/// Action of a foreign key of another table (or this one) when a key of this table goes away.
struct ChildLookup {
    child: TableRef,
    /// Position in the child's `foreign_keys`.
    position: usize,
    parent_index: usize,
    /// Columns of this table, in the order of the parent index's key.
    ordinals: Vec<usize>,
    on_delete: ReferentialAction,
    on_update: ReferentialAction,
    /// Of each: the key as in the parent's index, the old values in the order of `ForeignKeyDef::referenced_columns`, and the new
    /// ones if there are.
    removed: RowGatherer,
    /// The rows were changed, not deleted.
    is_update: bool,
}

/// Keys that a statement removed, and what became of them; read in parts, as they may be more than memory holds.
pub struct RemovedKeys {
    rows: SharedRows,
    /// Columns of the foreign key.
    width: usize,
    is_update: bool,
}

/// One of them.
pub struct RemovedKey {
    /// As in the parent's index.
    key: Vec<u8>,
    pub old: Vec<Value>,
    pub new: Option<Vec<Value>>,
}

impl RemovedKeys {
    /// Hands them over part by part; false of `each` ends it.
    pub fn parts(&self, each: &mut dyn FnMut(&[RemovedKey]) -> Result<bool>) -> Result<()> {
        let (mut part, mut read) = (Vec::new(), ReadBlock::default());
        for row in 0..self.rows.len() {
            part.push(self.removed_key(self.rows.row(row, &mut read)?)?);
            let is_last = row + 1 == self.rows.len();
            if (is_last || part.len() >= PART_KEYS) && !each(&std::mem::take(&mut part))? {
                break;
            }
        }
        Ok(())
    }

    /// The one that the row of a child names now.
    pub fn named_by(
        &self,
        access: &TableAccess,
        ordinals: &[usize],
        values: &[Value],
    ) -> Result<Option<RemovedKey>> {
        let mut read = ReadBlock::default();
        for row in 0..self.rows.len() {
            let removed = self.removed_key(self.rows.row(row, &mut read)?)?;
            if still_names(access, ordinals, values, &removed.old)? {
                return Ok(Some(removed));
            }
        }
        Ok(None)
    }

    fn removed_key(&self, row: &[Value]) -> Result<RemovedKey> {
        let Some((Value::Bytes(key), values)) = row.split_first() else {
            return Err(damaged("removed key without key"));
        };
        let (old, new) = values
            .split_at_checked(self.width)
            .ok_or_else(|| damaged("removed key too short"))?;
        Ok(RemovedKey {
            key: key.clone(),
            old: old.to_vec(),
            new: self.is_update.then(|| new.to_vec()),
        })
    }
}

/// Keys of one table that a statement removes, with the foreign keys that refer to them.
pub struct ChildLookups {
    lookups: Vec<ChildLookup>,
}

/// Rows of a child that a removed key reaches, and what shall become of them.
pub struct Cascade {
    pub child: TableRef,
    pub action: CascadeAction,
    pub keys: RemovedKeys,
    /// Columns of the child, in the same order.
    pub ordinals: Vec<usize>,
}

/// Fate of the rows that refer to a row which goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CascadeAction {
    Delete,
    /// Give the child's columns the parent's new values.
    Follow,
    SetNull,
    SetDefault,
}

impl ChildLookups {
    /// Foreign keys that refer to columns of `changed` (all for a delete).
    pub fn new(
        host: &dyn Host,
        table: &TableRef,
        changed: Option<&[bool]>,
    ) -> Result<ChildLookups> {
        let mut lookups = Vec::new();
        if !may_be_referenced(table, changed) {
            return Ok(ChildLookups { lookups });
        }
        for (child, position) in host.referencing(table)? {
            let key = child
                .def
                .foreign_keys
                .get(position)
                .ok_or_else(|| damaged("no such foreign key"))?
                .clone();
            let is_changed = |id: &i32| {
                let ordinal = table.def.ordinal(*id);
                changed.is_none_or(|c| ordinal.and_then(|o| c.get(o)).copied().unwrap_or(false))
            };
            if key.disabled || !key.referenced_columns.iter().any(is_changed) {
                continue;
            }
            let parent = TableAccess::new(table)?;
            let parent_index = referenced_index(&parent, &key)?;
            let ordinals = parent
                .index(parent_index)?
                .key
                .iter()
                .map(|k| k.ordinal)
                .collect();
            lookups.push(ChildLookup {
                child,
                position,
                parent_index,
                ordinals,
                on_delete: key.on_delete,
                on_update: key.on_update,
                removed: RowGatherer::default(),
                is_update: changed.is_some(),
            });
        }
        Ok(ChildLookups { lookups })
    }

    /// Does no table refer to this one?
    pub fn is_empty(&self) -> bool {
        self.lookups.is_empty()
    }

    /// Notes the keys that `change` removed.
    pub fn note(&mut self, host: &dyn Host, table: &Writable, change: &Change) -> Result<()> {
        let Some(old) = &change.old else {
            return Ok(());
        };
        self.lookups
            .iter_mut()
            .try_for_each(|lookup| lookup.note(host, table, old, change.new.as_deref()))
    }

    /// Refuses with 547 where a foreign key says NO ACTION, and gives back the work of the others.
    pub fn finish(self, host: &dyn Host, table: &Writable, verb: Verb) -> Result<Vec<Cascade>> {
        let mut cascades = Vec::new();
        for lookup in self.lookups {
            if !lookup.removed.is_empty() {
                cascades.extend(lookup.finish(host, table, verb)?);
            }
        }
        Ok(cascades)
    }
}

/// Foreign keys refer to unique keys only: is a column of one among these?
fn may_be_referenced(table: &TableRef, changed: Option<&[bool]>) -> bool {
    let is_changed = |id: i32| {
        let ordinal = table.def.ordinal(id);
        changed.is_none_or(|c| ordinal.and_then(|o| c.get(o)).copied().unwrap_or(false))
    };
    let unique = table.def.indexes.iter().filter(|i| i.unique);
    unique.flat_map(|i| &i.key).any(|k| is_changed(k.column_id))
}

impl ChildLookup {
    fn definition(&self) -> Result<&ForeignKeyDef> {
        self.child
            .def
            .foreign_keys
            .get(self.position)
            .ok_or_else(|| damaged("no such foreign key"))
    }

    fn note(
        &mut self,
        host: &dyn Host,
        table: &Writable,
        old: &OldRow,
        new: Option<&[Value]>,
    ) -> Result<()> {
        debug_assert_eq!(new.is_some(), self.is_update);
        let index = table.access.index(self.parent_index)?;
        let mut key = Vec::new();
        index.encode_key_columns(&old.values, &mut key)?;
        if let Some(new) = new {
            let mut new_key = Vec::new();
            index.encode_key_columns(new, &mut new_key)?;
            if new_key == key {
                return Ok(());
            }
        }
        if self
            .ordinals
            .iter()
            .any(|o| old.values.get(*o).is_none_or(Value::is_null))
        {
            return Ok(());
        }
        let mut row = vec![Value::Bytes(key)];
        for id in &self.definition()?.referenced_columns {
            row.push(value_of(table, &old.values, *id));
        }
        if let Some(new) = new {
            for id in &self.definition()?.referenced_columns {
                row.push(value_of(table, new, *id));
            }
        }
        self.removed.add(&row, host)
    }

    fn finish(mut self, host: &dyn Host, table: &Writable, verb: Verb) -> Result<Option<Cascade>> {
        let ordinals = fk_ordinals(&self.child, self.definition()?)?;
        let keys = RemovedKeys {
            rows: std::mem::take(&mut self.removed).finish()?,
            width: ordinals.len(),
            is_update: self.is_update,
        };
        let action = match self.is_update {
            true => self.on_update,
            false => self.on_delete,
        };
        let action = match action {
            ReferentialAction::NoAction => {
                self.refuse(host, table, &ordinals, &keys, verb)?;
                return Ok(None);
            }
            ReferentialAction::Cascade if self.is_update => CascadeAction::Follow,
            ReferentialAction::Cascade => CascadeAction::Delete,
            ReferentialAction::SetNull => CascadeAction::SetNull,
            ReferentialAction::SetDefault => CascadeAction::SetDefault,
        };
        Ok(Some(Cascade {
            child: self.child,
            action,
            keys,
            ordinals,
        }))
    }

    /// NO ACTION: keys that are really gone may have no children.
    fn refuse(
        &self,
        host: &dyn Host,
        table: &Writable,
        ordinals: &[usize],
        keys: &RemovedKeys,
        verb: Verb,
    ) -> Result<()> {
        let index = table.access.index(self.parent_index)?;
        let tree = table.access.tree(index)?;
        let view = host.view(table.table(), Access::Constraint)?;
        let mut found = false;
        keys.parts(&mut |part| {
            let mut gone = Vec::new();
            for removed in part {
                if !key_exists(&tree, &view, index, &removed.key)? {
                    gone.push(removed.old.as_slice());
                }
            }
            find_children(host, &self.child, ordinals, &gone, &mut |_, _| {
                found = true;
                Ok(false)
            })?;
            Ok(!found)
        })?;
        if !found {
            return Ok(());
        }
        Err(errors::reference_violation(
            table.table(),
            &self.child,
            self.definition()?,
            verb,
        ))
    }
}

/// The value of the column with this id; NULL where there is none.
fn value_of(table: &Writable, values: &[Value], column: i32) -> Value {
    let ordinal = table.access.def().ordinal(column);
    let value = ordinal.and_then(|o| values.get(o)).cloned();
    value.unwrap_or(Value::Null)
}

fn fk_ordinals(child: &TableRef, key: &ForeignKeyDef) -> Result<Vec<usize>> {
    let ordinal = |id: &i32| {
        child
            .def
            .ordinal(*id)
            .ok_or_else(|| damaged("foreign key on a missing column"))
    };
    key.columns.iter().map(ordinal).collect()
}

/// Called with the number of the key and the child row (its key, stamp and payload); false ends the search.
pub type ChildRow<'a> = dyn FnMut(usize, FoundRow<'_>) -> Result<bool> + 'a;

/// A row as its index holds it.
pub struct FoundRow<'a> {
    pub key: &'a [u8],
    pub stamp: Stamp,
    pub payload: &'a [u8],
}

/// Finds rows of `child` whose columns `ordinals` equal one of `keys`, by index where there is one.
pub fn find_children(
    host: &dyn Host,
    child: &TableRef,
    ordinals: &[usize],
    keys: &[&[Value]],
    each: &mut ChildRow,
) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let access = TableAccess::new(child)?;
    let view = host.view(child, Access::Constraint)?;
    match suitable_index(&access, ordinals) {
        Some((position, order)) => seek_children(&access, &view, position, &order, keys, each),
        None => scan_children(host, &access, &view, ordinals, keys, each),
    }
}

/// An index whose leading key columns are just the foreign key's, with the order in which it has them.
fn suitable_index(access: &TableAccess, ordinals: &[usize]) -> Option<(usize, Vec<usize>)> {
    let indexes = access
        .layouts
        .indexes
        .iter()
        .enumerate()
        .filter(|(_, i)| !i.def.disabled && i.def.filter.is_none());
    for (position, index) in indexes {
        let leading = index.key.get(..ordinals.len()).unwrap_or_default();
        let order: Option<Vec<_>> = leading
            .iter()
            .map(|k| ordinals.iter().position(|o| *o == k.ordinal))
            .collect();
        if let Some(order) = order
            && order.len() == ordinals.len()
            && order.iter().collect::<BTreeSet<_>>().len() == order.len()
        {
            return Some((position, order));
        }
    }
    None
}

fn seek_children(
    access: &TableAccess,
    view: &ReadView,
    position: usize,
    order: &[usize],
    keys: &[&[Value]],
    each: &mut ChildRow,
) -> Result<()> {
    let index = access.index(position)?;
    let tree = access.tree(index)?;
    let own = access.tree(access.primary())?;
    access.note_use(position, TreeUse::Seek)?;
    if position != 0 {
        access.note_use(0, TreeUse::Lookup)?;
    }
    let mut batch = Batch::new();
    for (n, key) in keys.iter().enumerate() {
        let values = order.iter().map(|at| key.get(*at).unwrap_or(&Value::Null));
        let mut scan = tree.scan(view, index.prefix_scan(values));
        while scan.next(&mut batch)? {
            for i in 0..batch.len() {
                if index.is_primary() {
                    let row = FoundRow {
                        key: batch.key(i),
                        stamp: batch.stamp(i),
                        payload: batch.payload(i),
                    };
                    if !each(n, row)? {
                        return Ok(());
                    }
                    continue;
                }
                let (locator, _) = split_entry(batch.payload(i))?;
                if let Some(entry) = own.get(view, locator)?
                    && !each(
                        n,
                        FoundRow {
                            key: locator,
                            stamp: entry.stamp,
                            payload: &entry.payload,
                        },
                    )?
                {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// One pass over a child without a suitable index, for all keys.
fn scan_children(
    host: &dyn Host,
    access: &TableAccess,
    view: &ReadView,
    ordinals: &[usize],
    keys: &[&[Value]],
    each: &mut ChildRow,
) -> Result<()> {
    let wanted = keys
        .iter()
        .enumerate()
        .map(|(n, key)| Ok((comparable(access, ordinals, key)?, n)))
        .collect::<Result<BTreeMap<_, _>>>()?;
    access.note_use(0, TreeUse::Scan)?;
    let mut scan = access.tree(access.primary())?.scan(view, ScanSpec::all());
    let (mut batch, mut values) = (Batch::new(), Vec::new());
    while scan.next(&mut batch)? {
        super::check_cancel(host)?;
        for i in 0..batch.len() {
            values.clear();
            for ordinal in ordinals {
                values.push(access.column(access.primary(), batch.payload(i), *ordinal)?);
            }
            if values.iter().any(Value::is_null) {
                continue;
            }
            if let Some(n) = wanted.get(&comparable(access, ordinals, &values)?)
                && !each(
                    *n,
                    FoundRow {
                        key: batch.key(i),
                        stamp: batch.stamp(i),
                        payload: batch.payload(i),
                    },
                )?
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Bytes that are equal exactly when the values of these columns are.
fn comparable(access: &TableAccess, ordinals: &[usize], values: &[Value]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for (ordinal, value) in ordinals.iter().zip(values) {
        let column = access
            .def()
            .columns
            .get(*ordinal)
            .ok_or_else(|| damaged("row too short"))?;
        daruma_value::compare::write_key(value, column.collation, &mut out);
    }
    Ok(out)
}

/// Does the row still name this key? Asked again when it changed between search and write.
pub fn still_names(
    access: &TableAccess,
    ordinals: &[usize],
    values: &[Value],
    key: &[Value],
) -> Result<bool> {
    let own: Vec<_> = ordinals
        .iter()
        .map(|o| values.get(*o).cloned().unwrap_or(Value::Null))
        .collect();
    Ok(!own.iter().any(Value::is_null)
        && comparable(access, ordinals, &own)? == comparable(access, ordinals, key)?)
}

/// Cascades that would run away end here.
pub fn check_depth(depth: usize) -> Result<()> {
    if depth < CASCADE_DEPTH_MAX {
        Ok(())
    } else {
        Err(errors::too_deep(CASCADE_DEPTH_MAX))
    }
}
