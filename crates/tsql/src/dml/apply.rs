//! Applies a set of row changes to a table's trees: the table itself first, then its indexes.
//!
//! Theory: writing a row of the table's own tree takes its lock (its last writer is this transaction), so everything
//! that depends on the row happens after it. A set of changes is applied in three steps, which make it independent of
//! the order of its rows: first all rows are updated in place or deleted, then old index entries go, then moved and
//! new rows and entries come. `update t set id = id + 1` therefore never meets its own rows.
//!
//! Invariants
//! 1. A row that changed since it was read is not written: the caller reads it again and decides anew, until it is
//!    written or no longer qualifies.
//! 2. Index entries are touched only by the transaction that owns their row.

use super::changes::Changes;
use super::entries::EntrySet;
use super::errors;
use super::expr::Evaluators;
use super::keytext;
use super::target::Writable;
use crate::access::{EntryBuffers, IndexAccess, damaged};
use crate::error::{Result, SqlError};
use crate::host::{Access, Host};
use daruma_storage::{
    Batch, BlobRef, Bound, Direction, Isolation, ScanSpec, Stamp, StorageError, Tree, Txn,
    UpdateBatch, WriteOutcome,
};
use daruma_value::Value;
use std::sync::Arc;

/// A stored row as it was read.
#[derive(Clone, Debug)]
pub struct OldRow {
    pub key: Vec<u8>,
    pub stamp: Stamp,
    pub payload: Vec<u8>,
    /// All columns of the definition; virtual computed ones where the table needs them.
    pub values: Vec<Value>,
}

/// One row's fate: insert (no old), delete (no new) or update.
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub old: Option<OldRow>,
    pub new: Option<Vec<Value>>,
    /// Columns of the other tables of FROM, for OUTPUT.
    pub sources: Vec<Value>,
    /// Once it is written: its new key, if it moved within the table's own tree.
    pub moved_to: Option<Vec<u8>>,
}

/// Decides anew about a row that changed after it was read; `None` when it does not qualify any more.
pub type Requalify<'a> = dyn FnMut(&[u8]) -> Result<Option<Change>> + 'a;

/// Attempts to write an index entry whose stamp keeps changing. Its row is ours, so more than one is a defect.
const ENTRY_ATTEMPTS: usize = 100;
/// Fewer index entries than this are looked up one by one.
const SCANNED_ENTRIES_MIN: usize = 16;

/// Writes rows into all indexes of a table, a batch at a time, each index in the order of its keys.
pub struct Applier<'a> {
    pub host: &'a dyn Host,
    pub table: &'a Writable,
    pub txn: Txn,
    /// Which of `TableDef::indexes` an update can touch; all for inserts and deletes.
    pub touched: &'a [bool],
    /// Was a duplicate dropped because of IGNORE_DUP_KEY?
    pub ignored_duplicates: bool,
    batch: Batch,
    entry: EntryBuffers,
    /// Values moved out of rows that were then refused.
    unused_blobs: Vec<BlobRef>,
    evaluators: Evaluators<'a>,
}

