//! How rows of a table lie in its trees: the one place that knows keys, payloads, locators and overflow values.
//!
//! Theory: a table is one tree of rows plus one tree for each nonclustered index.
//!
//! | Tree | Key | Payload |
//! |---|---|---|
//! | heap | row number (8 bytes, big-endian) | row |
//! | clustered, unique | key columns | row |
//! | clustered, not unique | key columns, row number | row |
//! | nonclustered, unique | key columns | locator length (u16 little-endian), locator, carried row |
//! | nonclustered, not unique | key columns, locator | as above |
//!
//! *Row* holds every stored column in definition order; a *carried row* holds the index's key columns, its included
//! columns and those clustered key columns that are not among them. The *locator* is the row's key in the table's own
//! tree. Key columns are encoded so that bytes compare as values do; values are always read from payloads.
//!
//! Everyone hands over rows as `&[Value]` with one value for each column of the definition, in order, virtual computed
//! columns included (their value is ignored when a row is stored and is NULL when one is read: computing it is the
//! reader's business).
//!
//! Invariants
//! 1. A row number is never reused, so a locator names one row for ever.
//! 2. Values that would make an entry too large live in blobs; the row holds a reference. Readers follow it only when
//!    the column is asked for.
//!
//! Read next: `daruma_value::row`, `daruma_value::keyenc`.

mod cache;
mod space;

pub(crate) use space::{drop_tree, empty_tree, has_movable_columns};

use crate::error::{Result, SqlError};
use crate::host::TableRef;
use cache::Cache;
use daruma_catalog::{IndexDef, IndexId, IndexKind, TableDef};
use daruma_storage::{
    BlobRef, Database, ENTRY_BYTES_MAX, KEY_BYTES_MAX, ScanSpec, Tree, TreeUse, Txn,
};
use daruma_value::keyenc;
use daruma_value::row::{Cell, Column, ColumnSpec, RowError, RowLayout, RowView};
use daruma_value::{CollationId, DataType, Value};
use std::sync::{Arc, LazyLock};

/// A column of an index key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyColumn {
    /// Position in `TableDef::columns`.
    pub ordinal: usize,
    pub descending: bool,
    pub data_type: DataType,
    pub collation: CollationId,
}

/// Shape of one index: the table's own tree or a nonclustered one.
#[derive(Clone, Debug)]
pub struct IndexAccess {
    pub def: IndexDef,
    pub key: Vec<KeyColumn>,
    /// Nonclustered: ordinals of the columns in the carried row, in order. The table's own tree: of the stored columns.
    pub carried: Vec<usize>,
    /// Position in the payload's row by column ordinal.
    positions: Vec<Option<usize>>,
    layout: RowLayout,
}

/// Layouts of a table and its indexes, made once for each definition.
#[derive(Debug)]
pub struct TableLayouts {
    /// Parallel to `TableDef::indexes`; the first is the table itself.
    pub indexes: Vec<IndexAccess>,
}

/// Values shorter than this stay in the row: a reference would save too little.
const MOVABLE_BYTES_MIN: usize = 64;

/// A table with its layouts. Cheap to make and to clone.
#[derive(Clone)]
pub struct TableAccess {
    pub table: TableRef,
    pub layouts: Arc<TableLayouts>,
}

/// A new index entry: buffers to reuse between rows.
#[derive(Debug, Default)]
pub struct EntryBuffers {
    pub key: Vec<u8>,
    pub payload: Vec<u8>,
}

impl TableLayouts {
    /// Columns of all indexes: what they take of memory grows with that.
    fn size(&self) -> usize {
        self.indexes.iter().map(|i| i.positions.len()).sum()
    }
}

impl TableAccess {
    /// Reads the layouts of the table's rows off its definition.
    pub fn new(table: &TableRef) -> Result<TableAccess> {
        Ok(TableAccess {
            table: table.clone(),
            layouts: layouts(&table.def)?,
        })
    }

    /// The stored definition.
    pub fn def(&self) -> &TableDef {
        &self.table.def
    }

