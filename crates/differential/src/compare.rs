//! A statement, a way to run it, and whether both servers agree.

use crate::draw::{Random, seed_of};
use crate::generate::{Kind, Output, Statement};
use crate::peers::{Answer, Daruma, Postgres, Refusal, Rows};
use crate::tables::{COLUMNS, FILTERS, LAYOUTS, Tables};
use crate::text::{ms_call, ms_literals, pg_literals};
use std::time::Duration;

/// How Daruma is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    pub layout: usize,
    pub mode: Mode,
    /// Inside OPTION.
    pub hint: &'static str,
}

/// How the values of a statement reach the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    Literals,
    /// sp_executesql with these sets of values in turn; the last is compared.
    Params(Vec<usize>),
    /// Literals, and an index hint behind each table, chosen by the number.
    IndexHints(u64),
}

impl Variant {
    /// The set of values that the answer is compared for.
    pub fn set(&self) -> usize {
        match &self.mode {
            Mode::Params(sets) => sets.last().copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// As the summary counts it.
    pub fn name(&self) -> &'static str {
        match (&self.mode, self.hint) {
            (Mode::Literals, "") => "literals",
            (Mode::Literals, _) => "query hints",
            (Mode::Params(sets), _) if sets.len() == 1 => "parameters",
            (Mode::Params(_), _) => "other values",
            (Mode::IndexHints(_), _) => "index hints",
        }
    }
}

const HINTS: [&str; 13] = [
    "HASH JOIN",
    "MERGE JOIN",
    "LOOP JOIN",
    "FORCE ORDER",
    "HASH GROUP",
    "ORDER GROUP",
    "MERGE UNION",
    "HASH UNION",
    "CONCAT UNION",
    "RECOMPILE",
    "FAST 3",
    "MAXDOP 1",
    "HASH JOIN, ORDER GROUP",
];

/// All ways in which one statement is asked; which hints and layouts, chance says.
pub fn variants(statement: &Statement, seed: u64) -> Vec<Variant> {
    let mut random = Random::new(seed_of(seed, 1));
    let mut layout = || random.below(3) as usize;
    let with = |layout, mode, hint| Variant { layout, mode, hint };
    let mut out: Vec<Variant> = (0..LAYOUTS.len())
        .map(|n| with(n, Mode::Literals, ""))
        .collect();
    let cached = layout();
    if !statement.params.is_empty() {
        for sets in [vec![0], vec![0, 1], vec![0, 2]] {
            out.push(with(cached, Mode::Params(sets), ""));
        }
    }
    let (one, two, three) = (layout(), layout(), layout());
    let mut hint = || HINTS[random.below(13) as usize];
    out.push(with(one, Mode::Literals, hint()));
    if matches!(statement.kind, Kind::Query { .. }) {
        out.push(with(two, Mode::Literals, hint()));
    }
    let number = random.next();
    if three != 1 {
        out.push(with(three, Mode::IndexHints(number), ""));
    }
    out
}

/// What differs.
#[derive(Clone, Debug)]
pub struct Difference {
    pub asked: String,
    pub reference: String,
    pub found: Result<Vec<Rows>, Refusal>,
    pub expected: Result<Vec<Rows>, Refusal>,
}

impl Difference {
    /// Differences of one kind are taken for the same while one of them is reduced.
    pub fn kind(&self) -> String {
        let side = |side: &Result<Vec<Rows>, Refusal>| match side {
            Ok(_) => "rows".to_string(),
            Err(Refusal::Error { code, .. }) => code.clone(),
            Err(Refusal::TooSlow) => "slow".into(),
            Err(Refusal::Lost(_)) => "lost".into(),
        };
        format!("{} {}", side(&self.found), side(&self.expected))
    }
}

/// What one comparison came to.
#[derive(Clone, Debug)]
pub enum Outcome {
    Agree {
        empty: bool,
        daruma: Duration,
        postgres: Duration,
    },
    /// Both give an error.
    BothRefuse {
        daruma: Refusal,
        postgres: Refusal,
    },
    /// The reference took too long or cannot do it, or no plan satisfies a hint.
    LeftOut,
    /// Only Daruma took too long.
    Slow {
        postgres: Duration,
    },
    Differ(Box<Difference>),
}

/// What the reference answered with each set of values, once asked.
#[derive(Default)]
pub struct Expected {
    sets: [Option<Result<Answer, Refusal>>; crate::text::SETS],
}

/// A fault planted in what Daruma is asked, to see that it is noticed.
pub type Planted = fn(String) -> String;

/// The servers that are asked: Daruma once for each layout.
pub struct Pair {
    pub daruma: Vec<Daruma>,
    pub postgres: Postgres,
    pub planted: Option<Planted>,
}

impl Pair {
    /// Asks Daruma in this variant and compares with what PostgreSQL says, which is asked once for each set of
    /// values.
    pub fn compare(
        &mut self,
        tables: &Tables,
        statement: &Statement,
        variant: &Variant,
        expected: &mut Expected,
    ) -> Outcome {
        let set = variant.set();
        let reference = pg_text(statement, set);
        let expected = expected.sets[set]
            .get_or_insert_with(|| self.reference(&reference, &statement.kind))
            .clone();
        if left_out(&expected) {
            return Outcome::LeftOut;
        }
        let (asked, found) = self.found(tables, statement, variant);
        match (&found, &expected) {
            (Err(Refusal::Error { code, .. }), _)
                if code == "8622" && variant.may_have_no_plan() =>
            {
                Outcome::LeftOut
            }
            (Err(Refusal::TooSlow), Ok(answer)) => Outcome::Slow {
                postgres: answer.took,
            },
            (Err(d @ Refusal::Error { .. }), Err(p)) => Outcome::BothRefuse {
                daruma: d.clone(),
                postgres: p.clone(),
            },
            (Ok(d), Ok(p)) => match same(statement, &d.results, &p.results, tables, variant) {
                true => Outcome::Agree {
                    empty: d.results.first().is_none_or(Vec::is_empty),
                    daruma: d.took,
                    postgres: p.took,
                },
                false => differ(asked, reference, found, expected),
            },
            _ => differ(asked, reference, found, expected),
        }
    }

