//! Rewriting the bound tree: subqueries become joins, conditions move down to the rows they speak of.
//!
//! Theory: every rule keeps the meaning for all data.
//! * EXISTS, IN and ANY among the conjuncts of a WHERE become semi joins, their negations anti joins; not those that would be asked for each
//!   row as a join, too: in place they run once for the same values, and before the row is joined to others.
//! * The right side of a join that looks at its left side gives up the filters that do so, and the join takes them over;
//!   what then looks at the left side no more is an ordinary join.
//! * A LEFT join whose right side must not be NULL afterwards is an inner join; a FULL join of which one side must not be is an
//!   outer join of that side.
//! * A condition moves below whatever does not change its truth.
//!
//! A rule may copy a computed column into a condition, and copies of copies double with each level of a query. So a column
//! that stands more than once is copied only as long as the condition stays small, and the work as a whole is bounded:
//! beyond that, or when the client gives up, the tree stays as it is and `end` gives the error.

use crate::binder::tree::*;
use crate::binder::{ColumnInfo, too_complex, with_stack};
use crate::error::{Result, SqlError};
use crate::host::{Host, check_cancel};
use daruma_syntax::ast::{CompareOp, SetOp};
use daruma_value::{DataType, Value};
use std::cell::{Cell, RefCell};

/// A condition that repeats computed columns may have this many nodes.
const REPEATING_NODES_MAX: usize = 64;
/// An expression over the aggregates of a subquery may have this many.
const UNNESTED_NODES_MAX: usize = 4_096;
/// Operators visited and conditions moved, for one statement.
const STEPS_MAX: u32 = 1 << 24;
/// Steps between two looks at the cancel flag.
const CANCEL_STEPS: u32 = 1 << 10;

/// Rules that need no statistics: pushes conditions down, unnests subqueries, drops what is not read.
pub struct Rewriter<'c> {
    columns: &'c [ColumnInfo],
    host: &'c dyn Host,
    steps: Cell<u32>,
    /// Why nothing is rewritten any more.
    stopped: RefCell<Option<SqlError>>,
}