    /// The open database that the table is in.
    pub fn database(&self) -> &Arc<Database> {
        &self.table.database
    }

    /// The table's own tree: heap or clustered index.
    pub fn primary(&self) -> &IndexAccess {
        &self.layouts.indexes[0]
    }

    /// Nonclustered indexes that are kept up to date, with their positions in `TableDef::indexes`.
    pub fn secondary(&self) -> impl Iterator<Item = (usize, &IndexAccess)> {
        self.layouts
            .indexes
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, i)| !i.def.disabled)
    }

    /// An index by its position in the definition; 0 is the table itself.
    pub fn index(&self, position: usize) -> Result<&IndexAccess> {
        self.layouts
            .indexes
            .get(position)
            .ok_or_else(|| damaged("no such index"))
    }

    /// An index by `index_id`.
    pub fn index_by_id(&self, id: IndexId) -> Result<&IndexAccess> {
        self.layouts
            .indexes
            .iter()
            .find(|i| i.def.id == id)
            .ok_or_else(|| damaged("no such index"))
    }

    /// The B+tree of an index of this table.
    pub fn tree(&self, index: &IndexAccess) -> Result<Arc<Tree>> {
        Ok(self.table.database.tree(index.def.tree)?)
    }

    /// Counts a use that a statement makes of the index at `position` in `TableDef::indexes`.
    pub fn note_use(&self, position: usize, what: TreeUse) -> Result<()> {
        let database = self.database();
        let tree = self.tree(self.index(position)?)?;
        tree.note_use(what, database.clock().utc_100ns());
        Ok(())
    }

    /// Counts a statement that writes rows: with `touched`, those are changed, and only the entries of the indexes that it marks.
    pub fn note_update(&self, touched: Option<&[bool]>) -> Result<()> {
        self.note_use(0, TreeUse::Update)?;
        let is_touched = |at: usize| touched.is_none_or(|t| t.get(at).copied().unwrap_or(true));
        self.secondary()
            .filter(|(at, _)| is_touched(*at))
            .try_for_each(|(at, _)| self.note_use(at, TreeUse::Update))
    }

    /// Does the table's own key end in a hidden row number (`Host::next_row_number`)?
    pub fn needs_row_number(&self) -> bool {
        self.primary().has_row_number()
    }

    /// Key of a row in the table's own tree. `row_number` is ignored when the key has none.
    pub fn encode_row_key(
        &self,
        values: &[Value],
        row_number: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let primary = self.primary();
        primary.encode_key_columns(values, out)?;
        if primary.has_row_number() {
            out.extend_from_slice(&row_number.to_be_bytes());
        }
        check_key_size(self, primary, out)
    }

    /// Hidden row number at the end of a key of the table's own tree.
    pub fn row_number(&self, key: &[u8]) -> Option<u64> {
        if !self.needs_row_number() {
            return None;
        }
        let (_, number) = key.split_last_chunk::<8>()?;
        Some(u64::from_be_bytes(*number))
    }

    /// Payload of a row in the table's own tree, beside its `key`. Values that do not fit go to blobs of `txn`.
    pub fn encode_row(
        &self,
        txn: &Txn,
        key: &[u8],
        values: &[Value],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let payload_max = ENTRY_BYTES_MAX.saturating_sub(key.len());
        self.encode_payload(txn, self.primary(), &[], payload_max, values, out)
    }

    /// Key and payload of the row's entry in a nonclustered index. `locator` is the row's key in the table's tree.
    pub fn encode_index_entry(
        &self,
        txn: &Txn,
        index: &IndexAccess,
        values: &[Value],
        locator: &[u8],
        out: &mut EntryBuffers,
    ) -> Result<()> {
        out.key.clear();
        self.encode_index_key(index, values, locator, &mut out.key)?;
        let mut head = Vec::with_capacity(locator.len() + 2);
        let len = u16::try_from(locator.len()).map_err(|_| damaged("locator too long"))?;
        head.extend_from_slice(&len.to_le_bytes());
        head.extend_from_slice(locator);
        let payload_max = ENTRY_BYTES_MAX.saturating_sub(out.key.len());
        self.encode_payload(txn, index, &head, payload_max, values, &mut out.payload)
    }

    /// Key of the row's entry in a nonclustered index, to find or delete it.
    pub fn encode_index_key(
        &self,
        index: &IndexAccess,
        values: &[Value],
        locator: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        index.encode_key_columns(values, out)?;
        if !index.def.unique {
            out.extend_from_slice(locator);
        }
        check_key_size(self, index, out)
    }

    fn encode_payload(
        &self,
        txn: &Txn,
        index: &IndexAccess,
        head: &[u8],
        payload_max: usize,
        values: &[Value],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut blobs: Vec<(usize, [u8; 16])> = Vec::new();
        loop {
            index.encode_carried(values, &blobs, out)?;
            if out.len() + head.len() <= payload_max {
                out.splice(0..0, head.iter().copied());
                return Ok(());
            }
            let Some((position, bytes)) = index.largest_movable(values, &blobs) else {
                return Err(SqlError::new(
                    511,
                    16,
                    1,
                    format!(
                        "Cannot create a row of size {} which is greater than the allowable maximum row size of 8060.",
                        out.len()
                    ),
                ));
            };
            blobs.push((
                position,
                self.table.database.put_blob(txn, bytes)?.to_bytes(),
            ));
        }
    }

    /// Appends all column values of a row of the table's own tree to `out`.
    pub fn decode_row(&self, payload: &[u8], out: &mut Vec<Value>) -> Result<()> {
        for ordinal in 0..self.table.def.columns.len() {
            out.push(self.column(self.primary(), payload, ordinal)?);
        }
        Ok(())
    }

    /// Value of one column in a payload of `index`; NULL when the payload does not carry the column.
    pub fn column(&self, index: &IndexAccess, payload: &[u8], ordinal: usize) -> Result<Value> {
        match index.position(ordinal) {
            Some(position) => self.value_at(&index.view(payload)?, position),
            None => Ok(Value::Null),
        }
    }

    /// Value at a position of a row, read from its blob if need be.
    #[inline]
    pub fn value_at(&self, row: &RowView<'_>, position: usize) -> Result<Value> {
        match row.value_or_default(position).map_err(corrupt)? {
            Column::Value(value) => Ok(value),
            Column::Missing => Ok(Value::Null),
            Column::Overflow(reference) => {
                let bytes = self
                    .table
                    .database
                    .get_blob(BlobRef::from_bytes(reference))
                    .map_err(|e| e.within(self.primary().def.tree.0))?;
                if row
                    .layout()
                    .data_type(position)
                    .is_some_and(DataType::is_character)
                {
                    let text =
                        String::from_utf8(bytes).map_err(|_| damaged("text is not UTF-8"))?;
                    Ok(Value::Str(text.into()))
                } else {
                    Ok(Value::Bytes(bytes))
                }
            }
        }
    }

    /// Blobs that a payload refers to, to free them with the row.
    pub fn blobs(&self, index: &IndexAccess, payload: &[u8]) -> Result<Vec<BlobRef>> {
        let row = index.view(payload)?;
        Ok((0..row.column_count())
            .filter_map(|p| row.overflow(p))
            .map(BlobRef::from_bytes)
            .collect())
    }
}

