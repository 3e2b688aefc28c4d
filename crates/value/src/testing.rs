//! Generators shared by the property tests.

use crate::convert::{ConvertContext, convert};
use crate::{
    DataType, DateTime, DateTime2, DateTimeOffset, Decimal, Len, SmallDateTime, Time, Value,
    VariantValue, decimal, row, temporal,
};
use proptest::prelude::*;

/// One of each kind of type, with lengths and scales that make trouble.
pub(crate) const TYPES: &[DataType] = &[
    DataType::Bit,
    DataType::TinyInt,
    DataType::SmallInt,
    DataType::Int,
    DataType::BigInt,
    DataType::Decimal {
        precision: 5,
        scale: 2,
    },
    DataType::Decimal {
        precision: 38,
        scale: 0,
    },
    DataType::Decimal {
        precision: 38,
        scale: 38,
    },
    DataType::SmallMoney,
    DataType::Money,
    DataType::Real,
    DataType::Float,
    DataType::Date,
    DataType::Time { scale: 0 },
    DataType::Time { scale: 7 },
    DataType::SmallDateTime,
    DataType::DateTime,
    DataType::DateTime2 { scale: 0 },
    DataType::DateTime2 { scale: 7 },
    DataType::DateTimeOffset { scale: 7 },
    DataType::Char(Len(3)),
    DataType::VarChar(Len(20)),
    DataType::VARCHAR_MAX,
    DataType::NChar(Len(3)),
    DataType::NVarChar(Len(20)),
    DataType::Text,
    DataType::NText,
    DataType::Binary(Len(3)),
    DataType::VarBinary(Len(20)),
    DataType::VARBINARY_MAX,
    DataType::Image,
    DataType::UniqueIdentifier,
    DataType::RowVersion,
    DataType::Variant,
    DataType::Xml,
    DataType::HierarchyId,
];

pub(crate) fn any_type() -> impl Strategy<Value = DataType> {
    prop::sample::select(TYPES)
}

/// A value that a column of the type can hold; extremes are likely.
pub(crate) fn value_of(data_type: DataType) -> BoxedStrategy<Value> {
    let ticks = prop_oneof![
        Just(0),
        Just(temporal::TICKS_PER_DAY - 1),
        0..temporal::TICKS_PER_DAY
    ];
    let days = prop_oneof![
        Just(0),
        Just(temporal::DAY_MAX),
        0..=temporal::DAY_MAX,
        730_000..740_000
    ];
    match data_type {
        DataType::Bit => any::<bool>().prop_map(Value::Bit).boxed(),
        DataType::TinyInt => any::<u8>().prop_map(Value::TinyInt).boxed(),
        DataType::SmallInt => any::<i16>().prop_map(Value::SmallInt).boxed(),
        DataType::Int => edges(i32::MIN.into(), i32::MAX.into())
            .prop_map(|v| Value::Int(v as i32))
            .boxed(),
        DataType::BigInt => edges(i64::MIN, i64::MAX).prop_map(Value::BigInt).boxed(),
        DataType::Money => edges(i64::MIN, i64::MAX).prop_map(Value::Money).boxed(),
        DataType::SmallMoney => edges(i32::MIN.into(), i32::MAX.into())
            .prop_map(|v| Value::SmallMoney(v as i32))
            .boxed(),
        DataType::Real => prop_oneof![any::<f32>(), -100f32..100.0]
            .prop_filter("finite", |v| v.is_finite())
            .prop_map(Value::Real)
            .boxed(),
        DataType::Float => prop_oneof![any::<f64>(), -100f64..100.0]
            .prop_filter("finite", |v| v.is_finite())
            .prop_map(Value::Float)
            .boxed(),
        DataType::Decimal { precision, scale } => {
            let limit = decimal::power_of_ten(precision);
            prop_oneof![
                Just(limit - 1),
                Just(1 - limit),
                -1000i128..1000,
                any::<i128>()
            ]
            .prop_map(move |v| Value::Decimal(Decimal::new(v % limit, precision, scale)))
            .boxed()
        }
        DataType::Date => days.prop_map(Value::Date).boxed(),
        DataType::Time { scale } => ticks
            .prop_map(move |t| {
                Value::Time(Time {
                    ticks: cut(t, scale),
                    scale,
                })
            })
            .boxed(),
        DataType::SmallDateTime => (any::<u16>(), 0u16..1440)
            .prop_map(|(days, minutes)| Value::SmallDateTime(SmallDateTime { days, minutes }))
            .boxed(),
        DataType::DateTime => (
            prop_oneof![Just(-53_690), Just(2_958_463), -53_690..2_958_464],
            0..temporal::DATETIME_TICKS_PER_DAY,
        )
            .prop_map(|(days, ticks)| Value::DateTime(DateTime { days, ticks }))
            .boxed(),
        DataType::DateTime2 { scale } => (days, ticks)
            .prop_map(move |(days, t)| {
                Value::DateTime2(DateTime2 {
                    days,
                    ticks: cut(t, scale),
                    scale,
                })
            })
            .boxed(),
        DataType::DateTimeOffset { scale } => (1..temporal::DAY_MAX, ticks, -840i16..=840)
            .prop_map(move |(days, t, offset_minutes)| {
                let utc = DateTime2 {
                    days,
                    ticks: cut(t, scale),
                    scale,
                };
                Value::DateTimeOffset(DateTimeOffset {
                    utc,
                    offset_minutes,
                })
            })
            .boxed(),
        DataType::UniqueIdentifier => any::<[u8; 16]>().prop_map(Value::Guid).boxed(),
        DataType::RowVersion => any::<[u8; 8]>()
            .prop_map(|v| Value::Bytes(v.to_vec()))
            .boxed(),
        DataType::Variant => prop::sample::select(
            &[
                DataType::Int,
                DataType::NVarChar(Len(20)),
                DataType::DateTime,
                DataType::Float,
                DataType::Decimal {
                    precision: 38,
                    scale: 38,
                },
                DataType::Decimal {
                    precision: 5,
                    scale: 2,
                },
            ][..],
        )
        .prop_flat_map(|t| {
            value_of(t).prop_map(move |value| {
                Value::Variant(Box::new(VariantValue {
                    data_type: t,
                    value,
                }))
            })
        })
        .boxed(),
        t if t.is_character() => prop_oneof![
            "[0-9]{1,6}",
            "-?[0-9]{1,3}\\.[0-9]{1,3}",
            "20[0-9]{2}-[01][0-9]-[0-3][0-9]( [0-2][0-9]:[0-5][0-9])?",
            "\\PC{0,8}",
            "[a-zé %_.,-]{0,9}"
        ]
        .prop_map(Value::str)
        .boxed(),
        _ => prop::collection::vec(any::<u8>(), 0..12)
            .prop_map(Value::Bytes)
            .boxed(),
    }
}

