//! Order of inner joins.
//!
//! Theory: the joined tables and all conditions between them form a graph. From several first tables a plan is grown
//! greedily: the next table is the one that makes the work so far smallest, and a table that no condition connects comes
//! only when nothing else is left. The cheapest of the grown plans wins. That is cubic in the number of tables, so a join
//! of dozens is planned at once.

use super::Planner;
use super::cost;
use super::physical::Wish;
use super::rewrite::Rewriter;
use crate::binder::tree::*;
use crate::error::Result;
use crate::executor::plan::Node;
use crate::host::check_cancel;
use daruma_syntax::ast::JoinHint;

/// First tables tried; fewer when there are many tables to follow.
const STARTS_MAX: usize = 6;
const MANY_TABLES: usize = 20;

struct Graph {
    leaves: Vec<Leaf>,
    conditions: Vec<Scalar>,
    /// Columns of all leaves.
    columns: ColSet,
    hint: Option<JoinHint>,
}

struct Leaf {
    rel: Rel,
    produced: ColSet,
    /// Columns of other leaves that it looks at.
    depends: ColSet,
    rows: f64,
    cost: f64,
    node: Option<Node>,
}

struct Grown {
    order: Vec<usize>,
    cost: f64,
}

impl Planner<'_> {
    pub(super) fn inner_joins(
        &mut self,
        join: &Join,
        above: &[Scalar],
        required: &ColSet,
        wish: Wish<'_>,
    ) -> Result<Node> {
        let mut rels = Vec::new();
        let mut conditions = above.to_vec();
        gather(join, &mut rels, &mut conditions);
        let mut graph = self.graph(rels, conditions, join.hint);
        let mut needed = required.clone();
        graph.conditions.iter().for_each(|c| c.columns(&mut needed));
        graph
            .leaves
            .iter()
            .for_each(|l| needed.extend(l.depends.iter().copied()));
        for leaf in &mut graph.leaves {
            let node = self.node(&leaf.rel, &needed)?;
            leaf.rows = node.rows;
            leaf.cost = node.cost;
            leaf.node = Some(node);
        }
        let order = if graph.hint.is_some() {
            (0..graph.leaves.len()).collect()
        } else {
            self.best_order(&graph, &needed)?
        };
        self.build_joins(graph, &order, &needed, required, wish)
    }

    /// Gives each leaf the conditions that only look at it.
    fn graph(&self, rels: Vec<Rel>, conditions: Vec<Scalar>, hint: Option<JoinHint>) -> Graph {
        let rewriter = Rewriter::new(self.columns, self.host);
        let mut leaves: Vec<Leaf> = rels
            .into_iter()
            .map(|rel| Leaf {
                produced: rel.produced(),
                rel,
                depends: ColSet::new(),
                rows: 1.0,
                cost: 1.0,
                node: None,
            })
            .collect();
        let columns: ColSet = leaves
            .iter()
            .flat_map(|l| l.produced.iter().copied())
            .collect();
        let mut between = Vec::new();
        for condition in conditions {
            let used: ColSet = condition
                .column_set()
                .intersection(&columns)
                .copied()
                .collect();
            let home = leaves
                .iter_mut()
                .find(|l| !used.is_empty() && used.is_subset(&l.produced));
            match home {
                Some(leaf) if !condition.is_volatile() => {
                    let rel = std::mem::replace(&mut leaf.rel, Rel::One);
                    leaf.rel = rewriter.push(rel, condition);
                }
                _ => between.push(condition),
            }
        }
        for leaf in &mut leaves {
            let outer = leaf.rel.outer_columns();
            leaf.depends = outer.intersection(&columns).copied().collect();
        }
        Graph {
            leaves,
            conditions: between,
            columns,
            hint,
        }
    }

    fn best_order(&mut self, graph: &Graph, needed: &ColSet) -> Result<Vec<usize>> {
        let mut starts: Vec<usize> = (0..graph.leaves.len())
            .filter(|i| graph.leaves.get(*i).is_some_and(|l| l.depends.is_empty()))
            .collect();
        starts.sort_by(|a, b| {
            let rows = |i: &usize| graph.leaves.get(*i).map_or(0.0, |l| l.rows);
            rows(a).total_cmp(&rows(b))
        });
        starts.truncate(if graph.leaves.len() > MANY_TABLES {
            1
        } else {
            STARTS_MAX
        });
        let mut best: Option<Grown> = None;
        for start in starts {
            if let Some(grown) = self.grow(graph, needed, start)?
                && best.as_ref().is_none_or(|b| grown.cost < b.cost)
            {
                best = Some(grown);
            }
        }
        Ok(best.map_or_else(|| (0..graph.leaves.len()).collect(), |b| b.order))
    }

    /// The order that begins with `start` and always goes on with the cheapest table. `None`: tables are left that look at
    /// each other's columns.
    fn grow(&mut self, graph: &Graph, needed: &ColSet, start: usize) -> Result<Option<Grown>> {
        let Some(first) = graph.leaves.get(start) else {
            return Ok(None);
        };
        let mut order = vec![start];
        let mut have = first.produced.clone();
        let (mut rows, mut cost) = (first.rows, first.cost);
        while order.len() < graph.leaves.len() {
            check_cancel(self.host)?;
            let mut best: Option<(bool, f64, f64, usize)> = None;
            for (index, leaf) in graph.leaves.iter().enumerate() {
                if order.contains(&index) || !leaf.depends.is_subset(&have) {
                    continue;
                }
                let (on, connected) = conditions_between(graph, &have, leaf);
                let fraction: f64 = self.together(&on);
                let out = (rows * leaf.rows * fraction).max(0.1);
                let equal = on.iter().any(is_equality);
                let alone = if equal {
                    leaf.cost + cost::hash(rows, leaf.rows)
                } else {
                    leaf.cost + rows * leaf.rows * cost::PAIR
                };
                let seek = self
                    .seek_path(&leaf.rel, &on, needed, &have)
                    .map(|p| rows * p.cost);
                let step = if !leaf.depends.is_empty() {
                    rows * leaf.cost
                } else {
                    seek.map_or(alone, |s| s.min(alone))
                };
                let total = step + out * cost::JOINED;
                let better = match &best {
                    None => true,
                    Some((c, t, ..)) => (connected && !c) || (connected == *c && total < *t),
                };
                if better {
                    best = Some((connected, total, out, index));
                }
            }
            let Some((_, total, out, index)) = best else {
                return Ok(None);
            };
            order.push(index);
            let produced = graph.leaves.get(index).map(|l| &l.produced);
            have.extend(produced.into_iter().flatten().copied());
            cost += total;
            rows = out;
        }
        Ok(Some(Grown { order, cost }))
    }

    fn build_joins(
        &mut self,
        mut graph: Graph,
        order: &[usize],
        needed: &ColSet,
        required: &ColSet,
        wish: Wish<'_>,
    ) -> Result<Node> {
        let mut used = vec![false; graph.conditions.len()];
        let mut current: Option<Node> = None;
        let mut have = ColSet::new();
        for (step, index) in order.iter().enumerate() {
            let Some(leaf) = graph.leaves.get_mut(*index) else {
                continue;
            };
            let alone = leaf.node.take();
            let produced = leaf.produced.clone();
            let Some(left) = current.take() else {
                let own = wish.order.iter().all(|(id, _)| produced.contains(id));
                current = Some(match alone {
                    Some(node) if wish.order.is_empty() || !own => node,
                    _ => self.node_for(
                        &leaf.rel,
                        needed,
                        Wish {
                            order: wish.order,
                            limit: wish.limit,
                        },
                    )?,
                });
                have.extend(produced);
                continue;
            };
            have.extend(produced);
            let mut on = Vec::new();
            for (condition, used) in graph.conditions.iter().zip(&mut used) {
                let within = condition
                    .column_set()
                    .intersection(&graph.columns)
                    .all(|c| have.contains(c));
                if !*used
                    && within
                    && !condition.is_volatile()
                    && !condition.column_set().is_disjoint(&graph.columns)
                {
                    *used = true;
                    on.push(condition.clone());
                }
            }
            // Columns that later steps and the caller still need.
            let mut keep = required.clone();
            for (condition, used) in graph.conditions.iter().zip(&used) {
                if !used {
                    condition.columns(&mut keep);
                }
            }
            for later in order.iter().skip(step + 1) {
                if let Some(leaf) = graph.leaves.get(*later) {
                    keep.extend(leaf.depends.iter().copied());
                }
            }
            let Some(leaf) = graph.leaves.get(*index) else {
                continue;
            };
            current = Some(self.join_right(
                left,
                JoinKind::Inner,
                &leaf.rel,
                alone,
                &on,
                &keep,
                graph.hint,
            )?);
        }
        let left_over: Vec<Scalar> = graph
            .conditions
            .iter()
            .zip(&used)
            .filter(|(_, used)| !**used)
            .map(|(c, _)| c.clone())
            .collect();
        match current {
            Some(node) => self.filtered(node, &left_over),
            None => Ok(super::physical::leaf(
                crate::executor::plan::Op::One,
                Vec::new(),
                1.0,
            )),
        }
    }
}

