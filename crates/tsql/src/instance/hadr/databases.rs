//! What a group does with the files of a database: open them as a secondary's or a primary's, show them to sessions, put them away.
//!
//! Theory: the service decides on roles and calls this from one thread for each group; sessions see what it does by
//! [`Instance::set_availability`] and by what is open. A copy that is in no role is restoring, as it was before it joined.

use super::super::{DatabaseEntry, Instance, OpenDatabase, stored_form};
use crate::error::Result;
use crate::instance::change::ALWAYS;
use crate::instance::left_behind::registration;
use crate::messages;
use crate::session::{RESTORING, forget_restores, ready_to_follow};
use daruma_base::{DatabaseId, Lsn};
use daruma_catalog::{Catalog, DatabaseDef, FileDef};
use daruma_storage::{Database, Opening, Secondary};
use std::sync::Arc;

impl Instance {
    /// Opens the files of a database that follows another server's. One that was restored WITH NORECOVERY becomes such a one here.
    /// No page has anything from `known` on, if that is known.
    pub fn open_secondary(
        &self,
        entry: &DatabaseEntry,
        known: Option<Lsn>,
    ) -> Result<Arc<Secondary>> {
        let mut change = self.begin_change(entry, ALWAYS)?;
        let restored = change.def.options.get(RESTORING);
        if restored.is_none_or(|s| !s.is_empty()) {
            ready_to_follow(&self.env, &mut change.def)?;
            change.store()?;
        }
        let def = entry.def();
        let opening = Opening {
            registration: Some(registration(&def)),
            ..Opening::default()
        };
        let (id, files) = (DatabaseId(def.id), def.file_specs());
        Ok(Secondary::open(
            &self.engine,
            id,
            &def.name,
            files,
            known,
            opening,
        )?)
    }

    /// Recovers the files of a database that this server leads, in an epoch of this number and id. No session sees it yet.
    pub fn open_primary(&self, entry: &DatabaseEntry, epoch: (u64, u128)) -> Result<OpenDatabase> {
        self.open_as_primary(&entry.def(), epoch)
    }

    /// Lets sessions see a database, with its definitions as they are now.
    pub fn show_database(&self, entry: &DatabaseEntry, storage: &Arc<Database>) -> Result<()> {
        let catalog = Arc::new(Catalog::open(storage)?);
        let storage = storage.clone();
        entry.set_open(OpenDatabase { storage, catalog });
        self.bump_catalog_version();
        Ok(())
    }

    /// On a secondary: definitions that redo has shown since are read, and no plan made before is used again.
    pub(crate) fn follow_definitions(&self, open: &OpenDatabase) -> Result<()> {
        Ok(open.catalog.follow(|| self.bump_catalog_version())?)
    }

    /// A copy that is in no role of its own waits for more log; one that leads does not.
    pub fn set_restoring(&self, entry: &DatabaseEntry, is_restoring: bool) -> Result<()> {
        let mut change = self.begin_change(entry, ALWAYS)?;
        let options = &mut change.def.options;
        let before = match is_restoring {
            true => options.insert(RESTORING.into(), String::new()),
            false => options.remove(RESTORING),
        };
        match before.as_ref() == options.get(RESTORING) {
            true => Ok(()),
            false => change.store(),
        }
    }

    /// The files of a copy are called, and as large, as these say, wherever they lie. Files of other ids stay as they are.
    pub fn describe_files(&self, entry: &DatabaseEntry, files: &[FileDef]) -> Result<()> {
        let mut change = self.begin_change(entry, ALWAYS)?;
        let before = change.def.files.clone();
        for file in &mut change.def.files {
            if let Some(new) = files.iter().find(|f| f.id == file.id) {
                let path = std::mem::take(&mut file.path);
                *file = FileDef {
                    path,
                    ..new.clone()
                };
            }
        }
        match before == change.def.files {
            true => Ok(()),
            false => change.store(),
        }
    }

    /// What nobody else owns is `sa`'s.
    pub(crate) fn give_to_administrator(&self, def: &mut DatabaseDef) {
        def.owner_sid = None;
        if let Some(sa) = self.logins.administrator() {
            def.set_owner(&sa);
        }
    }

    /// A copy of another server's database that has just been written becomes a database of this one, which waits for more log.
    pub fn adopt_database(&self, mut def: DatabaseDef) -> Result<Arc<DatabaseEntry>> {
        let claim = self.claim_names(&[&def.name], ALWAYS)?;
        if self.database_named(&def.name).is_some() {
            return Err(messages::error(1801, &[&def.name]));
        }
        def.id = claim.free_id();
        def.offline = false;
        // Who owned it elsewhere, and what only an administrator gives, is not the other server's to say.
        self.give_to_administrator(&mut def);
        for given in ["TRUSTWORTHY", "DB_CHAINING"] {
            def.options.remove(given);
        }
        forget_restores(&mut def);
        def.options.insert(RESTORING.into(), String::new());
        self.master_catalog()?
            .put_database(&stored_form(&def, &self.data_dir))?;
        let entry = Arc::new(DatabaseEntry::new(def));
        self.insert_database(entry.clone());
        Ok(entry)
    }

    /// Error 1464 for a database that nothing can be restored to.
    pub fn check_joinable(&self, entry: &DatabaseEntry) -> Result<()> {
        let joinable = entry.is_restoring() && !entry.is_standby() && entry.held().is_none();
        match joinable {
            true => Ok(()),
            false => Err(messages::error(1464, &[&entry.name()])),
        }
    }
}
