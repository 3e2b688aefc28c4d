//! Types and values: every type both ways, worked bytes, conversions, damage.

use super::*;
use crate::wire::Reader;
use crate::wire::codepage::CodePage;
use crate::{TdsError, TdsVersion};
use daruma_value::{
    DataType, DateTime, DateTime2, DateTimeOffset, Decimal, Len, SmallDateTime, Time, Value,
    VariantValue,
};
use proptest::prelude::*;

const COLLATION: WireCollation = WireCollation::DEFAULT;
const UTF8: WireCollation = WireCollation([0x09, 0x04, 0xD0, 0x24, 0x00]);

fn encoded(info: &TypeInfo, place: Place, value: &Value) -> Result<Vec<u8>, TdsError> {
    let mut out = Vec::new();
    ValueEncoder::new(info, place)
        .encode(value, &mut out)
        .map(|()| out)
}

/// The value after a trip over the wire, its type included.
fn trip(info: &TypeInfo, place: Place, value: &Value) -> Value {
    let mut bytes = Vec::new();
    info.encode(place, &mut bytes);
    bytes.extend(encoded(info, place, value).unwrap());
    let mut reader = Reader::new(&bytes);
    let read_info = TypeInfo::decode(&mut reader, place).unwrap();
    let read = decode_value(&read_info, place, &mut reader).unwrap();
    assert!(
        reader.is_empty(),
        "{info:?} left {} bytes",
        reader.remaining()
    );
    for end in 0..bytes.len() {
        let mut reader = Reader::new(&bytes[..end]);
        let cut = TypeInfo::decode(&mut reader, place)
            .and_then(|info| decode_value(&info, place, &mut reader));
        assert!(cut.is_err(), "{info:?} cut at {end} of {}", bytes.len());
    }
    read
}

fn decimal(unscaled: i128, precision: u8, scale: u8) -> (DataType, Value) {
    (
        DataType::Decimal { precision, scale },
        Value::Decimal(Decimal::new(unscaled, precision, scale)),
    )
}

/// One or more values of every type.
fn samples() -> Vec<(DataType, Value)> {
    use DataType as D;
    let at = |days, ticks, scale| DateTime2 { days, ticks, scale };
    let long = "ünï\u{1F600}code ".repeat(3000);
    let mut samples = vec![
        (D::Bit, Value::Bit(true)),
        (D::TinyInt, Value::TinyInt(255)),
        (D::SmallInt, Value::SmallInt(-32_768)),
        (D::Int, Value::Int(i32::MIN)),
        (D::BigInt, Value::BigInt(i64::MAX)),
        (D::SmallMoney, Value::SmallMoney(-1)),
        (D::Money, Value::Money(-922_337_203_685_477)),
        (D::Real, Value::Real(-1.5)),
        (D::Float, Value::Float(1e300)),
        (D::Date, Value::Date(0)),
        (D::Date, Value::Date(3_652_058)),
        (
            D::SmallDateTime,
            Value::SmallDateTime(SmallDateTime {
                days: 65_535,
                minutes: 1439,
            }),
        ),
        (
            D::DateTime,
            Value::DateTime(DateTime {
                days: -53_690,
                ticks: 25_919_999,
            }),
        ),
        (D::Char(Len(3)), Value::str("abc")),
        (D::VarChar(Len(20)), Value::str("café €")),
        (D::VarChar(Len(20)), Value::str("")),
        (D::VARCHAR_MAX, Value::str("é".repeat(9000))),
        (D::VARCHAR_MAX, Value::str("")),
        (D::NChar(Len(3)), Value::str("añb")),
        (D::NVarChar(Len(4000)), Value::str("\u{1F600} smile")),
        (D::NVARCHAR_MAX, Value::str(&long)),
        (D::NVARCHAR_MAX, Value::str("")),
        (D::Text, Value::str("old text")),
        (D::NText, Value::str("old ñtext")),
        (D::Image, Value::Bytes(vec![1, 2, 3])),
        (D::Binary(Len(4)), Value::Bytes(vec![1, 2, 3, 4])),
        (D::VarBinary(Len(8)), Value::Bytes(vec![])),
        (D::VARBINARY_MAX, Value::Bytes(vec![7; 10_000])),
        (D::UniqueIdentifier, Value::Guid([9; 16])),
        (D::Xml, Value::str("<a>ü</a>")),
        (D::HierarchyId, Value::Bytes(vec![0x58])),
        (D::Geography, Value::Bytes(vec![1; 22])),
        (D::Geometry, Value::Bytes(vec![2; 22])),
        decimal(10_i128.pow(38) - 1, 38, 10),
        decimal(-(10_i128.pow(28) - 1), 28, 28),
        decimal(10_i128.pow(19) - 1, 19, 0),
        decimal(-999_999_999, 9, 9),
        decimal(0, 5, 2),
    ];
    for scale in 0..=7 {
        let unit = 10_u64.pow(7 - u32::from(scale));
        let ticks = 863_999_999_999 / unit * unit;
        let utc = at(738_000, ticks, scale);
        samples.push((D::Time { scale }, Value::Time(Time { ticks, scale })));
        samples.push((D::DateTime2 { scale }, Value::DateTime2(utc)));
        let offset = DateTimeOffset {
            utc,
            offset_minutes: -840,
        };
        samples.push((D::DateTimeOffset { scale }, Value::DateTimeOffset(offset)));
    }
    samples
}

