//! GROUP BY and DISTINCT made physical: which keys matter, by hash or by order, or one row of an index.

use super::Planner;
use super::cost;
use super::physical::*;
use crate::binder::tree::*;
use crate::error::Result;
use crate::executor::expr::Expr;
use crate::executor::plan::*;
use daruma_value::{DataType, Value};
use std::sync::Arc;

impl Planner<'_> {
    /// Columns that a condition makes the same in all rows.
    pub(super) fn constants(&self, rel: &Rel) -> ColSet {
        let mut found = ColSet::new();
        self.add_constants(rel, &mut found);
        found
    }

    pub(super) fn add_constants(&self, rel: &Rel, found: &mut ColSet) {
        match rel {
            Rel::Filter { input, condition } => {
                let mut conjuncts = Vec::new();
                condition.clone().conjuncts(&mut conjuncts);
                let own = rel.produced();
                conjuncts
                    .iter()
                    .for_each(|c| self.add_constant(c, &own, found));
                self.add_constants(input, found);
            }
            Rel::Compute { input, .. } | Rel::Sort { input, .. } | Rel::Window { input, .. } => {
                self.add_constants(input, found)
            }
            Rel::Join(join) if join.kind != JoinKind::Full => {
                self.add_constants(&join.left, found);
                if join.kind == JoinKind::Inner {
                    let own = rel.produced();
                    join.on
                        .iter()
                        .for_each(|c| self.add_constant(c, &own, found));
                    self.add_constants(&join.right, found);
                }
            }
            _ => {}
        }
    }

    pub(super) fn add_constant(&self, condition: &Scalar, own: &ColSet, found: &mut ColSet) {
        let Kind::Compare {
            op: daruma_syntax::ast::CompareOp::Equal,
            left,
            right,
        } = &condition.kind
        else {
            return;
        };
        for (column, value) in [(left, right), (right, left)] {
            if let Some(id) = column.as_column()
                && own.contains(&id)
                && value.column_set().is_disjoint(own)
                && !value.is_volatile()
                && self.collation(id) == column.ty.collation
            {
                found.insert(id);
            }
        }
    }

    /// The one row that decides MIN or MAX over a table, where an index has it at an end.
    pub(super) fn first_row(
        &mut self,
        g: &Grouping,
        wanted: &[&(ColId, Aggregate)],
    ) -> Result<Option<Node>> {
        let [(_, aggregate)] = wanted else {
            return Ok(None);
        };
        let descending = match aggregate.function {
            AggregateFunction::Min => false,
            AggregateFunction::Max => true,
            _ => return Ok(None),
        };
        let Some(column) = aggregate.arg.as_ref().and_then(Scalar::as_column) else {
            return Ok(None);
        };
        if !g.scalar || super::joins::base_table(&g.input).is_none() {
            return Ok(None);
        }
        let Some(info) = self.columns.get(column as usize) else {
            return Ok(None);
        };
        let present =
            Scalar::condition(Kind::IsNull(Box::new(Scalar::column(column, info.ty)))).negate();
        let rewriter = super::rewrite::Rewriter::new(self.columns, self.host);
        let input = match info.ty.nullable && !descending {
            true => rewriter.push(g.input.clone(), present),
            false => g.input.clone(),
        };
        rewriter.end()?;
        let order = [(column, descending)];
        let needed: ColSet = [column].into_iter().collect();
        let node = self.node_for(
            &input,
            &needed,
            Wish {
                order: &order,
                limit: Some(1.0),
            },
        )?;
        if !starts_with(&node.order, &order) {
            return Ok(None);
        }
        let (schema, order, cost) = (node.schema.clone(), node.order.clone(), node.cost);
        let count = Some(Expr::Const(Value::BigInt(1)));
        let op = Op::Top(Arc::new(TopNode {
            input: node,
            count,
            percent: false,
            ties: None,
            offset: None,
        }));
        Ok(Some(Node {
            op,
            schema,
            rows: 1.0,
            cost,
            order,
        }))
    }

    pub(super) fn aggregate(&mut self, g: &Grouping, required: &ColSet) -> Result<Node> {
        let wanted: Vec<&(ColId, Aggregate)> = g
            .aggregates
            .iter()
            .filter(|(id, _)| required.contains(id))
            .collect();
        let mut needed: ColSet = g.keys.iter().copied().collect();
        for (_, aggregate) in &wanted {
            aggregate.for_each(&mut |s| s.columns(&mut needed));
        }
        let fixed = self.constants(&g.input);
        let varying: Vec<ColId> = g
            .keys
            .iter()
            .copied()
            .filter(|id| !fixed.contains(id))
            .collect();
        let order: Vec<(ColId, bool)> = varying.iter().map(|id| (*id, false)).collect();
        let want: &[(ColId, bool)] = if g.sets.is_none() && !g.scalar {
            &order
        } else {
            &[]
        };
        let first = self.first_row(g, &wanted)?;
        let mut input = match first {
            Some(node) => node,
            None => self.node_for(
                &g.input,
                &needed,
                Wish {
                    order: &[],
                    limit: None,
                },
            )?,
        };
        if !want.is_empty()
            && let Rel::Table(_) | Rel::Filter { .. } = &g.input
        {
            // A narrow index in key order beats hashing when the hash table would be large.
            let sorted = self.node_for(
                &g.input,
                &needed,
                Wish {
                    order: want,
                    limit: None,
                },
            )?;
            if grouped_by(&sorted.order, &varying) && sorted.cost <= input.cost * 1.2 {
                input = sorted;
            }
        }
        let stream = g.sets.is_none() && (g.keys.is_empty() || grouped_by(&input.order, &varying));
        let position = |id: &ColId| {
            input
                .schema
                .iter()
                .position(|c| c == id)
                .unwrap_or(usize::MAX)
        };
        let keys: Vec<usize> = g.keys.iter().map(position).collect();
        let mut aggregates = Vec::with_capacity(wanted.len());
        let mut schema = g.keys.clone();
        if let Some((_, number)) = &g.sets {
            schema.push(*number);
        }
        for (id, aggregate) in &wanted {
            aggregates.push(self.aggregate_call(*id, aggregate, &input.schema)?);
            schema.push(*id);
        }
        let groups: f64 = g
            .keys
            .iter()
            .map(|id| self.distinct_values(*id).unwrap_or(10.0))
            .product();
        let rows = if g.scalar {
            1.0
        } else {
            groups.min(input.rows).max(1.0)
        };
        let cost = grouped_cost(&input, stream);
        let order = if stream {
            kept_order(&input.order, &g.keys)
        } else {
            Vec::new()
        };
        let node = AggregateNode {
            collations: g.keys.iter().map(|id| self.collation(*id)).collect(),
            input,
            keys,
            aggregates,
            stream,
            scalar: g.scalar,
            sets: g.sets.as_ref().map(|(sets, _)| sets.clone()),
            distinct: false,
        };
        Ok(Node {
            op: Op::Aggregate(Arc::new(node)),
            schema,
            rows,
            cost,
            order,
        })
    }

    pub(super) fn aggregate_call(
        &mut self,
        id: ColId,
        aggregate: &Aggregate,
        schema: &[ColId],
    ) -> Result<AggregateCall> {
        let mut order = Vec::with_capacity(aggregate.order.len());
        for (scalar, descending) in &aggregate.order {
            order.push((self.expr(scalar, schema)?, *descending, scalar.ty.collation));
        }
        let result = self
            .columns
            .get(id as usize)
            .map_or(DataType::Int, |c| c.ty.data_type);
        Ok(AggregateCall {
            function: aggregate.function,
            arg: aggregate
                .arg
                .as_ref()
                .map(|a| self.expr(a, schema))
                .transpose()?,
            arg_type: aggregate
                .arg
                .as_ref()
                .map_or(DataType::Int, |a| a.ty.data_type),
            collation: aggregate
                .arg
                .as_ref()
                .map_or(daruma_value::CollationId::DEFAULT, |a| a.ty.collation),
            result,
            distinct: aggregate.distinct,
            separator: aggregate
                .separator
                .as_ref()
                .map(|s| self.expr(s, schema))
                .transpose()?,
            order,
        })
    }

    pub(super) fn distinct_node(
        &mut self,
        input: &Rel,
        columns: &[ColId],
        wish: Wish<'_>,
    ) -> Result<Node> {
        let needed: ColSet = columns.iter().copied().collect();
        let node = self.node_for(
            input,
            &needed,
            Wish {
                limit: None,
                ..wish
            },
        )?;
        let node = self.project(node, columns);
        Ok(self.distinct_rows(node))
    }

    pub(super) fn distinct_rows(&mut self, node: Node) -> Node {
        let columns = node.schema.clone();
        let stream = grouped_by(&node.order, &columns);
        let rows = (node.rows * 0.7).max(1.0);
        let cost = grouped_cost(&node, stream);
        let order = if stream {
            node.order.clone()
        } else {
            Vec::new()
        };
        let aggregate = AggregateNode {
            input: node,
            keys: (0..columns.len()).collect(),
            collations: columns.iter().map(|id| self.collation(*id)).collect(),
            aggregates: Vec::new(),
            stream,
            scalar: false,
            sets: None,
            distinct: true,
        };
        Node {
            op: Op::Aggregate(Arc::new(aggregate)),
            schema: columns,
            rows,
            cost,
            order,
        }
    }
}

/// Do equal keys stand together in this order?
fn grouped_by(order: &[(ColId, bool)], keys: &[ColId]) -> bool {
    order.len() >= keys.len()
        && order
            .iter()
            .take(keys.len())
            .all(|(id, _)| keys.contains(id))
}

/// Cost of a node and of grouping its rows, in their order or by hash.
fn grouped_cost(input: &Node, stream: bool) -> f64 {
    let each = match stream {
        true => cost::STREAM_GROUP,
        false => cost::HASH_GROUP,
    };
    input.cost + input.rows * each
}
