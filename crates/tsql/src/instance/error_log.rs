//! The server's error log: a text file in the log folder, with the product's columns.
//!
//! Theory: every line is `date source text`. At start the last log becomes `errorlog.1`, that one `errorlog.2`, up to
//! six. A log that has grown to `BYTES_MAX` is followed by a new one, so that clients that provoke messages (failed logins,
//! refused connections) cannot fill the disk. Lines that cannot be written (disk full) are dropped: the log must never
//! stop the server.
//!
//! A line that anybody can provoke without a login is written a number of times a minute, and counted beyond that: otherwise old logs,
//! and what stands in them, could be pushed out by noise.
//!
//! Invariant: only what `write` begins stands at the beginning of a line. Texts hold names that clients chose: their further
//! lines are indented, and characters that a terminal would obey are written as escapes.

use daruma_base::{DiskFile, Env, OpenMode};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Archived logs kept besides the current one.
pub const ARCHIVES: u32 = 6;
/// Size of a log at which the next one begins, and so the longest that is read back.
const BYTES_MAX: u64 = 64 << 20;
/// Before each line of an entry but the first.
const INDENT: &str = "    ";
/// How often what anybody can provoke is written, for each kind, within `BOUND_TIME`.
const BOUND: u32 = 60;
const BOUND_TIME: Duration = Duration::from_secs(60);

/// One line (or several, when the text has line ends).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Local time as written: `2026-11-21 21:00:00.00`.
    pub date: String,
    pub source: String,
    pub text: String,
}

/// The error log's files: the current one and six older ones.
pub struct ErrorLog {
    env: Env,
    dir: PathBuf,
    file: Mutex<Option<OpenLog>>,
    /// By error number.
    bounded: Mutex<BTreeMap<i32, Window>>,
    /// Size at which a new log begins.
    bytes_max: u64,
    /// Gets every line as well.
    echo: OnceLock<fn(&str)>,
}

/// Lines of a kind within a time, written and left out.
struct Window {
    begin: Duration,
    source: String,
    written: u32,
    kept_back: u64,
}

struct OpenLog {
    file: Arc<dyn DiskFile>,
    end: u64,
}

impl ErrorLog {
    /// Rotates the old logs and opens a new one.
    pub fn open(env: &Env, dir: &Path) -> io::Result<ErrorLog> {
        env.disk.create_dir_all(dir)?;
        let log = ErrorLog {
            env: env.clone(),
            dir: dir.to_path_buf(),
            file: Mutex::new(None),
            bounded: Mutex::default(),
            bytes_max: BYTES_MAX,
            echo: OnceLock::new(),
        };
        log.cycle()?;
        Ok(log)
    }

    /// Lets `to` have every line from now on, with its end. The first one that is named stays.
    pub fn echo(&self, to: fn(&str)) {
        let _first = self.echo.set(to);
    }

    /// Starts a new log file (`sp_cycle_errorlog`).
    pub fn cycle(&self) -> io::Result<()> {
        let mut file = self.file.lock();
        self.begin_next(&mut file)
    }

    /// The old log stays in use when this fails.
    fn begin_next(&self, file: &mut Option<OpenLog>) -> io::Result<()> {
        let disk = &self.env.disk;
        if disk.exists(&self.path(ARCHIVES))? {
            disk.remove(&self.path(ARCHIVES))?;
        }
        for number in (0..ARCHIVES).rev() {
            if disk.exists(&self.path(number))? {
                disk.rename(&self.path(number), &self.path(number + 1))?;
            }
        }
        let created = disk.open(&self.path(0), OpenMode::CreateNew)?;
        *file = Some(OpenLog {
            file: created,
            end: 0,
        });
        match self.path(0).parent() {
            Some(directory) => disk.sync_dir(directory),
            None => Ok(()),
        }
    }

    /// Appends a line. `source` is `Server`, `Logon` or `spid51`.
    pub fn write(&self, source: &str, text: &str) {
        let line = format!("{} {source:<11} {}\n", self.now(), continued(text));
        if let Some(echo) = self.echo.get() {
            echo(&line);
        }
        let mut file = self.file.lock();
        if file.as_ref().is_some_and(|open| open.end >= self.bytes_max) {
            // A failure here is tried again at the next line.
            let _ = self.begin_next(&mut file);
        }
        if let Some(open) = file.as_mut()
            && open.file.write_at(line.as_bytes(), open.end).is_ok()
        {
            open.end += line.len() as u64;
        }
    }

