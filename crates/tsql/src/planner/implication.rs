//! Whether the conditions of a query imply the filter of an index, so that the index holds every row the query can want.
//!
//! Theory: a filter is a conjunction of comparisons of a column with constants, IN lists and IS [NOT] NULL. It is
//! implied when each of its parts is implied by one condition of the query. Values of variables and parameters are not
//! known when a plan is made, so `c = @p` implies nothing but that `c` is not NULL: the plan holds for every value.
//!
//! Invariant: "no" is always a right answer; a wrong "yes" would lose rows.

use super::compile::fold;
use crate::binder::mirrored;
use crate::binder::tree::*;
use daruma_syntax::ast::CompareOp;
use daruma_value::{CollationId, Value, compare};
use std::cmp::Ordering;

/// Do `conditions` together imply `wanted`?
pub(super) fn implied(conditions: &[Scalar], wanted: &Scalar) -> bool {
    match &wanted.kind {
        Kind::And(parts) => parts.iter().all(|part| implied(conditions, part)),
        _ => conditions.iter().any(|known| implies(known, wanted)),
    }
}

/// Does every row for which `known` is true satisfy `wanted`?
fn implies(known: &Scalar, wanted: &Scalar) -> bool {
    match &known.kind {
        Kind::And(parts) => return parts.iter().any(|part| implies(part, wanted)),
        Kind::Or(parts) => return parts.iter().all(|part| implies(part, wanted)),
        _ => {}
    }
    let Some(wanted) = Fact::of(wanted) else {
        return false;
    };
    if let Test::NotNull = wanted.test {
        return refuses_null(known, wanted.column);
    }
    match Fact::of(known) {
        Some(known) if known.column == wanted.column && known.collation == wanted.collation => {
            known.implies(&wanted)
        }
        _ => false,
    }
}

/// Restriction of a column by a condition.
struct Fact {
    column: ColId,
    collation: CollationId,
    test: Test,
}

enum Test {
    Null,
    NotNull,
    /// Equal to one of these.
    Among(Vec<Value>),
    Compare(CompareOp, Value),
}

impl Fact {
    fn of(condition: &Scalar) -> Option<Fact> {
        let fact = |column: &Scalar, test| {
            let collation = column.ty.collation;
            column.as_column().map(|column| Fact {
                column,
                collation,
                test,
            })
        };
        match &condition.kind {
            Kind::Compare { op, left, right } => {
                let (op, column, value) = match left.as_column() {
                    Some(_) => (*op, left, right),
                    None => (mirrored(*op), right, left),
                };
                let value = known_value(value)?;
                let test = match op {
                    CompareOp::Equal => Test::Among(vec![value]),
                    op => Test::Compare(op, value),
                };
                fact(column, test)
            }
            Kind::InList { expr, list } => {
                let values = list.iter().map(known_value).collect::<Option<_>>()?;
                fact(expr, Test::Among(values))
            }
            Kind::IsNull(expr) => fact(expr, Test::Null),
            Kind::Not(inner) => match &inner.kind {
                Kind::IsNull(expr) => fact(expr, Test::NotNull),
                _ => None,
            },
            _ => None,
        }
    }

    fn implies(&self, wanted: &Fact) -> bool {
        match (&self.test, &wanted.test) {
            (Test::Null, Test::Null) => true,
            (Test::Among(values), _) => values.iter().all(|v| wanted.accepts(v)),
            (Test::Compare(op, value), Test::Compare(wanted_op, bound)) => {
                compare(value, bound, self.collation)
                    .is_some_and(|order| range_implies(*op, *wanted_op, order))
            }
            _ => false,
        }
    }

    fn accepts(&self, value: &Value) -> bool {
        let order = |bound| compare(value, bound, self.collation);
        match &self.test {
            Test::Null => false,
            Test::NotNull => true,
            Test::Among(values) => values.iter().any(|v| order(v) == Some(Ordering::Equal)),
            Test::Compare(op, bound) => order(bound).is_some_and(|o| holds(*op, o)),
        }
    }
}

/// A constant that is not NULL.
fn known_value(scalar: &Scalar) -> Option<Value> {
    fold(scalar).filter(|value| !value.is_null())
}