#[test]
fn every_type_survives_as_column_and_parameter() {
    for (data_type, value) in samples() {
        for place in [Place::Column, Place::Parameter] {
            let info = TypeInfo::nullable(data_type, COLLATION);
            assert_eq!(info.data_type(), data_type);
            // Cutting a value of ten thousand bytes everywhere says no more than cutting a short one.
            if encoded(&info, place, &value).unwrap().len() < 1000 {
                assert_eq!(trip(&info, place, &value), value, "{data_type:?}");
            } else {
                let bytes = encoded(&info, place, &value).unwrap();
                assert_eq!(
                    decode_value(&info, place, &mut Reader::new(&bytes)).unwrap(),
                    value
                );
            }
            assert_eq!(
                trip(&info, place, &Value::Null),
                Value::Null,
                "{data_type:?}"
            );
        }
    }
}

#[test]
fn not_null_columns_use_fixed_types() {
    for (data_type, value) in samples() {
        let info = TypeInfo::for_column(data_type, false, COLLATION, TdsVersion::V7_4);
        let bytes = encoded(&info, Place::Column, &value).unwrap();
        assert_eq!(
            decode_value(&info, Place::Column, &mut Reader::new(&bytes)).unwrap(),
            value
        );
        assert_eq!(info.data_type(), data_type);
    }
    let info = TypeInfo::for_column(DataType::Int, false, COLLATION, TdsVersion::V7_4);
    assert_eq!(
        encoded(&info, Place::Column, &Value::Int(1)).unwrap(),
        [1, 0, 0, 0]
    );
    assert_eq!(
        encoded(&info, Place::Column, &Value::Null),
        Err(TdsError::NullNotAllowed)
    );
}

#[test]
fn every_type_a_variant_may_hold_survives_inside_one() {
    let info = TypeInfo::nullable(DataType::Variant, COLLATION);
    let may_be_held =
        |data_type: DataType| !data_type.is_large() && data_type != DataType::HierarchyId;
    for (data_type, value) in samples()
        .into_iter()
        .filter(|(data_type, _)| may_be_held(*data_type))
    {
        let variant = Value::Variant(Box::new(VariantValue { data_type, value }));
        assert_eq!(trip(&info, Place::Column, &variant), variant);
    }
    assert_eq!(trip(&info, Place::Column, &Value::Null), Value::Null);
}

#[test]
fn variants_do_not_hold_large_types() {
    let info = TypeInfo::nullable(DataType::Variant, COLLATION);
    let held = |data_type, value| {
        encoded(
            &info,
            Place::Column,
            &Value::Variant(Box::new(VariantValue { data_type, value })),
        )
    };
    for data_type in [DataType::Text, DataType::NText, DataType::Xml] {
        assert!(held(data_type, Value::str("x")).is_err(), "{data_type:?}");
    }
    assert!(held(DataType::Image, Value::Bytes(vec![1])).is_err());
    assert!(held(DataType::VARBINARY_MAX, Value::Bytes(vec![1; 8001])).is_err());
    assert!(held(DataType::VARBINARY_MAX, Value::Bytes(vec![1; 8000])).is_ok());
}

