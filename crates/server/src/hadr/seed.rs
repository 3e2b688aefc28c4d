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

use super::group::{Group, hex};
use super::kept::{Claims, KEEPS, Known, SAME, Sums, bytes_read, same_pages, same_part, sum_of};
use super::pace::Pace;
use super::packing::{PACKED, Packing, unpacked};
use super::part::PartState;
use daruma_base::Lsn;
use daruma_catalog::{AvailabilityMode, DatabaseDef, GroupDatabaseDef, SeedingMode, names_equal};
use daruma_group::commit::ReplicaId;
use daruma_group::transport::{Handler, Link, LinkError, Pull, Source, dial_for};
use daruma_group::wire::{Message, Purpose, SEED_BYTES_MAX, seed_frame_bytes};
use daruma_storage::{
    DataCopy, Epoch, Epochs, FileSpec, LogChunk, LogSection, LogSource, PageRun, Rebuild,
};
use daruma_tsql::error::{Result, SqlError};
use daruma_tsql::instance::hadr::{DatabaseAct, Seeding};
use daruma_tsql::instance::{DatabaseEntry, SEEDING_RATE, file_stem};
use daruma_tsql::messages;
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
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

// --- the primary's side

/// What a primary does on a connection that was made for a copy.
pub(super) struct SeedServer {
    group: Weak<Group>,
    /// If the other side has files already.
    sums: Mutex<Option<Arc<Sums>>>,
}

impl SeedServer {
    pub(super) fn new(group: Weak<Group>) -> SeedServer {
        SeedServer {
            group,
            sums: Mutex::default(),
        }
    }

    fn take_sums(&self, link: &Arc<Link>, part: &[u8]) -> Option<()> {
        let mut sums = self.sums.lock();
        match &*sums {
            Some(sums) => sums.take(part),
            None if part == [KEEPS] => {
                *sums = Some(Sums::new(link));
                link.grant(seed_frame_bytes(part));
                Some(())
            }
            None => None,
        }
    }
}

impl Handler for SeedServer {
    fn connected(&self, _: &Arc<Link>) {}

    fn received(&self, link: &Arc<Link>, message: Message) -> std::result::Result<(), LinkError> {
        let Some(group) = self.group.upgrade() else {
            return Ok(());
        };
        let database = match message {
            Message::SeedAsk { database } => database,
            Message::Seed { part, .. } => {
                let unknown = || LinkError::Protocol("an unknown part".into());
                return self.take_sums(link, &part).ok_or_else(unknown);
            }
            _ => return Ok(()),
        };
        match group.begin_copy(link, database, self.sums.lock().clone()) {
            Ok(source) => link.add(source),
            Err(error) => link.send(Message::Bye {
                reason: error.message,
            }),
        }
        Ok(())
    }

    fn closed(&self, _: &Arc<Link>, _: &LinkError) {}
}

/// A copy on its way out.
struct Outgoing {
    group: Weak<Group>,
    database: u128,
    operation: [u8; 16],
    link: Weak<Link>,
    definition: DatabaseDef,
    began: Instant,
    sums: Option<Arc<Sums>>,
    state: Mutex<Sending>,
}

struct Sending {
    copy: DataCopy,
    step: Step,
    packing: Packing,
    pace: Pace,
}

enum Step {
    Begin,
    /// The next file and run of the copy, and the page within it.
    Pages(usize, usize, u32),
    Log(LogSource),
    Over,
}

impl Group {
    fn begin_copy(
        &self,
        link: &Arc<Link>,
        database: u128,
        sums: Option<Arc<Sums>>,
    ) -> Result<Arc<dyn Source>> {
        let part = self.part(database);
        let part = part.ok_or_else(|| messages::error(35251, &[]))?;
        let PartState::Led { storage, .. } = &part.state else {
            return Err(messages::error(35251, &[]));
        };
        let copy = storage.start_copy()?;
        let operation = self.common.random_id();
        let name = part.entry.name();
        self.note_seeding(
            operation,
            part.id,
            link.peer().replica,
            &name,
            Some(total_bytes(&copy)),
        );
        Ok(Arc::new(Outgoing {
            group: self.common.weak(self.id()),
            database,
            operation,
            link: Arc::downgrade(link),
            definition: (*part.entry.def()).clone(),
            began: Instant::now(),
            sums,
            state: Mutex::new(Sending {
                copy,
                step: Step::Begin,
                packing: Packing::new(link.peer().codecs),
                pace: Pace::default(),
            }),
        }))
    }
}