impl<'c> Rewriter<'c> {
    /// `columns` is the binder's list, by column number.
    pub fn new(columns: &'c [ColumnInfo], host: &'c dyn Host) -> Rewriter<'c> {
        Rewriter {
            columns,
            host,
            steps: Cell::new(0),
            stopped: RefCell::new(None),
        }
    }

    /// Errors 8623 and 3617, when the rewriting was stopped by them.
    pub fn end(self) -> Result<()> {
        self.stopped.into_inner().map_or(Ok(()), Err)
    }

    /// Counts a step; true once the rewriting is stopped.
    fn is_stopped(&self) -> bool {
        let steps = self.steps.get() + 1;
        if steps > STEPS_MAX {
            self.stopped.borrow_mut().get_or_insert_with(too_complex);
            return true;
        }
        self.steps.set(steps);
        if steps.is_multiple_of(CANCEL_STEPS)
            && let Err(error) = check_cancel(self.host)
        {
            *self.stopped.borrow_mut() = Some(error);
            self.steps.set(STEPS_MAX);
        }
        false
    }

    /// The rewritten tree. Past its bound of steps, or after a cancel, the rest stays as it is and the error is kept.
    pub fn rel(&self, rel: Rel) -> Rel {
        match self.is_stopped() {
            true => rel,
            false => with_stack(|| self.rel_here(rel)),
        }
    }

    fn rel_here(&self, rel: Rel) -> Rel {
        match rel {
            Rel::Filter { input, condition } => {
                let input = self.rel(*input);
                let mut conjuncts = Vec::new();
                split(condition, &mut conjuncts);
                conjuncts
                    .into_iter()
                    .fold(input, |rel, c| self.add_condition(rel, c))
            }
            Rel::Compute { input, mut items } => {
                let mut input = self.rel(*input);
                for (_, scalar) in &mut items {
                    input = self.unnest(input, scalar);
                    self.scalar(scalar);
                }
                Rel::Compute {
                    input: Box::new(input),
                    items,
                }
            }
            Rel::Join(join) => self.join(*join),
            Rel::Aggregate(mut g) => {
                g.input = self.rel(g.input);
                g.aggregates
                    .iter_mut()
                    .for_each(|(_, a)| a.for_each_mut(&mut |s| self.scalar(s)));
                Rel::Aggregate(g)
            }
            Rel::Window { input, mut calls } => {
                for (_, call) in &mut calls {
                    call.args.iter_mut().for_each(|s| self.scalar(s));
                }
                Rel::Window {
                    input: Box::new(self.rel(*input)),
                    calls,
                }
            }
            Rel::Sort { input, keys } => Rel::Sort {
                input: Box::new(self.rel(*input)),
                keys,
            },
            Rel::Top(mut top) => {
                top.input = self.rel(top.input);
                top.count
                    .iter_mut()
                    .chain(top.offset.iter_mut())
                    .for_each(|s| self.scalar(s));
                Rel::Top(top)
            }
            Rel::Distinct { input, columns } => Rel::Distinct {
                input: Box::new(self.rel(*input)),
                columns,
            },
            Rel::Set(mut set) => {
                set.branches = set
                    .branches
                    .into_iter()
                    .map(|(r, c)| (self.rel(r), c))
                    .collect();
                Rel::Set(set)
            }
            Rel::Recursive(mut r) => {
                r.anchor.0 = self.rel(r.anchor.0);
                r.step.0 = self.rel(r.step.0);
                Rel::Recursive(r)
            }
            Rel::Values { mut rows, columns } => {
                rows.iter_mut().flatten().for_each(|s| self.scalar(s));
                Rel::Values { rows, columns }
            }
            other => other,
        }
    }

    /// Subqueries that stay in expressions.
    pub fn scalar(&self, scalar: &mut Scalar) {
        if let Kind::Subquery(sub) = &mut scalar.kind {
            let rel = std::mem::replace(&mut sub.rel, Rel::One);
            sub.rel = self.rel(rel);
        }
        scalar.for_each_child_mut(&mut |c| self.scalar(c));
    }

    /// Puts a condition above `rel`, as a join where it is a subquery, as low as possible otherwise.
    fn add_condition(&self, rel: Rel, mut condition: Scalar) -> Rel {
        let inner = match &condition.kind {
            Kind::Not(inner) => &**inner,
            _ => &condition,
        };
        if let Kind::Subquery(sub) = &inner.kind
            && looks_at_none_of(sub, &rel.produced())
        {
            // Asked once, before any row is read: a join would make all rows first.
            self.scalar(&mut condition);
            return rel.filter(Some(condition));
        }
        if self.stays_in_place(&rel, &mut condition) {
            return self.push(rel, condition);
        }
        let (negated, inner) = match &condition.kind {
            Kind::Not(inner) => (true, &**inner),
            _ => (false, &condition),
        };
        if let Kind::Subquery(sub) = &inner.kind
            && !matches!(sub.kind, SubqueryKind::Scalar(_))
        {
            let on = match &sub.kind {
                SubqueryKind::Any { op, expr, value } => {
                    self.any_condition(*op, expr, value, negated)
                }
                _ => Vec::new(),
            };
            let kind = if negated {
                JoinKind::Anti
            } else {
                JoinKind::Semi
            };
            let right = sub.rel.clone();
            let same_row = on
                .iter()
                .any(|c| c.any(&|s| matches!(s.kind, Kind::Subquery(_))));
            if !same_row {
                return self.join(Join {
                    kind,
                    left: rel,
                    right,
                    on,
                    hint: None,
                });
            }
        }
        if condition.any(&|s| matches!(&s.kind, Kind::Subquery(sub) if matches!(sub.kind, SubqueryKind::Scalar(_)))) {
            let rel = self.unnest(rel, &mut condition);
            self.scalar(&mut condition);
            return self.push(rel, condition);
        }
        self.scalar(&mut condition);
        self.push(rel, condition)
    }

    /// Rewrites the query of EXISTS or ANY. True when a join would ask for each row all the same.
    fn stays_in_place(&self, rel: &Rel, condition: &mut Scalar) -> bool {
        let (negated, kind) = match &mut condition.kind {
            Kind::Not(inner) => (true, &mut inner.kind),
            kind => (false, kind),
        };
        let Kind::Subquery(sub) = kind else {
            return false;
        };
        let query = std::mem::replace(&mut sub.rel, Rel::One);
        let mut compares = Vec::new();
        let mut compared = None;
        match &mut sub.kind {
            SubqueryKind::Scalar(_) => {
                sub.rel = query;
                return false;
            }
            SubqueryKind::Exists => sub.rel = self.rel(query).for_existence(),
            SubqueryKind::Any { op, expr, value } => {
                sub.rel = self.rel(query);
                self.scalar(expr);
                compares = self.any_condition(*op, expr, value, negated);
                compared = Some((&**expr, &**value));
            }
        }
        let outer = rel.produced();
        let mut pulled = Vec::new();
        let right = pull(sub.rel.clone(), &outer, &mut pulled);
        if !right.outer_columns().is_disjoint(&outer) {
            // Unless the comparison finds its rows by an index.
            let is_or = compares.iter().any(|c| matches!(c.kind, Kind::Or(_)));
            let column = compared.and_then(|(_, value)| value.as_column());
            return is_or || !column.is_some_and(|column| reaches_table(&right, column));
        }
        let inner = right.produced();
        let mut conditions = compares.iter().chain(&pulled);
        if conditions.any(|c| ties(c, &outer, &inner)) {
            return false;
        }
        // A comparison that is the same for all rows around it goes into the right side of a join.
        let is_asked = |(expr, value): (&Scalar, &Scalar)| {
            !expr.column_set().is_disjoint(&outer)
                && !expr.is_volatile()
                && value.ty.data_type != DataType::Variant
        };
        if !compared.is_none_or(is_asked) {
            return false;
        }
        // What reads none of its rows lets it run or not. Where others do it is read again for other values, and what is more than a table
        // would be made again; without any its values are made once, and every row asks the set of them.
        let reads_none = |c: &Scalar| c.column_set().is_disjoint(&inner);
        pulled.iter().all(reads_none) || super::joins::base_table(&right).is_some()
    }

    /// Turns correlated scalar aggregates in `scalar` into outer joins of `input` with the grouped subquery.
    fn unnest(&self, mut input: Rel, scalar: &mut Scalar) -> Rel {
        if let Kind::Subquery(sub) = &scalar.kind
            && let SubqueryKind::Scalar(column) = sub.kind
            && let Some((grouped, on, value)) = self.grouped(&sub.rel, column, &input.produced())
        {
            *scalar = Scalar {
                ty: scalar.ty,
                ..value
            };
            return self.join(Join {
                kind: JoinKind::Left,
                left: input,
                right: grouped,
                on,
                hint: None,
            });
        }
        // Branches of CASE may not be evaluated at all: their subqueries stay where they are.
        if matches!(
            scalar.kind,
            Kind::Case { .. } | Kind::Coalesce(_) | Kind::IsNullFn(..) | Kind::Or(_)
        ) {
            return input;
        }
        let mut parts: Vec<&mut Scalar> = Vec::new();
        collect_children(scalar, &mut parts);
        for part in parts {
            input = self.unnest(input, part);
        }
        input
    }

    /// `SELECT agg(..) FROM .. WHERE inner = outer` as a grouped query, its join condition and its value.
    fn grouped(
        &self,
        rel: &Rel,
        column: ColId,
        outer: &ColSet,
    ) -> Option<(Rel, Vec<Scalar>, Scalar)> {
        let mut items: Vec<(ColId, Scalar)> = Vec::new();
        let mut at = rel;
        while let Rel::Compute { input, items: more } = at {
            items.extend(more.iter().cloned());
            at = input;
        }
        let Rel::Aggregate(g) = at else { return None };
        if !g.scalar || g.sets.is_some() || !g.keys.is_empty() {
            return None;
        }
        let mut pulled = Vec::new();
        let input = pull(g.input.clone(), outer, &mut pulled);
        if pulled.is_empty() || !input.outer_columns().is_disjoint(outer) {
            return None;
        }
        let produced = input.produced();
        let mut keys = Vec::new();
        for condition in &pulled {
            let Kind::Compare {
                op: CompareOp::Equal,
                left,
                right,
            } = &condition.kind
            else {
                return None;
            };
            let key = match (left.as_column(), right.as_column()) {
                (Some(l), _)
                    if produced.contains(&l) && right.column_set().is_disjoint(&produced) =>
                {
                    l
                }
                (_, Some(r))
                    if produced.contains(&r) && left.column_set().is_disjoint(&produced) =>
                {
                    r
                }
                _ => return None,
            };
            // Groups are made under the column's own collation.
            if left.ty.data_type.is_character()
                && self.columns.get(key as usize)?.ty.collation != left.ty.collation
            {
                return None;
            }
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let aggregate_uses_outer = g.aggregates.iter().any(|(_, a)| {
            let mut used = ColSet::new();
            a.for_each(&mut |s| s.columns(&mut used));
            !used.is_disjoint(outer)
        });
        if aggregate_uses_outer {
            return None;
        }
        let ty = |id: ColId| self.columns.get(id as usize).map(|c| c.ty);
        let mut value = Scalar::column(column, ty(column)?);
        // Computed columns are computed above the join, where a missing group is NULL, or 0 for a count.
        for _ in 0..=items.len() {
            if put_together(&value, &items, UNNESTED_NODES_MAX) >= UNNESTED_NODES_MAX {
                return None;
            }
            value.replace_columns(&|id| {
                items.iter().find(|(i, _)| *i == id).map(|(_, s)| s.clone())
            });
        }
        value.replace_columns(&|id| {
            let (_, call) = g.aggregates.iter().find(|(i, _)| *i == id)?;
            let count = matches!(
                call.function,
                AggregateFunction::Count
                    | AggregateFunction::CountBig
                    | AggregateFunction::ApproxCountDistinct
            );
            let t = ty(id)?.nullable(true);
            let own = Scalar::column(id, t);
            if !count {
                return Some(own);
            }
            let zero = match t.data_type {
                DataType::Int => Value::Int(0),
                _ => Value::BigInt(0),
            };
            let zero = Scalar::constant(zero, t.data_type);
            Some(Scalar::new(
                Kind::IsNullFn(Box::new(own), Box::new(zero)),
                t.nullable(false),
            ))
        });
        if !value
            .column_set()
            .is_subset(&g.aggregates.iter().map(|(id, _)| *id).collect())
        {
            return None;
        }
        let grouped = Rel::Aggregate(Box::new(Grouping {
            input,
            keys,
            aggregates: g.aggregates.clone(),
            sets: None,
            scalar: false,
        }));
        Some((grouped, pulled, value))
    }

    /// Join condition of `expr op ANY (..)`. Negated, an unknown comparison keeps the row out as well.
    fn any_condition(
        &self,
        op: CompareOp,
        expr: &Scalar,
        value: &Scalar,
        negated: bool,
    ) -> Vec<Scalar> {
        let kind = Kind::Compare {
            op,
            left: Box::new(expr.clone()),
            right: Box::new(value.clone()),
        };
        let compare = Scalar::condition(kind);
        if !negated {
            return vec![compare];
        }
        let mut choices = vec![compare];
        for side in [expr, value] {
            if self.nullable(side) {
                choices.push(Scalar::condition(Kind::IsNull(Box::new(side.clone()))));
            }
        }
        if choices.len() == 1 {
            choices
        } else {
            vec![Scalar::condition(Kind::Or(choices))]
        }
    }

    fn nullable(&self, scalar: &Scalar) -> bool {
        match &scalar.kind {
            Kind::Column(id) => self.columns.get(*id as usize).is_none_or(|c| c.ty.nullable),
            _ => scalar.ty.nullable,
        }
    }

    fn join(&self, join: Join) -> Rel {
        let Join {
            kind,
            left,
            right,
            on,
            hint,
        } = join;
        let (left, mut right) = (self.rel(left), self.rel(right));
        let left_columns = left.produced();
        let mut conditions = Vec::new();
        on.into_iter().for_each(|c| split(c, &mut conditions));
        // With a condition the rows themselves matter (IN): their TOP stays.
        if matches!(kind, JoinKind::Semi | JoinKind::Anti) && conditions.is_empty() {
            right = right.for_existence();
        }
        if kind != JoinKind::Full && !right.outer_columns().is_disjoint(&left_columns) {
            let mut pulled = Vec::new();
            right = pull(right, &left_columns, &mut pulled);
            conditions.extend(pulled);
        }
        let mut joined = Join {
            kind,
            left,
            right,
            on: Vec::new(),
            hint,
        };
        for mut condition in conditions {
            self.scalar(&mut condition);
            joined = self.add_on(joined, condition);
        }
        Rel::Join(Box::new(joined))
    }

    /// A join condition, moved to one side where that is the same.
    fn add_on(&self, mut join: Join, condition: Scalar) -> Join {
        let used = condition.column_set();
        let in_left = !used.is_disjoint(&join.left.produced());
        let in_right = !used.is_disjoint(&join.right.produced());
        let volatile = condition.is_volatile();
        let to_right = !in_left && !volatile && join.kind != JoinKind::Full;
        let to_left = in_left
            && !in_right
            && !volatile
            && matches!(join.kind, JoinKind::Inner | JoinKind::Semi);
        if to_left {
            join.left = self.push(join.left, condition);
        } else if to_right
            && (in_right || matches!(join.kind, JoinKind::Semi | JoinKind::Anti | JoinKind::Left))
        {
            join.right = self.push(join.right, condition);
        } else {
            join.on.push(condition);
        }
        join
    }

    /// Puts a condition as low as it may go.
    pub fn push(&self, rel: Rel, condition: Scalar) -> Rel {
        if condition.is_volatile() || self.is_stopped() {
            return rel.filter(Some(condition));
        }
        let used = condition.column_set();
        match rel {
            Rel::Filter {
                input,
                condition: old,
            } => match self.push(*input, condition) {
                // It stayed right here: one filter for both.
                Rel::Filter { input, condition } => {
                    // Earlier conditions were split when they came: thousands of them are joined one by one.
                    let mut all = match old.kind {
                        Kind::And(parts) => parts,
                        _ => vec![old],
                    };
                    split(condition, &mut all);
                    Rel::Filter {
                        input,
                        condition: Scalar::all(all).unwrap_or_else(always),
                    }
                }
                input => Rel::Filter {
                    input: Box::new(input),
                    condition: old,
                },
            },
            Rel::Compute { input, items } => {
                let made = |id: ColId| items.iter().find(|(i, _)| *i == id);
                let needed: Vec<_> = used.iter().filter_map(|id| made(*id)).collect();
                let simple = needed.iter().all(|(_, s)| {
                    !s.is_volatile()
                        && !s.any(&|n| {
                            matches!(
                                n.kind,
                                Kind::Subquery(_)
                                    | Kind::System { .. }
                                    | Kind::UserFunction { .. }
                                    | Kind::XmlMethod { .. }
                            )
                        })
                });
                // A subquery is asked once for each value of what it reads: a computed value has fewer than what it is computed from.
                let is_read_below = condition.any(&|n| match &n.kind {
                    Kind::Subquery(sub) => {
                        let outer = sub.rel.outer_columns();
                        let mut computed = outer.iter().filter_map(|id| made(*id));
                        computed.any(|(_, s)| s.as_column().is_none())
                    }
                    _ => false,
                });
                if !simple || is_read_below || repeats_much(&condition, &items) {
                    return Rel::Compute { input, items }.filter(Some(condition));
                }
                let mut below = condition;
                below.replace_columns(&|id| made(id).map(|(_, s)| s.clone()));
                Rel::Compute {
                    input: Box::new(self.push(*input, below)),
                    items,
                }
            }
            Rel::Join(join) => self.push_join(*join, condition, &used),
            Rel::Sort { input, keys } => Rel::Sort {
                input: Box::new(self.push(*input, condition)),
                keys,
            },
            Rel::Distinct { input, columns } => Rel::Distinct {
                input: Box::new(self.push(*input, condition)),
                columns,
            },
            Rel::Aggregate(mut g)
                if g.sets.is_none()
                    && !g.scalar
                    && !used.is_disjoint(&g.keys.iter().copied().collect())
                    && g.aggregates.iter().all(|(id, _)| !used.contains(id)) =>
            {
                g.input = self.push(g.input, condition);
                Rel::Aggregate(g)
            }
            Rel::Window { input, calls } => {
                let in_all = |id: &ColId| {
                    calls
                        .iter()
                        .all(|(_, c)| c.partition.iter().any(|p| p.as_column() == Some(*id)))
                };
                let below = input.produced();
                let touches = used.iter().any(|id| below.contains(id));
                let made = calls.iter().any(|(id, _)| used.contains(id));
                if touches && !made && used.iter().filter(|id| below.contains(id)).all(in_all) {
                    Rel::Window {
                        input: Box::new(self.push(*input, condition)),
                        calls,
                    }
                } else {
                    Rel::Window { input, calls }.filter(Some(condition))
                }
            }
            Rel::Set(mut set)
                if !used.is_disjoint(&set.columns.iter().copied().collect())
                    && set.op != SetOp::Except =>
            {
                set.branches = set
                    .branches
                    .into_iter()
                    .map(|(branch, ids)| {
                        let mut own = condition.clone();
                        own.replace_columns(&|id| {
                            let at = set.columns.iter().position(|c| *c == id)?;
                            let inner = *ids.get(at)?;
                            Some(Scalar::column(inner, self.columns.get(inner as usize)?.ty))
                        });
                        (self.push(branch, own), ids)
                    })
                    .collect();
                Rel::Set(set)
            }
            other => other.filter(Some(condition)),
        }
    }

    /// What a FULL join is below a condition that no row passes without one of the sides.
    fn narrowed(&self, mut join: Join, condition: &Scalar) -> Join {
        let needs_left = rejects_null(condition, &join.left.produced());
        let needs_right = rejects_null(condition, &join.right.produced());
        if !needs_left && !needs_right {
            return join;
        }
        if !needs_left {
            std::mem::swap(&mut join.left, &mut join.right);
        }
        join.kind = match needs_left && needs_right {
            true => JoinKind::Inner,
            false => JoinKind::Left,
        };
        // More can go down to one side now.
        let on = std::mem::take(&mut join.on);
        on.into_iter().fold(join, |join, c| self.add_on(join, c))
    }

    fn push_join(&self, mut join: Join, condition: Scalar, used: &ColSet) -> Rel {
        if join.kind == JoinKind::Full {
            join = self.narrowed(join, &condition);
        }
        let in_right = !used.is_disjoint(&join.right.produced());
        if join.kind == JoinKind::Left
            && in_right
            && rejects_null(&condition, &join.right.produced())
        {
            join.kind = JoinKind::Inner;
        }
        match join.kind {
            JoinKind::Inner => {
                let join = self.add_on(join, condition);
                return Rel::Join(Box::new(join));
            }
            JoinKind::Left if !in_right => join.left = self.push(join.left, condition),
            JoinKind::Semi | JoinKind::Anti => join.left = self.push(join.left, condition),
            _ => return Rel::Join(Box::new(join)).filter(Some(condition)),
        }
        Rel::Join(Box::new(join))
    }
}

