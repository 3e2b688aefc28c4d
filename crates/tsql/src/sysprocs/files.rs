//! Procedures about folders and files: xp_create_subdir, xp_delete_file, xp_dirtree, xp_fileexist, xp_fixeddrives.
//!
//! Theory: they see the server's disk, so they are for administrators alone, and a path is read as BACKUP reads it: a
//! relative one begins in the folder of backups. What is deleted must be a backup by its first bytes, readable as one,
//! nobody's else by the gate of files, and older than asked for by the moment that the backup itself tells: copying a file
//! makes it no younger. A folder that was made is there after a crash, since backups that are promised will lie in it.
//!
//! Tests: `tests/file_procedures.rs`.

use super::define::{Procedure, integer, send};
use crate::ddl::database::local_path_in;
use crate::error::{Result, SqlError};
use crate::messages;
use crate::session::{SystemCall, utc_of};
use daruma_backup::{DiskDevice, MediaSet};
use daruma_base::{Disk, FileIdentity, OpenMode, make_folders};
use daruma_value::Value;
use daruma_value::temporal::Moment;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::native("xp_create_subdir", "@path nvarchar(4000)", create_folder),
    Procedure::native(
        "xp_delete_file",
        "@type int; @path nvarchar(4000); @extension nvarchar(260) = NULL; @before datetime = NULL; @subfolders int = 0",
        delete_files,
    ),
    Procedure::native(
        "xp_dirtree",
        "@path nvarchar(4000); @depth int = 0; @files int = 0",
        folder_tree,
    ),
    Procedure::native(
        "xp_fileexist",
        "@path nvarchar(4000); @exists int = NULL output",
        file_exists,
    ),
    Procedure::native("xp_fixeddrives", "@type int = 0", drives),
];

/// Most entries that a list of folders has; what comes behind is an error, not left out.
const ENTRIES_MAX: usize = 100_000;
/// Most levels that a list goes down.
const LEVELS_MAX: u32 = 100;

/// What is at a path, as procedures and `sys.dm_os_file_exists` tell it.
#[derive(Default)]
pub(crate) struct Found {
    pub is_file: bool,
    pub is_folder: bool,
    pub parent_is_there: bool,
}

/// Looks at a path; one with a NUL leads nowhere.
pub(crate) fn look_at(disk: &dyn Disk, path: &Path) -> Found {
    let is_folder = disk.is_folder(path);
    let is_there = disk.exists(path).unwrap_or(false);
    Found {
        is_file: is_there && !is_folder,
        is_folder,
        parent_is_there: path.parent().is_none_or(|p| disk.is_folder(p)),
    }
}

/// Error 22048: an extended procedure and what the system said.
fn failed(procedure: &str, error: &io::Error) -> SqlError {
    let (number, text) = match (error.raw_os_error(), error.kind()) {
        (_, io::ErrorKind::NotFound) => (3, "The system cannot find the path specified."),
        (_, io::ErrorKind::PermissionDenied) => (5, "Access is denied."),
        (_, io::ErrorKind::ResourceBusy) => (
            32,
            "The process cannot access the file because it is being used by another process.",
        ),
        (_, io::ErrorKind::AlreadyExists) => {
            (183, "Cannot create a file when that file already exists.")
        }
        (_, io::ErrorKind::InvalidInput) => (
            123,
            "The filename, directory name, or volume label syntax is incorrect.",
        ),
        (Some(number), _) => (number, "The system cannot do this."),
        (None, _) => (5, "Access is denied."),
    };
    let text = format!("{procedure}() returned error {number}, '{text}'");
    SqlError::new(22_048, 16, 1, text)
}

/// The argument as a path of the server's disk.
fn path_argument(call: &SystemCall<'_, '_>, index: usize) -> io::Result<PathBuf> {
    let written = call.text(index).unwrap_or_default();
    path_of(&written, call.execution.instance().backup_dir())
}

/// What is written, as a path; a relative one begins in the folder.
pub(crate) fn path_of(written: &str, folder: &Path) -> io::Result<PathBuf> {
    let written = written.trim();
    // Of a path of another system its last name alone would be left, and that of a folder is another folder.
    let is_foreign = written.contains('\\') || written.as_bytes().get(1) == Some(&b':');
    if written.is_empty() || written.contains('\0') || is_foreign {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(local_path_in(written, folder))
}

fn create_folder(call: &SystemCall<'_, '_>) -> Result<i32> {
    let made = path_argument(call, 0).and_then(|path| make(call, &path));
    made.map_err(|e| failed("xp_create_subdir", &e))?;
    Ok(0)
}

fn make(call: &SystemCall<'_, '_>, path: &Path) -> io::Result<()> {
    let instance = call.execution.instance();
    let gate = |folder: &Path| instance.refuse_owned(folder);
    make_folders(instance.env().disk.as_ref(), path, &gate)
}

/// What `xp_delete_file` takes.
struct Sieve {
    /// With its dot, in small letters; `None`: any.
    extension: Option<String>,
    /// Backups that ended before this moment, in UTC; `None`: whenever.
    before_utc: Option<i64>,
}

impl Sieve {
    fn takes_backup(&self, disk: &Arc<dyn Disk>, path: &Path) -> bool {
        let is_old = |ended| self.before_utc.is_none_or(|before| ended < before);
        ended_utc(disk, path).is_some_and(is_old)
    }

    fn takes_name(&self, path: &Path) -> bool {
        let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase());
        match (&self.extension, name) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(extension), Some(name)) => name.ends_with(extension),
        }
    }
}

