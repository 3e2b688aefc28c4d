//! After a restart: what is there against the journal.

use super::super::LabError;
use super::journal::{Kind, Known, State};
use super::{Beside, PREFIX, RESTORED, content};
use crate::sql::{Ask, connect_to, quoted};
use daruma_client::client::{Client, ClientError, Options};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Databases that are recovered for longer are taken as they are.
const RECOVERY_LIMIT: Duration = Duration::from_secs(900);
/// The log is backed up after so many restarts.
const LOG_BACKUP_EVERY: u64 = 8;
const POLL: Duration = Duration::from_millis(20);

/// What is wrong with a thing that is there (with its content) or not; `None`: nothing. Settles what was in doubt.
pub fn judge(
    kind: Kind,
    name: &str,
    known: &mut Known,
    found: Option<&str>,
    in_doubt: &mut u64,
) -> Option<String> {
    let wanted = match (kind, known.rows) {
        (Kind::Table, rows) => Some(content(rows)),
        (Kind::Database, 0) => None,
        (Kind::Database, rows) => Some(content(rows)),
        _ => None,
    };
    let wrong = match (known.state, found) {
        (State::Present, None) => Some("was acknowledged and is gone".to_string()),
        (State::Absent, Some(_)) => Some("was dropped or rolled back and is there".into()),
        (_, Some(found)) if wanted.as_ref().is_some_and(|w| w != found) => Some(format!(
            "holds {found} and not {}",
            wanted.unwrap_or_default()
        )),
        _ => None,
    };
    if known.state == State::Unknown {
        *in_doubt += 1;
        known.state = match found {
            Some(_) => State::Present,
            None => State::Absent,
        };
    }
    wrong.map(|wrong| format!("{name} {wrong}"))
}

impl Beside {
    /// Compares what is there with the journal, and adds what is wrong to `violations`.
    pub fn verify(
        &mut self,
        target: &Options,
        data: Option<&Path>,
        violations: &mut Vec<String>,
    ) -> Result<(), LabError> {
        let mut client = connect_to(target, &self.database)?;
        await_recovery(&mut client)?;
        let tables = self.tables(&mut client)?;
        self.compare(Kind::Table, &tables, violations);
        let indexes = self.indexes(&mut client, violations)?;
        self.compare(Kind::Index, &indexes, violations);
        let databases = self.databases(&mut client, target, violations)?;
        self.compare(Kind::Database, &databases, violations);
        if let Some(data) = data {
            left_files(data, &databases, violations);
        }
        self.backups(&mut client, violations);
        self.back_up_log(&mut client, violations);
        if self.restores.is_some() {
            self.restored(&mut client, target, violations)?;
        }
        // What is gone for good is not asked for again.
        self.journal
            .known
            .retain(|(kind, _), known| known.state != State::Absent || *kind == Kind::Restored);
        Ok(())
    }

    /// Drops what is there, for the next round.
    pub fn clean(&mut self, target: &Options) -> Result<(), LabError> {
        let mut client = connect_to(target, &self.database)?;
        for kind in [Kind::Table, Kind::Index, Kind::Database] {
            for name in self.journal.present(kind) {
                client.execute(&self.drop_text(kind, &name))?;
            }
            self.journal.forget(kind);
        }
        Ok(())
    }

    fn compare(
        &mut self,
        kind: Kind,
        found: &BTreeMap<String, String>,
        violations: &mut Vec<String>,
    ) {
        let journal = &mut self.journal;
        for ((_, name), known) in journal.known.iter_mut().filter(|((k, _), _)| *k == kind) {
            let wrong = judge(
                kind,
                name,
                known,
                found.get(name).map(String::as_str),
                &mut journal.in_doubt,
            );
            violations.extend(wrong);
        }
        for name in found.keys() {
            if !journal.known.contains_key(&(kind, name.clone())) {
                violations.push(format!("{name} is there and nobody asked for it"));
            }
        }
    }

    /// Our tables with number and sum of their rows.
    fn tables(&self, client: &mut Client) -> Result<BTreeMap<String, String>, LabError> {
        let names = client.table(&format!(
            "SELECT name FROM sys.tables WHERE name LIKE '{PREFIX}[_]%'"
        ))?;
        let mut out = BTreeMap::new();
        for name in names.into_iter().flatten() {
            let found = client.text(&format!(
                "SELECT CONCAT(COUNT(*), ' ', SUM(n)) FROM dbo.{name}"
            ))?;
            out.insert(name, found);
        }
        Ok(out)
    }

