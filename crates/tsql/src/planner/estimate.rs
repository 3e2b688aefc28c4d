//! Rows: how many a table has, how many of them a condition leaves.
//!
//! Theory: what statistics know of a column counts, and they are asked for only when a condition, a join or a grouping
//! looks at the column. Without them, and for values known only when the plan runs, there are fixed guesses. Conditions
//! on different columns are taken as independent; two bounds of one column are taken together.

use super::Planner;
use super::compile::fold;
use crate::access::TableAccess;
use crate::binder::tree::*;
use crate::statistics::{self, Facts};
use daruma_syntax::ast::CompareOp;
use daruma_value::Value;
use daruma_value::collation::LikePattern;
use std::cell::OnceCell;
use std::rc::Rc;

/// Rows assumed of system views and other unknown sources.
pub const VIRTUAL_ROWS: f64 = 100.0;
const OTHER: f64 = 0.33;
const RANGE: f64 = 0.3;
const NULL: f64 = 0.05;
const LIKE: f64 = 0.1;
/// A table counts as at least this long: a plan made while it was empty is kept while it fills.
const TABLE_ROWS_MIN: f64 = 100.0;

/// A column of a table that the query reads.
pub(super) struct BaseColumn {
    access: TableAccess,
    ordinal: usize,
    rows: f64,
    /// Each row has another value.
    unique: bool,
    /// Distinct values without statistics.
    guess: f64,
    facts: OnceCell<Option<Rc<Facts>>>,
}

/// Which side of a column a comparison bounds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Low,
    High,
}