impl<'a> Applier<'a> {
    /// Writes under this transaction; `touched` names the indexes that an update can touch.
    pub fn new(
        host: &'a dyn Host,
        table: &'a Writable,
        txn: Txn,
        touched: &'a [bool],
    ) -> Applier<'a> {
        Applier {
            host,
            table,
            txn,
            touched,
            ignored_duplicates: false,
            batch: Batch::new(),
            entry: EntryBuffers::default(),
            unused_blobs: Vec::new(),
            evaluators: Evaluators::new(host),
        }
    }

    /// Applies updates and deletes. Gives back what was really done. Each step goes over all changes before the next begins.
    pub fn apply(&mut self, changes: Changes, requalify: &mut Requalify) -> Result<Changes> {
        let (table, host) = (self.table, self.host);
        let (mut done, mut moves) = (Changes::default(), false);
        changes.into_parts(host, |part| {
            let written = self.write_own_rows(part, requalify)?;
            moves |= written.iter().any(|change| change.moved_to.is_some());
            done.extend(written, host)
        })?;
        for (position, index) in table.access.secondary() {
            if self.touches(position) || moves {
                done.parts(host, |part| self.remove_entries(position, index, part))?;
            }
        }
        if moves {
            done.parts(host, |part| self.insert_moved_rows(part))?;
        }
        for (position, index) in table.access.secondary() {
            if self.touches(position) || moves {
                done.parts(host, |part| self.add_entries(position, index, part))?;
            }
        }
        Ok(done)
    }

    fn touches(&self, position: usize) -> bool {
        self.touched.get(position).copied().unwrap_or(true)
    }

    /// Step one, of a part of the changes.
    fn write_own_rows(
        &mut self,
        changes: Vec<Change>,
        requalify: &mut Requalify,
    ) -> Result<Vec<Change>> {
        let tree = self.table.access.tree(self.table.access.primary())?;
        let mut done = Vec::with_capacity(changes.len());
        let mut pending = changes;
        if self.table.has_movable_columns {
            self.fetch_payloads(&tree, &mut pending)?;
        }
        while !pending.is_empty() {
            for change in &mut pending {
                change.moved_to = self.moved_key(change)?;
            }
            let refused = self.try_own_rows(&tree, &pending)?;
            if !refused.is_empty() {
                self.free_unused_blobs()?;
            }
            let mut again = Vec::new();
            for (i, change) in pending.into_iter().enumerate() {
                match refused.binary_search_by_key(&i, |(row, _)| *row) {
                    Err(_) => {
                        self.free_blobs(&change)?;
                        done.push(change);
                    }
                    Ok(at)
                        if refused
                            .get(at)
                            .is_some_and(|(_, o)| *o == WriteOutcome::Gone) => {}
                    Ok(_) => {
                        let key = change
                            .old
                            .as_ref()
                            .map(|o| o.key.as_slice())
                            .unwrap_or_default();
                        again.extend(requalify(key)?);
                    }
                }
            }
            pending = again;
        }
        Ok(done)
    }

    /// Rows whose values may lie in blobs are needed as stored, to free them. One that changed meanwhile is refused anyway.
    fn fetch_payloads(&self, tree: &Arc<Tree>, changes: &mut [Change]) -> Result<()> {
        let view = self.host.view(self.table.table(), Access::Target)?;
        let olds = changes.iter_mut().filter_map(|c| c.old.as_mut());
        for old in olds.filter(|old| old.payload.is_empty()) {
            if let Some(entry) = tree.get(&view, &old.key)?
                && entry.stamp == old.stamp
            {
                old.payload = entry.payload;
            }
        }
        Ok(())
    }

    /// New key of an updated row if it differs from the old one.
    fn moved_key(&self, change: &Change) -> Result<Option<Vec<u8>>> {
        let (Some(old), Some(new)) = (&change.old, &change.new) else {
            return Ok(None);
        };
        if !self.touches(0) {
            return Ok(None);
        }
        let access = &self.table.access;
        let mut key = Vec::with_capacity(old.key.len());
        access.encode_row_key(new, access.row_number(&old.key).unwrap_or(0), &mut key)?;
        Ok((key != old.key).then_some(key))
    }

    /// Updates rows that stay and deletes rows that go or move. Gives back the refused ones, sorted by row.
    fn try_own_rows(
        &mut self,
        tree: &Arc<Tree>,
        changes: &[Change],
    ) -> Result<Vec<(usize, WriteOutcome)>> {
        let (mut updates, mut deletes) = (EntrySet::new(), EntrySet::new());
        for (i, change) in changes.iter().enumerate() {
            let Some(old) = &change.old else { continue };
            match &change.new {
                Some(new) if change.moved_to.is_none() => {
                    self.table.access.encode_row(
                        &self.txn,
                        &old.key,
                        new,
                        &mut self.entry.payload,
                    )?;
                    updates.push(&old.key, &self.entry.payload, old.stamp, i);
                }
                _ => deletes.push(&old.key, &[], old.stamp, i),
            }
        }
        let mut refused = Vec::new();
        updates.sort();
        let (mut update, mut part) = (UpdateBatch::new(), Vec::new());
        let mut unused = Vec::new();
        updates.in_batches(&mut self.batch, |batch, first| {
            update.clear();
            (0..batch.len())
                .for_each(|i| update.push(batch.key(i), batch.stamp(i), batch.payload(i)));
            part.clear();
            tree.update_batch(&self.txn, &update, &mut part)?;
            for (i, outcome) in &part {
                refused.push((updates.row(first + i), *outcome));
                if self.table.has_movable_columns {
                    let access = &self.table.access;
                    let payload = batch.payload(*i);
                    unused.extend(access.blobs(access.primary(), payload)?);
                }
            }
            Ok(())
        })?;
        self.unused_blobs = unused;
        deletes.sort();
        deletes.in_batches(&mut self.batch, |batch, first| {
            part.clear();
            tree.delete_batch(&self.txn, batch, &mut part)?;
            refused.extend(
                part.iter()
                    .map(|(i, outcome)| (deletes.row(first + i), *outcome)),
            );
            Ok(())
        })?;
        refused.sort_by_key(|(row, _)| *row);
        Ok(refused)
    }

    /// A refused row is computed and stored anew, or not at all: what was moved out of its first version goes.
    fn free_unused_blobs(&mut self) -> Result<()> {
        let database = self.table.access.database();
        self.unused_blobs
            .drain(..)
            .try_for_each(|blob| Ok(database.free_blob(&self.txn, blob)?))
    }

    /// The new version of a row has blobs of its own.
    fn free_blobs(&self, change: &Change) -> Result<()> {
        let Some(old) = &change.old else {
            return Ok(());
        };
        if !self.table.has_movable_columns {
            return Ok(());
        }
        for blob in self
            .table
            .access
            .blobs(self.table.access.primary(), &old.payload)?
        {
            self.table.access.database().free_blob(&self.txn, blob)?;
        }
        Ok(())
    }

    /// Deletes the entries of rows that go, move or get another key.
    fn remove_entries(
        &mut self,
        position: usize,
        index: &IndexAccess,
        done: &[Change],
    ) -> Result<()> {
        let mut gone = EntrySet::new();
        let (mut old_key, mut new_key) = (Vec::new(), Vec::new());
        for (i, change) in done.iter().enumerate() {
            let Some(old) = &change.old else { continue };
            if !self
                .table
                .is_member(&self.evaluators, position, &old.values)?
            {
                continue;
            }
            old_key.clear();
            self.table
                .access
                .encode_index_key(index, &old.values, &old.key, &mut old_key)?;
            if let Some(new) = &change.new
                && self.table.is_member(&self.evaluators, position, new)?
            {
                new_key.clear();
                let locator = change.moved_to.as_deref().unwrap_or(&old.key);
                self.table
                    .access
                    .encode_index_key(index, new, locator, &mut new_key)?;
                if new_key == old_key {
                    continue;
                }
            }
            gone.push(&old_key, &[], Stamp::default(), i);
        }
        gone.sort();
        let tree = self.table.access.tree(index)?;
        if gone.len() < SCANNED_ENTRIES_MIN {
            return (0..gone.len()).try_for_each(|i| self.delete_entry(&tree, index, gone.key(i)));
        }
        self.delete_entries(&tree, index, &gone)
    }

    /// Deletes many entries: their stamps are read page by page, in key order, instead of one by one.
    fn delete_entries(
        &mut self,
        tree: &Arc<Tree>,
        index: &IndexAccess,
        gone: &EntrySet,
    ) -> Result<()> {
        let view = self.txn.view(Isolation::Current);
        let (mut page, mut deletes, mut refused) = (Batch::new(), Batch::new(), Vec::new());
        let mut at = 0;
        while at < gone.len() {
            let before = at;
            let low = Bound::Included(gone.key(at).to_vec());
            let high = Bound::Included(gone.key(gone.len() - 1).to_vec());
            let mut scan = tree.scan(
                &view,
                ScanSpec {
                    low,
                    high,
                    direction: Direction::Forward,
                },
            );
            while at < gone.len() && scan.next(&mut page)? {
                super::check_cancel(self.host)?;
                deletes.clear();
                for i in 0..page.len() {
                    if at < gone.len() && page.key(i) == gone.key(at) {
                        deletes.push(page.key(i), &[], page.stamp(i));
                        self.free_entry_blobs(index, page.payload(i))?;
                        at += 1;
                    }
                }
                if deletes.is_empty() {
                    // The next key is far away: look for it from the root.
                    break;
                }
                refused.clear();
                tree.delete_batch(&self.txn, &deletes, &mut refused)?;
                if !refused.is_empty() {
                    return Err(damaged("index entry changes while its row is locked"));
                }
            }
            if at == before {
                return Err(damaged("index entry missing"));
            }
        }
        Ok(())
    }

    fn delete_entry(&self, tree: &Arc<Tree>, index: &IndexAccess, key: &[u8]) -> Result<()> {
        let view = self.txn.view(Isolation::Current);
        for _ in 0..ENTRY_ATTEMPTS {
            let entry = tree
                .get(&view, key)?
                .ok_or_else(|| damaged("index entry missing"))?;
            if tree.delete(&self.txn, key, entry.stamp)? == WriteOutcome::Done {
                return self.free_entry_blobs(index, &entry.payload);
            }
        }
        Err(damaged("index entry changes while its row is locked"))
    }

    fn free_entry_blobs(&self, index: &IndexAccess, payload: &[u8]) -> Result<()> {
        if self.table.has_movable_columns {
            for blob in self.table.access.blobs(index, payload)? {
                self.table.access.database().free_blob(&self.txn, blob)?;
            }
        }
        Ok(())
    }

    fn insert_moved_rows(&mut self, done: &[Change]) -> Result<()> {
        let mut rows = EntrySet::new();
        for (i, change) in done.iter().enumerate() {
            if let (Some(key), Some(new)) = (&change.moved_to, &change.new) {
                self.table
                    .access
                    .encode_row(&self.txn, key, new, &mut self.entry.payload)?;
                rows.push(key, &self.entry.payload, Stamp::default(), i);
            }
        }
        let new_of = |row: usize| {
            done.get(row)
                .and_then(|c| c.new.as_deref())
                .unwrap_or_default()
        };
        self.insert_entries(self.table.access.primary(), rows, new_of)
    }

    /// Adds entries where the key is new and rewrites those whose carried columns changed.
    fn add_entries(&mut self, position: usize, index: &IndexAccess, done: &[Change]) -> Result<()> {
        let (mut added, mut rewritten) = (EntrySet::new(), EntrySet::new());
        let mut old_key = Vec::new();
        for (i, change) in done.iter().enumerate() {
            let (Some(old), Some(new)) = (&change.old, &change.new) else {
                continue;
            };
            if !self.table.is_member(&self.evaluators, position, new)? {
                continue;
            }
            let locator = change.moved_to.as_deref().unwrap_or(&old.key);
            self.table.access.encode_index_entry(
                &self.txn,
                index,
                new,
                locator,
                &mut self.entry,
            )?;
            old_key.clear();
            self.table
                .access
                .encode_index_key(index, &old.values, &old.key, &mut old_key)?;
            let stays = self.entry.key == old_key
                && self
                    .table
                    .is_member(&self.evaluators, position, &old.values)?;
            let set = if stays { &mut rewritten } else { &mut added };
            set.push(&self.entry.key, &self.entry.payload, Stamp::default(), i);
        }
        rewritten.sort();
        let tree = self.table.access.tree(index)?;
        for i in 0..rewritten.len() {
            self.rewrite_entry(&tree, index, rewritten.key(i), rewritten.payload(i))?;
        }
        let new_of = |row: usize| {
            done.get(row)
                .and_then(|c| c.new.as_deref())
                .unwrap_or_default()
        };
        self.insert_entries(index, added, new_of)
    }

    fn rewrite_entry(
        &self,
        tree: &Arc<Tree>,
        index: &IndexAccess,
        key: &[u8],
        payload: &[u8],
    ) -> Result<()> {
        let view = self.txn.view(Isolation::Current);
        for _ in 0..ENTRY_ATTEMPTS {
            let entry = tree
                .get(&view, key)?
                .ok_or_else(|| damaged("index entry missing"))?;
            if entry.payload == payload {
                return Ok(());
            }
            if tree.update(&self.txn, key, entry.stamp, payload)? == WriteOutcome::Done {
                return self.free_entry_blobs(index, &entry.payload);
            }
        }
        Err(damaged("index entry changes while its row is locked"))
    }

    /// Inserts complete new rows (`values` are all columns) into the table and its indexes. Rows that IGNORE_DUP_KEY
    /// drops are removed from `rows`.
    pub fn insert(&mut self, rows: &mut Vec<Vec<Value>>) -> Result<()> {
        if self.table.ignores_duplicates {
            return self.insert_one_by_one(rows);
        }
        if let [values] = rows.as_slice() {
            return self.insert_row(values).map(|_| ());
        }
        let access = &self.table.access;
        let mut own = EntrySet::new();
        let mut keys = EntrySet::new();
        let mut key = Vec::new();
        for (i, values) in rows.iter().enumerate() {
            let number = if access.needs_row_number() {
                self.host.next_row_number(&access.table)?
            } else {
                0
            };
            key.clear();
            access.encode_row_key(values, number, &mut key)?;
            access.encode_row(&self.txn, &key, values, &mut self.entry.payload)?;
            own.push(&key, &self.entry.payload, Stamp::default(), i);
            keys.push(&[], &key, Stamp::default(), i);
        }
        self.insert_entries(access.primary(), own, |row| {
            rows.get(row).map(Vec::as_slice).unwrap_or_default()
        })?;
        for (position, index) in access.secondary() {
            let mut entries = EntrySet::new();
            for (i, values) in rows.iter().enumerate() {
                if self.table.is_member(&self.evaluators, position, values)? {
                    access.encode_index_entry(
                        &self.txn,
                        index,
                        values,
                        keys.payload(i),
                        &mut self.entry,
                    )?;
                    entries.push(&self.entry.key, &self.entry.payload, Stamp::default(), i);
                }
            }
            self.insert_entries(index, entries, |row| {
                rows.get(row).map(Vec::as_slice).unwrap_or_default()
            })?;
        }
        Ok(())
    }

    /// With IGNORE_DUP_KEY every row stands alone: what it wrote is taken back when an index that ignores duplicates
    /// already has its key.
    fn insert_one_by_one(&mut self, rows: &mut Vec<Vec<Value>>) -> Result<()> {
        let mut kept = Vec::with_capacity(rows.len());
        for values in rows.drain(..) {
            let savepoint = self.txn.savepoint();
            match self.insert_row(&values)? {
                true => kept.push(values),
                false => {
                    self.txn.rollback_to(savepoint)?;
                    self.ignored_duplicates = true;
                }
            }
        }
        *rows = kept;
        Ok(())
    }

    /// False if an index with IGNORE_DUP_KEY has the key already.
    fn insert_row(&mut self, values: &[Value]) -> Result<bool> {
        let access = &self.table.access;
        let number = if access.needs_row_number() {
            self.host.next_row_number(&access.table)?
        } else {
            0
        };
        let mut locator = Vec::new();
        access.encode_row_key(values, number, &mut locator)?;
        access.encode_row(&self.txn, &locator, values, &mut self.entry.payload)?;
        if !self.insert_entry(access.primary(), &locator, &self.entry.payload, values)? {
            return Ok(false);
        }
        for (position, index) in access.secondary() {
            if self.table.is_member(&self.evaluators, position, values)? {
                access.encode_index_entry(&self.txn, index, values, &locator, &mut self.entry)?;
                if !self.insert_entry(index, &self.entry.key, &self.entry.payload, values)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn insert_entry(
        &self,
        index: &IndexAccess,
        key: &[u8],
        payload: &[u8],
        values: &[Value],
    ) -> Result<bool> {
        match self
            .table
            .access
            .tree(index)?
            .insert(&self.txn, key, payload)
        {
            Ok(()) => Ok(true),
            Err(StorageError::DuplicateKey { .. }) if index.def.ignore_dup_key => Ok(false),
            Err(StorageError::DuplicateKey { .. }) => Err(self.duplicate(index, values)),
            Err(e) => Err(e.into()),
        }
    }

    fn insert_entries<'r>(
        &mut self,
        index: &IndexAccess,
        mut entries: EntrySet,
        values_of: impl Fn(usize) -> &'r [Value],
    ) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        entries.sort();
        let tree = self.table.access.tree(index)?;
        if let Some(at) = entries.first_duplicate() {
            return Err(self.duplicate(index, values_of(entries.row(at))));
        }
        let mut batch = std::mem::take(&mut self.batch);
        let written = entries.in_batches(&mut batch, |batch, _| {
            match tree.insert_batch(&self.txn, batch) {
                Ok(()) => Ok(()),
                Err(StorageError::DuplicateKey { key }) => {
                    let row = entries.find(&key).map(|at| entries.row(at));
                    Err(self.duplicate(index, row.map(&values_of).unwrap_or_default()))
                }
                Err(e) => Err(e.into()),
            }
        });
        self.batch = batch;
        written
    }

    fn duplicate(&self, index: &IndexAccess, values: &[Value]) -> SqlError {
        let text = keytext::key_text(&self.table.access, index, values);
        errors::duplicate_key(&self.table.access.table, &index.def, &text)
    }
}
