//! A round: tables by a seed, then statements by their numbers, each asked in every way.

use crate::compare::{Difference, Expected, Outcome, Pair, Plans, Variant, variants};
use crate::draw::{Draw, Part, seed_of};
use crate::generate::{Gen, Statement};
use crate::peers::Refusal;
use crate::reduce::reduced;
use crate::tables::{LAYOUTS, Size, Tables};
use crate::text::{ms_literals, pg_literals};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For each step of reducing.
const REDUCE_LIMIT: Duration = Duration::from_secs(20);

/// A statement took long when it took longer than this and so many times as long as the reference.
const SLOW: Duration = Duration::from_millis(250);
const SLOWER: u32 = 20;
/// A statement that took so long is not asked in more ways.
const LONG: Duration = Duration::from_millis(500);

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub statements: u64,
    pub results: u64,
    pub by_variant: BTreeMap<&'static str, u64>,
    pub empty: u64,
    pub left_out: u64,
    /// Errors for the same reason, among the results.
    pub refused_alike: u64,
    pub both_refuse: u64,
    /// Errors that both gave, with the place of the first.
    pub refusals: BTreeMap<String, (u64, String)>,
    pub differences: u64,
    pub slow: Vec<Slow>,
    /// Waited for each server's answers that were compared.
    pub daruma: Duration,
    pub postgres: Duration,
    /// Until the tables were made on both sides.
    pub laying: Duration,
}

/// A statement that took Daruma far longer than PostgreSQL.
#[derive(Clone, Debug)]
pub struct Slow {
    pub seed: u64,
    pub number: u64,
    pub variant: &'static str,
    /// `None`: it did not end in time.
    pub daruma: Option<Duration>,
    pub postgres: Duration,
}

impl Counts {
    /// Adds the counts of another round.
    pub fn add(&mut self, more: Counts) {
        self.statements += more.statements;
        self.results += more.results;
        self.empty += more.empty;
        self.left_out += more.left_out;
        self.refused_alike += more.refused_alike;
        self.both_refuse += more.both_refuse;
        self.differences += more.differences;
        self.slow.extend(more.slow);
        self.daruma += more.daruma;
        self.postgres += more.postgres;
        self.laying += more.laying;
        for (name, count) in more.by_variant {
            *self.by_variant.entry(name).or_default() += count;
        }
        for (name, (count, place)) in more.refusals {
            self.refusals.entry(name).or_insert((0, place)).0 += count;
        }
    }
}

/// One set of tables and the statements asked over it.
pub struct Round<'a> {
    pub seed: u64,
    tables: Tables,
    pair: &'a mut Pair,
}

