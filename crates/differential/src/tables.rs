//! The rows, and the ways in which they lie.
//!
//! Every table has the same columns; tables differ by rows and indexes. `indexed` has a primary key and random
//! indexes (descending, covering, filtered, unique), `heaps` nothing at all, `other` a clustered index
//! that is not unique, or a heap, and other random indexes.

use crate::draw::{Random, seed_of};
use crate::generate::{TableShape, Ty, Width};
use crate::text::{Literal, ms_bare, pg_bare};

/// A column in both dialects, with what its values may be.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub ty: Ty,
    pub width: Width,
    pub most: u64,
    ms: &'static str,
    pg: &'static str,
}

const fn column(
    name: &'static str,
    ty: Ty,
    width: Width,
    most: u64,
    ms: &'static str,
    pg: &'static str,
) -> Column {
    Column {
        name,
        ty,
        width,
        most,
        ms,
        pg,
    }
}

/// The columns that every table has.
pub const COLUMNS: [Column; 13] = [
    column(
        "id",
        Ty::Int,
        Width::Int,
        200_000,
        "int NOT NULL",
        "integer NOT NULL",
    ),
    column("i1", Ty::Int, Width::Int, 30, "int", "integer"),
    column("i2", Ty::Int, Width::Int, 400, "int", "integer"),
    column("sm", Ty::Int, Width::Small, 100, "smallint", "smallint"),
    column("ti", Ty::Int, Width::Tiny, 100, "tinyint", "smallint"),
    column(
        "b1",
        Ty::Int,
        Width::Bit,
        1,
        "bit NOT NULL",
        "smallint NOT NULL",
    ),
    column("bi", Ty::Int, Width::Big, 5_000_000_000, "bigint", "bigint"),
    column(
        "n1",
        Ty::Dec,
        Width::Int,
        1000,
        "decimal(9, 2)",
        "numeric(9, 2)",
    ),
    column("s1", Ty::Str, Width::Int, 0, "varchar(8)", "text"),
    column("s2", Ty::Str, Width::Int, 0, "nvarchar(8)", "text"),
    column("f1", Ty::Float, Width::Int, 100, "float", "float8"),
    column("d1", Ty::Date, Width::Int, 0, "date", "date"),
    column("dt", Ty::Stamp, Width::Int, 0, "datetime2(0)", "timestamp"),
];

/// Conditions of filtered indexes, the same in both dialects.
pub const FILTERS: [&str; 5] = [
    "i1 IS NOT NULL",
    "b1 = 1",
    "i2 > 100",
    "s1 >= 'a'",
    "n1 IS NOT NULL AND i1 > 3",
];

/// An index of one table in one layout.
#[derive(Clone, Debug)]
pub struct Index {
    /// `{t}` in it stands for the table.
    name: String,
    pub filter: Option<&'static str>,
    definition: String,
}

impl Index {
    /// Its name for the table with this number.
    pub fn name(&self, table: usize) -> String {
        self.name.replace("{t}", &format!("t{table}"))
    }
}

/// A table's rows, and its indexes in each layout.
#[derive(Clone, Debug)]
pub struct Table {
    pub rows: Vec<Vec<Literal>>,
    /// By layout.
    pub indexes: [Vec<Index>; LAYOUTS.len()],
}

/// Names of the databases that hold the same rows in other ways.
pub const LAYOUTS: [&str; 3] = ["indexed", "heaps", "other"];

/// All tables of one round.
#[derive(Clone, Debug)]
pub struct Tables {
    pub list: Vec<Table>,
    indexes_first: bool,
}

/// How many rows the tables of a round have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// So few that a join of everything with everything is nothing, and a statement is planned longer than it runs.
    Tiny,
    /// Several pages of an index, and joins of three tables in a few milliseconds.
    Small,
    /// Trees of two levels, and more rows than a batch of the executor.
    Large,
}

impl Size {
    /// By seed: of eight rounds five are tiny, two small, one large.
    pub const fn of(seed: u64) -> Size {
        match seed % 8 {
            7 => Size::Large,
            3 | 5 => Size::Small,
            _ => Size::Tiny,
        }
    }

