//! The server's error log: a text file in the log folder, with the product's columns.
//!
//! Theory: every line is `date source text`. At start the last log becomes `errorlog.1`, that one `errorlog.2`, up to
//! six. A log that has grown to `BYTES_MAX` is followed by a new one, so that clients that provoke messages (failed logins,
//! refused connections) cannot fill the disk. Lines that cannot be written (disk full) are dropped: the log must never
//! stop the server.
//!
//! Invariant: only what `write` begins looks like the beginning of an entry. Texts hold names that clients chose.

use daruma_base::{DiskFile, Env, OpenMode};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Archived logs kept besides the current one.
pub const ARCHIVES: u32 = 6;
/// Size of a log at which the next one begins, and so the longest that is read back.
const BYTES_MAX: u64 = 64 << 20;

/// One line (or several, when the text has line ends).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Local time as written: `2026-11-21 21:00:00.00`.
    pub date: String,
    pub source: String,
    pub text: String,
}

pub struct ErrorLog {
    env: Env,
    dir: PathBuf,
    file: Mutex<Option<OpenLog>>,
    /// Size at which a new log begins.
    bytes_max: u64,
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
            bytes_max: BYTES_MAX,
        };
        log.cycle()?;
        Ok(log)
    }

    /// Starts a new log file (`sp_cycle_errorlog`).
    pub fn cycle(&self) -> io::Result<()> {
        let mut file = self.file.lock();
        self.begin_next(&mut file)
    }

    /// The log of before stays in use when this fails.
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
        let mut file = self.file.lock();
        if file.as_ref().is_some_and(|open| open.end >= self.bytes_max) {
            // What fails now is tried again at the next line.
            let _ = self.begin_next(&mut file);
        }
        if let Some(open) = file.as_mut()
            && open.file.write_at(line.as_bytes(), open.end).is_ok()
        {
            open.end += line.len() as u64;
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

/// The text with a blank before every further line that would pass for the beginning of an entry.
fn continued(text: &str) -> Cow<'_, str> {
    let text = match text.contains('\r') {
        true => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
        false => Cow::Borrowed(text),
    };
    if !text.lines().skip(1).any(|line| entry(line).is_some()) {
        return text;
    }
    let mut lines = text.lines();
    let mut safe = lines.next().unwrap_or_default().to_string();
    for line in lines {
        safe.push('\n');
        if entry(line).is_some() {
            safe.push(' ');
        }
        safe.push_str(line);
    }
    Cow::Owned(safe)
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
                last.text.push_str(line);
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
        let (log, _disk) = log();
        let date = "2026-11-21 21:00:00.00";
        let name = format!("x\n{date} Server      all is well\r{date} Logon       ann is in");
        log.write("Logon", &format!("Login failed for user '{name}'."));
        let entries = log.read(0).expect("reads");
        assert_eq!(entries.len(), 1, "{entries:?}");
        assert!(entries[0].text.ends_with("ann is in'."), "{entries:?}");
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