/// Does a condition on the column go down to a table that has it, where an index may serve it?
fn reaches_table(rel: &Rel, column: ColId) -> bool {
    match rel {
        Rel::Table(_) => true,
        Rel::Filter { input, .. } | Rel::Sort { input, .. } | Rel::Distinct { input, .. } => {
            reaches_table(input, column)
        }
        Rel::Compute { input, items } => match items.iter().find(|(id, _)| *id == column) {
            Some((_, made)) => made.as_column().is_some_and(|c| reaches_table(input, c)),
            None => reaches_table(input, column),
        },
        Rel::Join(join) => {
            let sides = match join.kind {
                JoinKind::Inner => [Some(&join.left), Some(&join.right)],
                JoinKind::Left | JoinKind::Semi | JoinKind::Anti => [Some(&join.left), None],
                JoinKind::Full => [None, None],
            };
            let mut sides = sides.into_iter().flatten();
            sides.any(|side| side.produced().contains(&column) && reaches_table(side, column))
        }
        Rel::Aggregate(g) => {
            g.sets.is_none() && g.keys.contains(&column) && reaches_table(&g.input, column)
        }
        Rel::Set(set) => {
            let at = set.columns.iter().position(|c| *c == column);
            let mut branches = set.branches.iter();
            set.op != SetOp::Except
                && branches.any(|(branch, ids)| {
                    let own = at.and_then(|at| ids.get(at));
                    own.is_some_and(|c| reaches_table(branch, *c))
                })
        }
        _ => false,
    }
}