fn holds(op: CompareOp, order: Ordering) -> bool {
    match op {
        CompareOp::Equal => order.is_eq(),
        CompareOp::NotEqual => order.is_ne(),
        CompareOp::Less => order.is_lt(),
        CompareOp::LessOrEqual | CompareOp::NotGreater => order.is_le(),
        CompareOp::Greater => order.is_gt(),
        CompareOp::GreaterOrEqual | CompareOp::NotLess => order.is_ge(),
    }
}

/// Does `x op value` imply `x wanted bound`, where `value` lies in `order` to `bound`?
fn range_implies(op: CompareOp, wanted: CompareOp, order: Ordering) -> bool {
    use CompareOp::*;
    match (op, wanted) {
        (NotEqual, NotEqual) => order.is_eq(),
        (Greater, Greater | GreaterOrEqual | NotLess | NotEqual) => order.is_ge(),
        (GreaterOrEqual | NotLess, GreaterOrEqual | NotLess) => order.is_ge(),
        (GreaterOrEqual | NotLess, Greater | NotEqual) => order.is_gt(),
        (Less, Less | LessOrEqual | NotGreater | NotEqual) => order.is_le(),
        (LessOrEqual | NotGreater, LessOrEqual | NotGreater) => order.is_le(),
        (LessOrEqual | NotGreater, Less | NotEqual) => order.is_lt(),
        _ => false,
    }
}

/// Is the condition never true where the column is NULL?
fn refuses_null(condition: &Scalar, column: ColId) -> bool {
    let is_column = |scalar: &Scalar| scalar.as_column() == Some(column);
    match &condition.kind {
        Kind::Compare { left, right, .. } => is_column(left) || is_column(right),
        Kind::Like { expr, .. } | Kind::InList { expr, .. } => is_column(expr),
        Kind::Not(inner) => match &inner.kind {
            Kind::IsNull(expr) => is_column(expr),
            Kind::Compare { .. } | Kind::Like { .. } | Kind::InList { .. } => {
                refuses_null(inner, column)
            }
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_value::DataType;
    use std::slice;

    const COLUMN: ColId = 7;

    fn compared(op: CompareOp, value: i32) -> Scalar {
        let ty = Type::new(DataType::Int, true);
        Scalar::condition(Kind::Compare {
            op,
            left: Box::new(Scalar::column(COLUMN, ty)),
            right: Box::new(Scalar::constant(Value::Int(value), DataType::Int)),
        })
    }

    /// Against the truth over all small numbers.
    #[test]
    fn comparisons_imply_what_they_should() {
        use CompareOp::*;
        let ops = [
            Equal,
            NotEqual,
            Less,
            LessOrEqual,
            Greater,
            GreaterOrEqual,
            NotLess,
            NotGreater,
        ];
        let accepts = |op: CompareOp, bound: i32, x: i32| holds(op, x.cmp(&bound));
        // Bounds apart by two, so that there is always a number between them.
        let bounds = [10, 12, 14];
        for (op, wanted) in ops.iter().flat_map(|a| ops.iter().map(move |b| (*a, *b))) {
            for (value, bound) in bounds
                .iter()
                .flat_map(|a| bounds.iter().map(move |b| (*a, *b)))
            {
                let truth = (0..30).all(|x| !accepts(op, value, x) || accepts(wanted, bound, x));
                let found = implied(&[compared(op, value)], &compared(wanted, bound));
                assert_eq!(found, truth, "{op:?} {value} implies {wanted:?} {bound}");
            }
        }
    }

    #[test]
    fn nulls() {
        let column = || Box::new(Scalar::column(COLUMN, Type::new(DataType::Int, true)));
        let is_null = Scalar::condition(Kind::IsNull(column()));
        let not_null = is_null.clone().negate();
        let five = compared(CompareOp::Equal, 5);
        assert!(implied(slice::from_ref(&is_null), &is_null));
        assert!(implied(slice::from_ref(&five), &not_null));
        assert!(implied(&[five.clone().negate()], &not_null));
        assert!(!implied(slice::from_ref(&is_null), &not_null));
        assert!(!implied(slice::from_ref(&not_null), &five));
        assert!(!implied(&[is_null.clone().negate().negate()], &five));
        let either = Scalar::condition(Kind::Or(vec![five.clone(), is_null]));
        assert!(!implied(slice::from_ref(&either), &not_null));
        assert!(!implied(&[either], &five));
        assert!(implied(
            &[Scalar::condition(Kind::And(vec![not_null, five.clone()]))],
            &five
        ));
    }
}