impl<'a> Round<'a> {
    /// Makes the tables on both sides.
    pub fn new(seed: u64, pair: &'a mut Pair, counts: &mut Counts) -> Round<'a> {
        let begun = Instant::now();
        let tables = Tables::new(seed);
        let mut round = Round { seed, tables, pair };
        let tables = round.tables.clone();
        round.lay(&tables);
        counts.laying += begun.elapsed();
        round
    }

    /// How many statements it has.
    pub const fn statements(&self) -> u64 {
        Size::of(self.seed).statements()
    }

    fn lay(&mut self, tables: &Tables) {
        self.pair.postgres.must_all(&tables.pg_script());
        for layout in 0..LAYOUTS.len() {
            for text in tables.ms_script(layout) {
                self.pair.daruma[layout].must(&text);
            }
        }
    }

    /// Statement `number` in both dialects.
    pub fn texts(&self, number: u64) -> String {
        let seed = seed_of(self.seed, number);
        let statement = Gen::statement(Draw::fresh(seed), &self.tables.shapes());
        let no_hint = |_| String::new();
        let ms = ms_literals(&statement.text.ms, &statement.params, 0, no_hint);
        let pg = pg_literals(&statement.text.pg, &statement.params, 0);
        format!("-- T-SQL\n{ms};\n-- PostgreSQL\n{pg};")
    }

    /// Asks statement `number` in every way; the first difference ends it and is told, reduced.
    pub fn statement(&mut self, number: u64, counts: &mut Counts) -> Option<String> {
        let seed = seed_of(self.seed, number);
        let statement = Gen::statement(Draw::fresh(seed), &self.tables.shapes());
        let mut expected = Expected::default();
        counts.statements += 1;
        for variant in variants(&statement, seed) {
            let outcome = self.pair.compare(
                &self.tables,
                &statement,
                &variant,
                &mut expected,
                Plans::Cached,
            );
            match outcome {
                Outcome::Differ(difference) => {
                    counts.differences += 1;
                    return Some(self.told(number, &statement, &variant, &difference));
                }
                Outcome::LeftOut => {
                    counts.left_out += 1;
                }
                other => {
                    let ends = is_long(&other);
                    self.count(number, &variant, other, counts);
                    if ends {
                        break;
                    }
                }
            }
        }
        counts.postgres += expected.took();
        None
    }

    fn count(&self, number: u64, variant: &Variant, outcome: Outcome, counts: &mut Counts) {
        let slow = |daruma, postgres| Slow {
            seed: self.seed,
            number,
            variant: variant.name(),
            daruma,
            postgres,
        };
        match outcome {
            Outcome::Agree {
                empty,
                daruma,
                postgres,
            } => {
                counts.results += 1;
                counts.empty += u64::from(empty);
                counts.daruma += daruma;
                *counts.by_variant.entry(variant.name()).or_default() += 1;
                if daruma > SLOW && daruma > postgres * SLOWER {
                    counts.slow.push(slow(Some(daruma), postgres));
                }
            }
            Outcome::RefuseAlike => {
                counts.results += 1;
                counts.refused_alike += 1;
                *counts.by_variant.entry(variant.name()).or_default() += 1;
            }
            Outcome::BothRefuse { daruma, postgres } => {
                counts.both_refuse += 1;
                let name = format!("{} and {}", short(&daruma), short(&postgres));
                let place = format!("--seed {} --statement {number}", self.seed);
                counts.refusals.entry(name).or_insert((0, place)).0 += 1;
            }
            Outcome::Slow { postgres } => counts.slow.push(slow(None, postgres)),
            Outcome::LeftOut | Outcome::Differ(_) => {}
        }
    }

    // --- Reducing

    fn told(
        &mut self,
        number: u64,
        statement: &Statement,
        variant: &Variant,
        difference: &Difference,
    ) -> String {
        let kind = difference.kind();
        let begun = Instant::now();
        let whole = self.tables.clone();
        let tree = self.reduce_statement(statement.tree.clone(), variant, &kind, REDUCE_LIMIT);
        let tree = self.reduce_rows(tree, variant, &kind);
        let tree = self.reduce_indexes(tree, variant, &kind);
        let left = REDUCE_LIMIT.saturating_sub(begun.elapsed() / 2);
        let tree = self.reduce_statement(tree, variant, &kind, left);
        let tables = self.tables.clone();
        let simple = self.differs(tree, variant);
        let text = match &simple {
            Some((_, difference)) => tell(self.seed, number, variant, &tables, difference),
            // It does not show a second time: tell what was seen.
            None => tell(self.seed, number, variant, &whole, difference),
        };
        self.tables = whole.clone();
        self.lay(&whole);
        text
    }

    fn reduce_statement(
        &mut self,
        tree: Part,
        variant: &Variant,
        kind: &str,
        limit: Duration,
    ) -> Part {
        reduced(tree, limit, |tree| {
            let (used, difference) = self.differs(tree, variant)?;
            (difference.kind() == kind).then_some(used)
        })
    }

    /// Does the statement of these choices differ? As it was used, and how.
    fn differs(&mut self, tree: Part, variant: &Variant) -> Option<(Part, Difference)> {
        let shapes = Tables::shapes(&self.tables);
        let statement = Gen::statement(Draw::again(tree), &shapes);
        let mut expected = Expected::default();
        match self
            .pair
            .compare(&self.tables, &statement, variant, &mut expected, Plans::New)
        {
            Outcome::Differ(difference) => Some((statement.tree, *difference)),
            _ => None,
        }
    }

    /// Takes rows away, half of a table's at first, as long as it differs.
    fn reduce_rows(&mut self, mut tree: Part, variant: &Variant, kind: &str) -> Part {
        let begun = Instant::now();
        for table in 0..self.tables.list.len() {
            let mut size = self.tables.list[table].rows.len();
            while size > 0 {
                let mut at = 0;
                while at < self.tables.list[table].rows.len() {
                    if begun.elapsed() > REDUCE_LIMIT {
                        return tree;
                    }
                    let mut fewer = self.tables.clone();
                    let rows = &mut fewer.list[table].rows;
                    let end = (at + size).min(rows.len());
                    rows.drain(at..end);
                    match self.differs_over(fewer, &tree, variant, kind) {
                        Some(used) => tree = used,
                        None => at += size,
                    }
                }
                size /= 2;
            }
        }
        tree
    }

    /// Takes indexes away one by one, as long as it differs.
    fn reduce_indexes(&mut self, mut tree: Part, variant: &Variant, kind: &str) -> Part {
        let begun = Instant::now();
        for table in 0..self.tables.list.len() {
            let mut at = 0;
            while at < self.tables.list[table].indexes[variant.layout].len() {
                if begun.elapsed() > REDUCE_LIMIT {
                    return tree;
                }
                let mut fewer = self.tables.clone();
                fewer.list[table].indexes[variant.layout].remove(at);
                match self.differs_over(fewer, &tree, variant, kind) {
                    Some(used) => tree = used,
                    None => at += 1,
                }
            }
        }
        tree
    }

    /// The same over other tables, which stay if it does; otherwise the old ones are laid again.
    fn differs_over(
        &mut self,
        tables: Tables,
        tree: &Part,
        variant: &Variant,
        kind: &str,
    ) -> Option<Part> {
        let before = std::mem::replace(&mut self.tables, tables.clone());
        self.lay(&tables);
        match self.differs(tree.clone(), variant) {
            Some((used, difference)) if difference.kind() == kind => Some(used),
            _ => {
                self.lay(&before);
                self.tables = before;
                None
            }
        }
    }
}

/// The other ways would take as long, and in that time a hundred statements are asked.
fn is_long(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Agree { daruma, .. } => *daruma > LONG,
        Outcome::Slow { .. } => true,
        _ => false,
    }
}