    fn reference(&mut self, text: &str, kind: &Kind) -> Result<Answer, Refusal> {
        let answer = self.postgres.ask(text);
        if matches!(kind, Kind::Change { .. }) {
            self.postgres.must("ROLLBACK");
        }
        answer
    }

    /// What was sent last, and what came back.
    fn found(
        &mut self,
        tables: &Tables,
        statement: &Statement,
        variant: &Variant,
    ) -> (String, Result<Answer, Refusal>) {
        let texts = ms_texts(tables, statement, variant);
        let daruma = &mut self.daruma[variant.layout];
        let mut last = (String::new(), Err(Refusal::TooSlow));
        for text in texts {
            let text = match self.planted {
                Some(planted) => planted(text),
                None => text,
            };
            let answer = daruma.ask(&text);
            if matches!(statement.kind, Kind::Change { .. }) {
                // After an error the transaction may be open still.
                if answer.is_err() {
                    let _ = daruma.ask("IF @@TRANCOUNT > 0 ROLLBACK");
                }
            }
            last = (text, answer);
        }
        last
    }
}

impl Variant {
    /// A hint may ask for what no plan can do.
    fn may_have_no_plan(&self) -> bool {
        !self.hint.is_empty() || matches!(self.mode, Mode::IndexHints(_))
    }
}

fn differ(
    asked: String,
    reference: String,
    found: Result<Answer, Refusal>,
    expected: Result<Answer, Refusal>,
) -> Outcome {
    Outcome::Differ(Box::new(Difference {
        asked,
        reference,
        found: found.map(|a| a.results),
        expected: expected.map(|a| a.results),
    }))
}

/// The reference took too long, or lacks it (a FULL JOIN that neither merges nor hashes).
fn left_out(expected: &Result<Answer, Refusal>) -> bool {
    match expected {
        Err(Refusal::TooSlow) => true,
        Err(Refusal::Error { code, .. }) => code == "0A000",
        _ => false,
    }
}

// --- Texts

fn names() -> String {
    COLUMNS.map(|c| c.name).join(", ")
}

fn pg_text(statement: &Statement, set: usize) -> String {
    let text = pg_literals(&statement.text.pg, &statement.params, set);
    match &statement.kind {
        Kind::Query { .. } => text,
        Kind::Change { table, .. } => {
            let names = names();
            let mut out = format!("BEGIN;\n{text};\nSELECT {names} FROM t{table}");
            for filter in FILTERS {
                out.push_str(&format!("; SELECT {names} FROM t{table} WHERE {filter}"));
            }
            out
        }
    }
}

/// What is sent, one after the other.
fn ms_texts(tables: &Tables, statement: &Statement, variant: &Variant) -> Vec<String> {
    let mut ms = statement.text.ms.clone();
    if !variant.hint.is_empty() {
        ms.push_str(&format!(" OPTION ({})", variant.hint));
    }
    // MERGE ends with a semicolon.
    if matches!(statement.kind, Kind::Change { .. }) {
        ms.push(';');
    }
    let hint = |table| match variant.mode {
        Mode::IndexHints(number) => index_hint(tables, variant.layout, table, number),
        _ => String::new(),
    };
    let texts: Vec<String> = match &variant.mode {
        Mode::Params(sets) => sets
            .iter()
            .map(|set| ms_call(&ms, &statement.params, *set, hint))
            .collect(),
        _ => vec![ms_literals(&ms, &statement.params, 0, hint)],
    };
    match &statement.kind {
        Kind::Query { .. } => texts,
        Kind::Change { table, .. } => {
            let reads = reads(tables, variant.layout, *table);
            texts
                .iter()
                .map(|t| format!("SET NOCOUNT ON; BEGIN TRAN;\n{t}\n{reads};\nROLLBACK"))
                .collect()
        }
    }
}

fn index_hint(tables: &Tables, layout: usize, table: usize, number: u64) -> String {
    let indexes = &tables.list[table].indexes[layout];
    let mut random = Random::new(seed_of(number, table as u64));
    let usable: Vec<_> = indexes.iter().filter(|i| i.filter.is_none()).collect();
    let count = u32::try_from(usable.len()).unwrap_or(0);
    match usable.get(random.below(count + 1) as usize) {
        None => " WITH (FORCESCAN)".into(),
        Some(index) => format!(" WITH (INDEX({}))", index.name(table)),
    }
}

/// The table read whole and through each of its indexes.
fn reads(tables: &Tables, layout: usize, table: usize) -> String {
    let names = names();
    let mut out = vec![format!("SELECT {names} FROM t{table}")];
    for index in &tables.list[table].indexes[layout] {
        let filter = index.filter.map(|f| format!(" WHERE {f}"));
        out.push(format!(
            "SELECT {names} FROM t{table} WITH (INDEX({})){}",
            index.name(table),
            filter.unwrap_or_default()
        ));
    }
    out.join(";\n")
}

// --- Rows

fn same(
    statement: &Statement,
    found: &[Rows],
    expected: &[Rows],
    tables: &Tables,
    variant: &Variant,
) -> bool {
    match &statement.kind {
        Kind::Query { ordered } => match (found, expected) {
            ([found], [expected]) => same_rows(found, expected, *ordered),
            _ => false,
        },
        Kind::Change { table, output } => {
            same_change(found, expected, *output, tables, variant.layout, *table)
        }
    }
}

fn same_rows(found: &Rows, expected: &Rows, ordered: bool) -> bool {
    match ordered || found.len() != expected.len() {
        true => found == expected,
        false => sorted(found) == sorted(expected),
    }
}

fn sorted(rows: &Rows) -> Rows {
    let mut rows = rows.clone();
    rows.sort();
    rows
}

/// Rows of OUTPUT, then the table, then the table by each index.
fn same_change(
    found: &[Rows],
    expected: &[Rows],
    output: Output,
    tables: &Tables,
    layout: usize,
    table: usize,
) -> bool {
    let indexes = &tables.list[table].indexes[layout];
    let ours = usize::from(output != Output::None);
    let theirs = usize::from(output == Output::Rows);
    let complete =
        found.len() == ours + 1 + indexes.len() && expected.len() == theirs + 1 + FILTERS.len();
    if !complete {
        return false;
    }
    let whole = &expected[theirs];
    let of_filter = |filter: &str| {
        let at = FILTERS.iter().position(|f| *f == filter).unwrap_or(0);
        &expected[theirs + 1 + at]
    };
    let output_agrees = output != Output::Rows || same_rows(&found[0], &expected[0], false);
    let reads_agree = indexes.iter().enumerate().all(|(n, index)| {
        let expected = index.filter.map_or(whole, of_filter);
        same_rows(&found[ours + 1 + n], expected, false)
    });
    output_agrees && same_rows(&found[ours], whole, false) && reads_agree
}
