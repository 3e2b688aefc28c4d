//! What the article did not measure: seeding, readers beside redo, failovers with work in hand.

use super::ReplicationArgs;
use super::pair::{self, Mode, Pair, own_server};
use crate::experiment::random::Random;
use crate::experiment::{Lab, LabError};
use crate::figures::{self, median};
use crate::report::{Section, Table, Verdict};
use crate::sql::{Ask, connect_to};
use daruma_client::client::{ClientError, Options};
use serde::Serialize;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What the project promises: time to the first accepted write, and what redo leaves to readers.
const FAILOVER_TARGET_S: f64 = 1.0;
const READERS_TARGET: f64 = 0.9;
/// Rows of each statement of the load that readers have beside them.
const LOAD_ROWS: u64 = 100;
const SAMPLE_PAUSE: Duration = Duration::from_millis(20);
const RETRY_PAUSE: Duration = Duration::from_millis(1);
/// How long a failover may take before something else is wrong.
const FAILOVER_LIMIT: Duration = Duration::from_secs(600);
/// Rows that are acknowledged before a failover, and looked for after it.
const ACKNOWLEDGED: u64 = 20;

/// Publishes seeding, then measures readers and failovers.
pub fn run(lab: &mut Lab, pair: &mut Pair, args: &ReplicationArgs) -> Result<(), LabError> {
    seeding(lab, pair);
    readers(lab, pair, args)?;
    failovers(lab, pair, args)
}

fn seeding(lab: &mut Lab, pair: &Pair) {
    let mut section = Section {
        title: "Seeding".into(),
        ..Section::default()
    };
    section.text("From the permission to make the database until readers of the secondary saw every row of the source.");
    let mut table = Table::new("", &["Database", "Copied", "Took", "Bytes/s"]);
    for seeded in &pair.seeded {
        table.measured(vec![
            seeded.mode.database().into(),
            figures::bytes(seeded.bytes),
            figures::seconds(seeded.seconds),
            figures::bytes(seeded.bytes / seeded.seconds),
        ]);
    }
    section.table(table);
    let data: Vec<_> = pair
        .seeded
        .iter()
        .map(|s| json!({"database": s.mode.database(), "seconds": s.seconds, "bytes": s.bytes}))
        .collect();
    lab.report.keep("seeding", json!(data));
    lab.publish(section);
}

/// What one stretch of load and reading was like.
#[derive(Clone, Copy, Debug, Serialize)]
struct Stretch {
    reads_per_s: f64,
    rows_per_s: f64,
    /// Log that was hard on the secondary and not redone, in bytes.
    queue_median: Option<f64>,
    queue_max: Option<f64>,
    primary_cpu_s: Option<f64>,
    secondary_cpu_s: Option<f64>,
}

fn readers(lab: &mut Lab, pair: &Pair, args: &ReplicationArgs) -> Result<(), LabError> {
    let mode = Mode::Asynchronous;
    let stretch = Duration::from_secs(if lab.quick { 2 } else { 20 });
    let mut secondary = pair.secondary.connect()?;
    let set = |act: &str| format!("ALTER DATABASE {} SET HADR {act}", mode.database());
    lab.step("readers of the secondary, without redo");
    secondary.execute(&set("SUSPEND"))?;
    let without = load_and_read(lab, pair, args, stretch);
    secondary.execute(&set("RESUME"))?;
    let without = without?;
    pair.wait_synchronized(lab)?;
    catch_up(lab, pair, mode)?;
    lab.step("readers of the secondary, beside redo");
    let with = load_and_read(lab, pair, args, stretch)?;
    let begun = Instant::now();
    catch_up(lab, pair, mode)?;
    let behind = begun.elapsed().as_secs_f64();
    publish_readers(lab, without, with, behind);
    Ok(())
}

