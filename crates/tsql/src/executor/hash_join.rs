//! Hash join, and EXCEPT and INTERSECT.
//!
//! Theory: the build side goes into a hash table by its key bytes; each probe row finds its partners there. NULL keys
//! find nobody. Semi and Anti decide about probe rows; Full also gives the build rows that nobody met.
//!
//! When the build side exceeds the memory grant, both sides are written to partitions on disk by a hash of their keys,
//! and the partitions are joined one after the other.

use super::batch::RowBatch;
use super::context::Ctx;
use super::expr::Expr;
use super::key_table::KeyTable;
use super::operator::{Operator, build};
use super::plan::{HashJoinNode, JoinKind, SetHashNode};
use super::spill::{Partitions, row_bytes};
use crate::error::Result;
use daruma_value::compare::{hash_bytes, write_key};
use daruma_value::{CollationId, Value};
use std::sync::Arc;

const NONE: u32 = u32::MAX;
/// Files that a side is split into when it does not fit.
const PARTITIONS: usize = 16;

pub struct HashJoinOp {
    node: Arc<HashJoinNode>,
    probe: Box<dyn Operator>,
    build: Box<dyn Operator>,
    table: BuildTable,
    built: bool,
    probe_batch: RowBatch,
    probe_at: usize,
    /// Next partner of the present probe row.
    chain: u32,
    started_row: bool,
    matched: bool,
    joined: Vec<Value>,
    key: Vec<u8>,
    /// Next build row to look at for the unmatched ones of FULL.
    leftover: usize,
    spilled: Option<Spilled>,
}

/// Both sides on disk.
struct Spilled {
    probe: Partitions,
    build: Partitions,
    at: usize,
}

#[derive(Default)]
struct BuildTable {
    keys: KeyTable,
    /// First row of each key, and the next row with the same key.
    heads: Vec<u32>,
    next: Vec<u32>,
    met: Vec<bool>,
    rows: RowBatch,
    bytes: usize,
}

impl BuildTable {
    fn clear(&mut self, width: usize, cx: &Ctx<'_>) {
        cx.release(self.bytes);
        self.bytes = 0;
        self.keys.clear();
        self.heads.clear();
        self.next.clear();
        self.met.clear();
        self.rows.reset(width);
    }

    fn add(&mut self, key: Option<&[u8]>, row: &[Value]) -> Result<()> {
        let index = self.rows.len() as u32;
        let mut next = NONE;
        if let Some(key) = key {
            let (number, new) = self
                .keys
                .insert(key)
                .ok_or_else(crate::binder::too_complex)?;
            if new {
                self.heads.push(index);
            } else if let Some(head) = self.heads.get_mut(number as usize) {
                next = std::mem::replace(head, index);
            }
        }
        self.next.push(next);
        self.met.push(false);
        self.rows.push_slice(row);
        Ok(())
    }

    fn find(&self, key: &[u8]) -> u32 {
        self.keys
            .find(key)
            .and_then(|n| self.heads.get(n as usize))
            .copied()
            .unwrap_or(NONE)
    }
}

/// Key bytes of a row; false when a part is NULL.
fn key_of(
    exprs: &[Expr],
    collations: &[CollationId],
    row: &[Value],
    cx: &Ctx<'_>,
    key: &mut Vec<u8>,
) -> Result<bool> {
    key.clear();
    for (expr, collation) in exprs.iter().zip(collations) {
        let value = expr.get(row, cx)?;
        if value.is_null() {
            return Ok(false);
        }
        write_key(&value, *collation, key);
    }
    Ok(true)
}

impl HashJoinOp {
    pub fn new(node: Arc<HashJoinNode>, cx: &Ctx<'_>) -> Result<HashJoinOp> {
        Ok(HashJoinOp {
            probe: build(&node.probe, cx)?,
            build: build(&node.build, cx)?,
            node,
            table: BuildTable::default(),
            built: false,
            probe_batch: RowBatch::new(),
            probe_at: 0,
            chain: NONE,
            started_row: false,
            matched: false,
            joined: Vec::new(),
            key: Vec::new(),
            leftover: 0,
            spilled: None,
        })
    }

