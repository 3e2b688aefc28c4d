//! Round trips, growth by ALTER TABLE ADD, patches against full encoding, and corrupt bytes.

use super::*;
use crate::{DateTime, DateTime2, DateTimeOffset, Decimal, Len, SmallDateTime, Time, VariantValue};
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

fn value_of(data_type: DataType) -> BoxedStrategy<Value> {
    let ticks = 0u64..864_000_000_000;
    let present = match data_type {
        DataType::Bit => any::<bool>().prop_map(Value::Bit).boxed(),
        DataType::TinyInt => any::<u8>().prop_map(Value::TinyInt).boxed(),
        DataType::SmallInt => any::<i16>().prop_map(Value::SmallInt).boxed(),
        DataType::Int => any::<i32>().prop_map(Value::Int).boxed(),
        DataType::BigInt => any::<i64>().prop_map(Value::BigInt).boxed(),
        DataType::Money => any::<i64>().prop_map(Value::Money).boxed(),
        DataType::SmallMoney => any::<i32>().prop_map(Value::SmallMoney).boxed(),
        DataType::Real => (-1e30f32..1e30).prop_map(Value::Real).boxed(),
        DataType::Float => (-1e300f64..1e300).prop_map(Value::Float).boxed(),
        DataType::Decimal { precision, scale } => any::<i128>()
            .prop_map(move |v| {
                Value::Decimal(Decimal::new(
                    v % crate::decimal::power_of_ten(precision),
                    precision,
                    scale,
                ))
            })
            .boxed(),
        DataType::Date => (0..3_652_059).prop_map(Value::Date).boxed(),
        DataType::Time { scale } => ticks
            .prop_map(move |ticks| Value::Time(Time { ticks, scale }))
            .boxed(),
        DataType::SmallDateTime => (any::<u16>(), 0u16..1440)
            .prop_map(|(days, minutes)| Value::SmallDateTime(SmallDateTime { days, minutes }))
            .boxed(),
        DataType::DateTime => (-53_690i32..2_958_464, 0u32..25_920_000)
            .prop_map(|(days, ticks)| Value::DateTime(DateTime { days, ticks }))
            .boxed(),
        DataType::DateTime2 { scale } => (0..3_652_059, ticks)
            .prop_map(move |(days, ticks)| Value::DateTime2(DateTime2 { days, ticks, scale }))
            .boxed(),
        DataType::DateTimeOffset { scale } => (0..3_652_059, ticks, -840i16..=840)
            .prop_map(move |(days, ticks, offset_minutes)| {
                Value::DateTimeOffset(DateTimeOffset {
                    utc: DateTime2 { days, ticks, scale },
                    offset_minutes,
                })
            })
            .boxed(),
        DataType::UniqueIdentifier => any::<[u8; 16]>().prop_map(Value::Guid).boxed(),
        DataType::RowVersion => any::<[u8; 8]>()
            .prop_map(|v| Value::Bytes(v.to_vec()))
            .boxed(),
        DataType::Variant => prop_oneof![
            any::<i32>().prop_map(|v| VariantValue {
                data_type: DataType::Int,
                value: Value::Int(v)
            }),
            "\\PC{0,9}".prop_map(|v| VariantValue {
                data_type: DataType::NVarChar(Len(9)),
                value: Value::str(v)
            }),
        ]
        .prop_map(|v| Value::Variant(Box::new(v)))
        .boxed(),
        t if t.is_character() => prop_oneof![9 => "\\PC{0,30}", 1 => "x{20000}"]
            .prop_map(Value::str)
            .boxed(),
        _ => prop::collection::vec(any::<u8>(), 0..40)
            .prop_map(Value::Bytes)
            .boxed(),
    };
    prop_oneof![1 => Just(Value::Null), 5 => present].boxed()
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
    layout
        .encode_cells(
            &[
                Cell::Value(&one),
                Cell::Overflow(&reference),
                Cell::Value(&text),
            ],
            &mut bytes,
        )
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