fn cut(ticks: u64, scale: u8) -> u64 {
    let unit = 10u64.pow(u32::from(7 - scale));
    ticks / unit * unit
}

fn edges(low: i64, high: i64) -> impl Strategy<Value = i64> {
    prop_oneof![Just(low), Just(high), Just(0), -1000i64..1000, low..=high]
}

/// A type and a value, NULL now and then, already padded and cut to the type.
pub(crate) fn typed_value() -> impl Strategy<Value = (DataType, Value)> {
    any_type().prop_flat_map(|t| {
        let fitted = move |v: Value| {
            convert(&v, t, t, None, &ConvertContext::default()).unwrap_or(Value::Null)
        };
        prop_oneof![1 => Just(Value::Null), 12 => value_of(t).prop_map(fitted)]
            .prop_map(move |v| (t, v))
    })
}

/// Can a column of the type hold the value, by kind, range and length?
pub(crate) fn fits(value: &Value, data_type: DataType) -> bool {
    let layout = row::RowLayout::new(&[row::ColumnSpec::new(data_type)]);
    let encodes = layout
        .encode(std::slice::from_ref(value), &mut Vec::new())
        .is_ok();
    let units = |text: &str| {
        if data_type.is_unicode() {
            text.encode_utf16().count()
        } else {
            text.chars().count()
        }
    };
    let in_range = match (value, data_type.declared_len().filter(|len| !len.is_max())) {
        (Value::Str(text), Some(len)) => match data_type {
            DataType::Char(_) | DataType::NChar(_) => units(text) == usize::from(len.0),
            _ => units(text) <= usize::from(len.0),
        },
        (Value::Bytes(bytes), Some(len)) => bytes.len() <= usize::from(len.0),
        (Value::Date(days), _) => (0..=temporal::DAY_MAX).contains(days),
        (Value::Time(v), _) => {
            v.ticks < temporal::TICKS_PER_DAY && cut(v.ticks, v.scale) == v.ticks
        }
        (Value::DateTime(v), _) => temporal::is_valid_datetime(*v),
        (Value::DateTime2(v), _) => {
            (0..=temporal::DAY_MAX).contains(&v.days)
                && v.ticks < temporal::TICKS_PER_DAY
                && cut(v.ticks, v.scale) == v.ticks
        }
        (Value::DateTimeOffset(v), _) => fits(
            &Value::DateTime2(v.utc),
            DataType::DateTime2 { scale: v.utc.scale },
        ),
        (Value::Real(v), _) => v.is_finite(),
        (Value::Float(v), _) => v.is_finite(),
        (Value::Decimal(v), _) => {
            DataType::Decimal {
                precision: v.precision,
                scale: v.scale,
            } == data_type
        }
        _ => true,
    };
    encodes && in_range
}
