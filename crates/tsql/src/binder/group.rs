//! GROUP BY: grouping sets, aggregates, and the rule that nothing else of a row survives.
//!
//! Theory: grouping expressions become columns computed below the aggregation. An expression above it is rewritten from
//! the top down: a part equal to a grouping expression becomes its column, an aggregate becomes a column of the
//! aggregation, and any other column of FROM is error 8120.

use super::tree::*;
use super::{Binder, scalar};
use crate::error::{Result, SqlError};
use daruma_syntax::ast::{CompareOp, GroupBy, GroupByWith, GroupingElement};
use daruma_value::{DataType, Value};

/// More grouping sets than this are error 10703.
const SETS_MAX: usize = 4096;
/// CUBE over more columns than this exceeds `SETS_MAX`.
const CUBE_MAX: usize = 12;

pub(super) struct GroupState {
    /// Columns of FROM.
    base: ColSet,
    /// Grouping expressions and the columns they became.
    keys: Vec<(Scalar, ColId)>,
    sets: Option<(Vec<Vec<bool>>, ColId)>,
    computed: Vec<(ColId, Scalar)>,
    aggregates: Vec<(ColId, Aggregate)>,
    scalar: bool,
}

impl GroupState {
    pub(super) fn new(
        binder: &mut Binder<'_>,
        base: ColSet,
        group_by: Option<&GroupBy>,
    ) -> Result<GroupState> {
        let mut state = GroupState {
            base,
            keys: Vec::new(),
            sets: None,
            computed: Vec::new(),
            aggregates: Vec::new(),
            scalar: group_by.is_none(),
        };
        if let Some(group_by) = group_by {
            state.add_group_by(binder, group_by)?;
        }
        Ok(state)
    }

    /// Aggregates that are columns already.
    pub(super) fn add_aggregates(&mut self, aggregates: Vec<(ColId, Aggregate)>) {
        self.aggregates.extend(aggregates);
    }

    fn add_group_by(&mut self, binder: &mut Binder<'_>, group_by: &GroupBy) -> Result<()> {
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        for item in &group_by.items {
            let choices = self.element(binder, item)?;
            sets = cross(&sets, &choices)?;
        }
        let all: Vec<usize> = (0..self.keys.len()).collect();
        match group_by.with {
            Some(GroupByWith::Rollup) => {
                sets = rollup(&all.iter().map(|k| vec![*k]).collect::<Vec<_>>())
            }
            Some(GroupByWith::Cube) => {
                sets = cube(&all.iter().map(|k| vec![*k]).collect::<Vec<_>>())?
            }
            None => {}
        }
        if let [only] = sets.as_slice()
            && only.len() == self.keys.len()
        {
            self.scalar = self.keys.is_empty();
            return Ok(());
        }
        let member = |set: &Vec<usize>| (0..self.keys.len()).map(|k| set.contains(&k)).collect();
        let sets = sets.iter().map(member).collect();
        let number = binder.new_computed("", &Scalar::constant(Value::Int(0), DataType::Int))?;
        for (_, id) in &self.keys {
            binder.columns[*id as usize].ty.nullable = true;
        }
        self.sets = Some((sets, number));
        Ok(())
    }

    /// Grouping sets that one element stands for, as lists of key numbers.
    fn element(
        &mut self,
        binder: &mut Binder<'_>,
        element: &GroupingElement,
    ) -> Result<Vec<Vec<usize>>> {
        Ok(match element {
            GroupingElement::Expr(expr) => vec![vec![self.key(binder, expr)?]],
            GroupingElement::Composite(list) => {
                vec![
                    list.iter()
                        .map(|e| self.key(binder, e))
                        .collect::<Result<_>>()?,
                ]
            }
            GroupingElement::Rollup(list) => rollup(&self.parts(binder, list)?),
            GroupingElement::Cube(list) => cube(&self.parts(binder, list)?)?,
            GroupingElement::Sets(list) => {
                let mut sets = Vec::new();
                for element in list {
                    sets.extend(self.element(binder, element)?);
                }
                sets
            }
        })
    }

    fn parts(
        &mut self,
        binder: &mut Binder<'_>,
        list: &[GroupingElement],
    ) -> Result<Vec<Vec<usize>>> {
        let mut parts = Vec::with_capacity(list.len());
        for element in list {
            parts.push(
                self.element(binder, element)?
                    .into_iter()
                    .flatten()
                    .collect(),
            );
        }
        Ok(parts)
    }

