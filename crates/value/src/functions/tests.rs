//! Golden table of function results.

use super::*;
use crate::Decimal;
use crate::convert::convert;

struct Host;

impl EvalHost for Host {
    fn random(&self, seed: Option<i32>) -> f64 {
        f64::from(seed.unwrap_or(0)) / 1000.0
    }

    fn new_guid(&self) -> [u8; 16] {
        [7; 16]
    }
}

fn context() -> EvalContext<'static> {
    EvalContext {
        // 2024-02-29 12:34:56.7890123
        now: DateTime2 {
            days: 738_944,
            ticks: 452_967_890_123,
            scale: 7,
        },
        zone_offset_minutes: 60,
        datefirst: 7,
        convert: ConvertContext::default(),
        host: &Host,
    }
}

fn types_of(args: &[Value]) -> Vec<DataType> {
    args.iter()
        .map(|v| match v {
            Value::Str(t) => DataType::VarChar(Len(t.len().max(1) as u16)),
            other => other.natural_type(),
        })
        .collect()
}

fn run(name: &str, args: &[Value]) -> Result<(Value, DataType), ValueError> {
    let def = lookup(name).unwrap_or_else(|| panic!("no function {name}"));
    let types = types_of(args);
    let result = def.result_type(&types)?;
    def.eval(args, &types, result, &context())
        .map(|v| (v, result))
}

fn show(name: &str, args: &[Value]) -> String {
    match run(name, args) {
        Err(e) => format!("Msg {}", e.number()),
        Ok((Value::Null, _)) => "NULL".into(),
        Ok((Value::Bytes(b), _)) => b.iter().map(|b| format!("{b:02x}")).collect(),
        Ok((v, t)) => {
            let style = if t.is_temporal() { Some(121) } else { None };
            let shown = convert(
                &v,
                t,
                DataType::NVARCHAR_MAX,
                style,
                &ConvertContext::default(),
            );
            shown
                .map(|s| s.as_str().unwrap_or_default().to_string())
                .unwrap_or_else(|e| e.to_string())
        }
    }
}

fn s(text: &str) -> Value {
    Value::str(text)
}

fn i(number: i32) -> Value {
    Value::Int(number)
}

fn l(number: i64) -> Value {
    Value::BigInt(number)
}

fn d(text: &str) -> Value {
    Value::Decimal(Decimal::parse_literal(text).expect(text))
}

fn f(number: f64) -> Value {
    Value::Float(number)
}

fn p(name: &str) -> Value {
    DatePart::parse(name).expect(name).to_value()
}

