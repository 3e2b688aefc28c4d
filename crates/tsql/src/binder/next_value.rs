//! Where NEXT VALUE FOR may stand: only where it is clear how many values are taken, as in the product.
//!
//! Theory: each part of a statement in which it may not stand says by which error, the innermost one decides. All references to one
//! sequence give one value for each row: a sequence that a list names several times becomes a column below it.

use super::Binder;
use super::tree::{Kind, Rel, Scalar, Type};
use crate::error::Result;
use crate::host::TypeKey;
use crate::messages;
use daruma_syntax::ast::ObjectName;
use std::sync::Arc;

/// Nested queries, views and what tables are defined by.
pub(crate) const NESTED: i32 = 11719;
pub(crate) const CLAUSE: i32 = 11720;
pub(super) const SET_OPERATOR: i32 = 11721;
const ORDERED: i32 = 11723;
pub(super) const TABLE_FUNCTION: i32 = 11724;
pub(super) const AGGREGATE: i32 = 11725;
/// Statements that may leave out rows for which values were taken.
pub(crate) const LIMITED: i32 = 11739;
/// The same of a DEFAULT.
pub(crate) const LIMITED_DEFAULT: i32 = 11740;
/// Conditions of a MERGE, and what it writes.
pub(crate) const MERGE_CONDITION: i32 = 11722;
pub(crate) const MERGE_VALUE: i32 = 11742;
pub(super) const CONDITIONAL: i32 = 11741;

impl Binder<'_> {
    /// Binds a part of the statement in which NEXT VALUE FOR is the error `number`.
    pub(super) fn without_next_value<T>(
        &mut self,
        number: i32,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let outer = self.next_value_error.replace(number);
        let bound = bind(self);
        self.next_value_error = outer;
        bound
    }

    /// Binds what a query makes of its rows: how many it makes is not clear where it leaves some out, nor which comes first
    /// where it sorts them afterwards.
    pub(super) fn of_rows<T>(
        &mut self,
        is_limited: bool,
        is_ordered: bool,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let own = match (is_limited, is_ordered) {
            (true, _) => Some(LIMITED),
            (_, true) => Some(ORDERED),
            _ => None,
        };
        match self.next_value_error.or(own) {
            Some(number) => self.without_next_value(number, bind),
            None => bind(self),
        }
    }

    pub(super) fn next_value(&mut self, sequence: &ObjectName) -> Result<Scalar> {
        if let Some(number) = self.next_value_error {
            return Err(messages::error(number, &[]));
        }
        if self.host.settings().rowcount > 0 && !self.in_default {
            return Err(messages::error(LIMITED, &[]));
        }
        let (_, data_type) = self.host.sequence(sequence)?;
        let kind = Kind::NextValue(Arc::new(sequence.clone()));
        Ok(Scalar::new(kind, Type::new(data_type, false)))
    }

    /// Has sequences that these expressions over the rows of `rel` name several times asked once for each row.
    pub(super) fn share_next_values(
        &mut self,
        rel: Rel,
        scalars: &mut [&mut Scalar],
    ) -> Result<Rel> {
        let mut names = Vec::new();
        scalars.iter().for_each(|s| add_sequences(s, &mut names));
        if names.len() < 2 {
            return Ok(rel);
        }
        let mut known: Vec<(TypeKey, Vec<Arc<ObjectName>>)> = Vec::new();
        for name in names {
            let (key, _) = self.host.sequence(&name)?;
            match known.iter_mut().find(|(k, _)| *k == key) {
                Some((_, same)) => same.push(name),
                None => known.push((key, vec![name])),
            }
        }
        let mut shared = Vec::new();
        for (_, same) in known.iter().filter(|(_, same)| same.len() > 1) {
            let Some(name) = same.first() else { continue };
            let scalar = self.next_value(name)?;
            let id = self.new_computed("", &scalar)?;
            let column = self.column(id);
            for scalar in scalars.iter_mut() {
                replace_sequence(scalar, same, &column);
            }
            shared.push((id, scalar));
        }
        Ok(rel.compute(shared))
    }
}

fn add_sequences(scalar: &Scalar, names: &mut Vec<Arc<ObjectName>>) {
    if let Kind::NextValue(name) = &scalar.kind {
        names.push(name.clone());
    }
    scalar.for_each_child(&mut |child| add_sequences(child, names));
}

fn replace_sequence(scalar: &mut Scalar, names: &[Arc<ObjectName>], column: &Scalar) {
    match &scalar.kind {
        Kind::NextValue(name) if names.contains(name) => *scalar = column.clone(),
        _ => scalar.for_each_child_mut(&mut |child| replace_sequence(child, names, column)),
    }
}
