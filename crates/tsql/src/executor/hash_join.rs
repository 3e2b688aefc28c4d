//! Hash join.
//!
//! Theory: the build side lies in columns; its keys get numbers, and rows with equal keys form chains. A batch of the
//! probe side is looked up as a whole, which gives pairs of row numbers, and only then the wanted columns of both sides
//! are gathered. NULL keys find nobody. Semi and Anti decide about probe rows; Full also gives the build rows that
//! nobody met.
//!
//! A join that starts again keeps its table while the build side would read the same: below a loop most sides do not look at the
//! row around them.
//!
//! When the build side exceeds the memory grant, both sides are written to partitions on disk by a hash of their keys,
//! and the partitions are joined one after the other.

use super::batch::{BATCH_ROWS, LONG_BATCH_BYTES, RowBatch};
use super::columns::ColumnBatch;
use super::context::{Ctx, Reads, SPILLED_BYTES_MIN};
use super::expr::Expr;
use super::numbering::{Nulls, Numbering, row_key};
use super::operator::{Operator, build};
use super::plan::{HashJoinNode, JoinKind};
use super::spill::{PARTITIONS, Partitions, partition_of};
use super::vector::{self, cond_slots};
use crate::error::Result;
use daruma_value::column::{Column, NO_ROW};
use daruma_value::{CollationId, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// Short build rows kept in memory at least, however small the grant.
const ROWS_MIN: usize = 1024;

/// Hash join: the build side in memory, both in partitions on disk when it does not fit.
pub struct HashJoinOp {
    node: Arc<HashJoinNode>,
    probe: Box<dyn Operator>,
    build: Box<dyn Operator>,
    table: BuildTable,
    built: bool,
    /// The build side has been read, and is to start again before it is read once more.
    build_ran: bool,
    /// What the rows of the table depend on.
    reads: Option<Reads>,
    batch: ProbeBatch,
    /// Next build row to look at for the unmatched ones of FULL.
    leftover: usize,
    spilled: Option<Spilled>,
    /// For readers of rows.
    given: ColumnBatch,
    /// Columns of pairs that the residual condition looks at.
    residual_slots: Vec<usize>,
}

/// Both sides on disk.
struct Spilled {
    probe: Partitions,
    build: Partitions,
    at: usize,
}

struct BuildTable {
    numbers: Numbering,
    /// First row of each key, and the next row with the same key.
    heads: Vec<u32>,
    next: Vec<u32>,
    /// No key has two rows.
    unique: bool,
    met: Vec<bool>,
    rows: ColumnBatch,
    bytes: usize,
    /// No row has more bytes outside of its columns, once all were added.
    longest: usize,
}

/// A batch of the probe side, and how far it has been joined.
#[derive(Default)]
struct ProbeBatch {
    columns: ColumnBatch,
    /// First partner of each row.
    firsts: Vec<u32>,
    at: usize,
    /// Next partner of the row at `at`.
    chain: u32,
    matched: Vec<bool>,
    /// Pairs may be long: their bytes are counted.
    is_long: bool,
    /// Pairs found.
    left: Vec<u32>,
    right: Vec<u32>,
}

impl BuildTable {
    fn new(collations: &[CollationId]) -> BuildTable {
        BuildTable {
            numbers: Numbering::new(collations, Nulls::Nobody),
            heads: Vec::new(),
            next: Vec::new(),
            unique: true,
            met: Vec::new(),
            rows: ColumnBatch::default(),
            bytes: 0,
            longest: 0,
        }
    }

    /// All rows were added.
    fn finish(&mut self) {
        self.longest = self.rows.longest_row();
    }

    fn clear(&mut self, node: &HashJoinNode, cx: &Ctx<'_>) {
        cx.release(self.bytes);
        *self = BuildTable::new(&node.collations);
    }

    fn add(&mut self, batch: &ColumnBatch, keys: &[Cow<'_, Column>]) -> Result<()> {
        let base = u32::try_from(self.rows.len() + batch.len())
            .ok()
            .filter(|n| *n < NO_ROW)
            .ok_or_else(crate::binder::too_complex)?
            - batch.len() as u32;
        let mut numbers = Vec::with_capacity(batch.len());
        let keys: Vec<&Column> = keys.iter().map(|k| &**k).collect();
        self.numbers.number(&keys, batch.len(), &mut numbers)?;
        for (row, number) in numbers.into_iter().enumerate() {
            let index = base + row as u32;
            let mut next = NO_ROW;
            if number as usize == self.heads.len() {
                self.heads.push(index);
            } else if let Some(head) = self.heads.get_mut(number as usize) {
                next = std::mem::replace(head, index);
                self.unique = false;
            }
            self.next.push(next);
        }
        self.rows.append(batch);
        Ok(())
    }
}

/// Can a batch of rows, none of which has more bytes, be handed on whatever they are?
fn are_short(longest: usize) -> bool {
    longest <= LONG_BATCH_BYTES / BATCH_ROWS
}

/// Key columns of a batch.
fn keys_of<'b>(
    exprs: &'b [Expr],
    batch: &'b ColumnBatch,
    cx: &Ctx<'_>,
) -> Result<Vec<Cow<'b, Column>>> {
    let mut keys = Vec::with_capacity(exprs.len());
    for expr in exprs {
        keys.push(match vector::eval(expr, batch, cx)? {
            vector::Vector::Lent(column) => Cow::Borrowed(column),
            other => Cow::Owned(other.into_column(batch.len())),
        });
    }
    Ok(keys)
}

