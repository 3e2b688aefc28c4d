//! Comparison of columns: which rows remain.

use super::{Class, Numbers, Operand};

/// A comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Keeps those of `rows` where `left relation right` is true (not false, not unknown). False, with `rows` untouched, when
/// there is no kernel for these operands.
pub fn retain(
    relation: Relation,
    left: Operand<'_>,
    right: Operand<'_>,
    rows: &mut Vec<u32>,
) -> bool {
    let (Some((left_type, l, l_nulls)), Some((right_type, r, r_nulls))) =
        (left.numbers(), right.numbers())
    else {
        return false;
    };
    let class = Class::of(left_type);
    if class != Class::of(right_type) {
        return false;
    }
    if !l_nulls.is_empty() || !r_nulls.is_empty() {
        let null = |nulls: &[bool], row: u32| nulls.get(row as usize).copied().unwrap_or(false);
        rows.retain(|row| !null(l_nulls, *row) && !null(r_nulls, *row));
    }
    if class == Some(Class::Approximate) {
        keep(relation, rows, |row| Some((l.float(row)?, r.float(row)?)));
    } else {
        match (l, r) {
            (Numbers::Int(l), Numbers::OneInt(r)) => {
                keep(relation, rows, |row| Some((*l.get(row)?, r)))
            }
            (Numbers::Int(l), Numbers::Int(r)) => {
                keep(relation, rows, |row| Some((*l.get(row)?, *r.get(row)?)))
            }
            _ => keep(relation, rows, |row| Some((l.wide(row)?, r.wide(row)?))),
        }
    }
    true
}

/// One loop for each relation, so that none decides about it for every row.
fn keep<T: PartialOrd>(
    relation: Relation,
    rows: &mut Vec<u32>,
    pair: impl Fn(usize) -> Option<(T, T)>,
) {
    fn each<T>(
        rows: &mut Vec<u32>,
        pair: impl Fn(usize) -> Option<(T, T)>,
        holds: impl Fn(T, T) -> bool,
    ) {
        rows.retain(|row| pair(*row as usize).is_some_and(|(a, b)| holds(a, b)));
    }
    match relation {
        Relation::Equal => each(rows, pair, |a, b| a == b),
        Relation::NotEqual => each(rows, pair, |a, b| a != b),
        Relation::Less => each(rows, pair, |a, b| a < b),
        Relation::LessOrEqual => each(rows, pair, |a, b| a <= b),
        Relation::Greater => each(rows, pair, |a, b| a > b),
        Relation::GreaterOrEqual => each(rows, pair, |a, b| a >= b),
    }
}
