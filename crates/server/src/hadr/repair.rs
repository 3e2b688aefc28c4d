//! Pages that one replica lost and another has: automatic page repair.
//!
//! Theory: whoever could not read a page says so (`suspect_pages`); the statement has failed by then. A thread of the group looks at the
//! page once more and asks with a position that is above all changes of the page: the primary all replicas that are connected, with
//! the end of its log; a secondary the primary, with how far it has redone. The answer comes from who has redone everything below and has not
//! changed the page since ([`daruma_storage::Mending`]); the first one that is whole counts. Nobody waits for this thread.
//!
//! | found | page_status |
//! |---|---|
//! | said, and not looked at yet | 2 |
//! | asked for | 3 |
//! | put in place, or whole already | 5 |
//! | nobody is there, nobody has it, nobody answered in time; a page that copies do not mend | 6; said again, it is asked for again |
//!
//! A page that redo needs: redo has ended there, in the midst of a block. The copy is opened anew, and its redo held where a restart begins,
//! while its log goes on; the page is asked for with the end of what is hard on all participants, so that it is newer than redo and never to be
//! taken back. Redo passes it by then as a restart does with pages that are newer, and readers come when it is as far.
//!
//! Invariants
//! 1. An answer counts that was asked for: of this page, at this position, in this epoch, from one who was asked.
//! 2. What waits is bounded: [`WAITING_MAX`] pages, as many questions, [`ROWS_MAX`] rows of a database.

use super::group::Group;
use super::part::{DatabasePart, PartState};
use daruma_base::{DatabaseId, Lsn, PageId};
use daruma_group::commit::{EpochId, ReplicaId};
use daruma_group::replica::Following;
use daruma_group::transport::Link;
use daruma_group::wire::{Message, PageWanted};
use daruma_storage::{Database, Mending, PageRoll};
use daruma_tsql::instance::hadr::{Availability, PageRepair};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pages that wait for their content, and questions that wait for redo.
const WAITING_MAX: usize = 100;
/// Rows of `dm_hadr_auto_page_repair` for one database; the product's own limit.
const ROWS_MAX: usize = 100;
/// Whoever was asked has so long to redo what it needs, and to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often somebody looks whether redo is far enough, and whether time has run out.
const TICK: Duration = Duration::from_millis(50);

/// A page that redo needs is asked for again after so long.
const AGAIN: Duration = Duration::from_secs(1);
/// Redo ends for good where it meets a page so often, given back or not.
const MET_MAX: u8 = 3;

const QUEUED: u8 = 2;
const ASKED: u8 = 3;
const REPAIRED: u8 = 5;
const FAILED: u8 = 6;

/// What a group has to do about damaged pages.
#[derive(Default)]
pub(super) struct Repairs {
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Default)]
struct State {
    /// Pages that were said to be damaged.
    said: VecDeque<(u128, PageId)>,
    /// Questions of others.
    questions: VecDeque<Question>,
    answers: VecDeque<Answer>,
    rows: Vec<Row>,
    awaited: Vec<Awaited>,
    /// Pages that redo has met, and how often.
    met: Vec<(u128, PageId, u8)>,
}

/// A page for which the redo of a database waits.
struct Awaited {
    database: u128,
    page: PageId,
    again_at: Instant,
}

struct Row {
    database: u128,
    shown: PageRepair,
}

struct Question {
    link: Arc<Link>,
    database: u128,
    wanted: PageWanted,
    until: Instant,
}

struct Answer {
    from: ReplicaId,
    database: u128,
    wanted: PageWanted,
    content: Option<Arc<[u8]>>,
}

/// A page that others were asked for.
struct Pending {
    database: u128,
    wanted: PageWanted,
    storage: Arc<Database>,
    /// Those who have not answered.
    asked: Vec<ReplicaId>,
    until: Instant,
}

impl Repairs {
    /// A page of a database could not be read.
    fn say(&self, database: u128, row: PageRepair) {
        let mut state = self.state.lock();
        let page = PageId::new(row.file, row.page);
        if state.said.len() >= WAITING_MAX || state.said.contains(&(database, page)) {
            return;
        }
        state.said.push_back((database, page));
        state.put_row(database, row);
        self.came.notify_all();
    }

    /// Messages of others about pages; any other message is given back.
    pub(super) fn received(&self, link: &Arc<Link>, message: Message) -> Option<Message> {
        let mut state = self.state.lock();
        match message {
            Message::PageAsk { database, wanted } => {
                let refused = Message::PageGiven {
                    database,
                    wanted,
                    content: None,
                };
                if state.questions.len() >= WAITING_MAX {
                    link.send(refused);
                    return None;
                }
                state.questions.push_back(Question {
                    link: link.clone(),
                    database,
                    wanted,
                    until: Instant::now() + ANSWER_TIMEOUT,
                });
            }
            Message::PageGiven {
                database,
                wanted,
                content,
            } => {
                // Nobody asked for so many.
                if state.answers.len() < WAITING_MAX {
                    state.answers.push_back(Answer {
                        from: link.peer().replica,
                        database,
                        wanted,
                        content,
                    });
                }
            }
            other => return Some(other),
        }
        self.came.notify_all();
        None
    }

