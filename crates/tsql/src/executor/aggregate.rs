//! Grouping: by hash, or one group after the other when the input comes in key order.
//!
//! Theory: input comes in columns. Each distinct key gets a number, and accumulators lie in arrays by that number
//! (`tally`); a batch is first numbered, then each aggregate function runs over its column. Over the memory grant, rows
//! with new keys go to partitions on disk that are aggregated afterwards. Input in key order needs no table: a number
//! ends where the key changes, and all groups but the last are complete after each batch. Grouping sets run through the
//! same accumulators with the keys that a set leaves out read as NULL; a row of theirs on disk is of one set, whose number
//! stands behind its values.

use super::batch::RowBatch;
use super::columns::ColumnBatch;
use super::context::{Ctx, SPILLED_BYTES_MIN};
use super::key_table::KeyTable;
use super::numbering::{Nulls, Numbering, row_key};
use super::operator::{Operator, build};
use super::plan::AggregateNode;
use super::spill::{PARTITIONS, Partitions, partition_of, row_bytes};
use super::tally::{Places, Tally};
use crate::access::damaged;
use crate::error::Result;
use daruma_value::Value;
use daruma_value::column::{Column, NO_ROW};
use daruma_value::compare::compare_nulls_first;
use std::sync::{Arc, LazyLock};

/// Groups kept in memory at least, however small the grant.
const GROUPS_MIN: usize = 1024;

/// Hash aggregation: groups in memory, and in partitions on disk when the grant is used up.
pub struct AggregateOp {
    node: Arc<AggregateNode>,
    input: Box<dyn Operator>,
    batch: ColumnBatch,
    groups: Groups,
    /// Groups that can be given out: from here to the end of the range.
    give: std::ops::Range<usize>,
    overflow: Option<Overflow>,
    input_done: bool,
    finished: bool,
}

/// Rows with keys that found no room.
struct Overflow {
    partitions: Partitions,
    /// Partition to aggregate next.
    at: usize,
}

/// The groups in memory.
struct Groups {
    numbers: Numbering,
    /// Keys of all grouping sets, each with the set's number at its end.
    sets: KeyTable,
    /// Key values of each group, and the number of its grouping set.
    keys: RowBatch,
    tallies: Vec<Tally>,
    bytes: usize,
    places: Vec<u32>,
    buffer: Vec<u8>,
}

impl Groups {
    fn new(node: &AggregateNode) -> Groups {
        let mut keys = RowBatch::new();
        keys.reset(key_width(node));
        Groups {
            numbers: Numbering::new(&node.collations, Nulls::Group),
            sets: KeyTable::new(),
            keys,
            tallies: node.aggregates.iter().map(Tally::new).collect(),
            bytes: 0,
            places: Vec::new(),
            buffer: Vec::new(),
        }
    }

    fn clear(&mut self, node: &AggregateNode, cx: &Ctx<'_>) {
        cx.release(self.bytes);
        self.tallies.iter_mut().for_each(|t| t.clear(cx));
        *self = Groups::new(node);
    }

    fn len(&self) -> usize {
        self.keys.len()
    }

    /// Is the grant used up, with enough groups in memory already?
    fn over(&self, cx: &Ctx<'_>) -> bool {
        let is_much = self.len() >= GROUPS_MIN || self.bytes >= SPILLED_BYTES_MIN;
        is_much && !cx.reserve(0) && self.bytes > 0
    }

    /// Adds a group with these key values; its accumulators come with `grow`.
    fn open(&mut self, key: impl Iterator<Item = Value>, cx: &Ctx<'_>) {
        self.keys.push(key);
        let row = self.keys.row(self.keys.len() - 1);
        let tallies: usize = self.tallies.iter().map(Tally::group_bytes).sum();
        let bytes = row_bytes(row) + 64 + tallies;
        self.bytes += bytes;
        cx.reserve(bytes);
    }

    fn grow(&mut self, node: &AggregateNode) {
        let len = self.len();
        for (tally, call) in self.tallies.iter_mut().zip(&node.aggregates) {
            tally.grow(len, call);
        }
    }

    fn accumulate(
        &mut self,
        node: &AggregateNode,
        batch: &ColumnBatch,
        places: Places<'_>,
        cx: &Ctx<'_>,
    ) -> Result<()> {
        for (tally, call) in self.tallies.iter_mut().zip(&node.aggregates) {
            tally.add(call, batch, places, cx)?;
        }
        Ok(())
    }