/// Deals the rows of a batch out to partitions by their keys.
fn deal_out(
    exprs: &[Expr],
    node: &HashJoinNode,
    batch: &ColumnBatch,
    to: &mut Partitions,
    cx: &Ctx<'_>,
) -> Result<()> {
    let keys = keys_of(exprs, batch, cx)?;
    let keys: Vec<&Column> = keys.iter().map(|k| &**k).collect();
    let (mut key, mut values) = (Vec::new(), Vec::new());
    for row in 0..batch.len() {
        let whole = row_key(&keys, &node.collations, row, &mut key);
        batch.row(row, &mut values);
        to.add(if whole { partition_of(&key) } else { 0 }, &values)?;
    }
    Ok(())
}

impl HashJoinOp {
    /// The operator before its first row.
    pub fn new(node: Arc<HashJoinNode>, cx: &Ctx<'_>) -> Result<HashJoinOp> {
        let mut residual_slots = Vec::new();
        node.residual
            .iter()
            .for_each(|r| cond_slots(r, &mut residual_slots));
        Ok(HashJoinOp {
            probe: build(&node.probe, cx)?,
            build: build(&node.build, cx)?,
            table: BuildTable::new(&node.collations),
            built: false,
            build_ran: false,
            reads: None,
            batch: ProbeBatch::default(),
            leftover: 0,
            spilled: None,
            given: ColumnBatch::default(),
            residual_slots,
            node,
        })
    }

    fn build_table(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.built = true;
        if self.reads.as_ref().is_some_and(|r| cx.reads_the_same(r)) {
            return Ok(());
        }
        let begun = cx.begin_reads();
        if std::mem::replace(&mut self.build_ran, true) {
            self.build.rewind(cx)?;
        }
        let node = self.node.clone();
        self.table.clear(&node, cx);
        let mut batch = ColumnBatch::default();
        while self.build.next_columns(cx, &mut batch)? {
            cx.tick(batch.len() as u32)?;
            if let Some(spilled) = &mut self.spilled {
                deal_out(&node.build_keys, &node, &batch, &mut spilled.build, cx)?;
                continue;
            }
            let keys = keys_of(&node.build_keys, &batch, cx)?;
            self.table.add(&batch, &keys)?;
            let bytes = batch.bytes();
            self.table.bytes += bytes;
            let is_much =
                self.table.rows.len() >= ROWS_MIN || self.table.bytes >= SPILLED_BYTES_MIN;
            if !cx.reserve(bytes) && is_much {
                self.start_spill(cx)?;
            }
        }
        self.reads = Some(cx.end_reads(begun));
        if self.spilled.is_some() {
            self.spill_probe(cx)?;
            return self.load_partition(cx);
        }
        self.table.finish();
        Ok(())
    }

