//! EXCEPT and INTERSECT: the keys of the right side in a table, the left side read against it.
//!
//! Theory: only keys are kept, those of the right side and those of the left that were given. When they exceed the memory grant, they and
//! what is left of both sides are dealt out to partitions on disk by a hash of the key, and the partitions are read one after the
//! other. A key lies in one partition only, so what was given before is told there.

use super::batch::RowBatch;
use super::context::{Ctx, SPILLED_BYTES_MIN};
use super::key_table::KeyTable;
use super::operator::{Operator, build};
use super::plan::SetHashNode;
use super::spill::{PARTITIONS, Partitions, partition_of};
use crate::error::Result;
use daruma_value::compare::write_key;
use daruma_value::{CollationId, Value};
use std::sync::Arc;

/// Memory of a key beside its bytes, roughly.
const KEY_BYTES: usize = 24;

/// Keeps the right side's rows as keys, and each row of the left that is given, once.
pub struct SetHashOp {
    node: Arc<SetHashNode>,
    left: Box<dyn Operator>,
    right: Box<dyn Operator>,
    keys: Keys,
    spilled: Option<Spilled>,
    built: bool,
    batch: RowBatch,
    key: Vec<u8>,
}

/// Keys in memory.
#[derive(Default)]
struct Keys {
    right: KeyTable,
    /// Of rows that were given.
    given: KeyTable,
    /// Of both tables, taken from the grant.
    bytes: usize,
}

/// What does not fit, on disk.
struct Spilled {
    right: Partitions,
    given: Partitions,
    /// Whole rows.
    left: Partitions,
    at: usize,
    is_loaded: bool,
}

fn make_key(key: &mut Vec<u8>, row: &[Value], collations: &[CollationId]) {
    key.clear();
    for (value, collation) in row.iter().zip(collations) {
        write_key(value, *collation, key);
    }
}

fn add_key(to: &mut Partitions, key: &[u8]) -> Result<()> {
    to.add(partition_of(key), &[Value::Bytes(key.to_vec())])
}

/// Puts a key in a table; its bytes when it is new.
fn insert(table: &mut KeyTable, key: &[u8]) -> Result<usize> {
    let (_, is_new) = table.insert(key).ok_or_else(crate::binder::too_complex)?;
    Ok(if is_new { key.len() + KEY_BYTES } else { 0 })
}

impl Keys {
    /// Takes memory for a key; false when both tables should go to disk.
    fn fits(&mut self, bytes: usize, cx: &Ctx<'_>) -> bool {
        self.bytes += bytes;
        bytes == 0 || cx.reserve(bytes) || self.bytes < SPILLED_BYTES_MIN
    }

    fn clear(&mut self, cx: &Ctx<'_>) {
        self.right.clear();
        self.given.clear();
        cx.release(std::mem::take(&mut self.bytes));
    }

    /// Is the row of this key in the result, and was not given yet? How many bytes it takes to remember that it was.
    fn give(&mut self, key: &[u8], except: bool) -> Result<usize> {
        match self.right.find(key).is_some() == except {
            true => Ok(0),
            false => insert(&mut self.given, key),
        }
    }
}

impl Spilled {
    /// Moves the keys from memory to disk.
    fn start(keys: &mut Keys, width: usize, cx: &Ctx<'_>) -> Result<Spilled> {
        let mut spilled = Spilled {
            right: Partitions::new(cx, 1)?,
            given: Partitions::new(cx, 1)?,
            left: Partitions::new(cx, width)?,
            at: 0,
            is_loaded: false,
        };
        for key in keys.right.keys() {
            add_key(&mut spilled.right, key)?;
        }
        for key in keys.given.keys() {
            add_key(&mut spilled.given, key)?;
        }
        keys.clear(cx);
        Ok(spilled)
    }

    fn finish(&mut self) -> Result<()> {
        self.right.finish()?;
        self.given.finish()?;
        self.left.finish()
    }

    /// Puts the keys of the present partition in memory; they have to fit.
    fn load(&mut self, keys: &mut Keys, batch: &mut RowBatch, cx: &Ctx<'_>) -> Result<()> {
        self.is_loaded = true;
        keys.clear(cx);
        let sides = [
            (&mut self.right, &mut keys.right),
            (&mut self.given, &mut keys.given),
        ];
        for (from, table) in sides {
            while from.read(self.at, batch)? {
                cx.tick(batch.len() as u32)?;
                for row in batch.rows() {
                    let [Value::Bytes(key)] = row else {
                        return Err(crate::access::damaged("a spilled key that is none"));
                    };
                    let bytes = insert(table, key)?;
                    keys.bytes += bytes;
                    cx.hold(bytes)?;
                }
            }
        }
        Ok(())
    }
}