#[test]
fn plain_value_becomes_a_variant() {
    let info = TypeInfo::nullable(DataType::Variant, COLLATION);
    let bytes = encoded(&info, Place::Column, &Value::Int(7)).unwrap();
    assert_eq!(bytes, [6, 0, 0, 0, 0x38, 0, 7, 0, 0, 0]);
}

#[test]
fn worked_bytes() {
    let check = |data_type, value: Value, expected: &[u8]| {
        let info = TypeInfo::nullable(data_type, COLLATION);
        assert_eq!(
            encoded(&info, Place::Column, &value).unwrap(),
            expected,
            "{data_type:?}"
        );
    };
    let guid = [
        0xFF, 0x19, 0x96, 0x6F, 0x86, 0x8B, 0x11, 0xD0, 0xB4, 0x2D, 0, 0xC0, 0x4F, 0xC9, 0x64, 0xFF,
    ];
    let prefixed: Vec<u8> = [16].into_iter().chain(guid).collect();
    check(DataType::UniqueIdentifier, Value::Guid(guid), &prefixed);
    check(
        DataType::Money,
        Value::Money(0x1_0000_0002),
        &[8, 1, 0, 0, 0, 2, 0, 0, 0],
    );
    check(
        DataType::Decimal {
            precision: 5,
            scale: 2,
        },
        decimal(-100, 5, 2).1,
        &[5, 0, 100, 0, 0, 0],
    );
    check(
        DataType::Char(Len(3)),
        Value::str("a"),
        &[3, 0, b'a', b' ', b' '],
    );
    check(
        DataType::NChar(Len(2)),
        Value::str("a"),
        &[4, 0, b'a', 0, b' ', 0],
    );
    check(
        DataType::Binary(Len(2)),
        Value::Bytes(vec![5]),
        &[2, 0, 5, 0],
    );
    check(
        DataType::VarChar(Len(9)),
        Value::str("€ж"),
        &[2, 0, 0x80, b'?'],
    );
    check(DataType::VARBINARY_MAX, Value::Bytes(vec![]), &[0; 12]);
    let one_byte = [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0];
    check(DataType::VARBINARY_MAX, Value::Bytes(vec![9]), &one_byte);
    check(DataType::VARBINARY_MAX, Value::Null, &[0xFF; 8]);
}

