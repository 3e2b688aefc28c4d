//! An old primary comes back: what only this server has is given up, and its pages become the primary's.
//!
//! Theory: RESUME of a copy whose log parts from the primary's gives up what no page has. Where pages have it, the copy is sent as to a new
//! replica (`seed`), over the files that are there (`kept`): of the pages those travel that differ. Nothing depends on what the old log
//! said, so a log that is damaged or was cut does no harm, nor does a primary that changes in the midst.
//!
//! | found at a start | done |
//! |---|---|
//! | mark ([`Kept::reverting`](super::reign::Kept)), whatever the files hold | not opened: no reader, no failover to it; the pages are fetched, unless SUSPEND |
//! | mark of a database that is not there, or has left the group | the mark goes |
//! | no mark | followed |
//!
//! Order: the mark; the files are closed; their boot pages go; pages and log come; the boot page; the standing with the copy's history;
//! no mark; followed. A crash between two of these finds the mark, or what it would have found afterwards. Who leaves the group: no mark;
//! nothing more is written (`seed::incoming`); no standing.
//!
//! Tests: `crates/cli/tests/group/rejoin.rs`, `crates/server/tests/altered_groups.rs`

use super::common::file_error;
use super::group::Group;
use super::part::{DatabasePart, PartState, history_of};
use daruma_base::Lsn;
use daruma_catalog::FileDef;
use daruma_group::commit::{EpochId, Record, ReplicaId, Replicas};
use daruma_group::replica::{Followed, Standing, StandingFile};
use daruma_tsql::error::Result;
use daruma_tsql::instance::DatabaseEntry;
use daruma_tsql::instance::hadr::Availability;
use daruma_tsql::messages;
use std::sync::Arc;

impl Group {
    /// Does this server fetch the primary's pages for a database that it has?
    pub(super) fn is_reverting(&self, database: [u8; 16]) -> bool {
        self.with_kept(|kept| kept.reverting.contains(&database))
    }

    /// The same, where the files are closed and an administrator lets pages come.
    pub(super) fn may_write_over(&self, database: [u8; 16]) -> bool {
        let part = self.part(u128::from_be_bytes(database));
        let is_closed = part.is_some_and(|p| matches!(p.state, PartState::Down));
        is_closed && self.is_reverting(database) && !self.is_suspended(database)
    }

    /// Does any of the group's databases have pages of neither side?
    pub(super) fn reverts(&self) -> bool {
        let marked = self.with_kept(|kept| kept.reverting.clone());
        let parts = self.parts.lock();
        parts.iter().any(|part| marked.contains(&part.id))
    }

    /// The files of a database are not to be written over.
    pub(super) fn forget_mark(&self, database: [u8; 16]) -> Result<()> {
        self.keep(|kept| kept.reverting.retain(|id| *id != database))
    }

    /// At a start: marks of databases that have left the group, when a crash came between, or that are not there.
    pub(super) fn forget_stale_marks(&self) {
        let def = self.def();
        let is_here = |id: &[u8; 16]| {
            let mut joined = def.databases.iter().filter(|d| d.is_joined);
            let database = joined.find(|d| d.group_database_id == *id);
            database.is_some_and(|d| self.common.instance.database_named(&d.name).is_some())
        };
        let mut here = self.with_kept(|kept| kept.reverting.clone());
        here.retain(is_here);
        if let Err(error) = self.keep(|kept| kept.reverting = here) {
            self.common.log(&error.message);
        }
    }

    /// An administrator has given up what only this server has, and pages have it.
    pub(super) fn revert_if_due(&self, part: &DatabasePart, followed: &Followed) {
        if !followed.lacks_pages() || !self.may_seed() {
            return;
        }
        if let Err(error) = self.keep(|kept| kept.reverting.push(part.id)) {
            return self.common.log(&error.message);
        }
        self.common.log(&format!(
            "Database '{}' gives up what only this server has: its pages are compared with the primary's, and those that differ are fetched.",
            part.entry.name()
        ));
        self.set_availability(&part.entry, Availability::Resolving);
        self.node.remove(part.number());
        followed.stop();
        if let PartState::Followed {
            secondary, copy, ..
        } = &part.state
        {
            copy.stop();
            part.entry.take_open();
            // Nothing of it is needed any more.
            let _ = secondary.close();
        }
        self.put(part.id, &part.entry, PartState::Down);
    }

    /// The files of a database are the primary's now, and are described so: it is followed.
    pub(super) fn reverted(self: &Arc<Self>, id: [u8; 16], files: &[FileDef]) -> Result<()> {
        let part = self.part(u128::from_be_bytes(id));
        let part = part.filter(|_| self.is_reverting(id));
        let part = part.ok_or_else(|| messages::error(35251, &[]))?;
        let promised = self.standing(id)?.standing().promised;
        let instance = &self.common.instance;
        instance.describe_files(&part.entry, files)?;
        let file = self.standing_of_copy(id, &part.entry, promised)?;
        self.forget_mark(id)?;
        // From here on something may be acknowledged that is nowhere else: nothing begins anew any more.
        let followed = self.follow(id, &part.entry, file, None, Lsn::MAX);
        followed.or_else(|error| {
            self.keep(|kept| kept.reverting.push(id))?;
            Err(error)
        })
    }

    /// The standing of a copy that follows nobody yet; nothing older than `promised` is to be acknowledged.
    pub(super) fn standing_of_copy(
        &self,
        id: [u8; 16],
        entry: &Arc<DatabaseEntry>,
        promised: EpochId,
    ) -> Result<StandingFile> {
        // Opened once to be asked for its history.
        let secondary = self.common.instance.open_secondary(entry, None)?;
        let history = history_of(secondary.unread_database());
        secondary.close()?;
        let primary = ReplicaId::new(self.reign().primary).unwrap_or(self.me);
        let standing = Standing {
            promised,
            history: history?,
            record: Record {
                epoch: EpochId::default(),
                primary,
                members: Replicas::NONE.with(primary),
                sequence: 0,
            },
        };
        let path = self.standing_path(id);
        StandingFile::create(self.common.disk(), &path, standing).map_err(|e| file_error(&path, &e))
    }
}
