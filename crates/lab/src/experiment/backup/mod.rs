//! `daruma lab backup`: plain and compressed, onto 1 to 16 files, on one slow disk and on two; then the defaults.
//!
//! After the article of SE の雑記. The target folders of a private server behave like the article's data disk: 60 MB/s, 500
//! requests a second, and one request at a time moves 16 MB/s (the model is described in `daruma_platform::limited`). The
//! database is filled with rows that compress about as well as the article's.
//!
//! Every backup is verified, and one is restored under another name and compared by sums.

mod published;

use super::{Ending, Lab, LabError, LabOptions};
use crate::figures;
use crate::report::chart::{BarSeries, Bars, Kind, Unit};
use crate::report::{Report, Section, Table, Verdict};
use crate::sql::{Ask, quoted};
use clap::Args;
use daruma_client::client::{Client, ClientError, Event};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

const DATABASE: &str = "LabBackup";
const RESTORED: &str = "LabBackupRestored";
/// Bytes of a row in its page, near enough to choose a number of rows.
const ROW_BYTES: u64 = 470;

/// Options of `daruma lab backup`.
#[derive(Args, Clone, Debug)]
pub struct BackupArgs {
    #[command(flatten)]
    pub options: LabOptions,

    /// Size of the database in MiB; the article's had 12506 [default: 1024; quick: 96]
    #[arg(help_heading = "Experiment", long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=1_000_000))]
    pub mib: Option<u64>,

    /// With -S: folder on that server to back up into, without a limiter
    #[arg(help_heading = "Experiment", long, value_name = "DIR")]
    pub target: Option<String>,
}

impl BackupArgs {
    fn mib(&self) -> u64 {
        self.mib
            .unwrap_or(if self.options.quick { 96 } else { 1024 })
    }
}

/// A folder to back up into.
#[derive(Clone, Debug)]
struct Disk {
    name: &'static str,
    folder: String,
    /// Bytes per second, where a limiter stands before it.
    limit: Option<f64>,
}

/// Takes the backups onto disks slowed to the article's figures and writes the report.
pub fn run(args: &BackupArgs) -> Result<Ending, LabError> {
    let report = Report {
        experiment: "backup".into(),
        title: "Backups that fill the device".into(),
        lead: "How long does a backup take onto a slow disk, plain and compressed, into one file and into many, and what does \
               the server do when it is told nothing?"
            .into(),
        source: published::source(),
        ..Report::default()
    };
    let is_private = args.options.private || args.options.connect.server.is_none();
    let mut disks = Vec::new();
    let mut arguments = Vec::new();
    if is_private {
        let out = args
            .options
            .out
            .clone()
            .unwrap_or_else(|| PathBuf::from("lab-backup"));
        let base = args
            .options
            .scratch
            .clone()
            .unwrap_or_else(|| out.join("scratch"));
        for (name, count) in [("one disk", 1.0), ("two disks", 2.0)] {
            let folder = make(&base.join(format!("target{count}")))?;
            let limit = count * published::BYTES_PER_S;
            arguments.push("--limit-folder".to_string());
            arguments.push(format!(
                "{}={limit},{},{}",
                folder.display(),
                count * published::REQUESTS_PER_S,
                published::STREAM_BYTES_PER_S
            ));
            disks.push(Disk {
                name,
                folder: format!("{}/", folder.display()),
                limit: Some(limit),
            });
        }
    } else if let Some(folder) = &args.target {
        disks.push(Disk {
            name: "the server's folder",
            folder: folder.clone(),
            limit: None,
        });
    } else {
        return Err(LabError::Unexpected(
            "with -S say where that server may put its backups: --target DIR".into(),
        ));
    }
    let mut lab = Lab::start_with(&args.options, report, arguments)?;
    let outcome = steps(&mut lab, args, &disks);
    lab.finish(outcome)
}

fn make(folder: &Path) -> Result<PathBuf, LabError> {
    let failed = |source| LabError::File {
        path: folder.to_path_buf(),
        source,
    };
    fs::create_dir_all(folder).map_err(failed)?;
    fs::canonicalize(folder).map_err(failed)
}

