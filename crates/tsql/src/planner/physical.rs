//! Operators made physical: the dispatch, filters, computed columns and projections. Others have rooms of their own:
//! `access_path`, `joins`, `grouping`, `ordering`, `sets`.

use super::Planner;
use super::cost;
use super::estimate::VIRTUAL_ROWS;
use crate::binder::tree::*;
use crate::error::Result;

use crate::executor::expr::Expr;
use crate::executor::length_max;
use crate::executor::plan::*;
use crate::host::check_cancel;
use daruma_syntax::ast::SetOp;
use daruma_value::CollationId;
use std::sync::Arc;

/// Wishes of the caller besides the rows.
#[derive(Clone, Copy, Default)]
pub(super) struct Wish<'w> {
    /// Order that would save a sort.
    pub order: &'w [(ColId, bool)],
    /// Rows that will be read at most.
    pub limit: Option<f64>,
}

impl Planner<'_> {
    /// A node whose rows hold at least `required` (those that `rel` produces).
    pub fn node(&mut self, rel: &Rel, required: &ColSet) -> Result<Node> {
        self.node_for(rel, required, Wish::default())
    }

    pub(super) fn node_for(
        &mut self,
        rel: &Rel,
        required: &ColSet,
        wish: Wish<'_>,
    ) -> Result<Node> {
        crate::binder::with_stack(|| match self.is_repeated && is_worth_keeping(rel) {
            true => {
                let node = self.repeated(false, |p| p.node_here(rel, required, wish))?;
                Ok(kept(node, false))
            }
            false => self.node_here(rel, required, wish),
        })
    }

    /// Plans what runs again for rows around it, or does not.
    pub(super) fn repeated<T>(
        &mut self,
        is_repeated: bool,
        plan: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = std::mem::replace(&mut self.is_repeated, is_repeated);
        let planned = plan(self);
        self.is_repeated = before;
        planned
    }

    pub(super) fn node_here(
        &mut self,
        rel: &Rel,
        required: &ColSet,
        wish: Wish<'_>,
    ) -> Result<Node> {
        check_cancel(self.host)?;
        self.planned += 1;
        if self.planned > super::PLANNED_MAX {
            return Err(crate::binder::too_complex());
        }
        match rel {
            Rel::One => Ok(leaf(Op::One, Vec::new(), 1.0)),
            Rel::Empty(columns) => Ok(leaf(Op::Empty, columns.clone(), 0.0)),
            Rel::Table(scan) => {
                let path = self.best_path(scan, &[], required, wish.order, wish.limit);
                self.scan_node(scan, &[], required, path)
            }
            Rel::Virtual(scan) => self.virtual_node(scan, required),
            Rel::Values { rows, columns } => {
                let mut compiled = Vec::with_capacity(rows.len());
                for row in rows {
                    compiled.push(self.exprs(row, &[])?);
                }
                let count = rows.len() as f64;
                Ok(leaf(Op::Values(Arc::new(compiled)), columns.clone(), count))
            }
            Rel::Filter { input, condition } => self.filter(input, condition, required, wish),
            Rel::Compute { input, items } => self.compute(input, items, required, wish),
            Rel::Join(join) => self.join(join, &[], required, wish),
            Rel::Aggregate(g) => self.aggregate(g, required),
            Rel::Window { input, calls } => self.window(input, calls, required),
            Rel::Sort { input, keys } => self.sort(input, keys, required, wish.limit, &[]),
            Rel::Top(top) => self.top(top, required),
            Rel::Distinct { input, columns } => self.distinct_node(input, columns, wish),
            Rel::Set(set) => self.set(set),
            Rel::Recursive(r) => self.recursive(r),
            Rel::WorkTable { id, columns } => Ok(leaf(Op::WorkTable(*id), columns.clone(), 10.0)),
        }
    }

    pub(super) fn virtual_node(&mut self, scan: &VirtualScan, required: &ColSet) -> Result<Node> {
        let mut schema = Vec::new();
        let mut columns = Vec::new();
        for (position, id) in scan.columns.iter().enumerate() {
            if required.contains(id) {
                schema.push(*id);
                columns.push(position);
            }
        }
        let node = VirtualNode {
            table: scan.table.clone(),
            database: scan.database,
            args: self.exprs(&scan.args, &[])?,
            columns,
        };
        Ok(leaf(Op::Virtual(Arc::new(node)), schema, VIRTUAL_ROWS))
    }

    pub(super) fn filter(
        &mut self,
        input: &Rel,
        condition: &Scalar,
        required: &ColSet,
        wish: Wish<'_>,
    ) -> Result<Node> {
        let mut conjuncts = Vec::new();
        condition.clone().conjuncts(&mut conjuncts);
        let asked_once = |c: &Scalar| {
            c.column_set().is_empty()
                && !c.is_volatile()
                && c.any(&|s| matches!(s.kind, Kind::Subquery(_)))
        };
        if !matches!(input, Rel::Table(_)) && conjuncts.iter().any(asked_once) {
            let (once, rest): (Vec<_>, Vec<_>) = conjuncts.into_iter().partition(asked_once);
            let node = match Scalar::all(rest) {
                Some(rest) => self.filter(input, &rest, required, wish)?,
                None => self.node_for(input, required, wish)?,
            };
            return self.filtered(node, &once);
        }
        match input {
            Rel::Table(scan) => {
                let own = input.produced();
                // Conditions with subqueries run above the scan, where their plans are easier to see.
                let (above, inside): (Vec<_>, Vec<_>) = conjuncts.into_iter().partition(|c| {
                    c.any(&|s| matches!(s.kind, Kind::Subquery(_)))
                        || c.column_set().is_disjoint(&own)
                });
                let mut needed = required.clone();
                above.iter().for_each(|c| c.columns(&mut needed));
                let path = self.best_path(scan, &inside, &needed, wish.order, wish.limit);
                let node = self.scan_node(scan, &inside, &needed, path)?;
                self.filtered(node, &above)
            }
            Rel::Join(join) if join.kind == JoinKind::Inner => {
                self.join(join, &conjuncts, required, wish)
            }
            _ => {
                let mut needed = required.clone();
                condition.columns(&mut needed);
                let node = self.node_for(
                    input,
                    &needed,
                    Wish {
                        limit: None,
                        ..wish
                    },
                )?;
                self.filtered(node, &conjuncts)
            }
        }
    }

    /// Filters for conditions over the node's rows; those that look at no row come first.
    pub(super) fn filtered(&mut self, node: Node, conditions: &[Scalar]) -> Result<Node> {
        let own: ColSet = node.schema.iter().copied().collect();
        let subquery = |c: &Scalar| c.any(&|s| matches!(s.kind, Kind::Subquery(_)));
        let (startup, per_row): (Vec<&Scalar>, Vec<&Scalar>) = conditions
            .iter()
            .partition(|c| c.column_set().is_disjoint(&own) && !c.is_volatile());
        let mut node = node;
        // Cheap conditions before subqueries.
        let mut ordered = per_row;
        ordered.sort_by_key(|c| subquery(c));
        if !ordered.is_empty() {
            let fraction: f64 = self.together(ordered.iter().copied());
            let mut parts = Vec::with_capacity(ordered.len());
            for condition in ordered {
                parts.push(self.cond(condition, &node.schema)?);
            }
            let condition = super::joins::all_of(parts);
            node = above(node, fraction, |input| {
                Op::Filter(Arc::new(FilterNode {
                    input,
                    condition,
                    startup: false,
                }))
            });
        }
        if !startup.is_empty() {
            let mut parts = Vec::with_capacity(startup.len());
            for condition in startup {
                parts.push(self.cond(condition, &[])?);
            }
            let condition = super::joins::all_of(parts);
            if crate::executor::operator::never(&condition) {
                let schema = node.schema;
                return Ok(leaf(Op::Empty, schema, 0.0));
            }
            if matches!(condition, crate::executor::expr::Cond::Const(Some(true))) {
                return Ok(node);
            }
            node = above(node, 1.0, |input| {
                Op::Filter(Arc::new(FilterNode {
                    input,
                    condition,
                    startup: true,
                }))
            });
        }
        Ok(node)
    }

    pub(super) fn compute(
        &mut self,
        input: &Rel,
        items: &[(ColId, Scalar)],
        required: &ColSet,
        wish: Wish<'_>,
    ) -> Result<Node> {
        let wanted: Vec<&(ColId, Scalar)> = items
            .iter()
            .filter(|(id, _)| required.contains(id))
            .collect();
        let mut below: ColSet = required
            .iter()
            .copied()
            .filter(|id| !items.iter().any(|(i, _)| i == id))
            .collect();
        wanted.iter().for_each(|(_, s)| s.columns(&mut below));
        let order = if wish
            .order
            .iter()
            .all(|(id, _)| !items.iter().any(|(i, _)| i == id))
        {
            wish.order
        } else {
            &[]
        };
        let node = self.node_for(input, &below, Wish { order, ..wish })?;
        if wanted.is_empty() {
            return Ok(node);
        }
        let mut compiled = Vec::with_capacity(wanted.len());
        let mut schema = Vec::with_capacity(required.len());
        let is_long = are_long(wanted.iter().map(|(_, scalar)| scalar));
        for (id, scalar) in &wanted {
            compiled.push(self.expr(scalar, &node.schema)?);
            schema.push(*id);
        }
        let mut keep = Vec::new();
        for (position, id) in node.schema.iter().enumerate() {
            if required.contains(id) {
                keep.push(position);
                schema.push(*id);
            }
        }
        let order = kept_order(&node.order, &schema);
        let (rows, cost) = (node.rows, node.cost + node.rows * cost::COMPUTE);
        let op = Op::Compute(Arc::new(ComputeNode {
            input: node,
            keep,
            items: compiled,
            is_long,
        }));
        Ok(Node {
            op,
            schema,
            rows,
            cost,
            order,
        })
    }

    /// Exactly these columns, in this order; a column may come twice.
    pub(super) fn project(&mut self, node: Node, columns: &[ColId]) -> Node {
        if node.schema == columns {
            return node;
        }
        let position = |id: &ColId| {
            node.schema
                .iter()
                .position(|c| c == id)
                .unwrap_or(usize::MAX)
        };
        let positions: Vec<usize> = columns.iter().map(position).collect();
        let twice = positions
            .iter()
            .enumerate()
            .any(|(i, p)| positions.iter().take(i).any(|q| q == p));
        let (keep, items) = if twice {
            (Vec::new(), positions.into_iter().map(Expr::Slot).collect())
        } else {
            (positions, Vec::new())
        };
        let order = kept_order(&node.order, columns);
        let (rows, cost) = (node.rows, node.cost);
        let op = Op::Compute(Arc::new(ComputeNode {
            input: node,
            keep,
            items,
            is_long: false,
        }));
        Node {
            op,
            schema: columns.to_vec(),
            rows,
            cost,
            order,
        }
    }

    /// A column number that no binder made, of values that compare by this collation.
    pub(super) fn extra_column(&mut self, collation: CollationId) -> ColId {
        self.extra.push(collation);
        (self.columns.len() + self.extra.len() - 1) as ColId
    }
}

