//! The locks of single definitions, which are stored as a whole.
//!
//! Whoever changes one takes its lock before he reads it, until his transaction ends, which publishes what it changed before it
//! gives up its locks. [`SessionState::change`](super::SessionState::change) takes the lock too, so that what it compares with is
//! the newest even where a caller has forgotten to.

use crate::instance::login_lock;
use daruma_catalog::{Change, PropertyClass};
use daruma_storage::{LockMode, LockResource};

/// The locks of what a change replaces. What is new has none: its name or all definitions are locked for it. With an object go its
/// extended properties.
pub(super) fn locks_of(change: &Change) -> Vec<(LockResource, LockMode)> {
    let whole = |id: i32| (LockResource::Object(id), LockMode::SchM);
    let part = |name: String| (LockResource::Name(name), LockMode::Exclusive);
    match change {
        Change::PutObject(put) if put.is_new() => Vec::new(),
        Change::PutObject(put) => vec![whole(put.id)],
        Change::DropObject(object) => {
            let of = |class: &PropertyClass| part(properties(*class, object.id));
            let described = PropertyClass::OF_OBJECT.iter().map(of);
            std::iter::once(whole(object.id)).chain(described).collect()
        }
        Change::PutSchema(put) => vec![part(format!("schema number {}", put.id))],
        Change::PutType(put) => vec![part(format!("type {}", put.id))],
        Change::PutDdlTrigger(put) => vec![part(ddl_trigger(put.id))],
        Change::DropDdlTrigger(trigger) => vec![part(ddl_trigger(trigger.id))],
        Change::PutPrincipal(put) => vec![part(format!("principal {}", put.id))],
        Change::PutPermissions(put) => vec![part(permissions(put.grantee))],
        Change::PutProperties(put) => vec![part(properties(put.class, put.major))],
        Change::PutMessages(put) => vec![whole(-put.number)],
        Change::PutLogin(put) => vec![(login_lock(put.id), LockMode::Exclusive)],
        // They go by their numbers, while all definitions are locked.
        Change::DropSchema(_)
        | Change::DropType(_)
        | Change::DropPrincipal(_)
        | Change::DropLogin(_) => Vec::new(),
    }
}

fn ddl_trigger(id: i32) -> String {
    format!("ddl trigger {id}")
}

/// What a principal may.
pub(super) fn permissions(grantee: i32) -> String {
    format!("permissions {grantee}")
}

/// The extended properties of something.
pub(super) fn properties(class: PropertyClass, major: i32) -> String {
    format!("properties {} {major}", class.number())
}

#[cfg(test)]
mod tests {
    use crate::error::Result;
    use crate::instance::{Instance, InstanceOptions, MODEL, PasswordHasher};
    use crate::session::{LoginInfo, Session};
    use daruma_catalog::{
        Change, DatabaseCatalog, Object, ObjectKind, PropertyClass, PropertyDef, PropertySet, Put,
        SCHEMA_DBO, SchemaDef,
    };
    use std::path::Path;
    use std::sync::Arc;

    struct NoHasher;

    impl PasswordHasher for NoHasher {
        fn hash(&self, password: &str) -> Result<String> {
            Ok(password.to_string())
        }

        fn verify(&self, password: &str, hash: &str) -> bool {
            password == hash
        }
    }

    fn instance() -> Arc<Instance> {
        let disk = daruma_sim::SimDisk::new(1);
        let env = daruma_sim::env(&disk, 1);
        let options = InstanceOptions {
            server_name: "DARUMA".to_string(),
            buffer_pool_pages: 4_096,
            work_memory_bytes: None,
            password_hasher: Arc::new(NoHasher),
            host_description: "test".to_string(),
        };
        Instance::start(env, Path::new("/data"), options).unwrap()
    }

    fn session(instance: &Arc<Instance>) -> Session {
        let login = LoginInfo {
            login: "sa".to_string(),
            ..LoginInfo::default()
        };
        Session::new(instance, login).unwrap()
    }

    fn committed(session: &Session, change: Change) -> Result<()> {
        let done = session.state.change(MODEL, change);
        match &done {
            Ok(()) => session.state.commit_parts(None)?,
            Err(_) => {
                session.state.rollback_all()?;
            }
        }
        done
    }

    fn synonym(name: &str) -> Object {
        Object {
            id: 901_578_250,
            schema_id: SCHEMA_DBO,
            name: name.to_string(),
            created_utc: 0,
            modified_utc: 0,
            kind: ObjectKind::Synonym {
                target: "[t]".to_string(),
            },
        }
    }

    fn schema(name: &str) -> SchemaDef {
        SchemaDef {
            id: 5,
            name: name.to_string(),
            principal_id: 1,
        }
    }

    fn properties(name: &str) -> PropertySet {
        PropertySet {
            class: PropertyClass::Schema,
            major: 5,
            list: vec![PropertyDef {
                minor: 0,
                name: name.to_string(),
                value: None,
            }],
        }
    }

    /// What a session makes of what it has read, under a name.
    type Make = fn(&DatabaseCatalog, &str) -> Change;

    const KINDS: [Make; 3] = [
        |read, name| Change::PutObject(Put::of(read.object(901_578_250), synonym(name))),
        |read, name| Change::PutSchema(Put::of(read.schema(5), schema(name))),
        |read, name| {
            let known = read.properties_of(PropertyClass::Schema, 5);
            Change::PutProperties(Put::of(known, properties(name)))
        },
    ];

    #[test]
    fn what_was_made_of_an_old_reading_is_refused() {
        for make in KINDS {
            let instance = instance();
            let (one, other) = (session(&instance), session(&instance));
            let read = || one.state.catalog(MODEL).unwrap();
            let empty = read();
            committed(&other, make(&empty, "a")).unwrap();
            // One of the same number was made meanwhile.
            let refused = committed(&one, make(&empty, "b")).map_err(|e| e.number);
            assert_eq!(refused, Err(2801));
            let old = read();
            committed(&other, make(&old, "c")).unwrap();
            let refused = committed(&one, make(&old, "d")).map_err(|e| e.number);
            assert_eq!(refused, Err(2801));
            assert!(make(&read(), "e").is_of(&read()));
            committed(&one, make(&read(), "e")).unwrap();
        }
    }

    #[test]
    fn what_the_own_transaction_has_put_is_what_its_next_change_is_made_of() {
        for make in KINDS {
            let instance = instance();
            let one = session(&instance);
            let read = || one.state.catalog(MODEL).unwrap();
            let empty = read();
            one.state.change(MODEL, make(&empty, "a")).unwrap();
            let refused = one.state.change(MODEL, make(&empty, "b"));
            assert_eq!(refused.map_err(|e| e.number), Err(2801));
            one.state.change(MODEL, make(&read(), "c")).unwrap();
            one.state.commit_parts(None).unwrap();
        }
    }

    #[test]
    fn an_object_that_has_changed_is_not_dropped() {
        let instance = instance();
        let (one, other) = (session(&instance), session(&instance));
        let read = || one.state.catalog(MODEL).unwrap();
        committed(&other, KINDS[0](&read(), "a")).unwrap();
        let old = read().object(901_578_250).cloned().unwrap();
        committed(&other, KINDS[0](&read(), "b")).unwrap();
        let refused = committed(&one, Change::DropObject(old)).map_err(|e| e.number);
        assert_eq!(refused, Err(2801));
        let now = read().object(901_578_250).cloned().unwrap();
        committed(&one, Change::DropObject(now)).unwrap();
    }
}
