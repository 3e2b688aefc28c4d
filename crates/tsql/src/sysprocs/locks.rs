//! Application locks: sp_getapplock and sp_releaseapplock over the lock manager's named locks.
//!
//! A lock of the transaction belongs to the session's lock owner and goes with the transaction; a lock of the session
//! belongs to a second owner, which is emptied when the session ends or is reset.
//!
//! Results: 0 granted, 1 granted after waiting, -1 timed out, -2 cancelled, -3 deadlock victim, -999 bad call.

use super::define::{Procedure, integer};
use crate::error::{Result, SqlError};
use crate::session::SystemCall;
use daruma_base::DatabaseId;
use daruma_storage::{LockDescription, LockMode, LockResource, Owner, StorageError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) const PROCEDURES: &[Procedure] = &[
    Procedure::native(
        "sp_getapplock",
        "@Resource nvarchar(255); @LockMode varchar(32); @LockOwner varchar(32) = Transaction; @LockTimeout int = NULL; @DbPrincipal sysname = public",
        get,
    ),
    Procedure::native(
        "sp_releaseapplock",
        "@Resource nvarchar(255); @LockOwner varchar(32) = Transaction; @DbPrincipal sysname = public",
        release,
    ),
];

const BAD_CALL: i32 = -999;

/// Name of the lock of an application resource; other named locks begin otherwise.
const PREFIX: &str = "application ";

fn resource(call: &SystemCall<'_, '_>, principal: usize) -> LockResource {
    let name = call.text(0).unwrap_or_default();
    let principal = call.text(principal).unwrap_or_default();
    LockResource::Name(format!("{PREFIX}{principal} {name}"))
}

fn owner(call: &SystemCall<'_, '_>, index: usize) -> Result<Arc<Owner>> {
    let Some(entry) = call.host().session_entry() else {
        return Err(bad_parameter("@LockOwner"));
    };
    match call
        .text(index)
        .unwrap_or_default()
        .to_ascii_lowercase()
        .as_str()
    {
        "session" => Ok(entry.session_owner.clone()),
        "transaction" if entry.activity.lock().open_transactions > 0 => Ok(entry.owner.clone()),
        "transaction" => {
            let text = "You attempted to acquire a transactional application lock without an active transaction.";
            Err(SqlError::new(15626, 16, 1, text))
        }
        _ => Err(bad_parameter("@LockOwner")),
    }
}

fn bad_parameter(name: &str) -> SqlError {
    SqlError::new(
        15600,
        15,
        1,
        format!(
            "An invalid parameter or option was specified for procedure 'sp_getapplock'. ({name})"
        ),
    )
}

fn mode(text: &str) -> Option<LockMode> {
    Some(match text.to_ascii_lowercase().as_str() {
        "shared" => LockMode::Shared,
        "update" => LockMode::Update,
        "exclusive" => LockMode::Exclusive,
        "intentshared" => LockMode::IntentShared,
        "intentexclusive" => LockMode::IntentExclusive,
        _ => return None,
    })
}

/// Tells the caller what was wrong and gives -999, as the product does.
fn refuse(call: &SystemCall<'_, '_>, error: SqlError) -> Result<i32> {
    call.message(error)?;
    Ok(BAD_CALL)
}

fn get(call: &SystemCall<'_, '_>) -> Result<i32> {
    let owner = match owner(call, 2) {
        Ok(owner) => owner,
        Err(error) => return refuse(call, error),
    };
    let Some(mode) = mode(&call.text(1).unwrap_or_default()) else {
        return refuse(call, bad_parameter("@LockMode"));
    };
    let session_timeout = call.host().settings().lock_timeout_ms;
    let timeout = integer(call, 3).unwrap_or(session_timeout);
    let resource = resource(call, 4);
    let before = owner.lock_timeout_ms.swap(0, Ordering::Relaxed);
    let mut status = acquire(call, &owner, &resource, mode);
    if matches!(status, Ok(-1)) && timeout != 0 {
        owner.lock_timeout_ms.store(timeout, Ordering::Relaxed);
        status = acquire(call, &owner, &resource, mode)
            .map(|status| if status == 0 { 1 } else { status });
    }
    owner.lock_timeout_ms.store(before, Ordering::Relaxed);
    status
}

fn acquire(
    call: &SystemCall<'_, '_>,
    owner: &Arc<Owner>,
    resource: &LockResource,
    mode: LockMode,
) -> Result<i32> {
    let storage = call
        .execution
        .instance()
        .open_database(database(call))?
        .storage;
    match storage.lock(owner, resource.clone(), mode) {
        Ok(()) => Ok(0),
        Err(StorageError::LockTimeout) => Ok(-1),
        Err(StorageError::Deadlock { .. }) => Ok(-3),
        Err(error) => Err(error.into()),
    }
}

fn database(call: &SystemCall<'_, '_>) -> DatabaseId {
    call.host().current_database()
}

fn release(call: &SystemCall<'_, '_>) -> Result<i32> {
    let owner = match owner(call, 1) {
        Ok(owner) => owner,
        Err(error) => return refuse(call, error),
    };
    let resource = resource(call, 2);
    let database = database(call);
    let instance = call.execution.instance();
    let held = instance.engine().locks().into_iter().find(|lock| {
        let same = matches!(&lock.resource, LockDescription::Resource(r) if *r == resource);
        same && lock.granted && lock.owner == owner.id && lock.database == database.0
    });
    let Some(mode) = held.and_then(|lock| short_mode(lock.mode)) else {
        let (principal, name) = (
            call.text(2).unwrap_or_default(),
            call.text(0).unwrap_or_default(),
        );
        let text = format!(
            "Cannot release the application lock (Database Principal: '{principal}', Resource: '{name}') because it is not currently held."
        );
        return refuse(call, SqlError::new(1223, 16, 1, text));
    };
    instance
        .open_database(database)?
        .storage
        .unlock(&owner, &resource, mode);
    Ok(0)
}

/// The mode behind its short name in lock lists.
fn short_mode(name: &str) -> Option<LockMode> {
    Some(match name {
        "S" => LockMode::Shared,
        "U" => LockMode::Update,
        "X" => LockMode::Exclusive,
        "IS" => LockMode::IntentShared,
        "IX" => LockMode::IntentExclusive,
        "SIX" => LockMode::SharedIntentExclusive,
        _ => return None,
    })
}
