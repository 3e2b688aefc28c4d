//! The target `event_file`: events in files of the log folder, and how they are read back.
//!
//! Theory: an event waits in a bounded queue; whoever dispatches writes what waits. So a disk that takes its time delays nobody,
//! and events for which there is no room are dropped and counted. A file begins with a mark; a record is its length (u32), its time
//! (i64), the length of the event's name (u8), the name, and its XML. A record that is not whole ends its file.
//!
//! Invariants
//! 1. Only files of the log folder whose names end with `.xel` are made, read or removed.
//! 2. There are at most as many files of a name as its target may have; the oldest goes.

use super::running::Collected;
use crate::error::Result;
use crate::messages;
use daruma_base::{DiskFile, Env, OpenMode};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MARK: &[u8; 8] = b"DarumaXE";
const EXTENSION: &str = ".xel";
/// From 1601, where the product counts, to 1970, in 100 ns.
const EPOCH_100NS: i64 = 116_444_736_000_000_000;
/// Bytes of a record before its name.
const HEAD_BYTES: usize = 13;
/// Longest record that is read; longer ones are not written.
const RECORD_BYTES_MAX: usize = 64 << 20;
/// Longest name of a file.
const NAME_CHARS_MAX: usize = 200;

/// MB of a file when nothing else is asked for.
pub const FILE_MB: i64 = 1_024;
/// MB of a file that may be asked for at most.
pub const FILE_MB_MAX: i64 = 1 << 20;
/// Files when nothing else is asked for.
pub const FILES: i64 = 5;
/// Files that may be asked for at most.
pub const FILES_MAX: i64 = 1_000;

/// Files of one name, the last of which is written.
pub struct EventFile {
    env: Env,
    folder: PathBuf,
    name: String,
    file_bytes_max: u64,
    files_max: usize,
    queue_bytes_max: usize,
    queue: Mutex<Queue>,
    open: Mutex<Option<Open>>,
    pub written_bytes: AtomicU64,
    pub failed_writes: AtomicU64,
}

#[derive(Default)]
struct Queue {
    events: Vec<Arc<Collected>>,
    bytes: usize,
    /// When the first of them came.
    since_utc: i64,
}

struct Open {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    end: u64,
}

/// An event as it was read back.
pub struct Record {
    pub name: String,
    pub xml: String,
    pub at_utc: i64,
    pub offset: u64,
}

impl EventFile {
    /// Files `name_0_*.xel` of a folder. None is made before there is an event.
    pub fn new(
        env: &Env,
        folder: &Path,
        name: &str,
        (file_bytes_max, files_max): (u64, usize),
        queue_bytes_max: usize,
    ) -> EventFile {
        EventFile {
            env: env.clone(),
            folder: folder.to_path_buf(),
            name: name.to_string(),
            file_bytes_max,
            files_max,
            queue_bytes_max,
            queue: Mutex::default(),
            open: Mutex::new(None),
            written_bytes: AtomicU64::new(0),
            failed_writes: AtomicU64::new(0),
        }
    }

    /// `target_data` of the product: the file that is written now.
    pub fn to_xml(&self) -> String {
        let mut xml =
            String::from("<EventFileTarget truncated=\"0\"><Buffers logged=\"0\" dropped=\"0\"/>");
        if let Some(open) = &*self.open.lock() {
            xml.push_str("<File name=\"");
            super::occurrence::put_text(&mut xml, &open.path.display().to_string());
            xml.push_str("\"/>");
        }
        xml.push_str("</EventFileTarget>");
        xml
    }

    /// Lets an event wait; false when there is no room for it.
    pub fn add(&self, event: &Arc<Collected>) -> bool {
        let mut queue = self.queue.lock();
        let bytes = queue.bytes.saturating_add(event.xml.len() + HEAD_BYTES);
        if bytes > self.queue_bytes_max || event.xml.len() > RECORD_BYTES_MAX / 2 {
            return false;
        }
        if queue.events.is_empty() {
            queue.since_utc = event.at_utc;
        }
        queue.bytes = bytes;
        queue.events.push(event.clone());
        true
    }