impl SetHashOp {
    /// The operator before its first row.
    pub fn new(node: Arc<SetHashNode>, cx: &Ctx<'_>) -> Result<SetHashOp> {
        Ok(SetHashOp {
            left: build(&node.left, cx)?,
            right: build(&node.right, cx)?,
            node,
            keys: Keys::default(),
            spilled: None,
            built: false,
            batch: RowBatch::new(),
            key: Vec::new(),
        })
    }

    fn width(&self) -> usize {
        self.node.left.schema.len()
    }

    /// Reads the right side, and the left one as well when the keys do not fit.
    fn build(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.built = true;
        let width = self.width();
        while self.right.next(cx, &mut self.batch)? {
            cx.tick(self.batch.len() as u32)?;
            for row in self.batch.rows() {
                make_key(&mut self.key, row, &self.node.collations);
                if let Some(spilled) = &mut self.spilled {
                    add_key(&mut spilled.right, &self.key)?;
                    continue;
                }
                let bytes = insert(&mut self.keys.right, &self.key)?;
                if !self.keys.fits(bytes, cx) {
                    self.spilled = Some(Spilled::start(&mut self.keys, width, cx)?);
                }
            }
        }
        match self.spilled.is_some() {
            true => self.spill_left(cx),
            false => Ok(()),
        }
    }

    /// Deals out what is left of the left side.
    fn spill_left(&mut self, cx: &Ctx<'_>) -> Result<()> {
        let Some(spilled) = &mut self.spilled else {
            return Ok(());
        };
        while self.left.next(cx, &mut self.batch)? {
            cx.tick(self.batch.len() as u32)?;
            for row in self.batch.rows() {
                make_key(&mut self.key, row, &self.node.collations);
                spilled.left.add(partition_of(&self.key), row)?;
            }
        }
        spilled.finish()
    }

    /// Rows of the next batch of the left side, both tables in memory; false at its end.
    fn next_in_memory(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        if !self.left.next(cx, &mut self.batch)? {
            return Ok(false);
        }
        cx.tick(self.batch.len() as u32)?;
        let width = self.width();
        for row in self.batch.rows() {
            make_key(&mut self.key, row, &self.node.collations);
            if let Some(spilled) = &mut self.spilled {
                spilled.left.add(partition_of(&self.key), row)?;
                continue;
            }
            let bytes = self.keys.give(&self.key, self.node.except)?;
            if bytes > 0 {
                out.push_slice(row);
            }
            if !self.keys.fits(bytes, cx) {
                self.spilled = Some(Spilled::start(&mut self.keys, width, cx)?);
            }
        }
        if self.spilled.is_some() {
            self.spill_left(cx)?;
        }
        Ok(true)
    }

    /// Rows of the next block of a partition; false behind the last one.
    fn next_spilled(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        let Some(spilled) = &mut self.spilled else {
            return Ok(false);
        };
        if !spilled.is_loaded {
            spilled.load(&mut self.keys, &mut self.batch, cx)?;
        }
        if !spilled.left.read(spilled.at, &mut self.batch)? {
            spilled.at += 1;
            spilled.is_loaded = false;
            return Ok(spilled.at < PARTITIONS);
        }
        cx.tick(self.batch.len() as u32)?;
        for row in self.batch.rows() {
            make_key(&mut self.key, row, &self.node.collations);
            let bytes = self.keys.give(&self.key, self.node.except)?;
            if bytes > 0 {
                self.keys.bytes += bytes;
                cx.hold(bytes)?;
                out.push_slice(row);
            }
        }
        Ok(true)
    }
}

impl Operator for SetHashOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.width());
        if !self.built {
            self.build(cx)?;
        }
        while out.is_empty() {
            let more = match self.spilled.is_some() {
                true => self.next_spilled(cx, out)?,
                false => self.next_in_memory(cx, out)?,
            };
            if !more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.built = false;
        self.spilled = None;
        self.keys.clear(cx);
        self.left.rewind(cx)?;
        self.right.rewind(cx)
    }
}
