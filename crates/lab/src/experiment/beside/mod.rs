//! Beside the load: tables, indexes, backups and whole databases that come and go while others write and the server is killed.
//!
//! One session asks for one thing after the other and notes it before it asks (`journal`). After a restart what is there is
//! compared with the notes (`verify`). Another session reads a database that is restored over and over.
//!
//! | what is asked for | what must hold after a kill |
//! |---|---|
//! | a table and its rows in one transaction, committed or rolled back | all of it or nothing, as acknowledged |
//! | CREATE and DROP INDEX, ALTER INDEX REBUILD | there or not, as acknowledged; the index agrees with its table |
//! | BACKUP DATABASE, and BACKUP LOG behind it | an acknowledged backup can be verified |
//! | CREATE and DROP DATABASE | there and usable, or gone with its files |
//! | RESTORE over a database in use | what was acknowledged is online and whole; what was not can be restored again |

mod journal;
mod verify;

use super::random::Random;
use crate::report::Table;
use crate::sql::connect_to;
use daruma_client::client::{Client, ClientError, Options};
pub use journal::{Count, Journal};
use journal::{Kind, State};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// More of a kind are not there at once.
const TABLES_MAX: usize = 6;
const INDEXES_MAX: usize = 2;
const DATABASES_MAX: usize = 2;
/// Between two wishes, so that the load goes on.
const PAUSE: Duration = Duration::from_millis(10);

/// The table whose indexes come and go.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub table: &'static str,
    pub columns: &'static str,
    /// A column whose sum is compared.
    pub sum: &'static str,
}

/// Names that begin with this are ours.
const PREFIX: &str = "LabBeside";
/// Restored over and over, when `restores` is set.
pub const RESTORED: &str = "LabBeside_restored";

/// Definitions, backups and databases that come and go beside an experiment's load.
#[derive(Debug)]
pub struct Beside {
    database: String,
    target: Target,
    /// Where backups go; the server has to see it under the same name.
    folder: PathBuf,
    /// A query of one row and what it gives in every backup; the database is restored over one in use.
    pub restores: Option<(&'static str, String)>,
    random: Random,
    next: u64,
    /// Restarts after which it was verified.
    verified: u64,
    pub journal: Journal,
}

/// What the sessions of a round share.
pub struct Round<'a> {
    pub target: &'a Options,
    pub stop: &'a AtomicBool,
    /// Errors that the server sent and that it should not have sent.
    pub surprises: &'a Mutex<Vec<String>>,
}

impl Round<'_> {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn surprise(&self, text: String) {
        if let Ok(mut surprises) = self.surprises.lock() {
            surprises.push(text);
        }
    }
}

/// Work without which a long run has not tested what it says.
pub const NEEDED: [&str; 7] = [
    "tables created",
    "index builds",
    "index rebuilds",
    "backups",
    "databases created",
    "databases dropped",
    "restores over a database in use",
];

/// How a wish ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Done,
    /// The server said no, and that may be.
    Refused,
    /// No answer came.
    Unknown,
}

/// Deadlock victim, update conflict, somebody else is in the database, shutdown under way.
const REFUSALS: [i32; 10] = [1205, 3960, 3961, 3101, 3702, 5061, 5064, 5070, 924, 6005];

impl Beside {
    /// `first`: the number of the first name, for those who begin anew in one server.
    pub fn new(database: &str, target: Target, folder: PathBuf, seed: u64, first: u64) -> Beside {
        Beside {
            database: database.into(),
            target,
            folder,
            restores: None,
            random: Random::new(seed ^ 0x5851_f42d_4c95_7f2d),
            next: first,
            verified: 0,
            journal: Journal::default(),
        }
    }

    /// Wishes until the connection breaks or the round ends.
    pub fn work(&mut self, round: &Round<'_>) {
        let Ok(mut client) = connect_to(round.target, "master") else {
            return;
        };
        while !round.is_over() {
            if self.wish(&mut client, round) == Ended::Unknown {
                return;
            }
            thread::sleep(PAUSE);
        }
    }

    fn wish(&mut self, client: &mut Client, round: &Round<'_>) -> Ended {
        match self
            .random
            .below(if self.restores.is_some() { 9 } else { 8 })
        {
            0 => self.make_table(client, round),
            1 => self.drop_one(client, round, Kind::Table),
            2 => self.make_index(client, round),
            3 => self.drop_one(client, round, Kind::Index),
            4 => self.rebuild(client, round),
            5 => self.back_up(client, round),
            6 => self.make_database(client, round),
            7 => self.drop_one(client, round, Kind::Database),
            _ => self.restore(client, round),
        }
    }