fn short(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Error { code, .. } => code.clone(),
        Refusal::TooSlow => "too slow".into(),
        Refusal::Lost(_) => "connection lost".into(),
    }
}

/// Rows that a report shows of each side.
const ROWS_SHOWN: usize = 12;
/// Tables of more rows are not written out: the command makes them again.
const TABLE_ROWS_SHOWN: usize = 25;

fn tell(
    seed: u64,
    number: u64,
    variant: &Variant,
    tables: &Tables,
    difference: &Difference,
) -> String {
    let mut out = format!(
        "DIFFERENCE: seed {seed}, statement {number}, {} over {}\nrepeat it: tests/differential/run.sh --seed {seed} --statement {number}\n",
        variant.name(),
        LAYOUTS[variant.layout]
    );
    let rows: usize = tables.list.iter().map(|t| t.rows.len()).sum();
    if rows <= TABLE_ROWS_SHOWN {
        out.push_str("-- tables of T-SQL\n");
        for text in tables.ms_script(variant.layout) {
            if names_one_of(&text, &difference.asked, tables.list.len()) {
                out.push_str(&format!("{text};\n"));
            }
        }
    }
    out.push_str(&format!("-- Daruma\n{}\n", difference.asked));
    out.push_str(&format!("-- PostgreSQL\n{}\n", difference.reference));
    out.push_str(&format!("-- Daruma's answer\n{}", shown(&difference.found)));
    out.push_str(&format!(
        "-- PostgreSQL's answer\n{}",
        shown(&difference.expected)
    ));
    out
}

/// Is a batch about a table that the statement names?
fn names_one_of(batch: &str, statement: &str, tables: usize) -> bool {
    let names = |text: &str, table: usize| {
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|word| word == format!("t{table}"))
    };
    (0..tables).any(|table| names(batch, table) && names(statement, table))
}

fn shown(side: &Result<Vec<crate::peers::Rows>, Refusal>) -> String {
    let results = match side {
        Ok(results) => results,
        Err(refusal) => return format!("{refusal:?}\n"),
    };
    let mut out = String::new();
    for rows in results {
        let mut rows = rows.clone();
        rows.sort();
        out.push_str(&format!("{} rows\n", rows.len()));
        for row in rows.iter().take(ROWS_SHOWN) {
            let cells: Vec<String> = row
                .iter()
                .map(|c| c.as_ref().map_or("NULL".into(), |c| format!("'{c}'")))
                .collect();
            out.push_str(&format!("  {}\n", cells.join(", ")));
        }
    }
    out
}
