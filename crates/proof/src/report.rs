//! Counting what a run did, and telling it.

use daruma_base::probe::Reached;
use daruma_sim::{FaultCounts, FaultKind};
use std::collections::BTreeMap;
use std::fmt;

/// What runs did, added up.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub runs: u64,
    /// Stops on pictures of a disk.
    pub pictures: u64,
    pub faults: BTreeMap<FaultKind, u64>,
    pub steps: u64,
    pub commits: u64,
    pub delayed_commits: u64,
    pub rollbacks: u64,
    /// Waits, conflicts and duplicates met and handled.
    pub conflicts: u64,
    pub reads_checked: u64,
    /// Commits whose presence or absence was checked after a recovery.
    pub commits_checked: u64,
    pub rows_checked: u64,
    pub recoveries: u64,
    pub recoveries_interrupted: u64,
    pub losers: u64,
    pub clean_stops: u64,
    pub mode_switches: u64,
    /// Pages written while other dirty pages were not.
    pub pages_written_singly: u64,
    pub chunks_placed: u64,
    /// Trees that a snapshot was told to be younger than itself.
    pub younger_refused: u64,
    /// Backups taken at work, restored, recovered and checked.
    pub full_backups: u64,
    pub differentials: u64,
    pub log_backups: u64,
    /// Restores of a log backup that were given up in between and done again.
    pub restores_cancelled: u64,
    pub full_checks: u64,
    pub damage_found: u64,
    pub damage_repaired: u64,
    pub reached: Reached,
    /// Fingerprint of all I/O of the last run.
    pub trace: u64,
}

impl Stats {
    /// Adds what a run's disk did wrong on purpose.
    pub fn take_faults(&mut self, counts: &FaultCounts) {
        for kind in FaultKind::ALL {
            *self.faults.entry(kind).or_insert(0) += counts.get(kind);
        }
    }

    /// Faults of all kinds. Slow calls are not among them: they do no harm that could be checked.
    pub fn faults_total(&self) -> u64 {
        let slow = self.faults.get(&FaultKind::SlowCall).copied();
        self.faults.values().sum::<u64>() - slow.unwrap_or(0)
    }

    /// Adds up two runs, or two groups of runs.
    pub fn add(&mut self, other: &Stats) {
        for (kind, n) in &other.faults {
            *self.faults.entry(*kind).or_insert(0) += n;
        }
        for (name, n) in &other.reached {
            *self.reached.entry(name).or_insert(0) += n;
        }
        let pairs: [(&mut u64, u64); 25] = [
            (&mut self.runs, other.runs),
            (&mut self.pictures, other.pictures),
            (&mut self.steps, other.steps),
            (&mut self.commits, other.commits),
            (&mut self.delayed_commits, other.delayed_commits),
            (&mut self.rollbacks, other.rollbacks),
            (&mut self.conflicts, other.conflicts),
            (&mut self.reads_checked, other.reads_checked),
            (&mut self.commits_checked, other.commits_checked),
            (&mut self.rows_checked, other.rows_checked),
            (&mut self.recoveries, other.recoveries),
            (
                &mut self.recoveries_interrupted,
                other.recoveries_interrupted,
            ),
            (&mut self.losers, other.losers),
            (&mut self.clean_stops, other.clean_stops),
            (&mut self.mode_switches, other.mode_switches),
            (&mut self.pages_written_singly, other.pages_written_singly),
            (&mut self.chunks_placed, other.chunks_placed),
            (&mut self.younger_refused, other.younger_refused),
            (&mut self.full_backups, other.full_backups),
            (&mut self.differentials, other.differentials),
            (&mut self.log_backups, other.log_backups),
            (&mut self.restores_cancelled, other.restores_cancelled),
            (&mut self.full_checks, other.full_checks),
            (&mut self.damage_found, other.damage_found),
            (&mut self.damage_repaired, other.damage_repaired),
        ];
        for (sum, more) in pairs {
            *sum += more;
        }
        self.trace = other.trace;
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "runs                    {:>12}", self.runs)?;
        writeln!(f, "stops on pictures       {:>12}", self.pictures)?;
        writeln!(f, "steps of sessions       {:>12}", self.steps)?;
        writeln!(
            f,
            "commits                 {:>12}  ({} of them delayed)",
            self.commits, self.delayed_commits
        )?;
        writeln!(f, "rollbacks               {:>12}", self.rollbacks)?;
        writeln!(f, "conflicts met           {:>12}", self.conflicts)?;
        writeln!(
            f,
            "recoveries              {:>12}  ({} more were interrupted by faults)",
            self.recoveries, self.recoveries_interrupted
        )?;
        writeln!(f, "losers rolled back      {:>12}", self.losers)?;
        writeln!(f, "clean stops             {:>12}", self.clean_stops)?;
        writeln!(f, "mode switches           {:>12}", self.mode_switches)?;
        writeln!(
            f,
            "pages written singly    {:>12}",
            self.pages_written_singly
        )?;
        writeln!(f, "version chunks placed   {:>12}", self.chunks_placed)?;
        writeln!(f, "younger trees refused   {:>12}", self.younger_refused)?;
        writeln!(
            f,
            "backups restored        {:>12}  full, {} differential, {} of the log ({} restores of it given up in between)",
            self.full_backups, self.differentials, self.log_backups, self.restores_cancelled
        )?;
        writeln!(f, "commits checked         {:>12}", self.commits_checked)?;
        writeln!(f, "reads checked           {:>12}", self.reads_checked)?;
        writeln!(f, "rows checked            {:>12}", self.rows_checked)?;
        writeln!(f, "full structure checks   {:>12}", self.full_checks)?;
        writeln!(
            f,
            "damaged pages           {:>12}  found, {} put back from the doublewrite area",
            self.damage_found, self.damage_repaired
        )?;
        writeln!(f, "faults injected         {:>12}", self.faults_total())?;
        for (kind, n) in &self.faults {
            if *kind == FaultKind::SlowCall {
                continue;
            }
            writeln!(f, "  {:<22}{n:>12}", kind.name())?;
        }
        let slow = self.faults.get(&FaultKind::SlowCall).copied();
        writeln!(f, "slow calls              {:>12}", slow.unwrap_or(0))?;
        if !self.reached.is_empty() {
            writeln!(f, "rare branches reached")?;
        }
        for (name, n) in &self.reached {
            writeln!(f, "  {name:<30}{n:>12}")?;
        }
        Ok(())
    }
}