fn total_bytes(copy: &DataCopy) -> u64 {
    let pages: u64 = copy.files().iter().map(|f| f.pages).sum();
    pages * PAGE_BYTES as u64
}

/// What a copy has to send.
enum Next {
    Part(Vec<u8>),
    /// The other side is to say first what it has.
    Awaited,
    Over,
}

impl Outgoing {
    fn next(&self) -> Result<Next> {
        let mut state = self.state.lock();
        let Sending { copy, step, .. } = &mut *state;
        let (part, next) = match step {
            Step::Begin => (self.begin(copy)?, Step::Pages(0, 0, 0)),
            Step::Pages(file, run, page) => {
                match pages_of(copy, self.sums.as_deref(), *file, *run, *page)? {
                    Pages::Part(part, next) => (part, next),
                    Pages::Awaited => return Ok(Next::Awaited),
                    Pages::Over => log_of(copy)?,
                }
            }
            Step::Log(source) => match source.next(LOG_BYTES_PER_PART)? {
                Some(chunk) => {
                    let mut part = vec![CHUNK];
                    part.extend(chunk.lsn.0.to_le_bytes());
                    part.extend(chunk.incarnation.to_le_bytes());
                    part.extend(&chunk.bytes);
                    return Ok(Next::Part(part));
                }
                None => (vec![END], Step::Over),
            },
            Step::Over => return Ok(Next::Over),
        };
        *step = next;
        Ok(Next::Part(part))
    }

    /// The part as it travels, and is it packed?
    fn packed(&self, group: &Group, link: &Link, part: Vec<u8>) -> (Vec<u8>, bool) {
        let mode = group.common.seeding_mode();
        let mut state = self.state.lock();
        let packing = &mut state.packing;
        packing.arrived(link.outstanding_bytes(), self.began.elapsed());
        let packed = packing.pack(mode, part, || self.began.elapsed());
        let is_packed = packed.first() == Some(&PACKED);
        (packed, is_packed)
    }

    /// So many bytes were read for what leaves.
    fn keep_pace(&self, group: &Group, bytes: u64) {
        let bytes_per_s = group
            .common
            .instance
            .configuration
            .bytes_in_use(SEEDING_RATE);
        let now = self.began.elapsed();
        self.state.lock().pace.leaves(bytes, bytes_per_s, now);
    }

    fn begin(&self, copy: &DataCopy) -> Result<Vec<u8>> {
        let sizes = copy.files().iter();
        let head = Begin {
            definition: self.definition.clone(),
            guid: copy.guid(),
            sizes: sizes.map(|f| (f.info.spec.id, f.info.size_pages)).collect(),
            pages: copy.files().iter().map(|f| f.pages).sum(),
            takes_sums: self.sums.is_some(),
        };
        json_part(BEGIN, &head)
    }
}

/// The next pages.
enum Pages {
    /// The part, and the step after it.
    Part(Vec<u8>, Step),
    Awaited,
    /// There are no more.
    Over,
}