    /// Takes a batch in whose keys may all become groups.
    fn add(&mut self, node: &AggregateNode, batch: &ColumnBatch, cx: &Ctx<'_>) -> Result<()> {
        if let Some(sets) = &node.sets {
            return self.add_to_sets(node, sets, batch, cx);
        }
        let keys = key_columns(node, batch);
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        let before = self.len();
        self.numbers.number(&keys, batch.len(), &mut places)?;
        let mut next = before as u32;
        if self.numbers.len() > before {
            for (row, number) in places.iter().enumerate() {
                if *number == next {
                    next += 1;
                    self.open(keys.iter().map(|k| k.value(row)), cx);
                }
            }
            self.grow(node);
        }
        self.accumulate(node, batch, Places::Each(&places), cx)?;
        self.places = places;
        Ok(())
    }

    /// Takes those rows of a batch in whose keys are groups already; the others go to partitions.
    fn add_known(
        &mut self,
        node: &AggregateNode,
        batch: &mut ColumnBatch,
        overflow: &mut Option<Overflow>,
        cx: &Ctx<'_>,
    ) -> Result<()> {
        let mut places = Vec::with_capacity(batch.len());
        let keys = key_columns(node, batch);
        self.numbers.find(&keys, batch.len(), &mut places)?;
        let mut known = Vec::with_capacity(places.len());
        let mut row_values = Vec::new();
        for (row, number) in places.iter().enumerate() {
            if *number != NO_ROW {
                known.push(row as u32);
                continue;
            }
            if overflow.is_none() {
                *overflow = Some(Overflow {
                    partitions: Partitions::new(cx, node.input.schema.len())?,
                    at: 0,
                });
            }
            row_key(&keys, &node.collations, row, &mut self.buffer);
            batch.row(row, &mut row_values);
            if let Some(overflow) = overflow {
                let partition = partition_of(&self.buffer);
                overflow.partitions.add(partition, &row_values)?;
            }
        }
        drop(keys);
        places.retain(|number| *number != NO_ROW);
        batch.keep(&known);
        self.accumulate(node, batch, Places::Each(&places), cx)
    }

    fn add_to_sets(
        &mut self,
        node: &AggregateNode,
        sets: &[Vec<bool>],
        batch: &ColumnBatch,
        cx: &Ctx<'_>,
    ) -> Result<()> {
        let nothing = Column::repeat(&Value::Null, batch.len());
        let columns = columns_of_sets(node, sets, batch, &nothing);
        let mut places: Vec<Vec<u32>> = vec![Vec::with_capacity(batch.len()); sets.len()];
        for row in 0..batch.len() {
            for (set, (columns, places)) in columns.iter().zip(&mut places).enumerate() {
                places.push(self.group_in_set(node, set, columns, row, cx)?);
            }
        }
        self.grow(node);
        for places in &places {
            self.accumulate(node, batch, Places::Each(places), cx)?;
        }
        Ok(())
    }

    /// The group that a row belongs to in a set; it may be a new one.
    fn group_in_set(
        &mut self,
        node: &AggregateNode,
        set: usize,
        columns: &[&Column],
        row: usize,
        cx: &Ctx<'_>,
    ) -> Result<u32> {
        key_in_set(node, set, columns, row, &mut self.buffer);
        let entry = self.sets.insert(&self.buffer);
        let (group, new) = entry.ok_or_else(crate::binder::too_complex)?;
        if new {
            let key = columns.iter().map(|k| k.value(row));
            let key: Vec<Value> = key.chain([Value::Int(set as i32)]).collect();
            self.open(key.into_iter(), cx);
        }
        Ok(group)
    }

    /// As `add_known`: a row may have groups in some of the sets and go to partitions for the others.
    fn add_known_to_sets(
        &mut self,
        node: &AggregateNode,
        sets: &[Vec<bool>],
        batch: &ColumnBatch,
        overflow: &mut Option<Overflow>,
        cx: &Ctx<'_>,
    ) -> Result<()> {
        let nothing = Column::repeat(&Value::Null, batch.len());
        let columns = columns_of_sets(node, sets, batch, &nothing);
        let mut row_values = Vec::new();
        for (set, columns) in columns.iter().enumerate() {
            // There may be thousands of sets, and each row goes to disk for each.
            cx.tick(batch.len() as u32)?;
            let (mut known, mut places) = (Vec::new(), Vec::new());
            for row in 0..batch.len() {
                key_in_set(node, set, columns, row, &mut self.buffer);
                if let Some(group) = self.sets.find(&self.buffer) {
                    known.push(row as u32);
                    places.push(group);
                    continue;
                }
                let overflow = match overflow {
                    Some(overflow) => overflow,
                    None => overflow.insert(Overflow {
                        partitions: Partitions::new(cx, node.input.schema.len() + 1)?,
                        at: 0,
                    }),
                };
                batch.row(row, &mut row_values);
                row_values.resize(node.input.schema.len(), Value::Null);
                row_values.push(Value::Int(set as i32));
                let partition = partition_of(&self.buffer);
                overflow.partitions.add(partition, &row_values)?;
            }
            let mut part = batch.clone();
            part.keep(&known);
            self.accumulate(node, &part, Places::Each(&places), cx)?;
        }
        Ok(())
    }

