//! Both servers: one way to ask either, and one form of what they answer.
//!
//! A value is compared as text in one form: numbers without zeros that say nothing, floating-point ones to nine digits,
//! NULL apart from every text.

use daruma_client::client::{Client, ClientError, Event, Options};
use daruma_client::value;
use daruma_value::Value;
use postgres::SimpleQueryMessage;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Rows of one result.
pub type Rows = Vec<Vec<Option<String>>>;

/// Results of one request and how long it took.
#[derive(Clone, Debug)]
pub struct Answer {
    pub results: Vec<Rows>,
    pub took: Duration,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An error with its number or code.
    Error {
        code: String,
        text: String,
    },
    TooSlow,
    /// The connection is gone.
    Lost(String),
}

/// PostgreSQL stops a statement after this long, and the statement is left out.
const POSTGRES_LIMIT_MS: u32 = 250;
const DARUMA_LIMIT: Duration = Duration::from_secs(5);
/// What makes databases and tables waits for the disk, beside whatever else uses it.
const SCRIPT_LIMIT: Duration = Duration::from_secs(120);

/// A connection to the reference with a schema of its own.
pub struct Postgres {
    client: postgres::Client,
}

impl Postgres {
    /// A connection with a schema of its own, over the socket in this folder.
    pub fn connect(sockets: &Path, worker: usize) -> Result<Postgres, postgres::Error> {
        let mut config = postgres::Config::new();
        config
            .host_path(sockets)
            .user("postgres")
            .dbname("postgres");
        let mut client = config.connect(postgres::NoTls)?;
        client.batch_execute(&format!(
            "SET client_min_messages = error; DROP SCHEMA IF EXISTS w{worker} CASCADE; CREATE SCHEMA w{worker};
             SET search_path = w{worker}; SET statement_timeout = {POSTGRES_LIMIT_MS}"
        ))?;
        Ok(Postgres { client })
    }

    /// Runs a script that has to succeed; the program ends otherwise.
    pub fn must(&mut self, text: &str) {
        if let Err(error) = self.client.batch_execute(text) {
            panic!("{text}\n{error:?}");
        }
    }

    /// Runs these in turn, however long they take.
    pub fn must_all(&mut self, texts: &[String]) {
        self.must("SET statement_timeout = 0");
        texts.iter().for_each(|text| self.must(text));
        self.must(&format!("SET statement_timeout = {POSTGRES_LIMIT_MS}"));
    }

    /// Statements are stopped after so long from now on.
    pub fn set_limit(&mut self, limit: Duration) {
        self.must(&format!("SET statement_timeout = {}", limit.as_millis()));
    }

    /// Runs a text and gives its results, or why there are none.
    pub fn ask(&mut self, text: &str) -> Result<Answer, Refusal> {
        let begun = Instant::now();
        let messages = self.client.simple_query(text).map_err(refused)?;
        let mut results: Vec<Rows> = Vec::new();
        for message in messages {
            match message {
                SimpleQueryMessage::RowDescription(_) => results.push(Vec::new()),
                SimpleQueryMessage::Row(row) => {
                    let cells = (0..row.len()).map(|n| row.get(n).map(one_form)).collect();
                    if let Some(rows) = results.last_mut() {
                        rows.push(cells);
                    }
                }
                _ => {}
            }
        }
        Ok(Answer {
            results,
            took: begun.elapsed(),
        })
    }
}

fn refused(error: postgres::Error) -> Refusal {
    match error.as_db_error() {
        Some(db) if db.code().code() == "57014" => Refusal::TooSlow,
        Some(db) => Refusal::Error {
            code: db.code().code().into(),
            text: db.message().into(),
        },
        None => Refusal::Lost(error.to_string()),
    }
}

/// A connection to a database of the server under test.
pub struct Daruma {
    options: Options,
    client: Option<Client>,
}

impl Daruma {
    /// Connects with the first statement, and again after each lost connection.
    pub fn new(options: &Options, database: &str) -> Daruma {
        Daruma {
            options: Options {
                database: database.into(),
                ..options.clone()
            },
            client: None,
        }
    }

