//! Writers, and the journals they keep of what they asked for and what the server acknowledged.

use super::super::random::Random;
use super::{ACCOUNTS, DATABASE};
use crate::sql::connect_to;
use daruma_client::client::{Client, ClientError, Options};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// What must be true of an operation after the restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Asked for, and no answer came.
    Unknown,
    Present,
    Absent,
}

/// What an operation asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Rows in one transaction; one row is a transaction without BEGIN.
    Rows(u64),
    /// Rows, then ROLLBACK.
    Undone(u64),
    Transfer {
        source: u64,
        target: u64,
        amount: u64,
    },
}

/// One transaction of a writer.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub work: Work,
    pub outcome: Outcome,
    /// Has a check after a restart counted it already?
    pub counted: bool,
}

impl Operation {
    /// Rows that the operation leaves when it is committed.
    pub const fn rows(&self) -> u64 {
        match self.work {
            Work::Rows(rows) | Work::Undone(rows) => rows,
            Work::Transfer { .. } => 1,
        }
    }
}

/// One session's journal, which outlives its connections and the server.
#[derive(Debug)]
pub struct Writer {
    pub id: u64,
    /// Number of the first operation in the journal.
    pub base: u64,
    pub journal: Vec<Operation>,
    random: Random,
}

/// What all sessions of a round share.
pub struct Round<'a> {
    pub target: &'a Options,
    pub stop: &'a AtomicBool,
    /// Errors that the server itself sent and that none should have sent.
    pub surprises: &'a Mutex<Vec<String>>,
}

impl Round<'_> {
    /// Has the round's end been called?
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A broken connection is what a kill is about; an error that the server sends is not.
    pub fn note(&self, error: &ClientError) {
        let Some(message) = error.server_message() else {
            return;
        };
        if is_refusal(error) || matches!(error, ClientError::LoginRefused { .. }) {
            return;
        }
        if let Ok(mut surprises) = self.surprises.lock() {
            surprises.push(format!("error {}: {}", message.number, message.text));
        }
    }
}

/// Did the server itself take the transaction back: deadlock victim or update conflict?
fn is_refusal(error: &ClientError) -> bool {
    let number = error.server_message().map(|message| message.number);
    matches!(number, Some(1205 | 3960))
}

impl Writer {
    /// A writer with an empty journal; `seed` decides what it will ask for.
    pub const fn new(id: u64, seed: u64) -> Writer {
        Writer {
            id,
            base: 0,
            journal: Vec::new(),
            random: Random::new(seed ^ (id + 1).wrapping_mul(0x2545_f491_4f6c_dd1d)),
        }
    }

    /// Works until the connection breaks or the round ends.
    pub fn work(&mut self, round: &Round) {
        let Ok(mut client) = connect_to(round.target, DATABASE) else {
            return;
        };
        while !round.is_over() {
            let work = self.choose();
            let sequence = self.base + self.journal.len() as u64;
            // Before it is asked for: an operation nobody knows of must not be found.
            self.journal.push(Operation {
                work,
                outcome: Outcome::Unknown,
                counted: false,
            });
            let text = self.text(work, sequence);
            let done = client.execute(&text);
            let outcome = match (&done, work) {
                (Ok(()), Work::Undone(_)) => Outcome::Absent,
                (Ok(()), _) => Outcome::Present,
                (Err(error), _) if is_refusal(error) => Outcome::Absent,
                (Err(_), _) => Outcome::Unknown,
            };
            if let Some(last) = self.journal.last_mut() {
                last.outcome = outcome;
            }
            if let Err(error) = done {
                round.note(&error);
                if outcome == Outcome::Unknown || clean_up(&mut client).is_err() {
                    return;
                }
            }
        }
    }

    fn choose(&mut self) -> Work {
        match self.random.below(4) {
            0 => Work::Rows(1),
            1 => Work::Rows(2 + self.random.below(6)),
            2 => Work::Undone(2 + self.random.below(6)),
            _ => {
                let source = self.random.below(ACCOUNTS);
                Work::Transfer {
                    source,
                    target: (source + 1 + self.random.below(ACCOUNTS - 1)) % ACCOUNTS,
                    amount: 1 + self.random.below(20),
                }
            }
        }
    }

    fn text(&mut self, work: Work, sequence: u64) -> String {
        let id = self.id;
        let length = 8 * (1 + self.random.below(40));
        let rows = |count: u64| -> String {
            let values: Vec<String> = (0..count)
                .map(|part| format!("({id}, {sequence}, {part}, REPLICATE('a', {length}))"))
                .collect();
            format!("INSERT dbo.entries VALUES {}", values.join(", "))
        };
        match work {
            Work::Rows(1) => rows(1),
            Work::Rows(count) => format!("BEGIN TRANSACTION; {}; COMMIT", rows(count)),
            Work::Undone(count) => format!("BEGIN TRANSACTION; {}; ROLLBACK", rows(count)),
            Work::Transfer {
                source,
                target,
                amount,
            } => format!(
                "BEGIN TRANSACTION; UPDATE dbo.accounts SET balance = balance - {amount} WHERE id = {source}; \
                 UPDATE dbo.accounts SET balance = balance + {amount} WHERE id = {target}; \
                 INSERT dbo.transfers VALUES ({id}, {sequence}, {source}, {target}, {amount}); COMMIT"
            ),
        }
    }
}

/// After a refusal no transaction may stay open.
fn clean_up(client: &mut Client) -> Result<(), ClientError> {
    client.execute("IF @@TRANCOUNT > 0 ROLLBACK")
}

/// Changes every row of a table in transactions that are rolled back, or are open when the server dies.
pub fn never_commits(round: &Round) {
    let Ok(mut client) = connect_to(round.target, DATABASE) else {
        return;
    };
    while !round.is_over() {
        let text = "BEGIN TRANSACTION; UPDATE dbo.untouched SET n = n + 1, filler = 'changed'; \
                    UPDATE dbo.untouched SET n = n + 1; DELETE dbo.untouched WHERE id % 7 = 3; ROLLBACK";
        if let Err(error) = client.execute(text) {
            round.note(&error);
            if error.is_fatal() || clean_up(&mut client).is_err() {
                return;
            }
        }
    }
}

/// Runs CHECKPOINT every 50 ms until the round is over.
pub fn checkpoints(round: &Round) {
    let Ok(mut client) = connect_to(round.target, DATABASE) else {
        return;
    };
    while !round.is_over() {
        if let Err(error) = client.execute("CHECKPOINT; WAITFOR DELAY '00:00:00.050'") {
            round.note(&error);
            if error.is_fatal() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_asks_for_the_same_work() {
        let work = |seed| {
            let mut writer = Writer::new(3, seed);
            (0..50).map(|_| writer.choose()).collect::<Vec<_>>()
        };
        assert_eq!(work(7), work(7));
        assert_ne!(work(7), work(8));
        let ends_elsewhere =
            |w: &Work| !matches!(w, Work::Transfer { source, target, .. } if source == target);
        assert!(work(9).iter().all(ends_elsewhere));
    }

    #[test]
    fn several_rows_are_one_transaction() {
        let mut writer = Writer::new(1, 1);
        let text = writer.text(Work::Rows(3), 5);
        assert!(
            text.starts_with("BEGIN TRANSACTION; INSERT") && text.ends_with("COMMIT"),
            "{text}"
        );
        assert_eq!(text.matches("(1, 5, ").count(), 3);
        assert!(!writer.text(Work::Rows(1), 5).contains("COMMIT"));
    }
}
