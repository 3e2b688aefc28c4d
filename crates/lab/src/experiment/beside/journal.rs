//! What was asked for beside the load, and what the server acknowledged.

use serde::Serialize;
use std::collections::BTreeMap;

/// Kinds of things that are made and dropped beside the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Table,
    Index,
    Backup,
    Database,
    /// The database that is restored over and over.
    Restored,
}

impl Kind {
    /// How it is called where work is counted.
    pub const fn counted(self, makes: bool) -> &'static str {
        match (self, makes) {
            (Kind::Table, true) => "tables created",
            (Kind::Table, false) => "tables dropped or rolled back",
            (Kind::Index, true) => "index builds",
            (Kind::Index, false) => "indexes dropped",
            (Kind::Backup, _) => "backups",
            (Kind::Database, true) => "databases created",
            (Kind::Database, false) => "databases dropped",
            (Kind::Restored, _) => "restores over a database in use",
        }
    }
}

/// Whether a thing must be there after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Present,
    Absent,
    /// Asked for, and no answer came.
    Unknown,
}

/// What is known of one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub state: State,
    before: State,
    /// Rows of a table; of a database, once its table was filled.
    pub rows: u64,
}

/// Done and not done, of one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    pub done: u64,
    pub not_done: u64,
}

/// What must be there, what must not, and what may be either.
#[derive(Debug, Default)]
pub struct Journal {
    pub known: BTreeMap<(Kind, String), Known>,
    pub counts: BTreeMap<&'static str, Count>,
    pub in_doubt: u64,
}

impl Journal {
    /// Something is asked for. Noted before, so that nothing is found of which nobody knows.
    pub fn wish(&mut self, kind: Kind, name: &str, rows: u64) {
        let key = (kind, name.to_string());
        let before = self.known.get(&key).map_or(State::Absent, |k| k.state);
        let known = Known {
            state: State::Unknown,
            before,
            rows,
        };
        self.known.insert(key, known);
    }

    /// Something that is there is asked to go.
    pub fn doubt(&mut self, kind: Kind, name: &str) {
        if let Some(known) = self.known.get_mut(&(kind, name.to_string())) {
            (known.before, known.state) = (known.state, State::Unknown);
        }
    }

    /// The server answered, or a look after the restart did.
    pub fn settle(&mut self, kind: Kind, name: &str, state: State) {
        if let Some(known) = self.known.get_mut(&(kind, name.to_string())) {
            known.state = state;
        }
    }

    /// The server said no: it is as before. A backup is written over before it is refused.
    pub fn refused(&mut self, kind: Kind, name: &str) {
        if let Some(known) = self.known.get_mut(&(kind, name.to_string())) {
            known.state = match kind {
                Kind::Backup | Kind::Restored => State::Unknown,
                _ => known.before,
            };
        }
    }

    /// The table of a database has its rows.
    pub fn filled(&mut self, name: &str, rows: u64) {
        if let Some(known) = self.known.get_mut(&(Kind::Database, name.to_string())) {
            known.rows = rows;
        }
    }

    /// Names of a kind that are there, in the order of their numbers.
    pub fn present(&self, kind: Kind) -> Vec<String> {
        let own = self.known.iter().filter(|((k, _), _)| *k == kind);
        own.filter(|(_, known)| known.state == State::Present)
            .map(|((_, name), _)| name.clone())
            .collect()
    }

    /// What is gone need not be remembered any more.
    pub fn forget(&mut self, kind: Kind) {
        self.known.retain(|(k, _), _| *k != kind);
    }

    /// Counts one piece of work under the name of its kind.
    pub fn count(&mut self, name: &'static str, done: bool) {
        let count = self.counts.entry(name).or_default();
        match done {
            true => count.done += 1,
            false => count.not_done += 1,
        }
    }
}
