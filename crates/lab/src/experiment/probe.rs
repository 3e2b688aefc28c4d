//! What a server really does, found out by trying: an option that is only stored must not pass for a feature.

use crate::sql::{Ask, quoted};
use daruma_client::client::{Client, ClientError};
use std::thread;
use std::time::{Duration, Instant};

const DATABASE: &str = "DarumaLabProbe";
const REVERT_LIMIT: Duration = Duration::from_secs(300);
const REVERT_POLL: Duration = Duration::from_millis(5);

/// Does an open transaction no longer hold the log when accelerated recovery is on? That is its visible effect, and no
/// server shows it by storing the option alone.
pub fn accelerated_recovery(client: &mut Client) -> Result<bool, ClientError> {
    // Where one of that name is there already, this says so and nothing is touched.
    client.execute(&format!("CREATE DATABASE {DATABASE}"))?;
    let found = try_in(client);
    client.execute(&format!(
        "USE master; IF @@TRANCOUNT > 0 ROLLBACK; DROP DATABASE {DATABASE}"
    ))?;
    found
}

/// How long the background work needs until no aborted transaction is left to revert; `None` if it is not done in time.
/// A measurement of something else waits for it, or it would be measured as well.
pub fn until_reverted(client: &mut Client, database: &str) -> Result<Option<f64>, ClientError> {
    let query = format!(
        "SELECT current_aborted_transaction_count FROM sys.dm_tran_persistent_version_store_stats WHERE database_id = DB_ID({})",
        quoted(database)
    );
    let begun = Instant::now();
    while begun.elapsed() < REVERT_LIMIT {
        if client.number(&query)?.is_none_or(|count| count == 0.0) {
            return Ok(Some(begun.elapsed().as_secs_f64()));
        }
        thread::sleep(REVERT_POLL);
    }
    Ok(None)
}

fn try_in(client: &mut Client) -> Result<bool, ClientError> {
    client.execute(&format!("ALTER DATABASE {DATABASE} SET RECOVERY SIMPLE"))?;
    let switch = format!("ALTER DATABASE {DATABASE} SET ACCELERATED_DATABASE_RECOVERY = ON");
    match client.execute(&switch) {
        Ok(()) => {}
        Err(ClientError::Server { .. }) => return Ok(false),
        Err(error) => return Err(error),
    }
    client.execute(&format!("USE {DATABASE}"))?;
    client.execute("CREATE TABLE probe (a int NOT NULL PRIMARY KEY)")?;
    client.execute("BEGIN TRANSACTION; INSERT probe VALUES (1)")?;
    // Twice, because the first checkpoint may have to write what the second one then leaves behind.
    client.execute("CHECKPOINT; CHECKPOINT")?;
    let reason = client.text(&format!(
        "SELECT log_reuse_wait_desc FROM sys.databases WHERE name = N'{DATABASE}'"
    ))?;
    Ok(reason != "ACTIVE_TRANSACTION")
}
