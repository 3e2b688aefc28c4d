//! The new secondary's side: files are written as their parts come.
//!
//! Theory: whoever takes the database out of the group ([`Incoming::abandon`]) waits for the part under way, and nothing is written after it:
//! then the files are somebody else's. So each part is looked at and written under one latch.
//!
//! | the copy breaks off | its files |
//! |---|---|
//! | the connection ends, the server stops | stay: the next try keeps what is in them |
//! | a part could not be written, or is none | those that this try made go |
//! | they could not be synced | go: nobody knows what is on disk |
//! | the database is the group's no longer, or the group ends here | those of a database that was not there go |
//!
//! Latches: `state`, then `files`.

use super::super::group::{Group, hex};
use super::super::kept::{Claims, KEEPS, SAME, same_pages};
use super::super::packing::{PACKED, unpacked};
use super::{BEGIN, Begin, CHUNK, END, FILES_MAX, LOG, LOOK, LogHead, PAGE_BYTES, PAGES, broken};
use daruma_base::Lsn;
use daruma_catalog::{DatabaseDef, FileDef, GroupDatabaseDef};
use daruma_group::transport::{Handler, Link, LinkError};
use daruma_group::wire::{Message, seed_frame_bytes};
use daruma_storage::{
    Epoch, Epochs, FileSpec, LogChunk, LogSection, PageRun, Rebuild, StorageError,
};
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::instance::{DatabaseEntry, file_stem};
use daruma_tsql::messages;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// The files, until they are whole, or are to be let go of.
type Files = Arc<RwLock<Option<Rebuild>>>;

/// A copy on its way in.
pub(in crate::hadr) struct Incoming {
    group: Weak<Group>,
    operation: [u8; 16],
    database: GroupDatabaseDef,
    /// The database here whose files become the copy.
    over: Option<Arc<DatabaseEntry>>,
    /// Beside `state`, so that who reads them waits for no part.
    files: Files,
    state: Mutex<Receiving>,
    changed: Condvar,
}

#[derive(Default)]
struct Receiving {
    has_begun: bool,
    definition: Option<DatabaseDef>,
    head: Option<LogHead>,
    is_whole: bool,
    failed: Option<SqlError>,
    /// Its connection has ended: what has come is for the next try.
    is_cut_off: bool,
    /// Pages that stay.
    kept_pages: u64,
    /// Who tells what is in the files.
    claims: Option<Arc<Claims>>,
}

/// What became of a copy.
pub(super) struct Arrived {
    /// The database with its files as they are here.
    pub definition: Result<DatabaseDef>,
    /// Pages that were there already.
    pub kept: u64,
}

/// Serves the connection until it ends, in a thread of its own.
pub(super) fn serve(incoming: &Arc<Incoming>, link: &Arc<Link>) -> std::io::Result<JoinHandle<()>> {
    let (served, handler) = (link.clone(), IncomingHandler(incoming.clone()));
    let builder = std::thread::Builder::new().name("hadr seed link".into());
    let serving = builder.spawn(move || {
        handler.connected(&served);
        served.serve(&handler);
    });
    if let Err(error) = &serving {
        incoming.fail(broken(&error.to_string()));
    }
    serving
}

/// The connection's handler, which lends the files to those who read them.
struct IncomingHandler(Arc<Incoming>);

impl Handler for IncomingHandler {
    fn connected(&self, link: &Arc<Link>) {
        let database = self.0.number();
        let group = self.0.group.upgrade();
        if group.is_some_and(|group| self.0.has_files(&group)) {
            let part = Arc::from([KEEPS].as_slice());
            link.send(Message::Seed { database, part });
        }
        link.send(Message::SeedAsk { database });
    }

    fn received(&self, link: &Arc<Link>, message: Message) -> std::result::Result<(), LinkError> {
        let Message::Seed { part, .. } = message else {
            return Ok(());
        };
        let group = self.0.group.upgrade().ok_or(LinkError::Closed)?;
        let (plain_bytes, claims) = self.0.receive(&group, &part)?;
        let is_packed = part.first() == Some(&PACKED);
        group.note_parts(self.0.operation, plain_bytes, part.len() as u64, is_packed);
        link.grant(seed_frame_bytes(&part));
        if let Some(claims) = claims {
            link.add(claims);
        }
        Ok(())
    }

    fn closed(&self, _: &Arc<Link>, why: &LinkError) {
        self.0.fail(broken(&why.to_string()));
    }
}

