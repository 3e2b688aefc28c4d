//! Automatic seeding: a replica that lacks a database of its group is sent a copy, over a connection of its own.
//!
//! Theory: the copy is what a backup is, pages as they are read beside writers and the log that makes them one state, without
//! a file in between. The new secondary asks; the primary's side of the connection is pulled part by part, as fast as the other side
//! grants. The primary keeps the log from the beginning of the copy until the connection ends, which is when the copy has joined:
//! so the log that follows is still there.
//!
//! ```text
//! begin   1 | JSON: definition, guid, sizes of files
//! pages   2 | file u16 | first page u32 | pages
//! log     3 | JSON: sections, boot page, end, epochs
//! chunk   4 | position u64 | incarnation u32 | blocks
//! end     5
//! packed  6 | any other part, packed (`packing`), where both sides can
//! same    10, and 7 to 9 of the other side: `kept`
//! ```
//!
//! A copy that breaks off is begun anew over the files that it left: of their pages those travel that are not what they are to be. Nobody
//! else has such files, since their names have the database's id in the group.
//!
//! Read next: `outgoing`, the primary's side; `incoming`, the other; `kept`, files that are there already.

mod incoming;
mod outgoing;

use super::group::Group;
use daruma_catalog::{AvailabilityMode, DatabaseDef, GroupDatabaseDef, SeedingMode, names_equal};
use daruma_group::commit::ReplicaId;
use daruma_group::transport::dial_for;
use daruma_group::wire::{Purpose, SEED_BYTES_MAX};
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::instance::hadr::{DatabaseAct, Seeding};
use daruma_tsql::messages;
pub(super) use incoming::Incoming;
use incoming::{Arrived, serve};
pub(super) use outgoing::SeedServer;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PAGE_BYTES: usize = 8192;
/// Pages of one part.
const PAGES_PER_PART: u32 = 7;
/// Pages that are found to be the other side's in one step.
const SAME_PAGES_MAX: u32 = 64 * PAGES_PER_PART;
/// Bytes of log of one part: a block at least.
const LOG_BYTES_PER_PART: usize = SEED_BYTES_MAX - 1 - 12;
/// Between two looks whether a database is missing.
const LOOK: Duration = Duration::from_secs(1);
/// After a copy that broke off.
const PAUSE: Duration = Duration::from_secs(5);
/// Copies that the view remembers.
const SEEDINGS_MAX: usize = 100;
const FILES_MAX: usize = 256;

const BEGIN: u8 = 1;
const PAGES: u8 = 2;
const LOG: u8 = 3;
const CHUNK: u8 = 4;
const END: u8 = 5;

#[derive(Serialize, Deserialize)]
struct Begin {
    definition: DatabaseDef,
    guid: u64,
    /// Pages of each file by id, as large as it is now.
    sizes: Vec<(u16, u64)>,
    pages: u64,
    /// The other side's sums are compared.
    #[serde(default)]
    takes_sums: bool,
}

#[derive(Serialize, Deserialize)]
struct LogHead {
    /// Start, bytes, incarnation.
    sections: Vec<(u64, u64, u32)>,
    /// In hexadecimal digits.
    boot: String,
    end: u64,
    /// Number, id, start.
    epochs: Vec<(u64, [u8; 16], u64)>,
}

fn json_part(kind: u8, value: &impl Serialize) -> Result<Vec<u8>> {
    let mut part = vec![kind];
    let text = serde_json::to_vec(value).map_err(|e| broken(&e.to_string()))?;
    part.extend(text);
    match part.len() <= SEED_BYTES_MAX {
        true => Ok(part),
        false => Err(broken("its description is too long")),
    }
}

fn broken(why: &str) -> SqlError {
    let text = format!("The copy of the database broke off: {why}.");
    SqlError::new(35266, 16, 1, text)
}

impl Group {
    /// Looks for databases that this server lacks, for as long as the group lives.
    pub(super) fn seed_missing(self: &Arc<Self>) {
        while !self.is_stopped() {
            let missing = self.missing();
            // One that cannot be copied keeps nobody from the others.
            let failed = missing.iter().filter(|d| !self.is_seeded(d)).count();
            self.pause(if failed > 0 { PAUSE } else { LOOK });
        }
    }

    fn is_seeded(self: &Arc<Self>, database: &GroupDatabaseDef) -> bool {
        let seeded = self.seed(database);
        if let Err(error) = &seeded {
            self.common.log(&format!(
                "Automatic seeding of database '{}' of availability group '{}' has failed: {}",
                database.name,
                self.def().name,
                error.message
            ));
        }
        seeded.is_ok()
    }

    /// May this server's copies be made by the primary?
    pub(super) fn may_seed(&self) -> bool {
        let instance = &self.common.instance;
        let row = instance.hadr.groups.find(|g| g.group_id == self.id());
        let own = self.replica(self.me.number());
        !self.is_primary()
            && !self.is_removed()
            && row.is_some_and(|g| g.creates_databases)
            && own.is_some_and(|r| {
                r.seeding_mode == SeedingMode::Automatic
                    && r.availability_mode != AvailabilityMode::ConfigurationOnly
            })
    }

    fn missing(&self) -> Vec<GroupDatabaseDef> {
        if !self.may_seed() {
            return Vec::new();
        }
        let instance = &self.common.instance;
        let def = self.def();
        let lacks = |d: &&GroupDatabaseDef| {
            instance.database_named(&d.name).is_none() || self.may_write_over(d.group_database_id)
        };
        def.databases.iter().filter(lacks).cloned().collect()
    }

