//! Deadlocks as the session `system_health` tells them: who was on the cycle, and with which statements.
//!
//! Theory: a counter says that there was one; only then the ring of the session is asked for, and a few times again, as some
//! servers put events there late. What comes is XML of a shape that is known, in which only a few places matter: it is looked
//! through for them, and whatever else it holds is passed over.
//!
//! Invariant: nothing that a server sends is too long or too strange for it; what is not understood is no deadlock.

use super::difference::Event;
use super::texts::Texts;
use super::xml::{attribute, between, plain};
use crate::sql::parse_time;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Asks for the ring.
pub const RING: &str = "SELECT 'ring', t.target_data FROM sys.dm_xe_session_targets AS t \
     JOIN sys.dm_xe_sessions AS s ON s.address = t.event_session_address \
     WHERE s.name = 'system_health' AND t.target_name = 'ring_buffer';";

/// The ring is asked for so often at most while graphs are missing: every so many milliseconds, ..
const ASK_EVERY_MS: i64 = 5_000;
/// .. and not longer than this after the counter moved: `system_health` of SQL Server may keep events back for two minutes.
const ASK_UNTIL_MS: i64 = 180_000;
/// Graphs of one look, processes of one graph, characters of one statement.
const GRAPHS_MAX: usize = 100;
const PROCESSES_MAX: usize = 8;
const STATEMENT_CHARS_MAX: usize = 300;

/// A session on the cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    session: String,
    is_victim: bool,
    login: String,
    statement: String,
}

/// What is still to be asked for.
#[derive(Debug, Default)]
pub struct Deadlocks {
    /// Those before are nobody's business: UTC, ms.
    from: i64,
    /// Deadlocks that were counted and whose graphs have not come.
    missing: i64,
    ask_at: i64,
    ask_until: i64,
    /// Graphs of the ring that are known.
    seen: BTreeSet<u64>,
}

impl Deadlocks {
    /// The counter grew by so many between two readings; `now` is the server's time.
    pub fn counted(&mut self, grown: i64, now: i64) {
        if self.from == 0 {
            self.from = now;
        }
        if grown > 0 {
            self.missing = self.missing.saturating_add(grown);
            self.ask_at = now;
            self.ask_until = now + ASK_UNTIL_MS;
        }
    }

    /// Is it time to ask for the ring?
    pub fn are_due(&mut self, now: i64) -> bool {
        if self.missing > 0 && now > self.ask_until {
            self.missing = 0;
        }
        let due = self.missing > 0 && now >= self.ask_at;
        if due {
            self.ask_at = now + ASK_EVERY_MS;
        }
        due
    }

    /// The server has no such ring, or shows it to others.
    pub fn give_up(&mut self) {
        self.missing = 0;
    }

    /// Events of the graphs that are new in this ring.
    pub fn read(&mut self, ring: &str, texts: &Texts) -> Vec<Event> {
        let mut events = Vec::new();
        let mut there = BTreeSet::new();
        for (at, graph) in graphs(ring).filter(|(at, _)| *at >= self.from - 1_000) {
            let mut hasher = DefaultHasher::new();
            (at, graph).hash(&mut hasher);
            let hash = hasher.finish();
            there.insert(hash);
            let processes = processes(graph);
            if self.seen.contains(&hash) || processes.is_empty() || events.len() >= GRAPHS_MAX {
                continue;
            }
            self.missing -= 1;
            events.push(Event {
                severity: 13,
                ..Event::new(at, "deadlock", words(&processes, texts))
            });
        }
        self.missing = self.missing.max(0);
        self.seen = there;
        events
    }
}

/// Time and XML of each deadlock in a ring.
fn graphs(ring: &str) -> impl Iterator<Item = (i64, &str)> {
    let events = ring.split("<event ").skip(1);
    events.filter_map(|event| {
        let head = event.split('>').next()?;
        if attribute(head, "name")? != "xml_deadlock_report" {
            return None;
        }
        let at = parse_time(&attribute(head, "timestamp")?)?;
        let graph = between(event, "<deadlock", "</deadlock>")?;
        Some((at, graph))
    })
}

