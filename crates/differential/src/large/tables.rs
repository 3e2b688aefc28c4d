//! Tables of many rows, which each server makes for itself.
//!
//! Theory: a row is a function of its number, written in both dialects, so that 200,000 rows are one statement and a report can print all of them.
//! Invariant: `id` and `u` tell the rows of a table apart; every other column has NULLs, and values that stand in many rows.

use crate::draw::{Random, seed_of};

/// Two large ones, a small one for what runs once for each row, and one that is changed.
pub const TABLES: usize = 4;
/// The one that is changed.
pub const CHANGED: usize = 3;
/// Rows of the small one at most.
const SMALL_ROWS: u32 = 2000;
/// A prime above every number of a row: products with a number that is no multiple of it are a permutation.
const PERMUTED: u32 = 200_003;
/// Characters of the long texts of one table, all rows together.
const TEXT_CHARACTERS: u32 = 24_000_000;

/// Columns in their order.
pub const COLUMNS: &str = "id, u, f, m, q, n, s, w, dt";
const MS_COLUMNS: &str = "id int NOT NULL, u int NOT NULL, f int, m int, q int, n decimal(12, 2), s varchar(900), w nvarchar(60), dt date";
const PG_COLUMNS: &str = "id integer NOT NULL, u integer NOT NULL, f integer, m integer, q integer, n numeric(12, 2), s text, w text, dt date";

/// One table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Number of rows.
    pub rows: u32,
    /// Longest text of `s`, without its number.
    text_length: u32,
    /// Texts that `s` has, roughly.
    texts: u32,
    /// Values that `m` has.
    middling: u32,
    /// A number for each column's row, so that columns do not follow each other.
    salts: [u32; 12],
    /// Statements of T-SQL that make its indexes, and their names.
    indexes: Vec<(String, String)>,
    /// Rows come before the indexes.
    is_filled_first: bool,
    /// An index leads to a row by its `id`.
    pub is_keyed: bool,
}

/// The tables of one session.
#[derive(Clone, Debug)]
pub struct Tables {
    pub list: Vec<Table>,
}

impl Tables {
    /// The tables that belong to a seed; `rows_max` is the number of rows of the largest.
    pub fn new(seed: u64, rows_max: u32) -> Tables {
        let mut random = Random::new(seed_of(seed, 11));
        let most = rows_max.max(1000);
        let fewest = (most / 10).max(500);
        let between = |random: &mut Random, most: u32| fewest + random.below(most - fewest + 1);
        let list = (0..TABLES)
            .map(|n| {
                let rows = match n {
                    2 => 300 + random.below(SMALL_ROWS.min(most) - 300 + 1),
                    CHANGED => between(&mut random, (most / 3).max(fewest)),
                    _ => between(&mut random, most),
                };
                Table::new(&mut random, n, rows)
            })
            .collect();
        Tables { list }
    }

    /// Statements of T-SQL that make and fill them.
    pub fn ms_script(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (n, table) in self.list.iter().enumerate() {
            out.push(format!("CREATE TABLE t{n} ({MS_COLUMNS})"));
            let rows = format!(
                "INSERT t{n} SELECT {} FROM GENERATE_SERIES(1, {})",
                table.values(&MS),
                table.rows
            );
            let indexes = table.indexes.iter().map(|(_, text)| text.clone());
            match table.is_filled_first {
                true => out.extend(std::iter::once(rows).chain(indexes)),
                false => out.extend(indexes.chain(std::iter::once(rows))),
            }
        }
        out
    }

    /// Statements of PostgreSQL that make and fill them.
    pub fn pg_script(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (n, table) in self.list.iter().enumerate() {
            out.push(format!("DROP TABLE IF EXISTS t{n}"));
            out.push(format!("CREATE UNLOGGED TABLE t{n} ({PG_COLUMNS})"));
            out.push(format!(
                "INSERT INTO t{n} SELECT {} FROM generate_series(1, {}) AS g(value)",
                table.values(&PG),
                table.rows
            ));
            for columns in ["id", "u", "m", "q"] {
                out.push(format!("CREATE INDEX ON t{n} ({columns})"));
            }
            out.push(format!("ANALYZE t{n}"));
        }
        out
    }

    /// Names of the indexes of the table that is changed.
    pub fn changed_indexes(&self) -> impl Iterator<Item = &str> {
        self.list[CHANGED]
            .indexes
            .iter()
            .map(|(name, _)| name.as_str())
    }
}

/// How a dialect writes what the formulas need.
struct Dialect {
    repeat: &'static str,
    char: &'static str,
    concat: &'static str,
    text: &'static str,
    day: (&'static str, &'static str),
}

