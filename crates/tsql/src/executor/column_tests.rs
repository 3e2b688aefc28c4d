//! Columns against rows: random expressions and conditions give the same values, totals and errors both ways.
//!
//! A plain SELECT evaluates row by row; an aggregate over the same scan reads columns.

use crate::dml::tests::{INT, TableBuilder, TestHost, varchar};
use daruma_value::{DataType, Decimal, Value};

/// A small generator of pseudo-random numbers; a failing test names its seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

const ROWS: usize = 700;

fn host(chance: &mut Chance) -> TestHost {
    let host = TestHost::new();
    let decimal = |precision, scale| DataType::Decimal { precision, scale };
    TableBuilder::new("t")
        .column("id", INT, false)
        .column("a", DataType::SmallInt, true)
        .column("b", INT, true)
        .column("g", DataType::BigInt, false)
        .column("m", DataType::Money, true)
        .column("d", decimal(12, 2), true)
        .column("w", decimal(30, 4), true)
        .column("f", DataType::Float, true)
        .column("s", varchar(20), true)
        .column("dt", DataType::DateTime, true)
        .primary(&[0])
        .create(&host);
    for chunk in 0..ROWS / 100 {
        let mut values = Vec::new();
        for id in chunk * 100..(chunk + 1) * 100 {
            let mut cell = |text: String| {
                if chance.below(8) == 0 {
                    "NULL".to_string()
                } else {
                    text
                }
            };
            let n = id * 7919 % 1009;
            values.push(format!(
                "({id}, {}, {}, {}, {}, {}, {}, {}, {}, {})",
                cell((n as i64 % 37 - 18).to_string()),
                cell((n as i64 * 3 - 1500).to_string()),
                n % 11,
                cell(format!("{}.{:04}", n % 90, n * 13 % 10_000)),
                cell(format!("-{}.{:02}", n % 70, n % 100)),
                cell(format!("{}.{:04}", n * 1_000_003, n)),
                cell(format!("{}e{}", n % 19, n % 5)),
                cell(format!("'text {}'", n % 23)),
                cell(format!("'2020-01-{:02}'", n % 28 + 1)),
            ));
        }
        host.ok(&format!("INSERT INTO t VALUES {}", values.join(", ")));
    }
    host
}

fn number(chance: &mut Chance, depth: usize) -> String {
    if depth == 0 {
        return chance
            .pick(&[
                "a",
                "b",
                "g",
                "m",
                "d",
                "w",
                "f",
                "id",
                "1",
                "7",
                "-3",
                "2.5",
                "$1.25",
                "1e2",
                "NULL",
                "CAST(3 AS bigint)",
            ])
            .to_string();
    }
    let (x, y) = (number(chance, depth - 1), number(chance, depth - 1));
    match chance.below(9) {
        0 => format!("({x} + {y})"),
        1 => format!("({x} - {y})"),
        2 => format!("({x} * {y})"),
        3 => format!("({x} / NULLIF({y}, 0))"),
        4 => format!("(-({x}))"),
        5 => format!("CASE WHEN {} THEN {x} ELSE {y} END", condition(chance, 0)),
        6 => format!(
            "CAST({x} AS {})",
            chance.pick(&["bigint", "float", "decimal(38, 8)", "money", "int"])
        ),
        7 => format!("ABS({x})"),
        _ => format!("COALESCE({x}, {y})"),
    }
}

fn condition(chance: &mut Chance, depth: usize) -> String {
    if depth > 0 {
        let (x, y) = (condition(chance, depth - 1), condition(chance, depth - 1));
        return match chance.below(4) {
            0 => format!("({x} AND {y})"),
            1 => format!("({x} OR {y})"),
            2 => format!("NOT ({x})"),
            _ => x,
        };
    }
    let level = chance.below(2);
    match chance.below(8) {
        0 => format!("{} IS NULL", number(chance, level)),
        1 => format!("{} IS NOT NULL", number(chance, 0)),
        2 => "s LIKE 'text 1%'".to_string(),
        3 => format!("s {} 'text 15'", chance.pick(&["=", "<", ">="])),
        4 => format!("dt {} '2020-01-15'", chance.pick(&["=", "<", ">=", "<>"])),
        5 => format!("b IN (3, -1497, {}, NULL)", chance.below(1500)),
        _ => format!(
            "{} {} {}",
            number(chance, level),
            chance.pick(&["=", "<>", "<", "<=", ">", ">="]),
            number(chance, level)
        ),
    }
}

/// Number of the error, or the rows.
fn run(host: &TestHost, sql: &str) -> Result<Vec<Vec<Value>>, i32> {
    host.run(sql).map(|r| r.0).map_err(|e| e.number)
}

