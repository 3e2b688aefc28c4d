//! Space of a table's trees: how large an entry can become, and dropping or emptying a tree with what was moved out of it.

use super::{IndexAccess, index_access};
use crate::access::damaged;
use crate::error::Result;
use daruma_catalog::{ColumnDef, IndexDef, TableDef};
use daruma_storage::{Batch, BlobRef, ENTRY_BYTES_MAX, Isolation, KEY_BYTES_MAX, ScanSpec, Txn};
use daruma_value::DataType;

/// Can an entry of the table or of one of its indexes be so long that values move out of it?
pub fn has_movable_columns(def: &TableDef) -> bool {
    longest_row(def.columns.iter()) + longest_keys(def) > ENTRY_BYTES_MAX
}

/// Most bytes that these columns take in a row, counted generously.
fn longest_row<'c>(columns: impl Iterator<Item = &'c ColumnDef>) -> usize {
    columns.map(|c| column_bytes(c) + 4).sum()
}

fn column_bytes(column: &ColumnDef) -> usize {
    match column.data_type {
        // UTF-8 needs up to three bytes for a code unit.
        DataType::NChar(len) | DataType::NVarChar(len) if !len.is_max() => usize::from(len.0) * 3,
        DataType::Char(len) | DataType::VarChar(len) if !len.is_max() => usize::from(len.0) * 3,
        other => usize::try_from(other.max_length()).unwrap_or(ENTRY_BYTES_MAX + 1),
    }
}

/// Bytes that an entry may hold besides its columns: its key, and in an index the row's key as locator, perhaps in the key too.
fn longest_keys(def: &TableDef) -> usize {
    let key_bytes = |index: &IndexDef| {
        let columns = index.key.iter().filter_map(|k| def.column(k.column_id));
        // A key doubles some bytes so that they compare.
        let bytes: usize = columns.map(|c| 2 * column_bytes(c) + 8).sum();
        (bytes + 8).min(KEY_BYTES_MAX)
    };
    let locator = def.primary().map_or(0, key_bytes);
    let own = def.indexes.iter().map(key_bytes).max().unwrap_or(0);
    own + 2 * locator
}

/// Drops a tree of a table, and the values outside of its rows: storage does not know what rows refer to.
pub(crate) fn drop_tree(txn: &Txn, def: &TableDef, index: &IndexDef) -> Result<()> {
    if index.tree.0.is_none() {
        return Ok(());
    }
    if has_movable_columns(def) {
        let primary = def.primary();
        let primary = primary.ok_or_else(|| damaged("table without storage"))?;
        match free_values(txn, &index_access(def, primary, index)?) {
            // A damaged table can be dropped; what its unreadable rows refer to stays behind.
            Err(error) if error.number == 824 => {}
            other => other?,
        }
    }
    Ok(txn.database().drop_tree(txn, index.tree)?)
}

/// Deletes all entries of a tree, one after the other, and the values outside of its rows. It needs log for each, and no page,
/// also when it is taken back. Nobody else may write in the tree. `go_on` is asked for each page.
pub(crate) fn empty_tree(
    txn: &Txn,
    def: &TableDef,
    index: &IndexDef,
    go_on: impl Fn() -> Result<()>,
) -> Result<()> {
    if index.tree.0.is_none() {
        return Ok(());
    }
    if has_movable_columns(def) {
        let primary = def.primary();
        let primary = primary.ok_or_else(|| damaged("table without storage"))?;
        free_values(txn, &index_access(def, primary, index)?)?;
    }
    let tree = txn.database().tree(index.tree)?;
    let mut scan = tree.scan(&txn.view(Isolation::Current), ScanSpec::all());
    let mut batch = Batch::new();
    let mut refused = Vec::new();
    while scan.next(&mut batch)? {
        go_on()?;
        tree.delete_batch(txn, &batch, &mut refused)?;
        if !refused.is_empty() {
            return Err(damaged("table that changes under an exclusive lock"));
        }
    }
    Ok(())
}

fn free_values(txn: &Txn, index: &IndexAccess) -> Result<()> {
    let database = txn.database();
    let view = txn.view(Isolation::Current);
    let mut scan = database.tree(index.def.tree)?.scan(&view, ScanSpec::all());
    let mut batch = Batch::new();
    while scan.next(&mut batch)? {
        for i in 0..batch.len() {
            let row = index.view(batch.payload(i))?;
            for reference in (0..row.column_count()).filter_map(|p| row.overflow(p)) {
                database.free_blob(txn, BlobRef::from_bytes(reference))?;
            }
        }
    }
    Ok(())
}