#[test]
fn strings() {
    for (name, args, expected) in [
        ("LEN", vec![s("abc  ")], "3"),
        ("DATALENGTH", vec![s("abc  ")], "5"),
        ("DATALENGTH", vec![i(1)], "4"),
        ("SUBSTRING", vec![s("abcdef"), i(2), i(3)], "bcd"),
        ("SUBSTRING", vec![s("abcdef"), i(-1), i(4)], "ab"),
        ("SUBSTRING", vec![s("abc"), i(1), i(-1)], "Msg 537"),
        ("SUBSTRING", vec![i(5), i(1), i(1)], "Msg 8116"),
        (
            "SUBSTRING",
            vec![Value::Bytes(vec![1, 2, 3]), i(2), i(9)],
            "0203",
        ),
        ("LEFT", vec![s("héllo"), i(2)], "hé"),
        ("LEFT", vec![i(12345), i(2)], "12"),
        ("RIGHT", vec![s("hello"), i(3)], "llo"),
        ("RIGHT", vec![s("hello"), i(-3)], "Msg 536"),
        ("CHARINDEX", vec![s("L"), s("hello")], "3"),
        ("CHARINDEX", vec![s("l"), s("hello"), i(4)], "4"),
        ("CHARINDEX", vec![s("x"), s("hello")], "0"),
        ("PATINDEX", vec![s("%[0-9]%"), s("abc9")], "4"),
        ("REPLACE", vec![s("aBc"), s("b"), s("xx")], "axxc"),
        ("STUFF", vec![s("abcdef"), i(2), i(3), s("XY")], "aXYef"),
        ("STUFF", vec![s("abc"), i(0), i(3), s("X")], "NULL"),
        ("STUFF", vec![s("abc"), i(1), i(1), Value::Null], "bc"),
        ("REPLICATE", vec![s("ab"), i(3)], "ababab"),
        ("REPLICATE", vec![s("ab"), i(-1)], "NULL"),
        ("SPACE", vec![i(3)], "   "),
        ("REVERSE", vec![s("abc")], "cba"),
        ("UPPER", vec![s("aé")], "AÉ"),
        ("TRIM", vec![s("  a ")], "a"),
        ("TRIM", vec![s("..a."), s(".")], "a"),
        ("LTRIM", vec![s("  a ")], "a "),
        ("CONCAT", vec![s("a"), Value::Null, i(5)], "a5"),
        ("CONCAT_WS", vec![s("-"), s("a"), Value::Null, i(5)], "a-5"),
        ("STR", vec![f(123.45), i(6), i(1)], " 123.5"),
        ("STR", vec![f(123.45), i(2), i(1)], "**"),
        ("STR", vec![f(2.5)], "         3"),
        ("ASCII", vec![s("A")], "65"),
        ("CHAR", vec![i(128)], "€"),
        ("CHAR", vec![i(256)], "NULL"),
        ("NCHAR", vec![i(8364)], "€"),
        ("UNICODE", vec![s("€")], "8364"),
        ("QUOTENAME", vec![s("a]b")], "[a]]b]"),
        ("QUOTENAME", vec![s("a'b"), s("'")], "'a''b'"),
        ("TRANSLATE", vec![s("2*[3+4]"), s("[]"), s("()")], "2*(3+4)"),
        ("TRANSLATE", vec![s("a"), s("ab"), s("c")], "Msg 9828"),
        ("STRING_ESCAPE", vec![s("a\"b\n"), s("json")], "a\\\"b\\n"),
        ("SOUNDEX", vec![s("Robert")], "R163"),
        ("SOUNDEX", vec![s("Ashcraft")], "A261"),
        ("DIFFERENCE", vec![s("Smith"), s("Smythe")], "4"),
        ("PARSENAME", vec![s("srv.db.[a.b].t"), i(2)], "a.b"),
        ("PARSENAME", vec![s("t"), i(2)], "NULL"),
    ] {
        assert_eq!(show(name, &args), expected, "{name} {args:?}");
    }
}

#[test]
fn mathematics() {
    for (name, args, expected) in [
        ("ABS", vec![i(-5)], "5"),
        ("ABS", vec![i(i32::MIN)], "Msg 8115"),
        ("ABS", vec![d("-1.50")], "1.50"),
        ("CEILING", vec![d("1.2")], "2"),
        ("FLOOR", vec![d("-1.2")], "-2"),
        ("FLOOR", vec![f(-1.2)], "-2"),
        ("ROUND", vec![d("123.4567"), i(2)], "123.4600"),
        ("ROUND", vec![d("123.4567"), i(2), i(1)], "123.4500"),
        ("ROUND", vec![i(1250), i(-2)], "1300"),
        ("ROUND", vec![f(2.345), i(1)], "2.3"),
        ("ROUND", vec![d("748.58"), i(-3)], "Msg 8115"),
        ("POWER", vec![i(2), i(10)], "1024"),
        ("POWER", vec![i(2), i(31)], "Msg 232"),
        ("POWER", vec![d("1.5"), i(2)], "2.3"),
        ("POWER", vec![f(2.0), f(0.5)], "1.41421"),
        ("SQRT", vec![i(16)], "4"),
        ("SQRT", vec![i(-1)], "Msg 3623"),
        ("LOG", vec![i(8), i(2)], "3"),
        ("LOG", vec![i(0)], "Msg 3623"),
        ("SIGN", vec![d("-1.5")], "-1.0"),
        ("PI", vec![], "3.14159"),
        ("DEGREES", vec![f(std::f64::consts::PI)], "180"),
        ("RAND", vec![i(500)], "0.5"),
        ("SQUARE", vec![s("3")], "9"),
        ("ABS", vec![Value::Date(1)], "Msg 8116"),
    ] {
        assert_eq!(show(name, &args), expected, "{name} {args:?}");
    }
}

