//! Where NEXT VALUE FOR may stand: only where it is clear how many values are taken, as in the product.
//!
//! Theory: each part of a statement in which it may not stand says by which error, the innermost one decides.

use super::Binder;
use super::tree::{Kind, Scalar, Type};
use crate::error::Result;
use crate::messages;
use daruma_syntax::ast::ObjectName;
use std::sync::Arc;

/// Nested queries, views and what tables are defined by.
pub(crate) const NESTED: i32 = 11719;
pub(super) const CLAUSE: i32 = 11720;
pub(super) const SET_OPERATOR: i32 = 11721;
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

    pub(super) fn next_value(&mut self, sequence: &ObjectName) -> Result<Scalar> {
        if let Some(number) = self.next_value_error {
            return Err(messages::error(number, &[]));
        }
        let data_type = self.host.sequence_type(sequence)?;
        let kind = Kind::NextValue(Arc::new(sequence.clone()));
        Ok(Scalar::new(kind, Type::new(data_type, false)))
    }
}
