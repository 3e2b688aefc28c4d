//! Round trips, growth by ALTER TABLE ADD, patches against full encoding, and corrupt bytes.

use super::*;
use crate::{Decimal, Len};
use proptest::prelude::*;

const TYPES: &[DataType] = &[
    DataType::Bit,
    DataType::Int,
    DataType::VarChar(Len(50)),
    DataType::Decimal {
        precision: 9,
        scale: 2,
    },
    DataType::NVarChar(Len::MAX),
    DataType::Decimal {
        precision: 18,
        scale: 4,
    },
    DataType::Decimal {
        precision: 38,
        scale: 10,
    },
    DataType::VarBinary(Len::MAX),
    DataType::Date,
    DataType::Time { scale: 3 },
    DataType::SmallDateTime,
    DataType::DateTime,
    DataType::DateTime2 { scale: 7 },
    DataType::DateTimeOffset { scale: 7 },
    DataType::Variant,
    DataType::UniqueIdentifier,
    DataType::RowVersion,
    DataType::TinyInt,
    DataType::SmallInt,
    DataType::BigInt,
    DataType::Money,
    DataType::SmallMoney,
    DataType::Real,
    DataType::Float,
    DataType::Char(Len(10)),
    DataType::Binary(Len(3)),
];

fn layout(types: &[DataType]) -> RowLayout {
    RowLayout::new(
        &types
            .iter()
            .map(|t| ColumnSpec::new(*t))
            .collect::<Vec<_>>(),
    )
}

/// NULLs and very long texts among the values of a type.
fn value_of(data_type: DataType) -> BoxedStrategy<Value> {
    let present = crate::testing::value_of(data_type);
    if data_type.is_character() {
        prop_oneof![1 => Just(Value::Null), 4 => present, 1 => "x{20000}".prop_map(Value::str)]
            .boxed()
    } else {
        prop_oneof![1 => Just(Value::Null), 5 => present].boxed()
    }
}

fn row() -> impl Strategy<Value = (Vec<DataType>, Vec<Value>, Vec<Value>)> {
    prop::sample::subsequence(TYPES, 1..=TYPES.len())
        .prop_shuffle()
        .prop_flat_map(|types| {
            let values: Vec<_> = types.iter().map(|t| value_of(*t)).collect();
            (Just(types), values.clone(), values)
        })
}

fn encoded(layout: &RowLayout, values: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    layout.encode(values, &mut out).expect("encode");
    out
}

fn decoded(layout: &RowLayout, bytes: &[u8]) -> Vec<Value> {
    let mut out = Vec::new();
    RowView::new(layout, bytes)
        .and_then(|view| view.decode(&mut out))
        .expect("decode");
    out
}

/// Such instants were made once, and their rows stay readable.
#[test]
fn instants_just_outside_the_calendar_round_trip() {
    let layout = layout(&[DataType::DateTimeOffset { scale: 7 }]);
    for days in [-1, crate::temporal::DAY_MAX + 1] {
        let utc = crate::DateTime2 {
            days,
            ticks: 5,
            scale: 7,
        };
        let values = vec![Value::DateTimeOffset(crate::DateTimeOffset {
            utc,
            offset_minutes: 0,
        })];
        assert_eq!(decoded(&layout, &encoded(&layout, &values)), values);
    }
}