/// Is it an equality between two sides, by which rows of one find those of the other?
fn ties(condition: &Scalar, left: &ColSet, right: &ColSet) -> bool {
    !super::joins::equalities(std::slice::from_ref(condition), left, right).is_empty()
}

/// EXISTS or ANY whose answer is the same for all rows that have these columns.
fn looks_at_none_of(sub: &Subquery, columns: &ColSet) -> bool {
    let is_fixed = match &sub.kind {
        SubqueryKind::Scalar(_) => false,
        SubqueryKind::Exists => true,
        SubqueryKind::Any { expr, .. } => {
            expr.column_set().is_disjoint(columns) && !expr.is_volatile()
        }
    };
    is_fixed && sub.rel.outer_columns().is_disjoint(columns)
}

/// Would the condition become large because computed columns stand more than once in it?
fn repeats_much(condition: &Scalar, items: &[(ColId, Scalar)]) -> bool {
    let is_leaf =
        |s: &Scalar| matches!(s.kind, Kind::Column(_) | Kind::Const(_) | Kind::Variable(_));
    let mut met = ColSet::new();
    let mut repeats = false;
    condition.for_each_column(&mut |id| {
        let computed = items.iter().any(|(i, s)| *i == id && !is_leaf(s));
        repeats |= computed && !met.insert(id);
    });
    repeats && put_together(condition, items, REPEATING_NODES_MAX) >= REPEATING_NODES_MAX
}

