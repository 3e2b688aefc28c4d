//! Do a table's rows and its indexes say the same? What DBCC asks once the structure of the trees is known to be sound.
//!
//! Theory: every row is turned into the entries that its indexes must hold, every index is read once, and of both
//! sides only a count and a sum of hashes is kept. Where they differ, and only there, each row is looked up in the
//! index and each entry in the table, so that the difference can be named. One snapshot serves all reads: writers go on
//! meanwhile, and memory does not grow with the table.
//!
//! Invariant: sums are equal whenever the entries are, in whatever order they are read (hashes are added).

use super::expr::Evaluators;
use super::keytext;
use super::target::Writable;
use crate::access::{IndexAccess, split_entry};
use crate::error::{Result, SqlError};
use crate::host::{Host, TableRef};
use daruma_storage::{Batch, BlobRef, ReadView, ScanSpec};
use daruma_value::Value;
use std::hash::{DefaultHasher, Hasher};

/// Something wrong with a row or an index entry. Positions are those of `TableDef::indexes` and `columns`.
pub(crate) enum RowFinding {
    /// A row without its entry.
    MissingEntry {
        index: usize,
        row: Vec<u8>,
        identified_by: String,
        values: String,
    },
    /// An entry without its row.
    ExtraEntry {
        index: usize,
        key: Vec<u8>,
        identified_by: String,
        values: String,
    },
    /// A stored value that its column cannot have.
    BadValue { row: Vec<u8>, column: usize },
    /// NULL in a column that was created NOT NULL.
    UnexpectedNull { row: Vec<u8>, column: usize },
}

/// Receiver of what a check finds.
pub(crate) trait RowSink {
    /// A value outside of its row, before it is read.
    fn blob(&mut self, index: usize, blob: BlobRef) -> Result<()>;
    fn found(&mut self, finding: RowFinding) -> Result<()>;
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    count: u64,
    hash: u64,
}

impl Sums {
    fn add(&mut self, key: &[u8], locator: &[u8], image: &[u8]) {
        let mut hasher = DefaultHasher::new();
        for part in [key, locator, image] {
            hasher.write_usize(part.len());
            hasher.write(part);
        }
        self.count += 1;
        self.hash = self.hash.wrapping_add(hasher.finish());
    }
}

/// The check of one table as one snapshot shows it.
pub(crate) struct RowCheck<'h> {
    host: &'h dyn Host,
    table: Writable,
    view: ReadView,
    /// By position: is the tree's structure sound, so that it can be read?
    sound: Vec<bool>,
}

