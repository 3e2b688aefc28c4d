//! The operators between expressions, and how tightly they bind.

use crate::ast::{Comparison, Order};
use crate::atom::Arithmetic;
use crate::lexer::Scanner;
use crate::{Result, error};

#[derive(Clone, Copy)]
pub(super) enum Operator {
    Or,
    And,
    General(Comparison),
    Value(Comparison),
    Order(Order),
    Arithmetic(Arithmetic),
    InstanceOf,
    CastAs,
}

/// The operator that comes next, with its strength; it is taken.
pub(super) fn operator(at: &mut Scanner<'_>) -> Result<Option<(Operator, u8)>> {
    use Comparison::*;
    at.blanks()?;
    let signs = [
        ("<<", Operator::Order(Order::Before), 2),
        (">>", Operator::Order(Order::After), 2),
        ("<=", Operator::General(LessOrEqual), 2),
        (">=", Operator::General(GreaterOrEqual), 2),
        ("!=", Operator::General(NotEqual), 2),
        ("=", Operator::General(Equal), 2),
        ("<", Operator::General(Less), 2),
        (">", Operator::General(Greater), 2),
        ("+", Operator::Arithmetic(Arithmetic::Add), 3),
        ("-", Operator::Arithmetic(Arithmetic::Subtract), 3),
        ("*", Operator::Arithmetic(Arithmetic::Multiply), 4),
    ];
    for (sign, operator, strength) in signs {
        if at.eat_here(sign) {
            return Ok(Some((operator, strength)));
        }
    }
    let words = [
        ("or", Operator::Or, 0),
        ("and", Operator::And, 1),
        ("eq", Operator::Value(Equal), 2),
        ("ne", Operator::Value(NotEqual), 2),
        ("lt", Operator::Value(Less), 2),
        ("le", Operator::Value(LessOrEqual), 2),
        ("gt", Operator::Value(Greater), 2),
        ("ge", Operator::Value(GreaterOrEqual), 2),
        ("is", Operator::Order(Order::Same), 2),
        ("div", Operator::Arithmetic(Arithmetic::Divide), 4),
        ("mod", Operator::Arithmetic(Arithmetic::Modulo), 4),
        ("idiv", Operator::Arithmetic(Arithmetic::Whole), 4),
    ];
    for (word, operator, strength) in words {
        if at.eat_word(word)? {
            return Ok(Some((operator, strength)));
        }
    }
    if at.eat_words(&["instance", "of"])? {
        return Ok(Some((Operator::InstanceOf, 5)));
    }
    if at.eat_words(&["cast", "as"])? {
        return Ok(Some((Operator::CastAs, 6)));
    }
    for word in ["to", "union", "intersect", "except", "treat", "castable"] {
        if at.at_word(word)? {
            return error(9335, &[&word]);
        }
    }
    if at.rest.starts_with('|') {
        return error(9335, &[&"|"]);
    }
    Ok(None)
}
