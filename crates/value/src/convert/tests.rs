//! Golden tables of conversions and their errors.

use super::*;
use crate::{DateTime, Decimal, Len};
use DataType as T;

const C: ConvertContext = ConvertContext {
    date_format: DateFormat::Mdy,
    collation: CollationId::DEFAULT,
};

const fn vc(n: u16) -> DataType {
    T::VarChar(Len(n))
}

const fn nvc(n: u16) -> DataType {
    T::NVarChar(Len(n))
}

const fn dec(precision: u8, scale: u8) -> DataType {
    T::Decimal { precision, scale }
}

fn cast(value: Value, from: DataType, to: DataType) -> Result<Value, String> {
    convert(&value, from, to, None, &C).map_err(|e| format!("Msg {}: {e}", e.number()))
}

/// Text through a type and back to text.
fn through(text: &str, to: DataType) -> Result<String, String> {
    let value = cast(Value::str(text), vc(100), to)?;
    let style = match to {
        T::Money | T::SmallMoney => Some(2),
        T::Float | T::Real => Some(3),
        T::Binary(_) | T::VarBinary(_) => Some(1),
        t if t.is_temporal() => Some(121),
        _ => None,
    };
    let shown = convert(&value, to, T::VARCHAR_MAX, style, &C).map_err(|e| e.to_string())?;
    Ok(shown.as_str().unwrap_or("NULL").to_string())
}

#[test]
fn text_to_everything() {
    for (text, to, expected) in [
        (" 42 ", T::Int, "42"),
        ("-7", T::SmallInt, "-7"),
        ("", T::Int, "0"),
        ("true", T::Bit, "1"),
        ("200", T::Bit, "1"),
        ("12.345", dec(6, 2), "12.35"),
        ("-.5", dec(3, 1), "-0.5"),
        ("$1,234.56789", T::Money, "1234.5679"),
        ("-$5", T::SmallMoney, "-5.0000"),
        ("1.5e3", T::Float, "1500"),
        ("2024-01-31", T::Date, "2024-01-31"),
        (
            "20240131 14:15:16.789",
            T::DateTime,
            "2024-01-31 14:15:16.790",
        ),
        (
            "Jan 31 2024 2:15PM",
            T::SmallDateTime,
            "2024-01-31 14:15:00.000",
        ),
        (
            "2024-01-31T14:15:16.7891234",
            T::DateTime2 { scale: 3 },
            "2024-01-31 14:15:16.789",
        ),
        (
            "2024-01-31 14:15 +01:00",
            T::DateTimeOffset { scale: 0 },
            "2024-01-31 14:15:00 +01:00",
        ),
        ("14:15:16.99", T::Time { scale: 0 }, "14:15:17"),
        (
            "6f9619ff-8b86-d011-b42d-00c04fc964ff",
            T::UniqueIdentifier,
            "6F9619FF-8B86-D011-B42D-00C04FC964FF",
        ),
        ("abc", vc(2), "ab"),
        ("abc", T::Char(Len(5)), "abc  "),
        ("ab", T::VarBinary(Len(10)), "0x6162"),
        ("ab", T::Binary(Len(3)), "0x616200"),
    ] {
        assert_eq!(
            through(text, to).as_deref(),
            Ok(expected),
            "{text:?} to {to}"
        );
    }
}