/// All backups of a run.
#[derive(Default)]
struct Measured {
    /// Plain, one file, one request at a time.
    single: Taken,
    plain: Vec<Taken>,
    compressed: Vec<Taken>,
    plain_two: Vec<Taken>,
    compressed_two: Vec<Taken>,
    default: Taken,
    /// Reading the default backup: checked only, and restored.
    verified: Taken,
    restored: Taken,
}

impl Measured {
    /// Names of the groups, what was measured, and what was published.
    fn groups(&self) -> [(&'static str, &[Taken], Option<[f64; 5]>); 4] {
        [
            ("plain, one disk", &self.plain, Some(published::PLAIN_S)),
            (
                "compressed, one disk",
                &self.compressed,
                Some(published::COMPRESSED_S),
            ),
            ("plain, two disks", &self.plain_two, None),
            (
                "compressed, two disks",
                &self.compressed_two,
                Some(published::TWO_DISKS_S),
            ),
        ]
    }
}

/// One backup.
#[derive(Clone, Debug, Default)]
struct Taken {
    seconds: f64,
    /// Bytes of all files, where they can be seen.
    bytes: Option<f64>,
    pages: Option<f64>,
}

fn steps(lab: &mut Lab, args: &BackupArgs, disks: &[Disk]) -> Result<(), LabError> {
    let sums = fill(lab, args)?;
    let Some(one) = disks.first() else {
        return Ok(());
    };
    // One buffer is one request at a time: what the article's single file was.
    let first = backup(
        lab,
        one,
        1,
        " WITH NO_COMPRESSION, BUFFERCOUNT = 1, FORMAT, STATS = 10",
    );
    let first = match first {
        Err(LabError::Client(error @ ClientError::Server { .. })) => {
            lab.notice(format!(
                "This server does not support BACKUP as the experiment needs it: {error}"
            ));
            return Ok(());
        }
        other => other?,
    };
    let plain = " WITH NO_COMPRESSION, FORMAT, STATS = 10";
    let compressed = " WITH COMPRESSION, FORMAT, STATS = 10";
    let on = |lab: &Lab, disk: &Disk, with| {
        let each = published::FILES.into_iter();
        each.map(|files| backup(lab, disk, files, with))
            .collect::<Result<Vec<_>, _>>()
    };
    let mut measured = Measured {
        single: first,
        plain: on(lab, one, plain)?,
        compressed: on(lab, one, compressed)?,
        ..Measured::default()
    };
    if let Some(disk) = disks.get(1) {
        measured.plain_two = on(lab, disk, plain)?;
        measured.compressed_two = on(lab, disk, compressed)?;
    }
    measured.default = backup(lab, one, 1, "")?;
    (measured.verified, measured.restored) = verify(lab, one, &sums, &measured.default)?;
    publish(lab, args, one, &measured);
    Ok(())
}

/// Rows that compress to about a third; their sums.
fn fill(lab: &mut Lab, args: &BackupArgs) -> Result<String, LabError> {
    let rows = args.mib() * (1 << 20) / ROW_BYTES;
    lab.step(format!("filling {DATABASE} with {} MiB", args.mib()));
    let mut client = lab.create_database(DATABASE)?;
    client.execute(&format!("ALTER DATABASE {DATABASE} SET RECOVERY SIMPLE"))?;
    let columns: Vec<String> = (1..=10)
        .map(|n| format!("c{n} varchar(36) NOT NULL"))
        .collect();
    client.execute(&format!(
        "CREATE TABLE content (id int NOT NULL PRIMARY KEY, {}, note char(80) NOT NULL)",
        columns.join(", ")
    ))?;
    let digits = "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))";
    client.execute("CREATE TABLE n (n int NOT NULL PRIMARY KEY)")?;
    client.execute(&format!(
        "INSERT n SELECT 100 * b.d + 10 * c.d + e.d FROM {digits} AS b (d), {digits} AS c (d), {digits} AS e (d)"
    ))?;
    let values = ["CONVERT(varchar(36), NEWID())"; 10].join(", ");
    // In steps, so that neither the log nor one transaction has to hold all of it.
    let mut done = 0;
    while done < rows {
        lab.check_interrupt()?;
        let step = (rows - done).min(100_000);
        client.execute(&format!(
            "INSERT content SELECT TOP ({step}) {done} + 1000 * a.n + b.n, {values}, 'the same in every row' FROM n AS a, n AS b \
             WHERE 1000 * a.n + b.n < {step}"
        ))?;
        done += step;
        client.execute("CHECKPOINT")?;
    }
    sums(&mut client, DATABASE)
}

fn sums(client: &mut Client, database: &str) -> Result<String, LabError> {
    Ok(client.text(&format!(
        "SELECT CONCAT(COUNT_BIG(*), ' / ', SUM(CAST(id AS bigint)), ' / ', CHECKSUM_AGG(BINARY_CHECKSUM(c1, c5, c10))) \
         FROM {database}.dbo.content"
    ))?)
}

fn files_clause(disk: &Disk, files: u32) -> String {
    let file = |n| {
        format!(
            "DISK = {}",
            quoted(&format!("{}lab_{files}_{n:02}.bak", disk.folder))
        )
    };
    (1..=files).map(file).collect::<Vec<_>>().join(", ")
}

fn backup(lab: &Lab, disk: &Disk, files: u32, with: &str) -> Result<Taken, LabError> {
    lab.check_interrupt()?;
    let count = figures::counted(files.into(), "file");
    lab.step(format!("backup onto {}, {count}{with}", disk.name));
    remove_old(disk);
    let mut client = lab.client("master")?;
    let begun = Instant::now();
    let messages = messages_of(
        &mut client,
        &format!(
            "BACKUP DATABASE {DATABASE} TO {}{with}",
            files_clause(disk, files)
        ),
    )?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Taken {
        seconds,
        bytes: folder_bytes(disk),
        pages: messages.iter().find_map(|text| pages_processed(text)),
    })
}

