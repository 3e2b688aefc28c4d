//! Columns against single values: the same results, row by row.

use super::compare::{Relation, retain};
use super::*;
use crate::convert::ConvertContext;
use crate::row::{ColumnSpec, RowLayout};
use crate::testing::{TYPES, value_of};
use crate::types::{BinaryOp, binary_result_type};
use crate::{CollationId, ValueError};
use proptest::prelude::*;
use std::cmp::Ordering;

const ROWS: usize = 24;

fn with_nulls(data_type: DataType) -> impl Strategy<Value = Vec<Value>> {
    let value =
        prop_oneof![1 => Just(Value::Null), 6 => value_of(data_type), 3 => small(data_type)];
    prop::collection::vec(value, ROWS)
}

/// Values near zero, which do not overflow.
fn small(data_type: DataType) -> BoxedStrategy<Value> {
    (-50i64..50)
        .prop_map(move |n| {
            let context = ConvertContext::default();
            crate::convert::convert(
                &Value::BigInt(n),
                DataType::BigInt,
                data_type,
                None,
                &context,
            )
            .unwrap_or(Value::Null)
        })
        .boxed()
}

fn column(values: &[Value], data_type: DataType) -> Column {
    let mut column = Column::new(data_type);
    values.iter().for_each(|v| column.push(v.clone()));
    column
}

fn typed() -> impl Strategy<Value = (DataType, Vec<Value>)> {
    prop::sample::select(TYPES).prop_flat_map(|t| (Just(t), with_nulls(t)))
}

fn numeric() -> impl Strategy<Value = (DataType, Vec<Value>)> {
    let types: Vec<DataType> = TYPES
        .iter()
        .copied()
        .chain([DataType::Decimal {
            precision: 12,
            scale: 4,
        }])
        .filter(|t| t.is_numeric())
        .collect();
    prop::sample::select(types).prop_flat_map(|t| (Just(t), with_nulls(t)))
}

