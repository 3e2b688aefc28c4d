//! The primary's side: what a copy sends, as the other side grants.

use super::super::group::Group;
use super::super::kept::{KEEPS, Known, Sums, bytes_read, same_part, sum_of};
use super::super::pace::Pace;
use super::super::packing::{PACKED, Packing};
use super::super::part::PartState;
use super::{
    BEGIN, Begin, CHUNK, END, LOG, LOG_BYTES_PER_PART, LogHead, PAGE_BYTES, PAGES, PAGES_PER_PART,
    SAME_PAGES_MAX, json_part,
};
use daruma_catalog::DatabaseDef;
use daruma_group::transport::{Handler, Link, LinkError, Pull, Source};
use daruma_group::wire::{Message, seed_frame_bytes};
use daruma_storage::{DataCopy, LogSection, LogSource, PageRun};
use daruma_tsql::error::Result;
use daruma_tsql::instance::SEEDING_RATE;
use daruma_tsql::messages;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// What a primary does on a connection that was made for a copy.
pub(in crate::hadr) struct SeedServer {
    group: Weak<Group>,
    /// If the other side has files already.
    sums: Mutex<Option<Arc<Sums>>>,
}

impl SeedServer {
    pub(in crate::hadr) fn new(group: Weak<Group>) -> SeedServer {
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

/// Pages of one part beside what the other side has: as many as are alike in that.
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
    let pages = room.chunks_exact(PAGE_BYTES).zip(&known);
    let stays = pages.map(|(page, known)| matches!(known, Known::Sum(sum) if *sum == sum_of(page)));
    // What follows and is not alike is read again in the next step.
    let (stay, count) = alike(stays);
    if stay {
        return Ok(Compared::Same(count));
    }
    part.truncate(at + count as usize * PAGE_BYTES);
    Ok(Compared::Differ(part, count))
}

/// Of pages that stay or do not: does the first of them, and how many are like it?
fn alike(mut stays: impl Iterator<Item = bool>) -> (bool, u32) {
    let first = stays.next() == Some(true);
    let others = stays.take_while(|s| *s == first).count();
    (first, u32::try_from(1 + others).unwrap_or(u32::MAX))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_differs_travels_without_those_around_it() {
        let of = |text: &str| alike(text.chars().map(|c| c == '='));
        assert_eq!(of("======="), (true, 7));
        assert_eq!(of("===!==="), (true, 3));
        assert_eq!(of("!==="), (false, 1));
        assert_eq!(of("!!="), (false, 2));
        assert_eq!(of("!"), (false, 1));
    }
}