impl IndexAccess {
    /// Does it hold the rows themselves: a heap or clustered index?
    pub fn is_primary(&self) -> bool {
        self.def.kind != IndexKind::Nonclustered
    }

    /// Does the key end in a hidden row number?
    pub fn has_row_number(&self) -> bool {
        match self.def.kind {
            IndexKind::Heap => true,
            IndexKind::Clustered => !self.def.unique,
            IndexKind::Nonclustered => false,
        }
    }

    /// Position of a table column in the payload's row.
    pub fn position(&self, ordinal: usize) -> Option<usize> {
        self.positions.get(ordinal).copied().flatten()
    }

    /// How rows of the index are encoded.
    pub fn layout(&self) -> &RowLayout {
        &self.layout
    }

    /// The row inside a payload.
    pub fn row<'a>(&self, payload: &'a [u8]) -> Result<&'a [u8]> {
        if self.is_primary() {
            Ok(payload)
        } else {
            split_entry(payload).map(|(_, row)| row)
        }
    }

    /// Key columns of a whole row, without row number or locator.
    pub fn encode_key_columns(&self, values: &[Value], out: &mut Vec<u8>) -> Result<()> {
        for column in &self.key {
            let value = values
                .get(column.ordinal)
                .ok_or_else(|| damaged("row too short"))?;
            column.encode(value, out);
        }
        Ok(())
    }

    /// The row inside a payload, ready to be read.
    #[inline]
    pub fn view<'a>(&'a self, payload: &'a [u8]) -> Result<RowView<'a>> {
        RowView::new(&self.layout, self.row(payload)?).map_err(corrupt)
    }

    /// The carried row of a whole row with every value in place, whatever its size: equal for equal values.
    pub fn image(&self, values: &[Value], out: &mut Vec<u8>) -> Result<()> {
        self.encode_carried(values, &[], out)
    }

    fn encode_carried(
        &self,
        values: &[Value],
        blobs: &[(usize, [u8; 16])],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if self.carried.iter().any(|o| *o >= values.len()) {
            return Err(damaged("row too short"));
        }
        let cell = |position: usize| {
            let blob = blobs.iter().find(|(of, _)| *of == position);
            let value = self.carried.get(position).and_then(|o| values.get(*o));
            match blob {
                Some((_, reference)) => Cell::Overflow(reference),
                None => Cell::Value(value.unwrap_or(&Value::Null)),
            }
        };
        let count = self.carried.len();
        self.layout.encode_each(count, cell, out).map_err(corrupt)
    }

    /// Position and bytes of the longest value that is worth moving into a blob.
    fn largest_movable<'v>(
        &self,
        values: &'v [Value],
        blobs: &[(usize, [u8; 16])],
    ) -> Option<(usize, &'v [u8])> {
        let bytes = |position: usize| match self.carried.get(position).and_then(|o| values.get(*o))
        {
            Some(Value::Str(s)) => s.as_bytes(),
            Some(Value::Bytes(b)) => b.as_slice(),
            _ => &[],
        };
        let free = |p: &usize| !self.layout.is_fixed(*p) && !blobs.iter().any(|(b, _)| b == p);
        let position = (0..self.carried.len())
            .filter(free)
            .max_by_key(|p| bytes(*p).len())?;
        (bytes(position).len() >= MOVABLE_BYTES_MIN).then(|| (position, bytes(position)))
    }

    /// Encodes values for the leading key columns: the prefix that a seek looks for. The values must have the columns'
    /// own types.
    pub fn encode_prefix<'a>(
        &self,
        values: impl IntoIterator<Item = &'a Value>,
        out: &mut Vec<u8>,
    ) {
        for (column, value) in self.key.iter().zip(values) {
            column.encode(value, out);
        }
    }

    /// All entries whose leading key columns equal `values`.
    pub fn prefix_scan<'a>(&self, values: impl IntoIterator<Item = &'a Value>) -> ScanSpec {
        let mut prefix = Vec::new();
        self.encode_prefix(values, &mut prefix);
        if prefix.is_empty() {
            ScanSpec::all()
        } else {
            ScanSpec::prefix(prefix)
        }
    }
}