#[test]
fn text_that_does_not_convert() {
    for (text, to, expected) in [
        (
            "abc",
            T::Int,
            "Msg 245: Conversion failed when converting the varchar value 'abc' to data type int.",
        ),
        (
            "1.5",
            T::Int,
            "Msg 245: Conversion failed when converting the varchar value '1.5' to data type int.",
        ),
        (
            "abc",
            T::BigInt,
            "Msg 8114: Error converting data type varchar to bigint.",
        ),
        (
            "3000000000",
            T::Int,
            "Msg 248: The conversion of the varchar value '3000000000' overflowed an int column.",
        ),
        (
            "300",
            T::TinyInt,
            "Msg 244: The conversion of the varchar value '300' overflowed an INT1 column. Use a larger integer column.",
        ),
        (
            "40000",
            T::SmallInt,
            "Msg 244: The conversion of the varchar value '40000' overflowed an INT2 column. Use a larger integer column.",
        ),
        (
            "99999999999999999999",
            T::BigInt,
            "Msg 8115: Arithmetic overflow error converting expression to data type bigint.",
        ),
        (
            "abc",
            dec(5, 2),
            "Msg 8114: Error converting data type varchar to numeric.",
        ),
        (
            "12345",
            dec(5, 2),
            "Msg 8115: Arithmetic overflow error converting varchar to data type numeric.",
        ),
        (
            "abc",
            T::Float,
            "Msg 8114: Error converting data type varchar to float.",
        ),
        (
            "abc",
            T::Money,
            "Msg 235: Cannot convert a char value to money. The char value has incorrect syntax.",
        ),
        (
            "abc",
            T::DateTime,
            "Msg 241: Conversion failed when converting date and/or time from character string.",
        ),
        (
            "2024-13-01",
            T::DateTime,
            "Msg 242: The conversion of a varchar data type to a datetime data type resulted in an out-of-range value.",
        ),
        (
            "1700-01-01",
            T::DateTime,
            "Msg 242: The conversion of a varchar data type to a datetime data type resulted in an out-of-range value.",
        ),
        (
            "2024-13-01",
            T::Date,
            "Msg 241: Conversion failed when converting date and/or time from character string.",
        ),
        (
            "abc",
            T::SmallDateTime,
            "Msg 295: Conversion failed when converting character string to smalldatetime data type.",
        ),
        (
            "2100-01-01",
            T::SmallDateTime,
            "Msg 242: The conversion of a varchar data type to a smalldatetime data type resulted in an out-of-range value.",
        ),
        (
            "abc",
            T::UniqueIdentifier,
            "Msg 8169: Conversion failed when converting from a character string to uniqueidentifier.",
        ),
        (
            "yes",
            T::Bit,
            "Msg 245: Conversion failed when converting the varchar value 'yes' to data type bit.",
        ),
    ] {
        assert_eq!(
            cast(Value::str(text), vc(50), to),
            Err(expected.into()),
            "{text:?} to {to}"
        );
    }
}

#[test]
fn numbers_to_numbers() {
    let d = |t: &str| Value::Decimal(Decimal::parse_literal(t).expect(t));
    for (value, from, to, expected) in [
        (
            Value::Int(300),
            T::Int,
            T::SmallInt,
            Ok(Value::SmallInt(300)),
        ),
        (
            Value::Int(300),
            T::Int,
            T::TinyInt,
            Err("Msg 220: Arithmetic overflow error for data type tinyint, value = 300."),
        ),
        (
            Value::BigInt(1 << 40),
            T::BigInt,
            T::Int,
            Err("Msg 8115: Arithmetic overflow error converting expression to data type int."),
        ),
        (d("2.99"), dec(3, 2), T::Int, Ok(Value::Int(2))),
        (
            d("3000000000"),
            dec(10, 0),
            T::Int,
            Err("Msg 8115: Arithmetic overflow error converting numeric to data type int."),
        ),
        (Value::Money(25_000), T::Money, T::Int, Ok(Value::Int(3))),
        (Value::Float(-2.9), T::Float, T::Int, Ok(Value::Int(-2))),
        (
            Value::Float(3e9),
            T::Float,
            T::Int,
            Err("Msg 232: Arithmetic overflow error for type int, value = 3000000000.000000."),
        ),
        (
            Value::Int(12345),
            T::Int,
            dec(4, 0),
            Err("Msg 8115: Arithmetic overflow error converting int to data type numeric."),
        ),
        (
            d("123.456"),
            dec(6, 3),
            dec(5, 1),
            Ok(Value::Decimal(Decimal::new(1235, 5, 1))),
        ),
        (
            d("123.456"),
            dec(6, 3),
            dec(3, 1),
            Err("Msg 8115: Arithmetic overflow error converting numeric to data type numeric."),
        ),
        (
            Value::Float(0.1),
            T::Float,
            dec(5, 4),
            Ok(Value::Decimal(Decimal::new(1000, 5, 4))),
        ),
        (
            Value::Float(1.00005),
            T::Float,
            T::Money,
            Ok(Value::Money(10_001)),
        ),
        (Value::Int(2), T::Int, T::Bit, Ok(Value::Bit(true))),
        (
            Value::Float(1e300),
            T::Float,
            T::Real,
            Err(
                "Msg 232: Arithmetic overflow error for type real, value = 1000000000000000052504760255204420248704468581108159154915854115111802457988908195786371375080447854045104.000000.",
            ),
        ),
    ] {
        let result = cast(value.clone(), from, to);
        let expected = expected.map_err(String::from);
        match (&result, &expected) {
            (Err(found), Err(wanted)) if wanted.contains("real") => {
                assert!(found.starts_with("Msg 232"), "{found}")
            }
            _ => assert_eq!(result, expected, "{value:?} to {to}"),
        }
    }
}

