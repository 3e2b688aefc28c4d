//! Owners of files: the gate for everything that statements let the server write, replace or remove.
//!
//! Theory: a statement names files by paths, and a path says little: `..`, links and other mounts lead to the same file.
//! So files are told apart by [`FileIdentity`]. A file belongs to a database, whatever state that is in; to the server
//! itself; or to the statement that is just writing it. A statement claims its files before it touches one, and keeps the
//! claim until they are whole, so what was nobody's at the beginning is nobody else's at the end.
//!
//! The operating system's user is not asked: what he may write outside of this, the server may.

use super::Instance;
use crate::session::files_beside;
use daruma_base::FileIdentity;
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folders of the data directory in which no statement has any business, nor with what is in them under another name.
const FOLDERS: [&str; 2] = ["log", SCRATCH_FOLDER];
/// Of scratch files, within the data directory.
pub(crate) const SCRATCH_FOLDER: &str = "spill";

/// Error of the product's operating system for a file that another has open.
pub(crate) const IN_USE: &str =
    "32(The process cannot access the file because it is being used by another process.)";
const BUSY: &str =
    "The process cannot access the file because it is being used by another process.";

/// To whom a file belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileOwner {
    /// By name.
    Database(String),
    Server,
    /// One that runs.
    Statement,
}

#[derive(Default)]
pub(crate) struct FileGate {
    /// Files of the server's own.
    own: Mutex<Vec<PathBuf>>,
    /// With what they were when they were claimed: one that is being made is another one as soon as it is there.
    claimed: Mutex<Vec<Claimed>>,
}

#[derive(Clone, PartialEq)]
struct Claimed {
    path: PathBuf,
    was: FileIdentity,
}

/// Files that a statement is writing; given back when dropped.
pub(crate) struct FileClaim {
    instance: Arc<Instance>,
    files: Vec<Claimed>,
}

impl Drop for FileClaim {
    fn drop(&mut self) {
        let mut claimed = self.instance.files.claimed.lock();
        for file in &self.files {
            if let Some(at) = claimed.iter().position(|c| c == file) {
                claimed.swap_remove(at);
            }
        }
    }
}

impl Instance {
    /// No statement writes, replaces or reads this file.
    pub fn keep_file(&self, path: &Path) {
        self.files.own.lock().push(path.to_path_buf());
    }

    /// The database or server that a file belongs to, or would belong to if it were there.
    pub(crate) fn owner_of_file(&self, path: &Path) -> Option<FileOwner> {
        let disk = &self.env.disk;
        let file = disk.identity(path);
        let is_it = |other: &PathBuf| disk.identity(other) == file;
        for entry in self.databases() {
            let def = entry.def();
            let mut own = def.files.iter().map(|f| &f.path);
            if own.any(is_it) || files_beside(&def).iter().any(is_it) {
                return Some(FileOwner::Database(entry.name()));
            }
        }
        let keys = super::master_key::files(&self.data_dir);
        let is_own = FOLDERS.iter().any(|name| self.is_of_folder(path, name))
            || keys.iter().any(is_it)
            || self.files.own.lock().iter().any(is_it);
        is_own.then_some(FileOwner::Server)
    }

    /// Is the file in a folder of the data directory, or would it be, or is it a link to one that is?
    fn is_of_folder(&self, path: &Path, folder: &str) -> bool {
        let disk = &self.env.disk;
        let (file, folder) = (disk.identity(path), self.data_dir.join(folder));
        let is_in = |p: &Path| disk.identity(p) == disk.identity(&folder);
        // What cannot be listed is not there: the server makes its folders itself.
        let content = disk.list(&folder).unwrap_or_default();
        path.parent().is_some_and(is_in)
            || file.is_missing_in(&disk.identity(&folder))
            || content.iter().any(|p| disk.identity(p) == file)
    }

    /// Takes files for a statement to write: nobody's, or those in `allowed`, which are its database's own. Else the first
    /// that is somebody's.
    pub(crate) fn claim_files(
        self: &Arc<Self>,
        paths: &[PathBuf],
        allowed: &[PathBuf],
    ) -> Result<FileClaim, (PathBuf, FileOwner)> {
        let disk = &self.env.disk;
        let allowed: Vec<FileIdentity> = allowed.iter().map(|p| disk.identity(p)).collect();
        let mut claim = FileClaim {
            instance: self.clone(),
            files: Vec::new(),
        };
        for path in paths {
            let file = disk.identity(path);
            {
                let mut claimed = self.files.claimed.lock();
                let is_it = |c: &Claimed| c.was == file || disk.identity(&c.path) == file;
                if claimed.iter().any(is_it) {
                    return Err((path.clone(), FileOwner::Statement));
                }
                let taken = Claimed {
                    path: path.clone(),
                    was: file.clone(),
                };
                claimed.push(taken.clone());
                claim.files.push(taken);
            }
            // Looked at after it was claimed: whoever made it his before has it in the registry by now.
            if let Some(owner) = self.owner_of_file(path)
                && !allowed.contains(&file)
            {
                return Err((path.clone(), owner));
            }
        }
        Ok(claim)
    }

    /// The same question as an error of the operating system.
    pub(crate) fn refuse_owned(&self, path: &Path) -> io::Result<()> {
        match self.owner_of_file(path) {
            None => Ok(()),
            Some(_) => Err(io::Error::new(io::ErrorKind::ResourceBusy, BUSY)),
        }
    }
}
