//! Constructs that the recursive part of a common table expression may not hold: errors 253, 460 to 467.
//!
//! Each of these would make a step depend on more than the rows that the step before produced.

use super::cte::{mentions, source_mentions};
use super::tree::Rel;
use crate::error::{Result, SqlError};
use crate::messages;
use daruma_syntax::ast::{JoinKind, QueryBody, Select, SetOp, TableSource};

/// Checks a recursive member as written.
pub(super) fn check_step(name: &str, body: &QueryBody) -> Result<()> {
    match body {
        QueryBody::Select(select) => check_select(name, select),
        QueryBody::Set { op, branches } => {
            if *op == SetOp::Union && branches.iter().any(|b| mentions(b, name)) {
                return Err(refused(466, name));
            }
            branches.iter().try_for_each(|b| check_step(name, b))
        }
    }
}

fn check_select(name: &str, select: &Select) -> Result<()> {
    if !select.from.iter().any(|s| source_mentions(s, name)) {
        return Ok(());
    }
    if select
        .from
        .iter()
        .map(|s| references(s, name))
        .sum::<usize>()
        > 1
    {
        return Err(refused(253, name));
    }
    if select.distinct {
        return Err(refused(460, name));
    }
    if select.top.is_some() {
        return Err(refused(461, name));
    }
    if select.group_by.is_some() || select.having.is_some() {
        return Err(refused(467, name));
    }
    match select.from.iter().any(|s| has_outer_join(s, name)) {
        true => Err(refused(462, name)),
        false => Ok(()),
    }
}

/// Refuses aggregates, which make one row of all.
pub(super) fn check_bound(name: &str, rel: &Rel) -> Result<()> {
    match rel {
        Rel::Filter { input, .. } | Rel::Compute { input, .. } | Rel::Sort { input, .. } => {
            check_bound(name, input)
        }
        Rel::Aggregate(_) => Err(refused(467, name)),
        _ => Ok(()),
    }
}

fn refused(number: i32, name: &str) -> SqlError {
    messages::error(number, &[&name])
}

/// How often FROM names the expression.
fn references(source: &TableSource, name: &str) -> usize {
    match source {
        TableSource::Join(join) => references(&join.left, name) + references(&join.right, name),
        TableSource::Apply { left, right, .. } => references(left, name) + references(right, name),
        other => usize::from(source_mentions(other, name)),
    }
}

fn has_outer_join(source: &TableSource, name: &str) -> bool {
    match source {
        TableSource::Join(join) => {
            let outer = !matches!(join.kind, JoinKind::Inner | JoinKind::Cross);
            outer && source_mentions(source, name)
                || has_outer_join(&join.left, name)
                || has_outer_join(&join.right, name)
        }
        TableSource::Apply { left, right, .. } => {
            has_outer_join(left, name) || has_outer_join(right, name)
        }
        _ => false,
    }
}