    /// Takes rows in that came back from a partition, each for the set that it names.
    fn add_to_named_sets(
        &mut self,
        node: &AggregateNode,
        sets: &[Vec<bool>],
        batch: &ColumnBatch,
        cx: &Ctx<'_>,
    ) -> Result<()> {
        let nothing = Column::repeat(&Value::Null, batch.len());
        let columns = columns_of_sets(node, sets, batch, &nothing);
        let mut places = Vec::with_capacity(batch.len());
        for row in 0..batch.len() {
            let set = match batch.value(node.input.schema.len(), row) {
                Value::Int(set) => usize::try_from(set).ok(),
                _ => None,
            };
            let named = set.and_then(|set| Some((set, columns.get(set)?)));
            let (set, columns) = named.ok_or_else(|| damaged("no such grouping set"))?;
            places.push(self.group_in_set(node, set, columns, row, cx)?);
        }
        self.grow(node);
        self.accumulate(node, batch, Places::Each(&places), cx)
    }

    /// Takes a batch in whose rows come in key order.
    fn add_in_order(
        &mut self,
        node: &AggregateNode,
        batch: &ColumnBatch,
        cx: &Ctx<'_>,
    ) -> Result<()> {
        if node.keys.is_empty() {
            if self.keys.is_empty() {
                self.open(std::iter::empty(), cx);
                self.grow(node);
            }
            return self.accumulate(node, batch, Places::One(0), cx);
        }
        let keys = key_columns(node, batch);
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        for row in 0..batch.len() {
            let known = if row > 0 {
                keys.iter()
                    .zip(&node.collations)
                    .all(|(k, c)| same(k, row - 1, row, *c))
            } else {
                let last = self.keys.row(self.len().saturating_sub(1));
                !self.keys.is_empty()
                    && keys
                        .iter()
                        .zip(&node.collations)
                        .zip(last)
                        .all(|((k, c), v)| compare_nulls_first(&k.value(row), v, *c).is_eq())
            };
            if !known {
                self.open(keys.iter().map(|k| k.value(row)), cx);
            }
            places.push((self.len() - 1) as u32);
        }
        self.grow(node);
        self.accumulate(node, batch, Places::Each(&places), cx)?;
        self.places = places;
        Ok(())
    }

    /// Forgets all groups but the last.
    fn keep_last(&mut self, node: &AggregateNode, cx: &Ctx<'_>) -> Result<()> {
        let Some(last) = self.len().checked_sub(1).filter(|n| *n > 0) else {
            return Ok(());
        };
        let key = self.keys.row(last).to_vec();
        self.keys.reset(key.len());
        self.keys.push(key);
        for (tally, call) in self.tallies.iter_mut().zip(&node.aggregates) {
            tally.keep_only(last, call, cx)?;
        }
        cx.release(self.bytes);
        self.bytes = 0;
        Ok(())
    }

    /// The grand total exists even without rows.
    fn add_empty(&mut self, node: &AggregateNode, cx: &Ctx<'_>) {
        let nulls = || node.keys.iter().map(|_| Value::Null);
        match &node.sets {
            None if node.scalar && self.keys.is_empty() => self.open(nulls(), cx),
            Some(sets) if self.keys.is_empty() => {
                for (number, members) in sets.iter().enumerate() {
                    if !members.contains(&true) {
                        let key: Vec<Value> = nulls().chain([Value::Int(number as i32)]).collect();
                        self.open(key.into_iter(), cx);
                    }
                }
            }
            _ => {}
        }
        self.grow(node);
    }
}

/// Key values kept of a group: the keys, and the number of the grouping set.
fn key_width(node: &AggregateNode) -> usize {
    node.keys.len() + usize::from(node.sets.is_some())
}

/// The key columns of each set: those that it leaves out are `nothing`.
fn columns_of_sets<'b>(
    node: &AggregateNode,
    sets: &[Vec<bool>],
    batch: &'b ColumnBatch,
    nothing: &'b Column,
) -> Vec<Vec<&'b Column>> {
    let keys = key_columns(node, batch);
    let of_set = |members: &Vec<bool>| {
        let taken = members.iter().chain(std::iter::repeat(&false));
        let column = |(key, taken): (&&'b Column, &bool)| match taken {
            true => *key,
            false => nothing,
        };
        keys.iter().zip(taken).map(column).collect()
    };
    sets.iter().map(of_set).collect()
}

/// Key of a row in a set, with the set's number at its end.
fn key_in_set(
    node: &AggregateNode,
    set: usize,
    columns: &[&Column],
    row: usize,
    key: &mut Vec<u8>,
) {
    row_key(columns, &node.collations, row, key);
    key.extend_from_slice(&(set as u32).to_le_bytes());
}

