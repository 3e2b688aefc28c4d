//! Having a database to oneself, as options need it that no other session may see change.

use crate::error::Result;
use crate::host::Host;
use crate::instance::DatabaseEntry;
use crate::instance::spid_of_owner;
use crate::messages;
use crate::session::Execution;
use daruma_base::cancel::CancelReason;
use daruma_syntax::ast::Termination;
use std::sync::Arc;
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

/// Does another session use the database? One whose client has closed the connection is waited for: whoever closed it
/// rightly thinks that nobody is there any more.
pub(crate) fn is_in_use(ex: &Execution<'_>, entry: &DatabaseEntry) -> Result<bool> {
    let own = i32::from(ex.current_database() == entry.id());
    let clock = &ex.instance().env().clock;
    let start = clock.monotonic();
    loop {
        let writers = writers(ex, entry);
        if entry.session_count() <= own && writers.is_empty() {
            return Ok(false);
        }
        let all = ex.instance().sessions.all();
        let mut others = all.iter().filter(|s| {
            let is_there = s.activity.lock().database == Some(entry.id());
            s.spid != ex.spid() && (is_there || writers.contains(&s.spid))
        });
        let waited = clock.monotonic().saturating_sub(start);
        if others.any(|s| !s.is_client_gone()) || waited > FAREWELL_WAIT {
            return Ok(true);
        }
        ex.check_cancel()?;
        clock.sleep(FAREWELL_STEP);
    }
}

/// Waits until this session is the only one in the database, and the only one with a transaction that has written there; WITH
/// ROLLBACK ends the others.
pub(super) fn exclusive(
    ex: &Execution<'_>,
    entry: &Arc<DatabaseEntry>,
    termination: Option<Termination>,
) -> Result<()> {
    let own = i32::from(ex.current_database() == entry.id());
    let alone = || entry.session_count() <= own && writers(ex, entry).is_empty();
    if alone() {
        return Ok(());
    }
    let clock = &ex.instance().env().clock;
    let start = clock.monotonic();
    let patience = match termination {
        Some(Termination::NoWait) => return Err(messages::error(5070, &[&entry.name()])),
        Some(Termination::RollbackAfter { seconds }) => {
            Some(Duration::from_secs(u64::from(seconds)))
        }
        Some(Termination::RollbackImmediate) => Some(Duration::ZERO),
        None => None,
    };
    let mut ended = false;
    loop {
        if alone() {
            return Ok(());
        }
        ex.check_cancel()?;
        let waited = clock.monotonic().saturating_sub(start);
        if let Some(patience) = patience
            && waited >= patience
            && !ended
        {
            end_sessions(ex, entry);
            ended = true;
        }
        if patience.is_some_and(|p| waited > p + EXCLUSIVE_WAIT) {
            return Err(messages::error(5061, &[&entry.name()]));
        }
        clock.sleep(EXCLUSIVE_STEP);
    }
}

fn end_sessions(ex: &Execution<'_>, entry: &DatabaseEntry) {
    let writers = writers(ex, entry);
    for session in ex.instance().sessions.all() {
        let is_there = session.activity.lock().database == Some(entry.id());
        if (is_there || writers.contains(&session.spid)) && session.spid != ex.spid() {
            session.cancel.set(CancelReason::Kill);
        }
    }
}