fn pages_of(
    copy: &DataCopy,
    sums: Option<&Sums>,
    file: usize,
    run: usize,
    page: u32,
) -> Result<Pages> {
    let Some(extents) = copy.files().get(file) else {
        return Ok(Pages::Over);
    };
    let Some(whole) = extents.runs.get(run) else {
        return pages_of(copy, sums, file + 1, 0, 0);
    };
    let number = extents.info.spec.id;
    let piece = |page: u32| PageRun {
        first: whole.first + page,
        count: (whole.count - page).min(PAGES_PER_PART),
    };
    let after = |page: u32| match page < whole.count {
        true => Step::Pages(file, run, page),
        false => Step::Pages(file, run + 1, 0),
    };
    let mut same = PageRun {
        first: whole.first + page,
        count: 0,
    };
    let compared = loop {
        if page + same.count >= whole.count || same.count >= SAME_PAGES_MAX {
            break None;
        }
        let compared = compare(copy, sums, number, piece(page + same.count))?;
        match compared {
            Compared::Same(count) => same.count += count,
            other => break Some(other),
        }
    };
    // What stays goes before what does not; that is read again in the next step.
    match compared {
        _ if same.count > 0 => Ok(Pages::Part(
            same_part(number, same),
            after(page + same.count),
        )),
        Some(Compared::Differ(part, count)) => Ok(Pages::Part(part, after(page + count))),
        _ => Ok(Pages::Awaited),
    }
}

/// Pages of one part beside what the other side has.
enum Compared {
    Same(u32),
    /// They are to be sent.
    Differ(Vec<u8>, u32),
    /// It has not said so yet.
    Awaited,
}

fn compare(
    copy: &DataCopy,
    sums: Option<&Sums>,
    file: u16,
    mut piece: PageRun,
) -> Result<Compared> {
    let order: Vec<u16> = copy.files().iter().map(|f| f.info.spec.id).collect();
    let mut known = Vec::new();
    for page in piece.first..piece.first + piece.count {
        match sums.map_or(Known::Nothing, |sums| sums.of(&order, file, page)) {
            Known::NotYet => break,
            of_it => known.push(of_it),
        }
    }
    piece.count = u32::try_from(known.len()).unwrap_or(0);
    if piece.count == 0 {
        return Ok(Compared::Awaited);
    }
    let mut part = vec![PAGES];
    part.extend(file.to_le_bytes());
    part.extend(piece.first.to_le_bytes());
    let at = part.len();
    part.resize(at + piece.count as usize * PAGE_BYTES, 0);
    let room = part.get_mut(at..).unwrap_or_default();
    copy.read(file, piece, room)?;
    let mut pages = room.chunks_exact(PAGE_BYTES).zip(&known);
    let stays =
        |(page, known): (&[u8], &Known)| matches!(known, Known::Sum(sum) if *sum == sum_of(page));
    match pages.all(stays) {
        true => Ok(Compared::Same(piece.count)),
        false => Ok(Compared::Differ(part, piece.count)),
    }
}