#[test]
fn values_are_brought_to_the_declared_type() {
    let convert = |data_type, value| {
        let info = TypeInfo::nullable(data_type, COLLATION);
        let bytes = encoded(&info, Place::Column, &value)?;
        decode_value(&info, Place::Column, &mut Reader::new(&bytes))
    };
    let (d52, _) = decimal(0, 5, 2);
    let noon = DateTime2 {
        days: 693_595,
        ticks: 432_000_000_000,
        scale: 7,
    };
    let late = DateTime2 {
        days: 693_595,
        ticks: 863_999_999_999,
        scale: 7,
    };
    let cases = [
        (DataType::BigInt, Value::Int(-5), Value::BigInt(-5)),
        (DataType::TinyInt, Value::BigInt(200), Value::TinyInt(200)),
        (DataType::Int, decimal(1999, 5, 3).1, Value::Int(1)),
        (DataType::Int, Value::Float(-2.9), Value::Int(-2)),
        (DataType::Bit, Value::Int(7), Value::Bit(true)),
        (d52, Value::Int(3), decimal(300, 5, 2).1),
        (d52, decimal(12_345, 5, 3).1, decimal(1235, 5, 2).1),
        (d52, decimal(-12_345, 5, 3).1, decimal(-1235, 5, 2).1),
        (DataType::Money, Value::SmallMoney(-7), Value::Money(-7)),
        (DataType::Money, Value::Int(2), Value::Money(20_000)),
        (DataType::Float, decimal(25, 3, 1).1, Value::Float(2.5)),
        (DataType::Real, Value::Float(0.5), Value::Real(0.5)),
        (
            DataType::DateTime,
            Value::DateTime2(noon),
            Value::DateTime(DateTime {
                days: 0,
                ticks: 12_960_000,
            }),
        ),
        (
            DataType::DateTime,
            Value::DateTime2(late),
            Value::DateTime(DateTime { days: 1, ticks: 0 }),
        ),
        (
            DataType::SmallDateTime,
            Value::DateTime2(late),
            Value::SmallDateTime(SmallDateTime {
                days: 1,
                minutes: 0,
            }),
        ),
        (DataType::Date, Value::DateTime2(late), Value::Date(693_595)),
        (
            DataType::Time { scale: 0 },
            Value::DateTime2(late),
            Value::Time(Time { ticks: 0, scale: 0 }),
        ),
        (
            DataType::DateTime2 { scale: 7 },
            Value::DateTime(DateTime { days: 0, ticks: 1 }),
            Value::DateTime2(DateTime2 {
                days: 693_595,
                ticks: 33_333,
                scale: 7,
            }),
        ),
        (
            DataType::DateTime2 { scale: 7 },
            Value::DateTimeOffset(DateTimeOffset {
                utc: noon,
                offset_minutes: 60,
            }),
            Value::DateTime2(DateTime2 {
                ticks: 468_000_000_000,
                ..noon
            }),
        ),
        (
            DataType::NVarChar(Len(9)),
            Value::Int(-12),
            Value::str("-12"),
        ),
        (
            DataType::VarBinary(Len(16)),
            Value::Guid([1; 16]),
            Value::Bytes(vec![1; 16]),
        ),
        (
            DataType::Int,
            Value::Variant(Box::new(VariantValue {
                data_type: DataType::SmallInt,
                value: Value::SmallInt(4),
            })),
            Value::Int(4),
        ),
    ];
    for (data_type, value, expected) in cases {
        assert_eq!(
            convert(data_type, value.clone()),
            Ok(expected),
            "{value:?} as {data_type:?}"
        );
    }
    let refused = [
        (DataType::TinyInt, Value::Int(256)),
        (DataType::Int, Value::BigInt(1 << 40)),
        (DataType::Int, Value::Float(f64::NAN)),
        (DataType::Real, Value::Float(1e300)),
        (DataType::Int, Value::str("1")),
        (d52, Value::Int(1000)),
        (DataType::SmallMoney, Value::Money(i64::MAX)),
        (DataType::SmallDateTime, Value::Date(0)),
        (DataType::DateTime, Value::Date(i32::MAX)),
        (DataType::Date, Value::Date(-1)),
        (DataType::VarChar(Len(2)), Value::str("abc")),
        (DataType::UniqueIdentifier, Value::Bytes(vec![1])),
        (DataType::VarBinary(Len(4)), Value::str("abc")),
    ];
    for (data_type, value) in refused {
        assert!(
            convert(data_type, value.clone()).is_err(),
            "{value:?} as {data_type:?}"
        );
    }
}

#[test]
fn old_clients_get_types_they_know() {
    let known =
        |data_type, version| TypeInfo::for_column(data_type, true, COLLATION, version).data_type();
    assert_eq!(
        known(DataType::Date, TdsVersion::V7_2),
        DataType::NVarChar(Len(10))
    );
    assert_eq!(
        known(DataType::NVARCHAR_MAX, TdsVersion::V7_2),
        DataType::NVARCHAR_MAX
    );
    assert_eq!(
        known(DataType::NVARCHAR_MAX, TdsVersion::V7_1),
        DataType::NText
    );
    assert_eq!(
        known(DataType::VARCHAR_MAX, TdsVersion::V7_1Rev1),
        DataType::Text
    );
    assert_eq!(known(DataType::Xml, TdsVersion::V7_1), DataType::NText);
    assert_eq!(known(DataType::Geometry, TdsVersion::V7_1), DataType::Image);
    assert_eq!(known(DataType::Date, TdsVersion::V7_3A), DataType::Date);
}

