//! One failover, from the loss or the statement to the first write that another acknowledges.

use super::group::{DATABASE, GROUP, Group};
use crate::experiment::{Lab, LabError};
use crate::figures::grouped;
use crate::sql::{Ask, connect_to, quoted};
use daruma_client::client::{Client, Options};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Rows that are acknowledged before a failover, and looked for after it.
const ACKNOWLEDGED: u64 = 20;
/// Rows that one statement of the open transaction inserts.
const FILL_ROWS: u64 = 100_000;
/// Whoever asks servers on this machine takes processor time from them.
const RETRY_PAUSE: Duration = Duration::from_millis(5);
/// So often each other server is asked to take a write beside the one that leads.
const BESIDE_TRIES: u32 = 10;
/// How long a failover may take before something else is wrong.
const LIMIT: Duration = Duration::from_secs(600);

/// How another becomes the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The primary is killed, and nobody is told.
    Automatic,
    /// ALTER AVAILABILITY GROUP .. FAILOVER on another.
    Planned,
}

impl How {
    /// All of them, in the order of the report.
    pub const ALL: [How; 2] = [How::Automatic, How::Planned];

    /// In tables.
    pub const fn title(self) -> &'static str {
        match self {
            How::Automatic => "automatic, after kill -9",
            How::Planned => "planned",
        }
    }

    /// Name in `results.json`.
    pub const fn key(self) -> &'static str {
        match self {
            How::Automatic => "automatic",
            How::Planned => "planned",
        }
    }

    /// What the project promises, in seconds to the first accepted write.
    pub const fn target_s(self) -> f64 {
        match self {
            How::Automatic => 3.0,
            How::Planned => 1.0,
        }
    }
}

/// What was measured, in seconds from the loss or the statement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Round {
    /// The node that went was missed, after a kill.
    pub noticed_s: Option<f64>,
    /// Another server shows itself as the primary.
    pub leads_s: Option<f64>,
    /// A write was acknowledged.
    pub accepted_s: f64,
}

/// Rows in an open transaction, rows that were acknowledged, the failover; at its end all replicas have everything again.
pub fn play(
    lab: &mut Lab,
    group: &mut Group,
    how: How,
    rows: u64,
    which: &str,
) -> Result<Round, LabError> {
    lab.step(format!("{which}: all replicas have everything"));
    let owner = group.await_whole(lab)?;
    let open = open_transaction(lab, group, owner, rows, which)?;
    let acknowledged = acknowledge(group, owner)?;
    lab.step(which);
    let before = group.epoch()?;
    group.is_failing_over = true;
    let (round, mut accepted) = fail_over(group, owner, how)?;
    group.is_failing_over = false;
    accepted.extend(accepted_beside(group, owner, how, &accepted)?);
    one_for_each_term(&accepted, before, group.epoch_after(lab, before)?)?;
    drop(open);
    check(lab, group, &accepted, acknowledged, how)?;
    group.bed.start(owner)?;
    Ok(round)
}

/// A transaction with so many rows, which stays open while the connection lives.
fn open_transaction(
    lab: &Lab,
    group: &Group,
    owner: usize,
    rows: u64,
    which: &str,
) -> Result<Client, LabError> {
    let mut client = group.connect(owner, DATABASE)?;
    client.execute("DROP TABLE IF EXISTS dbo.pending; CREATE TABLE dbo.pending (id bigint NOT NULL PRIMARY KEY, note char(40) NOT NULL)")?;
    client.execute("BEGIN TRANSACTION")?;
    for from in (0..rows).step_by(usize::try_from(FILL_ROWS).unwrap_or(usize::MAX)) {
        lab.check_interrupt()?;
        lab.step(format!(
            "{which}: {} of {} rows in the open transaction",
            grouped(from as f64),
            grouped(rows as f64)
        ));
        client.execute(&fill(from, rows.min(from + FILL_ROWS)))?;
    }
    Ok(client)
}

fn fill(from: u64, to: u64) -> String {
    format!(
        "INSERT dbo.pending (id, note) SELECT n, 'nobody has been told of this' FROM \
         (SELECT {from} + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n \
         FROM dbo.digits a CROSS JOIN dbo.digits b CROSS JOIN dbo.digits c CROSS JOIN dbo.digits e CROSS JOIN dbo.digits f) AS numbers \
         WHERE n < {to}"
    )
}

/// Writes rows; the first and the last id of those that were acknowledged.
fn acknowledge(group: &mut Group, owner: usize) -> Result<(u64, u64), LabError> {
    let mut client = group.connect(owner, DATABASE)?;
    let first = group.ids + 1;
    for _ in 0..ACKNOWLEDGED {
        group.ids += 1;
        client.execute(&write(group.ids))?;
    }
    Ok((first, group.ids))
}

