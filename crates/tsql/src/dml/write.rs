//! `SET column.WRITE (expression, @offset, @length)` and `SET column.modify('..')`, spelled out as assignments of the whole
//! value.
//!
//! Theory: the value room has a function that makes the new value of the old one; with it the clause is an assignment like any
//! other, for UPDATE, MERGE and INSTEAD OF triggers alike.

use super::errors;
use crate::binder::changed_column;
use crate::error::Result;
use daruma_syntax::ast::{
    AssignOp, Assignment, ColumnRef, Expr, FunctionCall, Ident, Literal, ObjectName, Span, Update,
};
use daruma_value::ValueError;
use daruma_value::functions::WRITE;
use daruma_xml::Method;
use std::borrow::Cow;

/// The statement with plain assignments in the place of `.WRITE` and `.modify`.
pub(super) fn spelled_out(update: &Update) -> Result<Cow<'_, Update>> {
    Ok(match spelled(&update.assignments)? {
        Cow::Borrowed(_) => Cow::Borrowed(update),
        Cow::Owned(assignments) => Cow::Owned(Update {
            assignments,
            ..update.clone()
        }),
    })
}

/// The same of a list of assignments. The methods of other types are error 207, as no column has such a type.
pub(super) fn spelled(list: &[Assignment]) -> Result<Cow<'_, [Assignment]>> {
    let is_method = |a: &Assignment| matches!(a, Assignment::Method { .. });
    if !list.iter().any(is_method) {
        return Ok(Cow::Borrowed(list));
    }
    let plain = |assignment: &Assignment| match assignment {
        Assignment::Method {
            column,
            method,
            args,
        } if method.is("WRITE") => Ok(Assignment::Column {
            column: column.clone(),
            op: AssignOp::Set,
            value: written(column, args)?,
        }),
        Assignment::Method {
            column,
            method,
            args,
        } if Method::named(&method.text).is_some() => Ok(Assignment::Column {
            column: column.clone(),
            op: AssignOp::Set,
            value: Expr::Method {
                target: Box::new(Expr::Column(changed_column(column, true))),
                method: method.clone(),
                args: args.clone(),
            },
        }),
        Assignment::Method { column, .. } => Err(errors::unknown_column(&column.name.text)),
        other => Ok(other.clone()),
    };
    list.iter()
        .map(plain)
        .collect::<Result<_>>()
        .map(Cow::Owned)
}

/// A call that the binder knows by the qualifier of its first argument, which nobody can write.
fn written(column: &ColumnRef, args: &[Expr]) -> Result<Expr> {
    let [put, offset, length] = args else {
        return Err(ValueError::new(174, 1, &[&"write", &3]).into());
    };
    let name = Literal::String {
        text: column.name.text.clone(),
        national: true,
    };
    Ok(Expr::Function(Box::new(FunctionCall {
        name: ObjectName::bare(Ident::new(WRITE)),
        args: vec![
            Expr::Column(changed_column(column, true)),
            put.clone(),
            offset.clone(),
            length.clone(),
            Expr::Literal(name),
        ],
        star: false,
        distinct: false,
        within_group: Vec::new(),
        nulls: None,
        over: None,
        odbc: false,
        system: false,
        span: Span::default(),
    })))
}