impl Incoming {
    /// Nothing has come yet. `over`: the database here whose files become the copy.
    pub(super) fn new(
        group: &Arc<Group>,
        operation: [u8; 16],
        database: &GroupDatabaseDef,
        over: Option<Arc<DatabaseEntry>>,
    ) -> Arc<Incoming> {
        Arc::new(Incoming {
            group: Arc::downgrade(group),
            operation,
            database: database.clone(),
            over,
            files: Files::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// `group_database_id`.
    pub(super) fn id(&self) -> [u8; 16] {
        self.database.group_database_id
    }

    fn number(&self) -> u128 {
        u128::from_be_bytes(self.id())
    }

    pub(super) fn name(&self) -> &str {
        &self.database.name
    }

    pub(super) fn over(&self) -> Option<&Arc<DatabaseEntry>> {
        self.over.as_ref()
    }

    /// Waits until the copy is whole, or has failed, or the server stops.
    pub(super) fn wait(&self, group: &Group) -> Arrived {
        let mut state = self.state.lock();
        while !state.is_whole && state.failed.is_none() && !group.is_stopped() {
            self.changed.wait_for(&mut state, LOOK);
        }
        let failed = state.failed.clone();
        let definition = state.definition.take();
        let whole = definition.clone().filter(|_| state.is_whole);
        if whole.is_none() {
            self.leave_files(group, &state, definition);
        }
        // Nothing more is taken.
        state.failed.get_or_insert_with(|| broken("it has ended"));
        Arrived {
            definition: whole.ok_or_else(|| failed.unwrap_or_else(|| broken("the server stops"))),
            kept: state.kept_pages,
        }
    }

    /// Is the copy still to become a database here?
    fn is_wanted(&self, group: &Group) -> bool {
        match &self.over {
            Some(_) => group.may_write_over(self.id()),
            None => !group.has_ended() && group.names(self.id()),
        }
    }

    /// What is done with the files of a copy that broke off.
    fn leave_files(&self, group: &Group, state: &Receiving, definition: Option<DatabaseDef>) {
        let files = self.files.write().take();
        if self.over.is_none() && !self.is_wanted(group) {
            drop(files);
            definition.iter().for_each(|def| remove_files(group, def));
        } else if state.failed.is_some() && !state.is_cut_off {
            files
                .into_iter()
                .for_each(|mut files| files.remove_created());
        }
    }

    /// Nothing is written from here on: the files are to be somebody else's. It waits for the part under way.
    pub(super) fn abandon(&self) {
        self.fail(broken("the database has left the group"));
        // Its files are the copy's, or none.
        self.files.write().take();
    }

    fn fail(&self, why: SqlError) {
        let mut state = self.state.lock();
        state.is_cut_off |= state.failed.is_none();
        state.failed.get_or_insert(why);
        self.changed.notify_all();
    }

    /// Is there a first data file to be written over?
    fn has_files(&self, group: &Group) -> bool {
        let own = self.over.iter().find_map(|entry| {
            let def = entry.def();
            let first = def.files.iter().find(|f| f.id == 1);
            first.map(|f| f.path.clone())
        });
        let path = own.unwrap_or_else(|| self.file_path(group, 1, false));
        group.common.disk().exists(&path).unwrap_or(false)
    }

    fn file_path(&self, group: &Group, file: u16, is_log: bool) -> PathBuf {
        let instance = &group.common.instance;
        let stem = file_stem(&self.database.name);
        let id = hex(self.id());
        match is_log {
            true => instance.log_dir().join(format!("{stem}_{id}_{file}.ldf")),
            false => instance.data_dir().join(format!("{stem}_{id}_{file}.mdf")),
        }
    }

    /// Takes a part. Its bytes unpacked, and who tells sums of the files from now on.
    fn receive(
        &self,
        group: &Group,
        part: &[u8],
    ) -> std::result::Result<(u64, Option<Arc<Claims>>), LinkError> {
        let mut state = self.state.lock();
        // Whoever takes the database out of the group says so first, and then waits for this latch.
        if state.failed.is_some() || !self.is_wanted(group) {
            return Err(LinkError::Closed);
        }
        let plain = unpacked(part).ok_or_else(|| broken("a packed part that cannot be"));
        let taken = plain.and_then(|plain| {
            let claims = self.take(group, &mut state, &plain)?;
            Ok((plain.len() as u64, claims))
        });
        self.changed.notify_all();
        taken.map_err(|error| {
            let why = error.message.clone();
            state.failed = Some(error);
            LinkError::Protocol(why)
        })
    }

    fn take(
        &self,
        group: &Group,
        state: &mut Receiving,
        part: &[u8],
    ) -> Result<Option<Arc<Claims>>> {
        let (kind, body) = part.split_first().ok_or_else(|| broken("an empty part"))?;
        match *kind {
            BEGIN => return self.take_begin(group, state, body),
            PAGES => self.take_pages(body)?,
            SAME => self.take_same(state, body)?,
            LOG => self.take_log(state, body)?,
            CHUNK => self.take_chunk(body)?,
            END => {
                self.finish(group, state)?;
                state.is_whole = true;
            }
            _ => return Err(broken("an unknown part")),
        }
        Ok(None)
    }

    /// The database with its files as they are to be here.
    fn own_definition(&self, group: &Group, theirs: &DatabaseDef) -> Result<DatabaseDef> {
        if let Some(entry) = &self.over {
            return over_own_files(&entry.def(), theirs);
        }
        let mut definition = theirs.clone();
        definition.name.clone_from(&self.database.name);
        for file in &mut definition.files {
            file.path = self.file_path(group, file.id, file.filegroup == 0);
            if group.common.instance.database_of_file(&file.path).is_some() {
                return Err(messages::error(5170, &[&file.path.display()]));
            }
        }
        Ok(definition)
    }

    fn take_begin(
        &self,
        group: &Group,
        state: &mut Receiving,
        body: &[u8],
    ) -> Result<Option<Arc<Claims>>> {
        let begin: Begin = serde_json::from_slice(body).map_err(|e| broken(&e.to_string()))?;
        if std::mem::replace(&mut state.has_begun, true) || begin.definition.files.len() > FILES_MAX
        {
            return Err(broken("a description that cannot be"));
        }
        let mut definition = self.own_definition(group, &begin.definition)?;
        for file in &mut definition.files {
            let size = begin.sizes.iter().find(|(id, _)| *id == file.id);
            file.size_pages = size.map_or(file.size_pages, |(_, size)| *size);
        }
        let (mut data, logs): (Vec<FileSpec>, Vec<FileSpec>) = specs(&definition)
            .into_iter()
            .partition(|s| s.filegroup != 0);
        // With the first one the boot pages go: nobody can open what is left by a crash in the midst.
        data.sort_by_key(|s| s.id);
        let mut rebuild = Rebuild::new(group.common.instance.env(), begin.guid);
        for spec in &data {
            if !begin.takes_sums {
                let _ = group.common.disk().remove(&spec.path);
            }
            let reused = match begin.takes_sums {
                true => rebuild.reuse_file(spec),
                false => Ok(false),
            };
            if !reused.inspect_err(|e| distrust(group, &definition, e))? {
                rebuild.create_file(spec)?;
            }
        }
        for spec in &logs {
            let _ = group.common.disk().remove(&spec.path);
        }
        group.note_total(self.operation, begin.pages * PAGE_BYTES as u64);
        let mut reused: Vec<(u16, u64)> = rebuild.reused().collect();
        let place = |file: u16| begin.sizes.iter().position(|(id, _)| *id == file);
        reused.sort_by_key(|(file, _)| place(*file));
        *self.files.write() = Some(rebuild);
        state.definition = Some(definition);
        state.claims = begin.takes_sums.then(|| self.claims(&reused));
        Ok(state.claims.clone())
    }

    /// Tells sums of these files, which were there, with their pages.
    fn claims(&self, reused: &[(u16, u64)]) -> Arc<Claims> {
        let files = self.files.clone();
        let read = move |reader: &mut dyn FnMut(&Rebuild)| {
            files.read().iter().for_each(reader);
        };
        Arc::new(Claims::new(self.number(), reused, Box::new(read)))
    }

    /// With the files, while they are there.
    fn with<T>(&self, what: &str, work: impl FnOnce(&Rebuild) -> Result<T>) -> Result<T> {
        let files = self.files.read();
        work(files.as_ref().ok_or_else(|| broken(what))?)
    }

    fn take_pages(&self, body: &[u8]) -> Result<()> {
        const BAD: &str = "pages that cannot be";
        let bad = || broken(BAD);
        let (file, rest) = body.split_first_chunk().ok_or_else(bad)?;
        let (first, pages) = rest.split_first_chunk().ok_or_else(bad)?;
        let count = u32::try_from(pages.len() / PAGE_BYTES).map_err(|_| bad())?;
        let first = u32::from_le_bytes(*first);
        let run = PageRun { first, count };
        self.with(BAD, |files| {
            Ok(files.write_pages(u16::from_le_bytes(*file), run, pages)?)
        })
    }

    fn take_same(&self, state: &mut Receiving, body: &[u8]) -> Result<()> {
        const BAD: &str = "pages that cannot stay";
        let (file, run) = same_pages(body).ok_or_else(|| broken(BAD))?;
        self.with(BAD, |files| Ok(files.keep_pages(file, run)?))?;
        state.kept_pages += u64::from(run.count);
        Ok(())
    }

    fn take_log(&self, state: &mut Receiving, body: &[u8]) -> Result<()> {
        let head: LogHead = serde_json::from_slice(body).map_err(|e| broken(&e.to_string()))?;
        let bad = || broken("a log that cannot be");
        let definition = state.definition.as_ref().ok_or_else(bad)?;
        state.claims.iter().for_each(|claims| claims.stop());
        let log = specs(definition).into_iter().find(|s| s.filegroup == 0);
        let section = |(start, bytes, incarnation): &(u64, u64, u32)| LogSection {
            start: Lsn(*start),
            bytes: *bytes,
            incarnation: *incarnation,
        };
        let sections: Vec<LogSection> = head.sections.iter().map(section).collect();
        let mut files = self.files.write();
        let rebuild = files.as_mut().ok_or_else(bad)?;
        rebuild.create_log(&log.ok_or_else(bad)?, &sections)?;
        state.head = Some(head);
        Ok(())
    }

    fn take_chunk(&self, body: &[u8]) -> Result<()> {
        const BAD: &str = "log that cannot be";
        let bad = || broken(BAD);
        let (lsn, rest) = body.split_first_chunk().ok_or_else(bad)?;
        let (incarnation, bytes) = rest.split_first_chunk().ok_or_else(bad)?;
        let chunk = LogChunk {
            lsn: Lsn(u64::from_le_bytes(*lsn)),
            incarnation: u32::from_le_bytes(*incarnation),
            bytes: bytes.to_vec(),
        };
        // It checks the blocks.
        chunk.commit_times()?;
        self.with(BAD, |files| Ok(files.write_log(&chunk)?))
    }

    /// Everything is here: the boot page makes it a database. Nobody else has the files meanwhile, and none waits for them.
    fn finish(&self, group: &Group, state: &Receiving) -> Result<()> {
        let bad = || broken("an end before everything was there");
        let files = self.files.write().take();
        let (Some(files), Some(definition), Some(head)) = (files, &state.definition, &state.head)
        else {
            return Err(bad());
        };
        files
            .finish()
            .inspect_err(|e| distrust(group, definition, e))?;
        let epoch = |(number, id, start): &(u64, [u8; 16], u64)| Epoch {
            number: *number,
            id: u128::from_be_bytes(*id),
            start: Lsn(*start),
        };
        let epochs = Epochs::from_list(head.epochs.iter().map(epoch).collect());
        let (boot, epochs) = (
            from_hex(&head.boot).ok_or_else(bad)?,
            epochs.ok_or_else(bad)?,
        );
        // By the files that it has open, whatever has become of their names.
        Ok(files.write_boot(&boot, Lsn(head.end), &epochs, false)?)
    }
}

/// The primary's files where this server's lie.
fn over_own_files(own: &DatabaseDef, theirs: &DatabaseDef) -> Result<DatabaseDef> {
    if kinds(own) != kinds(theirs) {
        return Err(broken("the primary's database has other files"));
    }
    let mut definition = own.clone();
    for file in &mut definition.files {
        if let Some(new) = theirs.files.iter().find(|f| f.id == file.id) {
            let path = std::mem::take(&mut file.path);
            *file = FileDef {
                path,
                ..new.clone()
            };
        }
    }
    Ok(definition)
}

/// Files by what they are to the log: id and filegroup.
fn kinds(definition: &DatabaseDef) -> BTreeSet<(u16, u16)> {
    let files = definition.files.iter();
    files.map(|f| (f.id, f.filegroup)).collect()
}

fn specs(definition: &DatabaseDef) -> Vec<FileSpec> {
    definition.file_specs()
}

/// After a failed sync nobody knows what is on disk, though reads may find it in memory: the next copy keeps nothing of it.
fn distrust(group: &Group, definition: &DatabaseDef, error: &StorageError) {
    if error.is_failed_sync() {
        remove_files(group, definition);
    }
}

fn remove_files(group: &Group, definition: &DatabaseDef) {
    for spec in specs(definition) {
        // What cannot be removed is in the way of the next copy, which says so.
        let _ = group.common.disk().remove(&spec.path);
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok().filter(|p| p.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    };
    pairs.map(byte).collect()
}