/// The head of the log that makes the pages one state, which ends now.
fn log_of(copy: &DataCopy) -> Result<(Vec<u8>, Step)> {
    let db = copy.database();
    let end = copy.harden()?;
    let mut sections = Vec::new();
    let mut source = db.read_log(copy.log_start(), end)?;
    while let Some(chunk) = source.next(LOG_BYTES_PER_PART)? {
        let bytes = chunk.bytes.len() as u64;
        LogSection::extend(&mut sections, chunk.lsn, bytes, chunk.incarnation);
    }
    let epochs = db.epochs();
    let within = epochs.list().iter().filter(|e| e.start < end);
    let head = LogHead {
        sections: sections
            .iter()
            .map(|s| (s.start.0, s.bytes, s.incarnation))
            .collect(),
        boot: copy
            .boot_image()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect(),
        end: end.0,
        epochs: within
            .map(|e| (e.number, e.id.to_be_bytes(), e.start.0))
            .collect(),
    };
    let source = db.read_log(copy.log_start(), end)?;
    Ok((json_part(LOG, &head)?, Step::Log(source)))
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

impl Source for Outgoing {
    fn pull(&self) -> Pull {
        let (Some(group), Some(link)) = (self.group.upgrade(), self.link.upgrade()) else {
            return Pull::Nothing;
        };
        if let Some(wait) = self.state.lock().pace.wait(self.began.elapsed()) {
            return Pull::Later(wait);
        }
        match self.next() {
            Ok(Next::Part(part)) => {
                let bytes = part.len() as u64;
                self.keep_pace(&group, bytes_read(&part));
                let is_over = part.first() == Some(&END);
                let (part, is_packed) = self.packed(&group, &link, part);
                group.note_parts(self.operation, bytes, part.len() as u64, is_packed);
                if is_over {
                    group.note_end(self.operation, None);
                }
                Pull::Send(Message::Seed {
                    database: self.database,
                    part: Arc::from(part),
                })
            }
            Ok(Next::Awaited | Next::Over) => Pull::Nothing,
            Err(error) => {
                group.note_end(self.operation, Some((error.number, error.message)));
                link.close();
                Pull::Nothing
            }
        }
    }
}

// --- the new secondary's side

/// A copy on its way in.
struct Incoming {
    group: Weak<Group>,
    operation: [u8; 16],
    database: GroupDatabaseDef,
    /// The database here whose files become the copy.
    over: Option<Arc<DatabaseEntry>>,
    state: Mutex<Receiving>,
    changed: Condvar,
}

#[derive(Default)]
struct Receiving {
    rebuild: Option<Rebuild>,
    definition: Option<DatabaseDef>,
    head: Option<LogHead>,
    is_whole: bool,
    failed: Option<SqlError>,
    /// Its connection has ended: what has come is for the next try.
    is_cut_off: bool,
    /// Pages that stay.
    kept_pages: u64,
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
        let Incoming { operation, .. } = *self.0;
        let group = self.0.group.upgrade().ok_or(LinkError::Closed)?;
        let is_wanted =
            self.0.over.is_none() || group.is_closed_to_revert(self.0.database.group_database_id);
        if !is_wanted {
            return Err(LinkError::Closed);
        }
        let (plain_bytes, claims) = self.0.receive(&group, &part)?;
        let is_packed = part.first() == Some(&PACKED);
        group.note_parts(operation, plain_bytes, part.len() as u64, is_packed);
        link.grant(seed_frame_bytes(&part));
        if let Some(files) = claims {
            let lender = self.0.clone();
            let read = move |reader: &mut dyn FnMut(&Rebuild)| {
                lender.state.lock().rebuild.iter().for_each(reader)
            };
            let claims = Claims::new(self.0.number(), &files, Box::new(read));
            link.add(Arc::new(claims));
        }
        Ok(())
    }

    fn closed(&self, _: &Arc<Link>, why: &LinkError) {
        let mut state = self.0.state.lock();
        state.is_cut_off |= state.failed.is_none();
        state.failed.get_or_insert_with(|| broken(&why.to_string()));
        self.0.changed.notify_all();
    }
}

/// Files that were there, with their pages, in the copy's order.
type Reused = Vec<(u16, u64)>;

impl Incoming {
    fn number(&self) -> u128 {
        u128::from_be_bytes(self.database.group_database_id)
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
        let id = hex(self.database.group_database_id);
        match is_log {
            true => instance.log_dir().join(format!("{stem}_{id}_{file}.ldf")),
            false => instance.data_dir().join(format!("{stem}_{id}_{file}.mdf")),
        }
    }