/// Waits until the secondary shows what the primary has now.
fn catch_up(lab: &Lab, pair: &Pair, mode: Mode) -> Result<(), LabError> {
    let rows = lab
        .client(mode.database())?
        .text("SELECT COUNT_BIG(*) FROM dbo.tracer")?;
    pair::wait_for(
        lab,
        &pair.secondary.options(),
        mode.database(),
        "SELECT COUNT_BIG(*) FROM dbo.tracer",
        &rows,
    )
}

/// Inserts on the primary, point queries on the secondary, and how far redo is behind meanwhile.
fn load_and_read(
    lab: &Lab,
    pair: &Pair,
    args: &ReplicationArgs,
    stretch: Duration,
) -> Result<Stretch, LabError> {
    let mode = Mode::Asynchronous;
    let (primary, secondary) = (lab.options_for(mode.database()), pair.secondary.options());
    let cpu = || (lab.server_cpu_s(), pair.secondary.cpu_s());
    let before = cpu();
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let (rows, reads, queues) = thread::scope(|scope| {
        let load = scope.spawn(|| insert(&primary, args.rows(), &stop));
        let read = scope.spawn(|| read(&secondary, mode, args.rows(), &stop));
        let watch = scope.spawn(|| watch(&secondary, mode, &stop));
        while begun.elapsed() < stretch && lab.check_interrupt().is_ok() {
            thread::sleep(SAMPLE_PAUSE);
        }
        stop.store(true, Ordering::Relaxed);
        Ok::<_, LabError>((
            joined(load.join())?,
            joined(read.join())?,
            joined(watch.join())?,
        ))
    })?;
    lab.check_interrupt()?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = cpu();
    let difference = |a: Option<f64>, b: Option<f64>| Some(a? - b?);
    Ok(Stretch {
        reads_per_s: reads as f64 / seconds,
        rows_per_s: rows as f64 / seconds,
        queue_median: median(&queues),
        queue_max: figures::range(&queues).map(|(_, max)| max),
        primary_cpu_s: difference(after.0, before.0),
        secondary_cpu_s: difference(after.1, before.1),
    })
}

fn joined<T>(result: thread::Result<Result<T, ClientError>>) -> Result<T, LabError> {
    match result {
        Ok(done) => Ok(done?),
        Err(_) => Err(LabError::Unexpected("a session of the load failed".into())),
    }
}

/// Rows that were inserted until `stop`.
fn insert(primary: &Options, rows: u64, stop: &AtomicBool) -> Result<u64, ClientError> {
    let mut client = connect_to(primary, &primary.database)?;
    let inserts = (rows / LOAD_ROWS).max(1);
    let mut inserted = 0;
    while !stop.load(Ordering::Relaxed) {
        client.execute("TRUNCATE TABLE dbo.destination")?;
        let done = client.number(&format!("EXEC dbo.RunInserts {inserts}, {LOAD_ROWS}, 500"))?;
        inserted += done.unwrap_or(0.0) as u64 * LOAD_ROWS;
    }
    Ok(inserted)
}

/// Rows that were read until `stop`.
fn read(secondary: &Options, mode: Mode, rows: u64, stop: &AtomicBool) -> Result<u64, ClientError> {
    let mut client = connect_to(secondary, mode.database())?;
    let mut random = Random::new(rows);
    let mut reads = 0;
    while !stop.load(Ordering::Relaxed) {
        let id = 1 + random.below(rows);
        let found = client.text(&format!("SELECT note FROM dbo.source WHERE id = {id}"))?;
        reads += u64::from(!found.is_empty());
    }
    Ok(reads)
}

/// Bytes that redo was behind, looked at again and again.
fn watch(secondary: &Options, mode: Mode, stop: &AtomicBool) -> Result<Vec<f64>, ClientError> {
    let mut client = connect_to(secondary, "master")?;
    let query = format!(
        "SELECT redo_queue_size FROM sys.dm_hadr_database_replica_states WHERE is_local = 1 AND database_id = DB_ID('{}')",
        mode.database()
    );
    let mut queues = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        queues.extend(client.number(&query)?.map(|kib| kib * 1024.0));
        thread::sleep(SAMPLE_PAUSE);
    }
    Ok(queues)
}