    const fn rows(self) -> [u32; 4] {
        match self {
            Size::Tiny => [12, 24, 6, 32],
            Size::Small => [40, 90, 15, 160],
            Size::Large => [300, 3000, 800, 60],
        }
    }

    /// Statements of a round: so many that making the tables does not count, few over large ones, which take long.
    pub const fn statements(self) -> u64 {
        match self {
            Size::Tiny => 400,
            Size::Small => 150,
            Size::Large => 40,
        }
    }
}

impl Tables {
    /// Tables by a seed.
    pub fn new(seed: u64) -> Tables {
        let mut random = Random::new(seed_of(seed, u64::MAX));
        let sizes = Size::of(seed).rows();
        let list = sizes
            .iter()
            .map(|size| Table::new(&mut random, *size))
            .collect();
        Tables {
            list,
            indexes_first: random.below(2) == 0,
        }
    }

    /// What the generator needs to know of the tables.
    pub fn shapes(&self) -> Vec<TableShape> {
        self.list
            .iter()
            .map(|t| TableShape { rows: t.rows.len() })
            .collect()
    }

    /// Batches that make the tables in a database of T-SQL, each by itself.
    pub fn ms_script(&self, layout: usize) -> Vec<String> {
        let mut out = Vec::new();
        for (n, table) in self.list.iter().enumerate() {
            let columns = COLUMNS.map(|c| format!("{} {}", c.name, c.ms)).join(", ");
            out.push(format!(
                "DROP TABLE IF EXISTS t{n}; CREATE TABLE t{n} ({columns})"
            ));
            let indexes = table.indexes[layout]
                .iter()
                .map(|index| index.definition.replace("{t}", &format!("t{n}")));
            let rows = inserts(n, &table.rows, ms_bare);
            match self.indexes_first {
                true => out.extend(indexes.chain(rows)),
                false => out.extend(rows.into_iter().chain(indexes)),
            }
        }
        out
    }

    /// Statements that make and fill the tables in PostgreSQL.
    pub fn pg_script(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (n, table) in self.list.iter().enumerate() {
            let columns = COLUMNS.map(|c| format!("{} {}", c.name, c.pg)).join(", ");
            out.push(format!("DROP TABLE IF EXISTS t{n}"));
            // Checked when a statement ends, as T-SQL does.
            out.push(format!(
                "CREATE UNLOGGED TABLE t{n} ({columns}, PRIMARY KEY (id) DEFERRABLE INITIALLY IMMEDIATE)"
            ));
            out.extend(inserts(n, &table.rows, pg_bare));
            out.push(format!("CREATE INDEX ON t{n} (i1)"));
            out.push(format!("ANALYZE t{n}"));
        }
        out
    }
}

fn inserts(
    table: usize,
    rows: &[Vec<Literal>],
    written: impl Fn(&Literal) -> String,
) -> Vec<String> {
    let row = |row: &Vec<Literal>| {
        let values: Vec<String> = row.iter().map(&written).collect();
        format!("({})", values.join(", "))
    };
    rows.chunks(400)
        .map(|part| {
            let list: Vec<String> = part.iter().map(row).collect();
            format!("INSERT INTO t{table} VALUES {}", list.join(",\n "))
        })
        .collect()
}

impl Table {
    fn new(random: &mut Random, most: u32) -> Table {
        let rows = most / 2 + random.below(most / 2 + 1);
        let mut table = Table {
            rows: (0..rows).map(|id| row(random, id)).collect(),
            indexes: Default::default(),
        };
        table.indexes[0] = indexed(random);
        table.indexes[2] = other(random);
        table
    }
}

fn row(random: &mut Random, id: u32) -> Vec<Literal> {
    COLUMNS
        .iter()
        .map(|column| match column.name {
            "id" => Literal::Number((id + 1).to_string()),
            "b1" => Literal::Number(random.below(2).to_string()),
            _ if random.below(7) == 0 => Literal::Null,
            _ => value(random, column),
        })
        .collect()
}

