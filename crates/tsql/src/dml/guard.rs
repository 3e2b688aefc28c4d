//! The plain cases of CHECK constraints: a quick yes without evaluating the condition.
//!
//! Theory: most checks bound one number by constants. A guard says yes only when the condition surely holds; anything
//! else (NULL, another type, a violation) is left to the condition itself, so a guard never decides against a row.

use daruma_catalog::{TableDef, names_equal};
use daruma_syntax::ast::{CompareOp, Condition, Expr, Literal, UnaryOp};
use daruma_value::{DataType, Value};

/// `least <= column <= most` for an integer or money column, in the column's units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guard {
    column: usize,
    least: i64,
    most: i64,
}

impl Guard {
    /// Guards that together imply the condition; `None` when it is not of that form.
    pub fn all_of(condition: &Condition, def: &TableDef) -> Option<Vec<Guard>> {
        match condition {
            Condition::And(parts) => {
                let guards = parts
                    .iter()
                    .map(|p| Guard::all_of(p, def))
                    .collect::<Option<Vec<_>>>()?;
                Some(guards.into_iter().flatten().collect())
            }
            Condition::Compare { op, left, right } => {
                Some(vec![Guard::compare(*op, left, right, def)?])
            }
            Condition::Between {
                expr,
                low,
                high,
                negated: false,
            } => Some(vec![
                Guard::compare(CompareOp::GreaterOrEqual, expr, low, def)?,
                Guard::compare(CompareOp::LessOrEqual, expr, high, def)?,
            ]),
            _ => None,
        }
    }

    fn compare(op: CompareOp, left: &Expr, right: &Expr, def: &TableDef) -> Option<Guard> {
        let Expr::Column(named) = left else {
            return None;
        };
        let mut columns = def.columns.iter().enumerate();
        let (column, found) = columns.find(|(_, c)| names_equal(&c.name, &named.name.text))?;
        let unit = match found.data_type {
            DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt => 1,
            DataType::Money => 10_000,
            _ => return None,
        };
        let limit = constant(right)?.checked_mul(unit)?;
        let (least, most) = match op {
            CompareOp::Greater => (limit.checked_add(1)?, i64::MAX),
            CompareOp::GreaterOrEqual | CompareOp::NotLess => (limit, i64::MAX),
            CompareOp::Less => (i64::MIN, limit.checked_sub(1)?),
            CompareOp::LessOrEqual | CompareOp::NotGreater => (i64::MIN, limit),
            CompareOp::Equal => (limit, limit),
            CompareOp::NotEqual => return None,
        };
        Some(Guard {
            column,
            least,
            most,
        })
    }

    /// True only when the condition surely holds.
    #[inline]
    pub fn holds(&self, row: &[Value]) -> bool {
        let number = match row.get(self.column) {
            Some(Value::TinyInt(n)) => i64::from(*n),
            Some(Value::SmallInt(n)) => i64::from(*n),
            Some(Value::Int(n)) => i64::from(*n),
            Some(Value::BigInt(n) | Value::Money(n)) => *n,
            _ => return false,
        };
        (self.least..=self.most).contains(&number)
    }
}

/// A whole number: an integer literal, or a decimal one whose fraction is zero (`0.00`), perhaps negated.
fn constant(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(Literal::Integer(digits)) => digits.parse().ok(),
        Expr::Literal(Literal::Decimal(digits)) => {
            let (whole, fraction) = digits.split_once('.')?;
            if !fraction.bytes().all(|b| b == b'0') {
                return None;
            }
            if whole.is_empty() {
                Some(0)
            } else {
                whole.parse().ok()
            }
        }
        Expr::Unary {
            op: UnaryOp::Minus,
            expr,
        } => constant(expr)?.checked_neg(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dml::tests::{INT, TableBuilder};
    use daruma_syntax::{ParseOptions, parse_condition};

    fn guards(text: &str) -> Option<Vec<Guard>> {
        let def = TableBuilder::new("t")
            .column("n", INT, true)
            .column("m", DataType::Money, true)
            .definition();
        Guard::all_of(
            &parse_condition(text, &ParseOptions::default()).unwrap(),
            &def,
        )
    }

    #[test]
    fn bounds_of_numbers_become_guards() {
        let n = |least, most| Guard {
            column: 0,
            least,
            most,
        };
        assert_eq!(guards("([n]>(0))"), Some(vec![n(1, i64::MAX)]));
        assert_eq!(
            guards("([m]>=(0.00))"),
            Some(vec![Guard {
                column: 1,
                least: 0,
                most: i64::MAX
            }])
        );
        assert_eq!(
            guards("([n]>=(-1) AND [n]<=(8))"),
            Some(vec![n(-1, i64::MAX), n(i64::MIN, 8)])
        );
        assert_eq!(
            guards("([n] between 1 and 5)"),
            Some(vec![n(1, i64::MAX), n(i64::MIN, 5)])
        );
        for other in [
            "[n]<>1",
            "[n]>0 or [m]>0",
            "[n]>[m]",
            "[n]>0.5",
            "abs([n])>0",
        ] {
            assert_eq!(guards(other), None, "{other}");
        }
    }

    #[test]
    fn a_guard_says_yes_only() {
        let guard = guards("[n]>0").unwrap()[0];
        assert!(guard.holds(&[Value::Int(1)]));
        assert!(!guard.holds(&[Value::Int(0)]));
        assert!(!guard.holds(&[Value::Null]));
    }
}
