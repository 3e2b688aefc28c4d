//! Old samples go: what each level keeps is a setting, and every tenth run commits durably to show what delayed commits save.

use super::Repository;
use super::levels::{LEVELS, WAIT_LEVELS};
use crate::sql::{now, quoted, time};
use daruma_client::client::ClientError;
use std::collections::BTreeMap;

const DAY_MS: i64 = 86_400_000;
/// Time between two purges of everything.
pub const EVERY_MS: i64 = 600_000;
/// A run in so many is durable.
const DURABLE_EVERY: u64 = 10;

/// How many days each table keeps, by table.
pub fn retention(repository: &Repository) -> Result<BTreeMap<String, i64>, ClientError> {
    let mut days: BTreeMap<String, i64> = LEVELS
        .iter()
        .chain(&WAIT_LEVELS)
        .map(|level| (level.table.to_string(), level.keep_days))
        .collect();
    for (table, keep) in [("statement", 30), ("blocking", 30), ("event", 400)] {
        days.insert(table.into(), keep);
    }
    let rows = repository.query("SELECT name, value FROM dbo.setting WHERE name LIKE N'keep.%'")?;
    for row in rows {
        let texts: Vec<String> = row.iter().map(daruma_client::value::text).collect();
        if let [name, value, ..] = texts.as_slice()
            && let Some(table) = name.strip_prefix("keep.")
            && let (Some(keep), Ok(value)) = (days.get_mut(table), value.parse())
        {
            *keep = value;
        }
    }
    Ok(days)
}

/// Purges every table once. `run` counts the calls.
pub fn all(repository: &Repository, run: u64) -> Result<(), ClientError> {
    let days = retention(repository)?;
    let mut client = repository.connect()?;
    client.set_query_timeout(None);
    let delayed = u8::from(run % DURABLE_EVERY != DURABLE_EVERY - 1);
    for (table, keep) in days {
        let before = time(now() - keep * DAY_MS);
        client.execute(&format!(
            "EXEC dbo.purge_samples @level = {}, @before = {before}, @delayed = {delayed};",
            quoted(&table)
        ))?;
    }
    // Texts that no statement and no blocked session refers to any more.
    client.execute(
        "DELETE TOP (2000) t FROM dbo.sql_text AS t WHERE NOT EXISTS (SELECT * FROM dbo.statement AS s WHERE s.text_id = \
         t.text_id) AND NOT EXISTS (SELECT * FROM dbo.blocking AS b WHERE b.text_id = t.text_id); \
         DELETE TOP (2000) p FROM dbo.query_plan AS p WHERE NOT EXISTS (SELECT * FROM dbo.sql_text AS t WHERE t.text_id = \
         p.text_id);",
    )
}