#[test]
fn dates_as_text_for_old_clients() {
    let text = |data_type, value: Value| {
        let info = TypeInfo::for_column(data_type, true, COLLATION, TdsVersion::V7_2);
        let bytes = encoded(&info, Place::Column, &value).unwrap();
        decode_value(&info, Place::Column, &mut Reader::new(&bytes)).unwrap()
    };
    let utc = DateTime2 {
        days: 737_483,
        ticks: 372_300_000_000,
        scale: 2,
    };
    assert_eq!(
        text(DataType::Date, Value::Date(0)),
        Value::str("0001-01-01")
    );
    assert_eq!(
        text(DataType::Date, Value::Date(3_652_058)),
        Value::str("9999-12-31")
    );
    assert_eq!(
        text(DataType::Date, Value::Date(737_483)),
        Value::str("2020-02-29")
    );
    assert_eq!(
        text(DataType::DateTime2 { scale: 2 }, Value::DateTime2(utc)),
        Value::str("2020-02-29 10:20:30.00")
    );
    let offset = DateTimeOffset {
        utc,
        offset_minutes: -90,
    };
    let expected = Value::str("2020-02-29 08:50:30.00 -01:30");
    assert_eq!(
        text(
            DataType::DateTimeOffset { scale: 2 },
            Value::DateTimeOffset(offset)
        ),
        expected
    );
}

/// A client gets a value that it can read for whatever is stored, and no such value comes in.
#[test]
fn instants_outside_the_calendar() {
    let data_type = DataType::DateTimeOffset { scale: 2 };
    let at = |days, hours: u64, offset_minutes| DateTimeOffset {
        utc: DateTime2 {
            days,
            ticks: hours * 36_000_000_000,
            scale: 2,
        },
        offset_minutes,
    };
    for (value, expected) in [
        (at(-1, 15, 540), "0001-01-01 00:00:00.00 +00:00"),
        (at(3_652_059, 8, -480), "9999-12-31 23:59:59.00 +00:00"),
        (at(0, 1, -480), "0001-01-01 01:00:00.00 +00:00"),
        (at(3_652_058, 23, 480), "9999-12-31 23:00:00.00 +00:00"),
    ] {
        let sent = |version| {
            let info = TypeInfo::for_column(data_type, true, COLLATION, version);
            let value = Value::DateTimeOffset(value);
            let bytes = encoded(&info, Place::Column, &value).unwrap();
            decode_value(&info, Place::Column, &mut Reader::new(&bytes)).unwrap()
        };
        assert_eq!(sent(TdsVersion::V7_2), Value::str(expected));
        let Value::DateTimeOffset(read) = sent(TdsVersion::V7_4) else {
            panic!("{expected} came as another type");
        };
        assert_eq!(read.offset_minutes, 0, "{expected}");
    }
    let info = TypeInfo::for_column(data_type, true, COLLATION, TdsVersion::V7_4);
    let mut bytes = encoded(
        &info,
        Place::Column,
        &Value::DateTimeOffset(at(3_652_058, 23, 0)),
    )
    .unwrap();
    let offset = bytes.last_chunk_mut::<2>().unwrap();
    *offset = 480_i16.to_le_bytes();
    let read = decode_value(&info, Place::Column, &mut Reader::new(&bytes));
    assert!(matches!(read, Err(TdsError::OutOfRange { .. })), "{read:?}");
}

#[test]
fn collation_chooses_the_code_page() {
    let page = |bytes| WireCollation(bytes).code_page();
    assert_eq!(page([9, 4, 0xD0, 0, 0x34]), CodePage::LATIN1);
    assert_eq!(page([0x19, 4, 0xD0, 0, 0]), CodePage::from_number(1251));
    assert_eq!(page([0x11, 4, 0xD0, 0, 0]), CodePage::from_number(932));
    assert_eq!(page([9, 4, 0, 1, 30]), CodePage::from_number(437));
    assert_eq!(page(UTF8.0), CodePage::Utf8);
    assert_eq!(page([0; 5]), CodePage::LATIN1);
}

#[test]
fn every_collation_of_the_engine_reads_with_its_code_page() {
    for (id, name) in daruma_value::collation::all_names() {
        let wire = WireCollation::from(id);
        assert_eq!(
            wire.code_page(),
            CodePage::from_number(id.code_page()),
            "{name} {wire:?}"
        );
    }
}