    /// Does redo of a database wait for a page?
    pub(super) fn is_awaited(&self, database: u128) -> bool {
        let state = self.state.lock();
        state.awaited.iter().any(|a| a.database == database)
    }

    /// Redo is to wait for a page. False: it has met the page too often.
    fn hold(&self, database: u128, page: PageId) -> bool {
        let mut state = self.state.lock();
        let is_full = state.met.len() >= WAITING_MAX;
        let known = state
            .met
            .iter_mut()
            .find(|m| (m.0, m.1) == (database, page));
        match known {
            Some((.., times)) if *times >= MET_MAX => return false,
            Some((.., times)) => *times += 1,
            None if is_full => return false,
            None => state.met.push((database, page, 1)),
        }
        state.awaited.retain(|a| a.database != database);
        state.awaited.push(Awaited {
            database,
            page,
            again_at: Instant::now(),
        });
        true
    }

    fn release(&self, database: u128, page: PageId) {
        let mut state = self.state.lock();
        state
            .awaited
            .retain(|a| (a.database, a.page) != (database, page));
    }

    /// Awaited pages whose turn has come.
    fn due(&self) -> Vec<(u128, PageId)> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let due = state.awaited.iter_mut().filter(|a| a.again_at <= now);
        due.map(|a| {
            a.again_at = now + AGAIN;
            (a.database, a.page)
        })
        .collect()
    }

    fn awaits(&self, database: u128, page: PageId) -> bool {
        let state = self.state.lock();
        let mut awaited = state.awaited.iter();
        awaited.any(|a| (a.database, a.page) == (database, page))
    }

    /// The thread is to look whether its group has stopped.
    pub(super) fn wake(&self) {
        self.came.notify_all();
    }

    pub(super) fn rows(&self) -> Vec<PageRepair> {
        let state = self.state.lock();
        state.rows.iter().map(|row| row.shown.clone()).collect()
    }

    fn set_status(&self, database: u128, page: PageId, status: u8, now_utc: i64) {
        let mut state = self.state.lock();
        if let Some(row) = state.row(database, page) {
            (row.status, row.modified_utc) = (status, now_utc);
        }
    }
}

impl State {
    fn row(&mut self, database: u128, page: PageId) -> Option<&mut PageRepair> {
        let is_it = |row: &&mut Row| {
            row.database == database && (row.shown.file, row.shown.page) == (page.file, page.page)
        };
        self.rows.iter_mut().find(is_it).map(|row| &mut row.shown)
    }

    fn put_row(&mut self, database: u128, shown: PageRepair) {
        let is_it = |row: &Row| {
            row.database == database && (row.shown.file, row.shown.page) == (shown.file, shown.page)
        };
        self.rows.retain(|row| !is_it(row));
        let of_it = self.rows.iter().filter(|row| row.database == database);
        if of_it.count() >= ROWS_MAX
            && let Some(oldest) = self.rows.iter().position(|row| row.database == database)
        {
            self.rows.remove(oldest);
        }
        self.rows.push(Row { database, shown });
    }
}

impl Group {
    /// A page of one of the group's databases could not be read. False: the database is none of them.
    pub(super) fn page_is_damaged(&self, id: DatabaseId, page: PageId, error_type: i16) -> bool {
        let parts = self.parts.lock();
        let Some(part) = parts.iter().find(|p| p.entry.id() == id) else {
            return false;
        };
        let number = part.number();
        drop(parts);
        let row = PageRepair {
            database_id: id,
            file: page.file,
            page: page.page,
            error_type,
            status: QUEUED,
            modified_utc: self.common.instance.now_utc(),
        };
        self.repairs.say(number, row);
        true
    }

    /// The thread.
    pub(super) fn repair_pages(self: &Arc<Self>) {
        let mut pending: Vec<Pending> = Vec::new();
        while !self.is_stopped() {
            let (said, questions, answers) = self.next_repairs(pending.is_empty());
            let due = self.repairs.due();
            said.into_iter()
                .chain(due)
                .for_each(|(database, page)| self.begin_repair(database, page, &mut pending));
            let waiting = questions.into_iter().filter_map(|q| self.answer(q));
            let waiting: Vec<Question> = waiting.collect();
            self.repairs.state.lock().questions.extend(waiting);
            answers
                .into_iter()
                .for_each(|answer| self.take_answer(answer, &mut pending));
            let late = pending.extract_if(.., |p| p.asked.is_empty() || p.until <= Instant::now());
            late.for_each(|p| self.give_up(&p));
        }
        pending
            .iter()
            .for_each(|p| p.storage.end_mending(p.wanted.page));
    }

