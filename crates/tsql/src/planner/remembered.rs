//! What the answers of a subquery are remembered by.
//!
//! Theory: a subquery runs again only where what it reads of the rows around it is another. That may be less than their columns: one that
//! compares with `p.i % 10` has ten answers, however many values `p.i` has. So the key of its memory is made of the largest parts
//! of its expressions that look at rows around it alone.
//!
//! Invariants
//! 1. Rows around it that give the same values for all parts get the same answer: every outer column that the subquery reads stands in a
//!    part, and outside of the parts in none that is not a part of its own.
//! 2. A part is evaluated once more than the subquery does, or where it does not at all: it has no effects, and where it fails the
//!    columns themselves are the key (`executor::subplan`).

use crate::binder::tree::*;
use crate::binder::with_stack;
use daruma_value::DataType;

/// More parts are compared no faster than the subquery runs.
const PARTS_MAX: usize = 8;
/// Nodes of all parts together.
const NODES_MAX: usize = 64;

/// How a subquery's answers are kept.
#[derive(Debug, PartialEq)]
pub(super) enum Memory<'s> {
    /// By the columns that it reads.
    Columns,
    /// By the values of these expressions over them.
    Parts(Vec<&'s Scalar>),
    /// Asked again it may answer otherwise.
    Volatile,
}

/// For a subquery that reads `outer` columns of the rows around it.
pub(super) fn memory_of<'s>(rel: &'s Rel, outer: &ColSet) -> Memory<'s> {
    let mut search = Search {
        outer,
        parts: Vec::new(),
        is_volatile: false,
    };
    search.rel(rel);
    if search.is_volatile {
        return Memory::Volatile;
    }
    search.memory()
}

/// What an expression looks at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Looks {
    Nowhere,
    Outside,
    Inside,
}

struct Search<'s, 'o> {
    outer: &'o ColSet,
    parts: Vec<&'s Scalar>,
    is_volatile: bool,
}

impl<'s> Search<'s, '_> {
    fn rel(&mut self, rel: &'s Rel) {
        with_stack(|| {
            for scalar in rel.own_scalars() {
                self.root(scalar);
            }
            rel.inputs().into_iter().for_each(|input| self.rel(input));
        });
    }

    fn root(&mut self, scalar: &'s Scalar) {
        if self.visit(scalar) == Looks::Outside {
            self.parts.push(scalar);
        }
    }

    /// Takes the largest parts out of a scalar that is none as a whole.
    fn visit(&mut self, scalar: &'s Scalar) -> Looks {
        with_stack(|| self.visit_here(scalar))
    }

    fn visit_here(&mut self, scalar: &'s Scalar) -> Looks {
        self.is_volatile |= scalar.is_volatile_itself();
        let mut looks = Looks::Nowhere;
        let mut outside = Vec::new();
        scalar.for_each_child(&mut |child| {
            let own = self.visit(child);
            if own == Looks::Outside {
                outside.push(child);
            }
            looks = looks.max(own);
        });
        match &scalar.kind {
            Kind::Column(id) if self.outer.contains(id) => looks = Looks::Outside,
            Kind::Column(_) => looks = Looks::Inside,
            Kind::Subquery(sub) => {
                self.rel(&sub.rel);
                if let SubqueryKind::Any { value, .. } = &sub.kind {
                    self.root(value);
                }
                looks = Looks::Inside;
            }
            _ if !is_part(scalar) => looks = Looks::Inside,
            _ => {}
        }
        if looks == Looks::Inside {
            self.parts.append(&mut outside);
        }
        looks
    }

    fn memory(mut self) -> Memory<'s> {
        let plain: ColSet = self.parts.iter().filter_map(|p| p.as_column()).collect();
        let mut kept: Vec<&Scalar> = Vec::new();
        for part in self.parts.drain(..) {
            // The columns tell it already.
            let is_told = part.as_column().is_none() && part.column_set().is_subset(&plain);
            if !is_told && !kept.contains(&part) {
                kept.push(part);
            }
            if kept.len() > PARTS_MAX {
                return Memory::Columns;
            }
        }
        let mut read = ColSet::new();
        kept.iter().for_each(|part| part.columns(&mut read));
        let nodes: usize = kept.iter().map(|part| part.size(NODES_MAX)).sum();
        let is_plain = kept.iter().all(|part| part.as_column().is_some());
        match is_plain || nodes > NODES_MAX || !self.outer.is_subset(&read) {
            true => Memory::Columns,
            false => Memory::Parts(kept),
        }
    }
}

/// May an expression be a part, if what is in it may? It depends on nothing but its columns, has no effects, and its value is short.
fn is_part(scalar: &Scalar) -> bool {
    let is_short = scalar
        .ty
        .data_type
        .declared_len()
        .is_none_or(|len| !len.is_max())
        && scalar.ty.data_type != DataType::Variant;
    let is_pure = !matches!(
        scalar.kind,
        Kind::System { .. }
            | Kind::UserFunction { .. }
            | Kind::XmlMethod { .. }
            | Kind::NextValue(_)
            | Kind::Let { .. }
            | Kind::Local
    );
    is_short && is_pure && !scalar.is_volatile_itself()
}
