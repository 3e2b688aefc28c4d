//! One join made physical: nested loops, hash or merge.
//!
//! Theory: a right side that looks at the left row, or a table with an index on the join columns and few outer rows, goes
//! into nested loops, with the join condition pushed down to become a seek. Otherwise equalities make a hash join, or a
//! merge join when both sides come in order already.

use super::Planner;
use super::access_path::Path;
use super::cost;
use super::physical::{Wish, kept_order};
use super::rewrite::Rewriter;
use crate::binder::tree::*;
use crate::binder::types::make_convert;
use crate::error::Result;
use crate::executor::expr::Cond;
use crate::executor::plan::*;
use daruma_syntax::ast::{CompareOp, JoinHint};
use daruma_value::{CollationId, DataType};
use std::sync::Arc;

/// An equality between the two sides of a join.
pub(super) struct Equality {
    left: Scalar,
    right: Scalar,
    collation: CollationId,
    /// Position among the conditions.
    position: usize,
}

/// Right sides are planned with pushed conditions, too, only this deep: each level would triple the work.
const PUSHED_LEVELS_MAX: u32 = 4;

/// An inner side that costs less is run again sooner than it is kept.
const KEPT_COST_MIN: f64 = 32.0;

enum Method {
    Loop,
    Spool,
    Hash,
    Merge,
}

