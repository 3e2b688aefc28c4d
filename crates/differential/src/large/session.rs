//! One session of a round: its tables in both servers, its statements, and what differed.

use super::Counts;
use super::queries::{Maker, Statement};
use super::tables::Tables;
use crate::Options;
use crate::draw::{Random, seed_of};
use crate::peers::{Answer, Daruma, Postgres, Refusal, Rows};
use daruma_lab::server::PrivateServer;
use std::time::Duration;

/// The reference is given so long, and what takes it longer is left out.
const POSTGRES_LIMIT: Duration = Duration::from_secs(40);
/// Neighbours and the disk take their part of it.
const DARUMA_LIMIT: Duration = Duration::from_secs(60);
/// An answer that takes longer is listed, when the reference gives it in a part of the time.
const SLOW: Duration = Duration::from_secs(10);
const SLOW_TIMES: u32 = 10;
/// Rows that a report shows of each side.
const ROWS_SHOWN: usize = 6;
/// Characters of a value that a report shows.
const CHARACTERS_SHOWN: usize = 60;

/// Memory: what should have spilled.
const MEMORY: [&str; 2] = ["701", "8645"];
/// Room in tempdb.
const ROOM: [&str; 4] = ["1101", "1105", "3959", "9002"];

/// A connection to each server, and the tables that both hold.
pub struct Session<'o> {
    options: &'o Options,
    daruma: Daruma,
    postgres: Postgres,
    tables: Tables,
    seed: u64,
    number: usize,
}

/// How a session ended.
pub enum Stop {
    Sound,
    /// DBCC CHECKDB has something to say.
    Damaged(String),
}

/// What a statement came to.
pub struct Found {
    kind: &'static str,
    place: String,
    outcome: Outcome,
}

enum Outcome {
    Agree {
        is_empty: bool,
        daruma: Duration,
        postgres: Duration,
    },
    /// An error that memory or room explains.
    Refused(String),
    LeftOut,
    Differ(String),
}

impl Found {
    /// Adds to what was counted; the text of a difference.
    pub fn add_to(self, counts: &mut Counts) -> Option<String> {
        let mut difference = None;
        match self.outcome {
            Outcome::LeftOut => {
                counts.left_out += 1;
                return None;
            }
            Outcome::Agree {
                is_empty,
                daruma,
                postgres,
            } => {
                counts.without_rows += u64::from(is_empty);
                if daruma > SLOW && daruma > postgres * SLOW_TIMES {
                    counts.slow.push((daruma, postgres, self.place));
                }
            }
            Outcome::Refused(name) => {
                let name = format!("{name} ({})", self.kind);
                counts.refusals.entry(name).or_insert((0, self.place)).0 += 1;
            }
            Outcome::Differ(text) => {
                counts.differences += 1;
                difference = Some(text);
            }
        }
        counts.results += 1;
        *counts.by_kind.entry(self.kind).or_insert(0) += 1;
        difference
    }
}

impl<'o> Session<'o> {
    /// Makes the tables in both servers.
    pub fn new(
        options: &'o Options,
        server: &PrivateServer,
        seed: u64,
        number: usize,
    ) -> Session<'o> {
        let tables = Tables::new(seed_of(seed, 100 + number as u64), options.rows);
        let server = server.options();
        let mut master = Daruma::new(&server, "master");
        // Binary, like the C collation of the reference.
        master.must(&format!(
            "CREATE DATABASE large{number} COLLATE Latin1_General_BIN2; ALTER DATABASE large{number} SET RECOVERY SIMPLE"
        ));
        let mut daruma = Daruma::new(&server, &format!("large{number}"));
        tables.ms_script().iter().for_each(|text| daruma.must(text));
        let mut postgres =
            Postgres::connect(&options.postgres, number).expect("PostgreSQL answers");
        postgres.must("SET work_mem = '128MB'");
        postgres.must_all(&tables.pg_script());
        postgres.set_limit(POSTGRES_LIMIT);
        Session {
            options,
            daruma,
            postgres,
            tables,
            seed,
            number,
        }
    }

    /// Asks both servers the statement with this number.
    pub fn statement(&mut self, number: u64) -> Found {
        let seed = seed_of(seed_of(self.seed, 200 + self.number as u64), number);
        let statement = Maker {
            random: Random::new(seed),
            tables: &self.tables,
        }
        .statement();
        if self.options.statement.is_some() {
            println!("{}\n{}", statement.text.ms, statement.text.pg);
        }
        Found {
            kind: statement.kind,
            place: self.place(number),
            outcome: self.compare(&statement, number),
        }
    }

    fn place(&self, statement: u64) -> String {
        format!(
            "--large --seed {} --session {} --statement {statement}",
            self.seed, self.number
        )
    }

    fn compare(&mut self, statement: &Statement, number: u64) -> Outcome {
        let expected = match self.postgres.ask(&statement.text.pg) {
            Ok(answer) => answer,
            Err(Refusal::TooSlow) => {
                self.postgres.must("ROLLBACK");
                return Outcome::LeftOut;
            }
            // The statements are made so that none fails.
            Err(refusal) => panic!("{}\n{refusal:?}", statement.text.pg),
        };
        let mut asked = statement.text.ms.clone();
        if self.options.plant {
            asked = planted(&asked);
        }
        let found = self.daruma.ask_within(&asked, DARUMA_LIMIT);
        if found.is_err() {
            let _ = self.daruma.ask("IF @@TRANCOUNT > 0 ROLLBACK");
        }
        let difference = match &found {
            Ok(answer) => self.difference(statement, answer, &expected),
            Err(Refusal::Error { code, .. }) if code == "8622" => return Outcome::LeftOut,
            Err(Refusal::Error { code, .. })
                if MEMORY.contains(&&**code) || ROOM.contains(&&**code) =>
            {
                return Outcome::Refused(code.clone());
            }
            Err(Refusal::TooSlow) => return Outcome::Refused("no answer in time".into()),
            Err(refusal) => Some(format!("{refusal:?}\n")),
        };
        match difference {
            None => Outcome::Agree {
                is_empty: expected.results.first().is_none_or(Vec::is_empty),
                daruma: found.map_or(Duration::ZERO, |a| a.took),
                postgres: expected.took,
            },
            Some(text) => Outcome::Differ(self.told(number, &asked, &statement.text.pg, &text)),
        }
    }

    /// How the answers differ, if they do.
    fn difference(
        &self,
        statement: &Statement,
        found: &Answer,
        expected: &Answer,
    ) -> Option<String> {
        if found.results.len() != expected.results.len() {
            let (ours, theirs) = (found.results.len(), expected.results.len());
            return Some(format!("{ours} results for {theirs}\n"));
        }
        let pairs = found.results.iter().zip(&expected.results).enumerate();
        for (n, (ours, theirs)) in pairs {
            if let Some(text) = rows_differ(ours, theirs, statement.is_ordered) {
                return Some(format!("result {n}: {text}"));
            }
        }
        None
    }

    fn told(&self, number: u64, asked: &str, reference: &str, text: &str) -> String {
        let mut out = format!(
            "DIFFERENCE in round {}, session {}, statement {number}\nrepeat it: tests/differential/run.sh {}\n-- tables of T-SQL\n",
            self.seed,
            self.number,
            self.place(number)
        );
        for text in self.tables.ms_script() {
            out.push_str(&format!("{text};\n"));
        }
        out.push_str(&format!(
            "-- Daruma\n{asked}\n-- PostgreSQL\n{reference}\n-- what differs\n{text}"
        ));
        out
    }

    /// Looks whether the database is sound.
    pub fn end(mut self) -> Stop {
        let text = format!("DBCC CHECKDB (large{}) WITH NO_INFOMSGS", self.number);
        match self.daruma.ask_within(&text, DARUMA_LIMIT) {
            Ok(answer) if answer.results.iter().all(Vec::is_empty) => Stop::Sound,
            Err(Refusal::Error { code, .. }) if MEMORY.contains(&&*code) => Stop::Sound,
            other => Stop::Damaged(format!(
                "DIFFERENCE: CHECKDB after round {}, session {}: {other:?}",
                self.seed, self.number
            )),
        }
    }
}