fn key_columns<'b>(node: &AggregateNode, batch: &'b ColumnBatch) -> Vec<&'b Column> {
    /// A column that is not there reads as NULL.
    static NOTHING: LazyLock<Column> = LazyLock::new(Column::default);
    let column = |p: &usize| batch.column(*p).unwrap_or(&NOTHING);
    node.keys.iter().map(column).collect()
}

/// Do two rows of a column hold the same key?
fn same(column: &Column, a: usize, b: usize, collation: daruma_value::CollationId) -> bool {
    use daruma_value::column::Data;
    match column.data() {
        Data::Int(data) => data.get(a) == data.get(b) && column.is_null(a) == column.is_null(b),
        Data::Any(data) => {
            let value = |row| data.get(row).unwrap_or(&Value::Null);
            compare_nulls_first(value(a), value(b), collation).is_eq()
        }
        _ => compare_nulls_first(&column.value(a), &column.value(b), collation).is_eq(),
    }
}

impl AggregateOp {
    /// The operator before its first row.
    pub fn new(node: Arc<AggregateNode>, cx: &Ctx<'_>) -> Result<AggregateOp> {
        Ok(AggregateOp {
            input: build(&node.input, cx)?,
            batch: ColumnBatch::default(),
            groups: Groups::new(&node),
            give: 0..0,
            overflow: None,
            input_done: false,
            finished: false,
            node,
        })
    }

    /// Makes more groups ready to give out, or finds that there are none.
    fn advance(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let node = self.node.clone();
        if self.input_done {
            return self.next_partition(cx);
        }
        if node.stream {
            self.groups.keep_last(&node, cx)?;
            if self.input.next_columns(cx, &mut self.batch)? {
                cx.tick(self.batch.len() as u32)?;
                self.groups.add_in_order(&node, &self.batch, cx)?;
                // The last group may go on in the next batch.
                self.give = 0..self.groups.len().saturating_sub(1);
                return Ok(());
            }
        } else {
            while self.input.next_columns(cx, &mut self.batch)? {
                cx.tick(self.batch.len() as u32)?;
                // Once rows of a key may lie on disk no new group begins in memory, even when another operator has given
                // memory back meanwhile: the key would be two groups.
                let is_closed = self.overflow.is_some() || self.groups.over(cx);
                let (batch, overflow) = (&mut self.batch, &mut self.overflow);
                match &node.sets {
                    _ if !is_closed => self.groups.add(&node, batch, cx)?,
                    None => self.groups.add_known(&node, batch, overflow, cx)?,
                    Some(sets) => {
                        self.groups
                            .add_known_to_sets(&node, sets, batch, overflow, cx)?;
                    }
                }
            }
            if let Some(overflow) = &mut self.overflow {
                overflow.partitions.finish()?;
            }
        }
        self.input_done = true;
        self.groups.add_empty(&node, cx);
        self.give = 0..self.groups.len();
        Ok(())
    }

    /// Aggregates the next partition that was set aside. It stays in memory whatever the grant says.
    fn next_partition(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let node = self.node.clone();
        self.groups.clear(&node, cx);
        self.give = 0..0;
        let Some(overflow) = self.overflow.as_mut().filter(|o| o.at < PARTITIONS) else {
            self.finished = true;
            return Ok(());
        };
        let mut rows = RowBatch::new();
        while overflow.partitions.read(overflow.at, &mut rows)? {
            cx.tick(rows.len() as u32)?;
            self.batch.take_rows(&mut rows);
            match &node.sets {
                None => self.groups.add(&node, &self.batch, cx)?,
                Some(sets) => {
                    self.groups
                        .add_to_named_sets(&node, sets, &self.batch, cx)?;
                }
            }
        }
        overflow.at += 1;
        self.give = 0..self.groups.len();
        Ok(())
    }

    fn give_groups(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<()> {
        while !out.is_full() {
            let Some(group) = self.give.next() else {
                break;
            };
            for value in self.groups.keys.row(group) {
                out.put(value.clone());
            }
            for (call, tally) in self.node.aggregates.iter().zip(&mut self.groups.tallies) {
                out.put(tally.finish(group, call, cx)?);
            }
            out.finish_row();
        }
        Ok(())
    }
}

impl Operator for AggregateOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(key_width(&self.node) + self.node.aggregates.len());
        loop {
            self.give_groups(cx, out)?;
            if !out.is_empty() {
                return Ok(true);
            }
            if self.finished {
                return Ok(false);
            }
            self.advance(cx)?;
        }
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let node = self.node.clone();
        self.groups.clear(&node, cx);
        self.overflow = None;
        self.input_done = false;
        self.finished = false;
        self.give = 0..0;
        self.input.rewind(cx)
    }
}