impl Planner<'_> {
    pub(super) fn join(
        &mut self,
        join: &Join,
        above: &[Scalar],
        required: &ColSet,
        wish: Wish<'_>,
    ) -> Result<Node> {
        if join.kind == JoinKind::Inner {
            return self.inner_joins(join, above, required, wish);
        }
        let mut needed = required.clone();
        join.on.iter().for_each(|c| c.columns(&mut needed));
        needed.extend(join.right.outer_columns());
        let order = if join.kind == JoinKind::Full {
            &[]
        } else {
            wish.order
        };
        let own = join.left.produced();
        let order = if order.iter().all(|(id, _)| own.contains(id)) {
            order
        } else {
            &[]
        };
        let left = self.node_for(&join.left, &needed, Wish { order, limit: None })?;
        self.join_right(
            left,
            join.kind,
            &join.right,
            None,
            &join.on,
            required,
            join.hint,
        )
    }

    /// Joins a planned left side with `right`, which may have been planned alone already.
    pub(super) fn join_right(
        &mut self,
        left: Node,
        kind: JoinKind,
        right: &Rel,
        alone: Option<Node>,
        on: &[Scalar],
        required: &ColSet,
        hint: Option<JoinHint>,
    ) -> Result<Node> {
        self.join_levels += 1;
        let joined = self.join_right_here(left, kind, right, alone, on, required, hint);
        self.join_levels -= 1;
        joined
    }

    fn join_right_here(
        &mut self,
        left: Node,
        kind: JoinKind,
        right: &Rel,
        alone: Option<Node>,
        on: &[Scalar],
        required: &ColSet,
        hint: Option<JoinHint>,
    ) -> Result<Node> {
        let left_columns: ColSet = left.schema.iter().copied().collect();
        let right_columns = right.produced();
        let mut needed = required.clone();
        on.iter().for_each(|c| c.columns(&mut needed));
        let correlated = !right.outer_columns().is_disjoint(&left_columns);
        let fraction: f64 = self.together(on);
        if correlated {
            return self.nested_loop(left, kind, right, on, &needed, required);
        }
        let equalities = equalities(on, &left_columns, &right_columns);
        let loop_cost = match base_table(right) {
            Some(_) => self
                .seek_path(right, on, &needed, &left_columns)
                .map(|p| left.cost + left.rows * p.cost),
            None => self
                .pushed_cost(right, on, &needed)
                .map(|c| left.cost + left.rows * c),
        };
        let alone = match alone {
            Some(node) => node,
            None => self.node(right, &needed)?,
        };
        let hash = match kind {
            JoinKind::Inner => cost::hash(left.rows, alone.rows),
            _ => alone.rows * cost::HASH_BUILD + left.rows * cost::HASH_PROBE,
        };
        let hash_cost = left.cost + alone.cost + hash;
        let merge_cost = left.cost + alone.cost + (left.rows + alone.rows) * cost::MERGE;
        let spool_cost = left.cost + alone.cost + left.rows * alone.rows * cost::PAIR + 1.0;
        let other_cost = match equalities.is_empty() {
            true => spool_cost,
            false => hash_cost,
        };
        let method = match hint {
            Some(JoinHint::Loop) if kind != JoinKind::Full => {
                if loop_cost.is_some() {
                    Method::Loop
                } else {
                    Method::Spool
                }
            }
            Some(JoinHint::Hash) if !equalities.is_empty() => Method::Hash,
            Some(JoinHint::Merge) if !equalities.is_empty() && kind != JoinKind::Full => {
                Method::Merge
            }
            _ if kind == JoinKind::Full => Method::Hash,
            _ if loop_cost.is_some_and(|c| c <= other_cost) => Method::Loop,
            _ if equalities.is_empty() => Method::Spool,
            _ if spool_cost < hash_cost && left.rows <= 2.0 => Method::Spool,
            _ if merge_cost <= hash_cost && merge_order(&equalities, &left, &alone).is_some() => {
                Method::Merge
            }
            _ => Method::Hash,
        };
        match method {
            Method::Loop => self.nested_loop(left, kind, right, on, &needed, required),
            Method::Spool => self.spooled(left, kind, alone, on, required, fraction),
            Method::Merge => self.merge_join(left, kind, alone, on, equalities, required, fraction),
            Method::Hash => self.hash_join(left, kind, alone, on, equalities, required, fraction),
        }
    }

    /// How the right side would be read for one left row, when it is a table with a fitting index.
    pub(super) fn seek_path(
        &mut self,
        right: &Rel,
        on: &[Scalar],
        needed: &ColSet,
        left: &ColSet,
    ) -> Option<Path> {
        let (scan, mut conditions) = base_table(right)?;
        conditions.extend(on.iter().cloned());
        let path = self.best_path(&scan, &conditions, needed, &[], None);
        path.uses(&conditions, left).then_some(path)
    }

    /// Cost of a grouped or otherwise derived right side for one left row, when conditions go down into it.
    fn pushed_cost(&mut self, right: &Rel, on: &[Scalar], needed: &ColSet) -> Option<f64> {
        if self.join_levels > PUSHED_LEVELS_MAX {
            return None;
        }
        if !matches!(
            right,
            Rel::Aggregate(_) | Rel::Compute { .. } | Rel::Distinct { .. } | Rel::Set(_)
        ) {
            return None;
        }
        let rewriter = Rewriter::new(self.columns, self.host);
        let pushed = on
            .iter()
            .fold(right.clone(), |rel, c| rewriter.push(rel, c.clone()));
        rewriter.end().ok()?;
        // A condition that stopped on top would only be checked later.
        if matches!(pushed, Rel::Filter { .. }) {
            return None;
        }
        self.node(&pushed, needed).ok().map(|n| n.cost)
    }

    fn nested_loop(
        &mut self,
        left: Node,
        kind: JoinKind,
        right: &Rel,
        on: &[Scalar],
        needed: &ColSet,
        required: &ColSet,
    ) -> Result<Node> {
        let rewriter = Rewriter::new(self.columns, self.host);
        // A condition may be checked inside the right side: it decides about pairs either way.
        let inner_rel = on
            .iter()
            .fold(right.clone(), |rel, c| rewriter.push(rel, c.clone()));
        rewriter.end()?;
        let outer = inner_rel.outer_columns();
        let inner = self.repeated(true, |p| p.node(&inner_rel, needed))?;
        let mut bind = Vec::new();
        for (position, id) in left.schema.iter().enumerate() {
            if outer.contains(id) {
                bind.push((position, self.parameter(*id)));
            }
        }
        let is_whole = matches!(kind, JoinKind::Inner | JoinKind::Left);
        let is_dear = inner.cost > KEPT_COST_MIN && base_table(&inner_rel).is_none();
        let inner = match is_whole && is_dear && repeats(&left, &outer) {
            true => super::physical::kept(inner, true),
            false => inner,
        };
        let rows = left.rows * inner.rows;
        let cost = left.cost + left.rows * inner.cost;
        Ok(self.loop_node(left, kind, inner, bind, None, false, rows, cost, required))
    }

    fn spooled(
        &mut self,
        left: Node,
        kind: JoinKind,
        inner: Node,
        on: &[Scalar],
        required: &ColSet,
        fraction: f64,
    ) -> Result<Node> {
        let joined: Vec<ColId> = left.schema.iter().chain(&inner.schema).copied().collect();
        let condition = self.condition(on, &joined)?;
        let rows = left.rows * inner.rows * fraction;
        let cost = left.cost + inner.cost + left.rows * inner.rows * cost::PAIR;
        Ok(self.loop_node(
            left,
            kind,
            inner,
            Vec::new(),
            condition,
            true,
            rows,
            cost,
            required,
        ))
    }

    fn loop_node(
        &mut self,
        outer: Node,
        kind: JoinKind,
        inner: Node,
        bind: Vec<(usize, usize)>,
        on: Option<Cond>,
        spool: bool,
        rows: f64,
        cost: f64,
        required: &ColSet,
    ) -> Node {
        let (schema, output) = joined_schema(&outer.schema, &inner.schema, kind, required);
        let rows = joined_rows(kind, outer.rows, rows);
        let order = kept_order(&outer.order, &schema);
        let node = NestedLoopNode {
            kind,
            outer,
            inner,
            bind,
            on,
            spool,
            output,
        };
        Node {
            op: Op::NestedLoop(Arc::new(node)),
            schema,
            rows,
            cost,
            order,
        }
    }

    fn condition(&mut self, on: &[Scalar], schema: &[ColId]) -> Result<Option<Cond>> {
        let mut parts = Vec::with_capacity(on.len());
        for condition in on {
            parts.push(self.cond(condition, schema)?);
        }
        Ok(if parts.is_empty() {
            None
        } else {
            Some(all_of(parts))
        })
    }

    fn hash_join(
        &mut self,
        left: Node,
        kind: JoinKind,
        right: Node,
        on: &[Scalar],
        mut equalities: Vec<Equality>,
        required: &ColSet,
        fraction: f64,
    ) -> Result<Node> {
        let rows = joined_rows(kind, left.rows, left.rows * right.rows * fraction);
        let hash = match kind {
            JoinKind::Inner => cost::hash(left.rows, right.rows),
            _ => right.rows * cost::HASH_BUILD + left.rows * cost::HASH_PROBE,
        };
        let cost = left.cost + right.cost + hash;
        // The smaller side is the one to keep in memory.
        let swap = kind == JoinKind::Inner && right.rows > left.rows * 1.2;
        let (probe, build) = if swap { (right, left) } else { (left, right) };
        if swap {
            equalities
                .iter_mut()
                .for_each(|e| std::mem::swap(&mut e.left, &mut e.right));
        }
        let residual: Vec<Scalar> = rest(on, &equalities);
        let joined: Vec<ColId> = probe.schema.iter().chain(&build.schema).copied().collect();
        let residual = self.condition(&residual, &joined)?;
        let (mut probe_keys, mut build_keys, mut collations) = (Vec::new(), Vec::new(), Vec::new());
        for equality in &equalities {
            probe_keys.push(self.expr(&equality.left, &probe.schema)?);
            build_keys.push(self.expr(&equality.right, &build.schema)?);
            collations.push(equality.collation);
        }
        let (schema, output) = joined_schema(&probe.schema, &build.schema, kind, required);
        let node = HashJoinNode {
            kind,
            probe,
            build,
            probe_keys,
            build_keys,
            collations,
            residual,
            output,
        };
        Ok(Node {
            op: Op::HashJoin(Arc::new(node)),
            schema,
            rows,
            cost,
            order: Vec::new(),
        })
    }

    fn merge_join(
        &mut self,
        left: Node,
        kind: JoinKind,
        right: Node,
        on: &[Scalar],
        equalities: Vec<Equality>,
        required: &ColSet,
        fraction: f64,
    ) -> Result<Node> {
        let columns: Vec<&Equality> = equalities.iter().filter(|e| plain(e)).collect();
        if columns.is_empty() {
            return self.hash_join(left, kind, right, on, equalities, required, fraction);
        }
        let (left, right, used) = match merge_order(&equalities, &left, &right) {
            Some(used) => (left, right, used),
            None => {
                // Asked for by a hint: sort both sides.
                let used: Vec<usize> = (0..equalities.len())
                    .filter(|i| equalities.get(*i).is_some_and(plain))
                    .collect();
                let side = |pick: fn(&Equality) -> &Scalar| -> Vec<(ColId, bool)> {
                    used.iter()
                        .filter_map(|i| equalities.get(*i).and_then(|e| pick(e).as_column()))
                        .map(|c| (c, false))
                        .collect()
                };
                let (l, r) = (side(|e| &e.left), side(|e| &e.right));
                (
                    self.sorted(left, &l, Vec::new()),
                    self.sorted(right, &r, Vec::new()),
                    used,
                )
            }
        };
        let used: Vec<&Equality> = used.iter().filter_map(|i| equalities.get(*i)).collect();
        let position = |schema: &[ColId], s: &Scalar| {
            schema
                .iter()
                .position(|c| Some(*c) == s.as_column())
                .unwrap_or(usize::MAX)
        };
        let left_keys = used
            .iter()
            .map(|e| position(&left.schema, &e.left))
            .collect();
        let right_keys = used
            .iter()
            .map(|e| position(&right.schema, &e.right))
            .collect();
        let collations = used.iter().map(|e| e.collation).collect();
        let taken: Vec<usize> = used.iter().map(|e| e.position).collect();
        let residual: Vec<Scalar> = on
            .iter()
            .enumerate()
            .filter(|(i, _)| !taken.contains(i))
            .map(|(_, c)| c.clone())
            .collect();
        let joined: Vec<ColId> = left.schema.iter().chain(&right.schema).copied().collect();
        let residual = self.condition(&residual, &joined)?;
        let rows = joined_rows(kind, left.rows, left.rows * right.rows * fraction);
        let cost = left.cost + right.cost + (left.rows + right.rows) * cost::MERGE;
        let (schema, output) = joined_schema(&left.schema, &right.schema, kind, required);
        let order = kept_order(&left.order, &schema);
        let node = MergeJoinNode {
            kind,
            left,
            right,
            left_keys,
            right_keys,
            collations,
            residual,
            output,
        };
        Ok(Node {
            op: Op::MergeJoin(Arc::new(node)),
            schema,
            rows,
            cost,
            order,
        })
    }
}

