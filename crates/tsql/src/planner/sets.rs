//! UNION, EXCEPT, INTERSECT and recursive queries made physical.

use super::Planner;
use super::physical::*;
use crate::binder::tree::*;
use crate::error::Result;
use crate::executor::plan::*;
use daruma_syntax::ast::SetOp;
use daruma_value::CollationId;
use std::sync::Arc;

impl Planner<'_> {
    pub(super) fn set(&mut self, set: &SetRel) -> Result<Node> {
        let mut nodes = Vec::with_capacity(set.branches.len());
        for (branch, columns) in &set.branches {
            let needed: ColSet = columns.iter().copied().collect();
            let node = self.node(branch, &needed)?;
            let mut node = self.project(node, columns);
            node.schema.clone_from(&set.columns);
            node.order.clear();
            nodes.push(node);
        }
        let collations: Vec<CollationId> =
            set.columns.iter().map(|id| self.collation(*id)).collect();
        match set.op {
            SetOp::UnionAll => Ok(concat(nodes, &set.columns)),
            SetOp::Union => {
                let all = concat(nodes, &set.columns);
                Ok(self.distinct_rows(all))
            }
            // What any of the others has goes: one step, however many they are.
            SetOp::Except if nodes.len() > 1 => {
                let mut others = nodes.split_off(1);
                let others = match others.len() {
                    1 => others.remove(0),
                    _ => concat(others, &set.columns),
                };
                let first = nodes.remove(0);
                Ok(hashed(true, first, others, set, &collations))
            }
            SetOp::Except | SetOp::Intersect => {
                while nodes.len() > 1 {
                    nodes = in_pairs(nodes, |left, right| {
                        hashed(false, left, right, set, &collations)
                    });
                }
                let nothing = || leaf(Op::Empty, set.columns.clone(), 0.0);
                Ok(nodes.pop().unwrap_or_else(nothing))
            }
        }
    }

    pub(super) fn recursive(&mut self, r: &Recursive) -> Result<Node> {
        let mut side = |(rel, columns): &(Rel, Vec<ColId>)| -> Result<Node> {
            let needed: ColSet = columns.iter().copied().collect();
            let node = self.node(rel, &needed)?;
            Ok(self.project(node, columns))
        };
        let (anchor, step) = (side(&r.anchor)?, side(&r.step)?);
        let rows = anchor.rows * 10.0;
        let cost = anchor.cost + step.cost * 10.0;
        let op = Op::Recursive(Arc::new(RecursiveNode {
            id: r.id,
            anchor,
            step,
            max_recursion: r.max_recursion,
        }));
        Ok(Node {
            op,
            schema: r.columns.clone(),
            rows,
            cost,
            order: Vec::new(),
        })
    }
}

fn concat(nodes: Vec<Node>, columns: &[ColId]) -> Node {
    let rows = nodes.iter().map(|n| n.rows).sum();
    let cost = nodes.iter().map(|n| n.cost).sum();
    Node {
        op: Op::Concat(Arc::new(nodes)),
        schema: columns.to_vec(),
        rows,
        cost,
        order: Vec::new(),
    }
}

/// The rows of `left` that `right` has too, or, with `except`, has not; each once.
fn hashed(except: bool, left: Node, right: Node, set: &SetRel, collations: &[CollationId]) -> Node {
    let (rows, cost) = (left.rows, left.cost + right.cost + right.rows);
    let node = SetHashNode {
        left,
        right,
        except,
        collations: collations.to_vec(),
    };
    Node {
        op: Op::SetHash(Arc::new(node)),
        schema: set.columns.clone(),
        rows,
        cost,
        order: Vec::new(),
    }
}

/// Neighbours become one: a list of thousands makes a low tree, which is walked on the stack.
fn in_pairs(nodes: Vec<Node>, pair: impl Fn(Node, Node) -> Node) -> Vec<Node> {
    let mut nodes = nodes.into_iter();
    let mut paired = Vec::with_capacity(nodes.len() / 2 + 1);
    while let Some(left) = nodes.next() {
        paired.push(match nodes.next() {
            Some(right) => pair(left, right),
            None => left,
        });
    }
    paired
}
