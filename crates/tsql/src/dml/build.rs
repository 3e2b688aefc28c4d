//! Index builds, table rebuilds and the validation of constraints: what `ddl` needs done to all rows of a table.
//!
//! Theory: a build reads the table once, sorts the new entries (in memory up to the statement's grant, in runs on disk
//! beyond it) and inserts them in key order, so the new tree fills page after page.

use super::assign::Assign;
use super::errors::{self, Verb};
use super::expr::Evaluators;
use super::foreign::ParentLookups;
use super::keytext;
use super::sorter::Sorter;
use super::target::Writable;
use crate::access::{EntryBuffers, IndexAccess, damaged};
use crate::error::Result;
use crate::host::{Access, Host, TableKind, TableRef};
use daruma_catalog::IndexId;
use daruma_storage::{Batch, Isolation, ReadView, ScanSpec, StorageError, Txn};
use daruma_value::{DataType, Value};

/// Fills the empty tree of a nonclustered index. 1505 when the index is unique and two rows have the same key.
pub fn build_index(host: &dyn Host, table: &TableRef, index: IndexId) -> Result<()> {
    let writable = Writable::prepare(host, table)?;
    let position = table
        .def
        .indexes
        .iter()
        .position(|i| i.id == index)
        .ok_or_else(|| damaged("no such index"))?;
    let shape = writable.access.index(position)?.clone();
    let txn = host.begin_write(table)?;
    let evaluators = Evaluators::new(host);
    let mut sorter = Sorter::new(host)?;
    let mut entry = EntryBuffers::default();
    for_each_row(host, &writable, &mut |key, values| {
        if writable.is_member(&evaluators, position, values)? {
            writable
                .access
                .encode_index_entry(&txn, &shape, values, key, &mut entry)?;
            sorter.push(&entry.key, &entry.payload)?;
        }
        Ok(())
    })?;
    fill(&writable, &shape, &txn, sorter)
}

/// Copies all rows of `from` into the empty tree of `to`: the same table under another clustered index or with other
/// column types. Columns meet by id; a column that only `to` has gets its default. Gives the number of rows.
pub fn rebuild_rows(host: &dyn Host, from: &TableRef, to: &TableRef) -> Result<u64> {
    let (source, target) = (Writable::prepare(host, from)?, Writable::prepare(host, to)?);
    let origins = to
        .def
        .columns
        .iter()
        .map(|c| from.def.ordinal(c.id))
        .collect::<Vec<_>>();
    let mut assigns = Vec::with_capacity(origins.len());
    for (column, origin) in to.def.columns.iter().zip(&origins) {
        let old = origin.and_then(|o| from.def.columns.get(o));
        assigns.push(
            old.map(|old| Assign::into_column(old.data_type, to, column, host))
                .transpose()?,
        );
    }
    let txn = host.begin_write(to)?;
    let evaluators = Evaluators::new(host);
    let mut sorter = Sorter::new(host)?;
    let (mut key, mut payload, mut count) = (Vec::new(), Vec::new(), 0);
    for_each_row(host, &source, &mut |old_key, values| {
        let mut row = Vec::with_capacity(origins.len());
        for (ordinal, (origin, assign)) in origins.iter().zip(&assigns).enumerate() {
            row.push(match (origin.and_then(|o| values.get(o)), assign) {
                (Some(value), Some(assign)) => assign.convert(value.clone())?,
                _ => match target.defaults.get(ordinal) {
                    Some(Some(default)) => default.eval(&evaluators, &[])?,
                    _ => new_value(host, to, ordinal)?,
                },
            });
        }
        target.compute(&evaluators, &mut row)?;
        target.check_not_null(&row, None, Verb::AlterTable)?;
        let number = match source.access.row_number(old_key) {
            Some(number) if target.access.needs_row_number() => number,
            _ if target.access.needs_row_number() => host.next_row_number(to)?,
            _ => 0,
        };
        key.clear();
        target.access.encode_row_key(&row, number, &mut key)?;
        target.access.encode_row(&txn, &key, &row, &mut payload)?;
        count += 1;
        sorter.push(&key, &payload)
    })?;
    fill(&target, target.access.primary(), &txn, sorter)?;
    Ok(count)
}

/// Value of old rows in a column that was just added and has no default: numbers where the column makes its own.
fn new_value(host: &dyn Host, table: &TableRef, ordinal: usize) -> Result<Value> {
    let Some(column) = table.def.columns.get(ordinal) else {
        return Ok(Value::Null);
    };
    match column.data_type {
        _ if column.is_identity => {
            super::inserter::identity_value(host.next_identity(table)?, column.data_type)
        }
        DataType::RowVersion => {
            let version = host.next_rowversion(&table.database)?;
            Ok(Value::Bytes(version.to_be_bytes().to_vec()))
        }
        _ => Ok(Value::Null),
    }
}

