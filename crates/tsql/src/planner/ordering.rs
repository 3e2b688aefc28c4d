//! Windows, sorts and TOP made physical: all that depends on the order of rows.

use super::Planner;
use super::compile::fold;
use super::cost;
use super::physical::*;
use crate::binder::too_complex;
use crate::binder::tree::*;
use crate::error::Result;
use crate::executor::expr::Expr;
use crate::executor::plan::*;
use daruma_value::DataType;
use std::sync::Arc;

/// Different windows of a query and those within it: each is a step, or two, on top of the others, and they are walked on the stack.
const WINDOWS_MAX: usize = 100;

fn different(calls: &[&(ColId, WindowCall)]) -> usize {
    let is_first = |at: usize, call: &WindowCall| {
        let before = calls[..at].iter();
        let is_same =
            |(_, c): &&(ColId, WindowCall)| c.partition == call.partition && c.order == call.order;
        !before.copied().any(|c| is_same(&c))
    };
    let calls = calls.iter().enumerate();
    calls
        .filter(|(at, (_, call))| is_first(*at, call))
        .take(WINDOWS_MAX + 1)
        .count()
}

impl Planner<'_> {
    /// Calls with the same partition and order share a sort.
    pub(super) fn window(
        &mut self,
        input: &Rel,
        calls: &[(ColId, WindowCall)],
        required: &ColSet,
    ) -> Result<Node> {
        let wanted: Vec<&(ColId, WindowCall)> = calls
            .iter()
            .filter(|(id, _)| required.contains(id))
            .collect();
        let mut needed: ColSet = required
            .iter()
            .copied()
            .filter(|id| !calls.iter().any(|(c, _)| c == id))
            .collect();
        for (_, call) in &wanted {
            let parts = call
                .args
                .iter()
                .chain(&call.partition)
                .chain(call.order.iter().map(|(s, _)| s));
            parts.for_each(|s| s.columns(&mut needed));
        }
        let own = different(&wanted);
        self.windows += own;
        let input = match self.windows <= WINDOWS_MAX {
            true => self.node(input, &needed),
            false => Err(too_complex()),
        };
        self.windows -= own;
        let mut node = input?;
        let mut left = wanted;
        while let Some((_, first)) = left.first() {
            let first = first.clone();
            let (now, later): (Vec<_>, Vec<_>) = left
                .into_iter()
                .partition(|(_, c)| c.partition == first.partition && c.order == first.order);
            left = later;
            node = self.window_step(node, &first, &now)?;
        }
        Ok(node)
    }

    pub(super) fn window_step(
        &mut self,
        node: Node,
        shape: &WindowCall,
        calls: &[&(ColId, WindowCall)],
    ) -> Result<Node> {
        // A key that is the same for all rows parts and orders nothing: `OVER (ORDER BY (SELECT 1))` needs no sort.
        let own: ColSet = node.schema.iter().copied().collect();
        let varies = |s: &Scalar| !s.column_set().is_disjoint(&own) || is_unsteady(s);
        let partition = shape.partition.iter().filter(|s| varies(s));
        let mut keys: Vec<(Scalar, bool)> = partition.map(|s| (s.clone(), false)).collect();
        let parts = keys.len();
        keys.extend(shape.order.iter().filter(|(s, _)| varies(s)).cloned());
        let (node, columns) = self.with_columns(node, &keys)?;
        let order: Vec<(ColId, bool)> = columns
            .iter()
            .copied()
            .zip(keys.iter().map(|(_, d)| *d))
            .collect();
        let node = if starts_with(&node.order, &order) {
            node
        } else {
            self.sorted(node, &order, Vec::new())
        };
        let position = |id: &ColId| {
            node.schema
                .iter()
                .position(|c| c == id)
                .unwrap_or(usize::MAX)
        };
        let placed: Vec<(usize, daruma_value::CollationId)> = columns
            .iter()
            .zip(&keys)
            .map(|(id, (s, _))| (position(id), s.ty.collation))
            .collect();
        let (partition, order_at) = placed.split_at(parts);
        let mut schema = node.schema.clone();
        let mut steps = Vec::with_capacity(calls.len());
        for (id, call) in calls {
            steps.push(WindowStep {
                function: call.function,
                args: self.exprs(&call.args, &node.schema)?,
                arg_type: call.args.first().map_or(DataType::Int, |a| a.ty.data_type),
                collation: call
                    .args
                    .first()
                    .map_or(daruma_value::CollationId::DEFAULT, |a| a.ty.collation),
                result: self
                    .columns
                    .get(*id as usize)
                    .map_or(DataType::Int, |c| c.ty.data_type),
                frame: call.frame.clone(),
                ignore_nulls: call.ignore_nulls,
            });
            schema.push(*id);
        }
        let (rows, cost, order) = (node.rows, node.cost + node.rows, node.order.clone());
        let window = WindowNode {
            partition: partition.to_vec(),
            order: order_at.to_vec(),
            calls: steps,
            input: node,
        };
        Ok(Node {
            op: Op::Window(Arc::new(window)),
            schema,
            rows,
            cost,
            order,
        })
    }

    /// Makes expressions available as columns; numbers beyond the binder's mark those made here.
    pub(super) fn with_columns(
        &mut self,
        node: Node,
        keys: &[(Scalar, bool)],
    ) -> Result<(Node, Vec<ColId>)> {
        let mut columns = Vec::with_capacity(keys.len());
        let mut items = Vec::new();
        let mut made = Vec::new();
        let is_long = super::physical::are_long(keys.iter().map(|(scalar, _)| scalar));
        for (scalar, _) in keys {
            match scalar.as_column() {
                Some(id) if node.schema.contains(&id) => columns.push(id),
                _ => {
                    let id = self.extra_column(scalar.ty.collation);
                    items.push(self.expr(scalar, &node.schema)?);
                    made.push(id);
                    columns.push(id);
                }
            }
        }
        if items.is_empty() {
            return Ok((node, columns));
        }
        let mut schema = made;
        schema.extend(&node.schema);
        let (rows, cost, order) = (node.rows, node.cost, node.order.clone());
        let keep = (0..node.schema.len()).collect();
        let op = Op::Compute(Arc::new(ComputeNode {
            input: node,
            keep,
            items,
            is_long,
        }));
        Ok((
            Node {
                op,
                schema,
                rows,
                cost,
                order,
            },
            columns,
        ))
    }

    pub(super) fn sort(
        &mut self,
        input: &Rel,
        keys: &[SortKey],
        required: &ColSet,
        limit: Option<f64>,
        first: &[Scalar],
    ) -> Result<Node> {
        let order: Vec<(ColId, bool)> = keys.iter().map(|k| (k.column, k.descending)).collect();
        let mut needed = required.clone();
        // Columns from outside, or fixed by a condition, are the same for all rows.
        let produced = input.produced();
        let fixed = self.constants(input);
        let order: Vec<(ColId, bool)> = order
            .into_iter()
            .filter(|(id, _)| produced.contains(id) && !fixed.contains(id))
            .collect();
        needed.extend(order.iter().map(|(id, _)| *id));
        let node = self.node_for(
            input,
            &needed,
            Wish {
                order: &order,
                limit,
            },
        )?;
        if starts_with(&node.order, &order) {
            return Ok(node);
        }
        let first = self.exprs(first, &[])?;
        Ok(self.sorted(node, &order, first))
    }

    pub(super) fn sorted(&mut self, node: Node, order: &[(ColId, bool)], limit: Vec<Expr>) -> Node {
        let position = |id: ColId| {
            node.schema
                .iter()
                .position(|c| *c == id)
                .unwrap_or(usize::MAX)
        };
        let keys = order
            .iter()
            .map(|(id, descending)| SortColumn {
                position: position(*id),
                descending: *descending,
                collation: self.collation(*id),
            })
            .collect();
        let cost = node.cost + cost::sort(node.rows);
        let (rows, schema) = (node.rows, node.schema.clone());
        let op = Op::Sort(Arc::new(SortNode {
            input: node,
            keys,
            limit,
        }));
        Node {
            op,
            schema,
            rows,
            cost,
            order: order.to_vec(),
        }
    }

    pub(super) fn top(&mut self, top: &Top, required: &ColSet) -> Result<Node> {
        let mut needed = required.clone();
        needed.extend(top.ties.iter().flatten());
        let constant = |s: &Option<Scalar>| s.as_ref().and_then(fold).and_then(|v| v.as_i64());
        let count = constant(&top.count).filter(|_| !top.percent);
        let offset = if top.offset.is_some() {
            constant(&top.offset)
        } else {
            Some(0)
        };
        let limit = match (count, offset) {
            (Some(n), Some(skip)) => Some((n.saturating_add(skip)).max(1)),
            _ => None,
        };
        let guess =
            limit
                .map(|n| n as f64)
                .or(top.count.as_ref().filter(|_| !top.percent).map(|_| 100.0));
        let node = match &top.input {
            Rel::Sort { input, keys } => {
                self.sort(input, keys, &needed, guess, &first_rows(top))?
            }
            other => self.node_for(
                other,
                &needed,
                Wish {
                    order: &[],
                    limit: guess,
                },
            )?,
        };
        let ties = top.ties.as_ref().map(|ids| {
            ids.iter()
                .filter_map(|id| {
                    node.schema
                        .iter()
                        .position(|c| c == id)
                        .map(|p| (p, self.collation(*id)))
                })
                .collect()
        });
        let rows = guess.map_or(node.rows, |g| g.min(node.rows));
        let (schema, cost, order) = (node.schema.clone(), node.cost, node.order.clone());
        let count = top.count.as_ref().map(|c| self.expr(c, &[])).transpose()?;
        let offset = top.offset.as_ref().map(|o| self.expr(o, &[])).transpose()?;
        let op = Op::Top(Arc::new(TopNode {
            input: node,
            count,
            percent: top.percent,
            ties,
            offset,
        }));
        Ok(Node {
            op,
            schema,
            rows,
            cost,
            order,
        })
    }
}

/// May the expression differ from row to row although it looks at none?
fn is_unsteady(scalar: &Scalar) -> bool {
    scalar.is_volatile() || scalar.any(&|s| matches!(s.kind, Kind::UserFunction { .. }))
}

/// Expressions that add up to the rows that TOP or OFFSET and FETCH look at; nothing when only the rows themselves tell.
fn first_rows(top: &Top) -> Vec<Scalar> {
    let known = |s: &Scalar| {
        !is_unsteady(s) && !s.any(&|n| matches!(n.kind, Kind::Column(_) | Kind::Subquery(_)))
    };
    let counts: Vec<Scalar> = top.count.iter().chain(&top.offset).cloned().collect();
    let is_known =
        top.count.is_some() && !top.percent && top.ties.is_none() && counts.iter().all(known);
    if is_known { counts } else { Vec::new() }
}