    /// Writes what waits, if it has waited since `before_utc` or fills half of its room.
    pub fn dispatch(&self, before_utc: i64) {
        let mut open = self.open.lock();
        let events = {
            let mut queue = self.queue.lock();
            let is_due = queue.since_utc <= before_utc || queue.bytes > self.queue_bytes_max / 2;
            if queue.events.is_empty() || !is_due {
                return;
            }
            queue.bytes = 0;
            std::mem::take(&mut queue.events)
        };
        for event in &events {
            if self.write(&mut open, event).is_err() {
                self.failed_writes.fetch_add(1, Ordering::Relaxed);
                *open = None;
            }
        }
    }

    fn write(&self, open: &mut Option<Open>, event: &Collected) -> io::Result<()> {
        let record = encoded(event);
        if open
            .as_ref()
            .is_some_and(|o| o.end + record.len() as u64 > self.file_bytes_max)
        {
            *open = None;
        }
        let Open { file, end, .. } = match open {
            Some(open) => open,
            None => open.insert(self.begin(event.at_utc)?),
        };
        file.write_at(&record, *end)?;
        *end += record.len() as u64;
        self.written_bytes
            .fetch_add(record.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The next file; older ones make room.
    fn begin(&self, at_utc: i64) -> io::Result<Open> {
        let disk = &self.env.disk;
        let mut own = files_like(
            disk.list(&self.folder)?,
            &format!("{}_0_*{EXTENSION}", self.name),
        );
        while own.len() >= self.files_max.max(1) {
            disk.remove(&own.remove(0))?;
        }
        let mut stamp = at_utc.saturating_add(EPOCH_100NS);
        let path = loop {
            let path = self
                .folder
                .join(format!("{}_0_{stamp}{EXTENSION}", self.name));
            if !disk.exists(&path)? {
                break path;
            }
            stamp += 1;
        };
        let file = disk.open(&path, OpenMode::CreatePrivate)?;
        file.write_at(MARK, 0)?;
        disk.sync_dir(&self.folder)?;
        Ok(Open {
            path,
            file,
            end: MARK.len() as u64,
        })
    }
}

impl Drop for EventFile {
    fn drop(&mut self) {
        self.dispatch(i64::MAX);
        if let Some(open) = self.open.get_mut() {
            open.file.release();
        }
    }
}

fn encoded(event: &Collected) -> Vec<u8> {
    let name = event.kind.info().name.as_bytes();
    let length = HEAD_BYTES - 4 + name.len() + event.xml.len();
    let mut record = Vec::with_capacity(length + 4);
    record.extend_from_slice(&u32::try_from(length).unwrap_or(0).to_le_bytes());
    record.extend_from_slice(&event.at_utc.to_le_bytes());
    record.push(u8::try_from(name.len()).unwrap_or(0));
    record.extend_from_slice(name);
    record.extend_from_slice(event.xml.as_bytes());
    record
}

/// The name of a target's files, as `filename` gives it: in the log folder, and nowhere else. Error 25641.
pub fn file_name(asked: &str, folder: &Path) -> Result<String> {
    let bad = || {
        messages::error(
            25641,
            &[
                &"target",
                &"package0.event_file",
                &"filename",
                &"The file must be one of the log folder.",
            ],
        )
    };
    let name = within(asked, folder).ok_or_else(bad)?;
    let name = name.strip_suffix(EXTENSION).unwrap_or(&name).to_string();
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '#' | '$');
    let fits = !name.is_empty()
        && name.chars().count() <= NAME_CHARS_MAX
        && name.chars().all(is_plain)
        && !name.starts_with('.');
    match fits {
        true => Ok(name),
        false => Err(bad()),
    }
}

/// A name without a folder, or with the log folder before it.
fn within(asked: &str, folder: &Path) -> Option<String> {
    let path = Path::new(asked);
    let name = path.file_name()?.to_str()?.to_string();
    let is_here = match path.parent() {
        None => true,
        Some(parent) => parent.as_os_str().is_empty() || parent == folder,
    };
    (is_here && !asked.contains('\\')).then_some(name)
}

/// Files of the log folder by a pattern in which `*` stands for anything, the oldest first. Error 25718 for a pattern of another
/// folder, or of other files.
pub fn find(env: &Env, folder: &Path, pattern: &str) -> Result<Vec<PathBuf>> {
    let bad = || messages::error(25718, &[&pattern]);
    let name = within(pattern, folder).ok_or_else(bad)?;
    if !name.to_ascii_lowercase().ends_with(EXTENSION) && !name.ends_with('*') {
        return Err(bad());
    }
    let listed = env.disk.list(folder).map_err(|_| bad())?;
    let found = files_like(listed, &name);
    match found.is_empty() && !name.contains('*') {
        true => Err(bad()),
        false => Ok(found),
    }
}

fn files_like(listed: Vec<PathBuf>, pattern: &str) -> Vec<PathBuf> {
    let fits = |path: &PathBuf| {
        let name = path.file_name().and_then(|n| n.to_str());
        name.is_some_and(|n| n.ends_with(EXTENSION) && is_like(n, pattern))
    };
    let mut found: Vec<PathBuf> = listed.into_iter().filter(fits).collect();
    found.sort();
    found
}

/// Does a name fit a pattern in which `*` stands for anything?
fn is_like(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        match parts.peek() {
            None => return rest.ends_with(part),
            Some(_) => match rest.find(part) {
                Some(at) => rest = rest.get(at + part.len()..).unwrap_or(""),
                None => return false,
            },
        }
    }
    true
}

