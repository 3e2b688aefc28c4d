//! Short ways to ask a server.

use daruma_client::client::{Client, ClientError, Options};
use daruma_client::value;
use std::time::{Duration, Instant};

/// Questions with one answer.
pub trait Ask {
    /// First column of the first row as text; empty without a row, and for NULL.
    fn text(&mut self, query: &str) -> Result<String, ClientError>;

    /// The same as a number; `None` without a row, for NULL and for text.
    fn number(&mut self, query: &str) -> Result<Option<f64>, ClientError> {
        Ok(self.text(query)?.parse().ok())
    }

    /// All rows as text.
    fn table(&mut self, query: &str) -> Result<Vec<Vec<String>>, ClientError>;

    /// How long a batch takes, seen from here.
    fn timed(&mut self, batch: &str) -> Result<Duration, ClientError>;
}

impl Ask for Client {
    fn text(&mut self, query: &str) -> Result<String, ClientError> {
        let rows = self.table(query)?;
        let first = rows
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next());
        Ok(first.unwrap_or_default())
    }

    fn table(&mut self, query: &str) -> Result<Vec<Vec<String>>, ClientError> {
        let rows = self.query(query)?;
        let texts = |row: Vec<_>| row.iter().map(value::text).collect();
        Ok(rows.into_iter().map(texts).collect())
    }

    fn timed(&mut self, batch: &str) -> Result<Duration, ClientError> {
        let begun = Instant::now();
        self.execute(batch)?;
        Ok(begun.elapsed())
    }
}

/// A connection that begins in a database.
pub fn connect_to(options: &Options, database: &str) -> Result<Client, ClientError> {
    Client::connect(&Options {
        database: database.into(),
        ..options.clone()
    })
}

/// `[name]`, whatever is in it.
pub fn bracketed(name: &str) -> String {
    format!("[{}]", name.replace(']', "]]"))
}

/// `N'text'`, whatever is in it.
pub fn quoted(text: &str) -> String {
    format!("N'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use daruma_client::client::EncryptionWish;
    use daruma_client::client::fake::{Answer, PASSWORD, serve};
    use daruma_tds::login::Secret;
    use daruma_value::{DataType, Value};

    #[test]
    fn answers_come_as_text_and_numbers() {
        let port = serve(None, |_| {
            Answer::default().rows(
                &[("n", DataType::BigInt), ("t", DataType::Int)],
                &[
                    vec![Value::BigInt(41), Value::Null],
                    vec![Value::BigInt(2), Value::Int(3)],
                ],
            )
        });
        let mut client = Client::connect(&Options {
            password: Secret::new(PASSWORD),
            encryption: EncryptionWish::Optional,
            ..Options::new("localhost", port)
        })
        .expect("connects");
        assert_eq!(client.number("q").expect("answers"), Some(41.0));
        assert_eq!(
            client.table("q").expect("answers"),
            [["41", ""], ["2", "3"]]
        );
    }

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(bracketed("a]b"), "[a]]b]");
        assert_eq!(quoted("it's"), "N'it''s'");
    }
}
