//! Health of an owner: for what a server gives a group away that it holds a lease of (CLUSTER_TYPE = WSFC).
//!
//! | condition | asked for by | seen by |
//! |---|---|---|
//! | the server is gone, frozen, or out of the quorum's reach | any level | the cluster, when the lease runs out |
//! | the server does not answer: `sp_server_diagnostics` for HEALTH_CHECK_TIMEOUT, or the thread that changes the group's roles for twice as long | FAILURE_CONDITION_LEVEL 2 and above | each tick |
//! | the log of master or tempdb has failed | FAILURE_CONDITION_LEVEL 3 (the default) and above | each tick |
//! | memory beside pages is used up so far that requests wait for each other, for HEALTH_CHECK_TIMEOUT, and one was refused (701) | FAILURE_CONDITION_LEVEL 4 and above | each tick |
//! | the system has given no thread, as each connection needs one, for HEALTH_CHECK_TIMEOUT | FAILURE_CONDITION_LEVEL 5 | each tick, by beginning one |
//! | the log of a database of the group has failed | DB_FAILOVER = ON | each tick |
//!
//! The group goes to the first of `automatic` that is there and has everything; where there is none it stays, since nobody would do better.
//! What makes every server ill must not send a group round for ever: one server gives it away n - 1 times in six hours at most, n being the
//! number of replicas (the default of Windows Server Failover Clustering). It counts since it was started: the cluster has no clock that
//! all its nodes share over restarts, what made the server ill may be gone with its process, and whatever restarts it again and again moves the
//! group by that, which no count could stop.
//!
//! Threads that wait for each other without end are not found out here by name: whoever needs them does not answer.
//!
//! A thread of its own looks, since any other may be the one that does not answer. It counts silence only while it runs itself: a server
//! that was frozen as a whole is the cluster's to judge, and well when it goes on.

use super::group::{Group, Task};
use super::part::{DatabasePart, PartState};
use super::warrant::Ownership;
use crate::listener::STACK_BYTES as CONNECTION_STACK_BYTES;
use daruma_group::replica::Authority;
use daruma_tsql::instance::{MASTER, TEMPDB};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Failovers are counted over so long.
const PERIOD: Duration = Duration::from_hours(6);
/// Between two tries.
const TRY_AGAIN: Duration = Duration::from_secs(5);
/// Between two looks.
const TICK: Duration = Duration::from_millis(500);
/// The thread of the roles may be busy for so many times HEALTH_CHECK_TIMEOUT: it opens databases, and waits for sessions to end.
const ROLES_PATIENCE: u32 = 2;
/// FAILURE_CONDITION_LEVEL from which a server that does not answer gives its groups away.
const LEVEL_SILENT: u8 = 2;
/// FAILURE_CONDITION_LEVEL from which a server without its system databases gives its groups away.
const LEVEL_SYSTEM: u8 = 3;
/// FAILURE_CONDITION_LEVEL from which a server without memory gives its groups away.
const LEVEL_MEMORY: u8 = 4;
/// FAILURE_CONDITION_LEVEL from which a server that gets no threads gives its groups away.
const LEVEL_THREADS: u8 = 5;

/// What was found, and done about it.
#[derive(Default)]
pub(super) struct Health {
    /// What the error log was told last.
    told: Option<String>,
    /// When the group was given away, oldest first.
    moves: VecDeque<Instant>,
    /// When it may be tried once more. Those who cannot lead have a pause of their own: they must not wait for this one.
    again: Option<Instant>,
    server: Silence,
    roles: Silence,
    memory: Exhaustion,
    threads: Lasting,
}

/// For how long something is so.
#[derive(Default)]
struct Lasting {
    looked: Option<Instant>,
    lasts: Duration,
}

impl Lasting {
    /// Was it so at this look, and since the one before? A look that comes late counts as one in time.
    fn look(&mut self, is_so: bool, now: Instant) -> Duration {
        let since = self
            .looked
            .map_or(Duration::ZERO, |at| now.duration_since(at));
        self.lasts = match is_so {
            true => self.lasts + since.min(2 * TICK),
            false => Duration::ZERO,
        };
        self.looked = Some(now);
        self.lasts
    }
}