impl KeyColumn {
    /// Appends the value's key bytes, which compare as the values do.
    pub fn encode(&self, value: &Value, out: &mut Vec<u8>) {
        keyenc::encode_key(value, self.data_type, self.collation, self.descending, out);
    }
}

/// Locator and carried row of a nonclustered payload.
pub fn split_entry(payload: &[u8]) -> Result<(&[u8], &[u8])> {
    let (len, rest) = payload
        .split_first_chunk::<2>()
        .ok_or_else(|| damaged("index entry too short"))?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))
        .ok_or_else(|| damaged("locator too long"))
}

fn check_key_size(access: &TableAccess, index: &IndexAccess, key: &[u8]) -> Result<()> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(SqlError::new(
        1946,
        16,
        3,
        format!(
            "Operation failed. The index entry of length {} bytes for the index '{}' exceeds the maximum length of {} bytes for {} indexes.",
            key.len(),
            index.def.name.as_deref().unwrap_or(&access.table.name),
            KEY_BYTES_MAX,
            if index.is_primary() {
                "clustered"
            } else {
                "nonclustered"
            }
        ),
    ))
}

/// Number of [`damaged`].
pub(crate) const DAMAGED: i32 = 5243;

/// A stored row or key that cannot be what it should be.
pub(crate) fn damaged(what: &str) -> SqlError {
    SqlError::new(
        DAMAGED,
        22,
        1,
        format!("An inconsistency was detected during an internal operation: {what}."),
    )
}