/// Files of an earlier backup, where they are ours to see.
fn remove_old(disk: &Disk) {
    if disk.limit.is_none() {
        return;
    }
    for entry in fs::read_dir(&disk.folder).into_iter().flatten().flatten() {
        // One that cannot be removed will be overwritten, or the backup says why not.
        let _ = fs::remove_file(entry.path());
    }
}

fn folder_bytes(disk: &Disk) -> Option<f64> {
    disk.limit?;
    let entries = fs::read_dir(&disk.folder).ok()?;
    let sizes = entries.flatten().filter_map(|entry| entry.metadata().ok());
    Some(sizes.map(|data| data.len() as f64).sum())
}

/// Runs a batch and gives its messages; the first error is the result.
fn messages_of(client: &mut Client, text: &str) -> Result<Vec<String>, LabError> {
    let (mut messages, mut failure) = (Vec::new(), None);
    let mut reply = client.batch(text)?;
    while let Some(event) = reply.next_event()? {
        if let Event::Message(message) = event {
            if message.is_error() {
                failure.get_or_insert(ClientError::Server {
                    message: Box::new(message),
                });
            } else {
                messages.push(message.text);
            }
        }
    }
    failure.map_or(Ok(messages), |error| Err(error.into()))
}

/// The number in message 3014, `BACKUP DATABASE successfully processed 1600755 pages in 812.563 seconds (15.390 MB/sec).`
fn pages_processed(text: &str) -> Option<f64> {
    let rest = text
        .split_once("BACKUP DATABASE successfully processed ")?
        .1;
    rest.split(' ').next()?.parse().ok()
}

/// The last backup is verified, restored under another name and compared. How long the first two took.
fn verify(
    lab: &mut Lab,
    disk: &Disk,
    sums_before: &str,
    backup: &Taken,
) -> Result<(Taken, Taken), LabError> {
    lab.step("verifying and restoring the backup");
    let mut client = lab.client("master")?;
    let from = files_clause(disk, 1);
    let since = |begun: Instant| Taken {
        seconds: begun.elapsed().as_secs_f64(),
        ..backup.clone()
    };
    let begun = Instant::now();
    client.execute(&format!("RESTORE VERIFYONLY FROM {from}"))?;
    let verified = since(begun);
    let mut moves = String::new();
    let folder = lab.data_folder()?;
    for row in client.table(&format!("RESTORE FILELISTONLY FROM {from}"))? {
        let [name, _, kind, ..] = row.as_slice() else {
            continue;
        };
        let extension = if kind == "L" { "ldf" } else { "mdf" };
        let path = quoted(&format!("{folder}{RESTORED}_{name}.{extension}"));
        moves.push_str(&format!("MOVE {} TO {path}, ", quoted(name)));
    }
    let begun = Instant::now();
    client.execute(&format!(
        "RESTORE DATABASE {RESTORED} FROM {from} WITH {moves}RECOVERY"
    ))?;
    let restored = since(begun);
    let found = sums(&mut client, RESTORED)?;
    lab.report
        .check("sums of the restored database", sums_before, found);
    client.execute(&format!("DROP DATABASE {RESTORED}"))?;
    Ok((verified, restored))
}