fn processes(graph: &str) -> Vec<Process> {
    let victims: Vec<String> = graph
        .split("<victimProcess ")
        .skip(1)
        .filter_map(|victim| attribute(victim.split('>').next()?, "id"))
        .collect();
    graph
        .split("<process ")
        .skip(1)
        .take(PROCESSES_MAX)
        .filter_map(|process| {
            let process = process.split("</process>").next()?;
            let head = process.split('>').next()?;
            let frame = between(process, "<frame", "</frame>")
                .and_then(|frame| frame.split_once('>'))
                .map(|(_, text)| plain(text));
            let input = between(process, "<inputbuf>", "</inputbuf>").map(plain);
            let known = |text: &String| !text.is_empty() && text != "unknown";
            let statement = frame.filter(known).or(input).unwrap_or_default();
            Some(Process {
                session: attribute(head, "spid")?,
                is_victim: victims.contains(&attribute(head, "id")?),
                login: attribute(head, "loginname").unwrap_or_default(),
                statement,
            })
        })
        .collect()
}

fn words(processes: &[Process], texts: &Texts) -> String {
    let mut words = String::from("Deadlock.");
    for process in processes {
        let text = texts.masked(&process.statement);
        let text: String = text.chars().take(STATEMENT_CHARS_MAX).collect();
        let _ = write!(
            words,
            " {} {} ({}): {}.",
            if process.is_victim {
                "Victim, session"
            } else {
                "Session"
            },
            process.session,
            process.login,
            text.trim_end_matches([';', '.'])
        );
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As SQL Server shows it, with a graph between other events.
    const RING_TEXT: &str = r#"<RingBufferTarget truncated="0" eventCount="2"><event name="error_reported" package="sqlserver" timestamp="2026-11-23T06:00:00.000Z"><data name="message"><value>Deadlock &lt;deadlock&gt;</value></data></event><event name="xml_deadlock_report" package="sqlserver" timestamp="2026-11-23T06:00:01.250Z"><data name="xml_report"><type name="xml" package="package0"/><value><deadlock><victim-list><victimProcess id="process2"/></victim-list><process-list><process id="process1" spid="61" loginname="anna" clientapp="a spid=&quot;9&quot; b"><executionStack><frame procname="adhoc" line="1">unknown</frame></executionStack><inputbuf>
UPDATE t SET a = 'secret &amp; x' WHERE i = 2 </inputbuf></process><process id="process2" spid="62" loginname="b&lt;b"><executionStack><frame procname="adhoc" line="2">UPDATE t SET a = 7 WHERE i &lt; 1</frame></executionStack><inputbuf>BEGIN TRAN</inputbuf></process></process-list><resource-list/></deadlock></value></data></event></RingBufferTarget>"#;

    #[test]
    fn a_deadlock_is_told_once_with_both_statements_and_without_literals() {
        let at = parse_time("2026-11-23T06:00:01.250Z").expect("a time");
        let mut deadlocks = Deadlocks::default();
        deadlocks.counted(0, at - 500);
        assert!(!deadlocks.are_due(at));
        deadlocks.counted(1, at + 500);
        assert!(deadlocks.are_due(at + 500));
        let texts = Texts::new(true);
        assert_eq!(
            deadlocks.read("<RingBufferTarget/>", &texts),
            [],
            "not there yet"
        );
        assert!(!deadlocks.are_due(at + 501) && deadlocks.are_due(at + 5_500));
        let events = deadlocks.read(RING_TEXT, &texts);
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].at, events[0].kind.as_str()), (at, "deadlock"));
        assert_eq!(
            events[0].words,
            "Deadlock. Session 61 (anna): UPDATE t SET a = ? WHERE i = ?. Victim, session 62 (b<b): UPDATE t SET a = ? WHERE i < ?."
        );
        assert_eq!(deadlocks.read(RING_TEXT, &texts), [], "it is known");
        assert!(!deadlocks.are_due(at + 60_000), "none is missing");
        deadlocks.counted(1, at + 60_000);
        assert!(
            !deadlocks.are_due(at + 60_000 + ASK_UNTIL_MS + 1),
            "given up"
        );
    }

    #[test]
    fn what_is_not_understood_is_no_deadlock() {
        for ring in [
            "",
            "<event ",
            "<event name=",
            "<event name=\"xml_deadlock_report\" timestamp=\"yesterday\"><deadlock></deadlock>",
            "<event name=\"xml_deadlock_report\" timestamp=\"2026-11-23T06:00:01.250Z\"><deadlock><process id=\"1\"></deadlock>",
            "<event name=\"xml_deadlock_report\" timestamp=\"2026-11-23T06:00:01.250Z\"><deadlock>",
        ] {
            let mut deadlocks = Deadlocks::default();
            assert_eq!(deadlocks.read(ring, &Texts::new(true)), [], "{ring}");
        }
    }
}
