//! Queries over many rows: what sorts, hashes, groups and keeps rows.
//!
//! Theory: a query has one right answer in both dialects, as in `generate`; here its form is simple and its rows are many. Joins have an
//! equality with a column that tells the rows of one side apart, so that a result stays near the size of its tables.

use super::tables::Tables;
use crate::draw::Random;
use crate::text::{Text, fill, fill_two, joined};

/// A statement as both servers are asked it.
#[derive(Clone, Debug)]
pub struct Statement {
    pub kind: &'static str,
    pub text: Text,
    /// The rows have an order of their own.
    pub is_ordered: bool,
}

/// Makes statements over the tables.
pub struct Maker<'t> {
    pub random: Random,
    pub tables: &'t Tables,
}

const KEYS: [&str; 9] = ["f", "m", "q", "s", "w", "dt", "n", "u", "id"];
/// Columns that a large result shows: short ones stand more often.
const SHOWN: [&str; 9] = ["id", "u", "f", "m", "q", "n", "w", "dt", "s"];
/// What is equal in a join: a column of many values, and one that tells rows apart.
const EQUAL: [(&str, &str); 7] = [
    ("u", "u"),
    ("q", "u"),
    ("m", "id"),
    ("q", "id"),
    ("u", "q"),
    ("id", "m"),
    ("f", "id"),
];

