//! The sessions in a database, and whether another may come: SINGLE_USER.
//!
//! Theory: a session is inside while the database is its current one, and visits it while it works in it from another (a name of
//! three parts, a procedure of it), until its request and its transaction have ended. In SINGLE_USER all who are inside or visit
//! are one session; threads of the server are no sessions.
//!
//! Invariant: while `is_single`, `inside` and `visitors` name one session at most. It is checked and changed under one latch, so that
//! nobody comes between the last who left and the option.

use parking_lot::Mutex;

#[derive(Default)]
struct Within {
    /// Sessions whose current database it is.
    inside: Vec<i32>,
    /// Sessions that visit it; known while it is in SINGLE_USER alone.
    visitors: Vec<i32>,
    is_single: bool,
}

impl Within {
    fn has_other(&self, spid: i32) -> bool {
        self.inside.iter().chain(&self.visitors).any(|s| *s != spid)
    }

    fn admits(&self, spid: i32) -> bool {
        !self.is_single || !self.has_other(spid)
    }
}

/// The door of a database.
#[derive(Default)]
pub(super) struct Door(Mutex<Within>);

impl Door {
    /// A session makes the database its current one. Is it let in?
    pub fn enter(&self, spid: i32) -> bool {
        let mut within = self.0.lock();
        let admitted = within.admits(spid);
        if admitted {
            within.inside.push(spid);
        }
        admitted
    }

    /// A session has another current database, or has ended.
    pub fn leave(&self, spid: i32) {
        remove_one(&mut self.0.lock().inside, spid);
    }

    /// A session works in the database. `None`: anybody may. Else: is it let in, until it ends its visit?
    pub fn visit(&self, spid: i32) -> Option<bool> {
        let mut within = self.0.lock();
        if !within.is_single {
            return None;
        }
        let admitted = within.admits(spid);
        if admitted {
            within.visitors.push(spid);
        }
        Some(admitted)
    }

    /// A visit ends.
    pub fn end_visit(&self, spid: i32) {
        remove_one(&mut self.0.lock().visitors, spid);
    }

    /// Sessions that are inside.
    pub fn count(&self) -> i32 {
        i32::try_from(self.0.lock().inside.len()).unwrap_or(i32::MAX)
    }

    /// Is it in SINGLE_USER, and another session's?
    pub fn is_held_by_other(&self, spid: i32) -> bool {
        !self.0.lock().admits(spid)
    }

    /// SINGLE_USER, unless another session is inside. Was it done?
    pub fn make_single(&self, spid: i32) -> bool {
        let mut within = self.0.lock();
        // Visitors there are where it is in SINGLE_USER already.
        let free = within.inside.iter().all(|s| *s == spid);
        within.is_single |= free;
        free
    }

    /// What the definition says from now on.
    pub fn set_single(&self, is_single: bool) {
        self.0.lock().is_single = is_single;
    }
}

fn remove_one(spids: &mut Vec<i32>, spid: i32) {
    if let Some(at) = spids.iter().position(|s| *s == spid) {
        spids.swap_remove(at);
    }
}