    /// Moves the table built so far to disk.
    fn start_spill(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let node = self.node.clone();
        let mut build = Partitions::new(cx, node.build.schema.len())?;
        deal_out(&node.build_keys, &node, &self.table.rows, &mut build, cx)?;
        self.table.clear(&node, cx);
        let probe = Partitions::new(cx, node.probe.schema.len())?;
        self.spilled = Some(Spilled {
            probe,
            build,
            at: 0,
        });
        Ok(())
    }

    fn spill_probe(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let node = self.node.clone();
        let mut batch = ColumnBatch::default();
        let Some(spilled) = &mut self.spilled else {
            return Ok(());
        };
        while self.probe.next_columns(cx, &mut batch)? {
            cx.tick(batch.len() as u32)?;
            deal_out(&node.probe_keys, &node, &batch, &mut spilled.probe, cx)?;
        }
        spilled.probe.finish()?;
        spilled.build.finish()
    }

    /// Makes the table of the present partition.
    fn load_partition(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let node = self.node.clone();
        self.table.clear(&node, cx);
        self.leftover = 0;
        let Some(spilled) = &mut self.spilled else {
            return Ok(());
        };
        let (mut rows, mut batch) = (RowBatch::new(), ColumnBatch::default());
        while spilled.build.read(spilled.at, &mut rows)? {
            cx.tick(rows.len() as u32)?;
            batch.take_rows(&mut rows);
            let keys = keys_of(&node.build_keys, &batch, cx)?;
            self.table.add(&batch, &keys)?;
        }
        self.table.finish();
        Ok(())
    }