#[test]
fn code_pages_both_ways() {
    let trip = |number, text: &str| {
        let mut bytes = Vec::new();
        let page = CodePage::from_number(number);
        page.encode(text, &mut bytes);
        assert_eq!(page.decode(&bytes), text, "{number}");
        bytes
    };
    assert_eq!(trip(437, "Ç■\u{A0}ß"), [0x80, 0xFE, 0xFF, 0xE1]);
    assert_eq!(trip(850, "Çı"), [0x80, 0xD5]);
    assert_eq!(trip(1252, "€ÿ"), [0x80, 0xFF]);
    assert_eq!(trip(932, "日本"), [0x93, 0xFA, 0x96, 0x7B]);
    assert_eq!(trip(65001, "日"), [0xE6, 0x97, 0xA5]);
    for number in [
        874, 936, 949, 950, 1250, 1251, 1253, 1254, 1255, 1256, 1257, 1258,
    ] {
        trip(number, "plain");
    }
    let mut bytes = Vec::new();
    CodePage::from_number(1251).encode("жéж日", &mut bytes);
    assert_eq!(bytes, [0xE6, b'?', 0xE6, b'?']);
}

#[test]
fn utf8_collation_counts_bytes() {
    let info = TypeInfo::nullable(DataType::VarChar(Len(5)), UTF8);
    assert_eq!(
        trip(&info, Place::Column, &Value::str("日é")),
        Value::str("日é")
    );
    assert!(encoded(&info, Place::Column, &Value::str("日日")).is_err());
}

#[test]
fn lone_surrogate_reads_as_replacement() {
    let info = TypeInfo::nullable(DataType::NVarChar(Len(9)), COLLATION);
    let bytes = [4, 0, 0x3D, 0xD8, b'a', 0];
    let value = decode_value(&info, Place::Column, &mut Reader::new(&bytes)).unwrap();
    assert_eq!(value, Value::str("\u{FFFD}a"));
    let odd = [3, 0, b'a', 0, b'b'];
    assert!(decode_value(&info, Place::Column, &mut Reader::new(&odd)).is_err());
}

#[test]
fn plp_chunks_may_split_a_character() {
    let info = TypeInfo::nullable(DataType::NVARCHAR_MAX, COLLATION);
    let unknown = u64::MAX - 1;
    let mut bytes = unknown.to_le_bytes().to_vec();
    for chunk in [&[b'a', 0, b'b'][..], &[0, b'c', 0]] {
        bytes.extend((chunk.len() as u32).to_le_bytes());
        bytes.extend(chunk);
    }
    bytes.extend([0; 4]);
    let value = decode_value(&info, Place::Parameter, &mut Reader::new(&bytes)).unwrap();
    assert_eq!(value, Value::str("abc"));
    bytes[..8].copy_from_slice(&5_u64.to_le_bytes());
    assert!(decode_value(&info, Place::Parameter, &mut Reader::new(&bytes)).is_err());
    bytes[..8].copy_from_slice(&7_u64.to_le_bytes());
    assert!(decode_value(&info, Place::Parameter, &mut Reader::new(&bytes)).is_err());
}

#[test]
fn old_short_types_read() {
    let read = |bytes: &[u8]| {
        let mut reader = Reader::new(bytes);
        let info = TypeInfo::decode(&mut reader, Place::Parameter).unwrap();
        decode_value(&info, Place::Parameter, &mut reader).unwrap()
    };
    assert_eq!(read(&[0x27, 10, 2, b'h', 0xE9]), Value::str("hé"));
    assert_eq!(read(&[0x25, 10, 1, 9]), Value::Bytes(vec![9]));
    assert_eq!(read(&[0x27, 10, 0]), Value::Null);
    assert_eq!(read(&[0x37, 17, 5, 2, 2, 1, 100]), decimal(100, 5, 2).1);
    assert_eq!(read(&[0x26, 8, 4, 5, 0, 0, 0]), Value::BigInt(5));
    assert_eq!(read(&[0x1F]), Value::Null);
}