    fn name(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{PREFIX}_{kind}{}", self.next)
    }

    fn make_table(&mut self, client: &mut Client, round: &Round<'_>) -> Ended {
        if self.journal.present(Kind::Table).len() >= TABLES_MAX {
            return self.drop_one(client, round, Kind::Table);
        }
        let name = self.name("table");
        let rows = 1 + self.random.below(60);
        let commits = self.random.below(4) > 0;
        let end = if commits { "COMMIT" } else { "ROLLBACK" };
        let text = format!(
            "USE {}; BEGIN TRANSACTION; {}; {end}",
            self.database,
            table_text(&name, rows)
        );
        self.journal.wish(Kind::Table, &name, rows);
        let ended = run(client, round, &text);
        let state = if commits {
            State::Present
        } else {
            State::Absent
        };
        self.settle(Kind::Table, &name, ended, state, commits);
        ended
    }

    fn make_index(&mut self, client: &mut Client, round: &Round<'_>) -> Ended {
        if self.journal.present(Kind::Index).len() >= INDEXES_MAX {
            return self.drop_one(client, round, Kind::Index);
        }
        let name = self.name("index");
        let Target { table, columns, .. } = self.target;
        let text = format!(
            "USE {}; CREATE INDEX {name} ON {table} ({columns})",
            self.database
        );
        self.journal.wish(Kind::Index, &name, 0);
        let ended = run(client, round, &text);
        self.settle(Kind::Index, &name, ended, State::Present, true);
        ended
    }

    fn rebuild(&mut self, client: &mut Client, round: &Round<'_>) -> Ended {
        let text = format!(
            "USE {}; ALTER INDEX ALL ON {} REBUILD",
            self.database, self.target.table
        );
        let ended = run(client, round, &text);
        self.journal.count("index rebuilds", ended == Ended::Done);
        ended
    }

    fn back_up(&mut self, client: &mut Client, round: &Round<'_>) -> Ended {
        // Two files in turn, so that the last good backup is never the one that is written over.
        let place = self.next % 2;
        self.next += 1;
        let file = self.folder.join(format!("{PREFIX}_{place}.bak"));
        let file = file.display().to_string();
        self.journal.wish(Kind::Backup, &file, 0);
        let text = format!(
            "BACKUP DATABASE {} TO DISK = N'{file}' WITH FORMAT",
            self.database
        );
        let ended = run(client, round, &text);
        self.settle(Kind::Backup, &file, ended, State::Present, true);
        if !matches!(ended, Ended::Done) {
            return ended;
        }
        // From the first full backup on the log is kept for log backups: without them it grows to the end of the disk.
        let text = self.log_backup_text();
        run(client, round, &text)
    }

    fn log_backup_text(&self) -> String {
        let file = self.folder.join(format!("{PREFIX}_log.bak"));
        format!(
            "BACKUP LOG {} TO DISK = N'{}' WITH FORMAT",
            self.database,
            file.display()
        )
    }

    fn make_database(&mut self, client: &mut Client, round: &Round<'_>) -> Ended {
        if self.journal.present(Kind::Database).len() >= DATABASES_MAX {
            return self.drop_one(client, round, Kind::Database);
        }
        let name = self.name("database");
        self.journal.wish(Kind::Database, &name, 0);
        let ended = run(client, round, &format!("CREATE DATABASE {name}"));
        self.settle(Kind::Database, &name, ended, State::Present, true);
        if ended != Ended::Done {
            return ended;
        }
        let rows = 1 + self.random.below(60);
        let text = format!(
            "USE {name}; BEGIN TRANSACTION; {}; COMMIT; USE master",
            table_text("content", rows)
        );
        let ended = run(client, round, &text);
        if ended == Ended::Done {
            self.journal.filled(&name, rows);
        }
        ended
    }

    /// Drops one that is there, if there is one.
    fn drop_one(&mut self, client: &mut Client, round: &Round<'_>, kind: Kind) -> Ended {
        let present = self.journal.present(kind);
        let at = self.random.below(present.len().max(1) as u64);
        let Some(name) = usize::try_from(at).ok().and_then(|at| present.get(at)) else {
            return Ended::Refused;
        };
        let name = name.clone();
        let text = self.drop_text(kind, &name);
        self.journal.doubt(kind, &name);
        let ended = run(client, round, &text);
        self.settle(kind, &name, ended, State::Absent, false);
        ended
    }