#[test]
fn expressions_agree() {
    let mut chance = Chance(20_261_122);
    let host = host(&mut chance);
    let mut compared = 0;
    for case in 0..400 {
        let (depth, filters) = (chance.below(4), chance.below(3));
        let value = number(&mut chance, depth);
        let filter = condition(&mut chance, filters);
        let by_row = run(
            &host,
            &format!("SELECT id, {value} FROM t WHERE {filter} ORDER BY id"),
        );
        let by_column = run(
            &host,
            &format!("SELECT id, MAX({value}) FROM t WHERE {filter} GROUP BY id ORDER BY id"),
        );
        match (&by_row, &by_column) {
            (Ok(rows), Ok(columns)) => {
                assert_eq!(rows, columns, "case {case}: {value} WHERE {filter}");
                compared += rows.len();
            }
            // An error in another row may come first; and a bare NULL cannot be aggregated.
            (Err(_), Err(_)) | (Ok(_), Err(8117)) => {}
            _ => panic!("case {case}: {value} WHERE {filter}: {by_row:?} {by_column:?}"),
        }
    }
    assert!(compared > 20_000, "{compared} rows compared");
}

/// Exact sum of decimals, money or integers.
fn exact(values: &[Value]) -> Option<i128> {
    let scale = values
        .iter()
        .filter_map(Value::as_decimal)
        .map(|d| d.scale)
        .max()?;
    let lift = |d: Decimal| d.rescale(38, scale).map(Decimal::unscaled);
    let sum: Result<i128, _> = values.iter().filter_map(Value::as_decimal).map(lift).sum();
    sum.ok()
}

#[test]
fn totals_agree() {
    let mut chance = Chance(7);
    let host = host(&mut chance);
    for column in ["a", "b", "g", "m", "d", "w", "id"] {
        for key in ["g", "a", "s", "m", "dt", "g, s", "f"] {
            let filter = condition(&mut chance, 1);
            let sql = format!(
                "SELECT COUNT(*), COUNT({column}), SUM({column}), MIN({column}), MAX({column}), COUNT(DISTINCT {column}), {key} \
                 FROM t WHERE {filter} GROUP BY {key}"
            );
            let Ok(groups) = run(&host, &sql) else {
                continue;
            };
            let detail = run(
                &host,
                &format!("SELECT {column}, {key} FROM t WHERE {filter}"),
            );
            let detail = detail.unwrap();
            let mut seen = 0;
            for group in &groups {
                let key = &group[6..];
                let own: Vec<Value> = detail
                    .iter()
                    .filter(|r| &r[1..] == key)
                    .map(|r| r[0].clone())
                    .collect();
                let present: Vec<Value> = own.iter().filter(|v| !v.is_null()).cloned().collect();
                let mut sorted = present.clone();
                let order = |a: &Value, b: &Value| {
                    daruma_value::compare(a, b, daruma_value::CollationId::DEFAULT).unwrap()
                };
                sorted.sort_by(order);
                assert_eq!(group[0], Value::Int(own.len() as i32), "{sql}");
                assert_eq!(group[1], Value::Int(present.len() as i32), "{sql}");
                assert_eq!(exact(&group[2..3]), exact(&present), "{sql}");
                assert_eq!(
                    group[3],
                    sorted.first().cloned().unwrap_or(Value::Null),
                    "{sql}"
                );
                assert_eq!(
                    group[4],
                    sorted.last().cloned().unwrap_or(Value::Null),
                    "{sql}"
                );
                sorted.dedup();
                assert_eq!(group[5], Value::Int(sorted.len() as i32), "{sql}");
                seen += own.len();
            }
            assert_eq!(seen, detail.len(), "{sql}");
        }
    }
}

#[test]
fn hash_joins_agree_with_loops() {
    let mut chance = Chance(99);
    let host = host(&mut chance);
    let bag = |sql: &str| {
        let mut rows: Vec<String> = run(&host, sql)
            .unwrap_or_else(|e| panic!("{sql}: {e}"))
            .iter()
            .map(|r| format!("{r:?}"))
            .collect();
        rows.sort();
        rows
    };
    for on in [
        "x.a = y.a",
        "x.a = y.b",
        "x.d = y.b",
        "x.s = y.s",
        "x.dt = y.dt AND x.g = y.g",
        "x.f = y.g",
        "x.m = y.m AND x.id < y.id",
        "x.id = y.id",
        "x.id = y.id AND x.b > y.a",
    ] {
        for kind in ["INNER", "LEFT", "RIGHT"] {
            let sql = |hint: &str| {
                format!(
                    "SELECT x.id, x.s, y.id, y.m FROM (SELECT * FROM t WHERE id < 150) x {kind} {hint} JOIN \
                     (SELECT * FROM t WHERE id > 60 AND id < 260) y ON {on}"
                )
            };
            let expected = bag(&sql("LOOP"));
            assert_eq!(bag(&sql("HASH")), expected, "{on} {kind}");
            host.grant_bytes.set(4_000);
            assert_eq!(bag(&sql("HASH")), expected, "{on} {kind}, on disk");
            host.grant_bytes.set(64 << 20);
        }
    }
}
