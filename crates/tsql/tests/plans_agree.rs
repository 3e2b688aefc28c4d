//! One question, many plans, one answer: random queries over the same rows with and without indexes.
//!
//! Theory: the rows of `a` and `c` (heaps without indexes) lie also in `b` and `e` (clustered, with plain, unique, covering, descending
//! and filtered indexes), so a query asked of each pair takes other access paths, join orders and join methods, and must
//! find the same rows. A second check needs no second table (ternary logic partitioning, Rigger and Su, OOPSLA 2020): the
//! rows where a condition holds, where it does not, and where it is unknown are together the rows without the condition.
//! A third compares with counting in the select list, which no index can serve (NoREC, Rigger and Su, ESEC/FSE 2020). Changes by
//! random conditions must leave both tables of a pair alike and sound.
//!
//! A difference prints its seed and the query. `DARUMA_PLANS_SEED=17` repeats one run, `DARUMA_PLANS_SEEDS=500` runs so many:
//! `cargo test -p daruma-tsql --test plans_agree`.

mod common;

use common::{Client, Server};
use daruma_sim::SimRandom;

/// Runs that nobody asked more of, and queries of each.
const SEEDS: u64 = 4;
const QUERIES: u64 = 60;

const COLUMNS: &str = "(id int NOT NULL, i int NULL, j smallint NULL, s varchar(12) NULL, n nvarchar(12) NULL, d decimal(9, 2) NULL,
    t date NULL, f bit NOT NULL, x float NULL)";

const INDEXES: [&str; 9] = [
    "ALTER TABLE b ADD PRIMARY KEY (id)",
    "CREATE INDEX b_i ON b (i)",
    "CREATE INDEX b_sj ON b (s DESC, j) INCLUDE (d)",
    "CREATE UNIQUE INDEX b_ti ON b (t, id)",
    "CREATE INDEX b_filter ON b (d) INCLUDE (i, s) WHERE i IS NOT NULL",
    "CREATE CLUSTERED INDEX e_j ON e (j)",
    "CREATE UNIQUE INDEX e_id ON e (id)",
    "CREATE INDEX e_ni ON e (n, i DESC) INCLUDE (f)",
    "CREATE INDEX e_filter ON e (i) WHERE f = 1",
];

/// Tables that stand for the two names in a query.
const PAIRS: [(&str, &str); 4] = [("a", "c"), ("b", "e"), ("a", "e"), ("b", "c")];

struct Run {
    seed: u64,
    random: SimRandom,
    client: Client,
    refused: u64,
}

#[test]
fn every_plan_finds_the_same_rows() {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let (first, count) = match number("DARUMA_PLANS_SEED") {
        Some(seed) => (seed, 1),
        None => (1, number("DARUMA_PLANS_SEEDS").unwrap_or(SEEDS)),
    };
    for seed in first..first + count {
        Run::new(seed).go();
    }
}

impl Run {
    fn new(seed: u64) -> Run {
        let server = Server::with_seed(seed);
        let mut client = server.connect();
        client.run("CREATE DATABASE d");
        client.run("USE d");
        let mut run = Run {
            seed,
            random: SimRandom::new(seed),
            client,
            refused: 0,
        };
        for table in ["a", "b", "c", "e"] {
            run.must(&format!("CREATE TABLE {table} {COLUMNS}"));
        }
        // Indexes before or after the rows: inserted into or built.
        let indexes_first = run.random.below(2) == 0;
        if indexes_first {
            INDEXES.iter().for_each(|text| run.must(text));
        }
        let (many, few) = (100 + run.random.below(500), 20 + run.random.below(150));
        run.fill("a", many);
        run.fill("c", few);
        run.must("INSERT b SELECT * FROM a");
        run.must("INSERT e SELECT * FROM c");
        if !indexes_first {
            INDEXES.iter().for_each(|text| run.must(text));
        }
        run
    }

    fn must(&mut self, text: &str) {
        let out = self.client.run(text);
        assert!(!out.contains("Msg "), "seed {}: {text}\n{out}", self.seed);
    }

    /// What the statement answers, without the warning of aggregates that skip NULL.
    fn ask(&mut self, text: &str) -> String {
        let out = self.client.run(text);
        let lines = out.lines();
        let kept = lines.filter(|l| !l.starts_with("Msg 8153") && !l.starts_with("Warning: Null"));
        kept.collect::<Vec<_>>().join("\n")
    }