fn value(random: &mut Random, column: &Column) -> Literal {
    let number = |n: i64| Literal::Number(n.to_string());
    match (column.ty, column.width) {
        (Ty::Int, Width::Big) => {
            let high = i64::from(random.below(3)) * 2_000_000_000;
            number(high + i64::from(random.below(50)) - 20)
        }
        (Ty::Int, Width::Tiny) => number(i64::from(random.below(100))),
        (Ty::Int, _) => {
            let most = u32::try_from(column.most).unwrap_or(1);
            number(i64::from(random.below(most)) - 3)
        }
        (Ty::Dec, _) => Literal::Number(format!(
            "{}.{:02}",
            i64::from(random.below(950)) - 20,
            random.below(8) * 12
        )),
        (Ty::Float, _) => Literal::Number(format!(
            "{}.{}",
            i64::from(random.below(60)) - 20,
            ["0", "25", "5", "75"][random.below(4) as usize]
        )),
        (Ty::Str, _) => {
            let text = word(random);
            match column.name {
                "s2" => Literal::Wide(text),
                _ => Literal::Text(text),
            }
        }
        (Ty::Date, _) => Literal::Date(day(random)),
        (Ty::Stamp, _) => {
            let day = day(random);
            Literal::Stamp(format!(
                "{day} {:02}:{:02}:00",
                random.below(24),
                random.below(4) * 15
            ))
        }
    }
}

fn word(random: &mut Random) -> String {
    const LETTERS: [&str; 8] = ["a", "b", "A", "c", "B", "0", "1", "_"];
    let length = random.below(4);
    (0..length)
        .map(|_| LETTERS[random.below(8) as usize])
        .collect()
}

fn day(random: &mut Random) -> String {
    format!(
        "2024-{:02}-{:02}",
        1 + random.below(6),
        1 + random.below(28)
    )
}

fn indexed(random: &mut Random) -> Vec<Index> {
    let mut list = vec![Index {
        name: "pk_{t}".into(),
        filter: None,
        definition: "ALTER TABLE {t} ADD CONSTRAINT pk_{t} PRIMARY KEY CLUSTERED (id)".into(),
    }];
    list.extend((0..3 + random.below(3)).map(|n| secondary(random, n)));
    list
}

fn other(random: &mut Random) -> Vec<Index> {
    let mut list = Vec::new();
    if random.below(3) > 0 {
        let keys = keys(random);
        list.push(Index {
            name: "c".into(),
            filter: None,
            definition: format!("CREATE CLUSTERED INDEX c ON {{t}} ({keys})"),
        });
    }
    list.extend((0..2 + random.below(4)).map(|n| secondary(random, n)));
    list
}

fn secondary(random: &mut Random, n: u32) -> Index {
    let name = format!("x{n}");
    let mut keys = keys(random);
    let unique = random.below(5) == 0;
    if unique && !keys.contains("id") {
        keys.push_str(", id");
    }
    let include = match random.below(3) {
        0 => {
            let column = COLUMNS[random.below(13) as usize].name;
            match keys.contains(column) {
                true => String::new(),
                false => format!(" INCLUDE ({column})"),
            }
        }
        _ => String::new(),
    };
    let filter = (random.below(4) == 0).then(|| FILTERS[random.below(5) as usize]);
    let clause = filter.map(|f| format!(" WHERE {f}")).unwrap_or_default();
    let unique = if unique { "UNIQUE " } else { "" };
    Index {
        definition: format!("CREATE {unique}INDEX {name} ON {{t}} ({keys}){include}{clause}"),
        name,
        filter,
    }
}

/// One to three columns, some descending.
fn keys(random: &mut Random) -> String {
    let mut names: Vec<&str> = Vec::new();
    for _ in 0..=random.below(3) {
        let name = COLUMNS[random.below(13) as usize].name;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let list: Vec<String> = names
        .iter()
        .map(|name| match random.below(3) {
            0 => format!("{name} DESC"),
            _ => (*name).to_string(),
        })
        .collect();
    list.join(", ")
}
