//! What changed between two readings, as events: backups, roles in groups, databases, configuration, growths of logs.
//!
//! Invariant: the first reading is where comparing starts; only backups of the last hour are told of it.

use super::difference::{Event, Tick};
use super::reading::{Backup, Database, Reading, Role};
use std::collections::BTreeMap;

/// Growths of logs closer together than this are told as one.
const GROWTHS_APART_MS: i64 = 10_000;
/// Severity of an event that somebody should look at.
const SEVERE: u8 = 17;

/// What was seen last.
#[derive(Debug, Default)]
pub struct Happened {
    databases: Option<Vec<Database>>,
    configuration: Option<BTreeMap<String, String>>,
    roles: Option<Vec<Role>>,
    last_backup: i64,
    grown: f64,
    growth_told: i64,
}

impl Happened {
    /// Number of the last backup that was told.
    pub fn last_backup(&self) -> i64 {
        self.last_backup
    }

    /// The server has started: its list of backups may be another one.
    pub fn restarted(&mut self) {
        self.last_backup = 0;
    }

    /// Events since the reading before.
    pub fn of(&mut self, reading: &mut Reading) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(now) = reading.configuration.take() {
            for (name, value) in &now {
                let before = self.configuration.as_ref().and_then(|c| c.get(name));
                if let Some(before) = before.filter(|before| *before != value) {
                    let words = format!("Configuration: {name} from {before} to {value}.");
                    events.push(Event::new(reading.utc, "configuration", words));
                }
            }
            self.configuration = Some(now);
        }
        if let Some(now) = &reading.databases {
            if let Some(before) = &self.databases {
                database_changes(before, now, reading.utc, &mut events);
            }
            self.databases = Some(now.clone());
        }
        for backup in std::mem::take(&mut reading.backups) {
            self.last_backup = self.last_backup.max(backup.number);
            events.push(backup_event(&backup));
        }
        self.role_changes(std::mem::take(&mut reading.roles), reading.utc, &mut events);
        events
    }

    fn role_changes(&mut self, now: Vec<Role>, at: i64, events: &mut Vec<Event>) {
        for role in &now {
            let before = self.roles.as_ref().and_then(|known| {
                let same = |before: &&Role| before.group == role.group;
                known.iter().find(same)
            });
            let Some(before) = before else { continue };
            if before.role != role.role {
                let words = format!(
                    "Group {}: this server went from {} to {}.",
                    role.group, before.role, role.role
                );
                events.push(Event {
                    severity: SEVERE,
                    ..Event::new(at, "failover", words)
                });
            }
            if before.health != role.health {
                let words = format!(
                    "Group {}: synchronization health from {} to {}.",
                    role.group, before.health, role.health
                );
                let severity = if role.health == "HEALTHY" { 10 } else { SEVERE };
                events.push(Event {
                    severity,
                    ..Event::new(at, "replica", words)
                });
            }
        }
        self.roles = Some(now);
    }

    /// The event of logs that grew, some at a time.
    pub fn growth(&mut self, tick: &Tick) -> Option<Event> {
        self.grown += tick.values.get("log_growths").unwrap_or(0.0);
        if self.grown < 1.0 || tick.at - self.growth_told < GROWTHS_APART_MS {
            return None;
        }
        let words = match self.grown {
            grown if grown < 2.0 => "A log grew.".to_string(),
            grown => format!("Logs grew {grown:.0} times."),
        };
        self.grown = 0.0;
        self.growth_told = tick.at;
        Some(Event::new(tick.at, "log growth", words))
    }
}

fn backup_event(backup: &Backup) -> Event {
    let what = match backup.kind.as_str() {
        "D" => "Full backup",
        "I" => "Differential backup",
        "L" => "Log backup",
        _ => "Backup",
    };
    let mib = |bytes: f64| bytes / 1_048_576.0;
    let mut words = format!(
        "{what} of {}: {:.1} MiB",
        backup.database,
        mib(backup.bytes)
    );
    if backup.bytes_written < backup.bytes {
        words.push_str(&format!(", {:.1} MiB written", mib(backup.bytes_written)));
    }
    Event {
        until: Some(backup.ended.max(backup.started)),
        ..Event::new(backup.started, "backup", words + ".")
    }
}