/// Nodes of `scalar` with the items in the place of their columns, as far as `enough`.
fn put_together(scalar: &Scalar, items: &[(ColId, Scalar)], enough: usize) -> usize {
    let mut nodes = scalar.size(enough);
    scalar.for_each_column(&mut |id| {
        if nodes < enough
            && let Some((_, item)) = items.iter().find(|(i, _)| *i == id)
        {
            nodes += item.size(enough - nodes) - 1;
        }
    });
    nodes
}

fn collect_children<'s>(scalar: &'s mut Scalar, out: &mut Vec<&'s mut Scalar>) {
    match &mut scalar.kind {
        Kind::Convert { input, .. } => out.push(input),
        Kind::Arith { left, right, .. } | Kind::Compare { left, right, .. } => {
            out.extend([&mut **left, &mut **right])
        }
        Kind::Concat(a, b) | Kind::IsDistinct(a, b) => out.extend([&mut **a, &mut **b]),
        Kind::Negate(a) | Kind::BitNot(a) | Kind::Collate(a) | Kind::Not(a) | Kind::IsNull(a) => {
            out.push(a)
        }
        Kind::Call { args, .. } => out.extend(args.iter_mut()),
        _ => {}
    }
}

/// A condition that is true: 1 = 1, since there is no literal for it.
pub fn always() -> Scalar {
    let one = || Box::new(Scalar::constant(Value::Int(1), DataType::Int));
    Scalar::condition(Kind::Compare {
        op: CompareOp::Equal,
        left: one(),
        right: one(),
    })
}