const MS: Dialect = Dialect {
    repeat: "REPLICATE",
    char: "CHAR",
    concat: "+",
    text: "varchar(12)",
    day: ("DATEADD(day, ", ", CAST('2015-01-01' AS date))"),
};
const PG: Dialect = Dialect {
    repeat: "REPEAT",
    char: "CHR",
    concat: "||",
    text: "varchar(12)",
    day: ("(date '2015-01-01' + ", ")"),
};

impl Table {
    fn new(random: &mut Random, number: usize, rows: u32) -> Table {
        let longest = (TEXT_CHARACTERS / rows.max(1)).min(850);
        let lengths = [longest / 20 + 1, longest / 4 + 1, longest];
        let texts = [60, rows / 4 + 1, 1_000_000];
        let middling = [rows / 40 + 2, rows / 8 + 2, 1000];
        let mut table = Table {
            rows,
            text_length: lengths[random.below(3) as usize],
            texts: texts[random.below(3) as usize],
            middling: middling[random.below(3) as usize],
            salts: std::array::from_fn(|_| random.below(900_000) + 1),
            indexes: Vec::new(),
            is_filled_first: random.below(2) == 0,
            is_keyed: false,
        };
        table.draw_indexes(random, number);
        table
    }

    fn draw_indexes(&mut self, random: &mut Random, number: usize) {
        const SECOND: [&str; 7] = ["m", "q", "f, m", "u", "dt, f", "m) INCLUDE (s", "w, id"];
        let clustered = match random.below(4) {
            0 => None,
            1 => Some("CLUSTERED INDEX c ON {t} (m)"),
            _ => Some("UNIQUE CLUSTERED INDEX c ON {t} (id)"),
        };
        let mut add = |name: String, text: String| {
            let text = text.replace("{t}", &format!("t{number}"));
            self.indexes.push((name, format!("CREATE {text}")));
        };
        if let Some(text) = clustered {
            add("c".into(), text.into());
        }
        let is_clustered = clustered.is_some_and(|text| text.contains("(id)"));
        let has_key = !is_clustered && random.below(2) == 0;
        if has_key {
            add("k".into(), "UNIQUE INDEX k ON {t} (id)".into());
        }
        for n in 0..random.below(4) {
            let columns = SECOND[random.below(7) as usize];
            add(format!("x{n}"), format!("INDEX x{n} ON {{t}} ({columns})"));
        }
        self.is_keyed = is_clustered || has_key;
    }

    /// What the columns of row `value` are.
    fn values(&self, dialect: &Dialect) -> String {
        let Dialect {
            repeat,
            char,
            concat,
            text,
            day,
        } = dialect;
        // Products stay far within 64 bits.
        let drawn = |n: usize, below: u32| {
            let salt = self.salts[n % self.salts.len()];
            let other = salt / 7 + 13;
            let below = below.max(1);
            format!("((CAST(value AS bigint) * {salt} + {n}) % 1000003 * {other} + {n}) % {below}")
        };
        let int = |value: String| format!("CAST({value} AS int)");
        let or_null = |n: usize, part: u32, value: String| {
            format!(
                "CASE WHEN {} = 0 THEN NULL ELSE {value} END",
                drawn(n, part)
            )
        };
        let permuted = format!(
            "CAST(value AS bigint) * {} % {PERMUTED} + 1",
            self.salts[0] % (PERMUTED - 1) + 1
        );
        [
            "value".to_string(),
            int(permuted),
            or_null(
                1,
                11,
                format!(
                    "CASE WHEN {} = 0 THEN 1 ELSE {} END",
                    drawn(2, 3),
                    int(drawn(3, 7))
                ),
            ),
            or_null(4, 13, int(drawn(5, self.middling))),
            or_null(
                6,
                29,
                format!(
                    "CASE WHEN {} = 0 THEN 7 ELSE {} END",
                    drawn(7, 10),
                    int(drawn(8, self.rows))
                ),
            ),
            or_null(
                9,
                17,
                format!("CAST({} * 0.01 AS decimal(12, 2))", drawn(10, 1_000_000)),
            ),
            or_null(
                11,
                19,
                format!(
                    "{repeat}({char}({}), {}) {concat} CAST({} AS {text})",
                    int(format!("97 + {}", drawn(12, 4))),
                    int(drawn(13, self.text_length)),
                    drawn(14, self.texts)
                ),
            ),
            or_null(
                15,
                23,
                format!("'w' {concat} CAST({} AS {text})", drawn(16, 5000)),
            ),
            or_null(
                17,
                31,
                format!("{}{}{}", day.0, int(drawn(18, 3000)), day.1),
            ),
        ]
        .join(", ")
    }
}