impl<'h> RowCheck<'h> {
    /// Checks rows of the table as they are in `view`; `sound` tells which indexes can be relied on.
    pub fn new(
        host: &'h dyn Host,
        table: &TableRef,
        view: ReadView,
        sound: Vec<bool>,
    ) -> Result<RowCheck<'h>> {
        Ok(RowCheck {
            host,
            table: Writable::prepare(host, table)?,
            view,
            sound,
        })
    }

    fn is_sound(&self, position: usize) -> bool {
        self.sound.get(position).copied().unwrap_or(false)
    }

    /// Only the values outside of rows: what a check of structures alone needs. Gives the number of rows.
    pub fn blobs(&self, sink: &mut dyn RowSink) -> Result<u64> {
        let mut rows = 0;
        for position in 0..self.table.access.layouts.indexes.len() {
            let mut count = 0;
            self.scan(position, sink, &mut |_, _, _| {
                count += 1;
                Ok(())
            })?;
            if position == 0 {
                rows = count;
            }
        }
        Ok(rows)
    }

    /// Rows, values outside of them, and indexes. Gives the number of rows.
    pub fn run(&self, sink: &mut dyn RowSink) -> Result<u64> {
        let count = self.table.access.layouts.indexes.len();
        let mut expected = vec![Sums::default(); count];
        let is_whole = self.rows(sink, &mut expected)?;
        for (position, sums) in expected.iter().enumerate().skip(1) {
            let found = self.entries(position, sink)?;
            let is_kept = self.is_sound(position) && self.is_sound(0) && is_whole;
            if is_kept && found != *sums {
                self.name_missing(position, sink)?;
                self.name_extra(position, sink)?;
            }
        }
        Ok(expected.first().map_or(0, |sums| sums.count))
    }

    /// Calls `each` with key and payload of every entry of a sound tree.
    fn scan(
        &self,
        position: usize,
        sink: &mut dyn RowSink,
        each: &mut dyn FnMut(&mut dyn RowSink, &[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let access = &self.table.access;
        let index = access.index(position)?;
        if !self.is_sound(position) || index.def.disabled {
            return Ok(());
        }
        let mut scan = access.tree(index)?.scan(&self.view, ScanSpec::all());
        let mut batch = Batch::new();
        while scan.next(&mut batch)? {
            super::check_cancel(self.host)?;
            for i in 0..batch.len() {
                let blobs = access.blobs(index, batch.payload(i)).unwrap_or_default();
                blobs.into_iter().try_for_each(|b| sink.blob(position, b))?;
                each(sink, batch.key(i), batch.payload(i))?;
            }
        }
        Ok(())
    }

    /// Reads the rows and sums up the entries that they should have. False when a row could not be decoded.
    fn rows(&self, sink: &mut dyn RowSink, expected: &mut [Sums]) -> Result<bool> {
        let evaluators = Evaluators::new(self.host);
        let (mut is_whole, mut values) = (true, Vec::with_capacity(self.table.width()));
        let (mut key, mut image) = (Vec::new(), Vec::new());
        self.scan(0, sink, &mut |sink, locator, payload| {
            if let Some(sums) = expected.first_mut() {
                sums.count += 1;
            }
            if !self.decode(sink, locator, payload, &mut values)? {
                is_whole = false;
                return Ok(());
            }
            self.table.compute_virtual(&evaluators, &mut values)?;
            for (position, index) in self.table.access.secondary() {
                if self.table.is_member(&evaluators, position, &values)? {
                    key.clear();
                    let access = &self.table.access;
                    access.encode_index_key(index, &values, locator, &mut key)?;
                    index.image(&values, &mut image)?;
                    if let Some(sums) = expected.get_mut(position) {
                        sums.add(&key, locator, &image);
                    }
                }
            }
            Ok(())
        })?;
        Ok(is_whole)
    }

    /// Decodes a row column by column. False when a value is not what its column can have, or cannot be read.
    fn decode(
        &self,
        sink: &mut dyn RowSink,
        locator: &[u8],
        payload: &[u8],
        values: &mut Vec<Value>,
    ) -> Result<bool> {
        values.clear();
        let access = &self.table.access;
        for (column, def) in access.def().columns.iter().enumerate() {
            let row = || locator.to_vec();
            match access.column(access.primary(), payload, column) {
                Ok(Value::Null) if !def.nullable && def.computed.is_none() => {
                    let row = row();
                    sink.found(RowFinding::UnexpectedNull { row, column })?;
                    values.push(Value::Null);
                }
                Ok(value) => values.push(value),
                Err(error) if is_bad_value(&error) => {
                    let row = row();
                    sink.found(RowFinding::BadValue { row, column })?;
                    return Ok(false);
                }
                // The page of a value outside of the row; told when its pages were looked at.
                Err(error) if error.number == 824 => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Sums up what an index holds.
    fn entries(&self, position: usize, sink: &mut dyn RowSink) -> Result<Sums> {
        let mut sums = Sums::default();
        let index = self.table.access.index(position)?;
        let mut image = Vec::new();
        self.scan(position, sink, &mut |_, key, payload| {
            let locator = split_entry(payload).map_or(&[][..], |(locator, _)| locator);
            image.clear();
            match self.carried(index, payload) {
                Ok(values) => index.image(&values, &mut image)?,
                // The entry has no row: it counts as one too many.
                Err(error) if is_bad_value(&error) || error.number == 824 => {}
                Err(error) => return Err(error),
            }
            sums.add(key, locator, &image);
            Ok(())
        })?;
        Ok(sums)
    }

    /// The carried columns of an entry in their places; NULL for the others.
    fn carried(&self, index: &IndexAccess, payload: &[u8]) -> Result<Vec<Value>> {
        let mut values = vec![Value::Null; self.table.width()];
        for ordinal in &index.carried {
            if let Some(place) = values.get_mut(*ordinal) {
                *place = self.table.access.column(index, payload, *ordinal)?;
            }
        }
        Ok(values)
    }

    // --- naming differences -------------------------------------------------------------------------------------

    /// Rows whose entry is not there, or is another one.
    fn name_missing(&self, position: usize, sink: &mut dyn RowSink) -> Result<()> {
        let access = &self.table.access;
        let index = access.index(position)?;
        let tree = access.tree(index)?;
        let mut wanted = Vec::new();
        let mut image = Vec::new();
        self.scan(0, &mut Silent, &mut |_, locator, payload| {
            let Some(values) = self.entry_of(position, locator, payload, &mut wanted)? else {
                return Ok(());
            };
            index.image(&values, &mut image)?;
            let found = tree.get(&self.view, &wanted)?;
            if found.is_some_and(|e| self.is_entry(index, &e.payload, locator, &image)) {
                return Ok(());
            }
            sink.found(RowFinding::MissingEntry {
                index: position,
                row: locator.to_vec(),
                identified_by: self.named_values(access.primary(), &values, Some(locator)),
                values: self.named_values(index, &values, None),
            })
        })
    }

    fn is_entry(&self, index: &IndexAccess, payload: &[u8], locator: &[u8], image: &[u8]) -> bool {
        let mut found = Vec::new();
        split_entry(payload).is_ok_and(|(l, _)| l == locator)
            && self
                .carried(index, payload)
                .and_then(|values| index.image(&values, &mut found))
                .is_ok_and(|()| found == image)
    }

    /// Key (in `wanted`) and values of the entry that a row should have; nothing when it should have none.
    fn entry_of(
        &self,
        position: usize,
        locator: &[u8],
        payload: &[u8],
        wanted: &mut Vec<u8>,
    ) -> Result<Option<Vec<Value>>> {
        let evaluators = Evaluators::new(self.host);
        let values = self.table.decode(&evaluators, payload)?;
        if !self.table.is_member(&evaluators, position, &values)? {
            return Ok(None);
        }
        wanted.clear();
        let access = &self.table.access;
        access.encode_index_key(access.index(position)?, &values, locator, wanted)?;
        Ok(Some(values))
    }

    /// Entries whose row is not there, or has another entry.
    fn name_extra(&self, position: usize, sink: &mut dyn RowSink) -> Result<()> {
        let access = &self.table.access;
        let index = access.index(position)?;
        let rows = access.tree(access.primary())?;
        let mut wanted = Vec::new();
        self.scan(position, &mut Silent, &mut |_, key, payload| {
            let locator = split_entry(payload).map_or(&[][..], |(locator, _)| locator);
            if let Some(row) = rows.get(&self.view, locator)?
                && self
                    .entry_of(position, locator, &row.payload, &mut wanted)?
                    .is_some()
                && wanted == key
            {
                return Ok(());
            }
            let values = self.carried(index, payload).unwrap_or_default();
            sink.found(RowFinding::ExtraEntry {
                index: position,
                key: key.to_vec(),
                identified_by: self.named_values(access.primary(), &values, Some(locator)),
                values: self.named_values(index, &values, None),
            })
        })
    }

    /// `a = 1 and b = x` for the key of an index; the hidden row number stands for a row without a key.
    fn named_values(
        &self,
        index: &IndexAccess,
        values: &[Value],
        locator: Option<&[u8]>,
    ) -> String {
        let access = &self.table.access;
        let mut parts: Vec<String> = index
            .key
            .iter()
            .filter_map(|column| {
                let def = access.def().columns.get(column.ordinal)?;
                let value = values.get(column.ordinal).unwrap_or(&Value::Null);
                let text = keytext::value_text(value, def.data_type);
                Some(format!("{} = {text}", def.name))
            })
            .collect();
        if let Some(number) = locator.and_then(|l| access.row_number(l)) {
            parts.push(format!("HEAP RID = {number}"));
        }
        parts.join(" and ")
    }
}

fn is_bad_value(error: &SqlError) -> bool {
    error.number == crate::access::DAMAGED
}

/// For second readings: everything was told by the first.
struct Silent;

impl RowSink for Silent {
    fn blob(&mut self, _: usize, _: BlobRef) -> Result<()> {
        Ok(())
    }

    fn found(&mut self, _: RowFinding) -> Result<()> {
        Ok(())
    }
}