    fn fill(&mut self, table: &str, rows: u64) {
        let mut list = Vec::new();
        for id in 0..rows {
            let values = [
                self.value(0),
                self.value(1),
                self.value(2),
                self.value(3),
                self.value(4),
                self.value(5),
            ];
            let x = self.value(6);
            list.push(format!("({id}, {}, {}, {x})", values.join(", "), id % 2));
        }
        for part in list.chunks(200) {
            let rows = part.join(", ");
            self.must(&format!(
                "INSERT {table} (id, i, j, s, n, d, t, f, x) VALUES {rows}"
            ));
        }
    }

    fn go(&mut self) {
        for at in 0..QUERIES {
            match at % 6 {
                0 => self.partition(),
                1 => self.count(),
                2 if at % 4 == 0 => self.change(),
                _ => self.compare(),
            }
        }
        for table in ["b", "e"] {
            self.must(&format!("DBCC CHECKTABLE ('{table}') WITH NO_INFOMSGS"));
        }
        assert!(
            self.refused < QUERIES / 3,
            "seed {}: {} queries were refused",
            self.seed,
            self.refused
        );
    }

    // --- What is checked

    /// The same query over every pair of tables.
    fn compare(&mut self) {
        let query = self.query();
        let mut first: Option<(String, Vec<String>)> = None;
        for (one, two) in PAIRS {
            let text = named(&query, one, two);
            let Some(rows) = self.rows(&text) else {
                return;
            };
            match &first {
                None => first = Some((text, rows)),
                Some((other, expected)) => self.agree(other, expected, &text, &rows),
            }
        }
    }

    /// Where it holds, where it does not and where it is unknown: together all rows.
    fn partition(&mut self) {
        let (one, two) = PAIRS[self.below(4)];
        let source = match self.below(3) {
            0 => "@1 AS p".to_string(),
            1 => format!("@1 AS p {} @2 AS q ON {}", self.join(), self.on()),
            _ => "@1 AS p CROSS APPLY (SELECT TOP 1 * FROM @2 AS z WHERE z.j >= p.j ORDER BY z.j, z.id) AS q".to_string(),
        };
        let aliases: &[&str] = if source.contains(" AS q") {
            &["p", "q"]
        } else {
            &["p"]
        };
        let condition = self.condition(aliases, 2);
        let select = format!("SELECT p.id, p.i, p.s, p.t FROM {source}");
        let all = named(&select, one, two);
        let Some(expected) = self.rows(&all) else {
            return;
        };
        let mut found = Vec::new();
        let unknown =
            format!("CASE WHEN {condition} THEN 1 WHEN NOT ({condition}) THEN 0 END IS NULL");
        let mut texts = Vec::new();
        for part in [condition.clone(), format!("NOT ({condition})"), unknown] {
            let text = named(&format!("{select} WHERE {part}"), one, two);
            let Some(rows) = self.rows(&text) else {
                return;
            };
            found.extend(rows);
            texts.push(text);
        }
        found.sort();
        self.agree(&all, &expected, &texts.join("\n"), &found);
    }

    /// Rows counted by a condition of WHERE, and by a sum over all rows.
    fn count(&mut self) {
        let (one, two) = PAIRS[self.below(4)];
        let condition = self.condition(&["p"], 3);
        let counted = named(
            &format!("SELECT COUNT(*) FROM @1 AS p WHERE {condition}"),
            one,
            two,
        );
        let summed = format!(
            "SELECT ISNULL(SUM(z.one), 0) FROM (SELECT CASE WHEN {condition} THEN 1 ELSE 0 END AS one FROM @1 AS p) AS z"
        );
        let summed = named(&summed, one, two);
        if let (Some(left), Some(right)) = (self.rows(&counted), self.rows(&summed)) {
            self.agree(&counted, &left, &summed, &right);
        }
    }

