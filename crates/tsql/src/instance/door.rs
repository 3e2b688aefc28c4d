//! The sessions in a database, and whether another may come: SINGLE_USER, and changes that nobody else may see.
//!
//! Theory: a session is inside while the database is its current one, and visits it while it works in it from another (a name of
//! three parts, a procedure of it, a transaction), until its request and its transaction have ended. In SINGLE_USER all who are
//! inside or visit are one session; threads of the server are no sessions. Who must be alone for a moment (READ_ONLY, OFFLINE, DROP)
//! shuts the door first, looks then whether he is, and opens it when he is done; who comes meanwhile waits for that. Where it takes
//! as long as a backup or restore does, he is refused. Who ends the sessions that are there (WITH ROLLBACK) wants the database from
//! then on: others wait before they come, or they would keep him out for ever where each comes before the last has left. Who waits
//! without ending them does not want it: those who are there may wait for one whom that would keep out.
//!
//! Invariants
//! 1. While `is_single`, `inside` and `visitors` name one session at most. It is checked and changed under one latch, so that
//!    nobody comes between the last who left and the option.
//! 2. While the door is shut, nobody comes but the one who has shut it.
//! 3. While somebody wants the database, nobody comes but he and those who are there, and nobody else shuts the door.

use super::change::{GoOn, PATIENCE_STEP};
use crate::error::Result;
use parking_lot::{Condvar, Mutex, MutexGuard};

#[derive(Default)]
struct Within {
    /// Sessions whose current database it is.
    inside: Vec<i32>,
    /// Sessions that visit it.
    visitors: Vec<i32>,
    is_single: bool,
    /// The session that has shut the door.
    shut_by: Option<i32>,
    /// It stays shut for long.
    refuses: bool,
    /// The session that waits until the others have left.
    wanted_by: Option<i32>,
}

impl Within {
    fn has_other(&self, spid: i32) -> bool {
        self.inside.iter().chain(&self.visitors).any(|s| *s != spid)
    }

    fn has(&self, spid: i32) -> bool {
        self.inside.contains(&spid) || self.visitors.contains(&spid)
    }

    fn admits(&self, spid: i32) -> bool {
        !self.is_single || !self.has_other(spid)
    }

    fn keeps_waiting(&self, spid: i32) -> bool {
        match self.shut_by {
            Some(by) => by != spid,
            None => is_other(self.wanted_by, spid) && !self.has(spid),
        }
    }
}

fn is_other(by: Option<i32>, spid: i32) -> bool {
    by.is_some_and(|by| by != spid)
}

/// How a session is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reception {
    Admitted,
    /// It is another session's.
    Refused,
    /// The door is shut for long.
    InTransition,
}

/// The door of a database.
#[derive(Default)]
pub(super) struct Door {
    within: Mutex<Within>,
    opened: Condvar,
}

impl Door {
    /// A session makes the database its current one.
    pub fn enter(&self, spid: i32, go_on: GoOn<'_>) -> Result<Reception> {
        self.receive(spid, go_on, |within| &mut within.inside)
    }

    /// A session works in the database from another one, until it ends its visit.
    pub fn visit(&self, spid: i32, go_on: GoOn<'_>) -> Result<Reception> {
        self.receive(spid, go_on, |within| &mut within.visitors)
    }

    fn receive(
        &self,
        spid: i32,
        go_on: GoOn<'_>,
        list: impl FnOnce(&mut Within) -> &mut Vec<i32>,
    ) -> Result<Reception> {
        let mut within = self.within.lock();
        while within.keeps_waiting(spid) {
            if within.refuses {
                return Ok(Reception::InTransition);
            }
            self.opened.wait_for(&mut within, PATIENCE_STEP);
            MutexGuard::unlocked(&mut within, go_on)?;
        }
        if !within.admits(spid) {
            return Ok(Reception::Refused);
        }
        list(&mut within).push(spid);
        Ok(Reception::Admitted)
    }

    /// Lets nobody come who is not there, until [`Door::want_no_more`]. False when somebody wants it already.
    pub fn want(&self, spid: i32) -> bool {
        let mut within = self.within.lock();
        let is_free = within.wanted_by.is_none();
        if is_free {
            within.wanted_by = Some(spid);
        }
        is_free
    }

    /// The end of [`Door::want`] that was true.
    pub fn want_no_more(&self) {
        self.within.lock().wanted_by = None;
        self.opened.notify_all();
    }

    /// Keeps others out until [`Door::open`]. False when somebody else is there, wants it, or does the same.
    pub fn shut(&self, spid: i32) -> bool {
        let mut within = self.within.lock();
        let is_free = within.shut_by.is_none()
            && !is_other(within.wanted_by, spid)
            && !within.has_other(spid);
        if is_free {
            within.shut_by = Some(spid);
        }
        is_free
    }

    /// The door that was shut stays so for long: who waits for it, or comes, is refused.
    pub fn refuse(&self) {
        self.within.lock().refuses = true;
        self.opened.notify_all();
    }

    /// The end of [`Door::shut`] that was done.
    pub fn open(&self) {
        let mut within = self.within.lock();
        (within.shut_by, within.refuses) = (None, false);
        drop(within);
        self.opened.notify_all();
    }