    /// Our indexes; each is compared with the table.
    fn indexes(
        &self,
        client: &mut Client,
        violations: &mut Vec<String>,
    ) -> Result<BTreeMap<String, String>, LabError> {
        let table = self.target.table;
        let names = client.table(&format!(
            "SELECT name FROM sys.indexes WHERE object_id = OBJECT_ID({}) AND name LIKE '{PREFIX}[_]%'",
            quoted(table)
        ))?;
        let sums = |client: &mut Client, index: &str| {
            client.text(&format!(
                "SELECT CONCAT(COUNT_BIG(*), ' ', SUM(CAST({} AS bigint))) FROM {table} WITH (INDEX ({index}))",
                self.target.sum
            ))
        };
        let mut out = BTreeMap::new();
        for name in names.into_iter().flatten() {
            // Index 0 or 1: the rows themselves.
            let whole = sums(client, "0").or_else(|_| sums(client, "1"))?;
            let found = sums(client, &name)?;
            if whole != found {
                violations.push(format!("{table} says {whole}, its index {name} {found}"));
            }
            out.insert(name, String::new());
        }
        Ok(out)
    }

    /// Our databases with number and sum of the rows in them, empty as long as there is no table.
    fn databases(
        &self,
        client: &mut Client,
        target: &Options,
        violations: &mut Vec<String>,
    ) -> Result<BTreeMap<String, String>, LabError> {
        let rows = client.table(&format!(
            "SELECT name, state_desc FROM sys.databases WHERE name LIKE '{PREFIX}[_]%' AND name <> '{RESTORED}'"
        ))?;
        let mut out = BTreeMap::new();
        for row in rows {
            let [name, state] = row.as_slice() else {
                continue;
            };
            if state != "ONLINE" {
                violations.push(format!("{name} is {state} after the restart"));
            }
            let found = in_database(
                target,
                name,
                "IF OBJECT_ID('dbo.content') IS NULL SELECT '' ELSE SELECT CONCAT(COUNT(*), ' ', SUM(n)) FROM dbo.content",
            );
            match found {
                Ok(found) => {
                    out.insert(name.clone(), found);
                }
                Err(error) => {
                    violations.push(format!("{name} cannot be used: {error}"));
                    out.insert(name.clone(), String::new());
                }
            }
        }
        Ok(out)
    }

    /// A backup that was acknowledged can be read whole.
    fn backups(&mut self, client: &mut Client, violations: &mut Vec<String>) {
        for file in self.journal.present(Kind::Backup) {
            let text = format!("RESTORE VERIFYONLY FROM DISK = {}", quoted(&file));
            if let Err(error) = client.execute(&text) {
                violations.push(format!("an acknowledged backup is not whole: {error}"));
            }
        }
    }

    /// Kills interrupt most of the load's log backups, the longer the log the more of them: without one in quiet now and then the log
    /// grows to the end of the disk.
    fn back_up_log(&mut self, client: &mut Client, violations: &mut Vec<String>) {
        self.verified += 1;
        let is_kept = !self.journal.present(Kind::Backup).is_empty();
        if !self.verified.is_multiple_of(LOG_BACKUP_EVERY) || !is_kept {
            return;
        }
        let text = self.log_backup_text();
        if let Err(error) = client.execute(&text) {
            violations.push(format!("the log cannot be backed up: {error}"));
        }
    }

    /// The restored database is whole, or can be restored again.
    fn restored(
        &mut self,
        client: &mut Client,
        target: &Options,
        violations: &mut Vec<String>,
    ) -> Result<(), LabError> {
        let key = (Kind::Restored, RESTORED.to_string());
        let Some(state) = self.journal.known.get(&key).map(|k| k.state) else {
            return Ok(());
        };
        if state == State::Unknown {
            self.journal.in_doubt += 1;
            let Some(backup) = self.journal.present(Kind::Backup).pop() else {
                self.journal.forget(Kind::Restored);
                let _ = client.execute(&format!("USE master; DROP DATABASE IF EXISTS {RESTORED}"));
                return Ok(());
            };
            let text = format!("USE master; {}", self.restore_text(&backup));
            if let Err(error) = client.execute(&text) {
                violations.push(format!(
                    "{RESTORED} cannot be restored again after a kill: {error}"
                ));
            }
            self.journal
                .settle(Kind::Restored, RESTORED, State::Present);
        }
        let Some((query, expected)) = &self.restores else {
            return Ok(());
        };
        match in_database(target, RESTORED, query) {
            Ok(found) if found == *expected => {}
            Ok(found) => violations.push(format!("{RESTORED} gives {found} and not {expected}")),
            Err(error) => violations.push(format!("{RESTORED} cannot be used: {error}")),
        }
        Ok(())
    }
}

