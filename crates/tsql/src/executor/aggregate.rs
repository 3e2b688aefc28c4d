//! Grouping: by hash, or one group after the other when the input comes in key order.
//!
//! Theory: a hash aggregate gives each distinct key a number and keeps its first row's key values and accumulators in
//! arrays by that number. Over the memory grant, rows with new keys go to partitions on disk that are aggregated
//! afterwards. Grouping sets run through the same table with the keys that a set leaves out read as NULL.

use super::accumulate::Accumulator;
use super::batch::RowBatch;
use super::context::Ctx;
use super::key_table::KeyTable;
use super::operator::{Operator, build};
use super::plan::AggregateNode;
use super::spill::{Partitions, row_bytes};
use crate::error::Result;
use daruma_value::Value;
use daruma_value::compare::{compare_nulls_first, hash_bytes, write_key};
use std::sync::Arc;

const PARTITIONS: usize = 16;
/// Groups kept in memory at least, however small the grant.
const GROUPS_MIN: usize = 1024;

pub struct AggregateOp {
    node: Arc<AggregateNode>,
    input: Box<dyn Operator>,
    batch: RowBatch,
    at: usize,
    groups: Groups,
    key: Vec<u8>,
    /// Next group to give out; `None` while input is being read.
    give: Option<usize>,
    overflow: Option<(Partitions, usize)>,
    input_done: bool,
    gave_scalar: bool,
}

#[derive(Default)]
struct Groups {
    table: KeyTable,
    keys: RowBatch,
    accumulators: Vec<Accumulator>,
    bytes: usize,
}

impl Groups {
    fn clear(&mut self, width: usize, cx: &Ctx<'_>) {
        cx.release(self.bytes);
        self.bytes = 0;
        self.table.clear();
        self.keys.reset(width);
        self.accumulators.clear();
    }
}

impl AggregateOp {
    pub fn new(node: Arc<AggregateNode>, cx: &Ctx<'_>) -> Result<AggregateOp> {
        let mut op = AggregateOp {
            input: build(&node.input, cx)?,
            batch: RowBatch::new(),
            at: 0,
            groups: Groups::default(),
            key: Vec::new(),
            give: None,
            overflow: None,
            input_done: false,
            gave_scalar: false,
            node,
        };
        op.groups.keys.reset(op.key_width());
        Ok(op)
    }

    /// Key values kept of a group: the keys, and the number of the grouping set.
    fn key_width(&self) -> usize {
        self.node.keys.len() + usize::from(self.node.sets.is_some())
    }

    fn accumulate(
        groups: &mut Groups,
        node: &AggregateNode,
        group: usize,
        row: &[Value],
        cx: &Ctx<'_>,
    ) -> Result<()> {
        let count = node.aggregates.len();
        let accumulators = groups
            .accumulators
            .get_mut(group * count..(group + 1) * count)
            .unwrap_or_default();
        for (call, accumulator) in node.aggregates.iter().zip(accumulators) {
            match &call.arg {
                None => accumulator.add(call, None, row, cx)?,
                Some(arg) => {
                    let value = arg.get(row, cx)?;
                    accumulator.add(call, Some(&value), row, cx)?;
                }
            }
        }
        Ok(())
    }

    fn add_row(
        &mut self,
        row: &[Value],
        set: Option<(usize, &[bool])>,
        cx: &Ctx<'_>,
    ) -> Result<()> {
        let node = self.node.clone();
        self.key.clear();
        let taken = |position: usize| {
            set.is_none_or(|(_, members)| members.get(position).copied().unwrap_or(false))
        };
        for (position, (column, collation)) in node.keys.iter().zip(&node.collations).enumerate() {
            let value = if taken(position) {
                row.get(*column).unwrap_or(&Value::Null)
            } else {
                &Value::Null
            };
            write_key(value, *collation, &mut self.key);
        }
        if let Some((number, _)) = set {
            self.key.extend_from_slice(&(number as u32).to_le_bytes());
        }
        let over = cx_over(&self.groups, cx);
        if over && set.is_none() && self.groups.table.find(&self.key).is_none() {
            return self.set_aside(row, cx);
        }
        let (group, new) = self
            .groups
            .table
            .insert(&self.key)
            .ok_or_else(crate::binder::too_complex)?;
        if new {
            let key = node.keys.iter().enumerate().map(|(position, column)| {
                if taken(position) {
                    row.get(*column).cloned().unwrap_or(Value::Null)
                } else {
                    Value::Null
                }
            });
            self.groups
                .keys
                .push(key.chain(set.map(|(number, _)| Value::Int(number as i32))));
            self.groups
                .accumulators
                .extend(node.aggregates.iter().map(Accumulator::new));
            let bytes = self.key.len()
                + 64
                + node.aggregates.len() * size_of::<Accumulator>()
                + row_bytes(row) / 2;
            self.groups.bytes += bytes;
            cx.reserve(bytes);
        }
        Self::accumulate(&mut self.groups, &node, group as usize, row, cx)
    }

    fn set_aside(&mut self, row: &[Value], cx: &Ctx<'_>) -> Result<()> {
        if self.overflow.is_none() {
            self.overflow = Some((
                Partitions::new(cx, PARTITIONS, self.node.input.schema.len())?,
                0,
            ));
        }
        let partition = (hash_bytes(&self.key) >> 48) as usize % PARTITIONS;
        match &mut self.overflow {
            Some((partitions, _)) => partitions.add(partition, row),
            None => Ok(()),
        }
    }