    /// Goes to the next partition; false when there is none.
    fn next_partition(&mut self, cx: &Ctx<'_>) -> Result<bool> {
        match &mut self.spilled {
            Some(spilled) if spilled.at + 1 < PARTITIONS => {
                spilled.at += 1;
                self.load_partition(cx)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Reads a batch of the probe side and looks its keys up.
    fn next_probe(&mut self, cx: &Ctx<'_>) -> Result<bool> {
        let batch = &mut self.batch;
        let more = match &mut self.spilled {
            None => self.probe.next_columns(cx, &mut batch.columns)?,
            Some(spilled) => {
                let mut rows = std::mem::take(&mut batch.columns.rows);
                let more = spilled.probe.read(spilled.at, &mut rows)?;
                batch.columns.take_rows(&mut rows);
                batch.columns.rows = rows;
                more
            }
        };
        batch.at = 0;
        batch.firsts.clear();
        batch.matched.clear();
        if !more {
            return Ok(false);
        }
        let len = batch.columns.len();
        cx.tick(len as u32)?;
        let keys = keys_of(&self.node.probe_keys, &batch.columns, cx)?;
        let keys: Vec<&Column> = keys.iter().map(|k| &**k).collect();
        self.table.numbers.find(&keys, len, &mut batch.firsts)?;
        for first in &mut batch.firsts {
            *first = self
                .table
                .heads
                .get(*first as usize)
                .copied()
                .unwrap_or(NO_ROW);
        }
        batch.chain = batch.firsts.first().copied().unwrap_or(NO_ROW);
        batch.matched.resize(len, false);
        batch.is_long = !are_short(self.table.longest + batch.columns.longest_row());
        Ok(true)
    }

    /// Collects the next pairs of the batch.
    fn find_pairs(&mut self) {
        let batch = &mut self.batch;
        batch.left.clear();
        batch.right.clear();
        let one_is_enough = self.node.residual.is_none()
            && matches!(self.node.kind, JoinKind::Semi | JoinKind::Anti);
        if self.table.unique && !batch.is_long || one_is_enough {
            for (row, first) in batch.firsts.iter().enumerate() {
                if *first != NO_ROW {
                    batch.left.push(row as u32);
                    batch.right.push(*first);
                }
            }
            batch.at = batch.firsts.len();
            return;
        }
        let mut bytes = 0;
        while batch.at < batch.firsts.len()
            && batch.left.len() < BATCH_ROWS
            && bytes < LONG_BATCH_BYTES
        {
            if batch.chain == NO_ROW {
                batch.at += 1;
                batch.chain = batch.firsts.get(batch.at).copied().unwrap_or(NO_ROW);
                continue;
            }
            batch.left.push(batch.at as u32);
            batch.right.push(batch.chain);
            if batch.is_long {
                bytes += batch.columns.outside_bytes_of(batch.at)
                    + self.table.rows.outside_bytes_of(batch.chain as usize);
            }
            let next = self.table.next.get(batch.chain as usize);
            batch.chain = next.copied().unwrap_or(NO_ROW);
        }
    }

    /// Drops the pairs that the residual condition does not accept.
    fn check_pairs(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let Some(residual) = &self.node.residual else {
            return Ok(());
        };
        let width = self.node.probe.schema.len();
        let batch = &mut self.batch;
        let mut joined = ColumnBatch::default();
        joined.reset(width + self.node.build.schema.len());
        for slot in &self.residual_slots {
            let (from, rows) = match slot.checked_sub(width) {
                None => (batch.columns.column(*slot), &batch.left),
                Some(slot) => (self.table.rows.column(slot), &batch.right),
            };
            if let (Some(from), Some(to)) = (from, joined.column_mut(*slot)) {
                to.gather(from, rows);
            }
        }
        joined.set_len(batch.left.len());
        let mut kept: Vec<u32> = (0..batch.left.len() as u32).collect();
        vector::filter(residual, &joined, cx, &mut kept)?;
        if kept.len() < batch.left.len() {
            let pick = |all: &[u32]| -> Vec<u32> {
                let at = |i: &u32| all.get(*i as usize).copied().unwrap_or(NO_ROW);
                kept.iter().map(at).collect()
            };
            (batch.left, batch.right) = (pick(&batch.left), pick(&batch.right));
        }
        Ok(())
    }

    /// Turns pairs into the rows that the kind of join wants.
    fn decide(&mut self) {
        if self.node.kind == JoinKind::Inner {
            return;
        }
        let batch = &mut self.batch;
        for row in &batch.left {
            if let Some(matched) = batch.matched.get_mut(*row as usize) {
                *matched = true;
            }
        }
        let done = batch.at >= batch.firsts.len();
        match self.node.kind {
            JoinKind::Semi | JoinKind::Anti => {
                batch.left.clear();
                if done {
                    let wanted = self.node.kind == JoinKind::Semi;
                    let rows = batch.matched.iter().enumerate();
                    batch.left.extend(
                        rows.filter(|(_, m)| **m == wanted)
                            .map(|(row, _)| row as u32),
                    );
                }
                batch.right.clear();
                batch.right.resize(batch.left.len(), NO_ROW);
            }
            _ => {
                if self.node.kind == JoinKind::Full {
                    self.table.met.resize(self.table.rows.len(), false);
                    for row in &batch.right {
                        if let Some(met) = self.table.met.get_mut(*row as usize) {
                            *met = true;
                        }
                    }
                }
                if done && batch.matched.contains(&false) {
                    batch.add_unmatched();
                }
            }
        }
    }

    /// Gathers the output columns of the pairs.
    fn put(&mut self, out: &mut ColumnBatch) {
        let width = self.node.probe.schema.len();
        let batch = &mut self.batch;
        let len = batch.left.len();
        let whole = len == batch.columns.len()
            && batch.at >= batch.firsts.len()
            && batch.left.iter().enumerate().all(|(i, r)| *r as usize == i);
        for (to, position) in self.node.output.iter().enumerate() {
            let Some(to) = out.column_mut(to) else {
                continue;
            };
            match position.checked_sub(width) {
                // Each row found one partner: its columns go on as they are.
                None if whole => {
                    if let Some(from) = batch.columns.column_mut(*position) {
                        std::mem::swap(from, to);
                    }
                }
                None => {
                    if let Some(from) = batch.columns.column(*position) {
                        to.gather(from, &batch.left);
                    }
                }
                Some(position) => match self.table.rows.column(position) {
                    Some(from) => to.gather(from, &batch.right),
                    None => *to = Column::repeat(&Value::Null, len),
                },
            }
        }
        out.set_len(len);
    }

    /// FULL: build rows without a partner.
    fn leftovers(&mut self, out: &mut ColumnBatch) {
        let width = self.node.probe.schema.len();
        let mut rows = Vec::new();
        let mut bytes = 0;
        while self.leftover < self.table.rows.len()
            && rows.len() < BATCH_ROWS
            && bytes < LONG_BATCH_BYTES
        {
            if self.table.met.get(self.leftover) != Some(&true) {
                rows.push(self.leftover as u32);
                bytes += self.table.rows.outside_bytes_of(self.leftover);
            }
            self.leftover += 1;
        }
        for (to, position) in self.node.output.iter().enumerate() {
            let Some(to) = out.column_mut(to) else {
                continue;
            };
            match position.checked_sub(width) {
                None => *to = Column::repeat(&Value::Null, rows.len()),
                Some(position) => {
                    if let Some(from) = self.table.rows.column(position) {
                        to.gather(from, &rows);
                    }
                }
            }
        }
        out.set_len(rows.len());
    }
}

impl ProbeBatch {
    /// Puts the rows without a partner in their places among the pairs.
    fn add_unmatched(&mut self) {
        let (left, right) = (
            std::mem::take(&mut self.left),
            std::mem::take(&mut self.right),
        );
        let mut pairs = left.into_iter().zip(right).peekable();
        for (row, matched) in self.matched.iter().enumerate() {
            if *matched {
                continue;
            }
            while let Some((l, r)) = pairs.next_if(|(l, _)| (*l as usize) < row) {
                self.left.push(l);
                self.right.push(r);
            }
            self.left.push(row as u32);
            self.right.push(NO_ROW);
        }
        for (l, r) in pairs {
            self.left.push(l);
            self.right.push(r);
        }
    }
}

impl Operator for HashJoinOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.node.output.len());
        let mut given = std::mem::take(&mut self.given);
        let more = self.next_columns(cx, &mut given)?;
        given.give_rows(out);
        self.given = given;
        Ok(more)
    }