fn publish_readers(lab: &mut Lab, without: Stretch, with: Stretch, behind_s: f64) {
    let mut section = Section {
        title: "Readers on the secondary, and redo".into(),
        ..Section::default()
    };
    section.text(format!(
        "One session inserts on the primary, {LOAD_ROWS} rows a statement, one reads single rows on the secondary. In the first stretch the \
         copy is suspended, so nothing is redone. Everything shares one machine."
    ));
    let mut table = Table::new("", &["", "Without redo", "Beside redo"]);
    let seconds = |value: Option<f64>| value.map_or_else(|| "-".into(), figures::seconds);
    let bytes = |value: Option<f64>| value.map_or_else(|| "-".into(), figures::bytes);
    let rows: [(&str, &dyn Fn(&Stretch) -> String); 6] = [
        ("Reads/s on the secondary", &|s| {
            figures::number(s.reads_per_s)
        }),
        ("Rows/s inserted on the primary", &|s| {
            figures::number(s.rows_per_s)
        }),
        ("Redo queue, median", &|s| bytes(s.queue_median)),
        ("Redo queue, largest", &|s| bytes(s.queue_max)),
        ("Processor time of the primary", &|s| {
            seconds(s.primary_cpu_s)
        }),
        ("Processor time of the secondary", &|s| {
            seconds(s.secondary_cpu_s)
        }),
    ];
    for (name, show) in rows {
        table.measured(vec![name.into(), show(&without), show(&with)]);
    }
    table.note = format!(
        "When the inserts stopped, readers saw all of them {} later.",
        figures::seconds(behind_s)
    );
    section.table(table);
    let share = with.reads_per_s / without.reads_per_s;
    if share.is_finite() {
        lab.report.figure(
            "Reads on the secondary beside redo",
            format!("{:.0} %", share * 100.0),
            format!(
                "of the rate without, target at least {:.0} %",
                READERS_TARGET * 100.0
            ),
            match lab.quick {
                // Two seconds are too short to be judged.
                true => Verdict::Plain,
                false => Verdict::of(share >= READERS_TARGET),
            },
        );
    }
    lab.report.keep(
        "readers",
        json!({"without_redo": without, "beside_redo": with, "behind_s": behind_s}),
    );
    lab.publish(section);
}

/// How the secondary becomes the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Planned,
    Forced,
}

impl How {
    const fn title(self) -> &'static str {
        match self {
            How::Planned => "planned",
            How::Forced => "forced, after kill -9",
        }
    }

    const fn act(self) -> &'static str {
        match self {
            How::Planned => "FAILOVER",
            How::Forced => "FORCE_FAILOVER_ALLOW_DATA_LOSS",
        }
    }
}

fn failovers(lab: &mut Lab, pair: &mut Pair, args: &ReplicationArgs) -> Result<(), LabError> {
    let times = if lab.quick { 1 } else { 5 };
    let mut section = Section {
        title: "Failover of the synchronous group".into(),
        ..Section::default()
    };
    section.text(format!(
        "From the statement on the secondary to the first write that it acknowledges, while a transaction with {} open on the old primary. \
         Rows that were acknowledged before must be there, and none of the open transaction.",
        figures::counted(args.rows(), "row")
    ));
    let mut table = Table::new("", &["", "Median", "Longest", "Times"]);
    let mut data = serde_json::Map::new();
    for how in [How::Planned, How::Forced] {
        let mut seconds = Vec::new();
        for time in 1..=times {
            lab.check_interrupt()?;
            lab.step(format!("failover {time} of {times}, {}", how.title()));
            seconds.push(fail_over(lab, pair, args, how)?);
        }
        let longest = figures::range(&seconds).map_or(f64::NAN, |(_, max)| max);
        table.measured(vec![
            how.title().into(),
            figures::seconds(median(&seconds).unwrap_or(f64::NAN)),
            figures::seconds(longest),
            times.to_string(),
        ]);
        lab.report.figure(
            format!("Failover, {}", how.title()),
            figures::seconds(longest),
            format!(
                "longest of {times} to the first accepted write, target under {}",
                figures::seconds(FAILOVER_TARGET_S)
            ),
            Verdict::of(longest < FAILOVER_TARGET_S),
        );
        data.insert(how.title().into(), json!(seconds));
    }
    section.table(table);
    lab.report.keep("failover_s", json!(data));
    lab.publish(section);
    Ok(())
}