/// Does it mostly read all its input before it gives a row, and the same one whatever the row around it is?
fn is_worth_keeping(rel: &Rel) -> bool {
    is_gathered(rel) && rel.outer_columns().is_empty()
}

fn is_gathered(rel: &Rel) -> bool {
    match rel {
        Rel::Aggregate(_) | Rel::Window { .. } | Rel::Sort { .. } | Rel::Distinct { .. } => true,
        Rel::Set(set) => set.op != SetOp::UnionAll,
        Rel::Top(top) => is_gathered(&top.input),
        _ => false,
    }
}

/// Keeps the rows, of each row around anew or not.
pub(super) fn kept(node: Node, follows: bool) -> Node {
    let (schema, order) = (node.schema.clone(), node.order.clone());
    let (rows, cost) = (node.rows, node.cost);
    let input = node;
    Node {
        op: Op::Keep(Arc::new(KeepNode { input, follows })),
        schema,
        rows,
        cost,
        order,
    }
}

pub(super) fn leaf(op: Op, schema: Vec<ColId>, rows: f64) -> Node {
    Node {
        op,
        schema,
        rows,
        cost: rows,
        order: Vec::new(),
    }
}

pub(super) fn above(node: Node, fraction: f64, make: impl FnOnce(Node) -> Op) -> Node {
    let (schema, order) = (node.schema.clone(), node.order.clone());
    let rows = (node.rows * fraction).max(0.01);
    let cost = node.cost + node.rows * cost::FILTER;
    Node {
        op: make(node),
        schema,
        rows,
        cost,
        order,
    }
}

/// The part of an order whose columns are still there.
pub(super) fn kept_order(order: &[(ColId, bool)], schema: &[ColId]) -> Vec<(ColId, bool)> {
    order
        .iter()
        .take_while(|(id, _)| schema.contains(id))
        .copied()
        .collect()
}

pub(super) fn starts_with(order: &[(ColId, bool)], wanted: &[(ColId, bool)]) -> bool {
    order.len() >= wanted.len() && order.iter().zip(wanted).all(|(a, b)| a == b)
}

/// Sum of declared lengths from which on values of an expression are reckoned with as long, in bytes.
const LONG_VALUE_BYTES: usize = 4096;

/// May the values of these expressions be long, by their types?
pub(super) fn are_long<'s>(items: impl Iterator<Item = &'s Scalar>) -> bool {
    let lengths = items.map(|item| length_max(item.ty.data_type));
    lengths.sum::<usize>() >= LONG_VALUE_BYTES
}