#[test]
fn dates() {
    let day = || s("2024-02-29 13:14:15");
    for (name, args, expected) in [
        ("GETUTCDATE", vec![], "2024-02-29 12:34:56.790"),
        ("GETDATE", vec![], "2024-02-29 13:34:56.790"),
        ("SYSDATETIME", vec![], "2024-02-29 13:34:56.7890123"),
        (
            "SYSDATETIMEOFFSET",
            vec![],
            "2024-02-29 13:34:56.7890123 +01:00",
        ),
        (
            "DATEADD",
            vec![p("month"), i(1), day()],
            "2024-03-29 13:14:15.000",
        ),
        (
            "DATEADD",
            vec![p("day"), i(1), i(0)],
            "1900-01-02 00:00:00.000",
        ),
        ("DATEDIFF", vec![p("day"), s("2024-01-01"), day()], "59"),
        ("DATEDIFF", vec![p("ms"), s("1900-01-01"), day()], "Msg 535"),
        (
            "DATEDIFF_BIG",
            vec![p("ms"), s("1900-01-01"), s("1900-03-01")],
            "5097600000",
        ),
        ("DATEPART", vec![p("dw"), day()], "5"),
        ("DATENAME", vec![p("month"), day()], "February"),
        (
            "DATETRUNC",
            vec![p("month"), day()],
            "2024-02-01 00:00:00.0000000",
        ),
        ("YEAR", vec![day()], "2024"),
        ("EOMONTH", vec![day(), i(-1)], "2024-01-31"),
        (
            "SWITCHOFFSET",
            vec![s("2024-02-29 13:14:15 +00:00"), s("-05:00")],
            "2024-02-29 08:14:15.0000000 -05:00",
        ),
        (
            "TODATETIMEOFFSET",
            vec![day(), i(90)],
            "2024-02-29 13:14:15.0000000 +01:30",
        ),
        ("SWITCHOFFSET", vec![day(), s("15:00")], "Msg 9812"),
        (
            "SWITCHOFFSET",
            vec![s("9999-12-31 23:00 +00:00"), s("+08:00")],
            "Msg 9813",
        ),
        (
            "SWITCHOFFSET",
            vec![s("9999-12-31 23:00 +00:00"), s("+00:59")],
            "9999-12-31 23:59:00.0000000 +00:59",
        ),
        (
            "SWITCHOFFSET",
            vec![s("0001-01-01 01:00 +00:00"), s("-08:00")],
            "Msg 9813",
        ),
        (
            "SWITCHOFFSET",
            vec![s("0001-01-01 08:00 +00:00"), s("-08:00")],
            "0001-01-01 00:00:00.0000000 -08:00",
        ),
        (
            "TODATETIMEOFFSET",
            vec![s("9999-12-31 23:00"), s("-08:00")],
            "Msg 9813",
        ),
        ("DATEFROMPARTS", vec![i(2024), i(2), i(29)], "2024-02-29"),
        ("DATEFROMPARTS", vec![i(2023), i(2), i(29)], "Msg 289"),
        (
            "TIMEFROMPARTS",
            vec![i(1), i(2), i(3), i(4), i(1)],
            "01:02:03.4000000",
        ),
        (
            "DATETIMEFROMPARTS",
            vec![i(2024), i(1), i(2), i(3), i(4), i(5), i(6)],
            "2024-01-02 03:04:05.007",
        ),
        ("ISDATE", vec![s("2024-02-30")], "0"),
        ("ISDATE", vec![s("20240229")], "1"),
        ("ISDATE", vec![Value::Null], "0"),
        ("ISDATE", vec![s("")], "0"),
        ("ISDATE", vec![s("  ")], "0"),
        (
            "DATEADD",
            vec![p("day"), l(2_147_483_648), day()],
            "Msg 8115",
        ),
        (
            "DATEADD",
            vec![p("ms"), l(-2_147_483_649), day()],
            "Msg 8115",
        ),
        (
            "DATEADD",
            vec![p("day"), d("3000000000"), day()],
            "Msg 8115",
        ),
    ] {
        assert_eq!(show(name, &args), expected, "{name} {args:?}");
    }
}

