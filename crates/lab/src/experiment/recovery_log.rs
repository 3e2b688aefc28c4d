//! Recovery times as the server's error log tells them (message 3421).

use crate::sql::Ask;
use daruma_client::client::{Client, ClientError};
use serde::Serialize;

/// The phases of one recovery.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RecoveryTimes {
    /// The log's own figure, in whole seconds.
    pub seconds: f64,
    pub analysis_ms: f64,
    pub redo_ms: f64,
    pub undo_ms: f64,
    /// Where the product version tells it.
    pub accelerated: Option<bool>,
}

impl RecoveryTimes {
    /// Analysis, redo and undo together, in seconds.
    pub fn sum_s(&self) -> f64 {
        (self.analysis_ms + self.redo_ms + self.undo_ms) / 1e3
    }
}

/// The last recovery of a database in the current error log; `None` if it says nothing.
pub fn last(client: &mut Client, database: &str) -> Result<Option<RecoveryTimes>, ClientError> {
    let rows = client.table("EXEC master.sys.xp_readerrorlog")?;
    let texts = rows.iter().filter_map(|row| row.last());
    Ok(texts.filter_map(|text| parse(text, database)).next_back())
}

/// `Recovery completed for database X (database ID 5) in 3 second(s) (analysis 9 ms, redo 10 ms, undo 11 ms [...].) ...`
fn parse(text: &str, database: &str) -> Option<RecoveryTimes> {
    let rest = text.strip_prefix("Recovery completed for database ")?;
    let rest = rest
        .strip_prefix(database)?
        .strip_prefix(" (database ID ")?;
    let (_, times) = rest.split_once(") in ")?;
    Some(RecoveryTimes {
        seconds: leading(times)?,
        analysis_ms: after(times, "(analysis ")?,
        redo_ms: after(times, ", redo ")?,
        undo_ms: after(times, ", undo ")?,
        accelerated: after(times, "ADR-enabled=").map(|on| on > 0.0),
    })
}

fn after(text: &str, mark: &str) -> Option<f64> {
    leading(text.split_once(mark)?.1)
}

fn leading(text: &str) -> Option<f64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_of_the_message_is_understood() {
        let old = "Recovery completed for database AW (database ID 7) in 45 second(s) (analysis 661 ms, redo 11397 ms, undo 31671 ms.) This is an informational message only.";
        let times = parse(old, "AW").expect("parses");
        assert_eq!(
            (times.seconds, times.undo_ms, times.accelerated),
            (45.0, 31671.0, None)
        );
        assert!((times.sum_s() - 43.729).abs() < 1e-9);
        let new = "Recovery completed for database AW_AR (database ID 8) in 1 second(s) (analysis 3 ms, redo 5 ms, undo 0 ms [system undo 0 ms, regular undo 0 ms].) ADR-enabled=1, Is primary=1, OL-Enabled=0. This is";
        assert_eq!(parse(new, "AW_AR").and_then(|t| t.accelerated), Some(true));
    }

    #[test]
    fn other_databases_and_lines_are_not_taken() {
        let text = "Recovery completed for database AW_AR (database ID 8) in 1 second(s) (analysis 3 ms, redo 5 ms, undo 0 ms.)";
        assert_eq!(parse(text, "AW"), None);
        assert_eq!(parse("Recovery is complete.", "AW"), None);
        assert_eq!(
            parse(
                "Recovery completed for database AW (database ID 8) in",
                "AW"
            ),
            None
        );
    }
}
