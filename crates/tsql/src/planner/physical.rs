//! Operators made physical, all but joins.

use super::Planner;
use super::cost;
use super::estimate::VIRTUAL_ROWS;
use crate::binder::tree::*;
use crate::error::Result;
use crate::executor::expr::Expr;
use crate::executor::plan::*;
use crate::host::check_cancel;
use daruma_syntax::ast::SetOp;
use daruma_value::{DataType, Value};
use std::sync::Arc;

/// What the caller would like besides the rows.
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
        crate::binder::with_stack(|| self.node_here(rel, required, wish))
    }

    fn node_here(&mut self, rel: &Rel, required: &ColSet, wish: Wish<'_>) -> Result<Node> {
        check_cancel(self.host)?;
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
            Rel::Sort { input, keys } => self.sort(input, keys, required, wish.limit, None),
            Rel::Top(top) => self.top(top, required),
            Rel::Distinct { input, columns } => self.distinct_node(input, columns, wish),
            Rel::Set(set) => self.set(set),
            Rel::Recursive(r) => self.recursive(r),
            Rel::WorkTable { id, columns } => Ok(leaf(Op::WorkTable(*id), columns.clone(), 10.0)),
        }
    }

    fn virtual_node(&mut self, scan: &VirtualScan, required: &ColSet) -> Result<Node> {
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

    fn filter(
        &mut self,
        input: &Rel,
        condition: &Scalar,
        required: &ColSet,
        wish: Wish<'_>,
    ) -> Result<Node> {
        let mut conjuncts = Vec::new();
        condition.clone().conjuncts(&mut conjuncts);
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

    fn compute(
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
        }));
        Ok(Node {
            op,
            schema,
            rows,
            cost,
            order,
        })
    }

    /// Columns that a condition makes the same in all rows.
    fn constants(&self, rel: &Rel) -> ColSet {
        let mut found = ColSet::new();
        self.add_constants(rel, &mut found);
        found
    }

    fn add_constants(&self, rel: &Rel, found: &mut ColSet) {
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

    fn add_constant(&self, condition: &Scalar, own: &ColSet, found: &mut ColSet) {
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
        }));
        Node {
            op,
            schema: columns.to_vec(),
            rows,
            cost,
            order,
        }
    }

    /// The one row that decides MIN or MAX over a table, where an index has it at an end.
    fn first_row(&mut self, g: &Grouping, wanted: &[&(ColId, Aggregate)]) -> Result<Option<Node>> {
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
        let input = match info.ty.nullable && !descending {
            true => super::rewrite::Rewriter {
                columns: self.columns,
            }
            .push(g.input.clone(), present),
            false => g.input.clone(),
        };
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

    fn aggregate(&mut self, g: &Grouping, required: &ColSet) -> Result<Node> {
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
        let cost = input.cost
            + input.rows
                * if stream {
                    cost::STREAM_GROUP
                } else {
                    cost::HASH_GROUP
                };
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

    fn aggregate_call(
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

    /// Calls with the same partition and order share a sort.
    fn window(
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
        let mut node = self.node(input, &needed)?;
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

    fn window_step(
        &mut self,
        node: Node,
        shape: &WindowCall,
        calls: &[&(ColId, WindowCall)],
    ) -> Result<Node> {
        let keys: Vec<(Scalar, bool)> = shape
            .partition
            .iter()
            .map(|s| (s.clone(), false))
            .chain(shape.order.iter().cloned())
            .collect();
        let (node, columns) = self.with_columns(node, &keys)?;
        let order: Vec<(ColId, bool)> = columns
            .iter()
            .copied()
            .zip(keys.iter().map(|(_, d)| *d))
            .collect();
        let node = if starts_with(&node.order, &order) {
            node
        } else {
            self.sorted(node, &order, None)
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
        let (partition, order_at) = placed.split_at(shape.partition.len().min(placed.len()));
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
    fn with_columns(&mut self, node: Node, keys: &[(Scalar, bool)]) -> Result<(Node, Vec<ColId>)> {
        let mut columns = Vec::with_capacity(keys.len());
        let mut items = Vec::new();
        let mut made = Vec::new();
        for (scalar, _) in keys {
            match scalar.as_column() {
                Some(id) if node.schema.contains(&id) => columns.push(id),
                _ => {
                    let id = self.extra_column();
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

    fn sort(
        &mut self,
        input: &Rel,
        keys: &[SortKey],
        required: &ColSet,
        limit: Option<f64>,
        exact_limit: Option<&Scalar>,
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
        let limit = exact_limit.map(|l| self.expr(l, &[])).transpose()?;
        Ok(self.sorted(node, &order, limit))
    }

    pub(super) fn sorted(
        &mut self,
        node: Node,
        order: &[(ColId, bool)],
        limit: Option<Expr>,
    ) -> Node {
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

    fn top(&mut self, top: &Top, required: &ColSet) -> Result<Node> {
        let mut needed = required.clone();
        needed.extend(top.ties.iter().flatten());
        let constant = |s: &Option<Scalar>| match s {
            Some(Scalar {
                kind: Kind::Const(v),
                ..
            }) => v.as_i64(),
            _ => None,
        };
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
                let exact = limit
                    .filter(|_| top.ties.is_none())
                    .map(|n| Scalar::constant(Value::BigInt(n), DataType::BigInt));
                self.sort(input, keys, &needed, guess, exact.as_ref())?
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

    fn distinct_node(&mut self, input: &Rel, columns: &[ColId], wish: Wish<'_>) -> Result<Node> {
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

    fn distinct_rows(&mut self, node: Node) -> Node {
        let columns = node.schema.clone();
        let stream = grouped_by(&node.order, &columns);
        let rows = (node.rows * 0.7).max(1.0);
        let cost = node.cost
            + node.rows
                * if stream {
                    cost::STREAM_GROUP
                } else {
                    cost::HASH_GROUP
                };
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

    fn set(&mut self, set: &SetRel) -> Result<Node> {
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

    fn recursive(&mut self, r: &Recursive) -> Result<Node> {
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

    /// A column number that no binder made.
    fn extra_column(&mut self) -> ColId {
        self.extra += 1;
        self.columns.len() as ColId + self.extra
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

fn above(node: Node, fraction: f64, make: impl FnOnce(Node) -> Op) -> Node {
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

/// Do equal keys stand together in this order?
fn grouped_by(order: &[(ColId, bool)], keys: &[ColId]) -> bool {
    order.len() >= keys.len()
        && order
            .iter()
            .take(keys.len())
            .all(|(id, _)| keys.contains(id))
}