    fn next_repairs(
        &self,
        is_idle: bool,
    ) -> (
        VecDeque<(u128, PageId)>,
        VecDeque<Question>,
        VecDeque<Answer>,
    ) {
        let mut state = self.repairs.state.lock();
        let is_new = |s: &State| !s.said.is_empty() || !s.answers.is_empty();
        if !is_new(&state) && !self.is_stopped() {
            match is_idle && state.questions.is_empty() && state.awaited.is_empty() {
                true => self.repairs.came.wait(&mut state),
                false => drop(self.repairs.came.wait_for(&mut state, TICK)),
            }
        }
        (
            std::mem::take(&mut state.said),
            std::mem::take(&mut state.questions),
            std::mem::take(&mut state.answers),
        )
    }

    /// Redo of a database has ended at a damaged page: it begins anew, and waits for the page.
    pub(super) fn redo_needs(
        self: &Arc<Self>,
        part: &DatabasePart,
        page: PageId,
        is_checksum: bool,
    ) {
        let PartState::Followed {
            secondary, copy, ..
        } = &part.state
        else {
            return;
        };
        let number = part.number();
        if !PageRoll::is_restorable(page) || !self.repairs.hold(number, page) {
            return;
        }
        self.set_availability(&part.entry, Availability::Closed);
        self.node.remove(number);
        copy.stop();
        part.entry.take_open();
        // Its log is fenced: what is not on disk is redone.
        let _ = secondary.close();
        let followed = self
            .standing(part.id)
            .and_then(|file| self.follow(part.id, &part.entry, file, None, Lsn::MAX));
        match followed {
            Ok(()) => {
                let instance = &self.common.instance;
                instance.page_was_damaged(part.entry.id(), page, is_checksum);
            }
            Err(error) => {
                self.repairs.release(number, page);
                self.down(part, &error.message);
            }
        }
    }

    // --- asking

    fn begin_repair(&self, database: u128, page: PageId, pending: &mut Vec<Pending>) {
        let is_it = |p: &Pending| p.database == database && p.wanted.page == page;
        if pending.iter().any(is_it) {
            return self.set_status(database, page, ASKED);
        }
        let Some(part) = self.part(database) else {
            return self.repairs.release(database, page);
        };
        let storage = match &part.state {
            PartState::Led { storage, .. } => storage.clone(),
            PartState::Followed { secondary, .. } => secondary.unread_database().clone(),
            PartState::Down => return self.set_status(database, page, FAILED),
        };
        match storage.begin_mending(page) {
            Ok(Mending::Wanted) if pending.len() < WAITING_MAX => {}
            Ok(Mending::Needless) => return self.repaired(database, page),
            _ => {
                storage.end_mending(page);
                return self.set_status(database, page, FAILED);
            }
        }
        // Above every change of the page: while it is damaged, nobody changes it.
        let asked = self.position(&part, page).map(|(epoch, below)| {
            let wanted = PageWanted { epoch, page, below };
            (wanted, self.ask_for(database, wanted))
        });
        match asked {
            Some((wanted, asked)) if !asked.is_empty() => {
                self.set_status(database, page, ASKED);
                pending.push(Pending {
                    database,
                    wanted,
                    storage,
                    asked,
                    until: Instant::now() + ANSWER_TIMEOUT,
                });
            }
            _ => {
                storage.end_mending(page);
                self.set_status(database, page, FAILED);
            }
        }
    }

    /// The epoch, and the position with which a page is asked for.
    fn position(&self, part: &DatabasePart, page: PageId) -> Option<(EpochId, Lsn)> {
        match &part.state {
            PartState::Led { storage, led, .. } => Some((led.epoch(), storage.sync_blocks().ok()?)),
            PartState::Followed {
                secondary,
                followed,
                ..
            } => {
                let follows = followed.following() == Following::Primary;
                let below = match self.repairs.awaits(part.number(), page) {
                    true => followed.here().min(followed.quorum()),
                    false => secondary.applied(),
                };
                follows.then(|| (followed.record().epoch, below))
            }
            PartState::Down => None,
        }
    }

    /// Asks whoever may have the page; who that is.
    fn ask_for(&self, database: u128, wanted: PageWanted) -> Vec<ReplicaId> {
        let primary = self.reign().primary;
        let may_have = |to: ReplicaId| self.is_primary() || to.number() == primary;
        let links = self.node.connections().into_iter();
        let mut asked = Vec::new();
        for (to, link) in links.filter(|(to, _)| may_have(*to)) {
            link.send(Message::PageAsk { database, wanted });
            if !asked.contains(&to) {
                asked.push(to);
            }
        }
        asked
    }