fn write(id: u64) -> String {
    format!("INSERT dbo.ledger (id) VALUES ({id})")
}

/// What those who look on have seen.
#[derive(Default)]
struct Marks {
    over: AtomicBool,
    /// Microseconds from the beginning, plus one; 0 for what was not seen.
    noticed: AtomicU64,
    leads: AtomicU64,
}

impl Marks {
    fn set(mark: &AtomicU64, begun: Instant) {
        let at = begun.elapsed().as_micros() as u64 + 1;
        // The first who sees it counts.
        let _ = mark.compare_exchange(0, at, Ordering::AcqRel, Ordering::Acquire);
    }

    fn get(mark: &AtomicU64) -> Option<f64> {
        let at = mark.load(Ordering::Acquire).checked_sub(1)?;
        Some(at as f64 / 1e6)
    }
}

/// A write that a server acknowledged.
struct Accepted {
    node: usize,
    id: u64,
    seconds: f64,
}

/// The round, and every write that was accepted meanwhile, the first one first.
fn fail_over(
    group: &mut Group,
    owner: usize,
    how: How,
) -> Result<(Round, Vec<Accepted>), LabError> {
    let others: Vec<usize> = group.replicas().filter(|n| *n != owner).collect();
    // Each question on a connection of its own: who tells of the cluster may wait for a leader that is gone, and must not keep the other back.
    let sights = others.iter().flat_map(|n| Sight::ALL.map(|s| (*n, s)));
    let sights = sights.map(|(node, sight)| Ok((sight, group.connect(node, "master")?)));
    let sights = sights.collect::<Result<Vec<_>, LabError>>()?;
    let targets = others
        .iter()
        .map(|n| Ok((*n, group.bed.server(*n)?.options())));
    let targets = targets.collect::<Result<Vec<_>, LabError>>()?;
    let mut target = match (how, others.first()) {
        (How::Planned, Some(first)) => Some(group.connect(*first, "master")?),
        _ => None,
    };
    let (marks, ids) = (Marks::default(), AtomicU64::new(group.ids));
    let missed = group.name(owner);
    let begun = Instant::now();
    if how == How::Automatic {
        group.bed.lose(&[owner], false)?;
    }
    let accepted = thread::scope(|scope| {
        for (sight, client) in sights {
            let query = sight.query(missed);
            let marks = &marks;
            scope.spawn(move || watch(client, sight, &query, marks, begun));
        }
        let writes = targets.iter().map(|(node, options)| {
            let (marks, ids) = (&marks, &ids);
            scope.spawn(move || first_write(*node, options, marks, ids, begun))
        });
        let writes: Vec<_> = writes.collect();
        let told = target.as_mut().map_or(Ok(()), |client| {
            client.execute(&format!("ALTER AVAILABILITY GROUP {GROUP} FAILOVER"))
        });
        if told.is_err() {
            marks.over.store(true, Ordering::Release);
        }
        let found = writes.into_iter().filter_map(|w| w.join().ok().flatten());
        let mut found: Vec<Accepted> = found.collect();
        marks.over.store(true, Ordering::Release);
        told?;
        found.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        Ok::<_, LabError>(found)
    })?;
    let nobody = || LabError::Unexpected("no write was accepted after the failover".into());
    let first = accepted.first().ok_or_else(nobody)?;
    group.ids = ids.load(Ordering::Acquire);
    let round = Round {
        noticed_s: Marks::get(&marks.noticed).filter(|_| how == How::Automatic),
        leads_s: Marks::get(&marks.leads),
        accepted_s: first.seconds,
    };
    Ok((round, accepted))
}

/// Every server but the one that leads now is asked to take a write as well: what it accepts is noted.
fn accepted_beside(
    group: &mut Group,
    owner: usize,
    how: How,
    accepted: &[Accepted],
) -> Result<Vec<Accepted>, LabError> {
    let leads = accepted.first().map(|a| a.node);
    let runs = |n: &usize| how == How::Planned || *n != owner;
    let others: Vec<usize> = group
        .replicas()
        .filter(|n| runs(n) && Some(*n) != leads)
        .collect();
    let mut found = Vec::new();
    for node in others {
        let options = group.bed.server(node)?.options();
        for _ in 0..BESIDE_TRIES {
            group.ids += 1;
            let id = group.ids;
            // A refusal is what is expected.
            let written = connect_to(&options, DATABASE).and_then(|mut c| c.execute(&write(id)));
            if written.is_ok() {
                let seconds = f64::NAN;
                found.push(Accepted { node, id, seconds });
            }
            thread::sleep(RETRY_PAUSE);
        }
    }
    Ok(found)
}