    /// Runs a script that has to succeed; the program ends otherwise.
    pub fn must(&mut self, text: &str) {
        if let Err(refusal) = self.ask_within(text, SCRIPT_LIMIT) {
            panic!("{text}\n{refusal:?}");
        }
    }

    /// Runs a text and gives its results, or why there are none.
    pub fn ask(&mut self, text: &str) -> Result<Answer, Refusal> {
        self.ask_within(text, DARUMA_LIMIT)
    }

    /// The same, given up after `limit`.
    pub fn ask_within(&mut self, text: &str, limit: Duration) -> Result<Answer, Refusal> {
        let begun = Instant::now();
        let results = self.results(text, limit);
        // A connection whose statement was given up may still be busy with it.
        if matches!(results, Err(Refusal::Lost(_) | Refusal::TooSlow)) {
            self.client = None;
        }
        Ok(Answer {
            results: results?,
            took: begun.elapsed(),
        })
    }

    fn results(&mut self, text: &str, limit: Duration) -> Result<Vec<Rows>, Refusal> {
        let client = match &mut self.client {
            Some(client) => client,
            none => none.insert(Client::connect(&self.options).map_err(lost)?),
        };
        client.set_query_timeout(Some(limit));
        let mut results: Vec<Rows> = Vec::new();
        let mut failure = None;
        let mut reply = client.batch(text).map_err(lost)?;
        loop {
            match reply.next_event() {
                Ok(None) => break,
                Ok(Some(Event::Columns(_))) => results.push(Vec::new()),
                Ok(Some(Event::Row(row))) => {
                    if let Some(rows) = results.last_mut() {
                        rows.push(row.iter().map(cell).collect());
                    }
                }
                Ok(Some(Event::Message(message))) if message.is_error() => {
                    failure.get_or_insert(Refusal::Error {
                        code: message.number.to_string(),
                        text: message.text.clone(),
                    });
                }
                Ok(Some(_)) => {}
                Err(ClientError::QueryTimeout { .. }) => return Err(Refusal::TooSlow),
                Err(error) => return Err(failure.unwrap_or_else(|| lost(error))),
            }
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(results),
        }
    }
}

fn lost(error: ClientError) -> Refusal {
    Refusal::Lost(error.to_string())
}

fn cell(cell: &Value) -> Option<String> {
    match cell {
        Value::Null => None,
        Value::Str(text) => Some(text.to_string()),
        other => Some(one_form(&value::text(other))),
    }
}

/// Fraction digits of which a number is taken for a floating-point one.
const EXACT_DIGITS: usize = 9;

/// The form in which values are compared. Texts of the tables have no point, so none of them is taken for a number.
fn one_form(text: &str) -> String {
    let is_number = text.contains(['.', 'e'])
        && text.parse::<f64>().is_ok()
        && text.chars().any(|c| c.is_ascii_digit());
    if text == "-0" {
        return "0".into();
    }
    if !is_number {
        return text.into();
    }
    let fraction = text.split_once('.').map_or(0, |(_, f)| f.len());
    let text = match text.parse::<f64>() {
        Ok(number) if text.contains('e') || fraction > EXACT_DIGITS => rounded(number),
        _ => text.into(),
    };
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    if text == "-0" {
        "0".into()
    } else {
        text.into()
    }
}

/// To nine digits behind the point.
fn rounded(number: f64) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(out, "{number:.EXACT_DIGITS$}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_one_form() {
        for (text, form) in [
            ("12.50", "12.5"),
            ("12.00", "12"),
            ("-0.000", "0"),
            ("1e2", "100"),
            ("0.30000000000000004", "0.3"),
            ("0.3333333333333333", "0.333333333"),
            ("100", "100"),
            ("2024-01-05", "2024-01-05"),
            ("0A", "0A"),
            ("", ""),
        ] {
            assert_eq!(one_form(text), form);
        }
    }
}