    fn read_all(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        let node = self.node.clone();
        while self.input.next(cx, &mut batch)? {
            for row in batch.rows() {
                cx.tick(1)?;
                match &node.sets {
                    None => self.add_row(row, None, cx)?,
                    Some(sets) => {
                        for (number, members) in sets.iter().enumerate() {
                            self.add_row(row, Some((number, members)), cx)?;
                        }
                    }
                }
            }
        }
        self.batch = batch;
        if let Some((partitions, _)) = &mut self.overflow {
            partitions.finish()?;
        }
        self.input_done = true;
        self.add_empty_groups();
        Ok(())
    }

    /// The grand total exists even without rows.
    fn add_empty_groups(&mut self) {
        let node = self.node.clone();
        match &node.sets {
            None if node.scalar && self.groups.table.len() == 0 => {
                self.groups.keys.push(node.keys.iter().map(|_| Value::Null));
                self.groups
                    .accumulators
                    .extend(node.aggregates.iter().map(Accumulator::new));
                self.gave_scalar = true;
            }
            Some(sets) if self.groups.table.len() == 0 => {
                for (number, members) in sets.iter().enumerate() {
                    if !members.contains(&true) {
                        let nulls = node.keys.iter().map(|_| Value::Null);
                        self.groups
                            .keys
                            .push(nulls.chain([Value::Int(number as i32)]));
                        self.groups
                            .accumulators
                            .extend(node.aggregates.iter().map(Accumulator::new));
                    }
                }
            }
            _ => {}
        }
    }

    /// Aggregates the next partition that was set aside.
    fn next_partition(&mut self, cx: &Ctx<'_>) -> Result<bool> {
        let Some((mut partitions, at)) = self.overflow.take() else {
            return Ok(false);
        };
        if at >= PARTITIONS {
            return Ok(false);
        }
        let width = self.key_width();
        self.groups.clear(width, cx);
        let mut batch = RowBatch::new();
        let held = std::mem::take(&mut self.groups.bytes);
        while partitions.read(at, &mut batch)? {
            for row in batch.rows() {
                cx.tick(1)?;
                self.add_row(row, None, cx)?;
            }
        }
        self.groups.bytes += held;
        self.overflow = Some((partitions, at + 1));
        self.give = Some(0);
        Ok(true)
    }

    fn give_groups(&mut self, out: &mut RowBatch) -> Result<()> {
        let count = self.node.aggregates.len();
        let Some(next) = &mut self.give else {
            return Ok(());
        };
        while *next < self.groups.keys.len() && !out.is_full() {
            let group = *next;
            *next += 1;
            for value in self.groups.keys.row(group) {
                out.put(value.clone());
            }
            let accumulators = self
                .groups
                .accumulators
                .get_mut(group * count..(group + 1) * count)
                .unwrap_or_default();
            for (call, accumulator) in self.node.aggregates.iter().zip(accumulators) {
                out.put(accumulator.finish(call)?);
            }
            out.finish_row();
        }
        Ok(())
    }

    fn next_hash(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        if !self.input_done {
            self.read_all(cx)?;
            self.give = Some(0);
        }
        loop {
            self.give_groups(out)?;
            if !out.is_empty() {
                return Ok(true);
            }
            if !self.next_partition(cx)? {
                return Ok(false);
            }
        }
    }

    fn same_group(&self, row: &[Value]) -> bool {
        let kept = self.groups.keys.row(0);
        self.node
            .keys
            .iter()
            .zip(&self.node.collations)
            .zip(kept)
            .all(|((column, collation), known)| {
                row.get(*column)
                    .is_some_and(|v| compare_nulls_first(v, known, *collation).is_eq())
            })
    }

    fn next_stream(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        let node = self.node.clone();
        while !out.is_full() {
            if self.at >= self.batch.len() {
                self.at = 0;
                if self.input_done || !self.input.next(cx, &mut self.batch)? {
                    self.input_done = true;
                    self.batch.reset(0);
                    let empty = self.groups.keys.is_empty();
                    if empty && node.scalar && !self.gave_scalar {
                        self.groups.keys.push(node.keys.iter().map(|_| Value::Null));
                        self.groups
                            .accumulators
                            .extend(node.aggregates.iter().map(Accumulator::new));
                    } else if empty {
                        break;
                    }
                    self.gave_scalar = true;
                    self.give = Some(0);
                    self.give_groups(out)?;
                    self.groups.clear(self.key_width(), cx);
                    break;
                }
            }
            cx.tick(1)?;
            let row = self.batch.row(self.at);
            if !self.groups.keys.is_empty() && !self.same_group(row) {
                self.give = Some(0);
                self.give_groups(out)?;
                self.groups.clear(self.key_width(), cx);
                continue;
            }
            if self.groups.keys.is_empty() {
                let key = node
                    .keys
                    .iter()
                    .map(|c| row.get(*c).cloned().unwrap_or(Value::Null));
                self.groups.keys.push(key);
                self.groups
                    .accumulators
                    .extend(node.aggregates.iter().map(Accumulator::new));
            }
            Self::accumulate(&mut self.groups, &node, 0, row, cx)?;
            self.at += 1;
        }
        Ok(!out.is_empty())
    }
}

/// Is the grant used up, with enough groups in memory already?
fn cx_over(groups: &Groups, cx: &Ctx<'_>) -> bool {
    groups.table.len() >= GROUPS_MIN && !cx.reserve(0) && groups.bytes > 0
}

impl Operator for AggregateOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.key_width() + self.node.aggregates.len());
        if self.node.stream {
            self.next_stream(cx, out)
        } else {
            self.next_hash(cx, out)
        }
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let width = self.key_width();
        self.groups.clear(width, cx);
        self.overflow = None;
        self.input_done = false;
        self.give = None;
        self.gave_scalar = false;
        self.batch.reset(0);
        self.at = 0;
        self.input.rewind(cx)
    }
}