/// Do all rows satisfy the CHECK at `position`? 547 if not.
pub fn validate_check(host: &dyn Host, table: &TableRef, position: usize) -> Result<()> {
    let writable = Writable::prepare(host, table)?;
    let Some(check) = writable.checks.iter().find(|c| c.position == position) else {
        return Ok(());
    };
    let evaluators = Evaluators::new(host);
    for_each_row(
        host,
        &writable,
        &mut |_, values| match check.test(&evaluators, values)? {
            Some(false) => Err(writable.violation(check, Verb::AlterTable)),
            _ => Ok(()),
        },
    )
}

/// Do all keys that the foreign key at `position` names exist? 547 if not.
pub fn validate_foreign_key(host: &dyn Host, table: &TableRef, position: usize) -> Result<()> {
    let writable = Writable::prepare(host, table)?;
    let mut lookups = ParentLookups::single(host, table, position)?;
    for_each_row(host, &writable, &mut |_, values| {
        lookups.note(values)?;
        lookups.relieve(host, table, Verb::AlterTable)
    })?;
    lookups.finish(host, table, Verb::AlterTable)
}

/// Is a column free of NULLs? 515 if not, for ALTER COLUMN .. NOT NULL.
pub fn validate_not_null(host: &dyn Host, table: &TableRef, ordinal: usize) -> Result<()> {
    let writable = Writable::prepare(host, table)?;
    let name = table
        .def
        .columns
        .get(ordinal)
        .map(|c| c.name.as_str())
        .unwrap_or_default();
    for_each_row(
        host,
        &writable,
        &mut |_, values| match values.get(ordinal) {
            Some(Value::Null) => Err(errors::null_not_allowed(table, name, Verb::Update)),
            _ => Ok(()),
        },
    )
}

/// Calls `each` with the key and all columns of every row: of the newest state, for what is built must hold for everyone,
/// also when the session itself reads an older snapshot.
fn for_each_row(
    host: &dyn Host,
    table: &Writable,
    each: &mut dyn FnMut(&[u8], &[Value]) -> Result<()>,
) -> Result<()> {
    let evaluators = Evaluators::new(host);
    let view = newest(host, table.table())?;
    let mut scan = table
        .access
        .tree(table.access.primary())?
        .scan(&view, ScanSpec::all());
    let (mut batch, mut values) = (Batch::new(), Vec::with_capacity(table.width()));
    while scan.next(&mut batch)? {
        super::check_cancel(host)?;
        for i in 0..batch.len() {
            values.clear();
            table.access.decode_row(batch.payload(i), &mut values)?;
            table.compute_virtual(&evaluators, &mut values)?;
            each(batch.key(i), &values)?;
        }
    }
    Ok(())
}

/// The table as it is now, locked as for any reading statement. Others cannot write it: its definition is changing.
pub(crate) fn newest(host: &dyn Host, table: &TableRef) -> Result<ReadView> {
    let seen = host.view(table, Access::Target)?;
    match table.kind {
        TableKind::User => Ok(host.txn(&table.database)?.view(Isolation::Current)),
        _ => Ok(seen),
    }
}

/// Inserts sorted entries; equal neighbours in a unique tree are 1505.
fn fill(table: &Writable, index: &IndexAccess, txn: &Txn, sorter: Sorter) -> Result<()> {
    let tree = table.access.tree(index)?;
    let duplicate = |payload: &[u8]| -> crate::error::SqlError {
        let values = (0..table.width()).map(|o| {
            table
                .access
                .column(index, payload, o)
                .unwrap_or(Value::Null)
        });
        let text = keytext::key_text(&table.access, index, &values.collect::<Vec<_>>());
        errors::duplicate_in_build(table.table(), &index.def, &text)
    };
    sorter.drain(&mut |batch| {
        if let Some(i) = (1..batch.len()).find(|i| batch.key(*i) == batch.key(*i - 1)) {
            return Err(duplicate(batch.payload(i)));
        }
        match tree.insert_batch(txn, batch) {
            Err(StorageError::DuplicateKey { key }) => {
                let at = (0..batch.len()).find(|i| batch.key(*i) == key.as_slice());
                Err(at.map_or_else(|| damaged("duplicate key"), |i| duplicate(batch.payload(i))))
            }
            other => Ok(other?),
        }
    })
}