#[test]
fn numbers_to_text() {
    let shown = |value: Value, from, to, style| {
        convert(&value, from, to, style, &C)
            .map(|v| v.as_str().unwrap_or_default().to_string())
            .map_err(|e| e.number())
    };
    assert_eq!(
        shown(Value::Int(12345), T::Int, vc(3), None),
        Ok("*".into())
    );
    assert_eq!(shown(Value::Int(12345), T::Int, nvc(3), None), Err(8115));
    assert_eq!(
        shown(
            Value::Decimal(Decimal::new(12345, 5, 2)),
            dec(5, 2),
            vc(3),
            None
        ),
        Err(8115)
    );
    assert_eq!(
        shown(Value::Money(12_345_678), T::Money, vc(20), None),
        Ok("1234.57".into())
    );
    assert_eq!(
        shown(Value::Money(12_345_678), T::Money, vc(20), Some(1)),
        Ok("1,234.57".into())
    );
    assert_eq!(
        shown(Value::Money(-5), T::Money, vc(20), Some(2)),
        Ok("-0.0005".into())
    );
    assert_eq!(
        shown(Value::Money(12_345_678), T::Money, vc(3), None),
        Err(234)
    );
    for (value, style, expected) in [
        (1.5, 0, "1.5"),
        (123_456_789.0, 0, "1.23457e+008"),
        (0.0001, 0, "0.0001"),
        (0.00001, 0, "1e-005"),
        (1e10, 0, "1e+010"),
        (100_000.0, 0, "100000"),
        (1.5, 1, "1.5000000e+000"),
        (1.5, 2, "1.500000000000000e+000"),
        (0.1, 3, "0.1"),
    ] {
        assert_eq!(
            shown(Value::Float(value), T::Float, vc(30), Some(style)),
            Ok(expected.into()),
            "{value} {style}"
        );
    }
}

#[test]
fn dates_numbers_and_bytes() {
    let noon = Value::DateTime(DateTime {
        days: 1,
        ticks: 12_960_000,
    });
    assert_eq!(cast(noon.clone(), T::DateTime, T::Int), Ok(Value::Int(2)));
    assert_eq!(
        cast(noon.clone(), T::DateTime, T::Float),
        Ok(Value::Float(1.5))
    );
    assert_eq!(
        cast(Value::Float(1.5), T::Float, T::DateTime),
        Ok(noon.clone())
    );
    assert_eq!(
        cast(noon.clone(), T::DateTime, T::VarBinary(Len(8))),
        Ok(Value::Bytes(vec![0, 0, 0, 1, 0, 0xC5, 0xC1, 0]))
    );
    assert_eq!(
        cast(
            Value::Bytes(vec![0, 0, 0, 1, 0, 0xC5, 0xC1, 0]),
            T::VarBinary(Len(8)),
            T::DateTime
        ),
        Ok(noon)
    );
    assert_eq!(
        cast(Value::Int(258), T::Int, T::Binary(Len(2))),
        Ok(Value::Bytes(vec![1, 2]))
    );
    assert_eq!(
        cast(Value::Int(1), T::Int, T::Binary(Len(6))),
        Ok(Value::Bytes(vec![0, 0, 0, 0, 0, 1]))
    );
    assert_eq!(
        cast(Value::Bytes(vec![1, 2]), T::VarBinary(Len(2)), T::Int),
        Ok(Value::Int(258))
    );
    assert_eq!(
        cast(Value::str("é"), nvc(1), T::VarBinary(Len(4))),
        Ok(Value::Bytes(vec![0xE9, 0]))
    );
    assert_eq!(
        cast(Value::str("é"), vc(1), T::VarBinary(Len(4))),
        Ok(Value::Bytes(vec![0xE9]))
    );
    let d = Value::Decimal(Decimal::new(-12345, 7, 2));
    let bytes = cast(d.clone(), dec(7, 2), T::VarBinary(Len(20))).expect("bytes");
    assert_eq!(cast(bytes, T::VarBinary(Len(20)), dec(7, 2)), Ok(d));
    let hex = |t: &str, style| {
        convert(
            &Value::str(t),
            vc(20),
            T::VarBinary(Len(9)),
            Some(style),
            &C,
        )
        .map_err(|e| e.number())
    };
    assert_eq!(hex("0x0aFF", 1), Ok(Value::Bytes(vec![10, 255])));
    assert_eq!(hex("0AFF", 2), Ok(Value::Bytes(vec![10, 255])));
    assert_eq!(hex("0AF", 2), Err(8114));
}