pub(crate) fn corrupt(error: RowError) -> SqlError {
    damaged(&error.to_string())
}

/// Layouts by definition.
fn layouts(def: &Arc<TableDef>) -> Result<Arc<TableLayouts>> {
    static CACHE: LazyLock<Cache<TableDef, TableLayouts>> = LazyLock::new(Cache::default);
    CACHE.get(def, make_layouts, TableLayouts::size)
}

fn make_layouts(def: &TableDef) -> Result<TableLayouts> {
    let primary = def
        .primary()
        .ok_or_else(|| damaged("table without storage"))?;
    let indexes = def
        .indexes
        .iter()
        .map(|index| index_access(def, primary, index))
        .collect::<Result<Vec<_>>>()?;
    Ok(TableLayouts { indexes })
}

fn index_access(def: &TableDef, primary: &IndexDef, index: &IndexDef) -> Result<IndexAccess> {
    let ordinal = |id| {
        def.ordinal(id)
            .ok_or_else(|| damaged("index on a missing column"))
    };
    let mut key = Vec::with_capacity(index.key.len());
    for column in &index.key {
        let ordinal = ordinal(column.column_id)?;
        let def = &def.columns[ordinal];
        key.push(KeyColumn {
            ordinal,
            descending: column.descending,
            data_type: def.data_type,
            collation: def.collation,
        });
    }
    let mut carried: Vec<usize> = Vec::new();
    if index.kind == IndexKind::Nonclustered {
        let ids = index.key.iter().chain(&primary.key).map(|k| k.column_id);
        let key_ids: Vec<_> = ids.collect();
        let (own, clustered) = key_ids.split_at(index.key.len());
        for id in own.iter().chain(&index.included).chain(clustered) {
            let ordinal = ordinal(*id)?;
            if !carried.contains(&ordinal) {
                carried.push(ordinal);
            }
        }
    } else {
        let stored = |c: &daruma_catalog::ColumnDef| {
            c.computed
                .as_ref()
                .is_none_or(|computed| computed.persisted)
        };
        carried.extend(
            def.columns
                .iter()
                .enumerate()
                .filter(|(_, c)| stored(c))
                .map(|(i, _)| i),
        );
    }
    let mut positions = vec![None; def.columns.len()];
    for (position, ordinal) in carried.iter().enumerate() {
        positions[*ordinal] = Some(position);
    }
    let spec = |o: &usize| {
        let column = &def.columns[*o];
        let added_default = match &column.missing_value {
            Some(text) => crate::executor::literal_value(text, column.data_type)?,
            None => Value::Null,
        };
        Ok(ColumnSpec {
            data_type: column.data_type,
            added_default,
        })
    };
    let layout = RowLayout::new(&carried.iter().map(spec).collect::<Result<Vec<_>>>()?);
    Ok(IndexAccess {
        def: index.clone(),
        key,
        carried,
        positions,
        layout,
    })
}