/// Do rows with the same values in these columns come in turn, because a join repeats the row that they are of?
fn repeats(node: &Node, columns: &ColSet) -> bool {
    let side = match &node.op {
        Op::NestedLoop(j) => &j.outer,
        Op::HashJoin(j) => &j.probe,
        Op::MergeJoin(j) => &j.left,
        Op::Filter(f) => return repeats(&f.input, columns),
        _ => return false,
    };
    let mut read = columns.iter().filter(|id| node.schema.contains(id));
    read.all(|id| side.schema.contains(id))
        && (node.rows >= side.rows * 2.0 || repeats(side, columns))
}

/// A table with filters on it.
pub(super) fn base_table(rel: &Rel) -> Option<(TableScan, Vec<Scalar>)> {
    match rel {
        Rel::Table(scan) => Some(((**scan).clone(), Vec::new())),
        Rel::Filter { input, condition } => {
            let (scan, mut conditions) = base_table(input)?;
            condition.clone().conjuncts(&mut conditions);
            Some((scan, conditions))
        }
        Rel::Compute { input, .. } => base_table(input),
        _ => None,
    }
}

pub(super) fn all_of(mut parts: Vec<Cond>) -> Cond {
    match parts.len() {
        1 => parts.remove(0),
        _ => Cond::And(parts),
    }
}