/// For how long somebody has not answered.
#[derive(Default)]
struct Silence {
    answers: u64,
    time: Lasting,
}

impl Silence {
    /// So many answers came so far.
    fn look(&mut self, answers: u64, now: Instant) -> Duration {
        let is_silent = answers == self.answers;
        self.answers = answers;
        self.time.look(is_silent, now)
    }
}

/// For how long memory has been used up.
#[derive(Default)]
struct Exhaustion {
    /// Requests that had been refused before it began.
    refused: Option<u64>,
    time: Lasting,
}

impl Exhaustion {
    /// It counts when a request was refused meanwhile: requests that only wait for each other come to their ends.
    fn look(&mut self, is_exhausted: bool, refused: u64, now: Instant) -> Duration {
        if !is_exhausted {
            self.refused = None;
        }
        // Whatever was refused before this server led, or before memory was used up, is over.
        let before = *self.refused.get_or_insert(refused);
        let lasts = self.time.look(is_exhausted, now);
        match refused > before {
            true => lasts,
            false => Duration::ZERO,
        }
    }
}

impl Health {
    /// Is this another trouble than the one before?
    fn note(&mut self, trouble: &Option<String>) -> bool {
        let is_news = self.told != *trouble;
        self.told.clone_from(trouble);
        is_news
    }

    /// May the group be given away once more?
    fn may_move(&mut self, now: Instant, moves_max: usize) -> bool {
        while let Some(oldest) = self.moves.front() {
            if now.duration_since(*oldest) < PERIOD {
                break;
            }
            self.moves.pop_front();
        }
        self.moves.len() < moves_max
    }

    fn moved(&mut self, now: Instant) {
        self.moves.push_back(now);
    }

    /// May it be tried now? It is, then.
    fn may_try(&mut self, now: Instant) -> bool {
        let is_early = self.again.is_some_and(|at| now < at);
        if !is_early {
            self.again = Some(now + TRY_AGAIN);
        }
        !is_early
    }
}

impl Group {
    /// A thread that gives the group away if this server is too ill to lead it, by the group's own rules.
    pub(super) fn watch_health(self: &Arc<Self>) {
        while self.may_be_given_away() && !self.is_stopped() {
            self.look_after_health();
            std::thread::sleep(TICK);
        }
    }

    /// A manager outside looks after that by itself.
    fn may_be_given_away(&self) -> bool {
        self.warrant.as_ref().is_some_and(|w| w.ballots().is_none())
    }

    fn look_after_health(self: &Arc<Self>) {
        let Some(warrant) = &self.warrant else { return };
        let owns = matches!(warrant.ownership(), Ownership::Held(_));
        let silence = self.silence(owns, Instant::now());
        if !owns {
            return;
        }
        let shortage = self.shortage(Instant::now(), gets_thread);
        let trouble = self.trouble(silence, shortage, Authority::stands(&**warrant));
        let (is_news, may_move) = {
            let others = self.others().len();
            let mut health = self.health.lock();
            let is_news = health.note(&trouble);
            (is_news, health.may_move(Instant::now(), others))
        };
        let Some(trouble) = trouble else { return };
        let may_try = may_move && self.health.lock().may_try(Instant::now());
        // Before anything is written: the disk may be what hangs.
        let moved = may_try.then(|| self.let_go_for_health()).flatten();
        if is_news {
            let name = self.def().name.clone();
            let then = match may_move {
                true => "Another server is to lead the group, if one has everything.",
                false => "It was given away too often in the last hours, and stays.",
            };
            self.common
                .log(&format!("Availability group '{name}': {trouble}. {then}"));
        }
        if moved == Some(true) {
            self.health.lock().moved(Instant::now());
        }
        if moved.is_some() {
            self.tell(Task::LetGo);
        }
    }