#[test]
fn impossible_values_are_refused() {
    let refused = |bytes: &[u8]| {
        let mut reader = Reader::new(bytes);
        TypeInfo::decode(&mut reader, Place::Parameter)
            .and_then(|info| decode_value(&info, Place::Parameter, &mut reader))
            .is_err()
    };
    assert!(refused(&[0x26, 3, 0]), "INTN of 3 bytes");
    assert!(refused(&[0x6A, 17, 39, 0, 0]), "precision 39");
    assert!(refused(&[0x6A, 17, 5, 6, 0]), "scale above precision");
    assert!(refused(&[0x29, 8, 0]), "time(8)");
    assert!(
        refused(&[0x29, 0, 3, 0xFF, 0xFF, 0xFF]),
        "a time beyond midnight"
    );
    assert!(refused(&[0x28, 3, 0xFF, 0xFF, 0xFF]), "a date beyond 9999");
    assert!(refused(&[0x6F, 4, 4, 0, 0, 0xA0, 5]), "minute 1440");
    assert!(refused(&[0x6D, 4, 4, 0, 0, 0x80, 0x7F]), "infinity");
    assert!(refused(&[0xA5, 0x41, 0x1F, 0xFF, 0xFF]), "varbinary(8001)");
    assert!(
        refused(&[0x62, 0, 0, 0, 0, 3, 0, 0, 0, 0x22, 0, 0]),
        "an image in a variant"
    );
    let all_nines = [0xFF; 16];
    let too_many: Vec<u8> = [0x6A, 17, 38, 0, 17, 1]
        .into_iter()
        .chain(all_nines)
        .collect();
    assert!(refused(&too_many), "39 digits");
}

#[test]
fn failed_encode_leaves_no_trace() {
    let mut out = vec![1, 2];
    let info = TypeInfo::nullable(DataType::VarChar(Len(2)), COLLATION);
    assert!(
        ValueEncoder::new(&info, Place::Column)
            .encode(&Value::str("long"), &mut out)
            .is_err()
    );
    assert_eq!(out, [1, 2]);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), column in any::<bool>()) {
        let place = if column { Place::Column } else { Place::Parameter };
        let mut reader = Reader::new(&bytes);
        if let Ok(info) = TypeInfo::decode(&mut reader, place) {
            let _ = info.data_type();
            let _ = decode_value(&info, place, &mut reader);
        }
    }

    #[test]
    fn damaged_values_never_panic(which in 0_usize..60, at in 0_usize..40, with in any::<u8>()) {
        let samples = samples();
        let (data_type, value) = &samples[which % samples.len()];
        let info = TypeInfo::nullable(*data_type, COLLATION);
        let mut bytes = Vec::new();
        info.encode(Place::Parameter, &mut bytes);
        bytes.extend(encoded(&info, Place::Parameter, value).unwrap());
        if let Some(room) = bytes.get_mut(at) {
            *room = with;
        }
        let mut reader = Reader::new(&bytes);
        if let Ok(info) = TypeInfo::decode(&mut reader, Place::Parameter) {
            let _ = decode_value(&info, Place::Parameter, &mut reader);
        }
    }

    #[test]
    fn any_value_for_any_type_never_panics(value in 0_usize..60, data_type in 0_usize..60) {
        let samples = samples();
        let (declared, _) = samples[data_type % samples.len()];
        let (_, value) = &samples[value % samples.len()];
        let info = TypeInfo::nullable(declared, COLLATION);
        if let Ok(bytes) = encoded(&info, Place::Column, value) {
            prop_assert!(decode_value(&info, Place::Column, &mut Reader::new(&bytes)).is_ok());
        }
    }

    #[test]
    fn any_text_survives(text in ".{0,200}") {
        let value = Value::str(&text);
        for data_type in [DataType::NVARCHAR_MAX, DataType::NVarChar(Len(4000)), DataType::NText] {
            let info = TypeInfo::nullable(data_type, COLLATION);
            let bytes = encoded(&info, Place::Column, &value).unwrap();
            prop_assert_eq!(&decode_value(&info, Place::Column, &mut Reader::new(&bytes)).unwrap(), &value);
        }
    }
}