/// Arguments: 0 for backups (1, reports of maintenance plans, are nothing that is made here), a folder or file, the
/// extension, the local time before which a backup ended, and 1 for the folders directly below as well.
fn delete_files(call: &SystemCall<'_, '_>) -> Result<i32> {
    match integer(call, 0) {
        Some(0) => {}
        Some(1) => {
            return Err(messages::not_supported(
                "xp_delete_file for reports of maintenance plans",
            ));
        }
        _ => {
            return Err(failed(
                "xp_delete_file",
                &io::ErrorKind::InvalidInput.into(),
            ));
        }
    }
    let done = path_argument(call, 1).and_then(|path| delete_from(call, &path));
    call.execution.check_cancel()?;
    done.map_err(|e| failed("xp_delete_file", &e))?;
    Ok(0)
}

fn delete_from(call: &SystemCall<'_, '_>, path: &Path) -> io::Result<()> {
    let clock = &call.execution.instance().env().clock;
    let sieve = Sieve {
        extension: call
            .text(2)
            .map(|e| e.trim().trim_start_matches('.').to_lowercase())
            .filter(|e| !e.is_empty())
            .map(|e| format!(".{e}")),
        before_utc: Moment::from_value(call.arg(3))
            .map(|m| utc_of(m, clock.local_offset_minutes())),
    };
    let disk = &call.execution.instance().env().disk;
    if !disk.is_folder(path) {
        let sieve = Sieve {
            extension: None,
            ..sieve
        };
        return delete_one(call, path, &sieve);
    }
    // Whoever has left the date unset does not mean all backups of a folder.
    if sieve.before_utc.is_none() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut folders = vec![path.to_path_buf()];
    if integer(call, 4).is_some_and(|n| n != 0) {
        // What a link leads to lies elsewhere.
        let is_own = |p: &PathBuf| disk.is_folder(p) && !disk.is_link(p);
        folders.extend(disk.list(path)?.into_iter().filter(is_own));
    }
    // One that cannot be deleted keeps nobody from the next; the first is told.
    let done: Vec<io::Result<()>> = folders
        .iter()
        .map(|folder| delete_in(call, folder, &sieve))
        .collect();
    done.into_iter().collect()
}

fn delete_in(call: &SystemCall<'_, '_>, folder: &Path, sieve: &Sieve) -> io::Result<()> {
    let disk = &call.execution.instance().env().disk;
    let mut done = Ok(());
    let files = match disk.list(folder) {
        // Somebody else has removed it.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        files => files?,
    };
    for file in files {
        if call.execution.check_cancel().is_err() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if !disk.is_folder(&file) && sieve.takes_name(&file) {
            done = done.and(delete_one(call, &file, sieve));
        }
    }
    done
}

/// Deletes the file if it is an old enough backup. What is somebody's, being written, or no backup that can be read stays.
fn delete_one(call: &SystemCall<'_, '_>, path: &Path, sieve: &Sieve) -> io::Result<()> {
    let instance = call.execution.instance();
    let disk = &instance.env().disk;
    // A name that is gone by now was deleted by another. One that is too young is not claimed: its writer would fail.
    let is_backup = daruma_backup::is_backup(disk.as_ref(), path).unwrap_or(false);
    if !is_backup || !sieve.takes_backup(disk, path) {
        return Ok(());
    }
    let Ok(_claim) = instance.claim_files(&[path.to_path_buf()], &[]) else {
        return Ok(());
    };
    // Another program that writes it holds its lock.
    let Ok(_held) = disk.open(path, OpenMode::ReadWrite) else {
        return Ok(());
    };
    if !sieve.takes_backup(disk, path) {
        return Ok(());
    }
    match disk.remove(path) {
        // Somebody else has deleted it.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed?,
    }
    disk.sync_dir(path.parent().unwrap_or(Path::new("")))
}

/// When the last of the backups in a file ended.
fn ended_utc(disk: &Arc<dyn Disk>, path: &Path) -> Option<i64> {
    let gate = Arc::new(|_: &Path| Ok(()));
    let device = DiskDevice::new(disk, &path.to_string_lossy(), path, gate);
    let media = MediaSet::open_any(&[Arc::new(device)]).ok()?;
    let ended = |position| media.set_info(position).ok().map(|info| info.finished_utc);
    let all: Option<Vec<i64>> = media.positions().into_iter().map(ended).collect();
    all?.into_iter().max()
}

