//! Merge join: both sides come in key order; equal keys meet.
//!
//! Theory: the right side's rows of one key are gathered, then each left row of that key is joined with them. NULL keys
//! meet nobody. Inner, Left, Semi and Anti joins.

use super::batch::RowBatch;
use super::context::Ctx;
use super::operator::{Operator, build};
use super::plan::{JoinKind, MergeJoinNode};
use crate::error::Result;
use daruma_value::Value;
use daruma_value::compare::compare;
use std::cmp::Ordering;
use std::sync::Arc;

/// Join of two inputs that are ordered by the keys.
pub struct MergeJoinOp {
    node: Arc<MergeJoinNode>,
    left: Side,
    right: Side,
    /// Right rows with the key of `group_key`.
    group: RowBatch,
    group_key: Vec<Value>,
    group_at: usize,
    /// The left row is being joined with the group.
    joining: bool,
    matched: bool,
    joined: Vec<Value>,
}

struct Side {
    operator: Box<dyn Operator>,
    batch: RowBatch,
    at: usize,
    done: bool,
}

impl Side {
    /// Makes sure that a row is there; false at the end.
    fn ready(&mut self, cx: &Ctx<'_>) -> Result<bool> {
        while !self.done && self.at >= self.batch.len() {
            self.at = 0;
            self.done = !self.operator.next(cx, &mut self.batch)?;
        }
        Ok(!self.done)
    }

    fn row(&self) -> &[Value] {
        self.batch.row(self.at)
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.batch.reset(0);
        self.at = 0;
        self.done = false;
        self.operator.rewind(cx)
    }
}

impl MergeJoinOp {
    /// The operator before its first row.
    pub fn new(node: Arc<MergeJoinNode>, cx: &Ctx<'_>) -> Result<MergeJoinOp> {
        let side = |node| -> Result<Side> {
            Ok(Side {
                operator: build(node, cx)?,
                batch: RowBatch::new(),
                at: 0,
                done: false,
            })
        };
        Ok(MergeJoinOp {
            left: side(&node.left)?,
            right: side(&node.right)?,
            node,
            group: RowBatch::new(),
            group_key: Vec::new(),
            group_at: 0,
            joining: false,
            matched: false,
            joined: Vec::new(),
        })
    }

    fn order(
        &self,
        left: &[Value],
        left_keys: &[usize],
        right: &[Value],
        right_keys: &[usize],
    ) -> Option<Ordering> {
        for ((l, r), collation) in left_keys.iter().zip(right_keys).zip(&self.node.collations) {
            match compare(left.get(*l)?, right.get(*r)?, *collation)? {
                Ordering::Equal => {}
                other => return Some(other),
            }
        }
        Some(Ordering::Equal)
    }

    /// Brings the group of right rows to the left row's key, if there is one.
    fn seek_group(&mut self, cx: &Ctx<'_>) -> Result<bool> {
        let keys: Vec<usize> = (0..self.group_key.len()).collect();
        let left = self.left.row().to_vec();
        if !self.group_key.is_empty()
            && self.order(&left, &self.node.left_keys, &self.group_key, &keys)
                == Some(Ordering::Equal)
        {
            return Ok(true);
        }
        loop {
            if !self.right.ready(cx)? {
                return Ok(false);
            }
            cx.tick(1)?;
            match self.order(
                &left,
                &self.node.left_keys,
                self.right.row(),
                &self.node.right_keys,
            ) {
                Some(Ordering::Equal) => break,
                Some(Ordering::Less) => return Ok(false),
                Some(Ordering::Greater) => self.right.at += 1,
                // A NULL on the left meets nobody; one on the right is passed over.
                None => {
                    let null = |row: &[Value], keys: &[usize]| {
                        keys.iter().any(|k| row.get(*k).is_none_or(Value::is_null))
                    };
                    if null(&left, &self.node.left_keys) {
                        return Ok(false);
                    }
                    self.right.at += 1;
                }
            }
        }
        self.group.reset(self.node.right.schema.len());
        let row = self.right.row();
        self.group_key = self
            .node
            .right_keys
            .iter()
            .map(|k| row.get(*k).cloned().unwrap_or(Value::Null))
            .collect();
        let keys: Vec<usize> = (0..self.group_key.len()).collect();
        while self.right.ready(cx)?
            && self.order(
                &self.group_key,
                &keys,
                self.right.row(),
                &self.node.right_keys,
            ) == Some(Ordering::Equal)
        {
            cx.tick(1)?;
            self.group.push_slice(self.right.batch.row(self.right.at));
            self.right.at += 1;
        }
        Ok(true)
    }

    fn put(&self, out: &mut RowBatch) {
        for position in &self.node.output {
            out.put(self.joined.get(*position).cloned().unwrap_or(Value::Null));
        }
        out.finish_row();
    }

    fn run_left(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<()> {
        let width = self.node.left.schema.len();
        while self.group_at < self.group.len() {
            if out.is_full() {
                return Ok(());
            }
            cx.tick(1)?;
            self.joined.truncate(width);
            self.joined.extend_from_slice(self.group.row(self.group_at));
            self.group_at += 1;
            if let Some(residual) = &self.node.residual
                && !residual.accepts(&self.joined, cx)?
            {
                continue;
            }
            self.matched = true;
            match self.node.kind {
                JoinKind::Semi | JoinKind::Anti => break,
                _ => self.put(out),
            }
        }
        let alone = match self.node.kind {
            JoinKind::Semi => self.matched,
            JoinKind::Left | JoinKind::Anti | JoinKind::Full => !self.matched,
            JoinKind::Inner => false,
        };
        if alone {
            self.joined.truncate(width);
            self.put(out);
        }
        self.joining = false;
        self.left.at += 1;
        Ok(())
    }
}

impl Operator for MergeJoinOp {
    fn next(&mut self, cx: &Ctx<'_>, out: &mut RowBatch) -> Result<bool> {
        out.reset(self.node.output.len());
        while !out.is_full() {
            if !self.left.ready(cx)? {
                break;
            }
            if !self.joining {
                cx.tick(1)?;
                let found = self.seek_group(cx)?;
                self.joining = true;
                self.matched = false;
                self.group_at = if found { 0 } else { self.group.len() };
                self.joined.clear();
                self.joined
                    .extend_from_slice(self.left.batch.row(self.left.at));
            }
            self.run_left(cx, out)?;
        }
        Ok(!out.is_empty())
    }

    fn rewind(&mut self, cx: &Ctx<'_>) -> Result<()> {
        self.joining = false;
        self.group.reset(0);
        self.group_key.clear();
        self.left.rewind(cx)?;
        self.right.rewind(cx)
    }
}