    /// Takes a part. Its bytes unpacked, and the files of which sums are to be told from now on.
    fn receive(
        &self,
        group: &Group,
        part: &[u8],
    ) -> std::result::Result<(u64, Option<Reused>), LinkError> {
        let mut state = self.state.lock();
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

    fn take(&self, group: &Group, state: &mut Receiving, part: &[u8]) -> Result<Option<Reused>> {
        let (kind, body) = part.split_first().ok_or_else(|| broken("an empty part"))?;
        match *kind {
            BEGIN => return self.take_begin(group, state, body),
            PAGES => take_pages(state, body)?,
            SAME => take_same(state, body)?,
            LOG => take_log(state, body)?,
            CHUNK => take_chunk(state, body)?,
            END => {
                finish(group, state)?;
                state.is_whole = true;
            }
            _ => return Err(broken("an unknown part")),
        }
        Ok(None)
    }

    /// The database with its files as they are to be here.
    fn own_definition(&self, group: &Group, theirs: &DatabaseDef) -> Result<DatabaseDef> {
        if let Some(entry) = &self.over {
            let own = (*entry.def()).clone();
            return match kinds(&own) == kinds(theirs) {
                true => Ok(own),
                false => Err(broken("the primary's database has other files")),
            };
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
    ) -> Result<Option<Reused>> {
        let begin: Begin = serde_json::from_slice(body).map_err(|e| broken(&e.to_string()))?;
        if state.rebuild.is_some() || begin.definition.files.len() > FILES_MAX {
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
            if !reused.inspect_err(|_| remove_files(group, &definition))? {
                rebuild.create_file(spec)?;
            }
        }
        for spec in &logs {
            let _ = group.common.disk().remove(&spec.path);
        }
        group.note_total(self.operation, begin.pages * PAGE_BYTES as u64);
        let mut reused: Reused = rebuild.reused().collect();
        let place = |file: u16| begin.sizes.iter().position(|(id, _)| *id == file);
        reused.sort_by_key(|(file, _)| place(*file));
        (state.rebuild, state.definition) = (Some(rebuild), Some(definition));
        Ok(begin.takes_sums.then_some(reused))
    }
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
fn remove_files(group: &Group, definition: &DatabaseDef) {
    for spec in specs(definition) {
        // What cannot be removed is in the way of the next copy, which says so.
        let _ = group.common.disk().remove(&spec.path);
    }
}

fn take_pages(state: &mut Receiving, body: &[u8]) -> Result<()> {
    let bad = || broken("pages that cannot be");
    let (file, rest) = body.split_first_chunk().ok_or_else(bad)?;
    let (first, pages) = rest.split_first_chunk().ok_or_else(bad)?;
    let rebuild = state.rebuild.as_ref().ok_or_else(bad)?;
    let count = u32::try_from(pages.len() / PAGE_BYTES).map_err(|_| bad())?;
    let first = u32::from_le_bytes(*first);
    let run = PageRun { first, count };
    Ok(rebuild.write_pages(u16::from_le_bytes(*file), run, pages)?)
}

fn take_same(state: &mut Receiving, body: &[u8]) -> Result<()> {
    let bad = || broken("pages that cannot stay");
    let (file, run) = same_pages(body).ok_or_else(bad)?;
    let rebuild = state.rebuild.as_ref().ok_or_else(bad)?;
    rebuild.keep_pages(file, run)?;
    state.kept_pages += u64::from(run.count);
    Ok(())
}

fn take_log(state: &mut Receiving, body: &[u8]) -> Result<()> {
    let head: LogHead = serde_json::from_slice(body).map_err(|e| broken(&e.to_string()))?;
    let bad = || broken("a log that cannot be");
    let definition = state.definition.as_ref().ok_or_else(bad)?;
    let log = specs(definition).into_iter().find(|s| s.filegroup == 0);
    let section = |(start, bytes, incarnation): &(u64, u64, u32)| LogSection {
        start: Lsn(*start),
        bytes: *bytes,
        incarnation: *incarnation,
    };
    let sections: Vec<LogSection> = head.sections.iter().map(section).collect();
    let rebuild = state.rebuild.as_mut().ok_or_else(bad)?;
    rebuild.create_log(&log.ok_or_else(bad)?, &sections)?;
    state.head = Some(head);
    Ok(())
}

fn take_chunk(state: &mut Receiving, body: &[u8]) -> Result<()> {
    let bad = || broken("log that cannot be");
    let (lsn, rest) = body.split_first_chunk().ok_or_else(bad)?;
    let (incarnation, bytes) = rest.split_first_chunk().ok_or_else(bad)?;
    let chunk = LogChunk {
        lsn: Lsn(u64::from_le_bytes(*lsn)),
        incarnation: u32::from_le_bytes(*incarnation),
        bytes: bytes.to_vec(),
    };
    // It checks the blocks.
    chunk.commit_times()?;
    let rebuild = state.rebuild.as_ref().ok_or_else(bad)?;
    Ok(rebuild.write_log(&chunk)?)
}

/// Everything is here: the boot page makes it a database.
fn finish(group: &Group, state: &mut Receiving) -> Result<()> {
    let bad = || broken("an end before everything was there");
    let (Some(rebuild), Some(definition), Some(head)) =
        (state.rebuild.take(), &state.definition, &state.head)
    else {
        return Err(bad());
    };
    rebuild
        .finish()
        .inspect_err(|_| remove_files(group, definition))?;
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
    Ok(rebuild.write_boot(&boot, Lsn(head.end), &epochs, false)?)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok().filter(|p| p.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    };
    pairs.map(byte).collect()
}

impl Group {
    /// Looks for databases that this server lacks, for as long as the group lives.
    pub(super) fn seed_missing(self: &Arc<Self>) {
        while !self.is_stopped() {
            let missing = self.missing();
            let failed = missing.iter().any(|database| {
                let seeded = self.seed(database);
                if let Err(error) = &seeded {
                    self.common.log(&format!(
                        "Automatic seeding of database '{}' of availability group '{}' has failed: {}",
                        database.name,
                        self.def().name,
                        error.message
                    ));
                }
                seeded.is_err()
            });
            self.pause(if failed { PAUSE } else { LOOK });
        }
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
            instance.database_named(&d.name).is_none()
                || self.is_closed_to_revert(d.group_database_id)
        };
        def.databases.iter().filter(lacks).cloned().collect()
    }

    fn seed(self: &Arc<Self>, database: &GroupDatabaseDef) -> Result<()> {
        let no_primary = || messages::error(35250, &[]);
        let primary = ReplicaId::new(self.reign().primary).ok_or_else(no_primary)?;
        let target = self.address_of(primary).map_err(|why| broken(&why))?;
        let target = target.ok_or_else(no_primary)?;
        let operation = self.common.random_id();
        self.note_seeding(
            operation,
            database.group_database_id,
            primary,
            &database.name,
            None,
        );
        let incoming = Arc::new(Incoming {
            group: Arc::downgrade(self),
            operation,
            database: database.clone(),
            over: self.common.instance.database_named(&database.name),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let link = dial_for(
            target.address,
            primary,
            &target.pinned,
            &target.config,
            Purpose::Seed,
        );
        let link = link.map_err(|e| broken(&e.to_string()));
        let seeded = link.and_then(|link| {
            let (served, handler) = (link.clone(), IncomingHandler(incoming.clone()));
            let builder = std::thread::Builder::new().name("hadr seed link".into());
            let serving = builder.spawn(move || {
                handler.connected(&served);
                served.serve(&handler);
            });
            let seeded = self.receive(&incoming);
            link.close();
            if let Ok(serving) = serving {
                // One that panicked has ended as well.
                let _ = serving.join();
            }
            seeded
        });
        let failure = seeded.as_ref().err();
        let failure = failure.map(|e| (e.number, e.message.clone()));
        self.note_end(operation, failure);
        seeded
    }

    /// Waits until the copy is whole, then joins it; the connection stands meanwhile.
    fn receive(self: &Arc<Self>, incoming: &Incoming) -> Result<()> {
        let definition = {
            let mut state = incoming.state.lock();
            while !state.is_whole && state.failed.is_none() && !self.is_stopped() {
                incoming.changed.wait_for(&mut state, LOOK);
            }
            let definition = state.definition.take().filter(|_| state.is_whole);
            if definition.is_none()
                && !state.is_cut_off
                && let Some(rebuild) = &mut state.rebuild
            {
                rebuild.remove_created();
            }
            if state.kept_pages > 0 {
                self.common.log(&format!(
                    "Automatic seeding of database '{}': {} pages were there already and were not sent.",
                    incoming.database.name, state.kept_pages
                ));
            }
            let failed = state.failed.take();
            definition.ok_or_else(|| failed.unwrap_or_else(|| broken("the server stops")))?
        };
        if incoming.over.is_some() {
            let id = incoming.database.group_database_id;
            return self.ask(move |group| group.reverted(id));
        }
        let instance = &self.common.instance;
        instance.adopt_database(definition)?;
        let (row, name) = (self.def().id, incoming.database.name.clone());
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
            service.act_on_database(def, &name, DatabaseAct::Join)?;
            let named = def.databases.iter_mut();
            named
                .filter(|d| names_equal(&d.name, &name))
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