fn database_changes(before: &[Database], now: &[Database], at: i64, events: &mut Vec<Event>) {
    for database in now {
        match before.iter().find(|known| known.name == database.name) {
            None => events.push(Event::new(
                at,
                "database",
                format!("Database {} came.", database.name),
            )),
            Some(known) => {
                for (what, from, to) in [
                    ("state", &known.state, &database.state),
                    ("recovery model", &known.recovery, &database.recovery),
                    ("delayed durability", &known.delayed, &database.delayed),
                ] {
                    if from != to {
                        let words = format!("Database {}: {what} {from} to {to}.", database.name);
                        events.push(Event::new(at, "database", words));
                    }
                }
                if known.accelerated != database.accelerated {
                    let to = if database.accelerated { "ON" } else { "OFF" };
                    let words = format!("Database {}: accelerated recovery {to}.", database.name);
                    events.push(Event::new(at, "database", words));
                }
            }
        }
    }
    for database in before {
        if !now.iter().any(|known| known.name == database.name) {
            let words = format!("Database {} went.", database.name);
            events.push(Event::new(at, "database", words));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Values;

    fn roles(role: &str, health: &str) -> Reading {
        Reading {
            utc: 7_000,
            roles: vec![Role {
                group: "G".into(),
                role: role.into(),
                health: health.into(),
            }],
            ..Reading::default()
        }
    }

    #[test]
    fn a_failover_is_told_by_both_its_steps() {
        let mut happened = Happened::default();
        assert_eq!(happened.of(&mut roles("SECONDARY", "HEALTHY")), []);
        assert_eq!(happened.of(&mut roles("SECONDARY", "HEALTHY")), []);
        let events = happened.of(&mut roles("RESOLVING", "NOT_HEALTHY"));
        let kinds: Vec<_> = events
            .iter()
            .map(|e| (e.kind.as_str(), e.severity))
            .collect();
        assert_eq!(kinds, [("failover", 17), ("replica", 17)]);
        let events = happened.of(&mut roles("PRIMARY", "HEALTHY"));
        assert_eq!(
            events[0].words,
            "Group G: this server went from RESOLVING to PRIMARY."
        );
        assert_eq!(events[1].severity, 10);
        assert_eq!(happened.of(&mut Reading::default()), []);
    }

    #[test]
    fn a_backup_is_a_stretch_and_told_once() {
        let backup = Backup {
            number: 9,
            database: "shop".into(),
            kind: "L".into(),
            started: 1_000,
            ended: 3_500,
            bytes: 3_145_728.0,
            bytes_written: 1_048_576.0,
        };
        let mut happened = Happened::default();
        let mut reading = Reading {
            backups: vec![backup],
            ..Reading::default()
        };
        let events = happened.of(&mut reading);
        assert_eq!((events[0].at, events[0].until), (1_000, Some(3_500)));
        assert_eq!(
            events[0].words,
            "Log backup of shop: 3.0 MiB, 1.0 MiB written."
        );
        assert_eq!(happened.last_backup(), 9);
    }

    #[test]
    fn growths_that_follow_each_other_are_one_event() {
        let tick = |at: i64, grown: f64| {
            let mut values = Values::default();
            values.set("log_growths", grown);
            Tick {
                at,
                boot: 0,
                dt_ms: 1_000,
                flags: 0,
                values,
                waits: Vec::new(),
            }
        };
        let mut happened = Happened::default();
        assert_eq!(happened.growth(&tick(100_000, 0.0)), None);
        let first = happened.growth(&tick(101_000, 1.0)).expect("told");
        assert_eq!(first.words, "A log grew.");
        assert_eq!(happened.growth(&tick(102_000, 2.0)), None);
        assert_eq!(happened.growth(&tick(103_000, 1.0)), None);
        let later = happened.growth(&tick(111_000, 0.0)).expect("told");
        assert_eq!(later.words, "Logs grew 3 times.");
    }
}
