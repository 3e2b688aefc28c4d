//! Having a database to oneself, as options need it that no other session may see change.

use crate::error::Result;
use crate::instance::{DatabaseEntry, Shut, spid_of_owner};
use crate::messages;
use crate::session::Execution;
use daruma_base::cancel::CancelReason;
use daruma_syntax::ast::Termination;
use std::time::Duration;

/// How long WITH ROLLBACK waits for the sessions it ended to leave.
const EXCLUSIVE_WAIT: Duration = Duration::from_secs(20);
const EXCLUSIVE_STEP: Duration = Duration::from_millis(5);
/// How long sessions whose clients have gone may take to end: their work is rolled back.
const FAREWELL_WAIT: Duration = Duration::from_secs(5);
const FAREWELL_STEP: Duration = Duration::from_millis(1);

/// Other sessions whose transaction has written in the database, whatever their current one is. In one whose log failed nobody's
/// transaction can end any more: recovery ends it.
fn writers(ex: &Execution<'_>, entry: &DatabaseEntry) -> Vec<i32> {
    let held = entry.held();
    let Some(open) = held.filter(|open| open.storage.check_readable().is_ok()) else {
        return Vec::new();
    };
    let sessions = &ex.instance().sessions;
    let owners = open.storage.writers().into_iter();
    let spids = owners.map(spid_of_owner).filter(|s| *s != ex.spid());
    spids.filter(|s| sessions.get(*s).is_some()).collect()
}

/// Keeps others out if nobody is there. The door is shut before it is looked whether somebody's transaction has written: none
/// begins in between.
fn shut<'e>(ex: &Execution<'_>, entry: &'e DatabaseEntry) -> Option<Shut<'e>> {
    let shut = entry.shut(ex.spid())?;
    writers(ex, entry).is_empty().then_some(shut)
}

/// The database for this session alone; `None` when another session uses it. One whose client has closed the connection is waited
/// for: whoever closed it rightly thinks that nobody is there any more.
pub(crate) fn unused<'e>(ex: &Execution<'_>, entry: &'e DatabaseEntry) -> Result<Option<Shut<'e>>> {
    let clock = &ex.instance().env().clock;
    let start = clock.monotonic();
    loop {
        if let Some(shut) = shut(ex, entry) {
            return Ok(Some(shut));
        }
        let users = users(ex, entry);
        let sessions = ex.instance().sessions.all();
        let mut others = sessions.iter().filter(|s| users.contains(&s.spid));
        let waited = clock.monotonic().saturating_sub(start);
        if others.any(|s| !s.is_client_gone()) || waited > FAREWELL_WAIT {
            return Ok(None);
        }
        ex.check_cancel()?;
        clock.sleep(FAREWELL_STEP);
    }
}

/// Other sessions that are in the database, visit it, or have a transaction that has written there.
fn users(ex: &Execution<'_>, entry: &DatabaseEntry) -> Vec<i32> {
    let mut users = writers(ex, entry);
    users.extend(entry.sessions().into_iter().filter(|s| *s != ex.spid()));
    users
}

/// Waits until this session is the only one in the database, and the only one with a transaction that has written there; WITH
/// ROLLBACK ends the others, from when on nobody comes. Nor does anybody before the guard is dropped.
pub(super) fn exclusive<'e>(
    ex: &Execution<'_>,
    entry: &'e DatabaseEntry,
    termination: Option<Termination>,
) -> Result<Shut<'e>> {
    let clock = &ex.instance().env().clock;
    let start = clock.monotonic();
    let patience = match termination {
        Some(Termination::NoWait) => {
            return shut(ex, entry).ok_or_else(|| messages::error(5070, &[&entry.name()]));
        }
        Some(Termination::RollbackAfter { seconds }) => {
            Some(Duration::from_secs(u64::from(seconds)))
        }
        Some(Termination::RollbackImmediate) => Some(Duration::ZERO),
        None => None,
    };
    let mut wanted = None;
    loop {
        if let Some(shut) = shut(ex, entry) {
            return Ok(shut);
        }
        ex.check_cancel()?;
        let waited = clock.monotonic().saturating_sub(start);
        if let Some(patience) = patience
            && waited >= patience
            && wanted.is_none()
        {
            wanted = entry.want(ex.spid());
            if wanted.is_some() {
                end_sessions(ex, entry);
            }
        }
        if patience.is_some_and(|p| waited > p + EXCLUSIVE_WAIT) {
            return Err(messages::error(5061, &[&entry.name()]));
        }
        clock.sleep(EXCLUSIVE_STEP);
    }
}

fn end_sessions(ex: &Execution<'_>, entry: &DatabaseEntry) {
    let users = users(ex, entry);
    for session in ex.instance().sessions.all() {
        if users.contains(&session.spid) {
            session.cancel.set(CancelReason::Kill);
        }
    }
}
