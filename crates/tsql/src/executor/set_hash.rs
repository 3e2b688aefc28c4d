//! EXCEPT and INTERSECT: the keys of the right side in a table, the left side read against it.

use super::batch::RowBatch;
use super::context::Ctx;
use super::key_table::KeyTable;
use super::operator::{Operator, build};
use super::plan::SetHashNode;
use crate::error::Result;
use daruma_value::compare::write_key;
use daruma_value::{CollationId, Value};
use std::sync::Arc;

/// Keeps the right side's rows as keys, and each row of the left that is given, once.
pub struct SetHashOp {
    node: Arc<SetHashNode>,
    left: Box<dyn Operator>,
    right: Box<dyn Operator>,
    right_keys: KeyTable,
    seen: KeyTable,
    built: bool,
    batch: RowBatch,
    key: Vec<u8>,
    /// Memory of both tables, taken from the grant.
    bytes: usize,
}

/// Memory of a key beside its bytes, roughly.
const KEY_BYTES: usize = 24;

impl SetHashOp {
    /// The operator before its first row.
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
            bytes: 0,
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
                    let (_, new) = self
                        .right_keys
                        .insert(&self.key)
                        .ok_or_else(crate::binder::too_complex)?;
                    if new {
                        cx.hold(self.key.len() + KEY_BYTES)?;
                        self.bytes += self.key.len() + KEY_BYTES;
                    }
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
                    cx.hold(self.key.len() + KEY_BYTES)?;
                    self.bytes += self.key.len() + KEY_BYTES;
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
        cx.release(std::mem::take(&mut self.bytes));
        self.left.rewind(cx)?;
        self.right.rewind(cx)
    }
}
