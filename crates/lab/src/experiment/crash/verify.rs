//! After a restart: the database against the journals.
//!
//! | what the journal says | what must be found |
//! |---|---|
//! | acknowledged | all of it |
//! | rolled back, or refused by the server | nothing |
//! | no answer came | all or nothing; a transaction that was to be rolled back: nothing. What is found counts from now on |
//!
//! Besides: balances are their start plus what the stored transfers say, the index holds the same rows as the table, nothing is
//! stored that no journal knows, and the table that nobody ever committed a change of is as it was.

use super::super::LabError;
use super::writer::{Operation, Outcome, Work, Writer};
use super::{ACCOUNTS, BALANCE, UNTOUCHED_ROWS};
use crate::sql::Ask;
use daruma_client::client::Client;
use std::collections::HashMap;

/// What one comparison of the journals with the database counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// Acknowledged commits seen for the first time, and checks of commits in all.
    pub acknowledged: u64,
    pub checks: u64,
    pub in_doubt: u64,
    /// Of those in doubt, how many had been committed.
    pub in_doubt_present: u64,
}

type Key = (u64, u64);

/// Compares, settles what was in doubt, and adds what is wrong to `violations`.
pub fn run(
    client: &mut Client,
    writers: &mut [Writer],
    baseline: &[i64],
    violations: &mut Vec<String>,
) -> Result<Found, LabError> {
    let entries = grouped(client)?;
    let transfers = transfers(client)?;
    let mut found = Found::default();
    let mut known = 0;
    for writer in writers {
        let id = writer.id;
        for (sequence, operation) in (writer.base..).zip(&mut writer.journal) {
            let key = (id, sequence);
            let rows = rows_of(operation, key, &entries, &transfers, violations);
            known += usize::from(rows > 0);
            judge(operation, key, rows, &mut found, violations);
        }
    }
    if known != entries.len() + transfers.len() {
        violations.push(format!(
            "{} transactions are stored, the journals know {known} of them",
            entries.len() + transfers.len()
        ));
    }
    balances(client, baseline, &transfers, violations)?;
    others(client, violations)?;
    Ok(found)
}

fn rows_of(
    operation: &Operation,
    key: Key,
    entries: &HashMap<Key, u64>,
    transfers: &HashMap<Key, (u64, u64, u64)>,
    violations: &mut Vec<String>,
) -> u64 {
    let Work::Transfer {
        source,
        target,
        amount,
    } = operation.work
    else {
        return entries.get(&key).copied().unwrap_or(0);
    };
    match transfers.get(&key) {
        None => 0,
        Some(stored) => {
            if *stored != (source, target, amount) {
                violations.push(format!(
                    "transfer {key:?} holds {stored:?}, asked for {operation:?}"
                ));
            }
            1
        }
    }
}

fn judge(
    operation: &mut Operation,
    key: Key,
    rows: u64,
    found: &mut Found,
    violations: &mut Vec<String>,
) {
    let wanted = operation.rows();
    let is_undone = matches!(operation.work, Work::Undone(_));
    let wrong = match operation.outcome {
        Outcome::Present if rows != wanted => Some("was acknowledged"),
        Outcome::Absent if rows != 0 => Some("was rolled back"),
        Outcome::Unknown if is_undone && rows != 0 => Some("was never committed"),
        Outcome::Unknown if rows != 0 && rows != wanted => Some("is in doubt"),
        _ => None,
    };
    if let Some(wrong) = wrong {
        violations.push(format!("{key:?} {wrong} and has {rows} of {wanted} rows"));
    }
    if operation.outcome == Outcome::Unknown {
        found.in_doubt += 1;
        found.in_doubt_present += u64::from(rows > 0);
        operation.outcome = if rows > 0 {
            Outcome::Present
        } else {
            Outcome::Absent
        };
    }
    if operation.outcome == Outcome::Present {
        found.checks += 1;
        if !operation.counted {
            operation.counted = true;
            found.acknowledged += 1;
        }
    }
}

/// Rows of each transaction.
fn grouped(client: &mut Client) -> Result<HashMap<Key, u64>, LabError> {
    let rows = numbers(
        client,
        "SELECT writer, seq, COUNT(*) FROM dbo.entries GROUP BY writer, seq",
    )?;
    let keyed = rows.iter().filter_map(|row| match row.as_slice() {
        [writer, seq, count] => Some(((*writer, *seq), *count)),
        _ => None,
    });
    Ok(keyed.collect())
}