/// Splits at ANDs; NOT moves inwards where that is the same.
fn split(condition: Scalar, out: &mut Vec<Scalar>) {
    match condition.kind {
        Kind::And(parts) => parts.into_iter().for_each(|p| split(p, out)),
        Kind::Not(inner) => match inner.kind {
            Kind::Or(parts) => parts.into_iter().for_each(|p| split(p.negate(), out)),
            Kind::Compare { op, left, right } => {
                let op = match op {
                    CompareOp::Equal => CompareOp::NotEqual,
                    CompareOp::NotEqual => CompareOp::Equal,
                    CompareOp::Less => CompareOp::GreaterOrEqual,
                    CompareOp::LessOrEqual | CompareOp::NotGreater => CompareOp::Greater,
                    CompareOp::Greater => CompareOp::LessOrEqual,
                    CompareOp::GreaterOrEqual | CompareOp::NotLess => CompareOp::Less,
                };
                out.push(Scalar::condition(Kind::Compare { op, left, right }));
            }
            kind => out.push(Scalar::condition(Kind::Not(Box::new(Scalar {
                kind,
                ty: inner.ty,
            })))),
        },
        _ => out.push(condition),
    }
}

/// Takes conditions on outer columns out of `rel`, where the columns they also need are still produced above.
fn pull(rel: Rel, outer: &ColSet, out: &mut Vec<Scalar>) -> Rel {
    match rel {
        Rel::Filter { input, condition } => {
            let input = pull(*input, outer, out);
            let mut parts = Vec::new();
            split(condition, &mut parts);
            let (taken, kept): (Vec<_>, Vec<_>) = parts
                .into_iter()
                .partition(|c| !c.column_set().is_disjoint(outer));
            out.extend(taken);
            input.filter(Scalar::all(kept))
        }
        Rel::Compute { input, items } => Rel::Compute {
            input: Box::new(pull(*input, outer, out)),
            items,
        },
        Rel::Sort { input, keys } => Rel::Sort {
            input: Box::new(pull(*input, outer, out)),
            keys,
        },
        Rel::Join(mut join) => {
            if join.kind != JoinKind::Full {
                join.left = pull(join.left, outer, out);
            }
            if join.kind == JoinKind::Inner {
                join.right = pull(join.right, outer, out);
                let (taken, kept): (Vec<_>, Vec<_>) = join
                    .on
                    .into_iter()
                    .partition(|c| !c.column_set().is_disjoint(outer));
                out.extend(taken);
                join.on = kept;
            }
            Rel::Join(join)
        }
        other => other,
    }
}