impl Planner<'_> {
    /// Rows of a table; its columns are known from now on.
    pub(super) fn table_rows(&mut self, scan: &TableScan) -> f64 {
        let access = &scan.access;
        let tree = access.tree(access.primary()).ok();
        let count = tree.as_ref().map_or(0, |tree| tree.approximate_count());
        let rows = (count as f64).max(TABLE_ROWS_MIN);
        let first = scan.columns.first();
        if first.is_some_and(|c| self.base.contains_key(c)) {
            return rows;
        }
        self.inputs
            .extend(tree.map(|tree| super::growth::Input::new(tree, count)));
        for (ordinal, id) in scan.columns.iter().enumerate() {
            let mut guess = (rows.powf(0.7)).max(rows.min(10.0));
            let mut unique = false;
            if access
                .def()
                .columns
                .get(ordinal)
                .is_some_and(|c| c.data_type == daruma_value::DataType::Bit)
            {
                guess = 2.0;
            }
            for index in &access.layouts.indexes {
                let leads = index.key.first().is_some_and(|k| k.ordinal == ordinal);
                if leads && index.def.unique && index.key.len() == 1 && index.def.filter.is_none() {
                    (guess, unique) = (rows, true);
                } else if leads && index.is_primary() && index.def.unique {
                    // First column of a compound key: an order number in order lines.
                    guess = guess.max(rows / 4.0);
                }
            }
            let column = BaseColumn {
                access: access.clone(),
                ordinal,
                rows,
                unique,
                guess: guess.max(1.0),
                facts: OnceCell::new(),
            };
            self.base.insert(*id, column);
        }
        rows
    }

    fn facts(&self, column: &BaseColumn) -> Option<Rc<Facts>> {
        let find = || statistics::facts(self.host, &column.access, column.ordinal).map(Rc::new);
        column.facts.get_or_init(find).clone()
    }

    /// Distinct values of a table's column.
    pub(super) fn distinct_values(&self, id: ColId) -> Option<f64> {
        let column = self.base.get(&id)?;
        if column.unique {
            return Some(column.rows);
        }
        Some(match self.facts(column) {
            Some(facts) => facts.distinct(),
            None => column.guess,
        })
    }

    fn distinct_of(&self, scalar: &Scalar) -> Option<f64> {
        self.distinct_values(base_column(scalar)?)
    }

    fn facts_of(&self, scalar: &Scalar) -> Option<Rc<Facts>> {
        self.facts(self.base.get(&base_column(scalar)?)?)
    }

    /// Part of the rows that all conditions accept.
    pub(super) fn together<'s>(&self, conditions: impl IntoIterator<Item = &'s Scalar>) -> f64 {
        let mut bounds: Vec<(ColId, Side, f64)> = Vec::new();
        let mut part = 1.0;
        for condition in conditions {
            match self.bound(condition) {
                Some(bound) => bounds.push(bound),
                None => part *= self.selectivity(condition),
            }
        }
        while let Some((id, side, one)) = bounds.pop() {
            let other = bounds.iter().position(|(i, s, _)| *i == id && *s != side);
            part *= match other.map(|at| bounds.swap_remove(at)) {
                // The share that both leave of the rows that have a value at all.
                Some((_, _, other)) => (one + other - self.present(id)).max(1e-6),
                None => one,
            };
        }
        part
    }

    /// Part of the rows where the column is not NULL.
    fn present(&self, id: ColId) -> f64 {
        let facts = self.base.get(&id).and_then(|c| self.facts(c));
        facts.map_or(1.0, |f| 1.0 - f.nulls())
    }

    /// A comparison of a column with a value that a histogram can place.
    fn bound(&self, condition: &Scalar) -> Option<(ColId, Side, f64)> {
        let Kind::Compare { op, left, right } = &condition.kind else {
            return None;
        };
        let (op, column, value) = match (base_column(left), base_column(right)) {
            (Some(_), None) => (*op, left, right),
            (None, Some(_)) => (crate::binder::mirrored(*op), right, left),
            _ => return None,
        };
        let (side, inclusive) = match op {
            CompareOp::Less => (Side::High, false),
            CompareOp::LessOrEqual | CompareOp::NotGreater => (Side::High, true),
            CompareOp::Greater => (Side::Low, false),
            CompareOp::GreaterOrEqual | CompareOp::NotLess => (Side::Low, true),
            CompareOp::Equal | CompareOp::NotEqual => return None,
        };
        let value = fold(value)?;
        let facts = self.facts_of(column)?;
        let part = match side {
            Side::High => facts.below(&value, inclusive),
            Side::Low => facts.above(&value, inclusive),
        };
        Some((base_column(column)?, side, part?))
    }

    /// Equal to a value, known or not.
    fn equal(&self, column: &Scalar, value: &Scalar) -> Option<f64> {
        let id = base_column(column)?;
        if self.base.get(&id)?.unique {
            return self.distinct_values(id).map(|d| 1.0 / d.max(1.0));
        }
        let facts = self.facts_of(column)?;
        Some(match fold(value) {
            Some(value) => facts.equal(&value),
            None => facts.equal_unknown(),
        })
    }

    /// Part of the rows that a condition accepts.
    pub(super) fn selectivity(&self, condition: &Scalar) -> f64 {
        match &condition.kind {
            Kind::Compare {
                op: CompareOp::Equal,
                left,
                right,
            } => self.equality(left, right),
            Kind::Compare {
                op: CompareOp::NotEqual,
                left,
                right,
            } => (1.0 - self.equality(left, right)).clamp(0.1, 1.0),
            Kind::Compare { .. } => self.bound(condition).map_or(RANGE, |(_, _, part)| part),
            Kind::And(parts) => self.together(parts),
            Kind::Or(parts) => parts
                .iter()
                .map(|p| self.selectivity(p))
                .sum::<f64>()
                .min(1.0),
            Kind::Not(inner) => (1.0 - self.selectivity(inner)).max(0.01),
            Kind::IsNull(inner) => self.facts_of(inner).map_or(NULL, |f| f.nulls()),
            Kind::Like { expr, pattern, .. } => self.like_part(expr, pattern).unwrap_or(LIKE),
            Kind::InList { expr, list } => list
                .iter()
                .map(|value| self.equality(expr, value))
                .sum::<f64>()
                .min(1.0),
            _ => OTHER,
        }
    }

    fn equality(&self, left: &Scalar, right: &Scalar) -> f64 {
        match (base_column(left), base_column(right)) {
            (Some(_), None) => self.equal(left, right),
            (None, Some(_)) => self.equal(right, left),
            _ => None,
        }
        .unwrap_or_else(|| {
            let distinct = match (self.distinct_of(left), self.distinct_of(right)) {
                (Some(a), Some(b)) => a.max(b),
                (Some(a), None) | (None, Some(a)) => a,
                _ => 10.0,
            };
            1.0 / distinct.max(1.0)
        })
    }

    /// A pattern with a beginning is a range.
    fn like_part(&self, column: &Scalar, pattern: &Scalar) -> Option<f64> {
        let facts = self.facts_of(column)?;
        let Value::Str(text) = fold(pattern)? else {
            return None;
        };
        let pattern = LikePattern::new(&text, None, column.ty.collation, false).ok()?;
        let prefix = pattern.literal_prefix();
        if prefix.is_empty() {
            return None;
        }
        let low = facts.below(&Value::str(&prefix), false)?;
        let high = facts.below(&Value::str(format!("{prefix}\u{FFFF}")), true)?;
        Some((high - low).max(1e-6))
    }
}

/// The table's column that an expression is, but for its type.
fn base_column(scalar: &Scalar) -> Option<ColId> {
    match &scalar.kind {
        Kind::Column(id) => Some(*id),
        Kind::Convert { input, .. } | Kind::Collate(input) => base_column(input),
        _ => None,
    }
}