fn transfers(client: &mut Client) -> Result<HashMap<Key, (u64, u64, u64)>, LabError> {
    let rows = numbers(
        client,
        "SELECT writer, seq, source, target, amount FROM dbo.transfers",
    )?;
    let keyed = rows.iter().filter_map(|row| match row.as_slice() {
        [writer, seq, source, target, amount] => {
            Some(((*writer, *seq), (*source, *target, *amount)))
        }
        _ => None,
    });
    Ok(keyed.collect())
}

fn numbers(client: &mut Client, query: &str) -> Result<Vec<Vec<u64>>, LabError> {
    let rows = client.table(query)?;
    let parsed = |row: Vec<String>| {
        row.iter()
            .map(|cell| cell.parse().unwrap_or(u64::MAX))
            .collect()
    };
    Ok(rows.into_iter().map(parsed).collect())
}

fn balances(
    client: &mut Client,
    baseline: &[i64],
    transfers: &HashMap<Key, (u64, u64, u64)>,
    violations: &mut Vec<String>,
) -> Result<(), LabError> {
    let mut wanted = baseline.to_vec();
    for (source, target, amount) in transfers.values() {
        let amount = i64::try_from(*amount).unwrap_or(0);
        for (account, change) in [(*source, -amount), (*target, amount)] {
            let at = usize::try_from(account).unwrap_or(usize::MAX);
            if let Some(balance) = wanted.get_mut(at) {
                *balance += change;
            }
        }
    }
    let stored = client.table("SELECT balance FROM dbo.accounts ORDER BY id")?;
    let stored: Vec<i64> = stored
        .iter()
        .filter_map(|row| row.first()?.parse().ok())
        .collect();
    if stored != wanted {
        let differ = stored.iter().zip(&wanted).filter(|(a, b)| a != b).count();
        violations.push(format!(
            "{} accounts, {differ} of them do not have what their transfers say",
            stored.len()
        ));
    }
    let total: i64 = stored.iter().sum();
    let expected = i64::try_from(ACCOUNTS).unwrap_or(0) * BALANCE;
    if total != expected {
        violations.push(format!("all balances together are {total}, not {expected}"));
    }
    Ok(())
}

fn others(client: &mut Client, violations: &mut Vec<String>) -> Result<(), LabError> {
    let table = client.text(
        "SELECT CONCAT(COUNT_BIG(*), ' ', SUM(seq)) FROM dbo.entries WITH (INDEX (PK_entries))",
    )?;
    let index = client.text("SELECT CONCAT(COUNT_BIG(*), ' ', SUM(seq)) FROM dbo.entries WITH (INDEX (IX_entries_seq)) WHERE seq >= 0")?;
    if table != index {
        violations.push(format!("the table says {table}, its index {index}"));
    }
    let untouched =
        client.text("SELECT COUNT(*) FROM dbo.untouched WHERE n = 0 AND filler = 'x'")?;
    if untouched != UNTOUCHED_ROWS.to_string() {
        violations.push(format!("{untouched} of {UNTOUCHED_ROWS} rows that nobody committed a change of are as they were"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(work: Work, outcome: Outcome, rows: u64) -> (Operation, Found, usize) {
        let mut operation = Operation {
            work,
            outcome,
            counted: false,
        };
        let (mut found, mut violations) = (Found::default(), Vec::new());
        judge(&mut operation, (1, 2), rows, &mut found, &mut violations);
        (operation, found, violations.len())
    }

    #[test]
    fn every_broken_promise_is_seen() {
        let broken = [
            judged(Work::Rows(3), Outcome::Present, 0),
            judged(Work::Rows(3), Outcome::Present, 2),
            judged(Work::Rows(3), Outcome::Absent, 3),
            judged(Work::Undone(3), Outcome::Unknown, 3),
            judged(Work::Rows(3), Outcome::Unknown, 1),
        ];
        assert!(broken.iter().all(|(_, _, violations)| *violations == 1));
    }

    #[test]
    fn doubt_is_settled_by_what_is_found() {
        let (operation, found, violations) = judged(Work::Rows(3), Outcome::Unknown, 3);
        assert_eq!((operation.outcome, violations), (Outcome::Present, 0));
        assert_eq!(
            (found.in_doubt, found.in_doubt_present, found.acknowledged),
            (1, 1, 1)
        );
        let (operation, found, violations) = judged(Work::Rows(3), Outcome::Unknown, 0);
        assert_eq!(
            (operation.outcome, violations, found.checks),
            (Outcome::Absent, 0, 0)
        );
    }
}