proptest! {
    #[test]
    fn round_trip((types, values, _) in row()) {
        let layout = layout(&types);
        prop_assert_eq!(decoded(&layout, &encoded(&layout, &values)), values);
    }

    #[test]
    fn patch_equals_full_encoding((types, old, new) in row(), mask in any::<u64>()) {
        let layout = layout(&types);
        let bytes = encoded(&layout, &old);
        let view = RowView::new(&layout, &bytes).unwrap();
        let changed: Vec<usize> = (0..types.len()).filter(|i| mask & (1 << i) != 0).collect();
        let changes: Vec<_> = changed.iter().map(|i| (*i, Cell::Value(&new[*i]))).collect();
        let mut patched = Vec::new();
        layout.encode_patch(&view, &changes, &mut patched).unwrap();
        let expected: Vec<_> = (0..types.len()).map(|i| if changed.contains(&i) { &new[i] } else { &old[i] }.clone()).collect();
        prop_assert_eq!(decoded(&layout, &patched), expected);
    }

    #[test]
    fn older_rows_read_and_grow((types, values, new) in row(), cut in any::<prop::sample::Index>()) {
        let cut = cut.index(types.len());
        let old_layout = layout(&types[..cut]);
        let specs: Vec<_> = types.iter().zip(&values)
            .map(|(t, v)| ColumnSpec { data_type: *t, added_default: v.clone() }).collect();
        let grown = RowLayout::new(&specs);
        let bytes = encoded(&old_layout, &values[..cut]);
        let view = RowView::new(&grown, &bytes).unwrap();
        prop_assert_eq!(view.value(cut).unwrap(), Column::Missing);
        prop_assert_eq!(decoded(&grown, &bytes), values.clone());
        let last = types.len() - 1;
        let mut patched = Vec::new();
        grown.encode_patch(&view, &[(last, Cell::Value(&new[last]))], &mut patched).unwrap();
        let mut expected = values.clone();
        expected[last] = new[last].clone();
        prop_assert_eq!(decoded(&grown, &patched), expected);
    }

    #[test]
    fn corrupt_bytes_never_panic((types, values, new) in row(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let layout = layout(&types);
        let mut bytes = encoded(&layout, &values);
        let place = at.index(bytes.len().min(300));
        bytes[place] = byte;
        bytes.truncate(cut.index(bytes.len() + 1));
        if let Ok(view) = RowView::new(&layout, &bytes) {
            for column in 0..types.len() + 1 {
                let _ = view.value(column);
                let _ = (view.i64(column), view.str(column), view.bytes(column), view.f64(column), view.overflow(column));
            }
            let changes: Vec<_> = new.iter().enumerate().map(|(i, v)| (i, Cell::Value(v))).collect();
            let _ = layout.encode_patch(&view, &changes[..1], &mut Vec::new());
            let _ = layout.encode_patch(&view, &changes, &mut Vec::new());
        }
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let layout = layout(TYPES);
        if let Ok(view) = RowView::new(&layout, &bytes) {
            let _ = view.decode(&mut Vec::new());
        }
    }
}

#[test]
fn overflow_references_survive() {
    let layout = layout(&[
        DataType::Int,
        DataType::NVARCHAR_MAX,
        DataType::VarChar(Len(10)),
    ]);
    let reference = [7u8; OVERFLOW_BYTES];
    let (one, text) = (Value::Int(1), Value::str("short"));
    let mut bytes = Vec::new();
    let cells = [
        Cell::Value(&one),
        Cell::Overflow(&reference),
        Cell::Value(&text),
    ];
    layout
        .encode_each(cells.len(), |column| cells[column], &mut bytes)
        .expect("encode");
    let view = RowView::new(&layout, &bytes).expect("view");
    assert_eq!(view.value(1), Ok(Column::Overflow(reference)));
    assert_eq!(
        (view.overflow(1), view.bytes(1), view.str(2)),
        (Some(reference), None, Some("short"))
    );
    let longer = Value::str("a little longer");
    let mut patched = Vec::new();
    layout
        .encode_patch(&view, &[(2, Cell::Value(&longer))], &mut patched)
        .expect("patch");
    let view = RowView::new(&layout, &patched).expect("view");
    assert_eq!(
        (view.overflow(1), view.str(2)),
        (Some(reference), Some("a little longer"))
    );
    let other = [9u8; OVERFLOW_BYTES];
    layout
        .encode_patch(&view, &[(1, Cell::Overflow(&other))], &mut bytes)
        .expect("patch");
    assert_eq!(
        RowView::new(&layout, &bytes).expect("view").overflow(1),
        Some(other)
    );
}

#[test]
fn typed_access() {
    let layout = layout(&[
        DataType::Int,
        DataType::Float,
        DataType::VarChar(Len(9)),
        DataType::Decimal {
            precision: 9,
            scale: 2,
        },
    ]);
    let bytes = encoded(
        &layout,
        &[
            Value::Int(-5),
            Value::Float(1.5),
            Value::str("abc"),
            Value::Decimal(Decimal::new(1234, 9, 2)),
        ],
    );
    let view = RowView::new(&layout, &bytes).expect("view");
    assert_eq!(
        (
            view.i64(0),
            view.f64(1),
            view.str(2),
            view.decimal_unscaled(3)
        ),
        (Some(-5), Some(1.5), Some("abc"), Some(1234))
    );
    assert_eq!((view.i64(1), view.str(0), view.i64(9)), (None, None, None));
    let nulls = encoded(
        &layout,
        &[Value::Null, Value::Null, Value::Null, Value::Null],
    );
    let view = RowView::new(&layout, &nulls).expect("view");
    assert!(view.is_null(0) && view.i64(0).is_none() && view.str(2).is_none());
    assert_eq!(nulls.len(), layout.min_row_bytes());
}

#[test]
fn wrong_values_are_refused() {
    let layout = layout(&[DataType::Int]);
    let mut out = Vec::new();
    assert_eq!(
        layout.encode(&[Value::str("x")], &mut out),
        Err(RowError::TypeMismatch {
            column: 0,
            expected: DataType::Int
        })
    );
    assert_eq!(
        layout.encode(&[], &mut out),
        Err(RowError::BadValueCount {
            expected: 1,
            found: 0
        })
    );
}