#[test]
fn choice_and_hashes() {
    for (name, args, expected) in [
        ("ISNULL", vec![Value::Null, i(5)], "5"),
        ("COALESCE", vec![Value::Null, i(5), d("1.5")], "5.0"),
        ("NULLIF", vec![s("a"), s("A")], "NULL"),
        ("IIF", vec![Value::Bit(true), i(1), i(2)], "1"),
        ("CHOOSE", vec![i(2), s("a"), s("b")], "b"),
        ("GREATEST", vec![i(1), d("2.5"), Value::Null], "2.5"),
        ("LEAST", vec![s("b"), s("A")], "A"),
        ("ISNUMERIC", vec![s("-1.5e3")], "1"),
        ("ISNUMERIC", vec![s("$1,000")], "1"),
        ("ISNUMERIC", vec![s("1d5")], "1"),
        ("ISNUMERIC", vec![s("-1.5D-3")], "1"),
        ("ISNUMERIC", vec![s("1d5d3")], "0"),
        ("ISNUMERIC", vec![s("d")], "0"),
        ("ISNUMERIC", vec![s("abc")], "0"),
        ("ISNUMERIC", vec![s("")], "0"),
        ("ISNUMERIC", vec![s("  ")], "0"),
        ("ISNUMERIC", vec![s("\t")], "1"),
        ("ISNUMERIC", vec![s(" \r\n")], "1"),
        ("ISNUMERIC", vec![s("\u{b}")], "1"),
        ("ISNUMERIC", vec![s("\u{c}")], "1"),
        ("ISNUMERIC", vec![s("\u{a0}")], "1"),
        ("ISNUMERIC", vec![s("\t1\n")], "1"),
        ("ISNUMERIC", vec![s("\ta")], "0"),
        ("BINARY_CHECKSUM", vec![s("abc")], "26435"),
        ("CHECKSUM", vec![i(7)], "7"),
        (
            "HASHBYTES",
            vec![s("MD5"), s("abc")],
            "900150983cd24fb0d6963f7d28e17f72",
        ),
        (
            "HASHBYTES",
            vec![s("SHA1"), s("abc")],
            "a9993e364706816aba3e25717850c26c9cd0d89d",
        ),
        ("NEWID", vec![], "07070707-0707-0707-0707-070707070707"),
    ] {
        assert_eq!(show(name, &args), expected, "{name} {args:?}");
    }
    assert_eq!(
        show("CHECKSUM", &[s("ABC")]),
        show("CHECKSUM", &[s("abc ")])
    );
}

#[test]
fn formats() {
    let at = convert(
        &s("2024-02-09 13:04:05.678"),
        DataType::VarChar(Len(30)),
        DataType::DateTime2 { scale: 3 },
        None,
        &ConvertContext::default(),
    )
    .expect("datetime2");
    for (value, pattern, expected) in [
        (d("1234567.891"), "N", "1,234,567.89"),
        (d("1234567.895"), "N2", "1,234,567.90"),
        (d("-1234.5"), "C", "($1,234.50)"),
        (d("0.1234"), "P1", "12.3%"),
        (i(42), "D5", "00042"),
        (i(255), "X", "FF"),
        (f(12345.678), "E2", "1.23E+004"),
        (d("1234.5"), "#,##0.00", "1,234.50"),
        (d("0.5"), "0.##", "0.5"),
        (d("0.5"), "#.00", ".50"),
        (d("-5"), "0;(0)", "(5)"),
        (i(123), "00000", "00123"),
        (d("0.256"), "0.0%", "25.6%"),
        (i(123456789), "###-##-####", "123-45-6789"),
        (
            at.clone(),
            "yyyy-MM-dd HH:mm:ss.fff",
            "2024-02-09 13:04:05.678",
        ),
        (at.clone(), "d", "2/9/2024"),
        (at.clone(), "D", "Friday, February 9, 2024"),
        (at.clone(), "ddd d MMM yy, h:mm tt", "Fri 9 Feb 24, 1:04 PM"),
        (at.clone(), "s", "2024-02-09T13:04:05"),
        (at, "Q", "NULL"),
    ] {
        assert_eq!(
            show("FORMAT", &[value.clone(), s(pattern)]),
            expected,
            "{value:?} {pattern}"
        );
    }
    assert_eq!(show("FORMAT", &[i(1), s("N"), s("??")]), "Msg 9818");
    assert_eq!(show("FORMAT", &[s("1"), s("N")]), "Msg 8116");
}

