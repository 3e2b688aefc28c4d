//! Guesses of rows: how many a table has, how many of them a condition leaves.

use super::Planner;
use crate::binder::tree::*;
use daruma_syntax::ast::CompareOp;

/// Rows assumed of system views and other unknown sources.
pub const VIRTUAL_ROWS: f64 = 100.0;
const OTHER: f64 = 0.33;
/// A table counts as at least this long: a plan made while it was empty is kept while it fills.
const TABLE_ROWS_MIN: f64 = 100.0;

impl Planner<'_> {
    /// Rows of a table, and the distinct values of its columns.
    pub(super) fn table_rows(&mut self, scan: &TableScan) -> f64 {
        let access = &scan.access;
        let rows = match access.tree(access.primary()) {
            Ok(tree) => (tree.approximate_count() as f64).max(TABLE_ROWS_MIN),
            Err(_) => TABLE_ROWS_MIN,
        };
        if scan
            .columns
            .first()
            .is_some_and(|c| self.distinct.contains_key(c))
        {
            return rows;
        }
        for (ordinal, id) in scan.columns.iter().enumerate() {
            let mut distinct = (rows.powf(0.7)).max(rows.min(10.0));
            if access
                .def()
                .columns
                .get(ordinal)
                .is_some_and(|c| c.data_type == daruma_value::DataType::Bit)
            {
                distinct = 2.0;
            }
            for index in &access.layouts.indexes {
                let leads = index.key.first().is_some_and(|k| k.ordinal == ordinal);
                if leads && index.def.unique && index.key.len() == 1 {
                    distinct = rows;
                } else if leads && index.is_primary() && index.def.unique {
                    // First column of a compound key: an order number in order lines.
                    distinct = distinct.max(rows / 4.0);
                }
            }
            self.distinct.insert(*id, distinct.max(1.0));
        }
        rows
    }

    pub(super) fn distinct_of(&self, scalar: &Scalar) -> Option<f64> {
        match &scalar.kind {
            Kind::Column(id) => self.distinct.get(id).copied(),
            Kind::Convert { input, .. } | Kind::Collate(input) => self.distinct_of(input),
            _ => None,
        }
    }

    /// Part of the rows that a condition accepts.
    pub(super) fn selectivity(&self, condition: &Scalar) -> f64 {
        match &condition.kind {
            Kind::Compare {
                op: CompareOp::Equal,
                left,
                right,
            } => {
                let distinct = match (self.distinct_of(left), self.distinct_of(right)) {
                    (Some(a), Some(b)) => a.max(b),
                    (Some(a), None) | (None, Some(a)) => a,
                    _ => 10.0,
                };
                1.0 / distinct.max(1.0)
            }
            Kind::Compare {
                op: CompareOp::NotEqual,
                ..
            } => 0.9,
            Kind::Compare { .. } => 0.3,
            Kind::And(parts) => parts.iter().map(|p| self.selectivity(p)).product(),
            Kind::Or(parts) => parts
                .iter()
                .map(|p| self.selectivity(p))
                .sum::<f64>()
                .min(1.0),
            Kind::Not(inner) => (1.0 - self.selectivity(inner)).max(0.05),
            Kind::IsNull(_) => 0.05,
            Kind::Like { .. } => 0.1,
            Kind::InList { expr, list } => {
                (list.len() as f64 / self.distinct_of(expr).unwrap_or(10.0)).min(1.0)
            }
            _ => OTHER,
        }
    }
}