    fn next_columns(&mut self, cx: &Ctx<'_>, out: &mut ColumnBatch) -> Result<bool> {
        out.reset(self.node.output.len());
        if !self.built {
            self.build_table(cx)?;
        }
        let needs_partner = matches!(self.node.kind, JoinKind::Inner | JoinKind::Semi);
        if needs_partner && self.spilled.is_none() && self.table.heads.is_empty() {
            return Ok(false);
        }
        loop {
            if self.batch.at >= self.batch.firsts.len() && !self.next_probe(cx)? {
                if self.node.kind == JoinKind::Full {
                    self.leftovers(out);
                    if !out.is_empty() {
                        return Ok(true);
                    }
                }
                if !self.next_partition(cx)? {
                    return Ok(false);
                }
                continue;
            }
            self.find_pairs();
            cx.tick(self.batch.left.len() as u32)?;
            self.check_pairs(cx)?;
            self.decide();
            if !self.batch.left.is_empty() {
                self.put(out);
                return Ok(true);
            }
        }
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        // Partitions are read up, and a FULL join has marked its rows.
        if self.spilled.is_some() || self.node.kind == JoinKind::Full {
            let node = self.node.clone();
            self.table.clear(&node, cx);
            self.reads = None;
        }
        self.spilled = None;
        self.built = false;
        self.leftover = 0;
        self.batch = ProbeBatch::default();
        self.probe.rewind(cx)
    }
}
