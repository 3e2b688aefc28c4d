//! What master says of a restore that is under way, and what a start makes of one that was cut short.
//!
//! | master says | so it was stopped while | the start |
//! |---|---|---|
//! | writing | files were written beside their names (`NAME.restoring`) | removes those |
//! | exchanging | they took their names | gives the old files (`NAME.replaced`) their names back, removes the new ones |
//! | adding | files came that the database got after its backup | removes these |
//! | tidying | the database stood, elsewhere than the one it replaced | removes what is left of that |
//! | nothing | it was done, or had not begun | removes what has such a name beside a file of the database |
//!
//! A database that is new has a row in master for this alone, and no other one: the row goes as well.
//!
//! Invariant: of files that have their own names, a start removes only those that show the guid of the backup, and in whose
//! place nobody's was before.

use super::exchange::{REPLACED_AS, RESTORED_AS, Undo, suffixed};
use crate::instance::left_behind::{Cleaner, sync_directories};
use crate::instance::{absolute, stored_form};
use daruma_base::Disk;
use daruma_catalog::{DatabaseDef, FileDef};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Option of a definition; never shown.
const UNDER_WAY: &str = "DARUMA RESTORE UNDER WAY";

/// How far a restore is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    Writing,
    Exchanging,
    Adding,
    Tidying,
}

/// A restore that is under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct UnderWay {
    step: Step,
    /// There is no database of the name without it.
    is_new: bool,
    /// Of the database that was backed up.
    guid: u64,
    /// The files that it makes; when tidying, those that it leaves. Paths as they are stored.
    files: Vec<FileDef>,
    /// Ids of those in whose place something was.
    there: Vec<u16>,
}

impl UnderWay {
    /// `files` are not there yet but for what they are to replace.
    pub fn new(
        step: Step,
        guid: u64,
        files: &[FileDef],
        is_there: impl Fn(&Path) -> bool,
    ) -> UnderWay {
        let there = files.iter().filter(|f| is_there(&f.path));
        UnderWay {
            step,
            is_new: false,
            guid,
            there: there.map(|f| f.id).collect(),
            files: files.to_vec(),
        }
    }

    /// Of a database that is not there yet.
    pub fn of_new(mut self) -> UnderWay {
        self.is_new = true;
        self
    }

    /// The same, one step further.
    pub fn at(mut self, step: Step) -> UnderWay {
        self.step = step;
        self
    }

    /// The definition that master keeps while the restore is under way: it says what the next start has to put right.
    pub fn mark(&self, def: &DatabaseDef, data_dir: &Path) -> DatabaseDef {
        let mut stored = self.clone();
        let mut paths = def.clone();
        paths.files.clone_from(&self.files);
        stored.files = stored_form(&paths, data_dir).files;
        let mut def = def.clone();
        let text = serde_json::to_string(&stored).unwrap_or_default();
        def.options.insert(UNDER_WAY.into(), text);
        def
    }

    fn of(def: &DatabaseDef, data_dir: &Path) -> Option<UnderWay> {
        let mut found: UnderWay = serde_json::from_str(def.options.get(UNDER_WAY)?).ok()?;
        for file in &mut found.files {
            file.path = absolute(&file.path, data_dir);
        }
        Some(found)
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(|f| f.path.clone()).collect()
    }

    /// False when something is left to be done at the next start.
    fn end(&self, cleaner: &Cleaner<'_>, old: &[PathBuf]) -> bool {
        let disk = cleaner.env.disk.as_ref();
        let new = self.paths();
        let beside = new.iter().chain(old);
        let mut is_done = true;
        for path in beside {
            is_done &= removed(disk, &suffixed(path, RESTORED_AS));
        }
        match self.step {
            Step::Writing => {}
            Step::Exchanging => is_done &= self.exchange_back(cleaner, old, &new),
            Step::Adding => is_done &= self.remove_added(cleaner, old),
            Step::Tidying => {
                for path in &new {
                    is_done &= removed(disk, &suffixed(path, REPLACED_AS));
                }
            }
        }
        is_done && sync_directories(cleaner.env, new.iter().chain(old)).is_ok()
    }

    fn exchange_back(&self, cleaner: &Cleaner<'_>, old: &[PathBuf], new: &[PathBuf]) -> bool {
        let there = self.files.iter().filter(|f| self.there.contains(&f.id));
        let there: Vec<PathBuf> = there.map(|f| f.path.clone()).collect();
        let undo = Undo {
            disk: cleaner.env.disk.as_ref(),
            old,
            new,
            there: &there,
        };
        let (outcome, left) = undo.names();
        let mut is_done = outcome.is_ok();
        for file in self.files.iter().filter(|f| left.contains(&&f.path)) {
            is_done &= cleaner.remove(file, Some(self.guid));
        }
        is_done
    }

    fn remove_added(&self, cleaner: &Cleaner<'_>, old: &[PathBuf]) -> bool {
        let is_added = |f: &&FileDef| !self.there.contains(&f.id) && !old.contains(&f.path);
        let added = self.files.iter().filter(is_added);
        let mut is_done = true;
        for file in added {
            is_done &= cleaner.remove(file, Some(self.guid));
        }
        is_done
    }
}

/// Nobody will say any more that a restore is under way.
pub(super) fn forget(def: &mut DatabaseDef) -> bool {
    def.options.remove(UNDER_WAY).is_some()
}

/// What a start has found of a database and a restore of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Database,
    /// None: it was being restored for the first time.
    Nothing {
        /// No file of it is left.
        is_clean: bool,
    },
}

/// At start: ends what a crash cut short.
pub(crate) fn settle_restore(
    cleaner: &Cleaner<'_>,
    data_dir: &Path,
    def: &mut DatabaseDef,
) -> Settled {
    let own: Vec<PathBuf> = def.files.iter().map(|f| f.path.clone()).collect();
    match UnderWay::of(def, data_dir) {
        None => tidy(cleaner.env.disk.as_ref(), &own),
        Some(under_way) if under_way.is_new => {
            let is_clean = under_way.end(cleaner, &[]);
            return Settled::Nothing { is_clean };
        }
        Some(under_way) => {
            if under_way.end(cleaner, &own) {
                forget(def);
            }
        }
    }
    Settled::Database
}

/// What has a name that only a restore gives, beside files that are there.
fn tidy(disk: &dyn Disk, own: &[PathBuf]) {
    for path in own {
        // A file that is missing is not made up for by removing others.
        if disk.exists(path).unwrap_or(false) {
            removed(disk, &suffixed(path, REPLACED_AS));
        }
        removed(disk, &suffixed(path, RESTORED_AS));
    }
}

fn removed(disk: &dyn Disk, path: &Path) -> bool {
    match disk.exists(path) {
        Ok(false) => true,
        Ok(true) => disk.remove(path).is_ok(),
        Err(_) => false,
    }
}