    /// Who has not answered for as long as it may. Time counts from when this server is the owner.
    fn silence(&self, owns: bool, now: Instant) -> Option<&'static str> {
        let timeout = Duration::from_millis(self.def().options.health_check_timeout_ms.into());
        let (server, roles) = (self.common.diagnosis.answers(), self.ticks());
        let mut health = self.health.lock();
        if !owns {
            (health.server, health.roles) = Default::default();
            (health.memory, health.threads) = Default::default();
            return None;
        }
        // Nobody is asked where there is no thread to ask.
        let server = server.map(|answers| health.server.look(answers, now));
        let roles = health.roles.look(roles, now);
        if server.is_some_and(|silent| silent >= timeout) {
            return Some("sp_server_diagnostics has");
        }
        (roles >= timeout * ROLES_PATIENCE).then_some("the thread of its roles has")
    }

    /// What the server has lacked for as long as it may, by the group's rules. `gets_thread` tries whether there are threads.
    fn shortage(&self, now: Instant, gets_thread: impl Fn() -> bool) -> Option<&'static str> {
        let options = &self.def().options;
        let timeout = Duration::from_millis(options.health_check_timeout_ms.into());
        let level = options.failure_condition_level;
        let (is_exhausted, refused) = self.common.instance.memory.exhaustion();
        let lacks_threads = level >= LEVEL_THREADS && !gets_thread();
        let mut health = self.health.lock();
        let memory = health.memory.look(is_exhausted, refused, now);
        let threads = health.threads.look(lacks_threads, now);
        lacking(level, timeout, memory, threads)
    }

    /// What is wrong here that the group is to be given away for. One that has not begun to lead has nothing but its silence.
    fn trouble(
        &self,
        silent: Option<&str>,
        shortage: Option<&str>,
        stands: bool,
    ) -> Option<String> {
        let options = &self.def().options;
        if let Some(who) = silent.filter(|_| options.failure_condition_level >= LEVEL_SILENT) {
            return Some(format!(
                "{who} not answered for HEALTH_CHECK_TIMEOUT ({} ms)",
                options.health_check_timeout_ms
            ));
        }
        if !stands {
            return None;
        }
        let databases = options.db_failover.then(|| self.failed_database());
        let systems = options.failure_condition_level >= LEVEL_SYSTEM;
        let lacks = |what| {
            format!(
                "{what} for HEALTH_CHECK_TIMEOUT ({} ms)",
                options.health_check_timeout_ms
            )
        };
        databases
            .flatten()
            .or_else(|| systems.then(|| self.failed_system()).flatten())
            .or_else(|| shortage.map(lacks))
    }

    fn failed_database(&self) -> Option<String> {
        let parts = self.parts.lock().clone();
        parts.iter().find_map(|part: &DatabasePart| {
            let PartState::Led { storage, .. } = &part.state else {
                return None;
            };
            let why = storage.failure()?;
            Some(format!(
                "database '{}' has failed ({why})",
                part.entry.name()
            ))
        })
    }

    fn failed_system(&self) -> Option<String> {
        [MASTER, TEMPDB].into_iter().find_map(|id| {
            let entry = self.common.instance.database(id)?;
            let why = entry.held()?.storage.failure()?;
            Some(format!("database '{}' has failed ({why})", entry.name()))
        })
    }
}

/// What has been lacked for as long as a group of this level bears.
fn lacking(
    level: u8,
    timeout: Duration,
    memory: Duration,
    threads: Duration,
) -> Option<&'static str> {
    if level >= LEVEL_MEMORY && memory >= timeout {
        return Some("requests are refused memory, which has been used up");
    }
    let lacks_threads = level >= LEVEL_THREADS && threads >= timeout;
    lacks_threads.then_some("the system has given no thread")
}