/// There, with work in hand, and back again. Seconds to the first write that was accepted there.
fn fail_over(
    lab: &mut Lab,
    pair: &mut Pair,
    args: &ReplicationArgs,
    how: How,
) -> Result<f64, LabError> {
    let mode = Mode::Synchronous;
    let mut writer = lab.client(mode.database())?;
    writer.execute("TRUNCATE TABLE dbo.destination; TRUNCATE TABLE dbo.tracer")?;
    let mut open = lab.client(mode.database())?;
    open.execute("BEGIN TRANSACTION")?;
    open.execute(&format!(
        "INSERT dbo.destination (id, name, street, note) SELECT id, name, street, note FROM dbo.source WHERE id <= {}",
        args.rows()
    ))?;
    for _ in 0..ACKNOWLEDGED {
        writer.execute(WRITE)?;
    }
    pair.wait_synchronized(lab)?;
    let mut target = pair.secondary.connect()?;
    if how == How::Forced {
        own_server(lab)?.kill();
    }
    let begun = Instant::now();
    let secondary = pair.secondary.options();
    let accepted = thread::scope(|scope| {
        let writes = scope.spawn(|| first_write(&secondary, mode));
        let done = target.execute(&format!(
            "ALTER AVAILABILITY GROUP {} {}",
            mode.group(),
            how.act()
        ));
        let accepted = writes.join();
        done?;
        match accepted {
            Ok(Some(at)) => Ok(at),
            _ => Err(LabError::Unexpected(
                "no write was accepted after the failover".into(),
            )),
        }
    })?;
    let seconds = accepted.duration_since(begun).as_secs_f64();
    let found = pair.reader(mode)?.text(
        "SELECT CONCAT((SELECT COUNT(*) FROM dbo.tracer), ' ', (SELECT COUNT(*) FROM dbo.destination))",
    )?;
    lab.report.check(
        format!(
            "rows acknowledged, and rows of the open transaction, after a failover ({})",
            how.title()
        ),
        format!("{} 0", ACKNOWLEDGED + 1),
        found,
    );
    drop((writer, open));
    if how == How::Forced {
        own_server(lab)?.launch()?;
        lab.find_server_again();
    }
    go_back(lab, pair, mode)?;
    Ok(seconds)
}

const WRITE: &str = "INSERT dbo.tracer (inserts, rows_per_insert, done, started, ended) VALUES (0, 0, 0, SYSUTCDATETIME(), SYSUTCDATETIME())";

/// When the secondary first accepts a write; it refuses until it is the primary.
fn first_write(secondary: &Options, mode: Mode) -> Option<Instant> {
    let begun = Instant::now();
    while begun.elapsed() < FAILOVER_LIMIT {
        let written =
            connect_to(secondary, mode.database()).and_then(|mut client| client.execute(WRITE));
        if written.is_ok() {
            return Some(Instant::now());
        }
        thread::sleep(RETRY_PAUSE);
    }
    None
}

/// The lab's own server leads again.
fn go_back(lab: &mut Lab, pair: &Pair, mode: Mode) -> Result<(), LabError> {
    let secondary = pair.secondary.options();
    for (server, is_own) in [(&secondary, false), (lab.target(), true)] {
        pair::wait_for(
            lab,
            server,
            "master",
            &pair::state(mode, is_own),
            mode.good_state(),
        )?;
    }
    lab.client("master")?.execute(&format!(
        "ALTER AVAILABILITY GROUP {} FAILOVER",
        mode.group()
    ))?;
    pair.wait_synchronized(lab)
}