pub(super) fn equalities(on: &[Scalar], left: &ColSet, right: &ColSet) -> Vec<Equality> {
    let mut found = Vec::new();
    for (position, condition) in on.iter().enumerate() {
        let Kind::Compare {
            op: CompareOp::Equal,
            left: a,
            right: b,
        } = &condition.kind
        else {
            continue;
        };
        let (ca, cb) = (a.column_set(), b.column_set());
        let of = |columns: &ColSet, side: &ColSet, other: &ColSet| {
            !columns.is_disjoint(side) && columns.is_disjoint(other)
        };
        if a.is_volatile() || b.is_volatile() {
            continue;
        }
        let (l, r) = if of(&ca, left, right) && of(&cb, right, left) {
            (a, b)
        } else if of(&cb, left, right) && of(&ca, right, left) {
            (b, a)
        } else {
            continue;
        };
        if !hashable(l.ty.data_type) || !hashable(r.ty.data_type) {
            continue;
        }
        let (l, r) = same_kind((**l).clone(), (**r).clone());
        found.push(Equality {
            left: l,
            right: r,
            collation: a.ty.collation,
            position,
        });
    }
    found
}

/// Variants compare across types in ways that keys do not show.
fn hashable(t: DataType) -> bool {
    t != DataType::Variant
}