    fn drop_text(&self, kind: Kind, name: &str) -> String {
        let database = &self.database;
        match kind {
            Kind::Table => format!("USE {database}; DROP TABLE dbo.{name}"),
            Kind::Index => format!("USE {database}; DROP INDEX {name} ON {}", self.target.table),
            Kind::Database | Kind::Restored => format!("USE master; DROP DATABASE {name}"),
            Kind::Backup => String::new(),
        }
    }

    /// The last backup over a database that somebody reads; half of the time whoever is in it is thrown out first.
    fn restore(&mut self, client: &mut Client, round: &Round<'_>) -> Ended {
        let Some(backup) = self.journal.present(Kind::Backup).pop() else {
            return Ended::Refused;
        };
        self.journal.wish(Kind::Restored, RESTORED, 0);
        let alone = match self.random.below(2) {
            0 => String::new(),
            _ => format!(
                "IF DB_ID('{RESTORED}') IS NOT NULL ALTER DATABASE {RESTORED} SET SINGLE_USER WITH ROLLBACK IMMEDIATE; "
            ),
        };
        let ended = run(
            client,
            round,
            &format!("USE master; {alone}{}", self.restore_text(&backup)),
        );
        self.settle(Kind::Restored, RESTORED, ended, State::Present, true);
        ended
    }

    fn restore_text(&self, backup: &str) -> String {
        let database = &self.database;
        format!(
            "RESTORE DATABASE {RESTORED} FROM DISK = N'{backup}' WITH REPLACE, MOVE '{database}' TO '{RESTORED}.mdf', \
             MOVE '{database}_log' TO '{RESTORED}_log.ldf'; ALTER DATABASE {RESTORED} SET MULTI_USER"
        )
    }

    fn settle(&mut self, kind: Kind, name: &str, ended: Ended, state: State, makes: bool) {
        match ended {
            Ended::Done => self.journal.settle(kind, name, state),
            Ended::Refused => self.journal.refused(kind, name),
            Ended::Unknown => {}
        }
        self.journal
            .count(kind.counted(makes), ended == Ended::Done);
    }
}

/// Reads the restored database: it gives what every backup holds, or an error, never anything else.
pub fn read_restored(round: &Round<'_>, query: &str, expected: &str) {
    while !round.is_over() {
        thread::sleep(PAUSE);
        let Ok(mut client) = connect_to(round.target, RESTORED) else {
            continue;
        };
        while !round.is_over() {
            match crate::sql::Ask::text(&mut client, query) {
                Ok(found) if found == expected => {}
                Ok(found) => round.surprise(format!(
                    "{RESTORED} gave {found} and not {expected} while it was restored"
                )),
                // It is being restored, or the server is gone.
                Err(_) => break,
            }
        }
    }
}

/// What was done beside the load, and what not: refused, or cut off by a kill.
pub fn table<'a>(counts: impl Iterator<Item = &'a BTreeMap<&'static str, Count>>) -> Table {
    let mut all: BTreeMap<&'static str, Count> = BTreeMap::new();
    for (name, count) in counts.flatten() {
        let sum = all.entry(name).or_default();
        sum.done += count.done;
        sum.not_done += count.not_done;
    }
    let columns = ["Beside the load", "Done", "Refused or cut off by a kill"];
    let mut table = Table::new("", &columns);
    for (name, count) in all {
        table.measured(vec![
            name.into(),
            count.done.to_string(),
            count.not_done.to_string(),
        ]);
    }
    table
}

/// A table of `rows` rows, whose sum of n is known.
fn table_text(name: &str, rows: u64) -> String {
    let values: Vec<String> = (1..=rows).map(|n| format!("({n}, {})", n * n)).collect();
    format!(
        "CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY, n int NOT NULL); INSERT dbo.{name} VALUES {}",
        values.join(", ")
    )
}

/// Number and sum of those rows.
fn content(rows: u64) -> String {
    let sum: u64 = (1..=rows).map(|n| n * n).sum();
    format!("{rows} {sum}")
}

fn run(client: &mut Client, round: &Round<'_>, text: &str) -> Ended {
    let error = match client.execute(text) {
        Ok(()) => return Ended::Done,
        Err(error) => error,
    };
    let Some(message) = error.server_message() else {
        return Ended::Unknown;
    };
    let number = message.number;
    if !REFUSALS.contains(&number) && !matches!(error, ClientError::LoginRefused { .. }) {
        round.surprise(format!("error {number}: {} ({text})", message.text));
    }
    match client.execute("IF @@TRANCOUNT > 0 ROLLBACK") {
        Ok(()) => Ended::Refused,
        Err(_) => Ended::Unknown,
    }
}