    /// The same change of a table with indexes and of one without.
    fn change(&mut self) {
        let condition = self.condition(&["p"], 2);
        let (column, kind) =
            [("i", 0), ("j", 1), ("s", 2), ("n", 3), ("d", 4), ("t", 5)][self.below(6)];
        let value = self.value(kind);
        let text = match self.below(4) {
            0 => format!("DELETE p FROM @1 AS p WHERE {condition} AND p.id % 7 = 0"),
            1 => format!("UPDATE p SET {column} = q.{column} FROM @1 AS p JOIN @2 AS q ON q.id = p.id WHERE {condition}"),
            2 => "INSERT @1 SELECT p.id + 10000, i, j, s, n, d, t, f, x FROM @1 AS p WHERE p.id < 10000 AND p.id % 11 = 0
                  AND NOT EXISTS (SELECT 1 FROM @1 AS o WHERE o.id = p.id + 10000)"
                .to_string(),
            _ => format!("UPDATE p SET {column} = {value} FROM @1 AS p WHERE {condition}"),
        };
        for (one, two) in [("a", "c"), ("b", "e")] {
            let text = named(&text, one, two);
            let out = self.ask(&text);
            assert!(
                !out.contains("Msg ") || out.contains("8115"),
                "seed {}: {text}\n{out}",
                self.seed
            );
        }
        for (plain, indexed) in [("a", "b"), ("c", "e")] {
            let list = |table: &str| format!("SELECT * FROM {table}");
            let (left, right) = (self.rows(&list(plain)), self.rows(&list(indexed)));
            self.agree(
                &text,
                &left.unwrap_or_default(),
                indexed,
                &right.unwrap_or_default(),
            );
        }
    }

    /// Rows in their text's order; `None` when the statement was refused.
    fn rows(&mut self, text: &str) -> Option<Vec<String>> {
        let out = self.ask(text);
        if out.contains("Msg ") {
            let expected = ["Msg 8115", "Msg 8134", "Msg 512", "Msg 245"];
            assert!(
                expected.iter().any(|e| out.contains(e)),
                "seed {}: {text}\n{out}",
                self.seed
            );
            self.refused += 1;
            return None;
        }
        let rows = out.lines().skip(1).filter(|l| !l.contains("affected)"));
        let mut rows: Vec<String> = rows.map(str::to_string).collect();
        rows.sort();
        Some(rows)
    }

    fn agree(&self, left_text: &str, left: &[String], right_text: &str, right: &[String]) {
        if left == right {
            return;
        }
        let only = |these: &[String], those: &[String]| {
            let missing = these.iter().filter(|r| !those.contains(r)).take(5);
            missing.cloned().collect::<Vec<_>>()
        };
        panic!(
            "seed {}: {} rows and {} rows\n{left_text}\nonly here: {:#?}\n{right_text}\nonly here: {:#?}",
            self.seed,
            left.len(),
            right.len(),
            only(left, right),
            only(right, left)
        );
    }

    // --- Random texts; `@1` and `@2` stand for the tables

    fn below(&self, n: u64) -> usize {
        self.random.below(n) as usize
    }

