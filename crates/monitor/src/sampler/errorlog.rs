//! What the server's error log tells a monitor: recovery with its phases, errors of severity 17 and up, restores.
//!
//! Theory: the log is asked for now and then, each time from the entry that was read last. Entries of the same moment come again
//! with it, so those are known by what they say. The first look goes back an hour at most, to the start of the server if that is
//! later; what a monitor before this one stored already is there once, because the repository passes it over.
//!
//! Invariants
//! 1. A flood of errors is counted, not stored: so many events of one look, and one that says how many there were more.
//! 2. With masking on, the text of an error that a user raised is not kept: it may hold anything.

use super::difference::Event;
use super::row::Row;
use crate::sql::{parse_time, utc};
use daruma_value::Value;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Time between two looks, and after one that took long or failed.
const EVERY_MS: i64 = 20_000;
const EVERY_MS_SLOW: i64 = 600_000;
/// A look that takes longer makes the next ones rare.
const SLOW_MS: u128 = 200;
/// How far back the first look goes.
const BACK_MS: i64 = 3_600_000;
/// Errors of one look that become events.
const ERRORS_MAX: usize = 50;
/// Characters of a message that are kept.
const WORDS_CHARS_MAX: usize = 400;
/// Errors of this severity and above are a matter for whoever runs the server.
const SEVERE: u8 = 17;
/// Numbers from here on are those of users' own messages.
const USER_MESSAGE: i64 = 50_000;

/// The log as far as it was read.
#[derive(Debug, Default)]
pub struct ErrorLog {
    /// Time of the newest entry that was read: UTC, ms; 0 before the first look.
    from: i64,
    /// Entries of that time, by what they say.
    seen: BTreeSet<u64>,
    next: i64,
}

impl ErrorLog {
    /// Is it time for a look? `now` is the server's time: UTC, ms.
    pub fn is_due(&self, now: i64) -> bool {
        now >= self.next
    }

    /// Looks at once, because the server has started or somebody has changed something.
    pub fn look_soon(&mut self) {
        self.next = 0;
    }

    /// The question: entries from the last one on. `offset_ms` is how far the server's local time is from UTC.
    pub fn question(&mut self, now: i64, started: i64, offset_ms: i64) -> String {
        if self.from == 0 {
            self.from = started.max(now - BACK_MS);
        }
        // The type of the parameter knows three digits of a second, in steps of about three.
        let from = utc(self.from + offset_ms - 4);
        format!("EXEC sys.xp_readerrorlog 0, 1, NULL, NULL, N'{from}';")
    }

    /// Notes that a look is over, and how long it took.
    pub fn looked(&mut self, now: i64, took_ms: u128) {
        let pause = if took_ms > SLOW_MS {
            EVERY_MS_SLOW
        } else {
            EVERY_MS
        };
        self.next = now + pause;
    }

    /// Notes that it was refused, or not answered.
    pub fn failed(&mut self, now: i64) {
        self.next = now + EVERY_MS_SLOW;
    }

    /// Events of the entries that are new.
    pub fn read(&mut self, rows: &[Vec<Value>], offset_ms: i64, mask: bool) -> Vec<Event> {
        let mut events = Vec::new();
        let (mut errors, mut left_out) = (0, 0);
        let mut seen = BTreeSet::new();
        let mut newest = self.from;
        let entries = entries(rows, offset_ms);
        for (number, (at, text)) in entries.iter().enumerate() {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            let hash = hasher.finish();
            if *at > newest {
                seen.clear();
                newest = *at;
            }
            if *at == newest {
                seen.insert(hash);
            }
            if *at < self.from || (*at == self.from && self.seen.contains(&hash)) {
                continue;
            }
            let behind = entries
                .get(number + 1)
                .map_or("", |(_, text)| text.as_str());
            let Some(event) = event(*at, text, behind, mask) else {
                continue;
            };
            if event.kind == "error" {
                errors += 1;
                if errors > ERRORS_MAX {
                    left_out += 1;
                    continue;
                }
            }
            events.push(event);
        }
        if left_out > 0 {
            let words =
                format!("{left_out} more errors of severity {SEVERE} and up; the log has them.");
            events.push(Event {
                severity: SEVERE,
                ..Event::new(newest, "error", words)
            });
        }
        if newest > self.from {
            self.from = newest;
            self.seen = seen;
        } else {
            self.seen.append(&mut seen);
        }
        events
    }
}