/// Each term has one server that accepts writes: more servers than terms have begun since are two in one.
fn one_for_each_term(accepted: &[Accepted], before: u64, now: u64) -> Result<(), LabError> {
    let servers: BTreeSet<usize> = accepted.iter().map(|a| a.node).collect();
    match servers.len() as u64 <= now.saturating_sub(before) {
        true => Ok(()),
        false => Err(LabError::Unexpected(format!(
            "servers {servers:?} accepted writes in terms {before} (not included) to {now} of the group: two in one term"
        ))),
    }
}

/// What is looked for on a server that may lead next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// The node that went is missed.
    Missed,
    /// This server leads.
    Leads,
}

impl Sight {
    const ALL: [Sight; 2] = [Sight::Missed, Sight::Leads];

    fn query(self, missed: &str) -> String {
        match self {
            Sight::Missed => format!(
                "SELECT member_state FROM sys.dm_hadr_cluster_members WHERE member_name = {}",
                quoted(missed)
            ),
            Sight::Leads => {
                "SELECT role_desc FROM sys.dm_hadr_availability_replica_states WHERE is_local = 1"
                    .into()
            }
        }
    }
}

/// Notes when a server sees what is looked for, until a write was accepted.
fn watch(mut client: Client, sight: Sight, query: &str, marks: &Marks, begun: Instant) {
    while !marks.over.load(Ordering::Acquire) && begun.elapsed() < LIMIT {
        // One that is lost here is missed in the figures of this round, and in nothing else.
        let Ok(seen) = client.text(query) else {
            return;
        };
        // What was asked for before a write was accepted, and told after it, is not when it was so.
        if marks.over.load(Ordering::Acquire) {
            return;
        }
        match sight {
            // Without a leader nobody is shown: then it was the leader that went.
            Sight::Missed if seen != "1" => Marks::set(&marks.noticed, begun),
            Sight::Leads if seen == "PRIMARY" => Marks::set(&marks.leads, begun),
            _ => {}
        }
        thread::sleep(RETRY_PAUSE);
    }
}

/// Writes until this server takes it, or another has; each attempt with an id of its own, as one that failed may have been done.
fn first_write(
    node: usize,
    options: &Options,
    marks: &Marks,
    ids: &AtomicU64,
    begun: Instant,
) -> Option<Accepted> {
    while !marks.over.load(Ordering::Acquire) && begun.elapsed() < LIMIT {
        let id = ids.fetch_add(1, Ordering::AcqRel) + 1;
        let written =
            connect_to(options, DATABASE).and_then(|mut client| client.execute(&write(id)));
        if written.is_ok() {
            let seconds = begun.elapsed().as_secs_f64();
            marks.over.store(true, Ordering::Release);
            return Some(Accepted { node, id, seconds });
        }
        thread::sleep(RETRY_PAUSE);
    }
    None
}

/// Everything that was acknowledged is there, and nothing of the transaction that was open.
fn check(
    lab: &mut Lab,
    group: &Group,
    accepted: &[Accepted],
    (first, last): (u64, u64),
    how: How,
) -> Result<(), LabError> {
    let Some(leads) = accepted.first() else {
        return Ok(());
    };
    let ids: Vec<String> = accepted.iter().map(|a| a.id.to_string()).collect();
    let found = group.connect(leads.node, DATABASE)?.text(&format!(
        "SELECT CONCAT((SELECT COUNT(*) FROM dbo.ledger WHERE id BETWEEN {first} AND {last} OR id IN ({})), ' ', (SELECT COUNT(*) FROM dbo.pending))",
        ids.join(", ")
    ))?;
    lab.report.check(
        format!(
            "rows acknowledged, and rows of the open transaction, after a failover ({})",
            how.title()
        ),
        format!("{} 0", ACKNOWLEDGED + accepted.len() as u64),
        found,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_in_one_term_end_the_run() {
        let by = |nodes: &[usize]| {
            let accepted = nodes.iter().map(|node| Accepted {
                node: *node,
                id: 1,
                seconds: 0.5,
            });
            accepted.collect::<Vec<_>>()
        };
        assert!(one_for_each_term(&by(&[1]), 4, 5).is_ok());
        assert!(one_for_each_term(&by(&[1, 1]), 4, 5).is_ok());
        assert!(
            one_for_each_term(&by(&[1, 2]), 4, 6).is_ok(),
            "the group moved again"
        );
        assert!(one_for_each_term(&by(&[1, 2]), 4, 5).is_err());
        assert!(
            one_for_each_term(&by(&[1]), 5, 5).is_err(),
            "nobody was named"
        );
    }
}