    fn pick<'a>(&self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64)]
    }

    /// A literal for a kind of column: i, j, s, n, d, t, x.
    fn value(&self, kind: u64) -> String {
        let n = self.random.below(40) as i64;
        match kind {
            _ if self.random.below(8) == 0 => "NULL".to_string(),
            0 => (n - 10).to_string(),
            1 => (n % 9).to_string(),
            2 => format!("'{}'", self.word()),
            3 => format!("N'{}'", self.word()),
            4 => format!("{}.{:02}", n - 5, self.random.below(4) * 25),
            5 => format!("'2024-0{}-{:02}'", 1 + n % 9, 1 + self.random.below(28)),
            _ => format!("{}.5", n - 20),
        }
    }

    fn word(&self) -> &'static str {
        self.pick(&[
            "", "a", "A", "ab", "abc", "b", "B ", "ba", "c%", "d_", "é", "zz", "Z",
        ])
    }

    fn column(&self, aliases: &[&str], kind: u64) -> String {
        let name = ["i", "j", "s", "n", "d", "t", "x"][kind as usize];
        format!("{}.{name}", self.pick(aliases))
    }

    fn join(&self) -> &'static str {
        self.pick(&[
            "JOIN",
            "LEFT JOIN",
            "RIGHT JOIN",
            "FULL JOIN",
            "JOIN",
            "INNER HASH JOIN",
            "INNER MERGE JOIN",
            "LEFT LOOP JOIN",
        ])
    }

    fn on(&self) -> String {
        match self.below(6) {
            0 => "p.id = q.id".to_string(),
            1 => "p.i = q.i".to_string(),
            2 => "p.s = q.n AND p.j = q.j".to_string(),
            3 => "p.j = q.j AND p.d > q.d".to_string(),
            4 => "p.t = q.t".to_string(),
            _ => "q.id = p.i AND q.f = p.f".to_string(),
        }
    }

    fn condition(&self, aliases: &[&str], depth: u64) -> String {
        if depth > 0 && self.below(2) == 0 {
            let (left, right) = (
                self.condition(aliases, depth - 1),
                self.condition(aliases, depth - 1),
            );
            return match self.below(5) {
                0 => format!("NOT ({left})"),
                1 | 2 => format!("({left} AND {right})"),
                _ => format!("({left} OR {right})"),
            };
        }
        self.comparison(aliases)
    }

    fn comparison(&self, aliases: &[&str]) -> String {
        let kind = self.random.below(7);
        let (column, value, other) = (
            self.column(aliases, kind),
            self.value(kind),
            self.value(kind),
        );
        let outer = aliases[0];
        match self.below(18) {
            13 => format!("EXISTS (SELECT 1 FROM @2 AS w WHERE w.d > {})", self.value(4)),
            14 => format!(
                "{} {} (SELECT w.j FROM @2 AS w WHERE w.f = {})",
                self.value(1),
                self.pick(&["IN", "NOT IN"]),
                self.below(2)
            ),
            15 => format!(
                "(SELECT MAX(w.j) FROM @2 AS w WHERE w.i = {outer}.i) BETWEEN {} AND {}",
                self.value(1),
                self.value(1)
            ),
            16 => format!(
                "CASE ISNULL({outer}.i, 0) + ISNULL({outer}.j, 0) * 2 + CASE WHEN {outer}.s = {outer}.n THEN 1 ELSE 0 END
                 WHEN 3 THEN 1 WHEN {outer}.j THEN 1 ELSE 0 END = {}",
                self.below(2)
            ),
            0 => format!("{column} IS NULL"),
            1 => format!("{column} IS NOT NULL"),
            2 => format!("{column} BETWEEN {value} AND {other}"),
            3 => format!("{column} IN ({value}, {other}, {})", self.value(kind)),
            4 => format!("{column} NOT IN ({value}, {other})"),
            5 => format!("{} LIKE '{}%'", self.column(aliases, 2), self.word()),
            6 => format!("{} NOT LIKE '%{}'", self.column(aliases, 3), self.word()),
            7 => format!(
                "{} {} {}",
                self.column(aliases, 0),
                self.operator(),
                self.column(aliases, 1)
            ),
            8 => format!(
                "EXISTS (SELECT 1 FROM @2 AS w WHERE w.i = {outer}.i AND w.j {} {outer}.j)",
                self.operator()
            ),
            9 => format!(
                "{outer}.j NOT IN (SELECT w.j FROM @2 AS w WHERE w.d > {})",
                self.value(4)
            ),
            10 => format!(
                "{outer}.i {} (SELECT MAX(w.i) FROM @2 AS w WHERE w.j = {outer}.j)",
                self.operator()
            ),
            11 => format!(
                "{outer}.f = {} AND {column} {} {value}",
                self.below(2),
                self.operator()
            ),
            12 => format!(
                "{outer}.i + {outer}.j {} {}",
                self.operator(),
                self.value(0)
            ),
            _ => format!("{column} {} {value}", self.operator()),
        }
    }

    fn operator(&self) -> &'static str {
        self.pick(&["=", "=", "<", "<=", ">", ">=", "<>"])
    }

    fn query(&self) -> String {
        let c = self.condition(&["p"], 2);
        let both = self.condition(&["p", "q"], 2);
        let key = self.pick(&[
            "p.i",
            "p.j",
            "p.f",
            "RTRIM(UPPER(p.s))",
            "p.j, p.f",
            "YEAR(p.t), p.j",
        ]);
        let n = 1 + self.below(20);
        match self.below(15) {
            12 => format!(
                "SELECT p.id, RANK() OVER (PARTITION BY p.j ORDER BY p.i), DENSE_RANK() OVER (ORDER BY p.t), COUNT(*) OVER (),
                 SUM(p.i) OVER (PARTITION BY p.j ORDER BY p.id ROWS UNBOUNDED PRECEDING), LAG(p.i) OVER (ORDER BY p.id),
                 MAX(p.i) OVER (PARTITION BY p.j ORDER BY p.id ROWS BETWEEN {} PRECEDING AND 2 FOLLOWING), NTILE(3) OVER (ORDER BY p.id)
                 FROM @1 AS p WHERE {c}",
                self.below(4)
            ),
            13 => format!(
                "DECLARE @n int = {n}; SELECT TOP (@n) p.id, p.s FROM @1 AS p WHERE {c} ORDER BY p.d {}, p.id DESC",
                self.pick(&["", "DESC"])
            ),
            14 => format!(
                "SELECT x.id, x.a FROM (SELECT p.id, ISNULL(p.i, 0) + ISNULL(p.j, 1) AS a, p.d FROM @1 AS p JOIN @2 AS q ON {}) AS x
                 WHERE (x.a = {} OR x.a > {} OR x.a + x.id < {n}) AND NOT EXISTS (SELECT 1 FROM @2 AS w WHERE w.id = {})",
                self.on(),
                self.below(9),
                self.below(20),
                self.below(300)
            ),
            0 => format!("SELECT p.* FROM @1 AS p WHERE {c}"),
            1 => format!("SELECT {key}, COUNT(*), SUM(p.d), MIN(p.t), MAX(p.i), COUNT(DISTINCT p.j) FROM @1 AS p WHERE {c} GROUP BY {key}"),
            2 => format!("SELECT p.id, q.id, p.i, q.i FROM @1 AS p {} @2 AS q ON {} WHERE {both}", self.join(), self.on()),
            3 => format!("SELECT TOP ({n}) p.id, p.j, p.t FROM @1 AS p WHERE {c} ORDER BY p.j {}, p.t, p.id", self.pick(&["", "DESC"])),
            4 => format!(
                "SELECT p.id, ROW_NUMBER() OVER (PARTITION BY p.j ORDER BY p.t DESC, p.id), SUM(p.i) OVER (PARTITION BY p.f ORDER BY p.id)
                 FROM @1 AS p WHERE {c}"
            ),
            5 => format!(
                "SELECT p.i, p.j FROM @1 AS p WHERE {c} {} SELECT q.i, q.j FROM @2 AS q WHERE q.j > {}",
                self.pick(&["UNION", "UNION ALL", "EXCEPT", "INTERSECT"]),
                self.below(9)
            ),
            6 => format!(
                "WITH w AS (SELECT j, COUNT(*) AS n, MAX(t) AS t FROM @2 GROUP BY j) SELECT p.id, w.n FROM @1 AS p {} w ON w.j = p.j AND w.t > p.t WHERE {c}",
                self.pick(&["JOIN", "LEFT JOIN"])
            ),
            7 => format!(
                "SELECT p.id, y.id FROM @1 AS p {} APPLY (SELECT TOP 2 z.id FROM @2 AS z WHERE z.i <= p.i ORDER BY z.i DESC, z.id) AS y WHERE {c}",
                self.pick(&["CROSS", "OUTER"])
            ),
            8 => format!(
                "SELECT DISTINCT p.t, q.j FROM @1 AS p {} @2 AS q ON {} JOIN @1 AS r ON r.id = p.id WHERE {both}",
                self.pick(&["JOIN", "LEFT JOIN"]),
                self.on()
            ),
            9 => format!(
                "SELECT p.id, (SELECT COUNT(*) FROM @2 AS w WHERE w.j = p.j AND w.id <= p.id), (SELECT TOP 1 w.s FROM @2 AS w WHERE w.t > p.t ORDER BY w.t, w.id)
                 FROM @1 AS p WHERE {c}"
            ),
            10 => format!(
                "SELECT p.j, p.f, COUNT(*), GROUPING(p.j) FROM @1 AS p WHERE {c} GROUP BY {}",
                self.pick(&["ROLLUP (p.j, p.f)", "CUBE (p.j, p.f)", "GROUPING SETS ((p.j), (p.f), ())"]),
            ),
            _ => format!(
                "SELECT p.id FROM @1 AS p WHERE {c} ORDER BY p.id OFFSET {} ROWS FETCH NEXT {n} ROWS ONLY",
                self.below(30)
            ),
        }
    }
}

fn named(query: &str, one: &str, two: &str) -> String {
    query.replace("@1", one).replace("@2", two)
}