/// Time (UTC, ms) and text of each row.
fn entries(rows: &[Vec<Value>], offset_ms: i64) -> Vec<(i64, String)> {
    let entry = |row: &Vec<Value>| {
        let at = parse_time(&daruma_client::value::text(row.first()?))?;
        let mut columns = Row::of(row);
        let _source = columns.text();
        Some((at - offset_ms, columns.text()))
    };
    rows.iter().filter_map(entry).collect()
}

/// What an entry means, if it means something here. SQL Server puts the text of an error into the entry behind.
fn event(at: i64, text: &str, behind: &str, mask: bool) -> Option<Event> {
    if let Some(rest) = text.strip_prefix("Error: ") {
        return error(at, rest, behind, mask);
    }
    if let Some(rest) = text.strip_prefix("Recovery completed for database ") {
        return recovery(at, rest);
    }
    for (start, what) in [
        ("Database was restored: Database: ", "Database"),
        ("Log was restored. Database: ", "Log of"),
    ] {
        if let Some(rest) = text.strip_prefix(start) {
            let name = cut(rest.split(',').next()?, 128);
            return Some(Event::new(
                at,
                "restore",
                format!("{what} {name} was restored."),
            ));
        }
    }
    None
}

/// `9002, Severity: 17, State: 2.`, and its message on the next line or in the next entry.
fn error(at: i64, rest: &str, behind: &str, mask: bool) -> Option<Event> {
    let (head, message) = rest.split_once('\n').unwrap_or((rest, behind));
    let mut numbers = head
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse::<i64>().ok());
    let (number, severity, state) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let severity = u8::try_from(severity).ok().filter(|s| *s >= SEVERE)?;
    let message = match mask && number >= USER_MESSAGE {
        true => "a message of a user's own, not kept because literals are masked.".into(),
        false => cut(message.trim(), WORDS_CHARS_MAX),
    };
    Some(Event {
        severity,
        ..Event::new(
            at,
            "error",
            format!("Error {number}, severity {severity}, state {state}: {message}"),
        )
    })
}

/// `name (database ID 5) in 1 second(s) (analysis 12 ms, redo 40 ms, undo 3 ms [..].) ..`, as message 3421 has it.
fn recovery(at: i64, rest: &str) -> Option<Event> {
    let (name, rest) = rest.split_once(" (database ID ")?;
    let phase = |word: &str| {
        let (_, behind) = rest.split_once(word)?;
        behind.split(' ').next()?.parse::<i64>().ok()
    };
    let (analysis, redo, undo) = (phase("(analysis ")?, phase(" redo ")?, phase(" undo ")?);
    let total = analysis.checked_add(redo)?.checked_add(undo)?;
    let begun = at.checked_sub(total).filter(|_| total >= 0)?;
    Some(Event {
        until: Some(at),
        ..Event::new(
            begun,
            "recovery",
            format!(
                "Recovery of database {}: analysis {analysis} ms, redo {redo} ms, undo {undo} ms.",
                cut(name, 128)
            ),
        )
    })
}

fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn row(at: &str, text: &str) -> Vec<Value> {
        [at, "spid51", text].map(Value::str).to_vec()
    }

    fn at(text: &str) -> i64 {
        parse_time(text).expect("a time")
    }

    #[test]
    fn recovery_is_a_stretch_with_its_phases() {
        let text = "Recovery completed for database shop, two (database ID 5) in 1 second(s) (analysis 120 ms, redo 830 ms, undo 50 ms [system undo 9 ms, regular undo 41 ms].) ADR-enabled=1, Is primary=1, OL-Enabled=0. This is an informational message only. No user action is required.";
        let mut log = ErrorLog::default();
        // The server's clock is an hour ahead of UTC.
        let question = log.question(at("2026-11-23T06:00:00Z"), at("2026-11-23T05:59:58Z"), HOUR);
        assert!(
            question.contains("N'2026-11-23T06:59:57.996'"),
            "{question}"
        );
        let events = log.read(&[row("2026-11-23 06:59:59.250", text)], HOUR, true);
        assert_eq!(events.len(), 1);
        let event = &events[0];
        assert_eq!(event.until, Some(at("2026-11-23T05:59:59.250Z")));
        assert_eq!(event.at, at("2026-11-23T05:59:58.250Z"));
        assert_eq!(
            event.words,
            "Recovery of database shop, two: analysis 120 ms, redo 830 ms, undo 50 ms."
        );
    }

    #[test]
    fn serious_errors_come_once_with_their_text_wherever_it_stands() {
        let start = at("2026-11-23T06:00:00Z");
        let mut log = ErrorLog::default();
        let _question = log.question(start, start, 0);
        let full = "The transaction log for database 'shop' is full due to 'LOG_BACKUP'.";
        let rows = [
            row(
                "2026-11-23 05:59:59.990",
                "Error: 824, Severity: 24, State: 2.\nOld.",
            ),
            row(
                "2026-11-23 06:00:01.000",
                &format!("Error: 9002, Severity: 17, State: 2.\n{full}"),
            ),
            row(
                "2026-11-23 06:00:01.000",
                "Error: 9002, Severity: 17, State: 4.",
            ),
            row("2026-11-23 06:00:01.000", full),
            row(
                "2026-11-23 06:00:01.000",
                "Error: 18456, Severity: 14, State: 8.\nLogin failed.",
            ),
            row(
                "2026-11-23 06:00:02.000",
                "Error: 50000, Severity: 19, State: 1.\nplanted-secret",
            ),
        ];
        let words = |events: Vec<Event>| {
            events
                .into_iter()
                .map(|e| (e.severity, e.words))
                .collect::<Vec<_>>()
        };
        let found = words(log.read(&rows, 0, true));
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(
            found[0],
            (17, format!("Error 9002, severity 17, state 2: {full}"))
        );
        assert_eq!(
            found[1],
            (17, format!("Error 9002, severity 17, state 4: {full}"))
        );
        assert!(
            found[2]
                .1
                .starts_with("Error 50000, severity 19, state 1: a message")
        );
        // The last entry comes again, with another of the same moment.
        let again = [
            rows[5].clone(),
            row(
                "2026-11-23 06:00:02.000",
                "Error: 823, Severity: 24, State: 1.\nRead.",
            ),
        ];
        assert_eq!(
            words(log.read(&again, 0, true)),
            [(24, "Error 823, severity 24, state 1: Read.".into())]
        );
        assert_eq!(log.read(&again, 0, true), []);
        let shown = [row(
            "2026-11-23 06:00:03",
            "Error: 50000, Severity: 19, State: 1.\nmine",
        )];
        assert_eq!(
            words(log.read(&shown, 0, false))[0].1,
            "Error 50000, severity 19, state 1: mine"
        );
    }

    #[test]
    fn a_flood_is_counted() {
        let start = at("2026-11-23T06:00:00Z");
        let mut log = ErrorLog::default();
        let _question = log.question(start, start, 0);
        let rows: Vec<Vec<Value>> = (0..500)
            .map(|n| {
                let text = format!("Error: 9002, Severity: 17, State: {n}.\nFull.");
                row("2026-11-23 06:00:01.000", &text)
            })
            .collect();
        let events = log.read(&rows, 0, true);
        assert_eq!(events.len(), ERRORS_MAX + 1);
        assert!(events[ERRORS_MAX].words.starts_with("450 more errors"));
    }

    #[test]
    fn what_is_not_understood_is_no_event() {
        let mut log = ErrorLog::default();
        let _question = log.question(HOUR, HOUR, 0);
        for text in [
            "",
            "Error: ",
            "Error: 1, Severity: 99999999999999999999, State: 1.",
            "Error: 9002, Severity: 300, State: 1.",
            "Recovery completed for database x",
            "Recovery completed for database x (database ID 5) in 1 second(s) (analysis x ms, redo 1 ms, undo 1 ms",
            "Recovery completed for database x (database ID 5) in 1 second(s) (analysis 9223372036854775807 ms, redo 1 ms, undo 1 ms",
        ] {
            assert_eq!(
                log.read(&[row("2026-11-23 06:00:01", text)], 0, true),
                [],
                "{text}"
            );
        }
        assert_eq!(
            log.read(
                &[
                    vec![],
                    row("yesterday", "Error: 1, Severity: 20, State: 1.")
                ],
                0,
                true
            ),
            []
        );
    }

    #[test]
    fn looks_are_far_apart_and_rare_where_they_cost() {
        let mut log = ErrorLog::default();
        assert!(log.is_due(1_000));
        log.looked(1_000, 5);
        assert!(!log.is_due(20_999) && log.is_due(21_000));
        log.looked(21_000, 900);
        assert!(!log.is_due(620_999));
        log.look_soon();
        assert!(log.is_due(21_001));
        log.failed(21_001);
        assert!(!log.is_due(600_000));
    }
}