type Make = fn(&mut Maker<'_>) -> (Text, bool);

const QUERIES: [(&str, Make); 18] = [
    ("sort", |m| m.sort()),
    ("join", |m| (m.join(), false)),
    ("join", |m| (m.join(), false)),
    ("semi and anti join", |m| (m.semi(), false)),
    ("group", |m| (m.group(), false)),
    ("group", |m| (m.group(), false)),
    ("grouping sets", |m| (m.sets(), false)),
    ("STRING_AGG", |m| (m.list(), false)),
    ("window", |m| (m.window(), false)),
    ("window", |m| (m.window(), false)),
    ("set operation", |m| (m.set_operation(), false)),
    ("groups of groups", |m| (m.nested(), false)),
    ("groups of groups", |m| (m.nested(), false)),
    ("APPLY", |m| (m.apply(), false)),
    ("recursion", |m| (m.recursion(), false)),
    ("subquery of a value", |m| (m.scalar(), false)),
    ("percentage", |m| (m.percentage(), false)),
    ("JSON", |m| (m.json(), false)),
];

const HINTS: [&str; 9] = [
    "HASH GROUP",
    "ORDER GROUP",
    "HASH JOIN",
    "MERGE JOIN",
    "HASH UNION",
    "MERGE UNION",
    "CONCAT UNION",
    "FORCE ORDER",
    "HASH JOIN, HASH GROUP",
];

impl Maker<'_> {
    /// A query, some of them under a hint.
    pub fn query(&mut self) -> Statement {
        let (kind, make) = QUERIES[self.below(QUERIES.len())];
        let (mut text, is_ordered) = make(self);
        let has_option = text.ms.contains("OPTION");
        if !has_option && self.random.below(4) == 0 {
            let hint = HINTS[self.below(HINTS.len())];
            text.ms.push_str(&format!(" OPTION ({hint})"));
        }
        Statement {
            kind,
            text,
            is_ordered,
        }
    }

    /// A number below the length of a list.
    pub fn below(&mut self, length: usize) -> usize {
        self.random.below(u32::try_from(length).unwrap_or(1)) as usize
    }

    /// One of a list.
    pub fn one_of(&mut self, list: &[&'static str]) -> &'static str {
        list[self.below(list.len())]
    }

    /// One of the large tables.
    pub fn table(&mut self) -> Text {
        Text::same(self.one_of(&["t0", "t1"]))
    }

    /// Different columns with their table before them.
    fn columns(&mut self, from: &[&'static str], alias: &str, count: usize) -> Vec<String> {
        let mut list: Vec<&str> = Vec::new();
        while list.len() < count {
            let column = self.one_of(from);
            if !list.contains(&column) {
                list.push(column);
            }
        }
        list.iter().map(|c| format!("{alias}.{c}")).collect()
    }

    /// A condition that keeps most rows.
    pub fn condition(&mut self, alias: &str) -> Text {
        let n = self.random.below(6);
        let text = match self.random.below(9) {
            0 => format!("{alias}.f = {n}"),
            1 => format!("{alias}.m % 7 <> {n}"),
            2 => format!("{alias}.n > {}", n * 1500),
            3 => format!(
                "{alias}.s LIKE '{}%'",
                ["a", "b", "c", "d", "aa", ""][n as usize]
            ),
            4 => format!("{alias}.dt >= '{}-05-01'", 2015 + n),
            5 => format!("{alias}.q IS NOT NULL"),
            6 => format!("({alias}.f <> {n} OR {alias}.s IS NULL)"),
            _ => "1 = 1".into(),
        };
        Text::same(&text)
    }

    fn aggregate(&mut self, alias: &str) -> Text {
        let a = alias;
        Text::same(&match self.random.below(12) {
            0 | 1 => "COUNT(*)".into(),
            2 => format!("COUNT({a}.m)"),
            3 => format!("SUM(CAST({a}.q AS bigint))"),
            4 => format!("MIN({a}.s)"),
            5 => format!("MAX({a}.s)"),
            6 => format!("MAX({a}.dt)"),
            7 => format!("SUM({a}.n)"),
            8 => format!("COUNT(DISTINCT {a}.q)"),
            9 => format!("COUNT(DISTINCT {a}.s)"),
            10 => format!("SUM(DISTINCT CAST({a}.m AS bigint))"),
            _ => format!("MIN({a}.w)"),
        })
    }

    fn aggregates(&mut self, alias: &str) -> Text {
        let list: Vec<Text> = (0..1 + self.below(3))
            .map(|_| self.aggregate(alias))
            .collect();
        joined(&list, ", ")
    }

    /// The columns in an order in which NULL is the smallest, as T-SQL has it.
    fn order(&mut self, columns: &[String]) -> Text {
        let list: Vec<Text> = columns
            .iter()
            .map(|column| match self.random.below(3) {
                0 => Text::two(
                    &format!("{column} DESC"),
                    &format!("{column} DESC NULLS LAST"),
                ),
                _ => Text::two(column, &format!("{column} NULLS FIRST")),
            })
            .collect();
        joined(&list, ", ")
    }

    fn sort(&mut self) -> (Text, bool) {
        let (table, condition) = (self.table(), self.condition("a"));
        let shown = Text::same(&self.columns(&SHOWN, "a", 3).join(", "));
        let mut keys = self.columns(&KEYS[..7], "a", 2);
        keys.push("a.id".into());
        let order = self.order(&keys);
        let part = Text::same(self.one_of(&[
            "",
            "",
            " OFFSET 1000 ROWS FETCH NEXT 20000 ROWS ONLY",
            " OFFSET 0 ROWS FETCH NEXT 70000 ROWS ONLY",
        ]));
        let pattern = "SELECT $0 FROM $1 a WHERE $2 ORDER BY $3$4";
        (
            fill(pattern, &[&shown, &table, &condition, &order, &part]),
            true,
        )
    }

    /// `b` beside `a`, with what they are joined by.
    fn joined(&mut self) -> Text {
        let (first, second) = (self.table(), self.table());
        let kind =
            Text::same(self.one_of(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT JOIN"]));
        let (left, right) = EQUAL[self.below(EQUAL.len())];
        let mut on = Text::same(&format!("a.{left} = b.{right}"));
        let more = [
            "",
            "",
            " AND a.n <= b.n",
            " AND a.f = b.f",
            " AND a.w < b.w",
        ];
        on.push(&Text::same(self.one_of(&more)));
        fill("$0 a $1 $2 b ON $3", &[&first, &kind, &second, &on])
    }

    fn join(&mut self) -> Text {
        let from = self.joined();
        match self.random.below(3) {
            0 => {
                let mut shown = self.columns(&SHOWN[..8], "a", 2);
                shown.extend(self.columns(&SHOWN, "b", 2));
                fill(
                    "SELECT $0 FROM $1",
                    &[&Text::same(&shown.join(", ")), &from],
                )
            }
            1 => {
                let key = Text::same(self.one_of(&["a.f", "b.f", "a.m", "b.w", "a.s"]));
                let (one, other) = (self.aggregates("a"), self.aggregates("b"));
                let pattern = "SELECT $0, $1, $2 FROM $3 GROUP BY $0";
                fill(pattern, &[&key, &one, &other, &from])
            }
            _ => {
                let condition = self.condition("a");
                let pattern = "SELECT COUNT(*), SUM(CAST(a.id AS bigint)), SUM(CAST(b.id AS bigint)), COUNT(DISTINCT b.s), MAX(c.w) FROM $0 \
                     LEFT JOIN t2 c ON c.id = a.m WHERE $1";
                fill(pattern, &[&from, &condition])
            }
        }
    }

    fn semi(&mut self) -> Text {
        let (first, second) = (self.table(), self.table());
        let (one, other) = (self.condition("a"), self.condition("b"));
        let key = Text::same(self.one_of(&["q", "m", "s", "u", "w"]));
        let shown = Text::same(&self.columns(&SHOWN, "a", 2).join(", "));
        let pattern = match self.random.below(6) {
            0 => {
                "SELECT $5 FROM $0 a WHERE $3 AND EXISTS (SELECT 1 FROM $1 b WHERE b.$2 = a.$2 AND $4)"
            }
            1 => {
                "SELECT $5 FROM $0 a WHERE $3 AND NOT EXISTS (SELECT 1 FROM $1 b WHERE b.$2 = a.$2 AND $4)"
            }
            2 => "SELECT $5 FROM $0 a WHERE $3 AND a.$2 IN (SELECT b.$2 FROM $1 b WHERE $4)",
            3 => {
                "SELECT $5 FROM $0 a WHERE $3 AND a.$2 NOT IN (SELECT b.$2 FROM $1 b WHERE b.$2 IS NOT NULL AND b.id % 3 = 0 AND $4)"
            }
            4 => {
                "SELECT COUNT(*), SUM(CAST(a.id AS bigint)) FROM $0 a WHERE $3 AND (a.f = 2 OR EXISTS (SELECT 1 FROM $1 b WHERE b.u = a.q AND $4))"
            }
            _ => {
                "SELECT a.$2, COUNT(*) FROM $0 a WHERE $3 AND NOT EXISTS (SELECT 1 FROM $1 b WHERE b.$2 = a.$2 AND b.id <> a.id AND $4) GROUP BY a.$2"
            }
        };
        fill(pattern, &[&first, &second, &key, &one, &other, &shown])
    }

    fn group(&mut self) -> Text {
        let (table, condition) = (self.table(), self.condition("a"));
        let count = 1 + self.below(3);
        let keys = Text::same(&self.columns(&KEYS, "a", count).join(", "));
        let aggregates = self.aggregates("a");
        let having =
            Text::same(self.one_of(&["", "", " HAVING COUNT(*) > 1", " HAVING MIN(a.id) % 2 = 0"]));
        fill(
            "SELECT $0, $1 FROM $2 a WHERE $3 GROUP BY $0$4",
            &[&keys, &aggregates, &table, &condition, &having],
        )
    }

    fn sets(&mut self) -> Text {
        let (table, condition, aggregates) =
            (self.table(), self.condition("a"), self.aggregates("a"));
        let keys = self.columns(&KEYS[..7], "a", 2);
        let (one, other) = (Text::same(&keys[0]), Text::same(&keys[1]));
        let sets = Text::same(self.one_of(&["ROLLUP", "CUBE", "GROUPING SETS"]));
        let pattern = match sets.ms == "GROUPING SETS" {
            true => {
                "SELECT $0, $1, GROUPING($0), $2 FROM $3 a WHERE $4 GROUP BY GROUPING SETS (($0, $1), ($1), ($0), ())"
            }
            false => "SELECT $0, $1, GROUPING($0), $2 FROM $3 a WHERE $4 GROUP BY $5 ($0, $1)",
        };
        fill(
            pattern,
            &[&one, &other, &aggregates, &table, &condition, &sets],
        )
    }

    fn list(&mut self) -> Text {
        let (table, condition) = (self.table(), self.condition("a"));
        let key = Text::same(self.one_of(&["a.f", "a.m", "a.q", "a.w", "a.dt"]));
        let item = Text::same(self.one_of(&["a.w", "a.dt", "a.id", "a.q"]));
        let order = self.order(&["a.n".to_string(), "a.id".to_string()]);
        let aggregate = self.aggregate("a");
        fill_two(
            "SELECT $0, STRING_AGG(CAST($1 AS varchar(max)), ',') WITHIN GROUP (ORDER BY $2), $3 FROM $4 a WHERE $5 GROUP BY $0",
            "SELECT $0, STRING_AGG(CAST($1 AS text), ',' ORDER BY $2), $3 FROM $4 a WHERE $5 GROUP BY $0",
            &[&key, &item, &order, &aggregate, &table, &condition],
        )
    }

    fn window(&mut self) -> Text {
        let (table, condition) = (self.table(), self.condition("a"));
        let list: Vec<Text> = (0..1 + self.below(3)).map(|_| self.windowed()).collect();
        let calls = joined(&list, ", ");
        match self.random.below(3) {
            0 => {
                let named: Vec<Text> = list
                    .iter()
                    .enumerate()
                    .map(|(n, call)| fill("$0 AS c$1", &[call, &Text::same(&n.to_string())]))
                    .collect();
                let pattern = "SELECT z.f, z.c0, COUNT(*), SUM(CAST(z.id AS bigint)) FROM (SELECT a.id, a.f, $0 FROM $1 a WHERE $2) z GROUP BY z.f, z.c0";
                fill(pattern, &[&joined(&named, ", "), &table, &condition])
            }
            _ => fill(
                "SELECT a.id, $0 FROM $1 a WHERE $2",
                &[&calls, &table, &condition],
            ),
        }
    }

    fn windowed(&mut self) -> Text {
        let key = self.one_of(&["", "a.f", "a.m", "a.q", "a.s", "a.w"]);
        let part = match key {
            "" => Text::default(),
            key => Text::same(&format!("PARTITION BY {key} ")),
        };
        let sorted = self
            .one_of(&["a.n", "a.s", "a.dt", "a.q", "a.u"])
            .to_string();
        let unique = self.order(&[sorted.clone(), "a.u".to_string()]);
        let ties = self.order(&[sorted]);
        let frame = Text::same(self.one_of(&[
            "ROWS BETWEEN 50 PRECEDING AND 3 FOLLOWING",
            "ROWS BETWEEN 2 FOLLOWING AND 400 FOLLOWING",
            "ROWS UNBOUNDED PRECEDING",
            "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            "ROWS BETWEEN 9 PRECEDING AND 4 PRECEDING",
        ]));
        let pattern = match self.random.below(13) {
            0 | 1 => "ROW_NUMBER() OVER ($0ORDER BY $1)",
            2 => "RANK() OVER ($0ORDER BY $2)",
            3 => "DENSE_RANK() OVER ($0ORDER BY $2)",
            4 => "SUM(CAST(a.q AS bigint)) OVER ($0ORDER BY $1 $3)",
            5 => "MIN(a.s) OVER ($0ORDER BY $1 $3)",
            6 => "COUNT(a.dt) OVER ($0ORDER BY $2 RANGE UNBOUNDED PRECEDING)",
            7 => "LAG(a.s, 3) OVER ($0ORDER BY $1)",
            8 => "NTILE(37) OVER ($0ORDER BY $1)",
            9 => "FIRST_VALUE(a.w) OVER ($0ORDER BY $1 $3)",
            10 => "MAX(a.n) OVER ($0ORDER BY $1 $3)",
            11 => "SUM(a.n) OVER ($0ORDER BY $2)",
            _ => "COUNT(*) OVER ($0ORDER BY $2 RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        };
        fill(pattern, &[&part, &unique, &ties, &frame])
    }

    fn set_operation(&mut self) -> Text {
        let count = 1 + self.below(3);
        let columns = self.columns(&KEYS, "a", count).join(", ");
        let branch = |maker: &mut Self| {
            let (table, condition) = (maker.table(), maker.condition("a"));
            fill(
                "SELECT $0 FROM $1 a WHERE $2",
                &[&Text::same(&columns), &table, &condition],
            )
        };
        let mut out = branch(self);
        for _ in 0..1 + self.below(2) {
            let operator = self.one_of(&["UNION", "UNION", "EXCEPT", "INTERSECT", "UNION ALL"]);
            let next = branch(self);
            out = fill("$0 $1 $2", &[&out, &Text::same(operator), &next]);
        }
        match self.random.below(2) {
            0 => out,
            _ => {
                let key = columns
                    .split(", ")
                    .next()
                    .unwrap_or("a.f")
                    .replace("a.", "z.");
                fill(
                    "SELECT $1, COUNT(*) FROM ($0) z GROUP BY $1",
                    &[&out, &Text::same(&key)],
                )
            }
        }
    }

    /// Rows that one operator keeps while another one below or beside it keeps its own.
    fn nested(&mut self) -> Text {
        let (one, other) = (self.table(), self.table());
        let (first, second) = (self.condition("a"), self.condition("b"));
        let keys = self.columns(&KEYS[..7], "a", 2);
        let names: Vec<&str> = keys.iter().map(|k| &k[2..]).collect();
        let (key, name) = (Text::same(names[0]), Text::same(names[1]));
        let pattern = match self.random.below(7) {
            0 => {
                "SELECT z.$4, COUNT(*) FROM (SELECT DISTINCT a.$4, a.$5 FROM $0 a WHERE $2) z GROUP BY z.$4"
            }
            1 => {
                "SELECT z.$4, SUM(z.c), COUNT(DISTINCT z.$5) FROM (SELECT a.$4, a.$5, COUNT(*) AS c FROM $0 a WHERE $2 GROUP BY a.$4, a.$5) z GROUP BY z.$4"
            }
            2 => {
                "SELECT x.$4, x.c, y.c FROM (SELECT a.$4, COUNT(*) AS c FROM $0 a WHERE $2 GROUP BY a.$4) x FULL JOIN \
                  (SELECT b.$4, COUNT(DISTINCT b.$5) AS c FROM $1 b WHERE $3 GROUP BY b.$4) y ON x.$4 = y.$4"
            }
            3 => {
                "SELECT z.$4, COUNT(*), MAX(z.r) FROM (SELECT a.$4, ROW_NUMBER() OVER (PARTITION BY a.$5 ORDER BY a.u) AS r FROM $0 a WHERE $2) z \
                  GROUP BY z.$4"
            }
            4 => {
                "SELECT DISTINCT z.$4, z.c FROM (SELECT a.$4, a.$5, COUNT(*) OVER (PARTITION BY a.$5) AS c FROM $0 a WHERE $2) z"
            }
            5 => {
                "SELECT x.$4, COUNT(*), SUM(y.c) FROM $0 x JOIN (SELECT b.u, MAX(b.id) AS c FROM $1 b WHERE $3 GROUP BY b.u) y ON y.u = x.q \
                  GROUP BY x.$4"
            }
            _ => {
                "SELECT z.$4, COUNT(*) FROM (SELECT a.$4, a.$5 FROM $0 a WHERE $2 UNION SELECT b.$4, b.$5 FROM $1 b WHERE $3) z GROUP BY z.$4"
            }
        };
        fill(pattern, &[&one, &other, &first, &second, &key, &name])
    }

    fn apply(&mut self) -> Text {
        let (table, condition) = (Text::same("t3"), self.condition("b"));
        let kind = self.random.below(2) == 0;
        let (ms, pg, on) = match kind {
            true => ("CROSS APPLY", "CROSS JOIN LATERAL", ""),
            false => ("OUTER APPLY", "LEFT JOIN LATERAL", " ON true"),
        };
        let (apply, on) = (Text::two(ms, pg), Text::two("", on));
        let order = self.order(&["b.n".to_string(), "b.id".to_string()]);
        let pattern = match self.random.below(4) {
            0 => {
                "SELECT c.id, x.n, x.d FROM t2 c $0 (SELECT COUNT(*) AS n, COUNT(DISTINCT b.s) AS d FROM $1 b WHERE b.q = c.id AND $2) x$4"
            }
            1 => {
                "SELECT c.id, x.f, x.n FROM t2 c $0 (SELECT b.f, COUNT(*) AS n FROM $1 b WHERE b.m % 20 = c.id AND $2 GROUP BY b.f) x$4 WHERE c.id < 25"
            }
            2 => {
                "SELECT c.id, x.id, x.n FROM t2 c $0 (SELECT b.id, b.n FROM $1 b WHERE b.q = c.u % 300 AND $2 ORDER BY $3 OFFSET 0 ROWS FETCH NEXT 3 ROWS ONLY) x$4"
            }
            _ => {
                "SELECT c.f, COUNT(*), SUM(x.n) FROM t2 c $0 (SELECT b.s, COUNT(DISTINCT b.w) AS n FROM $1 b WHERE b.f <> c.f AND $2 GROUP BY b.s) x$4 \
                  WHERE c.id < 12 GROUP BY c.f"
            }
        };
        fill(pattern, &[&apply, &table, &condition, &order, &on])
    }

    fn scalar(&mut self) -> Text {
        let (table, other, condition) = (self.table(), self.table(), self.condition("a"));
        let pattern = match self.random.below(4) {
            0 => "SELECT a.id, (SELECT MAX(b.s) FROM $1 b WHERE b.q = a.q) FROM $0 a WHERE $2",
            1 => {
                "SELECT a.f, COUNT(*) FROM $0 a WHERE $2 AND a.n > (SELECT MIN(b.n) FROM $1 b WHERE b.m = a.m) GROUP BY a.f"
            }
            2 => {
                "SELECT a.id, (SELECT COUNT(DISTINCT c.w) FROM t2 c WHERE c.id = a.m), (SELECT c.s FROM t2 c WHERE c.id = a.m) FROM $0 a WHERE $2"
            }
            _ => {
                "SELECT a.m, a.s FROM $0 a WHERE $2 AND a.q IN (SELECT b.u FROM $1 b WHERE b.s LIKE 'a%' OR b.f = a.f)"
            }
        };
        fill(pattern, &[&table, &other, &condition])
    }

    fn percentage(&mut self) -> Text {
        let (table, condition) = (self.table(), self.condition("a"));
        let part = Text::same(self.one_of(&["1", "40", "99"]));
        let order = self.order(&["a.s".to_string(), "a.id".to_string()]);
        fill_two(
            "SELECT TOP ($2) PERCENT a.id, a.s FROM $0 a WHERE $1 ORDER BY $3",
            "SELECT z.id, z.s FROM (SELECT a.id, a.s, ROW_NUMBER() OVER (ORDER BY $3) AS r, COUNT(*) OVER () AS c FROM $0 a WHERE $1) z \
             WHERE z.r <= CEIL(z.c * $2 / 100.0)",
            &[&table, &condition, &part, &order],
        )
    }

    fn recursion(&mut self) -> Text {
        let (table, condition) = (self.table(), self.condition("a"));
        let with = Text::two("WITH", "WITH RECURSIVE");
        let option = Text::two(" OPTION (MAXRECURSION 0)", "");
        let is_keyed = self.tables.list[2].is_keyed;
        let pattern = match self.random.below(if is_keyed { 3 } else { 2 }) {
            0 => {
                "$0 r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 30000) SELECT a.f, COUNT(*), COUNT(r.n), SUM(CAST(r.n AS bigint)) \
                  FROM $1 a LEFT JOIN r ON r.n = a.q WHERE $2 GROUP BY a.f$3"
            }
            1 => {
                "$0 r AS (SELECT a.id, a.q AS n, 0 AS l FROM $1 a WHERE $2 UNION ALL SELECT r.id, r.n / 2, r.l + 1 FROM r WHERE r.n > 5000) \
                  SELECT r.l, COUNT(*), COUNT(DISTINCT r.n), SUM(CAST(r.id AS bigint)) FROM r GROUP BY r.l$3"
            }
            _ => {
                "$0 r AS (SELECT c.id, 0 AS l FROM t2 c WHERE c.id = 1 UNION ALL SELECT c.id, r.l + 1 FROM r JOIN t2 c ON c.id BETWEEN r.id * 2 AND r.id * 2 + 1) \
                  SELECT r.l, r.id, COUNT(a.id) FROM r LEFT JOIN $1 a ON a.m = r.id AND $2 GROUP BY r.l, r.id$3"
            }
        };
        fill(pattern, &[&with, &table, &condition, &option])
    }

    fn json(&mut self) -> Text {
        let (table, condition) = (self.table(), self.condition("a"));
        fill_two(
            "SELECT j.id, j.s, j.n FROM OPENJSON((SELECT a.id, a.s, a.n FROM $0 a WHERE $1 ORDER BY a.w, a.id FOR JSON PATH)) \
             WITH (id int, s varchar(900), n decimal(12, 2)) j",
            "SELECT a.id, a.s, a.n FROM $0 a WHERE $1",
            &[&table, &condition],
        )
    }
}