    fn key(&mut self, binder: &mut Binder<'_>, expr: &daruma_syntax::ast::Expr) -> Result<usize> {
        let scalar = binder.expr(expr)?;
        if scalar.any(&|s| {
            matches!(
                s.kind,
                Kind::Aggregate(_) | Kind::Subquery(_) | Kind::Window(_)
            )
        }) {
            return Err(SqlError::new(
                144,
                15,
                1,
                "Cannot use an aggregate or a subquery in an expression used for the group by list of a GROUP BY clause.",
            ));
        }
        if scalar.column_set().is_disjoint(&self.base) {
            return Err(SqlError::new(
                164,
                15,
                1,
                "Each GROUP BY expression must contain at least one column that is not an outer reference.",
            ));
        }
        if !daruma_value::types::is_comparable(scalar.ty.data_type) {
            return Err(SqlError::new(
                306,
                16,
                2,
                "The text, ntext, and image data types cannot be compared or sorted, except when using IS NULL or LIKE operator.",
            ));
        }
        if let Some(known) = self.keys.iter().position(|(k, _)| k.is_same(&scalar)) {
            return Ok(known);
        }
        let id = match scalar.as_column() {
            Some(id) => id,
            None => {
                let id = binder.new_computed("", &scalar)?;
                self.computed.push((id, scalar.clone()));
                id
            }
        };
        self.keys.push((scalar, id));
        Ok(self.keys.len() - 1)
    }

    /// Turns an expression over FROM into one over the groups.
    pub(super) fn rewrite(
        &mut self,
        binder: &mut Binder<'_>,
        scalar: &mut Scalar,
        place: &str,
        number: i32,
    ) -> Result<()> {
        if let Some((_, id)) = self.keys.iter().find(|(k, _)| k.is_same(scalar)) {
            scalar.kind = Kind::Column(*id);
            scalar.ty.nullable |= self.sets.is_some();
            return Ok(());
        }
        match &mut scalar.kind {
            Kind::Column(id) if self.base.contains(id) => {
                Err(ungrouped(binder, *id, place, number))
            }
            Kind::Aggregate(aggregate) => {
                let aggregate = (**aggregate).clone();
                let id = match self
                    .aggregates
                    .iter()
                    .find(|(_, known)| *known == aggregate)
                {
                    Some((id, _)) => *id,
                    None => {
                        let id = binder.new_computed("", scalar)?;
                        self.aggregates.push((id, aggregate));
                        id
                    }
                };
                scalar.kind = Kind::Column(id);
                Ok(())
            }
            Kind::Grouping(args) => {
                let args = std::mem::take(args);
                *scalar = self.grouping(&args)?;
                Ok(())
            }
            _ => {
                let (mut done, mut loosened) = (Ok(()), false);
                scalar.for_each_child_mut(&mut |child| {
                    let before = child.ty.nullable;
                    if done.is_ok() {
                        done = self.rewrite(binder, child, place, number);
                    }
                    loosened |= child.ty.nullable && !before;
                });
                done?;
                if loosened {
                    scalar.ty.nullable |= passes_null_on(&scalar.kind);
                }
                if let Kind::Subquery(sub) = &mut scalar.kind {
                    scalar.ty.nullable |= self.put_keys_in(binder, sub);
                    let grouped = |id: &ColId| self.keys.iter().any(|(_, k)| k == id);
                    let lost = sub
                        .rel
                        .outer_columns()
                        .into_iter()
                        .find(|id| self.base.contains(id) && !grouped(id));
                    if let Some(id) = lost {
                        return Err(ungrouped(binder, id, place, number));
                    }
                }
                Ok(())
            }
        }
    }

    /// What a subquery takes from the groups may be a grouping expression, too. May it be NULL now, in the rows of a smaller grouping
    /// set, where the subquery was bound to something that never is?
    fn put_keys_in(&self, binder: &mut Binder<'_>, sub: &mut Subquery) -> bool {
        let is_put = self.put_keys_below(sub);
        if !is_put || self.sets.is_none() {
            return false;
        }
        loosen_rel(binder, &mut sub.rel);
        if let SubqueryKind::Any { value, .. } = &mut sub.kind {
            loosen(binder, value);
        }
        true
    }

    fn put_keys_below(&self, sub: &mut Subquery) -> bool {
        let mut is_put = false;
        sub.rel
            .for_each_scalar_mut(&mut |s| is_put |= self.put_keys(s));
        if let SubqueryKind::Any { value, .. } = &mut sub.kind {
            is_put |= self.put_keys(value);
        }
        is_put
    }

    /// Was anything found?
    fn put_keys(&self, scalar: &mut Scalar) -> bool {
        let is_it = |(key, _): &&(Scalar, ColId)| key.is_same(scalar);
        if let Some((_, id)) = self.keys.iter().find(is_it) {
            // What is computed of a column, too, was bound as what is never NULL.
            scalar.kind = Kind::Column(*id);
            return true;
        }
        let mut is_put = false;
        scalar.for_each_child_mut(&mut |child| is_put |= self.put_keys(child));
        if let Kind::Subquery(sub) = &mut scalar.kind {
            is_put |= self.put_keys_below(sub);
        }
        is_put
    }