/// Gives the events of a file to `each`, in order.
pub fn read(env: &Env, path: &Path, mut each: impl FnMut(Record) -> Result<()>) -> Result<()> {
    let bad = |_| messages::error(25718, &[&path.display()]);
    let file = env.disk.open(path, OpenMode::ReadOnly).map_err(bad)?;
    let length = file.len().map_err(bad)?;
    let mut mark = [0; MARK.len()];
    if length < MARK.len() as u64 {
        return Ok(());
    }
    file.read_at(&mut mark, 0).map_err(bad)?;
    if mark != *MARK {
        return Ok(());
    }
    let mut at = MARK.len() as u64;
    while let Some((record, end)) = read_record(file.as_ref(), at, length).map_err(bad)? {
        each(record)?;
        at = end;
    }
    Ok(())
}

fn read_record(file: &dyn DiskFile, at: u64, length: u64) -> io::Result<Option<(Record, u64)>> {
    let mut size = [0; 4];
    if at + 4 > length {
        return Ok(None);
    }
    file.read_at(&mut size, at)?;
    let size = u32::from_le_bytes(size) as usize;
    let end = at + 4 + size as u64;
    if !(HEAD_BYTES - 4..=RECORD_BYTES_MAX).contains(&size) || end > length {
        return Ok(None);
    }
    let mut bytes = vec![0; size];
    file.read_at(&mut bytes, at + 4)?;
    Ok(decoded(&bytes, at).map(|record| (record, end)))
}

fn decoded(bytes: &[u8], offset: u64) -> Option<Record> {
    let (time, rest) = bytes.split_first_chunk::<8>()?;
    let (name_bytes, rest) = rest.split_first()?;
    let (name, xml) = rest.split_at_checked(usize::from(*name_bytes))?;
    Some(Record {
        name: std::str::from_utf8(name).ok()?.to_string(),
        xml: std::str::from_utf8(xml).ok()?.to_string(),
        at_utc: i64::from_le_bytes(*time),
        offset,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_log_folder() {
        let folder = Path::new("/data/log");
        for (asked, found) in [
            ("a", Some("a")),
            ("a.xel", Some("a")),
            ("/data/log/a.xel", Some("a")),
            ("../a.xel", None),
            ("/etc/a.xel", None),
            ("log/a.xel", None),
            ("..\\a.xel", None),
            ("C:\\a.xel", None),
            (".xel", None),
            ("..", None),
            ("", None),
            ("a*", None),
        ] {
            assert_eq!(file_name(asked, folder).ok().as_deref(), found, "{asked}");
        }
    }

    #[test]
    fn patterns() {
        for (name, pattern, fits) in [
            ("a_0_1.xel", "a*.xel", true),
            ("a_0_1.xel", "a_0_1.xel", true),
            ("b_0_1.xel", "a*.xel", false),
            ("a_0_1.xel", "*", true),
            ("a_0_1.xel", "a*0*.xel", true),
            ("a_0_1.xel", "a", false),
            ("a.xel", "a*a.xel", false),
        ] {
            assert_eq!(is_like(name, pattern), fits, "{name} {pattern}");
        }
    }

    #[test]
    fn bytes_that_are_no_record_are_none() {
        assert!(decoded(&[], 0).is_none());
        assert!(decoded(&[0; 8], 0).is_none());
        assert!(decoded(&[0, 0, 0, 0, 0, 0, 0, 0, 9, b'a'], 0).is_none());
        assert!(decoded(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF], 0).is_none());
    }
}