#[test]
fn lengths_at_assignment() {
    let name = ColumnName {
        table: "db.dbo.t",
        column: "c",
    };
    let fit = |text: &str, to| {
        fit_to_column(Value::str(text), vc(50), to, &C, Some(name)).map_err(|e| e.to_string())
    };
    assert_eq!(fit("abc  ", vc(3)), Ok(Value::str("abc")));
    assert_eq!(
        fit("abcdef", vc(3)),
        Err("String or binary data would be truncated in table 'db.dbo.t', column 'c'. Truncated value: 'abc'.".into())
    );
    assert_eq!(fit("é", T::NChar(Len(3))), Ok(Value::str("é  ")));
    assert_eq!(
        fit_to_column(
            Value::Bytes(vec![1, 2, 3]),
            T::VarBinary(Len(9)),
            T::VarBinary(Len(2)),
            &C,
            None
        )
        .map_err(|e| e.number()),
        Err(8152)
    );
    assert_eq!(
        cast(Value::str("😀😀"), nvc(9), nvc(3)),
        Ok(Value::str("😀"))
    );
    assert_eq!(
        cast(Value::str("日本"), nvc(9), vc(9)),
        Ok(Value::str("??"))
    );
    assert_eq!(
        cast(Value::str("日本"), vc(9), vc(9)),
        Ok(Value::str("日本"))
    );
}

#[test]
fn impossible_and_variant() {
    assert_eq!(
        cast(Value::Date(1), T::Date, T::Int),
        Err("Msg 529: Explicit conversion from data type date to int is not allowed.".into())
    );
    let v = cast(Value::Int(5), T::Int, T::Variant).expect("variant");
    assert_eq!(cast(v.clone(), T::Variant, T::BigInt), Ok(Value::BigInt(5)));
    assert_eq!(cast(v, T::Variant, vc(5)), Ok(Value::str("5")));
    assert_eq!(
        try_convert(&Value::str("x"), vc(1), T::Int, None, &C),
        Ok(Value::Null)
    );
    assert!(try_convert(&Value::Date(1), T::Date, T::Int, None, &C).is_err());
    assert_eq!(cast(Value::Null, T::Int, vc(1)), Ok(Value::Null));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(4000))]
    #[test]
    fn a_result_fits_its_type((from, value) in crate::testing::typed_value(), to in crate::testing::any_type(), style in proptest::option::of(-1i32..132)) {
        if let Ok(converted) = convert(&value, from, to, style, &C) {
            proptest::prop_assert!(crate::testing::fits(&converted, to), "{:?} {} to {} gave {:?}", value, from, to, converted);
        }
        if let Ok(assigned) = fit_to_column(value.clone(), from, to, &C, None) {
            proptest::prop_assert!(crate::testing::fits(&assigned, to), "{:?} {} into {} gave {:?}", value, from, to, assigned);
        }
    }

    #[test]
    fn text_forms_read_back((from, value) in crate::testing::typed_value()) {
        // Every type whose text form is exact returns to the same value.
        let style = match from {
            T::Real | T::Float => Some(3),
            T::Money | T::SmallMoney => Some(2),
            T::Binary(_) | T::VarBinary(_) => Some(1),
            T::DateTime => Some(126),
            t if t.is_numeric() || t.is_temporal() || t == T::UniqueIdentifier => None,
            _ => return Ok(()),
        };
        if matches!((from, &value), (T::Binary(_), Value::Bytes(b)) if b.len() != 3) {
            return Ok(());
        }
        let text = convert(&value, from, T::NVARCHAR_MAX, style, &C).expect("text");
        let back = convert(&text, T::NVARCHAR_MAX, from, style, &C);
        proptest::prop_assert_eq!(back.as_ref().ok(), Some(&value), "{:?}", text);
    }
}