    /// Sessions that are inside or visit.
    pub fn sessions(&self) -> Vec<i32> {
        let within = self.within.lock();
        within
            .inside
            .iter()
            .chain(&within.visitors)
            .copied()
            .collect()
    }

    /// Is it in SINGLE_USER?
    pub fn is_single(&self) -> bool {
        self.within.lock().is_single
    }

    /// A session has another current database, or has ended.
    pub fn leave(&self, spid: i32) {
        remove_one(&mut self.within.lock().inside, spid);
    }

    /// A visit ends.
    pub fn end_visit(&self, spid: i32) {
        remove_one(&mut self.within.lock().visitors, spid);
    }

    /// Sessions that are inside.
    pub fn count(&self) -> i32 {
        i32::try_from(self.within.lock().inside.len()).unwrap_or(i32::MAX)
    }

    /// Is it in SINGLE_USER, and another session's?
    pub fn is_held_by_other(&self, spid: i32) -> bool {
        !self.within.lock().admits(spid)
    }

    /// SINGLE_USER from now on, or not.
    pub fn set_single(&self, is_single: bool) {
        self.within.lock().is_single = is_single;
    }
}

fn remove_one(spids: &mut Vec<i32>, spid: i32) {
    if let Some(at) = spids.iter().position(|s| *s == spid) {
        spids.swap_remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::change::ALWAYS;
    use crate::messages;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn nobody_comes_while_the_door_is_shut() {
        let door = Door::default();
        door.enter(1, ALWAYS).expect("open");
        door.visit(3, ALWAYS).expect("open");
        assert!(!door.shut(1), "another session visits");
        door.end_visit(3);
        assert!(door.shut(1));
        assert!(!door.shut(2), "somebody else has shut it");
        let no_more = || Err(messages::error(3617, &[]));
        assert!(door.visit(3, &no_more).is_err());
        assert!(door.enter(3, &no_more).is_err());
        assert_eq!(door.visit(1, ALWAYS).expect("its own"), Reception::Admitted);
        assert_eq!(door.sessions(), [1, 1]);
        door.refuse();
        let come = |spid| door.visit(spid, ALWAYS).expect("at once");
        assert_eq!(come(3), Reception::InTransition);
        assert_eq!(come(1), Reception::Admitted);
        door.open();
        assert_eq!(door.visit(3, ALWAYS).expect("open"), Reception::Admitted);
    }

    #[test]
    fn who_wants_a_database_is_the_next_to_have_it() {
        let door = Door::default();
        door.enter(1, ALWAYS).expect("open");
        door.visit(2, ALWAYS).expect("open");
        assert!(door.want(3));
        assert!(!door.want(4), "somebody wants it already");
        let no_more = || Err(messages::error(3617, &[]));
        assert!(door.visit(4, &no_more).is_err());
        assert!(door.enter(4, &no_more).is_err());
        // Those who are there go on.
        door.visit(1, ALWAYS).expect("is there");
        door.enter(2, ALWAYS).expect("is there");
        door.end_visit(1);
        door.leave(1);
        door.end_visit(2);
        assert!(!door.shut(3), "one is still there");
        door.leave(2);
        assert!(!door.shut(4), "it is another's turn");
        assert!(door.shut(3));
        assert_eq!(door.visit(3, ALWAYS).expect("its own"), Reception::Admitted);
        door.want_no_more();
        assert!(door.visit(4, &no_more).is_err(), "it is shut");
        door.open();
        door.visit(4, ALWAYS).expect("open");
        assert!(door.want(5), "nobody wants it any more");
    }

    #[test]
    fn who_has_shut_the_door_comes_though_another_wants_the_database() {
        let door = Door::default();
        assert!(door.shut(1));
        assert!(door.want(2));
        assert_eq!(door.visit(1, ALWAYS).expect("its own"), Reception::Admitted);
    }

    #[test]
    fn who_waits_at_the_door_is_told_when_it_is_opened_or_stays_shut() {
        type Step<'a> = &'a dyn Fn(&Door);
        let shut: Step<'_> = &|door| assert!(door.shut(1));
        let cases: [(Step<'_>, Step<'_>, Reception); 5] = [
            (shut, &Door::open, Reception::Admitted),
            (
                shut,
                &|door| {
                    door.set_single(true);
                    door.open();
                },
                Reception::Refused,
            ),
            (shut, &Door::refuse, Reception::InTransition),
            (
                &|door| assert!(door.want(1)),
                &Door::want_no_more,
                Reception::Admitted,
            ),
            (
                &|door| assert!(door.want(1) && door.shut(1)),
                &|door| {
                    door.want_no_more();
                    door.open();
                },
                Reception::Admitted,
            ),
        ];
        for (begin, end, wanted) in cases {
            let door = Door::default();
            door.enter(1, ALWAYS).expect("open");
            begin(&door);
            let (tell, told) = mpsc::channel();
            let received = thread::scope(|threads| {
                let door = &door;
                let waiter = threads.spawn(move || {
                    door.visit(2, &|| {
                        // Nobody listens any more when it is asked again.
                        let _ = tell.send(());
                        Ok(())
                    })
                });
                told.recv().expect("it waits");
                end(door);
                waiter.join().expect("no panic").expect("not cancelled")
            });
            assert_eq!(received, wanted);
        }
    }
}
