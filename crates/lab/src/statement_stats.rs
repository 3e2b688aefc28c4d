//! Processor time, duration and logical reads, read from the messages of SET STATISTICS TIME and IO.
//!
//! The messages are recognised by their numbers, and their figures by place: 3612 (parse and compile) and 3613 (execution)
//! begin with processor time and duration in milliseconds; 3615 has scan count and logical reads behind the table's
//! name. So a server that speaks another language is understood as well. As SQLQueryStress does, both kinds of times are
//! summed, and the reads of all tables.

use daruma_client::client::{Client, ClientError, Event};
use daruma_tds::token::ServerMessage;
use std::time::{Duration, Instant};

/// What makes a server send the messages.
pub const SET_ON: &str = "SET STATISTICS TIME ON; SET STATISTICS IO ON";

const COMPILE_TIMES: i32 = 3612;
const EXECUTION_TIMES: i32 = 3613;
const TABLE_READS: i32 = 3615;

/// Sums over the statements of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatementStats {
    pub cpu_ms: u64,
    pub elapsed_ms: u64,
    pub logical_reads: u64,
    /// Messages that were understood; 0 says that the server sends none.
    pub messages: u64,
}

impl StatementStats {
    /// Takes a message into account. False: it is none of these.
    pub fn add(&mut self, message: &ServerMessage) -> bool {
        match message.number {
            COMPILE_TIMES | EXECUTION_TIMES => {
                let mut figures = figures(&message.text);
                let (Some(cpu_ms), Some(elapsed_ms)) = (figures.next(), figures.next()) else {
                    return false;
                };
                self.cpu_ms = self.cpu_ms.saturating_add(cpu_ms);
                self.elapsed_ms = self.elapsed_ms.saturating_add(elapsed_ms);
            }
            TABLE_READS => {
                // A name may hold digits, and a temporary one always does: figures begin behind its closing quote.
                let behind_name = message.text.rsplit(['\'', '"']).next().unwrap_or_default();
                let Some(reads) = figures(behind_name).nth(1) else {
                    return false;
                };
                self.logical_reads = self.logical_reads.saturating_add(reads);
            }
            _ => return false,
        }
        self.messages += 1;
        true
    }
}

/// The runs of digits in a text; one that is too large for 64 bits is passed over.
fn figures(text: &str) -> impl Iterator<Item = u64> {
    text.split(|letter: char| !letter.is_ascii_digit())
        .filter(|run| !run.is_empty())
        .filter_map(|run| run.parse().ok())
}

/// One batch with its statistics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    pub client: Duration,
    pub stats: StatementStats,
    /// Rows that came back.
    pub rows: u64,
}

/// Runs a batch to its end, on a connection where [`SET_ON`] was said. The first error is the result.
pub fn run_measured(client: &mut Client, text: &str) -> Result<Measured, ClientError> {
    let mut measured = Measured::default();
    let mut failure = None;
    let begun = Instant::now();
    let mut reply = client.batch(text)?;
    while let Some(event) = reply.next_event()? {
        match event {
            Event::Row(_) => measured.rows += 1,
            Event::Message(message) if message.is_error() => {
                failure.get_or_insert(ClientError::Server {
                    message: Box::new(message),
                });
            }
            Event::Message(message) => {
                measured.stats.add(&message);
            }
            _ => {}
        }
    }
    measured.client = begun.elapsed();
    failure.map_or(Ok(measured), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: i32, text: &str) -> ServerMessage {
        ServerMessage {
            number,
            text: text.into(),
            ..ServerMessage::default()
        }
    }

    #[test]
    fn times_of_compilation_and_execution_are_summed() {
        let mut stats = StatementStats::default();
        let compile =
            "SQL Server parse and compile time: \r\n   CPU time = 3 ms, elapsed time = 5 ms.";
        let run =
            "\r\n SQL Server Execution Times:\r\n   CPU time = 1516 ms,  elapsed time = 15742 ms.";
        assert!(stats.add(&message(3612, compile)) && stats.add(&message(3613, run)));
        assert_eq!((stats.cpu_ms, stats.elapsed_ms), (1519, 15_747));
    }

    #[test]
    fn reads_are_behind_the_table_name() {
        let mut stats = StatementStats::default();
        let text = "Table 'Order2024_9'. Scan count 1, logical reads 1247, physical reads 3, page server reads 0.";
        assert!(stats.add(&message(3615, text)));
        let german = "\"#t____0000000A\"-Tabelle. Scananzahl 2, logische Lesevorgänge 13, physische Lesevorgänge 0.";
        assert!(stats.add(&message(3615, german)));
        assert_eq!(stats.logical_reads, 1260);
    }

    #[test]
    fn other_texts_count_for_nothing() {
        let mut stats = StatementStats::default();
        assert!(!stats.add(&message(0, "CPU time = 3 ms, elapsed time = 5 ms.")));
        assert!(!stats.add(&message(3613, "nothing here")));
        assert!(!stats.add(&message(3615, "Table 't'. 99999999999999999999999")));
        assert_eq!(stats, StatementStats::default());
    }
}