/// A line of a tree of folders.
struct Line {
    name: String,
    depth: u32,
    is_file: bool,
}

/// A walk down folders. A folder that several links lead to is gone down once.
struct Walk<'a> {
    disk: &'a dyn Disk,
    is_cancelled: &'a dyn Fn() -> bool,
    depth_max: u32,
    with_files: bool,
    seen: HashSet<FileIdentity>,
    lines: Vec<Line>,
    /// More was found than a list may have.
    is_cut: bool,
}

impl Walk<'_> {
    fn folder(&mut self, path: &Path, depth: u32) -> io::Result<()> {
        if !self.seen.insert(self.disk.identity(path)) {
            return Ok(());
        }
        let mut entries = self.disk.list(path)?;
        entries.sort();
        for entry in entries {
            if (self.is_cancelled)() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let is_folder = self.disk.is_folder(&entry);
            if !is_folder && !self.with_files {
                continue;
            }
            self.is_cut |= self.lines.len() >= ENTRIES_MAX;
            if self.is_cut {
                return Ok(());
            }
            let name = entry.file_name().unwrap_or_default();
            self.lines.push(Line {
                name: name.to_string_lossy().into_owned(),
                depth,
                is_file: !is_folder,
            });
            if is_folder && depth < self.depth_max {
                // One that may not be read, or is gone by now, has nothing to show.
                let _shown = self.folder(&entry, depth + 1);
            }
        }
        Ok(())
    }
}

/// Arguments: a folder, the levels (0: all), and 1 for files too. A folder that is not there has no lines.
fn folder_tree(call: &SystemCall<'_, '_>) -> Result<i32> {
    let path = path_argument(call, 0).map_err(|e| failed("xp_dirtree", &e))?;
    let wanted = integer(call, 1).and_then(|n| u32::try_from(n).ok());
    let disk = &call.execution.instance().env().disk;
    let mut walk = Walk {
        disk: disk.as_ref(),
        is_cancelled: &|| call.execution.check_cancel().is_err(),
        depth_max: wanted
            .filter(|n| *n > 0)
            .map_or(LEVELS_MAX, |n| n.min(LEVELS_MAX)),
        with_files: integer(call, 2).is_some_and(|n| n != 0),
        seen: HashSet::new(),
        lines: Vec::new(),
        is_cut: false,
    };
    if disk.is_folder(&path) {
        let walked = walk.folder(&path, 1);
        call.execution.check_cancel()?;
        walked.map_err(|e| failed("xp_dirtree", &e))?;
    }
    if walk.is_cut {
        let text = format!("xp_dirtree: there are more than {ENTRIES_MAX} entries.");
        return Err(SqlError::new(22_048, 16, 1, text));
    }
    let columns = match walk.with_files {
        true => "subdirectory nvarchar(512)?; depth int?; file int?",
        false => "subdirectory nvarchar(512)?; depth int?",
    };
    send(call, columns, |_, rows| {
        for line in &walk.lines {
            rows.add()
                .set("subdirectory", &line.name)
                .set("depth", line.depth)
                .set_if_present("file", line.is_file);
        }
        Ok(())
    })?;
    Ok(0)
}

/// With an OUTPUT argument that has 1 for a file and 0 for everything else; without, three columns.
fn file_exists(call: &SystemCall<'_, '_>) -> Result<i32> {
    let path = path_argument(call, 0).map_err(|e| failed("xp_fileexist", &e))?;
    let found = look_at(call.execution.instance().env().disk.as_ref(), &path);
    if call.wants_output(1) {
        call.set_output(1, Value::Int(i32::from(found.is_file)));
        return Ok(0);
    }
    send(
        call,
        "File~Exists tinyint?; File~is~a~Directory tinyint?; Parent~Directory~Exists tinyint?",
        |_, rows| {
            rows.add()
                .set("File Exists", found.is_file)
                .set("File is a Directory", found.is_folder)
                .set("Parent Directory Exists", found.parent_is_there);
            Ok(())
        },
    )?;
    Ok(0)
}

/// The volume of the data folder, under the letter that the product has for it where there are no letters.
fn drives(call: &SystemCall<'_, '_>) -> Result<i32> {
    let instance = call.execution.instance();
    let ask = instance.volume_space.get();
    let space = ask.and_then(|ask| ask(instance.data_dir()));
    send(call, "drive char(1)?; MB~free int?", |_, rows| {
        for space in space.iter() {
            rows.add()
                .set("drive", "C")
                .set("MB free", space.available_bytes >> 20);
        }
        Ok(())
    })?;
    Ok(0)
}