    /// GROUPING and GROUPING_ID: a bit for each argument, set where the row's grouping set leaves it out.
    fn grouping(&self, args: &[Scalar]) -> Result<Scalar> {
        let mut positions = Vec::with_capacity(args.len());
        for arg in args {
            match self.keys.iter().position(|(k, _)| k.is_same(arg)) {
                Some(position) => positions.push(position),
                None => {
                    return Err(SqlError::new(
                        8161,
                        16,
                        1,
                        "Argument 1 of the GROUPING function does not match any of the expressions in the GROUP BY clause.",
                    ));
                }
            }
        }
        let int = |n: i32| Scalar::constant(Value::Int(n), DataType::Int);
        let Some((sets, number)) = &self.sets else {
            return Ok(int(0));
        };
        let mut whens = Vec::with_capacity(sets.len());
        for (n, set) in sets.iter().enumerate() {
            let bits = positions.iter().fold(0, |bits, p| {
                (bits << 1) | i32::from(!set.get(*p).copied().unwrap_or(false))
            });
            let column = Scalar::column(*number, Type::new(DataType::Int, false));
            let kind = Kind::Compare {
                op: CompareOp::Equal,
                left: Box::new(column),
                right: Box::new(int(n as i32)),
            };
            whens.push((Scalar::condition(kind), int(bits)));
        }
        let kind = Kind::Case {
            whens,
            otherwise: Some(Box::new(int(0))),
        };
        Ok(Scalar::new(kind, Type::new(DataType::Int, false)))
    }

    pub(super) fn finish(self, input: Rel) -> Rel {
        Rel::Aggregate(Box::new(Grouping {
            input: input.compute(self.computed),
            keys: self.keys.into_iter().map(|(_, id)| id).collect(),
            aggregates: self.aggregates,
            sets: self.sets,
            scalar: self.scalar,
        }))
    }
}

/// Nothing that is made here or below is known not to be NULL any more.
fn loosen_rel(binder: &mut Binder<'_>, rel: &mut Rel) {
    if !matches!(rel, Rel::Table(_) | Rel::Virtual(_)) {
        for id in rel.produced() {
            if let Some(info) = binder.columns.get_mut(id as usize) {
                info.ty.nullable = true;
            }
        }
    }
    for input in rel.inputs_mut() {
        loosen_rel(binder, input);
    }
    rel.for_each_own_scalar_mut(&mut |s| loosen(binder, s));
}

fn loosen(binder: &mut Binder<'_>, scalar: &mut Scalar) {
    scalar.ty.nullable = true;
    scalar.for_each_child_mut(&mut |child| loosen(binder, child));
    if let Kind::Subquery(sub) = &mut scalar.kind {
        loosen_rel(binder, &mut sub.rel);
        if let SubqueryKind::Any { value, .. } = &mut sub.kind {
            loosen(binder, value);
        }
    }
}

/// May an operation give NULL because an operand, NULL until now for no row, is NULL in the rows of a smaller grouping set?
fn passes_null_on(kind: &Kind) -> bool {
    match kind {
        Kind::Call { name, .. } => !scalar::is_never_null(name),
        Kind::Coalesce(args) => args.iter().all(|a| a.ty.nullable),
        Kind::IsNullFn(check, replacement) => check.ty.nullable && replacement.ty.nullable,
        Kind::IsNull(_) | Kind::IsDistinct(..) => false,
        _ => true,
    }
}

fn ungrouped(binder: &Binder<'_>, id: ColId, place: &str, number: i32) -> SqlError {
    let name = &binder.columns[id as usize].qualified;
    // The product quotes the name differently in ORDER BY.
    let quote = if number == 8127 { '"' } else { '\'' };
    SqlError::new(
        number,
        16,
        1,
        format!(
            "Column {quote}{name}{quote} is invalid in the {place} because it is not contained in either an aggregate function \
             or the GROUP BY clause."
        ),
    )
}

fn cross(left: &[Vec<usize>], right: &[Vec<usize>]) -> Result<Vec<Vec<usize>>> {
    if left.len().saturating_mul(right.len()) > SETS_MAX {
        return Err(too_many());
    }
    let join = |a: &Vec<usize>, b: &Vec<usize>| a.iter().chain(b).copied().collect();
    Ok(left
        .iter()
        .flat_map(|a| right.iter().map(move |b| join(a, b)))
        .collect())
}

fn rollup(parts: &[Vec<usize>]) -> Vec<Vec<usize>> {
    (0..=parts.len())
        .rev()
        .map(|n| parts.iter().take(n).flatten().copied().collect())
        .collect()
}

fn cube(parts: &[Vec<usize>]) -> Result<Vec<Vec<usize>>> {
    if parts.len() > CUBE_MAX {
        return Err(too_many());
    }
    let all = 1usize << parts.len();
    let chosen = |mask: usize| {
        let taken = |(n, part): (usize, &Vec<usize>)| (mask >> n & 1 == 0).then(|| part.clone());
        parts
            .iter()
            .enumerate()
            .filter_map(taken)
            .flatten()
            .collect()
    };
    Ok((0..all).map(chosen).collect())
}

fn too_many() -> SqlError {
    SqlError::new(
        10703,
        15,
        1,
        "Too many grouping sets. The maximum number is 4096.",
    )
}