/// Leaves and conditions of nested inner joins.
fn gather(join: &Join, leaves: &mut Vec<Rel>, conditions: &mut Vec<Scalar>) {
    conditions.extend(join.on.iter().cloned());
    for side in [&join.left, &join.right] {
        gather_side(side, leaves, conditions);
    }
}

fn gather_side(side: &Rel, leaves: &mut Vec<Rel>, conditions: &mut Vec<Scalar>) {
    match side {
        Rel::Join(inner) if inner.kind == JoinKind::Inner => gather(inner, leaves, conditions),
        Rel::Filter { input, condition } if matches!(&**input, Rel::Join(j) if j.kind == JoinKind::Inner) =>
        {
            condition.clone().conjuncts(conditions);
            gather_side(input, leaves, conditions);
        }
        other => leaves.push(other.clone()),
    }
}

/// Conditions that become checkable with `leaf`, and whether any of them ties it to what is there.
fn conditions_between(graph: &Graph, have: &ColSet, leaf: &Leaf) -> (Vec<Scalar>, bool) {
    let mut on = Vec::new();
    for condition in &graph.conditions {
        let used: ColSet = condition
            .column_set()
            .intersection(&graph.columns)
            .copied()
            .collect();
        let touches = !used.is_disjoint(&leaf.produced);
        if touches
            && used
                .iter()
                .all(|c| have.contains(c) || leaf.produced.contains(c))
        {
            on.push(condition.clone());
        }
    }
    let connected = !on.is_empty() || !leaf.depends.is_empty();
    (on, connected)
}

fn is_equality(condition: &Scalar) -> bool {
    matches!(
        &condition.kind,
        Kind::Compare {
            op: daruma_syntax::ast::CompareOp::Equal,
            ..
        }
    )
}