    /// Appends entries about an error that anybody can provoke, unless there were many of its number of late.
    pub fn write_bounded(&self, source: &str, error: i32, texts: &[&str]) {
        self.write_counts();
        let now = self.env.clock.monotonic();
        let mut bounded = self.bounded.lock();
        let window = bounded.entry(error).or_insert_with(|| Window {
            begin: now,
            source: source.to_string(),
            written: 0,
            kept_back: 0,
        });
        if window.written >= BOUND {
            window.kept_back += 1;
            return;
        }
        window.written += 1;
        drop(bounded);
        texts.iter().for_each(|text| self.write(source, text));
    }

    /// Tells how much was not written in times that are over. Called now and then.
    pub fn write_counts(&self) {
        let now = self.env.clock.monotonic();
        let mut bounded = self.bounded.lock();
        if bounded.is_empty() {
            return;
        }
        let is_over = |w: &Window| now.saturating_sub(w.begin) >= BOUND_TIME;
        let over: Vec<(i32, Window)> = bounded.extract_if(.., |_, w| is_over(w)).collect();
        drop(bounded);
        for (error, window) in over.iter().filter(|(_, w)| w.kept_back > 0) {
            let text = format!(
                "{} more like error {error} were not written.",
                window.kept_back
            );
            self.write(&window.source, &text);
        }
    }

    /// All entries of a log: 0 is the current one.
    pub fn read(&self, number: u32) -> io::Result<Vec<LogEntry>> {
        let bytes = match (number, &*self.file.lock()) {
            (0, Some(open)) => read_whole(open.file.as_ref())?,
            _ => read_whole(
                self.env
                    .disk
                    .open(&self.path(number), OpenMode::ReadOnly)?
                    .as_ref(),
            )?,
        };
        Ok(parse(&String::from_utf8_lossy(&bytes)))
    }

    /// Numbers of the logs there are, with their sizes in bytes: `sp_enumerrorlogs`.
    pub fn archives(&self) -> Vec<u32> {
        let exists = |n: &u32| self.env.disk.exists(&self.path(*n)).unwrap_or(false);
        (0..=ARCHIVES).filter(exists).collect()
    }

    /// File of a log by number: 0 is the current one, 1 the one before it.
    pub fn path(&self, number: u32) -> PathBuf {
        match number {
            0 => self.dir.join("errorlog"),
            n => self.dir.join(format!("errorlog.{n}")),
        }
    }

    fn now(&self) -> String {
        let clock = &self.env.clock;
        format_local(clock.utc_100ns(), clock.local_offset_minutes())
    }
}

/// `2026-11-21 21:00:00.00` in local time.
pub fn format_local(utc_100ns: i64, offset_minutes: i16) -> String {
    let local = utc_100ns + i64::from(offset_minutes) * 600_000_000;
    let nanoseconds = i128::from(local) * 100;
    match jiff::Timestamp::from_nanosecond(nanoseconds) {
        Ok(at) => {
            let hundredths = local.rem_euclid(10_000_000) / 100_000;
            let civil = at.to_zoned(jiff::tz::TimeZone::UTC).datetime();
            format!("{}.{hundredths:02}", civil.strftime("%Y-%m-%d %H:%M:%S"))
        }
        Err(_) => "1970-01-01 00:00:00.00".to_string(),
    }
}

/// The text as lines of one entry.
fn continued(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            safe.push('\n');
            safe.push_str(INDENT);
        }
        escape(line.strip_suffix('\r').unwrap_or(line), &mut safe);
    }
    safe
}

/// Text that somebody else chose, on one line.
pub fn one_line(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    escape(text, &mut safe);
    safe
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '\t' => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if is_obeyed(c) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
}

/// Does a terminal do something with the character other than show it: control characters, line ends, directions of writing?
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn read_whole(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let len = file.len()?;
    let start = len.saturating_sub(BYTES_MAX);
    let mut bytes = vec![0; (len - start) as usize];
    file.read_at(&mut bytes, start)?;
    Ok(bytes)
}