    fn seed(self: &Arc<Self>, database: &GroupDatabaseDef) -> Result<()> {
        if self.is_stopped() {
            return Err(broken("the server stops"));
        }
        let no_primary = || messages::error(35250, &[]);
        let primary = ReplicaId::new(self.reign().primary).ok_or_else(no_primary)?;
        let target = self.address_of(primary).map_err(|why| broken(&why))?;
        let target = target.ok_or_else(no_primary)?;
        let over = self.common.instance.database_named(&database.name);
        if over.is_some() {
            // Without it the copy could not follow.
            self.standing(database.group_database_id)?;
        }
        let operation = self.common.random_id();
        self.note_seeding(
            operation,
            database.group_database_id,
            primary,
            &database.name,
            None,
        );
        let incoming = Incoming::new(self, operation, database, over);
        let link = dial_for(
            target.address,
            primary,
            &target.pinned,
            &target.config,
            Purpose::Seed,
        );
        let link = link.map_err(|e| broken(&e.to_string()));
        let seeded = link.and_then(|link| {
            *self.copying.lock() = Some(incoming.clone());
            let serving = serve(&incoming, &link);
            let seeded = self.receive(&incoming);
            link.close();
            if let Ok(serving) = serving {
                // One that panicked has ended as well.
                let _ = serving.join();
            }
            *self.copying.lock() = None;
            seeded
        });
        let failure = seeded.as_ref().err();
        let failure = failure.map(|e| (e.number, e.message.clone()));
        self.note_end(operation, failure);
        seeded
    }

    /// Waits until the copy is whole, then joins it; the connection stands meanwhile.
    fn receive(self: &Arc<Self>, incoming: &Incoming) -> Result<()> {
        let Arrived { definition, kept } = incoming.wait(self);
        if kept > 0 {
            self.common.log(&format!(
                "Automatic seeding of database '{}': {kept} pages were there already and were not sent.",
                incoming.name()
            ));
        }
        let definition = definition?;
        match incoming.over() {
            Some(entry) => {
                let id = incoming.id();
                let files = definition.files;
                self.ask(move |group| group.reverted(id, &files))?;
                // The primary keeps the log for the connection that stands meanwhile.
                self.await_following(id, entry)
            }
            None => self.join_copy(incoming.name(), definition),
        }
    }

    /// Nothing is written to a database any more: it is the group's no longer.
    pub(super) fn end_copy(&self, database: [u8; 16]) {
        let copying = self.copying.lock().clone();
        if let Some(copy) = copying.filter(|copy| copy.id() == database) {
            copy.abandon();
        }
    }

    /// A copy becomes a database of this server, and of the group.
    fn join_copy(self: &Arc<Self>, name: &str, definition: DatabaseDef) -> Result<()> {
        let instance = &self.common.instance;
        instance.adopt_database(definition)?;
        let row = self.def().id;
        let row = match instance.hadr.groups.by_id(row) {
            Some(row) if row.group_id == self.id() => row.id,
            _ => instance
                .hadr
                .groups
                .find(|g| g.group_id == self.id())
                .map_or(row, |g| g.id),
        };
        instance.hadr.groups.change(row, |def| {
            let service = instance.hadr.service();
            service.act_on_database(def, name, DatabaseAct::Join)?;
            let named = def.databases.iter_mut();
            named
                .filter(|d| names_equal(&d.name, name))
                .for_each(|d| d.is_joined = true);
            Ok(())
        })?;
        Ok(())
    }

    // --- what the view shows

    fn note_seeding(
        &self,
        operation: [u8; 16],
        database: [u8; 16],
        remote: ReplicaId,
        name: &str,
        total: Option<u64>,
    ) {
        let replica = self.replica(remote.number());
        let mut seedings = self.seedings.lock();
        let same = |s: &Seeding| s.group_database_id == database && s.is_source == total.is_some();
        let attempts = seedings.iter().filter(|s| same(s)).count();
        let excess = (seedings.len() + 1).saturating_sub(SEEDINGS_MAX);
        seedings.drain(..excess);
        seedings.push(Seeding {
            group_id: self.id(),
            group_database_id: database,
            remote_replica_id: replica.map_or([0; 16], |r| r.replica_id),
            operation_id: operation,
            started_utc: self.common.instance.now_utc(),
            completed_utc: None,
            is_source: total.is_some(),
            database: name.to_string(),
            bytes_sent: 0,
            wire_bytes: 0,
            is_compressed: false,
            bytes_total: total.unwrap_or(0),
            failure: None,
            attempts: u32::try_from(attempts + 1).unwrap_or(u32::MAX),
        });
    }

    fn note_total(&self, operation: [u8; 16], total: u64) {
        let mut seedings = self.seedings.lock();
        let named = seedings.iter_mut();
        let named = named.filter(|s| s.operation_id == operation);
        named.for_each(|s| s.bytes_total = total);
    }

    /// So many bytes more have gone, as so many on the wire.
    fn note_parts(&self, operation: [u8; 16], bytes: u64, wire_bytes: u64, is_packed: bool) {
        let mut seedings = self.seedings.lock();
        for seeding in seedings.iter_mut().filter(|s| s.operation_id == operation) {
            seeding.bytes_sent += bytes;
            seeding.wire_bytes += wire_bytes;
            seeding.is_compressed |= is_packed;
        }
    }

    /// The copy is whole, or has failed.
    fn note_end(&self, operation: [u8; 16], failure: Option<(i32, String)>) {
        let now = self.common.instance.now_utc();
        let mut seedings = self.seedings.lock();
        for seeding in seedings.iter_mut().filter(|s| s.operation_id == operation) {
            seeding.completed_utc.get_or_insert(now);
            seeding.failure.clone_from(&failure);
        }
    }

    fn pause(&self, length: Duration) {
        self.rest_until(Instant::now() + length);
    }
}