fn publish(lab: &mut Lab, args: &BackupArgs, disk: &Disk, measured: &Measured) {
    let mut section = Section {
        title: "Plain and compressed, 1 to 16 files".into(),
        ..Section::default()
    };
    section.text(format!(
        "A database of about {} MiB. Each target folder is a model of a data disk: 60 MB/s and 500 requests a second for one, twice \
         that for two, and {} MB/s for whoever has one request under way at a time.",
        args.mib(),
        figures::number(published::STREAM_BYTES_PER_S / 1e6)
    ));
    section.table(table(measured));
    section.chart(chart(measured));
    let (single, default) = (&measured.single, &measured.default);
    section.text(format!(
        "One request at a time (BUFFERCOUNT = 1) took {} for the plain file: the way of the article's first figure. With the \
         requests that the server chooses the plain single file took {}.",
        figures::seconds(single.seconds),
        measured.plain.first().map_or_else(|| "-".into(), |t| figures::seconds(t.seconds)),
    ));
    figures_of_defaults(lab, disk, measured);
    section.text(advice(&measured.plain, &measured.compressed, default));
    let list = |taken: &[Taken]| -> Vec<_> {
        taken
            .iter()
            .map(|t| json!({"seconds": t.seconds, "bytes": t.bytes, "pages": t.pages}))
            .collect()
    };
    lab.report.keep(
        "backup",
        json!({"mib": args.mib(), "files": published::FILES, "single": list(std::slice::from_ref(single)),
               "plain": list(&measured.plain), "compressed": list(&measured.compressed),
               "plain_two_disks": list(&measured.plain_two), "two_disks": list(&measured.compressed_two),
               "default": list(std::slice::from_ref(default)), "verified": list(std::slice::from_ref(&measured.verified)),
               "restored": list(std::slice::from_ref(&measured.restored))}),
    );
    lab.publish(section);
}

fn figures_of_defaults(lab: &mut Lab, disk: &Disk, measured: &Measured) {
    let (single, default) = (&measured.single, &measured.default);
    let times = single.seconds / default.seconds;
    let against = format!(
        "{} against {}; published best tuning {} ×",
        figures::seconds(default.seconds),
        figures::seconds(single.seconds),
        published::BEST
    );
    let verdict = match disk.limit {
        Some(_) => Verdict::of(times >= published::BEST),
        None => Verdict::Plain,
    };
    lab.report.figure(
        "Defaults, against the plain single file",
        format!("{times:.1} ×"),
        against,
        verdict,
    );
    for (name, taken) in [
        ("Defaults: part of the device's byte limit", default),
        (
            "Restore: part of the device's byte limit",
            &measured.restored,
        ),
    ] {
        let (Some(limit), Some(bytes)) = (disk.limit, taken.bytes) else {
            continue;
        };
        let part = bytes / taken.seconds / limit * 100.0;
        lab.report.figure(
            name,
            format!("{part:.0} %"),
            "target at least 90 %",
            Verdict::of(part >= 90.0),
        );
    }
}

fn table(measured: &Measured) -> Table {
    let mut table = Table::new(
        "",
        &["Backup", "Files", "Time", "Stored", "Moved/s", "Published"],
    );
    let name = "plain, one disk, one request at a time";
    let paper = figures::seconds(published::PLAIN_S[0]);
    table.measured(row(name, 1, &measured.single, &paper));
    for (name, taken, paper) in measured.groups() {
        for (at, (files, t)) in published::FILES.iter().zip(taken).enumerate() {
            let paper = paper.map_or_else(|| "-".into(), |p| figures::seconds(p[at]));
            table.measured(row(name, *files, t, &paper));
        }
    }
    let name = "nothing said (defaults), one disk";
    table.measured(row(name, 1, &measured.default, "-"));
    for (name, taken) in [
        ("RESTORE VERIFYONLY of it", &measured.verified),
        ("RESTORE DATABASE of it", &measured.restored),
    ] {
        table.measured(row(name, 1, taken, "-"));
    }
    table
}