fn parse(text: &str) -> Vec<LogEntry> {
    let mut entries: Vec<LogEntry> = Vec::new();
    for line in text.lines() {
        match (entry(line), entries.last_mut()) {
            (Some(entry), _) => entries.push(entry),
            (None, Some(last)) => {
                last.text.push('\n');
                last.text
                    .push_str(line.strip_prefix(INDENT).unwrap_or(line));
            }
            (None, None) => {}
        }
    }
    entries
}

fn entry(line: &str) -> Option<LogEntry> {
    let date = line.get(..22)?;
    let looks_like_date =
        date.as_bytes().get(4) == Some(&b'-') && date.as_bytes().get(19) == Some(&b'.');
    if !looks_like_date {
        return None;
    }
    let (source, text) = line.get(23..)?.split_once(' ')?;
    Some(LogEntry {
        date: date.to_string(),
        source: source.to_string(),
        text: text.trim_start().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> (ErrorLog, std::sync::Arc<daruma_sim::SimDisk>) {
        let disk = daruma_sim::SimDisk::new(1);
        let env = daruma_sim::env(&disk, 1);
        (
            ErrorLog::open(&env, Path::new("/log")).expect("opens"),
            disk,
        )
    }

    #[test]
    fn a_text_cannot_forge_an_entry() {
        let (log, disk) = log();
        let date = "2026-11-21 21:00:00.00";
        let name = format!("x\n{date} Server      all is well\r{date} Logon       ann is in");
        log.write("Logon", &format!("Login failed for user '{name}'."));
        let entries = log.read(0).expect("reads");
        assert_eq!(entries.len(), 1, "{entries:?}");
        assert!(entries[0].text.ends_with("ann is in'."), "{entries:?}");
        // Nor for a reader of the file in a terminal.
        log.write("Logon", "Login failed for user 'x\u{1b}[2K\u{202e}'.");
        let entries = log.read(0).expect("reads");
        assert!(
            entries[1].text.contains(r"'x\u{1b}[2K\u{202e}'"),
            "{entries:?}"
        );
        let bytes = disk
            .content_of(Path::new("/log/errorlog"))
            .expect("is there");
        let text = String::from_utf8(bytes).expect("text");
        assert!(!text.contains('\r') && !text.contains('\u{1b}'), "{text}");
        let begins = text.lines().filter(|l| !l.starts_with(INDENT)).count();
        assert_eq!(begins, 2, "{text}");
        assert_eq!(one_line("a\r\nb"), r"a\r\nb");
    }

    #[test]
    fn what_anybody_can_provoke_does_not_fill_the_log() {
        let (log, _disk) = log();
        for n in 0..10_000 {
            log.write_bounded("Logon", 17828, &[&format!("bad stream {n}")]);
        }
        log.write_bounded("Logon", 18456, &["another kind"]);
        assert_eq!(log.read(0).expect("reads").len(), BOUND as usize + 1);
        log.env.clock.sleep(BOUND_TIME);
        log.write_counts();
        let last = log.read(0).expect("reads").pop().expect("an entry");
        assert_eq!(last.text, "9940 more like error 17828 were not written.");
        log.write_bounded("Logon", 17828, &["again"]);
        let last = log.read(0).expect("reads").pop().expect("an entry");
        assert_eq!(last.text, "again");
    }

    #[test]
    fn a_long_log_is_followed_by_a_new_one_and_the_oldest_goes() {
        let (mut log, disk) = log();
        log.bytes_max = 1_000;
        for n in 0..1_000 {
            log.write("Server", &format!("line {n}"));
        }
        assert_eq!(log.archives().len() as u32, ARCHIVES + 1);
        assert!(disk.used_bytes() < (1_000 + 100) * u64::from(ARCHIVES + 1));
        let last = log.read(0).expect("reads").pop().expect("an entry");
        assert_eq!(last.text, "line 999");
    }

    #[test]
    fn lines_are_read_as_written() {
        let date = format_local(17_000_000_000_000_000, 60);
        assert_eq!(date, "2023-11-14 23:13:20.00");
        let text = format!(
            "{date} {:<11} first\nsecond line\n{date} {:<11} third\n",
            "Server", "spid9s"
        );
        let entries = parse(&text);
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].text, "first\nsecond line");
        assert_eq!(
            (entries[1].source.as_str(), entries[1].text.as_str()),
            ("spid9s", "third")
        );
    }
}