/// Does the system give a thread like those of connections?
fn gets_thread() -> bool {
    let builder = std::thread::Builder::new().name("hadr thread".into());
    let begun = builder.stack_size(CONNECTION_STACK_BYTES).spawn(|| ());
    // Nothing of it can fail.
    begun.is_ok_and(|thread| thread.join().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_given_away_so_often_in_six_hours_and_no_oftener() {
        let mut health = Health::default();
        let begin = Instant::now();
        let minutes = |n: u64| begin + Duration::from_mins(n);
        assert!(
            !health.may_move(begin, 0),
            "a group of one has nowhere to go"
        );
        for n in 0..2 {
            assert!(health.may_move(minutes(n), 2));
            health.moved(minutes(n));
        }
        assert!(!health.may_move(minutes(2), 2));
        assert!(!health.may_move(minutes(359), 2));
        assert!(health.may_move(minutes(360), 2), "the first is over");
        health.moved(minutes(360));
        assert!(!health.may_move(minutes(360), 2));
        assert!(health.may_try(begin));
        assert!(!health.may_try(begin + TRY_AGAIN / 2));
        assert!(health.may_try(begin + TRY_AGAIN));
    }

    #[test]
    fn silence_is_what_passed_between_looks_without_an_answer() {
        let mut silence = Silence::default();
        let begin = Instant::now();
        let at = |n: u32| begin + n * TICK;
        assert_eq!(silence.look(0, at(0)), Duration::ZERO);
        assert_eq!(silence.look(0, at(1)), TICK);
        assert_eq!(silence.look(0, at(2)), 2 * TICK);
        assert_eq!(silence.look(1, at(3)), Duration::ZERO);
        assert_eq!(silence.look(1, at(4)), TICK);
        // The process was frozen: nobody could have answered.
        assert_eq!(silence.look(1, at(4000)), 3 * TICK);
        assert_eq!(silence.look(2, at(4001)), Duration::ZERO);
    }

    #[test]
    fn memory_is_gone_when_it_stays_so_and_somebody_was_refused() {
        let mut memory = Exhaustion::default();
        let begin = Instant::now();
        let at = |n: u32| begin + n * TICK;
        assert_eq!(memory.look(false, 7, at(0)), Duration::ZERO);
        assert_eq!(memory.look(true, 7, at(1)), Duration::ZERO);
        assert_eq!(memory.look(true, 7, at(2)), Duration::ZERO, "they wait");
        assert_eq!(memory.look(true, 8, at(3)), 3 * TICK);
        assert_eq!(memory.look(true, 8, at(4)), 4 * TICK);
        assert_eq!(memory.look(false, 9, at(5)), Duration::ZERO);
        assert_eq!(memory.look(true, 9, at(6)), Duration::ZERO, "as before");
        assert_eq!(memory.look(true, 10, at(7)), 2 * TICK);
        let mut fresh = Exhaustion::default();
        for n in 8..12 {
            let lasts = fresh.look(true, 10, at(n));
            assert_eq!(lasts, Duration::ZERO, "refused before it was looked at");
        }
        assert_eq!(fresh.look(true, 11, at(12)), 4 * TICK);
    }

    #[test]
    fn threads_lack_for_as_long_as_none_was_given() {
        let mut threads = Lasting::default();
        let begin = Instant::now();
        let at = |n: u32| begin + n * TICK;
        assert_eq!(threads.look(!gets_thread(), at(0)), Duration::ZERO);
        assert_eq!(threads.look(true, at(1)), TICK);
        assert_eq!(threads.look(true, at(2)), 2 * TICK);
        assert_eq!(threads.look(!gets_thread(), at(3)), Duration::ZERO);
    }

    #[test]
    fn each_level_bears_less_than_the_one_below() {
        let timeout = 60 * TICK;
        let (little, long) = (timeout - TICK, timeout);
        for level in 1..=5 {
            assert_eq!(lacking(level, timeout, little, little), None);
            let memory = lacking(level, timeout, long, little);
            assert_eq!(memory.is_some(), level >= 4, "{level}");
            let threads = lacking(level, timeout, little, long);
            assert_eq!(threads.is_some(), level == 5, "{level}");
        }
    }

    #[test]
    fn a_trouble_is_told_once_and_again_when_it_comes_back() {
        let mut health = Health::default();
        let trouble = Some("its log".to_string());
        assert!(!health.note(&None));
        assert!(health.note(&trouble));
        assert!(!health.note(&trouble));
        assert!(health.note(&None));
        assert!(health.note(&trouble));
    }
}