fn row(name: &str, files: u32, taken: &Taken, paper: &str) -> Vec<String> {
    let bytes = |value: Option<f64>| value.map_or_else(|| "-".into(), figures::bytes);
    vec![
        name.into(),
        files.to_string(),
        figures::seconds(taken.seconds),
        bytes(taken.bytes),
        bytes(taken.bytes.map(|b| b / taken.seconds)),
        paper.into(),
    ]
}

/// Time against the plain single file, so that databases of different sizes compare.
fn chart(all: &Measured) -> Bars {
    let base = Some(all.single.seconds);
    let mut rows = vec![(
        "defaults".to_string(),
        figures::ratio(base, Some(all.default.seconds)),
        None,
    )];
    for (name, taken, seconds) in all.groups() {
        for (at, (files, t)) in published::FILES.iter().zip(taken).enumerate() {
            rows.push((
                format!("{name}, {files}"),
                figures::ratio(base, Some(t.seconds)),
                seconds.map(|s| published::PLAIN_S[0] / s[at]),
            ));
        }
    }
    // The best first; the table above has them in the order of the article.
    rows.sort_by(|a, b| b.1.unwrap_or(0.0).total_cmp(&a.1.unwrap_or(0.0)));
    let names = rows.iter().map(|r| r.0.clone()).collect();
    let measured = rows.iter().map(|r| r.1).collect();
    let paper = rows.iter().map(|r| r.2).collect();
    Bars {
        title: "How many times faster than the plain single file".into(),
        unit: Unit::Times,
        log: false,
        names,
        series: vec![
            BarSeries::new("measured", Kind::Measured, 0, measured),
            BarSeries::new("published", Kind::Published, 0, paper),
        ],
        mark: Some(("plain, one file, one request at a time".into(), 1.0)),
        note: "The best first; the number behind each name is that of its files. A server that keeps many requests under way gains nothing from more files.".into(),
    }
}

/// What a DBA takes home.
fn advice(plain: &[Taken], compressed: &[Taken], default: &Taken) -> String {
    let best = |taken: &[Taken]| {
        let all = published::FILES.iter().zip(taken);
        all.min_by(|a, b| a.1.seconds.total_cmp(&b.1.seconds))
            .map(|(files, t)| (*files, t.seconds))
    };
    let (Some((plain_files, plain_s)), Some((files, seconds))) = (best(plain), best(compressed))
    else {
        return String::new();
    };
    let rest = if default.seconds <= seconds * 1.1 {
        "Leave the statement alone: the defaults are as fast as the best tuning found."
    } else {
        "Tuning still pays here: the defaults are slower than the best of the table."
    };
    format!(
        "Best plain: {}, {}. Best compressed: {}, {}. Defaults: {}. {rest}",
        figures::counted(plain_files.into(), "file"),
        figures::seconds(plain_s),
        figures::counted(files.into(), "file"),
        figures::seconds(seconds),
        figures::seconds(default.seconds)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_tells_the_pages() {
        let text = "BACKUP DATABASE successfully processed 1600755 pages in 812.563 seconds (15.390 MB/sec).";
        assert_eq!(pages_processed(text), Some(1_600_755.0));
        assert_eq!(pages_processed("10 percent processed."), None);
    }

    #[test]
    fn every_stripe_is_named() {
        let disk = Disk {
            name: "d",
            folder: "/b/".into(),
            limit: None,
        };
        assert_eq!(
            files_clause(&disk, 2),
            "DISK = N'/b/lab_2_01.bak', DISK = N'/b/lab_2_02.bak'"
        );
    }

    #[test]
    fn the_advice_follows_the_figures() {
        let taken = |seconds| Taken {
            seconds,
            bytes: None,
            pages: None,
        };
        let text = advice(
            &[taken(10.0), taken(5.0)],
            &[taken(4.0), taken(2.0)],
            &taken(2.1),
        );
        assert!(text.contains("Leave the statement alone"), "{text}");
        let text = advice(&[taken(10.0)], &[taken(4.0)], &taken(9.0));
        assert!(text.contains("Tuning still pays"), "{text}");
        assert!(text.contains("Best plain: 1 file, "), "{text}");
    }
}