    fn build_table(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.built = true;
        self.table.clear(self.node.build.schema.len(), cx);
        let mut batch = RowBatch::new();
        while self.build.next(cx, &mut batch)? {
            for row in batch.rows() {
                cx.tick(1)?;
                let bytes = row_bytes(row);
                if let Some(spilled) = &mut self.spilled {
                    let whole = key_of(
                        &self.node.build_keys,
                        &self.node.collations,
                        row,
                        cx,
                        &mut self.key,
                    )?;
                    spilled.build.add(partition(whole, &self.key), row)?;
                    continue;
                }
                let whole = key_of(
                    &self.node.build_keys,
                    &self.node.collations,
                    row,
                    cx,
                    &mut self.key,
                )?;
                self.table.add(whole.then_some(&self.key), row)?;
                self.table.bytes += bytes;
                if !cx.reserve(bytes) && self.table.rows.len() >= 1024 {
                    self.start_spill(cx)?;
                }
            }
        }
        if self.spilled.is_some() {
            self.spill_probe(cx)?;
            self.load_partition(cx)?;
        }
        Ok(())
    }

    /// Moves the table built so far to disk.
    fn start_spill(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let mut build = Partitions::new(cx, PARTITIONS, self.node.build.schema.len())?;
        for row in self.table.rows.rows() {
            let whole = key_of(
                &self.node.build_keys,
                &self.node.collations,
                row,
                cx,
                &mut self.key,
            )?;
            build.add(partition(whole, &self.key), row)?;
        }
        self.table.clear(self.node.build.schema.len(), cx);
        let probe = Partitions::new(cx, PARTITIONS, self.node.probe.schema.len())?;
        self.spilled = Some(Spilled {
            probe,
            build,
            at: 0,
        });
        Ok(())
    }

    fn spill_probe(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let mut batch = RowBatch::new();
        while self.probe.next(cx, &mut batch)? {
            for row in batch.rows() {
                cx.tick(1)?;
                let whole = key_of(
                    &self.node.probe_keys,
                    &self.node.collations,
                    row,
                    cx,
                    &mut self.key,
                )?;
                if let Some(spilled) = &mut self.spilled {
                    spilled.probe.add(partition(whole, &self.key), row)?;
                }
            }
        }
        if let Some(spilled) = &mut self.spilled {
            spilled.probe.finish()?;
            spilled.build.finish()?;
        }
        Ok(())
    }

    /// Makes the table of the present partition.
    fn load_partition(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.table.clear(self.node.build.schema.len(), cx);
        self.leftover = 0;
        let Some(spilled) = &mut self.spilled else {
            return Ok(());
        };
        let mut batch = RowBatch::new();
        while spilled.build.read(spilled.at, &mut batch)? {
            for row in batch.rows() {
                cx.tick(1)?;
                let whole = key_of(
                    &self.node.build_keys,
                    &self.node.collations,
                    row,
                    cx,
                    &mut self.key,
                )?;
                self.table.add(whole.then_some(&self.key), row)?;
            }
        }
        Ok(())
    }

