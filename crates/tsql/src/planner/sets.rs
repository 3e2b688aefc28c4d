//! UNION, EXCEPT, INTERSECT and recursive queries made physical.

use super::Planner;
use super::physical::*;
use crate::binder::tree::*;
use crate::error::Result;
use crate::executor::plan::*;
use daruma_syntax::ast::SetOp;
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
        let collations: Vec<_> = set.columns.iter().map(|id| self.collation(*id)).collect();
        match set.op {
            SetOp::UnionAll => Ok(concat(nodes, &set.columns)),
            SetOp::Union => {
                let all = concat(nodes, &set.columns);
                Ok(self.distinct_rows(all))
            }
            SetOp::Except | SetOp::Intersect => {
                let mut nodes = nodes.into_iter();
                let Some(mut left) = nodes.next() else {
                    return Ok(leaf(Op::Empty, set.columns.clone(), 0.0));
                };
                for right in nodes {
                    let (rows, cost) = (left.rows, left.cost + right.cost + right.rows);
                    let node = SetHashNode {
                        left,
                        right,
                        except: set.op == SetOp::Except,
                        collations: collations.clone(),
                    };
                    left = Node {
                        op: Op::SetHash(Arc::new(node)),
                        schema: set.columns.clone(),
                        rows,
                        cost,
                        order: Vec::new(),
                    };
                }
                Ok(left)
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