    fn take_answer(&self, answer: Answer, pending: &mut Vec<Pending>) {
        let is_it = |p: &Pending| {
            p.database == answer.database
                && p.wanted == answer.wanted
                && p.asked.contains(&answer.from)
        };
        let Some(at) = pending.iter().position(is_it) else {
            // Another was faster, or nobody asked.
            return;
        };
        let mended = answer
            .content
            .as_deref()
            .map(|content| self.mend(&pending[at], content, answer.from));
        match mended {
            Some(true) => {
                let done = pending.swap_remove(at);
                done.storage.end_mending(done.wanted.page);
                self.repaired(done.database, done.wanted.page);
            }
            // Somebody else may have it.
            _ => pending[at].asked.retain(|r| *r != answer.from),
        }
    }

    fn mend(&self, pending: &Pending, content: &[u8], from: ReplicaId) -> bool {
        let PageWanted { epoch, page, below } = pending.wanted;
        let part = self.part(pending.database);
        let is_now = part.as_ref().and_then(|p| self.epoch_of(&p.state)) == Some(epoch);
        if !is_now {
            return false;
        }
        if self.repairs.awaits(pending.database, page)
            && let Some(PartState::Followed { secondary, .. }) = part.map(|p| p.state)
        {
            secondary.raise_floor(below);
        }
        let mended = pending.storage.mend(page, content, below);
        if let Err(error) = &mended {
            self.common.log(&format!(
                "Page {page} of database '{}' as replica {} gave it could not be used: {error}",
                pending.storage.name(),
                from.number()
            ));
        }
        mended.is_ok()
    }

    fn epoch_of(&self, state: &PartState) -> Option<EpochId> {
        match state {
            PartState::Led { led, .. } => Some(led.epoch()),
            PartState::Followed { followed, .. } => Some(followed.record().epoch),
            PartState::Down => None,
        }
    }

    fn give_up(&self, pending: &Pending) {
        let page = pending.wanted.page;
        pending.storage.end_mending(page);
        self.set_status(pending.database, page, FAILED);
        if self.repairs.awaits(pending.database, page) {
            // It is asked for again.
            return;
        }
        self.common.log(&format!(
            "Page {page} of database '{}' is damaged, and no other replica gave it.",
            pending.storage.name()
        ));
    }

    fn repaired(&self, database: u128, page: PageId) {
        self.set_status(database, page, REPAIRED);
        let Some(part) = self.part(database) else {
            return;
        };
        let is_primary = matches!(part.state, PartState::Led { .. });
        if let PartState::Followed { copy, .. } = &part.state
            && self.repairs.awaits(database, page)
        {
            self.repairs.release(database, page);
            copy.hold(false);
        }
        self.common
            .instance
            .page_was_repaired(part.entry.id(), page, is_primary);
        self.common.log(&format!(
            "Always On Availability Groups successfully repaired physical page {page} in database \"{}\" by obtaining a copy from the partner.",
            part.entry.name()
        ));
    }

    fn set_status(&self, database: u128, page: PageId, status: u8) {
        let now = self.common.instance.now_utc();
        self.repairs.set_status(database, page, status, now);
    }

    // --- answering

    /// Answers, or gives the question back where redo is not far enough yet.
    fn answer(&self, question: Question) -> Option<Question> {
        let Question {
            link,
            database,
            wanted,
            until,
        } = &question;
        let content = match self.redone(*database, wanted) {
            Redone::Everything(storage) => storage.page_below(wanted.page, wanted.below),
            Redone::NotYet if *until > Instant::now() && !link.is_closed() => {
                return Some(question);
            }
            Redone::NotYet | Redone::Never => Ok(None),
        };
        // Whoever asks learns that it is not to be had; what is wrong with the page here is for readers here to find.
        let content = content.ok().flatten().map(Arc::from);
        link.send(Message::PageGiven {
            database: *database,
            wanted: *wanted,
            content,
        });
        None
    }

    fn redone(&self, database: u128, wanted: &PageWanted) -> Redone {
        let Some(part) = self.part(database) else {
            return Redone::Never;
        };
        if self.epoch_of(&part.state) != Some(wanted.epoch) {
            return Redone::Never;
        }
        match &part.state {
            PartState::Led { storage, .. } => Redone::Everything(storage.clone()),
            PartState::Followed { secondary, .. } if secondary.applied() >= wanted.below => {
                Redone::Everything(secondary.unread_database().clone())
            }
            PartState::Followed { .. } => Redone::NotYet,
            PartState::Down => Redone::Never,
        }
    }
}

/// Is everything below the position of a question redone here?
enum Redone {
    Everything(Arc<Database>),
    NotYet,
    Never,
}