/// A fault planted in what Daruma is asked: outer rows are lost, and keys stand twice.
fn planted(text: &str) -> String {
    text.replace("LEFT JOIN", "JOIN")
        .replace("UNION SELECT", "UNION ALL SELECT")
        .replace("SELECT DISTINCT", "SELECT")
}

/// What only one side has, as sorted lists or as lists with an order.
fn rows_differ(ours: &Rows, theirs: &Rows, is_ordered: bool) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let (mut left, mut right): (Vec<_>, Vec<_>) = (ours.iter().collect(), theirs.iter().collect());
    left.sort_unstable();
    right.sort_unstable();
    if left == right && !is_ordered {
        return None;
    }
    let mut out = format!("{} rows for {}\n", ours.len(), theirs.len());
    if left == right {
        let place = ours.iter().zip(theirs).position(|(a, b)| a != b)?;
        out.push_str(&format!("another order from row {place} on\n"));
        return Some(out);
    }
    for (name, only) in [
        ("Daruma", only_in(&left, &right)),
        ("PostgreSQL", only_in(&right, &left)),
    ] {
        out.push_str(&format!("only {name} has {} of these:\n", only.len()));
        for row in only.iter().take(ROWS_SHOWN) {
            let cells: Vec<String> = row.iter().map(shown).collect();
            out.push_str(&format!("  {}\n", cells.join(", ")));
        }
    }
    Some(out)
}

type Row = Vec<Option<String>>;

/// Rows of one sorted list that the other one lacks.
fn only_in<'r>(list: &[&'r Row], other: &[&Row]) -> Vec<&'r Row> {
    let mut out = Vec::new();
    let mut rest = other.iter().peekable();
    for row in list {
        while rest.next_if(|next| **next < *row).is_some() {}
        if rest.next_if(|next| **next == *row).is_none() {
            out.push(*row);
        }
    }
    out
}

fn shown(cell: &Option<String>) -> String {
    match cell {
        None => "NULL".into(),
        Some(text) if text.chars().count() > CHARACTERS_SHOWN => {
            let begin: String = text.chars().take(CHARACTERS_SHOWN).collect();
            format!("'{begin}..' ({} characters)", text.chars().count())
        }
        Some(text) => format!("'{text}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(list: &[&str]) -> Rows {
        list.iter().map(|t| vec![Some((*t).to_string())]).collect()
    }

    #[test]
    fn a_key_that_stands_twice_is_told() {
        let (ours, theirs) = (rows(&["a", "b", "a"]), rows(&["b", "a"]));
        let text = rows_differ(&ours, &theirs, false).expect("they differ");
        assert_eq!(
            text,
            "3 rows for 2\nonly Daruma has 1 of these:\n  'a'\nonly PostgreSQL has 0 of these:\n"
        );
        assert_eq!(rows_differ(&theirs, &rows(&["a", "b"]), false), None);
        let text = rows_differ(&theirs, &rows(&["a", "b"]), true);
        assert_eq!(
            text.as_deref(),
            Some("2 rows for 2\nanother order from row 0 on\n")
        );
    }
}