/// Keys of approximate and exact numbers differ even for equal values: both become float.
fn same_kind(l: Scalar, r: Scalar) -> (Scalar, Scalar) {
    let float = |s: &Scalar| matches!(s.ty.data_type, DataType::Float | DataType::Real);
    match (float(&l), float(&r)) {
        (true, false) => (l, make_convert(r, DataType::Float, true)),
        (false, true) => (make_convert(l, DataType::Float, true), r),
        _ => (l, r),
    }
}

fn plain(equality: &Equality) -> bool {
    equality.left.as_column().is_some()
        && equality.right.as_column().is_some()
        && (equality.left.ty.data_type == equality.right.ty.data_type
            || equality.left.ty.data_type.is_exact_numeric()
                && equality.right.ty.data_type.is_exact_numeric())
}

fn rest(on: &[Scalar], used: &[Equality]) -> Vec<Scalar> {
    on.iter()
        .enumerate()
        .filter(|(i, _)| !used.iter().any(|e| e.position == *i))
        .map(|(_, c)| c.clone())
        .collect()
}

/// Equalities in the order that both sides are sorted by, if there is one.
fn merge_order(equalities: &[Equality], left: &Node, right: &Node) -> Option<Vec<usize>> {
    let mut used = Vec::new();
    for ((l, l_down), (r, r_down)) in left.order.iter().zip(&right.order) {
        let fits = |e: &Equality| {
            plain(e) && e.left.as_column() == Some(*l) && e.right.as_column() == Some(*r)
        };
        match equalities.iter().position(fits) {
            Some(i) if !l_down && !r_down => used.push(i),
            _ => break,
        }
    }
    (!used.is_empty()).then_some(used)
}

fn joined_schema(
    left: &[ColId],
    right: &[ColId],
    kind: JoinKind,
    required: &ColSet,
) -> (Vec<ColId>, Vec<usize>) {
    let right: &[ColId] = if matches!(kind, JoinKind::Semi | JoinKind::Anti) {
        &[]
    } else {
        right
    };
    left.iter()
        .chain(right)
        .enumerate()
        .filter(|(_, id)| required.contains(id))
        .map(|(i, id)| (*id, i))
        .unzip()
}

fn joined_rows(kind: JoinKind, left: f64, rows: f64) -> f64 {
    match kind {
        JoinKind::Inner => rows.max(0.1),
        JoinKind::Left | JoinKind::Full => rows.max(left),
        JoinKind::Semi => rows.min(left).max(0.1),
        JoinKind::Anti => (left * 0.5).max(0.1),
    }
}