#[test]
fn counts_and_names() {
    let count =
        |name: &str, n| lookup(name).map(|def| def.check_count(n).map_err(|e| e.to_string()));
    assert_eq!(count("len", 1), Some(Ok(())));
    assert_eq!(
        count("Len", 2),
        Some(Err("The len function requires 1 argument(s).".into()))
    );
    assert_eq!(
        count("SUBSTRING", 1),
        Some(Err(
            "The substring function requires 2 to 3 arguments.".into()
        ))
    );
    assert!(lookup("NO_SUCH").is_none());
    assert!(lookup("GETDATE").is_some_and(|def| !def.is_deterministic));
    for (name, args) in [
        ("LEN", vec![Value::Null]),
        ("DATEADD", vec![p("day"), Value::Null, s("2024-01-01")]),
        ("POWER", vec![i(1), Value::Null]),
    ] {
        assert_eq!(show(name, &args), "NULL", "{name}");
    }
}

#[test]
fn result_types() {
    use DataType::*;
    let of = |name: &str, types: &[DataType]| {
        lookup(name)
            .expect(name)
            .result_type(types)
            .map_err(|e| e.number())
    };
    assert_eq!(of("LEFT", &[NVarChar(Len(10)), Int]), Ok(NVarChar(Len(10))));
    assert_eq!(
        of(
            "REPLACE",
            &[VarChar(Len(10)), VarChar(Len(1)), NVarChar(Len(1))]
        ),
        Ok(NVarChar(Len(4000)))
    );
    assert_eq!(of("LEN", &[DataType::VARCHAR_MAX]), Ok(BigInt));
    assert_eq!(
        of(
            "ROUND",
            &[
                DataType::Decimal {
                    precision: 9,
                    scale: 2
                },
                Int
            ]
        ),
        Ok(DataType::Decimal {
            precision: 9,
            scale: 2
        })
    );
    assert_eq!(
        of(
            "CEILING",
            &[DataType::Decimal {
                precision: 9,
                scale: 2
            }]
        ),
        Ok(DataType::Decimal {
            precision: 9,
            scale: 0
        })
    );
    assert_eq!(of("DATEADD", &[TinyInt, Int, Date]), Ok(Date));
    assert_eq!(of("CONCAT", &[VarChar(Len(3)), Int]), Ok(VarChar(Len(15))));
    assert_eq!(of("COALESCE", &[Int, BigInt]), Ok(BigInt));
    assert_eq!(of("FORMAT", &[VarChar(Len(3)), VarChar(Len(3))]), Err(8116));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(20_000))]
    #[test]
    fn a_result_fits_its_type(
        at in proptest::prelude::any::<proptest::sample::Index>(),
        args in proptest::collection::vec(crate::testing::typed_value(), 0..10),
    ) {
        let functions: Vec<_> = all().collect();
        let def = functions[at.index(functions.len())];
        let count = args.len().clamp(def.args_min, def.args_max).min(args.len());
        let (mut types, mut values): (Vec<_>, Vec<_>) = args.into_iter().take(count).unzip();
        if def.takes_date_part && !values.is_empty() {
            types[0] = DataType::TinyInt;
            values[0] = DatePart::ALL[at.index(15)].to_value();
        }
        if let Ok(result) = def.result_type(&types)
            && let Ok(value) = def.eval(&values, &types, result, &context())
        {
            proptest::prop_assert!(crate::testing::fits(&value, result), "{}({:?}) as {} gave {:?}", def.name, values, result, value);
        }
    }
}