/// Is the condition never true when all `columns` are NULL?
fn rejects_null(condition: &Scalar, columns: &ColSet) -> bool {
    match &condition.kind {
        Kind::Compare { left, right, .. } => strict(left, columns) || strict(right, columns),
        Kind::Like { expr, .. } | Kind::InList { expr, .. } => strict(expr, columns),
        Kind::Not(inner) => match &inner.kind {
            Kind::IsNull(expr) => strict(expr, columns),
            Kind::Like { .. } | Kind::InList { .. } | Kind::Compare { .. } => {
                rejects_null(inner, columns)
            }
            _ => false,
        },
        Kind::And(parts) => parts.iter().any(|p| rejects_null(p, columns)),
        Kind::Or(parts) => parts.iter().all(|p| rejects_null(p, columns)),
        _ => false,
    }
}

/// Is the expression NULL when all `columns` are?
fn strict(scalar: &Scalar, columns: &ColSet) -> bool {
    match &scalar.kind {
        Kind::Column(id) => columns.contains(id),
        Kind::Convert { input, .. } => strict(input, columns),
        Kind::Arith { left, right, .. } => strict(left, columns) || strict(right, columns),
        Kind::Negate(a) | Kind::BitNot(a) | Kind::Collate(a) => strict(a, columns),
        _ => false,
    }
}