fn values(column: &Column) -> Vec<Value> {
    (0..column.len()).map(|i| column.value(i)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn values_come_back((t, given) in typed(), rows in prop::collection::vec(0u32..ROWS as u32, 0..40)) {
        let whole = column(&given, t);
        prop_assert_eq!(&values(&whole), &given);
        prop_assert!(given.iter().enumerate().all(|(i, v)| whole.is_null(i) == v.is_null()));
        let mut picked = Column::default();
        let rows: Vec<u32> = rows.into_iter().chain([NO_ROW]).collect();
        picked.gather(&whole, &rows);
        let expected: Vec<Value> = rows
            .iter()
            .map(|r| given.get(*r as usize).cloned().unwrap_or(Value::Null))
            .collect();
        prop_assert_eq!(values(&picked), expected);
        let mut twice = whole.clone();
        twice.append(&whole);
        prop_assert_eq!(values(&twice), [given.clone(), given].concat());
    }

    /// A column may change its type halfway.
    #[test]
    fn mixed_values_come_back((t, given) in typed(), (u, more) in typed()) {
        let mut mixed = column(&given, t);
        more.iter().for_each(|v| mixed.push(v.clone()));
        let expected = [given.clone(), more.clone()].concat();
        prop_assert_eq!(&values(&mixed), &expected);
        let mut appended = column(&given, t);
        appended.append(&column(&more, u));
        prop_assert_eq!(values(&appended), expected);
    }

    #[test]
    fn stored_rows_read_as_decoded((t, given) in typed(), (u, other) in typed(), added in any::<bool>()) {
        let old = RowLayout::new(&[ColumnSpec::new(u)]);
        let first = given.first().cloned().unwrap_or(Value::Null);
        let layout = RowLayout::new(&[ColumnSpec::new(u), ColumnSpec { data_type: t, added_default: first.clone() }]);
        let mut rows = Vec::new();
        for (a, b) in other.iter().zip(&given) {
            let mut row = Vec::new();
            layout.encode(&[a.clone(), b.clone()], &mut row).unwrap();
            rows.push(row);
        }
        let mut expected = given.clone();
        if added {
            let mut row = Vec::new();
            old.encode(&other[..1], &mut row).unwrap();
            rows.push(row);
            expected.push(first);
        }
        let mut read = Column::new(t);
        if Form::of(t) == Form::Any {
            return Ok(());
        }
        read.read(&layout, 1, rows.iter().map(Vec::as_slice)).unwrap();
        prop_assert_eq!(values(&read), expected);
        // Cut rows are refused or read as before, never a panic.
        for row in &rows {
            for end in 0..row.len() {
                let _ = Column::new(t).read(&layout, 1, std::iter::once(&row[..end]));
            }
        }
    }

    #[test]
    fn arithmetic_agrees((t, a) in numeric(), (u, b) in numeric(), op in prop::sample::select(&[BinaryOp::Add, BinaryOp::Subtract,
        BinaryOp::Multiply, BinaryOp::Divide, BinaryOp::Modulo, BinaryOp::BitAnd, BinaryOp::BitXor][..]), constant in any::<bool>()) {
        let Ok(result) = binary_result_type(op, t, u) else { return Ok(()); };
        let right = if constant { Column::repeat(&b[0], ROWS) } else { column(&b, u) };
        let b = values(&right);
        let operand = if constant { Operand::Constant(&b[0]) } else { Operand::Column(&right) };
        let expected: Result<Vec<Value>, ValueError> =
            a.iter().zip(&b).map(|(x, y)| crate::arithmetic::evaluate(op, x, y, result)).collect();
        if let Some(found) = arithmetic::evaluate(op, Operand::Column(&column(&a, t)), operand, result, ROWS) {
            prop_assert_eq!(values(&found), expected.unwrap());
        }
    }

    #[test]
    fn negation_agrees((t, a) in numeric()) {
        let expected: Result<Vec<Value>, ValueError> = a.iter().map(|x| crate::arithmetic::negate(x, t)).collect();
        if let Some(found) = arithmetic::negate(&column(&a, t)) {
            prop_assert_eq!(values(&found), expected.unwrap());
        }
    }

    #[test]
    fn conversion_agrees((t, a) in numeric(), (u, _) in numeric()) {
        let context = ConvertContext::default();
        let expected: Result<Vec<Value>, ValueError> =
            a.iter().map(|x| crate::convert::convert(x, t, u, None, &context)).collect();
        if let Some(found) = convert::convert(&column(&a, t), u) {
            prop_assert_eq!(values(&found), expected.unwrap());
        }
    }

    #[test]
    fn comparison_agrees((t, a) in typed(), (u, b) in typed(), same in any::<bool>(), constant in any::<bool>()) {
        let b = if same && t == u { a.iter().rev().cloned().collect() } else { b };
        let right = if constant { Column::repeat(&b[0], ROWS) } else { column(&b, u) };
        let b = values(&right);
        let operand = if constant { Operand::Constant(&b[0]) } else { Operand::Column(&right) };
        for (relation, holds) in [
            (Relation::Equal, Ordering::is_eq as fn(Ordering) -> bool),
            (Relation::NotEqual, Ordering::is_ne),
            (Relation::Less, Ordering::is_lt),
            (Relation::LessOrEqual, Ordering::is_le),
            (Relation::Greater, Ordering::is_gt),
            (Relation::GreaterOrEqual, Ordering::is_ge),
        ] {
            let mut rows: Vec<u32> = (0..ROWS as u32).filter(|r| r % 5 != 0).collect();
            let all = rows.clone();
            if retain(relation, Operand::Column(&column(&a, t)), operand, &mut rows) {
                let expected: Vec<u32> = all
                    .into_iter()
                    .filter(|r| crate::compare(&a[*r as usize], &b[*r as usize], CollationId::DEFAULT).is_some_and(holds))
                    .collect();
                prop_assert_eq!(rows, expected);
            } else {
                prop_assert_eq!(rows, all);
            }
        }
    }
}

/// The common pairs do have kernels.
#[test]
fn common_pairs_have_kernels() {
    let decimal = DataType::Decimal {
        precision: 10,
        scale: 2,
    };
    let one = |t: DataType| {
        let context = ConvertContext::default();
        column(
            &[crate::convert::convert(&Value::Int(1), DataType::Int, t, None, &context).unwrap()],
            t,
        )
    };
    for (t, u) in [
        (DataType::Int, DataType::SmallInt),
        (DataType::BigInt, DataType::Int),
        (DataType::Money, DataType::Money),
        (DataType::Money, DataType::SmallInt),
        (decimal, decimal),
        (decimal, DataType::Int),
        (DataType::Float, DataType::Float),
    ] {
        for op in [BinaryOp::Add, BinaryOp::Subtract, BinaryOp::Multiply] {
            let result = binary_result_type(op, t, u).unwrap();
            let (a, b) = (one(t), one(u));
            let found =
                arithmetic::evaluate(op, Operand::Column(&a), Operand::Column(&b), result, 1);
            assert!(found.is_some(), "{t} {op:?} {u}");
        }
    }
    for (from, to) in [
        (DataType::SmallInt, DataType::Int),
        (DataType::Int, DataType::Money),
        (DataType::Int, decimal),
        (DataType::Int, DataType::Float),
        (
            DataType::Money,
            DataType::Decimal {
                precision: 19,
                scale: 4,
            },
        ),
    ] {
        assert!(convert::convert(&one(from), to).is_some(), "{from} to {to}");
    }
}
