//! Whether a computed column may be NULL, by the form of its expression.
//!
//! Theory: what calculates or converts may give NULL when it overflows under some settings, whatever it is made of. Columns,
//! literals, ISNULL and CASE of such are as they say. COALESCE counts as nullable, as in the product; `ISNULL (.., 0)` around an
//! expression is how people tell that it never is.

use daruma_catalog::{TableDef, names_equal};
use daruma_syntax::ast::{Expr, Literal, UnaryOp};

/// May the expression over the table's columns be NULL?
pub(super) fn may_be_null(expr: &Expr, table: &TableDef) -> bool {
    match expr {
        Expr::Column(column) => {
            let mut columns = table.columns.iter();
            let found = columns.find(|c| names_equal(&c.name, &column.name.text));
            found.is_none_or(|c| c.nullable)
        }
        Expr::Literal(literal) => matches!(literal, Literal::Null),
        Expr::Unary { op, expr } => {
            !matches!(op, UnaryOp::Plus | UnaryOp::Minus)
                || !matches!(**expr, Expr::Literal(_))
                || may_be_null(expr, table)
        }
        Expr::Collate { expr, .. } => may_be_null(expr, table),
        Expr::Function(call) if call.name.is_bare() && call.name.name.is("ISNULL") => {
            call.args.iter().all(|arg| may_be_null(arg, table))
        }
        Expr::Case(case) => {
            let otherwise = case.otherwise.as_ref();
            otherwise.is_none_or(|expr| may_be_null(expr, table))
                || case.whens.iter().any(|when| may_be_null(&when.then, table))
        }
        // Every whole number is a bit: nothing overflows.
        Expr::Cast {
            expr,
            to,
            is_try: false,
            ..
        } if to.schema.is_none() && to.name.is("bit") => {
            !is_whole(expr, table) || may_be_null(expr, table)
        }
        Expr::Iif {
            then, otherwise, ..
        } => may_be_null(then, table) || may_be_null(otherwise, table),
        _ => true,
    }
}

/// Is the expression a whole number for certain?
fn is_whole(expr: &Expr, table: &TableDef) -> bool {
    match expr {
        Expr::Literal(literal) => matches!(literal, Literal::Integer(_)),
        Expr::Column(column) => {
            let mut columns = table.columns.iter();
            let found = columns.find(|c| names_equal(&c.name, &column.name.text));
            found.is_some_and(|c| c.data_type.is_integer())
        }
        Expr::Case(case) => {
            let otherwise = case.otherwise.as_ref();
            otherwise.is_none_or(|expr| is_whole(expr, table))
                && case.whens.iter().all(|when| is_whole(&when.then, table))
        }
        Expr::Iif {
            then, otherwise, ..
        } => is_whole(then, table) && is_whole(otherwise, table),
        _ => false,
    }
}
