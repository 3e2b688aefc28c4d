//! A statement, a way to run it, and whether both servers agree.

use crate::draw::{Random, seed_of};
use crate::generate::{Kind, Output, Statement};
use crate::peers::{Answer, Daruma, Postgres, Refusal, Rows};
use crate::tables::{COLUMNS, FILTERS, LAYOUTS, Tables};
use crate::text::{SETS, ms_call, ms_literals, pg_literals};
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
    /// sp_executesql with these sets of values in turn; the last is compared. The others made the plan.
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
    let is_query = matches!(statement.kind, Kind::Query { .. });
    let mut layout = || random.below(3) as usize;
    let with = |layout, mode, hint| Variant { layout, mode, hint };
    let mut out: Vec<Variant> = (0..LAYOUTS.len())
        .map(|n| with(n, Mode::Literals, ""))
        .collect();
    let cached = layout();
    if !statement.params.is_empty() {
        out.extend(
            calls(cached, is_query).map(|(layout, sets)| with(layout, Mode::Params(sets), "")),
        );
    }
    let (one, two, three) = (layout(), layout(), layout());
    let mut hint = || HINTS[random.below(13) as usize];
    out.push(with(one, Mode::Literals, hint()));
    if is_query {
        out.push(with(two, Mode::Literals, hint()));
    }
    let number = random.next();
    if three != 1 {
        out.push(with(three, Mode::IndexHints(number), ""));
    }
    out
}

/// Calls with parameters by layout: every set of values over the plan of the first in one, two sets in the others. A change is
/// called in one layout alone, since each call reads its table back.
fn calls(layout: usize, is_query: bool) -> impl Iterator<Item = (usize, Vec<usize>)> {
    let here = if is_query { SETS } else { SETS / 2 };
    let elsewhere = if is_query { LAYOUTS.len() } else { 1 };
    (0..elsewhere).flat_map(move |n| {
        let (first, count) = match n {
            0 => (0, here),
            _ => (n, 2),
        };
        let layout = (layout + n) % LAYOUTS.len();
        (0..count).map(move |last| match last {
            0 => (layout, vec![first]),
            _ => (layout, vec![first, first + last]),
        })
    })
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
    /// Both give an error, for the same reason.
    RefuseAlike,
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
    sets: [Option<Result<Answer, Refusal>>; SETS],
}

impl Expected {
    /// How long its answers took.
    pub fn took(&self) -> Duration {
        self.sets.iter().flatten().flatten().map(|a| a.took).sum()
    }
}

/// Does the server still have the plan that the first set of values made?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plans {
    /// The variants before this one were asked just now.
    Cached,
    /// Every set is asked again.
    New,
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
        plans: Plans,
    ) -> Outcome {
        let set = variant.set();
        let expected = &*expected.sets[set]
            .get_or_insert_with(|| self.reference(&pg_text(statement, set), &statement.kind));
        if left_out(expected) {
            return Outcome::LeftOut;
        }
        let (asked, found) = self.found(tables, statement, variant, plans);
        let differ = |asked, found: &Result<Answer, Refusal>| {
            let reference = pg_text(statement, set);
            differ(asked, reference, found.clone(), expected.clone())
        };
        match (&found, expected) {
            (Err(Refusal::Error { code, .. }), _)
                if code == "8622" && variant.may_have_no_plan() =>
            {
                Outcome::LeftOut
            }
            (Err(Refusal::TooSlow), Ok(answer)) => Outcome::Slow {
                postgres: answer.took,
            },
            // An internal error of PostgreSQL ("failed to build any 4-way joins") says nothing of the statement.
            (_, Err(Refusal::Error { code, .. })) if code == "XX000" => Outcome::LeftOut,
            // Whatever it would have said.
            (Err(Refusal::TooSlow), Err(_)) => Outcome::LeftOut,
            (Err(Refusal::Error { code: d, .. }), Err(Refusal::Error { code: p, .. }))
                if is_same_reason(d, p) =>
            {
                Outcome::RefuseAlike
            }
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
                false => differ(asked, &found),
            },
            _ => differ(asked, &found),
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
        plans: Plans,
    ) -> (String, Result<Answer, Refusal>) {
        let mut texts = ms_texts(tables, statement, variant);
        if plans == Plans::Cached {
            texts.drain(..texts.len() - 1);
        }
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

/// Numbers of T-SQL and what PostgreSQL calls the same.
const REASONS: [(&[&str], &[&str]); 5] = [
    (&["8134"], &["22012"]),
    (&["220", "232", "8115"], &["22003"]),
    (&["245"], &["22P02"]),
    (&["289"], &["22008"]),
    (&["3623"], &["2201F", "2201E"]),
];

fn is_same_reason(daruma: &str, postgres: &str) -> bool {
    REASONS
        .iter()
        .any(|(d, p)| d.contains(&daruma) && p.contains(&postgres))
}

/// The reference took too long, or lacks it (a FULL JOIN that neither merges nor hashes).
fn left_out(expected: &Result<Answer, Refusal>) -> bool {
    match expected {
        Err(Refusal::TooSlow) => true,
        // Subqueries give one row by their making, but the plan that PostgreSQL 15 has for MIN and MAX over constants under WITH
        // TIES takes several.
        Err(Refusal::Error { code, .. }) => code == "0A000" || code == "21000",
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

fn sorted(rows: &Rows) -> Vec<&Vec<Option<String>>> {
    let mut rows: Vec<_> = rows.iter().collect();
    rows.sort_unstable();
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