/// Each database opens when it is ready, on a busy machine long after the one of the load.
fn await_recovery(client: &mut Client) -> Result<(), LabError> {
    let text = format!(
        "SELECT COUNT(*) FROM sys.databases WHERE name LIKE '{PREFIX}[_]%' AND state_desc = 'RECOVERING'"
    );
    let begun = Instant::now();
    while client.text(&text)? != "0" && begun.elapsed() < RECOVERY_LIMIT {
        thread::sleep(POLL);
    }
    Ok(())
}

fn in_database(target: &Options, database: &str, query: &str) -> Result<String, ClientError> {
    connect_to(target, database)?.text(query)
}

/// Files of databases that are not there.
fn left_files(data: &Path, databases: &BTreeMap<String, String>, violations: &mut Vec<String>) {
    for entry in fs::read_dir(data).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(database) = owner(&name) else {
            continue;
        };
        if !databases.contains_key(&database) {
            violations.push(format!("{name} is left of a database that is not there"));
        }
    }
}

/// The database of ours that a file belongs to.
fn owner(file: &str) -> Option<String> {
    let own = file.starts_with(&format!("{PREFIX}_database"));
    let (stem, _) = file.rsplit_once('.')?;
    own.then(|| stem.trim_end_matches("_log").to_string())
}

#[cfg(test)]
mod tests {
    use super::super::journal::Journal;
    use super::*;

    fn judged(kind: Kind, state: State, rows: u64, found: Option<&str>) -> (State, bool, u64) {
        let mut journal = Journal::default();
        journal.wish(kind, "x", rows);
        journal.settle(kind, "x", state);
        let known = journal.known.get_mut(&(kind, "x".to_string()));
        let known = known.expect("it was asked for");
        let mut in_doubt = 0;
        let wrong = judge(kind, "x", known, found, &mut in_doubt);
        (known.state, wrong.is_some(), in_doubt)
    }

    #[test]
    fn every_broken_promise_is_seen() {
        for (kind, state, rows, found) in [
            (Kind::Table, State::Present, 2, None),
            (Kind::Table, State::Present, 2, Some("1 1")),
            (Kind::Table, State::Absent, 2, Some("2 5")),
            (Kind::Table, State::Unknown, 2, Some("1 1")),
            (Kind::Index, State::Present, 0, None),
            (Kind::Index, State::Absent, 0, Some("")),
            (Kind::Database, State::Present, 0, None),
            (Kind::Database, State::Present, 2, Some("")),
            (Kind::Database, State::Absent, 0, Some("")),
        ] {
            let (_, wrong, _) = judged(kind, state, rows, found);
            assert!(wrong, "{kind:?} {state:?} {rows} {found:?}");
        }
    }

    #[test]
    fn doubt_is_settled_by_what_is_found() {
        let whole = judged(Kind::Table, State::Unknown, 2, Some("2 5"));
        assert_eq!(whole, (State::Present, false, 1));
        let nothing = judged(Kind::Table, State::Unknown, 2, None);
        assert_eq!(nothing, (State::Absent, false, 1));
        let empty = judged(Kind::Database, State::Unknown, 0, Some(""));
        assert_eq!(empty, (State::Present, false, 1));
    }

    #[test]
    fn a_file_tells_its_database() {
        let name = owner("LabBeside_database3_log.ldf");
        assert_eq!(name.as_deref(), Some("LabBeside_database3"));
        assert_eq!(owner("LabBeside_database3.mdf"), name);
        assert_eq!(owner("LabBeside_restored.mdf"), None);
        assert_eq!(owner("LabCrash.mdf"), None);
    }

    #[test]
    fn a_refused_drop_leaves_what_was_there() {
        let mut journal = Journal::default();
        journal.wish(Kind::Table, "t", 1);
        journal.settle(Kind::Table, "t", State::Present);
        journal.doubt(Kind::Table, "t");
        assert!(journal.present(Kind::Table).is_empty());
        journal.refused(Kind::Table, "t");
        assert_eq!(journal.present(Kind::Table), ["t"]);
    }
}