    fn next_probe(&mut self, cx: &Ctx<'_>) -> Result<bool> {
        match &mut self.spilled {
            None => self.probe.next(cx, &mut self.probe_batch),
            Some(spilled) => spilled.probe.read(spilled.at, &mut self.probe_batch),
        }
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

    fn start_row(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let row = self.probe_batch.row(self.probe_at);
        let whole = key_of(
            &self.node.probe_keys,
            &self.node.collations,
            row,
            cx,
            &mut self.key,
        )?;
        self.chain = if whole {
            self.table.find(&self.key)
        } else {
            NONE
        };
        self.started_row = true;
        self.matched = false;
        self.joined.clear();
        self.joined.extend_from_slice(row);
        Ok(())
    }

    fn end_row(&mut self) {
        self.started_row = false;
        self.probe_at += 1;
    }

    fn put(&self, out: &mut RowBatch) {
        for position in &self.node.output {
            out.put(self.joined.get(*position).cloned().unwrap_or(Value::Null));
        }
        out.finish_row();
    }

    fn run_row(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<()> {
        let width = self.node.probe.schema.len();
        while self.chain != NONE {
            if out.is_full() {
                return Ok(());
            }
            cx.tick(1)?;
            let index = self.chain as usize;
            self.chain = self.table.next.get(index).copied().unwrap_or(NONE);
            self.joined.truncate(width);
            self.joined.extend_from_slice(self.table.rows.row(index));
            if let Some(residual) = &self.node.residual
                && !residual.accepts(&self.joined, cx)?
            {
                continue;
            }
            self.matched = true;
            match self.node.kind {
                JoinKind::Inner | JoinKind::Left => self.put(out),
                JoinKind::Full => {
                    if let Some(met) = self.table.met.get_mut(index) {
                        *met = true;
                    }
                    self.put(out);
                }
                JoinKind::Semi | JoinKind::Anti => self.chain = NONE,
            }
        }
        let alone = match self.node.kind {
            JoinKind::Semi => self.matched,
            JoinKind::Left | JoinKind::Full | JoinKind::Anti => !self.matched,
            JoinKind::Inner => false,
        };
        if alone {
            self.joined.truncate(width);
            self.put(out);
        }
        self.end_row();
        Ok(())
    }

    /// FULL: build rows without a partner.
    fn leftovers(&mut self, out: &mut RowBatch) {
        let width = self.node.probe.schema.len();
        while self.leftover < self.table.rows.len() && !out.is_full() {
            let index = self.leftover;
            self.leftover += 1;
            if self.table.met.get(index) == Some(&false) {
                self.joined.clear();
                self.joined.resize(width, Value::Null);
                self.joined.extend_from_slice(self.table.rows.row(index));
                self.put(out);
            }
        }
    }
}

fn partition(whole: bool, key: &[u8]) -> usize {
    // High bits: the table uses the low ones.
    if whole {
        (hash_bytes(key) >> 48) as usize % PARTITIONS
    } else {
        0
    }
}

impl Operator for HashJoinOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.node.output.len());
        if !self.built {
            self.build_table(cx)?;
        }
        let needs_partner = matches!(self.node.kind, JoinKind::Inner | JoinKind::Semi);
        if needs_partner && self.spilled.is_none() && self.table.keys.len() == 0 {
            return Ok(false);
        }
        loop {
            if self.probe_at >= self.probe_batch.len() {
                if !out.is_empty() {
                    return Ok(true);
                }
                self.probe_at = 0;
                if !self.next_probe(cx)? {
                    self.probe_batch.reset(0);
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
            }
            if !self.started_row {
                cx.tick(1)?;
                self.start_row(cx)?;
            }
            self.run_row(cx, out)?;
            if out.is_full() {
                return Ok(true);
            }
        }
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.table.clear(self.node.build.schema.len(), cx);
        self.spilled = None;
        self.built = false;
        self.started_row = false;
        self.probe_at = 0;
        self.leftover = 0;
        self.probe_batch.reset(0);
        self.build.rewind(cx)?;
        self.probe.rewind(cx)
    }
}

pub struct SetHashOp {
    node: Arc<SetHashNode>,
    left: Box<dyn Operator>,
    right: Box<dyn Operator>,
    right_keys: KeyTable,
    seen: KeyTable,
    built: bool,
    batch: RowBatch,
    key: Vec<u8>,
}

impl SetHashOp {
    pub fn new(node: Arc<SetHashNode>, cx: &Ctx<'_>) -> Result<SetHashOp> {
        Ok(SetHashOp {
            left: build(&node.left, cx)?,
            right: build(&node.right, cx)?,
            node,
            right_keys: KeyTable::new(),
            seen: KeyTable::new(),
            built: false,
            batch: RowBatch::new(),
            key: Vec::new(),
        })
    }

    fn key(key: &mut Vec<u8>, row: &[Value], collations: &[CollationId]) {
        key.clear();
        for (value, collation) in row.iter().zip(collations) {
            write_key(value, *collation, key);
        }
    }
}

impl Operator for SetHashOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.node.left.schema.len());
        if !self.built {
            self.built = true;
            while self.right.next(cx, &mut self.batch)? {
                for row in self.batch.rows() {
                    cx.tick(1)?;
                    Self::key(&mut self.key, row, &self.node.collations);
                    self.right_keys
                        .insert(&self.key)
                        .ok_or_else(crate::binder::too_complex)?;
                }
            }
        }
        while out.is_empty() {
            if !self.left.next(cx, &mut self.batch)? {
                return Ok(false);
            }
            for row in self.batch.rows() {
                cx.tick(1)?;
                Self::key(&mut self.key, row, &self.node.collations);
                if self.right_keys.find(&self.key).is_some() == self.node.except {
                    continue;
                }
                let (_, new) = self
                    .seen
                    .insert(&self.key)
                    .ok_or_else(crate::binder::too_complex)?;
                if new {
                    out.push_slice(row);
                }
            }
        }
        Ok(true)
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.built = false;
        self.right_keys.clear();
        self.seen.clear();
        self.left.rewind(cx)?;
        self.right.rewind(cx)
    }
}
